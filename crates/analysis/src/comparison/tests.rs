//! Comparisons of whole captures.

use std::rc::Rc;

use super::comparable_transaction_recorder::ComparableTransactionRecorder;
use super::difference::{DifferenceKind, DifferenceSideValue};
use super::options::ComparisonOptions;
use super::*;
use crate::testing::transactions;

/// Memory limit of waiting records, in bytes.
const ROOM_BYTES: usize = 64 << 20;

/// Leaves the differences in the comparison.
fn keep(_: &mut CaptureComparator) {}

fn compared(a: &str, b: &str) -> CaptureComparator {
    let mut recorder = ComparableTransactionRecorder::default();
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 1_000, ROOM_BYTES);
    for (side, name) in [(ComparisonSide::A, a), (ComparisonSide::B, b)] {
        for transaction in transactions(name) {
            let client = ClientAddressAndCallDirection {
                address: recorder.word(&transaction.connection.client.address.to_string()),
                direction: transaction.direction,
            };
            comparison.push(side, client, recorder.record(&transaction));
        }
    }
    comparison.finish(&mut keep);
    comparison
}

#[test]
fn a_capture_does_not_differ_from_itself() {
    for name in ["rxe-v3.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap", "rxe-v42-loss.pcap"] {
        let comparison = compared(name, name);
        assert_eq!(comparison.differences(), [], "{name}");
        assert!(comparison.pairs() > 30 && comparison.compared().fields > 500, "{name}");
    }
}

/// Returns a record with this subject, in flight between two frames.
fn operation(subject: u64, from: u64, until: u64) -> ComparableTransaction {
    let frame = |frame| Some(nfsrdma_dissectors::captured_frame::FrameNumber(frame));
    ComparableTransaction {
        location: difference::TransactionCaptureLocation { index: from, call: frame(from), reply: frame(until) },
        end_frame: until,
        title: "NFS 4.2 READ".into(),
        class: "NFS 4 READ".into(),
        arguments: subject,
        subject_hash: subject,
        call: Some(record::ComparableMessage::default()),
        reply: Some(record::ComparableMessage::default()),
        status: "NFS4_OK".into(),
        ..ComparableTransaction::default()
    }
}

fn client(address: &str) -> ClientAddressAndCallDirection {
    ClientAddressAndCallDirection {
        address: address.into(),
        direction: nfsrdma_flow::transaction::CallDirection::Forward,
    }
}

/// Compares two sequences of one client, each in frame order.
fn rows(
    selection: ComparisonOptions,
    a: Vec<ComparableTransaction>,
    b: Vec<ComparableTransaction>,
) -> CaptureComparator {
    let mut comparison = CaptureComparator::new(selection, 100, ROOM_BYTES);
    for (side, row) in [(ComparisonSide::A, a), (ComparisonSide::B, b)] {
        row.into_iter().for_each(|record| comparison.push(side, client("10.0.0.1"), record));
    }
    comparison.finish(&mut keep);
    comparison
}

fn kinds(comparison: &CaptureComparator) -> Vec<DifferenceKind> {
    comparison.differences().iter().map(|difference| difference.kind).collect()
}

#[test]
fn operations_that_waited_for_each_other_have_an_order() {
    let one_by_one =
        |order: [u64; 3]| (1..).zip(order).map(|(at, subject)| operation(subject, 10 * at, 10 * at + 5)).collect();
    let comparison = rows(ComparisonOptions::default(), one_by_one([1, 2, 3]), one_by_one([2, 1, 3]));
    assert_eq!(kinds(&comparison), [DifferenceKind::Order]);
    let difference = &comparison.differences()[0];
    let value = |half: &DifferenceSideValue| half.value.clone().unwrap_or_default();
    assert!(value(&difference.a).contains("after") != value(&difference.b).contains("after"), "{difference:?}");
}

