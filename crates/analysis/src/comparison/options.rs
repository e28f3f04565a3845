//! Options of a comparison: `--ignore`, `--only`, `--strict` and tolerances.

use nfsrdma_dissectors::nfs::field_labels;

use super::difference::{Difference, DifferenceKind};
use super::field_equality::{FieldEqualityRequirement, pattern_covers, requirement_of_field};
use super::ignore_keys;
use super::record::ComparedFieldValue;
use crate::filter::catalog::nearest;
use crate::filter::error::proposal;

/// A word of `--ignore` or `--only`: a kind of difference (`count`), a field by its filter name (`nfs.fattr4.size`,
/// `nfs.fattr4.*`), or an operation (`READDIR`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoreKey {
    /// A kind of difference.
    Kind(DifferenceKind),
    /// A field, or a prefix of fields.
    Field(String),
    /// An operation, or a procedure.
    Operation(String),
}

impl std::str::FromStr for IgnoreKey {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(kind) = DifferenceKind::from_word(word) {
            return Ok(Self::Kind(kind));
        }
        if word.contains('.') || word.ends_with('*') {
            return ignore_keys::field(word).map(|()| Self::Field(word.to_owned()));
        }
        let is_operation =
            |character: char| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_';
        if !word.is_empty() && word.chars().all(is_operation) {
            return ignore_keys::operation(word).map(|()| Self::Operation(word.to_owned()));
        }
        Err(ignore_keys::unknown(word))
    }
}

/// Writes the word as given.
impl std::fmt::Display for IgnoreKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Field(text) | Self::Operation(text) => f.pad(text),
        }
    }
}

impl IgnoreKey {
    /// Returns all words with their descriptions.
    pub fn all() -> impl Iterator<Item = (String, String)> {
        let kinds = DifferenceKind::ALL.iter().map(|kind| (kind.word().to_owned(), kind.meaning().to_owned()));
        kinds.chain(ignore_keys::words().map(|(word, text)| (word.to_owned(), text.to_owned())))
    }

    fn matches(&self, difference: &Difference) -> bool {
        match self {
            Self::Kind(kind) => difference.kind == *kind,
            Self::Field(pattern) => !difference.field.is_empty() && pattern_covers(pattern, difference.field),
            Self::Operation(name) => {
                difference.operation.rsplit(' ').next() == Some(name) || difference.path.split('.').next() == Some(name)
            }
        }
    }
}

/// Lengths: a kind of difference, not a field.
const LENGTHS: [DifferenceKind; 3] = [DifferenceKind::Inline, DifferenceKind::ChunkLength, DifferenceKind::ChunkBytes];

/// Maximum distance of numbers of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct NumericTolerance {
    /// The fields, by filter name; or a length (`inline`), or a count of the capture (`frames`).
    pub fields: String,
    /// The maximum distance.
    pub max_difference: MaxNumericDifference,
}

impl NumericTolerance {
    /// Creates a tolerance for existing fields, for a length, or for one of these counts of a capture.
    ///
    /// # Errors
    /// Returns an error with the problem and a proposal.
    pub fn new(fields: &str, max_difference: MaxNumericDifference, counts: &[&str]) -> Result<Self, String> {
        let names = || LENGTHS.iter().map(|kind| kind.word()).chain(counts.iter().copied());
        let is_path = fields.contains('.');
        let is_known = names().any(|name| name == fields) || is_path && ignore_keys::field(fields).is_ok();
        if !is_known {
            let similar = nearest(fields, names());
            return Err(match ignore_keys::field(fields) {
                Err(error) if is_path && similar.is_empty() => error,
                _ => format!("unknown field, length or count {fields}{}", proposal(&similar)),
            });
        }
        Ok(Self { fields: fields.to_owned(), max_difference })
    }
}

/// Maximum distance of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxNumericDifference {
    /// An absolute distance.
    Absolute(u64),
    /// A percentage of the first number.
    Percent(f64),
}

impl std::str::FromStr for MaxNumericDifference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let max = match text.strip_suffix('%') {
            Some(number) => {
                let is_part = |percent: &f64| percent.is_finite() && *percent >= 0.0;
                number.parse().ok().filter(is_part).map(Self::Percent)
            }
            None => text.parse().ok().map(Self::Absolute),
        };
        max.ok_or_else(|| "give a number, such as 4096, or a percentage, such as 5%".to_owned())
    }
}

impl std::fmt::Display for MaxNumericDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absolute(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl MaxNumericDifference {
    /// Returns `true` if the distance of two numbers is allowed.
    pub fn allows(self, a: u64, b: u64) -> bool {
        match self {
            Self::Absolute(max) => a.abs_diff(b) <= max,
            Self::Percent(percent) => a.abs_diff(b) as f64 <= a as f64 * percent / 100.0,
        }
    }
}

/// Options that select the differences that count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonOptions {
    /// Excluded differences.
    pub ignore: Vec<IgnoreKey>,
    /// The only differences that count, unless empty.
    pub only: Vec<IgnoreKey>,
    /// Allowed distances of numbers.
    pub tolerances: Vec<NumericTolerance>,
    /// `true` if everything must be equal: names, times, order.
    pub strict: bool,
    /// `true` if both sides are one capture, decoded twice: no order or progress of operations may differ.
    pub exact: bool,
}

