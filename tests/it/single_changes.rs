//! Hundreds of changes to real captures, one at a time: every field of every operation at its first occurrence,
//! headers, a byte of file data, a length of a chunk, a missing Reply, two swapped operations ... over RoCE, TCP and
//! iWARP. `compare` and `check` report each at its frame, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use nfsrdma_analysis::baseline::{
    Baseline, BaselineComparator, BaselineReadError, BaselineRecorder, BaselineSettings, CurrentCaptureBaseline,
    OpenBaselineFile,
};
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::comparable_transaction_recorder::ComparableTransactionRecorder;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind, DifferenceSideValue};
use nfsrdma_analysis::comparison::field_equality::{FieldEqualityRequirement, requirement_of_field};
use nfsrdma_analysis::comparison::options::ComparisonOptions;
use nfsrdma_analysis::comparison::record::ComparableTransaction;
use nfsrdma_analysis::comparison::{CaptureComparator, ClientAddressAndCallDirection, ComparisonSide};
use nfsrdma_analysis::memory_budget_shares::BaselineCheckMemoryShares;
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::mutations::{Kept, frames};

fn transactions<'a>(frames: impl IntoIterator<Item = (u64, &'a Kept)>) -> (Vec<Transaction>, ComparedCaptureSummary) {
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    let mut trace = ComparedCaptureSummary::default();
    for (number, kept) in frames {
        trace.frames += 1;
        flow.process_frame(&kept.frame(number));
    }
    flow.finish();
    trace.record_flow_counts(&flow);
    (std::iter::from_fn(|| flow.next_transaction()).collect(), trace)
}

/// Changed capture; frames keep their original numbers.
struct Change {
    /// Description of the change.
    what: String,
    /// Frames that show the change.
    frames: Vec<u64>,
    /// Expected kinds of difference; any kind if empty.
    kinds: Vec<DifferenceKind>,
    /// Further differences allowed in the same Transaction.
    more: More,
    /// Capture after the change.
    after: Vec<(u64, Kept)>,
}

/// Reason why one change may cause more than one difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    /// None: one change is one difference.
    None,
    /// A structural value: a number of operations or bytes, or the arm of a union. The rest of the message is decoded
    /// differently, or not at all.
    Structure,
    /// An identifier that occurs only once: nothing contradicts it, and it is not a difference at all. Or the
    /// identifier of the Transaction, which pairs a Reply with its Call.
    Nothing,
}

fn recorded(
    recorder: &mut ComparableTransactionRecorder,
    transaction: &Transaction,
) -> (ClientAddressAndCallDirection, ComparableTransaction) {
    let address = recorder.word(&transaction.connection.client.address.to_string());
    (ClientAddressAndCallDirection { address, direction: transaction.direction }, recorder.record(transaction))
}

fn numbered(frames: &[Kept]) -> Vec<(u64, Kept)> {
    (1..).zip(frames.iter().cloned()).collect()
}

/// Capture that the changed ones are compared with.
struct Before {
    recorder: RefCell<ComparableTransactionRecorder>,
    records: Vec<(ClientAddressAndCallDirection, ComparableTransaction)>,
    baseline: Baseline,
}

impl Before {
    fn new(before: &[Kept]) -> Self {
        let mut recorder = ComparableTransactionRecorder::default();
        let (transactions, _) = transactions((1..).zip(before));
        let records = transactions.iter().map(|transaction| recorded(&mut recorder, transaction)).collect();
        Self { records, recorder: RefCell::new(recorder), baseline: baseline(before) }
    }
}

fn compared(before: &Before, after: &[Transaction]) -> Vec<Difference> {
    compared_by(ComparisonOptions::default(), before, after)
}

