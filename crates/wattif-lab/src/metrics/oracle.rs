//! How far from the best possible was the choice of idle states? Each idle period as it was, against an oracle that knows how
//! long it will be.
//!
//! For an idle period of length `L`, from the decision until something asked the CPU to wake up, the oracle needs the least of:
//! staying busy for `L`; or for each enabled state with entry + exit ≤ `L`, busy power while entering and leaving and the
//! state's power in between. The state that was entered counts as enabled: some governors do not look, and where all are
//! disabled the kernel falls back on the first. The oracle is never late. No governor can need less on the same period:
//! whatever state it takes, it is busy while entering and, after the request, while leaving, which the oracle does within `L`.
//! So the sum is a lower bound (of the CPUs' own energy; what a cluster saves when all its CPUs sleep is not in it). Powers are
//! those of the operating points during the period; entering and leaving cost what they cost least at any of these.
//!
//! A state of the core or the cluster is reached, and left, at its own price where all others of its scope are in that or a deeper one
//! at that moment, and at that of the deepest that they allow otherwise: the bound charges what the period charged. The state that the
//! oracle would have taken, against which choices count as deeper or shallower, must fit with its own entry and exit. A state of
//! the core draws its power only while all other hardware threads of the core are in that or a deeper one; while the shallowest of theirs
//! is another state of the core it draws that one's, and for the rest of the period that of the deepest state of the thread's own.

use super::distribution::{Distribution, Summary};
use serde::{Deserialize, Serialize};
use wattif_model::platform::{CPUIDLE_STATE_MAX, Cluster, Platform, PowerTable, PowerUnit, Scope};
use wattif_model::trace::{Event, IdleCause, IdlePeriod, Interest, Observer, PowerLevel};
use wattif_model::{CpuId, Fj, Ns, Uw};

/// The distance to the oracle over all idle periods that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OracleReport {
    /// Energy of the CPUs in these periods and while leaving them, in the unit of `energy`; `None` without powers of idle states.
    pub idle_energy: Option<f64>,
    /// The least that was possible.
    pub energy: Option<f64>,
    /// By how much the one exceeds the other, %.
    pub energy_excess_pct: Option<f64>,
    /// From the request to wake up until the CPU executed; the oracle's is 0.
    pub late_us: Summary,
    /// Periods in the oracle's state, %; `None` without powers.
    pub same_pct: Option<f64>,
    /// In a deeper one, %.
    pub deeper_pct: Option<f64>,
    /// In a shallower one, %.
    pub shallower_pct: Option<f64>,
}

/// What ended idle periods, % of all that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleWakeups {
    /// High-resolution timers of the CPU.
    pub timer_pct: f64,
    /// The tick.
    pub tick_pct: f64,
    /// Devices.
    pub device_pct: f64,
    /// Other CPUs.
    pub ipi_pct: f64,
    /// The time limit of a polling state.
    pub poll_limit_pct: f64,
}

/// An idle state as the bound needs it.
#[derive(Clone, Copy, Debug)]
struct State {
    index: usize,
    enabled: bool,
    scope: Scope,
    entry_ns: u64,
    exit_ns: u64,
    /// Of a state of the core: whose power is drawn while other threads of the core are awake.
    alone: Option<usize>,
}

#[derive(Clone, Debug)]
struct Cpu {
    domain: usize,
    states: Vec<State>,
    power: Uw,
    level: PowerLevel,
    since: Ns,
    /// Energy since the idle period began, and when that was.
    spent: Fj,
    began: Ns,
    /// Since its power rose for the way out: from when on it drew how much more than asleep. A clock may change meanwhile.
    early: Vec<(Ns, Uw)>,
    /// What it drew before that.
    before: PowerLevel,
    /// Operating points since then.
    stretches: Vec<Stretch>,
    /// When the present one began.
    stretch: Ns,
    /// State asked for.
    state: usize,
    /// The state asked for once it is reached: on its way in or out it is in none.
    reached: Option<usize>,
    /// The others when it fell asleep, and when its way out began.
    joined: Others,
    left: Others,
    core: usize,
    cluster: usize,
    asleep: bool,
    /// How long of the present stretch the other hardware threads of the core slept how deep.
    depths: Depths,
}

