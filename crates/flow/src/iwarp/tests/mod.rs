//! Tests of streams that are complete, damaged, or captured from mid-stream on.

mod damage;
mod framing;
mod messages;
mod parted;
pub(crate) mod wire;
