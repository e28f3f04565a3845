//! The recorded Reply of a step, in the form in which it is compared.

use std::borrow::Cow;

use nfsrdma_dissectors::xdr::ChunkedDataItem;

use crate::trace::step::{GssProtection, TraceStep};

/// Returns the recorded Reply without its integrity protection (RFC 2203 section 5.3.2.2): the length and sequence
/// number before the results, and the checksum after them.
pub(super) fn unprotected_reply<'a>(step: &TraceStep<'a>) -> Cow<'a, [u8]> {
    let reply = &step.reply;
    if step.procedure.protection != GssProtection::INTEGRITY {
        return Cow::Borrowed(reply.head.0);
    }
    let header = (reply.body as usize).checked_sub(8).and_then(|end| reply.head.0.get(..end));
    let results = reply.head.0.get(reply.body as usize..reply.end as usize);
    match header.zip(results) {
        Some(parts) => Cow::Owned([parts.0, parts.1].concat()),
        None => Cow::Borrowed(reply.head.0),
    }
}

/// Returns the chunk items of the recorded Reply, with their positions in the message that [`unprotected_reply`]
/// returns; `content` returns the bytes of each by index.
pub(super) fn recorded_items<'s>(
    step: &TraceStep<'_>,
    content: impl Fn(usize) -> Option<&'s [u8]>,
) -> Vec<ChunkedDataItem<'s>> {
    let prefix_bytes = if step.procedure.protection == GssProtection::INTEGRITY { 8 } else { 0 };
    let body = step.reply.body.saturating_sub(prefix_bytes);
    let items = step.reply.items().into_iter().enumerate();
    items
        .filter(|(_, item)| item.length > 0)
        .map(|(at, item)| ChunkedDataItem {
            position: item.position.map(|position| position.saturating_add(body)),
            length: item.length,
            bytes: content(at),
        })
        .collect()
}
