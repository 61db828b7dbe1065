//! What a thread did, step by step, and how it goes on beyond the end of the trace.

use wattif_model::Pid;

/// One step of a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Units: ns × capacity.
    Work(u64),
    /// Until an absolute time; blocked since.
    Timer {
        until: u64,
        since: u64,
    },
    /// A timer that had passed already: the thread was late.
    Passed {
        period: u64,
    },
    /// A device, so long.
    Device(u64),
    /// For a token.
    Token,
    /// A token for another thread.
    Post(Pid),
    Fork(Pid),
    Attr(u8),
    Exit,
}

impl Step {
    /// Does the thread block there?
    pub fn waits(&self) -> bool {
        matches!(self, Step::Timer { .. } | Step::Device(_) | Step::Token)
    }
}

/// What is left to do of the work that the end of a trace cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// So many units: it was in the middle of a stretch as it usually has.
    Units(u64),
    /// It computes on and on.
    Endless,
}

/// A stretch of work so many times as long as the longest before it has no end in sight.
const ENDLESS: u64 = 4;

/// How the last stretch of a thread that was about to run at the end of its trace goes on.
pub fn rest(steps: &[Step]) -> Rest {
    let mut stretches = vec![0u64];
    for step in steps {
        match step {
            Step::Work(units) => *stretches.last_mut().expect("never empty") += units,
            s if s.waits() => stretches.push(0),
            _ => {}
        }
    }
    let last = stretches.pop().unwrap_or(0);
    // The first one is cut off as well.
    let whole = stretches.get(1..).unwrap_or(&[]);
    let Some(longest) = whole.iter().max().filter(|w| **w > 0) else { return Rest::Endless };
    if last > longest.saturating_mul(ENDLESS) {
        return Rest::Endless;
    }
    let mut sorted = whole.to_vec();
    sorted.sort_unstable();
    Rest::Units(sorted[sorted.len() / 2].saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_end() {
        let timer = |until| Step::Timer { until, since: until - 1 };
        let check = |steps: &[Step], expect| assert_eq!(rest(steps), expect, "{steps:?}");
        check(&[Step::Work(900)], Rest::Endless);
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(4)], Rest::Units(6));
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(30)], Rest::Units(0));
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(50)], Rest::Endless);
    }
}