/// By the shallowest state that one of the other hardware threads of the core is in (the first while one is awake): how long, ns.
type Depths = [u64; CPUIDLE_STATE_MAX];

/// A part of an idle period at one operating point.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    opp: usize,
    ns: u64,
    depths: Depths,
}

/// The shallowest states that the others of a core, and of a cluster, have reached; 0 where one is in none.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    core: usize,
    cluster: usize,
}

/// The hardware threads of a core; it has the number of its first.
#[derive(Clone, Debug)]
struct Core {
    cpus: Vec<CpuId>,
    /// When a thread last fell asleep or woke up.
    since: Ns,
}

/// Listens to idle periods, powers and clocks.
#[derive(Clone, Debug)]
pub struct Oracle {
    cpus: Vec<Cpu>,
    cores: Vec<Core>,
    /// The CPUs of each cluster that has states of its own; none of the others.
    clusters: Vec<Vec<CpuId>>,
    tables: Vec<PowerTable>,
    opps: Vec<usize>,
    known: bool,
    /// Femtojoules of ours for one of the unit.
    one: f64,
    actual: Fj,
    least: Fj,
    late: Distribution,
    /// Same, deeper, shallower.
    choices: [u64; 3],
    /// By idle state: how often the oracle would have entered it.
    best: Vec<u64>,
    causes: [u64; 5],
}

impl Oracle {
    /// For this machine.
    pub fn new(platform: &Platform) -> Oracle {
        let tables: Vec<PowerTable> = platform.domains.iter().map(|d| d.power.clone()).collect();
        let threads = platform.core_threads();
        let cpu = |id: u32| {
            let (domain, cluster) = (platform.cpus[id as usize].domain.at(), platform.cpus[id as usize].cluster.at());
            Cpu {
                domain,
                states: states(platform, CpuId(id)),
                power: Uw(tables[domain].busy(0)),
                level: PowerLevel::Busy,
                since: Ns::ZERO,
                spent: Fj(0),
                began: Ns::ZERO,
                early: Vec::new(),
                before: PowerLevel::Busy,
                stretches: Vec::new(),
                stretch: Ns::ZERO,
                state: 0,
                reached: None,
                joined: Others::default(),
                left: Others::default(),
                core: threads[id as usize][0].at(),
                cluster,
                asleep: false,
                depths: Depths::default(),
            }
        };
        let shared = |c: &Cluster| c.idle.iter().any(|s| s.scope == Scope::Cluster);
        let of_cluster = |c: &Cluster| if shared(c) { c.cpus.iter().collect() } else { Vec::new() };
        Oracle {
            cpus: (0..platform.nr_cpus() as u32).map(cpu).collect(),
            clusters: platform.clusters.iter().map(of_cluster).collect(),
            cores: threads.into_iter().map(|cpus| Core { cpus, since: Ns::ZERO }).collect(),
            opps: vec![0; tables.len()],
            known: platform.power.unit.has_idle(),
            one: if platform.power.unit == PowerUnit::EasCosts { 1e12 } else { 1e15 },
            tables,
            actual: Fj(0),
            least: Fj(0),
            late: Distribution::precise(),
            choices: [0; 3],
            best: Vec::new(),
            causes: [0; 5],
        }
    }

    /// Energy of the periods as they were, and the least possible, exactly.
    pub fn totals(&self) -> (Fj, Fj) {
        (self.actual, self.least)
    }

