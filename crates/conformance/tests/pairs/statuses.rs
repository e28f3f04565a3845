//! Agreement of the status of a Transaction with the findings about its results.

use nfsrdma_flow::transaction::EndpointRole;

use crate::credits::inline_write;
use crate::exchange::{Compound, Exchange, Operation};
use crate::refusals::missing;
use crate::scene::Scene;
use crate::{ALL, BOTH, broken_rules, findings, pairs};

/// Rules with errors about the results of a Reply, or about its chunks. Errors of other rules concern a Call, the
/// transport, or other Transactions: the results are those that the Call asked for.
const OF_RESULTS: &[&str] = &[
    "nfs/compound-status",
    "nfs/copy-stateid",
    "nfs/read-count",
    "nfs/read-plus",
    "nfs/result-arguments",
    "nfs/result-after-failure",
    "nfs/result-count",
    "nfs/result-operation",
    "nfs/sequence-echo",
    "nfs/session-attrs",
    "nfs/unrequested-attrs",
    "nfs/write-committed",
    "nfs/write-count",
    "rpc/stale-handles",
    "rpc/wrong-result",
    "rpcrdma/empty-not-kept",
    "rpcrdma/item-in-wrong-chunk",
    "rpcrdma/item-inline",
    "rpcrdma/reply-chunk-in-msg",
    "rpcrdma/returned-not-in-order",
    "rpcrdma/returned-too-much",
];

/// Rules whose violation leaves results that cannot be decoded.
const OF_FORM: &[&str] = &["nfs/not-eligible", "rpcrdma/long-roundup", "rpcrdma/roundup-left"];

/// Rules whose violation may leave the results as they are: a chunk that is not needed is left out, a Call is RDMA_MSGP, an
/// RDMA_ERROR has an unknown code, or the server refuses a false retry.
const OF_SOME: &[&str] = &["nfs/false-retry", "rpcrdma/error-range", "rpcrdma/msgp", "rpcrdma/not-copied"];

/// Rules that a Call may break, too, or a Reply that belongs to no Call.
const OF_BOTH: &[&str] = &["nfs/copy-stateid", "rpcrdma/xid-mismatch"];

