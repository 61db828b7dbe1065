//! Every generation of `teo`: the rule that tells it from the one before.

use super::super::testing::{FakeView, slept, states};
use super::bins::Bin;
use super::short_idles::{ShortIdles, Wakeup};
use super::tick_hits::TickHits;
use super::*;
use wattif_model::ids::CpuId;

const CPU: CpuId = CpuId(0);
const TICK_NS: u64 = 4_000_000;
const GENERATIONS: &[&str] = TUNABLES[0].allowed;

fn new(generation: &str, table: &[(i64, i64)]) -> Box<dyn IdleGovernor> {
    let mut teo = build(generation, INTERVALS, 1, TICK_NS).expect("a known generation");
    teo.enable(CPU, &states(table));
    teo
}

fn after_sleeps(generation: &str, us: &[u64]) -> Box<dyn IdleGovernor> {
    let mut teo = new(generation, &[(2, 2), (10, 20), (133, 600)]);
    for us in us {
        let chosen = teo.select(CPU, &mut FakeView::timer_in(60_000_000));
        teo.reflect(CPU, &slept(chosen.state, us * 1000, us * 1000));
    }
    teo
}

#[test]
fn trusts_the_timer_until_it_is_beaten() {
    for &generation in GENERATIONS {
        let select = |us: &[u64]| {
            let chosen = after_sleeps(generation, us).select(CPU, &mut FakeView::timer_in(60_000_000));
            (chosen.state, chosen.stop_tick)
        };
        assert_eq!(select(&[]), (2, true), "{generation}: nothing learned");
        assert_eq!(select(&[60_100; 20]), (2, true), "{generation}: timers come as promised");
        // 6.14 does not see that the tick would have come later: its slip.
        let keeps_tick = generation != "6.14";
        assert_eq!(select(&[200; 20]), (1, !keeps_tick), "{generation}: always woken after 200 µs");
    }
}

fn bin(hits: u32, intercepts: u32) -> Bin {
    Bin { hits, intercepts, recent: 0 }
}

#[test]
fn the_manuals_worked_example() {
    let mut data = TickHits::at_boot(&states(&[(2, 2), (10, 20), (133, 600)]));
    data.bins[..3].copy_from_slice(&[bin(0, 0), bin(0, 4096), bin(2048, 0)]);
    data.total = 6144;
    assert_eq!(data.choose(&mut FakeView::timer_in(60_000_000), 4_000_000).state, 1);
}

#[test]
fn a_utilised_cpu_sleeps_one_state_shallower() {
    let state = |generation, util, table: &[(i64, i64)]| {
        let mut teo = new(generation, table);
        let mut view = FakeView::timer_in(60_000_000);
        view.cpu_util = util;
        teo.select(CPU, &mut view).state
    };
    let three = [(0, 0), (10, 20), (133, 600)];
    for generation in ["6.3-util", "6.6"] {
        let state = |util, table: &[(i64, i64)]| state(generation, util, table);
        assert_eq!([state(16, &three), state(17, &three)], [2, 1], "{generation}: a 64th of 1024 is 16");
        let two = [state(17, &three[..2]), state(17, &[(2, 2), (10, 20)])];
        assert_eq!(two, [1, 0], "{generation}: the shallowest that does not poll");
    }
    assert_eq!([state("6.1", 1024, &three), state("6.12", 1024, &three)], [2, 2], "before and after");
}

/// With the tick stopped nothing would correct a choice that is too shallow.
#[test]
fn a_utilised_cpu_of_6_6_stays_deep_without_a_tick() {
    let state = |tick_stopped, table: &[(i64, i64)]| {
        let mut view = FakeView::timer_in(60_000_000);
        (view.cpu_util, view.tick_stopped) = (1024, tick_stopped);
        new("6.6", table).select(CPU, &mut view).state
    };
    let (two, three) = ([(2, 2), (100, 5_000)], [(0, 0), (10, 20), (133, 5_000)]);
    assert_eq!([state(false, &two), state(true, &two)], [0, 1]);
    assert_eq!([state(false, &three), state(true, &three)], [1, 2]);
}