    /// `None` when no idle period has ended.
    pub fn report(&self) -> Option<OracleReport> {
        let periods = self.late.count();
        let value = |fj: Fj| Some(fj.0 as f64 / self.one).filter(|_| self.known);
        let share = |n: u64| Some(100.0 * n as f64 / periods as f64).filter(|_| self.known);
        let excess = || Some(100.0 * (self.actual.0 as f64 / self.least.0 as f64 - 1.0)).filter(|_| self.least.0 > 0);
        (periods > 0).then(|| OracleReport {
            idle_energy: value(self.actual),
            energy: value(self.least),
            energy_excess_pct: excess(),
            late_us: self.late.summary_us(),
            same_pct: share(self.choices[0]),
            deeper_pct: share(self.choices[1]),
            shallower_pct: share(self.choices[2]),
        })
    }

    /// `None` when no idle period has ended.
    pub fn wakeups(&self) -> Option<IdleWakeups> {
        let all: u64 = self.causes.iter().sum();
        let [timer_pct, tick_pct, device_pct, ipi_pct, poll_limit_pct] =
            self.causes.map(|n| 100.0 * n as f64 / all.max(1) as f64);
        (all > 0).then_some(IdleWakeups { timer_pct, tick_pct, device_pct, ipi_pct, poll_limit_pct })
    }

    /// By idle state: how many of the sleeps the oracle would have put there; empty where no powers are known.
    pub fn best_by_state(&self) -> &[u64] {
        &self.best
    }

    fn ended(&mut self, at: Ns, cpu: usize, period: &IdlePeriod) {
        self.causes[cause(period.cause)] += 1;
        self.late.record(period.late_ns);
        self.cpus[cpu].account(at);
        if self.known {
            self.judge(at, cpu, period);
        }
        self.cpus[cpu].early.clear();
    }

    fn judge(&mut self, at: Ns, cpu: usize, period: &IdlePeriod) {
        self.next_stretch(at, cpu);
        let c = &self.cpus[cpu];
        let state = usize::from(period.state);
        let out_ns = c.early.first().map_or(u64::MAX, |(from, _)| at.since(*from));
        let (least, best) = c.least(&self.tables[c.domain], state, period.length_ns, out_ns);
        self.actual += Fj(c.spent.0.saturating_sub(c.before_request(period).0));
        self.least += least;
        let kind = usize::from(state != best) + usize::from(state < best);
        self.choices[kind] += 1;
        if self.best.len() <= best {
            self.best.resize(best + 1, 0);
        }
        self.best[best] += 1;
    }

    /// Counts how deep the threads of a core have slept by now.
    fn together(&mut self, at: Ns, core: usize) {
        let Core { cpus, since } = &mut self.cores[core];
        let ns = at.since(std::mem::replace(since, at));
        if cpus.len() == 1 || ns == 0 {
            return;
        }
        let depth = |c: &Cpu| if c.asleep { c.state.min(CPUIDLE_STATE_MAX - 1) } else { 0 };
        for &cpu in &*cpus {
            let others = cpus.iter().filter(|&&other| other != cpu).map(|other| depth(&self.cpus[other.at()]));
            let shallowest = others.min().unwrap_or(0);
            self.cpus[cpu.at()].depths[shallowest] += ns;
        }
    }

    /// The operating point of a CPU is about to change, or its way out begins, or its idle period ends.
    fn next_stretch(&mut self, at: Ns, cpu: usize) {
        self.together(at, self.cpus[cpu].core);
        let c = &mut self.cpus[cpu];
        let (ns, depths) = (at.since(c.stretch), std::mem::take(&mut c.depths));
        c.stretches.push(Stretch { opp: self.opps[c.domain], ns, depths });
        c.stretch = at;
    }

    /// It begins to sleep, in the state given, or wakes up.
    fn sleeps(&mut self, at: Ns, cpu: usize, state: Option<usize>) {
        self.together(at, self.cpus[cpu].core);
        let c = &mut self.cpus[cpu];
        c.asleep = state.is_some();
        if let Some(state) = state {
            (c.state, c.depths) = (state, Depths::default());
        }
    }

