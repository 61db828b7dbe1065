//! Threads that tell another when they are done, and it was busy.
//!
//! Workers that wake a collector at the end of their work leave no event where the collector is busy, or waits for something else.
//! Whether they always wake it shows where it waits for a thread at that time: then a wake-up that is not there was not asked for. If there
//! is hardly ever one missing, those that could not be seen are put in, and the collector takes them where it takes those that are seen: if
//! it goes so much work from such a wait before it waits for the worker, it does as well where the worker was done by then, else
//! before its next wait. A collector that has asked the worker, and else waits for the reply so much work later, takes it there: whoever is preempted by the thread that it asks does
//! not wait for it, and on a busy machine that may be the rule. Of several collectors of one name nobody could tell which one was meant, unless
//! each of the workers has its own: a client and its server.
//!
//! What is put in for one stage of a pipeline shows where the jobs of the next one end, which then lack wake-ups of their own.
//!
//! Unless they were lost: who does one job for each wake-up, and blocks after it although it was woken again meanwhile, waits for a
//! condition, which nobody keeps for it.

use super::kin::{Kinds, Wakes, wakes};
use super::steps::{
    ALIKE_PART, LITTLE, Place, Step, TOKEN, Waits, are_within, insert, kind_of_wait, median, place_after, token_waits,
    within, work,
};
use super::thread::Thread;
use super::units::{stretches, unit};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer wake-ups that are seen tell nothing.
const MIN_SEEN: usize = 8;
/// One in so many is missing at most, where it could have been seen.
const REFUSED_OF: usize = 20;
/// Of so many one is hidden at least; otherwise wake-ups say all.
const HIDDEN_OF: usize = 50;
/// For each that is seen so many may be hidden, unless they are replies: who is seen to be woken once in a while hands a lock over, say.
const HIDDEN_MOST: usize = 4;
/// For each wake-up that may have been kept so many were lost.
const LOST_MOST: usize = 9;

/// Stages one behind another.
const MAX_STAGES: usize = 16;

/// What was found.
#[derive(Default)]
pub(super) struct Joined {
    /// Wake-ups put in that were kept.
    pub hidden: usize,
    /// Threads whose wake-ups are lost while they are busy.
    pub forgetful: BTreeSet<Pid>,
}

/// A wake-up that was not seen: of whom by whom, before which of the waker's steps, when, and where it is taken, if it is a reply.
struct Hidden {
    by: Pid,
    to: Pid,
    before: usize,
    at: u64,
    reply: Option<Place>,
}

/// Names of the workers, what they waited for before and after their work, and the collector.
type Join<'a> = (&'a str, Waits, Pid);

/// What was seen of a join.
#[derive(Default)]
struct Seen {
    posted: usize,
    refused: usize,
    /// The worker, the wait before which its wake-up belongs, and when that began.
    hidden: Vec<(Pid, usize, u64)>,
    /// Work before the wake-ups that were seen, and before those.
    work: [Vec<u64>; 2],
}

impl Seen {
    /// Was it the same work, so that a wake-up was due each time?
    fn is_one_job(&self) -> bool {
        let usual = median(&mut self.work[0].clone());
        usual.is_some_and(|usual| self.work.iter().all(|work| are_alike(work, usual)))
    }

    /// Whoever is woken and has to wait again, for the mutex of its condition, say, after hardly any work, did no job: unless jobs that end
    /// with a wake-up are as little at times.
    fn leave_retries_out(&mut self) {
        let little = self.work[0].iter().filter(|work| **work <= LITTLE).count();
        if little * REFUSED_OF > self.posted {
            return;
        }
        let mut work = self.work[1].iter();
        self.hidden.retain(|_| work.next().is_some_and(|work| *work > LITTLE));
        self.work[1].retain(|work| *work > LITTLE);
    }
}

/// Are most jobs as much work as is usual?
fn are_alike(work: &[u64], usual: u64) -> bool {
    are_within(work, usual, usual / ALIKE_PART)
}

