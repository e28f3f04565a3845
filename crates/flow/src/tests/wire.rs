//! Builds the frames of conversations with the encoders of the described structures: every header and
//! message that the flow decodes in these tests was encoded by the same structure.

use std::net::IpAddr;

use nfsrdma_dissectors::address::{Lid, Port};
use nfsrdma_dissectors::infiniband::cm::{self, CommunicationId, Guid, ServiceId};
use nfsrdma_dissectors::infiniband::icrc::{self, Icrc};
use nfsrdma_dissectors::infiniband::mad::{MadAttributeId, MadHeader, MadManagementClass, MadMethod, MadTransactionId};
use nfsrdma_dissectors::infiniband::{
    Aeth, Bth, BthOpcode, Deth, Ieth, ImmDt, ImmediateData, InfinibandQKey, Msn, NakCode, PartitionKey, Psn, Qpn,
    RdmaEncapsulation, Reth, Syndrome,
};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::net::{EtherType, Ethernet, IpIdentification, IpProtocol, Ipv4, Ipv6, LengthInWords, Udp};
use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::message::{Memory, Rdma};

/// Frames in capture order.
pub(super) type Frames = Vec<Vec<u8>>;

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Client,
    Server,
}
pub(super) use Who::{Client, Server};

impl Who {
    fn peer(self) -> Self {
        match self {
            Client => Server,
            Server => Client,
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) address: IpAddr,
    pub(super) qpn: u32,
    /// Sequence number of its next request.
    pub(super) psn: Psn,
}

/// A connection that a test sends over.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) client: Node,
    pub(super) server: Node,
    pub(super) mtu: usize,
}

impl Link {
    /// Creates a connection between 10.9.0.2 and 10.9.0.1, both with this queue pair number.
    pub(super) fn new(qpn: u32) -> Self {
        let node = |address: &str, psn| Node { address: address.parse().unwrap(), qpn, psn: Psn(psn) };
        // Far enough apart, and from those of other connections, that nothing pairs by chance.
        let base = 0x10_0000 + (qpn << 14);
        Self { client: node("10.9.0.2", base), server: node("10.9.0.1", base + 0x60_0000), mtu: 1024 }
    }

    /// Sets the queue pair numbers.
    pub(super) fn qpns(mut self, client: u32, server: u32) -> Self {
        (self.client.qpn, self.server.qpn) = (client, server);
        self
    }

    /// Sets the addresses.
    pub(super) fn between(mut self, client: &str, server: &str) -> Self {
        (self.client.address, self.server.address) = (client.parse().unwrap(), server.parse().unwrap());
        self
    }

    /// Sets the next sequence numbers of both sides.
    pub(super) fn psns(mut self, client: u32, server: u32) -> Self {
        (self.client.psn, self.server.psn) = (Psn(client), Psn(server));
        self
    }

    pub(super) fn node(&mut self, who: Who) -> &mut Node {
        match who {
            Client => &mut self.client,
            Server => &mut self.server,
        }
    }

    /// One packet to the peer of `who`.
    pub(super) fn packet(&self, who: Who, opcode: BthOpcode, psn: Psn, headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let (from, to) = match who {
            Client => (self.client, self.server),
            Server => (self.server, self.client),
        };
        frame(from.address, to.address, opcode, to.qpn, psn, headers, payload)
    }

    fn take_psns(&mut self, who: Who, count: usize) -> Psn {
        let node = self.node(who);
        let first = node.psn;
        node.psn = first.add(count as u32);
        first
    }

    /// A message as a SEND of as many packets as it needs.
    pub(super) fn send(&mut self, who: Who, message: &Rdma) -> Frames {
        self.send_bytes(who, &message.bytes())
    }

    pub(super) fn send_bytes(&mut self, who: Who, bytes: &[u8]) -> Frames {
        self.send_as(who, bytes, BthOpcode::RC_SEND_ONLY, &[])
    }

    /// A SEND with immediate data.
    pub(super) fn send_immediate(&mut self, who: Who, message: &Rdma) -> Frames {
        let immediate = ImmDt { immediate: ImmediateData(9) }.encode();
        self.send_as(who, &message.bytes(), BthOpcode::RC_SEND_ONLY_WITH_IMMEDIATE, &immediate)
    }

