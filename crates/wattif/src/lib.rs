//! wattif: what-if analysis of Linux CPU scheduling and CPU power management. The facade: files, threads and the
//! command line live here and nowhere else.
//!
//! [`load`] turns names and files into nouns, [`run`] runs them, [`experiment`] runs entries of the gallery, [`verify`] replays
//! vectors of the kernel's own code, and [`cli`] is the command line on top. A run in a few lines:
//!
//! ```
//! use wattif::{Dialect, Ns, RunSpec, Settings, load, run};
//!
//! let settings = Settings::parse(&["cpufreq=performance"])?;
//! let platform = load::platform("hikey620", &settings)?.value;
//! let kernel = load::kernel("linux-5.6", &settings)?.value;
//! let workload = load::workload("server", &platform, Dialect::Workgen, &settings)?.value.workload;
//! let spec = RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(100) };
//!
//! let outcome = run::run(&spec, &mut [])?;
//! assert!(outcome.summary.slices > 0);
//! assert_eq!(outcome.report.cpus.len(), 8);
//! assert_eq!(run::run(&spec, &mut [])?.summary.digest, outcome.summary.digest);
//! # Ok::<(), wattif::Error>(())
//! ```

pub mod bug;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compare;
pub mod data;
mod demand;
pub mod error;
pub mod experiment;
pub mod explain;
#[cfg(feature = "cli")]
mod files;
pub mod load;
#[cfg(feature = "cli")]
pub mod markdown;
#[cfg(feature = "cli")]
pub mod new_file;
#[cfg(feature = "cli")]
pub mod recording;
#[cfg(feature = "cli")]
pub mod reference;
#[cfg(feature = "cli")]
pub mod replay;
pub mod report;
#[cfg(feature = "cli")]
pub mod rtapp_log;
pub mod run;
pub mod settings;
#[cfg(feature = "cli")]
pub mod sweep;
#[cfg(feature = "cli")]
pub mod tables;
pub mod text;
#[cfg(feature = "cli")]
mod topics;
#[cfg(feature = "cli")]
pub mod trace_file;
#[cfg(feature = "cli")]
pub mod tune;
#[cfg(feature = "cli")]
pub mod verify;

#[cfg(feature = "cli")]
pub use error::Look;
pub use error::{Error, Findings};
pub use run::Simulator;
pub use settings::Settings;
pub use wattif_formats::rtapp::Dialect;
pub use wattif_model::Ns;
pub use wattif_model::run::{RunSpec, Runner};
