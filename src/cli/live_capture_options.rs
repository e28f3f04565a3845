//! Live capture for the subcommands: options, dropping of privileges, and stop conditions.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_capture_file::live::capabilities::{self, PrivilegeDropTarget};
use nfsrdma_capture_file::live::open::MAX_SNAP_LENGTH;
use nfsrdma_capture_file::live::{
    self, CaptureInterfaceMonitor, CaptureOptions, LiveCaptureControl, OpenedLiveCapture,
};
use nfsrdma_capture_file::{CaptureFrameSource, CaptureInterfaceLinkState, CapturePacketCounters};
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::bytes::BytesArg;
use super::option_values::reject_repeated;
use super::progress;
use super::read_stop_condition::ReadStopCondition;
use super::standard_streams::{SOURCE_WAIT, report_error};
use crate::interrupt::ShutdownSignalRegistration;

const LIVE: &str = "Live capture";

/// How to capture.
#[derive(Debug, Args)]
pub(super) struct LiveCaptureOptionArgs {
    /// Capture on this interface: Ethernet, 'any', or an RDMA device that libpcap supports (see -D); can be repeated
    ///
    /// The packets of several interfaces are merged by time. -a and --max-queue-bytes apply to all of
    /// them together, the other options to each.
    #[arg(short = 'i', long, value_name = "IFACE", value_hint = ValueHint::Other, help_heading = LIVE)]
    pub(super) interface: Vec<String>,

    /// Capture filter in pcap-filter(7) syntax [default: RDMA, RPC, and tunnels that may carry them]
    ///
    /// The default matches RoCE, iWARP, NFS, rpcbind, RPC on any port, IP fragments and tunnels, with and without VLAN
    /// tags; docs/capturing.md shows it. -f '' captures all packets.
    #[arg(short = 'f', long, value_name = "FILTER", help_heading = LIVE)]
    capture_filter: Option<String>,

    /// Snapshot length in bytes [default: 262144]
    #[arg(short = 's', long, value_name = "BYTES", help_heading = LIVE, hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_SNAP_LENGTH)))]
    snapshot_length: Option<u32>,

    /// Kernel buffer size in MiB [default: 64]
    #[arg(short = 'B', long, value_name = "MIB", help_heading = LIVE, hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(1..=2047))]
    buffer_size: Option<u32>,

    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, help_heading = LIVE, hide_short_help = true)]
    no_promiscuous_mode: bool,

    /// Deliver each packet immediately: up to 10 ms earlier, at a higher cost per packet
    #[arg(long, help_heading = LIVE, hide_short_help = true)]
    immediate: bool,

    /// Stop condition: duration:SECONDS or packets:COUNT; for 'capture' also filesize:KB and files:COUNT
    #[arg(short = 'a', long, value_name = "CONDITION", help_heading = LIVE)]
    pub(super) autostop: Vec<AutostopCondition>,

    /// When run as root, change to this user after opening the interface [default: the sudo user, else nobody]
    #[arg(short = 'Z', long, value_name = "USER", value_hint = ValueHint::Username, help_heading = LIVE,
        hide_short_help = true)]
    user: Option<String>,

    /// Memory for packets that wait to be decoded or written; further packets are dropped and counted [default: 256M]
    #[arg(long, value_name = "BYTES", help_heading = LIVE, hide_short_help = true)]
    max_queue_bytes: Option<BytesArg>,
}

/// Default size of the kernel's buffer in MiB (`-B`).
const DEFAULT_BUFFER_MIB: u32 = 64;
/// Default limit of the queue of undecoded packets (`--max-queue-bytes`).
const DEFAULT_QUEUE_BYTES: BytesArg = BytesArg(256 << 20);

/// Condition that ends a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AutostopCondition {
    Duration(Duration),
    Packets(NonZeroU64),
    /// File size in units of 1,000 bytes.
    FileSize(NonZeroU64),
    Files(NonZeroU64),
}

impl AutostopCondition {
    fn name(&self) -> &'static str {
        match self {
            Self::Duration(_) => "duration",
            Self::Packets(_) => "packets",
            Self::FileSize(_) => "filesize",
            Self::Files(_) => "files",
        }
    }
}

impl FromStr for AutostopCondition {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHAT: &str = "give duration:SECONDS, packets:COUNT, filesize:KB or files:COUNT";
        let (name, value) = text.split_once(':').ok_or(WHAT)?;
        let number = || value.parse().map_err(|_| WHAT);
        Ok(match name {
            "duration" => {
                let seconds = value.parse::<f64>().ok().filter(|seconds| *seconds > 0.0).ok_or(WHAT)?;
                Self::Duration(Duration::try_from_secs_f64(seconds).map_err(|_| WHAT)?)
            }
            "packets" => Self::Packets(number()?),
            "filesize" => Self::FileSize(number()?),
            "files" => Self::Files(number()?),
            _ => return Err(WHAT),
        })
    }
}

