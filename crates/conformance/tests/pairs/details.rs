//! Side, severity, frames, field and text of single findings.

use std::collections::BTreeSet;

use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_flow::transaction::EndpointRole;

use crate::callbacks::{cb_null, open_backchannel, reverse};
use crate::exchange::{Compound, Exchange, Operation, memory};
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::{BOTH, broken_rules, describe, findings, frame_time, pairs};

/// Returns the only finding of a rule in a conversation.
fn only(rule: &str, mut scene: Scene, conversation: impl FnOnce(&mut Scene)) -> Finding {
    conversation(&mut scene);
    let found = findings(&scene.frames());
    let of_rule: Vec<&Finding> = found.iter().filter(|finding| finding.rule.id == rule).collect();
    assert_eq!(of_rule.len(), 1, "{rule}: {:#?}", describe(&found));
    of_rule[0].clone()
}

/// Returns the number of the next frame.
fn next_frame(scene: &Scene) -> u64 {
    scene.fabric.frames.len() as u64 + 1
}

fn frames(finding: &Finding) -> Vec<u64> {
    finding.frames.iter().map(|frame| frame.0).collect()
}

#[test]
fn a_repeated_callback_of_version_1_is_an_error() {
    for kind in BOTH {
        let finding = only("rpc/resent-here", Scene::new(*kind), |scene| {
            open_backchannel(scene);
            let mut callback = cb_null(scene.xid());
            // CB_COMPOUND. RFC 8881 section 20.2.
            callback.call.rpc[23] = 1;
            scene.fabric.send(Side::Server, &callback.call.encode());
            reverse(scene, &callback.garbage_args());
        });
        assert_eq!((finding.severity, finding.side), (ReportedFindingSeverity::Error, EndpointRole::Server));
    }
}

#[test]
fn a_call_that_was_sent_twice_may_have_two_replies() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
        scene.call(&exchange);
        scene.call(&exchange);
        scene.reply(&exchange);
        scene.reply(&exchange);
        let found = findings(&scene.frames());
        assert_eq!(broken_rules(&found, ""), BTreeSet::from(["rpc/resent-here"]), "{:#?}", describe(&found));
    }
}

/// The server answers the XID of the RPC message, not that of the header.
#[test]
fn a_reply_to_a_call_with_two_xids_has_no_finding() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.call.xid ^= 0x0100_0000;
        scene.exchange(&exchange);
        let found = findings(&scene.frames());
        assert_eq!(broken_rules(&found, ""), BTreeSet::from(["rpcrdma/xid-mismatch"]), "{:#?}", describe(&found));
        assert!(found.iter().all(|finding| finding.side == EndpointRole::Client), "{:#?}", describe(&found));
    }
}

#[test]
fn a_request_that_is_too_big_is_of_the_client() {
    for kind in BOTH {
        let mut sent = 0;
        let finding = only("nfs/too-big", Scene::new(*kind), |scene| {
            let mut create = Operation::create_session();
            // ca_maxrequestsize of the fore channel.
            if let Some((_, result)) = &mut create.result {
                result[7] = 84;
            }
            scene.compound(&Compound::new(2, &[create]));
            sent = next_frame(scene);
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 1)]));
        });
        assert_eq!((finding.side, frames(&finding)), (EndpointRole::Client, vec![sent]));
    }
}

#[test]
fn a_finding_of_the_client_shows_the_call() {
    for kind in BOTH {
        let mut sent = 0;
        let finding = only("rpcrdma/chunk-too-small", Scene::new(*kind), |scene| {
            let mut exchange = Exchange::read3(scene.xid(), 1024, 512);
            exchange.call.writes[0][0].length = 512;
            sent = next_frame(scene);
            scene.exchange(&exchange);
        });
        assert_eq!((finding.side, frames(&finding)), (EndpointRole::Client, vec![sent]));
        assert_eq!(finding.time, frame_time(sent));
    }
}

#[test]
fn a_finding_about_the_set_up_shows_its_messages() {
    let reserved = Some(Private { flags: 0x81, ..Private::USUAL });
    for kind in BOTH {
        // Over iWARP, two segments of the TCP handshake come first.
        let request = if *kind == Kind::Roce { 1 } else { 3 };
        for (rule, private, side, frame) in [
            ("rpcrdma/private-reserved", [reserved, Some(Private::USUAL)], EndpointRole::Client, request),
            ("rpcrdma/private-reserved", [Some(Private::USUAL), reserved], EndpointRole::Server, request + 1),
            ("rpcrdma/private-none", [Some(Private::USUAL), None], EndpointRole::Server, request + 1),
        ] {
            let finding = only(rule, Scene::with_private_data(*kind, private), |_| {});
            assert_eq!((finding.side, frames(&finding)), (side, vec![frame]), "{rule}");
            assert_eq!(finding.time, frame_time(frame));
        }
    }
}

