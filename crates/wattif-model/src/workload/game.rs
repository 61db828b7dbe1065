//! `game`: a game that is limited to a frame rate: an engine with its workers, a renderer, the GPU.
//!
//! Every frame the engine simulates while workers it woke together compute beside it, then the renderer issues commands and
//! waits for a free buffer of three. The engine is two frames ahead of the renderer at most, then it waits: a game that is
//! too slow has fewer frames, not ever later ones. The frame is over when the GPU has drawn it (mark `frame`). Helpers
//! (audio, driver, main loop) tick on their own, with the rates and lengths of the published table of a game. With
//! `touch=yes` the player touches the screen about every second, and a thread reads that: some kernels answer with a boost.
//!
//! The game's threads are in `/top-app`; the GPU's driver and kernel threads are in the root group. What the driver asks of CPUs while the
//! GPU draws is the platform's (`driver.gpu`).
//!
//! Calibrated: work per frame of engine, workers and renderer, and the GPU's time; range tried: half to twice as much. The
//! player's touches are estimated.
//!
//! Sources: rates and lengths of the helpers are those of the game in the table of use cases (linux-pm, 20 December 2013,
//! see `usecase`); what the engine's workers, the renderer and the GPU do, no source says.

use super::dist::Dist;
use super::forever;
use super::frames::{TOP_APP, groups, nice, work_us};
use super::models::{Model, Params, number, word};
use super::server::task;
use super::{Amount, DeviceSpec, Op, QueueSpec, SchedAttr, SemaphoreSpec, TaskSpec, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "game",
    title: "a game limited to a frame rate: engine and workers, renderer, GPU",
    params: &[
        number("fps", "60", (1, 240), "frames per second"),
        number("engine_us", "2000", (1, 100_000), "median work of the engine per frame, µs"),
        number("workers", "3", (0, 64), "threads woken together"),
        number("worker_us", "500", (1, 100_000), "median work of each worker per frame, µs"),
        number("render_us", "1200", (1, 100_000), "median work of the renderer per frame, µs"),
        number("gpu_us", "4000", (1, 1_000_000), "median time of the GPU per frame, µs"),
        word("touch", &["no", "yes"], "the player touches the screen about every second"),
    ],
    source: include_str!("game.rs"),
    build,
};

const WORK: u32 = 0;
const DONE: u32 = 1;
const RENDER: u32 = 2;
const GPU: u32 = 3;
const BEGUN: u32 = 4;
const BUFFERS: u32 = 0;
/// Frames that the engine may be ahead of the renderer.
const AHEAD: u32 = 1;
/// From one touch to the next, on average; the work of reading one.
const TOUCH_NS: u64 = 1_000_000_000;
const READ_US: u64 = 100;

/// A helper that wakes `per_s` times a second for `us` µs of work.
fn helper(name: &str, attr: SchedAttr, per_s: u64, us: u64) -> TaskSpec {
    let mean = (1_000_000_000 / per_s).saturating_sub(us * 1_000);
    task(name, 1, attr, forever(vec![Op::Sleep(Amount::Random(Dist::Exponential { mean })), work_us(us)]))
}

fn build(p: &Params) -> Workload {
    let put = |queue| Op::Put { queue, forward: true };
    let workers = p.int("workers");
    let period = 1_000_000_000 / p.int("fps");
    let tick = Op::Timer { timer: 0, period: Amount::Fixed(period), absolute: true };
    // A token to itself: what it hands on bears the time at which the frame began.
    let mut engine =
        vec![tick, Op::Put { queue: BEGUN, forward: false }, Op::Get(BEGUN), work_us(p.int("engine_us") / 2)];
    engine.extend((0..workers).map(|_| put(WORK)));
    engine.push(work_us(p.int("engine_us") - p.int("engine_us") / 2));
    engine.extend((0..workers).map(|_| Op::Get(DONE)));
    engine.extend([Op::SemWait(AHEAD), put(RENDER)]);
    let render = vec![Op::Get(RENDER), Op::SemWait(BUFFERS), work_us(p.int("render_us")), put(GPU), Op::SemPost(AHEAD)];
    let gpu = Dist::LogNormal { median: p.int("gpu_us") * 1_000, sigma_milli: 200 };
    let gpu = Op::Device { device: 0, service: Amount::Random(gpu) };
    let mut tasks = vec![
        task("engine", 1, nice(-4), forever(engine)).within(TOP_APP),
        task("render", 1, nice(-4), forever(render)).within(TOP_APP),
        task("gpu", 1, nice(-20), forever(vec![Op::Get(GPU), gpu, Op::SemPost(BUFFERS), Op::Mark(0)])),
        helper("gpu_driver", nice(0), 700, 11),
        helper("main", nice(0), 170, 37).within(TOP_APP),
        helper("audio", nice(-16), 120, 42).within(TOP_APP),
        helper("kworker", nice(0), 300, 40),
    ];
    if workers > 0 {
        let body = vec![Op::Get(WORK), work_us(p.int("worker_us")), put(DONE)];
        tasks.push(task("worker", workers, nice(-2), forever(body)).within(TOP_APP));
    }
    if p.word("touch") == "yes" {
        let pause = Op::Sleep(Amount::Random(Dist::Exponential { mean: TOUCH_NS }));
        tasks.push(task("input", 1, nice(-8), forever(vec![pause, Op::Touch, work_us(READ_US)])).within(TOP_APP));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        timers: vec![TimerSpec { name: "display".into(), shared: false }],
        semaphores: [("buffers", 3), ("ahead", 2)].map(|(n, initial)| SemaphoreSpec::new(n, initial)).into(),
        devices: vec![DeviceSpec { name: "gpu".into(), servers: 1, iowait: false }],
        queues: ["work", "done", "render", "gpu", "begun"].map(QueueSpec::new).into(),
        marks: vec!["frame".into()],
        mark_periods: vec![Some(Ns(period))],
        groups: groups(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine takes what the renderer gives back, once a frame: frames do not pile up between them.
    #[test]
    fn the_engine_waits_for_the_renderer() {
        let tasks = MODEL.workload(&[]).unwrap().tasks;
        let ops = |name: &str| tasks.iter().find(|t| t.name == name).unwrap().program.ops.clone();
        let at = |ops: &[Op], op: Op| ops.iter().position(|o| *o == op).unwrap();
        let (engine, render) = (ops("engine"), ops("render"));
        assert!(at(&engine, Op::SemWait(AHEAD)) < at(&engine, Op::Put { queue: RENDER, forward: true }));
        assert!(at(&render, Op::SemWait(BUFFERS)) < at(&render, Op::SemPost(AHEAD)));
    }

    #[test]
    fn a_player_touches_only_when_asked() {
        let tasks = |touch: &str| MODEL.workload(&[("touch".into(), touch.into())]).unwrap().tasks;
        let touches = |t: &TaskSpec| t.program.ops.contains(&Op::Touch);
        assert_eq!(MODEL.workload(&[]).unwrap().tasks, tasks("no"));
        assert!(!tasks("no").iter().any(touches) && tasks("yes").iter().any(touches));
    }
}
