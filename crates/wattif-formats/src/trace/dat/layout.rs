//! Event formats as they travel in the file (`/sys/kernel/tracing/events/*/*/format`): where each field lies.

use super::super::kinds::{INTS, Kind, Row, find, state};
use super::super::text::{number, trim};
use super::cursor;
use wattif_model::trace::PrevState;

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
    /// The field says where the data are.
    pub dynamic: Option<Base>,
}

/// What the place of data is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// `__data_loc`.
    Record,
    /// `__rel_loc`: the end of the field.
    Field,
}

impl Field {
    /// Its value in a record; 0 when the record is too short.
    #[inline]
    pub fn int(&self, record: &[u8], big: bool) -> i64 {
        let Some(bytes) = record.get(self.offset..self.offset + self.size.min(8)) else { return 0 };
        let n = cursor::number(bytes, big);
        let unused = 64 - 8 * bytes.len() as u32;
        if bytes.is_empty() {
            0
        } else if self.signed {
            (n << unused) as i64 >> unused
        } else {
            n as i64
        }
    }
    /// Its text, up to the first zero byte.
    pub fn text<'a>(&self, record: &'a [u8], big: bool) -> &'a [u8] {
        let (offset, size) = if let Some(from) = self.dynamic {
            let place = Field { size: 4, signed: false, dynamic: None, ..*self }.int(record, big) as usize;
            let base = if from == Base::Field { self.offset + 4 } else { 0 };
            (base + (place & 0xffff), place >> 16)
        } else {
            (self.offset, self.size)
        };
        let bytes = record.get(offset..(offset + size).min(record.len())).unwrap_or_default();
        &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
    }
}

/// What a format text says.
#[derive(Clone, Debug, Default)]
pub(super) struct Format {
    pub name: String,
    pub id: u32,
    pub fields: Vec<(String, Field)>,
    print: String,
}

impl Format {
    pub fn field(&self, names: &str) -> Option<Field> {
        names.split('|').find_map(|name| self.fields.iter().find(|(n, _)| n == name)).map(|(_, f)| *f)
    }
}

/// Most fields of one event.
const MAX_FIELDS: usize = 512;

