//! Control messages of RPCSEC_GSS: context creation (RFC 2203 section 5.2), channel binding (RFC 5403 section 3.3),
//! assertions and their list (RFC 7861 section 2.7). They are in a Call of NULL and its Reply.

use super::protection::{GssIntegrityChecksum, IntegrityBody, RpcGssPrivData, RpcGssService};
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, NullFieldObserver};
use crate::rpc::message_kind::RpcMessageKind::{self, *};
use crate::xdr::{Cursor, Encoder, Opaque, Text, Xdr, XdrArray, XdrError};

crate::xdr! { "rpc.authgss";
    /// rpc_gss_init_arg. RFC 2203 section 5.2.2.
    struct RpcGssInitArg<'a> { gss_token: Opaque<'a> => "rpc.authgss.token" }

    /// rpc_gss_init_res. RFC 2203 section 5.2.3.1.
    struct RpcGssInitRes<'a> {
        handle: Opaque<'a> => "rpc.authgss.context",
        gss_major: u32 => "rpc.authgss.major",
        gss_minor: u32 => "rpc.authgss.minor",
        seq_window: u32 => "rpc.authgss.window",
        gss_token: Opaque<'a> => "rpc.authgss.token",
    }

    /// rgss2_bind_chan_verf_args: the verifier of a call that binds a context to a channel. RFC 5403 section 3.3.
    struct Rgss2BindChanVerfArgs<'a> {
        rbcva_chan_bind_prefix: Text<'a>,
        rbcva_chan_bind_oid_hash: Opaque<'a>,
        rbcva_chan_mic: Opaque<'a>,
    }

    /// rgss2_bind_chan_status. RFC 5403 section 3.3.
    enum Rgss2BindChanStatus {
        RGSS2_BIND_CHAN_OK = 0, RGSS2_BIND_CHAN_PREF_NOTSUPP = 1, RGSS2_BIND_CHAN_HASH_NOTSUPP = 2,
    }

    /// rgss2_bind_chan_res. RFC 5403 section 3.3.
    union Rgss2BindChanRes<'a> switch (rbcr_stat: Rgss2BindChanStatus) {
        RGSS2_BIND_CHAN_OK => Ok,
        RGSS2_BIND_CHAN_PREF_NOTSUPP => PrefNotsupp(XdrArray<'a, Text<'a>>) as rbcr_pref_list,
        RGSS2_BIND_CHAN_HASH_NOTSUPP => HashNotsupp(XdrArray<'a, Opaque<'a>>) as rbcr_oid_list,
    }

    /// rgss2_bind_chan_verf_res: the verifier of its reply. RFC 5403 section 3.3.
    struct Rgss2BindChanVerfRes<'a> { rbcvr_res: Rgss2BindChanRes<'a>, rbcvr_mic: Opaque<'a> }

    /// rgss3_gss_mp_auth: a second principal. RFC 7861 section 2.7.1.1.
    struct GssMpAuth<'a> { rgmp_handle: Opaque<'a>, rgmp_rpcheader_mic: Opaque<'a> }

    /// rgss3_lfs: label format and policy identifiers. RFC 7861 section 2.7.1.3.
    struct Rgss3Lfs { rlf_lfs_id: u32, rlf_pi_id: u32 }

    /// rgss3_label; its data is opaque to RPC, but text in every format in use. RFC 7861 section 2.7.1.3.
    struct Rgss3Label<'a> { rl_lfs: Rgss3Lfs, rl_label: Text<'a> }

    /// rgss3_privs: an application-defined privilege. RFC 7861 section 2.7.1.4.
    struct Rgss3Privs<'a> { rp_name: Text<'a>, rp_privilege: Opaque<'a> }

    /// rgss3_assertion_type and rgss3_list_item. RFC 7861 sections 2.7.1 and 2.7.2.
    enum Rgss3AssertionType { LABEL = 0, PRIVS = 1 }

    /// rgss3_assertion_u. RFC 7861 section 2.7.1.
    union Rgss3Assertion<'a> switch (atype: Rgss3AssertionType) {
        LABEL => Label(Rgss3Label<'a>) as rau_label,
        PRIVS => Rgss3Privs(Rgss3Privs<'a>) as rau_privs,
        default => Ext(Opaque<'a>) as rau_ext,
    }

    /// rgss3_create_args. RFC 7861 section 2.7.1.
    struct Rgss3CreateArgs<'a> {
        rca_mp_auth: Option<GssMpAuth<'a>>,
        rca_chan_bind_mic: Option<Opaque<'a>>,
        rca_assertions: XdrArray<'a, Rgss3Assertion<'a>>,
    }

    /// rgss3_create_res. RFC 7861 section 2.7.1.
    struct Rgss3CreateRes<'a> {
        rcr_handle: Opaque<'a>,
        rcr_mp_auth: Option<GssMpAuth<'a>>,
        rcr_chan_bind_mic: Option<Opaque<'a>>,
        rcr_assertions: XdrArray<'a, Rgss3Assertion<'a>>,
    }

    /// rgss3_list_args. RFC 7861 section 2.7.2.
    struct Rgss3ListArgs<'a> { rla_list_what: XdrArray<'a, Rgss3AssertionType> }

    /// rgss3_list_item_u. RFC 7861 section 2.7.2.
    union Rgss3ListItem<'a> switch (itype: Rgss3AssertionType) {
        LABEL => Labels(XdrArray<'a, Rgss3Label<'a>>) as rli_labels,
        PRIVS => Rgss3Privs(XdrArray<'a, Rgss3Privs<'a>>) as rli_privs,
        default => Ext(Opaque<'a>) as rli_ext,
    }

    /// rgss3_list_res: a list of rgss3_list_item_u. RFC 7861 section 2.7.2.
    struct Rgss3ListRes<'a> { items: XdrArray<'a, Rgss3ListItem<'a>> => "rpc.authgss.list_item" }
}

