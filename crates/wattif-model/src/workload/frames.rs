//! The frame pipeline of an Android application, which several models share.
//!
//! The UI thread asks for the next vsync, as Choreographer does; a dispatch thread wakes it then. It computes the frame
//! (input, animation, layout, drawing), hands it to the RenderThread and waits until that has taken it over (sync). The
//! RenderThread takes one of three buffers, uploads textures (it may have to wait for that, and copies what no frequency
//! makes faster), issues commands, and queues the buffer. The GPU renders it in its own time, which gives the buffer back;
//! the compositor shows it at its next vsync.
//!
//! A frame (mark `frame`) lasts from when the dispatch thread, woken by the vsync, wakes the UI thread until its buffer is
//! queued, and is what janks are scored of. FrameMetrics counts from the vsync: the dispatch thread's wake-up and its 40 µs
//! of work are not in ours. Mark `shown` is one frame on the screen, two to three vsyncs later where the pipeline is full.
//!
//! Vsyncs are those of a display, multiples of its period; applications and compositor hear of them some ms later, each at
//! its own offset. Who is late for one waits for the next: a slow frame costs whole periods, and frames do not pile up.
//!
//! As it begins to draw, the UI thread may call other processes (binder threads of the compositor and of system services, by
//! calls that nobody waits for): they run while it draws, and want the CPUs it wants.
//!
//! The application's threads are in schedtune's group `/top-app`, which some kernels boost; the compositor, the dispatch thread,
//! which is one of the compositor's process, and what is called are in `/foreground`; what signals that the GPU is done is the
//! driver's, in the root group. The cpu controller knows none of these groups here: their shares are the vendor's. While the GPU
//! draws, and for a while after, its driver may keep CPUs out of deep idle states: `driver.gpu` of the platform (`wattif explain
//! pm_qos`).
//!
//! Interrupt threads are of SCHED_OTHER here: Android gives real-time threads no frequency (`sched_util_clamp_min_rt_default` 0).
//!
//! Sources: the order of the stages and what FrameMetrics counts follow Android's documentation of its graphics pipeline,
//! not checked against its text; that a frame needs 1 to 2 ms of a big CPU of 2021 was reported by Arm's engineers in 2023.
//! The groups are those of Android 8 to 11: `surfaceflinger.rc` names `/foreground`; an activity manager moves what is on top to
//! `/top-app` (from memory). Offsets and shares of the stages are calibrated by the models that use it.

use super::dist::Dist;
use super::forever;
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Op, QueueSpec, SchedAttr, SemaphoreSpec, Workload};
use crate::units::Ns;

/// Times of a frame, µs: medians; those of CPUs are work at full speed of the platform's calibration CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// UI thread: input, animation, layout, drawing.
    pub ui_us: u64,
    /// RenderThread: issuing commands.
    pub render_us: u64,
    /// RenderThread: copying textures, the same at any frequency.
    pub upload_us: u64,
    /// RenderThread: asleep until the GPU has taken textures over.
    pub wait_us: u64,
    /// GPU.
    pub gpu_us: u64,
    /// σ of the logarithm of the work of UI thread and RenderThread, in 1/1000.
    pub work_sigma: u32,
    /// The same of the GPU.
    pub gpu_sigma: u32,
    /// Binder threads that the UI thread calls as it begins to draw.
    pub calls: u32,
    /// Work of each of them.
    pub call_us: u64,
}

/// What a frame is like where nothing else is said.
pub(super) const FRAME: Frame = Frame {
    ui_us: 0,
    render_us: 0,
    upload_us: 0,
    wait_us: 0,
    gpu_us: 0,
    work_sigma: SIGMA_MILLI,
    gpu_sigma: SIGMA_MILLI,
    calls: 0,
    call_us: 0,
};

/// Frames in a row, and pauses between such episodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Episodes {
    /// Vsync period, ns.
    pub period_ns: u64,
    /// Frames of an episode.
    pub frames: u64,
    /// Mean pause, ns; at least half of it.
    pub pause_ns: u64,
    /// A touch begins each episode.
    pub touch: bool,
}

/// Of [`groups`]: the application that the user sees.
pub(super) const TOP_APP: u32 = 1;
/// Of [`groups`]: processes that serve it, the compositor among them.
pub(super) const FOREGROUND: u32 = 2;

/// Groups of Android's schedtune, as far as models use them. The cpu controller does not know them.
pub(super) fn groups() -> Vec<GroupSpec> {
    let group = |path| GroupSpec { shares: 0, ..GroupSpec::named(path) };
    vec![GroupSpec::root(), group("/top-app"), group("/foreground")]
}

const US: u64 = 1_000;
/// σ of the logarithm of a piece of work where nothing else is said, in 1/1000.
const SIGMA_MILLI: u32 = 300;
/// The same of waiting for textures: a transfer of always the same size.
const WAIT_SIGMA_MILLI: u32 = 100;
/// Compositor, per frame; the mean of 0.5 to 1 ms.
const COMPOSE_US: u64 = 700;
/// How long after the display's vsync applications and the compositor hear of it: settings of phones of 2017, estimated.
const APP_OFFSET_NS: u64 = 2_000_000;
/// The compositor's.
const COMPOSITOR_OFFSET_NS: u64 = 6_000_000;
/// Buffers an application may fill before the first is shown.
const BUFFERS: u32 = 3;

const ASKED: u32 = 0;
const DRAW: u32 = 1;
const RENDER: u32 = 2;
const SYNCED: u32 = 3;
const GPU: u32 = 4;
const COMPOSE: u32 = 5;
/// The first of the queues of calls.
const CALLS: u32 = 6;

