//! Info column: the arguments of an operation in a few words, such as file, range and mode: `READ /data/log 0+4096`.
//!
//! Collectors receive the fields from the decoders; this module formats the few that a line shows.

mod auxiliary_programs;
mod field_collector;

use std::fmt::Write as _;
use std::ops::Range;

use nfsrdma_dissectors::flow::decode::{CallOperation, RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::rpc::gss::{GssControlMessage, GssPayload};

use field_collector::{InfoFieldCollector, InfoFieldValue};

use super::style::{Glyphs, columns};
use super::units::{ExactSize, escape, path, quote};
use nfsrdma_analysis::names::OperationPaths;

/// Maximum number of requested attributes that are named.
const MAX_SHOWN_ATTRIBUTES: usize = 4;
/// Maximum number of names of a looked-up path.
const MAX_PATH_NAMES: usize = 32;

/// Formatter of operations, reused for all lines, so that a line allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct InfoColumnFormatter {
    call: InfoFieldCollector,
    reply: InfoFieldCollector,
    /// Byte range of the path in the text written last.
    path: Range<usize>,
}

/// Minimum number of columns left of the last name of a path.
const MIN_NAME_WIDTH: usize = 16;

impl InfoColumnFormatter {
    /// Appends the name of the operation and its details.
    pub(crate) fn write(
        &mut self,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        about: OperationPaths<'_>,
        glyphs: &Glyphs,
        text: &mut String,
    ) {
        self.path = 0..0;
        let name = match (facts.label_operation(), facts.procedure_name, facts.procedure) {
            (Some(CallOperation::Named(name)), ..) | (None, Some(name), _) => name,
            (Some(CallOperation::Number(number)), ..) => {
                let _ = write!(text, "operation {number}");
                return;
            }
            // The procedures of this program are not described.
            (None, None, Some(number)) => {
                let _ = write!(text, "procedure {number}");
                return;
            }
            (None, None, None) => {
                text.push('?');
                return;
            }
        };
        text.push_str(name);
        let is_cut = facts.decoded_operation.is_some() || about.path.is_none() && about.start.is_some();
        let mut is_marked = false;
        match facts.payload {
            Some(GssPayload::Privacy) => text.push_str(" (encrypted)"),
            Some(GssPayload::Control(GssControlMessage::Init)) => text.push_str(" RPCSEC_GSS context"),
            Some(GssPayload::Control(_)) => text.push_str(" RPCSEC_GSS control"),
            _ => {
                if let Some(file) = about.path.or(about.start) {
                    text.push(' ');
                    let start = text.len();
                    path(file, glyphs, text);
                    self.path = start..text.len();
                }
                if has_details(facts, name) {
                    self.call.begin(name);
                    self.reply.begin(name);
                    // Fields decoded before an error are shown.
                    let _ = reading.observe_rpc(RpcMessageKind::Call, &mut self.call);
                    let _ = reading.observe_rpc(RpcMessageKind::Reply, &mut self.reply);
                    let (call, reply) = (&self.call, &self.reply);
                    let mut writer = LabelWriter { call, reply, about, glyphs, text, is_marked: false };
                    writer.about(facts, name);
                    is_marked = writer.is_marked;
                }
            }
        }
        // The snap length cut arguments, and maybe another operation.
        if is_cut && !is_marked {
            text.push_str(" ?");
        }
    }

    /// Returns the byte range of the path in the text written last.
    #[cfg(feature = "tui")]
    pub(crate) fn path(&self) -> Range<usize> {
        self.path.clone()
    }

    /// Truncates the path of the text written last at its beginning, until the text fits in `room` columns.
    pub(super) fn shorten(&self, room: usize, glyphs: &Glyphs, text: &mut String) {
        shorten(self.path.clone(), room, glyphs, text);
    }
}

/// Truncates the path at `place` in a text at its beginning, until the text fits in `room` columns.
pub(crate) fn shorten(place: Range<usize>, room: usize, glyphs: &Glyphs, text: &mut String) {
    let Some(path) = text.get(place.clone()) else { return };
    let excess = columns(text).saturating_sub(room);
    let name = path.rsplit('/').next().unwrap_or(path);
    let most = columns(path).saturating_sub(columns(name).min(MIN_NAME_WIDTH) + 1);
    if excess == 0 || most == 0 {
        return;
    }
    let cut = (excess + columns(glyphs.cut)).min(most);
    let mut passed = 0;
    let end = path.char_indices().find_map(|(at, character)| {
        let is_enough = passed >= cut;
        passed += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        is_enough.then_some(at)
    });
    let Some(end) = end else { return };
    // A path is cut between two names, unless the last name alone is too long.
    let rest = path.get(end..).unwrap_or_default();
    let end = end + rest.find('/').unwrap_or(0);
    text.replace_range(place.start..place.start + end, glyphs.cut);
}

