//! Every component that drops packets counts them, and the counts are correct.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::file_equality;
use super::veth_link::{RECEIVER, Wire};
use crate::program::number;

/// Options for all frames in little memory.
const NARROW: [&str; 11] = ["-i", RECEIVER, "-f", "", "-T", "json", "-B", "1", "--max-queue-bytes", "1", "-p"];

/// Received minus dropped by the kernel is captured; decoded plus dropped by the program is captured.
fn agree(counts: &serde_json::Value, lines: &[String]) {
    let count = |key: &str| number(counts, key);
    assert_eq!(count("received") - count("dropped_by_kernel"), count("captured"), "{counts}");
    assert_eq!(count("decoded") + count("dropped_by_program"), count("captured"), "{counts}");
    let summary: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(number(&summary, "frames"), count("decoded"));
    let lost = ["dropped_by_kernel", "dropped_by_interface", "dropped_by_program"].map(count);
    assert_eq!(number(&summary, "dropped"), lost.iter().sum::<u64>());
}

#[test]
fn packets_that_the_kernel_drops_are_counted() {
    let Some(wire) = Wire::new() else { return };
    let mut program = wire.capture(&NARROW);
    program.listen();
    program.signal(Signal::SIGSTOP);
    wire.send("rxe-v42", |player| player.play(5, None));
    program.signal(Signal::SIGCONT);
    let carried = wire.carried();
    let (lines, _) = program.interrupt();
    let counts = file_equality::capture(&lines);
    agree(&counts, &lines);
    assert_eq!(number(&counts, "received"), carried);
    assert!(number(&counts, "dropped_by_kernel") > 0, "{counts}");
}

#[test]
fn packets_that_the_program_drops_are_counted() {
    let Some(wire) = Wire::new() else { return };
    // Nobody reads the output, so that the program blocks when the pipe is full.
    let mut program = wire.capture(&NARROW);
    let until = Instant::now() + Duration::from_secs(60);
    wire.send("rxe-v42", |player| {
        // At a rate that capturing sustains, until more was sent than all buffers hold.
        for _ in 0..20 {
            player.play(1, Some(10_000.0));
            assert!(Instant::now() < until);
        }
    });
    sleep(Duration::from_millis(100));
    let carried = wire.carried();
    program.listen();
    let (lines, _) = program.interrupt();
    let counts = file_equality::capture(&lines);
    agree(&counts, &lines);
    assert_eq!(number(&counts, "received"), carried);
    assert!(number(&counts, "dropped_by_program") > 0, "{counts}");
}

#[test]
fn packets_captured_before_the_filter_was_set_do_not_count() {
    let Some(wire) = Wire::new() else { return };
    let is_over = AtomicBool::new(false);
    let (lines, sent) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            wire.send("rxe-v42", |player| {
                while !is_over.load(Ordering::Relaxed) {
                    player.play(1, Some(20_000.0));
                }
            });
        });
        while wire.carried() < 1_000 && !sending.is_finished() {
            sleep(Duration::from_millis(1));
        }
        // A filter that no packet passes.
        let program = wire.capture(&["-i", RECEIVER, "-f", "udp port 9", "-T", "json"]);
        sleep(Duration::from_millis(100));
        let (lines, _) = program.interrupt();
        is_over.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        (lines, wire.carried())
    });
    let counts = file_equality::capture(&lines);
    agree(&counts, &lines);
    assert_eq!(number(&counts, "received"), 0, "of {sent} packets: {counts}");
}
