//! The program as users run it: arguments, inputs, exit codes, and the output on each stream.

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
    // A program that needs no more input closes the pipe.
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

/// Temporary file, removed when it is dropped.
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

/// Returns the standard output of a successful run.
#[track_caller]
fn done(output: &Output) -> &str {
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    text(&output.stdout)
}

/// Returns the error of a failed run, which must be one line.
#[track_caller]
fn complaint(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line.strip_prefix("nfsrdma-inspect: ").unwrap().trim_end()
}

/// Returns the error of a run that failed without output.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stdout), "");
    complaint(&output).to_owned()
}

/// The help without a feature lacks its options.
#[cfg(all(feature = "live", feature = "parquet", feature = "tui"))]
#[test]
fn short_help() {
    insta::assert_snapshot!(done(&run(&["-h"])));
}

/// The help without a feature lacks its options.
#[cfg(all(feature = "live", feature = "parquet", feature = "tui"))]
#[test]
fn long_help() {
    insta::assert_snapshot!(done(&run(&["--help"])));
}

#[test]
fn the_version_names_features_and_the_library_that_captures() {
    let output = run(&["--version"]);
    let lines: Vec<_> = done(&output).lines().collect();
    assert_eq!(lines[0], concat!("nfsrdma-inspect ", env!("CARGO_PKG_VERSION")));
    let sign = |is_there| if is_there { '+' } else { '-' };
    let features = [
        ("gss", cfg!(feature = "gss")),
        ("live", cfg!(feature = "live")),
        ("parquet", cfg!(feature = "parquet")),
        ("tui", cfg!(feature = "tui")),
        ("verbs", cfg!(feature = "verbs")),
    ];
    let features = features.map(|(name, is_there)| format!("{}{name}", sign(is_there))).join(" ");
    assert_eq!(lines[1], format!("features: {features}"));
    match cfg!(feature = "live") {
        true => assert!(lines[2].starts_with("libpcap version 1."), "{lines:?}"),
        false => assert_eq!(lines.len(), 2, "{lines:?}"),
    }
}

#[cfg(feature = "live")]
#[test]
fn options_of_a_capture_under_way_are_refused_for_a_file() {
    let options: [&[&str]; 9] = [
        &["-f", "tcp"],
        &["-s", "100"],
        &["-p"],
        &["-a", "duration:1"],
        &["-B", "3"],
        &["-Z", "root"],
        &["--immediate"],
        &["--max-queue-bytes", "1M"],
        &["--snapshot-length", "100"],
    ];
    for option in options {
        let said = refusal(&[option, &[CAPTURE]].concat());
        let name = if option[0] == "--snapshot-length" { "-s" } else { option[0] };
        assert!(said.starts_with(&format!("{name} applies to live capture only: ")), "{said}");
        assert!(said.ends_with(&format!("; omit {name}, or name an interface with -i")), "{said}");
    }
    assert!(refusal(&["-f", "tcp", CAPTURE]).contains("filter a file with -Y"));
    let frames = ["-w", "-", "--control-frames", "--view", "frames", CAPTURE];
    assert!(refusal(&frames).starts_with("--control-frames applies to transactions"));
}

#[test]
fn reports_of_pending_calls_are_refused_where_no_line_has_them() {
    let options: [(&[&str], &str); 7] = [
        (&["-V"], "-V"),
        (&["-T", "csv"], "-T csv"),
        (&["-T", "fields", "-e", "rpc.xid"], "-T fields"),
        (&["-T", "json", "-e", "rpc.xid"], "-e"),
        (&["--view", "frames"], "--view frames"),
        (&["--view", "operations"], "--view operations"),
        (&["--view", "connections", "-V"], "--view connections"),
    ];
    for (option, name) in options {
        assert_eq!(
            refusal(&[&["--pending", "1", CAPTURE], option].concat()),
            format!("--pending applies to the list of transactions and to -T json; omit it, or {name}")
        );
        let ended = run(&[&["--pending", "0", CAPTURE], option].concat());
        assert!(ended.status.success(), "{option:?}");
    }
    for option in [&["-T", "json"][..], &["-q"], &["-x"]] {
        let ended = run(&[&["--pending", "1", CAPTURE], option].concat());
        assert!(ended.status.success(), "{option:?}");
    }
}

#[test]
fn a_misspelt_command_is_refused_with_a_proposal() {
    assert_eq!(refusal(&["comapre", "a", "b"]), "comapre: unknown command, and no such file; did you mean compare?");
    assert_eq!(refusal(&["hlep"]), "hlep: unknown command, and no such file; did you mean help?");
    assert_eq!(refusal(&["verison"]), "verison: unknown command, and no such file; did you mean --version?");
    assert_eq!(refusal(&["version"]), "version: unknown command, and no such file; give --version instead");
    assert_eq!(
        refusal(&["replay", "rum", "x.trace"]),
        "replay rum: unknown subcommand, and no such file; did you mean run?"
    );
}

