//! A trace: the RPCs of a capture in a form that can be sent again.
//!
//! A [`Step`] is a Call with the Reply that it had. Both are kept as they were sent, but for the file data beside them,
//! and for what another run will name otherwise: there are [`Slot`]s, each a place in the bytes and a [`Variable`]. A
//! Call is sent again by copying what stands between its slots and putting the values of the run in their places
//! ([`emit`]); nothing is decoded for that.
//!
//! - [`step`]: what a trace consists of, in XDR;
//! - [`emit`]: a message with other values in its slots;
//! - [`file`](mod@file): how steps and data lie in a file. `docs/trace.md` describes it for other programs.

pub mod emit;
pub mod file;
pub mod step;

pub use step::{Holds, Message, Origin, Payload, Shape, Slot, Step};

/// Something that a server or a client names, by its number in the trace, from 0. What it is called is another value in
/// each run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub u32);
