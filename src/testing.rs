//! What several rooms test with.

use std::path::Path;

use nfsrdma_dissectors::flow::{Flow, Limits, Transaction};
use nfsrdma_dissectors::frame::Frame;

use crate::source::Source;

fn read_if(name: &str, mut is_read: impl FnMut(&Frame<'_>) -> bool) -> Flow {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures").join(name);
    let mut source = Source::open([path]).unwrap();
    let mut flow = Flow::new(Limits::default());
    while let Some(frame) = source.next().unwrap() {
        if is_read(&frame) {
            flow.frame(&frame);
        }
    }
    flow.finish();
    flow
}

/// The flow when all of a capture of `captures/` has been read, but for one frame.
pub(crate) fn read_but(name: &str, lost: u64) -> Flow {
    read_if(name, |frame| frame.number.0 != lost)
}

/// The flow when all of a capture of `captures/` has been read, each of its frames shown to `see` before.
pub(crate) fn read_with(name: &str, mut see: impl FnMut(&Frame<'_>)) -> Flow {
    read_if(name, |frame| {
        see(frame);
        true
    })
}

/// The Transactions of a capture of `captures/`.
pub(crate) fn transactions(name: &str) -> Vec<Transaction> {
    let mut flow = read_if(name, |_| true);
    std::iter::from_fn(|| flow.next_transaction()).collect()
}
