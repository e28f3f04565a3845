//! ONC RPC version 2, RFC 5531: what every Call and Reply begins with, whatever carries it.

pub mod auth;
pub mod gss;
mod header;
mod program;
mod recognize;
pub mod record;
pub mod tls;

pub use auth::{Credential, Verifier};
pub use header::{
    AcceptStat, AcceptedReply, AuthError, AuthStat, Body, Call, Message, MismatchInfo, MsgType,
    ProgMismatchInfo, RejectStat, RejectedReply, Reply, ReplyData, ReplyStat, Status, VERSION, Xid,
};
pub use program::Program;
pub use recognize::{Recognized, recognize, recognize_call_record, recognize_record};
