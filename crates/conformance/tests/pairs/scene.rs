//! A connection with its set-up, on which a test sends exchanges.

use nfsrdma_dissectors::address::Lid;
use nfsrdma_dissectors::infiniband::cm::{self, CmTransportServiceType, CommunicationId, Guid, PathMtu, ServiceId};
use nfsrdma_dissectors::infiniband::{InfinibandQKey, PartitionKey, Psn, Qpn};

use crate::exchange::{Compound, Exchange, Message, Operation, RDMA_ERROR};
use crate::fabric::{Fabric, Kind, Side};
use crate::writer::Writer;

/// Flags of the start-up frames over iWARP: CRCs, no markers. RFC 5044 section 7.1.1.
pub(crate) const STARTUP_FLAGS: u8 = 0x40;

/// A connection on which a test sends.
pub(crate) struct Scene {
    pub(crate) fabric: Fabric,
    /// Rules that the conversation breaks in both forms.
    pub(crate) accepted: Vec<&'static str>,
    next_xid: u32,
}

/// Private data of a side. RFC 8797 section 4.
#[derive(Clone, Copy)]
pub(crate) struct Private {
    pub(crate) version: u8,
    pub(crate) flags: u8,
    /// Threshold in bytes: a multiple of 1,024.
    pub(crate) send: u32,
    pub(crate) receive: u32,
}

impl Private {
    /// 4,096 bytes both ways, and support of remote invalidation.
    pub(crate) const USUAL: Self = Self { version: 1, flags: 1, send: 4096, receive: 4096 };

    fn encode(self) -> Vec<u8> {
        let size = |bytes: u32| (bytes / 1024 - 1) as u8;
        let head = [0xf6, 0xab, 0x0e, 0x18, self.version, self.flags];
        [&head[..], &[size(self.send), size(self.receive)]].concat()
    }
}

impl Scene {
    /// Creates a connection whose sides have the usual private data, with one exchange on it.
    pub(crate) fn new(kind: Kind) -> Self {
        let mut scene = Self::with_private_data(kind, [Some(Private::USUAL); 2]);
        let first = Exchange::getattr3(scene.xid());
        scene.exchange(&first);
        scene
    }

    /// Creates a connection with this private data of client and server, without an exchange.
    pub(crate) fn with_private_data(kind: Kind, private: [Option<Private>; 2]) -> Self {
        Self::with_number_and_flags(kind, private, 0, [STARTUP_FLAGS; 2])
    }

    /// Creates a connection with these flags in the start-up frames of client and server over iWARP. RFC 5044 section
    /// 7.1.1.
    pub(crate) fn with_startup_flags(kind: Kind, private: [Option<Private>; 2], flags: [u8; 2]) -> Self {
        Self::with_number_and_flags(kind, private, 0, flags)
    }

    /// Creates a further connection between the same hosts, with a number above zero.
    pub(crate) fn with_number(kind: Kind, private: [Option<Private>; 2], number: u16) -> Self {
        Self::with_number_and_flags(kind, private, number, [STARTUP_FLAGS; 2])
    }

    fn with_number_and_flags(kind: Kind, private: [Option<Private>; 2], number: u16, flags: [u8; 2]) -> Self {
        let mut fabric = Fabric::without_set_up(kind, 1024);
        fabric.connection = number;
        let [client, server] = private.map(|private| private.map(Private::encode).unwrap_or_default());
        match kind {
            Kind::Roce => {
                management(&mut fabric, Side::Client, 0x10, &[&request(number), &client[..]].concat());
                management(&mut fabric, Side::Server, 0x13, &[&reply(number), &server[..]].concat());
                let id = 7 + number as u8;
                management(&mut fabric, Side::Client, 0x14, &[0, 0, 0, id, 0, 0, 0, id]);
            }
            Kind::Iwarp => {
                fabric.tcp(Side::Client, 0x02, &[]);
                fabric.tcp(Side::Server, 0x12, &[]);
                for (side, name, private) in
                    [(Side::Client, b"MPA ID Req Frame", client), (Side::Server, b"MPA ID Rep Frame", server)]
                {
                    startup(&mut fabric, side, name, flags[side as usize], &private);
                }
            }
            Kind::Tcp => {
                fabric.tcp(Side::Client, 0x02, &[]);
                fabric.tcp(Side::Server, 0x12, &[]);
            }
        }
        Self { fabric, accepted: Vec::new(), next_xid: 0x101 }
    }

