//! Resources that several steps may use at once if they access them in the same mode.
//!
//! The steps that use a resource form a queue of groups: the steps of one group run concurrently, and a group waits
//! until the previous one is done. The cost of a step is therefore independent of the number of users.

use rustc_hash::FxHashMap;

use super::DependencyResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) enum ResourceAccessMode {
    /// Shared by steps that only read it.
    SharedRead,
    /// Shared by steps that each change a part of it.
    SharedPartialWrite,
    Exclusive,
}

impl ResourceAccessMode {
    /// Returns the mode of a step that accesses a resource in both modes.
    pub(super) fn combined_with(self, other: Self) -> Self {
        if self == other { self } else { Self::Exclusive }
    }
}

#[derive(Debug)]
struct SameModeAccessGroup {
    resource: DependencyResource,
    mode: ResourceAccessMode,
    unfinished: u32,
    /// Steps that wait for the whole group.
    waiters: Vec<u32>,
    previous: Option<u32>,
    next: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct ResourceAccessQueues {
    latest_group: FxHashMap<DependencyResource, u32>,
    groups: Vec<SameModeAccessGroup>,
    free: Vec<u32>,
}

impl ResourceAccessQueues {
    /// Adds a step's access to a resource. Returns the group that it joined, and `true` if it waits for the previous
    /// one.
    pub(super) fn join(
        &mut self,
        of: DependencyResource,
        way: ResourceAccessMode,
        window_index: u32,
    ) -> (u32, bool) {
        let latest = self.latest_group.get(&of).copied();
        if let Some(number) = latest
            && way != ResourceAccessMode::Exclusive
            && let Some(group) = self.groups.get_mut(number as usize).filter(|group| group.mode == way)
        {
            group.unfinished += 1;
            let before = group.previous;
            return (number, self.wait(before, window_index));
        }
        let number = self.new_group(of, way, latest);
        if let Some(before) = latest.and_then(|before| self.groups.get_mut(before as usize)) {
            before.next = Some(number);
        }
        self.latest_group.insert(of, number);
        (number, self.wait(latest, window_index))
    }

    fn wait(&mut self, group: Option<u32>, window_index: u32) -> bool {
        match group.and_then(|group| self.groups.get_mut(group as usize)) {
            Some(group) => {
                group.waiters.push(window_index);
                true
            }
            None => false,
        }
    }

    fn new_group(&mut self, of: DependencyResource, way: ResourceAccessMode, before: Option<u32>) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(group) = self.groups.get_mut(number as usize)
        {
            (group.resource, group.mode, group.unfinished, group.previous, group.next) =
                (of, way, 1, before, None);
            return number;
        }
        self.groups.push(SameModeAccessGroup {
            resource: of,
            mode: way,
            unfinished: 1,
            waiters: Vec::new(),
            previous: before,
            next: None,
        });
        (self.groups.len() - 1) as u32
    }

    /// Removes a finished step from a group. Moves the steps that waited for the group to `wake` if it was the last.
    pub(super) fn finish(&mut self, number: u32, wake: &mut Vec<u32>) {
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        group.unfinished = group.unfinished.saturating_sub(1);
        if group.unfinished > 0 {
            return;
        }
        wake.append(&mut group.waiters);
        let (of, after) = (group.resource, group.next.take());
        match after.and_then(|after| self.groups.get_mut(after as usize)) {
            Some(after) => after.previous = None,
            None => {
                self.latest_group.remove(&of);
            }
        }
        self.free.push(number);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.latest_group.is_empty() && self.free.len() == self.groups.len()
    }
}
