//! Writer of the details of an operation: ranges, names, modes, and what else a line shows.

use std::fmt::Write as _;

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_dissectors::field::FieldDefinition;
use nfsrdma_dissectors::nfs::StatusUnionDiscriminant;
use nfsrdma_dissectors::nfs::v3::TimeHow;
use nfsrdma_dissectors::nfs::v4::{
    Getattr4Args, Nfsstat4, Open4Args, OpenClaim4, OpenClaimType4 as Claim, OpenDelegation4,
    OpenDelegationType4 as Delegation, Openflag4, Opentype4, Seek4Args, SeekRes4, ShareDeny,
};

use super::field_collector::{InfoColumnFieldValue, InfoFieldCollector};
use crate::output::style::Glyphs;
use crate::output::units::{ExactByteSizeText, escape, path, quote};

/// Maximum number of requested attributes that are named.
const MAX_SHOWN_ATTRIBUTES: usize = 4;
/// Maximum number of names of a looked-up path.
const MAX_PATH_NAMES: usize = 32;

/// Function that appends the details of an operation.
pub(super) type OperationDetailFunction = fn(&mut InfoColumnDetailWriter<'_>);

/// Writer of the details of an operation.
pub(super) struct InfoColumnDetailWriter<'a> {
    pub(super) call: &'a InfoFieldCollector,
    pub(super) reply: &'a InfoFieldCollector,
    pub(super) about: OperationPaths<'a>,
    pub(super) glyphs: &'a Glyphs,
    pub(super) text: &'a mut String,
    /// `true` if a sign says that the name of the file was not captured.
    pub(super) is_marked: bool,
}

/// Abbreviations of the rights of `ACCESS`, as in tshark.
const ACCESS_RIGHT_NAMES: [&str; 9] = ["RD", "LU", "MD", "XT", "DL", "XE", "XAR", "XAW", "XAL"];
/// Rights to extended attributes. All three together are written as `XA`.
const XATTR_RIGHTS: u64 = 0x1c0;

/// Attributes that stat(2) needs at least one of: change and size.
const STAT_REQUIRED: u64 = 0x18;
/// Attributes of the first word that stat(2) requests: type, change, size, fsid, rdattr_error, fileid.
const STAT_ATTRIBUTES: u64 = 0x0010_091a;

