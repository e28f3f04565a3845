//! Faults of the proxy.

use std::collections::HashMap;
use std::fmt;

use super::reply_fields::{Field, ProxiedCall, fields};

/// Change of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueChange {
    /// Increment by one.
    More,
    /// Increment by 65,536: more than reads explain.
    MuchMore,
    /// Decrement by one.
    Less,
    /// All bytes zero: for a time that is 1970.
    Zero,
    /// Inverted last bit.
    Flip,
    /// Previous value of the same object.
    Stale,
    /// Random value each time.
    Random,
    /// SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED is set.
    Revoked,
    /// `mounted_on_fileid` or `xattr_support`, which was not requested, is added to attributes.
    Unrequested,
    /// The last attribute, `time_modify` or `mounted_on_fileid`, is left out.
    LeftOut,
}

/// Kind of fault: a changed value of a version, in these operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) version: u32,
    pub(crate) operation: &'static str,
    pub(crate) field: &'static str,
    pub(crate) value_change: ValueChange,
    /// `true` to inject it each time instead of once.
    pub(crate) is_always: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, operation, field, value_change, is_always } = self;
        let often = if *is_always { "always" } else { "once" };
        write!(f, "{version} {operation} {field} {value_change:?} {often}")
    }
}

const fn once(
    operation: &'static str,
    field: &'static str,
    turn: ValueChange,
) -> (&'static str, &'static str, ValueChange, bool) {
    (operation, field, turn, false)
}

const fn always(
    operation: &'static str,
    field: &'static str,
    turn: ValueChange,
) -> (&'static str, &'static str, ValueChange, bool) {
    (operation, field, turn, true)
}

/// Faults of NFSv3. An operation of `*` is any.
const V3: &[(&str, &str, ValueChange, bool)] = &[
    // Values.
    once("GETATTR", "size", ValueChange::More),
    once("GETATTR", "mode", ValueChange::Flip),
    once("GETATTR", "nlink", ValueChange::More),
    once("LOOKUP", "uid", ValueChange::More),
    once("READ", "data", ValueChange::Flip),
    once("READ", "eof", ValueChange::Flip),
    once("WRITE", "count", ValueChange::Less),
    once("READDIRPLUS", "entry.name", ValueChange::Flip),
    once("ACCESS", "access", ValueChange::Flip),
    // Relations.
    once("*", "fileid", ValueChange::More),
    once("*", "dir.fileid", ValueChange::More),
    once("*", "after.fileid", ValueChange::Flip),
    once("*", "fsid", ValueChange::Flip),
    once("*", "entry.fileid", ValueChange::More),
    always("*", "fsid", ValueChange::Random),
    always("*", "fileid", ValueChange::Random),
    once("*", "mtime", ValueChange::Zero),
    once("*", "dir.mtime", ValueChange::Zero),
    once("*", "dir.ctime", ValueChange::Zero),
    once("*", "after.mtime", ValueChange::Zero),
    once("*", "after.ctime", ValueChange::Zero),
    once("*", "before.ctime", ValueChange::Zero),
    once("*", "before.mtime", ValueChange::Zero),
    always("*", "after.mtime", ValueChange::Zero),
    always("*", "dir.mtime", ValueChange::Random),
    once("*", "ctime", ValueChange::Zero),
    // Cached values that a server returns again after a change, and changes that did not happen.
    once("*", "dir.mtime", ValueChange::Stale),
    always("*", "dir.mtime", ValueChange::Stale),
    always("*", "dir.ctime", ValueChange::Stale),
    always("WRITE", "after.size", ValueChange::Stale),
    once("*", "mtime", ValueChange::More),
    // Values, by procedure.
    once("GETATTR", "status", ValueChange::More),
    once("GETATTR", "type", ValueChange::More),
    once("GETATTR", "gid", ValueChange::More),
    once("LOOKUP", "status", ValueChange::More),
    once("LOOKUP", "object", ValueChange::Flip),
    once("LOOKUP", "mode", ValueChange::Flip),
    once("LOOKUP", "size", ValueChange::More),
    once("ACCESS", "status", ValueChange::More),
    once("ACCESS", "mode", ValueChange::Flip),
    once("READLINK", "data", ValueChange::Flip),
    once("READ", "status", ValueChange::More),
    once("READ", "count", ValueChange::Less),
    once("READ", "size", ValueChange::More),
    once("WRITE", "status", ValueChange::More),
    once("WRITE", "count", ValueChange::More),
    once("WRITE", "verf", ValueChange::Flip),
    once("WRITE", "after.size", ValueChange::More),
    once("WRITE", "after.mode", ValueChange::Flip),
    once("SETATTR", "before.size", ValueChange::More),
    once("COMMIT", "verf", ValueChange::Flip),
    once("CREATE", "status", ValueChange::More),
    once("CREATE", "obj", ValueChange::Flip),
    once("CREATE", "mode", ValueChange::Flip),
    once("CREATE", "size", ValueChange::More),
    once("CREATE", "uid", ValueChange::More),
    once("MKDIR", "obj", ValueChange::Flip),
    once("SETATTR", "status", ValueChange::More),
    once("SETATTR", "after.size", ValueChange::More),
    once("SETATTR", "after.mode", ValueChange::Flip),
    once("REMOVE", "status", ValueChange::More),
    once("REMOVE", "dir.mode", ValueChange::Flip),
    once("RENAME", "status", ValueChange::More),
    once("RENAME", "todir.mtime", ValueChange::Zero),
    once("LINK", "nlink", ValueChange::More),
    once("READDIRPLUS", "entry.mode", ValueChange::Flip),
    once("READDIRPLUS", "entry.attr_fileid", ValueChange::More),
    once("READDIRPLUS", "entry.handle", ValueChange::Flip),
];

