//! Arguments and results as JSON, by kind of field.

use std::str;

use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldValue, FlagName};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use serde::ser::{Serialize, Serializer};

use super::field_buffer::{BufferedField, BufferedFieldContent};
use super::object::json_object;

/// Maximum length in bytes of opaque data shown in hexadecimal: filehandles, owners, tokens.
const MAX_OPAQUE_BYTES: usize = 1_024;

/// Labels of data items and remainders of which only the length is shown.
const LENGTH_ONLY_LABELS: [&str; 9] = [
    field_labels::DATA,
    field_labels::D_DATA,
    field_labels::ADB_PATTERN,
    field_labels::GXR_VALUE,
    field_labels::SXA_VALUE,
    field_labels::ATTR_VALS,
    field_labels::NOTIFY_VALS,
    field_labels::THI_HINTLIST,
    field_labels::UNDECODED,
];

/// Fields of a structure, or of one operation of a COMPOUND: the items of a buffer between two indexes.
#[derive(Clone, Copy)]
pub(super) struct BufferedStructureFields<'t, 'a> {
    items: &'t [BufferedField<'a>],
    at: usize,
    end: usize,
}

/// Field, with all its values if it is a list or a bitmap.
#[derive(Clone, Copy)]
pub(super) struct JsonMember<'t, 'a> {
    pub(super) key: &'static str,
    is_list: bool,
    values: BufferedStructureFields<'t, 'a>,
}

impl<'t, 'a> BufferedStructureFields<'t, 'a> {
    pub(super) fn new(items: &'t [BufferedField<'a>], at: usize, end: usize) -> Self {
        Self { items, at, end: end.min(items.len()) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.at >= self.end
    }

    pub(super) fn has(mut self, key: &str) -> bool {
        self.any(|member| member.key == key)
    }

    fn item(self) -> Option<&'t BufferedField<'a>> {
        if self.at < self.end { self.items.get(self.at) } else { None }
    }

    /// Returns the next item and skips its content.
    fn next_item(&mut self) -> Option<&'t BufferedField<'a>> {
        let item = self.item()?;
        self.at = match item.content {
            BufferedFieldContent::Group(end) => end.max(self.at + 1),
            _ => self.at + 1,
        };
        Some(item)
    }

    /// Returns the fields of the structure that [`BufferedStructureFields::next_item`] returned from index `at`.
    fn fields_of(self, at: usize, end: usize) -> Self {
        Self { items: self.items, at: at + 1, end: end.min(self.items.len()) }
    }
}

impl<'t, 'a> Iterator for BufferedStructureFields<'t, 'a> {
    type Item = JsonMember<'t, 'a>;

    fn next(&mut self) -> Option<JsonMember<'t, 'a>> {
        let first = self.item()?;
        let is_list = matches!(first.content, BufferedFieldContent::List);
        if is_list {
            self.at += 1;
        }
        let at = self.at;
        while let Some(item) = self.item()
            && item.field.label == first.field.label
            && !matches!(item.content, BufferedFieldContent::List)
        {
            self.next_item();
        }
        let values = BufferedStructureFields { items: self.items, at, end: self.at };
        Some(JsonMember { key: first.field.label, is_list, values })
    }
}

impl Serialize for JsonMember<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut values = self.values;
        let first = values.next_item();
        let is_mask =
            |item: &BufferedField<'_>| matches!(item.content, BufferedFieldContent::Value(FieldValue::Flags(..)));
        match first {
            Some(first) if !self.is_list && is_mask(first) && !is_mode(first) => {
                serializer.collect_seq(mask_names(self.values))
            }
            Some(_) if !self.is_list && values.is_empty() => JsonFieldValue(self.values).serialize(serializer),
            _ => {
                let mut values = self.values;
                serializer.collect_seq(std::iter::from_fn(|| {
                    let at = values.at;
                    values.next_item()?;
                    Some(JsonFieldValue(BufferedStructureFields { items: values.items, at, end: values.at }))
                }))
            }
        }
    }
}

/// Single value: an item with its content.
#[derive(Clone, Copy)]
struct JsonFieldValue<'t, 'a>(BufferedStructureFields<'t, 'a>);

