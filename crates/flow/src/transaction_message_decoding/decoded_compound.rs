//! The operations of a COMPOUND or CB_COMPOUND with their results. RFC 8881 sections 16.2 and 19.2.

use nfsrdma_dissectors::nfs::{Procedure, v4};
use nfsrdma_dissectors::xdr::Cursor;

/// COMPOUND of a Transaction, as far as it can be decoded.
#[derive(Debug, Default)]
pub struct DecodedCompound<'a> {
    /// Arguments; `None` if the Call is not a COMPOUND, or if its operations cannot be located.
    pub call: Option<v4::DecodedCompoundCall<'a>>,
    /// Results of a successful RPC; `None` if the Call is not a COMPOUND, or if they cannot be located.
    pub reply: Option<v4::DecodedCompoundReply<'a>>,
    /// CB_COMPOUND; `None` if the Call is none, or if the operations of neither message can be located.
    pub callback: Option<Box<DecodedCbCompound<'a>>>,
}

/// CB_COMPOUND of a Transaction, as far as it can be decoded.
#[derive(Debug, Default)]
pub struct DecodedCbCompound<'a> {
    /// Arguments; `None` if the operations of the Call cannot be located.
    pub call: Option<v4::DecodedCbCompoundCall<'a>>,
    /// Results of a successful RPC; `None` if they cannot be located.
    pub reply: Option<v4::DecodedCbCompoundReply<'a>>,
}

impl<'a> DecodedCompound<'a> {
    /// Decodes the operations of a Call and of its Reply, each with its procedure and a cursor at its body.
    pub(super) fn decode([call, reply]: [Option<(Procedure, Cursor<'a>)>; 2]) -> Self {
        let body_of = |expected: Procedure, body: Option<(Procedure, Cursor<'a>)>| {
            body.filter(|(procedure, _)| *procedure == expected).map(|(_, cursor)| cursor)
        };
        let callback = || {
            let decoded = DecodedCbCompound {
                call: body_of(Procedure::CbCompound, call).and_then(|body| v4::DecodedOperations::decode(body).ok()),
                reply: body_of(Procedure::CbCompound, reply).and_then(|body| v4::DecodedOperations::decode(body).ok()),
            };
            (decoded.call.is_some() || decoded.reply.is_some()).then(|| Box::new(decoded))
        };
        // Most Transactions are not callbacks: nothing is moved for them.
        let is_callback =
            body_of(Procedure::CbCompound, call).is_some() || body_of(Procedure::CbCompound, reply).is_some();
        Self {
            call: body_of(Procedure::Compound, call).and_then(|body| v4::DecodedOperations::decode(body).ok()),
            reply: body_of(Procedure::Compound, reply).and_then(|body| v4::DecodedOperations::decode(body).ok()),
            callback: if is_callback { callback() } else { None },
        }
    }
}
