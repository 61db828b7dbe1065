//! CPUs that a thread may use, where a trace gives reason to think that it may not use all.
//!
//! A trace does not hold `sched_setaffinity`. What it shows is a thread that waits for its CPU although another is idle. Once may
//! be the scheduler's choice; a balancer would mend it within some ticks. So a thread is taken as bound to the CPUs it ran on since
//! when it happened often, or long, and never the other way round.

use wattif_model::{CpuId, CpuSet};

/// Waiting as long while another CPU is idle means that it may not go there.
const SNUB_NS: u64 = 300_000;
/// So many such waits, of so long together, where it never ran elsewhere.
const SNUBS: u64 = 3;
const WAITED_NS: u64 = 30_000_000;
/// So many where it did before the first of them (a thread binds itself after it was started).
const SNUBS_AFTER_MOVE: u64 = 20;
/// There each stretch of as long is as much as a further wait: a balancer looked that often. Otherwise so many of them are.
const LOOK_NS: u64 = 20_000_000;
const LOOKS_THERE: u64 = 5;
/// On a CPU that is busy for so long without a pause, energy-aware placement has no say any more.
const FULL_NS: u64 = 100_000_000;
/// So many wake-ups on a CPU that is busy, beside an idle one of the same capacity, and one in so many of all.
const SQUEEZES: u32 = 50;
const SQUEEZED_OF: u32 = 4;

/// What was seen of one thread.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    seen_on: CpuSet,
    /// How often it began to run after it had waited.
    times: u32,
    /// Beside any idle CPU, and beside one of the same capacity.
    any: PassedOver,
    equal: PassedOver,
    /// Beside any, on a CPU that had been full for long.
    full: PassedOver,
}

/// What there was while a thread waited for its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// CPUs that were idle all the while, and those of them with its own's capacity.
    pub idle: &'a CpuSet,
    pub equal: &'a CpuSet,
    /// Its own ran another thread when it woke.
    pub squeezed: bool,
    /// For so long had its own been busy when the wait began, ns.
    pub busy_ns: u64,
}

/// Waits beside idle CPUs of some kind.
#[derive(Clone, Debug, Default)]
struct PassedOver {
    /// Where it ran since the first of them.
    seen_since: CpuSet,
    /// CPUs that were idle then.
    idle: CpuSet,
    snubs: u64,
    /// Stretches of `LOOK_NS` in them.
    looks: u64,
    waited_ns: u64,
    squeezes: u32,
}

impl Evidence {
    /// It is switched in on `cpu` after it waited for `waited_ns`.
    pub fn runs(&mut self, cpu: CpuId, waited_ns: u64, beside: &Beside<'_>) {
        self.seen_on.insert(cpu);
        self.times += 1;
        self.any.runs(cpu, waited_ns, beside.idle, beside.squeezed);
        self.equal.runs(cpu, waited_ns, beside.equal, beside.squeezed);
        match beside.busy_ns >= FULL_NS {
            true => self.full.runs(cpu, waited_ns, beside.idle, beside.squeezed),
            false => self.full.seen(cpu),
        }
    }

    /// It waits for `cpu` when the trace ends.
    pub fn still_waits(&mut self, cpu: CpuId, waited_ns: u64, beside: &Beside<'_>) {
        if self.seen_on.contains(cpu) {
            self.runs(cpu, waited_ns, beside);
        }
    }

    /// CPUs it is bound to. `full`: over the whole trace no scheduler would leave a thread on that CPU while another is idle (energy-aware
    /// placement does where there is room left).
    pub fn cpus(&self, comm: &str, full: impl Fn(CpuId) -> bool) -> Option<CpuSet> {
        let per_cpu = ["ksoftirqd/", "cpuhp/", "kworker/", "watchdog/"].iter().find_map(|p| comm.strip_prefix(p));
        let named = per_cpu.and_then(|rest| rest.split([':', '-']).next()?.parse::<u32>().ok());
        if let Some(cpu) = named.filter(|_| !self.seen_on.is_empty()) {
            return Some(CpuSet::one(CpuId(cpu))).filter(|c| self.seen_on.is_subset(c));
        }
        let squeezed = self.equal.squeezes >= SQUEEZES.max(self.times / SQUEEZED_OF) && self.equal.stays();
        if self.full.binds(&self.seen_on) {
            return Some(self.full.seen_since.clone());
        }
        let passed_over = if squeezed { &self.equal } else { &self.any };
        let binds = squeezed || passed_over.binds(&self.seen_on);
        (binds && passed_over.seen_since.iter().all(full)).then(|| passed_over.seen_since.clone())
    }
}

impl PassedOver {
    fn runs(&mut self, cpu: CpuId, waited_ns: u64, idle: &CpuSet, squeezed: bool) {
        // Where its own CPU was idle all the while, it waited for that one to leave a deep state.
        if !idle.is_empty() && !idle.contains(cpu) && (squeezed || waited_ns >= SNUB_NS) {
            if waited_ns >= SNUB_NS {
                self.snubs += 1;
                self.looks = self.looks.saturating_add(waited_ns / LOOK_NS);
                self.waited_ns = self.waited_ns.saturating_add(waited_ns);
            }
            self.squeezes += u32::from(squeezed);
            idle.iter().for_each(|c| self.idle.insert(c));
        }
        self.seen(cpu);
    }

    fn seen(&mut self, cpu: CpuId) {
        if !self.idle.is_empty() {
            self.seen_since.insert(cpu);
        }
    }

