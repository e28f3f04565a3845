//! Records of captured messages, with their RPC type and frames, for their Transactions.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use crate::count_categories::EvictedState;
use crate::rdma_operation::RdmaSendMessage;
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::statistics::FlowDecodingStatistics;
use crate::transaction::CapturedMessage;

/// Returns the type of the RPC message at the cursor; `None` if it is neither Call nor Reply.
pub(super) fn rpc_type(cursor: &Cursor<'_>) -> Result<Option<RpcMessageKind>, XdrError> {
    let mut cursor = *cursor;
    cursor.word()?;
    Ok(match cursor.word()? {
        0 => Some(RpcMessageKind::Call),
        1 => Some(RpcMessageKind::Reply),
        _ => None,
    })
}

pub(super) fn inline_message_cursor<'a>(message: &RdmaSendMessage<'a>, summary: &RpcRdmaHeaderSummary) -> Cursor<'a> {
    let mut cursor = Cursor::new(message.bytes).with_length(message.length);
    // Cannot fail, because the header was decoded. Nothing follows a header that was cut.
    let _ = cursor.take(summary.rpc_offset.unwrap_or(usize::MAX).min(message.bytes.len()));
    cursor
}

pub(super) fn message_record(
    message: &RdmaSendMessage<'_>,
    summary: &RpcRdmaHeaderSummary,
    (sends, is_kind_known): (u32, bool),
) -> CapturedMessage {
    CapturedMessage {
        end_time: message.end_time,
        stall: message.stall,
        rpcrdma: Some(summary.words),
        sends,
        gaps: message.gaps.to_vec(),
        invalidated_handle: message.invalidated_handle,
        rpc_offset: summary.rpc_offset,
        is_kind_known,
        ..CapturedMessage::plain(message.frames.to_vec(), message.time, message.bytes.to_vec(), message.length)
    }
}

/// Maximum number of frames listed per message. A receiver that is never ready causes any number of copies.
const MAX_MESSAGE_FRAMES: usize = 4096;

/// Lists the frames of a copy. Returns the additional memory in bytes.
pub(super) fn append_frames(
    frames: &mut Vec<FrameNumber>,
    copy: &[FrameNumber],
    stats: &mut FlowDecodingStatistics,
) -> usize {
    let capacity_before = frames.capacity();
    if frames.len() < MAX_MESSAGE_FRAMES {
        frames.extend_from_slice(copy);
    } else {
        stats.count_evicted(EvictedState::Copy);
    }
    (frames.capacity() - capacity_before) * size_of::<FrameNumber>()
}
