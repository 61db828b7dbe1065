//! Where do two runs part? Every decision of the policies (and the pick of the class, which is `sched_switch`) in order; the
//! first at which time, place or outcome differ. Inputs may differ long before: they are shown, not compared.
//!
//! A run is long and the difference is usually near its beginning, so nothing is kept at first: [`Decisions`] makes a sum for
//! each of many stretches of time. The first stretch whose sums differ is run again with a [`Recorder`].

use wattif_model::trace::{EnergyCandidate, Event, Interest, Observer, PlacementReason};
use wattif_model::{CpuId, Ns};

/// Stretches per run.
const STRETCHES: u64 = 4096;

/// What a decision is about and what came out, or `None` for what decides nothing.
fn outcome(cpu: CpuId, event: &Event) -> Option<[u64; 3]> {
    let two = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
    match *event {
        Event::Placement(p) => Some([1, u64::from(p.pid.0), u64::from(p.cpu.0)]),
        Event::Frequency(f) => Some([2, u64::from(f.domain.0), u64::from(f.next_khz)]),
        Event::Idle(i) => Some([3, u64::from(cpu.0), two(u32::from(i.state), u32::from(i.stop_tick))]),
        Event::Balance(b) if b.moved > 0 => Some([4, two(b.dst_cpu.0, b.src_cpu.0), u64::from(b.moved)]),
        Event::SchedSwitch { prev_pid, next_pid, .. } => Some([5, u64::from(cpu.0), two(prev_pid.0, next_pid.0)]),
        _ => None,
    }
}

/// A sum of the decisions of each stretch.
#[derive(Clone, Debug)]
pub struct Decisions {
    stretch_ns: u64,
    sums: Vec<u64>,
}

impl Decisions {
    /// For a run of this length.
    pub fn new(duration: Ns) -> Decisions {
        Decisions { stretch_ns: (duration.0 / STRETCHES).max(1), sums: Vec::new() }
    }
    /// The first stretch in which two runs of the same length decide differently: from, to.
    pub fn first_difference(&self, other: &Decisions) -> Option<(Ns, Ns)> {
        let at = |d: &Decisions, i| d.sums.get(i).copied().unwrap_or_default();
        let most = self.sums.len().max(other.sums.len());
        let i = (0..most).find(|&i| at(self, i) != at(other, i))? as u64;
        Some((Ns(i * self.stretch_ns), Ns((i + 1) * self.stretch_ns)))
    }
}

impl Observer for Decisions {
    fn interest(&self) -> Interest {
        Interest::DECISIONS.and(Interest::SCHED)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let Some(key) = outcome(cpu, event) else { return };
        let stretch = (at.0 / self.stretch_ns) as usize;
        if self.sums.len() <= stretch {
            self.sums.resize(stretch + 1, 0);
        }
        // FNV's prime over words: any mix in which order counts does.
        let mix = |h: u64, x: u64| (h ^ x).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        let sum = &mut self.sums[stretch];
        *sum = key.into_iter().fold(mix(*sum, at.0), mix);
    }
}

/// A decision, kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Ns,
    /// On which CPU it was made.
    pub cpu: CpuId,
    /// With its inputs.
    pub event: Event,
    /// What energy-aware placement weighed.
    pub weighed: Vec<EnergyCandidate>,
}

