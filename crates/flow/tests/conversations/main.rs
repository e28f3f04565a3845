//! Generated conversations of NFS over RDMA, valid according to the RFCs. They test decoding, splicing, accounting and
//! encoding.
//!
//! The generator shares no code with the dissectors: `writer` and `fabric` encode from the RFCs alone. `CONVERSATIONS`
//! sets the number of conversations, and `SEED` repeats one run:
//!
//! ```sh
//! CONVERSATIONS=1000000 cargo test --release -p nfsrdma-flow --test conversations
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test says what is wrong by panicking, and writes small numbers"
)]

mod calls;
#[allow(dead_code, reason = "shared with the pairs of the conformance rules")]
mod fabric;
mod founding;
mod headers;
mod speech;
mod writer;

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, Dialect as Named};
use nfsrdma_dissectors::xdr::{Cursor, Encoder};
use nfsrdma_flow::chunk::{Chunk as Seen, ChunkSegment};
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction};
use nfsrdma_flow::{Flow, FlowLimits};

use calls::{Chunk, Conversation, Dice, Item, Region, ReturnedLength};
use fabric::{Fabric, Kind};
use headers::Dialect;
use writer::Way;

/// Number of conversations per connection.
const BATCH: u32 = 20;

/// Number of conversations on a connection whose client has one memory region for all segments: more than 1,000 of
/// them.
const SHARED_BATCH: u32 = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Number of conversations of a connection from which all First packets are removed in turn.
const MAX_LOST_AT_ONCE: usize = 4;

/// Observer that collects the data items of a message.
#[derive(Default)]
struct Items {
    items: Vec<(Option<Vec<u8>>, Way)>,
}

impl<'a> FieldObserver<'a> for Items {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        let is_item = ["nfs.data", "nfs.symlink.to", "nfs.symlink.linktext", "nfs.readlink.data"];
        if !is_item.contains(&field.name) {
            return;
        }
        self.items.push(match value {
            FieldValue::Bytes(bytes) | FieldValue::Text(bytes) => (Some(bytes.to_vec()), Way::Inline),
            FieldValue::Chunk(_, bytes) => (bytes.map(<[u8]>::to_vec), Way::Chunk),
            other => panic!("{other:?}"),
        });
    }
}