/// Puts hidden wake-ups of collectors in; those that were lost where they came from, since under another kernel they may not be.
pub(super) fn join(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> Joined {
    let mut all = Joined::default();
    for _ in 0..MAX_STAGES {
        let Some(found) = stage(threads, kinds) else { break };
        all.forgetful.extend(found.forgetful);
        all.hidden += found.hidden;
    }
    all
}

/// The same for the first stages that lack some, if there are any.
fn stage(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> Option<Joined> {
    let joins = lacking(threads, kinds);
    if joins.is_empty() {
        return None;
    }
    let due: BTreeSet<Pid> = joins.iter().filter(|(_, s, _)| s.is_one_job()).map(|(to, ..)| *to).collect();
    let hidden: Vec<Hidden> = joins
        .into_iter()
        .flat_map(|(to, s, replies)| {
            let of = s.hidden.into_iter().zip(replies);
            of.map(move |((by, before, at), reply)| Hidden { by, to, before, at, reply })
        })
        .collect();
    let forgetful = forgetful(threads, kinds, &hidden, &due);
    Some(Joined { hidden: put_in(threads, kinds, &hidden, &forgetful), forgetful })
}

/// Collectors that lack wake-ups, of the first stages that do: what was seen of them, and where hidden ones that are replies are taken.
fn lacking(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds) -> Vec<(Pid, Seen, Vec<Option<Place>>)> {
    let waits: BTreeMap<Pid, Vec<(u64, u64)>> = threads
        .iter()
        .map(|(pid, t)| (*pid, in_order(token_waits(&t.steps))))
        .filter(|(_, waits)| waits.len() >= MIN_SEEN)
        .collect();
    let few = |s: &Seen| s.hidden.len() <= HIDDEN_MOST * s.posted && s.hidden.len() * HIDDEN_OF > s.posted;
    let mut joins: Vec<(Pid, Seen, Vec<Option<Place>>)> = seen(threads, kinds, &waits)
        .into_iter()
        .filter(|(_, s)| s.posted >= MIN_SEEN && s.refused * REFUSED_OF <= s.posted)
        .filter(|(_, s)| !s.hidden.is_empty())
        .map(|((kind, _, to), s)| (to, replies(threads, to, &s.hidden, |by| kinds[&by] == kind), s))
        .filter(|(_, replies, s)| {
            few(s) || replies.iter().flatten().count() * REFUSED_OF >= (REFUSED_OF - 1) * replies.len()
        })
        .map(|(to, replies, s)| (to, s, replies))
        .collect();
    // What nobody takes before the end of the trace stays hidden.
    joins.retain(|(to, s, replies)| {
        let last = blocks(&threads[to].steps).last().map_or(0, |last| last.1);
        s.hidden.iter().zip(replies).any(|(hidden, reply)| reply.is_some() || hidden.2 < last)
    });
    let lack: BTreeSet<Pid> = joins.iter().map(|(to, ..)| *to).collect();
    let is_first = |s: &Seen| !s.hidden.iter().any(|(by, ..)| lack.contains(by));
    let is_any_first = joins.iter().any(|(_, s, _)| is_first(s));
    joins.retain(|(_, s, _)| !is_any_first || is_first(s));
    joins
}

/// Collectors whose hidden wake-ups were lost, of those that were `due` for one with each job.
fn forgetful(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds, hidden: &[Hidden], due: &BTreeSet<Pid>) -> BTreeSet<Pid> {
    let mut while_busy: BTreeMap<Pid, Vec<u64>> = BTreeMap::new();
    // A reply that was lost would be waited for in vain.
    let lost = hidden.iter().filter(|h| h.reply.is_none());
    lost.for_each(|h| while_busy.entry(h.to).or_default().push(h.at));
    let by_one = |to: &Pid| {
        let wakers: BTreeSet<&String> = hidden.iter().filter(|h| h.to == *to).map(|h| &kinds[&h.by]).collect();
        let mut waits = threads[to].steps.iter().filter(|s| s.waits());
        wakers.len() == 1 && waits.all(|s| s.woken_by().is_some_and(|by| wakers.contains(&kinds[&by])))
    };
    while_busy.retain(|to, at| due.contains(to) && by_one(to) && forgets(&threads[to].steps, at));
    while_busy.into_keys().collect()
}

/// Puts hidden wake-ups in, and where they are taken, unless they were lost. How many those are.
fn put_in(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds, hidden: &[Hidden], forgetful: &BTreeSet<Pid>) -> usize {
    let mut inserts: BTreeMap<Pid, Vec<(Place, Step)>> = BTreeMap::new();
    let mut blocked: BTreeMap<Pid, Vec<(usize, u64)>> = BTreeMap::new();
    let mut collects: BTreeMap<Pid, Collects<'_>> = BTreeMap::new();
    let mut kept = 0;
    for &Hidden { by, to, before, at, reply } in hidden {
        let post = ((before, 0), Step::Post { to, at });
        if forgetful.contains(&to) {
            inserts.entry(by).or_default().push(post);
            continue;
        }
        kept += 1;
        // Where it waits for a reply, or the first of its waits that began later.
        let waits = blocked.entry(to).or_insert_with(|| blocks(&threads[&to].steps));
        let next = waits.get(waits.partition_point(|(_, since)| *since <= at)).map(|(next, _)| *next);
        let collects = collects.entry(to).or_insert_with(|| Collects::of(&threads[&to].steps, kinds));
        let place = || Some(collects.place(&threads[&to].steps, next?, &kinds[&by], at));
        if let Some(place) = reply.or_else(place) {
            inserts.entry(by).or_default().push(post);
            inserts.entry(to).or_default().push((place, Step::Token { by, since: at, at }));
        }
    }
    for (pid, of) in inserts {
        insert(&mut threads.get_mut(&pid).expect("it has steps").steps, of);
    }
    kept
}

/// Whom threads of a kind may have woken unseen, and which of them if not any: of each other kind they wake one thread, or each its own and no
/// other does, as often as tells something. Else nobody could tell which one was meant.
fn meant<'a>(threads: &BTreeMap<Pid, Thread>, kinds: &'a Kinds) -> BTreeMap<(&'a str, Pid), Option<Pid>> {
    let mut woken: BTreeMap<(&str, &str), Wakes> = BTreeMap::new();
    for ((by, to), n) in wakes(threads) {
        if let Some(kind) = kinds.get(&to) {
            woken.entry((&kinds[&by], kind)).or_default().insert((by, to), n);
        }
    }
    let mut all: BTreeMap<(&str, Pid), Option<Pid>> = BTreeMap::new();
    for ((kind, _), pairs) in woken {
        let to: BTreeSet<Pid> = pairs.keys().map(|(_, to)| *to).collect();
        let by: BTreeSet<Pid> = pairs.keys().map(|(by, _)| *by).collect();
        if to.len() == 1 {
            all.extend(to.into_iter().map(|to| ((kind, to), None)));
        } else if to.len() == pairs.len() && by.len() == pairs.len() {
            let often = pairs.into_iter().filter(|(_, n)| *n >= MIN_SEEN);
            all.extend(often.map(|((by, to), _)| ((kind, to), Some(by))));
        }
    }
    all
}

/// Where the collector takes each of these hidden wake-ups, if it asks for them: so much work behind a request as those that it waits for come
/// after theirs, or, where that is now this much and now that, before it waits for anything or asks again. A request to a worker that was busy
/// then is hidden itself.
fn replies(
    threads: &BTreeMap<Pid, Thread>,
    to: Pid,
    hidden: &[(Pid, usize, u64)],
    of_kind: impl Fn(Pid) -> bool,
) -> Vec<Option<Place>> {
    let steps = &threads[&to].steps;
    let workers = threads.iter().filter(|(pid, _)| of_kind(**pid));
    let waits: BTreeMap<Pid, Vec<(u64, u64)>> =
        workers.map(|(pid, t)| (*pid, in_order(token_waits(&t.steps)))).collect();
    // Requests: whom, when and where.
    let mut asked: BTreeMap<Pid, Vec<(u64, usize)>> = BTreeMap::new();
    let (mut open, mut units): (BTreeMap<Pid, u64>, u64) = (BTreeMap::new(), 0);
    let (mut unasked, mut after, mut woken) = (0, Vec::new(), 0);
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Work(more) => units += more,
            Step::Post { to, at } if of_kind(to) => {
                asked.entry(to).or_default().push((at, i));
                open.insert(to, units);
            }
            Step::Token { by, since, .. } if of_kind(by) => match open.get(&by) {
                Some(before) => after.push(units - before),
                None => {
                    let slept = within(&waits[&by], since, |wait| *wait).map(|i| waits[&by][i].0);
                    unasked += usize::from(slept.is_some_and(|since| since <= woken));
                }
            },
            _ => {}
        }
        if step.waits() {
            open.clear();
            woken = step.woken_at().unwrap_or(woken);
        }
    }
    if after.len() < MIN_SEEN || unasked * (REFUSED_OF - 1) > after.len() {
        return vec![None; hidden.len()];
    }
    let Some(usual) = median(&mut after) else { return vec![None; hidden.len()] };
    let is_usual = are_within(&after, usual, (usual / ALIKE_PART).max(LITTLE));
    after.sort_unstable();
    let most = after[after.len() - 1 - after.len() / REFUSED_OF].max(usual + usual / ALIKE_PART);
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    let place = |&(by, _, at): &(Pid, usize, u64)| {
        let of = asked.get(&by)?;
        let last = of.partition_point(|(then, _)| *then <= at).checked_sub(1)?;
        let request = of[last].1;
        let wait = (request..steps.len()).find(|i| steps[*i].waits()).unwrap_or(steps.len());
        // It did not sleep before the reply was there.
        let awake = steps.get(wait).is_none_or(|s| s.blocked_since().is_some_and(|since| since >= at));
        let end = of.get(last + 1).map_or(wait, |next| wait.min(next.1));
        let at_the_end = !is_usual || work(&steps[request..end]) <= most;
        let place = || if at_the_end { (end, 0) } else { place_after(steps, request + 1, end, usual) };
        (awake && taken.insert(request)).then(place)
    };
    hidden.iter().map(place).collect()
}

