//! UDP datagrams: each may be an RPC message.

use nfsrdma_dissectors::address::Port;
use nfsrdma_dissectors::net::{InnermostNetworkPacket, UdpDatagram};
use nfsrdma_dissectors::rpc::{self, MsgType};

use super::count_categories::IgnoredTraffic;
use super::duplicate_frames;
use super::endpoint_pair::EndpointPair;
use super::finality;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::packet_meta::{DeliveryAnomaly, PacketMeta};
use super::transaction::{CapturedMessage, ConnectionTransport};
use crate::rdma_operation::ConnectionSideAOrB;

/// Source ports of accepted Replies without a captured Call: rpcbind and NFS.
const TRUSTED_REPLY_PORTS: [Port; 2] = [Port(111), Port(2049)];

impl Flow {
    pub(super) fn handle_udp_datagram(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        udp: &UdpDatagram<'_>,
    ) -> FrameContentKind {
        let payload = udp.payload;
        let Some(rpc_message) = rpc::recognize(payload.bytes, payload.length) else {
            return self.stats.count_ignored(IgnoredTraffic::Udp);
        };
        let tenant = datagram.tenant;
        let ports = EndpointPair {
            tenant,
            a: (datagram.source, udp.source_port),
            b: (datagram.destination, udp.destination_port),
        };
        let existing = self.connections.find_udp_connection(ports);
        // A Reply has less structure than a Call, so it needs other evidence.
        if rpc_message.mtype == MsgType::REPLY && existing.is_none() && !TRUSTED_REPLY_PORTS.contains(&udp.source_port)
        {
            return self.stats.count_ignored(IgnoredTraffic::Udp);
        }
        let (at, sender) = existing.unwrap_or_else(|| {
            let key = self.connections.add_port_connection(ports, ConnectionTransport::Udp);
            (key.slot, ConnectionSideAOrB::A)
        });
        let anomaly = self.is_duplicate_datagram(packet_meta, datagram, udp).then_some(DeliveryAnomaly::CapturedTwice);
        let packet_meta = PacketMeta { anomaly: anomaly.as_ref(), ..packet_meta };
        let Some((connection, mut context)) = self.rpc_context(at, sender, &packet_meta) else {
            return FrameContentKind::Unrelated;
        };
        connection.last_frame = packet_meta.last_frame();
        let (frames, bytes) = (packet_meta.frames.to_vec(), payload.bytes.to_vec());
        let message = CapturedMessage::plain(frames, packet_meta.time, bytes, payload.length);
        let (content, _) = connection.conversation.handle_plain_message(&mut context, message);
        if self.limits.emit_on_acknowledgment && anomaly.is_none() {
            finality::handle_datagram_reply(content, &mut self.transaction_table);
        }
        self.on_message(at, content, packet_meta);
        if self.connections.exceeds_limit() {
            self.evict_connections(Some(at), packet_meta);
        }
        content
    }

    /// Returns `true` if the capture contains the datagram twice.
    fn is_duplicate_datagram(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        udp: &UdpDatagram<'_>,
    ) -> bool {
        let id = packet_meta.identification;
        let head = udp.payload.bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        let ports = u64::from(udp.source_port.0) << 48 | u64::from(udp.destination_port.0) << 32;
        let length = udp.payload.length as u64 & 0xffff;
        let seed = duplicate_frames::mix_fingerprint(datagram.address_hash(), head);
        let fingerprint = duplicate_frames::mix_fingerprint(seed, ports | u64::from(id) << 16 | length);
        // An RPC retransmission does not come within a second.
        let is_twice = self.recent_frames.contains_copy(fingerprint, packet_meta.time, true, None);
        self.recent_frames.record(fingerprint, packet_meta.time);
        self.stats.duplicate_frames += u64::from(is_twice);
        is_twice
    }
}
