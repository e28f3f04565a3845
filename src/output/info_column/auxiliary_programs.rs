//! Info column of the auxiliary programs: MOUNT, NLM, NSM, PORTMAP, RQUOTA, NFSACL.

use std::fmt::Write as _;

use super::{InfoFieldValue, LabelWriter};

/// Lists of mounts and exports, of which the line shows only the length.
const COUNTED_LISTS: [(&str, &str, &str); 2] =
    [("DUMP", "ml_directory", "mount"), ("EXPORT", "ex_dir", "export")];

impl LabelWriter<'_> {
    /// Appends `LOCK /data/db 0+10 exclusive client.example`. A length of 0 reaches to the end of the file (XNFS
    /// section 10).
    pub(super) fn lock(&mut self, name: &str) {
        if let Some(offset) = self.call.number("l_offset") {
            let _ = write!(self.text, " {offset}");
            self.push_length(self.call.number("l_len").filter(|length| *length > 0).unwrap_or(u64::MAX));
        }
        match self.call.number("exclusive") {
            Some(0) => self.text.push_str(" shared"),
            Some(_) => self.text.push_str(" exclusive"),
            None => {}
        }
        for (flag, word) in [("block", " wait"), ("reclaim", " reclaim")] {
            if self.call.number(flag) == Some(1) {
                self.text.push_str(word);
            }
        }
        self.enum_name("access", "fsa_", "");
        if self.call.number("mode").is_some_and(|mode| mode > 0) {
            self.text.push_str(" deny");
            self.enum_name("mode", "fsm_D", "");
        }
        if name.ends_with("_RES") {
            self.enum_name("stat", "NLM4_", "");
        }
        for host in ["caller_name", "name", "mon_name"] {
            self.unquoted_name(host);
        }
        if let Some(holder) = self.reply.number("svid").or_else(|| self.reply.number("uppid")) {
            let _ = write!(self.text, " held by {}", holder as i32);
        }
    }

    /// Appends `MON client.example`, `NOTIFY client.example state 5`.
    pub(super) fn nsm(&mut self) {
        self.unquoted_name("mon_name");
        if let Some(state) = self.call.number("state") {
            let _ = write!(self.text, " state {state}");
        }
    }

    pub(super) fn mount(&mut self, name: &str) {
        if self.about.path.is_none() {
            self.quote_text("dirpath");
        }
        if let Some((_, label, word)) = COUNTED_LISTS.iter().find(|(procedure, ..)| *procedure == name)
            && self.reply.operations_seen > 0
        {
            self.push_count(label, word);
        }
    }

    /// Appends `GETPORT NFS 3 tcp → 2049`, `GETADDR NFS 4 rdma → 192.0.2.1.78.81`.
    pub(super) fn portmap(&mut self, name: &str) {
        let call = self.call;
        let program = call.find("prog").or_else(|| call.find("r_prog"));
        let _ = match program {
            Some(InfoFieldValue::Enum(_, Some(program))) => write!(self.text, " {program}"),
            Some(InfoFieldValue::Enum(number, None) | InfoFieldValue::Number(number)) => {
                write!(self.text, " {number}")
            }
            _ => Ok(()),
        };
        if let Some(version) = call.number("vers").or_else(|| call.number("r_vers")) {
            let _ = write!(self.text, " {version}");
        }
        match call.find("prot") {
            Some(InfoFieldValue::Enum(6, _)) => self.text.push_str(" tcp"),
            Some(InfoFieldValue::Enum(17, _)) => self.text.push_str(" udp"),
            _ => self.unquoted_name("r_netid"),
        }
        if let Some(port) = self.reply.number("port").filter(|_| name == "GETPORT" || name == "CALLIT") {
            let _ = match port {
                0 => write!(self.text, " {} not registered", self.glyphs.to),
                port => write!(self.text, " {} {port}", self.glyphs.to),
            };
        }
        if let Some(address) = self.reply.texts("uaddr").next() {
            match address {
                b"" => {
                    let _ = write!(self.text, " {} not registered", self.glyphs.to);
                }
                address => {
                    let _ = write!(self.text, " {}", self.glyphs.to);
                    self.text.push(' ');
                    super::escape(address, self.glyphs, self.text);
                }
            }
        }
        if name == "DUMP" && self.reply.operations_seen > 0 {
            let label = if self.reply.count("r_prog") > 0 { "r_prog" } else { "prog" };
            self.push_count(label, "program");
        }
    }

    /// Appends `GETQUOTA "/export" id 1000`.
    pub(super) fn quota(&mut self) {
        for path in ["gqa_pathp", "sqa_pathp"] {
            self.quote_text(path);
        }
        for id in ["gqa_uid", "gqa_id", "sqa_id"] {
            self.number(id, "id");
        }
    }

    /// Appends the requested lists: `GETACL /data acl dfacl`.
    pub(super) fn acl(&mut self) {
        if let Some(InfoFieldValue::Flags(mask, names)) = self.call.find("mask") {
            for (_, name) in names.iter().filter(|(bit, _)| mask & bit == *bit) {
                let _ = write!(self.text, " {}", name.trim_start_matches("NA_").to_ascii_lowercase());
            }
        }
    }

    /// Appends a name without quotes.
    fn unquoted_name(&mut self, label: &str) {
        let call = self.call;
        if let Some(name) = call.texts(label).next() {
            self.text.push(' ');
            super::escape(name, self.glyphs, self.text);
        }
    }

    fn push_count(&mut self, label: &str, word: &str) {
        let count = self.reply.count(label);
        let _ = write!(self.text, " {count} {word}{}", if count == 1 { "" } else { "s" });
    }
}
