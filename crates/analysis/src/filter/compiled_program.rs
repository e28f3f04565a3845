//! The program of a compiled filter: tests over the values of its fields, stored in [`FilterValues`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use regex::bytes::Regex;

use super::syntax::{FilterByteSliceEnd, FilterSliceRange};
use super::token::ArithmeticOperator;
use super::value::{FilterConstant, FilterFieldSlotNumber, FilterValue, FilterValues};

#[derive(Clone, Debug)]
pub(super) enum CompiledFilterNode {
    Or(Vec<CompiledFilterNode>),
    Xor(Vec<CompiledFilterNode>),
    And(Vec<CompiledFilterNode>),
    Not(Box<CompiledFilterNode>),
    /// The field is present.
    Exists(FilterFieldSlotNumber),
    /// One of the values is not 0.
    True(CompiledFilterOperand),
    /// Any two values, or every two, have this relation.
    Compare {
        left: CompiledFilterOperand,
        is: ComparisonOperator,
        right: CompiledFilterOperand,
        every: bool,
    },
    /// Any value, or every one, matches the regular expression.
    Matches {
        of: CompiledFilterOperand,
        regex: Regex,
        every: bool,
    },
    /// Any value, or every one, is in the set.
    Within {
        of: CompiledFilterOperand,
        set: Vec<(CompiledFilterOperand, Option<CompiledFilterOperand>)>,
        every: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Contains,
}

#[derive(Clone, Debug)]
pub(super) enum CompiledFilterOperand {
    Field(FilterFieldSlotNumber),
    Constant(FilterConstant),
    Slice(Box<CompiledFilterOperand>, Vec<FilterSliceRange>),
    Function(FilterFunction, Vec<CompiledFilterOperand>),
    Negative(Box<CompiledFilterOperand>),
    Arithmetic(Box<CompiledFilterOperand>, ArithmeticOperator, Box<CompiledFilterOperand>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterFunction {
    Len,
    Count,
    Upper,
    Lower,
    String,
    Max,
    Min,
    Abs,
}

impl ComparisonOperator {
    fn compare(self, left: &FilterValue<&[u8]>, right: &FilterValue<&[u8]>) -> bool {
        if self == Self::Contains {
            let (FilterValue::Bytes(left) | FilterValue::Text(left)) = *left else { return false };
            let (FilterValue::Bytes(right) | FilterValue::Text(right)) = *right else { return false };
            return right.is_empty() || left.windows(right.len()).any(|window| window == right);
        }
        let Some(order) = left.compare(right) else { return false };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterEqual => order != Ordering::Less,
            Self::Less => order == Ordering::Less,
            Self::LessEqual => order != Ordering::Greater,
            Self::Contains => false,
        }
    }
}

impl CompiledFilterNode {
    pub(super) fn is_true(&self, values: &FilterValues) -> bool {
        match self {
            Self::Or(nodes) => nodes.iter().any(|node| node.is_true(values)),
            Self::Xor(nodes) => nodes.iter().filter(|node| node.is_true(values)).count() % 2 == 1,
            Self::And(nodes) => nodes.iter().all(|node| node.is_true(values)),
            Self::Not(node) => !node.is_true(values),
            Self::Exists(slot) => values.has(*slot),
            Self::True(operand) => QuantifierEvaluation::of(false, |verdict| {
                operand.for_each_value(values, &mut |value| verdict.take(value.is_true()))
            }),
            Self::Compare { left, is, right, every } => QuantifierEvaluation::of(*every, |verdict| {
                left.for_each_value(values, &mut |left| {
                    right.for_each_value(values, &mut |right| verdict.take(is.compare(&left, &right)))
                })
            }),
            Self::Matches { of, regex, every } => QuantifierEvaluation::of(*every, |verdict| {
                of.for_each_value(values, &mut |value| match value {
                    FilterValue::Bytes(bytes) | FilterValue::Text(bytes) => verdict.take(regex.is_match(bytes)),
                    _ => verdict.take(false),
                })
            }),
            Self::Within { of, set, every } => QuantifierEvaluation::of(*every, |verdict| {
                of.for_each_value(values, &mut |value| verdict.take(is_within(&value, set, values)))
            }),
        }
    }
}

fn is_within(
    value: &FilterValue<&[u8]>,
    set: &[(CompiledFilterOperand, Option<CompiledFilterOperand>)],
    values: &FilterValues,
) -> bool {
    let has_value = |operand: &CompiledFilterOperand, is: ComparisonOperator| {
        QuantifierEvaluation::of(false, |verdict| {
            operand.for_each_value(values, &mut |other| verdict.take(is.compare(value, &other)))
        })
    };
    set.iter().any(|(first, last)| match last {
        None => has_value(first, ComparisonOperator::Equal),
        Some(last) => {
            has_value(first, ComparisonOperator::GreaterEqual) && has_value(last, ComparisonOperator::LessEqual)
        }
    })
}

/// Result of several comparisons: one must be true, or there must be some and all must be true.
struct QuantifierEvaluation {
    every: bool,
    result: bool,
}

impl QuantifierEvaluation {
    fn of(every: bool, evaluate: impl FnOnce(&mut Self) -> ControlFlow<()>) -> bool {
        let mut verdict = Self { every, result: false };
        // The result of the last comparison decides, whether it ended early or not.
        let _ = evaluate(&mut verdict);
        verdict.result
    }

