//! Finds the positions of identities, counts and file data in a message, by visiting its decoded fields.
//!
//! The same visitor reads captured messages when a trace is made, and live ones when their values are bound
//! ([`bind`](super::live_reply_binding)). The comparison table ([`requirement_of_field`]) alone decides which fields
//! are identities.

use std::ops::Range;

use nfsrdma_analysis::comparison::field_equality::{
    FieldEqualityRequirement, MappedIdentifierType, requirement_of_field,
};
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{CbOperation, CbOperationNumber, Operation, OperationNumber};
use rustc_hash::FxHashMap;

use super::step::TraceSlotValueKind;

/// Maximum number of slot fields per message; further ones are dropped.
const MAX_SLOT_FIELDS: usize = super::step::MAX_LIST_LENGTH as usize;

/// A field that holds an identity or a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedSubstitutableField {
    /// Byte range as the decoder counts. Data with a length prefix includes that prefix and the XDR padding.
    pub range: Range<usize>,
    /// The kind of value.
    pub value_kind: TraceSlotValueKind,
    /// `true` if a length precedes the value.
    pub is_counted: bool,
    /// Index of the operation in the COMPOUND, from 0.
    pub operation: u32,
    /// Hash that identifies the field: [`SubstitutableMessageSlot::place`](super::SubstitutableMessageSlot).
    pub place: u64,
    /// `true` if the value is a protocol constant, which identifies nothing.
    pub is_constant: bool,
}

/// File data or the text of a symbolic link.
#[derive(Clone, Copy, Debug)]
pub struct MessageDataItem<'a> {
    /// Position of the content as the decoder counts.
    pub at: usize,
    /// Number of padding bytes before content in the message. RFC 5666 section 3.9.
    pub padding_bytes: usize,
    /// Number of bytes of content.
    pub length_bytes: u32,
    /// `true` if the content is in the message.
    pub is_inline: bool,
    /// `true` if the content is DDP-eligible (RFC 8267).
    pub is_eligible: bool,
    /// `true` if this is the text of a symbolic link.
    pub is_text: bool,
    /// The content, if it is available.
    pub bytes: Option<&'a [u8]>,
    /// Index of the operation in the COMPOUND, from 0.
    pub operation: u32,
    /// The last file offset seen in the operation.
    pub offset: Option<u64>,
}

/// Number of a visited operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitedNfs4Opcode {
    /// An operation of COMPOUND.
    Fore(Operation),
    /// An operation of CB_COMPOUND.
    Callback(CbOperation),
    /// None: a procedure without operations, or an operation that is not known.
    None,
}

impl VisitedNfs4Opcode {
    /// Returns the operation of COMPOUND, if it is one.
    pub fn fore(self) -> Option<Operation> {
        match self {
            Self::Fore(operation) => Some(operation),
            Self::Callback(_) | Self::None => None,
        }
    }
}

/// An operation, or a procedure without operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitedOperation {
    /// Its number.
    pub number: VisitedNfs4Opcode,
    /// Index of its first slot field.
    pub slot_fields: usize,
    /// File offset in the operation: the first one seen, but for READ_PLUS that of the latest part.
    pub offset: Option<u64>,
    /// Maximum number of result bytes that the operation requests.
    pub count: Option<u32>,
}

/// Visits the fields of one message.
#[derive(Debug, Default)]
pub struct SubstitutableFieldVisitor<'a> {
    /// Identities and counts, in message order.
    pub slot_fields: Vec<LocatedSubstitutableField>,
    /// File data, in message order.
    pub data: Vec<MessageDataItem<'a>>,
    /// The operations.
    pub operations: Vec<VisitedOperation>,
    /// Byte range of the arguments or results.
    pub body: Option<Range<usize>>,
    /// Number of slot fields dropped at the limit.
    pub dropped_fields: u64,
    is_reply: bool,
    /// Path hashes of the open structures.
    paths: Vec<u64>,
    /// Labels of the open structures.
    labels: Vec<&'static str>,
    /// Index of the first slot field of the current operation or directory entry.
    scope_start: usize,
    /// Number of fields with each path since then.
    field_counts: FxHashMap<u64, (usize, u32)>,
    /// Hash of the name of the current entry.
    entry_name_hash: Option<u64>,
    is_in_entry: bool,
    is_in_body: bool,
}

