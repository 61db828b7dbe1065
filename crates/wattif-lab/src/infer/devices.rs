//! Devices that serve a few requests at once, and let others wait.
//!
//! After `D` a trace shows how long a thread waited for a device: until its request was served, and while it was. Taken for the service alone,
//! a device serves all at once, however many ask, and under a kernel that lets threads ask sooner they get all of it sooner.
//!
//! A device of N servers begins with a request when it comes, or else when one of N others is done, in the order in which they came. So for
//! each N it is known when each service began and how long it took. Those of one who was served at once are as long as its wait, which
//! those of too few servers do not explain: requests end that have not begun. With a server too many some seem to begin too early, by the
//! time until another one was done, and their lengths vary by that, too: of all numbers that leave hardly any request unexplained the one is
//! right with which services are most alike.
//!
//! That there is a queue at all shows in the same times. Of a device that serves all at once, waits are as long however many others there
//! are: what is taken for a time in the queue tells nothing of them. Where it is one, they are longer by as much.
//!
//! Threads of one kind share a device. Those of other kinds may use it, too, and a real one may change the order of
//! requests: neither is looked for.

use super::kin::Kinds;
use super::steps::{STRAY_OF, Step, median};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wattif_model::Pid;

/// Fewer requests that have to wait tell nothing; nor do those that would have to for a device of more servers.
const MIN_QUEUED: usize = 50;
const MAX_SERVERS: usize = 64;
/// One request in so many may end before it has begun.
const UNEXPLAINED_OF: usize = 2 * STRAY_OF;
/// Waits are longer by so many quarters of the time in the queue.
const LONGER_QUARTERS: i128 = 3;
/// That is known to one part in so many, squared.
const EXACT: i128 = 8 * 8;

/// Of this kind: how many it serves at once.
pub(super) type Devices = Vec<(String, u32)>;

/// From when until when a request was there.
type Wait = (u64, u64);

