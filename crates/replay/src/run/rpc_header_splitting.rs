//! Splits RPC messages into header and body.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

/// Splits a message into its RPC header, and a cursor at the arguments or results.
pub(super) fn split_header<'a>(message: &'a [u8], items: &'a [ChunkedDataItem<'a>]) -> Option<(&'a [u8], Cursor<'a>)> {
    let mut cursor = Cursor::new(message).with_chunks(items);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    Some((message.get(..cursor.at())?, cursor))
}

/// Moves a cursor from the start of a Reply to its results. Returns `None` if it cannot be decoded or RPC reports an
/// error.
pub(super) fn successful_results(mut cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    message.reply().is_some_and(|reply| reply.status().is_success()).then_some(cursor)
}
