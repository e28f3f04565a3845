//! A trace driven again against a live server: step after step is read, sent with the values of this run, held to its
//! recorded Reply, and forgotten.
//!
//! - [`options`]: how; [`rules`]: what may differ; [`report`]: what came of it; [`issue_delay`]: how well times were kept;
//!   [`merge`]: of several copies together;
//! - [`engine`]: what is in flight and what comes next; [`dependencies`]: which step waits for which;
//! - [`values`]: what the live server and this run call things;
//! - [`reply_check`]: a live Reply beside the recorded one; [`file_divergence`]: what of a file differs because of a step before;
//! - [`call_description`]: what a Call consists of; [`compound_rewrite`]: what of it this server cannot take; [`captured_opens`]: what an OPEN asks for beside access; [`outcome`]: how a live Reply went;
//! - [`prologue`]: what a capture that begins in the middle takes for granted;
//! - [`recovery`]: what follows when a connection goes away;
//! - [`responder`]: answers to Calls of the server; [`callbacks`]: where it calls the clients of NFSv4.0;
//! - [`recording`]: what was sent and came, as a trace;
//! - [`tree_check`]: what the steps have left on the server, in the end.
//!
//! No more of the trace is in memory than [`ReplayOptions::window`] steps.

mod call_description;
mod callbacks;
mod captured_opens;
mod compound_rewrite;
mod dependencies;
mod engine;
mod file_divergence;
pub mod issue_delay;
mod merge;
pub mod options;
mod outcome;
mod prologue;
pub mod recording;
pub mod recovery;
pub mod reply_check;
pub mod report;
mod responder;
pub mod rules;
pub mod tree_check;
pub mod values;

pub use engine::{PARTIES, ReplayClientCopy, ReplayMonitor, ReplayRunError, run, run_all};
pub use options::{ReplayOptions, ReplayOrder, ReplayPace};
pub use report::{ReplayReport, ReplayStepState};