    /// A SEND that invalidates a handle.
    pub(super) fn send_invalidate(&mut self, who: Who, message: &Rdma, handle: u32) -> Frames {
        let invalidate = Ieth { r_key: Handle(handle) }.encode();
        self.send_as(who, &message.bytes(), BthOpcode::RC_SEND_ONLY_WITH_INVALIDATE, &invalidate)
    }

    fn send_as(&mut self, who: Who, bytes: &[u8], only: BthOpcode, headers: &[u8]) -> Frames {
        let last = match only {
            BthOpcode::RC_SEND_ONLY_WITH_IMMEDIATE => BthOpcode::RC_SEND_LAST_WITH_IMMEDIATE,
            BthOpcode::RC_SEND_ONLY_WITH_INVALIDATE => BthOpcode::RC_SEND_LAST_WITH_INVALIDATE,
            _ => BthOpcode::RC_SEND_LAST,
        };
        let opcodes = [BthOpcode::RC_SEND_FIRST, BthOpcode::RC_SEND_MIDDLE, last, only];
        let first = self.take_psns(who, self.packets(bytes.len()));
        self.run(who, opcodes, first, bytes, |opcode| if opcode == only || opcode == last { headers } else { &[] })
    }

    /// Number of packets for this many bytes.
    pub(super) fn packets(&self, length: usize) -> usize {
        length.div_ceil(self.mtu).max(1)
    }

