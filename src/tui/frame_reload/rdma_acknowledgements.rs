//! ACKs and NAKs of a Transaction's packets on reliable connections (InfiniBand Architecture Specification volume 1,
//! section 9.7.5).

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::{InfinibandPacket, Psn, Syndrome};
use nfsrdma_dissectors::net::{InnermostNetworkPacket, NetworkLayerPayload};
use nfsrdma_flow::transaction::{Endpoint, TransactionConnection};
use rustc_hash::FxHashMap;

use super::waterfall_bar::{WaterfallAck, WaterfallBar, WaterfallBarKind};

/// A packet of a reliable connection, with the fields needed for acknowledgements.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReliableConnectionPacket {
    destination: Address,
    destination_qp: u32,
    psn: Psn,
    /// Syndrome of an acknowledgement, or of an RDMA Read response, which is one too.
    syndrome: Option<Syndrome>,
}

impl ReliableConnectionPacket {
    /// Returns the packet of a datagram; `None` if the datagram is not InfiniBand or RoCE.
    pub(super) fn from_datagram(datagram: &InnermostNetworkPacket<'_>) -> Option<Self> {
        let NetworkLayerPayload::Infiniband(InfinibandPacket { bth, aeth, .. }) = &datagram.payload else {
            return None;
        };
        Some(Self {
            destination: datagram.destination,
            destination_qp: bth.destqp.0,
            psn: bth.psn,
            syndrome: aeth.map(|aeth| aeth.syndrome),
        })
    }

    fn goes_to(&self, end: &Endpoint) -> bool {
        end.address == self.destination && end.port == Some(self.destination_qp)
    }

    /// Returns the sending end of the connection; `None` if the packet goes to neither end.
    fn sender<'c>(&self, connection: &'c TransactionConnection) -> Option<&'c Endpoint> {
        match (self.goes_to(&connection.client), self.goes_to(&connection.server)) {
            (true, false) => Some(&connection.server),
            (false, true) => Some(&connection.client),
            _ => None,
        }
    }
}

/// A packet, with the fields needed here.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaterfallPacket {
    pub(super) time: Timestamp,
    /// `true` if it begins its RDMA operation; `None` if its headers do not show that.
    pub(super) begins_operation: Option<bool>,
    /// Payload length in bytes; 0 if its headers do not show it.
    pub(super) bytes: u64,
    /// Fields for acknowledgements, over InfiniBand and RoCE.
    pub(super) reliable: Option<ReliableConnectionPacket>,
}

/// An ACK or NAK.
struct WaterfallAckPacket<'p> {
    frame: FrameNumber,
    time: Timestamp,
    packet: &'p ReliableConnectionPacket,
    syndrome: Syndrome,
}

/// Sets the acknowledgement of each bar, and adds bars for the NAKs of the Transaction's `frames`.
pub(super) fn add_acknowledgements(
    bars: &mut Vec<WaterfallBar>,
    connection: &TransactionConnection,
    frames: &[FrameNumber],
    packets: &FxHashMap<FrameNumber, WaterfallPacket>,
) {
    let reliable = |frame: &FrameNumber| packets.get(frame).and_then(|timed| timed.reliable.as_ref());
    let mut acks: Vec<WaterfallAckPacket<'_>> = packets
        .iter()
        .filter_map(|(frame, timed)| {
            let packet = timed.reliable.as_ref()?;
            let syndrome = packet.syndrome.filter(|_| packet.sender(connection).is_some())?;
            Some(WaterfallAckPacket { frame: *frame, time: timed.time, packet, syndrome })
        })
        .collect();
    acks.sort_unstable_by_key(|ack| ack.frame);
    for bar in bars.iter_mut() {
        // A Read response answers its request, and acknowledges it.
        if matches!(bar.kind, WaterfallBarKind::Read(_) | WaterfallBarKind::Nak(_)) {
            continue;
        }
        let Some(sent) = reliable(&bar.frames.1) else { continue };
        let Some(sender) = sent.sender(connection) else { continue };
        let first_after = acks.partition_point(|ack| ack.frame <= bar.frames.1);
        // An ACK acknowledges all packets up to its PSN.
        let covers = |ack: &&WaterfallAckPacket<'_>| {
            matches!(ack.syndrome, Syndrome::Ack { .. })
                && ack.packet.goes_to(sender)
                && sent.psn.distance(ack.packet.psn) >= 0
        };
        bar.ack =
            acks.iter().skip(first_after).find(covers).map(|ack| WaterfallAck { time: ack.time, frame: ack.frame });
    }
    for ack in &acks {
        if !matches!(ack.syndrome, Syndrome::Nak(_) | Syndrome::RnrNak { .. }) {
            continue;
        }
        // A NAK rejects the packet with its PSN and all packets sent after it.
        let refuses = |frame: &FrameNumber| {
            let Some(sent) = reliable(frame).filter(|_| *frame < ack.frame) else { return false };
            let is_from = sent.sender(connection).is_some_and(|sender| ack.packet.goes_to(sender));
            is_from && ack.packet.psn.distance(sent.psn) >= 0
        };
        if frames.iter().any(refuses) {
            bars.push(WaterfallBar {
                kind: WaterfallBarKind::Nak(ack.syndrome),
                from: ack.time,
                to: ack.time,
                frames: (ack.frame, ack.frame),
                bytes: 0,
                is_open: false,
                ack: None,
            });
        }
    }
}
