//! Write chunks, and all chunks that a Reply returns: RFC 8166 sections 3.4.6, 4.3.2 and 4.3.3, RFC 8267 section 6.4.

use nfsrdma_dissectors::field::{DataItemPlacement, DdpEligibleItem};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpcrdma::WriteChunk;
use nfsrdma_dissectors::xdr::roundup;
use nfsrdma_flow::chunk::ChunkSegment;
use nfsrdma_flow::read_list::ReadList;

use super::prelude::*;
use super::reply_chunk::reply_chunk_in_msg;
use crate::connection_history::REFUSED;
use crate::ddp_eligible_operations::requests_inline;

const BOTH_LISTS: &[RequiredCaptureEvidence] =
    &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::ChunkLists];

/// Returns the segments that the Responder may write to.
fn written_segments<'t>(view: &ConformanceTransaction<'t>) -> impl Iterator<Item = &'t ChunkSegment> + use<'t> {
    written_chunks(view).flat_map(|chunk| &chunk.segments)
}

/// Returns the Write chunks and the Reply chunk.
fn written_chunks<'t>(view: &ConformanceTransaction<'t>) -> impl Iterator<Item = &'t Chunk> + use<'t> {
    let transaction: &'t _ = view.transaction;
    transaction.write_chunks.iter().chain(&transaction.reply_chunk)
}

/// Returns the Reply of version 1, unless it is an RDMA_ERROR.
fn rpc_reply<'v>(view: &'v ConformanceTransaction<'_>) -> Option<ConformanceMessage<'v>> {
    view.message(RpcMessageKind::Reply).filter(|reply| reply.version1().is_some() && !reply.record.is_rdma_error())
}

fn is_compound(view: &ConformanceTransaction<'_>) -> bool {
    matches!(view.arguments, Some((Procedure::Compound, _)))
}

/// Returns the difference between a chunk and its copy in the Reply.
fn copy_difference(name: &str, chunk: &Chunk, copy: &WriteChunk<'_>) -> Option<String> {
    let (offered_count, copied_count) = (chunk.segments.len(), copy.target.len() as usize);
    if offered_count != copied_count {
        return Some(format!(
            "{name} with {copied}, {offered_count} offered",
            copied = CountWithNoun(copied_count, "segment")
        ));
    }
    { chunk.segments.iter().zip(copy.target.iter()) }.find_map(|(segment, copy)| {
        if segment.handle != copy.handle {
            Some(format!("{name} with handle {}, {} offered", copy.handle, segment.handle))
        } else if segment.offset != copy.offset {
            Some(format!("{name} with offset 0x{:x}, 0x{:x} offered", copy.offset, segment.offset))
        } else {
            None
        }
    })
}

/// Returns a segment of the Reply that is not in its Call, but in that which the Call repeats.
fn stale_segment(view: &ConformanceTransaction<'_>) -> Option<(Handle, u64)> {
    let earlier_segments = view.earlier_memory.as_ref()?;
    let header = rpc_reply(view)?.header()?;
    let is_stale = |handle: Handle, offset: u64| {
        let is_offered = written_segments(view).any(|segment| (segment.handle, segment.offset) == (handle, offset));
        !is_offered && earlier_segments.contains(&(handle, offset))
    };
    let find = |chunk: &WriteChunk<'_>| {
        let stale = chunk.target.iter().find(|segment| is_stale(segment.handle, segment.offset))?;
        Some((stale.handle, stale.offset))
    };
    header.writes().iter().find_map(|chunk| find(&chunk)).or_else(|| find(header.reply_chunk()?))
}

fn stale_handles(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let (call, reply) = (view.version1_call()?, rpc_reply(view)?);
    let header = reply.header()?;
    if view.transaction.retry_of.is_none() || (header.writes().is_empty() && header.reply_chunk().is_none()) {
        return None;
    }
    if call.record.copies > 1 || view.earlier_memory.is_none() {
        return Some(RuleVerdict::Unknown);
    }
    let fault = stale_segment(view).map(|(handle, offset)| {
        (format!("segment with handle {handle}, offset 0x{offset:x} of the earlier call"), offset)
    });
    Some(RuleVerdict::from_fault(fault).at_field(field_names::RPCORDMA_RDMA_OFFSET))
}

