//! The Calls in flight on a connection, by XID.

use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::outgoing_call::CallTag;
use crate::transport_error::PermanentSubmitRefusal;

/// The Calls in flight, each with data of the transport.
#[derive(Debug)]
pub struct InFlightCalls<T> {
    calls: FxHashMap<u32, InFlightCall<T>>,
    submitted: u64,
}

#[derive(Debug)]
struct InFlightCall<T> {
    tag: CallTag,
    number: u64,
    data: T,
}

impl<T> Default for InFlightCalls<T> {
    fn default() -> Self {
        Self { calls: FxHashMap::default(), submitted: 0 }
    }
}

impl<T> InFlightCalls<T> {
    /// Returns the number of Calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns `true` if there are no Calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns `true` if a Call with this XID is in flight.
    pub fn has(&self, xid: Xid) -> bool {
        self.calls.contains_key(&xid.0)
    }

    /// Adds a Call.
    ///
    /// # Errors
    /// Returns an error, and drops `data`, if a Call with this XID is in flight.
    pub fn add(&mut self, xid: Xid, tag: CallTag, data: T) -> Result<(), PermanentSubmitRefusal> {
        if self.has(xid) {
            return Err(PermanentSubmitRefusal::XidInFlight);
        }
        self.calls.insert(xid.0, InFlightCall { tag, number: self.submitted, data });
        self.submitted += 1;
        Ok(())
    }

    /// Returns the data of the Call with this XID.
    pub fn get(&self, xid: Xid) -> Option<&T> {
        self.calls.get(&xid.0).map(|entry| &entry.data)
    }

    /// Removes the Call with this XID.
    pub fn take(&mut self, xid: Xid) -> Option<(CallTag, T)> {
        self.calls.remove(&xid.0).map(|entry| (entry.tag, entry.data))
    }

    /// Removes all Calls, and replaces the contents of `lost_tags` with their tags in the order of submission.
    pub fn drain_lost(&mut self, lost_tags: &mut Vec<CallTag>) -> Vec<T> {
        let mut entries: Vec<_> = self.calls.drain().map(|(_, entry)| entry).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        lost_tags.clear();
        lost_tags.extend(entries.iter().map(|entry| entry.tag));
        entries.into_iter().map(|entry| entry.data).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_xid_and_lost_in_their_order() {
        let mut flight = InFlightCalls::default();
        for (index, xid) in [9, 3, 7].into_iter().enumerate() {
            flight.add(Xid(xid), CallTag(index as u64), xid).unwrap();
        }
        assert_eq!(flight.add(Xid(3), CallTag(9), 3), Err(PermanentSubmitRefusal::XidInFlight));
        assert_eq!(flight.take(Xid(3)), Some((CallTag(1), 3)));
        assert_eq!(flight.take(Xid(3)), None);
        let mut lost = vec![CallTag(99)];
        assert_eq!(flight.drain_lost(&mut lost), [9, 7]);
        assert_eq!((lost, flight.is_empty()), (vec![CallTag(0), CallTag(2)], true));
    }
}
