//! The part `[headers]`: the text of each header once, under a prefix of its hash.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use crate::comparison::record::{ComparableMessage, ComparableMessageField, hash};

/// Minimum number of hash digits in a name; more are used on a collision.
const MIN_HASH_DIGITS: usize = 8;

/// Texts of headers, numbered in the order of their addition.
#[derive(Debug, Default)]
pub(super) struct MessageHeaderTextInterner {
    numbers: HashMap<Rc<str>, u32>,
    pub(super) texts: Vec<Rc<str>>,
}

impl MessageHeaderTextInterner {
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// Adds a text, and returns its number.
    pub(super) fn add(&mut self, text: &str) -> u32 {
        let text: Rc<str> = text.into();
        let number = self.texts.len() as u32;
        self.numbers.insert(Rc::clone(&text), number);
        self.texts.push(text);
        number
    }
}

/// Names of headers: the text of each.
#[derive(Debug, Default)]
pub(super) struct BaselineHeaderTextDictionary(BTreeMap<Rc<str>, Rc<str>>);

impl BaselineHeaderTextDictionary {
    /// Adds a text that has no name, and returns its name: as many digits of its hash as the earlier ones leave free.
    pub(super) fn add(&mut self, text: &Rc<str>) -> Rc<str> {
        let full_name = format!("{:032x}", hash(text.as_bytes()));
        let free_name = (MIN_HASH_DIGITS..=full_name.len())
            .filter_map(|digits| full_name.get(..digits))
            .find(|name| !self.0.contains_key(*name));
        let name: Rc<str> = free_name.unwrap_or(&full_name).into();
        self.0.insert(Rc::clone(&name), Rc::clone(text));
        name
    }

    pub(super) fn insert(&mut self, name: &str, text: &str) {
        self.0.insert(name.into(), text.into());
    }

    pub(super) fn text(&self, name: &str) -> Option<&Rc<str>> {
        self.0.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }
}

/// Writes the headers of a message as text.
pub(super) fn header_text(message: &ComparableMessage, text: &mut String) {
    text.clear();
    message.sections.first().iter().for_each(|section| entries_text(&section.entries, text));
}

/// Writes the fields of a section: ` offset=0 name="a b"`.
pub(super) fn entries_text(entries: &[ComparableMessageField], text: &mut String) {
    for entry in entries {
        let _ = write!(text, " {}={}", entry.path.text, entry.datum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_headers_with_the_same_beginning_of_their_hashes_have_longer_names() {
        let text: Rc<str> = "".into();
        let whole = format!("{:032x}", hash(b""));
        let mut names = BaselineHeaderTextDictionary::default();
        for digits in [MIN_HASH_DIGITS, MIN_HASH_DIGITS + 1] {
            names.0.insert(whole[..digits].into(), format!(" other={digits}").into());
        }
        assert_eq!(&*names.add(&text), &whole[..MIN_HASH_DIGITS + 2]);
        assert_eq!(names.iter().count(), 3);
    }
}
