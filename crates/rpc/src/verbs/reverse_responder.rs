//! Responder of the reverse direction: credits for Calls of the server, and checks of the answers. RFC 8167.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{Encoder, Xdr};

use crate::client_transport_events::ReceivedMessageDiscardReason;
use crate::rpcrdma_framing::header_lengths::SHORTEST_HEADER;
use crate::rpcrdma_framing::reverse_reply_headers::{answer_header, chunks_refused};
use crate::transport_error::PermanentSubmitRefusal;

/// Credits that the server has for its Calls, and its Calls without an answer.
pub(crate) struct VerbsReverseResponder {
    granted: u32,
    pending_calls: Vec<Xid>,
}

impl VerbsReverseResponder {
    /// Creates a Responder that grants `granted` credits; with 0 it accepts no Call.
    pub(crate) fn new(granted: u32) -> Self {
        Self { granted, pending_calls: Vec::new() }
    }

    /// Accepts a Call if it is within the credits; otherwise returns the reason to discard it.
    pub(crate) fn take(&mut self, xid: Xid) -> Result<(), ReceivedMessageDiscardReason> {
        if self.pending_calls.len() >= self.granted as usize {
            return Err(ReceivedMessageDiscardReason::ReverseCall);
        }
        self.pending_calls.push(xid);
        Ok(())
    }

    /// Checks that `message` answers a pending Call with this XID, and fits in a Send of at most `inline` bytes with
    /// its header.
    pub(crate) fn check_answer(&self, xid: Xid, message: &[u8], inline: u32) -> Result<(), PermanentSubmitRefusal> {
        if !self.pending_calls.contains(&xid) {
            return Err(PermanentSubmitRefusal::NoCall);
        }
        if message.first_chunk() != Some(&xid.0.to_be_bytes()) {
            return Err(PermanentSubmitRefusal::Xid);
        }
        if SHORTEST_HEADER + message.len() > inline as usize { Err(PermanentSubmitRefusal::TooLong) } else { Ok(()) }
    }

    pub(crate) fn remove_call(&mut self, xid: Xid) {
        if let Some(at) = self.pending_calls.iter().position(|waiting| *waiting == xid) {
            self.pending_calls.remove(at);
        }
    }

    pub(crate) fn encode(&self, xid: Xid, encoder: &mut Encoder) {
        answer_header(xid, self.granted).encode(encoder);
    }

    /// Encodes the error that refuses a Call with chunks, if the Call is within the credits. Returns `false` if it is
    /// not, as then it gets no answer.
    pub(crate) fn refuse(&self, xid: Xid, encoder: &mut Encoder) -> bool {
        let is_granted = self.pending_calls.len() < self.granted as usize;
        if is_granted {
            chunks_refused(xid, self.granted).encode(encoder);
        }
        is_granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpcrdma_framing::incoming_message_classification::{IncomingMessage, receive};

    /// Returns the beginning of a Reply.
    fn reply(xid: u32) -> Vec<u8> {
        [xid, 1, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn rfc8167_section_4_1_as_many_calls_as_were_granted() {
        let mut responder = VerbsReverseResponder::new(2);
        assert_eq!((responder.take(Xid(1)), responder.take(Xid(2))), (Ok(()), Ok(())));
        assert_eq!(responder.take(Xid(3)), Err(ReceivedMessageDiscardReason::ReverseCall));
        responder.remove_call(Xid(1));
        assert_eq!(responder.take(Xid(3)), Ok(()));
        assert_eq!(VerbsReverseResponder::new(0).take(Xid(1)), Err(ReceivedMessageDiscardReason::ReverseCall));
    }

    #[test]
    fn an_answer_belongs_to_a_call_and_fits_into_a_send() {
        let mut responder = VerbsReverseResponder::new(1);
        assert_eq!(responder.check_answer(Xid(7), &reply(7), 1024), Err(PermanentSubmitRefusal::NoCall));
        responder.take(Xid(7)).unwrap();
        assert_eq!(responder.check_answer(Xid(7), &reply(7), 40), Ok(()));
        assert_eq!(responder.check_answer(Xid(7), &reply(7), 39), Err(PermanentSubmitRefusal::TooLong));
        assert_eq!(responder.check_answer(Xid(7), &reply(8), 1024), Err(PermanentSubmitRefusal::Xid));
    }

    #[test]
    fn rfc8167_section_5_2_an_answer_has_no_chunks_and_grants_credits() {
        let mut encoder = Encoder::new();
        VerbsReverseResponder::new(5).encode(Xid(7), &mut encoder);
        encoder.raw(&reply(7));
        let bytes = encoder.finish().0;
        let Ok(IncomingMessage::Reply(header, message)) = receive(&bytes) else { panic!() };
        assert_eq!((header.rdma_xid, header.rdma_credit, message.len()), (Xid(7), 5, 12));
        assert_eq!(bytes.len(), SHORTEST_HEADER + 12);
    }

    #[test]
    fn rfc8167_section_5_3_a_call_with_chunks_is_refused_within_the_credits() {
        let mut responder = VerbsReverseResponder::new(1);
        let mut encoder = Encoder::new();
        assert!(responder.refuse(Xid(7), &mut encoder));
        let words: Vec<u8> = [7u32, 1, 1, 4, 2].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(encoder.bytes(), words);
        responder.take(Xid(8)).unwrap();
        assert!(!responder.refuse(Xid(9), &mut encoder), "one credit, and one call waits");
    }
}
