//! Physical quantities as newtypes over integers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Full speed of the biggest CPU: the scale of capacities, utilisations and speeds (the kernel's `SCHED_CAPACITY_SCALE`).
pub const CAPACITY_SCALE: u64 = 1024;

/// A point in time or a duration, nanoseconds. Runs start at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ns(pub u64);

impl Ns {
    /// Later than every event of a run.
    pub const MAX: Ns = Ns(u64::MAX);
    /// Zero.
    pub const ZERO: Ns = Ns(0);

    /// From microseconds.
    pub const fn from_us(us: u64) -> Ns {
        Ns(us * 1_000)
    }
    /// From milliseconds.
    pub const fn from_ms(ms: u64) -> Ns {
        Ns(ms * 1_000_000)
    }
    /// From seconds.
    pub const fn from_s(s: u64) -> Ns {
        Ns(s * 1_000_000_000)
    }
    /// `self - other`, or zero when `other` is later.
    pub const fn since(self, other: Ns) -> u64 {
        self.0.saturating_sub(other.0)
    }
    /// For display and statistics only; never in machine state.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<u64> for Ns {
    type Output = Ns;
    fn add(self, ns: u64) -> Ns {
        Ns(self.0 + ns)
    }
}
impl AddAssign<u64> for Ns {
    fn add_assign(&mut self, ns: u64) {
        self.0 += ns;
    }
}
/// Exact difference; panics in debug builds when negative (use [`Ns::since`] for a clamped one).
impl Sub for Ns {
    type Output = u64;
    fn sub(self, other: Ns) -> u64 {
        self.0 - other.0
    }
}
impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A clock frequency, kHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Khz(pub u32);

/// Power, µW (or abstract units × 1000 where the platform says so, see [`crate::platform::PowerUnit`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uw(pub u64);

/// Energy, femtojoules: µW × ns exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fj(pub u128);

impl Uw {
    /// Energy of this power held for `ns`.
    pub const fn over(self, ns: u64) -> Fj {
        Fj(self.0 as u128 * ns as u128)
    }
}
impl Add for Fj {
    type Output = Fj;
    fn add(self, o: Fj) -> Fj {
        Fj(self.0 + o.0)
    }
}
impl AddAssign for Fj {
    fn add_assign(&mut self, o: Fj) {
        self.0 += o.0;
    }
}
impl Fj {
    /// Joules, for display.
    pub fn as_joules(self) -> f64 {
        self.0 as f64 * 1e-15
    }
}
