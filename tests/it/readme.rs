//! README.md: the commands in it print the output shown.

use std::path::Path;
use std::process::Command;

/// Command of a `console` block, and the lines that the block shows below it.
struct Example {
    command: String,
    lines: Vec<String>,
}

/// Returns the examples of a document with output.
fn examples(document: &str) -> Vec<Example> {
    let blocks = document.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut examples: Vec<Example> = Vec::new();
    for block in blocks {
        let first = examples.len();
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => examples.push(Example { command: command.to_owned(), lines: Vec::new() }),
                None => {
                    let own = examples.get_mut(first..).and_then(<[Example]>::last_mut);
                    own.unwrap_or_else(|| panic!("output without a command: {line}")).lines.push(line.to_owned());
                }
            }
        }
    }
    examples.retain(|example| !example.lines.is_empty());
    examples
}

/// Returns `true` if a printed line matches the document: the same words in order, except those that a narrow terminal
/// truncates.
fn shows(printed: &str, shown: &str) -> bool {
    let mut words = printed.split_whitespace();
    shown.split_whitespace().filter(|word| !word.contains('…')).all(|word| words.any(|other| other == word))
}

/// Every line of an example is a line of the output, in the same order; `...` marks omitted lines.
#[test]
fn the_program_prints_the_output_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("README.md")).unwrap();
    let examples = examples(&document);
    assert!(examples.len() >= 2, "README.md shows {} commands with their output", examples.len());
    for Example { command, lines } in examples {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("nfsrdma-inspect"), "{command}");
        let program = env!("CARGO_BIN_EXE_nfsrdma-inspect");
        let output = Command::new(program).args(words).current_dir(root).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut printed = text.lines();
        for line in lines.iter().filter(|line| *line != "...") {
            assert!(printed.any(|other| shows(other, line)), "{command} does not print {line}");
        }
    }
}