fn not_copied(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let (call, reply) = (view.version1_call()?, rpc_reply(view)?);
    if call.record.has_no_chunks() && reply.record.has_no_chunks() {
        return None;
    }
    // A Call that was sent again may offer other memory.
    if call.record.copies > 1 {
        return Some(RuleVerdict::Unknown);
    }
    // rpc/stale-handles judges it.
    if stale_segment(view).is_some() {
        return None;
    }
    let header = reply.header()?;
    let (write_chunks, copies) = (&view.transaction.write_chunks, header.writes());
    let (reply_chunk, reply_copy) = (&view.transaction.reply_chunk, header.reply_chunk());
    if write_chunks.is_empty() && copies.is_empty() && reply_chunk.is_none() && reply_copy.is_none() {
        return None;
    }
    // RFC 8267 section 6.4.1: a chunk whose operation has no data comes back empty.
    let may_be_empty = is_compound(view);
    let difference = match (reply_chunk, reply_copy) {
        (Some(_), None) => Some("no Reply chunk, one offered".to_owned()),
        (None, Some(_)) => Some("a Reply chunk, none offered".to_owned()),
        (Some(chunk), Some(copy)) => copy_difference("Reply chunk", chunk, copy),
        (None, None) => None,
    }
    .or_else(|| {
        let (offered_count, copied_count) = (write_chunks.len(), copies.len() as usize);
        (offered_count != copied_count)
            .then(|| format!("{copied}, {offered_count} offered", copied = CountWithNoun(copied_count, "Write chunk")))
    })
    .or_else(|| {
        { write_chunks.iter().zip(copies.iter()) }
            .filter(|(chunk, copy)| {
                // rpcrdma/empty-not-kept judges a chunk that was offered empty.
                let is_unused = may_be_empty && copy.target.is_empty();
                !chunk.segments.is_empty() && !is_unused
            })
            .find_map(|(chunk, copy)| copy_difference("Write chunk", chunk, &copy))
    });
    Some(RuleVerdict::from_fault(difference).at_field(field_names::RPCORDMA_WRITES))
}

/// A DDP-eligible item of a Reply, with the Write chunk of its operation.
fn reply_items<'v>(
    view: &'v ConformanceTransaction<'_>,
) -> Option<impl Iterator<Item = (&'v DdpEligibleItem, Option<&'v Chunk>)>> {
    rpc_reply(view)?;
    let chunks = &view.transaction.write_chunks;
    // gss/reduced judges chunks of signed results: no data item may be in one.
    if chunks.is_empty() || !view.is_plain() {
        return None;
    }
    let items = view.eligible_items(RpcMessageKind::Reply)?;
    Some(items.items.iter().map(|item| (item, chunks.get(item.operation))))
}