#[test]
fn a_high_limit_is_a_warning_and_a_high_slot_an_error() {
    for (slot, severity) in [(0, ReportedFindingSeverity::Warning), (4, ReportedFindingSeverity::Error)] {
        let finding = only("nfs/slot-range", Scene::new(Kind::Roce), |scene| {
            scene.session();
            let mut sequence = Operation::sequence(slot, if slot == 0 { 2 } else { 1 });
            // sa_highest_slotid; the session has slots 0 to 3.
            sequence.arguments[6] = 4;
            scene.compound(&Compound::new(2, &[sequence]));
        });
        assert_eq!(finding.severity, severity, "slot {slot}");
    }
}

#[test]
fn the_finding_of_a_connection_has_the_worst_values_and_the_tally() {
    for kind in BOTH {
        let finding = only("perf/read-chunk-for-small", Scene::new(*kind), |scene| {
            // The last one does not fit into a Send of 4,096 bytes.
            for length in [100, 1000, 200, 5000] {
                let read = Exchange::read3(scene.xid(), length, length);
                scene.exchange(&read);
            }
        });
        assert_eq!(finding.count, 3);
        let expected = "3 of 4 messages with 1300 bytes in chunks would have fitted inline; at most 1000 bytes in a chunk: \
            inline, the Send would have";
        assert!(finding.text.starts_with(expected), "{}", finding.text);
    }
}

#[test]
fn the_share_of_time_with_all_credits_in_use_is_that_at_the_end() {
    let finding = only("rpcrdma/credits-all-used", Scene::new(Kind::Roce), |scene| {
        let mut first = Exchange::getattr3(scene.xid());
        first.reply.credits = 2;
        scene.exchange(&first);
        for _ in 0..20 {
            let [mut one, mut two] = [(); 2].map(|()| Exchange::getattr3(scene.xid()));
            (one.reply.credits, two.reply.credits) = (2, 2);
            scene.call(&one);
            scene.call(&two);
            scene.reply(&one);
            scene.reply(&two);
        }
    });
    // One of four frames, each 2 ms: between the second Call and the first Reply.
    let share = finding.text.strip_prefix("all of 2 credits used for ").unwrap();
    let share: f64 = share.strip_suffix("% of the time").unwrap().parse().unwrap();
    assert!((22.0..28.0).contains(&share), "{}", finding.text);
}

#[test]
fn one_wrong_sequence_id_is_one_finding() {
    let mut scene = Scene::new(Kind::Roce);
    scene.session();
    // The server accepts 4 in the place of 2; the client goes on with 3.
    for id in [4, 3, 4] {
        scene.compound(&Compound::new(2, &[Operation::sequence(0, id)]));
    }
    let found = findings(&scene.frames());
    let errors: Vec<&str> = { found.iter().filter(|finding| finding.severity == ReportedFindingSeverity::Error) }
        .map(|finding| finding.rule.id)
        .collect();
    assert_eq!(errors, ["nfs/slot-gap", "nfs/gap-accepted"], "{:#?}", describe(&found));
}

/// Returns the rules with findings above info that a conversation with a session breaks.
fn faults(conversation: impl FnOnce(&mut Scene)) -> Vec<&'static str> {
    let mut scene = Scene::new(Kind::Roce);
    scene.session();
    conversation(&mut scene);
    let found = findings(&scene.frames());
    let faults = found.iter().filter(|finding| finding.severity > ReportedFindingSeverity::Known);
    faults.map(|finding| finding.rule.id).collect()
}

#[test]
fn one_wrong_limit_of_slots_is_one_finding() {
    let found = faults(|scene| {
        let mut sequence = Operation::sequence(0, 2);
        // sa_highest_slotid; sr_highest_slotid is 3.
        sequence.arguments[6] = 500;
        scene.compound(&Compound::new(2, &[sequence]));
    });
    assert_eq!(found, ["nfs/slot-range"]);
}

#[test]
fn one_wrong_slot_is_one_finding() {
    let found = faults(|scene| {
        for id in 2..6 {
            scene.compound(&Compound::new(2, &[Operation::sequence(0, id)]));
        }
        let mut sequence = Operation::sequence(0, 6);
        // sa_slotid and sa_highest_slotid.
        (sequence.arguments[5], sequence.arguments[6]) = (300, 300);
        // NFS4ERR_BADSLOT.
        scene.compound(&Compound::new(2, &[sequence.failed(10053)]));
    });
    assert_eq!(found, ["nfs/slot-range"]);
}

#[test]
fn a_wrong_returned_length_is_no_fault_of_the_session() {
    let found = faults(|scene| {
        let request = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh()]);
        let mut exchange = request.exchange(scene.xid()).long_reply(2048);
        exchange.reply.reply.as_mut().unwrap()[0].length = 10_000_000;
        scene.exchange(&exchange);
    });
    assert!(found.contains(&"rpcrdma/returned-too-much"), "{found:?}");
    assert!(!found.iter().any(|rule| rule.starts_with("nfs/")), "{found:?}");
}

