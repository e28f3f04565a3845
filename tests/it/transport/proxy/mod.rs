//! TCP proxy between the program and a server, which decodes Replies itself ([`walk`]) and injects faults in them
//! ([`lies`]). It shares no code with the program.

pub(crate) mod contexts;
pub(crate) mod lies;
pub(crate) mod walk;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use lies::Liar;
use walk::Asked;

/// Maximum length of a record in bytes.
const LONGEST: usize = 64 << 20;

/// Proxy that listens until it is dropped.
pub(crate) struct Proxy {
    /// Port that it listens on.
    pub(crate) port: u16,
    pub(crate) liar: Arc<Mutex<Liar>>,
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
    pub(crate) fn to(server: SocketAddr, liar: Liar) -> Self {
        Self::of(liar, move |client, liar| {
            let Ok(server) = TcpStream::connect(server) else { return };
            let _ = server.set_nodelay(true);
            relay(client, server, liar);
        })
    }

    /// Starts a server that answers each Call with raw bytes, which include the record marks.
    pub(crate) fn framing(liar: Liar, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::of(liar, move |mut client, _| {
            while let Ok(Some(call)) = record(&mut client) {
                if client.write_all(&answer(&call)).is_err() {
                    return;
                }
            }
        })
    }

    /// Starts a server that answers each Call itself.
    pub(crate) fn answering(liar: Liar, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::of(liar, move |mut client, liar| {
            while let Ok(Some(call)) = record(&mut client) {
                let mut reply = answer(&call);
                if let Some(asked) = walk::asked(&call) {
                    liar.lock().unwrap().hear(&asked, &mut reply);
                }
                if send(&mut client, &reply).is_err() {
                    return;
                }
            }
        })
    }

    /// Starts a proxy that serves each connection with `serve`.
    pub(crate) fn of(liar: Liar, serve: impl Fn(TcpStream, &Mutex<Liar>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let liar = Arc::new(Mutex::new(liar));
        let (serve, of_thread) = (Arc::new(serve), Arc::clone(&liar));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Its own last connection ends it.
                if Arc::strong_count(&of_thread) == 1 {
                    return;
                }
                let _ = client.set_nodelay(true);
                let (serve, liar) = (Arc::clone(&serve), Arc::downgrade(&of_thread));
                thread::spawn(move || {
                    if let Some(liar) = liar.upgrade() {
                        serve(client, &liar);
                    }
                });
            }
        });
        Self { port, liar }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.liar = Arc::new(Mutex::new(Liar::honest()));
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Forwards records in both directions, until one side ends.
fn relay(client: TcpStream, server: TcpStream, liar: &Mutex<Liar>) {
    let calls: Mutex<HashMap<u32, Asked>> = Mutex::new(HashMap::new());
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(Some(call)) = record(&mut from_client) {
                if let Some(asked) = walk::asked(&call) {
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
                liar.lock().unwrap().hear(&asked, &mut reply);
            }
            if send(&mut to_client, &reply).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
