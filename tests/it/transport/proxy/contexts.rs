//! Proxy that drops RPCSEC_GSS contexts, like a server that restarts: it denies Calls with them (RFC 2203 section
//! 5.3.3.3), and accepts only those established afterwards. It decodes each Call by the RFCs alone.

use std::collections::{BTreeSet, HashMap};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::injected_faults::FaultInjector;
use super::{Proxy, record, send};

/// RPCSEC_GSS, and its gss_proc. RFC 2203 section 5.
const RPCSEC_GSS: u32 = 6;
/// rpc_gss_svc_integrity.
const INTEGRITY: u32 = 2;
pub(crate) const DATA: u32 = 0;
pub(crate) const INIT: u32 = 1;
pub(crate) const DESTROY: u32 = 3;

/// Call with RPCSEC_GSS.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    pub(crate) xid: u32,
    pub(crate) procedure: u32,
    pub(crate) gss_proc: u32,
    pub(crate) seq_num: u32,
    pub(crate) handle: Vec<u8>,
    /// Bytes after the verifier.
    pub(crate) arguments: Vec<u8>,
    /// `true` if the arguments have a checksum: rpc_gss_svc_integrity.
    pub(crate) is_protected: bool,
    /// First operation of a COMPOUND.
    pub(crate) operation: Option<u32>,
    /// `true` if it did not reach the server.
    pub(crate) is_denied: bool,
}

/// Records and settings of a proxy.
#[derive(Debug, Default)]
pub(crate) struct ProxiedGssCalls {
    /// Calls with RPCSEC_GSS, in the order of arrival.
    pub(crate) signed: Vec<Signed>,
    /// COMPOUNDs without RPCSEC_GSS: the connection, and the first operation.
    pub(crate) unsigned: Vec<(usize, u32)>,
    /// Numbers of the Calls, from 1, at which all contexts are dropped; and the auth_stat of the denial.
    forgets: Vec<(usize, u32)>,
    /// Dropped contexts.
    forgotten: BTreeSet<Vec<u8>>,
    connections: usize,
    data: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the first operation of a COMPOUND: after its tag, the minor version and the count. RFC 8881 section 16.2.
fn operation(call: &[u8], arguments: &[u8]) -> Option<u32> {
    let is_compound = (word(call, 12)?, word(call, 16)?, word(call, 20)?) == (100_003, 4, 1);
    let tag = word(arguments, 0)? as usize;
    word(arguments, 4 + tag.next_multiple_of(4) + 8).filter(|_| is_compound)
}

/// Returns the first operation of a Call without RPCSEC_GSS.
fn unsigned(call: &[u8]) -> Option<u32> {
    let verifier = 32 + (word(call, 28)? as usize).next_multiple_of(4);
    let body = verifier + 8 + (word(call, verifier + 4)? as usize).next_multiple_of(4);
    operation(call, call.get(body..)?)
}

/// Decodes a Call; returns `None` without RPCSEC_GSS. RFC 5531 section 9, RFC 2203 section 5.
fn signed(call: &[u8], connection: usize) -> Option<Signed> {
    // XID, CALL, version of RPC, program, version, procedure; then the credential.
    if word(call, 4)? != 0 || word(call, 24)? != RPCSEC_GSS {
        return None;
    }
    let credential = word(call, 28)? as usize;
    let length = word(call, 48)? as usize;
    let verifier = 32 + credential.next_multiple_of(4);
    let arguments = call.get(verifier + 8 + (word(call, verifier + 4)? as usize).next_multiple_of(4)..)?;
    let is_protected = word(call, 44)? == INTEGRITY && word(call, 36)? == DATA;
    // A length and the sequence number precede the protected data. RFC 2203 section 5.3.2.2.
    let body = if is_protected { arguments.get(8..)? } else { arguments };
    Some(Signed {
        connection,
        xid: word(call, 0)?,
        procedure: word(call, 20)?,
        gss_proc: word(call, 36)?,
        seq_num: word(call, 40)?,
        handle: call.get(52..52 + length)?.to_vec(),
        arguments: arguments.to_vec(),
        is_protected,
        operation: operation(call, body),
        is_denied: false,
    })
}

impl ProxiedGssCalls {
    /// Records a Call. Returns the auth_stat of its denial, if it is denied.
    fn record_call(&mut self, mut call: Signed) -> Option<u32> {
        let mut denied = None;
        if call.gss_proc == DATA {
            self.data += 1;
            if self.forgets.iter().any(|(at, _)| *at == self.data) {
                self.forgotten.extend(self.signed.iter().map(|call| call.handle.clone()));
            }
            let stat = self.forgets.iter().rev().find(|(at, _)| *at <= self.data).map(|(_, stat)| *stat);
            denied = stat.filter(|_| self.forgotten.contains(&call.handle));
        }
        call.is_denied = denied.is_some();
        self.signed.push(call);
        denied
    }
}

/// Starts a proxy to a TCP server that drops all contexts at these Calls, each with its auth_stat.
pub(crate) fn forgetful(server: SocketAddr, forgets: &[(usize, u32)]) -> (Proxy, Arc<Mutex<ProxiedGssCalls>>) {
    let seen = Arc::new(Mutex::new(ProxiedGssCalls { forgets: forgets.to_vec(), ..ProxiedGssCalls::default() }));
    let of_proxy = Arc::clone(&seen);
    let proxy = Proxy::of(FaultInjector::honest(), move |client, _| {
        let Some(server) = connected(server) else { return };
        let _ = server.set_nodelay(true);
        relay(client, server, &of_proxy);
    });
    (proxy, seen)
}

/// Connects to a server, which may be restarting.
fn connected(server: SocketAddr) -> Option<TcpStream> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match TcpStream::connect(server) {
            Ok(server) => return Some(server),
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
            Err(_) => return None,
        }
    }
}

fn relay(client: TcpStream, server: TcpStream, seen: &Mutex<ProxiedGssCalls>) {
    let connection = {
        let mut seen = seen.lock().unwrap();
        seen.connections += 1;
        seen.connections - 1
    };
    let (mut from_client, to_client) = (client.try_clone().unwrap(), Mutex::new(client));
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(Some(call)) = record(&mut from_client) {
                let denied = match signed(&call, connection) {
                    Some(call) => seen.lock().unwrap().record_call(call),
                    None => {
                        let operation = unsigned(&call).map(|operation| (connection, operation));
                        seen.lock().unwrap().unsigned.extend(operation);
                        None
                    }
                };
                let sent = match denied {
                    None => send(&mut to_server, &call),
                    // REPLY, MSG_DENIED, AUTH_ERROR, and the reason.
                    Some(stat) => {
                        let words = [word(&call, 0).unwrap(), 1, 1, 1, stat].map(u32::to_be_bytes).concat();
                        send(&mut to_client.lock().unwrap(), &words)
                    }
                };
                if sent.is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown(Shutdown::Both);
        });
        while let Ok(Some(reply)) = record(&mut from_server) {
            if send(&mut to_client.lock().unwrap(), &reply).is_err() {
                break;
            }
        }
        let _ = to_client.lock().unwrap().shutdown(Shutdown::Both);
    });
}

/// Returns the number of Calls by gss_proc.
pub(crate) fn by_proc(calls: &[Signed]) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    calls.iter().for_each(|call| *counts.entry(call.gss_proc).or_default() += 1);
    counts
}
