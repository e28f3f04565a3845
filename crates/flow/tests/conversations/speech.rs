//! Order of the operations of both sides of a connection.

use super::calls::{Chunk, Conversation, Dice};
use super::fabric::{Fabric, Side};
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

/// Sends conversations, up to three at a time, with the server's operations interleaved.
pub(crate) fn speak(dice: &mut Dice, conversations: &[Conversation], fabric: &mut Fabric) {
    for group in conversations.chunks(1 + dice.below(3)) {
        for send in group.iter().flat_map(|conversation| &conversation.call_sends) {
            fabric.send(Side::Client, send);
        }
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
                    for (at, send) in conversation.reply_sends.iter().enumerate() {
                        let is_last = at + 1 == conversation.reply_sends.len();
                        let handle = conversation.invalidate.filter(|_| is_last);
                        fabric.send_and_invalidate(Side::Server, send, handle);
                        if conversation.dialect == Dialect::Version2 && dice.one_in(4) {
                            fabric.send(Side::Client, &headers::grant(dice));
                        }
                    }
                    fabric.first_reply.get_or_insert(fabric.frames.len());
                }
                Some(Step::Done(done)) => fabric.send(Side::Client, done),
                None => {
                    open.swap_remove(at);
                }
            }
        }
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
