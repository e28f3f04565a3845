//! Values of a filter, and their store.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use nfsrdma_dissectors::field::{FieldKind, FieldValue};

/// A value of a field or of a filter, whose bytes are borrowed, owned, or a range in a store. Numbers of every width
/// are one type, so that fields can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterValue<B> {
    /// A number.
    Number(i128),
    /// A boolean.
    Bool(bool),
    /// Bytes.
    Bytes(B),
    /// Text, which may not be UTF-8.
    Text(B),
    /// An IPv4 address with its prefix length.
    Ipv4(Ipv4Addr, u8),
    /// An IPv6 address with its prefix length.
    Ipv6(Ipv6Addr, u8),
    /// Nanoseconds since 1970-01-01 00:00:00 UTC.
    Time(i128),
    /// Nanoseconds.
    Duration(i128),
    /// Present with an unknown value, such as data in a chunk that was not kept.
    Unknown,
}

pub(super) type FilterConstant = FilterValue<Vec<u8>>;

impl<B> FilterValue<B> {
    /// Returns the value with other bytes.
    pub(super) fn map_bytes<'b, C>(&'b self, map: impl FnOnce(&'b B) -> C) -> FilterValue<C> {
        match self {
            Self::Number(number) => FilterValue::Number(*number),
            Self::Bool(value) => FilterValue::Bool(*value),
            Self::Bytes(bytes) => FilterValue::Bytes(map(bytes)),
            Self::Text(bytes) => FilterValue::Text(map(bytes)),
            Self::Ipv4(address, bits) => FilterValue::Ipv4(*address, *bits),
            Self::Ipv6(address, bits) => FilterValue::Ipv6(*address, *bits),
            Self::Time(time) => FilterValue::Time(*time),
            Self::Duration(duration) => FilterValue::Duration(*duration),
            Self::Unknown => FilterValue::Unknown,
        }
    }
}

/// Returns the mask for a prefix of an address of `width` bits.
fn mask(bits: u8, width: u32) -> u128 {
    let full_mask = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    full_mask & full_mask.checked_shl(width.saturating_sub(u32::from(bits))).unwrap_or(0)
}

impl<'v> FilterValue<&'v [u8]> {
    /// Returns the value of a decoded field of this kind.
    pub fn from_field(kind: FieldKind, value: &'v FieldValue<'v>) -> Self {
        match value {
            FieldValue::Unsigned(number) | FieldValue::Enum(number, _) | FieldValue::Flags(number, _) => {
                Self::Number(i128::from(*number))
            }
            FieldValue::Signed(number) => Self::Number(i128::from(*number)),
            FieldValue::Bool(value) => Self::Bool(*value),
            FieldValue::Chunk(_, Some(bytes)) if kind == FieldKind::Text => Self::Text(bytes),
            FieldValue::Bytes(bytes) | FieldValue::Chunk(_, Some(bytes)) => Self::Bytes(bytes),
            FieldValue::Text(bytes) => Self::Text(bytes),
            FieldValue::Ipv4(address) => Self::Ipv4(*address, 32),
            FieldValue::Ipv6(address) => Self::Ipv6(*address, 128),
            FieldValue::Ethernet(address) => Self::Bytes(address),
            FieldValue::Chunk(_, None) => Self::Unknown,
        }
    }

    /// Compares two values; returns `None` if they are not comparable.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        use FilterValue::{Bool, Bytes, Duration, Ipv4, Ipv6, Number, Text, Time};
        Some(match (*self, *other) {
            (Number(a), Number(b)) | (Time(a), Time(b)) | (Duration(a), Duration(b)) => a.cmp(&b),
            (Bool(a), Bool(b)) => a.cmp(&b),
            (Bool(a), Number(b)) => i128::from(a).cmp(&b),
            (Number(a), Bool(b)) => a.cmp(&i128::from(b)),
            (Bytes(a) | Text(a), Bytes(b) | Text(b)) => a.cmp(b),
            (Ipv4(a, bits), Ipv4(b, other_bits)) => {
                let mask = mask(bits.min(other_bits), 32) as u32;
                (a.to_bits() & mask).cmp(&(b.to_bits() & mask))
            }
            (Ipv6(a, bits), Ipv6(b, other_bits)) => {
                let mask = mask(bits.min(other_bits), 128);
                (a.to_bits() & mask).cmp(&(b.to_bits() & mask))
            }
            _ => return None,
        })
    }

    /// Returns `true` if the value alone is true as a test.
    pub(super) fn is_true(&self) -> bool {
        match *self {
            Self::Number(number) | Self::Duration(number) => number != 0,
            Self::Bool(value) => value,
            Self::Bytes(bytes) => bytes.iter().any(|byte| *byte != 0),
            _ => true,
        }
    }
}

/// Index of a field in a filter, from 0 in the order of use.
pub(super) type FilterFieldSlotNumber = usize;

