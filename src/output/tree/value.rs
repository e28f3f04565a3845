//! A field's value in words.

use std::fmt::Write as _;

use nfsrdma_dissectors::field::{Field, FlagName, Kind, Value};

use crate::filter;
use crate::output::style::Glyphs;
use crate::output::units::{Exact, Hex, quote};

/// Bytes of opaque data that are shown before it is shortened.
const BYTES: usize = 32;
/// Bytes of text that are shown before it is shortened.
const TEXT: usize = 256;

/// Addresses and checksums, which people compare in hexadecimal whatever the kind of their field.
const IN_HEX: [(&str, usize); 8] = [
    ("rpcordma.rdma_offset", 16),
    ("infiniband.reth.va", 16),
    ("ip.checksum", 4),
    ("udp.checksum", 4),
    ("tcp.checksum", 4),
    ("gre.checksum", 4),
    ("nfs.callback.ident", 8),
    ("infiniband.mad.status", 4),
];

/// Writes a value; `chunk` says where data travelled that is not in the message.
pub(super) fn write(field: &Field, value: &Value<'_>, chunk: &str, glyphs: &Glyphs, text: &mut String) {
    // Writing to a String never fails.
    let _ = match *value {
        Value::Unsigned(number) => {
            number_in(field, number, text);
            Ok(())
        }
        Value::Signed(number) => write!(text, "{number}"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Enum(number, Some(name)) if in_hex(field) => write!(text, "{name} (0x{number:04x})"),
        Value::Enum(number, Some(name)) => write!(text, "{name} ({number})"),
        Value::Enum(number, None) => write!(text, "{number} (unknown)"),
        Value::Flags(mask, names) => {
            flags(mask, names, text);
            Ok(())
        }
        Value::Bytes(bytes) => {
            opaque(bytes, glyphs, text);
            Ok(())
        }
        Value::Text(bytes) => {
            quoted(bytes, glyphs, text);
            Ok(())
        }
        Value::Ipv4(address) => write!(text, "{address}"),
        Value::Ipv6(address) => write!(text, "{address}"),
        Value::Ethernet([a, b, c, d, e, f]) => {
            write!(text, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
        }
        Value::Chunk(length, bytes) => {
            if let Some(bytes) = bytes {
                match field.kind {
                    Kind::Text => quoted(bytes, glyphs, text),
                    _ => opaque(bytes, glyphs, text),
                }
                text.push(' ');
            }
            write!(text, "({length} bytes in {chunk})")
        }
    };
}

/// Bytes of a value that a display filter is made of at most.
const LITERAL: usize = 128;

/// The value as a display filter has it; `None` where it has none, or a long one.
pub(super) fn literal(value: &Value<'_>) -> Option<String> {
    let octets = |bytes: &[u8]| {
        let bytes = bytes.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    };
    Some(match *value {
        Value::Unsigned(number) | Value::Flags(number, _) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Enum(number, _) => number.to_string(),
        Value::Bytes(bytes) if (1..=LITERAL).contains(&bytes.len()) => octets(bytes),
        Value::Text(bytes) if bytes.len() <= LITERAL => filter::quoted(bytes),
        Value::Ipv4(address) => address.to_string(),
        Value::Ipv6(address) => address.to_string(),
        Value::Ethernet(address) => octets(&address),
        _ => return None,
    })
}

/// Whether the numbers of an enumeration are known in hexadecimal: ether types.
fn in_hex(field: &Field) -> bool {
    matches!(field.name, "eth.type" | "vlan.etype" | "sll.etype" | "gre.proto")
}

fn number_in(field: &Field, number: u64, text: &mut String) {
    let digits = match field.kind {
        Kind::Hex(digits) => Some(usize::from(digits)),
        _ => IN_HEX.iter().find(|(name, _)| *name == field.name).map(|(_, digits)| *digits),
    };
    if let Some(digits) = digits {
        let _ = write!(text, "0x{number:0digits$x}");
        return;
    }
    let _ = write!(text, "{number}");
    let is_size = ["count", "size", "length", "used", "bytes", "pref", "max"]
        .iter()
        .any(|word| field.label.contains(word));
    if is_size && number == u64::MAX {
        text.push_str(" (to the end)");
    } else if is_size && number >= 10 << 10 && number.is_multiple_of(1 << 10) {
        let _ = write!(text, " ({})", Exact(number));
    }
}

/// The names of the bits; where one name stands for several bits together, that one alone.
fn flags(mask: u64, names: &[FlagName], text: &mut String) {
    if names.first().is_some_and(|(_, name)| name.starts_with("S_I") || name.starts_with("MODE4_")) {
        let _ = write!(text, "{mask:04o} ({})", Permissions(mask));
        return;
    }
    let mut left = mask;
    let start = text.len();
    for (bits, name) in names {
        let is_part =
            names.iter().any(|(more, _)| more != bits && more & bits == *bits && mask & more == *more);
        if left & bits == *bits && *bits != 0 && !is_part {
            if text.len() > start {
                text.push_str(", ");
            }
            text.push_str(name);
            left &= !bits;
        }
    }
    let named = text.len() > start;
    let _ = match (mask, left) {
        (0, _) => write!(text, "none"),
        (_, 0) => write!(text, " (0x{mask:x})"),
        _ if named => write!(text, ", unknown 0x{left:x} (0x{mask:x})"),
        _ => write!(text, "0x{mask:x}"),
    };
}

/// `rwxr-xr-x`, as ls(1) has it.
struct Permissions(u64);

impl std::fmt::Display for Permissions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(mode) = *self;
        let special = [(0x800, 's', 'S'), (0x400, 's', 'S'), (0x200, 't', 'T')];
        for ((bit, with, without), shift) in special.into_iter().zip([6, 3, 0]) {
            let three = mode >> shift & 7;
            f.write_str(if three & 4 != 0 { "r" } else { "-" })?;
            f.write_str(if three & 2 != 0 { "w" } else { "-" })?;
            let last = match (mode & bit != 0, three & 1 != 0) {
                (false, true) => 'x',
                (false, false) => '-',
                (true, true) => with,
                (true, false) => without,
            };
            f.write_char(last)?;
        }
        Ok(())
    }
}

