//! What a cluster draws beside its CPUs while all of them are in idle periods, and the least that it could have.
//!
//! Such a *spell* begins with the last CPU's idle period and ends when the first one of them ends; of that one, what follows the request to
//! wake up is energy that an oracle does not need, as it is for the CPU itself. The cluster draws what the shallowest of its CPUs lets it,
//! so no less than the state of the one whose period ended the spell: that one answers for the cluster, and its own least and the cluster's are one
//! choice. While it enters and leaves, the cluster draws what it draws with a busy CPU.

use wattif_model::platform::{CPUIDLE_STATE_MAX, IdleState, PowerTable, Scope};
use wattif_model::trace::PowerLevel;
use wattif_model::{Fj, Ns, Uw};

/// A cluster that draws power of its own.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub cpus: Vec<usize>,
    pub domain: usize,
    states: Vec<State>,
    asleep: usize,
    /// The present or last spell began then; `None` where that one is accounted, or there was none.
    spell: Option<Ns>,
    level: PowerLevel,
    since: Ns,
    /// Energy since the spell began.
    spent: Fj,
    /// Operating points since then.
    stretches: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Of whoever is quickest to and from this state or a deeper one.
    entry_ns: u64,
    exit_ns: u64,
}

/// A spell that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    /// What the cluster drew.
    pub energy: Fj,
    /// What it draws in that time with a busy CPU, fJ.
    pub busy: u128,
    /// What it draws in that time in each state.
    pub by_state: [u128; CPUIDLE_STATE_MAX],
    /// The least it draws if whoever ended the spell is in that state.
    pub least: [u128; CPUIDLE_STATE_MAX],
}

impl Cluster {
    pub(super) fn new(cpus: Vec<usize>, domain: usize, idle: &[IdleState]) -> Cluster {
        let state = |i: usize| {
            // Who asks for it may be let no deeper than this.
            let narrow = idle[..=i].iter().rposition(|s| s.scope == Scope::Cpu).unwrap_or(0);
            let quickest = |of: fn(&IdleState) -> u64| idle[narrow..].iter().map(of).min().unwrap_or(0);
            State { entry_ns: quickest(|s| s.actual.entry_ns), exit_ns: quickest(|s| s.actual.exit_ns) }
        };
        Cluster {
            cpus,
            domain,
            states: (0..idle.len()).map(state).collect(),
            asleep: 0,
            spell: None,
            level: PowerLevel::Busy,
            since: Ns::ZERO,
            spent: Fj(0),
            stretches: Vec::new(),
        }
    }

    /// Accounts up to now at the operating point that was.
    pub(super) fn account(&mut self, at: Ns, table: &PowerTable, opp: usize) {
        let ns = at.since(std::mem::replace(&mut self.since, at));
        if self.spell.is_some() && self.asleep == self.cpus.len() && ns > 0 {
            self.spent += Uw(power(table, self.level, opp)).over(ns);
            match self.stretches.last_mut() {
                Some((same, so_far)) if *same == opp => *so_far += ns,
                _ => self.stretches.push((opp, ns)),
            }
        }
    }

    /// One of its CPUs begins an idle period. Like what follows, once all is accounted.
    pub(super) fn falls_asleep(&mut self, at: Ns) {
        self.asleep += 1;
        if self.asleep == self.cpus.len() {
            (self.spell, self.spent) = (Some(at), Fj(0));
            self.stretches.clear();
        }
    }

    /// One of its CPUs executes again.
    pub(super) fn wakes_up(&mut self) {
        self.asleep -= 1;
    }

    /// Its CPUs let it draw this.
    pub(super) fn set_level(&mut self, level: PowerLevel) {
        self.level = level;
    }

    /// An idle period that began and was asked to end at these times is over; `None` where it had not ended a spell, or was asked before all
    /// slept.
    pub(super) fn ended(&mut self, began: Ns, request: Ns, table: &PowerTable) -> Option<Spell> {
        let from = self.spell.take().filter(|from| *from <= request)?;
        let length_ns = request.since(from);
        let drawn = |power: &dyn Fn(usize) -> u64| {
            let mut left = length_ns;
            let part = |&(opp, ns): &(usize, u64)| {
                let ns = ns.min(left);
                left -= ns;
                Uw(power(opp)).over(ns).0
            };
            self.stretches.iter().map(part).sum::<u128>()
        };
        let (mut by_state, mut least) = ([0; CPUIDLE_STATE_MAX], [0; CPUIDLE_STATE_MAX]);
        for (i, state) in self.states.iter().enumerate().take(CPUIDLE_STATE_MAX) {
            by_state[i] = drawn(&|opp| table.cluster_idle(i, opp));
            let floor =
                |opp: usize| (0..=i).map(|s| table.cluster_idle(s, opp)).fold(table.cluster_busy(opp), u64::min);
            let more = self.stretches.iter().map(|(opp, _)| table.cluster_busy(*opp) - floor(*opp)).min().unwrap_or(0);
            let transit_ns = state.exit_ns + if began == from { state.entry_ns } else { 0 };
            least[i] = drawn(&floor) + Uw(more).over(transit_ns.min(length_ns)).0;
        }
        Some(Spell { energy: self.spent, busy: drawn(&|opp| table.cluster_busy(opp)), by_state, least })
    }
}

fn power(table: &PowerTable, level: PowerLevel, opp: usize) -> u64 {
    match level {
        PowerLevel::Busy => table.cluster_busy(opp),
        PowerLevel::Idle(state) => table.cluster_idle(state.into(), opp),
    }
}