fn compared_by(selection: ComparisonOptions, before: &Before, after: &[Transaction]) -> Vec<Difference> {
    let mut recorder = before.recorder.borrow_mut();
    let mut comparison = CaptureComparator::new(selection, usize::MAX, 64 << 20);
    let (mut a, mut b) = (before.records.iter().cloned(), after.iter());
    let mut found = Vec::new();
    let next = |side| match side {
        ComparisonSide::A => a.next(),
        ComparisonSide::B => b.next().map(|transaction| recorded(&mut recorder, transaction)),
    };
    let Ok(()) = comparison.run(next, |difference| {
        found.push(difference);
        Ok::<_, Infallible>(())
    });
    found
}

fn after(frames: &[(u64, Kept)]) -> (Vec<Transaction>, ComparedCaptureSummary) {
    transactions(frames.iter().map(|(number, kept)| (*number, kept)))
}

const MEMORY: BaselineCheckMemoryShares =
    BaselineCheckMemoryShares { baseline_bytes: 64 << 20, text_bytes: 64 << 20, comparison_bytes: 64 << 20 };

fn recorded_baseline(
    recorder: &mut ComparableTransactionRecorder,
    transactions: &[Transaction],
    mut trace: ComparedCaptureSummary,
) -> CurrentCaptureBaseline {
    let mut recording = BaselineRecorder::new(BaselineSettings::default(), &MEMORY);
    for transaction in transactions {
        let (client, record) = recorded(recorder, transaction);
        trace.transaction(transaction, &record);
        recording.add(&client, record).unwrap();
    }
    recording.finish(&trace).unwrap()
}

/// Returns the baseline of a capture, parsed from its text.
fn baseline(before: &[Kept]) -> Baseline {
    let (transactions, trace) = transactions((1..).zip(before));
    let recorded = recorded_baseline(&mut ComparableTransactionRecorder::default(), &transactions, trace);
    let mut file = tempfile::tempfile().unwrap();
    recorded.write(&mut file).unwrap();
    OpenBaselineFile::new(file).read(MEMORY.baseline_bytes).unwrap_or_else(|e| panic!("{e}"))
}