/// Faults of each minor version of NFSv4.
const V4: &[(&str, &str, ValueChange, bool)] = &[
    // Values.
    once("GETATTR", "size", ValueChange::More),
    once("GETATTR", "mode", ValueChange::Flip),
    once("GETATTR", "numlinks", ValueChange::More),
    once("READ", "data", ValueChange::Flip),
    once("READ", "eof", ValueChange::Flip),
    once("WRITE", "count", ValueChange::Less),
    once("GETFH", "object", ValueChange::Flip),
    once("ACCESS", "access", ValueChange::Flip),
    once("READDIR", "entry.name", ValueChange::Flip),
    // Relations.
    once("GETATTR", "change", ValueChange::Zero),
    once("GETATTR", "change", ValueChange::Random),
    always("GETATTR", "change", ValueChange::Zero),
    always("GETATTR", "change", ValueChange::Random),
    once("GETATTR", "time_modify", ValueChange::Zero),
    always("GETATTR", "time_modify", ValueChange::Zero),
    once("GETATTR", "time_metadata", ValueChange::Zero),
    always("GETATTR", "time_metadata", ValueChange::Random),
    once("GETATTR", "fsid", ValueChange::Flip),
    always("GETATTR", "fsid", ValueChange::Random),
    once("GETATTR", "fileid", ValueChange::More),
    always("GETATTR", "fileid", ValueChange::Random),
    once("GETATTR", "owner", ValueChange::Flip),
    always("*", "cinfo.after", ValueChange::Stale),
    once("*", "cinfo.before", ValueChange::Zero),
    once("*", "cinfo.after", ValueChange::Zero),
    // Cached values that a server returns again after a change, and changes that did not happen.
    always("GETATTR", "change", ValueChange::Stale),
    once("GETATTR", "change", ValueChange::MuchMore),
    once("GETATTR", "time_modify", ValueChange::Stale),
    always("GETATTR", "time_modify", ValueChange::Stale),
    always("GETATTR", "time_metadata", ValueChange::Stale),
    once("GETATTR", "size", ValueChange::Stale),
    always("GETATTR", "size", ValueChange::Stale),
    once("*", "cinfo.before", ValueChange::More),
    // Values, by operation.
    once("PUTFH", "status", ValueChange::More),
    once("GETATTR", "status", ValueChange::More),
    once("GETATTR", "type", ValueChange::More),
    once("GETATTR", "owner_group", ValueChange::Flip),
    once("LOOKUP", "status", ValueChange::More),
    once("ACCESS", "status", ValueChange::More),
    once("READLINK", "link", ValueChange::Flip),
    once("READ", "status", ValueChange::More),
    once("WRITE", "status", ValueChange::More),
    once("WRITE", "count", ValueChange::More),
    once("WRITE", "writeverf", ValueChange::Flip),
    once("COMMIT", "writeverf", ValueChange::Flip),
    once("OPEN", "status", ValueChange::More),
    once("OPEN", "other", ValueChange::Flip),
    once("OPEN", "cinfo.after", ValueChange::Zero),
    once("CLOSE", "status", ValueChange::More),
    once("CREATE", "status", ValueChange::More),
    once("CREATE", "cinfo.before", ValueChange::Zero),
    once("SETATTR", "status", ValueChange::More),
    once("REMOVE", "status", ValueChange::More),
    once("REMOVE", "cinfo.after", ValueChange::Zero),
    once("RENAME", "status", ValueChange::More),
    once("RENAME", "target_cinfo.after", ValueChange::Zero),
    once("LINK", "cinfo.after", ValueChange::Zero),
    once("LOCK", "status", ValueChange::More),
    once("LOCK", "other", ValueChange::Flip),
    once("READDIR", "entry.type", ValueChange::More),
    once("READDIR", "entry.fileid", ValueChange::More),
    once("READDIR", "entry.mode", ValueChange::Flip),
    once("READDIR", "entry.change", ValueChange::Zero),
    // Attributes that nobody asked for, and those that are not returned.
    once("GETATTR", "attributes", ValueChange::Unrequested),
    always("GETATTR", "attributes", ValueChange::Unrequested),
    once("READDIR", "entry.attributes", ValueChange::Unrequested),
    once("GETATTR", "attributes", ValueChange::LeftOut),
    always("GETATTR", "attributes", ValueChange::LeftOut),
    once("READDIR", "entry.attributes", ValueChange::LeftOut),
];

