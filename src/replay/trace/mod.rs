//! A trace: the RPCs of a capture in a form that can be sent again.
//!
//! A [`TraceStep`] is a Call with the Reply that it had. Both are kept as they were sent, but for the file data beside them,
//! and for what another run will name otherwise: there are [`MessageSlot`]s, each a place in the bytes and a [`TraceVariable`]. A
//! Call is sent again by copying what stands between its slots and putting the values of the run in their places
//! ([`emission`]); nothing is decoded for that. What its live Reply gives is found by the same ear that heard the captured one
//! ([`binding`]).
//!
//! - [`step`]: what a trace consists of, in XDR;
//! - [`field_visitor`]: where in a message identities, counts and file data stand;
//! - [`emission`]: a message with other values in its slots;
//! - [`binding`]: the values that a live Reply has in the places of the captured one;
//! - [`keyed_content`]: file data that is made from a key;
//! - [`layout`]: how steps, data and tables lie in a file. `docs/trace.md` describes it for other programs;
//! - [`wire_transaction`]: a Call and its Reply, with their chunks, as a Transaction; [`transaction_builder`]: a step as the one that it was
//!   compiled from;
//! - [`writer`] and [`reader`]: in memory that does not grow with the trace.

pub mod binding;
pub mod emission;
mod error;
pub mod field_visitor;
pub mod keyed_content;
pub mod layout;
pub mod reader;
pub mod step;
pub mod transaction_builder;
pub mod wire_transaction;
pub mod writer;

pub use error::TraceError;
pub use reader::{TraceReader, TraceSummary};
pub use step::{
    CaptureCompleteness, ChunkSegmentLengths, GssProtection, MessageSlot, MessageSlotKind, NONE,
    PayloadContentState, TraceCallChunks, TraceCaller, TraceMessage, TraceMessageForm, TracePayload,
    TraceProcedure, TraceReplyNeeds, TraceStep, TraceStepOrigin, TraceTransfer, VariableUse,
};
pub use writer::TraceWriter;

/// Something that a server or a client names, by its number in the trace, from 0. What it is called is another value in
/// each run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceVariable(pub u32);

impl MessageSlot {
    /// The variable.
    pub fn variable(&self) -> TraceVariable {
        TraceVariable(self.variable)
    }
}