impl LiveCaptureOptionArgs {
    /// Refuses options of live captures for a command that reads files.
    ///
    /// # Errors
    /// Returns an error with the first such option, the reason why it does not apply to files, and the remedy.
    pub(super) fn reject_for_files(&self) -> Result<()> {
        let live_options = [
            (self.capture_filter.is_some(), "-f", "the kernel applies it; filter a file with -Y"),
            (
                self.snapshot_length.is_some(),
                "-s",
                "the kernel truncates packets; those of a file are already captured",
            ),
            (self.no_promiscuous_mode, "-p", "it configures the interface"),
            (!self.autostop.is_empty(), "-a", "use -c COUNT to stop after COUNT lines of a file"),
            (self.buffer_size.is_some(), "-B", "it sizes the kernel's buffer"),
            (self.user.is_some(), "-Z", "reading a file needs no privileges, and none are dropped"),
            (self.immediate, "--immediate", "it configures the interface; -l prints each line of a pipe immediately"),
            (self.max_queue_bytes.is_some(), "--max-queue-bytes", "no packets of a file are dropped"),
        ];
        match live_options.iter().find(|(is_given, ..)| *is_given) {
            Some((_, option, reason)) => {
                bail!("{option} applies to live capture only: {reason}; omit {option}, or name an interface with -i")
            }
            None => Ok(()),
        }
    }

    /// Refuses a stop condition that is given twice: only one of both could apply.
    ///
    /// # Errors
    /// Returns an error that names the condition.
    pub(super) fn reject_repeated_conditions(&self) -> Result<()> {
        reject_repeated("-a", self.autostop.iter().map(|stop| stop.name()))
    }

    /// Refuses the conditions of files for a command that writes none.
    pub(super) fn reject_file_conditions(&self) -> Result<()> {
        let is_of_files =
            |stop: &AutostopCondition| matches!(stop, AutostopCondition::FileSize(_) | AutostopCondition::Files(_));
        self.reject_repeated_conditions()?;
        if self.autostop.iter().any(is_of_files) {
            bail!("-a filesize: and files: apply to 'capture' only; use duration:SECONDS or packets:COUNT");
        }
        Ok(())
    }

    /// Returns the names of the interfaces for messages.
    pub(super) fn interface_names(&self) -> String {
        join_names(&self.interface)
    }

    /// Opens the interfaces.
    ///
    /// # Errors
    /// Returns an error if one cannot be opened, or is named twice.
    pub(super) fn open(&self) -> Result<Vec<OpenedLiveCapture>> {
        let is_repeated =
            |at: &usize| self.interface.iter().skip(at + 1).any(|other| self.interface.get(*at) == Some(other));
        if let Some(twice) = (0..self.interface.len()).find(is_repeated).and_then(|at| self.interface.get(at)) {
            bail!("-i {twice}: named twice; name each interface once");
        }
        if self.interface.len() > 1 && self.interface.iter().any(|name| name == "any") {
            bail!("-i any: it includes the other interfaces; name it alone");
        }
        let snap_length = self.snapshot_length.filter(|bytes| *bytes > 0).unwrap_or(MAX_SNAP_LENGTH);
        let queue = self.max_queue_bytes.unwrap_or(DEFAULT_QUEUE_BYTES);
        let opened = self.interface.iter().map(|interface| {
            let options = CaptureOptions {
                interface: interface.clone(),
                // An empty filter accepts everything.
                filter: self.capture_filter.clone(),
                snap_length_bytes: snap_length,
                buffer_bytes: self.buffer_size.unwrap_or(DEFAULT_BUFFER_MIB) << 20,
                queue_bytes: usize::try_from(queue.0).unwrap_or(usize::MAX) / self.interface.len(),
                promiscuous: !self.no_promiscuous_mode,
                immediate: self.immediate,
            };
            Ok(live::open(&options)?)
        });
        opened.collect()
    }

    /// Drops the privileges needed for opening, and calls `make` to create the output: as the selected user, or, if
    /// root selected none, as root before it becomes nobody. `makes_files` is `true` if files are created later, too.
    pub(super) fn drop_privileges<T>(&self, makes_files: bool, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let target = capabilities::target(self.user.as_deref(), !makes_files);
        let give_up = || {
            if target == PrivilegeDropTarget::Root && self.user.is_none() {
                report_error("root privileges are kept, to create more files; -Z USER drops them");
            }
            capabilities::drop_privileges(&target).map_err(|error| {
                anyhow!("-Z: cannot drop root privileges: {error}; name a user with -Z, or root to keep them")
            })
        };
        if capabilities::is_target_chosen(self.user.as_deref()) {
            give_up()?;
            make()
        } else {
            let result = make()?;
            give_up()?;
            Ok(result)
        }
    }

