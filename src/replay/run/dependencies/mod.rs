//! Which step waits for which: a step may go when all that it depends on is done, whatever stands before it.
//!
//! - [`effects`]: what an operation does; [`collector`]: what a step depends on, from its Call and the recorded Reply;
//! - [`name_targets`]: which object a name in a directory stands for;
//! - [`access_groups`]: resources that are used alone, or by several at once;
//! - [`step_intervals`]: steps that wait for what was over before they began; [`byte_ranges`]: bytes of a file.
//!
//! A step waits for steps before it alone, so that no two wait for each other. What is remembered is bounded by the window.

mod access_groups;
mod byte_ranges;
pub(super) mod collector;
pub(super) mod effects;
pub(super) mod name_targets;
mod step_intervals;

use rustc_hash::FxHashMap;

pub(super) use access_groups::ResourceAccessMode;

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ReplayResourceKind {
    /// Everything.
    All,
    /// A client, by its number.
    Client,
    /// A slot of a session: the variable of the session, and the slot in the capture.
    Slot,
    /// The count of an open owner (0) or a lock owner (1).
    Owner,
    /// A stateid.
    Stateid,
    /// An object, by the variable of a filehandle.
    Object,
    /// All names of a directory.
    Names,
    /// One name of a directory, by its hash.
    Name,
    /// What is open and locked of a file.
    Opens,
    /// Opens of a file by one client that end, and that begin anew.
    Ends,
    /// Size and attributes of a file.
    Size,
}

/// What steps must not have at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReplayResource {
    kind: ReplayResourceKind,
    of: u32,
    part: u64,
}

/// What a step depends on, and what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StepDependency {
    /// It uses this.
    Group(ReplayResource, ResourceAccessMode),
    /// It waits for those that were over when it began; others wait for it, too, if it changes something.
    Span(ReplayResource, bool),
    /// It gives a variable its value.
    Define(u32),
    /// It needs the value of a variable.
    Need(u32),
    /// It reads or writes bytes of a file, from one up to another.
    Range(u32, u64, u64, bool),
}

/// What a step has taken, to be given back.
#[derive(Clone, Copy, Debug)]
enum AcquiredDependency {
    Group(u32),
    Span(ReplayResource),
    Define(u32),
    Range(u32, u64),
}

/// A step in the window.
#[derive(Debug, Default)]
struct DependencyNode {
    /// What it waits for.
    waits: u32,
    waiters: Vec<u32>,
    taken: Vec<AcquiredDependency>,
    end: u64,
}

/// What the steps of the window depend on.
#[derive(Debug, Default)]
pub(super) struct DependencyGraph {
    nodes: Vec<DependencyNode>,
    groups: access_groups::ResourceAccessGroups,
    spans: FxHashMap<ReplayResource, step_intervals::StepIntervals>,
    spare_spans: Vec<step_intervals::StepIntervals>,
    ranges: FxHashMap<u32, byte_ranges::ByteRangeUses>,
    spare_ranges: Vec<byte_ranges::ByteRangeUses>,
    /// Who gives a variable its value.
    definitions: FxHashMap<u32, u32>,
    woken: Vec<u32>,
}

