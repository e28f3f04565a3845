//! Keys of a line, in the order of the schema.

use std::borrow::Cow;
use std::net::IpAddr;

use nfsrdma_analysis::names::{FileNames, OperationPaths};
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::{Chunk, ChunkKind, ChunkSegment};
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_flow::transaction::{
    CallDirection, CapturedMessage, ChunkListCompleteness, RpcMessageKind, TransactionConnection, TransactionPhases,
};
use nfsrdma_flow::transaction_message_decoding::{ProcedureOrMainOperation, RpcStatus, RpcSummary};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
#[cfg(feature = "parquet")]
use serde_json::Value;

use super::arguments_and_results::{BufferedStructureFields, JsonMember};
use super::field_buffer::{JsonCompoundOperationFields, MessageFieldBuffer};
use super::object::{DisplayAsJsonString, JsonArray, JsonMap, SCHEMA, json_object};
use crate::output::pending_call_progress::PendingCallProgress;
use crate::output::units::{HexBytes, IsoTimestamp};

pub(in crate::output) fn finding_object(finding: &Finding) -> impl Serialize {
    json_object! {
        rule: finding.rule.id,
        severity: finding.severity.name(),
        #[serde(flatten)]
        known: finding.known.as_deref().map(|known| json_object! { known: known }),
        text: &finding.text,
        side: finding.side.name(),
        address: address(finding.endpoint().address),
        frame: finding.frames.first().map(|frame| frame.0),
    }
}

/// Returns the members that name a connection.
pub(in crate::output) fn connection_members(name: &TransactionConnection) -> impl Serialize {
    let vlan_ids: Vec<u16> = name.tenant.vlan_ids().collect();
    json_object! {
        connection: name.number,
        transport: DisplayAsJsonString(name.transport),
        client: address(name.client.address),
        client_port: name.client.port,
        server: address(name.server.address),
        server_port: name.server.port,
        #[serde(flatten)]
        vlan_ids: (!vlan_ids.is_empty()).then(|| json_object! { vlan_ids: vlan_ids }),
        #[serde(flatten)]
        vni: name.tenant.network_identifier().map(|vni| json_object! { vni: vni }),
    }
}

/// Returns the object of a Transaction, or of a pending Call, which has no index yet. `has_iso` adds the times of
/// messages in ISO 8601.
pub(super) fn line_object<'t>(
    transaction: &Transaction,
    summary: &RpcSummary,
    names: &'t FileNames,
    values: &DecodedValuesJson<'t, '_>,
    has_iso: bool,
    (findings, pending): (&[Finding], Option<PendingCallProgress>),
) -> impl Serialize {
    let OperationPaths { path, new_path, .. } = names.paths();
    let reply_read_chunks = Some(&transaction.reply_read_chunks).filter(|chunks| !chunks.is_empty());
    let missing = summary.missing(transaction);
    let message = |kind| message_object(transaction, summary, kind, has_iso);
    let is_compound = !values.buffer.parts.is_empty();
    let [arguments, results] = values.bodies().map(|body| Some(body).filter(|body| !is_compound && !body.is_empty()));
    json_object! {
        schema: SCHEMA,
        kind: if pending.is_some() { "pending" } else { "transaction" },
        #[serde(flatten)]
        index: pending.is_none().then(|| json_object! { index: transaction.index }),
        #[serde(flatten)]
        connection: connection_members(&transaction.connection),
        direction: match transaction.direction {
            CallDirection::Forward => "forward",
            CallDirection::Reverse => "reverse",
        },
        xid: DisplayAsJsonString(transaction.xid),
        program: summary.program.map(|program| program.0),
        program_name: summary.program_name(),
        version: summary.version,
        minor_version: summary.minor_version,
        procedure: procedure(summary),
        operation: summary.operation.map(name_or_number),
        #[serde(flatten)]
        path: path.map(|path| json_object! { path: String::from_utf8_lossy(path) }),
        #[serde(flatten)]
        new_path: new_path.map(|path| json_object! { new_path: String::from_utf8_lossy(path) }),
        operations: values.operations(Some(names)),
        #[serde(flatten)]
        arguments: arguments.map(|arguments| json_object! { arguments: arguments }),
        #[serde(flatten)]
        results: results.map(|results| json_object! { results: results }),
        status: status(summary),
        rpc_status: summary.rpc_status.and_then(rpc_status),
        call: message(RpcMessageKind::Call),
        reply: message(RpcMessageKind::Reply),
        read_chunks: chunk_list(&transaction.read_chunks, ChunkKind::Read),
        write_chunks: chunk_list(&transaction.write_chunks, ChunkKind::Write),
        reply_chunk: transaction.reply_chunk.as_ref().map(|chunk| chunk_object(chunk, ChunkKind::Reply)),
        #[serde(flatten)]
        reply_read_chunks: reply_read_chunks.map(|chunks| {
            json_object! { reply_read_chunks: chunk_list(chunks, ChunkKind::Read) }
        }),
        #[serde(flatten)]
        retry_of: transaction.retry_of.map(|index| json_object! { retry_of: index }),
        #[serde(flatten)]
        done: transaction.is_done.then(|| json_object! { done: true }),
        latency_ns: transaction.latency_ns(),
        phases_ns: transaction.phases().map(phases_object),
        #[serde(flatten)]
        possible_recovery: transaction.possible_recovery().map(|evidence| {
            let ack_timeout = evidence.ack_timeout_ns().map(|ns| json_object! { ack_timeout_ns: ns });
            json_object! {
                possible_recovery: json_object! {
                    evidence: evidence.key(),
                    #[serde(flatten)]
                    ack_timeout: ack_timeout,
                }
            }
        }),
        complete: missing.is_empty(),
        missing: missing.into_iter().map(DisplayAsJsonString).collect::<Vec<_>>(),
        findings: JsonArray(|| findings.iter().map(finding_object)),
        #[serde(flatten)]
        pending: pending.map(pending_members),
    }
}

