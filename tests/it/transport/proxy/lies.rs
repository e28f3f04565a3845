//! Faults of the proxy.

use std::collections::HashMap;
use std::fmt;

use super::walk::{Asked, Field, fields};

/// Change of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Increment by one.
    More,
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
}

/// Kind of fault: a changed value of a version, in these operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) version: u32,
    pub(crate) operation: &'static str,
    pub(crate) field: &'static str,
    pub(crate) turn: Turn,
    /// `true` to inject it each time instead of once.
    pub(crate) is_always: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, operation, field, turn, is_always } = self;
        let often = if *is_always { "always" } else { "once" };
        write!(f, "{version} {operation} {field} {turn:?} {often}")
    }
}

const fn once(
    operation: &'static str,
    field: &'static str,
    turn: Turn,
) -> (&'static str, &'static str, Turn, bool) {
    (operation, field, turn, false)
}

const fn always(
    operation: &'static str,
    field: &'static str,
    turn: Turn,
) -> (&'static str, &'static str, Turn, bool) {
    (operation, field, turn, true)
}

/// Faults of NFSv3. An operation of `*` is any.
const V3: &[(&str, &str, Turn, bool)] = &[
    // Values.
    once("GETATTR", "size", Turn::More),
    once("GETATTR", "mode", Turn::Flip),
    once("GETATTR", "nlink", Turn::More),
    once("LOOKUP", "uid", Turn::More),
    once("READ", "data", Turn::Flip),
    once("READ", "eof", Turn::Flip),
    once("WRITE", "count", Turn::Less),
    once("READDIRPLUS", "entry.name", Turn::Flip),
    once("ACCESS", "access", Turn::Flip),
    // Relations.
    once("*", "fileid", Turn::More),
    once("*", "dir.fileid", Turn::More),
    once("*", "after.fileid", Turn::Flip),
    once("*", "fsid", Turn::Flip),
    once("*", "entry.fileid", Turn::More),
    always("*", "fsid", Turn::Random),
    always("*", "fileid", Turn::Random),
    once("*", "mtime", Turn::Zero),
    once("*", "dir.mtime", Turn::Zero),
    once("*", "dir.ctime", Turn::Zero),
    once("*", "after.mtime", Turn::Zero),
    once("*", "after.ctime", Turn::Zero),
    once("*", "before.ctime", Turn::Zero),
    once("*", "before.mtime", Turn::Zero),
    always("*", "after.mtime", Turn::Zero),
    always("*", "dir.mtime", Turn::Random),
    once("*", "ctime", Turn::Zero),
];

/// Faults of each minor version of NFSv4.
const V4: &[(&str, &str, Turn, bool)] = &[
    // Values.
    once("GETATTR", "size", Turn::More),
    once("GETATTR", "mode", Turn::Flip),
    once("GETATTR", "numlinks", Turn::More),
    once("READ", "data", Turn::Flip),
    once("READ", "eof", Turn::Flip),
    once("WRITE", "count", Turn::Less),
    once("GETFH", "object", Turn::Flip),
    once("ACCESS", "access", Turn::Flip),
    once("READDIR", "entry.name", Turn::Flip),
    // Relations.
    once("GETATTR", "change", Turn::Zero),
    once("GETATTR", "change", Turn::Random),
    always("GETATTR", "change", Turn::Zero),
    always("GETATTR", "change", Turn::Random),
    once("GETATTR", "time_modify", Turn::Zero),
    always("GETATTR", "time_modify", Turn::Zero),
    once("GETATTR", "time_metadata", Turn::Zero),
    always("GETATTR", "time_metadata", Turn::Random),
    once("GETATTR", "fsid", Turn::Flip),
    always("GETATTR", "fsid", Turn::Random),
    once("GETATTR", "fileid", Turn::More),
    always("GETATTR", "fileid", Turn::Random),
    once("GETATTR", "owner", Turn::Flip),
    always("*", "cinfo.after", Turn::Stale),
    once("*", "cinfo.before", Turn::Zero),
    once("*", "cinfo.after", Turn::Zero),
];

/// Returns all kinds of faults.
pub(crate) fn kinds() -> Vec<Kind> {
    let of = |version: u32, table: &'static [(&'static str, &'static str, Turn, bool)]| {
        let kind = move |(operation, field, turn, is_always): &(&'static str, &'static str, Turn, bool)| {
            Kind { version, operation, field, turn: *turn, is_always: *is_always }
        };
        table.iter().map(kind)
    };
    of(3, V3).chain(of(40, V4)).chain(of(41, V4)).chain(of(42, V4)).collect()
}

/// Injector of a fault, or of none.
#[derive(Debug)]
pub(crate) struct Liar {
    kind: Option<Kind>,
    /// Number of occasions to skip before the fault.
    skip: usize,
    occasions: usize,
    /// Previous value of each object.
    told: HashMap<(Vec<u8>, &'static str), Vec<u8>>,
    random: u64,
    /// Number of injected faults.
    pub(crate) lies: usize,
    /// Reply with the last fault, and the correct value.
    pub(crate) last: String,
}

impl Liar {
    pub(crate) fn honest() -> Self {
        Self::of(None, 0)
    }

    /// Creates an injector that skips `skip` occasions.
    pub(crate) fn of(kind: Option<Kind>, skip: usize) -> Self {
        Self { kind, skip, occasions: 0, told: HashMap::new(), random: 1, lies: 0, last: String::new() }
    }

    /// Returns the number of occasions.
    pub(crate) fn occasions(&self) -> usize {
        self.occasions
    }

    /// Ends the faults.
    pub(crate) fn repent(&mut self) {
        self.kind = None;
    }

    /// Decodes a Reply, and changes it if it is time.
    pub(crate) fn hear(&mut self, asked: &Asked, record: &mut [u8]) {
        let Some(kind) = self.kind else { return };
        let mut is_file = false;
        for field in fields(asked, record) {
            if field.name.ends_with("type") {
                is_file = record[field.bytes.clone()] == 1_u32.to_be_bytes();
            }
            // Size and links of a directory depend on the file system.
            if matches!(kind.field, "size" | "nlink" | "numlinks") && !is_file {
                continue;
            }
            if kind.field == field.name && (kind.operation == "*" || kind.operation == field.operation) {
                self.turn(kind, asked, &field, record);
            }
        }
    }

    fn turn(&mut self, kind: Kind, asked: &Asked, field: &Field, record: &mut [u8]) {
        let truth = record[field.bytes.clone()].to_vec();
        let before = self.told.insert((asked.handle.clone(), field.name), truth.clone());
        let mut value = truth.clone();
        match kind.turn {
            Turn::More => carry(&mut value, true),
            Turn::Less => carry(&mut value, false),
            Turn::Zero => value.fill(0),
            Turn::Flip => value.iter_mut().next_back().into_iter().for_each(|byte| *byte ^= 1),
            Turn::Stale => value = before.filter(|before| before.len() == truth.len()).unwrap_or(value),
            Turn::Random => {
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
        if self.occasions > self.skip && (kind.is_always || self.lies == 0) {
            self.lies += 1;
            self.last = format!("{} of {:x}: {truth:x?} became {value:x?}", field.operation, asked.xid);
            record[field.bytes.clone()].copy_from_slice(&value);
        }
    }
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
