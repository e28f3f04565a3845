//! Sessions and connections as the founding documents describe them, by their sections, tested with the program. 001 is
//! draft-ietf-nfsv4-rpcrdma-cm-pvt-data-02, 004 draft-talpey-nfsv4-rdma-sess-01.

use std::path::Path;

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};
use serde_json::{Value, json};

use crate::captures::{self, Temporary};
use crate::dialects::fabric::{Fabric, Kind, Side};
use crate::dialects::writer::{Lists, NfsRdmaPrototypeProc, Writer, header};
use crate::mutations::Kept;
use crate::program::{json, output};
use crate::seeds::{connections, with_private_data_of};
use crate::tunnels::pcap;

/// The session of the captures below.
const SESSION: &[u8; 16] = b"session 12345678";

/// Padding, sizes of requests, replies and cached replies, operations, requests, RDMA Reads: the channel_attrs4 of the
/// fore channel and of the backchannel. RFC 8881 section 18.36.1.
const CHANNELS: [&[u32]; 2] = [&[64, 65_536, 32_768, 4096, 16, 48, 1, 12], &[0, 4096, 2048, 0, 2, 3, 0]];

/// Operations of NFSv4. RFC 8881 section 18.
const OP_BIND_CONN_TO_SESSION: u32 = 41;
const OP_CREATE_SESSION: u32 = 43;
const OP_DESTROY_SESSION: u32 = 44;
const OP_SEQUENCE: u32 = 53;

/// channel_dir_from_client4 and channel_dir_from_server4. RFC 8881 section 18.34.1.
const FORE: u32 = 1;
const BACK: u32 = 2;

/// Connections over iWARP between the same hosts, whose frames are a millisecond apart.
struct Network {
    connections: Vec<Fabric>,
    frames: Vec<Vec<u8>>,
    next_xid: u32,
}

impl Network {
    fn new() -> Self {
        Self { connections: Vec::new(), frames: Vec::new(), next_xid: 1 }
    }

    /// Sets up a connection, and returns its index.
    fn connect(&mut self) -> usize {
        let index = self.connections.len();
        let mut fabric = Fabric::without_set_up(Kind::Iwarp, 1024);
        fabric.connection = index as u16;
        fabric.tcp(Side::Client, 0x02, &[]);
        fabric.tcp(Side::Server, 0x12, &[]);
        fabric.tcp(Side::Client, 0x18, b"MPA ID Req Frame\x00\x01\x00\x00");
        fabric.tcp(Side::Server, 0x18, b"MPA ID Rep Frame\x00\x01\x00\x00");
        self.connections.push(fabric);
        self.take(index);
        index
    }

    /// Ends a connection with a FIN of each side.
    fn disconnect(&mut self, index: usize) {
        self.connections[index].tcp(Side::Client, 0x11, &[]);
        self.connections[index].tcp(Side::Server, 0x11, &[]);
        self.connections[index].tcp(Side::Client, 0x10, &[]);
        self.take(index);
    }

    fn take(&mut self, index: usize) {
        self.frames.append(&mut self.connections[index].frames);
    }

    /// Sends a COMPOUND of one operation, and its result. RFC 8881 section 16.2.
    fn compound(&mut self, index: usize, arguments: impl FnOnce(&mut Writer), results: impl FnOnce(&mut Writer)) {
        let xid = self.next_xid;
        self.next_xid += 1;
        let (mut call, mut reply) = (Writer::default(), Writer::default());
        // NFS version 4, COMPOUND, no credentials, no tag, minor version 1, one operation.
        call.words(&[xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 1, 1]);
        arguments(&mut call);
        // Accepted, NFS4_OK, no tag, one result.
        reply.words(&[xid, 1, 0, 0, 0, 0, 0, 0, 1]);
        results(&mut reply);
        for (from, message) in [(Side::Client, call), (Side::Server, reply)] {
            let head = header(xid, NfsRdmaPrototypeProc::Msg, &Lists::default());
            self.connections[index].send(from, &[head, message.bytes].concat());
        }
        self.take(index);
    }

    /// CREATE_SESSION; with `has_backchannel`, it binds the connection to the backchannel.
    fn create_session(&mut self, index: usize, has_backchannel: bool) {
        let flags = u32::from(has_backchannel) << 1;
        let [fore, back] = CHANNELS;
        self.compound(
            index,
            |call| {
                call.words(&[OP_CREATE_SESSION]).hyper(7).words(&[1, flags]).words(fore).words(back);
                // Callback program, AUTH_NONE.
                call.words(&[0x4000_0000, 1, 0]);
            },
            |reply| {
                reply.words(&[OP_CREATE_SESSION, 0]).fixed(SESSION).words(&[1, flags]).words(fore).words(back);
            },
        );
    }

