//! TOML as an owned tree with spans: typed access that collects mistakes, keys that must all be used, overrides by path.
//! Serves [`crate::platform_toml`] and [`crate::kernel_toml`].

use crate::words::{nearest, quoted};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use wattif_model::check::Diagnostic;

pub(crate) type Span = Range<usize>;

/// Largest text accepted, bytes.
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub span: Span,
    pub value: Value,
}

/// What kind of value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(i64),
    Bool(bool),
    Text(String),
    /// A float or date: no format here has one.
    Other(&'static str),
    Array(Vec<Node>),
    Table(Table),
}

/// A table; reading a key takes it, [`Table::finish`] complains about the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub span: Span,
    pub entries: BTreeMap<String, (Span, Node)>,
}

/// The codes of a format's diagnostics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    pub syntax: &'static str,
    pub limit: &'static str,
    pub missing: &'static str,
    pub wrong_type: &'static str,
    pub range: &'static str,
    pub unknown: &'static str,
    pub overriding: &'static str,
}

/// Collects the mistakes of one text.
#[derive(Debug)]
pub(crate) struct Report {
    pub codes: Codes,
    pub list: Vec<Diagnostic>,
    /// The text is beyond a limit: why is all there is to say.
    pub unread: bool,
}

/// Most diagnostics kept.
const MAX_DIAGNOSTICS: usize = 200;

impl Report {
    pub fn new(codes: Codes) -> Report {
        Report { codes, list: Vec::new(), unread: false }
    }
    /// What has been said is not said again: several elements may stand at one place.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let room = self.list.len() < MAX_DIAGNOSTICS || diagnostic.is_error() && !self.has_errors();
        if room && !self.unread && !self.list.contains(&diagnostic) {
            self.list.push(diagnostic);
        }
    }
    pub fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error(code, span, message));
    }
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| d.span.start);
        self.list
    }
}

/// Parse `text`; syntax errors go to `report`, and what could be read is returned.
pub(crate) fn parse(text: &str, report: &mut Report) -> Table {
    if text.len() > MAX_BYTES {
        report.error(report.codes.limit, 0..0, format!("the file has {} bytes; the limit is {MAX_BYTES}", text.len()));
        report.unread = true;
        return Table::default();
    }
    if let Some(at) = deep_key(text) {
        let message = format!("a line with more than {MAX_DOTS} dots");
        report.error(report.codes.limit, at..at, message);
        report.unread = true;
        return Table::default();
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        let message = format!("not TOML: {}", e.message());
        report.error(report.codes.syntax, e.span().unwrap_or(0..0), message);
    }
    let span = table.span();
    convert_table(table.into_inner(), span)
}

/// Most dots in a line. Each part of a dotted key is a level of nesting, which the parser does not bound.
const MAX_DOTS: usize = 100;

/// Where a line holds more dots than that.
fn deep_key(text: &str) -> Option<usize> {
    let mut dots = 0;
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'.' => dots += 1,
            b'\n' => dots = 0,
            _ => {}
        }
        if dots > MAX_DOTS {
            return Some(at);
        }
    }
    None
}

fn convert_table(table: DeTable<'_>, span: Span) -> Table {
    let entry = |(key, value): (toml::Spanned<std::borrow::Cow<'_, str>>, toml::Spanned<DeValue<'_>>)| {
        let span = key.span();
        (key.into_inner().into_owned(), (span, convert(value)))
    };
    Table { span, entries: table.into_iter().map(entry).collect() }
}

fn convert(value: toml::Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(s) => Value::Text(s.into_owned()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(i) => Value::Int(i),
            Err(_) => Value::Other("an integer beyond 64 bits"),
        },
        DeValue::Boolean(b) => Value::Bool(b),
        DeValue::Float(_) => Value::Other("a float"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(items.into_iter().map(convert).collect()),
        DeValue::Table(t) => Value::Table(convert_table(t, span.clone())),
    };
    Node { span, value }
}

