//! A header in any dialect, and the terms that the dialects have in common.

use std::fmt;

use crate::field::{Field, Observer};
use crate::rpc::Xid;
use crate::xdr::{Chain, Cursor, Encoder, Padding, Xdr, XdrError};

use super::dialect::Dialect;
use super::header::{self, ErrCode, RdmaProc, RpcRdmaError, RpcRdmaHeader, WriteChunk};
use super::version2::{self, HeaderType};
use super::{VERSION, prototype};

/// What kind of message a header says that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// `rdma_proc` of the prototype.
    Prototype(prototype::Proc),
    /// `rdma_proc` of version 1.
    Version1(RdmaProc),
    /// `rdma_htype` of version 2.
    Version2(HeaderType),
}

impl MessageType {
    /// The number `word` as a message type of the dialect.
    pub fn of(dialect: Dialect, word: u32) -> Self {
        match dialect {
            Dialect::Prototype => Self::Prototype(prototype::Proc(word)),
            Dialect::Rfc5666 | Dialect::Rfc8166 => Self::Version1(RdmaProc(word)),
            Dialect::Version2 => Self::Version2(HeaderType(word)),
        }
    }

    /// The specification's name of it, if it has one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Prototype(proc) => proc.name(),
            Self::Version1(proc) => proc.name(),
            Self::Version2(htype) => htype.name(),
        }
    }

    /// The number in the header.
    pub fn number(self) -> u32 {
        match self {
            Self::Prototype(proc) => proc.0,
            Self::Version1(proc) => proc.0,
            Self::Version2(htype) => htype.0,
        }
    }

    /// How the RPC message travels. `is_long` says whether a chunk list begins at offset 0, by which the prototype tells
    /// a long message.
    pub fn carriage(self, version: u32, is_long: bool) -> Carriage {
        match self {
            Self::Prototype(prototype::Proc::RDMA_DONE) => Carriage::Done,
            Self::Prototype(prototype::Proc::RDMA_MSG) if is_long => Carriage::InChunk,
            Self::Prototype(prototype::Proc::RDMA_MSG) => Carriage::Inline,
            Self::Prototype(_) => Carriage::Unknown,
            // The answer to an unknown version has the same form in all of them.
            Self::Version1(RdmaProc::RDMA_ERROR) | Self::Version2(HeaderType::RDMA2_ERROR) => Carriage::Error,
            Self::Version1(_) if version != VERSION => Carriage::Unknown,
            Self::Version2(_) if version != version2::VERSION => Carriage::Unknown,
            Self::Version1(RdmaProc::RDMA_MSG | RdmaProc::RDMA_MSGP) => Carriage::Inline,
            Self::Version1(RdmaProc::RDMA_NOMSG) => Carriage::InChunk,
            Self::Version1(RdmaProc::RDMA_DONE) => Carriage::Done,
            Self::Version1(_) => Carriage::Unknown,
            Self::Version2(HeaderType::RDMA2_CALL_INLINE | HeaderType::RDMA2_REPLY_INLINE) => {
                Carriage::Inline
            }
            Self::Version2(HeaderType::RDMA2_CALL_MIDDLE | HeaderType::RDMA2_REPLY_MIDDLE) => Carriage::Part,
            Self::Version2(HeaderType::RDMA2_CALL_EXTERNAL | HeaderType::RDMA2_REPLY_EXTERNAL) => {
                Carriage::InChunk
            }
            Self::Version2(
                HeaderType::RDMA2_GRANT
                | HeaderType::RDMA2_CONNPROP_MIDDLE
                | HeaderType::RDMA2_CONNPROP_FINAL,
            ) => Carriage::Control,
            Self::Version2(_) => Carriage::Unknown,
        }
    }
}

/// The name, or the number of a type without one.
impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.number().fmt(f),
        }
    }
}

