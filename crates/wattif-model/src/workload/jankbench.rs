//! `jankbench`: the tests of JankBench, flings of lists and texts drawn frame by frame.
//!
//! The pipeline is that of `frames`: dispatch, UI thread, RenderThread, GPU, compositor. A fling draws every vsync for a second and a
//! pause follows; `edit_text` is a key stroke in a tenth of a second, each of one frame; `bitmap_upload` waits for textures and GPU.
//!
//! Calibrated: the times of each test, at full speed of the platform's calibration CPU (a little one, as a rule), so that a frame needs
//! 3 ms of a big CPU of 2017 and 1 to 2 ms of one of 2021, as reported; that half of a frame's published time scales with frequency;
//! and that the GPU limits only `shadow_grid`, `overdraw` and `bitmap_upload`. They are the same on every kernel and platform.
//! Range tried: a third to three times as much.

use super::Workload;
use super::frames::{Episodes, Frame, pipeline};
use super::models::{Model, Params, number, word};

/// The model.
pub const MODEL: Model = Model {
    name: "jankbench",
    title: "JankBench: flings of a user interface, frame by frame, with touch events",
    params: &[
        word("test", TESTS, "which of its tests"),
        number("hz", "60", (24, 240), "refresh rate of the display"),
        number("scale_pct", "100", (10, 1000), "CPU work of a frame, percent of the calibrated one"),
        number("pause_ms", "600", (1, 100_000), "mean pause between flings; edit_text: a tenth of it"),
        word("touch", &["yes", "no"], "a touch event begins each fling"),
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

fn frame(test: &str) -> Frame {
    let (ui_us, render_us, upload_us, gpu_us) = match test {
        "list_view" => (3_300, 4_400, 1_200, 3_000),
        "image_list_view" => (2_600, 4_000, 1_800, 4_000),
        "shadow_grid" => (3_300, 4_400, 2_500, 10_000),
        "low_hitrate_text" => (3_100, 4_200, 1_600, 4_000),
        "high_hitrate_text" => (2_900, 4_200, 1_600, 4_000),
        "edit_text" => (1_400, 1_600, 1_200, 3_000),
        "overdraw" => (2_200, 3_300, 1_500, 11_000),
        _ => (2_600, 4_000, 7_000, 12_000),
    };
    Frame { ui_us, render_us, upload_us, gpu_us }
}

fn build(p: &Params) -> Workload {
    let test = p.word("test");
    let mut frame = frame(test);
    frame.ui_us = frame.ui_us * p.int("scale_pct") / 100;
    frame.render_us = frame.render_us * p.int("scale_pct") / 100;
    let (frames, pause_ms) = match test {
        "edit_text" => (1, (p.int("pause_ms") / 6).max(1)),
        _ => (p.int("hz"), p.int("pause_ms")),
    };
    let period_ns = 1_000_000_000 / p.int("hz");
    // A key stroke is no touch.
    let touch = p.word("touch") == "yes" && test != "edit_text";
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
}
