//! NFS and its auxiliary programs: arguments and results of all procedures.
//!
//! [`Procedure`] finds the description of a procedure's arguments and results. [`v2`], [`v3`] and [`v4`] contain those
//! of NFS. The other modules contain the auxiliary programs of NFSv2 and NFSv3: mounting ([`mount`]), locking ([`nlm`],
//! [`nsm`]), access control lists ([`nfsacl`]), quotas ([`rquota`]) and port mapping ([`rpcbind`]).

use crate::field::registry::FieldRegistry;

#[cfg(test)]
mod example_messages;
pub mod field_labels;
pub mod mount;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod operation_table_macro;
mod procedure;
pub mod rpcbind;
pub mod rquota;
mod status_union;
mod statuses;
#[cfg(test)]
mod tests;
pub mod v2;
pub mod v3;
pub mod v4;

pub use procedure::{Procedure, link_text_chunks, procedure_name};
pub use status_union::{ProcedureStatus, StatusUnion, StatusUnionDiscriminant};
pub use v4::compound::SymlinkTextChunkFlags;

/// Adds the fields of this module to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    Procedure::describe(registry);
    v4::describe(registry);
}