/// Returns the Transactions of the frames without the lost ones.
fn inspect(frames: &[Vec<u8>], lost: &[usize]) -> Vec<Transaction> {
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    let mut transactions = Vec::new();
    for (at, bytes) in frames.iter().enumerate().filter(|(at, _)| !lost.contains(at)) {
        flow.process_frame(&Frame {
            number: FrameNumber(at as u64 + 1),
            time: Timestamp(1_000_000 * at as i64),
            link: LinkType::ETHERNET,
            bytes,
            length: bytes.len() as u32,
        });
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    transactions
}

/// Compares the segments of a chunk with those offered, returned and transferred.
fn chunk(seen: &Seen, chunk: &Chunk, is_written: bool, said: &str) {
    let lengths = |segment: &ChunkSegment| (segment.handle.0, segment.offset, segment.length);
    let offered = chunk.memory.iter().map(|memory| (memory.handle, memory.offset, memory.length));
    assert!(seen.segments.iter().map(lengths).eq(offered), "{said}: {seen:?}");
    for (segment, part) in seen.segments.iter().zip(chunk.parts()) {
        assert_eq!(segment.moved_coverage.total_bytes(), part.len() as u64, "{said}: {segment:?}");
        if is_written {
            // A chunk returned without segments has no lengths.
            assert_eq!(segment.returned_length.unwrap_or(0) as usize, part.len(), "{said}: {segment:?}");
        }
    }
}

fn items(transaction: &Transaction, which: RpcMessageKind, expected: &[Item], said: &str) {
    let mut observed = Items::default();
    let read = transaction
        .with_messages(|reading| reading.observe_rpc(which, &mut observed).map_err(|error| error.to_string()));
    assert_eq!(read, Ok(()), "{said}: {which:?}");
    let expected: Vec<_> = expected.iter().map(|item| (Some(item.bytes.clone()), item.way)).collect();
    let brief = |items: &[(Option<Vec<u8>>, Way)]| -> Vec<_> {
        items.iter().map(|(bytes, way)| (bytes.as_ref().map(Vec::len), *way)).collect()
    };
    assert!(
        observed.items == expected,
        "{said}: {which:?} has {:?}, not {:?}",
        brief(&observed.items),
        brief(&expected)
    );
}

/// Compares a complete Transaction with its conversation.
fn hold(transaction: &Transaction, conversation: &Conversation, said: &str) {
    let said = format!("{said}, XID {:#x}, NFSv{}", conversation.xid, conversation.version);
    let facts = transaction.with_messages(|reading| reading.summary());
    assert_eq!((facts.call_error, facts.reply_error), (None, None), "{said}");
    assert_eq!(facts.version, Some(conversation.version), "{said}");
    items(transaction, RpcMessageKind::Call, &conversation.arguments, &said);
    items(transaction, RpcMessageKind::Reply, &conversation.results, &said);
    assert_eq!(transaction.read_chunks.len(), conversation.reads.len(), "{said}");
    for (seen, (position, read)) in transaction.read_chunks.iter().zip(&conversation.reads) {
        assert_eq!(seen.position, Some(*position), "{said}");
        chunk(seen, read, false, &said);
    }
    assert_eq!(transaction.write_chunks.len(), conversation.writes.len(), "{said}");
    for (seen, write) in transaction.write_chunks.iter().zip(&conversation.writes) {
        chunk(seen, write, true, &said);
    }
    assert_eq!(transaction.reply_chunk.is_some(), conversation.reply_chunk.is_some(), "{said}");
    for (seen, reply) in transaction.reply_chunk.iter().zip(&conversation.reply_chunk) {
        chunk(seen, reply, true, &said);
    }
    assert_eq!(transaction.reply_read_chunks.len(), conversation.reply_reads.len(), "{said}");
    for (seen, (position, read)) in transaction.reply_read_chunks.iter().zip(&conversation.reply_reads) {
        assert_eq!(seen.position, Some(*position), "{said}");
        chunk(seen, read, false, &said);
    }
    dialect(transaction, conversation, &said);
    let lengths =
        [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| transaction.rpc_length(which).unwrap() as usize);
    // XDR fill bytes are not sent in chunks, and a Position-Zero Read chunk has none.
    let [call, reply] = conversation.whole_lengths;
    assert_eq!(lengths, [call, reply], "{said}");
    for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
        transaction.with_messages(|reading| {
            let again = reading.reencode(which).unwrap().unwrap();
            assert!(again.header.is_same(), "{said}: header of the {which:?}");
            assert!(again.message.is_same(), "{said}: {which:?}");
            let positions: Vec<_> = again.splices.iter().map(|splice| splice.position as u32).collect();
            let item_positions = |reads: &[(u32, Chunk)]| -> Vec<u32> {
                let mut positions: Vec<_> = reads.iter().map(|(position, _)| *position).filter(|at| *at > 0).collect();
                positions.sort_unstable();
                positions.dedup();
                positions
            };
            if which == RpcMessageKind::Call {
                assert_eq!(positions, item_positions(&conversation.reads), "{said}");
            } else if !conversation.reply_reads.is_empty() {
                assert_eq!(positions, item_positions(&conversation.reply_reads), "{said}");
            } else {
                let filled = conversation.writes.iter().enumerate().filter(|(_, write)| !write.content.is_empty());
                let ordinals = again.splices.iter().map(|splice| splice.ordinal);
                assert!(ordinals.eq(filled.map(|(at, _)| at)), "{said}: {:?}", again.splices);
            }
        });
    }
}

/// Compares the dialect of a Transaction, and the number of Sends of each message, with its conversation.
fn dialect(transaction: &Transaction, conversation: &Conversation, said: &str) {
    let (call, reply) = (transaction.call.as_ref().unwrap(), transaction.reply.as_ref().unwrap());
    let sends = [&conversation.call_sends, &conversation.reply_sends].map(|sends| sends.len() as u32);
    assert_eq!([call.sends, reply.sends], sends, "{said}");
    let seen = [call, reply].map(|message| message.dialect().unwrap());
    assert_eq!(seen[0], seen[1], "{said}");
    let is_padded = conversation.padding > 0;
    let expected = match conversation.dialect {
        Dialect::Prototype => &[Named::Prototype][..],
        Dialect::Rfc5666 if is_padded || conversation.done.is_some() => &[Named::Rfc5666],
        // Headers common to both are attributed to RFC 5666 once another message proves it.
        Dialect::Rfc5666 => &[Named::Rfc5666, Named::Rfc8166],
        Dialect::Rfc8166 => &[Named::Rfc8166],
        Dialect::Version2 => &[Named::Version2],
    };
    assert!(expected.contains(&seen[0]), "{said}: {}", seen[0]);
}

