//! The HTML file: the page that is built in, and the data in it.
//!
//! Nothing of the data can become markup: the answers are JSON with every `<`, `>` and `&` escaped, everything else is base64.

use super::lab::about;
use super::{Report, Side};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write as _;
use wattif_lab::report::Packed;

/// The page, built from `web/`.
pub const PAGE: &str = include_str!("../../../../web/dist/report.html");
/// The simulator for the page, packed.
pub const WASM_GZ: &[u8] = include_bytes!("../../../../web/dist/wattif.wasm.gz");
/// Where the data goes.
const PLACE: &str = "<!-- data of the report -->";
/// Data of a report in the file, base64 included; beyond it is thinned.
pub const MOST_BYTES: usize = 8 << 20;
/// Timelines of so many sides are in the file; the page simulates the others again when they are chosen.
const TIMELINES: usize = 2;

/// The whole file. All `sides` give their specs, the first two their timelines. Says in the report what was left out.
pub fn html(mut report: Report, mut sides: Vec<Side>) -> String {
    let specs = specs_of(&sides);
    sides.truncate(TIMELINES);
    let packed = fit(&mut report, &mut sides, &specs, MOST_BYTES);
    let mut data = script("wattif-report", "application/json", "", &json(&report));
    data += &script("wattif-data", "application/octet-stream", " data-enc=\"gzip+base64\"", &STANDARD.encode(packed));
    if !WASM_GZ.is_empty() {
        let text = STANDARD.encode(WASM_GZ);
        data += &script("wattif-wasm", "application/octet-stream", " data-enc=\"gzip+base64\"", &text);
    }
    let (before, after) = PAGE.split_once(PLACE).expect("the page has a place for data; its test holds it to that");
    format!("{before}{data}{after}")
}

/// What the page knows of the runs; of a recording there is no text to run. Texts after the first are what they have of their
/// own, between as many characters (UTF-16) of the first's beginning and end: kernels are compared on the same workload, and
/// that of a recorded trace is large.
fn specs_of(sides: &[Side]) -> Vec<Value> {
    let mut first: Option<String> = None;
    let one = |side: &Side| {
        let mut about = about(&side.spec);
        if side.recorded {
            about["text"] = Value::Null;
            return about;
        }
        let text = side.spec.canonical();
        match &first {
            None => first = Some(text),
            Some(first) => {
                let head = common(first.chars(), text.chars());
                let tail = common(first[head.0..].chars().rev(), text[head.0..].chars().rev());
                about["shared"] = serde_json::json!([head.1, tail.1]);
                about["text"] = text[head.0..text.len() - tail.0].into();
            }
        }
        about
    };
    sides.iter().map(one).collect()
}

