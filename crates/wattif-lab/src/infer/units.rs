//! Work that is a whole multiple of a request's.
//!
//! Where all requests are the same work, the stretches in which a thread takes them, each from one of its waits to the next, are whole multiples
//! of one length, and tell how many there were in each. Then its steps can be cut so that each request begins with a wait.

use super::steps::{Step, work};
use std::collections::BTreeSet;

/// Fewer stretches tell nothing.
const MIN_SEEN: usize = 8;
/// The work of a request is that of most stretches, or one part in up to so many of it: the largest of which all stretches but one in so many
/// are whole multiples, to one part in so many. Where a stretch of very many requests has most of the work, it is looked for among the shorter
/// ones, so many quarters of all, and stretches of up to so many requests tell, if they are three quarters of all.
const UNITS: u64 = 6;
const ODD_OF: usize = 50;
const PART: u64 = 8;
const QUARTERS: [usize; 3] = [3, 2, 1];
const FEW: u64 = 8;

/// Work of a pool's thread from each wait to the next.
pub(super) fn stretches(steps: &[Step]) -> Vec<u64> {
    steps.split(|s| s.woken_by().is_some()).skip(1).map(work).collect()
}

/// The work of one request, if stretches are whole multiples of it.
pub(super) fn unit(stretches: &[u64]) -> Option<u64> {
    units(stretches).next()
}

/// What that may be, if it is not told by most of the work: as short stretches have it.
pub(super) fn units(stretches: &[u64]) -> impl Iterator<Item = u64> {
    let mut sorted = stretches.to_vec();
    sorted.sort_unstable();
    let all = [(4, u64::MAX)].into_iter().chain(QUARTERS.map(|quarters| (quarters, FEW)));
    let mut seen = BTreeSet::new();
    all.filter_map(move |(quarters, most)| unit_among(&sorted, sorted.len() * quarters / 4, most))
        .filter(move |unit| seen.insert(*unit))
}

/// The same, where most of the work of the first so many of these is done, if all of up to `most` requests are whole multiples.
fn unit_among(sorted: &[u64], first: usize, most: u64) -> Option<u64> {
    let of = &sorted[..first];
    // The length at which most work was done.
    let alike = |begin: usize| begin..of.partition_point(|work| *work <= of[begin] + of[begin] / PART);
    let longest = (0..of.len()).map(alike).max_by_key(|range| of[range.clone()].iter().sum::<u64>())?;
    let usual = of[longest.start + longest.len() / 2];
    let is_told = |work: &&u64, unit: u64| requests(**work, unit) <= most;
    let unit = (1..=UNITS).map(|n| usual / n).find(|unit| {
        let told: Vec<u64> = sorted.iter().filter(|work| *unit > 0 && is_told(work, *unit)).copied().collect();
        told.len() * 4 >= sorted.len() * 3 && are_multiples(&told, *unit)
    })?;
    // Of all of them together it is known more exactly.
    let told = sorted.iter().filter(|work| is_told(work, unit)).map(|work| (*work, requests(*work, unit)));
    let some = told.filter(|(_, n)| *n > 0);
    let (work, n) = some.fold((0, 0), |sum, (work, n)| (sum.0 + work, sum.1 + n));
    Some(work / n)
}

fn are_multiples(stretches: &[u64], unit: u64) -> bool {
    let some = stretches.iter().filter(|work| **work > unit / PART).count();
    let odd = |work: &&u64| work.abs_diff(requests(**work, unit) * unit) > unit / PART;
    unit >= PART && some >= MIN_SEEN && stretches.iter().filter(odd).count() * ODD_OF <= some
}

/// So many requests make this work.
pub(super) fn requests(work: u64, unit: u64) -> u64 {
    (work + unit / 2) / unit
}

/// The steps of a thread that takes requests of such work one by one; without its wake-ups in vain, where these are `left_out`.
pub(super) fn taking(steps: &[Step], unit: u64, left_out: bool) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len() + 8);
    let tokens: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].woken_by().is_some()).collect();
    out.extend_from_slice(&steps[..tokens.first().copied().unwrap_or(steps.len())]);
    let ends = tokens.iter().skip(1).copied().chain([steps.len()]);
    for (&token, end) in tokens.iter().zip(ends) {
        let job = &steps[token + 1..end];
        let requests = requests(work(job), unit);
        // The last one may be cut off by the end of the trace.
        if requests == 0 && left_out && end < steps.len() && job.iter().all(|s| matches!(s, Step::Work(_))) {
            continue;
        }
        out.push(steps[token].clone());
        let until = steps.get(end).and_then(Step::blocked_since);
        cut(job, requests.max(1), &steps[token], until, &mut out);
    }
    out
}

/// A stretch that lasts until that time, with a wait that is over at once before each but the first of its requests.
fn cut(job: &[Step], requests: u64, first: &Step, until: Option<u64>, out: &mut Vec<Step>) {
    let Step::Token { by, at: from, .. } = *first else { return };
    let each = work(job) / requests;
    let (mut done, mut n) = (0, 1);
    for step in job {
        let Step::Work(mut left) = *step else {
            out.push(step.clone());
            continue;
        };
        // A request ends where the thread wakes somebody thereabouts.
        while n < requests && n * each + each / PART < done + left {
            let before = (n * each).saturating_sub(done);
            if before > each / PART {
                out.push(Step::Work(before));
                (left, done) = (left - before, done + before);
            }
            let at = from + until.unwrap_or(from).saturating_sub(from) / requests * n;
            out.push(Step::Token { by, since: at, at });
            n += 1;
        }
        out.push(Step::Work(left));
        done += left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Pid;

    const ASKER: Pid = Pid(1);

    #[test]
    fn the_work_of_a_request_under_high_load() {
        // One, two or three requests now and then, and once hundreds of them in one.
        let few = (0..60u64).map(|i| (1 + i % 3) * 1_000 + i % 7 * 5);
        let unit = |long: &[u64]| unit(&few.clone().chain(long.iter().copied()).collect::<Vec<u64>>());
        let is_found = |unit: Option<u64>| unit.is_some_and(|unit| unit.abs_diff(1_005) <= 10);
        assert!(is_found(unit(&[])) && is_found(unit(&[402_300])), "{:?}", unit(&[402_300]));
        assert_eq!(unit(&[3_420; 10]), None, "some are no multiples");
    }

    #[test]
    fn a_request_ends_where_its_thread_wakes_another() {
        let (token, post) = (Step::Token { by: ASKER, since: 1, at: 1_000 }, Step::Post { to: Pid(9), at: 1_700 });
        let work = |units: u64| Step::Work(units);
        let job =
            [token.clone(), work(690), post.clone(), work(1_410), Step::Token { by: ASKER, since: 3_100, at: 4_000 }];
        let is = |s: &Step| match s {
            Step::Token { since, .. } => *since,
            Step::Work(units) => *units,
            _ => 0,
        };
        let taken: Vec<u64> = taking(&job, 700, true).iter().map(is).collect();
        assert_eq!(taken, [1, 690, 0, 1_700, 710, 2_400, 700, 3_100]);
        assert_eq!(taking(&[token.clone(), work(5), token.clone(), work(700)], 700, true), [token, work(700)]);
    }
}
