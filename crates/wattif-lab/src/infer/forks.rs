//! Parents that wait for all children of a round before they fork again: `make -j`.
//!
//! A child that ends while its parent computes, or has been woken by another one already, leaves no wake-up. Under another kernel the parent may be
//! waiting by then, or has to: which child is the last is chance. So where a parent waits for children, and hardly ever forks the next
//! ones before all have ended, nor goes on waiting where one of them ends, those whose wake-ups could not be seen tell it, too: at
//! their ends, and it takes that before its last wait of the round.

use super::steps::{STRAY_OF, Step};
use super::thread::{State, Thread};
use std::collections::BTreeMap;
use wattif_model::Pid;

/// Fewer rounds, or wake-ups that are seen, tell nothing.
const MIN_ROUNDS: usize = 8;

/// From the first fork after a wait for children to the next such fork.
#[derive(Default)]
struct Round {
    children: Vec<Pid>,
    /// The parent's waits for these: the step, since when and until when.
    waits: Vec<(usize, u64, u64)>,
    /// When it began.
    born: u64,
}

/// Puts in what children told that was not seen, and says how many did.
pub(super) fn reunite(threads: &mut BTreeMap<Pid, Thread>) -> usize {
    let mut hidden = 0;
    let parents: Vec<Pid> = threads.iter().filter(|(_, t)| forks(t) >= MIN_ROUNDS).map(|(pid, _)| *pid).collect();
    for parent in parents {
        let rounds = rounds(parent, threads);
        let silent = silent(parent, &rounds, threads).unwrap_or_default();
        hidden += silent.len();
        // From the last on: steps before it stay where they are.
        for (child, before, at) in silent.into_iter().rev() {
            if let Some(t) = threads.get_mut(&parent) {
                t.steps.insert(before, Step::Token { by: child, since: at, at });
            }
            if let Some(t) = threads.get_mut(&child) {
                let end = t.steps.iter().rposition(|s| *s == Step::Exit).unwrap_or(t.steps.len());
                t.steps.insert(end, Step::Post { to: parent, at });
            }
        }
    }
    hidden
}

fn forks(t: &Thread) -> usize {
    t.steps.iter().filter(|s| matches!(s, Step::Fork(_))).count()
}

fn rounds(parent: Pid, threads: &BTreeMap<Pid, Thread>) -> Vec<Round> {
    let is_child = |pid: &Pid| threads.get(pid).is_some_and(|t| t.parent == Some(parent));
    let mut rounds: Vec<Round> = Vec::new();
    for (i, step) in threads[&parent].steps.iter().enumerate() {
        match *step {
            Step::Fork(child) => {
                if rounds.last().is_none_or(|round| !round.waits.is_empty()) {
                    let born = threads.get(&child).map_or(0, |t| t.born);
                    rounds.push(Round { born, ..Round::default() });
                }
                rounds.last_mut().expect("one was begun").children.push(child);
            }
            Step::Token { by, since, at } if is_child(&by) => {
                if let Some(round) = rounds.last_mut() {
                    round.waits.push((i, since, at));
                }
            }
            _ => {}
        }
    }
    rounds
}

/// Children whose wake-ups were not seen, the parent's waits before which they belong, and when they ended, in the order of those; if it waits
/// for all.
fn silent(parent: Pid, rounds: &[Round], threads: &BTreeMap<Pid, Thread>) -> Option<Vec<(Pid, usize, u64)>> {
    let (mut all, mut told, mut stray) = (0, 0, 0);
    let mut silent = Vec::new();
    // What the last one waits for is not all in the trace.
    for (round, next) in rounds.iter().zip(rounds.iter().skip(1)) {
        let &(last, ..) = round.waits.last()?;
        for child in &round.children {
            let t = threads.get(child)?;
            let tells = t.steps.iter().any(|s| s.wakes() == Some(parent));
            all += 1;
            let waited = |at: u64| round.waits.iter().any(|(_, since, until)| (*since..*until).contains(&at));
            match t.state {
                _ if tells => told += 1,
                State::Dead { since } if since < next.born && !waited(since) => silent.push((*child, last, since)),
                // It lives on when the next round begins, or ends without a wake-up while its parent waits.
                _ => stray += 1,
            }
        }
    }
    let waits_for_all = rounds.len() > MIN_ROUNDS && told >= MIN_ROUNDS && stray * STRAY_OF <= all;
    waits_for_all.then_some(silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PARENT: Pid = Pid(1);

    /// A parent that forks two children every 20 ms and waits for the second one: when the first ends, ms after both were forked.
    fn threads(rounds: u32, ends: impl Fn(u32) -> u64) -> BTreeMap<Pid, Thread> {
        let (mut all, mut parent) = (BTreeMap::new(), Thread::new(120));
        for i in 0..rounds {
            let (first, second, born) = (Pid(10 + 2 * i), Pid(11 + 2 * i), u64::from(i) * 20 * MS);
            let end = born + 10 * MS;
            for (pid, at) in [(first, born + ends(i) * MS), (second, end)] {
                let mut t = Thread::new(120);
                (t.parent, t.born, t.state) = (Some(PARENT), born, State::Dead { since: at });
                t.steps = vec![Step::Work(at - born), Step::Exit];
                all.insert(pid, t);
            }
            let told = Step::Post { to: PARENT, at: end };
            all.get_mut(&second).expect("put in").steps.insert(1, told);
            let waits = Step::Token { by: second, since: born + 5 * MS, at: end };
            parent.steps.extend([Step::Fork(first), Step::Fork(second), Step::Work(5), waits, Step::Work(1)]);
        }
        all.insert(PARENT, parent);
        all
    }

    #[test]
    fn who_ends_while_its_parent_computes() {
        let mut all = threads(12, |i| if i % 2 == 0 { 4 } else { 11 });
        assert_eq!(reunite(&mut all), 11, "the last round is not over");
        let tokens = |pid: Pid| {
            let of = |s: &&Step| s.woken_by() == Some(pid);
            all[&PARENT].steps.iter().filter(of).count()
        };
        for pid in (10..32).map(Pid) {
            let posts = all[&pid].steps.iter().filter(|s| matches!(s, Step::Post { to: PARENT, .. })).count();
            assert_eq!((posts, tokens(pid), all[&pid].steps.last()), (1, 1, Some(&Step::Exit)));
        }
        let round = &all[&PARENT].steps[6..12];
        assert!(matches!(round[..3], [Step::Fork(Pid(12)), Step::Fork(Pid(13)), Step::Work(5)]), "{round:?}");
        assert!(matches!(round[3..5], [Step::Token { by: Pid(12), .. }, Step::Token { by: Pid(13), .. }]), "{round:?}");
    }

    #[test]
    fn who_is_not_waited_for() {
        assert_eq!(reunite(&mut threads(12, |_| 7)), 0, "its parent was blocked then");
        assert_eq!(reunite(&mut threads(12, |_| 30)), 0, "it lived on");
        assert_eq!(reunite(&mut threads(8, |_| 4)), 0, "seven times may be chance");
    }
}
