//! The parser of filters: tests, operands and their precedence.
//!
//! From the loosest to the tightest: `or`, `xor`, `and`, `not`, relations, `&`, `+ -`, `* / %`, a sign, a slice.

use super::error::FilterError;
use super::token::{
    ArithmeticOperator, FilterPunctuator, FilterToken, FilterTokenKind, ParsedComparisonOperator, tokens,
};

/// Maximum nesting depth of tests and operands.
const MAX_DEPTH: usize = 64;

/// Bytes `at..end` of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterSpan {
    pub(super) at: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterSyntaxNode<'t> {
    Or(Vec<FilterSyntaxNode<'t>>),
    /// An odd number of them is true.
    Xor(Vec<FilterSyntaxNode<'t>>),
    And(Vec<FilterSyntaxNode<'t>>),
    Not(Box<FilterSyntaxNode<'t>>),
    /// A field is present, or a result is not 0.
    Operand(Operand<'t>),
    /// `a == b`
    Relation(Quantifier, Operand<'t>, ParsedComparisonOperator, FilterSpan, Operand<'t>),
    /// `a in {b, c..d}`
    Within(Quantifier, Operand<'t>, Vec<(Operand<'t>, Option<Operand<'t>>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantifier {
    /// The default of the relation.
    Default,
    Any,
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operand<'t> {
    pub(super) form: OperandForm<'t>,
    pub(super) span: FilterSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum OperandForm<'t> {
    /// A field, or a value without quotes.
    Word(&'t str),
    Quoted(Vec<u8>),
    Char(u8),
    Slice(Box<Operand<'t>>, Vec<FilterSliceRange>),
    Call(&'t str, Vec<Operand<'t>>),
    Negative(Box<Operand<'t>>),
    Arithmetic(Box<Operand<'t>>, ArithmeticOperator, Box<Operand<'t>>),
}

/// A part of a slice; negative offsets count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterSliceRange {
    pub(super) start: i64,
    pub(super) end: FilterByteSliceEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterByteSliceEnd {
    /// After this number of bytes.
    Length(u64),
    /// Including the byte at this offset.
    Offset(i64),
    /// Including the last byte.
    Last,
}

pub(super) fn parse(text: &str) -> FilterParseResult<FilterSyntaxNode<'_>, FilterError> {
    let mut parser = FilterParser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    if parser.tokens.is_empty() {
        return Err(FilterError::new(text, 0, "the filter is empty; name a field, as in nfs.opcode == READ"));
    }
    let test = parser.any_of()?;
    match parser.peek() {
        None => Ok(test),
        Some(token) => Err(parser.unexpected(token.at)),
    }
}

struct FilterParser<'t> {
    text: &'t str,
    tokens: Vec<FilterToken<'t>>,
    next: usize,
    depth: usize,
}

type FilterParseResult<T, E = FilterError> = std::result::Result<T, E>;

impl<'t> FilterParser<'t> {
    fn peek(&self) -> Option<&FilterToken<'t>> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<FilterToken<'t>> {
        let token = self.tokens.get(self.next).cloned();
        self.next += usize::from(token.is_some());
        token
    }

    /// Returns the offset of the next token, or of the end.
    fn at(&self) -> usize {
        self.peek().map_or(self.text.len(), |token| token.at)
    }

    fn is_sign(&self, sign: FilterPunctuator) -> bool {
        self.peek().is_some_and(|token| token.kind == FilterTokenKind::Sign(sign))
    }

    fn take_sign(&mut self, sign: FilterPunctuator) -> bool {
        let is_there = self.is_sign(sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn take_operator(&mut self, sign: FilterPunctuator, words: &[&str]) -> bool {
        let is_there = self.is_sign(sign)
            || self
                .peek()
                .is_some_and(|token| matches!(token.kind, FilterTokenKind::Word(word) if words.contains(&word)));
        self.next += usize::from(is_there);
        is_there
    }

    fn error(&self, at: usize, message: impl Into<String>) -> FilterError {
        FilterError::new(self.text, at, message)
    }

    fn unexpected(&self, at: usize) -> FilterError {
        let Some(token) = self.tokens.iter().find(|token| token.at == at) else {
            return self.error(self.text.len(), "unexpected end of filter");
        };
        let text = self.text.get(token.at..token.end).unwrap_or_default();
        self.error(at, format!("{text} was not expected here"))
    }

    fn close(&mut self, sign: FilterPunctuator, opening_at: usize) -> FilterParseResult<()> {
        if self.take_sign(sign) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => Err(self.error(token.at, format!("a {} is missing before this", sign.text()))),
            None => {
                let open = self.text.get(opening_at..=opening_at).unwrap_or_default();
                Err(self.error(opening_at, format!("unclosed {open}")))
            }
        }
    }

    /// Parses one level deeper, within the maximum depth.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> FilterParseResult<T>) -> FilterParseResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(self.at(), format!("nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn any_of(&mut self) -> FilterParseResult<FilterSyntaxNode<'t>> {
        self.operator_list(FilterPunctuator::Or, "or", Self::one_of, FilterSyntaxNode::Or)
    }

    fn one_of(&mut self) -> FilterParseResult<FilterSyntaxNode<'t>> {
        self.operator_list(FilterPunctuator::Xor, "xor", Self::all_of, FilterSyntaxNode::Xor)
    }

    fn all_of(&mut self) -> FilterParseResult<FilterSyntaxNode<'t>> {
        self.operator_list(FilterPunctuator::And, "and", Self::negated, FilterSyntaxNode::And)
    }

    /// Parses tests separated by one operator.
    fn operator_list(
        &mut self,
        sign: FilterPunctuator,
        word: &str,
        test: fn(&mut Self) -> FilterParseResult<FilterSyntaxNode<'t>>,
        combine: fn(Vec<FilterSyntaxNode<'t>>) -> FilterSyntaxNode<'t>,
    ) -> FilterParseResult<FilterSyntaxNode<'t>> {
        let first = test(self)?;
        if !self.take_operator(sign, &[word]) {
            return Ok(first);
        }
        let mut tests = vec![first, test(self)?];
        while self.take_operator(sign, &[word]) {
            tests.push(test(self)?);
        }
        Ok(combine(tests))
    }

    fn negated(&mut self) -> FilterParseResult<FilterSyntaxNode<'t>> {
        if self.take_operator(FilterPunctuator::Not, &["not"]) {
            return self.nested(|parser| Ok(FilterSyntaxNode::Not(Box::new(parser.negated()?))));
        }
        let at = self.at();
        if self.take_sign(FilterPunctuator::Open) {
            let test = self.nested(Self::any_of)?;
            self.close(FilterPunctuator::Close, at)?;
            return Ok(test);
        }
        self.relation()
    }

    fn relation(&mut self) -> FilterParseResult<FilterSyntaxNode<'t>> {
        let quantifier = self.quantifier();
        let left = self.operand()?;
        if let Some(is_negated) = self.take_in() {
            let set = self.set()?;
            let test = FilterSyntaxNode::Within(quantifier, left, set);
            return Ok(if is_negated { FilterSyntaxNode::Not(Box::new(test)) } else { test });
        }
        let mut previous = left;
        let mut relations = Vec::new();
        while let Some(relation) = self.peek().and_then(|token| ParsedComparisonOperator::from_token(&token.kind)) {
            let at = self.at();
            let end = self.take().map_or(at, |token| token.end);
            let next = self.operand()?;
            relations.push(FilterSyntaxNode::Relation(
                quantifier,
                previous,
                relation,
                FilterSpan { at, end },
                next.clone(),
            ));
            previous = next;
        }
        match (relations.pop(), quantifier) {
            (Some(only), _) if relations.is_empty() => Ok(only),
            (Some(last), _) => {
                relations.push(last);
                Ok(FilterSyntaxNode::And(relations))
            }
            (None, Quantifier::Default) => Ok(FilterSyntaxNode::Operand(previous)),
            (None, _) => Err(self.error(self.at(), "any and all need a comparison, as in: all tcp.port > 1024")),
        }
    }

    /// Parses `any` and `all` as quantifiers if an operand follows.
    fn quantifier(&mut self) -> Quantifier {
        let quantifier = match self.peek().map(|token| &token.kind) {
            Some(FilterTokenKind::Word("any")) => Quantifier::Any,
            Some(FilterTokenKind::Word("all")) => Quantifier::All,
            _ => return Quantifier::Default,
        };
        let next = self.tokens.get(self.next + 1).map(|token| &token.kind);
        let is_operand = match next {
            Some(FilterTokenKind::Word(word)) => {
                *word != "in"
                    && ParsedComparisonOperator::from_word(word).is_none()
                    && !matches!(*word, "and" | "or" | "xor")
            }
            Some(FilterTokenKind::Sign(sign)) => {
                matches!(sign, FilterPunctuator::OpenBrace | FilterPunctuator::Arithmetic(ArithmeticOperator::Subtract))
            }
            _ => false,
        };
        if !is_operand {
            return Quantifier::Default;
        }
        self.next += 1;
        quantifier
    }

    /// Takes `in` or `not in`; returns `true` for the latter.
    fn take_in(&mut self) -> Option<bool> {
        let is_word =
            |at: usize, word: &str| self.tokens.get(at).is_some_and(|token| token.kind == FilterTokenKind::Word(word));
        let is_negated = is_word(self.next, "not") || self.is_sign(FilterPunctuator::Not);
        let at = self.next + usize::from(is_negated);
        if !is_word(at, "in") {
            return None;
        }
        self.next = at + 1;
        Some(is_negated)
    }

    fn set(&mut self) -> FilterParseResult<Vec<(Operand<'t>, Option<Operand<'t>>)>> {
        let at = self.at();
        if !self.take_sign(FilterPunctuator::OpenBrace) {
            return Err(self.error(at, "a set needs braces, as in: tcp.port in {2049, 20049..20050}"));
        }
        let mut set = Vec::new();
        loop {
            let first = self.operand()?;
            let last = if self.take_sign(FilterPunctuator::Range) { Some(self.operand()?) } else { None };
            set.push((first, last));
            if !self.take_sign(FilterPunctuator::Comma) {
                break;
            }
        }
        self.close(FilterPunctuator::CloseBrace, at)?;
        Ok(set)
    }

    fn operand(&mut self) -> FilterParseResult<Operand<'t>> {
        self.nested(|parser| parser.chain(&[ArithmeticOperator::And], Self::sum))
    }

    fn sum(&mut self) -> FilterParseResult<Operand<'t>> {
        self.chain(&[ArithmeticOperator::Add, ArithmeticOperator::Subtract], Self::product)
    }

    fn product(&mut self) -> FilterParseResult<Operand<'t>> {
        let operators = [ArithmeticOperator::Multiply, ArithmeticOperator::Divide, ArithmeticOperator::Remainder];
        self.chain(&operators, Self::signed)
    }

    /// Parses operands separated by operators of one precedence, left-associative.
    fn chain(
        &mut self,
        operators: &[ArithmeticOperator],
        operand: fn(&mut Self) -> FilterParseResult<Operand<'t>>,
    ) -> FilterParseResult<Operand<'t>> {
        let mut left = operand(self)?;
        for _ in 0..MAX_DEPTH {
            let matched = operators.iter().find(|operator| self.take_arithmetic(**operator));
            let Some(operator) = matched else { return Ok(left) };
            let right = operand(self)?;
            let span = FilterSpan { at: left.span.at, end: right.span.end };
            left = Operand { form: OperandForm::Arithmetic(Box::new(left), *operator, Box::new(right)), span };
        }
        Err(self.error(self.at(), format!("more than {MAX_DEPTH} operands in one expression")))
    }

    fn take_arithmetic(&mut self, operator: ArithmeticOperator) -> bool {
        let words: &[&str] = if operator == ArithmeticOperator::And { &["bitwise_and", "bitand"] } else { &[] };
        self.take_operator(FilterPunctuator::Arithmetic(operator), words)
    }

    fn signed(&mut self) -> FilterParseResult<Operand<'t>> {
        let at = self.at();
        if self.take_arithmetic(ArithmeticOperator::Add) {
            return self.nested(Self::signed);
        }
        if self.take_arithmetic(ArithmeticOperator::Subtract) {
            let operand = self.nested(Self::signed)?;
            let span = FilterSpan { at, end: operand.span.end };
            return Ok(Operand { form: OperandForm::Negative(Box::new(operand)), span });
        }
        self.sliced()
    }

    fn sliced(&mut self) -> FilterParseResult<Operand<'t>> {
        let mut operand = self.simple()?;
        for _ in 0..MAX_DEPTH {
            let Some(FilterToken { kind: FilterTokenKind::Slice(slice_text), at, end }) = self.peek() else {
                break;
            };
            let (slice_text, at, end) = (*slice_text, *at, *end);
            self.next += 1;
            let ranges = pieces(slice_text).ok_or_else(|| {
                self.error(at, format!("invalid slice [{slice_text}]; write [2], [2:4], [2-5], [:4], [4:] or several of them with commas"))
            })?;
            let span = FilterSpan { at: operand.span.at, end };
            operand = Operand { form: OperandForm::Slice(Box::new(operand), ranges), span };
        }
        Ok(operand)
    }

    fn simple(&mut self) -> FilterParseResult<Operand<'t>> {
        let at = self.at();
        let Some(token) = self.take() else {
            return Err(self.error(self.text.len(), "a field or a value is missing at the end"));
        };
        let form = match token.kind {
            FilterTokenKind::Word(word) if is_keyword(word) => return Err(self.unexpected(at)),
            FilterTokenKind::Word(word) if self.is_sign(FilterPunctuator::Open) => {
                let opening_at = self.at();
                self.next += 1;
                let mut arguments = Vec::new();
                if !self.is_sign(FilterPunctuator::Close) {
                    arguments.push(self.operand()?);
                    while self.take_sign(FilterPunctuator::Comma) {
                        arguments.push(self.operand()?);
                    }
                }
                self.close(FilterPunctuator::Close, opening_at)?;
                OperandForm::Call(word, arguments)
            }
            FilterTokenKind::Word(word) => OperandForm::Word(word),
            FilterTokenKind::Quoted(bytes) => OperandForm::Quoted(bytes),
            FilterTokenKind::Char(byte) => OperandForm::Char(byte),
            FilterTokenKind::Sign(FilterPunctuator::OpenBrace) => {
                let inner = self.operand()?;
                self.close(FilterPunctuator::CloseBrace, at)?;
                inner.form
            }
            FilterTokenKind::Sign(_) | FilterTokenKind::Slice(_) => return Err(self.unexpected(at)),
        };
        let end = self.tokens.get(self.next.wrapping_sub(1)).map_or(token.end, |last| last.end);
        Ok(Operand { form, span: FilterSpan { at, end } })
    }
}

