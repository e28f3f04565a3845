//! Slots of the sessions of NFSv4.1, to tell Calls that repeat another one, and false retries. RFC 8881 section
//! 2.10.6.1.3.1: a server may answer a false retry with the results of the other Call.
//!
//! A slot takes a few bytes: hashes stand for its session, for the arguments and for the results. Only the fore channel is
//! compared, not CB_COMPOUND, whose program numbers the Calls alone tell. Every Transaction comes here, and a dozen words
//! are enough: they are read from the bytes, because decoded credentials and operations would cost more than the
//! comparison.

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use nfsrdma_dissectors::address::VirtualNetwork;
use nfsrdma_dissectors::nfs::v4::OperationNumber;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::gss::RpcGssService;
use nfsrdma_dissectors::rpc::{MsgType, Program, VERSION as RPC_VERSION};
use rustc_hash::{FxHashMap, FxHasher};

use super::transaction::{CapturedMessage, Transaction};

/// Maximum number of slots. A new one beyond it makes all others forgotten.
const MAX_SLOTS: usize = 4096;
/// Number of sequence IDs before the last one of a slot that are of Transactions emitted late. Others are of a slot that
/// began again.
const MAX_LATE_USES: u32 = 1024;
/// Maximum number of bytes of a message that its hash covers: data of a READ or WRITE may follow.
const MAX_HASHED_BYTES: usize = 512;

/// The last use of a slot.
#[derive(Clone, Copy, Debug)]
struct SlotUse {
    sequence_id: u32,
    /// Hash of the operations after SEQUENCE.
    arguments: u32,
    /// Hash of the results after that of SEQUENCE; 0 before a Reply in which SEQUENCE succeeded.
    results: u32,
}

/// Relation of a Transaction to an earlier one with its session, slot and sequence ID.
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
    /// Records a Transaction, and compares it with the last use of its slot. An earlier use, which is emitted late, is not
    /// recorded. Servers of different virtual networks may give the same session IDs.
    pub(super) fn record(&mut self, tenant: VirtualNetwork, transaction: &Transaction) -> Option<SlotRetry> {
        let call = SequenceCall::decode(whole_bytes(transaction.call.as_ref()?)?, tenant)?;
        let SequenceCall { slot, sequence_id, arguments } = call;
        let reply = transaction.reply.as_ref().and_then(whole_bytes);
        let results = reply.and_then(sequence_results).filter(|(of_reply, _)| *of_reply == sequence_id);
        let results = results.map_or(0, |(_, results)| results);
        if self.slots.len() >= MAX_SLOTS && !self.slots.contains_key(&slot) {
            self.slots.clear();
        }
        let mut entry = match self.slots.entry(slot) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                entry.insert(SlotUse { sequence_id, arguments, results });
                return None;
            }
        };
        let last = entry.get_mut();
        match last.sequence_id.wrapping_sub(sequence_id) {
            0 => {}
            1..=MAX_LATE_USES => return None,
            _ => {
                *last = SlotUse { sequence_id, arguments, results };
                return None;
            }
        }
        let has_results = last.results != 0 && last.results == results;
        if last.results == 0 {
            last.results = results;
        }
        match last.arguments == arguments {
            true => Some(SlotRetry::Same),
            false => has_results.then_some(SlotRetry::FalseWithCachedResults),
        }
    }
}

/// Returns the inline bytes of a message that was captured to its end.
fn whole_bytes(message: &CapturedMessage) -> Option<&[u8]> {
    let is_whole = message.gaps.is_empty() && message.bytes.len() >= message.length;
    is_whole.then(|| message.inline_bytes())
}

/// Takes the next bytes of a message.
#[inline]
fn take<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(bytes)
}

/// Takes the next opaque item, with its fill bytes.
#[inline]
fn take_opaque<'a>(message: &mut &'a [u8]) -> Option<&'a [u8]> {
    let [length] = take_words(message)?;
    let length = length as usize;
    let item = take(message, length)?;
    take(message, length.wrapping_neg() % 4)?;
    Some(item)
}

#[inline]
fn take_words<const N: usize>(message: &mut &[u8]) -> Option<[u32; N]> {
    let (words, _) = take(message, 4 * N)?.as_chunks::<4>();
    let words: &[[u8; 4]; N] = words.first_chunk()?;
    Some(words.map(u32::from_be_bytes))
}

