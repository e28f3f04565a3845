//! Headers of Calls and Replies. RFC 5531 section 9.

use std::fmt;

use super::auth::{Credential, Verifier};
use super::program::Program;
use crate::field::{FieldDefinition, FieldObserver};
use crate::xdr::{Cursor, Xdr, XdrError};

crate::number! {
    /// Transaction identifier of a Call and its Reply, unique per connection and direction. RFC 5531 section 9.
    pub struct Xid(u32) as Hex(8);
}

/// RPC version. RFC 5531 section 9.
pub const VERSION: u32 = 2;

crate::xdr! { "rpc";
    /// msg_type. RFC 5531 section 9.
    enum MsgType { CALL = 0, REPLY = 1 }

    /// reply_stat. RFC 5531 section 9.
    enum ReplyStat { MSG_ACCEPTED = 0, MSG_DENIED = 1 }

    /// accept_stat. RFC 5531 section 9.
    enum AcceptStat {
        SUCCESS = 0,
        PROG_UNAVAIL = 1,
        PROG_MISMATCH = 2,
        PROC_UNAVAIL = 3,
        GARBAGE_ARGS = 4,
        SYSTEM_ERR = 5,
    }

    /// reject_stat. RFC 5531 section 9.
    enum RejectStat { RPC_MISMATCH = 0, AUTH_ERROR = 1 }

    /// auth_stat. RFC 5531 section 9; from 15 on: RFC 7861 section 2.6.
    open_enum AuthStat {
        AUTH_OK = 0,
        AUTH_BADCRED = 1,
        AUTH_REJECTEDCRED = 2,
        AUTH_BADVERF = 3,
        AUTH_REJECTEDVERF = 4,
        AUTH_TOOWEAK = 5,
        AUTH_INVALIDRESP = 6,
        AUTH_FAILED = 7,
        AUTH_KERB_GENERIC = 8,
        AUTH_TIMEEXPIRE = 9,
        AUTH_TKT_FILE = 10,
        AUTH_DECODE = 11,
        AUTH_NET_ADDR = 12,
        RPCSEC_GSS_CREDPROBLEM = 13,
        RPCSEC_GSS_CTXPROBLEM = 14,
        RPCSEC_GSS_INNER_CREDPROBLEM = 15,
        RPCSEC_GSS_LABEL_PROBLEM = 16,
        RPCSEC_GSS_PRIVILEGE_PROBLEM = 17,
        RPCSEC_GSS_UNKNOWN_MESSAGE = 18,
    }

    /// rpc_msg, up to the procedure's arguments or results. RFC 5531 section 9.
    struct RpcMsg<'a> { xid: Xid, body: RpcMsgBody<'a> }

    /// The body of rpc_msg. RFC 5531 section 9.
    union RpcMsgBody<'a> switch (mtype: MsgType => "rpc.msgtyp") {
        CALL => Call(CallBody<'a>),
        REPLY => Reply(ReplyBody<'a>),
    }

    /// call_body. RFC 5531 section 9.
    struct CallBody<'a> {
        rpcvers: u32 => "rpc.version",
        prog: Program => "rpc.program",
        vers: u32 => "rpc.programversion",
        proc: u32 => "rpc.procedure",
        cred: Credential<'a>,
        verf: Verifier<'a>,
    }

    /// reply_body. RFC 5531 section 9.
    union ReplyBody<'a> switch (stat: ReplyStat => "rpc.replystat") {
        MSG_ACCEPTED => Accepted(AcceptedReply<'a>),
        MSG_DENIED => Denied(RejectedReply),
    }

    /// accepted_reply. RFC 5531 section 9.
    struct AcceptedReply<'a> { verf: Verifier<'a>, reply_data: ReplyData }

    /// reply_data: the outcome of the procedure. The results follow SUCCESS. RFC 5531 section 9.
    union ReplyData switch (stat: AcceptStat => "rpc.state_accept") {
        SUCCESS => Success,
        PROG_MISMATCH => ProgMismatch(ProgMismatchInfo),
        default => Failed,
    }

    /// mismatch_info of PROG_MISMATCH: the supported versions of the program. RFC 5531 section 9.
    struct ProgMismatchInfo {
        low: u32 => "rpc.programversion.min",
        high: u32 => "rpc.programversion.max",
    }

    /// rejected_reply. RFC 5531 section 9.
    union RejectedReply switch (stat: RejectStat => "rpc.state_reject") {
        RPC_MISMATCH => RpcMismatch(MismatchInfo),
        AUTH_ERROR => AuthError(AuthError),
    }

    /// mismatch_info of RPC_MISMATCH: the supported versions of RPC. RFC 5531 section 9.
    struct MismatchInfo { low: u32 => "rpc.version.min", high: u32 => "rpc.version.max" }

    /// Reason of an authentication failure. RFC 5531 section 9.
    struct AuthError { stat: AuthStat => "rpc.state_auth" }
}

