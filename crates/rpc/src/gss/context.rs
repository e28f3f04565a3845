//! An established context, which signs Calls and verifies Replies. RFC 2203 section 5.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::auth::GssVerifier;
use nfsrdma_dissectors::rpc::gss::{
    GssCredential, GssIntegrityChecksum, GssProc, GssVerifierBody, IntegrityBody, RpcGssService, RpcSecGssVersion,
};
use nfsrdma_dissectors::rpc::{
    self, AcceptedReply, AuthStat, Credential, Program, RejectedReply, ReplyData, RpcMsg, RpcMsgBody, Verifier, Xid,
};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Xdr};

use super::control_call::GssControlCall;
use super::mechanism_context::{GssMechanismContext, GssMechanismError};
use crate::synchronous_client::no_verifier;

/// An established context.
#[derive(Debug)]
pub struct GssContext {
    mechanism: Box<dyn GssMechanismContext>,
    handle: Vec<u8>,
    /// The version of NFS for which it was set up.
    version: u32,
    /// Maximum number of Calls in flight: the number of sequence numbers that the server tracks. RFC 2203 section
    /// 5.3.3.1.
    pub window: u32,
    next: u32,
    header: Vec<u8>,
    checksum: Vec<u8>,
}

/// A Call to seal.
#[derive(Clone, Copy, Debug)]
pub struct GssSealInput<'a> {
    /// The XID.
    pub xid: Xid,
    /// The program, its version, and the procedure.
    pub procedure: (Program, u32, u32),
    /// The protection of arguments and results: none, or a checksum.
    pub service: RpcGssService,
    /// The encoded arguments.
    pub arguments: &'a [u8],
}

/// The required protection of the Reply to a sealed Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssReplyProtection {
    /// The sequence number of the Call.
    pub sequence_number: u32,
    service: RpcGssService,
}

/// The reason that a Reply is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssIntegrityError {
    /// The verifier is not of RPCSEC_GSS, or belongs to another sequence number. RFC 2203 section 5.3.3.2.
    #[error("a reply whose verifier is not that of the security context")]
    Verifier,
    /// The results lack the required protection, or were changed. RFC 2203 section 5.3.3.4.2.
    #[error("results whose checksum is not that of the security context")]
    Results,
}

impl GssContext {
    pub(super) fn new(mechanism: Box<dyn GssMechanismContext>, handle: Vec<u8>, version: u32, window: u32) -> Self {
        Self { mechanism, handle, version, window, next: 1, header: Vec::new(), checksum: Vec::new() }
    }

    /// Returns `true` if the next Call would push a Call with this sequence number out of the window.
    pub fn is_beyond(&self, number: u32) -> bool {
        self.next.wrapping_sub(number) >= self.window
    }

