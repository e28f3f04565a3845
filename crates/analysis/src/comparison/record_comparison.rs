//! Comparison of two paired records, field by field.

use std::ops::{AddAssign, Range};
use std::rc::Rc;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Operation;

use super::difference::{Difference, DifferenceKind, DifferenceSideValue};
use super::directory_listing::{ComparedDirectoryEntryPair, ComparedDirectoryListing};
use super::field_comparison_policy::{FieldComparisonTreatment, RecordComparisonPolicy};
pub use super::field_equality::OPERATION_COUNT_FIELD;
use super::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use super::field_path_text::{self, has_label, strip_labels};
use super::identity_map::{CrossCaptureIdentityMap, FirstOccurrenceOfIdentifierPair, ServerAssignedValueHash};
use super::options::ComparisonOptions;
use super::record::{
    AMBIGUOUS_FIELD, ComparableFinding, ComparableMessage, ComparableMessageField, ComparableTransaction,
    ComparedFieldValue, ComparedOperationOrHeaders, MessageDecodeCompleteness,
};

/// Maximum distance at which a field is searched on the other side.
const MAX_LOOKAHEAD: usize = 64;

/// Counts of a comparison besides differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparedFieldAndByteCounts {
    /// Number of fields whose values were compared.
    pub fields: u64,
    /// Number of bytes of file data whose hashes were compared.
    pub data_bytes: u64,
    /// Number of fields missing in one of the captures.
    pub unknown: u64,
    /// Number of arguments and results left out because they depend on the minor version.
    pub version_dependent_fields: u64,
}

impl ComparedFieldAndByteCounts {
    /// Returns the increase since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            fields: self.fields - before.fields,
            data_bytes: self.data_bytes - before.data_bytes,
            unknown: self.unknown - before.unknown,
            version_dependent_fields: self.version_dependent_fields - before.version_dependent_fields,
        }
    }
}

impl AddAssign for ComparedFieldAndByteCounts {
    fn add_assign(&mut self, other: Self) {
        self.fields += other.fields;
        self.data_bytes += other.data_bytes;
        self.unknown += other.unknown;
        self.version_dependent_fields += other.version_dependent_fields;
    }
}

/// A comparer of two records.
pub struct RecordComparer<'c> {
    /// Options of the comparison.
    pub options: &'c ComparisonOptions,
    /// Identity map of both sides.
    pub identities: &'c mut CrossCaptureIdentityMap,
    /// Counts of the comparison.
    pub compared: &'c mut ComparedFieldAndByteCounts,
}

/// Two records, and their differences so far.
pub(super) struct PairComparison<'r> {
    pub(super) a: &'r ComparableTransaction,
    pub(super) b: &'r ComparableTransaction,
    pub(super) policy: RecordComparisonPolicy,
    /// Filehandles of the directories that the cookies belong to.
    scopes: [Option<ServerAssignedValueHash>; 2],
    differences: Vec<(OperationPosition, Difference)>,
}

/// A message and the index of an operation in it; repeated differences of one field there are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OperationPosition {
    is_call: bool,
    section: usize,
}

struct ComparedOperationPair<'s> {
    spot: OperationPosition,
    a: &'s ComparedOperationOrHeaders,
    b: &'s ComparedOperationOrHeaders,
    /// `true` if both messages are complete.
    is_whole: bool,
    /// `true` if one is a READ and the other a READ_PLUS.
    is_plus: bool,
    /// `true` after a status differs: the following fields are of different union arms.
    differs_in_union_arm: bool,
    /// Paths of unions whose discriminants differ: fields on one side only are of another arm.
    differing_unions: Vec<String>,
    /// The group of fields on one side only that the last field belongs to.
    group: Option<OneSidedFieldGroup>,
}

/// Adjacent fields on one side only, which are one difference.
struct OneSidedFieldGroup {
    is_a: bool,
    above: String,
    /// Path of the first field.
    path: String,
    kind: DifferenceKind,
}

