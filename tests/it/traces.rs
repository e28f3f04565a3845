//! Traces: every capture compiles, and what was compiled is what was captured.

use std::collections::HashMap;
use std::io::Cursor;

use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::flow::{Flow, Limits, Transaction};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_inspect::replay::compile::{Compiler, Counts};
use nfsrdma_inspect::replay::trace::emit::{AsCaptured, Header, Placed, Values, captured, emit};
use nfsrdma_inspect::replay::trace::layout::Keeping;
use nfsrdma_inspect::replay::trace::{Content, Message, Part, Slot, Trace, TraceError};
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

fn compiled(name: &str, keeping: Keeping) -> (Vec<u8>, Counts, Vec<Sent>) {
    let mut compiler = Compiler::new(Cursor::new(Vec::new()), keeping).unwrap();
    let mut sent = Vec::new();
    transactions(name, |transaction| {
        sent.extend([Which::Call, Which::Reply].map(|which| said(transaction, which)).into_iter().flatten());
        compiler.transaction(transaction).unwrap();
    });
    let (trace, counts) = compiler.finish(&[name.to_owned()]).unwrap();
    (trace.into_inner(), counts, sent)
}

fn open(trace: &[u8]) -> Trace<Cursor<&[u8]>> {
    Trace::open(Cursor::new(trace)).unwrap()
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
fn put_together(head: &[u8], placed: &[Placed], trace: &mut Trace<Cursor<&[u8]>>) -> Option<Vec<u8>> {
    let (mut whole, mut content) = (Vec::new(), Vec::new());
    let mut from = 0;
    for Placed { position, payload } in placed {
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
        let (trace, counts, sent) = compiled(name, Keeping::KEPT);
        let sent: HashMap<_, _> =
            sent.iter().map(|sent| ((sent.transaction, sent.which == Which::Call), sent)).collect();
        let mut values = First::default();
        let (mut out, mut placed) = (Vec::new(), Vec::new());
        let (mut seen, mut equal, mut steps) = (0, 0, 0);
        let mut contents = open(&trace);
        let mut check = |transaction: u64, is_call: bool, message: &Message<'_>| {
            emit(message, Header::Captured, &mut values, &mut out, &mut placed).unwrap();
            let Some(sent) = sent.get(&(transaction, is_call)) else { return };
            let beside: u64 =
                placed.iter().map(|placed| u64::from(placed.payload.length).next_multiple_of(4)).sum();
            assert_eq!(out.len() as u64 + beside, sent.length, "{name} {transaction} {is_call}");
            assert!(message.is_whole(), "{name} {transaction} {is_call}");
            seen += 1;
            if let (Some(bytes), Some(whole)) = (&sent.bytes, put_together(&out, &placed, &mut contents)) {
                assert!(*bytes == whole, "{name} {transaction} {is_call}");
                equal += 1;
            }
        };
        open(&trace)
            .steps(|step| {
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
fn show_a_trace() {
    let Ok(name) = std::env::var("SHOW") else { return };
    let (trace, counts, _) = compiled(&name, Keeping::KEPT);
    println!("{counts:?} {} bytes", trace.len());
    let mut trace = open(&trace);
    println!("{:#?}", trace.summary());
    let mut left = 60;
    trace
        .steps(|step| {
            left -= 1;
            if left < 0 {
                return;
            }
            println!("{:?}\n  {:?} {:?}", step.origin, step.caller, step.asked);
            println!("  {:?} {:?} {:?}", step.shape, step.carried, step.needs);
            for message in [&step.call, &step.reply] {
                println!("  - {:?} {} {}..{}", message.seen, message.head.0.len(), message.body, message.end);
                for slot in message.slots {
                    println!(
                        "    {:?} {} {} v{} op{} {} by {} {:x}",
                        slot.part,
                        slot.holds,
                        slot.length,
                        slot.variable,
                        slot.operation,
                        slot.at,
                        slot.definition,
                        slot.place
                    );
                }
                for payload in message.payloads {
                    println!("    {payload:?}");
                }
            }
        })
        .unwrap();
    trace.undefined(|undefined| println!("{undefined:?}")).unwrap();
}

#[test]
fn another_xid_and_a_longer_filehandle_move_what_follows_and_change_nothing_else() {
    let (trace, ..) = compiled("rxe-v42", Keeping::KEPT);
    let (mut out, mut placed, mut moved) = (Vec::new(), Vec::new(), 0);
    open(&trace)
        .steps(|step| {
            emit(&step.call, Header::Captured, &mut AsCaptured, &mut out, &mut placed).unwrap();
            let before: Vec<_> = placed.iter().map(|placed| placed.position).collect();
            let counted = step.call.slots.iter().filter(|slot| slot.is_counted);
            let by: u32 = counted
                .map(|slot| {
                    let value = captured(step.call.head.0, &slot).unwrap();
                    (value.len() + 9).next_multiple_of(4) as u32 - (slot.length - 4)
                })
                .sum();
            let longer = &mut Longer(Vec::new());
            emit(&step.call, Header::Xid(Xid(0x0102_0304)), longer, &mut out, &mut placed).unwrap();
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
fn a_trace_that_is_cut_or_damaged_is_an_error_that_says_where() {
    let (trace, ..) = compiled("rxe-v3", Keeping::HASHED);
    let read = |bytes: &[u8]| {
        let mut trace = Trace::open(Cursor::new(bytes))?;
        trace.steps(|_| {})?;
        trace.extents(|_| {})?;
        trace.undefined(|_| {})?;
        trace.objects(|_| {})
    };
    read(&trace).unwrap();
    for end in (0..trace.len()).step_by(97) {
        let error = read(&trace[..end]).unwrap_err();
        let is_right = match error {
            TraceError::NoTrace => end < 28,
            TraceError::Cut { at } => at >= end as u64 || at <= trace.len() as u64,
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
fn what_is_used_was_defined_before_by_time() {
    for name in captures::ALL {
        let (trace, ..) = compiled(name, Keeping::HASHED);
        let (mut times, mut definers) = (HashMap::new(), 0);
        let mut steps = Vec::new();
        open(&trace)
            .steps(|step| {
                times.insert(step.origin.id, step.origin.time);
                for slot in step.call.slots.iter().chain(step.reply.slots.iter()) {
                    if slot.part == Part::DEFINED {
                        assert_eq!(slot.definition, step.origin.id);
                        definers += 1;
                    }
                    steps.push((step.origin.id, step.origin.time, slot.definition, slot.part));
                }
            })
            .unwrap();
        for (id, time, definition, part) in steps {
            if definition != 0 && part == Part::USED {
                assert!(times[&definition] <= time, "{name}: {id} uses what {definition} defines");
            }
        }
        assert!(definers > 0, "{name}");
    }
}

#[test]
fn file_data_that_is_not_kept_has_its_hash() {
    let (kept, ..) = compiled("rxe-v42", Keeping::KEPT);
    let (hashed, ..) = compiled("rxe-v42", Keeping::HASHED);
    assert!(hashed.len() < kept.len());
    let hashes = |trace: &[u8], content| {
        let mut hashes = Vec::new();
        let mut take = |message: &Message<'_>| {
            let own = message.payloads.iter().filter(|payload| payload.content == content);
            hashes.extend(own.map(|payload| payload.hash));
        };
        open(trace)
            .steps(|step| {
                take(&step.call);
                take(&step.reply);
            })
            .unwrap();
        hashes
    };
    let [kept, hashed] = [hashes(&kept, Content::KEPT), hashes(&hashed, Content::HASHED)];
    assert!(!kept.is_empty());
    assert!(hashed.iter().all(|hash| kept.contains(hash)));
}
