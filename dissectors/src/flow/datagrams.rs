//! Datagrams of UDP: each may be an RPC message.

use crate::address::Port;
use crate::net::{Datagram, UdpDatagram};
use crate::rpc::{self, MsgType};

use super::account::Passed;
use super::connection::Ports;
use super::exchange::Desk;
use super::settling;
use super::transaction::{MessageRecord, Transport};
use super::{Flow, Meaning, Sight};

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
        let ports =
            Ports { a: (datagram.source, udp.source_port), b: (datagram.destination, udp.destination_port) };
        let known = self.connections.of_datagrams(ports);
        // A Reply has less structure than a Call, so something else must speak for it.
        if found.mtype == MsgType::REPLY && known.is_none() && !KNOWN.contains(&udp.source_port) {
            return self.account.passed(Passed::Udp);
        }
        let (at, sender) = known
            .unwrap_or_else(|| (self.connections.connect(ports, Transport::Udp).at, crate::rdma::Side::A));
        let Some(connection) = self.connections.get_mut(at) else { return Meaning::Nothing };
        connection.last_frame = sight.last();
        let mut desk = Desk {
            connection: at,
            ledger: &mut self.ledger,
            account: &mut self.account,
            limits: &self.limits,
            sight,
        };
        let message = MessageRecord {
            frames: sight.frames.to_vec(),
            time: sight.time,
            end_time: sight.time,
            copies: 1,
            rpcrdma: None,
            bytes: payload.bytes.to_vec(),
            length: payload.length,
            gaps: Vec::new(),
            rpc_at: Some(0),
        };
        let (meaning, _) = connection.exchange.bare(&mut desk, sender, message);
        if self.limits.prompt {
            settling::datagram(meaning, &mut self.ledger);
        }
        self.follow_message(at, meaning, sight);
        if self.connections.is_over_bound() {
            self.forget_connections(Some(at), sight);
        }
        meaning
    }
}
