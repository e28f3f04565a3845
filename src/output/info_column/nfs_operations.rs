//! Details of the operations of NFS: the fields that a line shows.

use std::fmt::Write as _;

use nfsrdma_dissectors::nfs::{v2, v3, v4};

use super::detail_writer::OperationDetailFunction;

/// Returns fields of a structure.
macro_rules! fields {
    ($structure:ident: $($field:ident),+) => { [$($structure::FIELDS.$field),+] };
}

/// Returns the function for the details of a procedure of NFSv2.
pub(super) fn v2(procedure: v2::Procedure) -> Option<OperationDetailFunction> {
    use v2::Procedure::*;
    use v2::*;
    Some(match procedure {
        READ => |line| {
            line.range(fields!(Read2Args: offset, count));
            line.read_length(Read2Args::FIELDS.count, Read2Ok::FIELDS.data);
        },
        WRITE => |line| line.range(fields!(Write2Args: offset, data)),
        LOOKUP => |line| line.path(Diropargs::FIELDS.name),
        CREATE | MKDIR | REMOVE | RMDIR => |line| line.name(&[Diropargs::FIELDS.name]),
        SYMLINK => |line| {
            line.name(&[Diropargs::FIELDS.name]);
            line.link_text(line.call, Symlink2Args::FIELDS.to);
        },
        LINK => |line| line.link(Diropargs::FIELDS.name),
        RENAME => |line| line.rename(&[Diropargs::FIELDS.name]),
        READLINK => |line| line.link_text(line.reply, Readlink2Ok::FIELDS.data),
        READDIR => |line| line.directory_entries(Readdir2Args::FIELDS.cookie, Readdir2Ok::FIELDS.eof),
        SETATTR => |line| {
            let attributes = Sattr::FIELDS;
            line.mode(attributes.mode);
            line.number("uid", attributes.uid);
            line.number("gid", attributes.gid);
            line.size(attributes.size);
        },
        NULL | GETATTR | ROOT | WRITECACHE | STATFS => return None,
    })
}

/// Returns the function for the details of a procedure of NFSv3.
pub(super) fn v3(procedure: v3::Procedure) -> Option<OperationDetailFunction> {
    use v3::Procedure::*;
    use v3::*;
    Some(match procedure {
        READ => |line| {
            line.range(fields!(Read3Args: offset, count));
            line.read_length(Read3Args::FIELDS.count, Read3Resok::FIELDS.data);
            line.end_of_file(Read3Resok::FIELDS.eof);
        },
        WRITE => |line| {
            let [offset, data, count] = fields!(Write3Args: offset, data, count);
            line.range([offset, if line.call.find(data).is_some() { data } else { count }]);
            line.stability(Write3Args::FIELDS.stable, Write3Resok::FIELDS.committed);
        },
        COMMIT => |line| line.range(fields!(Commit3Args: offset, count)),
        LOOKUP => |line| line.path(Diropargs3::FIELDS.name),
        CREATE => |line| {
            line.name(&[Diropargs3::FIELDS.name]);
            line.enum_name(Createhow3::TAG, "");
        },
        MKDIR | REMOVE | RMDIR => |line| line.name(&[Diropargs3::FIELDS.name]),
        MKNOD => |line| {
            line.name(&[Diropargs3::FIELDS.name]);
            line.enum_name(Mknoddata3::TAG, "NF3");
        },
        SYMLINK => |line| {
            line.name(&[Diropargs3::FIELDS.name]);
            line.link_text(line.call, Symlinkdata3::FIELDS.symlink_data);
        },
        LINK => |line| line.link(Diropargs3::FIELDS.name),
        RENAME => |line| line.rename(&[Diropargs3::FIELDS.name]),
        READLINK => |line| line.link_text(line.reply, Readlink3Resok::FIELDS.data),
        READDIR | READDIRPLUS => |line| line.directory_entries(Readdir3Args::FIELDS.cookie, Dirlist3::FIELDS.eof),
        ACCESS => |line| line.access(Access3Args::FIELDS.access, Access3Resok::FIELDS.access),
        SETATTR => |line| {
            let attributes = Sattr3::FIELDS;
            line.mode(attributes.mode);
            line.number("uid", attributes.uid);
            line.number("gid", attributes.gid);
            line.size(attributes.size);
            line.times(SetAtime::TAG);
        },
        NULL | GETATTR | FSSTAT | FSINFO | PATHCONF => return None,
    })
}