fn checked(before: &Before, after: &[Transaction], trace: ComparedCaptureSummary) -> Vec<Difference> {
    let recorded = recorded_baseline(&mut before.recorder.borrow_mut(), after, trace);
    let mut checking = BaselineComparator::new(&before.baseline, &recorded, MEMORY.comparison_bytes);
    let mut found = Vec::new();
    let checked = checking.run(|difference| {
        found.push(difference);
        Ok::<_, BaselineReadError>(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
    found
}

/// Returns `true` if a difference is at one of the frames: of either side, or of the definition of an identity.
fn is_at(difference: &Difference, frames: &[u64]) -> bool {
    let shows = |half: &DifferenceSideValue| {
        let places = half.location.into_iter().flat_map(|place| [place.call, place.reply]).flatten();
        let mut numbers = places.chain(half.frame).map(|frame| frame.0);
        let text = half.value.as_deref().unwrap_or_default();
        let since = text.rsplit_once("in frame ").and_then(|(_, frame)| frame.parse().ok());
        numbers.any(|frame| frames.contains(&frame)) || since.is_some_and(|frame| frames.contains(&frame))
    };
    shows(&difference.a) || shows(&difference.b)
}

/// Operations whose arguments limit their results.
const LIMITED: [&str; 4] = ["SEQUENCE ", "CREATE_SESSION ", "READ ", "WRITE "];

/// Returns the changes that a command does not report, and the reported differences that are none.
fn wrong(before: &Before, change: &Change) -> Vec<String> {
    let (transactions, trace) = after(&change.after);
    let mut wrong = Vec::new();
    for (command, differences) in
        [("compare", compared(before, &transactions)), ("check", checked(before, &transactions, trace))]
    {
        // Totals of the capture change with anything.
        let printed: Vec<_> = differences.iter().filter(|printed| printed.operation != "capture").collect();
        let at_frame = printed.iter().filter(|printed| is_at(printed, &change.frames));
        let is_kind = |kind| change.kinds.is_empty() || change.kinds.contains(&kind);
        let is_named = at_frame.clone().any(|printed| is_kind(printed.kind));
        let may_be_none = change.more == More::Nothing && printed.is_empty();
        // A Reply that repeats another session than its Call has a wrong result, too; so have values that the arguments
        // do not permit.
        let is_wrong_result = |printed: &&&Difference| {
            let value = printed.b.value.as_deref();
            printed.kind == DifferenceKind::Incomplete
                && value.is_some_and(|value| value.ends_with("reply:wrong-result"))
        };
        let is_limited = LIMITED.iter().any(|operation| change.what.starts_with(operation));
        let has_wrong_result = is_limited && printed.iter().filter(is_wrong_result).count() == 1;
        let count = printed.len() - usize::from(has_wrong_result && printed.len() == 2);
        let is_one = count == 1 || change.more == More::Structure && printed.len() == at_frame.count();
        let is_right = may_be_none || is_named && is_one;
        if !is_right {
            let lines: Vec<_> = printed
                .iter()
                .take(4)
                .map(|difference| {
                    let Difference { kind, path, a, b, .. } = difference;
                    format!("{kind} {path} {:?} {:?} at {:?}, {:?}", a.value, b.value, a.frame, b.frame)
                })
                .collect();
            let count = printed.len();
            wrong.push(format!("{command}: {} at {:?}: {count} {lines:#?}", change.what, change.frames));
        }
    }
    wrong
}

/// Field of a message, and its bytes.
struct Spot {
    operation: &'static str,
    field: &'static FieldDefinition,
    bytes: Range<usize>,
    /// `true` if the rest of the message is decoded by its value.
    is_structure: bool,
    /// Parent group.
    above: &'static str,
}

/// Structural fields, besides discriminants.
const STRUCTURE: [&str; 7] = [
    "nfs.ops.count",
    "nfs.attr_mask",
    "rpc.msgtyp",
    "rpc.version",
    "rpc.program",
    "rpc.programversion",
    "rpc.procedure",
];

/// Observer that records the positions of fields.
#[derive(Default)]
struct Spots {
    groups: Vec<&'static str>,
    operation: &'static str,
    spots: Vec<Spot>,
}

impl<'a> FieldObserver<'a> for Spots {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        if self.groups.is_empty() {
            self.operation = field.label;
        }
        self.groups.push(field.label);
    }

    fn leave(&mut self, _: usize) {
        self.groups.pop();
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        let is_structure = matches!(value, FieldValue::Enum(..) | FieldValue::Bool(_))
            || field.name.starts_with("rpcordma.")
            || STRUCTURE.contains(&field.name);
        // The last byte of a text is content, while the last byte of the field may be padding.
        let bytes = match value {
            FieldValue::Bytes(content) | FieldValue::Text(content) if content.is_empty() => return,
            FieldValue::Text(content) => bytes.start + 4..bytes.start + 4 + content.len(),
            FieldValue::Bytes(content) => bytes.end - content.len()..bytes.end,
            FieldValue::Chunk(..) => return,
            _ => bytes,
        };
        let above = self.groups.last().copied().unwrap_or_default();
        self.spots.push(Spot { operation: self.operation, field, bytes, is_structure, above });
    }
}

/// Returns the frame of a message and the offset of the message in it; `None` if it took several frames.
fn place_of(frames: &[Kept], transaction: &Transaction, which: RpcMessageKind) -> Option<(u64, usize)> {
    let record = transaction.message(which)?;
    let [frame] = record.frames.as_slice() else { return None };
    let bytes = &frames[usize::try_from(frame.0).unwrap() - 1].bytes;
    let at = bytes.windows(record.bytes.len()).position(|window| window == record.bytes)?;
    Some((frame.0, at))
}

fn flipped(frames: &[Kept], frame: u64, at: usize, mask: u8) -> Vec<(u64, Kept)> {
    let mut after = numbered(frames);
    let (_, changed) = &mut after[usize::try_from(frame).unwrap() - 1];
    changed.bytes[at] ^= mask;
    changed.seal();
    after
}

/// Returns `true` if a change of a field must be reported.
fn is_compared(field: &FieldDefinition, above: &str, is_call: bool) -> bool {
    !matches!(
        requirement_of_field(field.name, above, is_call),
        FieldEqualityRequirement::Varies(_) | FieldEqualityRequirement::Racing(_)
    )
}

/// Changes every field of every operation, one at a time: the lowest bit of its last byte.
fn changes_of_fields(frames: &[Kept], most: usize) -> Vec<Change> {
    let (transactions, _) = transactions((1..).zip(frames));
    let mut done: BTreeMap<(&'static str, &'static str, bool), u32> = BTreeMap::new();
    let mut changes = Vec::new();
    for transaction in &transactions {
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let is_call = which == RpcMessageKind::Call;
            let Some((frame, start)) = place_of(frames, transaction, which) else { continue };
            if transaction.message(which).is_some_and(|record| record.is_nomsg()) {
                continue;
            }
            let mut spots = Spots::default();
            transaction.with_messages(|reading| {
                let _ = reading.observe(which, &mut spots);
            });
            for spot in spots.spots {
                if !is_compared(spot.field, spot.above, is_call) {
                    continue;
                }
                let count = done.entry((spot.operation, spot.field.name, is_call)).or_default();
                *count += 1;
                if *count > 1 || changes.len() >= most {
                    continue;
                }
                let is_identity = matches!(
                    requirement_of_field(spot.field.name, spot.above, is_call),
                    FieldEqualityRequirement::Identity(_)
                );
                let more = match (spot.is_structure, is_identity) {
                    (true, _) => More::Structure,
                    (false, true) => More::Nothing,
                    (false, false) => More::None,
                };
                changes.push(Change {
                    what: format!("{} {} of the {which:?}", spot.operation, spot.field.name),
                    frames: frames_of(transaction),
                    kinds: Vec::new(),
                    more,
                    after: flipped(frames, frame, start + spot.bytes.end - 1, 1),
                });
            }
        }
    }
    changes
}

/// Returns the frames of a Transaction, including chunk data.
fn frames_of(transaction: &Transaction) -> Vec<u64> {
    let messages =
        [RpcMessageKind::Call, RpcMessageKind::Reply].into_iter().filter_map(|which| transaction.message(which));
    messages.flat_map(|record| &record.frames).map(|frame| frame.0).collect()
}

/// Changes the lengths of chunks offered by Calls and returned by Replies.
fn changes_of_chunks(frames: &[Kept], most: usize) -> Vec<Change> {
    let (transactions, _) = transactions((1..).zip(frames));
    let mut changes = Vec::new();
    for transaction in &transactions {
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let Some((frame, start)) = place_of(frames, transaction, which) else { continue };
            let mut spots = Spots::default();
            transaction.with_messages(|reading| {
                let _ = reading.observe(which, &mut spots);
            });
            let lengths = spots.spots.iter().filter(|spot| spot.field.name == "rpcordma.rdma_length");
            for spot in lengths.take(1) {
                changes.push(Change {
                    what: format!("the length of a segment in the {which:?}"),
                    frames: frames_of(transaction),
                    kinds: vec![
                        DifferenceKind::ChunkLength,
                        DifferenceKind::ChunkBytes,
                        DifferenceKind::Incomplete,
                        DifferenceKind::Data,
                        DifferenceKind::Undecoded,
                    ],
                    // Offered bytes that were never moved are not in the capture.
                    more: More::Structure,
                    after: flipped(frames, frame, start + spot.bytes.end - 1, 8),
                });
            }
        }
    }
    let step = changes.len().div_ceil(most).max(1);
    changes.into_iter().step_by(step).collect()
}

