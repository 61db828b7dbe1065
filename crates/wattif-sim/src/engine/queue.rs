//! The event queue: who acts next, and when.
//!
//! Every source of events (the end of a CPU's run, its tick, its timer interrupt, a frequency change …) owns one *slot*, a small
//! number, and is armed at most once at a time. [`EventQueue`] orders the armed slots by (time, order of arming), so ties are
//! first come, first served on every machine; a slot is re-armed or cancelled in O(log n), and nothing is allocated after
//! construction.
//!
//! [`IndexedHeap`] is for many elements in many queues: a 4-ary min-heap whose elements know their place. Several heaps share
//! one [`Positions`] table when an element is in at most one of them at a time, such as the timers of all CPUs.

use wattif_model::units::Ns;

/// Marks an element that is in no heap.
const NOWHERE: u32 = u32::MAX;
/// Bits of an entry's `order` that hold the element; the rest counts armings.
const ELEMENT_BITS: u32 = 20;
const ELEMENT_MASK: u64 = (1 << ELEMENT_BITS) - 1;
/// Children per node: four entries of 16 bytes are one cache line.
const ARITY: usize = 4;

/// Where each element is in its heap, and the counter that breaks ties, shared by all heaps that use the table.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    at: Vec<u32>,
    /// Number of armings so far, already shifted by [`ELEMENT_BITS`].
    armings: u64,
}

impl Positions {
    /// Elements a table can hold.
    pub const MAX_ELEMENTS: usize = 1 << ELEMENT_BITS;

    /// Elements `0..n`, none of them in a heap.
    pub fn new(n: usize) -> Positions {
        assert!(n <= Self::MAX_ELEMENTS, "at most {} elements", Self::MAX_ELEMENTS);
        Positions { at: vec![NOWHERE; n], armings: 0 }
    }

    /// One more element, in no heap; returns its number.
    pub fn add(&mut self) -> u32 {
        assert!(self.at.len() < Self::MAX_ELEMENTS, "at most {} elements", Self::MAX_ELEMENTS);
        self.at.push(NOWHERE);
        self.at.len() as u32 - 1
    }

    /// Is the element in a heap (of those that share the table)?
    #[inline]
    pub fn is_armed(&self, element: u32) -> bool {
        self.at[element as usize] != NOWHERE
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// No elements at all?
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    #[inline]
    fn next_order(&mut self, element: u32) -> u64 {
        self.armings += 1 << ELEMENT_BITS;
        // 2^44 armings last a month at 10 million a second.
        assert!(self.armings != 0, "the arming counter wrapped");
        self.armings | u64::from(element)
    }
}

/// Key, then order of arming; the low bits of `order` are the element.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    order: u64,
}

impl Entry {
    #[inline]
    fn rank(self) -> u128 {
        u128::from(self.key) << 64 | u128::from(self.order)
    }
    #[inline]
    fn element(self) -> u32 {
        (self.order & ELEMENT_MASK) as u32
    }
}

/// A 4-ary min-heap over element numbers, ordered by (key, order of arming), whose elements can be removed and re-keyed.
#[derive(Clone, Debug, Default)]
pub struct IndexedHeap {
    entries: Vec<Entry>,
}

