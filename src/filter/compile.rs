//! From the form of a filter to its program: names become fields, words become values of the type that they are
//! compared with, and what makes no sense is refused.

use std::borrow::Cow;

use regex::bytes::RegexBuilder;

use super::catalog::{Catalog, Entry, Origin, Type, nearest};
use super::error::{FilterError, proposal};
use super::facts::Fact;
use super::literal;
use super::program::{Comparison, Expression, Function, Node};
use super::syntax::{Arithmetic, Form, Operand, Quantifier, Relation, Span, Test};
use super::value::{Constant, Slot};
use super::words;

/// The most fields that one filter may name.
pub(super) const FIELDS: usize = 64;

/// Words of a field that are all told where none of them is like the one that was written.
const FEW: usize = 8;

/// A field that a filter names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    /// Whether a value is looked at; else it is enough that the field is there.
    pub(super) has_value: bool,
    /// Whether its value is all that a protocol carries, and not its header alone: what a search looks into.
    pub(super) is_search: bool,
}

/// What kind of value something has, as far as comparing it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Number,
    Boolean,
    Bytes,
    Ethernet,
    Text,
    Ipv4,
    Ipv6,
    Address,
    Time,
    Duration,
}

impl Sort {
    fn of(kind: Type) -> Self {
        match kind {
            Type::Protocol | Type::Structure | Type::Bytes => Self::Bytes,
            Type::Unsigned | Type::Signed | Type::Enumeration | Type::Flags => Self::Number,
            Type::Boolean => Self::Boolean,
            Type::Text => Self::Text,
            Type::Ipv4 => Self::Ipv4,
            Type::Ipv6 => Self::Ipv6,
            Type::Ethernet => Self::Ethernet,
            Type::Address => Self::Address,
            Type::Time => Self::Time,
            Type::Duration => Self::Duration,
        }
    }

    const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Ethernet | Self::Text)
    }

    fn goes_with(self, other: Self) -> bool {
        let is_number = |sort| matches!(sort, Self::Number | Self::Boolean);
        let is_address = |sort| matches!(sort, Self::Address | Self::Ipv4 | Self::Ipv6);
        self == other
            || is_number(self) && is_number(other)
            || self.is_bytes() && other.is_bytes()
            || [self, other].contains(&Self::Address) && is_address(self) && is_address(other)
    }

    /// What a value of this sort is called, with an example.
    const fn text(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Boolean => "True, False or a number",
            Self::Bytes => "bytes, as in 0a:09:00",
            Self::Ethernet => "an Ethernet address, as in 52:54:00:09:00:01",
            Self::Text => "text in double quotes",
            Self::Ipv4 => "an IPv4 address, as in 10.9.0.2 or 10.9.0.0/16",
            Self::Ipv6 => "an IPv6 address, as in fd09::2 or fd09::/16",
            Self::Address => "an address, as in 10.9.0.2, 10.9.0.0/16 or fd09::2",
            Self::Time => "a time, as in \"2025-01-01 12:00:00\"",
            Self::Duration => "a length of time, as in 0.001 (seconds), 1ms or 2h",
        }
    }
}

/// What a value without a type of its own is compared with.
#[derive(Clone, Copy)]
struct Beside<'e> {
    sort: Sort,
    /// The field whose values may have names.
    field: Option<&'e Entry>,
    /// Whether the value is to be the whole of it, and not a part, or more or less.
    is_whole: bool,
}

impl Beside<'_> {
    /// What has this sort, and no names for its values.
    const fn nameless(sort: Sort) -> Self {
        Self { sort, field: None, is_whole: false }
    }
}

/// Makes programs.
pub(super) struct Compiler<'c> {
    text: &'c str,
    catalog: &'c Catalog,
    /// The fields that were named up to now.
    pub(super) fields: Vec<Named>,
}

type Result<T, E = FilterError> = std::result::Result<T, E>;

impl<'c> Compiler<'c> {
    pub(super) fn new(text: &'c str, catalog: &'c Catalog) -> Self {
        Self { text, catalog, fields: Vec::new() }
    }

    fn error(&self, span: Span, what: impl Into<String>) -> FilterError {
        FilterError::new(self.text, span.at, what)
    }