    /// The packets of one message: First, Middle, Last, or Only.
    fn run<'h>(
        &self,
        who: Who,
        [first, middle, last, only]: [BthOpcode; 4],
        psn: Psn,
        bytes: &[u8],
        headers: impl Fn(BthOpcode) -> &'h [u8],
    ) -> Frames {
        let count = self.packets(bytes.len());
        let opcode = |at: usize| match at {
            0 if count == 1 => only,
            0 => first,
            at if at == count - 1 => last,
            _ => middle,
        };
        (0..count)
            .map(|at| {
                let part = &bytes[at * self.mtu..bytes.len().min((at + 1) * self.mtu)];
                self.packet(who, opcode(at), psn.add(at as u32), headers(opcode(at)), part)
            })
            .collect()
    }

    /// An RDMA Write of these bytes to the start of the peer's memory.
    pub(super) fn write(&mut self, who: Who, memory: Memory, bytes: &[u8]) -> Frames {
        let first = self.take_psns(who, self.packets(bytes.len()));
        self.write_at(who, memory, bytes, first)
    }

    /// Like [`Link::write`], with sequence numbers from `psn` on, which are not counted.
    pub(super) fn write_at(&self, who: Who, memory: Memory, bytes: &[u8], psn: Psn) -> Frames {
        let opcodes = [
            BthOpcode::RC_RDMA_WRITE_FIRST,
            BthOpcode::RC_RDMA_WRITE_MIDDLE,
            BthOpcode::RC_RDMA_WRITE_LAST,
            BthOpcode::RC_RDMA_WRITE_ONLY,
        ];
        let reth = reth(memory, bytes.len());
        self.run(who, opcodes, psn, bytes, |opcode| match opcode {
            BthOpcode::RC_RDMA_WRITE_FIRST | BthOpcode::RC_RDMA_WRITE_ONLY => &reth,
            _ => &[],
        })
    }

    /// An RDMA Read of the peer's memory: the request, then the responses.
    pub(super) fn read(&mut self, who: Who, memory: Memory, bytes: &[u8]) -> Frames {
        let first = self.take_psns(who, self.packets(bytes.len()));
        [vec![self.read_request(who, memory, bytes.len(), first)], self.responses(who.peer(), bytes, first)].concat()
    }

    pub(super) fn read_request(&self, who: Who, memory: Memory, length: usize, psn: Psn) -> Vec<u8> {
        self.packet(who, BthOpcode::RC_RDMA_READ_REQUEST, psn, &reth(memory, length), &[])
    }

    /// The responses of `who` to a request with this sequence number.
    pub(super) fn responses(&self, who: Who, bytes: &[u8], psn: Psn) -> Frames {
        let opcodes = [
            BthOpcode::RC_RDMA_READ_RESPONSE_FIRST,
            BthOpcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            BthOpcode::RC_RDMA_READ_RESPONSE_LAST,
            BthOpcode::RC_RDMA_READ_RESPONSE_ONLY,
        ];
        let aeth = aeth(Syndrome::Ack { credits: 31 });
        self.run(who, opcodes, psn, bytes, |opcode| match opcode {
            BthOpcode::RC_RDMA_READ_RESPONSE_MIDDLE => &[],
            _ => &aeth,
        })
    }

    /// An acknowledgement by `who` of everything that its peer has sent.
    pub(super) fn ack(&mut self, who: Who) -> Frames {
        let psn = self.node(who.peer()).psn.add(u32::MAX);
        vec![self.packet(who, BthOpcode::RC_ACKNOWLEDGE, psn, &aeth(Syndrome::Ack { credits: 31 }), &[])]
    }

    /// A NAK by `who`, which misses the packet with this sequence number.
    pub(super) fn nak(&self, who: Who, psn: Psn) -> Frames {
        let nak = aeth(Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR));
        vec![self.packet(who, BthOpcode::RC_ACKNOWLEDGE, psn, &nak, &[])]
    }

    /// An RNR NAK by `who`, which has no receive buffer for the packet with this sequence number.
    pub(super) fn rnr_nak(&self, who: Who, psn: Psn) -> Frames {
        vec![self.packet(who, BthOpcode::RC_ACKNOWLEDGE, psn, &aeth(Syndrome::RnrNak { timer: 1 }), &[])]
    }

    /// The messages of the connection manager: REQ, REP and RTU. `name` is the communication ID of both sides.
    pub(super) fn connect(&self, name: u32) -> Frames {
        let private = PrivateData { send_size: 3, receive_size: 3, ..PrivateData::DEFAULT }.encode();
        self.connect_with(name, &private)
    }

    /// Like [`Link::connect`], with other private data.
    pub(super) fn connect_with(&self, name: u32, private: &[u8]) -> Frames {
        let (client, server) = (self.client, self.server);
        let reply = cm::CmConnectionReply {
            local_comm_id: CommunicationId(name),
            remote_comm_id: CommunicationId(name),
            local_q_key: InfinibandQKey(0),
            local_qpn: Qpn(server.qpn),
            local_eecn: 0,
            // Each side chooses the first PSN of its peer.
            starting_psn: client.psn,
            responder_resources: 16,
            initiator_depth: 16,
            target_ack_delay: 15,
            failover_accepted: 0,
            end_to_end_flow_control: false,
            rnr_retry_count: 7,
            srq: false,
            local_ca_guid: Guid(1),
        };
        let ready = cm::CmReadyToUse { local_comm_id: CommunicationId(name), remote_comm_id: CommunicationId(name) };
        let management = |who, attribute, message: &[u8]| self.management(who, attribute, message);
        vec![
            management(Client, cm::CmMessageType::REQ, &[&request(client, server.psn, name)[..], private].concat()),
            management(Server, cm::CmMessageType::REP, &[&reply.encode()[..], private].concat()),
            management(Client, cm::CmMessageType::RTU, &ready.encode()),
        ]
    }

    /// DREQ: the client disconnects.
    pub(super) fn part(&self, name: u32) -> Frames {
        let request = cm::CmDisconnectRequest {
            local_comm_id: CommunicationId(name),
            remote_comm_id: CommunicationId(name),
            remote_qpn: Qpn(self.server.qpn),
        };
        vec![self.management(Client, cm::CmMessageType::DREQ, &request.encode())]
    }

    fn management(&self, who: Who, attribute: cm::CmMessageType, message: &[u8]) -> Vec<u8> {
        let mad = MadHeader {
            baseversion: 1,
            mgmtclass: MadManagementClass::COMMUNICATION,
            classversion: 2,
            method: MadMethod::SEND,
            status: 0,
            classspecific: 0,
            transactionid: MadTransactionId(1),
            attributeid: MadAttributeId(attribute.0),
            attributemodifier: 0,
        };
        let mut payload = [&mad.encode()[..], message].concat();
        payload.resize(256, 0);
        let deth = Deth { q_key: InfinibandQKey(0x8001_0000), srcqp: Qpn::GENERAL_SERVICES }.encode();
        let (from, to) = match who {
            Client => (self.client, self.server),
            Server => (self.server, self.client),
        };
        frame(from.address, to.address, BthOpcode::UD_SEND_ONLY, 1, Psn(0), &deth, &payload)
    }
}

