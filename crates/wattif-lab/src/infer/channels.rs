//! Channels: messages to threads that were busy when they got them, and buffers that were full.
//!
//! Who writes a message to a thread that is busy wakes nobody, so there is no event, and the reader takes it without a pause when it is done
//! with the one before. Writers wait where the reader's buffer is full. Of the messages of `hackbench` more than half leave no event.
//!
//! Where each message is as much work as any other, stretches of work are multiples of one length, for writers as for readers, and tell
//! how many messages there were; that as many were written as read, and that they are the work that either side did, is the proof. To whom a
//! hidden one went is not told: writers are taken to write to all of their readers in turn. Where those that are seen do so without exception,
//! the next of them tells how many lie before it, better than work does, which a switch or a cold cache makes longer. What was on its way
//! when a writer had to wait is the size of a buffer; when who waits is woken, `lots.rs` tells. A writer that is woken may wake the next.

use super::kin::Kinds;
use super::lots::Wait;
use super::ran::{NEVER, Ran, ran};
use super::sides::{sides, unseen};
use super::steps::{Queue, Step, median, token_waits, within};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::platform::Platform;
use wattif_model::trace::Recording;
use wattif_model::workload::Release;

/// Fewer pieces of work tell nothing of a message's.
const MIN_PIECES: usize = 16;
/// A piece of at most [`FEW`] messages is off a multiple by one part in so many at most; percent of them that have to be.
const OFF_PART: u64 = 5;
const ALIKE_PCT: usize = 90;
const FEW: u64 = 4;
/// Of so many pieces one is of one message.
const ONE_OF: [usize; 3] = [4, 12, 36];
/// One of so many messages is hidden, at least; and for so many that are seen, one while a reader of the writer's waits: in a pool, that one would
/// have taken it.
const HIDDEN_OF: usize = 20;
const PASSED_OVER_OF: usize = 32;
/// One of so many waits of writers may be for something else than space.
const FOR_ELSE_OF: usize = 8;
/// Between the quarters of what a full buffer held there is a factor of so much at most.
const SPREAD: usize = 2;
/// Its size is what it held the first times.
const FIRST: usize = 8;
/// Messages written and read differ by one in so many at most, and their work from what a side did by one part in so many.
const UNEQUAL_OF: usize = 5;
const MADE_OF: u64 = 20;
/// For each that is seen, and each wait for space, so many may be hidden; and so many messages are put in at most.
const HIDDEN_MOST: usize = 256;
const MOST: usize = 2_000_000;
/// Each of them may be any reader's: so often that is asked at most.
const MOST_ASKED: usize = 200_000_000;

/// What was found.
#[derive(Default)]
pub(super) struct Channels {
    /// Readers' buffers, where writers had to wait.
    pub buffers: BTreeMap<Pid, Buffer>,
    /// Threads that write or read, each with the first of its side: the two run one program.
    pub sides: BTreeMap<Pid, Pid>,
    /// Messages that no event tells of.
    pub hidden: usize,
}

/// A reader's buffer: how many messages it holds, and when it wakes whom who waits for space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Buffer {
    pub holds: u32,
    pub release: Release,
}

impl Buffer {
    /// What wakes by lots is a socket or a pipe, and these wake their readers, too, as one who is about to sleep does.
    pub(super) fn is_sync(self) -> bool {
        self.release != Release::Each
    }
}

/// A stretch of a thread's life.
enum Item {
    Work {
        units: u64,
        from: u64,
        until: u64,
    },
    Post {
        to: Pid,
    },
    /// Woken by one of the other side; or by its own, who had been woken by that one, if it is seen who that was.
    Token {
        by: Option<Pid>,
        since: u64,
        at: u64,
        by_own: bool,
    },
    Other(Step),
}

impl Item {
    /// Messages in it.
    fn times(&self, of: u64) -> u64 {
        times(self.units(), of)
    }

    fn units(&self) -> u64 {
        if let Item::Work { units, .. } = *self { units } else { 0 }
    }
}

/// What takes its place.
enum Part {
    /// To whom, where that is known; from when until when it is written.
    Write {
        to: Option<Pid>,
        from: u64,
        until: u64,
    },
    /// So many messages, one after another, from when until when.
    Read {
        n: u64,
        from: u64,
        until: u64,
    },
    Keep(Step),
}

/// The parts of a thread, and the work of a message.
struct Parts {
    of: Vec<Part>,
    units: u64,
}

/// Finds channels, and says in their threads' steps what is written and read. `kinds`: what each thread is.
pub(super) fn messages(
    threads: &mut BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    recording: &Recording,
    platform: &Platform,
) -> Channels {
    let channels = channels(threads, kinds, recording, platform);
    let kind = |c: &Channel| c.readers.first_key_value().map(|(pid, _)| &kinds[pid]);
    // Buffers of one program are alike.
    let mut of_kind: BTreeMap<Option<&String>, (Vec<usize>, Vec<Wait>)> = BTreeMap::new();
    let mut each = Vec::new();
    for mut channel in channels {
        let kind = kind(&channel);
        let (spaces, waits) = of_kind.entry(kind).or_default();
        spaces.extend(channel.space);
        waits.append(&mut channel.waits);
        each.push((kind, channel));
    }
    let buffer = |(mut spaces, waits): (Vec<usize>, Vec<Wait>)| {
        let (release, holds) = super::lots::release(&waits);
        let holds = holds.or(median(&mut spaces))? as u32;
        // It cannot be more than all.
        let release = match release {
            Release::AllFrom(n) => Release::AllFrom(n.min(holds)),
            other => other,
        };
        Some(Buffer { holds, release })
    };
    let buffers: BTreeMap<_, Option<Buffer>> = of_kind.into_iter().map(|(kind, of)| (kind, buffer(of))).collect();
    let mut found = Channels::default();
    for (kind, channel) in each {
        channel.put_in(threads, buffers[&kind], &mut found);
    }
    found
}

/// Threads that pass messages through channels.
pub(super) fn members(
    threads: &BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    recording: &Recording,
    platform: &Platform,
) -> BTreeSet<Pid> {
    let channels = channels(threads, kinds, recording, platform);
    channels.into_iter().flat_map(|c| c.writers.into_keys().chain(c.readers.into_keys())).collect()
}

