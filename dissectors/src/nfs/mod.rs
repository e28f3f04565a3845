//! NFS: what a Call asks for and a Reply answers.

pub mod operations;
mod outcome;
pub mod v3;

pub use outcome::{Outcome, Status};

/// x
pub fn moves_text(_: crate::rpc::Program, _: u32, _: u32, _: crate::xdr::Cursor<'_>) -> bool {
    false
}