impl Decision {
    fn key(&self) -> (Ns, Option<[u64; 3]>) {
        (self.at, outcome(self.cpu, &self.event))
    }
    /// Kind and what it is about: who is placed, which domain, which CPU.
    fn subject(&self) -> (u64, u64) {
        outcome(self.cpu, &self.event).map_or((0, 0), |[kind, about, _]| (kind, about))
    }
    /// The rule or the inputs in words; `None` for what has none.
    pub fn because(&self) -> Option<String> {
        match self.event {
            Event::Placement(p) if p.reason == PlacementReason::Energy => {
                let each = self.weighed.iter().map(|c| {
                    let (cpu, util, capacity) = (c.cpu, c.util, c.capacity);
                    let badly = if c.fits { "" } else { ", less than its minimum clamp" };
                    format!("; cpu{cpu} {:+} to {} (util {util} of {capacity}{badly})", c.delta, c.energy)
                });
                let each: String = each.collect();
                Some(format!("{}: previous cpu{}{each}", reason(p.reason), p.prev_cpu))
            }
            Event::Placement(p) => Some(format!(
                "{}: previous cpu{}, target cpu{}, {} scanned, {} queued there",
                reason(p.reason),
                p.prev_cpu.0,
                p.target.0,
                p.scanned,
                p.nr_running
            )),
            Event::Frequency(f) => Some(format!(
                "util {} by {} of cpu{} (util_avg {}, util_est {}, runnable_avg {}, iowait_boost {})",
                f.util,
                carried_by(&f),
                self.cpu.0,
                f.util_avg,
                f.util_est,
                f.runnable_avg,
                f.iowait_boost
            )),
            Event::Idle(i) => Some(format!("expected {}, next timer in {}", ns(i.predicted_ns), ns(i.sleep_length_ns))),
            Event::Balance(b) => Some(format!("{} balance, imbalance {}", b.kind.name(), b.imbalance)),
            _ => None,
        }
    }
    /// What was decided, in words; `name` gives the names of threads.
    pub fn what(&self, name: &dyn Fn(u32) -> String) -> String {
        match self.event {
            Event::Placement(p) => format!("put {} on cpu{}", name(p.pid.0), p.cpu.0),
            Event::Frequency(f) => format!("asked {:.3} GHz for domain {}", f64::from(f.next_khz) / 1e6, f.domain.0),
            Event::Idle(i) => {
                format!(
                    "chose idle state {} for cpu{}{}",
                    i.state,
                    self.cpu.0,
                    if i.stop_tick { ", tick stopped" } else { ", tick kept" }
                )
            }
            Event::Balance(b) => format!("moved {} from cpu{} to cpu{}", b.moved, b.src_cpu.0, b.dst_cpu.0),
            Event::SchedSwitch { next_pid, .. } => format!("picked {} on cpu{}", name(next_pid.0), self.cpu.0),
            _ => String::new(),
        }
    }
    /// The slot that decided; the class for a pick.
    pub fn slot(&self) -> wattif_model::kernel::Slot {
        use wattif_model::kernel::Slot;
        match self.event {
            Event::Placement(_) => Slot::Placement,
            Event::Frequency(_) => Slot::Cpufreq,
            Event::Idle(_) => Slot::Cpuidle,
            Event::Balance(_) => Slot::Balance,
            _ => Slot::Class,
        }
    }
}

/// Which of its inputs the utilisation of a request is; the largest of those it reaches.
fn carried_by(f: &wattif_model::trace::FrequencyChoice) -> &'static str {
    let inputs = [
        (f.util_avg, "util_avg"),
        (f.util_est, "util_est"),
        (f.runnable_avg, "runnable_avg"),
        (f.iowait_boost, "iowait_boost"),
    ];
    let exact = inputs.iter().find(|(v, _)| *v == f.util);
    let below = inputs.iter().filter(|(v, _)| *v <= f.util).max_by_key(|(v, _)| *v);
    exact.or(below).map_or("other CPUs", |(_, name)| name)
}

fn reason(reason: PlacementReason) -> &'static str {
    match reason {
        PlacementReason::Pinned => "only one CPU allowed",
        PlacementReason::TargetIdle => "the target is idle",
        PlacementReason::PrevIdle => "the previous CPU is idle",
        PlacementReason::RecentIdle => "the recently used CPU is idle",
        PlacementReason::IdleCore => "an idle core",
        PlacementReason::IdleSmt => "an idle SMT sibling",
        PlacementReason::IdleScan => "an idle CPU of the scan",
        PlacementReason::SchedIdle => "only SCHED_IDLE work there",
        PlacementReason::IdleCapacity => "an idle CPU of enough capacity",
        PlacementReason::Target => "no idle CPU, the target",
        PlacementReason::Idlest => "the shallowest idle CPU",
        PlacementReason::LeastLoaded => "the least loaded CPU",
        PlacementReason::Energy => "the cheapest CPU",
        PlacementReason::Priority => "by priority",
        PlacementReason::Unweighed => "the previous CPU, nothing to weigh",
        PlacementReason::BestTarget => "the best target whatever the energy",
        PlacementReason::Waker => "with its waker, which is about to sleep",
    }
}

fn ns(ns: u64) -> String {
    if ns == u64::MAX { "unknown".into() } else { format!("{:.1} µs", ns as f64 / 1e3) }
}

/// Keeps the decisions from a time on.
#[derive(Clone, Debug)]
pub struct Recorder {
    from: Ns,
    /// In order.
    pub kept: Vec<Decision>,
    /// For the placement that comes next.
    weighed: Vec<EnergyCandidate>,
    /// Names of threads, by id.
    pub names: std::collections::BTreeMap<u32, String>,
}

impl Recorder {
    /// From this time on.
    pub fn from(from: Ns) -> Recorder {
        let names = std::collections::BTreeMap::from([(0, "nobody".to_string())]);
        Recorder { from, kept: Vec::new(), weighed: Vec::new(), names }
    }
}