fn channels(
    threads: &BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    recording: &Recording,
    platform: &Platform,
) -> Vec<Channel> {
    let sides = sides(threads, kinds);
    let ran = if sides.is_empty() { BTreeMap::new() } else { ran(recording, platform) };
    let mut left = MOST;
    let mut all = Vec::new();
    for [a, b] in &sides {
        // Taken the wrong way round, writers wait where all is read.
        let either = [[a, b], [b, a]];
        if let Some(channel) = either.into_iter().find_map(|sides| channel(threads, sides, kinds, &ran, left)) {
            left = left.saturating_sub(channel.writes());
            all.push(channel);
        }
    }
    all
}

/// A writer's wait for space in a reader's buffer.
struct Full {
    writer: Pid,
    reader: Pid,
    since: u64,
    at: u64,
    by_own: bool,
}

/// A channel with all of its messages.
struct Channel {
    writers: BTreeMap<Pid, Parts>,
    readers: BTreeMap<Pid, Parts>,
    /// In the order in which they began.
    full: Vec<Full>,
    /// Messages that a reader's buffer holds, where writers had to wait, and these waits.
    space: Option<usize>,
    waits: Vec<Wait>,
    hidden: usize,
    /// Writers write to one of their readers after the other, and then again.
    in_rounds: bool,
}

fn channel(
    threads: &BTreeMap<Pid, Thread>,
    sides: [&BTreeSet<Pid>; 2],
    kinds: &Kinds,
    ran_of: &BTreeMap<Pid, Ran>,
    most: usize,
) -> Option<Channel> {
    let mut found = Candidate::of_sides(threads, sides, kinds, ran_of, most)?;
    found.add_unseen(threads, sides, ran_of)?;
    if !found.is_one(threads, sides[1]) {
        return None;
    }
    let Candidate { mut channel, did, targets, .. } = found;
    let written = channel.writes();
    channel.address(|pid| &targets[kinds[pid].as_str()]);
    if channel.work().iter().zip(did).any(|(work, did)| work.abs_diff(did) > did / MADE_OF) {
        return None;
    }
    if !channel.full.is_empty() {
        channel.waits = channel.waits(ran_of);
        let space = space(&channel.waits.iter().map(|wait| wait.held[0]).collect::<Vec<usize>>())?;
        // Who waits after each message waits for what became of it, unless more are on their way than there are writers.
        if channel.full.len() * 2 > written && space <= channel.writers.len() {
            return None;
        }
        channel.space = Some(space);
    }
    Some(channel)
}

/// Two sides that may be a channel.
struct Candidate<'a> {
    channel: Channel,
    kinds: &'a Kinds,
    /// Messages that were seen, and how many there may be at most.
    seen: usize,
    most: u64,
    /// The work of either side.
    did: [u64; 2],
    /// To whom threads of a kind write.
    targets: BTreeMap<&'a str, BTreeSet<Pid>>,
}

impl<'a> Candidate<'a> {
    /// Of who writes and who reads, if the work of either side is messages, and not too many.
    fn of_sides(
        threads: &BTreeMap<Pid, Thread>,
        [writing, reading]: [&BTreeSet<Pid>; 2],
        kinds: &'a Kinds,
        ran_of: &BTreeMap<Pid, Ran>,
        most: usize,
    ) -> Option<Candidate<'a>> {
        let items = |side: &BTreeSet<Pid>, other: &BTreeSet<Pid>| -> Option<BTreeMap<Pid, Vec<Item>>> {
            let tokens = side.iter().map(|pid| (*pid, tokens(&threads[pid]))).collect();
            let woken_by = |by, at| for_whom(&tokens, other, by, at);
            side.iter().map(|pid| Some((*pid, items(&threads[pid], [side, other], woken_by)?))).collect()
        };
        let (writers, readers) = (items(writing, reading)?, items(reading, writing)?);
        let (of_write, of_read) = (message_units(&writers, &[true])?, message_units(&readers, &[false, true])?);
        let full = writers.iter().flat_map(|(pid, items)| {
            items.iter().filter_map(|i| match *i {
                Item::Token { by, since, at, by_own } => Some(Full { writer: *pid, reader: by?, since, at, by_own }),
                _ => None,
            })
        });
        let mut full: Vec<Full> = full.collect();
        full.sort_by_key(|full| full.since);
        let seen: usize = writers.values().flatten().filter(|i| matches!(i, Item::Post { .. })).count();
        let most = most.min(MOST_ASKED / reading.len().max(1));
        let most = most.min(HIDDEN_MOST.saturating_mul(seen + full.len())) as u64;
        if writers.iter().fold(0u64, |n, (pid, of)| n.saturating_add(messages_in(of, of_write[pid]))) > most {
            return None;
        }
        // What one is never seen to do another of its kind is, and to another of a kind.
        let mut woken_kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (pid, items) in &writers {
            woken_kinds.entry(&kinds[pid]).or_default().extend(woken(items).iter().map(|to| kinds[to].as_str()));
        }
        let targets = |kind: &BTreeSet<&str>| -> BTreeSet<Pid> {
            reading.iter().filter(|to| kind.contains(kinds[*to].as_str())).copied().collect()
        };
        let targets = woken_kinds.into_iter().map(|(kind, woken)| (kind, targets(&woken))).collect();
        let work =
            |side: &BTreeMap<Pid, Vec<Item>>| side.values().flatten().fold(0u64, |n, i| n.saturating_add(i.units()));
        let did = [work(&writers), work(&readers)];
        let ran = |pid: Pid| ran_of.get(&pid).unwrap_or(&NEVER);
        let channel = Channel {
            full,
            writers: writers.into_iter().map(|(pid, of)| (pid, written_by(of, of_write[&pid], ran(pid)))).collect(),
            readers: readers.into_iter().map(|(pid, of)| (pid, read_by(of, of_read[&pid]))).collect(),
            space: None,
            waits: Vec::new(),
            hidden: 0,
            in_rounds: false,
        };
        Some(Candidate { channel, kinds, seen, most, did, targets })
    }

    /// Threads that may have read and written all that is missing; `None` if one of them looks at clocks.
    fn add_unseen(
        &mut self,
        threads: &BTreeMap<Pid, Thread>,
        sides: [&BTreeSet<Pid>; 2],
        ran_of: &BTreeMap<Pid, Ran>,
    ) -> Option<()> {
        let usual = |side: &BTreeMap<Pid, Parts>| median(&mut side.values().map(|p| p.units).collect::<Vec<u64>>());
        let [of_write, of_read] = [usual(&self.channel.writers)?, usual(&self.channel.readers)?];
        let with_items = |pids: Vec<Pid>, units: u64| -> Option<Vec<(Pid, Vec<Item>, usize)>> {
            let each = |pid| {
                let items = items(&threads[&pid], sides, |_, _| None)?;
                let n = Some(messages_in(&items, units)).filter(|n| *n <= self.most);
                Some((pid, items, n.unwrap_or(0) as usize))
            };
            pids.into_iter().map(each).collect()
        };
        let [writing, reading] = sides.map(|side| unseen(threads, side, self.kinds));
        // Who may be either is a writer.
        let reading = reading.into_iter().filter(|pid| !writing.contains(pid)).collect();
        let (writing, reading) = (with_items(writing, of_write)?, with_items(reading, of_read)?);
        let written = writing.iter().fold(self.channel.writes(), |sum, (.., n)| sum.saturating_add(*n));
        let work = |items: &[Item]| items.iter().fold(0u64, |sum, i| sum.saturating_add(i.units()));
        for (pid, items, n) in reading {
            if n > 0 && self.channel.reads().saturating_add(n) <= written.saturating_add(written / UNEQUAL_OF) {
                self.did[1] = self.did[1].saturating_add(work(&items));
                self.channel.readers.insert(pid, read_by(items, of_read));
                let alike = |to: &&mut BTreeSet<Pid>| to.iter().any(|to| self.kinds[to] == self.kinds[&pid]);
                self.targets.values_mut().filter(alike).for_each(|to| _ = to.insert(pid));
            }
        }
        for (pid, items, n) in writing {
            let missing = self.channel.reads().saturating_sub(self.channel.writes());
            if n > 0 && n <= missing + missing / UNEQUAL_OF {
                self.did[0] = self.did[0].saturating_add(work(&items));
                let ran = ran_of.get(&pid).unwrap_or(&NEVER);
                self.channel.writers.insert(pid, written_by(items, of_write, ran));
            }
        }
        Some(())
    }

    /// Are as many messages written as read, some of them unseen, and do writers wait as they would for space, and no reader while there is one?
    fn is_one(&mut self, threads: &BTreeMap<Pid, Thread>, reading: &BTreeSet<Pid>) -> bool {
        let (written, read) = (self.channel.writes(), self.channel.reads());
        self.channel.hidden = written.saturating_sub(self.seen);
        let equal = written.abs_diff(read) <= read.max(written) / UNEQUAL_OF;
        let enough = self.channel.hidden * HIDDEN_OF >= written;
        let targets = |pid: &Pid| &self.targets[self.kinds[pid].as_str()];
        let waits: BTreeMap<Pid, Vec<(u64, u64)>> =
            reading.iter().map(|pid| (*pid, token_waits(&threads[pid].steps))).collect();
        let waits = |pid: &Pid, at: u64| waits.get(pid).is_some_and(|of| within(of, at, |wait| *wait).is_some());
        equal && enough && self.channel.waits_for_space(targets, waits) && self.channel.passes_over(targets, waits)
    }
}

