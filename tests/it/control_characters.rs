//! Characters that control a terminal, change the direction of writing or are invisible are escaped in every output,
//! whether they come from the wire or from the names of our own files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nfsrdma_text::escape::is_unsafe;

use super::captures;

/// Temporary folder, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nfsrdma-unseen-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args(arguments).current_dir(&self.0).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Names in a capture, and their replacements of the same length, which together contain one of each kind of character.
const NAMES: [(&str, &str); 4] = [
    ("data", "\u{9b}\u{7f}a"),
    ("del1", "\u{202e}1"),
    ("del2", "\u{2028}2"),
    ("Linux NFSv4.2 client", "\u{1b}\u{200b}\u{feff}\u{2066}\u{e0041}client"),
];

fn renamed(names: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = captures::bytes("rxe-v42-deleg");
    for (name, other) in names {
        assert_eq!(name.len(), other.len());
        let places: Vec<usize> =
            bytes.windows(name.len()).enumerate().filter(|(_, at)| *at == name.as_bytes()).map(|(at, _)| at).collect();
        assert!(!places.is_empty(), "{name}");
        places.into_iter().for_each(|at| bytes[at..at + name.len()].copy_from_slice(other.as_bytes()));
    }
    bytes
}

/// Returns the unsafe characters of a text.
fn unsafe_letters(text: &[u8]) -> Vec<char> {
    let mut found: Vec<char> =
        String::from_utf8_lossy(text).chars().filter(|letter| is_unsafe(*letter) && *letter != '\n').collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Verifies that all output is clean.
fn is_clean(what: &str, output: &Output) -> Option<String> {
    let found = [unsafe_letters(&output.stdout), unsafe_letters(&output.stderr)].concat();
    (!found.is_empty()).then(|| format!("{what}: {found:?}"))
}

#[test]
fn captured_names_are_escaped_in_every_view() {
    let folder = Folder::new("wire");
    fs::write(folder.0.join("in.pcap"), renamed(&NAMES)).unwrap();
    fs::write(folder.0.join("plain.pcap"), captures::bytes("rxe-v42-deleg")).unwrap();
    let views: [&[&str]; 18] = [
        &["in.pcap"],
        &["-V", "in.pcap"],
        &["-x", "in.pcap"],
        &["-T", "json", "in.pcap"],
        &["-T", "csv", "in.pcap"],
        &["-T", "fields", "-e", "nfs.pathname.component", "-e", "nfsrdma.path", "-E", "separator=;", "in.pcap"],
        &["-T", "json", "-e", "nfs.pathname.component", "in.pcap"],
        &["--view", "frames", "in.pcap"],
        &["--view", "frames", "-V", "in.pcap"],
        &["--view", "frames", "-T", "json", "in.pcap"],
        &["--view", "connections", "-V", "in.pcap"],
        &["compare", "plain.pcap", "in.pcap"],
        &["compare", "-T", "json", "plain.pcap", "in.pcap"],
        &["check", "--bless", "in.pcap"],
        &["check", "in.pcap"],
        &["replay", "compile", "in.pcap", "-o", "in.trace"],
        &["replay", "plan", "-c", "1000", "in.trace"],
        &["replay", "plan", "-T", "json", "in.trace"],
    ];
    let mut faults = Vec::new();
    for view in views {
        let output = folder.run(view);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{view:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{view:?}");
        faults.extend(is_clean(&format!("{view:?}"), &output));
    }
    faults.extend(
        Some(unsafe_letters(&fs::read(folder.0.join("in.pcap.baseline")).unwrap()))
            .filter(|found| !found.is_empty())
            .map(|found| format!("baseline: {found:?}")),
    );
    // A baseline of other names: differences in every form.
    assert!(folder.run(&["check", "--bless", "plain.pcap"]).status.success());
    fs::rename(folder.0.join("plain.pcap.baseline"), folder.0.join("in.pcap.baseline")).unwrap();
    for format in ["text", "json"] {
        let output = folder.run(&["check", "-T", format, "--junit", "report.xml", "in.pcap"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        faults.extend(is_clean(&format!("check -T {format}"), &output));
    }
    let report = unsafe_letters(&fs::read(folder.0.join("report.xml")).unwrap());
    faults.extend((!report.is_empty()).then(|| format!("JUnit: {report:?}")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // In JSON it is the same text.
    let output = folder.run(&["-T", "json", "in.pcap"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let values = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap().to_string());
    let text: String = values.collect();
    // The owner of the client is opaque, and in hexadecimal.
    for (_, name) in &NAMES[..3] {
        assert!(text.contains(name), "{name:?}");
    }
}

#[test]
fn file_names_are_escaped_in_every_output() {
    let folder = Folder::new("files");
    let (name, other) = ("a\u{1b}[2J\u{202e}b.pcap", "c\u{9b}\u{2028}d.pcap");
    for name in [name, other] {
        fs::write(folder.0.join(name), captures::bytes("rxe-v42-deleg")).unwrap();
    }
    let link = "l\u{1b}\u{2066}";
    std::os::unix::fs::symlink(name, folder.0.join(link)).unwrap();
    let missing = "m\u{1b}\u{202e}";
    let below = format!("{missing}/out");
    let commands: [(&[&str], i32); 15] = [
        (&["-w", "out", name], 0),
        (&["check", name], 2),
        (&["check", "--bless", name, other], 0),
        (&["check", name, other], 0),
        (&["check", "-T", "json", name], 0),
        (&["compare", name, other], 0),
        (&["compare", "-T", "json", name, other], 0),
        (&["replay", "compile", name, "-o", "t\u{1b}\u{202e}"], 0),
        (&["replay", "plan", "t\u{1b}\u{202e}"], 0),
        (&["replay", "plan", missing], 2),
        (&[missing], 2),
        (&["-w", name, name], 2),
        (&["-w", link, other], 2),
        (&["-w", &below, name], 2),
        (&["check", "--junit", &below, name], 2),
    ];
    let mut faults = Vec::new();
    for (arguments, code) in commands {
        let output = folder.run(arguments);
        if output.status.code() != Some(code) {
            faults.push(format!("{arguments:?}: {output:?}"));
        }
        faults.extend(is_clean(&format!("{arguments:?}"), &output));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Spreadsheets evaluate cells that begin like a formula.
#[test]
fn a_name_is_no_formula_in_csv() {
    let folder = Folder::new("formula");
    fs::write(folder.0.join("in.pcap"), renamed(&[("del1", "=1+1"), ("del2", "@A+1")])).unwrap();
    let output = folder.run(&["-T", "csv", "-e", "nfs.pathname.component", Path::new("in.pcap").to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line == "'=1+1") && text.lines().any(|line| line == "'@A+1"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with(['=', '+', '@'])), "{text}");
}

/// Files that are merged are all open at once.
#[test]
fn too_many_files_are_refused_with_a_remedy() {
    let folder = Folder::new("many");
    let bytes = captures::bytes("rxe-v42-deleg");
    let names: Vec<String> = (0..100).map(|number| format!("{number}.pcap")).collect();
    names.iter().for_each(|name| fs::write(folder.0.join(name), &bytes).unwrap());
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nfsrdma-inspect"), "-q"])
        .args(&names)
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(".pcap: cannot open: too many open files; raise the limit (ulimit -n)"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
