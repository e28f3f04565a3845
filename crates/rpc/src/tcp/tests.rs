//! The TCP transport against a minimal server in another thread.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::*;
use crate::outgoing_call::DdpEligibleArgument;
use crate::params::ConnectOptions;
use crate::transport_error::{SubmitBusyReason, TransportErrorResponsibility};

fn target(address: std::net::SocketAddr) -> ConnectTarget {
    let wish = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
    ConnectTarget { address, name: "test".into(), options: wish }
}

/// Returns a transport with a connection that `serve` serves, in a thread.
fn connected(serve: impl FnOnce(TcpStream) + Send + 'static) -> (TcpTransport, RpcClientConnectionId) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    let mut tcp = TcpTransport::new();
    let connection = tcp.connect(&target(address)).unwrap();
    (tcp, connection)
}

fn read_record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

fn write_record(stream: &mut TcpStream, record: &[u8]) {
    let mark = 0x8000_0000 | record.len() as u32;
    stream.write_all(&[&mark.to_be_bytes(), record].concat()).unwrap();
}

/// Returns a record that begins like a message.
fn message(xid: u32, direction: u32, rest: &[u8]) -> Vec<u8> {
    [&xid.to_be_bytes()[..], &direction.to_be_bytes(), rest].concat()
}

/// Submits a Call with `rest` behind the direction.
fn submit(
    tcp: &mut TcpTransport,
    connection: RpcClientConnectionId,
    xid: u32,
    tag: u64,
    rest: &[u8],
) -> Result<SubmittedCallForm, SubmitError> {
    let bytes = message(xid, 0, rest);
    tcp.submit(connection, &OutgoingRpcCall::without_payloads(Xid(xid), CallTag(tag), &bytes, 100))
}

/// Writes what the server answers to a Call: the same bytes.
fn echo(stream: &mut TcpStream, call: &[u8]) {
    write_record(stream, &message(u32::from_be_bytes(*call.first_chunk().unwrap()), 1, &call[8..]));
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(5))
}

#[test]
fn replies_in_any_order_find_their_calls() {
    let (mut tcp, connection) = connected(|mut stream| {
        let first = read_record(&mut stream).unwrap();
        let second = read_record(&mut stream).unwrap();
        for call in [second, first] {
            echo(&mut stream, &call);
        }
        let _ = stream.read(&mut [0]);
    });
    for xid in [1, 2] {
        submit(&mut tcp, connection, xid, xid.into(), &[xid as u8; 4]).unwrap();
    }
    for expected in [2, 1] {
        let Some(RpcClientTransportEvent::Reply(reply)) = tcp.poll(soon()).unwrap() else { panic!() };
        assert_eq!(
            (reply.xid, reply.tag, &reply.message[8..]),
            (Xid(expected), CallTag(expected.into()), &[expected as u8; 4][..])
        );
    }
    assert!(tcp.poll(None).unwrap().is_none());
    let counts = tcp.counts(connection).unwrap();
    assert_eq!((counts.calls, counts.replies, counts.bytes_sent, counts.bytes_received), (2, 2, 32, 32));
}

#[test]
fn payloads_of_every_length_arrive_whole_copied_and_stored() {
    let (mut tcp, connection) = connected(|mut stream| {
        while let Some(call) = read_record(&mut stream) {
            echo(&mut stream, &call);
        }
    });
    let content: Vec<u8> = (0..2_000_000u32).map(|n| (n % 251) as u8).collect();
    let memory: Arc<[u8]> = content.clone().into();
    let store = tcp.share(&memory).unwrap();
    assert_eq!(tcp.share(&memory).unwrap(), store);
    for (index, length) in [1, 2, 3, 4, 1023, 65_537, 1_048_576, 1_999_999].into_iter().enumerate() {
        for source in [
            PayloadContentLocation::Copied(&content[..length]),
            PayloadContentLocation::Shared { store, offset: 0, length: length as u32 },
        ] {
            let bytes = message(index as u32, 0, &(length as u32).to_be_bytes());
            let payloads = [DdpEligibleArgument { position: 12, source }];
            let call = OutgoingRpcCall {
                payloads: &payloads,
                ..OutgoingRpcCall::without_payloads(Xid(index as u32), CallTag(0), &bytes, 100)
            };
            tcp.submit(connection, &call).unwrap();
            let Some(RpcClientTransportEvent::Reply(reply)) = tcp.poll(soon()).unwrap() else { panic!() };
            assert_eq!(reply.message.len(), call.length());
            assert!(reply.message[12..].starts_with(&content[..length]));
        }
    }
}

#[test]
fn rfc8881_section_2_10_3_1_the_server_calls_back_on_the_same_stream() {
    let (mut tcp, connection) = connected(|mut stream| {
        write_record(&mut stream, &message(7, 0, b"call"));
        let answer = read_record(&mut stream).unwrap();
        write_record(&mut stream, &message(8, 0, &answer[8..]));
        let _ = stream.read(&mut [0]);
    });
    let Some(RpcClientTransportEvent::Call(call)) = tcp.poll(soon()).unwrap() else { panic!() };
    assert_eq!((call.xid, &call.message[8..]), (Xid(7), &b"call"[..]));
    let answer = message(7, 1, b"answ");
    assert_eq!(
        tcp.answer(connection, Xid(9), &message(9, 1, b"")),
        Err(SubmitError::Refused(PermanentSubmitRefusal::NoCall))
    );
    tcp.answer(connection, Xid(7), &answer).unwrap();
    let Some(RpcClientTransportEvent::Call(call)) = tcp.poll(soon()).unwrap() else { panic!() };
    assert_eq!(&call.message[8..], b"answ");
}

