//! Shell completion. The scripts in `completions/` run the program itself, so that subcommands, options and values are
//! those of the definition of the command line, and names of fields, rules and interfaces are known.
//!
//! A script sets the variable [`REQUEST_VARIABLE`]. With `words`, the arguments are the words so far, and the last one
//! is completed; with `line`, they are the line up to the cursor, for a shell that splits words at `=` and `:`, and the
//! part of the last word that the shell replaces. The output is one candidate per line, `VALUE<Tab>DESCRIPTION`, and
//! after them `<Tab>files<Tab>.SUFFIX ...` or `<Tab>folders` if the shell is to offer files or directories.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};

use clap::builder::ValueHint;
use clap::{Arg, Command};
use nfsrdma_analysis::comparison::options::IgnoreKey;
use nfsrdma_analysis::filter::catalog::FilterFieldCatalog;
#[cfg(feature = "live")]
use nfsrdma_capture_file::live::devices::{self, InterfaceTrafficVisibility};
use nfsrdma_conformance::{RULES, ReportedFindingSeverity};
use nfsrdma_replay::run::tolerance_rules;

use super::exit_status::ExitStatus;

/// Environment variable that selects completion.
pub(super) const REQUEST_VARIABLE: &str = "NFSRDMA_INSPECT_COMPLETE";

/// Usual suffixes of captures.
const CAPTURES: &str = ".pcap .pcapng .cap .pcap.gz .pcapng.gz .pcap.zst .pcapng.zst";
/// Usual suffixes of captures, and that of traces.
const CAPTURES_AND_TRACES: &str = ".pcap .pcapng .cap .pcap.gz .pcapng.gz .pcap.zst .pcapng.zst .trace";
const TRACES: &str = ".trace";

/// Candidates for a word.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShellCompletionCandidates {
    /// Values with their descriptions, which may be empty.
    values: Vec<(String, String)>,
    files: Option<ShellFileCompletionKind>,
}

/// Kind of files offered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellFileCompletionKind {
    /// Files, those with these suffixes first.
    Suffixes(&'static str),
    Folders,
}

/// Writes the candidates in the format described at the [module](self).
pub(super) fn run(definition: Command, request: &OsString, arguments: impl Iterator<Item = OsString>) -> ExitStatus {
    let arguments: Vec<String> = arguments.skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let text = match (request.to_str(), arguments.as_slice()) {
        (Some("line"), [line, replaced]) => {
            let words = split(line);
            let current = words.last().cloned().unwrap_or_default();
            let prefix = current.strip_suffix(replaced.as_str()).unwrap_or_default();
            answer(definition, words.get(1..).unwrap_or_default()).text(prefix)
        }
        (Some("words"), words) => answer(definition, words).text(""),
        _ => return ExitStatus::Failed,
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitStatus::Done,
        Err(_) => ExitStatus::Failed,
    }
}

impl ShellCompletionCandidates {
    /// Formats the candidates for the scripts, without the part of the word that the shell keeps.
    fn text(&self, prefix: &str) -> String {
        let mut text = String::new();
        for (value, description) in &self.values {
            let value = value.strip_prefix(prefix).unwrap_or(value);
            // Writing to a String never fails.
            let _ = writeln!(text, "{value}\t{description}");
        }
        match self.files {
            Some(ShellFileCompletionKind::Suffixes(suffixes)) => _ = writeln!(text, "\tfiles\t{suffixes}"),
            Some(ShellFileCompletionKind::Folders) => text.push_str("\tfolders\n"),
            None => {}
        }
        text
    }
}

/// Splits a line into words as a shell does; the last one may be empty or have an open quote.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_escaped = false;
    for character in line.chars() {
        match (quote, character) {
            _ if is_escaped => {
                word.push(character);
                is_escaped = false;
            }
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ' | '\t') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(character),
        }
    }
    words.push(word);
    words
}

