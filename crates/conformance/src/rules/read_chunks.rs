//! Read chunks: RFC 8166 sections 3.4.3 to 3.4.5 and 3.5.3.

use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_flow::read_list::{PositionChunks, ReadList};
use nfsrdma_flow::transaction_message_decoding::{NeededReads, ProcedureOrMainOperation};

use super::prelude::*;

/// Returns the Positions of the data items of a message, with the bytes that the chunks of each offer.
fn item_positions(message: &ConformanceMessage<'_>) -> impl Iterator<Item = (u32, u64)> + Clone + use<> {
    let reads = ReadList::new(message.read_chunks());
    let items = reads.items().filter_map(|chunks| Some((chunks.position()?, chunks.offered_bytes())));
    items.collect::<Vec<_>>().into_iter()
}

/// Returns `true` for Read chunks that a Responder cannot use, so that it need not read them: the arguments have no data
/// item at their Position, or are protected (RFC 8166 section 8.2.2.3).
fn is_unusable(view: &ConformanceTransaction<'_>, chunks: PositionChunks<'_, '_>) -> bool {
    let Some(position) = chunks.position().filter(|position| *position > 0) else { return false };
    let items = view.eligible_items(RpcMessageKind::Call);
    view.is_protected()
        || items.is_some_and(|items| items.error.is_none() && items.at_position(position).is_none())
        || view.has_eligible_arguments() == Some(false)
}

/// Returns the number of bytes that the Position-Zero Read chunk of a message offers.
fn long_chunk_bytes(message: &ConformanceMessage<'_>) -> Option<u64> {
    ReadList::new(message.read_chunks()).position_zero().map(PositionChunks::offered_bytes)
}

/// Returns `true` if a Position in a Long Call belongs to a segment of the Position-Zero Read chunk: no data item is
/// there, the rest of the payload is missing, and the segment is its end or no item lacks its data.
fn is_long_segment(message: &ConformanceMessage<'_>, position: u32) -> bool {
    let Some(long_bytes) = long_chunk_bytes(message).filter(|_| message.is_proc(RdmaProc::RDMA_NOMSG)) else {
        return false;
    };
    let view = message.transaction;
    if !position.is_multiple_of(4) || view.summary.decode_error(view.transaction, message.kind).is_none() {
        return false;
    }
    let Some(items) = view.eligible_items(message.kind) else { return true };
    let is_end = long_bytes == u64::from(position);
    !items.is_cut() && items.at_position(position).is_none() && (is_end || items.items.is_empty())
}

fn position_unaligned(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    let positions = message.read_chunks().iter().filter_map(|chunk| chunk.position);
    let verdict = RuleVerdict::of_items(positions, |position| {
        (position % 4 != 0).then(|| (format!("Position {position}"), position))
    })?;
    Some(verdict.at_field(field_names::RPCORDMA_POSITION))
}

fn position_zero(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_call())?;
    long_chunk_bytes(message)?;
    if message.is_proc(RdmaProc::RDMA_MSG) {
        let verdict = RuleVerdict::broken(("Position zero in an RDMA_MSG, which has a payload".to_owned(), 0_u32));
        return Some(verdict.with_severity(Severity::Warning).at_field(field_names::RPCORDMA_POSITION));
    }
    let mut positions = item_positions(message).map(|(position, _)| position);
    let elsewhere = positions.find(|position| is_long_segment(message, *position));
    let fault = elsewhere
        .map(|position| (format!("a segment of the Position-Zero Read chunk has Position {position}"), position));
    Some(RuleVerdict::from_fault(fault).at_field(field_names::RPCORDMA_POSITION))
}

