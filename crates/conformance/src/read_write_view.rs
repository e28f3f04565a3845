//! READs and WRITEs of NFSv2, NFSv3 and NFSv4.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{Args, Results};
use nfsrdma_dissectors::nfs::{Procedure, v2, v3};
use nfsrdma_dissectors::xdr::Cursor;

use crate::compound_operations_view::CompoundOperationIterator;

/// A READ or WRITE that succeeded: the request and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuccessfulReadWrite {
    pub(crate) is_write: bool,
    /// Bytes to read or write.
    pub(crate) asked_bytes: u32,
    /// Bytes read or written.
    pub(crate) done_bytes: u32,
    /// For a WRITE: stable_how4 asked for and returned.
    pub(crate) stability: [u32; 2],
}

impl SuccessfulReadWrite {
    fn read(asked_bytes: u32, done_bytes: u32) -> Self {
        Self { is_write: false, asked_bytes, done_bytes, stability: [0; 2] }
    }

    fn write(asked_bytes: u32, done_bytes: u32, stability: [u32; 2]) -> Self {
        Self { is_write: true, asked_bytes, done_bytes, stability }
    }

    /// Returns the READ or WRITE of NFSv3, if it succeeded. The cursors are at the arguments and at the results.
    pub(crate) fn of_version3(
        procedure: v3::Procedure,
        mut arguments: Cursor<'_>,
        mut results: Cursor<'_>,
    ) -> Option<Self> {
        if !matches!(procedure, v3::Procedure::READ | v3::Procedure::WRITE) {
            return None;
        }
        let call = v3::Args::decode(procedure, &mut arguments, &mut NullFieldObserver).ok()?;
        let reply = v3::Results::decode(procedure, &mut results, &mut NullFieldObserver).ok()?;
        match (call, reply) {
            (v3::Args::READ(args), v3::Results::READ(result)) => result.ok().map(|ok| Self::read(args.count, ok.count)),
            (v3::Args::WRITE(args), v3::Results::WRITE(result)) => {
                result.ok().map(|ok| Self::write(args.count, ok.count, [args.stable.0, ok.committed.0]))
            }
            _ => None,
        }
    }

    /// Returns the READ of NFSv2, if it succeeded; the results of a WRITE do not have its length.
    fn of_version2(procedure: v2::Procedure, mut arguments: Cursor<'_>, mut results: Cursor<'_>) -> Option<Self> {
        if procedure != v2::Procedure::READ {
            return None;
        }
        let call = v2::Args::decode(procedure, &mut arguments, &mut NullFieldObserver).ok()?;
        let reply = v2::Results::decode(procedure, &mut results, &mut NullFieldObserver).ok()?;
        match (call, reply) {
            (v2::Args::READ(args), v2::Results::READ(result)) => {
                result.ok().map(|ok| Self::read(args.count, ok.data.length()))
            }
            _ => None,
        }
    }

    /// Iterates over the successful READs and WRITEs of a COMPOUND.
    pub(crate) fn of_compound(operations: &CompoundOperationIterator<'_>) -> impl Iterator<Item = Self> {
        operations.pairs().filter_map(|pair| match pair {
            (Args::READ(args), Some(Results::READ(result))) => {
                result.ok().map(|ok| Self::read(args.count, ok.data.length()))
            }
            (Args::WRITE(args), Some(Results::WRITE(result))) => {
                result.ok().map(|ok| Self::write(args.data.length(), ok.count, [args.stable.0, ok.committed.0]))
            }
            _ => None,
        })
    }

    pub(crate) fn of_transaction(
        arguments: Option<(Procedure, Cursor<'_>)>,
        results: Option<(Procedure, Cursor<'_>)>,
        operations: &CompoundOperationIterator<'_>,
    ) -> Vec<Self> {
        match (arguments, results) {
            (Some((Procedure::V3(procedure), arguments)), Some((_, results))) => {
                Self::of_version3(procedure, arguments, results).into_iter().collect()
            }
            (Some((Procedure::V2(procedure), arguments)), Some((_, results))) => {
                Self::of_version2(procedure, arguments, results).into_iter().collect()
            }
            _ => Self::of_compound(operations).collect(),
        }
    }
}