impl IndexedHeap {
    /// Empty, with room for `capacity` elements before it allocates.
    pub fn with_capacity(capacity: usize) -> IndexedHeap {
        IndexedHeap { entries: Vec::with_capacity(capacity) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nothing in it?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The least key and its element.
    #[inline]
    pub fn peek(&self) -> Option<(u64, u32)> {
        self.entries.first().map(|e| (e.key, e.element()))
    }

    /// The key of an element of this heap; `None` when it is in no heap.
    #[inline]
    pub fn key_of(&self, positions: &Positions, element: u32) -> Option<u64> {
        let at = positions.at[element as usize];
        (at != NOWHERE).then(|| self.owned(at, element).key)
    }

    /// Insert `element` with `key`, or give it that key if it is in *this* heap already; either way it comes after all
    /// elements of the same key.
    #[inline]
    pub fn arm(&mut self, positions: &mut Positions, element: u32, key: u64) {
        let entry = Entry { key, order: positions.next_order(element) };
        let at = positions.at[element as usize];
        if at == NOWHERE {
            self.entries.push(entry);
            self.sift_up(positions, self.entries.len() - 1, entry);
            return;
        }
        // A new order is larger than any before, so only a smaller key moves up.
        if key < self.owned(at, element).key {
            self.sift_up(positions, at as usize, entry);
        } else {
            self.sift_down(positions, at as usize, entry);
        }
    }

    /// Remove `element`; false when it is in no heap.
    #[inline]
    pub fn cancel(&mut self, positions: &mut Positions, element: u32) -> bool {
        let at = positions.at[element as usize];
        if at == NOWHERE {
            return false;
        }
        self.owned(at, element);
        self.remove_at(positions, at as usize);
        true
    }

    /// Remove and return the least key and its element.
    #[inline]
    pub fn pop(&mut self, positions: &mut Positions) -> Option<(u64, u32)> {
        let first = *self.entries.first()?;
        self.remove_at(positions, 0);
        Some((first.key, first.element()))
    }

    /// The entry at a position read from the table; it must be the element's own, or the element is in another heap.
    #[inline]
    fn owned(&self, at: u32, element: u32) -> Entry {
        let entry = self.entries.get(at as usize).copied();
        entry.filter(|e| e.element() == element).expect("an element is armed in one heap at a time")
    }

    #[inline]
    fn remove_at(&mut self, positions: &mut Positions, at: usize) {
        positions.at[self.entries[at].element() as usize] = NOWHERE;
        let last = self.entries.pop().expect("not empty");
        if at == self.entries.len() {
            return;
        }
        // The last entry nearly always belongs at the bottom: let the hole sink there without comparing, then look up.
        let bottom = self.sink_hole(positions, at);
        self.sift_up(positions, bottom, last);
    }

    /// Move the hole at `at` down to a leaf; returns where it ends.
    #[inline]
    fn sink_hole(&mut self, positions: &mut Positions, mut at: usize) -> usize {
        while let Some((child, below)) = self.least_child(at) {
            self.put(positions, at, below);
            at = child;
        }
        at
    }

    /// Place `entry` at `at` or above; `at` counts as empty.
    #[inline]
    fn sift_up(&mut self, positions: &mut Positions, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.entries[parent];
            if above.rank() < entry.rank() {
                break;
            }
            self.put(positions, at, above);
            at = parent;
        }
        self.put(positions, at, entry);
    }

    /// Place `entry` at `at` or below; `at` counts as empty.
    #[inline]
    fn sift_down(&mut self, positions: &mut Positions, mut at: usize, entry: Entry) {
        while let Some((child, below)) = self.least_child(at) {
            if entry.rank() < below.rank() {
                break;
            }
            self.put(positions, at, below);
            at = child;
        }
        self.put(positions, at, entry);
    }

    #[inline]
    fn least_child(&self, at: usize) -> Option<(usize, Entry)> {
        let first = at * ARITY + 1;
        if let Some(four) = self.entries.get(first..first + ARITY) {
            // Indices by arithmetic: which child is least is unpredictable, and a wrong guess costs more than the compares.
            let left = usize::from(four[1].rank() < four[0].rank());
            let right = 2 + usize::from(four[3].rank() < four[2].rank());
            let least = left + (right - left) * usize::from(four[right & 3].rank() < four[left].rank());
            return Some((first + least, four[least & 3]));
        }
        let tail = self.entries.get(first..)?;
        tail.iter().enumerate().map(|(i, &e)| (first + i, e)).min_by_key(|(_, e)| e.rank())
    }

    #[inline]
    fn put(&mut self, positions: &mut Positions, at: usize, entry: Entry) {
        self.entries[at] = entry;
        positions.at[entry.element() as usize] = at as u32;
    }
}

/// When a slot fires (high half), and in which order among equals (low half); a disarmed slot comes last.
type Due = u128;

const DISARMED: Due = Due::MAX;
/// Slots, or nodes, under a node of the winner tree.
const FANOUT: usize = 8;

/// Slots armed for points in time; see the module.
///
/// A winner tree: each node knows which of the 8 slots, or nodes, below it is due first. Arming a slot that does not
/// become the first of its node, which is the usual case, touches nothing else; taking the first one looks at 8 entries per
/// level. A machine of 8 CPUs has two levels, one of 1024 has four.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    due: Vec<Due>,
    /// Level by level, the winning slot of each node; the last level has one node.
    winners: Vec<Vec<u32>>,
    armed: usize,
    armings: u64,
}

