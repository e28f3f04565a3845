//! The chunks that a Call offers, as encoded in its header, and as the Reply's header must repeat them.

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpcrdma::{
    ChunkLists, RdmaBody, RdmaSegment, ReadSegment, RpcRdma1Header, VERSION, WriteChunk,
};
use nfsrdma_dissectors::xdr::{Encoder, Xdr, XdrArray, XdrLinkedList};

use super::chunk_plan::{CallChunkPlan, captured_form, captured_reads, captured_writes};
use crate::client_transport_events::ReceivedMessageDiscardReason;
use crate::outgoing_call::OutgoingRpcCall;

/// Contiguous memory of a chunk, which is divided into consecutive segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContiguousChunkMemory {
    /// The handle of the memory.
    pub handle: Handle,
    /// Offset of the chunk in it.
    pub offset: u64,
    /// Length of the chunk in bytes.
    pub length: u32,
}

/// The memory of each chunk of a [`CallChunkPlan`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkRegions<'a> {
    /// The message of a Long Call.
    pub call: Option<ContiguousChunkMemory>,
    /// The Read chunk of each payload that has one, in order.
    pub reads: &'a [ContiguousChunkMemory],
    /// Each Write chunk, in order; length 0 for a result that is requested inline.
    pub writes: &'a [ContiguousChunkMemory],
    /// The Reply chunk.
    pub reply: Option<ContiguousChunkMemory>,
}

/// The chunks of one Call while it is in flight. The allocations are reused for the next Call.
#[derive(Clone, Debug, Default)]
pub struct OutgoingCallChunks {
    reads: Vec<ReadSegment>,
    /// Segments of all Write chunks and of the Reply chunk.
    targets: Vec<RdmaSegment>,
    /// End index of each Write chunk in `targets`; the Reply chunk has the rest.
    ends: Vec<usize>,
    has_reply: bool,
}

/// Number of bytes that the server wrote to each Write chunk, and to the Reply chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnedChunkLengths {
    /// Bytes of each offered Write chunk, in order.
    pub writes: [u32; OutgoingRpcCall::MAX_PAYLOADS],
    /// Bytes of the Reply chunk: the message of a Long Reply.
    pub reply: u32,
}

impl OutgoingCallChunks {
    /// Divides the chunks into segments, and encodes the header of the Call (RFC 8166 section 4.3). The inline message
    /// follows it.
    pub fn write_header(
        &mut self,
        call: &OutgoingRpcCall<'_>,
        plan: &CallChunkPlan,
        credits: u32,
        regions: &ChunkRegions<'_>,
        encoder: &mut Encoder,
    ) {
        self.reads.clear();
        self.targets.clear();
        self.ends.clear();
        if let Some(region) = regions.call {
            split_region(region, captured_form(call).call, |target| {
                self.reads.push(ReadSegment { position: 0, target })
            });
        }
        let mut reads = regions.reads.iter();
        for (index, payload) in call.payloads.iter().enumerate().filter(|(index, _)| plan.is_read(*index)) {
            let Some(region) = reads.next() else { break };
            let position = payload.position;
            split_region(*region, captured_reads(call, index), |target| {
                self.reads.push(ReadSegment { position, target });
            });
        }
        let mut writes = regions.writes.iter();
        for index in (0..OutgoingRpcCall::MAX_PAYLOADS).filter(|index| plan.is_written(*index)) {
            let Some(region) = writes.next() else { break };
            if region.length > 0 {
                split_region(*region, captured_writes(call, index), |target| self.targets.push(target));
            }
            self.ends.push(self.targets.len());
        }
        self.has_reply = regions.reply.is_some();
        if let Some(region) = regions.reply {
            split_region(region, captured_form(call).reply, |target| self.targets.push(target));
        }
        self.encode(call, plan, credits, encoder);
    }

