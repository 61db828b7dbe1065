//! A recording in one file: a tar archive (ustar, as `tar tf` lists it) of the trace, the platform and the kernel profile.

use wattif_model::check::Diagnostic;

/// Bytes of a header and of a block.
const BLOCK: usize = 512;
/// More members are no recording.
const MAX_MEMBERS: usize = 64;
/// Most bytes of a member that is text.
const MAX_TEXT: usize = 16 << 20;

/// What a recording consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive<'a> {
    /// `trace.dat`, or a trace in another format under a name that begins with `trace.`.
    pub trace: &'a [u8],
    /// `platform.toml`.
    pub platform: Option<&'a str>,
    /// `kernel.toml`.
    pub kernel: Option<&'a str>,
    /// What its last member has lost, if the archive is cut.
    pub cut: Option<Diagnostic>,
    /// That member is the trace.
    pub trace_is_cut: bool,
}

impl Archive<'_> {
    /// Of the trace, too little is left to read any of it, as its reader says.
    pub fn lost(&self, said: &[Diagnostic]) -> Option<Diagnostic> {
        let cut = self.cut.as_ref().filter(|_| self.trace_is_cut)?;
        let said: Vec<&str> = said.iter().map(|d| d.message.as_str()).collect();
        Some(truncated(format!("{}, too few to read any of it ({})", cut.message, said.join("; "))))
    }
}

/// A cut archive of which nothing can be used.
fn truncated(why: String) -> Diagnostic {
    Diagnostic::error("archive::E01", 0..0, format!("the archive is truncated and its trace is lost: {why}"))
        .help("copy the archive again, whole; the platform and the kernel stand before the trace: `tar xf` gives those that are there")
}

/// Does it begin as an archive does?
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// The members of an archive. What is no recording is refused with the reason.
pub fn read(bytes: &[u8]) -> Result<Archive<'_>, Diagnostic> {
    let refused = |why: String| {
        Diagnostic::error("archive::E01", 0..0, why)
            .help("an archive as `wattif record` makes it holds trace.dat, platform.toml and kernel.toml")
    };
    let mut archive = Archive::default();
    let cut = |why: String| {
        let help = "the archive is truncated: what it holds of a trace is used, part of a platform or a kernel is not";
        Diagnostic::warning("archive::W01", 0..0, why).help(help)
    };
    let (mut rest, mut found, mut ended) = (bytes, false, true);
    for _ in 0..MAX_MEMBERS {
        // Blocks of zeros, or nothing, end it.
        let Some((header, after)) = rest.split_at_checked(BLOCK) else {
            if archive.cut.is_none() && rest.iter().any(|b| *b != 0) {
                let why = format!("of the header of a member {BLOCK} bytes are needed; {} are left", rest.len());
                archive.cut = Some(cut(why));
            }
            ended = false;
            break;
        };
        if header[0] == 0 {
            break;
        }
        if !is_archive(header) {
            return Err(refused("a member of the archive has no ustar header".into()));
        }
        let size = octal(&header[124..136]).ok_or_else(|| refused("a size in the archive is no number".into()))?;
        let name = text(&header[..100]).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let data = &after[..usize::try_from(size).unwrap_or(usize::MAX).min(after.len())];
        let whole = data.len() as u64 == size;
        if !whole {
            let why = format!("{} says it has {size} bytes; {} are left", crate::words::quoted(name), data.len());
            archive.cut = Some(cut(why));
        }
        let of_text = || match std::str::from_utf8(data) {
            Ok(text) if data.len() <= MAX_TEXT => Ok(Some(text)),
            _ => Err(refused(format!("{name} is not text, or larger than {MAX_TEXT} bytes"))),
        };
        match name {
            "platform.toml" | "kernel.toml" if !whole => {}
            "platform.toml" => archive.platform = of_text()?,
            "kernel.toml" => archive.kernel = of_text()?,
            n if n.starts_with("trace.") && matches!(header[156], 0 | b'0') => {
                (archive.trace, archive.trace_is_cut, found) = (data, !whole, true);
            }
            _ => {}
        }
        rest = after.get(data.len().next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    if !found {
        return Err(match archive.cut {
            Some(cut) => truncated(cut.message),
            None if !ended => truncated("nothing is left behind its last whole member".into()),
            None => refused("the archive holds no trace".into()),
        });
    }
    Ok(archive)
}

fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).ok()
}

fn octal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(field)?.trim(), 8).ok()
}

