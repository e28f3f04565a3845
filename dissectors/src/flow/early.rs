//! Packets that were captured before what tells where their bytes go: mirror ports and several queues put packets of two
//! directions, and of one, into another order than they had on the wire.

use std::collections::VecDeque;

use crate::frame::{FrameNumber, Timestamp};
use crate::infiniband::Packet;
use crate::rdma::Side;

use super::account::{Account, GivenUp, Undecoded};
use super::ledger::Key;
use super::{Limits, Sight};

/// Packets that one connection holds.
const PACKETS: usize = 64;

/// How long, in nanoseconds of the capture's clock, a packet may be early. Longer, and the handle that it names may
/// belong to a later Call that uses it again.
pub(super) const AGE: u64 = 50_000_000;

/// A packet that waits.
#[derive(Debug)]
struct Held {
    sender: Side,
    packet: Packet<'static>,
    payload: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    why: Undecoded,
    /// The Transaction whose Reply followed: only its Call may have advertised the memory.
    answered_by: Option<Key>,
}

/// What is tried again.
#[derive(Debug)]
pub(super) struct Retry(Held);

impl Retry {
    /// The side that sent the packet.
    pub(super) fn sender(&self) -> Side {
        self.0.sender
    }

    /// The packet.
    pub(super) fn packet(&self) -> Packet<'_> {
        self.0.packet.with_payload(&self.0.payload)
    }

    /// When and in which frames it was seen.
    pub(super) fn sight(&self) -> Sight<'_> {
        Sight::new(&self.0.frames, self.0.time)
    }
}

/// The packets that wait on one connection, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Early {
    held: VecDeque<Held>,
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds a packet that was just counted as undecoded, instead of counting it. Where there is no room the oldest is
    /// counted.
    pub(super) fn hold(
        &mut self,
        sender: Side,
        packet: &Packet<'_>,
        sight: Sight<'_>,
        why: Undecoded,
        account: &mut Account,
        limits: &Limits,
    ) {
        let waits_for_memory = matches!(
            why,
            Undecoded::WriteWithoutFirst
                | Undecoded::ReadWithoutRequest
                | Undecoded::WriteToUnknownMemory
                | Undecoded::ReadOfUnknownMemory
        );
        let payload = packet.payload.bytes;
        if !waits_for_memory {
            return;
        }
        if account.early_bytes + payload.len() as u64 > limits.early_bytes {
            account.gave_up(GivenUp::Early);
            return;
        }
        account.undecoded_after_all(why);
        account.early_bytes += payload.len() as u64;
        self.held.push_back(Held {
            sender,
            packet: packet.with_payload(&[]),
            payload: payload.to_vec(),
            frames: sight.frames.to_vec(),
            time: sight.time,
            why,
            answered_by: None,
        });
        if self.held.len() > PACKETS {
            self.drop_first(account);
        }
    }

    /// A Reply without a Call came: what its sender did to memory before belongs to that Transaction.
    pub(super) fn answered(&mut self, key: Key) {
        for held in &mut self.held {
            held.answered_by.get_or_insert(key);
        }
    }

    /// Takes out what may find its place now: after the Call of `call`, or after the packet that begins an RDMA Write or
    /// asks for an RDMA Read.
    pub(super) fn retry(&mut self, call: Option<Key>, now: Timestamp, account: &mut Account) -> Vec<Retry> {
        while let Some(first) = self.held.front()
            && now.apart(first.time) > AGE
        {
            self.drop_first(account);
        }
        let mut retries = Vec::new();
        for held in std::mem::take(&mut self.held) {
            let may_belong = held.answered_by.is_none() || held.answered_by == call;
            if may_belong {
                account.early_bytes -= held.payload.len() as u64;
                retries.push(Retry(held));
            } else {
                self.held.push_back(held);
            }
        }
        retries
    }

    /// Takes back what still has no place.
    pub(super) fn put_back(&mut self, retries: Vec<Retry>, account: &mut Account) {
        for Retry(held) in retries.into_iter().rev() {
            account.early_bytes += held.payload.len() as u64;
            self.held.push_front(held);
        }
    }

    /// Takes over what another connection held that turned out to be this one.
    pub(super) fn join(&mut self, other: Self, swapped: bool) {
        self.held.extend(
            other
                .held
                .into_iter()
                .map(|held| Held { sender: if swapped { held.sender.peer() } else { held.sender }, ..held }),
        );
    }

    /// Nothing will tell any more.
    pub(super) fn give_up(&mut self, account: &mut Account) {
        while !self.held.is_empty() {
            self.drop_first(account);
        }
    }

    fn drop_first(&mut self, account: &mut Account) {
        if let Some(held) = self.held.pop_front() {
            account.early_bytes -= held.payload.len() as u64;
            account.undecoded(held.why);
        }
    }
}