/// Judges the items of a Reply to a Call with Write chunks, if all of it was captured.
fn judge_items(
    view: &ConformanceTransaction<'_>,
    check: fn(&ConformanceTransaction<'_>) -> Option<RuleVerdict>,
) -> Option<RuleVerdict> {
    let reply = rpc_reply(view).filter(|_| !view.transaction.write_chunks.is_empty())?;
    if reply.is_whole() { check(view) } else { Some(RuleVerdict::Unknown) }
}

/// Returns `true` for an item of a message that ends before its content: it is neither inline nor in a chunk. In a
/// COMPOUND, other results may follow it; in another message, a part of its content.
fn is_absent(view: &ConformanceTransaction<'_>, item: &DdpEligibleItem) -> bool {
    let items = view.eligible_items(RpcMessageKind::Reply);
    let is_end = |at| is_compound(view) || view.reply_message.is_some_and(|message| message.length() == at);
    item.placement == DataItemPlacement::Inline
        && items.is_some_and(|items| {
            matches!(items.error, Some(XdrError::Short { at, .. }) if is_end(at)) && items.items.last() == Some(item)
        })
}

fn result_length(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let chunks = &view.transaction.write_chunks;
    let in_chunks = reply_items(view)?.filter_map(|(item, chunk)| {
        let chunk = match item.placement {
            DataItemPlacement::WriteChunk(at) => chunks.get(at)?,
            // A chunk without bytes asks for the data inline.
            _ => chunk.filter(|chunk| chunk.offered_bytes() > 0 && is_absent(view, item))?,
        };
        Some((item.length, chunk, chunk.returned_bytes()?))
    });
    let verdict = RuleVerdict::of_items(in_chunks, |(item, chunk, returned)| {
        let text =
            || format!("{} returned, data item of {}", CountWithNoun(returned, "byte"), CountWithNoun(item, "byte"));
        (u64::from(item) != returned).then(|| (text(), first_offset(chunk)))
    })?;
    Some(verdict.at_field(field_names::RPCORDMA_RDMA_OFFSET))
}

fn item_inline(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let items = reply_items(view)?.filter_map(|(item, chunk)| {
        let offered_bytes = chunk.map_or(0, Chunk::offered_bytes);
        (item.length > 0 && offered_bytes > 0).then_some((item, offered_bytes))
    });
    RuleVerdict::of_items(items, |(item, offered_bytes)| {
        // rpcrdma/result-length judges an item that is not inline either.
        let is_inline = item.placement == DataItemPlacement::Inline && !is_absent(view, item);
        is_inline.then(|| {
            let (inline, offered) = (CountWithNoun(item.length, "byte"), CountWithNoun(offered_bytes, "byte"));
            format!("{inline} inline, a Write chunk of {offered} was offered for them")
        })
    })
}

/// Compares the returned length of each segment with the bytes that were written.
fn returned_not_written(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    view.version1_call().filter(|call| call.record.copies == 1)?;
    let reply = rpc_reply(view)?;
    // Bytes of two segments in the same memory cannot be told apart: see rpcrdma/ranges-overlap.
    let is_ambiguous = view.transaction.shares_memory || view.overlap.is_some() || offers_memory_twice(view);
    // A chunk that is returned unused may have been written, but the payload of a Long Reply is in the Reply chunk.
    let long_reply = view.transaction.reply_chunk.as_ref().filter(|_| reply.record.is_nomsg());
    let is_used = |chunk: &&Chunk| chunk.returned_bytes().is_some_and(|bytes| bytes > 0);
    let segments = { view.transaction.write_chunks.iter() }
        .chain(view.transaction.reply_chunk.iter().filter(|_| long_reply.is_none()))
        .filter(is_used)
        .chain(long_reply)
        .flat_map(|chunk| &chunk.segments)
        .filter_map(|segment| Some((segment, segment.returned_length?)))
        // rpcrdma/returned-too-much judges more than was offered.
        .filter(|(segment, returned)| *returned <= segment.length);
    let verdict = RuleVerdict::of_items(segments, |(segment, returned)| {
        let (handle, written) = (segment.handle, &segment.moved_coverage);
        let (total, prefix) = (written.total_bytes(), written.prefix_bytes());
        // A Responder fills a segment from its start.
        if (total, prefix) == (returned.into(), returned.into()) {
            return None;
        }
        let suffix = if total == prefix { String::new() } else { format!(", {prefix} of them from the start") };
        let returned = CountWithNoun(returned, "byte");
        Some(format!("returned {returned}, {total} written{suffix}, handle {handle}"))
    })?;
    let is_broken = matches!(verdict, RuleVerdict::Broken(_));
    Some(if is_broken && is_ambiguous { RuleVerdict::Unknown } else { verdict })
}

/// Returns `true` if two segments of a Call for results overlap.
fn offers_memory_twice(view: &ConformanceTransaction<'_>) -> bool {
    let mut ranges: Vec<(Handle, u64, u64)> = written_segments(view)
        .filter(|segment| segment.length > 0)
        .map(|segment| (segment.handle, segment.offset, segment.offset.saturating_add(segment.length.into())))
        .collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| matches!(pair, [(one, _, end), (other, start, _)] if one == other && start < end))
}

/// Returns the offset of a chunk's first segment, which identifies the chunk.
fn first_offset(chunk: &Chunk) -> u64 {
    chunk.segments.first().map_or(0, |segment| segment.offset)
}

fn returned_in_order(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    // A segment without bytes separates nothing.
    let has_bytes = |segment: &&ChunkSegment| segment.length > 0 || segment.returned_length > Some(0);
    let pairs = written_chunks(view)
        .flat_map(|chunk| {
            let segments = chunk.segments.iter().filter(has_bytes);
            segments.clone().zip(segments.skip(1))
        })
        .filter_map(|(first, second)| Some((first, first.returned_length?, second.returned_length?)));
    let verdict = RuleVerdict::of_items(pairs, |(first, returned, next)| {
        let has_gap = next > 0 && returned < first.length;
        has_gap.then(|| {
            let (offered, next) = (CountWithNoun(first.length, "byte"), CountWithNoun(next, "byte"));
            (format!("{returned} of {offered} in a segment, and {next} in the next"), first.offset)
        })
    })?;
    Some(verdict.at_field(field_names::RPCORDMA_RDMA_OFFSET))
}

