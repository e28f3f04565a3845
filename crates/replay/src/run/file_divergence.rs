//! Differences of a file from the capture caused by an earlier step: one that the server could not execute, that did
//! more than in the capture, that a filter left out, or whose data is not in the trace.
//!
//! Later differences are explained by them, byte by byte and field by field. A status is explained only if the
//! operation can fail because of a missing name or the size.

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::FxHashMap;

use crate::run::dependencies::effects::OperationEffect;
use crate::tree::byte_ranges::ReplayByteRangeSet;

/// Maximum number of separate ranges remembered per file.
const MAX_RANGES: usize = 64;
/// Maximum number of files whose differences from the capture are remembered.
pub(super) const MAX_DIVERGENT_FILES: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct FileDivergence {
    data: ReplayByteRangeSet,
    size: bool,
    /// `true` if names, link count or existence differ.
    names: bool,
    /// `true` if mode or owners differ.
    attributes: bool,
    xattrs: bool,
    /// `true` if locks differ.
    locks: bool,
    /// Sections of the message in which the places of holes differ, but not the data.
    holes: Vec<usize>,
    /// `true` if another client, whose Calls are not in the capture, changed the file there.
    is_by_other_client: bool,
}

impl FileDivergence {
    /// Returns a divergence of these bytes, not of the size.
    pub(super) fn from_data_range(from: u64, to: u64) -> Self {
        let mut divergence = Self::default();
        divergence.data.add(from, to, MAX_RANGES, |_, _| {});
        divergence
    }

    /// Records that SEEK may find holes elsewhere, in this section of the message.
    pub(super) fn add_holes(&mut self, section: usize) {
        self.holes.push(section);
    }

    /// Returns a divergence of mode and owners.
    pub(super) fn of_attributes() -> Self {
        Self { attributes: true, ..Self::default() }
    }

    /// Returns a divergence of locks.
    pub(super) fn of_locks() -> Self {
        Self { locks: true, ..Self::default() }
    }

    pub(super) fn everything() -> Self {
        Self { size: true, names: true, attributes: true, xattrs: true, ..Self::from_data_range(0, u64::MAX) }
    }

    /// Returns a divergence by a client whose Calls are not captured: of the content, and if `names` of names.
    pub(super) fn by_other_client(names: bool) -> Self {
        Self { size: true, names, is_by_other_client: true, ..Self::from_data_range(0, u64::MAX) }
    }

    pub(super) fn is_outside(&self) -> bool {
        self.is_by_other_client
    }

    /// Returns the divergence caused by an operation that was executed only in the capture or only in the run.
    /// `written` is the length of its payload in bytes.
    pub(super) fn from_operation(operation: Option<Operation>, effect: OperationEffect, written: u64) -> Self {
        match operation {
            Some(Operation::SETXATTR | Operation::REMOVEXATTR) => Self { xattrs: true, ..Self::default() },
            Some(Operation::LOCK | Operation::LOCKU) => Self::of_locks(),
            _ => Self::from_effect(effect, written),
        }
    }

    fn from_effect(effect: OperationEffect, written: u64) -> Self {
        let range =
            |from: u64, count: u64| Self { size: true, ..Self::from_data_range(from, from.saturating_add(count)) };
        match effect {
            OperationEffect::Write(offset, count) => range(offset, count.unwrap_or(written)),
            // A count of 0 means up to the end (RFC 7862 sections 15.2.3 and 15.13.3).
            OperationEffect::Copy(_, to, 0) => range(to, u64::MAX),
            OperationEffect::Copy(_, to, count) => range(to, count),
            // Size, mode and owners; which of them is changed is not examined.
            OperationEffect::ChangeAttributes => {
                Self { attributes: true, size: true, ..Self::from_data_range(0, u64::MAX) }
            }
            // It may truncate.
            OperationEffect::Open(_, true) | OperationEffect::Create(_) => Self::everything(),
            OperationEffect::Link(_) | OperationEffect::Remove(_) | OperationEffect::Rename(..) => {
                Self { names: true, ..Self::default() }
            }
            OperationEffect::Nothing
            | OperationEffect::ReadAttributes
            | OperationEffect::Lookup(_)
            | OperationEffect::ReadName(_)
            | OperationEffect::ReadDirectory
            | OperationEffect::Open(_, false)
            | OperationEffect::ChangeFileState
            | OperationEffect::FreeState
            | OperationEffect::Read(..)
            | OperationEffect::ExclusiveClient => Self::default(),
        }
    }

