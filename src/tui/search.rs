//! Search for a row. It runs in steps, so that keys are handled meanwhile, however many rows there are.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;

use super::model::transaction_list_row::TransactionRowWithText;

/// The target of a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SearchCriterion {
    /// A row with this text, ignoring case.
    Text(String),
    /// An incomplete Transaction.
    Incomplete,
    /// A failed Transaction.
    Failed,
    /// A slow Transaction.
    Slow,
    /// A marked Transaction.
    Marked,
    /// A Transaction with a part in this frame.
    Frame(FrameNumber),
    Xid(Xid),
    Index(u64),
    /// A Transaction that began at this time or later.
    Time(Timestamp),
}

impl SearchCriterion {
    /// Returns the message for a search without a match.
    pub(super) fn not_found_message(&self) -> String {
        match self {
            Self::Text(text) => format!("not found: {text:?}"),
            Self::Incomplete => "all transactions are complete".to_owned(),
            Self::Failed => "no transaction failed".to_owned(),
            Self::Slow => "no transaction is slow".to_owned(),
            Self::Marked => "nothing is marked; m marks".to_owned(),
            Self::Frame(frame) => format!("frame {frame} belongs to no transaction"),
            Self::Xid(xid) => format!("no transaction has XID {xid}"),
            Self::Index(index) => format!("no transaction {index}"),
            Self::Time(_) => "no transaction begins after that time".to_owned(),
        }
    }
}

/// A search in progress.
#[derive(Clone, Debug)]
pub(super) struct RunningSearch {
    pub(super) target: SearchCriterion,
    /// `true` if it searches forward.
    pub(super) is_forward: bool,
    /// Next position to check, and number of positions left.
    pub(super) next_position: usize,
    pub(super) remaining: usize,
    /// `true` if it has wrapped around.
    pub(super) has_wrapped: bool,
    /// Number of positions when it began or was extended.
    count: usize,
}

impl RunningSearch {
    /// Returns a search of `count` positions that begins next to `position`.
    pub(super) fn new(target: SearchCriterion, is_forward: bool, position: usize, count: usize) -> Self {
        let mut search =
            Self { target, is_forward, next_position: position, remaining: count + 1, has_wrapped: false, count };
        search.advance();
        search
    }

    /// Returns a search of `count` positions, forward from the first one.
    pub(super) fn from_start(target: SearchCriterion, count: usize) -> Self {
        Self { target, is_forward: true, next_position: 0, remaining: count, has_wrapped: false, count }
    }

    /// Continues with the new positions if there are more than before. The last `pending` positions may have moved.
    pub(super) fn extend(&mut self, count: usize, pending: usize) {
        if count > self.count {
            let start = self.count.saturating_sub(pending);
            (self.next_position, self.remaining) = (start, count - start);
            (self.count, self.has_wrapped) = (count, false);
        }
    }

    /// Returns `true` if the number of positions has changed since it began or was extended.
    pub(super) fn has_count_changed(&self, count: usize) -> bool {
        self.count != count
    }

    /// Advances to the next position.
    pub(super) fn advance(&mut self) {
        let last = self.count.saturating_sub(1);
        self.next_position = match (self.is_forward, self.next_position) {
            (true, at) if at >= last => {
                self.has_wrapped = true;
                0
            }
            (true, at) => at + 1,
            (false, 0) => {
                self.has_wrapped = true;
                last
            }
            (false, at) => at - 1,
        };
        self.remaining = self.remaining.saturating_sub(1);
    }
}

/// Returns `true` if `text` contains the lowercase text `small`, ignoring ASCII case.
pub(super) fn contains_ignore_case(text: &str, small: &str) -> bool {
    let (text, small) = (text.as_bytes(), small.as_bytes());
    small.is_empty() || text.windows(small.len()).any(|window| window.eq_ignore_ascii_case(small))
}

