//! Where the server of a run calls its clients of NFSv4.0 back: a port for each of them, and a thread that answers. RFC 7530
//! sections 10.2 and 16.33.
//!
//! A port is opened when a client first tells the server where it listens, and not before. The thread waits for nothing but the
//! network, so that an answer does not wait until the run has time, nor the run for the server's streams. What it heard the run
//! takes when it looks around ([`CallbackServer::hear`]). What CB_GETATTR asks for the run alone knows: the thread waits until that is
//! told ([`CallbackServer::tell`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Bitmap4;

use super::recording::{Exchange, ReplayRecorder, Stream};
use super::report::ReplayReport;
use super::responder;
use crate::replay::transport::tcp::callback_listener::{TcpCallbackCall, TcpCallbackListener, TcpListenPort};
use crate::replay::transport::{TransportKind, TransportParams};

/// Ports at most: beyond them clients share those that there are.
const PORTS: usize = 256;
/// How long the thread waits for what the run tells of a file.
const PATIENCE: Duration = Duration::from_secs(2);
/// Calls that wait to be recorded; then the thread waits.
const WAITING: usize = 256;

/// A client of the capture, of one of several copies.
pub(super) type ReplayClientKey = (u32, u32);

/// Ports for callbacks, and what came there.
#[derive(Debug)]
pub(super) struct CallbackServer {
    /// The server, which alone may call.
    server: IpAddr,
    state: RefCell<CallbackServerState>,
}

#[derive(Debug, Default)]
struct CallbackServerState {
    open: Vec<(ReplayClientKey, SocketAddr)>,
    thread: Option<CallbackThread>,
    is_recorded: bool,
    /// Why there are fewer than there should be.
    why: Option<String>,
}

/// The thread that answers. It ends when this is dropped.
#[derive(Debug)]
struct CallbackThread {
    handle: Option<JoinHandle<()>>,
    ports: Sender<TcpListenPort>,
    /// What the thread is woken with; its end is that of the thread.
    wake: Option<PipeWriter>,
    heard: Option<Receiver<AnsweredCallback>>,
    questions: Receiver<CallbackGetattrQuery>,
    counts: Arc<Mutex<CallbackCounts>>,
}

/// The words of a mask, and the values of the attributes.
type CallbackAttributes = (Vec<u32>, Vec<u8>);

/// CB_GETATTR of a file. RFC 7530 section 18.1.
#[derive(Debug)]
struct CallbackGetattrQuery {
    port: usize,
    handle: Vec<u8>,
    /// Words of the mask of the attributes that are asked for.
    mask: Vec<u32>,
    to: Sender<Option<CallbackAttributes>>,
}

/// Calls by operation, and those that had no answer.
#[derive(Debug, Default)]
struct CallbackCounts {
    callbacks: BTreeMap<&'static str, u64>,
    unanswered: u64,
}

/// A Call with its answer, for the recording.
#[derive(Debug)]
struct AnsweredCallback {
    port: usize,
    stream: u64,
    peer: SocketAddr,
    local: SocketAddr,
    message: Vec<u8>,
    answer: Option<Vec<u8>>,
    times: [Instant; 2],
}

impl CallbackServer {
    /// Nobody listens yet.
    pub(super) fn new(server: IpAddr) -> Self {
        Self { server, state: RefCell::default() }
    }

    /// What is heard is recorded: to be said before the first step.
    pub(super) fn record(&self) {
        self.state.borrow_mut().is_recorded = true;
    }

    /// Where a client listens that has a connection with these terms. `None` where it cannot.
    pub(super) fn address(&self, whose: ReplayClientKey, terms: &TransportParams) -> Option<SocketAddr> {
        // A server inside the program calls on the connection that it has.
        let local = terms.local.filter(|_| terms.kind != TransportKind::Loopback)?;
        let mut state = self.state.borrow_mut();
        let ports = &mut *state;
        let at = |address: &SocketAddr| address.ip().to_canonical() == local.ip().to_canonical();
        let is_full = ports.open.len() >= PORTS;
        let known = ports.open.iter().find(|(of, address)| at(address) && (is_full || *of == whose));
        if let Some((_, address)) = known {
            return Some(*address);
        }
        if is_full {
            return None;
        }
        match ports.open(local, self.server) {
            Ok(address) => {
                ports.open.push((whose, address));
                Some(address)
            }
            Err(error) => {
                ports.why.get_or_insert_with(|| format!("{}: {error}", local.ip()));
                None
            }
        }
    }

