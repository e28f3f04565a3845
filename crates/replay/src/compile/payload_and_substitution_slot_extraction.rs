//! Splits a message into its bytes without file data, its slots, and its file data.

use std::io::{self, Seek, Write};

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::flow::transaction_message_decoding::TransactionMessages;
use nfsrdma_dissectors::xdr::{List, Opaque, roundup};

use super::variable_resolution::OperationFileAndOwnerVariables;
use super::variable_table::hash;
use crate::trace::file_format::TraceFileDataRetention;
use crate::trace::run_dependent_field_visitor::SubstitutableFieldVisitor;
use crate::trace::{
    MessageCaptureCompleteness, NONE, PayloadContentState, ReplayTraceWriter, SubstitutableMessageSlot,
    TraceMessage, TracePayload,
};

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

    /// Splits a message whose fields were visited and whose slots are in `named`. Leaves a message empty that was not
    /// captured.
    pub(super) fn compile(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        which: RpcMessageKind,
        visitor: &SubstitutableFieldVisitor<'_>,
    ) {
        self.completeness = capture_completeness(transaction, reading, which);
        let Some((bytes, base)) = reading.rpc_bytes(which) else { return };
        let at = |position: usize| position.saturating_sub(base).min(bytes.len());
        // Content inside the message is cut out, which shifts the positions after it.
        let mut removed = Vec::with_capacity(visitor.data.len());
        let mut from = 0;
        for datum in visitor.data.iter().filter(|datum| datum.is_inline && datum.is_eligible) {
            let content = at(datum.at);
            let end = content
                + datum.padding_bytes
                + datum.length_bytes as usize
                + roundup(datum.length_bytes as usize);
            self.head.extend_from_slice(bytes.get(from..content).unwrap_or_default());
            from = end.min(bytes.len());
            removed.push((content, from - content));
        }
        self.head.extend_from_slice(bytes.get(from..).unwrap_or_default());
        let in_head = |position: usize| {
            let position = at(position);
            let before = removed.iter().filter(|(at, _)| *at < position).map(|(_, length)| length);
            position.saturating_sub(before.sum()) as u32
        };
        let body = visitor.body.clone().unwrap_or(base + bytes.len()..base + bytes.len());
        (self.body_offset, self.body_end) = (in_head(body.start), in_head(body.end));
        self.slots.extend(
            self.decoder_slots
                .iter()
                .map(|(at, slot)| SubstitutableMessageSlot { at: in_head(*at), ..slot.clone() }),
        );
        for datum in &visitor.data {
            let start = self.data.len();
            let bytes = datum.bytes.map(|bytes| {
                self.data.extend_from_slice(bytes);
                start..self.data.len()
            });
            let hash = datum.bytes.map_or([0; 16], |bytes| hash(bytes).to_be_bytes());
            let payload = TracePayload {
                at: in_head(datum.at),
                length: datum.length_bytes,
                is_inside: datum.is_inline && !datum.is_eligible,
                content: if datum.bytes.is_some() {
                    PayloadContentState::HASHED
                } else {
                    PayloadContentState::UNKNOWN
                },
                hash,
                data: 0,
                operation: datum.operation,
                file: NONE,
                offset: datum.offset.unwrap_or(0),
            };
            self.compiled_payloads.push(CompiledDataPayload { payload, bytes, is_file: !datum.is_text });
        }
    }

    /// Stores the file data in the trace as `keeping` demands. `offsets` are the file offsets of the Call's operations.
    pub(super) fn store_payloads(
        &mut self,
        keeping: TraceFileDataRetention,
        files: &OperationFileAndOwnerVariables,
        offsets: &[Option<u64>],
        to: &mut ReplayTraceWriter<impl Write + Seek>,
    ) -> io::Result<()> {
        for part in &self.compiled_payloads {
            let mut payload = part.payload.clone();
            if part.is_file {
                payload.file = files.file_of_operation(payload.operation);
                if payload.offset == 0 {
                    payload.offset = offsets.get(payload.operation as usize).copied().flatten().unwrap_or(0);
                }
            }
            let Some(bytes) = part.bytes.clone().and_then(|range| self.data.get(range)) else {
                self.payloads.push(payload);
                continue;
            };
            let hash = u128::from_be_bytes(payload.hash);
            payload.content = match keeping {
                _ if is_zero(bytes) => PayloadContentState::ZEROS,
                // Data generated from the key has no holes.
                TraceFileDataRetention::KEYED
                    if part.is_file && bytes.chunks_exact(HOLE_BYTES).any(is_zero) =>
                {
                    PayloadContentState::UNKNOWN
                }
                TraceFileDataRetention::KEYED if part.is_file && payload.file != NONE => {
                    PayloadContentState::KEYED
                }
                // The text of a link is part of the tree, so it is always needed.
                TraceFileDataRetention::KEPT => PayloadContentState::KEPT,
                _ if !part.is_file => PayloadContentState::KEPT,
                _ => PayloadContentState::HASHED,
            };
            if payload.content == PayloadContentState::KEPT {
                payload.data = to.add_data(hash, bytes)?;
            } else if payload.is_inside
                && let Some(inside) = self
                    .head
                    .get_mut(payload.at as usize..)
                    .and_then(|rest| rest.get_mut(..payload.length as usize))
            {
                inside.fill(0);
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
        self.compiled_payloads.iter().map(|part| u64::from(part.payload.length)).sum()
    }

    /// Returns the number of bytes of file data that were not captured.
    pub(super) fn unknown_bytes(&self) -> u64 {
        let unknown = self.compiled_payloads.iter().filter(|part| part.bytes.is_none());
        unknown.map(|part| u64::from(part.payload.length)).sum()
    }

    pub(super) fn message(&self) -> TraceMessage<'_> {
        TraceMessage {
            seen: self.completeness,
            head: Opaque(&self.head),
            body: self.body_offset,
            end: self.body_end,
            slots: List::from(&self.slots[..]),
            payloads: List::from(&self.payloads[..]),
        }
    }
}

fn capture_completeness(
    transaction: &Transaction,
    reading: &TransactionMessages<'_>,
    which: RpcMessageKind,
) -> MessageCaptureCompleteness {
    let Some(message) = transaction.message(which) else { return MessageCaptureCompleteness::NOTHING };
    let is_whole = message.bytes.len() >= message.length && message.gaps.is_empty();
    let length = match which {
        _ if !message.is_nomsg() => None,
        RpcMessageKind::Call => transaction
            .read_chunks
            .iter()
            .find(|chunk| chunk.position == Some(0))
            .map(|chunk| chunk.offered_bytes()),
        RpcMessageKind::Reply => transaction.reply_chunk.as_ref().and_then(|chunk| chunk.returned_bytes()),
    };
    let captured = reading.rpc_bytes(which).map_or(0, |(bytes, _)| bytes.len() as u64);
    let is_there = match length {
        Some(length) => captured >= length,
        None => !message.is_nomsg(),
    };
    if is_whole && is_there { MessageCaptureCompleteness::WHOLE } else { MessageCaptureCompleteness::PART }
}
