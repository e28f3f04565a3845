//! Comparison of recorded Replies with live ones, changed and unchanged.

use std::fs::{self, File};
use std::io::{BufReader, Cursor as Bytes};
use std::ops::Range;

use nfsrdma_analysis::comparison::difference::DifferenceKind;
use nfsrdma_analysis::comparison::field_equality::{FieldEqualityRequirement, requirement_of_field};
use nfsrdma_analysis::comparison::options::ComparisonOptions;
use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};
use nfsrdma_replay::run::reply_check::{ReplyCheckResult, ReplyChecker, ReplyPair};
use nfsrdma_replay::trace::{GssProtection, MessageCaptureCompleteness, ReplayTraceReader, TraceStep};

use super::program::compiled;

/// Field of a Reply: its name, its kind of difference, and a byte of it.
struct Place {
    name: &'static str,
    kind: DifferenceKind,
    at: usize,
}

/// Observer that records the compared fields of a Reply.
struct Places<'m> {
    message: &'m [u8],
    found: Vec<Place>,
}

impl<'a> FieldObserver<'a> for Places<'_> {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        let FieldEqualityRequirement::Equal(kind) = requirement_of_field(field.name, "", false) else {
            return;
        };
        // The seqid of a stateid depends on the order of changes at the server, and is not compared.
        if field.name == "nfs.stateid.seqid" {
            return;
        }
        // The decoders report the last byte, or the first of text.
        let at = match value {
            FieldValue::Unsigned(_)
            | FieldValue::Enum(..)
            | FieldValue::Bool(_)
            | FieldValue::Flags(..)
            | FieldValue::Signed(_) => bytes.end - 1,
            FieldValue::Text(text) | FieldValue::Bytes(text) if !text.is_empty() => {
                text.as_ptr() as usize - self.message.as_ptr() as usize
            }
            _ => return,
        };
        self.found.push(Place { name: field.name, kind, at });
    }
}

/// Returns the content of the DDP-eligible results of a step.
fn contents(step: &TraceStep<'_>, trace: &mut ReplayTraceReader<Bytes<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::new();
    for payload in step.reply.payloads.iter().filter(|payload| !payload.is_inside) {
        let mut content = Vec::new();
        if !trace.content(&payload, &mut content).unwrap() {
            return None;
        }
        contents.push(content);
    }
    Some(contents)
}

fn items(contents: &[Vec<u8>]) -> Vec<ChunkedDataItem<'_>> {
    contents
        .iter()
        .map(|content| ChunkedDataItem { position: None, length: content.len() as u32, bytes: Some(content) })
        .collect()
}

