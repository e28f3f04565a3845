//! The interfaces available for capture, and the NFS over RDMA traffic visible on each.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::capture_error::error_text;
use crate::error::{SourceError, SourceErrorKind, input_error};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureDevice {
    /// Name to open it by.
    pub name: String,
    /// `true` if the interface is up.
    pub is_up: bool,
    /// IP addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// NFS over RDMA traffic visible on the interface.
    pub visibility: InterfaceTrafficVisibility,
}

/// The NFS over RDMA traffic that a capture on an interface can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceTrafficVisibility {
    /// All Ethernet interfaces of this host, each with its own visibility.
    All,
    /// Traffic of this host to itself.
    Loopback,
    /// An RDMA device, captured with libpcap's RDMA sniffer.
    Sniffer,
    /// An Ethernet interface with these software RDMA devices, whose packets pass through it.
    Software(Vec<String>),
    /// An Ethernet interface with these hardware RDMA devices, whose packets bypass it.
    Hardware(Vec<String>),
    /// An Ethernet interface without RDMA devices: it sees packets sent to it, such as those of a mirror port.
    Ethernet,
    /// Not an Ethernet or IP interface: no NFS traffic.
    NoNetwork,
}

/// Prefixes of libpcap device names that carry no network traffic.
const NON_NETWORK_PREFIXES: &[&str] = &["bluetooth", "dbus-", "nflog", "nfqueue", "usbmon", "mic", "nfnetlink"];

/// Lists the interfaces.
///
/// # Errors
/// Returns [`SourceErrorKind::Capture`] if the system does not list them.
pub fn list_interfaces() -> Result<Vec<CaptureDevice>, SourceError> {
    let devices = pcap::Device::list().map_err(|error| {
        let description = format!("cannot list the interfaces: {}", error_text(&error));
        let remedy = "list them with: ip link".to_owned();
        input_error("-D".to_owned(), SourceErrorKind::Capture { what: description, remedy })
    })?;
    let system = Path::new("/sys/class");
    let device = |interface: pcap::Device| CaptureDevice {
        visibility: device_visibility(
            system,
            &interface.name,
            interface.flags.is_loopback(),
            interface.desc.as_deref(),
        ),
        is_up: interface.flags.is_up(),
        addresses: interface.addresses.iter().map(|address| address.addr).collect(),
        name: interface.name,
    };
    Ok(devices.into_iter().map(device).collect())
}

/// Returns the traffic visible on an interface, according to `/sys/class` of this host.
fn device_visibility(
    system: &Path,
    name: &str,
    is_loopback: bool,
    description: Option<&str>,
) -> InterfaceTrafficVisibility {
    let is_rdma = system.join("infiniband").join(name).exists();
    if name == "any" {
        InterfaceTrafficVisibility::All
    } else if NON_NETWORK_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        InterfaceTrafficVisibility::NoNetwork
    } else if is_rdma || description.is_some_and(|text| text.contains("RDMA")) {
        InterfaceTrafficVisibility::Sniffer
    } else {
        let (software, hardware): (Vec<_>, Vec<_>) =
            rdma_devices(system, name).into_iter().partition(|device| device.is_software);
        let device_names = |devices: Vec<InterfaceRdmaDevice>| devices.into_iter().map(|device| device.name).collect();
        match (hardware.is_empty(), software.is_empty()) {
            (false, _) => InterfaceTrafficVisibility::Hardware(device_names(hardware)),
            (_, false) => InterfaceTrafficVisibility::Software(device_names(software)),
            _ if is_loopback => InterfaceTrafficVisibility::Loopback,
            _ => InterfaceTrafficVisibility::Ethernet,
        }
    }
}

struct InterfaceRdmaDevice {
    name: String,
    is_software: bool,
}

/// Returns the RDMA devices that use an Ethernet interface. A hardware device is below the same bus device. A software
/// device has none and names its interface (`parent`, or the interface of its first port's addresses).
fn rdma_devices(system: &Path, interface: &str) -> Vec<InterfaceRdmaDevice> {
    let Ok(entries) = fs::read_dir(system.join("infiniband")) else { return Vec::new() };
    let interface_device = fs::canonicalize(system.join("net").join(interface).join("device")).ok();
    let uses = |path: &PathBuf| {
        let device = fs::canonicalize(path.join("device")).ok();
        let names_interface =
            |file: &str| fs::read_to_string(path.join(file)).is_ok_and(|text| text.trim() == interface);
        (device.is_some() && device == interface_device)
            || names_interface("parent")
            || names_interface("ports/1/gid_attrs/ndevs/0")
    };
    let mut devices: Vec<InterfaceRdmaDevice> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(uses)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            Some(InterfaceRdmaDevice { name, is_software: !path.join("device").exists() })
        })
        .collect();
    devices.sort_by(|device, other| device.name.cmp(&other.name));
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn visibility_of_rdma_depends_on_the_device_of_the_interface() {
        let system = std::env::temp_dir().join(format!("nfsrdma-sys-{}", std::process::id()));
        let make = |path: &str| fs::create_dir_all(system.join(path)).unwrap();
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(system.join(to), system.join(from)).unwrap();
        make("pci/0000:01:00.0");
        make("net/hard0");
        link("pci/0000:01:00.0", "net/hard0/device");
        make("infiniband/mlx5_0");
        link("pci/0000:01:00.0", "infiniband/mlx5_0/device");
        make("net/soft0");
        make("infiniband/rxe0");
        fs::write(system.join("infiniband/rxe0/parent"), "soft0\n").unwrap();
        make("net/plain0");
        let sees = |name: &str, loopback| device_visibility(&system, name, loopback, None);
        assert_eq!(sees("hard0", false), InterfaceTrafficVisibility::Hardware(vec!["mlx5_0".into()]));
        assert_eq!(sees("soft0", false), InterfaceTrafficVisibility::Software(vec!["rxe0".into()]));
        assert_eq!(sees("plain0", false), InterfaceTrafficVisibility::Ethernet);
        assert_eq!(sees("mlx5_0", false), InterfaceTrafficVisibility::Sniffer);
        assert_eq!(sees("lo", true), InterfaceTrafficVisibility::Loopback);
        assert_eq!(sees("any", false), InterfaceTrafficVisibility::All);
        assert_eq!(sees("nflog", false), InterfaceTrafficVisibility::NoNetwork);
        fs::remove_dir_all(&system).unwrap();
    }
}
