//! Threads that do a loop together, and wait for each other at its end.
//!
//! The threads of a parallel loop take its iterations as they go: whoever has a fast CPU, or a CPU to itself, does more, and all are done at
//! nearly the same time. Taken as it was recorded, each would do what it did then, and all others would wait for one that comes to a
//! slower CPU in a replay. They look for a while before they sleep, too, so that many of them leave no event at a loop's end.
//!
//! What a trace shows is that all threads that one forked, or those of a kind, and that one itself wait for nobody else, and that those who sleep at a loop's
//! end are woken together. Where they did so shortly before it, however long the loop was, they share its work. Then the longer one waits,
//! the less it has done; threads with a part of their own each do alike, however long they wait. Those wait long where CPUs are unlike,
//! and most of them sleep. Where too few sleep to tell, all may end together, the one that forked them, too, after unlike work.
//!
//! Of an iteration and of the time that a thread looks before it sleeps, the waits tell: whoever is done waits for the last one, for up to an
//! iteration, evenly. So of iterations of C and a look of S the part (C - S) / C sleeps, and (C - S) / 2 long in the middle. Of parts of
//! their own, those who slept have done more than the last one, by their looks.
//!
//! Chunks may shrink with what is left of the loop. Then all are done together where the fast CPUs took the first chunks, and wait for long for a
//! slow one that did: some waits are many times as long as most, or all are long, and these tell of no iteration. The last to be done has no
//! more than an equal part, the first chunk; where it has more, chunks are large and alike, one of which takes as long as the first to be done
//! waits. What tells all of these from parts of their own is that all together do as much in each loop, and each thread does not.

use super::kin::Kinds;
use super::ran::Ran;
use super::steps::{STRAY_OF, Step, median};
use super::thread::{State, Thread};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer threads beside the one that forked them, or loops, or waits, tell nothing.
const MIN_THREADS: usize = 2;
const MIN_LOOPS: usize = 4;
const MIN_WAITS: usize = 6;
/// In one of so many loops' ends a thread wakes two others, the second so soon after the first, ns. Who passes on a lock wakes one, and so does
/// who hands out jobs as they come.
const TOGETHER_OF: usize = 4;
/// Threads with parts of their own: half of them are woken at half of the ends, and the first waits for others at one in so many.
const WAITS_OF: usize = 3;
const NEXT_NS: u64 = 50_000;
/// Threads end together if they do so within one part in so many of their lives; or most of them within half of that, and the last, which
/// took a large part of a loop to a slow CPU, within twice as much; so many do beside the one that forked them.
const END_OF: u64 = 64;
const MOST_OF: u64 = 2 * END_OF;
const LAST_OF: u64 = END_OF / 2;
const MIN_ENDING: usize = 3;
/// Wake-ups that are nearer to each other than one part in so many of the usual distance are of one loop's end.
const NEAR_OF: u64 = 8;
/// A wait is short if it is one part in so many of its loop, or less.
const SHORT_OF: u64 = 4;
/// Chunks shrink if one wait in ten is so many times as long as the one in the middle, and one part in so many of a loop; those of equal
/// chunks are twice as long at most, evenly spread, and longer where a thread was preempted.
const SHRINK_TIMES: u64 = 5;
const LONG_WAITS_OF: usize = 10;
const LONG_PART: u64 = 16;
/// Of fewer loops it is not told what threads take from each other. The work of all varies by a small part of what that of each does.
const MIN_TRADES: usize = 6;
const TRADED_OF: u128 = 8;
/// Chunks are all alike if the last one did so many percent of an equal part of the loop.
const SHARE_PCT: u64 = 110;
/// Work of each varies by one part in so many, squared.
const VARIES_PART: u128 = 16 * 16;
/// Work is unlike if the least of a loop lacks one part in so many of the most.
const UNLIKE_PART: u64 = 8;
/// A loop is as long as others but for one part in so many: one after which nobody slept is one with the next.
const ALIKE_PART: u64 = 4;
/// Who waits looks for one part in so many of a loop at most, where threads have parts of their own.
const LOOK_OF: u64 = 16;
/// An iteration is at most one part in so many of a loop, and at least one in so many.
const ITERATION_OF: u64 = 4;
const SMALLEST_OF: u64 = 1_024;

/// What the threads of a team need to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Team {
    /// Threads beside its first.
    pub others: u32,
    /// Of a loop whose work they share.
    pub iterations: Option<u64>,
    /// They take chunks of these, which shrink with what is left; else one at a time.
    pub shrinks: bool,
    /// How long who waits looks before it sleeps, ns.
    pub look_ns: u64,
    /// Beyond the end of the trace, with loops as the last.
    pub goes_on: bool,
}

/// Teams, by their first threads; which of them each thread is in shows in its steps.
pub(super) type Teams = BTreeMap<Pid, Team>;

/// Work between two times on a CPU or several, units.
#[derive(Clone, Copy)]
struct Piece {
    from: u64,
    until: u64,
    units: u64,
}

/// When loops ended after which threads slept.
struct Ends {
    at: Vec<u64>,
    /// The waits for them are short, and tell of iterations.
    short: bool,
    tell: bool,
    /// Most threads slept, and the first waited for them.
    most: bool,
}

/// The work of each loop: of all, or of each thread.
enum Work {
    Shared(Vec<u64>),
    Each(BTreeMap<Pid, Vec<u64>>),
}

/// Threads that wait for each other alone.
struct Members<'a> {
    threads: &'a BTreeMap<Pid, Thread>,
    all: BTreeSet<Pid>,
    first: Pid,
    /// Of the first thread: the steps in which it is one of the team.
    steps: std::ops::Range<usize>,
}

