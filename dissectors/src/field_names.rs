//! Names of the fields that programs look for by name, from the structures that define them. It does not compile if a
//! structure loses its field.

use crate::infiniband::headers::Reth;
use crate::infiniband::mad::MadHeader;
use crate::net::gre::{GreChecksumAndOffset, GreFlags};
use crate::net::{Ethernet, Ipv4, Ipv6, Sll, Tcp, Udp, Vlan};
use crate::nfs::StatusUnionDiscriminant;
use crate::nfs::mount::{DirpathArgs, Mountbody, Mountstat3};
use crate::nfs::nfsacl::Secattr;
use crate::nfs::nfsacl::v2::Getacl2Resok;
use crate::nfs::nlm::v3::NlmTestrply;
use crate::nfs::nlm::v4::{Nlm4Lock, Nlm4Stats};
use crate::nfs::nlm::{NlmNotify, NlmShareargs};
use crate::nfs::nsm::{Mon, MonId, MyId, SmName, SmRes, SmStat, SmStatRes};
use crate::nfs::rpcbind::v2::Mapping;
use crate::nfs::rpcbind::{Rpcb, RpcbindGettimeRes, Uaddr};
use crate::nfs::rquota::GqrStatus;
use crate::nfs::v2::{Entry2, Fattr, Nfsstat, Read2Args, Readdir2Args, Timeval, Write2Args};
use crate::nfs::v3::{
    Diropargs3, Entry3, Entryplus3, Fattr3, Fsinfo3Resok, Nfsstat3, Nfstime3, Read3Args, Readdir3Args, Readlink3Resok,
    Symlinkdata3, WccAttr,
};
use crate::nfs::v4::{
    Access4Args, Access4Resok, Args, Attribute, AuthsysParms, BindConnToSession4Args, BitmapKeyedValue, CbArgs,
    CbClient4, ChangeInfo4, ChangePolicy4, ChannelAttrs4, ClientOwner4, Commit4Resok, CompoundCallHead,
    CopyNotify4Resok, Create4Args, CreateSession4Args, Entry4, ExchangeId4Args, ExchangeId4Resok, FsLocation4,
    Getdeviceinfo4Args, Getxattr4Args, GssCbHandles4, Listxattrs4Args, Lock4Args, LockOwner4, ModeUmask4, Netaddr4,
    NfsClientId4, NfsImplId4, Nfsace4, Nfsstat4, Nfstime4, ObjectFh4, Open4Args, Open4Resok, OpenDelegation4,
    OpenNoneDelegation4, OpenOwner4, OpenToLockOwner4, OperationBody, Read4Args, Read4Resok, ReadPlusContent,
    Readdir4Args, Readlink4Resok, Sequence4Args, Sequence4Resok, ServerOwner4, Setclientid4Args, Specdata4, Stateid4,
    compound,
};
use crate::rpc::auth::{AuthSys, Credential};
use crate::rpc::gss::GssCredential;
use crate::rpc::gss::protection::GssIntegrityChecksum;
use crate::rpc::header::{AuthError, CallBody, RejectedReply, ReplyBody, ReplyData, RpcMsg};
use crate::rpc::universal_address;
use crate::rpcrdma::private_data;
use crate::rpcrdma::private_data::PrivateData;
use crate::rpcrdma::sigcomm2003_prototype::NfsRdmaPrototypeBody;
use crate::rpcrdma::version2::{RpcRdma2Body, RpcRdma2MiddleHeader};
use crate::rpcrdma::{
    ChunkLists, RdmaBody, RdmaSegment, ReadSegment, RpcRdmaErrvers, RpcRdmaFixedFields, RpcRdmaVersionBody,
};

macro_rules! field_names {
    ($($constant:ident = $field:expr;)*) => {
        $(#[doc = concat!("Filter name of `", stringify!($field), "`, and of all fields of this name.")]
        pub const $constant: &str = $field.name;)*

        /// All constants of this module: identifier and value.
        pub const ALL: &[(&str, &str)] = &[$((stringify!($constant), $constant)),*];
    };
}

