//! Comparison as text, the most important parts first.

use std::io::{self, Write};

use super::{ComparisonReportWriter, difference_text, frame_of};
use crate::escape;
use crate::output::style::{StyledText, columns, fit};
use crate::output::units::{HumanCount, PluralCount};
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};

/// Width in columns if lines have no limit.
const DEFAULT_WIDTH: usize = 100;

fn joined<'a>(words: impl Iterator<Item = &'a String>) -> String {
    words.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn describe(trace: &ComparedCaptureSummary) -> String {
    let mut text = PluralCount(trace.transactions, "Transaction").to_string();
    if trace.incomplete > 0 {
        text += &format!(", {} incomplete", HumanCount(trace.incomplete));
    }
    for words in [&trace.transports, &trace.versions] {
        if !words.is_empty() {
            text += "; ";
            text += &joined(words.iter());
        }
    }
    text
}

pub(super) fn write(view: &ComparisonReportWriter<'_>, to: &mut impl Write) -> io::Result<()> {
    let screen = view.screen;
    let width = screen.width.unwrap_or(DEFAULT_WIDTH);
    let styles = screen.styles;
    for (letter, trace) in [("A", view.a), ("B", view.b)] {
        writeln!(to, "{}  {}", StyledText(styles.header, letter), escape::escape_line(&trace.name))?;
        writeln!(to, "   {}", fit(&describe(trace), width.saturating_sub(3), &screen.glyphs))?;
    }
    writeln!(to)?;
    let comparison = view.comparison;
    match view.first.first() {
        None => {
            let what = if comparison.total() == 0 {
                "No differences.".to_owned()
            } else {
                format!("{}.", PluralCount(comparison.total(), "difference"))
            };
            writeln!(to, "{}", StyledText(styles.operation, what))?;
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

fn first_difference(
    view: &ComparisonReportWriter<'_>,
    to: &mut impl Write,
    first: &Difference,
) -> io::Result<()> {
    let (styles, width) = (view.screen.styles, view.screen.width.unwrap_or(DEFAULT_WIDTH));
    let title = format!("{}, {}", first.operation, first.kind);
    writeln!(to, "First difference: {}", StyledText(styles.error, title))?;
    if !first.path.is_empty() {
        writeln!(to, "   {}", StyledText(styles.label, &first.path))?;
    }
    for (letter, half) in [("A", &first.a), ("B", &first.b)] {
        let place = frame_text(half);
        let value = half.value.as_deref().unwrap_or("-");
        let room = width.saturating_sub(5 + columns(&place));
        let value = fit(value, room.max(20), &view.screen.glyphs);
        writeln!(to, "   {letter}  {}{}{value}", place, if place.is_empty() { "" } else { "  " })?;
    }
    if first.count > 1 {
        writeln!(to, "   and {} more of this field in this Transaction", HumanCount(first.count - 1))?;
    }
    Ok(())
}

/// Formats the frame of a side, with that of its Call if it differs: `frame 590`, `frame 595 (Call in 590)`.
fn frame_text(half: &DifferenceSideValue) -> String {
    match (half.frame, half.location.and_then(|place| place.call)) {
        (Some(frame), Some(call)) if call != frame => format!("frame {frame} (Call in {call})"),
        (Some(frame), _) => format!("frame {frame}"),
        (None, _) => String::new(),
    }
}

fn counts(view: &ComparisonReportWriter<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let styles = view.screen.styles;
    let total = view.comparison.total();
    writeln!(to, "\n{}", StyledText(styles.header, PluralCount(total, "difference")))?;
    let rows: Vec<_> = view
        .comparison
        .counts()
        .iter()
        .map(|(kind, number)| (HumanCount(*number).to_string(), *kind))
        .collect();
    let widest = rows.iter().map(|(number, _)| number.len()).max().unwrap_or(0);
    for (number, kind) in rows {
        let line = format!("  {number:>widest$}  {kind:<12} {}", kind.meaning());
        writeln!(to, "{}", fit(&line, width, &view.screen.glyphs))?;
    }
    Ok(())
}

/// Writes the operations whose counts differ.
fn write_count_differences(
    view: &ComparisonReportWriter<'_>,
    to: &mut impl Write,
    width: usize,
) -> io::Result<()> {
    let differing: Vec<_> =
        view.comparison.operation_counts().iter().filter(|(_, mix)| mix.counts[0] != mix.counts[1]).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let styles = view.screen.styles;
    let name = differing
        .iter()
        .map(|(name, _)| columns(name))
        .max()
        .unwrap_or(0)
        .clamp(9, width.saturating_sub(24).max(9));
    let head = format!("{:<name$}  {:>9}  {:>9}", "OPERATION", "IN A", "IN B");
    writeln!(to, "\n{}", StyledText(styles.header, head))?;
    for (operation, mix) in differing {
        let operation = fit(operation, name, &view.screen.glyphs);
        writeln!(
            to,
            "{operation:<name$}  {:>9}  {:>9}",
            HumanCount(mix.counts[0]),
            HumanCount(mix.counts[1])
        )?;
    }
    Ok(())
}

fn list(view: &ComparisonReportWriter<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let differences = view.first;
    let (total, shown) = (view.comparison.total(), differences.len() as u64);
    if total < 2 {
        return Ok(());
    }
    let styles = view.screen.styles;
    let frame =
        |half: &DifferenceSideValue| frame_of(half).map_or_else(|| "-".to_owned(), |frame| frame.to_string());
    let operation =
        |difference: &Difference| difference.operation.rsplit(' ').next().unwrap_or_default().to_owned();
    let widest = |text: &dyn Fn(&Difference) -> String, least: usize| {
        differences.iter().map(|difference| columns(&text(difference))).max().unwrap_or(0).max(least)
    };
    let a = widest(&|difference| frame(&difference.a), 7);
    let b = widest(&|difference| frame(&difference.b), 7);
    let name = widest(&operation, 9).min(20);
    let head = format!("{:>a$}  {:>b$}  {:<12}  {:<name$}  WHAT", "FRAME A", "FRAME B", "KIND", "OPERATION");
    writeln!(to, "\n{}", StyledText(styles.header, head))?;
    for difference in differences {
        let before = a + b + name + 20;
        let room = width.saturating_sub(before).max(20);
        let what = difference_text(difference, view.screen.glyphs.to);
        let what =
            if view.screen.width.is_some() { fit(&what, room, &view.screen.glyphs) } else { what.into() };
        let operation = operation(difference);
        writeln!(
            to,
            "{:>a$}  {:>b$}  {:<12}  {:<name$}  {what}",
            frame(&difference.a),
            frame(&difference.b),
            difference.kind,
            fit(&operation, name, &view.screen.glyphs),
        )?;
    }
    if shown < total {
        writeln!(to, "and {} more; -c shows more", HumanCount(total - shown))?;
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
        PluralCount(comparison.pairs(), "Transaction"),
        PluralCount(compared.fields, "field"),
        PluralCount(compared.data_bytes, "byte")
    )?;
    let notes = [
        (comparison.filtered(), "difference", "left out by --only or --ignore"),
        (compared.unknown, "field", "not compared: not in one of the captures"),
        (
            compared.version_dependent_fields,
            "field",
            "not compared: arguments and results follow from the minor version",
        ),
        (comparison.reordered(), "operation", "in another order; they did not depend on each other"),
        (comparison.setup_calls(), "Call of NULL or PORTMAP", "not compared: only one capture uses RDMA"),
    ];
    for (number, what, why) in notes {
        if number > 0 {
            writeln!(
                to,
                "{} {why}.",
                PluralCount(number, what)
                    .to_string()
                    .replace("Call of NULL or PORTMAPs", "Calls of NULL or PORTMAP")
            )?;
        }
    }
    if let Some(needed) = &view.needed_memory {
        let forgotten = PluralCount(comparison.forgotten_identities(), "pair");
        writeln!(
            to,
            "{forgotten} of identities forgotten (limit reached); --max-memory {needed} keeps all."
        )?;
    }
    for (letter, trace) in [("A", view.a), ("B", view.b)] {
        for (what, number) in &trace.evicted {
            writeln!(to, "{letter}: state dropped (limit reached): {number} {}.", what.replace('_', " "))?;
        }
    }
    Ok(())
}