impl Serialize for JsonFieldValue<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(item) = self.0.item() else { return serializer.serialize_none() };
        match item.content {
            BufferedFieldContent::List => serializer.serialize_none(),
            BufferedFieldContent::Group(end) => structure(self.0.fields_of(self.0.at, end), serializer),
            BufferedFieldContent::Value(value) => scalar(item, value, serializer),
        }
    }
}

/// Writes a structure as an object, or as one value if it is a stateid or a time.
fn structure<S: Serializer>(fields: BufferedStructureFields<'_, '_>, serializer: S) -> Result<S::Ok, S::Error> {
    let values = |at: usize| match fields.items.get(at).filter(|_| at < fields.end)?.content {
        BufferedFieldContent::Value(value) => Some(value),
        _ => None,
    };
    let name = fields.item().map_or("", |item| item.field.name);
    match (name, values(fields.at), values(fields.at + 1)) {
        (field_names::NFS_STATEID_SEQID, Some(FieldValue::Unsigned(seqid)), Some(FieldValue::Bytes(other))) => {
            let mut buffer = [0; 64];
            match hex(other, &mut buffer) {
                Some(other) => serializer.collect_str(&format_args!("{other}:{seqid}")),
                None => serializer.serialize_none(),
            }
        }
        (
            field_names::NFS_NFSTIME4_SECONDS,
            Some(FieldValue::Signed(seconds)),
            Some(FieldValue::Unsigned(nseconds)),
        ) => time(i128::from(seconds), nseconds, serializer),
        (
            field_names::NFS_NFSTIME3_SECONDS,
            Some(FieldValue::Unsigned(seconds)),
            Some(FieldValue::Unsigned(nseconds)),
        ) => time(i128::from(seconds), nseconds, serializer),
        _ => fields.serialize(serializer),
    }
}

impl Serialize for BufferedStructureFields<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.map(|member| (member.key, member)))
    }
}

/// Writes a time as `seconds.nanoseconds`, like every time in a line.
fn time<S: Serializer>(seconds: i128, nseconds: u64, serializer: S) -> Result<S::Ok, S::Error> {
    let total = seconds * 1_000_000_000 + i128::from(nseconds);
    let (sign, total) = (if total < 0 { "-" } else { "" }, total.unsigned_abs());
    serializer.collect_str(&format_args!("{sign}{}.{:09}", total / 1_000_000_000, total % 1_000_000_000))
}

/// Fields of 64-bit identifiers.
const IDENTIFIERS: [&str; 11] = [
    field_names::NFS_CLIENTID,
    field_names::NFS_CHANGEID4,
    field_names::NFS_CHANGEID4_BEFORE,
    field_names::NFS_CHANGEID4_AFTER,
    field_names::NFS_COOKIE3,
    field_names::NFS_COOKIE4,
    field_names::NFS_READDIR_COOKIE,
    field_names::NFS_READDIR_ENTRY_COOKIE,
    field_names::NFS_READDIR_ENTRY3_COOKIE,
    field_names::NFS_READDIRPLUS_ENTRY_COOKIE,
    field_names::NFS_LISXTATTR_COOKIE,
];

/// Returns `true` if the numbers of a field are 64-bit identifiers: client ids, change ids and cookies. They use all
/// bits, and JSON readers with floating point numbers would round them.
fn is_identifier(field: &FieldDefinition) -> bool {
    IDENTIFIERS.contains(&field.name)
}

/// Largest integer that JSON readers with floating point numbers, such as jq, represent exactly: RFC 8259 section 6.
const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;

