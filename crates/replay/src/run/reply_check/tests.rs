use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::xdr::{Cursor, XdrArray};
use rustc_hash::FxHashMap;

use super::*;
use crate::run::call_operations_and_files::CallOperationsAndFiles;
use crate::run::dependencies::effects::OperationEffect;
use crate::tree::inferred_object::name_hash;

/// Variable of the file of the tests.
const FILE: u32 = 7;
/// NFS4ERR_NOENT, NFS4ERR_NOSPC, NFS4ERR_NOTSUPP and NFS4ERR_DELAY. RFC 8881 section 15.1.
const NOENT: u32 = 2;
const NOSPC: u32 = 28;
const NOTSUPP: u32 = 10_004;
const DELAY: u32 = 10_008;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the Reply of a COMPOUND with these results.
fn compound(status: u32, results: &[&[u32]]) -> Vec<u8> {
    let header = [9, 1, 0, 0, 0, 0, status, 0, results.len() as u32];
    bytes(&[&header[..], &results.concat()].concat())
}

/// Returns the result of GETATTR with `size`, and `space_used` if it is there. RFC 8881 sections 5.8.1.5 and 5.8.2.35.
fn getattr(size: u32, space_used: Option<u32>) -> Vec<u32> {
    match space_used {
        None => vec![9, 0, 1, 0x10, 8, 0, size],
        Some(used) => vec![9, 0, 2, 0x10, 0x2000, 16, 0, size, 0, used],
    }
}

/// Returns the result of GETATTR with `change`, `fsid`, `fileid` and the seconds of `time_metadata`.
fn identity(change: u32, fsid: u32, fileid: u32, seconds: u32) -> Vec<u32> {
    let values = [0, change, 0, fsid, 0, 0, 0, fileid, 0, seconds, 0];
    [&[9, 0, 2, 0x0010_0108, 0x0010_0000, 44][..], &values].concat()
}

fn pair<'a>(title: &'a str, recorded: &'a [u8], live: &'a [u8]) -> ReplyPair<'a> {
    ReplyPair {
        step: 1,
        frames: [1, 2],
        title,
        procedure: Some(Procedure::Compound),
        recorded: Cursor::new(recorded),
        known: &[],
        live: Cursor::new(live),
        chunks: &[],
        directories: &[],
        creates_exclusively: false,
        files: &[],
        execution: None,
        is_racing: false,
        is_delayed_in_capture: false,
        listing: None,
    }
}

fn checker() -> ReplyChecker {
    ReplyChecker::new(false, [], ComparisonOptions::default())
}

/// A step on [`FILE`] with its execution.
struct Execution<'a> {
    operations: &'a [Operation],
    acts: &'a [OperationEffect],
    turn: u64,
    /// `true` if GETATTR requested every attribute.
    requests_all: bool,
}

impl Execution<'_> {
    fn check(&self, checker: &mut ReplyChecker, [recorded, live]: [&[u8]; 2]) -> ReplyCheckResult {
        let count = self.operations.len();
        let (seeded, now) = (FxHashMap::default(), Instant::now());
        let (files, statuses, written) = (vec![FILE; count], vec![0; count], vec![0; count]);
        let may_return = |_: usize, name: &str| self.requests_all && name != "attrmask";
        let mut parts = CallOperationsAndFiles::on_file(self.operations, self.acts, FILE);
        parts.may_set_modify_time = true;
        checker.check(&ReplyPair {
            files: &files,
            execution: Some(ReplyCheckStepContext {
                grants_delegated_times: false,
                parts: &parts,
                slots: [XdrArray::default(), XdrArray::default()],
                step_turn: self.turn,
                // Recorded times are not of the day of the capture.
                call_time_ns: u64::MAX,
                times: [now, now],
                has_no_overlap: true,
                was_resent: false,
                was_sent_unchanged: true,
                seeded: &seeded,
                statuses: &statuses,
                written_bytes: &written,
                may_return: &may_return,
                path_of: &|_| None,
            }),
            ..pair("NFS 4.2 GETATTR", recorded, live)
        })
    }
}

const PUTFH: &[u32] = &[22, 0];

