//! Real devicetrees to import: the thousand that Debian's kernel package for arm64 has, and the test that imports them all.
//!
//! The package is fetched by apt from the machine's own sources, into state of its own: the machine's packages are left alone.

use crate::step::{cargo, output, root, run, run_with};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where everything goes.
const FOLDER: &str = "target/boards";

/// Fetches the package unless it was, and imports every board of it, as `WATTIF_DTBS` tells the test.
pub fn test() -> Result<(), String> {
    let folder = root().join(FOLDER);
    let blobs = folder.join("dtb");
    if !blobs.exists() {
        fetch(&folder)?;
    }
    let args = ["test", "-p", "wattif", "--test", "boards", "--", "--nocapture"];
    run_with(&cargo(), &args, &[("WATTIF_DTBS", &blobs.display().to_string())])
}

fn fetch(folder: &Path) -> Result<(), String> {
    for part in ["state/lists/partial", "cache/archives/partial", "unpacked"] {
        fs::create_dir_all(folder.join(part)).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let at = |part: &str| folder.join(part).display().to_string();
    let own = [
        format!("Dir::State={}", at("state")),
        format!("Dir::Cache={}", at("cache")),
        "Dir::State::status=/dev/null".into(),
        "APT::Architecture=arm64".into(),
        "APT::Architectures=arm64".into(),
    ];
    let apt = |words: &[&'static str]| {
        let options = own.iter().flat_map(|option| ["-o".to_string(), option.clone()]);
        options.chain(words.iter().map(|w| w.to_string())).collect::<Vec<String>>()
    };
    // Sources without packages for arm64 are apt's warnings, not errors.
    run("apt-get", &borrowed(&apt(&["-q", "update"])))?;
    let known = output("apt-cache", &borrowed(&apt(&["search", "--names-only", "^linux-image-[0-9].*-arm64$"])));
    let package = newest(&known.unwrap_or_default()).ok_or("apt knows no linux-image-*-arm64")?;
    // It leaves the package where it runs.
    let mut download = Command::new("apt-get");
    let status = download.args(apt(&["-q", "download"])).arg(&package).current_dir(folder).status();
    if !status.is_ok_and(|s| s.success()) {
        return Err(format!("apt-get download {package} failed"));
    }
    let files = fs::read_dir(folder).map_err(|e| e.to_string())?.flatten().map(|e| e.path());
    let deb = files.filter(|f| f.extension().is_some_and(|e| e == "deb")).max().ok_or("apt left no package")?;
    run("dpkg-deb", &["-x", &deb.display().to_string(), &at("unpacked")])?;
    let images = fs::read_dir(folder.join("unpacked/usr/lib")).map_err(|e| format!("{}: {e}", deb.display()))?;
    let image = images.flatten().find(|e| e.file_name().to_string_lossy().starts_with("linux-image-"));
    let image = image.ok_or_else(|| format!("{package} holds no devicetrees"))?;
    fs::rename(image.path(), folder.join("dtb")).map_err(|e| e.to_string())
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// The plain kernel of the highest version: "linux-image-6.12.117+deb12-arm64 - Linux 6.12 for 64-bit ARMv8 machines".
fn newest(known: &str) -> Option<String> {
    let version = |name: &str| -> Option<Vec<u32>> {
        let version = name.strip_prefix("linux-image-")?.strip_suffix("-arm64")?;
        let plain = !version.contains("-rt") && !version.contains("-cloud") && !version.ends_with("-16k");
        let numbers = version.split(['.', '+', '-']).map_while(|n| n.parse().ok()).collect::<Vec<u32>>();
        (plain && numbers.len() > 2).then_some(numbers)
    };
    known.lines().filter_map(|l| l.split_whitespace().next()).max_by_key(|name| version(name)).map(String::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let known = "linux-image-6.1.0-9-arm64 - x\nlinux-image-6.12-arm64 - meta\nlinux-image-6.12.117+deb12-rt-arm64 - x\n\
                     linux-image-6.12.107+deb12-arm64 - x\nlinux-image-6.12.117+deb12-arm64 - x\n";
        assert_eq!(super::newest(known).as_deref(), Some("linux-image-6.12.117+deb12-arm64"));
        assert_eq!(super::newest(""), None);
    }
}
