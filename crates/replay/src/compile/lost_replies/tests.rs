//! NFSv3 over UDP: a filehandle whose name is known, and LOOKUPs or CREATEs without replies.

use std::io::Cursor;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::{Flow, FlowLimits};

use crate::compile::TraceCompiler;
use crate::trace::ReplayTraceReader;
use crate::trace::file_format::TraceFileDataRetention;
use crate::trace::step::{NONE, TraceSlotValueKind, VariableUseKind};

const LOOKUP: u32 = 3;
const WRITE: u32 = 7;
const CREATE: u32 = 8;
const REMOVE: u32 = 12;
const RENAME: u32 = 14;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Encodes a filehandle or a name of at most four bytes.
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut padded = [0; 4];
    padded[..bytes.len()].copy_from_slice(bytes);
    [&(bytes.len() as u32).to_be_bytes()[..], &padded].concat()
}

fn place(name: &str) -> Vec<u8> {
    [opaque(b"dir"), opaque(name.as_bytes())].concat()
}

/// A call, and the results of its reply if that was captured.
struct Call {
    procedure: u32,
    arguments: Vec<u8>,
    results: Option<Vec<u8>>,
}

impl Call {
    fn lost(mut self) -> Self {
        self.results = None;
        self
    }
}

/// LOOKUP that gives the filehandle `V`.
fn lookup(name: &str) -> Call {
    let results = [words(&[0]), opaque(b"V"), words(&[0, 0])].concat();
    Call { procedure: LOOKUP, arguments: place(name), results: Some(results) }
}

fn lookup_without_result(name: &str) -> Call {
    Call { results: Some(words(&[2, 0])), ..lookup(name) }
}

/// UNCHECKED CREATE without attributes. RFC 1813 section 3.3.8.
fn create(name: &str) -> Call {
    let arguments = [place(name), words(&[0; 7])].concat();
    Call { procedure: CREATE, arguments, results: None }
}

fn remove(name: &str) -> Call {
    Call { procedure: REMOVE, arguments: place(name), results: Some(words(&[0; 3])) }
}

fn rename(from: &str, to: &str) -> Call {
    let arguments = [place(from), place(to)].concat();
    Call { procedure: RENAME, arguments, results: Some(words(&[0; 5])) }
}

/// WRITE of four bytes to `V`.
fn write() -> Call {
    let arguments = [opaque(b"V"), words(&[0, 0, 4, 2]), opaque(b"data")].concat();
    Call { procedure: WRITE, arguments, results: Some(words(&[0, 0, 0, 4, 2, 0, 0])) }
}

fn datagram(ports: [u16; 2], message: &[u8]) -> Vec<u8> {
    let length = 28 + message.len() as u16;
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to) = if ports[0] == 2049 { (server, client) } else { (client, server) };
    let ip = [&[0x45, 0][..], &length.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0], &from, &to].concat();
    let [source, destination] = ports.map(u16::to_be_bytes);
    let udp = [&source[..], &destination, &(length - 20).to_be_bytes(), &[0, 0]].concat();
    [&[0; 12][..], &[8, 0], &ip, &udp, message].concat()
}