impl<'a> RpcMsg<'a> {
    /// The message as one group of fields.
    pub const FIELD: &'static FieldDefinition =
        &FieldDefinition::group("rpc", "rpc_msg", "Remote Procedure Call. RFC 5531 section 9");

    /// Decodes the header of a Call or Reply, and moves the cursor to the procedure's arguments or results.
    ///
    /// # Errors
    /// Returns an error if the message is truncated or violates RFC 5531.
    pub fn decode<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        <Self as Xdr>::decode(cursor, Self::FIELD, observer)
    }

    /// Returns the Call, if it is one.
    pub fn call(&self) -> Option<&CallBody<'a>> {
        match &self.body {
            RpcMsgBody::Call(call) => Some(call),
            RpcMsgBody::Reply(_) => None,
        }
    }

    /// Returns the Reply, if it is one.
    pub fn reply(&self) -> Option<&ReplyBody<'a>> {
        match &self.body {
            RpcMsgBody::Call(_) => None,
            RpcMsgBody::Reply(reply) => Some(reply),
        }
    }
}

/// Outcome of a Call at the RPC layer: the accept_stat, or the reject_stat if denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcReplyStatus {
    /// The server accepted the Call.
    Accepted(AcceptStat),
    /// The server denied the Call.
    Denied(RejectStat),
}

impl RpcReplyStatus {
    /// Returns the name in RFC 5531, if the number has one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Accepted(stat) => stat.name(),
            Self::Denied(stat) => stat.name(),
        }
    }

    /// Returns `true` if the procedure's results follow.
    pub fn is_success(self) -> bool {
        self == Self::Accepted(AcceptStat::SUCCESS)
    }
}

/// Displays the name in RFC 5531, or the number if it has none.
impl fmt::Display for RpcReplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(stat) => stat.fmt(f),
            Self::Denied(stat) => stat.fmt(f),
        }
    }
}

