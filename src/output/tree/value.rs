//! Formatting of field values.

use std::fmt::Write as _;

use nfsrdma_analysis::filter;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldValue, FlagName};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::v2::Timeval;

use crate::output::style::Glyphs;
use crate::output::units::{ExactByteSizeText, HexBytes, quote};

const MAX_SHOWN_BYTES: usize = 32;
const MAX_SHOWN_TEXT_BYTES: usize = 256;

/// Addresses and checksums shown in hexadecimal regardless of the kind of their field, with their number of digits.
const HEX_FIELDS: [(&str, usize); 8] = [
    (field_names::RPCORDMA_RDMA_OFFSET, 16),
    (field_names::INFINIBAND_RETH_VA, 16),
    (field_names::IP_CHECKSUM, 4),
    (field_names::UDP_CHECKSUM, 4),
    (field_names::TCP_CHECKSUM, 4),
    (field_names::GRE_CHECKSUM, 4),
    (field_names::NFS_CALLBACK_IDENT, 8),
    (field_names::INFINIBAND_MAD_STATUS, 4),
];

/// Words in the labels of sizes, counts and limits, beside whose numbers the same in KiB, MiB or GiB is shown.
const SIZE_WORDS: [&str; 7] = ["count", "size", "length", "used", "bytes", "pref", "max"];

/// Appends a value; `chunk` names the chunk of data that is not in the message.
pub(super) fn write(field: &FieldDefinition, value: &FieldValue<'_>, chunk: &str, glyphs: &Glyphs, text: &mut String) {
    // Writing to a String never fails.
    let _ = match *value {
        FieldValue::Unsigned(number) => {
            write_number(field, number, text);
            Ok(())
        }
        FieldValue::Signed(number) => write!(text, "{number}"),
        FieldValue::Bool(value) => write!(text, "{value}"),
        FieldValue::Enum(number, Some(name)) if is_hex_enum(field) => write!(text, "{name} (0x{number:04x})"),
        FieldValue::Enum(number, Some(name)) => write!(text, "{name} ({number})"),
        FieldValue::Enum(number, None) => write!(text, "{number} (unknown)"),
        FieldValue::Flags(mask, names) => {
            flags(mask, names, text);
            Ok(())
        }
        FieldValue::Bytes(bytes) => {
            opaque(bytes, glyphs, text);
            Ok(())
        }
        FieldValue::Text(bytes) => {
            quoted(bytes, glyphs, text);
            Ok(())
        }
        FieldValue::Ipv4(address) => write!(text, "{address}"),
        FieldValue::Ipv6(address) => write!(text, "{address}"),
        FieldValue::Ethernet([a, b, c, d, e, f]) => {
            write!(text, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
        }
        FieldValue::Chunk(length, bytes) => {
            if let Some(bytes) = bytes {
                match field.kind {
                    FieldKind::Text => quoted(bytes, glyphs, text),
                    _ => opaque(bytes, glyphs, text),
                }
                text.push(' ');
            }
            write!(text, "({length} bytes in {chunk})")
        }
    };
}

/// Maximum number of bytes of a value in a display filter.
const MAX_LITERAL_BYTES: usize = 128;

/// Returns the value in display filter syntax, or `None` if it has no such form or is too long.
pub(super) fn literal(value: &FieldValue<'_>) -> Option<String> {
    let octets = |bytes: &[u8]| {
        let bytes = bytes.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    };
    Some(match *value {
        FieldValue::Unsigned(number) | FieldValue::Flags(number, _) => number.to_string(),
        FieldValue::Signed(number) => number.to_string(),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Enum(number, _) => number.to_string(),
        FieldValue::Bytes(bytes) if (1..=MAX_LITERAL_BYTES).contains(&bytes.len()) => octets(bytes),
        FieldValue::Text(bytes) if bytes.len() <= MAX_LITERAL_BYTES => filter::quoted(bytes),
        FieldValue::Ipv4(address) => address.to_string(),
        FieldValue::Ipv6(address) => address.to_string(),
        FieldValue::Ethernet(address) => octets(&address),
        _ => return None,
    })
}

/// Returns `true` if numbers of an enumeration are usually written in hexadecimal: ether types.
fn is_hex_enum(field: &FieldDefinition) -> bool {
    matches!(
        field.name,
        field_names::ETH_TYPE | field_names::VLAN_ETYPE | field_names::SLL_ETYPE | field_names::GRE_PROTO
    )
}

fn write_number(field: &FieldDefinition, number: u64, text: &mut String) {
    let digits = match field.kind {
        FieldKind::Hex(digits) => Some(usize::from(digits)),
        _ => HEX_FIELDS.iter().find(|(name, _)| *name == field.name).map(|(_, digits)| *digits),
    };
    if let Some(digits) = digits {
        let _ = write!(text, "0x{number:0digits$x}");
        return;
    }
    let _ = write!(text, "{number}");
    if field.name == field_names::NFS_TIMEVAL_USECONDS && number == u64::from(Timeval::SERVER_TIME_USECONDS) {
        text.push_str(" (set to server time)");
    }
    let is_size = SIZE_WORDS.iter().any(|word| field.label.contains(word));
    if is_size && number == u64::MAX {
        text.push_str(" (to the end)");
    } else if is_size && number >= 10 << 10 && number.is_multiple_of(1 << 10) {
        let _ = write!(text, " ({})", ExactByteSizeText(number));
    }
}

/// Appends the names of the set bits; a name of several bits replaces the names of its single bits.
fn flags(mask: u64, names: &[FlagName], text: &mut String) {
    if names.first().is_some_and(|(_, name)| name.starts_with("S_I") || name.starts_with("MODE4_")) {
        let _ = write!(text, "{mask:04o} ({})", UnixPermissionsText(mask));
        return;
    }
    let mut remaining = mask;
    let start = text.len();
    for (bits, name) in names {
        let is_part = names.iter().any(|(other, _)| other != bits && other & bits == *bits && mask & other == *other);
        if remaining & bits == *bits && *bits != 0 && !is_part {
            if text.len() > start {
                text.push_str(", ");
            }
            text.push_str(name);
            remaining &= !bits;
        }
    }
    let has_names = text.len() > start;
    let _ = match (mask, remaining) {
        (0, _) => write!(text, "none"),
        (_, 0) => write!(text, " (0x{mask:x})"),
        _ if has_names => write!(text, ", unknown 0x{remaining:x} (0x{mask:x})"),
        _ => write!(text, "0x{mask:x}"),
    };
}

/// Permissions as shown by ls(1): `rwxr-xr-x`.
struct UnixPermissionsText(u64);

impl std::fmt::Display for UnixPermissionsText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(mode) = *self;
        let special = [(0x800, 's', 'S'), (0x400, 's', 'S'), (0x200, 't', 'T')];
        for ((bit, executable, not_executable), shift) in special.into_iter().zip([6, 3, 0]) {
            let permissions = mode >> shift & 7;
            f.write_str(if permissions & 4 != 0 { "r" } else { "-" })?;
            f.write_str(if permissions & 2 != 0 { "w" } else { "-" })?;
            let last = match (mode & bit != 0, permissions & 1 != 0) {
                (false, true) => 'x',
                (false, false) => '-',
                (true, true) => executable,
                (true, false) => not_executable,
            };
            f.write_char(last)?;
        }
        Ok(())
    }
}