/// How the RPC message that belongs to a header travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carriage {
    /// It follows the header, but for items in chunks; in version 2 the last part of it may.
    Inline,
    /// A part of it follows the header, but not the last (message continuation of version 2).
    Part,
    /// It is in a chunk.
    InChunk,
    /// There is none: the Requester has read the chunks of a Reply.
    Done,
    /// There is none: a message could not be processed.
    Error,
    /// There is none: the sender tells its properties or grants credits.
    Control,
    /// It is not known, for the version or the message type is not.
    Unknown,
}

/// The code of an error of RPC-over-RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// RFC 8166 section 4.5.
    Version1(ErrCode),
    /// draft-ietf-nfsv4-rpcrdma-version-two section 7.
    Version2(version2::RpcRdma2ErrCode),
}

impl ErrorCode {
    /// The specification's name of it, if it has one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Version1(code) => code.name(),
            Self::Version2(code) => code.name(),
        }
    }

    /// How an RPC that ends with it went, in output; `None` for a code that has no name.
    pub fn status_name(self) -> Option<&'static str> {
        use version2::RpcRdma2ErrCode;
        Some(match self {
            Self::Version1(ErrCode::ERR_VERS) => "RDMA_ERROR:ERR_VERS",
            Self::Version1(ErrCode::ERR_CHUNK) => "RDMA_ERROR:ERR_CHUNK",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_VERS) => "RDMA_ERROR:RDMA2_ERR_VERS",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_BAD_XDR) => "RDMA_ERROR:RDMA2_ERR_BAD_XDR",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_BAD_PROPVAL) => "RDMA_ERROR:RDMA2_ERR_BAD_PROPVAL",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_INVAL_HTYPE) => "RDMA_ERROR:RDMA2_ERR_INVAL_HTYPE",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_INVAL_CONT) => "RDMA_ERROR:RDMA2_ERR_INVAL_CONT",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_READ_CHUNKS) => "RDMA_ERROR:RDMA2_ERR_READ_CHUNKS",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_WRITE_CHUNKS) => "RDMA_ERROR:RDMA2_ERR_WRITE_CHUNKS",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_SEGMENTS) => "RDMA_ERROR:RDMA2_ERR_SEGMENTS",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_WRITE_RESOURCE) => {
                "RDMA_ERROR:RDMA2_ERR_WRITE_RESOURCE"
            }
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_REPLY_RESOURCE) => {
                "RDMA_ERROR:RDMA2_ERR_REPLY_RESOURCE"
            }
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_VERS_MISMATCH) => "RDMA_ERROR:RDMA2_ERR_VERS_MISMATCH",
            Self::Version2(RpcRdma2ErrCode::RDMA2_ERR_SYSTEM) => "RDMA_ERROR:RDMA2_ERR_SYSTEM",
            Self::Version1(_) | Self::Version2(_) => return None,
        })
    }

    /// The number in the header.
    pub fn number(self) -> u32 {
        match self {
            Self::Version1(code) => code.0,
            Self::Version2(code) => code.0,
        }
    }
}

/// The name, or the number of a code without one.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.number().fmt(f),
        }
    }
}

