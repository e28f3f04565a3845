//! Callback server for the NFSv4.0 clients of a run: a port for each client, and a thread that answers. RFC 7530
//! sections 10.2 and 16.33.
//!
//! A port is opened when a client first gives the server its callback address. The thread waits only for the network,
//! so neither the answers nor the run are delayed by each other. The run collects the recorded Calls regularly
//! ([`CallbackServer::record_answered`]). Only the run can answer CB_GETATTR: the thread waits for its answer
//! ([`CallbackServer::answer_getattr_queries`]).

use std::cell::RefCell;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Bitmap4;
use nfsrdma_rpc::tcp::callback_listener::{TcpCallbackCall, TcpCallbackListener, TcpCallbackPort};
use nfsrdma_rpc::{NegotiatedTransportParams, TransportKind};

use super::callback_responder;
use super::report::{CallbackCounts, ReplayReport};
use super::report_merge::add_counts;
use super::trace_recording::{CallbackOrAuxiliaryCallAndReply, CallbackOrAuxiliaryStream, ReplayMessageRecorder};

/// Maximum number of ports; further clients share them.
const MAX_PORTS: usize = 256;
/// Maximum time that the thread waits for the run's answer about a file.
const GETATTR_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of Calls that wait to be recorded; beyond it the thread blocks.
const MAX_QUEUED_CALLS: usize = 256;

/// Client copy and captured client.
pub(super) type ReplayClientKey = (u32, u32);

#[derive(Debug)]
pub(super) struct CallbackServer {
    /// Address of the server, the only one that may call.
    server: IpAddr,
    state: RefCell<CallbackServerState>,
}

#[derive(Debug, Default)]
struct CallbackServerState {
    open: Vec<(ReplayClientKey, SocketAddr)>,
    thread: Option<CallbackThread>,
    is_recorded: bool,
    open_error: Option<String>,
}

/// The thread that answers. It ends when this is dropped.
#[derive(Debug)]
struct CallbackThread {
    handle: Option<JoinHandle<()>>,
    ports: Sender<TcpCallbackPort>,
    /// Pipe that wakes the thread; closing it ends the thread.
    wake: Option<PipeWriter>,
    answered: Option<Receiver<AnsweredCallback>>,
    getattr_queries: Receiver<CallbackGetattrQuery>,
    counts: Arc<Mutex<CallbackCounts>>,
}

/// Mask words and attribute values.
type CallbackAttributes = (Vec<u32>, Vec<u8>);

/// CB_GETATTR of a file. RFC 7530 section 18.1.
#[derive(Debug)]
struct CallbackGetattrQuery {
    port: usize,
    handle: Vec<u8>,
    /// Mask words of the requested attributes.
    mask: Vec<u32>,
    answer_sender: Sender<Option<CallbackAttributes>>,
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
    pub(super) fn new(server: IpAddr) -> Self {
        Self { server, state: RefCell::default() }
    }

    /// Starts recording; called before the first step.
    pub(super) fn record(&self) {
        self.state.borrow_mut().is_recorded = true;
    }

    /// Returns the callback address of a client with such a connection, or `None` if no port can be opened.
    pub(super) fn address(
        &self,
        client_key: ReplayClientKey,
        params: &NegotiatedTransportParams,
    ) -> Option<SocketAddr> {
        // A server inside this program uses the existing connection.
        let local = params.local.filter(|_| params.kind != TransportKind::Loopback)?;
        let mut state = self.state.borrow_mut();
        let ports = &mut *state;
        let is_local = |address: &SocketAddr| address.ip().to_canonical() == local.ip().to_canonical();
        let is_full = ports.open.len() >= MAX_PORTS;
        let port = ports.open.iter().find(|(key, address)| is_local(address) && (is_full || *key == client_key));
        if let Some((_, address)) = port {
            return Some(*address);
        }
        if is_full {
            return None;
        }
        let opened = ports.open(local, self.server);
        if let Err(error) = &opened {
            ports.open_error.get_or_insert_with(|| format!("{}: {error}", local.ip()));
        }
        ports.open.extend(opened.as_ref().ok().map(|address| (client_key, *address)));
        opened.ok()
    }

    pub(super) fn end_recording(&self) {
        if let Some(thread) = &mut self.state.borrow_mut().thread {
            thread.answered = None;
        }
    }

    /// Records the Calls received since the last call.
    pub(super) fn record_answered(&self, recorder: &mut dyn ReplayMessageRecorder) {
        let state = self.state.borrow();
        let calls = state.thread.iter().flat_map(|thread| &thread.answered).flat_map(Receiver::try_iter);
        for call in calls.take(MAX_QUEUED_CALLS) {
            let Some((client_key, _)) = state.open.get(call.port).copied() else { continue };
            recorder.record_exchange(&CallbackOrAuxiliaryCallAndReply {
                stream: CallbackOrAuxiliaryStream::Callback(call.stream),
                caller: call.peer,
                callee: call.local,
                client_key,
                step: 0,
                message: &call.message,
                answer: call.answer.as_deref(),
                times: call.times,
            });
        }
    }

