//! Captures of the reliable service of InfiniBand: retransmission, reordering, duplicates, loss, and
//! sequence numbers that wrap. InfiniBand Architecture Specification volume 1, section 9.7.

use super::*;
use crate::transaction::{DeliveryEvidence, PossibleRecovery, TransactionPhases, UncapturedOriginalCallEvidence};

const SINK: Memory = Memory { handle: 0xb1, offset: 0x1000, length: 4096 };
const SOURCE: Memory = Memory { handle: 0xa1, offset: 0x1000, length: 4096 };

/// Sequence numbers that wrap after `before` more packets of each side.
fn wrapping(before: u32) -> Link {
    Link::new(17).psns((1 << 24) - before, (1 << 24) - before)
}

#[test]
fn the_sequence_number_may_wrap_anywhere_within_an_rdma_write_and_around_it() {
    for before in 0..8 {
        let mut link = wrapping(before);
        let frames = [null(&mut link, 6), read(&mut link, 7, SINK)].concat();
        expect_all(
            &frames,
            &["#1 c1 > 6 NULL SUCCESS call 1 reply 2", "#2 c1 > 7 READ NFS3_OK call 3 reply 9 w[4096/4096/4096@5-8]"],
        );
    }
}

#[test]
fn the_sequence_number_may_wrap_anywhere_within_an_rdma_read_and_around_it() {
    for before in 0..8 {
        let mut link = wrapping(before);
        let frames = [null(&mut link, 6), write(&mut link, 7, SOURCE)].concat();
        expect_all(
            &frames,
            &["#1 c1 > 6 NULL SUCCESS call 1 reply 2", "#2 c1 > 7 WRITE NFS3_OK call 3 reply 9 r68[4096/4096@5-8]"],
        );
    }
}

#[test]
fn the_sequence_number_may_wrap_anywhere_within_a_send_and_around_it() {
    for before in 0..8 {
        let mut link = wrapping(before);
        let frames = [
            null(&mut link, 6),
            link.send(Client, &write_call_inline(7, &data(3000))),
            link.send(Server, &read_reply_inline(7, &data(3100))),
            null(&mut link, 8),
        ]
        .concat();
        expect_all(
            &frames,
            &[
                "#1 c1 > 6 NULL SUCCESS call 1 reply 2",
                // The results are those of a READ, for their length.
                "#2 c1 > 7 WRITE NFS3_OK call 3,4,5,6 reply 7,8,9,10 missing undecoded:reply:32-,reply:wrong-result",
                "#3 c1 > 8 NULL SUCCESS call 11 reply 12",
            ],
        );
    }
}

#[test]
fn the_sequence_number_may_wrap_before_anything_was_answered() {
    for begin in [0, 1, (1 << 24) - 1] {
        let mut link = Link::new(17).psns(begin, begin);
        let reply = getattr(&mut link, 7)[1].clone();
        expect_all(&[reply], &["#1 c1 > 7 - SUCCESS reply 1 missing call"]);
        // A packet from before the first captured one.
        let mut link = Link::new(17).psns(begin, begin);
        let (first, second) = (getattr(&mut link, 7), getattr(&mut link, 8));
        let lines = expect_all(
            &[second, first].concat(),
            &["#1 c1 > 8 GETATTR NFS3ERR_STALE call 1 reply 2", "#2 c1 > 7 GETATTR NFS3ERR_STALE call 3 reply 4"],
        );
        drop(lines);
    }
}

#[test]
fn one_lost_packet_of_an_rdma_write_is_named_by_its_bytes() {
    let mut link = Link::new(17);
    let frames = read(&mut link, 7, SINK);
    // Call, acknowledgement, First, two Middles, Last, Reply, acknowledgement.
    for (lost, moved, seen, missing) in [
        (3, "3072/4096/4096", "@3-5", "0-1023"),
        (4, "3072/4096/4096", "@3-5", "1024-2047"),
        (5, "3072/4096/4096", "@3-5", "2048-3071"),
        (6, "3072/4096/4096", "@3-5", "3072-4095"),
    ] {
        expect(
            &without(&frames, &[lost]),
            &[&format!("#1 c1 > 7 READ NFS3_OK call 1 reply 6 w[{moved}{seen}] missing write:0:{missing}")],
        );
    }
    let frames = read(&mut link, 8, SINK.of(1000));
    expect_all(
        &without(&frames, &[3]),
        &["#1 c1 > 8 READ NFS3_OK call 1 reply 3 w[0/1000/1000] missing write:0:0-999"],
    );
}