/// Asserts that every header encodes to the bytes it was decoded from.
fn encoded_again(conversation: &Conversation, controls: &[Vec<u8>], said: &str) {
    let named = match conversation.dialect {
        Dialect::Prototype => Named::Prototype,
        Dialect::Rfc5666 | Dialect::Rfc8166 => Named::Rfc8166,
        Dialect::Version2 => Named::Version2,
    };
    let sends = conversation.call_sends.iter().chain(&conversation.reply_sends);
    for bytes in sends.chain(&conversation.done).chain(controls) {
        let mut cursor = Cursor::new(bytes);
        let header = AnyDialectHeader::decode(named, &mut cursor, &mut NullFieldObserver).expect(said);
        let mut encoder = Encoder::new();
        header.encode(&mut encoder);
        assert_eq!(encoder.bytes(), &bytes[..cursor.at()], "{said}: {header:?}");
    }
}

fn batch(seed: u64, kind: Kind) {
    let mut dice = Dice::new(seed);
    let spoken = Dialect::ALL[dice.below(4)];
    let mut handles = Region::Each(0x1000 * (seed as u32 & 0xff));
    let first = 0x4000_0000 + (seed as u32 & 0xffff) * 64;
    let conversations: Vec<_> =
        (first..first + BATCH).map(|xid| Conversation::roll(&mut dice, spoken, xid, &mut handles)).collect();
    check(seed, &mut dice, &conversations, kind);
}

/// Length of the region of a client that has one for all its memory: room for many more segments than are in use.
const REGION_BYTES: u64 = 64 << 20;

/// Lengths of regions whose buffers are soon used again, with the distances of the buffers: room for the Calls in
/// flight.
const SMALL_REGIONS: [(u64, u64); 2] = [(512 << 10, 1), (4 << 20, 64 << 10)];

fn roll_shared(dice: &mut Dice, (length, distance): (u64, u64)) -> Vec<Conversation> {
    let spoken = Dialect::ALL[dice.below(4)];
    let mut region = Region::One { handle: 0x1efe_b624, free: 0, length, distance };
    (0..SHARED_BATCH).map(|at| Conversation::roll(dice, spoken, 0x4000_0000 + at, &mut region)).collect()
}

/// Generates and checks a connection of a client with one memory region.
fn shared_batch(seed: u64, kind: Kind) {
    let mut dice = Dice::new(seed);
    let conversations = roll_shared(&mut dice, (REGION_BYTES, 1));
    check(seed, &mut dice, &conversations, kind);
}

/// Generates a connection of a client with a small memory region, of which the capture lacks some Replies. The others
/// are complete, and have their own data.
fn lossy_shared_batch(seed: u64, region: (u64, u64)) {
    let mut dice = Dice::new(seed);
    let conversations = roll_shared(&mut dice, region);
    let mut fabric = Fabric::new(Kind::Roce, [256, 512, 1024][dice.below(3)]);
    speech::greet(&mut dice, conversations[0].dialect, &mut fabric);
    speech::speak(&mut dice, &conversations, &mut fabric);
    let first_reply = fabric.first_reply.unwrap_or(0);
    let mut lost = fabric.replies.clone();
    lost.retain(|(_, frames)| frames.start > first_reply && dice.one_in(5));
    let lost_frames: Vec<_> = lost.iter().flat_map(|(_, frames)| frames.clone()).collect();
    let transactions = inspect(&fabric.frames, &lost_frames);
    for conversation in &conversations {
        let said = format!("SEED={seed} {:?}, lost {lost:x?}", conversation.dialect);
        let transaction = transactions.iter().find(|one| one.xid.0 == conversation.xid).expect(&said);
        if lost.iter().any(|(xid, _)| *xid == conversation.xid) {
            assert!(transaction.reply.is_none(), "{said}");
            continue;
        }
        assert_eq!(transaction.missing_parts(), [], "{said}, XID {:#x}", conversation.xid);
        hold(transaction, conversation, &said);
    }
}

