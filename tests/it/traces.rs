//! Traces: every capture compiles, and the trace agrees with the capture.

use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;

use nfsrdma_analysis::comparison::field_equality::{FieldEqualityRequirement, requirement_of_field};
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};
use nfsrdma_inspect::output::Report;
use nfsrdma_inspect::output::plan::PlanReportView;
use nfsrdma_inspect::output::style::TerminalProfile;
use nfsrdma_replay::compile::{TraceCompileCounts, TraceCompiler};
use nfsrdma_replay::run_plan::ReplayPlanSummary;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;
use nfsrdma_replay::trace::live_reply_binding::{bind_slots, visit_reply};
use nfsrdma_replay::trace::value_substitution::{
    CapturedMessageValueSource, MessageSlotValueSource, ReplayedRpcHeader, TracePayloadInMessage, captured_value, emit,
};
use nfsrdma_replay::trace::{
    GssProtection, PayloadContentState, ReplayTraceReader, SubstitutableMessageSlot, TraceError, TraceMessage,
    TraceProcedure, TraceSlotValueKind, VariableUseKind,
};

use super::captures;

/// Expected message, and its origin.
pub(crate) struct Sent {
    which: RpcMessageKind,
    transaction: u64,
    /// Message, if no part of it went in chunks.
    bytes: Option<Vec<u8>>,
    length: u64,
}

pub(crate) fn compiled(name: &str, keeping: TraceFileDataRetention) -> (Vec<u8>, TraceCompileCounts, Vec<Sent>) {
    let mut compiler = TraceCompiler::new(Cursor::new(Vec::new()), keeping, 64 << 20).unwrap();
    let mut sent = Vec::new();
    transactions(name, |transaction| {
        sent.extend(
            [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| rpc_of(transaction, which)).into_iter().flatten(),
        );
        transaction.with_messages(|reading| compiler.add(transaction, reading, true)).unwrap();
    });
    let (trace, counts) = compiler.finish(&[name.to_owned()]).unwrap();
    (trace.into_inner(), counts, sent)
}

pub(crate) fn open(trace: &[u8]) -> ReplayTraceReader<Cursor<&[u8]>> {
    ReplayTraceReader::open(Cursor::new(trace)).unwrap()
}

fn transactions(name: &str, mut take: impl FnMut(&Transaction)) {
    let mut source = CaptureFrameSource::open([captures::path(name)]).unwrap();
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        while let Some(transaction) = flow.next_transaction() {
            take(&transaction);
        }
    }
    flow.finish();
    while let Some(transaction) = flow.next_transaction() {
        take(&transaction);
    }
}

/// Returns a completely captured message.
fn rpc_of(transaction: &Transaction, which: RpcMessageKind) -> Option<Sent> {
    let message = transaction.message(which)?;
    let is_whole = transaction.missing_parts().is_empty() && message.bytes.len() >= message.length;
    let length = transaction.rpc_length(which).filter(|_| is_whole)?;
    let bytes = transaction
        .with_messages(|reading| reading.rpc_bytes(which).map(|(bytes, _)| bytes.to_vec()))
        .filter(|bytes| bytes.len() as u64 == length);
    Some(Sent { which, transaction: transaction.index, bytes, length })
}

/// Values of variables at their first occurrence.
#[derive(Default)]
struct First {
    values: HashMap<u32, Vec<u8>>,
}

impl MessageSlotValueSource for First {
    fn value(&mut self, slot: &SubstitutableMessageSlot, captured: &[u8]) -> Option<&[u8]> {
        if slot.value_kind.is_count() {
            return None;
        }
        Some(self.values.entry(slot.variable).or_insert_with(|| captured.to_vec()))
    }
}

/// Values longer than those of the capture, if allowed.
struct Longer(Vec<u8>);

impl MessageSlotValueSource for Longer {
    fn value(&mut self, slot: &SubstitutableMessageSlot, captured: &[u8]) -> Option<&[u8]> {
        self.0 = captured.to_vec();
        // Filehandles of NFSv3 have 64 bytes at most.
        self.0.extend_from_slice(&[7; 9]);
        // The text of an address is recorded, too.
        (slot.is_counted && slot.value_kind != TraceSlotValueKind::HOST).then_some(&self.0)
    }
}