#[test]
fn a_lost_first_packet_costs_its_own_bytes_wherever_its_rdma_write_belongs() {
    let mut link = Link::new(17);
    let sinks = [memory(0xb1, 0x1000, 4096), memory(0xb2, 0, 8192), memory(0xb3, 0, 4096)];
    let other = memory(0xb4, 0, 4096);
    let mut frames = link.connect(1);
    frames.extend(link.send(Client, &read_call(7, 16384).write(&sinks)));
    frames.extend(link.send(Client, &read_call(8, 4096).write(&[other])));
    let mut firsts = Vec::new();
    let writes = [
        (sinks[0], 4096),
        // Two RDMA Writes into one segment.
        (sinks[1].of(3072), 3072),
        (sinks[1].from(3072), 5120),
        // That of the other Call comes in between.
        (other, 4096),
        (sinks[2], 2049),
    ];
    for (sink, length) in writes {
        firsts.push((frames.len() + 1, sink.handle));
        frames.extend(link.write(Server, sink, &data(length)));
    }
    frames.extend(link.send(Server, &read_reply(8, 4096).write(&[other])));
    let returned = [sinks[0], sinks[1], sinks[2].of(2049)];
    frames.extend(link.send(Server, &read_reply(7, 14337).write(&returned)));
    let missing = |lost: &[usize]| -> Vec<(usize, u64)> {
        let outcome = run(&without(&frames, lost));
        let lost = |transaction: &Transaction| -> Vec<(usize, u64)> {
            let ranges = transaction.write_chunks[0].missing(|segment| segment.returned_length.unwrap().into());
            ranges.iter().map(|range| (range.start as usize, range.end - range.start)).collect()
        };
        outcome.transactions.iter().flat_map(lost).collect()
    };
    assert_eq!(missing(&[]), []);
    for ((first, _), at) in firsts.iter().zip([0, 4096, 7168, 0, 12288]) {
        assert_eq!(missing(&[*first]), [(at, 1024)], "frame {first}");
    }
    // Two in a row: the end of one RDMA Write and the beginning of the next.
    assert_eq!(missing(&[firsts[2].0 - 1, firsts[2].0]), [(6144, 2048)]);
    // A Middle packet after a lost First.
    assert_eq!(missing(&[firsts[2].0, firsts[2].0 + 2]), [(7168, 1024), (9216, 1024)]);
}

/// InfiniBand Architecture Specification volume 1, section 9.7.2: PSNs are contiguous, so every other packet has its
/// place.
#[test]
fn lost_firsts_of_all_writes_cost_their_bytes() {
    let sinks = [memory(0xb1, 0x1000, 4096), memory(0xb2, 0x9000, 1500), memory(0xb3, 0x5000, 3000)];
    let mut link = Link::new(17);
    let mut frames = null(&mut link, 6);
    frames.extend(link.send(Client, &read_call(7, 8596).write(&sinks)));
    let mut firsts = Vec::new();
    for sink in sinks {
        firsts.push(frames.len() + 1);
        frames.extend(link.write(Server, sink, &data(sink.length as usize)));
    }
    frames.extend(link.send(Server, &read_reply(7, 8596).write(&sinks)));
    let outcome = run(&without(&frames, &firsts));
    let transaction = outcome.transactions.iter().find(|one| one.xid.0 == 7).unwrap();
    let missing: Vec<_> = transaction.missing_parts().iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["write:0:0-1023", "write:0:4096-5119", "write:0:5596-6619"]);
    assert_eq!(outcome.undecoded(), []);
}

/// The server may answer at any time: the packets of an RDMA Write wait for the Reply as long as the Call is in flight.
#[test]
fn a_lost_first_packet_costs_its_own_bytes_however_late_the_reply_comes() {
    let mut link = Link::new(17);
    let mut frames = link.connect(1);
    frames.extend(link.send(Client, &read_call(7, 4096).write(&[SINK])));
    let first = frames.len() + 1;
    frames.extend(link.write(Server, SINK, &data(4096)));
    let answered = frames.len() + 1;
    for xid in 8..12 {
        frames.extend(null(&mut link, xid));
    }
    let reply = frames.len() + 1;
    frames.extend(link.send(Server, &read_reply(7, 4096).write(&[SINK])));
    for late_ns in [1_000, 1_200_000_000, 60_000_000_000] {
        let mut flow = Flow::new(FlowLimits::default());
        for (number, bytes) in (1..).zip(&frames).filter(|(number, _)| *number != first) {
            let time = match number {
                number if number < answered => number as i64 * 1_000,
                number if number < reply => number as i64 * 1_000 + late_ns / 2,
                _ => number as i64 * 1_000 + late_ns,
            };
            feed(&mut flow, number as u64, time, bytes, usize::MAX);
        }
        flow.finish();
        let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
        let read = transactions.iter().find(|transaction| transaction.xid.0 == 7).unwrap();
        let missing = read.write_chunks[0].missing(|segment| segment.returned_length.unwrap().into());
        assert_eq!(missing, std::slice::from_ref(&(0..1024)), "{late_ns}");
        assert_eq!(flow.stats().undecoded_counts().count(), 0, "{late_ns}");
    }
}

/// Without a Call that may have offered the memory, the packets of an RDMA Write are counted as undecoded after a
/// second.
#[test]
fn packets_of_an_rdma_write_that_no_call_in_flight_offered_do_not_wait() {
    let mut link = Link::new(17);
    let mut frames = [link.connect(1), null(&mut link, 6)].concat();
    frames.extend(link.write(Server, SINK, &data(4096)).split_off(1));
    let late = frames.len();
    frames.extend([read(&mut link, 7, SINK), null(&mut link, 8)].concat());
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip(&frames) {
        let late_ns = if number > late { 1_200_000_000 } else { 0 };
        feed(&mut flow, number as u64, number as i64 * 1_000 + late_ns, bytes, usize::MAX);
    }
    let undecoded: Vec<_> = flow.stats().undecoded_counts().collect();
    assert_eq!(undecoded, [(UndecodedReason::WriteWithoutFirst, 3)]);
}

