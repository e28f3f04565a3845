//! What a comparison knows of a capture as a whole.

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_dissectors::flow::{EvictedState, Flow, Transaction, UndecodedReason};

use super::record::ComparisonRecord;

/// Kinds of transports and of versions that are remembered; no real capture has more.
const KINDS: usize = 16;

/// A capture as a whole.
#[derive(Clone, Debug, Default)]
pub struct ComparedCapture {
    /// The name of its file.
    pub name: String,
    /// Its frames.
    pub frames: u64,
    /// Its Transactions.
    pub transactions: u64,
    /// Those of them that are not whole.
    pub incomplete: u64,
    /// What carries its connections.
    pub transports: BTreeSet<String>,
    /// The programs and their versions: `NFS 4.2`.
    pub versions: BTreeSet<String>,
    /// Frames that were not decoded, by reason.
    pub undecoded: BTreeMap<&'static str, u64>,
    /// What was given up because a bound was reached.
    pub given_up: BTreeMap<&'static str, u64>,
}

impl ComparedCapture {
    /// Takes a Transaction and its record.
    pub fn transaction(&mut self, transaction: &Transaction, record: &ComparisonRecord) {
        self.transactions += 1;
        self.incomplete += u64::from(!record.missing.is_empty());
        let mut add = |set: fn(&mut Self) -> &mut BTreeSet<String>, word: String| {
            let set = set(self);
            if set.len() < KINDS {
                set.insert(word);
            }
        };
        add(|trace| &mut trace.transports, transaction.connection.transport.to_string());
        let mut words = record.title.split(' ');
        let version = [words.next(), words.next()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        // A NULL Call has no minor version, and says nothing.
        if !record.is_null && record.call.is_some() {
            add(|trace| &mut trace.versions, version);
        }
    }

    /// The capture has ended: notes what is in no Transaction.
    pub fn end(&mut self, flow: &Flow) {
        self.undecoded = flow
            .account()
            .undecoded_counts()
            .map(|(why, count)| (UndecodedReason::key(why), count))
            .collect();
        self.given_up = flow.given_up().map(|(what, count)| (EvictedState::key(what), count)).collect();
    }
}