/// Returns the members that only a pending Call has.
fn pending_members(PendingCallProgress { age_ns, phase, slot, .. }: PendingCallProgress) -> impl Serialize {
    let (phase, moved_bytes) = match phase {
        PendingTransactionPhase::DataIn { moved_bytes, .. } => ("data_in", moved_bytes),
        PendingTransactionPhase::Call { received_bytes, .. } => ("call", received_bytes),
        PendingTransactionPhase::Server => ("server", 0),
        PendingTransactionPhase::DataOut { moved_bytes } => ("data_out", moved_bytes),
    };
    json_object! {
        age_ns: age_ns,
        phase: phase,
        moved_bytes: moved_bytes,
        #[serde(flatten)]
        slot: slot.map(|used| json_object! { session: HexBytes(&used.session).to_string(), slot: used.slot }),
    }
}

pub(crate) fn address(address: Address) -> Option<DisplayAsJsonString<Address>> {
    match address {
        Address::Unknown => None,
        Address::Ip(IpAddr::V4(_) | IpAddr::V6(_)) | Address::Lid(_) => Some(DisplayAsJsonString(address)),
    }
}

/// Returns the name, or the number if there is no name.
pub(crate) fn name_or_number(operation: ProcedureOrMainOperation) -> Cow<'static, str> {
    match operation {
        ProcedureOrMainOperation::Named(name) => name.into(),
        ProcedureOrMainOperation::Number(number) => number.to_string().into(),
    }
}

pub(crate) fn procedure(summary: &RpcSummary) -> Option<Cow<'static, str>> {
    let number = summary.procedure?;
    Some(summary.procedure_name.map_or_else(|| number.to_string().into(), Cow::from))
}

pub(crate) fn status(summary: &RpcSummary) -> Option<Cow<'static, str>> {
    summary.status.map(|status| status.name.map_or_else(|| status.number.to_string().into(), Cow::from))
}

pub(crate) fn rpc_status(status: RpcStatus) -> Option<&'static str> {
    match status {
        RpcStatus::Rpc(status) => status.name(),
        RpcStatus::RdmaError(code) => code.status_name(),
    }
}

/// Decoded messages of a Transaction. The buffer has the Call up to item `results` and part `call_parts`, and then the
/// Reply.
pub(crate) struct DecodedValuesJson<'t, 'a> {
    pub(super) buffer: &'t MessageFieldBuffer<'a>,
    pub(super) results: usize,
    pub(super) call_parts: usize,
}