/// Returns the function for the details of an operation of NFSv4.
pub(super) fn v4(operation: v4::Operation) -> Option<OperationDetailFunction> {
    use v4::Operation::*;
    use v4::*;
    Some(match operation {
        READ => |line| {
            line.range(fields!(Read4Args: offset, count));
            line.read_length(Read4Args::FIELDS.count, Read4Resok::FIELDS.data);
            line.end_of_file(Read4Resok::FIELDS.eof);
        },
        READ_PLUS => |line| line.range(fields!(ReadPlus4Args: rpa_offset, rpa_count)),
        WRITE => |line| {
            line.range(fields!(Write4Args: offset, data));
            line.stability(Write4Args::FIELDS.stable, Write4Resok::FIELDS.committed);
        },
        COMMIT => |line| line.range(fields!(Commit4Args: offset, count)),
        ALLOCATE => |line| line.range(fields!(Allocate4Args: aa_offset, aa_length)),
        DEALLOCATE => |line| line.range(fields!(Deallocate4Args: da_offset, da_length)),
        IO_ADVISE => |line| line.range(fields!(IoAdvise4Args: iaa_offset, iaa_count)),
        LOCK | LOCKT | LOCKU => |line| {
            line.range(fields!(Lock4Args: offset, length));
            line.enum_name(Lock4Args::FIELDS.locktype, "_LT");
        },
        COPY => |line| line.transfer(fields!(Copy4Args: ca_src_offset, ca_dst_offset, ca_count)),
        CLONE => |line| line.transfer(fields!(Clone4Args: cl_src_offset, cl_dst_offset, cl_count)),
        LAYOUTGET => |line| {
            line.range(fields!(Layoutget4Args: loga_offset, loga_length));
            line.enum_name(Layoutget4Args::FIELDS.loga_iomode, "LAYOUTIOMODE4_");
        },
        LAYOUTCOMMIT => |line| line.range(fields!(Layoutcommit4Args: loca_offset, loca_length)),
        LAYOUTRETURN => |line| {
            line.range(fields!(LayoutreturnFile4: lrf_offset, lrf_length));
            line.enum_name(LayoutreturnFromIomode::FIELDS.lora_iomode, "LAYOUTIOMODE4_");
        },
        LAYOUTSTATS => |line| line.range(fields!(Layoutstats4Args: lsa_offset, lsa_length)),
        LAYOUTERROR => |line| line.range(fields!(Layouterror4Args: lea_offset, lea_length)),
        GETDEVICEINFO => |line| line.enum_name(Getdeviceinfo4Args::FIELDS.gdia_layout_type, "LAYOUT4_"),
        SEEK => |line| line.seek(),
        LOOKUP => |line| line.path(Lookup4Args::FIELDS.objname),
        OPEN => |line| line.open(),
        CREATE => |line| {
            line.name(&[Create4Args::FIELDS.objname]);
            if line.call.find(Create4Args::FIELDS.objname).is_some() {
                line.enum_name(Createtype4::TAG, "NF4");
                line.link_text(line.call, Createtype4::FIELDS.Link);
            }
        },
        REMOVE => |line| line.name(&[Remove4Args::FIELDS.target]),
        LINK => |line| line.link(Link4Args::FIELDS.newname),
        RENAME => |line| line.rename(&fields!(Rename4Args: oldname, newname)),
        READLINK => |line| line.link_text(line.reply, Readlink4Resok::FIELDS.link),
        READDIR => |line| line.directory_entries(Readdir4Args::FIELDS.cookie, Dirlist4::FIELDS.eof),
        ACCESS => |line| line.access(Access4Args::FIELDS.access, Access4Resok::FIELDS.access),
        GETATTR => |line| line.requested_attributes(),
        SETATTR => |line| {
            let attributes = Attribute::FIELDS;
            line.size(attributes.SIZE);
            line.mode(attributes.MODE);
            line.unquoted(" owner ", &[attributes.OWNER]);
            line.unquoted(" group ", &[attributes.OWNER_GROUP]);
            line.times(Settime4::TAG);
            let entries = line.call.count(Nfsace4::FIELDS.who);
            if entries > 0 {
                let _ = write!(line.text, " acl of {entries}");
            }
        },
        SECINFO => |line| line.name(&[Secinfo4Args::FIELDS.name]),
        SECINFO_NO_NAME => |line| line.enum_name(SecinfoNoName4Args::FIELDS.style, "SECINFO_STYLE4_"),
        GETXATTR => |line| line.quote_text(&[Getxattr4Args::FIELDS.gxa_name]),
        SETXATTR => |line| {
            line.quote_text(&[Setxattr4Args::FIELDS.sxa_key]);
            if let Some(length) = line.call.number(Setxattr4Args::FIELDS.sxa_value) {
                let _ = write!(line.text, " {length} bytes");
            }
        },
        REMOVEXATTR => |line| line.quote_text(&[Removexattr4Args::FIELDS.rxa_name]),
        LISTXATTRS => |line| line.result_count(Listxattrs4Resok::FIELDS.lxr_names, "name"),
        TEST_STATEID => |line| line.result_count(TestStateid4Resok::FIELDS.tsr_status_codes, "stateid"),
        CREATE_SESSION => |line| {
            // The fore channel comes first.
            if let Some(slots) = line.reply.number(ChannelAttrs4::FIELDS.ca_maxrequests) {
                let _ = write!(line.text, " {slots} slots");
            }
        },
        EXCHANGE_ID => |line| line.quote_text(&[ClientOwner4::FIELDS.co_ownerid]),
        SETCLIENTID => |line| line.quote_text(&[NfsClientId4::FIELDS.id]),
        BIND_CONN_TO_SESSION => |line| line.enum_name(BindConnToSession4Args::FIELDS.bctsa_dir, "CDFC4_"),
        CLOSE | DELEGPURGE | DELEGRETURN | GETFH | LOOKUPP | NVERIFY | OPENATTR | OPEN_CONFIRM | OPEN_DOWNGRADE
        | PUTFH | PUTPUBFH | PUTROOTFH | RENEW | RESTOREFH | SAVEFH | SETCLIENTID_CONFIRM | VERIFY
        | RELEASE_LOCKOWNER | BACKCHANNEL_CTL | DESTROY_SESSION | FREE_STATEID | GET_DIR_DELEGATION | GETDEVICELIST
        | SEQUENCE | SET_SSV | WANT_DELEGATION | DESTROY_CLIENTID | RECLAIM_COMPLETE | COPY_NOTIFY | OFFLOAD_CANCEL
        | OFFLOAD_STATUS | WRITE_SAME | ILLEGAL => return None,
    })
}

/// Returns the function for the details of a callback of NFSv4.
pub(super) fn callback(operation: v4::CbOperation) -> Option<OperationDetailFunction> {
    use v4::CbOperation::*;
    use v4::*;
    Some(match operation {
        CB_LAYOUTRECALL => |line| line.enum_name(CbLayoutrecall4Args::FIELDS.clora_iomode, "LAYOUTIOMODE4_"),
        CB_RECALL_ANY => |line| line.number("keep", CbRecallAny4Args::FIELDS.craa_objects_to_keep),
        CB_RECALL_SLOT => |line| line.number("highest slot", CbRecallSlot4Args::FIELDS.rsa_target_highest_slotid),
        CB_RECALLABLE_OBJ_AVAIL => return None,
        CB_GETATTR | CB_RECALL | CB_NOTIFY | CB_PUSH_DELEG | CB_SEQUENCE | CB_WANTS_CANCELLED | CB_NOTIFY_LOCK
        | CB_NOTIFY_DEVICEID | CB_OFFLOAD | CB_ILLEGAL => return None,
    })
}
