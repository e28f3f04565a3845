//! Suggestions for words given as capture files that were meant as commands: `comapre a b`, `version`.

use std::ffi::OsString;
use std::path::Path;

use nfsrdma_analysis::filter::catalog::nearest;
use nfsrdma_analysis::filter::proposal;

/// Commands of other programs, and the arguments of this one that do the same.
const FOREIGN_COMMANDS: &[(&str, &str)] = &[
    ("version", "--version"),
    ("stat", "-q FILE"),
    ("stats", "-q FILE"),
    ("statistics", "-q FILE"),
    ("summary", "-q FILE"),
    ("interfaces", "-D"),
    ("read", "-r FILE"),
    ("record", "capture -i IFACE -w FILE"),
    ("diff", "compare A B"),
];

/// Command that the parser adds, and the word for an option that is often typed as one.
const HELP: &str = "help";
const VERSION: &str = "version";

/// Returns the message for a first argument that is not a file but looks like a command; `None` for a file or a path.
pub(super) fn command(definition: fn() -> clap::Command, first: &Path) -> Option<String> {
    let word = non_file_word(first)?;
    let advice = match FOREIGN_COMMANDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        Some((_, instead)) => format!("; give {instead} instead"),
        None => {
            let definition = definition();
            if definition.get_subcommands().any(|subcommand| subcommand.get_name() == word) {
                return Some(format!("{word} is a command, not a file: give its options after it"));
            }
            let names = definition.get_subcommands().map(clap::Command::get_name);
            let mut similar = nearest(word, names.chain([HELP, VERSION]));
            for name in similar.iter_mut().filter(|name| **name == VERSION) {
                *name = "--version";
            }
            proposal(&similar)
        }
    };
    (!advice.is_empty()).then(|| format!("{word}: unknown command, and no such file{advice}"))
}

/// Returns the message for the argument of `replay`, which has subcommands and takes a file.
pub(super) fn replay_step(definition: fn() -> clap::Command, arguments: &[OsString]) -> Option<String> {
    let [_, command, first, ..] = arguments else { return None };
    let word = non_file_word(Path::new(first)).filter(|_| command == "replay")?;
    let definition = definition();
    let replay = definition.find_subcommand("replay")?;
    if word == HELP || replay.find_subcommand(word).is_some() {
        return None;
    }
    let names = replay.get_subcommands().map(clap::Command::get_name);
    let advice = proposal(&nearest(word, names.chain([HELP])));
    (!advice.is_empty()).then(|| format!("replay {word}: unknown subcommand, and no such file{advice}"))
}

/// Returns an argument that is a word and not the name of a file.
fn non_file_word(argument: &Path) -> Option<&str> {
    let word = argument.to_str()?;
    let is_word = !word.is_empty() && word.chars().all(|character| character.is_ascii_alphabetic());
    (is_word && !argument.exists()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> Option<String> {
        command(crate::cli::command, Path::new(word))
    }

    #[test]
    fn a_command_behind_options_is_recognised() {
        let expected = "lint is a command, not a file: give its options after it";
        assert_eq!(said("lint").as_deref(), Some(expected));
    }

    #[test]
    fn a_misspelt_command_is_recognised() {
        let expected = "comapre: unknown command, and no such file; did you mean compare?";
        assert_eq!(said("comapre").as_deref(), Some(expected));
        assert!(said("Chekc").is_some_and(|text| text.ends_with("did you mean check?")));
        assert!(said("hlep").is_some_and(|text| text.ends_with("did you mean help?")));
        assert!(said("verison").is_some_and(|text| text.ends_with("did you mean --version?")));
        assert!(said("version").is_some_and(|text| text.ends_with("give --version instead")));
        assert!(said("stats").is_some_and(|text| text.ends_with("give -q FILE instead")));
    }

    #[test]
    fn paths_and_other_words_are_files() {
        for word in ["comapre.pcap", "./comapre", "dir/compare", "-", "", "holiday", "src"] {
            assert_eq!(said(word), None, "{word}");
        }
    }

    /// Subcommands never get here: the parser accepts them.
    #[test]
    fn no_word_of_other_programs_is_a_command() {
        let definition = crate::cli::command();
        for (word, _) in FOREIGN_COMMANDS {
            assert!(definition.find_subcommand(word).is_none(), "{word}");
        }
    }
}
