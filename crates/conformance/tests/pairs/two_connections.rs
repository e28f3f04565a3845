//! One session on two connections between the same hosts. RFC 8881 section 2.10.3.

use crate::callbacks::reverse;
use crate::exchange::{Compound, Exchange, Operation, rpc_call, rpc_reply};
use crate::fabric::Kind;
use crate::scene::Scene;
use crate::sessions::sequence;
use crate::{BOTH, broken_rules, describe, findings};

const NFS: u32 = 100_003;

/// Binding of the second connection to the session. RFC 8881 sections 2.10.3.1 and 18.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    /// BIND_CONN_TO_SESSION.
    Explicit,
    /// SEQUENCE.
    Implicit,
}

/// Returns the frames of two connections that use one slot of each channel in turn, after CREATE_SESSION on the first
/// one.
fn alternate(kind: Kind, binding: Binding) -> Vec<Vec<u8>> {
    let mut scene = Scene::new(kind);
    scene.compound(&Compound::new(2, &[Operation::create_session()]));
    let mut other = scene.second_connection();
    let xid = other.xid();
    let null = Exchange::new(xid, rpc_call(xid, NFS, 4, 0), rpc_reply(xid));
    scene.on(&mut other, |other| other.exchange(&null));
    if binding == Binding::Explicit {
        let bind = Compound::new(2, &[Operation::bind_conn_to_session()]);
        scene.on(&mut other, |other| other.compound(&bind));
    }
    let recall = |scene: &mut Scene, id| {
        let sequence = Operation::cb_sequence(0, id);
        let exchange = Compound::new(2, &[sequence, Operation::cb_recall_any()]).callback(scene.xid());
        reverse(scene, &exchange);
    };
    // The second connection has the odd sequence IDs of the fore channel: the first one of the slot, too.
    for id in (1..9).step_by(2) {
        scene.on(&mut other, |other| sequence(other, 0, id));
        sequence(&mut scene, 0, id + 1);
        recall(&mut scene, id);
        match binding {
            Binding::Explicit => scene.on(&mut other, |other| recall(other, id + 1)),
            Binding::Implicit => recall(&mut scene, id + 1),
        }
    }
    let last = Exchange::getattr3(other.xid());
    scene.on(&mut other, |other| other.exchange(&last));
    scene.frames()
}

#[test]
fn a_lost_packet_of_one_connection_breaks_no_rule_on_the_other() {
    let mut failures = Vec::new();
    for kind in BOTH {
        for binding in [Binding::Explicit, Binding::Implicit] {
            let frames = alternate(*kind, binding);
            let whole = broken_rules(&findings(&frames), "");
            assert!(whole.is_empty(), "{kind:?} {binding:?}: {whole:?}");
            for dropped in 0..frames.len() {
                let mut rest = frames.clone();
                rest.remove(dropped);
                let found = findings(&rest);
                let is_bad = |rule: &&str| !rule.starts_with("transport/");
                if broken_rules(&found, "").iter().any(is_bad) {
                    failures.push(format!("{kind:?} {binding:?} {dropped}: {:#?}", describe(&found)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_session_is_judged_on_the_connection_that_replaces_a_lost_one() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        scene.session();
        let unanswered = Compound::new(2, &[Operation::sequence(0, 2)]);
        let lost = unanswered.exchange(scene.xid());
        scene.call(&lost);
        scene.disconnect();
        let mut other = Scene::with_number(*kind, [Some(crate::scene::Private::USUAL); 2], 1);
        std::mem::swap(&mut scene.fabric.frames, &mut other.fabric.frames);
        let set_up = std::mem::take(&mut scene.fabric.frames);
        other.fabric.frames.extend(set_up);
        other.compound(&unanswered);
        for id in 3..5 {
            sequence(&mut other, 0, id);
        }
        sequence(&mut other, 0, 6);
        let found = findings(&other.frames());
        assert!(broken_rules(&found, "").contains("nfs/slot-gap"), "{kind:?}: {:#?}", describe(&found));
    }
}
