//! Splits a message into its bytes without file data, its slots, and its file data.

use std::io::{self, Seek, Write};

use nfsrdma_dissectors::xdr::{Opaque, XdrArray, roundup};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::TransactionMessages;

use super::variable_resolution::OperationFileAndOwnerVariables;
use super::variable_table::hash;
use crate::trace::file_format::TraceFileDataRetention;
use crate::trace::run_dependent_field_visitor::SubstitutableFieldVisitor;
use crate::trace::step::{
    MessageCaptureCompleteness, NONE, PayloadContentState, SubstitutableMessageSlot, TraceMessage, TracePayload,
};
use crate::trace::step_writer::ReplayTraceWriter;

/// Length of a block of zeros that counts as a hole, in bytes.
const HOLE_BYTES: usize = 4096;

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A payload with the range of its bytes in `data`, if they are known.
#[derive(Clone, Debug)]
struct CompiledDataPayload {
    payload: TracePayload,
    bytes: Option<std::ops::Range<usize>>,
    /// `true` for file data, `false` for the text of a symbolic link.
    is_file: bool,
}

/// A message split into its parts. It is reused for all messages to reuse its memory.
#[derive(Debug, Default)]
pub(super) struct CompiledMessage {
    /// The message without file data.
    pub(super) head: Vec<u8>,
    pub(super) completeness: MessageCaptureCompleteness,
    body_offset: u32,
    body_end: u32,
    slots: Vec<SubstitutableMessageSlot>,
    compiled_payloads: Vec<CompiledDataPayload>,
    payloads: Vec<TracePayload>,
    data: Vec<u8>,
    /// Slots with their positions in the decoder.
    pub(super) decoder_slots: Vec<(usize, SubstitutableMessageSlot)>,
}

impl CompiledMessage {
    pub(super) fn clear(&mut self) {
        self.head.clear();
        self.completeness = MessageCaptureCompleteness::NOTHING;
        (self.body_offset, self.body_end) = (0, 0);
        self.slots.clear();
        self.compiled_payloads.clear();
        self.payloads.clear();
        self.data.clear();
        self.decoder_slots.clear();
    }

    /// Splits a message whose fields were visited and whose slots are in `visitor`. Leaves a message empty that was not
    /// captured.
    pub(super) fn compile(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        kind: RpcMessageKind,
        visitor: &SubstitutableFieldVisitor<'_>,
    ) {
        self.completeness = capture_completeness(transaction, messages, kind);
        let Some((bytes, base)) = messages.rpc_bytes(kind) else { return };
        let to_index = |position: usize| position.saturating_sub(base).min(bytes.len());
        // Content inside the message is cut out, which shifts the positions after it.
        let mut removed = Vec::with_capacity(visitor.data.len());
        let mut from = 0;
        for item in visitor.data.iter().filter(|datum| datum.is_inline && datum.is_eligible) {
            let content = to_index(item.at);
            let end = content + item.padding_bytes + item.length_bytes as usize + roundup(item.length_bytes as usize);
            self.head.extend_from_slice(bytes.get(from..content).unwrap_or_default());
            from = end.min(bytes.len());
            removed.push((content, from - content));
        }
        self.head.extend_from_slice(bytes.get(from..).unwrap_or_default());
        let in_head = |position: usize| {
            let position = to_index(position);
            let before = removed.iter().filter(|(at, _)| *at < position).map(|(_, length)| length);
            position.saturating_sub(before.sum()) as u32
        };
        let body = visitor.body.clone().unwrap_or(base + bytes.len()..base + bytes.len());
        (self.body_offset, self.body_end) = (in_head(body.start), in_head(body.end));
        self.slots.extend(
            self.decoder_slots.iter().map(|(at, slot)| SubstitutableMessageSlot { at: in_head(*at), ..slot.clone() }),
        );
        for item in &visitor.data {
            let start = self.data.len();
            let bytes = item.bytes.map(|bytes| {
                self.data.extend_from_slice(bytes);
                start..self.data.len()
            });
            let hash = item.bytes.map_or([0; 16], |bytes| hash(bytes).to_be_bytes());
            let payload = TracePayload {
                at: in_head(item.at),
                length: item.length_bytes,
                is_inside: item.is_inline && !item.is_eligible,
                content: if item.bytes.is_some() { PayloadContentState::HASHED } else { PayloadContentState::UNKNOWN },
                hash,
                data: 0,
                operation: item.operation,
                file: NONE,
                offset: item.offset.unwrap_or(0),
            };
            self.compiled_payloads.push(CompiledDataPayload { payload, bytes, is_file: !item.is_text });
        }
    }

