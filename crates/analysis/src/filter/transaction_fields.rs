//! Values of the generated fields of messages and Transactions, for filters that use them.

use std::net::IpAddr;
use std::ops::Range;

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::field::{self, FieldDefinition, FieldObserver};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::rpcrdma::RpcTransferMode;
use nfsrdma_flow::chunk::{Chunk, ChunkKind};
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::{
    ProcedureOrMainOperation, RpcStatus, RpcSummary, TransactionMessages,
};

use super::derived_fields::GeneratedField;
use super::extractor::FieldExtractor;
use super::procedure_number_fields;
use super::value::FilterValue;
use crate::names::transaction_paths::OperationPaths;

fn number<'v>(number: impl Into<u64>) -> Option<FilterValue<&'v [u8]>> {
    Some(FilterValue::Number(i128::from(number.into())))
}

fn duration<'v>(nanoseconds: u64) -> Option<FilterValue<&'v [u8]>> {
    Some(FilterValue::Duration(i128::from(nanoseconds)))
}

/// Adds a text that is computed only if the filter uses it.
fn text(to: &mut FieldExtractor, field: GeneratedField, text: impl FnOnce() -> Option<String>) {
    if to.slot_of(field).is_some()
        && let Some(text) = text()
    {
        to.add_generated(field, || Some(FilterValue::Text(text.as_bytes())));
    }
}

/// Adds an address in its comparable type.
fn address(to: &mut FieldExtractor, field: GeneratedField, address: Address) {
    match address {
        Address::Ip(IpAddr::V4(address)) => to.add_generated(field, || Some(FilterValue::Ipv4(address, 32))),
        Address::Ip(IpAddr::V6(address)) => to.add_generated(field, || Some(FilterValue::Ipv6(address, 128))),
        Address::Lid(_) => text(to, field, || Some(address.to_string())),
        Address::Unknown => {}
    }
}

pub(super) fn files(to: &mut FieldExtractor, paths: OperationPaths<'_>) {
    for (field, path) in [(GeneratedField::Path, paths.path), (GeneratedField::NewPath, paths.new_path)] {
        to.add_generated(field, || path.map(FilterValue::Text));
    }
}

