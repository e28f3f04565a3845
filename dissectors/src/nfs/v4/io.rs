//! Operations on file contents. RFC 8881 section 18, RFC 7862 section 15.

use super::bitmap::NamedBitmap;
use super::bitmap::bits;
use super::types::{Count4, Length4, Offset4, StableHow4, Stateid4, Verifier4};
use crate::xdr::{Ddp, Opaque, ReadPlusDdpEligibleData, XdrArray};

crate::xdr! { "nfs";
    /// COMMIT4args. RFC 8881 section 18.3.1.
    struct Commit4Args { offset: Offset4 => "nfs.offset4", count: Count4 => "nfs.count4" }

    /// COMMIT4resok. RFC 8881 section 18.3.2.
    struct Commit4Resok { writeverf: Verifier4 => "nfs.verifier4" }

    /// READ4args. RFC 8881 section 18.22.1.
    struct Read4Args { stateid: Stateid4, offset: Offset4 => "nfs.offset4", count: Count4 => "nfs.count4" }

    /// READ4resok. RFC 8881 section 18.22.2. The data may be in a Write chunk: RFC 8267 section 6.1.
    struct Read4Resok<'a> { eof: bool, data: Ddp<'a> }

    /// WRITE4args. RFC 8881 section 18.32.1. The data may be in a Read chunk: RFC 8267 section 6.1.
    struct Write4Args<'a> {
        stateid: Stateid4,
        offset: Offset4 => "nfs.offset4",
        stable: StableHow4 => "nfs.stable_how4",
        data: Ddp<'a>,
    }

    /// WRITE4resok. RFC 8881 section 18.32.2.
    struct Write4Resok {
        count: Count4 => "nfs.count4",
        committed: StableHow4 => "nfs.stable_how4",
        writeverf: Verifier4 => "nfs.verifier4",
    }

    /// ALLOCATE4args. RFC 7862 section 15.1.1.
    struct Allocate4Args {
        aa_stateid: Stateid4 => "nfs.stateid",
        aa_offset: Offset4 => "nfs.offset4",
        aa_length: Length4 => "nfs.length4",
    }

    /// DEALLOCATE4args. RFC 7862 section 15.4.1.
    struct Deallocate4Args {
        da_stateid: Stateid4 => "nfs.stateid",
        da_offset: Offset4 => "nfs.offset4",
        da_length: Length4 => "nfs.length4",
    }

    /// IO_ADVISE4args. RFC 7862 section 15.5.1.
    struct IoAdvise4Args<'a> {
        iaa_stateid: Stateid4 => "nfs.stateid",
        iaa_offset: Offset4 => "nfs.offset4",
        iaa_count: Length4 => "nfs.length4",
        iaa_hints: NamedBitmap<'a, IoAdviseType4> => "nfs.hint.mask",
    }

    /// IO_ADVISE4resok. RFC 7862 section 15.5.2.
    struct IoAdvise4Resok<'a> { ior_hints: NamedBitmap<'a, IoAdviseType4> => "nfs.hint.mask" }

    /// data_content4. RFC 7862 section 15.10.2.
    enum DataContent4 { NFS4_CONTENT_DATA = 0, NFS4_CONTENT_HOLE = 1 }

    /// READ_PLUS4args. RFC 7862 section 15.10.1.
    struct ReadPlus4Args {
        rpa_stateid: Stateid4 => "nfs.stateid",
        rpa_offset: Offset4 => "nfs.offset4",
        rpa_count: Count4 => "nfs.count4",
    }

    /// data4. RFC 7862 section 15.10.2. Not DDP-eligible (RFC 8267 section 6.1). Servers that follow
    /// draft-ietf-nfsv4-rfc5667bis-02 section 4.1 return its data in a Write chunk.
    struct Data4<'a> { d_offset: Offset4 => "nfs.offset4", d_data: ReadPlusDdpEligibleData<'a> => "nfs.data" }

    /// data_info4. RFC 7862 section 15.10.2.
    struct DataInfo4 { di_offset: Offset4 => "nfs.offset4", di_length: Length4 => "nfs.length4" }

    /// read_plus_content. RFC 7862 section 15.10.2.
    union ReadPlusContent<'a> switch (rpc_content: DataContent4 => "nfs.content.type") {
        NFS4_CONTENT_DATA => Data(Data4<'a>) as rpc_data,
        NFS4_CONTENT_HOLE => Hole(DataInfo4) as rpc_hole,
        default => Other,
    }

    /// read_plus_res4. RFC 7862 section 15.10.2.
    struct ReadPlusRes4<'a> {
        rpr_eof: bool => "nfs.eof",
        rpr_contents: XdrArray<'a, ReadPlusContent<'a>> => "nfs.contents",
    }

    /// SEEK4args. RFC 7862 section 15.11.1.
    struct Seek4Args {
        sa_stateid: Stateid4 => "nfs.stateid",
        sa_offset: Offset4 => "nfs.offset4",
        sa_what: DataContent4 => "nfs.data_content",
    }

    /// seek_res4. RFC 7862 section 15.11.2.
    struct SeekRes4 { sr_eof: bool => "nfs.eof", sr_offset: Offset4 => "nfs.offset4" }

    /// app_data_block4. RFC 7862 section 8.1.1.
    struct AppDataBlock4<'a> {
        adb_offset: Offset4 => "nfs.offset4",
        adb_block_size: Length4 => "nfs.length4",
        adb_block_count: Length4 => "nfs.adb.block.count",
        adb_reloff_blocknum: Length4 => "nfs.adb.block.reloff_num",
        adb_block_num: Count4 => "nfs.adb.block.num",
        adb_reloff_pattern: Length4 => "nfs.adb.pattern.reloff",
        adb_pattern: Opaque<'a>,
    }

    /// WRITE_SAME4args. RFC 7862 section 15.12.1.
    struct WriteSame4Args<'a> {
        wsa_stateid: Stateid4 => "nfs.stateid",
        wsa_stable: StableHow4 => "nfs.stable_how4",
        wsa_adb: AppDataBlock4<'a>,
    }

    /// write_response4 of COPY, WRITE_SAME and CB_OFFLOAD. RFC 7862 section 15.2.2.
    struct WriteResponse4<'a> {
        wr_callback_id: XdrArray<'a, Stateid4, 1> => "nfs.stateid",
        wr_count: Length4 => "nfs.length4",
        wr_committed: StableHow4 => "nfs.stable_how4",
        wr_writeverf: Verifier4 => "nfs.verifier4",
    }
}

bits! {
    /// IO_ADVISE_type4. RFC 7862 section 15.5.1.
    IoAdviseType4 {
        IO_ADVISE4_NORMAL = 0, IO_ADVISE4_SEQUENTIAL = 1, IO_ADVISE4_SEQUENTIAL_BACKWARDS = 2,
        IO_ADVISE4_RANDOM = 3, IO_ADVISE4_WILLNEED = 4, IO_ADVISE4_WILLNEED_OPPORTUNISTIC = 5,
        IO_ADVISE4_DONTNEED = 6, IO_ADVISE4_NOREUSE = 7, IO_ADVISE4_READ = 8, IO_ADVISE4_WRITE = 9,
        IO_ADVISE4_INIT_PROXIMITY = 10,
    }
}