/// From which wait to which: what kind of wait or thread ended it, and the kind of thread that is waited for.
type Way<'a> = (Ended<'a>, &'a str);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ended<'a> {
    By(&'a str),
    Kind(u8),
}

/// How a collector comes from one wait to the next, while it wakes nobody: so much work before it waits for a thread of a kind.
struct Collects<'a> {
    kinds: &'a Kinds,
    usual: BTreeMap<Way<'a>, u64>,
    /// The work of a job, for a thread that waits for those of one kind only and wakes others at the end of each.
    job: Option<(&'a str, u64)>,
    /// Of each stretch into which tokens were put: how far they got, and behind what the last one is.
    reached: BTreeMap<usize, (u64, Ended<'a>)>,
}

impl<'a> Collects<'a> {
    fn of(steps: &[Step], kinds: &'a Kinds) -> Collects<'a> {
        let mut ways: BTreeMap<Way<'_>, Vec<u64>> = BTreeMap::new();
        let (mut from, mut units) = (None, 0u64);
        for step in steps {
            match *step {
                Step::Work(more) => units += more,
                Step::Post { .. } => from = None,
                _ => {}
            }
            if step.waits() {
                if let (Some(from), Some(by)) = (from, step.woken_by()) {
                    ways.entry((from, kinds[&by].as_str())).or_default().push(units);
                }
                (from, units) = (ended(step, kinds), 0);
            }
        }
        let usual = |(way, mut all): (Way<'a>, Vec<u64>)| {
            let usual = median(&mut all).filter(|_| all.len() >= MIN_SEEN)?;
            are_within(&all, usual, (usual / ALIKE_PART).max(LITTLE)).then_some((way, usual))
        };
        let usual = ways.into_iter().filter_map(usual).collect();
        Collects { kinds, usual, job: job(steps, kinds), reached: BTreeMap::new() }
    }

    /// Where it takes a token of a thread of this kind that was put at that time, before it waits at step `next`.
    fn place(&mut self, steps: &[Step], next: usize, kind: &'a str, at: u64) -> Place {
        let last = steps[..next].iter().rposition(Step::waits);
        let Some((last, from)) = last.and_then(|last| Some((last, ended(&steps[last], self.kinds)?))) else {
            return (next, 0);
        };
        if let Some((_, units)) = self.job.filter(|job| job.0 == kind) {
            let done = self.reached.get(&last).map_or(units, |(done, _)| done + units);
            self.reached.insert(last, (done, from));
            return behind_job(steps, last, next, done, units / ALIKE_PART);
        }
        // Whoever it wakes meanwhile may be asked for it.
        let end = (last + 1..next).find(|i| steps[*i].wakes().is_some()).unwrap_or(next);
        let is_early =
            steps[end].blocked_since().is_some() || matches!(steps[end], Step::Post { at: then, .. } if at <= then);
        let (done, from) = self.reached.get(&last).copied().unwrap_or((0, from));
        match self.usual.get(&(from, kind)).filter(|_| is_early) {
            Some(usual) => {
                self.reached.insert(last, (done + usual, Ended::By(kind)));
                place_after(steps, last + 1, end, done + usual)
            }
            None => (next, 0),
        }
    }
}

/// Of whom a thread that waits for nobody else does jobs of equal work, and how much that is, if it wakes others meanwhile.
fn job<'a>(steps: &[Step], kinds: &'a Kinds) -> Option<(&'a str, u64)> {
    let mut of: BTreeSet<&str> = BTreeSet::new();
    for step in steps.iter().filter(|s| s.waits()) {
        of.insert(kinds.get(&step.woken_by()?)?);
    }
    let posts = steps.iter().any(|s| s.wakes().is_some());
    let units = unit(&stretches(steps)).filter(|_| posts && of.len() == 1)?;
    of.pop_first().map(|kind| (kind, units))
}

/// Where so much of a stage's work is done, behind the wake-up that it ends with, if there is one about there.
fn behind_job(steps: &[Step], step: usize, end: usize, units: u64, off: u64) -> Place {
    let (mut done, mut place) = (0u64, None);
    for (i, s) in steps.iter().enumerate().take(end).skip(step + 1) {
        match s {
            Step::Work(more) => done += more,
            Step::Post { .. } if done.abs_diff(units) <= off => place = Some((i + 1, 0)),
            _ => {}
        }
    }
    place.unwrap_or_else(|| place_after(steps, step + 1, end, units))
}

/// What ended a wait.
fn ended<'a>(step: &Step, kinds: &'a Kinds) -> Option<Ended<'a>> {
    match step.woken_by() {
        Some(by) => Some(Ended::By(&kinds[&by])),
        None => kind_of_wait(step).map(Ended::Kind),
    }
}