/// Inserts payloads into a message at their positions.
fn put_together(
    head: &[u8],
    placed: &[TracePayloadInMessage],
    trace: &mut ReplayTraceReader<Cursor<&[u8]>>,
) -> Option<Vec<u8>> {
    let (mut whole, mut content) = (Vec::new(), Vec::new());
    let mut from = 0;
    for TracePayloadInMessage { position, payload } in placed {
        let until = from + (*position as usize - whole.len());
        whole.extend_from_slice(&head[from..until]);
        from = until;
        if !trace.content(payload, &mut content).unwrap() {
            return None;
        }
        whole.extend_from_slice(&content);
        whole.resize(whole.len().next_multiple_of(4), 0);
    }
    whole.extend_from_slice(&head[from..]);
    Some(whole)
}

#[test]
fn with_the_values_of_the_capture_each_message_is_as_it_was_captured() {
    for name in captures::ALL {
        let (trace, counts, sent) = compiled(name, TraceFileDataRetention::KEPT);
        let sent: HashMap<_, _> =
            sent.iter().map(|sent| ((sent.transaction, sent.which == RpcMessageKind::Call), sent)).collect();
        let mut values = First::default();
        let (mut out, mut placed) = (Vec::new(), Vec::new());
        let (mut seen, mut equal, mut steps) = (0, 0, 0);
        let mut contents = open(&trace);
        let mut check = |transaction: u64, is_call: bool, message: &TraceMessage<'_>| {
            emit(message, ReplayedRpcHeader::Captured, &mut values, &mut out, &mut placed).unwrap();
            let Some(sent) = sent.get(&(transaction, is_call)) else { return };
            let beside: u64 = placed.iter().map(|placed| u64::from(placed.payload.length).next_multiple_of(4)).sum();
            assert_eq!(out.len() as u64 + beside, sent.length, "{name} {transaction} {is_call}");
            assert!(message.is_complete(), "{name} {transaction} {is_call}");
            seen += 1;
            if let (Some(bytes), Some(whole)) = (&sent.bytes, put_together(&out, &placed, &mut contents)) {
                assert!(*bytes == whole, "{name} {transaction} {is_call}");
                equal += 1;
            }
        };
        open(&trace)
            .for_each_step(|step| {
                steps += 1;
                check(step.origin.id, true, &step.call);
                check(step.origin.id, false, &step.reply);
            })
            .unwrap();
        assert_eq!(steps, counts.end.steps, "{name}");
        assert_eq!(seen, sent.len(), "{name}: every message that was captured whole was looked at");
        assert!(equal > seen / 2, "{name}: {equal} of {seen}");
    }
}

#[test]
fn other_xids_and_longer_filehandles_only_shift_later_bytes() {
    let (trace, ..) = compiled("rxe-v42", TraceFileDataRetention::KEPT);
    let (mut out, mut placed, mut moved) = (Vec::new(), Vec::new(), 0);
    open(&trace)
        .for_each_step(|step| {
            emit(&step.call, ReplayedRpcHeader::Captured, &mut CapturedMessageValueSource, &mut out, &mut placed)
                .unwrap();
            let before: Vec<_> = placed.iter().map(|placed| placed.position).collect();
            let counted =
                step.call.slots.iter().filter(|slot| slot.is_counted && slot.value_kind != TraceSlotValueKind::HOST);
            let by: u32 = counted
                .map(|slot| {
                    let value = captured_value(step.call.head.0, &slot).unwrap();
                    (value.len() + 9).next_multiple_of(4) as u32 - (slot.length - 4)
                })
                .sum();
            let longer = &mut Longer(Vec::new());
            emit(&step.call, ReplayedRpcHeader::Xid(Xid(0x0102_0304)), longer, &mut out, &mut placed).unwrap();
            assert_eq!(out.len(), step.call.head.0.len() + by as usize);
            assert_eq!(out[..4], [1, 2, 3, 4]);
            for (placed, before) in placed.iter().zip(before) {
                assert_eq!(placed.position, before + by);
                moved += 1;
            }
        })
        .unwrap();
    assert_eq!(moved, 16, "payloads of the WRITEs of rxe-v42");
}

