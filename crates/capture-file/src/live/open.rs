//! Capture options, and opening of a capture with its errors.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};
use pcap::{Active, Capture, Linktype, Precision};

use super::capture_error::{capture_error, error_text};
use super::capture_thread::CaptureStartTimeAndInitialCounters;
use super::live_reader::{InterfaceControl, InterfaceReader, LiveReader};
use super::packet_queue::CapturedPacketQueue;
use super::{capabilities, capture_thread, filter};
use crate::error::{SourceError, SourceErrorKind, input_error};
use crate::frame_source::CaptureFrameSource;
use crate::pcapng::CaptureFileInterface;

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Name of the interface, as `-D` lists it.
    pub interface: String,
    /// Capture filter in the language of pcap-filter(7); `None` for [`filter::default_for`].
    pub filter: Option<String>,
    /// Maximum number of bytes captured per packet (snap length), from 1 to 262,144.
    pub snap_length_bytes: u32,
    /// Size of the kernel buffer, in bytes.
    pub buffer_bytes: u32,
    /// Size of the queue of packets to decode, in bytes.
    pub queue_bytes: usize,
    /// `true` to receive packets for other hosts too.
    pub promiscuous: bool,
    /// `true` if the kernel hands over each packet at once: up to 10 ms earlier, at a higher cost per packet.
    pub immediate: bool,
}

/// Maximum snap length of libpcap, in bytes.
pub const MAX_SNAP_LENGTH: u32 = 262_144;

/// Time for which the kernel collects packets before it hands them over, in milliseconds: imperceptible to a person,
/// and at most a hundred wakeups per second.
const KERNEL_TIMEOUT_MS: i32 = 10;

/// A filter that no packet passes.
const PASS_NOTHING_FILTER: &str = "less 0";

impl CaptureOptions {
    /// Returns the default options for an interface.
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            filter: None,
            snap_length_bytes: MAX_SNAP_LENGTH,
            buffer_bytes: 64 << 20,
            queue_bytes: 256 << 20,
            promiscuous: true,
            immediate: false,
        }
    }
}

/// An open capture: the kernel receives packets, but none are fetched yet.
pub struct OpenedLiveCapture {
    capture: Capture<Active>,
    interface: CaptureFileInterface,
    filter: Option<String>,
    start_point: CaptureStartTimeAndInitialCounters,
    queue_bytes: usize,
}

/// Opens a capture.
///
/// # Errors
/// Returns [`SourceErrorKind::Capture`] if the interface does not exist, privileges are missing or the filter is
/// invalid.
pub fn open(options: &CaptureOptions) -> Result<OpenedLiveCapture, SourceError> {
    let name = &options.interface;
    let mut capture = activate(options).map_err(|error| open_error(name, &error_text(&error)))?;
    // The newer version of cooked frames names the interface of each frame.
    let sll2 = Linktype(LinkType::LINUX_SLL2.0 as i32);
    if capture.get_datalink().0 == LinkType::LINUX_SLL.0 as i32
        && capture.list_datalinks().is_ok_and(|links| links.contains(&sll2))
    {
        // If this fails, frames have the older version.
        let _ = capture.set_datalink(sll2);
    }
    let link = link_type(capture.get_datalink());
    let filter = options.filter.clone().or_else(|| filter::default_for(link));
    let mut start = CaptureStartTimeAndInitialCounters::default();
    if let Some(filter) = &filter {
        start = install_empty_filter(&mut capture);
        capture.filter(filter, true).map_err(|error| input_error(name.clone(), filter_error(&error_text(&error))))?;
    }
    let mut interface =
        CaptureFileInterface::unnamed(link, options.snap_length_bytes).with_tick(capture_thread::NS_PER_UNIT as u64);
    interface.name.clone_from(name);
    Ok(OpenedLiveCapture { capture, interface, filter, start_point: start, queue_bytes: options.queue_bytes })
}