    fn bind(&mut self, index: usize, direction: u32) {
        self.compound(
            index,
            |call| {
                call.words(&[OP_BIND_CONN_TO_SESSION]).fixed(SESSION).words(&[direction, 0]);
            },
            |reply| {
                reply.words(&[OP_BIND_CONN_TO_SESSION, 0]).fixed(SESSION).words(&[direction, 0]);
            },
        );
    }

    fn sequence(&mut self, index: usize, id: u32) {
        self.compound(
            index,
            |call| {
                call.words(&[OP_SEQUENCE]).fixed(SESSION).words(&[id, 0, 0, 0]);
            },
            |reply| {
                reply.words(&[OP_SEQUENCE, 0]).fixed(SESSION).words(&[id, 0, 47, 47, 0]);
            },
        );
    }

    fn destroy_session(&mut self, index: usize) {
        self.compound(
            index,
            |call| {
                call.words(&[OP_DESTROY_SESSION]).fixed(SESSION);
            },
            |reply| {
                reply.words(&[OP_DESTROY_SESSION, 0]);
            },
        );
    }

    fn capture(self, file: &str) -> Temporary {
        let kept = |(at, bytes): (i64, Vec<u8>)| Kept {
            time: Timestamp(1_700_000_000_000_000_000 + at * 1_000_000),
            link: LinkType::ETHERNET,
            length: bytes.len() as u32,
            bytes,
        };
        Temporary::new(file, &pcap(&(0..).zip(self.frames).map(kept).collect::<Vec<_>>()))
    }
}

/// Returns a member of the only session of each connection, in the order in which they ended.
fn of_sessions(capture: &Path, member: &str) -> Vec<Value> {
    connections(capture).iter().map(|line| line["sessions"][0][member].clone()).collect()
}

/// 004 section 2.1.2, the figures: one connection for both channels, or connections for each.
#[test]
fn seed_004_2_1_2_channels_are_bound_to_one_connection_or_to_several() {
    let mut network = Network::new();
    let only = network.connect();
    network.create_session(only, true);
    network.sequence(only, 1);
    let file = network.capture("single-connection.pcap");
    assert_eq!(of_sessions(file.path(), "bound_to"), [json!(["fore_channel", "backchannel"])]);

    let mut network = Network::new();
    let [first, second, back] = [(); 3].map(|()| network.connect());
    network.create_session(first, false);
    network.bind(back, BACK);
    network.bind(second, FORE);
    network.sequence(first, 1);
    network.sequence(second, 2);
    let file = network.capture("multi-connection.pcap");
    let bound = [json!(["fore_channel"]), json!(["fore_channel"]), json!(["backchannel"])];
    let mut lines = connections(file.path());
    lines.sort_by_key(|line| line["client_port"].as_u64());
    assert!(lines.iter().map(|line| &line["sessions"][0]["bound_to"]).eq(&bound), "{lines:?}");
    let text = output(file.path(), &["--view", "connections", "-V", "--summary", "none"]);
    assert!(text.contains("on connections 1, 2, 3, this connection bound to its backchannel; fore channel:"), "{text}");
}

/// 004 section 2.2.2: "Some of the parameters to be exchanged at session binding time": credits, sizes, RDMA Read
/// resources and padding.
#[test]
fn seed_004_2_2_2_negotiated_parameters_are_in_one_place() {
    let mut network = Network::new();
    let only = network.connect();
    network.create_session(only, true);
    let file = network.capture("negotiated.pcap");
    let line = connections(file.path()).remove(0);
    let fore = json!({
        "header_padding": 64, "max_request_size": 65_536, "max_response_size": 32_768,
        "max_cached_response_size": 4096, "max_operations": 16, "max_requests": 48, "rdma_reads": 12
    });
    let back = json!({
        "header_padding": 0, "max_request_size": 4096, "max_response_size": 2048,
        "max_cached_response_size": 0, "max_operations": 2, "max_requests": 3, "rdma_reads": null
    });
    assert_eq!((&line["sessions"][0]["fore_channel"], &line["sessions"][0]["backchannel"]), (&fore, &back));
    // Beside them, what the RPC layer and the connection have.
    assert_eq!(line["credits"]["granted"], json!(64));
    assert_eq!(line["set_up"]["inline_thresholds"], json!({"to_server": 1024, "to_client": 1024}));
    let text = output(file.path(), &["--view", "connections", "-V", "--summary", "none"]);
    let expected =
        "fore channel: up to 48 calls of 65536 bytes, replies of 32768 bytes, 64 bytes of padding, 12 RDMA Reads";
    assert!(text.contains(expected), "{text}");
    // A connection of the laboratory, with the RDMA Read resources of its CM messages.
    let line = connections(&captures::path("rxe-v42-deleg")).remove(0);
    assert_eq!(line["set_up"]["reads"]["server"]["outbound"], json!(128));
    let requests = ["fore_channel", "backchannel"].map(|channel| line["sessions"][0][channel]["max_requests"].as_u64());
    assert_eq!(requests, [Some(64), Some(16)]);
}

