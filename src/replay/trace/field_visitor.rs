//! Where in a message identities, counts and file data stand, as its decoders tell it.
//!
//! The same ear hears a captured message, when a trace is made, and a live one, when what it gives is bound
//! ([`bind`](super::binding)). Which fields name something is said by the table of comparisons
//! ([`role`](crate::analysis::comparison::compare_class)), and nowhere else.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, FieldKind, FieldValue, Observer};
use rustc_hash::FxHashMap;

use super::MessageSlotKind;
use crate::analysis::comparison::compare_class::{CompareClass, IdentityType, role_of};

/// Marks of one message; more are not heard.
const MARKS: usize = super::step::MOST as usize;

/// A field that names or counts something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedField {
    /// Where it stands, as the decoder counts: of data with a length, that length and the fill too.
    pub range: Range<usize>,
    /// What it holds.
    pub holds: MessageSlotKind,
    /// Whether a length stands before the value.
    pub is_counted: bool,
    /// The operation of the COMPOUND, from 0.
    pub operation: u32,
    /// Names the field: [`Slot::place`](super::MessageSlot).
    pub place: u64,
    /// Whether the value is one that every server has, and that names nothing.
    pub is_constant: bool,
}

/// File data or the text of a link.
#[derive(Clone, Copy, Debug)]
pub struct MessageDataItem<'a> {
    /// Where the content belongs or stands, as the decoder counts.
    pub at: usize,
    /// Bytes of padding before content that stands in the message. RFC 5666 section 3.9.
    pub padding: usize,
    /// Bytes of content.
    pub length: u32,
    /// Whether the content stands in the message.
    pub is_inline: bool,
    /// Whether it may travel in a chunk (RFC 8267).
    pub is_eligible: bool,
    /// Whether it is the text of a link.
    pub is_text: bool,
    /// The content.
    pub bytes: Option<&'a [u8]>,
    /// The operation of the COMPOUND, from 0.
    pub operation: u32,
    /// The offset that was heard last in the operation.
    pub offset: Option<u64>,
}

/// An operation, or a procedure that is not made of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedOperation {
    /// Its name in the RFC.
    pub name: &'static str,
    /// Its first mark.
    pub marks: usize,
    /// The offset in a file that was heard first in it.
    pub offset: Option<u64>,
    /// The most bytes of a result that it asked for.
    pub count: Option<u32>,
}

/// Hears one message.
#[derive(Debug, Default)]
pub struct TraceFieldVisitor<'a> {
    /// What names or counts something, in the order of the message.
    pub marks: Vec<MarkedField>,
    /// File data, in the order of the message.
    pub data: Vec<MessageDataItem<'a>>,
    /// The operations.
    pub operations: Vec<MarkedOperation>,
    /// Where the arguments or results begin, and end.
    pub body: Option<Range<usize>>,
    /// Marks that were too many.
    pub left_out: u64,
    is_reply: bool,
    /// Hashes of the paths of the structures that are open.
    paths: Vec<u64>,
    /// The path of names, for the table.
    labels: Vec<&'static str>,
    /// Where the marks of the present operation or directory entry begin.
    since: usize,
    /// How many fields of each path there were since then.
    ordinals: FxHashMap<u64, (usize, u32)>,
    /// The hash of the name of the present entry.
    entry: Option<u64>,
    has_entry: bool,
    is_body: bool,
}

