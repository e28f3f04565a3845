//! Filehandles of objects.

/// Number of an object: its fileid.
pub(super) type MockFileId = u64;

/// Returns the filehandle of an object: an identifier of this server, and the number of the object.
pub(super) fn handle(id: MockFileId) -> [u8; 16] {
    let mut handle = *b"loopback\0\0\0\0\0\0\0\0";
    if let Some(id_bytes) = handle.last_chunk_mut() {
        *id_bytes = id.to_be_bytes();
    }
    handle
}