impl ComparedOperationPair<'_> {
    fn path(&self, entry: &ComparableMessageField) -> String {
        let dot = if self.a.name.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.a.name, entry.path.text)
    }

    /// Returns the bits of a mode that must be equal: those that the umask leaves, if one comes with it.
    fn umask(&self, a: &ComparableMessageField, b: &ComparableMessageField) -> u64 {
        let umask_of = |section: &ComparedOperationOrHeaders, entry: &ComparableMessageField| {
            let prefix = strip_labels(&entry.path.text, &[field_labels::MODE_UMASK, field_labels::MU_MODE])?;
            let is_umask = |other: &&ComparableMessageField| {
                strip_labels(&other.path.text, &[field_labels::MODE_UMASK, field_labels::MU_UMASK]) == Some(prefix)
            };
            match section.entries.iter().find(is_umask)?.datum {
                ComparedFieldValue::Flags(mask, _) | ComparedFieldValue::Number(mask) => Some(!mask),
                _ => None,
            }
        };
        if a.path.text == b.path.text {
            return u64::MAX;
        }
        umask_of(self.a, a).or_else(|| umask_of(self.b, b)).unwrap_or(u64::MAX)
    }
}

/// Returns the frame of the Call or of the Reply.
pub(super) fn frame(record: &ComparableTransaction, is_call: bool) -> Option<FrameNumber> {
    let location = record.location;
    if is_call { location.call.or(location.reply) } else { location.reply.or(location.call) }
}

pub(super) fn difference_side(
    record: &ComparableTransaction,
    is_call: bool,
    value: Option<String>,
) -> DifferenceSideValue {
    DifferenceSideValue { location: Some(record.location), frame: frame(record, is_call), value }
}

impl PairComparison<'_> {
    fn add(
        &mut self,
        kind: DifferenceKind,
        position: OperationPosition,
        path: String,
        field: &'static str,
        values: [Option<String>; 2],
    ) {
        // A field may be repeated in a list.
        if !path.is_empty() && self.count_repeated(kind, position, &path) {
            return;
        }
        let [a, b] = values;
        let difference = Difference {
            kind,
            operation: if self.a.call.is_some() { &self.a.title } else { &self.b.title }.to_string(),
            path,
            section: position.section,
            field,
            count: 1,
            a: difference_side(self.a, position.is_call, a),
            b: difference_side(self.b, position.is_call, b),
        };
        self.differences.push((position, difference));
    }

    /// Counts another occurrence of a difference; returns `false` if it is new.
    fn count_repeated(&mut self, kind: DifferenceKind, position: OperationPosition, path: &str) -> bool {
        let is_same = |(at, existing): &&mut (OperationPosition, Difference)| {
            *at == position && existing.path == path && existing.kind == kind
        };
        let existing = self.differences.iter_mut().find(is_same);
        existing.map(|(_, existing)| existing.count += 1).is_some()
    }

    /// Adds a difference that is in no field.
    pub(super) fn add_length_difference(
        &mut self,
        kind: DifferenceKind,
        is_call: bool,
        path: impl Into<String>,
        a: impl ToString,
        b: impl ToString,
    ) {
        let position = OperationPosition { is_call, section: 0 };
        self.add(kind, position, path.into(), "", [Some(a.to_string()), Some(b.to_string())]);
    }

    /// Returns `true` if a field of the Call or of the Reply differs, which explains different lengths. Undecoded bytes
    /// explain none.
    pub(super) fn has_field_difference(&self, is_call: bool) -> bool {
        let is_field_difference = |position: &OperationPosition, kind: DifferenceKind| {
            position.is_call == is_call && kind != DifferenceKind::Undecoded
        };
        self.differences.iter().any(|(position, difference)| is_field_difference(position, difference.kind))
    }

    pub(super) fn has_difference(&self) -> bool {
        !self.differences.is_empty()
    }

    pub(super) fn has_status_difference(&self) -> bool {
        self.differences.iter().any(|(_, difference)| difference.kind == DifferenceKind::Status)
    }

    /// Reduces the differences to one per cause.
    fn into_differences(mut self) -> Vec<Difference> {
        // An operation in one COMPOUND only has a result there only.
        let alone: Vec<_> = self.differences.iter().filter(|(position, _)| position.is_call).map(key).collect();
        self.differences
            .retain(|entry| entry.0.is_call || !is_missing_or_extra(entry.1.kind) || !alone.contains(&key(entry)));
        // The status of a COMPOUND is that of its last operation.
        let values = |difference: &Difference| [difference.a.value.clone(), difference.b.value.clone()];
        let statuses = self.differences.iter().filter(|(_, difference)| difference.kind == DifferenceKind::Status);
        let last: Vec<_> =
            statuses.filter(|(position, _)| position.section > 0).map(|(_, difference)| values(difference)).collect();
        self.differences.retain(|(position, difference)| {
            position.section > 0 || difference.kind != DifferenceKind::Status || !last.contains(&values(difference))
        });
        // A special stateid has no seqid.
        let identities = self.differences.iter().filter(|(_, difference)| difference.kind == DifferenceKind::Identity);
        let other_paths: Vec<_> = identities
            .filter_map(|(position, difference)| {
                Some((*position, strip_labels(&difference.path, &[field_labels::OTHER])?.to_owned()))
            })
            .collect();
        self.differences.retain(|(position, difference)| {
            let prefix = strip_labels(&difference.path, &[field_labels::SEQID]);
            !prefix.is_some_and(|prefix| other_paths.iter().any(|(at, other)| at == position && other == prefix))
        });
        self.differences.into_iter().map(|(_, difference)| difference).collect()
    }
}

