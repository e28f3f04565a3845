//! Packets that were captured before what tells where their bytes go: mirror ports and several queues put packets of two
//! directions, and of one, into another order than they had on the wire.

use std::collections::VecDeque;

use crate::frame::{FrameNumber, Timestamp};
use crate::infiniband::{InfinibandPacket, Psn};
use crate::rdma::ConnectionSide;

use super::statistics::{EvictedState, FlowStats, UndecodedReason};
use super::transaction_table::TransactionKey;
use super::{FlowLimits, PacketMeta};

/// Packets that wait for the memory that they name, per connection. Each Call tries all of them again.
const PACKETS: usize = 64;

/// Packets of RDMA Writes without their First packet, per connection: an RDMA Write of 4 MiB has as many of 1,024 bytes.
const ORPHANS: usize = 4096;

/// Bytes that holding a packet takes besides its payload.
const OVERHEAD: u64 = 256;

/// How long, in nanoseconds of the capture's clock, a packet may be early. Longer, and the handle that it names may
/// belong to a later Call that uses it again.
pub(super) const AGE: u64 = 50_000_000;

/// How long, in nanoseconds of the capture's clock, a packet of an RDMA Write waits for its First packet or, where that was
/// lost, for the Reply that tells how much was written. It names no handle, and its sequence number is not used again so soon.
const WRITE_AGE: u64 = 1_000_000_000;

/// A Middle or Last packet of an RDMA Write whose First was not seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrphanWritePacket {
    /// Its sequence number.
    pub(super) psn: Psn,
    /// Whether it is the last of its RDMA Write.
    pub(super) ends: bool,
    /// Bytes of data in it.
    pub(super) length: u32,
}

/// A packet that waits.
#[derive(Debug)]
struct EarlyPacket {
    sender: ConnectionSide,
    packet: InfinibandPacket<'static>,
    /// Bytes of its payload on the wire; a snap length may have cut some.
    length: u32,
    payload: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    why: UndecodedReason,
    /// The Transaction whose Reply followed: only its Call may have advertised the memory.
    answered_by: Option<TransactionKey>,
}

/// What is tried again.
#[derive(Debug)]
pub(super) struct EarlyPacketRetry(EarlyPacket);

impl EarlyPacket {
    /// Bytes that it counts for.
    fn weight(&self) -> u64 {
        self.payload.len() as u64 + OVERHEAD
    }

    fn is_orphan(&self) -> bool {
        matches!(self.why, UndecodedReason::WriteWithoutFirst | UndecodedReason::CutWrite)
    }

    /// Whether it has waited too long.
    fn is_old(&self, now: Timestamp) -> bool {
        now.apart(self.time) > if self.is_orphan() { WRITE_AGE } else { AGE }
    }
}

impl EarlyPacketRetry {
    /// The side that sent the packet.
    pub(super) fn sender(&self) -> ConnectionSide {
        self.0.sender
    }

    /// The packet.
    pub(super) fn packet(&self) -> InfinibandPacket<'_> {
        self.0.packet.with_payload(&self.0.payload)
    }

    /// When and in which frames it was seen.
    pub(super) fn sight(&self) -> PacketMeta<'_> {
        PacketMeta::new(&self.0.frames, self.0.time)
    }
}

/// The packets that wait on one connection, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct ReorderBuffer {
    /// Packets that wait for the memory that they name.
    held: VecDeque<EarlyPacket>,
    /// Packets of RDMA Writes without their First packet.
    orphans: VecDeque<EarlyPacket>,
}

