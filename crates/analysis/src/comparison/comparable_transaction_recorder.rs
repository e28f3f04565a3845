//! The recorder makes a [`ComparableTransaction`] of a Transaction, with every field of its Call and Reply.

use std::fmt::Write as _;
use std::ops::Range;
use std::rc::Rc;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field::{self, FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::rpcrdma::RpcRdmaFixedFields;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::ChunkSegment;
use nfsrdma_flow::read_list::ReadList;
use nfsrdma_flow::transaction::{CapturedMessage, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::{
    ProcedureOrMainOperation, RpcStatus, RpcSummary, TransactionMessages,
};
use rustc_hash::FxHashMap;

use super::difference::{DifferenceKind, TransactionCaptureLocation};
use super::field_equality::{self, FieldEqualityRequirement, requirement_of_field};
use super::field_path::FieldPath;
use super::record::{
    ComparableMessage, ComparableMessageField, ComparableTransaction, ComparedChunk, ComparedChunkKind,
    ComparedChunkSegment, ComparedFieldValue, ComparedOperationOrHeaders, MAX_VALUE_BYTES, MaskBitNames,
    MessageDecodeCompleteness, RecordStringInterner, hash,
};

/// Maximum length of a READ_PLUS hole hashed as zeros, in bytes; of a longer one the length is hashed.
const MAX_HASHED_HOLE_BYTES: u64 = 16 << 20;

/// A field of a message with its location.
#[derive(Clone, Debug)]
pub struct LocatedField<'a> {
    /// Index and name of its section.
    pub section: (usize, Rc<str>),
    /// Path of the field.
    pub path: Rc<FieldPath>,
    /// Byte range in the message.
    pub bytes: Range<usize>,
    /// Value of the field.
    pub value: FieldValue<'a>,
}

/// A recorder of Transactions. Records share the paths of fields and the names of operations.
#[derive(Debug)]
pub struct ComparableTransactionRecorder {
    /// Each path in the descriptions of messages, by parent and field; the first two are the roots of Calls and
    /// Replies.
    paths: Vec<Rc<FieldPath>>,
    children: FxHashMap<(u32, *const FieldDefinition), u32>,
    words: RecordStringInterner,
    data: Rc<FieldPath>,
    fill: Rc<FieldPath>,
    other_xid: Rc<FieldPath>,
}

const PADDING_REASON: &str = "XDR padding has no meaning";

const ROOT_PATHS: [u32; 2] = [0, 1];

impl Default for ComparableTransactionRecorder {
    fn default() -> Self {
        let root = Rc::new(FieldPath::new("", "", FieldEqualityRequirement::Equal(DifferenceKind::Argument)));
        let data = Rc::new(FieldPath::new(
            field_labels::DATA,
            field_names::NFS_DATA,
            FieldEqualityRequirement::Equal(DifferenceKind::Data),
        ));
        let fill = Rc::new(FieldPath::new("fill", "", FieldEqualityRequirement::Varies(PADDING_REASON)));
        let other_xid = Rc::new(FieldPath::new(
            RpcRdmaFixedFields::FIELDS.rdma_xid.label,
            field_names::RPCORDMA_XID,
            FieldEqualityRequirement::Equal(DifferenceKind::Header),
        ));
        Self {
            paths: vec![Rc::clone(&root), root],
            children: FxHashMap::default(),
            words: RecordStringInterner::default(),
            data,
            fill,
            other_xid,
        }
    }
}

impl ComparableTransactionRecorder {
    /// Returns the index of the path of a field below another. The descriptions limit their number.
    fn child(&mut self, parent: u32, field: &'static FieldDefinition, is_call: bool) -> u32 {
        let next = self.paths.len() as u32;
        let id = *self.children.entry((parent, std::ptr::from_ref(field))).or_insert(next);
        if id == next {
            let parent_path = self.paths.get(parent as usize).map_or("", |path| &path.text);
            let dot = if parent_path.is_empty() { "" } else { "." };
            let text = format!("{parent_path}{dot}{}", field.label);
            let name = if field.name.is_empty() { field.label } else { field.name };
            let requirement = requirement_of_field(name, parent_path, is_call);
            self.paths.push(Rc::new(FieldPath::new(text, name, requirement)));
        }
        id
    }

    /// Returns the word, shared.
    pub fn word(&mut self, word: &str) -> Rc<str> {
        self.words.share(word)
    }

    /// Returns the record of a Transaction.
    pub fn record(&mut self, transaction: &Transaction) -> ComparableTransaction {
        transaction.with_messages(|messages| {
            let summary = messages.summary();
            let (call, call_spans) = self.message(transaction, messages, RpcMessageKind::Call, &summary);
            let (reply, _) = self.message(transaction, messages, RpcMessageKind::Reply, &summary);
            let first = |message: &CapturedMessage| message.frames.first().copied();
            let last = |message: &CapturedMessage| message.frames.last().copied();
            let (sent, received) = (transaction.call.as_ref(), transaction.reply.as_ref());
            let end = received.and_then(last).or(sent.and_then(last));
            let (title, class) = (title(&summary, true), title(&summary, false));
            let hash_of_call = |fields| call.as_ref().map_or(0, |call| arguments(call, fields));
            ComparableTransaction {
                location: TransactionCaptureLocation {
                    index: transaction.index,
                    call: sent.and_then(first),
                    reply: received.and_then(first),
                },
                end_frame: end.unwrap_or(FrameNumber(0)).0,
                title: self.word(&title),
                class: self.word(&class),
                minor_version: summary.minor_version,
                replayed_step: None,
                is_racing: false,
                signature: signature(&class),
                arguments: hash_of_call(PairingHashFields::All),
                subject_hash: hash_of_call(PairingHashFields::NamesOffsetsCounts),
                is_null: summary.procedure == Some(0),
                is_connection_setup: summary.procedure == Some(0) || summary.program == Some(Program::PORTMAP),
                chunks: chunks(transaction, call.as_ref(), reply.as_ref(), &call_spans),
                call,
                reply,
                missing: summary.missing(transaction).iter().map(ToString::to_string).collect(),
                findings: Vec::new(),
                status: self.word(&status(&summary)),
            }
        })
    }

    /// Returns the record of a Reply outside a capture, as in a replay. `cursor` is at the beginning of the RPC
    /// message, with its chunks; field locations go to `located_fields`.
    pub fn reply<'a>(
        &mut self,
        procedure: Option<Procedure>,
        mut cursor: Cursor<'a>,
        located_fields: Option<&mut Vec<LocatedField<'a>>>,
    ) -> ComparableMessage {
        let length = cursor.length() as u64;
        let mut listener = ComparableFieldObserver::new(self, false, cursor.rest());
        listener.places = located_fields;
        let decoded = rpc::RpcMsg::decode(&mut cursor, &mut listener).and_then(|message| {
            let is_done = message.reply().is_some_and(|reply| reply.status().is_success());
            match procedure.filter(|_| is_done) {
                Some(procedure) => procedure.results(&mut cursor, &mut listener),
                None => Ok(()),
            }
        });
        let (sections, spans) = listener.finish();
        let completeness = match decoded {
            Ok(()) => MessageDecodeCompleteness::Complete,
            Err(error) if error.is_cut() => MessageDecodeCompleteness::Truncated,
            Err(_) => MessageDecodeCompleteness::Undecoded,
        };
        let varying = spans.iter().map(|(_, length)| length).sum();
        ComparableMessage { sections, completeness, proc: None, length, varying }
    }

    fn message(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        kind: RpcMessageKind,
        summary: &RpcSummary,
    ) -> (Option<ComparableMessage>, Vec<(usize, u64)>) {
        let Some(sent) = transaction.message(kind) else { return (None, Vec::new()) };
        let rpc = messages.rpc_bytes(kind).map_or(&[][..], |(bytes, _)| bytes);
        let mut listener = ComparableFieldObserver::new(self, kind == RpcMessageKind::Call, rpc);
        // A damaged header has no chunks to compare.
        let _ = messages.observe_rpcrdma(kind, &mut listener);
        let decoded = messages.observe_rpc(kind, &mut listener);
        let (sections, mut spans) = listener.finish();
        let is_described =
            summary.procedure_name.is_some() || kind == RpcMessageKind::Reply && summary.program.is_none();
        let end = match decoded {
            Ok(()) if is_described => MessageDecodeCompleteness::Complete,
            Ok(()) => MessageDecodeCompleteness::Undecoded,
            Err(error) if error.is_cut() => MessageDecodeCompleteness::Truncated,
            Err(_) => MessageDecodeCompleteness::Undecoded,
        };
        let proc = sent.rpcrdma.map(|header| self.word(&header.message_type.to_string()));
        let varying = spans.iter().map(|(_, length)| length).sum();
        // Positions count from the start of the RPC message.
        let base = if sent.is_nomsg() { 0 } else { sent.rpc_offset.unwrap_or(0) };
        spans.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(base));
        let message = ComparableMessage {
            sections,
            completeness: end,
            proc,
            length: sent.inline_length().unwrap_or(0) as u64,
            varying,
        };
        (Some(message), spans)
    }
}

