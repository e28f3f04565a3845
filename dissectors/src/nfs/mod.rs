//! NFS: what a Call asks for and a Reply answers.

pub mod operations;
mod outcome;
pub mod v4;

pub use outcome::{Outcome, Status};