fn key((_, difference): &(OperationPosition, Difference)) -> (DifferenceKind, String) {
    (difference.kind, difference.path.clone())
}

fn is_missing_or_extra(kind: DifferenceKind) -> bool {
    matches!(kind, DifferenceKind::Missing | DifferenceKind::Extra)
}

impl RecordComparer<'_> {
    /// Compares two records. [`CrossCaptureIdentityMap::differences`] reports identities that map to different objects
    /// when all pairs are known.
    pub fn compare(&mut self, a: &ComparableTransaction, b: &ComparableTransaction) -> Vec<Difference> {
        let policy = RecordComparisonPolicy::new(self.options, a, b);
        let mut comparison = PairComparison { a, b, policy, scopes: [a.scope(), b.scope()], differences: Vec::new() };
        for is_call in [true, false] {
            let messages = [a, b].map(|record| if is_call { &record.call } else { &record.reply });
            let [Some(of_a), Some(of_b)] = messages else {
                let [in_a, in_b] = messages.map(Option::is_some);
                if in_a != in_b {
                    let kind = if is_call { DifferenceKind::Call } else { DifferenceKind::Reply };
                    let presence = |is_present| if is_present { "present" } else { "not in the capture" };
                    comparison.add_length_difference(kind, is_call, "", presence(in_a), presence(in_b));
                    // The Reply alone does not identify the operation.
                    if is_call {
                        return comparison.into_differences();
                    }
                }
                continue;
            };
            self.messages(&mut comparison, is_call, of_a, of_b);
            if policy.compares_lengths() {
                self.compare_lengths(&mut comparison, is_call, of_a, of_b);
            }
        }
        if policy.compares_lengths() {
            self.compare_chunks(&mut comparison);
        }
        if a.missing != b.missing && a.call.is_some() == b.call.is_some() && a.reply.is_some() == b.reply.is_some() {
            let is_call = |record: &ComparableTransaction| record.missing.iter().any(|code| code.starts_with("call"));
            let text = |record: &ComparableTransaction| {
                if record.missing.is_empty() {
                    "complete".to_owned()
                } else {
                    "missing ".to_owned() + &record.missing.join(" ")
                }
            };
            let in_call = is_call(a) || is_call(b);
            comparison.add_length_difference(DifferenceKind::Incomplete, in_call, "", text(a), text(b));
        }
        if policy.is_exact && !policy.is_strict {
            compare_exactly(&mut comparison);
        }
        compare_findings(&mut comparison);
        comparison.into_differences()
    }

    fn messages(
        &mut self,
        comparison: &mut PairComparison<'_>,
        is_call: bool,
        a: &ComparableMessage,
        b: &ComparableMessage,
    ) {
        let is_whole = a.completeness == MessageDecodeCompleteness::Complete
            && b.completeness == MessageDecodeCompleteness::Complete;
        let mut at = (0, 0);
        let pairs = pair_sections(&a.sections, &b.sections, comparison.policy.differs_in_rdma);
        for (i, j) in pairs.into_iter().chain([(a.sections.len(), b.sections.len())]) {
            // After a failure no operation follows.
            if is_whole && (is_call || !comparison.has_status_difference()) {
                report_unpaired_sections(comparison, is_call, DifferenceKind::Missing, &a.sections, at.0..i);
                report_unpaired_sections(comparison, is_call, DifferenceKind::Extra, &b.sections, at.1..j);
            }
            if let (Some(a), Some(b)) = (a.sections.get(i), b.sections.get(j)) {
                let is_plus = comparison.policy.differs_in_rdma && a.name != b.name;
                let position = OperationPosition { is_call, section: i };
                // An operation without a status is in the union of the previous one.
                let mut entries = a.entries.iter().chain(&b.entries);
                let has_status =
                    entries.any(|entry| entry.path.class == FieldEqualityRequirement::Equal(DifferenceKind::Status));
                let differs_in_union_arm = !is_call && comparison.has_status_difference() && !has_status;
                let sections = ComparedOperationPair {
                    spot: position,
                    a,
                    b,
                    is_whole,
                    is_plus,
                    differs_in_union_arm,
                    differing_unions: Vec::new(),
                    group: None,
                };
                self.sections(comparison, sections);
            }
            at = (i + 1, j + 1);
        }
        // Different union arms may decode differently.
        if (a.completeness == MessageDecodeCompleteness::Undecoded)
            != (b.completeness == MessageDecodeCompleteness::Undecoded)
            && !comparison.has_status_difference()
        {
            let state = |message: &ComparableMessage| {
                if message.completeness == MessageDecodeCompleteness::Undecoded { "not decoded" } else { "decoded" }
            };
            comparison.add_length_difference(DifferenceKind::Undecoded, is_call, "", state(a), state(b));
        }
    }

    fn sections(&mut self, comparison: &mut PairComparison<'_>, mut sections: ComparedOperationPair<'_>) {
        let ComparedOperationPair { a, b, is_plus, .. } = sections;
        // READ_PLUS has its data in parts; their hash is that of a READ.
        let is_both_plus = a.name == b.name && a.is_operation(Operation::READ_PLUS);
        let is_skipped = |entry: &&ComparableMessageField| {
            is_plus && (READ_PLUS_CONTENT.iter().any(|label| has_label(&entry.path.text, label)))
                || is_both_plus && &*entry.path.text == field_labels::DATA
                || entry.path.field == OPERATION_COUNT_FIELD
        };
        let of_a: Vec<_> = a.entries.iter().filter(|entry| !is_skipped(entry)).collect();
        let of_b: Vec<_> = b.entries.iter().filter(|entry| !is_skipped(entry)).collect();
        if !sections.spot.is_call
            && let (Some(listing_a), Some(listing_b)) =
                (ComparedDirectoryListing::find(&of_a), ComparedDirectoryListing::find(&of_b))
            && !listing_a.is_same(&listing_b)
        {
            self.listings(comparison, &mut sections, (&of_a, listing_a), (&of_b, listing_b));
        } else {
            self.fields(comparison, &mut sections, &of_a, &of_b);
        }
    }

    /// Compares two listings of one directory with different names.
    fn listings(
        &mut self,
        comparison: &mut PairComparison<'_>,
        sections: &mut ComparedOperationPair<'_>,
        (of_a, a): (&[&ComparableMessageField], ComparedDirectoryListing<'_>),
        (of_b, b): (&[&ComparableMessageField], ComparedDirectoryListing<'_>),
    ) {
        let mut fields = |comparison: &mut PairComparison<'_>, in_a: Range<usize>, in_b: Range<usize>| {
            let (in_a, in_b) = (of_a.get(in_a).unwrap_or_default(), of_b.get(in_b).unwrap_or_default());
            self.fields(comparison, sections, in_a, in_b);
        };
        fields(comparison, 0..a.fields.start, 0..b.fields.start);
        let mut unpaired = Vec::new();
        for entry_pair in a.match_entries(&b) {
            match entry_pair {
                ComparedDirectoryEntryPair::Pair(in_a, in_b) => fields(comparison, in_a, in_b),
                ComparedDirectoryEntryPair::OnlyInA(name) => unpaired.push([Some(name.display_text()), None]),
                ComparedDirectoryEntryPair::OnlyInB(name) => unpaired.push([None, Some(name.display_text())]),
                ComparedDirectoryEntryPair::Moved(name, from, to) => {
                    let moved_text = |index| Some(format!("{} in place {index}", name.display_text()));
                    unpaired.push([moved_text(from), moved_text(to)]);
                }
            }
        }
        fields(comparison, a.fields.end..of_a.len(), b.fields.end..of_b.len());
        let name = of_a.iter().find(|entry| {
            field_path_text::ends_with_labels(&entry.path.text, &[field_labels::ENTRIES, field_labels::NAME])
        });
        let (path, field) = match name {
            Some(entry) => (sections.path(entry), entry.path.field),
            None => (String::new(), ""),
        };
        for values in unpaired {
            comparison.add(DifferenceKind::Name, sections.spot, path.clone(), field, values);
        }
    }

    fn fields(
        &mut self,
        comparison: &mut PairComparison<'_>,
        sections: &mut ComparedOperationPair<'_>,
        a: &[&ComparableMessageField],
        b: &[&ComparableMessageField],
    ) {
        let (mut of_a, mut of_b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
        let equivalence = OperationFieldPathEquivalence {
            is_plus: sections.is_plus,
            is_other_minor: comparison.policy.differs_in_minor_version,
        };
        let is_same_path = |a: &ComparableMessageField, b: &ComparableMessageField| has_same_path(a, b, equivalence);
        loop {
            match (of_a.peek().copied(), of_b.peek().copied()) {
                (Some(field_a), Some(field_b)) if is_same_path(field_a, field_b) => {
                    self.entries(comparison, sections, field_a, field_b);
                    of_a.next();
                    of_b.next();
                }
                (Some(field_a), Some(field_b)) => {
                    let find = |entries: &mut dyn Iterator<Item = &ComparableMessageField>,
                                target: &ComparableMessageField| {
                        entries.take(MAX_LOOKAHEAD).position(|entry| is_same_path(entry, target))
                    };
                    let in_b = find(&mut of_b.clone(), field_a);
                    let in_a = find(&mut of_a.clone(), field_b);
                    if in_b.is_none() || in_a.is_some_and(|index| Some(index) < in_b) {
                        if let Some(entry) = of_a.next() {
                            self.compare_unpaired_field(comparison, sections, entry, true);
                        }
                    } else if let Some(entry) = of_b.next() {
                        self.compare_unpaired_field(comparison, sections, entry, false);
                    }
                }
                (Some(_), None) | (None, Some(_)) => {
                    // Fields missing in an incomplete message are unknown.
                    let is_a = of_a.peek().is_some();
                    let Some(entry) = of_a.next().or_else(|| of_b.next()) else { break };
                    if sections.is_whole {
                        self.compare_unpaired_field(comparison, sections, entry, is_a);
                    } else {
                        self.compared.unknown += 1;
                    }
                }
                (None, None) => break,
            }
        }
    }

    fn compare_unpaired_field(
        &mut self,
        comparison: &mut PairComparison<'_>,
        sections: &mut ComparedOperationPair<'_>,
        entry: &ComparableMessageField,
        is_a: bool,
    ) {
        let is_below = |prefix: &str| entry.path.text.starts_with(prefix);
        // The reason of a denied Call is shown with it.
        let is_denial = matches!(entry.path.field, field_names::RPC_STATE_REJECT | field_names::RPC_STATE_AUTH);
        let differs_in_union =
            sections.differs_in_union_arm || sections.differing_unions.iter().any(|arm| is_below(arm));
        if differs_in_union && !is_denial {
            return;
        }
        let kind = match comparison.policy.treatment_of_one(&entry.path, sections.spot.is_call) {
            FieldComparisonTreatment::Equal(kind) | FieldComparisonTreatment::EqualBits(kind, _) => kind,
            FieldComparisonTreatment::MinorVersionDependent => {
                self.compared.version_dependent_fields += 1;
                return;
            }
            FieldComparisonTreatment::Ignored | FieldComparisonTreatment::IdentityNames(_) => return,
        };
        if let Some(group) = sections.group.as_ref().filter(|_| !is_denial)
            && group.is_a == is_a
            && is_below(&group.above)
        {
            comparison.count_repeated(group.kind, sections.spot, &group.path);
            return;
        }
        let value = Some(entry.datum.display_text());
        let values = if is_a { [value, None] } else { [None, value] };
        let path = sections.path(entry);
        let parent = entry.path.parent_path().to_owned();
        sections.group =
            (!parent.is_empty()).then(|| OneSidedFieldGroup { is_a, above: parent, path: path.clone(), kind });
        comparison.add(kind, sections.spot, path, entry.path.field, values);
    }

    fn entries(
        &mut self,
        comparison: &mut PairComparison<'_>,
        sections: &mut ComparedOperationPair<'_>,
        a: &ComparableMessageField,
        b: &ComparableMessageField,
    ) {
        let path = &a.path;
        if path.field == OPERATION_COUNT_FIELD {
            return;
        }
        sections.group = None;
        if sections.differs_in_union_arm {
            return;
        }
        if a.datum.is_unknown() || b.datum.is_unknown() {
            self.compared.unknown += 1;
            return;
        }
        let is_same = a.datum.is_same(&b.datum);
        if !is_same && (a.datum.is_discriminant() || b.datum.is_discriminant()) && !path.parent_path().is_empty() {
            sections.differing_unions.push(path.parent_path().to_owned());
        }
        let (kind, bits) = match comparison.policy.treatment_of_both(path, sections.spot.is_call, &a.datum, &b.datum) {
            FieldComparisonTreatment::Ignored => return,
            FieldComparisonTreatment::MinorVersionDependent => {
                self.compared.version_dependent_fields += 1;
                return;
            }
            FieldComparisonTreatment::IdentityNames(identity) => {
                return self.identities(comparison, sections, identity, a, b);
            }
            FieldComparisonTreatment::Equal(kind) => (kind, sections.umask(a, b)),
            FieldComparisonTreatment::EqualBits(kind, bits) => (kind, bits),
        };
        // Another field at the same path; one without a name is not compared.
        let is_other = a.path.field != b.path.field && a.path.field != AMBIGUOUS_FIELD && b.path.field.contains('.');
        if comparison.policy.is_exact && !comparison.policy.is_strict && is_other {
            let values = [Some(a.path.field.to_owned()), Some(b.path.field.to_owned())];
            return comparison.add(kind, sections.spot, sections.path(a), b.path.field, values);
        }
        self.compared.fields += 1;
        if let (DifferenceKind::Data, ComparedFieldValue::Digest(length, _)) = (kind, &a.datum) {
            self.compared.data_bytes += length;
        }
        let is_same = is_same || a.datum.is_same_in(&b.datum, bits);
        if !is_same && !self.options.tolerates(path.field, &a.datum, &b.datum) {
            let values = [Some(a.datum.display_text()), Some(b.datum.display_text())];
            sections.differs_in_union_arm |= kind == DifferenceKind::Status;
            comparison.add(kind, sections.spot, sections.path(a), path.field, values);
        }
    }

    fn identities(
        &mut self,
        comparison: &mut PairComparison<'_>,
        sections: &ComparedOperationPair<'_>,
        identity: MappedIdentifierType,
        a: &ComparableMessageField,
        b: &ComparableMessageField,
    ) {
        self.compared.fields += 1;
        let [scope_a, scope_b] = comparison.scopes;
        let name_a = ServerAssignedValueHash::from_value(identity, &a.datum, scope_a);
        let name_b = ServerAssignedValueHash::from_value(identity, &b.datum, scope_b);
        match (name_a, name_b) {
            (None, None) if a.datum.is_same(&b.datum) => {}
            (Some(name_a), Some(name_b)) => {
                self.identities.record_pair(name_a, name_b, || FirstOccurrenceOfIdentifierPair {
                    operation: Rc::clone(&comparison.a.title),
                    section: (sections.spot.section, Rc::clone(&sections.a.name)),
                    path: Rc::clone(&a.path),
                    identity,
                    places: [comparison.a.location, comparison.b.location],
                    frames: [comparison.a, comparison.b].map(|record| frame(record, sections.spot.is_call)),
                    values: [a.datum.clone(), b.datum.clone()],
                })
            }
            _ => {
                let values = [a, b].map(|entry| Some(format!("{} {}", identity.word(), entry.datum.display_text())));
                comparison.add(DifferenceKind::Identity, sections.spot, sections.path(a), a.path.field, values);
            }
        }
    }
}

/// Relation of two operations, on which the paths of their fields depend.
#[derive(Clone, Copy)]
struct OperationFieldPathEquivalence {
    is_plus: bool,
    is_other_minor: bool,
}

fn has_same_path(
    a: &ComparableMessageField,
    b: &ComparableMessageField,
    equivalence: OperationFieldPathEquivalence,
) -> bool {
    if Rc::ptr_eq(&a.path, &b.path) || a.path.text == b.path.text {
        return true;
    }
    // NFSv4.2 has a mode together with the umask to apply (RFC 8275 section 3).
    if equivalence.is_other_minor {
        let mode_umask = [field_labels::MODE_UMASK, field_labels::MU_MODE];
        let plain = |entry: &ComparableMessageField| match strip_labels(&entry.path.text, &mode_umask) {
            Some(parent) => format!("{parent}{}", field_labels::MODE),
            None => entry.path.text.to_string(),
        };
        return plain(a) == plain(b);
    }
    let is_same_label =
        |a: &str, b: &str| a == b || READ_PLUS_LABELS.contains(&(a, b)) || READ_PLUS_LABELS.contains(&(b, a));
    equivalence.is_plus
        && (a.path.field == b.path.field && !a.path.field.is_empty() || is_same_label(a.path.leaf(), b.path.leaf()))
}

/// Labels of the same field in READ_PLUS and in READ. RFC 7862 section 15.10, RFC 8881 section 18.22.
const READ_PLUS_LABELS: [(&str, &str); 4] = [
    (field_labels::RPA_STATEID, field_labels::STATEID),
    (field_labels::RPA_OFFSET, field_labels::OFFSET),
    (field_labels::RPA_COUNT, field_labels::COUNT),
    (field_labels::RPR_EOF, field_labels::EOF),
];

/// Labels of the parts of READ_PLUS, which READ lacks. RFC 7862 section 15.10.
const READ_PLUS_CONTENT: [&str; 4] =
    [field_labels::RPR_CONTENTS, field_labels::RPC_CONTENT, field_labels::RPC_DATA, field_labels::RPC_HOLE];

/// Reports the operations in this range, which one side alone has.
fn report_unpaired_sections(
    comparison: &mut PairComparison<'_>,
    is_call: bool,
    kind: DifferenceKind,
    sections: &[ComparedOperationOrHeaders],
    range: Range<usize>,
) {
    for (at, section) in sections.iter().enumerate().take(range.end).skip(range.start) {
        // NFSv4.0 has no sessions (RFC 8881 section 2.10).
        if section.is_operation(Operation::SEQUENCE) && comparison.policy.differs_in_minor_version {
            continue;
        }
        let position = OperationPosition { is_call, section: at };
        let presence = Some("present".to_owned());
        let values = if kind == DifferenceKind::Missing { [presence, None] } else { [None, presence] };
        comparison.add(kind, position, section.name.to_string(), "", values);
    }
}

/// Pairs the operations of two COMPOUNDs: the longest common subsequence of names.
fn pair_sections(
    a: &[ComparedOperationOrHeaders],
    b: &[ComparedOperationOrHeaders],
    differs_in_rdma: bool,
) -> Vec<(usize, usize)> {
    let is_same = |a: &ComparedOperationOrHeaders, b: &ComparedOperationOrHeaders| {
        let is_read = |section: &ComparedOperationOrHeaders| {
            section.is_operation(Operation::READ) || section.is_operation(Operation::READ_PLUS)
        };
        a.name == b.name || differs_in_rdma && is_read(a) && is_read(b)
    };
    if a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)) {
        return (0..a.len()).map(|at| (at, at)).collect();
    }
    super::alignment::heaviest_subsequence(a.len().min(MAX_LOOKAHEAD), b.len().min(MAX_LOOKAHEAD), |i, j| {
        u32::from(a.get(i).zip(b.get(j)).is_some_and(|(a, b)| is_same(a, b)))
    })
}