/// Changes a byte of file data moved by RDMA.
fn changes_of_data(frames: &[Kept], most: usize) -> Vec<Change> {
    let (transactions, _) = transactions((1..).zip(frames));
    let mut changes = Vec::new();
    // Incomplete data has no hash that could change.
    for transaction in transactions.iter().filter(|transaction| transaction.missing_parts().is_empty()) {
        let items = transaction.read_chunks.iter().filter(|chunk| chunk.position != Some(0));
        for chunk in items.chain(&transaction.write_chunks) {
            let segment = chunk.segments.first().unwrap();
            let (Some((_, last)), Some(kept)) = (segment.frames, &segment.payload) else { continue };
            let end = &kept.prefix()[kept.prefix().len().saturating_sub(40)..];
            let bytes = &frames[usize::try_from(last.0).unwrap() - 1].bytes;
            // The last bytes of the data are in its last frame.
            let Some(at) = bytes.windows(end.len()).position(|window| window == end) else { continue };
            changes.push(Change {
                what: "a byte of file data".to_owned(),
                frames: frames_of(transaction),
                kinds: vec![DifferenceKind::Data],
                more: More::None,
                after: flipped(frames, last.0, at + end.len() / 2, 0x40),
            });
        }
    }
    let step = changes.len().div_ceil(most).max(1);
    changes.into_iter().step_by(step).collect()
}

