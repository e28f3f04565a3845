//! Server options of a replay, and access to trace files.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use nfsrdma_replay::run::ReplayOptions;
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::ConnectOptions;
use nfsrdma_rpc::url::ServerUrl;
use nfsrdma_text::os_error_text;

/// Where a trace runs.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayServerArgs {
    #[arg(
        long,
        value_name = "URL",
        help = "Server URL: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2, &mountport=PORT and &rpcbindport=PORT"
    )]
    pub(in crate::cli) server: ServerUrl,

    /// Directory of the replay in the export, created if missing [default: the trace name with a unique suffix]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) directory: Option<String>,

    /// Use the directory even if it is not empty
    #[arg(long)]
    pub(in crate::cli) allow_non_empty: bool,

    /// Allow the server that the capture was taken from
    #[arg(long)]
    pub(in crate::cli) allow_source_server: bool,

    /// Time limit for connecting and for each reply, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TIMEOUT_SECONDS, value_parser = parse_seconds)]
    pub(in crate::cli) timeout: f64,

    /// Stop each of seeding, run, final check and removal after SECONDS, with exit code 3 [default: an hour, or ten
    /// times the captured time]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(in crate::cli) max_time: Option<f64>,

    /// RDMA credits to request
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(in crate::cli) credits: u32,

    /// RDMA inline threshold of this side in both directions, 1024 to 262144 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1024..=262_144))]
    pub(in crate::cli) inline: u32,
}

/// Default time limit for connecting and for each Reply, in seconds.
pub(in crate::cli) const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;

pub(in crate::cli) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.001 to 86400".into()),
    }
}

pub(in crate::cli) fn parse_percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0 to 100".into()),
    }
}

/// Reader of a trace file.
pub(super) type ReplayTraceFileReader = ReplayTraceReader<BufReader<File>>;

/// Returns `true` if a path has the name of a capture, compressed or not.
fn has_capture_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let mut parts = name.rsplit('.');
    parts.by_ref().take(2).any(|part| matches!(part, "pcap" | "pcapng" | "cap" | "dmp" | "erf" | "snoop"))
}

/// Opens the file of a trace.
///
/// # Errors
/// Returns an error with the reason and the remedy if the file cannot be opened.
pub(in crate::cli) fn open_trace_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| {
        let (name, reason) = (path.display(), os_error_text(&error));
        let advice = match error.kind() {
            // An output named like a capture may overwrite one whose name was mistyped.
            io::ErrorKind::NotFound if has_capture_name(path) => "; check the path".to_owned(),
            io::ErrorKind::NotFound => {
                format!("; check the path, or make a trace: replay compile CAPTURE -o {name}")
            }
            io::ErrorKind::PermissionDenied => "; check the permissions".to_owned(),
            _ => String::new(),
        };
        anyhow!("{name}: cannot open: {reason}{advice}")
    })
}

pub(super) fn open_trace(path: &Path) -> Result<ReplayTraceFileReader> {
    let name = path.display();
    let file = open_trace_file(path)?;
    ReplayTraceReader::open(BufReader::new(file)).map_err(|error| anyhow!("{name}: {error}"))
}

impl ReplayServerArgs {
    /// Returns the options for a server with defaults for everything else.
    pub(in crate::cli) fn with_defaults(server: ServerUrl) -> Self {
        Self {
            server,
            directory: None,
            allow_non_empty: false,
            allow_source_server: false,
            timeout: DEFAULT_TIMEOUT_SECONDS,
            max_time: None,
            credits: 128,
            inline: 4096,
        }
    }

    /// Returns the time limit for each of seeding and the removal of the directory.
    pub(super) fn preparation_limit(&self, trace: &ReplayTraceFileReader) -> Duration {
        let options =
            ReplayOptions { max_time: self.max_time.map(Duration::from_secs_f64), ..ReplayOptions::default() };
        let end = &trace.summary().end;
        options.max_duration(end.last_call_ns.saturating_sub(end.first_call_ns))
    }

    pub(super) fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            send_size: self.inline,
            receive_size: self.inline,
            credits: self.credits,
            timeout: Duration::from_secs_f64(self.timeout),
            ..ConnectOptions::default()
        }
    }
}
