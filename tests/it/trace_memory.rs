//! Memory of compiling and planning a trace: the bounded part, and the growth per file before the limit.

use std::io::{self, Cursor, Seek, SeekFrom, Write};

use allocation_counter::measure;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_replay::compile::TraceCompiler;
use nfsrdma_replay::run_plan::ReplayPlanSummary;
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;

const MIB: u64 = 1 << 20;
/// Memory of a compiler with a window of 32 MiB.
const LARGE_BYTES: usize = 256 << 20;
const UDP: usize = 14 + 20;
const PAYLOAD: usize = UDP + 8;

/// File that discards its content.
#[derive(Default)]
struct Nowhere {
    at: u64,
}

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Nowhere {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => self.at = at,
            _ => panic!("{to:?}"),
        }
        Ok(self.at)
    }
}

/// Returns a datagram from the client to the server, or back.
fn datagram(is_call: bool, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; PAYLOAD];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&((PAYLOAD - 14 + message.len()) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    let (from, to, ports) = if is_call { (2, 1, [700_u16, 2049]) } else { (1, 2, [2049, 700]) };
    frame[26..30].copy_from_slice(&[10, 0, 0, from]);
    frame[30..34].copy_from_slice(&[10, 0, 0, to]);
    frame[UDP..UDP + 2].copy_from_slice(&ports[0].to_be_bytes());
    frame[UDP + 2..UDP + 4].copy_from_slice(&ports[1].to_be_bytes());
    frame[UDP + 4..UDP + 6].copy_from_slice(&((8 + message.len()) as u16).to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

fn handle(number: u32) -> [u8; 32] {
    let mut handle = [9; 32];
    handle[4..8].copy_from_slice(&number.to_be_bytes());
    handle
}

/// Returns Call and Reply of NFSv3: LOOKUP of a file by name (RFC 1813 section 3.3.3), or ACCESS of it (section 3.3.4).
fn messages(xid: u32, is_lookup: bool, file: u32) -> [Vec<u8>; 2] {
    let (mut call, mut reply) = (Encoder::new(), Encoder::new());
    for word in [xid, 0, 2, 100_003, 3, if is_lookup { 3 } else { 4 }, 0] {
        call.word(word);
    }
    // The maximum length of a credential (RFC 5531 section 8.2).
    call.append_opaque(&[0; 400]);
    call.word(0);
    call.word(0);
    for word in [xid, 1, 0, 0, 0, 0, 0] {
        reply.word(word);
    }
    if is_lookup {
        call.append_opaque(&handle(0));
        call.append_opaque(format!("file-{file:08}").as_bytes());
        reply.append_opaque(&handle(file));
        reply.word(0);
        reply.word(0);
    } else {
        call.append_opaque(&handle(file));
        call.word(0x3f);
        reply.word(0);
        reply.word(0x1f);
    }
    [call.finish().0, reply.finish().0]
}

/// Passes operations to the compiler, each on the file of its number.
fn compile<W: Write + Seek>(
    flow: &mut Flow,
    compiler: &mut TraceCompiler<W>,
    operations: std::ops::Range<u32>,
    is_lookup: bool,
    file: impl Fn(u32) -> u32,
) {
    for number in operations {
        for (is_call, message) in [true, false].into_iter().zip(messages(number, is_lookup, file(number))) {
            let bytes = datagram(is_call, &message);
            let at = u64::from(number) * 2 + u64::from(!is_call);
            flow.process_frame(&Frame {
                number: FrameNumber(at + 1),
                time: Timestamp(at as i64 * 1_000),
                link: LinkType::ETHERNET,
                bytes: &bytes,
                length: bytes.len() as u32,
            });
        }
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|reading| compiler.add(&transaction, reading, true)).unwrap();
        }
    }
}

fn limits() -> FlowLimits {
    FlowLimits { keep_file_data: true, lingering_transactions: 256, ..FlowLimits::default() }
}

