//! Compiler of filters: names become fields, words become values of the type that they are compared with
//! ([`constant`]), and incompatible types are errors ([`operand_type`]).

mod constant;
mod filter_compiler;
mod operand_type;

use std::borrow::Cow;

use regex::bytes::RegexBuilder;

use super::catalog::{FilterFieldCatalog, FilterFieldSource};
use super::compiled_program::{ComparisonOperator, CompiledFilterNode, CompiledFilterOperand, FilterFunction};
use super::error::FilterError;
use super::filter_type::FilterType;
use super::literal;
use super::referenced_filter_field::ReferencedFilterField;
use super::syntax::{FilterSpan, FilterSyntaxNode, Operand, OperandForm, Quantifier};
use super::token::{ArithmeticOperator, ParsedComparisonOperator};
use super::value::FilterConstant;
use constant::OperandContext;
use filter_compiler::{FilterCompileResult, FilterCompiler};
use operand_type::OperandType;

/// Compiles a parsed filter. Returns its program, with the fields by slot.
pub(super) fn compile(
    text: &str,
    test: &FilterSyntaxNode<'_>,
) -> FilterCompileResult<(CompiledFilterNode, Vec<ReferencedFilterField>)> {
    let mut compiler = FilterCompiler { text, catalog: FilterFieldCatalog::shared(), fields: Vec::new() };
    Ok((compiler.test(test)?, compiler.fields))
}

