//! Types of operands, and their compatibility.

use super::filter_compiler::{FilterCompileResult, FilterCompiler};
use crate::filter::catalog::nearest;
use crate::filter::compiled_program::FilterFunction;
use crate::filter::error::{FilterError, proposal};
use crate::filter::filter_type::FilterType;
use crate::filter::syntax::{FilterSpan, Operand, OperandForm};
use crate::filter::token::ArithmeticOperator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandType {
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

impl OperandType {
    pub(super) fn from_filter_type(kind: FilterType) -> Self {
        match kind {
            FilterType::Protocol | FilterType::Structure | FilterType::Bytes => Self::Bytes,
            FilterType::Unsigned | FilterType::Signed | FilterType::Enumeration | FilterType::Flags => Self::Number,
            FilterType::Boolean => Self::Boolean,
            FilterType::Text => Self::Text,
            FilterType::Ipv4 => Self::Ipv4,
            FilterType::Ipv6 => Self::Ipv6,
            FilterType::Ethernet => Self::Ethernet,
            FilterType::Address => Self::Address,
            FilterType::Time => Self::Time,
            FilterType::Duration => Self::Duration,
        }
    }

    pub(super) const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Ethernet | Self::Text)
    }

    pub(super) fn is_comparable_with(self, other: Self) -> bool {
        let is_number = |operand_type| matches!(operand_type, Self::Number | Self::Boolean);
        let is_address = |operand_type| matches!(operand_type, Self::Address | Self::Ipv4 | Self::Ipv6);
        self == other
            || is_number(self) && is_number(other)
            || self.is_bytes() && other.is_bytes()
            || [self, other].contains(&Self::Address) && is_address(self) && is_address(other)
    }

    /// Returns a description of the type with an example.
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
            Self::Duration => "a duration, as in 0.001 (seconds), 1ms or 2h",
        }
    }
}

