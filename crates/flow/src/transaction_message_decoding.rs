//! Decoding of a Transaction's RPC messages, inline or in chunks, as far as they were captured.

mod call_header;
mod compound_results;
mod decoded_compound;
mod misplaced_items;
mod needed_reads;
mod procedure_or_main_operation;
mod reencoding;
mod result_contradictions;
mod result_limits;
mod rpc_message_trailer;

use std::borrow::Cow;
use std::cell::OnceCell;

use nfsrdma_dissectors::field::{FieldObserver, NullFieldObserver, TypeErasedFieldObserver};
use nfsrdma_dissectors::nfs::{self, Procedure, ProcedureStatus, v4};
use nfsrdma_dissectors::rpc::gss::{self, GssPayload};
use nfsrdma_dissectors::rpc::{self, Program, RpcMessageKind, RpcReplyStatus, Xid};
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, RpcRdmaErrorCode, WriteChunk};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, RdmaMsgpPadding, XdrError, roundup};

use super::chunk::{Chunk, ChunkSegment};
use super::read_list::{self, MessageTail, PositionChunks, ReadList};
use super::transaction::{CapturedMessage, ChunkListCompleteness, MissingPart, Transaction, TransactionFault};
use call_header::{CallBodyDecodeParameters, PartialCallHeader};
use compound_results::{CallOperations, ResultFaults, SentSequence};
use result_limits::{ResultLimit, ResultLimits};

pub use decoded_compound::{DecodedCbCompound, DecodedCompound};
pub use needed_reads::NeededReads;
pub use procedure_or_main_operation::{MainOperation, ProcedureOrMainOperation};
pub use reencoding::{OriginalAndReencodedBytes, OriginalAndReencodedMessage};
pub use result_contradictions::{COMPARED_OPERATIONS, result_contradiction};
pub use result_limits::{AttributeSet, UnknownLength, first_gap, is_less_stable, session_fault};

/// Program, procedure and result of a Transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RpcSummary {
    /// Program number, from the Call.
    pub program: Option<Program>,
    /// Version of the program.
    pub version: Option<u32>,
    /// Minor version of a COMPOUND.
    pub minor_version: Option<u32>,
    /// Procedure number.
    pub procedure: Option<u32>,
    /// Name of the procedure, if it is known here.
    pub procedure_name: Option<&'static str>,
    /// Procedure, or the main operation of a COMPOUND; `None` in a version that is not decoded.
    pub operation: Option<ProcedureOrMainOperation>,
    /// Main operation among those that were decoded, if the capture truncates a COMPOUND and `operation` is therefore
    /// the procedure.
    pub decoded_operation: Option<ProcedureOrMainOperation>,
    /// Main operation of a COMPOUND or CB_COMPOUND for labels, whose name is that of [`RpcSummary::label_operation`].
    pub main_operation: Option<MainOperation>,
    /// Status of the procedure: `nfsstat3`, `nfsstat4`, `nlm4_stats`.
    pub status: Option<ProcedureStatus>,
    /// Status of the RPC.
    pub rpc_status: Option<RpcStatus>,
    /// Protection of arguments and results.
    pub payload: Option<GssPayload>,
    /// Error that ended decoding of the Call, including bytes after its end.
    pub call_error: Option<XdrError>,
    /// Error that ended decoding of the Reply, including bytes after its end.
    pub reply_error: Option<XdrError>,
    /// `true` if the Reply contradicts its Call: the XID of the RPC message behind that of RPC over RDMA, or the results
    /// of a COMPOUND or CB_COMPOUND; or if those contradict their status.
    pub has_contradiction: bool,
    /// `true` if the results are those of the Call, but not valid: more data or attributes than it asked for, a lower
    /// stability, larger values of a session, contents of READ_PLUS with a gap, a copy offload stateid without a seqid.
    pub has_invalid_result: bool,
}

