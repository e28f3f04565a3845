//! Header of the prototype: "NFS over RDMA" (Callaghan, Lingutla-Raj, Chiu, Staubach, Asad; SIGCOMM 2003 workshop on
//! network-I/O convergence), section 4.4.
//!
//! A single list names the chunks: of a Call, which the server reads, or of a Reply, which the client reads before it
//! sends RDMA_DONE (section 4.3.1). A long message is the first chunk of the list, at offset 0 (section 4.6.2).

use crate::field::FieldDefinition;
use crate::memory_handle::Handle;
use crate::rpc::header::Xid;
use crate::xdr::XdrLinkedList;

crate::xdr! { "rpcordma";
    /// clist: a chunk, and its offset in the XDR stream of the RPC message. NFS over RDMA (SIGCOMM 2003) section 4.4.
    struct Sigcomm2003PrototypeChunk {
        c_xdroff: u32 => "rpcordma.position",
        c_len: u32 => "rpcordma.rdma_length",
        c_shandle: Handle => "rpcordma.rdma_handle",
        c_saddr: u64 => "rpcordma.rdma_offset",
    }

    /// clist_type, without the RPC message that follows the list. NFS over RDMA (SIGCOMM 2003) section 4.4.
    struct PrototypeDialectChunkList<'a> { rc_clist: XdrLinkedList<'a, Sigcomm2003PrototypeChunk> => "rpcordma.chunks" }

    /// rdma_proc. NFS over RDMA (SIGCOMM 2003) section 4.4.
    enum NfsRdmaPrototypeProc { RDMA_MSG = 0, RDMA_DONE = 1 }

    /// rdma_body. NFS over RDMA (SIGCOMM 2003) section 4.4.
    union NfsRdmaPrototypeBody<'a> switch (proc: NfsRdmaPrototypeProc => "rpcordma.prototype_proc") {
        /// A chunk list, and an RPC message, which may be in the chunks in part or completely.
        RDMA_MSG => Msg(PrototypeDialectChunkList<'a>),
        /// The client has read the chunks of a Reply.
        RDMA_DONE => Done,
    }

    /// rdma_msg of the prototype. NFS over RDMA (SIGCOMM 2003) section 4.4.
    struct NfsRdmaPrototypeHeader<'a> {
        rc_xid: Xid => "rpcordma.xid",
        rc_vers: u32 => "rpcordma.version",
        rc_body: NfsRdmaPrototypeBody<'a> => "rpcordma.prototype_body",
    }
}

impl<'a> NfsRdmaPrototypeHeader<'a> {
    /// The header as one group of fields.
    pub const FIELD: &'static FieldDefinition = &FieldDefinition::group(
        "rpcordma",
        "rdma_msg",
        "Header of the prototype. NFS over RDMA (SIGCOMM 2003) section 4.4",
    );

    /// Returns the chunks; none in an RDMA_DONE.
    pub fn chunks(&self) -> XdrLinkedList<'a, Sigcomm2003PrototypeChunk> {
        match &self.rc_body {
            NfsRdmaPrototypeBody::Msg(list) => list.rc_clist,
            NfsRdmaPrototypeBody::Done => XdrLinkedList::default(),
        }
    }

    /// Returns `true` if the whole RPC message is in a chunk (section 4.6.2).
    pub fn is_long(&self) -> bool {
        self.chunks().iter().any(|chunk| chunk.c_xdroff == 0)
    }
}
