//! Servers that take requests from one queue.
//!
//! Who asks a server that is busy waits for that one (`servers.rs`), unless its like take from the same queue: then whoever is free first takes
//! the request. Threads of one name that serve the same clients, one at a time, share a queue if clients that have to wait although they woke nobody
//! found all of them busy: with a queue each, others would often be waiting then. Where clients hardly ever have to, whoever has waited
//! longest is woken, now this one, now that.
//!
//! All requests go into one queue, from which the servers take them one by one, and all answers into another. Work that is the same for all
//! requests tells how many there are in a stretch. A client that asks once in each of its rounds did so where nothing is seen of it, too: all
//! servers were busy, and the answer was there when it looked. As many have to be taken as were asked.
//!
//! Whoever is woken, does next to nothing and waits again was woken in vain: one that was running had been quicker. That tells of a semaphore.

use super::kin::{Families, Wakes, wakes};
use super::pools::{takes_turns, wakes_any};
use super::steps::{
    Distance, LITTLE, Place, Queue, Step, insert, median, place_after, token_waits, usual_distance, within, work,
};
use super::thread::Thread;
use super::units::{requests, stretches, taking, unit};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer requests that nobody was free for tell nothing.
const MIN_HIDDEN: usize = 8;
/// One in so many is hidden although a server waits, at most. No more clients prefer a server, ask or are answered otherwise, and no more
/// wake-ups of servers are none of a client: they are left out.
const REFUSED_OF: usize = 20;
/// One in so many is seen at least.
const SEEN_OF: usize = 20;
/// So many tell whether as many are asked as are taken: to one in so many.
const MIN_TAKEN: usize = 50;
const AGREE_OF: usize = 20;
/// One in so many is woken in vain where they share a semaphore.
const VAIN_OF: usize = 100;
/// One of so many parts of a round may be missing.
const PART: u64 = 8;
/// Groups of servers looked for.
const MAX_GROUPS: usize = 64;

/// What was found.
#[derive(Default)]
pub(super) struct Shared {
    pub clients: usize,
    pub servers: BTreeSet<Pid>,
    /// Queues of which a running thread may take what another was woken for.
    pub semaphores: BTreeSet<Queue>,
}

/// Threads that share a queue, and their clients.
struct Group {
    servers: BTreeSet<Pid>,
    clients: BTreeSet<Pid>,
}

/// A request and its answer, by steps of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Visit {
    /// Between which steps all of it is.
    from: usize,
    end: usize,
    /// Where it woke a server, and where it waited for the answer, if anywhere.
    ask: Option<usize>,
    wait: Option<usize>,
    /// How often it was woken in vain before.
    vain: usize,
}

/// How clients and servers of a group deal with each other.
struct Plan {
    group: Group,
    visits: BTreeMap<Pid, Vec<Visit>>,
    /// Steps of the servers.
    steps: BTreeMap<Pid, Vec<Step>>,
    hidden: usize,
    /// Wake-ups in vain, of servers and of clients.
    vain: [usize; 2],
}

/// Gives servers of one name, by their families, one queue where they share it. Not those of pools that are `known` (`steals.rs`).
pub(super) fn share(threads: &mut BTreeMap<Pid, Thread>, families: &Families, known: &BTreeMap<Pid, Pid>) -> Shared {
    let mut by_name: BTreeMap<&(String, u32), BTreeSet<Pid>> = BTreeMap::new();
    // A server goes round: what it does once, such as ending, would be done again.
    let goes_round = |t: &Thread| !t.steps.iter().any(|s| matches!(s, Step::Fork(_) | Step::Exit));
    for (pid, _) in threads.iter().filter(|(pid, t)| !known.contains_key(pid) && goes_round(t)) {
        by_name.entry(&families[pid]).or_default().insert(*pid);
    }
    by_name.retain(|_, members| members.len() > 1);
    let mut all = Shared::default();
    for _ in 0..MAX_GROUPS {
        let wakes = wakes(threads);
        let groups = by_name.values().filter_map(|members| Group::of(threads, members, &wakes));
        let plans = groups.filter_map(|group| Plan::of(threads, group));
        let Some(plan) = plans.max_by_key(|plan| plan.hidden) else { break };
        all.clients += plan.group.clients.len();
        all.servers.extend(&plan.group.servers);
        plan.carry_out(threads, &mut all.semaphores);
    }
    all
}