    /// Nobody takes any more what is heard.
    pub(super) fn end_recording(&self) {
        if let Some(thread) = &mut self.state.borrow_mut().thread {
            thread.heard = None;
        }
    }

    /// Takes what was heard since the last time.
    pub(super) fn hear(&self, tape: &mut dyn ReplayRecorder) {
        let state = self.state.borrow();
        let heard = state.thread.iter().flat_map(|thread| &thread.heard).flat_map(Receiver::try_iter);
        for heard in heard.take(WAITING) {
            let Some((whose, _)) = state.open.get(heard.port) else { continue };
            tape.exchanged(&Exchange {
                stream: Stream::Callback(heard.stream),
                caller: heard.peer,
                callee: heard.local,
                whose: *whose,
                step: 0,
                message: &heard.message,
                answer: heard.answer.as_deref(),
                times: heard.times,
            });
        }
    }

    /// Answers what the server has asked about files since the last time: `told` is given whose callback it is, the filehandle and the
    /// attributes.
    pub(super) fn tell(
        &self,
        mut told: impl FnMut(ReplayClientKey, &[u8], &Bitmap4<'_>) -> Option<CallbackAttributes>,
    ) {
        let state = self.state.borrow();
        let questions = state.thread.iter().flat_map(|thread| thread.questions.try_iter());
        for CallbackGetattrQuery { port, handle, mask, to } in questions.take(WAITING) {
            let whose = state.open.get(port).map(|(whose, _)| *whose);
            let answer = whose.and_then(|whose| told(whose, &handle, &Bitmap4::from(&mask[..])));
            // The thread may have stopped waiting.
            let _ = to.send(answer);
        }
    }

    /// Nobody listens any more. What was counted goes into a report.
    pub(super) fn finish(self, report: &mut ReplayReport) {
        let CallbackServerState { thread, why, .. } = self.state.into_inner();
        report.no_callbacks = why;
        let Some(thread) = thread else { return };
        let counts = Arc::clone(&thread.counts);
        drop(thread);
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, count) in std::mem::take(&mut counts.callbacks) {
            *report.callbacks.entry(name).or_default() += count;
        }
        report.unanswered += counts.unanswered;
    }
}

impl CallbackServerState {
    /// Opens a port, and has the thread listen there.
    fn open(&mut self, local: SocketAddr, server: IpAddr) -> io::Result<SocketAddr> {
        let port = TcpListenPort::open(local, server)?;
        let address = port.address();
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(CallbackThread::start(self.is_recorded)?),
        };
        let gone = || io::Error::other("the thread that listens has ended");
        thread.ports.send(port).map_err(|_| gone())?;
        thread.wake.as_mut().ok_or_else(gone)?.write_all(b"!")?;
        Ok(address)
    }
}

impl CallbackThread {
    fn start(is_recorded: bool) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        let (ports, added) = channel();
        let (to, heard) = match is_recorded {
            true => {
                let (to, heard) = sync_channel(WAITING);
                (Some(to), Some(heard))
            }
            false => (None, None),
        };
        let counts = Arc::new(Mutex::new(CallbackCounts::default()));
        let counted = Arc::clone(&counts);
        let (ask, questions) = channel();
        let listen = move || {
            // Without the network there is nothing to be done here.
            let _ =
                listen(woken, &added, &CallbackRunChannels { to: to.as_ref(), ask: &ask, counts: &counted });
        };
        let handle = Some(thread::Builder::new().name("callbacks".into()).spawn(listen)?);
        Ok(Self { handle, ports, wake: Some(wake), heard, questions, counts })
    }
}

impl Drop for CallbackThread {
    fn drop(&mut self) {
        // It may wait for room among what was heard, or for this end of the pipe.
        self.heard = None;
        self.wake = None;
        if let Some(handle) = self.handle.take() {
            // If it panicked, that was told.
            let _ = handle.join();
        }
    }
}

/// The run, as the thread knows it.
struct CallbackRunChannels<'t> {
    to: Option<&'t SyncSender<AnsweredCallback>>,
    ask: &'t Sender<CallbackGetattrQuery>,
    counts: &'t Mutex<CallbackCounts>,
}