#[test]
fn operations_in_flight_at_the_same_time_have_none() {
    let at_once = |order: [u64; 3]| (1..).zip(order).map(|(at, subject)| operation(subject, at, 100 + at)).collect();
    let comparison = rows(ComparisonOptions::default(), at_once([1, 2, 3]), at_once([2, 1, 3]));
    assert_eq!((kinds(&comparison), comparison.reordered()), (vec![], 1));
    // In flight at the same time on one of the sides is enough.
    let one_by_one = (1..).zip([2, 1, 3]).map(|(at, subject)| operation(subject, 10 * at, 10 * at + 5)).collect();
    assert_eq!(kinds(&rows(ComparisonOptions::default(), at_once([1, 2, 3]), one_by_one)), []);
    let strict = ComparisonOptions { strict: true, ..ComparisonOptions::default() };
    assert_eq!(kinds(&rows(strict, at_once([1, 2, 3]), at_once([2, 1, 3]))), [DifferenceKind::Order]);
}

#[test]
fn a_client_of_one_side_alone_is_one_difference() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    for subject in 1..=5 {
        comparison.push(ComparisonSide::A, client("10.0.0.1"), operation(subject, subject, subject));
        comparison.push(ComparisonSide::B, client("10.0.0.1"), operation(subject, subject, subject));
        comparison.push(ComparisonSide::B, client("10.0.0.9"), operation(subject, subject, subject));
    }
    comparison.finish(&mut keep);
    assert_eq!(kinds(&comparison), [DifferenceKind::Client]);
    assert_eq!(comparison.differences()[0].b.value.as_deref(), Some("10.0.0.9 with 5 transactions"));
}

#[test]
fn clients_with_different_addresses_are_paired_in_order_of_appearance() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    for (a, b) in [("10.0.0.1", "fd00::7"), ("10.0.0.2", "fd00::3")] {
        let subject = a.len() as u64 + u64::from(a.as_bytes()[7]);
        comparison.push(ComparisonSide::A, client(a), operation(subject, 1, 2));
        comparison.push(ComparisonSide::B, client(b), operation(subject, 1, 2));
    }
    comparison.finish(&mut keep);
    assert_eq!((kinds(&comparison), comparison.pairs()), (vec![], 2));
}

#[test]
fn captures_of_any_length_are_compared_a_part_at_a_time() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    let mut are_over = [false; 2];
    let mut next = [0_u64; 2];
    const LENGTH: u64 = 5 * MAX_WAITING_RECORDS as u64;
    while are_over != [true; 2] {
        for (side, at) in [(ComparisonSide::A, 0), (ComparisonSide::B, 1)] {
            while !are_over[at] && !comparison.has_enough(side) {
                next[at] += 1;
                are_over[at] = next[at] == LENGTH;
                // The second side lacks one of a thousand.
                if at == 0 || !next[at].is_multiple_of(1_000) {
                    comparison.push(side, client("10.0.0.1"), operation(next[at], 2 * next[at], 2 * next[at] + 1));
                }
            }
        }
        comparison.advance(are_over, &mut keep);
        assert!(comparison.waiting.iter().all(|waiting| waiting.count <= MAX_WAITING_RECORDS));
    }
    comparison.finish(&mut keep);
    assert_eq!(comparison.counts().get(&DifferenceKind::Missing), Some(&(LENGTH / 1_000)));
    assert_eq!((comparison.total(), comparison.pairs()), (LENGTH / 1_000, LENGTH - LENGTH / 1_000));
}

#[test]
fn a_call_without_a_reply_is_emitted_last_and_still_paired() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    for subject in 1..=40_000 {
        let record = operation(subject, 2 * subject, 2 * subject + 1);
        comparison.push(ComparisonSide::A, client("10.0.0.1"), record.clone());
        if subject != 7 {
            comparison.push(ComparisonSide::B, client("10.0.0.1"), record);
        }
        if comparison.has_enough(ComparisonSide::A) {
            comparison.advance([false; 2], &mut keep);
        }
    }
    let late = ComparableTransaction { reply: None, ..operation(7, 14, 14) };
    comparison.push(ComparisonSide::B, client("10.0.0.1"), late);
    comparison.finish(&mut keep);
    assert_eq!(kinds(&comparison), [DifferenceKind::Reply]);
}

