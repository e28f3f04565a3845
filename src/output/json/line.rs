//! Keys of a line, in the order of the schema.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::chunk::{Chunk, ChunkSegment};
use nfsrdma_dissectors::flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_dissectors::flow::transaction::{
    CallDirection, CapturedMessage, ChunkListCompleteness, DeliveryEvidence, MissingPart, RpcMessageKind,
    TransactionPhases,
};
use nfsrdma_dissectors::flow::transaction_message_decoding::{
    ProcedureOrMainOperation, RpcStatus, RpcSummary,
};
use nfsrdma_dissectors::rpcrdma::{Dialect, RpcRdmaMessageType};
use nfsrdma_dissectors::xdr::XdrError;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
#[cfg(feature = "parquet")]
use serde_json::Value;

use super::SCHEMA;
use super::arguments_and_results::{BufferedStructureFields, object};
use super::field_buffer::{JsonCompoundOperationFields, MessageFieldBuffer};
use crate::output::PendingCallProgress;
use crate::output::units::IsoTimestamp;
use nfsrdma_analysis::call_session_slots::SessionId;
use nfsrdma_analysis::names::{FileNames, OperationPaths};

/// Path of a file; bytes that are not UTF-8 are replaced.
struct FilePathJson<'t>(&'t [u8]);

impl Serialize for FilePathJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

/// Value written as a JSON string.
pub(crate) struct DisplayAsJsonString<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for DisplayAsJsonString<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> Serialize for DisplayAsJsonString<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Number in hexadecimal with leading zeros, and its number of digits.
struct JsonHexNumber(u64, usize);

impl fmt::Display for JsonHexNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:0width$x}", self.0, width = self.1)
    }
}

/// Name, or the number if it has no name.
pub(crate) enum NameOrNumberJson {
    Known(&'static str),
    Number(u32),
}

impl From<NameOrNumberJson> for Cow<'_, str> {
    fn from(name: NameOrNumberJson) -> Self {
        match name {
            NameOrNumberJson::Known(name) => name.into(),
            NameOrNumberJson::Number(number) => number.to_string().into(),
        }
    }
}

impl From<ProcedureOrMainOperation> for NameOrNumberJson {
    fn from(operation: ProcedureOrMainOperation) -> Self {
        match operation {
            ProcedureOrMainOperation::Named(name) => Self::Known(name),
            ProcedureOrMainOperation::Number(number) => Self::Number(number),
        }
    }
}

impl fmt::Display for NameOrNumberJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl Serialize for NameOrNumberJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(name) => serializer.serialize_str(name),
            Self::Number(number) => serializer.collect_str(number),
        }
    }
}

/// JSON object of a line.
#[derive(Serialize)]
pub(super) struct TransactionJsonLine<'t, 'a> {
    schema: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    connection: u64,
    transport: DisplayAsJsonString<nfsrdma_dissectors::flow::transaction::ConnectionTransport>,
    client: Option<DisplayAsJsonString<Address>>,
    client_port: Option<u32>,
    server: Option<DisplayAsJsonString<Address>>,
    server_port: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlan_ids: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    direction: &'static str,
    xid: DisplayAsJsonString<JsonHexNumber>,
    program: Option<u32>,
    program_name: Option<&'static str>,
    version: Option<u32>,
    minor_version: Option<u32>,
    procedure: Option<NameOrNumberJson>,
    operation: Option<NameOrNumberJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<FilePathJson<'t>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_path: Option<FilePathJson<'t>>,
    operations: CompoundOperationsJson<'t, 'a>,
    #[serde(skip_serializing_if = "ProcedureBodyJson::is_empty")]
    arguments: ProcedureBodyJson<'t, 'a>,
    #[serde(skip_serializing_if = "ProcedureBodyJson::is_empty")]
    results: ProcedureBodyJson<'t, 'a>,
    status: Option<NameOrNumberJson>,
    rpc_status: Option<&'static str>,
    call: Option<MessageJson<'t>>,
    reply: Option<MessageJson<'t>>,
    read_chunks: ChunkListJson<'t>,
    write_chunks: ChunkListJson<'t>,
    reply_chunk: Option<MessageChunkJson<'t>>,
    #[serde(skip_serializing_if = "ChunkListJson::is_empty")]
    reply_read_chunks: ChunkListJson<'t>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    latency_ns: Option<u64>,
    phases_ns: Option<TransactionPhasesJson>,
    complete: bool,
    missing: MissingPartCodes,
    findings: Vec<FindingJson<'t>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<DisplayAsJsonString<SessionHex>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
}

