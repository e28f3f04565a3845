//! What is written comes back, whatever it is made of.

use std::rc::Rc;

use nfsrdma_dissectors::flow::transaction::Direction;
use proptest::prelude::*;

use super::*;
use crate::analysis::comparison::difference::Kind;
use crate::analysis::comparison::record::{Datum, Entry, Message, Path, Section};
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::role::Role;
use crate::testing::transactions;

fn written(baseline: &Baseline) -> String {
    let mut bytes = Vec::new();
    text::write(&mut bytes, baseline).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn of_capture(name: &str) -> Baseline {
    let mut recorder = Recorder::default();
    let mut transactions = transactions(name).into_iter();
    let next = || {
        let transaction = transactions.next()?;
        let address = recorder.word(&transaction.connection.client.address.to_string());
        let client = Client { address, direction: transaction.direction };
        Some((client, recorder.record(&transaction)))
    };
    Baseline::of(Selection::default(), next).unwrap()
}

fn read_again(baseline: &Baseline) -> Baseline {
    text::read(&mut written(baseline).as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_baseline_that_is_read_is_written_as_it_was() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap"] {
        let baseline = of_capture(name);
        assert_eq!(written(&read_again(&baseline)), written(&baseline), "{name}");
    }
}

#[test]
fn an_identity_has_the_number_of_its_first_place() {
    let text = written(&of_capture("rxe-v42.pcap"));
    // LOOKUP gives the second filehandle, which the next Call uses.
    assert!(text.contains("  GETFH -> status=NFS4_OK object=filehandle:2\n"), "{text}");
    assert!(text.contains("  PUTFH object=filehandle:2 -> status=NFS4_OK\n"));
}

#[test]
fn a_long_list_is_one_hash_a_field() {
    let text = written(&of_capture("rxe-v42.pcap"));
    let line = text.lines().find(|line| line.contains("reply.entries.name=286*")).unwrap();
    assert!(line.starts_with("  READDIR cookie=0 ") && line.len() < 1_200, "{line}");
}

/// A record with one operation that has these texts.
fn record_of(names: &[Vec<u8>]) -> Record {
    let path = || Rc::new(Path { text: "name".into(), field: "nfs.name", role: Role::Equal(Kind::Name) });
    let entries =
        names.iter().map(|name| Entry { path: path(), datum: Datum::Text(name.clone().into()) }).collect();
    let section = Section { name: "LOOKUP".into(), entries };
    let message = Message { sections: vec![Section::default(), section], ..Message::default() };
    Record {
        call: Some(message.clone()),
        reply: Some(message),
        title: "NFS 3 LOOKUP".into(),
        class: "NFS 3 LOOKUP".into(),
        status: "NFS3_OK".into(),
        ..Record::default()
    }
}

proptest! {
    #[test]
    fn names_of_any_bytes_come_back(names: Vec<Vec<u8>>) {
        let client = Client { address: "10.9.0.2".into(), direction: Direction::Reverse };
        let baseline = Baseline { records: vec![(client, record_of(&names))], ..Baseline::default() };
        let again = read_again(&baseline);
        prop_assert_eq!(written(&again), written(&baseline));
        let sections = again.records[0].1.call.as_ref().map(|call| call.sections.len());
        prop_assert_eq!(sections, Some(2));
        let entries = again.records[0].1.reply.as_ref().map(|reply| reply.sections[1].entries.len());
        prop_assert_eq!(entries, Some(names.len()));
    }

    #[test]
    fn arbitrary_text_is_read_or_refused(lines: Vec<String>) {
        let mut text = "nfsrdma-inspect baseline 1\n".to_owned();
        for (line, part) in lines.iter().zip(["settings", "capture", "operations", "headers", "transactions"].iter().cycle()) {
            text += &format!("[{part}]\n{line}\n  {line}\n");
        }
        let _ = text::read(&mut text.as_bytes());
    }
}
