//! A recorded and a live Reply that are compared, and the result of the comparison.

use std::time::Instant;

use nfsrdma_analysis::comparison::difference::{Difference, TransactionCaptureLocation};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, XdrArray};
use rustc_hash::FxHashMap;

use crate::run::call_operations_and_files::CallOperationsAndFiles;
use crate::run::report::steps::StepIdWithFrames;
use crate::run::tolerance_rules::BuiltInToleranceRule;
use crate::seed::file_server_client::LiveFilehandle;
use crate::trace::step::{MAX_LIST_LENGTH, SubstitutableMessageSlot};

/// A recorded and a live Reply to be compared.
pub struct ReplyPair<'a> {
    /// The `id` of the step.
    pub step: u64,
    /// First frames of Call and Reply in the capture; 0 if there is none.
    pub frames: [u64; 2],
    /// Title of the Call, for example `NFS 4.2 READ`.
    pub title: &'a str,
    /// Procedure, if its encoding is known.
    pub procedure: Option<Procedure>,
    /// The recorded Reply.
    pub recorded: Cursor<'a>,
    /// Length and hash of each of its DDP-eligible results whose content the cursor does not have, in order.
    pub known: &'a [(u32, Option<u128>)],
    /// The live Reply.
    pub live: Cursor<'a>,
    /// Contents of its Write chunks.
    pub chunks: &'a [ChunkedDataItem<'a>],
    /// For each operation, `true` if its attributes are those of a directory.
    pub directories: &'a [bool],
    /// `true` if the Call creates a file exclusively, without setting attributes.
    pub creates_exclusively: bool,
    /// For each operation, the variable of its file's filehandle, or [`NONE`](crate::trace::NONE).
    pub files: &'a [u32],
    /// Execution of the step; `None` if its values are not compared with earlier ones.
    pub execution: Option<ReplyCheckStepContext<'a>>,
    /// `true` if it overlapped in the capture with a step that changes files.
    pub is_racing: bool,
    /// `true` if the captured server asked for a retry, and the live server did not.
    pub is_delayed_in_capture: bool,
    /// Variable of the listed directory, and `true` if the listing begins with this Call.
    pub listing: Option<(u32, bool)>,
}

impl ReplyPair<'_> {
    pub(super) fn place(&self) -> TransactionCaptureLocation {
        StepIdWithFrames { step: self.step, frames: self.frames }.location()
    }
}

/// Execution of a step and the objects that it names.
#[derive(Clone)]
pub struct ReplyCheckStepContext<'a> {
    pub(in crate::run) parts: &'a CallOperationsAndFiles,
    /// Slots of the recorded Call and of the recorded Reply.
    pub(in crate::run) slots: [XdrArray<'a, SubstitutableMessageSlot, MAX_LIST_LENGTH>; 2],
    /// Sequence number among all steps of the run.
    pub(in crate::run) step_turn: u64,
    /// Capture time of the Call in nanoseconds since 1970.
    pub(in crate::run) call_time_ns: u64,
    /// Send time of the Call and arrival time of the Reply.
    pub(in crate::run) times: [Instant; 2],
    /// `true` if no change of files overlapped with it, in the capture or here.
    pub(in crate::run) has_no_overlap: bool,
    /// `true` if its Call was sent several times: the Reply may be that to an earlier one.
    pub(in crate::run) was_resent: bool,
    /// `true` if it was sent once, unchanged and in one piece.
    pub(in crate::run) was_sent_unchanged: bool,
    /// `true` if an OPEN was granted a delegation with which the client sets the times itself, there or here.
    pub(in crate::run) grants_delegated_times: bool,
    /// Objects from before the run, whose owner depends on the seeding.
    pub(in crate::run) seeded: &'a FxHashMap<u32, LiveFilehandle>,
    /// Live status of each operation of a COMPOUND that was started, or of the procedure.
    pub(in crate::run) statuses: &'a [u32],
    pub(in crate::run) written_bytes: &'a [u64],
    /// Returns `false` if an operation, by index, did not request the attribute of this name.
    pub(in crate::run) may_return: &'a dyn Fn(usize, &str) -> bool,
    /// Returns the path of a variable's object, if it is known.
    pub(in crate::run) path_of: &'a dyn Fn(u32) -> Option<String>,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyCheckResult {
    /// Everything that must be equal is equal.
    Matched,
    /// Only differences that rules tolerate; the first of these rules.
    Tolerated(BuiltInToleranceRule),
    /// The server does not support the operation and has executed none in this run: operation and status.
    Unsupported(String, String),
    /// Differences that no rule tolerates.
    Mismatched(Vec<Difference>),
    /// Differences of operations before one whose status may differ: they are not due to it.
    MismatchedBefore {
        /// The differences.
        differences: Vec<Difference>,
        /// The difference of the status.
        status: Box<Difference>,
        /// The result without them: unsupported, or tolerated.
        otherwise: Box<ReplyCheckResult>,
    },
}
