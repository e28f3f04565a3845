//! Identifiers of remote memory.

crate::number! {
    /// Identifier of a region of remote memory: the R_Key of InfiniBand, the STag of iWARP, the `handle` of
    /// RPC-over-RDMA (RFC 8166 section 3.4.3).
    pub struct Handle(u32) as Hex(8);
}
