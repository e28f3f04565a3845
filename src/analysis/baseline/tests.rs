//! Any baseline that is written can be read back; a modified one is refused.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::rc::Rc;

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::frame::FrameNumber;
use proptest::prelude::*;

use super::*;
use crate::analysis::comparison::capture::ComparedCapture;
use crate::analysis::comparison::compare_class::CompareClass;
use crate::analysis::comparison::difference::{Difference, DifferenceKind};
use crate::analysis::comparison::record::{
    ComparedField, ComparedMessage, ComparedSection, ComparedValue, FieldPath,
};
use crate::analysis::comparison::recorder::ComparisonRecorder;
use crate::testing::{drained, read_but, transactions};

/// Memory limit of waiting records, in bytes.
const ROOM_BYTES: usize = 64 << 20;

fn written(baseline: &Baseline) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes, baseline).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns a source of the records of Transactions.
fn records(transactions: Vec<Transaction>) -> impl FnMut() -> Option<(ComparisonClient, ComparisonRecord)> {
    let mut recorder = ComparisonRecorder::default();
    let mut transactions = transactions.into_iter();
    move || {
        let transaction = transactions.next()?;
        let address = recorder.word(&transaction.connection.client.address.to_string());
        let client = ComparisonClient { address, direction: transaction.direction };
        Some((client, recorder.record(&transaction)))
    }
}

fn of(transactions: Vec<Transaction>) -> Baseline {
    let mut baseline = Baseline::from_records(BaselineSettings::default(), records(transactions)).unwrap();
    baseline.update_transaction_counts();
    baseline
}

fn of_capture(name: &str) -> Baseline {
    of(transactions(name))
}

/// Returns the baseline text of a small capture.
fn small() -> String {
    written(&of_capture("rxe-v42-deleg.pcap"))
}

fn read_again(baseline: &Baseline) -> Baseline {
    read(&written(baseline)).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn refused(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err().to_string()
}

/// Returns the differences between a baseline and a capture.
fn checked(text: &str, name: &str) -> Vec<Difference> {
    let mut checking = BaselineCheck::new(read(text).unwrap_or_else(|e| panic!("{e}")), ROOM_BYTES);
    let mut found = Vec::new();
    let Ok(()) = checking.run(records(transactions(name)), |difference| {
        found.push(difference);
        Ok::<_, Infallible>(())
    });
    found
}

#[test]
fn a_baseline_that_is_read_is_written_as_it_was() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap"] {
        let baseline = of_capture(name);
        let again = read_again(&baseline);
        assert_eq!(written(&again), written(&baseline), "{name}");
        let places = |baseline: &Baseline| -> Vec<_> {
            baseline.records.iter().map(|(_, record)| (record.location.call, record.location.reply)).collect()
        };
        assert_eq!(places(&again), places(&baseline), "{name}");
    }
}

#[test]
fn a_path_that_is_read_is_the_field_that_it_was() {
    let baseline = of_capture("rxe-v42.pcap");
    let again = read_again(&baseline);
    let fields = |baseline: &Baseline| -> Vec<_> {
        let sections =
            baseline.records.iter().flat_map(|(_, record)| record.call.iter().chain(&record.reply));
        let entries =
            sections.flat_map(|message| &message.sections).flat_map(|section| section.entries.clone());
        entries
            .map(|entry| (entry.path.text.clone(), entry.path.field, entry.path.class, entry.datum))
            .collect()
    };
    let (before, after) = (fields(&baseline), fields(&again));
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.0, before.1, before.2), (&after.0, after.1, after.2));
        assert!(before.3 == after.3, "{before:?} {after:?}");
    }
}

#[test]
fn no_path_is_two_fields() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v40-deleg.pcap", "rxe-v42-deleg.pcap"] {
        let text = written(&of_capture(name));
        assert!(!text.lines().any(|line| line.ends_with(" ?")), "{name}");
    }
}

