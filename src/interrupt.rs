//! Signals that end the program: SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start (nohup).
//!
//! By default they end the program at once and leave its unfinished files. With [`watch`], the unfinished files are
//! removed first. A command that can end gracefully, such as a capture, holds a [`ShutdownSignalRegistration`]: the
//! first signal sets its flag, and one that follows later than [`REPEATED_WITHIN`] ends the program.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// State of signal handling.
#[derive(Debug)]
enum SignalHandlingState {
    /// Default action of the system.
    Default,
    /// Signals are caught and stay pending.
    Caught(Signals),
    /// A thread handles the signals.
    Handled,
}

static WATCH: Mutex<SignalHandlingState> = Mutex::new(SignalHandlingState::Default);
/// Request flag of the command that ends gracefully.
static SHUTDOWN_REQUEST: Mutex<Option<InterruptRequest>> = Mutex::new(None);

/// Maximum number of bytes still read from an input after an interrupt: the content of a pipe.
const MAX_DRAINED_BYTES: usize = 1 << 20;
/// Signals that follow the first one within this time repeat it: `timeout` signals its child and then the process
/// group, and a shell passes the SIGHUP of its terminal on.
const REPEATED_WITHIN: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Catches signals and keeps them pending until [`watch`] is called. Starts no thread, so that privileges can be
/// dropped after it.
///
/// # Errors
/// Returns an error if the system refuses.
pub(crate) fn catch() -> io::Result<()> {
    let mut state = lock(&WATCH);
    if matches!(*state, SignalHandlingState::Default) {
        let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
        *state = SignalHandlingState::Caught(Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up))?);
        // A file size limit (ulimit -f) becomes a write error instead of a signal that ends the program.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    }
    Ok(())
}

/// Starts the thread that handles signals: it removes unfinished files and ends the program, unless a
/// [`ShutdownSignalRegistration`] is active.
///
/// # Errors
/// Returns an error if the system refuses.
pub(crate) fn watch() -> io::Result<()> {
    catch()?;
    let mut state = lock(&WATCH);
    if matches!(*state, SignalHandlingState::Caught(_))
        && let SignalHandlingState::Caught(signals) = std::mem::replace(&mut *state, SignalHandlingState::Handled)
    {
        thread::Builder::new().name("signals".into()).spawn(move || handle_signals(signals))?;
    }
    Ok(())
}

fn handle_signals(mut signals: Signals) {
    let mut requested_at: Option<Instant> = None;
    for signal in signals.forever() {
        if requested_at.is_some_and(|at| at.elapsed() < REPEATED_WITHIN) {
            continue;
        }
        if let Some(request) = lock(&SHUTDOWN_REQUEST).as_mut()
            && !request.requested.swap(true, Ordering::Relaxed)
        {
            requested_at = Some(Instant::now());
            // Wakes a reader that waits for input.
            request.waker = None;
            continue;
        }
        let guard = nfsrdma_output_file::remove_unfinished();
        // The program ends here.
        let _ = emulate_default_handler(signal);
        drop(guard);
    }
}

/// Flag that the first signal sets.
#[derive(Debug)]
struct InterruptRequest {
    requested: Arc<AtomicBool>,
    /// Write end of the wake-up pipe; closed at the request.
    waker: Option<OwnedFd>,
}

/// Registration for a graceful shutdown. While one is active, the first signal only sets its flag.
#[derive(Debug)]
pub(crate) struct ShutdownSignalRegistration {
    requested: Arc<AtomicBool>,
    /// Read end of the wake-up pipe.
    woken: Arc<OwnedFd>,
    waker: Option<OwnedFd>,
}

impl ShutdownSignalRegistration {
    /// Creates an active registration.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        let mut registration = Self::inactive()?;
        registration.activate()?;
        Ok(registration)
    }

    /// Creates an inactive registration: signals still end the program, for instance while a FIFO waits for its other
    /// end.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(crate) fn inactive() -> io::Result<Self> {
        let (pipe_reader, waker) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Self { requested: Arc::default(), woken: Arc::new(pipe_reader), waker: Some(waker) })
    }

    /// Activates the registration.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(crate) fn activate(&mut self) -> io::Result<()> {
        if let Some(waker) = self.waker.take() {
            *lock(&SHUTDOWN_REQUEST) =
                Some(InterruptRequest { requested: Arc::clone(&self.requested), waker: Some(waker) });
        }
        watch()
    }

    /// Wraps an input so that it ends soon after the request.
    pub(crate) fn input(&self, input: File) -> impl Read + Send + use<> {
        InterruptibleInput { input, woken: Arc::clone(&self.woken), left_bytes: MAX_DRAINED_BYTES }
    }

    /// Returns the flag that the first signal sets.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    /// Returns `true` if a signal requested the end.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

impl Drop for ShutdownSignalRegistration {
    fn drop(&mut self) {
        *lock(&SHUTDOWN_REQUEST) = None;
    }
}

/// Input that is polled together with the wake-up pipe.
struct InterruptibleInput {
    input: File,
    woken: Arc<OwnedFd>,
    left_bytes: usize,
}

impl Read for InterruptibleInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = [PollFd::new(&self.input, PollFlags::IN), PollFd::new(&*self.woken, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [has_input, is_woken] = ready.map(|poll_fd| !poll_fd.revents().is_empty());
            if is_woken && (!has_input || self.left_bytes == 0) {
                return Ok(0);
            }
            if has_input {
                let max_bytes = if is_woken { buffer.len().min(self.left_bytes) } else { buffer.len() };
                let read = self.input.read(buffer.get_mut(..max_bytes).unwrap_or_default())?;
                if is_woken {
                    self.left_bytes -= read;
                }
                return Ok(read);
            }
        }
    }
}

/// Returns `true` if SIGHUP was ignored at the start, as by nohup. As in tcpdump, SIGINT is handled even if a shell
/// ignores it for background jobs: scripts end captures with it.
fn is_hang_up_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}
