//! Pairing of queue pairs, with and without the messages of the connection manager.

use super::*;

#[test]
fn without_the_cm_exchange_the_first_answer_pairs_the_two_directions() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let frames = [read(&mut link, 7, sink), write(&mut link, 8, memory(0xa1, 0, 2000))].concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 5 w[2048/2048/2048@3-4]",
            "#2 c1 > 8 WRITE NFS3_OK call 7 reply 11 r68[2000/2000@9-10]",
        ],
    );
}

#[test]
fn the_client_is_the_initiator_or_the_caller_of_nfs() {
    for connect in [true, false] {
        let mut link = Link::new(17).qpns(0x11, 0x22);
        let mut frames = if connect { link.connect(1) } else { Vec::new() };
        // The first message is a callback.
        frames.extend(link.send(Server, &callback(7)));
        frames.extend(link.send(Client, &null_reply(7)));
        frames.extend(getattr(&mut link, 8));
        let outcome = run(&frames);
        for transaction in &outcome.transactions {
            let name = transaction.connection;
            assert_eq!((name.client.address.to_string(), name.client.port), ("10.9.0.2".into(), Some(0x11)));
            assert_eq!((name.server.address.to_string(), name.server.port), ("10.9.0.1".into(), Some(0x22)));
        }
        let directions: Vec<_> = outcome.transactions.iter().map(|t| t.direction).collect();
        assert_eq!(directions, [CallDirection::Reverse, CallDirection::Forward]);
    }
}

#[test]
fn two_connections_between_the_same_addresses_at_once_do_not_mix() {
    let (mut one, mut two) = (Link::new(17), Link::new(18));
    let frames =
        interleaved([read(&mut one, 7, memory(0xb1, 0x1000, 2048)), read(&mut two, 9, memory(0xb2, 0x2000, 2048))]);
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 9 w[2048/2048/2048@5-7]",
            "#2 c2 > 9 READ NFS3_OK call 2 reply 10 w[2048/2048/2048@6-8]",
        ],
    );
}

#[test]
fn four_connections_between_the_same_addresses_at_once_do_not_mix() {
    let mut links = [17, 18, 19, 20].map(Link::new);
    let reads: Vec<_> = (0..4).map(|at| read(&mut links[at as usize], 7 + at, memory(0xb1 + at, 0, 1024))).collect();
    let writes: Vec<_> = (0..4).map(|at| write(&mut links[at as usize], 17 + at, memory(0xc1 + at, 0, 1024))).collect();
    let frames = [interleaved(reads), interleaved(writes)].concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 13 w[1024/1024/1024@9-9]",
            "#2 c2 > 8 READ NFS3_OK call 2 reply 14 w[1024/1024/1024@10-10]",
            "#3 c3 > 9 READ NFS3_OK call 3 reply 15 w[1024/1024/1024@11-11]",
            "#4 c4 > a READ NFS3_OK call 4 reply 16 w[1024/1024/1024@12-12]",
            "#5 c1 > 11 WRITE NFS3_OK call 21 reply 33 r68[1024/1024@29-29]",
            "#6 c2 > 12 WRITE NFS3_OK call 22 reply 34 r68[1024/1024@30-30]",
            "#7 c3 > 13 WRITE NFS3_OK call 23 reply 35 r68[1024/1024@31-31]",
            "#8 c4 > 14 WRITE NFS3_OK call 24 reply 36 r68[1024/1024@32-32]",
        ],
    );
}

/// Properties that two connections share (XIDs, handles and sequence numbers alike) decide nothing; a
/// property that only one of them has decides everything that was undecided before.
#[test]
fn similar_connections_are_distinguished_by_their_first_difference() {
    let (mut one, mut two) = (Link::new(17), Link::new(18));
    two.client.psn = one.client.psn;
    two.server.psn = one.server.psn;
    let mut frames = interleaved([getattr(&mut one, 7), null(&mut two, 7)]);
    frames.extend(interleaved([getattr(&mut one, 8), getattr(&mut two, 9)]));
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 3",
            "#2 c2 > 7 NULL SUCCESS call 2 reply 4",
            "#3 c1 > 8 GETATTR NFS3ERR_STALE call 5 reply 7",
            "#4 c2 > 9 GETATTR NFS3ERR_STALE call 6 reply 8",
        ],
    );
}