/// Sets a filter that passes nothing. A capture receives everything until its filter is set, so this separates the
/// packets received before, by count and by time, from those that pass the requested filter.
fn install_empty_filter(capture: &mut Capture<Active>) -> CaptureStartTimeAndInitialCounters {
    if capture.filter(PASS_NOTHING_FILTER, true).is_err() {
        return CaptureStartTimeAndInitialCounters::default();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start_time = Timestamp(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    CaptureStartTimeAndInitialCounters { kernel_counters: capture.stats().ok(), start_time }
}

fn activate(options: &CaptureOptions) -> Result<Capture<Active>, pcap::Error> {
    let inactive = |promiscuous: bool| -> Result<_, pcap::Error> {
        let bytes = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let capture = Capture::from_device(options.interface.as_str())?
            .snaplen(bytes(options.snap_length_bytes))
            .buffer_size(bytes(options.buffer_bytes))
            .promisc(promiscuous)
            .immediate_mode(options.immediate)
            .timeout(KERNEL_TIMEOUT_MS);
        Ok(if capture_thread::HAS_NANOSECONDS { capture.precision(Precision::Nano) } else { capture })
    };
    // libpcap reports missing promiscuous mode as a warning, which the crate turns into an error.
    let promiscuous = options.promiscuous && options.interface != "any";
    inactive(promiscuous)?.open().or_else(|error| match promiscuous {
        true if error_text(&error).to_lowercase().contains("promisc") => inactive(false)?.open(),
        _ => Err(error),
    })
}

impl OpenedLiveCapture {
    /// Returns the interface, including the link type of its frames.
    pub fn interface(&self) -> &CaptureFileInterface {
        &self.interface
    }

    /// Returns the capture filter, if any.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Starts to fetch packets of one interface.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(self) -> Result<CaptureFrameSource, SourceError> {
        start(vec![self])
    }

    fn into_reader(mut self) -> Result<InterfaceReader, SourceError> {
        let queue = Arc::new(CapturedPacketQueue::new(self.queue_bytes));
        let breaker = Arc::new(self.capture.breakloop_handle());
        let name = self.interface.name.clone();
        capture_thread::start(self.capture, self.start_point, Arc::clone(&queue)).map_err(|error| {
            let remedy = "end other programs, or raise the limit of processes";
            input_error(name, capture_error(format!("cannot start a thread: {error}"), remedy))
        })?;
        Ok(InterfaceReader::new(InterfaceControl { queue, breaker }, self.interface))
    }
}

/// Starts to fetch packets of several interfaces, which are merged by time.
///
/// # Errors
/// Returns an error if a thread cannot be started.
pub fn start(interfaces: Vec<OpenedLiveCapture>) -> Result<CaptureFrameSource, SourceError> {
    let readers: Result<_, _> = interfaces.into_iter().map(OpenedLiveCapture::into_reader).collect();
    Ok(CaptureFrameSource::from_live(LiveReader::new(readers?)))
}

/// Maps libpcap's link type numbers to those used in files.
fn link_type(link: Linktype) -> LinkType {
    match LinkType(u32::try_from(link.0).unwrap_or(u32::MAX)) {
        LinkType::RAW_BSD | LinkType::RAW_OPENBSD => LinkType::RAW,
        other => other,
    }
}

/// Returns the error for an interface that cannot be opened.
fn open_error(name: &str, reason: &str) -> SourceError {
    let is_present = !cfg!(target_os = "linux")
        || name == "any"
        || Path::new("/sys/class/net").join(name).exists()
        || !Path::new("/sys/class/net").exists();
    let lowercase = reason.to_lowercase();
    let kind = if lowercase.contains("no such device") || lowercase.contains("doesn't exist") {
        capture_error("no such interface", "list them with -D")
    } else if let Some(missing) = capabilities::missing_capability() {
        capture_error(format!("capturing needs the capability {missing}"), capabilities::remedy())
    } else if lowercase.contains("permission") || lowercase.contains("not permitted") {
        capture_error(format!("operation not permitted: {reason}"), capabilities::remedy())
    } else if lowercase.contains("not up") || lowercase.contains("is down") {
        capture_error("the interface is down", format!("bring it up: ip link set {name} up"))
    } else if !is_present {
        capture_error(format!("cannot capture: {reason}"), "list the interfaces with -D")
    } else {
        capture_error(format!("cannot capture: {reason}"), "see docs/capturing.md")
    };
    input_error(name.to_owned(), kind)
}

fn filter_error(reason: &str) -> SourceErrorKind {
    capture_error(format!("-f: {reason}"), "see man 7 pcap-filter; display filters go with -Y")
}