/// Makes loops that threads share of what they did, where they do. The trace ends at `end`.
pub(super) fn share_out(
    threads: &mut BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    end: u64,
    ran: impl Fn() -> BTreeMap<Pid, Ran>,
) -> Teams {
    // All that one thread forked, or those of them that are of a kind.
    let mut of_parent: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    threads
        .iter()
        .filter_map(|(pid, t)| Some((*pid, t.parent?)))
        .for_each(|(pid, p)| of_parent.entry(p).or_default().push(pid));
    let mut of_kind: BTreeMap<&str, Vec<Pid>> = BTreeMap::new();
    threads.keys().for_each(|pid| of_kind.entry(&kinds[pid]).or_default().push(*pid));
    let mut teams = Teams::new();
    let mut tried: BTreeSet<Pid> = BTreeSet::new();
    let mut known = None;
    for pids in of_parent.into_values().chain(of_kind.into_values()) {
        if pids.len() < MIN_THREADS || pids.iter().any(|pid| tried.contains(pid)) {
            continue;
        }
        let Some(members) = Members::of(threads, pids) else { continue };
        let Some(ends) = members.ends() else { continue };
        tried.extend(&members.all);
        let ran = known.get_or_insert_with(&ran);
        let Some((team, work)) = members.team(&ends, end, ran) else { continue };
        let (first, all, steps) = (members.first, members.all, members.steps);
        for pid in all {
            let t = threads.get_mut(&pid).expect("it is a member");
            // They are of steps that are gone.
            t.pieces.clear();
            let work: Vec<Step> = match &work {
                Work::Shared(all) => all.iter().map(|units| Step::Part { team: first, units: *units }).collect(),
                Work::Each(of) => of[&pid].iter().map(|units| Step::Work(*units)).collect(),
            };
            t.steps = match pid == first {
                true => lead(first, &t.steps, steps.clone(), work),
                false => follow(first, t.steps.last() == Some(&Step::Exit), work),
            };
            t.first_wait = t.steps.iter().position(Step::waits);
        }
        teams.insert(first, team);
    }
    teams
}

/// The steps of a team's first thread, of which these are the team's.
fn lead(team: Pid, steps: &[Step], of_team: std::ops::Range<usize>, work: Vec<Step>) -> Vec<Step> {
    let mut out = steps[..of_team.start].to_vec();
    for (n, step) in work.into_iter().enumerate() {
        out.extend((n > 0).then_some(Step::Release(team)));
        out.extend([step, Step::Gather(team)]);
    }
    out.extend_from_slice(&steps[of_team.end..]);
    out
}

/// Those of each other one.
fn follow(team: Pid, exits: bool, work: Vec<Step>) -> Vec<Step> {
    let mut out = Vec::with_capacity(3 * work.len() + 1);
    for (n, step) in work.into_iter().enumerate() {
        out.extend((n > 0).then_some(Step::Await(team)));
        out.extend([step, Step::Arrive(team)]);
    }
    out.extend(exits.then_some(Step::Exit));
    out
}

impl<'a> Members<'a> {
    /// Threads of a kind and who forked them, if they wake each other and wait for nobody else.
    fn of(threads: &'a BTreeMap<Pid, Thread>, pids: Vec<Pid>) -> Option<Members<'a>> {
        let mut all: BTreeSet<Pid> = pids.into_iter().collect();
        let wakes = |pid: Pid, all: &BTreeSet<Pid>| {
            let posts = threads[&pid].steps.iter().filter_map(Step::wakes);
            posts.filter(|to| all.contains(to)).count()
        };
        // It may be of their kind.
        let parents = all.iter().filter_map(|pid| threads[pid].parent).find(|p| threads.contains_key(p));
        let parent = parents.filter(|p| all.iter().all(|pid| pid == p || threads[pid].parent == Some(*p)));
        let most = all.iter().copied().max_by_key(|pid| wakes(*pid, &all)).filter(|pid| wakes(*pid, &all) > 0);
        let first = parent.filter(|parent| wakes(*parent, &all) > 0 || most.is_none()).or(most)?;
        all.insert(first);
        if all.len() <= MIN_THREADS {
            return None;
        }
        let among = |s: &Step| s.with().is_some_and(|other| all.contains(&other));
        let of_loops = |s: &Step| among(s) || matches!(s, Step::Work(_));
        for pid in all.iter().filter(|pid| **pid != first) {
            let (last, steps) = threads[pid].steps.split_last()?;
            if !steps.iter().all(of_loops) || !(of_loops(last) || *last == Step::Exit) {
                return None;
            }
        }
        // Before the first wake-up and after the last one it may do something else: not in between.
        let steps = &threads[&first].steps;
        let there = steps.iter().rposition(|s| matches!(s, Step::Fork(pid) if all.contains(pid))).map_or(0, |i| i + 1);
        let one = steps.iter().position(among).unwrap_or(there);
        let other = steps.iter().rposition(among).unwrap_or(one);
        let begin = steps[..one].iter().rposition(|s| !of_loops(s)).map_or(0, |i| i + 1);
        let until = steps[other..].iter().position(|s| !of_loops(s)).map_or(steps.len(), |i| other + i);
        steps[one..other].iter().all(of_loops).then_some(Members { threads, all, first, steps: begin..until })
    }

    /// Its steps as one of the team.
    fn steps(&self, pid: Pid) -> &'a [Step] {
        let steps = &self.threads[&pid].steps[..];
        if pid == self.first { &steps[self.steps.clone()] } else { steps }
    }

    /// All but the first.
    fn others(&self) -> impl Iterator<Item = Pid> {
        self.all.iter().copied().filter(|pid| *pid != self.first)
    }