    /// Returns a new XID.
    pub(crate) fn xid(&mut self) -> u32 {
        self.next_xid += 1;
        self.next_xid - 1
    }

    /// Sends all of an exchange in the usual order.
    pub(crate) fn exchange(&mut self, exchange: &Exchange) {
        self.call(exchange);
        self.fetch(exchange);
        self.place(exchange);
        self.reply(exchange);
    }

    pub(crate) fn call(&mut self, exchange: &Exchange) {
        self.send(Side::Client, &exchange.call, None);
    }

    pub(crate) fn fetch(&mut self, exchange: &Exchange) {
        for (memory, bytes) in &exchange.fetched {
            self.fabric.read(Side::Server, *memory, bytes);
        }
    }

    pub(crate) fn place(&mut self, exchange: &Exchange) {
        for (memory, bytes) in &exchange.placed {
            self.fabric.write(*memory, bytes);
        }
    }

    pub(crate) fn reply(&mut self, exchange: &Exchange) {
        self.send(Side::Server, &exchange.reply, exchange.invalidate);
    }

    fn send(&mut self, from: Side, message: &Message, invalidate: Option<u32>) {
        match self.fabric.kind {
            Kind::Roce | Kind::Iwarp => self.fabric.send_and_invalidate(from, &message.encode(), invalidate),
            Kind::Tcp => self.fabric.send(from, &message.rpc),
        }
    }

    /// Acknowledges the last packet of the server.
    pub(crate) fn acknowledge_reply(&mut self) {
        match self.fabric.kind {
            Kind::Roce => {
                let psn = self.fabric.next[Side::Server as usize] - 1;
                self.fabric.acknowledge(Side::Client, psn, 0x1f);
            }
            Kind::Iwarp | Kind::Tcp => self.fabric.tcp(Side::Client, 0x10, &[]),
        }
    }

    /// Sends RDMA_ERROR of version 1 with this code, and a range of versions. RFC 8166 section 4.5.
    pub(crate) fn error(&mut self, from: Side, xid: u32, code: &[u32]) {
        let mut to = Writer::default();
        to.words(&[xid, 1, 32, RDMA_ERROR]).words(code);
        self.fabric.send(from, &to.bytes);
    }

    /// Returns the frames, with two more exchanges at the end, which show that nothing was lost.
    pub(crate) fn frames(mut self) -> Vec<Vec<u8>> {
        for _ in 0..2 {
            let last = Exchange::getattr3(self.xid());
            self.exchange(&last);
        }
        self.fabric.frames
    }

    /// Ends the connection: DREQ of the client (InfiniBand Architecture Specification volume 1, section 12.6.10), or
    /// FINs.
    pub(crate) fn disconnect(&mut self) {
        match self.fabric.kind {
            Kind::Roce => {
                let id = 7 + self.fabric.connection as u8;
                let number = u32::from(self.fabric.connection);
                let [_, high, middle, low] = (SERVER_QPN + (number << 8)).to_be_bytes();
                let request = [0, 0, 0, id, 0, 0, 0, id, high, middle, low, 0];
                management(&mut self.fabric, Side::Client, 0x15, &request);
            }
            Kind::Iwarp | Kind::Tcp => {
                self.fabric.tcp(Side::Client, 0x11, &[]);
                self.fabric.tcp(Side::Server, 0x11, &[]);
            }
        }
    }

    /// Sends a COMPOUND and its Reply.
    pub(crate) fn compound(&mut self, compound: &Compound) {
        let exchange = compound.exchange(self.xid());
        self.exchange(&exchange);
    }

    /// Sends a CREATE_SESSION, and a SEQUENCE with sequence ID 1 on slot 0.
    pub(crate) fn session(&mut self) {
        self.compound(&Compound::new(2, &[Operation::create_session()]));
        self.compound(&Compound::new(2, &[Operation::sequence(0, 1)]));
    }

