//! Verification of a run: live Replies against recorded ones, and the file tree that the steps must leave.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::file_divergence::FileDivergence;
use super::super::reply_check::ReplyChecker;
use super::super::tree_check::ExpectedTree;
use super::locks::LiveLockStateids;
use super::record_divergence;
use super::reply_check_queue::ReplyCheckQueue;
use super::window::WindowStep;
use crate::replay::trace::{MessageSlotKind, TraceStep};

/// State that determines whether a live Reply is right. It sends nothing.
pub(super) struct ReplyVerifier {
    pub(super) checker: ReplyChecker,
    pub(super) unchecked_replies: ReplyCheckQueue,
    /// Variables given by Replies that are not processed yet.
    pub(super) pending_variables: FxHashSet<u32>,
    /// Expected file tree after the run.
    pub(super) expected_tree: Option<ExpectedTree>,
    pub(super) locks: LiveLockStateids,
    /// Differences of files from the capture caused by earlier steps, by the variable of the file.
    pub(super) divergent_files: FxHashMap<u32, FileDivergence>,
    /// Variables of directories in which a create, remove or rename was not sent.
    pub(super) unmodified_directories: FxHashSet<u32>,
    /// `true` if an open of the trace, or one that replaces a delegation, is closed by no step.
    pub(super) leaves_open: bool,
    /// For each operation of the answered step, `true` if its file is a directory.
    pub(super) is_directory: Vec<bool>,
    /// Length and hash of the file data that the Reply must have, and a buffer for data generated from the key.
    pub(super) expected_data: Vec<(u32, Option<u128>)>,
    pub(super) key_data: Vec<u8>,
}

impl ReplyVerifier {
    /// Creates a verifier. The objects in `unmodified_directories` were not created, as the server does not accept them.
    pub(super) fn new(checker: ReplyChecker, unmodified_directories: FxHashSet<u32>) -> Self {
        Self {
            checker,
            unchecked_replies: ReplyCheckQueue::default(),
            pending_variables: FxHashSet::default(),
            expected_tree: Some(ExpectedTree::new()),
            locks: LiveLockStateids::default(),
            divergent_files: FxHashMap::default(),
            unmodified_directories,
            leaves_open: false,
            is_directory: Vec::new(),
            expected_data: Vec::new(),
            key_data: Vec::new(),
        }
    }

    /// Records that a step that the filter does not select does not change its files.
    pub(super) fn record_filtered(&mut self, step: &TraceStep<'_>, held: &WindowStep) {
        if held.description.effects.is_empty() || held.may_change_size_or_links() {
            let slots = step.call.slots.iter().chain(step.reply.slots.iter());
            for slot in slots.filter(|slot| slot.holds == MessageSlotKind::FILEHANDLE) {
                record_divergence(&mut self.divergent_files, slot.variable, &FileDivergence::everything());
            }
        }
    }
}