impl EventQueue {
    /// Slots `0..n`, none armed.
    pub fn with_slots(n: usize) -> EventQueue {
        let mut queue = EventQueue { due: vec![DISARMED; n], ..EventQueue::default() };
        queue.build();
        queue
    }

    /// One more slot; returns its number.
    pub fn add_slot(&mut self) -> u32 {
        self.due.push(DISARMED);
        self.build();
        self.due.len() as u32 - 1
    }

    /// Arm `slot` for `at`, in place of what it was armed for. The end of time counts as a moment before it.
    #[inline]
    pub fn schedule(&mut self, slot: u32, at: Ns) {
        self.armings += 1;
        let at = at.0.min(u64::MAX - 1);
        self.set(slot, Due::from(at) << 64 | Due::from(self.armings));
    }

    /// Disarm `slot`; false when it was not armed.
    #[inline]
    pub fn cancel(&mut self, slot: u32) -> bool {
        let armed = self.is_armed(slot);
        if armed {
            self.set(slot, DISARMED);
        }
        armed
    }

    /// The next event; its slot is disarmed.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ns, u32)> {
        let next = self.peek()?;
        self.set(next.1, DISARMED);
        Some(next)
    }

    /// The next event, left in place.
    #[inline]
    pub fn peek(&self) -> Option<(Ns, u32)> {
        let slot = *self.winners.last()?.first()?;
        self.time_of(slot).map(|at| (at, slot))
    }

    /// Is the slot armed?
    #[inline]
    pub fn is_armed(&self, slot: u32) -> bool {
        self.due[slot as usize] != DISARMED
    }

    /// When the slot will fire, if it is armed.
    #[inline]
    pub fn time_of(&self, slot: u32) -> Option<Ns> {
        let due = self.due[slot as usize];
        (due != DISARMED).then_some(Ns((due >> 64) as u64))
    }

    /// Slots that exist.
    pub fn slots(&self) -> usize {
        self.due.len()
    }

    /// Armed slots.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Nothing armed?
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    #[inline]
    fn set(&mut self, slot: u32, due: Due) {
        let old = std::mem::replace(&mut self.due[slot as usize], due);
        self.armed += usize::from(due != DISARMED);
        self.armed -= usize::from(old != DISARMED);
        if due < old { self.rise(slot, due) } else { self.sink(slot) }
    }

    /// A slot is due earlier than before: it may win against those that won so far.
    #[inline]
    fn rise(&mut self, slot: u32, due: Due) {
        let mut node = slot as usize;
        for winners in &mut self.winners {
            node /= FANOUT;
            let winner = &mut winners[node];
            if *winner != slot {
                if self.due[*winner as usize] < due {
                    return;
                }
                *winner = slot;
            }
        }
    }

    /// A slot is due later: where it won, somebody else may win now.
    #[inline]
    fn sink(&mut self, slot: u32) {
        let mut node = slot as usize;
        for level in 0..self.winners.len() {
            node /= FANOUT;
            if self.winners[level][node] != slot {
                return;
            }
            self.winners[level][node] = self.first_below(level, node);
        }
    }

    /// Which slot below a node is due first.
    #[inline]
    fn first_below(&self, level: usize, node: usize) -> u32 {
        let first = node * FANOUT;
        if level == 0 {
            let slots = &self.due[first..self.due.len().min(first + FANOUT)];
            let (mut best, mut least) = (0, slots[0]);
            for (i, &due) in slots.iter().enumerate().skip(1) {
                if due < least {
                    (best, least) = (i, due);
                }
            }
            return (first + best) as u32;
        }
        let below = &self.winners[level - 1];
        let nodes = &below[first..below.len().min(first + FANOUT)];
        let (mut best, mut least) = (nodes[0], self.due[nodes[0] as usize]);
        for &slot in &nodes[1..] {
            let due = self.due[slot as usize];
            if due < least {
                (best, least) = (slot, due);
            }
        }
        best
    }

    /// Sets up the tree for the slots that exist.
    fn build(&mut self) {
        self.winners.clear();
        let mut width = self.due.len();
        while width > 0 {
            let level = self.winners.len();
            width = width.div_ceil(FANOUT);
            let winners = (0..width).map(|node| self.first_below(level, node)).collect();
            self.winners.push(winners);
            if width == 1 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn ties_are_first_come_first_served() {
        let mut q = EventQueue::with_slots(5);
        for slot in [3, 1, 4, 0, 2] {
            q.schedule(slot, Ns(7));
        }
        q.schedule(3, Ns(7)); // re-armed: now the last
        let order: Vec<u32> = std::iter::from_fn(|| q.pop()).map(|(_, s)| s).collect();
        assert_eq!(order, [1, 4, 0, 2, 3]);
    }

    #[test]
    fn slots_are_added_cancelled_and_queried() {
        let mut q = EventQueue::with_slots(1);
        let slot = q.add_slot();
        q.schedule(slot, Ns(9));
        assert_eq!((slot, q.time_of(slot), q.time_of(0), q.is_armed(0)), (1, Some(Ns(9)), None, false));
        assert!(q.cancel(slot) && !q.cancel(slot) && q.is_empty() && q.peek().is_none());
    }

    #[test]
    fn heaps_share_positions() {
        let mut positions = Positions::new(3);
        let mut heaps = [IndexedHeap::default(), IndexedHeap::default()];
        heaps[0].arm(&mut positions, 0, 30);
        heaps[1].arm(&mut positions, 1, 20);
        heaps[0].arm(&mut positions, 2, 10);
        assert_eq!(heaps[0].peek(), Some((10, 2)));
        assert!(heaps[0].cancel(&mut positions, 2));
        heaps[1].arm(&mut positions, 2, 20); // the element moves on; the tie goes to 1
        assert_eq!(heaps[1].pop(&mut positions), Some((20, 1)));
        assert_eq!(heaps[1].key_of(&positions, 2), Some(20));
        assert_eq!(heaps[0].pop(&mut positions), Some((30, 0)));
    }

    #[test]
    #[should_panic(expected = "one heap at a time")]
    fn an_element_cannot_be_in_two_heaps() {
        let mut positions = Positions::new(2);
        let (mut a, mut b) = (IndexedHeap::default(), IndexedHeap::default());
        a.arm(&mut positions, 0, 1);
        b.arm(&mut positions, 0, 1);
    }

    #[derive(Clone, Debug)]
    enum Act {
        Schedule(u32, u64),
        Cancel(u32),
        Pop,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            5 => (0..40u32, 0..25u64).prop_map(|(s, t)| Act::Schedule(s, t)),
            1 => (0..40u32).prop_map(Act::Cancel),
            2 => Just(Act::Pop),
        ];
        prop::collection::vec(act, 0..400)
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(acts in acts()) {
            let mut q = EventQueue::with_slots(40);
            let mut model: BTreeMap<(u64, u64), u32> = BTreeMap::new();
            let drop = |model: &mut BTreeMap<(u64, u64), u32>, slot: u32| {
                let key = model.iter().find(|(_, s)| **s == slot).map(|(k, _)| *k);
                key.map(|k| model.remove(&k)).is_some()
            };
            for (seq, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Schedule(slot, t) => {
                        drop(&mut model, slot);
                        model.insert((t, seq as u64), slot);
                        q.schedule(slot, Ns(t));
                    }
                    Act::Cancel(slot) => prop_assert_eq!(q.cancel(slot), drop(&mut model, slot)),
                    Act::Pop => {
                        let expect = model.pop_first().map(|((t, _), s)| (Ns(t), s));
                        prop_assert_eq!(q.pop(), expect);
                    }
                }
                prop_assert_eq!(q.len(), model.len());
                prop_assert_eq!(q.peek(), model.first_key_value().map(|((t, _), &s)| (Ns(*t), s)));
                for slot in 0..40 {
                    let expect = model.iter().find(|(_, s)| **s == slot).map(|((t, _), _)| Ns(*t));
                    prop_assert_eq!(q.time_of(slot), expect);
                }
            }
        }
    }
}
