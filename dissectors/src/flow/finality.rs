//! Which Transactions expect nothing more, for those who look on while frames are captured.
//!
//! A closed Transaction waits for late copies of its messages, and a person would wait with it. But a Reply that its
//! Requester has acknowledged is not sent again: the Reliable Connection service acknowledges by PSN (InfiniBand
//! Architecture Specification volume 1, section 9.7.5), TCP by sequence number (RFC 9293 section 3.4). UDP acknowledges
//! nothing; there a Call that was sent again may be answered as often (RFC 5531 section 4). An acknowledgement that is
//! lost behind the place of the capture makes a copy after all, which then counts as a late one.

use crate::frame::Timestamp;
use crate::infiniband::InfinibandPacket;

use super::FrameKind;
use super::reliable_connection::Requests;
use super::reorder_buffer::AGE;
use super::stream::table::TcpConversation;
use super::transaction::{MissingPart, RpcMessageKind, Transaction};
use super::transaction_table::{SegmentIndex, TransactionKey, TransactionTable};

/// Whether nothing more is to come of a Transaction whose Reply was acknowledged, `waited` nanoseconds after it closed:
/// what is missing of it may have been captured late.
pub(super) fn is_final(transaction: &Transaction, waited: u64) -> bool {
    let may_come = |missing: &MissingPart| {
        matches!(missing, MissingPart::Message(_) | MissingPart::Chunk(..) | MissingPart::ReplyRead(..))
    };
    let awaits_done = !transaction.reply_read_chunks.is_empty() && !transaction.done;
    !awaits_done && (waited > AGE || !transaction.missing().iter().any(may_come))
}

/// A packet may acknowledge what the peer of its sender has `sent`, or refuse some of it.
#[inline]
pub(super) fn acknowledged(
    sent: &mut Requests,
    packet: &InfinibandPacket<'_>,
    now: Timestamp,
    ledger: &mut TransactionTable,
) {
    if let Some(aeth) = packet.aeth {
        for (key, at) in sent.settle(packet.bth.psn, aeth.syndrome, now).filter_map(TransactionKey::noted) {
            match at {
                SegmentIndex::CALL => ledger.settle(key, RpcMessageKind::Call),
                SegmentIndex::REPLY => ledger.settle(key, RpcMessageKind::Reply),
                _ => {}
            }
        }
    }
}

/// Messages of a stream were given out, from the `first` of these on.
pub(super) fn given_out(
    stream: Option<&mut TcpConversation>,
    meanings: &[FrameKind],
    first: usize,
    ledger: &mut TransactionTable,
) {
    let Some(stream) = stream else { return };
    for meaning in meanings.iter().skip(first) {
        if let FrameKind::Message { key, which } = *meaning
            && let Some(entry) = ledger.get(key)
        {
            let sender = match which {
                RpcMessageKind::Call => entry.requester,
                RpcMessageKind::Reply => entry.requester.peer(),
            };
            if stream.halves(sender).0.ends_message(key, which) {
                ledger.settle(key, which);
            }
        }
    }
}

/// A datagram came, which may be a Reply.
pub(super) fn datagram(meaning: FrameKind, ledger: &mut TransactionTable) {
    if let FrameKind::Message { key, which: RpcMessageKind::Reply } = meaning
        && let Some(entry) = ledger.get_mut(key)
    {
        let copies = |which| entry.transaction.message(which).map_or(0, |message| message.copies);
        entry.is_settled = copies(RpcMessageKind::Reply) >= copies(RpcMessageKind::Call);
    }
}
