//! Valid Calls and Replies of NFSv2, NFSv3 and NFSv4 with data items, and the transfer mode of each item.

use super::headers::{self, Dialect, Outgoing};
use super::writer::{Lists, Memory, NfsRdmaPrototypeProc, Padding, Way, Writer, fill, header};

/// A deterministic random number generator (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let first = self.below(256);
        (0..length).map(|at| (first + at + at / 251) as u8).collect()
    }
}

/// A data item and its transfer mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) bytes: Vec<u8>,
    pub(crate) way: Way,
}

/// A chunk: its memory as offered in the Call, and the transferred content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) memory: Vec<Memory>,
    pub(crate) content: Vec<u8>,
}

impl Chunk {
    /// Returns the content of each segment; segments are filled in order.
    pub(crate) fn parts(&self) -> Vec<&[u8]> {
        let mut rest = &self.content[..];
        let parts = self.memory.iter().map(|memory| {
            let (part, after) = rest.split_at(rest.len().min(memory.length as usize));
            rest = after;
            part
        });
        parts.collect()
    }

    fn returned(&self, without_segments: bool) -> Vec<Memory> {
        if without_segments && self.content.is_empty() {
            return Vec::new();
        }
        let parts = self.memory.iter().zip(self.parts());
        parts.map(|(memory, part)| Memory { length: part.len() as u32, ..*memory }).collect()
    }
}

/// A Call with its Reply.
pub(crate) struct Conversation {
    pub(crate) xid: u32,
    pub(crate) dialect: Dialect,
    /// Payloads of the Sends of the Call and of the Reply.
    pub(crate) call_sends: Vec<Vec<u8>>,
    pub(crate) reply_sends: Vec<Vec<u8>>,
    /// Memory that the Reply invalidates.
    pub(crate) invalidate: Option<u32>,
    /// Lengths of the Call and Reply messages, in the Send or in a chunk, without padding.
    pub(crate) whole_lengths: [usize; 2],
    /// Number of padding bytes in the Call.
    pub(crate) padding: usize,
    /// Read chunks in header order, with their Positions.
    pub(crate) reads: Vec<(u32, Chunk)>,
    pub(crate) writes: Vec<Chunk>,
    pub(crate) reply_chunk: Option<Chunk>,
    /// Chunks of the Reply that the client reads, with their Positions, followed by its RDMA_DONE.
    pub(crate) reply_reads: Vec<(u32, Chunk)>,
    pub(crate) done: Option<Vec<u8>>,
    pub(crate) arguments: Vec<Item>,
    pub(crate) results: Vec<Item>,
    pub(crate) version: u32,
    /// `true` if an operation fails, so that the server need not read the data of the following ones.
    pub(crate) fails: bool,
    /// Write chunk with another length than its item: index, length of the chunk, length of the item.
    pub(crate) other_length: Option<(usize, usize, usize)>,
}

/// Length of the chunk that returns the first item in a Write chunk. RFC 8166 section 3.4.6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnedLength {
    Item,
    WithRoundup,
    Shorter,
    Longer,
}

impl ReturnedLength {
    /// Returns `content` with this length, or `None` if it would be empty or longer than `bound`.
    fn change(self, dice: &mut Dice, content: &[u8], bound: usize) -> Option<Vec<u8>> {
        let length = content.len();
        let with_roundup = length + fill(length);
        let changed = match self {
            Self::Item => length,
            Self::WithRoundup => with_roundup,
            Self::Shorter => length - 1 - dice.below(length),
            Self::Longer => with_roundup + 1 + dice.below(100),
        };
        let mut content = content.to_vec();
        content.resize(changed, 0);
        (1..=bound).contains(&changed).then_some(content)
    }
}

/// Data transfer of one operation.
pub(crate) enum Deed {
    Read { data: Option<Vec<u8>> },
    Readlink { text: Option<Vec<u8>> },
    Write { data: Vec<u8> },
    Link { text: Vec<u8> },
}

