//! wattif: what-if analysis of Linux CPU scheduling and CPU power management. The facade: files, threads and the
//! command line live here and nowhere else.

pub mod bug;
pub mod cli;
pub mod data;
pub mod error;
pub mod ftrace;
pub mod load;
pub mod markdown;
pub mod reference;
pub mod run;
pub mod settings;
pub mod text;
pub mod verify;

pub use error::{Error, Findings, Look};