    /// When all of them were there.
    fn born(&self) -> u64 {
        self.all.iter().filter_map(|pid| self.threads[pid].birth()).max().unwrap_or(0)
    }

    /// When they died, if all did, one after the other.
    fn deaths(&self) -> Option<Vec<u64>> {
        let died = |pid: &Pid| if let State::Dead { since } = self.threads[pid].state { Some(since) } else { None };
        let mut deaths: Vec<u64> = self.all.iter().map(died).collect::<Option<_>>()?;
        deaths.sort_unstable();
        Some(deaths)
    }

    /// When loops ended after which threads slept, if it can have been so.
    fn ends(&self) -> Option<Ends> {
        let post = |pid: &Pid, s: &Step| if let Step::Post { at, .. } = *s { Some((at, *pid)) } else { None };
        let of = |pid: &'_ Pid| self.steps(*pid).iter().filter_map(|s| post(pid, s)).collect::<Vec<_>>();
        let is_led =
            self.others().flat_map(|pid| self.steps(pid)).all(|s| s.with().is_none_or(|with| with == self.first));
        // The others wake the first one as they come.
        let mut posts: Vec<(u64, Pid)> = match is_led {
            true => of(&self.first),
            false => self.all.iter().flat_map(of).collect(),
        };
        posts.sort_unstable();
        let at: Vec<u64> = posts.iter().map(|post| post.0).collect();
        let near = (usual_distance(&at) / NEAR_OF).max(NEXT_NS);
        let is_end = |pair: &[u64]| (pair[1] - pair[0] > near).then_some(pair[0]);
        let at: Vec<u64> = at.windows(2).filter_map(is_end).chain(at.last().copied()).collect();
        let (born, last) = (self.born(), at.last().copied().unwrap_or(0));
        let is_dead = |pid: &Pid| matches!(self.threads[pid].state, State::Dead { since } if since <= last);
        if at.first().is_some_and(|first| born >= *first) || self.all.iter().any(is_dead) {
            return None;
        }
        let waits = self.waits();
        let is_short = |&(since, woken): &(u64, u64)| {
            let n = at.partition_point(|end| *end < woken);
            let begin = n.checked_sub(1).map_or(born, |n| at[n]);
            since >= begin && (woken - since) * SHORT_OF <= woken - begin
        };
        let long = waits.iter().filter(|wait| !is_short(wait)).count();
        let mut together = vec![0; at.len()];
        let next = |pair: &&[(u64, Pid)]| pair[0].1 == pair[1].1 && pair[1].0 - pair[0].0 <= NEXT_NS;
        posts.windows(2).filter(next).for_each(|pair| together[at.partition_point(|end| *end < pair[1].0)] += 1);
        // So many beside one.
        let ends_with = |others: usize| together.iter().filter(|more| **more >= others).count();
        let enough = at.len() >= MIN_LOOPS && waits.len() >= MIN_WAITS;
        let waited = super::steps::token_waits(self.steps(self.first)).len();
        let ends = Ends {
            short: long * STRAY_OF <= 2 * waits.len(),
            tell: enough && ends_with(1) * TOGETHER_OF >= at.len(),
            most: enough
                && is_led
                && 2 * ends_with((self.all.len() / 2).saturating_sub(1).max(1)) >= at.len()
                && waited * WAITS_OF >= at.len(),
            at,
        };
        (ends.tell || ends.short && self.end_together() || ends.most).then_some(ends)
    }

    /// Do all of them end together, after work all along?
    fn end_together(&self) -> bool {
        let Some(deaths) = self.deaths().filter(|deaths| deaths.len() > MIN_ENDING) else { return false };
        let (first, most, last) = (deaths[0], deaths[deaths.len() / 2], deaths[deaths.len() - 1]);
        let waited =
            |pid: &Pid| super::steps::token_waits(self.steps(*pid)).iter().map(|(since, at)| at - since).sum::<u64>();
        let is_parent = self.all.iter().all(|pid| *pid == self.first || self.threads[pid].parent == Some(self.first));
        let life = last.saturating_sub(self.born());
        let within = |until: u64, part: u64| (until - first) * part <= life;
        let together = within(last, END_OF) || within(most, MOST_OF) && within(last, LAST_OF);
        is_parent && together && self.all.iter().all(|pid| waited(pid) * END_OF <= life)
    }

    /// How long before the last one each of those ended that ended with most.
    fn ended_before(&self, deaths: &[u64]) -> Vec<u64> {
        let [first, .., last] = *deaths else { return Vec::new() };
        let life = last.saturating_sub(self.born());
        let most = &deaths[..deaths.partition_point(|died| (died - first) * END_OF <= life)];
        most.iter().map(|died| most[most.len() - 1] - died).collect()
    }

    /// From when until when each thread but the first waited.
    fn waits(&self) -> Vec<(u64, u64)> {
        self.others().flat_map(|pid| super::steps::token_waits(self.steps(pid))).collect()
    }

