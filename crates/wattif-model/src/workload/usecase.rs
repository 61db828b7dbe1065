//! `usecase`: what a phone of 2013 did all day: browse the web, play music, play a video, play a game.
//!
//! The task tables of the use cases published with the report on heterogeneous systems (linux-pm, 20 December 2013), as work
//! at full speed. `web`: pages of a load, a display and a scroll part; the browser's half of the work begins, the renderer's
//! third comes in bursts of one to two seconds, textures are uploaded beside it; `frames.page` is a page's time. `audio`: a
//! tick of the sound card every 6 ms, of which every fourth decodes; `frames.buffer`. `video`: 30 frames a second beside the
//! sound; `frames.frame`. `game`: an engine of 12 ms and three pieces in each frame of 16 ms, and its helpers; `frames.frame`.
//!
//! Shares are of the load, which the tables state for some threads: video 18 % render, 30 % TimedEventQueue, 10 % sound; game
//! 50 % engine, 0.4 % a worker, 6 % render, 3 % kworker. They come out within two points; lengths and rates are kept where stated.
//! What the tables do not name is `others`, as much of it as makes these shares, in pieces of half a millisecond [est]. The lengths
//! and rates stated for the game's graphics driver, main and audio threads make 0.6 % and less; the table has 6, 4 and 3 %: what is
//! left of that is in `others` too. Its engine wakes 240 times a second, of 375 switches in the table.

use super::dist::Dist;
use super::forever;
use super::models::{CPUS, Model, Param, Params};
use super::server::task;
use super::{
    Amount, DeviceSpec, GroupSpec, Op, Policy, QueueSpec, SchedAttr, SemaphoreSpec, TaskSpec, TimerSpec, Workload,
};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "usecase",
    title: "a phone of 2013: web browsing, audio, video or a game, by the published task tables",
    params: &[
        CPUS,
        Param {
            name: "case",
            default: "web",
            range: None,
            words: &["web", "audio", "video", "game"],
            doc: "which table",
        },
        Param {
            name: "page_ms",
            default: "1500",
            range: Some((10, 100_000)),
            words: &[],
            doc: "web: median work of the renderer per page; the browser does 1.5 times that, uploads half",
        },
        Param {
            name: "think_ms",
            default: "2000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "web: mean time of reading between pages",
        },
    ],
    source: include_str!("usecase.rs"),
    build,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Work around `median`, ns.
fn work(median: u64) -> Op {
    Op::Run(Amount::Random(Dist::LogNormal { median, sigma_milli: 250 }))
}

fn put(queue: u32) -> Op {
    Op::Put { queue, forward: true }
}

fn nice(nice: i8) -> SchedAttr {
    SchedAttr { nice, ..SchedAttr::default() }
}

/// An interrupt thread that stamps a token each `period` ns.
fn interrupt(name: &str, timer: u32, period: u64, queue: u32) -> TaskSpec {
    let attr = SchedAttr { policy: Policy::Fifo, rt_priority: 50, ..SchedAttr::default() };
    let tick = Op::Timer { timer, period: Amount::Fixed(period), absolute: true };
    task(name, 1, attr, forever(vec![tick, Op::Run(Amount::Fixed(20 * US)), Op::Put { queue, forward: false }]))
}

/// A task that wakes `per_s` times a second for `ns` of work.
fn ticking(name: &str, instances: u64, attr: SchedAttr, per_s: u64, ns: u64) -> TaskSpec {
    let pause = Op::Sleep(Amount::Random(Dist::Exponential { mean: (1_000_000_000 / per_s).saturating_sub(ns) }));
    task(name, instances, attr, forever(vec![pause, work(ns)]))
}

/// Names of queues, of timers and of the mark, how often that is due, and the tasks.
struct Case {
    queues: &'static [&'static str],
    timers: &'static [&'static str],
    mark: &'static str,
    period: Option<Ns>,
    tasks: Vec<TaskSpec>,
}