impl DependencyGraph {
    /// A step takes its seat: when it was sent and answered in the capture, and its claims, which are put in order. Whether
    /// it may go at once.
    pub(super) fn admit(&mut self, seat: u32, span: (u64, u64), claims: &mut Vec<StepDependency>) -> bool {
        merge(claims);
        let at = seat as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, DependencyNode::default);
        }
        let mut taken =
            self.nodes.get_mut(at).map(|node| std::mem::take(&mut node.taken)).unwrap_or_default();
        let mut waits = 0;
        for claim in claims.iter() {
            match *claim {
                StepDependency::Group(of, way) => {
                    let (group, is_waiting) = self.groups.join(of, way, seat);
                    waits += u32::from(is_waiting);
                    taken.push(AcquiredDependency::Group(group));
                }
                StepDependency::Span(of, changes) => {
                    let spare = &mut self.spare_spans;
                    let spans = self.spans.entry(of).or_insert_with(|| spare.pop().unwrap_or_default());
                    let nodes = &mut self.nodes;
                    spans.join(span, seat, changes, |other| waits += wait(nodes, other, seat));
                    taken.push(AcquiredDependency::Span(of));
                }
                StepDependency::Define(variable) => {
                    // The first gives it; others repeat it.
                    if let std::collections::hash_map::Entry::Vacant(entry) = self.definitions.entry(variable)
                    {
                        entry.insert(seat);
                        taken.push(AcquiredDependency::Define(variable));
                    }
                }
                StepDependency::Need(variable) => {
                    if let Some(other) = self.definitions.get(&variable).filter(|other| **other != seat) {
                        waits += wait(&mut self.nodes, *other, seat);
                    }
                }
                StepDependency::Range(file, from, to, writes) if from < to => {
                    let spare = &mut self.spare_ranges;
                    let ranges = self.ranges.entry(file).or_insert_with(|| spare.pop().unwrap_or_default());
                    let nodes = &mut self.nodes;
                    ranges.join((from, to), seat, writes, |other| waits += wait(nodes, other, seat));
                    taken.push(AcquiredDependency::Range(file, from));
                }
                StepDependency::Range(..) => {}
            }
        }
        if let Some(node) = self.nodes.get_mut(at) {
            (node.waits, node.taken, node.end) = (waits, taken, span.1);
        }
        waits == 0
    }

    /// A step is done, and leaves its seat. Appends to `ready` the steps that may go now.
    pub(super) fn finish(&mut self, seat: u32, ready: &mut Vec<u32>) {
        let Some(node) = self.nodes.get_mut(seat as usize) else { return };
        let (mut taken, end) = (std::mem::take(&mut node.taken), node.end);
        let mut woken = std::mem::take(&mut self.woken);
        woken.append(&mut node.waiters);
        for taken in taken.drain(..) {
            match taken {
                AcquiredDependency::Group(group) => self.groups.leave(group, &mut woken),
                AcquiredDependency::Span(of) => {
                    if let Some(spans) = self.spans.get_mut(&of) {
                        spans.leave(end, seat);
                        if spans.is_empty() {
                            self.spare_spans.extend(self.spans.remove(&of));
                        }
                    }
                }
                AcquiredDependency::Define(variable) => {
                    self.definitions.remove(&variable);
                }
                AcquiredDependency::Range(file, from) => {
                    if let Some(ranges) = self.ranges.get_mut(&file) {
                        ranges.leave(from, seat);
                        if ranges.is_empty() {
                            self.spare_ranges.extend(self.ranges.remove(&file));
                        }
                    }
                }
            }
        }
        if let Some(node) = self.nodes.get_mut(seat as usize) {
            node.taken = taken;
        }
        for other in woken.drain(..) {
            if let Some(node) = self.nodes.get_mut(other as usize) {
                node.waits = node.waits.saturating_sub(1);
                if node.waits == 0 {
                    ready.push(other);
                }
            }
        }
        self.woken = woken;
    }

    /// Whether nothing is remembered.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
            && self.spans.is_empty()
            && self.ranges.is_empty()
            && self.definitions.is_empty()
            && self.nodes.iter().all(|node| node.waiters.is_empty() && node.taken.is_empty())
    }
}

fn wait(nodes: &mut [DependencyNode], other: u32, seat: u32) -> u32 {
    match nodes.get_mut(other as usize) {
        Some(node) => {
            node.waiters.push(seat);
            1
        }
        None => 0,
    }
}

/// Puts claims in order, so that none is there twice: two ways to use one resource become one.
fn merge(claims: &mut Vec<StepDependency>) {
    claims.sort_unstable();
    claims.dedup_by(|later, first| match (later, first) {
        (StepDependency::Group(of, way), StepDependency::Group(same, kept)) if of == same => {
            *kept = kept.and(*way);
            true
        }
        (StepDependency::Span(of, changes), StepDependency::Span(same, kept)) if of == same => {
            *kept |= *changes;
            true
        }
        (later, first) => later == first,
    });
}

#[cfg(test)]
mod tests;
