//! Checks of NFSv3 and of the auxiliary programs. RFC 1813.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{
    self, Args, Create3Args, Diropargs3, Mkdir3Args, Mknod3Args, Remove3Args, Results, Symlink3Args,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, mount, nfsacl, nlm};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Cursor;

use super::issued_identifiers::FilehandleLocationInExport;
use super::{Containment, ContainmentViolation, ReplyIdentifierKinds};
use crate::auxiliary_programs::is_limited_to_files;

type CallContainmentCheckResult<'a> = Result<(ReplyIdentifierKinds, Cursor<'a>), ContainmentViolation>;

impl Containment {
    /// Checks the arguments of a port mapper procedure; they contain neither files nor clients.
    pub(super) fn check_portmap(
        version: u32,
        procedure: u32,
        mut cursor: Cursor<'_>,
    ) -> CallContainmentCheckResult<'_> {
        let described = Procedure::from_numbers(Program::PORTMAP, version, procedure)
            .filter(|_| is_limited_to_files(Program::PORTMAP, version, procedure))
            .ok_or(ContainmentViolation::Program)?;
        described.arguments(&mut cursor, &mut NullFieldObserver).map_err(|_| ContainmentViolation::Unreadable)?;
        Ok((ReplyIdentifierKinds::Nothing, cursor))
    }

    /// Returns the zone of a directory entry, as in CREATE and REMOVE.
    fn zone_of_entry(&self, entry: &Diropargs3<'_>) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        self.child(self.zone_of_handle(entry.dir.0)?, entry.name.0)
    }

    /// Checks the arguments of an NFSv3 procedure. RFC 1813 section 3.3.
    pub(super) fn check_nfs3<'a>(&self, procedure: u32, mut cursor: Cursor<'a>) -> CallContainmentCheckResult<'a> {
        let procedure = v3::ProcedureNumber(procedure).known().ok_or(ContainmentViolation::Program)?;
        let arguments = Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
        let arguments = arguments.map_err(|_| ContainmentViolation::Unreadable)?;
        match &arguments {
            Args::NULL(_) => {}
            Args::GETATTR(args) => self.check_handle(args.object.0)?,
            Args::SETATTR(args) => self.check_handle(args.object.0)?,
            Args::LOOKUP(args) => {
                self.zone_of_lookup(self.zone_of_handle(args.what.dir.0)?, args.what.name.0)?;
            }
            Args::ACCESS(args) => self.check_handle(args.object.0)?,
            Args::READLINK(args) => self.check_handle(args.symlink.0)?,
            Args::READ(args) => self.check_handle(args.file.0)?,
            Args::WRITE(args) => self.check_handle(args.file.0)?,
            Args::CREATE(args) => self.check_entry(&args.r#where)?,
            // The run's directory is created in the export.
            Args::MKDIR(args) => drop(self.zone_of_entry(&args.r#where)?),
            // The text of a link is data: nothing here resolves it, and MOUNT is called only for paths without links.
            Args::SYMLINK(args) => self.check_entry(&args.r#where)?,
            Args::MKNOD(args) => self.check_entry(&args.r#where)?,
            Args::REMOVE(args) => self.check_entry(&args.object)?,
            Args::RMDIR(Remove3Args { object }) => {
                let zone = self.zone_of_handle(object.dir.0)?;
                match self.is_removable_run_directory(zone, object.name.0) {
                    true => drop(self.zone_of_entry(object)?),
                    false => self.check_entry(object)?,
                }
            }
            Args::RENAME(args) => {
                self.check_entry(&args.from)?;
                self.check_entry(&args.to)?;
            }
            Args::LINK(args) => {
                self.check_handle(args.file.0)?;
                self.check_entry(&args.link)?;
            }
            Args::READDIR(args) => self.check_handle(args.dir.0)?,
            Args::READDIRPLUS(args) => self.check_handle(args.dir.0)?,
            Args::FSSTAT(args) => self.check_handle(args.fsroot.0)?,
            Args::FSINFO(args) => self.check_handle(args.fsroot.0)?,
            Args::PATHCONF(args) => self.check_handle(args.object.0)?,
            Args::COMMIT(args) => self.check_handle(args.file.0)?,
        }
        let reply_identifiers = match arguments {
            Args::LOOKUP(_)
            | Args::CREATE(_)
            | Args::MKDIR(_)
            | Args::SYMLINK(_)
            | Args::MKNOD(_)
            | Args::READDIRPLUS(_) => ReplyIdentifierKinds::Filehandles,
            _ => ReplyIdentifierKinds::Nothing,
        };
        Ok((reply_identifiers, cursor))
    }

    fn check_handle(&self, handle: &[u8]) -> Result<(), ContainmentViolation> {
        self.check_object(handle).map(|_| ())
    }

    /// Checks a name that is created, changed or removed. Its directory must not be the root of the export.
    fn check_entry(&self, entry: &Diropargs3<'_>) -> Result<(), ContainmentViolation> {
        self.check_object(entry.dir.0)?;
        self.zone_of_entry(entry).map(|_| ())
    }

    pub(super) fn check_nfsacl3<'a>(&self, procedure: u32, mut cursor: Cursor<'a>) -> CallContainmentCheckResult<'a> {
        use nfsacl::v3::Args;
        let procedure = nfsacl::v3::ProcedureNumber(procedure).known().ok_or(ContainmentViolation::Unreadable)?;
        let arguments = Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
        let handle = match arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::NULL(_) => return Ok((ReplyIdentifierKinds::Nothing, cursor)),
            Args::GETACL(args) => args.fh,
            Args::SETACL(args) => args.fh,
            Args::GETXATTRDIR(args) => args.fh,
        };
        self.check_handle(handle.0)?;
        Ok((ReplyIdentifierKinds::Nothing, cursor))
    }

    /// Checks the arguments of an NLM procedure. RFC 1813 section 6.
    pub(super) fn check_nlm4<'a>(&self, procedure: u32, mut cursor: Cursor<'a>) -> CallContainmentCheckResult<'a> {
        use nlm::v4::Args;
        if !is_limited_to_files(Program::NLM, 4, procedure) {
            return Err(ContainmentViolation::Program);
        }
        let procedure = nlm::v4::ProcedureNumber(procedure).known().ok_or(ContainmentViolation::Unreadable)?;
        let arguments = Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
        let handle = match arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::NULL(_) => return Ok((ReplyIdentifierKinds::Nothing, cursor)),
            Args::TEST(args) => args.alock.fh,
            Args::LOCK(args) | Args::NM_LOCK(args) => args.alock.fh,
            Args::CANCEL(args) => args.alock.fh,
            Args::UNLOCK(args) => args.alock.fh,
            Args::SHARE(args) | Args::UNSHARE(args) => args.share.fh,
            // Callbacks, answers, one-way messages, and the procedure that frees all locks of a host.
            _ => return Err(ContainmentViolation::Program),
        };
        self.check_handle(handle.0)?;
        Ok((ReplyIdentifierKinds::Nothing, cursor))
    }

    /// Checks the arguments of a MOUNT procedure. RFC 1813 section 5.
    pub(super) fn check_mount<'a>(
        &self,
        version: u32,
        procedure: u32,
        mut cursor: Cursor<'a>,
    ) -> CallContainmentCheckResult<'a> {
        use mount::v3::{Args, Procedure, ProcedureNumber};
        let procedure = ProcedureNumber(procedure).known().ok_or(ContainmentViolation::Program)?;
        match (version, procedure) {
            // DUMP and EXPORT are the same in all versions.
            (1..=3, Procedure::DUMP | Procedure::EXPORT) => return Ok((ReplyIdentifierKinds::Nothing, cursor)),
            (3, Procedure::MNT | Procedure::UMNT) => {}
            _ => return Err(ContainmentViolation::Program),
        }
        let arguments = Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
        let (path, reply_identifiers) = match arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::MNT(args) => (args.dirpath.0, ReplyIdentifierKinds::Filehandles),
            Args::UMNT(args) => (args.dirpath.0, ReplyIdentifierKinds::Nothing),
            Args::NULL(_) | Args::DUMP(_) | Args::UMNTALL(_) | Args::EXPORT(_) => {
                return Err(ContainmentViolation::Program);
            }
        };
        // The server resolves symbolic links in a path.
        match self.is_of_plan || self.mounts.iter().any(|mount| **mount == *path) {
            true => Ok((reply_identifiers, cursor)),
            false => Err(ContainmentViolation::Upward),
        }
    }

    pub(super) fn record_mount_reply(&mut self, procedure: u32, mut reply: Cursor<'_>) {
        let Some(procedure) = mount::v3::ProcedureNumber(procedure).known() else { return };
        if let Ok(mount::v3::Results::MNT(StatusUnion::Ok(ok))) =
            mount::v3::Results::decode(procedure, &mut reply, &mut NullFieldObserver)
        {
            self.issued_identifiers.handle(ok.fhandle.0, FilehandleLocationInExport::TreeRoot);
        }
    }

    pub(super) fn record_nfs3_reply(&mut self, procedure: u32, mut sent: Cursor<'_>, mut reply: Cursor<'_>) {
        let Some(procedure) = v3::ProcedureNumber(procedure).known() else { return };
        let Ok(arguments) = Args::decode(procedure, &mut sent, &mut NullFieldObserver) else { return };
        let Ok(results) = Results::decode(procedure, &mut reply, &mut NullFieldObserver) else { return };
        match (&arguments, &results) {
            (Args::LOOKUP(args), Results::LOOKUP(StatusUnion::Ok(ok))) => {
                let directory = self.zone_of_handle(args.what.dir.0);
                if let Ok(zone) = directory.and_then(|directory| self.zone_of_lookup(directory, args.what.name.0)) {
                    self.issued_identifiers.handle(ok.object.0, zone);
                }
            }
            (Args::CREATE(Create3Args { r#where, .. }), Results::CREATE(StatusUnion::Ok(ok)))
            | (Args::MKDIR(Mkdir3Args { r#where, .. }), Results::MKDIR(StatusUnion::Ok(ok)))
            | (Args::SYMLINK(Symlink3Args { r#where, .. }), Results::SYMLINK(StatusUnion::Ok(ok)))
            | (Args::MKNOD(Mknod3Args { r#where, .. }), Results::MKNOD(StatusUnion::Ok(ok))) => {
                if let (Some(handle), Ok(zone)) = (&ok.obj, self.zone_of_entry(r#where)) {
                    self.issued_identifiers.handle(handle.0, zone);
                }
            }
            (Args::READDIRPLUS(args), Results::READDIRPLUS(StatusUnion::Ok(ok))) => {
                let Ok(directory) = self.zone_of_handle(args.dir.0) else { return };
                for entry in ok.reply.entries.iter() {
                    let zone = self.child(directory, entry.name.0);
                    if let (Some(handle), Ok(zone)) = (&entry.name_handle, zone) {
                        self.issued_identifiers.handle(handle.0, zone);
                    }
                }
            }
            _ => {}
        }
    }
}
