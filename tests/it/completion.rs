//! Completion in bash, zsh and fish, with keys typed in a terminal: every subcommand, every option of each, and the
//! values of each option.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Command;
use nfsrdma_inspect::cli;

use crate::skipped::skip_without;
use crate::tui::Terminal;

/// Shell and its startup commands.
struct Shell {
    name: &'static str,
    command: &'static str,
    set_up: &'static str,
    /// Number of Tabs until the list is shown.
    tabs: usize,
    /// Keys that empty the line and clear the screen.
    clear: &'static [&'static str],
}

/// Editing keys, which a shell handles in their order. An interrupt is a signal: under load it can arrive after the
/// text that was typed behind it, and discard it.
const KILL_LINE: &[&str] = &["C-e", "C-u", "C-l"];

const BASH: Shell = Shell {
    name: "bash",
    command: "bash --norc --noprofile",
    set_up: "PS1='> '; bind 'set page-completions off' 'set completion-query-items 0'; source $SCRIPTS/nfsrdma-inspect.bash",
    tabs: 2,
    clear: KILL_LINE,
};
const ZSH: Shell = Shell {
    name: "zsh",
    command: "zsh -f",
    set_up: "PROMPT='> '; LISTMAX=1000; fpath=($SCRIPTS $fpath); autoload -U compinit; compinit -u -D",
    tabs: 1,
    clear: KILL_LINE,
};
const FISH: Shell = Shell {
    name: "fish",
    command: "fish --private --no-config",
    set_up: "function fish_prompt; echo '> '; end; source $SCRIPTS/nfsrdma-inspect.fish",
    // The first shows four rows.
    tabs: 2,
    // Only an interrupt closes the list.
    clear: &["C-c", "C-l"],
};

/// Files in the working directory of the shell.
const CAPTURES: [&str; 2] = ["some.pcap", "other.pcapng"];
const TRACE: &str = "work.trace";
const NEITHER: &str = "decoy.txt";
const FOLDER: &str = "folder";

/// A shell in its own terminal.
struct Session {
    shell: &'static Shell,
    terminal: Terminal,
    folder: PathBuf,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Session {
    fn start(shell: &'static Shell) -> Option<Self> {
        if std::process::Command::new(shell.name).arg("--version").output().is_err() {
            skip_without(shell.name);
            return None;
        }
        let folder = std::env::temp_dir().join(format!("nfsrdma-{}-{}", shell.name, std::process::id()));
        fs::create_dir_all(folder.join(FOLDER)).unwrap();
        for name in CAPTURES.iter().chain(&[TRACE, NEITHER]) {
            fs::write(folder.join(name), "").unwrap();
        }
        let program = Path::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).parent().unwrap();
        let command = format!(
            "sh -c 'cd {0} && exec env PATH={1}:$PATH HOME={0} SCRIPTS={2}/completions {3}'",
            folder.display(),
            program.display(),
            env!("CARGO_MANIFEST_DIR"),
            shell.command,
        );
        let terminal = Terminal::run_in(&format!("complete-{}", shell.name), &command, 200, 150)?;
        let session = Self { shell, terminal, folder };
        session.terminal.line(shell.set_up);
        session.terminal.line("echo re''ady");
        session.terminal.wait("\nready");
        Some(session)
    }