impl Group {
    /// Those of `members` that serve clients, if they may be any of theirs.
    fn of(threads: &BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>, wakes: &Wakes) -> Option<Group> {
        let asks: BTreeSet<Pid> = wakes.keys().filter(|(_, to)| members.contains(to)).map(|p| p.0).collect();
        let answered: BTreeSet<Pid> = wakes.keys().filter(|(by, _)| members.contains(by)).map(|p| p.1).collect();
        let clients: BTreeSet<Pid> = asks.intersection(&answered).copied().collect();
        let asked = |pid: &Pid| clients.iter().any(|c| wakes.contains_key(&(*c, *pid)));
        let answers = |pid: &Pid| clients.iter().any(|c| wakes.contains_key(&(*pid, *c)));
        let servers: BTreeSet<Pid> = members.iter().copied().filter(|pid| asked(pid) && answers(pid)).collect();
        if servers.len() < 2 || clients.len() < 2 || !servers.is_disjoint(&clients) {
            return None;
        }
        let mut woke: BTreeMap<Pid, usize> = BTreeMap::new();
        wakes
            .iter()
            .filter(|((_, to), _)| servers.contains(to))
            .for_each(|((by, _), n)| *woke.entry(*by).or_default() += n);
        let all: usize = woke.values().sum();
        woke.retain(|pid, _| clients.contains(pid));
        let by_clients: usize = woke.values().sum();
        woke.retain(|_, n| *n >= MIN_HIDDEN * servers.len());
        let prefer = woke.keys().filter(|pid| !wakes_any(&threads[pid].steps, &servers, false)).count();
        let few = prefer * REFUSED_OF <= woke.len() && (all - by_clients) * REFUSED_OF <= all;
        few.then_some(Group { servers, clients })
    }

    fn is_asked(&self, step: &Step) -> bool {
        step.wakes().is_some_and(|to| self.servers.contains(&to))
    }

    fn is_answered(&self, step: &Step) -> bool {
        step.woken_by().is_some_and(|by| self.servers.contains(&by))
    }

    fn answers(&self, step: &Step) -> bool {
        matches!(step, Step::Put(_)) || step.wakes().is_some_and(|to| self.clients.contains(&to))
    }

    fn takes(&self, step: &Step) -> bool {
        step.woken_by().is_some_and(|by| self.clients.contains(&by))
    }

    /// By the first server and the first client.
    fn queue(&self, of: fn(Pid, Pid) -> Queue) -> Queue {
        let first = |set: &BTreeSet<Pid>| *set.first().expect("a group has servers and clients");
        of(first(&self.servers), first(&self.clients))
    }

    /// What a client asked for. `retries`: who waits again after next to no work was woken in vain.
    fn visits(&self, steps: &[Step], retries: bool) -> Vec<Visit> {
        let mut all: Vec<Visit> = Vec::new();
        // Since the last step that is looked at; the last one has asked and not waited yet, or has just been answered.
        let (mut from, mut units, mut open, mut answered) = (0, 0, false, false);
        for (i, step) in steps.iter().enumerate() {
            let (asks, is_answer) = (self.is_asked(step), self.is_answered(step));
            units += step.units();
            if !asks && !step.waits() {
                continue;
            }
            match all.last_mut() {
                Some(visit) if open && is_answer => (visit.wait, visit.end) = (Some(i), i),
                Some(visit) if answered && is_answer && retries && units <= LITTLE => {
                    (visit.wait, visit.end, visit.vain) = (Some(i), i, visit.vain + 1);
                }
                last => {
                    if let Some(visit) = last.filter(|_| open) {
                        visit.end = i;
                    }
                    let visit = Visit { from, end: i, ask: asks.then_some(i), wait: is_answer.then_some(i), vain: 0 };
                    all.extend((asks || is_answer).then_some(visit));
                }
            }
            (from, units, open, answered) = (i + 1, 0, asks, is_answer);
        }
        // What was asked last may be answered after the end.
        all.pop_if(|_| open);
        all
    }