fn around(median_us: u64, sigma_milli: u32) -> Amount {
    Amount::Random(Dist::LogNormal { median: median_us * US, sigma_milli })
}

/// Work around a median.
pub(super) fn work_us(median_us: u64) -> Op {
    Op::Run(around(median_us, SIGMA_MILLI))
}

pub(super) fn nice(nice: i8) -> SchedAttr {
    SchedAttr { nice, ..SchedAttr::default() }
}

/// A loop with its end.
pub(super) fn repeat(at: usize, count: u64, body: Vec<Op>) -> Vec<Op> {
    let end = (at + body.len() + 1) as u32;
    let mut ops = vec![Op::Loop { count: Some(count), end }];
    ops.extend(body);
    ops.push(Op::LoopEnd { begin: at as u32 });
    ops
}

/// An application that draws `frame` in `episodes`.
pub(super) fn pipeline(name: &str, frame: Frame, episodes: Episodes) -> Workload {
    let put = |queue| Op::Put { queue, forward: true };
    let work = |us| Op::Run(around(us, frame.work_sigma));
    let vsync = |offset| Op::Vsync { period: episodes.period_ns, offset };
    let half = episodes.pause_ns / 2;
    let mut ui =
        vec![Op::Sleep(Amount::Fixed(half)), Op::Sleep(Amount::Random(Dist::Exponential { mean: half.max(1) }))];
    if episodes.touch {
        ui.push(Op::Touch);
    }
    let mut draw = vec![Op::Put { queue: ASKED, forward: false }, Op::Get(DRAW)];
    draw.extend((0..frame.calls).map(|n| Op::Put { queue: CALLS + n, forward: false }));
    draw.extend([work(frame.ui_us), put(RENDER), Op::Get(SYNCED)]);
    // The loop of an episode is inside the loop for ever.
    ui.extend(repeat(ui.len() + 1, episodes.frames, draw));
    let dispatch = vec![
        Op::Get(ASKED),
        vsync(APP_OFFSET_NS),
        Op::Run(Amount::Fixed(40 * US)),
        Op::Put { queue: DRAW, forward: false },
    ];
    let mut render = vec![Op::Get(RENDER), work(frame.render_us / 4), Op::Put { queue: SYNCED, forward: false }];
    render.push(Op::SemWait(0));
    let mut devices = vec![DeviceSpec { name: "gpu".into(), servers: 1, iowait: false }];
    if frame.wait_us > 0 {
        devices.push(DeviceSpec { name: "textures".into(), servers: 1, iowait: false });
        render.push(Op::Device { device: 1, service: around(frame.wait_us, WAIT_SIGMA_MILLI) });
    }
    if frame.upload_us > 0 {
        render.push(Op::RunInsensitive(around(frame.upload_us, SIGMA_MILLI)));
    }
    render.extend([work(frame.render_us - frame.render_us / 4), put(GPU), Op::Mark(0)]);
    let gpu = Op::Device { device: 0, service: around(frame.gpu_us, frame.gpu_sigma) };
    let mut tasks = vec![
        task("dispatch", 1, nice(-9), forever(dispatch)).within(FOREGROUND),
        task("ui", 1, nice(-10), forever(ui)).within(TOP_APP),
        task("RenderThread", 1, nice(-10), forever(render)).within(TOP_APP),
        task("gpu", 1, nice(-20), forever(vec![Op::Get(GPU), gpu, Op::SemPost(0), put(COMPOSE)])),
        task(
            "compositor",
            1,
            nice(-8),
            forever(vec![Op::Get(COMPOSE), vsync(COMPOSITOR_OFFSET_NS), work_us(COMPOSE_US), Op::Mark(1)]),
        )
        .within(FOREGROUND),
    ];
    let mut queues: Vec<_> = ["asked", "draw", "render", "synced", "gpu", "compose"].map(QueueSpec::new).into();
    for n in 0..frame.calls {
        let binder = task(
            &format!("binder{n}"),
            1,
            SchedAttr::default(),
            forever(vec![Op::Get(CALLS + n), work(frame.call_us)]),
        );
        tasks.push(binder.within(FOREGROUND));
        queues.push(QueueSpec::new(format!("call{n}")));
    }
    Workload {
        name: name.into(),
        duration: Some(Ns::from_s(30)),
        tasks,
        semaphores: vec![SemaphoreSpec::new("buffers", BUFFERS)],
        devices,
        queues,
        marks: vec!["frame".into(), "shown".into()],
        mark_periods: vec![Some(Ns(episodes.period_ns)); 2],
        groups: groups(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::model;

    /// What is boosted as the top application, and what only serves it.
    #[test]
    fn threads_are_in_the_groups_that_a_phone_has_them_in() {
        let of = |name: &str, group: &str| {
            let w = model(name).unwrap().workload(&[]).unwrap();
            let within = w.tasks.iter().filter(|t| w.groups[t.group as usize].path == group);
            within.map(|t| t.name.clone()).collect::<Vec<_>>().join(" ")
        };
        for name in ["jankbench", "scroll"] {
            let groups = ["/top-app", "/foreground", "/"].map(|g| of(name, g));
            assert_eq!(groups, ["ui RenderThread", "dispatch compositor", "gpu"], "{name}");
        }
        assert_eq!(
            ["/top-app", "/foreground", "/"].map(|g| of("video", g)),
            ["feeder worker", "compositor", "decoder"]
        );
        assert_eq!(of("game", "/top-app"), "engine render main audio worker");
        assert_eq!(of("game", "/"), "gpu gpu_driver kworker");
    }
}