/// Returns a hash of the rest of a message that is not 0.
#[inline]
fn hash_of_rest(rest: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(&rest[..rest.len().min(MAX_HASHED_BYTES)]);
    hasher.write_usize(rest.len());
    let hash = hasher.finish();
    ((hash >> 32) as u32 ^ hash as u32).max(1)
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
    #[inline]
    fn decode(mut message: &[u8], tenant: VirtualNetwork) -> Option<Self> {
        let [_xid, head @ ..] = take_words::<6>(&mut message)?;
        if head != [MsgType::CALL.0, RPC_VERSION, Program::NFS.0, 4, 1] {
            return None;
        }
        let [flavor] = take_words(&mut message)?;
        let credential = take_opaque(&mut message)?;
        let [_verifier_flavor] = take_words(&mut message)?;
        take_opaque(&mut message)?;
        if Flavor(flavor) == Flavor::RPCSEC_GSS {
            // Version, procedure, sequence number, service.
            let service = credential.get(12..16).and_then(|word| word.first_chunk()).copied();
            match RpcGssService(service.map(u32::from_be_bytes)?) {
                RpcGssService::rpc_gss_svc_none => {}
                RpcGssService::rpc_gss_svc_integrity => {
                    message = take_opaque(&mut message)?;
                    let [_sequence_number] = take_words(&mut message)?;
                }
                _ => return None,
            }
        }
        let _tag = take_opaque(&mut message)?;
        let [minor_version, _count, operation] = take_words(&mut message)?;
        if minor_version == 0 || operation != OperationNumber::SEQUENCE.0 {
            return None;
        }
        let mut hasher = FxHasher::default();
        tenant.hash(&mut hasher);
        hasher.write(take(&mut message, 16)?);
        let [sequence_id, slot, _highest_slot, _is_cached] = take_words(&mut message)?;
        hasher.write_u32(slot);
        Some(Self { slot: hasher.finish(), sequence_id, arguments: hash_of_rest(message) })
    }
}

/// Returns the sequence ID of a Reply in which SEQUENCE succeeded, and a hash of the other results.
#[inline]
fn sequence_results(mut message: &[u8]) -> Option<(u32, u32)> {
    let [_xid, kind, is_denied, flavor] = take_words(&mut message)?;
    take_opaque(&mut message)?;
    let [accept_status] = take_words(&mut message)?;
    if [kind, is_denied, accept_status] != [MsgType::REPLY.0, 0, 0] {
        return None;
    }
    // Signed results are behind their length and a sequence number: a status is no such length.
    let mut body = message;
    if Flavor(flavor) == Flavor::RPCSEC_GSS
        && let Some(signed) = take_opaque(&mut body).filter(|signed| signed.len() > 8)
        && let Some(results) = signed.get(4..)
        && let Some(found) = compound_results(results)
    {
        return Some(found);
    }
    compound_results(message)
}