/// Conformance finding.
#[derive(Serialize)]
pub(in crate::output) struct FindingJson<'t> {
    rule: &'static str,
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<&'t str>,
    text: &'t str,
    side: &'static str,
    address: Option<DisplayAsJsonString<Address>>,
    frame: Option<u64>,
}

impl<'t> From<&'t Finding> for FindingJson<'t> {
    fn from(finding: &'t Finding) -> Self {
        Self {
            rule: finding.rule.id,
            severity: finding.severity.name(),
            known: finding.known.as_deref(),
            text: &finding.text,
            side: finding.side.name(),
            address: address(finding.endpoint().address),
            frame: finding.frames.first().map(|frame| frame.0),
        }
    }
}

impl<'t, 'a> TransactionJsonLine<'t, 'a> {
    /// Adds the findings of the Transaction.
    pub(super) fn with_findings(mut self, findings: &'t [Finding]) -> Self {
        self.findings = findings.iter().map(FindingJson::from).collect();
        self
    }

    /// Creates a line. The tape has the Call up to item `results` and part `call_parts`, and then the Reply. `has_iso`
    /// adds the times of messages in ISO 8601.
    pub(super) fn new(
        transaction: &'t Transaction,
        facts: &RpcSummary,
        names: &'t FileNames,
        tape: &'t MessageFieldBuffer<'a>,
        (results, call_parts): (usize, usize),
        has_iso: bool,
    ) -> Self {
        let OperationPaths { path, new_path, .. } = names.paths();
        let connection = &transaction.connection;
        let missing = facts.missing(transaction);
        let message = |which| MessageJson::from_record(transaction, facts, which, has_iso);
        let is_compound = !tape.parts.is_empty();
        let body = |at, end| {
            ProcedureBodyJson(BufferedStructureFields::new(
                &tape.items,
                at,
                if is_compound { at } else { end },
            ))
        };
        Self {
            schema: SCHEMA,
            kind: "transaction",
            index: Some(transaction.index),
            connection: connection.number,
            transport: DisplayAsJsonString(connection.transport),
            client: address(connection.client.address),
            client_port: connection.client.port,
            server: address(connection.server.address),
            server_port: connection.server.port,
            vlan_ids: connection.tenant.vlan_ids().collect(),
            vni: connection.tenant.network_identifier(),
            direction: match transaction.direction {
                CallDirection::Forward => "forward",
                CallDirection::Reverse => "reverse",
            },
            xid: DisplayAsJsonString(JsonHexNumber(transaction.xid.0.into(), 8)),
            program: facts.program.map(|program| program.0),
            program_name: facts.program_name(),
            version: facts.version,
            minor_version: facts.minor_version,
            procedure: procedure(facts),
            operation: facts.operation.map(NameOrNumberJson::from),
            path: path.map(FilePathJson),
            new_path: new_path.map(FilePathJson),
            operations: CompoundOperationsJson { tape, names: Some(names), call_parts },
            arguments: body(0, results),
            results: body(results, usize::MAX),
            status: status(facts),
            rpc_status: facts.rpc_status.and_then(rpc_status),
            call: message(RpcMessageKind::Call),
            reply: message(RpcMessageKind::Reply),
            read_chunks: ChunkListJson(&transaction.read_chunks, JsonChunkKind::Read),
            write_chunks: ChunkListJson(&transaction.write_chunks, JsonChunkKind::Write),
            reply_chunk: transaction
                .reply_chunk
                .as_ref()
                .map(|chunk| MessageChunkJson(chunk, JsonChunkKind::Write)),
            reply_read_chunks: ChunkListJson(&transaction.reply_read_chunks, JsonChunkKind::Read),
            retry_of: transaction.retry_of,
            done: transaction.is_done,
            latency_ns: transaction.latency_ns(),
            phases_ns: transaction.phases().map(TransactionPhasesJson::from),
            complete: missing.is_empty(),
            missing: MissingPartCodes(missing),
            findings: Vec::new(),
            age_ns: None,
            phase: None,
            moved_bytes: None,
            session: None,
            slot: None,
        }
    }
}

