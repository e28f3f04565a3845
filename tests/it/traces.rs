//! Traces: every capture compiles, and what was compiled is what was captured.

use std::collections::HashMap;

use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::flow::{Flow, Limits, Transaction};
use nfsrdma_inspect::replay::compile::{Compiler, Counts, Keep};
use nfsrdma_inspect::replay::trace::emit::{Placed, Values, captured, emit};
use nfsrdma_inspect::replay::trace::file::{Block, Reader, TraceError};
use nfsrdma_inspect::replay::trace::{Message, Payload, Slot};
use nfsrdma_inspect::source::Source;

use super::captures;

/// What a message of a capture is to be, and where it is from.
struct Sent {
    which: Which,
    transaction: u64,
    /// The message, where nothing of it travelled beside it.
    bytes: Option<Vec<u8>>,
    length: u64,
}

fn compiled(name: &str, keep: Keep) -> (Vec<u8>, Counts, Vec<Sent>) {
    let mut compiler = Compiler::new(Vec::new(), keep).unwrap();
    let mut sent = Vec::new();
    transactions(name, |transaction| {
        sent.extend([Which::Call, Which::Reply].map(|which| said(transaction, which)).into_iter().flatten());
        compiler.transaction(transaction).unwrap();
    });
    let (trace, counts) = compiler.finish().unwrap();
    (trace, counts, sent)
}

fn transactions(name: &str, mut take: impl FnMut(&Transaction)) {
    let mut source = Source::open([captures::path(name)]).unwrap();
    let mut flow = Flow::new(Limits { keep_data: true, ..Limits::default() });
    while let Some(frame) = source.next().unwrap() {
        flow.frame(&frame);
        while let Some(transaction) = flow.next_transaction() {
            take(&transaction);
        }
    }
    flow.finish();
    while let Some(transaction) = flow.next_transaction() {
        take(&transaction);
    }
}

/// A message that was captured whole.
fn said(transaction: &Transaction, which: Which) -> Option<Sent> {
    let message = transaction.message(which)?;
    let is_whole = transaction.missing().is_empty() && message.bytes.len() >= message.length;
    let length = transaction.rpc_length(which).filter(|_| is_whole)?;
    let bytes = transaction
        .read(|reading| reading.rpc_bytes(which).map(|(bytes, _)| bytes.to_vec()))
        .filter(|bytes| bytes.len() as u64 == length);
    Some(Sent { which, transaction: transaction.index, bytes, length })
}

/// The values that variables had when they were met first.
#[derive(Default)]
struct First {
    values: HashMap<u32, Vec<u8>>,
}

impl Values for First {
    fn value(&mut self, slot: &Slot, captured: &[u8]) -> Option<&[u8]> {
        if slot.holds.is_count() {
            return None;
        }
        Some(self.values.entry(slot.variable).or_insert_with(|| captured.to_vec()))
    }
}

/// Values that are longer than those of the capture, where that may be.
struct Longer(Vec<u8>);

impl Values for Longer {
    fn value(&mut self, slot: &Slot, captured: &[u8]) -> Option<&[u8]> {
        self.0 = captured.to_vec();
        self.0.extend_from_slice(&[7; 9]);
        slot.is_counted.then_some(&self.0)
    }
}

/// Puts payloads into a message, at their positions.
fn put_together(head: &[u8], placed: &[Placed], data: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    let mut from = 0;
    for Placed { position, payload } in placed {
        let until = from + (*position as usize - whole.len());
        whole.extend_from_slice(&head[from..until]);
        from = until;
        if payload.data == Payload::NOWHERE {
            return None;
        }
        let at = payload.data as usize;
        whole.extend_from_slice(&data[at..at + payload.length as usize]);
        whole.resize(whole.len().next_multiple_of(4), 0);
    }
    whole.extend_from_slice(&head[from..]);
    Some(whole)
}

