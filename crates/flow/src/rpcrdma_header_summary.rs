//! Summary of an RPC-over-RDMA transport header: message type and chunks. A truncated header is decoded as
//! far as it was captured.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{self, AnyDialectHeader, Dialect, RdmaProc, RpcRdmaMessageType, RpcTransferMode};
use nfsrdma_dissectors::xdr::Cursor;

use super::chunk::{Chunk, ChunkSegment};
use super::transaction::{CapturedMessage, RpcRdmaHeaderWords, Transaction};

/// The decoded fields of a transport header.
#[derive(Clone, Debug)]
pub(super) struct RpcRdmaHeaderSummary {
    pub(super) xid: Xid,
    pub(super) words: RpcRdmaHeaderWords,
    pub(super) read_chunks: Vec<Chunk>,
    pub(super) write_chunks: Vec<Chunk>,
    pub(super) reply_chunk: Option<Chunk>,
    /// Offset of the RPC message; `None` if the capture ends within the header.
    pub(super) rpc_offset: Option<usize>,
    /// `true` if the capture ends within the header.
    pub(super) is_cut: bool,
    /// Bytes that remain to be sent after this part of a message; 0 otherwise.
    pub(super) remaining_bytes: u32,
}

/// Chunk list that the next segments belong to.
#[derive(Clone, Copy, Debug, Default)]
enum ChunkListKind {
    #[default]
    Read,
    Write,
    Reply,
}

/// Observer that collects the fields of a header, so that those before a truncation are available.
#[derive(Debug, Default)]
struct RpcRdmaHeaderFieldCollector {
    xid: Option<Xid>,
    version: u32,
    credits: u32,
    message_type: Option<u32>,
    remaining_bytes: u32,
    read_chunks: Vec<Chunk>,
    write_chunks: Vec<Chunk>,
    reply_chunk: Option<Chunk>,
    current_list: ChunkListKind,
    position: u32,
    segment: ChunkSegment,
    /// Current nesting depth of groups.
    depth: usize,
    /// Nesting depth of the Write or Reply chunk that is not complete yet.
    chunk_depth: Option<usize>,
}

impl RpcRdmaHeaderFieldCollector {
    /// Adds a completed segment to its chunk.
    fn finish_segment(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        match self.current_list {
            ChunkListKind::Write => {
                if let Some(chunk) = self.write_chunks.last_mut() {
                    chunk.segments.push(segment);
                }
            }
            ChunkListKind::Reply => {
                if let Some(chunk) = &mut self.reply_chunk {
                    chunk.segments.push(segment);
                }
            }
            // Consecutive entries with one Position are one chunk (RFC 8166 section 3.4.5).
            ChunkListKind::Read => match self.read_chunks.last_mut() {
                Some(chunk) if chunk.position == Some(self.position) => chunk.segments.push(segment),
                _ => self.read_chunks.push(Chunk {
                    position: Some(self.position),
                    segments: vec![segment],
                    ..Chunk::default()
                }),
            },
        }
    }

    /// Marks the last chunk of a truncated header as incomplete, and removes it if it has no segment.
    fn mark_truncated(&mut self) {
        let is_inside = self.chunk_depth.is_some();
        let last = match self.current_list {
            ChunkListKind::Read => self.read_chunks.last_mut(),
            ChunkListKind::Write => self.write_chunks.last_mut().filter(|_| is_inside),
            ChunkListKind::Reply => self.reply_chunk.as_mut(),
        };
        if let Some(chunk) = last {
            chunk.is_cut = true;
        }
        let is_recorded = |chunk: &Chunk| !chunk.is_cut || !chunk.segments.is_empty();
        self.write_chunks.retain(is_recorded);
        self.reply_chunk = self.reply_chunk.take().filter(is_recorded);
    }
}

impl<'a> FieldObserver<'a> for RpcRdmaHeaderFieldCollector {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        self.depth += 1;
        match field.name {
            field_names::RPCORDMA_WRITES => self.write_chunks.push(Chunk::default()),
            field_names::RPCORDMA_REPLY => {
                self.current_list = ChunkListKind::Reply;
                self.reply_chunk = Some(Chunk::default());
            }
            _ => return,
        }
        self.chunk_depth = Some(self.depth);
    }

    fn leave(&mut self, _: usize) {
        self.chunk_depth = self.chunk_depth.filter(|depth| *depth != self.depth);
        self.depth = self.depth.saturating_sub(1);
    }

    fn list(&mut self, field: &'static FieldDefinition, _: usize) {
        if field.name == field_names::RPCORDMA_WRITES {
            self.current_list = ChunkListKind::Write;
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        let (FieldValue::Unsigned(number) | FieldValue::Enum(number, _)) = value else { return };
        let word = number as u32;
        match field.name {
            field_names::RPCORDMA_XID => self.xid = Some(Xid(word)),
            field_names::RPCORDMA_VERSION => self.version = word,
            field_names::RPCORDMA_FLOW_CONTROL => self.credits = word,
            field_names::RPCORDMA_MSG_TYPE | field_names::RPCORDMA_HTYPE | field_names::RPCORDMA_PROTOTYPE_PROC => {
                self.message_type = Some(word);
            }
            field_names::RPCORDMA_REMAINING => self.remaining_bytes = word,
            field_names::RPCORDMA_POSITION => self.position = word,
            field_names::RPCORDMA_RDMA_HANDLE => self.segment.handle = Handle(word),
            field_names::RPCORDMA_RDMA_LENGTH => self.segment.length = word,
            field_names::RPCORDMA_RDMA_OFFSET => {
                self.segment.offset = number;
                self.finish_segment();
            }
            _ => {}
        }
    }
}

