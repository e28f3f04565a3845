//! Exercises a transport with a real NFSv4.0 server: every form of Call and Reply, sizes around every limit, many small
//! Calls with all credits in flight, and error cases.
//!
//! `transport_exercise ADDRESS:PORT PATH LARGEST CALLS [JOURNAL]`: PATH is a writable file on the server, from the root
//! of the exports; LARGEST the maximum number of bytes in one operation; CALLS the number of small Calls; JOURNAL a
//! file for one line per Call. `windows` before these enables remote invalidation, `errors` runs the error cases,
//! `recall` takes a file, and another to create as the sign that the server is to recall the client's delegation.
//! Prints a line per check; the exit code is 1 if one failed.

#![allow(clippy::disallowed_methods, reason = "an exercise makes its own files")]

mod errors;
mod journal;
mod reverse;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{Cursor, Encoder};
use nfsrdma_rpc::verbs::{self, VerbsTransport};
use nfsrdma_rpc::{
    CallTag, CapturedCallChunkLayout, ConnectOptions, ConnectTarget, DdpEligibleArgument, DisconnectReason,
    OutgoingRpcCall, PayloadContentLocation, RdmaFabric, RegisteredPayloadMemoryId, ReplySizeLimits, RequestedCallForm,
    RpcClientConnectionId, RpcClientTransport, RpcClientTransportEvent, RpcMessageWireForm, SubmitBusyReason,
    SubmitError, SubmittedCallForm, TransportKind,
};
use twox_hash::XxHash3_128;

use journal::{Came, Journal, Sent};

const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout of the first Call on an iWARP connection, if another connection can be opened.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of further connections if the first Call has no Reply.
const MORE_CONNECTIONS: u32 = 2;
/// Maximum number of bytes of a WRITE Call or a READ Reply besides the data.
const AROUND_THE_DATA: u32 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["devices"] => {
            match verbs::devices() {
                Ok(devices) => println!("{devices:#?}"),
                Err(kind) => println!("{kind}"),
            }
            ExitCode::SUCCESS
        }
        ["null", address] => report(null_only(address)),
        ["until-gone", address] => report(errors::until_gone(address)),
        ["recall", address, path, sign] => report(reverse::recall(address, path, sign)),
        ["errors", address, path] => report(errors::errors(address, path)),
        ["windows", address, path, largest, calls] => report(exercise(address, path, largest, calls, None, true)),
        ["windows", address, path, largest, calls, journal] => {
            report(exercise(address, path, largest, calls, Some(journal), true))
        }
        [address, path, largest, calls] => report(exercise(address, path, largest, calls, None, false)),
        [address, path, largest, calls, journal] => {
            report(exercise(address, path, largest, calls, Some(journal), false))
        }
        _ => {
            eprintln!("usage: transport_exercise [windows] ADDRESS:PORT PATH LARGEST CALLS [JOURNAL]");
            ExitCode::from(2)
        }
    }
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn target(address: &str, wish: ConnectOptions) -> Result<ConnectTarget> {
    // An emulated machine may be slow.
    let wish = ConnectOptions { timeout: PATIENCE, ..wish };
    Ok(ConnectTarget { address: address.parse::<SocketAddr>()?, name: address.to_owned(), options: wish })
}

fn null_only(address: &str) -> Result<()> {
    let mut client = Client::connect(address, ConnectOptions::default())?;
    let time = Instant::now();
    client.null()?;
    println!("NULL: {:?}", time.elapsed());
    Ok(())
}

/// Reply to a Call.
struct Answer {
    message: Vec<u8>,
    payload: Option<Vec<u8>>,
    form: RpcMessageWireForm,
}

struct Client {
    transport: VerbsTransport,
    connection: RpcClientConnectionId,
    xid: u32,
    journal: Journal,
}

/// Reason why a Call has no Reply.
#[derive(Debug)]
enum Unanswered {
    /// No Reply arrived within this time.
    Late(Duration),
    /// The connection was lost.
    Gone(DisconnectReason),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(time) => write!(f, "no reply within {time:?}"),
            Self::Gone(reason) => write!(f, "no reply: {reason}"),
        }
    }
}

impl std::error::Error for Unanswered {}

