//! `video`: a video played with hardware decoding: small tasks that wake together and must meet the next frame.
//!
//! Every frame the demuxer's feeder hands the decoder its input and wakes all workers at once (codec callbacks, audio,
//! buffer queues, binder threads); each does a little, and the compositor, once all are done, shows the frame at its next
//! vsync, three quarters of a frame after the tick (or one frame more): players feed early enough that frames are not due
//! when they become ready. Ticks and vsyncs both count from the start of the run. Nothing here needs speed: workers contend
//! because they wake together.
//!
//! One frame is in work at a time and one with the compositor: the feeder has the next frame's input ready and hands it on
//! when the compositor has taken the one before. So a player that is too slow has fewer frames, not ever later ones; ticks
//! that it misses are caught up at once. Mark `frame`: from the feeder's tick (or, where that was missed, from when the
//! feeder came to it) until all are done; `shown`: until the frame is composed.
//!
//! The player's threads, feeder and workers, are in `/top-app`, though some of the workers would be media services'; the decoder is one of
//! these, in the root group, and the compositor is in `/foreground`. The GPU has no part in it: the display shows the decoder's buffers.
//!
//! Calibrated: `workers` and `worker_us` (at full speed of the platform's calibration CPU; together a third of a little CPU
//! at 60 fps). Range tried: 3 to 10 workers of 400 to 1600 µs.
//!
//! Sources: that playback with hardware decoding is a few small tasks which wake together and one that composes is the
//! description in [PATCH] Revert "sched/fair, cpufreq: Introduce 'runnable boosting'" (LKML, May 2026); what they do inside,
//! no source says.

use super::forever;
use super::frames::{FOREGROUND, TOP_APP, groups, nice, work_us};
use super::models::{Model, Params, number, word};
use super::server::task;
use super::{Amount, DeviceSpec, Op, QueueSpec, SemaphoreSpec, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "video",
    title: "video playback: a feeder wakes workers together, the compositor waits for all of them",
    params: &[
        number("fps", "60", (1, 240), "frames per second"),
        number("workers", "10", (1, 64), "threads woken together"),
        number("feeder_us", "200", (1, 100_000), "median work of the feeder per frame, µs"),
        number("worker_us", "500", (1, 100_000), "median work of each worker per frame, µs"),
        number("compose_us", "500", (1, 100_000), "median work of the compositor per frame, µs"),
        word("dependent", &["yes", "no"], "no: the same work without dependencies, each worker on a timer of its own"),
    ],
    source: include_str!("video.rs"),
    build,
};

const WORK: u32 = 0;
const DONE: u32 = 1;
const DECODE: u32 = 2;
/// Frames that the feeder may be ahead of the compositor: all tokens of DONE are of one frame.
const AHEAD: u32 = 0;

fn build(p: &Params) -> Workload {
    let put = |queue| Op::Put { queue, forward: true };
    let (workers, frame_ns) = (p.int("workers"), 1_000_000_000 / p.int("fps"));
    let timer = |timer| Op::Timer { timer, period: Amount::Fixed(frame_ns), absolute: true };
    // What it hands on bears the time of its tick.
    let mut feeder = vec![timer(0), work_us(p.int("feeder_us")), Op::SemWait(AHEAD)];
    let vsync = Op::Vsync { period: frame_ns, offset: frame_ns * 3 / 4 };
    let compose = |wait: Vec<Op>| {
        let mut ops = wait;
        ops.extend([Op::SemPost(AHEAD), Op::Mark(0), vsync.clone(), work_us(p.int("compose_us")), Op::Mark(1)]);
        task("compositor", 1, nice(-8), forever(ops)).within(FOREGROUND)
    };
    // The hardware decoder answers in a quarter of a frame.
    let decode = Op::Device { device: 0, service: Amount::Fixed(frame_ns / 4) };
    let mut tasks = Vec::new();
    if p.word("dependent") == "yes" {
        feeder.push(put(DECODE));
        feeder.extend((0..workers).map(|_| put(WORK)));
        tasks.push(task("feeder", 1, nice(-2), forever(feeder)).within(TOP_APP));
        let wait = (0..workers + 1).map(|_| Op::Get(DONE)).collect();
        tasks.extend([
            task("decoder", 1, nice(-20), forever(vec![Op::Get(DECODE), decode, put(DONE)])),
            task("worker", workers, nice(-2), forever(vec![Op::Get(WORK), work_us(p.int("worker_us")), put(DONE)]))
                .within(TOP_APP),
            compose(wait),
        ]);
    } else {
        feeder.push(put(DONE));
        let feeder = task("feeder", 1, nice(-2), forever(feeder)).within(TOP_APP);
        tasks.extend([feeder, compose(vec![Op::Get(DONE)])]);
        for i in 0..workers {
            // Spread over the frame.
            let mut worker =
                task(&format!("worker{i}"), 1, nice(-2), forever(vec![timer(1), work_us(p.int("worker_us"))]));
            worker.group = TOP_APP;
            worker.delay = Ns(frame_ns * (i + 1) / (workers + 1));
            tasks.push(worker);
        }
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        timers: ["media", "worker"].map(|name| TimerSpec { name: name.into(), shared: false }).into(),
        semaphores: vec![SemaphoreSpec::new("ahead", 1)],
        devices: vec![DeviceSpec { name: "decoder".into(), servers: 1, iowait: false }],
        queues: ["work", "done", "decode"].map(QueueSpec::new).into(),
        marks: vec!["frame".into(), "shown".into()],
        mark_periods: vec![Some(Ns(frame_ns)); 2],
        groups: groups(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compositor gives the feeder leave when it has every token of a frame, so that those of two never mix.
    #[test]
    fn the_next_frame_is_handed_on_when_the_one_before_is_whole() {
        for dependent in ["yes", "no"] {
            let tasks = MODEL.workload(&[("dependent".into(), dependent.into())]).unwrap().tasks;
            let ops = |name: &str| tasks.iter().find(|t| t.name == name).unwrap().program.ops.clone();
            let (feeder, compositor) = (ops("feeder"), ops("compositor"));
            let put = |op: &Op| matches!(op, Op::Put { .. });
            let wait = feeder.iter().position(|op| *op == Op::SemWait(AHEAD)).unwrap();
            assert!(wait < feeder.iter().position(put).unwrap() && !feeder.contains(&Op::MarkBegin), "{dependent}");
            let post = compositor.iter().position(|op| *op == Op::SemPost(AHEAD)).unwrap();
            assert!(compositor.iter().rposition(|op| *op == Op::Get(DONE)).unwrap() < post, "{dependent}");
        }
    }
}
