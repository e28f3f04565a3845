//! The Responder side of RPC-over-RDMA: reads Calls and their chunks from exposed memory, lets the server execute them,
//! and answers as RFC 8166 requires.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{
    ChunkLists, RdmaBody, RdmaSegment, RpcRdma1Header, RpcRdmaError, RpcRdmaErrvers, VERSION, WriteChunk,
};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, Encoder, Xdr, XdrArray, XdrLinkedList};
use nfsrdma_rpc::rpcrdma_framing::SHORTEST_HEADER;

use super::connection_settings::MockConnectionSettings;
use super::server::mock_server::MockServer;
use super::server::reply::MockReply;
use super::simulated_rdma_memory::{MockRegisteredMemoryTable, MockRemoteAccessError};
use super::transport_faults::MockTransportFault;

/// Maximum number of chunks per Call.
const CHUNKS: usize = 64;

/// The Responder of one connection. Its buffers are reused for every Call.
#[derive(Debug)]
pub(super) struct MockRpcRdmaResponder {
    /// Maximum length of a Reply in a Send in bytes, including the header.
    pub(super) reply_inline: usize,
    /// Number of credits that it grants.
    pub(super) grant: u32,
    refuses_both_chunks: bool,
    answer: MockReply,
    message: Vec<u8>,
    segments: Vec<RdmaSegment>,
    ends: Vec<usize>,
    /// `true` unless the requested fault of the chunks had no effect.
    is_fault_effective: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MockCallOutcome {
    /// The Send contains the answer.
    Answered,
    /// There is no answer.
    Silent,
    /// A chunk could not be read or written, or is refused: the connection breaks.
    Broken,
}

/// The reason that there is no Reply.
enum MockResponderError {
    Chunk,
    Access,
}

impl From<MockRemoteAccessError> for MockResponderError {
    fn from(_: MockRemoteAccessError) -> Self {
        Self::Access
    }
}

impl MockRpcRdmaResponder {
    pub(super) fn new(reply_inline: u32, settings: &MockConnectionSettings) -> Self {
        Self {
            reply_inline: reply_inline as usize,
            grant: settings.credits,
            refuses_both_chunks: settings.refuses_both_chunks,
            answer: MockReply::default(),
            message: Vec::new(),
            segments: Vec::new(),
            ends: Vec::new(),
            is_fault_effective: true,
        }
    }

    /// Returns the transport fault of the server's fault injector for a Call, if any.
    pub(super) fn injected_fault(call: &[u8], server: &mut MockServer) -> Option<MockTransportFault> {
        let injector = server.fault_injector.as_mut()?;
        let mut cursor = Cursor::new(call);
        let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        let RdmaBody::Msg(lists) = &header.rdma_body else { return None };
        let mut chunks: Vec<ChunkedDataItem<'_>> = Vec::new();
        for read in lists.rdma_reads.iter().take(CHUNKS) {
            let (position, length) = (Some(read.position), read.target.length);
            match chunks.last_mut().filter(|chunk| chunk.position == position) {
                Some(chunk) => chunk.length = chunk.length.saturating_add(length),
                None => chunks.push(ChunkedDataItem { position, length, bytes: None }),
            }
        }
        let has_write_chunk = lists.rdma_writes.iter().any(|chunk| chunk.length() > 0);
        injector.fault(cursor.rest(), &chunks, has_write_chunk)
    }

    /// Executes a Call, and encodes the Send of the answer.
    pub(super) fn respond(
        &mut self,
        call: &[u8],
        server: &mut MockServer,
        device: &mut MockRegisteredMemoryTable,
        fault: Option<MockTransportFault>,
        send: &mut Vec<u8>,
    ) -> MockCallOutcome {
        send.clear();
        let mut cursor = Cursor::new(call);
        let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver);
        // RFC 8166 section 4.5: a shorter message is discarded.
        let Some(xid) = call.first_chunk().filter(|_| call.len() >= SHORTEST_HEADER) else {
            return MockCallOutcome::Silent;
        };
        let xid = Xid(u32::from_be_bytes(*xid));
        let version = header.as_ref().map_or(VERSION, |header| header.rdma_vers);
        if version != VERSION || fault == Some(MockTransportFault::ErrVers) {
            let versions = RpcRdmaErrvers { rdma_vers_low: VERSION, rdma_vers_high: VERSION };
            return self.error(xid, version, RpcRdmaError::Vers(versions), send);
        }
        let is_refused = fault == Some(MockTransportFault::ErrChunk);
        let (lists, is_long) = match header.as_ref().map(|header| &header.rdma_body) {
            Ok(RdmaBody::Msg(lists)) if !is_refused => (lists, false),
            Ok(RdmaBody::Nomsg(lists)) if !is_refused => (lists, true),
            _ => return self.error(xid, version, RpcRdmaError::Chunk, send),
        };
        let has_write_chunk = lists.rdma_writes.iter().any(|chunk| chunk.length() > 0);
        if self.refuses_both_chunks && has_write_chunk && lists.rdma_reply.is_some() {
            return MockCallOutcome::Broken;
        }
        match self.serve(xid, lists, is_long, cursor.rest(), server, device, fault, send) {
            Ok(()) => MockCallOutcome::Answered,
            Err(MockResponderError::Chunk) => self.error(xid, version, RpcRdmaError::Chunk, send),
            Err(MockResponderError::Access) => MockCallOutcome::Broken,
        }
    }