impl Value {
    /// For "expected …, found …".
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a boolean",
            Value::Text(_) => "a string",
            Value::Other(kind) => kind,
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

impl Node {
    fn wrong(&self, key: &str, expected: &str, report: &mut Report) {
        let message = format!("{} must be {expected}, not {}", quoted(key), self.value.kind());
        report.error(report.codes.wrong_type, self.span.clone(), message);
    }
    /// An integer in `range`.
    pub fn int(&self, key: &str, range: std::ops::RangeInclusive<i64>, report: &mut Report) -> Option<i64> {
        match self.value {
            Value::Int(i) if range.contains(&i) => Some(i),
            Value::Int(i) => {
                let message = format!("{} = {i} is out of range: {}..={}", quoted(key), range.start(), range.end());
                report.error(report.codes.range, self.span.clone(), message);
                None
            }
            _ => {
                self.wrong(key, "an integer", report);
                None
            }
        }
    }
    /// A string.
    pub fn text(&self, key: &str, report: &mut Report) -> Option<&str> {
        match &self.value {
            Value::Text(t) => Some(t),
            _ => {
                self.wrong(key, "a string", report);
                None
            }
        }
    }
    /// A table.
    pub fn table(self, key: &str, report: &mut Report) -> Option<Table> {
        match self.value {
            Value::Table(t) => Some(t),
            _ => {
                self.wrong(key, "a table", report);
                None
            }
        }
    }
    /// The items of an array.
    pub fn array(self, key: &str, report: &mut Report) -> Vec<Node> {
        match self.value {
            Value::Array(items) => items,
            _ => {
                self.wrong(key, "an array", report);
                vec![]
            }
        }
    }
}

impl Table {
    /// The value of `key`, taken.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        self.entries.remove(key).map(|(_, node)| node)
    }
    /// The value of a mandatory key.
    pub fn need(&mut self, key: &str, report: &mut Report) -> Option<Node> {
        let found = self.take(key);
        if found.is_none() {
            report.error(report.codes.missing, self.span.clone(), format!("the key `{key}` is missing"));
        }
        found
    }
    pub fn int(&mut self, key: &str, range: std::ops::RangeInclusive<i64>, report: &mut Report) -> Option<i64> {
        self.take(key)?.int(key, range, report)
    }
    pub fn text(&mut self, key: &str, report: &mut Report) -> Option<String> {
        self.take(key)?.text(key, report).map(String::from)
    }
    pub fn boolean(&mut self, key: &str, report: &mut Report) -> Option<bool> {
        let node = self.take(key)?;
        match node.value {
            Value::Bool(b) => Some(b),
            _ => {
                node.wrong(key, "a boolean", report);
                None
            }
        }
    }
    /// A table below; empty when absent.
    pub fn table(&mut self, key: &str, report: &mut Report) -> Table {
        let absent = Table { span: self.span.clone(), ..Table::default() };
        self.take(key).map_or(Some(absent.clone()), |n| n.table(key, report)).unwrap_or(absent)
    }
    /// The tables of an array of tables; empty when absent.
    pub fn tables(&mut self, key: &str, report: &mut Report) -> Vec<Table> {
        let Some(node) = self.take(key) else { return vec![] };
        node.array(key, report).into_iter().filter_map(|n| n.table(key, report)).collect()
    }
    /// Complain about keys nobody took; `known` are offered as corrections.
    pub fn finish(self, known: &[&str], report: &mut Report) {
        if report.list.iter().any(|d| d.code == report.codes.syntax) {
            return; // what the parser made of a broken line is not the author's
        }
        for (key, (span, _)) in self.entries {
            if report.list.len() >= MAX_DIAGNOSTICS {
                return;
            }
            if span == OVERRIDE {
                let help = alternatives(&key, known.iter().copied());
                report.push(Miss { key, help }.diagnostic(report.codes.overriding));
                continue;
            }
            let d = Diagnostic::error(report.codes.unknown, span, format!("unknown key {}", quoted(&key)));
            // A known key that nobody took has no meaning beside the others: it is no correction of itself.
            report.push(match nearest(&key, known.iter().copied().filter(|k| *k != key)) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            });
        }
    }
}