    fn others(&self, cpu: usize) -> Others {
        let c = &self.cpus[cpu];
        let shallowest = |all: &[CpuId]| {
            let others = all.iter().filter(|other| other.at() != cpu);
            others.map(|other| self.cpus[other.at()].reached.unwrap_or(0)).min().unwrap_or(usize::MAX)
        };
        Others { core: shallowest(&self.cores[c.core].cpus), cluster: shallowest(&self.clusters[c.cluster]) }
    }

    /// The CPU begins to sleep.
    fn begins(&mut self, at: Ns, cpu: usize) {
        let joined = self.others(cpu);
        let c = &mut self.cpus[cpu];
        c.account(at);
        (c.spent, c.stretch, c.began) = (Fj(0), at, at);
        c.stretches.clear();
        (c.reached, c.joined, c.left) = (None, joined, Others::default());
        c.early.clear();
    }

    fn set_level(&mut self, at: Ns, cpu: usize, level: PowerLevel) {
        let others = if level == PowerLevel::Busy { self.others(cpu) } else { Others::default() };
        if self.cpus[cpu].asleep && level == PowerLevel::Busy {
            self.next_stretch(at, cpu);
        }
        let c = &mut self.cpus[cpu];
        c.account(at);
        c.early.clear();
        let before = std::mem::replace(&mut c.level, level);
        if level == PowerLevel::Busy {
            (c.before, c.left) = (before, others);
        }
        c.clocked(at, &self.tables[c.domain], self.opps[c.domain]);
        c.reached = (level != PowerLevel::Busy).then_some(c.state);
    }

    fn set_opp(&mut self, at: Ns, domain: usize, opp: usize) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].domain == domain && self.cpus[cpu].asleep {
                self.next_stretch(at, cpu);
            }
        }
        let Some(table) = self.tables.get(domain) else { return };
        self.opps[domain] = opp;
        for c in self.cpus.iter_mut().filter(|c| c.domain == domain) {
            c.account(at);
            let leaving = !c.early.is_empty();
            c.clocked(at, table, opp);
            if !leaving {
                c.early.clear();
            }
        }
    }
}

fn states(platform: &Platform, cpu: CpuId) -> Vec<State> {
    let all = platform.idle_states(cpu);
    let alone = |i: usize| (0..i).rev().find(|&n| all[n].scope == Scope::Cpu).unwrap_or(0);
    let state = |(index, s): (usize, &wattif_model::platform::IdleState)| State {
        index,
        enabled: !s.disabled,
        scope: s.scope,
        entry_ns: s.actual.entry_ns,
        exit_ns: s.actual.exit_ns,
        alone: (s.scope == Scope::Core).then(|| alone(index)),
    };
    all.iter().enumerate().map(state).collect()
}

fn cause(cause: IdleCause) -> usize {
    match cause {
        IdleCause::Timer => 0,
        IdleCause::Tick => 1,
        IdleCause::Device => 2,
        IdleCause::Ipi => 3,
        IdleCause::PollLimit => 4,
    }
}

fn power(table: &PowerTable, level: PowerLevel, opp: usize) -> u64 {
    match level {
        PowerLevel::Busy => table.busy(opp),
        PowerLevel::Idle(state) => table.idle(state.into(), opp),
    }
}

impl Cpu {
    fn account(&mut self, at: Ns) {
        self.spent += self.power.over(at.since(self.since));
        self.since = at;
    }

    /// Its power at an operating point, and on the way out what that is more than asleep.
    fn clocked(&mut self, at: Ns, table: &PowerTable, opp: usize) {
        self.power = Uw(power(table, self.level, opp));
        if self.level == PowerLevel::Busy {
            self.early.push((at, Uw(self.power.0.saturating_sub(power(table, self.before, opp)))));
        }
    }

    /// What of the energy belongs to whoever asks it to wake up: the power rises when that begins, the request comes at its end. Who
    /// knew the end, and was in time, had begun to leave by then.
    fn before_request(&self, period: &IdlePeriod) -> Fj {
        let exit_ns = self.states.get(usize::from(period.state)).map_or(0, |s| s.exit_ns);
        let leaving = if period.late_ns == 0 { exit_ns } else { 0 };
        let end = Ns((self.began + period.length_ns).0.saturating_sub(leaving));
        let ends = self.early.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let parts = self.early.iter().zip(ends);
        Fj(parts.map(|((from, more), to)| more.over(to.min(end).since(*from)).0).sum())
    }

