//! Results of the procedures. RFC 1813 section 3.3.
//!
//! Structures shared by several procedures, or by success and failure, are defined once.

use crate::xdr::{Chain, Ddp, DdpText, Text};

use super::types::{
    Access3, Duration3, Fattr3, Fsf3, NfsFh3, PostOpAttr, PostOpFh3, StableHow, Verifier3, WccData,
};

crate::xdr! { "nfs";
    /// GETATTR3resok. RFC 1813 section 3.3.1.
    struct Getattr3Resok { obj_attributes: Fattr3 }

    /// SETATTR3resok and SETATTR3resfail. RFC 1813 section 3.3.2.
    struct ObjWcc { obj_wcc: WccData }

    /// LOOKUP3resok. RFC 1813 section 3.3.3.
    struct Lookup3Resok<'a> {
        object: NfsFh3<'a> => "nfs.fhandle",
        obj_attributes: PostOpAttr,
        dir_attributes: PostOpAttr,
    }

    /// LOOKUP3resfail, READDIR3resfail and READDIRPLUS3resfail. RFC 1813 sections 3.3.3, 3.3.16 and 3.3.17.
    struct DirAttributes3Resfail { dir_attributes: PostOpAttr }

    /// ACCESS3resok. RFC 1813 section 3.3.4.
    struct Access3Resok { obj_attributes: PostOpAttr, access: Access3 => "nfs.access_rights" }

    /// ACCESS3resfail, FSSTAT3resfail, FSINFO3resfail and PATHCONF3resfail.
    /// RFC 1813 sections 3.3.4 and 3.3.18 to 3.3.20.
    struct ObjAttributes3Resfail { obj_attributes: PostOpAttr }

    /// READLINK3resok. The path is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.5.
    struct Readlink3Resok<'a> { symlink_attributes: PostOpAttr, data: DdpText<'a> => "nfs.readlink.data" }

    /// READLINK3resfail. RFC 1813 section 3.3.5.
    struct Readlink3Resfail { symlink_attributes: PostOpAttr }

    /// READ3resok. The data is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.6.
    struct Read3Resok<'a> {
        file_attributes: PostOpAttr,
        count: u32 => "nfs.count3",
        eof: bool => "nfs.read.eof",
        data: Ddp<'a>,
    }

    /// READ3resfail. RFC 1813 section 3.3.6.
    struct Read3Resfail { file_attributes: PostOpAttr }

    /// WRITE3resok. RFC 1813 section 3.3.7.
    struct Write3Resok {
        file_wcc: WccData,
        count: u32 => "nfs.count3",
        committed: StableHow => "nfs.write.committed",
        verf: Verifier3 => "nfs.verifier",
    }

    /// WRITE3resfail and COMMIT3resfail. RFC 1813 sections 3.3.7 and 3.3.21.
    struct FileWcc { file_wcc: WccData }

    /// CREATE3resok, MKDIR3resok, SYMLINK3resok and MKNOD3resok. RFC 1813 sections 3.3.8 to 3.3.11.
    struct Create3Resok<'a> { obj: PostOpFh3<'a> => "nfs.fhandle", obj_attributes: PostOpAttr, dir_wcc: WccData }

    /// The failures of CREATE, MKDIR, SYMLINK and MKNOD, and all results of REMOVE and RMDIR. RFC 1813 sections 3.3.8
    /// to 3.3.13.
    struct DirWcc { dir_wcc: WccData }

    /// RENAME3resok and RENAME3resfail. RFC 1813 section 3.3.14.
    struct RenameWcc { fromdir_wcc: WccData, todir_wcc: WccData }

    /// LINK3resok and LINK3resfail. RFC 1813 section 3.3.15.
    struct Link3Res { file_attributes: PostOpAttr, linkdir_wcc: WccData }

    /// READDIR3resok. RFC 1813 section 3.3.16.
    struct Readdir3Resok<'a> {
        dir_attributes: PostOpAttr,
        cookieverf: Verifier3 => "nfs.verifier",
        reply: Dirlist3<'a>,
    }

    /// dirlist3. RFC 1813 section 3.3.16.
    struct Dirlist3<'a> {
        entries: Chain<'a, Entry3<'a>> => "nfs.readdir.entry",
        eof: bool => "nfs.readdir.eof",
    }

    /// entry3. RFC 1813 section 3.3.16.
    struct Entry3<'a> {
        fileid: u64 => "nfs.readdir.entry3.fileid",
        name: Text<'a> => "nfs.readdir.entry3.name",
        cookie: u64 => "nfs.readdir.entry3.cookie",
    }

    /// READDIRPLUS3resok. RFC 1813 section 3.3.17.
    struct Readdirplus3Resok<'a> {
        dir_attributes: PostOpAttr,
        cookieverf: Verifier3 => "nfs.verifier",
        reply: Dirlistplus3<'a>,
    }

    /// dirlistplus3. RFC 1813 section 3.3.17.
    struct Dirlistplus3<'a> {
        entries: Chain<'a, Entryplus3<'a>> => "nfs.readdir.entry",
        eof: bool => "nfs.readdir.eof",
    }

    /// entryplus3. RFC 1813 section 3.3.17.
    struct Entryplus3<'a> {
        fileid: u64 => "nfs.readdirplus.entry.fileid",
        name: Text<'a> => "nfs.readdirplus.entry.name",
        cookie: u64 => "nfs.readdirplus.entry.cookie",
        name_attributes: PostOpAttr,
        name_handle: PostOpFh3<'a> => "nfs.fhandle",
    }

    /// FSSTAT3resok. RFC 1813 section 3.3.18.
    struct Fsstat3Resok {
        obj_attributes: PostOpAttr,
        tbytes: u64 => "nfs.fsstat3_resok.tbytes",
        fbytes: u64 => "nfs.fsstat3_resok.fbytes",
        abytes: u64 => "nfs.fsstat3_resok.abytes",
        tfiles: u64 => "nfs.fsstat3_resok.tfiles",
        ffiles: u64 => "nfs.fsstat3_resok.ffiles",
        afiles: u64 => "nfs.fsstat3_resok.afiles",
        invarsec: u32 => "nfs.fsstat.invarsec",
    }

    /// FSINFO3resok. RFC 1813 section 3.3.19.
    struct Fsinfo3Resok {
        obj_attributes: PostOpAttr,
        rtmax: u32 => "nfs.fsinfo.rtmax",
        rtpref: u32 => "nfs.fsinfo.rtpref",
        rtmult: u32 => "nfs.fsinfo.rtmult",
        wtmax: u32 => "nfs.fsinfo.wtmax",
        wtpref: u32 => "nfs.fsinfo.wtpref",
        wtmult: u32 => "nfs.fsinfo.wtmult",
        dtpref: u32 => "nfs.fsinfo.dtpref",
        maxfilesize: u64 => "nfs.fsinfo.maxfilesize",
        time_delta: Duration3 => "nfs.dtime",
        properties: Fsf3 => "nfs.fsinfo.properties",
    }

    /// PATHCONF3resok. RFC 1813 section 3.3.20.
    struct Pathconf3Resok {
        obj_attributes: PostOpAttr,
        linkmax: u32 => "nfs.pathconf.linkmax",
        name_max: u32 => "nfs.pathconf.name_max",
        no_trunc: bool => "nfs.pathconf.no_trunc",
        chown_restricted: bool => "nfs.pathconf.chown_restricted",
        case_insensitive: bool => "nfs.pathconf.case_insensitive",
        case_preserving: bool => "nfs.pathconf.case_preserving",
    }

    /// COMMIT3resok. RFC 1813 section 3.3.21.
    struct Commit3Resok { file_wcc: WccData, verf: Verifier3 => "nfs.verifier" }
}
