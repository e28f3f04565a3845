//! Transport headers of any dialect, in dialect-independent terms.

use std::fmt;

use super::dialects::Dialect;
use super::header::{RdmaBody, RdmaProc, RpcRdma1ErrCode, RpcRdma1Header, VERSION, WriteChunk};
use super::sigcomm2003_prototype::{NfsRdmaPrototypeBody, NfsRdmaPrototypeHeader, NfsRdmaPrototypeProc};
use super::version2::{self, RpcRdma2Body, RpcRdma2ErrCode, RpcRdma2Header, RpcRdma2HeaderType};
use crate::field::FieldObserver;
use crate::rpc::header::Xid;
use crate::xdr::{Cursor, Encoder, RdmaMsgpPadding, Xdr, XdrError, XdrLinkedList};

/// Message type of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcRdmaMessageType {
    /// `rdma_proc` of the prototype.
    Prototype(NfsRdmaPrototypeProc),
    /// `rdma_proc` of version 1.
    Version1(RdmaProc),
    /// `rdma_htype` of version 2.
    Version2(RpcRdma2HeaderType),
}

impl RpcRdmaMessageType {
    /// Returns the message type of the dialect with the number `word`.
    pub fn from_number(dialect: Dialect, word: u32) -> Self {
        match dialect {
            Dialect::Prototype => Self::Prototype(NfsRdmaPrototypeProc(word)),
            Dialect::Rfc5666 | Dialect::Rfc8166 => Self::Version1(RdmaProc(word)),
            Dialect::Version2 => Self::Version2(RpcRdma2HeaderType(word)),
        }
    }

    /// Returns the name in the specification, if it has one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Prototype(proc) => proc.name(),
            Self::Version1(proc) => proc.name(),
            Self::Version2(htype) => htype.name(),
        }
    }

    /// Returns the number in the header.
    pub fn number(self) -> u32 {
        match self {
            Self::Prototype(proc) => proc.0,
            Self::Version1(proc) => proc.0,
            Self::Version2(htype) => htype.0,
        }
    }

    /// Returns the transfer mode of the RPC message. `is_long` says if a chunk list begins at offset 0, which marks a
    /// long message of the prototype.
    pub fn transfer_mode(self, version: u32, is_long: bool) -> RpcTransferMode {
        use RpcRdma2HeaderType as Type2;
        match self {
            Self::Prototype(NfsRdmaPrototypeProc::RDMA_DONE) => RpcTransferMode::Done,
            Self::Prototype(NfsRdmaPrototypeProc::RDMA_MSG) if is_long => RpcTransferMode::InChunk,
            Self::Prototype(NfsRdmaPrototypeProc::RDMA_MSG) => RpcTransferMode::Inline,
            // The error reply to an unknown version has the same form in all versions.
            Self::Version1(RdmaProc::RDMA_ERROR) | Self::Version2(Type2::RDMA2_ERROR) => RpcTransferMode::Error,
            Self::Version1(_) if version != VERSION => RpcTransferMode::Unknown,
            Self::Version2(_) if version != version2::VERSION => RpcTransferMode::Unknown,
            Self::Version1(RdmaProc::RDMA_MSG | RdmaProc::RDMA_MSGP)
            | Self::Version2(Type2::RDMA2_CALL_INLINE | Type2::RDMA2_REPLY_INLINE) => RpcTransferMode::Inline,
            Self::Version1(RdmaProc::RDMA_NOMSG)
            | Self::Version2(Type2::RDMA2_CALL_EXTERNAL | Type2::RDMA2_REPLY_EXTERNAL) => RpcTransferMode::InChunk,
            Self::Version1(RdmaProc::RDMA_DONE) => RpcTransferMode::Done,
            Self::Version2(Type2::RDMA2_CALL_MIDDLE | Type2::RDMA2_REPLY_MIDDLE) => RpcTransferMode::Part,
            Self::Version2(Type2::RDMA2_GRANT | Type2::RDMA2_CONNPROP_MIDDLE | Type2::RDMA2_CONNPROP_FINAL) => {
                RpcTransferMode::Control
            }
            Self::Prototype(_) | Self::Version1(_) | Self::Version2(_) => RpcTransferMode::Unknown,
        }
    }
}