/// Returns the title with or without the minor version: `NFS 4.2 READ`.
fn title(summary: &RpcSummary, has_minor: bool) -> String {
    let mut title = match (summary.program_name(), summary.program) {
        (Some(name), _) => name.to_owned(),
        (None, Some(program)) => format!("program {}", program.0),
        (None, None) => return "Reply without its call".to_owned(),
    };
    if let Some(version) = summary.version {
        let _ = write!(title, " {version}");
    }
    if let Some(minor) = summary.minor_version.filter(|_| has_minor) {
        let _ = write!(title, ".{minor}");
    }
    match (summary.operation, summary.procedure) {
        (Some(ProcedureOrMainOperation::Named(name)), _) => title + " " + name,
        (Some(ProcedureOrMainOperation::Number(number)), _) => format!("{title} operation {number}"),
        (None, Some(number)) => format!("{title} procedure {number}"),
        (None, None) => title,
    }
}

fn status(summary: &RpcSummary) -> String {
    match (summary.rpc_status, summary.status) {
        (Some(RpcStatus::Rpc(status)), Some(procedure)) if status.is_success() => {
            procedure.name.map_or_else(|| procedure.number.to_string(), str::to_owned)
        }
        (Some(RpcStatus::Rpc(status)), _) => status.to_string(),
        (Some(RpcStatus::RdmaError(code)), _) => format!("RDMA_ERROR:{code}"),
        (None, _) => "-".to_owned(),
    }
}

