//! A table by thread id: an array access for the small ids of simulated and most real threads, bounded for any id.

use std::collections::BTreeMap;
use wattif_model::Pid;

/// Ids below this are looked up in an array.
const NEAR: u32 = 1 << 16;
const NONE: u32 = u32::MAX;

/// A `T` for each known thread, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct PidTable<T> {
    near: Vec<u32>,
    far: BTreeMap<u32, u32>,
    items: Vec<(Pid, T)>,
}

impl<T> Default for PidTable<T> {
    fn default() -> PidTable<T> {
        PidTable { near: Vec::new(), far: BTreeMap::new(), items: Vec::new() }
    }
}

impl<T> PidTable<T> {
    /// The entry of `pid`; a thread that is announced again keeps its entry.
    pub fn entry(&mut self, pid: Pid, new: impl FnOnce() -> T) -> &mut T {
        let slot = self.slot(pid).unwrap_or_else(|| {
            self.items.push((pid, new()));
            let slot = self.items.len() - 1;
            self.link(pid, slot as u32);
            slot
        });
        &mut self.items[slot].1
    }

    fn link(&mut self, pid: Pid, slot: u32) {
        if pid.0 >= NEAR {
            self.far.insert(pid.0, slot);
            return;
        }
        if self.near.len() <= pid.at() {
            self.near.resize(pid.at() + 1, NONE);
        }
        self.near[pid.at()] = slot;
    }

    #[inline]
    fn slot(&self, pid: Pid) -> Option<usize> {
        let slot = if pid.0 < NEAR { self.near.get(pid.at()) } else { self.far.get(&pid.0) };
        slot.filter(|&&s| s != NONE).map(|&s| s as usize)
    }

    /// The entry of a known thread.
    #[inline]
    pub fn get_mut(&mut self, pid: Pid) -> Option<&mut T> {
        self.slot(pid).map(|s| &mut self.items[s].1)
    }
    /// The entry of a known thread.
    pub fn get(&self, pid: Pid) -> Option<&T> {
        self.slot(pid).map(|s| &self.items[s].1)
    }
    /// All, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &(Pid, T)> {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_far_and_unknown() {
        let mut t = PidTable::default();
        for pid in [3, NEAR - 1, NEAR, u32::MAX] {
            *t.entry(Pid(pid), || 0) += pid;
        }
        *t.entry(Pid(3), || unreachable!()) += 1;
        assert_eq!(t.iter().map(|(p, v)| (p.0, *v)).collect::<Vec<_>>()[0], (3, 4));
        assert_eq!((t.get(Pid(u32::MAX)), t.get(Pid(4)), t.get(Pid(NEAR + 1))), (Some(&u32::MAX), None, None));
    }
}
