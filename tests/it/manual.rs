//! Pages of the manual, generated from the definition of the command line: one for the program, and one for each
//! subcommand. They use the requests of man(7) that both mandoc and groff support.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};
use nfsrdma_inspect::cli;

/// Programs and formats that a page refers to, besides the pages of this manual.
pub(crate) const ELSEWHERE: &str =
    "tshark(1), dumpcap(1), tcpdump(1), pcap-filter(7), wireshark-filter(4), nfs(5), rdma(8)";
/// Maximum width of filled lines: mandoc recommends at most 80 bytes.
const WIDTH: usize = 76;

/// One page.
pub(crate) struct Page {
    /// Name, such as `nfsrdma-inspect-replay-run`.
    pub(crate) name: String,
    command: Command,
    /// Names of the pages of the parent command and of its subcommands.
    related: Vec<String>,
    version: String,
}

/// Returns all pages, each after that of its parent command.
pub(crate) fn pages() -> Vec<Page> {
    let mut root = cli::command();
    root.build();
    let version = root.render_version().trim().to_owned();
    let mut pages = Vec::new();
    add(&root, root.get_name().to_owned(), None, &version, &mut pages);
    pages
}

fn add(command: &Command, name: String, above: Option<&str>, version: &str, pages: &mut Vec<Page>) {
    let below: Vec<(&Command, String)> =
        subcommands(command).map(|of| (of, format!("{name}-{}", of.get_name()))).collect();
    let related = above.map(str::to_owned).into_iter().chain(below.iter().map(|(_, name)| name.clone()));
    let page =
        Page { name: name.clone(), command: command.clone(), related: related.collect(), version: version.to_owned() };
    pages.push(page);
    below.into_iter().for_each(|(command, of)| add(command, of, Some(&name), version, pages));
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|of| of.get_name() != "help" && !of.is_hide_set())
}

impl Page {
    /// Returns the source of the page with this date: `2026-01-31`.
    pub(crate) fn source(&self, date: &str) -> String {
        let mut out = format!(
            ".\\\" Made by `UPDATE=1 cargo test --test it generated`.\n.TH {} 1 {date} \"{}\" \"User Commands\"\n",
            self.name.to_uppercase(),
            self.version
        );
        self.name(&mut out);
        self.synopsis(&mut out);
        self.description(&mut out);
        self.commands(&mut out);
        self.options(&mut out);
        self.sections(&mut out);
        self.see_also(&mut out);
        out
    }

    fn name(&self, out: &mut String) {
        let about = self.command.get_about().map(ToString::to_string).unwrap_or_default();
        let text = filled(&format!("{} \u{0} {}", self.name, about.trim_end_matches('.')));
        // Dash between name and meaning, which other programs parse.
        out.push_str(&format!(".SH NAME\n{}", text.replace(" \\[u0000] ", " \\- ")));
    }

    fn synopsis(&self, out: &mut String) {
        out.push_str(".SH SYNOPSIS\n");
        let usage = self.command.clone().render_usage().to_string();
        let mut lines: Vec<String> =
            usage.trim_start_matches("Usage:").lines().map(|line| line.trim().to_owned()).collect();
        let program = self.command.get_bin_name().unwrap_or_else(|| self.command.get_name());
        let has_own = subcommands(&self.command).next().is_some();
        if has_own && !usage.contains("<COMMAND>") {
            lines.push(format!("{program} <COMMAND> ..."));
        }
        for (at, line) in lines.iter().enumerate() {
            let rest = line.strip_prefix(program).unwrap_or_else(|| panic!("{line} begins with {program}"));
            let separator = if at == 0 { "" } else { ".br\n" };
            out.push_str(&format!("{separator}\\fB{}\\fR{}\n", escaped(program), usage_words(rest)));
        }
    }

    fn description(&self, out: &mut String) {
        let about = self.command.get_long_about().or(self.command.get_about());
        out.push_str(".SH DESCRIPTION\n");
        out.push_str(&paragraphs(&about.map(ToString::to_string).unwrap_or_default(), ".PP"));
    }

