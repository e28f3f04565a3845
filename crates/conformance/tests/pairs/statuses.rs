//! Agreement of the status of a Transaction with the findings about its results.

use nfsrdma_flow::transaction::EndpointRole;

use crate::exchange::{Compound, Operation};
use crate::refusals::missing;
use crate::scene::Scene;
use crate::{BOTH, broken_rules, findings, pairs};

/// Rules with errors about the results of a Reply. Errors of other rules concern a Call, the transport, the placement of
/// data, or other Transactions: the results are those that the Call asked for.
const OF_RESULTS: &[&str] = &[
    "nfs/compound-status",
    "nfs/copy-stateid",
    "nfs/read-count",
    "nfs/read-plus",
    "nfs/result-after-failure",
    "nfs/result-count",
    "nfs/result-operation",
    "nfs/sequence-echo",
    "nfs/session-attrs",
    "nfs/unrequested-attrs",
    "nfs/write-committed",
    "nfs/write-count",
    "rpc/wrong-result",
    "rpcrdma/returned-too-much",
];

/// Rules whose violation leaves results that cannot be decoded.
const OF_FORM: &[&str] = &["nfs/not-eligible", "rpcrdma/long-roundup", "rpcrdma/roundup-left"];

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
                    rule if OF_FORM.contains(&rule) => broken || !has_wrong_result,
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
