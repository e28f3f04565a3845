//! Reports of clients about devices: errors, and numbers of operations and bytes.

use crate::nfs::v4::operation_numbers::OperationNumber;
use crate::nfs::v4::status::Nfsstat4;
use crate::nfs::v4::types::Deviceid4;

crate::xdr! { "nfs";
    /// device_error4. RFC 7862 section 15.6.1.
    struct DeviceError4 {
        de_deviceid: Deviceid4 => "nfs.deviceid",
        de_status: Nfsstat4 => "nfs.nfsstat4",
        de_opnum: OperationNumber => "nfs.ff_ioerrs_op",
    }

    /// io_info4. RFC 7862 section 15.7.1.
    struct IoInfo4 { ii_count: u64 => "nfs.io_count", ii_bytes: u64 => "nfs.io_bytes" }
}