/// Sends conversations over a connection, and compares the Transactions with them.
fn check(seed: u64, dice: &mut Dice, conversations: &[Conversation], kind: Kind) {
    let spoken = conversations[0].dialect;
    let mtu = [256, 512, 1024][dice.below(3)];
    let mut fabric = Fabric::new(kind, mtu);
    let controls = speech::greet(dice, spoken, &mut fabric);
    speech::speak(dice, conversations, &mut fabric);

    let said = format!("SEED={seed} {kind:?} {spoken:?}");
    let transactions = inspect(&fabric.frames, &[]);
    assert_eq!(transactions.len(), conversations.len(), "{said}");
    for conversation in conversations {
        let transaction = transactions.iter().find(|one| one.xid.0 == conversation.xid).expect(&said);
        assert_eq!(transaction.missing_parts(), [], "{said}");
        assert_eq!(transaction.is_done, conversation.done.is_some(), "{said}");
        hold(transaction, conversation, &said);
        encoded_again(conversation, &controls, &said);
    }

    firsts(&fabric, mtu, &said);
    all_firsts(&fabric, mtu, &said);

    // A Transaction reported as complete is complete, whatever frame was lost.
    let lost = dice.below(fabric.frames.len());
    let said = format!("{said} without frame {}", lost + 1);
    for transaction in inspect(&fabric.frames, &[lost]) {
        let conversation = conversations.iter().find(|one| one.xid == transaction.xid.0);
        let conversation = conversation.unwrap_or_else(|| panic!("{said}: {} was invented", transaction.xid.0));
        let is_read = |chunk: &Seen| chunk.moved_bytes() == chunk.offered_bytes();
        // Nothing proves that the server read the data of operations that were not executed.
        if conversation.fails && !transaction.read_chunks.iter().all(is_read) {
            continue;
        }
        if transaction.missing_parts().is_empty() {
            hold(&transaction, conversation, &said);
        }
    }
}

/// A lost First packet of an RDMA Write costs only its own bytes, however the Calls interleave, once both directions
/// are paired. Only for RoCE, where Last packets mark the end of an RDMA Write. Over iWARP every segment has its own
/// destination, but without CRC a lost TCP segment may take further FPDUs with it until resynchronization.
fn firsts(fabric: &Fabric, mtu: usize, said: &str) {
    let is_known = |lost: &usize| *lost > fabric.first_reply.unwrap_or(usize::MAX);
    for lost in fabric.write_firsts.iter().copied().filter(is_known) {
        for transaction in inspect(&fabric.frames, &[lost]) {
            if transaction.call.is_none() || transaction.reply.is_none() {
                continue;
            }
            let chunks = transaction.write_chunks.iter().chain(&transaction.reply_chunk);
            let missing = chunks.flat_map(|chunk| chunk.missing(|segment| segment.returned_length.unwrap_or(0).into()));
            let missing: u64 = missing.map(|range| range.end - range.start).sum();
            assert!(
                missing <= mtu as u64,
                "{said} without frame {}: {missing} bytes are missing of XID {:#x}",
                lost + 1,
                transaction.xid.0
            );
        }
    }
}

/// All First packets of the RDMA Writes of a Call that is alone on the connection cost only their own bytes: PSNs are
/// contiguous.
fn all_firsts(fabric: &Fabric, mtu: usize, said: &str) {
    let is_known = |firsts: &[usize]| {
        let reply = fabric.first_reply.unwrap_or(usize::MAX);
        firsts.len() > 1 && firsts.iter().all(|first| *first > reply)
    };
    for (xid, firsts) in fabric.firsts_alone.iter().filter(|(_, firsts)| is_known(firsts)).take(MAX_LOST_AT_ONCE) {
        let transactions = inspect(&fabric.frames, firsts);
        let transaction = transactions.iter().find(|one| one.xid.0 == *xid).expect(said);
        let chunks = transaction.write_chunks.iter().chain(&transaction.reply_chunk);
        let missing = chunks.flat_map(|chunk| chunk.missing(|segment| segment.returned_length.unwrap_or(0).into()));
        let missing: u64 = missing.map(|range| range.end - range.start).sum();
        let said = format!("{said} without frames {firsts:?} of XID {xid:#x}");
        assert_eq!(missing, (firsts.len() * mtu) as u64, "{said}");
    }
}