/// Adds the conformance findings of a Transaction: rule, severity and side of each.
pub(super) fn findings(to: &mut FieldExtractor, findings: &[[&'static str; 3]]) {
    let fields = [GeneratedField::Finding, GeneratedField::FindingSeverity, GeneratedField::FindingSide];
    for finding in findings {
        for (field, value) in fields.into_iter().zip(finding) {
            to.add_generated(field, || Some(FilterValue::Text(value.as_bytes())));
        }
    }
}

/// Adds the fields of a message, from its RPC-over-RDMA header to its arguments or results.
pub(super) fn message(
    to: &mut FieldExtractor,
    transaction: &Transaction,
    messages: &TransactionMessages<'_>,
    kind: RpcMessageKind,
) {
    let Some(record) = transaction.message(kind) else { return };
    let layers = to.layers;
    if layers.bare_protocols {
        to.program = FilterCallProcedure::from_messages(messages).protocol();
    }
    if layers.rpcrdma {
        let mut listener = to.listen(&record.bytes, 0);
        // Fields before an error are valid.
        let _ = messages.observe_rpcrdma(kind, &mut listener);
        listener.finish();
        chunk_lists(to, record);
    }
    if !record.is_rdma_error() {
        rpc_message(to, transaction, messages, kind);
    }
}

/// Adds the dialect of the RPC-over-RDMA header of a message, and the number of its chunks and segments.
fn chunk_lists(to: &mut FieldExtractor, record: &CapturedMessage) {
    if record.rpcrdma.is_none() || GeneratedField::CHUNK_LISTS.iter().all(|field| to.slot_of(*field).is_none()) {
        return;
    }
    to.add_generated(GeneratedField::Dialect, || {
        record.dialect().map(|dialect| FilterValue::Text(dialect.key().as_bytes()))
    });
    let Some(header) = record.header() else { return };
    if !matches!(header.transfer_mode(), RpcTransferMode::Inline | RpcTransferMode::InChunk) {
        return;
    }
    to.add_generated(GeneratedField::ReadsCount, || number(header.read_segments().unwrap_or(0) as u64));
    to.add_generated(GeneratedField::WritesCount, || number(header.writes().len()));
    to.add_generated(GeneratedField::ReplyCount, || number(u32::from(header.reply_chunk().is_some())));
    for chunk in header.writes().iter().chain(header.reply_chunk().cloned()) {
        to.add_generated(GeneratedField::SegmentCount, || number(chunk.target.len()));
    }
}

/// Adds the fields of a message from its RPC header on.
pub(super) fn rpc_message(
    to: &mut FieldExtractor,
    transaction: &Transaction,
    messages: &TransactionMessages<'_>,
    kind: RpcMessageKind,
) {
    let layers = to.layers;
    if layers.bare_protocols {
        to.program = FilterCallProcedure::from_messages(messages).protocol();
    }
    if let Some((bytes, base)) = messages.rpc_bytes(kind).filter(|(bytes, _)| !bytes.is_empty()) {
        let mut listener = to.listen(bytes, base);
        // Fields before an error are valid.
        if layers.procedure {
            let _ = messages.observe_rpc(kind, &mut listener);
        } else if layers.rpc {
            let _ = messages.observe_rpc_header(kind, &mut listener);
        }
        listener.finish();
    }
    // NULL has neither arguments nor results, but belongs to its program.
    if let Some(protocol) = to.program {
        to.protocol(protocol);
    }
    if kind == RpcMessageKind::Reply {
        // The procedure of a Reply is in its Call.
        if let Some(mut listener) =
            to.listen_for(&[field_names::RPC_PROGRAM, field_names::RPC_PROGRAMVERSION, field_names::RPC_PROCEDURE])
        {
            let _ = messages.observe_rpc_header(RpcMessageKind::Call, &mut listener);
        }
    }
    if layers.message {
        message_facts(to, transaction, messages, kind);
    }
}

fn message_facts(
    to: &mut FieldExtractor,
    transaction: &Transaction,
    messages: &TransactionMessages<'_>,
    kind: RpcMessageKind,
) {
    if let (RpcMessageKind::Reply, Some(call), Some(reply)) = (kind, &transaction.call, &transaction.reply) {
        let rpc_time_ns = reply.end_time.0.checked_sub(call.end_time.0);
        to.add_generated(GeneratedField::RpcTime, || Some(FilterValue::Duration(i128::from(rpc_time_ns?))));
        to.add_generated(GeneratedField::CallFrameOfReply, || number(completing_frame(call)?.0));
    }
    if let (RpcMessageKind::Call, Some(reply)) = (kind, &transaction.reply) {
        to.add_generated(GeneratedField::ReplyFrameOfCall, || number(completing_frame(reply)?.0));
    }
    if to.has_procedures() {
        let FilterCallProcedure { program, version, procedure } = FilterCallProcedure::from_messages(messages);
        if let Some(procedure) = procedure {
            to.procedure(program, version, procedure);
        }
    }
}

/// Returns the frame that completed the first copy of a message.
fn completing_frame(record: &CapturedMessage) -> Option<FrameNumber> {
    let copies = usize::try_from(record.copies).unwrap_or(1).max(1);
    let first_copy = (record.frames.len() / copies).max(1);
    record.frames.get(first_copy - 1).copied()
}

#[derive(Default)]
struct FilterCallProcedure {
    program: Option<u64>,
    version: Option<u64>,
    procedure: Option<u64>,
}

impl FilterCallProcedure {
    /// Returns the protocol of the fields of the program.
    fn protocol(&self) -> Option<&'static str> {
        u32::try_from(self.program?).ok().map(|program| procedure_number_fields::protocol(Program(program)))
    }

    fn from_messages(messages: &TransactionMessages<'_>) -> Self {
        let mut procedure = Self::default();
        // Fields before an error are valid.
        let _ = messages.observe_rpc_header(RpcMessageKind::Call, &mut procedure);
        procedure
    }
}

impl<'a> FieldObserver<'a> for FilterCallProcedure {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: field::FieldValue<'a>) {
        let (field::FieldValue::Unsigned(number) | field::FieldValue::Enum(number, _)) = value else {
            return;
        };
        match field.name {
            field_names::RPC_PROGRAM => self.program = Some(number),
            field_names::RPC_PROGRAMVERSION => self.version = Some(number),
            field_names::RPC_PROCEDURE => self.procedure = Some(number),
            _ => {}
        }
    }
}

