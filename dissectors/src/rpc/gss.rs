//! RPCSEC_GSS: credential, control messages, and protection of arguments and results. RFC 2203; version 2: RFC 5403;
//! version 3: RFC 7861.
//!
//! With the integrity service, the arguments are inside an opaque item. [`IntegrityBody::open`] returns a cursor over
//! them, and moves the message's cursor to the following [`GssIntegrityChecksum`]:
//!
//! ```
//! use nfsrdma_dissectors::field::NullFieldObserver;
//! use nfsrdma_dissectors::rpc::gss::{GssIntegrityChecksum, IntegrityBody};
//! use nfsrdma_dissectors::xdr::Cursor;
//! let mut cursor = Cursor::new(b"\0\0\0\x08\0\0\0\x2aargs\0\0\0\x03mic\0");
//! let mut protected = IntegrityBody::open(&mut cursor, &mut NullFieldObserver).unwrap();
//! assert_eq!((protected.seq_num, protected.body.take(4)), (42, Ok(&b"args"[..])));
//! assert_eq!(GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).unwrap().checksum.0, b"mic");
//! ```

pub(super) mod control;
pub(crate) mod protection;

pub use control::*;
pub use protection::{GssIntegrityChecksum, IntegrityBody, RpcGssPrivData, RpcGssService};

use crate::field::registry::FieldRegistry;
use crate::xdr::Opaque;

crate::xdr! { "rpc.authgss";
    /// Versions of RPCSEC_GSS. RFC 7861 section 2.4.
    open_enum RpcSecGssVersion { RPCSEC_GSS_VERS_1 = 1, RPCSEC_GSS_VERS_2 = 2, RPCSEC_GSS_VERS_3 = 3 }

    /// rpc_gss_proc_t. RFC 7861 section 2.4.
    enum GssProc {
        RPCSEC_GSS_DATA = 0,
        RPCSEC_GSS_INIT = 1,
        RPCSEC_GSS_CONTINUE_INIT = 2,
        RPCSEC_GSS_DESTROY = 3,
        RPCSEC_GSS_BIND_CHANNEL = 4,
        RPCSEC_GSS_CREATE = 5,
        RPCSEC_GSS_LIST = 6,
    }

    /// rpc_gss_cred_t, identical in all versions so far. RFC 2203 section 5, RFC 7861 section 2.4.
    struct GssCredential<'a> {
        rgc_version: RpcSecGssVersion => "rpc.authgss.version",
        gss_proc: GssProc => "rpc.authgss.procedure",
        seq_num: u32 => "rpc.authgss.seqnum",
        service: RpcGssService,
        handle: Opaque<'a> => "rpc.authgss.context",
    }
}

/// Content of a message in place of the procedure's arguments or results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssPayload {
    /// Unprotected arguments or results.
    Plain,
    /// Arguments or results inside rpc_gss_integ_data: [`IntegrityBody`], then [`GssIntegrityChecksum`].
    Integrity,
    /// Encrypted arguments or results: [`RpcGssPrivData`].
    Privacy,
    /// A control message: arguments or results of RPCSEC_GSS itself.
    Control(GssControlMessageKind),
}

impl GssCredential<'_> {
    /// Returns the payload type of a call with this credential, and of its reply if accepted with SUCCESS.
    pub fn payload(&self) -> GssPayload {
        match (self.gss_proc, self.service) {
            (GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_integrity) => GssPayload::Integrity,
            (GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_privacy) => GssPayload::Privacy,
            // Context destruction is a call of NULL, whose empty arguments implementations do not protect. BIND_CHANNEL
            // has its arguments and results in the verifiers (RFC 5403 section 3.3).
            (GssProc::RPCSEC_GSS_DATA | GssProc::RPCSEC_GSS_DESTROY | GssProc::RPCSEC_GSS_BIND_CHANNEL, _) => {
                GssPayload::Plain
            }
            (GssProc::RPCSEC_GSS_INIT | GssProc::RPCSEC_GSS_CONTINUE_INIT, _) => {
                GssPayload::Control(GssControlMessageKind::Init)
            }
            (GssProc::RPCSEC_GSS_CREATE, service) => GssPayload::Control(GssControlMessageKind::Create(service)),
            (GssProc::RPCSEC_GSS_LIST, service) => GssPayload::Control(GssControlMessageKind::List(service)),
            _ => GssPayload::Control(GssControlMessageKind::Unknown),
        }
    }
}

/// Adds the RPCSEC_GSS fields outside the credential to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    protection::describe(registry);
    control::describe(registry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldDefinition, NullFieldObserver};
    use crate::rpc::auth::{Credential, FlavorSpecificAuthBody};
    use crate::xdr::{Cursor, Encoder, Xdr};

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

    fn credential(gss_proc: GssProc, service: RpcGssService) -> GssCredential<'static> {
        let handle = Opaque(b"ctx1");
        GssCredential { rgc_version: RpcSecGssVersion::RPCSEC_GSS_VERS_1, gss_proc, seq_num: 9, service, handle }
    }

    #[test]
    fn rfc2203_section_5_the_credential_names_procedure_sequence_service_and_context() {
        let bytes = b"\0\0\0\x06\0\0\0\x18\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\x02\0\0\0\x04ctx1";
        let decoded = <Credential as Xdr>::decode(&mut Cursor::new(bytes), &FIELD, &mut NullFieldObserver).unwrap();
        let expected = credential(GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_integrity);
        assert_eq!(decoded, Credential::Gss(FlavorSpecificAuthBody::Known(expected)));
        assert_eq!(decoded.payload(), GssPayload::Integrity);
        let mut encoder = Encoder::new();
        decoded.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
    }

    #[test]
    fn rfc2203_section_5_3_2_the_service_protects_only_data_messages() {
        let payload = |gss_proc, service| credential(gss_proc, service).payload();
        use {GssProc as P, RpcGssService as S};
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_none), GssPayload::Plain);
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_privacy), GssPayload::Privacy);
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_channel_prot), GssPayload::Plain);
        assert_eq!(payload(P::RPCSEC_GSS_INIT, S::rpc_gss_svc_none), GssPayload::Control(GssControlMessageKind::Init));
        let next = payload(P::RPCSEC_GSS_CONTINUE_INIT, S::rpc_gss_svc_integrity);
        assert_eq!(next, GssPayload::Control(GssControlMessageKind::Init));
        assert_eq!(payload(P::RPCSEC_GSS_DESTROY, S::rpc_gss_svc_integrity), GssPayload::Plain);
        assert_eq!(payload(P::RPCSEC_GSS_BIND_CHANNEL, S::rpc_gss_svc_none), GssPayload::Plain);
        let integrity = S::rpc_gss_svc_integrity;
        assert_eq!(
            payload(P::RPCSEC_GSS_CREATE, integrity),
            GssPayload::Control(GssControlMessageKind::Create(integrity))
        );
        assert_eq!(payload(P::RPCSEC_GSS_LIST, integrity), GssPayload::Control(GssControlMessageKind::List(integrity)));
        assert_eq!(payload(GssProc(7), integrity), GssPayload::Control(GssControlMessageKind::Unknown));
    }
}
