//! The data that is built in: platforms, kernel profiles, the gallery; and how a name becomes a text.
//!
//! A name without a separator and extension is looked up here; anything else is a path; `-` is standard input.

use crate::bug;
use crate::error::{Error, nearest};
use include_dir::{Dir, File, include_dir};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

static PLATFORMS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../platforms");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../kernels");
static GALLERY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../gallery");
/// Workloads that the documentation runs.
static EXAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../docs/examples");

/// An input file may not be larger: 512 MiB.
pub const MAX_INPUT_BYTES: u64 = 512 << 20;

/// A text with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path, or what is built in, or `stdin`.
    pub name: String,
    /// Contents.
    pub text: Arc<str>,
}

/// A collection of built-in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// `platforms/*.toml`.
    Platforms,
    /// `kernels/*.toml`.
    Kernels,
}

impl Collection {
    fn dir(self) -> &'static Dir<'static> {
        match self {
            Collection::Platforms => &PLATFORMS,
            Collection::Kernels => &KERNELS,
        }
    }
    fn noun(self) -> (&'static str, &'static str) {
        match self {
            Collection::Platforms => ("platform", "wattif list platforms"),
            Collection::Kernels => ("kernel", "wattif list kernels"),
        }
    }
    /// Names of all members, sorted as people count (`linux-5.6` before `linux-5.14`).
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.dir().files().filter(|f| has_extension(f, "toml")).map(name_of).collect();
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        names
    }
    /// The built-in member of this name.
    pub fn built_in(self, name: &str) -> Option<Source> {
        let file = self.dir().get_file(format!("{name}.toml"))?;
        Some(Source { name: format!("{} {name} (built in)", self.noun().0), ..source(file) })
    }
    /// Is it the text of a built-in member, by whatever name it was read?
    pub fn holds(self, text: &str) -> bool {
        self.dir().files().any(|f| f.contents_utf8() == Some(text))
    }
    /// A built-in name, a path, or `-`.
    pub fn resolve(self, name: &str) -> Result<Source, Error> {
        if let Some(source) = self.built_in(name) {
            return Ok(source);
        }
        if name == "-" || is_path(name) {
            return read(name);
        }
        let (what, list) = self.noun();
        Err(Error::unknown(what, name, self.names(), list))
    }
}

/// Names of the gallery's experiments.
pub fn experiments() -> Vec<&'static str> {
    let mut names: Vec<&str> = GALLERY
        .dirs()
        .filter(|d| d.get_file(d.path().join("experiment.toml")).is_some())
        .filter_map(|d| d.path().file_name()?.to_str())
        .collect();
    names.sort_unstable();
    names
}

/// A file of an experiment, such as `experiment.toml`; `experiment` is its name, `gallery/NAME`, or a folder.
pub fn experiment_file(experiment: &str, file: &str) -> Result<Source, Error> {
    let name = experiment.trim_end_matches('/');
    let name = name.strip_prefix("gallery/").unwrap_or(name);
    if let Some(found) = GALLERY.get_file(Path::new(name).join(file)) {
        return Ok(source(found));
    }
    if Path::new(experiment).is_dir() {
        return read(&Path::new(experiment).join(file).display().to_string());
    }
    if GALLERY.get_dir(name).is_some() {
        return Err(Error::file(format!("gallery/{name}/{file}"), "the experiment has no such file"));
    }
    Err(Error::unknown("experiment", name, experiments(), "wattif list experiments"))
}

/// Workloads of the gallery, as `experiment/file.json`.
pub fn workloads() -> Vec<String> {
    let mut names: Vec<String> = GALLERY
        .dirs()
        .flat_map(|d| d.files())
        .filter(|f| has_extension(f, "json"))
        .map(|f| f.path().display().to_string())
        .collect();
    names.sort_unstable();
    names
}

/// Names of all workloads: the models, and those of the gallery with the prefix it goes by.
pub fn workload_names() -> Vec<String> {
    let models = wattif_model::workload::models::MODELS.iter().map(|m| m.name.to_string());
    models.chain(workloads().into_iter().map(|w| format!("gallery/{w}"))).collect()
}