/// How often the timer is asked for when the CPU has been woken after so many µs each time.
fn queries_after(generation: &str, table: &[(i64, i64)], us: u64) -> u32 {
    let mut teo = new(generation, table);
    let mut view = FakeView::timer_in(60_000_000);
    for _ in 0..20 {
        view.queries = 0;
        let chosen = teo.select(CPU, &mut view);
        teo.reflect(CPU, &slept(chosen.state, us * 1000, us * 1000));
    }
    view.queries
}

/// 6.6 asks only for a deep candidate, or for any but state 0 if that does not poll; its forerunner always, its successor
/// also where intercepts lead to state 0.
#[test]
fn the_timer_of_6_6_is_asked_for_if_the_choice_is_deep() {
    let (polling, halting) = ([(0, 0), (2, 4), (133, 600)], [(1, 1), (2, 4), (133, 600)]);
    let queries = |table, us| ["6.3-util", "6.6", "6.12"].map(|generation| queries_after(generation, table, us));
    assert_eq!(queries(&polling, 900), [1, 1, 1], "deep");
    assert_eq!(queries(&polling, 40), [1, 0, 0], "4 µs beside polling");
    assert_eq!(queries(&halting, 40), [1, 1, 1], "4 µs beside halting");
    assert_eq!(queries(&halting, 2), [1, 0, 1], "state 0");
}

/// What the timer ended in state 0 counts as an intercept in 6.6, which did not ask for it. In 6.12 it is a hit.
#[test]
fn timers_that_6_6_did_not_ask_for_are_intercepts() {
    let hit_in_state_0 = |generation| {
        let mut teo = new(generation, &[(1, 1), (133, 600)]);
        for (timer_us, us) in [(60_000, 100); 20].into_iter().chain([(300, 301), (60_000, 100)]) {
            let chosen = teo.select(CPU, &mut FakeView::timer_in(timer_us * 1000));
            teo.reflect(CPU, &slept(chosen.state, us * 1000, us * 1000));
        }
        let bins = teo.debug_state(CPU);
        let hits: u32 = bins.split(':').next().and_then(|hits| hits.parse().ok()).expect("hits come first");
        // That of the boot has decayed.
        hits >= PULSE
    };
    assert_eq!([hit_in_state_0("6.6"), hit_in_state_0("6.12")], [false, true]);
}

/// Until 6.10 a majority of the last nine events is enough, whatever the long memory says.
#[test]
fn recent_intercepts_send_6_6_down() {
    let mut sleeps = vec![60_100; 60];
    sleeps.extend([200; 5]);
    let state =
        |generation, us: &[u64]| after_sleeps(generation, us).select(CPU, &mut FakeView::timer_in(60_000_000)).state;
    assert_eq!(["6.6", "6.12"].map(|generation| state(generation, &sleeps)), [1, 2]);
    assert_eq!(state("6.6", &sleeps[..64]), 2, "four of nine");
}

/// A sleep that outlasts the tick takes the event of nine before off its bin and leaves it to be taken off again. The count of the
/// recent events is huge from then on, whichever state is asked about, and no state below the candidate is ever found.
#[test]
fn after_long_sleeps_6_6_never_goes_down_again() {
    let mut sleeps = vec![200; 9];
    sleeps.extend([60_100; 9]);
    let state = |generation, us: &[u64]| {
        let mut teo = after_sleeps(generation, us);
        let state = teo.select(CPU, &mut FakeView::timer_in(60_000_000)).state;
        (state, teo.debug_state(CPU).split([';', '|']).nth(1).map(String::from).expect("bins of state 1"))
    };
    let recent = |us: &[u64]| state("6.6", us).1.rsplit(':').next().and_then(|n| n.parse::<u32>().ok());
    assert_eq!(recent(&sleeps), Some(0), "each has been taken off once");
    sleeps.push(60_100);
    assert_eq!(recent(&sleeps), Some(u32::MAX));
    sleeps.extend([200; 50]);
    assert_eq!(recent(&sleeps), Some(u32::MAX));
    let states = ["6.1", "6.3-util", "6.6", "6.12"].map(|generation| state(generation, &sleeps).0);
    assert_eq!(states, [1, 1, 2, 1]);
}