    pub(super) fn affects_only_names(&self) -> bool {
        self.names && !self.size && !self.attributes && !self.xattrs && self.data.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.size && !self.names && !self.attributes && !self.xattrs && !self.locks && self.data.is_empty()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (from, to) in other.data.iter() {
            self.data.add(from, to, MAX_RANGES, |_, _| {});
        }
        self.size |= other.size;
        self.names |= other.names;
        self.attributes |= other.attributes;
        self.xattrs |= other.xattrs;
        self.locks |= other.locks;
        self.is_by_other_client |= other.is_by_other_client;
        self.holes.extend_from_slice(&other.holes);
    }

    /// Ends the divergence of these bytes, which were written as in the capture.
    pub(super) fn clear_data_range(&mut self, from: u64, to: u64) {
        self.data.remove(from, to);
    }

    pub(super) fn unchanged_ranges(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        self.data.gaps(from, to)
    }

    /// Returns `true` if all these differences may follow from the divergence. For data of READ one differing byte
    /// suffices; the other bytes must be compared separately.
    pub(super) fn explains(&self, differences: &[Difference]) -> bool {
        // Missing results of a failed operation are not differences of their own.
        let has_other_status = differences.iter().any(|difference| difference.kind == DifferenceKind::Status);
        differences.iter().all(|difference| match difference.kind {
            DifferenceKind::Missing | DifferenceKind::Extra => has_other_status,
            _ => self.explains_one(difference),
        })
    }

    fn explains_one(&self, difference: &Difference) -> bool {
        let operation = Operation::from_name(operation(difference));
        let has_holes = operation == Some(Operation::SEEK) && self.holes.contains(&difference.section);
        let has_content = has_holes || self.size || !self.data.is_empty();
        let reads = matches!(operation, Some(Operation::READ | Operation::READ_PLUS));
        let copies = matches!(operation, Some(Operation::COPY | Operation::CLONE));
        match difference.kind {
            DifferenceKind::Status => {
                let values = [&difference.a, &difference.b];
                values.iter().all(|side| {
                    side.value.as_deref().is_some_and(|status| self.may_have_status(operation, has_holes, status))
                })
            }
            DifferenceKind::Data if reads => has_content,
            DifferenceKind::Count if reads || copies => has_content,
            DifferenceKind::Offset if operation == Some(Operation::SEEK) => has_content,
            DifferenceKind::Data | DifferenceKind::Name => self.names,
            _ => match difference.path.rsplit('.').next().unwrap_or_default() {
                field_labels::SIZE => self.size,
                field_labels::EOF | field_labels::SR_EOF => has_content,
                field_labels::NUMLINKS | field_labels::NLINK => self.names,
                field_labels::LXR_EOF => self.xattrs,
                _ => difference.kind == DifferenceKind::Result && self.attributes,
            },
        }
    }

