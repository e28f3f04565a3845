//! `tui`: the terminal interface.

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_capture_file::CaptureFrameSource;
#[cfg(feature = "live")]
use nfsrdma_capture_file::CaptureInterfaceLinkState;
#[cfg(feature = "live")]
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::FlowLimits;
use nfsrdma_text::os_error_text;

use super::exit_status::ExitStatus;
use super::filehandle_display_option::FilehandleDisplayArgs;
#[cfg(feature = "live")]
use super::live_capture_options::{LiveCaptureOptionArgs, LiveCaptureSession};
use super::memory_limit::MemoryArgs;
#[cfg(feature = "live")]
use super::read_stop_condition::ReadStopCondition;
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::seconds::SecondsArg;
use super::terminal_capabilities;
use crate::output::settings::TimeFormat;
use crate::tui::app::application_state::{App, TuiOptions};
use crate::tui::event_loop::{self, TuiEnd};
use crate::tui::memory_shares::ViewMemoryShares;
#[cfg(feature = "live")]
use crate::tui::rereadable_capture::LiveCaptureStopCondition;
use crate::tui::rereadable_capture::SharedCapture;
use crate::tui::theme::{Theme, ThemeName};

const EXAMPLES: &str = "Examples:
  nfsrdma-inspect tui capture.pcap
  nfsrdma-inspect tui -Y 'nfsrdma.latency > 0.01' ring_*.pcapng
  nfsrdma-inspect tui -i eth0
  ssh HOST tcpdump -i eth0 -U -w - udp port 4791 | nfsrdma-inspect tui -

Press ? for a list of keys.
";

/// Browse a capture interactively: transactions, fields, bytes, operations, connections, files and charts
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TuiArgs {
    #[cfg(feature = "live")]
    #[command(flatten)]
    live: LiveCaptureOptionArgs,

    /// Capture files, merged by time; '-' is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Apply a display filter in Wireshark syntax
    #[arg(short = 'Y', long, value_name = "FILTER")]
    display_filter: Option<String>,

    /// Keep reading FILE as it grows, like 'tail -F', and show the newest line
    #[arg(long)]
    follow: bool,

    /// Drop calls without a reply after SECONDS [default: at the end of the input]
    #[arg(long, value_name = "SECONDS", value_parser = SecondsArg::parse_positive)]
    max_call_age: Option<SecondsArg>,

    /// Timestamp format
    #[arg(short = 't', long = "time-format", alias = "time", value_name = "FORMAT", default_value = "r")]
    time: TimeFormat,

    #[command(flatten)]
    filehandles: FilehandleDisplayArgs,

    /// Color theme; NO_COLOR disables colors
    #[arg(long, value_name = "THEME", default_value = "auto")]
    theme: ThemeName,

    /// Use only ASCII characters, as in a locale other than UTF-8
    #[arg(long)]
    ascii: bool,

    /// Disable mouse input, so that the terminal can select text
    #[arg(long)]
    no_mouse: bool,

    /// Highlight transactions slower than MS milliseconds [default: 4 times the median of the operation]
    #[arg(long, value_name = "MS")]
    slow: Option<f64>,

    /// Apply the conformance rules: mark transactions with errors and warnings, and show findings in the tree
    #[arg(long)]
    findings: bool,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: CaptureDialectArgs,
}

#[cfg(feature = "live")]
impl LiveCaptureStopCondition for LiveCaptureSession {
    fn frame(&mut self, time: Timestamp) -> bool {
        ReadStopCondition::frame(self, time)
    }

    fn idle(&mut self) -> Timestamp {
        ReadStopCondition::idle(self)
    }

    fn link(&self) -> CaptureInterfaceLinkState {
        LiveCaptureSession::link(self)
    }
}