    fn error(&self, rdma_xid: Xid, rdma_vers: u32, error: RpcRdmaError, send: &mut Vec<u8>) -> MockCallOutcome {
        let header = RpcRdma1Header { rdma_xid, rdma_vers, rdma_credit: self.grant, rdma_body: RdmaBody::Error(error) };
        write(send, |encoder| header.encode(encoder));
        MockCallOutcome::Answered
    }

    #[allow(clippy::too_many_arguments, reason = "what one call is made of")]
    fn serve(
        &mut self,
        xid: Xid,
        lists: &ChunkLists<'_>,
        is_long: bool,
        inline: &[u8],
        server: &mut MockServer,
        device: &mut MockRegisteredMemoryTable,
        fault: Option<MockTransportFault>,
        send: &mut Vec<u8>,
    ) -> Result<(), MockResponderError> {
        self.message.clear();
        let mut contents: Vec<(u32, Vec<u8>)> = Vec::new();
        for read in lists.rdma_reads.iter() {
            let RdmaSegment { handle, length, offset } = read.target;
            if is_long && read.position == 0 {
                device.read(handle, offset, length, &mut self.message)?;
                continue;
            }
            let is_next = contents.last().is_none_or(|(position, _)| *position != read.position);
            if is_next && contents.len() == CHUNKS {
                return Err(MockResponderError::Chunk);
            }
            if is_next {
                contents.push((read.position, Vec::new()));
            }
            if let Some((_, bytes)) = contents.last_mut() {
                device.read(handle, offset, length, bytes)?;
            }
        }
        let message = if is_long { &self.message[..] } else { inline };
        // RFC 8166 section 4.5.2: header and message have the same XID.
        if message.first_chunk() != Some(&xid.0.to_be_bytes()) {
            return Err(MockResponderError::Chunk);
        }
        let chunks: Vec<_> = contents
            .iter()
            .map(|(position, bytes)| ChunkedDataItem {
                position: Some(*position),
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                bytes: Some(bytes),
            })
            .collect();
        server.serve(message, &chunks, &mut self.answer);
        let result = self.reply(xid, lists, device, fault, send);
        if let (Some(injector), false) = (&mut server.fault_injector, self.is_fault_effective) {
            injector.revert_injection();
        }
        result
    }