#[test]
fn an_identity_is_the_beginning_of_its_hash() {
    let text = written(&of_capture("rxe-v42.pcap"));
    let line =
        text.lines().find(|line| line.starts_with("  GETFH -> status=NFS4_OK object=filehandle:")).unwrap();
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
fn frames_that_are_more_or_less_change_one_line() {
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
fn a_transaction_that_is_gone_changes_its_own_lines_alone() {
    let before = written(&of_capture("rxe-v42.pcap"));
    // The Reply to the first LOOKUP, whose filehandle is used later, and its consequences.
    let after = written(&of(drained(read_but("rxe-v42.pcap", 66))));
    let changed = lines_of_one(&after, &before);
    assert!(changed.len() < 12, "{changed:#?}");
}

#[test]
fn what_is_changed_in_a_baseline_is_a_difference_or_refused() {
    let text = small();
    let mut next = records(transactions("rxe-v42-deleg.pcap"));
    let records: Vec<_> = std::iter::from_fn(&mut next).collect();
    // The two comment lines, and text after #.
    let is_information = |line: &str| line.starts_with('#');
    for (at, line) in text.lines().enumerate() {
        if is_information(line) || line.is_empty() {
            continue;
        }
        let held = line.split("  # ").next().unwrap().len();
        // Changes the last letter of each word.
        for (end, _) in line[..held].match_indices(' ').chain([(held, "")]).skip(at % 5).step_by(5) {
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
            let is_told = read(&changed).is_err() || is_different(&changed, &records);
            assert!(is_told, "{line}\n{end}");
        }
    }
}

/// Returns `true` if a baseline differs from a capture with these records, its counts included.
fn is_different(text: &str, records: &[(ComparisonClient, ComparisonRecord)]) -> bool {
    let mut checking = BaselineCheck::new(read(text).unwrap(), ROOM_BYTES);
    let mut records = records.iter().cloned();
    let stop = |_| Err(());
    let trace = ComparedCapture { transactions: 37, ..ComparedCapture::default() };
    checking.run(|| records.next(), stop).is_err() || checking.finish(&trace, stop).is_err()
}

#[test]
fn what_is_there_twice_or_against_another_line_is_refused() {
    let text = small();
    let twice = |line: &str| text.replacen(line, &format!("{line}{line}"), 1);
    let call = text.lines().find(|line| line.starts_with("  call ")).unwrap();
    for line in
        [&format!("{call}\n"), "transactions 37\n", "[headers]\n", "NFS 4 reply GETFH object nfs.fhandle\n"]
    {
        assert!(refused(&twice(line)).contains("restore it, or write it again with check --bless"), "{line}");
    }
    let other = text.replacen("calls 3,", "calls 4,", 1);
    assert!(refused(&other).contains("follows from the other lines"), "{}", refused(&other));
    assert!(refused(&text.replacen("baseline 2", "baseline +2", 1)).starts_with("line 1: "));
    assert!(refused(&(text.clone() + "more\n")).contains("nothing follows the end"));
    assert!(
        refused(&text.replacen("[fields]\n", "[fields]\nNFS 4 call READ nosuch nfs.count4\n", 1))
            .contains("is a field that no Transaction has")
    );
    assert!(
        refused(&text.replacen("NFS 4 call READ count nfs.count4\n", "", 1))
            .contains("READ count is not under [fields]")
    );
}

#[test]
fn a_text_that_was_cut_is_called_cut() {
    let text = small();
    let lines: Vec<_> = text.lines().collect();
    for most in (3..lines.len()).step_by(17) {
        let cut = lines[..most].join("\n") + "\n";
        assert!(refused(&cut).contains("truncated"), "{most}: {}", refused(&cut));
    }
    // Without lines in the middle.
    let without = [&lines[..lines.len() - 20], &lines[lines.len() - 1..]].concat().join("\n");
    assert!(read(&without).is_err());
}

#[test]
fn a_conflict_another_version_and_control_characters_are_told_with_a_remedy() {
    let text = small();
    let conflict = text.replacen("[operations]\n", "<<<<<<< HEAD\n[operations]\n", 1);
    assert!(refused(&conflict).contains("unresolved merge conflict; rewrite with check --bless"));
    assert!(refused(&format!("<<<<<<< HEAD\n{text}")).starts_with("line 1: unresolved merge conflict"));
    assert!(
        refused(&text.replacen("baseline 2", "baseline 1", 1))
            .contains("baseline version 1, expected 2; rewrite")
    );
    assert!(refused(&text.replacen("NFS4_OK", "NFS4\u{1b}[31m_OK", 1)).contains("a control character"));
    assert!(refused("").starts_with("line 1: the file is empty"));
    assert!(refused("Dear Bob,\n").starts_with("line 1: not a baseline"));
}

#[test]
fn a_field_that_is_gone_is_known_for_what_it_was() {
    let text = small().replace(
        "NFS 4 reply READ eof nfs.eof\n",
        "NFS 4 reply READ eof nfs.eof\nNFS 4 reply READ gone nfs.count4\n",
    );
    let text = text.replace(" eof=true data=", " eof=true gone=7 data=");
    let found = checked(&text, "rxe-v42-deleg.pcap");
    let first = found.first().unwrap();
    assert_eq!((first.kind, first.field, &*first.path), (DifferenceKind::Count, "nfs.count4", "READ.gone"));
    assert_eq!((first.a.value.as_deref(), &first.b.value), (Some("7"), &None));
    let ignored = text.replace("[settings]\n", "[settings]\nignore nfs.count4\n");
    assert_eq!(checked(&ignored, "rxe-v42-deleg.pcap"), []);
}

/// Returns a record with one operation that has these texts.
fn record_of(names: &[Vec<u8>]) -> ComparisonRecord {
    let path = Rc::new(FieldPath::new("objname", "nfs.name", CompareClass::Equal(DifferenceKind::Name)));
    let entries = names
        .iter()
        .map(|name| ComparedField { path: Rc::clone(&path), datum: ComparedValue::Text(name.clone().into()) })
        .collect();
    let section = ComparedSection { name: "LOOKUP".into(), entries };
    let message =
        ComparedMessage { sections: vec![ComparedSection::default(), section], ..ComparedMessage::default() };
    ComparisonRecord {
        call: Some(message.clone()),
        reply: Some(message),
        title: "NFS 3 LOOKUP".into(),
        class: "NFS 3 LOOKUP".into(),
        status: "NFS3_OK".into(),
        ..ComparisonRecord::default()
    }
}

proptest! {
    #[test]
    fn names_of_any_bytes_come_back(names in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
        let client = ComparisonClient { address: "10.9.0.2".into(), direction: CallDirection::Reverse };
        let mut record = Some((client, record_of(&names)));
        let mut baseline = Baseline::from_records(BaselineSettings::default(), || record.take()).unwrap();
        baseline.update_transaction_counts();
        let again = read_again(&baseline);
        prop_assert_eq!(written(&again), written(&baseline));
        let of = |baseline: &Baseline| baseline.records[0].1.reply.as_ref().map(|reply| {
            reply.sections[1].entries.iter().map(|entry| entry.datum.clone()).collect::<Vec<_>>()
        });
        prop_assert_eq!(of(&again), of(&baseline));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_text_is_read_or_refused(lines: Vec<String>) {
        let mut text = "nfsrdma-inspect baseline 2\n".to_owned();
        let parts = ["settings", "capture", "operations", "fields", "headers", "transactions", "end of 1 Transaction"];
        for (line, part) in lines.iter().zip(parts.iter().cycle()) {
            text += &format!("[{part}]\n{line}\n  {line}\n");
        }
        let _ = read(&text);
        let _ = BaselineSettings::from_text(&text);
    }
}
