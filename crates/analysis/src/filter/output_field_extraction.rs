//! Columns: fields whose values are shown. A filter extracts them in addition to its own.

use super::catalog::FilterFieldCatalog;
use super::compiled_filter::Filter;
use super::compiled_program::CompiledFilterNode;
use super::error::proposal;
use super::filter_type::FilterType;
use super::referenced_filter_field::ReferencedFilterField;
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

/// A value for output.
pub type OutputFieldValue<'v> = FilterValue<&'v [u8]>;

impl OutputColumnField {
    /// Returns `true` if a value has the type of the field: structures named like a number or time in them have bytes,
    /// too.
    pub(super) fn has_type_of(&self, value: OutputFieldValue<'_>) -> bool {
        let is_one_value = matches!(
            self.kind,
            FilterType::Unsigned
                | FilterType::Signed
                | FilterType::Boolean
                | FilterType::Enumeration
                | FilterType::Flags
                | FilterType::Time
                | FilterType::Duration
        );
        !(is_one_value && matches!(value, FilterValue::Bytes(_)))
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
                let similar = catalog.nearest(name);
                return Err(format!("unknown field {name}{}", proposal(&similar)));
            };
            // A field with other fields in it is shown by its name.
            let has_value = !matches!(entry.kind, FilterType::Protocol | FilterType::Structure);
            let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, has_value, false);
            columns.push(OutputColumnField { name: entry.name, kind: entry.kind, slot });
        }
        Ok((self, columns))
    }
}