/// List, summary and JSON have the status from the same place.
#[test]
fn errors_about_results_have_their_status() {
    let mut failures = Vec::new();
    for pair in pairs() {
        for kind in pair.kinds {
            for broken in [true, false] {
                let mut scene = Scene::new(*kind);
                (pair.conversation)(&mut scene, broken);
                let frames = scene.frames();
                let mut found = findings(&frames).into_iter().filter(|finding| finding.rule.id == pair.rule);
                let is_of_client = found.next().is_some_and(|finding| finding.side == EndpointRole::Client);
                let codes = missing(&frames);
                let has_wrong_result = codes.iter().any(|(_, code)| code == "reply:wrong-result");
                let is_right = match pair.rule {
                    rule if OF_BOTH.contains(&rule) && (is_of_client || !broken) => !has_wrong_result,
                    // The Reply is not that of its Call.
                    "rpcrdma/xid-mismatch" => !codes.is_empty(),
                    rule if OF_FORM.contains(&rule) || OF_SOME.contains(&rule) => broken || !has_wrong_result,
                    rule => has_wrong_result == (broken && OF_RESULTS.contains(&rule)),
                };
                if !is_right {
                    failures.push(format!("{} {kind:?} {broken}: {codes:?}", pair.rule));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Each of five GETATTRs, more than are compared at once, and an attribute of each word. RFC 8881 section 18.7.3.
#[test]
fn one_of_many_results_is_wrong() {
    for kind in BOTH {
        for (wrong, word) in (0..5).flat_map(|wrong| (0..3).map(move |word| (wrong, word))) {
            let getattr = |at: usize| {
                let mut mask = [1; 3];
                mask[word] |= u32::from(at == wrong) << 1;
                let arguments = [3, 1, 1, 1];
                Operation::new(9, &arguments, &[&[3][..], &mask, &[0]].concat())
            };
            let operations: Vec<_> = [Operation::putrootfh()].into_iter().chain((0..5).map(getattr)).collect();
            let mut scene = Scene::new(*kind);
            scene.compound(&Compound::new(0, &operations));
            let frames = scene.frames();
            let codes: Vec<_> = missing(&frames).into_iter().map(|(_, code)| code).collect();
            assert_eq!(codes, ["reply:wrong-result"], "{kind:?} {wrong} {word}");
            let broken = broken_rules(&findings(&frames), "");
            assert!(broken.contains("nfs/unrequested-attrs"), "{kind:?} {wrong} {word}: {broken:?}");
        }
    }
}

/// RFC 8881 section 2.10.6.1.3.1: a server may answer a false retry with the results of the other Call. Results that differ
/// are its own.
#[test]
fn false_retry_has_cached_results() {
    // REMOVE, with change_info4 in its result. RFC 8881 section 18.25.
    let remove = |name: u8, after: u32| {
        let arguments = [1, u32::from(name) << 24];
        Compound::new(
            2,
            &[Operation::sequence(3, 77), Operation::putrootfh(), Operation::new(28, &arguments, &[1, 0, 1, 0, after])],
        )
    };
    for kind in ALL {
        for (second, after, expected) in [(b'b', 2, true), (b'a', 2, false), (b'b', 3, false)] {
            let mut scene = Scene::new(*kind);
            scene.compound(&remove(b'a', 2));
            let xid = scene.xid();
            scene.exchange(&remove(second, after).exchange(xid));
            let codes = missing(&scene.frames());
            let wrong = (xid, "reply:wrong-result".to_owned());
            assert_eq!(codes, if expected { vec![wrong] } else { Vec::new() }, "{kind:?} {second} {after}");
        }
    }
}

/// RFC 8881 section 2.10.6.1: the results of a repeated Call may come from the reply cache, without its data.
#[test]
fn repeated_write_needs_no_data() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let first = Exchange::write3(scene.xid(), 4096);
        scene.exchange(&first);
        scene.acknowledge_reply();
        scene.call(&first);
        scene.reply(&first);
        let frames = scene.frames();
        assert_eq!(missing(&frames), [], "{kind:?}");
        let broken = broken_rules(&findings(&frames), "");
        assert!(!broken.contains("rpcrdma/read-missing"), "{kind:?}: {broken:?}");
    }
}

/// RFC 8881 section 18.32.3: a WRITE that wrote nothing needs no data.
#[test]
fn empty_write_needs_no_data() {
    for kind in BOTH {
        for (count, expected) in [(0, false), (1, true)] {
            let mut scene = Scene::new(*kind);
            let mut write = Exchange::write3(scene.xid(), 4096);
            // Behind 24 bytes of RPC, the status and two absent attributes.
            write.reply.rpc[36..40].copy_from_slice(&u32::to_be_bytes(count));
            scene.call(&write);
            scene.reply(&write);
            let frames = scene.frames();
            assert_eq!(!missing(&frames).is_empty(), expected, "{kind:?} {count}");
            let broken = broken_rules(&findings(&frames), "");
            assert_eq!(broken.contains("rpcrdma/read-missing"), expected, "{kind:?} {count}: {broken:?}");
        }
    }
}

/// RFC 5531 section 9: with two calls of one XID in flight, a reply that fits neither has no status that `lint` does not
/// have.
#[test]
fn reply_of_neither_call_is_not_wrong() {
    for kind in ALL {
        let mut scene = Scene::new(*kind);
        let first = Exchange::getattr3(scene.xid());
        let mut second = inline_write(first.call.xid, 8);
        // Behind 24 bytes of RPC: 9 bytes written of 8.
        second.reply.rpc.truncate(24);
        second.reply.rpc.extend([0, 0, 0, 9, 2, 1, 2].into_iter().flat_map(u32::to_be_bytes));
        scene.call(&first);
        scene.call(&second);
        scene.reply(&second);
        second.reply.rpc[39] += 1;
        scene.reply(&second);
        let frames = scene.frames();
        let codes = missing(&frames);
        assert!(codes.iter().all(|(_, code)| code != "reply:wrong-result"), "{kind:?}: {codes:?}");
        let of_server: Vec<_> =
            { findings(&frames) }.into_iter().filter(|finding| finding.side == EndpointRole::Server).collect();
        assert!(of_server.is_empty(), "{kind:?}: {of_server:?}");
    }
}
