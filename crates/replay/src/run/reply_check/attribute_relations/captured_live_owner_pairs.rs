//! Owners and groups of the captured server, with those of the live one.

use rustc_hash::FxHashMap;

use super::reply_attribute_values::ComparedAttributeKind;
use super::violations::encoding_number;
use crate::seed::file_server_client::is_root_name;

/// Maximum number of owners; the table is cleared when it is full.
const MAX_OWNERS: usize = 1 << 16;

/// Kind, `true` for objects from before the run, and captured owner or group.
type CapturedOwnerAttributeKey = (ComparedAttributeKind, bool, Box<[u8]>);

/// Live owner of each captured owner. Seeded objects may have another one until it is set.
#[derive(Debug, Default)]
pub(super) struct CapturedToLiveFileOwners {
    live: FxHashMap<CapturedOwnerAttributeKey, Box<[u8]>>,
    /// Live owners by their numbers.
    texts: FxHashMap<u128, Box<[u8]>>,
}

impl CapturedToLiveFileOwners {
    /// Records a live owner, as encoded.
    pub(super) fn record(&mut self, live: &[u8]) {
        let number = encoding_number(live);
        if !self.texts.contains_key(&number) {
            if self.texts.len() >= MAX_OWNERS {
                self.texts.clear();
            }
            self.texts.insert(number, live.into());
        }
    }

    /// Adds a captured and a live owner, as encoded. If the live one is another than before, returns both as text, and
    /// `true` if it may be [another translation](is_translation) since the server may have restarted.
    pub(super) fn insert(
        &mut self,
        kind: ComparedAttributeKind,
        is_seeded: bool,
        [recorded, live]: [&[u8]; 2],
        may_have_restarted: bool,
    ) -> Option<([String; 2], bool)> {
        if self.live.len() >= MAX_OWNERS {
            self.live.clear();
        }
        let existing = self.live.entry((kind, is_seeded, recorded.into())).or_insert_with(|| live.into());
        if **existing == *live || is_root(existing) && is_root(live) {
            return None;
        }
        let texts = [owner_text(recorded), format!("{}, then {}", owner_text(existing), owner_text(live))];
        let is_translated = may_have_restarted && is_translation(existing, live);
        if is_translated {
            *existing = live.into();
        }
        Some((texts, is_translated))
    }

    /// Returns `true` if the live owner of this number may be this one in another [translation](is_translation).
    pub(super) fn is_translation(&self, number: u128, other: &[u8]) -> bool {
        self.texts.get(&number).is_some_and(|owner| is_translation(owner, other))
    }

    /// Returns the live owner of this number in words, unless both are root, which has a name and a number.
    pub(super) fn other_than(&self, number: u128, other: &str) -> Option<String> {
        let is_known_root = ["0", "root"].into_iter().any(|root| owner_number(root) == Some(number));
        if is_known_root && is_root_name(other.as_bytes()) {
            return None;
        }
        match self.texts.get(&number) {
            Some(owner) if is_root(owner) && is_root_name(other.as_bytes()) => None,
            Some(owner) => Some(owner_text(owner)),
            None => Some("another one".to_owned()),
        }
    }
}

/// Returns the number of an owner or group as NFSv4 encodes it, without padding (RFC 8881 section 5.9).
pub(super) fn owner_number(text: &str) -> Option<u128> {
    Some(encoding_number(&encoded_owner(text)?))
}

/// Returns an owner or group as NFSv4 encodes it, without padding.
pub(super) fn encoded_owner(text: &str) -> Option<Vec<u8>> {
    let mut encoded = u32::try_from(text.len()).ok()?.to_be_bytes().to_vec();
    encoded.extend_from_slice(text.as_bytes());
    Some(encoded)
}

/// Returns the text of an encoded owner of NFSv4.
fn name(encoded: &[u8]) -> Option<&[u8]> {
    let (length, text) = encoded.split_first_chunk()?;
    text.get(..u32::from_be_bytes(*length) as usize)
}

/// Returns `true` if two different encoded owners of NFSv4 may be one user or group: a number, which a server returns if
/// it has no translation, and a name, or one identifier in two domains. A change of its configuration, for which a
/// server restarts, may change the translation: RFC 7530 section 5.9, RFC 8881 section 5.9. "nobody" is no translation,
/// but anybody.
fn is_translation(before: &[u8], now: &[u8]) -> bool {
    let identifier = |encoded| name(encoded)?.split(|byte| *byte == b'@').next().filter(|name| !name.is_empty());
    let (Some(before), Some(now)) = (identifier(before), identifier(now)) else { return false };
    let is_number = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    before == now || is_number(before) != is_number(now) && ![before, now].contains(&&b"nobody"[..])
}

/// Returns `true` if an encoded owner of NFSv4 is root: a server may return its number or its name (RFC 8881 section
/// 5.9), and one that maps names by a daemon may change from one to the other.
fn is_root(encoded: &[u8]) -> bool {
    name(encoded).is_some_and(is_root_name)
}

/// Returns an encoded owner in words: a number in NFSv3 (RFC 1813 section 2.6), text in NFSv4 (RFC 8881).
fn owner_text(encoded: &[u8]) -> String {
    match encoded.split_first_chunk() {
        Some((number, [])) => u32::from_be_bytes(*number).to_string(),
        Some((length, text)) => {
            let length = u32::from_be_bytes(*length) as usize;
            format!("{:?}", String::from_utf8_lossy(text.get(..length).unwrap_or(text)))
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{encoded_owner, is_root, is_translation, owner_text};

    /// A number and a name may be one user, two numbers and two names are not.
    #[test]
    fn rfc8881_section_5_9_owner_has_translations() {
        let encoded = |text| encoded_owner(text).unwrap();
        for [before, now, is_one] in [
            ["1000", "alice@example.org", "yes"],
            ["alice@example.org", "1000", "yes"],
            ["alice@example.org", "alice@localdomain", "yes"],
            ["1000", "1000@localdomain", "yes"],
            ["1000", "1001", ""],
            ["1000@example.org", "1001", ""],
            ["alice@example.org", "bob@example.org", ""],
            ["alice@example.org", "nobody@example.org", ""],
            ["1000", "nobody", ""],
            ["1000", "", ""],
        ] {
            assert_eq!(is_translation(&encoded(before), &encoded(now)), is_one == "yes", "{before}, {now}");
        }
        assert!(!is_translation(&[0, 0, 3, 0xe8], &[0, 0, 3, 0xe9]), "numbers of NFSv3");
    }

    #[test]
    fn rfc8881_section_5_9_root_has_a_name_and_a_number() {
        for root in [&b"\0\0\0\x010\0\0\0"[..], b"\0\0\0\x04root", b"\0\0\0\x06root@a\0\0"] {
            assert!(is_root(root), "{root:?}");
        }
        for other in [&b"\0\0\0\0"[..], b"\0\0\0\x02roo\0", b"\0\0\0\x06nobody\0\0", b"\0\0\0\x01"] {
            assert!(!is_root(other), "{other:?}");
        }
    }

    #[test]
    fn an_owner_is_shown_as_its_protocol_writes_it() {
        assert_eq!(owner_text(&[0, 0, 0xff, 0xfe]), "65534");
        assert_eq!(owner_text(b"\0\0\0\x05root@\0\0\0"), "\"root@\"");
        assert_eq!(owner_text(b"\0\0\0\x01" as &[u8]), "1");
        assert_eq!(owner_text(b"\0\0\0\x01\x30\0\0\0"), "\"0\"");
        assert_eq!(owner_text(b""), "");
    }
}