    fn commands(&self, out: &mut String) {
        let mut of = subcommands(&self.command).peekable();
        if of.peek().is_some() {
            out.push_str(".SH COMMANDS\n");
        }
        for of in of {
            let about = of.get_about().map(ToString::to_string).unwrap_or_default();
            let page = escaped(&format!("{}-{}", self.name, of.get_name()));
            out.push_str(&format!(".TP\n.BR {page} (1)\n{}", filled(about.trim_end_matches('.'))));
        }
    }

    fn options(&self, out: &mut String) {
        let shown = || self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        if shown().any(Arg::is_positional) {
            out.push_str(".SH ARGUMENTS\n");
            shown().filter(|arg| arg.is_positional()).for_each(|arg| argument(arg, out));
        }
        out.push_str(".SH OPTIONS\n");
        let options = || shown().filter(|arg| !arg.is_positional());
        options().filter(|arg| arg.get_help_heading().is_none()).for_each(|arg| argument(arg, out));
        let mut headings: Vec<&str> = options().filter_map(Arg::get_help_heading).collect();
        let mut seen = Vec::new();
        headings.retain(|heading| {
            !seen.contains(heading) && {
                seen.push(*heading);
                true
            }
        });
        for heading in headings {
            out.push_str(&format!(".SS {}\n", escaped(heading)));
            options().filter(|arg| arg.get_help_heading() == Some(heading)).for_each(|arg| argument(arg, out));
        }
    }

    /// Returns the sections after the help: titles, which end with a colon, and the lines below each.
    fn after_help(&self) -> Vec<(String, Vec<String>)> {
        let after = self.command.get_after_long_help().or(self.command.get_after_help());
        let text = after.map(ToString::to_string).unwrap_or_default();
        let mut sections: Vec<(String, Vec<String>)> = Vec::new();
        for line in text.lines() {
            match (line.strip_suffix(':').filter(|title| !title.starts_with(' ')), sections.last_mut()) {
                (Some(title), _) => sections.push((title.to_uppercase(), Vec::new())),
                (None, Some((_, lines))) => lines.push(line.to_owned()),
                (None, None) => panic!("{}: text before a title: {line}", self.name),
            }
        }
        sections
    }

    fn sections(&self, out: &mut String) {
        for (title, lines) in self.after_help() {
            let title = if title == "EXIT CODES" { "EXIT STATUS" } else { &title };
            out.push_str(&format!(".SH {title}\n"));
            if title == "EXAMPLES" { examples(&lines, out) } else { verbatim(&lines, out) }
        }
    }

    /// Returns the commands of the examples.
    pub(crate) fn example_commands(&self) -> Vec<String> {
        let lines = self.after_help().into_iter().filter(|(title, _)| title == "EXAMPLES").flat_map(|(_, lines)| lines);
        let commands = lines.filter_map(|line| {
            let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
            Some(line.split("  ").next().unwrap_or(line).to_owned())
        });
        commands.filter(|command| !command.is_empty()).collect()
    }

    fn see_also(&self, out: &mut String) {
        out.push_str(".SH SEE ALSO\n");
        let mut pages: Vec<String> = self.related.iter().map(|page| format!("{page}(1)")).collect();
        pages.extend(ELSEWHERE.split(", ").map(str::to_owned));
        let last = pages.len() - 1;
        for (at, page) in pages.iter().enumerate() {
            let (name, section) = page.split_once('(').unwrap_or((page, ""));
            let comma = if at == last { "" } else { "," };
            out.push_str(&format!(".BR {} ({section}{comma}\n", escaped(name)));
        }
    }
}

