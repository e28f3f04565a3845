//! Names of the fields that programs look for by name. A test checks them against the catalogue of fields, so that a
//! renamed field cannot pass unnoticed.

macro_rules! field_names {
    ($($constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("The field `", $name, "`.")] pub const $constant: &str = $name;)*

        /// All names of this module.
        pub const ALL: &[&str] = &[$($constant),*];
    };
}

field_names! {
    INFINIBAND_MAD_STATUS = "infiniband.mad.status";
    INFINIBAND_RETH_VA = "infiniband.reth.va";
    IP_CHECKSUM = "ip.checksum";
    MOUNT_PATH = "mount.path";
    MOUNT_STATUS = "mount.status";
    NFSACL_ACL = "nfsacl.acl";
    NFSACL_DFACLCNT = "nfsacl.dfaclcnt";
    NFS_ATTR_VALS = "nfs.attr_vals";
    NFS_CALLBACK_IDENT = "nfs.callback.ident";
    NFS_CB_OPERATION = "nfs.cb.operation";
    NFS_CHANGEID4 = "nfs.changeid4";
    NFS_CHANGEID4_AFTER = "nfs.changeid4.after";
    NFS_CONTENT_TYPE = "nfs.content.type";
    NFS_COUNT3 = "nfs.count3";
    NFS_COUNT4 = "nfs.count4";
    NFS_DATA = "nfs.data";
    NFS_ENTRY_NAME = "nfs.entry_name";
    NFS_FATTR3_GID = "nfs.fattr3.gid";
    NFS_FATTR3_UID = "nfs.fattr3.uid";
    NFS_FATTR4_OWNER = "nfs.fattr4_owner";
    NFS_FATTR4_OWNER_GROUP = "nfs.fattr4_owner_group";
    NFS_FATTR4_UMASK = "nfs.fattr4.umask";
    NFS_FHANDLE = "nfs.fhandle";
    NFS_HIGH_SLOTID = "nfs.high_slotid";
    NFS_LENGTH4 = "nfs.length4";
    NFS_LOCK_SEQID = "nfs.lock_seqid";
    NFS_MINORVERSION = "nfs.minorversion";
    NFS_MODE = "nfs.mode";
    NFS_MODE3 = "nfs.mode3";
    NFS_NAME = "nfs.name";
    NFS_NFSSTAT4 = "nfs.nfsstat4";
    NFS_NFSTIME3_SECONDS = "nfs.nfstime3.seconds";
    NFS_NFSTIME4_SECONDS = "nfs.nfstime4.seconds";
    NFS_OFFSET3 = "nfs.offset3";
    NFS_OFFSET4 = "nfs.offset4";
    NFS_OPCODE = "nfs.opcode";
    NFS_PATHNAME_COMPONENT = "nfs.pathname.component";
    NFS_READDIRPLUS_ENTRY_NAME = "nfs.readdirplus.entry.name";
    NFS_READLINK_DATA = "nfs.readlink.data";
    NFS_READ_OFFSET = "nfs.read.offset";
    NFS_SEQID = "nfs.seqid";
    NFS_SESSION_ID4 = "nfs.session_id4";
    NFS_SLOTID = "nfs.slotid";
    NFS_SPECDATA1 = "nfs.specdata1";
    NFS_SPECDATA2 = "nfs.specdata2";
    NFS_STATEID_SEQID = "nfs.stateid.seqid";
    NFS_STATUS = "nfs.status";
    NFS_SYMLINK_LINKTEXT = "nfs.symlink.linktext";
    NFS_SYMLINK_TO = "nfs.symlink.to";
    NFS_TAG = "nfs.tag";
    NFS_TIMEVAL_USECONDS = "nfs.timeval.useconds";
    NFS_UNKNOWN_OPERATION = "nfs.unknown_operation";
    NFS_WRITE_OFFSET = "nfs.write.offset";
    NLM_STAT = "nlm.stat";
    NLM_TEST_STAT_STAT = "nlm.test_stat.stat";
    RPCORDMA_FLOW_CONTROL = "rpcordma.flow_control";
    RPCORDMA_HTYPE = "rpcordma.htype";
    RPCORDMA_MSG_TYPE = "rpcordma.msg_type";
    RPCORDMA_POSITION = "rpcordma.position";
    RPCORDMA_PRIVATE_DATA_FLAGS = "rpcordma.private_data.flags";
    RPCORDMA_PRIVATE_DATA_VERSION = "rpcordma.private_data.version";
    RPCORDMA_PROTOTYPE_PROC = "rpcordma.prototype_proc";
    RPCORDMA_RDMA_HANDLE = "rpcordma.rdma_handle";
    RPCORDMA_RDMA_LENGTH = "rpcordma.rdma_length";
    RPCORDMA_RDMA_OFFSET = "rpcordma.rdma_offset";
    RPCORDMA_READS = "rpcordma.reads";
    RPCORDMA_REMAINING = "rpcordma.remaining";
    RPCORDMA_REPLY = "rpcordma.reply";
    RPCORDMA_VERSION = "rpcordma.version";
    RPCORDMA_VERS_LOW = "rpcordma.vers_low";
    RPCORDMA_WRITES = "rpcordma.writes";
    RPCORDMA_XID = "rpcordma.xid";
    RPC_AUTH_FLAVOR = "rpc.auth.flavor";
    RPC_PROCEDURE = "rpc.procedure";
    RPC_PROGRAM = "rpc.program";
    RPC_PROGRAMVERSION = "rpc.programversion";
    RPC_STATE_AUTH = "rpc.state_auth";
    RPC_STATE_REJECT = "rpc.state_reject";
    RPC_XID = "rpc.xid";
    RQUOTA_STATUS = "rquota.status";
    STAT_STAT_RES_RES = "stat.stat_res.res";
    TCP_CHECKSUM = "tcp.checksum";
    UDP_CHECKSUM = "udp.checksum";
    UDP_LENGTH = "udp.length";
}