/// Appends opaque data: as text if all bytes are printable ASCII, else in hexadecimal.
pub(super) fn opaque(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    if bytes.is_empty() {
        text.push_str("<empty>");
    } else if bytes.len() >= 4 && bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        quoted(bytes, glyphs, text);
    } else {
        let prefix = bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes);
        let _ = write!(text, "{}", HexBytes(prefix));
        push_truncation(bytes.len(), prefix.len(), glyphs, text);
    }
}

fn quoted(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    let prefix = bytes.get(..MAX_SHOWN_TEXT_BYTES).unwrap_or(bytes);
    quote(prefix, glyphs, text);
    push_truncation(bytes.len(), prefix.len(), glyphs, text);
}

fn push_truncation(length: usize, shown_length: usize, glyphs: &Glyphs, text: &mut String) {
    if shown_length < length {
        let _ = write!(text, "{} ({length} bytes)", glyphs.cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn field(name: &'static str, label: &'static str, kind: FieldKind) -> FieldDefinition {
        FieldDefinition { name, label, kind, doc: "" }
    }

    fn written(field: &FieldDefinition, value: FieldValue<'_>) -> String {
        let mut text = String::new();
        write(field, &value, "Write chunk 0", &Glyphs::UNICODE, &mut text);
        text
    }

    #[test]
    fn each_size_word_is_in_the_label_of_a_number() {
        let registry = nfsrdma_dissectors::catalog::all_fields();
        for word in SIZE_WORDS {
            let is_in = |field: &FieldDefinition| field.kind == FieldKind::Unsigned && field.label.contains(word);
            let mut fields = registry.fields().flat_map(|(_, fields)| fields);
            assert!(fields.any(|entry| is_in(entry.field)), "{word}");
        }
    }

    #[test]
    fn numbers_have_the_notation_of_their_field() {
        let plain = field("nfs.x", "x", FieldKind::Unsigned);
        assert_eq!(written(&plain, FieldValue::Unsigned(65_536)), "65536");
        let count = field("nfs.count4", "count", FieldKind::Unsigned);
        assert_eq!(written(&count, FieldValue::Unsigned(65_536)), "65536 (64 KiB)");
        assert_eq!(written(&count, FieldValue::Unsigned(2_000)), "2000");
        assert_eq!(written(&count, FieldValue::Unsigned(u64::MAX)), "18446744073709551615 (to the end)");
        let useconds = field("nfs.timeval.useconds", "useconds", FieldKind::Unsigned);
        assert_eq!(written(&useconds, FieldValue::Unsigned(999_999)), "999999");
        assert_eq!(written(&useconds, FieldValue::Unsigned(1_000_000)), "1000000 (set to server time)");
        let handle = field("rpcordma.rdma_handle", "handle", FieldKind::Hex(8));
        assert_eq!(written(&handle, FieldValue::Unsigned(0xaf3)), "0x00000af3");
        let offset = field("rpcordma.rdma_offset", "offset", FieldKind::Unsigned);
        assert_eq!(written(&offset, FieldValue::Unsigned(0xaf3)), "0x0000000000000af3");
    }

    #[test]
    fn enumerations_have_name_and_number() {
        let op = field("nfs.opcode", "op", FieldKind::Enum);
        assert_eq!(written(&op, FieldValue::Enum(25, Some("READ"))), "READ (25)");
        assert_eq!(written(&op, FieldValue::Enum(250, None)), "250 (unknown)");
    }

    #[test]
    fn flags_are_named_and_unnamed_bits_are_shown() {
        let field = field("nfs.share", "share", FieldKind::Flags);
        let names: &[FlagName] = &[(1, "READ"), (2, "WRITE"), (3, "BOTH"), (4, "DENY"), (4, "DENY_ALIAS")];
        let written = |mask| written(&field, FieldValue::Flags(mask, names));
        assert_eq!(written(0), "none");
        assert_eq!(written(1), "READ (0x1)");
        assert_eq!(written(3), "BOTH (0x3)");
        assert_eq!(written(6), "WRITE, DENY (0x6)");
        assert_eq!(written(0x11), "READ, unknown 0x10 (0x11)");
        assert_eq!(written(0x10), "0x10");
    }

    #[test]
    fn modes_are_octal_and_as_ls_shows_them() {
        let mode = field("nfs.mode", "mode", FieldKind::Flags);
        let written = |mask| written(&mode, FieldValue::Flags(mask, &[(0x800, "MODE4_SUID")]));
        assert_eq!(written(0o644), "0644 (rw-r--r--)");
        assert_eq!(written(0o4755), "4755 (rwsr-xr-x)");
        assert_eq!(written(0o1666), "1666 (rw-rw-rwT)");
    }

    #[test]
    fn bytes_are_hex_text_where_they_are_text_and_short() {
        let data = field("nfs.data", "data", FieldKind::Bytes);
        assert_eq!(written(&data, FieldValue::Bytes(b"\x01\xff")), "01ff");
        assert_eq!(written(&data, FieldValue::Bytes(b"")), "<empty>");
        assert_eq!(written(&data, FieldValue::Bytes(b"Linux client")), "\"Linux client\"");
        let expected = format!("{}… (400 bytes)", "07".repeat(32));
        assert_eq!(written(&data, FieldValue::Bytes(&[7; 400])), expected);
        assert_eq!(written(&data, FieldValue::Chunk(2_000, None)), "(2000 bytes in Write chunk 0)");
        assert_eq!(written(&data, FieldValue::Chunk(2, Some(&[1, 2]))), "0102 (2 bytes in Write chunk 0)");
        let link = field("nfs.link", "link", FieldKind::Text);
        assert_eq!(written(&link, FieldValue::Chunk(2, Some(b"ab"))), "\"ab\" (2 bytes in Write chunk 0)");
        assert_eq!(written(&link, FieldValue::Text(b"a\n")), "\"a\\n\"");
    }
}