fn scalar<S: Serializer>(item: &BufferedField<'_>, value: FieldValue<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        FieldValue::Unsigned(number) if is_identifier(item.field) => {
            serializer.collect_str(&format_args!("{number:#018x}"))
        }
        FieldValue::Unsigned(number) if number > MAX_EXACT_INTEGER => serializer.collect_str(&number),
        FieldValue::Unsigned(number) => serializer.serialize_u64(number),
        FieldValue::Signed(number) if number.unsigned_abs() > MAX_EXACT_INTEGER => serializer.collect_str(&number),
        FieldValue::Signed(number) => serializer.serialize_i64(number),
        FieldValue::Bool(value) => serializer.serialize_bool(value),
        FieldValue::Enum(_, Some("TRUE")) => serializer.serialize_bool(true),
        FieldValue::Enum(_, Some("FALSE")) => serializer.serialize_bool(false),
        FieldValue::Enum(_, Some(name)) => serializer.serialize_str(name),
        FieldValue::Enum(number, None) => serializer.collect_str(&number),
        FieldValue::Flags(mode, _) if is_mode(item) => serializer.collect_str(&format_args!("{mode:04o}")),
        FieldValue::Flags(mask, names) => serializer.collect_seq(flag_names(mask, names, 0)),
        FieldValue::Bytes(bytes) if is_length_only(item) => serializer.serialize_u64(bytes.len() as u64),
        FieldValue::Bytes(bytes) => opaque(bytes, serializer),
        FieldValue::Chunk(length, _) if is_length_only(item) => serializer.serialize_u32(length),
        FieldValue::Text(text) | FieldValue::Chunk(_, Some(text)) => {
            serializer.serialize_str(&String::from_utf8_lossy(text))
        }
        FieldValue::Chunk(length, _) => write_length(length.into(), serializer),
        FieldValue::Ipv4(address) => serializer.collect_str(&address),
        FieldValue::Ipv6(address) => serializer.collect_str(&address),
        FieldValue::Ethernet(address) => opaque(&address, serializer),
    }
}

fn opaque<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut buffer = [0; 2 * MAX_OPAQUE_BYTES];
    match hex(bytes, &mut buffer) {
        Some(text) => serializer.serialize_str(text),
        None => write_length(bytes.len() as u64, serializer),
    }
}

/// Writes the length of data that is too long for a line or was not captured.
fn write_length<S: Serializer>(length: u64, serializer: S) -> Result<S::Ok, S::Error> {
    json_object! { length: length }.serialize(serializer)
}

/// Returns hexadecimal digits, or `None` if the buffer is too short.
fn hex<'b>(bytes: &[u8], buffer: &'b mut [u8]) -> Option<&'b str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let text = buffer.get_mut(..bytes.len() * 2)?;
    for (byte, pair) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    str::from_utf8(text).ok()
}

/// Returns `true` if only the length is shown. In NFSv3, the text of a link has the label of file data, but is no
/// opaque data.
fn is_length_only(item: &BufferedField<'_>) -> bool {
    item.field.kind == FieldKind::Bytes && LENGTH_ONLY_LABELS.contains(&item.field.label)
}

/// Returns `true` for modes, which are written in octal digits instead of bit names.
fn is_mode(item: &BufferedField<'_>) -> bool {
    matches!(item.field.name, field_names::NFS_MODE | field_names::NFS_MODE3 | field_names::NFS_FATTR4_UMASK)
        || matches!(item.field.label, field_labels::MM_VALUE_TO_SET | field_labels::MM_MASK_BITS)
}

/// Returns the names of a mask, or of all words of a bitmap.
fn mask_names<'t>(fields: BufferedStructureFields<'t, '_>) -> impl Iterator<Item = FlagNameOrBitNumber> + use<'t> {
    let items: &'t [BufferedField<'_>] = fields.items.get(fields.at..fields.end).unwrap_or_default();
    let words = items.iter().map(|item| match item.content {
        BufferedFieldContent::Value(FieldValue::Flags(mask, names)) => (mask, names),
        _ => (0, &[][..]),
    });
    (0_u32..).zip(words).flat_map(|(word, (mask, names))| flag_names(mask, names, word * 32))
}

/// Bit of a mask.
#[derive(Clone, Copy)]
enum FlagNameOrBitNumber {
    Named(&'static str),
    /// Unnamed bit, counted from the lowest bit of the first word.
    Bit(u32),
}

impl Serialize for FlagNameOrBitNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Named(name) => serializer.serialize_str(name),
            Self::Bit(bit) => serializer.collect_str(&format_args!("bit {bit}")),
        }
    }
}

