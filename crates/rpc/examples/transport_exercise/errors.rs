//! Error cases: each accepts one or two outcomes, and prints which occurred.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nfsrdma_dissectors::rpcrdma::RpcRdmaError;
use nfsrdma_rpc::{
    CallTag, CapturedCallChunkLayout, ConnectOptions, DisconnectReason, OutgoingRpcCall, PayloadContentLocation,
    PermanentSubmitRefusal, ReplySizeLimits, RequestedCallForm, RpcClientTransport, RpcClientTransportErrorKind,
    RpcClientTransportEvent, SubmitBusyReason, SubmitError,
};

use super::{Client, PATIENCE, RpcMessageWireForm, operation, pattern, results, target};

/// NFS4ERR_BADXDR, RFC 7530 section 13.1.1.3.
const BADXDR: u32 = 10036;
/// Number of attempts at a wrong port: 4 MiB each, together more than 1 GiB.
const REFUSED: u32 = 300;
/// GARBAGE_ARGS, RFC 5531 section 9.
const GARBAGE_ARGS: u32 = 4;

/// Runs the error cases during and after connection setup.
pub(crate) fn errors(address: &str, path: &str) -> Result<()> {
    let mut client = Client::connect(address, ConnectOptions::default())?;
    let (directory, _) = path.rsplit_once('/').context("the path has no directory")?;
    let directory = client.look_up(directory).context("LOOKUP")?;
    let file = client.look_up(path).context("LOOKUP")?;
    client.long_call_beside_a_chunk(&file).context("a long call beside a Read chunk")?;
    client.too_many(&directory).context("more calls than credits")?;
    client.short_reply_chunk(&directory).context("a short Reply chunk")?;
    without_private_data(address).context("without private data")?;
    wrong_port(address).context("the wrong port")
}

/// Keeps all credits in use until the connection is lost, and reconnects when the server is back.
pub(crate) fn until_gone(address: &str) -> Result<()> {
    let mut client = Client::connect(address, ConnectOptions::default())?;
    let (mut sent, mut answered) = (0u64, 0u64);
    let mut in_flight: VecDeque<CallTag> = VecDeque::new();
    let reason = loop {
        loop {
            let (xid, call) = client.header(0);
            match client
                .transport
                .submit(client.connection, &OutgoingRpcCall::without_payloads(xid, CallTag(sent), call.bytes(), 100))
            {
                Ok(_) => in_flight.push_back(CallTag(sent)),
                Err(SubmitError::Busy(_)) => break,
                // The next event has the reason.
                Err(SubmitError::Refused(PermanentSubmitRefusal::Closed)) => break,
                Err(error) => return Err(error.into()),
            }
            sent += 1;
        }
        match client.transport.poll(Some(Instant::now() + PATIENCE))? {
            Some(RpcClientTransportEvent::Reply(reply)) => {
                let at = in_flight.iter().position(|tag| *tag == reply.tag).context("a reply to no call")?;
                in_flight.remove(at);
                answered += 1;
            }
            Some(RpcClientTransportEvent::Credits { .. }) => {}
            Some(RpcClientTransportEvent::Disconnected { reason, lost_calls: lost, .. }) => {
                ensure!(!lost.is_empty(), "no call was in flight when the connection went");
                ensure!(lost == in_flight.make_contiguous(), "{lost:?} reported as lost, {in_flight:?} in flight");
                println!("ok: disconnected after {answered} calls with {} in flight: {reason}", lost.len());
                break reason;
            }
            Some(other) => bail!("{other:?}"),
            None => bail!("still connected after {answered} calls"),
        }
    };
    let is_by_server =
        matches!(reason, DisconnectReason::Closed | DisconnectReason::Reset | DisconnectReason::Unreachable);
    ensure!(is_by_server, "the server ended, but the reason is {reason:?}");
    let (xid, call) = client.header(0);
    let after = client
        .transport
        .submit(client.connection, &OutgoingRpcCall::without_payloads(xid, CallTag(0), call.bytes(), 100));
    ensure!(after == Err(SubmitError::Refused(PermanentSubmitRefusal::Closed)), "then a call is {after:?}");
    println!("ok no call is taken on it");
    connect_again(&mut client, address)
}

/// Reconnects when the server is back; until then, attempts are refused or time out.
fn connect_again(client: &mut Client, address: &str) -> Result<()> {
    let target = target(address, ConnectOptions::default())?;
    let started = Instant::now();
    let mut refused = 0;
    client.connection = loop {
        match client.transport.connect(&target) {
            Ok(connection) => break connection,
            Err(error) => {
                println!("{error}");
                refused += 1;
            }
        }
        ensure!(started.elapsed() < 4 * PATIENCE, "not connected again");
        std::thread::sleep(Duration::from_millis(100));
    };
    client.first_call(&target).context("on the new connection")?;
    println!("ok connected again after {:?}, {refused} tries before", started.elapsed());
    Ok(())
}

