//! `fields`: lists the fields of filters, with type, description and source.

use std::io::{self, BufWriter, Write};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use nfsrdma_analysis::filter::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry};

use super::exit_status::ExitStatus;
use super::standard_streams::write_error;
use super::terminal_capabilities::{self, ColorChoice};
use crate::output::json::object::{JsonArray, json_object, write_json_line};
use crate::output::style::{StyledText, TerminalProfile, fit};

/// Form of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FieldListFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON Lines: one object per field
    Json,
}

/// List the display filter fields
///
/// Each line has the name, type, description and defining specification section of a field. Names are those of
/// Wireshark where it has the field; other names begin with nfsrdma.
#[derive(Debug, Args)]
pub(super) struct FilterFieldListingArgs {
    /// Substring of the field names to list; with * or ?, a pattern for the whole name
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: FieldListFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

pub(super) fn run(args: &FilterFieldListingArgs) -> Result<ExitStatus> {
    let catalog = FilterFieldCatalog::shared();
    let pattern = args.pattern.as_deref().unwrap_or_default();
    let entries: Vec<&FilterFieldCatalogEntry> = catalog.iter().filter(|entry| matches(entry.name, pattern)).collect();
    if entries.is_empty() {
        let proposals = catalog.nearest(pattern).join(", ");
        let proposals = if proposals.is_empty() { proposals } else { format!("; did you mean {proposals}?") };
        bail!("unknown field {pattern:?}{proposals}");
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let result = match args.format {
        FieldListFormat::Text => text(&mut out, &entries, &terminal_capabilities::screen(args.color)),
        FieldListFormat::Json => json(&mut out, &entries),
    };
    result.and_then(|()| out.flush()).map_err(write_error)?;
    Ok(ExitStatus::Done)
}

/// Maximum width of the aligned column of names; a longer name moves the rest to the right.
const MAX_NAME_WIDTH: usize = 40;

fn text(out: &mut impl Write, entries: &[&FilterFieldCatalogEntry], screen: &TerminalProfile) -> io::Result<()> {
    let longest =
        |length: fn(&FilterFieldCatalogEntry) -> usize| entries.iter().map(|entry| length(entry)).max().unwrap_or(0);
    let name = longest(|entry| entry.name.len()).min(MAX_NAME_WIDTH);
    let kind = longest(|entry| entry.kind.name().len());
    for entry in entries {
        let more_sources = match entry.sources.len().saturating_sub(1) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let source = entry.sources.first().map_or("", String::as_str);
        let indent = name.max(entry.name.len()) + kind + 4;
        let description = format!("{}. {source}{more_sources}", entry.text);
        let description = match screen.width {
            Some(width) => fit(&description, width.saturating_sub(indent), &screen.glyphs),
            None => description.as_str().into(),
        };
        let label = StyledText(screen.styles.label, format!("{:<name$}", entry.name));
        writeln!(out, "{label}  {:<kind$}  {description}", entry.kind)?;
    }
    Ok(())
}

fn json(out: &mut impl Write, entries: &[&FilterFieldCatalogEntry]) -> io::Result<()> {
    for entry in entries {
        let values = || entry.names.iter().map(|(number, name)| json_object! { name: name, number: number });
        let object = json_object! {
            name: entry.name,
            r#type: entry.kind.name(),
            description: &entry.text,
            sources: &entry.sources,
            #[serde(flatten)]
            values: (!entry.names.is_empty()).then(|| json_object! { values: JsonArray(values) }),
        };
        write_json_line(out, &object)?;
    }
    Ok(())
}

/// Returns `true` if a name contains the pattern or, if that has wildcards, matches it completely; ignores case.
fn matches(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.to_ascii_lowercase(), pattern.to_ascii_lowercase());
    if pattern.contains(['*', '?']) { glob(name.as_bytes(), pattern.as_bytes()) } else { name.contains(&pattern) }
}

fn glob(name: &[u8], pattern: &[u8]) -> bool {
    // Index of the last star, and the length of the name matched up to it; backtracking extends it.
    let (mut at, mut in_pattern) = (0, 0);
    let mut star = None;
    while at < name.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                star = Some((in_pattern, at));
                in_pattern += 1;
            }
            Some(byte) if *byte == b'?' || name.get(at) == Some(byte) => {
                at += 1;
                in_pattern += 1;
            }
            _ => {
                let Some((star_at, match_end)) = star else { return false };
                star = Some((star_at, match_end + 1));
                (in_pattern, at) = (star_at + 1, match_end + 1);
            }
        }
    }
    pattern.get(in_pattern..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_the_name() {
        assert!(matches("nfs.opcode", "OPCODE"));
        assert!(matches("nfs.opcode", ""));
        assert!(!matches("nfs.opcode", "opcodes"));
    }

    #[test]
    fn a_pattern_with_wildcards_matches_the_whole_name() {
        for (pattern, expected) in [
            ("nfs.*", true),
            ("*.opcode", true),
            ("*op*de", true),
            ("nfs.opcod?", true),
            ("n*s.o*p*code*", true),
            ("opcode*", false),
            ("nfs.?", false),
            ("*opcod", false),
        ] {
            assert_eq!(matches("nfs.opcode", pattern), expected, "{pattern}");
        }
    }
}
