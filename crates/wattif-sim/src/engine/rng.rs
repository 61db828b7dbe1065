//! Named random streams.
//!
//! A stream is derived from (seed, name) alone, so a policy, task or metric that is added draws from a stream of its own and
//! shifts no other. Arithmetic is integer or `libm`'s, which is the same code on every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use wattif_model::workload::dist::Dist;

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Pcg64Mcg);

/// Where a [`Dist::Sequence`] stands: one per use of the distribution and thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceState {
    next: u32,
}

impl Rng {
    /// The stream called `name` of a run with this seed, such as `work/cfs_thread-0`.
    pub fn stream(seed: u64, name: &str) -> Rng {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes()).update(name.as_bytes());
        let mut state = [0; 16];
        state.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Rng(Pcg64Mcg::new(u128::from_le_bytes(state)))
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Every integer of `lo..=hi` equally likely; `lo` when the range is empty.
    #[inline]
    pub fn uniform(&mut self, lo: u64, hi: u64) -> u64 {
        if hi <= lo {
            return lo;
        }
        match (hi - lo).checked_add(1) {
            Some(span) => lo + self.below(span),
            None => self.next_u64(),
        }
    }

    /// Every integer of `lo..=hi` equally likely, signed; `lo` when the range is empty.
    #[inline]
    pub fn uniform_i64(&mut self, lo: i64, hi: i64) -> i64 {
        // Two's complement: the offset is added with wrap and lands in the range.
        lo.wrapping_add(self.uniform(0, hi.saturating_sub(lo).max(0) as u64) as i64)
    }

    /// Exponential with this mean, rounded; not cut.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        round(-libm::log(self.unit()) * mean as f64)
    }

    /// Log-normal by its median and σ of the logarithm × 1000, rounded; not cut.
    pub fn lognormal(&mut self, median: u64, sigma_milli: u32) -> u64 {
        // Box and Muller's transform; the second value is not kept, so a draw always takes two numbers.
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        let normal = radius * libm::cos(std::f64::consts::TAU * self.unit());
        round(median as f64 * libm::exp(f64::from(sigma_milli) / 1e3 * normal))
    }

    /// Pareto with smallest value `scale` and shape α × 1000, rounded; not cut.
    pub fn pareto(&mut self, scale: u64, shape_milli: u32) -> u64 {
        let exponent = -libm::log(self.unit()) * 1e3 / f64::from(shape_milli.max(1));
        round(scale as f64 * libm::exp(exponent))
    }

    /// A draw, cut as [`Dist`] says: values beyond the limit become the limit.
    pub fn draw(&mut self, dist: &Dist, sequence: &mut SequenceState) -> u64 {
        match *dist {
            Dist::Uniform { lo, hi } => self.uniform(lo, hi),
            Dist::Exponential { mean } => self.exponential(mean).min(mean.saturating_mul(50)),
            Dist::LogNormal { median, sigma_milli } => {
                self.lognormal(median, sigma_milli).min(median.saturating_mul(1000))
            }
            Dist::Pareto { scale, shape_milli } => self.pareto(scale, shape_milli).min(scale.saturating_mul(1000)),
            Dist::Sequence { ref values } => sequence.step(values),
            Dist::Choice { ref values } => {
                let at = self.uniform(0, (values.len() as u64).saturating_sub(1));
                values.get(at as usize).copied().unwrap_or(0)
            }
        }
    }

    /// `0..span`, by the high half of a product (Lemire, 2019); the few numbers that would favour some results are redrawn.
    #[inline]
    fn below(&mut self, span: u64) -> u64 {
        loop {
            let product = u128::from(self.next_u64()) * u128::from(span);
            let low = product as u64;
            if low >= span || low >= span.wrapping_neg() % span {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in (0, 1], a multiple of 2^-53.
    #[inline]
    fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }
}

/// Exponential draws of one mean, made a batch ahead: their logarithms do not wait for one another.
#[derive(Clone, Debug)]
pub struct Jitter {
    rng: Rng,
    mean: u64,
    ahead: [u64; Jitter::BATCH],
    /// How many of them are used up.
    used: usize,
}

impl Jitter {
    const BATCH: usize = 8;

    /// Of the whole stream; nothing is drawn where the mean is 0.
    pub fn new(rng: Rng, mean: u64) -> Jitter {
        Jitter { rng, mean, ahead: [0; Jitter::BATCH], used: Jitter::BATCH }
    }

    /// The next draw.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        if self.mean == 0 {
            return 0;
        }
        if self.used == Jitter::BATCH {
            self.draw_ahead();
        }
        self.used += 1;
        self.ahead[self.used - 1]
    }

    #[inline(never)]
    fn draw_ahead(&mut self) {
        self.used = 0;
        for value in &mut self.ahead {
            *value = self.rng.exponential(self.mean);
        }
    }
}