impl FilterCompiler<'_> {
    /// Returns the type of an operand; `None` for a value that takes the type of its context.
    pub(super) fn type_of(&self, operand: &Operand<'_>) -> FilterCompileResult<Option<OperandType>> {
        Ok(match &operand.form {
            OperandForm::Word(_) => self.field_of(operand).map(|entry| OperandType::from_filter_type(entry.kind)),
            OperandForm::Quoted(_) | OperandForm::Char(_) => None,
            OperandForm::Slice(inner, _) => match self.type_of(inner)? {
                Some(OperandType::Text) => Some(OperandType::Text),
                Some(OperandType::Bytes | OperandType::Ethernet | OperandType::Ipv4 | OperandType::Ipv6) => {
                    Some(OperandType::Bytes)
                }
                Some(operand_type) => {
                    return Err(self.error(
                        inner.span,
                        format!("{} is {}, which cannot be sliced", self.source_text(inner.span), operand_type.text()),
                    ));
                }
                None => return Err(self.not_a_field(inner)),
            },
            OperandForm::Call(name, arguments) => Some(self.type_of_call(name, arguments, operand.span)?),
            OperandForm::Negative(inner) => match self.type_of(inner)? {
                operand_type @ (None | Some(OperandType::Number | OperandType::Duration)) => operand_type,
                Some(operand_type) => {
                    return Err(self.error(operand.span, format!("{} cannot be negated", operand_type.text())));
                }
            },
            OperandForm::Arithmetic(left, operator, right) => self.type_of_arithmetic(left, *operator, right)?,
        })
    }

    pub(super) fn not_a_field(&self, operand: &Operand<'_>) -> FilterError {
        match operand.form {
            OperandForm::Word(word) => self.unknown_field(word, operand.span),
            _ => self.no_field(operand.span),
        }
    }

    fn type_of_arithmetic(
        &self,
        left: &Operand<'_>,
        operator: ArithmeticOperator,
        right: &Operand<'_>,
    ) -> FilterCompileResult<Option<OperandType>> {
        let (left_type, right_type) = (self.type_of(left)?, self.type_of(right)?);
        let (Some(first), Some(second)) = (left_type.or(right_type), right_type.or(left_type)) else {
            return Ok(None);
        };
        let is_sum = matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract);
        let is_scale = matches!(operator, ArithmeticOperator::Multiply | ArithmeticOperator::Divide);
        let is_number = |operand_type| matches!(operand_type, OperandType::Number | OperandType::Boolean);
        Ok(Some(match (first, second) {
            (first, second) if is_number(first) && is_number(second) => OperandType::Number,
            (OperandType::Bytes, OperandType::Bytes) if operator == ArithmeticOperator::And => OperandType::Bytes,
            (OperandType::Duration, OperandType::Duration) if is_sum || is_scale && right_type.is_none() => {
                OperandType::Duration
            }
            (OperandType::Duration, OperandType::Number) if is_scale => OperandType::Duration,
            (OperandType::Time, OperandType::Duration) if is_sum => OperandType::Time,
            (OperandType::Time, OperandType::Time) if is_sum && right_type.is_none() => OperandType::Time,
            (OperandType::Time, OperandType::Time) if operator == ArithmeticOperator::Subtract => OperandType::Duration,
            (first, second) => {
                let span = FilterSpan { at: left.span.at, end: right.span.end };
                return Err(self.error(span, format!("{} and {} cannot be combined", first.text(), second.text())));
            }
        }))
    }

    pub(super) fn function(&self, name: &str, span: FilterSpan) -> FilterCompileResult<FilterFunction> {
        let function = FilterFunction::NAMES.iter().find(|(key, _)| *key == name).map(|(_, function)| *function);
        function.ok_or_else(|| {
            let similar = nearest(name, FilterFunction::NAMES.iter().map(|(name, _)| *name));
            self.error(span, format!("unknown function {name}{}", proposal(&similar)))
        })
    }

    fn type_of_call(
        &self,
        name: &str,
        arguments: &[Operand<'_>],
        span: FilterSpan,
    ) -> FilterCompileResult<OperandType> {
        let function = self.function(name, span)?;
        let is_variadic = matches!(function, FilterFunction::Max | FilterFunction::Min);
        let Some(argument) = arguments.first().filter(|_| is_variadic || arguments.len() == 1) else {
            let expected = if is_variadic { "one argument or more" } else { "one argument" };
            return Err(self.error(span, format!("{name} takes {expected}")));
        };
        let operand_types: Vec<_> =
            arguments.iter().map(|argument| self.type_of(argument)).collect::<FilterCompileResult<_>>()?;
        let Some(first) = operand_types.iter().copied().flatten().next() else {
            return Err(self.not_a_field(argument));
        };
        let refuse = |expected: &str| {
            let message = format!("{name} takes {expected}, and this is {}", first.text());
            Err(self.error(argument.span, message))
        };
        match function {
            FilterFunction::Len if first.is_bytes() => Ok(OperandType::Number),
            FilterFunction::Len => refuse("text, bytes or a protocol"),
            FilterFunction::Count => match argument.form {
                OperandForm::Word(_) => Ok(OperandType::Number),
                _ => Err(self.error(span, "count takes a field")),
            },
            FilterFunction::Upper | FilterFunction::Lower if first == OperandType::Text => Ok(OperandType::Text),
            FilterFunction::Upper | FilterFunction::Lower => refuse("text"),
            FilterFunction::String if matches!(first, OperandType::Text | OperandType::Bytes) => {
                refuse("neither text nor bytes")
            }
            FilterFunction::String => Ok(OperandType::Text),
            FilterFunction::Abs if matches!(first, OperandType::Number | OperandType::Duration) => Ok(first),
            FilterFunction::Abs => refuse("a number"),
            FilterFunction::Max | FilterFunction::Min => {
                match operand_types.iter().flatten().all(|operand_type| operand_type.is_comparable_with(first)) {
                    true => Ok(first),
                    false => Err(self.error(span, format!("the arguments of {name} are of several types"))),
                }
            }
        }
    }
}
