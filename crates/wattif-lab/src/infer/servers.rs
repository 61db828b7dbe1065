//! Threads that answer others.
//!
//! A request to a thread that is busy leaves no event: it is woken only if it waits. But whoever is answered has asked. A thread `P`
//! that wakes `W` and then waits until `W` wakes it is a client of the server `W`; where `P` waits for `W` without having woken it, `W`
//! was busy and the request is put in. The server takes it where it takes those that are seen: so much of its work, and so many of its
//! other waits, before the answer. Who wakes `W` again before it has waited for it hands its work in, and goes on with what it has got
//! meanwhile: it is no client.
//!
//! Nor does an answer to a client that has not begun to wait leave one, as where the server preempts it: the client asks again and again then, and
//! the server waits without having answered. Both waits are put in.
//!
//! Which clients share an answer was chance as well. A server that always answers the same number of clients waits for so many. One that
//! answers now few, now many answers all who have asked: either until the answer, or until its last wait before it began (group
//! commit: who asks while the disk writes is served by the next write). A server that is nearly always busy is hardly ever woken. That it
//! is one shows in its answers, if they are of this last kind: to all who waited when its own wait began, and to nobody who came later.

use super::kin::Kinds;
use super::steps::{Distance, Queue, Step, median, usual_distance, work};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer requests that are seen make no server.
const MIN_SEEN: usize = 5;
/// One in so many requests is seen at least, unless its answers tell as much; one wake-up in so many is no request at most.
const SEEN_OF: usize = 20;
const NO_REQUEST_OF: usize = 4;
/// One request in so many is hidden; otherwise wake-ups say all.
const HIDDEN_OF: usize = 50;
/// One wake-up in so many, by another thread of the kind, is a lock passed on at most.
const CONTENDED_OF: usize = 20;
/// So many of 100 answers leave nobody out who had asked.
const ALIKE: usize = 90;
/// It counts in so many answers that show it.
const COUNTS_OF: usize = 5;
/// One answer in so many is to another number of clients at most, where it is to a fixed one.
const UNLIKE_OF: usize = 50;
/// So many answers, and one client in so many of them who was left out or came later at most, tell of group commit by themselves.
const MIN_BATCHES: usize = 50;
const UNBATCHED_OF: usize = 20;
/// A client that has asked sleeps so soon, ns.
const ASKED_NS: u64 = 2_000;
/// Servers looked for.
const MAX_SERVERS: usize = 256;

/// Clients of a server, and how often they waited for it.
#[derive(Default)]
struct Found {
    clients: BTreeSet<Pid>,
    seen: usize,
    hidden: usize,
    /// Wake-ups of the server after which the waker woke it again, or waited for something else, by waker.
    stray: BTreeMap<Pid, usize>,
    /// Those of them after which it woke it again: who, and when first.
    again: Vec<(Pid, u64)>,
}

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// As many as it did.
    Counted,
    /// All who have asked.
    All,
    /// All who had asked when its last wait began.
    Batch,
}

/// Makes servers of threads and clients of others. How many clients.
/// Clients of one kind are alike: whoever of them waits may have the answer. `counted`: servers answer as many at once as they did.
/// Threads of `pools` are asked, and are nobody's clients.
pub(super) fn serve(
    threads: &mut BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    pools: &BTreeMap<Pid, Pid>,
    counted: bool,
) -> usize {
    let mut clients = 0;
    answer_unseen(threads, &look(threads, kinds));
    for _ in 0..MAX_SERVERS {
        let mut found = look(threads, kinds);
        found.retain(|_, f| !f.clients.iter().any(|pid| pools.contains_key(pid)));
        let servers = found.into_iter().filter(|((pid, _), f)| {
            f.may_be_server() && (f.seen * SEEN_OF >= f.seen + f.hidden || commits_groups(threads, *pid, &f.clients))
        });
        let best = servers.max_by_key(|(_, f)| (f.clients.len(), f.hidden));
        let Some(((server, _), Found { clients: of, .. })) = best else { break };
        let Some(first) = of.first().copied() else { break };
        clients += of.len();
        let waits = waits_of(threads, server, &of);
        for client in &of {
            let steps = &mut threads.get_mut(client).expect("a client is a thread").steps;
            *steps = asking(std::mem::take(steps), server, first);
        }
        let steps = &mut threads.get_mut(&server).expect("a server is a thread").steps;
        let server = Server::new((server, first), &of, steps);
        let answers = if counted { Answers::Counted } else { server.answers(steps, &waits) };
        *steps = server.program(steps, &waits, answers);
    }
    clients
}