#[test]
fn operations_on_known_files_add_nothing_once_the_window_is_full() {
    let mut flow = Flow::new(limits());
    let mut compiler = TraceCompiler::new(Nowhere::default(), TraceFileDataRetention::KEPT, LARGE_BYTES).unwrap();
    compile(&mut flow, &mut compiler, 1..500, true, |number| number);
    let filling = measure(|| compile(&mut flow, &mut compiler, 500..45_000, false, |n| 1 + n % 400));
    // The window of steps that are sorted.
    assert!(filling.bytes_max < 40 * MIB, "{filling:?}");
    let then = measure(|| compile(&mut flow, &mut compiler, 45_000..60_000, false, |n| 1 + n % 400));
    assert!(then.bytes_max < 2 * MIB, "{then:?}");
    assert!(then.bytes_current < MIB as i64, "{then:?}");
}

#[test]
fn a_new_file_adds_some_hundred_bytes_of_memory() {
    let mut flow = Flow::new(limits());
    let mut compiler = TraceCompiler::new(Nowhere::default(), TraceFileDataRetention::KEPT, LARGE_BYTES).unwrap();
    compile(&mut flow, &mut compiler, 1..45_000, false, |_| 0);
    let files = 15_000;
    let grown = measure(|| compile(&mut flow, &mut compiler, 45_000..45_000 + files, true, |number| number));
    let each = grown.bytes_current as u64 / u64::from(files);
    assert!(each < 900, "{each} bytes a file: {grown:?}");
}

#[test]
fn a_compiler_uses_no_more_memory_than_it_is_given() {
    for bytes in [4 << 20, 16 << 20] {
        let files = bytes as u32 / 200;
        let mut flow = Flow::new(limits());
        let mut compiler = TraceCompiler::new(Nowhere::default(), TraceFileDataRetention::KEPT, bytes).unwrap();
        // Each LOOKUP defines a filehandle; each ACCESS uses one that no step defines.
        let compiled = measure(|| {
            compile(&mut flow, &mut compiler, 1..files, true, |number| number);
            compile(&mut flow, &mut compiler, files..2 * files, false, |number| number);
        });
        let most = bytes as u64 + 2 * MIB;
        assert!(compiled.bytes_max < most, "{compiled:?} of {most}");
        let mut counts = None;
        let finished = measure(|| counts = Some(compiler.finish(&[]).unwrap().1));
        assert!(finished.bytes_max < MIB + bytes as u64 / 16, "{finished:?}");
        let end = counts.unwrap().end;
        assert!(end.forgotten > u64::from(files) && end.left_out > u64::from(files), "{end:?}");
    }
}

#[test]
fn a_long_trace_is_planned_in_little_memory() {
    let mut flow = Flow::new(limits());
    let mut compiler =
        TraceCompiler::new(Cursor::new(Vec::new()), TraceFileDataRetention::HASHED, LARGE_BYTES).unwrap();
    compile(&mut flow, &mut compiler, 1..12_000, true, |number| number);
    compile(&mut flow, &mut compiler, 12_000..30_000, false, |number| 1 + number % 11_000);
    flow.finish();
    while let Some(transaction) = flow.next_transaction() {
        transaction.with_messages(|reading| compiler.add(&transaction, reading, true)).unwrap();
    }
    let (trace, counts) = compiler.finish(&[]).unwrap();
    assert_eq!(counts.end.steps, 29_999);
    let trace = trace.into_inner();
    let mut trace = ReplayTraceReader::open(Cursor::new(&trace[..])).unwrap();
    let mut plan = None;
    let planning = measure(|| plan = Some(ReplayPlanSummary::new(&mut trace).unwrap()));
    let plan = plan.unwrap();
    assert_eq!(plan.total(), 29_999);
    assert_eq!(plan.tree.objects.values().sum::<u64>(), 12_000, "the directory and the files in it");
    // A block of steps, and the 10,000 objects shown.
    assert!(planning.bytes_max < 8 * MIB, "{planning:?}");
}