impl ComparisonOptions {
    /// Returns the reason why these options exclude all differences; `None` if they do not.
    pub fn contradiction(&self) -> Option<String> {
        if let Some(key) = self.only.iter().find(|key| self.ignore.contains(key)) {
            return Some(format!("{key} is in both --only and --ignore; name it once"));
        }
        let varies = |key: &&IgnoreKey| match key {
            // A time that a Call sets is an argument.
            IgnoreKey::Field(pattern) => {
                matches!(requirement_of_field(pattern, field_labels::TIME, true), FieldEqualityRequirement::Varies(_))
            }
            IgnoreKey::Kind(_) | IgnoreKey::Operation(_) => false,
        };
        let key = self.only.iter().find(varies).filter(|_| !self.strict)?;
        Some(format!("{key} is compared only with --strict"))
    }

    /// Returns `true` if a difference counts.
    pub fn includes(&self, difference: &Difference) -> bool {
        !self.ignore.iter().any(|key| key.matches(difference))
            && (self.only.is_empty() || self.only.iter().any(|key| key.matches(difference)))
    }

    /// Returns `true` if two values of a field are within its tolerance.
    pub(super) fn tolerates(&self, field: &str, a: &ComparedFieldValue, b: &ComparedFieldValue) -> bool {
        let number = |value: &ComparedFieldValue| match value {
            ComparedFieldValue::Number(number) => Some(*number),
            _ => None,
        };
        self.tolerances.iter().any(|tolerance| {
            pattern_covers(&tolerance.fields, field)
                && number(a).zip(number(b)).is_some_and(|(a, b)| tolerance.max_difference.allows(a, b))
        })
    }

    /// Returns `true` if two lengths or counts with this name are within its tolerance.
    pub(super) fn tolerates_count(&self, name: &str, a: u64, b: u64) -> bool {
        self.tolerances.iter().any(|tolerance| tolerance.fields == name && tolerance.max_difference.allows(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_kind_a_field_or_an_operation() {
        assert_eq!("count".parse(), Ok(IgnoreKey::Kind(DifferenceKind::Count)));
        assert_eq!("nfs.fattr4.*".parse(), Ok(IgnoreKey::Field("nfs.fattr4.*".into())));
        assert_eq!("READ_PLUS".parse(), Ok(IgnoreKey::Operation("READ_PLUS".into())));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_proposals() {
        let error = |word: &str| word.parse::<IgnoreKey>().unwrap_err();
        assert_eq!(error("REDA"), "unknown operation REDA; did you mean READ?");
        assert_eq!(
            error("nfs.fattr4.szie"),
            "unknown field nfs.fattr4.szie; did you mean nfs.fattr4.size, nfs.fattr.size or nfs.fattr3.size?"
        );
        let listed = "(compare --help lists them)";
        assert_eq!(error("counts"), format!("unknown difference kind counts; did you mean count? {listed}"));
        assert_eq!(error("stat"), format!("unknown difference kind stat; did you mean status? {listed}"));
        assert!(error("nfs.nosuch.*").starts_with("unknown field nfs.nosuch.*"));
        assert!(error("what, please").starts_with("give a kind of difference (client, "));
    }

    #[test]
    fn options_that_exclude_every_difference_are_contradictory() {
        let words = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect();
        let selection = |only: &[&str], ignore: &[&str]| ComparisonOptions {
            only: words(only),
            ignore: words(ignore),
            ..ComparisonOptions::default()
        };
        let both = selection(&["data", "READ"], &["READ"]).contradiction().unwrap();
        assert!(both.starts_with("READ is in both --only and --ignore"), "{both}");
        let time = selection(&["nfs.changeid4"], &[]);
        assert!(time.contradiction().unwrap().contains("compared only with --strict"));
        assert_eq!(ComparisonOptions { strict: true, ..time }.contradiction(), None);
        assert_eq!(selection(&["READ"], &["data"]).contradiction(), None);
    }

    #[test]
    fn a_tolerance_is_for_a_field_a_length_or_a_count() {
        let new = |fields: &str| {
            NumericTolerance::new(fields, MaxNumericDifference::Absolute(1), &["frames", "undecoded.malformed"])
        };
        for known in ["nfs.fattr4.size", "nfs.fattr4.*", "inline", "frames", "undecoded.malformed"] {
            assert!(new(known).is_ok(), "{known}");
        }
        assert_eq!(new("frame").unwrap_err(), "unknown field, length or count frame; did you mean frames?");
        assert_eq!(new("nfs.cuont4").unwrap_err(), "unknown field nfs.cuont4; did you mean nfs.count4 or nfs.count3?");
        assert!(new("data").is_err() && new("*").is_err());
    }

    #[test]
    fn tolerances_are_absolute_or_in_percent() {
        assert!(MaxNumericDifference::Absolute(5).allows(10, 15) && !MaxNumericDifference::Absolute(5).allows(10, 16));
        assert!(
            MaxNumericDifference::Percent(10.0).allows(100, 90)
                && !MaxNumericDifference::Percent(10.0).allows(100, 111)
        );
        assert_eq!("5%".parse(), Ok(MaxNumericDifference::Percent(5.0)));
        assert!("-5".parse::<MaxNumericDifference>().is_err() && "-5%".parse::<MaxNumericDifference>().is_err());
        assert!("inf%".parse::<MaxNumericDifference>().is_err() && "NaN%".parse::<MaxNumericDifference>().is_err());
    }
}
