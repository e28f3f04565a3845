//! Dependencies between steps: a step may be sent when all steps that it depends on are finished, whatever precedes it.
//!
//! - [`effects`]: effects of operations; [`collector`]: dependencies of a step, from its Call and the recorded Reply;
//! - [`name_to_object_bindings`]: objects that directory entries refer to;
//! - [`resource_access_queues`]: resources with shared or exclusive access;
//! - [`captured_interval_order`]: steps that wait for those that were complete before they began; [`byte_ranges`]: byte
//!   ranges of a file.
//!
//! A step only waits for earlier steps, so there is no deadlock. Memory is limited by the window.

mod byte_ranges;
mod captured_interval_order;
pub(super) mod collector;
pub(super) mod effects;
pub(super) mod name_to_object_bindings;
mod resource_access_queues;

use rustc_hash::FxHashMap;

use resource_access_queues::{DependencyResource, ResourceAccessMode};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StepDependency {
    Access(DependencyResource, ResourceAccessMode),
    /// Waits for steps that were complete when it began in the capture; `true` if it changes the resource.
    Interval(DependencyResource, bool),
    Define(u32),
    Need(u32),
    /// Accesses a byte range of a file: file, start, end (exclusive), `true` for a write.
    Range(u32, u64, u64, bool),
}

/// A dependency that a step holds until it is finished.
#[derive(Clone, Copy, Debug)]
enum ResourceHeldByStep {
    Group(u32),
    Span(DependencyResource),
    Define(u32),
    Range(u32, u64),
}