/// 6.12 does not ask for the timer where it takes a shallow state beside a polling one; 6.14 asks unless most sleeps
/// were short.
#[test]
fn the_timer_is_asked_for_unless_sleeps_are_short() {
    let queries = |us| queries_after("6.14", &[(0, 0), (2, 2), (10, 20), (133, 600)], us);
    assert_eq!([queries(5), queries(100)], [0, 1]);
}

const EVENT: Wakeup = Wakeup { safety_net: false, tick: false };
const TICK: Wakeup = Wakeup { safety_net: false, tick: true };
const SAFETY_NET: Wakeup = Wakeup { safety_net: true, tick: false };
const ERAS: [Era; 3] = [Era::Linux614, Era::Linux619, Era::Linux2026];

/// All sums are of pulses that decay together, so the running total never falls below any of them.
#[test]
fn the_running_total_bounds_its_parts() {
    for era in ERAS {
        let mut data = short_idles(&[(0, 0), (2, 2), (10, 20), (133, 40_000)]);
        for step in 0..1000u64 {
            let span = [3_000, 900_000, 20_000_000][(step * step % 7 % 3) as usize];
            data.sleep = Sleep { sleep_length_ns: 60_000_000, last_residency_ns: span, ..data.sleep };
            data.wakeup = if step % 5 == 0 { TICK } else { EVENT };
            data.teo_update((step % 4) as usize, era, TICK_NS as i64);
            assert!(data.short_idles.max(data.tick_intercepts).max(data.tick_wakeups) <= data.total);
        }
        assert!(data.total > 7 * PULSE && data.short_idles > 0 && data.tick_intercepts > 0 && data.tick_wakeups > 0);
    }
}

fn short_idles(table: &[(i64, i64)]) -> ShortIdles {
    ShortIdles { states: StateTable::new(&states(table)), ..ShortIdles::default() }
}

/// The bins after one sleep in `state`, with a timer 60 ms away.
fn learned(data: ShortIdles, era: Era, state: usize, wakeup: Wakeup, us: u64) -> Vec<(u32, u32)> {
    let data = updated(data, era, state, wakeup, us);
    data.bins[..data.states.len()].iter().map(|b| (b.hits, b.intercepts)).collect()
}

fn updated(mut data: ShortIdles, era: Era, state: usize, wakeup: Wakeup, us: u64) -> ShortIdles {
    data.sleep = Sleep { sleep_length_ns: 60_000_000, last_residency_ns: us * 1000, ..data.sleep };
    data.wakeup = wakeup;
    data.teo_update(state, era, TICK_NS as i64);
    data
}

const HALT_AND_DEEP: [(i64, i64); 2] = [(1, 1), (100, 5_000)];

/// A counter of 7 stays 7 until 6.14, and is forgotten later.
#[test]
fn small_counters_are_forgotten_since_6_19() {
    let left = |era| {
        let mut data = short_idles(&HALT_AND_DEEP);
        data.bins[1] = bin(7, 8);
        learned(data, era, 0, EVENT, 100)[1]
    };
    assert_eq!([left(Era::Linux614), left(Era::Linux619), left(Era::Linux2026)], [(7, 7), (0, 7), (0, 7)]);
}

/// Sleeps that the tick ended are intercepts of their own bin, but hits of the deepest state when they are more than two thirds
/// of all.
#[test]
fn where_the_tick_dominates_its_wakeups_are_hits_of_the_deepest_state() {
    let after = |tick_wakeups| {
        let data = ShortIdles { tick_wakeups, ..eight_events(&HALT_AND_DEEP) };
        learned(data, Era::Linux619, 0, TICK, 4_000)
    };
    // Of 7 + 1 pulses, 16/3 are two thirds.
    assert_eq!(after(4 * PULSE), [(7 * PULSE, PULSE), (0, 0)]);
    assert_eq!(after(5 * PULSE), [(7 * PULSE, 0), (PULSE, 0)]);
}