impl RpcSummary {
    /// Returns the name of the program. A client may use any transient number for callbacks (RFC 5531 section 8.3).
    pub fn program_name(&self) -> Option<&'static str> {
        let program = self.program?;
        let is_callback = program.is_transient() && self.procedure_name.is_some();
        program.name().or(if is_callback { Program::NFS_CB.name() } else { None })
    }

    /// Sets the procedure, and its name if all of it is known.
    fn set_procedure(&mut self, program: Option<Program>, version: Option<u32>, procedure: Option<u32>) {
        (self.program, self.version, self.procedure) = (program, version, procedure);
        if let (Some(program), Some(version), Some(number)) = (program, version, procedure) {
            self.procedure_name = nfs::procedure_name(program, version, number);
            self.operation = self.procedure_name.map(ProcedureOrMainOperation::Named);
        }
    }

    /// Returns the operation for labels: the main operation, as far as it is known.
    pub fn label_operation(&self) -> Option<ProcedureOrMainOperation> {
        self.decoded_operation.or(self.operation)
    }

    /// Returns the procedure, if it is described.
    pub fn described_procedure(&self) -> Option<Procedure> {
        Procedure::from_numbers(self.program?, self.version?, self.procedure?)
    }

    /// Returns the error if a message is not fully decoded although its bytes were captured. `None` if all of it is
    /// decoded, if the rest was not captured (see [`Transaction::missing_parts`]), if it is encrypted, or if the
    /// program is not described.
    pub fn decode_error(&self, transaction: &Transaction, kind: RpcMessageKind) -> Option<XdrError> {
        let error = match kind {
            RpcMessageKind::Call => self.call_error,
            RpcMessageKind::Reply => self.reply_error,
        }?;
        // If the capture ends within the transport header, nothing of the RPC message was captured.
        if transaction.message(kind).is_some_and(|message| message.rpc_offset.is_none()) {
            return None;
        }
        // If packets were lost, the length of the message is a guess.
        let by_length = matches!(error, XdrError::Short { .. } | XdrError::TooLong { .. } | XdrError::Trailing { .. });
        let has_gaps = transaction.message(kind).is_some_and(|message| !message.gaps.is_empty());
        (!error.is_cut() && (!by_length || !has_gaps)).then_some(error)
    }

    /// Returns `true` if a Reply is not that of its Call: it has another XID, other operations, another number of
    /// them, or results that are not those of its procedure. A value or an operation of NFSv4 that cannot be decoded may
    /// be one that is not described here.
    pub fn has_wrong_result(&self, transaction: &Transaction) -> bool {
        if self.has_contradiction {
            return true;
        }
        let Some(error) = self.reply_error else { return false };
        let is_readable = matches!(self.payload, Some(GssPayload::Plain | GssPayload::Integrity));
        let is_success = matches!(self.rpc_status, Some(RpcStatus::Rpc(status)) if status.is_success());
        let is_closed = self.described_procedure().is_some_and(|procedure| !procedure.is_compound());
        is_readable
            && is_success
            && self.call_error.is_none()
            && (is_closed || is_malformed(error))
            && self.decode_error(transaction, RpcMessageKind::Reply).is_some()
    }

    /// Returns the parts that keep a Transaction from being complete: not captured, not decoded, refused, or not those of
    /// its Call.
    pub fn missing(&self, transaction: &Transaction) -> Vec<MissingPart> {
        let mut missing = transaction.missing_parts();
        for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            if let Some(error) = self.decode_error(transaction, kind) {
                missing.push(MissingPart::Undecoded(kind, error.at() as u64));
            }
        }
        if self.fault(transaction) == Some(TransactionFault::WrongResult) {
            missing.push(MissingPart::WrongResult);
        }
        missing
    }

    /// Returns what makes the status of a Transaction worthless. All output about a status has it from here. A Reply that
    /// may be that of another Call with the same XID is not wrong: the Requester, not the Responder, made it ambiguous.
    pub fn fault(&self, transaction: &Transaction) -> Option<TransactionFault> {
        match transaction.refused_message() {
            Some(_) => Some(TransactionFault::Refused),
            None => {
                let is_wrong = !transaction.is_reply_ambiguous && self.is_reply_of_other(transaction);
                is_wrong.then_some(TransactionFault::WrongResult)
            }
        }
    }

    /// Returns `true` if the Reply cannot be that of the Call, as far as its results and chunks tell.
    pub(super) fn is_reply_of_other(&self, transaction: &Transaction) -> bool {
        self.has_wrong_result(transaction)
            || self.has_invalid_result
            || has_wrong_lengths(transaction)
            || transaction.has_other_reply_header
            || transaction.has_results_of_other
    }
}

/// Returns `true` if results of NFSv4 end within an item, or have bytes or lengths that no item permits, whatever
/// operations and values later minor versions add. RFC 4506.
fn is_malformed(error: XdrError) -> bool {
    matches!(
        error,
        XdrError::ResultsMissing { .. }
            | XdrError::Short { .. }
            | XdrError::TooLong { .. }
            | XdrError::Trailing { .. }
            | XdrError::Invalid { what: "bool", .. }
    )
}

/// Returns `true` if the header of the Reply returns more bytes in a segment than the Call offered, or leaves a gap before
/// a segment. RFC 8166 section 3.4.6.
fn has_wrong_lengths(transaction: &Transaction) -> bool {
    let mut chunks = transaction.write_chunks.iter().chain(&transaction.reply_chunk);
    chunks.any(|chunk| {
        let mut has_gap = false;
        let returned = chunk.segments.iter().filter_map(|segment| Some((segment, segment.returned_length?)));
        { returned }.any(|(segment, length)| {
            let is_wrong = length > segment.length || (has_gap && length > 0);
            has_gap |= length < segment.length;
            is_wrong
        })
    })
}

/// Status of an RPC, or of RPC-over-RDMA below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcStatus {
    /// Status in the RPC message.
    Rpc(RpcReplyStatus),
    /// RPC-over-RDMA could not process the Call.
    RdmaError(RpcRdmaErrorCode),
}

