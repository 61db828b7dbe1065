//! Flattened devicetrees: bytes to a tree of nodes. Bounded; every length is checked.

use std::collections::BTreeMap;

const MAX_NODES: usize = 200_000;
const MAX_DEPTH: usize = 64;

/// A node with its properties.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub name: String,
    pub props: BTreeMap<String, Vec<u8>>,
    pub children: Vec<Node>,
}

impl Node {
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name || c.name.split('@').next() == Some(name))
    }
    pub fn has(&self, prop: &str) -> bool {
        self.props.contains_key(prop)
    }
    /// Cells of 32 bits.
    pub fn cells(&self, prop: &str) -> Option<Vec<u32>> {
        let bytes = self.props.get(prop)?;
        Some(bytes.chunks_exact(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])).collect())
    }
    pub fn u32(&self, prop: &str) -> Option<u32> {
        self.cells(prop)?.first().copied()
    }
    pub fn u64(&self, prop: &str) -> Option<u64> {
        let bytes = self.props.get(prop)?;
        Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))
    }
    /// The first of its strings.
    pub fn text(&self, prop: &str) -> Option<String> {
        self.texts(prop).into_iter().next()
    }
    /// Its strings, eight at most.
    pub fn texts(&self, prop: &str) -> Vec<String> {
        let clean = |text: &[u8]| {
            String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { '?' } else { c }).take(128).collect()
        };
        self.props.get(prop).into_iter().flat_map(|bytes| bytes.split(|&b| b == 0)).take(8).map(clean).collect()
    }
    pub fn enabled(&self) -> bool {
        self.text("status").is_none_or(|s| s == "okay" || s == "ok")
    }
    pub fn phandle(&self) -> Option<u32> {
        self.u32("phandle").or(self.u32("linux,phandle"))
    }
    /// All nodes by phandle.
    pub fn index<'a>(&'a self, into: &mut BTreeMap<u32, &'a Node>) {
        if let Some(handle) = self.phandle() {
            into.insert(handle, self);
        }
        self.children.iter().for_each(|c| c.index(into));
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The root; what is wrong otherwise.
pub(super) fn parse(bytes: &[u8]) -> Result<Node, String> {
    if be32(bytes, 0) != Some(0xd00d_feed) {
        return Err("not a devicetree blob: the magic d00dfeed is missing".into());
    }
    let end = || "the blob is truncated".to_string();
    let at = |offset| be32(bytes, offset).map(|v| v as usize).ok_or_else(end);
    let (structure, strings) = (at(8)?, at(12)?);
    let strings = bytes.get(strings..).ok_or_else(end)?;
    let mut at = structure;
    let mut stack: Vec<Node> = Vec::new();
    let mut nodes = 0;
    loop {
        let token = be32(bytes, at).ok_or_else(end)?;
        at += 4;
        match token {
            1 => {
                let name = zero_terminated(bytes, at).ok_or_else(end)?;
                at = (at + name.len() + 1).next_multiple_of(4);
                nodes += 1;
                if stack.len() >= MAX_DEPTH || nodes > MAX_NODES {
                    return Err(format!("more than {MAX_NODES} nodes or {MAX_DEPTH} levels"));
                }
                let name = String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(128).collect();
                stack.push(Node { name, ..Node::default() });
            }
            2 => {
                let node = stack.pop().ok_or("a node ends that never began")?;
                match stack.last_mut() {
                    Some(parent) => parent.children.push(node),
                    None => return Ok(node),
                }
            }
            3 => {
                let (len, name) = (be32(bytes, at).ok_or_else(end)? as usize, be32(bytes, at + 4).ok_or_else(end)?);
                let value = bytes.get(at + 8..(at + 8).checked_add(len).ok_or_else(end)?).ok_or_else(end)?;
                let name = zero_terminated(strings, name as usize).ok_or_else(end)?;
                at = (at + 8 + len).next_multiple_of(4);
                let node = stack.last_mut().ok_or("a property outside of any node")?;
                node.props.insert(String::from_utf8_lossy(name).into_owned(), value.to_vec());
            }
            4 => {}
            9 => return Err("the tree ends within a node".into()),
            other => return Err(format!("token {other} at byte {}", at - 4)),
        }
    }
}

fn zero_terminated(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    Some(&rest[..rest.iter().take(4096).position(|&b| b == 0)?])
}
