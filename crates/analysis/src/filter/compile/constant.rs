//! Conversion of words and texts of a filter to values of the type that they are compared with.

use super::filter_compiler::{FilterCompileResult, FilterCompiler};
use super::operand_type::OperandType;
use crate::filter::catalog::{FilterFieldCatalogEntry, nearest};
use crate::filter::error::{FilterError, proposal};
use crate::filter::syntax::FilterSpan;
use crate::filter::value::FilterConstant;
use crate::filter::{literal, possible_generated_values};

/// Maximum number of possible values that an error lists when none is similar.
const MAX_LISTED_VALUES: usize = 8;

#[derive(Clone, Copy)]
pub(super) struct OperandContext<'e> {
    pub(super) operand_type: OperandType,
    /// The field that may have names for its values.
    pub(super) field: Option<&'e FilterFieldCatalogEntry>,
    /// `true` if the complete value is compared, and not a part or an order.
    pub(super) is_whole: bool,
}

impl OperandContext<'_> {
    /// Creates a context of this type, without names for values.
    pub(super) const fn nameless(operand_type: OperandType) -> Self {
        Self { operand_type, field: None, is_whole: false }
    }
}

impl FilterCompiler<'_> {
    /// Converts a word without quotes.
    pub(super) fn word(
        &self,
        word: &str,
        span: FilterSpan,
        context: OperandContext<'_>,
    ) -> FilterCompileResult<FilterConstant> {
        let ipv4 = || literal::ipv4(word).map(|(address, bits)| FilterConstant::Ipv4(address, bits));
        let ipv6 = || literal::ipv6(word).map(|(address, bits)| FilterConstant::Ipv6(address, bits));
        let constant = match context.operand_type {
            OperandType::Number => {
                literal::number(word).or_else(|| named_number(word, context)).map(FilterConstant::Number)
            }
            OperandType::Boolean => literal::boolean(word).map(FilterConstant::Bool),
            OperandType::Bytes => literal::bytes(word).map(FilterConstant::Bytes),
            OperandType::Ethernet => literal::bytes(word).filter(|bytes| bytes.len() == 6).map(FilterConstant::Bytes),
            OperandType::Text => return self.text(word.as_bytes(), span, context),
            OperandType::Ipv4 => ipv4(),
            OperandType::Ipv6 => ipv6(),
            OperandType::Address => ipv4()
                .or_else(ipv6)
                .or_else(|| word.starts_with("lid:").then(|| FilterConstant::Text(word.as_bytes().to_vec()))),
            OperandType::Time => literal::time(word).map(FilterConstant::Time),
            OperandType::Duration => literal::duration(word).map(FilterConstant::Duration),
        };
        constant.ok_or_else(|| self.value_error(word, span, context))
    }

    pub(super) fn quoted(
        &self,
        bytes: &[u8],
        span: FilterSpan,
        context: OperandContext<'_>,
    ) -> FilterCompileResult<FilterConstant> {
        match context.operand_type {
            OperandType::Text => self.text(bytes, span, context),
            OperandType::Bytes => Ok(FilterConstant::Bytes(bytes.to_vec())),
            OperandType::Number => {
                let text = String::from_utf8_lossy(bytes);
                let number = named_number(&text, context).or_else(|| literal::number(&text));
                number.map(FilterConstant::Number).ok_or_else(|| self.value_error(&text, span, context))
            }
            _ => self.word(&String::from_utf8_lossy(bytes), span, context),
        }
    }

    /// Converts a text, which must be a possible value of the field in its context, if these are known.
    fn text(&self, bytes: &[u8], span: FilterSpan, context: OperandContext<'_>) -> FilterCompileResult<FilterConstant> {
        let Some((field, words)) = context.field.and_then(|field| Some((field, self.possible_words(field)?))) else {
            return Ok(FilterConstant::Text(bytes.to_vec()));
        };
        // All words of a field are in one case; a filter may use either.
        let is_lower_case = words.iter().all(|word| *word == word.to_ascii_lowercase());
        let bytes = if is_lower_case { bytes.to_ascii_lowercase() } else { bytes.to_ascii_uppercase() };
        let word = String::from_utf8_lossy(&bytes);
        let is_possible = words.iter().any(|possible| *possible == word) || possible_generated_values::is_number(&word);
        if context.is_whole && !is_possible {
            let names = nearest(&word, words.iter().map(String::as_str));
            let names = if words.len() <= MAX_LISTED_VALUES && names.is_empty() {
                format!("; it is {}", words.join(", "))
            } else {
                proposal(&names)
            };
            return Err(self.error(span, format!("{} has no value {word}{names}", field.name)));
        }
        Ok(FilterConstant::Text(bytes))
    }

    fn value_error(&self, word: &str, span: FilterSpan, context: OperandContext<'_>) -> FilterError {
        let Some(field) = context.field else {
            let fields = if word.contains('.') { self.catalog.nearest(word) } else { Vec::new() };
            return self.error(span, format!("{word} is not {}{}", context.operand_type.text(), proposal(&fields)));
        };
        let fields = match word.contains('.') {
            true => self.catalog.nearest(word),
            false => self.catalog.replacements(field.name).to_vec(),
        };
        if field.names.is_empty() || !fields.is_empty() {
            let message =
                format!("{} is {}; {word} is not{}", field.name, context.operand_type.text(), proposal(&fields));
            return self.error(span, message);
        }
        let names = nearest(word, field.names.iter().map(|(_, name)| *name));
        let has_name =
            |entry: &&FilterFieldCatalogEntry| entry.names.iter().any(|(_, name)| name.eq_ignore_ascii_case(word));
        let suggestion = self.catalog.iter().find(has_name).map(|entry| format!("; {} has it", entry.name));
        let message = format!("{} has no value {word}{}", field.name, suggestion.unwrap_or_else(|| proposal(&names)));
        self.error(span, message)
    }
}

/// Old names of values in RFC 1057 and Wireshark, with those of RFC 5531 section 8.2.
const FORMER_NAMES: [(&str, &str); 2] = [("AUTH_NULL", "AUTH_NONE"), ("AUTH_UNIX", "AUTH_SYS")];

/// Returns the number with this name in the specification; an exact match is preferred over one that ignores case.
fn named_number(word: &str, context: OperandContext<'_>) -> Option<i128> {
    let names = &context.field?.names;
    let exactly = names.iter().find(|(_, name)| *name == word);
    let nearly = || names.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
    let renamed = FORMER_NAMES.iter().find(|(former, _)| former.eq_ignore_ascii_case(word));
    let by_current_name = || renamed.and_then(|(_, current)| names.iter().find(|(_, name)| name == current));
    exactly.or_else(nearly).or_else(by_current_name).map(|(number, _)| i128::from(*number))
}
