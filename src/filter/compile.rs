//! From the form of a filter to its program: names become fields, words become values of the type that they are
//! compared with ([`constant`]), and what makes no sense together is refused ([`sort`]).

mod constant;
mod sort;

use std::borrow::Cow;

use regex::bytes::RegexBuilder;

use super::catalog::{Catalog, Entry, Origin, Type};
use super::error::{FilterError, proposal};
use super::literal;
use super::program::{Comparison, Expression, Function, Node};
use super::syntax::{Arithmetic, Form, Operand, Quantifier, Relation, Span, Test};
use super::value::{Constant, Slot};
use constant::Beside;
use sort::Sort;

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
                Ok(Node::Exists(self.slot(entry, false)))
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

    fn slot(&mut self, entry: &Entry, has_value: bool) -> Slot {
        self.slot_of(Named { name: entry.name, origin: entry.origin.clone(), has_value, is_search: false })
    }

    fn slot_of(&mut self, named: Named) -> Slot {
        let is_it = |field: &Named| (field.name, field.is_search) == (named.name, named.is_search);
        if let Some(slot) = self.fields.iter().position(is_it) {
            if let Some(field) = self.fields.get_mut(slot) {
                field.has_value |= named.has_value;
            }
            return slot;
        }
        self.fields.push(named);
        self.fields.len() - 1
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
                Ok(Expression::Field(self.slot_of(named)))
            }
            _ => self.expression(operand, beside),
        }
    }

    /// The program of an operand; a value without a type becomes one of the sort beside it.
    fn expression(&mut self, operand: &Operand<'_>, beside: Beside<'_>) -> Result<Expression> {
        Ok(match &operand.form {
            Form::Word(word) => match self.field_of(operand) {
                Some(entry) => Expression::Field(self.slot(entry, true)),
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
}