#[test]
fn one_lost_packet_of_an_rdma_read_is_named_by_its_bytes() {
    let mut link = Link::new(17);
    let frames = write(&mut link, 7, SOURCE);
    // Call, request, First, two Middles, Last, Reply.
    for (lost, missing) in [(3, "0-1023"), (4, "1024-2047"), (5, "2048-3071"), (6, "3072-4095")] {
        let seen = if lost == 3 { "4-6" } else { "3-5" };
        let seen = if lost == 3 { "3-5" } else { seen };
        expect_all(
            &without(&frames, &[lost]),
            &[&format!("#1 c1 > 7 WRITE NFS3_OK call 1 reply 6 r68[3072/4096@{seen}] missing read:0:{missing}")],
        );
    }
    // Without the request, and with nothing before it, the responses cannot be attributed.
    let outcome =
        expect(&without(&frames, &[2]), &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 6 r68[0/4096] missing read:0:0-4095"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::ReadWithoutRequest, 4)]);
}

/// A GETATTR, and two WRITEs whose Calls are in flight at a time: frames 5 and 10 are the Read requests of the server.
fn two_writes(lengths: [u32; 2]) -> Frames {
    let mut link = Link::new(17);
    let mut frames = getattr(&mut link, 6);
    let sources = [memory(0xa1, 0x1000, lengths[0]), memory(0xa2, 0x1000, lengths[1])];
    for (xid, source) in (7..).zip(sources) {
        frames.extend(link.send(Client, &write_call(xid, source.length).read(&[source])));
    }
    for source in sources {
        frames.extend(link.read(Server, source, &data(source.length as usize)));
    }
    for (xid, source) in (7..).zip(sources) {
        frames.extend(link.send(Server, &write_reply(xid, source.length)));
    }
    frames
}

/// The Reply shows that the Read chunk was read, and the responses fill a gap between the requests of the server.
#[test]
fn the_responses_of_a_lost_read_request_are_placed_if_only_one_place_is_possible() {
    expect_all(
        &without(&two_writes([4096, 3000]), &[5]),
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 WRITE NFS3_OK call 3 reply 13 r68[4096/4096@5-8]",
            "#3 c1 > 8 WRITE NFS3_OK call 4 reply 14 r68[3000/3000@10-12]",
        ],
    );
    expect_all(
        &without(&two_writes([4096, 4096]), &[5]),
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 WRITE NFS3_OK call 3 reply 14 r68[4096/4096@5-8]",
            "#3 c1 > 8 WRITE NFS3_OK call 4 reply 15 r68[4096/4096@10-13]",
        ],
    );
}

/// Read responses without a request are attributed to no Call if another one may own them.
#[test]
fn the_responses_of_a_lost_read_request_stay_undecoded_if_two_places_are_possible() {
    // The second Call is not read before the first Reply.
    let mut link = Link::new(17);
    let mut frames = getattr(&mut link, 6);
    let sources = [SOURCE, memory(0xa2, 0x1000, 4096)];
    for (xid, source) in (7..).zip(sources) {
        frames.extend(link.send(Client, &write_call(xid, 4096).read(&[source])));
    }
    for (xid, source) in (7..).zip(sources) {
        frames.extend(link.read(Server, source, &data(4096)));
        frames.extend(link.send(Server, &write_reply(xid, 4096)));
    }
    let outcome = expect(
        &without(&frames, &[5]),
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 WRITE NFS3_OK call 3 reply 9 r68[0/4096] missing read:0:0-4095",
            "#3 c1 > 8 WRITE NFS3_OK call 4 reply 15 r68[4096/4096@11-14]",
        ],
    );
    assert_eq!(outcome.undecoded(), [(UndecodedReason::ReadWithoutRequest, 4)]);
}

#[test]
fn a_send_that_was_sent_again_is_one_message_of_two_copies() {
    let mut link = Link::new(17);
    let frames = getattr(&mut link, 7);
    let [call, reply] = &frames[..] else { panic!() };
    let outcome = expect_all(
        &[call, call, reply, reply, reply].map(Clone::clone),
        &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1,2 x2 reply 3,4,5 x3"],
    );
    let t = &outcome.transactions[0];
    assert_eq!(t.latency_ns(), Some(2000), "from the first call to the first reply");
    let FrameContentKind::Message { key, .. } = outcome.meanings[0] else { panic!() };
    assert_eq!(outcome.meanings[1], FrameContentKind::Retransmission { key, which: RpcMessageKind::Call });
    assert_eq!(outcome.meanings[4], FrameContentKind::Retransmission { key, which: RpcMessageKind::Reply });
}

#[test]
fn a_send_of_several_packets_that_was_sent_again_is_one_message() {
    let mut link = Link::new(17);
    let call = link.send(Client, &write_call_inline(7, &data(2500)));
    let reply = link.send(Server, &write_reply(7, 2500));
    // The sender goes back to the second packet.
    expect_all(
        &[call.clone(), call[1..].to_vec(), reply].concat(),
        &["#1 c1 > 7 WRITE NFS3_OK call 1,2,3,4,5 x2 reply 6"],
    );
}

#[test]
fn ranges_that_were_written_or_read_again_count_once() {
    let mut link = Link::new(17);
    let frames = read(&mut link, 7, SINK);
    let again = [&frames[..6], &frames[3..6], &frames[2..]].concat();
    expect_all(&again, &["#1 c1 > 7 READ NFS3_OK call 1 reply 14 w[4096/4096/4096@3-13]"]);
    let frames = write(&mut link, 8, SOURCE);
    let again = [&frames[..6], &frames[1..]].concat();
    expect_all(&again, &["#1 c1 > 8 WRITE NFS3_OK call 1 reply 12 r68[4096/4096@3-11]"]);
}

#[test]
fn packets_may_be_captured_in_any_order_behind_the_first_of_their_operation() {
    let mut link = Link::new(17);
    let mut frames = read(&mut link, 7, SINK);
    frames[3..6].reverse();
    // The Reply before the last Write.
    frames.swap(5, 6);
    expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 6 w[4096/4096/4096@3-7]"]);

    let mut frames = write(&mut link, 8, SOURCE);
    frames[2..6].reverse();
    expect_all(&frames, &["#1 c1 > 8 WRITE NFS3_OK call 1 reply 7 r68[4096/4096@3-6]"]);

    let mut frames =
        [link.send(Client, &write_call_inline(9, &data(2500))), link.send(Server, &write_reply(9, 2500))].concat();
    frames[..3].reverse();
    expect_all(&frames, &["#1 c1 > 9 WRITE NFS3_OK call 1,2,3 reply 4"]);
}

