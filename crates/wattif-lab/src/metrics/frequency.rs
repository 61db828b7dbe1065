//! At which frequency was each domain, and how often did it change?

use serde::{Deserialize, Serialize};
use wattif_model::platform::{FreqDomain, Platform};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, DomainId, Ns};

/// Time at one operating point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreqResidency {
    /// Its frequency.
    pub khz: u32,
    /// How long, s.
    pub s: f64,
}

/// One frequency domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainReport {
    /// Its CPUs as a list such as `0-3`.
    pub cpus: String,
    /// By operating point, ascending.
    pub freq_residency: Vec<FreqResidency>,
    /// Changes of frequency after time 0.
    pub transitions: u64,
    /// From when a CPU became busy at the lowest frequency until the highest was reached first, without the CPU having been idle,
    /// mean, ms; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up_ms: Option<f64>,
    /// From the end of the load at the highest frequency until the lowest, likewise: of the last busy time of 10 ms or more, or,
    /// without one, from leaving the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_down_ms: Option<f64>,
}

/// Ways from one end of the frequencies to the other.
#[derive(Clone, Copy, Debug, Default)]
struct Ramps {
    /// Since when there has been a way up that has not reached the highest: a governor may fall back for a tick in the midst of it.
    up_since: Option<Ns>,
    /// When the highest was reached last.
    topped: Option<Ns>,
    /// Since when there has been a way down from the highest.
    down_since: Option<Ns>,
    /// Number and length of those to the top, and of those to the bottom, ns.
    up: (u64, u64),
    down: (u64, u64),
}

impl Ramps {
    /// `reached`: when the frequency that is left was; `ended`: when the load did; `busy`: since when a CPU has been busy without a break.
    fn change(&mut self, from: usize, to: usize, top: usize, at: Ns, [reached, ended]: [Ns; 2], busy: Option<Ns>) {
        let goes_on = |since: Option<Ns>| since.filter(|&since| busy.is_some_and(|busy| busy <= since));
        if from == 0 {
            // Each busy time has one way up, from when the lowest is reached, if it begins higher.
            let begins = busy.filter(|&busy| self.topped.is_none_or(|at| at < busy)).map(|busy| busy.max(reached));
            self.up_since = goes_on(self.up_since).or(begins);
        }
        if from == top {
            self.down_since = Some(if ended >= reached { ended } else { at });
        }
        if to == top {
            (self.topped, self.down_since) = (Some(at), None);
            // Bursts that take the clock up in steps are no ramp.
            if let Some(since) = goes_on(self.up_since.take()) {
                self.up = (self.up.0 + 1, self.up.1 + at.since(since));
            }
        }
        if to == 0
            && let Some(since) = self.down_since.take()
        {
            self.down = (self.down.0 + 1, self.down.1 + at.since(since));
        }
    }
}

fn mean_ms((count, ns): (u64, u64)) -> Option<f64> {
    (count > 0).then(|| ns as f64 / count as f64 / 1e6)
}

#[derive(Clone, Debug)]
struct Domain {
    cpus: String,
    khz: Vec<u32>,
    ns: Vec<u64>,
    opp: usize,
    since: Ns,
    transitions: u64,
    ramps: Ramps,
    /// By CPU: since when it has not been idle; `None`: it is idle.
    busy: Vec<Option<Ns>>,
    /// When a busy time of [`LOAD_NS`] or more ended last.
    load_ended: Ns,
    /// When the present frequency was reached.
    reached: Ns,
}

/// Who is busy for so long is the load, not what comes after it.
const LOAD_NS: u64 = 10_000_000;

impl Domain {
    fn new(d: &FreqDomain) -> Domain {
        let khz: Vec<u32> = d.opps.iter().map(|o| o.khz).collect();
        Domain {
            cpus: d.cpus.to_string(),
            ns: vec![0; khz.len()],
            khz,
            opp: 0,
            since: Ns::ZERO,
            transitions: 0,
            ramps: Ramps::default(),
            busy: vec![Some(Ns::ZERO); d.cpus.len()],
            load_ended: Ns::ZERO,
            reached: Ns::ZERO,
        }
    }
    fn account(&mut self, at: Ns) {
        if let Some(ns) = self.ns.get_mut(self.opp) {
            *ns += at.since(self.since);
        }
        self.since = at;
    }
    fn change(&mut self, at: Ns, opp: usize) {
        self.account(at);
        // What a domain starts with is not a change.
        self.transitions += u64::from(opp != self.opp && at > Ns::ZERO);
        if opp != self.opp {
            let busy = self.busy.iter().flatten().min().copied();
            self.ramps.change(self.opp, opp, self.khz.len() - 1, at, [self.reached, self.load_ended], busy);
            self.reached = at;
        }
        self.opp = opp;
    }
    /// A CPU goes idle, or begins to be busy.
    fn idle(&mut self, at: Ns, place: usize, idle: bool) {
        let since = self.busy[place];
        self.busy[place] = if idle { None } else { since.or(Some(at)) };
        if idle && since.is_some_and(|since| at.since(since) >= LOAD_NS) {
            self.load_ended = at;
        }
    }
    fn report(&self) -> DomainReport {
        let row = |(&khz, &ns): (&u32, &u64)| FreqResidency { khz, s: ns as f64 / 1e9 };
        DomainReport {
            cpus: self.cpus.clone(),
            freq_residency: self.khz.iter().zip(&self.ns).map(row).collect(),
            transitions: self.transitions,
            ramp_up_ms: mean_ms(self.ramps.up),
            ramp_down_ms: mean_ms(self.ramps.down),
        }
    }
}

