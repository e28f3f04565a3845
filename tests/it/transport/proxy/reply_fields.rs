//! Positions of the fields of NFSv3 and NFSv4 Replies, decoded by the XDR of the RFCs alone: it shares no code with the
//! program.
//!
//! RFC 5531 for the header, RFC 1813 section 3.3 for NFSv3, RFC 7530, RFC 8881 and RFC 7862 for NFSv4. Unknown data
//! ends the decoding; the fields before are used.

use std::ops::Range;

/// Field of a Reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Operation of the field: `GETATTR`.
    pub(crate) operation: &'static str,
    /// Name: `change`.
    pub(crate) name: &'static str,
    /// Byte range in the record.
    pub(crate) bytes: Range<usize>,
}

/// Content of a Call that the decoding of its Reply needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxiedCall {
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    /// First filehandle in the Call.
    pub(crate) handle: Vec<u8>,
}

/// Reader of XDR words.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn skip(&mut self, length: usize) -> Option<Range<usize>> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        let range = self.at..end;
        self.at = end;
        Some(range)
    }

    fn word(&mut self) -> Option<u32> {
        let range = self.skip(4)?;
        Some(u32::from_be_bytes(self.bytes[range].try_into().ok()?))
    }

    /// Reads opaque data with its length and padding: returns the content.
    fn opaque(&mut self) -> Option<Range<usize>> {
        let length = self.word()? as usize;
        let range = self.skip(length)?;
        self.skip((4 - length % 4) % 4)?;
        Some(range)
    }

    fn bitmap(&mut self) -> Option<Vec<u32>> {
        let count = self.word()?.min(16);
        (0..count).map(|_| self.word()).collect()
    }
}

/// Decodes a Call. Returns `None` for anything else.
pub(crate) fn asked(record: &[u8]) -> Option<ProxiedCall> {
    let mut words = Words { bytes: record, at: 0 };
    let xid = words.word()?;
    if (words.word()?, words.word()?) != (0, 2) {
        return None;
    }
    let (program, version, procedure) = (words.word()?, words.word()?, words.word()?);
    for _ in 0..2 {
        words.word()?;
        words.opaque()?;
    }
    let mut asked = ProxiedCall { xid, program, version, procedure, handle: Vec::new() };
    if program != 100_003 || procedure == 0 {
        return Some(asked);
    }
    let handle = match version {
        3 => words.opaque(),
        4 => first_handle(&mut words),
        _ => None,
    };
    asked.handle = handle.map(|range| record[range].to_vec()).unwrap_or_default();
    Some(asked)
}

/// Returns the filehandle of the first PUTFH of a COMPOUND, which comes first or after SEQUENCE.
fn first_handle(words: &mut Words<'_>) -> Option<Range<usize>> {
    words.opaque()?;
    words.word()?;
    for _ in 0..words.word()? {
        match words.word()? {
            53 => words.skip(32)?,
            22 => return words.opaque(),
            _ => return None,
        };
    }
    None
}

/// Collector of fields.
struct ReplyDecoder<'a> {
    words: Words<'a>,
    operation: &'static str,
    fields: Vec<Field>,
}

