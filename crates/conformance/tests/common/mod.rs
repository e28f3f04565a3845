//! Real captures in memory.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_conformance::{ConformanceChecker, Finding, RuleTally};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::transaction::Transaction;
use nfsrdma_flow::{Flow, FlowLimits};

/// A frame in memory.
#[derive(Clone)]
pub(crate) struct StoredFrame {
    pub(crate) number: FrameNumber,
    pub(crate) time: Timestamp,
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u32,
}

impl StoredFrame {
    /// Returns the frame, cut to at most `snap_length` bytes.
    pub(crate) fn cut(&self, snap_length: usize) -> Frame<'_> {
        let StoredFrame { number, time, link, ref bytes, length } = *self;
        Frame { number, time, link, bytes: &bytes[..bytes.len().min(snap_length)], length }
    }

    /// Returns the frame as captured.
    pub(crate) fn whole(&self) -> Frame<'_> {
        self.cut(usize::MAX)
    }

    /// Corrects the checksum of a TCP segment in Ethernet and IPv4 after a change, as its sender would have: a receiver
    /// drops a segment with a wrong one. RFC 9293 section 3.1.
    pub(crate) fn seal(&mut self) {
        let bytes = &mut self.bytes;
        if bytes.get(12..14) != Some(&[8, 0]) || bytes.get(23) != Some(&6) {
            return;
        }
        let tcp = 14 + usize::from(bytes[14] & 0xf) * 4;
        let end = 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        bytes[tcp + 16..tcp + 18].fill(0);
        let pseudo_header = [&bytes[26..34], &[0, 6], &((end - tcp) as u16).to_be_bytes()].concat();
        let words = pseudo_header.chunks(2).chain(bytes[tcp..end].chunks(2));
        let mut sum: u32 = words.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[tcp + 16..tcp + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")
}

/// Returns the paths of all captures.
pub(crate) fn captures() -> Vec<PathBuf> {
    let is_capture = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".pcap") || name.ends_with(".pcap.gz")
    };
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<PathBuf> = paths.filter(is_capture).collect();
    captures.sort();
    assert!(captures.len() > 15, "{captures:?}");
    captures
}

/// Returns the frames of a capture.
pub(crate) fn frames(path: &Path) -> Vec<StoredFrame> {
    let mut source = CaptureFrameSource::open([path]).unwrap();
    let mut frames = Vec::new();
    while let Some(Frame { number, time, link, bytes, length }) = source.next().unwrap() {
        frames.push(StoredFrame { number, time, link, bytes: bytes.to_vec(), length });
    }
    frames
}

/// Returns the frames of the capture of this name.
pub(crate) fn frames_of(name: &str) -> Vec<StoredFrame> {
    frames(&folder().join(name))
}

/// Judges frames as the program does: each Transaction once it is complete. Returns the findings, and the judgements of
/// each rule.
pub(crate) fn judge<'a>(
    frames: impl Iterator<Item = Frame<'a>>,
    mut keep: impl FnMut(Transaction),
) -> (Vec<Finding>, Vec<(&'static str, RuleTally)>) {
    let mut flow = Flow::new(FlowLimits { record_transport_events: true, ..FlowLimits::default() });
    let mut checker = ConformanceChecker::new();
    let mut findings = Vec::new();
    let mut take = |flow: &mut Flow, checker: &mut ConformanceChecker| {
        checker.record_events(flow);
        while let Some((key, transaction)) = flow.next_with_key() {
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                findings.extend(checker.check_transaction(Some(key), &transaction, messages, &summary));
            });
            keep(*transaction);
        }
    };
    for frame in frames {
        flow.process_frame(&frame);
        take(&mut flow, &mut checker);
    }
    flow.finish();
    take(&mut flow, &mut checker);
    findings.extend(checker.finish());
    (findings, checker.tallies(&flow.transport_checks()).map(|(rule, tally)| (rule.id, tally)).collect())
}

/// Returns the offset of the only FPDU in a frame of Ethernet, IPv4 and TCP: a segment of version 1 of DDP. RFC 5044
/// section 4.1.
pub(crate) fn lone_fpdu(frame: &[u8]) -> Option<usize> {
    if frame.get(12..14)? != [8, 0] || frame[23] != 6 || frame.len() < 74 {
        return None;
    }
    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let at = 34 + usize::from(frame[46] >> 4) * 4;
    let length = usize::from(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let is_segment = *frame.get(at + 2)? & 0x3f == 1;
    (is_segment && at + (2 + length).next_multiple_of(4) + 4 == end).then_some(at)
}