#[test]
fn invalid_values_are_refused_with_valid_ones() {
    let lines = "invalid value 'x' for '--count <COUNT>': give a whole number; see --help";
    assert_eq!(refusal(&["-c", "x", CAPTURE]), lines);
    assert_eq!(
        refusal(&["-c", "0", CAPTURE]),
        "invalid value '0' for '--count <COUNT>': give a whole number from 1 on; see --help"
    );
    assert_eq!(
        refusal(&["compare", "--only", "stat", CAPTURE, CAPTURE]),
        "invalid value 'stat' for '--only <KEY>': unknown difference kind stat; did you mean status? \
         (compare --help lists them); see --help"
    );
    #[cfg(feature = "tui")]
    assert!(refusal(&["tui", "--slow", "x", CAPTURE]).contains("give a number, such as 5 or 0.25"));
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("none-{}", std::process::id()));
    let (directory, file) = (root.display().to_string(), root.join("x.pcapng").display().to_string());
    let expected = format!("{file}: cannot write: no such directory {directory}; create it, or name another file");
    assert_eq!(refusal(&["-w", &file, CAPTURE]), expected);
    assert_eq!(refusal(&["replay", "compile", CAPTURE, "-o", &file]), expected);
    assert!(!root.exists());
}

#[test]
fn a_missing_trace_is_reported_with_the_command_to_make_one() {
    let expected = "no.trace: cannot open: no such file or directory; check the path, or make a trace: \
                    replay compile CAPTURE -o no.trace";
    assert_eq!(refusal(&["replay", "plan", "no.trace"]), expected);
    assert_eq!(refusal(&["replay", "run", "no.trace", "--server", "tcp://127.0.0.1/x"]), expected);
    assert_eq!(
        refusal(&["replay", "run", "no.trace"]),
        "the following required arguments were not provided: --server <URL>, such as rdma://HOST/EXPORT or \
         tcp://HOST/EXPORT; see --help"
    );
}

/// The reply of the call in the last frame shown is not missing from the capture.
#[test]
fn summary_says_where_reading_stopped() {
    let summary = |command: &[&str]| {
        let output = run(&[command, &["--view", "frames", CAPTURE]].concat());
        done(&output).to_owned()
    };
    let whole = summary(&[]);
    assert!(!whole.contains("Reading stopped"), "{whole}");
    let cut: Vec<_> = (1..60).map(|lines| summary(&["-c", &lines.to_string()])).collect();
    let incomplete: Vec<_> = cut.iter().filter(|summary| summary.contains("no reply captured")).collect();
    assert!(incomplete.len() > 5, "{cut:?}");
    for summary in incomplete {
        let words: Vec<_> = summary.split_whitespace().collect();
        assert!(words.join(" ").contains("Reading stopped at -c "), "{summary}");
    }
}

