//! `tests/lab/afterwards/conformance.py`, which checks captures of the laboratory against the RFCs: captures of Linux
//! conform, except for one known deviation, and in captures changed on purpose it names the broken rule.

use std::path::Path;
use std::process::{Command, Output};

use crate::captures::{self, Temporary};
use crate::mutations::{Kept, frames};
use crate::skipped::skip_without;
use crate::tunnels::pcap;

/// Returns the output of the script for a capture, or `None` without Python.
fn held(capture: &Path) -> Option<(Output, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/afterwards/conformance.py");
    let run = Command::new("python3")
        .args([Path::new("-S"), &script, Path::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")), capture])
        .output();
    let Ok(output) = run else {
        skip_without("python3");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((output, said))
}

/// Returns the distinct broken rules.
fn broken(said: &str) -> Vec<&str> {
    let names = said.lines().filter_map(|line| line.strip_prefix("ERROR [")?.split(']').next());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the number of checks of a rule.
fn count(said: &str, rule: &str) -> u32 {
    let line = said.lines().find(|line| line.contains(rule)).unwrap_or_else(|| panic!("no rule {rule}: {said}"));
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[test]
fn linux_conforms_except_for_one_known_deviation() {
    // Every transport and version, callbacks, loss, several connections at once.
    for name in ["rxe-v3", "rxe-v42", "rxe-v42-deleg", "rxe-v42-loss", "rxe-v42-conc-head", "siw-v42-crc"] {
        let Some((output, said)) = held(&captures::path(name)) else { return };
        assert!(output.status.success(), "{name}: {said}");
        assert_eq!(broken(&said), [""; 0], "{name}");
        assert!(said.contains("known [announced]"), "{name}: {said}");
        for rule in ["than were granted last", "Write stays in its segment", "Invalidate has a handle of its own call"]
        {
            assert!(count(&said, rule) > 0, "{name}: no check of {rule}");
        }
    }
}

#[test]
fn a_rule_without_checks_is_listed_as_not_checked() {
    let Some((_, said)) = held(&captures::path("rxe-v3")) else { return };
    assert!(said.contains("not checked  RFC 8167 6: a reverse call"), "{said}");
    let Some((_, said)) = held(&captures::path("rxe-v42-deleg")) else { return };
    assert_eq!(count(&said, "RFC 8167 6: a reverse call"), 3);
}

#[test]
fn captures_that_cannot_be_judged_are_refused() {
    for (name, why) in [("rxe-v42-mid", "has not the set-up"), ("tcp-v42", "no connection of RPC-over-RDMA")] {
        let Some((output, said)) = held(&captures::path(name)) else { return };
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

/// Changes `rxe-v42` up to frame 600, and verifies that exactly these rules are broken.
#[track_caller]
fn breaks(rules: &[&str], change: impl FnOnce(&mut Vec<Kept>)) {
    breaks_in("rxe-v42", 600, rules, &[], change);
}

#[track_caller]
fn breaks_in(
    name: &str,
    most: usize,
    rules: &[&str],
    instead: &[(&str, Instead)],
    change: impl FnOnce(&mut Vec<Kept>),
) {
    let mut kept = frames(name);
    kept.truncate(most);
    change(&mut kept);
    let file = Temporary::new(&format!("conformance-{}.pcap", rules.join("-")), &pcap(&kept));
    let Some((output, said)) = held(file.path()) else { return };
    assert_eq!(broken(&said), rules, "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_agrees(file.path(), rules, instead);
}

/// Rules of the script, and the rules of `lint` that state the same requirement.
const COUNTERPARTS: &[(&str, &[&str])] = &[
    ("grant", &["rpcrdma/credit-zero"]),
    ("credits", &["rpcrdma/credit-exceeded", "rpcrdma/credits-reverse", "rpcrdma/credit-zero"]),
    ("first", &["rpcrdma/first-call"]),
    ("threshold", &["rpcrdma/send-too-long"]),
    ("xid", &["rpcrdma/xid-mismatch"]),
    ("version", &["rpcrdma/version"]),
    ("form", &["rpcrdma/proc-unknown", "rpcrdma/msgp", "rpcrdma/done"]),
    ("message", &["rpcrdma/list-broken", "rpcrdma/short-message", "rpcrdma/done"]),
    ("error-sender", &["rpcrdma/error-from-requester"]),
    ("error-call", &["rpcrdma/error-no-call"]),
    ("error-code", &["rpcrdma/error-range"]),
    ("long", &["rpcrdma/nomsg-without-chunk"]),
    ("inline", &["rpcrdma/nomsg-without-chunk"]),
    ("reply-reads", &["rpcrdma/reply-read-list"]),
    ("position", &["rpcrdma/position-unaligned"]),
    ("zero", &["rpcrdma/position-zero"]),
    ("inside", &["rpcrdma/position-no-item"]),
    ("item", &["rpcrdma/item-length"]),
    ("removed", &["rpcrdma/roundup-left"]),
    ("roundup", &["rpcrdma/long-roundup"]),
    ("read-bounds", &["rpcrdma/read-bounds"]),
    ("read-late", &["rpcrdma/read-late"]),
    ("copied", &["rpcrdma/not-copied"]),
    ("returned", &["rpcrdma/returned-too-much", "rpcrdma/returned-not-in-order"]),
    ("written", &["rpcrdma/returned-not-written"]),
    ("result", &["rpcrdma/result-length"]),
    ("empty", &["rpcrdma/empty-not-kept"]),
    ("unused", &["rpcrdma/reply-chunk-in-msg"]),
    ("used", &["rpcrdma/long-reply-not-used"]),
    ("write-bounds", &["rpcrdma/write-bounds"]),
    ("write-late", &["rpcrdma/write-late"]),
    ("side", &["rpcrdma/wrong-side"]),
    ("handle", &["rpcrdma/handle-unknown"]),
    ("announced", &["rpcrdma/inval-not-announced"]),
    ("invalidated", &["rpcrdma/inval-foreign"]),
    ("invalidate-call", &["rpcrdma/inval-on-call"]),
    ("private", &["rpcrdma/private-reserved", "rpcrdma/private-version"]),
    ("session", &["nfs/cb-before-session"]),
    ("reduced", &["nfs/not-eligible"]),
];

/// Errors of `lint` that follow from a violation which the script reports alone.
const CONSEQUENCES: &[(&str, &str)] = &[
    // The bytes that the Reply returns went elsewhere (RFC 8166 section 3.4.6).
    ("handle", "rpcrdma/returned-not-written"),
    // More bytes than the item has (RFC 8166 section 3.4.6.2).
    ("returned", "rpcrdma/result-length"),
];

/// Answer of `lint` to a violation that it does not name by the same rule as the script.
#[derive(Clone, Copy)]
enum Instead {
    /// The rule counts the violation as not judged.
    NotJudged,
    /// Another rule names it.
    Rule(&'static str),
}

/// Result of `lint`.
#[derive(Debug)]
struct LintResult {
    /// Rules with findings, with their severities.
    found: Vec<(String, String)>,
    /// Rules that were not judged at least once.
    not_judged: Vec<String>,
}

fn linted(capture: &Path) -> LintResult {
    let output =
        Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args(["lint", "-T", "json"]).arg(capture).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut found: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "finding")
        .map(|line| (text(&line["rule"]), text(&line["severity"])))
        .collect();
    found.sort();
    found.dedup();
    let rules = lines.last().unwrap()["rules"].as_array().unwrap();
    let not_judged = rules.iter().filter(|rule| rule["not_judged"] != 0).map(|rule| text(&rule["rule"])).collect();
    LintResult { found, not_judged }
}

/// Verifies that `lint` names each rule that the script names, except for `instead`, and no error of a rule that the
/// script has and does not name.
#[track_caller]
fn assert_agrees(capture: &Path, rules: &[&str], instead: &[(&str, Instead)]) {
    let lint = linted(capture);
    let is_named = |wanted: &str| lint.found.iter().any(|(rule, _)| rule == wanted);
    for rule in rules {
        let (_, counterparts) = COUNTERPARTS.iter().find(|(of, _)| of == rule).unwrap();
        let is_right = match instead.iter().find(|(of, _)| of == rule) {
            None => counterparts.iter().any(|rule| is_named(rule)),
            Some((_, Instead::NotJudged)) => {
                counterparts.iter().any(|rule| lint.not_judged.iter().any(|unknown| unknown == rule))
            }
            Some((_, Instead::Rule(other))) => is_named(other),
        };
        assert!(is_right, "{rule}: {lint:?}");
    }
    for (rule, severity) in &lint.found {
        let of: Vec<_> = COUNTERPARTS.iter().filter(|(_, of)| of.contains(&rule.as_str())).collect();
        let follows = CONSEQUENCES.iter().any(|(of, error)| rules.contains(of) && error == rule);
        let is_named = of.is_empty() || follows || of.iter().any(|(of, _)| rules.contains(of));
        assert!(is_named || severity != "error", "{rule}: the script has {rules:?}");
    }
}

#[test]
fn the_script_and_lint_agree_on_every_capture() {
    for name in captures::ALL {
        let Some((output, said)) = held(&captures::path(name)) else { return };
        // It refuses captures without set-up.
        if output.status.code() == Some(2) {
            continue;
        }
        assert_agrees(&captures::path(name), &broken(&said), &[]);
        let known = said.contains("known [announced]");
        let has_known = linted(&captures::path(name)).found.iter().any(|(_, severity)| severity == "known");
        assert_eq!(known, has_known, "{name}");
    }
}

/// Overwrites a word (RFC 4506: big-endian) in a frame, numbered from 1.
fn word(kept: &mut [Kept], frame: usize, at: usize, value: u32) {
    kept[frame - 1].bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Offsets of the BTH of a RoCE frame over IPv4, and of the following headers.
const BTH: usize = 42;
const HEADER: usize = BTH + 12;
/// Offset of the message of a Send With Invalidate.
const INVALIDATING: usize = HEADER + 4;

// Frame 3 is the REQ, 4 the REP, 6 and 8 are NULL; 120 is WRITE with a Read chunk, read by 122, answered by 131; 590 is
// READ with a Write chunk, written by 592 and 593, answered by 595; 22 and 24 are CREATE_SESSION.

#[test]
fn a_grant_of_zero() {
    breaks(&["credits", "grant"], |kept| word(kept, 8, HEADER + 8, 0));
}

#[test]
fn more_calls_in_flight_than_were_granted() {
    // Neighbours may have been captured in the wrong order.
    let instead = [("credits", Instead::NotJudged)];
    breaks_in("rxe-v42", 600, &["credits"], &instead, |kept| {
        for at in 0..kept.len() {
            // From the server, 10.9.0.1; ARP is shorter.
            let header = match (kept[at].bytes.get(29), kept[at].bytes.get(BTH)) {
                (Some(1), Some(4)) => HEADER,
                (Some(1), Some(0x17)) => INVALIDATING,
                _ => continue,
            };
            word(kept, at + 1, header + 8, 1);
        }
        // A Reply after the next Call.
        let reply = kept.remove(587);
        kept.insert(589, reply);
    });
}

#[test]
fn two_calls_before_the_first_reply() {
    // Neighbours may have been captured in the wrong order.
    breaks_in("rxe-v42", 600, &["first"], &[("first", Instead::NotJudged)], |kept| {
        let reply = kept.remove(7);
        kept.insert(10, reply);
    });
}

#[test]
fn a_send_longer_than_the_announced_receive_size() {
    // The server announces a receive size of 1,024 bytes.
    breaks(&["threshold"], |kept| {
        let at = kept[3].bytes.windows(4).position(|four| four == [0xf6, 0xab, 0x0e, 0x18]).unwrap();
        kept[3].bytes[at + 7] = 0;
    });
}

#[test]
fn private_data_with_a_reserved_bit() {
    breaks(&["private"], |kept| {
        let at = kept[2].bytes.windows(4).position(|four| four == [0xf6, 0xab, 0x0e, 0x18]).unwrap();
        kept[2].bytes[at + 5] |= 0x40;
    });
}

#[test]
fn two_xids_in_one_message() {
    breaks(&["xid"], |kept| word(kept, 8, HEADER + 28, 7));
}

#[test]
fn a_send_that_is_no_message() {
    breaks(&["first", "message"], |kept| word(kept, 8, HEADER + 12, 3));
}

#[test]
fn an_undefined_message_type() {
    breaks(&["form"], |kept| word(kept, 8, HEADER + 12, 9));
}

#[test]
fn an_error_without_a_code_for_no_call() {
    breaks(&["error-call", "error-code"], |kept| {
        word(kept, 8, HEADER, 7);
        word(kept, 8, HEADER + 12, 4);
        word(kept, 8, HEADER + 16, 1);
        word(kept, 8, HEADER + 20, 1);
        word(kept, 8, HEADER + 24, 2);
        kept.truncate(14);
    });
}

#[test]
fn a_position_that_is_no_multiple_of_four() {
    breaks(&["position"], |kept| word(kept, 120, HEADER + 20, 178));
}

#[test]
fn a_position_behind_the_message() {
    breaks(&["inside"], |kept| word(kept, 120, HEADER + 20, 400));
}

#[test]
fn a_read_chunk_longer_than_its_data() {
    breaks(&["item"], |kept| word(kept, 120, HEADER + 28, 8200));
}

#[test]
fn a_read_beyond_its_segment() {
    breaks(&["read-bounds"], |kept| word(kept, 122, HEADER + 12, 8193));
}

#[test]
fn a_read_behind_the_reply() {
    breaks(&["read-late"], |kept| {
        let mut late = kept[121].clone();
        // The PSN after the Reply's.
        let psn =
            u32::from_be_bytes([0, kept[130].bytes[BTH + 9], kept[130].bytes[BTH + 10], kept[130].bytes[BTH + 11]]);
        late.bytes[BTH + 9..BTH + 12].copy_from_slice(&(psn + 1).to_be_bytes()[1..]);
        late.time = kept[130].time;
        kept.insert(131, late);
        // The client, which owns the memory, sends once more, so that no Call is missing.
        kept.truncate(134);
    });
}

#[test]
fn a_write_beyond_its_segment() {
    // The length contradicts the packets, so that it is not evidence of an access.
    let instead = [("write-bounds", Instead::Rule("transport/write-length"))];
    breaks_in("rxe-v42", 600, &["write-bounds"], &instead, |kept| word(kept, 592, HEADER + 12, 4097));
}

#[test]
fn a_handle_that_no_call_has() {
    breaks(&["handle"], |kept| word(kept, 592, HEADER + 8, 0x00ab_cdef));
}

#[test]
fn a_write_by_the_requester() {
    breaks(&["side"], |kept| {
        let mut own = kept[591].clone();
        // From the client, after its Call; both have the same queue pair number.
        own.bytes[26..34].rotate_left(4);
        let psn = kept[589].bytes[BTH + 9..BTH + 12].to_vec();
        own.bytes[BTH + 9..BTH + 12].copy_from_slice(&psn);
        own.bytes[BTH + 11] += 1;
        own.time = kept[589].time;
        kept.insert(590, own);
        kept.truncate(597);
    });
}

#[test]
fn a_reply_with_another_handle_than_its_call() {
    breaks(&["copied"], |kept| word(kept, 595, INVALIDATING + 28, 1));
}

#[test]
fn more_returned_than_was_offered() {
    breaks(&["returned"], |kept| word(kept, 595, INVALIDATING + 32, 4100));
}

#[test]
fn an_invalidated_handle_of_another_call() {
    breaks(&["invalidated"], |kept| word(kept, 595, HEADER, 1));
}

#[test]
fn a_reverse_call_without_a_session() {
    // The missing Calls are a gap in the PSNs: one of them may have bound the connection.
    let instead = [("session", Instead::NotJudged)];
    breaks_in("rxe-v42-deleg", 140, &["session"], &instead, |kept| {
        kept.remove(23);
        kept.remove(21);
    });
}