/// 004 section 2.6: "if a back channel is bound, the client is subject to revocation of its delegations if the back
/// channel is lost. Any connection loss should be corrected by the client as soon as possible."
#[test]
fn seed_004_2_6_the_loss_of_the_backchannel_is_reported() {
    let mut network = Network::new();
    let [fore, back] = [(); 2].map(|()| network.connect());
    network.create_session(fore, false);
    network.bind(back, BACK);
    network.disconnect(back);
    network.sequence(fore, 1);
    let file = network.capture("back-channel-lost.pcap");
    assert_eq!(of_sessions(file.path(), "backchannel_state"), [json!("lost"), json!("lost")]);
    let text = output(file.path(), &["--view", "connections", "-V", "--summary", "none"]);
    assert!(text.contains("; backchannel lost"), "{text}");

    // The client corrects it with another connection; it destroys the session before its last connection ends.
    for is_destroyed in [false, true] {
        let mut network = Network::new();
        let [fore, back] = [(); 2].map(|()| network.connect());
        network.create_session(fore, false);
        network.bind(back, BACK);
        network.disconnect(back);
        let other = network.connect();
        network.bind(other, BACK);
        if is_destroyed {
            network.destroy_session(other);
            network.disconnect(other);
        }
        let file = network.capture("back-channel-bound.pcap");
        let state = if is_destroyed { "destroyed" } else { "bound" };
        assert_eq!(of_sessions(file.path(), "backchannel_state"), [json!(state), json!(state), json!(state)]);
    }

    // Without a back channel, nothing is lost.
    let mut network = Network::new();
    let only = network.connect();
    network.create_session(only, false);
    network.disconnect(only);
    let file = network.capture("no-back-channel.pcap");
    assert_eq!(of_sessions(file.path(), "backchannel_state"), [Value::Null]);
}

/// 004 sections 2.3.1 and 2.3.3: the same exchanges lead to normal operation on a TCP stream and on a connection that
/// is in RDMA mode from its beginning.
#[test]
fn seed_004_2_3_sessions_begin_the_same_over_tcp_and_rdma() {
    let begins = |name: &str| -> (String, Vec<String>) {
        let lines = json(&captures::path(name)).transactions;
        let of_session = |line: &&crate::program::Transaction| {
            line.is_forward() && line.0["version"] == 4 && line.text("operation") != Some("NULL")
        };
        let lines: Vec<_> = lines.iter().filter(of_session).take(4).collect();
        let operations = lines.iter().map(|line| line.text("operation").unwrap().to_owned());
        (lines[0].text("transport").unwrap().to_owned(), operations.collect())
    };
    let expected = ["EXCHANGE_ID", "EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE"];
    for (name, transport) in [("tcp-v42", "tcp"), ("rxe-v42", "rocev2"), ("siw-v42", "iwarp")] {
        let (printed, operations) = begins(name);
        assert_eq!(printed, transport, "{name}");
        assert_eq!(operations, expected, "{name}");
        let line = connections(&captures::path(name)).into_iter().find(|line| line["sessions"] != json!([])).unwrap();
        assert_eq!(line["sessions"][0]["bound_to"], json!(["fore_channel", "backchannel"]), "{name}");
    }
}

/// 001 sections 4 and 5.2: "Inline threshold sizes from 1KB to 256KB can be represented", divided by 1,024 and less
/// one, in the private data of CM and of MPA.
#[test]
fn seed_001_4_private_data_has_sizes_from_1_kb_to_256_kb() {
    for name in ["rxe-v42", "siw-v42"] {
        for (encoded, bytes) in [(0, 1024), (3, 4096), (254, 255 * 1024), (255, 256 * 1024)] {
            let file = with_private_data_of(name, "sizes.pcap", [1, 0, encoded, 0], [1, 0, 0, encoded]);
            let set_up = connections(file.path())[0]["set_up"].clone();
            let sizes = [
                ("client", "send_size"),
                ("client", "receive_size"),
                ("server", "send_size"),
                ("server", "receive_size"),
            ]
            .map(|(side, size)| set_up[side][size].as_u64());
            assert_eq!(sizes, [bytes, 1024, 1024, bytes].map(Some), "{name}: {encoded}");
            assert_eq!(set_up["inline_thresholds"]["to_server"].as_u64(), Some(bytes), "{name}");
        }
    }
}
