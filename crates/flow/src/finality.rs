//! Acknowledgements of messages, after which a Transaction expects no more packets, for live views.
//!
//! A closed Transaction lingers for late copies of its messages, which would delay live output. But a Reply that its
//! Requester has acknowledged is not retransmitted: the Reliable Connection service acknowledges by PSN (InfiniBand
//! Architecture Specification volume 1, section 9.7.5), TCP by sequence number (RFC 9293 section 3.4). UDP has no
//! acknowledgements; there, each copy of a Call may cause another Reply (RFC 5531 section 4). If an acknowledgement is
//! lost behind the capture point, a copy follows after all and counts as late.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::infiniband::InfinibandPacket;
use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::extended_psn::ExtendedPsn;
use super::frame_kind::FrameContentKind;
use super::reliable_connection::RequesterPacketState;
use super::tcp_conversations::TcpConversation;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;

/// Handles an acknowledgement or NAK, with its sequence number, of messages that the sender's peer has `sent`.
#[inline]
pub(super) fn handle_acknowledgement(
    (sent, sequence): (&mut RequesterPacketState, ExtendedPsn),
    packet: &InfinibandPacket<'_>,
    now: Timestamp,
    transactions: &mut TrackedTransactionTable,
) {
    if let Some(aeth) = packet.aeth {
        let acknowledged = sent.process_acknowledgment(sequence, aeth.syndrome, now);
        for (key, at) in acknowledged.filter_map(TransactionSlabKey::from_attribution) {
            if let Some(kind) = at.message_kind() {
                transactions.record_acknowledgment(key, kind);
            }
        }
        if sent.record_refusal(sequence, aeth.syndrome) {
            record_refused_messages(sent, transactions, false);
        }
    }
}

/// Records the messages that were refused: for good, or until their receiver is ready. `is_end`: the connection ended,
/// and no copy follows.
#[cold]
pub(super) fn record_refused_messages(
    sent: &RequesterPacketState,
    transactions: &mut TrackedTransactionTable,
    is_end: bool,
) {
    let (messages, is_final) = sent.refused_messages(is_end);
    for (key, at) in messages.filter_map(TransactionSlabKey::from_attribution) {
        match at.message_kind() {
            Some(kind) if is_final || is_end => transactions.record_refusal(key, kind),
            Some(RpcMessageKind::Reply) => transactions.expect_copy(key),
            _ => {}
        }
    }
}

/// Handles messages of a TCP stream that were emitted and may have been acknowledged before: `contents` from `first`
/// on.
pub(super) fn handle_emitted_messages(
    stream: Option<&mut TcpConversation>,
    contents: &[FrameContentKind],
    first: usize,
    transactions: &mut TrackedTransactionTable,
) {
    let Some(stream) = stream else { return };
    for content in contents.iter().skip(first) {
        if let FrameContentKind::Message { key, which } = *content
            && let Some(entry) = transactions.get(key)
        {
            let sender = match which {
                RpcMessageKind::Call => entry.requester,
                RpcMessageKind::Reply => entry.requester.peer(),
            };
            if stream.directions[sender].record_message_end(key, which) {
                transactions.record_acknowledgment(key, which);
            }
        }
    }
}

/// Handles a datagram, which may be a Reply.
pub(super) fn handle_datagram_reply(content: FrameContentKind, transactions: &mut TrackedTransactionTable) {
    if let FrameContentKind::Message { key, which: RpcMessageKind::Reply } = content
        && let Some(entry) = transactions.get_mut(key)
    {
        let copies = |kind| entry.transaction.message(kind).map_or(0, |message| message.copies);
        entry.is_reply_acknowledged = copies(RpcMessageKind::Reply) >= copies(RpcMessageKind::Call);
    }
}
