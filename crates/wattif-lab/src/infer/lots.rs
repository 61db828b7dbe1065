//! Buffers that wake who waits for space by lots.
//!
//! A count of free places wakes one writer for each message that is read. Sockets wake all who wait, but only once so much of the buffer
//! is free; pipes one, each time a page has been read. Whom a reader wakes while several wait for it tells which: all of them, then what
//! has become free by that time is the mark; or one, then the messages read from one such wake-up to the next are a lot, where others go on
//! waiting in between. Where never several wait, those who do are all.

use super::steps::median;
use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::workload::Release;

/// Fewer wake-ups tell nothing.
const MIN_SEEN: usize = 4;
/// For each that wakes but some of those who wait there are so many that wake all.
const MORE: usize = 3;
/// A lot is more than so many messages: one may be miscounted.
const FEW: usize = 2;

/// A wait for space in a reader's buffer.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub reader: Pid,
    /// Else another writer did it, who left a lot.
    pub by_reader: bool,
    pub since: u64,
    pub at: u64,
    /// Messages that were on their way when it began and when it ended, and that had been read by then.
    pub held: [usize; 2],
    pub read: usize,
}

/// What a reader wakes between two messages.
struct Wakeup {
    reader: Pid,
    read: usize,
    /// Messages that are on their way, and by how many they have become less since it was full.
    held: usize,
    free: usize,
    /// How many are woken, and how many go on waiting.
    woken: usize,
    left: usize,
}

/// When a buffer wakes whom; and how many messages it holds, where it is that which tells.
pub(super) fn release(waits: &[Wait]) -> (Release, Option<usize>) {
    let wakeups = wakeups(waits);
    let each = (Release::Each, None);
    if wakeups.len() < MIN_SEEN {
        return each;
    }
    let all = wakeups.iter().filter(|w| w.left == 0 && w.woken > 1).count();
    let some = wakeups.iter().filter(|w| w.left > 0).count();
    if all >= some * MORE {
        let least = median(&mut wakeups.iter().map(|w| w.free).collect::<Vec<usize>>());
        return least.filter(|n| *n > FEW).map_or(each, |n| (Release::AllFrom(n as u32), None));
    }
    let in_turn = wakeups.windows(2).filter(|w| w[0].reader == w[1].reader && w[0].left > 0);
    let mut apart: Vec<usize> = in_turn.map(|w| w[1].read - w[0].read).collect();
    apart.sort_unstable();
    // Some are further apart: who was woken found that a newcomer had been faster.
    let lot = match apart.get(apart.len() / 4) {
        Some(lot) if apart.len() >= MIN_SEEN => *lot,
        _ => median(&mut wakeups.iter().map(|w| w.free).collect::<Vec<usize>>()).unwrap_or(0),
    };
    if lot <= FEW {
        return each;
    }
    // Part of a page may have been read when one begins to wait, but none when a lot has become free.
    let held = median(&mut wakeups.iter().map(|w| w.held).collect::<Vec<usize>>());
    (Release::Lots(lot as u32), held.map(|n| n + lot))
}

/// By readers, in the order in which they read.
fn wakeups(waits: &[Wait]) -> Vec<Wakeup> {
    let mut all: BTreeMap<(Pid, usize), Vec<&Wait>> = BTreeMap::new();
    let mut of: BTreeMap<Pid, Vec<&Wait>> = BTreeMap::new();
    for wait in waits {
        of.entry(wait.reader).or_default().push(wait);
        if wait.by_reader {
            all.entry((wait.reader, wait.read)).or_default().push(wait);
        }
    }
    let wakeup = |((reader, read), woken): ((Pid, usize), Vec<&Wait>)| {
        let at = woken.iter().map(|w| w.at).max().unwrap_or(0);
        let left = of[&reader].iter().filter(|w| w.since < at && w.at > at).count();
        let held = woken.iter().map(|w| w.held[1]).max().unwrap_or(0);
        let free = woken.iter().map(|w| w.held[0].saturating_sub(w.held[1])).max().unwrap_or(0);
        Wakeup { reader, read, held, free, woken: woken.len(), left }
    };
    all.into_iter().map(wakeup).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many wake-ups of a reader, at each of which so many wait and the first `woken` of them are woken after `lot` messages.
    fn waits(wakeups: usize, waiting: usize, woken: usize, lot: usize) -> Vec<Wait> {
        let mut all = Vec::new();
        let mut since = vec![0; waiting];
        for nth in 1..=wakeups {
            let (at, read) = (nth as u64 * 1_000, 1_000 + nth * lot);
            all.extend(since.drain(..woken).map(|since| Wait {
                reader: Pid(9),
                by_reader: true,
                since,
                at,
                held: [278, 278 - lot],
                read,
            }));
            since.resize(waiting, at + 1);
        }
        all
    }

    #[test]
    fn who_is_woken_tells_when() {
        assert_eq!(release(&waits(10, 3, 3, 209)), (Release::AllFrom(209), None));
        assert_eq!(release(&waits(10, 1, 1, 209)), (Release::AllFrom(209), None));
        assert_eq!(release(&waits(10, 3, 1, 40)), (Release::Lots(40), Some(278)));
        for woken in [1, 3] {
            assert_eq!(release(&waits(10, 3, woken, 1)), (Release::Each, None));
        }
        assert_eq!(release(&waits(3, 3, 3, 209)), (Release::Each, None), "too few to tell");
    }

    /// A writer that leaves a lot wakes the next.
    #[test]
    fn wake_ups_by_writers_are_no_lots() {
        let mut waits = waits(10, 4, 1, 40);
        let of = |w: &Wait| Wait { by_reader: false, at: w.at + 5, read: w.read + 2, ..*w };
        let more: Vec<Wait> = waits.iter().step_by(2).map(of).collect();
        waits.extend(more);
        assert_eq!(release(&waits).0, Release::Lots(40));
    }
}