    /// The same with those of rounds between two waits for others that show nothing of it, if a round has one visit as a rule.
    fn with_unseen(&self, steps: &[Step], seen: &[Visit]) -> Vec<Visit> {
        let own: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].waits() && !self.is_answered(&steps[*i])).collect();
        let rounds: Vec<(usize, usize)> = own.windows(2).map(|w| (w[0] + 1, w[1])).collect();
        let visits = |(from, end): (usize, usize)| {
            seen.partition_point(|v| v.from < end) - seen.partition_point(|v| v.from < from)
        };
        let work = |(from, end): (usize, usize)| work(&steps[from..end]);
        let mut usual: Vec<u64> = rounds.iter().filter(|r| visits(**r) == 1).map(|r| work(*r)).collect();
        let mut all = seen.to_vec();
        if 2 * usual.len() > rounds.len()
            && let Some(usual) = median(&mut usual)
        {
            let unseen = |r: &&(usize, usize)| visits(**r) == 0 && work(**r) + usual / PART >= usual;
            let visit = |&(from, end): &(usize, usize)| Visit { from, end, ..Visit::default() };
            all.extend(rounds.iter().filter(unseen).map(visit));
            all.sort_by_key(|v| v.from);
        }
        all
    }

    /// The steps of a client that puts its requests into the queue.
    fn asking(&self, steps: &mut Vec<Step>, visits: &[Visit]) {
        let [requests, replies] = [Queue::Requests, Queue::Replies].map(|of| self.queue(of));
        let between = |from: usize, end: Option<usize>| Some(work(&steps[from..end?]));
        let usual = |of: &dyn Fn(&Visit) -> Option<u64>| {
            median(&mut visits.iter().filter_map(of).collect::<Vec<u64>>()).unwrap_or(0)
        };
        let before = usual(&|v| between(v.from, v.ask));
        let until = usual(&|v| between(v.ask?, v.wait.filter(|_| v.vain == 0)));
        let mut inserts: Vec<(Place, Step)> = Vec::new();
        for v in visits {
            let ask = match (v.ask, v.wait) {
                (Some(ask), _) => (ask, 0),
                // With work before its wait as usual.
                (None, Some(wait)) => {
                    let first = (v.from..=wait).find(|i| self.is_answered(&steps[*i])).unwrap_or(wait);
                    let all = work(&steps[v.from..first]);
                    place_after(steps, v.from, first, all.saturating_sub(until))
                }
                (None, None) => place_after(steps, v.from, v.end, before),
            };
            let reply = match (v.wait, v.ask) {
                (Some(wait), _) => (wait, 0),
                (None, Some(ask)) => place_after(steps, ask, v.end, until),
                (None, None) => place_after(steps, v.from, v.end, before + until),
            };
            inserts.extend([(ask, Step::Put(requests)), (reply, Step::Get(replies))]);
        }
        insert(steps, inserts);
        steps.retain(|s| !self.is_asked(s) && !self.is_answered(s));
    }

    /// The steps of servers in which each request begins with a token, where all are the same work, and an answer ends it.
    /// And how often they were woken in vain.
    fn cut(&self, threads: &BTreeMap<Pid, Thread>) -> Option<(BTreeMap<Pid, Vec<Step>>, usize)> {
        let is_plain = |s: &Step| !s.waits() || self.takes(s);
        if !self.servers.iter().all(|pid| threads[pid].steps.iter().all(is_plain)) {
            return None;
        }
        let stretches: Vec<u64> = self.servers.iter().flat_map(|pid| stretches(&threads[pid].steps)).collect();
        let unit = unit(&stretches)?;
        let cut = |pid: &Pid| (*pid, self.answering(taking(&threads[pid].steps, unit, true), unit));
        let vain = stretches.iter().filter(|work| requests(**work, unit) == 0).count();
        Some((self.servers.iter().map(cut).collect(), vain))
    }

    /// Puts answers that nobody waited for in.
    fn answering(&self, mut steps: Vec<Step>, unit: u64) -> Vec<Step> {
        let tokens: Vec<usize> = (0..steps.len()).filter(|i| self.takes(&steps[*i])).collect();
        let ends = tokens.iter().skip(1).copied().chain([steps.len()]);
        let jobs: Vec<(usize, usize, Option<usize>)> = tokens
            .iter()
            .zip(ends)
            .map(|(&token, end)| (token, end, (token..end).find(|i| self.answers(&steps[*i]))))
            .collect();
        let until = |(token, _, answer): &(usize, usize, Option<usize>)| Some(work(&steps[*token..(*answer)?]));
        let usual = median(&mut jobs.iter().filter_map(until).collect::<Vec<u64>>()).unwrap_or(unit);
        let is_done =
            |(token, end, _): &&(usize, usize, Option<usize>)| work(&steps[*token..*end]) + unit / PART >= usual;
        let unseen = jobs.iter().filter(|j| j.2.is_none()).filter(is_done);
        let put = Step::Put(self.queue(Queue::Replies));
        let inserts = unseen.map(|(token, end, _)| (place_after(&steps, *token, *end, usual), put.clone())).collect();
        insert(&mut steps, inserts);
        steps
    }

    /// The steps of a server that takes a request from the queue before each of its answers, and how often it was woken in vain.
    fn serving(&self, steps: &[Step]) -> (Vec<Step>, usize) {
        let [requests, replies] = [Queue::Requests, Queue::Replies].map(|of| self.queue(of));
        let answers: Vec<usize> = (0..steps.len()).filter(|i| self.answers(&steps[*i])).collect();
        let begins = [0].into_iter().chain(answers.iter().map(|i| i + 1));
        // From one answer to the next, and which of these steps takes the request.
        let cycles: Vec<(&[Step], Option<usize>)> = begins
            .zip(&answers)
            .map(|(begin, &end)| &steps[begin..end])
            .map(|cycle| (cycle, cycle.iter().rposition(|s| self.takes(s))))
            .collect();
        let before = |(cycle, take): &(&[Step], Option<usize>)| {
            let until = &cycle[..(*take)?];
            let last = until.iter().rposition(Step::waits).map_or(0, |i| i + 1);
            Some((until.iter().filter(|s| s.waits()).count(), work(&until[last..])))
        };
        let usual = usual_distance(&cycles.iter().filter_map(before).collect::<Vec<Distance>>());
        let mut out = Vec::with_capacity(steps.len() + 8);
        let mut vain = 0;
        for (cycle, take) in cycles {
            let place = take.map_or_else(|| usual_place(cycle, usual), |i| (i, 0));
            let mut steps = cycle.to_vec();
            insert(&mut steps, vec![(place, Step::Get(requests))]);
            vain += steps.iter().filter(|s| self.takes(s)).count() - usize::from(take.is_some());
            out.extend(steps.into_iter().filter(|s| !self.takes(s)));
            out.push(Step::Put(replies));
        }
        // What was taken and not answered before the end would be missing in the next round.
        let rest = &steps[answers.last().map_or(0, |i| i + 1)..];
        out.extend(rest.iter().filter(|s| !self.takes(s)).cloned());
        (out, vain)
    }
}

