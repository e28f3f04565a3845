//! TCP proxy between the program and a server, which decodes Replies itself ([`reply_fields`]) and injects faults in
//! them ([`injected_faults`]). It shares no code with the program.

pub(crate) mod contexts;
pub(crate) mod injected_faults;
pub(crate) mod reply_fields;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use injected_faults::FaultInjector;
use reply_fields::ProxiedCall;

/// Maximum length of a record in bytes.
const LONGEST: usize = 64 << 20;

/// Proxy that listens until it is dropped.
pub(crate) struct Proxy {
    /// Port that it listens on.
    pub(crate) port: u16,
    pub(crate) injector: Arc<Mutex<FaultInjector>>,
}

/// Reads an RPC record: RFC 5531 section 11. Returns `None` at the end of the stream.
pub(crate) fn record(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut whole = Vec::new();
    loop {
        let mut mark = [0; 4];
        match stream.read_exact(&mut mark) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mark = u32::from_be_bytes(mark);
        let (length, at) = ((mark & 0x7fff_ffff) as usize, whole.len());
        if at + length > LONGEST {
            return Err(io::Error::other("a record that is too long"));
        }
        whole.resize(at + length, 0);
        stream.read_exact(&mut whole[at..])?;
        if mark >> 31 == 1 {
            return Ok(Some(whole));
        }
    }
}

/// Sends a record in one fragment.
pub(crate) fn send(stream: &mut TcpStream, record: &[u8]) -> io::Result<()> {
    let mark = 0x8000_0000 | record.len() as u32;
    stream.write_all(&[&mark.to_be_bytes()[..], record].concat())
}

impl Proxy {
    /// Starts a proxy to a TCP server.
    pub(crate) fn to(server: SocketAddr, injector: FaultInjector) -> Self {
        Self::of(injector, move |client, injector| {
            let Ok(server) = TcpStream::connect(server) else { return };
            let _ = server.set_nodelay(true);
            relay(client, server, injector);
        })
    }

    /// Starts a server that answers each Call with raw bytes, which include the record marks.
    pub(crate) fn framing(injector: FaultInjector, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::of(injector, move |mut client, _| {
            while let Ok(Some(call)) = record(&mut client) {
                if client.write_all(&answer(&call)).is_err() {
                    return;
                }
            }
        })
    }

    /// Starts a server that answers each Call itself.
    pub(crate) fn answering(
        injector: FaultInjector,
        answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::of(injector, move |mut client, injector| {
            while let Ok(Some(call)) = record(&mut client) {
                let mut reply = answer(&call);
                if let Some(asked) = reply_fields::asked(&call) {
                    injector.lock().unwrap().process_reply(&asked, &mut reply);
                }
                if send(&mut client, &reply).is_err() {
                    return;
                }
            }
        })
    }

    /// Starts a proxy that serves each connection with `serve`.
    pub(crate) fn of(
        injector: FaultInjector,
        serve: impl Fn(TcpStream, &Mutex<FaultInjector>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let injector = Arc::new(Mutex::new(injector));
        let (serve, of_thread) = (Arc::new(serve), Arc::clone(&injector));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Its own last connection ends it.
                if Arc::strong_count(&of_thread) == 1 {
                    return;
                }
                let _ = client.set_nodelay(true);
                let (serve, injector) = (Arc::clone(&serve), Arc::downgrade(&of_thread));
                thread::spawn(move || {
                    if let Some(injector) = injector.upgrade() {
                        serve(client, &injector);
                    }
                });
            }
        });
        Self { port, injector }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.injector = Arc::new(Mutex::new(FaultInjector::honest()));
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Forwards records in both directions, until one side ends.
fn relay(client: TcpStream, server: TcpStream, injector: &Mutex<FaultInjector>) {
    let calls: Mutex<HashMap<u32, ProxiedCall>> = Mutex::new(HashMap::new());
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(Some(call)) = record(&mut from_client) {
                if let Some(asked) = reply_fields::asked(&call) {
                    calls.lock().unwrap().insert(asked.xid, asked);
                }
                if send(&mut to_server, &call).is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown(Shutdown::Both);
        });
        while let Ok(Some(mut reply)) = record(&mut from_server) {
            let xid = reply.get(..4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
            let asked = xid.and_then(|xid| calls.lock().unwrap().remove(&xid));
            if let Some(asked) = asked {
                injector.lock().unwrap().process_reply(&asked, &mut reply);
            }
            if send(&mut to_client, &reply).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
