//! Display filters in Wireshark's language, over the fields that the protocols describe.
//!
//! - [`catalog`]: the fields that there are, by name; [`facts`]: those among them that no structure has.

pub mod catalog;
pub mod facts;
