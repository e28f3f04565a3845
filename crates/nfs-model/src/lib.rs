//! What the procedures and operations of NFS mean, apart from their formats.
//!
//! The matches over the operations have no wildcard: an operation that is added to a table of
//! [`nfsrdma_dissectors::nfs`] does not compile here without its meaning. Containment
//! (`nfsrdma-replay`) does not use this crate, by design: it reads the finished bytes on its own, as the last wall.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod v2;
pub mod v3;
pub mod v4;

/// What a second execution of an operation does, with the same arguments and nothing between.
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

/// What an operation does to the names of a directory.
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
    /// What a second execution does.
    pub again: Again,
    /// What it does to names.
    pub naming: Naming,
}