impl<'t, 'a> DecodedValuesJson<'t, 'a> {
    /// Returns the arguments and the results of a procedure without operations.
    fn bodies(&self) -> [BufferedStructureFields<'t, 'a>; 2] {
        [(0, self.results), (self.results, usize::MAX)]
            .map(|(at, end)| BufferedStructureFields::new(&self.buffer.items, at, end))
    }

    /// Returns the operations of a COMPOUND, with their paths if `names` has them.
    fn operations(&self, names: Option<&'t FileNames>) -> impl Serialize + use<'t, 'a> {
        let buffer = self.buffer;
        let (calls, replies) = buffer.parts.split_at(self.call_parts.min(buffer.parts.len()));
        let names = move |at| names.filter(|_| at < calls.len()).map(|names| names.operation_paths(at));
        let entry = move |paths, call, reply| CompoundOperationJson { buffer, about: paths, call, reply };
        JsonArray(move || {
            (0..calls.len().max(replies.len())).flat_map(move |at| {
                let paths = names(at).unwrap_or_default();
                match (calls.get(at), replies.get(at)) {
                    (Some(call), Some(reply)) if !is_result_of(call, reply) => [
                        Some(entry(paths, Some(call), None)),
                        Some(entry(OperationPaths::default(), None, Some(reply))),
                    ],
                    (call, reply) => [Some(entry(paths, call, reply)), None],
                }
                .into_iter()
                .flatten()
            })
        })
    }

    /// Returns the operations as values, if it is a COMPOUND.
    #[cfg(feature = "parquet")]
    pub(crate) fn operation_values(&self) -> Option<Vec<Value>> {
        if self.buffer.parts.is_empty() {
            return None;
        }
        match serde_json::to_value(self.operations(None)) {
            Ok(Value::Array(entries)) => Some(entries),
            _ => None,
        }
    }

    /// Returns the arguments and results of a procedure without operations as values.
    #[cfg(feature = "parquet")]
    pub(crate) fn body_values(&self) -> [Value; 2] {
        self.bodies().map(|body| serde_json::to_value(body).unwrap_or_default())
    }
}

/// Returns `true` if a result belongs to the operation at the same index of the Call. The result of an operation with
/// an unknown number is ILLEGAL (RFC 8881 section 18.52).
fn is_result_of(call: &JsonCompoundOperationFields, reply: &JsonCompoundOperationFields) -> bool {
    const ILLEGAL: u64 = 10_044;
    call.number == reply.number || reply.number == ILLEGAL
}

/// Operation: arguments, then results. Results with the name of an argument are in an object `result`.
struct CompoundOperationJson<'t, 'a> {
    buffer: &'t MessageFieldBuffer<'a>,
    about: OperationPaths<'t>,
    call: Option<&'t JsonCompoundOperationFields>,
    reply: Option<&'t JsonCompoundOperationFields>,
}

impl Serialize for CompoundOperationJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = |operation: Option<&JsonCompoundOperationFields>| {
            let (at, end) = operation.map_or((0, 0), |operation| (operation.items.start, operation.items.end));
            BufferedStructureFields::new(&self.buffer.items, at, end)
        };
        let (arguments, results) = (members(self.call), members(self.reply));
        let mut map = serializer.serialize_map(None)?;
        if let Some(operation) = self.call.or(self.reply) {
            match operation.name {
                Some(name) => map.serialize_entry("op", name)?,
                None => map.serialize_entry("op", &DisplayAsJsonString(operation.number))?,
            }
        }
        match self.reply.and_then(|operation| operation.status) {
            Some((_, Some(name))) => map.serialize_entry("status", name)?,
            Some((number, None)) => map.serialize_entry("status", &DisplayAsJsonString(number))?,
            None => {}
        }
        for (key, path) in [("path", self.about.path), ("new_path", self.about.new_path)] {
            if let Some(path) = path {
                map.serialize_entry(key, &String::from_utf8_lossy(path))?;
            }
        }
        for argument in arguments {
            map.serialize_entry(argument.key, &argument)?;
        }
        let is_repeated = |result: &JsonMember<'_, '_>| arguments.has(result.key);
        for result in results.filter(|result| !is_repeated(result)) {
            map.serialize_entry(result.key, &result)?;
        }
        if { results }.any(|result| is_repeated(&result)) {
            let repeated = || results.filter(is_repeated).map(|result| (result.key, result));
            map.serialize_entry("result", &JsonMap(repeated))?;
        }
        map.end()
    }
}

