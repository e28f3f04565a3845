//! Columns: fields whose values are shown. A filter extracts them in addition to its own.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Filter;
use super::catalog::{FilterFieldCatalog, FilterType};
use super::compile::ReferencedFilterField;
use super::compiled_program::CompiledFilterNode;
use super::error::proposal;
use super::value::{FilterFieldSlotNumber, FilterValue};

/// A field that is shown.
#[derive(Clone, Copy, Debug)]
pub struct OutputColumnField {
    /// Name of the field.
    pub name: &'static str,
    /// Type of the field.
    pub kind: FilterType,
    pub(super) slot: FilterFieldSlotNumber,
}

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub struct ShownFieldValue<'v>(pub(super) FilterValue<'v>);

/// A value for output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutputFieldValue<'v> {
    /// A number.
    Number(i128),
    /// A boolean.
    Bool(bool),
    /// Bytes.
    Bytes(&'v [u8]),
    /// Text, which may not be UTF-8.
    Text(&'v [u8]),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// Nanoseconds since 1970-01-01 00:00:00 UTC.
    Time(i128),
    /// Nanoseconds.
    Duration(i128),
    /// Present, without a known value.
    Unknown,
}

impl<'v> ShownFieldValue<'v> {
    /// Returns `true` if it is a value of this type: structures named like a number or time in them have bytes, too.
    pub(super) fn has_type(self, kind: FilterType) -> bool {
        let is_one_value = matches!(
            kind,
            FilterType::Unsigned
                | FilterType::Signed
                | FilterType::Boolean
                | FilterType::Enumeration
                | FilterType::Flags
                | FilterType::Time
                | FilterType::Duration
        );
        !(is_one_value && matches!(self.0, FilterValue::Bytes(_)))
    }

    /// Returns the value.
    pub fn plain(self) -> OutputFieldValue<'v> {
        match self.0 {
            FilterValue::Number(number) => OutputFieldValue::Number(number),
            FilterValue::Bool(value) => OutputFieldValue::Bool(value),
            FilterValue::Bytes(bytes) => OutputFieldValue::Bytes(bytes),
            FilterValue::Text(bytes) => OutputFieldValue::Text(bytes),
            FilterValue::Ipv4(address, _) => OutputFieldValue::Ipv4(Ipv4Addr::from_bits(address)),
            FilterValue::Ipv6(address, _) => OutputFieldValue::Ipv6(Ipv6Addr::from_bits(address)),
            FilterValue::Time(time) => OutputFieldValue::Time(time),
            FilterValue::Duration(duration) => OutputFieldValue::Duration(duration),
            FilterValue::Unknown => OutputFieldValue::Unknown,
        }
    }
}

impl Filter {
    /// Creates a filter that accepts everything.
    pub fn accept_all() -> Self {
        Self { program: CompiledFilterNode::And(Vec::new()), fields: Vec::new() }
    }

    /// Adds these fields to the extracted values.
    ///
    /// # Errors
    /// Returns an error if no field has one of the names.
    pub fn with_columns(mut self, names: &[String]) -> Result<(Self, Vec<OutputColumnField>), String> {
        let catalog = FilterFieldCatalog::shared();
        let mut columns = Vec::new();
        for name in names {
            let Some(entry) = catalog.get(name) else {
                let near = catalog.nearest(name);
                return Err(format!("unknown field {name}{}", proposal(&near)));
            };
            // A field with other fields in it is shown by its name.
            let has_value = !matches!(entry.kind, FilterType::Protocol | FilterType::Structure);
            let is_it = |field: &ReferencedFilterField| field.name == entry.name && !field.is_search;
            let slot = match self.fields.iter().position(is_it) {
                Some(slot) => {
                    if let Some(field) = self.fields.get_mut(slot) {
                        field.has_value |= has_value;
                    }
                    slot
                }
                None => {
                    self.fields.push(ReferencedFilterField {
                        name: entry.name,
                        origin: entry.origin.clone(),
                        has_value,
                        is_search: false,
                    });
                    self.fields.len() - 1
                }
            };
            columns.push(OutputColumnField { name: entry.name, kind: entry.kind, slot });
        }
        Ok((self, columns))
    }
}