    /// What is to be known of it, and the work of its loops.
    fn team(&self, ends: &Ends, end: u64, ran: &BTreeMap<Pid, Ran>) -> Option<(Team, Work)> {
        let deaths = self.deaths();
        let died = deaths.as_ref().and_then(|deaths| deaths.last().copied());
        let bounds: Vec<u64> =
            std::iter::once(self.born()).chain(ends.at.iter().copied()).chain([died.unwrap_or(end)]).collect();
        let spans = || bounds.windows(2).map(|pair| (pair[0], pair[1]));
        let of = |pid: &Pid| {
            let pieces = self.pieces(*pid, end);
            let ran = ran.get(pid).unwrap_or(&super::ran::NEVER);
            // What it did before all were there is of the first loop.
            let spans = spans().enumerate().map(|(n, span)| if n == 0 { (0, span.1) } else { span });
            (*pid, spans.map(|span| pieces.iter().map(|p| p.within(span, ran)).sum()).collect::<Vec<u64>>())
        };
        let mut work: BTreeMap<Pid, Vec<u64>> = self.all.iter().map(of).collect();
        // The last loop is a whole one if all end with it.
        let whole = ends.at.len() + usize::from(died.is_some());
        let length =
            median(&mut spans().take(whole).map(|(begin, end)| end.saturating_sub(begin)).collect::<Vec<u64>>())?;
        let goes_on = self.goes_on(end);
        let go_on = |of: &mut Vec<u64>| {
            let usual = median(&mut of[..whole].to_vec()).unwrap_or(0);
            if let Some(last) = of.last_mut().filter(|_| goes_on) {
                *last = usual.max(*last);
            }
        };
        let others = self.all.len() as u64 - 1;
        let waits = self.waits();
        let large = if ends.short { None } else { self.large_chunks(&work, &bounds) };
        let far = || waits.iter().filter(|wait| wait.1 > ends.at[0]);
        let shrinks = ends.tell && large.is_none() && (!ends.short || shrink(far(), length));
        let team = |iterations, look_ns| Team { others: others as u32, iterations, shrinks, look_ns, goes_on };
        let shared = match (ends.tell, ends.short) {
            (true, true) => self.less_done(&work, &bounds, length),
            (true, false) => trade(&work),
            (false, short) => short && unlike(&work),
        };
        if !shared {
            let own = ends.most || ends.tell && !unlike(&work);
            let look_ns = self.look(&work, &bounds).filter(|ns| ns * LOOK_OF <= length).unwrap_or(0);
            for (pid, of) in work.iter_mut().filter(|_| own) {
                self.without_looks(*pid, of, &bounds, look_ns);
                go_on(of);
            }
            return own.then(|| (team(None, look_ns), Work::Each(work)));
        }
        let mut all: Vec<u64> = (0..=ends.at.len()).map(|n| work.values().map(|w| w[n]).sum()).collect();
        go_on(&mut all);
        let times = others * ends.at.len().max(1) as u64;
        let iteration = match (ends.tell, &deaths) {
            (false, Some(deaths)) => 2 * middle(self.ended_before(deaths).into_iter()),
            // Waits for a first chunk tell of no iteration: they are small.
            _ if shrinks && !ends.short => 0,
            _ => iteration(&waits, times),
        };
        let iteration = iteration.clamp((length / SMALLEST_OF).max(1), (length / ITERATION_OF).max(1));
        let iterations = large.unwrap_or((others + 1) * length / iteration).max(1);
        let look_ns = look(iteration, waits.len() as u64, times);
        let looked = looked(iteration, look_ns);
        for (units, (begin, end)) in all.iter_mut().zip(spans()) {
            *units -= part(*units, looked.min((end - begin) / 2), end - begin);
        }
        Some((team(Some(iterations), look_ns), Work::Shared(all)))
    }

    /// Each time that a thread slept at an end: its loop, and from when until when.
    fn slept(&self, pid: Pid, bounds: &[u64]) -> Vec<(usize, (u64, u64))> {
        let ends = &bounds[1..];
        let waits = super::steps::token_waits(self.steps(pid)).into_iter();
        waits.map(|wait| (ends.partition_point(|end| *end < wait.1).min(ends.len() - 1), wait)).collect()
    }