/// Returns the candidates for the last of these words, which do not include the name of the program.
fn answer(mut root: Command, words: &[String]) -> ShellCompletionCandidates {
    root.build();
    let Some((current, preceding)) = words.split_last() else { return ShellCompletionCandidates::default() };
    let (mut command, mut pending_arg, mut positionals, mut is_escaped) = (&root, None, 0, false);
    for word in preceding {
        if pending_arg.take().is_some() {
            continue;
        }
        match word.as_str() {
            "--" if !is_escaped => is_escaped = true,
            word if !is_escaped && word.starts_with('-') && word != "-" => {
                pending_arg = option(command, word).filter(|(_, value)| value.is_none()).map(|(arg, _)| arg);
            }
            word => match command.find_subcommand(word).filter(|_| positionals == 0 && !is_escaped) {
                Some(subcommand) => command = subcommand,
                None => positionals += 1,
            },
        }
    }
    if let Some(arg) = pending_arg {
        return values(arg, current);
    }
    if !is_escaped && current.starts_with('-') {
        return match option(command, current) {
            Some((arg, Some(value))) => values(arg, value).prefixed(current.strip_suffix(value).unwrap_or_default()),
            _ => options(command, current),
        };
    }
    let mut candidates = match positional(command, positionals) {
        Some(arg) => values(arg, current),
        None => ShellCompletionCandidates::default(),
    };
    if positionals == 0 && !is_escaped {
        let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        candidates.values.extend(
            subcommands.map(|subcommand| (subcommand.get_name().to_owned(), first_help_line(subcommand.get_about()))),
        );
    }
    if candidates == ShellCompletionCandidates::default() && !is_escaped {
        return options(command, current);
    }
    candidates.with_prefix(current)
}

impl ShellCompletionCandidates {
    fn from_values(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { values: values.into_iter().collect(), files: None }
    }

    fn words(words: &[(&str, &str)]) -> Self {
        Self::from_values(words.iter().map(|(word, description)| ((*word).to_owned(), (*description).to_owned())))
    }

    fn files(files: ShellFileCompletionKind) -> Self {
        Self { values: Vec::new(), files: Some(files) }
    }

    fn with_prefix(mut self, prefix: &str) -> Self {
        self.values.retain(|(value, _)| value.starts_with(prefix));
        self
    }

    fn prefixed(mut self, prefix: &str) -> Self {
        self.values.iter_mut().for_each(|(value, _)| value.insert_str(0, prefix));
        self
    }
}

/// Returns the option that takes a value in a word, and the value if the word contains it. Of several short options,
/// the first that takes a value counts.
fn option<'a, 'w>(command: &'a Command, word: &'w str) -> Option<(&'a Arg, Option<&'w str>)> {
    let mut value_args = command.get_arguments().filter(|arg| arg.get_action().takes_values());
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return Some((value_args.find(|arg| arg.get_long() == Some(name))?, value));
    }
    let value_args: Vec<_> = value_args.collect();
    word.char_indices().skip(1).find_map(|(at, short)| {
        let arg = value_args.iter().find(|arg| arg.get_short() == Some(short))?;
        let rest = word.get(at + short.len_utf8()..).filter(|rest| !rest.is_empty());
        Some((*arg, rest))
    })
}

fn positional(command: &Command, at: usize) -> Option<&Arg> {
    let visible: Vec<_> = command.get_positionals().filter(|arg| !arg.is_hide_set()).collect();
    let is_many = |arg: &&Arg| matches!(arg.get_action(), clap::ArgAction::Append);
    visible.get(at).copied().or_else(|| visible.last().copied().filter(is_many))
}

fn options(command: &Command, current: &str) -> ShellCompletionCandidates {
    let mut candidates = ShellCompletionCandidates::default();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
        let names = arg.get_long().map(|long| format!("--{long}"));
        let names = names.into_iter().chain(arg.get_short().map(|short| format!("-{short}")));
        candidates.values.extend(names.map(|name| (name, first_help_line(arg.get_help()))));
    }
    candidates.with_prefix(current)
}