/// Messages of a Transaction, ready for decoding.
pub struct TransactionMessages<'a> {
    transaction: &'a Transaction,
    call: Option<Cursor<'a>>,
    reply: Option<Cursor<'a>>,
    /// Cached result of [`TransactionMessages::call_header`].
    call_header: OnceCell<Option<(CallBodyDecodeParameters, Option<Cursor<'a>>)>>,
    /// Cached result of [`TransactionMessages::reply_header`].
    reply_header: OnceCell<ReplyStatusAndBodyCursor<'a>>,
    /// Cached results of [`TransactionMessages::body`], for the Call and the Reply.
    bodies: [OnceCell<Option<(Procedure, Cursor<'a>)>>; 2],
    /// Cached result of [`TransactionMessages::compound`].
    compound: OnceCell<DecodedCompound<'a>>,
}

/// Status of a Reply, and a cursor behind its RPC header. No status if the message is not a Reply.
type ReplyStatusAndBodyCursor<'a> = Result<(Option<RpcReplyStatus>, Cursor<'a>), XdrError>;

/// Content of a message: the bytes of a chunk that holds all of it, and the chunks that hold its data items.
struct RpcMessageChunkContents<'t> {
    message: &'t CapturedMessage,
    whole_message: Option<Cow<'t, [u8]>>,
    length: usize,
    items: Vec<ChunkContent<'t>>,
}

/// Content of a chunk that holds a data item; a [`ChunkedDataItem`] borrows it.
struct ChunkContent<'t> {
    position: Option<u32>,
    length: u32,
    content: Option<Cow<'t, [u8]>>,
}

fn write_chunk_content(chunk: &Chunk) -> ChunkContent<'_> {
    let length = chunk.returned_bytes().unwrap_or(0);
    let content = chunk.content(ChunkSegment::returned_bytes).filter(|content| content.len() as u64 == length);
    ChunkContent { position: None, length: u32::try_from(length).unwrap_or(u32::MAX), content }
}

/// Returns the data item of a Position, without the tail of its message.
fn read_item_content<'t>(chunks: PositionChunks<'t, '_>, tail: Option<MessageTail>) -> ChunkContent<'t> {
    let offered = u32::try_from(chunks.offered_bytes()).unwrap_or(u32::MAX);
    let tail = tail.filter(|tail| chunks.position() == Some(tail.position));
    let length = tail.map_or(offered, |tail| tail.item_length);
    let content = chunks.content().filter(|content| content.len() as u64 >= length.into());
    let content = content.map(|content| match tail {
        Some(_) => content.get(..length as usize).unwrap_or_default().to_vec().into(),
        None => content,
    });
    ChunkContent { position: chunks.position(), length, content }
}

/// Returns `true` if the Call was captured with its chunk lists, and has no Reply chunk.
fn offers_no_reply_chunk(transaction: &Transaction) -> bool {
    let lists = transaction.call.as_ref().and_then(CapturedMessage::chunk_lists);
    lists == Some(ChunkListCompleteness::Complete) && transaction.reply_chunk.is_none()
}

/// Returns the length of the RPC message in the Reply chunk, from the Reply's header.
fn long_reply_length(reply: &CapturedMessage) -> Option<usize> {
    let header = reply.header()?;
    usize::try_from(header.reply_chunk()?.length()).ok()
}

impl<'t> RpcMessageChunkContents<'t> {
    fn from_transaction(transaction: &'t Transaction, kind: RpcMessageKind) -> Option<Self> {
        let message = transaction.message(kind)?;
        // Nothing is available after a header that was cut.
        let length = message.inline_length().unwrap_or(message.length.saturating_sub(message.bytes.len()));
        if !message.is_nomsg() && transaction.has_no_chunks(kind) {
            return Some(Self { message, whole_message: None, length, items: Vec::new() });
        }
        // RFC 5666: a Reply may offer Read chunks to the Requester.
        let (read_chunks, reply_chunk) = match kind {
            RpcMessageKind::Call => (&transaction.read_chunks, None),
            RpcMessageKind::Reply => (&transaction.reply_read_chunks, transaction.reply_chunk.as_ref()),
        };
        let reads = ReadList::new(read_chunks);
        let inline = Cursor::new(message.inline_bytes()).with_length(length);
        let tail = match kind {
            RpcMessageKind::Call if !message.is_nomsg() => read_list::message_tail(inline, &reads),
            RpcMessageKind::Call | RpcMessageKind::Reply => None,
        };
        let (whole_message, length) = match (reads.position_zero(), reply_chunk) {
            _ if let Some(tail) = tail => {
                let (bytes, length) = read_list::with_tail(inline.rest(), &reads, tail);
                (Some(Some(bytes.into())), length)
            }
            _ if !message.is_nomsg() => (None, length),
            (Some(chunks), _) => {
                // At least one more byte may follow.
                let length = chunks.offered_bytes() as usize + usize::from(chunks.is_cut());
                (Some(chunks.content()), length)
            }
            (None, Some(chunk)) => {
                let length = chunk.returned_bytes().unwrap_or(0) as usize;
                (Some(chunk.content(ChunkSegment::returned_bytes)), length)
            }
            (None, None) if kind == RpcMessageKind::Call || offers_no_reply_chunk(transaction) => (None, length),
            // The Call that advertised the Reply chunk was not captured, so none of its bytes are known.
            (None, None) => (None, long_reply_length(message).unwrap_or(length)),
        };
        let items = reads.items().filter(|chunks| !tail.is_some_and(|tail| tail.is_all_of(*chunks)));
        let mut items: Vec<_> = items.map(|chunks| read_item_content(chunks, tail)).collect();
        if kind == RpcMessageKind::Reply && items.is_empty() {
            // Results are in Write chunks unless the Requester reads them.
            items.extend(transaction.write_chunks.iter().map(write_chunk_content));
        } else if !items.is_empty() && kind == RpcMessageKind::Call && read_list::ignores_reads(inline) {
            items.clear();
        }
        Some(Self { message, whole_message: whole_message.map(Option::unwrap_or_default), length, items })
    }

