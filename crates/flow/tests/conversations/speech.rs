//! Order of the operations of both sides of a connection.

use super::calls::{Chunk, Conversation, Dice};
use super::fabric::{Fabric, Kind, Side};
use super::headers::{self, Dialect};

/// An operation of a side for a conversation, after its Call.
enum Step<'c> {
    Read(Side, &'c Chunk),
    Write(&'c Chunk),
    Reply,
    Done(&'c [u8]),
}

fn steps(conversation: &Conversation) -> Vec<Step<'_>> {
    let reads = conversation.reads.iter().map(|(_, chunk)| Step::Read(Side::Server, chunk));
    let writes = conversation.writes.iter().chain(&conversation.reply_chunk).map(Step::Write);
    let fetches = conversation.reply_reads.iter().map(|(_, chunk)| Step::Read(Side::Client, chunk));
    let done = conversation.done.iter().map(|done| Step::Done(done));
    reads.chain(writes).chain([Step::Reply]).chain(fetches).chain(done).collect()
}

/// Packets that the server has to send again, because one was lost before the capture point and the client refused the
/// following ones.
struct Repetition {
    /// PSN of the lost packet.
    lost: u32,
    /// The lost frames.
    frames: Vec<Vec<u8>>,
    /// Indices of the frames after them.
    refused: std::ops::Range<usize>,
}

impl Repetition {
    fn send(self, fabric: &mut Fabric) {
        // A NAK with a PSN sequence error. InfiniBand Architecture Specification volume 1, section 9.7.5.2.
        fabric.acknowledge(Side::Client, self.lost, 0x60);
        fabric.frames.extend(self.frames);
        self.refused.for_each(|at| fabric.repeat(at));
        let newest = fabric.next[Side::Server as usize].wrapping_sub(1) & 0xff_ffff;
        fabric.acknowledge(Side::Client, newest, 0x1f);
    }
}

/// Sends the operations of one conversation after its Call. An RDMA Write is lost before the capture point.
fn lose_write(dice: &mut Dice, conversation: &Conversation, fabric: &mut Fabric) -> Option<Repetition> {
    let chunks = conversation.writes.iter().chain(&conversation.reply_chunk);
    let writes = chunks.flat_map(|chunk| chunk.memory.iter().zip(chunk.parts())).filter(|(_, part)| !part.is_empty());
    let writes: Vec<_> = writes.collect();
    let lost_write = if writes.is_empty() { None } else { Some(dice.below(writes.len())) };
    let mut repetition = None;
    for (_, chunk) in &conversation.reads {
        chunk.memory.iter().zip(chunk.parts()).for_each(|(memory, part)| fabric.read(Side::Server, *memory, part));
    }
    for (at, (memory, part)) in writes.into_iter().enumerate() {
        let (begin, lost) = (fabric.frames.len(), fabric.next[Side::Server as usize]);
        fabric.write(*memory, part);
        if Some(at) == lost_write {
            repetition = Some(Repetition { lost, frames: fabric.lose_from(begin), refused: begin..begin });
        }
    }
    for send in &conversation.reply_sends {
        fabric.send(Side::Server, send);
    }
    fabric.first_reply.get_or_insert(fabric.frames.len());
    if let Some(repetition) = &mut repetition {
        repetition.refused.end = fabric.frames.len();
    }
    repetition
}

/// Sends conversations, up to three at a time, with the server's operations interleaved. Over RoCE, some RDMA Writes are
/// lost before the capture point and sent again after the Reply and the following Calls.
pub(crate) fn speak(dice: &mut Dice, conversations: &[Conversation], fabric: &mut Fabric) {
    let mut repetition: Option<Repetition> = None;
    for group in conversations.chunks(1 + dice.below(3)) {
        for send in group.iter().flat_map(|conversation| &conversation.call_sends) {
            fabric.send(Side::Client, send);
        }
        if let Some(repetition) = repetition.take() {
            repetition.send(fabric);
        }
        if let [conversation] = group
            && fabric.kind == Kind::Roce
            && conversation.done.is_none()
            && conversation.reply_reads.is_empty()
            && conversation.invalidate.is_none()
            && dice.one_in(2)
        {
            repetition = lose_write(dice, conversation, fabric);
            continue;
        }
        let earlier_firsts = fabric.write_firsts.len();
        let mut open: Vec<_> = group.iter().map(|one| (one, steps(one).into_iter())).collect();
        while !open.is_empty() {
            let at = dice.below(open.len());
            let (conversation, steps) = &mut open[at];
            match steps.next() {
                Some(Step::Read(reader, chunk)) => {
                    for (memory, part) in chunk.memory.iter().zip(chunk.parts()) {
                        fabric.read(reader, *memory, part);
                    }
                }
                Some(Step::Write(chunk)) => {
                    for (memory, part) in chunk.memory.iter().zip(chunk.parts()) {
                        if !part.is_empty() {
                            fabric.write(*memory, part);
                        }
                    }
                }
                Some(Step::Reply) => {
                    let begin = fabric.frames.len();
                    for (at, send) in conversation.reply_sends.iter().enumerate() {
                        let is_last = at + 1 == conversation.reply_sends.len();
                        let handle = conversation.invalidate.filter(|_| is_last);
                        fabric.send_and_invalidate(Side::Server, send, handle);
                        if conversation.dialect == Dialect::Version2 && dice.one_in(4) {
                            fabric.send(Side::Client, &headers::grant(dice));
                        }
                    }
                    fabric.first_reply.get_or_insert(fabric.frames.len());
                    if conversation.done.is_none() && conversation.reply_reads.is_empty() {
                        fabric.replies.push((conversation.xid, begin..fabric.frames.len()));
                    }
                }
                Some(Step::Done(done)) => fabric.send(Side::Client, done),
                None => {
                    open.swap_remove(at);
                }
            }
        }
        if let [conversation] = group {
            fabric.firsts_alone.push((conversation.xid, fabric.write_firsts[earlier_firsts..].to_vec()));
        }
    }
    if let Some(repetition) = repetition {
        repetition.send(fabric);
    }
}

/// Sends the properties of both sides of a new version 2 connection. Returns the payloads.
pub(crate) fn greet(dice: &mut Dice, spoken: Dialect, fabric: &mut Fabric) -> Vec<Vec<u8>> {
    if spoken != Dialect::Version2 || dice.one_in(4) {
        return Vec::new();
    }
    let printed = [Side::Client, Side::Server].map(|side| {
        let properties = headers::properties(dice);
        properties.iter().for_each(|send| fabric.send(side, send));
        properties
    });
    printed.concat()
}
