//! Details of the procedures of the auxiliary programs: MOUNT, NLM, NSM, PORTMAP, RQUOTA, NFSACL.

use std::fmt::Write as _;

use nfsrdma_dissectors::field::FieldDefinition;
use nfsrdma_dissectors::nfs::mount::{self, DirpathArgs, Exportnode, Mountbody};
use nfsrdma_dissectors::nfs::nfsacl::v2::{Access2Args, Access2Resok};
use nfsrdma_dissectors::nfs::nfsacl::{self, Secattr};
use nfsrdma_dissectors::nfs::nlm::v3::{NlmHolder, NlmLock, NlmLockargs};
use nfsrdma_dissectors::nfs::nlm::v4::{Nlm4Holder, Nlm4Lock, Nlm4Res, Nlm4Testrply};
use nfsrdma_dissectors::nfs::nlm::{self, NlmNotify, NlmShare};
use nfsrdma_dissectors::nfs::nsm::{self, MonId, SmName, SmStatus, StatChge};
use nfsrdma_dissectors::nfs::rpcbind::v2::{GetportRes, Mapping, Prot};
use nfsrdma_dissectors::nfs::rpcbind::{self, Rpcb, Uaddr};
use nfsrdma_dissectors::nfs::rquota;
use nfsrdma_dissectors::nfs::rquota::v1::GetquotaArgs;
use nfsrdma_dissectors::nfs::rquota::v2::{ExtGetquotaArgs, ExtSetquotaArgs};
use nfsrdma_dissectors::rpc::universal_address;

use super::detail_writer::{InfoColumnDetailWriter, OperationDetailFunction};
use super::field_collector::InfoColumnFieldValue;
use crate::output::units::escape;

/// Returns the function for the details of a procedure of MOUNT.
pub(super) fn mount(procedure: mount::v2::Procedure) -> Option<OperationDetailFunction> {
    use mount::v2::Procedure::*;
    Some(match procedure {
        MNT | UMNT | PATHCONF => |line| line.name(&[DirpathArgs::FIELDS.dirpath]),
        DUMP => |line| line.count(Mountbody::FIELDS.ml_directory, "mount"),
        EXPORT => |line| line.count(Exportnode::FIELDS.ex_dir, "export"),
        NULL | UMNTALL | EXPORTALL => return None,
    })
}

/// Returns the function for the details of a procedure of NLM.
pub(super) fn nlm(procedure: nlm::v4::Procedure) -> Option<OperationDetailFunction> {
    use nlm::v4::Procedure::*;
    Some(match procedure {
        TEST | LOCK | CANCEL | UNLOCK | GRANTED | TEST_MSG | LOCK_MSG | CANCEL_MSG | UNLOCK_MSG | GRANTED_MSG
        | TEST_RES | LOCK_RES | CANCEL_RES | UNLOCK_RES | GRANTED_RES | NSM_NOTIFY | SHARE | UNSHARE | NM_LOCK
        | FREE_ALL => |line| line.file_lock(),
        NULL => return None,
    })
}

/// Returns the function for the details of a procedure of NSM: `MON client.example`, `NOTIFY client.example state 5`.
pub(super) fn nsm(procedure: nsm::Procedure) -> Option<OperationDetailFunction> {
    use nsm::Procedure::*;
    Some(match procedure {
        STAT => |line| line.unquoted(" ", &[SmName::FIELDS.mon_name]),
        MON | UNMON => |line| line.unquoted(" ", &[MonId::FIELDS.mon_name]),
        NOTIFY => |line| {
            line.unquoted(" ", &[StatChge::FIELDS.mon_name]);
            line.number("state", StatChge::FIELDS.state);
        },
        NULL | UNMON_ALL | SIMU_CRASH => return None,
    })
}

/// Returns the function for the details of a procedure of the port mapper.
pub(super) fn portmap2(procedure: rpcbind::v2::Procedure) -> Option<OperationDetailFunction> {
    use rpcbind::v2::Procedure::*;
    Some(match procedure {
        SET | UNSET | GETPORT | CALLIT => |line| line.mapping(GetportRes::FIELDS.port),
        DUMP => |line| line.count(Mapping::FIELDS.prog, "program"),
        NULL => return None,
    })
}

