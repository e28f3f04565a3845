//! Operations of a Call that can have a DDP-eligible data item. RFC 8267 sections 4 and 6.1.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::Args;
use nfsrdma_dissectors::nfs::{Procedure, v2, v3};
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::transaction::RpcMessageKind;

use crate::transaction_view::ConformanceTransaction;

/// Returns `true` for a Write chunk that requests its result inline: it has no segments (RFC 8166 section 4.3.2.3), or
/// none with a byte (RFC 5667 section 5).
pub(crate) fn requests_inline(chunk: &Chunk) -> bool {
    chunk.offered_bytes() == 0 && !chunk.is_cut
}

impl ConformanceTransaction<'_> {
    /// Returns `true` if the arguments can have a DDP-eligible item; `None` if the Call cannot tell.
    pub(crate) fn has_eligible_arguments(&self) -> Option<bool> {
        let (procedure, _) = self.arguments?;
        if !matches!(procedure, Procedure::Compound) {
            return Some(procedure.has_eligible_items(RpcMessageKind::Call));
        }
        let mut operations = self.operations.arguments.iter();
        let has_one = operations.any(|operation| Args::is_ddp_eligible(operation.operation()));
        (has_one || self.operations.has_all_arguments).then_some(has_one)
    }

    /// Returns the bytes that the READDIR operations of the Call request.
    pub(crate) fn requested_entries_bytes(&self) -> u64 {
        let Some((procedure, mut cursor)) = self.arguments else { return 0 };
        let observer = &mut NullFieldObserver;
        match procedure {
            Procedure::Compound => { self.operations.arguments.iter() }
                .map(|operation| match operation {
                    Args::READDIR(list) => u64::from(list.maxcount),
                    _ => 0,
                })
                .sum(),
            Procedure::V3(number) => match v3::Args::decode(number, &mut cursor, observer) {
                Ok(v3::Args::READDIR(list)) => list.count.into(),
                Ok(v3::Args::READDIRPLUS(list)) => list.maxcount.into(),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Returns the READ and READLINK operations of the Call, each of which matches a Write chunk, with the number of
    /// bytes that a READ requests. `None` if the Call is not decoded to its end.
    pub(crate) fn eligible_reads(&self) -> Option<Vec<Option<u32>>> {
        let (procedure, mut cursor) = self.arguments?;
        let observer = &mut NullFieldObserver;
        match procedure {
            Procedure::Compound => self.operations.has_all_arguments.then(|| {
                let count = |operation: &Args<'_>| match operation {
                    Args::READ(read) => Some(Some(read.count)),
                    Args::READLINK(_) => Some(None),
                    _ => None,
                };
                self.operations.arguments.iter().filter_map(count).collect()
            }),
            Procedure::V3(number) if procedure.has_eligible_items(RpcMessageKind::Reply) => {
                match v3::Args::decode(number, &mut cursor, observer).ok()? {
                    v3::Args::READ(read) => Some(vec![Some(read.count)]),
                    _ => Some(vec![None]),
                }
            }
            Procedure::V2(number) if procedure.has_eligible_items(RpcMessageKind::Reply) => {
                match v2::Args::decode(number, &mut cursor, observer).ok()? {
                    v2::Args::READ(read) => Some(vec![Some(read.count)]),
                    _ => Some(vec![None]),
                }
            }
            _ => Some(Vec::new()),
        }
    }
}
