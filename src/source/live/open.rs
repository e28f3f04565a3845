//! How a capture begins: the options, and what is said when it cannot.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nfsrdma_dissectors::frame::{LinkType, Timestamp};
use pcap::{Active, Capture, Linktype, Precision};

use super::block_queue::BlockQueue;
use super::capture_thread::CaptureStart;
use super::{LiveCapture, LiveReader, capabilities, capture_thread, filter};
use crate::source::error::SourceErrorKind;
use crate::source::pcapng::Interface;
use crate::source::{CaptureSource, SourceError, unopened};

/// What to capture, and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Name of the interface, as `-D` lists it.
    pub interface: String,
    /// What is captured, in the language of pcap-filter(7); `None` for [`filter::default_for`].
    pub filter: Option<String>,
    /// Bytes that are kept of a packet, from 1 to 262,144.
    pub snap_length: u32,
    /// Bytes that the kernel may hold until they are fetched.
    pub buffer: u32,
    /// Bytes that may wait until they are decoded, as the queue takes them.
    pub queue: usize,
    /// Whether the interface shall receive what is not for this host, too.
    pub promiscuous: bool,
    /// Whether the kernel shall hand over each packet at once: 10 ms earlier, for more work a packet.
    pub immediate: bool,
}

/// The longest packet that libpcap gives.
pub const LONGEST: u32 = 262_144;

/// How long the kernel collects packets until it hands them over, in milliseconds: a person notices nothing of it, and a
/// machine has work a hundred times a second at most.
const COLLECTS: i32 = 10;

/// A filter that no packet passes.
const NOTHING: &str = "less 0";

impl CaptureOptions {
    /// The usual options.
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            filter: None,
            snap_length: LONGEST,
            buffer: 64 << 20,
            queue: 256 << 20,
            promiscuous: true,
            immediate: false,
        }
    }
}

/// A capture that is open: the kernel receives packets, and nobody fetches them yet.
pub struct OpenedCapture {
    capture: Capture<Active>,
    interface: Interface,
    filter: Option<String>,
    begin: CaptureStart,
    queue: usize,
}

/// Opens a capture.
///
/// # Errors
/// [`SourceErrorKind::Capture`]: there is no such interface, rights are missing, the filter makes no sense.
pub fn open(options: &CaptureOptions) -> Result<OpenedCapture, SourceError> {
    let name = &options.interface;
    let mut capture = activate(options).map_err(|error| refused(name, &text(&error)))?;
    // The newer form of cooked frames says which interface a frame was seen on.
    let sll2 = Linktype(LinkType::LINUX_SLL2.0 as i32);
    if capture.get_datalink().0 == LinkType::LINUX_SLL.0 as i32
        && capture.list_datalinks().is_ok_and(|links| links.contains(&sll2))
    {
        // Where this fails, frames have the older form.
        let _ = capture.set_datalink(sll2);
    }
    let link = link_type(capture.get_datalink());
    let filter = options.filter.clone().or_else(|| filter::default_for(link));
    let mut begin = CaptureStart::default();
    if let Some(filter) = &filter {
        begin = begin_filtered(&mut capture);
        capture.filter(filter, true).map_err(|error| unopened(name.clone(), bad_filter(&text(&error))))?;
    }
    let mut interface = Interface::unnamed(link, options.snap_length).ticking(capture_thread::UNIT as u64);
    interface.name.clone_from(name);
    Ok(OpenedCapture { capture, interface, filter, begin, queue: options.queue })
}

/// A capture receives everything until its filter stands. First one that lets nothing through is set, so that what was received
/// up to then can be told, by count and by time, from what passes the filter that was asked for.
fn begin_filtered(capture: &mut Capture<Active>) -> CaptureStart {
    if capture.filter(NOTHING, true).is_err() {
        return CaptureStart::default();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = Timestamp(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    CaptureStart { counted: capture.stats().ok(), since }
}

fn activate(options: &CaptureOptions) -> Result<Capture<Active>, pcap::Error> {
    let inactive = |promiscuous: bool| -> Result<_, pcap::Error> {
        let bytes = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let capture = Capture::from_device(options.interface.as_str())?
            .snaplen(bytes(options.snap_length))
            .buffer_size(bytes(options.buffer))
            .promisc(promiscuous)
            .immediate_mode(options.immediate)
            .timeout(COLLECTS);
        Ok(if capture_thread::NANOSECONDS { capture.precision(Precision::Nano) } else { capture })
    };
    // No promiscuous mode is a warning of libpcap, which the crate takes for an error.
    let promiscuous = options.promiscuous && options.interface != "any";
    inactive(promiscuous)?.open().or_else(|error| match promiscuous {
        true if text(&error).to_lowercase().contains("promisc") => inactive(false)?.open(),
        _ => Err(error),
    })
}

impl OpenedCapture {
    /// The interface, with the link type of its frames.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The capture filter, if there is one.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Begins to fetch packets.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(mut self) -> Result<CaptureSource, SourceError> {
        let ring = Arc::new(BlockQueue::new(self.queue));
        let breaker = Arc::new(self.capture.breakloop_handle());
        let name = self.interface.name.clone();
        capture_thread::start(self.capture, self.begin, Arc::clone(&ring)).map_err(|error| {
            let remedy = "end other programs, or raise the limit of processes";
            unopened(name, capture(format!("cannot start a thread: {error}"), remedy))
        })?;
        Ok(CaptureSource::of_live(LiveReader::new(LiveCapture { ring, breaker }, self.interface)))
    }
}

/// What a file calls a link type that libpcap has another number for.
fn link_type(link: Linktype) -> LinkType {
    match LinkType(u32::try_from(link.0).unwrap_or(u32::MAX)) {
        LinkType::RAW_BSD | LinkType::RAW_OPENBSD => LinkType::RAW,
        other => other,
    }
}

/// What libpcap says.
pub(super) fn text(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

fn capture(what: impl Into<String>, remedy: impl Into<String>) -> SourceErrorKind {
    SourceErrorKind::Capture { what: what.into(), remedy: remedy.into() }
}

/// Why an interface cannot be opened.
fn refused(name: &str, why: &str) -> SourceError {
    let is_there = !cfg!(target_os = "linux")
        || name == "any"
        || Path::new("/sys/class/net").join(name).exists()
        || !Path::new("/sys/class/net").exists();
    let lower = why.to_lowercase();
    let kind = if lower.contains("no such device") || lower.contains("doesn't exist") {
        capture("there is no such interface to capture on", "list them with -D")
    } else if let Some(missing) = capabilities::missing() {
        capture(format!("capturing needs the capability {missing}"), capabilities::remedy())
    } else if lower.contains("permission") || lower.contains("not permitted") {
        capture(format!("the system does not permit to capture: {why}"), capabilities::remedy())
    } else if lower.contains("not up") || lower.contains("is down") {
        capture("the interface is down", format!("bring it up: ip link set {name} up"))
    } else if !is_there {
        capture(format!("cannot capture: {why}"), "list the interfaces with -D")
    } else {
        capture(format!("cannot capture: {why}"), "see docs/capturing.md")
    };
    unopened(name.to_owned(), kind)
}

fn bad_filter(why: &str) -> SourceErrorKind {
    capture(format!("-f: {why}"), "see man 7 pcap-filter; display filters go with -Y")
}

/// Why a capture ended by itself.
pub(super) fn broken(why: &str) -> SourceErrorKind {
    capture(
        format!("the capture ended: {why}"),
        "frames before it are valid; capture again when the interface is up",
    )
}