/// Checks for two decodings of one message: title, status, and the extent of the decoding.
fn compare_exactly(comparison: &mut PairComparison<'_>) {
    let (a, b) = (comparison.a, comparison.b);
    if a.title != b.title && !comparison.has_difference() {
        comparison.add_length_difference(DifferenceKind::Header, true, "", &a.title, &b.title);
    }
    if a.status != b.status && !comparison.has_difference() {
        comparison.add_length_difference(DifferenceKind::Status, false, "", &a.status, &b.status);
    }
    for (is_call, messages) in [(true, [&a.call, &b.call]), (false, [&a.reply, &b.reply])] {
        let [Some(message_a), Some(message_b)] = messages else { continue };
        if message_a.completeness != message_b.completeness && !comparison.has_difference() {
            let completeness = |message: &ComparableMessage| match message.completeness {
                MessageDecodeCompleteness::Complete => "whole",
                MessageDecodeCompleteness::Truncated => "cut",
                MessageDecodeCompleteness::Undecoded => "not decoded",
            };
            comparison.add_length_difference(
                DifferenceKind::Incomplete,
                is_call,
                "",
                completeness(message_a),
                completeness(message_b),
            );
        }
    }
}

/// Compares the conformance findings. Each new finding, and each that vanished, is a difference.
fn compare_findings(comparison: &mut PairComparison<'_>) {
    let (a, b) = (comparison.a, comparison.b);
    for ComparableFinding { rule, is_call } in without(&a.findings, &b.findings) {
        comparison.add_length_difference(DifferenceKind::Finding, *is_call, "", rule, "none");
    }
    for ComparableFinding { rule, is_call } in without(&b.findings, &a.findings) {
        comparison.add_length_difference(DifferenceKind::Finding, *is_call, "", "none", rule);
    }
}

/// Returns the findings of rules that `other_findings` lack. If a rule occurs more often than there, each further
/// occurrence is returned.
fn without<'r>(findings: &'r [ComparableFinding], other_findings: &[ComparableFinding]) -> Vec<&'r ComparableFinding> {
    let mut other_rules: Vec<&str> = other_findings.iter().map(|finding| &*finding.rule).collect();
    let mut lacking = Vec::new();
    for finding in findings {
        match other_rules.iter().position(|other| *other == &*finding.rule) {
            Some(at) => _ = other_rules.swap_remove(at),
            None => lacking.push(finding),
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_as_often_as_it_occurs() {
        let findings = |rules: &[&str]| -> Vec<ComparableFinding> {
            rules.iter().map(|rule| ComparableFinding { rule: (*rule).into(), is_call: false }).collect()
        };
        let (once, twice) = (findings(&["a/b"]), findings(&["a/a", "a/b", "a/b"]));
        let rules = |lacking: Vec<&ComparableFinding>| -> Vec<String> {
            lacking.iter().map(|finding| finding.rule.to_string()).collect()
        };
        assert_eq!(rules(without(&twice, &once)), ["a/a", "a/b"]);
        assert_eq!(rules(without(&once, &twice)), [""; 0]);
    }
}
