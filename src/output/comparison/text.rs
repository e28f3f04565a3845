//! Comparison as text, the most important parts first.

use std::io::{self, Write};

use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};

use super::difference_text::{difference_text, frame_of};
use super::unformatted_comparison_report::ComparisonReportWriter;
use crate::escape;
use crate::output::style::{StyledText, columns, fit};
use crate::output::units::{HumanCount, PluralCount};

/// Width in columns if lines have no limit.
const DEFAULT_WIDTH: usize = 100;

fn joined<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn describe(trace: &ComparedCaptureSummary) -> String {
    let mut text = PluralCount(trace.transactions, "transaction").to_string();
    if trace.incomplete > 0 {
        text += &format!(", {} incomplete", HumanCount(trace.incomplete));
    }
    for names in [&trace.transports, &trace.versions] {
        if !names.is_empty() {
            text += "; ";
            text += &joined(names.iter());
        }
    }
    text
}

pub(super) fn write(view: &ComparisonReportWriter<'_>, to: &mut impl Write) -> io::Result<()> {
    let screen = view.screen;
    let width = screen.width.unwrap_or(DEFAULT_WIDTH);
    let styles = screen.styles;
    for (label, trace) in [("A", view.a), ("B", view.b)] {
        writeln!(to, "{}  {}", StyledText(styles.header, label), escape::escape_line(&trace.name))?;
        writeln!(to, "   {}", fit(&describe(trace), width.saturating_sub(3), &screen.glyphs))?;
    }
    writeln!(to)?;
    let comparison = view.comparison;
    match view.first.first() {
        None => {
            let summary = if comparison.total() == 0 {
                "No differences.".to_owned()
            } else {
                format!("{}.", PluralCount(comparison.total(), "difference"))
            };
            writeln!(to, "{}", StyledText(styles.operation, summary))?;
        }
        Some(first) => {
            first_difference(view, to, first)?;
            counts(view, to, width)?;
            write_count_differences(view, to, width)?;
            list(view, to, width)?;
        }
    }
    notes(view, to)
}

fn first_difference(view: &ComparisonReportWriter<'_>, to: &mut impl Write, first: &Difference) -> io::Result<()> {
    let (styles, width) = (view.screen.styles, view.screen.width.unwrap_or(DEFAULT_WIDTH));
    let title = format!("{}, {}", first.operation, first.kind);
    writeln!(to, "First difference: {}", StyledText(styles.error, title))?;
    if !first.path.is_empty() {
        writeln!(to, "   {}", StyledText(styles.label, &first.path))?;
    }
    for (label, side) in [("A", &first.a), ("B", &first.b)] {
        let location = frame_text(side);
        let value = side.value.as_deref().unwrap_or("-");
        let value_width = width.saturating_sub(5 + columns(&location));
        let value = fit(value, value_width.max(20), &view.screen.glyphs);
        writeln!(to, "   {label}  {}{}{value}", location, if location.is_empty() { "" } else { "  " })?;
    }
    if first.count > 1 {
        writeln!(to, "   and {} more of this field in this transaction", HumanCount(first.count - 1))?;
    }
    Ok(())
}

/// Formats the frame of a side, with that of its Call if it differs: `frame 590`, `frame 595 (Call in 590)`.
fn frame_text(side: &DifferenceSideValue) -> String {
    match (side.frame, side.location.and_then(|location| location.call)) {
        (Some(frame), Some(call)) if call != frame => format!("frame {frame} (call in {call})"),
        (Some(frame), _) => format!("frame {frame}"),
        (None, _) => String::new(),
    }
}

fn counts(view: &ComparisonReportWriter<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let styles = view.screen.styles;
    let total = view.comparison.total();
    writeln!(to, "\n{}", StyledText(styles.header, PluralCount(total, "difference")))?;
    let rows: Vec<_> =
        view.comparison.counts().iter().map(|(kind, number)| (HumanCount(*number).to_string(), *kind)).collect();
    let widest = rows.iter().map(|(number, _)| number.len()).max().unwrap_or(0);
    for (number, kind) in rows {
        let line = format!("  {number:>widest$}  {kind:<12} {}", kind.meaning());
        writeln!(to, "{}", fit(&line, width, &view.screen.glyphs))?;
    }
    Ok(())
}

