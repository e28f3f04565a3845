//! `capture -w`: the file contains the packets of the link, and the counters.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nfsrdma_capture_file::{CaptureFrameSource, SourceErrorKind};
use nfsrdma_inspect::output::units::HumanCount;
use nix::sys::signal::Signal;

use super::veth_link::{Capturing, RECEIVER, Wire};
use crate::captures;
use crate::skipped::skip_without;

/// The bytes of all frames.
fn frames(mut source: CaptureFrameSource) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        frames.push(frame.bytes.to_vec());
    }
    assert_eq!(source.dropped().unwrap_or(0), 0);
    frames
}

/// Returns the number of whole frames in a file that may end within the last block: write(2) is not atomic for a
/// reader, and SIGKILL can end it between two pages.
fn whole_frames(file: &str) -> usize {
    let mut source = CaptureFrameSource::open([file]).unwrap();
    let mut count = 0;
    loop {
        match source.next() {
            Ok(Some(_)) => count += 1,
            Ok(None) => return count,
            Err(error) => {
                assert!(matches!(error.kind(), SourceErrorKind::Truncated { .. }), "{error}");
                return count;
            }
        }
    }
}

fn sent(name: &'static str) -> Vec<Vec<u8>> {
    frames(CaptureFrameSource::open([captures::path(name)]).unwrap())
}

/// Compares frames with those sent, without printing all their bytes.
#[track_caller]
fn are_same(found: &[Vec<u8>], expected: &[Vec<u8>]) {
    let first = found.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!((first, found.len()), (None, expected.len()), "the first frame that differs, and how many there are");
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nfsrdma-live-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_recording_has_every_frame_and_the_packet_counters() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("one");
    let file = folder.path("one.pcapng");
    let program = wire.capture(&["capture", "-i", RECEIVER, "-w", &file, "-f", ""]);
    wire.send("rxe-v42", |player| player.play(1, None));
    let (_, printed) = program.interrupt();
    let expected = sent("rxe-v42");
    assert!(
        printed.contains(&format!(
            "{} packets passed the capture filter; dropped: 0 by the kernel",
            HumanCount(expected.len() as u64)
        )),
        "{printed}"
    );
    let mut source = CaptureFrameSource::open([&file]).unwrap();
    source.next().unwrap();
    let interface = source.interfaces().next().unwrap().1.clone();
    assert_eq!((interface.name.as_str(), interface.digits(), interface.snap_length), (RECEIVER, 9, 262_144));
    are_same(&frames(CaptureFrameSource::open([&file]).unwrap()), &expected);
    well_formed(Path::new(&file), expected.len());
    let source = {
        let mut source = CaptureFrameSource::open([&file]).unwrap();
        while source.next().unwrap().is_some() {}
        source
    };
    assert_eq!(source.interfaces().next().unwrap().1.received, Some(expected.len() as u64));
}

/// Verifies that capinfos reads the file.
fn well_formed(file: &Path, packets: usize) {
    let Ok(output) = Command::new("capinfos").args(["-c", "-M", "-r", "-T"]).arg(file).output() else {
        skip_without("capinfos");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(&packets.to_string()), "{text}");
}

#[test]
fn the_default_filter_excludes_frames_without_rdma_or_rpc() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("filter");
    let file = folder.path("filter.pcapng");
    let program = wire.capture(&["capture", "-i", RECEIVER, "-w", &file]);
    wire.send("rxe-v42", |player| player.play(1, None));
    program.interrupt();
    // ARP and ICMPv6 are excluded.
    let expected: Vec<_> = sent("rxe-v42").into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    are_same(&frames(CaptureFrameSource::open([&file]).unwrap()), &expected);
}