/// As if state 0 had been right eight times, which leaves seven after the next sleep.
fn eight_events(table: &[(i64, i64)]) -> ShortIdles {
    let mut data = ShortIdles { total: 8 * PULSE, ..short_idles(table) };
    data.bins[0] = bin(8 * PULSE, 0);
    data
}

/// A sleep that did not outlast its exit latency is short, however long it was, unless a safety net ended it.
#[test]
fn a_sleep_within_its_exit_latency_is_short() {
    for era in ERAS {
        let short = |wakeup, us| updated(short_idles(&[(1, 1), (133, 600)]), era, 1, wakeup, us).short_idles;
        assert_eq!([short(EVENT, 132), short(EVENT, 133), short(SAFETY_NET, 132)], [PULSE, 0, 0], "{era:?}");
        let shallow = |us| updated(short_idles(&[(1, 1), (133, 600)]), era, 0, EVENT, us).short_idles;
        assert_eq!([shallow(15), shallow(16)], [PULSE, 0], "{era:?}: 15 µs");
    }
}

/// 6.14 takes the tick for a safety net if the timer was more than one away; later it is counted whatever was known, also
/// beside the limit of a poll.
#[test]
fn every_tick_counts_since_6_19() {
    let ticks = |generation, timer_ns, poll_time_limit| {
        let mut teo = new(generation, &HALT_AND_DEEP);
        let chosen = teo.select(CPU, &mut FakeView::timer_in(timer_ns));
        teo.reflect(CPU, &IdleSleep { got_tick: true, poll_time_limit, ..slept(chosen.state, 3_000, 3_000) });
        teo.select(CPU, &mut FakeView::timer_in(timer_ns));
        teo.debug_state(CPU).split('|').nth(3).and_then(|n| n.parse::<u32>().ok()).expect("tick_wakeups")
    };
    for timer_ns in [1_000_000, 60_000_000] {
        for limit in [false, true] {
            let counted = ["6.14", "6.19", "2026"].map(|generation| ticks(generation, timer_ns, limit));
            assert_eq!(counted, [0, PULSE, PULSE], "timer {timer_ns} ns, poll limit {limit}");
        }
    }
}

/// A tick wake-up that counted as a hit of the deepest state before its own was added is in the bins, and so in the sum.
#[test]
fn the_total_is_the_bins_since_6_19() {
    let total = |era| {
        let mut data = short_idles(&HALT_AND_DEEP);
        (data.bins[0], data.bins[1], data.total) = (bin(4, 9), bin(1024, 0), 8192);
        updated(data, era, 0, EVENT, 100).total - PULSE
    };
    // 9 − 1 and 1024 − 128; 4 is forgotten.
    assert_eq!(ERAS.map(total), [8192 - 1024, 904, 904]);
}

/// Where it is the bin of a state that is off that brings the intercepts over half, 6.14 takes the last state passed, or keeps the
/// candidate if it has passed none; later the descent goes on.
#[test]
fn above_a_state_that_is_off_6_14_ends_its_descent() {
    let state = |era, table: &[(i64, i64)], disable_mask| {
        let mut data = short_idles(table);
        (data.bins[1], data.total) = (bin(0, 8 * PULSE), 8 * PULSE);
        let mut view = FakeView { disable_mask, ..FakeView::timer_in(60_000_000) };
        data.choose(&mut view, era, TICK_NS as i64).state
    };
    let four = [(1, 1), (10, 20), (50, 200), (100, 5_000)];
    assert_eq!(ERAS.map(|era| state(era, &four, 0)), [1, 1, 1]);
    assert_eq!(ERAS.map(|era| state(era, &four, 2)), [2, 0, 0]);
    assert_eq!(ERAS.map(|era| state(era, &four[..3], 2)), [2, 0, 0]);
}