/// Session id in hexadecimal.
#[derive(Clone, Copy, Debug)]
struct SessionHex(SessionId);

impl fmt::Display for SessionHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TransactionJsonLine<'_, '_> {
    /// Converts the line to that of a pending Call, which has no index yet.
    pub(super) fn into_pending(
        self,
        PendingCallProgress { age_ns, phase, slot }: PendingCallProgress,
    ) -> Self {
        let (phase, moved_bytes) = match phase {
            PendingTransactionPhase::DataIn { moved_bytes, .. } => ("data_in", moved_bytes),
            PendingTransactionPhase::Server => ("server", 0),
            PendingTransactionPhase::DataOut { moved_bytes } => ("data_out", moved_bytes),
        };
        Self {
            kind: "pending",
            index: None,
            age_ns: Some(age_ns),
            phase: Some(phase),
            moved_bytes: Some(moved_bytes),
            session: slot.map(|used| DisplayAsJsonString(SessionHex(used.session))),
            slot: slot.map(|used| used.slot),
            ..self
        }
    }
}

pub(crate) fn address(address: Address) -> Option<DisplayAsJsonString<Address>> {
    match address {
        Address::Unknown => None,
        Address::Ip(IpAddr::V4(_) | IpAddr::V6(_)) | Address::Lid(_) => Some(DisplayAsJsonString(address)),
    }
}

/// Returns the procedure.
pub(crate) fn procedure(facts: &RpcSummary) -> Option<NameOrNumberJson> {
    let number = facts.procedure?;
    Some(facts.procedure_name.map_or(NameOrNumberJson::Number(number), NameOrNumberJson::Known))
}

/// Returns the status of the procedure.
pub(crate) fn status(facts: &RpcSummary) -> Option<NameOrNumberJson> {
    let status = facts.status?;
    Some(status.name.map_or(NameOrNumberJson::Number(status.number), NameOrNumberJson::Known))
}

/// Returns the status of RPC.
pub(crate) fn rpc_status(status: RpcStatus) -> Option<&'static str> {
    match status {
        RpcStatus::Rpc(status) => status.name(),
        RpcStatus::RdmaError(code) => code.status_name(),
    }
}

/// Operations of a COMPOUND.
struct CompoundOperationsJson<'t, 'a> {
    tape: &'t MessageFieldBuffer<'a>,
    /// Paths of the operations, if selected.
    names: Option<&'t FileNames>,
    call_parts: usize,
}

/// Decoded messages of a Transaction as JSON values.
#[cfg(feature = "parquet")]
pub(crate) struct DecodedValuesJson<'t, 'a> {
    pub(super) tape: &'t MessageFieldBuffer<'a>,
    pub(super) results: usize,
    pub(super) call_parts: usize,
}

#[cfg(feature = "parquet")]
impl DecodedValuesJson<'_, '_> {
    /// Returns the operations, if it is a COMPOUND.
    pub(crate) fn entries(&self) -> Option<Vec<Value>> {
        let Self { tape, call_parts, .. } = *self;
        let list = || serde_json::to_value(CompoundOperationsJson { tape, names: None, call_parts });
        match (!tape.parts.is_empty()).then(list)? {
            Ok(Value::Array(entries)) => Some(entries),
            _ => None,
        }
    }

    /// Returns the arguments and results of a procedure without operations.
    pub(crate) fn bodies(&self) -> (Value, Value) {
        let items = &self.tape.items;
        let value = |at, end| {
            serde_json::to_value(ProcedureBodyJson(BufferedStructureFields::new(items, at, end)))
                .unwrap_or_default()
        };
        (value(0, self.results), value(self.results, usize::MAX))
    }
}

/// Returns `true` if a result belongs to the operation at the same index of the Call. The result of an operation with
/// an unknown number is ILLEGAL (RFC 8881 section 18.52).
fn is_result_of(call: &JsonCompoundOperationFields, reply: &JsonCompoundOperationFields) -> bool {
    const ILLEGAL: u64 = 10_044;
    call.number == reply.number || reply.number == ILLEGAL
}