    /// The least energy for an idle period that was spent in `entered`; and the state that an oracle takes, which fits with its
    /// own entry and exit: of equals the deepest, the shallowest where staying busy is best.
    fn least(&self, table: &PowerTable, entered: usize, length_ns: u64, out_ns: u64) -> (Fj, usize) {
        let stay = self.busy(table, length_ns);
        let available = || self.states.iter().filter(|s| s.enabled || s.index == entered);
        let (mut least, mut best) = (stay, (stay, available().next().map_or(0, |s| s.index)));
        for s in available() {
            let out_ns = if s.index == entered { out_ns } else { u64::MAX };
            let (here, own) = (self.transit_ns(s, out_ns), s.entry_ns + s.exit_ns);
            if here > length_ns {
                continue;
            }
            let sleep = self.sleep(table, s, length_ns);
            least = least.min(sleep.energy(here));
            let energy = sleep.energy(own);
            if own <= length_ns && (energy < best.0 || energy == best.0 && s.index > best.1) {
                best = (energy, s.index);
            }
        }
        (Fj(least), best.1)
    }

    /// Entry + exit of a state in this period; `out_ns`: of the one that was entered, what its way out took. Who knew its end had chosen
    /// when to leave before others let the core go deeper.
    fn transit_ns(&self, s: &State, out_ns: u64) -> u64 {
        let (entered, left) = (self.reachable(s, self.joined), self.reachable(s, self.left));
        s.entry_ns.min(entered.entry_ns) + s.exit_ns.min(left.exit_ns).min(out_ns)
    }

    /// The state the hardware can be in: `s`, or the deepest one that the others of its scope have reached as well, or a deeper one.
    fn reachable<'a>(&'a self, s: &'a State, others: Others) -> &'a State {
        let within_reach = |s: &&State| match s.scope {
            Scope::Cpu => true,
            Scope::Core => s.index <= others.core,
            Scope::Cluster => s.index <= others.cluster,
        };
        self.states[..=s.index].iter().rev().find(within_reach).unwrap_or(&self.states[0])
    }

    /// The period in a state.
    fn sleep(&self, table: &PowerTable, s: &State, length_ns: u64) -> Sleep {
        let mut sleep = Sleep { asleep: Fj(0), alone_ns: 0, more_alone: u64::MAX, more: u64::MAX };
        let mut left = length_ns;
        for part in &self.stretches {
            let (busy, deep) = (table.busy(part.opp), table.idle(s.index, part.opp));
            let alone = s.alone.map_or(deep, |state| table.idle(state, part.opp));
            // Whoever sleeps alone in a part of the core's sleep does not draw more because of it.
            let deep = deep.min(alone);
            sleep.more_alone = sleep.more_alone.min(busy.saturating_sub(alone));
            sleep.more = sleep.more.min(busy.saturating_sub(deep));
            let ns = part.ns.min(left);
            left -= ns;
            // Of a part that the request ends nothing is known but its length.
            if ns < part.ns || s.alone.is_none() {
                sleep.asleep += Uw(deep).over(ns);
                continue;
            }
            // A core is in the shallowest of its threads' states.
            for (state, &ns) in part.depths.iter().enumerate().filter(|(_, ns)| **ns > 0) {
                let shared = self.states.get(state.min(s.index)).filter(|s| s.alone.is_some());
                let power = shared.map_or(alone, |shallower| table.idle(shallower.index, part.opp).clamp(deep, alone));
                sleep.asleep += Uw(power).over(ns);
                match shared {
                    Some(_) => sleep.more = sleep.more.min(busy.saturating_sub(power)),
                    None => sleep.alone_ns += ns,
                }
            }
        }
        sleep
    }