    /// Does the work of those that slept differ by as much as their waits do?
    fn less_done(&self, work: &BTreeMap<Pid, Vec<u64>>, bounds: &[u64], length: u64) -> bool {
        let (mut done, mut waited, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
        for pid in self.others() {
            for (n, (since, until)) in self.slept(pid, bounds) {
                if (bounds[n + 1] - bounds[n]).abs_diff(length) <= length / ALIKE_PART {
                    let units = work[&pid][n];
                    done.push(units);
                    waited.push(until - since);
                    speeds.push(units / since.saturating_sub(bounds[n]).max(1));
                }
            }
        }
        let speed = median(&mut speeds).unwrap_or(0).max(1);
        2 * deviation(&mut done) / speed >= deviation(&mut waited)
    }

    /// How many chunks a loop has, if the last one did more than its share, which no chunk exceeds that shrinks: one while the first to be done waited.
    fn large_chunks(&self, work: &BTreeMap<Pid, Vec<u64>>, bounds: &[u64]) -> Option<u64> {
        let slept: BTreeMap<Pid, _> = self.all.iter().map(|pid| (*pid, self.slept(*pid, bounds))).collect();
        let (mut shares, mut chunks) = (Vec::new(), Vec::new());
        for n in 1..bounds.len().saturating_sub(2) {
            let done = |pid: &Pid| {
                let at = slept[pid].iter().filter(|(of, _)| *of == n).map(|(_, (since, _))| *since);
                at.max().unwrap_or(bounds[n + 1]).clamp(bounds[n], bounds[n + 1])
            };
            let all: u64 = work.values().map(|w| w[n]).sum();
            let last = self.all.iter().max_by_key(|pid| (done(pid), std::cmp::Reverse(work[pid][n])))?;
            let first = self.all.iter().map(done).min()?;
            let units = work[last][n];
            shares.push(part(100 * self.all.len() as u64, units, all));
            // So much did the last one while the first waited.
            let chunk = part(units, done(last) - first, done(last) - bounds[n]);
            chunks.push((all + chunk / 2) / chunk.max(1));
        }
        (median(&mut shares)? > SHARE_PCT).then(|| median(&mut chunks)).flatten()
    }

    /// How long threads with parts of their own look, if these are alike: by how much those that slept did more than the last one.
    fn look(&self, work: &BTreeMap<Pid, Vec<u64>>, bounds: &[u64]) -> Option<u64> {
        let more = |(pid, n, since): (Pid, usize, u64)| {
            let least = self.others().map(|pid| work[&pid][n]).min().unwrap_or(0);
            let units = work[&pid][n].max(1);
            part(units - least.min(units), since.saturating_sub(bounds[n]), units)
        };
        let slept = |pid| self.slept(pid, bounds).into_iter();
        let all = self.others().flat_map(|pid| slept(pid).map(move |(n, (since, _))| (pid, n, since)));
        median(&mut all.map(more).collect::<Vec<u64>>())
    }

    /// Takes out of a thread's work how it looked before it slept.
    fn without_looks(&self, pid: Pid, work: &mut [u64], bounds: &[u64], look_ns: u64) {
        let mut awake: Vec<u64> = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let mut looked = vec![0; awake.len()];
        for (n, (since, until)) in self.slept(pid, bounds) {
            awake[n] = awake[n].saturating_sub(until - since);
            looked[n] += look_ns;
        }
        for ((units, awake), looked) in work.iter_mut().zip(awake).zip(looked) {
            let looked = looked.min(awake / 2);
            *units -= part(*units, looked, awake);
        }
    }

    /// Does the trace end in a loop?
    fn goes_on(&self, end: u64) -> bool {
        let whole = self.steps.end == self.threads[&self.first].steps.len();
        let in_it = |pid: &Pid| match self.threads[pid].state {
            State::Running | State::Runnable { .. } => true,
            State::Sleeping { since, .. } => (end - since.min(end)) * STRAY_OF as u64 <= end,
            _ => false,
        };
        whole && self.all.iter().all(in_it)
    }

    /// Its work as one of the team, until the end of the trace.
    fn pieces(&self, pid: Pid, end: u64) -> Vec<Piece> {
        let t = &self.threads[&pid];
        // Who forks the others does its part when the last of them is there.
        let born = self.others().map(|pid| self.threads[&pid].born).max();
        let mut from = if pid == self.first { born.unwrap_or(0) } else { t.born };
        let last = match t.state {
            State::Dead { since } | State::Sleeping { since, .. } => since,
            _ => end,
        };
        let steps = self.steps(pid);
        let mut all = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            match *step {
                Step::Work(units) => {
                    let next = steps[i + 1..].iter().find_map(|s| match *s {
                        Step::Token { since, .. } => Some(since),
                        Step::Post { at, .. } => Some(at),
                        _ => None,
                    });
                    all.push(Piece { from, until: next.unwrap_or(last).max(from), units });
                }
                Step::Token { at, .. } | Step::Post { at, .. } => from = at,
                _ => {}
            }
        }
        all
    }
}

impl Piece {
    /// Its units between two times.
    fn within(&self, (from, until): (u64, u64), ran: &Ran) -> u64 {
        let (from, until) = (from.clamp(self.from, self.until), until.clamp(self.from, self.until));
        let between = |from, until| ran.work(until) - ran.work(from);
        part(self.units, between(from, until), between(self.from, self.until))
    }
}

/// Is one wait in so many far longer than most, and long for a loop of this length?
fn shrink<'a>(waits: impl Iterator<Item = &'a (u64, u64)>, length: u64) -> bool {
    let mut times: Vec<u64> = waits.map(|(since, woken)| woken - since).collect();
    times.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let long = times.get(times.len() / LONG_WAITS_OF).copied().unwrap_or(0);
    long * LONG_PART > length && long > SHRINK_TIMES * median(&mut times).unwrap_or(0)
}

/// Do all together do as much in each loop, and each of them does not?
fn trade(work: &BTreeMap<Pid, Vec<u64>>) -> bool {
    let loops = work.values().map(Vec::len).max().unwrap_or(0);
    let all: Vec<u64> = (0..loops).map(|n| work.values().map(|w| w[n]).sum()).collect();
    // The first may be the time before the loops, the last one is cut off.
    let usual = median(&mut all.clone()).unwrap_or(0);
    let whole: Vec<usize> = (0..loops).filter(|n| all[*n].abs_diff(usual) <= usual / ALIKE_PART).collect();
    let spread = |of: &[u64]| {
        let mean = whole.iter().map(|n| u128::from(of[*n])).sum::<u128>() / whole.len() as u128;
        let squares = whole.iter().map(|n| u128::from(of[*n]).abs_diff(mean).pow(2));
        (squares.sum::<u128>() / whole.len() as u128, mean.pow(2))
    };
    if whole.len() < MIN_TRADES {
        return false;
    }
    let each = work.values().map(|of| spread(of));
    let (varies, squares) = each.fold((0, 0), |(v, s), (varies, square)| (v + varies, s + square));
    varies * VARIES_PART > squares && spread(&all).0 * TRADED_OF < varies
}

/// Is the work of a third of the loops unlike?
fn unlike(work: &BTreeMap<Pid, Vec<u64>>) -> bool {
    let loops = work.values().map(Vec::len).max().unwrap_or(0);
    let is_unlike = |n: &usize| {
        let of = || work.values().map(|w| w[*n]);
        let (least, most) = (of().min().unwrap_or(0), of().max().unwrap_or(0));
        most - least > most / UNLIKE_PART
    };
    3 * (0..loops).filter(is_unlike).count() >= loops.max(1)
}

/// By how much values differ from the middle one, in the middle.
fn deviation(values: &mut [u64]) -> u64 {
    let usual = median(values).unwrap_or(0);
    middle(values.iter().map(|value| value.abs_diff(usual)))
}

