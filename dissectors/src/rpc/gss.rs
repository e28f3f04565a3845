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

mod control;

pub use control::*;

use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};
use crate::xdr::{Cursor, Opaque, Xdr, XdrError};

crate::xdr! { "rpc.authgss";
    /// Versions of RPCSEC_GSS. RFC 7861 section 2.4.
    enum RpcSecGssVersion { RPCSEC_GSS_VERS_1 = 1, RPCSEC_GSS_VERS_2 = 2, RPCSEC_GSS_VERS_3 = 3 }

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

    /// rpc_gss_service_t. RFC 7861 section 2.4.
    enum RpcGssService {
        rpc_gss_svc_none = 1,
        rpc_gss_svc_integrity = 2,
        rpc_gss_svc_privacy = 3,
        rpc_gss_svc_channel_prot = 4,
    }

    /// rpc_gss_cred_t, identical in all versions so far. RFC 2203 section 5, RFC 7861 section 2.4.
    struct GssCredential<'a> {
        rgc_version: RpcSecGssVersion => "rpc.authgss.version",
        gss_proc: GssProc => "rpc.authgss.procedure",
        seq_num: u32 => "rpc.authgss.seqnum",
        service: RpcGssService,
        handle: Opaque<'a> => "rpc.authgss.context",
    }

    /// rpc_gss_priv_data: encrypted arguments or results. RFC 2203 section 5.3.2.3.
    struct RpcGssPrivData<'a> { databody_priv: Opaque<'a> => "rpc.authgss.data" }

    /// The checksum at the end of rpc_gss_integ_data. RFC 2203 section 5.3.2.2.
    struct GssIntegrityChecksum<'a> { checksum: Opaque<'a> }
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
    /// Returns the payload type of a Call with this credential, and of its Reply if accepted with SUCCESS.
    pub fn payload(&self) -> GssPayload {
        match (self.gss_proc, self.service) {
            (GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_integrity) => GssPayload::Integrity,
            (GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_privacy) => GssPayload::Privacy,
            // Context destruction is a Call of NULL, whose empty arguments implementations do not protect. BIND_CHANNEL
            // has its arguments and results in the verifiers (RFC 5403 section 3.3).
            (
                GssProc::RPCSEC_GSS_DATA | GssProc::RPCSEC_GSS_DESTROY | GssProc::RPCSEC_GSS_BIND_CHANNEL,
                _,
            ) => GssPayload::Plain,
            (GssProc::RPCSEC_GSS_INIT | GssProc::RPCSEC_GSS_CONTINUE_INIT, _) => {
                GssPayload::Control(GssControlMessageKind::Init)
            }
            (GssProc::RPCSEC_GSS_CREATE, service) => {
                GssPayload::Control(GssControlMessageKind::Create(service))
            }
            (GssProc::RPCSEC_GSS_LIST, service) => GssPayload::Control(GssControlMessageKind::List(service)),
            _ => GssPayload::Control(GssControlMessageKind::Unknown),
        }
    }
}

crate::field::fields! {
    DATABODY_INTEG = "rpc.authgss.data.length" "databody_integ" Unsigned,
        "Length of the protected arguments or results. RFC 2203 section 5.3.2.2";
    SEQ_NUM = "rpc.authgss.seqnum" "seq_num" Unsigned,
        "The sequence number of the credential, protected with the data. RFC 2203 section 5.3.2.2";
    INTEG_DATA = "rpc.authgss.integ" "rpc_gss_integ_data" Group, "Protected data. RFC 2203 section 5.3.2.2";
    PRIV_DATA = "rpc.authgss.priv" "rpc_gss_priv_data" Group, "Encrypted data. RFC 2203 section 5.3.2.3";
}

/// Adds the RPCSEC_GSS fields outside the credential to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    registry.field(&DATABODY_INTEG);
    registry.field(&SEQ_NUM);
    registry.xdr::<GssIntegrityChecksum<'_>>(&INTEG_DATA, "");
    registry.xdr::<RpcGssPrivData<'_>>(&PRIV_DATA, "");
    control::describe(registry);
}

/// databody_integ of rpc_gss_integ_data, unwrapped. RFC 2203 section 5.3.2.2.
#[derive(Clone, Copy, Debug)]
pub struct IntegrityBody<'a> {
    /// Sequence number before the data.
    pub seq_num: u32,
    /// Cursor over exactly the arguments or results.
    pub body: Cursor<'a>,
}

impl<'a> IntegrityBody<'a> {
    /// Opens the body at the cursor, and moves the cursor to the checksum.
    ///
    /// # Errors
    /// Returns an error if the message is truncated, or the data is too short for a sequence number.
    pub fn open<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        let at = cursor.position();
        let length = cursor.word()?;
        observer.value(&DATABODY_INTEG, at..at + 4, FieldValue::Unsigned(u64::from(length)));
        let mut body = cursor.take_enclosed(length)?;
        let seq_num = u32::decode(&mut body, &SEQ_NUM, observer)?;
        Ok(Self { seq_num, body })
    }
}