/// Each bin rounds up what an eighth leaves of it, the one counter of 6.14 once for all: it may be less than the hits below the
/// candidate, and the difference is unsigned.
#[test]
fn a_total_below_its_hits_is_no_reason_to_go_down_in_6_14() {
    let mut data = short_idles(&[(1, 1), (950, 1_000), (1_500, 2_700)]);
    data.bins[..3].copy_from_slice(&[bin(4370, 10), bin(3824, 7), bin(7, 0)]);
    data.total = 8192;
    assert_eq!(data.choose(&mut FakeView::timer_in(2_131_624), Era::Linux614, TICK_NS as i64).state, 1);
}

/// With the tick stopped, a timer that is sooner than the residency of the choice leads 6.14 to a shallower state only if
/// that lasts a tick.
#[test]
fn a_stopped_tick_keeps_6_14_deep_before_a_near_timer() {
    let state = |era, tick_stopped| {
        let mut view = FakeView { tick_stopped, ..FakeView::timer_in(1_000_000) };
        short_idles(&[(1, 1), (10, 20), (100, 5_000)]).choose(&mut view, era, TICK_NS as i64).state
    };
    assert_eq!(ERAS.map(|era| state(era, false)), [1, 1, 1]);
    assert_eq!(ERAS.map(|era| state(era, true)), [2, 1, 1]);
}

/// Then the tick is stopped in the end, on a machine whose shallow state keeps it.
#[test]
fn a_cpu_that_only_the_tick_wakes_gets_rid_of_it() {
    let mut teo = new("6.19", &HALT_AND_DEEP);
    for _ in 0..20 {
        let chosen = teo.select(CPU, &mut FakeView::timer_in(60_000_000));
        teo.reflect(CPU, &slept(chosen.state, 100_000, 100_000));
    }
    let mut ticks = 0;
    while !teo.select(CPU, &mut FakeView::timer_in(60_000_000)).stop_tick {
        teo.reflect(CPU, &IdleSleep { got_tick: true, ..slept(0, 3_900_000, 3_900_000) });
        ticks += 1;
        assert!(ticks < 30, "the tick goes on for ever");
    }
    assert!(ticks > 5, "{ticks} ticks are not yet most of all wake-ups");
}

/// 2026: a tick that woke the CPU says nothing against the timer, unless others would have come before it.
#[test]
fn a_tick_is_no_intercept_since_2026() {
    let after = |era, tick_intercepts| {
        let data = ShortIdles { tick_intercepts, ..eight_events(&HALT_AND_DEEP) };
        learned(data, era, 0, TICK, 4_000)
    };
    let (hit, intercept) = (vec![(7 * PULSE, 0), (PULSE, 0)], vec![(7 * PULSE, PULSE), (0, 0)]);
    assert_eq!([after(Era::Linux619, 0), after(Era::Linux2026, 0)], [intercept.clone(), hit]);
    assert_eq!(after(Era::Linux2026, 7 * PULSE), intercept);
    // An eighth less is 4778 and 4779: a third of two times the seven events before this one is 4778 2/3.
    assert_eq!([5460, 5461].map(|n| after(Era::Linux2026, n) == intercept), [false, true]);
}

/// 2026: the bin of the deepest state has no end, so that any long sleep was a hit of any later timer.
#[test]
fn a_hit_ends_near_the_timer_since_2026() {
    let after = |era, us| learned(short_idles(&HALT_AND_DEEP), era, 1, EVENT, us)[1];
    assert_eq!(after(Era::Linux619, 6_000), (PULSE, 0));
    assert_eq!(after(Era::Linux2026, 6_000), (0, PULSE));
    assert_eq!(after(Era::Linux2026, 60_001), (PULSE, 0));
}

