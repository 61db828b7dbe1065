//! A live machine, or a capture of its `/sys` and `/proc`, into a platform file and a kernel profile. Reading files is the
//! caller's: here a closure gives the content of a path below the root.
//!
//! Codes: `sysfs::E01` no CPUs there · `sysfs::E02` nothing of a kernel is recognised · `sysfs::E03` no platform can be made of what
//! is told · `sysfs::W01` something is missing · `sysfs::W02` a profile is of another version · `sysfs::W03` the kernel does what is
//! not simulated · `sysfs::W04` CPUs are set differently, and a profile has one value · `sysfs::N01` a scheduler feature is not
//! simulated · `sysfs::N02` frequencies of a boost that is off · `sysfs::N03` limits of frequencies, which are no part of a platform ·
//! `sysfs::N04` distances of NUMA nodes · `sysfs::N05` caches that reach beyond packages.

mod boot;
mod kernel;
mod platform;

pub use kernel::{KernelFacts, kernel};
pub use platform::platform;

use std::io::{self, Read};
use wattif_model::check::Diagnostic;

/// Content of a file below the root, such as `sys/devices/system/cpu/online`, by [`text_of`]; `None` where it is not.
pub type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Most bytes of a file, unpacked.
const MAX_TEXT: u64 = 64 << 20;

/// The text in the bytes of a file; gzip, as around `/proc/config.gz`, is taken off. An error where it is damaged or no text.
pub fn text_of(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => flate2::read::GzDecoder::new(bytes).take(MAX_TEXT).read_to_string(&mut text),
        false => bytes.take(MAX_TEXT).read_to_string(&mut text),
    }?;
    Ok(text)
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The file, when there is no error.
    pub toml: Option<String>,
    /// All findings.
    pub diagnostics: Vec<Diagnostic>,
}

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
fn number(files: Files<'_>, path: &str) -> Option<u64> {
    files(path)?.trim().parse().ok()
}

fn cpus_in(files: Files<'_>, path: &str) -> Option<Vec<u32>> {
    crate::platform_toml::cpus_of(files(path)?.trim())
}

/// CPUs that are online: an offline one tells neither its clock nor its place.
fn online(files: Files<'_>) -> Option<Vec<u32>> {
    let told = ["online", "present", "possible"].iter().find_map(|f| cpus_in(files, &format!("{CPU}/{f}")));
    told.filter(|cpus| !cpus.is_empty())
}
