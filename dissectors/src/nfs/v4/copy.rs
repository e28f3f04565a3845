//! Server-side copies. RFC 7862 section 15.

use super::address::Netaddr4;
use super::io::WriteResponse4;
use super::status::Nfsstat4;
use super::status::results;
use super::types::{Duration4, Length4, Offset4, Stateid4};
use crate::xdr::{Text, XdrArray};

crate::xdr! { "nfs";
    /// netloc_type4. RFC 7862 section 4.7.
    enum NetlocType4 { NL4_NAME = 1, NL4_URL = 2, NL4_NETADDR = 3 }

    /// netloc4. RFC 7862 section 4.7.
    union Netloc4<'a> switch (nl_type: NetlocType4 => "nfs.netloctype") {
        NL4_NAME => Name(Text<'a>) as nl_name,
        NL4_URL => Url(Text<'a>) as nl_url,
        NL4_NETADDR => Netaddr(Netaddr4<'a>) as nl_addr,
    }

    /// COPY4args. RFC 7862 section 15.2.1.
    struct Copy4Args<'a> {
        ca_src_stateid: Stateid4 => "nfs.stateid",
        ca_dst_stateid: Stateid4 => "nfs.stateid",
        ca_src_offset: Offset4 => "nfs.offset4",
        ca_dst_offset: Offset4 => "nfs.offset4",
        ca_count: Length4 => "nfs.length4",
        ca_consecutive: bool => "nfs.consecutive",
        ca_synchronous: bool => "nfs.synchronous",
        ca_source_server: XdrArray<'a, Netloc4<'a>> => "nfs.netloc",
    }

    /// copy_requirements4, the member cr_requirements of COPY4res with NFS4ERR_OFFLOAD_NO_REQS. RFC 7862 section
    /// 15.2.2.
    struct CopyRequirements4 { cr_consecutive: bool => "nfs.consecutive", cr_synchronous: bool => "nfs.synchronous" }

    /// COPY4resok. RFC 7862 section 15.2.2.
    struct Copy4Resok<'a> { cr_response: WriteResponse4<'a>, cr_requirements: CopyRequirements4 }

    /// COPY_NOTIFY4args. RFC 7862 section 15.3.1.
    struct CopyNotify4Args<'a> {
        cna_src_stateid: Stateid4 => "nfs.stateid",
        cna_destination_server: Netloc4<'a> => "nfs.netloc",
    }

    /// COPY_NOTIFY4resok. RFC 7862 section 15.3.2.
    struct CopyNotify4Resok<'a> {
        cnr_lease_time: Duration4,
        cnr_stateid: Stateid4 => "nfs.stateid",
        cnr_source_server: XdrArray<'a, Netloc4<'a>> => "nfs.netloc",
    }

    /// OFFLOAD_CANCEL4args. RFC 7862 section 15.8.1.
    struct OffloadCancel4Args { oca_stateid: Stateid4 => "nfs.stateid" }

    /// OFFLOAD_STATUS4args. RFC 7862 section 15.9.1.
    struct OffloadStatus4Args { osa_stateid: Stateid4 => "nfs.stateid" }

    /// OFFLOAD_STATUS4resok. RFC 7862 section 15.9.2.
    struct OffloadStatus4Resok<'a> {
        osr_count: Length4 => "nfs.length4",
        osr_complete: XdrArray<'a, Nfsstat4, 1> => "nfs.offload_status",
    }

    /// CLONE4args. RFC 7862 section 15.13.1.
    struct Clone4Args {
        cl_src_stateid: Stateid4 => "nfs.stateid",
        cl_dst_stateid: Stateid4 => "nfs.stateid",
        cl_src_offset: Offset4 => "nfs.offset4",
        cl_dst_offset: Offset4 => "nfs.offset4",
        cl_count: Length4 => "nfs.length4",
    }
}

results! {
    /// COPY4res. RFC 7862 section 15.2.2.
    CopyRes<'a> { NFS4_OK => Copy4Resok<'a>, NFS4ERR_OFFLOAD_NO_REQS => NoReqs(CopyRequirements4) }
}
