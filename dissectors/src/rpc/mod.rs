//! ONC RPC version 2, RFC 5531: the header of every Call and Reply, independent of the transport.

use crate::field::registry::FieldRegistry;

pub mod auth;
pub mod gss;
pub(crate) mod header;
pub(crate) mod message_kind;
pub(crate) mod program;
mod recognize;
pub mod record_marking;
pub mod tls;
pub mod universal_address;

pub use auth::{Credential, Verifier};
pub use header::{
    AcceptStat, AcceptedReply, AuthError, AuthStat, CallBody, MismatchInfo, MsgType, ProgMismatchInfo, RejectStat,
    RejectedReply, ReplyBody, ReplyData, ReplyStat, RpcMsg, RpcMsgBody, RpcReplyStatus, VERSION, Xid,
};
pub use message_kind::RpcMessageKind;
pub use program::Program;
pub use recognize::{
    MAX_SPREAD_HEADER_BYTES, RecognizedRpcMessage, begins_with_small_fragment, may_begin_record, recognize,
    recognize_call_record, recognize_record,
};

use crate::xdr::Xdr;

/// Adds the RPC fields to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    RpcMsg::describe_field(registry, RpcMsg::FIELD, "");
    gss::describe(registry);
}