/// Returns `true` if a fault of the Write chunks or of the Reply chunk makes a Reply undecodable.
pub(super) fn explains_decode_error(reply: &ConformanceMessage<'_>) -> bool {
    let is_broken = |verdict: Option<RuleVerdict>| matches!(verdict, Some(RuleVerdict::Broken(_)));
    let checks = [not_copied, result_length, returned_in_order, returned_not_written];
    checks.iter().any(|check| is_broken(check(reply.transaction))) || is_broken(reply_chunk_in_msg(reply))
}

fn item_in_wrong_chunk(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    if !is_compound(view) {
        return None;
    }
    let in_chunks = reply_items(view)?.filter_map(|(item, _)| match item.placement {
        DataItemPlacement::WriteChunk(at) => Some((item.operation, at)),
        _ => None,
    });
    RuleVerdict::of_items(in_chunks, |(operation, chunk)| {
        (operation != chunk).then(|| {
            let (operation, chunk) = (operation + 1, chunk + 1);
            format!("data of the READ or READLINK number {operation} in Write chunk number {chunk}")
        })
    })
}

/// Returns the Write chunks of a Call, each with the number of bytes that its READ requests.
fn requested_bytes<'v>(view: &'v ConformanceTransaction<'_>) -> Option<Option<Vec<(&'v Chunk, u32)>>> {
    view.version1_call()?;
    let chunks = &view.transaction.write_chunks;
    if chunks.iter().all(requests_inline) || !view.is_plain() {
        return None;
    }
    let Some(reads) = view.eligible_reads() else { return Some(None) };
    let sized = chunks.iter().zip(reads).filter(|(chunk, _)| !requests_inline(chunk));
    Some(Some(sized.filter_map(|(chunk, count)| Some((chunk, count?))).collect()))
}

fn judge_chunk_sizes(
    view: &ConformanceTransaction<'_>,
    is_kept: fn(chunk_bytes: u64, count: u32) -> bool,
) -> Option<RuleVerdict> {
    let Some(chunks) = requested_bytes(view)? else { return Some(RuleVerdict::Unknown) };
    let verdict = RuleVerdict::of_items(chunks, |(chunk, count)| {
        let text = || {
            let chunk = CountWithNoun(chunk.offered_bytes(), "byte");
            format!("Write chunk of {chunk} for a READ of {}", CountWithNoun(count, "byte"))
        };
        (!is_kept(chunk.offered_bytes(), count)).then(|| (text(), first_offset(chunk)))
    })?;
    Some(verdict.by(view.requester()).at_field(field_names::RPCORDMA_RDMA_OFFSET))
}

fn write_list_unneeded(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_call() && message.transaction.is_plain())?;
    let view = message.transaction;
    let chunks = &view.transaction.write_chunks;
    view.arguments.filter(|_| !chunks.iter().all(requests_inline))?;
    let Some(reads) = view.eligible_reads() else { return Some(RuleVerdict::Unknown) };
    // nfs/not-eligible judges a chunk that was used.
    let was_used = chunks.iter().any(|chunk| chunk.returned_bytes().is_some_and(|bytes| bytes > 0));
    if reads.is_empty() && was_used {
        return None;
    }
    Some(
        RuleVerdict::from_condition(!reads.is_empty(), || {
            format!("{}, no operation returns data for them", CountWithNoun(chunks.len(), "Write chunk"))
        })
        .at_field(field_names::RPCORDMA_WRITES),
    )
}

/// Maximum number of segments of a chunk that each server accepts. RFC 8267 section 6.4.2.
const MAX_SEGMENTS: usize = 16;

/// Returns `true` if a Call repeats one that was answered ERR_CHUNK or GARBAGE_ARGS: it has the same XID, or the same
/// slot and sequence ID.
fn is_sent_again(view: &ConformanceTransaction<'_>) -> bool {
    let has_same_xid = view.connection.refused_xids.contains(&(view.transaction.direction, view.transaction.xid));
    let last_use = view.slot.as_ref().and_then(|slot| slot.last_use);
    let sequence = view.operations.sequence;
    has_same_xid
        || last_use.zip(sequence).is_some_and(|(last_use, sequence)| {
            let is_refused = last_use.reply_time.is_some() && !last_use.is_executed;
            is_refused && last_use.sequence_id == sequence.sequence_id
        })
}

