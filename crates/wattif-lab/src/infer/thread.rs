//! What is known of a thread: its state while the trace is read, and what it did in the end.

use super::affinity::{Beside, Evidence};
use super::binds::Binds;
use super::periods::Beat;
use super::spins::Piece;
use super::steps::Step;
use super::yields::Gave;
use std::collections::BTreeMap;
use wattif_model::{CpuId, CpuSet, Pid};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum State {
    /// Not seen yet: asleep since before the trace.
    #[default]
    Unknown,
    Sleeping {
        since: u64,
        disk: bool,
    },
    Runnable {
        since: u64,
    },
    Running,
    /// Or parked, which has the number that the dead had in old kernels: then it is woken again.
    Dead {
        since: u64,
    },
}

#[derive(Default)]
pub(super) struct Thread {
    pub state: State,
    /// At first, and now.
    pub first_prio: u8,
    pub prio: u8,
    /// It made room for another of its real-time priority although it could go on, as only SCHED_RR lets it.
    pub takes_turns: bool,
    pub steps: Vec<Step>,
    /// The first of them that waits.
    pub first_wait: Option<usize>,
    /// Its priority may be lent, by the last of these in addition to those before; and it was.
    pub lent: Vec<Loan>,
    pub borrows: bool,
    /// When its priority was seen last.
    pub prio_seen: u64,
    /// Work since the last step, and when it began and went on last.
    pub work: u64,
    pub began: u64,
    pub last: u64,
    /// Of that work, on CPUs, ns; and the speed of the CPU when it began.
    pub on_cpu: u64,
    pub first_speed: u64,
    pub pieces: Vec<Piece>,
    /// Since when it has not been blocked.
    pub awake: u64,
    /// Since when it has been busy on CPUs of one capacity with next to no sleep, and how long it slept, ns.
    pub stays_since: Option<u64>,
    pub slept: u64,
    /// Kernel time of the present slice that is not the thread's work, ns; and when a wake-up added to it last.
    pub overhead: u64,
    pub woke_at: u64,
    /// When an interrupt woke somebody on its CPU last, and whom.
    pub irq: Option<(u64, Pid)>,
    pub cpu: Option<CpuId>,
    pub parent: Option<Pid>,
    pub born: u64,
    /// The trace shows how it began.
    pub is_new: bool,
    /// When the first CPU's interrupt woke it first, if that was at the beginning of the trace.
    pub launched: Option<u64>,
    /// When it became runnable: CPUs that had been idle for some time and how long they had been busy until then, and CPUs that ran a thread.
    pub idle_then: Vec<(CpuId, u64)>,
    pub busy_then: CpuSet,
    /// Who ran on its own CPU then.
    pub ran_then: Option<Pid>,
    pub binds: Binds,
    /// CPUs that the file says it may use, until it is seen to have others; and how far it had come when it was first on another one
    /// without having set its affinity itself.
    pub allowed: Option<CpuSet>,
    pub left: Option<Progress>,
    /// Units of work at the beginning of the trace (`reader.rs`).
    pub at_first: u64,
    /// When it was switched in, and how many steps there were then and how much work.
    pub entered: (u64, usize, u64),
    /// When it was switched out although it could go on, and nobody was woken there before.
    pub gave: Vec<Gave>,
    /// How many steps there were each time it blocked while another waited for its CPU.
    pub beside: Vec<usize>,
    /// Who wakes it is about to sleep, and says so (`sync.rs`).
    pub sync: bool,
    /// It waits since a wake-up, not since it was preempted.
    pub woken: bool,
    /// A thread woke it while it ran: it may have been on its way out. Or how it left is lost: it may not have slept.
    pub early: bool,
    /// Interrupts that woke it up, by the time that such a timer would have been due: on which CPU, and was that another than its own?
    pub irqs: BTreeMap<u64, (CpuId, bool)>,
    /// Each time it was on another CPU than before: how far it had come.
    pub ran: Vec<(Progress, CpuId)>,
    pub where_it_runs: Evidence,
    pub beat: Beat,
    /// Of its time at full speed, the part in which it waits for memory, 1/1000.
    pub memory: u64,
}