/// The size of a buffer, by what it held each time a writer waited: about the same. Of these the first tell most, as every miscount stays.
/// In a buffer for a single message nothing is hidden.
fn space(held: &[usize]) -> Option<usize> {
    let quarters = |of: &[usize]| {
        let mut of = of.to_vec();
        of.sort_unstable();
        [1, 2, 3].map(|quarter| of.get(of.len() * quarter / 4).copied())
    };
    let [low, _, high] = quarters(held);
    let [_, middle, _] = quarters(&held[..held.len().min(FIRST)]);
    (high? <= low?.saturating_mul(SPREAD)).then_some(middle?).filter(|n| *n > 1)
}

/// Work in one piece, and what a thread has to do with the other side; `None` if it looks at clocks, or its own side wakes it too often for
/// what is not seen. (Who finds room in a pipe without a wait may wake one who waits for it.)
fn items(
    t: &Thread,
    [own, other]: [&BTreeSet<Pid>; 2],
    woken_by: impl Fn(Pid, u64) -> Option<Pid>,
) -> Option<Vec<Item>> {
    let mut all = Vec::new();
    let (mut work, mut now) = (0, 0);
    for step in &t.steps {
        let time = match *step {
            Step::Post { at, .. } => at,
            Step::Exit => u64::MAX,
            _ => step.blocked_since().unwrap_or(now),
        };
        let until = time.max(now);
        if let Step::Work(units) = step {
            work = u64::saturating_add(work, *units);
            continue;
        }
        if step.wakes().is_some_and(|to| own.contains(&to)) {
            continue;
        }
        if work > 0 {
            all.push(Item::Work { units: std::mem::take(&mut work), from: now, until });
        }
        all.push(match *step {
            Step::Spin(_) => return None,
            Step::Post { to, .. } if other.contains(&to) => Item::Post { to },
            Step::Token { by, since, at } if other.contains(&by) => {
                Item::Token { by: Some(by), since, at, by_own: false }
            }
            Step::Token { by, since, at } if own.contains(&by) => {
                Item::Token { by: woken_by(by, at), since, at, by_own: true }
            }
            _ => Item::Other(step.clone()),
        });
        now = step.woken_at().unwrap_or(until).max(now);
    }
    if work > 0 {
        all.push(Item::Work { units: work, from: now, until: u64::MAX });
    }
    let tokens = all.iter().filter(|i| matches!(i, Item::Token { .. })).count();
    let lost = all.iter().filter(|i| matches!(i, Item::Token { by: None, .. })).count();
    (lost <= 1 + tokens / FOR_ELSE_OF).then_some(all)
}

/// By whom a thread was woken, and when.
fn tokens(t: &Thread) -> Vec<(u64, Pid)> {
    t.steps.iter().filter_map(|s| if let Step::Token { by, at, .. } = *s { Some((at, by)) } else { None }).collect()
}

/// Of which of the others one waited last that woke another of its own side: that one has waited for the same.
fn for_whom(tokens: &BTreeMap<Pid, Vec<(u64, Pid)>>, other: &BTreeSet<Pid>, by: Pid, at: u64) -> Option<Pid> {
    let mut last = (at, by);
    for _ in tokens {
        let of = tokens.get(&last.1)?;
        last = *of[..of.partition_point(|(then, _)| *then < last.0)].last()?;
        if other.contains(&last.1) {
            return Some(last.1);
        }
    }
    None
}

fn woken(items: &[Item]) -> BTreeSet<Pid> {
    items.iter().filter_map(|i| if let Item::Post { to } = *i { Some(to) } else { None }).collect()
}

