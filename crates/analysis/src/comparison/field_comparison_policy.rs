//! Policy of the comparison of two records: the treatment of each field, depending on both captures.

use nfsrdma_dissectors::nfs::field_labels;

use super::difference::DifferenceKind;
use super::field_equality::{
    FieldEqualityRequirement, MappedIdentifierType, MinorVersionDependentField, follows_minor_version,
};
use super::field_path::FieldPath;
use super::options::ComparisonOptions;
use super::record::{ComparableTransaction, ComparedFieldValue};

#[derive(Clone, Copy, Debug)]
pub(super) struct RecordComparisonPolicy {
    /// `true` if every field must be equal (`--strict`).
    pub(super) is_strict: bool,
    /// `true` if both are one capture, decoded twice: no field may show the progress of another operation.
    pub(super) is_exact: bool,
    /// `true` if only one record uses RDMA.
    pub(super) differs_in_rdma: bool,
    /// `true` if the minor versions of NFSv4 differ.
    pub(super) differs_in_minor_version: bool,
    /// `true` if another operation was in flight at the same time, on one of the sides.
    is_racing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldComparisonTreatment {
    /// The values may differ.
    Ignored,
    /// The values may differ, because the minor versions do.
    MinorVersionDependent,
    /// The values must be equal.
    Equal(DifferenceKind),
    /// The values must be equal in these bits.
    EqualBits(DifferenceKind, u64),
    /// The values are names of an identity.
    IdentityNames(MappedIdentifierType),
}

impl RecordComparisonPolicy {
    pub(super) fn new(selection: &ComparisonOptions, a: &ComparableTransaction, b: &ComparableTransaction) -> Self {
        Self {
            is_strict: selection.strict,
            is_exact: selection.strict || selection.exact,
            differs_in_rdma: a.is_rdma() != b.is_rdma() && !selection.exact,
            differs_in_minor_version: a.minor_version != b.minor_version && !selection.strict && !selection.exact,
            is_racing: a.is_racing || b.is_racing,
        }
    }

    /// Returns `true` if lengths and chunks are compared.
    pub(super) fn compares_lengths(&self) -> bool {
        !self.differs_in_rdma && !self.differs_in_minor_version
    }

    /// Returns the treatment of a field that both records have.
    pub(super) fn treatment_of_both(
        &self,
        path: &FieldPath,
        is_call: bool,
        a: &ComparedFieldValue,
        b: &ComparedFieldValue,
    ) -> FieldComparisonTreatment {
        let is_list = matches!((a, b), (ComparedFieldValue::Fold(..), ComparedFieldValue::Fold(..)));
        let kind = match path.class {
            FieldEqualityRequirement::Varies(_) if self.is_strict => DifferenceKind::of_message(is_call),
            FieldEqualityRequirement::Varies(_) => return FieldComparisonTreatment::Ignored,
            // The identities of a long list are only one hash, which differs in another run.
            FieldEqualityRequirement::Identity(_) if is_list && !self.is_exact => {
                return FieldComparisonTreatment::Ignored;
            }
            FieldEqualityRequirement::Identity(_) if is_list || self.is_exact => DifferenceKind::Identity,
            FieldEqualityRequirement::Identity(identity) => {
                return FieldComparisonTreatment::IdentityNames(identity);
            }
            FieldEqualityRequirement::Racing(_) if self.is_racing && !self.is_exact => {
                return FieldComparisonTreatment::Ignored;
            }
            FieldEqualityRequirement::TransportDependent(_) if self.differs_in_rdma && !self.is_strict => {
                return FieldComparisonTreatment::Ignored;
            }
            FieldEqualityRequirement::Equal(kind)
            | FieldEqualityRequirement::Racing(kind)
            | FieldEqualityRequirement::TransportDependent(kind) => kind,
        };
        match self.follows(path) {
            Some(MinorVersionDependentField { common: 0, .. }) => FieldComparisonTreatment::MinorVersionDependent,
            Some(field) => FieldComparisonTreatment::EqualBits(kind, field.common),
            None => FieldComparisonTreatment::Equal(kind),
        }
    }

    /// Returns the treatment of a field that one record alone has.
    pub(super) fn treatment_of_one(&self, path: &FieldPath, is_call: bool) -> FieldComparisonTreatment {
        let kind = match path.class {
            FieldEqualityRequirement::Varies(_) if !self.is_strict => {
                return FieldComparisonTreatment::Ignored;
            }
            FieldEqualityRequirement::Varies(_) => DifferenceKind::of_message(is_call),
            FieldEqualityRequirement::Identity(_) => DifferenceKind::Identity,
            FieldEqualityRequirement::Equal(kind)
            | FieldEqualityRequirement::Racing(kind)
            | FieldEqualityRequirement::TransportDependent(kind) => kind,
        };
        // An attribute that only one side requested.
        if self.follows(path).is_some() || self.differs_in_minor_version && is_attribute(path) {
            return FieldComparisonTreatment::MinorVersionDependent;
        }
        FieldComparisonTreatment::Equal(kind)
    }

    fn follows(&self, path: &FieldPath) -> Option<&'static MinorVersionDependentField> {
        follows_minor_version(path.field).filter(|_| self.differs_in_minor_version)
    }
}

/// Returns `true` if a field is an NFSv4 attribute, part of a `fattr4` (RFC 8881 section 3.3.7).
fn is_attribute(path: &FieldPath) -> bool {
    let mut parents = path.text.split('.').rev().skip(1);
    parents.any(|name| {
        matches!(
            name,
            field_labels::OBJ_ATTRIBUTES | field_labels::ATTRS | field_labels::CREATEATTRS | field_labels::CVA_ATTRS
        )
    })
}
