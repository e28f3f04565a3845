//! NFS: what a Call asks for and a Reply answers.
//!
//! [`Procedure`] finds the description of a procedure's arguments and results; [`v3`] and [`v4`] hold the
//! descriptions. NFSv2 and the companion programs (MOUNT, NLM, NSM, NFSACL, RQUOTA, PORTMAP) get rooms beside them.

use crate::field::registry::Registry;

pub mod operations;
mod outcome;
mod procedure;
pub mod v3;
pub mod v4;

pub use outcome::{Outcome, Status};
pub use procedure::{Procedure, TextItems, procedure_name, text_items};

/// Adds the fields of this room to a registry.
pub(crate) fn describe(registry: &mut Registry) {
    v3::Args::describe(registry);
    v3::Results::describe(registry);
    v4::describe(registry);
}
