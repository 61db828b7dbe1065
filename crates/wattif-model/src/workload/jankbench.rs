//! `jankbench`: the tests of JankBench, flings of lists and texts drawn frame by frame.
//!
//! The pipeline is that of `frames` (`wattif explain frames`): dispatch, UI thread, RenderThread, GPU, compositor. A fling
//! draws every vsync for two seconds and a pause follows; `bitmap_upload` draws for half a minute after one touch;
//! `edit_text` is a key stroke in a tenth of a second, each of one
//! frame, short or long by what the text has to be laid out anew. `shadow_grid` and `bitmap_upload` wait for the GPU to take
//! over textures before they issue commands. A key is a touch, too: to the power HAL both are the user.
//!
//! Calibrated: the times of each test, at full speed of the platform's calibration CPU (a little one, as a rule), so that a
//! frame needs 3 ms of a big CPU of 2017 and 1 to 2 ms of one of 2021, as reported; that half of a frame's published time
//! scales with frequency; and that the GPU limits only `shadow_grid`, `overdraw` and `bitmap_upload`. Range tried: a third
//! to three times as much. All that follows is by the published frame times under PELT alone (Snapdragon 835, "WALT vs PELT:
//! Redux", 2017), on that platform with the request of its GPU's driver, on seeds 101 to 108, which no comparison uses.
//! Lists and texts, whose published frames spread more under PELT than under WALT, so that no spread of the work explains both:
//! UI thread and RenderThread by one factor, in steps of 0.02 the one with the least distance from the published quartiles, in
//! logarithms (1.2 for the list, 1.06 for images, 1.04 and 1.06 for texts). The others: work, its spread and the times of GPU and
//! textures with the least distance from the five percentiles; from 12 to 18 starting points of a grid, the one input at a time
//! that comes closest, in steps of 30, 15, 8 and 5 %, until none comes closer; of what these end at the closest. What is left is
//! 4.5 % (`shadow_grid`), 3.9 % (`edit_text`) and 1.2 % (`bitmap_upload`, whose eight closest were measured again on 32 seeds,
//! 1.2 to 2.7 %). Limits: 0.4 to 9 ms of work, σ of 0.2 to 1.1, waits of 0.3 to 14 ms, 3 to 14 ms of the GPU. It was not blind:
//! WALT's frames had been seen for eleven settings tried on the way. All are the same on every kernel and platform.
//!
//! `calls` is 0 for them. A frame of Android also wakes threads of other processes, by Binder calls that nobody waits for; no
//! document says how many and how long, so `calls` and `call_us` are inputs. Where they crowd the UI thread's cluster, threads
//! wait for one another from the first frame of a fling on.
//!
//! Sources: flings of 500 pixels within 20 ms, the next when no frame has come for 320 ms, and the one touch of `bitmap_upload` are those
//! of the benchmark (Android, `tests/JankBench`, behaviour). How long a list then scrolls, and a pause, is estimated.

use super::Workload;
use super::frames::{Episodes, FRAME, Frame, pipeline};
use super::models::{Model, Params, number, word};

/// The model.
pub const MODEL: Model = Model {
    name: "jankbench",
    title: "JankBench: flings of a user interface, frame by frame, with touch events",
    params: &[
        word("test", TESTS, "which of its tests"),
        number("hz", "60", (24, 240), "refresh rate of the display"),
        number("scale_pct", "100", (10, 1000), "CPU work of a frame, percent of the calibrated one"),
        number("pause_ms", "600", (1, 100_000), "mean pause between flings; edit_text: a sixth of it"),
        word("touch", &["yes", "no"], "a touch event begins each fling, a key each stroke"),
        number("calls", "0", (0, 16), "binder threads that the UI thread calls in each frame, nobody waits for them"),
        number("call_us", "600", (1, 100_000), "work of each of these calls, µs"),
    ],
    source: include_str!("jankbench.rs"),
    build,
};

const TESTS: &[&str] = &[
    "list_view",
    "image_list_view",
    "shadow_grid",
    "low_hitrate_text",
    "high_hitrate_text",
    "edit_text",
    "overdraw",
    "bitmap_upload",
];

