//! Several interfaces at a time, and files of a capture in which the server hangs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::CaptureFrameSource;

use super::veth_link::{RECEIVER, Wire};

/// 310 calls on one connection; the last 16, on all its credits, have no reply.
const HANG: &str = "cases/all-credits-hang";

struct OutputPath(PathBuf);

impl OutputPath {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nfsrdma-{name}-{}.pcapng", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for OutputPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the names of the interfaces in a file, and the number of its frames.
fn interfaces(file: &OutputPath) -> (Vec<String>, u64) {
    let mut source = CaptureFrameSource::open([&file.0]).unwrap();
    let mut frames = 0;
    while source.next().unwrap().is_some() {
        frames += 1;
    }
    (source.interfaces().map(|(_, interface)| interface.name.clone()).collect(), frames)
}

/// Returns the number of transactions in a file, and of those without a reply.
fn transactions(file: &Path) -> (usize, usize) {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["-T", "json", "--summary", "none"])
        .arg(file)
        .output()
        .unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines.len(), lines.iter().filter(|line| line["reply"].is_null()).count())
}

/// As dumpcap does: one file, with a description of each interface.
#[test]
fn two_interfaces_share_one_file() {
    let Some(wire) = Wire::new() else { return };
    let (recorded, written) = (OutputPath::new("two-recorded"), OutputPath::new("two-written"));
    let recording =
        wire.capture(&["capture", "-i", "lo", "-i", RECEIVER, "-w", recorded.text(), "-f", "", "-Z", "root"]);
    let writing = wire.capture(&["-i", RECEIVER, "-i", "lo", "-w", written.text(), "-Z", "root"]);
    wire.send("cases/server-dead", |player| player.play(1, Some(1_000.0)));
    thread::sleep(Duration::from_millis(200));
    let (_, report) = recording.interrupt();
    assert!(report.contains("lo and nfs1: 22 packets"), "{report}");
    writing.interrupt();
    assert_eq!(interfaces(&recorded), (vec!["lo".to_owned(), RECEIVER.to_owned()], 22));
    let (names, _) = interfaces(&written);
    assert_eq!(names, [RECEIVER, "lo"]);
    assert_eq!(transactions(&written.0), (9, 8));
}

/// The frames of hung calls are in the file while the capture goes on, as far as a filter selects the calls.
#[test]
fn written_file_has_hung_calls_early() {
    let Some(wire) = Wire::new() else { return };
    let (all, some) = (OutputPath::new("hung-all"), OutputPath::new("hung-some"));
    let one = wire.capture(&["-i", RECEIVER, "-w", all.text(), "-q", "-Z", "root"]);
    let other = wire.capture(&[
        "-i",
        RECEIVER,
        "-w",
        some.text(),
        "-Z",
        "root",
        "-Y",
        "nfsrdma.connection == 1 && nfs.opcode == READ",
    ]);
    wire.send(HANG, |player| player.play(1, Some(5_000.0)));
    let start = Instant::now();
    while transactions(&all.0).1 < 16 || transactions(&some.0).1 < 16 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?} {:?}", transactions(&all.0), transactions(&some.0));
        thread::sleep(Duration::from_millis(200));
    }
    one.interrupt();
    other.interrupt();
    assert_eq!((transactions(&all.0), transactions(&some.0)), ((310, 16), (307, 16)));
}

/// Hung calls, followed by much traffic of another connection, from a pipe into a small buffer.
#[test]
fn hung_calls_stay_despite_full_queue() {
    let mut bytes = vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1];
    let mut shift = None;
    for name in [HANG, "rxe-v42"] {
        let mut source = CaptureFrameSource::open([crate::captures::path(name)]).unwrap();
        let mut first = None;
        while let Some(frame) = source.next().unwrap() {
            let begin = *first.get_or_insert(frame.time.0);
            let time = frame.time.0 - begin + shift.unwrap_or(1_000_000_000);
            bytes.extend(u32::try_from(time / 1_000_000_000).unwrap().to_be_bytes());
            bytes.extend(u32::try_from(time % 1_000_000_000).unwrap().to_be_bytes());
            bytes.extend((frame.bytes.len() as u32).to_be_bytes());
            bytes.extend(frame.length.to_be_bytes());
            bytes.extend_from_slice(frame.bytes);
        }
        shift = Some(10_000_000_000);
    }
    let (capture, to) = (OutputPath::new("queue-in"), OutputPath::new("queue-out"));
    fs::write(&capture.0, bytes).unwrap();
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "cat {} | {} -w {} -q -Y 'nfsrdma.connection == 1' --max-write-bytes 400K -",
            capture.text(),
            env!("CARGO_BIN_EXE_nfsrdma-inspect"),
            to.text()
        ))
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(transactions(&to.0).1, 16);
}
