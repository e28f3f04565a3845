//! Headers of all dialects except version 1, encoded from their specifications alone: "NFS over RDMA" (SIGCOMM 2003)
//! section 4.4, and draft-ietf-nfsv4-rpcrdma-version-two section 8.4.

use super::calls::Dice;
use super::writer::{Lists, Memory, NfsRdmaPrototypeProc, Writer, header};

/// Header format of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Prototype,
    Rfc5666,
    Rfc8166,
    Version2,
}

impl Dialect {
    pub(crate) const ALL: [Self; 4] = [Self::Prototype, Self::Rfc5666, Self::Rfc8166, Self::Version2];

    /// Returns `true` if results may be in chunks that the client reads: the Read-Read model of RFC 5666 section 3.5.
    pub(crate) fn may_read_results(self) -> bool {
        matches!(self, Self::Prototype | Self::Rfc5666)
    }

    /// Returns the number of segments of a chunk that is read. Each entry of the prototype's list is a chunk.
    pub(crate) fn segments(self, dice: &mut Dice) -> usize {
        if self == Self::Prototype { 1 } else { 1 + dice.below(3) }
    }

    /// Returns `true` if the client may offer Write chunks.
    pub(crate) fn has_write_chunks(self) -> bool {
        self != Self::Prototype
    }
}

const GRANT: u32 = 5;
const CONNPROP_MIDDLE: u32 = 6;
const CONNPROP_FINAL: u32 = 7;
const CALL_EXTERNAL: u32 = 8;
const CALL_MIDDLE: u32 = 9;
const CALL_INLINE: u32 = 10;
const REPLY_EXTERNAL: u32 = 11;
const REPLY_MIDDLE: u32 = 12;
const REPLY_INLINE: u32 = 13;

fn segment(to: &mut Writer, memory: &Memory) {
    to.words(&[memory.handle, memory.length]).hyper(memory.offset);
}

fn read_list<'m>(to: &mut Writer, entries: impl Iterator<Item = &'m (u32, Memory)>) {
    for (position, memory) in entries {
        to.words(&[1, *position]);
        segment(to, memory);
    }
    to.words(&[0]);
}

fn chunk(to: &mut Writer, chunk: &[Memory]) {
    to.words(&[1, chunk.len() as u32]);
    chunk.iter().for_each(|memory| segment(to, memory));
}

fn write_list(to: &mut Writer, lists: &Lists) {
    lists.writes.iter().for_each(|writes| chunk(to, writes));
    to.words(&[0]);
}

fn reply_chunk(to: &mut Writer, lists: &Lists) {
    match &lists.reply {
        Some(reply) => chunk(to, reply),
        None => {
            to.words(&[0]);
        }
    }
}

/// Writes a clist of the prototype: offset, length, handle, address.
fn prototype(xid: u32, lists: &Lists) -> Vec<u8> {
    let mut to = Writer::default();
    to.words(&[xid, 1, 0]);
    for (offset, memory) in &lists.reads {
        to.words(&[1, *offset, memory.length, memory.handle]).hyper(memory.offset);
    }
    to.words(&[0]);
    to.bytes
}

/// An RPC message and its transfer mode.
pub(crate) struct Outgoing<'m> {
    pub(crate) xid: u32,
    pub(crate) is_call: bool,
    /// `Msg` or `Msgp` for an inline message, `Nomsg` for a message in a chunk.
    pub(crate) proc: NfsRdmaPrototypeProc,
    pub(crate) lists: &'m Lists,
    /// Reduced RPC message.
    pub(crate) body: &'m [u8],
    /// Memory that the Responder may invalidate; 0 for none.
    pub(crate) invalidate: u32,
}

