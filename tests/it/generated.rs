//! The manual is generated from the definition of the command line, and must be up to date.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(all(feature = "parquet", feature = "live", feature = "tui"))]
use std::time::{SystemTime, UNIX_EPOCH};

use nfsrdma_inspect::cli;
use nfsrdma_inspect::output::lint;
#[cfg(all(feature = "parquet", feature = "live", feature = "tui"))]
use nfsrdma_inspect::output::units::CalendarTime;
use regex::Regex;

use crate::manual;
use crate::skipped::skip_without;

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
fn tables_are_documented() {
    const HEAD: &str = "# The tables of `export`\n
This reference describes the tables that `nfsrdma-inspect export` writes; [scale-out.md](scale-out.md) shows how to
query them. The values are those of a line of `-T json` ([transaction.schema.json](transaction.schema.json)), and a
column that corresponds to one key has its name. Each table has one more column, `capture`, which is part of the path:
the name of the exported file. Numbers of transactions and connections are unique within their capture. Times and
addresses have the same text as in JSON. Numbers that exceed a BIGINT, which are possible in `offset`, are null;
`detail` has them.\n";
    hold("docs/tables.md", (HEAD.to_owned() + &nfsrdma_inspect::parquet_export::documentation()).as_bytes());
}

#[test]
fn conformance_rules_are_documented() {
    const HEADING: &str = "\n## Rules\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
    let page = fs::read_to_string(path).unwrap();
    let (text, _) = page.split_once(HEADING).unwrap();
    hold("docs/conformance.md", format!("{text}{HEADING}{}", lint::documentation()).as_bytes());
}

#[cfg(all(feature = "parquet", feature = "live", feature = "tui"))]
/// Returns the date of a page from its line of `.TH`.
fn date_of(source: &str) -> Option<&str> {
    source.lines().find_map(|line| line.strip_prefix(".TH "))?.split(' ').nth(2)
}

#[cfg(all(feature = "parquet", feature = "live", feature = "tui"))]
/// Returns the current date in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    CalendarTime::from_unix_seconds(since.as_secs().cast_signed(), 0).to_string()
}

#[test]
#[cfg(all(feature = "parquet", feature = "live", feature = "tui"))]
fn manual_is_fresh() {
    let pages = manual::pages();
    for page in &pages {
        let path = format!("man/{}.1", page.name);
        let old = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path)).unwrap_or_default();
        let same = page.source(date_of(&old).unwrap_or_default());
        // A page has the date of its last change.
        hold(&path, (if same == old { same } else { page.source(&today()) }).as_bytes());
    }
    let stale: Vec<_> = stored().into_iter().filter(|(name, _)| pages.iter().all(|page| page.name != *name)).collect();
    assert!(stale.is_empty(), "of no subcommand: {stale:?}");
}

/// Returns the pages in `man/` by name.
fn stored() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (file.file_stem().unwrap().to_string_lossy().into_owned(), file)).collect()
}

#[test]
fn every_argument_is_described() {
    fn look(command: &clap::Command, nameless: &mut Vec<String>) {
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_help().is_none());
        nameless.extend(visible.map(|arg| format!("{} {arg}", command.get_bin_name().unwrap_or_default())));
        command.get_subcommands().for_each(|of| look(of, nameless));
    }
    let mut command = cli::command();
    command.build();
    let mut nameless = Vec::new();
    look(&command, &mut nameless);
    assert_eq!(nameless, [""; 0]);
}

#[test]
fn mandoc_accepts_the_manual_without_warnings() {
    for path in stored().values() {
        let Ok(output) = Command::new("mandoc").args(["-T", "lint"]).arg(path).output() else {
            return skip_without("mandoc");
        };
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
    }
}

#[test]
fn a_page_refers_to_pages_that_exist() {
    let pages = stored();
    let reference = Regex::new(r"([a-z][a-z0-9_-]*)\(([1-9])\)").unwrap();
    for path in pages.values() {
        // As rendered: `\-` is a hyphen, and .BR joins the name and the number of the section.
        let text = fs::read_to_string(path).unwrap().replace("\\-", "-").replace("\\fR", "").replace(" (1)", "(1)");
        let text = text.replace(" (", "(");
        let mut count = 0;
        for found in reference.captures_iter(&text) {
            let is_here = pages.contains_key(&found[1]) && &found[2] == "1";
            assert!(is_here || manual::ELSEWHERE.contains(&found[0]), "{}: {}", path.display(), &found[0]);
            count += u32::from(is_here);
        }
        assert!(count > 0, "{} refers to no other page", path.display());
    }
}

/// Returns the rendered text of a page, in lines that are long enough for every command.
fn read(path: &Path) -> Option<String> {
    let Ok(output) = Command::new("mandoc").args(["-T", "utf8", "-O", "width=300"]).arg(path).output() else {
        skip_without("mandoc");
        return None;
    };
    assert!(output.status.success());
    // Bold letters are printed twice.
    let text = String::from_utf8(output.stdout).unwrap();
    Some(Regex::new(".\u{8}").unwrap().replace_all(&text, "").into_owned())
}

#[test]
fn an_example_is_a_line_that_can_be_copied() {
    let mut count = 0;
    for page in manual::pages() {
        let Some(text) = read(&stored()[&page.name]) else { return };
        let shown: Vec<&str> = text.lines().map(str::trim).collect();
        for command in page.example_commands() {
            assert!(shown.contains(&command.as_str()), "{}: {command}", page.name);
            count += 1;
        }
    }
    assert!(count > 60, "{count} examples");
}

#[test]
fn the_help_of_every_subcommand_is_found_from_the_first_page() {
    let pages = stored();
    let main = fs::read_to_string(&pages["nfsrdma-inspect"]).unwrap().replace("\\-", "-");
    for of in cli::command().get_subcommands().filter(|of| of.get_name() != "help") {
        let entry = format!(".BR nfsrdma-inspect-{} (1)", of.get_name());
        assert_eq!(main.matches(&entry).count(), 2, "{entry} is in COMMANDS and in SEE ALSO");
    }
}
