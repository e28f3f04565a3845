//! Sizes of files in Replies of steps that overlapped with a change.
//!
//! Such a Reply may show the size before or after the change, so that it is not compared with the recorded one. It must
//! still be a size that the file had: one in a recorded Reply, the end of a WRITE or COPY, or 0. Changes that are
//! recorded later may have been executed earlier, so that the decision is made at the end.

use nfsrdma_analysis::comparison::difference::Difference;
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of files whose sizes are remembered.
const MAX_FILES: usize = 65_536;
/// Maximum number of sizes of a file, and of all files. If there are more, any size of the file is possible.
const MAX_SIZES: usize = 4_096;
const MAX_SIZES_OF_ALL: usize = 1 << 20;
/// Maximum number of sizes that are not explained yet.
const MAX_UNEXPLAINED: usize = 4_096;

#[derive(Debug, Default)]
struct PossibleFileSizes {
    bytes: FxHashSet<u64>,
    /// `true` once the size at a point in time is known, from which all others follow.
    has_base: bool,
    /// `true` if any size is possible, or the object is not a regular file.
    is_unlimited: bool,
}

/// A size that was not possible when it was returned.
#[derive(Debug)]
struct UnexplainedFileSizeInReply {
    /// Variable of the file's filehandle.
    file: u32,
    bytes: u64,
    difference: Difference,
}

#[derive(Debug, Default)]
pub(in super::super) struct OverlappedFileSizes {
    files: FxHashMap<u32, PossibleFileSizes>,
    count: usize,
    unexplained: Vec<UnexplainedFileSizeInReply>,
}

impl OverlappedFileSizes {
    fn file(&mut self, file: u32) -> Option<&mut PossibleFileSizes> {
        let has_capacity = self.files.len() < MAX_FILES || self.files.contains_key(&file);
        has_capacity.then(|| self.files.entry(file).or_default())
    }

    /// Records a size that a file has at some time.
    pub(super) fn add(&mut self, file: u32, bytes: u64) {
        let is_full = self.count >= MAX_SIZES_OF_ALL;
        let Some(sizes) = self.file(file) else { return };
        if sizes.is_unlimited || sizes.bytes.contains(&bytes) {
            return;
        }
        if is_full || sizes.bytes.len() >= MAX_SIZES {
            return self.set_unlimited(file);
        }
        sizes.bytes.insert(bytes);
        self.count += 1;
    }

    /// Records the size of a file at a time when nothing else changed it.
    pub(super) fn add_base(&mut self, file: u32, bytes: u64) {
        self.add(file, bytes);
        if let Some(sizes) = self.file(file) {
            sizes.has_base = true;
        }
    }

    /// Records that a file can have any size, or that an object is not a regular file.
    pub(super) fn set_unlimited(&mut self, file: u32) {
        if let Some(sizes) = self.file(file) {
            sizes.is_unlimited = true;
            self.count -= std::mem::take(&mut sizes.bytes).len();
        }
    }

    /// Checks a size in a Reply that overlapped with a change; `describe` returns the difference it may be.
    pub(super) fn check(&mut self, file: u32, bytes: u64, describe: impl FnOnce() -> Difference) {
        let sizes = self.files.get(&file);
        let is_checked = sizes.is_some_and(|sizes| sizes.has_base && !sizes.is_unlimited);
        let is_possible = sizes.is_some_and(|sizes| sizes.bytes.contains(&bytes));
        if is_checked && !is_possible && self.unexplained.len() < MAX_UNEXPLAINED {
            self.unexplained.push(UnexplainedFileSizeInReply { file, bytes, difference: describe() });
        }
    }

    /// Returns the sizes that no file had. All Replies must have been checked.
    pub(in super::super) fn take_unexplained(&mut self) -> impl Iterator<Item = Difference> {
        let unexplained = std::mem::take(&mut self.unexplained).into_iter().filter(|size| {
            let sizes = self.files.get(&size.file);
            sizes.is_some_and(|sizes| !sizes.is_unlimited && !sizes.bytes.contains(&size.bytes))
        });
        unexplained.map(|size| size.difference)
    }

    /// Forgets everything, after a restart of the server.
    pub(super) fn clear(&mut self) {
        self.files.clear();
        self.count = 0;
        self.unexplained.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_analysis::comparison::difference::DifferenceKind;

    fn violation(number: u64) -> Difference {
        let (kind, [operation, path]) = (DifferenceKind::Relation, <[String; 2]>::default());
        let [a, b] = Default::default();
        Difference { kind, operation, path, section: 0, field: "", count: number, a, b }
    }

    fn unexplained(sizes: &mut OverlappedFileSizes) -> Vec<u64> {
        sizes.take_unexplained().map(|difference| difference.count).collect()
    }

    #[test]
    fn a_size_before_or_after_an_overlapping_change_is_possible_and_no_other() {
        let mut sizes = OverlappedFileSizes::default();
        sizes.add_base(1, 100);
        sizes.check(1, 100, || violation(1));
        // The end of a WRITE that is only recorded later.
        sizes.check(1, 300, || violation(2));
        sizes.check(1, 200, || violation(3));
        sizes.add(1, 300);
        assert_eq!(unexplained(&mut sizes), [3]);
    }

    #[test]
    fn nothing_is_known_of_a_file_without_a_first_size() {
        let mut sizes = OverlappedFileSizes::default();
        sizes.add(1, 100);
        sizes.check(1, 7, || violation(1));
        sizes.check(2, 7, || violation(2));
        assert_eq!(unexplained(&mut sizes), [0; 0]);
    }

    #[test]
    fn a_file_with_too_many_sizes_can_have_any() {
        let mut sizes = OverlappedFileSizes::default();
        (0..MAX_SIZES as u64).for_each(|bytes| sizes.add_base(1, bytes));
        sizes.check(1, 1 << 40, || violation(1));
        sizes.add(1, 1 << 20);
        assert_eq!((unexplained(&mut sizes), sizes.count), (vec![], 0));
    }

    #[test]
    fn an_object_that_turns_out_to_be_a_directory_has_any_size() {
        let mut sizes = OverlappedFileSizes::default();
        sizes.add_base(1, 100);
        sizes.check(1, 7, || violation(1));
        sizes.set_unlimited(1);
        assert_eq!(unexplained(&mut sizes), [0; 0]);
    }
}