impl Plan {
    /// How a group deals with each other, if it shares a queue.
    fn of(threads: &BTreeMap<Pid, Thread>, group: Group) -> Option<Plan> {
        let of_servers = || group.servers.iter().map(|pid| (*pid, threads[pid].steps.clone()));
        let (steps, vain) = group.cut(threads).unwrap_or_else(|| (of_servers().collect(), 0));
        let taken = steps.values().flatten().filter(|s| group.answers(s)).count();
        let visits = |(retries, unseen): (bool, bool)| -> BTreeMap<Pid, Vec<Visit>> {
            let of = |pid: &Pid| {
                let steps = &threads[pid].steps;
                let seen = group.visits(steps, retries);
                (*pid, if unseen { group.with_unseen(steps, &seen) } else { seen })
            };
            group.clients.iter().map(of).collect()
        };
        let off = |visits: &BTreeMap<Pid, Vec<Visit>>| visits.values().map(Vec::len).sum::<usize>().abs_diff(taken);
        let ways = [(true, true), (true, false), (false, true), (false, false)];
        let visits = ways.map(visits).into_iter().min_by_key(off)?;
        let open = group.servers.len() + group.clients.len();
        if taken < MIN_TAKEN || off(&visits) > open.max(taken / AGREE_OF) {
            return None;
        }
        let vain = [vain, visits.values().flatten().map(|v| v.vain).sum()];
        let hidden = visits.values().flatten().filter(|v| v.ask.is_none()).count();
        if (taken - hidden.min(taken)) * SEEN_OF < taken {
            return None;
        }
        let plan = Plan { group, visits, steps, hidden, vain };
        (plan.one_by_one(threads) && plan.is_shared(threads)).then_some(plan)
    }

