//! What is to come of streams that are whole, damaged, or seen from the middle on.

mod damage;
mod framing;
mod messages;
mod parted;
pub(in crate::flow) mod wire;