#[test]
fn a_wrong_credential_length_is_no_fault_of_the_results() {
    let found = faults(|scene| {
        let request = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh()]);
        let mut exchange = request.exchange(scene.xid());
        // Behind XID, direction, RPC version, program, version, procedure and flavor. RFC 5531 section 9.
        assert_eq!(exchange.call.rpc[28..32], [0; 4]);
        exchange.call.rpc[31] = 4;
        scene.exchange(&exchange);
    });
    assert!(!found.iter().any(|rule| rule.starts_with("nfs/")), "{found:?}");
}

#[test]
fn the_finding_of_a_repeated_complex_call_mentions_the_error() {
    let mut scene = Scene::new(Kind::Roce);
    scene.session();
    for _ in 0..2 {
        let xid = scene.xid();
        let mut exchange = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh()]).exchange(xid);
        exchange.call.writes = vec![vec![memory(xid, 0, 64)], vec![memory(xid, 1, 64)]];
        scene.exchange(&exchange.refused());
    }
    let found = findings(&scene.frames());
    let of_rule: Vec<&str> = { found.iter().filter(|finding| finding.rule.id == "rpcrdma/too-complex") }
        .map(|finding| finding.text.as_str())
        .collect();
    let text = "0 Read chunks, 2 Write chunks, up to 1 segment in a chunk";
    assert_eq!(of_rule, [text.to_owned(), format!("{text}; sent again after an error")]);
}

/// Fields that findings of rules name: -V shows a finding below its field.
const FIELDS: &[(&str, &str)] = &[
    ("nfs/slot-first", "nfs.seqid"),
    ("nfs/slot-gap", "nfs.seqid"),
    ("nfs/gap-accepted", "nfs.seqid"),
    ("nfs/slot-busy", "nfs.slotid"),
    ("nfs/sequence-echo", "nfs.slotid"),
    ("nfs/false-retry", "nfs.seqid"),
    ("nfs/enforced-slot", "nfs.high_slotid"),
    ("nfs/highest-slot", "nfs.slotid"),
    ("nfs/minor-version", "nfs.minorversion"),
    ("nfs/tag", "nfs.tag"),
    ("nfs/write-count", "nfs.count4"),
    ("rpcrdma/returned-too-much", "rpcordma.rdma_offset"),
    ("rpcrdma/returned-not-in-order", "rpcordma.rdma_offset"),
    ("rpcrdma/chunk-too-small", "rpcordma.rdma_offset"),
    ("rpcrdma/ranges-overlap", "rpcordma.rdma_handle"),
    ("rpcrdma/reply-chunk-in-msg", "rpcordma.reply"),
    ("rpcrdma/empty-not-kept", "rpcordma.rdma_offset"),
    ("rpc/resent-here", "rpcordma.xid"),
];

/// RFC 8166 section 3.4.5: the finding is about the second of two Positions.
#[test]
fn finding_has_the_value_of_its_field() {
    let mut scene = Scene::new(Kind::Roce);
    let mut exchange = Exchange::write3(scene.xid(), 1000);
    exchange.call.reads.push((1080, memory(exchange.call.xid, 1, 64)));
    scene.exchange(&exchange);
    let found = findings(&scene.frames());
    let stray = found.iter().find(|finding| finding.rule.id == "rpcrdma/position-no-item").unwrap();
    assert_eq!((stray.field, stray.value), (Some("rpcordma.position"), Some(1080)));
}

/// RFC 6581 section 6, RFC 5044 section 7.1.1.
#[test]
fn reply_with_the_s_bit_names_both_revisions() {
    for (revision, text) in [
        (0, "reply of revision 0 to a request of revision 1, but the S bit needs revision 2"),
        (1, "revision 1, but the S bit needs revision 2"),
    ] {
        let mut scene = Scene::with_private_data(Kind::Iwarp, [Some(Private::USUAL); 2]);
        // Behind SYN, SYN with ACK and the MPA Request; the payload of a TCP segment begins at byte 54.
        let reply = &mut scene.fabric.frames[3][54..];
        (reply[16], reply[17]) = (reply[16] | 0x10, revision);
        let first = Exchange::getattr3(scene.xid());
        scene.exchange(&first);
        let found = findings(&scene.frames());
        let startup = found.iter().find(|finding| finding.rule.id == "rdmap/startup").unwrap();
        assert_eq!((startup.text.as_str(), startup.side), (text, EndpointRole::Server));
    }
}

#[test]
fn findings_name_fields_of_the_decoder() {
    let registry = nfsrdma_dissectors::catalog::all_fields();
    let known: Vec<&str> = registry.fields().map(|(name, _)| name).collect();
    for pair in pairs() {
        let mut scene = Scene::new(pair.kinds[0]);
        (pair.conversation)(&mut scene, true);
        let found = findings(&scene.frames());
        for finding in found.iter().filter(|finding| finding.rule.id == pair.rule) {
            assert!(finding.field.is_none_or(|field| known.contains(&field)), "{:?}", finding.field);
            if let Some((rule, field)) = FIELDS.iter().find(|(rule, _)| *rule == pair.rule) {
                assert_eq!(finding.field, Some(*field), "{rule}");
            }
        }
    }
    assert!(FIELDS.iter().all(|(rule, _)| pairs().iter().any(|pair| pair.rule == *rule)));
}