#[derive(Debug, Default)]
struct DependencyNode {
    /// Number of steps that it waits for.
    pending_count: u32,
    waiters: Vec<u32>,
    acquired: Vec<ResourceHeldByStep>,
    end_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct DependencyGraph {
    nodes: Vec<DependencyNode>,
    access_groups: resource_access_queues::ResourceAccessQueues,
    intervals: FxHashMap<DependencyResource, captured_interval_order::UnfinishedStepIntervals>,
    spare_intervals: Vec<captured_interval_order::UnfinishedStepIntervals>,
    ranges: FxHashMap<u32, byte_ranges::ByteRangeUses>,
    spare_ranges: Vec<byte_ranges::ByteRangeUses>,
    /// Window index of the step that gives each variable its value.
    definitions: FxHashMap<u32, u32>,
    woken_steps: Vec<u32>,
}

impl DependencyGraph {
    /// Adds a step with its captured start and end times and its dependencies. Returns `true` if it is ready.
    pub(super) fn admit(
        &mut self,
        window_index: u32,
        span: (u64, u64),
        dependencies: &mut Vec<StepDependency>,
    ) -> bool {
        merge_dependencies(dependencies);
        let at = window_index as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, DependencyNode::default);
        }
        let mut acquired = self.nodes.get_mut(at).map(|node| std::mem::take(&mut node.acquired)).unwrap_or_default();
        let mut pending_count = 0;
        for dependency in dependencies.iter() {
            match *dependency {
                StepDependency::Access(resource, access_mode) => {
                    let (group, is_waiting) = self.access_groups.join(resource, access_mode, window_index);
                    pending_count += u32::from(is_waiting);
                    acquired.push(ResourceHeldByStep::Group(group));
                }
                StepDependency::Interval(resource, changes) => {
                    let spare = &mut self.spare_intervals;
                    let intervals = self.intervals.entry(resource).or_insert_with(|| spare.pop().unwrap_or_default());
                    let nodes = &mut self.nodes;
                    intervals.add(span, window_index, changes, |other| {
                        pending_count += add_waiter(nodes, other, window_index)
                    });
                    acquired.push(ResourceHeldByStep::Span(resource));
                }
                StepDependency::Define(variable) => {
                    // The first step gives the value; later ones repeat it.
                    if *self.definitions.entry(variable).or_insert(window_index) == window_index {
                        acquired.push(ResourceHeldByStep::Define(variable));
                    }
                }
                StepDependency::Need(variable) => {
                    if let Some(definer) = self.definitions.get(&variable).filter(|definer| **definer != window_index) {
                        pending_count += add_waiter(&mut self.nodes, *definer, window_index);
                    }
                }
                StepDependency::Range(file, from, to, writes) if from < to => {
                    let spare = &mut self.spare_ranges;
                    let ranges = self.ranges.entry(file).or_insert_with(|| spare.pop().unwrap_or_default());
                    let nodes = &mut self.nodes;
                    ranges.add((from, to), window_index, writes, |other| {
                        pending_count += add_waiter(nodes, other, window_index)
                    });
                    acquired.push(ResourceHeldByStep::Range(file, from));
                }
                StepDependency::Range(..) => {}
            }
        }
        if let Some(node) = self.nodes.get_mut(at) {
            (node.pending_count, node.acquired, node.end_ns) = (pending_count, acquired, span.1);
        }
        pending_count == 0
    }

    /// Removes a finished step. Appends the steps that become ready to `ready`.
    pub(super) fn finish(&mut self, window_index: u32, ready: &mut Vec<u32>) {
        let Some(node) = self.nodes.get_mut(window_index as usize) else { return };
        let (mut acquired, end) = (std::mem::take(&mut node.acquired), node.end_ns);
        let mut woken_steps = std::mem::take(&mut self.woken_steps);
        woken_steps.append(&mut node.waiters);
        for dependency in acquired.drain(..) {
            match dependency {
                ResourceHeldByStep::Group(group) => self.access_groups.finish(group, &mut woken_steps),
                ResourceHeldByStep::Span(resource) => {
                    if let Some(intervals) = self.intervals.get_mut(&resource) {
                        intervals.remove(end, window_index);
                        if intervals.is_empty() {
                            self.spare_intervals.extend(self.intervals.remove(&resource));
                        }
                    }
                }
                ResourceHeldByStep::Define(variable) => {
                    self.definitions.remove(&variable);
                }
                ResourceHeldByStep::Range(file, from) => {
                    if let Some(ranges) = self.ranges.get_mut(&file) {
                        ranges.remove(from, window_index);
                        if ranges.is_empty() {
                            self.spare_ranges.extend(self.ranges.remove(&file));
                        }
                    }
                }
            }
        }
        if let Some(node) = self.nodes.get_mut(window_index as usize) {
            node.acquired = acquired;
        }
        for waiter in woken_steps.drain(..) {
            if let Some(node) = self.nodes.get_mut(waiter as usize) {
                node.pending_count = node.pending_count.saturating_sub(1);
                if node.pending_count == 0 {
                    ready.push(waiter);
                }
            }
        }
        self.woken_steps = woken_steps;
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.access_groups.is_empty()
            && self.intervals.is_empty()
            && self.ranges.is_empty()
            && self.definitions.is_empty()
            && self.nodes.iter().all(|node| node.waiters.is_empty() && node.acquired.is_empty())
    }
}

fn add_waiter(nodes: &mut [DependencyNode], other: u32, window_index: u32) -> u32 {
    let Some(node) = nodes.get_mut(other as usize) else { return 0 };
    node.waiters.push(window_index);
    1
}

/// Sorts dependencies and removes duplicates; two accesses to one resource are combined.
fn merge_dependencies(dependencies: &mut Vec<StepDependency>) {
    dependencies.sort_unstable();
    dependencies.dedup_by(|later, first| match (later, first) {
        (StepDependency::Access(resource, mode), StepDependency::Access(same, first_mode)) if resource == same => {
            *first_mode = first_mode.combined_with(*mode);
            true
        }
        (StepDependency::Interval(resource, changes), StepDependency::Interval(same, first_changes))
            if resource == same =>
        {
            *first_changes |= *changes;
            true
        }
        (later, first) => later == first,
    });
}

#[cfg(test)]
mod tests;