    fn items(&self) -> Vec<ChunkedDataItem<'_>> {
        let items = self.items.iter();
        items
            .map(|item| ChunkedDataItem {
                position: item.position,
                length: item.length,
                bytes: item.content.as_deref(),
            })
            .collect()
    }

    fn cursor<'a>(&'a self, items: &'a [ChunkedDataItem<'a>]) -> Cursor<'a> {
        let message = self.message;
        let (bytes, base) = match &self.whole_message {
            Some(whole_message) => (&**whole_message, 0),
            None => (message.inline_bytes(), message.rpc_offset.unwrap_or(message.bytes.len())),
        };
        let cursor = Cursor::new(bytes).with_length(self.length).with_base(base).with_chunks(items);
        cursor.with_padding(message.padding())
    }
}

impl Transaction {
    /// Calls `read` with the messages of the Transaction, ready for decoding.
    pub fn with_messages<R>(&self, read: impl FnOnce(&TransactionMessages<'_>) -> R) -> R {
        let call = RpcMessageChunkContents::from_transaction(self, RpcMessageKind::Call);
        let reply = RpcMessageChunkContents::from_transaction(self, RpcMessageKind::Reply);
        let call_items = call.as_ref().map(RpcMessageChunkContents::items).unwrap_or_default();
        let reply_items = reply.as_ref().map(RpcMessageChunkContents::items).unwrap_or_default();
        read(&TransactionMessages {
            transaction: self,
            call: call.as_ref().map(|contents| contents.cursor(&call_items)),
            reply: reply.as_ref().map(|contents| contents.cursor(&reply_items)),
            call_header: OnceCell::new(),
            reply_header: OnceCell::new(),
            bodies: Default::default(),
            compound: OnceCell::new(),
        })
    }

    /// Returns `true` if the end of the Call is behind a data item in its Read chunk, as older Linux clients send it.
    pub fn has_call_tail(&self) -> bool {
        let call = self.call.as_ref().filter(|call| !call.is_nomsg() && !self.read_chunks.is_empty());
        call.is_some() && self.message_in_chunk(RpcMessageKind::Call).is_some()
    }

    /// Returns the RPC message without its data items, if it is in a chunk, or if its end is.
    pub fn message_in_chunk(&self, kind: RpcMessageKind) -> Option<Cow<'_, [u8]>> {
        RpcMessageChunkContents::from_transaction(self, kind)?.whole_message
    }

    /// Returns the length of the unreduced RPC message, including chunks and their roundup, without the padding of
    /// RDMA_MSGP (RFC 5666 section 3.9). `None` without an RPC message, if the capture ends within the chunk lists, and
    /// if a padded message is not fully decoded.
    pub fn rpc_length(&self, kind: RpcMessageKind) -> Option<u64> {
        let reply = self.reply.as_ref().filter(|_| kind == RpcMessageKind::Reply);
        let header = reply.filter(|reply| !reply.has_no_chunks()).and_then(CapturedMessage::header);
        self.rpc_length_with_header(kind, header.as_ref())
    }

    /// Returns the length of the unreduced RPC message, as [`Transaction::rpc_length`]. `header` is the decoded header
    /// of the Reply; only the length of a Reply with chunks depends on it.
    pub fn rpc_length_with_header(&self, kind: RpcMessageKind, header: Option<&AnyDialectHeader<'_>>) -> Option<u64> {
        let message = self.message(kind)?;
        if message.is_rdma_error() {
            return None;
        }
        let filled = |length: u64| length + roundup(length as usize) as u64;
        let mut inline = message.inline_length()? as u64;
        if message.padding() != RdmaMsgpPadding::default() {
            inline = inline.saturating_sub(self.with_messages(|messages| messages.padding_bytes(kind))?);
        }
        Some(match kind {
            RpcMessageKind::Call => inline + ReadList::new(&self.read_chunks).filled_bytes(),
            // From the Reply's own header, because the Call may not have been captured.
            RpcMessageKind::Reply if message.rpcrdma.is_some() && !message.has_no_chunks() => {
                let header = header?;
                let writes = header.writes();
                let chunks = writes.iter().map(|chunk| chunk.length());
                let chunks = chunks.chain(header.reply_chunk().map(WriteChunk::length));
                inline + chunks.map(filled).sum::<u64>() + ReadList::new(&self.reply_read_chunks).filled_bytes()
            }
            RpcMessageKind::Reply => inline,
        })
    }
}