/// Finds the devices for which threads wait in a queue, and takes that out of the time for which these serve them.
pub(super) fn share(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> Devices {
    let mut devices = Devices::new();
    for kind in threads.keys().map(|pid| &kinds[pid]).collect::<BTreeSet<_>>() {
        let of_kind = || threads.iter().filter(|(pid, _)| kinds[pid] == *kind);
        let mut waits: Vec<Wait> = of_kind().flat_map(|(_, t)| t.steps.iter().filter_map(wait)).collect();
        waits.sort_unstable();
        let Some((servers, begun)) = device(&waits) else { continue };
        let begun: BTreeMap<Wait, u64> = waits.into_iter().zip(begun).collect();
        for (_, t) in threads.iter_mut().filter(|(pid, _)| kinds[pid] == *kind) {
            for step in &mut t.steps {
                if let Some((since, until)) = wait(step) {
                    let begun = begun[&(since, until)];
                    let device = devices.len() as u32;
                    *step = Step::Served { device, ns: (until - begun).max(1), queued: begun - since, since };
                }
            }
        }
        devices.push((kind.clone(), servers as u32));
    }
    devices
}

fn wait(step: &Step) -> Option<Wait> {
    if let Step::Device { ns, since } = *step { Some((since, since + ns)) } else { None }
}

/// How many it serves at once, and when it began with each of these, if they tell.
fn device(waits: &[Wait]) -> Option<(usize, Vec<u64>)> {
    if waits.len() < MIN_QUEUED {
        return None;
    }
    // Who is done makes room for who comes at the same time.
    let ends = waits.iter().enumerate().map(|(i, w)| (w.1, false, i));
    let mut events: Vec<(u64, bool, usize)> =
        waits.iter().enumerate().map(|(i, w)| (w.0, true, i)).chain(ends).collect();
    events.sort_unstable();
    let mut best: Option<(u64, usize, Vec<u64>)> = None;
    for servers in 1..=MAX_SERVERS {
        let Some(Served { begun, queued }) = serve(waits.len(), &events, servers) else { continue };
        if queued < MIN_QUEUED {
            break;
        }
        let varies = unlike(waits, &begun);
        if best.as_ref().is_none_or(|(least, ..)| varies < *least) {
            best = Some((varies, servers, begun));
        }
    }
    let (_, servers, begun) = best?;
    longer_by_queue(waits, &begun).then_some((servers, begun))
}

/// What a device of so many servers did.
struct Served {
    /// When it began with each, or it was done before.
    begun: Vec<u64>,
    queued: usize,
}

/// Nothing, if too many end before they have begun.
fn serve(n: usize, events: &[(u64, bool, usize)], servers: usize) -> Option<Served> {
    let mut begun: Vec<Option<u64>> = vec![None; n];
    let (mut queue, mut busy) = (VecDeque::new(), 0);
    let (mut unexplained, mut queued) = (0, 0);
    for &(at, comes, i) in events {
        if comes && busy < servers {
            (busy, begun[i]) = (busy + 1, Some(at));
        } else if comes {
            queue.push_back(i);
            queued += 1;
        } else if begun[i].is_none() {
            begun[i] = Some(at);
            unexplained += 1;
            if unexplained * UNEXPLAINED_OF > n {
                return None;
            }
            queue.retain(|waits| *waits != i);
        } else if let Some(next) = queue.pop_front() {
            begun[next] = Some(at);
        } else {
            busy -= 1;
        }
    }
    Some(Served { begun: begun.into_iter().flatten().collect(), queued })
}

/// By how much services differ from the middle one, all of them. Few long ones say nothing.
fn unlike(waits: &[Wait], begun: &[u64]) -> u64 {
    let mut served: Vec<u64> = waits.iter().zip(begun).map(|(w, begun)| w.1 - begun).collect();
    let usual = median(&mut served).unwrap_or(0);
    served.into_iter().map(|ns| ns.abs_diff(usual)).fold(0, u64::saturating_add)
}

/// Do waits become longer by the time in the queue, and is that known? By the slope of a line through them, and how exact that is.
fn longer_by_queue(waits: &[Wait], begun: &[u64]) -> bool {
    // About µs, of an hour at most: the squares of so many, times how many there are, are numbers.
    let time = |ns: u64| i128::from((ns >> 10).min(1 << 32));
    let times = || waits.iter().zip(begun).map(|(w, begun)| (time(w.1 - begun), time(begun - w.0)));
    let n = waits.len() as i128;
    let sums = times().fold((0, 0), |sum, (served, queued)| (sum.0 + served, sum.1 + queued));
    let squares = times().fold((0, 0, 0), |sum, (s, q)| (sum.0 + s * s, sum.1 + q * q, sum.2 + s * q));
    let served = n * squares.0 - sums.0 * sums.0;
    let queued = n * squares.1 - sums.1 * sums.1;
    let both = n * squares.2 - sums.0 * sums.1;
    4 * (queued + both) >= LONGER_QUARTERS * queued && n * (queued / EXACT) >= served
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Numbers below `n`, by chance.
    fn chance(seed: &mut u64, n: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % n
    }

    /// Waits of threads that work for up to so long and wait for a device that serves so many at once, for 80 to 120 µs each.
    fn waits(threads: usize, servers: usize, work: u64) -> Vec<Wait> {
        let (mut seed, mut all) = (7, Vec::new());
        // When each asks next, and when each server is free.
        let mut asks: Vec<u64> = (0..threads).map(|_| 1 + chance(&mut seed, work)).collect();
        let mut free = vec![0; servers];
        for _ in 0..4_000 {
            let who = (0..threads).min_by_key(|i| asks[*i]).unwrap();
            let by = (0..servers).min_by_key(|i| free[*i]).unwrap();
            let done = asks[who].max(free[by]) + 80 + chance(&mut seed, 40);
            all.push((asks[who] * US, done * US));
            (free[by], asks[who]) = (done, done + 1 + chance(&mut seed, work));
        }
        all.sort_unstable();
        all
    }

    fn servers(waits: &[Wait]) -> Option<usize> {
        device(waits).map(|found| found.0)
    }

    #[test]
    fn as_many_as_are_served_at_once() {
        for (threads, n, work) in [(16, 8, 20), (16, 8, 200), (24, 8, 100), (4, 1, 300), (3, 1, 10), (12, 4, 100)] {
            let waits = waits(threads, n, work);
            let (found, begun) = device(&waits).expect("it has a queue");
            assert_eq!(found, n, "{threads} threads that work for {work}");
            let served = |(w, begun): (&Wait, &u64)| (80 * US..120 * US).contains(&(w.1 - begun));
            assert!(waits.iter().zip(&begun).filter(|x| served(*x)).count() * 100 >= 99 * waits.len());
        }
    }

    #[test]
    fn who_never_waits_for_others() {
        for (threads, work) in [(8, 20), (8, 200), (30, 100), (2, 5), (1, 5)] {
            assert_eq!(servers(&waits(threads, threads, work)), None, "{threads} threads that work for {work}");
        }
    }
}
