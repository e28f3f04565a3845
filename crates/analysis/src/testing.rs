//! Helpers for the tests of several modules.

use std::path::{Path, PathBuf};

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

/// Returns the path of a capture of `captures/`.
pub(crate) fn path(name: &str) -> PathBuf {
    captures_directory().join(name)
}

/// Returns the flow after a capture of `captures/`, without the frames for which `pass` returns `None`.
fn read(name: &str, mut pass: impl for<'a> FnMut(Frame<'a>, &'a mut Vec<u8>) -> Option<Frame<'a>>) -> Flow {
    let mut source = CaptureFrameSource::open([path(name)]).unwrap();
    let mut flow = Flow::new(FlowLimits::default());
    let mut copy = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        if let Some(frame) = pass(frame, &mut copy) {
            flow.process_frame(&frame);
        }
    }
    flow.finish();
    flow
}

/// Returns the flow after a capture without one frame.
pub(crate) fn read_but(name: &str, lost_frame: u64) -> Flow {
    read(name, |frame, _| (frame.number.0 != lost_frame).then_some(frame))
}

/// Returns the flow after a capture, and calls `visit` with each frame before it.
pub(crate) fn read_with(name: &str, mut visit: impl FnMut(&Frame<'_>)) -> Flow {
    read(name, |frame, _| {
        visit(&frame);
        Some(frame)
    })
}

/// Returns the flow after a capture whose frames `damage` changes by number.
pub(crate) fn read_damaged(name: &str, mut damage: impl FnMut(u64, &mut [u8])) -> Flow {
    read(name, |frame, copy| {
        copy.clear();
        copy.extend_from_slice(frame.bytes);
        damage(frame.number.0, copy);
        Some(Frame { bytes: copy, ..frame })
    })
}

/// Returns the Transactions of a flow.
pub(crate) fn drained(mut flow: Flow) -> Vec<Transaction> {
    std::iter::from_fn(|| flow.next_transaction()).collect()
}

/// Returns the Transactions of a capture.
pub(crate) fn transactions(name: &str) -> Vec<Transaction> {
    drained(read_with(name, |_| {}))
}

/// Returns `captures/` of the workspace, in a test of any of its crates.
fn captures_directory() -> PathBuf {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut candidates = ancestors.map(|directory| directory.join("captures"));
    candidates.find(|directory| directory.is_dir()).unwrap()
}
