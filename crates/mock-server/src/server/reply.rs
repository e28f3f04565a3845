//! Replies of the server.

use nfsrdma_dissectors::rpc::auth::{AuthNoneVerifier, AuthNoneVerifierBody};
use nfsrdma_dissectors::rpc::{self, AcceptStat, AcceptedReply, ReplyData, RpcMsg, RpcMsgBody, Verifier};
use nfsrdma_dissectors::xdr::{Encoder, ReducedDataItem, Xdr, XdrError, roundup};

/// A reply: a message, and the DDP-eligible results that it omits.
#[derive(Debug, Default)]
pub struct MockReply {
    pub(super) message: Vec<u8>,
    pub(super) splices: Vec<ReducedDataItem>,
    /// The contents of DDP-eligible results, in order, including empty ones.
    pub data: Vec<Vec<u8>>,
}

impl MockReply {
    /// Returns the index of the Write chunk that matches a result (RFC 8267 section 6.4.1); `None` if there is no such
    /// result.
    pub fn ordinal(&self, result: usize) -> Option<usize> {
        self.splices.get(result).map(|splice| splice.ordinal)
    }

    /// Writes the message to `to`, with the results whose bits are set in `inline`, and their XDR padding, in their
    /// places.
    pub fn splice(&self, inline: u64, to: &mut Vec<u8>) {
        to.clear();
        let (mut rest, mut end) = (&self.message[..], 0);
        for (index, (splice, data)) in self.splices.iter().zip(&self.data).enumerate() {
            let (head, tail) = rest.split_at(splice.position.saturating_sub(end).min(rest.len()));
            to.extend_from_slice(head);
            let length = splice.length as usize;
            if inline >> index.min(63) & 1 == 1 {
                to.extend_from_slice(data);
                to.extend_from_slice([0; 3].get(..roundup(length)).unwrap_or_default());
            }
            end = splice.position + length + roundup(length);
            rest = tail;
        }
        to.extend_from_slice(rest);
    }

    /// Replaces the reply by one that RPC accepts, but that fails with `stat`.
    pub(super) fn refuse(&mut self, stat: AcceptStat) {
        let xid = self.message.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
        self.data.clear();
        let mut encoder = Encoder::reusing(std::mem::take(&mut self.message));
        accepted(rpc::Xid(xid), ReplyData::Failed(stat)).encode(&mut encoder);
        (self.message, self.splices) = encoder.finish();
    }

    /// Returns the complete message, as on TCP.
    pub fn complete_message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        self.splice(u64::MAX, &mut message);
        message
    }
}

pub(super) struct MockReplyBuffers<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) data: &'a mut Vec<Vec<u8>>,
}

/// Returns the answer to a Call whose arguments cannot be decoded.
pub(super) fn unreadable(_: XdrError) -> AcceptStat {
    AcceptStat::GARBAGE_ARGS
}

pub(super) fn accepted(xid: rpc::Xid, reply_data: ReplyData) -> RpcMsg<'static> {
    let verf = Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() });
    RpcMsg { xid, body: RpcMsgBody::Reply(rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data })) }
}