/// 64-bit FNV-1a, the hash of [`SubstitutableMessageSlot::place`](super::SubstitutableMessageSlot).
fn fnv1a(from: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(from, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns `true` for values that identify nothing: the stateids of all zeros and all ones (RFC 8881 section 8.2.3),
/// and the zero cookie, clientid and verifier, which mean "none".
fn is_constant(name: &[u8]) -> bool {
    name.iter().all(|byte| *byte == 0) || name.iter().all(|byte| *byte == 0xff)
}

/// Returns the slot kind of an identity. The comparison table has fewer kinds.
fn identity_kind(identity: MappedIdentifierType, label: &str, is_reply: bool) -> Option<TraceSlotValueKind> {
    Some(match identity {
        MappedIdentifierType::Filehandle => TraceSlotValueKind::FILEHANDLE,
        MappedIdentifierType::Stateid => TraceSlotValueKind::STATEID,
        MappedIdentifierType::Clientid => TraceSlotValueKind::CLIENTID,
        MappedIdentifierType::Session => TraceSlotValueKind::SESSION,
        MappedIdentifierType::Cookie => TraceSlotValueKind::COOKIE,
        MappedIdentifierType::Verifier => match label {
            field_labels::SETCLIENTID_CONFIRM => TraceSlotValueKind::CONFIRM_VERIFIER,
            field_labels::VERIFIER | field_labels::CO_VERIFIER => TraceSlotValueKind::CLIENT_VERIFIER,
            field_labels::CREATEVERF | field_labels::CVA_VERF => TraceSlotValueKind::CREATE_VERIFIER,
            field_labels::VERF if !is_reply => TraceSlotValueKind::CREATE_VERIFIER,
            field_labels::VERF | field_labels::WRITEVERF | field_labels::WR_WRITEVERF => {
                TraceSlotValueKind::WRITE_VERIFIER
            }
            _ => TraceSlotValueKind::COOKIE_VERIFIER,
        },
        MappedIdentifierType::Owner => TraceSlotValueKind::OWNER,
        MappedIdentifierType::ClientOwner => TraceSlotValueKind::CLIENT_OWNER,
        MappedIdentifierType::ServerOwner => TraceSlotValueKind::SERVER_OWNER,
        MappedIdentifierType::Host => TraceSlotValueKind::HOST,
        MappedIdentifierType::Program => TraceSlotValueKind::PROGRAM,
        MappedIdentifierType::Context => TraceSlotValueKind::CONTEXT,
        MappedIdentifierType::Device => TraceSlotValueKind::DEVICE,
        MappedIdentifierType::MinorVersion => return None,
    })
}

/// Returns the slot kind of a count, by its name in the RFC.
fn count_kind(field: &str, label: &str, operation: VisitedNfs4Opcode) -> Option<TraceSlotValueKind> {
    Some(match (field, label) {
        (
            _,
            field_labels::SA_SEQUENCEID
            | field_labels::SR_SEQUENCEID
            | field_labels::CSA_SEQUENCEID
            | field_labels::CSR_SEQUENCEID,
        ) => TraceSlotValueKind::SEQUENCE_ID,
        (
            _,
            field_labels::SA_SLOTID | field_labels::SR_SLOTID | field_labels::CSA_SLOTID | field_labels::CSR_SLOTID,
        ) => TraceSlotValueKind::SLOT_ID,
        (_, field_labels::SA_HIGHEST_SLOTID | field_labels::CSA_HIGHEST_SLOTID) => TraceSlotValueKind::HIGHEST_SLOT_ID,
        (_, field_labels::CSA_SEQUENCE | field_labels::CSR_SEQUENCE | field_labels::EIR_SEQUENCEID) => {
            TraceSlotValueKind::CREATE_SEQUENCE
        }
        (field_names::NFS_LOCK_SEQID, _) => TraceSlotValueKind::LOCK_SEQID,
        (field_names::NFS_SEQID, field_labels::SEQID) if operation == VisitedNfs4Opcode::Fore(Operation::LOCKU) => {
            TraceSlotValueKind::LOCK_SEQID
        }
        (field_names::NFS_SEQID, field_labels::SEQID | field_labels::OPEN_SEQID) => TraceSlotValueKind::OPEN_SEQID,
        (field_names::NFS_STATEID_SEQID, _) => TraceSlotValueKind::STATEID_SEQID,
        _ => return None,
    })
}

impl SubstitutableFieldVisitor<'_> {
    /// Creates a visitor for a call or a reply.
    pub fn new(is_reply: bool) -> Self {
        Self { is_reply, ..Self::default() }
    }

    fn operation_index(&self) -> u32 {
        self.operations.len().saturating_sub(1) as u32
    }

    fn add_slot_field(&mut self, range: Range<usize>, kind: TraceSlotValueKind, name: Option<&[u8]>, label: &str) {
        if self.slot_fields.len() >= MAX_SLOT_FIELDS {
            self.dropped_fields += 1;
            return;
        }
        let path = fnv1a(self.paths.last().copied().unwrap_or(FNV_OFFSET_BASIS), label.as_bytes());
        let (scope, count) = self.field_counts.entry(path).or_insert((self.scope_start, 0));
        if *scope != self.scope_start {
            (*scope, *count) = (self.scope_start, 0);
        }
        let place = if *count == 0 { path } else { fnv1a(path, &count.to_be_bytes()) };
        *count += 1;
        let is_counted = name.is_some_and(|name| range.len() != name.len());
        let range = range.start..range.start + range.len().next_multiple_of(4);
        // A filehandle is valid on one server only, whatever its bytes.
        let is_constant = kind != TraceSlotValueKind::FILEHANDLE && name.is_some_and(is_constant);
        let operation = self.operation_index();
        self.slot_fields.push(LocatedSubstitutableField {
            range,
            value_kind: kind,
            is_counted,
            operation,
            place,
            is_constant,
        });
    }

    /// Ends a directory entry: its fields are identified by its name, not by its position in the listing. Drops the
    /// filehandles of "." and "..", which may be outside the listed tree: a live directory may be in the directory of a
    /// run.
    fn close_entry(&mut self) {
        let Some(name) = self.entry_name_hash.take() else { return };
        if [&b"."[..], b".."].into_iter().any(|dots| name == fnv1a(FNV_OFFSET_BASIS, dots)) {
            let entry = self.slot_fields.split_off(self.scope_start.min(self.slot_fields.len()));
            self.slot_fields
                .extend(entry.into_iter().filter(|field| field.value_kind != TraceSlotValueKind::FILEHANDLE));
        }
        for field in self.slot_fields.get_mut(self.scope_start..).unwrap_or_default() {
            field.place = field.place.rotate_left(17) ^ name;
        }
        self.scope_start = self.slot_fields.len();
    }
}

impl<'a> FieldObserver<'a> for SubstitutableFieldVisitor<'a> {
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        let is_rpc = field_names::is_of_rpc(field.name);
        if self.paths.is_empty() && !is_rpc {
            self.body.get_or_insert(at..at);
            self.is_in_body = true;
            self.close_entry();
            self.is_in_entry = false;
            self.scope_start = self.slot_fields.len();
            self.operations.push(VisitedOperation {
                number: VisitedNfs4Opcode::None,
                slot_fields: self.scope_start,
                offset: None,
                count: None,
            });
        }
        let is_time = match field.label {
            field_labels::GUARD => !self.is_reply,
            field_labels::CTIME => self.is_reply && !self.is_in_entry && !self.labels.contains(&field_labels::BEFORE),
            _ => false,
        };
        if is_time && field.kind == FieldKind::Time {
            self.add_slot_field(at..at + 8, TraceSlotValueKind::CHANGE, None, field.label);
        }
        if field.label == field_labels::ENTRIES {
            self.close_entry();
            if !self.is_in_entry {
                self.scope_start = self.slot_fields.len();
                self.is_in_entry = true;
            }
        }
        let path = fnv1a(self.paths.last().copied().unwrap_or(FNV_OFFSET_BASIS), field.label.as_bytes());
        self.paths.push(fnv1a(path, b"."));
        self.labels.push(field.label);
    }

    fn leave(&mut self, at: usize) {
        self.paths.pop();
        if self.labels.pop() == Some(field_labels::ENTRIES) {
            self.close_entry();
        }
        if let Some(body) = &mut self.body
            && self.is_in_body
        {
            body.end = body.end.max(at);
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        if field_names::is_of_rpc(field.name) {
            // Fields after the body protect it.
            self.is_in_body = false;
            return;
        }
        self.is_in_body = true;
        match &mut self.body {
            Some(body) => body.end = body.end.max(bytes.end.next_multiple_of(4)),
            None => self.body = Some(bytes.start..bytes.end),
        }
        let operation = self.operation_index();
        let offset = self.operations.last().and_then(|operation| operation.offset);
        let is_text = matches!(
            field.name,
            field_names::NFS_SYMLINK_TO | field_names::NFS_SYMLINK_LINKTEXT | field_names::NFS_READLINK_DATA
        );
        if let FieldValue::Chunk(length, content) = value {
            let (is_inline, is_eligible, at) = (false, true, bytes.end);
            let offset = if is_text { None } else { offset };
            self.data.push(MessageDataItem {
                at,
                padding_bytes: 0,
                length_bytes: length,
                is_inline,
                is_eligible,
                is_text,
                bytes: content,
                operation,
                offset,
            });
            return;
        }
        let number = self.operations.last().map_or(VisitedNfs4Opcode::None, |operation| operation.number);
        if let Some(kind) = count_kind(field.name, field.label, number) {
            self.add_slot_field(bytes, kind, None, field.label);
            return;
        }
        match (field.name, value) {
            // The first field of an operation.
            (field_names::NFS_OPCODE, FieldValue::Enum(number, _)) => {
                if let Some(operation) = self.operations.last_mut() {
                    let known = OperationNumber(number as u32).known();
                    operation.number = known.map_or(VisitedNfs4Opcode::None, VisitedNfs4Opcode::Fore);
                }
            }
            (field_names::NFS_CB_OPERATION, FieldValue::Enum(number, _)) => {
                if let Some(operation) = self.operations.last_mut() {
                    let known = CbOperationNumber(number as u32).known();
                    operation.number = known.map_or(VisitedNfs4Opcode::None, VisitedNfs4Opcode::Callback);
                }
            }
            (field_names::NFS_DATA, FieldValue::Bytes(content))
                if matches!(field.label, field_labels::DATA | field_labels::D_DATA) =>
            {
                self.data.push(MessageDataItem {
                    at: bytes.start + 4,
                    padding_bytes: bytes.len().saturating_sub(4 + content.len()),
                    length_bytes: content.len() as u32,
                    is_inline: true,
                    is_eligible: field.label == field_labels::DATA,
                    is_text: false,
                    bytes: Some(content),
                    operation,
                    offset,
                });
                return;
            }
            (
                field_names::NFS_OFFSET3
                | field_names::NFS_OFFSET4
                | field_names::NFS_READ_OFFSET
                | field_names::NFS_WRITE_OFFSET,
                FieldValue::Unsigned(at),
            ) => {
                if let Some(operation) = self.operations.last_mut() {
                    // Each part of READ_PLUS has its own offset.
                    if operation.offset.is_none() || field.label == field_labels::D_OFFSET {
                        operation.offset = Some(at);
                    }
                }
            }
            (_, FieldValue::Unsigned(count))
                if matches!(
                    field.label,
                    field_labels::COUNT
                        | field_labels::MAXCOUNT
                        | field_labels::RPA_COUNT
                        | field_labels::LXA_MAXCOUNT
                        | field_labels::LOGA_MAXCOUNT
                        | field_labels::GDIA_MAXCOUNT
                ) =>
            {
                if let Some(operation) = self.operations.last_mut() {
                    operation.count = Some(count as u32);
                }
            }
            (_, FieldValue::Text(name)) if self.is_in_entry && field.label == field_labels::NAME => {
                self.entry_name_hash = Some(fnv1a(FNV_OFFSET_BASIS, name));
            }
            (field_names::NFS_CHANGEID4 | field_names::NFS_CHANGEID4_AFTER, FieldValue::Unsigned(_))
                if !self.is_in_entry =>
            {
                self.add_slot_field(bytes, TraceSlotValueKind::CHANGE, None, field.label);
                return;
            }
            _ => {}
        }
        // The table needs paths only for times, and no time is an identity.
        if let FieldEqualityRequirement::Identity(identity) = requirement_of_field(field.name, "", !self.is_reply)
            && let Some(kind) = identity_kind(identity, field.label, self.is_reply)
        {
            match value {
                FieldValue::Bytes(name) | FieldValue::Text(name) => {
                    self.add_slot_field(bytes, kind, Some(name), field.label)
                }
                FieldValue::Unsigned(number) if number != 0 => self.add_slot_field(bytes, kind, None, field.label),
                _ => {}
            }
        }
    }
}