/// Removes messages from the capture: a Reply, a Call, or both.
fn changes_of_messages(frames: &[Kept], most: usize) -> Vec<Change> {
    let (transactions, _) = transactions((1..).zip(frames));
    let mut changes = Vec::new();
    let step = (3 * transactions.len()).div_ceil(most).max(1);
    for (at, transaction) in transactions.iter().enumerate().skip(4).step_by(step) {
        for (what, kind, gone) in [
            ("no reply", DifferenceKind::Reply, vec![RpcMessageKind::Reply]),
            ("no call", DifferenceKind::Call, vec![RpcMessageKind::Call]),
            ("no transaction", DifferenceKind::Missing, vec![RpcMessageKind::Call, RpcMessageKind::Reply]),
        ] {
            // A Call of several packets is not gone with one of them.
            if gone.iter().any(|which| place_of(frames, transaction, *which).is_none()) {
                continue;
            }
            let lost: Vec<u64> =
                gone.iter().filter_map(|which| place_of(frames, transaction, *which)).map(|(frame, _)| frame).collect();
            let after: Vec<_> = numbered(frames).into_iter().filter(|(number, _)| !lost.contains(number)).collect();
            // Of two equal consecutive Calls, either may be the missing one.
            let ask =
                |transaction: &Transaction| transaction.call.as_ref().map(|call| call.inline_bytes()[4..].to_vec());
            let around = at.saturating_sub(1)..transactions.len().min(at + 2);
            let alike = transactions[around].iter().filter(|other| ask(other) == ask(transaction));
            changes.push(Change {
                what: format!("{what} of transaction {}", at + 1),
                frames: alike.flat_map(frames_of).collect(),
                kinds: vec![kind],
                more: More::None,
                after,
            });
        }
    }
    changes
}

/// Swaps two neighbours of the same kind and length: all bytes of their messages except those of the transport.
fn changes_of_order(frames: &[Kept], most: usize) -> Vec<Change> {
    let (transactions, _) = transactions((1..).zip(frames));
    let mut changes = Vec::new();
    for pair in transactions.windows(2) {
        let places: Option<Vec<_>> = [RpcMessageKind::Call, RpcMessageKind::Reply]
            .into_iter()
            .map(|which| {
                let one = place_of(frames, &pair[0], which)?;
                let other = place_of(frames, &pair[1], which)?;
                let lengths = pair[0].message(which)?.bytes.len() == pair[1].message(which)?.bytes.len();
                lengths.then_some((one, other, pair[0].message(which)?.bytes.len()))
            })
            .collect();
        let Some(places) = places else { continue };
        if pair.iter().any(|transaction| !transaction.read_chunks.is_empty() || transaction.reply_chunk.is_some()) {
            continue;
        }
        // Except for the XID.
        let call = |transaction: &Transaction| transaction.call.as_ref().map(|call| call.inline_bytes()[4..].to_vec());
        if call(&pair[0]) == call(&pair[1]) {
            continue;
        }
        let operation = |transaction: &Transaction| transaction.with_messages(|reading| reading.summary().operation);
        let name = format!("{:?}", operation(&pair[0]));
        if operation(&pair[0]) != operation(&pair[1]) || !name.contains("LOOKUP") || changes.len() >= most {
            continue;
        }
        let mut after = numbered(frames);
        for ((one, at), (other, against), length) in places {
            let index = |frame: u64| usize::try_from(frame).unwrap() - 1;
            let first = after[index(one)].1.bytes[at..at + length].to_vec();
            let second = after[index(other)].1.bytes[against..against + length].to_vec();
            after[index(one)].1.bytes[at..at + length].copy_from_slice(&second);
            after[index(other)].1.bytes[against..against + length].copy_from_slice(&first);
        }
        changes.push(Change {
            what: format!("two {name} changed places"),
            frames: pair.iter().flat_map(frames_of).collect(),
            kinds: vec![DifferenceKind::Order],
            more: More::None,
            after,
        });
    }
    changes
}

