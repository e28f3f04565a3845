//! NFS: what a Call asks for and a Reply answers.
//!
//! [`Procedure`] finds the description of a procedure's arguments and results; [`v3`] and [`v4`] hold the
//! descriptions. NFSv2 and the companion programs (MOUNT, NLM, NSM, NFSACL, RQUOTA, PORTMAP) get rooms beside them.

pub mod operations;
mod outcome;
mod procedure;
pub mod v3;
pub mod v4;

pub use outcome::{Outcome, ProcedureStatus, Status};
pub use procedure::{Procedure, TextItems, procedure_name, text_items};