impl<'a> TransactionMessages<'a> {
    /// Returns a cursor at the RPC message: at the inline message, or at the chunk that holds all of it.
    pub fn cursor(&self, kind: RpcMessageKind) -> Option<Cursor<'a>> {
        match kind {
            RpcMessageKind::Call => self.call,
            RpcMessageKind::Reply => self.reply,
        }
    }

    /// Returns the procedure and protection, which a Reply lacks, and a cursor at the arguments. If the capture ends
    /// within the header, there is no cursor, and the header is returned only if its credential protects nothing.
    fn call_header(&self) -> Option<(CallBodyDecodeParameters, Option<Cursor<'a>>)> {
        *self.call_header.get_or_init(|| self.read_call_header())
    }

    fn read_call_header(&self) -> Option<(CallBodyDecodeParameters, Option<Cursor<'a>>)> {
        let (start, mut cursor) = (self.call?, self.call?);
        match rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver) {
            Ok(message) => message.call().map(|call| (CallBodyDecodeParameters::from_call(call), Some(cursor))),
            Err(error) if error.is_cut() => {
                PartialCallHeader::decode(start).plain_summary().map(|parameters| (parameters, None))
            }
            Err(_) => None,
        }
    }

    /// Returns the status of the Reply, and a cursor behind its RPC header.
    fn reply_header(&self) -> Option<ReplyStatusAndBodyCursor<'a>> {
        let mut cursor = self.reply?;
        Some(*self.reply_header.get_or_init(|| {
            let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver)?;
            Ok((message.reply().map(rpc::ReplyBody::status), cursor))
        }))
    }

    /// Returns the data that the Responder needed, as far as the Reply proves it.
    pub fn needed_reads(&self) -> NeededReads {
        let Some(Ok((Some(status), _))) = self.reply_header() else { return NeededReads::NONE };
        let results = self.body(RpcMessageKind::Reply).map(|(_, results)| results);
        NeededReads::new(status, self.body(RpcMessageKind::Call), results)
    }

    /// Decodes the operations of a COMPOUND or CB_COMPOUND, once. A summary that is made afterwards does not decode
    /// those of a COMPOUND again.
    pub fn compound(&self) -> &DecodedCompound<'a> {
        let bodies = || [RpcMessageKind::Call, RpcMessageKind::Reply].map(|kind| self.body(kind));
        self.compound.get_or_init(|| DecodedCompound::decode(bodies()))
    }

    /// Decodes both messages and returns their summary.
    pub fn summary(&self) -> RpcSummary {
        let mut summary = RpcSummary::default();
        let header = self.call_header();
        let mut operations = CallOperations::Unknown;
        if let Some((call, Some(cursor))) = header {
            summary.set_procedure(Some(call.program), Some(call.version), Some(call.procedure));
            summary.payload = Some(call.payload);
            summary.call_error = self.decode_arguments(call, cursor, &mut summary, &mut operations).err();
        } else if let Some(mut cursor) = self.call {
            let mut partial = PartialCallHeader::default();
            let read = rpc::RpcMsg::decode(&mut cursor, &mut partial);
            summary.call_error = self.unlocated_message(RpcMessageKind::Call).or(read.err());
            summary.set_procedure(partial.program, partial.version, partial.procedure);
        }
        if let Some(reply) = &self.transaction.reply
            && reply.is_rdma_error()
        {
            summary.rpc_status = rdma_error(reply).map(RpcStatus::RdmaError);
            return summary;
        }
        if let Some(reply) = self.reply_header() {
            match reply {
                Ok((status, cursor)) => {
                    summary.rpc_status = status.map(RpcStatus::Rpc);
                    summary.reply_error = match header {
                        Some((call, _)) if status.is_some_and(RpcReplyStatus::is_success) => {
                            summary.status = procedure_status(call, cursor);
                            let error = self.read_results(call, cursor, &operations, &mut summary).err();
                            summary.has_invalid_result |= error.is_none() && self.has_misplaced_item(call, cursor);
                            error
                        }
                        _ if status.is_some_and(|status| !status.is_success()) => cursor.expect_end().err(),
                        _ => None,
                    };
                    let xid = self.reply.and_then(|mut message| message.word().ok());
                    summary.has_contradiction |= xid.is_some_and(|xid| Xid(xid) != self.transaction.xid);
                }
                Err(error) => {
                    summary.reply_error = Some(self.unlocated_message(RpcMessageKind::Reply).unwrap_or(error));
                }
            }
        }
        if summary.call_error.is_some_and(|error| error.is_cut())
            && summary.operation == Some(ProcedureOrMainOperation::Named(Procedure::Compound.name()))
            && let Some(operation) = self.operation_of_reply().map(MainOperation::Operation)
        {
            (summary.operation, summary.decoded_operation) = (Some(operation.into()), None);
            summary.main_operation = Some(operation);
        }
        summary
    }

    /// Decodes the results of a successful RPC, and compares those of a COMPOUND with its Call. The cursor is behind the
    /// RPC header.
    fn read_results(
        &self,
        call: CallBodyDecodeParameters,
        mut cursor: Cursor<'a>,
        operations: &CallOperations<'a>,
        summary: &mut RpcSummary,
    ) -> Result<(), XdrError> {
        if matches!(operations, CallOperations::Unknown) {
            summary.has_invalid_result =
                summary.call_error.is_none() && self.has_invalid_procedure_result(call, cursor);
            return self.observe_body(RpcMessageKind::Reply, call, cursor, &mut NullFieldObserver);
        }
        let Some(body) = open_payload(call.payload, &mut cursor, &mut NullFieldObserver)? else {
            return rpc_message_trailer::read_control_message(
                call.payload,
                RpcMessageKind::Reply,
                &mut cursor,
                &mut NullFieldObserver,
            );
        };
        let mut faults = ResultFaults::default();
        let end = compound_results::read(operations, body, self.compound.get(), &mut faults);
        faults.has_contradiction |= operations.is_truncated() && compound_results::has_other_result(self.compound());
        faults.has_invalid |= operations.needs_arguments() && result_limits::has_invalid_result(self.compound());
        // What was decoded of a malformed Call is uncertain.
        let is_certain = summary.call_error.is_none_or(|error| error.is_cut());
        summary.has_invalid_result = faults.has_invalid && is_certain;
        summary.has_contradiction = faults.has_contradiction && is_certain;
        end?;
        rpc_message_trailer::read_protection(call.payload, &mut cursor, &mut NullFieldObserver)
    }

    /// Returns `true` if the results of a procedure without operations are not valid for its arguments. The cursor is
    /// behind the RPC header of the Reply.
    fn has_invalid_procedure_result(&self, call: CallBodyDecodeParameters, mut results: Cursor<'a>) -> bool {
        let limited = call.described_procedure().filter(|procedure| result_limits::is_limited(*procedure));
        let (Some(procedure), Some((_, Some(mut arguments)))) = (limited, self.call_header()) else { return false };
        let open = |cursor: &mut Cursor<'a>| open_payload(call.payload, cursor, &mut NullFieldObserver).ok().flatten();
        match (open(&mut arguments), open(&mut results)) {
            (Some(arguments), Some(results)) => result_limits::is_procedure_invalid(procedure, arguments, results),
            _ => false,
        }
    }

    /// Returns the main operation of a COMPOUND whose Call was cut, from its Reply.
    fn operation_of_reply(&self) -> Option<v4::OperationNumber> {
        let (call, arguments) = self.call_header()?;
        let (status, mut results) = self.reply_header()?.ok()?;
        if !status.is_some_and(RpcReplyStatus::is_success) {
            return None;
        }
        let mut results = open_payload(call.payload, &mut results, &mut NullFieldObserver).ok().flatten()?;
        let reply = v4::CompoundReply::decode(&mut results, &mut NullFieldObserver).ok()?;
        let arguments = arguments
            .and_then(|mut cursor| open_payload(call.payload, &mut cursor, &mut NullFieldObserver).ok().flatten())
            .and_then(|mut arguments| v4::CompoundCall::decode(&mut arguments, &mut NullFieldObserver).ok());
        match arguments {
            Some(arguments) => arguments.main_operation_with_reply(&reply),
            None => reply.main_operation_of_call(),
        }
    }

    /// Decodes the arguments, and sets the minor version and main operation of a COMPOUND.
    fn decode_arguments(
        &self,
        call: CallBodyDecodeParameters,
        mut cursor: Cursor<'a>,
        summary: &mut RpcSummary,
        operations: &mut CallOperations<'a>,
    ) -> Result<(), XdrError> {
        let (procedure, payload) = (call.described_procedure(), call.payload);
        if !procedure.is_some_and(Procedure::is_compound) {
            return self.observe_body(RpcMessageKind::Call, call, cursor, &mut NullFieldObserver);
        }
        let Some(mut body) = open_payload(payload, &mut cursor, &mut NullFieldObserver)? else {
            return rpc_message_trailer::read_control_message(
                payload,
                RpcMessageKind::Call,
                &mut cursor,
                &mut NullFieldObserver,
            );
        };
        let (minor_version, operation, decoded, stop) = if procedure == Some(Procedure::Compound) {
            let call = v4::CompoundCall::decode(&mut body, &mut NullFieldObserver)?;
            let mut limits = ResultLimits::default();
            let mut add = |index, arguments: &v4::Args<'_>| limits.add(index, ResultLimit::of(arguments));
            let (main_operation, all) = match self.compound.get().and_then(|compound| compound.call.as_ref()) {
                Some(decoded) => {
                    (0..).zip(&decoded.operations).for_each(|(index, arguments)| add(index, arguments));
                    (decoded.main_operation(), decoded.summary())
                }
                None => call.main_operation_and_summary(add),
            };
            let sequence = SentSequence::at(&body, v4::OperationNumber::SEQUENCE.0);
            *operations = CallOperations::Fore(all, sequence, limits);
            let [operation, decoded] =
                [main_operation.operation, main_operation.decoded].map(|number| number.map(MainOperation::Operation));
            (call.head.minorversion, operation, decoded, main_operation.stop)
        } else {
            let call = v4::CbCompoundCall::decode(&mut body, &mut NullFieldObserver)?;
            let mut limits = ResultLimits::default();
            let (main_operation, all) = call.main_operation_and_summary(|index, arguments| {
                limits.add(index, ResultLimit::of_callback(arguments));
            });
            let sequence = SentSequence::at(&body, v4::CbOperationNumber::CB_SEQUENCE.0);
            *operations = CallOperations::Back(all, sequence, limits);
            let [operation, decoded] =
                [main_operation.operation, main_operation.decoded].map(|number| number.map(MainOperation::Callback));
            (call.head.minorversion, operation, decoded, main_operation.stop)
        };
        summary.minor_version = Some(minor_version);
        summary.operation = operation.map(ProcedureOrMainOperation::from).or(summary.operation);
        summary.decoded_operation = decoded.map(ProcedureOrMainOperation::from);
        summary.main_operation = decoded.or(operation);
        match stop {
            Some(error) => Err(error),
            None => rpc_message_trailer::read_protection(payload, &mut cursor, &mut NullFieldObserver),
        }
    }

    /// Returns the bytes of padding before opaque data (RFC 5666 section 3.9); `None` if arguments or results are not
    /// fully decoded.
    fn padding_bytes(&self, kind: RpcMessageKind) -> Option<u64> {
        let mut cursor = self.cursor(kind)?;
        rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        let (call, _) = self.call_header()?;
        let mut body = open_payload(call.payload, &mut cursor, &mut NullFieldObserver).ok()??;
        let procedure = call.described_procedure()?;
        match kind {
            RpcMessageKind::Call => procedure.arguments(&mut body, &mut NullFieldObserver).ok()?,
            RpcMessageKind::Reply => procedure.results(&mut body, &mut NullFieldObserver).ok()?,
        }
        Some(body.padding_bytes() as u64)
    }

    /// Reports the arguments or results to an observer, and checks that the message ends with them. The cursor is
    /// behind the RPC header.
    fn observe_body<O: FieldObserver<'a>>(
        &self,
        kind: RpcMessageKind,
        call: CallBodyDecodeParameters,
        mut cursor: Cursor<'a>,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        let payload = call.payload;
        let Some(mut body) = open_payload(payload, &mut cursor, observer)? else {
            return rpc_message_trailer::read_control_message(payload, kind, &mut cursor, observer);
        };
        let Some(procedure) = call.described_procedure() else {
            return rpc_message_trailer::check_undescribed_body(call, &body);
        };
        match kind {
            RpcMessageKind::Call => procedure.decode_with(kind, &mut body, observer)?,
            RpcMessageKind::Reply => {
                let results = body;
                let decoded = self.compound.get().and_then(|compound| compound.reply.as_ref());
                match decoded.filter(|_| !O::is_enabled()) {
                    Some(reply) => body = reply.end()?,
                    None => procedure.decode_with(kind, &mut body, observer)?,
                }
                self.check_result_count(procedure, results, body.at())?;
            }
        }
        body.expect_end()?;
        rpc_message_trailer::read_protection(payload, &mut cursor, observer)
    }

    /// Checks that a successful COMPOUND has a result for each operation of its Call; `end` is the offset of the end of
    /// the results.
    fn check_result_count(&self, procedure: Procedure, results: Cursor<'a>, end: usize) -> Result<(), XdrError> {
        let arguments = |(call, cursor): (CallBodyDecodeParameters, Option<Cursor<'a>>)| {
            open_payload(call.payload, &mut cursor?, &mut NullFieldObserver).ok().flatten()
        };
        let Some(results) = procedure.successful_result_count(results) else { return Ok(()) };
        let operations = self.call_header().and_then(arguments).and_then(|call| procedure.operation_count(call));
        match operations {
            Some(operations) if results < operations => Err(XdrError::ResultsMissing { at: end, results, operations }),
            _ => Ok(()),
        }
    }

    /// Returns an error if the RPC message cannot be located: the version or procedure of the RPC-over-RDMA header is
    /// unknown, or the message is in a chunk, and there is none.
    fn unlocated_message(&self, kind: RpcMessageKind) -> Option<XdrError> {
        let message = self.transaction.message(kind)?;
        let is_nowhere = || message.is_nomsg() && self.cursor(kind).is_some_and(|cursor| cursor.length() == 0);
        message.unknown_header().or_else(|| is_nowhere().then_some(XdrError::NoMessage))
    }

    /// Reports all fields of a message to an observer: RPC-over-RDMA header, RPC header, and arguments or results.
    /// Positions count from the start of the RPC-over-RDMA header, or of the chunk that holds the whole RPC message.
    ///
    /// # Errors
    /// Returns an error if the message cannot be decoded further. Fields before it were reported.
    pub fn observe<'b, O: FieldObserver<'a>>(&'b self, kind: RpcMessageKind, observer: &mut O) -> Result<(), XdrError>
    where
        'a: 'b,
    {
        let observer = &mut TypeErasedFieldObserver::new(observer);
        self.report_rpcrdma(kind, observer)?;
        if self.transaction.message(kind).is_some_and(CapturedMessage::is_rdma_error) {
            return Ok(());
        }
        self.observe_rpc_with(kind, observer)
    }

    /// Reports the fields of the RPC-over-RDMA header of a message to an observer, if it has one.
    ///
    /// # Errors
    /// Returns an error if the header cannot be decoded further. Fields before it were reported.
    pub fn observe_rpcrdma<'b, O: FieldObserver<'a>>(
        &'b self,
        kind: RpcMessageKind,
        observer: &mut O,
    ) -> Result<(), XdrError>
    where
        'a: 'b,
    {
        self.report_rpcrdma(kind, &mut TypeErasedFieldObserver::new(observer))
    }

    fn report_rpcrdma<'b>(
        &'b self,
        kind: RpcMessageKind,
        observer: &mut TypeErasedFieldObserver<'_, 'a>,
    ) -> Result<(), XdrError>
    where
        'a: 'b,
    {
        let Some(message) = self.transaction.message(kind) else { return Ok(()) };
        let Some(words) = message.rpcrdma else { return Ok(()) };
        let mut cursor = Cursor::new(&message.bytes).with_length(message.length);
        AnyDialectHeader::decode(words.dialect, &mut cursor, observer).map(|_| ())
    }

    /// Reports the fields of the RPC header of a message to an observer.
    ///
    /// # Errors
    /// Returns an error if the header cannot be decoded further. Fields before it were reported.
    pub fn observe_rpc_header<O: FieldObserver<'a>>(
        &self,
        kind: RpcMessageKind,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        let observer = &mut TypeErasedFieldObserver::new(observer);
        match self.cursor(kind) {
            Some(mut cursor) => rpc::RpcMsg::decode(&mut cursor, observer).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Returns the procedure and a cursor at its arguments or results, inside their protection; `None` for encrypted
    /// data, control messages of RPCSEC_GSS, unknown procedures, Replies that do not report success or whose Call was
    /// not captured, and messages whose RPC header cannot be decoded.
    pub fn body(&self, kind: RpcMessageKind) -> Option<(Procedure, Cursor<'a>)> {
        let [call, reply] = &self.bodies;
        let body = if kind == RpcMessageKind::Call { call } else { reply };
        *body.get_or_init(|| self.find_body(kind))
    }

    fn find_body(&self, kind: RpcMessageKind) -> Option<(Procedure, Cursor<'a>)> {
        let (call, arguments) = self.call_header()?;
        let mut cursor = match kind {
            RpcMessageKind::Call => arguments?,
            RpcMessageKind::Reply => {
                let (status, cursor) = self.reply_header()?.ok()?;
                status.filter(|status| status.is_success())?;
                cursor
            }
        };
        let body = open_payload(call.payload, &mut cursor, &mut NullFieldObserver).ok()??;
        Some((call.described_procedure()?, body))
    }

    /// Decodes a message and encodes it again. `None` if the message is missing or incomplete, if its Call
    /// names no described procedure, or if the protection of its arguments or results is not described.
    ///
    /// # Errors
    /// Returns an error if a complete message cannot be decoded to its end.
    pub fn reencode(&self, kind: RpcMessageKind) -> Option<Result<OriginalAndReencodedMessage<'a>, XdrError>> {
        let (record, call) = (self.transaction.message(kind)?, self.call_header());
        reencoding::reencode(kind, record, self.cursor(kind)?, call.map(|(call, _)| call))
    }

    /// Returns the captured bytes of the RPC message, and the position of the first as observers receive it.
    pub fn rpc_bytes(&self, kind: RpcMessageKind) -> Option<(&'a [u8], usize)> {
        self.cursor(kind).map(|cursor| (cursor.rest(), cursor.position()))
    }

    /// Reports all fields of the RPC message of the Call or the Reply to an observer.
    ///
    /// # Errors
    /// Returns an error if the message cannot be decoded further. Fields before it were reported.
    pub fn observe_rpc<O: FieldObserver<'a>>(&self, kind: RpcMessageKind, observer: &mut O) -> Result<(), XdrError> {
        match O::ignores_all() {
            true => self.observe_rpc_with(kind, &mut NullFieldObserver),
            false => self.observe_rpc_with(kind, &mut TypeErasedFieldObserver::new(observer)),
        }
    }

    fn observe_rpc_with<O: FieldObserver<'a>>(&self, kind: RpcMessageKind, observer: &mut O) -> Result<(), XdrError> {
        let Some(mut cursor) = self.cursor(kind) else { return Ok(()) };
        if let Some(error) = self.unlocated_message(kind) {
            return Err(error);
        }
        let message = rpc::RpcMsg::decode(&mut cursor, observer)?;
        if message.reply().is_some_and(|reply| !reply.status().is_success()) {
            return cursor.expect_end();
        }
        match self.call_header() {
            Some((call, _)) => self.observe_body(kind, call, cursor, observer),
            None => Ok(()),
        }
    }
}

/// Returns the status of a procedure; the cursor is at the results.
fn procedure_status(call: CallBodyDecodeParameters, mut cursor: Cursor<'_>) -> Option<ProcedureStatus> {
    let results = open_payload(call.payload, &mut cursor, &mut NullFieldObserver).ok().flatten()?;
    call.described_procedure()?.status(results).ok().flatten()
}

/// Returns a cursor at the arguments or results inside their protection; `None` for encrypted data and control
/// messages.
fn open_payload<'a, O: FieldObserver<'a>>(
    payload: GssPayload,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<Option<Cursor<'a>>, XdrError> {
    match payload {
        GssPayload::Plain => Ok(Some(*cursor)),
        GssPayload::Integrity => gss::IntegrityBody::open(cursor, observer).map(|protected| Some(protected.body)),
        GssPayload::Privacy => gss::RpcGssPrivData::read(cursor, observer).map(|_| None),
        GssPayload::Control(_) => Ok(None),
    }
}

fn rdma_error(reply: &CapturedMessage) -> Option<RpcRdmaErrorCode> {
    reply.header()?.error()
}