/// The kernel strips the tag before a filter sees the frame, and libpcap restores it.
#[test]
fn the_filter_of_the_default_looks_behind_vlan_tags() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("vlan");
    let file = folder.path("vlan.pcapng");
    let is_in = |frame: &Vec<u8>| frame[12..14] == [8, 0];
    let tagged = |frame: &Vec<u8>, tags: usize| {
        let tag = [0x81, 0x00, 0x00, 0x07].repeat(tags);
        [&frame[..12], &tag, &frame[12..]].concat()
    };
    for tags in [1, 2] {
        let program = wire.capture(&["capture", "-i", RECEIVER, "-w", &file]);
        wire.send("rxe-v42", |player| {
            player.change(|frame| tagged(frame, tags));
            player.play(1, None);
        });
        program.interrupt();
        let expected: Vec<_> =
            sent("rxe-v42").iter().filter(|frame| is_in(frame)).map(|frame| tagged(frame, tags)).collect();
        are_same(&frames(CaptureFrameSource::open([&file]).unwrap()), &expected);
    }
}

#[test]
fn a_ring_keeps_the_latest_files() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("ring");
    let file = folder.path("ring.pcapng");
    let program = wire.capture(&[
        "capture",
        "-i",
        RECEIVER,
        "-w",
        &file,
        "-f",
        "",
        "-b",
        "packets:300",
        "-b",
        "files:3",
        "-Z",
        "root",
    ]);
    wire.send("rxe-v42", |player| player.play(1, None));
    program.interrupt();
    let files = folder.files();
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let expected = sent("rxe-v42");
    let last = expected.len().div_ceil(300);
    for (name, number) in names.iter().zip(last - 2..=last) {
        assert!(name.starts_with(&format!("ring_{number:05}_2")) && name.ends_with(".pcapng"), "{names:?}");
    }
    assert_eq!(names.len(), 3);
    are_same(&frames(CaptureFrameSource::open(&files).unwrap()), &expected[(last - 3) * 300..]);
}

#[test]
fn a_recording_ends_after_its_packets() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("count");
    let file = folder.path("count.pcapng");
    for limit in [&["-c", "10"][..], &["-a", "packets:10"], &["-f", "udp", "-a", "packets:10"]] {
        let program = wire.capture(&[&["capture", "-i", RECEIVER, "-w", &file][..], limit].concat());
        wire.send("rxe-v42", |player| player.play(1, None));
        program.end();
        assert_eq!(frames(CaptureFrameSource::open([&file]).unwrap()).len(), 10, "{limit:?}");
    }
}

/// One program records, another one decodes at the other end of a pipe.
#[test]
fn a_recording_goes_through_a_pipe() {
    let Some(wire) = Wire::new() else { return };
    let mut recorder = wire.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    recorder.args(["capture", "-i", RECEIVER, "-w", "-", "-a", "packets:1972"]);
    let mut recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 8];
    std::io::Read::read_exact(recorder.stderr.as_mut().unwrap(), &mut first).unwrap();
    let reader = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["-l", "--summary", "none", "-"])
        .stdin(recorder.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wire.send("rxe-v42", |player| player.play(1, None));
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 238);
    assert!(recorder.wait().unwrap().success());
}

/// Arguments of `capture -w` and `-i -w`.
const RECORDERS: [&[&str]; 2] = [&["capture", "-i", RECEIVER, "-f", ""], &["-i", RECEIVER, "-f", ""]];
/// Arguments of `-i -w` in the view of frames.
const GROWING_FRAMES: &[&str] = &["-i", RECEIVER, "-f", "", "--view", "frames"];

