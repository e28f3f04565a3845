//! A Transaction read: its RPC messages, from wherever they travelled, decoded as far as they were captured.

mod again;

use std::borrow::Cow;
use std::ops::Range;

use crate::field::{Field, Observer, Unobserved, Value};
use crate::nfs::{self, Procedure, ProcedureStatus, v4};
use crate::rpc::gss::{self, Payload};
use crate::rpc::{self, Program, Status};
use crate::rpcrdma::{ErrCode, Header, RdmaError, WriteChunk};
use crate::xdr::{ChunkItem, Cursor, Error, roundup};

use super::chunk::{Chunk, Segment};
use super::transaction::{MessageRecord, Transaction, Which};

pub use again::{Again, Beside};

/// What a Transaction is about, in the words of its protocols.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The program, from the Call.
    pub program: Option<Program>,
    /// The version of the program.
    pub version: Option<u32>,
    /// The minor version of a COMPOUND.
    pub minor_version: Option<u32>,
    /// The number of the procedure.
    pub procedure: Option<u32>,
    /// The procedure's name, if this program knows it.
    pub procedure_name: Option<&'static str>,
    /// The procedure; of a COMPOUND the operation that it is about. `None` in a version that is not decoded.
    pub operation: Option<Operation>,
    /// How the procedure went: `nfsstat3`, `nfsstat4`, `nlm4_stats`.
    pub status: Option<ProcedureStatus>,
    /// How RPC went.
    pub rpc_status: Option<RpcStatus>,
    /// How arguments and results are protected.
    pub payload: Option<Payload>,
    /// Why the Call could not be read to its end.
    pub call_error: Option<Error>,
    /// Why the Reply could not be read to its end.
    pub reply_error: Option<Error>,
}

impl Facts {
    /// The program's name. A client may give its callbacks any transient number (RFC 5531 section 8.3).
    pub fn program_name(&self) -> Option<&'static str> {
        let program = self.program?;
        let is_callback = program.is_transient() && self.procedure_name.is_some();
        program.name().or(if is_callback { Program::NFS_CB.name() } else { None })
    }
}

/// What a Call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A procedure or an operation that has a name.
    Named(&'static str),
    /// One that has none here.
    Number(u32),
}

impl Operation {
    fn new((name, number): (Option<&'static str>, u32)) -> Self {
        name.map_or(Self::Number(number), Self::Named)
    }
}

/// How RPC, and RPC-over-RDMA below it, went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcStatus {
    /// What the RPC message says.
    Rpc(Status),
    /// The Responder could not read the RPC-over-RDMA header.
    RdmaError(ErrCode),
}

/// The messages of a Transaction, ready to be read.
pub struct Reading<'a> {
    transaction: &'a Transaction,
    call: Option<Cursor<'a>>,
    reply: Option<Cursor<'a>>,
}

/// What a message is made of: the bytes of a chunk that holds all of it, and those of the chunks that hold items of it.
struct Material<'t> {
    whole: Option<Cow<'t, [u8]>>,
    length: usize,
    items: Vec<Item<'t>>,
}

/// The content of a chunk that holds an item; a [`ChunkItem`] borrows it.
struct Item<'t> {
    position: Option<u32>,
    length: u32,
    content: Option<Cow<'t, [u8]>>,
}

fn returned(segment: &Segment) -> u64 {
    u64::from(segment.returned.unwrap_or(0))
}

fn offered(segment: &Segment) -> u64 {
    u64::from(segment.length)
}

fn item(chunk: &Chunk, expected: fn(&Segment) -> u64) -> Item<'_> {
    let length: u64 = chunk.segments.iter().map(expected).sum();
    let content = chunk.content(expected).filter(|content| content.len() as u64 == length);
    Item { position: chunk.position, length: u32::try_from(length).unwrap_or(u32::MAX), content }
}

