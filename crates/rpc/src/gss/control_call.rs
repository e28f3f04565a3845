//! RPCSEC_GSS control Calls, which set up and destroy a context. RFC 2203 sections 5.2.2 and 5.4.
//!
//! A [`GssControlCall`] consists only of tokens of the mechanism and handles of the server, and has no bytes of a
//! caller. So a program that checks its Calls, such as one that replays a capture, can send it without a check.

use nfsrdma_dissectors::rpc::Xid;

use crate::outgoing_call::{CallTag, OutgoingRpcCall};

/// Maximum length in bytes of the answer to a token.
const MAX_TOKEN_BYTES: u32 = 1 << 16;

/// A NULL Call that sets up or destroys a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssControlCall {
    xid: Xid,
    message: Vec<u8>,
}

impl GssControlCall {
    pub(super) fn new(xid: Xid, message: Vec<u8>) -> Self {
        Self { xid, message }
    }

    /// Returns the XID.
    pub fn xid(&self) -> Xid {
        self.xid
    }

    /// Returns the RPC message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns the Call for a transport, with this tag.
    pub fn transport_call(&self, tag: CallTag) -> OutgoingRpcCall<'_> {
        OutgoingRpcCall::without_payloads(self.xid, tag, &self.message, self.reply_bytes())
    }

    /// Returns the maximum length of its Reply in bytes.
    pub fn reply_bytes(&self) -> u32 {
        MAX_TOKEN_BYTES
    }
}
