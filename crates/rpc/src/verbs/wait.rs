//! Waiting for file descriptors.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Waits until one of the descriptors is readable. Returns `false` if the deadline passes first.
pub(super) fn readable(descriptors: &mut [libc::pollfd], deadline: Instant) -> io::Result<bool> {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let time = timespec(remaining);
        let count = libc::nfds_t::try_from(descriptors.len()).unwrap_or(0);
        // SAFETY: the pointer and the count are those of one slice that this call borrows exclusively, `time` lives
        // across the call, and no signal mask is given.
        let ready = unsafe { libc::ppoll(descriptors.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns the poll entry that waits until `fd` is readable.
pub(super) fn poll_entry(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Sets a descriptor to non-blocking mode.
pub(super) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, as its owner lends it for this call, and these commands access no memory.
    let is_set = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_wait_ends_with_the_deadline_or_with_readable_data() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let mut descriptors = [poll_entry(other.as_raw_fd())];
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(!readable(&mut descriptors, soon).unwrap());
        assert!(Instant::now() >= soon);
        one.write_all(b"x").unwrap();
        assert!(readable(&mut descriptors, soon).unwrap());
    }
}