/// Writes an argument with its description.
fn argument(arg: &Arg, out: &mut String) {
    let bold = |name: &str| format!("\\fB{}\\fR", escaped(name));
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|short| bold(&format!("-{short}"))));
    names.extend(arg.get_long().map(|long| bold(&format!("--{long}"))));
    let mut term = names.join(", ");
    if arg.is_positional() || arg.get_action().takes_values() {
        let of = arg.get_value_names().map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
        for name in of.unwrap_or_else(|| vec![arg.get_id().to_string()]) {
            write!(term, "{}\\fI{}\\fR", if term.is_empty() { "" } else { " " }, escaped(&name)).unwrap();
        }
        if arg.is_positional() && matches!(arg.get_action(), ArgAction::Append) {
            term.push_str("...");
        }
    }
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    out.push_str(&format!(".TP\n{term}\n{}", paragraphs(&help, ".IP")));
    let values = if arg.get_action().takes_values() { arg.get_possible_values() } else { Vec::new() };
    let values: Vec<_> = values.into_iter().filter(|value| !value.is_hide_set()).collect();
    let is_told = values.iter().any(|value| value.get_help().is_some());
    if is_told {
        out.push_str(".RS\n");
        for value in &values {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            out.push_str(&format!(".TP\n.B {}\n{}", escaped(value.get_name()), filled(&help)));
        }
        out.push_str(".RE\n");
    } else if !values.is_empty() {
        let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        out.push_str(&format!(".IP\nOne of: {}.\n", escaped(&names.join(", "))));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        out.push_str(&format!(".IP\nDefault: {}\n", escaped(&defaults.join(" "))));
    }
}

/// Writes examples, each a command and its purpose: on the same line, or in the line below it.
fn examples(lines: &[String], out: &mut String) {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut text = Vec::new();
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let Some(line) = line.strip_prefix("  ") else {
            text.push(line.as_str());
            continue;
        };
        match (line.strip_prefix("  "), examples.last_mut()) {
            (Some(about), Some((_, of))) => *of = format!("{of} {}", about.trim()).trim().to_owned(),
            _ => {
                let (command, about) = line.split_once("  ").unwrap_or((line, ""));
                examples.push((command.trim().to_owned(), about.trim().to_owned()));
            }
        }
    }
    for (at, (command, about)) in examples.into_iter().enumerate() {
        // The first paragraph of a section begins with its title.
        let paragraph = if at == 0 { "" } else { ".PP\n" };
        match about.is_empty() {
            true => out.push_str(&format!("{paragraph}\\fB{}\\fR\n", escaped(&command))),
            false => out.push_str(&format!(".TP\n\\fB{}\\fR\n{}", escaped(&command), filled(&about))),
        }
    }
    if !text.is_empty() {
        out.push_str(&format!(".PP\n{}", filled(&text.join(" "))));
    }
}

/// Writes lines verbatim.
fn verbatim(lines: &[String], out: &mut String) {
    out.push_str(".EX\n");
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    for line in &lines[..end] {
        out.push_str(&format!("{}\n", first(&escaped(line.strip_prefix("  ").unwrap_or(line)))));
    }
    out.push_str(".EE\n");
}

/// Formats `[OPTIONS] --server <URL>` with names in bold and placeholders in italics.
fn usage_words(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        let word = escaped(word);
        let styled = if word.starts_with("\\-") {
            format!("\\fB{word}\\fR")
        } else {
            word.replace('<', "\\fI").replace('>', "\\fR")
        };
        out.push_str(&format!(" {styled}"));
    }
    out
}

/// Formats paragraphs with a request between them.
fn paragraphs(text: &str, between: &str) -> String {
    let texts: Vec<String> = text.split("\n\n").map(filled).collect();
    texts.join(&format!("{between}\n"))
}

/// Fills text into lines.
fn filled(text: &str) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    for word in text.split_whitespace().map(escaped) {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            out.push_str(&first(&line));
            out.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    out + &first(&line) + "\n"
}

/// Protects the first character of a line from being a request.
fn first(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

/// Escapes characters with a meaning for a formatter, and those beyond ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            ' '..='\x7e' => out.push(character),
            other => write!(out, "\\[u{:04X}]", u32::from(other)).unwrap(),
        }
    }
    out
}