fn is_keyword(word: &str) -> bool {
    ParsedComparisonOperator::from_word(word).is_some()
        || matches!(word, "and" | "or" | "xor" | "not" | "in" | "bitwise_and" | "bitand")
}

/// Parses the parts of a slice; returns `None` if the text is malformed.
fn pieces(text: &str) -> Option<Vec<FilterSliceRange>> {
    text.split(',').map(|part| piece(part.trim())).collect()
}

fn piece(part: &str) -> Option<FilterSliceRange> {
    let offset = |text: &str| text.trim().parse::<i64>().ok();
    if let Some((start, length)) = part.split_once(':') {
        let start = if start.trim().is_empty() { 0 } else { offset(start)? };
        let end = match length.trim() {
            "" => FilterByteSliceEnd::Last,
            length => FilterByteSliceEnd::Length(length.parse().ok().filter(|length| *length > 0)?),
        };
        return Some(FilterSliceRange { start, end });
    }
    // A minus after the first character separates two offsets.
    let dash = part.char_indices().skip(1).find(|(_, character)| *character == '-').map(|(at, _)| at);
    match dash {
        Some(at) => {
            let (start, end) = part.split_at(at);
            Some(FilterSliceRange { start: offset(start)?, end: FilterByteSliceEnd::Offset(offset(end.get(1..)?)?) })
        }
        None => Some(FilterSliceRange { start: offset(part)?, end: FilterByteSliceEnd::Length(1) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the filter with parentheses around every test and operand.
    fn form(text: &str) -> String {
        test(&parse(text).unwrap())
    }

    fn test(of: &FilterSyntaxNode<'_>) -> String {
        match of {
            FilterSyntaxNode::Or(all) => row(all, " or "),
            FilterSyntaxNode::Xor(all) => row(all, " xor "),
            FilterSyntaxNode::And(all) => row(all, " and "),
            FilterSyntaxNode::Not(a) => format!("(not {})", test(a)),
            FilterSyntaxNode::Operand(a) => operand(a),
            FilterSyntaxNode::Relation(quantifier, a, relation, _, b) => {
                let quantifier = match quantifier {
                    Quantifier::Default => "",
                    Quantifier::Any => "any ",
                    Quantifier::All => "all ",
                };
                format!("({quantifier}{} {} {})", operand(a), relation.text(), operand(b))
            }
            FilterSyntaxNode::Within(_, a, set) => {
                let item = |(first, last): &(Operand<'_>, Option<Operand<'_>>)| match last {
                    Some(last) => format!("{}..{}", operand(first), operand(last)),
                    None => operand(first),
                };
                let items: Vec<_> = set.iter().map(item).collect();
                format!("({} in {})", operand(a), items.join(" "))
            }
        }
    }

    fn row(tests: &[FilterSyntaxNode<'_>], between: &str) -> String {
        format!("({})", tests.iter().map(test).collect::<Vec<_>>().join(between))
    }

    fn operand(of: &Operand<'_>) -> String {
        match &of.form {
            OperandForm::Word(word) => (*word).to_owned(),
            OperandForm::Quoted(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            OperandForm::Char(byte) => format!("{:?}", char::from(*byte)),
            OperandForm::Slice(a, pieces) => format!("{}{pieces:?}", operand(a)),
            OperandForm::Call(name, arguments) => {
                format!("{name}({})", arguments.iter().map(operand).collect::<Vec<_>>().join(", "))
            }
            OperandForm::Negative(a) => format!("-{}", operand(a)),
            OperandForm::Arithmetic(a, what, b) => format!("<{} {what:?} {}>", operand(a), operand(b)),
        }
    }

    fn error(text: &str) -> (usize, String) {
        let error = parse(text).unwrap_err();
        (error.column, error.message)
    }

    #[test]
    fn the_manuals_example_of_precedence() {
        assert_eq!(form("A and B or not C or D and not E or F"), "((A and B) or (not C) or (D and (not E)) or F)");
        assert_eq!(form("a || b ^^ c && !d"), "(a or (b xor (c and (not d))))");
    }

    #[test]
    fn every_operator_has_its_words() {
        for (sign, words) in [
            ("==", &["eq", "any_eq"][..]),
            ("!=", &["ne", "all_ne"]),
            ("===", &["all_eq"]),
            ("!==", &["any_ne", "~="]),
            (">", &["gt"]),
            (">=", &["ge"]),
            ("<", &["lt"]),
            ("<=", &["le"]),
            ("~", &["matches"]),
            ("&", &["bitwise_and"]),
        ] {
            for word in words {
                assert_eq!(form(&format!("a {word} b")), form(&format!("a {sign} b")), "{word}");
            }
        }
    }

    #[test]
    fn relations_may_stand_in_a_chain() {
        assert_eq!(form("a < b <= c"), "((a < b) and (b <= c))");
    }

    #[test]
    fn arithmetic_binds_tighter_than_relations_and_is_grouped_by_braces() {
        assert_eq!(form("a >= b + 1 * c"), "(a >= <b Add <1 Multiply c>>)");
        assert_eq!(form("a >= 4 * {b + 3}"), "(a >= <4 Multiply <b Add 3>>)");
        assert_eq!(form("a & 0x0f == 2"), "(<a And 0x0f> == 2)");
        assert_eq!(form("a == -5"), "(a == -5)");
    }

    #[test]
    fn sets_hold_values_and_ranges() {
        assert_eq!(form("a in {443, 4430..4434}"), "(a in 443 4430..4434)");
        assert_eq!(form("a not in {1}"), "(not (a in 1))");
    }

    #[test]
    fn any_and_all_choose_which_values_must_pass() {
        assert_eq!(form("all a > 1"), "(all a > 1)");
        assert_eq!(form("any a != 1"), "(any a != 1)");
        assert_eq!(error("all a").1, "any and all need a comparison, as in: all tcp.port > 1024");
    }

    #[test]
    fn slices_in_all_their_forms() {
        let pieces = |text: &str| pieces(text).unwrap();
        let piece = |start, end| FilterSliceRange { start, end };
        assert_eq!(pieces("0:3"), [piece(0, FilterByteSliceEnd::Length(3))]);
        assert_eq!(pieces("1-2"), [piece(1, FilterByteSliceEnd::Offset(2))]);
        assert_eq!(pieces("-4:4"), [piece(-4, FilterByteSliceEnd::Length(4))]);
        assert_eq!(pieces("-3--1"), [piece(-3, FilterByteSliceEnd::Offset(-1))]);
        assert_eq!(pieces(":4"), [piece(0, FilterByteSliceEnd::Length(4))]);
        assert_eq!(pieces("4:"), [piece(4, FilterByteSliceEnd::Last)]);
        assert_eq!(
            pieces("1,3-5,9:"),
            [
                piece(1, FilterByteSliceEnd::Length(1)),
                piece(3, FilterByteSliceEnd::Offset(5)),
                piece(9, FilterByteSliceEnd::Last)
            ]
        );
        assert!(super::pieces("").is_none() && super::pieces("a").is_none() && super::pieces("1:0").is_none());
    }

    #[test]
    fn errors_have_the_column_of_the_fault() {
        assert_eq!(error(""), (1, "the filter is empty; name a field, as in nfs.opcode == READ".to_owned()));
        assert_eq!(error("a =="), (4, "a field or a value is missing at the end".to_owned()));
        assert_eq!(error("a == == b"), (6, "== was not expected here".to_owned()));
        assert_eq!(error("(a or b"), (1, "unclosed (".to_owned()));
        assert_eq!(error("a or b)"), (7, ") was not expected here".to_owned()));
        assert_eq!(error("a in 5").0, 6);
        assert_eq!(error("a in {5 6}"), (9, "a } is missing before this".to_owned()));
        assert_eq!(error("a b"), (3, "b was not expected here".to_owned()));
        assert_eq!(error("frame[x] == 1").0, 6);
    }

    #[test]
    fn excessive_nesting_is_refused() {
        for open in ["(", "not ", "!", "-", "{", "len("] {
            let text = open.repeat(100_000);
            assert!(parse(&text).is_err());
        }
        assert!(parse(&format!("a == 1{}", " + 1".repeat(100_000))).is_err());
        assert!(parse(&format!("a{}", "[0]".repeat(100_000))).is_err());
        assert!(parse(&format!("a{}", " or a".repeat(100_000))).is_ok());
    }
}
