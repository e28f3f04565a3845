//! What several rooms test with.

use std::path::{Path, PathBuf};

use nfsrdma_capture_file::CaptureSource;
use nfsrdma_dissectors::flow::{Flow, FlowLimits, Transaction};
use nfsrdma_dissectors::frame::Frame;

/// A capture of `captures/`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures").join(name)
}

/// The flow when all of a capture of `captures/` has been read, but for the frames that `pass` does not give back.
fn read(name: &str, mut pass: impl for<'a> FnMut(Frame<'a>, &'a mut Vec<u8>) -> Option<Frame<'a>>) -> Flow {
    let mut source = CaptureSource::open([path(name)]).unwrap();
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

/// The flow when all of a capture has been read, but for one frame.
pub(crate) fn read_but(name: &str, lost: u64) -> Flow {
    read(name, |frame, _| (frame.number.0 != lost).then_some(frame))
}

/// The flow when all of a capture has been read, each of its frames shown to `see` before.
pub(crate) fn read_with(name: &str, mut see: impl FnMut(&Frame<'_>)) -> Flow {
    read(name, |frame, _| {
        see(&frame);
        Some(frame)
    })
}

/// The flow when all of a capture has been read, and `damage` has changed the bytes of its frames by number.
pub(crate) fn read_damaged(name: &str, mut damage: impl FnMut(u64, &mut [u8])) -> Flow {
    read(name, |frame, copy| {
        copy.clear();
        copy.extend_from_slice(frame.bytes);
        damage(frame.number.0, copy);
        Some(Frame { bytes: copy, ..frame })
    })
}

/// What a flow has given.
pub(crate) fn drained(mut flow: Flow) -> Vec<Transaction> {
    std::iter::from_fn(|| flow.next_transaction()).collect()
}

/// The Transactions of a capture.
pub(crate) fn transactions(name: &str) -> Vec<Transaction> {
    drained(read_with(name, |_| {}))
}
