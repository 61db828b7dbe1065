//! The Markdown of policy headers on a terminal: headings, wrapped paragraphs and lists, aligned tables.

use crate::error::Look;
use wattif_lab::table::{Align, Table, width as columns};

/// A heading.
pub fn heading(text: &str, look: Look) -> String {
    if look.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_string() }
}

/// A page whose links to code, which lead nowhere outside the sources, are the names they show, in backticks as they were, without brackets and paths.
pub fn without_links(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, link)) = rest.split_once("[`") {
        out += before;
        let Some((path, after)) = link.split_once("`]").filter(|(path, _)| !path.contains(['`', '\n'])) else {
            out += "[`";
            rest = link;
            continue;
        };
        out += &format!("`{}`", name_of(path));
        rest = after.strip_prefix('(').and_then(|target| Some(target.split_once(')')?.1)).unwrap_or(after);
    }
    out + rest
}

/// Of a path what a reader looks for: without the modules before it.
fn name_of(path: &str) -> &str {
    let is_module = |part: &str| part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match path.split_once("::") {
        Some((module, rest)) if is_module(module) => name_of(rest),
        _ => path,
    }
}

/// Draw a page.
pub fn to_terminal(page: &str, look: Look) -> String {
    let mut out = String::new();
    let mut after_item = false;
    for block in blocks(page) {
        let item = matches!(block, Block::Text(_, 1..));
        let together = item && after_item;
        if !out.is_empty() && !together {
            out.push('\n');
        }
        after_item = item;
        match block {
            Block::Heading(text) => out += &format!("{}\n", heading(text, look)),
            Block::Table(rows) => out += &table(&rows),
            Block::Code(lines) => lines.iter().for_each(|l| out += &format!("    {l}\n")),
            Block::Text(text, indent) => out += &wrap(&text, look.width.saturating_sub(2), indent),
        }
    }
    out
}

enum Block<'a> {
    Heading(&'a str),
    Table(Vec<&'a str>),
    Code(Vec<&'a str>),
    /// A paragraph or list item, and how far its further lines are indented.
    Text(String, usize),
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        if let Some(text) = line.strip_prefix("# ").or_else(|| line.strip_prefix("## ")) {
            blocks.push(Block::Heading(text));
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|l| l.starts_with('|')) {
                rows.push(row);
            }
            blocks.push(Block::Table(rows));
        } else if line.starts_with("```") {
            let mut code = Vec::new();
            for line in lines.by_ref().take_while(|l| !l.starts_with("```")) {
                code.push(line);
            }
            blocks.push(Block::Code(code));
        } else {
            let indent = marker(line).unwrap_or(0);
            let mut text = line.to_string();
            while let Some(more) = lines.next_if(|l| continues(l)) {
                text = format!("{text} {}", more.trim());
            }
            blocks.push(Block::Text(text, indent));
        }
    }
    blocks
}

/// Does the line go on with the paragraph before it?
fn continues(line: &str) -> bool {
    let begins = |prefix: &[&str]| prefix.iter().any(|p| line.starts_with(p));
    !line.trim().is_empty() && !begins(&["#", "|", "```"]) && marker(line).is_none()
}

/// Width of a list marker (`1. `, `- `) with what stands before it.
fn marker(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start().len();
    let rest = &line[start..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let bullet = rest.starts_with("- ") || rest.starts_with("* ");
    let numbered = digits > 0 && rest[digits..].starts_with(". ");
    (bullet || numbered).then_some(start + if bullet { 2 } else { digits + 2 })
}

fn table(rows: &[&str]) -> String {
    let cells = |row: &str| -> Vec<String> {
        let row = row.trim().trim_start_matches('|').trim_end_matches('|');
        row.replace("\\|", "\u{0}").split('|').map(|c| c.trim().replace('\u{0}', "|")).collect()
    };
    let head = cells(rows[0]);
    let width = head.len();
    let mut table = Table::new(head.into_iter().map(|h| (h, Align::Left)));
    for row in rows[1..].iter().filter(|r| r.chars().any(|c| !"|-: ".contains(c))) {
        table.row(cells(row).into_iter().take(width));
    }
    table.to_text().lines().map(|l| format!("  {l}\n")).collect()
}

/// Wrapped at `width`, two columns in.
fn wrap(text: &str, width: usize, indent: usize) -> String {
    let lead = text.len() - text.trim_start().len();
    let mut out = String::new();
    let mut line = format!("  {}", " ".repeat(lead));
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && columns(&line) + 1 + columns(word) > width {
            out += &format!("{}\n", line.trim_end());
            line = format!("  {}", " ".repeat(indent));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    out + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_code_are_names() {
        let page =
            "Ask [`Rq::pelt_at`], [`teo`](super::teo) and\n[`super::dl_server`]; `a[i]`, [`b` and [this](x.md) stay.";
        let want = "Ask `Rq::pelt_at`, `teo` and\n`dl_server`; `a[i]`, [`b` and [this](x.md) stay.";
        assert_eq!(without_links(page), want);
    }

    #[test]
    fn page() {
        let text = "Title line.\n\n# Idea\none two three\nfour\n1. first step goes\n   on here\n2. second\n\n| a | b |\n|---|---|\n| `x` | y\\|z |\n";
        let look = Look { color: false, width: 18 };
        let want = "  Title line.\n\nIdea\n\n  one two three\n  four\n\n  1. first step\n     goes on\n     here\n  2. second\n\n  a    b\n  ---  ---\n  `x`  y|z\n";
        assert_eq!(to_terminal(text, look), want);
    }
}
