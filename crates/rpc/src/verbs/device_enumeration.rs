//! The RDMA devices of this machine and the addresses of their ports.

use std::net::Ipv6Addr;

use super::errno_conversion;
use crate::transport_error::RpcClientTransportErrorKind;

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDeviceDescription {
    /// The name, such as `mlx5_0`.
    pub name: String,
    /// The globally unique identifier; zero if the device has none, as with some iWARP.
    pub guid: u64,
    /// The ports, or the reason that they are unknown: a port that is down, or no permission to open the device.
    pub ports: Result<Vec<RdmaDevicePortDescription>, String>,
}

/// A port of a device, as found in its GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDevicePortDescription {
    /// The port number, from 1.
    pub number: u32,
    /// The distinct GIDs. Over RoCE an IPv4 address is an IPv4-mapped IPv6 address.
    pub gids: Vec<Ipv6Addr>,
}

/// Lists the RDMA devices.
///
/// # Errors
/// Returns an error if the library or the kernel module is missing. A kernel without devices gives an empty list.
pub fn devices() -> Result<Vec<RdmaDeviceDescription>, RpcClientTransportErrorKind> {
    let list = match ibverbs::devices() {
        Ok(list) => list,
        // The kernel has no ib_uverbs.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            return Err(RpcClientTransportErrorKind::NoDevice);
        }
        Err(error) => return Err(errno_conversion::from_first_call("listing RDMA devices", error)),
    };
    let devices = list.iter().map(|device| RdmaDeviceDescription {
        name: device.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        guid: device.guid().map_or(0, u64::from),
        ports: device.open().map(|context| ports(context.gid_table())).map_err(|error| error.to_string()),
    });
    Ok(devices.collect())
}

fn ports(table: &[ibverbs::GidEntry]) -> Vec<RdmaDevicePortDescription> {
    let mut ports: Vec<RdmaDevicePortDescription> = Vec::new();
    for entry in table {
        let bits = (u128::from(entry.gid.subnet_prefix()) << 64) | u128::from(entry.gid.interface_id());
        let gid = Ipv6Addr::from_bits(bits);
        match ports.iter_mut().find(|port| port.number == entry.port_num) {
            Some(port) if port.gids.contains(&gid) => {}
            Some(port) => port.gids.push(gid),
            None => ports.push(RdmaDevicePortDescription { number: entry.port_num, gids: vec![gid] }),
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The devices depend on the machine; a one-line error without a crash does not.
    #[test]
    fn devices_are_listed_or_their_absence_is_explained() {
        match devices() {
            Ok(devices) => assert!(devices.iter().all(|device| !device.name.is_empty())),
            Err(kind) => {
                let line = kind.to_string();
                assert!(!line.contains('\n') && line.contains("install") || line.contains("rdma"), "{line}");
            }
        }
    }
}