/// A value on its own: TOML, or a bare word taken as a string.
pub(crate) fn parse_value(text: &str) -> Value {
    let bare = || Value::Text(text.to_string());
    DeValue::parse(text).map_or_else(|_| bare(), |node| convert(node).value)
}

/// Stands for the place of a key that an override has added.
const OVERRIDE: Span = 0..0;

/// A part of an override's path that leads nowhere.
pub(crate) struct Miss {
    key: String,
    help: String,
}

impl Miss {
    pub fn diagnostic(self, code: &'static str) -> Diagnostic {
        let message = format!("override: nothing is called {}", quoted(&self.key));
        Diagnostic::error(code, OVERRIDE, message).help(self.help)
    }
}

/// Set the value at `path` (dots; `*` for every element; an array element by number or by its `name`). A key that a table does
/// not have is added: [`Table::finish`] knows whether there is such a key. The number of values set, and the first miss.
pub(crate) fn set(table: &mut Table, path: &[&str], value: &Value, missed: &mut Option<Miss>) -> usize {
    let (key, rest) = (path[0], &path[1..]);
    if key != "*" && !table.entries.contains_key(key) {
        let empty = || Value::Table(Table { span: table.span.clone(), ..Table::default() });
        let new = if rest.is_empty() { value.clone() } else { empty() };
        table.entries.retain(|k, _| stem(k) != stem(key)); // the same quantity in another unit
        table.entries.insert(key.into(), (OVERRIDE, Node { span: table.span.clone(), value: new }));
    }
    let matching = table.entries.iter_mut().filter(|(k, _)| key == "*" || *k == key);
    let nodes = matching.map(|(_, (_, node))| node);
    nodes.map(|node| set_node(node, rest, value, missed)).sum()
}

fn set_node(node: &mut Node, path: &[&str], value: &Value, missed: &mut Option<Miss>) -> usize {
    let Some((key, rest)) = path.split_first() else {
        node.value = value.clone();
        return 1;
    };
    match &mut node.value {
        Value::Table(t) => set(t, path, value, missed),
        Value::Array(items) => {
            let chosen: Vec<usize> = (0..items.len()).filter(|i| selects(key, *i, &items[*i])).collect();
            if chosen.is_empty() {
                missed.get_or_insert_with(|| Miss { key: (*key).into(), help: elements(key, items) });
            }
            chosen.into_iter().map(|i| set_node(&mut items[i], rest, value, missed)).sum()
        }
        other => {
            let help = format!("the path ends before it, at {}", other.kind());
            missed.get_or_insert(Miss { key: (*key).into(), help });
            0
        }
    }
}

fn selects(key: &str, index: usize, item: &Node) -> bool {
    key == "*" || key.parse() == Ok(index) || name_of(item) == Some(key)
}

fn name_of(item: &Node) -> Option<&str> {
    let Value::Table(t) = &item.value else { return None };
    match &t.entries.get("name")?.1.value {
        Value::Text(name) => Some(name),
        _ => None,
    }
}

/// What an array has instead of the element `key`: by name where they have names, else by number.
fn elements(key: &str, items: &[Node]) -> String {
    match items.len() {
        0 => "the list is empty".into(),
        _ if items.iter().any(|i| name_of(i).is_some()) => alternatives(key, items.iter().filter_map(name_of)),
        n => format!("there are elements 0 to {}", n - 1),
    }
}

/// The word that is near, or all there are.
fn alternatives<'a>(key: &str, present: impl Iterator<Item = &'a str> + Clone) -> String {
    const MOST: usize = 16;
    match nearest(key, present.clone()) {
        Some(near) => format!("did you mean {}?", quoted(near)),
        None => format!("there are {}", present.take(MOST).map(quoted).collect::<Vec<_>>().join(", ")),
    }
}

/// A key without its unit of time.
fn stem(key: &str) -> &str {
    ["_ns", "_us", "_ms"].iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key)
}