impl Observer for Recorder {
    fn interest(&self) -> Interest {
        Interest::DECISIONS.and(Interest::SCHED)
    }
    fn thread(&mut self, thread: &wattif_model::trace::ThreadInfo) {
        self.names.insert(thread.pid.0, thread.comm.clone());
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if at < self.from {
            return;
        }
        match event {
            Event::EnergyCandidate { candidate, .. } => self.weighed.push(*candidate),
            _ if outcome(cpu, event).is_some() => {
                let weighed = std::mem::take(&mut self.weighed);
                self.kept.push(Decision { at, cpu, event: *event, weighed });
            }
            _ => {}
        }
    }
}

/// Where two runs part: what each decided. One side may decide nothing at that time.
#[derive(Clone, Debug, PartialEq)]
pub struct Parting {
    /// When.
    pub at: Ns,
    /// On either side.
    pub sides: [Option<Decision>; 2],
}

/// The first difference of two lists of decisions of the same stretch.
pub fn parting(a: &[Decision], b: &[Decision]) -> Option<Parting> {
    let i = (0..a.len().max(b.len())).find(|&i| a.get(i).map(Decision::key) != b.get(i).map(Decision::key))?;
    let earlier = [a.get(i), b.get(i)].into_iter().flatten().min_by_key(|d| d.at)?;
    let same = |list: &[Decision]| {
        let mut now = list[i.min(list.len())..].iter().take_while(|d| d.at == earlier.at);
        now.find(|d| d.subject() == earlier.subject()).cloned()
    };
    Some(Parting { at: earlier.at, sides: [same(a), same(b)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::BalanceKind;
    use wattif_model::trace::{FrequencyChoice, IdleChoice};
    use wattif_model::{DomainId, Pid};

    fn asks(at: u64, next_khz: u32, util: u32) -> Decision {
        let choice = FrequencyChoice {
            domain: DomainId(0),
            next_khz,
            prev_khz: 0,
            util,
            util_avg: 300,
            util_est: 250,
            runnable_avg: 600,
            iowait_boost: 0,
        };
        Decision { at: Ns(at), cpu: CpuId(3), event: Event::Frequency(choice), weighed: Vec::new() }
    }

    fn sleeps(at: u64, state: u8) -> Decision {
        let choice = IdleChoice { state, stop_tick: true, predicted_ns: 5_000, sleep_length_ns: u64::MAX };
        Decision { at: Ns(at), cpu: CpuId(1), event: Event::Idle(choice), weighed: Vec::new() }
    }

    fn sums(list: &[Decision]) -> Decisions {
        let mut d = Decisions::new(Ns(4096 * 100));
        list.iter().for_each(|x| d.event(x.at, x.cpu, &x.event));
        d
    }

    #[test]
    fn first_outcome_that_differs() {
        let a = [sleeps(10, 0), asks(250, 850_000, 300), sleeps(300, 1)];
        let b = [sleeps(10, 0), asks(250, 1_420_000, 600), sleeps(300, 1)];
        assert_eq!(sums(&a).first_difference(&sums(&b)), Some((Ns(200), Ns(300))));
        assert_eq!(sums(&a).first_difference(&sums(&a)), None);
        let p = parting(&a, &b).unwrap();
        assert_eq!((p.at, p.sides), (Ns(250), [Some(a[1].clone()), Some(b[1].clone())]));
        assert!(b[1].because().unwrap().starts_with("util 600 by runnable_avg of cpu3"));
        assert!(a[1].because().unwrap().starts_with("util 300 by util_avg of cpu3"));
    }

    #[test]
    fn one_side_may_decide_nothing() {
        let a = [sleeps(10, 0), sleeps(30, 0)];
        let b = [sleeps(10, 0), asks(20, 1, 1), sleeps(30, 0)];
        assert_eq!(parting(&a, &b).unwrap(), Parting { at: Ns(20), sides: [None, Some(b[1].clone())] });
        assert_eq!(parting(&a, &a[..1]).unwrap().sides, [Some(a[1].clone()), None]);
        assert_eq!(parting(&a, &a), None);
    }

    #[test]
    fn inputs_and_failed_passes_are_no_decisions() {
        let failed = wattif_model::trace::BalanceChoice {
            dst_cpu: CpuId(0),
            src_cpu: CpuId(1),
            moved: 0,
            kind: BalanceKind::NewIdle,
            imbalance: 7,
        };
        assert_eq!(outcome(CpuId(0), &Event::Balance(failed)), None);
        let wakeup = Event::SchedWakeup { pid: Pid(1), prio: 0, target_cpu: CpuId(0), in_irq: false };
        assert_eq!(outcome(CpuId(0), &wakeup), None);
        assert_eq!(asks(1, 5, 100).key(), asks(1, 5, 200).key());
    }
}