    fn as_written(&self, span: Span) -> &'c str {
        self.text.get(span.at..span.end).unwrap_or_default()
    }

    /// The program of a test.
    pub(super) fn test(&mut self, test: &Test<'_>) -> Result<Node> {
        Ok(match test {
            Test::Or(tests) => Node::Or(self.tests(tests)?),
            Test::Xor(tests) => Node::Xor(self.tests(tests)?),
            Test::And(tests) => Node::And(self.tests(tests)?),
            Test::Not(test) => Node::Not(Box::new(self.test(test)?)),
            Test::Operand(operand) => self.alone(operand)?,
            Test::Relation(quantifier, left, relation, span, right) => {
                self.relation(*quantifier, left, *relation, *span, right)?
            }
            Test::Within(quantifier, operand, set) => self.within(*quantifier, operand, set)?,
        })
    }

    fn tests(&mut self, tests: &[Test<'_>]) -> Result<Vec<Node>> {
        tests.iter().map(|test| self.test(test)).collect()
    }

    /// An operand that stands by itself.
    fn alone(&mut self, operand: &Operand<'_>) -> Result<Node> {
        match &operand.form {
            Form::Word(word) => {
                let entry = self.entry(word, operand.span)?;
                Ok(Node::Exists(self.slot(entry, false, operand.span)?))
            }
            Form::Quoted(_) | Form::Char(_) => {
                Err(self.error(operand.span, "a value alone is no test; compare a field with it"))
            }
            Form::Call(name, _) => Err(self.function(name, operand.span).err().unwrap_or_else(|| {
                self.error(
                    operand.span,
                    "a function alone is no test; compare what it gives, as in len(nfs.name) > 8",
                )
            })),
            _ => {
                let sort = self.sort(operand)?.ok_or_else(|| self.no_field(operand.span))?;
                let expression = self.expression(operand, Beside::nameless(sort))?;
                // A slice is there or not; the result of a calculation is zero or not.
                let is_slice = matches!(operand.form, Form::Slice(..));
                Ok(match is_slice {
                    true => Node::Compare {
                        left: Expression::Function(Function::Len, vec![expression]),
                        is: Comparison::Greater,
                        right: Expression::Constant(Constant::Number(0)),
                        every: false,
                    },
                    false => Node::True(expression),
                })
            }
        }
    }

    fn no_field(&self, span: Span) -> FilterError {
        self.error(span, format!("{} has no field in it", self.as_written(span)))
    }

    fn relation(
        &mut self,
        quantifier: Quantifier,
        left: &Operand<'_>,
        relation: Relation,
        span: Span,
        right: &Operand<'_>,
    ) -> Result<Node> {
        let (is, every) = match relation {
            Relation::Equal => (Comparison::Equal, false),
            Relation::AllEqual => (Comparison::Equal, true),
            Relation::NotEqual => (Comparison::NotEqual, true),
            Relation::AnyNotEqual => (Comparison::NotEqual, false),
            Relation::Greater => (Comparison::Greater, false),
            Relation::GreaterEqual => (Comparison::GreaterEqual, false),
            Relation::Less => (Comparison::Less, false),
            Relation::LessEqual => (Comparison::LessEqual, false),
            Relation::Contains => (Comparison::Contains, false),
            Relation::Matches => return self.matches(quantifier, left, span, right),
        };
        let every = match quantifier {
            Quantifier::Usual => every,
            Quantifier::Any => false,
            Quantifier::All => true,
        };
        let left_sort = self.sort(left)?;
        let right = &*self.beside_text(left_sort, right);
        let right_sort = self.sort(right)?;
        let (Some(first), Some(second)) = (left_sort.or(right_sort), right_sort.or(left_sort)) else {
            return Err(self.no_field_beside(left, relation, right));
        };
        if relation == Relation::Contains && !first.is_bytes() {
            let what = format!("{} holds no text and no bytes to look into", self.as_written(left.span));
            return Err(self.error(left.span, what));
        }
        if !first.goes_with(second) {
            let (left, right_text) = (self.as_written(left.span), self.as_written(right.span));
            let what = format!("{left} is {}, and {right_text} is {}", first.text(), second.text());
            return Err(self.error(right.span, what));
        }
        // What is looked for may be shorter than what it is looked for in.
        let of_part =
            |sort| if relation == Relation::Contains && sort == Sort::Ethernet { Sort::Bytes } else { sort };
        let is_whole = matches!(is, Comparison::Equal | Comparison::NotEqual);
        let left_beside = Beside { sort: second, field: self.field_of(right), is_whole };
        let right_beside = Beside { sort: of_part(first), field: self.field_of(left), is_whole };
        let left = match relation {
            Relation::Contains => self.searched(left, left_beside)?,
            _ => self.expression(left, left_beside)?,
        };
        let right = self.expression(right, right_beside)?;
        Ok(Node::Compare { left, is, right, every })
    }

    /// The name of a protocol beside text is text: nobody means the bytes in `nfsrdma.transport == tcp`.
    fn beside_text<'o, 't>(&self, sort: Option<Sort>, operand: &'o Operand<'t>) -> Cow<'o, Operand<'t>> {
        match operand.form {
            Form::Word(word)
                if sort == Some(Sort::Text)
                    && self.field_of(operand).is_some_and(|entry| entry.kind == Type::Protocol) =>
            {
                Cow::Owned(Operand { form: Form::Quoted(word.as_bytes().to_vec()), span: operand.span })
            }
            _ => Cow::Borrowed(operand),
        }
    }

    fn no_field_beside(&self, left: &Operand<'_>, relation: Relation, right: &Operand<'_>) -> FilterError {
        let words = [left, right].into_iter().filter_map(|operand| match operand.form {
            Form::Word(word) if literal::bytes(word).is_none() && literal::duration(word).is_none() => {
                Some((word, operand.span))
            }
            _ => None,
        });
        match words.into_iter().next() {
            Some((word, span)) => self.unknown_field(word, span),
            None => self.error(left.span, format!("no side of {} is a field", relation.text())),
        }
    }

    fn matches(
        &mut self,
        quantifier: Quantifier,
        left: &Operand<'_>,
        span: Span,
        right: &Operand<'_>,
    ) -> Result<Node> {
        let Form::Quoted(pattern) = &right.form else {
            return Err(self.error(right.span, "a regular expression stands in double quotes"));
        };
        let Some(sort) = self.sort(left)? else {
            return Err(self.no_field_beside(left, Relation::Matches, right));
        };
        if !sort.is_bytes() {
            let left = self.as_written(left.span);
            return Err(
                self.error(span, format!("{left} is {}, and no text; string({left}) is", sort.text()))
            );
        }
        let pattern = std::str::from_utf8(pattern).map_err(|_| {
            self.error(right.span, "a regular expression is UTF-8; a byte in it is written \\\\xff")
        })?;
        let regex =
            RegexBuilder::new(pattern).case_insensitive(true).unicode(false).build().map_err(|error| {
                let reason = error.to_string();
                let reason =
                    reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
                self.error(right.span, format!("this is no regular expression: {reason}"))
            })?;
        let of = self.searched(left, Beside::nameless(sort))?;
        Ok(Node::Matches { of, regex, every: quantifier == Quantifier::All })
    }

    fn within(
        &mut self,
        quantifier: Quantifier,
        operand: &Operand<'_>,
        set: &[(Operand<'_>, Option<Operand<'_>>)],
    ) -> Result<Node> {
        let Some(sort) = self.sort(operand)? else {
            return Err(match operand.form {
                Form::Word(word) => self.unknown_field(word, operand.span),
                _ => self.no_field(operand.span),
            });
        };
        let beside = Beside { sort, field: self.field_of(operand), is_whole: true };
        let of = self.expression(operand, beside)?;
        let mut values = Vec::new();
        for (first, last) in set {
            let first = self.beside(first, beside)?;
            let last = last.as_ref().map(|last| self.beside(last, beside)).transpose()?;
            values.push((first, last));
        }
        Ok(Node::Within { of, set: values, every: quantifier == Quantifier::All })
    }

    /// An operand that must be of a sort.
    fn beside(&mut self, operand: &Operand<'_>, beside: Beside<'_>) -> Result<Expression> {
        let operand = &*self.beside_text(Some(beside.sort), operand);
        match self.sort(operand)? {
            Some(sort) if !sort.goes_with(beside.sort) => {
                Err(self
                    .error(operand.span, format!("this is {}, and not {}", sort.text(), beside.sort.text())))
            }
            _ => self.expression(operand, beside),
        }
    }

    fn entry(&self, name: &str, span: Span) -> Result<&'c Entry> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.catalog.get(name).ok_or_else(|| self.unknown_field(name, span))
    }

    fn unknown_field(&self, name: &str, span: Span) -> FilterError {
        let what = format!("there is no field {name}{}", proposal(&self.catalog.nearest(name)));
        self.error(span, what)
    }

    /// The field, if the operand is one.
    fn field_of(&self, operand: &Operand<'_>) -> Option<&'c Entry> {
        match &operand.form {
            Form::Word(word) => self.catalog.get(word.strip_prefix('.').unwrap_or(word)),
            _ => None,
        }
    }

    /// Of what sort an operand is; `None` for a value that takes the sort of what it is compared with.
    fn sort(&self, operand: &Operand<'_>) -> Result<Option<Sort>> {
        Ok(match &operand.form {
            Form::Word(_) => self.field_of(operand).map(|entry| Sort::of(entry.kind)),
            Form::Quoted(_) | Form::Char(_) => None,
            Form::Slice(of, _) => match self.sort(of)? {
                Some(Sort::Text) => Some(Sort::Text),
                Some(Sort::Bytes | Sort::Ethernet | Sort::Ipv4 | Sort::Ipv6) => Some(Sort::Bytes),
                Some(sort) => {
                    return Err(self.error(
                        of.span,
                        format!("{} is {}, and has no parts", self.as_written(of.span), sort.text()),
                    ));
                }
                None => return Err(self.not_a_field(of)),
            },
            Form::Call(name, arguments) => Some(self.sort_of_call(name, arguments, operand.span)?),
            Form::Negative(of) => match self.sort(of)? {
                sort @ (None | Some(Sort::Number | Sort::Duration)) => sort,
                Some(sort) => {
                    return Err(self.error(operand.span, format!("{} has no negative", sort.text())));
                }
            },
            Form::Arithmetic(left, what, right) => self.sort_of_arithmetic(left, *what, right)?,
        })
    }

    fn not_a_field(&self, operand: &Operand<'_>) -> FilterError {
        match operand.form {
            Form::Word(word) => self.unknown_field(word, operand.span),
            _ => self.no_field(operand.span),
        }
    }

    fn sort_of_arithmetic(
        &self,
        left: &Operand<'_>,
        what: Arithmetic,
        right: &Operand<'_>,
    ) -> Result<Option<Sort>> {
        let (left_sort, right_sort) = (self.sort(left)?, self.sort(right)?);
        let (Some(first), Some(second)) = (left_sort.or(right_sort), right_sort.or(left_sort)) else {
            return Ok(None);
        };
        let is_sum = matches!(what, Arithmetic::Add | Arithmetic::Subtract);
        let is_scale = matches!(what, Arithmetic::Multiply | Arithmetic::Divide);
        let is_number = |sort| matches!(sort, Sort::Number | Sort::Boolean);
        Ok(Some(match (first, second) {
            (first, second) if is_number(first) && is_number(second) => Sort::Number,
            (Sort::Bytes, Sort::Bytes) if what == Arithmetic::And => Sort::Bytes,
            (Sort::Duration, Sort::Duration) if is_sum || is_scale && right_sort.is_none() => Sort::Duration,
            (Sort::Duration, Sort::Number) if is_scale => Sort::Duration,
            (Sort::Time, Sort::Duration) if is_sum => Sort::Time,
            (Sort::Time, Sort::Time) if is_sum && right_sort.is_none() => Sort::Time,
            (Sort::Time, Sort::Time) if what == Arithmetic::Subtract => Sort::Duration,
            (first, second) => {
                let span = Span { at: left.span.at, end: right.span.end };
                return Err(
                    self.error(span, format!("{} and {} make nothing together", first.text(), second.text()))
                );
            }
        }))
    }

    fn function(&self, name: &str, span: Span) -> Result<Function> {
        let found = Function::NAMES.iter().find(|(known, _)| *known == name).map(|(_, function)| *function);
        found.ok_or_else(|| {
            let near = nearest(name, Function::NAMES.iter().map(|(name, _)| *name));
            self.error(span, format!("there is no function {name}{}", proposal(&near)))
        })
    }

    fn sort_of_call(&self, name: &str, arguments: &[Operand<'_>], span: Span) -> Result<Sort> {
        let function = self.function(name, span)?;
        let many = matches!(function, Function::Max | Function::Min);
        if arguments.is_empty() || !many && arguments.len() > 1 {
            let wanted = if many { "one argument or more" } else { "one argument" };
            return Err(self.error(span, format!("{name} takes {wanted}")));
        }
        let mut sorts = Vec::new();
        for argument in arguments {
            sorts.push(self.sort(argument)?);
        }
        let Some(first) = sorts.iter().copied().flatten().next() else {
            return Err(arguments
                .first()
                .map_or_else(|| self.no_field(span), |first| self.not_a_field(first)));
        };
        let refuse = |wanted: &str| {
            let at = arguments.first().map_or(span, |first| first.span);
            Err(self.error(at, format!("{name} takes {wanted}, and this is {}", first.text())))
        };
        match function {
            Function::Len if first.is_bytes() => Ok(Sort::Number),
            Function::Len => refuse("text, bytes or a protocol"),
            Function::Count => match arguments.first().map(|argument| &argument.form) {
                Some(Form::Word(_)) => Ok(Sort::Number),
                _ => Err(self.error(span, "count takes a field")),
            },
            Function::Upper | Function::Lower if first == Sort::Text => Ok(Sort::Text),
            Function::Upper | Function::Lower => refuse("text"),
            Function::String if matches!(first, Sort::Text | Sort::Bytes) => {
                refuse("what is no text and no bytes")
            }
            Function::String => Ok(Sort::Text),
            Function::Abs if matches!(first, Sort::Number | Sort::Duration) => Ok(first),
            Function::Abs => refuse("a number"),
            Function::Max | Function::Min => match sorts.iter().flatten().all(|sort| sort.goes_with(first)) {
                true => Ok(first),
                false => Err(self.error(span, format!("the arguments of {name} are of several types"))),
            },
        }
    }

    fn slot(&mut self, entry: &Entry, has_value: bool, span: Span) -> Result<Slot> {
        self.slot_of(
            Named { name: entry.name, origin: entry.origin.clone(), has_value, is_search: false },
            span,
        )
    }

    fn slot_of(&mut self, named: Named, span: Span) -> Result<Slot> {
        let is_it = |field: &Named| (field.name, field.is_search) == (named.name, named.is_search);
        if let Some(slot) = self.fields.iter().position(is_it) {
            if let Some(field) = self.fields.get_mut(slot) {
                field.has_value |= named.has_value;
            }
            return Ok(slot);
        }
        if self.fields.len() == FIELDS {
            return Err(self.error(span, format!("a filter may name {FIELDS} fields, and this is one more")));
        }
        self.fields.push(named);
        Ok(self.fields.len() - 1)
    }

    /// The program of what is searched for something: of a protocol, all that it carries.
    fn searched(&mut self, operand: &Operand<'_>, beside: Beside<'_>) -> Result<Expression> {
        match self.field_of(operand) {
            Some(entry) if entry.kind == Type::Protocol && !matches!(entry.origin, Origin::Fact(_)) => {
                let named = Named {
                    name: entry.name,
                    origin: entry.origin.clone(),
                    has_value: true,
                    is_search: true,
                };
                self.slot_of(named, operand.span).map(Expression::Field)
            }
            _ => self.expression(operand, beside),
        }
    }

    /// The program of an operand; a value without a type becomes one of the sort beside it.
    fn expression(&mut self, operand: &Operand<'_>, beside: Beside<'_>) -> Result<Expression> {
        Ok(match &operand.form {
            Form::Word(word) => match self.field_of(operand) {
                Some(entry) => Expression::Field(self.slot(entry, true, operand.span)?),
                None => Expression::Constant(self.word(word, operand.span, beside)?),
            },
            Form::Quoted(bytes) => Expression::Constant(self.quoted(bytes, operand.span, beside)?),
            Form::Char(byte) => Expression::Constant(match beside.sort {
                Sort::Number | Sort::Boolean => Constant::Number(i128::from(*byte)),
                sort if sort.is_bytes() => Constant::Bytes(vec![*byte]),
                sort => {
                    return Err(
                        self.error(operand.span, format!("this is a character, and not {}", sort.text()))
                    );
                }
            }),
            Form::Slice(of, pieces) => {
                let sort = self.sort(of)?.unwrap_or(beside.sort);
                Expression::Slice(Box::new(self.expression(of, Beside::nameless(sort))?), pieces.clone())
            }
            Form::Call(name, arguments) => {
                let function = self.function(name, operand.span)?;
                let sorts: Vec<_> =
                    arguments.iter().map(|argument| self.sort(argument)).collect::<Result<_>>()?;
                let known = sorts.into_iter().flatten().next().unwrap_or(beside.sort);
                let beside = Beside::nameless(known);
                let arguments = arguments.iter().map(|argument| self.expression(argument, beside));
                Expression::Function(function, arguments.collect::<Result<_>>()?)
            }
            Form::Negative(of) => match (&of.form, self.sort(of)?) {
                (Form::Word(word), None) => {
                    Expression::Constant(self.word(&format!("-{word}"), operand.span, beside)?)
                }
                (_, sort) => {
                    let beside = Beside::nameless(sort.unwrap_or(beside.sort));
                    Expression::Negative(Box::new(self.expression(of, beside)?))
                }
            },
            Form::Arithmetic(left, what, right) => {
                let (left_sort, right_sort) = (self.sort(left)?, self.sort(right)?);
                let is_scale = matches!(what, Arithmetic::Multiply | Arithmetic::Divide);
                // Beside a time stands a duration, and a duration is made longer by a number.
                let second = match left_sort.or(right_sort).unwrap_or(beside.sort) {
                    Sort::Duration if is_scale => Sort::Number,
                    Sort::Time => Sort::Duration,
                    sort => sort,
                };
                let is_whole = false;
                let sort = right_sort.unwrap_or(beside.sort);
                let first = Beside { sort, field: self.field_of(right), is_whole };
                let sort = right_sort.unwrap_or(second);
                let second = Beside { sort, field: self.field_of(left), is_whole };
                let left = self.expression(left, first)?;
                let right = self.expression(right, second)?;
                Expression::Arithmetic(Box::new(left), *what, Box::new(right))
            }
        })
    }

    /// A value without quotes.
    fn word(&self, word: &str, span: Span, beside: Beside<'_>) -> Result<Constant> {
        let constant = match beside.sort {
            Sort::Number => literal::number(word).or_else(|| named(word, beside)).map(Constant::Number),
            Sort::Boolean => literal::boolean(word).map(Constant::Bool),
            Sort::Bytes => literal::bytes(word).map(Constant::Bytes),
            Sort::Ethernet => literal::bytes(word).filter(|bytes| bytes.len() == 6).map(Constant::Bytes),
            Sort::Text => return self.text(word.as_bytes(), span, beside),
            Sort::Ipv4 => literal::ipv4(word).map(|(address, bits)| Constant::Ipv4(address, bits)),
            Sort::Ipv6 => literal::ipv6(word).map(|(address, bits)| Constant::Ipv6(address, bits)),
            Sort::Address => literal::ipv4(word)
                .map(|(address, bits)| Constant::Ipv4(address, bits))
                .or_else(|| literal::ipv6(word).map(|(address, bits)| Constant::Ipv6(address, bits)))
                .or_else(|| word.starts_with("lid:").then(|| Constant::Text(word.as_bytes().to_vec()))),
            Sort::Time => literal::time(word).map(Constant::Time),
            Sort::Duration => literal::duration(word).map(Constant::Duration),
        };
        constant.ok_or_else(|| self.no_value(word, span, beside))
    }

    fn quoted(&self, bytes: &[u8], span: Span, beside: Beside<'_>) -> Result<Constant> {
        match beside.sort {
            Sort::Text => self.text(bytes, span, beside),
            Sort::Bytes => Ok(Constant::Bytes(bytes.to_vec())),
            Sort::Number => {
                let text = String::from_utf8_lossy(bytes);
                let number = named(&text, beside).or_else(|| literal::number(&text));
                number.map(Constant::Number).ok_or_else(|| self.no_value(&text, span, beside))
            }
            _ => self.word(&String::from_utf8_lossy(bytes), span, beside),
        }
    }

    /// A text, which must be one of the words that the field beside it has, if those are all that it has.
    fn text(&self, bytes: &[u8], span: Span, beside: Beside<'_>) -> Result<Constant> {
        let bytes = in_case(bytes, beside);
        if let Some((field, Origin::Fact(fact))) = beside.field.map(|field| (field, &field.origin))
            && beside.is_whole
            && let Some(words) = words::of(*fact, self.catalog)
        {
            let word = String::from_utf8_lossy(&bytes);
            if !words.iter().any(|known| *known == word) && !words::is_number(&word) {
                let names = nearest(&word, words.iter().map(String::as_str));
                let names = if words.len() <= FEW && names.is_empty() {
                    format!("; it is {}", words.join(", "))
                } else {
                    proposal(&names)
                };
                let what = format!("no value of {} is called {word}{names}", field.name);
                return Err(self.error(span, what));
            }
        }
        Ok(Constant::Text(bytes))
    }

    fn no_value(&self, word: &str, span: Span, beside: Beside<'_>) -> FilterError {
        let Some(field) = beside.field else {
            let fields = if word.contains('.') { self.catalog.nearest(word) } else { Vec::new() };
            return self.error(span, format!("{word} is not {}{}", beside.sort.text(), proposal(&fields)));
        };
        let fields = match word.contains('.') {
            true => self.catalog.nearest(word),
            false => self.catalog.instead(field.name).to_vec(),
        };
        if field.names.is_empty() || !fields.is_empty() {
            let what =
                format!("{} is {}, which {word} is not{}", field.name, beside.sort.text(), proposal(&fields));
            return self.error(span, what);
        }
        let names = nearest(word, field.names.iter().map(|(_, name)| *name));
        let has = |entry: &&Entry| entry.names.iter().any(|(_, name)| name.eq_ignore_ascii_case(word));
        let other = self.catalog.iter().find(has).map(|entry| format!("; {} has it", entry.name));
        let what = format!(
            "no value of {} is called {word}{}",
            field.name,
            other.unwrap_or_else(|| proposal(&names))
        );
        self.error(span, what)
    }
}

/// Names that values had in RFC 1057, and have in Wireshark, with those of RFC 5531 section 8.2.
const FORMER: [(&str, &str); 2] = [("AUTH_NULL", "AUTH_NONE"), ("AUTH_UNIX", "AUTH_SYS")];

/// A text as the field beside it would have it: of a fact whose values are words, all are of one case.
fn in_case(text: &[u8], beside: Beside<'_>) -> Vec<u8> {
    match beside.field.map(|field| &field.origin) {
        Some(Origin::Fact(fact)) if Fact::CAPITALS.contains(fact) => text.to_ascii_uppercase(),
        Some(Origin::Fact(fact)) if Fact::SMALL.contains(fact) => text.to_ascii_lowercase(),
        _ => text.to_vec(),
    }
}

/// The number that the specification calls so, or so but for capital letters.
fn named(word: &str, beside: Beside<'_>) -> Option<i128> {
    let names = &beside.field?.names;
    let exactly = names.iter().find(|(_, name)| *name == word);
    let nearly = || names.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
    let former = FORMER.iter().find(|(former, _)| former.eq_ignore_ascii_case(word));
    let now = || former.and_then(|(_, now)| names.iter().find(|(_, name)| name == now));
    exactly.or_else(nearly).or_else(now).map(|(number, _)| i128::from(*number))
}
