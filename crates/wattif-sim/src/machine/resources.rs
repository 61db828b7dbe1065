//! What threads share: mutexes, conditions, barriers, semaphores, token queues, devices, work counters, timers. Plain state
//! machines; [`super::program`] drives them and nothing here knows time or CPUs.

use std::collections::VecDeque;
use wattif_model::Pid;
use wattif_model::units::Ns;
use wattif_model::workload::{Chunk, Policy, Release, SchedAttr, SemaphoreSpec, Workload};

/// Rank of a thread in a queue of waiters: lower goes first, equals in order of arrival. As the kernel's futex queues,
/// all fair threads rank the same, and real-time and deadline threads before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(i8);

impl Rank {
    /// All fair threads.
    pub const FAIR: Rank = Rank(100);

    /// Of a thread with these attributes.
    pub fn of(attr: &SchedAttr) -> Rank {
        match attr.policy {
            Policy::Deadline => Rank(-1),
            Policy::Fifo | Policy::Rr => Rank(99 - attr.rt_priority.min(99) as i8),
            Policy::Normal | Policy::Batch | Policy::Idle => Rank::FAIR,
        }
    }
}

/// Threads that wait, best rank first.
#[derive(Clone, Debug, Default)]
pub struct WaitQueue(VecDeque<(Rank, Pid)>);

impl WaitQueue {
    /// Behind all of the same rank.
    pub fn push(&mut self, rank: Rank, pid: Pid) {
        let at = self.0.iter().rposition(|&(r, _)| r <= rank).map_or(0, |i| i + 1);
        self.0.insert(at, (rank, pid));
    }
    /// The first.
    pub fn pop(&mut self) -> Option<Pid> {
        self.0.pop_front().map(|(_, pid)| pid)
    }
    /// The first, left in place.
    pub fn first(&self) -> Option<(Rank, Pid)> {
        self.0.front().copied()
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Nobody?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Its rank changed: behind all of the new one. With the old rank it keeps its place.
    pub fn requeue(&mut self, rank: Rank, pid: Pid) {
        let at = self.0.iter().position(|&(_, p)| p == pid).expect("it waits here");
        if self.0[at].0 != rank {
            self.0.remove(at);
            self.push(rank, pid);
        }
    }
}

/// A mutex. Unlocking frees it and wakes the first waiter, which then has to win it against newcomers, as with a plain
/// futex; one that lends priority is handed to its first waiter instead, as the kernel does for PI futexes.
#[derive(Clone, Debug, Default)]
pub struct Mutex {
    /// Who has it.
    pub owner: Option<Pid>,
    /// Who waits for it.
    pub waiters: WaitQueue,
}

/// A barrier.
#[derive(Clone, Debug, Default)]
pub struct Barrier {
    /// Threads that must arrive.
    pub parties: u32,
    /// Threads that have arrived.
    pub arrived: u32,
    /// Those that wait.
    pub waiters: WaitQueue,
}

/// A counting semaphore; who is woken takes its turn against newcomers.
#[derive(Clone, Debug, Default)]
pub struct Semaphore {
    /// Posts not yet taken.
    pub count: u64,
    /// Posts of a lot that is not complete.
    pub posted: u64,
    /// What it had at the start: with so many, nothing is taken.
    pub initial: u64,
    /// When posts count, and whom they wake.
    pub release: Release,
    /// Its wake-ups are sync.
    pub sync: bool,
    /// Who waits for one.
    pub waiters: WaitQueue,
}

impl Semaphore {
    /// As at the start.
    fn new(spec: &SemaphoreSpec) -> Semaphore {
        let SemaphoreSpec { initial, sync, release, .. } = *spec;
        Semaphore { count: initial.into(), initial: initial.into(), release, sync, ..Semaphore::default() }
    }

    /// One more; how many that wait are to be woken.
    pub fn post(&mut self) -> usize {
        self.posted += 1;
        let all = self.waiters.len();
        let wakes = match self.release {
            Release::Each => all.min(1),
            Release::AllFrom(least) if self.count + 1 >= least.into() => all,
            Release::AllFrom(_) => 0,
            Release::Lots(lot) if self.posted < lot.into() && self.count + self.posted < self.initial => return 0,
            Release::Lots(lot) if self.count < lot.into() => all.min(1),
            Release::Lots(_) => 0,
        };
        self.count += std::mem::take(&mut self.posted);
        wakes
    }

    /// Takes one, if it can: one that was woken for a lot needs a whole one.
    pub fn take(&mut self, woken: bool) -> bool {
        let needs = match self.release {
            Release::Lots(lot) if woken => lot.into(),
            _ => 1,
        };
        let there = self.count >= needs;
        self.count -= u64::from(there);
        there
    }

    /// Is the next one to be woken by one that was woken itself, and has taken what it needed?
    pub fn wakes_next(&self) -> bool {
        matches!(self.release, Release::Lots(lot) if self.count >= lot.into())
    }
}

/// Tokens with the time they were made. A token goes to a thread that spins for it, else to the first that sleeps, else
/// it is kept.
#[derive(Clone, Debug, Default)]
pub struct TokenQueue {
    /// Tokens nobody has taken: their stamps.
    pub tokens: VecDeque<Ns>,
    /// Its wake-ups are sync.
    pub sync: bool,
    /// Threads that spin for one.
    pub spinners: VecDeque<Pid>,
    /// Threads that sleep for one.
    pub waiters: WaitQueue,
}

/// A device: `servers` requests at once, the others in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// Requests it can serve at once.
    pub servers: u32,
    /// Waiting for it is I/O wait.
    pub iowait: bool,
    /// Requests it serves now.
    pub busy: u32,
    /// Whose requests wait.
    pub waiting: VecDeque<Pid>,
}