/// Half of the time between the first and the last is in distances as long as this, or longer.
fn usual_distance(sorted: &[u64]) -> u64 {
    let mut distances: Vec<u64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let mut left = distances.iter().sum::<u64>() / 2;
    let usual = distances.into_iter().find(|ns| {
        let found = *ns >= left;
        left = left.saturating_sub(*ns);
        found
    });
    usual.unwrap_or(0)
}

fn middle(times: impl Iterator<Item = u64>) -> u64 {
    median(&mut times.collect::<Vec<u64>>()).unwrap_or(0)
}

/// How long an iteration takes, by the waits of so many times that a thread was done.
fn iteration(waits: &[(u64, u64)], times: u64) -> u64 {
    let slept = (waits.len() as u64).clamp(1, times);
    (2 * middle(waits.iter().map(|(since, at)| at - since))).saturating_mul(times) / slept
}

/// How long who waits looks before it sleeps.
fn look(iteration: u64, slept: u64, times: u64) -> u64 {
    iteration - part(iteration, slept.min(times), times)
}

/// How long each looks in the mean, who waits for up to an iteration, evenly.
fn looked(iteration: u64, look: u64) -> u64 {
    let look = look.min(iteration);
    look - part(look, look, 2 * iteration)
}

/// So many of `whole`, of a value.
fn part(value: u64, many: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(many)).checked_div(whole.into()).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::super::kin::kinds;
    use super::super::steps::work;
    use super::*;

    const MS: u64 = 1_000_000;
    const LOOP: u64 = 100 * MS;
    const FIRST: Pid = Pid(1);
    const PART: u64 = 90 * MS * 1024;

    /// What threads do in a loop.
    #[derive(Clone, Copy)]
    enum Do {
        /// As much as their CPUs can.
        All(fn(u64, u64) -> u64),
        /// A part each; the first may wait for the last of them.
        Own { first_waits: bool },
    }

    /// Thread 1 and the three that it forks at 1 ms.
    fn forked() -> (BTreeMap<Pid, Thread>, BTreeMap<Pid, Ran>) {
        let mut threads: BTreeMap<Pid, Thread> = (1..=4).map(|pid| (Pid(pid), Thread::new(120))).collect();
        let ran = threads.keys().map(|pid| (*pid, Ran::default())).collect();
        for pid in (2..=4).map(Pid) {
            let t = threads.get_mut(&pid).unwrap();
            (t.parent, t.born) = (Some(FIRST), MS);
            threads.get_mut(&FIRST).unwrap().steps.push(Step::Fork(pid));
        }
        (threads, ran)
    }

    /// In each loop of 100 ms so many of the three wait for about so long.
    fn loops(loops: u64, (sleep, wait): (u64, u64), what: Do) -> (BTreeMap<Pid, Thread>, BTreeMap<Pid, Ran>) {
        let (mut threads, mut ran) = forked();
        for n in 0..loops {
            let (begin, end) = ((n * LOOP).max(MS), (n + 1) * LOOP);
            let sleeps = |pid: Pid| pid != FIRST && (u64::from(pid.0) + n) % 3 < sleep;
            let last = (2..=4).map(Pid).find(|pid| !sleeps(*pid)).unwrap_or(Pid(4));
            let wait = wait + n % 4 * wait / 4;
            for (pid, t) in &mut threads {
                let until = if sleeps(*pid) { end - wait } else { end };
                let units = match what {
                    Do::All(speed) => (until - begin) * speed(pid.0.into(), n),
                    Do::Own { .. } => PART,
                };
                ran.get_mut(pid).unwrap().add(begin, until, units);
                match t.steps.last_mut() {
                    Some(Step::Work(more)) => *more += units,
                    _ => t.steps.push(Step::Work(units)),
                }
                let comes = end - 1_000;
                match *pid {
                    FIRST => {
                        if let Do::Own { first_waits: true } = what {
                            t.steps.push(Step::Token { by: last, since: end - wait / 2, at: comes });
                        }
                        let woken = (2..=4).map(Pid).filter(|pid| sleeps(*pid));
                        t.steps.extend(woken.map(|to| Step::Post { to, at: end }));
                    }
                    pid if sleeps(pid) => t.steps.push(Step::Token { by: FIRST, since: until, at: end }),
                    pid if pid == last => {
                        let wakes = matches!(what, Do::Own { first_waits: true });
                        t.steps.extend(wakes.then_some(Step::Post { to: FIRST, at: comes }));
                    }
                    _ => {}
                }
            }
        }
        threads.values_mut().for_each(|t| t.state = State::Running);
        (threads, ran)
    }

    fn unlike(pid: u64, n: u64) -> u64 {
        if (pid + n) % 4 < 2 { 1024 } else { 512 }
    }

    fn share(threads: &mut BTreeMap<Pid, Thread>, ran: BTreeMap<Pid, Ran>, end: u64) -> Teams {
        let kinds = kinds(threads, |pid| if pid == FIRST { "main".into() } else { format!("worker{}", pid.0) });
        let ran = std::cell::Cell::new(Some(ran));
        share_out(threads, &kinds, end, || ran.take().expect("once"))
    }

    #[test]
    fn who_has_a_fast_cpu_does_more() {
        let (mut threads, ran) = loops(12, (2, MS / 2), Do::All(unlike));
        let before: u64 = threads.values().map(|t| work(&t.steps)).sum();
        let team = share(&mut threads, ran, 12 * LOOP)[&FIRST];
        assert_eq!((team.others, team.goes_on), (3, true));
        let parts = |pid: u32| {
            let part = |s: &Step| if let Step::Part { units, .. } = *s { Some(units) } else { None };
            threads[&Pid(pid)].steps.iter().filter_map(part).collect::<Vec<u64>>()
        };
        // The last one is a guess.
        let parts = [1, 2, 3, 4].map(parts);
        assert!(parts.iter().all(|p| *p == parts[0] && p.len() == 13));
        let all: u64 = parts[0][..12].iter().sum();
        let looked = looked(100 * MS * 4 / team.iterations.expect("they share"), team.look_ns);
        let off = (before - all).abs_diff(before * looked / (100 * MS));
        assert!(looked > MS / 10 && off < before / 1_000, "{all} of {before}, {looked}");
        let steps = |pid| &threads[&Pid(pid)].steps;
        assert_eq!(steps(1)[..3], [2, 3, 4].map(|pid| Step::Fork(Pid(pid))));
        assert!(matches!(steps(1)[3..6], [Step::Part { .. }, Step::Gather(FIRST), Step::Release(FIRST)]));
        assert!(matches!(steps(2)[..3], [Step::Part { .. }, Step::Arrive(FIRST), Step::Await(FIRST)]));
    }

    #[test]
    fn all_have_the_name_of_the_program() {
        let (mut threads, ran) = loops(12, (2, MS / 2), Do::All(unlike));
        let kinds = kinds(&threads, |_| "program".into());
        // And a shell that forked it.
        threads.get_mut(&FIRST).unwrap().parent = Some(Pid(99));
        let ran = std::cell::Cell::new(Some(ran));
        let teams = share_out(&mut threads, &kinds, 12 * LOOP, || ran.take().expect("once"));
        assert_eq!(teams[&FIRST].others, 3);
    }

    #[test]
    fn a_program_that_ends() {
        let (mut threads, ran) = loops(12, (2, MS / 2), Do::All(unlike));
        for (pid, t) in &mut threads {
            t.steps.extend([Step::Work(7), Step::Exit]);
            t.state = State::Dead { since: 12 * LOOP + MS };
            if *pid == FIRST {
                t.steps.insert(t.steps.len() - 1, Step::Post { to: Pid(9), at: 12 * LOOP + MS });
            }
        }
        assert!(!share(&mut threads, ran, 12 * LOOP + MS)[&FIRST].goes_on);
        assert!(matches!(threads[&FIRST].steps[..], [.., Step::Gather(_), Step::Post { to: Pid(9), .. }, Step::Exit]));
        assert!(matches!(threads[&Pid(2)].steps[..], [.., Step::Arrive(_), Step::Exit]));
    }

    #[test]
    fn all_end_together() {
        let ends_with = |last: u64, late: u64, waits: u64, slept: u64| {
            let (mut threads, ran) = loops(3, (0, 0), Do::All(unlike));
            for (pid, t) in &mut threads {
                t.steps.push(Step::Exit);
                let late = if pid.0 == 4 { late } else { 0 };
                t.state = State::Dead { since: 3 * LOOP + u64::from(pid.0) * last + late };
            }
            if waits > 0 {
                let token = Step::Token { by: Pid(2), since: 3 * LOOP - waits, at: 3 * LOOP };
                threads.get_mut(&FIRST).unwrap().steps.insert(4, token);
                threads.get_mut(&Pid(2)).unwrap().steps.insert(1, Step::Post { to: FIRST, at: 3 * LOOP });
            }
            if slept > 0 {
                let wakes = (2..=4).map(|pid| Step::Post { to: Pid(pid), at: 2 * LOOP + u64::from(pid) });
                threads.get_mut(&FIRST).unwrap().steps.splice(4..4, wakes);
                for pid in 2..=4 {
                    let token = Step::Token { by: FIRST, since: 2 * LOOP - slept, at: 2 * LOOP + u64::from(pid) };
                    threads.get_mut(&Pid(pid)).unwrap().steps.insert(1, token);
                }
            }
            share(&mut threads, ran, 3 * LOOP + 10 * last).get(&FIRST).copied()
        };
        let ends = |last, waits, slept| ends_with(last, 0, waits, slept);
        let team = ends(MS, 0, 0).expect("it is one");
        assert_eq!((team.others, team.iterations, team.goes_on), (3, Some(4 * 303 / 4), false));
        assert!(ends(MS, 0, MS / 10).is_some(), "after one of its loops they slept");
        let late = |last| ends_with(last, 5 * MS, 0, 0).and_then(|team| team.iterations);
        assert_eq!(late(MS / 2), Some(4 * 306), "most do, and these tell of iterations");
        assert_eq!([late(3 * MS / 2), ends(2 * MS, 0, 0).and_then(|team| team.iterations)], [None; 2], "two are late");
        assert_eq!(ends(10 * MS, 0, 0), None, "one after the other");
        assert_eq!(ends(MS, 20 * MS, 0), None, "their parent waits");
    }

    #[test]
    fn who_has_a_part_of_its_own() {
        for (wait, first_waits) in [(MS, true), (40 * MS, true), (MS / 2, false)] {
            let (mut threads, ran) = loops(12, (2, wait), Do::Own { first_waits });
            let team = share(&mut threads, ran, 12 * LOOP)[&FIRST];
            assert_eq!((team.iterations, team.look_ns), (None, 0), "the last one has done as much");
            let is_part = |s: &Step| s.units().abs_diff(PART) < PART / 1_000;
            let steps = |pid| &threads[&Pid(pid)].steps;
            assert!(is_part(&steps(1)[3]) && matches!(steps(1)[4..6], [Step::Gather(_), Step::Release(_)]));
            for pid in 2..=4 {
                assert!(is_part(&steps(pid)[0]) && matches!(steps(pid)[1..3], [Step::Arrive(_), Step::Await(_)]));
            }
        }
    }

    /// Loops that take so many ms: what each of the four does in it, ms of a CPU at full speed, and how long it waits at its end, ms.
    fn table(loops: &[(u64, [(u64, u64); 4])]) -> (BTreeMap<Pid, Thread>, BTreeMap<Pid, Ran>, u64) {
        let (mut threads, mut ran) = forked();
        let mut begin = MS;
        for (length, did) in loops {
            let end = begin + length * MS;
            let last = (2..=4).find(|pid| did[*pid as usize - 1].1 == 0).map_or(Pid(2), Pid);
            for ((pid, t), (units, wait)) in threads.iter_mut().zip(did) {
                let until = end - wait * MS;
                ran.get_mut(pid).unwrap().add(begin, until, units * MS * 1024);
                t.steps.push(Step::Work(units * MS * 1024));
                if *wait > 0 {
                    let (by, at) = if *pid == FIRST { (last, end - 1_000) } else { (FIRST, end) };
                    t.steps.push(Step::Token { by, since: until, at });
                }
                if *pid == FIRST {
                    let woken = (2..=4).filter(|pid| did[*pid as usize - 1].1 > 0).map(Pid);
                    t.steps.extend(woken.map(|to| Step::Post { to, at: end }));
                } else if *pid == last && did[0].1 > 0 {
                    t.steps.push(Step::Post { to: FIRST, at: end - 1_000 });
                }
            }
            begin = end;
        }
        threads.values_mut().for_each(|t| t.state = State::Running);
        (threads, ran, begin)
    }

    #[test]
    fn chunks_that_shrink() {
        // A slow CPU takes the first quarter, of 40, in every other loop; nobody always has it.
        let slow = (100, [(60, 40), (58, 42), (40, 0), (2, 40)]);
        let fast = (80, [(62, 1), (20, 2), (58, 1), (20, 0)]);
        let other = (100, [(60, 40), (2, 42), (58, 40), (40, 0)]);
        let (mut threads, ran, end) = table(&[slow, fast, other, fast, slow, fast, other, fast, slow, fast]);
        let team = share(&mut threads, ran, end)[&FIRST];
        // The waits of 40 are for a chunk, and no iteration.
        assert!(team.shrinks && team.iterations >= Some(SMALLEST_OF), "{team:?}");
        assert!(matches!(threads[&Pid(2)].steps[0], Step::Part { .. }));
    }

    #[test]
    fn large_chunks_of_one_size() {
        // Of nine chunks of 30 three threads take two each, and whoever is first a third one.
        let turn = |who: usize| {
            let did = |i: usize| if i == who { (90, 0) } else { (60, 30) };
            (90, [did(0), did(1), did(2), did(3)])
        };
        let (mut threads, ran, end) = table(&[1, 2, 3, 1, 2, 3, 1, 2, 3, 1].map(turn));
        let team = share(&mut threads, ran, end)[&FIRST];
        assert_eq!((team.iterations, team.shrinks), (Some(9), false));
        // If it is always the same one, it is its part.
        let (mut threads, ran, end) = table(&[2; 10].map(turn));
        assert_eq!(share(&mut threads, ran, end)[&FIRST].iterations, None);
    }

    #[test]
    fn names_of_threads_do_not_part_a_team() {
        let (mut threads, ran) = loops(12, (2, MS / 2), Do::All(unlike));
        let kinds = kinds(&threads, |pid| ["", "main", "worker", "worker", "helper"][pid.0 as usize].into());
        let ran = std::cell::Cell::new(Some(ran));
        let teams = share_out(&mut threads, &kinds, 12 * LOOP, || ran.take().expect("once"));
        assert_eq!(teams[&FIRST].others, 3);
    }

    #[test]
    fn who_is_no_team() {
        let check = |(mut threads, ran): (BTreeMap<Pid, Thread>, BTreeMap<Pid, Ran>), why: &str| {
            let before: Vec<Vec<Step>> = threads.values().map(|t| t.steps.clone()).collect();
            assert!(share(&mut threads, ran, 12 * LOOP).is_empty(), "{why}");
            assert!(threads.values().map(|t| &t.steps).eq(&before));
        };
        check(loops(12, (2, 40 * MS), Do::All(unlike)), "who is done first waits for long");
        check(loops(12, (1, MS / 2), Do::All(unlike)), "one is woken at a time, as who waits for a lock");
        check(loops(3, (2, MS / 2), Do::All(unlike)), "too few");
        let with = |pid: u32, step: Step| {
            let (mut threads, ran) = loops(12, (2, MS / 2), Do::All(unlike));
            threads.get_mut(&Pid(pid)).unwrap().steps.insert(5, step);
            (threads, ran)
        };
        let timer = Step::Timer { until: 4 * LOOP, since: 3 * LOOP };
        check(with(3, timer.clone()), "it waits for something else");
        check(with(1, timer), "and so does the first");
    }

    #[test]
    fn iterations_by_waits() {
        // 20 threads that are done 0 to 1000 before the last one, and look for 400 of it.
        let waits: Vec<(u64, u64)> =
            (0..20).map(|n| 50 * n).filter(|w| *w > 400).map(|w| (w, 400)).map(|(w, s)| (0, w - s)).collect();
        let long = iteration(&waits, 20);
        let look = |iteration, slept| super::look(iteration, slept, 20);
        assert!((950..=1_150).contains(&long) && (380..=520).contains(&look(long, 11)), "{long}");
        assert_eq!((iteration(&[(0, 100); 20], 20), look(200, 20)), (200, 0), "all of them sleep");
        assert_eq!((iteration(&[], 20), look(200, 0)), (0, 200), "none does");
        assert_eq!([0, 400, 1_000, 9_000].map(|look| looked(1_000, look)), [0, 320, 500, 500]);
    }
}
