//! Policy of the comparison of two records: the treatment of each field, depending on both captures.

use super::compare_class::{CompareClass, IdentityType, MinorVersionField, follows_minor_version};
use super::difference::DifferenceKind;
use super::options::ComparisonOptions;
use super::record::{ComparisonRecord, FieldPath, RecordValue};

/// Policy of the comparison of two records.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparePolicy {
    /// `true` if every field must be equal (`--strict`).
    pub(super) is_strict: bool,
    /// `true` if both are one capture, decoded twice: no field may show the progress of another operation.
    pub(super) is_exact: bool,
    /// `true` if only one record uses RDMA.
    pub(super) is_across: bool,
    /// `true` if the minor versions of NFSv4 differ.
    pub(super) is_other_minor: bool,
    /// `true` if another operation was in flight at the same time, on one of the sides.
    is_racing: bool,
}

/// Treatment of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldTreatment {
    /// The values may differ.
    Free,
    /// The values may differ, because the minor versions do.
    LeftOut,
    /// The values must be equal.
    As(DifferenceKind),
    /// The values must be equal in these bits.
    Bits(DifferenceKind, u64),
    /// The values are names of an identity.
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

    /// Returns `true` if lengths and chunks are compared.
    pub(super) fn has_lengths(&self) -> bool {
        !self.is_across && !self.is_other_minor
    }

    /// Returns the default kind for fields of a Call or Reply.
    fn plain(is_call: bool) -> DifferenceKind {
        if is_call { DifferenceKind::Argument } else { DifferenceKind::Result }
    }

    /// Returns the treatment of a field that both records have.
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
            // The identities of a long list are only one hash, which differs in another run.
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

    /// Returns the treatment of a field that one record alone has.
    pub(super) fn one(&self, path: &FieldPath, is_call: bool) -> FieldTreatment {
        let kind = match path.role {
            CompareClass::Varies(_) if !self.is_strict => return FieldTreatment::Free,
            CompareClass::Varies(_) => Self::plain(is_call),
            CompareClass::Identity(_) => DifferenceKind::Identity,
            CompareClass::Equal(kind) | CompareClass::Racing(kind) | CompareClass::OfTransport(kind) => kind,
        };
        // An attribute that only one side requested.
        if self.follows(path).is_some() || self.is_other_minor && is_attribute(path) {
            return FieldTreatment::LeftOut;
        }
        FieldTreatment::As(kind)
    }

    fn follows(&self, path: &FieldPath) -> Option<&'static MinorVersionField> {
        follows_minor_version(path.field).filter(|_| self.is_other_minor)
    }
}

/// Returns `true` if a field is an NFSv4 attribute, part of a `fattr4` (RFC 8881 section 3.3.7).
fn is_attribute(path: &FieldPath) -> bool {
    let mut above = path.text.split('.').rev().skip(1);
    above.any(|word| matches!(word, "obj_attributes" | "attrs" | "createattrs" | "cva_attrs"))
}
