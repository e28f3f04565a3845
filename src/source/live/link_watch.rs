//! Looking after the interface of a capture. libpcap goes on without a word when an interface is taken down or loses its link, so the
//! kernel is asked, in `/sys/class/net`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::source::LinkState;

/// How long an answer of the kernel counts.
const INTERVAL: Duration = Duration::from_millis(250);
/// The bit of the flags of an interface that says that it is up (netdevice(7), IFF_UP).
const IFF_UP: u32 = 1;

/// Where the kernel shows interfaces.
const INTERFACES: &str = "/sys/class/net";

/// The state of an interface, asked for now and then.
#[derive(Debug)]
pub struct LinkWatch {
    /// Its directory; `None` where there was none at the start: `any`, an RDMA device, another system than Linux.
    directory: Option<PathBuf>,
    state: LinkState,
    asked: Instant,
}

impl LinkWatch {
    /// Looks after an interface.
    pub fn new(interface: &str) -> Self {
        Self::of(&Path::new(INTERFACES).join(interface))
    }

    fn of(directory: &Path) -> Self {
        let directory = directory.is_dir().then(|| directory.to_owned());
        Self { directory, state: LinkState::Up, asked: Instant::now() }
    }

    /// The state that is known.
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Asks again if it is time to; gives the state if it has changed.
    pub fn look(&mut self) -> Option<LinkState> {
        let directory = self.directory.as_deref().filter(|_| self.asked.elapsed() >= INTERVAL)?;
        self.asked = Instant::now();
        let before = std::mem::replace(&mut self.state, ask(directory));
        (before != self.state).then_some(self.state)
    }
}

fn ask(directory: &Path) -> LinkState {
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    let Some(flags) = read("flags") else { return LinkState::Gone };
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(IFF_UP);
    // An interface that is down has no carrier that could be read.
    match (flags & IFF_UP, read("carrier").as_deref().map(str::trim)) {
        (0, _) => LinkState::Down,
        (_, Some("0")) => LinkState::NoCarrier,
        _ => LinkState::Up,
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
        assert_eq!(ask(&directory), LinkState::Up);
        write("carrier", "0\n");
        assert_eq!(ask(&directory), LinkState::NoCarrier);
        write("flags", "0x1002\n");
        assert_eq!(ask(&directory), LinkState::Down);
        let mut watch = LinkWatch::of(&directory);
        assert_eq!((watch.state(), watch.look()), (LinkState::Up, None));
        std::thread::sleep(INTERVAL);
        assert_eq!((watch.look(), watch.look()), (Some(LinkState::Down), None));
        fs::remove_dir_all(&directory).unwrap();
        std::thread::sleep(INTERVAL);
        assert_eq!(watch.look(), Some(LinkState::Gone));
        // What the kernel does not show is believed to be up.
        let mut any = LinkWatch::new("any");
        std::thread::sleep(INTERVAL);
        assert_eq!((any.look(), any.state()), (None, LinkState::Up));
    }
}
