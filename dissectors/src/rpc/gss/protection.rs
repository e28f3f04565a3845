//! Protection of arguments and results by RPCSEC_GSS. RFC 2203 section 5.3.2.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};
use crate::xdr::{Cursor, Opaque, Xdr, XdrError};

crate::xdr! { "rpc.authgss";
    /// rpc_gss_service_t. RFC 7861 section 2.4.
    enum RpcGssService {
        rpc_gss_svc_none = 1,
        rpc_gss_svc_integrity = 2,
        rpc_gss_svc_privacy = 3,
        rpc_gss_svc_channel_prot = 4,
    }

    /// rpc_gss_priv_data: encrypted arguments or results. RFC 2203 section 5.3.2.3.
    struct RpcGssPrivData<'a> { databody_priv: Opaque<'a> => "rpc.authgss.data" }

    /// The checksum at the end of rpc_gss_integ_data. RFC 2203 section 5.3.2.2.
    struct GssIntegrityChecksum<'a> { checksum: Opaque<'a> }
}

crate::field::fields! {
    DATABODY_INTEG = "rpc.authgss.data.length" "databody_integ" Unsigned,
        "Length of the protected arguments or results. RFC 2203 section 5.3.2.2";
    SEQ_NUM = "rpc.authgss.seqnum" "seq_num" Unsigned,
        "The sequence number of the credential, protected with the data. RFC 2203 section 5.3.2.2";
    INTEG_DATA = "rpc.authgss.integ" "rpc_gss_integ_data" Group, "Protected data. RFC 2203 section 5.3.2.2";
    PRIV_DATA = "rpc.authgss.priv" "rpc_gss_priv_data" Group, "Encrypted data. RFC 2203 section 5.3.2.3";
}

/// Adds the fields of protected data to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    registry.field(&DATABODY_INTEG);
    registry.field(&SEQ_NUM);
    GssIntegrityChecksum::describe_field(registry, &INTEG_DATA, "");
    RpcGssPrivData::describe_field(registry, &PRIV_DATA, "");
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
    use crate::field::{FieldDefinition, NullFieldObserver};
    use crate::xdr::{ChunkedDataItem, Ddp, Encoder};

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

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
        assert_eq!(GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).unwrap().checksum.0, b"mic!");
    }

    #[test]
    fn protected_data_shorter_than_its_sequence_number_is_refused() {
        let result = IntegrityBody::open(&mut Cursor::new(b"\0\0\0\x02ab\0\0\0\0\0\0"), &mut NullFieldObserver);
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