/// Complexity of the chunk lists of a Call. RFC 8267 section 6.4.2.
struct ChunkListComplexity {
    /// Number of Read chunks, without the Position-Zero Read chunk.
    items: usize,
    /// Number of Write chunks.
    writes: usize,
    /// Highest number of segments in a chunk.
    segments: usize,
}

impl ChunkListComplexity {
    fn of(view: &ConformanceTransaction<'_>) -> Self {
        let reads = ReadList::new(&view.transaction.read_chunks);
        let written = view.transaction.write_chunks.iter().chain(&view.transaction.reply_chunk);
        let segments = reads.positions().map(|chunks| chunks.segments().count());
        Self {
            items: reads.items().count(),
            writes: view.transaction.write_chunks.len(),
            segments: segments.chain(written.map(|chunk| chunk.segments.len())).max().unwrap_or(0),
        }
    }

    /// Returns `true` for chunk lists that each server must accept.
    fn is_low(&self) -> bool {
        self.items <= 1 && self.writes <= 1 && self.segments <= MAX_SEGMENTS
    }
}

fn too_complex(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_call() && is_compound(message.transaction))?;
    message.transaction.offered_chunks().next()?;
    let complexity = ChunkListComplexity::of(message.transaction);
    let verdict = RuleVerdict::from_condition(complexity.is_low(), || {
        let retry_note = if is_sent_again(message.transaction) { "; sent again after an error" } else { "" };
        let ChunkListComplexity { items, writes, segments } = complexity;
        format!(
            "{items}, {writes}, up to {segments} in a chunk{retry_note}",
            items = CountWithNoun(items, "Read chunk"),
            writes = CountWithNoun(writes, "Write chunk"),
            segments = CountWithNoun(segments, "segment")
        )
    });
    // This server supports more.
    let status = message.transaction.summary.rpc_status;
    let is_accepted = matches!(status, Some(RpcStatus::Rpc(status)) if status.is_success());
    Some(if is_accepted { verdict.with_severity(Severity::Info) } else { verdict })
}

/// Returns `true` if the Call is free of the faults for which a server answers ERR_CHUNK, and has room for each
/// possible Reply: RFC 8267 section 6.2.2 takes ca_maxresponsesize as the maximum size of a Reply. `false` also means
/// that it is not known.
fn has_room_for_reply(view: &ConformanceTransaction<'_>) -> bool {
    let Some(limits) = view.slot.as_ref().map(|slot| slot.limits) else { return false };
    let is_decoded = view.summary.call_error.is_none() && view.operations.has_all_arguments;
    let reply_chunk_bytes = view.transaction.reply_chunk.as_ref().map_or(0, Chunk::offered_bytes);
    // The header of a Reply without chunks takes 28 bytes; each Write chunk with 16 segments 264 more.
    let inline = view.inline_threshold_bytes(view.responder()).map_or(0, |threshold| threshold.saturating_sub(292));
    let max_reply_bytes = reply_chunk_bytes.max(u64::from(inline));
    let Some(reads) = view.eligible_reads() else { return false };
    let mut chunks = view.transaction.write_chunks.iter().enumerate();
    let has_room = chunks.all(|(at, chunk)| {
        let count = reads.get(at).copied().flatten();
        count.is_some_and(|count| chunk.offered_bytes() >= u64::from(count))
    });
    is_decoded && has_room && max_reply_bytes >= u64::from(limits.max_response_bytes)
}