impl InfoColumnDetailWriter<'_> {
    /// Appends a range: `0+4096`.
    pub(super) fn range(&mut self, [offset, length]: [&FieldDefinition; 2]) {
        if let Some(offset) = self.call.number(offset) {
            self.push_range(offset, self.call.number(length));
        }
    }

    pub(super) fn push_range(&mut self, offset: u64, length: Option<u64>) {
        let _ = write!(self.text, " {offset}");
        let _ = match length {
            Some(u64::MAX) => write!(self.text, "+{}", self.glyphs.infinity),
            Some(length) => write!(self.text, "+{length}"),
            None => Ok(()),
        };
    }

    /// Appends the length of the result of a READ, if it is not the requested one.
    pub(super) fn read_length(&mut self, count: &FieldDefinition, data: &FieldDefinition) {
        let returned = self.reply.number(data);
        if let Some(returned) = returned.filter(|returned| self.call.number(count) != Some(*returned)) {
            let _ = write!(self.text, " len {returned}");
        }
    }

    pub(super) fn end_of_file(&mut self, eof: &FieldDefinition) {
        if self.reply.number(eof) == Some(1) {
            self.text.push_str(" EOF");
        }
    }

    /// Appends the requested stability of a WRITE, and the returned one if it differs.
    pub(super) fn stability(&mut self, stable: &FieldDefinition, committed: &FieldDefinition) {
        let name = |value: Option<&InfoColumnFieldValue>| match value {
            Some(InfoColumnFieldValue::Enum(_, name)) => name.map(|name| name.trim_end_matches('4')),
            _ => None,
        };
        let Some(requested) = name(self.call.find(stable)) else { return };
        let _ = write!(self.text, " {requested}");
        if let Some(committed) = name(self.reply.find(committed)).filter(|name| *name != requested) {
            let _ = write!(self.text, "{}{committed}", self.glyphs.to);
        }
    }

    /// Appends the name of an enumeration's value without the common prefix or suffix of its type.
    pub(super) fn enum_name(&mut self, field: &FieldDefinition, affix: &str) {
        if let Some(InfoColumnFieldValue::Enum(_, Some(name))) = self.call.find(field) {
            let name = name.strip_prefix(affix).or(name.strip_suffix(affix)).unwrap_or(name);
            let _ = write!(self.text, " {name}");
        }
    }

    pub(super) fn number(&mut self, label: &str, field: &FieldDefinition) {
        if let Some(number) = self.call.number(field) {
            let _ = write!(self.text, " {label} {number}");
        }
    }

    pub(super) fn transfer(&mut self, [source, destination, length]: [&FieldDefinition; 3]) {
        self.range([source, length]);
        let Some(offset) = self.call.number(destination) else { return };
        if !self.new_path() {
            let _ = write!(self.text, " {}", self.glyphs.to);
        }
        let _ = write!(self.text, " {offset}");
    }

    pub(super) fn seek(&mut self) {
        self.enum_name(Seek4Args::FIELDS.sa_what, "NFS4_CONTENT_");
        if let Some(offset) = self.call.number(Seek4Args::FIELDS.sa_offset) {
            let _ = write!(self.text, " {offset}");
        }
        if self.reply.number(SeekRes4::FIELDS.sr_eof) == Some(1) {
            self.text.push_str(" EOF");
        } else if let Some(offset) = self.reply.number(SeekRes4::FIELDS.sr_offset) {
            let _ = write!(self.text, " {} {offset}", self.glyphs.to);
        }
    }

    pub(super) fn quote(&mut self, name: &[u8]) {
        self.text.push(' ');
        quote(name, self.glyphs, self.text);
    }

    /// Appends the first of these names in the Call.
    pub(super) fn quote_text(&mut self, fields: &[&FieldDefinition]) {
        if let Some(name) = self.call.texts(fields).next() {
            self.quote(name);
        }
    }

    /// Appends the first of these names in the Call without quotes.
    pub(super) fn unquoted(&mut self, prefix: &str, fields: &[&FieldDefinition]) {
        if let Some(name) = self.call.texts(fields).next() {
            self.text.push_str(prefix);
            escape(name, self.glyphs, self.text);
        }
    }

    /// Appends the first of these names in the Call, unless the path contains it already.
    pub(super) fn name(&mut self, fields: &[&FieldDefinition]) {
        if self.about.path.is_none() {
            self.quote_text(fields);
        }
    }

    /// Appends the new path of the file, or only its name if both are in one directory. Returns `false` if there is
    /// none.
    pub(super) fn new_path(&mut self) -> bool {
        let Some(new_path) = self.about.new_path else { return false };
        let _ = write!(self.text, " {} ", self.glyphs.to);
        // The hash of a filehandle is in no directory.
        let directory = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/');
        let old_path = self.about.path.unwrap_or_default();
        let directory_end = directory(new_path)
            .filter(|at| directory(old_path) == Some(*at) && old_path.get(..*at) == new_path.get(..*at));
        path(directory_end.and_then(|at| new_path.get(at + 1..)).unwrap_or(new_path), self.glyphs, self.text);
        true
    }

    /// Appends the names of LOOKUPs; NFSv4 has one operation per name.
    pub(super) fn path(&mut self, name: &FieldDefinition) {
        if self.about.path.is_some() {
            return;
        }
        let call = self.call;
        let name = [name];
        let mut names = call.texts(&name).take(MAX_PATH_NAMES);
        let Some(first) = names.next() else { return };
        self.text.push_str(" \"");
        escape(first, self.glyphs, self.text);
        for name in names {
            self.text.push('/');
            escape(name, self.glyphs, self.text);
        }
        self.text.push('"');
    }

    pub(super) fn open(&mut self) {
        let (call, args) = (self.call, Open4Args::FIELDS);
        let number = |field: &FieldDefinition| call.number(field).map(|number| number as u32);
        let names = [OpenClaim4::FIELDS.Null, OpenClaim4::FIELDS.DelegatePrev];
        if call.texts(&names).next().is_some() {
            self.name(&names);
        } else if let Some(
            Claim::CLAIM_PREVIOUS | Claim::CLAIM_FH | Claim::CLAIM_DELEG_PREV_FH | Claim::CLAIM_DELEG_CUR_FH,
        ) = number(OpenClaim4::TAG).map(Claim)
        {
            self.enum_name(OpenClaim4::TAG, "CLAIM_");
        } else if self.about.path.is_none() {
            // A snap length cut the name.
            self.text.push_str(" ?");
            self.is_marked = true;
        }
        if number(Openflag4::TAG).map(Opentype4) == Some(Opentype4::OPEN4_CREATE) {
            self.text.push_str(" CREATE");
        }
        // The low two bits are the access; higher bits concern delegations.
        self.text.push_str(match number(args.share_access).map_or(0, |access| access & 3) {
            1 => " R",
            2 => " W",
            3 => " RW",
            _ => "",
        });
        let deny = number(args.share_deny).map(ShareDeny);
        if deny.is_some_and(|deny| deny != ShareDeny::OPEN4_SHARE_DENY_NONE && deny.name().is_some()) {
            self.text.push_str(" deny");
            self.enum_name(args.share_deny, "OPEN4_SHARE_DENY_");
        }
        let delegation = self.reply.number(OpenDelegation4::TAG).map(|number| Delegation(number as u32));
        self.text.push_str(match delegation {
            Some(Delegation::OPEN_DELEGATE_READ | Delegation::OPEN_DELEGATE_READ_ATTRS_DELEG) => " +deleg R",
            Some(Delegation::OPEN_DELEGATE_WRITE | Delegation::OPEN_DELEGATE_WRITE_ATTRS_DELEG) => " +deleg W",
            _ => "",
        });
    }

    /// Appends the text of a symbolic link.
    pub(super) fn link_text(&mut self, message: &InfoFieldCollector, field: &FieldDefinition) {
        if let Some(link) = message.texts(&[field]).next() {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.quote(link);
        }
    }

    /// Appends the new path or the new name of a LINK.
    pub(super) fn link(&mut self, name: &FieldDefinition) {
        if !self.new_path() {
            self.quote_text(&[name]);
        }
    }

    /// Appends the new path or both names of a RENAME.
    pub(super) fn rename(&mut self, fields: &[&FieldDefinition]) {
        if self.new_path() {
            return;
        }
        let mut names = self.call.texts(fields);
        if let Some(from) = names.next() {
            self.quote(from);
        }
        if let Some(to) = names.next() {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.quote(to);
        }
    }

    pub(super) fn directory_entries(&mut self, cookie: &FieldDefinition, eof: &FieldDefinition) {
        if let Some(cookie) = self.call.number(cookie).filter(|cookie| *cookie != 0) {
            let _ = write!(self.text, " from {cookie}");
        }
        if self.reply.number(eof).is_some() {
            let entries = self.reply.entries;
            let _ = write!(self.text, " {entries} {}", if entries == 1 { "entry" } else { "entries" });
            self.end_of_file(eof);
        }
    }

    /// Appends the requested rights, and the granted ones if they differ.
    pub(super) fn access(&mut self, requested: &FieldDefinition, granted: &FieldDefinition) {
        let Some(requested) = self.call.number(requested) else { return };
        self.rights(requested);
        if let Some(granted) = self.reply.number(granted).filter(|granted| *granted != requested) {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.rights(granted);
        }
    }

    pub(super) fn rights(&mut self, mask: u64) {
        if mask == 0 {
            self.text.push_str(" none");
        }
        let extended = mask & XATTR_RIGHTS == XATTR_RIGHTS;
        for (bit, right) in ACCESS_RIGHT_NAMES.iter().enumerate() {
            if mask >> bit & 1 == 1 && !(extended && XATTR_RIGHTS >> bit & 1 == 1) {
                let _ = write!(self.text, " {right}");
            }
        }
        if extended {
            self.text.push_str(" XA");
        }
    }

    /// Appends the attributes that GETATTR requests, unless they are those of stat(2), as in nearly every GETATTR.
    pub(super) fn requested_attributes(&mut self) {
        let requested = Getattr4Args::FIELDS.attr_request;
        let masks = self.call.fields.iter().filter_map(|(field, value)| match value {
            InfoColumnFieldValue::Flags(mask, names) if *field == requested => Some((*mask, *names)),
            _ => None,
        });
        let Some(first) = self.call.number(requested) else { return };
        if first & STAT_REQUIRED != 0 && first & !STAT_ATTRIBUTES == 0 {
            return;
        }
        let names = masks.flat_map(|(mask, names)| names.iter().filter(move |(bit, _)| mask & bit != 0));
        for (_, name) in names.clone().take(MAX_SHOWN_ATTRIBUTES) {
            let _ = write!(self.text, " {name}");
        }
        let hidden_count = names.skip(MAX_SHOWN_ATTRIBUTES).count();
        if hidden_count > 0 {
            let _ = write!(self.text, " +{hidden_count}");
        }
    }

    pub(super) fn mode(&mut self, field: &FieldDefinition) {
        if let Some(mode) = self.call.number(field) {
            let _ = write!(self.text, " mode {mode:04o}");
        }
    }

    pub(super) fn size(&mut self, field: &FieldDefinition) {
        if let Some(size) = self.call.number(field) {
            let _ = write!(self.text, " size {}", ExactByteSizeText(size));
        }
    }

    /// Appends a word if a time is set.
    pub(super) fn times(&mut self, definition: &FieldDefinition) {
        let is_set = |value: &InfoColumnFieldValue| match value {
            InfoColumnFieldValue::Enum(_, name) => name.is_some() && *name != TimeHow::DONT_CHANGE.name(),
            _ => false,
        };
        if self.call.fields.iter().any(|(field, value)| *field == definition && is_set(value)) {
            self.text.push_str(" times");
        }
    }

    /// Appends the number of items that an operation of NFSv4 returned.
    pub(super) fn result_count(&mut self, field: &FieldDefinition, noun: &str) {
        if self.reply.number(Nfsstat4::FIELD) == Some(Nfsstat4::NFS4_OK.0.into()) {
            self.count(field, noun);
        }
    }

    /// Appends the number of items in the Reply, unless it has no results.
    pub(super) fn count(&mut self, field: &FieldDefinition, noun: &str) {
        if self.reply.operations_seen > 0 {
            let count = self.reply.count(field);
            let _ = write!(self.text, " {count} {noun}{}", if count == 1 { "" } else { "s" });
        }
    }
}