/// Writes the operations whose counts differ.
fn write_count_differences(view: &ComparisonReportWriter<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let differing: Vec<_> =
        view.comparison.operation_counts().iter().filter(|(_, mix)| mix.counts[0] != mix.counts[1]).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let styles = view.screen.styles;
    let name =
        differing.iter().map(|(name, _)| columns(name)).max().unwrap_or(0).clamp(9, width.saturating_sub(24).max(9));
    let header = format!("{:<name$}  {:>9}  {:>9}", "OPERATION", "IN A", "IN B");
    writeln!(to, "\n{}", StyledText(styles.header, header))?;
    for (operation, mix) in differing {
        let operation = fit(operation, name, &view.screen.glyphs);
        writeln!(to, "{operation:<name$}  {:>9}  {:>9}", HumanCount(mix.counts[0]), HumanCount(mix.counts[1]))?;
    }
    Ok(())
}

fn list(view: &ComparisonReportWriter<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let differences = view.first;
    let (total, shown_count) = (view.comparison.total(), differences.len() as u64);
    if total < 2 {
        return Ok(());
    }
    let styles = view.screen.styles;
    let frame = |side: &DifferenceSideValue| frame_of(side).map_or_else(|| "-".to_owned(), |frame| frame.to_string());
    let operation = |difference: &Difference| difference.operation.rsplit(' ').next().unwrap_or_default().to_owned();
    let widest = |text: &dyn Fn(&Difference) -> String, min_width: usize| {
        differences.iter().map(|difference| columns(&text(difference))).max().unwrap_or(0).max(min_width)
    };
    let a = widest(&|difference| frame(&difference.a), 7);
    let b = widest(&|difference| frame(&difference.b), 7);
    let name = widest(&operation, 9).min(20);
    let header = format!("{:>a$}  {:>b$}  {:<12}  {:<name$}  WHAT", "FRAME A", "FRAME B", "KIND", "OPERATION");
    writeln!(to, "\n{}", StyledText(styles.header, header))?;
    for difference in differences {
        let fixed_width = a + b + name + 20;
        let text_width = width.saturating_sub(fixed_width).max(20);
        let text = difference_text(difference, view.screen.glyphs.to);
        let text = if view.screen.width.is_some() { fit(&text, text_width, &view.screen.glyphs) } else { text.into() };
        let operation = operation(difference);
        writeln!(
            to,
            "{:>a$}  {:>b$}  {:<12}  {:<name$}  {text}",
            frame(&difference.a),
            frame(&difference.b),
            difference.kind,
            fit(&operation, name, &view.screen.glyphs),
        )?;
    }
    if shown_count < total {
        writeln!(to, "and {} more; -c shows more", HumanCount(total - shown_count))?;
    }
    Ok(())
}

/// Writes the totals, and the number of items that were not compared.
fn notes(view: &ComparisonReportWriter<'_>, to: &mut impl Write) -> io::Result<()> {
    let comparison = view.comparison;
    let compared = comparison.compared();
    writeln!(
        to,
        "\nCompared: {}, {}, {} of file data.",
        PluralCount(comparison.pairs(), "transaction"),
        PluralCount(compared.fields, "field"),
        PluralCount(compared.data_bytes, "byte")
    )?;
    let notes = [
        (comparison.filtered(), "difference", "left out by --only or --ignore"),
        (compared.unknown, "field", "not compared: not in one of the captures"),
        (compared.version_dependent_fields, "field", "not compared: arguments and results depend on the minor version"),
        (comparison.reordered(), "operation", "in another order; they did not depend on each other"),
        (comparison.setup_calls(), "call of NULL or PORTMAP", "not compared: only one capture uses RDMA"),
    ];
    for (number, unit, reason) in notes {
        if number > 0 {
            writeln!(
                to,
                "{} {reason}.",
                PluralCount(number, unit).to_string().replace("call of NULL or PORTMAPs", "calls of NULL or PORTMAP")
            )?;
        }
    }
    if let Some(needed) = &view.needed_memory {
        let forgotten = PluralCount(comparison.forgotten_identities(), "pair");
        writeln!(to, "{forgotten} of identities forgotten (limit reached); --max-memory {needed} keeps all.")?;
    }
    for (label, trace) in [("A", view.a), ("B", view.b)] {
        for (name, number) in &trace.evicted {
            writeln!(to, "{label}: state dropped (limit reached): {number} {}.", name.replace('_', " "))?;
        }
    }
    Ok(())
}