#[test]
fn a_call_may_be_captured_after_its_reply() {
    let mut link = Link::new(17);
    let mut frames = [link.connect(1), getattr(&mut link, 7), null(&mut link, 8)].concat();
    frames.swap(3, 4);
    let outcome = expect_all(
        &frames,
        &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 5 reply 4", "#2 c1 > 8 NULL SUCCESS call 6 reply 7"],
    );
    assert_eq!(outcome.transactions[0].latency_ns(), None);
}

#[test]
fn after_a_nak_the_sender_goes_back_to_the_lost_packet() {
    let mut link = Link::new(17);
    let mut frames = link.send(Client, &read_call(7, 4096).write(&[SINK]));
    let lost = link.server.psn.next();
    let writes = link.write(Server, SINK, &data(4096));
    let reply = link.send(Server, &read_reply(7, 4096).write(&[SINK]));
    // The second packet reaches neither the client nor its capture.
    frames.extend([&writes[..1], &writes[2..], &reply].concat());
    frames.extend(link.nak(Client, lost));
    frames.extend([&writes[1..], &reply].concat());
    frames.extend(link.ack(Client));
    // The first copy of the Reply followed the gap: the client refused it, and the RPC ends with the second.
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 5,10 x2 w[4096/4096/4096@2-9]"]);
    let t = &outcome.transactions[0];
    assert_eq!(t.latency_ns(), Some(9000));
    let phases =
        TransactionPhases { server_ns: 1000, data_out_ns: 1000, recovery_ns: 7000, ..TransactionPhases::default() };
    assert_eq!(t.phases(), Some(phases));
    assert_eq!(ends(t, RpcMessageKind::Reply), (10_000, DeliveryEvidence::Acknowledged, 2, 0));
    assert_eq!(outcome.meanings[5], FrameContentKind::Control);
}

/// InfiniBand volume 1, section 9.7.5.2.8: what a NAK asks for again is refused if the connection ends before it comes,
/// and not if it comes.
#[test]
fn reply_not_repeated_is_refused() {
    for is_repeated in [false, true] {
        let mut link = Link::new(17);
        let mut frames = link.connect(1);
        frames.extend(link.send(Client, &null_call(7)));
        let lost = link.server.psn;
        let reply = link.send(Server, &null_reply(7));
        frames.extend(reply.clone());
        frames.extend(link.nak(Client, lost));
        frames.extend(reply.iter().filter(|_| is_repeated).cloned());
        frames.extend(link.part(1));
        let outcome = run(&frames);
        let missing: Vec<_> = outcome.transactions[0].missing_parts().iter().map(ToString::to_string).collect();
        assert_eq!(missing, if is_repeated { vec![] } else { vec!["reply:refused".to_owned()] });
    }
}

/// InfiniBand volume 1, section 9.7.6.1.3: with a Local ACK Timeout of 20 (4.096 µs × 2^20 = 4.3 s), the seventh retry
/// comes after 30 s.
#[test]
fn infiniband_9_7_6_1_3_a_refused_reply_waits_for_the_last_retry() {
    const LAST_RETRY_NS: i64 = 7 * (4_096 << 20);
    let mut link = Link::new(17);
    let mut frames = link.send(Client, &read_call(7, 2048).write(&[SINK]));
    let writes = link.write(Server, SINK, &data(2048));
    let reply = link.send(Server, &read_reply(7, 2048).write(&[SINK]));
    // The second packet of data is lost, so the client refuses the Reply.
    frames.extend([&writes[..1], &reply].concat());
    frames.extend(link.send(Client, &null_call(8)));
    frames.extend([&writes[1..], &reply].concat());
    frames.extend(link.ack(Client));
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = Vec::new();
    for (number, bytes) in (1..).zip(&frames) {
        let time = match number {
            1..=3 => number * 1000,
            4 => LAST_RETRY_NS / 7 * 6,
            _ => LAST_RETRY_NS + number * 10,
        };
        feed(&mut flow, number as u64, time, bytes, usize::MAX);
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    let read = &transactions[0];
    assert_eq!((read.xid.0, read.latency_ns()), (7, Some(LAST_RETRY_NS as u64 + 60 - 1000)));
    assert_eq!(ends(read, RpcMessageKind::Reply).1, DeliveryEvidence::Acknowledged);
}

/// InfiniBand volume 1, section 9.7.5.2.8: a packet after a gap is refused, and so proves that one before
/// it was sent.
#[test]
fn infiniband_9_7_5_a_call_that_comes_behind_its_successor_was_lost_before_the_capture() {
    let mut link = Link::new(17);
    let first = getattr(&mut link, 5);
    let lost = link.client.psn;
    let seventh = link.send(Client, &null_call(7));
    let eighth = link.send(Client, &null_call(8));
    // The first copy of Call 7 is not in the capture; that of Call 8 in frame 3 is refused.
    let mut frames = [first, eighth.clone(), link.nak(Server, lost), seventh, eighth].concat();
    frames.extend(link.ack(Server));
    frames.extend([link.send(Server, &null_reply(7)), link.send(Server, &null_reply(8))].concat());
    let outcome = run(&frames);
    let lost: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.lost_copy())).collect();
    let certain = Some(UncapturedOriginalCallEvidence::Certain { ns: 2000 });
    assert_eq!(lost, [(5, None), (7, certain), (8, None)]);
}

