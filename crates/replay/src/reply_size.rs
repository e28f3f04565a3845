//! Upper bounds of the Reply size of a Call, derived from its operations.
//!
//! An unneeded Reply chunk does more harm than waste: Linux (7.2 and before) puts the whole Reply, file data included,
//! into any Reply chunk that is offered. It closes the connection if the Call has a READ with a Write chunk and the
//! data does not fit (`svc_rdma_prepare_reply_chunk` fails with E2BIG).

use nfsrdma_dissectors::nfs::{v3, v4};
use nfsrdma_rpc::synchronous_client::SynchronousProcedureCall;

/// COMPOUND: status, length of an empty tag, number of results. RFC 8881 section 16.2.2.
const COMPOUND: u32 = 12;
/// Operation number and status.
const STATUS: u32 = 8;
/// NFSv4 filehandle with its length. RFC 8881 section 3.1: NFS4_FHSIZE.
const FILEHANDLE: u32 = 4 + 128;
/// stateid4.
const STATEID: u32 = 16;
/// change_info4.
const CHANGE_INFO: u32 = 20;
/// bitmap4 with all defined attributes, which currently take at most four words.
const BITMAP: u32 = 4 + 4 * 4;
/// Opaque or string limited by NFS4_OPAQUE_LIMIT, with its length. RFC 8881 section 3.1.
const OPAQUE: u32 = 4 + 1024;
/// One attribute of fixed length, `supported_attrs` (a bitmap) and `fsid` included.
const ATTRIBUTE: u32 = 24;
/// Delegation with its ACE: type, stateid, flag, limit, ACE type, flag, mask and a name. RFC 8881 section 18.16.2.
const DELEGATION: u32 = 4 + STATEID + 4 + 12 + 12 + OPAQUE;
/// CREATE_SESSION: session ID, sequence ID, flags and two channels. RFC 8881 section 18.36.2.
const SESSION: u32 = 16 + 4 + 4 + 2 * (6 * 4 + 8);
/// Text of a symbolic link: PATH_MAX of Linux. The protocols have no limit.
const LINK_TEXT: u32 = 4 + 4096;
/// Size assumed for any operation, attribute or procedure that is not listed.
const UNLISTED_BYTES: u32 = 16 << 10;

/// Maximum sizes of the parts of a Reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplySizeUpperBound {
    /// Maximum number of bytes of the results, without those in `data_bytes`.
    pub message_bytes: u32,
    /// Maximum number of bytes of each DDP-eligible result to be returned in a Write chunk (file data).
    pub data_bytes: Vec<u32>,
}

