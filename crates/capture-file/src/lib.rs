//! Reading and writing of capture files.
//!
//! A [`CaptureFrameSource`] returns the frames of one or more capture files, or of standard input, in order:
//!
//! ```no_run
//! use nfsrdma_capture_file::CaptureFrameSource;
//!
//! let mut source = CaptureFrameSource::open(["ring_00001.pcapng.zst", "ring_00002.pcapng.zst"])?;
//! loop {
//!     match source.next() {
//!         Ok(Some(frame)) => println!("{} {} {} bytes", frame.number, frame.time, frame.bytes.len()),
//!         Ok(None) => break,
//!         // Reading continues with the other files.
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok::<(), nfsrdma_capture_file::SourceError>(())
//! ```
//!
//! With the feature `live`, a source can also be a network interface: see `live`.
//!
//! A [`PcapngWriter`] writes frames with their interfaces and comments.
//!
//! The formats that are read are pcap and pcapng, plain or compressed with gzip or zstd, detected from the bytes and
//! not from the name.
//!
//! The bytes pass through `compression` -> `buffer` -> `format` (`pcap` or `pcapng`) -> `reader` (one file) -> `merge`.
//! A frame is borrowed from the buffer of its file: nothing is copied or allocated for it. The memory per file is a
//! buffer, which grows with the longest record to at most 16 MiB, and the memory of the decompressor.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make their own files"))]

mod buffer;
mod byte_order;
mod compression;
mod error;
mod format;
mod frame_source;
mod gzip;
mod interface_link_state;
#[cfg(feature = "live")]
pub mod live;
mod live_capture_counters;
mod merge;
mod pcap;
mod pcapng;
mod pcapng_writer;
mod raw_compressed_input;
mod reader;
mod resume_point;
#[cfg(test)]
mod testing;
mod timestamp_resolution;
mod zstd;
mod zstd_window_memory;

pub use error::{SourceError, SourceErrorKind};
pub use frame_source::{CaptureFrameSource, NextFrame, ReadProgress};
pub use interface_link_state::CaptureInterfaceLinkState;
pub use live_capture_counters::CapturePacketCounters;
pub use pcapng::CaptureFileInterface;
pub use pcapng_writer::{InterfaceId, InterfaceStatistics, PcapngWriter};
pub use resume_point::CaptureResumePoint;
pub use zstd::is_zstd_frame;
pub use zstd_window_memory::{ZstdMemoryShareSettings, ZstdWindowBudget};