    /// Starts the capture, and reports it unless `is_quiet`.
    pub(super) fn start(
        &self,
        opened: Vec<OpenedLiveCapture>,
        is_quiet: bool,
    ) -> Result<(CaptureFrameSource, LiveCaptureSession)> {
        let interrupted = ShutdownSignalRegistration::new()?;
        let names = opened.iter().map(|opened| opened.interface().name.clone());
        let links = names.map(|name| (CaptureInterfaceMonitor::new(&name), name)).collect();
        let source = live::start(opened)?;
        if !is_quiet {
            report_error(format_args!("capturing on {}; press Ctrl-C to stop", self.interface_names()));
        }
        let live = source.live().ok_or_else(|| anyhow!("-i: nothing is captured"))?;
        let mut session = LiveCaptureSession {
            live,
            links,
            is_quiet,
            interrupted,
            is_stopped: false,
            deadline: None,
            packets: u64::MAX,
            packets_seen: 0,
            last_frame_time: Timestamp::default(),
            idle_since: None,
        };
        for stop in &self.autostop {
            match stop {
                AutostopCondition::Duration(duration) => session.deadline = Instant::now().checked_add(*duration),
                AutostopCondition::Packets(packets) => session.packets = packets.get(),
                AutostopCondition::FileSize(_) | AutostopCondition::Files(_) => {}
            }
        }
        Ok((source, session))
    }
}

/// Running capture.
pub(super) struct LiveCaptureSession {
    live: LiveCaptureControl,
    /// State and name of each interface.
    links: Vec<(CaptureInterfaceMonitor, String)>,
    /// `true` if the caller reports changes of the interface.
    is_quiet: bool,
    interrupted: ShutdownSignalRegistration,
    is_stopped: bool,
    deadline: Option<Instant>,
    packets: u64,
    packets_seen: u64,
    /// Time of the last frame, on the clock of the frames.
    last_frame_time: Timestamp,
    idle_since: Option<Instant>,
}

impl ReadStopCondition for LiveCaptureSession {
    #[inline]
    fn frame(&mut self, time: Timestamp) -> bool {
        self.last_frame_time = time;
        self.idle_since = None;
        self.packets_seen += 1;
        if self.packets_seen.is_multiple_of(1024) {
            self.stop_if_due();
        }
        self.packets_seen >= self.packets
    }

    fn idle(&mut self) -> Timestamp {
        self.stop_if_due();
        for (link, name) in &mut self.links {
            if let Some(state) = link.poll()
                && !self.is_quiet
            {
                progress::erase_line();
                report_error(format_args!("{name}: {state}"));
            }
        }
        let now = Instant::now();
        let idle_since = self.idle_since.get_or_insert(now - SOURCE_WAIT);
        let idle_ns = i64::try_from(now.saturating_duration_since(*idle_since).as_nanos()).unwrap_or(i64::MAX);
        Timestamp(self.last_frame_time.0.saturating_add(idle_ns))
    }
}

impl LiveCaptureSession {
    /// Ends the capture on request or at its time limit.
    fn stop_if_due(&mut self) {
        let is_over =
            self.interrupted.is_requested() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_over && !self.is_stopped {
            self.is_stopped = true;
            self.live.stop();
        }
    }

    /// Returns the state of the interfaces as of the last check, which is made while no frame arrives: of the first
    /// that does not work, if any.
    pub(super) fn link(&self) -> CaptureInterfaceLinkState {
        let mut states = self.links.iter().map(|(link, _)| link.state());
        states.find(|state| *state != CaptureInterfaceLinkState::Up).unwrap_or(CaptureInterfaceLinkState::Up)
    }

    pub(super) fn counters(&self) -> CapturePacketCounters {
        self.live.counters()
    }

    /// Returns the counters of each interface, in the order in which they were named.
    pub(super) fn counters_by_interface(&self) -> Vec<CapturePacketCounters> {
        self.live.counters_by_interface().collect()
    }
}

/// Joins names as a sentence does: `eth0, eth1 and eth2`.
fn join_names(names: &[String]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_tshark() {
        let some = |count| NonZeroU64::new(count).unwrap();
        assert_eq!("duration:1.5".parse(), Ok(AutostopCondition::Duration(Duration::from_millis(1500))));
        assert_eq!("packets:7".parse(), Ok(AutostopCondition::Packets(some(7))));
        assert_eq!("filesize:1000".parse(), Ok(AutostopCondition::FileSize(some(1000))));
        assert_eq!("files:3".parse(), Ok(AutostopCondition::Files(some(3))));
        for wrong in ["", "duration", "duration:0", "duration:-1", "duration:x", "packets:0", "files:-1", "bytes:1"] {
            assert!(wrong.parse::<AutostopCondition>().is_err(), "{wrong}");
        }
    }
}