field_names! {
    ETH_DST = Ethernet::FIELDS.dst;
    ETH_SRC = Ethernet::FIELDS.src;
    ETH_TYPE = Ethernet::FIELDS.ethertype;
    GRE_CHECKSUM = GreChecksumAndOffset::FIELDS.checksum;
    GRE_PROTO = GreFlags::FIELDS.proto;
    INFINIBAND_MAD_STATUS = MadHeader::FIELDS.status;
    INFINIBAND_RETH_VA = Reth::FIELDS.va;
    IPV6_DST = Ipv6::FIELDS.dst;
    IPV6_SRC = Ipv6::FIELDS.src;
    IPV6_TCLASS = Ipv6::FIELDS.tclass;
    IP_CHECKSUM = Ipv4::FIELDS.checksum;
    IP_DSFIELD = Ipv4::FIELDS.dsfield;
    IP_DST = Ipv4::FIELDS.dst;
    IP_HDR_LEN = Ipv4::FIELDS.hdr_len;
    IP_SRC = Ipv4::FIELDS.src;
    MOUNT_DUMP_HOSTNAME = Mountbody::FIELDS.ml_hostname;
    MOUNT_PATH = DirpathArgs::FIELDS.dirpath;
    MOUNT_STATUS = Mountstat3::FIELD;
    NFSACL_ACL = Getacl2Resok::FIELDS.acl;
    NFSACL_DFACLCNT = Secattr::FIELDS.dfaclcnt;
    NFSRDMA_UNIVERSAL_ADDRESS_PORT = universal_address::PORT;
    NFS_ACCESS_CHECK = Access4Args::FIELDS.access;
    NFS_ACCESS_RIGHTS = Access4Resok::FIELDS.access;
    NFS_ACCESS_SUPPORTED = Access4Resok::FIELDS.supported;
    NFS_ACEFLAGS4 = Nfsace4::FIELDS.flag;
    NFS_ATTR_MASK = <Attribute as BitmapKeyedValue>::MASK;
    NFS_ATTR_VALS = <Attribute as BitmapKeyedValue>::VALUES;
    NFS_CALLBACK_IDENT = Setclientid4Args::FIELDS.callback_ident;
    NFS_CB_OPERATION = <CbArgs<'_> as OperationBody>::OPCODE;
    NFS_CB_PROGRAM = CbClient4::FIELDS.cb_program;
    NFS_CHANGEID4 = Attribute::FIELDS.CHANGE;
    NFS_CHANGEID4_AFTER = ChangeInfo4::FIELDS.after;
    NFS_CHANGEID4_BEFORE = ChangeInfo4::FIELDS.before;
    NFS_CLIENTID = ExchangeId4Resok::FIELDS.eir_clientid;
    NFS_CNR_LEASE_TIME = CopyNotify4Resok::FIELDS.cnr_lease_time;
    NFS_CONTENT_TYPE = ReadPlusContent::TAG;
    NFS_COOKIE3 = Readdir3Args::FIELDS.cookie;
    NFS_COOKIE4 = Readdir4Args::FIELDS.cookie;
    NFS_COOKIE_VERF4 = Readdir4Args::FIELDS.cookieverf;
    NFS_COUNT3 = Read3Args::FIELDS.count;
    NFS_COUNT4 = Read4Args::FIELDS.count;
    NFS_CO_OWNERID = ClientOwner4::FIELDS.co_ownerid;
    NFS_CP_MAJOR = ChangePolicy4::FIELDS.cp_major;
    NFS_CP_MINOR = ChangePolicy4::FIELDS.cp_minor;
    NFS_CREATE_SESSION_FLAGS = CreateSession4Args::FIELDS.csa_flags;
    NFS_DATA = Read4Resok::FIELDS.data;
    NFS_DEVICEID = Getdeviceinfo4Args::FIELDS.gdia_device_id;
    NFS_DIRCOUNT = Readdir4Args::FIELDS.dircount;
    NFS_ENTRY_NAME = Entry4::FIELDS.name;
    NFS_EXCHANGE_ID_CALL_FLAGS = ExchangeId4Args::FIELDS.eia_flags;
    NFS_EXCHANGE_ID_REPLY_FLAGS = ExchangeId4Resok::FIELDS.eir_flags;
    NFS_FATTR3_FILEID = Fattr3::FIELDS.fileid;
    NFS_FATTR3_FSID = Fattr3::FIELDS.fsid;
    NFS_FATTR3_GID = Fattr3::FIELDS.gid;
    NFS_FATTR3_NLINK = Fattr3::FIELDS.nlink;
    NFS_FATTR3_SIZE = Fattr3::FIELDS.size;
    NFS_FATTR3_UID = Fattr3::FIELDS.uid;
    NFS_FATTR3_USED = Fattr3::FIELDS.used;
    NFS_FATTR4_FILEID = Attribute::FIELDS.FILEID;
    NFS_FATTR4_FS_CHARSET_CAP = Attribute::FIELDS.FS_CHARSET_CAP;
    NFS_FATTR4_LEASE_TIME = Attribute::FIELDS.LEASE_TIME;
    NFS_FATTR4_MOUNTED_ON_FILEID = Attribute::FIELDS.MOUNTED_ON_FILEID;
    NFS_FATTR4_NUMLINKS = Attribute::FIELDS.NUMLINKS;
    NFS_FATTR4_OWNER = Attribute::FIELDS.OWNER;
    NFS_FATTR4_OWNER_GROUP = Attribute::FIELDS.OWNER_GROUP;
    NFS_FATTR4_SIZE = Attribute::FIELDS.SIZE;
    NFS_FATTR4_UMASK = ModeUmask4::FIELDS.mu_umask;
    NFS_FATTR_BLOCKS = Fattr::FIELDS.blocks;
    NFS_FATTR_FILEID = Fattr::FIELDS.fileid;
    NFS_FATTR_FSID = Fattr::FIELDS.fsid;
    NFS_FATTR_NLINK = Fattr::FIELDS.nlink;
    NFS_FATTR_SIZE = Fattr::FIELDS.size;
    NFS_FHANDLE = ObjectFh4::FIELDS.object;
    NFS_FSINFO_PROPERTIES = Fsinfo3Resok::FIELDS.properties;
    NFS_GSSHANDLE4 = GssCbHandles4::FIELDS.gcbp_handle_from_server;
    NFS_HIGH_SLOTID = Sequence4Args::FIELDS.sa_highest_slotid;
    NFS_LENGTH4 = Lock4Args::FIELDS.length;
    NFS_LISXTATTR_COOKIE = Listxattrs4Args::FIELDS.lxa_cookie;
    NFS_LOCK_OWNER4 = LockOwner4::FIELDS.owner;
    NFS_LOCK_SEQID = OpenToLockOwner4::FIELDS.lock_seqid;
    NFS_MACHINENAME4 = AuthsysParms::FIELDS.machinename;
    NFS_MAJORID4 = ServerOwner4::FIELDS.so_major_id;
    NFS_MAXCOUNT = Readdir4Args::FIELDS.maxcount;
    NFS_MAXREQSIZE4 = ChannelAttrs4::FIELDS.ca_maxrequestsize;
    NFS_MAXRESPSIZE4 = ChannelAttrs4::FIELDS.ca_maxresponsesize;
    NFS_MAXRESPSIZECACHED4 = ChannelAttrs4::FIELDS.ca_maxresponsesize_cached;
    NFS_MINORID4 = ServerOwner4::FIELDS.so_minor_id;
    NFS_MINORVERSION = CompoundCallHead::FIELDS.minorversion;
    NFS_MODE = Attribute::FIELDS.MODE;
    NFS_MODE3 = Fattr3::FIELDS.mode;
    NFS_NAME = Diropargs3::FIELDS.name;
    NFS_NFSSTAT4 = Nfsstat4::FIELD;
    NFS_NFSTIME3_SECONDS = Nfstime3::FIELDS.seconds;
    NFS_NFSTIME4_SECONDS = Nfstime4::FIELDS.seconds;
    NFS_NFS_CLIENT_ID4_ID = NfsClientId4::FIELDS.id;
    NFS_NII_DATE = NfsImplId4::FIELDS.nii_date;
    NFS_NII_DOMAIN4 = NfsImplId4::FIELDS.nii_domain;
    NFS_NII_NAME4 = NfsImplId4::FIELDS.nii_name;
    NFS_OFFSET3 = Read3Args::FIELDS.offset;
    NFS_OFFSET4 = Read4Args::FIELDS.offset;
    NFS_OND_SERVER_WILL_SIGNAL_AVAIL = OpenNoneDelegation4::FIELDS.Resource;
    NFS_OPCODE = <Args<'_> as OperationBody>::OPCODE;
    NFS_OPEN_DELEGATION_TYPE = OpenDelegation4::TAG;
    NFS_OPEN_OWNER4 = OpenOwner4::FIELDS.owner;
    NFS_OPEN_RFLAGS = Open4Resok::FIELDS.rflags;
    NFS_OPEN_WHY_NO_DELEGATION = OpenNoneDelegation4::TAG;
    NFS_OPS_COUNT = compound::COUNT;
    NFS_PADSIZE4 = ChannelAttrs4::FIELDS.ca_headerpadsize;
    NFS_PATHNAME_COMPONENT = Create4Args::FIELDS.objname;
    NFS_RDMACHANATTRS4 = ChannelAttrs4::FIELDS.ca_rdma_ird;
    NFS_READDIRPLUS_ENTRY_COOKIE = Entryplus3::FIELDS.cookie;
    NFS_READDIRPLUS_ENTRY_FILEID = Entryplus3::FIELDS.fileid;
    NFS_READDIRPLUS_ENTRY_NAME = Entryplus3::FIELDS.name;
    NFS_READDIR_COOKIE = Readdir2Args::FIELDS.cookie;
    NFS_READDIR_COUNT = Readdir2Args::FIELDS.count;
    NFS_READDIR_ENTRY3_COOKIE = Entry3::FIELDS.cookie;
    NFS_READDIR_ENTRY3_FILEID = Entry3::FIELDS.fileid;
    NFS_READDIR_ENTRY3_NAME = Entry3::FIELDS.name;
    NFS_READDIR_ENTRY_COOKIE = Entry2::FIELDS.cookie;
    NFS_READDIR_ENTRY_FILEID = Entry2::FIELDS.fileid;
    NFS_READDIR_ENTRY_NAME = Entry2::FIELDS.name;
    NFS_READLINK_DATA = Readlink3Resok::FIELDS.data;
    NFS_READ_OFFSET = Read2Args::FIELDS.offset;
    NFS_R_ADDR = Netaddr4::FIELDS.na_r_addr;
    NFS_R_NETID = Netaddr4::FIELDS.na_r_netid;
    NFS_SCOPE = ExchangeId4Resok::FIELDS.eir_server_scope;
    NFS_SEQID = Sequence4Args::FIELDS.sa_sequenceid;
    NFS_SERVER = FsLocation4::FIELDS.server;
    NFS_SESSION_ID4 = BindConnToSession4Args::FIELDS.bctsa_sessid;
    NFS_SHARE_ACCESS = Open4Args::FIELDS.share_access;
    NFS_SLOTID = Sequence4Args::FIELDS.sa_slotid;
    NFS_SPECDATA1 = Specdata4::FIELDS.specdata1;
    NFS_SPECDATA2 = Specdata4::FIELDS.specdata2;
    NFS_STAMP4 = AuthsysParms::FIELDS.stamp;
    NFS_STATEID_OTHER = Stateid4::FIELDS.other;
    NFS_STATEID_SEQID = Stateid4::FIELDS.seqid;
    NFS_STATUS2 = Nfsstat::FIELD;
    NFS_STATUS3 = Nfsstat3::FIELD;
    NFS_SYMLINK_LINKTEXT = Readlink4Resok::FIELDS.link;
    NFS_SYMLINK_TO = Symlinkdata3::FIELDS.symlink_data;
    NFS_TAG = CompoundCallHead::FIELDS.tag;
    NFS_TARGET_HIGH_SLOTID = Sequence4Resok::FIELDS.sr_target_highest_slotid;
    NFS_TIMEVAL_USECONDS = Timeval::FIELDS.useconds;
    NFS_UNKNOWN_OPERATION = compound::UNKNOWN;
    NFS_VERIFIER = Readdir3Args::FIELDS.cookieverf;
    NFS_VERIFIER4 = Commit4Resok::FIELDS.writeverf;
    NFS_WCC_ATTR_SIZE = WccAttr::FIELDS.size;
    NFS_WRITE_OFFSET = Write2Args::FIELDS.offset;
    NFS_XATTR_KEY = Getxattr4Args::FIELDS.gxa_name;
    NLM_COOKIE = NlmShareargs::FIELDS.cookie;
    NLM_LOCK_CALLER_NAME = Nlm4Lock::FIELDS.caller_name;
    NLM_LOCK_OWNER = Nlm4Lock::FIELDS.oh;
    NLM_LOCK_SVID = Nlm4Lock::FIELDS.svid;
    NLM_SHARE_NAME = NlmNotify::FIELDS.name;
    NLM_STAT = Nlm4Stats::FIELD;
    NLM_STATE = NlmNotify::FIELDS.state;
    NLM_TEST_STAT_STAT = NlmTestrply::TAG;
    PORTMAP_PORT = Mapping::FIELDS.port;
    PORTMAP_RPCB_ADDR = Rpcb::FIELDS.r_addr;
    PORTMAP_TIME = RpcbindGettimeRes::FIELDS.time;
    PORTMAP_UADDR = Uaddr::FIELDS.uaddr;
    RPC = RpcMsg::FIELD;
    RPCORDMA = RdmaBody::HEADER;
    RPCORDMA_FLOW_CONTROL = RpcRdmaFixedFields::FIELDS.rdma_credit;
    RPCORDMA_HTYPE = RpcRdma2Body::TAG;
    RPCORDMA_MSG_TYPE = RdmaBody::TAG;
    RPCORDMA_POSITION = ReadSegment::FIELDS.position;
    RPCORDMA_PRIVATE_DATA_FLAGS = private_data::FLAGS;
    RPCORDMA_PRIVATE_DATA_VERSION = PrivateData::FIELDS.version;
    RPCORDMA_PROTOTYPE_PROC = NfsRdmaPrototypeBody::TAG;
    RPCORDMA_RDMA_HANDLE = RdmaSegment::FIELDS.handle;
    RPCORDMA_RDMA_LENGTH = RdmaSegment::FIELDS.length;
    RPCORDMA_RDMA_OFFSET = RdmaSegment::FIELDS.offset;
    RPCORDMA_READS = ChunkLists::FIELDS.rdma_reads;
    RPCORDMA_REMAINING = RpcRdma2MiddleHeader::FIELDS.rdma_remaining;
    RPCORDMA_REPLY = ChunkLists::FIELDS.rdma_reply;
    RPCORDMA_VERSION = RpcRdmaFixedFields::FIELDS.rdma_vers;
    RPCORDMA_VERS_LOW = RpcRdmaErrvers::FIELDS.rdma_vers_low;
    RPCORDMA_WRITES = ChunkLists::FIELDS.rdma_writes;
    RPCORDMA_XID = RpcRdmaFixedFields::FIELDS.rdma_xid;
    RPC_AUTHGSS_CHECKSUM = GssIntegrityChecksum::FIELDS.checksum;
    RPC_AUTHGSS_CONTEXT = GssCredential::FIELDS.handle;
    RPC_AUTHGSS_SEQNUM = GssCredential::FIELDS.seq_num;
    RPC_AUTH_FLAVOR = Credential::TAG;
    RPC_AUTH_MACHINENAME = AuthSys::FIELDS.machinename;
    RPC_AUTH_STAMP = AuthSys::FIELDS.stamp;
    RPC_PROCEDURE = CallBody::FIELDS.proc;
    RPC_PROGRAM = CallBody::FIELDS.prog;
    RPC_PROGRAMVERSION = CallBody::FIELDS.vers;
    RPC_REPLYSTAT = ReplyBody::TAG;
    RPC_STATE_ACCEPT = ReplyData::TAG;
    RPC_STATE_AUTH = AuthError::FIELDS.stat;
    RPC_STATE_REJECT = RejectedReply::TAG;
    RPC_XID = RpcMsg::FIELDS.xid;
    RQUOTA_STATUS = GqrStatus::FIELD;
    SLL_ETYPE = Sll::FIELDS.etype;
    STAT_MON_ID_NAME = MonId::FIELDS.mon_name;
    STAT_MY_ID_HOSTNAME = MyId::FIELDS.my_name;
    STAT_MY_ID_PROG = MyId::FIELDS.my_prog;
    STAT_NAME = SmName::FIELDS.mon_name;
    STAT_PRIV = Mon::FIELDS.r#priv;
    STAT_STATE = SmStat::FIELDS.state;
    STAT_STAT_RES_RES = SmRes::FIELD;
    STAT_STAT_RES_STATE = SmStatRes::FIELDS.state;
    TCP_CHECKSUM = Tcp::FIELDS.checksum;
    TCP_DSTPORT = Tcp::FIELDS.dstport;
    TCP_FLAGS = Tcp::FIELDS.flags;
    TCP_HDR_LEN = Tcp::FIELDS.hdr_len;
    TCP_SRCPORT = Tcp::FIELDS.srcport;
    UDP_CHECKSUM = Udp::FIELDS.checksum;
    UDP_DSTPORT = Udp::FIELDS.dstport;
    UDP_LENGTH = Udp::FIELDS.length;
    UDP_SRCPORT = Udp::FIELDS.srcport;
    VLAN_ETYPE = Vlan::FIELDS.etype;
}

/// Returns the protocol of a filter name: `nfs` of `nfs.offset4`, `rpc` of `rpc`.
pub fn protocol(name: &str) -> &str {
    name.split_once('.').map_or(name, |(protocol, _)| protocol)
}

/// Returns `true` for names of fields of RPC and RPC-over-RDMA.
pub fn is_of_rpc(name: &str) -> bool {
    matches!(protocol(name), RPC | RPCORDMA)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_constant_has_the_name_of_its_field() {
        for (constant, name) in super::ALL {
            assert_eq!(constant.to_lowercase(), name.replace('.', "_").to_lowercase());
        }
    }
}
