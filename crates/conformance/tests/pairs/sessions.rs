//! Pairs of the rules in `rules/sessions.rs` and `rules/session_limits.rs`.

use crate::exchange::{Compound, Exchange, Operation};
use crate::scene::Scene;
use crate::{BOTH, Pair, broken_rules, describe, findings};

/// NFS4ERR_SEQ_MISORDERED. RFC 8881 section 15.1.
const MISORDERED: u32 = 10063;

/// Sends a SEQUENCE alone.
pub(crate) fn sequence(scene: &mut Scene, slot: u32, sequence_id: u32) {
    scene.compound(&Compound::new(2, &[Operation::sequence(slot, sequence_id)]));
}

/// Returns a COMPOUND that asks for access to the root.
pub(crate) fn access(sequence: Operation, granted: u32) -> Compound {
    Compound::new(2, &[sequence, Operation::putrootfh(), Operation::access(granted)])
}

/// Changes a word of a result.
pub(crate) fn set_result(operation: &mut Operation, at: usize, word: u32) {
    if let Some((_, result)) = &mut operation.result {
        result[at] = word;
    }
}

/// Sends CREATE_SESSION with a word of its result changed, and a SEQUENCE with sa_cachethis. The words of the fore
/// channel begin at 6, those of the back channel at 13.
fn session_with(scene: &mut Scene, at: usize, word: u32) {
    let mut create = Operation::create_session();
    set_result(&mut create, at, word);
    scene.compound(&Compound::new(2, &[create]));
    let mut sequence = Operation::sequence(0, 1);
    sequence.arguments[7] = 1;
    scene.compound(&Compound::new(2, &[sequence]));
}