/// A fling of 500 pixels within 20 ms goes on for about that long.
const FLING_S: u64 = 2;
/// `bitmap_upload` draws for that long after one touch: 100 times 300 ms.
const UPLOAD_S: u64 = 30;

#[rustfmt::skip]
fn frame(test: &str) -> Frame {
    match test {
        "list_view" => Frame { ui_us: 3_960, render_us: 5_280, upload_us: 1_200, gpu_us: 3_000, ..FRAME },
        "image_list_view" => Frame { ui_us: 2_756, render_us: 4_240, upload_us: 1_800, gpu_us: 4_000, ..FRAME },
        "shadow_grid" => Frame { ui_us: 1_900, render_us: 3_250, upload_us: 500, wait_us: 3_250, gpu_us: 7_385, work_sigma: 507, gpu_sigma: 162, ..FRAME },
        "low_hitrate_text" => Frame { ui_us: 3_224, render_us: 4_368, upload_us: 1_600, gpu_us: 4_000, ..FRAME },
        "high_hitrate_text" => Frame { ui_us: 3_074, render_us: 4_452, upload_us: 1_600, gpu_us: 4_000, ..FRAME },
        "edit_text" => Frame { ui_us: 442, render_us: 3_543, upload_us: 900, gpu_us: 5_715, work_sigma: 1_055, ..FRAME },
        "overdraw" => Frame { ui_us: 2_200, render_us: 3_300, upload_us: 1_500, gpu_us: 11_000, ..FRAME },
        _ => Frame { ui_us: 4_500, render_us: 3_300, upload_us: 500, wait_us: 6_154, gpu_us: 4_940, work_sigma: 201, gpu_sigma: 151, ..FRAME },
    }
}

fn build(p: &Params) -> Workload {
    let test = p.word("test");
    let mut frame = frame(test);
    frame.ui_us = frame.ui_us * p.int("scale_pct") / 100;
    frame.render_us = frame.render_us * p.int("scale_pct") / 100;
    (frame.calls, frame.call_us) = (p.int("calls") as u32, p.int("call_us"));
    let (frames, pause_ms) = match test {
        "edit_text" => (1, (p.int("pause_ms") / 6).max(1)),
        "bitmap_upload" => (UPLOAD_S * p.int("hz"), p.int("pause_ms")),
        _ => (FLING_S * p.int("hz"), p.int("pause_ms")),
    };
    let period_ns = 1_000_000_000 / p.int("hz");
    let touch = p.word("touch") == "yes";
    pipeline(&format!("jankbench_{test}"), frame, Episodes { period_ns, frames, pause_ns: pause_ms * 1_000_000, touch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;

    #[test]
    fn every_test_builds_with_matching_loops() {
        for test in TESTS {
            let w = MODEL.workload(&[("test".to_string(), test.to_string())]).unwrap();
            assert_eq!(w.name, format!("jankbench_{test}"));
            assert_eq!(w.mark_periods.len(), w.marks.len());
            for ops in w.tasks.iter().map(|t| &t.program.ops) {
                for (pc, op) in ops.iter().enumerate() {
                    if let Op::Loop { end, .. } = op {
                        assert_eq!(ops[*end as usize], Op::LoopEnd { begin: pc as u32 }, "{test}");
                    }
                }
            }
        }
    }

    #[test]
    fn calls_wake_a_thread_each_in_every_frame() {
        let w = MODEL.workload(&[("calls".into(), "3".into()), ("call_us".into(), "250".into())]).unwrap();
        let ui = w.tasks.iter().find(|t| t.name == "ui").unwrap();
        for n in 0..3 {
            let binder = w.tasks.iter().find(|t| t.name == format!("binder{n}")).unwrap();
            let queue = w.queues.iter().position(|q| q.name == format!("call{n}")).unwrap() as u32;
            assert!(binder.program.ops.contains(&Op::Get(queue)));
            assert!(ui.program.ops.contains(&Op::Put { queue, forward: false }));
        }
        let without = MODEL.workload(&[]).unwrap();
        assert_eq!((w.tasks.len(), w.queues.len()), (without.tasks.len() + 3, without.queues.len() + 3));
    }
}
