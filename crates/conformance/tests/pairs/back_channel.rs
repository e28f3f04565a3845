//! Pairs of the rules about sessions and COMPOUNDs that judge CB_COMPOUND, too. The server is the Requester.

use nfsrdma_conformance::Finding;
use nfsrdma_flow::transaction::EndpointRole;

use crate::callbacks::reverse;
use crate::exchange::{Compound, Operation};
use crate::scene::Scene;
use crate::sessions::set_result;
use crate::{BOTH, Pair, describe, findings};

/// NFS4ERR_SEQ_MISORDERED. RFC 8881 section 15.1.
const MISORDERED: u32 = 10063;

/// Returns a CB_COMPOUND with CB_RECALL_ANY behind this CB_SEQUENCE.
fn recall(sequence: Operation) -> Compound {
    Compound::new(2, &[sequence, Operation::cb_recall_any()])
}

/// Sends a CB_COMPOUND and its Reply.
fn callback(scene: &mut Scene, compound: &Compound) {
    let exchange = compound.callback(scene.xid());
    reverse(scene, &exchange);
}

/// Creates a session, and sends a CB_COMPOUND that `change` alters.
fn changed_callback(scene: &mut Scene, change: impl FnOnce(&mut Compound)) {
    scene.session();
    let mut compound = recall(Operation::cb_sequence(0, 1));
    change(&mut compound);
    callback(scene, &compound);
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "nfs/sequence-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                if broken {
                    // NFS4ERR_OP_NOT_IN_SESSION.
                    compound.operations = vec![Operation::cb_recall_any().failed(10071)];
                }
            });
        },
    },
    Pair {
        rule: "nfs/sequence-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                if broken {
                    // NFS4ERR_SEQUENCE_POS.
                    compound.operations[1] = Operation::cb_sequence(0, 2).failed(10064);
                }
            });
        },
    },
    // csr_slotid.
    Pair {
        rule: "nfs/sequence-echo",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                set_result(&mut compound.operations[0], 5, u32::from(broken));
            });
        },
    },
    Pair {
        rule: "nfs/slot-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let first = Operation::cb_sequence(0, if broken { 2 } else { 1 });
            let first = if broken { first.failed(MISORDERED) } else { first };
            callback(scene, &Compound::new(2, &[first]));
        },
    },
    Pair {
        rule: "nfs/slot-gap",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |_| {});
            let next = Operation::cb_sequence(0, if broken { 3 } else { 2 });
            let next = if broken { next.failed(MISORDERED) } else { next };
            callback(scene, &Compound::new(2, &[next]));
        },
    },
    Pair {
        rule: "nfs/retry-here",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |_| {});
            callback(scene, &recall(Operation::cb_sequence(0, if broken { 1 } else { 2 })));
        },
    },
    // RFC 8881 section 20.9.3: a CB_SEQUENCE that failed did not use the slot.
    Pair {
        rule: "nfs/retry-here",
        kinds: BOTH,
        conversation: |scene, broken| {
            let first = Operation::cb_sequence(0, 1);
            // NFS4ERR_DELAY.
            let sequence = if broken { first } else { first.failed(10008) };
            let last = Operation::cb_recall_any();
            let last = if broken { last } else { last.not_reached() };
            changed_callback(scene, |compound| compound.operations = vec![sequence, last]);
            callback(scene, &recall(Operation::cb_sequence(0, 1)));
        },
    },
    Pair {
        rule: "nfs/slot-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            // ca_maxrequests of the back channel is 1. NFS4ERR_BADSLOT.
            let sequence = Operation::cb_sequence(u32::from(broken), 1);
            let sequence = if broken { sequence.failed(10053) } else { sequence };
            callback(scene, &Compound::new(2, &[sequence]));
        },
    },
    Pair {
        rule: "nfs/enforced-slot",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut sequence = Operation::cb_sequence(1, 1);
            // csr_highest_slotid.
            set_result(&mut sequence, 6, u32::from(!broken));
            // The session of an earlier connection.
            scene.accepted.push("nfs/cb-before-session");
            callback(scene, &Compound::new(2, &[sequence]));
        },
    },
    Pair {
        rule: "nfs/minor-version",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| compound.minor_version = if broken { 1 } else { 2 });
        },
    },
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                // ca_maxoperations of the back channel is 8.
                compound.operations.resize(if broken { 9 } else { 8 }, Operation::cb_recall_any());
            });
        },
    },
    Pair {
        rule: "nfs/compound-status",
        kinds: BOTH,
        conversation: |scene, broken| {
            // NFS4ERR_IO.
            changed_callback(scene, |compound| compound.status = broken.then_some(5));
        },
    },
    Pair {
        rule: "nfs/result-after-failure",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                compound.operations.push(Operation::cb_recall_any());
                if broken {
                    // NFS4ERR_INVAL.
                    compound.operations[1] = Operation::cb_recall_any().failed(22);
                }
            });
        },
    },
    Pair {
        rule: "nfs/result-count",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let xid = scene.xid();
            let mut exchange = recall(Operation::cb_sequence(0, 1)).callback(xid);
            if broken {
                exchange.call = Compound::new(2, &[Operation::cb_sequence(0, 1)]).callback(xid).call;
            }
            reverse(scene, &exchange);
        },
    },
    Pair {
        rule: "nfs/result-operation",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                // CB_RECALLABLE_OBJ_AVAIL.
                compound.operations[1].result_number = if broken { 9 } else { 8 };
            });
        },
    },
    Pair {
        rule: "nfs/tag",
        kinds: BOTH,
        conversation: |scene, broken| {
            changed_callback(scene, |compound| {
                compound.reply_tag = if broken { b"other".to_vec() } else { Vec::new() };
            });
        },
    },
];

