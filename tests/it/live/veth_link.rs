//! A link between two network namespaces, and the program that captures at its end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nfsrdma_capture_file::CaptureFrameSource;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::captures;
use crate::player::Player;
use crate::skipped::skip;

/// Interface that sends frames, in its own namespace.
pub(crate) const SENDER: &str = "nfs0";
/// Interface that is captured on, in another namespace.
pub(crate) const RECEIVER: &str = "nfs1";

/// Two namespaces connected by a link.
pub(crate) struct Wire {
    name: String,
}

fn ip(arguments: &str) -> Result<Output, String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("ip does not start: {error}; install iproute2"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Wire {
    /// Creates a link, or reports why it cannot.
    pub(crate) fn new() -> Option<Self> {
        static WIRES: AtomicU32 = AtomicU32::new(0);
        let name = format!("nfs{}x{}", std::process::id(), WIRES.fetch_add(1, Ordering::Relaxed));
        let wire = Self { name };
        match wire.lay() {
            Ok(()) => Some(wire),
            Err(_) if !rustix::process::geteuid().is_root() => {
                skip("root", "interfaces and network namespaces need root");
                None
            }
            Err(why) => {
                skip("namespaces", format_args!("live capture is tested in network namespaces: {why}"));
                None
            }
        }
    }

    fn lay(&self) -> Result<(), String> {
        let [a, b] = [self.namespace('a'), self.namespace('b')];
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!("-n {a} link add {SENDER} mtu 9500 type veth peer name {RECEIVER} mtu 9500 netns {b}"))?;
        for (namespace, interface) in [(&a, SENDER), (&b, RECEIVER)] {
            // No packets except those of the test.
            ip(&format!("-n {namespace} link set {interface} addrgenmode none"))?;
            ip(&format!("-n {namespace} link set {interface} up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    fn namespace(&self, end: char) -> String {
        format!("{}{end}", self.name)
    }

    /// Runs `act` with a player of a capture at the sending end.
    pub(crate) fn send<R: Send>(&self, capture: &'static str, work: impl FnOnce(&mut Player) -> R + Send) -> R {
        let namespace = File::open(format!("/run/netns/{}", self.namespace('a'))).unwrap();
        // A namespace is a property of a thread.
        thread::scope(|scope| {
            let sending = scope.spawn(move || {
                setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
                let source = CaptureFrameSource::from_reader(capture, std::io::Cursor::new(captures::bytes(capture)));
                work(&mut Player::new(source, SENDER))
            });
            sending.join().unwrap()
        })
    }

    /// Returns a command at the receiving end.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace('b'), program]);
        // Set by the user of the tests.
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("SUDO_USER");
        command
    }

    /// Starts the program with these arguments, and waits until it captures.
    pub(crate) fn capture(&self, arguments: &[&str]) -> Capturing {
        let mut command = self.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        command.args(arguments);
        Capturing::start(command)
    }

    /// Sets an end of the link `up` or `down`.
    pub(crate) fn set(&self, interface: &str, state: &str) {
        let end = if interface == SENDER { 'a' } else { 'b' };
        ip(&format!("-n {} link set {interface} {state}", self.namespace(end))).unwrap();
    }

    /// Returns the number of frames accepted from the sender, without those lost by the link.
    pub(crate) fn carried(&self) -> u64 {
        let path = format!("/sys/class/net/{SENDER}/statistics/tx_packets");
        let output = ip(&format!("netns exec {} cat {path}", self.namespace('a'))).unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in ['a', 'b'] {
            let _ = ip(&format!("netns del {}", self.namespace(end)));
        }
    }
}

/// Program that captures.
pub(crate) struct Capturing {
    child: Child,
    lines: Option<mpsc::Receiver<String>>,
    errors: BufReader<ChildStderr>,
}

impl Capturing {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        errors.read_line(&mut first).unwrap();
        assert!(first.contains("capturing on"), "{first}");
        Self { child, lines: None, errors }
    }

    /// Starts reading its output.
    pub(crate) fn listen(&mut self) {
        let (sender, receiver) = mpsc::channel();
        let output = BufReader::new(self.child.stdout.take().unwrap());
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        self.lines = Some(receiver);
    }

    /// Waits for the next line.
    pub(crate) fn line(&self, patience: Duration) -> Option<String> {
        self.lines.as_ref().unwrap().recv_timeout(patience).ok()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Returns a line of `/proc/PID/status`.
    pub(crate) fn status(&self, key: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    }

    /// Interrupts the program like Ctrl-C, and returns the rest of its output and its errors. It must succeed.
    pub(crate) fn interrupt(self) -> (Vec<String>, String) {
        self.signal(Signal::SIGINT);
        self.end()
    }

    /// Waits for its end in any way, and returns its exit code and errors.
    pub(crate) fn gone(mut self) -> (Option<i32>, String) {
        let mut complaints = String::new();
        self.errors.read_to_string(&mut complaints).unwrap();
        (self.child.wait().unwrap().code(), complaints)
    }

    /// Waits for its successful end.
    pub(crate) fn end(mut self) -> (Vec<String>, String) {
        if self.lines.is_none() {
            self.listen();
        }
        let lines = self.lines.take().unwrap().into_iter().collect();
        let mut complaints = String::new();
        self.errors.read_to_string(&mut complaints).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {complaints}");
        (lines, complaints)
    }
}