#[test]
fn a_file_that_grows_replaces_an_old_one_when_it_begins_and_is_readable_at_any_time() {
    let Some(wire) = Wire::new() else { return };
    for recorder in [RECORDERS[0], RECORDERS[1], GROWING_FRAMES] {
        let folder = Folder::new("grows");
        let file = folder.path("grows.pcapng");
        fs::write(&file, "old").unwrap();
        // A capture that cannot begin replaces no file.
        for wrong in [["capture", "-i", "nosuch0"], ["capture", "-i", RECEIVER]] {
            let more: &[&str] = if wrong[2] == RECEIVER { &["-f", "remove the filter"] } else { &[] };
            let mut command = wire.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
            let ended = command.args(wrong).args(more).args(["-w", &file]).output().unwrap();
            assert_eq!(ended.status.code(), Some(2), "{ended:?}");
            assert_eq!(fs::read(&file).unwrap(), b"old");
        }
        let program = wire.capture(&[recorder, &["-w", &file]].concat());
        assert_eq!(frames(CaptureFrameSource::open([&file]).unwrap()).len(), 0, "the file is there with its header");
        wire.send("rxe-v42", |player| player.play(1, None));
        let begun = std::time::Instant::now();
        let mut seen = 0;
        // Any error but the end within a block fails.
        while seen < 1000 {
            assert!(begun.elapsed().as_secs() < 20, "{recorder:?}: {seen} frames");
            std::thread::sleep(std::time::Duration::from_millis(5));
            let now = whole_frames(&file);
            assert!(now >= seen, "{now} frames after {seen}");
            seen = now;
        }
        program.signal(Signal::SIGKILL);
        program.gone();
        assert!(whole_frames(&file) >= seen);
        assert_eq!(folder.files(), [Path::new(&file)], "nothing unfinished is left");
    }
}

/// A file size limit, equivalent to a full disk: a partial block at the end is truncated.
#[test]
fn a_file_that_can_grow_no_more_ends_with_a_whole_block() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("limit");
    let file = folder.path("limit.pcapng");
    let mut command = wire.command("sh");
    command.args(["-c", "ulimit -f 1200; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nfsrdma-inspect")]);
    command.args(RECORDERS[0]).args(["-w", &file]);
    let program = Capturing::start(command);
    wire.send("rxe-v42", |player| player.play(1, None));
    let (code, printed) = program.gone();
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("limit.pcapng: cannot write: file too large"), "{printed}");
    let frames = frames(CaptureFrameSource::open([&file]).unwrap());
    assert!(frames.len() > 50, "{} frames", frames.len());
    are_same(&frames, &sent("rxe-v42")[..frames.len()]);
    assert!(printed.contains(&format!("{RECEIVER}: {} packets, ", frames.len())), "{printed}");
    assert!(printed.contains(" packets could not be written, and were lost"), "{printed}");
}

/// A disk with room for the header of a file alone.
#[test]
fn a_recording_on_a_full_disk_replaces_no_file() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("full");
    let script = "mount -t tmpfs -o size=12k tmpfs . && cd \"$PWD\" && echo old > file || exit 99; \
        \"$@\"; code=$?; ls -A; cat file; exit $code";
    for recorder in RECORDERS {
        // It has a mount namespace of its own.
        let mut command = wire.command("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_nfsrdma-inspect")]);
        let ended = command.args(recorder).args(["-w", "file"]).current_dir(folder.path("")).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{errors}");
        assert!(errors.contains("file: cannot write: no space left on device"), "{errors}");
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "file\nold\n");
    }
}

#[test]
fn a_recording_does_not_follow_a_symbolic_link() {
    let Some(wire) = Wire::new() else { return };
    let folder = Folder::new("link");
    let (file, link) = (folder.path("file"), folder.path("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for recorder in RECORDERS {
        let mut command = wire.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        let ended = command.args(recorder).args(["-w", &link]).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }
}

#[test]
fn an_interface_that_goes_down_is_reported_on_standard_error_and_so_is_its_return() {
    let Some(wire) = Wire::new() else { return };
    for command in [&["-i", RECEIVER][..], &["capture", "-i", RECEIVER, "-w", "/dev/null"]] {
        let program = wire.capture(command);
        wire.set(RECEIVER, "down");
        thread::sleep(Duration::from_secs(1));
        wire.set(RECEIVER, "up");
        thread::sleep(Duration::from_secs(1));
        let (_, printed) = program.interrupt();
        let lines: Vec<_> = printed.lines().filter(|line| line.contains("the interface is")).collect();
        let expected = [
            "nfsrdma-inspect: nfs1: the interface is down; nothing is captured until it is up again",
            "nfsrdma-inspect: nfs1: the interface is up",
        ];
        assert_eq!((lines.first(), lines.last()), (Some(&expected[0]), Some(&expected[1])), "{printed}");
    }
}
