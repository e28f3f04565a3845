//! Golden output: every view of every capture, in `captures/golden/VIEW/CAPTURE.txt`.
//!
//! A file has the first lines of the output, then the number of lines and a hash of all of them. So a change of any
//! byte fails a test, and a diff shows the first ones. `UPDATE=1 cargo nextest run --test it golden::` writes the
//! files; a capture that is added to `captures/` gets its files the same way.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use twox_hash::XxHash3_128;

use crate::captures;

/// A view of a capture.
struct GoldenView {
    /// The folder of its files.
    name: &'static str,
    arguments: &'static [&'static str],
    /// Lines that a file shows.
    shown: usize,
}

/// A synthetic capture of each operation of NFSv4, answered, refused and without a reply.
const EVERY_OPERATION: &str = "cases/every-operation.pcap.gz";

/// Captures in `captures/`, and [`EVERY_OPERATION`], by their paths there.
fn names() -> Vec<String> {
    let entries = fs::read_dir(captures::folder()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| [".pcap", ".pcap.gz", ".pcapng"].iter().any(|end| name.ends_with(end)));
    names.push(EVERY_OPERATION.to_owned());
    names.sort_unstable();
    assert!(names.len() >= 22, "{names:?}");
    names
}

/// Exit code, first lines, number of lines and hash of the output of the program.
fn output(view: &GoldenView, capture: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(view.arguments)
        .arg(capture)
        .current_dir(captures::folder())
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut golden = format!("$ nfsrdma-inspect {} {capture}\n", view.arguments.join(" "));
    for line in text.lines().take(view.shown) {
        golden.push_str(line);
        golden.push('\n');
    }
    let hash = XxHash3_128::oneshot(text.as_bytes());
    let _ = writeln!(golden, "--- {} lines, XXH3-128 {hash:032x}", text.lines().count());
    let errors = String::from_utf8(output.stderr).unwrap();
    let _ = writeln!(golden, "--- exit code {}\n{errors}", output.status.code().unwrap());
    golden
}

fn golden_name(capture: &str) -> String {
    let name = capture.rsplit('/').next().unwrap_or(capture);
    format!("{name}.txt")
}

fn file(view: &GoldenView, capture: &str) -> PathBuf {
    captures::folder().join("golden").join(view.name).join(golden_name(capture))
}

/// Compares a view of all captures with its files.
fn is_unchanged(view: &GoldenView) {
    let is_updated = std::env::var_os("UPDATE").is_some();
    let mut changed = Vec::new();
    for capture in names() {
        let (path, now) = (file(view, &capture), output(view, &capture));
        let before = fs::read_to_string(&path).unwrap_or_default();
        if before == now {
            continue;
        }
        if is_updated {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
            fs::write(&path, &now).unwrap();
            continue;
        }
        let lines = before.lines().zip(now.lines()).enumerate();
        let first = lines.filter(|(_, (before, now))| before != now).map(|(at, lines)| (at + 1, lines)).next();
        changed.push(format!("{}: {first:?}", path.display()));
    }
    assert!(changed.is_empty(), "{}\nUPDATE=1 writes the files again", changed.join("\n"));
}

macro_rules! golden_views {
    ($($test:ident: $($argument:literal)*, $shown:literal;)*) => {
        $(
            #[test]
            fn $test() {
                is_unchanged(&GoldenView {
                    name: stringify!($test),
                    arguments: &[$($argument),*],
                    shown: $shown,
                });
            }
        )*

        /// A file without its view or its capture tests nothing.
        #[test]
        fn every_file_has_a_view_and_a_capture() {
            let names = names();
            for folder in fs::read_dir(captures::folder().join("golden")).unwrap() {
                let folder = folder.unwrap();
                let view = folder.file_name().into_string().unwrap();
                assert!([$(stringify!($test)),*].contains(&view.as_str()), "{view}");
                for file in fs::read_dir(folder.path()).unwrap() {
                    let file = file.unwrap().file_name().into_string().unwrap();
                    assert!(names.iter().any(|name| file == golden_name(name)), "{view}/{file}");
                }
            }
        }
    };
}

golden_views! {
    transactions: "--summary" "none", 60;
    summary: "-q", 200;
    frames: "--view" "frames" "--summary" "none", 60;
    connections: "--view" "connections" "-V" "--summary" "none", 60;
    operations: "--view" "operations" "--summary" "none", 60;
    tree: "-V" "--summary" "none", 240;
    json: "-T" "json" "--summary" "none", 6;
    frames_json: "--view" "frames" "-T" "json" "--summary" "none", 6;
    csv: "-T" "csv" "--summary" "none", 30;
    bytes: "-x" "--summary" "none" "-c" "20", 60;
}