#[test]
fn a_reply_without_its_call_is_paired_with_the_operation_there() {
    let all: Vec<_> = (1..=200).map(|subject| operation(subject, 2 * subject, 2 * subject + 1)).collect();
    let mut without = all.clone();
    without[70] = ComparableTransaction {
        title: "Reply without its call".into(),
        call: None,
        location: difference::TransactionCaptureLocation { call: None, ..all[70].location },
        signature: 7,
        arguments: 0,
        ..all[70].clone()
    };
    let comparison = rows(ComparisonOptions::default(), all, without);
    assert_eq!(kinds(&comparison), [DifferenceKind::Call]);
    assert_eq!(comparison.differences()[0].operation, "NFS 4.2 READ");
}

#[test]
fn a_client_on_one_side_alone_is_reported_and_evicted() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    for subject in 1..=3 * MAX_WAITING_RECORDS as u64 {
        comparison.push(ComparisonSide::A, client("10.0.0.1"), operation(subject, subject, subject));
        if comparison.has_enough(ComparisonSide::A) {
            comparison.advance([false, true], &mut keep);
        }
    }
    comparison.finish(&mut keep);
    assert!(comparison.waiting[0].count <= MAX_WAITING_RECORDS);
    // It is one difference at its first Transaction, whatever its size and arrival.
    assert_eq!(kinds(&comparison), [DifferenceKind::Client]);
    let printed = &comparison.differences()[0].a;
    let count = 3 * MAX_WAITING_RECORDS;
    assert_eq!(printed.value, Some(format!("10.0.0.1 with {count} transactions")));
    assert_eq!(printed.frame.map(|frame| frame.0), Some(1));
}

#[test]
fn a_client_that_begins_long_before_it_does_on_the_other_side_is_one_difference() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    let record = |subject| operation(subject, 2 * subject, 2 * subject + 1);
    for subject in 1..=2 * MAX_WAITING_RECORDS as u64 {
        comparison.push(ComparisonSide::A, client("10.0.0.1"), record(subject));
        if comparison.has_enough(ComparisonSide::A) {
            comparison.advance([false; 2], &mut keep);
        }
    }
    for subject in 2 * MAX_WAITING_RECORDS as u64 - 99..=2 * MAX_WAITING_RECORDS as u64 {
        comparison.push(ComparisonSide::B, client("10.0.0.1"), record(subject));
    }
    comparison.finish(&mut keep);
    assert_eq!(comparison.counts()[&DifferenceKind::Client], 1);
    let printed = comparison.differences()[0].a.value.clone().unwrap();
    assert!(printed.ends_with("transactions before the other capture has it"), "{printed}");
    assert_eq!(comparison.pairs(), 100);
}

#[test]
fn a_recording_that_starts_later_or_has_a_gap_finds_its_way_back() {
    let all: Vec<_> = (1..=6_000).map(|subject| operation(subject, 2 * subject, 2 * subject + 1)).collect();
    for removed in [0..5_500, 400..4_400, 5_990..6_000] {
        let rest: Vec<_> = [&all[..removed.start], &all[removed.end..]].concat();
        for (a, b, kind) in [(&all, &rest, DifferenceKind::Missing), (&rest, &all, DifferenceKind::Extra)] {
            let comparison = rows(ComparisonOptions::default(), a.clone(), b.clone());
            assert_eq!(comparison.counts().get(&kind), Some(&(removed.len() as u64)), "{removed:?}");
            assert_eq!(comparison.total(), removed.len() as u64, "{removed:?}");
        }
    }
}