/// Returns the capture without the two files of 256 KiB, which are most of its packets.
fn without_large_files(name: &str) -> Vec<Kept> {
    frames(name).into_iter().enumerate().filter(|(at, _)| !(230..=980).contains(at)).map(|(_, kept)| kept).collect()
}

fn all_changes_of(name: &str, before: &[Kept], fields: usize, others: usize) -> usize {
    let known = Before::new(before);
    let (transactions, trace) = after(&numbered(before));
    assert_eq!(compared(&known, &transactions), [], "{name} as it is");
    assert_eq!(checked(&known, &transactions, trace), [], "{name} as it is");
    let mut changes = changes_of_fields(before, fields);
    changes.extend(changes_of_chunks(before, others));
    changes.extend(changes_of_data(before, others));
    changes.extend(changes_of_messages(before, others));
    changes.extend(changes_of_order(before, others));
    let wrong: Vec<_> = changes.iter().flat_map(|change| wrong(&known, change)).collect();
    eprintln!("{name}: {} changes", changes.len());
    assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), changes.len(), wrong.join("\n"));
    changes.len()
}

#[test]
fn every_single_change_to_a_capture_of_nfsv4_2_is_named_at_its_frame() {
    let count = all_changes_of("rxe-v42", &without_large_files("rxe-v42"), 90, 12);
    assert!(count >= 120, "{count}");
}

#[test]
fn every_single_change_to_a_capture_of_nfsv3_is_named_at_its_frame() {
    let count = all_changes_of("rxe-v3", &without_large_files("rxe-v3"), 50, 10);
    assert!(count >= 60, "{count}");
}

#[test]
fn every_single_change_to_a_capture_with_callbacks_is_named_at_its_frame() {
    let count = all_changes_of("rxe-v42-deleg", &frames("rxe-v42-deleg"), 40, 6);
    assert!(count >= 40, "{count}");
}

#[test]
fn every_single_change_to_a_capture_over_tcp_is_named_at_its_frame() {
    let count = all_changes_of("tcp-v3", &frames("tcp-v3"), 60, 8);
    assert!(count >= 60, "{count}");
}

#[test]
fn every_single_change_to_a_capture_over_iwarp_is_named_at_its_frame() {
    let count = all_changes_of("siw-v3", &frames("siw-v3"), 60, 8);
    assert!(count >= 60, "{count}");
}

/// Returns the offset in a frame of the last byte of a field of a message.
fn field_in(frames: &[Kept], frame: u64, which: RpcMessageKind, label: &str) -> usize {
    let (transactions, _) = transactions((1..).zip(frames));
    let of = |transaction: &Transaction| {
        let (at, start) = place_of(frames, transaction, which)?;
        let mut spots = Spots::default();
        transaction.with_messages(|reading| {
            let _ = reading.observe(which, &mut spots);
        });
        let spot = spots.spots.iter().find(|spot| at == frame && spot.field.label == label)?;
        Some(start + spot.bytes.end - 1)
    };
    transactions.iter().find_map(of).unwrap_or_else(|| panic!("{label} in frame {frame}"))
}

