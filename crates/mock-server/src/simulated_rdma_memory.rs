//! Memory that is exposed to a server in the test process. Handles are checked as an RDMA device checks them.

use std::sync::Arc;

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_rpc::RegisteredPayloadMemoryId;
use nfsrdma_rpc::rpcrdma_framing::ContiguousChunkMemory;

/// Maximum registered memory in bytes.
const MAX_REGISTERED_BYTES: u64 = 1 << 30;
/// Start offset of the memory of every handle: not 0, like a real address.
const BASE: u64 = 0x7f00_0000_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockMemoryAccess {
    Read,
    Write,
}

/// An access that a device would refuse with a remote access error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MockRemoteAccessError;

/// Registered memory by its handle: an index, and an 8-bit key that changes with each use, like the key of an R_Key. A
/// late access to released memory has an old key.
#[derive(Debug, Default)]
pub(super) struct MockRegisteredMemoryTable {
    memory: Vec<MockRegisteredMemory>,
    /// Free memory by size class: powers of two.
    free: [Vec<u32>; 32],
    free_stored: Vec<u32>,
    stores: Vec<Arc<[u8]>>,
    registered: u64,
}

#[derive(Debug)]
struct MockRegisteredMemory {
    key: u8,
    /// `None` if the memory is released.
    access: Option<MockMemoryAccess>,
    length: u32,
    backing: MockMemoryBacking,
}

#[derive(Debug)]
enum MockMemoryBacking {
    Own(Box<[u8]>),
    Stored(RegisteredPayloadMemoryId, usize),
}

