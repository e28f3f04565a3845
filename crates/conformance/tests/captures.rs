//! Real captures, whole and damaged: no error, no warning that is not about loss, and no finding in a damaged capture
//! that the whole one does not have.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nfsrdma_conformance::{Finding, ReportedFindingSeverity, RuleTally};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};

use common::{StoredFrame, captures, frames, frames_of, judge};

/// Returns the findings, and the judgements of each rule.
fn check<'a>(frames: impl Iterator<Item = Frame<'a>>) -> (Vec<Finding>, Vec<(&'static str, RuleTally)>) {
    judge(frames, drop)
}

fn check_whole(frames: &[StoredFrame]) -> (Vec<Finding>, Vec<(&'static str, RuleTally)>) {
    check(frames.iter().map(StoredFrame::whole))
}

/// Identity of a finding in a capture of which frames are missing: the rule, the side, and the XID.
type FindingId = (&'static str, String, Option<u32>);

fn ids(findings: &[Finding]) -> BTreeSet<FindingId> {
    let id = |finding: &Finding| (finding.rule.id, finding.side.to_string(), finding.xid.map(|xid| xid.0));
    findings.iter().filter(|finding| !is_about_loss(finding)).map(id).collect()
}

/// Events of the transport, which a damaged capture has more of. None of them breaks a requirement.
fn is_about_loss(finding: &Finding) -> bool {
    finding.rule.id.starts_with("transport/") && finding.severity < ReportedFindingSeverity::Error
}

/// The test client of these captures offers a Reply chunk that is too short.
fn is_provoked(path: &Path, finding: &Finding) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.ends_with("-errors.pcap.gz") && finding.rule.id == "rpcrdma/reply-chunk-short"
}

fn describe(findings: &[&Finding]) -> String {
    let line = |finding: &&Finding| {
        format!("{} {} {:?}: {}\n", finding.rule.id, finding.severity.name(), finding.frames, finding.text)
    };
    findings.iter().take(20).map(line).collect()
}

#[test]
fn real_captures_break_no_requirement() {
    for path in captures() {
        let (findings, tallies) = check_whole(&frames(&path));
        let bad: Vec<&Finding> = findings
            .iter()
            .filter(|finding| finding.severity >= ReportedFindingSeverity::Warning)
            .filter(|finding| !is_about_loss(finding))
            .filter(|finding| !is_provoked(&path, finding))
            .collect();
        assert!(bad.is_empty(), "{}: {} findings\n{}", path.display(), bad.len(), describe(&bad));
        let judged: u64 = tallies.iter().map(|(_, tally)| tally.judged).sum();
        let is_rdma = !path.file_name().unwrap().to_string_lossy().starts_with("tcp-");
        assert!(judged > 0 || !is_rdma, "{}: nothing was judged", path.display());
    }
}

#[test]
fn linux_invalidates_although_only_the_client_announced_it() {
    let (findings, tallies) = check_whole(&frames_of("rxe-v42.pcap"));
    let known: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity == ReportedFindingSeverity::Known).collect();
    let [finding] = known[..] else { panic!("{}", describe(&known)) };
    assert_eq!((finding.rule.id, finding.count), ("rpcrdma/inval-not-announced", 53));
    assert_eq!(finding.known.as_deref(), Some("Linux NFS server"));
    assert!(finding.text.ends_with("the server did not set R"), "{}", finding.text);
    // Each of them invalidates memory of its own Call.
    let (_, foreign) = tallies.iter().find(|(id, _)| *id == "rpcrdma/inval-foreign").unwrap();
    assert_eq!((foreign.judged, foreign.findings), (53, 0));
}

#[test]
fn the_share_of_time_without_credits_is_that_of_the_whole_connection() {
    let (findings, _) = check_whole(&frames_of("rxe-v42-credits.pcap.gz"));
    let finding = findings.iter().find(|finding| finding.rule.id == "rpcrdma/credits-all-used").unwrap();
    // Computed from the Calls and Replies of -T json: 12.7%.
    assert_eq!(finding.text, "all of 8 credits used for 12.7% of the time");
}

/// Checks that a damaged capture has no finding that the whole one does not have.
fn assert_no_more(name: &str, whole: &BTreeSet<FindingId>, damaged: &[Finding]) {
    let new: Vec<&Finding> =
        damaged.iter().filter(|finding| !ids(std::slice::from_ref(*finding)).is_subset(whole)).collect();
    assert!(new.is_empty(), "{name}: {} new findings\n{}", new.len(), describe(&new));
}

/// Small captures of each transport and dialect, for damages that need one run each.
fn small() -> Vec<(String, Vec<StoredFrame>)> {
    let named = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, frames(&path))
    };
    let wanted = ["rxe-v42-deleg.pcap", "siw-v42-crc", "rxe-v3.pcap", "tcp-v42"];
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        wanted.iter().any(|wanted| name.starts_with(wanted))
    };
    captures().into_iter().filter(is_wanted).map(named).collect()
}