    /// Opens a second connection of the same client and server. Use it with [`Scene::on`].
    pub(crate) fn second_connection(&mut self) -> Self {
        let mut other = Self::with_number(self.fabric.kind, [Some(Private::USUAL); 2], 1);
        other.next_xid += 0x40;
        let set_up = std::mem::take(&mut other.fabric.frames);
        self.fabric.frames.extend(set_up);
        self.on(&mut other, |other| {
            let first = Exchange::getattr3(other.xid());
            other.exchange(&first);
        });
        other
    }

    /// Sends on another connection.
    pub(crate) fn on(&mut self, other: &mut Self, send: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.fabric.frames, &mut other.fabric.frames);
        send(other);
        std::mem::swap(&mut self.fabric.frames, &mut other.fabric.frames);
    }
}

/// Sends a start-up frame of MPA, of revision 1. RFC 5044 section 7.1.1.
pub(crate) fn startup(fabric: &mut Fabric, from: Side, name: &[u8; 16], flags: u8, private: &[u8]) {
    let [high, low] = (private.len() as u16).to_be_bytes();
    fabric.tcp(from, 0x18, &[&name[..], &[flags, 1, high, low], private].concat());
}

/// Sends a message of the connection manager: a datagram to queue pair 1. InfiniBand Architecture Specification volume
/// 1, sections 13.4.3 and 12.6.
fn management(fabric: &mut Fabric, from: Side, attribute: u8, message: &[u8]) {
    let mut mad = vec![1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, attribute, 0, 0, 0, 0, 0, 0];
    mad.extend(message);
    mad.resize(256, 0);
    // UD Send Only, with the queue key and the source queue pair of management.
    fabric.packet_to(from, 1, 0x64, 0, &[0x80, 1, 0, 0, 0, 0, 0, 1], &mad);
}

const CLIENT_QPN: u32 = 0x11;
const SERVER_QPN: u32 = 0x22;

fn request(number: u16) -> Vec<u8> {
    let unset = std::net::Ipv6Addr::UNSPECIFIED;
    cm::CmConnectionRequest {
        local_comm_id: CommunicationId(7 + u32::from(number)),
        service_id: ServiceId(0x1234),
        local_ca_guid: Guid(2),
        local_q_key: InfinibandQKey(0),
        local_qpn: Qpn(CLIENT_QPN + (u32::from(number) << 8)),
        responder_resources: 16,
        local_eecn: 0,
        initiator_depth: 16,
        remote_eecn: 0,
        remote_response_timeout: 20,
        transport_service: CmTransportServiceType::RC,
        end_to_end_flow_control: false,
        starting_psn: Psn(0x80_0000),
        local_response_timeout: 20,
        retry_count: 7,
        pkey: PartitionKey(0xffff),
        path_mtu: PathMtu::B1024,
        rdc_exists: false,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: false,
        extended_transport: 0,
        primary_local_lid: Lid(0xffff),
        primary_remote_lid: Lid(0xffff),
        primary_local_gid: unset,
        primary_remote_gid: unset,
        primary_flow_label: 0,
        primary_packet_rate: 0,
        primary_traffic_class: 0,
        primary_hop_limit: 64,
        primary_sl: 0,
        primary_subnet_local: true,
        primary_ack_timeout: 17,
        alternate_local_lid: Lid(0),
        alternate_remote_lid: Lid(0),
        alternate_local_gid: unset,
        alternate_remote_gid: unset,
        alternate_flow_label: 0,
        alternate_packet_rate: 0,
        alternate_traffic_class: 0,
        alternate_hop_limit: 0,
        alternate_sl: 0,
        alternate_subnet_local: false,
        alternate_ack_timeout: 0,
    }
    .encode()
    .to_vec()
}

fn reply(number: u16) -> Vec<u8> {
    cm::CmConnectionReply {
        local_comm_id: CommunicationId(7 + u32::from(number)),
        remote_comm_id: CommunicationId(7 + u32::from(number)),
        local_q_key: InfinibandQKey(0),
        local_qpn: Qpn(SERVER_QPN + (u32::from(number) << 8)),
        local_eecn: 0,
        starting_psn: Psn(0x10_0000),
        responder_resources: 16,
        initiator_depth: 16,
        target_ack_delay: 15,
        failover_accepted: 0,
        end_to_end_flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        local_ca_guid: Guid(1),
    }
    .encode()
    .to_vec()
}