/// Threads of one kind that wake each other now and then pass locks on: who had one when was chance. What another held up a thread
/// stays, by its length; that it was this other does not.
pub(super) fn contended(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> usize {
    let mut chance: BTreeMap<(Pid, Pid), usize> = BTreeMap::new();
    for (pid, t) in threads.iter() {
        let mut by: BTreeMap<Pid, usize> = BTreeMap::new();
        for waker in t.steps.iter().filter_map(Step::woken_by) {
            *by.entry(waker).or_default() += 1;
        }
        let all: usize = by.values().sum();
        let peers = by.into_iter().filter(|(waker, n)| kinds.get(waker) == kinds.get(pid) && n * CONTENDED_OF <= all);
        chance.extend(peers.map(|(waker, n)| ((waker, *pid), n)));
    }
    for (pid, t) in threads.iter_mut() {
        t.steps.retain(|s| s.wakes().is_none_or(|to| !chance.contains_key(&(*pid, to))));
        for step in &mut t.steps {
            if let Step::Token { by, since, at } = *step
                && chance.contains_key(&(by, *pid))
            {
                *step = Step::Interrupt { ns: at.saturating_sub(since).max(1), since };
            }
        }
    }
    chance.values().sum()
}

impl Found {
    fn may_be_server(&self) -> bool {
        let asked = self.seen + self.hidden;
        let stray: usize = self.clients.iter().filter_map(|c| self.stray.get(c)).sum();
        self.clients.len() > 1
            && self.seen >= MIN_SEEN
            && stray * NO_REQUEST_OF <= self.seen
            && self.hidden >= (asked / HIDDEN_OF).max(2)
    }
}

/// Does a thread answer whoever waited for it when its last wait began, and nobody else?
fn commits_groups(threads: &BTreeMap<Pid, Thread>, server: Pid, clients: &BTreeSet<Pid>) -> bool {
    let Some(first) = clients.first() else { return false };
    let steps = &threads[&server].steps;
    let answering = Server::new((server, *first), clients, steps);
    let of = answering.left_over(steps, &waits_of(threads, server, clients));
    answering.bursts.len() >= MIN_BATCHES && of.early.max(of.came_later) * UNBATCHED_OF <= of.served
}

/// Who waits for whom, and whether it had woken it in the same stretch.
fn look<'a>(threads: &BTreeMap<Pid, Thread>, kinds: &'a Kinds) -> BTreeMap<(Pid, &'a str), Found> {
    let mut all: BTreeMap<(Pid, &str), Found> = BTreeMap::new();
    for (pid, t) in threads {
        let kind = kinds[pid].as_str();
        // And when.
        let mut woke: BTreeMap<Pid, u64> = BTreeMap::new();
        for step in &t.steps {
            match *step {
                Step::Post { to, at } => {
                    // Who asks again has the answer to the first, or has asked for none.
                    if let Some(before) = woke.insert(to, at) {
                        let found = all.entry((to, kind)).or_default();
                        *found.stray.entry(*pid).or_default() += 1;
                        found.again.push((*pid, before));
                    }
                }
                _ if step.waits() => {
                    if let Some(by) = step.woken_by() {
                        let found = all.entry((by, kind)).or_default();
                        found.clients.insert(*pid);
                        *(if woke.remove(&by).is_some() { &mut found.seen } else { &mut found.hidden }) += 1;
                    }
                    for other in std::mem::take(&mut woke).into_keys() {
                        *all.entry((other, kind)).or_default().stray.entry(*pid).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }
    all
}

/// Puts in answers to clients that had not begun to wait for them: where a client asked again without one, and the server waited without having
/// answered it.
fn answer_unseen(threads: &mut BTreeMap<Pid, Thread>, found: &BTreeMap<(Pid, &str), Found>) {
    for ((server, _), f) in found.iter().filter(|(_, f)| f.clients.len() > 1 && f.seen >= MIN_SEEN) {
        let is_rare =
            |(client, _): &&(Pid, u64)| f.clients.contains(client) && f.stray[client] * f.clients.len() <= f.seen;
        let asked_again: BTreeSet<(Pid, u64)> = f.again.iter().filter(is_rare).copied().collect();
        let Some(t) = threads.get_mut(server) else { continue };
        let mut answered: BTreeSet<(Pid, u64)> = BTreeSet::new();
        let mut out = Vec::with_capacity(t.steps.len());
        // Who has woken it, when, and has not been answered since.
        let mut open = None;
        for step in std::mem::take(&mut t.steps) {
            match step {
                Step::Post { to, .. } if open.is_some_and(|(client, _)| client == to) => open = None,
                Step::Token { by, since, at } if f.clients.contains(&by) => {
                    let before = open.replace((by, at));
                    if let Some((client, asked)) = before.filter(|asked| asked_again.contains(asked)) {
                        out.push(Step::Post { to: client, at: since });
                        answered.insert((client, asked));
                    }
                }
                _ => {}
            }
            out.push(step);
        }
        t.steps = out;
        for client in &f.clients {
            let steps = &mut threads.get_mut(client).expect("a client is a thread").steps;
            let mut out = Vec::with_capacity(steps.len());
            for step in std::mem::take(steps) {
                let post = if let Step::Post { to, at } = step { (to == *server).then_some(at) } else { None };
                out.push(step);
                let answer = post.filter(|at| answered.contains(&(*client, *at)));
                out.extend(answer.map(|at| Step::Token { by: *server, since: at, at }));
            }
            *steps = out;
        }
    }
}

/// Since when each client waited for each answer.
fn waits_of(threads: &BTreeMap<Pid, Thread>, server: Pid, clients: &BTreeSet<Pid>) -> BTreeMap<Pid, Vec<u64>> {
    clients.iter().map(|p| (*p, waits_for(&threads[p].steps, server))).collect()
}

/// Since when a client waited for each answer.
fn waits_for(steps: &[Step], server: Pid) -> Vec<u64> {
    steps
        .iter()
        .filter_map(|s| if let Step::Token { by, since, .. } = *s { (by == server).then_some(since) } else { None })
        .collect()
}

/// A client's steps: each wait for the server is a request and its answer.
fn asking(steps: Vec<Step>, server: Pid, first: Pid) -> Vec<Step> {
    let (requests, replies) = (Queue::Requests(server, first), Queue::Replies(server, first));
    let mut out: Vec<Step> = Vec::with_capacity(steps.len() + 8);
    let mut woke = None;
    for step in steps {
        match step {
            // The last of a stretch is the request, if one follows.
            Step::Post { to, .. } if to == server => woke = Some(out.len()),
            Step::Token { by, .. } if by == server => {
                out.insert(woke.take().unwrap_or(out.len()), Step::Put(requests));
                out.push(Step::Get(replies));
            }
            step => {
                if step.waits() {
                    woke = None;
                }
                out.push(step);
            }
        }
    }
    out
}

/// What tells who is answered.
#[derive(Default)]
struct LeftOver {
    /// Clients that were answered.
    served: usize,
    /// Those of them that came after the server's last wait had begun.
    came_later: usize,
    /// Requests older than an answer that were not in it, and those of them that are older than that wait.
    late: usize,
    early: usize,
}

/// Where a server takes a request: so many other waits and so much work before the answer.
struct Server<'a> {
    /// It and the first of its clients.
    pids: (Pid, Pid),
    clients: &'a BTreeSet<Pid>,
    /// Where answers begin and end, by step: the first of those to clients, and the first wait after it.
    bursts: Vec<(usize, usize)>,
    waits: usize,
    units: u64,
}

impl<'a> Server<'a> {
    fn new(pids: (Pid, Pid), clients: &'a BTreeSet<Pid>, steps: &[Step]) -> Server<'a> {
        let mut server = Server { pids, clients, bursts: Vec::new(), waits: 0, units: 0 };
        let mut at = 0;
        while let Some(first) = (at..steps.len()).find(|i| server.answered(&steps[*i]).is_some()) {
            at = (first..steps.len()).find(|i| steps[*i].waits()).unwrap_or(steps.len());
            server.bursts.push((first, at));
        }
        let mut seen: Vec<Distance> = Vec::new();
        let mut begin = 0;
        for &(first, end) in &server.bursts {
            if let Some(i) = (begin..first).rfind(|i| server.is_request(&steps[*i])) {
                seen.push(distance(&steps[i + 1..first]));
            }
            begin = end;
        }
        (server.waits, server.units) = usual_distance(&seen);
        if server.waits == 0 && server.units > 0 {
            server.bursts = server.bursts.iter().flat_map(|burst| server.one_by_one(*burst, steps)).collect();
        }
        server
    }

    /// Answers to requests that found the server busy, each after as much work as a request that is seen: they follow each other without a wait.
    fn one_by_one(&self, (first, end): (usize, usize), steps: &[Step]) -> Vec<(usize, usize)> {
        let mut bursts = vec![(first, end)];
        let (mut units, mut after) = (0, first);
        for (i, step) in (first..end).zip(&steps[first..end]) {
            if self.answered(step).is_some() {
                if i > first && 2 * units >= self.units {
                    bursts.last_mut().expect("there is one").1 = after;
                    bursts.push((i, end));
                }
                (units, after) = (0, i + 1);
            }
            units += step.units();
        }
        bursts
    }

    /// The client that the step answers, and when.
    fn answered(&self, step: &Step) -> Option<(Pid, u64)> {
        match *step {
            Step::Post { to, at } if self.clients.contains(&to) => Some((to, at)),
            _ => None,
        }
    }

    /// The client whose request the step takes, and when it came.
    fn requested(&self, step: &Step) -> Option<(Pid, u64)> {
        match *step {
            Step::Token { by, at, .. } if self.clients.contains(&by) => Some((by, at)),
            _ => None,
        }
    }

    fn is_request(&self, step: &Step) -> bool {
        step.woken_by().is_some_and(|by| self.clients.contains(&by))
    }

    /// Whom each burst answers, and when they asked.
    fn asked(&self, steps: &[Step], waits: &BTreeMap<Pid, Vec<u64>>) -> Vec<Vec<(Pid, u64)>> {
        let mut waits: BTreeMap<Pid, std::slice::Iter<'_, u64>> = waits.iter().map(|(p, w)| (*p, w.iter())).collect();
        let mut asked = |s: &Step| {
            let (client, at) = self.answered(s)?;
            Some((client, waits.get_mut(&client).and_then(|w| w.next().copied()).unwrap_or(at)))
        };
        self.bursts.iter().map(|&(first, end)| steps[first..end].iter().filter_map(&mut asked).collect()).collect()
    }

    /// By what is left over: requests older than an answer that were not in it.
    fn answers(&self, steps: &[Step], waits: &BTreeMap<Pid, Vec<u64>>) -> Answers {
        let asked = self.asked(steps, waits);
        let mut sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
        let Some(usual) = median(&mut sizes) else { return Answers::Counted };
        let same = sizes.iter().filter(|n| **n == usual).count();
        // Who counts never answers fewer, but for what the ends of the trace cut off.
        let alike = (sizes.len() - same) * UNLIKE_OF <= sizes.len() + 2 * UNLIKE_OF;
        if alike && (usual < 2 || self.waits_for_the_last(steps, &asked)) {
            return Answers::Counted;
        }
        let LeftOver { served, late, early, .. } = self.left_over(steps, waits);
        match (served - served * ALIKE / 100) as i64 {
            few if late as i64 <= few => Answers::All,
            few if early as i64 <= few => Answers::Batch,
            _ => Answers::Counted,
        }
    }

    /// Whom the answers leave out.
    fn left_over(&self, steps: &[Step], waits: &BTreeMap<Pid, Vec<u64>>) -> LeftOver {
        let mut next: BTreeMap<Pid, usize> = BTreeMap::new();
        let mut all = LeftOver::default();
        for &(first, end) in &self.bursts {
            let now = self.answered(&steps[first]).map_or(0, |(_, at)| at);
            let last_wait = steps[..first].iter().rfind(|s| s.waits()).and_then(Step::blocked_since).unwrap_or(now);
            for (pid, _) in steps[first..end].iter().filter_map(|s| self.answered(s)) {
                let n = next.entry(pid).or_default();
                let since = waits.get(&pid).and_then(|w| w.get(*n)).copied().unwrap_or(0);
                *n += 1;
                all.served += 1;
                all.came_later += usize::from(since > last_wait);
            }
            for (pid, since) in waits {
                let oldest = since.get(next.get(pid).copied().unwrap_or(0)).copied().unwrap_or(u64::MAX);
                all.late += usize::from(oldest < now);
                all.early += usize::from(oldest < last_wait);
            }
        }
        all
    }

    /// Who counts is woken by more than the first that asks, or by the last alone.
    fn waits_for_the_last(&self, steps: &[Step], asked: &[Vec<(Pid, u64)>]) -> bool {
        let (mut begin, mut counts) = (0, 0);
        for (&(first, end), asked) in self.bursts.iter().zip(asked) {
            let seen: Vec<(Pid, u64)> = steps[begin..first].iter().filter_map(|s| self.requested(s)).collect();
            counts += usize::from(match seen[..] {
                [] => false,
                [(by, at)] => asked.iter().all(|(client, since)| *client == by || *since <= at),
                _ => true,
            });
            begin = end;
        }
        counts * COUNTS_OF >= self.bursts.len()
    }

    /// The server's steps.
    fn program(&self, steps: &[Step], waits: &BTreeMap<Pid, Vec<u64>>, answers: Answers) -> Vec<Step> {
        let mut out = Vec::with_capacity(steps.len() + 8);
        let mut begin = 0;
        for (&(first, end), asked) in self.bursts.iter().zip(self.asked(steps, waits)) {
            let n = if answers == Answers::Counted { asked.len() } else { 1 };
            self.take(&steps[begin..first], n, &asked, answers, &mut out);
            self.answer(n, answers, &mut out);
            out.extend(steps[first..end].iter().filter(|s| self.answered(s).is_none()).cloned());
            begin = end;
        }
        // What was taken and not answered before the end would be missing in the next round.
        out.extend(steps[begin..].iter().filter(|s| !self.is_request(s)).cloned());
        out
    }

    /// From one answer to the next: takes `n` requests of those who asked then.
    fn take(&self, cycle: &[Step], n: usize, asked: &[(Pid, u64)], answers: Answers, out: &mut Vec<Step>) {
        let [requests, batch] = [Queue::Requests, Queue::Batch].map(|queue| queue(self.pids.0, self.pids.1));
        let seen: Vec<usize> = (0..cycle.len()).filter(|i| self.is_request(&cycle[*i])).collect();
        // Of those that are seen the last ones count; the rest is where the last one is, or where it usually is.
        let kept = &seen[seen.len().saturating_sub(n)..];
        let usual = kept.last().map_or_else(|| self.usual_place(cycle), |i| (*i, 0));
        let is_kept = |p: &Pid| kept.iter().any(|i| cycle[*i].woken_by() == Some(*p));
        let mut hidden: Vec<u64> = asked.iter().filter(|(p, _)| !is_kept(p)).map(|(_, at)| *at).collect();
        hidden.sort_unstable();
        hidden.resize(n - kept.len(), 0);
        // Not before a wait that had begun before: else it had to wait for what is asked while it waits.
        let places: Vec<(usize, u64)> = hidden.iter().map(|at| place(cycle, usual, *at)).collect();
        let close = match answers {
            Answers::Batch => {
                let first = places.iter().map(|p| p.0).max().unwrap_or(usual.0);
                (first..cycle.len()).rfind(|i| cycle[*i].waits() && !self.is_request(&cycle[*i]))
            }
            _ => None,
        };
        let get = |out: &mut Vec<Step>, times: usize| {
            for _ in 0..times {
                out.push(Step::Get(requests));
                out.extend((answers == Answers::Batch).then_some(Step::Put(batch)));
            }
        };
        let count = |at: usize, late: bool| places.iter().filter(|p| p.0 == at && (p.1 > 0) == late).count();
        for (i, step) in cycle.iter().enumerate() {
            get(out, count(i, false));
            match *step {
                Step::Work(units) if count(i, true) > 0 => {
                    let before = units.saturating_sub(usual.1);
                    out.extend((before > 0).then_some(Step::Work(before)));
                    get(out, count(i, true));
                    out.push(Step::Work(units - before));
                }
                _ => {
                    out.extend((close == Some(i)).then_some(Step::Drain { from: requests, to: batch }));
                    match self.is_request(step) {
                        true => get(out, usize::from(kept.contains(&i))),
                        false => out.push(step.clone()),
                    }
                }
            }
        }
        get(out, places.iter().filter(|p| p.0 >= cycle.len()).count());
    }

    /// Before which step of a cycle, and with how much of it left, a request is usually taken.
    fn usual_place(&self, cycle: &[Step]) -> (usize, u64) {
        let (mut waits, mut units) = (0, 0);
        for i in (0..cycle.len()).rev() {
            match cycle[i] {
                Step::Work(w) if waits == self.waits && units + w >= self.units => return (i, self.units - units),
                Step::Work(w) if waits == self.waits => units += w,
                ref step if step.waits() && waits == self.waits => return (i + 1, 0),
                ref step => waits += usize::from(step.waits()),
            }
        }
        (0, 0)
    }

    fn answer(&self, n: usize, answers: Answers, out: &mut Vec<Step>) {
        let [requests, batch, replies] =
            [Queue::Requests, Queue::Batch, Queue::Replies].map(|queue| queue(self.pids.0, self.pids.1));
        match answers {
            Answers::Counted => out.extend(vec![Step::Put(replies); n]),
            // The one it was woken for is put back: all are answered at one time.
            Answers::All => out.extend([Step::Put(requests), Step::Drain { from: requests, to: replies }]),
            Answers::Batch => out.push(Step::Drain { from: batch, to: replies }),
        }
    }
}

/// Where in a cycle a request of that time is taken: where it usually is, or after the last wait that had begun before.
fn place(cycle: &[Step], usual: (usize, u64), asked: u64) -> (usize, u64) {
    let had_begun = |s: &Step| s.blocked_since().is_some_and(|since| since + ASKED_NS < asked);
    match cycle.iter().rposition(had_begun) {
        Some(wait) if wait >= usual.0 => (wait + 1, 0),
        _ => usual,
    }
}

/// Waits, and units of work until the first of them.
fn distance(steps: &[Step]) -> Distance {
    let until = steps.iter().position(Step::waits).unwrap_or(steps.len());
    (steps.iter().filter(|s| s.waits()).count(), work(&steps[..until]))
}

#[cfg(test)]
mod tests {
    use super::super::kin::kinds;
    use super::*;

    const SERVER: Pid = Pid(1);

    fn named(task: impl Fn(Pid) -> String) -> BTreeMap<Pid, String> {
        kinds(&(1..10).map(|pid| (Pid(pid), Thread::new(120))).collect(), task)
    }

    /// Rounds of 100 µs in which clients 2 and 3 ask for a flush of 50 µs: one before it, the other while it lasts or not at all. In the
    /// first rounds all wake-ups are seen.
    fn committers(rounds: u64) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = (1..4).map(|pid| (Pid(pid), Thread::new(120))).collect();
        let mut push = |pid: Pid, steps: &[Step]| all.get_mut(&pid).unwrap().steps.extend_from_slice(steps);
        let mut waiting: Option<(Pid, u64)> = None;
        for r in 0..rounds {
            let (begin, end) = (r * 100_000, r * 100_000 + 50_000);
            let asks = Step::Post { to: SERVER, at: begin };
            let first = Pid(2 + (r % 2) as u32);
            let mut served = Vec::new();
            match waiting.take() {
                Some(one) => served.push(one),
                None => {
                    push(SERVER, &[Step::Token { by: first, since: begin - begin.min(9), at: begin }]);
                    push(first, &[Step::Work(7), asks]);
                    served.push((first, begin));
                    // Another had asked before the flush began, as one in three does.
                    if r % 3 == 0 {
                        served.push((Pid(5 - first.0), begin));
                    }
                }
            }
            push(SERVER, &[Step::Work(5), Step::Device { ns: 50_000, since: begin + 5 }]);
            if r % 3 == 1 && served.len() == 1 {
                waiting = Some((Pid(5 - served[0].0.0), begin + 20_000));
            }
            for (client, since) in served {
                push(SERVER, &[Step::Post { to: client, at: end }]);
                push(client, &[Step::Token { by: SERVER, since, at: end }]);
            }
        }
        all
    }

    #[test]
    fn group_commit() {
        let mut threads = committers(120);
        let asked: usize = [2, 3].iter().map(|c| waits_for(&threads[&Pid(*c)].steps, SERVER).len()).sum();
        let kinds = named(|pid| if pid == SERVER { "writer".into() } else { format!("client{}", pid.0) });
        assert_eq!(serve(&mut threads, &kinds, &BTreeMap::new(), false), 2);
        let queue = |of: fn(Pid, Pid) -> Queue| of(SERVER, Pid(2));
        let count = |pid: u32, step: Step| threads[&Pid(pid)].steps.iter().filter(|s| **s == step).count();
        let (puts, gets) = (Step::Put(queue(Queue::Requests)), Step::Get(queue(Queue::Replies)));
        assert_eq!(count(2, puts.clone()) + count(3, puts), asked, "each wait is a request");
        assert_eq!(count(2, gets.clone()) + count(3, gets), asked);
        let close = Step::Drain { from: queue(Queue::Requests), to: queue(Queue::Batch) };
        let answer = Step::Drain { from: queue(Queue::Batch), to: queue(Queue::Replies) };
        assert_eq!((count(1, close.clone()), count(1, answer)), (120, 120));
        let steps = &threads[&SERVER].steps;
        let flush = steps.iter().position(|s| matches!(s, Step::Device { .. })).unwrap();
        assert_eq!((&steps[flush - 1], &steps[0]), (&close, &Step::Get(queue(Queue::Requests))));
    }

    /// Two clients of a server that takes 10 µs for each: both ask, it answers one after the other without a wait in between. In every fourth round
    /// it preempts the first client, which asks again without having waited.
    fn one_by_one(rounds: u64) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = (1..4).map(|pid| (Pid(pid), Thread::new(120))).collect();
        let mut push = |pid: Pid, steps: &[Step]| all.get_mut(&pid).unwrap().steps.extend_from_slice(steps);
        for r in 1..=rounds {
            let at = r * 1_000_000;
            if r % 4 == 0 {
                push(Pid(2), &[Step::Work(50), Step::Post { to: SERVER, at: at - 500_000 }]);
                push(SERVER, &[Step::Token { by: Pid(2), since: at - 700_000, at: at - 500_000 }]);
                push(SERVER, &[Step::Work(10)]);
            }
            push(Pid(2), &[Step::Work(50), Step::Post { to: SERVER, at }]);
            push(Pid(3), &[Step::Work(50)]);
            push(SERVER, &[Step::Token { by: Pid(2), since: at - 100_000, at }]);
            for (n, client) in (1..).zip([Pid(2), Pid(3)]) {
                push(SERVER, &[Step::Work(10), Step::Post { to: client, at: at + n * 10_000 }]);
                push(client, &[Step::Token { by: SERVER, since: at + 1_000, at: at + n * 10_000 }]);
            }
        }
        all
    }

    #[test]
    fn each_answer_has_its_own_work() {
        let mut threads = one_by_one(80);
        let kinds = named(|pid| if pid == SERVER { "server".into() } else { format!("client{}", pid.0) });
        assert_eq!(serve(&mut threads, &kinds, &BTreeMap::new(), false), 2);
        let [requests, replies] = [Queue::Requests, Queue::Replies].map(|of| of(SERVER, Pid(2)));
        let asked = |pid: u32| {
            let count = |step: Step| threads[&Pid(pid)].steps.iter().filter(|s| **s == step).count();
            [count(Step::Put(requests)), count(Step::Get(replies))]
        };
        assert_eq!([asked(2), asked(3)], [[80 + 20; 2], [80; 2]], "those that it asked without waiting, too");
        let steps = &threads[&SERVER].steps;
        let one = [Step::Get(requests), Step::Work(10), Step::Put(replies)];
        assert!(steps.chunks(3).all(|c| *c == one), "{:?}", &steps[..12]);
        assert_eq!(steps.len(), 3 * 180);
    }

    /// Three clients that ask 5 to 45 µs after each answer, and flushes of 50 µs one after the other: the writer hardly ever sleeps. Or,
    /// where answers go to one client at a time, a server like any other.
    fn hardly_ever_woken(commits_groups: bool) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = (1..5).map(|pid| (Pid(pid), Thread::new(120))).collect();
        let mut push = |pid: Pid, steps: &[Step]| all.get_mut(&pid).unwrap().steps.extend_from_slice(steps);
        let mut asks: BTreeMap<Pid, u64> = (2..5).map(|pid| (Pid(pid), 1_000 * u64::from(pid))).collect();
        let mut now = 0;
        for r in 0..2_000u64 {
            let (first, at) = asks.iter().map(|(p, at)| (*p, *at)).min_by_key(|a| a.1).unwrap();
            // After every hundredth round everybody takes long to ask, and the writer waits for the first of them.
            if at > now {
                push(SERVER, &[Step::Token { by: first, since: now, at }]);
                push(first, &[Step::Post { to: SERVER, at }]);
                now = at;
            }
            let waited = |at: &u64| *at <= now;
            let rest = r % 100 == 99;
            let batch: Vec<(Pid, u64)> = match commits_groups || rest {
                true => asks.iter().filter(|(_, at)| waited(at)).map(|(p, at)| (*p, *at)).collect(),
                false => vec![(first, at)],
            };
            push(SERVER, &[Step::Work(5), Step::Device { ns: 50_000, since: now }]);
            now += 50_000;
            for (client, since) in batch {
                push(SERVER, &[Step::Post { to: client, at: now }]);
                push(client, &[Step::Token { by: SERVER, since, at: now }, Step::Work(7)]);
                let long = if rest { 100_000 } else { 0 };
                asks.insert(client, now + long + 5_000 + (r * 7_919 + u64::from(client.0) * 104_729) % 40_000);
            }
        }
        all
    }

    #[test]
    fn a_writer_that_is_hardly_ever_woken() {
        for commits_groups in [true, false] {
            let mut threads = hardly_ever_woken(commits_groups);
            let kinds = named(|pid| if pid == SERVER { "writer".into() } else { "client".into() });
            let found = look(&threads, &kinds);
            let of = &found[&(SERVER, "client")];
            assert!(of.may_be_server() && of.seen * SEEN_OF < of.hidden, "{} of {}", of.seen, of.hidden);
            assert_eq!(serve(&mut threads, &kinds, &BTreeMap::new(), false), if commits_groups { 3 } else { 0 });
            let closed = |s: &&Step| matches!(s, Step::Drain { to: Queue::Batch(..), .. });
            assert_eq!(threads[&SERVER].steps.iter().any(|s| closed(&s)), commits_groups);
        }
    }

    #[test]
    fn as_many_as_there_were() {
        let mut threads = committers(120);
        serve(
            &mut threads,
            &named(|pid| if pid == SERVER { "writer".into() } else { "client".into() }),
            &BTreeMap::new(),
            true,
        );
        let count = |is: fn(&Step) -> bool| threads[&SERVER].steps.iter().filter(|s| is(s)).count();
        assert_eq!(count(|s| matches!(s, Step::Drain { .. })), 0);
        assert_eq!(count(|s| matches!(s, Step::Get(_))), count(|s| matches!(s, Step::Put(_))));
    }

    #[test]
    fn one_client_or_none_hidden_stays() {
        let mut threads = committers(120);
        threads.remove(&Pid(3));
        let before = threads[&SERVER].steps.clone();
        assert_eq!(serve(&mut threads, &named(|_| "any".into()), &BTreeMap::new(), false), 0);
        assert_eq!(threads[&SERVER].steps, before);
    }

    /// Workers that wake who hands out their jobs at the end of each, and go on without a wait where the next one is there already.
    #[test]
    fn who_asks_again_before_it_waits_is_no_client() {
        let mut threads = committers(120);
        for pid in [2, 3] {
            let steps = &mut threads.get_mut(&Pid(pid)).unwrap().steps;
            let twice = |s: Step| match s {
                Step::Post { at, .. } if at % 200_000 == 0 => vec![s.clone(), Step::Work(7), s],
                s => vec![s],
            };
            *steps = std::mem::take(steps).into_iter().flat_map(twice).collect();
        }
        let kinds = named(|pid| if pid == SERVER { "main".into() } else { "worker".into() });
        assert_eq!(serve(&mut threads, &kinds, &BTreeMap::new(), false), 0);
    }

    #[test]
    fn a_lock_now_and_then() {
        let mut threads: BTreeMap<Pid, Thread> = [2, 3, 9].map(|pid| (Pid(pid), Thread::new(120))).into();
        let token = |by, at| Step::Token { by: Pid(by), since: at - 40, at };
        let often = (1..40).flat_map(|i| [Step::Work(9), token(9, i * 1000)]);
        threads.get_mut(&Pid(2)).unwrap().steps = often.chain([token(3, 90_000)]).collect();
        threads.get_mut(&Pid(3)).unwrap().steps = vec![Step::Post { to: Pid(2), at: 90_000 }, Step::Work(1)];
        assert_eq!(
            contended(&mut threads, &named(|pid| if pid.0 == 9 { "net".into() } else { format!("worker{}", pid.0) })),
            1
        );
        assert_eq!(threads[&Pid(2)].steps.last(), Some(&Step::Interrupt { ns: 40, since: 89_960 }));
        assert_eq!(threads[&Pid(3)].steps, [Step::Work(1)]);
    }
}
