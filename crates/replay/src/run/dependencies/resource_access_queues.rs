//! Resources that several steps may use at once if they access them in the same mode.
//!
//! The steps that use a resource form a queue of groups: the steps of one group run concurrently, and a group waits
//! until the previous one is done. The cost of a step is therefore independent of the number of users.

use rustc_hash::FxHashMap;

/// A resource that restricts concurrency. Files and directories are variables of filehandles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::run) enum DependencyResource {
    All,
    /// A client, by its number.
    Client(u32),
    /// A session slot: variable of the session, and captured slot.
    Slot(u32, u32),
    /// Seqid of an open-owner, or `true` of a lock-owner.
    Owner(u32, bool),
    Stateid(u32),
    Object(u32),
    /// All names of a directory.
    Names(u32),
    /// One name of a directory, by its hash.
    Name(u32, u64),
    /// Opens and locks of a file.
    FileOpens(u32),
    /// Opens of a file by one client that end, and new ones that begin.
    OpenEnds(u32, u32),
    /// Size and attributes of a file.
    Size(u32),
}

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
struct ConcurrentStepGroup {
    resource: DependencyResource,
    mode: ResourceAccessMode,
    unfinished: u32,
    waiters: Vec<u32>,
    previous: Option<u32>,
    next: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct ResourceAccessQueues {
    latest_group: FxHashMap<DependencyResource, u32>,
    groups: Vec<ConcurrentStepGroup>,
    free: Vec<u32>,
}

impl ResourceAccessQueues {
    /// Adds an access to a resource. Returns its group, and `true` if it waits for the previous group.
    pub(super) fn join(
        &mut self,
        resource: DependencyResource,
        mode: ResourceAccessMode,
        window_index: u32,
    ) -> (u32, bool) {
        let latest = self.latest_group.get(&resource).copied();
        if let Some(number) = latest
            && mode != ResourceAccessMode::Exclusive
            && let Some(group) = self.groups.get_mut(number as usize).filter(|group| group.mode == mode)
        {
            group.unfinished += 1;
            let previous = group.previous;
            return (number, self.wait(previous, window_index));
        }
        let group =
            ConcurrentStepGroup { resource, mode, unfinished: 1, waiters: Vec::new(), previous: latest, next: None };
        let number = self.add_group(group);
        if let Some(previous) = latest.and_then(|previous| self.groups.get_mut(previous as usize)) {
            previous.next = Some(number);
        }
        self.latest_group.insert(resource, number);
        (number, self.wait(latest, window_index))
    }

    fn wait(&mut self, group: Option<u32>, window_index: u32) -> bool {
        let group = group.and_then(|group| self.groups.get_mut(group as usize));
        group.map(|group| group.waiters.push(window_index)).is_some()
    }

    /// Adds a group, in the place and with the buffer of one that is finished.
    fn add_group(&mut self, group: ConcurrentStepGroup) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(free_group) = self.groups.get_mut(number as usize)
        {
            let waiters = std::mem::take(&mut free_group.waiters);
            *free_group = ConcurrentStepGroup { waiters, ..group };
            return number;
        }
        self.groups.push(group);
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
        let (resource, next) = (group.resource, group.next.take());
        match next.and_then(|next| self.groups.get_mut(next as usize)) {
            Some(next) => next.previous = None,
            None => {
                self.latest_group.remove(&resource);
            }
        }
        self.free.push(number);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.latest_group.is_empty() && self.free.len() == self.groups.len()
    }
}