    /// Answers the CB_GETATTR queries since the last call; `query` gets client, filehandle and attribute mask.
    pub(super) fn answer_getattr_queries(
        &self,
        mut query: impl FnMut(ReplayClientKey, &[u8], &Bitmap4<'_>) -> Option<CallbackAttributes>,
    ) {
        let state = self.state.borrow();
        let queries = state.thread.iter().flat_map(|thread| thread.getattr_queries.try_iter());
        for CallbackGetattrQuery { port, handle, mask, answer_sender } in queries.take(MAX_QUEUED_CALLS) {
            let client_key = state.open.get(port).map(|(key, _)| *key);
            let attributes = client_key.and_then(|key| query(key, &handle, &Bitmap4::from(&mask[..])));
            // The thread may have stopped waiting.
            let _ = answer_sender.send(attributes);
        }
    }

    /// Closes the ports and adds the counts to a report.
    pub(super) fn finish(self, report: &mut ReplayReport) {
        let CallbackServerState { thread, open_error, .. } = self.state.into_inner();
        report.callbacks.listen_error = open_error;
        let Some(thread) = thread else { return };
        let counts = Arc::clone(&thread.counts);
        drop(thread);
        let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        add_counts(&mut report.callbacks.by_operation, &counts.by_operation);
        report.callbacks.unanswered += counts.unanswered;
    }
}

impl CallbackServerState {
    /// Opens a port and passes it to the thread.
    fn open(&mut self, local: SocketAddr, server: IpAddr) -> io::Result<SocketAddr> {
        let port = TcpCallbackPort::open(local, server)?;
        let address = port.address();
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(CallbackThread::start(self.is_recorded)?),
        };
        let thread_ended = || io::Error::other("the thread that listens has ended");
        thread.ports.send(port).map_err(|_| thread_ended())?;
        thread.wake.as_mut().ok_or_else(thread_ended)?.write_all(b"!")?;
        Ok(address)
    }
}

impl CallbackThread {
    fn start(is_recorded: bool) -> io::Result<Self> {
        let (wake_reader, wake) = io::pipe()?;
        let (ports, new_ports) = channel();
        let (answered_sender, answered) = is_recorded.then(|| sync_channel(MAX_QUEUED_CALLS)).unzip();
        let counts = Arc::<Mutex<CallbackCounts>>::default();
        let (query_sender, getattr_queries) = channel();
        let channels = CallbackRunChannels { answered_sender, query_sender, counts: Arc::clone(&counts) };
        // Without the network the thread has nothing to do.
        let listen = move || _ = serve_callbacks(wake_reader, &new_ports, &channels);
        let handle = Some(thread::Builder::new().name("callbacks".into()).spawn(listen)?);
        Ok(Self { handle, ports, wake: Some(wake), answered, getattr_queries, counts })
    }
}

impl Drop for CallbackThread {
    fn drop(&mut self) {
        // The thread may be blocked on the full queue or on this end of the pipe.
        self.answered = None;
        self.wake = None;
        if let Some(handle) = self.handle.take() {
            // A panic was already reported.
            let _ = handle.join();
        }
    }
}

/// Channels from the thread to the run.
struct CallbackRunChannels {
    answered_sender: Option<SyncSender<AnsweredCallback>>,
    query_sender: Sender<CallbackGetattrQuery>,
    counts: Arc<Mutex<CallbackCounts>>,
}

impl CallbackRunChannels {
    /// Returns the run's answer about a file, unless it times out.
    fn query_attributes(&self, port: usize, handle: &[u8], mask: &Bitmap4<'_>) -> Option<CallbackAttributes> {
        let (answer_sender, answer_receiver) = channel();
        let (handle, mask) = (handle.to_vec(), mask.words().iter().collect());
        self.query_sender.send(CallbackGetattrQuery { port, handle, mask, answer_sender }).ok()?;
        answer_receiver.recv_timeout(GETATTR_TIMEOUT).ok()?
    }
}

/// Serves the ports until the pipe is closed.
fn serve_callbacks(
    mut wake_reader: PipeReader,
    new_ports: &Receiver<TcpCallbackPort>,
    channels: &CallbackRunChannels,
) -> io::Result<()> {
    let mut listener = TcpCallbackListener::default();
    let mut is_over = false;
    while !is_over {
        if listener.wait(wake_reader.as_fd())? {
            is_over = wake_reader.read(&mut [0; 64])? == 0;
        }
        new_ports.try_iter().for_each(|port| listener.add(port));
        listener.serve(&mut |call| answer_call(call, channels));
    }
    Ok(())
}

