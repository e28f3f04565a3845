//! The whole analysis of capture files, with no view of it: every Transaction is put together and read.
//! `cargo run --release --example analyze -- FILE...`

use nfsrdma_dissectors::flow::{Flow, Limits};
use nfsrdma_inspect::source::Source;

#[derive(Default)]
struct Totals {
    frames: u64,
    transactions: u64,
    incomplete: u64,
    unread: u64,
}

fn main() -> anyhow::Result<()> {
    let mut source = Source::open(std::env::args_os().skip(1))?;
    let mut flow = Flow::new(Limits::default());
    let mut totals = Totals::default();
    loop {
        match source.next() {
            Ok(Some(frame)) => flow.frame(&frame),
            Ok(None) => break,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        totals.frames += 1;
        read(&mut flow, &mut totals);
    }
    flow.finish();
    read(&mut flow, &mut totals);
    let Totals { frames, transactions, incomplete, unread } = totals;
    println!(
        "{frames} frames, {transactions} Transactions: {incomplete} incomplete, {unread} not read to the end"
    );
    Ok(())
}

fn read(flow: &mut Flow, totals: &mut Totals) {
    while let Some(transaction) = flow.next_transaction() {
        let facts = transaction.read(|reading| reading.facts());
        totals.transactions += 1;
        totals.incomplete += u64::from(!transaction.missing().is_empty());
        totals.unread += u64::from(facts.call_error.is_some() || facts.reply_error.is_some());
    }
}