/// Does a thread that does one job for each wake-up, and waits for nothing else, do no more where it was woken again at these times, in the
/// midst of a job?
fn forgets(steps: &[Step], again: &[u64]) -> bool {
    // When each job that lies between two waits for threads began and ended, and its work.
    let (mut jobs, mut began, mut work) = (Vec::new(), None, 0u64);
    for step in steps {
        match *step {
            Step::Work(units) => work += units,
            Step::Token { since, at, .. } => {
                jobs.extend(began.map(|began| (began, since, work)));
                (began, work) = (Some(at), 0);
            }
            _ if step.waits() => began = None,
            _ => {}
        }
    }
    let mut all: Vec<u64> = jobs.iter().map(|j| j.2).collect();
    let Some(usual) = median(&mut all).filter(|usual| *usual > 0 && are_alike(&all, *usual)) else { return false };
    let of = again.iter().filter_map(|&at| within(&jobs, at, |j| (j.0, j.1)).map(|i| jobs[i].2));
    let (lost, kept): (Vec<u64>, Vec<u64>) = of.partition(|work| *work < usual + usual / 2);
    lost.len() >= MIN_SEEN && lost.len() >= LOST_MOST * kept.len()
}

/// Which steps block, and the latest time at which one so far has begun to: ascending, whatever the stamps do.
fn blocks(steps: &[Step]) -> Vec<(usize, u64)> {
    let mut latest = 0;
    let mut at = |(i, step): (usize, &Step)| {
        latest = latest.max(step.blocked_since()?);
        Some((i, latest))
    };
    steps.iter().enumerate().filter_map(&mut at).collect()
}

/// Those that were put in are not.
fn in_order(mut waits: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    waits.sort_unstable();
    waits
}