impl Deed {
    fn is_result(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Readlink { .. })
    }

    /// Returns the result data; `None` if the operation failed.
    fn result(&self) -> Option<&Vec<u8>> {
        match self {
            Self::Read { data } => data.as_ref(),
            Self::Readlink { text } => text.as_ref(),
            Self::Write { .. } | Self::Link { .. } => None,
        }
    }
}

/// Memory of a client: a region for each segment, or one region for all.
#[derive(Debug)]
pub(crate) enum Region {
    /// The handle used last.
    Each(u32),
    /// The handle of the region, its first byte that is free, its length, and the distance of its buffers; 1 if they are
    /// anywhere. Buffers are used again after the end of the region.
    One { handle: u32, free: u64, length: u64, distance: u64 },
}

impl Region {
    fn allocate(&mut self, dice: &mut Dice, length: usize) -> (u32, u64) {
        match self {
            Self::Each(handle) => {
                *handle += 1;
                (*handle, ((dice.below(1 << 20) as u64) << 32) + dice.below(4096) as u64)
            }
            Self::One { handle, free, length: region, distance } => {
                if *free + length as u64 > *region {
                    *free = 0;
                }
                let is_anywhere = *distance == 1 && !dice.one_in(3);
                let gap = if is_anywhere { dice.below(4096) as u64 } else { 0 };
                let offset = (*free + gap).next_multiple_of(*distance);
                // Segments without bytes have distinct offsets, too.
                *free = offset + length.max(1) as u64;
                (*handle, 0xffff_8880_0000_0000 + offset)
            }
        }
    }
}

/// Returns memory segments.
fn memory(dice: &mut Dice, handles: &mut Region, total: usize, segments: usize) -> Vec<Memory> {
    let mut left = total;
    let mut memory = Vec::new();
    for at in 0..segments {
        let length = if at + 1 == segments { left } else { (1 + dice.below(left.max(1))).min(left) };
        left -= length;
        let (handle, offset) = handles.allocate(dice, length);
        memory.push(Memory { handle, offset, length: length as u32 });
    }
    memory
}

/// Returns a realistic length: zero, a few bytes, one packet, or several.
fn length(dice: &mut Dice) -> usize {
    match dice.below(6) {
        0 => 0,
        1 => 1 + dice.below(8),
        2 => 100 + dice.below(100),
        3 => 1020 + dice.below(8),
        _ => 1 + dice.below(5000),
    }
}

fn deed(dice: &mut Dice, may_fail: bool) -> Deed {
    let fails = may_fail && dice.one_in(4);
    let length = length(dice);
    // A path has at least one byte, and is too short for padding.
    let text = 1 + dice.below(150);
    match dice.below(5) {
        0 | 1 => Deed::Read { data: (!fails).then(|| dice.bytes(length)) },
        2 => Deed::Readlink { text: (!fails).then(|| dice.bytes(text)) },
        3 => Deed::Write { data: dice.bytes(length) },
        _ => Deed::Link { text: dice.bytes(text) },
    }
}

const FATTR2: [u32; 17] = [1, 0o644, 1, 0, 0, 9, 512, 0, 1, 7, 8, 1, 2, 3, 4, 5, 6];