/// Returns `true` if an operation of this name may have details; else its messages need not be decoded again.
fn has_details(facts: &RpcSummary, name: &str) -> bool {
    let is_nfs = facts.program.is_some_and(|program| program == Program::NFS || program.is_transient());
    name != "NULL" && !is_nfs
        || !matches!(
            name,
            "NULL"
                | "CLOSE"
                | "DELEGRETURN"
                | "FSINFO"
                | "FSSTAT"
                | "PATHCONF"
                | "PUTFH"
                | "PUTROOTFH"
                | "GETFH"
                | "LOOKUPP"
                | "RENEW"
                | "SEQUENCE"
                | "CB_RECALL"
                | "FREE_STATEID"
                | "COMPOUND"
                | "CB_COMPOUND"
        )
}

struct LabelWriter<'a> {
    call: &'a InfoFieldCollector,
    reply: &'a InfoFieldCollector,
    about: OperationPaths<'a>,
    glyphs: &'a Glyphs,
    text: &'a mut String,
    /// `true` if a sign says that the name of the file was not captured.
    is_marked: bool,
}

/// Abbreviations of the rights of `ACCESS`, as in tshark.
const ACCESS_RIGHT_NAMES: [&str; 9] = ["RD", "LU", "MD", "XT", "DL", "XE", "XAR", "XAW", "XAL"];
/// Rights to extended attributes. All three together are written as `XA`.
const XATTR_RIGHTS: u64 = 0x1c0;

/// Attributes that stat(2) needs at least one of: change and size.
const STAT_REQUIRED: u64 = 0x18;
/// Attributes of the first word that stat(2) requests: type, change, size, fsid, rdattr_error, fileid.
const STAT_ATTRIBUTES: u64 = 0x0010_091a;