#[inline]
fn compound_results(mut message: &[u8]) -> Option<(u32, u32)> {
    let [_status] = take_words(&mut message)?;
    let _tag = take_opaque(&mut message)?;
    let [_count, operation, status] = take_words(&mut message)?;
    if [operation, status] != [OperationNumber::SEQUENCE.0, 0] {
        return None;
    }
    let _session = take(&mut message, 16)?;
    // The slots and flags may change.
    let [sequence_id, _slot, _highest_slot, _target_highest_slot, _flags] = take_words(&mut message)?;
    Some((sequence_id, hash_of_rest(message)))
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};

    use super::*;

    // Words as RFC 2203 section 5 has them.
    const RPCSEC_GSS: u32 = 6;
    const SERVICE_NONE: u32 = 1;
    const SERVICE_INTEGRITY: u32 = 2;

    /// Protection of the arguments and results.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Protection {
        /// AUTH_SYS.
        Sys,
        /// RPCSEC_GSS with this service.
        Gss(u32),
    }

    const PRIVACY: u32 = 3;
    const GETATTR: [u32; 3] = [9, 1, 1];
    const LOOKUPP: [u32; 3] = [16, 0, 0];

    /// A COMPOUND with one operation behind SEQUENCE.
    #[derive(Clone, Copy)]
    struct Compound {
        protection: Protection,
        minor_version: u32,
        session: u32,
        slot: u32,
        sequence_id: u32,
        arguments: [u32; 3],
        /// Status of the COMPOUND, and what its second operation returns.
        status: u32,
        results: [u32; 3],
    }

    const COMPOUND: Compound = Compound {
        protection: Protection::Sys,
        minor_version: 1,
        session: 7,
        slot: 3,
        sequence_id: 10,
        arguments: GETATTR,
        status: 0,
        results: [9, 0, 1],
    };

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    impl Compound {
        /// Returns the arguments or results as they are sent; `number` is the sequence number of RPCSEC_GSS.
        fn protected(self, body: Vec<u32>, number: u32) -> Vec<u32> {
            match self.protection {
                Protection::Sys | Protection::Gss(SERVICE_NONE) => body,
                Protection::Gss(_) => [vec![4 * (body.len() as u32 + 1), number], body, vec![4, 0xdead_beef]].concat(),
            }
        }

        fn transaction(self, number: u32) -> Transaction {
            let Self { protection, minor_version, session, slot, sequence_id, .. } = self;
            let credential = match protection {
                Protection::Sys => vec![1, 20, 0, 0, 0, 0, 0],
                Protection::Gss(service) => vec![RPCSEC_GSS, 24, 1, 0, number, service, 4, 77],
            };
            let verifier = match protection {
                Protection::Sys => vec![0, 0],
                Protection::Gss(_) => vec![RPCSEC_GSS, 4, number],
            };
            let sequence = [53, session, session, session, session, sequence_id, slot, slot, 0];
            let arguments = [&[0, minor_version, 2][..], &sequence, &self.arguments].concat();
            let head = [number, 0, 2, 100_003, 4, 1];
            let call = [&head[..], &credential, &verifier, &self.protected(arguments, number)].concat();
            let sequence = [53, 0, session, session, session, session, sequence_id, slot, number, number, 0];
            let results = [&[self.status, 0, 2][..], &sequence, &self.results].concat();
            let reply = [&[number, 1, 0][..], &verifier, &[0], &self.protected(results, number)].concat();
            let message = |words: &[u32]| {
                CapturedMessage::plain(vec![FrameNumber(1)], Timestamp(0), bytes(words), 4 * words.len())
            };
            Transaction { call: Some(message(&call)), reply: Some(message(&reply)), ..Transaction::default() }
        }
    }

    /// Records Transactions with the sequence numbers from 1 on.
    fn record_all(compounds: &[Compound]) -> Vec<Option<SlotRetry>> {
        let mut slots = SessionSlots::default();
        let record = |(number, compound): (u32, &Compound)| {
            slots.record(VirtualNetwork::default(), &compound.transaction(number))
        };
        (1..).zip(compounds).map(record).collect()
    }

    /// RFC 2203 section 5.3.3.4: signed arguments and results are behind a length and a sequence number; a status of the
    /// COMPOUND is in the place of the length without signature. Encrypted ones are not compared.
    #[test]
    fn protected_retries_are_compared() {
        let false_retry = Compound { arguments: LOOKUPP, ..COMPOUND };
        let other_results = Compound { results: [16, 0, 0], ..false_retry };
        let readable = [Protection::Sys, Protection::Gss(SERVICE_NONE), Protection::Gss(SERVICE_INTEGRITY)];
        // NFS4ERR_ACCESS, and the two largest statuses of RFC 7862 and RFC 8276.
        for (protection, status) in
            readable.into_iter().flat_map(|protection| [0, 13, 10_093, 10_096].map(|status| (protection, status)))
        {
            let with = |compound: Compound| Compound { protection, status, ..compound };
            let found = record_all(&[COMPOUND, COMPOUND, false_retry, other_results].map(with));
            let expected = [None, Some(SlotRetry::Same), Some(SlotRetry::FalseWithCachedResults), None];
            assert_eq!(found, expected, "{protection:?} {status}");
        }
        let encrypted = Compound { protection: Protection::Gss(PRIVACY), ..COMPOUND };
        assert_eq!(record_all(&[encrypted; 2]), [None; 2]);
    }

    /// NFSv4.0 has no sessions: whatever its first operation, no slot is used.
    #[test]
    fn minor_version_0_has_no_slots() {
        let compound = Compound { minor_version: 0, ..COMPOUND };
        assert_eq!(record_all(&[compound; 2]), [None; 2]);
    }

    /// A known slot makes no other one forgotten, a new one beyond the limit does.
    #[test]
    fn slots_are_forgotten_at_limit() {
        let mut slots = SessionSlots::default();
        let mut record = |slot: u32| {
            let compound = Compound { slot, ..COMPOUND };
            slots.record(VirtualNetwork::default(), &compound.transaction(slot))
        };
        for slot in 0..MAX_SLOTS as u32 {
            assert_eq!(record(slot), None);
        }
        assert_eq!([record(5), record(6)], [Some(SlotRetry::Same); 2]);
        assert_eq!(record(MAX_SLOTS as u32), None);
        assert_eq!([record(5), record(MAX_SLOTS as u32)], [None, Some(SlotRetry::Same)]);
    }

    /// RFC 8881 section 2.10.6.1: sequence IDs ascend, and 0 follows the largest.
    #[test]
    fn late_use_replaces_no_newer_one() {
        for first in [10, u32::MAX] {
            let early = Compound { sequence_id: first, ..COMPOUND };
            let newer = Compound { sequence_id: first.wrapping_add(1), ..COMPOUND };
            let found = record_all(&[early, newer, early, newer]);
            assert_eq!(found, [None, None, None, Some(SlotRetry::Same)], "{first}");
        }
        // A slot that began again.
        let [old, new] = [100_000, 1].map(|sequence_id| Compound { sequence_id, ..COMPOUND });
        assert_eq!(record_all(&[old, new, new]), [None, None, Some(SlotRetry::Same)]);
    }
}
