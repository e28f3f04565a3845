//! Live capture with libpcap.
//!
//! Opening and starting are separate, so that the privileges needed to open can be dropped before packets are read:
//!
//! ```no_run
//! use std::time::Duration;
//! use nfsrdma_capture_file::live::{CaptureOptions, capabilities, open};
//! use nfsrdma_capture_file::NextFrame;
//!
//! let opened = open(&CaptureOptions::new("eth0"))?;
//! capabilities::drop_privileges(&capabilities::target(None, true))?;
//! let mut source = opened.start()?;
//! let live = source.live().ok_or("not live")?;
//! loop {
//!     match source.next_within(Duration::from_millis(20))? {
//!         NextFrame::Frame(frame) => println!("{} {}", frame.number, frame.time),
//!         // Time to draw, or to stop.
//!         NextFrame::Nothing if live.counters().received > 1000 => live.stop(),
//!         NextFrame::Nothing => {}
//!         NextFrame::End => break,
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The capture thread (`capture_thread`) only moves packets into bounded memory (`packet_queue`). A slow decoder loses
//! packets there and never causes drops in the kernel. [`LiveCaptureControl`] returns the numbers of received and
//! dropped packets, at any time and from any thread.

pub mod capabilities;
mod capture_error;
mod capture_thread;
pub mod devices;
pub mod filter;
#[allow(unsafe_code, reason = "a function of libpcap is called that the pcap crate does not bind")]
mod libpcap_version;
mod link_watch;
pub(crate) mod live_reader;
pub mod open;
mod packet_queue;

pub use libpcap_version::library_version;
pub use link_watch::CaptureInterfaceMonitor;
pub use live_reader::LiveCaptureControl;
pub use open::{CaptureOptions, OpenedLiveCapture, open, start};