/// A priority that a thread may have from another, who waits for a mutex that it holds.
pub(super) struct Loan {
    pub by: Pid,
    /// What it was before.
    pub prio: u8,
    /// The step that says so.
    pub step: usize,
    /// It woke the other one.
    pub ends: bool,
}

/// How far a thread has come: steps other than work, and units of work since the last of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Progress {
    pub steps: u32,
    pub units: u64,
}

/// First moves between CPUs that are kept: a thread that binds itself does so soon.
const MOVES: usize = 16;

impl Thread {
    pub(super) fn new(prio: u8) -> Thread {
        Thread { first_prio: prio, prio, ..Thread::default() }
    }
    /// When it was born, if the trace shows that.
    pub(super) fn birth(&self) -> Option<u64> {
        (self.is_new || self.parent.is_some()).then_some(self.born)
    }
    /// It is seen with this priority. Is it what it had, or had before others lent it theirs that it has woken since?
    fn keeps_or_repays(&mut self, prio: u8) -> bool {
        if prio == self.prio {
            // What is lent ends with the wake-up.
            self.lent.pop_if(|loan| loan.ends);
            return true;
        }
        let first = self.lent.iter().rposition(|loan| loan.prio == prio);
        let Some(first) = first.filter(|first| self.lent[*first..].iter().all(|loan| loan.ends)) else { return false };
        for loan in self.lent.split_off(first) {
            if let Some(step) = self.steps.get_mut(loan.step)
                && let Step::Attr(lent) = *step
            {
                *step = Step::Lent { prio: lent, by: loan.by };
            }
            self.push(Step::Lent { prio: loan.prio, by: loan.by });
        }
        (self.prio, self.borrows) = (prio, true);
        true
    }
    /// Of one whose CPUs are told the others say nothing.
    pub(super) fn may_use(&self, cpu: CpuId) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(cpu))
    }
    /// It is busy on CPUs of this capacity, since now if not before.
    pub(super) fn stays(&mut self, at: u64) {
        if self.stays_since.is_none() {
            (self.stays_since, self.slept) = (Some(at), 0);
        }
    }
    pub(super) fn push(&mut self, step: Step) {
        if self.work > 0 {
            let (step, wall) = (self.steps.len(), self.last - self.began);
            let back = self.entered.0.saturating_sub(self.began);
            self.pieces.push(Piece { step, wall, on_cpu: self.on_cpu, speed: self.first_speed, back });
            self.steps.push(Step::Work(std::mem::take(&mut self.work)));
        }
        if step.waits() {
            self.first_wait.get_or_insert(self.steps.len());
        }
        self.steps.push(step);
    }
    /// Between two steps that are there.
    fn insert(&mut self, at: usize, step: Step) {
        self.first_wait = self.first_wait.map(|first| first + usize::from(first >= at));
        self.steps.insert(at, step);
    }
    /// It gets a CPU that it has waited for, beside idle ones and those of them of the same capacity. Who ran on its own CPU when it began to,
    /// if it meets that one's like here.
    pub(super) fn ran_beside(
        &mut self,
        cpu: CpuId,
        waited_ns: u64,
        busy_ns: u64,
        (idle, equal): (&CpuSet, &CpuSet),
    ) -> Option<Pid> {
        let (met, urgent) = (self.woken && self.busy_then.contains(cpu), self.prio < 100);
        let beside = Beside { idle, equal, met, urgent, busy_ns };
        self.where_it_runs.runs(cpu, waited_ns, &beside);
        self.ran_then.filter(|_| beside.meets_on(cpu))
    }
    /// It is on this CPU now: how far it has come is noted, where it was on another one before or may not be here.
    pub(super) fn came_so_far(&mut self, cpu: CpuId) {
        let left = self.allowed.take_if(|allowed| !allowed.contains(cpu)).is_some();
        let moves = self.ran.len() < MOVES && self.ran.last().is_none_or(|last| last.1 != cpu);
        if moves || left {
            let steps = self.steps.iter().filter(|s| !matches!(s, Step::Work(_))).count();
            let progress = Progress { steps: steps as u32, units: self.work };
            self.left = self.left.or(left.then_some(progress));
            if moves {
                self.ran.push((progress, cpu));
            }
        }
    }
    /// With this priority, which `lender` may have lent it since it was switched in.
    pub(super) fn switched_out_with(&mut self, prio: u8, lender: Option<Pid>) {
        let had = self.prio;
        if self.keeps_or_repays(prio) {
            return;
        }
        if self.sets_out() && lender.is_none() {
            (self.first_prio, self.prio) = (prio, prio);
        } else if prio < had {
            self.raised(prio);
            self.lent.extend(lender.map(|by| Loan { by, prio: had, step: self.entered.1 - 1, ends: false }));
        }
    }
    /// The same since it was switched out.
    pub(super) fn switched_in_with(&mut self, prio: u8, lender: Option<Pid>) {
        if self.keeps_or_repays(prio) {
            return;
        }
        let had = std::mem::replace(&mut self.prio, prio);
        if self.had_set_out() && lender.is_none() {
            self.first_prio = prio;
        } else {
            self.push(Step::Attr(prio));
        }
        match lender {
            Some(by) => self.lent.push(Loan { by, prio: had, step: self.steps.len() - 1, ends: false }),
            None => self.lent.clear(),
        }
    }
    /// It was born in the trace and has not waited yet: what it sets now it has from its beginning, as a thread of ours sets its attributes
    /// before all else.
    fn sets_out(&self) -> bool {
        self.birth().is_some() && self.first_wait.is_none()
    }
    /// The same of a thread that is switched in: what it set before its first wait shows only now where a trace does not say with which
    /// priority somebody is switched out.
    fn had_set_out(&self) -> bool {
        self.birth().is_some() && self.first_wait.is_none_or(|first| first + 1 == self.steps.len())
    }
    /// Its priority was raised since it was switched in. That is taken as the first it did then: those who waited did not get the CPU.
    fn raised(&mut self, prio: u8) {
        let (at, n, before) = self.entered;
        let n = n.min(self.steps.len());
        let (attr, mut split) = (Step::Attr(prio), n);
        match self.steps.get_mut(n) {
            None => {
                if before > 0 {
                    self.steps.push(Step::Work(before));
                    self.work = self.work.saturating_sub(before);
                    split += 1;
                }
            }
            Some(Step::Work(units)) if before > 0 && *units > before => {
                *units -= before;
                self.insert(n, Step::Work(before));
                split += 1;
            }
            Some(_) => {}
        }
        self.insert(split, attr);
        let more = split + 1 - n;
        self.pieces.iter_mut().rev().take_while(|p| p.step >= n).for_each(|p| p.step += more);
        (self.prio, self.entered) = (prio, (at, split + 1, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_ends_with_the_wake_up() {
        let steps = |ends: bool, seen: &[u8]| {
            let mut t = Thread::new(120);
            t.push(Step::Attr(69));
            (t.prio, t.lent) = (69, vec![Loan { by: Pid(8), prio: 120, step: 0, ends }]);
            (seen.iter().map(|prio| t.keeps_or_repays(*prio)).collect::<Vec<_>>(), t.steps)
        };
        let lent = |prio| Step::Lent { prio, by: Pid(8) };
        assert_eq!(steps(true, &[120]), (vec![true], vec![lent(69), lent(120)]));
        assert_eq!(steps(false, &[69, 120]), (vec![true, false], vec![Step::Attr(69)]), "nobody was woken");
        assert_eq!(steps(true, &[69, 120]), (vec![true, false], vec![Step::Attr(69)]), "it kept it");
        assert_eq!(steps(true, &[110]), (vec![false], vec![Step::Attr(69)]));
    }
}