impl<'t> Material<'t> {
    fn of(transaction: &'t Transaction, which: Which) -> Option<Self> {
        let message = transaction.message(which)?;
        // Of what follows a header that is cut nothing is there.
        let length = message.inline_length().unwrap_or(message.length.saturating_sub(message.bytes.len()));
        let nothing = Self { whole: None, length, items: Vec::new() };
        let material = match which {
            Which::Call => {
                let (whole, items): (Vec<_>, Vec<_>) =
                    transaction.read_chunks.iter().partition(|chunk| chunk.position == Some(0));
                let whole = whole.first().filter(|_| message.is_nomsg());
                Self {
                    whole: whole.map(|chunk| chunk.content(offered).unwrap_or_default()),
                    length: whole.map_or(nothing.length, |chunk| {
                        // At least a byte more may follow.
                        chunk.offered() as usize + usize::from(chunk.is_cut)
                    }),
                    items: items.into_iter().map(|chunk| item(chunk, offered)).collect(),
                }
            }
            Which::Reply => {
                let whole = transaction.reply_chunk.as_ref().filter(|_| message.is_nomsg());
                Self {
                    whole: whole.map(|chunk| chunk.content(returned).unwrap_or_default()),
                    length: whole.map_or(nothing.length, |chunk| chunk.returned().unwrap_or(0) as usize),
                    items: transaction.write_chunks.iter().map(|chunk| item(chunk, returned)).collect(),
                }
            }
        };
        Some(material)
    }

    fn items(&self) -> Vec<ChunkItem<'_>> {
        let items = self.items.iter();
        items
            .map(|item| ChunkItem {
                position: item.position,
                length: item.length,
                bytes: item.content.as_deref(),
            })
            .collect()
    }

    fn cursor<'a>(&'a self, message: &'a MessageRecord, items: &'a [ChunkItem<'a>]) -> Cursor<'a> {
        let (bytes, base) = match &self.whole {
            Some(whole) => (&**whole, 0),
            None => (message.inline(), message.rpc_at.unwrap_or(message.bytes.len())),
        };
        let cursor = Cursor::new(bytes).with_length(self.length).with_base(base).with_chunks(items);
        cursor.with_padding(message.padding())
    }
}

impl Transaction {
    /// Makes the messages of the Transaction ready to be read.
    pub fn read<R>(&self, read: impl FnOnce(&Reading<'_>) -> R) -> R {
        let call = Material::of(self, Which::Call);
        let reply = Material::of(self, Which::Reply);
        let call_items = call.as_ref().map(Material::items).unwrap_or_default();
        let reply_items = reply.as_ref().map(Material::items).unwrap_or_default();
        read(&Reading {
            transaction: self,
            call: self
                .call
                .as_ref()
                .zip(call.as_ref())
                .map(|(record, call)| call.cursor(record, &call_items)),
            reply: self
                .reply
                .as_ref()
                .zip(reply.as_ref())
                .map(|(record, reply)| reply.cursor(record, &reply_items)),
        })
    }

    /// Length of the whole RPC message with the content of its chunks and their roundup in their places; `None` where
    /// there is no RPC message, and where the capture ends before the header has told all chunks.
    pub fn rpc_length(&self, which: Which) -> Option<u64> {
        let message = self.message(which)?;
        if message.is_rdma_error() {
            return None;
        }
        let filled = |length: u64| length + roundup(length as usize) as u64;
        let inline = message.inline_length()? as u64;
        Some(match which {
            Which::Call => inline + self.read_chunks.iter().map(|chunk| filled(chunk.offered())).sum::<u64>(),
            // The Reply's own header tells, because the Call may not have been seen.
            Which::Reply if message.rpcrdma.is_some() => {
                let mut cursor = Cursor::new(&message.bytes).with_length(message.length);
                let header = Header::decode(&mut cursor, &mut Unobserved).ok()?;
                let lists = header.chunk_lists();
                let writes = lists.map(|lists| lists.rdma_writes).unwrap_or_default();
                let reply = lists.and_then(|lists| lists.rdma_reply.as_ref());
                let chunks = writes.iter().map(|chunk| chunk.length()).chain(reply.map(WriteChunk::length));
                inline + chunks.map(filled).sum::<u64>()
            }
            Which::Reply => inline,
        })
    }
}

impl<'a> Reading<'a> {
    /// The cursor at the RPC message.
    fn cursor(&self, which: Which) -> Option<Cursor<'a>> {
        match which {
            Which::Call => self.call,
            Which::Reply => self.reply,
        }
    }

    /// The procedure and the protection of its arguments and results, which a Reply does not tell.
    fn call_header(&self) -> Option<(rpc::Call<'a>, Cursor<'a>)> {
        let mut cursor = self.call?;
        let message = rpc::Message::decode(&mut cursor, &mut Unobserved).ok()?;
        message.call().cloned().map(|call| (call, cursor))
    }

