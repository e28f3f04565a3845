//! Options of earlier versions, whose errors name their successors.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of earlier versions and their successors.
const RENAMED_OPTIONS: &[(&str, &str)] = &[
    ("--frame-memory", "--max-memory"),
    ("--gss", "--sec"),
    ("--into-existing", "--allow-non-empty"),
    ("--max-early-bytes", "--max-reorder-bytes"),
    ("--max-hole-bytes", "--max-gap-bytes"),
    ("--max-kept-bytes", "--max-chunk-bytes"),
    ("--max-part-bytes", "--max-partial-message-bytes"),
    ("--max-set-ups", "--max-handshakes"),
    ("--memory", "--max-memory"),
    ("--no-walk", "--no-final-check"),
    ("--same-server", "--allow-source-server"),
    ("--wants", "--delegations"),
];

/// Returns the message for an option of an earlier version; `None` for any other error.
pub(super) fn message(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let (old, new) = RENAMED_OPTIONS.iter().find(|(old, _)| is_unknown && old == argument)?;
    Some(format!("{old} was renamed; use {new}; see --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the options of a command and its subcommands.
    fn options(command: &clap::Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(|argument| argument.get_long());
        let own = own.map(|long| format!("--{long}")).collect::<Vec<_>>();
        own.into_iter().chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[cfg(feature = "tui")]
    #[test]
    fn successors_exist_and_old_options_do_not() {
        let options = options(&crate::cli::command());
        for (old, new) in RENAMED_OPTIONS {
            assert!(!options.iter().any(|option| option == old), "{old}");
            assert!(options.iter().any(|option| option == new), "{new}");
        }
    }

    #[test]
    fn the_change_log_has_every_renamed_option() {
        let log = include_str!("../../CHANGELOG.md");
        for (old, new) in RENAMED_OPTIONS {
            let is_entry = |line: &&str| line.contains(&format!("`{old}")) || line.contains(&format!("{old}`"));
            let line = log.lines().filter(is_entry).find(|line| line.contains(new));
            assert!(line.is_some(), "{old}");
        }
    }
}
