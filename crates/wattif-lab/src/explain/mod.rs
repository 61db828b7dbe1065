//! Two runs of the same workload: why do they differ?
//!
//! [`Decisions`] finds where the policies part for the first time. [`EnergyBy`] and [`Waits`] split what a run used and what
//! its threads waited for, exactly, so that a difference of two splits sums to the difference of the totals. [`Part`] mixes
//! two kernel profiles and [`shapley`] shares a difference between what was mixed; [`switches`] walks from one profile to the
//! other, one switch at a time. [`Explanation`] puts it together.

mod decisions;
mod energy;
mod explanation;
mod parts;
mod render;
mod shares;
mod switches;
mod waits;

pub use decisions::{Decision, Decisions, Parting, Recorder, parting};
pub use energy::{EnergyBy, EnergyCell, EnergySplit, Level, Place};
pub use explanation::{Bin, EnergyDelta, Explanation, Findings, First, Row, SCHEMA, Side, WaitDelta};
pub use parts::{KernelView, Part, combinations, mix};
pub use shares::{Share, Shares, shapley};
pub use switches::{Bisection, Step, Switch, carries, switches};
pub use waits::{WaitSplit, Waits};
