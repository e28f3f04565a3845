//! Tests of the views of real captures.

mod connections;
mod frames;
mod list;
mod tree;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

/// Opens a capture of `captures/`.
fn capture(name: &str) -> CaptureFrameSource {
    let path = format!("{}/captures/{name}", env!("CARGO_MANIFEST_DIR"));
    CaptureFrameSource::open([path]).unwrap()
}

/// Returns the Transactions of a capture, in the order in which they are emitted.
fn transactions(name: &str) -> Vec<Transaction> {
    let mut source = capture(name);
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    transactions
}