/// Writes the arguments of a procedure or of the operations of a COMPOUND; `ways` chooses the transfer mode of each
/// item.
pub(crate) fn arguments(to: &mut Writer, version: u32, deeds: &[Deed], noise: usize, mut ways: impl FnMut() -> Way) {
    const HANDLE: &[u8] = b"filehandle";
    match version {
        2 => {
            to.fixed(&[7; 32]);
            match &deeds[0] {
                Deed::Read { .. } => to.words(&[0, 8192, 8192]),
                Deed::Readlink { .. } => to,
                Deed::Write { data } => to.words(&[0, 0, data.len() as u32]).item(data, ways()),
                Deed::Link { text } => to.opaque(b"link").item(text, ways()).words(&[u32::MAX; 8]),
            };
        }
        3 => {
            to.opaque(HANDLE);
            match &deeds[0] {
                Deed::Read { .. } => to.hyper(0).words(&[8192]),
                Deed::Readlink { .. } => to,
                Deed::Write { data } => to.hyper(0).words(&[data.len() as u32, 2]).item(data, ways()),
                Deed::Link { text } => to.opaque(b"link").words(&[0; 6]).item(text, ways()),
            };
        }
        _ => {
            let count = deeds.len() + noise * deeds.len();
            to.opaque(b"").words(&[0, count as u32]);
            for deed in deeds {
                if noise > 0 {
                    to.words(&[22]).opaque(HANDLE);
                }
                if noise > 1 {
                    to.words(&[15]).opaque(b"name");
                }
                match deed {
                    Deed::Read { .. } => to.words(&[25, 0, 0, 0, 0]).hyper(4096).words(&[8192]),
                    Deed::Readlink { .. } => to.words(&[27]),
                    Deed::Write { data } => to.words(&[38, 0, 0, 0, 0]).hyper(4096).words(&[2]).item(data, ways()),
                    Deed::Link { text } => to.words(&[6, 5]).item(text, ways()).opaque(b"link").words(&[0, 0]),
                };
            }
        }
    }
}

pub(crate) fn results(to: &mut Writer, version: u32, deeds: &[Deed], noise: usize, mut ways: impl FnMut() -> Way) {
    match version {
        2 => {
            match &deeds[0] {
                Deed::Read { data: Some(data) } => to.words(&[0]).words(&FATTR2).item(data, ways()),
                Deed::Readlink { text: Some(text) } => to.words(&[0]).item(text, ways()),
                Deed::Write { .. } => to.words(&[0]).words(&FATTR2),
                Deed::Link { .. } => to.words(&[0]),
                Deed::Read { data: None } | Deed::Readlink { text: None } => to.words(&[5]),
            };
        }
        3 => {
            match &deeds[0] {
                Deed::Read { data: Some(data) } => to.words(&[0, 0, data.len() as u32, 1]).item(data, ways()),
                Deed::Readlink { text: Some(text) } => to.words(&[0, 0]).item(text, ways()),
                Deed::Write { data } => to.words(&[0, 0, 0, data.len() as u32, 2, 1, 2]),
                Deed::Link { .. } => to.words(&[0; 5]),
                Deed::Read { data: None } | Deed::Readlink { text: None } => to.words(&[5, 0]),
            };
        }
        _ => {
            let failed = deeds.iter().position(|deed| deed.is_result() && deed.result().is_none());
            let done = failed.map_or(deeds.len(), |at| at + 1);
            to.words(&[if failed.is_some() { 5 } else { 0 }]).opaque(b"");
            to.words(&[(done + noise * done) as u32]);
            for deed in &deeds[..done] {
                if noise > 0 {
                    to.words(&[22, 0]);
                }
                if noise > 1 {
                    to.words(&[15, 0]);
                }
                match deed {
                    Deed::Read { data: Some(data) } => to.words(&[25, 0, 1]).item(data, ways()),
                    Deed::Readlink { text: Some(text) } => to.words(&[27, 0]).item(text, ways()),
                    Deed::Read { data: None } => to.words(&[25, 5]),
                    Deed::Readlink { text: None } => to.words(&[27, 5]),
                    Deed::Write { data } => to.words(&[38, 0, data.len() as u32, 2, 1, 2]),
                    Deed::Link { .. } => to.words(&[6, 0, 1]).hyper(1).hyper(2).words(&[0]),
                };
            }
        }
    }
}

pub(crate) fn procedure(version: u32, deed: &Deed) -> u32 {
    match (version, deed) {
        (2 | 3, Deed::Readlink { .. }) => 5,
        (2 | 3, Deed::Read { .. }) => 6,
        (2, Deed::Write { .. }) => 8,
        (3, Deed::Write { .. }) => 7,
        (2, Deed::Link { .. }) => 13,
        (3, Deed::Link { .. }) => 10,
        _ => 1,
    }
}