/// Returns the function for the details of a procedure of RPCBIND version 3.
pub(super) fn rpcbind3(procedure: rpcbind::v3::Procedure) -> Option<OperationDetailFunction> {
    use rpcbind::v3::Procedure::*;
    Some(match procedure {
        SET | UNSET | GETADDR | TADDR2UADDR => |line| line.mapping(GetportRes::FIELDS.port),
        CALLIT => |line| line.mapping(&universal_address::PORT),
        DUMP => |line| line.count(Rpcb::FIELDS.r_prog, "program"),
        NULL | GETTIME | UADDR2TADDR => return None,
    })
}

/// Returns the function for the details of a procedure of RPCBIND version 4.
pub(super) fn rpcbind4(procedure: rpcbind::v4::Procedure) -> Option<OperationDetailFunction> {
    use rpcbind::v4::Procedure::*;
    Some(match procedure {
        SET | UNSET | GETADDR | BCAST | TADDR2UADDR | GETVERSADDR | INDIRECT | GETADDRLIST => {
            |line| line.mapping(GetportRes::FIELDS.port)
        }
        DUMP => |line| line.count(Rpcb::FIELDS.r_prog, "program"),
        NULL | GETTIME | UADDR2TADDR | GETSTAT => return None,
    })
}

/// Returns the function for the details of a procedure of RQUOTA: `GETQUOTA "/export" id 1000`.
pub(super) fn rquota(procedure: rquota::v2::Procedure) -> Option<OperationDetailFunction> {
    use rquota::v2::Procedure::*;
    Some(match procedure {
        GETQUOTA | GETACTIVEQUOTA => |line| {
            line.quote_text(&[ExtGetquotaArgs::FIELDS.gqa_pathp]);
            line.number("id", GetquotaArgs::FIELDS.gqa_uid);
            line.number("id", ExtGetquotaArgs::FIELDS.gqa_id);
        },
        SETQUOTA | SETACTIVEQUOTA => |line| {
            line.quote_text(&[ExtSetquotaArgs::FIELDS.sqa_pathp]);
            line.number("id", ExtSetquotaArgs::FIELDS.sqa_id);
        },
        NULL => return None,
    })
}

/// Returns the function for the details of a procedure of NFSACL version 2.
pub(super) fn nfsacl2(procedure: nfsacl::v2::Procedure) -> Option<OperationDetailFunction> {
    use nfsacl::v2::Procedure::*;
    Some(match procedure {
        GETACL | SETACL => |line| line.acl(),
        ACCESS => |line| line.access(Access2Args::FIELDS.access, Access2Resok::FIELDS.access),
        NULL | GETATTR | GETXATTRDIR => return None,
    })
}

/// Returns the function for the details of a procedure of NFSACL version 3.
pub(super) fn nfsacl3(procedure: nfsacl::v3::Procedure) -> Option<OperationDetailFunction> {
    use nfsacl::v3::Procedure::*;
    Some(match procedure {
        GETACL | SETACL => |line| line.acl(),
        NULL | GETXATTRDIR => return None,
    })
}