impl SequenceState {
    fn step(&mut self, values: &[u64]) -> u64 {
        let value = values.get(self.next as usize).copied().unwrap_or(0);
        self.next = if (self.next as usize) + 1 < values.len() { self.next + 1 } else { 0 };
        value
    }
}

/// To the nearest integer; negative becomes 0, too large becomes `u64::MAX` (a float-to-integer cast saturates).
#[inline]
fn round(x: f64) -> u64 {
    (x + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 20_000;

    fn mean(mut draw: impl FnMut() -> u64) -> f64 {
        (0..N).map(|_| draw() as f64).sum::<f64>() / N as f64
    }

    #[test]
    fn fixed_values() {
        let mut r = Rng::stream(1, "work/cfs_thread-0");
        let got = [r.next_u64(), r.uniform(10, 20), r.exponential(1_000_000), r.lognormal(1_000_000, 500)];
        assert_eq!(got, FIXED);
        assert_eq!((r.pareto(1_000_000, 1500), r.uniform_i64(-5, 5)), (1_064_892, -4));
    }
    const FIXED: [u64; 4] = [191_188_843_307_039_306, 16, 637_090, 678_327];

    #[test]
    fn streams_do_not_shift_each_other() {
        let mut alone = Rng::stream(7, "a");
        let alone: Vec<u64> = (0..4).map(|_| alone.next_u64()).collect();
        let (mut a, mut b) = (Rng::stream(7, "a"), Rng::stream(7, "b"));
        let mixed: Vec<u64> = (0..4).map(|_| (b.next_u64(), a.next_u64()).1).collect();
        assert_eq!(alone, mixed);
        assert_ne!(Rng::stream(8, "a"), Rng::stream(7, "a"));
        assert_ne!(Rng::stream(7, "b"), Rng::stream(7, "a"));
    }

    #[test]
    fn jitter_is_the_stream_of_its_mean() {
        let (mut plain, mut jitter) = (Rng::stream(9, "irq/0"), Jitter::new(Rng::stream(9, "irq/0"), 700));
        assert!((0..100).all(|_| jitter.draw() == plain.exponential(700)));
        assert_eq!(Jitter::new(plain, 0).draw(), 0);
    }

    #[test]
    fn uniform_covers_its_range_evenly() {
        let mut r = Rng::stream(3, "u");
        let mut seen = [0u64; 7];
        (0..N).for_each(|_| seen[(r.uniform(5, 11) - 5) as usize] += 1);
        assert!(seen.iter().all(|&n| n.abs_diff(N / 7) < N / 70), "{seen:?}");
        assert_eq!((r.uniform(4, 4), r.uniform(9, 2)), (4, 9));
        assert!((0..N).all(|_| (-3..=3).contains(&r.uniform_i64(-3, 3))));
        r.uniform(0, u64::MAX);
    }

    #[test]
    fn moments() {
        let mut r = Rng::stream(4, "m");
        let e = mean(|| r.exponential(1_000_000));
        assert!((e / 1e6 - 1.0).abs() < 0.03, "{e}");
        // Mean of a log-normal: median × exp(σ²/2).
        let l = mean(|| r.lognormal(1_000_000, 500));
        assert!((l / 1e6 / libm::exp(0.125) - 1.0).abs() < 0.03, "{l}");
        // Mean of a Pareto: scale × α/(α-1).
        let p = mean(|| r.pareto(1_000_000, 4000));
        assert!((p / 1e6 - 4.0 / 3.0).abs() < 0.03, "{p}");
    }

    #[test]
    fn draws_are_cut_and_sequences_repeat() {
        let mut r = Rng::stream(5, "d");
        let mut s = SequenceState::default();
        let heavy = Dist::Pareto { scale: 10, shape_milli: 100 };
        assert!((0..N).map(|_| r.draw(&heavy, &mut s)).max() == Some(10_000));
        let wide = Dist::LogNormal { median: 10, sigma_milli: 9000 };
        assert!((0..N).map(|_| r.draw(&wide, &mut s)).max() == Some(10_000));
        assert!((0..N).all(|_| r.draw(&Dist::Exponential { mean: 10 }, &mut s) <= 500));
        let seq = Dist::Sequence { values: vec![1, 2, 3] };
        let got: Vec<u64> = (0..7).map(|_| r.draw(&seq, &mut s)).collect();
        assert_eq!(got, [1, 2, 3, 1, 2, 3, 1]);
        let choice = Dist::Choice { values: vec![4, 6] };
        assert!((0..N).map(|_| r.draw(&choice, &mut s)).all(|v| v == 4 || v == 6));
        let empty = [Dist::Choice { values: vec![] }, Dist::Sequence { values: vec![] }];
        assert!(empty.iter().all(|d| r.draw(d, &mut SequenceState::default()) == 0));
    }
}
