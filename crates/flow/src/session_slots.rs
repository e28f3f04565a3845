//! Slots of the sessions of NFSv4.1, to tell Calls that repeat another one, and false retries. RFC 8881 section
//! 2.10.6.1.3.1: a server may answer a false retry with the results of the other Call.
//!
//! A slot takes a few bytes: hashes stand for its session, for the arguments and for the results.

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use nfsrdma_dissectors::address::VirtualNetwork;
use nfsrdma_dissectors::nfs::v4::OperationNumber;
use nfsrdma_dissectors::rpc::{MsgType, Program, VERSION as RPC_VERSION};
use rustc_hash::{FxHashMap, FxHasher};

use super::transaction::{CapturedMessage, Transaction};

/// Maximum number of slots. Beyond it, all are forgotten.
const MAX_SLOTS: usize = 4096;
/// Maximum number of bytes of a message that its hash covers: data of a READ or WRITE may follow.
const MAX_HASHED_BYTES: usize = 512;
/// RPCSEC_GSS, and its services without protection of the arguments and with a signature. RFC 2203 section 5.
const RPCSEC_GSS: u32 = 6;
const SERVICE_NONE: u32 = 1;
const SERVICE_INTEGRITY: u32 = 2;

/// The last use of a slot.
#[derive(Clone, Copy, Debug)]
struct SlotUse {
    sequence_id: u32,
    /// Hash of the operations after SEQUENCE.
    arguments: u32,
    /// Hash of the results after that of SEQUENCE; 0 before a Reply in which SEQUENCE succeeded.
    results: u32,
}

/// What a Transaction is to an earlier one with its session, slot and sequence ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotRetry {
    /// The Call is the same.
    Same,
    /// The Call is another one, and has the results of the first.
    FalseWithCachedResults,
}

/// Last uses of slots.
#[derive(Debug, Default)]
pub(super) struct SessionSlots {
    slots: FxHashMap<u64, SlotUse>,
}

impl SessionSlots {
    /// Records a Transaction, in the order of the Replies, and compares it with the last use of its slot. Servers of
    /// different virtual networks may give the same session IDs.
    pub(super) fn record(&mut self, tenant: VirtualNetwork, transaction: &Transaction) -> Option<SlotRetry> {
        let call = SequenceCall::decode(whole_bytes(transaction.call.as_ref()?)?, tenant)?;
        let SequenceCall { slot, sequence_id, arguments } = call;
        let reply = transaction.reply.as_ref().and_then(whole_bytes);
        let results = reply.and_then(sequence_results).filter(|(of_reply, _)| *of_reply == sequence_id);
        let results = results.map_or(0, |(_, results)| results);
        if self.slots.len() >= MAX_SLOTS {
            self.slots.clear();
        }
        match self.slots.entry(slot) {
            Entry::Occupied(mut entry) if entry.get().sequence_id == sequence_id => {
                let last = entry.get_mut();
                let has_results = last.results != 0 && last.results == results;
                if last.results == 0 {
                    last.results = results;
                }
                match last.arguments == arguments {
                    true => Some(SlotRetry::Same),
                    false => has_results.then_some(SlotRetry::FalseWithCachedResults),
                }
            }
            entry => {
                entry.insert_entry(SlotUse { sequence_id, arguments, results });
                None
            }
        }
    }
}

/// Returns the inline bytes of a message that was captured to its end.
fn whole_bytes(message: &CapturedMessage) -> Option<&[u8]> {
    let is_whole = message.gaps.is_empty() && message.bytes.len() >= message.length;
    is_whole.then(|| message.inline_bytes())
}

/// Reads the words and opaque items of a message.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn opaque(&mut self) -> Option<&'a [u8]> {
        let length = self.word()? as usize;
        let bytes = self.take(length)?;
        self.take(length.wrapping_neg() % 4)?;
        Some(bytes)
    }

    /// Returns a hash of the rest that is not 0.
    fn hash(self) -> u32 {
        let mut hasher = FxHasher::default();
        hasher.write(&self.0[..self.0.len().min(MAX_HASHED_BYTES)]);
        hasher.write_usize(self.0.len());
        let hash = hasher.finish();
        ((hash >> 32) as u32 ^ hash as u32).max(1)
    }
}

/// A COMPOUND that begins with SEQUENCE.
struct SequenceCall {
    /// Hash of the session and the slot.
    slot: u64,
    sequence_id: u32,
    arguments: u32,
}

impl SequenceCall {
    /// Decodes a Call; `None` if it does not begin with SEQUENCE, or if its arguments are encrypted.
    fn decode(message: &[u8], tenant: VirtualNetwork) -> Option<Self> {
        let mut reader = Reader(message);
        let _xid = reader.word()?;
        let head = [reader.word()?, reader.word()?, reader.word()?, reader.word()?, reader.word()?];
        if head != [MsgType::CALL.0, RPC_VERSION, Program::NFS.0, 4, 1] {
            return None;
        }
        let flavor = reader.word()?;
        let credential = reader.opaque()?;
        reader.word()?;
        reader.opaque()?;
        if flavor == RPCSEC_GSS {
            // Version, procedure, sequence number, service.
            let service = credential.get(12..16).and_then(|word| word.first_chunk()).copied();
            match service.map(u32::from_be_bytes)? {
                SERVICE_NONE => {}
                SERVICE_INTEGRITY => {
                    reader = Reader(reader.opaque()?);
                    reader.word()?;
                }
                _ => return None,
            }
        }
        let _tag = reader.opaque()?;
        let (minor_version, _count) = (reader.word()?, reader.word()?);
        if minor_version == 0 || reader.word()? != OperationNumber::SEQUENCE.0 {
            return None;
        }
        let mut hasher = FxHasher::default();
        tenant.hash(&mut hasher);
        hasher.write(reader.take(16)?);
        let (sequence_id, slot) = (reader.word()?, reader.word()?);
        hasher.write_u32(slot);
        let (_highest_slot, _is_cached) = (reader.word()?, reader.word()?);
        Some(Self { slot: hasher.finish(), sequence_id, arguments: reader.hash() })
    }
}

/// Returns the sequence ID of a Reply in which SEQUENCE succeeded, and a hash of the other results.
fn sequence_results(message: &[u8]) -> Option<(u32, u32)> {
    let mut reader = Reader(message);
    let _xid = reader.word()?;
    let [kind, is_denied, flavor] = [reader.word()?, reader.word()?, reader.word()?];
    reader.opaque()?;
    if [kind, is_denied, reader.word()?] != [MsgType::REPLY.0, 0, 0] {
        return None;
    }
    // Signed results are behind their length and a sequence number: a status is no such length.
    let mut body = reader;
    if flavor == RPCSEC_GSS
        && let Some(signed) = body.opaque().filter(|signed| signed.len() > 8)
        && let Some(results) = signed.get(4..)
        && let Some(found) = compound_results(Reader(results))
    {
        return Some(found);
    }
    compound_results(reader)
}

fn compound_results(mut reader: Reader<'_>) -> Option<(u32, u32)> {
    let _status = reader.word()?;
    let _tag = reader.opaque()?;
    let _count = reader.word()?;
    if [reader.word()?, reader.word()?] != [OperationNumber::SEQUENCE.0, 0] {
        return None;
    }
    reader.take(16)?;
    let sequence_id = reader.word()?;
    // Slot, highest slot, target of the highest slot, flags: they may change.
    reader.take(16)?;
    Some((sequence_id, reader.hash()))
}
