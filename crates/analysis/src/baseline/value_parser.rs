//! The parser of values that [`ComparedFieldValue`] writes. The type of the field selects the form of the text.

use crate::comparison::field_equality::MappedIdentifierType;
use crate::comparison::record::{ComparedFieldValue, MaskBitNames};
use crate::filter::catalog::FilterFieldCatalogEntry;
use crate::filter::filter_type::FilterType;

/// Parses the value of a field with this catalogue entry; returns `None` if the text is not in canonical form.
pub(super) fn value(text: &str, entry: Option<&'static FilterFieldCatalogEntry>) -> Option<ComparedFieldValue> {
    let value = match text.bytes().next()? {
        b'"' => ComparedFieldValue::Text(unquoted(text)?.into()),
        b'0'..=b'9' | b'-' => number(text, entry)?,
        _ => word(text, entry)?,
    };
    // Each value has one text form.
    (value.to_string() == text).then_some(value)
}

fn number(text: &str, entry: Option<&'static FilterFieldCatalogEntry>) -> Option<ComparedFieldValue> {
    if let Some((length, hash)) = text.split_once(':') {
        let length = length.parse().ok()?;
        return match hash {
            "?" => Some(ComparedFieldValue::Unknown(length)),
            _ => Some(ComparedFieldValue::Digest(length, u128::from_str_radix(hash, 16).ok()?)),
        };
    }
    if let Some((count, hash)) = text.split_once('*') {
        return Some(ComparedFieldValue::Fold(count.parse().ok()?, u64::from_str_radix(hash, 16).ok()?));
    }
    if let Some(mask) = text.strip_prefix("0x") {
        let names = entry.map_or(&[][..], |entry| &entry.names);
        return Some(ComparedFieldValue::Flags(u64::from_str_radix(mask, 16).ok()?, MaskBitNames(names)));
    }
    match entry.map(|entry| entry.kind) {
        Some(FilterType::Signed) => text.parse().ok().map(ComparedFieldValue::Signed),
        None if text.starts_with('-') => text.parse().ok().map(ComparedFieldValue::Signed),
        _ => text.parse().ok().map(ComparedFieldValue::Number),
    }
}

fn word(text: &str, entry: Option<&'static FilterFieldCatalogEntry>) -> Option<ComparedFieldValue> {
    if let Some(name) = entry.and_then(|entry| entry.names.iter().find(|(_, name)| *name == text)) {
        return Some(ComparedFieldValue::Named(name.1));
    }
    if let Some((kind, hash)) = text.split_once(':') {
        let identity = MappedIdentifierType::from_word(kind)?;
        return Some(ComparedFieldValue::Name(identity, u32::from_str_radix(hash, 16).ok()?));
    }
    match text {
        "true" => return Some(ComparedFieldValue::Bool(true)),
        "false" => return Some(ComparedFieldValue::Bool(false)),
        _ => {}
    }
    if let Some(bytes) = text.strip_prefix('x').and_then(hex) {
        return Some(ComparedFieldValue::Bytes(bytes.into()));
    }
    // The name of a number that this program does not know.
    let is_name = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    (is_name && text.starts_with(|letter: char| letter.is_ascii_alphabetic()))
        .then(|| ComparedFieldValue::UnknownName(text.into()))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(rest.get(..at)?.as_bytes());
        rest = rest.get(at + 1..)?;
        let escape = rest.chars().next()?;
        rest = rest.get(escape.len_utf8()..)?;
        match escape {
            '"' | '\\' => bytes.push(escape as u8),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'x' => {
                bytes.extend(hex(rest.get(..2)?)?);
                rest = rest.get(2..)?;
            }
            'u' => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::catalog::FilterFieldCatalog;

    fn of(field: &str, text: &str) -> Option<ComparedFieldValue> {
        value(text, FilterFieldCatalog::shared().get(field))
    }

    #[test]
    fn values_have_the_type_of_their_field() {
        assert_eq!(of("nfs.count4", "4096"), Some(ComparedFieldValue::Number(4096)));
        assert_eq!(of("nfs.nfsstat4", "NFS4_OK"), Some(ComparedFieldValue::Named("NFS4_OK")));
        assert_eq!(
            of("nfs.fhandle", "filehandle:62d40c52"),
            Some(ComparedFieldValue::Name(MappedIdentifierType::Filehandle, 0x62d4_0c52))
        );
        assert_eq!(of("nfs.fhandle", "x00ff"), Some(ComparedFieldValue::Bytes([0, 255].into())));
        assert_eq!(of("nfs.data", "100:?"), Some(ComparedFieldValue::Unknown(100)));
        assert_eq!(of("nfs.eof", "true"), Some(ComparedFieldValue::Bool(true)));
        let shown = of("nfs.access_rights", "0x1").or_else(|| of("nfs.mode3", "0x1ed"));
        assert!(matches!(shown, Some(ComparedFieldValue::Flags(..))));
    }

    #[test]
    fn values_in_another_notation_are_refused() {
        for text in ["+4", "007", "0x01", "xAB", "4:12", "\"a", "filehandle:1", "5*9", ""] {
            assert_eq!(value(text, None), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatted_values_are_parsed_back(text: Vec<u8>, number: u64, signed: i64, hash: u128) {
            for datum in [
                ComparedFieldValue::Text(text.clone().into()),
                ComparedFieldValue::Bytes(text.into()),
                ComparedFieldValue::Number(number),
                ComparedFieldValue::Signed(signed.min(-1)),
                ComparedFieldValue::Digest(number, hash),
                ComparedFieldValue::Fold(number, hash as u64),
                ComparedFieldValue::Name(MappedIdentifierType::Cookie, number as u32),
            ] {
                prop_assert_eq!(value(&datum.to_string(), None), Some(datum));
            }
        }
    }
}