/// InfiniBand volume 1, section 9.7.6.1.3: a requester waits for one to four ACK timeouts, and retries at
/// most seven times.
#[test]
fn infiniband_9_7_6_1_3_a_pause_of_an_ack_timeout_may_be_a_lost_call() {
    const TIMEOUT_NS: u64 = 4_096 << 17;
    let possible = |ns| Some(UncapturedOriginalCallEvidence::Possible { ns });
    let cases = [
        (true, TIMEOUT_NS - 1, None),
        (true, TIMEOUT_NS, possible(TIMEOUT_NS)),
        (true, 28 * TIMEOUT_NS, possible(28 * TIMEOUT_NS)),
        (true, 28 * TIMEOUT_NS + 1, None),
        // The timeout of a connection is unknown if its set-up was not captured.
        (false, TIMEOUT_NS, None),
    ];
    for (has_set_up, pause, expected) in cases {
        let mut link = Link::new(17);
        let mut frames = if has_set_up { link.connect(1) } else { Vec::new() };
        let before = frames.len() + 2;
        frames.extend([getattr(&mut link, 5), getattr(&mut link, 6)].concat());
        let mut flow = Flow::new(FlowLimits::default());
        for (number, bytes) in (1..).zip(&frames) {
            // The message before ends with frame `before`.
            let late = if number > before as i64 { pause as i64 - 1000 } else { 0 };
            feed(&mut flow, number as u64, number * 1000 + late, bytes, usize::MAX);
        }
        flow.finish();
        let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
        assert_eq!(transactions.iter().map(Transaction::lost_copy).collect::<Vec<_>>(), [None, expected]);
    }
}

/// InfiniBand volume 1, section 9.7.6.1.3: the first copy of a Reply may be lost before the capture point, and the next
/// one sent after the ACK timeout. Without the set-up, that may be as short as 4.096 µs × 2^14.
#[test]
fn slow_reply_may_be_sent_again() {
    const TIMEOUT_NS: u64 = 4_096 << 17;
    const MIN_NS: u64 = 4_096 << 14;
    let known = Some(PossibleRecovery::AckTimeout { ns: TIMEOUT_NS });
    let cases = [
        (true, TIMEOUT_NS - 1, None),
        (true, TIMEOUT_NS, known),
        (false, MIN_NS - 1, None),
        (false, MIN_NS, Some(PossibleRecovery::UnknownAckTimeout)),
    ];
    for (has_set_up, server_ns, expected) in cases {
        let mut link = Link::new(17);
        let mut frames = if has_set_up { link.connect(1) } else { Vec::new() };
        let before = frames.len() + 3;
        frames.extend([getattr(&mut link, 5), getattr(&mut link, 6)].concat());
        let mut flow = Flow::new(FlowLimits::default());
        for (number, bytes) in (1..).zip(&frames) {
            // The Call before ends with frame `before`.
            let late = if number > before as i64 { server_ns as i64 - 1000 } else { 0 };
            feed(&mut flow, number as u64, number * 1000 + late, bytes, usize::MAX);
        }
        flow.finish();
        let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
        let found: Vec<_> = transactions.iter().map(Transaction::possible_recovery).collect();
        assert_eq!(found, [None, expected], "{has_set_up} {server_ns}");
    }
}

/// InfiniBand volume 1, section 9.7.5: a NAK for packets that were not captured shows that some were sent, and lost
/// before the capture point. A NAK behind a captured gap begins a recovery instead.
#[test]
fn refusal_of_uncaptured_packets_is_possible_recovery() {
    for (has_set_up, is_rnr) in [(false, false), (true, false), (false, true)] {
        let mut link = Link::new(17);
        let mut frames = if has_set_up { link.connect(1) } else { Vec::new() };
        frames.extend([getattr(&mut link, 5), link.send(Client, &getattr_call(6))].concat());
        let psn = link.server.psn;
        frames.extend(if is_rnr { link.rnr_nak(Client, psn) } else { link.nak(Client, psn) });
        frames.extend([link.send(Server, &getattr_reply(6)), getattr(&mut link, 7)].concat());
        let outcome = run(&frames);
        let found: Vec<_> = outcome.transactions.iter().map(Transaction::possible_recovery).collect();
        assert_eq!(found, [None, Some(PossibleRecovery::Nak), None], "{has_set_up} {is_rnr}");
    }
    let mut link = Link::new(17);
    let mut frames =
        [getattr(&mut link, 5), link.send(Client, &getattr_call(6)), link.send(Client, &null_call(7))].concat();
    let psn = link.server.psn;
    let replies = [link.send(Server, &getattr_reply(6)), link.send(Server, &null_reply(7))];
    frames.extend([replies[1].clone(), link.nak(Client, psn), replies.concat()].concat());
    let outcome = run(&frames);
    let found: Vec<_> = outcome.transactions.iter().map(Transaction::possible_recovery).collect();
    assert_eq!(found, [None, None, None]);
    assert!(outcome.transactions[2].recovery_ns() > 0);
}

/// End time of the delivered copy of a message, evidence of the delivery, number of copies, and number of
/// RPC retransmissions.
fn ends(t: &Transaction, which: RpcMessageKind) -> (i64, DeliveryEvidence, u32, u32) {
    let message = t.message(which).unwrap();
    (message.end_time.0, message.delivery_evidence, message.copies, message.retransmissions)
}

