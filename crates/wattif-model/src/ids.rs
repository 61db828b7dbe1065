//! Identifiers: small integers with a type.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into a table.
            #[inline]
            pub const fn at(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(/// A logical CPU.
    CpuId);
id!(/// A thread. 0 is the idle task of every CPU (`swapper`); workload threads count from 1.
    Pid);
id!(/// A frequency domain (cpufreq policy, perf domain).
    DomainId);
id!(/// A power cluster: CPUs that share idle states of cluster scope.
    ClusterId);

/// A set of CPUs (the kernel's cpumask). Grows as needed; up to [`CpuSet::MAX_CPUS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// The largest platform accepted.
    pub const MAX_CPUS: usize = 4096;

    /// CPUs `0..n`.
    pub fn first(n: usize) -> CpuSet {
        let word = |at: usize| if n - at < 64 { (1 << (n - at)) - 1 } else { u64::MAX };
        CpuSet((0..n).step_by(64).map(word).collect())
    }
    /// A set of one.
    pub fn one(cpu: CpuId) -> CpuSet {
        [cpu].into_iter().collect()
    }
    /// From the low 64 CPUs as a bit mask.
    pub fn from_mask(mask: u64) -> CpuSet {
        CpuSet(vec![mask])
    }
    /// Add a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        let word = cpu.at() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (cpu.0 % 64);
    }
    /// Take a CPU away; true if it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let was_there = self.contains(cpu);
        if was_there {
            self.0[cpu.at() / 64] &= !(1 << (cpu.at() % 64));
        }
        was_there
    }
    /// Is the CPU in the set?
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.get(cpu.at() / 64).is_some_and(|w| w >> (cpu.0 % 64) & 1 == 1)
    }
    /// Number of CPUs (`cpumask_weight`).
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }
    /// No CPU at all?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }
    /// CPUs in ascending order (`for_each_cpu`).
    #[inline]
    pub fn iter(&self) -> Cpus<'_> {
        Cpus::new(&self.0)
    }
    /// CPUs in ascending order from `start`, then wrapping to those below it (`for_each_cpu_wrap`).
    #[inline]
    pub fn iter_wrap(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let mut cpus = self.iter_from(start);
        let mut wrapped = false;
        std::iter::from_fn(move || {
            let next = cpus.next();
            if wrapped {
                return next.filter(|&c| c < start);
            }
            next.or_else(|| {
                (cpus, wrapped) = (self.iter(), true);
                cpus.next().filter(|&c| c < start)
            })
        })
    }
    /// CPUs of both sets, ascending (`for_each_cpu_and`).
    #[inline]
    pub fn iter_and<'a>(&'a self, other: &'a CpuSet) -> impl Iterator<Item = CpuId> + 'a {
        self.iter().filter(|&c| other.contains(c))
    }
    /// The lowest CPU.
    pub fn min(&self) -> Option<CpuId> {
        self.iter().next()
    }
    /// Do the sets share a CPU (`cpumask_intersects`)?
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
    /// Is every CPU of this set in `other`?
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.iter().enumerate().all(|(i, w)| w & !other.0.get(i).copied().unwrap_or(0) == 0)
    }
    /// The CPUs in both.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    #[inline]
    fn iter_from(&self, start: CpuId) -> Cpus<'_> {
        let first = start.at() / 64;
        let words = self.0.get(first + 1..).unwrap_or_default();
        let bits = self.0.get(first).map_or(0, |w| w & (!0 << (start.0 % 64)));
        Cpus { words, base: first as u32 * 64, bits }
    }
}

/// CPUs of a set in ascending order.
#[derive(Clone, Debug)]
pub struct Cpus<'a> {
    /// Those after the present one.
    words: &'a [u64],
    /// First CPU of the present word.
    base: u32,
    /// What is left of it.
    bits: u64,
}

impl<'a> Cpus<'a> {
    #[inline]
    fn new(words: &'a [u64]) -> Cpus<'a> {
        match words {
            [first, rest @ ..] => Cpus { words: rest, base: 0, bits: *first },
            [] => Cpus { words, base: 0, bits: 0 },
        }
    }
}

impl Iterator for Cpus<'_> {
    type Item = CpuId;
    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.bits == 0 {
            let (first, rest) = self.words.split_first()?;
            (self.words, self.base, self.bits) = (rest, self.base + 64, *first);
        }
        let cpu = self.base + self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(CpuId(cpu))
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|c| set.insert(c));
        set
    }
}

/// As the kernel's cpulist: `0-3,6`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|c| c.0).peekable();
        let mut sep = "";
        while let Some(lo) = cpus.next() {
            let mut hi = lo;
            while cpus.next_if_eq(&(hi + 1)).is_some() {
                hi += 1;
            }
            write!(f, "{sep}{lo}")?;
            if hi > lo {
                write!(f, "-{hi}")?;
            }
            sep = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpulist_and_wrap() {
        let set: CpuSet = [0, 1, 2, 5, 64, 65].map(CpuId).into_iter().collect();
        assert_eq!(set.to_string(), "0-2,5,64-65");
        let wrapped: Vec<u32> = set.iter_wrap(CpuId(5)).map(|c| c.0).collect();
        assert_eq!(wrapped, [5, 64, 65, 0, 1, 2]);
        assert_eq!(set.iter_wrap(CpuId(70)).count(), 6);
        assert_eq!(set.iter_wrap(CpuId(999)).map(|c| c.0).collect::<Vec<_>>(), [0, 1, 2, 5, 64, 65]);
        assert_eq!(CpuSet::default().iter_wrap(CpuId(3)).count(), 0);
        let odd: CpuSet = (0..80).filter(|c| c % 2 == 1).map(CpuId).collect();
        assert_eq!(set.iter_and(&odd).map(|c| c.0).collect::<Vec<_>>(), [1, 5, 65]);
        assert_eq!(set.len(), 6);
        assert!(CpuSet::one(CpuId(64)).is_subset(&set) && !set.is_subset(&CpuSet::first(6)));
    }
}