    /// It waited often and long for CPUs it stays on, and never ran on those that were idle.
    fn binds(&self, seen_on: &CpuSet) -> bool {
        let always_there = seen_on.is_subset(&self.seen_since);
        let often = match always_there {
            true => self.snubs.saturating_add(self.looks / LOOKS_THERE) >= SNUBS,
            false => self.snubs.saturating_add(self.looks) >= SNUBS_AFTER_MOVE,
        };
        often && self.waited_ns >= WAITED_NS && self.stays()
    }

    fn stays(&self) -> bool {
        !self.seen_since.is_empty() && !self.idle.intersects(&self.seen_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &[u32]) -> CpuSet {
        list.iter().map(|c| CpuId(*c)).collect()
    }
    const MS: u64 = 1_000_000;

    /// On CPUs of one kind.
    fn runs(e: &mut Evidence, cpu: CpuId, waited_ns: u64, idle: CpuSet, squeezed: bool) {
        e.runs(cpu, waited_ns, &Beside { idle: &idle, equal: &idle, squeezed, busy_ns: 0 });
    }

    #[test]
    fn a_thread_that_waits_beside_an_idle_cpu() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(0), 0, cpus(&[]), false); // started somewhere, then bound
        for _ in 0..20 {
            assert_eq!(e.cpus("hog", |_| true), None);
            runs(&mut e, CpuId(1), 2 * MS, cpus(&[0]), false);
        }
        assert_eq!(e.cpus("hog", |_| true), Some(cpus(&[1])));
        runs(&mut e, CpuId(0), 0, cpus(&[]), false);
        assert_eq!(e.cpus("hog", |_| true), None, "it may, after all");
    }

    #[test]
    fn seldom_but_long() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(0), 0, cpus(&[]), false);
        for _ in 0..3 {
            assert_eq!(e.cpus("hog", |_| true), None);
            runs(&mut e, CpuId(1), 150 * MS, cpus(&[0]), false);
        }
        assert_eq!(e.cpus("hog", |_| true), Some(cpus(&[1])));
        let idle = cpus(&[0]);
        let (mut e, beside) = (Evidence::default(), Beside { idle: &idle, equal: &idle, squeezed: false, busy_ns: 0 });
        e.still_waits(CpuId(1), 500 * MS, &beside);
        assert_eq!(e.cpus("hog", |_| true), None, "it never ran there");
        runs(&mut e, CpuId(1), 45 * MS, cpus(&[0]), false);
        assert_eq!(e.cpus("hog", |_| true), None, "once may be chance");
        e.still_waits(CpuId(1), 500 * MS, &beside);
        assert_eq!(e.cpus("hog", |_| true), Some(cpus(&[1])));
    }

    #[test]
    fn a_cpu_that_wakes_up_slowly() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(1), 2 * MS, cpus(&[0, 1]), false);
        (0..20).for_each(|_| runs(&mut e, CpuId(1), 2 * MS, cpus(&[0]), false));
        assert_eq!(e.cpus("hog", |_| true), Some(cpus(&[1])));
    }

    #[test]
    fn a_thread_that_always_preempts_another() {
        let mut e = Evidence::default();
        for _ in 0..SQUEEZES {
            runs(&mut e, CpuId(1), 5_000, cpus(&[0, 2]), true);
        }
        assert_eq!(e.cpus("periodic", |_| true), Some(cpus(&[1])));
        assert_eq!(e.cpus("periodic", |_| false), None, "energy-aware placement packs threads on a CPU with room");
    }

    #[test]
    fn a_thread_that_waits_beside_a_cpu_of_another_kind() {
        let mut e = Evidence::default();
        let (none, little, big) = (cpus(&[]), cpus(&[1]), cpus(&[4]));
        let beside = Beside { idle: &big, equal: &none, squeezed: true, busy_ns: 0 };
        (0..30).for_each(|_| e.runs(CpuId(1), 2 * MS, &beside));
        assert_eq!(e.cpus("packed", |_| false), None, "for all its room, a small CPU takes less energy");
        assert_eq!(e.cpus("background", |_| true), Some(cpus(&[1])));
        let mut e = Evidence::default();
        (0..100).for_each(|_| e.runs(CpuId(4), 5_000, &Beside { idle: &little, ..beside }));
        assert_eq!(e.cpus("app", |_| true), None, "it needs a large CPU");
    }

    #[test]
    fn a_cpu_that_is_full_for_a_while() {
        let idle = cpus(&[0]);
        let waits = |busy_ms| {
            let mut e = Evidence::default();
            let beside = Beside { idle: &idle, equal: &idle, squeezed: false, busy_ns: busy_ms * MS };
            (0..8).for_each(|_| e.runs(CpuId(1), 6 * MS, &beside));
            e
        };
        assert_eq!(waits(50).cpus("burst", |_| false), None, "its CPU has room on the whole");
        assert_eq!(waits(150).cpus("burst", |_| false), Some(cpus(&[1])));
        let mut e = waits(150);
        runs(&mut e, CpuId(2), 0, cpus(&[]), false);
        assert_eq!(e.cpus("burst", |_| false), Some(cpus(&[1, 2])), "seen on another one that never was idle");
    }

    #[test]
    fn by_name() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(3), 0, cpus(&[]), false);
        assert_eq!(e.cpus("kworker/3:1-events", |_| false), Some(cpus(&[3])));
        assert_eq!(e.cpus("kworker/u8:1", |_| false), None);
    }
}
