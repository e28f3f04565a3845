//! Of what sort operands are: what can be compared with what, and what makes no sense together.

use super::{Compiler, Result};
use crate::filter::catalog::{Type, nearest};
use crate::filter::error::{FilterError, proposal};
use crate::filter::program::Function;
use crate::filter::syntax::{Arithmetic, Form, Operand, Span};

/// What kind of value something has, as far as comparing it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
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
    pub(super) fn of(kind: Type) -> Self {
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

    pub(super) const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Ethernet | Self::Text)
    }

    pub(super) fn goes_with(self, other: Self) -> bool {
        let is_number = |sort| matches!(sort, Self::Number | Self::Boolean);
        let is_address = |sort| matches!(sort, Self::Address | Self::Ipv4 | Self::Ipv6);
        self == other
            || is_number(self) && is_number(other)
            || self.is_bytes() && other.is_bytes()
            || [self, other].contains(&Self::Address) && is_address(self) && is_address(other)
    }

    /// What a value of this sort is called, with an example.
    pub(super) const fn text(self) -> &'static str {
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

impl Compiler<'_> {
    /// Of what sort an operand is; `None` for a value that takes the sort of what it is compared with.
    pub(super) fn sort(&self, operand: &Operand<'_>) -> Result<Option<Sort>> {
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

    pub(super) fn not_a_field(&self, operand: &Operand<'_>) -> FilterError {
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

    pub(super) fn function(&self, name: &str, span: Span) -> Result<Function> {
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
}
