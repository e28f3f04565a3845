//! Any baseline that is written can be read back; a modified one is refused.

use std::collections::BTreeSet;
use std::rc::Rc;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::CallDirection;
use proptest::prelude::*;

use super::*;
use crate::comparison::capture_summary::ComparedCaptureSummary;
use crate::comparison::comparable_transaction_recorder::ComparableTransactionRecorder;
use crate::comparison::difference::{Difference, DifferenceKind};
use crate::comparison::field_equality::FieldEqualityRequirement;
use crate::comparison::field_path::FieldPath;
use crate::comparison::pairing_queue::ClientAddressAndCallDirection;
use crate::comparison::record::{
    ComparableMessage, ComparableMessageField, ComparableTransaction, ComparedFieldValue, ComparedOperationOrHeaders,
};
use crate::memory_budget_shares::BaselineCheckMemoryShares;
use crate::testing::{drained, read_but, read_damaged, transactions};

/// Enough memory for each part of the tests, in bytes.
const MEMORY: BaselineCheckMemoryShares =
    BaselineCheckMemoryShares { baseline_bytes: 64 << 20, text_bytes: 64 << 20, comparison_bytes: 64 << 20 };

fn written(baseline: &CurrentCaptureBaseline) -> String {
    let mut bytes = Vec::new();
    baseline.write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns a source of the records of Transactions.
fn records(
    transactions: Vec<Transaction>,
) -> impl FnMut() -> Option<(ClientAddressAndCallDirection, ComparableTransaction)> {
    let mut recorder = ComparableTransactionRecorder::default();
    let mut transactions = transactions.into_iter();
    move || {
        let transaction = transactions.next()?;
        let address = recorder.word(&transaction.connection.client.address.to_string());
        let client = ClientAddressAndCallDirection { address, direction: transaction.direction };
        Some((client, recorder.record(&transaction)))
    }
}

fn recorded_in(
    memory: &BaselineCheckMemoryShares,
    mut next: impl FnMut() -> Option<(ClientAddressAndCallDirection, ComparableTransaction)>,
) -> Result<CurrentCaptureBaseline, BaselineRecordingError> {
    let mut recording = BaselineRecorder::new(BaselineSettings::default(), memory);
    let mut totals = ComparedCaptureSummary::default();
    while let Some((client, record)) = next() {
        totals.transactions += 1;
        totals.incomplete += u64::from(!record.missing.is_empty());
        recording.add(&client, record).unwrap();
    }
    recording.finish(&totals)
}

fn of(transactions: Vec<Transaction>) -> CurrentCaptureBaseline {
    recorded_in(&MEMORY, records(transactions)).unwrap()
}

fn of_capture(name: &str) -> CurrentCaptureBaseline {
    of(transactions(name))
}

/// Returns the baseline text of a small capture.
fn small() -> String {
    written(&of_capture("rxe-v42-deleg.pcap"))
}

fn file(text: &str) -> OpenBaselineFile {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    OpenBaselineFile::new(file)
}

fn read(text: &str) -> Result<Baseline, BaselineReadError> {
    file(text).read(MEMORY.baseline_bytes)
}

fn read_again(baseline: &CurrentCaptureBaseline) -> Baseline {
    read(&written(baseline)).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the records of a baseline that was read.
fn records_of(baseline: &Baseline) -> Vec<ComparableTransaction> {
    let mut records = baseline.records();
    std::iter::from_fn(|| records().unwrap()).map(|(_, record)| record).collect()
}

#[track_caller]
fn refused(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err().to_string()
}

fn differences(baseline: &Baseline, recorded: &CurrentCaptureBaseline) -> Vec<Difference> {
    let mut checking = BaselineComparator::new(baseline, recorded, MEMORY.comparison_bytes);
    let mut found = Vec::new();
    let run = checking.run(|difference| {
        found.push(difference);
        Ok::<_, BaselineReadError>(())
    });
    run.unwrap_or_else(|e| panic!("{e}"));
    found
}

/// Returns the differences between a baseline and a capture.
fn checked(text: &str, name: &str) -> Vec<Difference> {
    differences(&read(text).unwrap_or_else(|e| panic!("{e}")), &of_capture(name))
}

/// Returns the canonical records of a capture, in the order of a baseline.
fn canonical_records(name: &str) -> Vec<ComparableTransaction> {
    let mut next = records(transactions(name));
    let mut records: Vec<_> = std::iter::from_fn(&mut next).map(|(_, record)| record).collect();
    records.sort_by_key(|record| (record.location.frame(), record.location.index));
    records.iter_mut().for_each(canonical_records::canonicalize);
    records
}

#[test]
fn the_records_of_a_baseline_are_at_the_places_where_they_were() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap"] {
        let locations = |records: Vec<ComparableTransaction>| -> Vec<_> {
            records.iter().map(|record| (record.location.call, record.location.reply)).collect()
        };
        let recorded = of_capture(name);
        assert_eq!(locations(records_of(&read_again(&recorded))), locations(canonical_records(name)), "{name}");
        assert!(file(&written(&recorded)).has_text(&recorded).unwrap());
    }
}