fn paths(verdict: &ReplyCheckResult) -> Vec<&str> {
    match verdict {
        ReplyCheckResult::Mismatched(differences) | ReplyCheckResult::MismatchedBefore { differences, .. } => {
            differences.iter().map(|difference| &*difference.path).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn rfc8881_section_18_46_3_revoked_state_differs_unless_it_was_lost() {
    let reply = |flags| compound(0, &[&[53, 0, 1, 2, 3, 4, 5, 0, 3, 3, flags]]);
    let (none, path_down, revoked) = (reply(0), reply(0x200), reply(0x10));
    let mut checker = checker();
    for _ in 0..2 {
        let verdict = checker.check(&pair("NFS 4.2 SEQUENCE", &none, &path_down));
        assert_eq!(verdict, ReplyCheckResult::Tolerated(tolerance_rules::STATUS_FLAGS));
        let verdict = checker.check(&pair("NFS 4.2 SEQUENCE", &none, &revoked));
        assert_eq!(paths(&verdict), ["SEQUENCE.sr_status_flags"]);
        assert_eq!(
            checker.check(&pair("NFS 4.2 SEQUENCE", &revoked, &revoked)),
            ReplyCheckResult::Matched,
            "the captured server had revoked state, too"
        );
    }
    checker.record_reconnection();
    assert_eq!(paths(&checker.check(&pair("NFS 4.2 SEQUENCE", &none, &revoked))).len(), 1);
    checker.record_restart();
    let verdict = checker.check(&pair("NFS 4.2 SEQUENCE", &none, &revoked));
    assert_eq!(verdict, ReplyCheckResult::Tolerated(tolerance_rules::STATUS_FLAGS));
}

#[test]
fn rfc8881_section_18_7_3_a_server_returns_the_requested_attributes() {
    let (plain, more) = (compound(0, &[PUTFH, &getattr(5, None)]), compound(0, &[PUTFH, &getattr(5, Some(9))]));
    let execution = |requests_all| Execution {
        operations: &[Operation::PUTFH, Operation::GETATTR],
        acts: &[OperationEffect::Nothing, OperationEffect::ReadAttributes],
        turn: 1,
        requests_all,
    };
    let offered = ReplyCheckResult::Tolerated(tolerance_rules::ATTRIBUTES_OFFERED);
    assert_eq!(execution(true).check(&mut checker(), [&plain, &more]), offered);
    let mut one = checker();
    for _ in 0..2 {
        let verdict = execution(false).check(&mut one, [&plain, &more]);
        assert_eq!(paths(&verdict), ["GETATTR.obj_attributes.space_used (not requested)"]);
    }
    assert_eq!(execution(false).check(&mut checker(), [&more, &more]), ReplyCheckResult::Matched);
    // The mask of the attributes is none of them.
    let refused = compound(13, &[PUTFH, &[9, 13]]);
    let verdict = execution(true).check(&mut checker(), [&refused, &plain]);
    assert!(!paths(&verdict).iter().any(|path| path.ends_with("(not requested)")), "{verdict:?}");
}

#[test]
fn rfc8881_section_18_7_3_a_server_returns_the_supported_attributes() {
    let (plain, more) = (compound(0, &[PUTFH, &getattr(5, None)]), compound(0, &[PUTFH, &getattr(5, Some(9))]));
    let verdict = |supported: Option<&[u32]>| {
        let seeded = SeededTree { supported: supported.map(Into::into), ..SeededTree::default() };
        let mut checker = ReplyChecker::for_run(&ReplayOptions::default(), &seeded);
        checker.check(&pair("NFS 4.2 GETATTR", &more, &plain))
    };
    let offered = ReplyCheckResult::Tolerated(tolerance_rules::ATTRIBUTES_OFFERED);
    assert_eq!(verdict(None), offered);
    assert_eq!(verdict(Some(&[0x10, 0])), offered);
    assert_eq!(paths(&verdict(Some(&[0x10, 0x2000]))), ["GETATTR.obj_attributes.space_used (supported)"]);
}

/// A status that may differ says nothing about the operations before it.
#[test]
fn operations_before_an_excused_status_are_compared() {
    // CLONE (71), WRITE (38) with count, committed and verifier, and LOCK (12) with a stateid.
    let cases: [(&str, &[u32], &[u32], bool); 3] = [
        ("NFS 4.2 CLONE", &[71, 0], &[71, NOTSUPP], false),
        ("NFS 4.2 WRITE", &[38, NOSPC], &[38, 0, 5, 2, 1, 1], false),
        ("NFS 4.2 LOCK", &[12, DELAY], &[12, 0, 1, 2, 3, 4], true),
    ];
    for (title, recorded, live, is_delayed_in_capture) in cases {
        let before = compound(recorded[1], &[PUTFH, &getattr(5, None), recorded]);
        let [same, other] = [5, 6].map(|size| compound(live[1], &[PUTFH, &getattr(size, None), live]));
        let of = |live| ReplyPair { is_delayed_in_capture, ..pair(title, &before, live) };
        let excused = checker().check(&of(&same));
        let is_excused = matches!(excused, ReplyCheckResult::Unsupported(..) | ReplyCheckResult::Tolerated(_));
        assert!(is_excused, "{title}: {excused:?}");
        let verdict = checker().check(&of(&other));
        let ReplyCheckResult::MismatchedBefore { status, otherwise, .. } = &verdict else {
            panic!("{title}: {verdict:?}")
        };
        assert_eq!(paths(&verdict), ["GETATTR.obj_attributes.size"]);
        assert_eq!((status.kind, &**otherwise), (DifferenceKind::Status, &excused));
    }
}

#[test]
fn a_delay_in_the_capture_does_not_excuse_an_earlier_operation() {
    let recorded = compound(DELAY, &[PUTFH, &[15, 0], &[12, DELAY]]);
    let live = compound(NOENT, &[PUTFH, &[15, NOENT]]);
    let verdict = checker().check(&ReplyPair { is_delayed_in_capture: true, ..pair("NFS 4.2 LOCK", &recorded, &live) });
    assert!(matches!(verdict, ReplyCheckResult::Mismatched(_)), "{verdict:?}");
}

/// Values of change attribute, fsid, fileid and time_metadata.
type Identity = [u32; 4];

/// Checks a GETATTR before and one after a restart, with a WRITE and a COMMIT between if so. Returns the violations.
fn after_restart(is_written: bool, is_committed: bool, [recorded, live]: [[Identity; 2]; 2]) -> Vec<String> {
    let mut checker = checker();
    let reply =
        |[change, fsid, fileid, seconds]: Identity| compound(0, &[PUTFH, &identity(change, fsid, fileid, seconds)]);
    let looks = |turn| Execution {
        operations: &[Operation::PUTFH, Operation::GETATTR],
        acts: &[OperationEffect::Nothing, OperationEffect::ReadAttributes],
        turn,
        requests_all: true,
    };
    // A change attribute that counts. RFC 7862 section 12.2.3.
    checker.relations.set_change_attr_type(0);
    let written = compound(0, &[PUTFH, &[38, 0, 5, 0, 1, 1]]);
    let committed = compound(0, &[PUTFH, &[5, 0, 1, 1]]);
    if is_written {
        let writes = Execution {
            operations: &[Operation::PUTFH, Operation::WRITE],
            acts: &[OperationEffect::Nothing, OperationEffect::Write(0, Some(5))],
            ..looks(1)
        };
        assert_eq!(writes.check(&mut checker, [&written; 2]), ReplyCheckResult::Matched);
    }
    if is_committed {
        let commits = Execution {
            operations: &[Operation::PUTFH, Operation::COMMIT],
            acts: &[OperationEffect::Nothing, OperationEffect::ChangeFileState],
            ..looks(2)
        };
        assert_eq!(commits.check(&mut checker, [&committed; 2]), ReplyCheckResult::Matched);
    }
    let verdict = looks(3).check(&mut checker, [&reply(recorded[0]), &reply(live[0])]);
    assert_eq!(verdict, ReplyCheckResult::Matched);
    checker.record_restart();
    let verdict = looks(4).check(&mut checker, [&reply(recorded[1]), &reply(live[1])]);
    paths(&verdict).into_iter().map(|path| path.trim_start_matches("GETATTR.obj_attributes.").to_owned()).collect()
}

#[test]
fn rfc8881_section_5_8_1_4_persistent_attributes_survive_a_restart() {
    let (recorded, live) = ([10, 1, 100, 1000], [50, 2, 200, 5000]);
    let same = |then: Identity| after_restart(false, false, [[recorded; 2], [live, then]]);
    assert_eq!(same(live), [""; 0]);
    assert_eq!(same([50, 2, 201, 5000]), ["fileid (one)"]);
    assert_eq!(same([50, 3, 200, 5000]), ["fsid.major (one)"]);
    assert_eq!(same([49, 2, 200, 5000]), ["change (rises)"]);
    assert_eq!(same([50, 2, 200, 4999]), ["time_metadata.seconds (rises)"]);
    assert_eq!(same([60, 2, 200, 5005]), [""; 0], "a restart may count as a change");
}

#[test]
fn rfc8881_section_18_3_3_uncommitted_changes_may_be_lost() {
    let (recorded, live, earlier) = ([10, 1, 100, 1000], [50, 2, 200, 5000], [49, 2, 200, 4999]);
    let values = [[recorded; 2], [live, earlier]];
    assert_eq!(after_restart(true, false, values), [""; 0]);
    assert_eq!(after_restart(true, true, values), ["change (rises)", "time_metadata.seconds (rises)"]);
    let other_number = [[recorded; 2], [live, [49, 2, 201, 4999]]];
    assert_eq!(after_restart(true, false, other_number), ["fileid (one)"]);
}

/// RFC 8881 section 18.1.1: READ 1, LOOKUP 2, MODIFY 4, EXTEND 8, DELETE 0x10, EXECUTE 0x20.
#[test]
fn only_rights_to_change_may_be_more_than_in_the_capture() {
    let checker = ReplyChecker::new(false, [], ComparisonOptions::default());
    let is_tolerated = |path: &str, recorded: &str, live: &str| {
        let side = |value: &str| DifferenceSideValue { location: None, frame: None, value: Some(value.into()) };
        checker.are_only_rights_to_change(&[Difference {
            kind: DifferenceKind::Result,
            operation: "NFS 4.1 ACCESS".into(),
            path: path.into(),
            section: 0,
            field: "nfs.access_rights",
            count: 1,
            a: side(recorded),
            b: side(live),
        }])
    };
    assert!(is_tolerated("ACCESS.access", "0x3", "0x1f"));
    assert!(is_tolerated("ACCESS.access", "0x1 (ACCESS4_READ)", "0x5 (ACCESS4_READ, ACCESS4_MODIFY)"));
    assert!(!is_tolerated("ACCESS.access", "0x1f", "0x3"), "fewer rights");
    assert!(!is_tolerated("ACCESS.access", "0x7", "0x1f"), "the capture had one of them");
    assert!(!is_tolerated("ACCESS.access", "0x1", "0x1f"), "another right, too");
    assert!(!is_tolerated("ACCESS.supported", "0x3", "0x1f"));
}

/// Returns a reply to READDIR with these names, without attributes.
fn listing(names: &[&[u8; 4]], eof: bool) -> Vec<u8> {
    let mut words = vec![26, 0, 0, 0];
    for name in names {
        words.extend([1, 0, 9, 4, u32::from_be_bytes(**name), 0, 0]);
    }
    words.extend([0, u32::from(eof)]);
    compound(0, &[PUTFH, &words])
}

fn check_listing(
    checker: &mut ReplyChecker,
    is_first: bool,
    [recorded, live]: [(&[&[u8; 4]], bool); 2],
) -> ReplyCheckResult {
    let [recorded, live] = [recorded, live].map(|(names, eof)| listing(names, eof));
    checker.check(&ReplyPair { listing: Some((FILE, is_first)), ..pair("NFS 4.2 READDIR", &recorded, &live) })
}

/// Two operations of the same name have different files.
#[test]
fn difference_tells_its_operation() {
    let sizes = |first, second| compound(0, &[PUTFH, &getattr(first, None), PUTFH, &getattr(second, None)]);
    for (live, section) in [(sizes(8, 7), 2), (sizes(7, 8), 4)] {
        let verdict = checker().check(&pair("NFS 4.2 GETATTR", &sizes(7, 7), &live));
        let ReplyCheckResult::Mismatched(differences) = verdict else { panic!("{verdict:?}") };
        let sections: Vec<_> = differences.iter().map(|difference| difference.section).collect();
        assert_eq!(sections, [section]);
    }
}

/// RFC 8881 section 18.23.3. Whether names follow is seen in the next part, which a capture may lack.
#[test]
fn earlier_end_of_listing_is_tolerated() {
    let mut checker = checker();
    let both: &[&[u8; 4]] = &[b"aaaa", b"bbbb"];
    let verdict = check_listing(&mut checker, true, [(both, false), (both, true)]);
    assert_eq!(verdict, ReplyCheckResult::Tolerated(tolerance_rules::LISTING));
    let verdict = check_listing(&mut checker, false, [(&[], true), (&[], true)]);
    assert_eq!(verdict, ReplyCheckResult::Matched);
    assert!(!paths(&check_listing(&mut checker, true, [(both, true), (both, false)])).is_empty());
}

#[test]
fn name_after_earlier_end_is_missing() {
    let both: &[&[u8; 4]] = &[b"aaaa", b"bbbb"];
    let mut checker = checker();
    check_listing(&mut checker, true, [(both, false), (both, true)]);
    let verdict = check_listing(&mut checker, false, [(&[b"cccc"], true), (&[], true)]);
    assert_eq!(paths(&verdict), ["READDIR.reply.entries.name"]);
    // The live listing ends without a name that the recorded one has already.
    let verdict = check_listing(&mut checker, true, [(&[b"aaaa", b"bbbb", b"cccc"], false), (both, true)]);
    assert_eq!(paths(&verdict), ["READDIR.reply.entries.name"]);
}

#[test]
fn rest_of_unknown_listing_differs_nowhere() {
    let mut checker = checker();
    check_listing(&mut checker, true, [(&[b"aaaa"], false), (&[b"aaaa"], false)]);
    checker.forget_listing(FILE);
    let verdict = check_listing(&mut checker, false, [(&[b"dddd"], true), (&[b"cccc", b"dddd"], true)]);
    assert_eq!(verdict, ReplyCheckResult::Tolerated(tolerance_rules::LISTING));
}

/// The live listing was read to its end; what it lacks may be in the beginning, which was not compared.
#[test]
fn ended_listing_of_unknown_beginning_counts() {
    for recorded_end in [false, true] {
        let mut checker = checker();
        let parts: [(&[&[u8; 4]], bool); 2] = [(&[b"aaaa", b"dddd"], recorded_end), (&[b"dddd"], true)];
        let verdict = check_listing(&mut checker, false, parts);
        assert_eq!(verdict, ReplyCheckResult::Tolerated(tolerance_rules::LISTING));
        // It was not read to its end.
        let parts: [(&[&[u8; 4]], bool); 2] = [(&[b"aaaa", b"dddd"], recorded_end), (&[b"dddd"], false)];
        checker.forget_listing(FILE);
        assert_eq!(check_listing(&mut checker, false, parts), ReplyCheckResult::Tolerated(UNLISTED));
    }
}

/// The captured part may end before other names, which are no difference; a name that it has is one. RFC 8881 section
/// 18.23.3.
#[test]
fn only_recorded_names_of_part_differ() {
    let mut checker = checker();
    let more: &[&[u8; 4]] = &[b"aaaa", b"bbbb", b"dddd", b"eeee"];
    let verdict = check_listing(&mut checker, true, [(&[b"aaaa", b"cccc"], false), (more, true)]);
    assert_eq!(values(&verdict), [[Some("\"cccc\""), None]]);
    // The recorded listing ends without names that the live one had.
    let verdict = check_listing(&mut checker, false, [(&[b"dddd"], true), (&[], true)]);
    assert_eq!(values(&verdict), [[None, Some("\"bbbb\"")], [None, Some("\"eeee\"")]]);
}

/// Returns the values of the differences of a verdict.
fn values(verdict: &ReplyCheckResult) -> Vec<[Option<&str>; 2]> {
    let ReplyCheckResult::Mismatched(differences) = verdict else { return Vec::new() };
    differences.iter().map(|difference| [&difference.a, &difference.b].map(|side| side.value.as_deref())).collect()
}

#[test]
fn names_of_unfinished_listing_stay_unchecked() {
    let mut checker = checker();
    let recorded: &[&[u8; 4]] = &[b"aaaa", b"cccc"];
    let names: Vec<_> = recorded.iter().map(|name| &name[..]).collect();
    assert_eq!(checker.unlisted_names((FILE, true), &names).len(), 2);
    let verdict = check_listing(&mut checker, true, [(recorded, false), (&[b"aaaa", b"bbbb"], false)]);
    assert_eq!(verdict, ReplyCheckResult::Tolerated(UNLISTED));
    let unlisted = checker.unlisted_names((FILE, false), &names);
    assert_eq!(unlisted.into_iter().collect::<Vec<_>>(), [(*b"cccc").into()]);
    assert!(checker.unlisted_names((FILE + 1, false), &names).is_empty(), "its beginning is unknown");
}

/// A name that is removed during a listing is in one part or in none.
#[test]
fn changed_name_of_listing_differs_nowhere() {
    let mut checker = checker();
    check_listing(&mut checker, true, [(&[b"aaaa", b"cccc"], false), (&[b"aaaa", b"bbbb"], false)]);
    checker.record_name_change(name_hash(b"cccc"), |directory| directory == FILE);
    checker.record_name_change(name_hash(b"bbbb"), |directory| directory != FILE);
    assert!(checker.unlisted_names((FILE, false), &[b"cccc"]).is_empty());
    let verdict = check_listing(&mut checker, false, [(&[b"dddd"], true), (&[b"dddd"], true)]);
    assert_eq!(values(&verdict), [[None, Some("\"bbbb\"")]]);
}