/// Permutes the entries of a Read list: those of one Position keep their order, and need not be consecutive (RFC 8166
/// section 3.4.5). Returns the chunks, each with its Position.
fn permute(dice: &mut Dice, dialect: Dialect, reads: Vec<(u32, Chunk)>, is_long: bool) -> Vec<(u32, Chunk)> {
    // The order of the offsets is what a Long message of the prototype is recognized by.
    if dice.one_in(3) || (is_long && dialect == Dialect::Prototype) {
        return reads;
    }
    let mut entries = Vec::new();
    let mut queues: Vec<_> = { reads.iter() }
        .map(|(position, chunk)| {
            let parts = chunk.memory.iter().zip(chunk.parts()).map(|(memory, part)| (*memory, part.to_vec()));
            (*position, parts.collect::<std::collections::VecDeque<_>>())
        })
        .collect();
    while !queues.is_empty() {
        let at = dice.below(queues.len());
        let (position, queue) = &mut queues[at];
        match queue.pop_front() {
            Some((memory, part)) => entries.push((*position, memory, part)),
            None => drop(queues.swap_remove(at)),
        }
    }
    // Version 2 has a list of its own for a Long Call.
    if is_long && dialect == Dialect::Version2 {
        entries.sort_by_key(|(position, ..)| *position > 0);
    }
    let mut chunks: Vec<(u32, Chunk)> = Vec::new();
    for (position, memory, part) in entries {
        match chunks.last_mut() {
            Some((last, chunk)) if *last == position => {
                chunk.memory.push(memory);
                chunk.content.extend(part);
            }
            _ => chunks.push((position, Chunk { memory: vec![memory], content: part })),
        }
    }
    chunks
}

impl Conversation {
    pub(crate) fn roll(dice: &mut Dice, dialect: Dialect, xid: u32, handles: &mut Region) -> Self {
        Self::roll_returning(ReturnedLength::Item, dice, dialect, xid, handles)
    }