fn capture(args: &TuiArgs, memory: &CommandMemoryBudget) -> Result<SharedCapture> {
    let kept_bytes = ViewMemoryShares::new(memory.view_bytes(), true).kept_bytes;
    #[cfg(feature = "live")]
    if !args.live.interface.is_empty() {
        if args.follow {
            bail!("--follow applies to a file, and -i always follows; omit one of them");
        }
        if !args.files.is_empty() {
            bail!("-i cannot be combined with capture files; omit one of them");
        }
        args.live.reject_file_conditions()?;
        let opened = args.live.open()?;
        args.live.drop_privileges(false, || Ok(()))?;
        let (source, session) = args.live.start(opened, true)?;
        return Ok(SharedCapture::live(&args.live.interface.join(" "), source, kept_bytes, Box::new(session)));
    }
    #[cfg(feature = "live")]
    args.live.reject_for_files()?;
    if args.files.is_empty() {
        let live_hint = if cfg!(feature = "live") { ", or an interface with -i" } else { "" };
        bail!("no capture file given; name one, or '-' for standard input{live_hint}; see --help");
    }
    if args.follow {
        let [file] = args.files.as_slice() else { bail!("--follow needs exactly one FILE") };
        if file.as_os_str() == "-" {
            bail!("--follow: standard input is always followed; omit the option");
        }
        let followed = SharedCapture::followed(file, memory.windows(), kept_bytes);
        return followed
            .map_err(|error| anyhow!("{}: cannot open: {}; check the path", file.display(), os_error_text(&error)));
    }
    let is_pipe = |file: &PathBuf| file.as_os_str() == "-" || !file.is_file();
    // A file that is not a capture is reported before the screen is taken over, and a pipe is read only once.
    let source = CaptureFrameSource::open_within(&args.files, memory.windows())?;
    if !args.files.iter().any(is_pipe) {
        require_frames(source, &args.files)?;
        return Ok(SharedCapture::files(args.files.clone(), memory.windows().clone()));
    }
    let name = match args.files.as_slice() {
        [only] if only.as_os_str() == "-" => "standard input".to_owned(),
        files => files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(" "),
    };
    Ok(SharedCapture::received_once(&name, source, kept_bytes))
}

/// Returns an error if the capture would be read from the terminal, which the keys come from.
fn reject_terminal_input(files: &[PathBuf], is_terminal: bool) -> Result<()> {
    if is_terminal && files.iter().any(|file| file.as_os_str() == "-") {
        bail!("tui -: standard input is the terminal; pipe a capture into it, or name a file");
    }
    Ok(())
}

/// Returns an error if the capture has no frame to show.
fn require_frames(mut source: CaptureFrameSource, files: &[PathBuf]) -> Result<()> {
    let mut errors = Vec::new();
    loop {
        match source.next() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if errors.is_empty() => {
                let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
                bail!("{}: no frames; use --follow for a file that is still being written", names.join(", "))
            }
            Ok(None) => bail!("{}", errors.join("; ")),
            Err(error) => errors.push(error.to_string()),
        }
    }
}

pub(super) fn run(args: &TuiArgs) -> Result<ExitStatus> {
    if !io::stdout().is_terminal() {
        bail!("tui: standard output is not a terminal; omit tui for text output");
    }
    reject_terminal_input(&args.files, io::stdin().is_terminal())?;
    let memory = CommandMemoryBudget::for_interface(args.memory.limit_bytes()?, &args.files);
    let capture = capture(args, &memory)?;
    let screen = terminal_capabilities::screen(terminal_capabilities::ColorChoice::Auto);
    let glyphs = if args.ascii { crate::output::style::Glyphs::ASCII } else { screen.glyphs };
    let background = env::var("COLORFGBG").ok();
    let is_colored = terminal_capabilities::ColorChoice::Auto.on_standard_output();
    let options = TuiOptions {
        theme: Theme::resolve(args.theme, is_colored, background.as_deref()),
        glyphs,
        limits: FlowLimits {
            call_age_ns: args.max_call_age.map(|age| age.0),
            dialect: args.dialect.selected(),
            ..memory.limits()
        },
        memory,
        filehandles: args.filehandles.selected(),
        time: args.time,
        filter: args.display_filter.clone(),
        slow_ns: args.slow.map(|ms| (ms * 1e6) as u64),
        findings: args.findings,
    };
    let app = match App::new(capture, options) {
        Ok(app) => app,
        Err(error) => bail!("-Y: {error}"),
    };
    match event_loop::run(app, !args.no_mouse)? {
        TuiEnd::Quit => Ok(ExitStatus::Done),
        TuiEnd::Signal(signal) => bail!("ended by signal {signal}"),
        TuiEnd::NoFrames(error) => bail!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_not_read_from_the_terminal_of_the_keys() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let error = reject_terminal_input(&files(&["a.pcap", "-"]), true).unwrap_err().to_string();
        assert!(error.contains("standard input is the terminal") && !error.contains('\n'), "{error}");
        assert!(reject_terminal_input(&files(&["-"]), false).is_ok());
        assert!(reject_terminal_input(&files(&["a.pcap"]), true).is_ok());
    }
}
