//! Many settings: which to try, and which are best.
//!
//! An [`Axis`] is something that can be set, with the values to try; a [`Sampling`] turns axes into points; [`pareto`] finds
//! the points that no other beats in both of two metrics.

mod axis;
mod pareto;
mod sampling;

pub use axis::{Axis, Values};
pub use pareto::pareto;
pub use sampling::{Point, Sampling, points};