#[test]
fn two_swapped_operations_are_one_difference_at_any_distance() {
    let one_by_one = |order: &[u64]| {
        (1..).zip(order).map(|(at, subject)| operation(*subject, 10 * at, 10 * at + 5)).collect::<Vec<_>>()
    };
    let mut order: Vec<u64> = (1..=40).collect();
    let before = one_by_one(&order);
    order.swap(7, 21);
    let comparison = rows(ComparisonOptions::default(), before, one_by_one(&order));
    assert_eq!(kinds(&comparison), [DifferenceKind::Order]);
}

#[test]
fn clients_of_any_number_are_compared_a_part_at_a_time() {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    let (clients, rounds) = (2_000_u64, 40);
    let mut records = (1..=rounds).flat_map(|round| (0..clients).map(move |number| (round, number)));
    let mut is_over = false;
    while !is_over {
        while !comparison.has_enough(ComparisonSide::A) && !comparison.has_enough(ComparisonSide::B) {
            let Some((round, number)) = records.next() else {
                is_over = true;
                break;
            };
            let subject = round * clients + number;
            let record = operation(subject, 2 * subject, 2 * subject + 1);
            // The other side has other addresses, and one client less in the last round.
            comparison.push(ComparisonSide::A, client(&format!("10.0.0.{number}")), record.clone());
            if (round, number) != (rounds, 7) {
                comparison.push(ComparisonSide::B, client(&format!("10.1.0.{number}")), record);
            }
        }
        comparison.advance([is_over; 2], &mut keep);
        assert!(comparison.waiting.iter().all(|waiting| waiting.count < MAX_WAITING_RECORDS));
    }
    comparison.finish(&mut keep);
    assert_eq!(kinds(&comparison), [DifferenceKind::Missing]);
    assert_eq!(comparison.pairs(), clients * rounds - 1);
}

/// Returns the number of visits to clients when A has this many with one Call each, and B has none of them.
fn visits_for_unmatched(clients: u64) -> u64 {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), 100, ROOM_BYTES);
    let mut numbers = 0..clients;
    let next = |side: ComparisonSide| {
        let number = numbers.next().filter(|_| side == ComparisonSide::A)?;
        let record = operation(number, 2 * number, 2 * number + 1);
        Some((client(&number.to_string()), record))
    };
    let mut difference_count = 0;
    let Ok(()) = comparison.run(next, |_| {
        difference_count += 1;
        Ok::<_, std::convert::Infallible>(())
    });
    assert!(difference_count > 0);
    comparison.visited
}

#[test]
fn clients_of_one_side_alone_cost_linear_time() {
    // Nothing is dropped before the limit of waiting records.
    let [one, two, four] = [1, 2, 4].map(|times| visits_for_unmatched(times * 10_000));
    assert!((four - two) * 10 <= (two - one) * 22, "{one}, {two}, {four}");
    assert!(four <= 4 * 4 * 10_000, "{one}, {two}, {four}");
}

/// Returns a LOOKUP of a name that returns a new filehandle, each value of which has this many bytes.
fn lookup(number: u64, bytes: usize) -> ComparableTransaction {
    use field_equality::{FieldEqualityRequirement, MappedIdentifierType};
    let field = |path: &str, field, class, datum| record::ComparableMessageField {
        path: Rc::new(field_path::FieldPath::new(path, field, class)),
        datum,
    };
    let value =
        |number: u64| number.to_be_bytes().iter().copied().cycle().take(bytes).collect::<Vec<_>>().into_boxed_slice();
    let filehandle = |number| {
        let class = FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle);
        field("object", "nfs.fhandle", class, record::ComparedFieldValue::Bytes(value(number)))
    };
    let class = FieldEqualityRequirement::Equal(DifferenceKind::Name);
    let name = field("name", "nfs.name", class, record::ComparedFieldValue::Text(value(number)));
    let message = |entries| {
        let section = record::ComparedOperationOrHeaders { name: "LOOKUP".into(), entries };
        record::ComparableMessage { sections: vec![section], ..record::ComparableMessage::default() }
    };
    ComparableTransaction {
        call: Some(message(vec![filehandle(number), name])),
        reply: Some(message(vec![filehandle(number + 1)])),
        ..operation(number, 2 * number, 2 * number + 1)
    }
}