/// Iterations shared by threads.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Iterations per round.
    pub total: u64,
    /// Iterations not yet taken.
    pub left: u64,
}

impl Counter {
    /// Take a chunk; 0 when nothing is left.
    pub fn take(&mut self, chunk: Chunk) -> u64 {
        let want = match chunk {
            Chunk::Fixed(n) => n,
            Chunk::Guided { parties, min } => (self.left / u64::from(parties.max(1))).max(min),
        };
        let taken = want.max(1).min(self.left);
        self.left -= taken;
        taken
    }
}

/// Everything shared in a workload, by the workload's indices.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Mutexes.
    pub mutexes: Vec<Mutex>,
    /// Conditions: only waiters, no memory.
    pub conds: Vec<WaitQueue>,
    /// Barriers.
    pub barriers: Vec<Barrier>,
    /// Semaphores.
    pub semaphores: Vec<Semaphore>,
    /// Token queues.
    pub queues: Vec<TokenQueue>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Work counters.
    pub counters: Vec<Counter>,
    /// Next expiry of shared timers; unused entries belong to timers every thread has for itself.
    pub timers: Vec<Option<Ns>>,
}

impl Resources {
    /// As they are at the start.
    pub fn new(workload: &Workload) -> Resources {
        Resources {
            mutexes: vec![Mutex::default(); workload.mutexes.len()],
            conds: vec![WaitQueue::default(); workload.conds.len()],
            barriers: workload.barriers.iter().map(|b| Barrier { parties: b.parties, ..Barrier::default() }).collect(),
            semaphores: workload.semaphores.iter().map(Semaphore::new).collect(),
            queues: (workload.queues.iter()).map(|q| TokenQueue { sync: q.sync, ..TokenQueue::default() }).collect(),
            devices: workload
                .devices
                .iter()
                .map(|d| Device { servers: d.servers, iowait: d.iowait, ..Device::default() })
                .collect(),
            counters: workload.counters.iter().map(|c| Counter { total: c.total, left: c.total }).collect(),
            timers: vec![None; workload.timers.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(policy: Policy, rt_priority: u8) -> Rank {
        Rank::of(&SchedAttr { policy, rt_priority, ..SchedAttr::default() })
    }

    #[test]
    fn waiters_go_by_rank_then_arrival() {
        let mut q = WaitQueue::default();
        q.push(Rank::FAIR, Pid(1));
        q.push(rank(Policy::Batch, 0), Pid(2));
        q.push(rank(Policy::Fifo, 10), Pid(3));
        q.push(rank(Policy::Rr, 50), Pid(4));
        q.push(rank(Policy::Deadline, 0), Pid(5));
        q.push(rank(Policy::Fifo, 50), Pid(6));
        q.requeue(Rank::FAIR, Pid(3));
        q.requeue(Rank::FAIR, Pid(1));
        let order: Vec<u32> = std::iter::from_fn(|| q.pop()).map(|p| p.0).collect();
        assert_eq!(order, [5, 4, 6, 1, 2, 3]);
    }

    /// Nothing is there, and three wait.
    fn semaphore(initial: u32, release: Release) -> Semaphore {
        let mut s = Semaphore::new(&SemaphoreSpec { release, ..SemaphoreSpec::new("s", initial) });
        s.count = 0;
        (1..=3).for_each(|pid| s.waiters.push(Rank::FAIR, Pid(pid)));
        s
    }

    #[test]
    fn a_low_water_mark_wakes_all() {
        let mut s = semaphore(8, Release::AllFrom(6));
        let woken: Vec<usize> = (0..7).map(|_| s.post()).collect();
        assert_eq!((woken, s.count), (vec![0, 0, 0, 0, 0, 3, 3], 7));
        // Who does not wait may take what is there below the mark.
        s.count = 1;
        assert!(s.take(false) && !s.take(true) && !s.wakes_next());
    }

    #[test]
    fn lots_count_when_they_are_complete() {
        let mut s = semaphore(8, Release::Lots(4));
        let woken: Vec<(usize, u64)> = (0..7).map(|_| (s.post(), s.count)).collect();
        // The second lot wakes nobody: a whole one was there.
        assert_eq!(woken, [(0, 0), (0, 0), (0, 0), (1, 4), (0, 4), (0, 4), (0, 4)]);
        assert!(s.take(true) && !s.wakes_next());
        // What is left of a lot is for those who come, not for those who were woken.
        assert!(!s.take(true) && s.take(false));
        assert_eq!((s.post(), s.count), (1, 6));
        assert!(s.take(true) && s.wakes_next());
    }

    #[test]
    fn the_last_lot_counts_when_nothing_is_taken_any_more() {
        let mut s = semaphore(8, Release::Lots(4));
        (s.count, s.posted) = (5, 1);
        assert_eq!((s.post(), s.count), (0, 5));
        assert_eq!((s.post(), s.count, s.posted), (0, 8, 0));
    }

    #[test]
    fn counters_give_fixed_and_guided_chunks() {
        let mut c = Counter { total: 100, left: 100 };
        let guided = Chunk::Guided { parties: 4, min: 10 };
        let taken: Vec<u64> = (0..8).map(|_| c.take(guided)).collect();
        assert_eq!(taken, [25, 18, 14, 10, 10, 10, 10, 3]);
        assert_eq!(c.take(Chunk::Fixed(5)), 0);
        c.left = 7;
        assert_eq!([c.take(Chunk::Fixed(5)), c.take(Chunk::Fixed(5)), c.take(Chunk::Fixed(0))], [5, 2, 0]);
    }
}
