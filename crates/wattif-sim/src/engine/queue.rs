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
        let (&child, others) = self.entries.get(first..)?.split_first()?;
        let mut least = (first, child);
        for (at, &child) in (first + 1..).zip(others) {
            if child.rank() < least.1.rank() {
                least = (at, child);
            }
        }
        Some(least)
    }

    #[inline]
    fn put(&mut self, positions: &mut Positions, at: usize, entry: Entry) {
        self.entries[at] = entry;
        positions.at[entry.element() as usize] = at as u32;
    }
}

/// When a slot fires (high half), in which order among equals, and which slot (low 20 bits); a disarmed slot comes last.
type Due = u128;

const DISARMED: Due = Due::MAX;
/// Entries that play for one place: four of 16 bytes are a cache line.
const FANOUT: usize = 4;
/// The place of the winner. Those before it do not exist, so that groups begin at multiples of [`FANOUT`].
const WINNER: usize = FANOUT - 1;
/// No slot: nothing to play again.
const NO_SLOT: u32 = u32::MAX;

/// Slots armed for points in time; see the module.
///
/// A tournament in one array, like a heap: the least of entries `4n`, `4n + 1` … plays in place `n + 2`, the slots are the last
/// level, and the winner is the next event. Arming a slot that does not become the first of its group, which is the usual
/// case, touches nothing else. A popped slot leaves its path stale, because it is often armed again at once; the path is
/// played again when the next event is asked for: 4 entries per level, three levels for 8 CPUs, seven for 1024.
///
/// One event stands in front of the tournament: half of all are armed to be the next, such as the end of a handler, and never
/// play. It gives way to an earlier one.
#[derive(Clone, Debug)]
pub struct EventQueue {
    entries: Vec<Due>,
    /// The entry of slot 0.
    first: usize,
    slots: usize,
    /// Armed outside the tournament; its slot's entry is disarmed.
    front: Due,
    /// The slot popped last, if its path is stale.
    popped: u32,
    /// When it was due, ns: nothing is due before it.
    now: u64,
    armings: u64,
}

impl EventQueue {
    /// Slots `0..n`, none of them armed.
    pub fn with_slots(n: usize) -> EventQueue {
        assert!(n < Positions::MAX_ELEMENTS, "at most {} slots", Positions::MAX_ELEMENTS - 1);
        let (mut first, mut width) = (FANOUT, FANOUT);
        while width < n {
            (first, width) = (first + width, width * FANOUT);
        }
        let entries = vec![DISARMED; first + n.max(1).next_multiple_of(FANOUT)];
        EventQueue { entries, first, slots: n, front: DISARMED, popped: NO_SLOT, now: 0, armings: 0 }
    }

    /// Arm `slot` for `at`, in place of what it was armed for; not before the event popped last. The end of time counts as a
    /// moment before it.
    #[inline]
    pub fn schedule(&mut self, slot: u32, at: Ns) {
        self.armings += 1 << ELEMENT_BITS;
        // 2^44 armings last a month at 10 million a second.
        assert!(self.armings != 0, "the arming counter wrapped");
        assert!(at.0 >= self.now, "time does not run backwards");
        let at = at.0.min(u64::MAX - 1);
        let due = Due::from(at) << 64 | Due::from(self.armings | u64::from(slot));
        if slot_of(self.front) == slot {
            self.front = due;
        } else if due < self.front {
            self.set_front(slot, due);
        } else {
            self.set(slot, due);
        }
    }

    /// Whoever was in front plays in the tournament from now on.
    #[inline]
    fn set_front(&mut self, slot: u32, due: Due) {
        let before = std::mem::replace(&mut self.front, due);
        if time_of(self.entries[self.entry(slot)]).is_some() {
            self.set(slot, DISARMED);
        }
        if time_of(before).is_some() {
            self.set(slot_of(before), before);
        }
    }

    /// Disarm `slot`; false when it was not armed.
    #[inline]
    pub fn cancel(&mut self, slot: u32) -> bool {
        if slot_of(self.front) == slot {
            self.front = DISARMED;
            return true;
        }
        let armed = time_of(self.entries[self.entry(slot)]).is_some();
        if armed {
            self.set(slot, DISARMED);
        }
        armed
    }

