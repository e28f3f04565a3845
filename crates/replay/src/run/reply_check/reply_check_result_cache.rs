//! Cache of reply pairs whose result is known from their bytes.
//!
//! A run has thousands of pairs that differ only in XID, sequence ID, times and data. A pair that was decoded and found
//! to match, or to differ as a rule tolerates, creates a [`CheckedReplyPairPattern`]: a class for each byte of the
//! message. If another pair agrees with the pattern, both its messages would be decoded the same way, with the same
//! result. Otherwise it is decoded: a pattern never finds a difference.

use std::ops::Range;
use std::rc::Rc;

use nfsrdma_analysis::comparison::comparable_transaction_recorder::LocatedField;
use nfsrdma_analysis::comparison::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use nfsrdma_analysis::comparison::field_path::FieldPath;
use nfsrdma_analysis::comparison::identity_map::ServerAssignedValueHash;
use nfsrdma_analysis::comparison::record::{ComparedFieldValue, hash};
use nfsrdma_analysis::comparison::record_comparison::{ComparedFieldAndByteCounts, OPERATION_COUNT_FIELD};
use nfsrdma_dissectors::field::FieldValue;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::xdr::ChunkedDataItem;
use rustc_hash::FxHashMap;

use super::attribute_relations::reply_attribute_values::MatchedReplyAttribute;
use super::reply_pair::{ReplyCheckResult, ReplyPair};
use super::reply_sections::{is_incomparable, makes_names};

/// Maximum number of message lengths with patterns.
const MAX_LENGTHS: usize = 1024;
/// Maximum number of patterns per length.
const MAX_PATTERNS_PER_LENGTH: usize = 8;
/// Maximum length of a message with a pattern in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Number of decoded pairs of one length since the last hit after which no more patterns are created.
const MAX_UNUSED_PATTERNS: u32 = 64;

/// Class of message bytes for the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyPatternByteRequirement {
    /// They determine how the rest is decoded, or may do so: on each side they must equal those of the pattern.
    Fixed,
    /// A result that does not affect decoding: it must be the same on both sides.
    Equal,
    Free,
}

#[derive(Debug)]
pub(super) struct ReplyPatternIdentitySlot {
    /// Index and name of the operation.
    pub(super) section: (usize, Rc<str>),
    pub(super) path: Rc<FieldPath>,
    pub(super) identity: MappedIdentifierType,
    bytes: Range<usize>,
    /// Last pair of values, which is often the next one, too.
    last_pair: Option<[(Box<[u8]>, ServerAssignedValueHash); 2]>,
}

impl ReplyPatternIdentitySlot {
    /// Returns the identifiers of both sides and stores them as last pair; `None` if it must be decoded.
    pub(super) fn names(&mut self, sides: [&[u8]; 2]) -> Option<[ServerAssignedValueHash; 2]> {
        let [a, b] = sides.map(|side| side.get(self.bytes.clone()));
        let side_bytes = [a?, b?];
        if let Some([recorded, live]) = &self.last_pair
            && *recorded.0 == *side_bytes[0]
            && *live.0 == *side_bytes[1]
        {
            return Some([recorded.1, live.1]);
        }
        let name = |bytes: &[u8]| {
            ServerAssignedValueHash::from_value(self.identity, &ComparedFieldValue::from_bytes(bytes), None)
        };
        let names = [name(side_bytes[0])?, name(side_bytes[1])?];
        self.last_pair = Some([(side_bytes[0].into(), names[0]), (side_bytes[1].into(), names[1])]);
        Some(names)
    }

    pub(super) fn values(&self, sides: [&[u8]; 2]) -> [ComparedFieldValue; 2] {
        sides.map(|side| ComparedFieldValue::from_bytes(side.get(self.bytes.clone()).unwrap_or_default()))
    }
}