impl Client {
    /// Connects without any Call.
    fn open(target: &ConnectTarget, journal: Journal) -> Result<Self> {
        let mut transport = VerbsTransport::new();
        let started = Instant::now();
        let connection = transport.connect(target)?;
        let time = started.elapsed();
        let terms = transport.params(connection).context("no terms")?;
        println!("connected in {time:?}: {terms:?}");
        // A server answers a Call with a recently seen XID from its reply cache.
        let xid = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u32;
        Ok(Self { transport, connection, xid, journal })
    }

    /// Connects and waits for the Reply to NULL.
    fn connect(address: &str, wish: ConnectOptions) -> Result<Self> {
        let target = target(address, wish)?;
        let mut client = Self::open(&target, Journal::new(None)?)?;
        client.first_call(&target)?;
        Ok(client)
    }

    /// Sends NULL as the first Call of a connection. Linux's siw has a race in which the server does not see data that
    /// arrives right after connection setup: TCP acknowledges the Call, and nothing follows. So over iWARP another
    /// connection is opened then, as the kernel's own client does.
    fn first_call(&mut self, target: &ConnectTarget) -> Result<()> {
        let terms = self.transport.params(self.connection).context("no terms")?;
        let tries = if terms.kind == TransportKind::Rdma(RdmaFabric::Iwarp) { MORE_CONNECTIONS } else { 0 };
        for left in (0..=tries).rev() {
            let error = match self.null_within(if left > 0 { FIRST_PATIENCE } else { PATIENCE }) {
                Err(error) if left > 0 && error.is::<Unanswered>() => error,
                outcome => return outcome.context("NULL, the first call"),
            };
            println!("the first call of a connection over iWARP: {error:#}; another connection is opened");
            if !matches!(error.downcast_ref(), Some(Unanswered::Gone(_))) {
                self.disconnect(self.connection)?;
            }
            self.connection = self.transport.connect(target)?;
        }
        Ok(())
    }

    /// Closes a connection without pending Calls.
    fn disconnect(&mut self, connection: RpcClientConnectionId) -> Result<(DisconnectReason, usize)> {
        self.transport.disconnect(connection);
        match self.transport.poll(Some(Instant::now() + PATIENCE))? {
            Some(RpcClientTransportEvent::Disconnected { connection: gone, reason, lost_calls: lost })
                if gone == connection =>
            {
                Ok((reason, lost.len()))
            }
            other => bail!("{other:?}"),
        }
    }

    /// Encodes the header of a Call with AUTH_SYS, up to the arguments.
    fn header(&mut self, procedure: u32) -> (Xid, Encoder) {
        self.xid = self.xid.wrapping_add(1);
        let mut call = Encoder::new();
        [self.xid, 0, 2, 100_003, 4, procedure].into_iter().for_each(|word| call.word(word));
        // AUTH_SYS: stamp, machine name, uid, gid, no other groups; and no verifier.
        [1, 28, 0, 5].into_iter().for_each(|word| call.word(word));
        call.append_padded(b"tests");
        [0, 0, 0, 0, 0].into_iter().for_each(|word| call.word(word));
        (Xid(self.xid), call)
    }

    fn compound(&mut self, operations: u32) -> (Xid, Encoder) {
        let (xid, mut call) = self.header(1);
        [0, 0, operations].into_iter().for_each(|word| call.word(word));
        (xid, call)
    }

    fn submit(&mut self, call: &OutgoingRpcCall<'_>) -> Result<SubmittedCallForm> {
        Ok(self.transport.submit(self.connection, call)?)
    }

    /// Sends a Call and waits for its Reply.
    fn call(&mut self, call: &OutgoingRpcCall<'_>) -> Result<(SubmittedCallForm, Answer)> {
        self.call_within(call, PATIENCE)
    }