/// Pages: the browser prepares, the renderer draws in slices while textures are uploaded; all of it makes a page.
fn web(p: &Params) -> Case {
    const RENDER: u32 = 0;
    const TEXTURE: u32 = 1;
    const DRAWN: u32 = 2;
    const SLICES: u64 = 50;
    let slice = p.int("page_ms") * MS / SLICES;
    // A touch on the screen is an interrupt; then load (a network wait in it), and display and scroll in slices.
    let touch = Op::Device { device: 0, service: Amount::Random(Dist::Exponential { mean: p.int("think_ms") * MS }) };
    let network = Op::Device { device: 1, service: Amount::Random(Dist::Exponential { mean: 20 * MS }) };
    let mut page = vec![touch, Op::MarkBegin, work(slice * 5), network, work(slice * 5)];
    let begin = page.len() as u32 + 1;
    let loop_ops = vec![work(slice + slice * 3 / 10), Op::Put { queue: RENDER, forward: false }, Op::Get(DRAWN)];
    page.push(Op::Loop { count: Some(SLICES), end: begin + loop_ops.len() as u32 + 1 });
    page.extend(loop_ops);
    page.push(Op::LoopEnd { begin });
    // The stamp of the last token is the last slice's: the page's time is told by a thread that only waits.
    let mut reader = page.clone();
    reader.push(Op::SemPost(0));
    let watch = vec![Op::SemWait(1), Op::MarkBegin, Op::SemWait(0), Op::Mark(0)];
    reader.insert(1, Op::SemPost(1));
    let shift = |op: &mut Op| match op {
        Op::Loop { end, .. } => *end += 1,
        Op::LoopEnd { begin } => *begin += 1,
        _ => {}
    };
    reader.iter_mut().for_each(shift);
    let tasks = vec![
        task("browser", 1, nice(0), forever(reader)),
        task("render", 1, nice(0), forever(vec![Op::Get(RENDER), put(TEXTURE), work(slice), put(DRAWN)])),
        task("texture", 1, nice(0), forever(vec![Op::Get(TEXTURE), work(slice / 2)])),
        task("reader", 1, nice(0), forever(watch)),
    ];
    Case { queues: &["render", "texture", "drawn"], timers: &[], mark: "page", period: None, tasks }
}

/// Queues of sound: a tick, a track to fill, a buffer to decode, a callback.
fn audio_tasks(first_queue: u32) -> Vec<TaskSpec> {
    let [tick, track, decode, callback] = [0, 1, 2, 3].map(|q| first_queue + q);
    let mut out = Vec::new();
    for _ in 0..3 {
        out.extend([Op::Get(tick), Op::Run(Amount::Fixed(250 * US))]);
    }
    // Every fourth tick fills the buffer; the track is woken a little into it.
    out.extend([Op::Get(tick), work(275 * US), put(track), work(4_725 * US)]);
    vec![
        interrupt("irq/audio", 0, 6 * MS, tick),
        task("AudioOut", 1, nice(-19), forever(out)),
        task("AudioTrack", 1, nice(-16), forever(vec![Op::Get(track), work(300 * US), put(decode)])),
        task(
            "mp3_decoder",
            1,
            nice(-2),
            forever(vec![Op::Get(decode), work(MS), put(callback), Op::Sleep(Amount::Fixed(500 * US)), work(150 * US)]),
        ),
        task("OMXCallback", 1, nice(-2), forever(vec![Op::Get(callback), work(300 * US), Op::Mark(0)])),
    ]
}

fn audio() -> Case {
    let queues = &["tick", "track", "decode", "callback"];
    Case { queues, timers: &["audio"], mark: "buffer", period: None, tasks: audio_tasks(0) }
}

/// 30 frames a second: events in short pieces, 10 ms of them, feed the renderer in the middle; sound decodes beside.
fn video() -> Case {
    const VSYNC: u32 = 0;
    const FRAME: u32 = 1;
    const PERIOD: u64 = 33_333 * US;
    let mut events = vec![Op::Get(VSYNC)];
    let piece = Dist::Uniform { lo: 250 * US, hi: 700 * US };
    let pieces = |n: usize| {
        std::iter::repeat_n([Op::Run(Amount::Random(piece.clone())), Op::Sleep(Amount::Fixed(250 * US))], n).flatten()
    };
    events.extend(pieces(11));
    events.push(put(FRAME));
    events.extend(pieces(10));
    let tasks = vec![
        interrupt("irq/display", 0, PERIOD, VSYNC),
        task("TimedEventQueue", 1, nice(-1), forever(events)),
        task("render", 1, nice(-4), forever(vec![Op::Get(FRAME), work(6_300 * US), Op::Mark(0)])),
        ticking("audio_decode", 1, nice(-16), 43, 2 * MS),
        ticking("kworker", 1, nice(0), 100, 50 * US),
        ticking("others", 4, nice(0), 200, 540 * US),
    ];
    Case { queues: &["vsync", "frame"], timers: &["vsync"], mark: "frame", period: Some(Ns(PERIOD)), tasks }
}

