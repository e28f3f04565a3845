//! Delivery times of messages: the kernel's clock over whole captures, and an independent implementation that computes
//! delivered copies from headers alone. It shares no code with the dissectors, and it is declarative where they keep
//! state: packets are delivered in the order of their PSNs, so a packet is delivered by the first copy of it that comes
//! after the delivery of its predecessor and after the last NAK that requests it or an earlier one (InfiniBand
//! Architecture Specification volume 1, section 9.7.5).

use std::collections::{BTreeMap, HashMap};

use crate::captures;
use crate::kernel_counters::counted_calls;
use crate::linux_names::linux_name;
use crate::mountstats::Mountstats;
use crate::program::{self, Transaction, frames, nanoseconds};
use crate::second_count::records;
use crate::tcp_delivery_times::segment;

/// Packet of the Reliable Connection service.
struct Packet {
    frame: u64,
    time: u64,
    /// Address and destination QP.
    path: (Vec<u8>, u32),
    source: Vec<u8>,
    opcode: u8,
    psn: u32,
    /// Syndrome of the AETH, of acknowledgements.
    syndrome: u8,
    /// XID and the first word of the RPC message, in the first packet of a message.
    head: Option<u32>,
}

/// Returns the nanoseconds of a record, in the resolution of the capture's magic number.
fn time(pcap: &[u8], at: usize) -> u64 {
    let word = |at: usize| u64::from(u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap()));
    let unit = if word(0) == 0xa1b2_3c4d { 1 } else { 1000 };
    word(at) * 1_000_000_000 + word(at + 4) * unit
}

