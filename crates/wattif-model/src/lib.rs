//! The nouns of wattif: platform, workload, kernel, run, trace. No behaviour, no I/O.
//!
//! Read in this order: [`units`] and [`ids`], then [`platform`], [`workload`], [`kernel`], which together make a
//! [`run::RunSpec`]; a run produces [`trace::Event`]s for [`trace::Observer`]s. [`check`] holds the diagnostics every
//! parser and validator returns.

pub mod check;
pub mod ids;
pub mod kernel;
pub mod platform;
pub mod run;
pub mod trace;
pub mod units;
pub mod workload;

pub use ids::{ClusterId, CpuId, CpuSet, DomainId, Pid};
pub use units::{Fj, Khz, Ns, Uw};