/// Returns the seeds of a share of the conversations, in batches of `size`.
fn seeds(share: u64, size: u32) -> Range<u64> {
    match std::env::var_os("SEED") {
        Some(_) => {
            let seed = number("SEED", 0);
            seed..seed + 1
        }
        None => 0..(number("CONVERSATIONS", 2000) / share).div_ceil(size.into()),
    }
}

/// A Write chunk may include the roundup of its item. With any other length, its Transaction is not complete, but
/// decoded to its end.
#[test]
fn generated_write_chunks_of_another_length_than_their_item_are_reported() {
    let count = number("CONVERSATIONS", 2000).div_ceil(u64::from(BATCH) * 4);
    let mut changed = [0; 3];
    for seed in 0..count {
        let lengths = [ReturnedLength::WithRoundup, ReturnedLength::Shorter, ReturnedLength::Longer];
        for (count, returned) in changed.iter_mut().zip(lengths) {
            let mut dice = Dice::new(seed);
            let spoken = [Dialect::Rfc5666, Dialect::Rfc8166, Dialect::Version2][dice.below(3)];
            let kind = [Kind::Roce, Kind::Iwarp][dice.below(2)];
            let (mut handles, xids) = (Region::Each(0x1000), 0x4000_0000..0x4000_0000 + BATCH);
            let roll = |xid| Conversation::roll_returning(returned, &mut dice, spoken, xid, &mut handles);
            let conversations: Vec<_> = xids.map(roll).collect();
            let mut fabric = Fabric::new(kind, 1024);
            speech::speak(&mut dice, &conversations, &mut fabric);
            for transaction in inspect(&fabric.frames, &[]) {
                let said = format!("seed {seed}, {kind:?} {spoken:?}, {returned:?}, XID {:?}", transaction.xid);
                let conversation = conversations.iter().find(|it| it.xid == transaction.xid.0).expect(&said);
                let summary = transaction.with_messages(|reading| reading.summary());
                let reason = summary.reply_error.map(|error| error.reason().to_string());
                let expected = match conversation.other_length {
                    Some((at, chunk, item)) if chunk < item => {
                        Some(format!("{chunk} of {item} bytes in Write chunk {at}"))
                    }
                    Some((at, chunk, item)) if returned == ReturnedLength::Longer => {
                        Some(format!("{chunk} bytes for an item of {item} in Write chunk {at}"))
                    }
                    _ => None,
                };
                *count += u32::from(conversation.other_length.is_some());
                assert_eq!(reason, expected, "{said}");
                let missing = summary.missing(&transaction).iter().map(ToString::to_string).collect::<String>();
                match expected {
                    Some(_) => assert!(missing.starts_with("undecoded:reply:"), "{said}: {missing}"),
                    None => assert_eq!(missing, "", "{said}"),
                }
                let mut observed = Items::default();
                let _ = transaction.with_messages(|reading| reading.observe_rpc(RpcMessageKind::Reply, &mut observed));
                let ways = observed.items.iter().map(|(_, way)| *way);
                assert!(ways.eq(conversation.results.iter().map(|item| item.way)), "{said}: {:?}", observed.items);
            }
        }
    }
    assert!(changed.iter().all(|count| u64::from(*count) > count.div_ceil(2).into()), "{changed:?}");
}

#[test]
fn generated_conversations_over_rocev2_are_decoded_accounted_and_encoded() {
    seeds(2, BATCH).for_each(|seed| batch(seed, Kind::Roce));
}

#[test]
fn generated_conversations_over_iwarp_are_decoded_accounted_and_encoded() {
    seeds(2, BATCH).for_each(|seed| batch(seed, Kind::Iwarp));
}

/// A client with one memory region for all its segments; RDMA Writes are repeated after the Replies.
#[test]
fn shared_region_over_rocev2() {
    seeds(5, SHARED_BATCH).for_each(|seed| shared_batch(seed, Kind::Roce));
}

/// Calls without Replies keep the memory that the client uses again.
#[test]
fn shared_region_without_some_replies() {
    for region in SMALL_REGIONS {
        seeds(5, SHARED_BATCH).for_each(|seed| lossy_shared_batch(seed, region));
    }
}

/// The directions of the connection are joined after a Reply with Read chunks.
#[test]
fn reads_of_a_reply_survive_the_join() {
    shared_batch(41, Kind::Roce);
}

#[test]
fn shared_region_over_iwarp() {
    seeds(5, SHARED_BATCH).for_each(|seed| shared_batch(seed, Kind::Iwarp));
}
