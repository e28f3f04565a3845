//! Side, severity, frames, field and text of single findings.

use nfsrdma_conformance::{Finding, SeverityLevel};
use nfsrdma_dissectors::flow::transaction::ConnectionRole;

use crate::callbacks::{cb_null, open_backchannel, reverse};
use crate::exchange::{Compound, Exchange, Operation};
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::{BOTH, describe, findings, frame_time};

/// Returns the only finding of a rule in a conversation.
fn only(rule: &str, mut scene: Scene, conversation: impl FnOnce(&mut Scene)) -> Finding {
    conversation(&mut scene);
    let found = findings(&scene.frames());
    let mut of_rule: Vec<&Finding> = found.iter().filter(|finding| finding.rule.id == rule).collect();
    let finding = of_rule.pop().filter(|_| of_rule.is_empty());
    finding.unwrap_or_else(|| panic!("{rule}: {:#?}", describe(&found))).clone()
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
        assert_eq!((finding.severity, finding.side), (SeverityLevel::Error, ConnectionRole::Server));
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
        assert_eq!((finding.side, frames(&finding)), (ConnectionRole::Client, vec![sent]));
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
        assert_eq!((finding.side, frames(&finding)), (ConnectionRole::Client, vec![sent]));
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
            ("rpcrdma/private-reserved", [reserved, Some(Private::USUAL)], ConnectionRole::Client, request),
            (
                "rpcrdma/private-reserved",
                [Some(Private::USUAL), reserved],
                ConnectionRole::Server,
                request + 1,
            ),
            ("rpcrdma/private-none", [Some(Private::USUAL), None], ConnectionRole::Server, request + 1),
        ] {
            let finding = only(rule, Scene::with_private_data(*kind, private), |_| {});
            assert_eq!((finding.side, frames(&finding)), (side, vec![frame]), "{rule}");
            assert_eq!(finding.time, frame_time(frame));
        }
    }
}