/// InfiniBand Architecture Specification volume 1, section 9.7.6.1.3: a requester without an
/// acknowledgement retransmits. Either the message was lost or its acknowledgement.
#[test]
fn a_reply_that_is_sent_again_was_delivered_by_its_first_copy_unless_the_receiver_refused_it() {
    use DeliveryEvidence::{Acknowledged, AssumedFirst};
    // Frames between the copies, then the delivered copy, its evidence, and the time of recovery.
    let cases = [
        ("nothing", 5000, AssumedFirst, 0),
        ("a call", 5000, AssumedFirst, 0),
        ("an ACK", 5000, Acknowledged, 0),
        ("a NAK", 7000, Acknowledged, 1000),
    ];
    for (between, end, evidence, recovery) in cases {
        let mut link = Link::new(17);
        let mut frames = [getattr(&mut link, 6), link.ack(Client)].concat();
        let psn = link.server.psn;
        frames.extend(getattr(&mut link, 7));
        let reply = frames[4].clone();
        match between {
            "a call" => frames.extend(link.send(Client, &null_call(8))),
            "an ACK" => frames.extend(link.ack(Client)),
            "a NAK" => frames.extend(link.nak(Client, psn)),
            _ => {}
        }
        frames.push(reply);
        frames.extend(link.ack(Client));
        let outcome = run(&frames);
        let t = outcome.transactions.iter().find(|t| t.xid.0 == 7).unwrap();
        assert_eq!(ends(t, RpcMessageKind::Reply), (end, evidence, 2, 0), "{between}");
        assert_eq!(t.phases().unwrap().recovery_ns, recovery, "{between}");
    }
}

/// The Reply acknowledges the Call, but not one of its copies.
#[test]
fn a_call_that_is_sent_again_before_its_reply_was_delivered_by_its_first_copy() {
    for (is_answered, evidence) in [(false, DeliveryEvidence::AssumedFirst), (true, DeliveryEvidence::Acknowledged)] {
        let mut link = Link::new(17);
        let call = link.send(Client, &getattr_call(7));
        let reply = link.send(Server, &getattr_reply(7));
        let again = if is_answered { [&reply, &call] } else { [&call, &reply] };
        let frames = [&call, again[0], again[1], &link.ack(Client)].map(Clone::clone).concat();
        let outcome = run(&frames);
        let t = &outcome.transactions[0];
        assert_eq!(ends(t, RpcMessageKind::Call), (1000, evidence, 2, 0));
        assert_eq!(ends(t, RpcMessageKind::Reply).1, DeliveryEvidence::Acknowledged);
        assert_eq!(t.phases().unwrap().recovery_ns, 0);
    }
}

/// The Reply follows the retransmission of its RDMA Write, so it waited for the ACK timeout, too.
#[test]
fn a_reply_behind_an_rdma_write_that_is_sent_again_waits_for_the_ack_timeout() {
    let mut link = Link::new(17);
    let call = link.send(Client, &read_call(7, 4096).write(&[SINK]));
    let write = link.write(Server, SINK, &data(4096));
    let reply = link.send(Server, &read_reply(7, 4096).write(&[SINK]));
    let outcome = expect_all(
        &[call, write.clone(), write, reply, link.ack(Client)].concat(),
        &["#1 c1 > 7 READ NFS3_OK call 1 reply 10 w[4096/4096/4096@2-9]"],
    );
    let t = &outcome.transactions[0];
    assert_eq!(ends(t, RpcMessageKind::Reply), (10_000, DeliveryEvidence::Acknowledged, 1, 0));
    let phases =
        TransactionPhases { server_ns: 2000, data_out_ns: 3000, recovery_ns: 4000, ..TransactionPhases::default() };
    assert_eq!(t.phases(), Some(phases));
}

#[test]
fn without_acknowledgements_a_message_is_assumed_to_be_delivered() {
    let mut link = Link::new(17);
    let outcome = run(&getattr(&mut link, 7));
    let t = &outcome.transactions[0];
    assert_eq!(ends(t, RpcMessageKind::Call), (1000, DeliveryEvidence::Assumed, 1, 0));
    assert_eq!(ends(t, RpcMessageKind::Reply), (2000, DeliveryEvidence::Assumed, 1, 0));
}

#[test]
fn a_call_under_another_psn_is_sent_again_by_rpc() {
    let mut link = Link::new(17);
    let call = getattr_call(7);
    let frames = [link.send(Client, &call), link.send(Client, &call), link.send(Server, &getattr_reply(7))];
    let outcome = expect(&frames.concat(), &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1,2 x2 reply 3"]);
    assert_eq!(ends(&outcome.transactions[0], RpcMessageKind::Call), (1000, DeliveryEvidence::Assumed, 2, 1));
}

/// RFC 5531 section 9: an XID identifies a Call until its Reply. A Requester that has the Reply may use the XID again,
/// for an equal Call as well.
#[test]
fn an_equal_call_after_an_acknowledged_reply_is_a_new_one() {
    for is_acknowledged in [false, true] {
        let mut link = Link::new(17);
        let mut frames = getattr(&mut link, 7);
        if is_acknowledged {
            frames.extend(link.ack(Client));
        }
        frames.extend(getattr(&mut link, 7));
        let outcome = run(&frames);
        let calls: Vec<_> =
            outcome.transactions.iter().map(|t| ends(t, RpcMessageKind::Call)).map(|of| (of.2, of.3)).collect();
        assert_eq!(calls, if is_acknowledged { vec![(1, 0), (1, 0)] } else { vec![(2, 1)] });
    }
}

/// A frame captured from two mirror ports is one copy, and so is a retransmission mirrored twice.
#[test]
fn frames_that_were_captured_twice_are_no_copies() {
    let mut link = Link::new(17);
    let mut frames = read(&mut link, 7, SINK);
    frames.extend(read(&mut link, 8, SINK));
    let mut flow = Flow::new(FlowLimits::default());
    let twice = (1..).zip(&frames).flat_map(|(number, frame)| [identified(frame, number), identified(frame, number)]);
    for (number, frame) in (1..).zip(twice) {
        feed_as_it_is(&mut flow, number, number as i64 * 1000, &frame, usize::MAX);
    }
    flow.finish();
    assert_eq!(flow.stats().duplicate_frames(), frames.len() as u64);
    let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
    assert_eq!(transactions.len(), 2);
    for t in &transactions {
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let message = t.message(which).unwrap();
            assert_eq!((message.copies, message.retransmissions), (1, 0));
        }
        assert_eq!((t.phases().unwrap().recovery_ns, t.missing_parts()), (0, vec![]));
    }
}

