//! Reporting of skipped tests: libtest cannot skip a test at run time, so [`skip`] records the missing dependency in
//! `target/tmp/skipped`, and `make test` and `make test-all` print that list at their end (`tests/skips`). If `CI` is
//! set, a skip fails the test, unless `NFSRDMA_EXPECTED_SKIPS` has its key.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::{env, thread};

use crate::captures::Temporary;

/// Environment variable with the file of skips, for the test of this module.
const FILE: &str = "NFSRDMA_SKIPS";

/// Records that the running test cannot run, or not completely, because of a missing dependency; the caller then
/// returns. A test that fails for it is not recorded: it counts as failed.
///
/// `key` is the dependency in one word: a program, `root`, `ipv6`. `reason` is a sentence for people.
pub(crate) fn skip(key: &str, reason: impl Display) {
    // nextest runs a test in the main thread of a process.
    let test =
        env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| thread::current().name().unwrap_or("unknown test").to_owned());
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    let expected = env::var("NFSRDMA_EXPECTED_SKIPS").unwrap_or_default();
    let is_expected = expected.split([',', ' ']).any(|of| of == key);
    assert!(
        !is_ci || is_expected,
        "CI is set, and this test cannot run: {reason}; expect it with NFSRDMA_EXPECTED_SKIPS={key}"
    );
    let line = format!("{key}\t{reason}\t{test}\n");
    let path = env::var_os(FILE).unwrap_or_else(|| concat!(env!("CARGO_TARGET_TMPDIR"), "/skipped").into());
    // A single write in append mode is atomic, whatever other tests write.
    let noted =
        OpenOptions::new().append(true).create(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    noted.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
    eprintln!("skipped: {reason}");
}

/// Skips a test for a missing program, which `.ci/setup test` installs if possible.
pub(crate) fn skip_without(program: &str) {
    skip(program, format_args!("{program} is not installed"));
}

#[test]
#[ignore = "the tests below run it"]
fn a_test_that_cannot_run() {
    skip("wings", "nobody here can fly");
}

/// Runs the test above with these environment variables: returns `true` if it passed, its output, and its records.
fn skipped(name: &str, set: &[(&str, &str)]) -> (bool, String, Temporary) {
    let file = Temporary::new(&format!("skips-{name}"), b"");
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "skipped::a_test_that_cannot_run"])
        .env_remove("CI")
        .env_remove("NFSRDMA_EXPECTED_SKIPS")
        .env_remove("NEXTEST_TEST_NAME")
        .env(FILE, file.path())
        .envs(set.iter().copied())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(said.contains("running 1 test"), "{said}");
    (output.status.success(), said, file)
}

#[test]
fn a_skip_is_noted_and_shown_with_its_reason_and_a_count() {
    let (passes, said, file) = skipped("noted", &[]);
    assert!(passes && said.contains("skipped: nobody here can fly"), "{said}");
    let noted = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(noted, "wings\tnobody here can fly\tskipped::a_test_that_cannot_run\n");

    // Two skips of a test for the same reason count once.
    std::fs::write(file.path(), noted.repeat(2) + "wings\tnobody here can fly\tother\nroot\tnot root\tother\n")
        .unwrap();
    let shown = shown(file.path());
    assert_eq!(
        shown,
        "
SKIPPED 1 test [root]: not root
    other
SKIPPED 2 tests [wings]: nobody here can fly
    other
    skipped::a_test_that_cannot_run
2 tests were skipped, or parts of them.
"
    );
}

#[test]
fn no_skips_are_shown_as_such() {
    let file = Temporary::new("skips-none", b"");
    assert_eq!(shown(file.path()), "\nNo test was skipped.\n");
    assert_eq!(shown(Path::new("/no/such/file")), "\nNo test was skipped.\n");
}

/// Returns the output of `make test` at its end.
fn shown(file: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/skips");
    let output = Command::new(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The closing line of `make test`, from libtest and from nextest.
#[test]
fn counts_of_all_binaries_are_added() {
    let log = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
               test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.1s\n\
               \u{1b}[32;1m     Summary\u{1b}[0m [   2.3s] 12 tests run: \
               10 passed (1 slow), 1 failed, 1 timed out, 4 skipped\n";
    let log = Temporary::new("counts-log", log.as_bytes());
    let skips = Temporary::new("counts-skips", b"root\tnot root\tone\nroot\tnot root\tone\nwings\tno wings\tother\n");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts");
    let output = Command::new(script).args([log.path(), skips.path()]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "16 passed, 4 failed, 2 skipped\n");
}

#[test]
fn in_ci_a_skip_fails_unless_it_is_expected() {
    let (passes, said, _) = skipped("ci", &[("CI", "true")]);
    assert!(!passes && said.contains("NFSRDMA_EXPECTED_SKIPS=wings"), "{said}");
    let (passes, said, _) = skipped("expected", &[("CI", "true"), ("NFSRDMA_EXPECTED_SKIPS", "root,wings")]);
    assert!(passes, "{said}");
    let (passes, said, _) = skipped("unexpected", &[("CI", "1"), ("NFSRDMA_EXPECTED_SKIPS", "root,wing")]);
    assert!(!passes, "{said}");
}