/// Returns the Transactions of a capture of which a byte of each frame, `seed` times its number behind the UDP header,
/// is another.
fn damaged(name: &str, seed: u64) -> Vec<Transaction> {
    drained(read_damaged(name, |number, bytes| {
        let at = 42 + (number * seed % 160) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = byte.wrapping_add(1 + (number + seed) as u8 % 255);
        }
    }))
}

#[test]
fn the_baseline_of_a_damaged_capture_can_be_read() {
    for name in ["rxe-v42-deleg.pcap", "rxe-v40-deleg.pcap"] {
        for seed in 1..50 {
            let recorded = of(damaged(name, seed));
            if recorded.transactions() > 0 {
                assert_eq!(differences(&read_again(&recorded), &recorded), [], "{name} {seed}");
            }
        }
    }
}

#[test]
fn reread_paths_have_the_same_field_and_value() {
    let fields = |records: Vec<ComparableTransaction>| -> Vec<_> {
        let sections = records.iter().flat_map(|record| record.call.iter().chain(&record.reply));
        let entries = sections.flat_map(|message| &message.sections).flat_map(|section| section.entries.clone());
        entries.map(|entry| (entry.path.text.clone(), entry.path.field, entry.path.class, entry.datum)).collect()
    };
    let after = fields(records_of(&read_again(&of_capture("rxe-v42.pcap"))));
    let before = fields(canonical_records("rxe-v42.pcap"));
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.0, before.1, before.2), (&after.0, after.1, after.2));
        assert!(before.3 == after.3, "{before:?} {after:?}");
    }
}

#[test]
fn each_path_has_one_field() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v40-deleg.pcap", "rxe-v42-deleg.pcap"] {
        let text = written(&of_capture(name));
        assert!(!text.lines().any(|line| line.ends_with(" ?")), "{name}");
    }
}

#[test]
fn an_identity_is_the_beginning_of_its_hash() {
    let text = written(&of_capture("rxe-v42.pcap"));
    let line = text.lines().find(|line| line.starts_with("  GETFH -> status=NFS4_OK object=filehandle:")).unwrap();
    let name = line.rsplit('=').next().unwrap();
    assert_eq!(name.len(), "filehandle:".len() + 8);
    assert!(text.contains(&format!("  PUTFH object={name} -> status=NFS4_OK\n")));
    assert!(text.contains(" minorversion=2\n") && !text.contains("session:1 "));
}

#[test]
fn a_long_list_is_one_hash_a_field() {
    let text = written(&of_capture("rxe-v42.pcap"));
    let line = text.lines().find(|line| line.contains("reply.entries.name=286*")).unwrap();
    assert!(line.starts_with("  READDIR cookie=0 ") && line.len() < 1_200, "{line}");
}

/// Returns the lines of one text that the other does not have.
fn lines_of_one<'t>(one: &'t str, other: &str) -> Vec<&'t str> {
    let other: BTreeSet<&str> = other.lines().collect();
    one.lines().filter(|line| !other.contains(line)).collect()
}

#[test]
fn shifted_frame_numbers_change_one_line() {
    let before = written(&of_capture("rxe-v42.pcap"));
    let mut shifted = transactions("rxe-v42.pcap");
    for transaction in &mut shifted {
        for record in transaction.call.iter_mut().chain(&mut transaction.reply) {
            record.frames.iter_mut().for_each(|frame| *frame = FrameNumber(frame.0 + 1));
        }
    }
    assert_eq!(lines_of_one(&written(&of(shifted)), &before).len(), 1);
}

#[test]
fn a_missing_reply_changes_few_lines() {
    let before = written(&of_capture("rxe-v42.pcap"));
    // The Reply to the first LOOKUP, whose filehandle is used later, and its consequences.
    let after = written(&of(drained(read_but("rxe-v42.pcap", 66))));
    let changed = lines_of_one(&after, &before);
    assert!(changed.len() < 12, "{changed:#?}");
}

