//! Waiting for a server that asks for a delay: NFS4ERR_DELAY, NFS4ERR_GRACE and NFS3ERR_JUKEBOX.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Limit of all waits for one operation. Grace periods take 90 s at Linux and nfs-ganesha.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Waits of one operation, each twice as long as the one before, up to a limit of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    waits: u32,
    waited: Duration,
}

impl Backoff {
    /// Returns the next wait, or `None` at the limit.
    pub(crate) fn next_wait(&mut self) -> Option<Duration> {
        if self.waited >= WAIT_LIMIT {
            return None;
        }
        let wait = (FIRST_WAIT * 2_u32.saturating_pow(self.waits.min(16))).min(LONGEST_WAIT);
        self.waits += 1;
        self.waited += wait;
        Some(wait)
    }

    /// Returns the sum of the waits in seconds.
    pub(crate) fn waited_seconds(&self) -> u64 {
        self.waited.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ms, doubled up to 2 s, and 120 s in all: longer than the grace period of a server.
    #[test]
    fn waits_double_up_to_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = std::iter::from_fn(|| backoff.next_wait()).collect();
        let first: Vec<_> = waits.iter().take(6).map(Duration::as_millis).collect();
        assert_eq!(first, [100, 200, 400, 800, 1600, 2000]);
        assert_eq!(waits.len(), 64);
        assert_eq!(backoff.waited_seconds(), 121);
    }
}