    fn call_within(&mut self, call: &OutgoingRpcCall<'_>, patience: Duration) -> Result<(SubmittedCallForm, Answer)> {
        let submitted = self.submit(call)?;
        let deadline = Instant::now() + patience;
        loop {
            match self.transport.poll(Some(deadline))? {
                None => {
                    self.journal.note(&Sent::new(call, submitted), None)?;
                    bail!(Unanswered::Late(patience));
                }
                Some(RpcClientTransportEvent::Disconnected { connection, reason, .. })
                    if connection == self.connection =>
                {
                    self.journal.note(&Sent::new(call, submitted), None)?;
                    bail!(Unanswered::Gone(reason));
                }
                Some(RpcClientTransportEvent::Reply(reply)) if reply.xid == call.xid => {
                    let payload = reply.payloads.items().first().and_then(|item| item.bytes);
                    let came = Came {
                        form: reply.form,
                        message: reply.message.len(),
                        payload: payload.map_or(0, <[u8]>::len),
                        invalidated: reply.invalidated.map(|handle| handle.0),
                    };
                    self.journal.note(&Sent::new(call, submitted), Some(came))?;
                    let answer = Answer {
                        message: reply.message.to_vec(),
                        payload: payload.map(<[u8]>::to_vec),
                        form: reply.form,
                    };
                    return Ok((submitted, answer));
                }
                Some(RpcClientTransportEvent::Credits { granted, .. }) => {
                    println!("credits granted: {granted}")
                }
                Some(other) => bail!("{other:?}"),
            }
        }
    }

    fn null(&mut self) -> Result<()> {
        self.null_within(PATIENCE)
    }

    fn null_within(&mut self, patience: Duration) -> Result<()> {
        let (xid, call) = self.header(0);
        let (_, answer) =
            self.call_within(&OutgoingRpcCall::without_payloads(xid, CallTag(0), call.bytes(), 100), patience)?;
        ensure!(answer.message.len() == 24, "a NULL reply of {} bytes", answer.message.len());
        Ok(())
    }