impl ReorderBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.orphans.is_empty()
    }

    /// Holds a packet that was just counted as undecoded, instead of counting it. Where there is no room the oldest is
    /// counted.
    pub(super) fn hold(
        &mut self,
        sender: ConnectionSide,
        packet: &InfinibandPacket<'_>,
        sight: PacketMeta<'_>,
        why: UndecodedReason,
        account: &mut FlowStats,
        limits: &FlowLimits,
    ) {
        let waits_for_memory = matches!(
            why,
            UndecodedReason::WriteWithoutFirst
                | UndecodedReason::ReadWithoutRequest
                | UndecodedReason::WriteToUnknownMemory
                | UndecodedReason::ReadOfUnknownMemory
                | UndecodedReason::CutAdvertisement
                | UndecodedReason::CutWrite
                | UndecodedReason::CutRead
        );
        let payload = packet.payload.bytes;
        if !waits_for_memory {
            return;
        }
        if account.early_bytes + payload.len() as u64 + OVERHEAD > limits.early_bytes {
            account.gave_up(EvictedState::Early);
            return;
        }
        account.undecoded_after_all(why);
        let held = EarlyPacket {
            sender,
            packet: packet.with_payload(&[]),
            length: packet.payload.length as u32,
            payload: payload.to_vec(),
            frames: sight.frames.to_vec(),
            time: sight.time,
            why,
            answered_by: None,
        };
        account.early_bytes += held.weight();
        let (queue, bound) = match held.is_orphan() {
            true => (&mut self.orphans, ORPHANS),
            false => (&mut self.held, PACKETS),
        };
        queue.push_back(held);
        if queue.len() > bound {
            drop_first(queue, account);
        }
    }

    /// A Reply without a Call came: what its sender did to memory before belongs to that Transaction.
    pub(super) fn answered(&mut self, key: TransactionKey) {
        for held in self.held.iter_mut().chain(&mut self.orphans) {
            held.answered_by.get_or_insert(key);
        }
    }

    /// The packets of RDMA Writes of a side whose First was not seen, in the order in which they came.
    pub(super) fn orphans(&self, sender: ConnectionSide) -> impl Iterator<Item = OrphanWritePacket> + '_ {
        let held = self.orphans.iter().filter(move |held| held.sender == sender);
        held.map(|held| OrphanWritePacket {
            psn: held.packet.bth.psn,
            ends: held.packet.form.place.ends(),
            length: held.length,
        })
    }

    /// Takes out what may find its place now: after the Call of `call`; or after a packet with this sequence number that
    /// begins an RDMA Write or asks for an RDMA Read, which tells the place of those behind it.
    pub(super) fn retry(
        &mut self,
        call: Option<TransactionKey>,
        begun: Option<(ConnectionSide, Psn)>,
        now: Timestamp,
        account: &mut FlowStats,
    ) -> Vec<EarlyPacketRetry> {
        for queue in [&mut self.held, &mut self.orphans] {
            while queue.front().is_some_and(|first| first.is_old(now)) {
                drop_first(queue, account);
            }
        }
        let mut retries = Vec::new();
        let mut sort = |queue: &mut VecDeque<EarlyPacket>, may_belong: &dyn Fn(&EarlyPacket) -> bool| {
            for held in std::mem::take(queue) {
                if may_belong(&held) {
                    account.early_bytes -= held.weight();
                    retries.push(EarlyPacketRetry(held));
                } else {
                    queue.push_back(held);
                }
            }
        };
        sort(&mut self.held, &|held| held.answered_by.is_none() || held.answered_by == call);
        // There may be thousands of them: most packets find none that follows, and move none.
        if let Some((side, psn)) = begun {
            let follows = |held: &EarlyPacket| side == held.sender && psn.distance(held.packet.bth.psn) >= 0;
            if self.orphans.iter().any(follows) {
                sort(&mut self.orphans, &follows);
            }
        }
        retries
    }

    /// Takes back what still has no place.
    pub(super) fn put_back(&mut self, retries: Vec<EarlyPacketRetry>, account: &mut FlowStats) {
        for EarlyPacketRetry(held) in retries.into_iter().rev() {
            account.early_bytes += held.weight();
            match held.is_orphan() {
                true => self.orphans.push_front(held),
                false => self.held.push_front(held),
            }
        }
    }

    /// Takes over what another connection held that turned out to be this one.
    pub(super) fn join(&mut self, other: Self, swapped: bool) {
        let joined = |held: EarlyPacket| EarlyPacket {
            sender: if swapped { held.sender.peer() } else { held.sender },
            ..held
        };
        self.held.extend(other.held.into_iter().map(joined));
        self.orphans.extend(other.orphans.into_iter().map(joined));
    }

    /// Nothing will tell any more.
    pub(super) fn give_up(&mut self, account: &mut FlowStats) {
        for queue in [&mut self.held, &mut self.orphans] {
            while !queue.is_empty() {
                drop_first(queue, account);
            }
        }
    }
}

/// Counts the oldest packet of a queue as undecoded.
fn drop_first(queue: &mut VecDeque<EarlyPacket>, account: &mut FlowStats) {
    if let Some(held) = queue.pop_front() {
        account.early_bytes -= held.weight();
        account.undecoded(held.why);
    }
}