/// The example of the manual.
#[test]
fn the_search_starts_at_most_intercepts_since_2026() {
    let table = [(1, 1), (10, 20), (50, 200), (100, 1_000)];
    let state = |era, view: &mut FakeView| {
        let mut data = short_idles(&table);
        data.bins[..4].copy_from_slice(&[bin(0, 5 * PULSE), bin(0, 3 * PULSE), bin(0, 3 * PULSE), bin(PULSE, 0)]);
        data.total = 12 * PULSE;
        data.choose(view, era, TICK_NS as i64).state
    };
    let mut view = FakeView::timer_in(60_000_000);
    assert_eq!([state(Era::Linux619, &mut view), state(Era::Linux2026, &mut view)], [1, 0]);
    view.disable_mask = 0b0001;
    assert_eq!(state(Era::Linux2026, &mut view), 1, "state 0 is off");
    view = FakeView { tick_stopped: true, ..FakeView::timer_in(60_000_000) };
    assert_eq!(state(Era::Linux2026, &mut view), 3, "no other lasts a tick");
}

/// Whoever is off still has a bin: where it, or the candidate's own, has most intercepts, the search starts as before 2026.
#[test]
fn with_the_deepest_state_off_the_candidates_bin_may_have_most_intercepts() {
    let state = |own| {
        let mut data = short_idles(&[(1, 1), (10, 20), (50, 200), (100, 1_000), (200, 2_000)]);
        let intercepts = [5, 3, 3, own, 0];
        data.bins.iter_mut().zip(intercepts).for_each(|(b, n)| *b = bin(0, n * PULSE));
        data.total = intercepts.iter().sum::<u32>() * PULSE;
        let mut view = FakeView { disable_mask: 1 << 4, ..FakeView::timer_in(60_000_000) };
        data.choose(&mut view, Era::Linux2026, TICK_NS as i64).state
    };
    assert_eq!([4, 5, 6].map(state), [0, 1, 1]);
}

/// With the tick stopped; the shallower of two states of one residency has an empty bin.
#[test]
fn of_two_equal_states_2026_takes_the_deeper() {
    let state = |era| {
        let mut data = short_idles(&[(1, 1), (100, 5_000), (200, 5_000)]);
        (data.bins[0], data.total) = (bin(0, 8 * PULSE), 8 * PULSE);
        let mut view = FakeView { tick_stopped: true, ..FakeView::timer_in(60_000_000) };
        data.choose(&mut view, era, TICK_NS as i64).state
    };
    assert_eq!([state(Era::Linux619), state(Era::Linux2026)], [1, 2]);
}

/// 5/8 of all until 6.19, two thirds since.
#[test]
fn the_tick_is_kept_for_two_thirds_since_2026() {
    let stops = |era, tick_intercepts| {
        let mut data = short_idles(&[(1, 1), (100, 1_000)]);
        (data.bins[1], data.total, data.tick_intercepts) = (bin(PULSE, 0), 24 * PULSE, tick_intercepts);
        data.choose(&mut FakeView::timer_in(60_000_000), era, TICK_NS as i64).stop_tick
    };
    assert_eq!([15, 16].map(|n| stops(Era::Linux619, n * PULSE)), [true, false]);
    assert_eq!([15, 16].map(|n| stops(Era::Linux2026, n * PULSE)), [true, false]);
    assert_eq!([Era::Linux619, Era::Linux2026].map(|era| stops(era, 16 * PULSE - 1)), [false, true]);
}

#[test]
fn a_longer_history_takes_longer_to_be_convinced() {
    let state_after = |intervals, sleeps| {
        let mut data = EarlyHits::new(intervals, 4_000_000);
        data.enable(&states(&[(2, 2), (10, 20), (133, 600)]));
        for _ in 0..sleeps {
            data.learn();
            data.choose(&mut FakeView::timer_in(60_000_000));
            data.reflect(&slept(2, 300_000, 300_000));
        }
        data.learn();
        // As if hits dominated: only the list of sleeps speaks.
        let (duration_ns, sleep_length_ns, delta_tick_ns) = (60_000_000, 60_000_000, 4_000_000);
        let mut draft = Draft { idx: 2, duration_ns, sleep_length_ns, delta_tick_ns };
        data.apply_intervals(&FakeView::timer_in(60_000_000), &mut draft);
        draft.idx
    };
    assert_eq!([state_after(8, 4), state_after(8, 5)], [2, 1]);
    assert_eq!([state_after(16, 8), state_after(16, 9)], [2, 1]);
}

