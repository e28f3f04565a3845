//! `probe`: shows the capabilities of a server.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueHint};
use nfsrdma_replay::probe::{ProbeError, probe};
use nfsrdma_rpc::url::ServerUrl;
use nfsrdma_rpc::{ConnectOptions, open};

use super::exit_status::ExitStatus;
use super::standard_streams::{print_report, report_error};
use super::terminal_capabilities::{self, ColorChoice};
use crate::output::probe::ProbeReportView;
use crate::output::settings::ReportFormat;

const EXAMPLES: &str = "  nfsrdma-inspect probe --server rdma://nas/export       all NFS versions, over RDMA
  nfsrdma-inspect probe --server tcp://nas/export        the same server over TCP
  nfsrdma-inspect probe --server 'rdma://nas/?vers=4.2'  only NFSv4.2
  nfsrdma-inspect probe --remote-invalidation --server rdma://nas/
                                                         also test remote invalidation
  nfsrdma-inspect probe -T json --server rdma://nas/ | jq .rdma.received
";

/// Report the capabilities of a server
///
/// Connect to a server and show the negotiated parameters (private data, inline thresholds, credits), the latency of
/// NULL, the NFS versions with their limits, and the exports. Nothing is changed on the server.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the requested version \
    was probed; or with no version in the URL at least one, and the calls of the others were answered\n  \
    1  the server broke the protocol\n  2  usage error\n  4  server unreachable, a call not \
    answered, or no results for the requested version\n  6  protocol error by this program\n"))]
pub(super) struct ProbeArgs {
    #[arg(
        long,
        value_name = "URL",
        help = "Server URL: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2, &mountport=PORT and &rpcbindport=PORT"
    )]
    server: ServerUrl,

    #[arg(hide = true, value_name = "URL", value_hint = ValueHint::Other, value_parser = reject_argument)]
    misplaced: Option<String>,

    /// Timeout of each step in seconds: connecting, each call, the NULL latency test
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = parse_seconds)]
    timeout: f64,

    /// RDMA credits to request
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16384))]
    credits: u32,

    /// RDMA inline threshold of this side in both directions, 1024 to 262144 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1024..=262_144))]
    inline: u32,

    /// Offer remote invalidation over RDMA, and report its use by the server
    ///
    /// Needs a device with type 2 memory windows. Warning: Soft-RoCE in Linux 7.2 crashes the kernel of this machine if
    /// a faulty server invalidates a window twice.
    #[arg(long)]
    remote_invalidation: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Refuses a server given as an argument instead of with its option.
fn reject_argument(text: &str) -> Result<String, String> {
    Err(format!("the server is an option: --server {text}"))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.001 to 3600".into()),
    }
}

pub(super) fn run(args: &ProbeArgs) -> Result<ExitStatus> {
    let options = ConnectOptions {
        send_size: args.inline,
        receive_size: args.inline,
        credits: args.credits,
        remote_invalidation: args.remote_invalidation,
        timeout: Duration::from_secs_f64(args.timeout),
        ..ConnectOptions::default()
    };
    let outcome = open(args.server.transport)
        .map_err(ProbeError::Transport)
        .and_then(|mut transport| probe(&mut *transport, &args.server, &options));
    let probe = match outcome {
        Ok(probe) => probe,
        Err(error) => {
            report_error(&error);
            return Ok(error.blame().into());
        }
    };
    let view = ProbeReportView { url: &args.server, probe: &probe, screen: terminal_capabilities::screen(args.color) };
    print_report(args.format, &view)?;
    if probe.unreadable > 0 {
        report_error(format_args!(
            "{}: {} unreadable replies; check that an NFS server listens there, and the network path",
            args.server.host, probe.unreadable
        ));
    }
    let failed_versions = probe.failed_versions(args.server.version);
    for failed in &failed_versions {
        report_error(format_args!("{}: {failed}", args.server.host));
    }
    let is_complete = probe.missing_version_message.is_none() && probe.unreadable == 0 && failed_versions.is_empty();
    Ok(match is_complete {
        true => ExitStatus::Done,
        false => probe.blame().into(),
    })
}
