//! The final check of a run: it reads every file, and says so where it cannot.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use nfsrdma_inspect::replay::run::{Options, Order, Report, run};
use nfsrdma_inspect::replay::trace::Trace;
use nfsrdma_inspect::replay::transport::loopback::{Loopback, Settings};

use super::client::target;
use super::liars::Work;

/// Runs a trace against a server of these settings.
fn replayed(work: &Work, settings: Settings) -> Report {
    let open = || Trace::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
    let mut transport = Loopback::to(server, settings);
    let options = Options { order: Order::Conservative, shown: 1000, ..Options::default() };
    let target = target(20049);
    run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap()
}

/// A server that does as Linux does with a Call that offers both a Write chunk and a Reply chunk.
#[test]
fn no_call_of_the_check_offers_a_reply_chunk_beside_a_write_chunk() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v41", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "one-kind");
        let report = replayed(&work, Settings { refuses_both_chunks: true, ..Settings::default() });
        let walked = report.walked.as_ref().unwrap();
        assert_eq!((&walked.failed, walked.differing), (&None, 0), "{capture}: {:#?}", walked.mismatches);
        assert!(walked.bytes > 20_000, "{capture}: {} bytes were read", walked.bytes);
    }
}