/// The header of a member; its bytes follow, then zeros up to a block.
pub fn header(name: &str, size: u64) -> [u8; BLOCK] {
    let mut h = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| h[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name.as_bytes()[..name.len().min(99)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, b"0");
    put(257, b"ustar\x0000");
    // The sum counts its own field as spaces.
    let sum: u32 = h.iter().map(|&b| u32::from(b)).sum::<u32>() + 8 * u32::from(b' ');
    h[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    h
}

/// Zeros after a member of so many bytes, and after the last.
pub fn padding(size: u64, last: bool) -> Vec<u8> {
    let block = BLOCK as u64;
    vec![0; (size.next_multiple_of(block) - size + if last { 2 * block } else { 0 }) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (i, (name, data)) in members.iter().enumerate() {
            all.extend(header(name, data.len() as u64));
            all.extend_from_slice(data);
            all.extend(padding(data.len() as u64, i + 1 == members.len()));
        }
        all
    }

    #[test]
    fn there_and_back() {
        let bytes = made(&[("trace.dat", &[7; 700]), ("platform.toml", b"p = 1"), ("about.txt", b"x")]);
        assert!(is_archive(&bytes));
        let archive = read(&bytes).unwrap();
        assert_eq!((archive.trace, archive.platform, archive.kernel), (&[7u8; 700][..], Some("p = 1"), None));
    }

    /// The last member of a cut archive: what is there of a trace, and nothing of a text.
    #[test]
    fn truncated() {
        let bytes = made(&[("platform.toml", b"p = 1"), ("trace.dat", &[7; 7000])]);
        let archive = read(&bytes[..1024 + 512 + 4488]).unwrap();
        assert_eq!((archive.trace, archive.platform), (&[7u8; 4488][..], Some("p = 1")));
        assert_eq!(archive.cut.unwrap().message, "`trace.dat` says it has 7000 bytes; 4488 are left");
        let bytes = made(&[("trace.txt", b"a trace"), ("kernel.toml", b"k = 1")]);
        let archive = read(&bytes[..1024 + 512 + 3]).unwrap();
        assert_eq!((archive.trace, archive.kernel), (&b"a trace"[..], None));
        assert_eq!(archive.cut.unwrap().message, "`kernel.toml` says it has 5 bytes; 3 are left");
    }

    /// Cut before the trace, or so early in it that its reader makes nothing of it.
    #[test]
    fn the_trace_is_lost() {
        let bytes = made(&[("platform.toml", b"p = 1"), ("trace.dat", &[7; 7000])]);
        let why = |n: usize| {
            let message = read(&bytes[..n]).unwrap_err().message;
            message.strip_prefix("the archive is truncated and its trace is lost: ").unwrap().to_string()
        };
        assert_eq!(why(515), "`platform.toml` says it has 5 bytes; 3 are left");
        assert_eq!(why(1024), "nothing is left behind its last whole member");
        for (n, left) in [(300, 300), (1025, 1), (1535, 511)] {
            assert_eq!(why(n), format!("of the header of a member 512 bytes are needed; {left} are left"));
        }
        let said = [Diagnostic::error("trace::E03", 0..0, "trace.dat ends within its header")];
        let told = read(&bytes[..1600]).unwrap().lost(&said).unwrap();
        assert!(told.is_error());
        assert!(told.message.ends_with(
            "`trace.dat` says it has 7000 bytes; 64 are left, too few to read any of it (trace.dat ends within its header)"
        ));
        assert_eq!(read(&bytes).unwrap().lost(&said), None, "a whole archive");
        let bytes = made(&[("trace.txt", b"a trace"), ("kernel.toml", b"k = 1")]);
        assert_eq!(read(&bytes[..1024 + 512 + 3]).unwrap().lost(&said), None, "of a whole trace");
        // A cut end is no loss.
        assert_eq!(read(&bytes[..bytes.len() - 700]).unwrap().cut, None);
        assert!(read(&bytes[..1024 + 100]).unwrap().cut.unwrap().message.starts_with("of the header of a member"));
    }

    #[test]
    fn lies_and_damage() {
        let bytes = made(&[("trace.dat", &[7; 700]), ("kernel.toml", b"k = 1")]);
        for n in 0..bytes.len() {
            let _ = read(&bytes[..n]);
            let mut changed = bytes.clone();
            for value in [0, 0xff, b'7', bytes[n] ^ 1] {
                changed[n] = value;
                let _ = read(&changed);
            }
        }
        let mut huge = bytes.clone();
        huge[124..136].copy_from_slice(b"777777777777");
        let read_huge = read(&huge).unwrap();
        assert_eq!(read_huge.trace, &huge[512..]);
        assert!(read_huge.cut.unwrap().message.ends_with(&format!("{} are left", huge.len() - 512)));
        assert!(read(&made(&[("a", b"b")])).unwrap_err().message.contains("no trace"));
        let many: Vec<(&str, &[u8])> = vec![("x", b""); 10_000];
        assert!(read(&made(&many)).is_err());
        assert!(
            read(&made(&[("trace.dat", b"t"), ("kernel.toml", b"\xff")])).unwrap_err().message.contains("not text")
        );
    }
}