fn first_help_line(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Returns the candidates for the value of an argument, of which `current` is typed.
fn values(arg: &Arg, current: &str) -> ShellCompletionCandidates {
    let possible_values = arg.get_possible_values();
    if !possible_values.is_empty() {
        let visible = possible_values.iter().filter(|value| !value.is_hide_set());
        let values = visible.map(|value| (value.get_name().to_owned(), first_help_line(value.get_help())));
        return ShellCompletionCandidates::from_values(values).with_prefix(current);
    }
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let id = arg.get_id().as_str();
    let candidates = match (id, name) {
        ("capture_filter", _) => ShellCompletionCandidates::default(),
        (_, "FILTER") => return complete_filter(current),
        (_, "FIELD" | "PATTERN") => fields(current),
        (_, "IFACE") => interfaces(),
        (_, "USER") => users(),
        (_, "ID") => lint_rules(),
        (_, "FINDING") => {
            return complete_list(current, || {
                let mut patterns = lint_rules();
                let severities =
                    ReportedFindingSeverity::ALL.map(|severity| (severity.name().to_owned(), String::new()));
                patterns.values.extend(severities);
                patterns
            });
        }
        (_, "RULE") => {
            return complete_list(current, || {
                ShellCompletionCandidates::from_values(
                    tolerance_rules::ALL.iter().map(|rule| (rule.name.to_owned(), rule.reason.to_owned())),
                )
            });
        }
        (_, "KEY") => {
            return complete_list(current, || ShellCompletionCandidates::from_values(IgnoreKey::all()));
        }
        (_, "URL") => ShellCompletionCandidates::words(&[("rdma://", "over RDMA"), ("tcp://", "over TCP")]),
        (_, "ORDER") => ShellCompletionCandidates::words(&[
            ("dependencies", "each step waits for the steps it depends on"),
            ("captured", "captured order and concurrency"),
            ("serial", "one call in flight per client"),
        ]),
        (_, "PACE") => ShellCompletionCandidates::words(&[
            ("max", "as fast as the server replies"),
            ("captured", "at the captured times"),
            ("x", "captured times, N times as fast"),
            ("rate=", "N calls per second"),
            ("think-time", "captured delay after the previous reply"),
            ("queue-depth", "at most the captured number of calls in flight"),
        ]),
        ("autostop", _) => {
            ShellCompletionCandidates::words(&CONDITIONS[..if has_file_conditions(arg) { 4 } else { 2 }])
        }
        ("ring_buffer", _) => ShellCompletionCandidates::words(&CONDITIONS),
        ("layout", _) => ShellCompletionCandidates::words(&[
            ("header=", "y or n: header line with field names"),
            ("separator=", "/t, /s or a character between fields"),
            ("quote=", "d, s or n: quotes around values"),
            ("occurrence=", "f, l or a: first, last or all values"),
            ("aggregator=", ", or /s or a character between values"),
        ]),
        (_, "TRACE") => ShellCompletionCandidates::files(ShellFileCompletionKind::Suffixes(TRACES)),
        (_, "DIR") => ShellCompletionCandidates::files(ShellFileCompletionKind::Folders),
        _ if is_capture(arg) && may_be_trace(arg) => {
            ShellCompletionCandidates::files(ShellFileCompletionKind::Suffixes(CAPTURES_AND_TRACES))
        }
        _ if is_capture(arg) => ShellCompletionCandidates::files(ShellFileCompletionKind::Suffixes(CAPTURES)),
        _ => match arg.get_value_hint() {
            ValueHint::FilePath | ValueHint::AnyPath => {
                ShellCompletionCandidates::files(ShellFileCompletionKind::Suffixes(""))
            }
            ValueHint::DirPath => ShellCompletionCandidates::files(ShellFileCompletionKind::Folders),
            _ => ShellCompletionCandidates::default(),
        },
    };
    candidates.with_prefix(current)
}

fn lint_rules() -> ShellCompletionCandidates {
    ShellCompletionCandidates::from_values(RULES.iter().map(|rule| (rule.id.to_owned(), rule.requirement.to_owned())))
}

/// Stop conditions, those of recordings only last.
const CONDITIONS: [(&str, &str); 5] = [
    ("duration:", "SECONDS"),
    ("packets:", "COUNT"),
    ("filesize:", "units of 1,000 bytes"),
    ("files:", "COUNT"),
    ("interval:", "SECONDS"),
];

/// Returns `true` if the conditions of an option include those of files, according to its help.
fn has_file_conditions(arg: &Arg) -> bool {
    arg.get_help().is_some_and(|help| help.to_string().contains("files:"))
}

/// Returns `true` if an argument is an input capture or trace.
fn is_capture(arg: &Arg) -> bool {
    let is_read = arg.is_positional() || arg.get_long() == Some("read");
    is_read && arg.get_value_hint() == ValueHint::FilePath
}

/// Returns `true` if an input may be a compiled trace, according to its help.
fn may_be_trace(arg: &Arg) -> bool {
    arg.get_help().is_some_and(|help| help.to_string().contains("trace"))
}

/// Returns the field names with this prefix, and names of protocols if it has no dot.
fn fields(prefix: &str) -> ShellCompletionCandidates {
    let entries = FilterFieldCatalog::shared().iter().filter(|entry| entry.name.starts_with(prefix));
    ShellCompletionCandidates::from_values(
        entries.map(|entry| (entry.name.to_owned(), entry.text.lines().next().unwrap_or_default().to_owned())),
    )
}

/// Completes the last name of a filter.
fn complete_filter(current: &str) -> ShellCompletionCandidates {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '.';
    let name = current.rfind(|character| !is_name(character)).map_or(0, |at| at + 1);
    // A multibyte character is not a separator of a filter.
    match (current.get(..name), current.get(name..)) {
        (Some(prefix), Some(start)) => fields(start).prefixed(prefix),
        _ => ShellCompletionCandidates::default(),
    }
}

/// Completes the last item of a list with commas.
fn complete_list(current: &str, candidates: impl FnOnce() -> ShellCompletionCandidates) -> ShellCompletionCandidates {
    let (prefix, last) = current.rfind(',').map_or(("", current), |at| current.split_at(at + 1));
    candidates().with_prefix(last).prefixed(prefix)
}

fn interfaces() -> ShellCompletionCandidates {
    #[cfg(feature = "live")]
    if let Ok(devices) = devices::list_interfaces() {
        let devices = devices.into_iter().filter(|device| device.visibility != InterfaceTrafficVisibility::NoNetwork);
        return ShellCompletionCandidates::from_values(devices.map(|device| {
            let addresses: Vec<_> = device.addresses.iter().map(ToString::to_string).collect();
            (device.name, addresses.join(", "))
        }));
    }
    ShellCompletionCandidates::default()
}

fn users() -> ShellCompletionCandidates {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    ShellCompletionCandidates::from_values(
        text.lines().filter_map(|line| Some((line.split(':').next()?.to_owned(), String::new()))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> ShellCompletionCandidates {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        answer(crate::cli::command(), &words)
    }

    fn named(words: &[&str]) -> Vec<String> {
        asked(words).values.into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn subcommands_and_options_are_those_of_the_definition() {
        assert_eq!(named(&["comp"]), ["compare"]);
        assert_eq!(named(&["replay", "s"]), ["seed"]);
        assert_eq!(named(&["replay", "run", "--rec"]), ["--record", "--record-data"]);
        assert!(named(&["replay", "run", "-"]).contains(&"-q".to_owned()));
        // After a file there is no subcommand, and after -- no option.
        assert_eq!(named(&["a.pcap", "comp"]), [""; 0]);
        assert_eq!(named(&["--", "--vi"]), [""; 0]);
        assert_eq!(asked(&["replay", "run", "x"]).files, Some(ShellFileCompletionKind::Suffixes(TRACES)));
    }

    #[test]
    fn values_follow_their_options_in_every_form() {
        assert_eq!(named(&["--view", "op"]), ["operations"]);
        assert_eq!(named(&["--view=op"]), ["--view=operations"]);
        assert_eq!(named(&["-VTj"]), ["-VTjson"]);
        assert_eq!(named(&["-VT", "j"]), ["json"]);
        assert_eq!(named(&["-c", "op"]), [""; 0]);
        assert_eq!(named(&["--view", "frames", "--vie"]), ["--view"]);
        assert_eq!(named(&["compare", "--ignore", "order,inl"]), ["order,inline"]);
        assert_eq!(named(&["compare", "--only", "READ_PL"]), ["READ_PLUS"]);
        assert_eq!(named(&["replay", "run", "--without", "session-"]), ["session-limits"]);
        #[cfg(feature = "live")]
        assert_eq!(named(&["capture", "-a", "f"]), ["filesize:", "files:"]);
    }

    #[test]
    fn the_last_name_of_a_filter_is_completed() {
        assert_eq!(named(&["-Y", "nfs.opco"]), ["nfs.opcode"]);
        assert_eq!(named(&["-Y", "nfs.opcode == READ && nfsrdma.laten"]), ["nfs.opcode == READ && nfsrdma.latency"]);
        assert_eq!(named(&["-Y", "!(rpc.xi"]), ["!(rpc.xid"]);
        assert_eq!(named(&["-Y", "\u{2026}x"]), [""; 0]);
        assert_eq!(named(&["-e", "rpcordma.xi"]), ["rpcordma.xid"]);
        // This is a filter of pcap.
        assert_eq!(named(&["-f", "nfs.opco"]), [""; 0]);
    }

    #[test]
    fn the_suffixes_of_inputs_are_those_of_captures_and_traces() {
        assert_eq!(CAPTURES_AND_TRACES, format!("{CAPTURES} {TRACES}"));
    }

    #[test]
    fn files_are_captures_traces_or_folders() {
        for (words, files) in [
            (&["-r", ""][..], ShellFileCompletionKind::Suffixes(CAPTURES)),
            (&["compare", ""], ShellFileCompletionKind::Suffixes(CAPTURES_AND_TRACES)),
            (&["compare", "a", ""], ShellFileCompletionKind::Suffixes(CAPTURES_AND_TRACES)),
            (&["replay", ""], ShellFileCompletionKind::Suffixes(CAPTURES_AND_TRACES)),
            (&["replay", "compile", ""], ShellFileCompletionKind::Suffixes(CAPTURES)),
            (&["check", "a", "b", ""], ShellFileCompletionKind::Suffixes(CAPTURES)),
            (&["replay", "plan", ""], ShellFileCompletionKind::Suffixes(TRACES)),
            (&["replay", "compile", "x", "-o", ""], ShellFileCompletionKind::Suffixes(TRACES)),
            #[cfg(feature = "parquet")]
            (&["export", "--to", ""], ShellFileCompletionKind::Folders),
            (&["check", "--junit", ""], ShellFileCompletionKind::Suffixes("")),
        ] {
            assert_eq!(asked(words).files, Some(files), "{words:?}");
        }
        assert_eq!(asked(&["compare", "a", "b", ""]).files, None);
    }

    /// Value names of arguments that have no candidates.
    const FREE: &[&str] = &["BYTES", "COUNT", "MIB", "MS", "NAME", "NUMBER", "PERCENT", "SECONDS", "SIZE", "STEPS"];

    #[test]
    fn every_argument_has_candidates_or_may_be_anything() {
        fn look(command: &Command) {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values() && !arg.is_hide_set()) {
                let name = arg.get_value_names().map_or("", |names| names[0].as_str());
                let is_free = FREE.contains(&name) || arg.get_id() == "capture_filter";
                assert_eq!(
                    values(arg, "") == ShellCompletionCandidates::default(),
                    is_free,
                    "{} {arg}",
                    command.get_name()
                );
            }
            command.get_subcommands().filter(|of| of.get_name() != "help").for_each(look);
        }
        let mut root = crate::cli::command();
        root.build();
        look(&root);
    }

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        assert_eq!(split("x -Y 'a == \"b\" && c"), ["x", "-Y", "a == \"b\" && c"]);
        assert_eq!(split(r#"x a\ b "c \" d" "#), ["x", "a b", "c \" d", ""]);
        assert_eq!(split(""), [""]);
    }

    #[test]
    fn the_prefix_that_the_shell_retains_is_not_offered() {
        let answer = asked(&["--view=op"]);
        assert!(answer.text("--view=").starts_with("operations\t"));
        let answer = asked(&["replay", "plan", ""]);
        assert_eq!(answer.text(""), format!("\tfiles\t{TRACES}\n"));
    }
}