    /// Empties the current line and clears the screen. A shell that is still completing ignores the first key, and an
    /// open list consumes it.
    fn clear(&self) {
        let start = Instant::now();
        loop {
            for key in self.shell.clear {
                self.terminal.key(key);
            }
            for _ in 0..100 {
                let screen = self.terminal.screen();
                if screen.trim_end() == ">" {
                    return;
                }
                assert!(start.elapsed() < Duration::from_secs(60), "{}: no prompt:\n{screen}", self.shell.name);
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Types the beginning of a command and Tab, and returns the screen when it shows the expected words.
    fn typed(&self, text: &str, expected: &[String]) -> String {
        self.clear();
        self.terminal.text(&format!("nfsrdma-inspect {text}"));
        for _ in 0..self.shell.tabs {
            self.terminal.key("Tab");
        }
        // The line is the first of the screen after clearing.
        let line = format!("> nfsrdma-inspect {text}");
        self.terminal.wait_for(&format!("{}: {text}", self.shell.name), |screen| {
            screen.starts_with(line.trim_end()) && expected.iter().all(|word| has(screen, word))
        })
    }
}

/// Returns `true` if a word is on the screen, and not only as a part of another one.
fn has(screen: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    screen.match_indices(word).any(|(at, _)| {
        let before = screen[..at].chars().next_back().is_some_and(is_part);
        let after = screen[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

/// Returns every command with the words that name it.
fn commands() -> Vec<(String, Command)> {
    fn add(path: &str, command: &Command, all: &mut Vec<(String, Command)>) {
        all.push((path.to_owned(), command.clone()));
        for of in command.get_subcommands().filter(|of| of.get_name() != "help") {
            add(&format!("{path}{} ", of.get_name()), of, all);
        }
    }
    let mut root = cli::command();
    root.build();
    let mut all = Vec::new();
    add("", &root, &mut all);
    all
}

/// Returns the expected candidates for the value of an option.
fn expected(arg: &clap::Arg) -> Vec<String> {
    let possible: Vec<String> = arg.get_possible_values().iter().map(|of| of.get_name().to_owned()).collect();
    if !possible.is_empty() {
        return possible;
    }
    let name = arg.get_value_names().map_or("", |names| names[0].as_str());
    let words: &[&str] = match (arg.get_id().as_str(), name) {
        ("capture_filter", _) => &[],
        (_, "IFACE") => &["lo"],
        (_, "USER") => &["root", "nobody"],
        (_, "RULE") => &["session-limits", "rawdev"],
        (_, "URL") => &["rdma://", "tcp://"],
        (_, "ORDER") => &["dependencies", "captured", "serial"],
        (_, "PACE") => &["max", "captured", "think-time", "queue-depth"],
        (_, "CONDITION") => &["duration:", "packets:"],
        ("layout", _) => &["header=", "quote="],
        (_, "TRACE") => &[TRACE, FOLDER],
        (_, "DIR") => &[FOLDER],
        ("read", _) => &["some.pcap", "other.pcapng", FOLDER],
        (_, "FILE" | "RULES") => &["some.pcap", NEITHER, FOLDER],
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn holds(shell: &'static Shell) {
    let Some(session) = Session::start(shell) else { return };
    let (mut options, mut valued) = (0, 0);
    let long_names = |of: &Command| -> Vec<String> {
        of.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
    };
    let all: BTreeSet<String> = commands().iter().flat_map(|(_, of)| long_names(of)).collect();
    for (path, command) in commands() {
        let subcommands: Vec<String> = command.get_subcommands().map(|of| of.get_name().to_owned()).collect();
        if !subcommands.is_empty() {
            session.typed(&path, &subcommands);
        }
        let visible: Vec<_> =
            command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()).collect();
        let longs: Vec<String> = visible.iter().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let screen = session.typed(&format!("{path}--"), &longs);
        // And no option of another command. bash shows no descriptions, which may name others.
        let others = all.iter().filter(|of| shell.name == "bash" && !longs.contains(of) && has(&screen, of));
        assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{path}: {screen}");
        options += longs.len();
        for arg in visible.iter().filter(|arg| arg.get_action().takes_values()) {
            let long = arg.get_long().expect("every option has a long name");
            // A rule, an operation and a field are among too many to be shown at once.
            let name = arg.get_value_names().map_or("", |names| names[0].as_str());
            let (start, offered) = match name {
                "FILTER" if arg.get_id() != "capture_filter" => {
                    ("'nfs.opcode == READ && rpc.xi", vec!["rpc.xid'".to_owned()])
                }
                "FINDING" | "ID" => ("rpcrdma/credit-z", vec!["rpcrdma/credit-zero".to_owned()]),
                "FIELD" => ("rpcordma.xi", vec!["rpcordma.xid".to_owned()]),
                "KEY" if arg.get_possible_values().is_empty() => ("order,READ_P", vec!["order,READ_PLUS".to_owned()]),
                _ => ("", expected(arg)),
            };
            if offered.is_empty() {
                // Another word follows at once, so that nothing was offered before it.
                session.typed(&format!("{path}--{long} "), &[]);
                session.terminal.text("12 --hel");
                session.terminal.key("Tab");
                let screen = session.terminal.wait_for(long, |screen| has(screen, "--help"));
                assert!(!screen.contains(NEITHER) && !screen.contains("some.pcap"), "--{long}: {screen}");
            } else {
                let screen = session.typed(&format!("{path}--{long} {start}"), &offered);
                let is_any = offered.iter().any(|word| word == NEITHER);
                assert_eq!(has(&screen, NEITHER), is_any, "--{long}: {screen}");
            }
            valued += 1;
        }
    }
    assert!(options > 120 && valued > 70, "{options} options, {valued} with values");
    // Other files are not offered for captures, nor traces where only captures are read.
    let captures = CAPTURES.map(str::to_owned);
    let inputs = [&captures[..], &[TRACE.to_owned()]].concat();
    for command in ["compare ", "compare some.pcap ", "replay "] {
        let screen = session.typed(command, &inputs);
        assert!(!has(&screen, NEITHER), "{screen}");
    }
    let screen = session.typed("check ", &captures);
    assert!(!has(&screen, NEITHER) && !has(&screen, TRACE), "{screen}");
    // A value may follow an equals sign.
    // `any` has no description, and no separator before one.
    let screen = session.typed("-i ", &["lo".to_owned(), "any".to_owned()]);
    assert!(!screen.lines().any(|line| line.trim_end().ends_with("--")), "{screen}");
    session.typed("--view=op", &["--view=operations".to_owned()]);
    session.typed("-V some.pcap --view fr", &["frames".to_owned()]);
}

#[test]
fn bash_completes_every_subcommand_option_and_value() {
    holds(&BASH);
}

#[test]
fn zsh_completes_every_subcommand_option_and_value() {
    holds(&ZSH);
}

#[test]
fn fish_completes_every_subcommand_option_and_value() {
    holds(&FISH);
}