/// Displays the name, or the number if it has none.
impl fmt::Display for RpcRdmaMessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.number().fmt(f),
        }
    }
}

/// Transfer mode of the RPC message of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcTransferMode {
    /// Inline after the header, except for items in chunks. In version 2 this may be the last part of a message.
    Inline,
    /// A part of it follows the header, not the last (message continuation of version 2).
    Part,
    /// In a chunk.
    InChunk,
    /// No RPC message: the Requester has read the chunks of a Reply.
    Done,
    /// No RPC message: an earlier message could not be processed.
    Error,
    /// No RPC message: the sender reports its properties or grants credits.
    Control,
    /// Unknown, because the version or the message type is unknown.
    Unknown,
}

/// Error code of RPC-over-RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcRdmaErrorCode {
    /// RFC 8166 section 4.5.
    Version1(RpcRdma1ErrCode),
    /// draft-ietf-nfsv4-rpcrdma-version-two section 7.
    Version2(RpcRdma2ErrCode),
}

impl RpcRdmaErrorCode {
    /// Returns the name in the specification, if it has one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Version1(code) => code.name(),
            Self::Version2(code) => code.name(),
        }
    }

    /// Returns the status of an RPC that ends with this error, for output; `None` for an unnamed code.
    pub fn status_name(self) -> Option<&'static str> {
        macro_rules! names {
            ($($variant:ident($type:ident): $($name:ident)*;)*) => {
                match self {
                    $($(Self::$variant($type::$name) => concat!("RDMA_ERROR:", stringify!($name)),)*)*
                    Self::Version1(_) | Self::Version2(_) => return None,
                }
            };
        }
        Some(names! {
            Version1(RpcRdma1ErrCode): ERR_VERS ERR_CHUNK;
            Version2(RpcRdma2ErrCode): RDMA2_ERR_VERS RDMA2_ERR_BAD_XDR RDMA2_ERR_BAD_PROPVAL RDMA2_ERR_INVAL_HTYPE
                RDMA2_ERR_INVAL_CONT RDMA2_ERR_READ_CHUNKS RDMA2_ERR_WRITE_CHUNKS RDMA2_ERR_SEGMENTS
                RDMA2_ERR_WRITE_RESOURCE RDMA2_ERR_REPLY_RESOURCE RDMA2_ERR_VERS_MISMATCH RDMA2_ERR_SYSTEM;
        })
    }

    /// Returns the number in the header.
    pub fn number(self) -> u32 {
        match self {
            Self::Version1(code) => code.0,
            Self::Version2(code) => code.0,
        }
    }
}

/// Displays the name, or the number if it has none.
impl fmt::Display for RpcRdmaErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.number().fmt(f),
        }
    }
}