    /// Replaces `message` by a Call with credential and verifier of this context, and protected arguments. Returns the
    /// offset of the arguments, and the protection for opening the Reply. RFC 2203 sections 5.3.1 and 5.3.2.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    pub fn seal(
        &mut self,
        call: &GssSealInput<'_>,
        message: &mut Vec<u8>,
    ) -> Result<(usize, GssReplyProtection), GssMechanismError> {
        let (mut encoder, protection) =
            self.begin_signed_call((GssProc::RPCSEC_GSS_DATA, call.service), call.xid, call.procedure, message)?;
        let is_protected = call.service == RpcGssService::rpc_gss_svc_integrity;
        if is_protected {
            encoder.word(u32::try_from(call.arguments.len() + 4).unwrap_or(u32::MAX));
            encoder.word(protection.sequence_number);
        }
        let at = encoder.bytes().len();
        encoder.raw(call.arguments);
        if is_protected {
            self.checksum.clear();
            self.mechanism.sign(encoder.bytes().get(at - 4..).unwrap_or_default(), &mut self.checksum)?;
            GssIntegrityChecksum { checksum: Opaque(&self.checksum) }.encode(&mut encoder);
        }
        *message = encoder.finish().0;
        Ok((at, protection))
    }

    /// Begins a Call in the buffer `message`: its header, with credential and verifier of this context and the next
    /// sequence number.
    fn begin_signed_call(
        &mut self,
        (gss_proc, service): (GssProc, RpcGssService),
        xid: Xid,
        (prog, vers, proc): (Program, u32, u32),
        message: &mut Vec<u8>,
    ) -> Result<(Encoder, GssReplyProtection), GssMechanismError> {
        let protection = GssReplyProtection { sequence_number: self.next, service };
        self.next = self.next.wrapping_add(1);
        let cred = credential(gss_proc, protection.sequence_number, service, &self.handle);
        let body =
            RpcMsgBody::Call(rpc::CallBody { rpcvers: rpc::VERSION, prog, vers, proc, cred, verf: no_verifier() });
        let mut encoder = Encoder::reusing(std::mem::take(&mut self.header));
        RpcMsg { xid, body }.encode(&mut encoder);
        self.header = encoder.finish().0;
        // The signature covers the header up to the credential; the empty verifier after it has two words.
        let header = self.header.get(..self.header.len().saturating_sub(8)).unwrap_or_default();
        self.checksum.clear();
        self.mechanism.sign(header, &mut self.checksum)?;
        let mut encoder = Encoder::reusing(std::mem::take(message));
        encoder.raw(header);
        let checksum = GssVerifierBody::Checksum(Opaque(&self.checksum));
        Verifier::Gss(GssVerifier { checksum }).encode(&mut encoder);
        Ok((encoder, protection))
    }

    /// Returns `true` if the server signed the sequence number of the Call in the verifier of its Reply. RFC 2203
    /// section 5.3.3.2.
    pub fn verify_reply(&mut self, protection: GssReplyProtection, verifier: &Verifier<'_>) -> bool {
        self.mechanism.verify(&protection.sequence_number.to_be_bytes(), checksum(verifier).unwrap_or_default())
    }

    /// Opens the Reply to a sealed Call: replaces `plaintext` by the Reply with unprotected results. A Reply that
    /// refuses the Call, or cannot be decoded, is copied unchanged. RFC 2203 sections 5.3.3.2 and 5.3.3.4.
    ///
    /// # Errors
    /// Returns an error if the Reply was not made by the server of this context.
    pub fn open(
        &mut self,
        protection: GssReplyProtection,
        message: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<(), GssIntegrityError> {
        plaintext.clear();
        plaintext.extend_from_slice(message);
        let mut cursor = Cursor::new(message);
        // The next decoder reports a message that cannot be decoded.
        let Ok(rpc_message) = RpcMsg::decode(&mut cursor, &mut NullFieldObserver) else { return Ok(()) };
        let Some(rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data })) = rpc_message.reply() else {
            return Ok(());
        };
        if !self.verify_reply(protection, verf) {
            return Err(GssIntegrityError::Verifier);
        }
        if *reply_data != ReplyData::Success || protection.service != RpcGssService::rpc_gss_svc_integrity {
            return Ok(());
        }
        let header = cursor.position();
        let protected =
            IntegrityBody::open(&mut cursor, &mut NullFieldObserver).map_err(|_| GssIntegrityError::Results)?;
        let end = cursor.position();
        let checksum =
            GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).map_err(|_| GssIntegrityError::Results)?;
        let signed = message.get(header + 4..end).ok_or(GssIntegrityError::Results)?;
        // The XDR padding of the opaque data is not signed.
        let length = message.get(header..header + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        let signed = length.and_then(|length| signed.get(..length as usize)).ok_or(GssIntegrityError::Results)?;
        if protected.seq_num != protection.sequence_number || !self.mechanism.verify(signed, checksum.checksum.0) {
            return Err(GssIntegrityError::Results);
        }
        plaintext.truncate(header);
        plaintext.extend_from_slice(signed.get(4..).unwrap_or_default());
        Ok(())
    }

    /// Returns the Call that destroys this context, and the protection that its Reply must be
    /// [signed](Self::verify_reply) with. RFC 2203 section 5.4.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    pub fn destroy(&mut self, xid: Xid) -> Result<(GssControlCall, GssReplyProtection), GssMechanismError> {
        let procedure = (Program::NFS, self.version, 0);
        let proc_and_service = (GssProc::RPCSEC_GSS_DESTROY, RpcGssService::rpc_gss_svc_none);
        let (encoder, protection) = self.begin_signed_call(proc_and_service, xid, procedure, &mut Vec::new())?;
        Ok((GssControlCall::new(xid, encoder.finish().0), protection))
    }
}

/// Returns `true` if a Reply means that the server does not know the context of its Call, or no longer accepts it: the
/// context must be re-established, and the Call sent again in it. The cursor is at the beginning of the message. RFC
/// 2203 section 5.3.3.3.
pub fn reports_unknown_context(mut reply: Cursor<'_>) -> bool {
    let Ok(message) = RpcMsg::decode(&mut reply, &mut NullFieldObserver) else { return false };
    let Some(rpc::ReplyBody::Denied(RejectedReply::AuthError(error))) = message.reply() else { return false };
    matches!(error.stat, AuthStat::RPCSEC_GSS_CREDPROBLEM | AuthStat::RPCSEC_GSS_CTXPROBLEM)
}

