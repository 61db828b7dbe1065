//! Events as tables: Arrow record batches by the schema of [`wattif_model::trace::columns`], and the files of them.
//!
//! [`TableTrace`] writes one table of all events, an Arrow IPC file (as Feather version 2, packed with LZ4) or a Parquet
//! file, while the run goes on. [`EventTables`] keeps a table for each event in memory. Each field of a schema carries
//! `unit` and `doc` as metadata; a file's own metadata says who wrote it, of which run, and lists the threads.
//!
//! Tables are for data frames and are not read back: the readers there are trust lengths in the file too much for files
//! from outside.

mod rows;
mod write;

pub use rows::{EventTables, schema};
pub use write::{TableFormat, TableTrace};

/// Keys of a file's metadata.
mod key {
    pub const GENERATOR: &str = "wattif.generator";
    pub const KERNEL: &str = "wattif.kernel";
    pub const SPEC: &str = "wattif.spec";
    /// JSON: an array of objects with pid, comm, task, policy, workload; where they are not the root and not nothing, also group (its path) and
    /// runtime_ns, deadline_ns, period_ns of SCHED_DEADLINE; where they were asked for, slice_ns, util_min, util_max; where they are
    /// not all, cpus, as `0-3,6`.
    pub const THREADS: &str = "wattif.threads";
    pub const CPUS: &str = "wattif.cpus";
    /// When the run ended, by the clock of `time_ns`.
    pub const END: &str = "wattif.end_ns";
    /// JSON: an object with events and gaps; of recordings that lost some.
    pub const LOST: &str = "wattif.lost";
}
