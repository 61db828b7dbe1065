//! `phone`: a user interface drawing frames beside background compilation (an app being installed).
//!
//! Every vsync the UI thread computes the next frame; its helpers (layout, image decoding) compute beside it, started first.
//! Then the frame goes to the render thread, from there to the compositor; a frame ends when that is done, and its latency
//! runs from its vsync. The compiler's threads alternate between work and short reads from flash.
//!
//! Sources: background work beside a user interface is a use that "Improving scheduling latency with SCHED_IDLE task"
//! (Linaro Connect San Diego 2019) recommends. Nothing is calibrated: all times are estimates for a phone of that year,
//! chosen before any comparison.

use super::dist::Dist;
use super::forever;
use super::models::{CPUS, Model, Param, Params, SIDE_POLICY};
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Op, Policy, QueueSpec, SchedAttr, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "phone",
    title: "a user interface at a frame rate, and background compilation as side job",
    params: &[
        CPUS,
        Param { name: "frame_us", default: "8333", range: Some((1000, 1_000_000)), words: &[], doc: "vsync period" },
        Param {
            name: "ui_us",
            default: "2500",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median work of the UI thread per frame",
        },
        Param {
            name: "render_us",
            default: "3000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median work of the render thread per frame",
        },
        Param {
            name: "compose_us",
            default: "800",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median work of the compositor per frame",
        },
        Param { name: "helpers", default: "6", range: Some((0, 64)), words: &[], doc: "helper threads of the app" },
        Param {
            name: "helper_us",
            default: "3000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median work of each helper per frame",
        },
        Param {
            name: "side_threads_per_cpu",
            default: "1",
            range: Some((0, 64)),
            words: &[],
            doc: "compiler threads, per CPU; 0: no side job",
        },
        Param { name: "unit_us", default: "15000", range: Some((1, 10_000_000)), words: &[], doc: "work per method" },
        SIDE_POLICY,
    ],
    source: include_str!("phone.rs"),
    build,
};

/// σ of the logarithm of every piece of work, in 1/1000.
const SIGMA_MILLI: u32 = 250;
/// Mean time of a read from flash.
const FLASH_NS: u64 = 400_000;

/// Queues between the stages of a frame.
const VSYNC: u32 = 0;
const HELP: u32 = 1;
const RENDER: u32 = 2;
const COMPOSE: u32 = 3;

fn build(p: &Params) -> Workload {
    let work = |name| {
        let median = p.int(name) * 1000;
        Op::Run(Amount::Random(Dist::LogNormal { median, sigma_milli: SIGMA_MILLI }))
    };
    let put = |queue| Op::Put { queue, forward: true };
    let period = p.int("frame_us") * 1000;
    let tick = Op::Timer { timer: 0, period: Amount::Fixed(period), absolute: true };
    let vsync = vec![tick, Op::Put { queue: VSYNC, forward: false }];
    let mut ui = vec![Op::Get(VSYNC)];
    ui.extend((0..p.int("helpers")).map(|_| put(HELP)));
    ui.extend([work("ui_us"), put(RENDER)]);
    let interrupt = SchedAttr { policy: Policy::Fifo, rt_priority: 50, ..SchedAttr::default() };
    let nice = |nice| SchedAttr { nice, ..SchedAttr::default() };
    let mut tasks = vec![
        task("irq/display", 1, interrupt, forever(vsync)),
        task("ui", 1, nice(-4), forever(ui)),
        task("render", 1, nice(-4), forever(vec![Op::Get(RENDER), work("render_us"), put(COMPOSE)])),
        task("compositor", 1, nice(-8), forever(vec![Op::Get(COMPOSE), work("compose_us"), Op::Mark(0)])),
    ];
    if p.int("helpers") > 0 {
        tasks.push(task("helper", p.int("helpers"), nice(0), forever(vec![Op::Get(HELP), work("helper_us")])));
    }
    let side = p.int("cpus") * p.int("side_threads_per_cpu");
    if side > 0 {
        let read = Op::Device { device: 0, service: Amount::Random(Dist::Exponential { mean: FLASH_NS }) };
        let compile = forever(vec![Op::MarkBegin, read, work("unit_us"), Op::Mark(1)]);
        tasks.push(task("dex2oat", side, p.side_attr(), compile));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        timers: vec![TimerSpec { name: "vsync".into(), shared: false }],
        devices: vec![DeviceSpec { name: "flash".into(), servers: 4, iowait: true }],
        queues: ["vsync", "help", "render", "compose"].map(QueueSpec::new).into(),
        marks: vec!["frame".into(), "method".into()],
        mark_periods: vec![Some(Ns(period)), None],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}