/// The work of one message, by thread: pieces are multiples of it. Wake-ups end a message, or may not: a reader that frees space may do so
/// in the middle of what it reads.
fn message_units(side: &BTreeMap<Pid, Vec<Item>>, posts_end: &[bool]) -> Option<BTreeMap<Pid, u64>> {
    posts_end.iter().find_map(|end| {
        let pieces: BTreeMap<Pid, Vec<u64>> = side.iter().map(|(pid, items)| (*pid, pieces(items, *end))).collect();
        ONE_OF.into_iter().find_map(|part| units_of(&pieces, part))
    })
}

/// So they are if one piece of so many is of one message, at least. Of a thread that shows few pieces it is that of its side.
fn units_of(pieces: &BTreeMap<Pid, Vec<u64>>, part: usize) -> Option<BTreeMap<Pid, u64>> {
    let usual = small(pieces.values().flatten().copied().collect(), part)?;
    // A thread whose pieces are of several messages each has none of one.
    let of_one = |of: &Vec<u64>| {
        small(of.clone(), part).filter(|u| of.len() >= MIN_PIECES && u.abs_diff(usual) <= usual / OFF_PART)
    };
    let units: BTreeMap<Pid, u64> = pieces.iter().map(|(pid, of)| (*pid, of_one(of).unwrap_or(usual))).collect();
    let few = pieces.iter().flat_map(|(pid, of)| of.iter().map(|p| (*p, units[pid])));
    let few: Vec<(u64, u64)> = few.filter(|(piece, of)| times(*piece, *of) <= FEW).collect();
    let is_multiple = |(piece, of): &&(u64, u64)| {
        let n = times(*piece, *of);
        n > 0 && piece.abs_diff(n * of) <= of / OFF_PART
    };
    let alike = few.iter().filter(is_multiple).count();
    (few.len() >= MIN_PIECES && alike * 100 >= few.len() * ALIKE_PCT).then_some(units)
}

/// How many messages these hold.
fn messages_in(items: &[Item], units: u64) -> u64 {
    items.iter().fold(0u64, |n, i| n.saturating_add(i.times(units)))
}

/// How many messages a piece of work holds.
fn times(units: u64, of: u64) -> u64 {
    units.saturating_add(of / 2) / of
}

/// The usual one of the pieces that are as large as one of the smaller, the first of so many.
fn small(mut pieces: Vec<u64>, part: usize) -> Option<u64> {
    pieces.sort_unstable();
    let small = *pieces.get(pieces.len() / part)?;
    let [from, to] =
        [small - small / 3, small.saturating_add(small / 2)].map(|limit| pieces.partition_point(|p| *p <= limit));
    median(&mut pieces[from.min(to)..to]).filter(|units| *units > 0)
}

/// Pieces of work between two events.
fn pieces(items: &[Item], posts_end: bool) -> Vec<u64> {
    let (mut all, mut piece) = (Vec::new(), 0);
    for item in items {
        match item {
            Item::Work { units, .. } => piece += units,
            Item::Post { .. } if !posts_end => {}
            _ => {
                all.extend((piece > 0).then_some(piece));
                piece = 0;
            }
        }
    }
    all
}

/// What a thread writes. Whoever waits for space writes to that reader next.
fn written_by(items: Vec<Item>, of: u64, ran: &Ran) -> Parts {
    let mut out = Vec::new();
    let mut waited = None;
    let mut piece: Option<(u64, u64, u64)> = None;
    let mut now = 0;
    for item in items.into_iter().chain([Item::Other(Step::Exit)]) {
        if let Item::Work { units, from, until } = item {
            piece = Some((units, from, until));
            now = until;
            continue;
        }
        let to = if let Item::Post { to } = item { Some(to) } else { None };
        let (units, from, until) = piece.take().unwrap_or((0, now, now));
        let n = times(units, of).max(u64::from(to.is_some()));
        if n == 0 {
            out.extend((units > 0).then_some(Part::Keep(Step::Work(units))));
        } else {
            let times: Vec<u64> = ran.parts((from, until), n).collect();
            for (i, time) in (1..=n).zip(times.windows(2)) {
                let to = if i == n && to.is_some() { to } else { waited.take() };
                out.push(Part::Write { to, from: time[0], until: time[1] });
            }
        }
        match item {
            Item::Token { by, .. } => waited = by,
            Item::Other(step) => out.push(Part::Keep(step)),
            _ => {}
        }
    }
    // The one that ended the last piece.
    out.pop();
    Parts { of: out, units: of }
}

/// What a thread reads: one message at least since each wait. Wake-ups in between tell when some of them were read.
fn read_by(items: Vec<Item>, of: u64) -> Parts {
    let mut out = Vec::new();
    let (mut woken, mut units, mut n, mut now) = (false, 0, 0, 0);
    for item in items.into_iter().chain([Item::Other(Step::Exit)]) {
        match item {
            Item::Work { units: more, from, until } => {
                units = u64::saturating_add(units, more);
                let new = times(units, of) - n;
                out.extend((new > 0).then_some(Part::Read { n: new, from, until }));
                (n, now) = (n + new, until);
                continue;
            }
            Item::Post { .. } => continue,
            Item::Token { .. } | Item::Other(_) => {}
        }
        if n == 0 {
            out.extend(match woken {
                true => Some(Part::Read { n: 1, from: now, until: now }),
                false => (units > 0).then_some(Part::Keep(Step::Work(units))),
            });
        }
        (woken, units, n) = (matches!(item, Item::Token { .. }), 0, 0);
        match item {
            Item::Token { since, .. } => now = since,
            Item::Other(step) => out.push(Part::Keep(step)),
            _ => {}
        }
    }
    // The one that ended the last stretch.
    out.pop();
    Parts { of: out, units: of }
}

impl Parts {
    fn writes(&self) -> usize {
        self.of.iter().filter(|p| matches!(p, Part::Write { .. })).count()
    }
    fn reads(&self) -> usize {
        let n = |p: &Part| if let Part::Read { n, .. } = *p { n as usize } else { 0 };
        self.of.iter().fold(0, |sum: usize, p| sum.saturating_add(n(p)))
    }