#[test]
fn between_minor_versions_a_change_of_common_content_is_named() {
    let (before, other) = (Before::new(&frames("rxe-v42")), frames("rxe-v41"));
    let count = compared(&before, &after(&numbered(&other)).0).len();
    for (frame, which, label, mask, kind) in [
        // FILE_SYNC4 becomes UNSTABLE4, WRITEW_LT READW_LT, and 0600 0644.
        (120, RpcMessageKind::Call, "stable", 2, DifferenceKind::Argument),
        (1630, RpcMessageKind::Call, "locktype", 7, DifferenceKind::Argument),
        (618, RpcMessageKind::Reply, "eof", 1, DifferenceKind::Result),
        (1306, RpcMessageKind::Call, "mode", 0o44, DifferenceKind::Argument),
    ] {
        let at = field_in(&other, frame, which, label);
        let differences = compared(&before, &after(&flipped(&other, frame, at, mask)).0);
        let printed = |printed: &&Difference| printed.b.frame.is_some_and(|at| at.0 == frame) && printed.kind == kind;
        assert_eq!((differences.len(), differences.iter().filter(printed).count()), (count + 1, 1), "{label}");
    }
}

#[test]
fn strict_compares_header_fields_that_may_differ() {
    let frames = frames("rxe-v3");
    let before = Before::new(&frames);
    let strict = |changed: &[(u64, Kept)]| {
        let selection = ComparisonOptions { strict: true, ..ComparisonOptions::default() };
        let paths = compared_by(selection, &before, &after(changed).0).into_iter().map(|printed| printed.path);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(strict(&numbered(&frames)), [""; 0]);
    // The credits of a Reply to LOOKUP, and the padding after the name "s8k".
    let credits = field_in(&frames, 63, RpcMessageKind::Reply, "rdma_credit");
    assert_eq!(strict(&flipped(&frames, 63, credits, 1)), ["rdma_credit"]);
    let name = field_in(&frames, 564, RpcMessageKind::Call, "name");
    let fill = flipped(&frames, 564, name + 1, 1);
    assert_eq!(strict(&fill), ["LOOKUP.fill"]);
    assert_eq!(compared(&before, &after(&fill).0), []);
}

#[test]
fn an_rpc_xid_unlike_the_header_differs_and_is_a_wrong_result() {
    let frames = frames("rxe-v3");
    let xid = field_in(&frames, 979, RpcMessageKind::Reply, "xid");
    let differences = compared(&Before::new(&frames), &after(&flipped(&frames, 979, xid, 1)).0);
    let printed: Vec<_> = differences.iter().map(|printed| (printed.kind, printed.path.as_str())).collect();
    assert_eq!(printed, [(DifferenceKind::Header, "rdma_xid"), (DifferenceKind::Incomplete, "")]);
    assert_eq!(differences[0].b.frame.map(|frame| frame.0), Some(979));
}

#[test]
fn an_additional_operation_is_extra() {
    let before = frames("rxe-v42-deleg");
    let (transactions, _) = transactions((1..).zip(&before));
    for at in [8, 14, 20] {
        let transaction = &transactions[at];
        let gone = frames_of(transaction);
        let kept: Vec<Kept> =
            numbered(&before).into_iter().filter(|(number, _)| !gone.contains(number)).map(|(_, kept)| kept).collect();
        // The capture that lacks it comes first; its frames have other numbers.
        let differences = compared(&Before::new(&kept), &transactions);
        let named = differences.iter().find(|difference| difference.kind == DifferenceKind::Extra);
        let frame = named.and_then(|difference| difference.b.frame).map(|frame| frame.0);
        let printed: Vec<_> = differences.iter().map(|d| (d.kind, &d.path, d.a.frame, d.b.frame)).collect();
        assert_eq!(frame, gone.first().copied(), "{printed:?}");
    }
}