/// Compiles calls that are sent one after the other. Returns the numbers of those whose lost replies define `V`.
fn giving(calls: &[Call]) -> Vec<usize> {
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    let mut compiler = TraceCompiler::new(Cursor::new(Vec::new()), TraceFileDataRetention::KEPT, 1 << 20).unwrap();
    let mut number = 0u32;
    for (xid, call) in (1..).zip(calls) {
        let head = words(&[xid, 0, 2, 100_003, 3, call.procedure, 0, 0, 0, 0]);
        let call_frame = datagram([800, 2049], &[head, call.arguments.clone()].concat());
        let reply = call.results.as_ref().map(|results| [words(&[xid, 1, 0, 0, 0, 0]), results.clone()].concat());
        for bytes in [Some(call_frame), reply.map(|reply| datagram([2049, 800], &reply))].into_iter().flatten() {
            number += 1;
            let (time, length) = (Timestamp(i64::from(number) * 1_000_000), bytes.len() as u32);
            let number = FrameNumber(u64::from(number));
            flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes: &bytes, length });
        }
    }
    flow.finish();
    while let Some(transaction) = flow.next_transaction() {
        transaction.with_messages(|reading| compiler.add(&transaction, reading, true)).unwrap();
    }
    let trace = compiler.finish(&[]).unwrap().0.into_inner();
    let mut found = Vec::new();
    let mut steps = 0;
    let mut reader = ReplayTraceReader::open(Cursor::new(trace)).unwrap();
    reader
        .for_each_step(|step| {
            let defines = |slot: &crate::trace::step::SubstitutableMessageSlot| {
                slot.value_kind == TraceSlotValueKind::FILEHANDLE && slot.part == VariableUseKind::DEFINED
            };
            assert_ne!(step.procedure.number, NONE);
            if step.reply.is_empty() && step.reply.slots.iter().any(|slot| defines(&slot)) {
                found.push(steps);
            }
            steps += 1;
        })
        .unwrap();
    assert_eq!(steps, calls.len());
    found
}

/// A name counts for a lost call if the object had it at the time of the call. RFC 1813 sections 3.3.3, 3.3.14.
#[test]
fn later_name_defines_no_handle() {
    let renamed = [lookup("a").lost(), write(), lookup("b"), rename("b", "a")];
    assert_eq!(giving(&renamed), [], "b is renamed to a later");
    let found_again = [lookup("a").lost(), write(), rename("b", "a"), lookup("a")];
    assert_eq!(giving(&found_again), [], "renamed to a, and found there");
    let lost_rename = [lookup("a").lost(), write(), rename("b", "a").lost(), lookup("a")];
    assert_eq!(giving(&lost_rename), [], "b may be renamed to a later");
}

#[test]
fn name_of_that_time_defines_handle() {
    assert_eq!(giving(&[lookup("a").lost(), write(), lookup("a")]), [0]);
    assert_eq!(giving(&[rename("b", "a"), lookup("a").lost(), write(), lookup("a")]), [1], "renamed before");
    assert_eq!(giving(&[lookup("a").lost(), write(), lookup("a"), rename("a", "b")]), [0], "renamed away later");
    assert_eq!(giving(&[lookup("a").lost(), write(), lookup("a"), remove("a")]), [0], "removed later");
}

/// RFC 1813 section 3.3.8: CREATE after REMOVE makes another object.
#[test]
fn handle_of_new_object_is_of_its_creation() {
    let removed = [lookup("a").lost(), remove("a"), create("a"), write(), lookup("a")];
    assert_eq!(giving(&removed), [2]);
    let lost_removal = [create("a"), remove("a").lost(), create("a"), write(), lookup("a")];
    assert_eq!(giving(&lost_removal), [2]);
    let missing = [lookup("a").lost(), lookup_without_result("a"), create("a"), write(), lookup("a")];
    assert_eq!(giving(&missing), [2]);
    assert_eq!(giving(&[lookup("a").lost(), create("a"), write(), lookup("a")]), [1]);
}

/// WRITE_SAME of 3 blocks of 4,096 bytes at 100, and LAYOUTCOMMIT up to byte 50. RFC 7862 section 15.12, RFC 8881
/// section 18.42.
#[test]
fn lost_write_same_and_layoutcommit_set_sizes() {
    let stateid = words(&[0; 4]);
    let call = [
        words(&[0, 2, 3, 22]),
        opaque(b"V"),
        words(&[70]),
        stateid.clone(),
        words(&[2, 0, 100, 0, 4096, 0, 3, 0, 0, 0, 0, 0, 0]),
        words(&[49, 0, 0, 0, 51, 0]),
        stateid,
        words(&[1, 0, 50, 0, 1, 0]),
    ];
    let call = call.concat();
    let mut cursor = nfsrdma_dissectors::xdr::Cursor::new(&call);
    let results = super::results_of_compound(&mut cursor, &|_| super::CalledObject::of_handle(5));
    assert_eq!(results.sizes, [(5, 100 + 3 * 4096), (5, 51)]);
}