impl Outgoing<'_> {
    /// Returns the payloads of the Sends.
    pub(crate) fn sends(&self, dialect: Dialect, dice: &mut Dice) -> Vec<Vec<u8>> {
        let inline = if self.proc == NfsRdmaPrototypeProc::Nomsg { &[] } else { self.body };
        match dialect {
            Dialect::Prototype => vec![[prototype(self.xid, self.lists), inline.to_vec()].concat()],
            Dialect::Rfc5666 | Dialect::Rfc8166 => {
                vec![[header(self.xid, self.proc, self.lists), inline.to_vec()].concat()]
            }
            Dialect::Version2 => self.version2(dice),
        }
    }

    fn start(&self, htype: u32, dice: &mut Dice) -> Writer {
        let mut to = Writer::default();
        to.words(&[self.xid, 2, dice.below(1000) as u32, htype]);
        to
    }

    fn version2(&self, dice: &mut Dice) -> Vec<Vec<u8>> {
        let Self { is_call, lists, body, .. } = *self;
        if self.proc == NfsRdmaPrototypeProc::Nomsg {
            let mut to = self.start(if is_call { CALL_EXTERNAL } else { REPLY_EXTERNAL }, dice);
            if is_call {
                to.words(&[self.invalidate]);
                read_list(&mut to, lists.reads.iter().filter(|(position, _)| *position == 0));
                read_list(&mut to, lists.reads.iter().filter(|(position, _)| *position > 0));
            }
            write_list(&mut to, lists);
            reply_chunk(&mut to, lists);
            return vec![to.bytes];
        }
        // Section 6.6.2: the message may be split anywhere.
        let parts = if dice.one_in(3) { 1 + dice.below(4) } else { 1 };
        let mut sends = Vec::new();
        let mut rest = body;
        for _ in 1..parts {
            // The first part contains the XID, which identifies the protocol of a connection without captured
            // beginning.
            let least = if sends.is_empty() { 4 } else { 1 };
            let (part, after) = rest.split_at(least + dice.below(rest.len() - least));
            if after.is_empty() {
                break;
            }
            rest = after;
            let mut to = self.start(if is_call { CALL_MIDDLE } else { REPLY_MIDDLE }, dice);
            to.words(&[rest.len() as u32]);
            sends.push([&to.bytes, part].concat());
            if rest.len() < 2 {
                break;
            }
        }
        let mut to = self.start(if is_call { CALL_INLINE } else { REPLY_INLINE }, dice);
        if is_call {
            to.words(&[self.invalidate]);
            read_list(&mut to, lists.reads.iter());
        }
        write_list(&mut to, lists);
        if is_call {
            reply_chunk(&mut to, lists);
        }
        sends.push([&to.bytes, rest].concat());
        sends
    }
}

/// Returns an RDMA_DONE, which releases the chunks of a Reply.
pub(crate) fn done(dialect: Dialect, xid: u32) -> Vec<u8> {
    let mut to = Writer::default();
    match dialect {
        Dialect::Prototype => to.words(&[xid, 1, 1]),
        _ => to.words(&[xid, 1, 64, 3]),
    };
    to.bytes
}

/// Returns the messages that each side of a version 2 connection sends before any Call. Sections 4.3 and 5.2.
pub(crate) fn properties(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut sends = Vec::new();
    let parts = 1 + dice.below(2);
    for part in 0..parts {
        let mut to = Writer::default();
        to.words(&[0, 2, 1 + dice.below(64) as u32, if part + 1 == parts { CONNPROP_FINAL } else { CONNPROP_MIDDLE }]);
        let count = 1 + dice.below(4);
        to.words(&[count as u32]);
        for _ in 0..count {
            let which = 1 + dice.below(7) as u32;
            to.words(&[which]);
            match which {
                _ if dice.one_in(6) => to.opaque(&[]),
                6 => to.words(&[12, 5]).fixed(b"proof"),
                7 => to.opaque(b"unknown"),
                _ => to.words(&[4, dice.below(1 << 16) as u32]),
            };
        }
        sends.push(to.bytes);
    }
    sends
}

/// Returns a message that only grants credits. Section 6.3.2.
pub(crate) fn grant(dice: &mut Dice) -> Vec<u8> {
    let mut to = Writer::default();
    to.words(&[0, 2, dice.below(4096) as u32, GRANT]);
    to.bytes
}
