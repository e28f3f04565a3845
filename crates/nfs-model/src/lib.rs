//! Meanings of the procedures and operations of NFS, apart from their formats.
//!
//! The matches over the operations have no wildcard: an operation that is added to a table of
//! [`nfsrdma_dissectors::nfs`] does not compile here without its meaning. Containment
//! (`nfsrdma-replay`) does not use this crate, by design: it reads the finished bytes on its own, as the last wall.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod names;
pub mod types;
pub mod v2;
pub mod v3;
pub mod v4;

/// Effect of a second execution of an operation, with the same arguments and nothing between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// As little as the first: the operation changes nothing that another one depends on.
    Reads,
    /// It leaves the state that the first one left.
    Same,
    /// It fails with the status of this number, because of the first one.
    Fails(u32),
    /// It may fail, or change something else.
    Differs,
}

/// Effect of an operation on the names of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    /// Nothing.
    Kept,
    /// It makes a name.
    Makes,
    /// It takes away, changes or links an existing name, and may make others.
    Replaces,
}

impl Again {
    /// Returns `true` if the operation changes nothing that another one depends on.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Reads)
    }
}

/// Meaning of a procedure of NFSv2 or NFSv3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Effect of a second execution.
    pub again: Again,
    /// Effect on names.
    pub naming: Naming,
}