fn position_without_item(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_call() && message.transaction.is_plain())?;
    item_positions(message).next()?;
    if message.transaction.has_eligible_arguments() == Some(false) {
        return None;
    }
    let items = message.transaction.eligible_items(RpcMessageKind::Call)?;
    match items.error {
        Some(XdrError::NotEligible { .. }) => return None,
        _ if !message.is_whole() => return Some(RuleVerdict::Unknown),
        Some(error) if error.is_cut() => return Some(RuleVerdict::Unknown),
        // The data of an item is missing, or the error has another reason.
        Some(_) if items.items.is_empty() => return Some(RuleVerdict::Unknown),
        _ => {}
    }
    let mut positions = item_positions(message).map(|(position, _)| position);
    // rpcrdma/position-unaligned judges other Positions.
    let stray = positions.find(|position| {
        position % 4 == 0 && items.at_position(*position).is_none() && !is_long_segment(message, *position)
    });
    let fault = stray.map(|position| {
        let item_positions: Vec<String> = items.items.iter().map(|item| item.position.to_string()).collect();
        (format!("Position {position}, the data items are at {}", item_positions.join(", ")), position)
    });
    Some(RuleVerdict::from_fault(fault).at_field(field_names::RPCORDMA_POSITION))
}

/// Compares the length of each Read chunk with that of its data item.
fn check_item_lengths(
    message: &ConformanceMessage<'_>,
    is_kept: fn(chunk_bytes: u64, item_bytes: u32) -> bool,
) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_call())?;
    let positions = item_positions(message);
    positions.clone().next()?;
    let items = message.transaction.eligible_items(RpcMessageKind::Call)?;
    let lengths =
        positions.filter_map(|(position, bytes)| Some((position, bytes, items.at_position(position)?.length)));
    let verdict = RuleVerdict::of_items(lengths, |(position, chunk, item)| {
        let text =
            || format!("Read chunk of {}, data item of {}", CountWithNoun(chunk, "byte"), CountWithNoun(item, "byte"));
        (!is_kept(chunk, item)).then(|| (text(), position))
    })?;
    Some(verdict.at_field(field_names::RPCORDMA_POSITION))
}

fn with_roundup(length: u32) -> u64 {
    u64::from(length).next_multiple_of(4)
}

fn item_length(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    let verdict = check_item_lengths(message, |chunk, item| chunk == u64::from(item) || chunk == with_roundup(item))?;
    // The peer of a client that appends the end of the Call to the chunk can decode it.
    let has_tail = || message.is_proc(RdmaProc::RDMA_MSG) && message.transaction.transaction.has_call_tail();
    Some(match verdict {
        RuleVerdict::Broken(_) if has_tail() => verdict.with_severity(Severity::Info),
        verdict => verdict,
    })
}

fn roundup_left(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_proc(RdmaProc::RDMA_MSG))?;
    let is_reduced = match message.kind {
        RpcMessageKind::Call => item_positions(message).next().is_some(),
        RpcMessageKind::Reply => {
            let chunks = &message.transaction.transaction.write_chunks;
            chunks.iter().any(|chunk| chunk.returned_bytes().is_some_and(|bytes| bytes > 0))
        }
    };
    let length = message.record.inline_length().filter(|_| is_reduced)?;
    if !message.is_whole() {
        return Some(RuleVerdict::Unknown);
    }
    Some(RuleVerdict::from_condition(length % 4 == 0, || {
        format!(
            "{length} of payload: {} of roundup of a reduced item",
            CountWithNoun(length % 4, "byte"),
            length = CountWithNoun(length, "byte")
        )
    }))
}

fn long_roundup(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_proc(RdmaProc::RDMA_NOMSG))?;
    let (name, length) = match message.kind {
        RpcMessageKind::Call => ("Position-Zero Read chunk", long_chunk_bytes(message)?),
        RpcMessageKind::Reply => ("Reply chunk", message.reply_chunk_bytes()?),
    };
    Some(RuleVerdict::from_condition(length % 4 == 0, || {
        format!("{name} with {length}, {} more than whole words", length % 4, length = CountWithNoun(length, "byte"))
    }))
}

/// Returns the number of bytes of the Read chunks of a Position that the Responder needs: the data item without roundup, or
/// what a WRITE has written of it. One byte, if the item is not known.
fn needed_bytes(view: &ConformanceTransaction<'_>, needed: &NeededReads, chunks: PositionChunks<'_, '_>) -> u64 {
    let (position, offered_bytes) = (chunks.position(), chunks.offered_bytes());
    let is_item_unknown = |position: u32| {
        let items = view.eligible_items(RpcMessageKind::Call);
        items.is_none_or(|items| items.error.is_some() && items.at_position(position).is_none())
    };
    match needed.bytes_at(position, offered_bytes) {
        Some(bytes) if position == Some(0) || !position.is_some_and(is_item_unknown) => bytes,
        _ => offered_bytes.min(1),
    }
}

