//! Capturing as subcommands share it: the options, the rights that are given up, and what ends a capture.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_dissectors::frame::Timestamp;

use super::bytes::BytesArg;
use super::{PATIENCE, complain, progress};
use crate::interrupt::GracefulShutdown;
use crate::source::live::capabilities::{self, PrivilegeTarget};
use crate::source::live::open::MAX_SNAP_LENGTH;
use crate::source::live::{self, CaptureOptions, LinkWatch, LiveCapture, OpenedCapture};
use crate::source::{CaptureSource, Counters, LinkState};

const LIVE: &str = "Live capture";

/// How to capture.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Capture on this interface: Ethernet, 'any', or an RDMA device that libpcap supports (see -D)
    #[arg(short = 'i', long, value_name = "IFACE", value_hint = ValueHint::Other, help_heading = LIVE)]
    pub(super) interface: Option<String>,

    /// Capture filter in pcap-filter(7) syntax [default: RDMA, RPC, and tunnels that may carry them]
    ///
    /// The default matches RoCE, iWARP, NFS, rpcbind, RPC on any port, IP fragments and tunnels, with and without VLAN tags;
    /// docs/capturing.md shows it. -f '' captures all packets.
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

/// MiB that the kernel may hold, where `-B` says nothing.
const BUFFER_MIB: u32 = 64;
/// Bytes that may wait to be decoded, where `--max-queue-bytes` says nothing.
const QUEUE: BytesArg = BytesArg(256 << 20);

/// When to stop by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AutostopCondition {
    Duration(Duration),
    Packets(NonZeroU64),
    /// In units of 1,000 bytes.
    FileSize(NonZeroU64),
    Files(NonZeroU64),
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

impl LiveArgs {
    /// Refuses the options that act on a capture under way, for a command that reads files.
    ///
    /// # Errors
    /// The first such option that was given, why it has no effect on a file, and what to do.
    pub(super) fn refuse_for_files(&self) -> Result<()> {
        let given = [
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
            (
                self.immediate,
                "--immediate",
                "it configures the interface; -l prints each line of a pipe immediately",
            ),
            (self.max_queue_bytes.is_some(), "--max-queue-bytes", "no packets of a file are dropped"),
        ];
        match given.iter().find(|(is_given, ..)| *is_given) {
            Some((_, option, why)) => {
                bail!(
                    "{option} applies to live capture only: {why}; omit {option}, or name an interface with -i"
                )
            }
            None => Ok(()),
        }
    }

    /// Opens the capture on an interface.
    pub(super) fn open(&self, interface: &str) -> Result<OpenedCapture> {
        let snap_length = self.snapshot_length.filter(|bytes| *bytes > 0).unwrap_or(MAX_SNAP_LENGTH);
        let queue = self.max_queue_bytes.unwrap_or(QUEUE);
        let options = CaptureOptions {
            interface: interface.to_owned(),
            // A filter that is empty lets everything through.
            filter: self.capture_filter.clone(),
            snap_length_bytes: snap_length,
            buffer_bytes: self.buffer_size.unwrap_or(BUFFER_MIB) << 20,
            queue_bytes: usize::try_from(queue.0).unwrap_or(usize::MAX),
            promiscuous: !self.no_promiscuous_mode,
            immediate: self.immediate,
        };
        Ok(live::open(&options)?)
    }

    /// Gives up the rights that opening needed, and makes what is to be written: as the user that was chosen, or, where
    /// root did not choose one, as root and before it becomes nobody. `makes_files` says that files are made later, too.
    pub(super) fn give_up<T>(&self, makes_files: bool, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let target = capabilities::target(self.user.as_deref(), !makes_files);
        let give_up = || {
            if target == PrivilegeTarget::Root && self.user.is_none() {
                complain("root privileges are kept, to create more files; -Z USER drops them");
            }
            capabilities::drop_privileges(&target).map_err(|error| {
                anyhow!("-Z: cannot drop root privileges: {error}; name a user with -Z, or root to keep them")
            })
        };
        if capabilities::is_target_chosen(self.user.as_deref()) {
            give_up()?;
            make()
        } else {
            let made = make()?;
            give_up()?;
            Ok(made)
        }
    }

    /// Begins to capture, and says so, unless it is to be quiet.
    pub(super) fn start(
        &self,
        opened: OpenedCapture,
        is_quiet: bool,
    ) -> Result<(CaptureSource, LiveCaptureSession)> {
        let interrupted = GracefulShutdown::new()?;
        let name = opened.interface().name.clone();
        let source = opened.start()?;
        if !is_quiet {
            complain(format_args!("capturing on {name}; press Ctrl-C to stop"));
        }
        let live = source.live().ok_or_else(|| anyhow!("-i: nothing is captured"))?;
        let mut session = LiveCaptureSession {
            live,
            link: LinkWatch::new(&name),
            name,
            is_quiet,
            interrupted,
            is_stopped: false,
            until: None,
            packets: u64::MAX,
            seen: 0,
            last: Timestamp::default(),
            quiet_since: None,
        };
        for stop in &self.autostop {
            match stop {
                AutostopCondition::Duration(duration) => {
                    session.until = Instant::now().checked_add(*duration)
                }
                AutostopCondition::Packets(packets) => session.packets = packets.get(),
                AutostopCondition::FileSize(_) | AutostopCondition::Files(_) => {}
            }
        }
        Ok((source, session))
    }
}

/// A capture under way.
pub(super) struct LiveCaptureSession {
    live: LiveCapture,
    link: LinkWatch,
    name: String,
    /// Whether somebody else says what becomes of the interface.
    is_quiet: bool,
    interrupted: GracefulShutdown,
    is_stopped: bool,
    until: Option<Instant>,
    packets: u64,
    seen: u64,
    /// When the last frame was seen, by the clock that stamps frames.
    last: Timestamp,
    quiet_since: Option<Instant>,
}

impl LiveCaptureSession {
    /// Notes a frame; tells whether it is the last that is wanted.
    #[inline]
    pub(super) fn frame(&mut self, time: Timestamp) -> bool {
        self.last = time;
        self.quiet_since = None;
        self.seen += 1;
        if self.seen.is_multiple_of(1024) {
            self.check();
        }
        self.seen >= self.packets
    }

    /// Nothing came: what time it is now by the clock that stamps frames.
    pub(super) fn idle(&mut self) -> Timestamp {
        self.check();
        if let Some(state) = self.link.poll()
            && !self.is_quiet
        {
            progress::erase_line();
            complain(format_args!("{}: {state}", self.name));
        }
        let now = Instant::now();
        let since = self.quiet_since.get_or_insert(now - PATIENCE);
        let passed = i64::try_from(now.saturating_duration_since(*since).as_nanos()).unwrap_or(i64::MAX);
        Timestamp(self.last.0.saturating_add(passed))
    }

    /// Ends the capture when somebody wants it, or its time is over.
    fn check(&mut self) {
        let is_over = self.interrupted.is_asked() || self.until.is_some_and(|until| Instant::now() >= until);
        if is_over && !self.is_stopped {
            self.is_stopped = true;
            self.live.stop();
        }
    }

    /// The state of the interface, as far as it was looked at while nothing came.
    pub(super) fn link(&self) -> LinkState {
        self.link.state()
    }

    /// What was counted up to now.
    pub(super) fn counters(&self) -> Counters {
        self.live.counters()
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
        for wrong in
            ["", "duration", "duration:0", "duration:-1", "duration:x", "packets:0", "files:-1", "bytes:1"]
        {
            assert!(wrong.parse::<AutostopCondition>().is_err(), "{wrong}");
        }
    }
}
