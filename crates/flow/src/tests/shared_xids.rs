//! Calls in flight that share an XID. RFC 5531 section 9.

use super::connections::interleaved;
use super::tcp::{Stream, record};
use super::*;

/// The results tell which Call a Reply answers, in whatever order the Replies come.
#[test]
fn reply_goes_to_call_of_results() {
    let (first, second) = (getattr_call(7), write_call_inline(7, &data(8)));
    for is_swapped in [false, true] {
        let mut replies = [getattr_reply(7), write_reply(7, 8)];
        if is_swapped {
            replies.reverse();
        }
        let [getattr, write] = if is_swapped { [4, 3] } else { [3, 4] };
        let mut expected = vec![
            format!("> 7 GETATTR NFS3ERR_STALE call 1 reply {getattr}"),
            format!("> 7 WRITE NFS3_OK call 2 reply {write}"),
        ];
        if is_swapped {
            expected.reverse();
        }
        let expected: Vec<_> = (1..).zip(&expected).map(|(index, line)| format!("#{index} c1 {line}")).collect();
        let messages = [&first, &second, &replies[0], &replies[1]];
        let senders = [Client, Client, Server, Server];
        let mut link = Link::new(17);
        let frames: Frames =
            { senders.iter().zip(messages) }.flat_map(|(who, message)| link.send(*who, message)).collect();
        let mut stream = Stream::new(900);
        let segments: Frames =
            { senders.iter().zip(messages) }.map(|(who, message)| stream.send(*who, &record(&message.body))).collect();
        for frames in [frames, segments] {
            let outcome = run(&frames);
            assert_eq!(outcome.lines(), expected);
            assert!(outcome.transactions.iter().all(|t| !t.is_reply_ambiguous));
        }
    }
}

/// RFC 8166 section 3.4.6: the chunks of a Reply are those of its Call.
#[test]
fn reply_goes_to_call_of_chunks() {
    let sinks = [memory(0xb1, 0, 1024), memory(0xb2, 4096, 1024)];
    let mut link = Link::new(17);
    let [first, second] = [0, 1].map(|at: usize| {
        let mut call = read_call(7, 1024).write(&[sinks[at]]);
        // The filehandle.
        *call.body.iter_mut().rev().nth(12).unwrap() ^= at as u8;
        link.send(Client, &call)
    });
    let [later, earlier] = [sinks[1], sinks[0]].map(|sink| {
        [link.write(Server, sink, &data(1024)), link.send(Server, &read_reply(7, 1024).write(&[sink]))].concat()
    });
    let outcome = expect_all(
        &[first, second, later, earlier].concat(),
        &[
            "#1 c1 > 7 READ NFS3_OK call 2 reply 4 w[1024/1024/1024@3-3]",
            "#2 c1 > 7 READ NFS3_OK call 1 reply 6 w[1024/1024/1024@5-5]",
        ],
    );
    assert!(outcome.transactions.iter().all(|t| !t.is_reply_ambiguous));
}

/// Two Calls of one procedure: the order alone tells, and a copy of the first Call is no third Call.
#[test]
fn equal_replies_are_ambiguous() {
    let mut link = Link::new(17);
    let mut second = getattr_call(7);
    *second.body.last_mut().unwrap() ^= 1;
    let frames = [
        getattr(&mut link, 6),
        link.send(Client, &getattr_call(7)),
        link.send(Client, &second),
        link.send(Client, &getattr_call(7)),
        link.send(Server, &getattr_reply(7)),
        link.send(Server, &getattr_reply(7)),
    ];
    let outcome = expect_all(
        &frames.concat(),
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 GETATTR NFS3ERR_STALE call 3,5 x2 reply 6",
            "#3 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 7",
        ],
    );
    assert!(outcome.transactions.iter().skip(1).all(|t| t.is_reply_ambiguous));
}

/// RFC 5531 section 9: a Reply that fits neither Call proves nothing against its sender, as no rule judges it.
#[test]
fn reply_of_neither_call_is_ambiguous() {
    let messages = [getattr_call(7), write_call_inline(7, &data(8)), write_reply(7, 9), write_reply(7, 10)];
    let mut link = Link::new(17);
    let senders = [Client, Client, Server, Server];
    let frames: Frames =
        { senders.iter().zip(&messages) }.flat_map(|(who, message)| link.send(*who, message)).collect();
    let mut stream = Stream::new(900);
    let segments: Frames =
        { senders.iter().zip(&messages) }.map(|(who, message)| stream.send(*who, &record(&message.body))).collect();
    for frames in [frames, segments] {
        let outcome = run(&frames);
        assert_eq!(outcome.transactions.len(), 2);
        for transaction in &outcome.transactions {
            let summary = transaction.with_messages(|messages| messages.summary());
            assert!(transaction.is_reply_ambiguous && summary.is_reply_of_other(transaction), "{}", line(transaction));
            assert_eq!(summary.fault(transaction), None, "{}", line(transaction));
        }
    }
}

/// The two directions of a connection are joined while Calls share an XID, with the direction of the Calls or into it: the
/// earlier ones are neither lost nor of another connection.
#[test]
fn calls_stay_shared_when_directions_join() {
    for (is_callback, is_swapped) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut one, mut two) = (Link::new(17), Link::new(18));
        two.client.psn = one.client.psn;
        two.server.psn = one.server.psn;
        let mut replies = [getattr_reply(7), write_reply(7, 8)];
        if is_swapped {
            replies.reverse();
        }
        // Nothing tells which directions belong together, until only one link has XID 8.
        let calls = [(&mut one, 0), (&mut two, 1)].map(|(link, changed)| {
            let mut calls = [getattr_call(6), getattr_call(7), write_call_inline(7, &data(8))];
            calls.iter_mut().for_each(|call| *call.body.last_mut().unwrap() ^= changed);
            calls.iter().flat_map(|call| link.send(Client, call)).collect::<Frames>()
        });
        let answers = [&mut one, &mut two].map(|link| link.send(Server, &getattr_reply(6)));
        let deciding = if is_callback {
            [one.send(Server, &callback(8)), one.send(Client, &null_reply(8))]
        } else {
            [one.send(Client, &getattr_call(8)), one.send(Server, &getattr_reply(8))]
        };
        let last = [&mut one, &mut two]
            .map(|link| replies.iter().flat_map(|reply| link.send(Server, reply)).collect::<Frames>());
        let frames = [interleaved(calls), interleaved(answers), deciding.concat(), last.concat()].concat();
        let lines = run(&frames).lines();
        let mut found: Vec<_> = { lines.iter().map(|line| &line[3..]) }.filter(|line| !line.contains(" 8 ")).collect();
        found.sort_unstable();
        let at = if is_swapped { [1, 0] } else { [0, 1] };
        let mut expected = Vec::new();
        for (connection, first) in [(1, 1), (2, 2)] {
            let replies = at.map(|at| 9 + 2 * connection + at);
            expected.extend([
                format!("c{connection} > 6 GETATTR NFS3ERR_STALE call {first} reply {}", 6 + connection),
                format!("c{connection} > 7 GETATTR NFS3ERR_STALE call {} reply {}", first + 2, replies[0]),
                format!("c{connection} > 7 WRITE NFS3_OK call {} reply {}", first + 4, replies[1]),
            ]);
        }
        expected.sort_unstable();
        assert_eq!(found, expected, "{is_callback} {is_swapped}");
    }
}