/// Control message type of a NULL Call and its Reply. DESTROY and BIND_CHANNEL are not included; their body is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssControlMessageKind {
    /// RPCSEC_GSS_INIT and RPCSEC_GSS_CONTINUE_INIT: [`RpcGssInitArg`] and [`RpcGssInitRes`].
    Init,
    /// RPCSEC_GSS_CREATE: [`Rgss3CreateArgs`] and [`Rgss3CreateRes`], under this service.
    Create(RpcGssService),
    /// RPCSEC_GSS_LIST: [`Rgss3ListArgs`] and [`Rgss3ListRes`], under this service.
    List(RpcGssService),
    /// An undefined procedure.
    Unknown,
}

crate::field::fields! {
    INIT = "rpc.authgss.init" "rpc_gss_init" Group, "Creation of a context. RFC 2203 section 5.2";
    CREATE = "rpc.authgss.create" "rgss3_create" Group, "Assertions of a context. RFC 7861 section 2.7.1";
    LIST = "rpc.authgss.list" "rgss3_list" Group, "Assertions that there are. RFC 7861 section 2.7.2";
    BIND_CHANNEL = "rpc.authgss.bind_channel" "rgss2_bind_chan" Group,
        "Binding of a context to a channel. RFC 5403 section 3.3";
}

/// Adds the fields of the control messages to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    RpcGssInitArg::describe_field(registry, &INIT, "");
    RpcGssInitRes::describe_field(registry, &INIT, "");
    Rgss3CreateArgs::describe_field(registry, &CREATE, "");
    Rgss3CreateRes::describe_field(registry, &CREATE, "");
    Rgss3ListArgs::describe_field(registry, &LIST, "");
    Rgss3ListRes::describe_field(registry, &LIST, "");
    Rgss2BindChanVerfArgs::describe_field(registry, &BIND_CHANNEL, "");
    Rgss2BindChanVerfRes::describe_field(registry, &BIND_CHANNEL, "");
}

impl GssControlMessageKind {
    /// Decodes the arguments (of a Call) or the results (of a Reply), and reports them to the observer.
    ///
    /// # Errors
    /// Returns an error if decoding fails; fields reported before remain valid.
    pub fn decode<'a, O: FieldObserver<'a>>(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        self.convert(kind, cursor, observer, None)
    }

    /// Decodes the arguments (of a Call) or the results (of a Reply), and appends their encoding.
    ///
    /// # Errors
    /// Returns an error if decoding fails; the appended bytes are then invalid.
    pub fn reencode(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'_>,
        encoder: &mut Encoder,
    ) -> Result<(), XdrError> {
        self.convert(kind, cursor, &mut NullFieldObserver, Some(encoder))
    }