    /// From each message of which it is known to whom to the next: how many hidden ones lie between, and how many of these are too many, or
    /// missing (less than 0), if each goes to the next of the readers. Who exits has been round.
    fn rounds(&self, readers: &BTreeSet<Pid>) -> Vec<(u64, i64)> {
        let ranks: BTreeMap<Pid, i64> = readers.iter().copied().zip(0..).collect();
        let round = ranks.len() as i64;
        let (mut all, mut hidden, mut last) = (Vec::new(), 0, None);
        if readers.is_empty() {
            return all;
        }
        for part in &self.of {
            let rank = match part {
                Part::Write { to: None, .. } => {
                    hidden += 1;
                    continue;
                }
                Part::Write { to: Some(to), .. } => ranks.get(to).copied(),
                Part::Keep(Step::Exit) => Some(round),
                _ => continue,
            };
            let Some(rank) = rank else { continue };
            if let Some(last) = last.replace(rank) {
                let off = (hidden + 1 - (rank - last)).rem_euclid(round);
                all.push((hidden as u64, if off * 2 > round { off - round } else { off }));
            }
            hidden = 0;
        }
        all
    }

    /// Takes out what is too much between two whose readers are known, and puts in what is missing if that is little: counts are off by what
    /// made a piece of work longer or shorter than its messages, so by less than a round.
    fn complete_rounds(&mut self, readers: &BTreeSet<Pid>) {
        let mut rounds = self.rounds(readers).into_iter();
        let (mut all, mut hidden, mut begun, mut now) = (Vec::new(), Vec::new(), false, 0);
        for part in std::mem::take(&mut self.of) {
            let ends = match part {
                Part::Write { to, from, until } => {
                    now = if to.is_some() { from } else { until };
                    hidden.extend(to.is_none().then_some(all.len()));
                    to.is_some_and(|to| readers.contains(&to))
                }
                Part::Keep(Step::Exit) => true,
                _ => false,
            };
            if ends {
                // The first one ends nothing.
                let (n, off) =
                    if std::mem::replace(&mut begun, true) { rounds.next() } else { None }.unwrap_or_default();
                for at in hidden.drain(..).rev().take(off.max(0) as usize) {
                    all[at] = None;
                }
                let missing = (-off).max(0) as u64;
                let missing = if missing <= 1 + n / FEW { missing } else { 0 };
                all.extend((0..missing).map(|_| Some(Part::Write { to: None, from: now, until: now })));
            }
            all.push(Some(part));
        }
        self.of = all.into_iter().flatten().collect();
    }

    /// Its work if it has so many messages.
    fn work(&self, messages: u64) -> u64 {
        let kept = |p: &Part| if let Part::Keep(Step::Work(units)) = *p { units } else { 0 };
        self.of.iter().fold(messages.saturating_mul(self.units), |sum, p| sum.saturating_add(kept(p)))
    }

    /// Steps of a reader that reads all that was sent: nothing is left over, and nothing waited for that never comes. Where it is known how
    /// many these were, what it did besides is what its messages took longer.
    fn reader(self, pid: Pid, mut left: u64, frees: bool, known: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let units = self.units;
        let read = |steps: &mut Vec<Step>| {
            steps.extend([Step::Get(Queue::Wakes(pid)), Step::Work(units)]);
            steps.extend(frees.then_some(Step::Free(pid)));
        };
        let mut ends = Vec::new();
        for part in self.of {
            match part {
                Part::Read { n, .. } => {
                    (0..n.min(left)).for_each(|_| read(&mut steps));
                    steps.extend((n > left && !known).then(|| Step::Work(units * (n - left))));
                    left -= n.min(left);
                }
                Part::Keep(Step::Exit) => ends.push(Step::Exit),
                Part::Keep(step) => steps.push(step),
                Part::Write { .. } => {}
            }
        }
        (0..left).for_each(|_| read(&mut steps));
        steps.extend(ends);
        steps
    }
}

impl Channel {
    fn writes(&self) -> usize {
        self.writers.values().map(Parts::writes).sum()
    }

    fn reads(&self) -> usize {
        self.readers.values().fold(0usize, |sum, parts| sum.saturating_add(parts.reads()))
    }

    /// The work of either side in a replay: a reader's reads all that it is sent.
    fn work(&self) -> [u64; 2] {
        let mut sent: BTreeMap<Pid, u64> = BTreeMap::new();
        for part in self.writers.values().flat_map(|parts| &parts.of) {
            if let Part::Write { to: Some(to), .. } = *part {
                *sent.entry(to).or_default() += 1;
            }
        }
        let write = self.writers.values().map(|parts| parts.work(parts.writes() as u64));
        let read = |(pid, parts): (&Pid, &Parts)| {
            let sent = sent.get(pid).copied().unwrap_or(0);
            parts.work(sent.max(parts.reads() as u64))
        };
        [write.fold(0, u64::saturating_add), self.readers.iter().map(read).fold(0, u64::saturating_add)]
    }

