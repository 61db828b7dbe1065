//! Threads that set their own affinity.
//!
//! A trace does not hold `sched_setaffinity`. But a thread that may not stay where it is calls the stopper of its CPU
//! (`migration/N`), is switched out for it though it could go on, and goes on elsewhere. An exec looks the same: the kernel looks for a
//! better CPU before it loads the program. Where the trace tells of execs, that is the case if one follows; where it does not, a thread that
//! does so again and again sets its affinity, and so does one that goes where another runs.
//!
//! To which CPUs, shows by where it runs from then on.

use std::collections::BTreeMap;
use wattif_model::trace::{Event, Record, Recording};
use wattif_model::{CpuId, CpuSet, Pid};

/// So often, it is no exec, where the trace does not tell of those.
const ROAMS: u32 = 3;
/// Who has run so often since it bound itself has come to know its CPUs.
const KNOWS: u32 = 20;

/// When each thread executed another program for the last time; nobody did in a trace that does not tell of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Execs(BTreeMap<Pid, u64>);

impl Execs {
    /// Of a recording.
    pub(super) fn of(recording: &Recording) -> Execs {
        let exec = |r: &Record| match r.event() {
            Some(Event::SchedProcessExec { pid }) => Some((*pid, r.at.0)),
            _ => None,
        };
        Execs(recording.records.iter().filter_map(exec).collect())
    }

    /// Is it known that the thread executes no other program from now on?
    fn none_after(&self, pid: Pid, at: u64) -> bool {
        !self.0.is_empty() && self.0.get(&pid).is_none_or(|last| *last < at)
    }
}

/// What one thread does of the kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Binds {
    /// It is switched out on this CPU for the stopper that it woke itself.
    sent_from: Option<CpuId>,
    /// How often it went on elsewhere after that.
    sends: u32,
    /// Each time it set its affinity.
    binds: Vec<Bind>,
}

#[derive(Clone, Debug)]
struct Bind {
    /// It had to leave this CPU.
    from: CpuId,
    /// Where it ran from then on, and how often it was switched in.
    on: CpuSet,
    runs: u32,
}

impl Binds {
    /// It wakes the stopper of its own CPU.
    pub(super) fn calls_stopper(&mut self, cpu: CpuId) {
        self.sent_from = Some(cpu);
    }

    /// It is switched out. `sent`: for a stopper, and it could go on.
    pub(super) fn leaves(&mut self, sent: bool) {
        self.sent_from = self.sent_from.filter(|_| sent);
    }

    /// It is switched in: the CPU it was sent away from, if it is on another one now, and the number of this binding, if it is one.
    pub(super) fn enters(
        &mut self,
        (pid, at): (Pid, u64),
        cpu: CpuId,
        execs: &Execs,
    ) -> Option<(CpuId, Option<usize>)> {
        let from = self.sent_from.take().filter(|from| *from != cpu);
        let sent = from.map(|from| {
            self.sends += 1;
            let binds = self.sends >= ROAMS || execs.none_after(pid, at);
            if binds {
                self.binds.push(Bind { from, on: CpuSet::default(), runs: 0 });
            }
            (from, binds.then(|| self.binds.len() - 1))
        });
        if let Some(bind) = self.binds.last_mut() {
            bind.on.insert(cpu);
            bind.runs += 1;
        }
        sent
    }

    /// It never set its affinity.
    pub(super) fn is_empty(&self) -> bool {
        self.binds.is_empty()
    }

    /// The CPUs of a binding: where it ran, if it came to know them or goes from CPU to CPU; else all but the one that it left.
    pub(super) fn cpus(&self, nth: usize, nr_cpus: usize) -> CpuSet {
        let bind = &self.binds[nth];
        match bind.runs >= KNOWS || self.sends >= ROAMS {
            true => bind.on.clone(),
            false => (0..nr_cpus as u32).map(CpuId).filter(|c| *c != bind.from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Pid = Pid(7);

    /// Sent from CPU 1 to CPU 2, and `runs` times there.
    fn sent(execs: &Execs, runs: u32) -> Binds {
        let mut binds = Binds::default();
        binds.calls_stopper(CpuId(1));
        binds.leaves(true);
        for _ in 0..runs {
            binds.enters((ME, 100), CpuId(2), execs);
        }
        binds
    }

    #[test]
    fn an_exec_that_follows_is_one() {
        let before = Execs([(ME, 90)].into());
        let after = Execs([(ME, 110)].into());
        assert_eq!(sent(&before, KNOWS).cpus(0, 4), CpuSet::one(CpuId(2)));
        assert_eq!(sent(&before, 5).cpus(0, 4), [0, 2, 3].map(CpuId).into_iter().collect(), "not known well");
        assert!(sent(&after, KNOWS).is_empty());
        assert!(sent(&Execs::default(), KNOWS).is_empty(), "a trace that does not tell");
        let of_another = Execs([(Pid(8), 110)].into());
        assert!(!sent(&of_another, KNOWS).is_empty());
    }

    #[test]
    fn who_does_it_again_and_again_sets_its_affinity() {
        let mut binds = Binds::default();
        let mut went = Vec::new();
        for i in 0..5 {
            binds.calls_stopper(CpuId(i % 2));
            binds.leaves(i != 1);
            went.push(binds.enters((ME, 0), CpuId((i + 1) % 2), &Execs::default()));
        }
        let all = [Some((0, None)), None, Some((0, None)), Some((1, Some(0))), Some((0, Some(1)))];
        assert_eq!(went, all.map(|w| w.map(|(from, nth)| (CpuId(from), nth))));
        assert_eq!(binds.cpus(0, 4), CpuSet::one(CpuId(0)));
    }
}