/// Parse a format text.
pub(super) fn parse(text: &[u8]) -> Option<Format> {
    let mut format = Format::default();
    for line in text.split(|&b| b == b'\n') {
        let line = trim(line);
        if let Some(name) = line.strip_prefix(b"name:") {
            format.name = String::from_utf8_lossy(trim(name)).into_owned();
        } else if let Some(id) = line.strip_prefix(b"ID:") {
            format.id = u32::try_from(number(trim(id))?).ok()?;
        } else if line.starts_with(b"field") && format.fields.len() < MAX_FIELDS {
            format.fields.extend(field(line));
        } else if let Some(print) = line.strip_prefix(b"print fmt:") {
            format.print = String::from_utf8_lossy(print).into_owned();
        }
    }
    Some(format)
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`
pub(super) fn field(line: &[u8]) -> Option<(String, Field)> {
    let mut parts = line.split(|&b| b == b';').map(trim);
    let declaration = parts.next()?;
    let declaration = &declaration[declaration.iter().position(|&b| b == b':')? + 1..];
    let bare = match declaration.iter().position(|&b| b == b'[') {
        // `char x[16]`, but `__data_loc char[] x`
        Some(at) if !declaration[at..].ends_with(b"]") => declaration,
        Some(at) => &declaration[..at],
        None => declaration,
    };
    let name = bare.rsplit(|b| b.is_ascii_whitespace() || *b == b'*' || *b == b']').next()?;
    let begins = |with: &[u8]| trim(declaration).starts_with(with);
    let relative = || begins(b"__rel_loc").then_some(Base::Field);
    let dynamic = begins(b"__data_loc").then_some(Base::Record).or_else(relative);
    let mut f = Field { offset: 0, size: 0, signed: false, dynamic };
    for part in parts {
        let Some(colon) = part.iter().position(|&b| b == b':') else { continue };
        let value = number(trim(&part[colon + 1..])).unwrap_or(0);
        match &part[..colon] {
            b"offset" => f.offset = usize::try_from(value).ok().filter(|&o| o < 1 << 20)?,
            b"size" => f.size = usize::try_from(value).ok().filter(|&s| s < 1 << 20)?,
            b"signed" => f.signed = value != 0,
            _ => {}
        }
    }
    Some((String::from_utf8_lossy(name).into_owned(), f))
}

/// How to read a known event: the places of its row's fields.
#[derive(Clone)]
pub(super) struct Plan {
    pub row: &'static Row,
    pub ints: [Option<Field>; INTS],
    pub strs: [Option<Field>; 2],
    states: Option<States>,
}

/// Bits of `prev_state` by what the format's own print text calls them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct States {
    dead: i64,
    disk: i64,
    other: i64,
}

impl Plan {
    /// `None` for events nobody asks for, and for those that lack a field.
    pub fn new(format: &Format) -> Option<Plan> {
        let row = find(format.name.as_bytes())?;
        let mut ints = [None; INTS];
        for (slot, names) in ints.iter_mut().zip(row.ints) {
            *slot = format.field(names);
            let optional = matches!(*names, "success" | "clone_flags" | "old_pid");
            if slot.is_none() && !optional {
                return None;
            }
        }
        let mut strs = [None; 2];
        for (slot, names) in strs.iter_mut().zip(row.strs) {
            *slot = format.field(names);
        }
        let states = (row.kind == Kind::Switch).then(|| states(&format.print)).flatten();
        Some(Plan { row, ints, strs, states })
    }

    /// The numbers of a record.
    #[inline]
    pub fn numbers(&self, record: &[u8], big: bool) -> [i64; INTS] {
        let mut n = [0; INTS];
        for (i, (slot, field)) in n.iter_mut().zip(&self.ints).enumerate() {
            match field {
                Some(f) => *slot = f.int(record, big),
                // A wake-up without the field has succeeded.
                None => *slot = i64::from(self.row.ints.get(i) == Some(&"success")),
            }
        }
        if let Some(s) = self.states {
            n[2] = s.known(n[2]);
        }
        n
    }
}

impl States {
    /// The bits as [`state`] wants them.
    fn known(&self, bits: i64) -> i64 {
        let state_of = |s: PrevState| super::super::kinds::state_bits(s);
        if bits & self.dead != 0 {
            state_of(PrevState::Dead)
        } else if bits & self.disk != 0 {
            state_of(PrevState::DiskSleep)
        } else if bits & self.other != 0 {
            state_of(PrevState::Sleeping)
        } else {
            // Not named, such as `I`: by the bits themselves, without those that are ambiguous.
            super::super::kinds::state_bits(state(bits & 0xbf))
        }
    }
}

/// The pairs `{ 0x40, "P" }` of a print format.
fn states(print: &str) -> Option<States> {
    let mut found = States::default();
    for pair in print.split('{').skip(1) {
        let Some((bits, rest)) = pair.split_once(',') else { continue };
        let Some(bits) = number(bits.trim().as_bytes()) else { continue };
        let letter = rest.trim_start().strip_prefix('"').and_then(|r| r.chars().next());
        match letter {
            Some('X' | 'Z' | 'x') => found.dead |= bits,
            Some('D') => found.disk |= bits,
            Some('R' | '+') | None => {}
            Some(_) => found.other |= bits,
        }
    }
    (found != States::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 310\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] what;\toffset:60;\tsize:4;\tsigned:0;\n\
        print fmt: \"%s\", { 0x01, \"S\" }, { 0x02, \"D\" }, { 0x10, \"X\" }, { 0x40, \"P\" }";

    #[test]
    fn fields() {
        let f = parse(SWITCH.as_bytes()).unwrap();
        assert_eq!((f.name.as_str(), f.id, f.fields.len()), ("sched_switch", 310, 4));
        assert_eq!(f.field("prev_comm").unwrap(), Field { offset: 8, size: 16, signed: false, dynamic: None });
        assert_eq!(f.field("x|what").unwrap().dynamic, Some(Base::Record));
        assert!(f.field("prev_pid").unwrap().signed);
    }

    /// `comm` behind a field of eight bytes: the one counts from the beginning of the record, the other from where it ends.
    #[test]
    fn texts_of_any_length() {
        let check = |kind: &str, from: Base, offset: u32, expect: &str| {
            let line = format!("field:{kind} char[] comm;\toffset:8;\tsize:4;\tsigned:0;");
            let (name, f) = field(line.as_bytes()).unwrap();
            assert_eq!((name.as_str(), f.dynamic), ("comm", Some(from)), "{kind}");
            for big in [false, true] {
                let place = 5 << 16 | offset;
                let word = if big { place.to_be_bytes() } else { place.to_le_bytes() };
                let record = [&[0; 8][..], &word, &[1; 8], b"job\0x"].concat();
                assert_eq!(String::from_utf8_lossy(f.text(&record, big)), expect, "{kind} {offset}");
            }
        };
        check("__data_loc", Base::Record, 20, "job");
        check("__rel_loc", Base::Field, 8, "job");
        check("__rel_loc", Base::Field, 0xffff, "");
    }

    #[test]
    fn states_by_letters() {
        let s = states(SWITCH).unwrap();
        let state = |bits| super::state(s.known(bits));
        assert_eq!(
            (state(0), state(0x200), state(1), state(0x40), state(0x12)),
            (PrevState::Running, PrevState::Running, PrevState::Sleeping, PrevState::Sleeping, PrevState::Dead)
        );
        // Before 4.14 there were more of them.
        let s = states("{ 1, \"S\"} , { 2, \"D\" }, { 64, \"x\" }, { 256, \"W\" }, { 512, \"P\" }, { 1024, \"N\" }")
            .unwrap();
        let state = |bits| super::state(s.known(bits));
        assert_eq!(
            (state(0x200), state(0x402), state(0x100), state(0x1000)),
            (PrevState::Sleeping, PrevState::DiskSleep, PrevState::Sleeping, PrevState::Running)
        );
    }

    #[test]
    fn numbers_in_both_orders() {
        let f = |size, signed| Field { offset: 0, size, signed, dynamic: None };
        assert_eq!((f(2, true).int(&[0xff, 0xfe], false), f(2, false).int(&[0x01, 0x02], true)), (-257, 0x102));
        assert_eq!(f(8, false).int(&[1, 2], false), 0, "a short record");
    }
}