    /// Are writers' waits for readers that they write to and that are busy then? Else they wait for what these do next, as in a pipeline.
    fn waits_for_space<'a>(
        &self,
        targets: impl Fn(&Pid) -> &'a BTreeSet<Pid>,
        waits: impl Fn(&Pid, u64) -> bool,
    ) -> bool {
        let not = |full: &&Full| !targets(&full.writer).contains(&full.reader) || waits(&full.reader, full.since);
        self.full.iter().filter(not).count() * FOR_ELSE_OF <= self.full.len()
    }

    /// While a reader waited that a writer writes to, was something hidden? A pool's would have taken it. Of one reader there is nothing to ask.
    fn passes_over<'a>(&self, targets: impl Fn(&Pid) -> &'a BTreeSet<Pid>, waits: impl Fn(&Pid, u64) -> bool) -> bool {
        let (mut seen, mut passed) = (0, 0);
        for (pid, parts) in self.writers.iter().filter(|(pid, _)| targets(pid).len() > 1) {
            for part in &parts.of {
                match *part {
                    Part::Write { to: Some(_), .. } => seen += 1,
                    Part::Write { until, .. } => passed += usize::from(targets(pid).iter().any(|to| waits(to, until))),
                    _ => {}
                }
            }
        }
        passed * PASSED_OVER_OF >= seen
    }

    /// Whoever has had the least of a writer for what it reads gets what is hidden; of equals the next in turn. If all writers go round
    /// their readers, the next in turn always does.
    fn address<'a>(&mut self, targets: impl Fn(&Pid) -> &'a BTreeSet<Pid>) {
        self.in_rounds = self.goes_round(&targets);
        let reads: BTreeMap<Pid, u64> =
            self.readers.iter().map(|(pid, parts)| (*pid, parts.reads().max(1) as u64)).collect();
        for (pid, parts) in &mut self.writers {
            if self.in_rounds {
                parts.complete_rounds(targets(pid));
            }
            let mut had: BTreeMap<Pid, u64> = targets(pid).iter().map(|to| (*to, 0)).collect();
            let mut last = Pid(0);
            for part in &mut parts.of {
                let Part::Write { to, .. } = part else { continue };
                let mut in_turn = had.range(Pid(last.0.saturating_add(1))..).chain(had.range(..=last));
                let of = |(to, n): &(&Pid, &u64)| (u128::from(**n), u128::from(reads[*to]));
                let next = match self.in_rounds {
                    true => in_turn.next(),
                    false => in_turn.min_by(|a, b| (of(a).0 * of(b).1).cmp(&(of(b).0 * of(a).1))),
                };
                *to = to.or(next.map(|(to, _)| *to));
                if let Some(to) = *to {
                    *had.entry(to).or_default() += 1;
                    last = to;
                }
            }
        }
    }

    /// Do all writers write to one of their readers after the other, and then again? Miscounts are rare in what lies close together.
    fn goes_round<'a>(&self, targets: impl Fn(&Pid) -> &'a BTreeSet<Pid>) -> bool {
        let (mut n, mut alike) = (0, 0);
        for (pid, parts) in self.writers.iter().filter(|(pid, _)| targets(pid).len() > 1) {
            for (hidden, off) in parts.rounds(targets(pid)) {
                if hidden < FEW {
                    n += 1;
                    alike += usize::from(off == 0);
                }
            }
        }
        n >= MIN_PIECES && alike * 100 >= n * ALIKE_PCT
    }

    /// What was on its way to a reader, each time a writer had to wait for it.
    fn waits(&self, ran: &BTreeMap<Pid, Ran>) -> Vec<Wait> {
        let mut begun: BTreeMap<Pid, Vec<u64>> = BTreeMap::new();
        for part in self.writers.values().flat_map(|parts| &parts.of) {
            if let Part::Write { to: Some(to), from, .. } = *part {
                begun.entry(to).or_default().push(from);
            }
        }
        begun.values_mut().for_each(|times| times.sort_unstable());
        let over = |(pid, parts): (&Pid, &Parts)| {
            let ran = ran.get(pid).unwrap_or(&NEVER);
            let reads =
                |part: &Part| if let Part::Read { n, from, until } = *part { Some((n, from, until)) } else { None };
            let each = |(n, from, until)| ran.parts((from, until), n).skip(1);
            (*pid, parts.of.iter().filter_map(reads).flat_map(each).collect::<Vec<u64>>())
        };
        let over: BTreeMap<Pid, Vec<u64>> = self.readers.iter().map(over).collect();
        let until = |times: &[u64], at: u64| times.partition_point(|time| *time <= at);
        let wait = |&Full { reader, since, at, by_own, .. }: &Full| {
            let (begun, over) = (begun.get(&reader)?, over.get(&reader)?);
            let held = [since, at].map(|at| until(begun, at).saturating_sub(until(over, at)));
            Some(Wait { reader, by_reader: !by_own, since, at, held, read: until(over, at) })
        };
        self.full.iter().filter_map(wait).collect()
    }

    fn put_in(self, threads: &mut BTreeMap<Pid, Thread>, buffer: Option<Buffer>, found: &mut Channels) {
        for side in [&self.writers, &self.readers] {
            let first = side.first_key_value().map(|(first, _)| *first);
            found.sides.extend(side.keys().filter_map(|pid| Some((*pid, first?))));
        }
        found.hidden += self.hidden;
        let mut sent: BTreeMap<Pid, u64> = BTreeMap::new();
        let mut replace = |pid: Pid, steps: Vec<Step>| {
            let t = threads.get_mut(&pid).expect("it has parts");
            t.steps = steps;
        };
        for (pid, Parts { of, units }) in self.writers {
            let mut steps = Vec::new();
            for part in of {
                match part {
                    Part::Write { to: Some(to), .. } => {
                        *sent.entry(to).or_default() += 1;
                        steps.extend(buffer.map(|_| Step::Take(to)));
                        steps.extend([Step::Work(units), Step::Put(Queue::Wakes(to))]);
                    }
                    Part::Keep(step) => steps.push(step),
                    _ => {}
                }
            }
            replace(pid, steps);
        }
        for (pid, parts) in self.readers {
            let left = sent.remove(&pid).unwrap_or(0);
            found.buffers.extend(buffer.map(|buffer| (pid, buffer)));
            replace(pid, parts.reader(pid, left, buffer.is_some(), self.in_rounds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::super::steps;
    use super::*;
    use wattif_model::trace::{PrevState, Record, Recorded};
    use wattif_model::{CpuId, Ns};

    const MESSAGES: u64 = 120;

    #[derive(Default)]
    struct Actor {
        /// Of a writer: written so far. Of a reader: messages in its buffer.
        count: u64,
        /// Left of the present message; done since the last event.
        left: u64,
        work: u64,
        waits: Option<u64>,
    }

    impl Actor {
        fn event(&mut self, t: &mut Thread, step: Step) {
            t.steps.extend((self.work > 0).then_some(Step::Work(std::mem::take(&mut self.work))));
            t.steps.push(step);
        }
    }

    #[test]
    fn who_is_woken_by_its_own_side_waited_for_the_same() {
        let tokens = [(Pid(2), vec![(10, Pid(9)), (40, Pid(8))]), (Pid(3), vec![(20, Pid(2))])].into();
        let for_whom = |by, at| for_whom(&tokens, &[Pid(8), Pid(9)].into(), by, at);
        assert_eq!([for_whom(Pid(3), 30), for_whom(Pid(2), 50)], [Some(Pid(9)), Some(Pid(8))]);
        assert_eq!([for_whom(Pid(3), 20), for_whom(Pid(7), 50)], [None; 2], "not woken before, not of its side");
    }

    fn passing(writers: u32, readers: u32, work: (u64, u64), room: u64) -> BTreeMap<Pid, Thread> {
        passing_by(writers, readers, work, room, Release::Each)
    }

    /// Each of some threads writes to all of the others in turn, who have a CPU each and room for so many messages.
    fn passing_by(
        writers: u32,
        readers: u32,
        (write, read): (u64, u64),
        room: u64,
        release: Release,
    ) -> BTreeMap<Pid, Thread> {
        let all: Vec<Pid> = (1..=writers + readers).map(Pid).collect();
        let mut threads: BTreeMap<Pid, Thread> = all.iter().map(|pid| (*pid, Thread::new(120))).collect();
        let mut of: BTreeMap<Pid, Actor> = all.iter().map(|pid| (*pid, Actor::default())).collect();
        let mut taken: BTreeMap<Pid, u64> = BTreeMap::new();
        for now in 1..100_000 {
            for pid in &all {
                // Others come in between now and then; before one who writes alone at times, and then often, but for the least room, which
                // is full all the time.
                let others = if writers > 1 {
                    (now * 7 + u64::from(pid.0) * 13) % 31 % (2 + u64::from(pid.0)) == 0
                } else {
                    pid.0 == 1 && readers == 1 && room > 4 && now / 200 % 2 == 0 && now % 4 != 0
                };
                if others {
                    continue;
                }
                let t = threads.get_mut(pid).unwrap();
                let mut me = of.remove(pid).unwrap();
                if pid.0 <= writers {
                    let to = Pid(writers + 1 + ((me.count + u64::from(pid.0)) % u64::from(readers)) as u32);
                    if me.left == 0 && me.waits.is_none() && me.count < MESSAGES {
                        match taken.entry(to).or_default() {
                            n if *n < room => (*n, me.left) = (*n + 1, write),
                            _ => me.waits = Some(now),
                        }
                    }
                    if me.left > 0 {
                        (me.left, me.work) = (me.left - 1, me.work + 1);
                        if me.left == 0 {
                            me.count += 1;
                            let reader = of.get_mut(&to).unwrap();
                            reader.count += 1;
                            if let Some(since) = reader.waits.take() {
                                me.event(t, Step::Post { to, at: now });
                                let step = Step::Token { by: *pid, since, at: now };
                                reader.event(threads.get_mut(&to).unwrap(), step);
                            }
                        }
                    }
                } else {
                    if me.left == 0 && me.waits.is_none() {
                        if me.count > 0 {
                            (me.count, me.left) = (me.count - 1, read);
                        } else {
                            me.waits = Some(now);
                        }
                    }
                    if me.left > 0 {
                        (me.left, me.work) = (me.left - 1, me.work + 1);
                        if me.left == 0 {
                            *taken.get_mut(pid).unwrap() -= 1;
                            let full = of.iter_mut().filter(|(other, o)| {
                                let to = (o.count + u64::from(other.0)) % u64::from(readers);
                                other.0 <= writers && o.waits.is_some() && writers + 1 + to as u32 == pid.0
                            });
                            let most = match release {
                                Release::AllFrom(least) if room - taken[pid] >= least.into() => usize::MAX,
                                Release::Each => 1,
                                _ => 0,
                            };
                            for (writer, o) in full.take(most) {
                                let since = o.waits.take().unwrap();
                                me.event(threads.get_mut(pid).unwrap(), Step::Post { to: *writer, at: now });
                                o.event(threads.get_mut(writer).unwrap(), Step::Token { by: *pid, since, at: now });
                            }
                        }
                    }
                }
                of.insert(*pid, me);
            }
        }
        for (pid, t) in &mut threads {
            let work = of[pid].work;
            t.steps.extend((work > 0).then_some(Step::Work(work)));
        }
        threads
    }

    /// Each thread has a CPU of its own, which it leaves when it waits.
    fn found_of(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> Channels {
        let mut records = Vec::new();
        for (pid, t) in threads.iter() {
            let switch = |at, prev: u32, next: u32| {
                let event = testbed::switch(prev, next, PrevState::Sleeping);
                Record { at: Ns(at), cpu: CpuId(pid.0 - 1), current: None, event: Recorded::Event(event) }
            };
            records.push(switch(0, 0, pid.0));
            let waits = token_waits(&t.steps);
            records
                .extend(waits.into_iter().flat_map(|(from, until)| [switch(from, pid.0, 0), switch(until, 0, pid.0)]));
            records.push(switch(100_000, pid.0, 0));
        }
        let recording = Recording { nr_cpus: 4, records, ..Recording::default() };
        let mut platform = testbed::platform();
        platform.costs.context_switch_ns = 0;
        messages(threads, kinds, &recording, &platform)
    }

    fn found(threads: &mut BTreeMap<Pid, Thread>) -> Channels {
        let kinds = kinds(threads);
        found_of(threads, &kinds)
    }

    fn kinds(threads: &BTreeMap<Pid, Thread>) -> BTreeMap<Pid, String> {
        threads.keys().map(|pid| (*pid, String::from("hackbench"))).collect()
    }

    fn count(t: &Thread, f: impl Fn(&Step) -> bool) -> u64 {
        t.steps.iter().filter(|s| f(s)).count() as u64
    }
    fn work(threads: &BTreeMap<Pid, Thread>) -> Vec<u64> {
        threads.values().map(|t| steps::work(&t.steps)).collect()
    }

    #[test]
    fn messages_to_busy_readers() {
        let mut threads = passing(3, 2, (10, 6), 1_000);
        let before = work(&threads);
        let found = found(&mut threads);
        assert!(found.hidden > 20 && found.buffers.is_empty(), "{}", found.hidden);
        assert_eq!(work(&threads), before);
        for (pid, t) in &threads {
            let gets = count(t, |s| *s == Step::Get(Queue::Wakes(*pid)));
            assert_eq!(gets, if pid.0 > 3 { 3 * MESSAGES / 2 } else { 0 });
            for to in [4, 5].map(Pid).into_iter().filter(|_| pid.0 <= 3) {
                assert_eq!(count(t, |s| *s == Step::Put(Queue::Wakes(to))), MESSAGES / 2);
            }
        }
    }

    /// What took longer than its messages is no message more where the next reader tells how many there were.
    #[test]
    fn rounds() {
        let mut threads = passing(3, 5, (10, 13), 1_000);
        let mut longer = 0;
        for t in threads.range_mut(..=Pid(3)).map(|(_, t)| t) {
            let last = t.steps.iter().rposition(|s| s.wakes().is_some()).unwrap();
            for step in t.steps[last / 3..last].iter_mut().step_by(9) {
                if let Step::Work(units) = step {
                    (*units, longer) = (*units + 7, longer + 1);
                }
            }
        }
        let found = found(&mut threads);
        assert!(longer > 10 && found.hidden > 20, "{longer} {}", found.hidden);
        for t in threads.range(..=Pid(3)).map(|(_, t)| t) {
            let to = |s: &Step| if let Step::Put(Queue::Wakes(to)) = s { Some(to.0) } else { None };
            let to: Vec<u32> = t.steps.iter().filter_map(to).collect();
            assert_eq!(to.len() as u64, MESSAGES);
            assert!(to.windows(2).all(|two| two[1] == 4 + (two[0] - 3) % 5), "{to:?}");
        }
    }

    fn thread(steps: Vec<Step>) -> Thread {
        Thread { steps, ..Thread::new(120) }
    }

    /// One of its own may wake a writer without a wait of its own, now and then.
    #[test]
    fn whose_space_it_was_need_not_be_seen() {
        let token = |by: u32| Step::Token { by: Pid(by), since: 1, at: 2 };
        let [own, other] = [[1, 2].map(Pid).into(), [11].map(Pid).into()];
        let lost = |steps| {
            let items = items(&thread(steps), [&own, &other], |_, _| None)?;
            Some(items.iter().filter(|i| matches!(i, Item::Token { by: None, .. })).count())
        };
        assert_eq!(lost(vec![token(11), Step::Work(9), token(2)]), Some(1));
        assert_eq!(lost(vec![token(11), Step::Work(9), token(2), Step::Work(9), token(2)]), None);
    }

    #[test]
    fn a_buffer_that_is_full() {
        for room in [4, 9] {
            let mut threads = passing(1, 1, (5, 8), room);
            let before = work(&threads);
            let found = found(&mut threads);
            assert_eq!(found.buffers, [(Pid(2), Buffer { holds: room as u32, release: Release::Each })].into());
            assert_eq!(work(&threads), before);
            let [writer, reader] = [1, 2].map(|pid| &threads[&Pid(pid)]);
            assert_eq!(count(writer, |s| *s == Step::Take(Pid(2))), MESSAGES);
            assert_eq!(count(reader, |s| *s == Step::Free(Pid(2))), MESSAGES);
        }
    }

    /// Who wakes the other first to say that it may begin looks like a writer.
    #[test]
    fn a_buffer_whose_writer_waits_first() {
        for room in [4, 9] {
            let mut threads = passing(1, 1, (5, 8), room);
            let [writer, reader] = [1, 2].map(Pid);
            threads.get_mut(&writer).unwrap().steps.insert(0, Step::Token { by: reader, since: 0, at: 1 });
            threads.get_mut(&reader).unwrap().steps.insert(0, Step::Post { to: writer, at: 1 });
            assert_eq!(sides(&threads, &kinds(&threads))[0][1], [writer].into());
            let each = Buffer { holds: room as u32, release: Release::Each };
            assert_eq!(found(&mut threads).buffers, [(reader, each)].into());
        }
    }

    #[test]
    fn a_pipeline_is_no_channel() {
        // The first and the third do not wake each other: they look like a side.
        let mut stages: BTreeMap<Pid, Thread> = (1..=4).map(|pid| (Pid(pid), Thread::new(120))).collect();
        // When each had done its last.
        let mut done = [0; 5];
        let mut work = [0; 5];
        for message in 0..MESSAGES {
            for pid in 1..=4u32 {
                let [i, by] = [pid as usize, pid as usize - 1];
                let step = |work: &mut [u64; 5], of: u32, step| {
                    let units = std::mem::take(&mut work[of as usize]);
                    [(units > 0).then_some(Step::Work(units)), Some(step)].into_iter().flatten()
                };
                let (since, at) = (done[i], done[by]);
                if pid > 1 && since < at {
                    let post = step(&mut work, pid - 1, Step::Post { to: Pid(pid), at });
                    stages.get_mut(&Pid(pid - 1)).unwrap().steps.extend(post);
                    let token = step(&mut work, pid, Step::Token { by: Pid(pid - 1), since, at });
                    stages.get_mut(&Pid(pid)).unwrap().steps.extend(token);
                }
                work[i] += 10;
                // Now and then something else comes in between.
                done[i] = since.max(at) + 10 + (message * 7 + u64::from(pid) * 5) % 23;
            }
        }
        let links = stages.values().flat_map(|t| &t.steps).filter(|s| matches!(s, Step::Post { .. })).count();
        let each = stages.keys().map(|pid| (*pid, format!("stage{pid}"))).collect();
        for kinds in [kinds(&stages), each] {
            assert!(links > 30 && sides(&stages, &kinds).len() == 1);
            assert_eq!(found_of(&mut stages, &kinds).sides.len(), 0);
        }
    }

    /// Some writers wake a reader without having worked before: a message's work for each of their wake-ups is more than they did.
    #[test]
    fn messages_that_make_work() {
        let mut threads = passing(3, 2, (10, 6), 1_000);
        for (_, t) in threads.iter_mut().take(3) {
            let wakes: Vec<usize> = (1..t.steps.len())
                .filter(|i| t.steps[i - 1] == Step::Work(10) && matches!(t.steps[*i], Step::Post { .. }))
                .collect();
            for i in wakes.iter().rev().step_by(2) {
                t.steps.remove(i - 1);
            }
        }
        let before = work(&threads);
        assert_eq!(found(&mut threads).sides.len(), 0);
        assert_eq!(work(&threads), before);
    }

    #[test]
    fn what_is_no_channel() {
        // A pool: whoever waits takes the next, so that none waits when something is hidden.
        let mut pool = passing(3, 2, (10, 6), 1_000);
        for step in pool.values_mut().flat_map(|t| &mut t.steps) {
            if let Step::Token { since, at, .. } = step {
                *since = *at;
            }
        }
        assert_eq!(found(&mut pool).sides.len(), 0, "nobody is passed over");
        let mut seen = passing(1, 2, (10, 7), 1_000);
        let before: Vec<Vec<Step>> = seen.values().map(|t| t.steps.clone()).collect();
        assert_eq!(found(&mut seen).hidden, 0);
        assert_eq!(seen.values().map(|t| t.steps.clone()).collect::<Vec<_>>(), before, "every message was seen");
        let mut unequal = passing(3, 2, (10, 6), 1_000);
        let reader = unequal.get_mut(&Pid(4)).unwrap();
        for step in &mut reader.steps {
            if let Step::Work(units) = step {
                *units = if *units > 6 { *units * 2 } else { *units };
            }
        }
        assert_eq!(found(&mut unequal).sides.len(), 0, "they read more than was written");
    }
}