    fn may_have_status(&self, operation: Option<Operation>, has_holes: bool, status: &str) -> bool {
        if status.ends_with("_OK") {
            return true;
        }
        let Some(status) = status.strip_prefix("NFS4ERR_").or(status.strip_prefix("NFS3ERR_")) else {
            return false;
        };
        match (operation, status) {
            (_, "NOENT" | "EXIST" | "NOTEMPTY") => self.names,
            // Locks that the run has and the capture does not, or the reverse.
            (_, "LOCKS_HELD") => self.locks,
            (Some(Operation::LOCK | Operation::LOCKT), "DENIED") => self.locks,
            // Another client has removed it.
            (_, "STALE") => self.names && self.is_by_other_client,
            // No data from the offset on: RFC 7862 section 15.11.3.
            (Some(Operation::SEEK), "NXIO") => has_holes || self.size || !self.data.is_empty(),
            // The source ends before the range: RFC 7862 sections 15.2.3 and 15.13.3.
            (Some(Operation::COPY | Operation::CLONE), "INVAL") => self.size,
            (Some(Operation::VERIFY | Operation::NVERIFY), "SAME" | "NOT_SAME") => self.size || self.attributes,
            (Some(Operation::GETXATTR | Operation::REMOVEXATTR), "NOXATTR") => self.xattrs,
            _ => false,
        }
    }
}

fn operation(difference: &Difference) -> &str {
    let title = difference.operation.rsplit(' ').next().unwrap_or_default();
    // The paths of COMPOUND fields begin with the operation.
    match difference.operation.starts_with("NFS 4") {
        true => difference.path.split_once('.').map_or(title, |(operation, _)| operation),
        false => title,
    }
}

