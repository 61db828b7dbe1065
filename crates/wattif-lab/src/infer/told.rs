//! What is said of a workload made from a trace: what was assumed, and what could not be told.

use super::devices::Devices;
use super::late_jobs::LateJobs;
use super::passes::Passes;
use super::steps::Step;
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::trace::{Event, Record, Recording};

/// What was found in a recording.
pub(super) struct Found<'a> {
    pub recording: &'a Recording,
    pub threads: &'a BTreeMap<Pid, Thread>,
    pub background: &'a BTreeSet<Pid>,
    /// `SCHED_IDLE` threads.
    pub give_way: &'a BTreeSet<Pid>,
    pub late: &'a LateJobs,
    pub passes: &'a Passes,
    /// Threads that wait for a condition.
    pub conds: usize,
    pub devices: &'a Devices,
    /// Threads bound to CPUs.
    pub pinned: usize,
}

impl Found<'_> {
    /// In sentences.
    pub(super) fn told(&self) -> Vec<String> {
        let mut notes = self.taken();
        let (recording, [timers, tokens], pinned) = (self.recording, self.waits(), self.pinned);
        notes.extend(super::memory::told(self.threads));
        notes.extend(super::background::told(recording, self.background, "background"));
        notes.push(format!(
            "{} threads; {timers} waits end by timers and devices, {tokens} by another thread; {pinned} threads taken as bound to CPUs",
            self.threads.len()
        ));
        if !recording.has_irq_flags {
            notes.push("records do not say which wake-ups come from interrupts: taken from who ran".into());
        }
        if !recording.tells_policies() {
            notes.push("a trace shows priorities only: SCHED_BATCH looks like SCHED_OTHER, and so does SCHED_IDLE, SCHED_RR like SCHED_FIFO, where no other thread competed (--policy NAME=…)".into());
            notes.extend(super::background::told(
                recording,
                self.give_way,
                "SCHED_IDLE (no other waits while they run)",
            ));
        }
        notes.extend(moved(recording));
        notes.extend(super::throttled::told(recording));
        notes.extend(self.highest());
        notes
    }

    /// Waits that end by timers and devices, and by another thread.
    fn waits(&self) -> [usize; 2] {
        let by_thread = |s: &&Step| s.waits() && s.blocked_since().is_none() || matches!(s, Step::Token { .. });
        let steps = || self.threads.values().flat_map(|t| &t.steps);
        let tokens = steps().filter(by_thread).count();
        [steps().filter(|s| s.waits()).count() - tokens, tokens]
    }

    /// What threads were taken for.
    fn taken(&self) -> Vec<String> {
        let Passes { channels, joined, barriers, .. } = self.passes;
        let (hidden, sides, members) = (self.passes.asked.hidden, channels.sides.len(), barriers.values().sum::<u32>());
        let share = |t: &&Thread| t.steps.iter().any(|s| matches!(s, Step::Lock(_)));
        let sharing = self.threads.values().filter(share).count();
        let mut notes = Vec::new();
        let mut say = |count: usize, note: String| {
            if count > 0 {
                notes.push(note);
            }
        };
        let n = self.late.never_late;
        let would = match self.late.others_catch_up {
            true => "catch up, instead of starting again from then",
            false => "start again from then, instead of catching up",
        };
        say(n, format!("{n} periodic threads were never late: that late ones would {would}, is a guess"));
        let n = self.threads.values().filter(|t| t.steps.contains(&Step::Yield)).count();
        say(
            n,
            format!(
                "{n} threads taken as yielding after pieces of work of one length, also where no other thread was there to take the CPU"
            ),
        );
        let n = self.passes.pools.len();
        say(n, format!("{n} threads taken as pools: whoever of them waits takes the next request"));
        say(hidden, format!("{hidden} requests put in for which no thread of a pool was free"));
        let n = barriers.len();
        say(n, format!("{members} threads taken as meeting at barriers: whoever comes last wakes the others"));
        say(
            sharing,
            format!(
                "{sharing} threads taken as sharing a lock: where one got it without waiting, it is put where it mostly waits"
            ),
        );
        let teams = self.passes.teams.values();
        let of =
            |shared| teams.clone().filter(move |t| t.iterations.is_some() == shared).map(|t| t.others + 1).sum::<u32>();
        let [n, own] = [true, false].map(|shared| of(shared) as usize);
        say(
            n,
            format!(
                "{n} threads taken as a team that shares out the work of its loops: whoever is free takes the next part"
            ),
        );
        say(
            own,
            format!("{own} threads taken as a team that meets at the ends of its loops: each has its own part of them"),
        );
        let n = self.passes.locks;
        say(n, format!("{n} waits for locks that threads of one name held: taken as long as they were"));
        let n = channels.hidden;
        say(
            n,
            format!(
                "{sides} threads taken as passing messages, all of them the same work: {n} put in that were written while the reader was busy"
            ),
        );
        let n = self.conds;
        say(n, format!("{n} threads taken as waiting for a condition: what wakes them while they are busy is lost"));
        let n = joined.hidden;
        say(n, format!("{n} wake-ups of busy threads put in: their wakers never left one out that could be seen"));
        let n = self.passes.reunited;
        say(n, format!("{n} ends of children put in that their parents did not have to wait for: they wait for all"));
        let n = self.passes.shared.servers.len();
        say(n, format!("{n} threads taken as servers of one queue: whoever of them is free takes the next request"));
        for (kind, servers) in self.devices {
            say(
                1,
                format!(
                    "{kind}: waits after D taken as a device's that serves {servers} at once: others wait in a queue"
                ),
            );
        }
        let n = self.passes.clients;
        say(n, format!("{n} threads taken as clients: some of their requests found the server busy"));
        notes
    }

    /// Threads of the highest priority, of which nothing says what they are.
    fn highest(&self) -> Option<String> {
        let seen = |t: &Thread| t.first_prio == 0 || t.steps.contains(&Step::Attr(0));
        let known =
            |pid: &Pid| self.recording.threads.get(&pid.0).is_some_and(|t| t.policy_was_told() || t.dl.is_some());
        let highest = self.threads.iter().filter(|(pid, t)| seen(t) && !known(pid)).count();
        (highest > 0).then(|| {
            format!(
                "{highest} threads have the highest priority: taken as SCHED_FIFO 99; of SCHED_DEADLINE a trace tells neither budget nor period"
            )
        })
    }
}

/// Threads that the file says to be in other groups later on.
fn moved(recording: &Recording) -> Option<String> {
    let begins = |pid: Pid| recording.threads.get(&pid.0).map_or(0, |t| t.group);
    let moves = |r: &Record| match r.event() {
        Some(&Event::CgroupAttachTask { pid, group }) => Some(pid).filter(|pid| group != begins(*pid)),
        _ => None,
    };
    let moved: BTreeSet<Pid> = recording.records.iter().filter_map(moves).collect();
    (!recording.groups.is_empty() && !moved.is_empty())
        .then(|| format!("{} threads change their group: they stay in the one they began in", moved.len()))
}
