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
}

#[derive(Clone, Debug)]
struct Domain {
    cpus: String,
    khz: Vec<u32>,
    ns: Vec<u64>,
    opp: usize,
    since: Ns,
    transitions: u64,
}

impl Domain {
    fn new(d: &FreqDomain) -> Domain {
        let khz: Vec<u32> = d.opps.iter().map(|o| o.khz).collect();
        Domain { cpus: d.cpus.to_string(), ns: vec![0; khz.len()], khz, opp: 0, since: Ns::ZERO, transitions: 0 }
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
        self.opp = opp;
    }
    fn report(&self) -> DomainReport {
        let row = |(&khz, &ns): (&u32, &u64)| FreqResidency { khz, s: ns as f64 / 1e9 };
        DomainReport {
            cpus: self.cpus.clone(),
            freq_residency: self.khz.iter().zip(&self.ns).map(row).collect(),
            transitions: self.transitions,
        }
    }
}

/// Listens to `cpu_frequency`.
#[derive(Clone, Debug)]
pub struct Frequency(Vec<Domain>);

impl Frequency {
    /// For this machine; every domain starts at its lowest operating point.
    pub fn new(platform: &Platform) -> Frequency {
        Frequency(platform.domains.iter().map(Domain::new).collect())
    }
    /// A row per domain; after `finish`.
    pub fn rows(&self) -> Vec<DomainReport> {
        self.0.iter().map(Domain::report).collect()
    }
    /// Time of a domain by operating point, ns.
    pub fn residencies_ns(&self, domain: DomainId) -> &[u64] {
        &self.0[domain.at()].ns
    }
}

impl Observer for Frequency {
    fn interest(&self) -> Interest {
        Interest::FREQ
    }
    fn event(&mut self, at: Ns, _cpu: CpuId, event: &Event) {
        if let Event::CpuFrequency { domain, opp, .. } = *event
            && let Some(d) = self.0.get_mut(domain.at())
        {
            d.change(at, (opp as usize).min(d.khz.len() - 1));
        }
    }
    fn finish(&mut self, end: Ns) {
        self.0.iter_mut().for_each(|d| d.account(end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

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