/// Returns `true` if the environment variable NFSRDMA_FULL asks for all damaged variants.
fn is_full() -> bool {
    std::env::var_os("NFSRDMA_FULL").is_some()
}

/// Number of damaged variants per capture.
fn step(frames: &[StoredFrame]) -> usize {
    if is_full() { 1 } else { (frames.len() / 40).max(1) }
}

#[test]
fn a_lost_packet_breaks_no_rule() {
    for (name, frames) in small() {
        let whole = ids(&check_whole(&frames).0);
        for dropped in (0..frames.len()).step_by(step(&frames)) {
            let rest = frames.iter().enumerate().filter(|(at, _)| *at != dropped);
            let (findings, _) = check(rest.map(|(_, frame)| frame.whole()));
            assert_no_more(&format!("{name} without frame {}", dropped + 1), &whole, &findings);
        }
    }
}

/// Each of these frames is the Reply to a Call on the same slot, on another connection than the Calls before and after
/// them.
#[test]
fn lost_replies_on_several_connections_of_a_session_break_no_rule() {
    let frames = frames_of("rxe-v42-conc-head.pcap.gz");
    let whole = ids(&check_whole(&frames).0);
    let rest = frames.iter().zip(1..).filter(|(_, number)| ![61, 66, 71].contains(number));
    let (findings, _) = check(rest.map(|(frame, _)| frame.whole()));
    assert_no_more("rxe-v42-conc-head without frames 61, 66 and 71", &whole, &findings);
}

/// The Reply comes after its acknowledgement, and after the next Reply: the capture is out of order, and the slot was
/// not busy.
#[test]
fn a_reply_captured_after_a_later_one_breaks_no_rule() {
    // The acknowledgement of the next Reply is frame 53.
    for distance in [4, 6] {
        let frames = frames_of("rxe-v42-deleg.pcap");
        let mut order: Vec<usize> = (0..frames.len()).collect();
        let late = order.remove(47);
        order.insert(47 + distance, late);
        let time = |at: usize| frames[if at == late { 47 + distance } else { at }].time;
        let order: Vec<_> = order.into_iter().map(|at| (time(at), at)).collect();
        let findings = findings_in_order(&frames, &order);
        let whole = check(order.iter().map(|(time, at)| Frame { time: *time, ..frames[*at].whole() })).0;
        let retransmissions = whole.iter().filter(|finding| finding.rule.id == "transport/retransmission");
        assert_eq!(retransmissions.count(), 0, "{distance}");
        let findings: Vec<&Finding> = findings.iter().collect();
        assert!(findings.is_empty(), "{distance}\n{}", describe(&findings));
    }
}