/// Words of the results of CB_SEQUENCE that echo an argument, with the text of the finding if they are 77.
const ECHOES: [(usize, &str); 3] = [
    (0, "csr_sessionid differs from csa_sessionid"),
    (4, "csr_sequenceid 77, csa_sequenceid 1"),
    (5, "csr_slotid 77, csa_slotid 0"),
];

#[test]
fn the_client_echoes_cb_sequence() {
    for kind in BOTH {
        for (at, text) in ECHOES {
            let mut scene = Scene::new(*kind);
            changed_callback(&mut scene, |compound| set_result(&mut compound.operations[0], at, 77));
            let found = findings(&scene.frames());
            let echoes: Vec<_> = found.iter().filter(|finding| finding.rule.id == "nfs/sequence-echo").collect();
            assert_eq!(echoes.len(), 1, "{text}: {:#?}", describe(&found));
            assert_eq!((echoes[0].text.as_str(), echoes[0].side), (text, EndpointRole::Client));
        }
    }
}

/// Rules that the server breaks in a callback; the client breaks the others.
const BY_SERVER: [&str; 6] =
    ["nfs/sequence-first", "nfs/slot-first", "nfs/slot-gap", "nfs/retry-here", "nfs/slot-range", "nfs/minor-version"];

#[test]
fn the_server_is_the_requester_of_a_callback() {
    for pair in PAIRS {
        for kind in pair.kinds {
            let mut scene = Scene::new(*kind);
            (pair.conversation)(&mut scene, true);
            let found = findings(&scene.frames());
            let finding = found.iter().find(|finding| finding.rule.id == pair.rule).unwrap();
            let is_by_server = BY_SERVER.contains(&pair.rule);
            let side = if is_by_server { EndpointRole::Server } else { EndpointRole::Client };
            assert_eq!(finding.side, side, "{}", pair.rule);
        }
    }
}

/// A callback on a slot whose earlier uses may be missing from the capture.
#[test]
fn a_lost_callback_is_no_gap() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        changed_callback(&mut scene, |_| {});
        let first = scene.fabric.frames.len();
        callback(&mut scene, &recall(Operation::cb_sequence(0, 2)));
        let lost = first..scene.fabric.frames.len();
        callback(&mut scene, &recall(Operation::cb_sequence(0, 3)));
        let mut frames = scene.frames();
        frames.drain(lost);
        let found = findings(&frames);
        let is_of_slots = |finding: &&Finding| finding.rule.id.starts_with("nfs/");
        assert_eq!(found.iter().filter(is_of_slots).count(), 0, "{:#?}", describe(&found));
    }
}
