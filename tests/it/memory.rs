//! Memory of an analysis: bounded for a capture of any length, and none for the packets that carry the bulk of the
//! data.

use allocation_counter::{AllocationInfo, measure};
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_dissectors::infiniband::{InfinibandPacket, PacketOperation, PacketPositionInMessage};
use nfsrdma_dissectors::net::NetworkLayerPayload;
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::{Flow, FlowLimits, FrameContentKind};

use crate::captures;
use crate::repeat::Repeated;

const MIB: u64 = 1 << 20;

/// Reads a capture and every Transaction in it; returns their number.
fn analyse(mut source: CaptureFrameSource) -> u64 {
    fn read(flow: &mut Flow) -> u64 {
        let mut transactions = 0;
        while let Some(transaction) = flow.next_transaction() {
            let facts = transaction.with_messages(|reading| reading.summary());
            assert_eq!((facts.call_error, facts.reply_error), (None, None));
            transactions += 1;
        }
        transactions
    }
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = 0;
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        transactions += read(&mut flow);
    }
    flow.finish();
    transactions + read(&mut flow)
}

fn peak(name: &'static str, size: u64) -> u64 {
    let file = captures::bytes(name);
    let transactions = analyse(CaptureFrameSource::from_reader(name, std::io::Cursor::new(file.clone())));
    let capture = Repeated::of_size(file, size);
    assert!(capture.bytes() >= size);
    let repetitions = u64::from(capture.repetitions());
    let info = measure(|| {
        assert_eq!(analyse(CaptureFrameSource::from_reader(name, capture)), transactions * repetitions);
    });
    info.bytes_max
}

#[test]
fn a_capture_of_256_mib_full_of_data_is_analysed_in_a_few_mib() {
    let peak = peak("rxe-v42-conc-head", 256 * MIB);
    assert!(peak < 8 * MIB, "{peak} bytes");
}

#[test]
fn a_capture_of_256_mib_full_of_small_operations_is_analysed_in_little_memory() {
    let peak = peak("rxe-v42", 256 * MIB);
    assert!(peak < 32 * MIB, "{peak} bytes");
}

/// Returns the peak memory of the program, as counted by the kernel.
#[cfg(target_os = "linux")]
fn high_water(process: &std::process::Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
#[cfg(target_os = "linux")]
fn the_program_reads_256_mib_from_a_pipe_in_little_memory() {
    use std::process::{Command, Stdio};

    let mut capture = Repeated::of_size(captures::bytes("rxe-v42-conc-head"), 256 * MIB);
    let mut process = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["-q", "--summary", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    std::io::copy(&mut capture, &mut input).unwrap();
    // The program waits for more, and the rest in the pipe adds no memory.
    let most = high_water(&process);
    drop(input);
    let output = process.wait_with_output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["frames"], capture.packets());
    assert!(most < 64 * MIB, "{most} bytes");
}

/// Allocations for a packet with data.
struct Cost {
    kind: ChunkKind,
    place: PacketPositionInMessage,
    operation: PacketOperation,
    allocations: AllocationInfo,
}

/// Returns the packets of a capture with chunk data whose bytes are not stored.
fn data_packets(name: &'static str) -> Vec<Cost> {
    let mut source = CaptureFrameSource::from_reader(name, std::io::Cursor::new(captures::bytes(name)));
    let mut flow = Flow::new(FlowLimits::default());
    let mut costs = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        let mut meaning = FrameContentKind::Unrelated;
        let allocations = measure(|| meaning = flow.process_frame(&frame));
        if let FrameContentKind::ChunkData { key, kind, chunk } = meaning {
            let transaction = flow.transaction(key).unwrap();
            let segments = match kind {
                ChunkKind::Read => &transaction.read_chunks[chunk].segments,
                ChunkKind::Write => &transaction.write_chunks[chunk].segments,
                ChunkKind::Reply => &transaction.reply_chunk.as_ref().unwrap().segments,
            };
            if segments.iter().all(|segment| segment.payload.is_none()) {
                let packet = packet(&frame);
                costs.push(Cost {
                    kind,
                    place: packet.properties.position,
                    operation: packet.properties.operation,
                    allocations,
                });
            }
        }
        while flow.next_transaction().is_some() {}
    }
    costs
}

