//! RPC messages over TCP and UDP, without RPC-over-RDMA: their data is inline. RFC 5531.

use nfsrdma_dissectors::rpc::{RpcMessageKind, Xid};
use nfsrdma_dissectors::xdr::Cursor;

use super::call_reply_matching::{NewCallXidMatch, empty_transaction};
use super::connection_rpc_state::ConnectionRpcState;
use super::message_record::rpc_type;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::UndecodedReason;
use crate::frame_kind::FrameContentKind;
use crate::rdma_operation::RdmaAttribution;
use crate::transaction::CapturedMessage;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

impl ConnectionRpcState {
    /// Handles a message that `sender` sent. The returned attribution is for copies that may follow.
    pub(crate) fn handle_plain_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: CapturedMessage,
    ) -> (FrameContentKind, RdmaAttribution) {
        let mut cursor = Cursor::new(&message.bytes).with_length(message.length);
        let decoded_kind = rpc_type(&cursor).unwrap_or_default();
        let Ok(xid) = cursor.word().map(Xid) else {
            return (context.count_undecoded(UndecodedReason::MessagePart), RdmaAttribution::default());
        };
        let kind = match (decoded_kind, message.bytes.len()) {
            (Some(kind), _) => kind,
            // The message type was not captured.
            (None, ..8) if self.has_transaction(context.sender.peer(), xid) => RpcMessageKind::Reply,
            (None, ..8) => RpcMessageKind::Call,
            (None, _) => {
                return (context.count_undecoded(UndecodedReason::Malformed), RdmaAttribution::default());
            }
        };
        let key = match kind {
            RpcMessageKind::Call => self.add_plain_call(context, xid, message),
            RpcMessageKind::Reply => self.add_reply(context, xid, message, None),
        };
        self.confirm_messages(context);
        let at = PackedChunkSegmentOrdinal::of_message(kind);
        (FrameContentKind::Message { key, which: kind }, key.to_attribution(at))
    }

    fn add_plain_call(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        call: CapturedMessage,
    ) -> TransactionSlabKey {
        let (reply_key, shared) = match self.match_call_xid(context, xid, &call) {
            NewCallXidMatch::Copy(key) => return key,
            NewCallXidMatch::Reply(key) => (Some(key), None),
            NewCallXidMatch::InUse(key) => (None, Some(key)),
            NewCallXidMatch::NoMatch => (None, None),
        };
        self.record_caller(context.sender, Cursor::new(call.inline_bytes()).with_length(call.length));
        let mut transaction = empty_transaction(xid);
        if let Some(stall) = call.stall {
            transaction.record_stall(stall);
        }
        transaction.call = Some(call);
        let key = self.open_transaction(context, transaction, reply_key);
        if let Some(earlier) = shared {
            self.suspect_xid(context, key, earlier);
        }
        key
    }
}
