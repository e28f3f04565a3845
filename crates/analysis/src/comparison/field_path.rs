//! Paths of the RFC names of fields, from the operation down: `obj_attributes.size`.

use super::field_equality::FieldEqualityRequirement;

/// Path and class of a field. Records share the paths.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The RFC names, from the operation down: `obj_attributes.size`.
    pub text: Box<str>,
    /// The filter name; empty if there is none, as in an old baseline.
    pub field: &'static str,
    /// Equality requirement of the field.
    pub class: FieldEqualityRequirement,
    /// Offset of the field's own name in `text`.
    leaf: usize,
}

impl FieldPath {
    /// Creates a path.
    pub fn new(text: impl Into<Box<str>>, field: &'static str, requirement: FieldEqualityRequirement) -> Self {
        let text = text.into();
        let leaf = text.rfind('.').map_or(0, |dot| dot + 1);
        Self { text, field, class: requirement, leaf }
    }

    /// Returns the names of the parents with their final dot, or an empty text.
    pub fn parent_path(&self) -> &str {
        self.text.get(..self.leaf).unwrap_or_default()
    }

    /// Returns the RFC name of the field itself.
    pub fn leaf(&self) -> &str {
        self.text.get(self.leaf..).unwrap_or_default()
    }
}
