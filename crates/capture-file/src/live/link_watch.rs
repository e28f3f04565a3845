//! Monitoring of the captured interface through `/sys/class/net`. libpcap does not report that an interface was taken
//! down or lost its link.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::interface_link_state::CaptureInterfaceLinkState;

/// Minimum time between two queries.
const INTERVAL: Duration = Duration::from_millis(250);
/// IFF_UP in the interface flags (netdevice(7)).
const IFF_UP: u32 = 1;

/// Directory of the network interfaces.
const SYSFS_NET: &str = "/sys/class/net";

/// The periodically queried state of an interface.
#[derive(Debug)]
pub struct CaptureInterfaceMonitor {
    /// Directory of the interface; `None` for `any`, RDMA devices and systems other than Linux.
    directory: Option<PathBuf>,
    state: CaptureInterfaceLinkState,
    last_query: Instant,
}

impl CaptureInterfaceMonitor {
    /// Starts monitoring an interface.
    pub fn new(interface: &str) -> Self {
        Self::for_directory(&Path::new(SYSFS_NET).join(interface))
    }

    fn for_directory(directory: &Path) -> Self {
        let directory = directory.is_dir().then(|| directory.to_owned());
        Self { directory, state: CaptureInterfaceLinkState::Up, last_query: Instant::now() }
    }

    /// Returns the last known state.
    pub fn state(&self) -> CaptureInterfaceLinkState {
        self.state
    }

    /// Queries the state if it is due. Returns it if it has changed.
    pub fn poll(&mut self) -> Option<CaptureInterfaceLinkState> {
        let directory = self.directory.as_deref().filter(|_| self.last_query.elapsed() >= INTERVAL)?;
        self.last_query = Instant::now();
        let before = std::mem::replace(&mut self.state, query_state(directory));
        (before != self.state).then_some(self.state)
    }
}

fn query_state(directory: &Path) -> CaptureInterfaceLinkState {
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    let Some(flags) = read("flags") else { return CaptureInterfaceLinkState::Gone };
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(IFF_UP);
    // The carrier of an interface that is down cannot be read.
    match (flags & IFF_UP, read("carrier").as_deref().map(str::trim)) {
        (0, _) => CaptureInterfaceLinkState::Down,
        (_, Some("0")) => CaptureInterfaceLinkState::NoCarrier,
        _ => CaptureInterfaceLinkState::Up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_interface_comes_from_sysfs() {
        let directory = std::env::temp_dir().join(format!("nfsrdma-inspect-link-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
        write("flags", "0x1003\n");
        write("carrier", "1\n");
        assert_eq!(query_state(&directory), CaptureInterfaceLinkState::Up);
        write("carrier", "0\n");
        assert_eq!(query_state(&directory), CaptureInterfaceLinkState::NoCarrier);
        write("flags", "0x1002\n");
        assert_eq!(query_state(&directory), CaptureInterfaceLinkState::Down);
        let mut watch = CaptureInterfaceMonitor::for_directory(&directory);
        assert_eq!((watch.state(), watch.poll()), (CaptureInterfaceLinkState::Up, None));
        std::thread::sleep(INTERVAL);
        assert_eq!((watch.poll(), watch.poll()), (Some(CaptureInterfaceLinkState::Down), None));
        fs::remove_dir_all(&directory).unwrap();
        std::thread::sleep(INTERVAL);
        assert_eq!(watch.poll(), Some(CaptureInterfaceLinkState::Gone));
        // Interfaces without a directory are assumed to be up.
        let mut any = CaptureInterfaceMonitor::new("any");
        std::thread::sleep(INTERVAL);
        assert_eq!((any.poll(), any.state()), (None, CaptureInterfaceLinkState::Up));
    }
}
