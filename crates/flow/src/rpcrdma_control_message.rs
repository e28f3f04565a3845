//! Header-only messages of RPC-over-RDMA: RDMA_DONE, and messages of version 2 that belong to no
//! Transaction.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::field::{FieldObserver, TypeErasedFieldObserver};
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, Dialect};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use crate::rdma_operation::RdmaSendMessage;

/// A header-only message of RPC-over-RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcRdmaControlMessage {
    dialect: Dialect,
    bytes: Vec<u8>,
    /// Length on the wire in bytes.
    length: usize,
}

impl RpcRdmaControlMessage {
    /// Maximum number of bytes kept of one message.
    const MAX_BYTES: usize = 4_096;

    /// Reports the fields of the header to an observer. Offsets count from the start of the message.
    ///
    /// # Errors
    /// Returns an error if the header cannot be decoded completely; the fields before the error have
    /// been reported.
    pub fn observe<'a, O: FieldObserver<'a>>(&'a self, observer: &mut O) -> Result<(), XdrError> {
        self.report(&mut TypeErasedFieldObserver::new(observer))
    }

    fn report<'a>(&'a self, observer: &mut TypeErasedFieldObserver<'_, 'a>) -> Result<(), XdrError> {
        let mut cursor = Cursor::new(&self.bytes).with_length(self.length);
        AnyDialectHeader::decode(self.dialect, &mut cursor, observer).map(|_| ())
    }
}

/// The header-only messages of the last frame that had any.
#[derive(Debug, Default)]
pub(super) struct FrameRpcRdmaControlMessages {
    frame: FrameNumber,
    headers: Vec<RpcRdmaControlMessage>,
}

impl FrameRpcRdmaControlMessages {
    /// Maximum number of messages kept of one frame.
    const MAX_HEADERS_PER_FRAME: usize = 16;

    /// Keeps a message until another frame has one.
    pub(super) fn add(&mut self, frame: FrameNumber, dialect: Dialect, message: &RdmaSendMessage<'_>) {
        if std::mem::replace(&mut self.frame, frame) != frame {
            self.headers.clear();
        }
        if self.headers.len() < Self::MAX_HEADERS_PER_FRAME {
            let bytes = message.bytes.get(..RpcRdmaControlMessage::MAX_BYTES).unwrap_or(message.bytes).to_vec();
            self.headers.push(RpcRdmaControlMessage { dialect, bytes, length: message.length });
        }
    }

    /// Returns the messages of a frame if it is the last frame that had any.
    pub(super) fn messages_of_frame(&self, frame: FrameNumber) -> &[RpcRdmaControlMessage] {
        if self.frame == frame { &self.headers } else { &[] }
    }
}