impl Serialize for CompoundOperationsJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (calls, replies) = self.tape.parts.split_at(self.call_parts.min(self.tape.parts.len()));
        let names = |at| self.names.filter(|_| at < calls.len()).map(|names| names.operation_paths(at));
        let about = |at| names(at).unwrap_or_default();
        let entry = |about, call, reply| CompoundOperationJson { tape: self.tape, about, call, reply };
        serializer.collect_seq((0..calls.len().max(replies.len())).flat_map(|at| {
            match (calls.get(at), replies.get(at)) {
                (Some(call), Some(reply)) if !is_result_of(call, reply) => [
                    Some(entry(about(at), Some(call), None)),
                    Some(entry(OperationPaths::default(), None, Some(reply))),
                ],
                (call, reply) => [Some(entry(about(at), call, reply)), None],
            }
            .into_iter()
            .flatten()
        }))
    }
}

/// Operation: arguments, then results. Results with the name of an argument are in an object `result`.
struct CompoundOperationJson<'t, 'a> {
    tape: &'t MessageFieldBuffer<'a>,
    about: OperationPaths<'t>,
    call: Option<&'t JsonCompoundOperationFields>,
    reply: Option<&'t JsonCompoundOperationFields>,
}

impl Serialize for CompoundOperationJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = |part: Option<&JsonCompoundOperationFields>| {
            let (at, end) = part.map_or((0, 0), |part| (part.items.start, part.items.end));
            BufferedStructureFields::new(&self.tape.items, at, end)
        };
        let (arguments, results) = (members(self.call), members(self.reply));
        let mut map = serializer.serialize_map(None)?;
        if let Some(part) = self.call.or(self.reply) {
            match part.name {
                Some(name) => map.serialize_entry("op", name)?,
                None => map.serialize_entry("op", &DisplayAsJsonString(part.number))?,
            }
        }
        match self.reply.and_then(|part| part.status) {
            Some((_, Some(name))) => map.serialize_entry("status", name)?,
            Some((number, None)) => map.serialize_entry("status", &DisplayAsJsonString(number))?,
            None => {}
        }
        for (key, path) in [("path", self.about.path), ("new_path", self.about.new_path)] {
            if let Some(path) = path {
                map.serialize_entry(key, &FilePathJson(path))?;
            }
        }
        for argument in arguments {
            map.serialize_entry(argument.key, &argument)?;
        }
        let mut repeats = false;
        for result in results {
            if arguments.has(result.key) {
                repeats = true;
            } else {
                map.serialize_entry(result.key, &result)?;
            }
        }
        if repeats {
            map.serialize_entry("result", &ResultsSharingArgumentNamesJson { arguments, results })?;
        }
        map.end()
    }
}

/// Results with the name of an argument.
struct ResultsSharingArgumentNamesJson<'t, 'a> {
    arguments: BufferedStructureFields<'t, 'a>,
    results: BufferedStructureFields<'t, 'a>,
}

impl Serialize for ResultsSharingArgumentNamesJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for result in self.results.filter(|result| self.arguments.has(result.key)) {
            map.serialize_entry(result.key, &result)?;
        }
        map.end()
    }
}

/// Arguments or results of a procedure without operations.
struct ProcedureBodyJson<'t, 'a>(BufferedStructureFields<'t, 'a>);

impl ProcedureBodyJson<'_, '_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ProcedureBodyJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object(self.0, serializer)
    }
}

/// Call or Reply.
#[derive(Serialize)]
struct MessageJson<'t> {
    frames: FrameNumbersJson<'t>,
    time: DisplayAsJsonString<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    end_time: DisplayAsJsonString<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    delivered: DisplayAsJsonString<DeliveryEvidence>,
    copies: u32,
    resent: u32,
    sends: u32,
    lists: Option<&'static str>,
    rpcrdma: Option<RpcRdmaJson>,
    length: Option<usize>,
    rpc_length: Option<u64>,
    undecoded: Option<DecodingErrorJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_copy: Option<LostOriginalCallJson>,
}

/// Evidence that an earlier copy of a Call was lost before the capture point.
#[derive(Serialize)]
struct LostOriginalCallJson {
    evidence: &'static str,
    ns: u64,
}

#[derive(Serialize)]
struct RpcRdmaJson {
    proc: DisplayAsJsonString<RpcRdmaMessageType>,
    version: u32,
    dialect: Option<&'static str>,
    credits: Option<u32>,
}

struct FrameNumbersJson<'t>(&'t [FrameNumber]);

impl Serialize for FrameNumbersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|frame| frame.0))
    }
}

