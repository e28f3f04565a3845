//! Monitoring of the captured interface through `/sys/class/net`. libpcap does not report that an interface was taken
//! down or lost its link.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::CaptureInterfaceState;

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
    state: CaptureInterfaceState,
    last_query: Instant,
}

impl CaptureInterfaceMonitor {
    /// Starts monitoring an interface.
    pub fn new(interface: &str) -> Self {
        Self::for_directory(&Path::new(SYSFS_NET).join(interface))
    }

    fn for_directory(directory: &Path) -> Self {
        let directory = directory.is_dir().then(|| directory.to_owned());
        Self { directory, state: CaptureInterfaceState::Up, last_query: Instant::now() }
    }

    /// Returns the last known state.
    pub fn state(&self) -> CaptureInterfaceState {
        self.state
    }

    /// Queries the state if it is due. Returns it if it has changed.
    pub fn poll(&mut self) -> Option<CaptureInterfaceState> {
        let directory = self.directory.as_deref().filter(|_| self.last_query.elapsed() >= INTERVAL)?;
        self.last_query = Instant::now();
        let before = std::mem::replace(&mut self.state, query_state(directory));
        (before != self.state).then_some(self.state)
    }
}

fn query_state(directory: &Path) -> CaptureInterfaceState {
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    let Some(flags) = read("flags") else { return CaptureInterfaceState::Gone };
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(IFF_UP);
    // The carrier of an interface that is down cannot be read.
    match (flags & IFF_UP, read("carrier").as_deref().map(str::trim)) {
        (0, _) => CaptureInterfaceState::Down,
        (_, Some("0")) => CaptureInterfaceState::NoCarrier,
        _ => CaptureInterfaceState::Up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_an_interface_is() {
        let directory = std::env::temp_dir().join(format!("nfsrdma-inspect-link-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
        write("flags", "0x1003\n");
        write("carrier", "1\n");
        assert_eq!(query_state(&directory), CaptureInterfaceState::Up);
        write("carrier", "0\n");
        assert_eq!(query_state(&directory), CaptureInterfaceState::NoCarrier);
        write("flags", "0x1002\n");
        assert_eq!(query_state(&directory), CaptureInterfaceState::Down);
        let mut watch = CaptureInterfaceMonitor::for_directory(&directory);
        assert_eq!((watch.state(), watch.poll()), (CaptureInterfaceState::Up, None));
        std::thread::sleep(INTERVAL);
        assert_eq!((watch.poll(), watch.poll()), (Some(CaptureInterfaceState::Down), None));
        fs::remove_dir_all(&directory).unwrap();
        std::thread::sleep(INTERVAL);
        assert_eq!(watch.poll(), Some(CaptureInterfaceState::Gone));
        // Interfaces without a directory are assumed to be up.
        let mut any = CaptureInterfaceMonitor::new("any");
        std::thread::sleep(INTERVAL);
        assert_eq!((any.poll(), any.state()), (None, CaptureInterfaceState::Up));
    }
}
