//! UDP datagrams: each may be an RPC message.

use crate::address::Port;
use crate::net::{Datagram, UdpDatagram};
use crate::rpc::{self, MsgType};

use super::connection::PortPair;
use super::conversation::RpcContext;
use super::finality;
use super::recent_frames;
use super::statistics::IgnoredTraffic;
use super::transaction::{ConnectionTransport, DeliveryEvidence, MessageRecord};
use super::{DeliveryAnomaly, Flow, FrameKind, PacketMeta};

/// Source ports of accepted Replies without a captured Call: rpcbind and NFS.
const KNOWN: [Port; 2] = [Port(111), Port(2049)];

impl Flow {
    /// Handles a datagram.
    pub(super) fn datagram(
        &mut self,
        sight: PacketMeta<'_>,
        datagram: &Datagram<'_>,
        udp: &UdpDatagram<'_>,
    ) -> FrameKind {
        let payload = udp.payload;
        let Some(found) = rpc::recognize(payload.bytes, payload.length) else {
            return self.account.passed(IgnoredTraffic::Udp);
        };
        let tenant = datagram.tenant;
        let ports = PortPair {
            tenant,
            a: (datagram.source, udp.source_port),
            b: (datagram.destination, udp.destination_port),
        };
        let known = self.connections.of_datagrams(ports);
        // A Reply has less structure than a Call, so it needs other evidence.
        if found.mtype == MsgType::REPLY && known.is_none() && !KNOWN.contains(&udp.source_port) {
            return self.account.passed(IgnoredTraffic::Udp);
        }
        let (at, sender) = known.unwrap_or_else(|| {
            (self.connections.connect(ports, ConnectionTransport::Udp).at, crate::rdma::ConnectionSide::A)
        });
        let remark =
            self.is_datagram_captured_twice(sight, datagram, udp).then_some(DeliveryAnomaly::CAPTURED_TWICE);
        let sight = PacketMeta { remark: remark.as_ref(), ..sight };
        let Some(connection) = self.connections.get_mut(at) else { return FrameKind::Nothing };
        connection.last_frame = sight.last();
        let mut desk = RpcContext {
            connection: at,
            ledger: &mut self.ledger,
            account: &mut self.account,
            limits: &self.limits,
            sight: &sight,
        };
        let message = MessageRecord {
            frames: sight.frames.to_vec(),
            time: sight.time,
            end_time: sight.time,
            delivered: DeliveryEvidence::Assumed,
            copies: 1,
            resent: 0,
            stall: None,
            rpcrdma: None,
            sends: 1,
            bytes: payload.bytes.to_vec(),
            length: payload.length,
            gaps: Vec::new(),
            rpc_at: Some(0),
        };
        let (meaning, _) = connection.exchange.bare(&mut desk, sender, message);
        if self.limits.prompt && remark.is_none() {
            finality::datagram(meaning, &mut self.ledger);
        }
        self.follow_message(at, meaning, sight);
        if self.connections.is_over_bound() {
            self.forget_connections(Some(at), sight);
        }
        meaning
    }

    /// Returns `true` if the capture contains the datagram twice.
    fn is_datagram_captured_twice(
        &mut self,
        sight: PacketMeta<'_>,
        datagram: &Datagram<'_>,
        udp: &UdpDatagram<'_>,
    ) -> bool {
        let id = sight.identification;
        let head = udp.payload.bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        let ports = u64::from(udp.source_port.0) << 48 | u64::from(udp.destination_port.0) << 32;
        let length = udp.payload.length as u64 & 0xffff;
        let name = recent_frames::mix(datagram.between(), head);
        let mark = recent_frames::mix(name, ports | u64::from(id) << 16 | length);
        // An RPC retransmission does not come within a second.
        let is_twice = self.recent.has(mark, sight.time, true, None);
        self.recent.note(mark, sight.time);
        self.account.captured_twice += u64::from(is_twice);
        is_twice
    }
}