/// Returns the names of the set bits. A name of several bits (`OPEN4_SHARE_ACCESS_BOTH`) replaces the names of its
/// single bits.
fn flag_names(mask: u64, names: &'static [FlagName], first: u32) -> impl Iterator<Item = FlagNameOrBitNumber> {
    let is_set = move |flag: u64| flag != 0 && mask & flag == flag;
    let has_groups = mask != 0 && names.iter().any(|(flag, _)| flag.count_ones() > 1);
    let is_part = move |candidate: u64| {
        has_groups
            && names.iter().any(|(flag, _)| *flag != candidate && is_set(*flag) && *flag & candidate == candidate)
    };
    let set_flags = names.iter().filter(move |(flag, _)| is_set(*flag) && !is_part(*flag));
    let known_bits = names.iter().fold(0, |bits, (flag, _)| if is_set(*flag) { bits | flag } else { bits });
    let unknown = mask & !known_bits;
    let bits = (0..64).filter(move |bit| unknown >> bit & 1 == 1).map(move |bit| FlagNameOrBitNumber::Bit(first + bit));
    set_flags.map(|(_, name)| FlagNameOrBitNumber::Named(name)).chain(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mask: u64, names: &'static [FlagName], first: u32) -> String {
        serde_json::to_string(&flag_names(mask, names, first).collect::<Vec<_>>()).unwrap()
    }

    const ACCESS: &[FlagName] = &[(1, "READ"), (2, "WRITE"), (3, "BOTH"), (0x100, "WANT")];

    /// `docs/transaction.schema.json` promises hexadecimal text for client IDs, change attributes and cookies.
    #[test]
    fn every_numeric_identifier_of_the_catalog_is_in_the_table() {
        let registry = nfsrdma_dissectors::catalog::all_fields();
        for (name, fields) in registry.fields() {
            let is_number = fields.iter().any(|entry| entry.field.kind == FieldKind::Unsigned);
            let is_identifier = ["clientid", "changeid", "cookie"].iter().any(|word| name.contains(word));
            assert_eq!(is_number && is_identifier, IDENTIFIERS.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_name_of_several_bits_replaces_their_individual_names() {
        assert_eq!(names(1, ACCESS, 0), r#"["READ"]"#);
        assert_eq!(names(0x103, ACCESS, 0), r#"["BOTH","WANT"]"#);
        assert_eq!(names(0, ACCESS, 0), "[]");
    }

    #[test]
    fn a_bit_without_a_name_is_counted_from_the_first_word() {
        assert_eq!(names(0x41, ACCESS, 64), r#"["READ","bit 70"]"#);
    }

    /// RFC 8259 section 6: beyond 2^53 - 1, readers with numbers of double precision would read another number.
    #[test]
    fn rfc8259_section_6_numbers_that_floating_point_cannot_hold_are_text() {
        static FIELD: FieldDefinition =
            FieldDefinition { name: "nfs.length", label: "length", kind: FieldKind::Unsigned, doc: "" };
        let text = |value| {
            let item = BufferedField { field: &FIELD, content: BufferedFieldContent::Value(value) };
            let mut text = Vec::new();
            scalar(&item, value, &mut serde_json::Serializer::new(&mut text)).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(FieldValue::Unsigned((1 << 53) - 1)), "9007199254740991");
        assert_eq!(text(FieldValue::Unsigned((1 << 53) + 1)), "\"9007199254740993\"");
        assert_eq!(text(FieldValue::Unsigned(u64::MAX)), "\"18446744073709551615\"");
        assert_eq!(text(FieldValue::Signed(-(1 << 53) - 1)), "\"-9007199254740993\"");
        assert_eq!(text(FieldValue::Signed(-5)), "-5");
    }

    #[test]
    fn times_before_1970_are_negative() {
        let text = |seconds, nseconds| {
            let mut text = Vec::new();
            time(seconds, nseconds, &mut serde_json::Serializer::new(&mut text)).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(1_795_230_438, 5), r#""1795230438.000000005""#);
        assert_eq!(text(-1, 500_000_000), r#""-0.500000000""#);
    }
}
