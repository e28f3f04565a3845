//! Attribute values of a reply pair and their contradictions to earlier ones.

use nfsrdma_analysis::comparison::difference::{
    Difference, DifferenceKind, DifferenceSideValue, TransactionCaptureLocation,
};
use nfsrdma_analysis::comparison::record::hash;

use super::reply_attribute_values::{AttributeOccurrence, ComparedAttributeKind};
use super::server_clock_granularity::{decode_time, is_unexpected_time};
use crate::run::tolerance_rules::BuiltInToleranceRule;
use crate::trace::step::NONE;
use crate::tree::inferred_object::ROOT;

#[derive(Debug, PartialEq)]
pub(in super::super) struct AttributeRelationViolation {
    /// Section of the message; 1 is the first operation.
    pub(in super::super) section: usize,
    /// Operation, field and relation: `GETATTR.obj_attributes.change (moves)`.
    pub(in super::super) path: String,
    pub(in super::super) field: &'static str,
    /// Variable of the object, [`ROOT`] or [`NONE`].
    pub(in super::super) object: u32,
    /// Recorded values and live values.
    pub(in super::super) values: [String; 2],
    pub(in super::super) rule: Option<BuiltInToleranceRule>,
}

impl AttributeRelationViolation {
    /// Returns the violation as a difference of this Reply. `path_of` returns the path of a variable's object.
    pub(in super::super) fn difference(
        self,
        location: TransactionCaptureLocation,
        operation: String,
        path_of: &dyn Fn(u32) -> Option<String>,
    ) -> Difference {
        let object = match self.object {
            NONE => None,
            ROOT => Some("/".to_owned()),
            variable => path_of(variable),
        };
        let [a, b] = self.values.map(|value| DifferenceSideValue {
            location: Some(location),
            frame: location.reply,
            value: Some(object.iter().map(|path| format!("{path}: ")).chain([value]).collect()),
        });
        let (kind, section, field) = (DifferenceKind::Relation, self.section, self.field);
        Difference { kind, operation, path: self.path, section, field, count: 1, a, b }
    }
}

/// Returns the number of an encoded value: big-endian, or a hash of more than 16 bytes.
pub(super) fn encoding_number(bytes: &[u8]) -> u128 {
    match bytes.len() {
        0..=16 => bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)),
        _ => hash(bytes),
    }
}

/// An attribute value on both sides, with its object.
pub(super) struct RecordedLiveAttributePair<'a> {
    pub(super) fact: &'a AttributeOccurrence,
    pub(super) bytes: [&'a [u8]; 2],
    /// Variable of the object, or [`NONE`].
    pub(super) object: u32,
    /// Directory and name by which it was reached.
    pub(super) name: Option<(u32, u64)>,
}

impl RecordedLiveAttributePair<'_> {
    pub(super) fn number(&self) -> [u128; 2] {
        self.bytes.map(encoding_number)
    }

    pub(super) fn seconds(&self) -> [Option<u64>; 2] {
        self.bytes.map(|bytes| decode_time(bytes).map(|(seconds, _)| seconds))
    }

    /// Returns `true` if a live time set by a change is not of the day of the run, but the recorded one was of the
    /// capture's.
    pub(super) fn is_unexpected_time(&self, call_time_ns: u64) -> bool {
        let [recorded, live] = self.seconds().map(Option::unwrap_or_default);
        is_unexpected_time(recorded, live, call_time_ns)
    }

    pub(super) fn violation(&self, relation: &str, values: [String; 2]) -> AttributeRelationViolation {
        AttributeRelationViolation {
            section: self.fact.section,
            path: format!("{}.{} ({relation})", self.fact.operation, self.fact.path.text),
            field: self.fact.path.field,
            object: NONE,
            values,
            rule: None,
        }
    }

    /// Returns a violation with the earlier and the current value of each side.
    pub(super) fn violation_after(&self, relation: &str, before: [u128; 2]) -> AttributeRelationViolation {
        let now = self.number();
        let values = [0, 1]
            .map(|side: usize| format!("{}, then {}", self.format_value(before[side]), self.format_value(now[side])));
        AttributeRelationViolation { object: self.object, ..self.violation(relation, values) }
    }

    fn format_value(&self, value: u128) -> String {
        match self.fact.aspect {
            ComparedAttributeKind::Modified | ComparedAttributeKind::Metadata => {
                format!("{}.{:09}", value >> 32, value & u128::from(u32::MAX))
            }
            ComparedAttributeKind::FileSystem if self.bytes[0].len() == 16 => {
                format!("{:x}:{:x}", value >> 64, value & u128::from(u64::MAX))
            }
            ComparedAttributeKind::Owner | ComparedAttributeKind::Group => format!("name {value:032x}"),
            _ => value.to_string(),
        }
    }
}
