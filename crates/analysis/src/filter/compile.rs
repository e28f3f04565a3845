//! Compiler of filters: names become fields, words become values of the type that they are compared with
//! ([`constant`]), and incompatible types are errors ([`operand_type`]).

mod constant;
mod operand_type;

use std::borrow::Cow;

use regex::bytes::RegexBuilder;

use super::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry, FilterFieldSource, FilterType};
use super::compiled_program::{
    ComparisonOperator, CompiledFilterNode, CompiledFilterOperand, FilterFunction,
};
use super::error::{FilterError, proposal};
use super::syntax::{
    ArithmeticOperator, FilterSpan, FilterSyntaxNode, Operand, OperandForm, ParsedComparisonOperator,
    Quantifier,
};
use super::value::{FilterConstant, FilterFieldSlotNumber};
use super::{literal, possible_generated_values};
use constant::OperandContext;
use operand_type::OperandType;

#[derive(Clone, Debug)]
pub(super) struct ReferencedFilterField {
    pub(super) name: &'static str,
    pub(super) origin: FilterFieldSource,
    /// `true` if its value is used; otherwise its presence is enough.
    pub(super) has_value: bool,
    /// `true` for a search in a protocol: the value is header and payload, not the header alone.
    pub(super) is_search: bool,
}

impl ReferencedFilterField {
    /// Returns the slot of a field, which is added unless it is there.
    pub(super) fn slot_in(
        fields: &mut Vec<Self>,
        entry: &FilterFieldCatalogEntry,
        has_value: bool,
        is_search: bool,
    ) -> FilterFieldSlotNumber {
        let is_same = |field: &Self| field.name == entry.name && field.is_search == is_search;
        if let Some((slot, known)) = fields.iter_mut().enumerate().find(|(_, field)| is_same(field)) {
            known.has_value |= has_value;
            return slot;
        }
        fields.push(Self { name: entry.name, origin: entry.origin.clone(), has_value, is_search });
        fields.len() - 1
    }
}

pub(super) struct FilterCompiler<'c> {
    text: &'c str,
    catalog: &'c FilterFieldCatalog,
    pub(super) fields: Vec<ReferencedFilterField>,
}

type FilterCompileResult<T, E = FilterError> = std::result::Result<T, E>;

impl<'c> FilterCompiler<'c> {
    pub(super) fn new(text: &'c str, catalog: &'c FilterFieldCatalog) -> Self {
        Self { text, catalog, fields: Vec::new() }
    }

    fn error(&self, span: FilterSpan, what: impl Into<String>) -> FilterError {
        FilterError::new(self.text, span.at, what)
    }

