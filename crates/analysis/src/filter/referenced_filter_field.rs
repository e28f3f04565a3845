//! A field that a filter uses.

use super::catalog::{FilterFieldCatalogEntry, FilterFieldSource};
use super::value::FilterFieldSlotNumber;

#[derive(Clone, Debug)]
pub(super) struct ReferencedFilterField {
    pub(super) name: &'static str,
    pub(super) origin: FilterFieldSource,
    /// `true` if its value is used; otherwise its presence is enough.
    pub(super) has_value: bool,
    /// `true` for a search in a protocol: the value is header and payload, not the header alone.
    pub(super) is_search: bool,
}

impl ReferencedFilterField {
    /// Returns the slot of a field, which is added unless it is there.
    pub(super) fn slot_in(
        fields: &mut Vec<Self>,
        entry: &FilterFieldCatalogEntry,
        has_value: bool,
        is_search: bool,
    ) -> FilterFieldSlotNumber {
        let is_same = |field: &Self| field.name == entry.name && field.is_search == is_search;
        if let Some((slot, existing)) = fields.iter_mut().enumerate().find(|(_, field)| is_same(field)) {
            existing.has_value |= has_value;
            return slot;
        }
        fields.push(Self { name: entry.name, origin: entry.origin.clone(), has_value, is_search });
        fields.len() - 1
    }
}
