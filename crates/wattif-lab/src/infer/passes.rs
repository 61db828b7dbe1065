//! The passes over what threads do with each other, in their order.
//!
//! Each takes wake-ups for something that it knows, and the next ones see what is left. So the most particular patterns come first: what a
//! barrier shows would do for a lock, and what a lock shows for messages.

use super::channels::Channels;
use super::joins::Joined;
use super::kin::{self, Families, Kinds};
use super::play::tasks;
use super::requests::{self, Asked};
use super::servers;
use super::shared::Shared;
use super::teams::Teams;
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::platform::Platform;
use wattif_model::trace::Recording;

/// What they found.
pub(super) struct Passes {
    /// How many threads meet at each, by the first of them.
    pub barriers: BTreeMap<Pid, u32>,
    pub teams: Teams,
    pub mutexes: BTreeSet<Pid>,
    /// Waits for locks that threads of one kind held.
    pub locks: usize,
    pub channels: Channels,
    /// Ends of children put in.
    pub reunited: usize,
    pub joined: Joined,
    pub shared: Shared,
    /// Threads that wait for answers.
    pub clients: usize,
    /// The first thread of its pool, for each thread that is in one.
    pub pools: BTreeMap<Pid, Pid>,
    pub asked: Asked,
}

/// Teams are known before; `counted`: servers answer as many at once as they did.
pub(super) fn passes(
    threads: &mut BTreeMap<Pid, Thread>,
    teams: Teams,
    recording: &Recording,
    platform: &Platform,
    (kinds, families): (&Kinds, &Families),
    counted: bool,
) -> Passes {
    let barriers = super::barriers::meet(threads);
    // Threads that meet wake each other both ways, as those do that share a lock.
    let mutexes = super::mutexes::exclude(threads, kinds, || super::ran::ran(recording, platform));
    // What is left of locks, passed on now and then among many other wake-ups, was chance.
    let locks = servers::contended(threads, kinds);
    // Wake-ups within a side are strays here: those of locks are gone.
    let channels = super::channels::messages(threads, kinds, recording, platform);
    // Readers of messages only work when they are woken, as threads of a pool do.
    let steal = super::steals::steal(threads, families);
    // Children are told by their forks, whatever is taken out before.
    let reunited = super::forks::reunite(threads);
    // A parent's children that woke it unseen would be workers that leave wake-ups out.
    let joined = super::joins::join(threads, &kin::apart(threads, kinds, tasks(recording)));
    // Of several servers of one kind a join cannot tell which one was meant: the queue that they share can.
    let shared = super::shared::share(threads, families, &steal);
    // Each server of such a queue would be one of its own to some of the clients.
    let clients = shared.clients + servers::serve(threads, kinds, &steal, counted);
    // Who answers clients is no thread of a pool, and what servers wait for are no tokens any more.
    let mut pools = super::pools::pools(threads, families, &steal);
    // Whether two threads are a pool shows in the requests that are hidden in their work.
    let asked = requests::ask(threads, &mut pools, &steal);
    Passes { barriers, teams, mutexes, locks, channels, reunited, joined, shared, clients, pools, asked }
}