#[test]
fn any_changed_word_of_a_baseline_is_a_difference_or_refused() {
    let text = small();
    let recorded = of_capture("rxe-v42-deleg.pcap");
    // The two comment lines, and text after #.
    let is_information = |line: &str| line.starts_with('#');
    for (at, line) in text.lines().enumerate() {
        if is_information(line) || line.is_empty() {
            continue;
        }
        let length = line.split("  # ").next().unwrap().len();
        // Changes the last letter of each word.
        for (end, _) in line[..length].match_indices(' ').chain([(length, "")]).skip(at % 5).step_by(5) {
            let Some(letter) = line[..end].chars().last().filter(char::is_ascii_alphanumeric) else {
                continue;
            };
            let other = if letter == '7' {
                '4'
            } else if letter == 'e' {
                'f'
            } else {
                '7'
            };
            let changed = format!("{}{other}{}", &line[..end - 1], &line[end..]);
            let changed = text.replacen(&format!("\n{line}\n"), &format!("\n{changed}\n"), 1);
            if at < 3 || changed == text {
                continue;
            }
            let is_told = match read(&changed) {
                Ok(baseline) => !differences(&baseline, &recorded).is_empty(),
                Err(_) => true,
            };
            assert!(is_told, "{line}\n{end}");
        }
    }
}

#[test]
fn changed_comments_are_no_difference() {
    let text = small();
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(comments.len(), 2);
    let other = comments.iter().fold(text.clone(), |text, comment| text.replacen(comment, "# Other words.", 1));
    assert_ne!(other, text);
    let recorded = of_capture("rxe-v42-deleg.pcap");
    assert!(differences(&read(&other).unwrap(), &recorded).is_empty());
}

#[test]
fn duplicate_and_contradictory_lines_are_refused() {
    let text = small();
    let twice = |line: &str| text.replacen(line, &format!("{line}{line}"), 1);
    let call = text.lines().find(|line| line.starts_with("  call ")).unwrap();
    for line in [&format!("{call}\n"), "transactions 37\n", "[headers]\n", "NFS 4 reply GETFH object nfs.fhandle\n"] {
        assert!(refused(&twice(line)).contains("restore it, or write it again with check --bless"), "{line}");
    }
    let other = text.replacen("calls 3,", "calls 4,", 1);
    assert!(refused(&other).contains("follows from the other lines"), "{}", refused(&other));
    assert!(refused(&text.replacen("baseline 2", "baseline +2", 1)).starts_with("line 1: "));
    assert!(refused(&(text.clone() + "more\n")).contains("after the end"));
    assert!(
        refused(&text.replacen("[fields]\n", "[fields]\nNFS 4 call READ nosuch nfs.count4\n", 1))
            .contains("is a field that no transaction has")
    );
    assert!(
        refused(&text.replacen("NFS 4 call READ count nfs.count4\n", "", 1))
            .contains("READ count is not under [fields]")
    );
}