fn simple_refused(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    view.version1_call()?;
    view.operations.tag?;
    if !is_compound(view) || !ChunkListComplexity::of(view).is_low() {
        return None;
    }
    let reply = view.message(RpcMessageKind::Reply)?;
    if !reply.record.is_rdma_error() {
        return Some(RuleVerdict::Kept);
    }
    reply.header()?.error().filter(|error| *error == RpcRdmaErrorCode::Version1(RpcRdma1ErrCode::ERR_CHUNK))?;
    if !has_room_for_reply(view) {
        return Some(RuleVerdict::Unknown);
    }
    let ChunkListComplexity { items, writes, segments } = ChunkListComplexity::of(view);
    let reply_chunks = u32::from(view.transaction.reply_chunk.is_some());
    let chunks = [
        (items > 0).then(|| CountWithNoun(items, "Read chunk").to_string()),
        (writes > 0).then(|| CountWithNoun(writes, "Write chunk").to_string()),
        (reply_chunks > 0).then(|| "a Reply chunk".to_owned()),
    ];
    let chunks: Vec<String> = chunks.into_iter().flatten().collect();
    Some(RuleVerdict::broken(match chunks.is_empty() {
        true => "ERR_CHUNK for a call without chunks".to_owned(),
        false => format!(
            "ERR_CHUNK for {}, with up to {} in a chunk",
            chunks.join(" and "),
            CountWithNoun(segments, "segment")
        ),
    }))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/not-copied",
        section: "RFC 8166 sections 3.4.6 and 4.3.3",
        requirement: "A reply has the Write chunks and the Reply chunk of its call, with their segments, handles and offsets.",
        explanation: "The Requester finds its results by the segments in the reply: it refuses the reply, or reads other \
            memory. Only the lengths change. In an NFSv4 COMPOUND a chunk may come back empty if its operation returned no \
            data (RFC 8267 section 6.4.1). Example: a reply returns the Write chunk of a READ with its offset moved by 8: \
            \"Write chunk with offset 0x20100008, 0x20100000 offered\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(not_copied),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/stale-handles",
        section: "RFC 8166 sections 3.4.6 and 4.3.3",
        requirement: "The reply to a call that was repeated on another connection has the chunks of that call, not those of \
            the earlier one.",
        explanation: "The handles of the lost connection mean other memory on the new one, or none: the Requester misses its \
            results, or the Responder ends the connection with an access error. Look for a reply cache that keeps RDMA \
            headers, or for calls that the server still executes for the lost connection. Example: a client repeats a READ \
            after a disconnect, with a new handle: \"segment with handle 0x0a010200, offset 0x20100000 of the earlier call\".",
        subjects: &[RequiredMessageProperty::Chunks, RequiredMessageProperty::RepeatedCall],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(stale_handles),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/returned-too-much",
        section: "RFC 8166 section 3.4.6",
        requirement: "A Responder returns no more bytes in a segment than the Requester offered.",
        explanation: "The Requester reads beyond its buffer, or refuses the reply. Example: a segment of 2,048 bytes comes \
            back with a length that is four bytes larger: \"returned 2052 of 2048 bytes offered\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(|view| {
            let segments = written_segments(view).filter_map(|segment| Some((segment, segment.returned_length?)));
            let verdict = RuleVerdict::of_items(segments, |(segment, returned)| {
                let text = || format!("returned {returned} of {} offered", CountWithNoun(segment.length, "byte"));
                (returned > segment.length).then(|| (text(), segment.offset))
            })?;
            Some(verdict.at_field(field_names::RPCORDMA_RDMA_OFFSET))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/returned-not-in-order",
        section: "RFC 8166 section 3.4.6",
        requirement: "A Responder fills the segments of a chunk in their order, without gaps.",
        explanation: "The Requester concatenates the returned segments: the data is right only if each segment before a used \
            one is full. Example: two segments of 2,048 bytes each come back half full: \"1000 of 2048 bytes in a segment, \
            and 1000 bytes in the next\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(returned_in_order),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/returned-not-written",
        section: "RFC 8166 section 3.4.6",
        requirement: "The length of a returned segment is the number of bytes that RDMA Writes placed in it.",
        explanation: "The Requester takes bytes for results that were not written, or misses some. A chunk that is returned \
            unused may have been written (section 4.3.2.2). Look for RDMA Writes that the capture lacks. Example: a reply \
            returns 4,096 bytes, and the RDMA Writes before it placed 4,000: \"returned 4096 bytes, 4000 written\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::ChunkLists,
            RequiredCaptureEvidence::NoLoss,
        ],
        check: RuleCheck::Transaction(returned_not_written),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/result-length",
        section: "RFC 8166 section 3.4.6.2",
        requirement: "A returned Write chunk is as long as its data item, without roundup.",
        explanation: "The length word of the item stays in the reply. If the chunk is longer or shorter, the Requester \
            cannot tell which of the two is right. A Responder often has written the roundup, too. Example: a READ returns \
            97 bytes, and the chunk includes three bytes of roundup: \"100 bytes returned, data item of 97 bytes\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(|view| judge_items(view, result_length)),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/item-inline",
        section: "RFC 8166 section 4.3.2, RFC 8267 section 6.4.1",
        requirement: "A Responder returns a data item in the Write chunk that the Requester offered for it.",
        explanation: "The Requester looks for the data in the chunk, and its receive buffer may be too small for it. \
            Example: a server puts the data of a short READ into the Send: \"1000 bytes inline, a Write chunk of 1000 bytes \
            was offered for them\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(|view| judge_items(view, item_inline)),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/item-in-wrong-chunk",
        section: "RFC 8267 section 6.4.1",
        requirement: "The n-th READ or READLINK of a COMPOUND uses the n-th Write chunk, also if an earlier one returned no data.",
        explanation: "The Requester attributes the data to another operation. RFC 8166 section 4.3.2.2 lets a Responder skip \
            results without data; RFC 8267 does not for NFSv4. Example: the first READ of a COMPOUND returns no data, and \
            the second one uses its chunk: \"data of the READ or READLINK number 2 in Write chunk number 1\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(|view| judge_items(view, item_in_wrong_chunk)),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/empty-not-kept",
        section: "RFC 8166 section 4.3.2.3",
        requirement: "A Write chunk without segments comes back without segments.",
        explanation: "An empty Write chunk requests the result inline. Segments that the Requester did not offer are memory \
            of another use. Example: a client requests the data of a READ inline with an empty chunk, and the server returns \
            a segment: \"1 segment in a Write chunk that was offered empty\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: BOTH_LISTS,
        check: RuleCheck::Transaction(|view| {
            let reply = rpc_reply(view)?;
            let write_chunks = &view.transaction.write_chunks;
            write_chunks.iter().find(|chunk| chunk.segments.is_empty())?;
            let header = reply.header()?;
            let filled = { write_chunks.iter().zip(header.writes().iter()) }
                .find(|(chunk, copy)| chunk.segments.is_empty() && !copy.target.is_empty());
            let fault = filled.map(|(_, copy)| {
                let offset = copy.target.iter().next().map_or(0, |segment| segment.offset);
                let count = CountWithNoun(copy.target.len(), "segment");
                (format!("{count} in a Write chunk that was offered empty"), offset)
            });
            Some(RuleVerdict::from_fault(fault).at_field(field_names::RPCORDMA_RDMA_OFFSET))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/empty-for-one",
        severity: Severity::Info,
        section: "RFC 8166 section 4.3.2.3",
        requirement: "Observation: a Requester offers a Write chunk without bytes for the only data item of a reply.",
        explanation: "To have a single item inline, a Requester leaves the Write list empty: an empty chunk is for one of \
            several items. It costs eight bytes in call and reply, and a Responder may not expect it. A chunk whose \
            segments have no bytes requests the same (RFC 5667 section 5). Example: a call with one READ, and a Write list \
            of one chunk without segments: \"an empty Write chunk for the only data item\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::WriteChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call())?;
            let chunks = &message.transaction.transaction.write_chunks;
            let [only] = chunks.as_slice() else { return None };
            let reads = message.transaction.eligible_reads()?;
            let is_meant = !(requests_inline(only) && reads.len() == 1);
            let kind = if only.segments.is_empty() { "an empty Write chunk" } else { "a Write chunk without bytes" };
            Some(RuleVerdict::from_condition(is_meant, || format!("{kind} for the only data item")))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/write-list-unneeded",
        severity: Severity::Warning,
        section: "RFC 8166 section 4.3.2",
        requirement: "A call whose reply cannot have a DDP-eligible data item has no Write list.",
        explanation: "The Requester registers memory in vain, and the Responder may refuse the call. Example: a GETATTR with \
            a Write list: \"1 Write chunk, no operation returns data for them\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::WriteChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(write_list_unneeded),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/chunk-too-small",
        section: "RFC 8166 section 3.4.6",
        requirement: "A Write chunk holds all the data that its READ requests.",
        explanation: "The Responder cannot return the data if the file has it: it answers ERR_CHUNK, or ends the connection. \
            Example: a client requests 4,096 bytes, and registers 4,000: \"Write chunk of 4000 bytes for a READ of 4096 \
            bytes\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Transaction(|view| judge_chunk_sizes(view, |chunk, count| chunk >= u64::from(count))),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/chunk-roundup",
        severity: Severity::Warning,
        section: "RFC 8166 section 3.4.6.2",
        requirement: "A Write chunk has no room for roundup (SHOULD NOT).",
        explanation: "A Responder never writes roundup there. The extra bytes cost a larger registration. Example: a client \
            requests the last 4,095 bytes of a file, and registers a word more than needed: \"Write chunk of 4096 bytes for \
            a READ of 4095 bytes\".",
        subjects: &[RequiredMessageProperty::WriteChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Transaction(|view| {
            judge_chunk_sizes(view, |chunk, count| {
                let fill = roundup(count as usize) as u64;
                fill == 0 || chunk != u64::from(count) + fill
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/ranges-overlap",
        severity: Severity::Warning,
        section: "RFC 8166 section 4.4.1",
        requirement: "Calls in flight at the same time do not offer overlapping memory of which one range is for results.",
        explanation: "The results of one call overwrite the data of the other. One handle in many calls is legal, one range \
            is not. Example: the buffers of two READs in flight overlap by half a page: \"2048 bytes, handle 0x0a010200, \
            offset 0x20100800, also memory of XID 0x00000102\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::ChunkLists,
            RequiredCaptureEvidence::NoLoss,
        ],
        check: RuleCheck::Transaction(|view| {
            view.version1_call()?;
            view.offered_chunks().next()?;
            Some(match view.overlap {
                None => RuleVerdict::Kept,
                Some(overlap) if !overlap.is_certain => RuleVerdict::Unknown,
                Some(overlap) => RuleVerdict::broken((
                    format!(
                        "{}, handle {}, offset 0x{:x}, also memory of XID {}",
                        CountWithNoun(overlap.length, "byte"),
                        overlap.handle,
                        overlap.offset,
                        overlap.xid
                    ),
                    overlap.handle.0,
                ))
                .by(view.requester())
                .at_field(field_names::RPCORDMA_RDMA_HANDLE),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/too-complex",
        severity: Severity::Warning,
        section: "RFC 8267 section 6.4.2",
        requirement: "An NFSv4 call has at most one Read chunk beside the Position-Zero Read chunk, one Write chunk, and 16 \
            segments in each chunk (SHOULD).",
        explanation: "Servers need not support more: they answer ERR_CHUNK or GARBAGE_ARGS. The client SHOULD NOT repeat the \
            call, because the result would be the same; the text says if it did. If the server accepted the call, the \
            finding is info. Example: a client registers each page of a \
            READ on its own: \"0 Read chunks, 1 Write chunk, up to 17 segments in a chunk\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(too_complex),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/simple-refused",
        section: "RFC 8267 section 6.4.2",
        requirement: "A server processes NFSv4 calls with at most one Read chunk beside the Position-Zero Read chunk, one \
            Write chunk, and 16 segments in each chunk.",
        explanation: "The client cannot make the call simpler. ERR_CHUNK has other causes, too: it is judged only in a \
            session, where the call is free of faults, each Write chunk holds all the data of its READ, and the Reply chunk \
            or the inline threshold a reply of ca_maxresponsesize. Example: a server accepts eight segments, and the client \
            sends twelve: \"ERR_CHUNK for a Reply chunk, with up to 12 segments in a chunk\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reply, RequiredMessageProperty::Compound],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::ChunkLists,
            RequiredCaptureEvidence::WholeMessage,
        ],
        check: RuleCheck::Transaction(simple_refused),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/retry-same-xid",
        severity: Severity::Info,
        section: "RFC 8267 section 3.1",
        requirement: "Observation: a call that repeats one that was answered ERR_CHUNK does not have a new XID.",
        explanation: "The server may answer the repetition from its cache of replies, with the error of the first try. \
            Example: a client repeats GETATTR with a larger Reply chunk, and does not change the XID: \"XID 0x00000102 again \
            after ERR_CHUNK\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Refusal],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Transaction(|view| {
            let call = view.version1_call()?;
            let xid = view.transaction.xid;
            let was_refused = view.connection.refused_xids.contains(&(view.transaction.direction, xid));
            // A repetition soon after the error is a copy of the same Call.
            let is_refused_copy = call.record.retransmissions > 0
                && view.message(RpcMessageKind::Reply).is_some_and(|reply| {
                    let repeated = call.record.frames.last() > reply.record.frames.first();
                    repeated && reply.header().is_some_and(|header| header.error() == Some(REFUSED))
                });
            if view.connection.refused_xids.is_empty() && !is_refused_copy {
                return None;
            }
            let text = || format!("XID {xid} again after ERR_CHUNK");
            let verdict = RuleVerdict::from_condition(!was_refused && !is_refused_copy, text);
            Some(verdict.by(view.requester()).at_field(field_names::RPCORDMA_XID))
        }),
        ..Rule::DEFAULT
    },
];