impl InfoColumnDetailWriter<'_> {
    /// Appends `LOCK /data/db 0+10 exclusive client.example`. A length of 0 reaches to the end of the file (XNFS
    /// section 10).
    fn file_lock(&mut self) {
        let (call, args, share) = (self.call, NlmLockargs::FIELDS, NlmShare::FIELDS);
        let (lock, lock4) = (NlmLock::FIELDS, Nlm4Lock::FIELDS);
        if let Some(offset) = call.number(lock.l_offset).or_else(|| call.number(lock4.l_offset)) {
            let length = call.number(lock.l_len).or_else(|| call.number(lock4.l_len));
            self.push_range(offset, length.filter(|length| *length > 0).or(Some(u64::MAX)));
        }
        match call.number(args.exclusive) {
            Some(0) => self.text.push_str(" shared"),
            Some(_) => self.text.push_str(" exclusive"),
            None => {}
        }
        for (flag, text) in [(args.block, " wait"), (args.reclaim, " reclaim")] {
            if call.number(flag) == Some(1) {
                self.text.push_str(text);
            }
        }
        self.enum_name(share.access, "fsa_");
        if call.number(share.mode).is_some_and(|mode| mode > 0) {
            self.text.push_str(" deny");
            self.enum_name(share.mode, "fsm_D");
        }
        self.enum_name(Nlm4Testrply::TAG, "NLM4_");
        self.enum_name(Nlm4Res::FIELDS.stat, "NLM4_");
        self.unquoted(" ", &[lock.caller_name, NlmNotify::FIELDS.name, SmStatus::FIELDS.mon_name]);
        let holder = self.reply.number(NlmHolder::FIELDS.uppid);
        if let Some(holder) = holder.or_else(|| self.reply.number(Nlm4Holder::FIELDS.svid)) {
            let _ = write!(self.text, " held by {}", holder as i32);
        }
    }

    /// Appends `GETPORT NFS 3 tcp → 2049`, `GETADDR NFS 4 rdma → 192.0.2.1.78.81`.
    fn mapping(&mut self, returned_port: &FieldDefinition) {
        let (call, mapping, rpcb) = (self.call, Mapping::FIELDS, Rpcb::FIELDS);
        let _ = match call.find(mapping.prog).or_else(|| call.find(rpcb.r_prog)) {
            Some(InfoColumnFieldValue::Enum(_, Some(program))) => write!(self.text, " {program}"),
            Some(InfoColumnFieldValue::Enum(number, None)) => write!(self.text, " {number}"),
            _ => Ok(()),
        };
        if let Some(version) = call.number(mapping.vers).or_else(|| call.number(rpcb.r_vers)) {
            let _ = write!(self.text, " {version}");
        }
        match call.number(mapping.prot).map(|number| Prot(number as u32)) {
            Some(Prot::IPPROTO_TCP) => self.text.push_str(" tcp"),
            Some(Prot::IPPROTO_UDP) => self.text.push_str(" udp"),
            _ => self.unquoted(" ", &[rpcb.r_netid]),
        }
        let port = self.reply.number(returned_port);
        let address = self.reply.texts(&[Uaddr::FIELDS.uaddr]).next();
        if port.is_some() || address.is_some() {
            let _ = write!(self.text, " {} ", self.glyphs.to);
        }
        match (port, address) {
            (Some(0), _) | (_, Some(b"")) => self.text.push_str("not registered"),
            (Some(port), _) => {
                let _ = write!(self.text, "{port}");
            }
            (_, Some(address)) => escape(address, self.glyphs, self.text),
            (None, None) => {}
        }
    }

    /// Appends the requested lists: `GETACL /data acl dfacl`.
    fn acl(&mut self) {
        if let Some(InfoColumnFieldValue::Flags(mask, names)) = self.call.find(Secattr::FIELDS.mask) {
            for (_, name) in names.iter().filter(|(bit, _)| mask & bit == *bit) {
                self.text.push(' ');
                let name = name.trim_start_matches("NA_");
                self.text.extend(name.chars().map(|character| character.to_ascii_lowercase()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_has_the_procedures_of_all_versions() {
        for number in 0..32 {
            let mount = mount::v2::ProcedureNumber(number).name();
            for other in [mount::v1::ProcedureNumber(number).name(), mount::v3::ProcedureNumber(number).name()] {
                assert!(other.is_none() || other == mount, "MOUNT {number}");
            }
            let nlm = nlm::v4::ProcedureNumber(number).name();
            for other in [nlm::v1::ProcedureNumber(number).name(), nlm::v3::ProcedureNumber(number).name()] {
                assert!(other.is_none() || other == nlm, "NLM {number}");
            }
            assert_eq!(rquota::v1::ProcedureNumber(number).name(), rquota::v2::ProcedureNumber(number).name());
        }
    }
}