/// Shallow states of 2 and 20 µs, a deep one of 600, and sleeps of 15 µs to 60 ms until the timer.
fn early(era: early_hits::Era) -> EarlyHits {
    let mut data = EarlyHits::new(8, TICK_NS as i64);
    data.era = era;
    data.enable(&states(&[(2, 2), (10, 20), (133, 600)]));
    data
}

#[test]
fn a_latency_limit_keeps_the_tick_until_5_3() {
    let chosen = |generation| {
        let mut teo = new(generation, &[(2, 2), (10, 20), (133, 600)]);
        let mut view = FakeView { latency_req_ns: 50_000, ..FakeView::timer_in(60_000_000) };
        let chosen = teo.select(CPU, &mut view);
        (chosen.state, chosen.stop_tick)
    };
    assert_eq!(chosen("5.1"), (1, false));
    // The first state beyond the limit, a slip that lasted until 5.13.
    assert_eq!(["5.4", "5.6"].map(chosen), [(2, true), (2, true)]);
}

#[test]
fn which_of_the_last_sleeps_were_short_until_5_3() {
    use early_hits::Era;
    let expected_us = |era| {
        let data = (0..8).fold(early(era), |mut data, _| {
            data.learn();
            data.choose(&mut FakeView::timer_in(60_000_000));
            data.reflect(&slept(2, 3_000_000, 3_000_000));
            data
        });
        let (duration_ns, sleep_length_ns, delta_tick_ns) = (60_000_000, 60_000_000, 4_000_000);
        let mut draft = Draft { idx: 2, duration_ns, sleep_length_ns, delta_tick_ns };
        data.apply_intervals(&FakeView::timer_in(60_000_000), &mut draft);
        draft.duration_ns / 1000
    };
    // 3 ms are longer than the residency of 600 µs, and shorter than the time to the timer.
    assert_eq!([Era::Linux51, Era::Linux54, Era::Linux56].map(expected_us), [60_000, 2_933, 2_933]);
}

/// Sleeps of 1 ms, and a timer in 60 ms: the deepest state fits both.
#[test]
fn the_state_of_most_early_hits_stands_in_for_itself_until_5_4() {
    use early_hits::Era;
    let stops_tick = |era| {
        let mut data = early(era);
        (data.metrics[2].hits, data.metrics[2].misses, data.metrics[2].early_hits) = (PULSE, PULSE, PULSE);
        let view = &mut FakeView::timer_in(60_000_000);
        let draft = data.choose(view);
        let chosen = data.settle(view, &draft);
        (chosen.state, chosen.stop_tick)
    };
    assert_eq!([Era::Linux51, Era::Linux54].map(stops_tick), [(2, false); 2], "600 µs are less than a tick");
    assert_eq!(stops_tick(Era::Linux56), (2, true));
}

#[test]
fn every_ninth_sleep_is_forgotten_until_5_4() {
    use early_hits::Era;
    let kept = |era| {
        let mut data = early(era);
        for us in 1..=10 {
            data.remember(us * 1000);
        }
        data.intervals.iter().map(|ns| ns / 1000).collect::<Vec<_>>()
    };
    assert_eq!(kept(Era::Linux54), [10, 2, 3, 4, 5, 6, 7, 8], "the ninth is nowhere");
    assert_eq!(kept(Era::Linux56), [9, 10, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_sleep_is_measured_with_the_idle_loop_until_5_4() {
    use early_hits::Era;
    let measured_us = |era| {
        let mut data = early(era);
        data.choose(&mut FakeView { clock_ns: 100_000, ..FakeView::timer_in(60_000_000) });
        data.reflect(&slept(1, 300_000, 420_000));
        data.learn();
        data.intervals[0] / 1000
    };
    // 320 µs from choice to report, 300 of them asleep; 10 µs of exit latency.
    assert_eq!([Era::Linux54, Era::Linux56].map(measured_us), [315, 295]);
}