#[test]
fn a_cut_or_damaged_trace_is_an_error_with_its_offset() {
    let (trace, ..) = compiled("rxe-v3", TraceFileDataRetention::HASHED);
    let read = |bytes: &[u8]| {
        let mut trace = ReplayTraceReader::open(Cursor::new(bytes))?;
        trace.for_each_step(|_| {})?;
        trace.for_each_extent(|_| {})?;
        trace.for_each_undefined(|_| {})?;
        trace.for_each_object(|_| {})
    };
    read(&trace).unwrap();
    for end in (0..trace.len()).step_by(97) {
        let error = read(&trace[..end]).unwrap_err();
        let is_right = match error {
            TraceError::NoTrace => end < 28,
            TraceError::Cut(at) => at >= end as u64 || at <= trace.len() as u64,
            _ => false,
        };
        assert!(is_right, "cut at {end}: {error}");
    }
    for at in (0..trace.len()).step_by(89) {
        let mut bytes = trace.clone();
        bytes[at] ^= 0x10;
        assert!(read(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn used_values_were_defined_at_an_earlier_time() {
    for name in captures::ALL {
        let (trace, ..) = compiled(name, TraceFileDataRetention::HASHED);
        let (mut times, mut definers) = (HashMap::new(), 0);
        let mut steps = Vec::new();
        open(&trace)
            .for_each_step(|step| {
                times.insert(step.origin.id, step.origin.time_ns);
                for slot in step.call.slots.iter().chain(step.reply.slots.iter()) {
                    if slot.part == VariableUseKind::DEFINED {
                        assert_eq!(slot.definition, step.origin.id);
                        definers += 1;
                    }
                    steps.push((step.origin.id, step.origin.time_ns, slot.definition, slot.part));
                }
            })
            .unwrap();
        for (id, time, definition, part) in steps {
            if definition != 0 && part == VariableUseKind::USED {
                assert!(times[&definition] <= time, "{name}: {id} uses what {definition} defines");
            }
        }
        assert!(definers > 0 || name == "rxe-v42-snap128", "{name}");
    }
}

#[test]
fn omitted_file_data_has_its_hash() {
    let (kept, ..) = compiled("rxe-v42", TraceFileDataRetention::KEPT);
    let (hashed, ..) = compiled("rxe-v42", TraceFileDataRetention::HASHED);
    assert!(hashed.len() < kept.len());
    let hashes = |trace: &[u8], content| {
        let mut hashes = Vec::new();
        let mut take = |message: &TraceMessage<'_>| {
            let own = message.payloads.iter().filter(|payload| payload.content == content);
            hashes.extend(own.map(|payload| payload.hash));
        };
        open(trace)
            .for_each_step(|step| {
                take(&step.call);
                take(&step.reply);
            })
            .unwrap();
        hashes
    };
    let [kept, hashed] = [hashes(&kept, PayloadContentState::KEPT), hashes(&hashed, PayloadContentState::HASHED)];
    assert!(!kept.is_empty());
    assert!(hashed.iter().all(|hash| kept.contains(hash)));
}

/// All values of a message except identities, as text.
#[derive(Default)]
struct Others(Vec<String>);

impl<'a> FieldObserver<'a> for Others {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        if !matches!(requirement_of_field(field.name, "", true), FieldEqualityRequirement::Identity(_)) {
            self.0.push(format!("{} {value:?}", field.name));
        }
    }
}

/// Returns everything in the arguments of a Call except identities.
fn arguments(asked: &TraceProcedure, message: &[u8], placed: &[TracePayloadInMessage]) -> Vec<String> {
    let items = TracePayloadInMessage::items(placed);
    let mut cursor = xdr::Cursor::new(message).with_chunks(&items);
    nfsrdma_dissectors::rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let mut others = Others::default();
    asked.find_description().unwrap().arguments(&mut cursor, &mut others).unwrap();
    others.0
}

#[test]
fn replacing_names_leaves_all_other_fields_of_a_call() {
    for name in captures::ALL {
        let (trace, ..) = compiled(name, TraceFileDataRetention::HASHED);
        let (mut one, mut placed_one) = (Vec::new(), Vec::new());
        let (mut other, mut placed_other) = (Vec::new(), Vec::new());
        let mut compared = 0;
        open(&trace)
            .for_each_step(|step| {
                let is_plain = step.procedure.protection == GssProtection::PLAIN;
                if !step.call.is_complete() || !is_plain || step.procedure.find_description().is_none() {
                    return;
                }
                let captured = &mut CapturedMessageValueSource;
                emit(&step.call, ReplayedRpcHeader::Captured, captured, &mut one, &mut placed_one).unwrap();
                let xid = ReplayedRpcHeader::Xid(Xid(7));
                let longer = &mut Longer(Vec::new());
                emit(&step.call, xid, longer, &mut other, &mut placed_other).unwrap();
                assert_eq!(
                    arguments(&step.procedure, &one, &placed_one),
                    arguments(&step.procedure, &other, &placed_other),
                    "{name} {}",
                    step.origin.id
                );
                compared += 1;
            })
            .unwrap();
        assert!(compared > 20 || name == "rxe-v42-snap128", "{name}: {compared}");
    }
}

#[test]
fn values_of_a_reply_have_the_same_places_in_a_live_one() {
    for name in captures::ALL {
        let (trace, ..) = compiled(name, TraceFileDataRetention::KEPT);
        let mut contents = open(&trace);
        let (mut out, mut placed, mut found) = (Vec::new(), Vec::new(), 0);
        open(&trace)
            .for_each_step(|step| {
                if !step.reply.is_complete() || step.procedure.protection != GssProtection::PLAIN {
                    return;
                }
                emit(&step.reply, ReplayedRpcHeader::Captured, &mut CapturedMessageValueSource, &mut out, &mut placed)
                    .unwrap();
                let Some(whole) = put_together(&out, &placed, &mut contents) else { return };
                // RDMA_ERROR has no RPC message.
                if whole.is_empty() {
                    return;
                }
                let (ear, heard) = visit_reply(&step.procedure, xdr::Cursor::new(&whole));
                heard.unwrap();
                bind_slots(step, &ear, &whole, |slot, value| {
                    assert_eq!(value, captured_value(step.reply.head.0, slot), "{name} {}", step.origin.id);
                    found += 1;
                });
            })
            .unwrap();
        let has_few = name == "rxe-v42-snap128" || name.ends_with("-errors");
        assert!(found > 20 || has_few, "{name}: {found}");
    }
}

/// Recomputes the checksums of all contiguous blocks.
fn update_checksums(trace: &mut [u8]) {
    let checksum = crc32fast::hash(&trace[..24]);
    trace[24..28].copy_from_slice(&checksum.to_be_bytes());
    let mut at = 28;
    while at + 12 <= trace.len() {
        let length = u32::from_be_bytes(trace[at + 4..at + 8].try_into().unwrap()) as usize;
        let Some(content) = trace.get(at + 12..at + 12 + length) else { return };
        let checksum = crc32fast::hash(content);
        trace[at + 8..at + 12].copy_from_slice(&checksum.to_be_bytes());
        at += 12 + length.next_multiple_of(4);
    }
}

/// Reads a complete trace, and uses it like a replay.
fn use_all(trace: &[u8]) -> Result<(), TraceError> {
    let mut trace = ReplayTraceReader::open(Cursor::new(trace))?;
    let (mut out, mut placed) = (Vec::new(), Vec::new());
    trace.for_each_step(|step| {
        for message in [&step.call, &step.reply] {
            let _ = emit(
                message,
                ReplayedRpcHeader::New(b"header"),
                &mut CapturedMessageValueSource,
                &mut out,
                &mut placed,
            );
            let _ = emit(message, ReplayedRpcHeader::Captured, &mut CapturedMessageValueSource, &mut out, &mut placed);
        }
    })?;
    let mut extents = Vec::new();
    trace.for_each_extent(|extent| extents.push(extent.clone()))?;
    for extent in &extents {
        let _ = trace.extent(extent, &mut out);
    }
    let plan = ReplayPlanSummary::new(&mut trace)?;
    let screen = TerminalProfile::pipe();
    PlanReportView { name: "trace", plan: &plan, count: 50, screen }.text(&mut std::io::sink()).unwrap();
    Ok(())
}

#[test]
fn a_corrupted_trace_with_valid_checksums_is_harmless() {
    let (whole, ..) = compiled("rxe-v40-deleg", TraceFileDataRetention::KEPT);
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..200 {
        let mut trace = whole.clone();
        for _ in 0..1 + random(8) {
            let at = 28 + random(trace.len() - 28);
            trace[at] = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
        }
        update_checksums(&mut trace);
        match use_all(&trace) {
            Ok(()) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read > 10 && refused > 10, "{read} {refused}");
}

#[test]
fn the_example_of_the_document_is_a_trace() {
    let document = include_str!("../../docs/trace.md");
    let (_, example) = document.split_once("## An example").unwrap();
    let (trace, ..) = compiled("rxe-v42", TraceFileDataRetention::HASHED);
    let mut lines = 0;
    for line in example.lines() {
        let Some((at, rest)) = line.split_once("  ").filter(|(at, _)| at.len() == 4) else { continue };
        let at = usize::from_str_radix(at, 16).unwrap();
        let hex = rest.split(' ').next().unwrap();
        let bytes: String = trace[at..at + hex.len() / 2].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, bytes, "byte {at}");
        lines += 1;
    }
    assert!(lines > 40, "{lines}");
}
