//! Who calls: credentials and verifiers. RFC 5531 sections 8.2 and 10 and appendix A.

use crate::field::registry::Registry;
use crate::field::{Field, Kind, Observer, Unobserved, Value};
use crate::xdr::{Cursor, Encoder, Error, List, Opaque, Text, Xdr};

use super::gss::{GssCredential, Payload};

/// The most bytes that the body of a credential or a verifier may have. RFC 5531 section 8.2.
pub const MAX_BODY: u32 = 400;

crate::xdr! { "rpc.auth";
    /// auth_flavor. RFC 5531 section 8.2; AUTH_TLS: RFC 9289 section 4.1.
    enum Flavor {
        AUTH_NONE = 0,
        AUTH_SYS = 1,
        AUTH_SHORT = 2,
        AUTH_DH = 3,
        RPCSEC_GSS = 6,
        AUTH_TLS = 7,
    }

    /// authsys_parms. RFC 5531 appendix A.
    struct AuthSys<'a> {
        stamp: u32,
        machinename: Text<'a, 255>,
        uid: u32,
        gid: u32,
        gids: List<'a, u32, 16> => "rpc.auth.gid",
    }

    /// The credential of a Call. RFC 5531 section 8.2.
    union Credential<'a> switch (flavor: Flavor) {
        AUTH_SYS => Sys(Body<'a, AuthSys<'a>>),
        RPCSEC_GSS => Gss(Body<'a, GssCredential<'a>>),
        default => Other(AuthBody<'a>),
    }

    /// The verifier of a Call or a Reply. RFC 5531 section 8.2.
    union Verifier<'a> switch (flavor: Flavor) {
        RPCSEC_GSS => Gss(GssVerifier<'a>),
        default => Other(AuthBody<'a>),
    }

    /// The body of a flavor that this program does not look into. RFC 5531 section 8.2.
    struct AuthBody<'a> { body: Opaque<'a, 400> }

    /// The verifier of RPCSEC_GSS: mostly a checksum over the header or the sequence number. RFC 2203 section 5.3.
    struct GssVerifier<'a> { checksum: Opaque<'a, 400> => "rpc.authgss.checksum" }
}

impl<'a> Credential<'a> {
    /// What the Call with this credential carries, and its Reply if that is accepted with SUCCESS.
    pub fn payload(&self) -> Payload {
        self.gss().map_or(Payload::Plain, GssCredential::payload)
    }

    /// The RPCSEC_GSS credential, if it is one.
    pub fn gss(&self) -> Option<&GssCredential<'a>> {
        match self {
            Self::Gss(Body::Known(credential)) => Some(credential),
            _ => None,
        }
    }

    /// The AUTH_SYS credential, if it is one.
    pub fn sys(&self) -> Option<&AuthSys<'a>> {
        match self {
            Self::Sys(Body::Known(credential)) => Some(credential),
            _ => None,
        }
    }
}

/// An opaque body in which its flavor puts a structure.
#[derive(Clone, Debug, PartialEq)]
pub enum Body<'a, T> {
    /// The structure, which fills the body.
    Known(T),
    /// The body holds something else.
    Unread(Opaque<'a, MAX_BODY>),
}

impl<'a, T: Xdr<'a>> Xdr<'a> for Body<'a, T> {
    const KIND: Kind = T::KIND;

    fn describe(registry: &mut Registry) {
        T::describe(registry);
    }

    #[inline]
    fn decode<O: Observer<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static Field,
        observer: &mut O,
    ) -> Result<Self, Error> {
        let (at, position) = (cursor.at(), cursor.position());
        let length = cursor.word()?;
        if length > MAX_BODY {
            return Err(Error::TooLong { at, length, bound: MAX_BODY });
        }
        let content = cursor.enclosed(length)?;
        // Tried unseen, so that an observer never hears of fields that turn out to be something else.
        let mut trial = content;
        match T::decode(&mut trial, field, &mut Unobserved) {
            Ok(known) if trial.remaining() == 0 => {
                if O::WATCHES {
                    T::decode(&mut { content }, field, observer)?;
                }
                return Ok(Self::Known(known));
            }
            Err(error) if error.is_cut() => {
                T::decode(&mut { content }, field, observer)?;
                return Err(error);
            }
            _ => {}
        }
        let bytes = { content }.take(content.remaining())?;
        observer.value(field, position..position + 4 + bytes.len(), Value::Bytes(bytes));
        Ok(Self::Unread(Opaque(bytes)))
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Known(known) => encoder.nested(|encoder| known.encode(encoder)),
            Self::Unread(body) => body.encode(encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIELD: Field = Field::group("rpc.auth", "cred", "");

    fn decode(bytes: &[u8]) -> Result<Credential<'_>, Error> {
        let mut cursor = Cursor::new(bytes);
        let credential = <Credential as Xdr>::decode(&mut cursor, &FIELD, &mut Unobserved)?;
        assert_eq!(cursor.remaining(), 0);
        let mut encoder = Encoder::new();
        credential.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        Ok(credential)
    }

    #[test]
    fn rfc5531_appendix_a_auth_sys_names_machine_user_and_groups() {
        let credential = decode(
            b"\0\0\0\x01\0\0\0\x20\0\0\0\x2a\0\0\0\x05krypt\0\0\0\0\0\x03\xe8\0\0\0\x64\0\0\0\x01\0\0\0\x07",
        );
        let gids = [7];
        let sys =
            AuthSys { stamp: 42, machinename: Text(b"krypt"), uid: 1000, gid: 100, gids: gids[..].into() };
        assert_eq!(credential, Ok(Credential::Sys(Body::Known(sys))));
    }

    #[test]
    fn rfc5531_section_8_2_a_body_of_another_shape_than_its_flavor_has_stays_opaque() {
        let credential = decode(b"\0\0\0\x01\0\0\0\x04\0\0\0\x2a");
        assert_eq!(credential, Ok(Credential::Sys(Body::Unread(Opaque(b"\0\0\0\x2a")))));
        let credential = decode(b"\0\0\0\x03\0\0\0\x05hello\0\0\0").unwrap();
        assert_eq!(credential.tag(), Flavor::AUTH_DH);
    }

    #[test]
    fn rfc5531_section_8_2_a_body_has_at_most_400_bytes() {
        let mut bytes = [0; 500];
        bytes[..8].copy_from_slice(b"\0\0\0\x01\0\0\x01\x94");
        let expected = Err(Error::TooLong { at: 4, length: 404, bound: 400 });
        assert_eq!(decode(&bytes), expected);
        bytes[3] = 0;
        assert_eq!(decode(&bytes), expected);
    }
}