/// Over IPv6, and over IPv4 with identification 0 (RFC 6864 section 4), nothing but their content tells frames apart. A
/// NAK, an RNR NAK and an ACK of one PSN differ in their AETHs; two RNR NAKs are equal.
#[test]
fn responses_to_copies_of_a_packet_are_not_captured_twice() {
    for [client, server] in [["fd09::2", "fd09::1"], ["10.9.0.2", "10.9.0.1"]] {
        for is_mirrored in [false, true] {
            let mut link = Link::new(17).between(client, server);
            let mut frames = [getattr(&mut link, 6), link.ack(Client)].concat();
            let mut expected = Vec::new();
            for xid in 7..11 {
                frames.extend(link.send(Client, &getattr_call(xid)));
                let psn = link.server.psn;
                let reply = link.send(Server, &getattr_reply(xid));
                let refusals = match xid {
                    7 => vec![link.nak(Client, psn)],
                    8 => vec![link.rnr_nak(Client, psn)],
                    9 => vec![link.rnr_nak(Client, psn), link.rnr_nak(Client, psn)],
                    _ => Vec::new(),
                };
                let copies = 1 + refusals.len() as u32;
                for refusal in refusals {
                    frames.extend([reply.clone(), refusal].concat());
                }
                frames.extend(reply);
                let last = frames.len() as i64 * 1000;
                frames.extend(link.ack(Client));
                expected.push((last, DeliveryEvidence::Acknowledged, copies, 0));
            }
            let mut flow = Flow::new(FlowLimits::default());
            for (number, frame) in (1..).zip(&frames) {
                for copy in 0..1 + i64::from(is_mirrored) {
                    feed_as_it_is(&mut flow, number, number as i64 * 1000 + copy, frame, usize::MAX);
                }
            }
            flow.finish();
            let duplicates = if is_mirrored { frames.len() as u64 } else { 0 };
            assert_eq!(flow.stats().duplicate_frames(), duplicates, "{client}");
            let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
            let replies: Vec<_> = transactions.iter().skip(1).map(|t| ends(t, RpcMessageKind::Reply)).collect();
            assert_eq!(replies, expected, "{client}, mirrored: {is_mirrored}");
        }
    }
}

#[test]
fn a_read_request_that_is_sent_again_from_its_middle_asks_for_the_rest() {
    let mut link = Link::new(17);
    let mut frames = link.send(Client, &write_call(7, 4096).read(&[SOURCE]));
    let first = link.server.psn;
    let read = link.read(Server, SOURCE, &data(4096));
    let reply = link.send(Server, &write_reply(7, 4096));
    // The second response is lost; the server requests everything after the first again, with the same sequence
    // numbers.
    frames.extend(without(&read, &[3]));
    frames.push(link.read_request(Server, SOURCE.from(1024), 3072, first.next()));
    frames.extend(link.responses(Client, &data(4096)[1024..], first.next()));
    frames.extend(reply);
    expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 10 r68[4096/4096@3-9]"]);
}

/// InfiniBand Architecture Specification volume 1, section 9.7.5.1.3: responses that were captured were lost behind the
/// capture point. Only the responses to the first RDMA Read of a connection reveal its path MTU.
#[test]
fn a_read_request_that_is_sent_again_after_captured_responses_ends_a_recovery() {
    let mut link = Link::new(17);
    for (xid, call) in [(7, 1), (8, 12)] {
        let mut frames = if xid == 7 { Frames::new() } else { write(&mut link, 7, SOURCE) };
        frames.resize(call - 1, link.ack(Client).concat());
        frames.extend(link.send(Client, &write_call(xid, 4096).read(&[SOURCE])));
        let first = link.server.psn;
        frames.extend(link.read(Server, SOURCE, &data(4096)));
        frames.push(link.read_request(Server, SOURCE.from(1024), 3072, first.next()));
        frames.extend(link.responses(Client, &data(4096)[1024..], first.next()));
        frames.extend(link.send(Server, &write_reply(xid, 4096)));
        let transactions = run(&frames).transactions;
        let phases =
            TransactionPhases { data_in_ns: 7000, recovery_ns: 1000, server_ns: 2000, ..TransactionPhases::default() };
        assert_eq!(transactions.last().unwrap().phases(), Some(phases), "{xid}");
    }
}