#[test]
fn invalid_replies_are_reported_and_the_call_stays_in_flight() {
    let (mut tcp, connection) = connected(|mut stream| {
        let _ = read_record(&mut stream);
        write_record(&mut stream, &message(99, 1, b"")); // no such Call
        write_record(&mut stream, b"\0\0\0\x01"); // too short
        write_record(&mut stream, &message(1, 2, b"")); // neither Call nor Reply
        write_record(&mut stream, &message(1, 1, b""));
        let _ = stream.read(&mut [0]);
    });
    submit(&mut tcp, connection, 1, 5, &[]).unwrap();
    for expected in [
        ReceivedMessageDiscardReason::UnknownXid,
        ReceivedMessageDiscardReason::Short,
        ReceivedMessageDiscardReason::Header,
    ] {
        let Some(RpcClientTransportEvent::Discarded { reason: why, .. }) = tcp.poll(soon()).unwrap() else { panic!() };
        assert_eq!(why, expected);
    }
    let Some(RpcClientTransportEvent::Reply(reply)) = tcp.poll(soon()).unwrap() else { panic!() };
    assert_eq!(reply.tag, CallTag(5));
    assert_eq!(tcp.counts(connection).unwrap().discarded, 3);
}

#[test]
fn a_stream_that_ends_early_names_the_lost_calls() {
    let (mut tcp, connection) = connected(|mut stream| {
        let _ = read_record(&mut stream);
        let _ = stream.write_all(b"\x80\0\0\x20half");
    });
    submit(&mut tcp, connection, 1, 5, &[]).unwrap();
    let Some(RpcClientTransportEvent::Disconnected { lost_calls: lost, .. }) = tcp.poll(soon()).unwrap() else {
        panic!()
    };
    assert_eq!(lost, [CallTag(5)]);
    assert!(tcp.poll(None).unwrap().is_none());
    let late = submit(&mut tcp, connection, 2, 6, &[]);
    assert_eq!(late, Err(SubmitError::Refused(PermanentSubmitRefusal::Closed)));
}

#[test]
fn a_record_of_absurd_length_ends_the_connection() {
    let (mut tcp, _) = connected(|mut stream| {
        let _ = stream.write_all(b"\x7f\xff\xff\xff");
        let _ = stream.read(&mut [0]);
    });
    let Some(RpcClientTransportEvent::Disconnected { reason, .. }) = tcp.poll(soon()).unwrap() else { panic!() };
    assert_eq!(reason, DisconnectReason::Record(0x7fff_ffff));
}

#[test]
fn a_local_close_is_reported_once() {
    let (mut tcp, connection) = connected(|mut stream| {
        let _ = stream.read(&mut [0]);
    });
    tcp.disconnect(connection);
    let Some(RpcClientTransportEvent::Disconnected { reason, .. }) = tcp.poll(soon()).unwrap() else { panic!() };
    assert_eq!(reason, DisconnectReason::LocalClose);
    tcp.disconnect(connection);
    assert!(tcp.poll(None).unwrap().is_none());
}

#[test]
fn a_server_that_reads_nothing_makes_the_transport_busy_and_no_more() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (mut tcp, connection) = connected(move |stream| {
        let _ = stopped.recv();
        drop(stream);
    });
    let payload = vec![0; 4 << 20];
    let error = (0..100).find_map(|xid| {
        let bytes = message(xid, 0, b"");
        let payloads = [DdpEligibleArgument { position: 8, source: PayloadContentLocation::Copied(&payload) }];
        let call = OutgoingRpcCall {
            payloads: &payloads,
            ..OutgoingRpcCall::without_payloads(Xid(xid), CallTag(0), &bytes, 100)
        };
        tcp.submit(connection, &call).err()
    });
    assert_eq!(error, Some(SubmitError::Busy(SubmitBusyReason::Queue)));
    drop(stop);
}

#[test]
fn a_refused_connection_is_reported_with_a_remedy() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = TcpTransport::new().connect(&target(address)).unwrap_err();
    assert!(matches!(error.kind, RpcClientTransportErrorKind::Refused));
    assert_eq!(error.blame(), TransportErrorResponsibility::Unreachable);
    assert_eq!(
        error.to_string(),
        format!("test ({address}): connection refused; check the port and that the server is running")
    );
}

/// RFC 9293 section 3.6.1: TIME-WAIT is a state of a connection, not of a port.
#[test]
fn reserved_ports_outlast_many_servers() {
    // Only root, or a process with the capability, gets a reserved port; everyone gets a connection.
    let is_root = rustix::process::geteuid().is_root();
    // More connections than there are reserved ports, each closed by this side first.
    for _ in 0..400 {
        let (mut tcp, connection) = connected(|mut stream| {
            let _ = stream.read(&mut [0]);
        });
        let port = tcp.params(connection).unwrap().local.unwrap().port();
        assert!(port < 1024 || !is_root, "{port}");
        tcp.disconnect(connection);
    }
}

#[test]
fn endless_empty_fragments_do_not_extend_the_deadline() {
    // Empty fragments, none of which is the last.
    let (mut tcp, _) = connected(|mut stream| while stream.write_all(&[0; 4096]).is_ok() {});
    let begin = Instant::now();
    assert!(tcp.poll(Some(begin + Duration::from_millis(200))).unwrap().is_none());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(tcp.poll(None).unwrap().is_none());
}