    /// Does nobody ask, or answer, for several at once?
    fn one_by_one(&self, threads: &BTreeMap<Pid, Thread>) -> bool {
        let several = |pid: &Pid, is: &dyn Fn(&Step) -> bool| {
            let steps = &threads[pid].steps;
            let all: Vec<usize> = (0..steps.len()).filter(|i| is(&steps[*i])).collect();
            let at_once = |w: &&[usize]| {
                let between = &steps[w[0] + 1..w[1]];
                work(between) <= LITTLE && !between.iter().any(Step::waits)
            };
            (all.windows(2).filter(at_once).count(), all.len())
        };
        let few = |all: Vec<(usize, usize)>| {
            let sum = all.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            sum.0 * REFUSED_OF <= sum.1
        };
        let Group { servers, clients } = &self.group;
        few(clients.iter().map(|pid| several(pid, &|s| self.group.is_asked(s))).collect())
            && few(servers.iter().map(|pid| several(pid, &|s| self.group.answers(s))).collect())
    }

    /// Are all servers busy where a client has to wait although it woke none of them? Where that tells nothing, are they woken in turn?
    fn is_shared(&self, threads: &BTreeMap<Pid, Thread>) -> bool {
        let Group { servers, .. } = &self.group;
        let waits: Vec<Vec<(u64, u64)>> = servers.iter().map(|pid| token_waits(&threads[pid].steps)).collect();
        let (mut hidden, mut refused) = (0, 0);
        for (pid, visits) in &self.visits {
            let steps = &threads[pid].steps;
            for v in visits.iter().filter(|v| v.ask.is_none()) {
                let Some(wait) = v.wait else { continue };
                let first = steps[v.from..=wait].iter().find(|s| self.group.is_answered(s));
                let since = first.and_then(Step::blocked_since).unwrap_or(0);
                hidden += 1;
                refused += usize::from(waits.iter().any(|of| within(of, since, |wait| *wait).is_some()));
            }
        }
        refused * REFUSED_OF <= hidden && (hidden >= MIN_HIDDEN || takes_turns(threads, servers))
    }