/// 60 frames a second of an engine that needs most of each, and its helpers. Workers start with the frame and with its pieces; each
/// piece is for the renderer to draw, and with the third the frame is.
fn game(p: &Params) -> Case {
    const VSYNC: u32 = 0;
    const WORK: u32 = 1;
    const FRAME: u32 = 2;
    const PERIOD: u64 = 16_667 * US;
    let cpus = p.int("cpus");
    let mut engine = vec![Op::Get(VSYNC)];
    let hand_out = |engine: &mut Vec<Op>| {
        let begin = engine.len() as u32 + 1;
        engine.extend([Op::Loop { count: Some(cpus), end: begin + 2 }, put(WORK), Op::LoopEnd { begin }]);
    };
    hand_out(&mut engine);
    engine.push(Op::Run(Amount::Random(Dist::Uniform { lo: 11 * MS, hi: 13 * MS })));
    hand_out(&mut engine);
    for _ in 0..3 {
        engine.extend([Op::Sleep(Amount::Fixed(200 * US)), work(700 * US), put(FRAME)]);
    }
    let draw = [Op::Get(FRAME), work(420 * US)];
    let mut render: Vec<Op> = std::iter::repeat_n(draw, 3).flatten().collect();
    render.push(Op::Mark(0));
    let tasks = vec![
        interrupt("irq/display", 0, PERIOD, VSYNC),
        task("engine", 1, nice(0), forever(engine)),
        task("worker", cpus, nice(0), forever(vec![Op::Get(WORK), work(56 * US)])),
        task("render", 1, nice(-4), forever(render)),
        ticking("gpu_driver", 1, nice(0), 700, 11 * US),
        ticking("main", 1, nice(0), 170, 37 * US),
        ticking("audio", 1, nice(-16), 120, 42 * US),
        ticking("kworker", 1, nice(0), 300, 170 * US),
        ticking("others", 4, nice(0), 300, 555 * US),
    ];
    Case { queues: &["vsync", "work", "frame"], timers: &["vsync"], mark: "frame", period: Some(Ns(PERIOD)), tasks }
}

fn build(p: &Params) -> Workload {
    let case = match p.word("case") {
        "audio" => audio(),
        "video" => video(),
        "game" => game(p),
        _ => web(p),
    };
    let timer = |name: &&str| TimerSpec { name: name.to_string(), shared: false };
    Workload {
        name: format!("{}_{}", MODEL.name, p.word("case")),
        duration: Some(Ns::from_s(30)),
        tasks: case.tasks,
        timers: case.timers.iter().map(timer).collect(),
        semaphores: ["drawn", "asked"].map(|name| SemaphoreSpec::new(name, 0)).into(),
        devices: ["screen", "network"].map(|name| DeviceSpec { name: name.into(), servers: 1, iowait: true }).into(),
        queues: case.queues.iter().copied().map(QueueSpec::new).collect(),
        marks: vec![case.mark.into()],
        mark_periods: vec![case.period],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_mark() {
        for (case, mark) in [("web", "page"), ("audio", "buffer"), ("video", "frame"), ("game", "frame")] {
            let w = MODEL.workload(&[("case".to_string(), case.to_string())]).unwrap();
            assert_eq!((w.marks[0].as_str(), &w.name), (mark, &format!("usecase_{case}")));
            // The tick of the display, where it is drawn for one.
            let tick = w.tasks.iter().filter(|t| t.name == "irq/display").find_map(|t| match t.program.ops[1] {
                Op::Timer { period: Amount::Fixed(ns), .. } => Some(Ns(ns)),
                _ => None,
            });
            assert_eq!((w.mark_periods, tick.is_some()), (vec![tick], mark == "frame"), "{case}");
            for t in &w.tasks {
                for (pc, op) in t.program.ops.iter().enumerate() {
                    if let Op::Loop { end, .. } = op {
                        let back = Op::LoopEnd { begin: pc as u32 };
                        assert_eq!(t.program.ops[*end as usize], back, "{case} {}", t.name);
                    }
                }
            }
        }
        assert_eq!(MODEL.workload(&[("case".to_string(), "dance".to_string())]).unwrap_err().len(), 1);
    }
}
