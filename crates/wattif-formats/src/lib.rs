//! Bytes in, nouns out: readers (and, with time, writers) of the file formats around a run. No file I/O here: text or
//! bytes come in, a noun of `wattif-model` and a list of diagnostics go out.
//!
//! | module | reads | into |
//! |---|---|---|
//! | [`archive`] | archives of `wattif record` | trace, platform and profile |
//! | [`cgroup`] | files of a cpu cgroup | `GroupSpec` |
//! | [`rtapp`] | rt-app JSON | `Workload` |
//! | [`platform_toml`] | platform files | `Platform` |
//! | [`kernel_toml`] | kernel profiles | `KernelSpec` |
//! | [`dtb`], [`sysfs`] | devicetree blobs, live machines | platform files, kernel profiles |
//! | [`workload_json`] | our own workload files | `Workload` |
//! | [`trace`] | trace.dat, ftrace text, systrace, perf script, Perfetto | `Recording` |

pub mod archive;
pub mod cgroup;
pub mod dtb;
pub mod kernel_toml;
mod machine;
pub mod platform_toml;
pub mod rtapp;
pub mod sysfs;
mod toml_tree;
pub mod trace;
mod words;
pub mod workload_json;

pub use words::alike;