/// Sends a COMPOUND on another connection.
pub(crate) fn retry(scene: &mut Scene, compound: &Compound) {
    let mut other = scene.second_connection();
    scene.on(&mut other, |other| other.compound(compound));
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "nfs/sequence-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut compound = access(Operation::sequence(0, 2), 1);
            if broken {
                compound.operations.remove(0);
            }
            scene.compound(&compound);
        },
    },
    Pair {
        rule: "nfs/sequence-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let last = Operation::sequence(0, if broken { 3 } else { 2 });
            let mut operations = vec![last, Operation::putrootfh()];
            if broken {
                // NFS4ERR_SEQUENCE_POS.
                operations = vec![Operation::sequence(0, 2), Operation::sequence(0, 3).failed(10064)];
            }
            scene.compound(&Compound::new(2, &operations));
        },
    },
    Pair {
        rule: "nfs/sequence-echo",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut sequence = Operation::sequence(0, 2);
            // sr_slotid.
            set_result(&mut sequence, 5, u32::from(broken));
            scene.compound(&access(sequence, 1));
        },
    },
    Pair {
        rule: "nfs/slot-first",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let first = Operation::sequence(1, if broken { 2 } else { 1 });
            scene.compound(&Compound::new(2, &[if broken { first.failed(MISORDERED) } else { first }]));
        },
    },
    Pair {
        rule: "nfs/gap-accepted",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            scene.accepted.extend(broken.then_some("nfs/slot-first"));
            sequence(scene, 1, if broken { 2 } else { 1 });
        },
    },
    Pair {
        rule: "nfs/slot-gap",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            sequence(scene, 0, 2);
            let next = Operation::sequence(0, if broken { 4 } else { 3 });
            scene.compound(&Compound::new(2, &[if broken { next.failed(MISORDERED) } else { next }]));
        },
    },
    Pair {
        rule: "nfs/gap-accepted",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            scene.accepted.extend(broken.then_some("nfs/slot-gap"));
            sequence(scene, 0, 2);
            sequence(scene, 0, if broken { 4 } else { 3 });
        },
    },
    // Only GARBAGE_ARGS proves that the server did not execute the Call.
    Pair {
        rule: "nfs/slot-gap",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            scene.accepted.extend(broken.then_some("nfs/gap-accepted"));
            let failed = access(Operation::sequence(0, 2), 1).exchange(scene.xid());
            let failed = if broken { failed.garbage_args() } else { failed.refused() };
            scene.exchange(&failed);
            sequence(scene, 0, 3);
        },
    },
    // RFC 8267 section 3.1: a Call that was answered ERR_CHUNK may come again.
    Pair {
        rule: "nfs/retry-here",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let request = access(Operation::sequence(0, 2), 1);
            let first = request.exchange(scene.xid());
            scene.exchange(&if broken { first } else { first.refused() });
            scene.compound(&request);
        },
    },
    Pair {
        rule: "nfs/slot-busy",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let first = access(Operation::sequence(0, 2), 1).exchange(scene.xid());
            let second = access(Operation::sequence(0, 3), 1).exchange(scene.xid());
            scene.call(&first);
            if broken {
                scene.call(&second);
                // Time passes between the second Call and the first Reply.
                let other = Exchange::getattr3(scene.xid());
                scene.exchange(&other);
                scene.reply(&first);
            } else {
                scene.reply(&first);
                scene.call(&second);
            }
            scene.reply(&second);
        },
    },
    Pair {
        rule: "nfs/slot-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let slot = if broken { 4 } else { 3 };
            let mut sequence = Operation::sequence(slot, 1);
            // sa_highest_slotid.
            sequence.arguments[6] = slot;
            // NFS4ERR_BADSLOT.
            scene.compound(&Compound::new(2, &[if broken { sequence.failed(10053) } else { sequence }]));
        },
    },
    Pair {
        rule: "nfs/slot-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut sequence = Operation::sequence(1, 1);
            sequence.arguments[6] = u32::from(!broken);
            scene.compound(&Compound::new(2, &[sequence]));
        },
    },
    Pair {
        rule: "nfs/slot-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut sequence = Operation::sequence(0, 2);
            let highest = if broken { 4 } else { 3 };
            sequence.arguments[6] = highest;
            // sr_highest_slotid.
            set_result(&mut sequence, 6, highest);
            scene.compound(&Compound::new(2, &[sequence]));
        },
    },
    Pair {
        rule: "nfs/enforced-slot",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut sequence = Operation::sequence(0, 1);
            // sr_highest_slotid.
            set_result(&mut sequence, 6, if broken { 2 } else { 3 });
            scene.compound(&Compound::new(2, &[sequence]));
        },
    },
    Pair {
        rule: "nfs/minor-version",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let minor_version = if broken { 1 } else { 2 };
            scene.compound(&Compound::new(minor_version, &[Operation::sequence(0, 2)]));
        },
    },
    Pair {
        rule: "nfs/false-retry",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            scene.compound(&access(Operation::sequence(0, 2), 1));
            let mut again = access(Operation::sequence(0, 2), 1);
            if broken {
                again.operations[2].arguments = vec![1];
            }
            retry(scene, &again);
        },
    },
    // The session is older than the capture.
    Pair {
        rule: "nfs/false-retry",
        kinds: BOTH,
        conversation: |scene, broken| {
            let request = access(Operation::sequence(3, 77), 1);
            scene.compound(&request);
            let mut again = request.clone();
            if broken {
                again.operations[2].arguments = vec![1];
            }
            scene.compound(&again);
        },
    },
    Pair {
        rule: "nfs/retry-here",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let request = access(Operation::sequence(0, 2), 1);
            scene.compound(&request);
            match broken {
                true => scene.compound(&request),
                false => retry(scene, &request),
            }
        },
    },
    Pair {
        rule: "nfs/replay-wrong",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            scene.compound(&access(Operation::sequence(0, 2), 1));
            retry(scene, &access(Operation::sequence(0, 2), if broken { 3 } else { 1 }));
        },
    },
    Pair {
        rule: "nfs/replay-wrong",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut sequence = Operation::sequence(0, 2);
            // sa_cachethis.
            sequence.arguments[7] = u32::from(broken);
            scene.compound(&access(sequence.clone(), 1));
            let mut again = access(sequence, 1);
            // NFS4ERR_RETRY_UNCACHED_REP.
            again.operations[1] = Operation::putrootfh().failed(10068);
            again.operations[2] = Operation::access(1).not_reached();
            retry(scene, &again);
        },
    },
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut operations = vec![Operation::sequence(0, 2)];
            // ca_maxoperations is 8.
            operations.resize(if broken { 9 } else { 8 }, Operation::putrootfh());
            scene.compound(&Compound::new(2, &operations));
        },
    },
    // ca_maxoperations of the fore channel. RFC 8881 section 18.36.3 has no exception for zero.
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 10, u32::from(!broken)),
    },
    // A SEQUENCE takes 88 bytes, its results 80.
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 7, if broken { 84 } else { 88 }),
    },
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 8, if broken { 76 } else { 80 }),
    },
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 9, if broken { 76 } else { 80 }),
    },
    // A COMPOUND that fails with another error may have failed before its size mattered.
    Pair {
        rule: "nfs/too-big",
        kinds: BOTH,
        conversation: |scene, broken| {
            session_with(scene, 7, 88);
            let mut request = access(Operation::sequence(0, 2), 1);
            if !broken {
                // NFS4ERR_ACCESS.
                request.operations[2] = Operation::access(1).failed(13);
            }
            scene.compound(&request);
        },
    },
    // ca_maxrequestsize of the fore channel.
    Pair {
        rule: "nfs/session-attrs",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 7, if broken { 8196 } else { 8192 }),
    },
    // ca_maxrequests of the back channel.
    Pair {
        rule: "nfs/session-attrs",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 18, if broken { 2 } else { 1 }),
    },
    // csr_sequence.
    Pair {
        rule: "nfs/session-attrs",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 4, if broken { 2 } else { 1 }),
    },
    // csr_flags: CONN_RDMA, which was not asked for.
    Pair {
        rule: "nfs/session-attrs",
        kinds: BOTH,
        conversation: |scene, broken| session_with(scene, 5, if broken { 6 } else { 2 }),
    },
    Pair {
        rule: "nfs/highest-slot",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            for id in 2..6 {
                let mut sequence = Operation::sequence(0, id);
                // sr_target_highest_slotid.
                set_result(&mut sequence, 7, 0);
                scene.compound(&Compound::new(2, &[sequence]));
            }
            let slot = u32::from(broken);
            sequence(scene, slot, if broken { 1 } else { 6 });
        },
    },
    Pair {
        rule: "nfs/backchannel-down",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let mut sequence = Operation::sequence(0, 2);
            // sr_status_flags: CB_PATH_DOWN; LEASE_MOVED.
            set_result(&mut sequence, 8, if broken { 0x1 } else { 0x80 });
            scene.compound(&Compound::new(2, &[sequence]));
        },
    },
];

