use nfsrdma_analysis::names::FileNames;
use nfsrdma_conformance::{Finding, ReportedFindingSeverity, Severity};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::transaction::{CapturedMessage, EndpointRole};
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use super::{capture, transactions};
use crate::output::recent_frame_buffer::RecentFrameBuffer;
use crate::output::style::{Glyphs, TerminalProfile};
use crate::output::tree::frame_store::{EmptyFrameStore, FrameStore};
use crate::output::tree::transaction::FieldTreeTextWriter;

fn tree_of(transaction: &Transaction, screen: TerminalProfile, frames: &impl FrameStore) -> String {
    tree_with(transaction, screen, &[], frames)
}

fn tree_with(
    transaction: &Transaction,
    screen: TerminalProfile,
    findings: &[Finding],
    frames: &impl FrameStore,
) -> String {
    let mut out = Vec::new();
    let (mut view, mut names) = (FieldTreeTextWriter::new(screen), FileNames::default());
    transaction
        .with_messages(|reading| {
            let facts = reading.summary();
            names.infer(transaction, reading, &facts);
            view.transaction(&mut out, transaction, reading, &facts, (&names, findings), frames)
        })
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the Transaction whose Call begins in this frame.
fn from_frame(name: &str, number: u64) -> Transaction {
    let begins = |transaction: &Transaction| {
        transaction.call.as_ref().is_some_and(|call| call.frames.first() == Some(&FrameNumber(number)))
    };
    transactions(name).into_iter().find(begins).unwrap()
}

fn tree(name: &str, number: u64) -> String {
    tree_of(&from_frame(name, number), TerminalProfile::pipe(), &EmptyFrameStore)
}

#[test]
fn a_read_with_a_write_chunk_and_its_stored_frames() {
    let mut kept = RecentFrameBuffer::new(64 << 20);
    let (mut source, mut flow) = (capture("rxe-v42.pcap"), Flow::new(FlowLimits::default()));
    while let Some(frame) = source.next().unwrap() {
        kept.push(&frame);
        flow.process_frame(&frame);
        let done = std::iter::from_fn(|| flow.next_transaction());
        let read = done.into_iter().find(|done| done.call.as_ref().unwrap().frames == [FrameNumber(590)]);
        if let Some(read) = read {
            insta::assert_snapshot!(tree_of(&read, TerminalProfile::pipe(), &kept));
            return;
        }
    }
    panic!("the READ did not end");
}

#[test]
fn a_finding_is_under_its_field_in_its_message() {
    let transaction = from_frame("rxe-v42.pcap", 120);
    let rule = nfsrdma_conformance::find_rule("rpcrdma/credit-zero").unwrap();
    let finding = |text: &str, message: &Option<CapturedMessage>, field| Finding {
        rule,
        severity: ReportedFindingSeverity::Error,
        severity_unless_known: Severity::Error,
        known: None,
        text: text.to_owned(),
        measurement: None,
        side: EndpointRole::Server,
        connection: transaction.connection,
        transaction: Some(transaction.index),
        xid: Some(transaction.xid),
        frames: message.as_ref().unwrap().frames.clone(),
        time: Timestamp::default(),
        count: 1,
        field,
        value: None,
    };
    let (call, reply) = (&transaction.call, &transaction.reply);
    let findings = [
        finding("no field", reply, None),
        finding("of the reply", reply, Some("rpcordma.flow_control")),
        finding("first of the call", call, Some("rpcordma.flow_control")),
        finding("second of the call", call, Some("rpcordma.flow_control")),
        // A member of a structure on one line.
        finding("handle", call, Some("rpcordma.rdma_handle")),
        // The Reply has no Read list.
        finding("handle of the reply", reply, Some("rpcordma.rdma_handle")),
    ];
    let text = tree_with(&transaction, TerminalProfile::pipe(), &findings, &EmptyFrameStore);
    let lines: Vec<&str> = text.lines().collect();
    let at = |text: &str| lines.iter().position(|line| line.contains(text)).unwrap();
    let (of_call, of_reply) = (at("Call"), lines.iter().rposition(|line| line.starts_with("  Reply")).unwrap());
    let (first, second) = (at("first of the call"), at("second of the call"));
    assert!(lines[first - 1].trim_start().starts_with("rdma_credit: ") && second == first + 1, "{text}");
    assert!(of_call < first && first < of_reply && of_reply < at(": of the reply (RFC"), "{text}");
    assert!(lines[at(": handle (RFC") - 1].contains("handle 0x"), "{text}");
    // Without a place, a finding is behind the summary.
    assert!(at("no field") < at("handle of the reply") && at("handle of the reply") < first, "{text}");
}

#[test]
fn a_write_with_a_read_chunk() {
    insta::assert_snapshot!(tree("rxe-v42.pcap", 120));
}

#[test]
fn a_readdir_with_its_reply_in_a_reply_chunk() {
    insta::assert_snapshot!(tree("rxe-v42.pcap", 1217));
}

#[test]
fn a_transaction_that_a_snap_length_cut() {
    insta::assert_snapshot!(tree("rxe-v42-snap128.pcap", 10));
}

#[test]
fn a_call_under_rpcsec_gss_with_integrity() {
    insta::assert_snapshot!(tree("rxe-v42-krb5.pcap.gz", 47));
}

#[test]
fn a_procedure_of_nfsv3_that_fails() {
    let transactions = transactions("rxe-v3.pcap");
    let is_mkdir = |done: &&Transaction| {
        done.with_messages(|reading| {
            let facts = reading.summary();
            facts.status.is_some_and(|status| status.number == 17)
        })
    };
    let transaction = transactions.iter().find(is_mkdir).unwrap();
    insta::assert_snapshot!(tree_of(transaction, TerminalProfile::pipe(), &EmptyFrameStore));
}

/// Returns the trees of some frames and of the messages that they complete.
fn frame_trees(name: &str, numbers: std::ops::RangeInclusive<u64>) -> String {
    let (mut source, mut flow) = (capture(name), Flow::new(FlowLimits::default()));
    let (mut view, mut out) = (FieldTreeTextWriter::new(TerminalProfile::pipe()), Vec::new());
    let mut names = FileNames::default();
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        names.infer_from_frame(&flow);
        if numbers.contains(&frame.number.0) {
            view.frame(&mut out, &frame, &flow, &names).unwrap();
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn frames_with_the_messages_that_they_complete() {
    insta::assert_snapshot!(frame_trees("rxe-v3.pcap", 25..=28));
}

/// The Reply 0x53c00cfc was sent five times. Its client received the copy in frame 1496 (tshark -Y 'frame.number ==
/// 1496' -T fields -e frame.time_utc).
#[test]
fn a_message_ends_with_the_copy_that_was_delivered() {
    let sent = "Reply: 5 frames from 1213 to 1496, first copy 2026-11-21 03:13:39.580948620 UTC";
    let text = transactions("rxe-v42-loss.pcap");
    let one = text.iter().find(|transaction| transaction.xid.0 == 0x53c0_0cfc).unwrap();
    let text = tree_of(one, TerminalProfile::pipe(), &EmptyFrameStore);
    assert!(text.contains(&format!("{sent}, delivered 2026-11-21 03:13:40.174516520 UTC, ")), "{text}");
}

#[test]
fn complete_messages_are_shown_to_their_last_byte() {
    for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v40-deleg.pcap", "rxe-v42-krb5.pcap.gz"] {
        for transaction in transactions(name) {
            let text = tree_of(&transaction, TerminalProfile::pipe(), &EmptyFrameStore);
            assert!(!text.contains("undecoded"), "{text}");
            assert!(!text.contains("not decoded further"), "{text}");
        }
    }
}

#[test]
fn ascii_screens_get_ascii() {
    let screen = TerminalProfile { glyphs: Glyphs::ASCII, ..TerminalProfile::pipe() };
    assert!(tree_of(&from_frame("rxe-v42.pcap", 590), screen, &EmptyFrameStore).is_ascii());
}

#[test]
fn a_message_may_end_anywhere() {
    for (name, number) in [("rxe-v42.pcap", 590), ("rxe-v42.pcap", 120), ("rxe-v42-krb5.pcap.gz", 47)] {
        let whole = from_frame(name, number);
        for end in 0..whole.call.as_ref().unwrap().bytes.len() {
            let mut cut = whole.clone();
            cut.call.as_mut().unwrap().bytes.truncate(end);
            let text = tree_of(&cut, TerminalProfile::pipe(), &EmptyFrameStore);
            // The checksum at the end of a protected message is not decoded.
            let is_read = name.contains("krb5") && end >= 376;
            assert!(is_read || text.contains("not decoded further: byte "), "{end}: {text}");
            assert!(text.contains("missing: call:"), "{end}: {text}");
        }
    }
}