pub(super) fn credential(gss_proc: GssProc, seq_num: u32, service: RpcGssService, handle: &[u8]) -> Credential<'_> {
    let rgc_version = RpcSecGssVersion::RPCSEC_GSS_VERS_1;
    let handle = Opaque(handle);
    Credential::Gss(rpc::auth::FlavorSpecificAuthBody::Known(GssCredential {
        rgc_version,
        gss_proc,
        seq_num,
        service,
        handle,
    }))
}

pub(super) fn checksum<'a>(verifier: &Verifier<'a>) -> Option<&'a [u8]> {
    match verifier {
        Verifier::Gss(GssVerifier { checksum: GssVerifierBody::Checksum(checksum) }) => Some(checksum.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::rpc::AuthError;
    use nfsrdma_dissectors::rpc::auth::{Flavor, UndecodedAuthBody};
    use nfsrdma_dissectors::rpc::gss::RpcGssInitArg;
    use proptest::prelude::*;

    use super::super::context_setup::{GssContextSetup, GssContextSetupError, GssSetupStep};
    use super::super::mechanism_context::GssInitStep;
    use super::*;

    /// Signs with the length of a message, the sum of its bytes, and a letter for the signing side.
    #[derive(Debug)]
    struct Sums(u8);

    fn sum(side: u8, message: &[u8]) -> Vec<u8> {
        let sum = message.iter().fold(message.len() as u32, |sum, byte| sum.wrapping_mul(31) + u32::from(*byte));
        [&[side][..], &sum.to_be_bytes()].concat()
    }

    impl GssMechanismContext for Sums {
        fn step(&mut self, _: &[u8]) -> Result<GssInitStep, GssMechanismError> {
            Ok(GssInitStep { token: b"token".to_vec(), is_done: true })
        }

        fn sign(&mut self, message: &[u8], checksum: &mut Vec<u8>) -> Result<(), GssMechanismError> {
            checksum.extend(sum(b'c', message));
            Ok(())
        }

        fn verify(&mut self, message: &[u8], checksum: &[u8]) -> bool {
            checksum == sum(self.0, message)
        }
    }

    /// Returns a context whose server signs with another letter.
    fn context() -> GssContext {
        GssContext::new(Box::new(Sums(b's')), b"handle".to_vec(), 4, 128)
    }

    const NONE: RpcGssService = RpcGssService::rpc_gss_svc_none;
    const INTEGRITY: RpcGssService = RpcGssService::rpc_gss_svc_integrity;

    fn unsealed(service: RpcGssService) -> GssSealInput<'static> {
        GssSealInput { xid: Xid(7), procedure: (Program::NFS, 4, 1), service, arguments: b"argsargs" }
    }

    fn accepted(checksum: &[u8], results: &[u8]) -> Vec<u8> {
        let checksum = GssVerifierBody::Checksum(Opaque(checksum));
        let verf = Verifier::Gss(GssVerifier { checksum });
        let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data: ReplyData::Success });
        let mut encoder = Encoder::new();
        RpcMsg { xid: Xid(7), body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
        encoder.raw(results);
        encoder.finish().0
    }

    fn protected(number: u32, results: &[u8]) -> Vec<u8> {
        let signed = [&number.to_be_bytes(), results].concat();
        let mut encoder = Encoder::new();
        encoder.append_opaque(&signed);
        encoder.append_opaque(&sum(b's', &signed));
        encoder.finish().0
    }

    #[test]
    fn rfc2203_section_5_3_1_the_verifier_signs_the_header_and_numbers_go_up() {
        let (mut context, mut out) = (context(), Vec::new());
        for number in 1..4 {
            let (at, seal) = context.seal(&unsealed(NONE), &mut out).unwrap();
            assert_eq!((seal.sequence_number, &out[at..]), (number, &b"argsargs"[..]));
            let mut cursor = Cursor::new(&out);
            let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            assert_eq!((message.xid, cursor.position()), (Xid(7), at));
            let call = message.call().unwrap();
            let gss = call.cred.gss().unwrap();
            assert_eq!((gss.seq_num, gss.handle.0, gss.service), (number, &b"handle"[..], NONE));
            // Before the verifier: flavor, length, five bytes and their padding.
            assert_eq!(checksum(&call.verf), Some(&sum(b'c', &out[..at - 16])[..]));
        }
    }

    #[test]
    fn rfc2203_section_5_3_2_2_arguments_stand_between_their_number_and_their_checksum() {
        let (mut context, mut out) = (context(), Vec::new());
        let (at, seal) = context.seal(&unsealed(INTEGRITY), &mut out).unwrap();
        let mut cursor = Cursor::new(&out);
        RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let mut protected = IntegrityBody::open(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((protected.seq_num, protected.body.position()), (seal.sequence_number, at));
        assert_eq!(protected.body.take(8), Ok(&b"argsargs"[..]));
        let checksum = GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((checksum.checksum.0, cursor.remaining()), (&sum(b'c', &out[at - 4..at + 8])[..], 0));
    }

    #[test]
    fn rfc2203_section_5_3_3_2_the_verifier_of_a_reply_signs_the_number_of_its_call() {
        let (mut context, mut out, mut plain) = (context(), Vec::new(), Vec::new());
        let (_, seal) = context.seal(&unsealed(NONE), &mut out).unwrap();
        let honest = accepted(&sum(b's', &seal.sequence_number.to_be_bytes()), b"results!");
        assert_eq!(context.open(seal, &honest, &mut plain), Ok(()));
        assert_eq!(plain, honest);
        let of_another = accepted(&sum(b's', &(seal.sequence_number + 1).to_be_bytes()), b"results!");
        assert_eq!(context.open(seal, &of_another, &mut plain), Err(GssIntegrityError::Verifier));
        let reflected = accepted(&sum(b'c', &seal.sequence_number.to_be_bytes()), b"results!");
        assert_eq!(context.open(seal, &reflected, &mut plain), Err(GssIntegrityError::Verifier));
        let verf = Verifier::Other(Flavor::AUTH_NONE, UndecodedAuthBody { body: Opaque(b"") });
        let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data: ReplyData::Success });
        let mut encoder = Encoder::new();
        RpcMsg { xid: Xid(7), body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
        assert_eq!(context.open(seal, encoder.bytes(), &mut plain), Err(GssIntegrityError::Verifier));
    }

    #[test]
    fn rfc2203_section_5_3_3_4_2_only_unchanged_results_are_opened() {
        let (mut context, mut out, mut plain) = (context(), Vec::new(), Vec::new());
        let (_, seal) = context.seal(&unsealed(INTEGRITY), &mut out).unwrap();
        let verifier = sum(b's', &seal.sequence_number.to_be_bytes());
        let honest = accepted(&verifier, &protected(seal.sequence_number, b"results!"));
        assert_eq!(context.open(seal, &honest, &mut plain), Ok(()));
        assert_eq!(plain, accepted(&verifier, b"results!"));
        let of_another = accepted(&verifier, &protected(seal.sequence_number + 1, b"results!"));
        assert_eq!(context.open(seal, &of_another, &mut plain), Err(GssIntegrityError::Results));
        assert_eq!(context.open(seal, &accepted(&verifier, b"results!"), &mut plain), Err(GssIntegrityError::Results));
        let header = honest.len() - protected(seal.sequence_number, b"results!").len();
        for at in header..honest.len() - 3 {
            let mut lie = honest.clone();
            lie[at] ^= 1;
            assert_eq!(context.open(seal, &lie, &mut plain), Err(GssIntegrityError::Results), "byte {at}");
        }
    }

    #[test]
    fn rfc5531_section_9_a_denied_call_has_no_verifier_and_is_as_it_came() {
        let (mut context, mut out, mut plain) = (context(), Vec::new(), Vec::new());
        let (_, seal) = context.seal(&unsealed(INTEGRITY), &mut out).unwrap();
        let denied = denied(AuthStat::RPCSEC_GSS_CREDPROBLEM);
        assert_eq!(context.open(seal, &denied, &mut plain), Ok(()));
        assert_eq!(plain, denied);
    }

    fn denied(stat: AuthStat) -> Vec<u8> {
        let denied = RejectedReply::AuthError(AuthError { stat });
        let mut encoder = Encoder::new();
        RpcMsg { xid: Xid(7), body: RpcMsgBody::Reply(rpc::ReplyBody::Denied(denied)) }.encode(&mut encoder);
        encoder.finish().0
    }

    #[test]
    fn rfc2203_section_5_3_3_3_two_reasons_of_denial_ask_for_another_context() {
        for (stat, is_unknown) in [
            (AuthStat::RPCSEC_GSS_CREDPROBLEM, true),
            (AuthStat::RPCSEC_GSS_CTXPROBLEM, true),
            (AuthStat::AUTH_TOOWEAK, false),
            (AuthStat::AUTH_REJECTEDCRED, false),
        ] {
            assert_eq!(super::reports_unknown_context(Cursor::new(&denied(stat))), is_unknown, "{stat}");
        }
        assert!(!super::reports_unknown_context(Cursor::new(&accepted(b"", b""))));
        assert!(!super::reports_unknown_context(Cursor::new(b"")));
    }

    #[test]
    fn rfc2203_section_5_4_a_context_is_destroyed_by_a_signed_null_without_arguments() {
        let (mut context, mut out) = (context(), Vec::new());
        context.seal(&unsealed(NONE), &mut out).unwrap();
        let (control, seal) = context.destroy(Xid(8)).unwrap();
        // By hand: XID, CALL, RPC version 2, NFS, version 4, NULL; flavor 6, 28 bytes of credential: version 1,
        // DESTROY, the next sequence number, no protection, the handle with its padding; and the verifier.
        let header = [8, 0, 2, 100_003, 4, 0, 6, 28, 1, 3, 2, 1, 6].map(u32::to_be_bytes).concat();
        let header = [&header[..], b"handle\0\0"].concat();
        let verifier = [&[6, 5].map(u32::to_be_bytes).concat()[..], &sum(b'c', &header), &[0; 3]].concat();
        assert_eq!(control.message(), [header, verifier].concat());
        assert_eq!((control.xid(), seal.sequence_number), (Xid(8), 2));
    }

    #[test]
    fn rfc2203_section_5_2_3_1_a_context_is_established_once_the_server_signs_its_window() {
        let begun = || GssContextSetup::begin(Box::new(Sums(b's')), 3).unwrap();
        let call = begun().call(Xid(7));
        let header = [7, 0, 2, 100_003, 3, 0, 6, 20, 1, 1, 0, 1, 0, 0, 0, 5].map(u32::to_be_bytes).concat();
        assert_eq!(call.message(), [&header[..], b"token\0\0\0"].concat());
        let mut argument = Encoder::new();
        RpcGssInitArg { gss_token: Opaque(b"token") }.encode(&mut argument);
        assert!(call.message().ends_with(argument.bytes()));
        // The results: the handle, major and minor status, the window, and a token.
        let answer = |signed: u32, major: u32, window: u32| {
            let words = [major, 0, window, 5].map(u32::to_be_bytes).concat();
            let results = [b"\0\0\0\x04name", &words[..], b"token\0\0\0"].concat();
            accepted(&sum(b's', &signed.to_be_bytes()), &results)
        };
        let answered = |reply: &[u8]| begun().handle_reply(Cursor::new(reply));
        assert!(
            matches!(answered(&answer(128, 0, 128)), Ok(GssSetupStep::Established(context)) if context.window == 128)
        );
        assert!(matches!(answered(&answer(127, 0, 128)), Err(GssContextSetupError::NotSigned)));
        assert!(matches!(answered(&answer(0, 0, 0)), Err(GssContextSetupError::NoWindow)));
        assert!(matches!(answered(&answer(128, 13 << 16, 128)), Err(GssContextSetupError::Refused(..))));
        assert!(matches!(answered(&denied(AuthStat::AUTH_TOOWEAK)), Err(GssContextSetupError::Call(_))));
        let Ok(GssSetupStep::ContinueNeeded(again)) = answered(&answer(128, 1, 128)) else { panic!("a second turn") };
        // CONTINUE_INIT has the handle from the server.
        let header = [9, 0, 2, 100_003, 3, 0, 6, 24, 1, 2, 0, 1, 4].map(u32::to_be_bytes).concat();
        assert!(again.call(Xid(9)).message().starts_with(&[&header[..], b"name"].concat()));
    }

    proptest! {
        #[test]
        fn no_reply_of_a_hostile_server_panics(at in 0usize..80, bytes: Vec<u8>, integrity: bool) {
            let (mut context, mut out, mut plain) = (context(), Vec::new(), Vec::new());
            let service = if integrity { INTEGRITY } else { NONE };
            let (_, seal) = context.seal(&unsealed(service), &mut out).unwrap();
            let verifier = sum(b's', &seal.sequence_number.to_be_bytes());
            let mut reply = accepted(&verifier, &protected(seal.sequence_number, b"results!"));
            let at = at.min(reply.len());
            reply.splice(at.., bytes);
            let _ = context.open(seal, &reply, &mut plain);
        }
    }
}