/// RFC 8881 section 16.2.3: a server that does not know a minor version returns NFS4ERR_MINOR_VERS_MISMATCH (10021),
/// without results. Nothing is known about the operations of minor version 3.
#[test]
fn sequence_is_required_in_minor_versions_1_and_2_only() {
    for (minor_version, is_broken) in [(0, false), (1, true), (2, true), (3, false)] {
        for kind in BOTH {
            let mut scene = Scene::new(*kind);
            let mut compound = Compound::new(minor_version, &[Operation::putrootfh().not_reached()]);
            compound.status = Some(10021);
            scene.compound(&compound);
            let found = findings(&scene.frames());
            let has_finding = broken_rules(&found, "").contains("nfs/sequence-first");
            assert_eq!(has_finding, is_broken, "{kind:?} {minor_version}: {:#?}", describe(&found));
        }
    }
}

/// RFC 8881 section 2.10.6.1: a server that lowered its highest slot may retire the slots above it. Granted again, they
/// begin with sequence ID 1, or continue.
#[test]
fn a_slot_that_the_server_may_have_retired_has_any_sequence_id() {
    for kind in BOTH {
        // sr_highest_slotid and sr_target_highest_slotid; the session has slots 0 to 3.
        for (highest, next) in [([0, 0], 1), ([3, 0], 1), ([0, 0], 2), ([3, 3], 1)] {
            let is_retired = highest != [3, 3];
            let mut scene = Scene::new(*kind);
            scene.session();
            let request = access(Operation::sequence(1, 1), 1);
            scene.compound(&request);
            let mut lowered = Operation::sequence(0, 2);
            if is_retired {
                // sa_highest_slotid.
                lowered.arguments[6] = 0;
                set_result(&mut lowered, 6, highest[0]);
                set_result(&mut lowered, 7, highest[1]);
            }
            scene.compound(&Compound::new(2, &[lowered]));
            sequence(&mut scene, 0, 3);
            scene.compound(&access(Operation::sequence(1, next), 1));
            let found = findings(&scene.frames());
            let broken: Vec<_> = broken_rules(&found, "").into_iter().collect();
            let expected: &[&str] = if is_retired { &[] } else { &["nfs/retry-here"] };
            assert_eq!(broken, expected, "{kind:?} {highest:?} {next}: {:#?}", describe(&found));
        }
    }
}
