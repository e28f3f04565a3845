//! bitmap4: sets of numbers, of attributes above all.

use std::fmt;
use std::marker::PhantomData;

use crate::field::{Field, FieldKind, FieldValue, FlagName, NullObserver, Observer};
use crate::xdr::{Cursor, Encoder, List, Xdr, XdrError};

/// What the bits of a bitmap stand for.
pub trait BitNames {
    /// The specification's names of the bits, by number.
    const ALL: &'static [(u32, &'static str)];
    /// The same, as masks of the first, the second and the third word.
    const WORDS: &'static [&'static [FlagName]];

    /// The name of a bit.
    fn name(bit: u32) -> Option<&'static str> {
        Self::ALL.iter().find(|(number, _)| *number == bit).map(|(_, name)| *name)
    }
}

/// How many of the bits are in word `word`.
pub(super) const fn count_in_word(all: &[(u32, &'static str)], word: u32) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < all.len() {
        count += (all[at].0 / 32 == word) as usize;
        at += 1;
    }
    count
}

/// The bits of word `word`, as masks.
pub(super) const fn masks_of_word<const N: usize>(all: &[(u32, &'static str)], word: u32) -> [FlagName; N] {
    let mut masks = [(0, ""); N];
    let (mut count, mut at) = (0, 0);
    while at < all.len() {
        if all[at].0 / 32 == word {
            masks[count] = (1 << (all[at].0 % 32), all[at].1);
            count += 1;
        }
        at += 1;
    }
    masks
}

/// Gives [`BitNames`] to a type, from pairs of number and name.
macro_rules! names {
    ($name:ident, $all:expr) => {
        impl $crate::nfs::v4::bitmap::BitNames for $name {
            const ALL: &'static [(u32, &'static str)] = $all;
            const WORDS: &'static [&'static [$crate::field::FlagName]] = {
                use $crate::nfs::v4::bitmap::{count_in_word, masks_of_word};
                const ALL: &[(u32, &str)] = <$name as $crate::nfs::v4::bitmap::BitNames>::ALL;
                const FIRST: [$crate::field::FlagName; count_in_word(ALL, 0)] = masks_of_word(ALL, 0);
                const SECOND: [$crate::field::FlagName; count_in_word(ALL, 1)] = masks_of_word(ALL, 1);
                const THIRD: [$crate::field::FlagName; count_in_word(ALL, 2)] = masks_of_word(ALL, 2);
                &[&FIRST, &SECOND, &THIRD]
            };
        }
    };
}
pub(super) use names;

/// Describes what the bits of a bitmap stand for: `NAME = bit number`.
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

/// The most words that are believed; the XDR has no bound, the RFCs have three words.
pub const MAX_WORDS: u32 = 1 << 16;

/// bitmap4: bit `n` is bit `n % 32`, from the least significant, of word `n / 32`. RFC 8881 section 3.3.7.
///
/// An observer sees every word as a mask with names.
pub struct Bitmap4<'a, N = super::Attributes> {
    words: List<'a, u32, MAX_WORDS>,
    names: PhantomData<N>,
}

impl<N> Clone for Bitmap4<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for Bitmap4<'_, N> {}

impl<N> Default for Bitmap4<'_, N> {
    fn default() -> Self {
        Self { words: List::default(), names: PhantomData }
    }
}

/// Equal when the words are; `[1]` and `[1, 0]` are the same set, but not the same message.
impl<N> PartialEq for Bitmap4<'_, N> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<'a, N> From<&'a [u32]> for Bitmap4<'a, N> {
    fn from(words: &'a [u32]) -> Self {
        Self { words: List::from(words), names: PhantomData }
    }
}

impl<'a, N> Bitmap4<'a, N> {
    /// The words, as the message has them.
    pub fn words(&self) -> List<'a, u32, MAX_WORDS> {
        self.words
    }

    /// Whether bit `bit` is set.
    pub fn contains(&self, bit: u32) -> bool {
        self.words.iter().nth((bit / 32) as usize).is_some_and(|word| word >> (bit % 32) & 1 == 1)
    }

    /// Whether no bit is set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word == 0)
    }

    /// The numbers of the bits that are set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone + use<'a, N> {
        (0u32..).step_by(32).zip(self.words.iter()).flat_map(|(first, word)| {
            (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }
}

/// The words that hold these bits, as few as can be.
pub fn words_of(bits: impl IntoIterator<Item = u32>) -> Vec<u32> {
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

/// The set, by names; numbers where there is no name.
impl<N: BitNames> fmt::Debug for Bitmap4<'_, N> {
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

impl<'a, N: BitNames> Xdr<'a> for Bitmap4<'a, N> {
    const KIND: FieldKind = FieldKind::Flags;

    #[inline]
    fn decode<O: Observer<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static Field,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let words = List::<u32, MAX_WORDS>::decode(cursor, field, &mut NullObserver)?;
        if O::WATCHES {
            if words.is_empty() {
                observer.value(field, at..at + 4, FieldValue::Flags(0, &[]));
            } else {
                observer.notation(at..at + 4);
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
    use super::super::Attributes;
    use super::*;

    #[test]
    fn bit_n_is_in_word_n_by_32() {
        let bitmap = Bitmap4::<Attributes>::from(&[0x0000_0012, 0x0000_0002, 0x0001_0000][..]);
        assert_eq!(bitmap.iter().collect::<Vec<_>>(), [1, 4, 33, 80]);
        assert!(
            bitmap.contains(Attributes::MODE) && !bitmap.contains(Attributes::ACL) && !bitmap.contains(1000)
        );
        assert_eq!(format!("{bitmap:?}"), "{type, size, mode, sec_label}");
        assert_eq!(words_of([1, 4, 33, 80]), [0x12, 2, 0x10000]);
    }

    #[test]
    fn every_name_has_its_mask() {
        let masks = Attributes::WORDS.iter().map(|word| word.len()).sum::<usize>();
        assert_eq!(masks, Attributes::ALL.len());
        assert!(Attributes::WORDS[1].contains(&(1 << 1, "mode")));
    }
}
