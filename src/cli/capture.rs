//! `capture`: records the packets of an interface to files.

use std::io::{self, IsTerminal};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use nfsrdma_capture_file::live::OpenedLiveCapture;
use nfsrdma_capture_file::{CapturePacketCounters, NextFrame};
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_output_file::{OutputError, is_standard_output};

use super::exit_status::ExitStatus;
use super::live_capture_options::{AutostopCondition, LiveCaptureOptionArgs};
use super::option_values::reject_repeated;
use super::progress::ProgressLine;
use super::read_stop_condition::ReadStopCondition;
use super::standard_streams::{SOURCE_WAIT, is_closed_pipe, report_error};
use crate::interrupt;
use crate::output::live_capture_writer::{CaptureFileDestination, CaptureFileRotation, LiveCaptureFileWriter};
use crate::output::units;

/// Record packets from an interface as pcapng
///
/// Packets are not decoded, so recording keeps up at rates where live display cannot. Each file ends with received and
/// dropped packet counts. docs/capturing.md shows how to capture RDMA traffic.
#[derive(Debug, Args)]
pub(super) struct CaptureCommandArgs {
    #[command(flatten)]
    live: LiveCaptureOptionArgs,

    /// Write to FILE; '-' is standard output
    ///
    /// The file is created, and replaces an existing one, as soon as the interface is open. It can be read while it
    /// grows.
    #[arg(short = 'w', long, value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    write: PathBuf,

    /// Stop after COUNT packets
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<NonZeroU64>,

    /// Switch files, as in tshark: filesize:KB, duration:SECONDS, packets:COUNT, interval:SECONDS; files:COUNT keeps
    /// the latest
    ///
    /// A KB is 1,000 bytes; interval switches at multiples of SECONDS in wall-clock time. Files are named
    /// FILE_00001_20260101120000.pcapng, with the time in UTC.
    #[arg(short = 'b', long, value_name = "CONDITION")]
    ring_buffer: Vec<RingBufferOption>,

    /// Report only errors
    #[arg(short = 'q', long)]
    quiet: bool,
}

/// Option of `-b`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RingBufferOption {
    FileSize(NonZeroU64),
    Duration(NonZeroU64),
    Packets(NonZeroU64),
    Interval(NonZeroU64),
    Files(NonZeroU64),
}

impl RingBufferOption {
    fn name(&self) -> &'static str {
        match self {
            Self::FileSize(_) => "filesize",
            Self::Duration(_) => "duration",
            Self::Packets(_) => "packets",
            Self::Interval(_) => "interval",
            Self::Files(_) => "files",
        }
    }
}

impl FromStr for RingBufferOption {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHAT: &str = "give filesize:KB, duration:SECONDS, packets:COUNT, interval:SECONDS or files:COUNT";
        let (name, value) = text.split_once(':').ok_or(WHAT)?;
        let value = value.parse().map_err(|_| WHAT)?;
        Ok(match name {
            "filesize" => Self::FileSize(value),
            "duration" => Self::Duration(value),
            "packets" => Self::Packets(value),
            "interval" => Self::Interval(value),
            "files" => Self::Files(value),
            _ => return Err(WHAT),
        })
    }
}

/// Converts KB, units of 1,000 bytes, to bytes.
fn bytes(kb: NonZeroU64) -> NonZeroU64 {
    NonZeroU64::new(kb.get().saturating_mul(1000)).unwrap_or(kb)
}

impl CaptureCommandArgs {
    /// Returns the conditions that end a file; `None` for a single file.
    fn rotation(&self) -> Result<Option<CaptureFileRotation>> {
        reject_repeated("-b", self.ring_buffer.iter().map(|option| option.name()))?;
        let mut rotation = CaptureFileRotation::default();
        for option in &self.ring_buffer {
            match *option {
                RingBufferOption::FileSize(kb) => rotation.bytes = Some(bytes(kb)),
                RingBufferOption::Duration(seconds) => rotation.seconds = Some(seconds),
                RingBufferOption::Packets(packets) => rotation.packets = Some(packets),
                RingBufferOption::Interval(seconds) => rotation.interval = Some(seconds),
                RingBufferOption::Files(files) => rotation.files = Some(files),
            }
        }
        if self.ring_buffer.is_empty() {
            return Ok(None);
        }
        // With several files, the size that ends a single one begins the next (tshark).
        rotation.bytes = rotation.bytes.or(self.max_file_bytes());
        if !rotation.has_condition() {
            bail!(
                "-b files: needs a switch condition; add -b filesize:KB, duration:SECONDS, packets:COUNT or interval:SECONDS"
            );
        }
        Ok(Some(rotation))
    }

    fn max_file_bytes(&self) -> Option<NonZeroU64> {
        self.live.autostop.iter().find_map(|stop| match stop {
            AutostopCondition::FileSize(kb) => Some(bytes(*kb)),
            _ => None,
        })
    }

    fn max_files(&self) -> Option<NonZeroU64> {
        self.live.autostop.iter().find_map(|stop| match stop {
            AutostopCondition::Files(files) => Some(*files),
            _ => None,
        })
    }

    fn target(&self, rotation: Option<CaptureFileRotation>) -> Result<CaptureFileDestination> {
        let is_standard_output = is_standard_output(&self.write);
        Ok(match rotation {
            Some(_) if is_standard_output => {
                bail!("-w -: -b cannot switch files on standard output; name a file with -w, or omit -b")
            }
            Some(rotation) => CaptureFileDestination::Files(self.write.clone(), rotation),
            None if is_standard_output && io::stdout().is_terminal() => {
                bail!("-w -: standard output is a terminal; name a file, or pipe to another program")
            }
            None => CaptureFileDestination::File(self.write.clone()),
        })
    }
}