/// Compares the records of two sequences, each `LENGTH` long, in `memory_bytes`; returns the comparison, and its peak
/// memory, which includes that of a record of the caller.
fn compared_in(
    memory_bytes: usize,
    length: u64,
    record: impl Fn(ComparisonSide, u64) -> Option<ComparableTransaction>,
) -> (CaptureComparator, usize) {
    let mut comparison = CaptureComparator::new(ComparisonOptions::default(), usize::MAX, memory_bytes);
    let client = client("10.0.0.1");
    let mut at = [0; 2];
    let next = |side: ComparisonSide| {
        let at = &mut at[side as usize];
        let found = (*at + 1..=length).find_map(|number| Some((number, record(side, number)?)))?;
        *at = found.0;
        Some((client.clone(), found.1))
    };
    let measured = allocation_counter::measure(|| {
        let Ok(()) = comparison.run(next, |_| Ok::<_, std::convert::Infallible>(()));
    });
    (comparison, measured.bytes_max as usize)
}

#[test]
fn a_comparison_uses_no_more_memory_than_it_is_given() {
    const MEMORY_BYTES: usize = 1 << 20;
    /// Two words per pair of records of an alignment.
    const MATRIX_BYTES: usize = 8 << 16;
    const LENGTH: u64 = 4_000;
    const OTHERS: u64 = 1 << 32;
    for bytes in [8, 64] {
        // The same, other names, and one of a hundred on one side only.
        let same = compared_in(MEMORY_BYTES, LENGTH, |_, number| Some(lookup(number, bytes)));
        let other = compared_in(MEMORY_BYTES, LENGTH, |side, number| {
            Some(lookup(if side == ComparisonSide::A { number } else { number + OTHERS }, bytes))
        });
        let fewer = compared_in(MEMORY_BYTES, LENGTH, |side, number| {
            (side == ComparisonSide::A || !number.is_multiple_of(100)).then(|| lookup(number, bytes))
        });
        assert_eq!((same.0.total(), same.0.pairs()), (0, LENGTH));
        assert!(other.0.counts()[&DifferenceKind::Name] > LENGTH / 2, "{:?}", other.0.counts());
        assert_eq!(fewer.0.counts()[&DifferenceKind::Missing], LENGTH / 100);
        let peaks = [same.1, other.1, fewer.1];
        let max_bytes = MEMORY_BYTES + MATRIX_BYTES;
        assert!(peaks.iter().all(|peak| *peak < max_bytes), "{bytes}: {peaks:?} bytes");
    }
}

#[test]
fn identities_are_forgotten_only_if_the_memory_is_too_small() {
    const LENGTH: u64 = 3_000;
    let run = |memory_bytes| compared_in(memory_bytes, LENGTH, |_, number| Some(lookup(number, 36))).0;
    let small = run(3 << 18);
    assert!(small.forgotten_identities() > LENGTH / 2, "{}", small.forgotten_identities());
    let enough = small.memory_for_identities() as usize;
    assert_eq!(run(enough).forgotten_identities(), 0);
    assert!(run(enough / 10 * 9).forgotten_identities() > 0);
}

#[test]
fn any_number_of_late_calls_without_replies_is_paired() {
    const LENGTH: u64 = 100_000;
    const ANSWERED: u64 = LENGTH / 2;
    // Every second Call has no Reply, so that it comes when the capture ends.
    let record = |_, number: u64| {
        let subject = if number <= ANSWERED { 2 * number } else { 2 * (number - ANSWERED) - 1 };
        let record = operation(subject, 2 * subject, 2 * subject + 1);
        Some(if number <= ANSWERED { record } else { ComparableTransaction { reply: None, ..record } })
    };
    let (comparison, _) = compared_in(ROOM_BYTES, LENGTH, record);
    assert_eq!((comparison.total(), comparison.pairs()), (0, LENGTH));
}