/// The values of each field that a filter uses.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterValues {
    slots: Vec<Vec<FilterValue<Range<usize>>>>,
    bytes: Vec<u8>,
}

impl FilterValues {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![Vec::new(); slots], bytes: Vec::new() }
    }

    pub(super) fn like(other: &Self) -> Self {
        Self::new(other.slots.len())
    }

    pub(super) fn copy(&mut self, other: &Self) {
        self.slots.clone_from(&other.slots);
        self.bytes.clone_from(&other.bytes);
    }

    /// Removes the values, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.iter_mut().for_each(Vec::clear);
        self.bytes.clear();
    }

    pub(super) fn has(&self, slot: FilterFieldSlotNumber) -> bool {
        self.slots.get(slot).is_some_and(|values| !values.is_empty())
    }

    pub(super) fn count(&self, slot: FilterFieldSlotNumber) -> usize {
        self.slots.get(slot).map_or(0, Vec::len)
    }

    /// Returns the size of the values, in bytes.
    pub(super) fn size(&self) -> usize {
        self.slots.iter().map(|values| values.len() * size_of::<FilterValue<Range<usize>>>()).sum::<usize>()
            + self.bytes.len()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        let slots = self.slots.iter().map(|values| values.capacity() * size_of::<FilterValue<Range<usize>>>());
        slots.sum::<usize>() + self.bytes.capacity()
    }

    pub(super) fn values_of(&self, slot: FilterFieldSlotNumber) -> impl Iterator<Item = FilterValue<&[u8]>> {
        self.slots.get(slot).into_iter().flatten().map(|stored| self.value(stored))
    }

    fn value(&self, stored: &FilterValue<Range<usize>>) -> FilterValue<&[u8]> {
        stored.map_bytes(|range| self.bytes.get(range.clone()).unwrap_or_default())
    }

    pub(super) fn push(&mut self, slot: FilterFieldSlotNumber, value: FilterValue<&[u8]>) {
        let stored = value.map_bytes(|bytes| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            start..self.bytes.len()
        });
        if let Some(values) = self.slots.get_mut(slot) {
            values.push(stored);
        }
    }

    /// Adds the values of another store, except those equal to one of the last few of the field, because the frames of
    /// a Transaction differ little. Returns the growth in bytes.
    pub(super) fn merge(&mut self, other: &Self) -> usize {
        /// Number of last values to compare.
        const LAST: usize = 8;
        let before = self.bytes.len();
        let mut added = 0;
        for slot in 0..other.slots.len() {
            for value in other.values_of(slot) {
                let existing = self.slots.get(slot).map_or(&[][..], Vec::as_slice);
                let last = existing.get(existing.len().saturating_sub(LAST)..).unwrap_or_default();
                if !last.iter().any(|stored| self.value(stored) == value) {
                    self.push(slot, value);
                    added += 1;
                }
            }
        }
        added * size_of::<FilterValue<Range<usize>>>() + (self.bytes.len() - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_by_the_shorter_prefix() {
        let address = |text: &str, bits| FilterValue::<&[u8]>::Ipv4(text.parse().unwrap(), bits);
        let equal = Some(Ordering::Equal);
        assert_eq!(address("129.111.7.9", 32).compare(&address("129.111.0.0", 16)), equal);
        assert_ne!(address("129.112.0.1", 32).compare(&address("129.111.0.0", 16)), equal);
        assert_eq!(address("1.2.3.4", 32).compare(&address("0.0.0.0", 0)), equal);
        let address = |bits, prefix| FilterValue::<&[u8]>::Ipv6(Ipv6Addr::from_bits(bits), prefix);
        assert_eq!(address(1 << 127 | 1, 128).compare(&address(1 << 127, 1)), equal);
    }

    #[test]
    fn a_store_returns_its_values_until_cleared() {
        let mut values = FilterValues::new(2);
        values.push(0, FilterValue::Text(b"abc"));
        values.push(1, FilterValue::Number(-1));
        values.push(1, FilterValue::Bytes(b"d"));
        assert_eq!(values.values_of(0).collect::<Vec<_>>(), [FilterValue::Text(&b"abc"[..])]);
        assert_eq!(values.values_of(1).collect::<Vec<_>>(), [FilterValue::Number(-1), FilterValue::Bytes(&b"d"[..])]);
        values.clear();
        assert!(!values.has(0) && values.values_of(1).next().is_none());
    }

    #[test]
    fn values_common_to_several_frames_are_stored_once() {
        let (mut all, mut frame) = (FilterValues::new(1), FilterValues::new(1));
        for number in [1, 1, 2] {
            frame.clear();
            frame.push(0, FilterValue::Number(number));
            all.merge(&frame);
        }
        assert_eq!(all.values_of(0).collect::<Vec<_>>(), [FilterValue::Number(1), FilterValue::Number(2)]);
    }
}
