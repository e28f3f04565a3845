//! The manual and the completions are made from the definition of the command line, and must not be older than it.

use std::fs;
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use nfsrdma_inspect::cli;

const NAME: &str = "nfsrdma-inspect";

fn hold(path: &str, fresh: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if fs::read(&path).is_ok_and(|old| old == fresh) {
        return;
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, fresh).unwrap();
    } else {
        panic!("{} is stale; write it with: UPDATE=1 cargo test --test it generated", path.display());
    }
}

#[test]
#[cfg(feature = "parquet")]
fn completions_are_fresh() {
    let files = [
        (Shell::Bash, "completions/nfsrdma-inspect.bash"),
        (Shell::Zsh, "completions/_nfsrdma-inspect"),
        (Shell::Fish, "completions/nfsrdma-inspect.fish"),
    ];
    for (shell, path) in files {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut cli::command(), NAME, &mut script);
        hold(path, &script);
    }
}

#[test]
#[cfg(feature = "parquet")]
fn tables_are_documented() {
    const HEAD: &str = "# The tables of `export`\n
What `nfsrdma-inspect export` writes, and [scale-out.md](scale-out.md) asks. The values are those of a line of `-T json`
([transaction.schema.json](transaction.schema.json)), under the same names where a column is one key. Every table has one
more column, `capture`, which is in the path: the name of the file that was exported. Numbers of Transactions and
connections count in their capture. Text that says a time or an address is what a line of JSON says. Numbers that are larger
than a BIGINT, which are possible in `offset`, are null; `detail` has them.\n";
    hold("docs/tables.md", (HEAD.to_owned() + &nfsrdma_inspect::export::documentation()).as_bytes());
}

#[test]
fn manual_is_fresh() {
    // What the short help leaves out belongs into the manual, and what stands after the help has its own sections.
    let command =
        cli::command().mut_args(|arg| arg.hide_short_help(false)).after_help("").after_long_help("");
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    let mut rest = Roff::new();
    for (title, lines) in
        [("COLUMNS", cli::COLUMNS), ("EXIT STATUS", cli::EXIT_CODES), ("EXAMPLES", cli::EXAMPLES)]
    {
        rest.control("SH", [title]).control("nf", []);
        for line in lines.lines() {
            rest.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        rest.control("fi", []);
    }
    rest.to_writer(&mut page).unwrap();
    man.render_version_section(&mut page).unwrap();
    hold("man/nfsrdma-inspect.1", &page);
}

#[test]
fn manuals_of_subcommands_are_fresh() {
    let mut command = cli::command();
    command.build();
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = format!("{NAME}-{}", subcommand.get_name());
        let mut page = Vec::new();
        Man::new(subcommand.clone()).title(&name).render(&mut page).unwrap();
        hold(&format!("man/{name}.1"), &page);
    }
}