fn data_of(trace: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut take = |block: Block<'_>| {
        if let Block::Data(at, bytes) = block {
            assert_eq!(at, data.len() as u64);
            data.extend_from_slice(bytes);
        }
    };
    Reader::new(trace).unwrap().read(&mut take).unwrap();
    data
}

#[test]
fn with_the_values_of_the_capture_each_message_is_as_it_was_captured() {
    for name in captures::ALL {
        let (trace, counts, sent) = compiled(name, Keep::Data);
        let data = data_of(&trace);
        let sent: HashMap<_, _> =
            sent.iter().map(|sent| ((sent.transaction, sent.which == Which::Call), sent)).collect();
        let (mut values, mut out, mut placed) = (First::default(), Vec::new(), Vec::new());
        let (mut seen, mut equal) = (0, 0);
        let mut check = |transaction: u64, is_call: bool, message: &Message<'_>| {
            emit(message, &mut values, &mut out, &mut placed).unwrap();
            let Some(sent) = sent.get(&(transaction, is_call)) else { return };
            let beside: u64 =
                placed.iter().map(|placed| u64::from(placed.payload.length).next_multiple_of(4)).sum();
            assert_eq!(out.len() as u64 + beside, sent.length, "{name} {transaction} {is_call}");
            seen += 1;
            if let (Some(bytes), Some(whole)) = (&sent.bytes, put_together(&out, &placed, &data)) {
                assert!(*bytes == whole, "{name} {transaction} {is_call}");
                equal += 1;
            }
        };
        let mut steps = 0;
        let mut take = |block: Block<'_>| {
            let Block::Step(step) = block else { return };
            steps += 1;
            check(step.origin.transaction, true, &step.call);
            check(step.origin.transaction, false, &step.reply);
        };
        Reader::new(&trace[..]).unwrap().read(&mut take).unwrap();
        assert_eq!(steps, counts.steps, "{name}");
        assert_eq!(seen, sent.len(), "{name}: every message that was captured whole was looked at");
        assert!(equal > seen / 2, "{name}: {equal} of {seen}");
    }
}

#[test]
fn a_longer_filehandle_moves_what_follows_it() {
    let (trace, ..) = compiled("rxe-v42", Keep::Data);
    let (mut out, mut placed, mut moved) = (Vec::new(), Vec::new(), 0);
    let mut take = |block: Block<'_>| {
        let Block::Step(step) = block else { return };
        emit(&step.call, &mut First::default(), &mut out, &mut placed).unwrap();
        let before: Vec<_> = placed.iter().map(|placed| placed.position).collect();
        let counted = step.call.slots.iter().filter(|slot| slot.is_counted);
        let by: u32 = counted
            .map(|slot| {
                let value = captured(step.call.head.0, &slot).unwrap();
                (value.len() + 9).next_multiple_of(4) as u32 - (slot.length - 4)
            })
            .sum();
        emit(&step.call, &mut Longer(Vec::new()), &mut out, &mut placed).unwrap();
        assert_eq!(out.len(), step.call.head.0.len() + by as usize);
        for (placed, before) in placed.iter().zip(before) {
            assert_eq!(placed.position, before + by);
            moved += 1;
        }
    };
    Reader::new(&trace[..]).unwrap().read(&mut take).unwrap();
    assert_eq!(moved, 16, "payloads of the WRITEs of rxe-v42");
}

#[test]
fn a_trace_that_is_cut_or_damaged_is_an_error_that_says_where() {
    let (trace, ..) = compiled("rxe-v3", Keep::Hash);
    let read = |bytes: &[u8]| Reader::new(bytes).and_then(|mut reader| reader.read(|_| {}));
    read(&trace).unwrap();
    for end in (0..trace.len()).step_by(97) {
        let error = read(&trace[..end]).unwrap_err();
        let is_right = match error {
            TraceError::NoTrace => end < 12,
            TraceError::Cut { at } => at <= end as u64,
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