/// FNV-1a with 64 bits, which [`Slot::place`](super::MessageSlot) is made with.
fn hashed(from: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(from, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// Values that name nothing: RFC 8881 section 8.2.3 has the stateids of zeros and of ones, and a cookie, a clientid and a
/// verifier of zeros say that there is none.
fn is_constant(name: &[u8]) -> bool {
    name.iter().all(|byte| *byte == 0) || name.iter().all(|byte| *byte == 0xff)
}

/// What a field of an identity holds, of which the table of comparisons knows fewer.
fn holds(identity: IdentityType, label: &str, is_reply: bool) -> Option<MessageSlotKind> {
    Some(match identity {
        IdentityType::Filehandle => MessageSlotKind::FILEHANDLE,
        IdentityType::Stateid => MessageSlotKind::STATEID,
        IdentityType::Clientid => MessageSlotKind::CLIENTID,
        IdentityType::Session => MessageSlotKind::SESSION,
        IdentityType::Cookie => MessageSlotKind::COOKIE,
        IdentityType::Verifier => match label {
            "setclientid_confirm" => MessageSlotKind::CONFIRM_VERIFIER,
            "verifier" | "co_verifier" => MessageSlotKind::CLIENT_VERIFIER,
            "createverf" | "cva_verf" => MessageSlotKind::CREATE_VERIFIER,
            "verf" if !is_reply => MessageSlotKind::CREATE_VERIFIER,
            "verf" | "writeverf" | "wr_writeverf" => MessageSlotKind::WRITE_VERIFIER,
            _ => MessageSlotKind::COOKIE_VERIFIER,
        },
        IdentityType::Owner => MessageSlotKind::OWNER,
        IdentityType::ClientOwner => MessageSlotKind::CLIENT_OWNER,
        IdentityType::ServerOwner => MessageSlotKind::SERVER_OWNER,
        IdentityType::Host => MessageSlotKind::HOST,
        IdentityType::Program => MessageSlotKind::PROGRAM,
        IdentityType::Context => MessageSlotKind::CONTEXT,
        IdentityType::Device => MessageSlotKind::DEVICE,
        IdentityType::MinorVersion => return None,
    })
}

/// What a count counts, by its name in the RFC.
fn counts(field: &str, label: &str, operation: &str) -> Option<MessageSlotKind> {
    Some(match (field, label) {
        (_, "sa_sequenceid" | "sr_sequenceid" | "csa_sequenceid" | "csr_sequenceid") => {
            MessageSlotKind::SEQUENCE_ID
        }
        (_, "sa_slotid" | "sr_slotid" | "csa_slotid" | "csr_slotid") => MessageSlotKind::SLOT_ID,
        (_, "sa_highest_slotid" | "csa_highest_slotid") => MessageSlotKind::HIGHEST_SLOT_ID,
        (_, "csa_sequence" | "csr_sequence" | "eir_sequenceid") => MessageSlotKind::CREATE_SEQUENCE,
        ("nfs.lock_seqid", _) => MessageSlotKind::LOCK_SEQID,
        ("nfs.seqid", "seqid") if operation == "LOCKU" => MessageSlotKind::LOCK_SEQID,
        ("nfs.seqid", "seqid" | "open_seqid") => MessageSlotKind::OPEN_SEQID,
        ("nfs.stateid.seqid", _) => MessageSlotKind::STATEID_SEQID,
        _ => return None,
    })
}

impl TraceFieldVisitor<'_> {
    /// For a Call, or a Reply.
    pub fn new(is_reply: bool) -> Self {
        Self { is_reply, ..Self::default() }
    }

    fn operation(&self) -> u32 {
        self.operations.len().saturating_sub(1) as u32
    }

    fn name(&self) -> &'static str {
        self.operations.last().map_or("", |operation| operation.name)
    }

    fn mark(&mut self, range: Range<usize>, holds: MessageSlotKind, name: Option<&[u8]>, label: &str) {
        if self.marks.len() >= MARKS {
            self.left_out += 1;
            return;
        }
        let path = hashed(self.paths.last().copied().unwrap_or(SEED), label.as_bytes());
        let (since, before) = self.ordinals.entry(path).or_insert((self.since, 0));
        if *since != self.since {
            (*since, *before) = (self.since, 0);
        }
        let place = if *before == 0 { path } else { hashed(path, &before.to_be_bytes()) };
        *before += 1;
        let is_counted = name.is_some_and(|name| range.len() != name.len());
        let range = range.start..range.start + range.len().next_multiple_of(4);
        // A filehandle names something on one server alone, whatever it is.
        let is_constant = holds != MessageSlotKind::FILEHANDLE && name.is_some_and(is_constant);
        let operation = self.operation();
        self.marks.push(MarkedField { range, holds, is_counted, operation, place, is_constant });
    }

    /// The marks of an entry are known by its name, wherever it stands in the listing. What is above a directory is not told by
    /// its listing: a live one may be in the directory of a run.
    fn close_entry(&mut self) {
        let Some(name) = self.entry.take() else { return };
        if [&b"."[..], b".."].into_iter().any(|dots| name == hashed(SEED, dots)) {
            let entry = self.marks.split_off(self.since.min(self.marks.len()));
            self.marks.extend(entry.into_iter().filter(|mark| mark.holds != MessageSlotKind::FILEHANDLE));
        }
        for mark in self.marks.get_mut(self.since..).unwrap_or_default() {
            mark.place = mark.place.rotate_left(17) ^ name;
        }
        self.since = self.marks.len();
    }
}