impl RpcRdmaHeaderSummary {
    /// Decodes the header of a message of `length` bytes; `None` if it is not a header of the dialect.
    pub(super) fn decode(dialect: Dialect, bytes: &[u8], length: usize) -> Option<Self> {
        match Self::decode_without_chunks(dialect, bytes) {
            Some(header) => Some(header),
            None => Self::decode_with_chunks(dialect, bytes, length),
        }
    }

    /// Decodes the header that most messages have: RDMA_MSG of version 1 with three empty chunk lists; `None` for
    /// any other.
    #[inline(always)]
    fn decode_without_chunks(dialect: Dialect, bytes: &[u8]) -> Option<Self> {
        const VERSION: [u8; 4] = rpcrdma::VERSION.to_be_bytes();
        const RDMA_MSG: [u8; 4] = RdmaProc::RDMA_MSG.0.to_be_bytes();
        const EMPTY: [u8; 4] = [0; 4];
        let (words, _) = bytes.as_chunks::<4>();
        let [xid, VERSION, credits, RDMA_MSG, EMPTY, EMPTY, EMPTY, ..] = words else { return None };
        let credits = u32::from_be_bytes(*credits);
        dialect.is_version1().then(|| Self {
            xid: Xid(u32::from_be_bytes(*xid)),
            words: RpcRdmaHeaderWords { dialect, ..RpcRdmaHeaderWords::version1(RdmaProc::RDMA_MSG, credits) },
            read_chunks: Vec::new(),
            write_chunks: Vec::new(),
            reply_chunk: None,
            rpc_offset: Some(rpcrdma::MIN_HEADER_BYTES),
            is_cut: false,
            remaining_bytes: 0,
        })
    }

    fn decode_with_chunks(dialect: Dialect, bytes: &[u8], length: usize) -> Option<Self> {
        let mut cursor = Cursor::new(bytes).with_length(length);
        let mut collector = RpcRdmaHeaderFieldCollector::default();
        let header = AnyDialectHeader::decode(dialect, &mut cursor, &mut collector);
        let is_cut = match &header {
            Ok(_) => false,
            Err(error) if error.is_cut() => true,
            Err(_) => return None,
        };
        let message_type = RpcRdmaMessageType::from_number(dialect, collector.message_type?);
        let is_long = collector.read_chunks.iter().any(|chunk| chunk.position == Some(0));
        let transfer_mode = message_type.transfer_mode(collector.version, is_long);
        let words = RpcRdmaHeaderWords {
            dialect,
            message_type,
            transfer_mode,
            version: collector.version,
            credits: collector.credits,
        };
        if is_cut {
            collector.mark_truncated();
        }
        // The fields after the fixed words of an unknown version were decoded as opaque bytes.
        let rpc_at = if is_cut { None } else { Some(cursor.at()) };
        Some(Self {
            xid: collector.xid?,
            words,
            read_chunks: collector.read_chunks,
            write_chunks: collector.write_chunks,
            reply_chunk: collector.reply_chunk,
            rpc_offset: rpc_at,
            is_cut,
            remaining_bytes: collector.remaining_bytes,
        })
    }

    /// Returns `true` if the version or the message type is unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.words.transfer_mode == RpcTransferMode::Unknown
    }

    /// Returns `true` if the whole RPC message is in a Position-Zero Read chunk (RFC 8166 section 3.5.3).
    pub(super) fn has_position_zero(&self) -> bool {
        self.read_chunks.iter().any(|chunk| chunk.position == Some(0))
    }

    pub(super) fn set_reply(self, transaction: &mut Transaction, reply: CapturedMessage) {
        transaction.has_other_reply_header = self.contradicts_call(transaction, &reply);
        for (chunk, returned) in transaction.write_chunks.iter_mut().zip(&self.write_chunks) {
            record_returned_lengths(chunk, returned);
        }
        if let (Some(chunk), Some(returned)) = (&mut transaction.reply_chunk, &self.reply_chunk) {
            record_returned_lengths(chunk, returned);
        }
        transaction.reply_read_chunks = self.read_chunks;
        let whole_replies = transaction.reply_read_chunks.iter_mut();
        whole_replies.filter(|chunk| chunk.position == Some(0)).for_each(|chunk| chunk.retain_payload(true));
        transaction.reply = Some(reply);
    }

    /// Undoes [`RpcRdmaHeaderSummary::set_reply`], and returns the Reply.
    pub(super) fn remove_reply(transaction: &mut Transaction) -> Option<CapturedMessage> {
        transaction.has_other_reply_header = false;
        let chunks = transaction.write_chunks.iter_mut().chain(&mut transaction.reply_chunk);
        chunks.flat_map(|chunk| &mut chunk.segments).for_each(|segment| segment.returned_length = None);
        transaction.reply_read_chunks = Vec::new();
        transaction.reply.take()
    }
}

fn record_returned_lengths(chunk: &mut Chunk, returned: &Chunk) {
    for (segment, returned) in chunk.segments.iter_mut().zip(&returned.segments) {
        segment.returned_length = Some(returned.length);
    }
}
