//! A trace: the RPCs of a capture in a form that can be sent again.
//!
//! A [`TraceStep`] is a call with its captured reply. Both messages are stored as they were sent, with two exceptions.
//! File data is stored separately. Values that differ between runs have [`SubstitutableMessageSlot`]s, each a byte
//! range and a variable: the number in the trace of an identifier that a server or a client assigns. To send a call
//! again, [`value_substitution`] copies the bytes between its slots and fills in the values of the run; it decodes
//! nothing. [`live_reply_binding`] finds the values of a live reply with the same field visitor that read the captured
//! one.
//!
//! - [`step`]: the structures of a trace, in XDR;
//! - [`run_dependent_field_visitor`]: positions of identities, counts and file data in a message;
//! - [`value_substitution`]: a message with other values in its slots;
//! - [`live_reply_binding`]: values of a live reply at the positions of the captured ones;
//! - [`generated_file_data`]: file data generated from a key;
//! - [`file_format`]: file layout of steps, data and tables. `docs/trace.md` describes it for other programs;
//! - [`wire_to_transaction_conversion`]: a call and its reply, with their chunks, as a transaction;
//! - [`step_to_transaction_conversion`]: conversion of a step to the transaction that it was compiled from;
//! - [`step_writer`] and [`reader`]: input and output in memory that does not grow with the trace.

pub(crate) mod error;
pub mod file_format;
pub mod generated_file_data;
pub mod live_reply_binding;
pub mod reader;
pub mod run_dependent_field_visitor;
pub mod step;
pub mod step_to_transaction_conversion;
pub mod step_writer;
pub mod value_substitution;
pub mod wire_to_transaction_conversion;

pub use error::TraceError;
pub use reader::{ReplayTraceReader, TraceMetadata};
pub use step::{
    CallAndReplyWireForms, ChunkSegmentLengths, GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState,
    SubstitutableMessageSlot, TraceCallChunks, TraceCallConnectionAndSession, TraceMessage, TraceMessageWireForm,
    TracePayload, TraceProcedure, TraceReplySizeLimits, TraceSlotValueKind, TraceStep, TraceStepOrigin,
    VariableUseKind,
};
pub use step_writer::ReplayTraceWriter;