    fn source_text(&self, span: FilterSpan) -> &'c str {
        self.text.get(span.at..span.end).unwrap_or_default()
    }

    pub(super) fn test(&mut self, test: &FilterSyntaxNode<'_>) -> FilterCompileResult<CompiledFilterNode> {
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
                self.error(
                    operand.span,
                    "a function is not a test; compare its result, as in len(nfs.name) > 8",
                )
            })),
            _ => {
                let sort = self.type_of(operand)?.ok_or_else(|| self.no_field(operand.span))?;
                let expression = self.expression(operand, OperandContext::nameless(sort))?;
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

    fn no_field(&self, span: FilterSpan) -> FilterError {
        self.error(span, format!("{} has no field in it", self.source_text(span)))
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
        let left_sort = self.type_of(left)?;
        let right = &*self.protocol_as_text(left_sort, right);
        let right_sort = self.type_of(right)?;
        let (Some(first), Some(second)) = (left_sort.or(right_sort), right_sort.or(left_sort)) else {
            return Err(self.no_field_in_relation(left, relation, right));
        };
        if relation == ParsedComparisonOperator::Contains && !first.is_bytes() {
            let what = format!("{} is neither text nor bytes", self.source_text(left.span));
            return Err(self.error(left.span, what));
        }
        if !first.is_comparable_with(second) {
            let (left, right_text) = (self.source_text(left.span), self.source_text(right.span));
            let what = format!("{left} is {}, and {right_text} is {}", first.text(), second.text());
            return Err(self.error(right.span, what));
        }
        // A searched part may be shorter than the address.
        let of_part = |sort| {
            if relation == ParsedComparisonOperator::Contains && sort == OperandType::Ethernet {
                OperandType::Bytes
            } else {
                sort
            }
        };
        let is_whole = matches!(is, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
        let is_order = !is_whole && is != ComparisonOperator::Contains;
        let unordered = [left, right].into_iter().filter_map(|operand| self.field_of(operand));
        if is_order && let Some(field) = { unordered }.find(|field| self.possible_words(field).is_some()) {
            let what = format!("values of {} are not ordered; compare with ==, != or in {{...}}", field.name);
            return Err(self.error(left.span, what));
        }
        let left_beside = OperandContext { operand_type: second, field: self.field_of(right), is_whole };
        let right_beside =
            OperandContext { operand_type: of_part(first), field: self.field_of(left), is_whole };
        let left = match relation {
            ParsedComparisonOperator::Contains => self.search_expression(left, left_beside)?,
            _ => self.expression(left, left_beside)?,
        };
        let right = self.expression(right, right_beside)?;
        Ok(CompiledFilterNode::Compare { left, is, right, every })
    }

    /// Converts the name of a protocol compared with text to text, as in `nfsrdma.transport == tcp`.
    fn protocol_as_text<'o, 't>(
        &self,
        sort: Option<OperandType>,
        operand: &'o Operand<'t>,
    ) -> Cow<'o, Operand<'t>> {
        match operand.form {
            OperandForm::Word(word)
                if sort == Some(OperandType::Text)
                    && self.field_of(operand).is_some_and(|entry| entry.kind == FilterType::Protocol) =>
            {
                Cow::Owned(Operand {
                    form: OperandForm::Quoted(word.as_bytes().to_vec()),
                    span: operand.span,
                })
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
            OperandForm::Word(word)
                if literal::bytes(word).is_none() && literal::duration(word).is_none() =>
            {
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
        let Some(sort) = self.type_of(left)? else {
            return Err(self.no_field_in_relation(left, ParsedComparisonOperator::Matches, right));
        };
        if !sort.is_bytes() {
            let left = self.source_text(left.span);
            return Err(self.error(span, format!("{left} is {}, not text; use string({left})", sort.text())));
        }
        let pattern = std::str::from_utf8(pattern).map_err(|_| {
            self.error(right.span, "a regular expression is UTF-8; a byte in it is written \\\\xff")
        })?;
        let regex =
            RegexBuilder::new(pattern).case_insensitive(true).unicode(false).build().map_err(|error| {
                let reason = error.to_string();
                let reason =
                    reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
                self.error(right.span, format!("invalid regular expression: {reason}"))
            })?;
        let of = self.search_expression(left, OperandContext::nameless(sort))?;
        Ok(CompiledFilterNode::Matches { of, regex, every: quantifier == Quantifier::All })
    }

    /// Returns the words that a field can have as values; `None` for other values.
    fn possible_words(&self, field: &FilterFieldCatalogEntry) -> Option<Vec<String>> {
        match &field.origin {
            FilterFieldSource::Generated(field) => {
                possible_generated_values::possible_values(*field, self.catalog)
            }
            _ => None,
        }
    }

    fn within(
        &mut self,
        quantifier: Quantifier,
        operand: &Operand<'_>,
        set: &[(Operand<'_>, Option<Operand<'_>>)],
    ) -> FilterCompileResult<CompiledFilterNode> {
        let Some(sort) = self.type_of(operand)? else {
            return Err(match operand.form {
                OperandForm::Word(word) => self.unknown_field(word, operand.span),
                _ => self.no_field(operand.span),
            });
        };
        let beside = OperandContext { operand_type: sort, field: self.field_of(operand), is_whole: true };
        let of = self.expression(operand, beside)?;
        let mut values = Vec::new();
        for (first, last) in set {
            let first = self.expression_of_type(first, beside)?;
            let last = last.as_ref().map(|last| self.expression_of_type(last, beside)).transpose()?;
            values.push((first, last));
        }
        Ok(CompiledFilterNode::Within { of, set: values, every: quantifier == Quantifier::All })
    }

    /// Compiles an operand that must have the type of its context.
    fn expression_of_type(
        &mut self,
        operand: &Operand<'_>,
        beside: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        let operand = &*self.protocol_as_text(Some(beside.operand_type), operand);
        match self.type_of(operand)? {
            Some(sort) if !sort.is_comparable_with(beside.operand_type) => Err(self.error(
                operand.span,
                format!("this is {}, and not {}", sort.text(), beside.operand_type.text()),
            )),
            _ => self.expression(operand, beside),
        }
    }

    fn unknown_field(&self, name: &str, span: FilterSpan) -> FilterError {
        let what = format!("unknown field {name}{}", proposal(&self.catalog.nearest(name)));
        self.error(span, what)
    }

    fn field_of(&self, operand: &Operand<'_>) -> Option<&'c FilterFieldCatalogEntry> {
        match &operand.form {
            OperandForm::Word(word) => self.catalog.get(word.strip_prefix('.').unwrap_or(word)),
            _ => None,
        }
    }

    /// Compiles an operand of a search: for a protocol, header and payload.
    fn search_expression(
        &mut self,
        operand: &Operand<'_>,
        beside: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        match self.field_of(operand) {
            Some(entry)
                if entry.kind == FilterType::Protocol
                    && !matches!(entry.origin, FilterFieldSource::Generated(_)) =>
            {
                let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, true, true);
                Ok(CompiledFilterOperand::Field(slot))
            }
            _ => self.expression(operand, beside),
        }
    }

    /// Compiles an operand; an untyped value gets the type of its context.
    fn expression(
        &mut self,
        operand: &Operand<'_>,
        beside: OperandContext<'_>,
    ) -> FilterCompileResult<CompiledFilterOperand> {
        Ok(match &operand.form {
            OperandForm::Word(word) => match self.field_of(operand) {
                Some(entry) => {
                    let slot = ReferencedFilterField::slot_in(&mut self.fields, entry, true, false);
                    CompiledFilterOperand::Field(slot)
                }
                None => CompiledFilterOperand::Constant(self.word(word, operand.span, beside)?),
            },
            OperandForm::Quoted(bytes) => {
                CompiledFilterOperand::Constant(self.quoted(bytes, operand.span, beside)?)
            }
            OperandForm::Char(byte) => CompiledFilterOperand::Constant(match beside.operand_type {
                OperandType::Number | OperandType::Boolean => FilterConstant::Number(i128::from(*byte)),
                sort if sort.is_bytes() => FilterConstant::Bytes(vec![*byte]),
                sort => {
                    return Err(
                        self.error(operand.span, format!("this is a character, and not {}", sort.text()))
                    );
                }
            }),
            OperandForm::Slice(of, pieces) => {
                let sort = self.type_of(of)?.unwrap_or(beside.operand_type);
                CompiledFilterOperand::Slice(
                    Box::new(self.expression(of, OperandContext::nameless(sort))?),
                    pieces.clone(),
                )
            }
            OperandForm::Call(name, arguments) => {
                let function = self.function(name, operand.span)?;
                let sorts: Vec<_> = arguments
                    .iter()
                    .map(|argument| self.type_of(argument))
                    .collect::<FilterCompileResult<_>>()?;
                let known = sorts.into_iter().flatten().next().unwrap_or(beside.operand_type);
                let beside = OperandContext::nameless(known);
                let arguments = arguments.iter().map(|argument| self.expression(argument, beside));
                CompiledFilterOperand::Function(function, arguments.collect::<FilterCompileResult<_>>()?)
            }
            OperandForm::Negative(of) => match (&of.form, self.type_of(of)?) {
                (OperandForm::Word(word), None) => {
                    CompiledFilterOperand::Constant(self.word(&format!("-{word}"), operand.span, beside)?)
                }
                (_, sort) => {
                    let beside = OperandContext::nameless(sort.unwrap_or(beside.operand_type));
                    CompiledFilterOperand::Negative(Box::new(self.expression(of, beside)?))
                }
            },
            OperandForm::Arithmetic(left, what, right) => {
                let (left_sort, right_sort) = (self.type_of(left)?, self.type_of(right)?);
                let is_scale = matches!(what, ArithmeticOperator::Multiply | ArithmeticOperator::Divide);
                // A time is combined with a duration, and a duration is scaled by a number.
                let second = match left_sort.or(right_sort).unwrap_or(beside.operand_type) {
                    OperandType::Duration if is_scale => OperandType::Number,
                    OperandType::Time => OperandType::Duration,
                    sort => sort,
                };
                let is_whole = false;
                let sort = right_sort.unwrap_or(beside.operand_type);
                let first = OperandContext { operand_type: sort, field: self.field_of(right), is_whole };
                let sort = right_sort.unwrap_or(second);
                let second = OperandContext { operand_type: sort, field: self.field_of(left), is_whole };
                let left = self.expression(left, first)?;
                let right = self.expression(right, second)?;
                CompiledFilterOperand::Arithmetic(Box::new(left), *what, Box::new(right))
            }
        })
    }
}