    /// Returns the filehandle of a path.
    fn look_up(&mut self, path: &str) -> Result<Vec<u8>> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let (xid, mut call) = self.compound(u32::try_from(names.len())? + 2);
        call.word(24);
        for name in &names {
            call.word(15);
            call.append_opaque(name.as_bytes());
        }
        call.word(10);
        let (_, answer) = self.call(&OutgoingRpcCall::without_payloads(xid, CallTag(0), call.bytes(), 600))?;
        let mut results = results(&answer.message)?;
        for _ in 0..=names.len() {
            operation(&mut results)?;
        }
        operation(&mut results)?;
        let length = results.word()? as usize;
        Ok(results.take_padded(length)?.to_vec())
    }

    /// Sends a WRITE with the anonymous stateid.
    fn write(
        &mut self,
        file: &[u8],
        source: PayloadContentLocation<'_>,
        shape: RequestedCallForm<'_>,
    ) -> Result<SubmittedCallForm> {
        let (xid, mut call) = self.compound(2);
        call.word(22);
        call.append_opaque(file);
        call.word(38);
        [0; 4].into_iter().for_each(|word| call.word(word));
        call.hyper(0);
        call.word(0);
        let length = match source {
            PayloadContentLocation::Copied(bytes) => u32::try_from(bytes.len())?,
            PayloadContentLocation::Shared { length, .. } => length,
        };
        call.append_chunk_length(length);
        let position = u32::try_from(call.splices().first().context("no splice")?.position)?;
        let payloads = [DdpEligibleArgument { position, source }];
        let reply = ReplySizeLimits { message_bytes: 200, payloads: &[] };
        let call = OutgoingRpcCall {
            xid,
            tag: CallTag(1),
            message: call.bytes(),
            payloads: &payloads,
            reply,
            requested_form: shape,
        };
        let (submitted, answer) = self.call(&call)?;
        let mut results = results(&answer.message)?;
        operation(&mut results)?;
        operation(&mut results)?;
        let count = results.word()?;
        ensure!(count == length, "WRITE took {count} of {length} bytes");
        Ok(submitted)
    }

    /// Sends a READ from the beginning of the file.
    fn read(
        &mut self,
        file: &[u8],
        count: u32,
        shape: RequestedCallForm<'_>,
    ) -> Result<(SubmittedCallForm, u128, RpcMessageWireForm)> {
        let (xid, mut call) = self.compound(2);
        call.word(22);
        call.append_opaque(file);
        call.word(25);
        [0; 4].into_iter().for_each(|word| call.word(word));
        call.hyper(0);
        call.word(count);
        let reply = ReplySizeLimits { message_bytes: 200, payloads: &[count] };
        let call = OutgoingRpcCall {
            xid,
            tag: CallTag(2),
            message: call.bytes(),
            payloads: &[],
            reply,
            requested_form: shape,
        };
        let (submitted, answer) = self.call(&call)?;
        let mut results = results(&answer.message)?;
        operation(&mut results)?;
        operation(&mut results)?;
        let _eof = results.word()?;
        let length = results.word()?;
        ensure!(length == count, "READ gave {length} of {count} bytes");
        let hash = match &answer.payload {
            Some(bytes) if !bytes.is_empty() => XxHash3_128::oneshot(bytes),
            _ => XxHash3_128::oneshot(results.take_padded(length as usize)?),
        };
        Ok((submitted, hash, answer.form))
    }

    /// Encodes a READDIR without attributes, whose Reply has up to `max_reply_bytes` bytes.
    fn directory_call(&mut self, directory: &[u8], max_reply_bytes: u32) -> (Xid, Encoder) {
        let (xid, mut call) = self.compound(2);
        call.word(22);
        call.append_opaque(directory);
        call.word(26);
        call.hyper(0);
        call.hyper(0);
        [max_reply_bytes, max_reply_bytes, 0].into_iter().for_each(|word| call.word(word));
        (xid, call)
    }

    /// Sends the READDIR and returns the form of the Reply.
    fn read_directory(
        &mut self,
        directory: &[u8],
        most: u32,
        shape: RequestedCallForm<'_>,
    ) -> Result<RpcMessageWireForm> {
        let (xid, call) = self.directory_call(directory, most);
        let reply = ReplySizeLimits { message_bytes: most + 200, payloads: &[] };
        let call = OutgoingRpcCall {
            xid,
            tag: CallTag(3),
            message: call.bytes(),
            payloads: &[],
            reply,
            requested_form: shape,
        };
        let (_, answer) = self.call(&call)?;
        let mut results = results(&answer.message)?;
        operation(&mut results)?;
        operation(&mut results)?;
        Ok(answer.form)
    }

    /// Keeps as many GETATTR Calls in flight as credits allow.
    fn storm(&mut self, file: &[u8], count: u64) -> Result<(Duration, u32)> {
        let started = Instant::now();
        let (mut sent, mut done, mut most) = (0u64, 0u64, 0);
        let mut tags: VecDeque<(u64, Sent)> = VecDeque::new();
        while done < count {
            while sent < count {
                let (xid, mut call) = self.compound(2);
                call.word(22);
                call.append_opaque(file);
                // GETATTR of type, change and size.
                [9, 1, 0x1a].into_iter().for_each(|word| call.word(word));
                let call = OutgoingRpcCall::without_payloads(xid, CallTag(sent), call.bytes(), 200);
                match self.transport.submit(self.connection, &call) {
                    Ok(submitted) => tags.push_back((sent, Sent::new(&call, submitted))),
                    Err(SubmitError::Busy(SubmitBusyReason::Credits | SubmitBusyReason::Queue)) => break,
                    Err(error) => return Err(error.into()),
                }
                sent += 1;
            }
            most = most.max(self.transport.credits(self.connection).context("closed")?.in_flight);
            match self.transport.poll(Some(Instant::now() + PATIENCE))? {
                Some(RpcClientTransportEvent::Reply(reply)) => {
                    let mut results = results(reply.message)?;
                    operation(&mut results)?;
                    operation(&mut results)?;
                    let at =
                        tags.iter().position(|(tag, _)| *tag == reply.tag.0).context("a tag that is not in flight")?;
                    let came = Came { form: reply.form, message: reply.message.len(), payload: 0, invalidated: None };
                    if let Some((_, sent)) = tags.remove(at) {
                        self.journal.note(&sent, Some(came))?;
                    }
                    done += 1;
                }
                Some(RpcClientTransportEvent::Credits { granted, .. }) => {
                    println!("credits granted: {granted}")
                }
                Some(other) => bail!("{other:?}"),
                None => bail!("no reply within {PATIENCE:?} after {done} of {count}"),
            }
        }
        Ok((started.elapsed(), most))
    }
}