#[test]
fn queue_pair_numbers_may_be_equal_on_both_sides_and_addresses_may_be_of_ipv6() {
    let mut link = Link::new(17).between("fd09::2", "fd09::1");
    let outcome = expect_all(
        &[link.connect(1), read(&mut link, 7, memory(0xb1, 0, 1024))].concat(),
        &["#1 c1 > 7 READ NFS3_OK call 4 reply 7 w[1024/1024/1024@6-6]"],
    );
    let name = outcome.transactions[0].connection;
    assert_eq!((name.client.port, name.server.port), (Some(17), Some(17)));
    assert_eq!(name.client.address.to_string(), "fd09::2");
}

#[test]
fn both_sides_may_have_the_same_address() {
    for connect in [true, false] {
        let mut link = Link::new(17).between("127.0.0.1", "127.0.0.1").qpns(17, 18);
        let mut frames = if connect { link.connect(1) } else { Vec::new() };
        let first = frames.len() as u64;
        frames.extend(read(&mut link, 7, memory(0xb1, 0, 1024)));
        frames.extend(write(&mut link, 8, memory(0xa1, 0, 1024)));
        let at = |frame: u64| first + frame;
        let lines = [
            format!("#1 c1 > 7 READ NFS3_OK call {} reply {} w[1024/1024/1024@{1}-{1}]", at(1), at(4))
                .replace(&format!("@{0}-{0}", at(4)), &format!("@{0}-{0}", at(3))),
            format!("#2 c1 > 8 WRITE NFS3_OK call {} reply {} r68[1024/1024@{2}-{2}]", at(6), at(9), at(8)),
        ];
        let outcome = expect_all(&frames, &lines.each_ref().map(String::as_str));
        let name = outcome.transactions[0].connection;
        assert_eq!((name.client.port, name.server.port), (Some(17), Some(18)));
    }
}

#[test]
fn a_capture_may_begin_with_a_reply() {
    let mut link = Link::new(17);
    let all = [getattr(&mut link, 7), read(&mut link, 8, memory(0xb1, 0, 1024))].concat();
    expect_all(
        &all[1..],
        &["#1 c1 > 7 - SUCCESS reply 1 missing call", "#2 c1 > 8 READ NFS3_OK call 2 reply 5 w[1024/1024/1024@4-4]"],
    );
}

#[test]
fn a_capture_may_begin_with_an_rdma_write() {
    let mut link = Link::new(17);
    let all = [read(&mut link, 7, memory(0xb1, 0, 2048)), getattr(&mut link, 8)].concat();
    let outcome = expect(
        &all[2..],
        &["#1 c1 > 7 - SUCCESS reply 3 missing call", "#2 c1 > 8 GETATTR NFS3ERR_STALE call 5 reply 6"],
    );
    assert_eq!(outcome.undecoded(), [(UndecodedReason::WriteToUnknownMemory, 2)]);
    let outcome = run(&all[3..]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::WriteWithoutFirst, 1)]);
}

#[test]
fn a_capture_may_begin_with_a_read_response() {
    let mut link = Link::new(17);
    let all = [write(&mut link, 7, memory(0xa1, 0, 2048)), write(&mut link, 8, memory(0xa1, 0, 2048))].concat();
    let outcome = expect(
        &all[2..],
        &["#1 c1 > 7 - SUCCESS reply 3 missing call", "#2 c1 > 8 WRITE NFS3_OK call 4 reply 8 r68[2048/2048@6-7]"],
    );
    assert_eq!(outcome.undecoded(), [(UndecodedReason::ReadWithoutRequest, 2)]);
}

#[test]
fn a_capture_may_begin_with_an_acknowledgement() {
    let mut link = Link::new(17);
    getattr(&mut link, 7);
    let frames = [link.ack(Client), getattr(&mut link, 8)].concat();
    expect_all(&frames, &["#1 c1 > 8 GETATTR NFS3ERR_STALE call 2 reply 3"]);
}

