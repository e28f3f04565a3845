//! Side, severity, frames, field and text of single findings.

use nfsrdma_conformance::{Finding, SeverityLevel};
use nfsrdma_dissectors::flow::transaction::ConnectionRole;

use crate::callbacks::{cb_null, open_backchannel, reverse};
use crate::exchange::{Compound, Operation};
use crate::fabric::Side;
use crate::scene::Scene;
use crate::{BOTH, describe, findings};

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
