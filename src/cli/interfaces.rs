//! `-D`: lists the interfaces for live capture, and the traffic that each can see.

use std::io::{self, Write};

use anyhow::Result;
use nfsrdma_capture_file::live::capabilities;
use nfsrdma_capture_file::live::devices::{self, CaptureDevice, InterfaceTrafficVisibility};

use super::exit_status::ExitStatus;
use super::standard_streams::write_error;

pub(super) fn run() -> Result<ExitStatus> {
    let devices = devices::list_interfaces()?;
    let mut text = String::new();
    let widest = |width: fn(&CaptureDevice) -> usize| devices.iter().map(width).max().unwrap_or(0);
    let name = widest(|device| device.name.chars().count());
    for device in &devices {
        let addresses: Vec<_> = device.addresses.iter().map(ToString::to_string).collect();
        let addresses = if addresses.is_empty() { String::new() } else { format!(" ({})", addresses.join(", ")) };
        let down =
            if device.is_up || device.visibility == InterfaceTrafficVisibility::NoNetwork { "" } else { "down; " };
        text += &format!("{:<name$}  {down}{}{addresses}\n", device.name, sees(&device.visibility));
    }
    if let Some(missing) = capabilities::missing_capability() {
        text += &format!("\nCapturing needs the capability {missing}: {}\n", capabilities::remedy());
    }
    io::stdout().write_all(text.as_bytes()).map_err(write_error)?;
    Ok(ExitStatus::Done)
}

fn sees(visibility: &InterfaceTrafficVisibility) -> String {
    match visibility {
        InterfaceTrafficVisibility::All => "all interfaces of this host, each without promiscuous mode".to_owned(),
        InterfaceTrafficVisibility::Loopback => "loopback traffic".to_owned(),
        InterfaceTrafficVisibility::Sniffer => "all RDMA of this device".to_owned(),
        InterfaceTrafficVisibility::Software(devices) => {
            format!("Ethernet, and RDMA of {} (in software)", devices.join(", "))
        }
        InterfaceTrafficVisibility::Hardware(devices) => {
            format!("Ethernet, but not RDMA of {} (in hardware): docs/capturing.md", devices.join(", "))
        }
        InterfaceTrafficVisibility::Ethernet => "Ethernet; no RDMA device of this host uses it".to_owned(),
        InterfaceTrafficVisibility::NoNetwork => "no network packets".to_owned(),
    }
}