#[test]
fn one_direction_alone_gives_its_messages() {
    let mut link = Link::new(17);
    let all = [getattr(&mut link, 7), getattr(&mut link, 8)].concat();
    let of = |parity: usize| -> Frames { all.iter().skip(parity).step_by(2).cloned().collect() };
    expect_all(&of(0), &["#1 c1 > 7 GETATTR - call 1 missing reply", "#2 c1 > 8 GETATTR - call 2 missing reply"]);
    expect_all(&of(1), &["#1 c1 > 7 - SUCCESS reply 1 missing call", "#2 c1 > 8 - SUCCESS reply 2 missing call"]);
}

#[test]
fn queue_pairs_that_connect_again_begin_a_new_connection() {
    let mut link = Link::new(17);
    let lost = link.send(Client, &getattr_call(8));
    let before = [link.connect(1), getattr(&mut link, 7), lost].concat();
    // Sequence numbers restart, below those used before.
    let mut link = Link::new(17).psns(0x1000, 0x2000);
    let after = [link.connect(2), getattr(&mut link, 8), getattr(&mut link, 9)].concat();
    expect_all(
        &[before, after].concat(),
        &[
            "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5",
            "#2 c1 > 8 GETATTR - call 6 missing reply",
            "#3 c2 > 8 GETATTR NFS3ERR_STALE call 10 reply 11 retry of #2",
            "#4 c2 > 9 GETATTR NFS3ERR_STALE call 12 reply 13",
        ],
    );
}

#[test]
fn a_cm_exchange_that_is_seen_again_changes_nothing() {
    let mut link = Link::new(17);
    let connect = link.connect(1);
    let frames = [
        connect.clone(),
        connect[..2].to_vec(),
        link.send(Client, &getattr_call(7)),
        // The RTU was lost.
        connect[1..2].to_vec(),
        link.send(Server, &getattr_reply(7)),
    ]
    .concat();
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 6 reply 8"]);
}

/// A REQ after packets of its connection sets up another one, whatever its numbers: as in a capture that is
/// replayed twice.
#[test]
fn a_connection_that_is_set_up_again_with_the_same_numbers_is_another() {
    let mut link = Link::new(17);
    let frames = [link.connect(1), getattr(&mut link, 7), link.ack(Client)].concat();
    expect_all(
        &[frames.clone(), frames].concat(),
        &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5", "#2 c2 > 7 GETATTR NFS3ERR_STALE call 10 reply 11"],
    );
}

#[test]
fn queue_pairs_set_up_again_without_capture_stay_one_connection() {
    let mut link = Link::new(17).psns(0x90_0000, 0x90_0000);
    let mut frames = Vec::new();
    for xid in 0..600 {
        frames.extend(getattr(&mut link, xid));
    }
    let sink = memory(0xb1, 0, 2048);
    for xid in 600..900 {
        frames.extend(read(&mut link, xid, sink));
    }
    let before = frames.len();
    // The new set-up of the connection was not captured; its sequence numbers are lower now.
    let mut link = Link::new(17).psns(0x50_0000, 0x50_0000);
    for xid in 1000..1003 {
        frames.extend(read(&mut link, xid, sink));
    }
    let outcome = run(&frames);
    assert_eq!(outcome.undecoded(), []);
    let of = |xid: u32, at: usize| {
        let frame = before + at * 6;
        format!(
            "#{} c1 > {xid:x} READ NFS3_OK call {} reply {} w[2048/2048/2048@{}-{}]",
            901 + at,
            frame + 1,
            frame + 5,
            frame + 3,
            frame + 4
        )
    };
    assert_eq!(outcome.lines()[900..], [of(1000, 0), of(1001, 1), of(1002, 2)]);
}

/// Interleaves the frames of several conversations.
pub(super) fn interleaved(conversations: impl IntoIterator<Item = Frames>) -> Frames {
    let mut conversations: Vec<_> = conversations.into_iter().map(Vec::into_iter).collect();
    let mut frames = Vec::new();
    loop {
        let before = frames.len();
        frames.extend(conversations.iter_mut().filter_map(Iterator::next));
        if frames.len() == before {
            return frames;
        }
    }
}
