//! Which differences count: `--ignore`, `--only`, `--strict`, and how far numbers may be apart.

use super::difference::{Difference, Kind};
use super::record::Datum;
use super::role::covers;

/// What a word of `--ignore` or `--only` is about: a kind of difference (`count`), a field by its filter name
/// (`nfs.fattr4.size`, `nfs.fattr4.*`), or an operation (`READDIR`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A kind of difference.
    Kind(Kind),
    /// Fields.
    Field(String),
    /// An operation, or a procedure.
    Operation(String),
}

impl std::str::FromStr for Word {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(kind) = Kind::of(word) {
            return Ok(Self::Kind(kind));
        }
        if word.contains('.') || word.ends_with('*') {
            return Ok(Self::Field(word.to_owned()));
        }
        let is_operation =
            |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        if !word.is_empty() && word.chars().all(is_operation) {
            return Ok(Self::Operation(word.to_owned()));
        }
        let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        Err(format!(
            "give a kind of difference ({}), a field such as nfs.fattr4.size, or an operation such as READ",
            kinds.join(", ")
        ))
    }
}

/// As it is given.
impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Field(text) | Self::Operation(text) => f.pad(text),
        }
    }
}

impl Word {
    fn is_about(&self, difference: &Difference) -> bool {
        match self {
            Self::Kind(kind) => difference.kind == *kind,
            Self::Field(pattern) => !difference.field.is_empty() && covers(pattern, difference.field),
            Self::Operation(name) => {
                difference.operation.rsplit(' ').next() == Some(name)
                    || difference.path.split('.').next() == Some(name)
            }
        }
    }
}

/// How far numbers of a field may be apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// The fields, by filter name.
    pub fields: String,
    /// By how much at most.
    pub most: Most,
}

/// The distance of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Most {
    /// At most so much.
    Absolute(u64),
    /// At most so many percent of the first.
    Percent(f64),
}

impl std::str::FromStr for Most {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let most = match text.strip_suffix('%') {
            Some(number) => number.parse().ok().filter(|percent| *percent >= 0.0).map(Self::Percent),
            None => text.parse().ok().map(Self::Absolute),
        };
        most.ok_or_else(|| "give a number, such as 4096, or a part, such as 5%".to_owned())
    }
}

impl std::fmt::Display for Most {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absolute(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Most {
    /// Whether two numbers are near enough.
    pub fn allows(self, a: u64, b: u64) -> bool {
        match self {
            Self::Absolute(most) => a.abs_diff(b) <= most,
            Self::Percent(percent) => a.abs_diff(b) as f64 <= a as f64 * percent / 100.0,
        }
    }
}

/// Which differences count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// These do not.
    pub ignore: Vec<Word>,
    /// None but these do, unless there are none.
    pub only: Vec<Word>,
    /// Numbers that may be apart.
    pub tolerances: Vec<Tolerance>,
    /// Everything is compared as it is: names, times, order.
    pub strict: bool,
    /// Both sides are one capture, decoded twice: no operation comes in another order or shows another's progress.
    pub exact: bool,
}

impl Selection {
    /// Whether a difference counts.
    pub fn counts(&self, difference: &Difference) -> bool {
        !self.ignore.iter().any(|word| word.is_about(difference))
            && (self.only.is_empty() || self.only.iter().any(|word| word.is_about(difference)))
    }

    /// Whether two values of a field are near enough.
    pub(super) fn tolerates(&self, field: &str, a: &Datum, b: &Datum) -> bool {
        let number = |datum: &Datum| match datum {
            Datum::Number(number) => Some(*number),
            Datum::Written(text) => text.parse().ok(),
            _ => None,
        };
        self.tolerances.iter().any(|tolerance| {
            covers(&tolerance.fields, field)
                && number(a).zip(number(b)).is_some_and(|(a, b)| tolerance.most.allows(a, b))
        })
    }

    /// Whether two lengths are near enough that are no field, but a kind of difference.
    pub(super) fn tolerates_length(&self, kind: Kind, a: u64, b: u64) -> bool {
        self.tolerances.iter().any(|tolerance| tolerance.fields == kind.word() && tolerance.most.allows(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_kind_a_field_or_an_operation() {
        assert_eq!("count".parse(), Ok(Word::Kind(Kind::Count)));
        assert_eq!("nfs.fattr4.*".parse(), Ok(Word::Field("nfs.fattr4.*".into())));
        assert_eq!("READ_PLUS".parse(), Ok(Word::Operation("READ_PLUS".into())));
        assert!("counts".parse::<Word>().is_err());
    }

    #[test]
    fn numbers_may_be_apart_by_so_much_or_by_a_part() {
        assert!(Most::Absolute(5).allows(10, 15) && !Most::Absolute(5).allows(10, 16));
        assert!(Most::Percent(10.0).allows(100, 90) && !Most::Percent(10.0).allows(100, 111));
        assert_eq!("5%".parse(), Ok(Most::Percent(5.0)));
        assert!("-5".parse::<Most>().is_err() && "-5%".parse::<Most>().is_err());
    }
}