/// Bytes without meaning: as text where all of them are, else in hexadecimal.
pub(super) fn opaque(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    if bytes.is_empty() {
        text.push_str("<empty>");
    } else if bytes.len() >= 4 && bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        quoted(bytes, glyphs, text);
    } else {
        let shown = bytes.get(..BYTES).unwrap_or(bytes);
        let _ = write!(text, "{}", Hex(shown));
        shortened(bytes.len(), shown.len(), glyphs, text);
    }
}

fn quoted(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    let shown = bytes.get(..TEXT).unwrap_or(bytes);
    quote(shown, glyphs, text);
    shortened(bytes.len(), shown.len(), glyphs, text);
}

fn shortened(length: usize, shown: usize, glyphs: &Glyphs, text: &mut String) {
    if shown < length {
        let _ = write!(text, "{} ({length} bytes)", glyphs.cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn field(name: &'static str, label: &'static str, kind: Kind) -> Field {
        Field { name, label, kind, doc: "" }
    }

    fn written(field: &Field, value: Value<'_>) -> String {
        let mut text = String::new();
        write(field, &value, "Write chunk 0", &Glyphs::UNICODE, &mut text);
        text
    }

    #[test]
    fn numbers_are_shown_as_their_field_says() {
        let plain = field("nfs.x", "x", Kind::Unsigned);
        assert_eq!(written(&plain, Value::Unsigned(65_536)), "65536");
        let count = field("nfs.count4", "count", Kind::Unsigned);
        assert_eq!(written(&count, Value::Unsigned(65_536)), "65536 (64 KiB)");
        assert_eq!(written(&count, Value::Unsigned(2_000)), "2000");
        assert_eq!(written(&count, Value::Unsigned(u64::MAX)), "18446744073709551615 (to the end)");
        let handle = field("rpcordma.rdma_handle", "handle", Kind::Hex(8));
        assert_eq!(written(&handle, Value::Unsigned(0xaf3)), "0x00000af3");
        let offset = field("rpcordma.rdma_offset", "offset", Kind::Unsigned);
        assert_eq!(written(&offset, Value::Unsigned(0xaf3)), "0x0000000000000af3");
    }

    #[test]
    fn enumerations_have_name_and_number() {
        let op = field("nfs.opcode", "op", Kind::Enum);
        assert_eq!(written(&op, Value::Enum(25, Some("READ"))), "READ (25)");
        assert_eq!(written(&op, Value::Enum(250, None)), "250 (unknown)");
    }

    #[test]
    fn flags_are_named_and_what_has_no_name_is_not_lost() {
        let field = field("nfs.share", "share", Kind::Flags);
        let names: &[FlagName] = &[(1, "READ"), (2, "WRITE"), (3, "BOTH"), (4, "DENY"), (4, "DENY_ALIAS")];
        let written = |mask| written(&field, Value::Flags(mask, names));
        assert_eq!(written(0), "none");
        assert_eq!(written(1), "READ (0x1)");
        assert_eq!(written(3), "BOTH (0x3)");
        assert_eq!(written(6), "WRITE, DENY (0x6)");
        assert_eq!(written(0x11), "READ, unknown 0x10 (0x11)");
        assert_eq!(written(0x10), "0x10");
    }

    #[test]
    fn modes_are_octal_and_as_ls_shows_them() {
        let mode = field("nfs.mode", "mode", Kind::Flags);
        let written = |mask| written(&mode, Value::Flags(mask, &[(0x800, "MODE4_SUID")]));
        assert_eq!(written(0o644), "0644 (rw-r--r--)");
        assert_eq!(written(0o4755), "4755 (rwsr-xr-x)");
        assert_eq!(written(0o1666), "1666 (rw-rw-rwT)");
    }

    #[test]
    fn bytes_are_hex_text_where_they_are_text_and_short() {
        let data = field("nfs.data", "data", Kind::Bytes);
        assert_eq!(written(&data, Value::Bytes(b"\x01\xff")), "01ff");
        assert_eq!(written(&data, Value::Bytes(b"")), "<empty>");
        assert_eq!(written(&data, Value::Bytes(b"Linux client")), "\"Linux client\"");
        let expected = format!("{}… (400 bytes)", "07".repeat(32));
        assert_eq!(written(&data, Value::Bytes(&[7; 400])), expected);
        assert_eq!(written(&data, Value::Chunk(2_000, None)), "(2000 bytes in Write chunk 0)");
        assert_eq!(written(&data, Value::Chunk(2, Some(&[1, 2]))), "0102 (2 bytes in Write chunk 0)");
        let link = field("nfs.link", "link", Kind::Text);
        assert_eq!(written(&link, Value::Chunk(2, Some(b"ab"))), "\"ab\" (2 bytes in Write chunk 0)");
        assert_eq!(written(&link, Value::Text(b"a\n")), "\"a\\n\"");
    }
}
