//! The tokens of filters.

use super::error::FilterError;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FilterToken<'t> {
    pub(super) kind: FilterTokenKind<'t>,
    /// Offset of the first byte.
    pub(super) at: usize,
    /// Offset after the last byte.
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterTokenKind<'t> {
    /// The name of a field or of a function, a number, an address, bytes, a keyword.
    Word(&'t str),
    /// A string in double quotes, with escapes resolved, or raw with the prefix `r`.
    Quoted(Vec<u8>),
    /// A character in single quotes.
    Char(u8),
    /// The text between `[` and `]`.
    Slice(&'t str),
    Sign(FilterPunctuator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterPunctuator {
    Open,
    Close,
    OpenBrace,
    CloseBrace,
    Comma,
    Range,
    Relation(ParsedComparisonOperator),
    And,
    Or,
    Xor,
    Not,
    Arithmetic(ArithmeticOperator),
}

/// The signs, longer ones first.
const SIGNS: [(&str, FilterPunctuator); 27] = [
    ("===", FilterPunctuator::Relation(ParsedComparisonOperator::AllEqual)),
    ("!==", FilterPunctuator::Relation(ParsedComparisonOperator::AnyNotEqual)),
    ("==", FilterPunctuator::Relation(ParsedComparisonOperator::Equal)),
    ("!=", FilterPunctuator::Relation(ParsedComparisonOperator::NotEqual)),
    ("~=", FilterPunctuator::Relation(ParsedComparisonOperator::AnyNotEqual)),
    (">=", FilterPunctuator::Relation(ParsedComparisonOperator::GreaterEqual)),
    ("<=", FilterPunctuator::Relation(ParsedComparisonOperator::LessEqual)),
    ("&&", FilterPunctuator::And),
    ("||", FilterPunctuator::Or),
    ("^^", FilterPunctuator::Xor),
    ("..", FilterPunctuator::Range),
    ("(", FilterPunctuator::Open),
    (")", FilterPunctuator::Close),
    ("{", FilterPunctuator::OpenBrace),
    ("}", FilterPunctuator::CloseBrace),
    (",", FilterPunctuator::Comma),
    (">", FilterPunctuator::Relation(ParsedComparisonOperator::Greater)),
    ("<", FilterPunctuator::Relation(ParsedComparisonOperator::Less)),
    ("~", FilterPunctuator::Relation(ParsedComparisonOperator::Matches)),
    ("!", FilterPunctuator::Not),
    ("&", FilterPunctuator::Arithmetic(ArithmeticOperator::And)),
    ("+", FilterPunctuator::Arithmetic(ArithmeticOperator::Add)),
    ("-", FilterPunctuator::Arithmetic(ArithmeticOperator::Subtract)),
    ("*", FilterPunctuator::Arithmetic(ArithmeticOperator::Multiply)),
    ("/", FilterPunctuator::Arithmetic(ArithmeticOperator::Divide)),
    ("%", FilterPunctuator::Arithmetic(ArithmeticOperator::Remainder)),
    // Old filters and those of other programs may have it.
    ("=", FilterPunctuator::Relation(ParsedComparisonOperator::Equal)),
];

impl FilterPunctuator {
    pub(super) fn text(self) -> &'static str {
        SIGNS.iter().find(|(_, punctuator)| *punctuator == self).map_or("", |(text, _)| text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsedComparisonOperator {
    Equal,
    AllEqual,
    NotEqual,
    AnyNotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Contains,
    Matches,
}

const RELATION_WORDS: [(&str, ParsedComparisonOperator); 12] = [
    ("eq", ParsedComparisonOperator::Equal),
    ("any_eq", ParsedComparisonOperator::Equal),
    ("all_eq", ParsedComparisonOperator::AllEqual),
    ("ne", ParsedComparisonOperator::NotEqual),
    ("all_ne", ParsedComparisonOperator::NotEqual),
    ("any_ne", ParsedComparisonOperator::AnyNotEqual),
    ("gt", ParsedComparisonOperator::Greater),
    ("ge", ParsedComparisonOperator::GreaterEqual),
    ("lt", ParsedComparisonOperator::Less),
    ("le", ParsedComparisonOperator::LessEqual),
    ("contains", ParsedComparisonOperator::Contains),
    ("matches", ParsedComparisonOperator::Matches),
];

impl ParsedComparisonOperator {
    /// Returns the operator as written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Contains => "contains",
            Self::Matches => "matches",
            _ => FilterPunctuator::Relation(self).text(),
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        RELATION_WORDS.iter().find(|(name, _)| *name == word).map(|(_, relation)| *relation)
    }

    pub(super) fn from_token(token: &FilterTokenKind<'_>) -> Option<Self> {
        match token {
            FilterTokenKind::Sign(FilterPunctuator::Relation(relation)) => Some(*relation),
            FilterTokenKind::Word(word) => Self::from_word(word),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArithmeticOperator {
    And,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

pub(super) fn tokens(text: &str) -> Result<Vec<FilterToken<'_>>, FilterError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let token = token(text, at, first)?;
        at = token.end;
        tokens.push(token);
    }
    Ok(tokens)
}

fn token(text: &str, at: usize, first: char) -> Result<FilterToken<'_>, FilterError> {
    let rest = text.get(at..).unwrap_or_default();
    let error = |at: usize, message: String| FilterError::new(text, at, message);
    if first == '"' {
        let (bytes, length) = quoted(text, at, 1, false)?;
        return Ok(FilterToken { kind: FilterTokenKind::Quoted(bytes), at, end: at + length });
    }
    if rest.starts_with("r\"") || rest.starts_with("R\"") {
        let (bytes, length) = quoted(text, at, 2, true)?;
        return Ok(FilterToken { kind: FilterTokenKind::Quoted(bytes), at, end: at + length });
    }
    if first == '\'' {
        return character(text, at);
    }
    if first == '[' {
        let end = rest.find(']').ok_or_else(|| error(at, "unclosed [".to_owned()))?;
        let slice_text = rest.get(1..end).unwrap_or_default();
        return Ok(FilterToken { kind: FilterTokenKind::Slice(slice_text), at, end: at + end + 1 });
    }
    let length = word(rest);
    if length > 0 {
        let word = rest.get(..length).unwrap_or_default();
        return Ok(FilterToken { kind: FilterTokenKind::Word(word), at, end: at + length });
    }
    match SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
        Some((sign, punctuator)) => {
            Ok(FilterToken { kind: FilterTokenKind::Sign(*punctuator), at, end: at + sign.len() })
        }
        None if first == '#' => Err(error(at, "the layer operator (#) is not supported".to_owned())),
        None if first == '@' => Err(error(at, "the raw-bytes operator (@) is not supported".to_owned())),
        None if first == '$' => Err(error(at, "field references (${}) are not supported".to_owned())),
        None => Err(error(at, format!("unexpected character {first:?}"))),
    }
}

/// Returns the length of the word at the start; 0 if there is none.
fn word(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_start =
        is_word(at(0)) || at(0) == b':' && (is_word(at(1)) || at(1) == b':') || at(0) == b'.' && is_word(at(1));
    if !is_start {
        return 0;
    }
    let mut length = 0;
    loop {
        let prefix = rest.get(..length).unwrap_or_default();
        let next_is_word = is_word(at(length + 1));
        let is_continued = match at(length) {
            byte if is_word(byte) => true,
            b':' => true,
            // Two dots are a range.
            b'.' => at(length + 1) != b'.',
            b'-' => length > 0 && next_is_word,
            // The prefix length of an address, not a division.
            b'/' => is_address(prefix) && at(length + 1).is_ascii_digit(),
            _ => false,
        };
        if !is_continued {
            return length;
        }
        length += 1;
    }
}

fn is_address(word: &str) -> bool {
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':'));
    is_hex && (word.contains(':') || word.bytes().filter(|byte| *byte == b'.').count() == 3)
}

/// Returns the content of a string, and its length with quotes; `open` is the length of the opening.
fn quoted(text: &str, at: usize, open: usize, is_raw: bool) -> Result<(Vec<u8>, usize), FilterError> {
    let content = text.get(at + open..).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut characters = content.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Ok((bytes, open + index + 1)),
            '\\' if is_raw => {
                bytes.push(b'\\');
                // A quote after a backslash is not an end; both stay.
                if let Some((_, next)) = characters.next() {
                    bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            '\\' => {
                let rest = content.get(index..).unwrap_or_default();
                let length = escape(rest, &mut bytes)
                    .ok_or_else(|| FilterError::new(text, at + open + index, unknown_escape(rest)))?;
                // One character is the backslash, which was taken.
                let end = index + length;
                while characters.clone().next().is_some_and(|(next, _)| next < end) {
                    characters.next();
                }
            }
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err(FilterError::new(text, at, "unterminated string"))
}

fn unknown_escape(rest: &str) -> String {
    let escape: String = rest.chars().take(2).collect();
    format!("invalid escape sequence {escape}; write \\\\ for a backslash, or a raw string: r\"...\"")
}

/// Resolves the escape sequence at the start, and returns its length.
fn escape(rest: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let letter = rest.chars().nth(1)?;
    let plain = match letter {
        '\'' | '"' | '\\' => letter as u8,
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        'x' | 'u' | 'U' => return coded(rest, letter, bytes),
        '0'..='7' => {
            let digits = rest.get(1..)?.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            bytes.push(u8::from_str_radix(rest.get(1..=digits)?, 8).ok()?);
            return Some(1 + digits);
        }
        _ => return None,
    };
    bytes.push(plain);
    Some(2)
}

/// Resolves `\xNN`, `\uNNNN`, `\UNNNNNNNN`.
fn coded(rest: &str, letter: char, bytes: &mut Vec<u8>) -> Option<usize> {
    let max_digits = match letter {
        'x' => 2,
        'u' => 4,
        _ => 8,
    };
    let digits = rest.get(2..)?.bytes().take(max_digits).take_while(u8::is_ascii_hexdigit).count();
    let number = u32::from_str_radix(rest.get(2..2 + digits)?, 16).ok()?;
    if letter == 'x' {
        bytes.push(u8::try_from(number).ok()?);
    } else {
        bytes.extend_from_slice(
            char::from_u32(number).filter(|_| digits == max_digits)?.encode_utf8(&mut [0; 4]).as_bytes(),
        );
    }
    Some(2 + digits)
}

fn character(text: &str, at: usize) -> Result<FilterToken<'_>, FilterError> {
    let rest = text.get(at + 1..).unwrap_or_default();
    let error = || FilterError::new(text, at, "single quotes take one byte or one escape sequence");
    let mut bytes = Vec::new();
    let length = if rest.starts_with('\\') {
        escape(rest, &mut bytes).ok_or_else(error)?
    } else {
        let character = rest.chars().next().filter(char::is_ascii).ok_or_else(error)?;
        bytes.push(character as u8);
        1
    };
    match (bytes.as_slice(), rest.get(length..).is_some_and(|rest| rest.starts_with('\''))) {
        ([byte], true) => Ok(FilterToken { kind: FilterTokenKind::Char(*byte), at, end: at + length + 2 }),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::FilterTokenKind::*;
    use super::*;

    fn kinds(text: &str) -> Vec<FilterTokenKind<'_>> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    fn error(text: &str) -> (usize, String) {
        let error = tokens(text).unwrap_err();
        (error.column, error.message)
    }

    #[test]
    fn names_numbers_addresses_and_bytes_are_words() {
        for word in
            ["tcp.port", "0x1f", "10.0.0.0/8", "fd09::2/64", "::1", "aa:bb:cc", "aa-bb-cc", "0.1.0.d", ":aa", "1.5"]
        {
            assert_eq!(kinds(word), [Word(word)]);
        }
    }

    #[test]
    fn signs_need_no_space_but_minus() {
        assert_eq!(
            kinds("a==1"),
            [Word("a"), Sign(FilterPunctuator::Relation(ParsedComparisonOperator::Equal)), Word("1")]
        );
        assert_eq!(
            kinds("tcp.port/2"),
            [Word("tcp.port"), Sign(FilterPunctuator::Arithmetic(ArithmeticOperator::Divide)), Word("2")]
        );
        assert_eq!(
            kinds("a -b"),
            [Word("a"), Sign(FilterPunctuator::Arithmetic(ArithmeticOperator::Subtract)), Word("b")]
        );
        assert_eq!(kinds("a-b"), [Word("a-b")]);
        assert_eq!(kinds("!(a)&&b"), kinds("! ( a ) && b"));
        assert_eq!(
            kinds("a !== b"),
            [Word("a"), Sign(FilterPunctuator::Relation(ParsedComparisonOperator::AnyNotEqual)), Word("b")]
        );
    }

    #[test]
    fn two_points_are_a_range() {
        let range = Sign(super::FilterPunctuator::Range);
        assert_eq!(kinds("4430..4434"), [Word("4430"), range.clone(), Word("4434")]);
        assert_eq!(kinds("10.0.0.5 .. 10.0.0.9"), [Word("10.0.0.5"), range, Word("10.0.0.9")]);
    }

    #[test]
    fn escapes_of_strings_and_characters() {
        assert_eq!(kinds(r#""\x48EAD \110 \"q\" \\ \t ä""#), [Quoted("HEAD H \"q\" \\ \t ä".into())]);
        assert_eq!(kinds(r#""\u00e4\U0001F600""#), [Quoted("ä😀".into())]);
        assert_eq!(kinds(r#"r"\\S\d\"" "#), [Quoted(br#"\\S\d\""#.to_vec())]);
        assert_eq!(kinds(r"'a' '\n' '\x0a' '\012'"), [Char(b'a'), Char(b'\n'), Char(b'\n'), Char(b'\n')]);
    }

    #[test]
    fn errors_have_their_column() {
        assert_eq!(error("a == \"b"), (6, "unterminated string".to_owned()));
        assert_eq!(error("frame[1").0, 6);
        assert_eq!(error(r#"a ~ "\d""#).0, 6);
        assert_eq!(error("a == ?").0, 6);
        assert_eq!(error("a == 'bc'").0, 6);
        assert_eq!(error("ip.src#2").0, 7);
    }
}