/// Adds the generated fields of a transaction except its [`outcome`]. An open one has no number yet, and, unless
/// `is_pending`, no connection.
pub(super) fn transaction(to: &mut FieldExtractor, transaction: &Transaction, is_pending: bool) {
    let Transaction { index, connection, direction, xid, call, reply, .. } = transaction;
    if *index > 0 || is_pending {
        to.add_generated(GeneratedField::Connection, || number(connection.number));
        text(to, GeneratedField::Transport, || Some(connection.transport.to_string()));
        address(to, GeneratedField::Client, connection.client.address);
        address(to, GeneratedField::Server, connection.server.address);
        to.add_generated(GeneratedField::ClientPort, || connection.client.port.and_then(number));
        to.add_generated(GeneratedField::ServerPort, || connection.server.port.and_then(number));
        connection.tenant.vlan_ids().for_each(|id| to.add_generated(GeneratedField::VlanId, || number(id)));
        to.add_generated(GeneratedField::Vni, || connection.tenant.network_identifier().and_then(number));
        let direction = match direction {
            CallDirection::Forward => "forward",
            CallDirection::Reverse => "reverse",
        };
        to.add_generated(GeneratedField::Direction, || Some(FilterValue::Text(direction.as_bytes())));
        to.add_generated(GeneratedField::RetryOf, || transaction.retry_of.and_then(number));
        if *index > 0 {
            to.add_generated(GeneratedField::Index, || number(*index));
        }
        // A pending call lacks its reply.
        if to.slot_of(GeneratedField::Missing).is_some() || to.slot_of(GeneratedField::Complete).is_some() {
            let missing = transaction.with_messages(|messages| messages.summary().missing(transaction));
            to.add_generated(GeneratedField::Complete, || Some(FilterValue::Bool(missing.is_empty())));
            for missing in missing {
                text(to, GeneratedField::Missing, || Some(missing.to_string()));
            }
        }
    }
    to.add_generated(GeneratedField::Xid, || number(xid.0));
    to.add_generated(GeneratedField::Latency, || transaction.latency_ns().and_then(duration));
    to.add_generated(GeneratedField::CallTime, || Some(FilterValue::Duration(i128::from(call.as_ref()?.time.0))));
    if let Some(phases) = transaction.phases() {
        to.add_generated(GeneratedField::PhaseCall, || duration(phases.call_ns));
        to.add_generated(GeneratedField::PhaseDataIn, || duration(phases.data_in_ns));
        to.add_generated(GeneratedField::PhaseServer, || duration(phases.server_ns));
        to.add_generated(GeneratedField::PhaseDataOut, || duration(phases.data_out_ns));
        to.add_generated(GeneratedField::PhaseReply, || duration(phases.reply_ns));
        to.add_generated(GeneratedField::PhaseRecovery, || duration(phases.recovery_ns));
    }
    text(to, GeneratedField::PossibleRecovery, || Some(transaction.possible_recovery()?.key().to_owned()));
    let messages = [
        (
            call,
            GeneratedField::CallLength,
            [GeneratedField::CallCopies, GeneratedField::CallResent],
            GeneratedField::CallDelivered,
            GeneratedField::CallFrame,
        ),
        (
            reply,
            GeneratedField::ReplyLength,
            [GeneratedField::ReplyCopies, GeneratedField::ReplyResent],
            GeneratedField::ReplyDelivered,
            GeneratedField::ReplyFrame,
        ),
    ];
    for (record, length, [copies, resent], delivered, frame) in messages {
        let Some(record) = record else { continue };
        to.add_generated(length, || record.inline_length().and_then(|length| number(length as u64)));
        to.add_generated(copies, || number(record.copies));
        to.add_generated(resent, || number(record.retransmissions));
        text(to, delivered, || Some(record.delivery_evidence.to_string()));
        if to.slot_of(frame).is_some() {
            record.frames.iter().for_each(|frame_number| to.add_generated(frame, || number(frame_number.0)));
        }
    }
    text(to, GeneratedField::CallLostCopy, || transaction.lost_copy().map(|lost_copy| lost_copy.key().to_owned()));
    let kinds = [
        (ChunkKind::Read, transaction.read_chunks.as_slice()),
        (ChunkKind::Write, &transaction.write_chunks),
        (ChunkKind::Reply, transaction.reply_chunk.as_slice()),
    ];
    for (kind, chunks) in kinds {
        chunks.iter().for_each(|one_chunk| chunk(to, kind, one_chunk));
    }
}

/// Adds the fields that come from the decoded messages of a Transaction.
pub(super) fn outcome(to: &mut FieldExtractor, summary: &RpcSummary) {
    text(to, GeneratedField::Program, || summary.program_name().map(str::to_owned));
    to.add_generated(GeneratedField::Version, || summary.version.and_then(number));
    to.add_generated(GeneratedField::MinorVersion, || summary.minor_version.and_then(number));
    text(to, GeneratedField::Procedure, || summary.procedure_name.map(str::to_owned));
    text(to, GeneratedField::Operation, || {
        summary.operation.map(|operation| match operation {
            ProcedureOrMainOperation::Named(name) => name.to_owned(),
            ProcedureOrMainOperation::Number(number) => number.to_string(),
        })
    });
    text(to, GeneratedField::Status, || {
        summary.status.map(|status| status.name.map_or_else(|| status.number.to_string(), str::to_owned))
    });
    text(to, GeneratedField::RpcStatus, || {
        summary.rpc_status.map(|status| match status {
            RpcStatus::Rpc(status) => status.to_string(),
            RpcStatus::RdmaError(code) => format!("RDMA_ERROR:{code}"),
        })
    });
}

fn chunk(to: &mut FieldExtractor, kind: ChunkKind, chunk: &Chunk) {
    let name = match kind {
        ChunkKind::Read => "read",
        ChunkKind::Write => "write",
        ChunkKind::Reply => "reply",
    };
    to.add_generated(GeneratedField::ChunkKind, || Some(FilterValue::Text(name.as_bytes())));
    to.add_generated(GeneratedField::ChunkPosition, || chunk.position.and_then(number));
    to.add_generated(GeneratedField::ChunkSegments, || number(chunk.segments.len() as u64));
    to.add_generated(GeneratedField::ChunkOffered, || number(chunk.offered_bytes()));
    to.add_generated(GeneratedField::ChunkReturned, || chunk.returned_bytes().and_then(number));
    to.add_generated(GeneratedField::ChunkMoved, || number(chunk.moved_bytes()));
}
