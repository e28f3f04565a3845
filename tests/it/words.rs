//! Terms in running text: `transaction`, `call` and `reply` are words like others. Only the names of formats keep a
//! capital letter: `Reply chunk` (RFC 8166), `MPA Reply` (RFC 5044), `Remote Procedure Call`, and `V4 Call` and
//! `Call ?`, as in the packet list. So do titles in a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nfsrdma_inspect::cli;
use regex::Regex;

/// Files below a folder with these ends of their names.
fn files(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, ends, found),
            false if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) => found.push(path),
            false => {}
        }
    }
}

/// Help of a command and of its subcommands.
fn help(command: &clap::Command, words: &[&str], texts: &mut Vec<(String, String)>) {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    texts.push((format!("{words:?} --help"), String::from_utf8(output.stdout).unwrap()));
    for of in command.get_subcommands().filter(|of| of.get_name() != "help") {
        help(of, &[words, &[of.get_name()]].concat(), texts);
    }
}

#[test]
fn calls_and_replies_are_lower_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("ARCHITECTURE.md")];
    files(&root.join("captures/golden"), &[".txt"], &mut paths);
    files(&root.join("tests/it/snapshots"), &[".snap"], &mut paths);
    files(&root.join("man"), &[".1"], &mut paths);
    files(&root.join("docs"), &[".md", ".json"], &mut paths);
    let mut texts: Vec<_> =
        paths.iter().map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect();
    help(&cli::command(), &[], &mut texts);
    let fields = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).arg("fields").output().unwrap();
    texts.push(("fields".to_owned(), String::from_utf8(fields.stdout).unwrap()));
    assert!(texts.len() > 200, "{}", texts.len());
    // A word or a number before it on the line, so that it begins no sentence, title or cell.
    let word =
        Regex::new(r"[[:alnum:],;)] (Transactions?|Calls?|Reply|Replies)\b(?: (?:\(`r`\) )?chunks?\b)?").unwrap();
    let names = [
        r"Remote Procedure Call",
        r"MPA Reply",
        r"Reply (?:\(`r`\) )?chunks?",
        r"\bV\d(?:\.\d)? (?:Call|Reply)",
        r"\bRPC +\d+ Call",
        // Titles.
        r"^ 1 Transactions",
        r", \d+ Reply",
    ];
    let names = Regex::new(&format!("(?:{})$", names.join("|"))).unwrap();
    let mut found = Vec::new();
    for (name, text) in &texts {
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = word.find_iter(line).filter(|found| !names.is_match(&line[..found.end()]));
            found.extend(wrong.map(|found| format!("{name}:{number}: {}", found.as_str())));
        }
    }
    assert!(found.is_empty(), "{} capital letters:\n{}", found.len(), found[..found.len().min(40)].join("\n"));
}