/// Swaps frames with their successors. The timestamps stay in order, as in a capture of several queues, or move with
/// the frames.
fn swapped(frames: &[StoredFrame], first: &[usize], are_times_in_order: bool) -> Vec<Finding> {
    let mut order: Vec<usize> = (0..frames.len()).collect();
    first.iter().for_each(|at| order.swap(*at, at + 1));
    let of = |(place, at): (usize, &usize)| {
        let (frame, time) = (frames[*at].whole(), frames[place].time);
        if are_times_in_order { Frame { number: frames[place].number, time, ..frame } } else { frame }
    };
    check(order.iter().enumerate().map(of)).0
}

/// Damage of a capture at one place.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// This number of frames is missing.
    Loss(usize),
    /// The first, third and sixth frame are missing: often in both directions.
    Gaps,
    /// A frame and the one that follows it by this number are exchanged, with their times.
    Exchange(usize),
    /// The capture begins there.
    LateStart,
    /// The capture begins there, and frames are missing after the first ones.
    LateStartAndLoss { after: usize, count: usize },
    /// Frames are cut at this snap length, and one is missing.
    CutAndLoss { snap_length: usize },
}

impl Damage {
    const ALL: [Self; 12] = [
        Self::Loss(1),
        Self::Loss(2),
        Self::Loss(20),
        Self::Gaps,
        Self::Exchange(1),
        Self::Exchange(3),
        Self::LateStart,
        Self::LATE_STARTS_AND_LOSSES[0],
        Self::LATE_STARTS_AND_LOSSES[1],
        Self::LATE_STARTS_AND_LOSSES[2],
        Self::CUTS_AND_LOSSES[0],
        Self::CUTS_AND_LOSSES[1],
    ];
    const LATE_STARTS_AND_LOSSES: [Self; 3] = [
        Self::LateStartAndLoss { after: 1, count: 1 },
        Self::LateStartAndLoss { after: 1, count: 2 },
        Self::LateStartAndLoss { after: 3, count: 1 },
    ];
    const CUTS_AND_LOSSES: [Self; 2] = [Self::CutAndLoss { snap_length: 96 }, Self::CutAndLoss { snap_length: 128 }];

    /// Returns `true` for two kinds of damage at once. They reach no farther than the Calls in flight.
    fn is_product(self) -> bool {
        matches!(self, Self::LateStartAndLoss { .. } | Self::CutAndLoss { .. })
    }

    /// Returns the snap length.
    fn snap_length(self) -> usize {
        if let Self::CutAndLoss { snap_length } = self { snap_length } else { usize::MAX }
    }

    /// Returns the frames of a damaged capture up to `until`; `None` if it ends before the damage does.
    fn apply(self, frames: &[StoredFrame], at: usize, until: usize) -> Option<Vec<&StoredFrame>> {
        let mut rest: Vec<&StoredFrame> = frames[..until].iter().collect();
        match self {
            Self::Loss(count) => drop(rest.drain(at..until.min(at + count))),
            Self::Gaps if at + 5 >= until => return None,
            Self::Gaps => [5, 2, 0].into_iter().for_each(|distance| {
                rest.remove(at + distance);
            }),
            Self::Exchange(distance) if at + distance >= until => return None,
            Self::Exchange(distance) => rest.swap(at, at + distance),
            Self::LateStart => drop(rest.drain(..at)),
            Self::LateStartAndLoss { after, count } => {
                let lost = at + after;
                if lost + count >= until {
                    return None;
                }
                rest.drain(lost..lost + count);
                rest.drain(..at);
            }
            Self::CutAndLoss { .. } => drop(rest.remove(at)),
        }
        Some(rest)
    }
}

/// Number of frames behind a damage in a quick run, or behind two kinds of damage at once: the Replies of Calls in
/// flight are among them.
const FRAMES_BEHIND: usize = 300;
/// Number of frames at the start of a capture that are damaged in turn in a quick run: most is unknown there, such as
/// grants, the path MTU, and slots.
const FRAMES_AT_START: usize = 170;

