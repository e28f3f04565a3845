//! Operations of a COMPOUND with their results.

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{Args, CompoundCall, CompoundReply, Nfsstat4, Results};
use nfsrdma_dissectors::xdr::Cursor;

/// Operations of a COMPOUND. RFC 8881 section 16.2.
#[derive(Debug, Default)]
pub struct CompoundOperations<'t> {
    /// Minor version.
    pub minor_version: u32,
    /// Arguments, as far as they can be decoded.
    pub arguments: Vec<Args<'t>>,
    /// `true` if all operations of the Call were decoded.
    pub has_all_arguments: bool,
    /// Status of the COMPOUND.
    pub status: Option<Nfsstat4>,
    /// Results, as far as they can be decoded: the k-th belongs to the k-th operation.
    pub results: Vec<Results<'t>>,
    /// `true` if all results of the Reply were decoded.
    pub has_all_results: bool,
}

impl<'t> CompoundOperations<'t> {
    pub(crate) fn decode(
        call: Option<(Procedure, Cursor<'t>)>,
        reply: Option<(Procedure, Cursor<'t>)>,
    ) -> Self {
        let mut all = Self::default();
        if let Some((Procedure::Compound, mut cursor)) = call
            && let Ok(call) = CompoundCall::decode(&mut cursor, &mut NullObserver)
        {
            all.minor_version = call.head.minorversion;
            all.arguments = call.operations().map_while(Result::ok).collect();
            all.has_all_arguments = all.arguments.len() == call.count() as usize;
        }
        if let Some((Procedure::Compound, mut cursor)) = reply
            && let Ok(reply) = CompoundReply::decode(&mut cursor, &mut NullObserver)
        {
            all.status = Some(reply.head.status);
            all.results = reply.operations().map_while(Result::ok).collect();
            all.has_all_results = all.results.len() == reply.count() as usize;
        }
        all
    }

    /// Iterates over the operations with their results.
    pub fn pairs(&self) -> impl Iterator<Item = (&Args<'t>, Option<&Results<'t>>)> {
        self.arguments.iter().enumerate().map(|(at, arguments)| (arguments, self.results.get(at)))
    }
}