/// A header of any dialect.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a box would make decoding allocate")]
pub enum MessageHeader<'a> {
    /// Of the prototype.
    Prototype(prototype::PrototypeHeader<'a>),
    /// Of version 1.
    Version1(RpcRdmaHeader<'a>),
    /// Of version 2.
    Version2(version2::RpcRdma2Header<'a>),
}

impl<'a> MessageHeader<'a> {
    /// Reads a header, and leaves the cursor at the RPC message if one follows.
    ///
    /// # Errors
    /// When the message ends too early or holds what the dialect does not allow.
    pub fn decode<O: Observer<'a>>(
        dialect: Dialect,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        const PROTOTYPE: &Field = prototype::PrototypeHeader::FIELD;
        const VERSION2: &Field = version2::RpcRdma2Header::FIELD;
        match dialect {
            Dialect::Prototype => Xdr::decode(cursor, PROTOTYPE, observer).map(Self::Prototype),
            Dialect::Rfc5666 | Dialect::Rfc8166 => {
                RpcRdmaHeader::decode(cursor, observer).map(Self::Version1)
            }
            Dialect::Version2 => Xdr::decode(cursor, VERSION2, observer).map(Self::Version2),
        }
    }

    /// Appends the header's XDR form.
    pub fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Prototype(header) => header.encode(encoder),
            Self::Version1(header) => header.encode(encoder),
            Self::Version2(header) => header.encode(encoder),
        }
    }

    /// The XID.
    pub fn xid(&self) -> Xid {
        match self {
            Self::Prototype(header) => header.rc_xid,
            Self::Version1(header) => header.rdma_xid,
            Self::Version2(header) => header.rdma_xid,
        }
    }

    /// What kind of message it begins.
    pub fn message_type(&self) -> MessageType {
        match self {
            Self::Prototype(header) => MessageType::Prototype(header.rc_body.tag()),
            Self::Version1(header) => MessageType::Version1(header.proc()),
            Self::Version2(header) => MessageType::Version2(header.header_type()),
        }
    }

    /// How the RPC message travels.
    pub fn carriage(&self) -> Carriage {
        let (version, is_long) = match self {
            Self::Prototype(header) => (header.rc_vers, header.is_long()),
            Self::Version1(header) => (header.rdma_vers, false),
            Self::Version2(header) => (header.rdma_vers, false),
        };
        self.message_type().carriage(version, is_long)
    }

    /// How opaque data of the RPC message is aligned; not at all but in RDMA_MSGP.
    pub fn padding(&self) -> Padding {
        match self {
            Self::Version1(header) => header.padding(),
            Self::Prototype(_) | Self::Version2(_) => Padding::default(),
        }
    }

    /// Bytes that still have to be sent behind this part of a message. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.6.
    pub fn remaining_bytes(&self) -> Option<u32> {
        match self {
            Self::Version2(header) => match &header.rdma_body {
                version2::RpcRdma2Body::CallMiddle(middle) | version2::RpcRdma2Body::ReplyMiddle(middle) => {
                    Some(middle.rdma_remaining)
                }
                _ => None,
            },
            Self::Prototype(_) | Self::Version1(_) => None,
        }
    }

    /// Segments in the Read list; those of a Call chunk too. `None` in a header without a place for them.
    pub fn read_segments(&self) -> Option<usize> {
        match self {
            Self::Prototype(header) => matches!(header.rc_body, prototype::PrototypeBody::Msg(_))
                .then(|| header.chunks().len() as usize),
            Self::Version1(header) => header.chunk_lists().map(|lists| lists.rdma_reads.len() as usize),
            Self::Version2(header) => {
                let is_call = matches!(
                    header.rdma_body,
                    version2::RpcRdma2Body::CallExternal(_) | version2::RpcRdma2Body::CallInline(_)
                );
                is_call.then(|| header.reads().count())
            }
        }
    }

    /// The Write list.
    pub fn writes(&self) -> Chain<'a, WriteChunk<'a>> {
        match self {
            Self::Prototype(_) => Chain::default(),
            Self::Version1(header) => header.chunk_lists().map(|lists| lists.rdma_writes).unwrap_or_default(),
            Self::Version2(header) => header.writes(),
        }
    }

    /// The Reply chunk.
    pub fn reply_chunk(&self) -> Option<&WriteChunk<'a>> {
        match self {
            Self::Prototype(_) => None,
            Self::Version1(header) => header.chunk_lists()?.rdma_reply.as_ref(),
            Self::Version2(header) => header.reply_chunk(),
        }
    }

    /// The code, if it is an error.
    pub fn error(&self) -> Option<ErrorCode> {
        match self {
            Self::Prototype(_) => None,
            Self::Version1(header) => match &header.rdma_body {
                header::RdmaBody::Error(error) => Some(ErrorCode::Version1(RpcRdmaError::tag(error))),
                _ => None,
            },
            Self::Version2(header) => match &header.rdma_body {
                version2::RpcRdma2Body::Error(error) => Some(ErrorCode::Version2(error.tag())),
                _ => None,
            },
        }
    }
}
