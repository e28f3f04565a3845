//! Captures that leave the directory: nothing above the replay's directory is accessed.

use std::fs;

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::program::{Passing, program};

/// Words and bytes of XDR.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let fill = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
    [&words(&[bytes.len() as u32])[..], bytes, &fill].concat()
}

/// Capture of Calls over UDP, each with its Reply.
#[derive(Default)]
struct Capture {
    frames: Vec<Vec<u8>>,
    xid: u32,
}

impl Capture {
    fn datagram(&mut self, [from, to]: [u8; 2], ports: [u16; 2], payload: &[u8]) {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
        let length = 28 + payload.len() as u16;
        frame.extend([0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
        ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame.extend((length - 20).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        self.frames.push(frame);
    }

    /// Adds an NFS Call as root, and its Reply.
    fn call(&mut self, version: u32, procedure: u32, arguments: &[u8], results: &[u8]) {
        self.xid += 1;
        let root = [words(&[1, 20, 0, 0, 0, 0, 0, 0, 0])].concat();
        let head = words(&[self.xid, 0, 2, 100_003, version, procedure]);
        self.datagram([2, 1], [700, 2049], &[&head, &root[..], arguments].concat());
        let head = words(&[self.xid, 1, 0, 0, 0, 0]);
        self.datagram([1, 2], [2049, 700], &[&head[..], results].concat());
    }

    /// Adds MNT of a path, and its Reply. RFC 1813 section 5.2.1.
    fn mounted(&mut self, path: &[u8], found: &[u8]) {
        self.xid += 1;
        let root = words(&[1, 20, 0, 0, 0, 0, 0, 0, 0]);
        let head = words(&[self.xid, 0, 2, 100_005, 3, 1]);
        self.datagram([2, 1], [700, 635], &[&head, &root[..], &opaque(path)].concat());
        let head = words(&[self.xid, 1, 0, 0, 0, 0]);
        self.datagram([1, 2], [635, 700], &[&head[..], found, &words(&[1, 1])].concat());
    }

    /// Adds a COMPOUND of NFSv4.0: of each operation its number, arguments, and results after NFS4_OK.
    fn compound(&mut self, operations: &[(u32, Vec<u8>, Vec<u8>)]) {
        let count = operations.len() as u32;
        let (mut call, mut reply) = (words(&[0, 0, count]), words(&[0, 0, count]));
        for (number, arguments, results) in operations {
            call.extend([&words(&[*number])[..], arguments].concat());
            reply.extend([&words(&[*number, 0])[..], results].concat());
        }
        self.call(4, 1, &call, &reply);
    }

    fn write(&self, path: &std::path::Path) {
        let mut bytes: Vec<u8> =
            [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 1].iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        for (at, frame) in self.frames.iter().enumerate() {
            let length = frame.len() as u32;
            bytes.extend(words(&[1_700_000_000, at as u32 * 1000, length, length]));
            bytes.extend(frame);
        }
        fs::write(path, bytes).unwrap();
    }
}

const HANDLES: [&[u8]; 4] = [&[b'F'; 28], &[b'P'; 28], &[b'Q'; 28], &[b'R'; 28]];

/// Returns a capture that removes a file several levels above a directory of unknown name. RFC 7530 sections 16.14 and
/// 16.25.
fn climbing_v4() -> Capture {
    let mut capture = Capture::default();
    let on = |handle: &[u8]| (22, opaque(handle), Vec::new());
    let is_directory = (9, words(&[1, 2]), [words(&[1, 2]), opaque(&words(&[2]))].concat());
    capture.compound(&[on(HANDLES[0]), is_directory]);
    for pair in HANDLES.windows(2) {
        capture.compound(&[on(pair[0]), (16, Vec::new(), Vec::new()), (10, Vec::new(), opaque(pair[1]))]);
    }
    capture.compound(&[on(HANDLES[3]), (28, opaque(b"victim"), words(&[1, 0, 1, 0, 2]))]);
    capture
}

/// Returns the same with the name `..`. RFC 1813 sections 3.3.3 and 3.3.12.
fn climbing_v3() -> Capture {
    let mut capture = Capture::default();
    for pair in HANDLES.windows(2) {
        let found = [words(&[0]), opaque(pair[1]), words(&[0, 0])].concat();
        capture.call(3, 3, &[opaque(pair[0]), opaque(b"..")].concat(), &found);
    }
    capture.call(3, 12, &[opaque(HANDLES[3]), opaque(b"victim")].concat(), &words(&[0, 0, 0]));
    capture
}

/// Returns a capture with names that lead out of the directory of MOUNT: RFC 1813 sections 3.3.8, 3.3.12, 3.3.14 and
/// 3.3.15.
fn naming_paths() -> Capture {
    let mut capture = Capture::default();
    let root = HANDLES[0];
    let found = [words(&[0]), opaque(root)].concat();
    capture.mounted(b"/export", &found);
    for path in [&b"../victim"[..], b"../../victim", b"../../../victim", b"../../../../victim"] {
        let at = |name| [opaque(root), opaque(name)].concat();
        // SYMLINK and LINK would create an object of the replay there; REMOVE and RENAME would remove one.
        capture.call(3, 12, &at(path), &words(&[0, 0, 0]));
        capture.call(3, 14, &[at(path), at(b"taken")].concat(), &words(&[0, 0, 0, 0, 0]));
        let unchecked = words(&[0, 1, 0o4755, 0, 0, 1, 0, 0, 0, 0]);
        capture.call(3, 8, &[at(path), unchecked].concat(), &words(&[0, 0, 0, 0, 0]));
    }
    capture
}

fn leaves_the_victim(name: &str, capture: &Capture, has_v3: bool, because: &str) {
    let Some(server) = Ganesha::start(has_v3) else { return };
    let (pcap, trace) = (Passing::new(&format!("{name}.pcap")), Passing::new(&format!("{name}.trace")));
    capture.write(&pcap.0);
    // The targets one, two, or three levels up.
    let export = server.export();
    for folder in [&export, export.parent().unwrap()] {
        fs::write(folder.join("victim"), "of somebody").unwrap();
    }
    let output = program(&["replay", "compile", "-q", pcap.name(), "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let url = match has_v3 {
        true => format!("tcp://localhost:{}{}?vers=3&mountport={}", server.port, export.display(), server.mount_port),
        false => format!("tcp://localhost:{}/export?vers=4.0", server.port),
    };
    let output = program(&["replay", "run", trace.name(), "--server", &url, "-T", "json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    let is_refused = |reason: &Json| reason["reason"].as_str().unwrap().starts_with(because);
    assert!(report["reasons"].as_array().unwrap().iter().any(is_refused), "{report:#}");
    for folder in [&export, export.parent().unwrap()] {
        assert_eq!(fs::read_to_string(folder.join("victim")).unwrap(), "of somebody", "{report:#}");
    }
}

#[test]
fn lookupp_from_an_object_without_a_name_is_not_sent() {
    leaves_the_victim("climbing-v4", &climbing_v4(), false, "outside-export");
}

#[test]
fn dot_dot_from_an_object_without_a_name_is_not_sent() {
    leaves_the_victim("climbing-v3", &climbing_v3(), true, "outside-export");
}

#[test]
fn a_name_that_is_a_path_is_not_sent() {
    leaves_the_victim("naming-paths", &naming_paths(), true, "unsafe-name");
}