/// Earlier versions wrote "[end of 2 Transactions]".
#[test]
fn end_with_capital_letter_is_read() {
    let (start, end) =
        small().rsplit_once(" transaction").map(|(start, end)| (start.to_owned(), end.to_owned())).unwrap();
    assert!(start.lines().last().unwrap().starts_with("[end of "), "{start}");
    let old = read(&format!("{start} Transaction{end}")).unwrap_or_else(|error| panic!("{error}"));
    let new = read(&small()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(records_of(&old).len(), records_of(&new).len());
}

#[test]
fn a_truncated_baseline_is_reported_as_truncated() {
    let text = small();
    let lines: Vec<_> = text.lines().collect();
    for line_count in (3..lines.len()).step_by(17) {
        let cut = lines[..line_count].join("\n") + "\n";
        assert!(refused(&cut).contains("truncated"), "{line_count}: {}", refused(&cut));
    }
    // Without lines in the middle.
    let without = [&lines[..lines.len() - 20], &lines[lines.len() - 1..]].concat().join("\n");
    assert!(read(&without).is_err());
}

#[test]
fn conflicts_other_versions_and_control_characters_are_refused_with_a_remedy() {
    let text = small();
    let conflict = text.replacen("[operations]\n", "<<<<<<< HEAD\n[operations]\n", 1);
    assert!(refused(&conflict).contains("unresolved merge conflict; rewrite with check --bless"));
    assert!(refused(&format!("<<<<<<< HEAD\n{text}")).starts_with("line 1: unresolved merge conflict"));
    assert!(refused(&text.replacen("baseline 2", "baseline 1", 1)).contains("baseline version 1, expected 2; rewrite"));
    assert!(refused(&text.replacen("NFS4_OK", "NFS4\u{1b}[31m_OK", 1)).contains("a control character"));
    assert!(refused("").starts_with("line 1: the file is empty"));
    assert!(refused("Dear Bob,\n").starts_with("line 1: not a baseline"));
}

#[test]
fn a_vanished_field_is_reported_with_its_kind() {
    let text = small()
        .replace("NFS 4 reply READ eof nfs.eof\n", "NFS 4 reply READ eof nfs.eof\nNFS 4 reply READ gone nfs.count4\n");
    let text = text.replace(" eof=true data=", " eof=true gone=7 data=");
    let found = checked(&text, "rxe-v42-deleg.pcap");
    let first = found.first().unwrap();
    assert_eq!((first.kind, first.field, &*first.path), (DifferenceKind::Count, "nfs.count4", "READ.gone"));
    assert_eq!((first.a.value.as_deref(), &first.b.value), (Some("7"), &None));
    let ignored = text.replace("[settings]\n", "[settings]\nignore nfs.count4\n");
    assert_eq!(checked(&ignored, "rxe-v42-deleg.pcap"), []);
}

/// Returns a record with one operation that has these texts.
fn record_of(names: &[Vec<u8>]) -> ComparableTransaction {
    let path = Rc::new(FieldPath::new("objname", "nfs.name", FieldEqualityRequirement::Equal(DifferenceKind::Name)));
    let entries = names
        .iter()
        .map(|name| ComparableMessageField {
            path: Rc::clone(&path),
            datum: ComparedFieldValue::Text(name.clone().into()),
        })
        .collect();
    let section = ComparedOperationOrHeaders { name: "LOOKUP".into(), entries };
    let message = ComparableMessage {
        sections: vec![ComparedOperationOrHeaders::default(), section],
        ..ComparableMessage::default()
    };
    ComparableTransaction {
        call: Some(message.clone()),
        reply: Some(message),
        title: "NFS 3 LOOKUP".into(),
        class: "NFS 3 LOOKUP".into(),
        status: "NFS3_OK".into(),
        ..ComparableTransaction::default()
    }
}

proptest! {
    #[test]
    fn names_of_any_bytes_are_read_back(names in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
        let client = ClientAddressAndCallDirection { address: "10.9.0.2".into(), direction: CallDirection::Reverse };
        let mut record = Some((client, record_of(&names)));
        let baseline = recorded_in(&MEMORY, || record.take()).unwrap();
        let reread = records_of(&read_again(&baseline));
        let found = reread[0].reply.as_ref().map(|reply| {
            reply.sections[1].entries.iter().map(|entry| entry.datum.clone()).collect::<Vec<_>>()
        });
        let mut expected = record_of(&names);
        canonical_records::canonicalize(&mut expected);
        let expected = expected.reply.unwrap().sections.remove(1).entries;
        prop_assert_eq!(found.unwrap(), expected.into_iter().map(|entry| entry.datum).collect::<Vec<_>>());
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_text_is_read_or_refused(lines: Vec<String>) {
        let mut text = "nfsrdma-inspect baseline 2\n".to_owned();
        let parts = ["settings", "capture", "operations", "fields", "headers", "transactions", "end of 1 transaction"];
        for (line, part) in lines.iter().zip(parts.iter().cycle()) {
            text += &format!("[{part}]\n{line}\n  {line}\n");
        }
        let _ = read(&text);
        let _ = file(&text).kept_settings(MEMORY.baseline_bytes);
        let _ = file(&text).read(4_096);
    }
}

/// Returns LOOKUPs with distinct names and headers, in the order of a capture: Calls without Replies come last.
fn lookups(
    count: u64,
    is_unanswered: impl Fn(u64) -> bool,
) -> Vec<(ClientAddressAndCallDirection, ComparableTransaction)> {
    let client = ClientAddressAndCallDirection { address: "10.9.0.2".into(), direction: CallDirection::Forward };
    let path =
        Rc::new(FieldPath::new("body.xid", "rpc.auth.uid", FieldEqualityRequirement::Equal(DifferenceKind::Header)));
    let record = |number: u64| {
        let mut record = record_of(&[format!("name {number}").into_bytes()]);
        let entry = ComparableMessageField { path: Rc::clone(&path), datum: ComparedFieldValue::Number(number) };
        record.call.iter_mut().for_each(|call| call.sections[0].entries.push(entry.clone()));
        record.location.index = number;
        record.location.call = Some(FrameNumber(2 * number));
        record.location.reply = Some(FrameNumber(2 * number + 1));
        if is_unanswered(number) {
            (record.reply, record.location.reply, record.status) = (None, None, "-".into());
        }
        (client.clone(), record)
    };
    let (unanswered, answered): (Vec<_>, Vec<_>) = (1..=count).partition(|number| is_unanswered(*number));
    answered.into_iter().chain(unanswered).map(record).collect()
}

/// Returns the shares of a memory of this size.
fn shares(bytes: usize) -> BaselineCheckMemoryShares {
    BaselineCheckMemoryShares { baseline_bytes: bytes, text_bytes: bytes / 3, comparison_bytes: 2 * bytes }
}

fn recorded_lookups(
    memory: &BaselineCheckMemoryShares,
    count: u64,
    is_unanswered: impl Fn(u64) -> bool,
) -> Result<CurrentCaptureBaseline, BaselineRecordingError> {
    let mut lookups = lookups(count, is_unanswered).into_iter();
    recorded_in(memory, || lookups.next())
}

#[test]
fn any_number_of_calls_without_replies_stays_in_order() {
    let recorded = recorded_lookups(&MEMORY, 5_000, |number| number.is_multiple_of(2)).unwrap();
    let text = written(&recorded);
    let call_lines: Vec<_> = text.lines().filter(|line| line.contains("  # call ")).collect();
    assert_eq!(call_lines.len(), 5_000);
    assert!(call_lines.iter().skip(1).all(|line| line.contains("# call +2")));
    let changed = text.replacen("\"name 7\"", "\"name 8\"", 1);
    let found = differences(&read(&changed).unwrap(), &recorded);
    assert_eq!((found.len(), found[0].kind, found[0].b.location.unwrap().index), (1, DifferenceKind::Name, 7));
}

#[test]
fn text_in_a_file_equals_text_in_memory() {
    let memory = BaselineCheckMemoryShares { text_bytes: 1_000, ..MEMORY };
    let recorded = recorded_lookups(&memory, 500, |_| false).unwrap();
    assert_eq!(written(&recorded), written(&recorded_lookups(&MEMORY, 500, |_| false).unwrap()));
    assert_eq!(differences(&read_again(&recorded), &recorded), []);
}

#[test]
fn the_error_of_a_large_baseline_has_the_needed_memory() {
    let needed = match recorded_lookups(&shares(64 << 10), 5_000, |_| false) {
        Err(BaselineRecordingError::TooLarge { needed_bytes }) => needed_bytes as usize,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(recorded_lookups(&shares(needed - 1), 5_000, |_| false).is_err());
    let text = written(&recorded_lookups(&shares(needed), 5_000, |_| false).unwrap());
    // Whatever can be written can be read.
    assert!(file(&text).read(needed).is_ok());
    for (limit, min_line) in [(4 << 10, 1), (needed / 10, 40)] {
        let read = |max_bytes: usize| file(&text).read(max_bytes).map(|_| ());
        let error = read(limit).unwrap_err();
        assert!(error.line >= min_line, "{error}");
        let needed = error.needed_bytes.unwrap() as usize;
        assert_eq!(read(needed), Ok(()));
        assert!(read(needed / 10 * 9).unwrap_err().needed_bytes.is_some());
    }
}

#[test]
fn neither_recording_nor_checking_holds_a_baseline_in_memory() {
    const LENGTH: u64 = 5_000;
    let other = written(&recorded_lookups(&MEMORY, LENGTH, |_| false).unwrap())
        .replace("\"name ", "\"file ")
        .replace("[settings]\n", "[settings]\nignore client\n");
    let baseline = file(&other);
    let memory = shares(5 << 19);
    let mut lookups = lookups(LENGTH, |_| false).into_iter();
    let mut difference_count = 0;
    let measured = allocation_counter::measure(|| {
        let recorded = recorded_in(&memory, || lookups.next()).unwrap();
        assert!(!baseline.has_text(&recorded).unwrap());
        let baseline = baseline.read(memory.baseline_bytes).unwrap();
        let mut checking = BaselineComparator::new(&baseline, &recorded, memory.comparison_bytes);
        let run = checking.run(|_| {
            difference_count += 1;
            Ok::<_, BaselineReadError>(())
        });
        run.unwrap();
    });
    // The name is in the Call and in the Reply.
    assert_eq!(difference_count, 2 * LENGTH);
    let max_bytes = 2 * memory.baseline_bytes + memory.text_bytes + memory.comparison_bytes;
    assert!(measured.bytes_max < max_bytes as u64, "{} of {max_bytes} bytes", measured.bytes_max);
    assert!((other.len() as u64) < measured.bytes_total / 4);
}
