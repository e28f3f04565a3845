//! Which RDMA devices there are, and which addresses their ports have.

use std::net::Ipv6Addr;

use super::super::RpcTransportErrorKind;
use super::failure;

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsDevice {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its globally unique identifier; zero where the device tells none, as over some iWARP.
    pub guid: u64,
    /// Its ports, or why they are not known: a port that is down, or no right to open the device.
    pub ports: Result<Vec<VerbsPort>, String>,
}

/// A port of a device, as far as its table of addresses tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsPort {
    /// Its number, from 1.
    pub number: u32,
    /// Its GIDs; over RoCE an IPv4 address is one that is mapped into IPv6.
    pub gids: Vec<Ipv6Addr>,
}

/// Lists the RDMA devices.
///
/// # Errors
/// Where the library or the kernel's part is not there. A kernel without any device gives an empty list.
pub fn devices() -> Result<Vec<VerbsDevice>, RpcTransportErrorKind> {
    let list = match ibverbs::devices() {
        Ok(list) => list,
        // No ib_uverbs in the kernel.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            return Err(RpcTransportErrorKind::NoDevice);
        }
        Err(error) => return Err(failure::first("listing RDMA devices", error)),
    };
    let devices = list.iter().map(|device| VerbsDevice {
        name: device.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        guid: device.guid().map_or(0, u64::from),
        ports: device.open().map(|context| ports(context.gid_table())).map_err(|error| error.to_string()),
    });
    Ok(devices.collect())
}

fn ports(table: &[ibverbs::GidEntry]) -> Vec<VerbsPort> {
    let mut ports: Vec<VerbsPort> = Vec::new();
    for entry in table {
        let bits = (u128::from(entry.gid.subnet_prefix()) << 64) | u128::from(entry.gid.interface_id());
        let gid = Ipv6Addr::from_bits(bits);
        match ports.iter_mut().find(|port| port.number == entry.port_num) {
            Some(port) if port.gids.contains(&gid) => {}
            Some(port) => port.gids.push(gid),
            None => ports.push(VerbsPort { number: entry.port_num, gids: vec![gid] }),
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there depends on the machine; that it is told in one line, and not by a crash, does not.
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