/// Returns `true` if the displayed text of a row contains `small`.
pub(super) fn has_text(entry: &TransactionRowWithText<'_>, small: &str) -> bool {
    contains_ignore_case(entry.label(), small)
        || contains_ignore_case(entry.status().0, small)
        || contains_ignore_case(entry.version(), small)
        || contains_ignore_case(entry.chunks(), small)
        || contains_ignore_case(&entry.row.xid.to_string(), small)
        || contains_ignore_case(&entry.client().to_string(), small)
}

/// Parses a location to go to: `590` and `frame 590` is a frame, `0xb38df27d` an XID, `1.5s` a time since the start,
/// `#61` a Transaction.
pub(super) fn parse_location(text: &str, start: Option<Timestamp>) -> Result<SearchCriterion, String> {
    let text = text.trim();
    let error = || {
        format!(
            "invalid location {text:?}; give a frame (590), an XID (0xb38df27d), a time (1.5s) or a transaction (#61)"
        )
    };
    let seconds = |text: &str| text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).map(|xid| SearchCriterion::Xid(Xid(xid))).map_err(|_| error());
    }
    if let Some(digits) = text.strip_prefix('#') {
        return digits.trim().parse().map(SearchCriterion::Index).map_err(|_| error());
    }
    let time = text.strip_suffix('s').and_then(seconds);
    let time = time.or_else(|| text.contains('.').then(|| seconds(text)).flatten());
    if let Some(time) = time {
        let start = start.ok_or("the start time of the capture is not known yet")?;
        return Ok(SearchCriterion::Time(Timestamp(start.0.saturating_add((time * 1e9) as i64))));
    }
    let digits = text.strip_prefix("frame").unwrap_or(text).trim();
    digits.parse().map(|frame| SearchCriterion::Frame(FrameNumber(frame))).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_location_follows_from_its_notation() {
        let start = Some(Timestamp(1_000_000_000));
        let at = |text| parse_location(text, start).unwrap();
        assert_eq!(at("590"), SearchCriterion::Frame(FrameNumber(590)));
        assert_eq!(at(" frame 590 "), SearchCriterion::Frame(FrameNumber(590)));
        assert_eq!(at("0xb38df27d"), SearchCriterion::Xid(Xid(0xb38d_f27d)));
        assert_eq!(at("#61"), SearchCriterion::Index(61));
        assert_eq!(at("1.5"), SearchCriterion::Time(Timestamp(2_500_000_000)));
        assert_eq!(at("2s"), SearchCriterion::Time(Timestamp(3_000_000_000)));
        for wrong in ["", "x", "0x", "0xb38df27d00", "#", "1.2.3", "infs", "frame"] {
            assert!(parse_location(wrong, start).unwrap_err().contains("invalid location"), "{wrong}");
        }
        assert!(parse_location("1.5", None).is_err());
    }

    #[test]
    fn a_hunt_looks_at_every_position_once_and_at_the_first_one_last() {
        for is_forward in [true, false] {
            let mut hunt = RunningSearch::new(SearchCriterion::Failed, is_forward, 2, 5);
            let mut seen = Vec::new();
            for _ in 0..5 {
                seen.push(hunt.next_position);
                hunt.advance();
            }
            assert_eq!(seen, if is_forward { [3, 4, 0, 1, 2] } else { [1, 0, 4, 3, 2] });
        }
    }

    #[test]
    fn a_search_continues_with_rows_added_meanwhile() {
        let mut hunt = RunningSearch::from_start(SearchCriterion::Failed, 2);
        hunt.advance();
        hunt.advance();
        assert_eq!(hunt.remaining, 0);
        hunt.extend(2, 0);
        assert_eq!(hunt.remaining, 0);
        hunt.extend(5, 0);
        assert_eq!((hunt.next_position, hunt.remaining, hunt.has_wrapped), (2, 3, false));
    }

    #[test]
    fn text_is_found_in_any_case() {
        assert!(contains_ignore_case("READ /Data/log", "data"));
        assert!(contains_ignore_case("x", ""));
        assert!(!contains_ignore_case("dat", "data"));
    }
}
