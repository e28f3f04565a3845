//! The interfaces that can be captured on, and what each can see.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::source::SourceError;
use crate::source::error::SourceErrorKind;
use crate::source::unopened;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureDevice {
    /// The name that opens it.
    pub name: String,
    /// Whether it is up.
    pub is_up: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it can see.
    pub sees: DeviceVisibility,
}

/// What a capture on an interface can see of NFS over RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceVisibility {
    /// All Ethernet interfaces of this host, each as it is by itself.
    All,
    /// What this host sends to itself.
    Loopback,
    /// A device of RDMA, through the sniffer of libpcap.
    Sniffer,
    /// An Ethernet interface with these devices of RDMA in software: their packets go through it.
    Software(Vec<String>),
    /// An Ethernet interface with these devices of RDMA in hardware: their packets pass by it.
    Hardware(Vec<String>),
    /// An Ethernet interface without devices of RDMA: what the network sends to it, as from a mirror port.
    Ethernet,
    /// No Ethernet, no IP: nothing of NFS.
    Nothing,
}

/// Names that libpcap lists and that carry no network traffic.
const NOT_NETWORK: &[&str] = &["bluetooth", "dbus-", "nflog", "nfqueue", "usbmon", "mic", "nfnetlink"];

/// Lists the interfaces.
///
/// # Errors
/// [`SourceErrorKind::Capture`] where the system does not tell them.
pub fn list() -> Result<Vec<CaptureDevice>, SourceError> {
    let found = pcap::Device::list().map_err(|error| {
        let what = format!("cannot list the interfaces: {}", super::open::text(&error));
        let remedy = "look at them with: ip link".to_owned();
        unopened("-D".to_owned(), SourceErrorKind::Capture { what, remedy })
    })?;
    let system = Path::new("/sys/class");
    let device = |found: pcap::Device| CaptureDevice {
        sees: sees(system, &found.name, found.flags.is_loopback(), found.desc.as_deref()),
        is_up: found.flags.is_up(),
        addresses: found.addresses.iter().map(|address| address.addr).collect(),
        name: found.name,
    };
    Ok(found.into_iter().map(device).collect())
}

/// What an interface can see, by what `/sys/class` says of this host.
fn sees(system: &Path, name: &str, is_loopback: bool, description: Option<&str>) -> DeviceVisibility {
    let is_rdma = system.join("infiniband").join(name).exists();
    if name == "any" {
        DeviceVisibility::All
    } else if NOT_NETWORK.iter().any(|prefix| name.starts_with(prefix)) {
        DeviceVisibility::Nothing
    } else if is_rdma || description.is_some_and(|text| text.contains("RDMA")) {
        DeviceVisibility::Sniffer
    } else {
        let (software, hardware): (Vec<_>, Vec<_>) =
            rdma_devices(system, name).into_iter().partition(|device| device.is_software);
        let names = |devices: Vec<RdmaDevice>| devices.into_iter().map(|device| device.name).collect();
        match (hardware.is_empty(), software.is_empty()) {
            (false, _) => DeviceVisibility::Hardware(names(hardware)),
            (_, false) => DeviceVisibility::Software(names(software)),
            _ if is_loopback => DeviceVisibility::Loopback,
            _ => DeviceVisibility::Ethernet,
        }
    }
}

struct RdmaDevice {
    name: String,
    is_software: bool,
}

/// The devices of RDMA that use an Ethernet interface. One in hardware stands under the same device of a bus; one in
/// software has none, and names its interface (`parent`, or the interface of its first port's addresses).
fn rdma_devices(system: &Path, interface: &str) -> Vec<RdmaDevice> {
    let Ok(entries) = fs::read_dir(system.join("infiniband")) else { return Vec::new() };
    let of_interface = fs::canonicalize(system.join("net").join(interface).join("device")).ok();
    let uses = |path: &PathBuf| {
        let own = fs::canonicalize(path.join("device")).ok();
        let named =
            |file: &str| fs::read_to_string(path.join(file)).is_ok_and(|text| text.trim() == interface);
        (own.is_some() && own == of_interface) || named("parent") || named("ports/1/gid_attrs/ndevs/0")
    };
    let mut devices: Vec<RdmaDevice> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(uses)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            Some(RdmaDevice { name, is_software: !path.join("device").exists() })
        })
        .collect();
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_an_interface_sees_depends_on_where_its_rdma_is() {
        let system = std::env::temp_dir().join(format!("nfsrdma-sys-{}", std::process::id()));
        let make = |path: &str| fs::create_dir_all(system.join(path)).unwrap();
        let link =
            |to: &str, from: &str| std::os::unix::fs::symlink(system.join(to), system.join(from)).unwrap();
        make("pci/0000:01:00.0");
        make("net/hard0");
        link("pci/0000:01:00.0", "net/hard0/device");
        make("infiniband/mlx5_0");
        link("pci/0000:01:00.0", "infiniband/mlx5_0/device");
        make("net/soft0");
        make("infiniband/rxe0");
        fs::write(system.join("infiniband/rxe0/parent"), "soft0\n").unwrap();
        make("net/plain0");
        let sees = |name: &str, loopback| sees(&system, name, loopback, None);
        assert_eq!(sees("hard0", false), DeviceVisibility::Hardware(vec!["mlx5_0".into()]));
        assert_eq!(sees("soft0", false), DeviceVisibility::Software(vec!["rxe0".into()]));
        assert_eq!(sees("plain0", false), DeviceVisibility::Ethernet);
        assert_eq!(sees("mlx5_0", false), DeviceVisibility::Sniffer);
        assert_eq!(sees("lo", true), DeviceVisibility::Loopback);
        assert_eq!(sees("any", false), DeviceVisibility::All);
        assert_eq!(sees("nflog", false), DeviceVisibility::Nothing);
        fs::remove_dir_all(&system).unwrap();
    }
}