    fn encode(&self, call: &OutgoingRpcCall<'_>, plan: &CallChunkPlan, credits: u32, encoder: &mut Encoder) {
        let chunk = |segments| WriteChunk { target: XdrArray::from(segments) };
        let (single_chunk, chunks): ([WriteChunk<'_>; 1], Vec<WriteChunk<'_>>);
        let writes = match self.ends.len() {
            0 => XdrLinkedList::default(),
            1 => {
                single_chunk = [chunk(self.write_chunk(0))];
                XdrLinkedList::from(&single_chunk[..])
            }
            count => {
                chunks = (0..count).map(|index| chunk(self.write_chunk(index))).collect();
                XdrLinkedList::from(&chunks[..])
            }
        };
        let lists = ChunkLists {
            rdma_reads: XdrLinkedList::from(&self.reads[..]),
            rdma_writes: writes,
            rdma_reply: self.has_reply.then(|| chunk(self.reply_chunk())),
        };
        let rdma_body = if plan.is_long_call { RdmaBody::Nomsg(lists) } else { RdmaBody::Msg(lists) };
        RpcRdma1Header { rdma_xid: call.xid, rdma_vers: VERSION, rdma_credit: credits, rdma_body }.encode(encoder);
    }

    /// Returns the segments of a Write chunk.
    pub fn write_chunk(&self, index: usize) -> &[RdmaSegment] {
        let start = index.checked_sub(1).and_then(|previous| self.ends.get(previous)).copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.targets.get(start..end).unwrap_or_default()
    }

    /// Returns the segments of the Reply chunk.
    pub fn reply_chunk(&self) -> &[RdmaSegment] {
        self.targets.get(self.ends.last().copied().unwrap_or(0)..).unwrap_or_default()
    }

    /// Returns the number of offered Write chunks.
    pub fn write_chunks(&self) -> usize {
        self.ends.len()
    }

    /// Checks the chunks in the header of a Reply against the offered ones, and returns their lengths.
    ///
    /// A Responder copies every Write chunk, with the used lengths (RFC 8166 sections 3.4.6 and 4.3.2). Unused chunks
    /// may be missing, have no segments, or have segments of length 0 (RFC 8166 section 4.3.2.2 and RFC 8267 section
    /// 6.4.1 disagree).
    ///
    /// # Errors
    /// Returns an error if the header has a chunk that was not offered, exceeds one, or leaves a gap in one.
    pub fn check(
        &self,
        lists: &ChunkLists<'_>,
        is_nomsg: bool,
    ) -> Result<ReturnedChunkLengths, ReceivedMessageDiscardReason> {
        let mut returned = ReturnedChunkLengths::default();
        if !lists.rdma_reads.is_empty() || lists.rdma_writes.len() as usize > self.write_chunks() {
            return Err(ReceivedMessageDiscardReason::Chunks);
        }
        for (index, chunk) in lists.rdma_writes.iter().enumerate() {
            let length = returned.writes.get_mut(index).ok_or(ReceivedMessageDiscardReason::Chunks)?;
            *length = check_chunk(&chunk, self.write_chunk(index))?;
        }
        match &lists.rdma_reply {
            Some(_) if !self.has_reply => return Err(ReceivedMessageDiscardReason::Chunks),
            Some(chunk) => returned.reply = check_chunk(chunk, self.reply_chunk())?,
            None => {}
        }
        if is_nomsg && returned.reply == 0 {
            return Err(ReceivedMessageDiscardReason::NoReplyChunk);
        }
        Ok(returned)
    }
}

/// Divides a region into segments of these lengths; the last one takes the rest.
fn split_region(region: ContiguousChunkMemory, lengths: &[u32], mut push: impl FnMut(RdmaSegment)) {
    let (mut offset, mut remaining) = (region.offset, region.length);
    let mut lengths = lengths.iter().peekable();
    loop {
        let requested = lengths.next().copied().unwrap_or(remaining);
        let length = if lengths.peek().is_none() { remaining } else { requested.min(remaining) };
        push(RdmaSegment { handle: region.handle, length, offset });
        offset = offset.wrapping_add(length.into());
        remaining -= length;
        if remaining == 0 {
            break;
        }
    }
}

/// Checks a returned chunk against the offered segments, and returns its length in bytes.
fn check_chunk(chunk: &WriteChunk<'_>, offered: &[RdmaSegment]) -> Result<u32, ReceivedMessageDiscardReason> {
    if chunk.target.is_empty() {
        return Ok(0);
    }
    if chunk.target.len() as usize != offered.len() {
        return Err(ReceivedMessageDiscardReason::Chunks);
    }
    let (mut total, mut is_full) = (0u32, true);
    for (segment, offered) in chunk.target.iter().zip(offered) {
        let is_same = segment.handle == offered.handle && segment.offset == offered.offset;
        if !is_same || segment.length > offered.length || (segment.length > 0 && !is_full) {
            return Err(ReceivedMessageDiscardReason::Chunks);
        }
        is_full = segment.length == offered.length;
        total = total.saturating_add(segment.length);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing_call::{
        CallTag, CapturedCallChunkLayout, DdpEligibleArgument, PayloadContentLocation, ReplySizeLimits,
        RequestedCallForm,
    };
    use crate::params::NegotiatedRpcRdmaParameters;
    use nfsrdma_dissectors::field::NullFieldObserver;
    use nfsrdma_dissectors::rpc::Xid;
    use nfsrdma_dissectors::rpcrdma::RdmaProc;
    use nfsrdma_dissectors::xdr::Cursor;

    fn region(handle: u32, length: u32) -> ContiguousChunkMemory {
        ContiguousChunkMemory { handle: Handle(handle), offset: 0x1000, length }
    }

    /// Returns the chunks and the header of a Call with a payload, two results and a long Reply.
    fn offer() -> (OutgoingCallChunks, Vec<u8>) {
        let payloads = [DdpEligibleArgument { position: 8, source: PayloadContentLocation::Copied(&[7; 3000]) }];
        let captured = CapturedCallChunkLayout {
            reads: &[&[1000, 1000, 1000]],
            writes: &[&[2000, 2000], &[100]],
            ..CapturedCallChunkLayout::default()
        };
        let call = OutgoingRpcCall {
            xid: Xid(0),
            tag: CallTag(0),
            message: &[0; 8],
            payloads: &payloads,
            reply: ReplySizeLimits { message_bytes: 2000, payloads: &[4000, 100] },
            requested_form: RequestedCallForm::Captured(captured),
        };
        let plan = CallChunkPlan::for_call(&call, &NegotiatedRpcRdmaParameters::negotiate(None, None)).unwrap();
        let regions = ChunkRegions {
            call: None,
            reads: &[region(1, 3000)],
            writes: &[region(2, 4000), region(3, 100)],
            reply: Some(region(4, 2000)),
        };
        let (mut offered, mut encoder) = (OutgoingCallChunks::default(), Encoder::new());
        offered.write_header(&call, &plan, 32, &regions, &mut encoder);
        (offered, encoder.finish().0)
    }

    #[test]
    fn rfc8166_section_4_3_a_header_has_the_chunks_of_its_plan() {
        let (_, bytes) = offer();
        let header = RpcRdma1Header::decode(&mut Cursor::new(&bytes), &mut NullFieldObserver).unwrap();
        assert_eq!((header.rdma_xid, header.rdma_credit, header.proc()), (Xid(0), 32, RdmaProc::RDMA_MSG));
        let lists = header.chunk_lists().unwrap();
        let reads: Vec<_> = lists.rdma_reads.iter().map(|read| (read.position, read.target.length)).collect();
        assert_eq!(reads, [(8, 1000), (8, 1000), (8, 1000)]);
        let last = lists.rdma_reads.iter().last().unwrap().target;
        assert_eq!((last.handle, last.offset), (Handle(1), 0x1000 + 2000));
        let writes: Vec<_> = lists.rdma_writes.iter().map(|chunk| (chunk.target.len(), chunk.length())).collect();
        assert_eq!(writes, [(2, 4000), (1, 100)]);
        assert_eq!(lists.rdma_reply.as_ref().unwrap().length(), 2000);
    }

    fn segment(handle: u32, length: u32, offset: u64) -> RdmaSegment {
        RdmaSegment { handle: Handle(handle), length, offset }
    }

    /// Checks returned Write chunks against the offered ones.
    fn check(
        writes: &[&[RdmaSegment]],
        reply: Option<&[RdmaSegment]>,
        is_nomsg: bool,
    ) -> Result<ReturnedChunkLengths, ReceivedMessageDiscardReason> {
        let chunks: Vec<_> = writes.iter().map(|chunk| WriteChunk { target: XdrArray::from(*chunk) }).collect();
        let lists = ChunkLists {
            rdma_reads: XdrLinkedList::default(),
            rdma_writes: XdrLinkedList::from(&chunks[..]),
            rdma_reply: reply.map(|chunk| WriteChunk { target: XdrArray::from(chunk) }),
        };
        offer().0.check(&lists, is_nomsg)
    }

    #[test]
    fn rfc8166_section_3_4_6_segments_come_back_with_the_lengths_that_were_used() {
        let first = [segment(2, 2000, 0x1000), segment(2, 5, 0x1000 + 2000)];
        let second = [segment(3, 0, 0x1000)];
        let returned = check(&[&first, &second], None, false).unwrap();
        assert_eq!((returned.writes[0], returned.writes[1], returned.reply), (2005, 0, 0));
    }

    #[test]
    fn rfc8166_section_4_3_2_2_and_rfc8267_section_6_4_1_an_unused_chunk_comes_back_in_three_ways() {
        let empty = [segment(2, 0, 0x1000), segment(2, 0, 0x1000 + 2000)];
        for writes in [&[][..], &[&[][..], &[]], &[&empty[..]]] {
            assert_eq!(check(writes, None, false), Ok(ReturnedChunkLengths::default()));
        }
    }

    #[test]
    fn a_reply_with_chunks_that_differ_from_the_offer_is_discarded() {
        let second = [segment(3, 0, 0x1000)];
        for first in [
            // Longer than offered, another handle, another offset, a gap.
            [segment(2, 2001, 0x1000), segment(2, 0, 0x1000 + 2000)],
            [segment(9, 2000, 0x1000), segment(2, 0, 0x1000 + 2000)],
            [segment(2, 2000, 0x1001), segment(2, 0, 0x1000 + 2000)],
            [segment(2, 1999, 0x1000), segment(2, 1, 0x1000 + 2000)],
        ] {
            assert_eq!(check(&[&first, &second], None, false), Err(ReceivedMessageDiscardReason::Chunks));
        }
        assert_eq!(check(&[&second], None, false), Err(ReceivedMessageDiscardReason::Chunks));
        assert_eq!(check(&[&[], &[], &[]], None, false), Err(ReceivedMessageDiscardReason::Chunks));
    }

    #[test]
    fn rfc8166_section_3_5_3_a_long_reply_is_in_the_reply_chunk() {
        assert_eq!(check(&[], Some(&[segment(4, 1500, 0x1000)]), true).map(|r| r.reply), Ok(1500));
        assert_eq!(check(&[], Some(&[segment(4, 0, 0x1000)]), true), Err(ReceivedMessageDiscardReason::NoReplyChunk));
        assert_eq!(check(&[], None, true), Err(ReceivedMessageDiscardReason::NoReplyChunk));
        assert_eq!(check(&[], Some(&[segment(4, 2001, 0x1000)]), true), Err(ReceivedMessageDiscardReason::Chunks));
    }
}