impl ReplyBody<'_> {
    /// Returns the outcome at the RPC layer.
    pub fn status(&self) -> RpcReplyStatus {
        match self {
            Self::Accepted(reply) => RpcReplyStatus::Accepted(reply.reply_data.tag()),
            Self::Denied(reply) => RpcReplyStatus::Denied(reply.tag()),
        }
    }

    /// Returns the reason of a denied Call, if it is about authentication. RFC 5531 section 9.
    pub fn auth_stat(&self) -> Option<AuthStat> {
        match self {
            Self::Denied(RejectedReply::AuthError(error)) => Some(error.stat),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldValue, NullFieldObserver};
    use crate::rpc::auth::{Flavor, UndecodedAuthBody};
    use crate::xdr::{Encoder, Opaque};
    use std::ops::Range;

    /// Decodes a message that consists of a header only, and asserts that it encodes to the same bytes.
    fn decode(bytes: &[u8]) -> RpcMsg<'_> {
        let mut cursor = Cursor::new(bytes);
        let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(cursor.remaining(), 0);
        let mut encoder = Encoder::new();
        message.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        message
    }

    const CALL: &[u8] =
        b"\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn rfc5531_section_9_a_call_names_program_version_and_procedure() {
        let message = decode(CALL);
        assert_eq!(message.xid.to_string(), "0x12345678");
        let call = message.call().unwrap();
        assert_eq!((call.rpcvers, call.prog, call.vers, call.proc), (2, Program::NFS, 3, 1));
        assert_eq!(call.cred, Credential::Other(Flavor::AUTH_NONE, UndecodedAuthBody { body: Opaque(b"") }));
        assert_eq!(message.reply(), None);
    }

    #[test]
    fn rfc5531_section_9_an_accepted_reply_has_a_status() {
        let accepted = |stat: u8, rest: &[u8]| {
            [&b"\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], &[stat][..], rest].concat()
        };
        for (stat, name) in
            [(0, "SUCCESS"), (1, "PROG_UNAVAIL"), (3, "PROC_UNAVAIL"), (4, "GARBAGE_ARGS"), (5, "SYSTEM_ERR"), (6, "6")]
        {
            let bytes = accepted(stat, b"");
            let message = decode(&bytes);
            assert_eq!(message.reply().unwrap().status().to_string(), name);
        }
        let bytes = accepted(2, b"\0\0\0\x02\0\0\0\x04");
        let message = decode(&bytes);
        assert_eq!(message.reply().unwrap().status().name(), Some("PROG_MISMATCH"));
        let Some(ReplyBody::Accepted(reply)) = message.reply() else { panic!() };
        assert_eq!(reply.reply_data, ReplyData::ProgMismatch(ProgMismatchInfo { low: 2, high: 4 }));
    }

    #[test]
    fn rfc5531_section_9_a_rejected_reply_has_a_reason() {
        let message = decode(b"\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x02");
        let mismatch = RejectedReply::RpcMismatch(MismatchInfo { low: 2, high: 2 });
        assert_eq!(message.reply(), Some(&ReplyBody::Denied(mismatch)));
        assert_eq!(message.reply().unwrap().status().to_string(), "RPC_MISMATCH");

        let message = decode(b"\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x0d");
        let error = RejectedReply::AuthError(AuthError { stat: AuthStat::RPCSEC_GSS_CREDPROBLEM });
        assert_eq!(message.reply(), Some(&ReplyBody::Denied(error)));
        assert_eq!(message.reply().unwrap().status().to_string(), "AUTH_ERROR");
    }

    #[test]
    fn an_unknown_message_type_is_refused_at_its_offset() {
        let result = RpcMsg::decode(&mut Cursor::new(b"\0\0\0\x07\0\0\0\x02"), &mut NullFieldObserver);
        assert_eq!(result, Err(XdrError::Invalid { at: 4, what: "MsgType", value: 2 }));
    }

    #[test]
    fn a_message_cut_at_any_byte_is_reported_as_cut() {
        for end in 0..CALL.len() {
            let mut cursor = Cursor::new(&CALL[..end]).with_length(CALL.len());
            assert!(RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap_err().is_cut(), "{end}");
            let error = RpcMsg::decode(&mut Cursor::new(&CALL[..end]), &mut NullFieldObserver).unwrap_err();
            assert!(matches!(error, XdrError::Short { .. }), "{end}");
        }
    }

    #[test]
    fn fields_have_the_names_that_wireshark_gives_them() {
        struct Names(Vec<&'static str>);
        impl<'a> FieldObserver<'a> for Names {
            fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
            fn leave(&mut self, _: usize) {}
            fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {
                self.0.push(field.name);
            }
        }
        let mut names = Names(Vec::new());
        RpcMsg::decode(&mut Cursor::new(CALL), &mut names).unwrap();
        let expected = [
            "rpc.xid",
            "rpc.msgtyp",
            "rpc.version",
            "rpc.program",
            "rpc.programversion",
            "rpc.procedure",
            "rpc.auth.flavor",
            "rpc.auth.body",
            "rpc.auth.flavor",
            "rpc.auth.body",
        ];
        assert_eq!(names.0, expected);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, length: u16) {
            let _ = RpcMsg::decode(&mut Cursor::new(&bytes).with_length(length.into()), &mut NullFieldObserver);
        }
    }
}