/// Header of any dialect.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a box would make decoding allocate")]
pub enum AnyDialectHeader<'a> {
    /// Header of the prototype.
    Prototype(NfsRdmaPrototypeHeader<'a>),
    /// Header of version 1.
    Version1(RpcRdma1Header<'a>),
    /// Header of version 2.
    Version2(RpcRdma2Header<'a>),
}

impl<'a> AnyDialectHeader<'a> {
    /// Decodes a header, and moves the cursor to the RPC message if one follows.
    ///
    /// # Errors
    /// Returns an error if the message is truncated or violates the dialect.
    pub fn decode<O: FieldObserver<'a>>(
        dialect: Dialect,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        match dialect {
            Dialect::Prototype => Xdr::decode(cursor, NfsRdmaPrototypeHeader::FIELD, observer).map(Self::Prototype),
            Dialect::Rfc5666 | Dialect::Rfc8166 => RpcRdma1Header::decode(cursor, observer).map(Self::Version1),
            Dialect::Version2 => RpcRdma2Header::decode(cursor, observer).map(Self::Version2),
        }
    }

    /// Appends the header as XDR.
    pub fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Prototype(header) => header.encode(encoder),
            Self::Version1(header) => header.encode(encoder),
            Self::Version2(header) => header.encode(encoder),
        }
    }

    /// Returns the XID.
    pub fn xid(&self) -> Xid {
        match self {
            Self::Prototype(header) => header.rc_xid,
            Self::Version1(header) => header.rdma_xid,
            Self::Version2(header) => header.rdma_xid,
        }
    }

    /// Returns the message type.
    pub fn message_type(&self) -> RpcRdmaMessageType {
        match self {
            Self::Prototype(header) => RpcRdmaMessageType::Prototype(header.rc_body.tag()),
            Self::Version1(header) => RpcRdmaMessageType::Version1(header.proc()),
            Self::Version2(header) => RpcRdmaMessageType::Version2(header.header_type()),
        }
    }

    /// Returns the transfer mode of the RPC message.
    pub fn transfer_mode(&self) -> RpcTransferMode {
        let (version, is_long) = match self {
            Self::Prototype(header) => (header.rc_vers, header.is_long()),
            Self::Version1(header) => (header.rdma_vers, false),
            Self::Version2(header) => (header.rdma_vers, false),
        };
        self.message_type().transfer_mode(version, is_long)
    }

    /// Returns the alignment of opaque data in the RPC message; none except in RDMA_MSGP.
    pub fn padding(&self) -> RdmaMsgpPadding {
        match self {
            Self::Version1(header) => header.padding(),
            Self::Prototype(_) | Self::Version2(_) => RdmaMsgpPadding::default(),
        }
    }

    /// Returns the number of bytes in the following parts of the message. draft-ietf-nfsv4-rpcrdma-version-two section
    /// 6.3.6.
    pub fn remaining_bytes(&self) -> Option<u32> {
        let Self::Version2(header) = self else { return None };
        match &header.rdma_body {
            RpcRdma2Body::CallMiddle(middle) | RpcRdma2Body::ReplyMiddle(middle) => Some(middle.rdma_remaining),
            _ => None,
        }
    }

    /// Returns the number of segments in the Read list, including a Call chunk. `None` if the header has no Read list.
    pub fn read_segments(&self) -> Option<usize> {
        match self {
            Self::Prototype(header) => {
                let is_message = matches!(header.rc_body, NfsRdmaPrototypeBody::Msg(_));
                is_message.then(|| header.chunks().len() as usize)
            }
            Self::Version1(header) => header.chunk_lists().map(|lists| lists.rdma_reads.len() as usize),
            Self::Version2(header) => {
                let body = &header.rdma_body;
                let is_call = matches!(body, RpcRdma2Body::CallExternal(_) | RpcRdma2Body::CallInline(_));
                is_call.then(|| header.reads().count())
            }
        }
    }

    /// Returns the Write list.
    pub fn writes(&self) -> XdrLinkedList<'a, WriteChunk<'a>> {
        match self {
            Self::Prototype(_) => XdrLinkedList::default(),
            Self::Version1(header) => header.chunk_lists().map(|lists| lists.rdma_writes).unwrap_or_default(),
            Self::Version2(header) => header.writes(),
        }
    }

    /// Returns the Reply chunk.
    pub fn reply_chunk(&self) -> Option<&WriteChunk<'a>> {
        match self {
            Self::Prototype(_) => None,
            Self::Version1(header) => header.chunk_lists()?.rdma_reply.as_ref(),
            Self::Version2(header) => header.reply_chunk(),
        }
    }

    /// Returns the error code, if it is an error.
    pub fn error(&self) -> Option<RpcRdmaErrorCode> {
        match self {
            Self::Version1(RpcRdma1Header { rdma_body: RdmaBody::Error(error), .. }) => {
                Some(RpcRdmaErrorCode::Version1(error.tag()))
            }
            Self::Version2(RpcRdma2Header { rdma_body: RpcRdma2Body::Error(error), .. }) => {
                Some(RpcRdmaErrorCode::Version2(error.tag()))
            }
            _ => None,
        }
    }
}
