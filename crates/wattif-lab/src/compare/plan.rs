//! Which runs a comparison needs: every kernel on every seed, so that the arms of a pair share their noise.

/// Kernels × seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Names; the first is what the others are compared with.
    pub kernels: Vec<String>,
    /// Seeds, the same for each kernel.
    pub seeds: Vec<u64>,
}

/// One run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Index into [`Plan::kernels`].
    pub kernel: usize,
    /// Seed.
    pub seed: u64,
}

impl Plan {
    /// Seeds `1..=seeds`.
    pub fn paired(kernels: Vec<String>, seeds: u64) -> Plan {
        Plan { kernels, seeds: (1..=seeds).collect() }
    }
    /// All runs, seed by seed: stopped early, every kernel still has the same seeds.
    pub fn runs(&self) -> impl Iterator<Item = PlannedRun> + '_ {
        self.seeds.iter().flat_map(|&seed| (0..self.kernels.len()).map(move |kernel| PlannedRun { kernel, seed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        let plan = Plan::paired(vec!["a".into(), "b".into()], 2);
        let runs: Vec<_> = plan.runs().map(|r| (r.kernel, r.seed)).collect();
        assert_eq!(runs, [(0, 1), (1, 1), (0, 2), (1, 2)]);
    }
}