/// Returns the object of a Call or Reply, if it was captured.
fn message_object(
    transaction: &Transaction,
    summary: &RpcSummary,
    kind: RpcMessageKind,
    has_iso: bool,
) -> Option<impl Serialize> {
    let record = transaction.message(kind)?;
    let iso = |time| has_iso.then_some(DisplayAsJsonString(IsoTimestamp(time)));
    let lost_copy = transaction.lost_copy().filter(|_| kind == RpcMessageKind::Call);
    Some(json_object! {
        frames: JsonArray(|| record.frames.iter().map(|frame| frame.0)),
        time: DisplayAsJsonString(record.time),
        #[serde(flatten)]
        time_iso: iso(record.time).map(|time| json_object! { time_iso: time }),
        end_time: DisplayAsJsonString(record.end_time),
        #[serde(flatten)]
        end_time_iso: iso(record.end_time).map(|time| json_object! { end_time_iso: time }),
        delivered: DisplayAsJsonString(record.delivery_evidence),
        copies: record.copies,
        resent: record.retransmissions,
        sends: record.sends,
        lists: record.chunk_lists().map(ChunkListCompleteness::key),
        rpcrdma: record.rpcrdma.map(|header| {
            json_object! {
                proc: DisplayAsJsonString(header.message_type),
                version: header.version,
                dialect: record.dialect().map(Dialect::key),
                credits: header.credit_word(),
            }
        }),
        length: inline_length(record),
        rpc_length: transaction.rpc_length(kind),
        undecoded: summary.decode_error(transaction, kind).map(|error| {
            json_object! { offset: error.at(), reason: error.reason().to_string() }
        }),
        // Evidence that an earlier copy of the Call was lost before the capture point.
        #[serde(flatten)]
        lost_copy: lost_copy.map(|copy| {
            json_object! { lost_copy: json_object! { evidence: copy.key(), ns: copy.ns() } }
        }),
    })
}

/// Returns the bytes of the RPC message that went inline.
pub(crate) fn inline_length(record: &CapturedMessage) -> Option<usize> {
    if record.is_rdma_error() {
        None
    } else if record.is_nomsg() {
        Some(0)
    } else {
        record.inline_length()
    }
}

fn chunk_list(chunks: &[Chunk], kind: ChunkKind) -> impl Serialize {
    JsonArray(move || chunks.iter().map(move |chunk| chunk_object(chunk, kind)))
}

/// Returns the object of a chunk: a Read chunk has a Position, the others have the lengths that the Reply returned.
fn chunk_object(chunk: &Chunk, kind: ChunkKind) -> impl Serialize {
    let is_read = kind == ChunkKind::Read;
    json_object! {
        #[serde(flatten)]
        position: is_read.then(|| json_object! { position: chunk.position.unwrap_or(0) }),
        segments: JsonArray(move || {
            chunk.segments.iter().map(move |segment| segment_object(segment, is_read))
        }),
        #[serde(flatten)]
        cut: chunk.is_cut.then(|| json_object! { cut: true }),
    }
}

fn segment_object(segment: &ChunkSegment, is_read: bool) -> impl Serialize {
    json_object! {
        handle: DisplayAsJsonString(segment.handle),
        offset: format!("0x{:016x}", segment.offset),
        length: segment.length,
        #[serde(flatten)]
        returned: (!is_read).then(|| json_object! { returned: segment.returned_length }),
        moved: segment.moved_coverage.total_bytes(),
        frames: segment.frames.map(|(first, last)| [first.0, last.0]),
    }
}

fn phases_object(phases: TransactionPhases) -> impl Serialize {
    json_object! {
        call: phases.call_ns,
        data_in: phases.data_in_ns,
        server: phases.server_ns,
        data_out: phases.data_out_ns,
        reply: phases.reply_ns,
        recovery: phases.recovery_ns,
    }
}