impl Client {
    /// Sends a WRITE as a Long Call with its data in a separate Read chunk, which RFC 8166 section 3.5.3 allows. The
    /// server either executes it or rejects the arguments, as Linux does, which never fetches that chunk.
    fn long_call_beside_a_chunk(&mut self, file: &[u8]) -> Result<()> {
        let shape = RequestedCallForm::Captured(CapturedCallChunkLayout {
            call: &[7000],
            reads: &[&[6000]],
            ..CapturedCallChunkLayout::default()
        });
        match self.write(file, PayloadContentLocation::Copied(&pattern(6000, 9)), shape) {
            Ok(submitted) => {
                let asked = (submitted.form, submitted.read_segments);
                ensure!(asked == (RpcMessageWireForm::Nomsg, 2), "it was sent as {submitted:?}");
                println!("ok a long call beside a Read chunk is done");
            }
            Err(error) => match error.downcast_ref() {
                Some(super::Refusal::Operation(_, BADXDR)) => {
                    println!("ok a long call beside a Read chunk: NFS4ERR_BADXDR");
                }
                Some(super::Refusal::Reply(words)) if words.last() == Some(&GARBAGE_ARGS) => {
                    println!("ok a long call beside a Read chunk: GARBAGE_ARGS");
                }
                _ => return Err(error),
            },
        }
        self.null().context("the connection does not go on")
    }

    /// Submits more Calls than credits: the excess is not sent, and the connection remains usable.
    fn too_many(&mut self, file: &[u8]) -> Result<()> {
        let granted = self.transport.credits(self.connection).context("closed")?.limit();
        let mut taken = 0;
        let busy = loop {
            let (xid, mut call) = self.compound(1);
            call.word(22);
            call.append_opaque(file);
            match self
                .transport
                .submit(self.connection, &OutgoingRpcCall::without_payloads(xid, CallTag(0), call.bytes(), 200))
            {
                Ok(_) => taken += 1,
                Err(SubmitError::Busy(busy)) => break busy,
                Err(error) => bail!("{error}"),
            }
        };
        ensure!((busy, taken) == (SubmitBusyReason::Credits, granted), "{busy:?} after {taken} of {granted}");
        for _ in 0..taken {
            loop {
                match self.transport.poll(Some(Instant::now() + PATIENCE))? {
                    Some(RpcClientTransportEvent::Reply(reply)) => {
                        operation(&mut results(reply.message)?)?;
                        break;
                    }
                    Some(RpcClientTransportEvent::Credits { .. }) => {}
                    other => bail!("{other:?}"),
                }
            }
        }
        self.null()?;
        println!("ok {taken} calls with {granted} credits: {}", SubmitError::Busy(busy));
        Ok(())
    }

    /// Offers a Reply chunk that is too short: the server returns ERR_CHUNK (RFC 8166 section 4.5.3) and the connection
    /// remains usable, or it closes the connection, and the Call is lost.
    fn short_reply_chunk(&mut self, directory: &[u8]) -> Result<()> {
        let (xid, call) = self.directory_call(directory, 16_000);
        let shape = RequestedCallForm::Captured(CapturedCallChunkLayout {
            reply: &[5000],
            ..CapturedCallChunkLayout::default()
        });
        let reply = ReplySizeLimits { message_bytes: 100, payloads: &[] };
        let tag = CallTag(7);
        let sent = self
            .submit(&OutgoingRpcCall { xid, tag, message: call.bytes(), payloads: &[], reply, requested_form: shape })?
            .reply_segments;
        ensure!(sent == 1, "{sent} segments in the Reply chunk");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.transport.poll(Some(deadline))? {
                Some(RpcClientTransportEvent::Credits { .. }) => {}
                Some(RpcClientTransportEvent::RdmaError { error: RpcRdmaError::Chunk, xid: of, .. }) if of == xid => {
                    println!("ok a short Reply chunk: ERR_CHUNK");
                    break;
                }
                Some(RpcClientTransportEvent::Disconnected { reason, lost_calls: lost, .. }) => {
                    ensure!(lost == [tag], "{lost:?} are lost");
                    println!("ok a short Reply chunk: {reason}");
                    return Ok(());
                }
                other => bail!("{other:?}"),
            }
        }
        self.null().context("the connection does not go on")
    }
}

/// Connects without private data: the defaults of RFC 8166 apply.
fn without_private_data(address: &str) -> Result<()> {
    let wish = ConnectOptions { private_data: false, reserved_port: false, ..ConnectOptions::default() };
    let client = Client::connect(address, wish)?;
    let terms = client.transport.params(client.connection).and_then(|terms| terms.rdma.as_ref());
    let terms = terms.context("no terms of RDMA")?;
    let inline = (terms.call_inline, terms.reply_inline);
    ensure!(inline == (1024, 1024), "the thresholds are {inline:?}");
    println!("ok without private data: 1,024 bytes inline");
    Ok(())
}

fn wrong_port(address: &str) -> Result<()> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    // Receive buffers for so many attempts would exhaust the memory that may be registered if they were not released.
    let wish = ConnectOptions { credits: 1024, ..ConnectOptions::default() };
    let mut client = Client::connect(address, wish.clone())?;
    let wrong = target(&format!("{host}:20050"), wish.clone())?;
    let mut last = None;
    for _ in 0..REFUSED {
        match client.transport.connect(&wrong) {
            Ok(_) => bail!("something listens on the wrong port"),
            Err(error) => {
                ensure!(matches!(error.kind, RpcClientTransportErrorKind::Refused), "{error}");
                last = Some(error);
            }
        }
    }
    println!("ok wrong port, {REFUSED} times: {}", last.context("never tried")?);
    let right = target(address, wish)?;
    client.connection = client.transport.connect(&right)?;
    client.first_call(&right)?;
    println!("ok connected after that");
    Ok(())
}