impl ReplySizeUpperBound {
    /// Computes the sizes for a COMPOUND with these operations.
    pub fn for_compound(operations: &[v4::Args<'_>]) -> Self {
        let mut size = Self { message_bytes: COMPOUND, data_bytes: Vec::new() };
        for operation in operations {
            let bytes = STATUS.saturating_add(operation_result_bytes(operation));
            size.message_bytes = size.message_bytes.saturating_add(bytes);
            if let v4::Args::READ(read) = operation {
                size.data_bytes.push(read.count);
            }
        }
        size
    }

    /// Computes the sizes for an NFSv3 procedure.
    pub fn for_v3(arguments: &v3::Args<'_>) -> Self {
        let data_bytes = match arguments {
            v3::Args::READ(read) => vec![read.count],
            _ => Vec::new(),
        };
        Self { message_bytes: procedure_result_bytes(arguments), data_bytes }
    }

    /// Returns the procedure call with these sizes filled in.
    pub fn apply_to<'a>(&'a self, procedure: &SynchronousProcedureCall<'a>) -> SynchronousProcedureCall<'a> {
        SynchronousProcedureCall {
            max_result_bytes: self.message_bytes,
            max_payload_bytes: &self.data_bytes,
            ..*procedure
        }
    }
}

/// Returns the maximum number of bytes of the results of an operation after its status, without file data. RFC 8881
/// section 18.
fn operation_result_bytes(operation: &v4::Args<'_>) -> u32 {
    match operation {
        v4::Args::PUTFH(_)
        | v4::Args::PUTROOTFH(_)
        | v4::Args::PUTPUBFH(_)
        | v4::Args::SAVEFH(_)
        | v4::Args::RESTOREFH(_)
        | v4::Args::LOOKUP(_)
        | v4::Args::RENEW(_)
        | v4::Args::RECLAIM_COMPLETE(_)
        | v4::Args::SETCLIENTID_CONFIRM(_)
        | v4::Args::DESTROY_SESSION(_)
        | v4::Args::DESTROY_CLIENTID(_) => 0,
        // sr_sessionid and five numbers.
        v4::Args::SEQUENCE(_) => 16 + 5 * 4,
        v4::Args::GETFH(_) => FILEHANDLE,
        v4::Args::GETATTR(args) => {
            let attributes = args.attr_request.iter();
            attributes.fold(BITMAP + 4, |sum, attribute| sum.saturating_add(attribute_bytes(attribute)))
        }
        v4::Args::SETATTR(_) => BITMAP,
        v4::Args::LINK(_) | v4::Args::REMOVE(_) => CHANGE_INFO,
        v4::Args::CREATE(_) => CHANGE_INFO + BITMAP,
        v4::Args::OPEN(_) => STATEID + CHANGE_INFO + 4 + BITMAP + DELEGATION,
        v4::Args::OPEN_CONFIRM(_) | v4::Args::CLOSE(_) => STATEID,
        // eof and the length of the data.
        v4::Args::READ(_) => 8,
        v4::Args::READLINK(_) => LINK_TEXT,
        // count, committed and the verifier.
        v4::Args::WRITE(_) => 4 + 4 + 8,
        // RFC 8881 section 18.23.3: maxcount covers all of READDIR4resok.
        v4::Args::READDIR(args) => args.maxcount,
        // The clientid and a verifier; or netid and address of the client that uses the name.
        v4::Args::SETCLIENTID(_) => 2 * OPAQUE,
        // Numbers, state protection, server owner, scope, and the name, domain and date of an implementation.
        v4::Args::EXCHANGE_ID(_) => 64 + 4 * OPAQUE,
        v4::Args::CREATE_SESSION(_) => SESSION,
        _ => UNLISTED_BYTES,
    }
}

/// Returns the maximum number of bytes of an attribute. Strings and lists have no limit in the protocol.
fn attribute_bytes(attribute: u32) -> u32 {
    use v4::Attributes;
    match attribute {
        Attributes::TYPE
        | Attributes::SUPPORTED_ATTRS
        | Attributes::FH_EXPIRE_TYPE
        | Attributes::CHANGE
        | Attributes::SIZE
        | Attributes::FSID
        | Attributes::LEASE_TIME
        | Attributes::FILEID
        | Attributes::MAXFILESIZE
        | Attributes::MAXREAD
        | Attributes::MAXWRITE
        | Attributes::MODE
        | Attributes::NUMLINKS => ATTRIBUTE,
        _ => UNLISTED_BYTES,
    }
}

/// post_op_attr. RFC 1813 section 2.6.
const POST_OP: u32 = 4 + 84;
/// wcc_data: pre_op_attr and post_op_attr.
const WCC: u32 = 4 + 24 + POST_OP;
/// post_op_fh3.
const POST_OP_HANDLE: u32 = 4 + 4 + 64;

/// Returns the maximum number of bytes of the results of a procedure, without file data. RFC 1813 section 3.3.
fn procedure_result_bytes(arguments: &v3::Args<'_>) -> u32 {
    4 + match arguments {
        v3::Args::GETATTR(_) => 84,
        v3::Args::SETATTR(_) => WCC,
        v3::Args::LOOKUP(_) => 4 + 64 + 2 * POST_OP,
        v3::Args::ACCESS(_) => POST_OP + 4,
        v3::Args::READLINK(_) => POST_OP + LINK_TEXT,
        // count, eof and the length of the data.
        v3::Args::READ(_) => POST_OP + 12,
        v3::Args::WRITE(_) => WCC + 16,
        v3::Args::CREATE(_) | v3::Args::MKDIR(_) | v3::Args::SYMLINK(_) | v3::Args::MKNOD(_) => {
            POST_OP_HANDLE + POST_OP + WCC
        }
        v3::Args::REMOVE(_) | v3::Args::RMDIR(_) => WCC,
        v3::Args::LINK(_) => POST_OP + WCC,
        // RFC 1813 section 3.3.16: count covers all of READDIR3resok.
        v3::Args::READDIR(args) => POST_OP.saturating_add(args.count),
        v3::Args::FSINFO(_) => POST_OP + 48,
        _ => UNLISTED_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{Bitmap4, Getattr4Args, ObjectFh4, Read4Args, Sequence4Args, Stateid4};
    use nfsrdma_dissectors::xdr::{Opaque, Void};

    use super::*;

    /// RFC 8881 section 2.10.6.1.1: a READ in a session has SEQUENCE and PUTFH before it. Counted by hand from the XDR:
    /// 12 for the COMPOUND, 8 + 36 for SEQUENCE, 8 for PUTFH, 8 + 8 for READ.
    #[test]
    fn a_read_needs_80_bytes_beside_its_data() {
        let sequence = Sequence4Args {
            sa_sessionid: [0; 16],
            sa_sequenceid: 1,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        };
        let stateid = Stateid4 { seqid: 0, other: [0; 12] };
        let operations = [
            v4::Args::SEQUENCE(sequence),
            v4::Args::PUTFH(ObjectFh4 { object: Opaque(b"fh") }),
            v4::Args::READ(Read4Args { stateid, offset: 0, count: 256 << 10 }),
        ];
        let size = ReplySizeUpperBound::for_compound(&operations);
        assert_eq!((size.message_bytes, size.data_bytes), (80, vec![256 << 10]));
        let read = v3::Args::READ(v3::Read3Args { file: Opaque(b"fh"), offset: 0, count: 4096 });
        let size = ReplySizeUpperBound::for_v3(&read);
        // Status, attributes, count, eof and length.
        assert_eq!((size.message_bytes, size.data_bytes), (104, vec![4096]));
    }

    #[test]
    fn the_text_of_a_link_is_wanted_in_the_message() {
        let size = ReplySizeUpperBound::for_compound(&[v4::Args::READLINK(Void)]);
        assert!(size.message_bytes > 4096 && size.data_bytes.is_empty());
    }

    #[test]
    fn the_reply_of_a_getattr_is_sized_by_its_attributes() {
        let of = |words: &[u32]| {
            let getattr = v4::Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(words) });
            ReplySizeUpperBound::for_compound(&[getattr]).message_bytes
        };
        // type, size and mode; then the owner, which is a string.
        assert!(of(&[1 << 1 | 1 << 4, 1 << 1]) < 200);
        assert!(of(&[0, 1 << 4]) > 4096);
    }
}