/// Listens to `cpu_frequency`.
#[derive(Clone, Debug)]
pub struct Frequency {
    domains: Vec<Domain>,
    /// By CPU: its domain, and its place among the domain's CPUs.
    of_cpu: Vec<(usize, usize)>,
}

impl Frequency {
    /// For this machine; every domain starts at its lowest operating point.
    pub fn new(platform: &Platform) -> Frequency {
        let place = |(cpu, c): (u32, &wattif_model::platform::Cpu)| {
            let cpus = &platform.domains[c.domain.at()].cpus;
            (c.domain.at(), cpus.iter().position(|other| other.0 == cpu).unwrap_or(0))
        };
        Frequency {
            domains: platform.domains.iter().map(Domain::new).collect(),
            of_cpu: (0..).zip(&platform.cpus).map(place).collect(),
        }
    }
    /// A row per domain; after `finish`.
    pub fn rows(&self) -> Vec<DomainReport> {
        self.domains.iter().map(Domain::report).collect()
    }
    /// Time of a domain by operating point, ns.
    pub fn residencies_ns(&self, domain: DomainId) -> &[u64] {
        &self.domains[domain.at()].ns
    }
}

impl Observer for Frequency {
    fn interest(&self) -> Interest {
        Interest::FREQ.and(Interest::IDLE)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::CpuFrequency { domain, opp, .. } => {
                if let Some(d) = self.domains.get_mut(domain.at()) {
                    d.change(at, (opp as usize).min(d.khz.len() - 1));
                }
            }
            Event::CpuIdle { state } => {
                let Some(&(domain, place)) = self.of_cpu.get(cpu.at()) else { return };
                if let Some(d) = self.domains.get_mut(domain).filter(|d| place < d.busy.len()) {
                    d.idle(at, place, state != Event::IDLE_EXIT);
                }
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.domains.iter_mut().for_each(|d| d.account(end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn ramps_are_whole_ways_between_the_ends() {
        let mut d = Domain { khz: vec![1, 2, 3], ns: vec![0; 3], ..Domain::new(&platform().domains[0]) };
        let ms = 1_000_000;
        for (at, opp) in [(1, 1), (3, 0), (5, 1), (9, 2), (20, 1), (21, 2), (30, 1), (34, 0), (40, 2), (50, 0)] {
            d.change(Ns(at * ms), opp);
        }
        assert_eq!(
            (mean_ms(d.ramps.up), mean_ms(d.ramps.down)),
            (Some(9.0), Some(2.0)),
            "busy since 0, back at 3; 4 and 0"
        );
    }

    /// Busy since 10 ms at the highest, which the governor gives up at 11, and once more at 30.
    #[test]
    fn a_load_has_one_way_up() {
        let mut d = Domain { khz: vec![1, 2, 3], ns: vec![0; 3], ..Domain::new(&platform().domains[0]) };
        let ms = |ms: u64| Ns(ms * 1_000_000);
        d.idle(ms(0), 1, true);
        d.idle(ms(1), 0, true);
        d.change(ms(2), 2);
        d.idle(ms(10), 0, false);
        for (at, opp) in [(11, 0), (15, 1), (16, 0), (18, 1), (20, 2), (30, 0), (31, 2)] {
            d.change(ms(at), opp);
        }
        assert_eq!(d.ramps.up, (1, 9_000_000));
    }

    #[test]
    fn bursts_that_take_the_clock_up_in_steps_are_no_ramp() {
        let mut d = Domain { khz: vec![1, 2, 3], ns: vec![0; 3], ..Domain::new(&platform().domains[0]) };
        let ms = |ms: u64| Ns(ms * 1_000_000);
        d.idle(ms(0), 1, true);
        d.change(ms(2), 1);
        d.idle(ms(3), 0, true);
        d.idle(ms(4), 0, false);
        d.change(ms(6), 2);
        assert_eq!(mean_ms(d.ramps.up), None);
    }

    /// Busy from 0 to 20 ms, then for 1 ms now and then: the highest is left at 28, the lowest reached at 40.
    #[test]
    fn a_ramp_down_begins_with_the_end_of_the_load() {
        let mut d = Domain { khz: vec![1, 2, 3], ns: vec![0; 3], ..Domain::new(&platform().domains[0]) };
        let ms = |ms: u64| Ns(ms * 1_000_000);
        d.idle(ms(0), 1, true);
        d.change(ms(5), 2);
        for (at, idle) in [(20, true), (24, false), (25, true), (27, false)] {
            d.idle(ms(at), 0, idle);
        }
        d.change(ms(28), 1);
        d.idle(ms(29), 0, true);
        d.change(ms(40), 0);
        assert_eq!((mean_ms(d.ramps.up), mean_ms(d.ramps.down)), (Some(5.0), Some(20.0)));
    }

    #[test]
    fn residency_and_transitions() {
        let mut f = Frequency::new(&platform());
        play(&mut f, &[(0, 0, frequency(0, 1)), (40, 0, frequency(0, 0)), (50, 0, frequency(0, 0))]);
        f.finish(Ns(100));
        assert_eq!((f.residencies_ns(DomainId(0)), f.residencies_ns(DomainId(1))), (&[60, 40][..], &[100, 0][..]));
        let row = &f.rows()[0];
        assert_eq!((row.cpus.as_str(), row.transitions, row.freq_residency[1].khz), ("0-1", 1, 1_000_000));
    }
}