    fn carry_out(self, threads: &mut BTreeMap<Pid, Thread>, semaphores: &mut BTreeSet<Queue>) {
        let mut vain = self.vain;
        let is_other = |pid: &Pid, s: &Step| match s {
            Step::Post { to, .. } => self.group.servers.contains(to) && !self.group.clients.contains(pid),
            Step::Token { by, .. } => self.group.servers.contains(pid) && !self.group.clients.contains(by),
            _ => false,
        };
        threads.iter_mut().for_each(|(pid, t)| t.steps.retain(|s| !is_other(pid, s)));
        for (pid, visits) in &self.visits {
            self.group.asking(&mut threads.get_mut(pid).expect("a client is a thread").steps, visits);
        }
        for (pid, steps) in &self.steps {
            let (mut steps, of_it) = self.group.serving(steps);
            steps.retain(|s| !is_other(pid, s));
            threads.get_mut(pid).expect("a server is a thread").steps = steps;
            vain[0] += of_it;
        }
        let queues = [Queue::Requests, Queue::Replies].map(|of| self.group.queue(of));
        let asked: usize = self.visits.values().map(Vec::len).sum();
        let often = queues.into_iter().zip(vain).filter(|(_, vain)| vain * VAIN_OF > asked);
        semaphores.extend(often.map(|(queue, _)| queue));
    }
}

/// Before which step of a server, since its last answer, it usually takes a request: behind so many other waits, and so much work.
fn usual_place(cycle: &[Step], (waits, units): Distance) -> Place {
    let mut begins = [0].into_iter().chain((0..cycle.len()).filter(|i| cycle[*i].waits()).map(|i| i + 1));
    let begin = begins.nth(waits).unwrap_or(cycle.len());
    let end = begins.next().map_or(cycle.len(), |next| next - 1);
    place_after(cycle, begin, end, units)
}

#[cfg(test)]
mod tests {
    use super::super::kin::of_names;
    use super::*;

    const SERVERS: [Pid; 2] = [Pid(1), Pid(2)];
    const US: u64 = 1_000;

    /// Who works how long, µs.
    #[derive(Clone, Copy)]
    struct World {
        servers: u32,
        clients: u32,
        /// Between an answer and the next request, at most.
        pause: u64,
        job: fn(u64) -> u64,
        /// Each server has a queue of its own, and a request goes to any of them.
        private: bool,
    }

    const WORLD: World = World { servers: 2, clients: 5, pause: 900, job: |_| 300, private: false };

