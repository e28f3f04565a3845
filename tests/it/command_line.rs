//! The program as a user runs it: arguments, inputs, exit codes, and what goes to which stream.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::skipped::skip;

const CAPTURE: &str = "captures/rxe-v42-deleg.pcap";
/// Frames of the capture.
const FRAMES: usize = 197;

fn program(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    program
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = program(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that wants no more closes the pipe.
    let writer = thread::spawn(move || drop(to.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

fn capture() -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(CAPTURE)).unwrap()
}

/// A file that is there as long as the value is.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// The standard output of a run in which nothing went wrong.
#[track_caller]
fn done(output: &Output) -> &str {
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    text(&output.stdout)
}

/// What a run that went wrong says, in the one line that it may take.
#[track_caller]
fn complaint(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line.strip_prefix("nfsrdma-inspect: ").unwrap().trim_end()
}

/// What a run says that went wrong before it showed anything.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stdout), "");
    complaint(&output).to_owned()
}

#[test]
fn short_help() {
    insta::assert_snapshot!(done(&run(&["-h"])));
}

#[test]
fn long_help() {
    insta::assert_snapshot!(done(&run(&["--help"])));
}

#[test]
fn version() {
    assert_eq!(done(&run(&["--version"])), concat!("nfsrdma-inspect ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn usage_that_makes_no_sense_is_refused_in_one_line() {
    assert_eq!(
        refusal(&[]),
        "no capture file is named; name one, or '-' for standard input, or an interface with -i; see --help"
    );
    assert_eq!(
        refusal(&["--vieww", "frames", CAPTURE]),
        "unexpected argument '--vieww' found; a similar argument exists: '--view'; see --help"
    );
    assert_eq!(
        refusal(&["--view", "frame", CAPTURE]),
        "invalid value 'frame' for '--view <VIEW>' [possible values: transactions, frames, operations, connections]; \
         a similar value exists: 'frames'; see --help"
    );
    assert!(refusal(&["-c", "0", CAPTURE]).starts_with("invalid value '0' for '--count <COUNT>'"));
    assert_eq!(
        refusal(&["--max-kept-bytes", "64 apples", CAPTURE]),
        "invalid value '64 apples' for '--max-kept-bytes <BYTES>': \
         give a number, such as 65536, 64K or 1G; see --help"
    );
    assert_eq!(
        refusal(&["-V", "-T", "json", CAPTURE]),
        "-V is a tree of text, and -T json is not; leave out one of them"
    );
}

#[test]
fn what_is_no_capture_is_refused_in_one_line() {
    assert_eq!(
        refusal(&["no/such.pcap"]),
        "no/such.pcap: cannot open: no such file or directory; check the path"
    );
    assert_eq!(refusal(&["captures"]), "captures: is a directory; name the capture files in it");
    assert_eq!(refusal(&["-", "-"]), "standard input: can be read only once; name '-' once");
    let empty = Temporary::new("empty.pcap", b"");
    let letter = Temporary::new("letter.txt", b"Dear Bob,\n");
    assert!(refusal(&[empty.path()]).ends_with(": the file is empty; expected pcap or pcapng"));
    assert!(refusal(&[letter.path()]).contains(r#"not a capture file: begins with "Dear Bob,"#));
}

#[test]
fn the_last_of_an_option_counts() {
    let twice = run(&["-T", "json", "-T", "text", "-q", "--summary", "none", "--summary", "text", CAPTURE]);
    assert_eq!(done(&twice), done(&run(&["-q", CAPTURE])));
}

#[test]
fn a_capture_is_shown() {
    let all = run(&["--summary", "none", CAPTURE]);
    let all = done(&all).lines().collect::<Vec<_>>();
    assert!(all.len() > 20, "{all:?}");
    let some = run(&["--summary", "none", "-c", "3", CAPTURE]);
    // The names of the columns, then three lines.
    assert_eq!(done(&some).lines().collect::<Vec<_>>(), all[..4]);
    assert_eq!(done(&run(&["--summary", "none", "-q", CAPTURE])), "");
    assert_ne!(done(&run(&["-q", CAPTURE])), "");
}

#[test]
fn the_view_says_what_a_line_is() {
    let count = |arguments: &[&str]| {
        let options = ["--view", "frames", "--summary", "none"];
        // Below the names of the columns.
        done(&run(&[&options, arguments].concat())).lines().skip(1).count()
    };
    assert_eq!(count(&[CAPTURE]), FRAMES);
    assert_eq!(count(&["-c", "5", CAPTURE]), 5);
    assert_eq!(count(&["-r", CAPTURE]), FRAMES);
    assert_eq!(count(&[CAPTURE, CAPTURE]), 2 * FRAMES);
    assert_eq!(count(&["-r", CAPTURE, "-r", CAPTURE, CAPTURE]), 3 * FRAMES);
}

#[test]
fn standard_input_is_read_like_a_file() {
    let file = run(&[CAPTURE]);
    assert_eq!(done(&run_with_input(&["-"], &capture())), done(&file));
    assert_eq!(done(&run_with_input(&["-r", "-"], &capture())), done(&file));
}

#[test]
fn what_comes_before_a_torn_record_is_shown() {
    let whole = run(&["--view", "frames", "--summary", "none", CAPTURE]);
    let cut = Temporary::new("cut.pcap", &capture()[..30_000]);
    let torn = run(&["--view", "frames", "--summary", "none", cut.path()]);
    assert!(complaint(&torn).contains(": frame 127, byte 29868: the file ends after 132 of the 306 bytes"));
    let shown: Vec<_> = text(&torn.stdout).lines().collect();
    assert_eq!(shown, done(&whole).lines().take(1 + 126).collect::<Vec<_>>());

    let with_summary = run(&["-q", cut.path()]);
    complaint(&with_summary);
    assert_ne!(text(&with_summary.stdout), "");
}

#[test]
fn a_link_type_that_is_not_known_is_told_once_of_each_file() {
    let mut bytes = capture();
    bytes[20..24].copy_from_slice(&147_u32.to_le_bytes());
    let unknown = Temporary::new("link-147.pcap", &bytes);
    let frames = run(&["--view", "frames", "--summary", "none", CAPTURE, unknown.path()]);
    let line = complaint(&frames);
    assert!(line.contains("link-147.pcap: frame 1: link type 147 is not known"), "{line}");
    assert_eq!(text(&frames.stdout).lines().skip(1).count(), 2 * FRAMES);
    let summary = run(&["-q", unknown.path()]);
    complaint(&summary);
    assert!(text(&summary.stdout).starts_with("197 frames"));
}

#[test]
fn a_file_that_cannot_be_read_on_leaves_the_others_alone() {
    let cut = Temporary::new("cut-beside.pcap", &capture()[..30_000]);
    let both = run(&["--view", "frames", "--summary", "none", cut.path(), CAPTURE]);
    assert!(complaint(&both).contains("cut-beside.pcap: frame 127"));
    assert_eq!(text(&both.stdout).lines().skip(1).count(), 126 + FRAMES);
}

#[test]
fn a_reader_that_wants_no_more_is_no_failure() {
    // Many times more than a pipe holds.
    let files = vec![CAPTURE; 100];
    let mut child = program(&[&["--view", "frames"], files.as_slice()].concat()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_ne!(first, "");
    assert_eq!(done(&child.wait_with_output().unwrap()), "");
}

#[test]
fn a_command_without_its_subcommand_shows_its_help_in_lines() {
    let output = run(&["replay"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    let help = text(&output.stderr);
    assert_eq!(help, text(&run(&["replay", "-h"]).stdout));
    assert!(help.contains("\n  compile  "), "{help}");
}

#[test]
fn a_full_disk_is_told() {
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        skip("/dev/full", "there is no /dev/full");
        return;
    };
    let output = program(&[CAPTURE]).stdout(full).output().unwrap();
    assert!(complaint(&output).starts_with("standard output: cannot write: "));
}

#[test]
fn frames_of_a_pipe_are_shown_as_they_come() {
    let mut child: Child = program(&["--view", "frames", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    input.write_all(&capture()).unwrap();
    let (shown, is_shown) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        shown.send(line).unwrap();
        output.read_to_string(&mut String::new()).unwrap();
    });
    let first = is_shown.recv_timeout(Duration::from_secs(60));
    drop(input);
    assert_ne!(first.unwrap(), "", "while the input is still open");
    reader.join().unwrap();
    assert!(child.wait().unwrap().success());
}
