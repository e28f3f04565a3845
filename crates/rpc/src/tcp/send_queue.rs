//! The queue of data to send on a stream.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpc::record_marking::RecordMark;
use nfsrdma_dissectors::xdr::roundup;

use crate::outgoing_call::{OutgoingRpcCall, PayloadContentLocation, RegisteredPayloadMemoryId};

/// Queue length in bytes at which no more Calls are accepted. The last record may exceed it, so that a record of any
/// length can be sent.
const MAX_QUEUED_BYTES: u64 = 16 << 20;
/// Maximum number of pieces per write.
const PIECES: usize = 64;

/// Queued bytes: copied ones in one buffer, and those in shared memory in place.
#[derive(Debug, Default)]
pub(super) struct TcpSendQueue {
    bytes: Vec<u8>,
    /// Number of bytes of `bytes` that were sent.
    sent: usize,
    pieces: VecDeque<TcpSendPiece>,
    waiting: u64,
}

#[derive(Clone, Copy, Debug)]
enum TcpSendPiece {
    /// The next bytes of the buffer, by their number.
    Copied(usize),
    /// Bytes of shared memory.
    Stored { store: RegisteredPayloadMemoryId, at: usize, length: usize },
}

impl TcpSendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of queued bytes.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting >= MAX_QUEUED_BYTES
    }

    /// Drops all queued data, which the peer will not read.
    pub(super) fn clear(&mut self) {
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::default() };
        self.bytes.clear();
    }

    /// Queues a complete message as a record of one fragment, and returns its length in bytes. The Call must have
    /// passed [`check_call`](crate::rpcrdma_framing::check_call).
    pub(super) fn put_call(&mut self, call: &OutgoingRpcCall<'_>) -> u32 {
        debug_assert_eq!(call.message.first_chunk().map(|word| Xid(u32::from_be_bytes(*word))), Some(call.xid));
        let length = u32::try_from(call.length()).unwrap_or(u32::MAX);
        self.copy(&RecordMark { is_last: true, length }.encode());
        let (mut rest, mut end) = (call.message, 0);
        for payload in call.payloads {
            let head_length = (payload.position as usize).saturating_sub(end).min(rest.len());
            let (head, tail) = rest.split_at(head_length);
            self.copy(head);
            let length = payload.length();
            match payload.source {
                PayloadContentLocation::Copied(bytes) => self.copy(bytes),
                PayloadContentLocation::Shared { store, offset: at, .. } => {
                    self.pieces.push_back(TcpSendPiece::Stored { store, at, length });
                    self.waiting += length as u64;
                }
            }
            self.copy([0; 3].get(..roundup(length)).unwrap_or_default());
            end = payload.position as usize + length + roundup(length);
            rest = tail;
        }
        self.copy(rest);
        length
    }

    fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        self.waiting += bytes.len() as u64;
        match self.pieces.back_mut() {
            Some(TcpSendPiece::Copied(length)) => *length += bytes.len(),
            _ => self.pieces.push_back(TcpSendPiece::Copied(bytes.len())),
        }
    }

    /// Sends as many bytes as the stream accepts, and returns their number.
    pub(super) fn send(&mut self, stream: &mut impl Write, stores: &[Arc<[u8]>]) -> io::Result<u64> {
        let mut total = 0;
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut at = self.sent;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                let bytes = match *piece {
                    TcpSendPiece::Copied(length) => {
                        at += length;
                        self.bytes.get(at - length..at)
                    }
                    TcpSendPiece::Stored { store, at, length } => {
                        stores.get(store.0 as usize).and_then(|store| store.get(at..at + length))
                    }
                };
                *slice = IoSlice::new(bytes.unwrap_or_default());
            }
            let count = slices.len().min(self.pieces.len());
            match stream.write_vectored(slices.get(..count).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => {
                    self.remove_sent(count);
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn remove_sent(&mut self, mut count: usize) {
        self.waiting = self.waiting.saturating_sub(count as u64);
        while let Some(piece) = self.pieces.front_mut().filter(|_| count > 0) {
            let length = match piece {
                TcpSendPiece::Copied(length) | TcpSendPiece::Stored { length, .. } => length,
            };
            let sent_bytes = count.min(*length);
            *length -= sent_bytes;
            count -= sent_bytes;
            let is_sent = *length == 0;
            match piece {
                TcpSendPiece::Copied(_) => self.sent += sent_bytes,
                TcpSendPiece::Stored { at, .. } => *at += sent_bytes,
            }
            if is_sent {
                self.pieces.pop_front();
            }
        }
        if self.pieces.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing_call::{CallTag, DdpEligibleArgument, ReplySizeLimits, RequestedCallForm};

    /// A stream that accepts a few bytes at a time.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn rfc5531_section_11_a_call_is_a_record_with_its_payloads_at_their_positions() {
        let stores: [Arc<[u8]>; 1] = [Arc::from(&b"..stored.."[..])];
        let stored = PayloadContentLocation::Shared { store: RegisteredPayloadMemoryId(0), offset: 2, length: 6 };
        let payloads = [
            DdpEligibleArgument { position: 8, source: PayloadContentLocation::Copied(b"copied!") },
            DdpEligibleArgument { position: 20, source: stored },
        ];
        let call = OutgoingRpcCall {
            xid: Xid(0x5859_5a41),
            tag: CallTag(0),
            message: b"XYZA1111222233334444",
            payloads: &payloads,
            reply: ReplySizeLimits::default(),
            requested_form: RequestedCallForm::Fitting,
        };
        for width in [1, 3, 7, 1000] {
            let mut outbox = TcpSendQueue::default();
            assert_eq!(outbox.put_call(&call), 36);
            let mut stream = Narrow(Vec::new(), width);
            assert_eq!(outbox.send(&mut stream, &stores).unwrap(), 40);
            let expected = [&b"\x80\0\0\x24XYZA1111copied!\0"[..], b"2222stored\0\0", b"33334444"].concat();
            assert_eq!(stream.0, expected);
        }
    }
}
