//! Queues in picking order that do not allocate per operation: sorted vectors whose storage is kept.
//!
//! A queue rarely holds more than a few dozen entities, where a binary search and a short `memmove` beat a tree.

/// An entity in a [`Timeline`].
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// What the timeline is sorted by: `vruntime` of CFS, `deadline` of EEVDF. Wraps.
    pub key: u64,
    /// Its virtual run time.
    pub vruntime: u64,
    /// The entity.
    pub se: usize,
}

/// Entities of a fair queue by a wrapping key, first in first out among equals (`cfs_rq->tasks_timeline`).
///
/// Stored backwards, so that taking the first is cheap.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    nodes: Vec<Node>,
}

impl Timeline {
    /// Queues an entity, behind those of the same key.
    #[inline]
    pub fn insert(&mut self, node: Node) {
        let at = self.nodes.partition_point(|n| (n.key.wrapping_sub(node.key) as i64) > 0);
        self.nodes.insert(at, node);
    }

    /// Removes an entity that was queued with this key.
    ///
    /// # Panics
    /// If it is not there: its key changed while it was queued.
    #[inline]
    pub fn remove(&mut self, key: u64, se: usize) {
        let from = self.nodes.partition_point(|n| (n.key.wrapping_sub(key) as i64) > 0);
        let at = self.nodes[from..].iter().position(|n| n.se == se);
        self.nodes.remove(from + at.expect("a queued entity keeps its key"));
    }

    /// The first entity.
    #[inline]
    pub fn first(&self) -> Option<&Node> {
        self.nodes.last()
    }

    /// The one after the first.
    #[inline]
    pub fn second(&self) -> Option<&Node> {
        self.nodes.len().checked_sub(2).map(|i| &self.nodes[i])
    }

    /// All entities, first to last.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Node> {
        self.nodes.iter().rev()
    }

    /// Nobody is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// A small ordered set.
#[derive(Clone, Debug)]
pub struct SortedVec<T> {
    items: Vec<T>,
}

impl<T> Default for SortedVec<T> {
    fn default() -> SortedVec<T> {
        SortedVec { items: Vec::new() }
    }
}

impl<T: Ord + Copy> SortedVec<T> {
    /// Adds an item.
    pub fn insert(&mut self, item: T) {
        let at = self.items.partition_point(|i| *i < item);
        self.items.insert(at, item);
    }
    /// Removes an item; false if it is not there.
    pub fn remove(&mut self, item: &T) -> bool {
        let found = self.items.binary_search(item);
        found.map(|at| self.items.remove(at)).is_ok()
    }
    /// Removes the first item for which `f` holds, and returns it.
    pub fn take(&mut self, f: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.items.iter().position(f)?;
        Some(self.items.remove(at))
    }
    /// The least item.
    pub fn first(&self) -> Option<&T> {
        self.items.first()
    }
    /// Items in ascending order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// No items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_is_fifo_among_equals() {
        let mut t = Timeline::default();
        for (se, key) in [5, u64::MAX - 5, 5, 0, 5].into_iter().enumerate() {
            t.insert(Node { key, vruntime: key, se });
        }
        let order = |t: &Timeline| t.iter().map(|n| n.se).collect::<Vec<_>>();
        assert_eq!(order(&t), [1, 3, 0, 2, 4]);
        t.remove(5, 2);
        t.remove(u64::MAX - 5, 1);
        assert_eq!(order(&t), [3, 0, 4]);
        assert_eq!((t.first().map(|n| n.se), t.second().map(|n| n.se)), (Some(3), Some(0)));
    }
}
