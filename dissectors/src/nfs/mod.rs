//! NFS and its companions: what a Call asks for and a Reply answers.
//!
//! [`Procedure`] finds the description of a procedure's arguments and results.

#[cfg(test)]
mod laid_out;
pub mod mount;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod operations;
mod outcome;
mod procedure;
pub mod rpcbind;
pub mod rquota;
pub mod v2;
pub mod v3;
pub mod v4;

pub use outcome::{Outcome, ProcedureStatus, Status};
pub use procedure::{Procedure, TextItems, procedure_name, text_items};