    /// The next event; its slot is disarmed.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ns, u32)> {
        self.pop_before(Ns(u64::MAX))
    }

    /// The next event before `end`; its slot is disarmed.
    #[inline]
    pub fn pop_before(&mut self, end: Ns) -> Option<(Ns, u32)> {
        let (at, slot) = self.peek().filter(|&(at, _)| at < end)?;
        self.now = at.0;
        if slot_of(self.front) == slot {
            self.front = DISARMED;
        } else {
            let entry = self.entry(slot);
            self.entries[entry] = DISARMED;
            self.popped = slot;
        }
        Some((at, slot))
    }

    /// The next event, left in place.
    #[inline]
    pub fn peek(&mut self) -> Option<(Ns, u32)> {
        if self.popped != NO_SLOT {
            let slot = std::mem::replace(&mut self.popped, NO_SLOT);
            self.replay(self.entry(slot));
        }
        let next = self.entries[WINNER].min(self.front);
        time_of(next).map(|at| (at, slot_of(next)))
    }

    /// Is the slot armed?
    #[inline]
    pub fn is_armed(&self, slot: u32) -> bool {
        self.time_of(slot).is_some()
    }

    /// When the slot will fire, if it is armed.
    #[inline]
    pub fn time_of(&self, slot: u32) -> Option<Ns> {
        time_of(if slot_of(self.front) == slot { self.front } else { self.entries[self.entry(slot)] })
    }

    /// Slots that exist.
    pub fn slots(&self) -> usize {
        self.slots
    }

    #[inline]
    fn entry(&self, slot: u32) -> usize {
        self.first + slot as usize
    }

    #[inline(always)]
    fn set(&mut self, slot: u32, due: Due) {
        let mut entry = self.entry(slot);
        self.entries[entry] = due;
        if slot == self.popped {
            return;
        }
        while entry > WINNER {
            let place = place_of(entry);
            let best = &mut self.entries[place];
            if due < *best {
                *best = due;
            } else if slot_of(*best) == slot && time_of(*best).is_some() {
                // It won here and is due later than before: somebody else may win now.
                return self.replay(entry);
            } else {
                return;
            }
            entry = place;
        }
    }

    /// Finds the winner of an entry's group and those above it.
    #[inline]
    fn replay(&mut self, mut entry: usize) {
        while entry > WINNER {
            let group = self.entries[entry - entry % FANOUT..].first_chunk().expect("groups are whole");
            let place = place_of(entry);
            self.entries[place] = least_of(group);
            entry = place;
        }
    }
}

/// Where the winner of an entry's group plays.
#[inline]
fn place_of(entry: usize) -> usize {
    entry / FANOUT + WINNER - 1
}

/// Half of the entry tells; comparing the whole would wait for both halves to be written.
#[inline]
fn time_of(due: Due) -> Option<Ns> {
    let at = (due >> 64) as u64;
    (at != u64::MAX).then_some(Ns(at))
}

#[inline]
fn slot_of(due: Due) -> u32 {
    (due as u64 & ELEMENT_MASK) as u32
}

/// Pairs, so that the comparisons do not wait for each other.
#[inline]
fn least_of(d: &[Due; FANOUT]) -> Due {
    d[0].min(d[1]).min(d[2].min(d[3]))
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
    fn slots_are_cancelled_and_queried() {
        let mut q = EventQueue::with_slots(2);
        q.schedule(1, Ns(9));
        assert_eq!((q.slots(), q.time_of(1), q.time_of(0), q.is_armed(0)), (2, Some(Ns(9)), None, false));
        assert!(q.cancel(1) && !q.cancel(1) && q.peek().is_none());
    }

    #[test]
    #[should_panic(expected = "time does not run backwards")]
    fn nothing_is_due_before_now() {
        let mut q = EventQueue::with_slots(2);
        q.schedule(1, Ns(9));
        assert_eq!(q.pop(), Some((Ns(9), 1)));
        q.schedule(1, Ns(9)); // at once is not too early
        q.schedule(0, Ns(8));
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
        assert_eq!(heaps[1].peek(), Some((20, 2)));
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

    /// Three levels.
    const SLOTS: usize = 70;

    #[derive(Clone, Debug)]
    enum Act {
        Schedule(u32, u64),
        Cancel(u32),
        Pop,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            5 => (0..SLOTS as u32, 0..25u64).prop_map(|(s, t)| Act::Schedule(s, t)),
            1 => (0..SLOTS as u32).prop_map(Act::Cancel),
            2 => Just(Act::Pop),
        ];
        prop::collection::vec(act, 0..400)
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(acts in acts()) {
            let mut q = EventQueue::with_slots(SLOTS);
            let mut model: BTreeMap<(u64, u64), u32> = BTreeMap::new();
            let drop = |model: &mut BTreeMap<(u64, u64), u32>, slot: u32| {
                let key = model.iter().find(|(_, s)| **s == slot).map(|(k, _)| *k);
                key.map(|k| model.remove(&k)).is_some()
            };
            let mut now = 0;
            for (seq, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Schedule(slot, t) => {
                        let t = now + t;
                        drop(&mut model, slot);
                        model.insert((t, seq as u64), slot);
                        q.schedule(slot, Ns(t));
                    }
                    Act::Cancel(slot) => prop_assert_eq!(q.cancel(slot), drop(&mut model, slot)),
                    Act::Pop => {
                        let expect = model.pop_first().map(|((t, _), s)| (Ns(t), s));
                        now = expect.map_or(now, |(t, _)| t.0);
                        prop_assert_eq!(q.pop(), expect);
                    }
                }
                // Not every time: between a pop and the next question the path is stale.
                if seq % 4 == 0 {
                    prop_assert_eq!(q.peek(), model.first_key_value().map(|((t, _), &s)| (Ns(*t), s)));
                }
                for slot in 0..SLOTS as u32 {
                    let expect = model.iter().find(|(_, s)| **s == slot).map(|((t, _), _)| Ns(*t));
                    prop_assert_eq!(q.time_of(slot), expect);
                }
            }
        }
    }
}