/// Error status of a Call that the server decoded.
#[derive(Debug)]
enum Refusal {
    /// Words of an RPC Reply that was not accepted, or not with success: RFC 5531 section 9.
    Reply(Vec<u32>),
    /// Number of an operation, and its status.
    Operation(u32, u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(words) => write!(f, "no accepted reply: {words:?}"),
            Self::Operation(number, status) => write!(f, "operation {number}: status {status}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Returns the results of an accepted COMPOUND.
fn results(message: &[u8]) -> Result<Cursor<'_>> {
    let mut cursor = Cursor::new(message);
    let words = (0..6).map(|_| cursor.word()).collect::<Result<Vec<_>, _>>()?;
    ensure!(matches!(words.as_slice(), [_, 1, 0, _, 0, 0]), Refusal::Reply(words));
    let _status = cursor.word()?;
    let tag = cursor.word()? as usize;
    cursor.take_padded(tag)?;
    let _count = cursor.word()?;
    Ok(cursor)
}

/// Returns the number of an operation, which must have succeeded.
fn operation(results: &mut Cursor<'_>) -> Result<u32> {
    let (number, status) = (results.word()?, results.word()?);
    ensure!(status == 0, Refusal::Operation(number, status));
    Ok(number)
}

/// Returns bytes that depend on their position.
fn pattern(length: usize, seed: u32) -> Vec<u8> {
    let words = (0..length.div_ceil(4)).flat_map(|at| ((at as u32).wrapping_mul(2_654_435_761) ^ seed).to_be_bytes());
    words.take(length).collect()
}

fn exercise(
    address: &str,
    path: &str,
    largest: &str,
    calls: &str,
    journal: Option<&str>,
    remote_invalidation: bool,
) -> Result<()> {
    let (largest, calls): (u32, u64) = (largest.parse()?, calls.parse()?);
    let target = target(address, ConnectOptions { remote_invalidation, ..ConnectOptions::default() })?;
    let mut client = Client::open(&target, Journal::new(journal)?)?;
    let terms = client.transport.params(client.connection).and_then(|terms| terms.rdma.clone());
    // Linux invalidates without having announced it.
    let announced = terms.and_then(|terms| terms.sent).is_some_and(|sent| sent.remote_invalidation);
    if remote_invalidation && !announced {
        println!("no remote invalidation: the device has no windows");
        return Ok(());
    }
    client.first_call(&target)?;
    println!("ok NULL");
    let (directory, _) = path.rsplit_once('/').context("the path has no directory")?;
    let file = client.look_up(path).context("LOOKUP")?;
    let directory = client.look_up(directory).context("LOOKUP")?;

    let memory: Arc<[u8]> = pattern(largest as usize + 3, 77).into();
    let store = client.transport.share(&memory)?;
    let sizes = [
        1, 2, 3, 4, 5, 100, 1000, 1023, 1024, 1025, 3500, 3900, 3901, 3902, 3903, 3904, 4095, 4096, 4097, 8191, 8192,
        12_345, 65_535, 65_536, 65_537, 262_144, 524_287, 524_288, 1_000_001, 1_048_576,
    ];
    for length in sizes.into_iter().filter(|length| *length <= largest) {
        client.round_trip(&file, length, store, &memory).with_context(|| format!("{length} bytes"))?;
    }
    client.long_replies(&directory).context("Long replies")?;

    let (time, most) = client.storm(&file, calls).context("many calls")?;
    let rate = calls as f64 / time.as_secs_f64();
    let limit = client.transport.credits(client.connection).context("closed")?.limit();
    ensure!(u64::from(most) == u64::from(limit).min(calls), "{most} calls in flight with {limit} credits");
    println!("ok {calls} small calls in {time:?}, {rate:.0} a second, up to {most} in flight, which are all credits");

    // A second connection of the same transport, over the same device.
    let first = client.connection;
    client.connection = client.transport.connect(&target)?;
    client.first_call(&target).context("on a second connection")?;
    client.round_trip(&file, 5000.min(largest), store, &memory).context("on a second connection")?;
    let second = std::mem::replace(&mut client.connection, first);
    client.null().context("NULL on the first connection")?;
    println!("ok two connections");
    let (reason, lost) = client.disconnect(second)?;
    println!("ok disconnected: {reason}, {lost} lost");
    let counts = *client.transport.counts(client.connection).context("no counts")?;
    println!("{counts:?}");
    ensure!(counts.discarded == 0 && counts.replies == counts.calls, "not each call has its reply");
    ensure!(!announced || counts.invalidations > 0, "the server never invalidated a handle");
    client.journal.finish()
}

impl Client {
    /// Sends WRITE and READ of one length in several forms, and compares hashes.
    fn round_trip(&mut self, file: &[u8], length: u32, store: RegisteredPayloadMemoryId, memory: &[u8]) -> Result<()> {
        let mut forms = Vec::new();
        for seed in 0..2 {
            let bytes = pattern(length as usize, length ^ seed);
            let third = length.div_ceil(3).max(1);
            let segments = [third, third, third];
            let pieces = [&segments[..]];
            let shape = match seed {
                0 => RequestedCallForm::Fitting,
                _ => RequestedCallForm::Captured(CapturedCallChunkLayout {
                    reads: &pieces,
                    writes: &pieces,
                    ..CapturedCallChunkLayout::default()
                }),
            };
            let written = self.write(file, PayloadContentLocation::Copied(&bytes), shape).context("WRITE")?;
            let (read, hash, _) = self.read(file, length, shape).context("READ")?;
            ensure!(hash == XxHash3_128::oneshot(&bytes), "what was read is not what was written");
            forms.push((written.read_segments, read.write_segments));
        }
        let source = PayloadContentLocation::Shared { store, offset: 3, length };
        self.write(file, source, RequestedCallForm::Fitting).context("WRITE from shared memory")?;
        let (_, hash, _) = self.read(file, length, RequestedCallForm::Fitting).context("READ")?;
        let stored = memory.get(3..3 + length as usize).context("not in memory")?;
        ensure!(hash == XxHash3_128::oneshot(stored), "what was read is not what was stored");
        println!("ok {length} bytes, Read and Write segments {forms:?}");
        self.long_both_ways(file, length)
    }

    /// Sends a WRITE as a Long Call, with the data in the Position-Zero Read chunk, and a READ with a Reply chunk and
    /// no Write chunk: in one segment and in three.
    fn long_both_ways(&mut self, file: &[u8], length: u32) -> Result<()> {
        // Short enough that each message has three segments.
        let third = length.div_ceil(3).max(40);
        let rest = length + AROUND_THE_DATA;
        for (seed, segments) in [(2, &[rest][..]), (3, &[third, third, rest])] {
            let bytes = pattern(length as usize, length ^ seed);
            // The data has no Read chunk of its own.
            let shape = RequestedCallForm::Captured(CapturedCallChunkLayout {
                call: segments,
                reads: &[&[]],
                ..CapturedCallChunkLayout::default()
            });
            let written =
                self.write(file, PayloadContentLocation::Copied(&bytes), shape).context("WRITE as a long call")?;
            let sent = (written.form, written.read_segments as usize, written.changed);
            ensure!(sent == (RpcMessageWireForm::Nomsg, segments.len(), false), "it was sent as {written:?}");
            let shape = RequestedCallForm::Captured(CapturedCallChunkLayout {
                reply: segments,
                ..CapturedCallChunkLayout::default()
            });
            let (read, hash, form) = self.read(file, length, shape).context("READ with a Reply chunk")?;
            let offered = (read.write_segments, read.reply_segments as usize, read.changed);
            ensure!(offered == (0, segments.len(), false), "it was sent as {read:?}");
            ensure!(hash == XxHash3_128::oneshot(&bytes), "what was read is not what was written");
            println!("ok {length} bytes, long call and Reply chunk of {} segments: {form:?}", segments.len());
        }
        Ok(())
    }

    fn long_replies(&mut self, directory: &[u8]) -> Result<()> {
        let form = self.read_directory(directory, 16_000, RequestedCallForm::Fitting)?;
        ensure!(form == RpcMessageWireForm::Nomsg, "no long reply");
        let reply = &[4096, 1000, 3001, 9000];
        let shape =
            RequestedCallForm::Captured(CapturedCallChunkLayout { reply, ..CapturedCallChunkLayout::default() });
        let form = self.read_directory(directory, 16_000, shape)?;
        ensure!(form == RpcMessageWireForm::Nomsg, "no long reply in four segments");
        println!("ok long replies");
        Ok(())
    }
}