    /// Takes the result of one comparison; breaks if it decides.
    fn take(&mut self, is_match: bool) -> ControlFlow<()> {
        self.result = is_match;
        if is_match == self.every { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

type FilterValueSink<'f> = &'f mut dyn FnMut(FilterValue<&[u8]>) -> ControlFlow<()>;

impl CompiledFilterOperand {
    /// Calls `sink` with every value until it breaks.
    pub(super) fn for_each_value(&self, values: &FilterValues, sink: FilterValueSink<'_>) -> ControlFlow<()> {
        match self {
            Self::Field(slot) => values.values_of(*slot).try_for_each(sink),
            Self::Constant(constant) => sink(constant.map_bytes(Vec::as_slice)),
            Self::Slice(operand, ranges) => operand.for_each_value(values, &mut |value| {
                let (ipv4, ipv6);
                let bytes = match value {
                    FilterValue::Bytes(bytes) | FilterValue::Text(bytes) => bytes,
                    FilterValue::Ipv4(address, _) => {
                        ipv4 = address.octets();
                        &ipv4[..]
                    }
                    FilterValue::Ipv6(address, _) => {
                        ipv6 = address.octets();
                        &ipv6[..]
                    }
                    _ => return ControlFlow::Continue(()),
                };
                let Some(sliced) = slice(bytes, ranges) else { return ControlFlow::Continue(()) };
                let is_text = matches!(value, FilterValue::Text(_));
                sink(if is_text { FilterValue::Text(&sliced) } else { FilterValue::Bytes(&sliced) })
            }),
            Self::Function(function, arguments) => function.for_each_value(arguments, values, sink),
            Self::Negative(operand) => operand.for_each_value(values, &mut |value| match value {
                FilterValue::Number(number) => sink(FilterValue::Number(-number)),
                FilterValue::Duration(duration) => sink(FilterValue::Duration(-duration)),
                _ => ControlFlow::Continue(()),
            }),
            Self::Arithmetic(left, operator, right) => left.for_each_value(values, &mut |left| {
                right.for_each_value(values, &mut |right| arithmetic(&left, *operator, &right, sink))
            }),
        }
    }
}

/// Returns the parts of some bytes that a slice selects; `None` if there are too few.
fn slice<'b>(bytes: &'b [u8], ranges: &[FilterSliceRange]) -> Option<Cow<'b, [u8]>> {
    let subslice = |range: &FilterSliceRange| {
        let from_end = |offset: i64| match usize::try_from(offset) {
            Ok(offset) => Some(offset),
            Err(_) => bytes.len().checked_sub(usize::try_from(offset.unsigned_abs()).ok()?),
        };
        let start = from_end(range.start)?;
        let end = match range.end {
            FilterByteSliceEnd::Length(length) => start.checked_add(usize::try_from(length).ok()?)?,
            FilterByteSliceEnd::Offset(offset) => from_end(offset)?.checked_add(1)?,
            FilterByteSliceEnd::Last => bytes.len(),
        };
        bytes.get(start..end).filter(|part| !part.is_empty())
    };
    match ranges {
        [only] => subslice(only).map(Cow::Borrowed),
        many => {
            let mut joined = Vec::new();
            for range in many {
                joined.extend_from_slice(subslice(range)?);
            }
            Some(Cow::Owned(joined))
        }
    }
}

fn arithmetic(
    left: &FilterValue<&[u8]>,
    operator: ArithmeticOperator,
    right: &FilterValue<&[u8]>,
    sink: FilterValueSink<'_>,
) -> ControlFlow<()> {
    use FilterValue::{Bytes, Duration, Number, Time};
    let [left, right] = [left, right].map(|value| match *value {
        FilterValue::Bool(value) => Number(i128::from(value)),
        other => other,
    });
    if let (Bytes(left), Bytes(right), ArithmeticOperator::And) = (left, right, operator) {
        let bitwise_and: Vec<u8> = left.iter().zip(right).map(|(left, right)| left & right).collect();
        return if left.len() == right.len() { sink(Bytes(&bitwise_and)) } else { ControlFlow::Continue(()) };
    }
    let result = |a: i128, b: i128| match operator {
        ArithmeticOperator::And => Some(a & b),
        ArithmeticOperator::Add => a.checked_add(b),
        ArithmeticOperator::Subtract => a.checked_sub(b),
        ArithmeticOperator::Multiply => a.checked_mul(b),
        ArithmeticOperator::Divide => a.checked_div(b),
        ArithmeticOperator::Remainder => a.checked_rem(b),
    };
    let is_sum = matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract);
    let is_scale = matches!(operator, ArithmeticOperator::Multiply | ArithmeticOperator::Divide);
    let value = match (left, right) {
        (Number(a), Number(b)) => result(a, b).map(Number),
        (Duration(a), Duration(b)) if is_sum => result(a, b).map(Duration),
        (Duration(a), Number(b)) if is_scale => result(a, b).map(Duration),
        (Time(a), Duration(b)) if is_sum => result(a, b).map(Time),
        (Time(a), Time(b)) if operator == ArithmeticOperator::Subtract => result(a, b).map(Duration),
        _ => None,
    };
    // A division by zero, or an overflow, has no value.
    value.map_or(ControlFlow::Continue(()), sink)
}

impl FilterFunction {
    pub(super) const NAMES: [(&'static str, Self); 8] = [
        ("len", Self::Len),
        ("count", Self::Count),
        ("upper", Self::Upper),
        ("lower", Self::Lower),
        ("string", Self::String),
        ("max", Self::Max),
        ("min", Self::Min),
        ("abs", Self::Abs),
    ];

    fn for_each_value(
        self,
        arguments: &[CompiledFilterOperand],
        values: &FilterValues,
        sink: FilterValueSink<'_>,
    ) -> ControlFlow<()> {
        if let Self::Max | Self::Min = self {
            return self.extreme(arguments, values, sink);
        }
        let Some(argument) = arguments.first() else { return ControlFlow::Continue(()) };
        if self == Self::Count {
            let count = match argument {
                CompiledFilterOperand::Field(slot) => values.count(*slot),
                _ => 0,
            };
            // An absent field has no count.
            return if count == 0 { ControlFlow::Continue(()) } else { sink(FilterValue::Number(count as i128)) };
        }
        argument.for_each_value(values, &mut |value| match (self, value) {
            (Self::Len, FilterValue::Bytes(bytes) | FilterValue::Text(bytes)) => {
                sink(FilterValue::Number(bytes.len() as i128))
            }
            (Self::Upper, FilterValue::Text(text)) => sink(FilterValue::Text(&text.to_ascii_uppercase())),
            (Self::Lower, FilterValue::Text(text)) => sink(FilterValue::Text(&text.to_ascii_lowercase())),
            (Self::String, value) => {
                let mut text = String::new();
                write(&value, &mut text);
                sink(FilterValue::Text(text.as_bytes()))
            }
            (Self::Abs, FilterValue::Number(number)) => sink(FilterValue::Number(number.abs())),
            (Self::Abs, FilterValue::Duration(duration)) => sink(FilterValue::Duration(duration.abs())),
            _ => ControlFlow::Continue(()),
        })
    }

    /// Calls `sink` with the largest or the smallest of all values of all arguments.
    fn extreme(
        self,
        arguments: &[CompiledFilterOperand],
        values: &FilterValues,
        sink: FilterValueSink<'_>,
    ) -> ControlFlow<()> {
        let preferred_order = if self == Self::Max { Ordering::Greater } else { Ordering::Less };
        let mut best: Option<FilterConstant> = None;
        for argument in arguments {
            let _ = argument.for_each_value(values, &mut |value| {
                let is_better = best
                    .as_ref()
                    .is_none_or(|best| value.compare(&best.map_bytes(Vec::as_slice)) == Some(preferred_order));
                if is_better && value != FilterValue::Unknown {
                    best = Some(value.map_bytes(|bytes| bytes.to_vec()));
                }
                ControlFlow::Continue(())
            });
        }
        best.map_or(ControlFlow::Continue(()), |best| sink(best.map_bytes(Vec::as_slice)))
    }
}

/// Writes a value as text, for `string()`.
fn write(value: &FilterValue<&[u8]>, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = match *value {
        FilterValue::Number(number) => write!(text, "{number}"),
        FilterValue::Bool(value) => write!(text, "{}", if value { "True" } else { "False" }),
        FilterValue::Ipv4(address, _) => write!(text, "{address}"),
        FilterValue::Ipv6(address, _) => write!(text, "{address}"),
        FilterValue::Time(nanoseconds) | FilterValue::Duration(nanoseconds) => {
            let sign = if nanoseconds < 0 { "-" } else { "" };
            let nanoseconds = nanoseconds.unsigned_abs();
            write!(text, "{sign}{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
        }
        // Of the types that are bytes only an Ethernet address has a text.
        FilterValue::Bytes(bytes) => {
            for (index, byte) in bytes.iter().enumerate() {
                let _ = write!(text, "{}{byte:02x}", if index > 0 { ":" } else { "" });
            }
            Ok(())
        }
        FilterValue::Text(bytes) => {
            text.push_str(&String::from_utf8_lossy(bytes));
            Ok(())
        }
        FilterValue::Unknown => Ok(()),
    };
}