/// How far two texts are the same: in bytes, and as a browser counts.
fn common(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> (usize, usize) {
    let same = a.zip(b).take_while(|(a, b)| a == b);
    same.fold((0, 0), |(bytes, units), (c, _)| (bytes + c.len_utf8(), units + c.len_utf16()))
}

fn script(id: &str, kind: &str, more: &str, text: &str) -> String {
    format!("<script id=\"{id}\" type=\"{kind}\"{more}>{text}</script>\n")
}

/// JSON in which no character means anything to HTML.
fn json(report: &Report) -> String {
    let text = serde_json::to_string(report).expect("reports are string-keyed");
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{7f}'..='\u{9f}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// Specs and timelines as bytes that fit, timelines thinned until they do.
fn fit(report: &mut Report, sides: &mut [Side], specs: &[Value], most: usize) -> Vec<u8> {
    let answers = json(report).len();
    loop {
        let packed: Vec<Packed> = sides.iter().map(|s| s.timeline.pack()).collect();
        let bytes = gzip(&container(specs, &packed));
        let fits = answers + bytes.len() / 3 * 4 <= most;
        if fits || packed.iter().all(|p| p.shown == 0) {
            for (p, side) in packed.iter().zip(sides.iter()).filter(|(p, _)| p.floor_ns > 0) {
                report.notes.push(format!(
                    "timeline of {}: {} of {} slices are in this file, those of {} µs or more, to keep it below {} MB; \
                     the trace that the page writes has all of them",
                    side.spec.kernel.name,
                    p.shown,
                    p.slices,
                    p.floor_ns / 1000,
                    most >> 20
                ));
            }
            return bytes;
        }
        sides.iter_mut().for_each(|s| s.timeline.halve());
    }
}

/// Length of the header, the header as JSON, then the columns of each timeline.
fn container(specs: &[Value], packed: &[Packed]) -> Vec<u8> {
    let lengths: Vec<usize> = packed.iter().map(|p| p.bytes.len()).collect();
    let header = serde_json::json!({ "specs": specs, "timelines": packed, "lengths": lengths });
    let header = header.to_string();
    let mut out = (header.len() as u32).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    packed.iter().for_each(|p| out.extend(&p.bytes));
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::new(6));
    out.write_all(bytes).and_then(|()| out.finish()).expect("memory does not fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::report::side;
    use crate::settings::Settings;
    use wattif_formats::rtapp::Dialect;
    use wattif_lab::fnv;
    use wattif_lab::table::steers;
    use wattif_model::Ns;
    use wattif_model::run::RunSpec;

    const HOSTILE: &str = "</script><script>alert(1)</script><!--\u{202e}\u{2028}\"'&";

    fn run(ms: u64) -> Side {
        let settings = Settings::default();
        let platform = load::platform("hikey620", &settings).unwrap().value;
        let kernel = load::kernel("linux-5.6", &settings).unwrap().value;
        let read = load::workload("server", &platform, Dialect::Workgen, &settings).unwrap();
        let mut workload = read.value.workload;
        workload.tasks[0].name = HOSTILE.into();
        side(&RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(ms) }, &mut []).unwrap()
    }

    fn report(side: &Side) -> Report {
        let mut report = Report::new("run", format!("of {HOSTILE}"));
        report.sides = vec![side.json(&Default::default(), &[])];
        report
    }

    /// The page is what the build of `web/` makes of the sources beside it.
    #[test]
    fn page_is_fresh() {
        let web = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
        let mut names: Vec<String> = std::fs::read_dir(web.join("src"))
            .unwrap()
            .map(|e| format!("src/{}", e.unwrap().file_name().to_str().unwrap()))
            .collect();
        names.sort();
        let fixed = ["index.html", "package-lock.json", "tsconfig.json", "vite.config.js"].map(String::from);
        let mut sum = fnv::EMPTY;
        for name in fixed.into_iter().chain(names) {
            let bytes = std::fs::read(web.join(&name)).unwrap();
            sum = fnv::add(sum, name.bytes().chain(bytes));
        }
        let stamp = format!("<!-- wattif page, sources {sum:016x} -->");
        assert!(PAGE.contains(&stamp), "web/dist/report.html is not made of these sources: cargo xtask web");
    }

    /// The page writes the same characters as codes as tables and drawings do.
    #[test]
    fn page_and_tables_have_one_list_of_what_steers() {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for c in ('\0'..=char::MAX).filter(|c| steers(*c)).map(u32::from) {
            match ranges.last_mut() {
                Some((_, to)) if *to + 1 == c => *to = c,
                _ => ranges.push((c, c)),
            }
        }
        let code = |c: u32| if c > 0xffff { format!("\\u{{{c:x}}}") } else { format!("\\u{c:04x}") };
        let range = |(from, to): (u32, u32)| if from == to { code(from) } else { code(from) + "-" + &code(to) };
        let class = format!("/[{}]/gu", ranges.into_iter().map(range).collect::<String>());
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/format.ts");
        assert!(std::fs::read_to_string(path).unwrap().contains(&class), "{class}");
    }

    #[test]
    fn page_and_simulator_are_small() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert!(PAGE.len() <= 150_000, "{} bytes", PAGE.len());
        assert!(WASM_GZ.len() <= 1_500_000, "{} bytes", WASM_GZ.len());
        assert!(PAGE.contains("default-src 'none'") && !PAGE.contains("src=\"http") && !PAGE.contains("href=\"http"));
    }

    #[test]
    fn names_become_no_markup() {
        let side = run(50);
        let html = html(report(&side), vec![side]);
        let plain = html.len() - PAGE.len();
        assert!(plain > WASM_GZ.len() && !html.contains("alert(1)</script>") && !html.contains('\u{2028}'));
        assert_eq!(html.matches("<script").count(), PAGE.matches("<script").count() + 3);
        let from = html.find("id=\"wattif-report\"").unwrap();
        let text = html[from..].split_once('>').unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(data["title"], format!("of {HOSTILE}").as_str(), "reads back as it was");
        assert_eq!(data["sides"][0]["run"]["schema"], "wattif.run/1");
    }

    #[test]
    fn texts_of_specs_share_what_is_the_same() {
        let mut all = vec![run(1), run(1), run(1)];
        all[0].recorded = true;
        all[2].spec.kernel = load::kernel("linux-5.3", &Settings::default()).unwrap().value;
        all[2].spec.seed = 77;
        all.push(run(2));
        let specs = specs_of(&all);
        assert_eq!(specs[0]["text"], Value::Null);
        let first: Vec<u16> = specs[1]["text"].as_str().unwrap().encode_utf16().collect();
        assert_eq!(all[1].spec.canonical().encode_utf16().collect::<Vec<_>>(), first);
        for (side, spec) in all.iter().zip(&specs).skip(2) {
            let [head, tail] = [0, 1].map(|i| spec["shared"][i].as_u64().unwrap() as usize);
            let own = spec["text"].as_str().unwrap();
            let units = own.encode_utf16();
            let text: Vec<u16> =
                first[..head].iter().copied().chain(units).chain(first[first.len() - tail..].iter().copied()).collect();
            assert_eq!(String::from_utf16(&text).unwrap(), side.spec.canonical());
            assert!(own.len() < first.len() / 2, "{own}");
        }
    }

    #[test]
    fn what_does_not_fit_is_thinned_and_said() {
        let side = run(400);
        let specs = [about(&side.spec)];
        let whole = fit(&mut report(&side), &mut [side.clone()], &specs, MOST_BYTES);
        let mut small = report(&side);
        let most = json(&small).len() + whole.len() / 3 * 4 - 1000;
        let thinned = fit(&mut small, &mut [side.clone()], &specs, most);
        assert!(thinned.len() < whole.len() && small.notes.len() == 1, "{:?}", small.notes);
        assert!(small.notes[0].contains(" slices are in this file, those of "), "{:?}", small.notes);
        let mut none = report(&side);
        fit(&mut none, &mut [side], &specs, 0);
        assert!(none.notes[0].contains(": 0 of "), "it ends where nothing is left: {:?}", none.notes);
    }
}
