//! Resources that several steps may use at once, as long as they use them in the same way.
//!
//! The steps that use a resource stand in groups, one behind the other: steps in one group go at the same time, and a group
//! waits until all of the one before it are done. So a step costs the same however many steps use what it uses.

use rustc_hash::FxHashMap;

use super::ReplayResource;

/// How a step uses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::replay::run) enum ResourceAccessMode {
    /// As others do that look at it.
    Use,
    /// As others do that change a part of it.
    Part,
    /// Alone.
    Alone,
}

impl ResourceAccessMode {
    /// The way of a step that uses a resource in both.
    pub(super) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Alone }
    }
}

#[derive(Debug)]
struct ResourceAccessGroup {
    of: ReplayResource,
    way: ResourceAccessMode,
    /// Steps of it that are not done.
    left: u32,
    /// Steps that wait for all of it.
    waiters: Vec<u32>,
    before: Option<u32>,
    after: Option<u32>,
}

/// The groups of all resources in use.
#[derive(Debug, Default)]
pub(super) struct ResourceAccessGroups {
    latest: FxHashMap<ReplayResource, u32>,
    groups: Vec<ResourceAccessGroup>,
    free: Vec<u32>,
}

impl ResourceAccessGroups {
    /// A step takes a resource. Gives the group that it stands in, and whether it waits for the one before.
    pub(super) fn join(&mut self, of: ReplayResource, way: ResourceAccessMode, seat: u32) -> (u32, bool) {
        let latest = self.latest.get(&of).copied();
        if let Some(number) = latest
            && way != ResourceAccessMode::Alone
            && let Some(group) = self.groups.get_mut(number as usize).filter(|group| group.way == way)
        {
            group.left += 1;
            let before = group.before;
            return (number, self.wait(before, seat));
        }
        let number = self.new_group(of, way, latest);
        if let Some(before) = latest.and_then(|before| self.groups.get_mut(before as usize)) {
            before.after = Some(number);
        }
        self.latest.insert(of, number);
        (number, self.wait(latest, seat))
    }

    fn wait(&mut self, group: Option<u32>, seat: u32) -> bool {
        match group.and_then(|group| self.groups.get_mut(group as usize)) {
            Some(group) => {
                group.waiters.push(seat);
                true
            }
            None => false,
        }
    }

    fn new_group(&mut self, of: ReplayResource, way: ResourceAccessMode, before: Option<u32>) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(group) = self.groups.get_mut(number as usize)
        {
            (group.of, group.way, group.left, group.before, group.after) = (of, way, 1, before, None);
            return number;
        }
        self.groups.push(ResourceAccessGroup { of, way, left: 1, waiters: Vec::new(), before, after: None });
        (self.groups.len() - 1) as u32
    }

    /// A step of a group is done. Tells `wake` the steps that waited for the group, if it was the last.
    pub(super) fn leave(&mut self, number: u32, wake: &mut Vec<u32>) {
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        group.left = group.left.saturating_sub(1);
        if group.left > 0 {
            return;
        }
        wake.append(&mut group.waiters);
        let (of, after) = (group.of, group.after.take());
        match after.and_then(|after| self.groups.get_mut(after as usize)) {
            Some(after) => after.before = None,
            None => {
                self.latest.remove(&of);
            }
        }
        self.free.push(number);
    }

    /// Whether nothing is in use.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.free.len() == self.groups.len()
    }
}
