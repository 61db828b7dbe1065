//! A file that has its name only when it is complete.

use crate::error::Error;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A temporary file beside its later name, or the device or pipe that has the name: nothing is renamed over those.
#[derive(Debug)]
pub struct NewFile {
    /// As it was asked for.
    path: PathBuf,
    /// Behind all links.
    target: PathBuf,
    folder: PathBuf,
    begun: Begun,
}

#[derive(Debug)]
enum Begun {
    Temporary(NamedTempFile),
    Device(File),
}

/// `-`, where a file is to be written: standard output, and never a file of that name. Text and tables that may go there ask
/// this first; for all else [`NewFile::create`] and [`named`] refuse it.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// The name of a file or folder that cannot be standard output, as an argument.
pub fn named() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| if is_stdout(&path) { Err(NOT_STDOUT) } else { Ok(path) })
}

/// The same of a file whose name has one of these endings; where it has none, that is `why`.
pub fn ending_in(endings: &'static [&'static str], why: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    let fits = |path: &PathBuf| path.extension().is_some_and(|e| endings.iter().any(|one| e.eq_ignore_ascii_case(one)));
    named().try_map(move |path| if fits(&path) { Ok(path) } else { Err(why) })
}

/// Refuses a table on standard output beside what an option prints there.
pub fn alone_on_stdout(arrow: Option<&Path>, printed: &[(&str, bool)]) -> Result<(), Error> {
    match printed.iter().find(|(_, given)| *given && arrow.is_some_and(is_stdout)) {
        Some((option, _)) => Err(Error::Usage(format!(
            "{option} and --arrow - are both for standard output: write the table to a file, --arrow FILE.arrow"
        ))),
        None => Ok(()),
    }
}

const NOT_STDOUT: &str =
    "- is standard output, which this is not written to: give it a name, or ./- for one of that name";

impl NewFile {
    /// Begin a file of this name, which is no folder's; behind a symbolic link it is the file that the link leads to.
    pub fn create(path: &Path) -> Result<NewFile, Error> {
        if is_stdout(path) {
            return Err(Error::Usage(NOT_STDOUT.into()));
        }
        let failed = |e: io::Error| Error::file(path, e);
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let begun = match target.metadata() {
            Ok(found) if found.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                Begun::Device(OpenOptions::new().write(true).open(&target).map_err(failed)?)
            }
            found => Begun::Temporary(beside(&target, found.ok()).map_err(failed)?),
        };
        let folder = match &begun {
            Begun::Temporary(_) => folder_of(&target).to_path_buf(),
            Begun::Device(_) => std::env::temp_dir(),
        };
        Ok(NewFile { path: path.to_path_buf(), target, folder, begun })
    }

    /// What is written to.
    pub fn file(&self) -> &File {
        match &self.begun {
            Begun::Temporary(file) => file.as_file(),
            Begun::Device(file) => file,
        }
    }

    /// Where other files may be made that belong to it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// It is complete.
    pub fn finish(self) -> Result<(), Error> {
        if let Begun::Temporary(file) = self.begun {
            file.persist(&self.target).map_err(|e| Error::file(&self.path, e.error))?;
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file as readable as what it replaces, or where that is nothing as any file the user makes (umask).
fn beside(target: &Path, replaced: Option<Metadata>) -> io::Result<NamedTempFile> {
    let replaced = replaced.filter(Metadata::is_file);
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if replaced.is_none() {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder_of(target))?;
    if let Some(replaced) = replaced {
        file.as_file().set_permissions(replaced.permissions())?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) -> Result<(), Error> {
        let mut file = NewFile::create(path)?;
        file.write_all(text.as_bytes()).map_err(|e| Error::file(path, e))?;
        file.finish()
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let begun = NewFile::create(&path).unwrap();
        assert!(!path.exists());
        drop(begun);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "what is not finished leaves nothing");
        write(&path, "one").unwrap();
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write(&link, "two").unwrap();
            assert!(link.symlink_metadata().unwrap().is_symlink());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        }
        let why = write(&folder.path().join("no/such"), "").unwrap_err().to_string();
        assert!(why.contains("no/such"), "{why}");
        // Before anything is written.
        let why = NewFile::create(folder.path()).unwrap_err().to_string();
        assert!(why.contains("directory"), "{why}");
    }

    /// A device is written to and not replaced; one that is full says so.
    #[test]
    #[cfg(target_os = "linux")]
    fn devices_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt;
        write(Path::new("/dev/null"), "nothing").unwrap();
        let why = write(Path::new("/dev/full"), "too much").unwrap_err().to_string();
        assert!(why.starts_with("/dev/full: ") && why.contains("space"), "{why}");
        for device in ["/dev/null", "/dev/full"] {
            assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
        }
    }
}
