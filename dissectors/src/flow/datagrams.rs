//! Datagrams of UDP: each may be an RPC message.

use crate::address::Port;
use crate::net::{Datagram, UdpDatagram};
use crate::rpc::{self, MsgType};

use super::account::Passed;
use super::connection::Ports;
use super::exchange::Desk;
use super::recent;
use super::settling;
use super::transaction::{Delivered, MessageRecord, Transport};
use super::{Flow, Meaning, Remark, Sight};

/// Ports whose Replies are believed where the Call was not captured: the port mapper and NFS.
const KNOWN: [Port; 2] = [Port(111), Port(2049)];

impl Flow {
    /// Takes a datagram.
    pub(super) fn datagram(
        &mut self,
        sight: Sight<'_>,
        datagram: &Datagram<'_>,
        udp: &UdpDatagram<'_>,
    ) -> Meaning {
        let payload = udp.payload;
        let Some(found) = rpc::recognize(payload.bytes, payload.length) else {
            return self.account.passed(Passed::Udp);
        };
        let tenant = datagram.tenant;
        let ports = Ports {
            tenant,
            a: (datagram.source, udp.source_port),
            b: (datagram.destination, udp.destination_port),
        };
        let known = self.connections.of_datagrams(ports);
        // A Reply has less structure than a Call, so something else must speak for it.
        if found.mtype == MsgType::REPLY && known.is_none() && !KNOWN.contains(&udp.source_port) {
            return self.account.passed(Passed::Udp);
        }
        let (at, sender) = known
            .unwrap_or_else(|| (self.connections.connect(ports, Transport::Udp).at, crate::rdma::Side::A));
        let remark = self.is_datagram_captured_twice(sight, datagram, udp).then_some(Remark::CAPTURED_TWICE);
        let sight = Sight { remark: remark.as_ref(), ..sight };
        let Some(connection) = self.connections.get_mut(at) else { return Meaning::Nothing };
        connection.last_frame = sight.last();
        let mut desk = Desk {
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
            delivered: Delivered::Assumed,
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
            settling::datagram(meaning, &mut self.ledger);
        }
        self.follow_message(at, meaning, sight);
        if self.connections.is_over_bound() {
            self.forget_connections(Some(at), sight);
        }
        meaning
    }

    /// Whether the capture holds a datagram a second time.
    fn is_datagram_captured_twice(
        &mut self,
        sight: Sight<'_>,
        datagram: &Datagram<'_>,
        udp: &UdpDatagram<'_>,
    ) -> bool {
        let id = sight.identification;
        let head = udp.payload.bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        let ports = u64::from(udp.source_port.0) << 48 | u64::from(udp.destination_port.0) << 32;
        let length = udp.payload.length as u64 & 0xffff;
        let name = recent::mix(datagram.between(), head);
        let mark = recent::mix(name, ports | u64::from(id) << 16 | length);
        // Nobody asks again before a second has passed.
        let is_twice = self.recent.has(mark, sight.time, true, None);
        self.recent.note(mark, sight.time);
        self.account.captured_twice += u64::from(is_twice);
        is_twice
    }
}