/// A workload: a path, `-`, or one of the gallery (`gallery/sched_idle_placement/sched_idle.json`, or `sched_idle`).
pub fn workload(name: &str) -> Result<Source, Error> {
    if name == "-" || Path::new(name).is_file() {
        return read(name);
    }
    let short = name.strip_prefix("gallery/").unwrap_or(name);
    let all = workloads();
    let found = all.iter().find(|w| *w == short || Path::new(w).file_stem().is_some_and(|s| s == short));
    if let Some(file) = found.and_then(|w| GALLERY.get_file(w)) {
        return Ok(source(file));
    }
    if let Some(file) = name.strip_prefix("docs/examples/").and_then(|file| EXAMPLES.get_file(file)) {
        return Ok(Source { name: name.into(), ..source(file) });
    }
    if experiments().contains(&short.trim_end_matches('/')) {
        return Err(Error::Usage(format!(
            "`{name}` is an experiment, not a workload: wattif repro {0}, or wattif compare gallery/{0}",
            short.trim_end_matches('/')
        )));
    }
    if name.starts_with("gallery/") && !Path::new(name).exists() {
        let known = experiments().into_iter().chain(all.iter().map(String::as_str));
        return Err(Error::unknown("entry of the gallery", short, known, "wattif list experiments"));
    }
    if is_path(name) {
        return read(name);
    }
    let stems = all.iter().filter_map(|w| Path::new(w).file_stem()?.to_str());
    let models = wattif_model::workload::models::MODELS.iter().map(|m| m.name);
    // Of a model with parameters the name alone is like others.
    let model = name.split(':').next().unwrap_or(name);
    let near = nearest(model, stems.chain(models));
    Err(Error::Unknown { what: "workload", name: name.to_string(), near, list: "wattif list workloads" })
}

/// The `title` of a built-in file; else its first comment line, without its `#`, and without a leading `path:`.
pub fn headline(text: &str) -> String {
    let title = text.parse::<toml::Table>().ok().and_then(|t| t.get("title")?.as_str().map(String::from));
    if let Some(title) = title {
        return title;
    }
    let first = text.lines().next().unwrap_or("").trim_start_matches('#').trim();
    first.split_once(": ").map_or(first, |(_, rest)| rest).to_string()
}

/// The text of a file, or of standard input for `-`, bounded by [`MAX_INPUT_BYTES`].
pub fn read(path: &str) -> Result<Source, Error> {
    let bytes = bytes(path)?;
    let text = String::from_utf8(bytes)
        .map_err(|e| Error::file(path, format!("not UTF-8 text: byte {} is invalid", e.utf8_error().valid_up_to())))?;
    let name = if path == "-" { "stdin".to_string() } else { path.to_string() };
    Ok(Source { name, text: text.into() })
}

/// The bytes of a file, or of standard input for `-`, bounded by [`MAX_INPUT_BYTES`]: a file that says it is larger is not read.
pub fn bytes(path: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let failed = |e| Error::file(path, e);
    if path == "-" {
        bug::reads_stdin();
    }
    let length = match path {
        "-" => std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)? as u64,
        _ => {
            let file = std::fs::File::open(path).map_err(failed)?;
            match file.metadata().map_err(failed)?.len() {
                large if large > MAX_INPUT_BYTES => large,
                _ => file.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)? as u64,
            }
        }
    };
    match length > MAX_INPUT_BYTES {
        true => Err(Error::file(path, format!("larger than {} MiB", MAX_INPUT_BYTES >> 20))),
        false => Ok(bytes),
    }
}

fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".toml") || name.ends_with(".json")
}

fn source(file: &File<'static>) -> Source {
    let text = file.contents_utf8().expect("built-in files are text");
    Source { name: file.path().display().to_string(), text: text.into() }
}

fn has_extension(file: &File<'_>, extension: &str) -> bool {
    file.path().extension().is_some_and(|e| e == extension)
}

fn name_of<'a>(file: &File<'a>) -> &'a str {
    file.path().file_stem().and_then(|s| s.to_str()).unwrap_or("")
}

/// Sort key that compares runs of digits as numbers.
fn natural(name: &str) -> Vec<(u64, &str)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let text = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| i + digits);
        key.push((rest[..digits].parse().unwrap_or(0), &rest[digits..text]));
        rest = &rest[text..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_numbers() {
        let mut names = ["linux-5.14", "linux-5.6", "android-4.9", "linux-5.4"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["android-4.9", "linux-5.4", "linux-5.6", "linux-5.14"]);
    }

    #[test]
    fn headline_drops_the_name() {
        assert_eq!(headline("# HiKey 620: a board\nname = 1"), "a board");
    }
}
