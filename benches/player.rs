//! Sends the frames of a capture on an interface, as fast as possible or at a given rate.

use std::time::{Duration, Instant};

use nfsrdma_capture_file::CaptureFrameSource;
use pcap::{Active, Capture};

/// Player that reads the frames once and sends them repeatedly.
pub(crate) struct Player {
    frames: Vec<Vec<u8>>,
    to: Capture<Active>,
}

impl Player {
    /// Reads the frames, and opens an interface for sending.
    pub(crate) fn new(mut source: CaptureFrameSource, interface: &str) -> Self {
        let mut frames = Vec::new();
        while let Some(frame) = source.next().expect("the capture can be read") {
            frames.push(frame.bytes.to_vec());
        }
        let to = Capture::from_device(interface).expect("there is such an interface");
        // The filter drops everything that the interface would receive.
        let mut to = to.snaplen(64).buffer_size(64 << 10).open().expect("the interface can be opened");
        to.filter("less 1", true).expect("the filter is right");
        Self { frames, to }
    }

    /// Returns the number of frames.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Replaces each frame by the result of `change`.
    pub(crate) fn change(&mut self, change: impl Fn(&Vec<u8>) -> Vec<u8>) {
        self.frames = self.frames.iter().map(change).collect();
    }

    /// Sends some frames once.
    pub(crate) fn send(&mut self, range: std::ops::Range<usize>) {
        for frame in &self.frames[range] {
            send(&mut self.to, frame);
        }
    }

    /// Sends all frames `times` times, at `rate` frames per second if given; returns the elapsed time.
    pub(crate) fn play(&mut self, times: usize, rate: Option<f64>) -> Duration {
        let start = Instant::now();
        let mut sent = 0_u64;
        for _ in 0..times {
            for frame in &self.frames {
                if let Some(rate) = rate
                    && sent.is_multiple_of(16)
                {
                    let due = start + Duration::from_secs_f64(sent as f64 / rate);
                    while Instant::now() < due {
                        std::hint::spin_loop();
                    }
                }
                send(&mut self.to, frame);
                sent += 1;
            }
        }
        start.elapsed()
    }
}

fn send(to: &mut Capture<Active>, frame: &[u8]) {
    // The queue of the interface may be full at the moment.
    for _ in 0..1000 {
        if to.sendpacket(frame).is_ok() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the interface takes no frames");
}