/// Compares a Reply with the recorded one. Payloads in chunks are known by their content, or by the hashes in `known`.
fn hold(
    judge: &mut ReplyChecker,
    step: &TraceStep<'_>,
    (recorded, beside): (&[u8], &[ChunkedDataItem<'_>]),
    known: &[(u32, Option<u128>)],
    (message, live): (&[u8], &[Vec<u8>]),
) -> ReplyCheckResult {
    let live = items(live);
    judge.check(&ReplyPair {
        step: step.origin.id,
        frames: [step.origin.call_frame, step.origin.reply_frame],
        title: "NFS",
        procedure: step.procedure.find_description(),
        recorded: Cursor::new(recorded).with_chunks(beside),
        known,
        live: Cursor::new(message).with_chunks(&live),
        chunks: &live,
        directories: &[],
        creates_exclusively: false,
        files: &[],
        execution: None,
        is_racing: false,
        is_delayed_in_capture: false,
        listing: None,
    })
}

fn judged(step: &TraceStep<'_>, recorded: &[Vec<u8>], message: &[u8], live: &[Vec<u8>]) -> ReplyCheckResult {
    let mut judge = ReplyChecker::new(false, [], ComparisonOptions::default());
    hold(&mut judge, step, (step.reply.head.0, &items(recorded)), &[], (message, live))
}

#[test]
fn changed_replies_are_detected_and_unchanged_ones_match() {
    let (mut lies, mut found, mut honest) = (0u32, 0u32, 0u32);
    let mut unseen = std::collections::BTreeMap::<&str, u32>::new();
    for capture in ["rxe-v3", "rxe-v40", "rxe-v41", "rxe-v42"] {
        let file = compiled(capture, "lies");
        let mut trace = ReplayTraceReader::open(BufReader::new(File::open(&file.0).unwrap())).unwrap();
        let mut data = ReplayTraceReader::open(Bytes::new(fs::read(&file.0).unwrap())).unwrap();
        while let Some(step) = trace.next_step().unwrap() {
            let is_whole = step.reply.completeness == MessageCaptureCompleteness::WHOLE
                && step.procedure.protection == GssProtection::PLAIN;
            let Some(procedure) = step.procedure.find_description().filter(|_| is_whole) else { continue };
            let Some(contents) = contents(&step, &mut data) else { continue };
            let message = step.reply.head.0;
            assert_eq!(
                judged(&step, &contents, message, &contents),
                ReplyCheckResult::Matched,
                "{capture} {}",
                step.origin.id
            );
            honest += 1;
            let mut places = Places { message, found: Vec::new() };
            let chunks = items(&contents);
            let mut cursor = Cursor::new(message).with_chunks(&chunks);
            rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            if procedure.results(&mut cursor, &mut places).is_err() {
                continue;
            }
            // Another field of each step, to cover all kinds of fields.
            let count = places.found.len();
            for turn in 0..3.min(count) {
                let place = &places.found[(step.origin.id as usize * 7 + turn * 13) % count];
                let mut lie = message.to_vec();
                lie[place.at] ^= 1;
                let verdict = judged(&step, &contents, &lie, &contents);
                lies += 1;
                let must = matches!(
                    place.kind,
                    DifferenceKind::Status
                        | DifferenceKind::Data
                        | DifferenceKind::Count
                        | DifferenceKind::Name
                        | DifferenceKind::Offset
                );
                let is_found = match verdict {
                    ReplyCheckResult::Mismatched(_)
                    | ReplyCheckResult::MismatchedBefore { .. }
                    | ReplyCheckResult::Unsupported(..) => true,
                    ReplyCheckResult::Tolerated(_) => !must,
                    ReplyCheckResult::Matched => false,
                };
                found += u32::from(is_found);
                if !is_found {
                    *unseen.entry(place.name).or_default() += 1;
                }
            }
            for at in 0..contents.len() {
                let mut other = contents.clone();
                let Some(byte) = other[at].last_mut() else { continue };
                *byte ^= 1;
                let verdict = judged(&step, &contents, message, &other);
                assert!(
                    matches!(verdict, ReplyCheckResult::Mismatched(_)),
                    "{capture} {}: {verdict:?}",
                    step.origin.id
                );
                lies += 1;
                found += 1;
            }
        }
    }
    assert!(honest > 800 && lies > 2000, "{honest} honest, {lies} lies");
    assert!(found * 100 >= lies * 99, "{found} of {lies}; not told: {unseen:?}");
}

/// Compares a Reply with the recorded one by the hash of its file data.
fn held(
    judge: &mut ReplyChecker,
    step: &TraceStep<'_>,
    sides: [&[u8]; 2],
    known: &[(u32, Option<u128>)],
    live: &[Vec<u8>],
) -> ReplyCheckResult {
    let unknown: Vec<_> = items(live).iter().map(|item| ChunkedDataItem { bytes: None, ..*item }).collect();
    let [recorded, message] = sides;
    hold(judge, step, (recorded, &unknown), known, (message, live))
}

#[test]
fn a_reply_after_others_like_it_matches_where_it_would_match_alone() {
    let (mut changed, mut matched) = (0u32, 0u32);
    for capture in ["rxe-v3", "rxe-v40", "rxe-v42"] {
        let file = compiled(capture, "alike");
        let mut trace = ReplayTraceReader::open(BufReader::new(File::open(&file.0).unwrap())).unwrap();
        let mut data = ReplayTraceReader::open(Bytes::new(fs::read(&file.0).unwrap())).unwrap();
        let mut judge = ReplyChecker::new(false, [], ComparisonOptions::default());
        while let Some(step) = trace.next_step().unwrap() {
            let is_whole = step.reply.completeness == MessageCaptureCompleteness::WHOLE
                && step.procedure.protection == GssProtection::PLAIN;
            if !is_whole || step.procedure.find_description().is_none() {
                continue;
            }
            let Some(contents) = contents(&step, &mut data) else { continue };
            let known: Vec<_> = contents.iter().map(|content| (content.len() as u32, Some(hash(content)))).collect();
            let message = step.reply.head.0;
            for _ in 0..2 {
                let verdict = held(&mut judge, &step, [message; 2], &known, &contents);
                assert_eq!(verdict, ReplyCheckResult::Matched, "{capture} {}", step.origin.id);
            }
            let mut agree = |sides: [&[u8]; 2], contents: &[Vec<u8>], what: &str| {
                let after = held(&mut judge, &step, sides, &known, contents) == ReplyCheckResult::Matched;
                let mut fresh = ReplyChecker::new(false, [], ComparisonOptions::default());
                let alone = held(&mut fresh, &step, sides, &known, contents) == ReplyCheckResult::Matched;
                assert_eq!(after, alone, "{capture} {}: {what}", step.origin.id);
                changed += 1;
                matched += u32::from(alone);
            };
            // Other bytes of each step, to cover all kinds of fields.
            for turn in 0..6 {
                let at = (step.origin.id as usize * 31 + turn * 41) % message.len();
                let mut other = message.to_vec();
                other[at] ^= [1, 0x80][turn % 2];
                agree([message, &other], &contents, &format!("byte {at} of the live reply"));
                agree([&other, message], &contents, &format!("byte {at} of the recorded reply"));
                agree([&other, &other], &contents, &format!("byte {at} of both"));
            }
            for at in 0..contents.len() {
                let mut other = contents.clone();
                other[at].pop();
                agree([message; 2], &other, "data that is too short");
            }
        }
    }
    assert!(changed > 10_000 && matched > 1000, "{matched} of {changed} matched");
}