/// Further faults of NFSv4.1 and 4.2.
const SESSIONS: &[(&str, &str, ValueChange, bool)] = &[
    once("SEQUENCE", "status", ValueChange::More),
    once("SEQUENCE", "sessionid", ValueChange::Flip),
    once("SEQUENCE", "sequenceid", ValueChange::More),
    once("SEQUENCE", "status_flags", ValueChange::Revoked),
    always("SEQUENCE", "status_flags", ValueChange::Revoked),
];

/// Returns all kinds of faults.
pub(crate) fn kinds() -> Vec<Kind> {
    let of =
        |version: u32, table: &'static [(&'static str, &'static str, ValueChange, bool)]| {
            let kind = move |(operation, field, turn, is_always): &(&'static str, &'static str, ValueChange, bool)| {
                Kind { version, operation, field, value_change: *turn, is_always: *is_always }
            };
            table.iter().map(kind)
        };
    let tables = [(3, V3), (40, V4), (41, V4), (41, SESSIONS), (42, V4), (42, SESSIONS)];
    tables.into_iter().flat_map(|(version, table)| of(version, table)).collect()
}

/// Injector of a fault, or of none.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    kind: Option<Kind>,
    /// Number of occasions to skip before the fault.
    skip: usize,
    occasions: usize,
    /// Previous value of each object.
    printed: HashMap<(Vec<u8>, &'static str), Vec<u8>>,
    random: u64,
    /// Number of injected faults.
    pub(crate) injected: usize,
    /// Reply with the last fault, and the correct value.
    pub(crate) last: String,
}

impl FaultInjector {
    pub(crate) fn honest() -> Self {
        Self::of(None, 0)
    }

    /// Creates an injector that skips `skip` occasions.
    pub(crate) fn of(kind: Option<Kind>, skip: usize) -> Self {
        Self { kind, skip, occasions: 0, printed: HashMap::new(), random: 1, injected: 0, last: String::new() }
    }

    /// Returns the number of occasions.
    pub(crate) fn occasions(&self) -> usize {
        self.occasions
    }

    /// Ends the faults.
    pub(crate) fn stop(&mut self) {
        self.kind = None;
    }

    /// Decodes a Reply, and changes it if it is time.
    pub(crate) fn process_reply(&mut self, asked: &ProxiedCall, record: &mut Vec<u8>) {
        let Some(kind) = self.kind else { return };
        let mut is_file = false;
        // Operations that make another object the current one, whose earlier values are unknown here.
        let mut is_other_object = false;
        let all = fields(asked, record);
        for (at, field) in all.iter().enumerate() {
            is_file |= matches!(field.operation, "READ" | "WRITE");
            is_other_object |= matches!(field.operation, "OPEN" | "LOOKUP" | "LOOKUPP" | "CREATE");
            let needs_earlier =
                matches!(kind.value_change, ValueChange::Stale | ValueChange::More | ValueChange::MuchMore)
                    && kind.field != "size";
            if needs_earlier && is_other_object && field.operation == "GETATTR" {
                continue;
            }
            // An unchanged change_info may describe no directory, as with CLAIM_FH.
            let other = match field.name {
                "cinfo.before" => all.get(at + 1),
                "cinfo.after" => at.checked_sub(1).and_then(|before| all.get(before)),
                _ => None,
            };
            if other.is_some_and(|other| record[other.bytes.clone()] == record[field.bytes.clone()]) {
                continue;
            }
            if field.name.ends_with("type") {
                is_file = record[field.bytes.clone()] == 1_u32.to_be_bytes();
            }
            // Size and links of a directory depend on the file system.
            if matches!(kind.field, "size" | "nlink" | "numlinks") && !is_file {
                continue;
            }
            if kind.field == field.name && (kind.operation == "*" || kind.operation == field.operation) {
                match kind.value_change {
                    ValueChange::Unrequested | ValueChange::LeftOut => {
                        // Later fields have other positions.
                        if self.change_attributes(kind, asked, field, record) {
                            return;
                        }
                    }
                    _ => self.change_value(kind, asked, field, record),
                }
            }
        }
    }