    /// Stores the file data in the trace as `retention` demands. `offsets` are the file offsets of the Call's
    /// operations.
    pub(super) fn store_payloads(
        &mut self,
        retention: TraceFileDataRetention,
        files: &OperationFileAndOwnerVariables,
        offsets: &[Option<u64>],
        writer: &mut ReplayTraceWriter<impl Write + Seek>,
    ) -> io::Result<()> {
        for compiled in &self.compiled_payloads {
            let mut payload = compiled.payload.clone();
            if compiled.is_file {
                payload.file = files.file_of_operation(payload.operation);
                if payload.offset == 0 {
                    payload.offset = offsets.get(payload.operation as usize).copied().flatten().unwrap_or(0);
                }
            }
            let Some(bytes) = compiled.bytes.clone().and_then(|range| self.data.get(range)) else {
                self.payloads.push(payload);
                continue;
            };
            let hash = u128::from_be_bytes(payload.hash);
            payload.content = match retention {
                _ if is_zero(bytes) => PayloadContentState::ZEROS,
                // Data generated from the key has no holes.
                TraceFileDataRetention::KEYED if compiled.is_file && bytes.chunks_exact(HOLE_BYTES).any(is_zero) => {
                    PayloadContentState::UNKNOWN
                }
                TraceFileDataRetention::KEYED if compiled.is_file && payload.file != NONE => PayloadContentState::KEYED,
                // The text of a link is part of the tree, so it is always needed.
                TraceFileDataRetention::KEPT => PayloadContentState::KEPT,
                _ if !compiled.is_file => PayloadContentState::KEPT,
                _ => PayloadContentState::HASHED,
            };
            if payload.content == PayloadContentState::KEPT {
                payload.data = writer.add_data(hash, bytes)?;
            } else if payload.is_inside
                && let Some(inline_bytes) =
                    self.head.get_mut(payload.at as usize..).and_then(|rest| rest.get_mut(..payload.length as usize))
            {
                inline_bytes.fill(0);
            }
            self.payloads.push(payload);
        }
        Ok(())
    }

    pub(super) fn content(&self, at: usize) -> Option<&[u8]> {
        self.data.get(self.compiled_payloads.get(at)?.bytes.clone()?)
    }

    pub(super) fn payload(&self, at: usize) -> Option<&TracePayload> {
        self.payloads.get(at)
    }

    /// Returns the number of bytes of file data inside and outside the message.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.compiled_payloads.iter().map(|payload| u64::from(payload.payload.length)).sum()
    }

    /// Returns the number of bytes of file data that were not captured.
    pub(super) fn unknown_bytes(&self) -> u64 {
        let unknown = self.compiled_payloads.iter().filter(|payload| payload.bytes.is_none());
        unknown.map(|payload| u64::from(payload.payload.length)).sum()
    }

    pub(super) fn message(&self) -> TraceMessage<'_> {
        TraceMessage {
            completeness: self.completeness,
            head: Opaque(&self.head),
            body: self.body_offset,
            end: self.body_end,
            slots: XdrArray::from(&self.slots[..]),
            payloads: XdrArray::from(&self.payloads[..]),
        }
    }
}

fn capture_completeness(
    transaction: &Transaction,
    messages: &TransactionMessages<'_>,
    kind: RpcMessageKind,
) -> MessageCaptureCompleteness {
    let Some(message) = transaction.message(kind) else { return MessageCaptureCompleteness::NOTHING };
    let is_whole = message.bytes.len() >= message.length && message.gaps.is_empty();
    // The message may be in a chunk, or its end.
    let is_there = messages.cursor(kind).is_some_and(|rpc| {
        let is_known = !message.is_nomsg() || rpc.length() > 0;
        is_known && rpc.rest().len() >= rpc.remaining()
    });
    if is_whole && is_there { MessageCaptureCompleteness::WHOLE } else { MessageCaptureCompleteness::PART }
}
