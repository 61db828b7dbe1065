//! The stamps of a file, of events that are kept and of all others: a recording lasts until the last.

use std::collections::BTreeMap;

/// Between events of one trace there is no hour of silence: stamps beyond one are damaged, or of another time.
pub(super) const SILENCE_NS: u64 = 3_600_000_000_000;
/// Stamps that are equal but for so many of their last bits (18 minutes of ns) are kept together.
const BITS: u32 = 40;
/// More of such spans no trace has.
const SPANS: usize = 4096;

/// The first and the last stamp of each span of time.
#[derive(Default)]
pub(super) struct Stamps {
    spans: BTreeMap<u64, Span>,
    /// The one of the last event, not yet among the others.
    now: Option<(u64, Span)>,
}

#[derive(Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
}

impl Stamps {
    /// An event has this one.
    #[inline]
    pub fn see(&mut self, at: u64) {
        match &mut self.now {
            Some((span, now)) if *span == at >> BITS => (now.first, now.last) = (now.first.min(at), now.last.max(at)),
            _ => self.enter(at),
        }
    }

    fn enter(&mut self, at: u64) {
        let span = at >> BITS;
        self.leave();
        let known = self.spans.remove(&span).unwrap_or(Span { first: at, last: at });
        self.now = Some((span, Span { first: known.first.min(at), last: known.last.max(at) }));
    }

    fn leave(&mut self) {
        if let Some((span, now)) = self.now.take().filter(|_| self.spans.len() < SPANS) {
            self.spans.insert(span, now);
        }
    }

    /// The last one that is not silence away from `from`, or from others after it that are not.
    pub fn last_after(mut self, from: u64) -> u64 {
        self.leave();
        let mut end = from;
        for span in self.spans.range(from >> BITS..).map(|(_, span)| span) {
            if span.first.saturating_sub(end) > SILENCE_NS {
                break;
            }
            end = end.max(span.last);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_is_not_of_another_time() {
        let check = |seen: &[u64], from: u64, expect: u64| {
            let mut stamps = Stamps::default();
            seen.iter().for_each(|minute| stamps.see(60_000_000_000 * minute));
            assert_eq!(stamps.last_after(60_000_000_000 * from), 60_000_000_000 * expect, "{seen:?} after {from}");
        };
        check(&[], 3, 3);
        check(&[5, 6, 2], 5, 6);
        check(&[50, 6, 100, 7, 149], 5, 149);
        check(&[5, 400, 30, 900], 5, 30);
        check(&[1, 2], 5, 5);
        let mut many = Stamps::default();
        (0..100_000).for_each(|n| many.see(n << BITS));
        assert!(many.spans.len() <= SPANS);
    }
}
