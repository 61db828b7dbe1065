//! The frequency table of a domain and how a wish becomes one of its frequencies.

/// `khz` of an entry that is not to be used (`CPUFREQ_ENTRY_INVALID`).
pub const ENTRY_INVALID: u32 = u32::MAX;

/// One line of the table (`struct cpufreq_frequency_table`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreqEntry {
    /// Frequency, kHz, or [`ENTRY_INVALID`].
    pub khz: u32,
    /// A faster entry costs no more energy for the same work (`CPUFREQ_INEFFICIENT_FREQ`).
    pub inefficient: bool,
}

/// What to do when the wish is between two frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `CPUFREQ_RELATION_L`: the lowest at or above it.
    L,
    /// `CPUFREQ_RELATION_H`: the highest at or below it.
    H,
    /// `CPUFREQ_RELATION_C`: the closest; of two equally close the one that stands first in the table.
    C,
    /// `CPUFREQ_RELATION_LE`: as `L` among the efficient ones.
    LE,
    /// `CPUFREQ_RELATION_HE`: as `H` among the efficient ones.
    HE,
    /// `CPUFREQ_RELATION_CE`: as `C` among the efficient ones.
    CE,
}

impl Relation {
    fn without_efficiency(self) -> (Relation, bool) {
        match self {
            Relation::LE => (Relation::L, true),
            Relation::HE => (Relation::H, true),
            Relation::CE => (Relation::C, true),
            other => (other, false),
        }
    }
}

/// A sorted frequency table, ascending or descending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreqTable {
    /// The valid entries, ascending, with their index in the table as given.
    slots: Vec<(FreqEntry, usize)>,
    descending: bool,
    efficiencies_available: bool,
}

impl FreqTable {
    /// From a table sorted either way. `efficiencies_available`: the inefficient marks are to be heeded.
    ///
    /// # Panics
    /// When no entry is valid.
    pub fn new(entries: &[FreqEntry], efficiencies_available: bool) -> FreqTable {
        let valid = entries.iter().enumerate().filter(|(_, e)| e.khz != ENTRY_INVALID);
        let mut slots: Vec<(FreqEntry, usize)> = valid.map(|(i, e)| (*e, i)).collect();
        assert!(!slots.is_empty(), "a frequency table without a valid entry");
        let descending = slots.first().map(|s| s.0.khz) > slots.last().map(|s| s.0.khz);
        slots.sort_by_key(|(e, i)| (e.khz, *i));
        FreqTable { slots, descending, efficiencies_available }
    }

    /// Marks the frequencies for which `inefficient` holds, by an energy model, to be skipped (`em_cpufreq_update_efficiencies`).
    #[doc(alias = "em_cpufreq_update_efficiencies")]
    pub fn mark_inefficient(&mut self, inefficient: impl Fn(u32) -> bool) {
        for (entry, _) in &mut self.slots {
            entry.inefficient |= inefficient(entry.khz);
            self.efficiencies_available |= entry.inefficient;
        }
    }

    /// The lowest frequency, kHz.
    pub fn lowest(&self) -> u32 {
        self.slots.first().map_or(0, |s| s.0.khz)
    }
    /// The highest frequency, kHz.
    pub fn highest(&self) -> u32 {
        self.slots.last().map_or(0, |s| s.0.khz)
    }

    /// Index into the table as given of the frequency for a wish of `target_khz` within `min..=max`
    /// (`cpufreq_frequency_table_target`). `min` and `max` need not be frequencies of the table: `L` may exceed `max`.
    #[doc(alias = "cpufreq_frequency_table_target")]
    pub fn index(&self, target_khz: u32, min: u32, max: u32, relation: Relation) -> usize {
        self.find(target_khz, min, max, relation).1
    }

    /// The same, as a frequency in kHz (`__resolve_freq`).
    #[doc(alias = "__resolve_freq")]
    #[doc(alias = "cpufreq_driver_resolve_freq")]
    pub fn resolve(&self, target_khz: u32, min: u32, max: u32, relation: Relation) -> u32 {
        self.find(target_khz, min, max, relation).0.khz
    }

    fn find(&self, target_khz: u32, min: u32, max: u32, relation: Relation) -> &(FreqEntry, usize) {
        let target = target_khz.max(min).min(max); // `max` wins if the limits cross, as in clamp_val()
        let (relation, efficient) = relation.without_efficiency();
        if efficient && self.efficiencies_available {
            // An efficient frequency outside the limits is no use; look again among all.
            let found = self.search(target, relation, true);
            if let Some(slot) = found.filter(|s| (min..=max).contains(&s.0.khz)) {
                return slot;
            }
        }
        self.search(target, relation, false).unwrap_or(&self.slots[0])
    }

    fn search(&self, target: u32, relation: Relation, efficient: bool) -> Option<&(FreqEntry, usize)> {
        let mut usable = self.slots.iter().filter(|s| !(efficient && s.0.inefficient));
        let above = usable.clone().find(|s| s.0.khz >= target);
        let below = usable.clone().rfind(|s| s.0.khz <= target);
        match relation {
            Relation::L | Relation::LE => above.or_else(|| usable.next_back()),
            Relation::H | Relation::HE => below.or_else(|| usable.next()),
            Relation::C | Relation::CE => self.closer(target, below, above),
        }
    }

    fn closer<'a>(&self, target: u32, below: Slot<'a>, above: Slot<'a>) -> Slot<'a> {
        let (Some(lo), Some(hi)) = (below, above) else { return below.or(above) };
        let (down, up) = (target - lo.0.khz, hi.0.khz - target);
        let take_lower = down < up || (down == up && !self.descending);
        if take_lower { below } else { above }
    }
}

type Slot<'a> = Option<&'a (FreqEntry, usize)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(khz: &[u32], inefficient: &[u32]) -> FreqTable {
        let entries: Vec<_> =
            khz.iter().map(|&khz| FreqEntry { khz, inefficient: inefficient.contains(&khz) }).collect();
        FreqTable::new(&entries, !inefficient.is_empty())
    }

    #[test]
    fn relations() {
        let t = table(&[500, 800, 1000], &[]);
        let at = |target, relation| t.resolve(target, 500, 1000, relation);
        assert_eq!([at(600, Relation::L), at(600, Relation::H), at(600, Relation::C)], [800, 500, 500]);
        assert_eq!([at(2000, Relation::L), at(1, Relation::H), at(900, Relation::C)], [1000, 500, 800]);
        let descending = table(&[1000, 800, 500], &[]);
        assert_eq!(descending.resolve(900, 500, 1000, Relation::C), 1000, "a tie takes the first of the table");
        assert_eq!(descending.index(500, 500, 1000, Relation::L), 2);
    }

    #[test]
    fn inefficient_frequencies_are_used_only_when_the_limits_leave_no_other() {
        let t = table(&[500, 800, 1000], &[800]);
        assert_eq!(t.resolve(600, 500, 1000, Relation::LE), 1000);
        assert_eq!(t.resolve(600, 500, 900, Relation::LE), 800);
        let mut marked = table(&[500, 800, 1000], &[]);
        marked.mark_inefficient(|khz| khz == 800);
        assert_eq!(marked, t);
    }
}