fn packet<'a>(frame: &Frame<'a>) -> InfinibandPacket<'a> {
    let datagram = nfsrdma_dissectors::net::decode(frame, &mut nfsrdma_dissectors::field::NullFieldObserver);
    match datagram.payload {
        NetworkLayerPayload::Infiniband(packet) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_packets_of_rdma_reads_and_writes_allocate_nothing() {
    let mut counts = [0; 2];
    for name in ["rxe-v42-conc-head", "rxe-v42", "rxe-v3", "rxe-v42-ip6"] {
        for Cost { kind, place, operation, allocations } in data_packets(name) {
            // The first packet of an RDMA Write is stored for the following ones.
            if operation == PacketOperation::Write && place.begins() {
                continue;
            }
            assert_eq!(allocations.count_total, 0, "{name}: {kind:?} {operation:?} {place:?}");
            counts[usize::from(operation == PacketOperation::Write)] += 1;
        }
    }
    assert!(counts[0] > 3000 && counts[1] > 100, "{counts:?} packets of RDMA Reads and Writes");
}

/// Generator of frames of many short TCP connections, each with other ports: every tenth carries a Call of NFS and its
/// Reply, the others something else.
struct Connections {
    frames: [Vec<u8>; 4],
}

const ETHERNET: usize = 14;
const TCP: usize = ETHERNET + 20;
const PAYLOAD: usize = TCP + 20;
const MARK: [u8; 4] = [0x80, 0, 0, 40];
const CALL: [u32; 10] = [7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
const REPLY: [u32; 6] = [7, 1, 0, 0, 0, 0];

fn segment(from: u8, to: u8, ports: [u16; 2], numbers: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; PAYLOAD];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&((PAYLOAD - ETHERNET + payload.len()) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&[10, 0, 0, from]);
    frame[30..34].copy_from_slice(&[10, 0, 0, to]);
    frame[TCP..TCP + 2].copy_from_slice(&ports[0].to_be_bytes());
    frame[TCP + 2..TCP + 4].copy_from_slice(&ports[1].to_be_bytes());
    frame[TCP + 4..TCP + 8].copy_from_slice(&numbers[0].to_be_bytes());
    frame[TCP + 8..TCP + 12].copy_from_slice(&numbers[1].to_be_bytes());
    frame[TCP + 12..TCP + 14].copy_from_slice(&[0x50, flags]);
    frame.extend_from_slice(payload);
    frame
}

impl Connections {
    fn new() -> Self {
        let words = |mark: [u8; 4], words: &[u32]| {
            [&mark[..], &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()].concat()
        };
        let (there, back) = ([0, 2049], [2049, 0]);
        let reply = words([0x80, 0, 0, 24], &REPLY);
        Self {
            frames: [
                segment(2, 1, there, [100, 0], 0x02, &[]),
                segment(2, 1, there, [101, 501], 0x10, &words(MARK, &CALL)),
                segment(1, 2, back, [501, 145], 0x10, &reply),
                segment(2, 1, there, [145, 529], 0x11, &[]),
            ],
        }
    }

    /// Returns the frames of a connection, with or without RPC.
    fn of(&mut self, connection: u32) -> &[Vec<u8>] {
        let is_rpc = connection.is_multiple_of(10);
        for (at, frame) in self.frames.iter_mut().enumerate() {
            let (host, port) = if at == 2 { (30, TCP + 2) } else { (26, TCP) };
            frame[host + 1..host + 3].copy_from_slice(&((connection >> 16) as u16).to_be_bytes());
            frame[port..port + 2].copy_from_slice(&(connection as u16).to_be_bytes());
            if let Some(mark) = frame.get_mut(PAYLOAD) {
                *mark = if is_rpc { MARK[0] } else { b'G' };
            }
        }
        // A stream of another protocol is recognized at its second frame.
        if is_rpc { &self.frames } else { &self.frames[..2] }
    }
}

#[test]
fn a_million_connections_of_tcp_take_no_more_memory_than_a_hundred_thousand() {
    let run = |connections: std::ops::Range<u32>, flow: &mut Flow| {
        let mut capture = Connections::new();
        let mut transactions = 0;
        for connection in connections {
            for (at, bytes) in (0u64..).zip(capture.of(connection)) {
                let number = u64::from(connection) * 4 + at + 1;
                flow.process_frame(&Frame {
                    number: nfsrdma_dissectors::captured_frame::FrameNumber(number),
                    time: nfsrdma_dissectors::captured_frame::Timestamp(number as i64 * 10_000),
                    link: nfsrdma_dissectors::captured_frame::LinkType::ETHERNET,
                    bytes,
                    length: bytes.len() as u32,
                });
            }
            transactions += std::iter::from_fn(|| flow.next_transaction()).count();
        }
        transactions
    };
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = 0;
    let first = measure(|| transactions += run(0..100_000, &mut flow));
    let rest = measure(|| transactions += run(100_000..1_000_000, &mut flow));
    flow.finish();
    transactions += std::iter::from_fn(|| flow.next_transaction()).count();
    assert_eq!(transactions, 100_000);
    assert!(first.bytes_max < 64 * MIB, "{first:?}");
    assert!(rest.bytes_max < 8 * MIB, "{rest:?}");
    // Streams on the port of NFS without RPC.
    let mut undecoded = flow.stats().undecoded_counts();
    assert!(undecoded.all(|(reason, _)| reason.key() == "unknown_stream"));
}