    /// Writes results to Write chunks, and the message to the Send or the Reply chunk. RFC 8166 sections 3.4.6 and
    /// 4.3.3.
    fn reply(
        &mut self,
        xid: Xid,
        lists: &ChunkLists<'_>,
        device: &mut MockRegisteredMemoryTable,
        fault: Option<MockTransportFault>,
        send: &mut Vec<u8>,
    ) -> Result<(), MockResponderError> {
        self.segments.clear();
        self.ends.clear();
        let offered_count = lists.rdma_writes.len() as usize + usize::from(lists.rdma_reply.is_some());
        if offered_count > CHUNKS {
            return Err(MockResponderError::Chunk);
        }
        let results = self.answer.data.len().min(CHUNKS);
        let mut inline = u64::MAX;
        for (ordinal, chunk) in lists.rdma_writes.iter().enumerate() {
            let result = (0..results).find(|index| self.answer.ordinal(*index) == Some(ordinal));
            // An empty Write chunk requests the result inline: section 4.3.2.3.
            let result = result.filter(|_| chunk.length() > 0);
            match result.and_then(|index| Some((index, self.answer.data.get(index)?))) {
                Some((index, data)) => {
                    fill(&chunk, data, device, fault, &mut self.segments)?;
                    inline &= !(1 << index.min(63));
                }
                None => {
                    self.segments.extend(chunk.target.iter().map(|segment| RdmaSegment { length: 0, ..segment }));
                }
            }
            self.ends.push(self.segments.len());
        }
        let written: Vec<u32> = match fault {
            Some(fault) if fault.affects_write_chunks() => self.segments.iter().map(|segment| segment.length).collect(),
            _ => Vec::new(),
        };
        match fault {
            Some(MockTransportFault::MoreThanOffered) => self.change(|segment| segment.length += 1 << 20),
            Some(MockTransportFault::OtherHandle) => self.change(|segment| segment.handle.0 ^= 0x100),
            Some(MockTransportFault::LessThanWritten) => {
                self.change(|segment| segment.length = segment.length.saturating_sub(1));
            }
            Some(MockTransportFault::MoreThanWritten) => {
                let offered_segments = lists.rdma_writes.iter().flat_map(|chunk| chunk.target.iter());
                for (segment, offered) in self.segments.iter_mut().zip(offered_segments) {
                    segment.length = (segment.length + 1).min(offered.length);
                }
            }
            Some(MockTransportFault::NotReturned) => self.segments.iter_mut().for_each(|segment| segment.length = 0),
            _ => {}
        }
        let is_empty = written.iter().all(|length| *length == 0);
        let is_same = self.segments.iter().map(|segment| segment.length).eq(written.iter().copied());
        self.is_fault_effective = match fault {
            Some(
                MockTransportFault::MoreThanOffered
                | MockTransportFault::LessThanWritten
                | MockTransportFault::MoreThanWritten
                | MockTransportFault::NotReturned,
            ) => !is_empty && !is_same,
            Some(fault) if fault.affects_write_chunks() => !is_empty,
            _ => true,
        };
        self.answer.splice(inline, &mut self.message);
        if fault == Some(MockTransportFault::Denied) {
            // REPLY, MSG_DENIED, AUTH_ERROR, AUTH_TOOWEAK.
            let words = [xid.0, 1, 1, 1, 5].map(u32::to_be_bytes);
            self.message.splice(.., words.into_iter().flatten());
        }
        let header_length = SHORTEST_HEADER + self.ends.len() * 8 + self.segments.len() * 16;
        let fits = header_length + self.message.len() <= self.reply_inline;
        let chunks = self.segments.len();
        if !fits {
            let chunk = lists.rdma_reply.as_ref().ok_or(MockResponderError::Chunk)?;
            fill(chunk, &self.message, device, fault, &mut self.segments)?;
        } else if let Some(chunk) = &lists.rdma_reply {
            self.segments.extend(chunk.target.iter().map(|segment| RdmaSegment { length: 0, ..segment }));
        }
        if fault == Some(MockTransportFault::BreakAfter) {
            return Err(MockResponderError::Access);
        }
        let rdma_reply = lists.rdma_reply.is_some().then(|| self.chunk(chunks, self.segments.len()));
        let writes: Vec<_> = (0..self.ends.len())
            .map(|index| {
                let start = index.checked_sub(1).and_then(|previous| self.ends.get(previous)).copied().unwrap_or(0);
                self.chunk(start, self.ends.get(index).copied().unwrap_or(start))
            })
            .collect();
        let lists = ChunkLists {
            rdma_reads: XdrLinkedList::default(),
            rdma_writes: XdrLinkedList::from(&writes[..]),
            rdma_reply,
        };
        let rdma_xid = if fault == Some(MockTransportFault::OtherXid) { Xid(!xid.0) } else { xid };
        let rdma_body = if fits { RdmaBody::Msg(lists) } else { RdmaBody::Nomsg(lists) };
        let header = RpcRdma1Header { rdma_xid, rdma_vers: VERSION, rdma_credit: self.grant, rdma_body };
        write(send, |encoder| header.encode(encoder));
        if fits {
            send.extend_from_slice(&self.message);
        }
        if fault == Some(MockTransportFault::CutMessage) {
            send.truncate(send.len().saturating_sub(4));
        }
        if fault == Some(MockTransportFault::CutHeader) {
            send.truncate(SHORTEST_HEADER - 4);
        }
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut RdmaSegment)) {
        if let Some(segment) = self.segments.first_mut() {
            change(segment);
        }
    }

    fn chunk(&self, start: usize, end: usize) -> WriteChunk<'_> {
        WriteChunk { target: XdrArray::from(self.segments.get(start..end).unwrap_or_default()) }
    }
}

/// Encodes into the buffer of an earlier message.
fn write(to: &mut Vec<u8>, encode: impl FnOnce(&mut Encoder)) {
    let mut encoder = Encoder::reusing(std::mem::take(to));
    encode(&mut encoder);
    *to = encoder.finish().0;
}

/// Fills a chunk from its beginning, and appends its segments with the used lengths to `returned`.
fn fill(
    chunk: &WriteChunk<'_>,
    data: &[u8],
    device: &mut MockRegisteredMemoryTable,
    fault: Option<MockTransportFault>,
    returned: &mut Vec<RdmaSegment>,
) -> Result<(), MockResponderError> {
    if chunk.length() < data.len() as u64 {
        return Err(MockResponderError::Chunk);
    }
    let mut rest = data;
    for segment in chunk.target.iter() {
        let (part, after) = rest.split_at(rest.len().min(segment.length as usize));
        match fault {
            Some(MockTransportFault::BreakAfter) => {
                device.write(segment.handle, segment.offset, part.get(..part.len() / 2).unwrap_or_default())?;
            }
            Some(MockTransportFault::Unwritten) => {}
            Some(MockTransportFault::OtherByte) => {
                let mut altered = part.to_vec();
                if let Some(byte) = altered.last_mut() {
                    *byte ^= 1;
                }
                device.write(segment.handle, segment.offset, &altered)?;
            }
            _ => device.write(segment.handle, segment.offset, part)?,
        }
        returned.push(RdmaSegment { length: u32::try_from(part.len()).unwrap_or(u32::MAX), ..segment });
        rest = after;
    }
    Ok(())
}
