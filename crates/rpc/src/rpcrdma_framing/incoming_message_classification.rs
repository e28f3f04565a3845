//! Classification of received Sends: a Reply, a Call of the reverse direction, or an error.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::{MsgType, Xid};
use nfsrdma_dissectors::rpcrdma::{RdmaBody, RpcRdma1Header, RpcRdmaError, VERSION};
use nfsrdma_dissectors::xdr::Cursor;

use super::header_lengths::SHORTEST_HEADER;
use crate::client_transport_events::ReceivedMessageDiscardReason;

/// A classified message. Its credits apply to its direction.
#[derive(Debug)]
pub enum IncomingMessage<'a> {
    /// A Reply; the message is empty if it is in the Reply chunk. Its chunks are not checked yet.
    Reply(RpcRdma1Header<'a>, &'a [u8]),
    /// A Call of the reverse direction, without chunks.
    Call(RpcRdma1Header<'a>, &'a [u8]),
    /// A Call of the reverse direction with chunks, which is refused with [`chunks_refused`](super::chunks_refused).
    CallWithChunks(Xid),
    /// RDMA_ERROR: the server's error for the Call with this XID. Its credit field is ignored, as it may apply to
    /// either direction (RFC 8167 section 4.1).
    Error(Xid, RpcRdmaError),
}

/// Decodes and classifies a received message.
///
/// # Errors
/// Returns the reason to discard it, and its XID if it has one. None of its other fields may be used.
pub fn receive(bytes: &[u8]) -> Result<IncomingMessage<'_>, (Option<Xid>, ReceivedMessageDiscardReason)> {
    let xid = bytes.first_chunk().map(|word| Xid(u32::from_be_bytes(*word)));
    let mut cursor = Cursor::new(bytes);
    let header = match RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver) {
        Ok(header) => header,
        // RFC 8166 section 4.5: the XID of a shorter message cannot be trusted.
        Err(_) if bytes.len() < SHORTEST_HEADER => return Err((None, ReceivedMessageDiscardReason::Short)),
        Err(_) => return Err((xid, ReceivedMessageDiscardReason::Header)),
    };
    let message = cursor.rest();
    let xid = header.rdma_xid;
    let discard = |reason| Err((Some(xid), reason));
    match &header.rdma_body {
        RdmaBody::Error(error) => Ok(IncomingMessage::Error(xid, error.clone())),
        RdmaBody::Msg(lists) if header.rdma_vers == VERSION => {
            let mut words = Cursor::new(message);
            let (Ok(first), Ok(direction)) = (words.word(), words.word()) else {
                return discard(ReceivedMessageDiscardReason::Short);
            };
            if Xid(first) != xid {
                return discard(ReceivedMessageDiscardReason::Xid);
            }
            let has_chunks =
                !lists.rdma_reads.is_empty() || !lists.rdma_writes.is_empty() || lists.rdma_reply.is_some();
            match MsgType(direction) {
                MsgType::REPLY => Ok(IncomingMessage::Reply(header, message)),
                MsgType::CALL if !has_chunks => Ok(IncomingMessage::Call(header, message)),
                MsgType::CALL => Ok(IncomingMessage::CallWithChunks(xid)),
                _ => discard(ReceivedMessageDiscardReason::Header),
            }
        }
        // A Long Call of the reverse direction has Read chunks; a Long Reply has none.
        RdmaBody::Nomsg(lists) if header.rdma_vers == VERSION => {
            if lists.rdma_reads.is_empty() {
                Ok(IncomingMessage::Reply(header, &[]))
            } else {
                Ok(IncomingMessage::CallWithChunks(xid))
            }
        }
        _ => discard(ReceivedMessageDiscardReason::Header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn rfc8166_section_3_5_a_reply_is_in_the_send_or_in_a_chunk() {
        let inline = words(&[7, 1, 32, 0, 0, 0, 0, 7, 1, 99]);
        let Ok(IncomingMessage::Reply(header, message)) = receive(&inline) else { panic!() };
        assert_eq!((header.rdma_credit, message.len()), (32, 12));
        let long = words(&[7, 1, 32, 1, 0, 0, 1, 1, 5, 100, 0, 0]);
        assert!(matches!(receive(&long), Ok(IncomingMessage::Reply(_, []))));
    }

    #[test]
    fn rfc8167_section_5_1_the_direction_follows_from_the_message() {
        let call = words(&[7, 1, 4, 0, 0, 0, 0, 7, 0, 2]);
        let Ok(IncomingMessage::Call(header, _)) = receive(&call) else { panic!() };
        assert_eq!(header.rdma_xid, Xid(7));
        let with_chunk = words(&[7, 1, 4, 0, 1, 0, 5, 100, 0, 0, 0, 0, 0, 7, 0, 2]);
        assert!(matches!(receive(&with_chunk), Ok(IncomingMessage::CallWithChunks(Xid(7)))));
        let long = words(&[7, 1, 4, 1, 1, 0, 5, 100, 0, 0, 0, 0, 0]);
        assert!(matches!(receive(&long), Ok(IncomingMessage::CallWithChunks(Xid(7)))));
    }

    #[test]
    fn rfc8166_section_4_5_an_error_ends_its_call() {
        let error = words(&[7, 1, 32, 4, 2]);
        assert!(matches!(receive(&error), Ok(IncomingMessage::Error(Xid(7), RpcRdmaError::Chunk))));
        let error = words(&[7, 9, 32, 4, 1, 1, 1]);
        assert!(matches!(receive(&error), Ok(IncomingMessage::Error(Xid(7), RpcRdmaError::Vers(_)))));
    }

    #[test]
    fn rfc8166_section_4_5_invalid_messages_are_discarded() {
        assert_eq!(receive(&words(&[7, 1, 32, 0])).unwrap_err(), (None, ReceivedMessageDiscardReason::Short));
        let xid = Some(Xid(7));
        for (message, why) in [
            (&[7, 2, 32, 0, 0, 0, 0, 7, 1][..], ReceivedMessageDiscardReason::Header),
            (&[7, 1, 32, 9, 0, 0, 0, 7, 1], ReceivedMessageDiscardReason::Header),
            (&[7, 1, 32, 0, 2, 0, 0, 7, 1], ReceivedMessageDiscardReason::Header),
            (&[7, 1, 32, 0, 0, 0, 0, 8, 1], ReceivedMessageDiscardReason::Xid),
            (&[7, 1, 32, 0, 0, 0, 0, 7, 2], ReceivedMessageDiscardReason::Header),
            (&[7, 1, 32, 0, 0, 0, 0, 7], ReceivedMessageDiscardReason::Short),
            (&[7, 1, 32, 3, 0, 0, 0], ReceivedMessageDiscardReason::Header),
        ] {
            assert_eq!(receive(&words(message)).unwrap_err(), (xid, why), "{message:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = receive(&bytes);
        }
    }
}
