//! What a command reads and writes: no file is both, and none is written twice.

use crate::data::Collection;
use crate::error::Error;
use crate::load::named_model;
use crate::new_file::is_stdout;
use std::path::{Path, PathBuf};

/// The files of one command, gathered before any is opened.
#[derive(Debug, Default)]
pub struct Files {
    /// What it is called on the command line, and where it is.
    read: Vec<(String, PathBuf)>,
    written: Vec<(String, PathBuf)>,
}

impl Files {
    /// A file that is read; - is standard input, which may be one too.
    pub fn read(mut self, path: impl AsRef<Path>) -> Files {
        let path = path.as_ref();
        let (real, name) = match is_stdout(path) {
            true => (Path::new("/dev/stdin"), "standard input".to_string()),
            false => (path, path.display().to_string()),
        };
        self.read.extend(real.canonicalize().ok().map(|at| (name, at)));
        self
    }

    /// A workload, which may be a model.
    pub fn workload(self, name: &str) -> Files {
        if named_model(name).is_some() { self } else { self.read(name) }
    }

    /// A platform, which may be built in.
    pub fn platform(self, name: &str) -> Files {
        self.unless_built_in(Collection::Platforms, name)
    }

    /// Kernel profiles, which may be built in.
    pub fn kernels<'a>(self, names: impl IntoIterator<Item = &'a String>) -> Files {
        names.into_iter().fold(self, |files, name| files.unless_built_in(Collection::Kernels, name))
    }

    fn unless_built_in(self, collection: Collection, name: &str) -> Files {
        if collection.built_in(name).is_some() { self } else { self.read(name) }
    }

    /// A file that is written, by the option that names it.
    pub fn written(mut self, option: &str, path: impl AsRef<Path>) -> Files {
        let path = path.as_ref();
        self.written
            .extend(place(path).map(|at| (format!("{option} {}", path.display()).trim_start().to_string(), at)));
        self
    }

    /// The same of several, or of an option that was not given.
    pub fn each_written<P: AsRef<Path>>(self, option: &str, paths: impl IntoIterator<Item = P>) -> Files {
        paths.into_iter().fold(self, |files, path| files.written(option, path))
    }

    /// Refuses a file that is written and read, or written twice.
    pub fn check(&self) -> Result<(), Error> {
        for (i, (name, at)) in self.written.iter().enumerate() {
            if let Some((read, _)) = self.read.iter().find(|(_, read)| read == at) {
                return Err(Error::Usage(format!(
                    "{name}: that is {read}, which this command reads: name another file"
                )));
            }
            if let Some((other, _)) = self.written[..i].iter().find(|(_, other)| other == at) {
                return Err(Error::Usage(format!("{name}: that is where {other} is written: name another file")));
            }
        }
        Ok(())
    }
}

/// Where a file will be, behind all links. Devices and pipes take all that is written to them, as standard output does.
fn place(path: &Path) -> Option<PathBuf> {
    if is_stdout(path) {
        return None;
    }
    if let Ok(found) = path.canonicalize() {
        return (found.is_file() || found.is_dir()).then_some(found);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("in.json"), "{}").unwrap();
        let why = |files: Files| files.check().err().map(|e| e.to_string()).unwrap_or_default();
        let read = || Files::default().read(path("in.json")).workload("server").platform("hikey960");
        assert_eq!(why(read().written("--report", path("a.html")).written("--trace", path("a.txt"))), "");
        let again = folder.path().join(".").join("in.json");
        let told = why(read().written("--trace", &again));
        assert!(told.starts_with(&format!("--trace {}: that is ", again.display())), "{told}");
        assert!(told.contains("which this command reads"), "{told}");
        let told = why(read().each_written("--plot", [path("a.svg"), path("./a.svg")]));
        assert!(
            told.ends_with(&format!("that is where --plot {} is written: name another file", path("a.svg").display()))
        );
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("in.json"), path("link")).unwrap();
            assert!(why(read().written("--trace", path("link"))).contains("which this command reads"));
            assert_eq!(why(read().written("--trace", "/dev/null").written("--arrow", "/dev/null")), "");
        }
        assert_eq!(why(read().written("--arrow", "-").written("--trace", path("no/such"))), "");
        assert_eq!(why(Files::default().read(path("server")).written("--trace", path("server"))), "", "there is none");
    }
}
