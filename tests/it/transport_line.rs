//! Counters of the Linux client's transport line (`xprt: rdma` in mountstats), and its one known error.

use std::collections::{BTreeMap, HashSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Read,
    Write,
    Reply,
}

/// Segment of a chunk: the length offered, or the length returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    pub(crate) kind: Kind,
    pub(crate) length: u64,
}

/// Counts of the messages of a capture, with the chunk lists of forward Calls and Replies.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Messages by sender, kind, and RPC-over-RDMA procedure.
    pub(crate) messages: BTreeMap<(&'static str, &'static str, String), u64>,
    pub(crate) counts: Counts,
    /// Segments of each forward Call.
    pub(crate) calls: Vec<Vec<Segment>>,
}

/// Numbers of the line: segments marshalled, bytes offered in Write and Reply segments, bytes returned.
#[derive(Default, Debug, PartialEq, Eq, Clone, Copy, Hash)]
pub(crate) struct Counts {
    pub(crate) read_segments: u64,
    pub(crate) write_segments: u64,
    pub(crate) reply_segments: u64,
    pub(crate) offered: u64,
    pub(crate) returned: u64,
}

impl Counts {
    fn offer(&mut self, segment: &Segment) {
        match segment.kind {
            Kind::Read => self.read_segments += 1,
            Kind::Write => self.write_segments += 1,
            Kind::Reply => self.reply_segments += 1,
        }
        if segment.kind != Kind::Read {
            self.offered += segment.length;
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.read_segments += other.read_segments;
        self.write_segments += other.write_segments;
        self.reply_segments += other.reply_segments;
        self.offered += other.offered;
        self.returned += other.returned;
        self
    }
}

impl Totals {
    /// Adds a message. Chunks count in the forward direction only: the client marshals no others.
    pub(crate) fn add(&mut self, from_client: bool, is_call: bool, procedure: &str, segments: &[Segment]) {
        let sender = if from_client { "client" } else { "server" };
        let kind = if is_call { "Call" } else { "Reply" };
        *self.messages.entry((sender, kind, procedure.to_owned())).or_default() += 1;
        if from_client && is_call {
            segments.iter().for_each(|segment| self.counts.offer(segment));
            self.calls.push(segments.to_vec());
        } else if !from_client && !is_call {
            self.counts.returned += segments.iter().map(|segment| segment.length).sum::<u64>();
        }
    }

    fn count(&self, sender: &str, kind: &str) -> u64 {
        self.messages.iter().filter(|((s, k, _), _)| *s == sender && *k == kind).map(|(_, n)| n).sum()
    }

    /// Returns the number of forward Calls, and of Replies to callbacks.
    pub(crate) fn sends(&self) -> u64 {
        self.count("client", "Call") + self.count("client", "Reply")
    }

    /// Returns the number of Replies to forward Calls.
    pub(crate) fn receives(&self) -> u64 {
        self.count("server", "Reply")
    }
}

/// Transport line of one mount; with `nconnect` the sum of its lines.
#[derive(Default, Debug)]
pub(crate) struct TransportLine {
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    pub(crate) counts: Counts,
    pub(crate) failed_marshals: u64,
}

impl TransportLine {
    /// Adds the numbers after `xprt: rdma` (Linux, `xprt_rdma_print_stats`) or `xprt: tcp`, which has only the
    /// messages.
    pub(crate) fn add(&mut self, numbers: &[u64]) {
        self.sends += numbers[5];
        self.receives += numbers[6];
        if numbers.len() <= 18 {
            return;
        }
        self.counts = self.counts.plus(&Counts {
            read_segments: numbers[10],
            write_segments: numbers[11],
            reply_segments: numbers[12],
            offered: numbers[13],
            returned: numbers[14],
        });
        self.failed_marshals += numbers[18];
    }

    /// Compares the counts with the kernel's, except for failed marshals: the kernel counts each segment as it
    /// registers it, and when it runs out of memory regions in the middle of a request, it counts these segments again
    /// when it marshals the request again. So it may exceed the capture by the first segments of one Call for each
    /// failed marshal, and by nothing else.
    pub(crate) fn assert_counts(&self, name: &str, totals: &Totals) {
        let mut explained = HashSet::from([totals.counts]);
        for _ in 0..self.failed_marshals {
            explained = explained.iter().flat_map(|sum| beginnings(&totals.calls).map(|b| sum.plus(&b))).collect();
        }
        assert!(
            explained.contains(&self.counts),
            "{name}: the kernel counted {:?} with {} failed marshals, the wire has {:?}",
            self.counts,
            self.failed_marshals,
            totals.counts
        );
    }
}

/// Returns the counts of the first segments of a Call, for every Call and every number of segments.
fn beginnings(calls: &[Vec<Segment>]) -> impl Iterator<Item = Counts> {
    let distinct: HashSet<&Vec<Segment>> = calls.iter().collect();
    distinct.into_iter().flat_map(|segments| {
        (0..=segments.len()).map(|n| {
            let mut counts = Counts::default();
            segments[..n].iter().for_each(|segment| counts.offer(segment));
            counts
        })
    })
}