    fn by_chance(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n) >> 33
    }

    /// Clients that ask, wait for the answer and rest, and servers; how many requests there are.
    fn threads(w: World) -> (BTreeMap<Pid, Thread>, usize) {
        let servers: Vec<Pid> = (1..=w.servers).map(Pid).collect();
        let clients: Vec<Pid> = (0..w.clients).map(|i| Pid(10 + i)).collect();
        let mut all: BTreeMap<Pid, Thread> =
            servers.iter().chain(&clients).map(|pid| (*pid, Thread::new(120))).collect();
        let mut push = |pid: Pid, steps: &[Step]| all.get_mut(&pid).unwrap().steps.extend_from_slice(steps);
        // When each client asks next, whom each server serves until when, who waits for which of them, and which of these sleep since when.
        let mut asks: BTreeMap<(u64, Pid), ()> = clients.iter().map(|c| ((u64::from(c.0) * 37 * US, *c), ())).collect();
        let mut busy: BTreeMap<(u64, Pid), Pid> = BTreeMap::new();
        let mut queues: Vec<Vec<Pid>> = vec![Vec::new(); servers.len()];
        let mut idle: Vec<(Pid, u64)> = servers.iter().map(|s| (*s, 0)).collect();
        let mut since: BTreeMap<Pid, u64> = BTreeMap::new();
        let (mut nth, mut served) = (0, 0);
        while nth < 600 || !busy.is_empty() {
            let asked = asks.first_key_value().map(|(k, _)| *k).filter(|_| nth < 600);
            let done = busy.first_key_value().map(|(k, _)| *k);
            if let Some((at, client)) = asked.filter(|a| done.is_none_or(|d| *a < d)) {
                asks.remove(&(at, client));
                nth += 1;
                let which = if w.private { by_chance(nth) as usize % servers.len() } else { 0 };
                let free = idle.iter().position(|(s, _)| !w.private || *s == servers[which]);
                since.insert(client, at + 1);
                match free.map(|i| idle.remove(i)) {
                    Some((server, slept)) => {
                        push(client, &[Step::Post { to: server, at }]);
                        push(server, &[Step::Token { by: client, since: slept, at }]);
                        busy.insert((at + (w.job)(nth) * US, server), client);
                    }
                    None => queues[which].push(client),
                }
                continue;
            }
            let Some((at, server)) = done else { break };
            let client = busy.remove(&(at, server)).expect("it is served");
            served += 1;
            let pause = 300 + by_chance(served) % w.pause;
            push(server, &[Step::Work((w.job)(served) << 20), Step::Post { to: client, at }]);
            let rest = Step::Sleep { ns: pause * US, since: at + 100 * US };
            let token = Step::Token { by: server, since: since[&client], at };
            push(client, &[token, Step::Work(100 << 20), rest, Step::Work(200 << 20)]);
            asks.insert((at + (300 + pause) * US, client), ());
            let queue = &mut queues[if w.private { (server.0 - 1) as usize } else { 0 }];
            match queue.is_empty() {
                false => _ = busy.insert((at + (w.job)(served + 1) * US, server), queue.remove(0)),
                true => idle.push((server, at)),
            }
        }
        (all, served as usize)
    }

    fn family(pid: Pid) -> &'static str {
        if pid < Pid(10) { "server" } else { "client" }
    }

    fn count(threads: &BTreeMap<Pid, Thread>, of: &[Step]) -> usize {
        threads.values().flat_map(|t| &t.steps).filter(|s| of.contains(s)).count()
    }

    #[test]
    fn whoever_is_free_takes_it() {
        for job in [|_| 300, |n| 100 + by_chance(n) % 400] {
            let (mut all, served) = threads(World { job, ..WORLD });
            let hidden = served - count_posts(&all);
            let families = of_names(&all, family);
            let found = share(&mut all, &families, &BTreeMap::new());
            assert!(hidden > 50 && found.clients == 5 && found.servers == SERVERS.into(), "{hidden}");
            assert_eq!(found.semaphores, BTreeSet::new(), "nobody is woken in vain");
            let [requests, replies] = [Queue::Requests, Queue::Replies].map(|of| of(SERVERS[0], Pid(10)));
            for step in [Step::Put(requests), Step::Get(requests), Step::Put(replies), Step::Get(replies)] {
                assert_eq!(count(&all, std::slice::from_ref(&step)), served, "{step:?}");
            }
            let left = |s: &Step| s.with().is_some();
            assert!(!all.values().any(|t| t.steps.iter().any(left)));
            // Each in its order: the work of a request is between it and its answer.
            for pid in SERVERS {
                let in_order = |job: &[Step]| {
                    job[0] == Step::Get(requests) && matches!(job[1], Step::Work(_)) && job[2] == Step::Put(replies)
                };
                assert!(all[&pid].steps.chunks(3).all(in_order), "{:?}", &all[&pid].steps[..12]);
            }
            let client = &all[&Pid(10)].steps;
            assert!(client.windows(2).all(|w| (w[0] == Step::Put(requests)) == (w[1] == Step::Get(replies))));
        }
    }

    fn count_posts(threads: &BTreeMap<Pid, Thread>) -> usize {
        let steps = threads.iter().filter(|(pid, _)| family(**pid) == "client").flat_map(|(_, t)| &t.steps);
        steps.filter(|s| matches!(s, Step::Post { .. })).count()
    }

    #[test]
    fn each_has_its_own() {
        let is_shared = |w: World| {
            let (mut all, _) = threads(w);
            let before: Vec<Vec<Step>> = all.values().map(|t| t.steps.clone()).collect();
            let families = of_names(&all, family);
            let found = share(&mut all, &families, &BTreeMap::new());
            assert_eq!(found.clients > 0, all.values().zip(&before).any(|(t, before)| t.steps != *before));
            found.clients > 0
        };
        assert!(is_shared(WORLD));
        assert!(!is_shared(World { private: true, ..WORLD }), "others wait when one is asked that is busy");
        let many = World { servers: 6, job: |n| 100 + by_chance(n) % 400, ..WORLD };
        assert!(is_shared(many), "somebody always waits: who has done so longest is woken");
        assert!(!is_shared(World { private: true, ..many }));
    }

    /// Of a semaphore: an answer for which another was woken, which waits again, and a round of which nothing is seen.
    #[test]
    fn who_is_quicker() {
        let group = Group { servers: SERVERS.into(), clients: [Pid(10), Pid(11)].into() };
        let (requests, replies) = (group.queue(Queue::Requests), group.queue(Queue::Replies));
        let post = Step::Post { to: SERVERS[0], at: 1 };
        let token = |at| Step::Token { by: SERVERS[1], since: at - 1, at };
        let sleep = |since| Step::Sleep { ns: 9, since };
        let work = |us: u64| Step::Work(us << 20);
        let mut steps = [
            vec![work(200), post.clone(), token(5), token(7), work(1), token(9), work(100), sleep(10)],
            vec![work(200), post.clone(), token(20), work(100), sleep(30)],
            vec![work(300), sleep(50)],
            vec![work(200), post, work(100), sleep(60)],
            vec![work(200), token(70), work(100), sleep(80)],
            vec![work(20), sleep(90)],
        ]
        .concat();
        let visits = group.visits(&steps, true);
        assert_eq!((visits.len(), visits.iter().map(|v| v.vain).sum::<usize>()), (4, 2));
        assert_eq!(group.visits(&steps, false).len(), 6, "or they are requests");
        let visits = group.with_unseen(&steps, &visits);
        assert_eq!(visits.len(), 5, "20 µs are no round");
        group.asking(&mut steps, &visits);
        let (ask, reply) = (Step::Put(requests), Step::Get(replies));
        let round = |since| vec![work(200), ask.clone(), reply.clone(), work(100), sleep(since)];
        let first = vec![work(200), ask.clone(), work(1), reply.clone(), work(100), sleep(10)];
        let last = vec![work(20), sleep(90)];
        assert_eq!(steps, [first, round(30), round(50), round(60), round(80), last].concat());
    }

    #[test]
    fn where_a_server_takes_what_it_was_not_woken_for() {
        let group = Group { servers: SERVERS.into(), clients: [Pid(10), Pid(11)].into() };
        let (take, answer) = (Step::Get(group.queue(Queue::Requests)), Step::Put(group.queue(Queue::Replies)));
        let token = |at| Step::Token { by: Pid(10), since: at - 1, at };
        let post = Step::Post { to: Pid(11), at: 9 };
        let disk = |since| Step::Device { ns: 5, since };
        let work = |us: u64| Step::Work(us << 20);
        // It writes a log behind each answer.
        let steps = [
            vec![token(5), work(30), disk(6), work(9), post.clone()],
            vec![work(7), token(20), work(1), token(22), work(40), disk(24), work(8), post.clone()],
            vec![work(27), disk(30), work(9), post.clone()],
            vec![work(7), token(40), work(5), post],
            vec![work(7), token(50), work(3)],
        ]
        .concat();
        let (steps, vain) = group.serving(&steps);
        assert_eq!(vain, 1);
        let expect = [
            vec![take.clone(), work(30), disk(6), work(9), answer.clone()],
            vec![work(7), work(1), take.clone(), work(40), disk(24), work(8), answer.clone()],
            vec![work(7), take.clone(), work(20), disk(30), work(9), answer.clone()],
            vec![work(7), take, work(5), answer],
            vec![work(7), work(3)],
        ]
        .concat();
        assert_eq!(steps, expect);
    }
}