impl<'a> Observer<'a> for TraceFieldVisitor<'a> {
    fn enter(&mut self, field: &'static Field, at: usize) {
        let is_rpc = field.name.starts_with("rpc");
        if self.paths.is_empty() && !is_rpc {
            self.body.get_or_insert(at..at);
            self.is_body = true;
            self.close_entry();
            self.has_entry = false;
            self.since = self.marks.len();
            self.operations.push(MarkedOperation {
                name: field.label,
                marks: self.since,
                offset: None,
                count: None,
            });
        }
        let is_time = match field.label {
            "guard" => !self.is_reply,
            "ctime" => self.is_reply && !self.has_entry && !self.labels.contains(&"before"),
            _ => false,
        };
        if is_time && field.kind == FieldKind::Time {
            self.mark(at..at + 8, MessageSlotKind::CHANGE, None, field.label);
        }
        if field.label == "entries" {
            self.close_entry();
            if !self.has_entry {
                self.since = self.marks.len();
                self.has_entry = true;
            }
        }
        let path = hashed(self.paths.last().copied().unwrap_or(SEED), field.label.as_bytes());
        self.paths.push(hashed(path, b"."));
        self.labels.push(field.label);
    }

    fn leave(&mut self, at: usize) {
        self.paths.pop();
        if self.labels.pop() == Some("entries") {
            self.close_entry();
        }
        if let Some(body) = &mut self.body
            && self.is_body
        {
            body.end = body.end.max(at);
        }
    }

    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: FieldValue<'a>) {
        if field.name.starts_with("rpc") {
            // What follows the body protects it.
            self.is_body = false;
            return;
        }
        self.is_body = true;
        match &mut self.body {
            Some(body) => body.end = body.end.max(bytes.end.next_multiple_of(4)),
            None => self.body = Some(bytes.start..bytes.end),
        }
        let operation = self.operation();
        let offset = self.operations.last().and_then(|operation| operation.offset);
        let is_text = matches!(field.name, "nfs.symlink.to" | "nfs.symlink.linktext" | "nfs.readlink.data");
        if let FieldValue::Chunk(length, content) = value {
            let (is_inline, is_eligible, at) = (false, true, bytes.end);
            let offset = if is_text { None } else { offset };
            self.data.push(MessageDataItem {
                at,
                padding: 0,
                length,
                is_inline,
                is_eligible,
                is_text,
                bytes: content,
                operation,
                offset,
            });
            return;
        }
        if let Some(holds) = counts(field.name, field.label, self.name()) {
            self.mark(bytes, holds, None, field.label);
            return;
        }
        match (field.name, value) {
            ("nfs.data", FieldValue::Bytes(content)) if matches!(field.label, "data" | "d_data") => {
                self.data.push(MessageDataItem {
                    at: bytes.start + 4,
                    padding: bytes.len().saturating_sub(4 + content.len()),
                    length: content.len() as u32,
                    is_inline: true,
                    is_eligible: field.label == "data",
                    is_text: false,
                    bytes: Some(content),
                    operation,
                    offset,
                });
                return;
            }
            (
                "nfs.offset3" | "nfs.offset4" | "nfs.read.offset" | "nfs.write.offset",
                FieldValue::Unsigned(at),
            ) => {
                if let Some(operation) = self.operations.last_mut() {
                    // Of READ_PLUS each part says where it belongs.
                    if operation.offset.is_none() || field.label == "d_offset" {
                        operation.offset = Some(at);
                    }
                }
            }
            (_, FieldValue::Unsigned(count))
                if matches!(
                    field.label,
                    "count" | "maxcount" | "rpa_count" | "lxa_maxcount" | "loga_maxcount" | "gdia_maxcount"
                ) =>
            {
                if let Some(operation) = self.operations.last_mut() {
                    operation.count = Some(count as u32);
                }
            }
            (_, FieldValue::Text(name)) if self.has_entry && field.label == "name" => {
                self.entry = Some(hashed(SEED, name));
            }
            ("nfs.changeid4" | "nfs.changeid4.after", FieldValue::Unsigned(_)) if !self.has_entry => {
                self.mark(bytes, MessageSlotKind::CHANGE, None, field.label);
                return;
            }
            _ => {}
        }
        // Paths matter to the table for times alone, and no time is an identity.
        if let CompareClass::Identity(identity) = role_of(field.name, "", !self.is_reply)
            && let Some(holds) = holds(identity, field.label, self.is_reply)
        {
            match value {
                FieldValue::Bytes(name) | FieldValue::Text(name) => {
                    self.mark(bytes, holds, Some(name), field.label)
                }
                FieldValue::Unsigned(number) if number != 0 => self.mark(bytes, holds, None, field.label),
                _ => {}
            }
        }
    }
}