/// Records differences of a file from the capture, if the number of files allows it.
pub(super) fn record_divergence(files: &mut FxHashMap<u32, FileDivergence>, variable: u32, touched: &FileDivergence) {
    if !touched.is_empty() && (files.len() < MAX_DIVERGENT_FILES || files.contains_key(&variable)) {
        files.entry(variable).or_default().merge(touched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_analysis::comparison::difference::DifferenceSideValue;

    fn difference(kind: DifferenceKind, operation: &str, path: &str, values: [&str; 2]) -> Difference {
        let [a, b] =
            values.map(|value| DifferenceSideValue { location: None, frame: None, value: Some(value.to_owned()) });
        Difference {
            kind,
            operation: operation.to_owned(),
            path: path.to_owned(),
            section: 0,
            field: "",
            count: 1,
            a,
            b,
        }
    }

    #[test]
    fn a_status_is_explained_by_a_name_that_is_not_there_and_by_nothing_else() {
        let linked = FileDivergence::from_effect(OperationEffect::Link(1), 0);
        let status = |to: &str| difference(DifferenceKind::Status, "NFS 4.2 LOOKUP", "LOOKUP.status", ["NFS4_OK", to]);
        assert!(linked.explains(&[status("NFS4ERR_NOENT")]));
        for other in ["NFS4ERR_IO", "NFS4ERR_ACCESS", "NFS4ERR_STALE", "NFS4ERR_SERVERFAULT"] {
            assert!(!linked.explains(&[status(other)]), "{other}");
            assert!(!FileDivergence::everything().explains(&[status(other)]), "{other}");
        }
        assert!(
            !FileDivergence::from_effect(OperationEffect::Write(0, Some(10)), 0).explains(&[status("NFS4ERR_NOENT")])
        );
        // Results missing after it are explained as well.
        let missing = difference(DifferenceKind::Missing, "NFS 4.2 LOOKUP", "GETFH", ["present", ""]);
        assert!(linked.explains(&[status("NFS4ERR_NOENT"), missing.clone()]));
        assert!(!linked.explains(&[missing]));
    }

    #[test]
    fn of_a_file_that_was_cloned_into_size_and_data_may_differ_and_mode_and_links_may_not() {
        let cloned = FileDivergence::from_effect(OperationEffect::Copy(0, 4096, 4096), 0);
        let of = |path: &str| difference(DifferenceKind::Result, "NFS 4.2 GETATTR", path, ["1", "2"]);
        assert!(cloned.explains(&[of("GETATTR.obj_attributes.size")]));
        assert!(!cloned.explains(&[of("GETATTR.obj_attributes.mode")]));
        assert!(!cloned.explains(&[of("GETATTR.obj_attributes.numlinks")]));
        assert_eq!(cloned.unchanged_ranges(0, 10_000), [(0, 4096), (8192, 10_000)]);
        assert!(cloned.explains(&[difference(DifferenceKind::Data, "NFS 4.2 READ", "READ.data", ["a", "b"])]));
        // Fields of NFSv3 have no operation in their path.
        assert!(cloned.explains(&[difference(DifferenceKind::Data, "NFS 3 READ", "data", ["a", "b"])]));
        assert!(!cloned.explains(&[difference(DifferenceKind::Data, "NFS 3 READLINK", "data", ["a", "b"])]));
    }

    #[test]
    fn data_that_is_written_again_diverges_no_more() {
        let mut copied = FileDivergence::from_effect(OperationEffect::Copy(0, 4096, 8192), 0);
        copied.clear_data_range(0, 4096);
        assert_eq!(copied.unchanged_ranges(0, 16384), [(0, 4096), (12288, 16384)]);
        copied.clear_data_range(6000, 7000);
        assert_eq!(copied.unchanged_ranges(0, 16384), [(0, 4096), (6000, 7000), (12288, 16384)]);
        copied.clear_data_range(0, u64::MAX);
        assert_eq!(copied.unchanged_ranges(0, 16384), [(0, 16384)]);
        // Its size may still be another one.
        assert!(!copied.is_empty());
    }

    /// A server may refuse to close a file with locks: RFC 8881 section 18.2.3.
    #[test]
    fn locks_explain_locks_held() {
        let status = |operation: &str, to: &str| {
            difference(DifferenceKind::Status, "NFS 4.2 CLOSE", &format!("{operation}.status"), ["NFS4_OK", to])
        };
        for operation in [Operation::LOCK, Operation::LOCKU] {
            let locked = FileDivergence::from_operation(Some(operation), OperationEffect::ChangeFileState, 0);
            assert!(!locked.is_empty());
            assert!(locked.explains(&[status("CLOSE", "NFS4ERR_LOCKS_HELD")]));
            assert!(locked.explains(&[status("LOCKT", "NFS4ERR_DENIED")]));
            assert!(!locked.explains(&[status("CLOSE", "NFS4ERR_BAD_STATEID")]));
            assert!(!locked.explains(&[status("OPEN", "NFS4ERR_DENIED")]));
        }
        assert!(!FileDivergence::everything().explains(&[status("CLOSE", "NFS4ERR_LOCKS_HELD")]));
    }

    /// RFC 7862 section 15.11.3: where holes are says nothing about the data of a READ.
    #[test]
    fn holes_explain_their_seek_only() {
        let mut touched = FileDivergence::default();
        touched.add_holes(3);
        let of = |section, kind, operation: &str, leaf: &str, values| {
            let path = format!("{operation}.{leaf}");
            Difference { section, ..difference(kind, "NFS 4.2 SEEK", &path, values) }
        };
        let seek = |section, kind, leaf: &str, values| of(section, kind, "SEEK", leaf, values);
        let offset = |section| seek(section, DifferenceKind::Offset, "sr_offset", ["0", "4096"]);
        let status = |section| seek(section, DifferenceKind::Status, "status", ["NFS4_OK", "NFS4ERR_NXIO"]);
        let eof = |section| seek(section, DifferenceKind::Result, "sr_eof", ["true", "false"]);
        for (found, is_explained) in [
            (offset(3), true),
            (status(3), true),
            (eof(3), true),
            (offset(5), false),
            (status(5), false),
            (eof(5), false),
            (of(4, DifferenceKind::Data, "READ", "data", ["a", "b"]), false),
            (of(4, DifferenceKind::Count, "READ", "count", ["1", "2"]), false),
            (of(3, DifferenceKind::Status, "READ", "status", ["NFS4_OK", "NFS4ERR_NXIO"]), false),
        ] {
            assert_eq!(touched.explains(std::slice::from_ref(&found)), is_explained, "{found:?}");
        }
    }

    #[test]
    fn a_read_causes_no_divergence() {
        assert!(FileDivergence::from_effect(OperationEffect::Read(0, 10), 0).is_empty());
        assert!(!FileDivergence::from_effect(OperationEffect::Write(5, None), 3).is_empty());
    }
}
