//! bitmap4: sets of numbers, usually of attributes.

use std::fmt;
use std::marker::PhantomData;

use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, FlagName, NullFieldObserver};
use crate::xdr::{Cursor, Encoder, Xdr, XdrArray, XdrError};

/// Names of the bits of a bitmap.
pub trait BitNames {
    /// Names of the bits in the specification, by number.
    const ALL: &'static [FlagName];
    /// The same names, as masks of the first, second and third word.
    const WORDS: &'static [&'static [FlagName]];

    /// Returns the name of a bit.
    fn name(bit: u32) -> Option<&'static str> {
        Self::ALL.iter().find(|(number, _)| *number == u64::from(bit)).map(|(_, name)| *name)
    }
}

/// Returns the number of bits in word `word`.
pub(super) const fn count_in_word(flags: &[FlagName], word: u64) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < flags.len() {
        count += (flags[at].0 / 32 == word) as usize;
        at += 1;
    }
    count
}

/// Returns the bits of word `word` as masks.
pub(super) const fn masks_of_word<const N: usize>(flags: &[FlagName], word: u64) -> [FlagName; N] {
    let mut masks = [(0, ""); N];
    let (mut count, mut at) = (0, 0);
    while at < flags.len() {
        if flags[at].0 / 32 == word {
            masks[count] = (1 << (flags[at].0 % 32), flags[at].1);
            count += 1;
        }
        at += 1;
    }
    masks
}

/// Implements [`BitNames`] for a type, from pairs of number and name.
macro_rules! names {
    ($name:ident, $all:expr) => {
        impl $crate::nfs::v4::bitmap::BitNames for $name {
            const ALL: &'static [$crate::field::FlagName] = $all;
            const WORDS: &'static [&'static [$crate::field::FlagName]] = {
                use $crate::nfs::v4::bitmap::{count_in_word, masks_of_word};
                const ALL: &[$crate::field::FlagName] = <$name as $crate::nfs::v4::bitmap::BitNames>::ALL;
                const FIRST: [$crate::field::FlagName; count_in_word(ALL, 0)] = masks_of_word(ALL, 0);
                const SECOND: [$crate::field::FlagName; count_in_word(ALL, 1)] = masks_of_word(ALL, 1);
                const THIRD: [$crate::field::FlagName; count_in_word(ALL, 2)] = masks_of_word(ALL, 2);
                &[&FIRST, &SECOND, &THIRD]
            };
        }
    };
}
pub(super) use names;

/// Describes the bits of a bitmap: `NAME = bit number`.
macro_rules! bits {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident { $($value:ident = $number:literal),* $(,)? }
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {}

        #[allow(missing_docs)]
        impl $name {
            $(pub const $value: u32 = $number;)*
        }

        $crate::nfs::v4::bitmap::names!($name, &[$(($number, stringify!($value))),*]);
    )*};
}
pub(super) use bits;

/// Maximum accepted number of words. The XDR has no bound; the RFCs define three words.
pub const MAX_WORDS: u32 = 1 << 16;

/// bitmap4, with names of the bits: bit `n` is bit `n % 32`, counted from the least significant, of word `n / 32`. RFC
/// 8881 section 3.3.7.
///
/// Observers receive every word as a mask with names.
pub struct NamedBitmap<'a, N> {
    words: XdrArray<'a, u32, MAX_WORDS>,
    names: PhantomData<N>,
}

impl<N> Clone for NamedBitmap<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for NamedBitmap<'_, N> {}

impl<N> Default for NamedBitmap<'_, N> {
    fn default() -> Self {
        Self { words: XdrArray::default(), names: PhantomData }
    }
}

/// Compares the words; `[1]` and `[1, 0]` are the same set, but not the same message.
impl<N> PartialEq for NamedBitmap<'_, N> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<'a, N> From<&'a [u32]> for NamedBitmap<'a, N> {
    fn from(words: &'a [u32]) -> Self {
        Self { words: XdrArray::from(words), names: PhantomData }
    }
}

impl<'a, N> NamedBitmap<'a, N> {
    /// Returns the words as in the message.
    pub fn words(&self) -> XdrArray<'a, u32, MAX_WORDS> {
        self.words
    }

    /// Returns `true` if bit `bit` is set.
    pub fn contains(&self, bit: u32) -> bool {
        self.words.iter().nth((bit / 32) as usize).is_some_and(|word| word >> (bit % 32) & 1 == 1)
    }

    /// Returns `true` if no bit is set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word == 0)
    }

    /// Returns the numbers of the set bits in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone + use<'a, N> {
        (0u32..)
            .step_by(32)
            .zip(self.words.iter())
            .flat_map(|(first, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit))
    }
}

/// Returns the minimum number of words that hold these bits.
pub fn words_for_bits(bits: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut words = Vec::new();
    for bit in bits {
        let word = (bit / 32) as usize;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if let Some(word) = words.get_mut(word) {
            *word |= 1 << (bit % 32);
        }
    }
    words
}

/// Formats the set by names, or by numbers for unnamed bits.
impl<N: BitNames> fmt::Debug for NamedBitmap<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for bit in self.iter() {
            match N::name(bit) {
                Some(name) => set.entry(&format_args!("{name}")),
                None => set.entry(&bit),
            };
        }
        set.finish()
    }
}

impl<'a, N: BitNames> Xdr<'a> for NamedBitmap<'a, N> {
    const KIND: FieldKind = FieldKind::Flags;

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let words = XdrArray::<u32, MAX_WORDS>::decode(cursor, field, &mut NullFieldObserver)?;
        if O::is_enabled() {
            if words.is_empty() {
                observer.value(field, at..at + 4, FieldValue::Flags(0, &[]));
            } else {
                observer.structural_bytes(at..at + 4);
            }
            for (index, word) in words.iter().enumerate() {
                let at = at + 4 + 4 * index;
                let names = N::WORDS.get(index).copied().unwrap_or_default();
                observer.value(field, at..at + 4, FieldValue::Flags(word.into(), names));
            }
        }
        Ok(Self { words, names: PhantomData })
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.words.encode(encoder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::v4::attributes::Attributes;

    #[test]
    fn bit_n_is_in_word_n_by_32() {
        let bitmap = NamedBitmap::<Attributes>::from(&[0x0000_0012, 0x0000_0002, 0x0001_0000][..]);
        assert_eq!(bitmap.iter().collect::<Vec<_>>(), [1, 4, 33, 80]);
        assert!(bitmap.contains(Attributes::MODE) && !bitmap.contains(Attributes::ACL) && !bitmap.contains(1000));
        assert_eq!(format!("{bitmap:?}"), "{type, size, mode, sec_label}");
        assert_eq!(words_for_bits([1, 4, 33, 80]), [0x12, 2, 0x10000]);
    }

    #[test]
    fn every_name_has_its_mask() {
        let masks = Attributes::WORDS.iter().map(|word| word.len()).sum::<usize>();
        assert_eq!(masks, Attributes::ALL.len());
        assert!(Attributes::WORDS[1].contains(&(1 << 1, "mode")));
    }
}