impl<'t> MessageJson<'t> {
    fn from_record(
        transaction: &'t Transaction,
        facts: &RpcSummary,
        which: RpcMessageKind,
        has_iso: bool,
    ) -> Option<Self> {
        let record = transaction.message(which)?;
        Some(Self {
            frames: FrameNumbersJson(&record.frames),
            time: DisplayAsJsonString(record.time),
            time_iso: has_iso.then_some(DisplayAsJsonString(IsoTimestamp(record.time))),
            end_time: DisplayAsJsonString(record.end_time),
            end_time_iso: has_iso.then_some(DisplayAsJsonString(IsoTimestamp(record.end_time))),
            delivered: DisplayAsJsonString(record.delivery_evidence),
            copies: record.copies,
            resent: record.retransmissions,
            sends: record.sends,
            lists: record.chunk_lists().map(ChunkListCompleteness::key),
            rpcrdma: record.rpcrdma.map(|words| RpcRdmaJson {
                proc: DisplayAsJsonString(words.message_type),
                version: words.version,
                dialect: record.dialect().map(Dialect::key),
                credits: words.credit_word(),
            }),
            length: inline_length(record),
            rpc_length: transaction.rpc_length(which),
            undecoded: facts.decode_error(transaction, which).map(DecodingErrorJson::from),
            lost_copy: transaction
                .lost_copy()
                .filter(|_| which == RpcMessageKind::Call)
                .map(|lost| LostOriginalCallJson { evidence: lost.key(), ns: lost.ns() }),
        })
    }
}

/// Offset at which decoding of a captured message failed, and the reason.
#[derive(Serialize)]
struct DecodingErrorJson {
    offset: usize,
    reason: String,
}

impl From<XdrError> for DecodingErrorJson {
    fn from(error: XdrError) -> Self {
        Self { offset: error.at(), reason: error.reason().to_string() }
    }
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

/// Kind of chunk by its keys: Read chunks have a Position, the others the lengths that the Reply returned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonChunkKind {
    Read,
    Write,
}

struct ChunkListJson<'t>(&'t [Chunk], JsonChunkKind);

impl ChunkListJson<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ChunkListJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|chunk| MessageChunkJson(chunk, self.1)))
    }
}

struct MessageChunkJson<'t>(&'t Chunk, JsonChunkKind);

impl Serialize for MessageChunkJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(chunk, kind) = *self;
        let mut map = serializer.serialize_map(None)?;
        if kind == JsonChunkKind::Read {
            map.serialize_entry("position", &chunk.position.unwrap_or(0))?;
        }
        map.serialize_entry("segments", &ChunkSegmentsJson(&chunk.segments, kind))?;
        if chunk.is_cut {
            map.serialize_entry("cut", &true)?;
        }
        map.end()
    }
}

struct ChunkSegmentsJson<'t>(&'t [ChunkSegment], JsonChunkKind);

impl Serialize for ChunkSegmentsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|segment| SegmentJson {
            handle: DisplayAsJsonString(JsonHexNumber(segment.handle.0.into(), 8)),
            offset: DisplayAsJsonString(JsonHexNumber(segment.offset, 16)),
            length: segment.length,
            returned: (self.1 == JsonChunkKind::Write).then_some(segment.returned_length),
            moved: segment.moved_coverage.total_bytes(),
            frames: segment.frames.map(|(first, last)| [first.0, last.0]),
        }))
    }
}

#[derive(Serialize)]
struct SegmentJson {
    handle: DisplayAsJsonString<JsonHexNumber>,
    offset: DisplayAsJsonString<JsonHexNumber>,
    length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<Option<u32>>,
    moved: u64,
    frames: Option<[u64; 2]>,
}

#[derive(Serialize)]
struct TransactionPhasesJson {
    call: u64,
    data_in: u64,
    server: u64,
    data_out: u64,
    reply: u64,
    recovery: u64,
}

impl From<TransactionPhases> for TransactionPhasesJson {
    fn from(phases: TransactionPhases) -> Self {
        let TransactionPhases {
            call_ns: call,
            data_in_ns: data_in,
            server_ns: server,
            data_out_ns: data_out,
            reply_ns: reply,
            recovery_ns: recovery,
        } = phases;
        Self { call, data_in, server, data_out, reply, recovery }
    }
}

/// Missing parts by code.
struct MissingPartCodes(Vec<MissingPart>);

impl Serialize for MissingPartCodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(DisplayAsJsonString))
    }
}