macro_rules! read {
    ($($type:ident, $field:ident;)*) => {$(
        impl<'a> $type<'a> {
            /// Decodes the structure at the cursor.
            ///
            /// # Errors
            /// Returns an error if the message is truncated.
            pub fn read<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
                Self::decode(cursor, &$field, observer)
            }
        }
    )*};
}
read! {
    GssIntegrityChecksum, INTEG_DATA;
    RpcGssPrivData, PRIV_DATA;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldDefinition;
    use crate::field::NullFieldObserver;
    use crate::rpc::auth::{Credential, FlavorSpecificAuthBody};
    use crate::xdr::{ChunkedDataItem, Ddp, Encoder};

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

    fn credential(gss_proc: GssProc, service: RpcGssService) -> GssCredential<'static> {
        let handle = Opaque(b"ctx1");
        GssCredential {
            rgc_version: RpcSecGssVersion::RPCSEC_GSS_VERS_1,
            gss_proc,
            seq_num: 9,
            service,
            handle,
        }
    }

    #[test]
    fn rfc2203_section_5_the_credential_names_procedure_sequence_service_and_context() {
        let bytes = b"\0\0\0\x06\0\0\0\x18\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\x02\0\0\0\x04ctx1";
        let decoded =
            <Credential as Xdr>::decode(&mut Cursor::new(bytes), &FIELD, &mut NullFieldObserver).unwrap();
        let expected = credential(GssProc::RPCSEC_GSS_DATA, RpcGssService::rpc_gss_svc_integrity);
        assert_eq!(decoded, Credential::Gss(FlavorSpecificAuthBody::Known(expected)));
        assert_eq!(decoded.payload(), GssPayload::Integrity);
        let mut encoder = Encoder::new();
        decoded.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
    }

    #[test]
    fn rfc2203_section_5_3_2_only_data_is_protected_as_its_service_says() {
        let payload = |gss_proc, service| credential(gss_proc, service).payload();
        use {GssProc as P, RpcGssService as S};
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_none), GssPayload::Plain);
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_privacy), GssPayload::Privacy);
        assert_eq!(payload(P::RPCSEC_GSS_DATA, S::rpc_gss_svc_channel_prot), GssPayload::Plain);
        assert_eq!(
            payload(P::RPCSEC_GSS_INIT, S::rpc_gss_svc_none),
            GssPayload::Control(GssControlMessageKind::Init)
        );
        let next = payload(P::RPCSEC_GSS_CONTINUE_INIT, S::rpc_gss_svc_integrity);
        assert_eq!(next, GssPayload::Control(GssControlMessageKind::Init));
        assert_eq!(payload(P::RPCSEC_GSS_DESTROY, S::rpc_gss_svc_integrity), GssPayload::Plain);
        assert_eq!(payload(P::RPCSEC_GSS_BIND_CHANNEL, S::rpc_gss_svc_none), GssPayload::Plain);
        let integrity = S::rpc_gss_svc_integrity;
        assert_eq!(
            payload(P::RPCSEC_GSS_CREATE, integrity),
            GssPayload::Control(GssControlMessageKind::Create(integrity))
        );
        assert_eq!(
            payload(P::RPCSEC_GSS_LIST, integrity),
            GssPayload::Control(GssControlMessageKind::List(integrity))
        );
        assert_eq!(payload(GssProc(7), integrity), GssPayload::Control(GssControlMessageKind::Unknown));
    }

    #[test]
    fn rfc2203_section_5_3_2_2_the_body_ends_before_the_checksum() {
        let bytes = b"\0\0\0\x0c\0\0\0\x09\0\0\0\x01\0\0\0\x02\0\0\0\x04mic!";
        let mut cursor = Cursor::new(bytes).with_base(1000);
        let mut protected = IntegrityBody::open(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((protected.seq_num, protected.body.position()), (9, 1008));
        assert_eq!((protected.body.word(), protected.body.word()), (Ok(1), Ok(2)));
        assert_eq!(protected.body.remaining(), 0);
        let checksum = GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((checksum.checksum, cursor.remaining()), (Opaque(&b"mic!"[..]), 0));
    }

    /// RFC 8166 section 8.2.2.3 forbids it; messages of a peer that violates this are still decoded.
    #[test]
    fn an_item_reduced_out_of_protected_data_is_found_at_its_position() {
        let mut encoder = Encoder::new();
        encoder.append_nested(|encoder| {
            encoder.word(9);
            Ddp::Chunk { length: 5, bytes: None }.encode(encoder);
        });
        GssIntegrityChecksum { checksum: Opaque(b"mic!") }.encode(&mut encoder);
        assert_eq!(encoder.bytes(), b"\0\0\0\x10\0\0\0\x09\0\0\0\x05\0\0\0\x04mic!");
        let chunks = [ChunkedDataItem { position: Some(12), length: 5, bytes: None }];
        let mut cursor = Cursor::new(encoder.bytes()).with_chunks(&chunks);
        let mut protected = IntegrityBody::open(&mut cursor, &mut NullFieldObserver).unwrap();
        let data = Ddp::decode(&mut protected.body, &FIELD, &mut NullFieldObserver).unwrap();
        assert_eq!(data, Ddp::Chunk { length: 5, bytes: None });
        assert_eq!(
            GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).unwrap().checksum.0,
            b"mic!"
        );
    }

    #[test]
    fn protected_data_without_room_for_its_sequence_number_is_refused() {
        let result =
            IntegrityBody::open(&mut Cursor::new(b"\0\0\0\x02ab\0\0\0\0\0\0"), &mut NullFieldObserver);
        assert_eq!(result.unwrap_err(), XdrError::Short { at: 4, needed: 4 });
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes: Vec<u8>, length: u16, inner in 0u32..64, position: u8, chunk: u32,
        ) {
            let bytes = [&inner.to_be_bytes()[..], &bytes].concat();
            let chunks = [ChunkedDataItem { position: Some(position.into()), length: chunk, bytes: None }];
            let mut cursor = Cursor::new(&bytes).with_length(length.into()).with_chunks(&chunks);
            if let Ok(mut protected) = IntegrityBody::open(&mut cursor, &mut NullFieldObserver) {
                let _ = Ddp::decode(&mut protected.body, &FIELD, &mut NullFieldObserver);
                let _ = GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver);
            }
        }
    }
}
