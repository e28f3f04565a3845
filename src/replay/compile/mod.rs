//! From a capture to a trace.
//!
//! Transactions come as the flow gives them out, and each becomes a [`Step`](super::trace::Step) at once, so that memory
//! does not grow with the capture. The decoders tell where identities and file data stand in its messages
//! ([`listen`]); what has the same name on the same server is one variable ([`variables`]).

mod listen;
mod messages;
mod variables;

use std::io::{self, Write};

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::chunk::Chunk;
use nfsrdma_dissectors::flow::transaction::{Direction, MessageRecord, Which};
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::xdr::List;

use super::trace::file::Writer;
use super::trace::step::Segments;
use super::trace::{Origin, Shape, Step};
use messages::Parts;
use variables::Variables;

pub use messages::Keep;

/// What was compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps: Transactions of the capture.
    pub steps: u64,
    /// Steps whose Call was not captured, or not as a whole.
    pub without_call: u64,
    /// Steps whose Reply was not captured.
    pub without_reply: u64,
    /// Bytes of file data in all steps.
    pub payload_bytes: u64,
    /// Bytes of file data that were not captured.
    pub unknown_bytes: u64,
    /// Things that a server or a client named.
    pub variables: u64,
}

/// Makes a trace of Transactions.
#[derive(Debug)]
pub struct Compiler<W: Write> {
    to: Writer<W>,
    keep: Keep,
    variables: Variables,
    call: Parts,
    reply: Parts,
    counts: Counts,
}

impl<W: Write> Compiler<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(to: W, keep: Keep) -> io::Result<Self> {
        Ok(Self {
            to: Writer::new(to)?,
            keep,
            variables: Variables::default(),
            call: Parts::default(),
            reply: Parts::default(),
            counts: Counts::default(),
        })
    }

    /// Adds a Transaction.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub fn transaction(&mut self, transaction: &Transaction) -> io::Result<()> {
        let Self { to, keep, variables, call, reply, counts } = self;
        let server = variables.server(transaction.connection.server.address);
        transaction.read(|reading| {
            call.read(reading, Which::Call, server, variables);
            reply.read(reading, Which::Reply, server, variables);
        });
        for parts in [&mut *call, &mut *reply] {
            parts.keep(*keep, to)?;
            counts.payload_bytes += parts.payload_bytes();
            counts.unknown_bytes += parts.unknown_bytes();
        }
        counts.steps += 1;
        counts.without_call += u64::from(!is_whole(transaction.call.as_ref()));
        counts.without_reply += u64::from(transaction.reply.is_none());
        let lengths = Lengths::of(transaction);
        let [reads, writes] = [&lengths.reads, &lengths.writes].map(|chunks| {
            chunks.iter().map(|lengths| Segments { lengths: List::from(&lengths[..]) }).collect::<Vec<_>>()
        });
        to.step(&Step {
            origin: origin(transaction),
            call: call.message(),
            reply: reply.message(),
            shape: Shape {
                call: Segments { lengths: List::from(&lengths.call[..]) },
                reads: List::from(&reads[..]),
                writes: List::from(&writes[..]),
                reply: Segments { lengths: List::from(&lengths.reply[..]) },
            },
        })
    }

    /// Ends the trace; gives what was written to, and what was compiled.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Counts)> {
        self.counts.variables = self.variables.len();
        Ok((self.to.finish()?, self.counts))
    }
}

fn is_whole(message: Option<&MessageRecord>) -> bool {
    message.is_some_and(|message| message.bytes.len() >= message.length && message.gaps.is_empty())
}

fn origin(transaction: &Transaction) -> Origin {
    let first = |message: Option<&MessageRecord>| {
        message.and_then(|message| message.frames.first()).map_or(0, |FrameNumber(number)| *number)
    };
    let nanoseconds = |time: Timestamp| u64::try_from(time.0).unwrap_or(0);
    let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
    let time = call.or(reply).map_or(0, |message| nanoseconds(message.time));
    Origin {
        connection: transaction.connection.number,
        is_reverse: transaction.direction == Direction::Reverse,
        transaction: transaction.index,
        call_frame: first(call),
        reply_frame: first(reply),
        time,
        latency: reply.map_or(0, |reply| nanoseconds(reply.end_time).saturating_sub(time)),
        is_whole: is_whole(call),
    }
}

/// Lengths of the segments of each chunk of a Call.
#[derive(Debug, Default)]
struct Lengths {
    call: Vec<u32>,
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    reply: Vec<u32>,
}

impl Lengths {
    fn of(transaction: &Transaction) -> Self {
        let of = |chunk: &Chunk| chunk.segments.iter().map(|segment| segment.length).collect();
        let is_long = transaction.call.as_ref().is_some_and(MessageRecord::is_nomsg);
        let mut lengths = Self::default();
        for chunk in &transaction.read_chunks {
            match chunk.position {
                Some(0) if is_long => lengths.call = of(chunk),
                _ => lengths.reads.push(of(chunk)),
            }
        }
        lengths.writes = transaction.write_chunks.iter().map(of).collect();
        lengths.reply = transaction.reply_chunk.as_ref().map(of).unwrap_or_default();
        lengths
    }
}