impl MockRegisteredMemoryTable {
    pub(super) fn share(&mut self, memory: &Arc<[u8]>) -> RegisteredPayloadMemoryId {
        let existing = self.stores.iter().position(|store| Arc::ptr_eq(store, memory));
        let index = existing.unwrap_or_else(|| {
            self.stores.push(Arc::clone(memory));
            self.stores.len() - 1
        });
        RegisteredPayloadMemoryId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(super) fn shared_bytes(&self, store: RegisteredPayloadMemoryId, at: usize, length: u32) -> Option<&[u8]> {
        self.stores.get(store.0 as usize)?.get(at..at.checked_add(length as usize)?)
    }

    /// Exposes own memory of `length` bytes, with its previous content. `None` if the limit is reached.
    pub(super) fn register(&mut self, length: u32, access: MockMemoryAccess) -> Option<ContiguousChunkMemory> {
        let class = length.max(64).next_power_of_two().trailing_zeros() as usize;
        let index = match self.free.get_mut(class)?.pop() {
            Some(index) => index,
            None => {
                let capacity = 1u64 << class;
                if self.registered + capacity > MAX_REGISTERED_BYTES {
                    return None;
                }
                self.registered += capacity;
                self.add(MockMemoryBacking::Own(vec![0; capacity as usize].into()))?
            }
        };
        self.expose(index, length, access)
    }

    pub(super) fn register_stored(
        &mut self,
        store: RegisteredPayloadMemoryId,
        at: usize,
        length: u32,
    ) -> Option<ContiguousChunkMemory> {
        self.shared_bytes(store, at, length)?;
        let index = match self.free_stored.pop() {
            Some(index) => index,
            None => self.add(MockMemoryBacking::Stored(store, at))?,
        };
        self.memory.get_mut(index as usize)?.backing = MockMemoryBacking::Stored(store, at);
        self.expose(index, length, MockMemoryAccess::Read)
    }

    fn add(&mut self, backing: MockMemoryBacking) -> Option<u32> {
        let index = u32::try_from(self.memory.len()).ok().filter(|index| *index < 1 << 24)?;
        self.memory.push(MockRegisteredMemory { key: 0, access: None, length: 0, backing });
        Some(index)
    }

    fn expose(&mut self, index: u32, length: u32, access: MockMemoryAccess) -> Option<ContiguousChunkMemory> {
        let memory = self.memory.get_mut(index as usize)?;
        memory.key = memory.key.wrapping_add(1);
        memory.access = Some(access);
        memory.length = length;
        Some(ContiguousChunkMemory { handle: Handle(index << 8 | u32::from(memory.key)), offset: BASE, length })
    }

    /// Releases exposed memory and invalidates its handle.
    pub(super) fn release(&mut self, handle: Handle) {
        let index = handle.0 >> 8;
        let Some(memory) = self.memory.get_mut(index as usize) else { return };
        if u32::from(memory.key) != handle.0 & 0xff || memory.access.take().is_none() {
            return;
        }
        match &memory.backing {
            MockMemoryBacking::Own(bytes) => {
                if let Some(free) = self.free.get_mut(bytes.len().trailing_zeros() as usize) {
                    free.push(index);
                }
            }
            MockMemoryBacking::Stored(..) => self.free_stored.push(index),
        }
    }

    /// Returns the memory of a handle, if it is valid for this access to the complete range.
    fn checked(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        access: MockMemoryAccess,
    ) -> Result<&MockRegisteredMemory, MockRemoteAccessError> {
        let memory = self.memory.get((handle.0 >> 8) as usize).ok_or(MockRemoteAccessError)?;
        let is_valid = u32::from(memory.key) == handle.0 & 0xff && memory.access == Some(access);
        let end = offset.checked_sub(BASE).and_then(|start| start.checked_add(length)).ok_or(MockRemoteAccessError)?;
        if is_valid && end <= u64::from(memory.length) { Ok(memory) } else { Err(MockRemoteAccessError) }
    }

    /// Performs an RDMA Read: appends the exposed bytes to `to`.
    pub(super) fn read(
        &self,
        handle: Handle,
        offset: u64,
        length: u32,
        to: &mut Vec<u8>,
    ) -> Result<(), MockRemoteAccessError> {
        let memory = self.checked(handle, offset, length.into(), MockMemoryAccess::Read)?;
        let start = (offset - BASE) as usize;
        let bytes = match &memory.backing {
            MockMemoryBacking::Own(bytes) => bytes.get(start..start + length as usize),
            MockMemoryBacking::Stored(store, at) => self.shared_bytes(*store, at + start, length),
        };
        to.extend_from_slice(bytes.ok_or(MockRemoteAccessError)?);
        Ok(())
    }

    /// Performs an RDMA Write: stores bytes in exposed memory.
    pub(super) fn write(&mut self, handle: Handle, offset: u64, bytes: &[u8]) -> Result<(), MockRemoteAccessError> {
        self.checked(handle, offset, bytes.len() as u64, MockMemoryAccess::Write)?;
        let start = (offset - BASE) as usize;
        match self.memory.get_mut((handle.0 >> 8) as usize).map(|memory| &mut memory.backing) {
            Some(MockMemoryBacking::Own(store)) => {
                store.get_mut(start..start + bytes.len()).ok_or(MockRemoteAccessError)?.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(MockRemoteAccessError),
        }
    }

    /// Returns the number of bytes of own memory, in use or free.
    #[cfg(test)]
    pub(super) fn registered(&self) -> u64 {
        self.registered
    }

    /// Returns the bytes of own memory, for its owner.
    pub(super) fn bytes(&self, handle: Handle) -> &[u8] {
        match self.memory.get((handle.0 >> 8) as usize) {
            Some(MockRegisteredMemory { backing: MockMemoryBacking::Own(bytes), length, .. }) => {
                bytes.get(..*length as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Returns the bytes of own memory, for its owner to fill.
    pub(super) fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        match self.memory.get_mut((handle.0 >> 8) as usize) {
            Some(MockRegisteredMemory { backing: MockMemoryBacking::Own(bytes), length, .. }) => {
                bytes.get_mut(..*length as usize).unwrap_or_default()
            }
            _ => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8166_section_4_5_3_no_access_beyond_a_region_or_with_the_wrong_right() {
        let mut device = MockRegisteredMemoryTable::default();
        let region = device.register(100, MockMemoryAccess::Write).unwrap();
        assert_eq!(device.write(region.handle, region.offset, &[1; 100]), Ok(()));
        assert_eq!(device.write(region.handle, region.offset + 1, &[1; 100]), Err(MockRemoteAccessError));
        assert_eq!(device.write(region.handle, region.offset - 1, &[1; 2]), Err(MockRemoteAccessError));
        assert_eq!(device.write(region.handle, u64::MAX, &[1; 2]), Err(MockRemoteAccessError));
        assert_eq!(device.read(region.handle, region.offset, 1, &mut Vec::new()), Err(MockRemoteAccessError));
        assert_eq!(device.write(Handle(region.handle.0 + 0x100), region.offset, &[1]), Err(MockRemoteAccessError));
    }

    #[test]
    fn a_handle_that_was_given_back_is_not_valid_and_its_memory_is_used_again() {
        let mut device = MockRegisteredMemoryTable::default();
        let first = device.register(100, MockMemoryAccess::Write).unwrap();
        device.release(first.handle);
        device.release(first.handle);
        let second = device.register(128, MockMemoryAccess::Write).unwrap();
        assert_eq!(second.handle.0 >> 8, first.handle.0 >> 8);
        assert_ne!(second.handle, first.handle);
        assert_eq!(device.write(first.handle, first.offset, &[1]), Err(MockRemoteAccessError));
        assert_ne!(device.register(100, MockMemoryAccess::Write).unwrap().handle.0 >> 8, second.handle.0 >> 8);
    }

    #[test]
    fn shared_memory_is_read_in_place() {
        let mut device = MockRegisteredMemoryTable::default();
        let memory: Arc<[u8]> = Arc::from(&b"0123456789"[..]);
        let store = device.share(&memory);
        let region = device.register_stored(store, 2, 5).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(device.read(region.handle, region.offset + 1, 4, &mut bytes), Ok(()));
        assert_eq!(bytes, b"3456");
        assert_eq!(device.read(region.handle, region.offset + 1, 5, &mut bytes), Err(MockRemoteAccessError));
        assert!(device.register_stored(store, 8, 3).is_none());
    }

    #[test]
    fn registration_beyond_the_limit_fails() {
        let mut device = MockRegisteredMemoryTable::default();
        let half = 1u32 << 29;
        device.registered = MAX_REGISTERED_BYTES - u64::from(half);
        assert!(device.register(half, MockMemoryAccess::Write).is_some());
        assert!(device.register(1, MockMemoryAccess::Write).is_none());
    }
}
