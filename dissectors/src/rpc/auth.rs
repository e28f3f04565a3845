//! Credentials and verifiers. RFC 5531 sections 8.2 and 10 and appendix A.

use super::gss::control::GssVerifierBody;
use super::gss::{GssCredential, GssPayload};
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, NullFieldObserver};
use crate::xdr::{Cursor, Encoder, Opaque, StructuredOpaque, Text, Xdr, XdrArray, XdrError};

/// Maximum length of the body of a credential or verifier in bytes. RFC 5531 section 8.2.
pub const MAX_BODY_BYTES: u32 = 400;

crate::xdr! { "rpc.auth";
    /// auth_flavor. RFC 5531 sections 8.2 and 14.4.1; AUTH_TLS: RFC 9289 section 4.1. A pseudo flavor combines a
    /// mechanism, a quality of protection and a service of RPCSEC_GSS: RFC 2623 section 2.3.1, RFC 2847 sections 2.5
    /// and 3.5.
    open_enum Flavor {
        AUTH_NONE = 0,
        AUTH_SYS = 1,
        AUTH_SHORT = 2,
        AUTH_DH = 3,
        AUTH_KERB = 4,
        AUTH_RSA = 5,
        RPCSEC_GSS = 6,
        AUTH_TLS = 7,
        RPCSEC_GSS_KRB5 = 390003,
        RPCSEC_GSS_KRB5I = 390004,
        RPCSEC_GSS_KRB5P = 390005,
        RPCSEC_GSS_LIPKEY = 390006,
        RPCSEC_GSS_LIPKEY_I = 390007,
        RPCSEC_GSS_LIPKEY_P = 390008,
        RPCSEC_GSS_SPKM3 = 390009,
        RPCSEC_GSS_SPKM3I = 390010,
        RPCSEC_GSS_SPKM3P = 390011,
    }

    /// authsys_parms. RFC 5531 appendix A.
    struct AuthSys<'a> {
        stamp: u32,
        machinename: Text<'a, 255>,
        uid: u32,
        gid: u32,
        gids: XdrArray<'a, u32, 16> => "rpc.auth.gid",
    }

    /// The credential of a call. RFC 5531 section 8.2.
    union Credential<'a> switch (flavor: Flavor) {
        AUTH_SYS => Sys(FlavorSpecificAuthBody<'a, AuthSys<'a>>),
        RPCSEC_GSS => Gss(FlavorSpecificAuthBody<'a, GssCredential<'a>>),
        default => Other(UndecodedAuthBody<'a>),
    }

    /// The verifier of a call or a reply. RFC 5531 section 8.2.
    union Verifier<'a> switch (flavor: Flavor) {
        AUTH_NONE => None(AuthNoneVerifier<'a>),
        RPCSEC_GSS => Gss(GssVerifier<'a>),
        default => Other(UndecodedAuthBody<'a>),
    }

    /// The body of a flavor that is not decoded. RFC 5531 section 8.2.
    struct UndecodedAuthBody<'a> { body: Opaque<'a, 400> }

    /// The verifier of RPCSEC_GSS: usually a checksum over the header or the sequence number. RFC 2203 section 5.3.
    struct GssVerifier<'a> { checksum: GssVerifierBody<'a> => "rpc.authgss.token" }

    /// The verifier of AUTH_NONE: empty, or the reply to AUTH_TLS of a server that supports TLS. RFC 9289 section 4.1.
    struct AuthNoneVerifier<'a> { body: AuthNoneVerifierBody<'a> }
}

impl<'a> Credential<'a> {
    /// Returns the payload type of a Call with this credential, and of its Reply if accepted with SUCCESS.
    pub fn payload(&self) -> GssPayload {
        self.gss().map_or(GssPayload::Plain, GssCredential::payload)
    }

    /// Returns the RPCSEC_GSS credential, if it is one.
    pub fn gss(&self) -> Option<&GssCredential<'a>> {
        match self {
            Self::Gss(FlavorSpecificAuthBody::Known(credential)) => Some(credential),
            _ => None,
        }
    }

    /// Returns the AUTH_SYS credential, if it is one.
    pub fn sys(&self) -> Option<&AuthSys<'a>> {
        match self {
            Self::Sys(FlavorSpecificAuthBody::Known(credential)) => Some(credential),
            _ => None,
        }
    }
}

/// The body of a verifier of flavor AUTH_NONE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthNoneVerifierBody<'a>(pub Opaque<'a, MAX_BODY_BYTES>);