impl CallbackRunChannels<'_> {
    /// What the run tells of a file, if it does in time.
    fn ask(&self, port: usize, handle: &[u8], mask: &Bitmap4<'_>) -> Option<CallbackAttributes> {
        let (to, answer) = channel();
        let mask = mask.words().iter().collect();
        self.ask.send(CallbackGetattrQuery { port, handle: handle.to_vec(), mask, to }).ok()?;
        answer.recv_timeout(PATIENCE).ok()?
    }
}

/// What the thread does until it is not to be woken any more.
fn listen(
    mut woken: PipeReader,
    added: &Receiver<TcpListenPort>,
    run: &CallbackRunChannels<'_>,
) -> io::Result<()> {
    let mut listening = TcpCallbackListener::default();
    let mut is_over = false;
    while !is_over {
        if listening.wait(woken.as_fd())? {
            is_over = woken.read(&mut [0; 64])? == 0;
        }
        added.try_iter().for_each(|port| listening.add(port));
        listening.serve(&mut |called| answer(called, run));
    }
    Ok(())
}

fn answer(called: &TcpCallbackCall<'_>, run: &CallbackRunChannels<'_>) -> Option<Vec<u8>> {
    let came = Instant::now();
    let mut names = Vec::new();
    let mut told = |handle: &[u8], mask: &Bitmap4<'_>| run.ask(called.port, handle, mask);
    let answer = responder::answer(called.message, &mut names, &mut told);
    {
        let mut counts = run.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            *counts.callbacks.entry(name).or_default() += 1;
        }
        counts.unanswered += u64::from(answer.is_none());
    }
    if let Some(to) = run.to {
        // Nobody records any more what comes in the end.
        let _ = to.send(AnsweredCallback {
            port: called.port,
            stream: called.stream,
            peer: called.peer,
            local: called.local,
            message: called.message.to_vec(),
            answer: answer.clone(),
            times: [came, Instant::now()],
        });
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn terms(kind: TransportKind, local: Option<SocketAddr>) -> TransportParams {
        TransportParams { kind, local, peer: (LOCAL, 2049).into(), rdma: None }
    }

    fn tcp() -> TransportParams {
        terms(TransportKind::Tcp, Some((LOCAL, 700).into()))
    }

    /// CB_NULL, as the server calls it.
    fn call(address: SocketAddr, xid: u32) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let words = [0x8000_0028, xid, 0, 2, 0x4000_0000, 1, 0, 0, 0, 0, 0];
        stream.write_all(&words.map(u32::to_be_bytes).concat()).unwrap();
        let mut reply = vec![0; 28];
        stream.read_exact(&mut reply).unwrap();
        reply
    }

    #[test]
    fn each_client_of_each_copy_has_a_port_and_keeps_it() {
        let callbacks = CallbackServer::new(LOCAL);
        let one = callbacks.address((0, 0), &tcp()).unwrap();
        assert_eq!(callbacks.address((0, 0), &tcp()), Some(one));
        let others = [(0, 1), (1, 0)].map(|whose| callbacks.address(whose, &tcp()).unwrap());
        assert!(others.iter().all(|other| *other != one) && others[0] != others[1]);
        assert_eq!(one.ip(), LOCAL);
    }

    #[test]
    fn calls_are_answered_and_counted_and_then_nobody_listens() {
        let callbacks = CallbackServer::new(LOCAL);
        let address = callbacks.address((0, 0), &tcp()).unwrap();
        let second = callbacks.address((1, 0), &tcp()).unwrap();
        for (xid, address) in [(7, address), (8, second)] {
            let reply = call(address, xid);
            let words = [0x8000_0018, xid, 1, 0, 0, 0, 0];
            assert_eq!(reply, words.map(u32::to_be_bytes).concat());
        }
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert_eq!(report.callbacks.get("CB_NULL"), Some(&2));
        assert_eq!((report.unanswered, report.no_callbacks), (0, None));
        assert!(TcpStream::connect(address).is_err() && TcpStream::connect(second).is_err());
    }

    #[test]
    fn many_clients_share_the_ports_that_there_are() {
        let callbacks = CallbackServer::new(LOCAL);
        let addresses: Vec<_> =
            (0..PORTS as u32 + 9).map(|copy| callbacks.address((copy, 0), &tcp()).unwrap()).collect();
        assert_eq!(addresses[PORTS], addresses[0]);
        assert_eq!(callbacks.state.borrow().open.len(), PORTS);
    }

    #[test]
    fn rfc7530_section_18_1_cb_getattr_is_answered_with_what_the_run_knows_of_the_file() {
        let callbacks = CallbackServer::new(LOCAL);
        let address = callbacks.address((3, 7), &tcp()).unwrap();
        // CB_COMPOUND with an empty tag, minor version 0, callback_ident 1, and CB_GETATTR of a filehandle of four bytes for the size.
        let words = [9, 0, 2, 0x4000_0000, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 3, 4, 0x6669_6c65, 1, 0x10];
        let asked = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let message: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
            let mark = 0x8000_0000 | message.len() as u32;
            stream.write_all(&[&mark.to_be_bytes()[..], &message].concat()).unwrap();
            let mut reply = vec![0; 4];
            stream.read_exact(&mut reply).unwrap();
            let mut reply = vec![0; (u32::from_be_bytes(reply[..4].try_into().unwrap()) & 0xffff) as usize];
            stream.read_exact(&mut reply).unwrap();
            reply
        });
        let mut whose = None;
        while whose.is_none() {
            callbacks.tell(|of, handle, mask| {
                assert_eq!((handle, mask.contains(4)), (&b"file"[..], true));
                whose = Some(of);
                Some((vec![0x10], 512u64.to_be_bytes().to_vec()))
            });
            thread::yield_now();
        }
        assert_eq!(whose, Some((3, 7)));
        // NFS4_OK, an empty tag, one result: CB_GETATTR, NFS4_OK, one word of the mask, eight bytes of the size.
        let expected = [0u32, 0, 1, 3, 0, 1, 0x10, 8, 0, 512].map(u32::to_be_bytes).concat();
        assert_eq!(asked.join().unwrap()[24..], expected);
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert_eq!((report.callbacks.get("CB_GETATTR"), report.unanswered), (Some(&1), 0));
    }

    #[test]
    fn where_no_port_can_be_had_it_is_told_why() {
        let callbacks = CallbackServer::new(LOCAL);
        // RFC 5737 section 3: no machine has this address.
        let elsewhere = terms(TransportKind::Tcp, Some(([192, 0, 2, 1], 700).into()));
        assert_eq!(callbacks.address((0, 0), &elsewhere), None);
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert!(report.no_callbacks.unwrap().starts_with("192.0.2.1: "));
    }

    #[test]
    fn a_server_inside_the_program_needs_no_port() {
        let callbacks = CallbackServer::new(LOCAL);
        for terms in
            [terms(TransportKind::Loopback, Some((LOCAL, 0).into())), terms(TransportKind::Tcp, None)]
        {
            assert_eq!(callbacks.address((0, 0), &terms), None);
        }
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert_eq!((report.no_callbacks, report.callbacks.len()), (None, 0));
    }

    #[test]
    fn a_recording_that_nobody_takes_any_more_holds_up_nothing() {
        let callbacks = CallbackServer::new(LOCAL);
        callbacks.record();
        let address = callbacks.address((0, 0), &tcp()).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let words = [0x8000_0028, 1, 0, 2, 0x4000_0000, 1, 0, 0, 0, 0, 0];
        for _ in 0..2 * WAITING {
            stream.write_all(&words.map(u32::to_be_bytes).concat()).unwrap();
        }
        // As many as there is room for are answered.
        let mut replies = vec![0; 28 * WAITING];
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_exact(&mut replies).unwrap();
        // And then, when none is to be recorded, all.
        callbacks.end_recording();
        stream.read_exact(&mut replies).unwrap();
        callbacks.finish(&mut ReplayReport::default());
    }

    #[test]
    fn no_stream_is_taken_before_a_client_tells_of_its_port() {
        let callbacks = CallbackServer::new(LOCAL);
        assert!(callbacks.state.borrow().thread.is_none());
        let taken = TcpListener::bind((LOCAL, 0)).unwrap();
        assert_ne!(callbacks.address((0, 0), &tcp()), taken.local_addr().ok());
    }
}