#[test]
fn a_call_with_a_lost_middle_is_partial_and_its_bytes_are_named() {
    let mut link = Link::new(17);
    let call = write_call_inline(7, &data(2500));
    let frames = [
        null(&mut link, 6),
        link.send(Client, &call),
        link.ack(Server),
        link.send(Server, &write_reply(7, 2500)),
        null(&mut link, 8),
    ]
    .concat();
    // 28 bytes of header and 68 of RPC and arguments precede the data.
    let whole = 28 + call.body.len();
    assert_eq!(whole, 28 + 68 + 2500);
    let null = ["#1 c1 > 6 NULL SUCCESS call 1 reply 2", "#3 c1 > 8 NULL SUCCESS call 7 reply 8"];
    // First, Middle, Last are frames 3, 4 and 5.
    for (lost, line) in [
        (3, "#2 c1 > 7 - SUCCESS reply 6 missing call"),
        (4, "#2 c1 > 7 WRITE NFS3_OK call 3,4 reply 6 missing call:996-2019"),
        (5, "#2 c1 > 7 WRITE NFS3_OK call 3,4 reply 6 missing call:2020-2020"),
    ] {
        let outcome = run(&without(&frames, &[lost]));
        assert_eq!(outcome.lines(), [null[0], line, null[1]]);
        let lost_parts = if lost == 3 { vec![(UndecodedReason::MessagePart, 2)] } else { vec![] };
        assert_eq!(outcome.undecoded(), lost_parts);
    }
}

#[test]
fn a_reply_with_a_lost_packet_is_partial_and_its_bytes_are_named() {
    let mut link = Link::new(17);
    let reply = read_reply_inline(7, &data(2500));
    let frames = [
        null(&mut link, 6),
        link.send(Client, &read_call(7, 2500)),
        link.send(Server, &reply),
        link.ack(Client),
        null(&mut link, 8),
        null(&mut link, 9),
    ]
    .concat();
    assert_eq!(reply.body.len(), 44 + 2500);
    // First, Middle, Last are frames 4, 5 and 6; packets that the client acknowledged are not retransmitted.
    for (lost, line) in [
        (4, "7 READ - call 3 missing reply"),
        (5, "7 READ NFS3_OK call 3 reply 4,5 missing reply:996-2019"),
        (6, "7 READ NFS3_OK call 3 reply 4,5 missing reply:2020-2020"),
    ] {
        let outcome = run(&without(&frames, &[lost]));
        assert!(outcome.lines().iter().any(|other| other.ends_with(line)), "{:#?}", outcome.lines());
        assert_eq!(outcome.transactions.len(), 4);
    }
}

/// The clock of the host that captured the acknowledgement is ahead: acknowledged packets may still be
/// captured.
#[test]
fn an_acknowledgement_that_was_captured_early_does_not_end_a_message() {
    for (milliseconds, line) in [
        (20, "7 WRITE NFS3_OK call 3,4,8 reply 9"),
        (45, "7 WRITE NFS3_OK call 3,4,8 reply 9"),
        (60, "7 WRITE NFS3_OK call 3,4 reply 9 missing call:2020-2020"),
    ] {
        let mut link = Link::new(17);
        let before = null(&mut link, 6);
        let mut call = link.send(Client, &write_call_inline(7, &data(2500)));
        let last = call.split_off(2);
        let early = [before, call, link.send(Client, &null_call(8)), link.ack(Server)].concat();
        let late = [link.send(Client, &null_call(9)), last, link.send(Server, &write_reply(7, 2500))].concat();
        let mut flow = Flow::new(FlowLimits::default());
        let times = early.iter().map(|_| 0).chain(late.iter().map(|_| milliseconds * 1_000_000));
        for ((number, delay), bytes) in (1..).zip(times).zip(early.iter().chain(&late)) {
            feed(&mut flow, number, number as i64 * 1000 + delay, bytes, usize::MAX);
        }
        flow.finish();
        let lines: Vec<_> =
            std::iter::from_fn(|| flow.next_transaction()).map(|transaction| super::line(&transaction)).collect();
        assert!(lines.iter().any(|other| other.ends_with(line)), "{milliseconds} ms: {lines:#?}");
    }
}

#[test]
fn a_message_in_parts_at_the_end_of_the_capture_is_emitted() {
    let mut link = Link::new(17);
    let frames = [
        null(&mut link, 6),
        link.send(Client, &read_call(7, 2500)),
        link.send(Client, &write_call_inline(8, &data(2500)))[..2].to_vec(),
        link.send(Server, &read_reply_inline(7, &data(2500)))[..1].to_vec(),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 6 NULL SUCCESS call 1 reply 2",
            "#2 c1 > 7 READ NFS3_OK call 3 reply 6 missing reply:996-996",
            "#3 c1 > 8 WRITE - call 4,5 missing call:2020-2020,reply",
        ],
    );
}

/// An RDMA Write for a Call sent before the capture says nothing about one that is being sent.
#[test]
fn an_rdma_write_to_unknown_memory_ends_no_message_that_is_being_sent() {
    let mut link = Link::new(17);
    let call = link.send(Client, &write_call_inline(7, &data(2500)));
    let old = link.write(Server, SINK, &data(1024));
    let frames =
        [link.connect(1), call[..1].to_vec(), old, call[1..].to_vec(), link.send(Server, &write_reply(7, 2500))]
            .concat();
    let outcome = expect(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 4,6,7 reply 8"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::WriteToUnknownMemory, 1)]);
}

/// An access of the Responder to the memory of a partial Call proves that it has the Call.
#[test]
fn an_rdma_write_to_the_memory_of_a_call_in_parts_finds_it() {
    let mut link = Link::new(17);
    link.mtu = 256;
    // A Call whose arguments fill three packets.
    let call = write_call_inline(7, &data(500)).write(&[SINK.of(200)]);
    let frames = [
        link.connect(1),
        without(&link.send(Client, &call), &[2]),
        link.write(Server, SINK, &data(200)),
        link.send(Server, &write_reply(7, 500).write(&[SINK.of(200)])),
    ]
    .concat();
    expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 4,5 reply 7 w[200/200/200@6-6] missing call:204-459"]);
}
