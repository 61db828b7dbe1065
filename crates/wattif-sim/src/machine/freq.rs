//! Clocks: a frequency domain runs at one operating point and changes it after the transition latency.

use super::Machine;
use wattif_model::DomainId;

/// The clock of a frequency domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Present operating point, index into the domain's table.
    pub opp: usize,
    /// Being changed to this one.
    pub in_flight: Option<usize>,
    /// Asked for during the change; it follows when that is done.
    pub queued: Option<usize>,
}

impl Machine {
    /// Asks for an operating point. Returns the time at which it is reached when a change begins now.
    pub fn request_opp(&mut self, domain: DomainId, opp: usize, now: u64) -> Option<u64> {
        let latency = self.platform.domains[domain.at()].transition_latency_ns;
        let clock = &mut self.clocks[domain.at()];
        match clock.in_flight {
            Some(target) => {
                clock.queued = (target != opp).then_some(opp);
                None
            }
            None if clock.opp == opp => None,
            None => {
                clock.in_flight = Some(opp);
                Some(now + latency)
            }
        }
    }

    /// The change that is in flight is done: the new operating point, and when a queued change will be done.
    pub fn finish_transition(&mut self, domain: DomainId, now: u64) -> (usize, Option<u64>) {
        let clock = &mut self.clocks[domain.at()];
        clock.opp = clock.in_flight.take().expect("a transition was in flight");
        let opp = clock.opp;
        let next = clock.queued.take().and_then(|queued| self.request_opp(domain, queued, now));
        (opp, next)
    }

    /// Present frequency, kHz.
    pub fn khz(&self, domain: DomainId) -> u32 {
        self.platform.domains[domain.at()].opps[self.clocks[domain.at()].opp].khz
    }
}
