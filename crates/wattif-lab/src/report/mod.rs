//! What the report's page shows of one run, besides its metrics: [`Figures`] (curves, frames, energy by place and level, idle
//! states beside an oracle's) and the [`Timeline`] (who ran where, how fast, how asleep). Both listen to the run; the page
//! never sees events.

mod drawings;
mod figures;
mod lanes;
mod timeline;
mod varint;

pub use drawings::{FIGURES, Shown, Swept, draw, never, published, ratios, swept};
pub use figures::{Collector, Curve, EnergyFigure, EnergyRow, Figures, FrameFigure, IdleStateFigure, Instant};
pub use timeline::{Packed, Timeline};