pub(super) fn run(args: &CaptureCommandArgs) -> Result<ExitStatus> {
    if args.live.interface.is_empty() {
        bail!("no interface given; name one with -i; -D lists them");
    }
    args.live.reject_repeated_conditions()?;
    let rotation = args.rotation()?;
    if args.max_files().is_some() && rotation.is_none() {
        bail!("-a files: needs several files; add a switch condition with -b");
    }
    let target = args.target(rotation)?;
    let opened = args.live.open()?;
    let interface = args.live.interface_names();
    interrupt::catch()?;
    let mut recording = args.live.drop_privileges(rotation.is_some(), || {
        let interface = |opened: &OpenedLiveCapture| (opened.interface().clone(), opened.filter().map(str::to_owned));
        Ok(LiveCaptureFileWriter::new(target, opened.iter().map(interface).collect())?)
    })?;
    let outcome = record(args, opened, &mut recording)?;
    let lost_packets = recording.lost_packets();
    if lost_packets > 0 {
        report_error(format_args!(
            "{interface}: {} could not be written, and were lost",
            units::PluralCount(lost_packets, "packet")
        ));
    }
    if !args.quiet {
        let counters = outcome.counters;
        report_error(format_args!(
            "{}: {} packets, {}, in {} {}. {} packets passed the capture filter; dropped: {} by the kernel, {} by the \
             interface, {} by this program",
            interface,
            units::HumanCount(recording.packets() - lost_packets),
            units::HumanSize(recording.bytes()),
            recording.files(),
            if recording.files() == 1 { "file" } else { "files" },
            units::HumanCount(counters.received),
            units::HumanCount(counters.dropped_by_kernel),
            units::HumanCount(counters.dropped_by_interface),
            units::HumanCount(counters.dropped_by_program),
        ));
    }
    Ok(if outcome.is_good { ExitStatus::Done } else { ExitStatus::Failed })
}

struct CaptureOutcome {
    counters: CapturePacketCounters,
    is_good: bool,
}

/// Reports a file that cannot be written, so that the packets written before are counted.
fn report_failure(error: OutputError, counters: CapturePacketCounters) -> Result<CaptureOutcome> {
    let error = error.into();
    if is_closed_pipe(&error) {
        return Err(error);
    }
    report_error(&error);
    Ok(CaptureOutcome { counters, is_good: false })
}

fn record(
    args: &CaptureCommandArgs,
    opened: Vec<OpenedLiveCapture>,
    recording: &mut LiveCaptureFileWriter,
) -> Result<CaptureOutcome> {
    let (mut source, mut session) = args.live.start(opened, args.quiet)?;
    let mut progress = ProgressLine::new();
    let max_packets = args.count.map_or(u64::MAX, NonZeroU64::get);
    // With several files, the size ends a file, and not the capture.
    let max_bytes = args.max_file_bytes().filter(|_| args.ring_buffer.is_empty()).map_or(u64::MAX, NonZeroU64::get);
    let max_files = args.max_files().map_or(u64::MAX, NonZeroU64::get);
    let mut last = Timestamp::default();
    let mut is_good = true;
    let mut is_over = false;
    while !is_over {
        let mut is_idle = false;
        match source.next_within(SOURCE_WAIT) {
            Ok(NextFrame::Frame(frame)) => {
                last = frame.time;
                is_over = session.frame(frame.time);
                if let (Some(frame), Some((on, _))) = (source.frame(), source.interface())
                    && let Err(error) = recording.frame(on, &frame, || session.counters_by_interface())
                {
                    return report_failure(error, session.counters());
                }
                is_over |= recording.packets() >= max_packets || recording.length() >= max_bytes;
            }
            Ok(NextFrame::Nothing) => {
                is_idle = true;
                let now = session.idle();
                // Before the first frame, the capture clock is unknown.
                if last != Timestamp::default() {
                    last = now;
                    if let Err(error) = recording.idle(now, || session.counters_by_interface()) {
                        return report_failure(error, session.counters());
                    }
                }
            }
            Ok(NextFrame::End) => break,
            // The other interfaces are still captured.
            Err(error) => {
                report_error(error);
                is_good = false;
            }
        }
        if recording.needs_file_after(max_files, last) {
            break;
        }
        if progress.is_due(is_idle) {
            progress.draw_live(&session.counters(), None);
        }
    }
    let mut counters = session.counters();
    if is_over {
        // Packets after the last requested one do not count.
        counters = counters.without_pending();
    }
    if let Err(error) = recording.finish(last, session.counters_by_interface()) {
        return report_failure(error, counters);
    }
    Ok(CaptureOutcome { counters, is_good })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_tshark() {
        let some = |count| NonZeroU64::new(count).unwrap();
        assert_eq!("filesize:1000".parse(), Ok(RingBufferOption::FileSize(some(1000))));
        assert_eq!("duration:60".parse(), Ok(RingBufferOption::Duration(some(60))));
        assert_eq!("interval:3600".parse(), Ok(RingBufferOption::Interval(some(3600))));
        assert_eq!("packets:5".parse(), Ok(RingBufferOption::Packets(some(5))));
        assert_eq!("files:10".parse(), Ok(RingBufferOption::Files(some(10))));
        assert!("files:0".parse::<RingBufferOption>().is_err());
        assert!("size:1".parse::<RingBufferOption>().is_err());
        assert_eq!(bytes(some(3)).get(), 3000);
    }
}
