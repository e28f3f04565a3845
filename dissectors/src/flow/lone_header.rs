//! Messages of RPC-over-RDMA that are a header alone: RDMA_DONE, and those of version 2 that belong to no Transaction.

use crate::field::Observer;
use crate::frame::FrameNumber;
use crate::rdma::RdmaMessage;
use crate::rpcrdma::{Dialect, MessageHeader};
use crate::xdr::{Cursor, XdrError};

/// A message of RPC-over-RDMA that is a header alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneHeader {
    dialect: Dialect,
    bytes: Vec<u8>,
    /// Bytes on the wire.
    length: usize,
}

impl LoneHeader {
    /// Bytes of one that are kept.
    const BYTES: usize = 4_096;

    /// Tells an observer the header; positions count in the message.
    ///
    /// # Errors
    /// If the header cannot be read to its end; the observer has the fields before the error.
    pub fn observe<'a, O: Observer<'a>>(&'a self, observer: &mut O) -> Result<(), XdrError> {
        let mut cursor = Cursor::new(&self.bytes).with_length(self.length);
        MessageHeader::decode(self.dialect, &mut cursor, observer).map(|_| ())
    }
}

/// Those of the last frame that had such.
#[derive(Debug, Default)]
pub(super) struct LoneHeaders {
    frame: FrameNumber,
    headers: Vec<LoneHeader>,
}

impl LoneHeaders {
    /// Headers of one frame that are kept.
    const COUNT: usize = 16;

    /// Keeps a message until another frame has one.
    pub(super) fn keep(&mut self, frame: FrameNumber, dialect: Dialect, message: &RdmaMessage<'_>) {
        if std::mem::replace(&mut self.frame, frame) != frame {
            self.headers.clear();
        }
        if self.headers.len() < Self::COUNT {
            let bytes = message.bytes.get(..LoneHeader::BYTES).unwrap_or(message.bytes).to_vec();
            self.headers.push(LoneHeader { dialect, bytes, length: message.length });
        }
    }

    /// The headers of a frame, if it is the last that had such.
    pub(super) fn of(&self, frame: FrameNumber) -> &[LoneHeader] {
        if self.frame == frame { &self.headers } else { &[] }
    }
}