    fn convert<'a, O: FieldObserver<'a>>(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
        encoder: Option<&mut Encoder>,
    ) -> Result<(), XdrError> {
        const NONE: RpcGssService = RpcGssService::rpc_gss_svc_none;
        match (self, kind) {
            (Self::Init, Call) => convert::<RpcGssInitArg<'_>, _>(NONE, &INIT, cursor, observer, encoder),
            (Self::Init, Reply) => convert::<RpcGssInitRes<'_>, _>(NONE, &INIT, cursor, observer, encoder),
            (Self::Create(service), Call) => {
                convert::<Rgss3CreateArgs<'_>, _>(service, &CREATE, cursor, observer, encoder)
            }
            (Self::Create(service), Reply) => {
                convert::<Rgss3CreateRes<'_>, _>(service, &CREATE, cursor, observer, encoder)
            }
            (Self::List(service), Call) => convert::<Rgss3ListArgs<'_>, _>(service, &LIST, cursor, observer, encoder),
            (Self::List(service), Reply) => convert::<Rgss3ListRes<'_>, _>(service, &LIST, cursor, observer, encoder),
            (Self::Unknown, _) => Ok(()),
        }
    }
}

/// Decodes a structure protected by `service`, and appends its encoding if there is an encoder.
fn convert<'a, T: Xdr<'a>, O: FieldObserver<'a>>(
    service: RpcGssService,
    field: &'static FieldDefinition,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
    encoder: Option<&mut Encoder>,
) -> Result<(), XdrError> {
    match service {
        RpcGssService::rpc_gss_svc_integrity => {
            let mut protected = IntegrityBody::open(cursor, observer)?;
            let content = T::decode(&mut protected.body, field, observer)?;
            let checksum = GssIntegrityChecksum::read(cursor, observer)?;
            if let Some(encoder) = encoder {
                encoder.append_nested(|encoder| {
                    encoder.word(protected.seq_num);
                    content.encode(encoder);
                });
                checksum.encode(encoder);
            }
        }
        RpcGssService::rpc_gss_svc_privacy => {
            let encrypted = RpcGssPrivData::read(cursor, observer)?;
            encoder.into_iter().for_each(|encoder| encrypted.encode(encoder));
        }
        _ => {
            let content = T::decode(cursor, field, observer)?;
            encoder.into_iter().for_each(|encoder| content.encode(encoder));
        }
    }
    Ok(())
}

/// Content of a verifier of flavor RPCSEC_GSS.
///
/// A verifier does not say if it belongs to BIND_CHANNEL, and the Call of a Reply may be far away. The structures of
/// BIND_CHANNEL are distinguished from a checksum by their form: their lengths add up exactly, and they begin with
/// zeros, unlike tokens (RFC 2743 section 3.1, RFC 4121 section 4.2.6).
#[derive(Clone, Debug, PartialEq)]
pub enum GssVerifierBody<'a> {
    /// A checksum over the header or the sequence number. RFC 2203 section 5.3.
    Checksum(Opaque<'a, 400>),
    /// The arguments of BIND_CHANNEL.
    BindArgs(Rgss2BindChanVerfArgs<'a>),
    /// The results of BIND_CHANNEL.
    BindRes(Rgss2BindChanVerfRes<'a>),
}

impl<'a> Xdr<'a> for GssVerifierBody<'a> {
    const KIND: FieldKind = FieldKind::Bytes;

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let position = cursor.position();
        let mut start = *cursor;
        let body = Opaque::<400>::decode(cursor, field, &mut NullFieldObserver)?;
        let length = start.word()?;
        let content = start.take_enclosed(length)?;
        let mut trial = content;
        if let Ok(args) = Rgss2BindChanVerfArgs::decode(&mut trial, &BIND_CHANNEL, &mut NullFieldObserver)
            && trial.remaining() == 0
            && !args.rbcva_chan_bind_prefix.0.is_empty()
            && args.rbcva_chan_bind_prefix.0.iter().all(u8::is_ascii_graphic)
        {
            Rgss2BindChanVerfArgs::decode(&mut { content }, &BIND_CHANNEL, observer)?;
            return Ok(Self::BindArgs(args));
        }
        let mut trial = content;
        if let Ok(results) = Rgss2BindChanVerfRes::decode(&mut trial, &BIND_CHANNEL, &mut NullFieldObserver)
            && trial.remaining() == 0
            && !results.rbcvr_mic.0.is_empty()
        {
            Rgss2BindChanVerfRes::decode(&mut { content }, &BIND_CHANNEL, observer)?;
            return Ok(Self::BindRes(results));
        }
        observer.value(field, position..position + 4 + body.0.len(), FieldValue::Bytes(body.0));
        Ok(Self::Checksum(body))
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Checksum(checksum) => checksum.encode(encoder),
            Self::BindArgs(args) => encoder.append_nested(|encoder| args.encode(encoder)),
            Self::BindRes(results) => encoder.append_nested(|encoder| results.encode(encoder)),
        }
    }
}

#[cfg(test)]
mod tests;