impl ReplyDecoder<'_> {
    fn field(&mut self, name: &'static str, length: usize) -> Option<u64> {
        let bytes = self.words.skip(length)?;
        let value = self.words.bytes[bytes.clone()].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        self.fields.push(Field { operation: self.operation, name, bytes });
        Some(value)
    }

    fn text(&mut self, name: &'static str) -> Option<()> {
        let bytes = self.words.opaque()?;
        self.fields.push(Field { operation: self.operation, name, bytes });
        Some(())
    }

    /// Decodes fattr3. RFC 1813 section 2.6.
    fn fattr3(&mut self, prefix: Names) -> Option<()> {
        for (name, length) in prefix.iter().zip([4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8]) {
            self.field(name, length)?;
        }
        Some(())
    }

    fn post_op(&mut self, prefix: Names) -> Option<()> {
        if self.words.word()? == 1 { self.fattr3(prefix) } else { Some(()) }
    }

    fn wcc(&mut self, names: Names) -> Option<()> {
        if self.words.word()? == 1 {
            self.field("before.size", 8)?;
            self.field("before.mtime", 8)?;
            self.field("before.ctime", 8)?;
        }
        self.post_op(names)
    }

    fn v3(&mut self, procedure: u32) -> Option<()> {
        if procedure == 0 {
            return Some(());
        }
        let is_ok = self.field("status", 4)? == 0;
        match (procedure, is_ok) {
            (1, true) => self.fattr3(OBJECT),
            (1, false) => Some(()),
            (2, _) => self.wcc(AFTER),
            (3, true) => {
                self.text("object")?;
                self.post_op(OBJECT)?;
                self.post_op(DIRECTORY)
            }
            (3, false) => self.post_op(DIRECTORY),
            (4, _) => {
                self.post_op(OBJECT)?;
                if is_ok { self.field("access", 4).map(drop) } else { Some(()) }
            }
            (5, _) => {
                self.post_op(OBJECT)?;
                if is_ok { self.text("data") } else { Some(()) }
            }
            (6, _) => {
                self.post_op(OBJECT)?;
                if is_ok {
                    self.field("count", 4)?;
                    self.field("eof", 4)?;
                    self.text("data")?;
                }
                Some(())
            }
            (7, _) => {
                self.wcc(AFTER)?;
                if is_ok {
                    self.field("count", 4)?;
                    self.field("committed", 4)?;
                    self.field("verf", 8)?;
                }
                Some(())
            }
            (8..=11, true) => {
                if self.words.word()? == 1 {
                    self.text("obj")?;
                }
                self.post_op(OBJECT)?;
                self.wcc(DIRECTORY)
            }
            (8..=13, _) => self.wcc(DIRECTORY),
            (14, _) => {
                self.wcc(DIRECTORY)?;
                self.wcc(TARGET)
            }
            (15, _) => {
                self.post_op(OBJECT)?;
                self.wcc(DIRECTORY)
            }
            (16 | 17, true) => self.v3_list(procedure == 17),
            (16 | 17, false) => self.post_op(DIRECTORY),
            // Linux returns no attributes there, so that a recording of it has none.
            (18..=20, _) => Some(()),
            (21, _) => {
                self.wcc(AFTER)?;
                if is_ok { self.field("verf", 8).map(drop) } else { Some(()) }
            }
            _ => None,
        }
    }

    fn v3_list(&mut self, is_plus: bool) -> Option<()> {
        self.post_op(DIRECTORY)?;
        self.words.skip(8)?;
        while self.words.word()? == 1 {
            self.field("entry.fileid", 8)?;
            self.text("entry.name")?;
            self.words.skip(8)?;
            if is_plus {
                self.post_op(ENTRY)?;
                if self.words.word()? == 1 {
                    self.text("entry.handle")?;
                }
            }
        }
        self.field("eof", 4).map(drop)
    }

    fn change_info(&mut self, [before, after]: [&'static str; 2]) -> Option<()> {
        self.words.skip(4)?;
        self.field(before, 8)?;
        self.field(after, 8).map(drop)
    }

    fn v4(&mut self) -> Option<()> {
        self.words.word()?;
        self.words.opaque()?;
        for _ in 0..self.words.word()? {
            let number = self.words.word()?;
            let name = OPERATIONS.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)?;
            self.operation = name;
            let is_ok = self.field("status", 4)? == 0;
            // attrsset is present for every status.
            if number == 34 {
                self.words.bitmap()?;
            } else if is_ok {
                self.v4_result(number)?;
            } else if matches!(number, 12 | 13 | 35) {
                return None;
            }
        }
        Some(())
    }

    fn v4_result(&mut self, number: u32) -> Option<()> {
        const INFO: [&str; 2] = ["cinfo.before", "cinfo.after"];
        match number {
            3 => {
                self.words.skip(4)?;
                self.field("access", 4)?;
            }
            4 | 14 | 20 | 21 | 12 => {
                self.field("seqid", 4)?;
                self.field("other", 12)?;
            }
            5 => _ = self.field("writeverf", 8)?,
            6 => {
                self.change_info(INFO)?;
                self.words.bitmap()?;
            }
            9 => self.fattr4(false)?,
            10 => self.text("object")?,
            11 | 28 | 73 | 75 => self.change_info(INFO)?,
            18 => self.open(INFO)?,
            25 => {
                self.field("eof", 4)?;
                self.text("data")?;
            }
            26 => {
                self.words.skip(8)?;
                while self.words.word()? == 1 {
                    self.words.skip(8)?;
                    self.text("entry.name")?;
                    self.fattr4(true)?;
                }
                self.field("eof", 4)?;
            }
            27 => self.text("link")?,
            29 => {
                self.change_info(INFO)?;
                self.change_info(["target_cinfo.before", "target_cinfo.after"])?;
            }
            35 => _ = self.words.skip(16)?,
            38 => {
                self.field("count", 4)?;
                self.field("committed", 4)?;
                self.field("writeverf", 8)?;
            }
            41 => _ = self.words.skip(24)?,
            42 => {
                self.field("clientid", 8)?;
                return None;
            }
            43 => {
                self.field("sessionid", 16)?;
                return None;
            }
            53 => {
                self.field("sessionid", 16)?;
                self.field("sequenceid", 4)?;
                self.words.skip(12)?;
                self.field("status_flags", 4)?;
            }
            69 => {
                self.field("eof", 4)?;
                self.field("offset", 8)?;
            }
            // Void.
            7 | 8 | 13 | 15 | 16 | 17 | 19 | 22 | 23 | 24 | 30 | 31 | 32 | 36 | 37 | 39 | 40 | 44 | 45 | 57 | 58
            | 59 | 62 | 71 => {}
            _ => return None,
        }
        Some(())
    }

    /// Decodes OPEN4resok. RFC 8881 section 18.16.2.
    fn open(&mut self, info: [&'static str; 2]) -> Option<()> {
        self.field("seqid", 4)?;
        self.field("other", 12)?;
        self.change_info(info)?;
        self.words.skip(4)?;
        self.words.bitmap()?;
        match self.words.word()? {
            0 => {}
            kind @ (1 | 2 | 4 | 5) => {
                self.words.skip(20 + if matches!(kind, 2 | 5) { 12 } else { 0 } + 12)?;
                self.words.opaque()?;
            }
            3 => {
                if matches!(self.words.word()?, 1 | 2) {
                    self.words.skip(4)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Decodes fattr4: a mask, and the values in the order of their bits. RFC 8881 sections 3.3.2 and 5.
    fn fattr4(&mut self, is_entry: bool) -> Option<()> {
        let start = self.words.at;
        let mask = self.words.bitmap()?;
        let values = self.words.opaque()?;
        let after = self.words.at;
        let name = if is_entry { "entry.attributes" } else { "attributes" };
        self.fields.push(Field { operation: self.operation, name, bytes: start..after });
        self.words.at = values.start;
        let bits = (0..mask.len() as u32 * 32).filter(|bit| mask[*bit as usize / 32] & 1 << (bit % 32) != 0);
        for bit in bits {
            if self.attribute(bit, is_entry).is_none() {
                break;
            }
        }
        self.words.at = after;
        Some(())
    }

    fn attribute(&mut self, bit: u32, is_entry: bool) -> Option<()> {
        let named = NAMED.iter().find(|(of, ..)| *of == bit);
        if let Some((_, length, name, of_entry)) = named {
            let name = if is_entry { of_entry } else { name };
            return match length {
                0 => self.text(name),
                length => self.field(name, *length).map(drop),
            };
        }
        match bit {
            0 | 75 => _ = self.words.bitmap()?,
            2 | 5 | 6 | 7 | 9 | 10 | 11 | 13..=18 | 25 | 26 | 28 | 29 | 34 | 46 | 79 | 82 => {
                self.words.skip(4)?;
            }
            21 | 22 | 23 | 27 | 30 | 31 | 38..=45 => _ = self.words.skip(8)?,
            47 | 49 | 50 | 51 => _ = self.words.skip(12)?,
            19 => _ = self.words.opaque()?,
            _ => return None,
        }
        Some(())
    }
}

/// Attributes by number: length, 0 for text, and names in GETATTR and in a directory entry.
const NAMED: &[(u32, usize, &str, &str)] = &[
    (1, 4, "type", "entry.type"),
    (3, 8, "change", "entry.change"),
    (4, 8, "size", "entry.size"),
    (8, 16, "fsid", "entry.fsid"),
    (20, 8, "fileid", "entry.fileid"),
    (33, 4, "mode", "entry.mode"),
    (35, 4, "numlinks", "entry.numlinks"),
    (36, 0, "owner", "entry.owner"),
    (37, 0, "owner_group", "entry.owner_group"),
    (45, 8, "space_used", "entry.space_used"),
    (52, 12, "time_metadata", "entry.time_metadata"),
    (53, 12, "time_modify", "entry.time_modify"),
    (55, 8, "mounted_on_fileid", "entry.mounted_on_fileid"),
];

type Names = [&'static str; 13];

const OBJECT: Names =
    ["type", "mode", "nlink", "uid", "gid", "size", "used", "rdev", "fsid", "fileid", "atime", "mtime", "ctime"];
const AFTER: Names = [
    "after.type",
    "after.mode",
    "after.nlink",
    "after.uid",
    "after.gid",
    "after.size",
    "after.used",
    "after.rdev",
    "after.fsid",
    "after.fileid",
    "after.atime",
    "after.mtime",
    "after.ctime",
];
const DIRECTORY: Names = [
    "dir.type",
    "dir.mode",
    "dir.nlink",
    "dir.uid",
    "dir.gid",
    "dir.size",
    "dir.used",
    "dir.rdev",
    "dir.fsid",
    "dir.fileid",
    "dir.atime",
    "dir.mtime",
    "dir.ctime",
];
const TARGET: Names = [
    "todir.type",
    "todir.mode",
    "todir.nlink",
    "todir.uid",
    "todir.gid",
    "todir.size",
    "todir.used",
    "todir.rdev",
    "todir.fsid",
    "todir.fileid",
    "todir.atime",
    "todir.mtime",
    "todir.ctime",
];
const ENTRY: Names = [
    "entry.type",
    "entry.mode",
    "entry.nlink",
    "entry.uid",
    "entry.gid",
    "entry.size",
    "entry.used",
    "entry.rdev",
    "entry.fsid",
    "entry.attr_fileid",
    "entry.atime",
    "entry.mtime",
    "entry.ctime",
];

const PROCEDURES: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

const OPERATIONS: &[(u32, &str)] = &[
    (3, "ACCESS"),
    (4, "CLOSE"),
    (5, "COMMIT"),
    (6, "CREATE"),
    (7, "DELEGPURGE"),
    (8, "DELEGRETURN"),
    (9, "GETATTR"),
    (10, "GETFH"),
    (11, "LINK"),
    (12, "LOCK"),
    (13, "LOCKT"),
    (14, "LOCKU"),
    (15, "LOOKUP"),
    (16, "LOOKUPP"),
    (17, "NVERIFY"),
    (18, "OPEN"),
    (19, "OPENATTR"),
    (20, "OPEN_CONFIRM"),
    (21, "OPEN_DOWNGRADE"),
    (22, "PUTFH"),
    (23, "PUTPUBFH"),
    (24, "PUTROOTFH"),
    (25, "READ"),
    (26, "READDIR"),
    (27, "READLINK"),
    (28, "REMOVE"),
    (29, "RENAME"),
    (30, "RENEW"),
    (31, "RESTOREFH"),
    (32, "SAVEFH"),
    (34, "SETATTR"),
    (35, "SETCLIENTID"),
    (36, "SETCLIENTID_CONFIRM"),
    (37, "VERIFY"),
    (38, "WRITE"),
    (39, "RELEASE_LOCKOWNER"),
    (40, "BACKCHANNEL_CTL"),
    (41, "BIND_CONN_TO_SESSION"),
    (42, "EXCHANGE_ID"),
    (43, "CREATE_SESSION"),
    (44, "DESTROY_SESSION"),
    (45, "FREE_STATEID"),
    (53, "SEQUENCE"),
    (57, "DESTROY_CLIENTID"),
    (58, "RECLAIM_COMPLETE"),
    (59, "ALLOCATE"),
    (62, "DEALLOCATE"),
    (69, "SEEK"),
    (71, "CLONE"),
    (73, "SETXATTR"),
    (75, "REMOVEXATTR"),
];

/// Returns the fields of an NFS Reply up to the first unknown data.
pub(crate) fn fields(asked: &ProxiedCall, record: &[u8]) -> Vec<Field> {
    let mut decoder = ReplyDecoder { words: Words { bytes: record, at: 0 }, operation: "", fields: Vec::new() };
    let _ = results(asked, &mut decoder);
    decoder.fields
}

fn results(asked: &ProxiedCall, decoder: &mut ReplyDecoder<'_>) -> Option<()> {
    let words = &mut decoder.words;
    if asked.program != 100_003 || (words.word()?, words.word()?, words.word()?) != (asked.xid, 1, 0) {
        return None;
    }
    words.word()?;
    words.opaque()?;
    if words.word()? != 0 {
        return None;
    }
    match asked.version {
        3 => {
            decoder.operation = PROCEDURES.get(asked.procedure as usize)?;
            decoder.v3(asked.procedure)
        }
        4 if asked.procedure == 1 => decoder.v4(),
        _ => None,
    }
}
