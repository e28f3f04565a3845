//! Replay of a trace against a live server: each step is read, sent with the values of this run, compared with its
//! recorded Reply, and dropped.
//!
//! - [`options`]: options; [`tolerance_rules`]: tolerated differences; [`report`]: results; [`step_outcome`]: states of
//!   steps; [`issue_delay_histogram`]: accuracy of send times; [`report_merge`]: merged reports of several copies;
//! - [`run_error`], [`run_monitor`]: errors and observer of a run;
//! - [`engine`]: steps in flight and their order; [`dependencies`]: dependencies between steps;
//! - [`live_values`]: identifiers given by the live server and this run;
//! - [`reply_check`]: comparison of a live Reply with the recorded one; [`file_divergence`]: differences of files
//!   caused by earlier steps; [`missing_calls`]: calls that the capture lacks;
//! - [`call_operations_and_files`]: operations and files of a Call; [`root_and_attribute_rewriting`]: changes to a
//!   COMPOUND for the live server; [`captured_open_grants`]: options and grants of captured OPENs;
//!   [`reply_statuses_and_grants`]: outcome of a live Reply;
//! - [`rpc_header_splitting`]: arguments and results of RPC messages;
//! - [`preexisting_client_state`]: state that the capture requires from before its start;
//! - [`recovery`]: recovery from lost connections and server restarts;
//! - [`callback_responder`]: answers to Calls of the server; [`nfs40_callback_server`]: callback ports of NFSv4.0
//!   clients;
//! - [`trace_recording`]: trace of the messages of a run;
//! - [`expected_final_tree`], [`final_tree_check`]: the tree that the steps must have left, and its comparison with the
//!   files at the end; [`difference_path`]: the file that a difference is about;
//! - [`removable_names`]: names that a trace can create, which the removal of a run's directory may remove.
//!
//! At most [`ReplayOptions::window`] steps of the trace are in memory.

mod call_operations_and_files;
mod callback_responder;
mod captured_open_grants;
mod dependencies;
mod difference_path;
mod engine;
mod expected_final_tree;
mod file_divergence;
pub mod final_tree_check;
pub mod issue_delay_histogram;
mod live_values;
pub mod missing_calls;
mod nfs40_callback_server;
pub mod options;
mod preexisting_client_state;
pub mod recovery;
pub mod removable_names;
pub mod reply_check;
mod reply_statuses_and_grants;
pub mod report;
mod report_merge;
mod root_and_attribute_rewriting;
mod rpc_header_splitting;
mod run_error;
mod run_monitor;
mod step_outcome;
pub mod tolerance_rules;
pub mod trace_recording;

pub use engine::{MAX_CLIENT_COPIES, ReplayClientCopy, run, run_all};
pub use options::{ReplayOptions, ReplayOrder, ReplayPace};
pub use report::ReplayReport;
pub use run_error::ReplayRunError;
pub use run_monitor::ReplayMonitor;
pub use step_outcome::{FinalStepState, StepCounts, StepOutcome};