impl AuthNoneVerifierBody<'_> {
    /// Token of a server that supports TLS on this connection. RFC 9289 section 4.1.
    pub const TOKEN: &'static [u8] = b"STARTTLS";

    /// Returns `true` if the server offers TLS.
    pub fn is_offered(&self) -> bool {
        self.0.0 == Self::TOKEN
    }
}

impl<'a> Xdr<'a> for AuthNoneVerifierBody<'a> {
    const KIND: FieldKind = FieldKind::Bytes;

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let this = Self(Opaque::decode(cursor, field, &mut NullFieldObserver)?);
        let body = this.0.0;
        let value = if this.is_offered() { FieldValue::Text(body) } else { FieldValue::Bytes(body) };
        observer.value(field, at..at + 4 + body.len(), value);
        Ok(this)
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.0.encode(encoder);
    }
}

/// An opaque body that contains a structure of its flavor.
pub type FlavorSpecificAuthBody<'a, T> = StructuredOpaque<'a, T, MAX_BODY_BYTES>;

#[cfg(test)]
mod tests {
    use super::*;
    static FIELD: FieldDefinition = FieldDefinition::group("rpc.auth", "cred", "");

    fn decode(bytes: &[u8]) -> Result<Credential<'_>, XdrError> {
        let mut cursor = Cursor::new(bytes);
        let credential = <Credential as Xdr>::decode(&mut cursor, &FIELD, &mut NullFieldObserver)?;
        assert_eq!(cursor.remaining(), 0);
        let mut encoder = Encoder::new();
        credential.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        Ok(credential)
    }

    #[test]
    fn rfc5531_appendix_a_auth_sys_names_machine_user_and_groups() {
        let credential =
            decode(b"\0\0\0\x01\0\0\0\x20\0\0\0\x2a\0\0\0\x05krypt\0\0\0\0\0\x03\xe8\0\0\0\x64\0\0\0\x01\0\0\0\x07");
        let gids = [7];
        let sys = AuthSys { stamp: 42, machinename: Text(b"krypt"), uid: 1000, gid: 100, gids: gids[..].into() };
        assert_eq!(credential, Ok(Credential::Sys(FlavorSpecificAuthBody::Known(sys))));
    }

    #[test]
    fn rfc5531_section_8_2_a_body_of_another_shape_than_its_flavor_has_stays_opaque() {
        let credential = decode(b"\0\0\0\x01\0\0\0\x04\0\0\0\x2a");
        assert_eq!(credential, Ok(Credential::Sys(FlavorSpecificAuthBody::Unread(Opaque(b"\0\0\0\x2a")))));
        let credential = decode(b"\0\0\0\x03\0\0\0\x05hello\0\0\0").unwrap();
        assert_eq!(credential.tag(), Flavor::AUTH_DH);
    }

    #[test]
    fn rfc5531_section_8_2_a_body_has_at_most_400_bytes() {
        let mut bytes = [0; 500];
        bytes[..8].copy_from_slice(b"\0\0\0\x01\0\0\x01\x94");
        let expected = Err(XdrError::TooLong { at: 4, length: 404, bound: 400 });
        assert_eq!(decode(&bytes), expected);
        bytes[3] = 0;
        assert_eq!(decode(&bytes), expected);
    }

    #[test]
    fn rfc9289_section_4_1_a_verifier_may_offer_tls() {
        let probe = decode(b"\0\0\0\x07\0\0\0\0").unwrap();
        assert_eq!((probe.tag(), probe.tag().name()), (Flavor::AUTH_TLS, Some("AUTH_TLS")));
        for (bytes, offered) in [(&b"\0\0\0\0\0\0\0\x08STARTTLS"[..], true), (b"\0\0\0\0\0\0\0\0", false)] {
            let verifier = <Verifier as Xdr>::decode(&mut Cursor::new(bytes), &FIELD, &mut NullFieldObserver).unwrap();
            let Verifier::None(none) = &verifier else { panic!("{verifier:?}") };
            assert_eq!(none.body.is_offered(), offered);
            let mut encoder = Encoder::new();
            verifier.encode(&mut encoder);
            assert_eq!(encoder.bytes(), bytes);
        }
    }

    #[test]
    fn rfc2623_section_2_3_1_pseudo_flavors_have_names() {
        assert_eq!(Flavor(390_005).name(), Some("RPCSEC_GSS_KRB5P"));
        assert_eq!(Flavor(390_012).name(), None);
    }
}