#[test]
fn the_environment_decides_about_colours() {
    let is_colored = |set: &[(&str, &str)]| {
        let mut program = program(&["-c", "1", CAPTURE]);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
            program.env_remove(name);
        }
        done(&program.envs(set.iter().copied()).output().unwrap()).contains('\u{1b}')
    };
    assert!(!is_colored(&[]));
    assert!(is_colored(&[("CLICOLOR_FORCE", "1")]));
    assert!(is_colored(&[("FORCE_COLOR", "1")]));
    assert!(!is_colored(&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")]));
    let help = program(&["-h"]).env_remove("NO_COLOR").env("FORCE_COLOR", "1").output().unwrap();
    assert!(done(&help).contains('\u{1b}'));
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ascii-{}.trace", std::process::id()));
    let trace_name = trace.to_str().unwrap();
    done(&run(&["replay", "compile", CAPTURE, "-o", trace_name]));
    let other = "captures/rxe-v42-loss.pcap";
    let commands: [&[&str]; 12] = [
        &[CAPTURE],
        &["-V", CAPTURE],
        &["-x", "-c", "3", CAPTURE],
        &["--view", "frames", other],
        &["--view", "frames", "-V", "-c", "50", other],
        &["--view", "operations", CAPTURE],
        &["--view", "connections", "-V", CAPTURE],
        &["captures/rxe-v42-mid.pcap.gz"],
        &["compare", CAPTURE, other],
        &["check", CAPTURE],
        &["replay", "plan", trace_name],
        &["fields", "nfs."],
    ];
    for command in commands {
        let output = program(command).env("LC_ALL", "C").output().unwrap();
        assert!(!output.stdout.is_empty(), "{command:?}: {}", text(&output.stderr));
        let other = output.stdout.iter().position(|byte| !byte.is_ascii());
        let around = other.map(|at| String::from_utf8_lossy(&output.stdout[at.saturating_sub(60)..at + 3]));
        assert_eq!(around, None, "{command:?}");
        assert!(output.stderr.is_ascii(), "{command:?}");
    }
    fs::remove_file(trace).unwrap();
    let output = program(&[CAPTURE]).env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(!output.stdout.is_ascii());
}

/// Returns the subcommands that a help lists.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let first = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    first.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_has_the_characters_of_the_locale() {
    let help = |command: &[&str], locale: &str| {
        let output = program(command).env("LC_ALL", locale).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let mut pages = vec![Vec::new()];
    let mut at = 0;
    while let Some(page) = pages.get(at).cloned() {
        let command: Vec<&str> = page.iter().map(String::as_str).collect();
        for option in ["-h", "--help"] {
            let text = help(&[&command[..], &[option]].concat(), "C");
            assert!(text.is_ascii() && text.contains("Usage:"), "{command:?} {option}: {text}");
        }
        let names = subcommands(&help(&[&command[..], &["-h"]].concat(), "C.UTF-8"));
        pages.extend(names.into_iter().map(|name| [&page[..], &[name]].concat()));
        at += 1;
    }
    assert!(pages.len() > 12, "{pages:?}");
    assert!(help(&["replay"], "C").is_ascii());
    // Nothing else differs, and no character is lost.
    let unicode = help(&["--help"], "C.UTF-8");
    assert!(unicode.contains("\u{2190}4.2: a callback") && unicode.contains("reply\u{d7}2:"));
    let replaced = [("\u{2190}", "<-"), ("\u{2192}", "->"), ("\u{d7}", "x"), ("\u{2026}", "~")]
        .into_iter()
        .fold(unicode, |text, (from, to)| text.replace(from, to));
    assert_eq!(help(&["--help"], "C"), replaced);
}

#[test]
fn times_are_iso_8601_where_that_is_asked_for() {
    let lines = run(&["-t", "iso", "-c", "1", "--summary", "none", "captures/rxe-v42.pcap"]);
    // Output of `date -u -d @1795230436.914696410 +%FT%T.%NZ` for the time of frame 6.
    assert!(done(&lines).contains("2026-11-21T03:07:16.914696410Z "), "{}", text(&lines.stdout));
    let frames = run(&["--view", "frames", "-t", "iso", "-c", "6", "--summary", "none", "captures/rxe-v42.pcap"]);
    assert!(done(&frames).ends_with('\n') && done(&frames).contains("2026-11-21T03:07:16.914696410Z"));
    // The aliases of tshark.
    for (name, alias) in [("d", "dd"), ("a", "u"), ("ad", "ud")] {
        let lines = |format| run(&["-t", format, CAPTURE]).stdout;
        assert_eq!(lines(name), lines(alias), "{alias}");
    }
    assert_eq!(run(&["--time-format", "e", CAPTURE]).stdout, run(&["-t", "e", CAPTURE]).stdout);
}

#[test]
fn invalid_usage_is_refused_in_one_line() {
    let interface = if cfg!(feature = "live") { ", or an interface with -i" } else { "" };
    assert_eq!(
        refusal(&[]),
        format!("no capture file given; name one, or '-' for standard input{interface}; see --help")
    );
    assert_eq!(
        refusal(&["--vieww", "frames", CAPTURE]),
        "unexpected argument '--vieww' found; a similar argument exists: '--view'; see --help"
    );
    for (arguments, option) in [
        (&["--bogus", CAPTURE][..], "--bogus"),
        (&["--pending", "-1", CAPTURE], "-1"),
        (&["check", "--ignore", "x", CAPTURE], "--ignore"),
    ] {
        assert_eq!(refusal(arguments), format!("unexpected argument '{option}' found; see --help"));
    }
    assert_eq!(
        refusal(&["--max-hole-bytes", "4K", CAPTURE]),
        "--max-hole-bytes was renamed; use --max-gap-bytes; see --help"
    );
    assert_eq!(
        refusal(&["replay", "run", "--wants=asked", "work.trace"]),
        "--wants was renamed; use --delegations; see --help"
    );
    assert_eq!(
        refusal(&["--view", "frame", CAPTURE]),
        "invalid value 'frame' for '--view <VIEW>' [possible values: transactions, frames, operations, connections]; \
         a similar value exists: 'frames'; see --help"
    );
    assert_eq!(
        refusal(&["--max-chunk-bytes", "64 apples", CAPTURE]),
        "invalid value '64 apples' for '--max-chunk-bytes <BYTES>': \
         give a number, such as 65536, 64K or 1G; see --help"
    );
    assert_eq!(
        refusal(&["-V", "-T", "json", CAPTURE]),
        "-V prints text and cannot be combined with -T json; omit one of them"
    );
}

#[test]
fn files_that_are_no_captures_are_refused_in_one_line() {
    assert_eq!(refusal(&["no/such.pcap"]), "no/such.pcap: cannot open: no such file or directory; check the path");
    assert_eq!(refusal(&["captures"]), "captures: is a directory; name the capture files in it");
    assert_eq!(refusal(&["-", "-"]), "standard input: can be read only once; name '-' once");
    let empty = Temporary::new("empty.pcap", b"");
    let letter = Temporary::new("letter.txt", b"Dear Bob,\n");
    assert!(refusal(&[empty.path()]).ends_with(": the file is empty; expected pcap or pcapng"));
    assert!(refusal(&[letter.path()]).contains(r#"not a capture file: begins with "Dear Bob,"#));
}

#[test]
fn values_given_twice_are_refused() {
    // None of the values may be ignored, whether they differ or not.
    for (option, values) in [
        ("-T", ["json", "text"]),
        ("--summary", ["none", "text"]),
        ("-Y", ["nfs", "rpc"]),
        ("-c", ["1", "2"]),
        ("-t", ["a", "a"]),
        ("-w", ["one.pcapng", "two.pcapng"]),
        ("--view", ["frames", "transactions"]),
        ("--max-memory", ["100M", "200M"]),
    ] {
        let arguments = [option, values[0], option, values[1], CAPTURE];
        let complaint = refusal(&arguments);
        assert!(complaint.contains("cannot be used multiple times"), "{option}: {complaint}");
    }
    assert!(refusal(&["-Y", "nfs", "-Y", "rpc", CAPTURE]).contains("join filters with '&&'"));
    for (arguments, named) in [
        (&["-T", "fields", "-e", "nfs", "-E", "header=y", "-E", "header=n", CAPTURE][..], "-E header"),
        (&["capture", "-i", "lo", "-w", "x", "-b", "files:1", "-b", "files:2"], "-b files"),
        (&["capture", "-i", "lo", "-w", "x", "-a", "packets:1", "-a", "packets:2"], "-a packets"),
        (&["-i", "lo", "-a", "duration:1", "-a", "duration:2"], "-a duration"),
        (&["-i", "lo", "-i", "lo"], "-i lo"),
    ] {
        if arguments.contains(&"-i") && cfg!(not(feature = "live")) {
            continue;
        }
        let complaint = refusal(arguments);
        assert!(complaint.contains(named) && complaint.contains("twice"), "{arguments:?}: {complaint}");
    }
    // Flags mean the same however often they are given, and some options take several values.
    assert_eq!(done(&run(&["-q", "-q", "-n", "-n", CAPTURE])), done(&run(&["-q", CAPTURE])));
    done(&run(&["-T", "fields", "-e", "nfsrdma.xid", "-e", "nfsrdma.index", "-r", CAPTURE]));
}

#[test]
fn a_capture_is_shown() {
    let all = run(&["--summary", "none", CAPTURE]);
    let all = done(&all).lines().collect::<Vec<_>>();
    assert!(all.len() > 20, "{all:?}");
    let some = run(&["--summary", "none", "-c", "3", CAPTURE]);
    // The header, then three lines.
    assert_eq!(done(&some).lines().collect::<Vec<_>>(), all[..4]);
    assert_eq!(done(&run(&["--summary", "none", "-q", CAPTURE])), "");
    assert_ne!(done(&run(&["-q", CAPTURE])), "");
}

#[test]
fn the_view_determines_the_unit_of_a_line() {
    let count = |arguments: &[&str]| {
        let options = ["--view", "frames", "--summary", "none"];
        // Below the header.
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
fn frames_before_a_truncated_record_are_shown() {
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
fn an_unknown_link_type_is_reported_once_per_file() {
    let mut bytes = capture();
    bytes[20..24].copy_from_slice(&147_u32.to_le_bytes());
    let unknown = Temporary::new("link-147.pcap", &bytes);
    let frames = run(&["--view", "frames", "--summary", "none", CAPTURE, unknown.path()]);
    let line = complaint(&frames);
    assert!(line.contains("link-147.pcap: frame 1: unknown link type 147"), "{line}");
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
fn a_closed_output_pipe_is_no_failure() {
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
fn a_full_disk_is_reported() {
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
