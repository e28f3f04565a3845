//! What is compared of two records, and as what: the roles of fields, and what the two captures are to each other.

use super::compare_class::{CompareClass, IdentityType, MinorVersionField, follows_minor_version};
use super::difference::DifferenceKind;
use super::options::ComparisonOptions;
use super::record::{ComparisonRecord, FieldPath, RecordValue};

/// What two records are to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparePolicy {
    /// Everything is compared as it is.
    pub(super) is_strict: bool,
    /// Both are one capture, decoded twice: nothing shows the progress of another operation.
    pub(super) is_exact: bool,
    /// One has RDMA, and the other has not.
    pub(super) is_across: bool,
    /// They are of two minor versions of NFSv4.
    pub(super) is_other_minor: bool,
    /// Another operation was in flight at the same time, on one of the sides.
    is_racing: bool,
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldTreatment {
    /// It may differ.
    Free,
    /// It may differ, because the minor versions do.
    LeftOut,
    /// The values must be equal.
    As(DifferenceKind),
    /// The values must be equal in these bits.
    Bits(DifferenceKind, u64),
    /// The values are names.
    Names(IdentityType),
}

impl ComparePolicy {
    pub(super) fn of(selection: &ComparisonOptions, a: &ComparisonRecord, b: &ComparisonRecord) -> Self {
        Self {
            is_strict: selection.strict,
            is_exact: selection.strict || selection.exact,
            is_across: a.is_rdma() != b.is_rdma() && !selection.exact,
            is_other_minor: a.minor_version != b.minor_version && !selection.strict && !selection.exact,
            is_racing: a.is_racing || b.is_racing,
        }
    }

    /// Whether lengths and chunks are compared.
    pub(super) fn has_lengths(&self) -> bool {
        !self.is_across && !self.is_other_minor
    }

    /// The kind that a field of no other has.
    fn plain(is_call: bool) -> DifferenceKind {
        if is_call { DifferenceKind::Argument } else { DifferenceKind::Result }
    }

    /// A field that both have.
    pub(super) fn both(
        &self,
        path: &FieldPath,
        is_call: bool,
        a: &RecordValue,
        b: &RecordValue,
    ) -> FieldTreatment {
        let is_list = a.is_fold() && b.is_fold();
        let kind = match path.role {
            CompareClass::Varies(_) if self.is_strict => Self::plain(is_call),
            CompareClass::Varies(_) => return FieldTreatment::Free,
            // The identities of a long list as they are, which another run has not.
            CompareClass::Identity(_) if is_list && !self.is_exact => return FieldTreatment::Free,
            CompareClass::Identity(_) if is_list || self.is_exact => DifferenceKind::Identity,
            CompareClass::Identity(identity) => return FieldTreatment::Names(identity),
            CompareClass::Racing(_) if self.is_racing && !self.is_exact => return FieldTreatment::Free,
            CompareClass::OfTransport(_) if self.is_across && !self.is_strict => return FieldTreatment::Free,
            CompareClass::Equal(kind) | CompareClass::Racing(kind) | CompareClass::OfTransport(kind) => kind,
        };
        match self.follows(path) {
            Some(MinorVersionField { common: 0, .. }) => FieldTreatment::LeftOut,
            Some(follows) => FieldTreatment::Bits(kind, follows.common),
            None => FieldTreatment::As(kind),
        }
    }

    /// A field that one side has alone.
    pub(super) fn one(&self, path: &FieldPath, is_call: bool) -> FieldTreatment {
        let kind = match path.role {
            CompareClass::Varies(_) if !self.is_strict => return FieldTreatment::Free,
            CompareClass::Varies(_) => Self::plain(is_call),
            CompareClass::Identity(_) => DifferenceKind::Identity,
            CompareClass::Equal(kind) | CompareClass::Racing(kind) | CompareClass::OfTransport(kind) => kind,
        };
        // An attribute that one side alone asks for.
        if self.follows(path).is_some() || self.is_other_minor && is_attribute(path) {
            return FieldTreatment::LeftOut;
        }
        FieldTreatment::As(kind)
    }

    fn follows(&self, path: &FieldPath) -> Option<&'static MinorVersionField> {
        follows_minor_version(path.field).filter(|_| self.is_other_minor)
    }
}

/// Whether a field is an attribute of NFSv4, which stands in a `fattr4` (RFC 8881 section 3.3.7).
fn is_attribute(path: &FieldPath) -> bool {
    let mut above = path.text.split('.').rev().skip(1);
    above.any(|word| matches!(word, "obj_attributes" | "attrs" | "createattrs" | "cva_attrs"))
}