#[derive(Debug)]
pub(super) struct CheckedReplyPairPattern {
    procedure: Option<Procedure>,
    overlapped_in_capture: bool,
    sides: [Box<[u8]>; 2],
    /// Ranges that cover the message, in order, with their class.
    byte_classes: Vec<(Range<usize>, ReplyPatternByteRequirement)>,
    /// Lengths of the data items in Write chunks.
    items: Vec<u32>,
    /// Filehandles, and verifiers that show a loss of uncommitted data.
    pub(super) identities: Vec<ReplyPatternIdentitySlot>,
    /// Attributes with relations to earlier values, and number of executed operations.
    pub(super) attribute_pairs: Vec<MatchedReplyAttribute>,
    pub(super) operation_count: usize,
    pub(super) verdict: ReplyCheckResult,
    pub(super) compared: ComparedFieldAndByteCounts,
    pub(super) makes_names: bool,
}

impl CheckedReplyPairPattern {
    /// Creates the pattern of a decoded pair. `live_fields` are the fields of both messages with their positions,
    /// `compared` the counts of the comparison. Returns `None` if the pair is not suitable.
    pub(super) fn of(
        replies: &ReplyPair<'_>,
        [recorded_fields, live_fields]: [&[LocatedField<'_>]; 2],
        (verdict, compared): (&ReplyCheckResult, ComparedFieldAndByteCounts),
        (pairs, sections): (Vec<MatchedReplyAttribute>, usize),
        may_have_restarted: bool,
    ) -> Option<Self> {
        let sides = [replies.recorded.rest(), replies.live.rest()];
        let [recorded, live] = sides;
        let is_known =
            matches!(verdict, ReplyCheckResult::Matched | ReplyCheckResult::Tolerated(_)) && compared.unknown == 0;
        // The segments of READ_PLUS are joined before the comparison.
        let is_in_parts = live_fields.iter().any(|field| &*field.section.1 == Operation::READ_PLUS.name());
        let is_same_field = |(a, b): (&LocatedField<'_>, &LocatedField<'_>)| {
            Rc::ptr_eq(&a.path, &b.path) && a.bytes == b.bytes && a.section.0 == b.section.0
        };
        let is_read_alike = recorded.len() == live.len()
            && recorded_fields.len() == live_fields.len()
            && recorded_fields.iter().zip(live_fields).all(is_same_field);
        if !is_known || !is_read_alike || live.len() > MAX_MESSAGE_BYTES || replies.listing.is_some() || is_in_parts {
            return None;
        }
        let mut pattern = Self {
            procedure: replies.procedure,
            overlapped_in_capture: replies.is_racing,
            sides: sides.map(Box::from),
            byte_classes: Vec::new(),
            items: Vec::new(),
            identities: Vec::new(),
            attribute_pairs: pairs,
            operation_count: sections,
            verdict: verdict.clone(),
            compared,
            makes_names: live_fields.iter().any(|field| makes_names(&field.section.1)),
        };
        let mut classes = vec![ReplyPatternByteRequirement::Fixed; live.len()];
        for field in live_fields {
            let (section, path) = (&field.section, &field.path);
            if let FieldValue::Chunk(length, _) = field.value {
                pattern.items.push(length);
            }
            let is_left_out = is_incomparable(&section.1, path, may_have_restarted);
            let (bytes, class) = field_byte_class(field, is_left_out);
            if let (FieldEqualityRequirement::Identity(identity), false) = (path.class, is_left_out) {
                if class != ReplyPatternByteRequirement::Free {
                    return None;
                }
                let (section, path, bytes) = (section.clone(), Rc::clone(path), bytes.clone());
                let slot = ReplyPatternIdentitySlot { section, path, identity, bytes, last_pair: None };
                pattern.identities.push(slot);
            }
            classes.get_mut(bytes)?.fill(class);
        }
        let mut at = 0;
        for run in classes.chunk_by(PartialEq::eq) {
            let end = at + run.len();
            pattern.byte_classes.extend(run.first().map(|class| (at..end, *class)));
            at = end;
        }
        pattern.matches_messages(sides).then_some(pattern)
    }

    /// Returns `true` if both messages would be decoded like those of the pattern, with the same result.
    fn matches_messages(&self, [recorded, live]: [&[u8]; 2]) -> bool {
        let is_like =
            |messages: [&[u8]; 2], run: &Range<usize>| messages[0].get(run.clone()) == messages[1].get(run.clone());
        let [known_recorded, known_live] = &self.sides;
        recorded.len() == known_recorded.len()
            && live.len() == known_live.len()
            && self.byte_classes.iter().all(|(run, class)| match class {
                ReplyPatternByteRequirement::Free => true,
                ReplyPatternByteRequirement::Equal => is_like([recorded, live], run),
                ReplyPatternByteRequirement::Fixed => {
                    is_like([recorded, known_recorded], run) && is_like([live, known_live], run)
                }
            })
    }

    /// Returns `true` if the Write chunks have the lengths of the items and the expected content.
    fn matches_chunk_data(&self, hashes: &[(u32, Option<u128>)], chunks: &[ChunkedDataItem<'_>]) -> bool {
        let is_same_item =
            |((length, (stored, expected)), chunk): ((&u32, &(u32, Option<u128>)), &ChunkedDataItem<'_>)| {
                let bytes = chunk.bytes.filter(|bytes| bytes.len() == *length as usize);
                length == stored
                    && chunk.length == *length
                    && bytes.zip(*expected).is_some_and(|(bytes, expected)| hash(bytes) == expected)
            };
        self.items.len() == hashes.len()
            && self.items.len() == chunks.len()
            && self.items.iter().zip(hashes).zip(chunks).all(is_same_item)
    }
}

/// Returns the bytes of a field that matter, and their class.
fn field_byte_class(field: &LocatedField<'_>, is_left_out: bool) -> (Range<usize>, ReplyPatternByteRequirement) {
    use ReplyPatternByteRequirement::{Equal, Fixed, Free};
    let LocatedField { path, bytes, value, .. } = field;
    let is_compared = matches!(path.class, FieldEqualityRequirement::Equal(_) | FieldEqualityRequirement::Racing(_));
    let varies = matches!(path.class, FieldEqualityRequirement::Varies(_));
    let is_identity = matches!(path.class, FieldEqualityRequirement::Identity(_));
    let (is_header, is_count) = (field_names::is_of_rpc(path.field), path.field == OPERATION_COUNT_FIELD);
    let (class, content) = match *value {
        FieldValue::Unsigned(_) if path.field == field_names::RPC_XID => (Free, None),
        // These may determine how the rest is decoded.
        _ if is_header || is_count || path.leaf() == field_labels::ATTRMASK => (Fixed, None),
        FieldValue::Bytes(text) | FieldValue::Text(text) if varies || is_identity => (Free, Some(text)),
        FieldValue::Bytes(text) | FieldValue::Text(text) if is_compared => (Equal, Some(text)),
        FieldValue::Unsigned(_) if varies || is_left_out => (Free, None),
        FieldValue::Signed(_) if varies => (Free, None),
        // A hyper is never the count of following items.
        FieldValue::Unsigned(_) | FieldValue::Signed(_) if is_compared && bytes.len() == 8 => (Equal, None),
        _ => (Fixed, None),
    };
    // Content without its length.
    let start = content.map_or(bytes.start, |content| bytes.end.saturating_sub(content.len()));
    (start..bytes.end, class)
}

#[derive(Debug, Default)]
struct SameLengthReplyPatterns {
    patterns: Vec<CheckedReplyPairPattern>,
    /// Index of the pattern to be replaced next.
    next: usize,
    /// Number of decoded pairs since the last hit.
    unused_patterns: u32,
}

#[derive(Debug, Default)]
pub(super) struct ReplyCheckResultCache {
    by_length: FxHashMap<usize, SameLengthReplyPatterns>,
}

impl ReplyCheckResultCache {
    /// Removes all patterns, after a change of the comparison.
    pub(super) fn clear(&mut self) {
        self.by_length.clear();
    }

    pub(super) fn find(&mut self, replies: &ReplyPair<'_>) -> Option<&mut CheckedReplyPairPattern> {
        if replies.listing.is_some() {
            return None;
        }
        let sides = [replies.recorded.rest(), replies.live.rest()];
        let of_length = self.by_length.get_mut(&sides[1].len())?;
        let at = of_length.patterns.iter().position(|pattern| {
            pattern.procedure == replies.procedure
                && pattern.overlapped_in_capture == replies.is_racing
                && pattern.matches_messages(sides)
                && pattern.matches_chunk_data(replies.known, replies.chunks)
        })?;
        of_length.unused_patterns = 0;
        of_length.patterns.get_mut(at)
    }

    /// Returns `true` if a decoded pair with the same layout is known.
    pub(super) fn has_layout(&self, procedure: Option<Procedure>, sides: [&[u8]; 2]) -> bool {
        let of_length = self.by_length.get(&sides[1].len());
        let mut patterns = of_length.iter().flat_map(|of_length| &of_length.patterns);
        patterns.any(|pattern| pattern.procedure == procedure && pattern.matches_messages(sides))
    }

    pub(super) fn wants_pattern(&self, length: usize) -> bool {
        match self.by_length.get(&length) {
            Some(of_length) => of_length.unused_patterns < MAX_UNUSED_PATTERNS,
            None => length <= MAX_MESSAGE_BYTES && self.by_length.len() < MAX_LENGTHS,
        }
    }

    /// Stores the pattern of a pair of this length, if it has one, replacing the oldest at the limit.
    pub(super) fn insert(&mut self, length: usize, pattern: Option<CheckedReplyPairPattern>) {
        let of_length = self.by_length.entry(length).or_default();
        of_length.unused_patterns += 1;
        let Some(pattern) = pattern else { return };
        match of_length.patterns.get_mut(of_length.next) {
            Some(entry) => *entry = pattern,
            None => of_length.patterns.push(pattern),
        }
        of_length.next = (of_length.next + 1) % MAX_PATTERNS_PER_LENGTH;
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v3;
    use nfsrdma_dissectors::xdr::Cursor;

    use super::*;
    use crate::run::reply_check::ReplyChecker;
    use crate::run::reply_check::reply_pair::ReplyCheckResult;
    use nfsrdma_analysis::comparison::options::ComparisonOptions;

    /// A Reply of GETATTR: RFC 1813 section 3.3.1.
    fn reply(xid: u32, links: u32, size: u32, time: u32) -> Vec<u8> {
        let header = [xid, 1, 0, 0, 0, 0, 0];
        let attributes = [1, 0o644, links, 0, 0, 0, size, 0, 4096, 0, 0, 0, 7, 0, 99];
        let times = [time, 0, time, 0, time, 0];
        [&header[..], &attributes, &times].concat().iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn replies<'a>(recorded: &'a [u8], live: &'a [u8]) -> ReplyPair<'a> {
        ReplyPair {
            step: 1,
            frames: [1, 2],
            title: "NFS 3 GETATTR",
            procedure: Some(Procedure::V3(v3::Procedure::GETATTR)),
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

    /// Returns a Reply of GETATTR with this mode.
    fn reply_with_mode(mode: u32) -> Vec<u8> {
        let mut reply = reply(1, 1, 100, 5);
        reply[32..36].copy_from_slice(&mode.to_be_bytes());
        reply
    }

    #[test]
    fn rfc1813_section_2_6_a_mode_is_its_last_12_bits() {
        let mut judge = ReplyChecker::new(false, [], ComparisonOptions::default());
        let [plain, typed, other] = [0o644, 0o100_644, 0o100_600].map(reply_with_mode);
        for _ in 0..2 {
            assert_eq!(judge.check(&replies(&typed, &plain)), ReplyCheckResult::Matched);
            assert_eq!(judge.check(&replies(&plain, &typed)), ReplyCheckResult::Matched);
        }
        assert!(matches!(judge.check(&replies(&typed, &other)), ReplyCheckResult::Mismatched(_)));
    }

    fn judge_of(recorded: &[u8], live: &[u8]) -> ReplyChecker {
        let mut judge = ReplyChecker::new(false, [], ComparisonOptions::default());
        assert_eq!(judge.check(&replies(recorded, live)), ReplyCheckResult::Matched);
        judge
    }

    #[test]
    fn fields_free_to_differ_and_equal_fields_match_by_pattern() {
        let mut judge = judge_of(&reply(1, 1, 100, 5), &reply(11, 1, 100, 6));
        let (recorded, live) = (reply(2, 1, 300, 7), reply(12, 1, 300, 8));
        assert!(judge.patterns.find(&replies(&recorded, &live)).is_some());
        let before = judge.compared;
        assert_eq!(judge.check(&replies(&recorded, &live)), ReplyCheckResult::Matched);
        assert_eq!(judge.compared.since(before), before, "it is counted as if it were read");
    }

    #[test]
    fn a_difference_tolerated_by_a_rule_is_tolerated_by_pattern() {
        // NFS3ERR_NOTSUPP and NFS3ERR_SERVERFAULT: RFC 1813 section 2.6.
        let refusal = |xid: u32, status: u32| {
            [xid, 1, 0, 0, 0, 0, status].iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()
        };
        let mut judge = ReplyChecker::new(false, [], ComparisonOptions::default());
        let (recorded, live) = (refusal(1, 13), refusal(11, 1));
        let verdict = judge.check(&replies(&recorded, &live));
        assert!(matches!(verdict, ReplyCheckResult::Tolerated(_)), "{verdict:?}");
        let (recorded, live) = (refusal(2, 13), refusal(12, 1));
        assert!(judge.patterns.find(&replies(&recorded, &live)).is_some());
        assert_eq!(judge.check(&replies(&recorded, &live)), verdict);
        assert!(judge.patterns.find(&replies(&live, &recorded)).is_none(), "the other way it is another pair");
    }

    #[test]
    fn a_difference_where_equality_is_required_matches_no_pattern() {
        let mut judge = judge_of(&reply(1, 1, 100, 5), &reply(11, 1, 100, 6));
        for other in [reply(12, 1, 301, 8), reply(12, 2, 300, 8), reply(12, 1, 300, 8)[..40].to_vec()] {
            let recorded = reply(2, 1, 300, 7);
            assert!(judge.patterns.find(&replies(&recorded, &other)).is_none());
            assert_ne!(judge.check(&replies(&recorded, &other)), ReplyCheckResult::Matched);
        }
    }

    #[test]
    fn a_word_that_may_determine_the_layout_is_part_of_the_pattern() {
        let mut judge = judge_of(&reply(1, 1, 100, 5), &reply(11, 1, 100, 6));
        let both = reply(2, 2, 100, 5);
        assert!(judge.patterns.find(&replies(&both, &both)).is_none());
        assert_eq!(judge.check(&replies(&both, &both)), ReplyCheckResult::Matched);
        assert!(judge.patterns.find(&replies(&both, &both)).is_some(), "it has a pattern of its own");
    }

    #[test]
    fn lengths_with_too_many_unused_patterns_get_no_more() {
        let mut alike = ReplyCheckResultCache::default();
        (0..MAX_UNUSED_PATTERNS).for_each(|_| alike.insert(100, None));
        assert!(!alike.wants_pattern(100) && alike.wants_pattern(104));
        assert!(!alike.wants_pattern(MAX_MESSAGE_BYTES + 1));
    }

    /// A Reply of CREATE: RFC 1813 section 3.3.8.
    fn created(mode: u32) -> Vec<u8> {
        let (header, handle) = ([1, 1, 0, 0, 0, 0, 0], [1, 4, 77]);
        let attributes = [1, 1, mode, 1, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 7, 0, 99];
        let (times, parent) = ([5, 0, 5, 0, 5, 0], [0, 0]);
        [&header[..], &handle, &attributes, &times, &parent]
            .concat()
            .iter()
            .flat_map(|word: &u32| word.to_be_bytes())
            .collect()
    }

    #[test]
    fn rfc1813_section_3_3_8_the_mode_after_an_exclusive_create_is_the_servers() {
        let (linux, ganesha) = (created(0), created(0o600));
        let of = |creates_exclusively| ReplyPair {
            procedure: Some(Procedure::V3(v3::Procedure::CREATE)),
            creates_exclusively,
            ..replies(&linux, &ganesha)
        };
        let judge = || ReplyChecker::new(false, [], ComparisonOptions::default());
        let tolerated = ReplyCheckResult::Tolerated(crate::run::tolerance_rules::EXCLUSIVE_CREATE);
        let mut one = judge();
        assert_eq!(one.check(&of(true)), tolerated);
        assert!(matches!(one.check(&of(false)), ReplyCheckResult::Mismatched(_)), "no pattern tolerates it");
        assert!(matches!(judge().check(&of(false)), ReplyCheckResult::Mismatched(_)));
        let without = [crate::run::tolerance_rules::EXCLUSIVE_CREATE.name];
        let mut strict = ReplyChecker::new(false, without, ComparisonOptions::default());
        assert!(matches!(strict.check(&of(true)), ReplyCheckResult::Mismatched(_)));
    }
}