/// Every stretch of work between two waits: did it wake a collector, and could that have been seen?
fn seen<'a>(
    threads: &BTreeMap<Pid, Thread>,
    kinds: &'a Kinds,
    waits: &BTreeMap<Pid, Vec<(u64, u64)>>,
) -> BTreeMap<Join<'a>, Seen> {
    let meant = meant(threads, kinds);
    let is_meant = |by: Pid, to: &Pid| {
        let own = meant.get(&(kinds[&by].as_str(), *to));
        own.is_some_and(|own| own.is_none_or(|own| own == by))
    };
    let mut all: BTreeMap<Join<'a>, Seen> = BTreeMap::new();
    each_stretch(threads, |pid, between, (_, _, work), posts| {
        for to in posts.iter().filter(|to| waits.contains_key(to) && is_meant(pid, to)) {
            let seen = all.entry((kinds[&pid].as_str(), between, *to)).or_default();
            seen.posted += 1;
            seen.work[0].push(work);
        }
    });
    let mut collectors: BTreeMap<(&str, Waits), Vec<Pid>> = BTreeMap::new();
    for (kind, between, to) in all.keys() {
        collectors.entry((*kind, *between)).or_default().push(*to);
    }
    each_stretch(threads, |pid, between, (end, at, work), posts| {
        let kind = kinds[&pid].as_str();
        let of = collectors.get(&(kind, between)).into_iter().flatten();
        for to in of.filter(|to| !posts.contains(to) && is_meant(pid, to)) {
            let seen = all.get_mut(&(kind, between, *to)).expect("it has collectors");
            match within(&waits[to], at, |wait| *wait).is_some() {
                true => seen.refused += 1,
                false => {
                    seen.hidden.push((pid, end, at));
                    seen.work[1].push(work);
                }
            }
        }
    });
    all.iter_mut().filter(|((_, between, _), _)| *between == [TOKEN; 2]).for_each(|(_, seen)| seen.leave_retries_out());
    all
}