impl LabelWriter<'_> {
    fn about(&mut self, facts: &RpcSummary, name: &str) {
        match facts.program {
            Some(Program::NLM) => self.lock(name),
            Some(Program::NSM) => self.nsm(),
            Some(Program::MOUNT) => self.mount(name),
            Some(Program::PORTMAP) => self.portmap(name),
            Some(Program::RQUOTA) => self.quota(),
            Some(Program::NFSACL) if name != "ACCESS" => self.acl(),
            _ => self.nfs_details(name),
        }
    }

    fn nfs_details(&mut self, name: &str) {
        match name {
            "READ" => {
                self.range("offset", "count");
                self.read_result();
            }
            "READ_PLUS" => self.range("rpa_offset", "rpa_count"),
            "WRITE" => {
                self.write_range();
                self.write_stability();
            }
            "COMMIT" => self.range("offset", "count"),
            "ALLOCATE" => self.range("aa_offset", "aa_length"),
            "DEALLOCATE" => self.range("da_offset", "da_length"),
            "IO_ADVISE" => self.range("iaa_offset", "iaa_count"),
            "LOCK" | "LOCKT" | "LOCKU" => {
                self.range("offset", "length");
                self.enum_name("locktype", "", "_LT");
            }
            "COPY" => self.transfer("ca_src_offset", "ca_dst_offset", "ca_count"),
            "CLONE" => self.transfer("cl_src_offset", "cl_dst_offset", "cl_count"),
            "LAYOUTGET" => {
                self.range("loga_offset", "loga_length");
                self.enum_name("loga_iomode", "LAYOUTIOMODE4_", "");
            }
            "LAYOUTCOMMIT" => self.range("loca_offset", "loca_length"),
            "LAYOUTRETURN" => {
                self.range("lrf_offset", "lrf_length");
                self.enum_name("lora_iomode", "LAYOUTIOMODE4_", "");
            }
            "LAYOUTSTATS" => self.range("lsa_offset", "lsa_length"),
            "LAYOUTERROR" => self.range("lea_offset", "lea_length"),
            "GETDEVICEINFO" => self.enum_name("gdia_layout_type", "LAYOUT4_", ""),
            "SEEK" => self.seek(),
            "LOOKUP" => self.path(),
            "OPEN" => self.open(),
            "CREATE" => self.create(),
            "MKDIR" | "MKNOD" | "REMOVE" | "RMDIR" | "SYMLINK" => self.new_object(name),
            "LINK" if !self.new_path() => {
                self.quote_text("name");
                self.quote_text("newname");
            }
            "RENAME" => self.rename(),
            "READLINK" => self.link_text(true, "data"),
            "READDIR" | "READDIRPLUS" => self.directory_entries(),
            "ACCESS" => self.access(),
            "GETATTR" => self.requested_attributes(),
            "SETATTR" => self.set_attributes(),
            "SECINFO" if self.about.path.is_none() => self.quote_text("name"),
            "SECINFO_NO_NAME" => self.enum_name("style", "SECINFO_STYLE4_", ""),
            "GETXATTR" => self.quote_text("gxa_name"),
            "SETXATTR" => {
                self.quote_text("sxa_key");
                if let Some(length) = self.call.number("sxa_value") {
                    let _ = write!(self.text, " {length} bytes");
                }
            }
            "REMOVEXATTR" => self.quote_text("rxa_name"),
            "LISTXATTRS" => self.result_count("lxr_names", "name"),
            "TEST_STATEID" => self.result_count("tsr_status_codes", "stateid"),
            "CREATE_SESSION" => self.slots(),
            "EXCHANGE_ID" => self.quote_text("co_ownerid"),
            "SETCLIENTID" => self.quote_text("id"),
            "BIND_CONN_TO_SESSION" => self.enum_name("bctsa_dir", "CDFC4_", ""),
            "CB_RECALL_SLOT" => self.number("rsa_target_highest_slotid", "highest slot"),
            "CB_RECALL_ANY" => self.number("craa_objects_to_keep", "keep"),
            "CB_LAYOUTRECALL" => self.enum_name("clora_iomode", "LAYOUTIOMODE4_", ""),
            _ => {}
        }
    }

    /// Appends a range: `0+4096`.
    fn range(&mut self, offset: &str, length: &str) {
        if let Some(offset) = self.call.number(offset) {
            let _ = write!(self.text, " {offset}");
            if let Some(length) = self.call.number(length) {
                self.push_length(length);
            }
        }
    }

    fn push_length(&mut self, length: u64) {
        match length {
            u64::MAX => {
                let _ = write!(self.text, "+{}", self.glyphs.infinity);
            }
            length => {
                let _ = write!(self.text, "+{length}");
            }
        }
    }

    /// Appends the length of a READ result if it is not the requested one, and EOF.
    fn read_result(&mut self) {
        let got = self.reply.number("data");
        if let Some(got) = got.filter(|got| self.call.number("count") != Some(*got)) {
            let _ = write!(self.text, " len {got}");
        }
        if self.reply.number("eof") == Some(1) {
            self.text.push_str(" EOF");
        }
    }

    fn write_range(&mut self) {
        if let Some(offset) = self.call.number("offset") {
            let _ = write!(self.text, " {offset}");
            if let Some(length) = self.call.number("data").or_else(|| self.call.number("count")) {
                self.push_length(length);
            }
        }
    }

    /// Appends the requested stability of a WRITE, and the returned one if it differs.
    fn write_stability(&mut self) {
        let name = |heard: Option<&InfoFieldValue>| match heard {
            Some(InfoFieldValue::Enum(_, name)) => name.map(|name| name.trim_end_matches('4')),
            _ => None,
        };
        let Some(asked) = name(self.call.find("stable")) else { return };
        let _ = write!(self.text, " {asked}");
        if let Some(committed) = name(self.reply.find("committed")).filter(|committed| *committed != asked) {
            let _ = write!(self.text, "{}{committed}", self.glyphs.to);
        }
    }

    /// Appends the name of an enumeration's value without the common prefix and suffix of its type.
    fn enum_name(&mut self, field: &str, prefix: &str, suffix: &str) {
        if let Some(InfoFieldValue::Enum(_, Some(name))) = self.call.find(field) {
            let name = name.strip_prefix(prefix).unwrap_or(name);
            let _ = write!(self.text, " {}", name.strip_suffix(suffix).unwrap_or(name));
        }
    }

    fn number(&mut self, field: &str, words: &str) {
        if let Some(number) = self.call.number(field) {
            let _ = write!(self.text, " {words} {number}");
        }
    }

    fn transfer(&mut self, source: &str, destination: &str, length: &str) {
        self.range(source, length);
        let Some(offset) = self.call.number(destination) else { return };
        if !self.new_path() {
            let _ = write!(self.text, " {}", self.glyphs.to);
        }
        let _ = write!(self.text, " {offset}");
    }

    fn seek(&mut self) {
        if let Some(InfoFieldValue::Enum(_, Some(name))) = self.call.find("sa_what") {
            let _ = write!(self.text, " {}", name.trim_start_matches("NFS4_CONTENT_"));
        }
        if let Some(offset) = self.call.number("sa_offset") {
            let _ = write!(self.text, " {offset}");
        }
        if self.reply.number("sr_eof") == Some(1) {
            self.text.push_str(" EOF");
        } else if let Some(offset) = self.reply.number("sr_offset") {
            let _ = write!(self.text, " {} {offset}", self.glyphs.to);
        }
    }

    /// Appends a name that the path does not contain already.
    fn quote_unless_in_path(&mut self, name: &[u8]) {
        if self.about.path.is_none() {
            self.quote(name);
        }
    }

    fn quote(&mut self, name: &[u8]) {
        self.text.push(' ');
        quote(name, self.glyphs, self.text);
    }

    /// Appends the first name of this label in the Call.
    fn quote_text(&mut self, label: &str) {
        let call = self.call;
        if let Some(name) = call.texts(label).next() {
            self.quote(name);
        }
    }

    /// Appends the new path of the file, or only its name if both are in one directory. Returns `false` if there is
    /// none.
    fn new_path(&mut self) -> bool {
        let Some(new) = self.about.new_path else { return false };
        let _ = write!(self.text, " {} ", self.glyphs.to);
        // The hash of a filehandle is in no directory.
        let directory = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/');
        let old = self.about.path.unwrap_or_default();
        let beside =
            directory(new).filter(|at| directory(old) == Some(*at) && old.get(..*at) == new.get(..*at));
        path(beside.and_then(|at| new.get(at + 1..)).unwrap_or(new), self.glyphs, self.text);
        true
    }

    /// Appends the names of LOOKUPs; NFSv4 has one operation per name.
    fn path(&mut self) {
        if self.about.path.is_some() {
            return;
        }
        let call = self.call;
        let mut names = call.texts("objname").chain(call.texts("name")).take(MAX_PATH_NAMES);
        let Some(first) = names.next() else { return };
        self.text.push_str(" \"");
        escape(first, self.glyphs, self.text);
        for name in names {
            self.text.push('/');
            escape(name, self.glyphs, self.text);
        }
        self.text.push('"');
    }

    fn open(&mut self) {
        let call = self.call;
        let name = call.texts("file").chain(call.texts("file_delegate_prev")).next();
        if let Some(name) = name {
            self.quote_unless_in_path(name);
        } else if let Some(InfoFieldValue::Enum(_, Some(claim))) = call.find("claim")
            && matches!(*claim, "CLAIM_PREVIOUS" | "CLAIM_FH" | "CLAIM_DELEG_PREV_FH" | "CLAIM_DELEG_CUR_FH")
        {
            let _ = write!(self.text, " {}", claim.trim_start_matches("CLAIM_"));
        } else if self.about.path.is_none() {
            // A snap length cut the name.
            self.text.push_str(" ?");
            self.is_marked = true;
        }
        if call.number("opentype") == Some(1) {
            self.text.push_str(" CREATE");
        }
        if let Some(access) = call.number("share_access") {
            // The low two bits are the access; higher bits concern delegations.
            let letters = [None, Some("R"), Some("W"), Some("RW")];
            if let Some(letters) = letters.get(access as usize & 3).copied().flatten() {
                let _ = write!(self.text, " {letters}");
            }
        }
        if let Some(InfoFieldValue::Enum(_, Some(deny))) = call.find("share_deny")
            && *deny != "OPEN4_SHARE_DENY_NONE"
        {
            let _ = write!(self.text, " deny {}", deny.trim_start_matches("OPEN4_SHARE_DENY_"));
        }
        if let Some(InfoFieldValue::Enum(_, Some(delegation))) = self.reply.find("delegation_type") {
            match delegation.trim_start_matches("OPEN_DELEGATE_") {
                "READ" | "READ_ATTRS_DELEG" => self.text.push_str(" +deleg R"),
                "WRITE" | "WRITE_ATTRS_DELEG" => self.text.push_str(" +deleg W"),
                _ => {}
            }
        }
    }

    /// CREATE of NFSv3 makes a file, CREATE of NFSv4 everything but files.
    fn create(&mut self) {
        let call = self.call;
        if let Some(name) = call.texts("objname").next() {
            self.quote_unless_in_path(name);
            if let Some(InfoFieldValue::Enum(_, Some(kind))) = call.find("type") {
                let _ = write!(self.text, " {}", kind.trim_start_matches("NF4"));
            }
            self.link_text(false, "linkdata");
        } else {
            if self.about.path.is_none() {
                self.quote_text("name");
            }
            if let Some(InfoFieldValue::Enum(_, Some(mode))) = call.find("mode") {
                let _ = write!(self.text, " {mode}");
            }
        }
    }

    fn new_object(&mut self, operation: &str) {
        let call = self.call;
        if let Some(name) = call.texts("target").chain(call.texts("name")).next() {
            self.quote_unless_in_path(name);
        }
        match operation {
            "SYMLINK" => self.link_text(false, "symlink_data"),
            "MKNOD" => {
                if let Some(InfoFieldValue::Enum(_, Some(kind))) = call.find("type") {
                    let _ = write!(self.text, " {}", kind.trim_start_matches("NF3"));
                }
            }
            _ => {}
        }
    }

    fn link_text(&mut self, in_reply: bool, label: &str) {
        let message = if in_reply { self.reply } else { self.call };
        if let Some(link) =
            message.texts(label).chain(message.texts("link")).chain(message.texts("to")).next()
        {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.quote(link);
        }
    }

    fn rename(&mut self) {
        if self.new_path() {
            return;
        }
        let call = self.call;
        let mut names = call.texts("oldname").chain(call.texts("name")).chain(call.texts("newname"));
        if let Some(from) = names.next() {
            self.quote(from);
        }
        if let Some(to) = names.next() {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.quote(to);
        }
    }

    fn directory_entries(&mut self) {
        if let Some(cookie) = self.call.number("cookie").filter(|cookie| *cookie != 0) {
            let _ = write!(self.text, " from {cookie}");
        }
        if self.reply.operations_seen > 0 && self.reply.number("eof").is_some() {
            let entries = self.reply.entries;
            let _ = write!(self.text, " {entries} {}", if entries == 1 { "entry" } else { "entries" });
            if self.reply.number("eof") == Some(1) {
                self.text.push_str(" EOF");
            }
        }
    }

    fn access(&mut self) {
        let Some(asked) = self.call.number("access") else { return };
        self.rights(asked);
        if let Some(granted) = self.reply.number("access").filter(|granted| *granted != asked) {
            let _ = write!(self.text, " {}", self.glyphs.to);
            self.rights(granted);
        }
    }

    fn rights(&mut self, mask: u64) {
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
    fn requested_attributes(&mut self) {
        let masks = self.call.fields.iter().filter_map(|(field, heard)| match heard {
            InfoFieldValue::Flags(mask, names) if field.label == "attr_request" => Some((*mask, *names)),
            _ => None,
        });
        if masks
            .clone()
            .next()
            .is_none_or(|(first, _)| first & STAT_REQUIRED != 0 && first & !STAT_ATTRIBUTES == 0)
        {
            return;
        }
        let names = masks.flat_map(|(mask, names)| names.iter().filter(move |(bit, _)| mask & bit != 0));
        for (_, name) in names.clone().take(MAX_SHOWN_ATTRIBUTES) {
            let _ = write!(self.text, " {name}");
        }
        let more = names.skip(MAX_SHOWN_ATTRIBUTES).count();
        if more > 0 {
            let _ = write!(self.text, " +{more}");
        }
    }

    /// Appends the attributes that SETATTR sets, with their values if they are short.
    fn set_attributes(&mut self) {
        let mut times = false;
        for (field, heard) in &self.call.fields {
            let _ = match (field.label, heard) {
                ("mode", InfoFieldValue::Flags(mode, _)) => write!(self.text, " mode {mode:04o}"),
                ("size", InfoFieldValue::Number(size)) => write!(self.text, " size {}", ExactSize(*size)),
                ("uid" | "gid", InfoFieldValue::Number(id)) => write!(self.text, " {} {id}", field.label),
                ("owner" | "owner_group", InfoFieldValue::Text(range)) => {
                    self.text.push_str(if field.label == "owner" { " owner " } else { " group " });
                    escape(self.call.text.get(range.clone()).unwrap_or_default(), self.glyphs, self.text);
                    Ok(())
                }
                ("set_it", InfoFieldValue::Enum(_, Some(how))) if *how != "DONT_CHANGE" && !times => {
                    times = true;
                    write!(self.text, " times")
                }
                _ => Ok(()),
            };
        }
        let aces = self.call.count("who");
        if aces > 0 {
            let _ = write!(self.text, " acl of {aces}");
        }
    }

    fn result_count(&mut self, label: &str, word: &str) {
        let count = self.reply.count(label);
        if self.reply.operations_seen > 0 && self.reply.number("status") == Some(0) {
            let _ = write!(self.text, " {count} {word}{}", if count == 1 { "" } else { "s" });
        }
    }

    /// Appends the number of slots of a session: the fore channel comes first.
    fn slots(&mut self) {
        if let Some(slots) = self.reply.number("ca_maxrequests") {
            let _ = write!(self.text, " {slots} slots");
        }
    }
}