/// The session of this capture uses one slot on four connections. Three of them, with their set-ups, are within 20
/// frames: without these, nothing shows that there are other connections.
fn is_of_unseen_connections(name: &str, damage: Damage, finding: &Finding) -> bool {
    let Damage::Loss(count) = damage else { return false };
    count == 20 && name.starts_with("rxe-v42-conc-head") && finding.rule.id == "nfs/slot-gap"
}

/// Damages captures at each of `places`, and checks that nothing looks broken. If NFSRDMA_FULL is 1, or the start of
/// the name of a capture, all or these captures are damaged everywhere.
fn assert_harmless(damages: &[Damage], is_chosen: impl Fn(&str) -> bool, places: impl Fn(usize) -> Vec<usize>) {
    let wanted = std::env::var("NFSRDMA_FULL").ok();
    let is_full = wanted.is_some();
    let is_chosen = |name: &str| match wanted.as_deref() {
        Some("1") => true,
        Some(prefix) => name.starts_with(prefix),
        None => is_chosen(name),
    };
    let mut failures = Vec::new();
    for path in captures() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !is_chosen(&name) {
            continue;
        }
        let frames = frames(&path);
        let whole = ids(&check_whole(&frames).0);
        let places = if is_full { (0..frames.len()).collect() } else { places(frames.len()) };
        for damage in damages {
            for at in places.iter().copied().filter(|at| *at < frames.len()) {
                let has_all_behind = is_full && !damage.is_product();
                let until = if has_all_behind { frames.len() } else { frames.len().min(at + FRAMES_BEHIND) };
                let Some(rest) = damage.apply(&frames, at, until) else { continue };
                let numbered = rest
                    .into_iter()
                    .zip(1..)
                    .map(|(frame, number)| Frame { number: FrameNumber(number), ..frame.cut(damage.snap_length()) });
                let (mut findings, _) = check(numbered);
                findings.retain(|finding| {
                    finding.severity >= ReportedFindingSeverity::Warning
                        && !is_of_unseen_connections(&name, *damage, finding)
                        && !ids(std::slice::from_ref(finding)).is_subset(&whole)
                });
                if !findings.is_empty() {
                    let findings: Vec<&Finding> = findings.iter().collect();
                    failures.push(format!("{name}, {damage:?} at frame {}: {}", at + 1, describe(&findings)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// Captures in which most rules about order can be judged wrongly: many Calls in flight, RDMA Reads in protected Calls.
fn is_demanding(name: &str) -> bool {
    name.starts_with("rxe-v42-credits") || name.starts_with("rxe-v42-krb5")
}

#[test]
fn a_packet_lost_at_the_start_of_any_capture_breaks_no_rule() {
    let first = |count: usize| 0..count.min(FRAMES_AT_START);
    assert_harmless(&[Damage::Loss(1)], is_demanding, |count| first(count).collect());
    assert_harmless(&[Damage::Loss(1)], |name| !is_demanding(name), |count| first(count).step_by(5).collect());
}

#[test]
fn a_start_within_the_first_packets_of_any_capture_breaks_no_rule() {
    let first = |count: usize| 0..count.min(FRAMES_AT_START);
    assert_harmless(&[Damage::LateStart], is_demanding, |count| first(count).collect());
    assert_harmless(&[Damage::LateStart], |name| !is_demanding(name), |count| first(count).step_by(11).collect());
}

#[test]
fn a_packet_lost_behind_a_late_start_breaks_no_rule() {
    let damages = Damage::LATE_STARTS_AND_LOSSES;
    assert_harmless(&damages, is_demanding, |count| (0..count.min(FRAMES_AT_START)).step_by(5).collect());
    // In the middle of a capture, everything is in use.
    assert_harmless(&damages, |name| !is_demanding(name), |count| (count / 3..count).take(150).step_by(3).collect());
}

#[test]
fn a_lost_packet_among_cut_frames_breaks_no_rule() {
    let places = |count: usize| (9..count.min(FRAMES_AT_START)).step_by(6).collect();
    assert_harmless(&Damage::CUTS_AND_LOSSES, |_| true, places);
}

#[test]
fn the_first_replies_lost_with_their_acknowledgements_break_no_rule() {
    // Among the first packets of a connection.
    assert_harmless(&[Damage::Loss(2)], |_| true, |count| (0..count.min(60)).collect());
}

#[test]
fn gaps_in_both_directions_break_no_rule() {
    assert_harmless(&[Damage::Gaps], |_| true, |count| (0..count.min(60)).collect());
}

#[test]
fn packets_far_from_their_places_break_no_rule() {
    let damages = [Damage::Loss(20), Damage::Exchange(1), Damage::Exchange(3)];
    assert_harmless(&damages, |_| true, |count| (0..count.min(FRAMES_AT_START)).step_by(11).collect());
}

#[test]
fn any_damage_in_a_capture_with_many_calls_in_flight_breaks_no_rule() {
    assert_harmless(&Damage::ALL, is_demanding, |count| (0..count).step_by(count / 12).collect());
}

#[test]
fn several_lost_packets_break_no_rule() {
    for (name, frames) in small() {
        let whole = ids(&check_whole(&frames).0);
        for seed in 0..30_u32 {
            // A linear congruential generator: the same packets are lost in each run.
            let mut state = seed;
            let mut is_lost = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16 & 31 <= seed % 2
            };
            let rest = frames.iter().filter(|_| !is_lost());
            let (findings, _) = check(rest.map(|frame| frame.whole()));
            assert_no_more(&format!("{name} with losses of seed {seed}"), &whole, &findings);
        }
    }
}

#[test]
fn a_damaged_fpdu_breaks_no_rule_about_messages() {
    let mut frames = frames_of("siw-v42-crc.pcap.gz");
    let whole = ids(&check_whole(&frames).0);
    // Behind the start-up frames, so that framing is proven.
    let damaged: Vec<usize> = (20..frames.len())
        .filter(|at| tcp_payload(&frames[*at].bytes).is_some_and(|payload| frames[*at].bytes.len() > payload + 60))
        .collect();
    for at in damaged.iter().step_by((damaged.len() / 40).max(1)) {
        // A byte behind the headers; the checksum of TCP does not see every change either.
        let place = tcp_payload(&frames[*at].bytes).unwrap() + 40;
        let right = frames[*at].bytes.clone();
        frames[*at].bytes[place] ^= 4;
        frames[*at].seal();
        let (mut findings, _) = check_whole(&frames);
        let is_found = findings.iter().any(|finding| finding.rule.id == "rdmap/crc");
        assert!(is_found, "frame {}: {}", at + 1, describe(&findings.iter().collect::<Vec<_>>()));
        findings.retain(|finding| finding.rule.id != "rdmap/crc");
        assert_no_more(&format!("frame {} damaged", at + 1), &whole, &findings);
        frames[*at].bytes = right;
    }
}

#[test]
fn neighbours_in_the_wrong_order_break_no_rule() {
    for (name, frames) in small() {
        let whole = ids(&check_whole(&frames).0);
        for at in (0..frames.len() - 1).step_by(step(&frames)) {
            for are_times_in_order in [false, true] {
                let findings = swapped(&frames, &[at], are_times_in_order);
                let times = if are_times_in_order { "times in order" } else { "with its time" };
                assert_no_more(&format!("{name} with frame {} later, {times}", at + 1), &whole, &findings);
            }
        }
        // Many at once, in each phase.
        for phase in 0..33 {
            let first: Vec<usize> = (phase..frames.len() - 1).step_by(33).collect();
            let findings = swapped(&frames, &first, true);
            assert_no_more(&format!("{name} with frames {phase} + 33 n later"), &whole, &findings);
        }
    }
}

/// Returns the new findings in a capture with its frames in this order: with their times, and by their indices.
fn findings_in_order(frames: &[StoredFrame], order: &[(Timestamp, usize)]) -> Vec<Finding> {
    let whole = ids(&check_whole(frames).0);
    let in_order = order.iter().zip(1..).map(|((time, at), number)| Frame {
        number: FrameNumber(number),
        time: *time,
        ..frames[*at].whole()
    });
    let (mut findings, _) = check(in_order);
    findings.retain(|finding| {
        finding.severity >= ReportedFindingSeverity::Warning && !ids(std::slice::from_ref(finding)).is_subset(&whole)
    });
    findings
}

/// Two captures, one of each direction, are merged by the clocks of their hosts, which differ.
#[test]
fn clocks_that_differ_between_the_directions_break_no_rule() {
    for path in captures() {
        let frames = frames(&path);
        let source = |frame: &StoredFrame| frame.bytes.get(6..12).map(<[u8]>::to_vec);
        let client = source(&frames[0]);
        for microseconds in [-5000, -1000, -100, -20, 20, 100, 1000, 5000] {
            let time = |frame: &StoredFrame| {
                let is_ahead = source(frame) == client;
                Timestamp(frame.time.0 + if is_ahead { microseconds * 1000 } else { 0 })
            };
            let mut order: Vec<_> = frames.iter().enumerate().map(|(at, frame)| (time(frame), at)).collect();
            order.sort();
            let findings = findings_in_order(&frames, &order);
            let findings: Vec<&Finding> = findings.iter().collect();
            assert!(findings.is_empty(), "{} {microseconds}\n{}", path.display(), describe(&findings));
        }
    }
}

/// RFC 5044 section 4.1: a wrong ULPDU_Length shows once something proves where FPDUs begin: the start-up frames, a CRC,
/// or in each direction eight FPDUs in a row behind the bytes in which the first marker would be.
#[test]
fn unproven_lengths_are_not_judged() {
    for (name, start, expected) in [
        ("siw-v42.pcap.gz", 0, 0..=0),
        ("siw-v42.pcap.gz", 200, 14..=24),
        ("siw-v42-mid.pcap.gz", 0, 14..=24),
        ("siw-v42-crc.pcap.gz", 0, 0..=0),
        ("siw-v42-crc.pcap.gz", 200, 0..=2),
    ] {
        let (_, tallies) = check_whole(&frames_of(name)[start..]);
        let (_, framing) = tallies.iter().find(|(id, _)| *id == "rdmap/framing").unwrap();
        assert!(framing.judged > 100, "{name} from {start}: {framing:?}");
        assert!(expected.contains(&framing.not_judged), "{name} from {start}: {framing:?}");
    }
}

/// One direction is captured so late that the calls of the other precede all of it: with its SYN, or without.
#[test]
fn late_direction_breaks_no_rule() {
    let frames = frames_of("tcp-v42.pcap.gz");
    for (start, end) in [(0, 30), (3, 30), (5, 30), (3, 45)] {
        let frames = &frames[start..end];
        for is_first_late in [true, false] {
            let late = |frame: &StoredFrame| is_from_first_sender(frames, frame) == is_first_late;
            let time = |frame: &StoredFrame| frame.time.0 + if late(frame) { 500_000_000 } else { 0 };
            let mut order: Vec<_> = frames.iter().enumerate().map(|(at, f)| (Timestamp(time(f)), at)).collect();
            order.sort();
            let findings = findings_in_order(frames, &order);
            let findings: Vec<&Finding> = findings.iter().collect();
            assert!(findings.is_empty(), "{start} to {end}, {is_first_late}\n{}", describe(&findings));
        }
    }
}

/// The same over iWARP, cut anywhere by those clocks: the first bytes of an RDMA Write precede the capture, but not the
/// call that offers its memory. RFC 8166 section 3.4.6: bytes that were not captured may have been written.
#[test]
fn late_calls_in_late_capture_break_no_rule() {
    for name in ["siw-v42-mid.pcap.gz", "siw-v3.pcap.gz", "siw-v42-crc.pcap.gz"] {
        let frames = frames_of(name);
        let client = frames[0].bytes.get(6..12).map(<[u8]>::to_vec);
        for milliseconds in [20, 50, 100] {
            for is_client_late in [true, false] {
                let late =
                    |frame: &StoredFrame| (frame.bytes.get(6..12).map(<[u8]>::to_vec) == client) == is_client_late;
                let time = |frame: &StoredFrame| frame.time.0 + if late(frame) { milliseconds * 1_000_000 } else { 0 };
                let mut order: Vec<_> = frames.iter().enumerate().map(|(at, f)| (Timestamp(time(f)), at)).collect();
                order.sort();
                for start in (450..850).step_by(if is_full() { 1 } else { 50 }) {
                    let findings = findings_in_order(&frames, &order[start..]);
                    let findings: Vec<&Finding> = findings.iter().collect();
                    let what = format!("{name} from {start}, {milliseconds} ms, {is_client_late}");
                    assert!(findings.is_empty(), "{what}\n{}", describe(&findings));
                }
            }
        }
    }
}

/// Frames are captured up to `window` places late, and have the times of their places.
#[test]
fn a_random_order_of_near_frames_breaks_no_rule() {
    for path in captures() {
        let frames = frames(&path);
        for (seed, window) in (0_u32..).zip([2, 4, 8, 20, 4, 8, 20]) {
            let mut state = seed;
            let mut displacement = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as usize % (window + 1)
            };
            let mut order: Vec<usize> = (0..frames.len()).collect();
            order.sort_by_cached_key(|at| at + displacement());
            let order: Vec<_> = { frames.iter().map(|frame| frame.time) }.zip(order).collect();
            let mut findings = findings_in_order(&frames, &order);
            // Where the capture was idle, 20 places are more than the 50 ms that bytes of a stream may be captured
            // late.
            findings.retain(|finding| window < 20 || finding.rule.id.starts_with("nfs/"));
            let findings: Vec<&Finding> = findings.iter().collect();
            assert!(
                findings.is_empty(),
                "{} within {window} places, seed {seed}\n{}",
                path.display(),
                describe(&findings)
            );
        }
    }
}

#[test]
fn cut_frames_break_no_rule() {
    for path in captures() {
        let frames = frames(&path);
        let whole = ids(&check_whole(&frames).0);
        for snap_length in [96, 128] {
            let (findings, _) = check(frames.iter().map(|frame| frame.cut(snap_length)));
            assert_no_more(&format!("{} cut at {snap_length}", path.display()), &whole, &findings);
        }
    }
}

/// Returns `true` if a frame has the Ethernet source address of the first frame.
fn is_from_first_sender(frames: &[StoredFrame], frame: &StoredFrame) -> bool {
    let source = |frame: &StoredFrame| frame.cut(12).bytes.get(6..12).map(<[u8]>::to_vec);
    frames.first().map(source) == Some(source(frame))
}

/// Two capture points with different snap lengths, or one that cuts a frame at random.
#[test]
fn some_cut_frames_break_no_rule() {
    for (name, frames) in small() {
        let whole = ids(&check_whole(&frames).0);
        for snap_length in [66, 90, 96, 110] {
            for is_first in [true, false] {
                let length = |frame: &StoredFrame| match is_from_first_sender(&frames, frame) == is_first {
                    true => snap_length,
                    false => usize::MAX,
                };
                let (findings, _) = check(frames.iter().map(|frame| frame.cut(length(frame))));
                assert_no_more(&format!("{name} cut at {snap_length}, {is_first}"), &whole, &findings);
            }
        }
        for at in (4..frames.len().min(400)).step_by(17) {
            let snap_length = [54, 62, 70, 80, 90, 100][at % 6];
            let length = |index| if index == at { snap_length } else { usize::MAX };
            let cut = frames.iter().enumerate().map(|(index, frame)| frame.cut(length(index)));
            let (findings, _) = check(cut);
            assert_no_more(&format!("{name}, frame {} cut at {snap_length}", at + 1), &whole, &findings);
        }
    }
}

#[test]
fn a_capture_that_begins_late_breaks_no_rule() {
    for path in captures() {
        let frames = frames(&path);
        let whole = ids(&check_whole(&frames).0);
        for tenth in 1..10 {
            let start = frames.len() * tenth / 10;
            let (findings, _) = check(frames[start..].iter().map(|frame| frame.whole()));
            assert_no_more(&format!("{} from frame {}", path.display(), start + 1), &whole, &findings);
        }
    }
}

/// Returns the offset of the payload of a TCP segment over IPv4, if it has one.
fn tcp_payload(frame: &[u8]) -> Option<usize> {
    let is_tcp = frame.get(12..14)? == [0x08, 0] && *frame.get(23)? == 6;
    let length = 14 + usize::from(u16::from_be_bytes([*frame.get(16)?, *frame.get(17)?]));
    let start = 34 + usize::from(frame.get(46)? >> 4) * 4;
    (is_tcp && start < length).then_some(start)
}

/// Offset of the ports in a frame of Ethernet, IPv4 and TCP.
const PORTS: std::ops::Range<usize> = 34..38;

#[test]
fn a_connection_without_a_correct_crc_is_judged() {
    let mut frames = frames_of("siw-v42-crc.pcap.gz");
    let of_rule = |tallies: &[(&'static str, RuleTally)]| {
        tallies.iter().find(|(id, _)| *id == "rdmap/crc").map(|(_, tally)| *tally).unwrap()
    };
    let correct = of_rule(&check_whole(&frames).1);
    assert!((correct.judged > 1000, correct.findings) == (true, 0), "{correct:?}");
    for frame in &mut frames {
        let Some(payload) = tcp_payload(&frame.bytes) else { continue };
        // Only start-up frames have no CRC.
        if !frame.bytes[payload..].starts_with(b"MPA ") {
            let end = frame.bytes.len();
            frame.bytes[end - 4..].fill(0);
            frame.seal();
        }
    }
    let (findings, tallies) = check_whole(&frames);
    let errors: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity == ReportedFindingSeverity::Error).collect();
    let [client, server] = errors[..] else { panic!("{}", describe(&errors)) };
    assert_eq!([client.rule.id, server.rule.id], ["rdmap/crc"; 2]);
    assert_eq!(client.count + server.count, correct.judged);
    assert_eq!((of_rule(&tallies).findings, of_rule(&tallies).judged), (correct.judged, correct.judged));

    // The same on a connection of unknown purpose: it is not judged, and does not count as judged.
    for frame in &mut frames {
        if tcp_payload(&frame.bytes).is_some() || frame.bytes.get(23) == Some(&6) {
            for port in [PORTS.start, PORTS.start + 2] {
                if frame.bytes[port..port + 2] == 20049_u16.to_be_bytes() {
                    frame.bytes[port..port + 2].copy_from_slice(&20050_u16.to_be_bytes());
                }
            }
        }
        let key = 0xf6ab_0e18_u32.to_be_bytes();
        if let Some(at) = frame.bytes.windows(4).position(|bytes| bytes == key) {
            frame.bytes[at] = 0;
        }
    }
    let (findings, tallies) = check_whole(&frames);
    let judged: u64 = tallies.iter().map(|(_, tally)| tally.judged).sum();
    assert_eq!((findings.len(), judged), (0, 0), "{}", describe(&findings.iter().collect::<Vec<_>>()));
}