fn packets(pcap: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (number, (at, frame)) in (1..).zip(records(pcap)) {
        let (source, destination, udp) = match frame.get(12..14) {
            Some([0x08, 0x00]) if frame[23] == 17 => (&frame[26..30], &frame[30..34], 34),
            Some([0x86, 0xdd]) if frame[20] == 17 => (&frame[22..38], &frame[38..54], 54),
            _ => continue,
        };
        let bth = udp + 8;
        if frame.get(udp + 2..udp + 4) != Some(&4791_u16.to_be_bytes()) || frame.len() < bth + 12 {
            continue;
        }
        let word = |at: usize| frame.get(at..at + 4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        let opcode = frame[bth];
        // Opcodes of the Reliable Connection service have no service bits.
        if opcode & 0xe0 != 0 {
            continue;
        }
        let payload = bth + 12 + if matches!(opcode, 0x16 | 0x17) { 4 } else { 0 };
        let begins = matches!(opcode, 0x00 | 0x04 | 0x17);
        packets.push(Packet {
            frame: number,
            time: time(pcap, at),
            path: (destination.to_vec(), word(bth + 4).unwrap() & 0xff_ffff),
            source: source.to_vec(),
            opcode,
            psn: word(bth + 8).unwrap() & 0xff_ffff,
            syndrome: if opcode == 0x11 { frame[bth + 12] } else { 0 },
            head: word(payload).filter(|_| begins),
        });
    }
    packets
}

/// Returns for each message of one direction its XID, all its frames, and the time of the delivered copy of its last
/// packet.
fn delivered(requests: &[&Packet], answers: &[&Packet]) -> Vec<(u32, Vec<u64>, u64)> {
    // PSNs do not wrap in these captures.
    let mut copies: BTreeMap<u32, Vec<&Packet>> = BTreeMap::new();
    for packet in requests {
        copies.entry(packet.psn).or_default().push(packet);
    }
    let naks: Vec<&&Packet> = answers.iter().filter(|answer| matches!(answer.syndrome >> 5, 1 | 3)).collect();
    let mut messages = Vec::new();
    let (mut before, mut message) = (0, None::<(u32, Vec<u64>)>);
    for (psn, copies) in copies {
        let nak = naks.iter().filter(|nak| nak.psn <= psn).map(|nak| nak.frame).max().unwrap_or(0);
        let accepted = copies.iter().find(|copy| copy.frame > before.max(nak)).or(copies.last()).unwrap();
        before = accepted.frame;
        if let Some(xid) = accepted.head {
            message = Some((xid, Vec::new()));
        }
        if let Some((_, frames)) = &mut message {
            frames.extend(copies.iter().map(|copy| copy.frame));
        }
        if matches!(accepted.opcode, 0x02 | 0x04 | 0x16 | 0x17)
            && let Some((xid, mut frames)) = message.take()
        {
            frames.sort_unstable();
            messages.push((xid, frames, accepted.time));
        }
    }
    messages
}

const SEND_OR_WRITE_OR_READ: std::ops::RangeInclusive<u8> = 0x00..=0x0c;

#[test]
fn replies_end_with_the_copy_that_a_witness_finds_delivered() {
    let mut moved = 0;
    // Those with several connections are left out.
    for name in captures::ALL
        .into_iter()
        .filter(|name| name.starts_with("rxe") && !["conc", "errors"].iter().any(|several| name.contains(several)))
    {
        let packets = packets(&captures::bytes(name));
        let mut by_path: BTreeMap<_, Vec<&Packet>> = BTreeMap::new();
        for packet in &packets {
            by_path.entry((packet.source.clone(), packet.path.clone())).or_default().push(packet);
        }
        // One connection: two paths.
        assert_eq!(by_path.len(), 2, "{name}");
        let mut messages: HashMap<Vec<u64>, (u32, u64)> = HashMap::new();
        for (path, own) in &by_path {
            let is_request = |packet: &&&Packet| {
                SEND_OR_WRITE_OR_READ.contains(&packet.opcode) || matches!(packet.opcode, 0x16 | 0x17)
            };
            let requests: Vec<&Packet> = own.iter().filter(is_request).copied().collect();
            let answers: Vec<&Packet> = by_path
                .iter()
                .filter(|(other, _)| *other != path)
                .flat_map(|(_, packets)| packets.iter().copied())
                .filter(|packet| packet.opcode == 0x11)
                .collect();
            messages.extend(
                { delivered(&requests, &answers) }.into_iter().map(|(xid, frames, time)| (frames, (xid, time))),
            );
        }
        for transaction in &program::json(&captures::path(name)).transactions {
            let Some(reply) = transaction.message("reply").filter(|_| transaction.is_rdma()) else {
                continue;
            };
            let mut of = frames(reply);
            of.sort_unstable();
            let (xid, time) = messages.get(&of).unwrap_or_else(|| panic!("{name}: no message in {of:?}"));
            assert_eq!(*xid, transaction.xid(), "{name}: {of:?}");
            let said = nanoseconds(reply["end_time"].as_str().unwrap());
            assert_eq!(said, *time, "{name}: the reply in {of:?}");
            let first = nanoseconds(reply["time"].as_str().unwrap());
            moved += u64::from(*time > first + 1_000_000);
        }
    }
    assert!(moved >= 3, "only {moved} replies were delivered later than they were seen first");
}

/// Sums with larger differences. The Call of NULL is the first on its connection, and the client processes the Reply
/// some milliseconds after it was captured: 10.2 ms of 21, and 9.7 of 16. The first copy of an ACCESS was lost in the
/// client's own queue, before the capture point, as [`a_call_that_was_lost_before_the_capture_follows_a_pause`] shows.
const REMAIN: [(&str, &str); 3] = [("rxe-v42-bulk-loss5", "ACCESS"), ("siw-v41", "NULL"), ("siw-v42-crc", "NULL")];

/// Capture of 32 processes that share one emulated CPU with the client's queues. The kernel's round-trip time begins
/// before the Call is captured, when xprtrdma posts the Send, and ends after the Reply is captured, when xprtrdma
/// handles the completion. Between these points, kernel threads of Soft-RoCE wait for the CPU. In another run with
/// trace events (`TRACE=1` of the scenario), latency and the two waits added up to the kernel's time for each of 725
/// Calls: on average,
/// 2.3 ms before the Call (at most 18.6 ms) and 9.7 ms after the Reply (at most 43.7 ms). The wait for a credit is not
/// part of the kernel's time: the client takes the credit first.
const SATURATED: &str = "rxe-v42-credits";

/// Maximum mean of these waits per Call, of one operation.
const SATURATED_WAIT_MS: f64 = 24.0;

/// Calls larger than the socket buffer. The kernel's round-trip time begins when it writes the last part to the socket;
/// the time before that is queue time.
const SENT_IN_PARTS: [(&str, &str); 1] = [("tcp-v42-bulk-loss", "WRITE")];

/// Returns the time in milliseconds in which credits were unused in a capture: from each Reply to the Call that was
/// sent with the same credit.
fn unused_credit_ms(transactions: &[Transaction]) -> f64 {
    const CREDITS: usize = 8;
    let both = |one: &Transaction| {
        let [call, reply] = [one.message("call")?, one.message("reply")?];
        assert_eq!(reply["rpcrdma"]["credits"], CREDITS, "{reply}");
        Some([call["time"].as_str()?, reply["end_time"].as_str()?].map(nanoseconds))
    };
    let (mut calls, mut replies): (Vec<u64>, Vec<u64>) =
        { transactions.iter() }.filter_map(both).map(|[call, reply]| (call, reply)).unzip();
    calls.sort_unstable();
    replies.sort_unstable();
    let unused = calls[CREDITS..]
        .iter()
        .zip(&replies)
        .map(|(call, reply)| call.checked_sub(*reply).unwrap_or_else(|| panic!("a call at {call} without a credit")));
    unused.sum::<u64>() as f64 / 1e6
}

/// By the kernel's count a Call of ACCESS was sent 568 ms before the captured copy. Before that copy nothing was
/// captured for an ACK timeout or longer, which the lines and the summary report; the pause alone does not distinguish
/// a lost copy from an idle client.
#[test]
fn a_call_that_was_lost_before_the_capture_follows_a_pause() {
    const ACK_TIMEOUT_NS: u64 = 4_096 << 17;
    let pcap = captures::bytes("rxe-v42-bulk-loss5");
    let times: Vec<u64> = records(&pcap).map(|(at, _)| time(&pcap, at)).collect();
    let path = captures::path("rxe-v42-bulk-loss5");
    let lines = program::json(&path);
    let is_access = |one: &&Transaction| one.text("operation") == Some("ACCESS");
    let mut long = Vec::new();
    for one in lines.transactions.iter().filter(is_access) {
        let call = one.message("call").unwrap();
        let first = frames(call)[0] as usize;
        let pause = times[first - 1] - times[first - 2];
        if pause >= ACK_TIMEOUT_NS {
            long.push(first);
            assert_eq!(call["lost_copy"]["evidence"], "possible", "{call}");
            assert!(call["lost_copy"]["ns"].as_u64().unwrap() >= pause, "{call}");
            let filter = format!("nfsrdma.call.lost_copy == possible && nfsrdma.index == {}", one.0["index"]);
            let tree = program::output(&path, &["-V", "-Y", &filter, "--summary", "none"]);
            assert!(tree.contains("possibly lost before the capture point, or the client was idle"), "{tree}");
        } else {
            assert_ne!(call["lost_copy"]["evidence"], "possible", "{call}");
        }
    }
    assert_eq!(long.len(), 1, "{long:?}");
    let evidence = |word: &str| {
        let is = |one: &&Transaction| one.message("call").is_some_and(|call| call["lost_copy"]["evidence"] == word);
        lines.transactions.iter().filter(is).count() as u64
    };
    let recovery = &lines.summary.as_ref().unwrap()["recovery"];
    assert_eq!(recovery["possible_lost_copies"], evidence("possible"));
    assert_eq!(recovery["lost_copies"], evidence("certain"));
    let summary = program::output(&path, &["-q"]);
    let words = " ".to_owned() + &summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = format!(" {} calls followed a pause of at least one ACK timeout:", evidence("possible"));
    assert!(words.contains(&printed), "{printed}: {summary}");
}

#[test]
fn the_sum_of_latencies_is_the_round_trip_time_that_the_kernel_measured() {
    let (mut sums, mut wrong, mut saturated_ms) = (0, Vec::new(), 0.0);
    let mut names: Vec<&str> = captures::ALL.to_vec();
    // With a snap length, the procedure of a Call is not always known.
    names.retain(|name| captures::folder().join(format!("{name}.mountstats")).exists() && !name.contains("snap"));
    let more = captures::more();
    names.extend(more.iter().map(|path| path.split_once(".pcap").map_or(*path, |(name, _)| name)));
    for name in names {
        if !captures::folder().join(format!("{name}.mountstats")).exists() {
            continue;
        }
        let kernel = Mountstats::read(name);
        let path = match more.iter().find(|path| path.split_once(".pcap").is_some_and(|(of, _)| of == name)) {
            Some(path) => path.into(),
            None => captures::path(name),
        };
        let lines = program::json(&path);
        let mut measured: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for transaction in counted_calls(&lines.transactions, &kernel) {
            let Some(latency) = transaction.0["latency_ns"].as_u64().filter(|_| transaction.is_nfs()) else {
                continue;
            };
            let sum = measured.entry(linux_name(transaction)).or_default();
            *sum = (sum.0 + 1, sum.1 + latency);
        }
        for (operation, (calls, latency)) in measured {
            let Some(rtt_ms) = kernel.rtt_ms.get(&operation).copied() else { continue };
            if kernel.operations.get(&operation).is_none_or(|counters| counters.calls != calls) {
                continue;
            }
            sums += 1;
            let (latency_ms, calls) = (latency as f64 / 1e6, calls as f64);
            let mut rtt_ms = rtt_ms as f64;
            if SENT_IN_PARTS.contains(&(name, operation.as_str())) {
                assert!(latency_ms > rtt_ms, "{name}: {operation}");
                rtt_ms += kernel.queue_ms[&operation] as f64;
            }
            let waited_ms = rtt_ms - latency_ms;
            if name == SATURATED {
                saturated_ms += waited_ms;
            }
            let is_saturated = name == SATURATED && (0.0..=calls * SATURATED_WAIT_MS).contains(&waited_ms);
            let is_near = is_saturated || waited_ms.abs() <= rtt_ms * 0.1 + 4.0 * calls;
            if is_near == REMAIN.contains(&(name, operation.as_str())) {
                wrong.push(format!("{name}: {operation}: {calls} calls, {latency_ms:.1} ms, the kernel {rtt_ms} ms"));
            }
        }
    }
    assert!(wrong.is_empty(), "of {sums} sums:\n{}", wrong.join("\n"));
    assert!(sums > 600, "only {sums} sums were compared");
    // A waiting Call holds a credit that appears unused: it is not captured yet, or its Reply is not handled yet.
    let unused_ms = unused_credit_ms(&program::json(&captures::path(SATURATED)).transactions);
    assert!((0.0..=unused_ms).contains(&saturated_ms), "{saturated_ms} ms of waits, {unused_ms} ms of unused credits");
}

/// A Transaction with a stall has a phase `recovery`, and its phases sum up.
#[test]
fn recovery_is_a_phase_of_lossy_captures_alone() {
    let recovery = |transaction: &Transaction| transaction.0["phases_ns"]["recovery"].as_u64().unwrap_or(0);
    for name in captures::ALL {
        let transactions = program::json(&captures::path(name)).transactions;
        let lost: Vec<u64> = transactions.iter().map(recovery).filter(|ns| *ns > 0).collect();
        match name {
            "rxe-v42-bulk-loss1" => assert!(lost.iter().sum::<u64>() > 1_500_000_000, "{lost:?}"),
            "rxe-v42-bulk-loss5" => assert!(lost.iter().sum::<u64>() > 15_000_000_000, "{lost:?}"),
            "rxe-v42-loss" => {
                assert!(lost.iter().sum::<u64>() > 600_000_000, "{lost:?}");
                // The READ that lost a packet, and waited for an ACK timeout of 4.096 us x 2^17.
                assert!(lost.iter().any(|ns| *ns > 536_870_912), "{lost:?}");
            }
            "siw-v42-bulk-loss" => assert!(lost.iter().sum::<u64>() > 600_000_000, "{lost:?}"),
            "tcp-v42-bulk-loss" => assert!(lost.iter().sum::<u64>() > 17_000_000_000, "{lost:?}"),
            _ => assert_eq!(lost, [0; 0], "{name}"),
        }
    }
}

/// Minimum duration in nanoseconds of a silence that is compared: half of the shortest retransmission timeout of Linux.
const MIN_SILENCE_NS: u64 = 100_000_000;

/// Returns the silences of the only connection of a capture that end with a retransmission, with the time of the frame
/// before and of the retransmission. By headers alone, a frame is a retransmission if all its bytes or its PSN were
/// sent before.
fn silences(pcap: &[u8]) -> Vec<(u64, u64)> {
    // A request packet repeats a PSN that its sender has used.
    let requests: HashMap<u64, Packet> = { packets(pcap).into_iter() }
        .filter(|packet| SEND_OR_WRITE_OR_READ.contains(&packet.opcode) || matches!(packet.opcode, 0x16 | 0x17))
        .map(|packet| (packet.frame, packet))
        .collect();
    let mut newest_psns: HashMap<(Vec<u8>, u32), u32> = HashMap::new();
    let mut newest_bytes = HashMap::new();
    let (mut before, mut silences) = (None, Vec::new());
    for (number, (at, frame)) in (1..).zip(records(pcap)) {
        let now = time(pcap, at);
        let mut is_again = false;
        if let Some(packet) = requests.get(&number) {
            let newest = newest_psns.entry(packet.path.clone()).or_insert(0);
            is_again = packet.psn <= *newest;
            *newest = packet.psn.max(*newest);
        }
        let wire_length = u32::from_le_bytes(pcap[at + 12..at + 16].try_into().unwrap()) as usize;
        if let Some(segment) = segment(frame, wire_length).filter(|segment| segment.length > 0) {
            let end = segment.sequence.wrapping_add(segment.length as u32);
            let newest = newest_bytes.entry((segment.source, segment.destination)).or_insert(segment.sequence);
            is_again = newest.wrapping_sub(end).cast_signed() >= 0;
            if !is_again {
                *newest = end;
            }
        }
        if let Some(before) = before.replace(now).filter(|before| is_again && now - before >= MIN_SILENCE_NS) {
            silences.push((before, now));
        }
    }
    silences
}

/// A silence within a Transaction that ends with a retransmission is time lost to recovery, whether the packets of the
/// Call, of the Reply or of chunk data were lost.
#[test]
fn recovery_includes_the_silences_before_retransmissions() {
    // The captures with the number of Transactions that have such a silence.
    let lossy = [
        ("rxe-v42-loss", 1),
        ("rxe-v42-bulk-loss1", 3),
        ("rxe-v42-bulk-loss5", 8),
        ("siw-v42-bulk-loss", 4),
        ("tcp-v42-bulk-loss", 18),
    ];
    for (name, count) in lossy {
        let silences = silences(&captures::bytes(name));
        let mut silent = 0;
        for one in &program::json(&captures::path(name)).transactions {
            let [Some(call), Some(reply)] = [one.message("call"), one.message("reply")] else { continue };
            let [start, end] = [&call["time"], &reply["end_time"]].map(|at| nanoseconds(at.as_str().unwrap()));
            let within = |(since, until): &(u64, u64)| end.min(*until).saturating_sub(start.max(*since));
            let silence_ns: u64 = silences.iter().map(within).sum();
            let recovery_ns = one.0["phases_ns"]["recovery"].as_u64().unwrap();
            assert!(recovery_ns >= silence_ns, "{name}: {silence_ns} ns of silence: {}", one.0);
            silent += u64::from(silence_ns > 0);
        }
        assert_eq!(silent, count, "{name}");
    }
}

/// With the set-up, its ACK timeout is the evidence of a possible loss before the capture point; without it, the time
/// alone is. Each output with the time of the server says so.
#[test]
fn long_server_time_is_reserved() {
    let bytes = captures::bytes("rxe-v42-loss");
    // Of the classic pcap format; the first 299 frames have the set-up.
    let mut middle = bytes[..24].to_vec();
    let mut at = 24;
    for number in 1.. {
        let Some(length) = bytes.get(at + 8..at + 12) else { break };
        let end = at + 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        if number >= 300 {
            middle.extend_from_slice(&bytes[at..end]);
        }
        at = end;
    }
    let middle = captures::Temporary::new("loss-middle.pcap", &middle);
    for (path, evidence, said) in [
        (captures::path("rxe-v42-loss"), "ack_timeout", "the ACK timeout of 537 ms"),
        (middle.path().to_owned(), "unknown_ack_timeout", "the ACK timeout, which is unknown without the set-up"),
    ] {
        let lines = program::json(&path);
        let reserved: Vec<_> = lines.transactions.iter().filter(|one| !one.0["possible_recovery"].is_null()).collect();
        let xids: Vec<_> = reserved.iter().map(|one| one.text("xid").unwrap()).collect();
        assert_eq!(xids, ["0x8dc00cfc", "0xeac00cfc"]);
        assert!(reserved.iter().all(|one| one.0["possible_recovery"]["evidence"] == evidence));
        assert_eq!(lines.summary.unwrap()["recovery"]["suspected"], 2);
        let filter = format!("nfsrdma.possible_recovery == {evidence}");
        let tree = program::output(&path, &["-V", "-Y", &filter]);
        assert_eq!(tree.matches(said).count(), 2, "{tree}");
        let summary = program::output(&path, &["-q"]).replace('\n', " ");
        let sentence =
            if evidence == "ack_timeout" { "at least one ACK timeout" } else { "the ACK timeout is unknown" };
        assert!(summary.contains("2 transactions waited") && summary.contains(sentence), "{summary}");
    }
}

/// A packet lost before the capture point leaves a pause as long as the ACK timeout, 4.096 µs × 2^17 in all captures of
/// the laboratory, and no other trace.
#[test]
fn pauses_of_an_ack_timeout_are_suspected_where_packets_were_lost() {
    const ACK_TIMEOUT_NS: u64 = 4_096 << 17;
    for (name, has_loss) in [("rxe-v42-loss", true), ("rxe-v42", false)] {
        let lines = program::json(&captures::path(name));
        let phase = |one: &Transaction, phase: &str| one.0["phases_ns"][phase].as_u64().unwrap_or(0);
        let long = lines.transactions.iter().filter(|one| phase(one, "server") >= ACK_TIMEOUT_NS).count() as u64;
        let recovery_ns: u64 = lines.transactions.iter().map(|one| phase(one, "recovery")).sum();
        let printed = &lines.summary.as_ref().unwrap()["recovery"];
        assert_eq!((printed["suspected"].as_u64(), printed["ns"].as_u64()), (Some(long), Some(recovery_ns)), "{name}");
        assert_eq!((long > 0, recovery_ns > 0), (has_loss, has_loss), "{name}");
    }
}