    /// Changes the set of attributes. Returns `true` if it did.
    fn change_attributes(&mut self, kind: Kind, asked: &ProxiedCall, field: &Field, record: &mut Vec<u8>) -> bool {
        let truth = &record[field.bytes.clone()];
        let changed = match kind.value_change {
            ValueChange::Unrequested => with_unrequested(truth),
            _ => without_last(truth),
        };
        let Some(value) = changed else { return false };
        self.occasions += 1;
        if self.occasions <= self.skip || !kind.is_always && self.injected > 0 {
            return false;
        }
        self.injected += 1;
        self.last = format!("{} of {:x}: {truth:x?} became {value:x?}", field.operation, asked.xid);
        record.splice(field.bytes.clone(), value);
        true
    }

    fn change_value(&mut self, kind: Kind, asked: &ProxiedCall, field: &Field, record: &mut [u8]) {
        let truth = record[field.bytes.clone()].to_vec();
        let before = self.printed.insert((asked.handle.clone(), field.name), truth.clone());
        let mut value = truth.clone();
        match kind.value_change {
            ValueChange::More => carry(&mut value, true),
            ValueChange::MuchMore => {
                let end = value.len().saturating_sub(2);
                carry(&mut value[..end], true);
            }
            ValueChange::Less => carry(&mut value, false),
            ValueChange::Zero => value.fill(0),
            ValueChange::Flip => value.iter_mut().next_back().into_iter().for_each(|byte| *byte ^= 1),
            ValueChange::Stale => value = before.filter(|before| before.len() == truth.len()).unwrap_or(value),
            ValueChange::Revoked => value.iter_mut().next_back().into_iter().for_each(|byte| *byte |= 0x10),
            ValueChange::Unrequested | ValueChange::LeftOut => return,
            ValueChange::Random => {
                for byte in &mut value {
                    self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    *byte = (self.random >> 56) as u8;
                }
                // Seconds and nanoseconds stay within their ranges.
                if kind.field.contains("time") {
                    value.iter_mut().step_by(4).for_each(|byte| *byte &= 0x1f);
                }
            }
        }
        if value == truth {
            return;
        }
        self.occasions += 1;
        if self.occasions > self.skip && (kind.is_always || self.injected == 0) {
            self.injected += 1;
            self.last = format!("{} of {:x}: {truth:x?} became {value:x?}", field.operation, asked.xid);
            record[field.bytes.clone()].copy_from_slice(&value);
        }
    }
}

/// Splits fattr4 into the words of its mask, and its values. RFC 8881 section 3.3.7.
fn mask_and_values(attributes: &[u8]) -> Option<(Vec<u32>, Vec<u8>)> {
    let mut words = attributes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    let count = words.next()? as usize;
    let mask: Vec<u32> = words.by_ref().take(count).collect();
    let length = words.next()? as usize;
    let start = 4 * (count + 2);
    (mask.len() == count).then_some((mask, attributes.get(start..start + length)?.to_vec()))
}

fn fattr4(mask: &[u32], values: &[u8]) -> Vec<u8> {
    let mut words = vec![mask.len() as u32];
    words.extend(mask);
    words.push(values.len() as u32);
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend(values);
    bytes
}

/// Adds mounted_on_fileid (55) as the last attribute, or xattr_support (82). The server would have returned the first
/// if it had been requested; the captures request the second in GETATTR alone, of the root.
fn with_unrequested(attributes: &[u8]) -> Option<Vec<u8>> {
    let (mut mask, mut values) = mask_and_values(attributes)?;
    mask.resize(mask.len().max(3), 0);
    if mask[2] == 0 && mask[1] < 1 << (55 - 32) {
        mask[1] |= 1 << (55 - 32);
        values.extend(77_u64.to_be_bytes());
    } else if mask[2] < 1 << (82 - 64) {
        mask[2] |= 1 << (82 - 64);
        values.extend(1_u32.to_be_bytes());
    } else {
        return None;
    }
    Some(fattr4(&mask, &values))
}

/// Removes the last attribute if it is `time_modify` or `mounted_on_fileid`.
fn without_last(attributes: &[u8]) -> Option<Vec<u8>> {
    let (mut mask, mut values) = mask_and_values(attributes)?;
    let last = mask.get(1).filter(|word| **word != 0)?.ilog2();
    let length = match last + 32 {
        53 => 12,
        55 => 8,
        _ => return None,
    };
    if mask[2..].iter().any(|word| *word != 0) {
        return None;
    }
    mask[1] &= !(1 << last);
    values.truncate(values.len().checked_sub(length)?);
    Some(fattr4(&mask, &values))
}

/// Adds one to a number, or subtracts one unless `is_more`.
fn carry(value: &mut [u8], is_more: bool) {
    for byte in value.iter_mut().rev() {
        *byte = if is_more { byte.wrapping_add(1) } else { byte.wrapping_sub(1) };
        if *byte != if is_more { 0 } else { 0xff } {
            return;
        }
    }
}