    /// Like [`Conversation::roll`]. The first item in a Write chunk returns another length, if its chunk has room for
    /// it.
    pub(crate) fn roll_returning(
        returned: ReturnedLength,
        dice: &mut Dice,
        dialect: Dialect,
        xid: u32,
        handles: &mut Region,
    ) -> Self {
        let version = [2, 3, 4, 4, 4][dice.below(5)];
        let count = if version == 4 { 1 + dice.below(6) } else { 1 };
        let noise = dice.below(3);
        // A failure ends a COMPOUND (RFC 8881 section 16.2.3), so the chunks after it stay unused.
        let deeds: Vec<_> = (0..count).map(|_| deed(dice, true)).collect();
        let done = match deeds.iter().position(|deed| deed.is_result() && deed.result().is_none()) {
            Some(failed) if version == 4 => failed + 1,
            _ => deeds.len(),
        };

        let fails = deeds.iter().any(|deed| deed.is_result() && deed.result().is_none());

        // The Write list: RFC 8267 section 6.4.1. One chunk for each of the first results, possibly empty.
        let expected: Vec<_> = deeds.iter().filter(|deed| deed.is_result()).collect();
        let mut offered = if dice.one_in(5) { 0 } else { dice.below(expected.len() + 1) };
        if dice.one_in(2) {
            offered = expected.len();
        }
        // RFC 5666 section 3.5: a client without Write chunks reads the results.
        let reads_results = dialect.may_read_results() && (!dialect.has_write_chunks() || dice.one_in(3));
        if reads_results {
            offered = 0;
        }
        let mut writes = Vec::new();
        for deed in &expected[..offered] {
            let length = deed.result().map_or(512, Vec::len);
            let memory = match dice.below(6) {
                0 => Vec::new(),
                1 => memory(dice, handles, 0, 1),
                2 => memory(dice, handles, length.max(1), 1),
                3 => {
                    let segments = 1 + dice.below(4);
                    memory(dice, handles, length.max(4), segments)
                }
                _ => {
                    let (spare, segments) = (dice.below(4096), 1 + dice.below(3));
                    memory(dice, handles, length + 4 + spare, segments)
                }
            };
            writes.push(Chunk { memory, content: Vec::new() });
        }

        // Transfer mode of each result.
        let mut result_items = Vec::new();
        let happened = deeds[..done].iter().filter(|deed| deed.is_result());
        for (ordinal, deed) in happened.enumerate() {
            let Some(bytes) = deed.result() else { continue };
            let chunk = writes
                .get_mut(ordinal)
                .filter(|chunk| chunk.memory.iter().any(|memory| memory.length > 0) && !bytes.is_empty());
            let way = match chunk {
                Some(chunk) => {
                    chunk.content.clone_from(bytes);
                    Way::Chunk
                }
                None if reads_results && !bytes.is_empty() && !dice.one_in(3) => Way::Chunk,
                None => Way::Inline,
            };
            result_items.push(Item { bytes: bytes.clone(), way });
        }
        let mut other_length = None;
        if returned != ReturnedLength::Item
            && let Some((at, chunk)) = writes.iter_mut().enumerate().find(|(_, it)| !it.content.is_empty())
        {
            let room = chunk.memory.iter().map(|memory| memory.length as usize).sum();
            if let Some(content) = returned.change(dice, &chunk.content, room) {
                other_length = Some((at, content.len(), chunk.content.len()));
                chunk.content = content;
            }
        }

        // The Call.
        let is_long = dice.one_in(5);
        let has_padding = dialect == Dialect::Rfc5666 && !is_long && dice.one_in(3);
        let argument_items: Vec<_> = deeds
            .iter()
            .filter_map(|deed| match deed {
                Deed::Write { data: bytes } | Deed::Link { text: bytes } => {
                    let way = if has_padding || bytes.is_empty() || dice.one_in(3) { Way::Inline } else { Way::Chunk };
                    Some(Item { bytes: bytes.clone(), way })
                }
                _ => None,
            })
            .collect();
        let reply_chunk = (!reads_results && dice.one_in(3)).then(|| {
            let segments = 1 + dice.below(2);
            Chunk { memory: memory(dice, handles, 40_000, segments), content: Vec::new() }
        });
        let mut lists = Lists {
            reads: Vec::new(),
            writes: writes.iter().map(|chunk| chunk.memory.clone()).collect(),
            reply: reply_chunk.as_ref().map(|chunk| chunk.memory.clone()),
        };
        let (align, threshold) = (1 << (3 + dice.below(7)), 200 + dice.below(400));
        let proc = match (is_long, has_padding) {
            (true, _) => NfsRdmaPrototypeProc::Nomsg,
            (false, true) => NfsRdmaPrototypeProc::Msgp { align, threshold: threshold as u32 },
            (false, false) => NfsRdmaPrototypeProc::Msg,
        };
        let mut call = Writer::default();
        if has_padding {
            let header = header(xid, proc, &lists).len();
            call.padding = Some(Padding { align: align as usize, threshold, header });
        }
        call.words(&[xid, 0, 2, 100_003, version, procedure(version, &deeds[0]), 0, 0, 0, 0]);
        let mut ways = argument_items.iter().map(|item| item.way);
        arguments(&mut call, version, &deeds, noise, || ways.next().unwrap());
        let mut reads = Vec::new();
        if is_long {
            let segments = dialect.segments(dice);
            let memory = memory(dice, handles, call.bytes.len(), segments);
            reads.push((0, Chunk { memory, content: call.bytes.clone() }));
        }
        let in_chunks = argument_items.iter().filter(|item| item.way == Way::Chunk);
        // Older Linux clients append the rest of the Call to the last chunk, behind the roundup of its item.
        let has_tail = !is_long && dialect != Dialect::Prototype && call.last_cut < call.bytes.len() && dice.one_in(4);
        let mut tail =
            if has_tail && !call.positions.is_empty() { call.bytes.split_off(call.last_cut) } else { Vec::new() };
        for (at, (position, item)) in call.positions.iter().zip(in_chunks).enumerate() {
            let segments = dialect.segments(dice);
            let mut content = item.bytes.clone();
            if at + 1 == call.positions.len() && !tail.is_empty() {
                content.resize(content.len() + fill(content.len()), 0);
                content.append(&mut tail);
            }
            let memory = memory(dice, handles, content.len(), segments);
            reads.push((*position as u32, Chunk { memory, content }));
        }
        let reads = permute(dice, dialect, reads, is_long);
        for (position, chunk) in &reads {
            lists.reads.extend(chunk.memory.iter().map(|memory| (*position, *memory)));
        }
        let offered = lists.reads.iter().map(|(_, memory)| memory);
        let offered: Vec<_> =
            offered.chain(lists.writes.iter().flatten()).chain(lists.reply.iter().flatten()).collect();
        let invalidate = match offered.first() {
            Some(memory) if dialect == Dialect::Version2 && dice.one_in(2) => Some(memory.handle),
            _ => None,
        };
        let outgoing = Outgoing {
            xid,
            is_call: true,
            proc,
            lists: &lists,
            body: &call.bytes,
            invalidate: invalidate.unwrap_or(0),
        };
        let call_sends = outgoing.sends(dialect, dice);

        // The Reply.
        let mut reply = Writer::default();
        reply.words(&[xid, 1, 0, 0, 0, 0]);
        let mut ways = result_items.iter().map(|item| item.way);
        results(&mut reply, version, &deeds[..done], noise, || ways.next().unwrap());
        let mut reply_chunk = reply_chunk;
        let mut reply_reads = Vec::new();
        let is_long_reply = match &mut reply_chunk {
            Some(chunk) if dice.one_in(2) => {
                chunk.content.clone_from(&reply.bytes);
                true
            }
            None if reads_results && dice.one_in(4) => {
                let segments = dialect.segments(dice);
                let memory = memory(dice, handles, reply.bytes.len(), segments);
                reply_reads.push((0, Chunk { memory, content: reply.bytes.clone() }));
                true
            }
            _ => false,
        };
        if reads_results {
            let in_chunks = result_items.iter().filter(|item| item.way == Way::Chunk);
            for (position, item) in reply.positions.iter().zip(in_chunks) {
                let segments = dialect.segments(dice);
                let memory = memory(dice, handles, item.bytes.len(), segments);
                reply_reads.push((*position as u32, Chunk { memory, content: item.bytes.clone() }));
            }
            reply_reads = permute(dice, dialect, reply_reads, is_long_reply);
        }
        // RFC 8166 section 4.3.2.2 and RFC 8267 section 6.4.1 define two forms of an unused chunk.
        let without_segments = dice.one_in(2);
        let entries = reply_reads
            .iter()
            .flat_map(|(position, chunk)| chunk.memory.iter().map(move |memory| (*position, *memory)));
        let returned = Lists {
            reads: entries.collect(),
            writes: writes.iter().map(|chunk| chunk.returned(without_segments)).collect(),
            reply: reply_chunk.as_ref().map(|chunk| chunk.returned(false)),
        };
        let proc = if is_long_reply { NfsRdmaPrototypeProc::Nomsg } else { NfsRdmaPrototypeProc::Msg };
        let outgoing = Outgoing { xid, is_call: false, proc, lists: &returned, body: &reply.bytes, invalidate: 0 };
        let reply_sends = outgoing.sends(dialect, dice);
        let done = (!reply_reads.is_empty()).then(|| headers::done(dialect, xid));
        let sent = |items: &[Item]| -> usize {
            let in_chunks = items.iter().filter(|item| item.way == Way::Chunk);
            in_chunks.map(|item| item.bytes.len() + fill(item.bytes.len())).sum()
        };
        let padding = if has_padding { call.bytes.len() + sent(&argument_items) - call.whole } else { 0 };
        Self {
            xid,
            dialect,
            call_sends,
            reply_sends,
            invalidate,
            whole_lengths: [call.whole, reply.whole],
            padding,
            reads,
            writes,
            reply_chunk,
            reply_reads,
            done,
            arguments: argument_items,
            results: result_items,
            version,
            fails,
            other_length,
        }
    }
}