/// Returns the number of needed bytes of the Read chunks of a Position for which the Responder sent no RDMA Read, and
/// that of all needed ones, if it did not read all of them.
fn unread_bytes(
    view: &ConformanceTransaction<'_>,
    needed: &NeededReads,
    chunks: PositionChunks<'_, '_>,
) -> Option<(u64, u64)> {
    let offered_bytes = chunks.offered_bytes();
    let read_of = |chunk: &Chunk| chunk.requested_bytes.max(chunk.moved_bytes()).min(chunk.offered_bytes());
    let read: u64 = chunks.chunks().map(read_of).sum();
    // Without the length of a request, it may have been for all bytes of its chunk.
    if read >= offered_bytes || chunks.chunks().any(|chunk| read_of(chunk) == 0 && chunk.times.is_some()) {
        return None;
    }
    let needed = needed_bytes(view, needed, chunks);
    if read == 0 && needed > 0 {
        return Some((offered_bytes, offered_bytes));
    }
    (read < needed).then(|| (needed - read, needed))
}

/// Returns the name of the procedure, or of the main operation of a COMPOUND.
fn operation_name(view: &ConformanceTransaction<'_>) -> &'static str {
    match view.summary.operation {
        Some(ProcedureOrMainOperation::Named(name)) => name,
        _ => view.summary.procedure_name.unwrap_or("an unknown procedure"),
    }
}

fn not_eligible(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.transaction.is_plain())?;
    let view = message.transaction;
    let name = || operation_name(view);
    match message.kind {
        RpcMessageKind::Call => {
            let mut positions = item_positions(message).map(|(position, _)| position);
            positions.find(|position| !is_long_segment(message, *position))?;
            if !message.is_whole() {
                return Some(RuleVerdict::Unknown);
            }
            let items = view.eligible_items(RpcMessageKind::Call)?;
            if let Some(XdrError::NotEligible { at }) = items.error {
                return Some(RuleVerdict::broken(format!("a Read chunk replaces the item at byte {at} of {}", name())));
            }
            Some(match view.has_eligible_arguments() {
                Some(true) => RuleVerdict::Kept,
                Some(false) => RuleVerdict::broken(format!("a Read chunk for {}", name())),
                None => RuleVerdict::Unknown,
            })
        }
        RpcMessageKind::Reply => {
            let chunks = &view.transaction.write_chunks;
            let returned: u64 = chunks.iter().filter_map(Chunk::returned_bytes).sum();
            view.arguments.filter(|_| returned > 0)?;
            Some(match view.eligible_reads() {
                None => RuleVerdict::Unknown,
                Some(reads) => RuleVerdict::from_condition(!reads.is_empty(), || {
                    format!("{returned} of {} in a Write chunk", name(), returned = CountWithNoun(returned, "byte"))
                }),
            })
        }
    }
}