    /// The energy of staying busy for the period.
    fn busy(&self, table: &PowerTable, length_ns: u64) -> u128 {
        let mut left = length_ns;
        let energy = |part: &Stretch| {
            let ns = part.ns.min(left);
            left -= ns;
            Uw(table.busy(part.opp)).over(ns).0
        };
        self.stretches.iter().map(energy).sum()
    }
}

/// An idle period in a state, without the way in and out.
struct Sleep {
    asleep: Fj,
    /// How long no state of the core was possible.
    alone_ns: u64,
    /// What entering and leaving take more than what is drawn then, and than the most that is drawn otherwise, µW.
    more_alone: u64,
    more: u64,
}

impl Sleep {
    /// Its energy where so much of it is entering and leaving.
    fn energy(&self, transit_ns: u64) -> u128 {
        let first = transit_ns.min(self.alone_ns);
        self.asleep.0 + Uw(self.more_alone).over(first).0 + Uw(self.more).over(transit_ns - first).0
    }
}

impl Observer for Oracle {
    fn interest(&self) -> Interest {
        Interest::IDLE.and(Interest::POWER).and(Interest::FREQ)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if cpu.at() >= self.cpus.len() {
            return;
        }
        match event {
            Event::CpuIdle { state } => {
                let asleep = (*state != Event::IDLE_EXIT).then_some(*state as usize);
                self.sleeps(at, cpu.at(), asleep);
                match asleep {
                    Some(_) => self.begins(at, cpu.at()),
                    None => self.cpus[cpu.at()].reached = None,
                }
            }
            Event::CpuPower { level } => self.set_level(at, cpu.at(), *level),
            Event::CpuFrequency { domain, opp, .. } => self.set_opp(at, domain.at(), *opp as usize),
            Event::IdlePeriod(period) => self.ended(at, cpu.at(), period),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed;
    use super::*;
    use testbed::{idle, platform, play};

    /// Two states of 10 and 1 mW, 0 and 200 µs to enter and leave, busy 100 mW.
    fn bed() -> Platform {
        let mut p = platform();
        for d in &mut p.domains {
            d.power.busy_uw = vec![100_000; 2];
            d.power.idle_uw = vec![vec![10_000], vec![1_000]];
        }
        for c in &mut p.clusters {
            for (s, (entry_ns, exit_ns)) in c.idle.iter_mut().zip([(0, 0), (100_000, 100_000)]) {
                s.actual = wattif_model::platform::Actual { entry_ns, exit_ns };
                s.scope = Scope::Cpu;
            }
        }
        p
    }

    fn period(state: u8, length_ns: u64, late_ns: u64) -> Event {
        Event::IdlePeriod(IdlePeriod { state, cause: IdleCause::Ipi, length_ns, late_ns })
    }

    #[test]
    fn by_hand() {
        let us = 1_000;
        let mut o = Oracle::new(&bed());
        play(
            &mut o,
            &[
                // 50 µs: on the way into the deep state, then out; the oracle takes the shallow one.
                (0, 0, idle(1)),
                (200 * us, 0, period(1, 50 * us, 150 * us)),
                // 10 ms in the shallow state; the oracle takes the deep one.
                (1_000 * us, 1, idle(0)),
                (1_000 * us, 1, testbed::cpu_power(PowerLevel::Idle(0))),
                (11_000 * us, 1, period(0, 10_000 * us, 0)),
            ],
        );
        let fj = |uw: u128, us: u128| uw * us * 1000;
        let (actual, least) = o.totals();
        assert_eq!(actual.0, fj(100_000, 200) + fj(10_000, 10_000));
        assert_eq!(least.0, fj(10_000, 50) + fj(100_000, 200) + fj(1_000, 9_800));
        let r = o.report().unwrap();
        assert_eq!((r.same_pct, r.deeper_pct, r.shallower_pct), (Some(0.0), Some(50.0), Some(50.0)));
        assert_eq!((r.late_us.max, o.wakeups().unwrap().ipi_pct), (150.0, 100.0));
    }

    /// CPUs 0 and 1 are threads of a core, whose second state is of the core. The other one is in it for 100 of the 400 µs of the first.
    #[test]
    fn a_state_of_the_core_needs_all_its_threads() {
        let us = 1_000;
        let mut p = bed();
        (p.cpus[0].package, p.cpus[0].core) = (7, 7);
        (p.cpus[1].package, p.cpus[1].core) = (7, 7);
        p.clusters.iter_mut().for_each(|c| c.idle[1].scope = Scope::Core);
        let mut o = Oracle::new(&p);
        let events = [
            (0, 0, idle(0)),
            (100 * us, 1, idle(1)),
            (200 * us, 1, idle(Event::IDLE_EXIT)),
            (400 * us, 0, idle(Event::IDLE_EXIT)),
            (400 * us, 0, period(0, 400 * us, 0)),
        ];
        play(&mut o, &events);
        // The narrower state takes no time: 100 µs at 1 mW, 300 µs at 10 mW.
        let fj = |uw: u128, us: u128| uw * us * 1000;
        assert_eq!(o.totals().1.0, fj(1_000, 100) + fj(10_000, 300));
    }

    /// Two threads of a core that both sleep in its states. The deep one takes 1 ms to leave: an oracle does not choose it for
    /// 390 µs, although a state of one thread is left at once.
    #[test]
    fn a_state_of_the_core_that_cannot_be_left_in_time_is_not_the_oracles() {
        let us = 1_000;
        let mut p = bed();
        (p.cpus[0].package, p.cpus[0].core) = (7, 7);
        (p.cpus[1].package, p.cpus[1].core) = (7, 7);
        for d in &mut p.domains {
            d.power.idle_uw = vec![vec![10_000], vec![5_000], vec![1_000]];
        }
        for c in &mut p.clusters {
            c.idle.push(c.idle[1].clone());
            for (s, (scope, exit_ns)) in
                c.idle.iter_mut().zip([(Scope::Cpu, us), (Scope::Core, 10 * us), (Scope::Core, 1_000 * us)])
            {
                s.actual = wattif_model::platform::Actual { entry_ns: 0, exit_ns };
                s.scope = scope;
            }
        }
        let asleep = |state| testbed::cpu_power(PowerLevel::Idle(state));
        let busy = || testbed::cpu_power(PowerLevel::Busy);
        let played = |mate: u8, state: u8| {
            let mut o = Oracle::new(&p);
            let events = [
                (0, 1, idle(mate.into())),
                (0, 1, asleep(mate)),
                (100 * us, 0, idle(state.into())),
                (100 * us, 0, asleep(state)),
                (490 * us, 0, busy()),
                (500 * us, 0, idle(Event::IDLE_EXIT)),
                (500 * us, 0, period(state, 390 * us, 10 * us)),
            ];
            play(&mut o, &events);
            (o.totals().1.0, o.report().unwrap())
        };
        let fj = |uw: u128, us: u128| uw * us * 1000;
        let (least, report) = played(1, 1);
        assert_eq!((report.same_pct, report.deeper_pct), (Some(100.0), Some(0.0)));
        assert_eq!(
            least,
            fj(100_000, 10) + fj(5_000, 380),
            "both are in states of the core: the price is that state's own"
        );
        // The other one is in the state of a thread: no state of the core is possible, and the oracle takes the thread's own.
        let (least, report) = played(0, 1);
        assert_eq!((report.deeper_pct, least), (Some(100.0), fj(100_000, 1) + fj(10_000, 389)));
    }

    /// The clock rises between the beginning of the way out and the request: what was drawn meanwhile is not idle energy.
    #[test]
    fn the_path_of_the_waker_at_two_clocks() {
        let us = 1_000;
        let mut p = bed();
        p.domains.iter_mut().for_each(|d| d.power.busy_uw = vec![100_000, 300_000]);
        for (first, then) in [(0, 1), (1, 0)] {
            let mut o = Oracle::new(&p);
            let (asleep, busy) = (testbed::cpu_power(PowerLevel::Idle(0)), testbed::cpu_power(PowerLevel::Busy));
            let clock = |opp| testbed::frequency(0, opp);
            play(
                &mut o,
                &[
                    (0, 0, clock(first)),
                    (0, 0, idle(0)),
                    (0, 0, asleep),
                    (40 * us, 0, busy),
                    (45 * us, 0, clock(then)),
                    (50 * us, 0, period(0, 50 * us, 0)),
                ],
            );
            assert_eq!(o.totals(), (Fj(10_000 * 50 * 1000), Fj(10_000 * 50 * 1000)), "{first} to {then}");
        }
    }

    /// The clock falls in the middle of a sleep: the state draws less from then on, and no other would have needed less.
    #[test]
    fn a_sleep_at_two_clocks() {
        let us = 1_000;
        let mut p = bed();
        p.domains.iter_mut().for_each(|d| d.power.idle_uw = vec![vec![4_000, 10_000], vec![1_000, 2_000]]);
        let mut o = Oracle::new(&p);
        let asleep = testbed::cpu_power(PowerLevel::Idle(0));
        let clock = |opp| testbed::frequency(0, opp);
        let events = [(0, 0, clock(1)), (0, 0, idle(0)), (0, 0, asleep), (50 * us, 0, clock(0))];
        play(&mut o, &events);
        play(&mut o, &[(150 * us, 0, period(0, 150 * us, 0))]);
        let spent = Fj(10_000 * 50 * 1000 + 4_000 * 100 * 1000);
        assert_eq!(o.totals(), (spent, spent));
    }

    /// The waker needs 3 µs to ask.
    #[test]
    fn the_path_of_the_waker_is_not_idle_energy() {
        let us = 1_000;
        let mut o = Oracle::new(&bed());
        let (asleep, busy) = (testbed::cpu_power(PowerLevel::Idle(0)), testbed::cpu_power(PowerLevel::Busy));
        play(&mut o, &[(0, 0, idle(0)), (0, 0, asleep), (47 * us, 0, busy), (50 * us, 0, period(0, 50 * us, 0))]);
        let (actual, least) = o.totals();
        assert_eq!((actual, least), (Fj(10_000 * 50 * 1000), Fj(10_000 * 50 * 1000)));
    }

    /// What was entered could be entered, whatever sysfs says of it: by a governor that does not look, or by none.
    #[test]
    fn a_disabled_state_that_was_entered_is_within_the_bound() {
        let us = 1_000;
        for disabled in [[true, false], [true, true]] {
            let mut p = bed();
            for c in &mut p.clusters {
                c.idle.iter_mut().zip(disabled).for_each(|(s, disabled)| s.disabled = disabled);
            }
            let mut o = Oracle::new(&p);
            let asleep = testbed::cpu_power(PowerLevel::Idle(0));
            play(&mut o, &[(0, 0, idle(0)), (0, 0, asleep), (50 * us, 0, period(0, 50 * us, 0))]);
            let (actual, least) = o.totals();
            assert_eq!((actual, least), (Fj(10_000 * 50 * 1000), Fj(10_000 * 50 * 1000)));
            assert_eq!(o.report().unwrap().same_pct, Some(100.0));
        }
    }

    #[test]
    fn without_powers_there_is_still_a_delay() {
        let mut p = bed();
        // An energy model knows busy CPUs only.
        p.power.unit = PowerUnit::EnergyModel;
        let mut o = Oracle::new(&p);
        assert_eq!((o.report(), o.wakeups()), (None, None));
        play(&mut o, &[(0, 0, idle(1)), (9_000, 0, period(1, 5_000, 4_000))]);
        let r = o.report().unwrap();
        assert_eq!((r.energy, r.energy_excess_pct, r.late_us.mean), (None, None, 4.0));
    }
}
