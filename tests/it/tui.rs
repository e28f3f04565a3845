//! The terminal interface in a terminal: tmux types keys and reads the screen.
//!
//! Without tmux (`.ci/setup test` installs it) these tests report that and pass.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_inspect::tui::rereadable_capture::SharedCapture;
use nfsrdma_inspect::tui::{App, TuiOptions};

use crate::captures;
use crate::skipped::skip_without;

const PATIENCE: Duration = Duration::from_secs(60);

/// Terminal of a test, closed when it is dropped.
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    /// Runs a command in a terminal; returns `None` without tmux.
    fn run(name: &str, command: &str) -> Option<Self> {
        Self::run_in(name, command, 120, 40)
    }

    /// Runs a command in a terminal of this size.
    pub(crate) fn run_in(name: &str, command: &str, columns: u16, lines: u16) -> Option<Self> {
        let socket = format!("nfsrdma-inspect-{name}-{}", std::process::id());
        if Command::new("tmux").arg("-V").output().is_err() {
            skip_without("tmux");
            return None;
        }
        let terminal = Self { socket };
        // The output after the end shows how it ended.
        let shell = format!("env -u NO_COLOR LC_ALL=C.UTF-8 RUST_BACKTRACE=0 {command}; echo ended with $?; sleep 100");
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let output = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines, &shell]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap()
    }

    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Returns `true` if the alternate screen of the program is shown.
    fn is_alternate(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]).stdout.starts_with(b"1")
    }

    /// Waits until the screen shows a text.
    pub(crate) fn wait(&self, text: &str) -> String {
        self.wait_for(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the screen satisfies a condition.
    pub(crate) fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "{what} did not come:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn key(&self, key: &str) -> &Self {
        self.tmux(&["send-keys", key]);
        self
    }

    /// Types a text.
    pub(crate) fn text(&self, text: &str) -> &Self {
        self.tmux(&["send-keys", "-l", text]);
        self
    }

    pub(crate) fn line(&self, text: &str) -> &Self {
        self.text(text).key("Enter")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_nfsrdma-inspect")
}

/// File that is removed when it is dropped.
struct SavedFile(PathBuf);

impl std::ops::Deref for SavedFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for SavedFile {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for SavedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn saved(name: &str) -> SavedFile {
    let path = std::env::temp_dir().join(format!("nfsrdma-inspect-{name}-{}.pcapng", std::process::id()));
    let _ = std::fs::remove_file(&path);
    SavedFile(path)
}

fn frames(path: &Path) -> usize {
    let mut source = CaptureFrameSource::open([path]).unwrap();
    std::iter::from_fn(|| source.next().unwrap().map(|_| ())).count()
}

#[test]
fn a_capture_is_opened_filtered_followed_saved_and_left() {
    let capture = captures::path("rxe-v42");
    let Some(terminal) = Terminal::run("file", &format!("{} tui {}", program(), capture.display())) else {
        return;
    };
    let screen = terminal.wait("1 of 237");
    assert!(screen.contains("EXCHANGE_ID") && screen.contains("rxe-v42.pcap"), "{screen}");
    assert!(terminal.is_alternate());
    terminal.key("f").line("nfs.opcode == READ");
    terminal.wait("9 of 237");
    terminal.key("u");
    terminal.wait("of 237");
    terminal.key("g").line("0xb38df27d");
    terminal.wait("Transaction 49: READ");
    terminal.key("F").key("f");
    terminal.wait("nfs.fhandle == ");
    // The rows of the filter arrive gradually, and a key applies to the row selected at that moment.
    terminal.wait("8 of 237");
    terminal.key("g").line("0xb38df27d");
    terminal.wait("Transaction 49: READ");
    terminal.key("w");
    terminal.wait("Write chunk 0");
    let file = saved("file");
    terminal.key("W").line(&file.display().to_string());
    terminal.wait("saved 1 transaction to");
    // Those of the READ, and the five of connection setup and teardown.
    assert_eq!(frames(&file), 9);
    std::fs::remove_file(&file).unwrap();
    terminal.key("?");
    terminal.wait("next incomplete transaction");
    terminal.key("C-l").key("q");
    terminal.wait("Write chunk 0");
    terminal.key("C-l").key("w");
    terminal.wait("Transaction 49: READ");
    terminal.key("q");
    terminal.wait("ended with 0");
    assert!(!terminal.is_alternate());
}

#[test]
fn a_pipe_is_shown_as_its_frames_come() {
    let capture = captures::path("rxe-v42");
    // The last frames arrive after the first ones were shown.
    let go = saved("go");
    let command = format!(
        "sh -c 'head -c 600000 {0}; while ! [ -e {1} ]; do sleep 0.05; done; tail -c +600001 {0}' | {2} tui -",
        capture.display(),
        go.display(),
        program()
    );
    let Some(terminal) = Terminal::run("pipe", &command) else { return };
    let screen = terminal.wait("EXCHANGE_ID");
    assert!(!screen.contains("of 237"), "{screen}");
    terminal.wait("0x908df27d");
    terminal.key("g").line("0x908df27d");
    terminal.wait("Transaction 14: LOOKUP");
    // This one is still missing.
    terminal.key("g").line("0x318ef27d");
    terminal.wait("still searching");
    std::fs::write(&go, "").unwrap();
    terminal.wait("LOCK /data/w/s100 0+10 WRITEW");
    std::fs::remove_file(&go).unwrap();
    terminal.wait("of 237");
    terminal.key("G").wait("237 of 237");
    terminal.key("f").line("nfs.opcode == READ");
    terminal.wait("9 of 237");
    terminal.key("q");
    terminal.wait("ended with 0");
}

#[cfg(feature = "live")]
#[test]
fn an_interface_is_looked_at_filtered_followed_and_left() {
    use crate::live::veth_link::{RECEIVER, Wire};

    let Some(wire) = Wire::new() else { return };
    let command = wire.command(program());
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let command = format!("ip {} tui -i {RECEIVER}", arguments.join(" "));
    let Some(terminal) = Terminal::run("live", &command) else { return };
    terminal.wait("none yet");
    wire.send("rxe-v42", |player| player.play(1, None));
    terminal.wait("of 237");
    let screen = terminal.key("G").wait("237 of 237");
    assert!(screen.contains("0 dropped") && screen.contains("DESTROY_CLIENTID"), "{screen}");
    terminal.key("f").line("nfs.opcode == READ");
    terminal.wait("9 of 237");
    terminal.key("u").key("g").line("0xb38df27d");
    terminal.wait("READ /data/w/s2k 0+4096 len 2000 EOF");
    let file = saved("live");
    terminal.key("W").line(&file.display().to_string());
    terminal.wait("saved 1 transaction to");
    // Those of the READ, and the five of connection setup and teardown.
    assert_eq!(frames(&file), 9);
    std::fs::remove_file(&file).unwrap();
    terminal.key("F").key("x");
    terminal.wait("nfsrdma.xid == 0xb38df27d");
    terminal.wait("1 of 237");
    terminal.key("q");
    terminal.wait("ended with 0");
    assert!(!terminal.is_alternate());
}

/// Returns the number of write system calls of a process, as counted by the kernel.
fn writes(pid: &str) -> u64 {
    let counters = std::fs::read_to_string(format!("/proc/{}/io", pid.trim())).unwrap();
    let line = counters.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap();
    line.parse().unwrap()
}

#[cfg(feature = "live")]
#[test]
fn a_server_that_hangs_is_on_the_first_screen_within_two_seconds() {
    use crate::live::veth_link::{RECEIVER, Wire};

    let Some(wire) = Wire::new() else { return };
    let command = wire.command(program());
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let command = format!("ip {} tui -i {RECEIVER}", arguments.join(" "));
    let Some(terminal) = Terminal::run("hung", &command) else { return };
    terminal.wait("none yet");
    // All frames before the Reply of a READ, which is frame 595; then nothing follows.
    wire.send("rxe-v42", |player| player.send(0..593));
    let sent = Instant::now();
    let screen = terminal.wait("No reply for");
    assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
    let line = screen.lines().find(|line| line.contains("data out")).unwrap_or_else(|| panic!("{screen}"));
    assert!(line.contains("READ /data/w/s2k 0+4096") && line.contains("slot 0"), "{line}");
    assert!(line.contains("conn 1") && line.contains("0xb38df27d"), "{line}");
    // The Reply completes it.
    wire.send("rxe-v42", |player| player.send(593..600));
    terminal.wait("/s2k 0+4096 len 2000 EOF");
    // Pending Calls are updated four times per second.
    let answered = Instant::now();
    while terminal.screen().contains("No reply for") {
        assert!(answered.elapsed() < Duration::from_secs(2), "{}", terminal.screen());
        thread::sleep(Duration::from_millis(20));
    }
    terminal.key("q");
    terminal.wait("ended with 0");
}

#[cfg(feature = "live")]
#[test]
fn when_traffic_stops_the_rate_is_zero_one_second_later() {
    use crate::live::veth_link::{RECEIVER, Wire};

    let Some(wire) = Wire::new() else { return };
    let command = wire.command(program());
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let command = format!("ip {} tui -i {RECEIVER}", arguments.join(" "));
    let Some(terminal) = Terminal::run("stall", &command) else { return };
    terminal.wait("none yet");
    terminal.key("2");
    wire.send("rxe-v42", |player| player.play(1, None));
    let sent = Instant::now();
    // The last second is over, and the last ten are not.
    let screen = terminal.wait("stalled");
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());
    assert!(screen.contains("1 s: 0/s 0 B/s"), "{screen}");
    assert!(!screen.contains("10 s: 0/s"), "{screen}");
    terminal.key("q");
    terminal.wait("ended with 0");
}

/// Returns the position of the cursor in the list and the number of lines: `12 of 237`.
fn position(screen: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = screen.split_whitespace().collect();
    words.windows(3).find_map(|three| match three {
        [at, "of", count] => Some((at.parse().ok()?, count.parse().ok()?)),
        _ => None,
    })
}

#[test]
fn a_file_that_grows_is_followed_at_its_end() {
    let whole = captures::bytes("rxe-v42");
    let file = saved("grows");
    std::fs::write(&file, &whole[..600_000]).unwrap();
    let command = format!("{} tui --follow {}", program(), file.display());
    let Some(terminal) = Terminal::run("grows", &command) else { return };
    let is_at_end = |screen: &str| position(screen).is_some_and(|(at, count)| at == count && at > 10);
    let screen = terminal.wait_for("the last line", is_at_end);
    assert!(!screen.contains("of 237"), "{screen}");
    append(&file, &whole[600_000..]);
    terminal.wait("237 of 237");
    // The cursor stays where the user put it.
    terminal.key("g").line("0x318ef27d");
    let screen = terminal.wait("LOCK /data/w/s100 0+10 WRITEW");
    append(&file, &whole[24..24 + 16]);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(position(&terminal.screen()), position(&screen));
    terminal.key("q");
    terminal.wait("ended with 0");
}

fn append(file: &Path, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(file).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_followed_file_that_is_replaced_or_truncated_is_read_again() {
    let (first, second) = (captures::bytes("rxe-v42"), captures::bytes("rxe-v42-deleg"));
    let (file, other) = (saved("rotated"), saved("rotated-new"));
    std::fs::write(&file, &first).unwrap();
    let command = format!("{} tui --follow {}", program(), file.display());
    let Some(terminal) = Terminal::run("rotated", &command) else { return };
    terminal.wait("237 of 237");
    std::fs::write(&other, &second).unwrap();
    std::fs::rename(&other, &file).unwrap();
    terminal.wait("replaced; reading it from the start");
    terminal.wait("37 of 37");
    // The writer truncates the file, and writes another capture into it.
    std::fs::write(&file, &second[..24]).unwrap();
    terminal.wait("truncated; reading it from the start");
    append(&file, &first[24..]);
    terminal.wait("237 of 237");
    terminal.key("R");
    terminal.wait("reloading the files");
    terminal.wait("237 of 237");
    terminal.key("q");
    terminal.wait("ended with 0");
}

#[test]
fn an_idle_screen_is_not_drawn_again() {
    let capture = captures::path("rxe-v42");
    let pid = saved("idle");
    let command = format!("{} tui {}", program(), capture.display());
    let shell = format!("sh -c 'echo $$ > {}; exec {command}'", pid.display());
    let Some(terminal) = Terminal::run("idle", &shell) else { return };
    terminal.wait("1 of 237");
    let process = std::fs::read_to_string(&pid).unwrap();
    std::fs::remove_file(&pid).unwrap();
    // The tree of the first Transaction appears a little later than the list.
    thread::sleep(Duration::from_millis(500));
    let before = writes(&process);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(writes(&process), before);
    // It still draws when there is something to draw.
    terminal.key("G").wait("237 of 237");
    assert!(writes(&process) > before);
    terminal.key("q");
    terminal.wait("ended with 0");
}

#[test]
fn a_file_without_frames_ends_with_one_line() {
    let (empty, header) = (saved("empty"), saved("header"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&header, &captures::bytes("rxe-v42")[..24]).unwrap();
    for (name, arguments, what) in [
        ("nothing", String::new(), "no capture file given".to_owned()),
        ("empty", empty.display().to_string(), format!("{}: the file is empty; expected pcap", empty.display())),
        ("header", header.display().to_string(), format!("{}: no frames; use --follow", header.display())),
        ("null", "- < /dev/null".to_owned(), "standard input: the file is empty; expected pcap".to_owned()),
        ("redirected", format!("- < {}", header.display()), "standard input: no frames".to_owned()),
    ] {
        let Some(terminal) = Terminal::run_in(name, &format!("{} tui {arguments}", program()), 200, 10) else {
            return;
        };
        let screen = terminal.wait("ended with 2");
        assert!(screen.contains(&what) && !terminal.is_alternate(), "{screen}");
        assert_eq!(screen.trim_end().lines().count(), 2, "{screen}");
    }
    for file in [empty, header] {
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_locale_without_unicode_gets_an_interface_in_ascii() {
    let command = format!("env LC_ALL=C {} tui {}", program(), captures::path("rxe-v42").display());
    let Some(terminal) = Terminal::run("ascii", &command) else { return };
    terminal.wait("1 of 237");
    for (key, text) in [
        ("2", "ERRORS"),
        ("3", "IN USE"),
        ("4", "MEAN"),
        ("5", "INFO"),
        ("6", "Latency of"),
        ("1", "1 of 237"),
        ("w", "TOOK"),
        ("?", "-- Keys"),
    ] {
        let screen = terminal.key(key).wait(text);
        assert!(screen.is_ascii(), "{key}: {screen}");
    }
}

#[cfg(feature = "live")]
#[test]
fn an_interface_that_goes_down_is_reported() {
    use crate::live::veth_link::{RECEIVER, SENDER, Wire};

    let Some(wire) = Wire::new() else { return };
    let command = wire.command(program());
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let command = format!("ip {} tui -i {RECEIVER}", arguments.join(" "));
    let Some(terminal) = Terminal::run("down", &command) else { return };
    terminal.wait("none yet");
    wire.send("rxe-v42", |player| player.send(0..600));
    terminal.wait("/s2k 0+4096 len 2000");
    wire.set(RECEIVER, "down");
    let down = Instant::now();
    let screen = terminal.wait("nfs1: the interface is down; nothing is captured until it is up again");
    assert!(down.elapsed() < Duration::from_secs(2), "{:?}", down.elapsed());
    assert!(screen.lines().next().unwrap().contains("DOWN"), "{screen}");
    // The keys are still shown.
    assert!(screen.trim_end().lines().last().unwrap().starts_with(" ? help"), "{screen}");
    wire.set(RECEIVER, "up");
    terminal.wait_for("the end of the report", |screen| !screen.contains("the interface is"));
    // It continues with the next frames. The other end of the link is cut, which is reported, too.
    wire.send("rxe-v42", |player| player.send(600..710));
    terminal.wait("w/s64k 0+65536");
    wire.set(SENDER, "down");
    let screen = terminal.wait("the interface has no link");
    assert!(screen.lines().next().unwrap().contains("NO LINK"), "{screen}");
    // Earlier frames can be viewed, with a filter, too.
    terminal.key("f").line("nfs.opcode == READ");
    let screen = terminal.wait("filter nfs.opcode == READ");
    assert!(screen.contains("the interface has no link"), "{screen}");
    terminal.key("q");
    terminal.wait("ended with 0");
}

#[test]
fn a_signal_restores_the_terminal() {
    let capture = captures::path("rxe-v42");
    let command = format!("{} tui {}", program(), capture.display());
    let pid = saved("pid");
    let shell = format!("sh -c 'echo $$ > {}; exec {command}'", pid.display());
    let Some(terminal) = Terminal::run("signal", &shell) else { return };
    terminal.wait("of 237");
    assert!(terminal.is_alternate());
    let pid = std::fs::read_to_string(&pid).unwrap();
    let kill = |signal: &str| {
        assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success());
    };
    // It is suspended like a program without a terminal interface, and continues unchanged.
    terminal.key("C-z");
    let start = Instant::now();
    while !std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap().contains(") T ") {
        assert!(start.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!terminal.is_alternate());
    kill("-CONT");
    terminal.wait("of 237");
    assert!(terminal.is_alternate());
    kill("-TERM");
    let screen = terminal.wait("ended with");
    assert!(screen.contains("ended by signal 15"), "{screen}");
    assert!(!terminal.is_alternate());
}

/// Reader that panics.
struct Panics;

impl std::io::Read for Panics {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        // Not before the screen is taken.
        thread::sleep(Duration::from_secs(1));
        panic!("this reader panics")
    }
}

#[test]
#[ignore = "it is run in a terminal, by the test below"]
fn panics_in_a_terminal() {
    let source = CaptureFrameSource::from_reader("test", Panics);
    let app = App::new(SharedCapture::received_once("test", source, 1 << 20), TuiOptions::default()).unwrap();
    nfsrdma_inspect::tui::run(app, false).unwrap();
}

#[test]
fn a_panic_restores_the_terminal_and_is_reported() {
    let program = std::env::current_exe().unwrap();
    let command = format!("{} --ignored --exact tui::panics_in_a_terminal --nocapture", program.display());
    let Some(terminal) = Terminal::run("panic", &command) else { return };
    let screen = terminal.wait("ended with 101");
    assert!(screen.contains("this reader panics"), "{screen}");
    assert!(!terminal.is_alternate());
}
