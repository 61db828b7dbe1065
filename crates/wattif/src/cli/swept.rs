//! The options of what is varied, shared by the verbs that go through a store.

use super::inputs::{dialects, whole};
use crate::Dialect;
use crate::error::Error;
use crate::files::Files;
use crate::new_file::named;
use crate::settings::duration_ns;
use crate::sweep::Question;
use std::path::PathBuf;
use wattif_lab::sweep::{Axis, Sampling, Values};
use wattif_model::Ns;

/// Workload, axes, what no axis sets, and the store.
#[derive(Debug, clap::Args)]
pub struct Swept {
    /// An rt-app JSON file, a workload of the gallery, or a model.
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// What is varied: kernel, platform, or anything --set takes; values 1,2,4 or FROM..TO, in a grid FROM..TO/STEPS. Repeatable.
    #[arg(long, value_name = "NAME=VALUES", required = true)]
    axis: Vec<String>,
    /// Machine, where no axis says otherwise.
    #[arg(short, long, value_name = "PLATFORM", default_value = "hikey960")]
    pub platform: String,
    /// Kernel profile, where no axis says otherwise.
    #[arg(short, long, value_name = "KERNEL", default_value = "linux-6.12")]
    pub kernel: String,
    /// Override for all points, as in `run`; repeatable.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Simulated time of each run; the workload's own or 10 s by default.
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub duration: Option<u64>,
    /// First seed; also that of the sample or the search.
    #[arg(long, default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    pub seed: u64,
    /// Where finished runs are kept.
    #[arg(long, value_name = "FILE", default_value = "wattif-sweep.sqlite", value_parser = named())]
    pub store: PathBuf,
    /// How rt-app files are read.
    #[arg(long, value_parser = dialects(), default_value = "workgen")]
    pub dialect: Dialect,
}

impl Swept {
    /// The files of these: of what is set to several values, each may be one.
    pub fn files(&self) -> Files {
        let axes = self.axis.iter().filter_map(|text| Axis::parse(text).ok());
        let mut files = Files::default().workload(&self.workload).platform(&self.platform).kernels([&self.kernel]);
        for axis in axes {
            let Values::List(values) = axis.values else { continue };
            files = match axis.name.as_str() {
                "kernel" => files.kernels(&values),
                "platform" => values.iter().fold(files, |files, name| files.platform(name)),
                _ => files,
            };
        }
        files.written("--store", &self.store)
    }

    /// With so many seeds of every point, from the first on.
    pub fn question(&self, sampling: Sampling, seeds: u64) -> Result<Question, Error> {
        let axes = self.axis.iter().map(|text| Axis::parse(text)).collect::<Result<_, _>>();
        Ok(Question {
            workload: self.workload.clone(),
            platform: self.platform.clone(),
            kernel: self.kernel.clone(),
            set: self.set.clone(),
            axes: axes.map_err(|why| Error::Usage(format!("--axis {why}")))?,
            sampling,
            seeds: crate::run::seeds(self.seed, seeds)?,
            duration: self.duration.map(Ns),
            dialect: self.dialect,
        })
    }
}