/// Returns `true` if a fault of a chunk makes a message undecodable.
pub(super) fn explains_decode_error(message: &ConformanceMessage<'_>) -> bool {
    let checks = [
        position_unaligned,
        position_zero,
        position_without_item,
        item_length,
        roundup_left,
        long_roundup,
        not_eligible,
    ];
    checks.iter().any(|check| matches!(check(message), Some(RuleVerdict::Broken(_))))
        || (!message.is_call() && super::write_chunks::explains_decode_error(message))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/reply-read-list",
        section: "RFC 8166 section 4.3.1",
        requirement: "The Read list of a reply is empty.",
        explanation: "RFC 5666 let a Requester read results from the Responder, and end the transfer with RDMA_DONE; RFC \
            8166 removed both. A connection on which the Requester fetches such results is of RFC 5666, and not judged. \
            Otherwise the Requester ignores the list, or the connection ends. Example: a reply of READ offers its data in a \
            Read chunk, and the client does not read it: \"1 Read chunk in a reply\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        suspects: &[RequiredMessageProperty::ReadChunks],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| !message.is_call())?;
            let chunks = message.read_chunks();
            let transaction = message.transaction.transaction;
            let is_fetched = transaction.is_done || chunks.iter().any(|chunk| chunk.moved_bytes() > 0);
            if !chunks.is_empty() && (is_fetched || message.transaction.connection.is_rfc5666) {
                return None;
            }
            Some(
                RuleVerdict::from_condition(chunks.is_empty(), || {
                    format!("{} in a reply", CountWithNoun(chunks.len(), "Read chunk"))
                })
                .at_field(field_names::RPCORDMA_READS),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/position-unaligned",
        section: "RFC 8166 section 3.4.5",
        requirement: "The Position of a Read chunk is a multiple of four.",
        explanation: "XDR items begin at multiples of four bytes. Example: the data of a WRITE begin at byte 80 of the call, \
            and the Read chunk names 82: \"Position 82\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(position_unaligned),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/position-zero",
        section: "RFC 8166 section 3.5.3",
        requirement: "All segments of a Position-Zero Read chunk have Position zero, and the chunk comes with RDMA_NOMSG.",
        explanation: "The chunk holds the payload itself. A Responder inserts a segment with another Position behind the \
            payload as a data item of its own, and the message ends too early. With RDMA_MSG, which has a payload in the \
            Send, Position zero is ambiguous: a warning, because RFC 8166 does not forbid it. Example: a long call whose \
            second segment has the Position at which the first one ends: \"a segment of the Position-Zero Read chunk has \
            Position 48\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(position_zero),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/position-no-item",
        section: "RFC 8166 sections 3.4.5 and 4.3.1.1",
        requirement: "The Position of a Read chunk is the offset of a DDP-eligible data item in the unreduced call.",
        explanation: "The Responder inserts the chunk in the wrong place: it answers GARBAGE_ARGS, or damages data. \
            Positions count in the payload with all chunks inserted, roundup included, from the XID on. Example: the Read \
            chunk of a WRITE is four bytes before its data: \"Position 76, the data items are at 80\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(position_without_item),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/position-order",
        severity: Severity::Info,
        section: "RFC 8166 section 3.4.5",
        requirement: "Observation: Read chunks do not come in the order of their Positions, or the segments of one are not \
            consecutive.",
        explanation: "RFC 8166 permits any order, but a Responder that decodes in one pass may expect ascending Positions. \
            Example: a long call with a WRITE lists the data before the payload: \"Position 0 after Position 80\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            message.version1()?;
            let positions = message.read_chunks().iter().filter_map(|chunk| chunk.position);
            let pairs = positions.clone().zip(positions.skip(1));
            let verdict = RuleVerdict::of_items(pairs, |(first, second)| {
                (first >= second).then(|| (format!("Position {second} after Position {first}"), second))
            })?;
            Some(verdict.at_field(field_names::RPCORDMA_POSITION))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/item-length",
        section: "RFC 8166 section 3.4.5.2",
        requirement: "A Read chunk is as long as its data item, with or without roundup.",
        explanation: "The Responder finds the next argument in the wrong place, or stores too much or too little data. \
            Older Linux clients append the arguments after the data of a WRITE to its chunk, which Linux servers accept: an \
            observation. Compare the length word of the item with the sum of the segments. Example: the length word of a WRITE is 4,096, \
            and the segments of its Read chunk are four bytes shorter: \"Read chunk of 4092 bytes, data item of 4096 \
            bytes\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(item_length),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/roundup-in-chunk",
        severity: Severity::Warning,
        section: "RFC 8166 section 3.4.5.2",
        requirement: "A Read chunk does not include the roundup of its data item (SHOULD NOT).",
        explanation: "The roundup costs bytes on the wire, and often a segment of its own. Example: a WRITE of 4,095 bytes \
            with one byte of roundup in the chunk: \"Read chunk of 4096 bytes, data item of 4095 bytes\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            check_item_lengths(message, |chunk, item| item % 4 == 0 || chunk != with_roundup(item))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/roundup-left",
        section: "RFC 8166 section 3.4.4.4",
        requirement: "The roundup of a reduced data item is removed from the payload.",
        explanation: "All arguments or results after the item are misaligned for the receiver. Example: the data of a WRITE \
            are in a Read chunk, and their roundup follows the length word in the Send: \"81 bytes of payload: 1 byte of \
            roundup of a reduced item\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(roundup_left),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/long-roundup",
        section: "RFC 8166 section 3.5.3",
        requirement: "A Position-Zero Read chunk and a used Reply chunk hold whole XDR words, roundup included.",
        explanation: "Unlike a chunk of a data item, they hold a payload. Without the roundup, the receiver misses the end \
            of the last item. Example: a long call whose symbolic link of 10 bytes is not rounded up: \"Position-Zero Read \
            chunk with 58 bytes, 2 more than whole words\".",
        subjects: &[RequiredMessageProperty::LongMessage],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(long_roundup),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/read-missing",
        severity: Severity::Warning,
        section: "RFC 8166 sections 3.4.5, 3.4.5.1 and 3.5.3",
        requirement: "A Responder that executes a call has read the data items in its Read chunks, or the call, to the end.",
        explanation: "The Responder reports success without the data: it invents it, or the data went another way. It needs \
            neither roundup nor the data that a WRITE reports as not written, nor a chunk that no argument is for. A long call \
            that was accepted and not read is an error: the server cannot know what it executed. Look for RDMA Reads that \
            the capture lacks. \
            Example: a server reports success for a WRITE whose data it never fetched: \"4096 bytes at Position 80 not read\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::ChunkLists,
            RequiredCaptureEvidence::NoLoss,
        ],
        check: RuleCheck::Transaction(|view| {
            let call = view.message(RpcMessageKind::Call)?;
            call.version1()?;
            let chunks = &view.transaction.read_chunks;
            chunks.iter().find(|chunk| chunk.offered_bytes() > 0)?;
            let summary = view.summary;
            let Some(RpcStatus::Rpc(status)) = summary.rpc_status else { return None };
            let is_accepted = status.is_success();
            let is_executed = summary.status.is_some_and(|status| status.is_ok);
            // A server may decode a COMPOUND up to the operation that fails. For callbacks, see nfs/cb-chunks-refused.
            let is_compound = summary.described_procedure().is_some_and(Procedure::is_compound);
            let needs_call =
                is_executed || (is_accepted && !is_compound && view.transaction.direction == CallDirection::Forward);
            // A Call that was sent again may offer other memory.
            // The server may have the results of a Call that is repeated in its cache.
            if !needs_call || call.record.copies > 1 || view.transaction.repeats_call {
                return None;
            }
            let reads = ReadList::new(chunks);
            let mut usable = reads
                .positions()
                .filter(|chunks| chunks.position() == Some(0) || is_executed)
                .filter(|chunks| !is_unusable(view, *chunks))
                .peekable();
            usable.peek()?;
            let needed = NeededReads::new(status, view.arguments, view.results.map(|(_, results)| results));
            let unread =
                |chunks: PositionChunks<'_, '_>| Some((unread_bytes(view, &needed, chunks)?, chunks.position()));
            Some(match usable.find_map(unread) {
                None => RuleVerdict::Kept,
                // It may have meant these chunks.
                Some(_) if view.has_invalid_access => RuleVerdict::Unknown,
                Some(((unread, needed), position)) => {
                    let position = position.unwrap_or_default();
                    let prefix = if unread < needed { format!("{unread} of ") } else { String::new() };
                    let needed = CountWithNoun(needed, "byte");
                    // Without the call, its status is unknown, too: the server has accepted a call that it did not read.
                    let severity = if summary.status.is_some() { Severity::Warning } else { Severity::Error };
                    RuleVerdict::broken(format!("{prefix}{needed} at Position {position} not read"))
                        .with_severity(severity)
                }
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/not-eligible",
        section: "RFC 8267 sections 4, 5.2, 6.1 and 6.5",
        requirement: "Only data of READ and WRITE and the text of READLINK, SYMLINK and CREATE may be in Read and Write chunks.",
        explanation: "The peer decodes the item inline, because its binding says that it is there: it answers GARBAGE_ARGS, \
            or misreads the results. An early draft of RFC 8267 had READ_PLUS data in Write chunks. Data of NFSACL and of \
            callbacks is never eligible. Example: a server returns attributes of a file in a Write chunk: \"64 bytes of \
            GETATTR in a Write chunk\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(not_eligible),
        ..Rule::DEFAULT
    },
];