impl FilterCompiler<'_> {
    fn test(&mut self, test: &FilterSyntaxNode<'_>) -> FilterCompileResult<CompiledFilterNode> {
        Ok(match test {
            FilterSyntaxNode::Or(tests) => CompiledFilterNode::Or(self.tests(tests)?),
            FilterSyntaxNode::Xor(tests) => CompiledFilterNode::Xor(self.tests(tests)?),
            FilterSyntaxNode::And(tests) => CompiledFilterNode::And(self.tests(tests)?),
            FilterSyntaxNode::Not(test) => CompiledFilterNode::Not(Box::new(self.test(test)?)),
            FilterSyntaxNode::Operand(operand) => self.compile_operand_test(operand)?,
            FilterSyntaxNode::Relation(quantifier, left, relation, span, right) => {
                self.relation(*quantifier, left, *relation, *span, right)?
            }
            FilterSyntaxNode::Within(quantifier, operand, set) => self.within(*quantifier, operand, set)?,
        })
    }

    fn tests(&mut self, tests: &[FilterSyntaxNode<'_>]) -> FilterCompileResult<Vec<CompiledFilterNode>> {
        tests.iter().map(|test| self.test(test)).collect()
    }

    /// Compiles an operand without a relation.
    fn compile_operand_test(&mut self, operand: &Operand<'_>) -> FilterCompileResult<CompiledFilterNode> {
        match &operand.form {
            OperandForm::Word(word) => {
                let Some(entry) = self.field_of(operand) else {
                    let name = word.strip_prefix('.').unwrap_or(word);
                    return Err(self.unknown_field(name, operand.span));
                };
                let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, false, false);
                Ok(CompiledFilterNode::Exists(slot))
            }
            OperandForm::Quoted(_) | OperandForm::Char(_) => {
                Err(self.error(operand.span, "a value is not a test; compare a field with it"))
            }
            OperandForm::Call(name, _) => Err(self.function(name, operand.span).err().unwrap_or_else(|| {
                self.error(operand.span, "a function is not a test; compare its result, as in len(nfs.name) > 8")
            })),
            _ => {
                let operand_type = self.type_of(operand)?.ok_or_else(|| self.no_field(operand.span))?;
                let expression = self.expression(operand, OperandContext::nameless(operand_type))?;
                // A slice is tested for presence; the result of a calculation for being nonzero.
                let is_slice = matches!(operand.form, OperandForm::Slice(..));
                Ok(match is_slice {
                    true => CompiledFilterNode::Compare {
                        left: CompiledFilterOperand::Function(FilterFunction::Len, vec![expression]),
                        is: ComparisonOperator::Greater,
                        right: CompiledFilterOperand::Constant(FilterConstant::Number(0)),
                        every: false,
                    },
                    false => CompiledFilterNode::True(expression),
                })
            }
        }
    }

    fn relation(
        &mut self,
        quantifier: Quantifier,
        left: &Operand<'_>,
        relation: ParsedComparisonOperator,
        span: FilterSpan,
        right: &Operand<'_>,
    ) -> FilterCompileResult<CompiledFilterNode> {
        let (is, every) = match relation {
            ParsedComparisonOperator::Equal => (ComparisonOperator::Equal, false),
            ParsedComparisonOperator::AllEqual => (ComparisonOperator::Equal, true),
            ParsedComparisonOperator::NotEqual => (ComparisonOperator::NotEqual, true),
            ParsedComparisonOperator::AnyNotEqual => (ComparisonOperator::NotEqual, false),
            ParsedComparisonOperator::Greater => (ComparisonOperator::Greater, false),
            ParsedComparisonOperator::GreaterEqual => (ComparisonOperator::GreaterEqual, false),
            ParsedComparisonOperator::Less => (ComparisonOperator::Less, false),
            ParsedComparisonOperator::LessEqual => (ComparisonOperator::LessEqual, false),
            ParsedComparisonOperator::Contains => (ComparisonOperator::Contains, false),
            ParsedComparisonOperator::Matches => return self.matches(quantifier, left, span, right),
        };
        let every = match quantifier {
            Quantifier::Default => every,
            Quantifier::Any => false,
            Quantifier::All => true,
        };
        let left_type = self.type_of(left)?;
        let right = &*self.protocol_as_text(left_type, right);
        let right_type = self.type_of(right)?;
        let (Some(first), Some(second)) = (left_type.or(right_type), right_type.or(left_type)) else {
            return Err(self.no_field_in_relation(left, relation, right));
        };
        if relation == ParsedComparisonOperator::Contains && !first.is_bytes() {
            let message = format!("{} is neither text nor bytes", self.source_text(left.span));
            return Err(self.error(left.span, message));
        }
        if !first.is_comparable_with(second) {
            let (left, right_text) = (self.source_text(left.span), self.source_text(right.span));
            let message = format!("{left} is {}, and {right_text} is {}", first.text(), second.text());
            return Err(self.error(right.span, message));
        }
        // A searched part may be shorter than the address.
        let searched_type = |operand_type| {
            if relation == ParsedComparisonOperator::Contains && operand_type == OperandType::Ethernet {
                OperandType::Bytes
            } else {
                operand_type
            }
        };
        let is_whole = matches!(is, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
        let is_order = !is_whole && is != ComparisonOperator::Contains;
        let unordered = [left, right].into_iter().filter_map(|operand| self.field_of(operand));
        if is_order && let Some(field) = { unordered }.find(|field| self.possible_words(field).is_some()) {
            let message = format!("values of {} are not ordered; compare with ==, != or in {{...}}", field.name);
            return Err(self.error(left.span, message));
        }
        let left_context = OperandContext { operand_type: second, field: self.field_of(right), is_whole };
        let right_context = OperandContext { operand_type: searched_type(first), field: self.field_of(left), is_whole };
        let left = match relation {
            ParsedComparisonOperator::Contains => self.search_expression(left, left_context)?,
            _ => self.expression(left, left_context)?,
        };
        let right = self.expression(right, right_context)?;
        Ok(CompiledFilterNode::Compare { left, is, right, every })
    }

    /// Converts the name of a protocol compared with text to text, as in `nfsrdma.transport == tcp`.
    fn protocol_as_text<'o, 't>(
        &self,
        operand_type: Option<OperandType>,
        operand: &'o Operand<'t>,
    ) -> Cow<'o, Operand<'t>> {
        match operand.form {
            OperandForm::Word(word)
                if operand_type == Some(OperandType::Text)
                    && self.field_of(operand).is_some_and(|entry| entry.kind == FilterType::Protocol) =>
            {
                Cow::Owned(Operand { form: OperandForm::Quoted(word.as_bytes().to_vec()), span: operand.span })
            }
            _ => Cow::Borrowed(operand),
        }
    }

    fn no_field_in_relation(
        &self,
        left: &Operand<'_>,
        relation: ParsedComparisonOperator,
        right: &Operand<'_>,
    ) -> FilterError {
        let words = [left, right].into_iter().filter_map(|operand| match operand.form {
            OperandForm::Word(word) if literal::bytes(word).is_none() && literal::duration(word).is_none() => {
                Some((word, operand.span))
            }
            _ => None,
        });
        match words.into_iter().next() {
            Some((word, span)) => self.unknown_field(word, span),
            None => self.error(left.span, format!("neither side of {} is a field", relation.text())),
        }
    }

    fn matches(
        &mut self,
        quantifier: Quantifier,
        left: &Operand<'_>,
        span: FilterSpan,
        right: &Operand<'_>,
    ) -> FilterCompileResult<CompiledFilterNode> {
        let OperandForm::Quoted(pattern) = &right.form else {
            return Err(self.error(right.span, "a regular expression needs double quotes"));
        };
        let Some(operand_type) = self.type_of(left)? else {
            return Err(self.no_field_in_relation(left, ParsedComparisonOperator::Matches, right));
        };
        if !operand_type.is_bytes() {
            let left = self.source_text(left.span);
            return Err(self.error(span, format!("{left} is {}, not text; use string({left})", operand_type.text())));
        }
        let pattern = std::str::from_utf8(pattern)
            .map_err(|_| self.error(right.span, "a regular expression is UTF-8; a byte in it is written \\\\xff"))?;
        let regex = RegexBuilder::new(pattern).case_insensitive(true).unicode(false).build().map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
            self.error(right.span, format!("invalid regular expression: {reason}"))
        })?;
        let operand = self.search_expression(left, OperandContext::nameless(operand_type))?;
        Ok(CompiledFilterNode::Matches { of: operand, regex, every: quantifier == Quantifier::All })
    }

    fn within(
        &mut self,
        quantifier: Quantifier,
        operand: &Operand<'_>,
        set: &[(Operand<'_>, Option<Operand<'_>>)],
    ) -> FilterCompileResult<CompiledFilterNode> {
        let Some(operand_type) = self.type_of(operand)? else {
            return Err(self.not_a_field(operand));
        };
        let context = OperandContext { operand_type, field: self.field_of(operand), is_whole: true };
        let expression = self.expression(operand, context)?;
        let mut values = Vec::new();
        for (first, last) in set {
            let first = self.expression_of_type(first, context)?;
            let last = last.as_ref().map(|last| self.expression_of_type(last, context)).transpose()?;
            values.push((first, last));
        }
        Ok(CompiledFilterNode::Within { of: expression, set: values, every: quantifier == Quantifier::All })
    }

    /// Compiles an operand that must have the type of its context.
    fn expression_of_type(
        &mut self,
        operand: &Operand<'_>,
        context: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        let operand = &*self.protocol_as_text(Some(context.operand_type), operand);
        match self.type_of(operand)? {
            Some(operand_type) if !operand_type.is_comparable_with(context.operand_type) => Err(self.error(
                operand.span,
                format!("this is {}, and not {}", operand_type.text(), context.operand_type.text()),
            )),
            _ => self.expression(operand, context),
        }
    }

    /// Compiles an operand of a search: for a protocol, header and payload.
    fn search_expression(
        &mut self,
        operand: &Operand<'_>,
        context: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        match self.field_of(operand) {
            Some(entry)
                if entry.kind == FilterType::Protocol && !matches!(entry.origin, FilterFieldSource::Generated(_)) =>
            {
                let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, true, true);
                Ok(CompiledFilterOperand::Field(slot))
            }
            _ => self.expression(operand, context),
        }
    }

    /// Compiles an operand; an untyped value gets the type of its context.
    fn expression(
        &mut self,
        operand: &Operand<'_>,
        context: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        Ok(match &operand.form {
            OperandForm::Word(word) => match self.field_of(operand) {
                Some(entry) => {
                    let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, true, false);
                    CompiledFilterOperand::Field(slot)
                }
                None => CompiledFilterOperand::Constant(self.word(word, operand.span, context)?),
            },
            OperandForm::Quoted(bytes) => CompiledFilterOperand::Constant(self.quoted(bytes, operand.span, context)?),
            OperandForm::Char(byte) => CompiledFilterOperand::Constant(match context.operand_type {
                OperandType::Number | OperandType::Boolean => FilterConstant::Number(i128::from(*byte)),
                operand_type if operand_type.is_bytes() => FilterConstant::Bytes(vec![*byte]),
                operand_type => {
                    return Err(
                        self.error(operand.span, format!("this is a character, and not {}", operand_type.text()))
                    );
                }
            }),
            OperandForm::Slice(inner, ranges) => {
                let operand_type = self.type_of(inner)?.unwrap_or(context.operand_type);
                CompiledFilterOperand::Slice(
                    Box::new(self.expression(inner, OperandContext::nameless(operand_type))?),
                    ranges.clone(),
                )
            }
            OperandForm::Call(name, arguments) => {
                let function = self.function(name, operand.span)?;
                let operand_types: Vec<_> =
                    arguments.iter().map(|argument| self.type_of(argument)).collect::<FilterCompileResult<_>>()?;
                let argument_type = operand_types.into_iter().flatten().next().unwrap_or(context.operand_type);
                let context = OperandContext::nameless(argument_type);
                let arguments = arguments.iter().map(|argument| self.expression(argument, context));
                CompiledFilterOperand::Function(function, arguments.collect::<FilterCompileResult<_>>()?)
            }
            OperandForm::Negative(inner) => match (&inner.form, self.type_of(inner)?) {
                (OperandForm::Word(word), None) => {
                    CompiledFilterOperand::Constant(self.word(&format!("-{word}"), operand.span, context)?)
                }
                (_, operand_type) => {
                    let context = OperandContext::nameless(operand_type.unwrap_or(context.operand_type));
                    CompiledFilterOperand::Negative(Box::new(self.expression(inner, context)?))
                }
            },
            OperandForm::Arithmetic(left, operator, right) => {
                let (left_type, right_type) = (self.type_of(left)?, self.type_of(right)?);
                let is_scale = matches!(operator, ArithmeticOperator::Multiply | ArithmeticOperator::Divide);
                // A time is combined with a duration, and a duration is scaled by a number.
                let second = match left_type.or(right_type).unwrap_or(context.operand_type) {
                    OperandType::Duration if is_scale => OperandType::Number,
                    OperandType::Time => OperandType::Duration,
                    operand_type => operand_type,
                };
                let is_whole = false;
                let operand_type = right_type.unwrap_or(context.operand_type);
                let first = OperandContext { operand_type, field: self.field_of(right), is_whole };
                let operand_type = right_type.unwrap_or(second);
                let second = OperandContext { operand_type, field: self.field_of(left), is_whole };
                let left = self.expression(left, first)?;
                let right = self.expression(right, second)?;
                CompiledFilterOperand::Arithmetic(Box::new(left), *operator, Box::new(right))
            }
        })
    }
}
