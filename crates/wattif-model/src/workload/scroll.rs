//! `scroll`: reading a feed: a flick of the finger scrolls it for a moment, then the reader reads.
//!
//! The pipeline is that of `frames` (`wattif explain frames`). Calibrated: work and pauses of two applications;
//! range tried: half to twice as much.
//!
//! Sources: two applications, flicks of the finger and pauses to read are named in "WALT vs PELT: Redux" (2017), without
//! lengths or work; the pipeline's are at `frames`.

use super::Workload;
use super::frames::{Episodes, FRAME, Frame, pipeline};
use super::models::{Model, Params, number, word};

/// The model.
pub const MODEL: Model = Model {
    name: "scroll",
    title: "scrolling through a feed: three quarters of a second of frames, then seconds of reading",
    params: &[
        word("app", &["twitter", "facebook"], "whose feed"),
        number("hz", "60", (24, 240), "refresh rate of the display"),
        number("read_ms", "2000", (1, 100_000), "mean time of reading between two flicks"),
        word("touch", &["yes", "no"], "a touch event begins each flick"),
    ],
    source: include_str!("scroll.rs"),
    build,
};

fn build(p: &Params) -> Workload {
    let app = p.word("app");
    let frame = match app {
        "twitter" => Frame { ui_us: 900, render_us: 1_000, upload_us: 2_000, gpu_us: 4_000, ..FRAME },
        _ => Frame { ui_us: 1_500, render_us: 1_200, upload_us: 2_500, gpu_us: 5_000, ..FRAME },
    };
    let episodes = Episodes {
        period_ns: 1_000_000_000 / p.int("hz"),
        frames: p.int("hz") * 3 / 4,
        pause_ns: p.int("read_ms") * 1_000_000,
        touch: p.word("touch") == "yes",
    };
    pipeline(&format!("scroll_{app}"), frame, episodes)
}
