//! Signals that ask the program to end: SIGINT, SIGTERM, and SIGHUP unless it was ignored when it started (nohup).
//!
//! By themselves they end it at once, and leave what it has not finished. With [`watch`] the unfinished files are removed
//! first. A command that can end in order, as a capture can, holds an [`GracefulShutdown`] ending: the first signal is told to it, and
//! the next one ends the program.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output_file;

/// What is done with signals.
#[derive(Debug)]
enum SignalHandling {
    /// What the system does.
    Not,
    /// They wait.
    Caught(Signals),
    /// A thread takes them.
    Watched,
}

static WATCH: Mutex<SignalHandling> = Mutex::new(SignalHandling::Not);
/// Who ends in order.
static ORDERLY: Mutex<Option<InterruptRequest>> = Mutex::new(None);

/// Bytes that are still read of an input when the program is asked to end: what lies in a pipe.
const LEFT_BYTES: usize = 1 << 20;

fn lock<T>(of: &'static Mutex<T>) -> MutexGuard<'static, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets signals wait until [`watch`] is called. It needs no thread, so that rights can be given up after it.
///
/// # Errors
/// The system refuses.
pub(crate) fn catch() -> io::Result<()> {
    let mut watch = lock(&WATCH);
    if matches!(*watch, SignalHandling::Not) {
        let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
        *watch = SignalHandling::Caught(Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up))?);
        // A limit of the size of files (ulimit -f) is an error of writing, and not a signal that ends the program.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    }
    Ok(())
}

/// From now on a signal removes unfinished files before it ends the program, unless somebody ends in order.
///
/// # Errors
/// The system refuses.
pub(crate) fn watch() -> io::Result<()> {
    catch()?;
    let mut watch = lock(&WATCH);
    if matches!(*watch, SignalHandling::Caught(_))
        && let SignalHandling::Caught(signals) = std::mem::replace(&mut *watch, SignalHandling::Watched)
    {
        thread::Builder::new().name("signals".into()).spawn(move || take(signals))?;
    }
    Ok(())
}

fn take(mut signals: Signals) {
    for signal in signals.forever() {
        if let Some(orderly) = lock(&ORDERLY).as_mut()
            && !orderly.asked.swap(true, Ordering::Relaxed)
        {
            // Whoever waits for input wakes up.
            orderly.waker = None;
            continue;
        }
        let held = output_file::remove_unfinished();
        // It ends here.
        let _ = emulate_default_handler(signal);
        drop(held);
    }
}

/// What the first signal is told to.
#[derive(Debug)]
struct InterruptRequest {
    asked: Arc<AtomicBool>,
    /// Closed when the program is asked to end.
    waker: Option<OwnedFd>,
}

/// As long as there is one that has begun, the first signal is told to it and does nothing else.
#[derive(Debug)]
pub(crate) struct GracefulShutdown {
    asked: Arc<AtomicBool>,
    /// The other end of the waker.
    woken: Arc<OwnedFd>,
    waker: Option<OwnedFd>,
}

impl GracefulShutdown {
    /// Begins to watch for signals.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        let mut this = Self::later()?;
        this.begin()?;
        Ok(this)
    }

    /// One that does not take signals yet, so that they end the program while a FIFO waits for its other end.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn later() -> io::Result<Self> {
        let (woken, waker) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Self { asked: Arc::default(), woken: Arc::new(woken), waker: Some(waker) })
    }

    /// Takes signals from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if let Some(waker) = self.waker.take() {
            *lock(&ORDERLY) = Some(InterruptRequest { asked: Arc::clone(&self.asked), waker: Some(waker) });
        }
        watch()
    }

    /// An input that ends soon after the program is asked to.
    pub(crate) fn input(&self, input: File) -> impl Read + Send + use<> {
        InterruptibleInput { input, woken: Arc::clone(&self.woken), left_bytes: LEFT_BYTES }
    }

    /// Whether the program was asked to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for GracefulShutdown {
    fn drop(&mut self) {
        *lock(&ORDERLY) = None;
    }
}

/// An input that is waited for together with the waker.
struct InterruptibleInput {
    input: File,
    woken: Arc<OwnedFd>,
    left_bytes: usize,
}

impl Read for InterruptibleInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready =
                [PollFd::new(&self.input, PollFlags::IN), PollFd::new(&*self.woken, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [has_input, is_woken] = ready.map(|one| !one.revents().is_empty());
            if is_woken && (!has_input || self.left_bytes == 0) {
                return Ok(0);
            }
            if has_input {
                let most = if is_woken { into.len().min(self.left_bytes) } else { into.len() };
                let read = self.input.read(into.get_mut(..most).unwrap_or_default())?;
                if is_woken {
                    self.left_bytes -= read;
                }
                return Ok(read);
            }
        }
    }
}

/// Whether SIGHUP was ignored when the program started, as nohup does. As in tcpdump, SIGINT is taken even where a shell
/// ignores it for what runs in the background: scripts end captures with it.
fn is_hang_up_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}