fn answer_call(call: &TcpCallbackCall<'_>, channels: &CallbackRunChannels) -> Option<Vec<u8>> {
    let received_at = Instant::now();
    let mut names = Vec::new();
    let mut query = |handle: &[u8], mask: &Bitmap4<'_>| channels.query_attributes(call.port, handle, mask);
    let reply = callback_responder::answer_callback(call.message, &mut names, &mut query);
    {
        let mut counts = channels.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            *counts.by_operation.entry(name).or_default() += 1;
        }
        counts.unanswered += u64::from(reply.is_none());
    }
    if let Some(sender) = &channels.answered_sender {
        // The recording may have ended.
        let _ = sender.send(AnsweredCallback {
            port: call.port,
            stream: call.stream,
            peer: call.peer,
            local: call.local,
            message: call.message.to_vec(),
            answer: reply.clone(),
            times: [received_at, Instant::now()],
        });
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn terms(kind: TransportKind, local: Option<SocketAddr>) -> NegotiatedTransportParams {
        NegotiatedTransportParams { kind, local, peer: (LOCAL, 2049).into(), rdma: None }
    }

    fn tcp() -> NegotiatedTransportParams {
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
    fn calls_are_answered_and_counted_until_the_end() {
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
        assert_eq!(report.callbacks.by_operation.get("CB_NULL"), Some(&2));
        assert_eq!((report.callbacks.unanswered, report.callbacks.listen_error), (0, None));
        assert!(TcpStream::connect(address).is_err() && TcpStream::connect(second).is_err());
    }

    #[test]
    fn clients_beyond_the_limit_share_ports() {
        let callbacks = CallbackServer::new(LOCAL);
        let addresses: Vec<_> =
            (0..MAX_PORTS as u32 + 9).map(|copy| callbacks.address((copy, 0), &tcp()).unwrap()).collect();
        assert_eq!(addresses[MAX_PORTS], addresses[0]);
        assert_eq!(callbacks.state.borrow().open.len(), MAX_PORTS);
    }

    #[test]
    fn rfc7530_section_18_1_cb_getattr_is_answered_with_known_attributes() {
        let callbacks = CallbackServer::new(LOCAL);
        let address = callbacks.address((3, 7), &tcp()).unwrap();
        // CB_COMPOUND with an empty tag, minor version 0, callback_ident 1, and CB_GETATTR of a filehandle of four
        // bytes for the size.
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
            callbacks.answer_getattr_queries(|of, handle, mask| {
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
        assert_eq!((report.callbacks.by_operation.get("CB_GETATTR"), report.callbacks.unanswered), (Some(&1), 0));
    }

    #[test]
    fn a_failure_to_listen_is_reported_with_its_cause() {
        let callbacks = CallbackServer::new(LOCAL);
        // RFC 5737 section 3: no machine has this address.
        let elsewhere = terms(TransportKind::Tcp, Some(([192, 0, 2, 1], 700).into()));
        assert_eq!(callbacks.address((0, 0), &elsewhere), None);
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert!(report.callbacks.listen_error.unwrap().starts_with("192.0.2.1: "));
    }

    #[test]
    fn a_server_inside_the_program_needs_no_port() {
        let callbacks = CallbackServer::new(LOCAL);
        for terms in [terms(TransportKind::Loopback, Some((LOCAL, 0).into())), terms(TransportKind::Tcp, None)] {
            assert_eq!(callbacks.address((0, 0), &terms), None);
        }
        let mut report = ReplayReport::default();
        callbacks.finish(&mut report);
        assert_eq!((report.callbacks.listen_error, report.callbacks.by_operation.len()), (None, 0));
    }

    #[test]
    fn callbacks_beyond_a_full_queue_are_answered_after_the_recording() {
        let callbacks = CallbackServer::new(LOCAL);
        callbacks.record();
        let address = callbacks.address((0, 0), &tcp()).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let words = [0x8000_0028, 1, 0, 2, 0x4000_0000, 1, 0, 0, 0, 0, 0];
        for _ in 0..2 * MAX_QUEUED_CALLS {
            stream.write_all(&words.map(u32::to_be_bytes).concat()).unwrap();
        }
        // Calls are answered until the queue is full.
        let mut replies = vec![0; 28 * MAX_QUEUED_CALLS];
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_exact(&mut replies).unwrap();
        // After the end of the recording all are answered.
        callbacks.end_recording();
        stream.read_exact(&mut replies).unwrap();
        callbacks.finish(&mut ReplayReport::default());
    }

    #[test]
    fn no_thread_listens_before_a_client_needs_a_port() {
        let callbacks = CallbackServer::new(LOCAL);
        assert!(callbacks.state.borrow().thread.is_none());
        let taken = TcpListener::bind((LOCAL, 0)).unwrap();
        assert_ne!(callbacks.address((0, 0), &tcp()), taken.local_addr().ok());
    }
}
