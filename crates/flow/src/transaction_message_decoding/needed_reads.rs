//! Data items in Read chunks that the Responder needed, as its Reply proves.
//!
//! A Responder reads a chunk only if it needs the data: not after it refused the Call, not if an operation of a COMPOUND
//! failed before, and not if no data item is at the Position (RFC 5667 section 4). It needs the data that a WRITE has
//! written (RFC 8881 section 18.32.3).

use std::ops::Range;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::field::{DataItemPlacement, DdpEligibleItem, FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::nfs::{Procedure, v3, v4};
use nfsrdma_dissectors::rpc::{RpcMessageKind, RpcReplyStatus};
use nfsrdma_dissectors::xdr::Cursor;

/// Data that the Responder needed from the Read list of a Call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededReads {
    /// `true` if it needed the Position-Zero Read chunk: it decoded the Call.
    is_call: bool,
    /// Position and length in bytes of the data items that it needed; `None` if the messages do not tell which.
    items: Option<Vec<(usize, u32)>>,
}

impl NeededReads {
    /// Nothing is known to be needed.
    pub(crate) const NONE: Self = Self { is_call: false, items: Some(Vec::new()) };

    /// Returns what the Responder needed, by the status of its Reply, the arguments and the results.
    pub fn new(status: RpcReplyStatus, call: Option<(Procedure, Cursor<'_>)>, results: Option<Cursor<'_>>) -> Self {
        let items = match (call, results) {
            _ if !status.is_success() => Some(Vec::new()),
            (None, _) => None,
            (Some(_), None) => Some(Vec::new()),
            (Some((Procedure::Compound, arguments)), Some(results)) => items_of_operations(arguments, results),
            (Some((procedure, arguments)), Some(results)) => items_of_arguments(procedure, arguments, results),
        };
        Self { is_call: true, items }
    }

    /// Returns the number of bytes needed of the chunks of a Position; `None` if the messages do not tell.
    pub fn bytes_at(&self, position: Option<u32>, offered_bytes: u64) -> Option<u64> {
        let position = position.unwrap_or(0) as usize;
        if position == 0 && self.is_call {
            return Some(offered_bytes);
        }
        let item = self.items.as_ref()?.iter().find(|(at, _)| *at == position);
        Some(item.map_or(0, |(_, length)| u64::from(*length).min(offered_bytes)))
    }
}

/// Collects the data items in Read chunks.
#[derive(Default)]
struct ReadItems(Vec<(usize, u32)>);

impl ReadItems {
    /// Limits the items from the index `first` on, of a WRITE, to the bytes that it has written.
    fn limit(&mut self, first: usize, written_bytes: u32) {
        for (_, length) in self.0.iter_mut().skip(first) {
            *length = written_bytes.min(*length);
        }
    }
}

impl<'a> FieldObserver<'a> for ReadItems {
    fn is_enabled() -> bool {
        false
    }

    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn eligible_item(&mut self, item: DdpEligibleItem) {
        if item.placement == DataItemPlacement::ReadChunk {
            self.0.push((item.position, item.length));
        }
    }

    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}

fn items_of_arguments(
    procedure: Procedure,
    mut arguments: Cursor<'_>,
    results: Cursor<'_>,
) -> Option<Vec<(usize, u32)>> {
    let is_success = procedure.status(results).ok().flatten().is_some_and(|status| status.is_ok);
    if !is_success || !procedure.has_eligible_items(RpcMessageKind::Call) {
        return Some(Vec::new());
    }
    let mut items = ReadItems::default();
    if procedure.arguments(&mut arguments, &mut items).is_err_and(|error| error.is_cut()) {
        return None;
    }
    if let Some(written_bytes) = written_bytes(procedure, results) {
        items.limit(0, written_bytes);
    }
    Some(items.0)
}

/// Returns the bytes that a WRITE of NFSv3 has written.
fn written_bytes(procedure: Procedure, mut results: Cursor<'_>) -> Option<u32> {
    let Procedure::V3(procedure @ v3::Procedure::WRITE) = procedure else { return None };
    match v3::Results::decode(procedure, &mut results, &mut NullFieldObserver) {
        Ok(v3::Results::WRITE(result)) => result.ok().map(|ok| ok.count),
        _ => None,
    }
}

/// Returns the items of the operations that succeeded; `None` if the capture ends within their arguments.
fn items_of_operations(mut arguments: Cursor<'_>, mut results: Cursor<'_>) -> Option<Vec<(usize, u32)>> {
    let mut items = ReadItems::default();
    let Ok(reply) = v4::CompoundReply::decode(&mut results, &mut NullFieldObserver) else { return Some(items.0) };
    let failed = u32::from(reply.head.status != v4::Nfsstat4::NFS4_OK);
    let Ok(call) = v4::CompoundCall::decode(&mut arguments, &mut NullFieldObserver) else { return Some(items.0) };
    let (mut operations, mut results) = (call.operations(), reply.operations());
    for _ in 0..reply.count().saturating_sub(failed) {
        let first = items.0.len();
        let visited = operations.visit_next(&mut items, |_, _, _| ());
        let written_bytes = results.visit_next(&mut NullFieldObserver, |_, _, result| match result {
            v4::Results::WRITE(result) => result.ok().map(|ok| ok.count),
            _ => None,
        });
        if let Some(Ok(Some(written_bytes))) = written_bytes {
            items.limit(first, written_bytes);
        }
        match visited {
            Some(Ok(())) => {}
            Some(Err(stop)) if stop.error.is_cut() => return None,
            Some(Err(_)) | None => break,
        }
    }
    Some(items.0)
}
