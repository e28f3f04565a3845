//! NFS and its companions: what a Call asks for and a Reply answers.
//!
//! [`Procedure`] finds the description of a procedure's arguments and results. [`v2`], [`v3`] and [`v4`] hold those of
//! NFS; the rooms beside them hold those of the programs that NFSv2 and NFSv3 need: who mounts ([`mount`]), who locks
//! ([`nlm`], [`nsm`]), who may do what ([`nfsacl`]), how much ([`rquota`]), and who listens where ([`rpcbind`]).

use crate::field::registry::Registry;

pub mod mount;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod operations;
mod procedure;
pub mod rpcbind;
pub mod rquota;
mod status_union;
#[cfg(test)]
mod tests;
pub mod v2;
pub mod v3;
pub mod v4;
#[cfg(test)]
mod wire_builder;

pub use procedure::{Procedure, TextItems, procedure_name, text_items};
pub use status_union::{ProcedureStatus, ResultStatus, StatusUnion};

/// Adds the fields of this room to a registry.
pub(crate) fn describe(registry: &mut Registry) {
    Procedure::describe(registry);
    v4::describe(registry);
}