/// REQ to a service that names no port.
fn request(client: Node, starting_psn: Psn, name: u32) -> [u8; cm::CmConnectionRequest::LENGTH] {
    let unset = std::net::Ipv6Addr::UNSPECIFIED;
    cm::CmConnectionRequest {
        local_comm_id: CommunicationId(name),
        service_id: ServiceId(0x1234),
        local_ca_guid: Guid(2),
        local_q_key: InfinibandQKey(0),
        local_qpn: Qpn(client.qpn),
        responder_resources: 16,
        local_eecn: 0,
        initiator_depth: 16,
        remote_eecn: 0,
        remote_response_timeout: 20,
        transport_service: cm::CmTransportServiceType::RC,
        end_to_end_flow_control: false,
        starting_psn,
        local_response_timeout: 20,
        retry_count: 7,
        pkey: PartitionKey(0xffff),
        path_mtu: cm::PathMtu::B1024,
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
}

fn reth(memory: Memory, length: usize) -> [u8; Reth::LENGTH] {
    Reth { va: memory.offset, r_key: Handle(memory.handle), dmalen: length as u32 }.encode()
}

fn aeth(syndrome: Syndrome) -> [u8; Aeth::LENGTH] {
    Aeth { syndrome, msn: Msn(0) }.encode()
}

/// Ethernet, IP, UDP, BTH, the rest of the packet, pad and ICRC.
fn frame(from: IpAddr, to: IpAddr, opcode: BthOpcode, qpn: u32, psn: Psn, headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let pad = payload.len().wrapping_neg() % 4;
    let bth = Bth {
        opcode,
        se: false,
        m: false,
        padcnt: pad as u8,
        tver: 0,
        pkey: PartitionKey(0xffff),
        fecn: false,
        becn: false,
        destqp: Qpn(qpn),
        ackreq: false,
        psn,
    };
    let packet = [&bth.encode()[..], headers, payload, &[0; 3][..pad], &[0; 4]].concat();
    let length = (Udp::LENGTH + packet.len()) as u16;
    let udp = Udp { srcport: Port(0xc000), dstport: Port(4791), length, checksum: 0 };
    let (ethertype, ip) = match (from, to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = Ipv4 {
                version: 4,
                hdr_len: LengthInWords(5),
                dsfield: 0,
                len: Ipv4::LENGTH as u16 + length,
                id: IpIdentification(0),
                rb: false,
                df: true,
                mf: false,
                frag_offset: LengthInWords(0),
                ttl: 64,
                proto: IpProtocol::UDP,
                checksum: 0,
                src,
                dst,
            };
            (EtherType::IPV4, ip.encode().to_vec())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let nxt = IpProtocol::UDP;
            let ip = Ipv6 { version: 6, tclass: 0, flow: 0, plen: length, nxt, hlim: 64, src, dst };
            (EtherType::IPV6, ip.encode().to_vec())
        }
        mixed => panic!("one version of IP at a time: {mixed:?}"),
    };
    let ethernet = Ethernet { dst: [2; 6], src: [4; 6], ethertype };
    let routes = [&ip[..], &udp.encode()].concat();
    let mut packet = packet;
    if let Icrc::Bad { expected, .. } = icrc::check(RdmaEncapsulation::RoceV2, &routes, &packet) {
        let end = packet.len() - 4;
        packet[end..].copy_from_slice(&expected.to_be_bytes());
    }
    [&ethernet.encode()[..], &routes, &packet].concat()
}

/// Splits an IPv4 frame into two fragments after `at` bytes of its payload.
pub(super) fn fragments(frame: &[u8], at: usize) -> Frames {
    let (ethernet, rest) = frame.split_at(Ethernet::LENGTH);
    let (ip, _) = Ipv4::decode(rest, 0, &mut nfsrdma_dissectors::field::NullFieldObserver).unwrap();
    let payload = &rest[Ipv4::LENGTH..];
    let part = |bytes: &[u8], offset: usize, mf| {
        let len = (Ipv4::LENGTH + bytes.len()) as u16;
        let ip = Ipv4 { len, mf, df: false, frag_offset: LengthInWords((offset / 8) as u16), ..ip };
        [ethernet, &ip.encode(), bytes].concat()
    };
    vec![part(&payload[..at], 0, true), part(&payload[at..], at, false)]
}