/// Returns the signature of a class; READ_PLUS has that of READ, as they may be paired.
pub fn signature(class: &str) -> u64 {
    let class = match class.strip_suffix(enumerator_names::READ_PLUS) {
        Some(program) => &format!("{program}{}", enumerator_names::READ),
        None => class,
    };
    hash(class.as_bytes()) as u64
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PairingHashFields {
    /// All fields that must be equal.
    All,
    /// The fields that must also be equal between minor versions of NFSv4.
    InAnyMinorVersion,
    /// Names, offsets and counts.
    NamesOffsetsCounts,
}

pub(super) fn arguments(call: &ComparableMessage, fields: PairingHashFields) -> u64 {
    let mut text = String::new();
    for entry in call.fields() {
        let counts = match entry.path.class {
            class if class.is_subject() => true,
            FieldEqualityRequirement::Equal(_)
            | FieldEqualityRequirement::Racing(_)
            | FieldEqualityRequirement::TransportDependent(_) => match fields {
                PairingHashFields::All => true,
                PairingHashFields::InAnyMinorVersion => {
                    field_equality::follows_minor_version(entry.path.field).is_none()
                }
                PairingHashFields::NamesOffsetsCounts => false,
            },
            FieldEqualityRequirement::Identity(_) | FieldEqualityRequirement::Varies(_) => false,
        };
        if counts {
            let _ = write!(text, "{} ", entry.datum);
        }
    }
    hash(text.as_bytes()) as u64
}

fn chunks(
    transaction: &Transaction,
    call: Option<&ComparableMessage>,
    reply: Option<&ComparableMessage>,
    call_spans: &[(usize, u64)],
) -> Vec<ComparedChunk> {
    let compared_segment = |segment: &ChunkSegment| ComparedChunkSegment {
        length: segment.length.into(),
        returned: segment.returned_length.map(u64::from),
    };
    let new_chunk = |kind: ComparedChunkKind, segments: &[ChunkSegment], varying: u64| ComparedChunk {
        kind,
        segments: segments.iter().map(compared_segment).collect(),
        varying,
    };
    let nomsg_varying = |record: Option<&CapturedMessage>, message: Option<&ComparableMessage>| {
        message.filter(|_| record.is_some_and(CapturedMessage::is_nomsg)).map_or(0, |message| message.varying)
    };
    let mut chunks = Vec::new();
    // The order of a Read list has no meaning.
    for read in ReadList::new(&transaction.read_chunks).positions() {
        let position = read.position().unwrap_or(0);
        let varying_before =
            call_spans.iter().filter(|(at, _)| *at < position as usize).map(|(_, length)| length).sum();
        let varying = if position == 0 { nomsg_varying(transaction.call.as_ref(), call) } else { 0 };
        let kind = ComparedChunkKind::Read(position.into(), varying_before);
        chunks.push(ComparedChunk { kind, segments: read.segments().map(compared_segment).collect(), varying });
    }
    let writes = transaction.write_chunks.iter();
    chunks.extend(writes.map(|chunk| new_chunk(ComparedChunkKind::Write, &chunk.segments, 0)));
    let varying = nomsg_varying(transaction.reply.as_ref(), reply);
    let reply_chunk = transaction.reply_chunk.iter();
    chunks.extend(reply_chunk.map(|chunk| new_chunk(ComparedChunkKind::Reply, &chunk.segments, varying)));
    let reply_reads = ReadList::new(&transaction.reply_read_chunks);
    chunks.extend(reply_reads.positions().map(|read| ComparedChunk {
        kind: ComparedChunkKind::ReplyRead(read.position().unwrap_or(0).into()),
        segments: read.segments().map(compared_segment).collect(),
        varying: 0,
    }));
    chunks
}

/// The data of READ_PLUS parts, hashed like that of a READ.
struct ReadPlusDataHasher {
    hasher: twox_hash::xxhash3_128::Hasher,
    length: u64,
    is_hole: bool,
}

struct ComparableFieldObserver<'r, 'a> {
    is_call: bool,
    /// Receives the locations of fields, if requested.
    places: Option<&'r mut Vec<LocatedField<'a>>>,
    recorder: &'r mut ComparableTransactionRecorder,
    sections: Vec<ComparedOperationOrHeaders>,
    /// Parent paths of the current path.
    stack: Vec<u32>,
    above: u32,
    /// Positions and lengths of identities and varying fields.
    spans: Vec<(usize, u64)>,
    plus: Option<ReadPlusDataHasher>,
    /// The XID of the RPC-over-RDMA header.
    rdma_xid: Option<u64>,
    /// The RPC message, to check its padding.
    rpc: &'a [u8],
}

impl<'r, 'a> ComparableFieldObserver<'r, 'a> {
    fn new(recorder: &'r mut ComparableTransactionRecorder, is_call: bool, rpc: &'a [u8]) -> Self {
        Self {
            is_call,
            places: None,
            sections: vec![ComparedOperationOrHeaders::default()],
            stack: Vec::new(),
            above: ROOT_PATHS[usize::from(!is_call)],
            spans: Vec::new(),
            plus: None,
            rdma_xid: None,
            rpc,
            recorder,
        }
    }

    fn finish(mut self) -> (Vec<ComparedOperationOrHeaders>, Vec<(usize, u64)>) {
        self.finish_read_plus();
        (self.sections, self.spans)
    }

    /// Adds the data of a READ_PLUS as one hash, like that of a READ.
    fn finish_read_plus(&mut self) {
        let Some(plus) = self.plus.take() else { return };
        let entry = ComparableMessageField {
            path: Rc::clone(&self.recorder.data),
            datum: ComparedFieldValue::Digest(plus.length, plus.hasher.finish_128()),
        };
        if let Some(section) = self.sections.last_mut() {
            section.entries.push(entry);
        }
    }

    fn visit_read_plus(&mut self, field: &'static FieldDefinition, value: FieldValue<'_>) {
        if self.sections.last().is_none_or(|section| !section.is_operation(Operation::READ_PLUS)) {
            return;
        }
        let plus = self.plus.get_or_insert_with(|| ReadPlusDataHasher {
            hasher: twox_hash::xxhash3_128::Hasher::new(),
            length: 0,
            is_hole: false,
        });
        match (field.name, value) {
            (field_names::NFS_CONTENT_TYPE, FieldValue::Enum(content_type, _)) => plus.is_hole = content_type == 1,
            (field_names::NFS_DATA, FieldValue::Bytes(bytes)) => {
                plus.hasher.write(bytes);
                plus.length += bytes.len() as u64;
            }
            (field_names::NFS_LENGTH4, FieldValue::Unsigned(length)) if plus.is_hole => {
                plus.length = plus.length.saturating_add(length);
                if length <= MAX_HASHED_HOLE_BYTES {
                    let zeros = [0; 4096];
                    let mut remaining = length as usize;
                    while remaining > 0 {
                        let count = remaining.min(zeros.len());
                        plus.hasher.write(&zeros[..count]);
                        remaining -= count;
                    }
                } else {
                    plus.hasher.write(&length.to_be_bytes());
                }
            }
            _ => {}
        }
    }

    fn datum(path: &FieldPath, field: &'static FieldDefinition, value: FieldValue<'_>) -> ComparedFieldValue {
        match value {
            FieldValue::Unsigned(number) => ComparedFieldValue::Number(number),
            FieldValue::Enum(_, Some(name)) => ComparedFieldValue::Named(name),
            FieldValue::Enum(number, None) => ComparedFieldValue::Number(number),
            FieldValue::Signed(number) => ComparedFieldValue::Signed(number),
            FieldValue::Bool(yes) => ComparedFieldValue::Bool(yes),
            FieldValue::Flags(mask, names) => ComparedFieldValue::Flags(mask, MaskBitNames(names)),
            FieldValue::Bytes(bytes) | FieldValue::Text(bytes) | FieldValue::Chunk(_, Some(bytes)) => {
                let is_data = path.class == FieldEqualityRequirement::Equal(DifferenceKind::Data);
                if is_data {
                    ComparedFieldValue::Digest(bytes.len() as u64, hash(bytes))
                } else if field.kind == field::FieldKind::Text && bytes.len() <= MAX_VALUE_BYTES {
                    ComparedFieldValue::Text(bytes.into())
                } else {
                    ComparedFieldValue::from_bytes(bytes)
                }
            }
            FieldValue::Chunk(length, None) => ComparedFieldValue::Unknown(length.into()),
            FieldValue::Ipv4(address) => ComparedFieldValue::Text(address.to_string().into_bytes().into()),
            FieldValue::Ipv6(address) => ComparedFieldValue::Text(address.to_string().into_bytes().into()),
            FieldValue::Ethernet(address) => ComparedFieldValue::Bytes(address.into()),
        }
    }
}

impl<'a> FieldObserver<'a> for ComparableFieldObserver<'_, 'a> {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        self.stack.push(self.above);
        let is_outermost = self.stack.len() == 1;
        if is_outermost && !field_names::is_of_rpc(field.name) {
            self.finish_read_plus();
            let name = self.recorder.word(field.label);
            self.sections.push(ComparedOperationOrHeaders { name, entries: Vec::new() });
        } else if !is_outermost {
            self.above = self.recorder.child(self.above, field, self.is_call);
        }
    }

    fn leave(&mut self, _: usize) {
        if let Some(parent) = self.stack.pop() {
            self.above = parent;
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        if field_names::protocol(field.name) == field_names::RPCORDMA {
            self.visit_rpcrdma(field, value);
        } else {
            self.visit_rpc(field, bytes, value);
        }
    }
}

impl<'a> ComparableFieldObserver<'_, 'a> {
    /// Records the varying fields of the RPC-over-RDMA header; the others are compared as chunks.
    fn visit_rpcrdma(&mut self, field: &'static FieldDefinition, value: FieldValue<'a>) {
        if let (field_names::RPCORDMA_XID, FieldValue::Unsigned(xid)) = (field.name, value) {
            self.rdma_xid = Some(xid);
        }
        let path_id = self.recorder.child(self.above, field, self.is_call);
        let Some(path) = self.recorder.paths.get(path_id as usize).map(Rc::clone) else { return };
        if let (FieldEqualityRequirement::Varies(_), Some(section)) = (path.class, self.sections.first_mut()) {
            let datum = Self::datum(&path, field, value);
            section.entries.push(ComparableMessageField { path, datum });
        }
    }

    /// Returns the XDR padding after the bytes (RFC 4506 section 4.10) if it is not zero.
    fn fill(&self, content: &[u8]) -> Option<ComparedFieldValue> {
        let length = content.len().next_multiple_of(4) - content.len();
        let at = (content.as_ptr() as usize).checked_sub(self.rpc.as_ptr() as usize)?.checked_add(content.len())?;
        let fill = self.rpc.get(at..at.checked_add(length)?)?;
        fill.iter().any(|byte| *byte != 0).then(|| ComparedFieldValue::Bytes(fill.into()))
    }

    fn visit_rpc(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        // The operation number is the name of the section.
        if field.name == field_names::NFS_OPCODE && matches!(value, FieldValue::Enum(_, Some(_))) {
            return;
        }
        if !self.is_call {
            self.visit_read_plus(field, value);
        }
        let path_id = self.recorder.child(self.above, field, self.is_call);
        let Some(path) = self.recorder.paths.get(path_id as usize).map(Rc::clone) else { return };
        if let Some(located_fields) = &mut self.places {
            let at = if self.stack.is_empty() { 0 } else { self.sections.len().saturating_sub(1) };
            let name = self.sections.get(at).map(|section| Rc::clone(&section.name)).unwrap_or_default();
            located_fields.push(LocatedField {
                section: (at, name),
                path: Rc::clone(&path),
                bytes: bytes.clone(),
                value,
            });
        }
        if let (
            FieldEqualityRequirement::Identity(_) | FieldEqualityRequirement::Varies(_),
            FieldValue::Bytes(content) | FieldValue::Text(content),
        ) = (path.class, value)
        {
            self.spans.push((bytes.start, content.len().next_multiple_of(4) as u64));
        }
        let datum = Self::datum(&path, field, value);
        // Fields outside every group belong to the headers.
        let fill = match value {
            FieldValue::Bytes(content) | FieldValue::Text(content) => self.fill(content),
            _ => None,
        };
        // RFC 8166 section 4.2.1: both headers have one XID.
        let other_xid = self.rdma_xid.filter(|_| field.name == field_names::RPC_XID);
        let is_other = |xid: &u64| !matches!(value, FieldValue::Unsigned(own) if own == *xid);
        let section = if self.stack.is_empty() { self.sections.first_mut() } else { self.sections.last_mut() };
        let Some(section) = section else { return };
        section.entries.push(ComparableMessageField { path, datum });
        if let Some(datum) = fill {
            section.entries.push(ComparableMessageField { path: Rc::clone(&self.recorder.fill), datum });
        }
        if other_xid.is_some_and(|xid| is_other(&xid)) {
            let datum = ComparedFieldValue::Named("differs-from-rpc-xid");
            section.entries.push(ComparableMessageField { path: Rc::clone(&self.recorder.other_xid), datum });
        }
    }
}