/// Calls `f` for each stretch between two waits: the thread, their kinds, which step the second is and when it began, its work, and whom it
/// woke.
fn each_stretch(threads: &BTreeMap<Pid, Thread>, mut f: impl FnMut(Pid, Waits, (usize, u64, u64), &[Pid])) {
    for (pid, t) in threads {
        let (mut began, mut posts, mut work) = (None, Vec::new(), 0u64);
        for (i, step) in t.steps.iter().enumerate() {
            work += step.units();
            posts.extend(step.wakes());
            if let Some(next) = kind_of_wait(step) {
                if let (Some(began), Some(at)) = (began, step.blocked_since()) {
                    f(*pid, [began, next], (i, at, work), &posts);
                }
                posts.clear();
                work = 0;
                began = Some(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kin;
    use super::*;

    /// A worker that is done every 100 µs, and a collector that works for 40 µs each time; every `late`-th time it is still busy then,
    /// and every `never`-th time it is not woken although it waits.
    fn threads(late: u64, never: u64) -> BTreeMap<Pid, Thread> {
        let (worker, collector) = (Pid(2), Pid(3));
        let mut all: BTreeMap<Pid, Thread> = [worker, collector].map(|pid| (pid, Thread::new(120))).into();
        let mut idle = 0;
        for r in 1..100u64 {
            let (begin, done) = (r * 100_000, r * 100_000 + 30_000);
            let (is_late, is_never) = (r % late == 0, r % never == 0);
            let mut steps = vec![Step::Timer { until: begin, since: begin - 69_000 }, Step::Work(30)];
            steps.extend((!is_late && !is_never).then_some(Step::Post { to: collector, at: done }));
            all.get_mut(&worker).unwrap().steps.extend(steps);
            let collects = &mut all.get_mut(&collector).unwrap().steps;
            if is_late {
                // Something else kept it busy.
                collects.extend([Step::Device { ns: 20_000, since: done - 10_000 }, Step::Work(40)]);
                idle = done + 50_000;
            } else if !is_never {
                collects.extend([Step::Token { by: worker, since: idle, at: done }, Step::Work(40)]);
                idle = done + 40_000;
            }
        }
        all
    }

    fn joined(late: u64, never: u64) -> (usize, BTreeMap<Pid, Thread>) {
        let mut threads = threads(late, never);
        let kinds = BTreeMap::from([(Pid(2), "worker".to_string()), (Pid(3), "collector".to_string())]);
        (join(&mut threads, &kinds).hidden, threads)
    }

    /// A worker that wakes a collector each 100 µs, which works for 70 µs, and for 130 each tenth time: it is woken in the midst of that, and
    /// takes it up afterwards, or not.
    #[test]
    fn a_wake_up_that_was_lost() {
        let (worker, collector) = (Pid(2), Pid(3));
        let joined = |keeps: bool| {
            let mut all: BTreeMap<Pid, Thread> = [worker, collector].map(|pid| (pid, Thread::new(120))).into();
            let mut idle = 0;
            for r in 1..200u64 {
                let at = r * 100_000;
                let busy = idle > at;
                let post = (!busy).then_some(Step::Post { to: collector, at });
                let steps = [Step::Timer { until: at - 30_000, since: at - 90_000 }, Step::Work(30)];
                all.get_mut(&worker).unwrap().steps.extend(steps.into_iter().chain(post));
                if !busy {
                    let long = r % 10 == 3;
                    let (units, ns) =
                        if long && keeps { (140, 140_000) } else { (70, if long { 130_000 } else { 70_000 }) };
                    let token = Step::Token { by: worker, since: idle, at };
                    all.get_mut(&collector).unwrap().steps.extend([token, Step::Work(units)]);
                    idle = at + ns;
                }
            }
            let kinds = BTreeMap::from([(worker, "worker".to_string()), (collector, "collector".to_string())]);
            join(&mut all, &kinds)
        };
        let (kept, lost) = (joined(true), joined(false));
        assert_eq!((kept.hidden, kept.forgetful.len()), (20, 0));
        assert_eq!((lost.hidden, lost.forgetful), (0, BTreeSet::from([collector])));
    }

    const US: u64 = 1_000_000;

    /// A client asks a server each 100 µs, works for 3 more (or so long) and waits for it; but for each tenth time it is preempted by the
    /// server, which is done before the client waits. `asks` is how often of these it asks.
    fn asked(asks: impl Fn(u64) -> bool, works: impl Fn(u64) -> u64) -> (usize, BTreeMap<Pid, Thread>) {
        let (server, client) = (Pid(2), Pid(3));
        let mut all: BTreeMap<Pid, Thread> = [server, client].map(|pid| (pid, Thread::new(120))).into();
        for r in 1..200u64 {
            let (begin, at, done) = (r * 100_000, r * 100_000 + 20_000, r * 100_000 + 50_000);
            let seen = r.is_multiple_of(10);
            let own = [Step::Timer { until: begin, since: begin - 20_000 }, Step::Work(20 * US)];
            let of = &mut all.get_mut(&client).unwrap().steps;
            of.extend(own);
            of.extend(asks(r).then_some(Step::Post { to: server, at }));
            of.push(Step::Work(if seen { works(r) } else { works(r) + 30 } * US));
            of.extend(
                seen.then_some([Step::Token { by: server, since: at + 3_000, at: done }, Step::Work(30 * US)])
                    .into_iter()
                    .flatten(),
            );
            let of = &mut all.get_mut(&server).unwrap().steps;
            of.extend([Step::Token { by: client, since: at - 50_000, at }, Step::Work(30 * US)]);
            of.extend(seen.then_some(Step::Post { to: client, at: done }));
        }
        let kinds = BTreeMap::from([(server, "server".to_string()), (client, "client".to_string())]);
        (join(&mut all, &kinds).hidden, all)
    }

    #[test]
    fn a_reply_that_nobody_slept_for() {
        let (hidden, threads) = asked(|_| true, |_| 3);
        assert_eq!(hidden, 179, "many more than are seen");
        let steps = &threads[&Pid(3)].steps;
        let tokens: Vec<usize> = (0..steps.len()).filter(|i| matches!(steps[*i], Step::Token { .. })).collect();
        assert_eq!(tokens.len(), 198);
        let is_there = |i: &usize| {
            steps[i - 1] == Step::Work(3 * US)
                && matches!(steps[i - 2], Step::Post { .. })
                && steps[i + 1] == Step::Work(30 * US)
        };
        assert!(tokens.iter().all(is_there), "so much work behind what it asks");
        assert_eq!(asked(|r| r.is_multiple_of(10), |_| 3).0, 0, "it has not asked for them");
        let (hidden, threads) = asked(|_| true, |r| 10 + r / 10 * 37 % 90);
        let steps = &threads[&Pid(3)].steps;
        let next = steps.windows(2).filter(|w| matches!(w, [Step::Token { .. }, Step::Timer { .. }]));
        assert_eq!((hidden, next.count()), (179, 179), "where it waits next, if it is now here and now there");
    }

    /// Two threads that hand work to each other: first each sleeps for the other's, then one of them always preempts the other that wakes it,
    /// and then the other one does.
    #[test]
    fn replies_on_both_sides() {
        let (a, b) = (Pid(2), Pid(3));
        let mut all: BTreeMap<Pid, Thread> = [a, b].map(|pid| (pid, Thread::new(120))).into();
        for r in 1..100u64 {
            // The first one of a round works from its beginning, the other one from then on; which of them sleeps.
            let (begin, half, sleeps) = (r * 100, r * 100 + 50, if r < 20 { [true, true] } else { [r >= 60, r < 60] });
            for (i, (pid, other, at)) in [(a, b, begin), (b, a, half)].into_iter().enumerate() {
                let of = &mut all.get_mut(&pid).unwrap().steps;
                of.extend(sleeps[i].then_some(Step::Token { by: other, since: at - 49, at }));
                of.push(Step::Work(40 * US));
                of.extend(sleeps[1 - i].then_some(Step::Post { to: other, at: at + 50 }));
            }
        }
        let kinds = BTreeMap::from([(a, "a".to_string()), (b, "b".to_string())]);
        join(&mut all, &kinds);
        for (pid, other) in [(a, b), (b, a)] {
            let steps = &all[&pid].steps;
            let is = |s: &Step| s.woken_by() == Some(other);
            let turns =
                steps.windows(3).filter(|w| is(&w[0]) && w[1] == Step::Work(40 * US) && w[2].wakes() == Some(other));
            assert!(turns.count() >= 96, "{pid}: {steps:?}");
        }
    }

    /// Two threads by turns, each of which wakes the other while it holds the lock that the other needs: now and then that one is fast, has
    /// to wait once more, and the first one is still awake then.
    #[test]
    fn a_retry_is_no_job() {
        let (a, b) = (Pid(2), Pid(3));
        let found = |again_us: u64| {
            let mut all: BTreeMap<Pid, Thread> = [a, b].map(|pid| (pid, Thread::new(120))).into();
            let mut since = [0, 0];
            for turn in 2..400u64 {
                let (at, done) = (turn * 1_000_000, turn * 1_000_000 + 990_000);
                let (i, j) = ((turn % 2) as usize, (1 - turn % 2) as usize);
                let (pid, by) = ([a, b][i], [a, b][j]);
                let of = &mut all.get_mut(&pid).unwrap().steps;
                of.push(Step::Token { by, since: since[i], at });
                if turn.is_multiple_of(5) {
                    of.extend([Step::Work(again_us * US), Step::Token { by, since: at + 2_000, at: at + 5_000 }]);
                    all.get_mut(&by).unwrap().steps.push(Step::Post { to: pid, at: at + 5_000 });
                }
                all.get_mut(&pid)
                    .unwrap()
                    .steps
                    .extend([Step::Work(900 * US), Step::Post { to: by, at: done + 10_000 }]);
                since[i] = done + 20_000;
            }
            let found = join(&mut all, &BTreeMap::from([(a, "a".to_string()), (b, "b".to_string())]));
            found.hidden + found.forgetful.len()
        };
        assert_eq!(found(2), 0);
        assert!(found(900) > 0, "that would be a job");
    }

    /// Clients of one name, each with a server of its own that works for 10 µs for each request; each tenth finds it not yet asleep. Once in a
    /// while the servers wait for a third thread.
    #[test]
    fn each_asks_its_own() {
        let (pairs, writer) = ([(Pid(2), Pid(3)), (Pid(4), Pid(5))], Pid(6));
        let mut all: BTreeMap<Pid, Thread> = (2..7).map(|pid| (Pid(pid), Thread::new(120))).collect();
        let mut push = |pid: Pid, step: Step| all.get_mut(&pid).unwrap().steps.push(step);
        for r in 1..200u64 {
            for (client, server) in pairs {
                let (at, is_hidden) = (r * 100_000, (r + u64::from(client.0)).is_multiple_of(10));
                push(client, Step::Work(5 * US));
                if !is_hidden {
                    push(client, Step::Post { to: server, at });
                    push(server, Step::Token { by: client, since: at - 60_000, at });
                }
                push(server, Step::Work(10 * US));
                if r.is_multiple_of(25) {
                    let since = at + 10_000 + u64::from(client.0);
                    push(server, Step::Post { to: writer, at: since });
                    push(writer, Step::Token { by: server, since: at - 2_400_000, at: since });
                    push(writer, Step::Post { to: server, at: at + 19_000 });
                    push(server, Step::Token { by: writer, since, at: at + 19_000 });
                }
                push(server, Step::Post { to: client, at: at + 20_000 });
                push(client, Step::Token { by: server, since: at + 5_000, at: at + 20_000 });
            }
        }
        let kind = |pid: u32| (Pid(pid), ["client", "server", "writer"][if pid == 6 { 2 } else { pid as usize % 2 }]);
        let kinds = (2..7).map(kind).map(|(pid, kind)| (pid, kind.to_string())).collect();
        assert_eq!(join(&mut all, &kinds).hidden, 40);
        for (client, server) in pairs {
            let steps = &all[&server].steps;
            let asks = |s: &Step| s.woken_by() == Some(client);
            let is_asked =
                |w: &&[Step]| asks(&w[0]) && w[1] == Step::Work(10 * US) && matches!(w[2], Step::Post { .. });
            assert_eq!(steps.windows(3).filter(is_asked).count(), 199, "{steps:?}");
        }
    }

    /// Three workers are done one after another, and a collector waits for all of them before it works; in each tenth round it has its
    /// CPU only when all are done.
    #[test]
    fn all_are_collected_before_it_works() {
        let (workers, collector) = ([Pid(2), Pid(3), Pid(4)], Pid(5));
        let mut all: BTreeMap<Pid, Thread> = (2..6).map(|pid| (Pid(pid), Thread::new(120))).collect();
        for r in 1..100u64 {
            let (begin, is_late) = (r * 1_000_000, r.is_multiple_of(10));
            let mut tokens = Vec::new();
            let mut since = begin - 50_000;
            for (pid, at) in workers.into_iter().zip([100_000, 200_000, 300_000].map(|after| begin + after)) {
                let is_seen = pid == workers[0] || !is_late;
                let of = &mut all.get_mut(&pid).unwrap().steps;
                of.extend([Step::Timer { until: begin, since: begin - 500_000 }, Step::Work(50 * US)]);
                of.extend(is_seen.then_some(Step::Post { to: collector, at }));
                tokens.extend(is_seen.then_some(Step::Token { by: pid, since, at }));
                since = at + 2_000;
            }
            let timer = Step::Timer { until: begin + 900_000, since: begin + 600_000 };
            let of = &mut all.get_mut(&collector).unwrap().steps;
            of.extend(tokens.into_iter().chain([Step::Work(300 * US), timer, Step::Work(40 * US)]));
        }
        let kind = |pid: u32| (Pid(pid), if pid == 5 { "collector" } else { "worker" }.to_string());
        assert_eq!(join(&mut all, &(2..6).map(kind).collect()).hidden, 18);
        let steps = &all[&collector].steps;
        let is_round = |w: &&[Step]| {
            w[..3].iter().all(|s| matches!(s, Step::Token { .. })) && w[3] == Step::Work(300 * US) && w[4].waits()
        };
        assert_eq!(steps.windows(5).filter(is_round).count(), 99, "{steps:?}");
    }

    #[test]
    fn a_wake_up_that_could_not_be_seen() {
        let (hidden, threads) = joined(10, 1000);
        assert_eq!(hidden, 9);
        let posts = threads[&Pid(2)].steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
        let tokens = threads[&Pid(3)].steps.iter().filter(|s| matches!(s, Step::Token { .. })).count();
        assert_eq!((posts, tokens), (99, 99));
    }

    /// Three numbered threads that wake one another in turn, the second and third busy with something else each tenth time.
    #[test]
    fn stages_of_one_name() {
        let stages = [Pid(2), Pid(3), Pid(4)];
        let joined = |names: [&str; 3]| {
            let mut all: BTreeMap<Pid, Thread> = stages.map(|pid| (pid, Thread::new(120))).into();
            let mut idle = [0; 3];
            for r in 1..200u64 {
                for (i, pid) in stages.into_iter().enumerate() {
                    let (begin, is_late) =
                        (r * 100_000 + i as u64 * 30_000, i > 0 && (r + i as u64).is_multiple_of(10));
                    let own = Step::Device { ns: 20_000, since: begin - 10_000 };
                    let of = &mut all.get_mut(&pid).unwrap().steps;
                    of.push(match i {
                        0 => Step::Timer { until: begin, since: begin - 69_000 },
                        _ if is_late => own,
                        _ => Step::Token { by: stages[i - 1], since: idle[i], at: begin },
                    });
                    of.push(Step::Work(30));
                    idle[i] = begin + 30_000;
                    let next_is_late = i < 2 && (r + i as u64 + 1).is_multiple_of(10);
                    of.extend((i < 2 && !next_is_late).then(|| Step::Post { to: stages[i + 1], at: begin + 30_000 }));
                }
            }
            let task = |pid: Pid| names[pid.0 as usize - 2].to_string();
            let kinds = kin::apart(&all, &kin::kinds(&all, task), task);
            join(&mut all, &kinds).hidden
        };
        let (named, numbered) = (joined(["in", "between", "out"]), joined(["s0", "s1", "s2"]));
        assert!(named > 30 && named == numbered, "{named}, {numbered}");
    }

    /// Three stages: the second is at times late by a job, and then has two in one stretch, of which the first ends while the third is busy.
    #[test]
    fn a_pipeline_that_is_late() {
        let [first, second, third] = [Pid(2), Pid(3), Pid(4)];
        let mut all: BTreeMap<Pid, Thread> = [first, second, third].map(|pid| (pid, Thread::new(120))).into();
        let mut done = [0u64; 3];
        for r in 1..200u64 {
            let ready = r * 100_000;
            // Each tenth job was preempted for a while.
            let lengths =
                [20_000, if r % 10 == 3 { 130_000 } else { 50_000 }, if r % 10 == 3 { 95_000 } else { 60_000 }];
            let mut at = ready;
            for (i, pid) in [first, second, third].into_iter().enumerate() {
                let (since, starts) = (done[i], at.max(done[i]));
                let of = &mut all.get_mut(&pid).unwrap().steps;
                if i == 0 {
                    of.push(Step::Timer { until: at, since });
                } else if since < at {
                    of.push(Step::Token { by: Pid(pid.0 - 1), since, at });
                    all.get_mut(&Pid(pid.0 - 1)).unwrap().steps.push(Step::Post { to: pid, at });
                }
                let of = &mut all.get_mut(&pid).unwrap().steps;
                match of.last_mut() {
                    Some(Step::Work(units)) => *units += 5_000,
                    _ => of.push(Step::Work(5_000)),
                }
                done[i] = starts + lengths[i];
                at = done[i];
            }
        }
        let kinds = [(first, "in"), (second, "between"), (third, "out")].map(|(pid, kind)| (pid, kind.to_string()));
        assert!(join(&mut all, &kinds.into()).hidden > 20);
        for pid in [second, third] {
            let steps = &all[&pid].steps;
            let jobs = steps.windows(2).filter(|w| matches!(w, [Step::Token { .. }, Step::Work(5_000)])).count();
            assert!(jobs >= 197, "{pid}: {jobs} jobs");
            let posts = all[&Pid(pid.0 - 1)].steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
            assert!(posts >= 197, "{pid}: woken {posts} times");
        }
    }

    #[test]
    fn one_of_several_collectors() {
        let second = Pid(4);
        let kinds = |collector: &str| {
            [(2, "worker"), (3, "collector"), (4, collector)].map(|(pid, kind)| (Pid(pid), kind.to_string())).into()
        };
        let twin = |wakes: bool| {
            let mut threads = threads(10, 1000);
            threads.insert(second, Thread::new(120));
            let post = Step::Post { to: second, at: 9_950_000 };
            threads.get_mut(&Pid(2)).unwrap().steps.extend(wakes.then_some(post));
            join(&mut threads, &kinds("collector")).hidden
        };
        assert_eq!((twin(false), twin(true)), (9, 0), "another one of its kind that the worker wakes, or not");
    }

    #[test]
    fn one_that_was_not_asked_for() {
        assert_eq!(joined(10, 7).0, 0, "it is often not woken where it waits");
        assert_eq!(joined(1000, 1000).0, 0, "nothing is hidden");
    }
}