    /// Reads what both messages say.
    pub fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        let mut procedure = None;
        if let Some((call, cursor)) = self.call_header() {
            let payload = call.cred.payload();
            procedure = Procedure::of(call.prog, call.vers, call.proc);
            facts.program = Some(call.prog);
            facts.version = Some(call.vers);
            facts.procedure = Some(call.proc);
            facts.payload = Some(payload);
            facts.procedure_name = nfs::procedure_name(call.prog, call.vers, call.proc);
            facts.operation = facts.procedure_name.map(Operation::Named);
            facts.call_error = self.arguments(procedure, payload, cursor, &mut facts).err();
        } else if let Some(mut cursor) = self.call {
            let mut heard = CallWords::default();
            facts.call_error = rpc::Message::decode(&mut cursor, &mut heard).err();
            heard.tell(&mut facts);
        }
        if let Some(reply) = &self.transaction.reply
            && reply.is_rdma_error()
        {
            facts.rpc_status = rdma_error(reply).map(RpcStatus::RdmaError);
            return facts;
        }
        if let Some(mut cursor) = self.reply {
            match rpc::Message::decode(&mut cursor, &mut Unobserved) {
                Ok(message) => {
                    let status = message.reply().map(rpc::Reply::status);
                    facts.rpc_status = status.map(RpcStatus::Rpc);
                    if status.is_some_and(Status::is_success) {
                        facts.reply_error = self.results(procedure, facts.payload, cursor, &mut facts).err();
                    }
                }
                Err(error) => facts.reply_error = Some(error),
            }
        }
        facts
    }

    fn arguments(
        &self,
        procedure: Option<Procedure>,
        payload: Payload,
        mut cursor: Cursor<'a>,
        facts: &mut Facts,
    ) -> Result<(), Error> {
        let Some(mut cursor) = opened(payload, &mut cursor, &mut Unobserved)? else { return Ok(()) };
        match procedure {
            Some(Procedure::Compound) => {
                let call = v4::Call::decode(&mut cursor, &mut Unobserved)?;
                facts.minor_version = Some(call.head.minorversion);
                let named = call.named();
                let operation = named.operation.map(|number| (number.name(), number.0));
                facts.operation = operation.map(Operation::new).or(facts.operation);
                named.stop.map_or(Ok(()), Err)
            }
            Some(Procedure::CbCompound) => {
                let call = v4::CbCall::decode(&mut cursor, &mut Unobserved)?;
                facts.minor_version = Some(call.head.minorversion);
                let named = call.named();
                let operation = named.operation.map(|number| (number.name(), number.0));
                facts.operation = operation.map(Operation::new).or(facts.operation);
                named.stop.map_or(Ok(()), Err)
            }
            Some(procedure) => procedure.arguments(&mut cursor, &mut Unobserved),
            None => Ok(()),
        }
    }

    fn results(
        &self,
        procedure: Option<Procedure>,
        payload: Option<Payload>,
        mut cursor: Cursor<'a>,
        facts: &mut Facts,
    ) -> Result<(), Error> {
        let (Some(procedure), Some(payload)) = (procedure, payload) else { return Ok(()) };
        let Some(mut cursor) = opened(payload, &mut cursor, &mut Unobserved)? else { return Ok(()) };
        facts.status = procedure.status(cursor)?;
        procedure.results(&mut cursor, &mut Unobserved)
    }

    /// Tells an observer everything in one of the messages: the RPC-over-RDMA header, the RPC header, and the arguments or
    /// results. Positions count in the message from its RPC-over-RDMA header on, or in the chunk that holds all of it.
    ///
    /// # Errors
    /// Where the message could not be read further; what was told before stands.
    pub fn observe<'b, O: Observer<'a>>(&'b self, which: Which, observer: &mut O) -> Result<(), Error>
    where
        'a: 'b,
    {
        self.observe_rpcrdma(which, observer)?;
        if self.transaction.message(which).is_some_and(MessageRecord::is_rdma_error) {
            return Ok(());
        }
        self.observe_rpc(which, observer)
    }

    /// Tells an observer the RPC-over-RDMA header of the Call or the Reply, if it has one.
    ///
    /// # Errors
    /// Where the header could not be read further; what was told before stands.
    pub fn observe_rpcrdma<'b, O: Observer<'a>>(&'b self, which: Which, observer: &mut O) -> Result<(), Error>
    where
        'a: 'b,
    {
        match self.transaction.message(which).filter(|record| record.rpcrdma.is_some()) {
            Some(record) => {
                let mut cursor = Cursor::new(&record.bytes).with_length(record.length);
                Header::decode(&mut cursor, observer).map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Tells an observer the RPC header of the Call or the Reply, and nothing of what follows it.
    ///
    /// # Errors
    /// Where the header could not be read further; what was told before stands.
    pub fn observe_rpc_header<O: Observer<'a>>(&self, which: Which, observer: &mut O) -> Result<(), Error> {
        match self.cursor(which) {
            Some(mut cursor) => rpc::Message::decode(&mut cursor, observer).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The captured bytes of the RPC message, and the position of the first as observers are told it.
    pub fn rpc_bytes(&self, which: Which) -> Option<(&'a [u8], usize)> {
        self.cursor(which).map(|cursor| (cursor.rest(), cursor.position()))
    }

    /// Tells an observer everything in the RPC message of the Call or the Reply.
    ///
    /// # Errors
    /// Where the message could not be read further; what was told before stands.
    pub fn observe_rpc<O: Observer<'a>>(&self, which: Which, observer: &mut O) -> Result<(), Error> {
        let Some(mut cursor) = self.cursor(which) else { return Ok(()) };
        let message = rpc::Message::decode(&mut cursor, observer)?;
        let call = self.call_header().map(|(call, _)| call);
        let Some(call) = call else { return Ok(()) };
        if message.reply().is_some_and(|reply| !reply.status().is_success()) {
            return Ok(());
        }
        let payload = call.cred.payload();
        if let Payload::Control(control) = payload {
            return match which {
                Which::Call => control.arguments(&mut cursor, observer),
                Which::Reply => control.results(&mut cursor, observer),
            };
        }
        let Some(mut body) = opened(payload, &mut cursor, observer)? else { return Ok(()) };
        let Some(procedure) = Procedure::of(call.prog, call.vers, call.proc) else { return Ok(()) };
        match which {
            Which::Call => procedure.arguments(&mut body, observer)?,
            Which::Reply => procedure.results(&mut body, observer)?,
        }
        match payload {
            Payload::Integrity => gss::Checksum::read(&mut cursor, observer).map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// The cursor at the arguments or results inside their protection; `None` where they cannot be read.
fn opened<'a, O: Observer<'a>>(
    payload: Payload,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<Option<Cursor<'a>>, Error> {
    match payload {
        Payload::Plain => Ok(Some(*cursor)),
        Payload::Integrity => gss::Protected::open(cursor, observer).map(|protected| Some(protected.body)),
        Payload::Privacy => gss::PrivData::read(cursor, observer).map(|_| None),
        Payload::Control(_) => Ok(None),
    }
}

/// Listens to the header of a Call that ends too early, so that what was read before its end is there.
#[derive(Default)]
struct CallWords {
    program: Option<Program>,
    version: Option<u32>,
    procedure: Option<u32>,
}

impl CallWords {
    fn tell(&self, facts: &mut Facts) {
        facts.program = self.program;
        facts.version = self.version;
        facts.procedure = self.procedure;
        if let (Some(program), Some(version), Some(number)) = (self.program, self.version, self.procedure) {
            facts.procedure_name = nfs::procedure_name(program, version, number);
            facts.operation = facts.procedure_name.map(Operation::Named);
        }
    }
}

impl<'a> Observer<'a> for CallWords {
    fn enter(&mut self, _: &'static Field, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static Field, _: Range<usize>, value: Value<'a>) {
        let (Value::Unsigned(number) | Value::Enum(number, _)) = value else { return };
        let word = number as u32;
        match field.name {
            "rpc.program" => self.program = Some(Program(word)),
            "rpc.programversion" => self.version = Some(word),
            "rpc.procedure" => self.procedure = Some(word),
            _ => {}
        }
    }
}

fn rdma_error(reply: &MessageRecord) -> Option<ErrCode> {
    let mut cursor = Cursor::new(&reply.bytes).with_length(reply.length);
    match Header::decode(&mut cursor, &mut Unobserved).ok()?.rdma_body {
        crate::rpcrdma::Body::Error(error) => Some(RdmaError::tag(&error)),
        _ => None,
    }
}
