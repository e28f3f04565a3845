//! Checks of NFSv3 and of the auxiliary programs. RFC 1813.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{self, Args, Create3Resok, Diropargs3, Nfsstat3, Results};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, mount, nfsacl, nlm};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Cursor;

use super::issued_identifiers::FilehandleContainmentZone;
use super::{Containment, ContainmentViolation, ReplyIdentifierKinds};
use crate::auxiliary_programs::is_limited_to_files;

type CallContainmentCheckResult<'a> = Result<(ReplyIdentifierKinds, Cursor<'a>), ContainmentViolation>;

/// Checks the arguments of a port mapper procedure; they contain neither files nor clients.
pub(super) fn portmap(
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

impl Containment {
    /// Returns the zone of a directory entry, as in CREATE and REMOVE.
    fn entry(&self, at: &Diropargs3<'_>) -> Result<FilehandleContainmentZone, ContainmentViolation> {
        self.child(self.zone_of_handle(at.dir.0)?, at.name.0)
    }

    /// Checks the name of a new object that is no directory; it must not be in the export.
    fn check_non_directory(&self, at: &Diropargs3<'_>) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
        self.check_object(at.dir.0)?;
        self.check_creation(at, ReplyIdentifierKinds::Filehandles)
    }

    /// Checks a name that is created or changed; in the export it must be that of the run's directory.
    fn check_creation(
        &self,
        at: &Diropargs3<'_>,
        gives: ReplyIdentifierKinds,
    ) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
        self.entry(at).map(|_| gives)
    }

    /// Checks the arguments of an NFSv3 procedure. RFC 1813 section 3.3.
    pub(super) fn nfs3<'a>(&self, procedure: u32, mut cursor: Cursor<'a>) -> CallContainmentCheckResult<'a> {
        let procedure = v3::Procedure(procedure);
        if procedure.name().is_none() {
            return Err(ContainmentViolation::Program);
        }
        let arguments = Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
        let gives = match &arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::NULL(_) => ReplyIdentifierKinds::Nothing,
            Args::GETATTR(args) => self.check_handle(args.object.0)?,
            Args::SETATTR(args) => self.check_handle(args.object.0)?,
            Args::LOOKUP(args) => {
                self.zone_of_lookup(self.zone_of_handle(args.what.dir.0)?, args.what.name.0)?;
                ReplyIdentifierKinds::Filehandles
            }
            Args::ACCESS(args) => self.check_handle(args.object.0)?,
            Args::READLINK(args) => self.check_handle(args.symlink.0)?,
            Args::READ(args) => self.check_handle(args.file.0)?,
            Args::WRITE(args) => self.check_handle(args.file.0)?,
            Args::CREATE(args) => self.check_non_directory(&args.r#where)?,
            Args::MKDIR(args) => self.check_creation(&args.r#where, ReplyIdentifierKinds::Filehandles)?,
            // The text of a link is data: nothing here resolves it, and MOUNT is called only for paths without links.
            Args::SYMLINK(args) => self.check_non_directory(&args.r#where)?,
            Args::MKNOD(args) => self.check_non_directory(&args.r#where)?,
            Args::REMOVE(args) => self.check_name_change(&args.object)?,
            Args::RMDIR(args)
                if self.is_removable_run_directory(
                    self.zone_of_handle(args.object.dir.0)?,
                    args.object.name.0,
                ) =>
            {
                self.check_creation(&args.object, ReplyIdentifierKinds::Nothing)?
            }
            Args::RMDIR(args) => self.check_name_change(&args.object)?,
            Args::RENAME(args) => {
                self.check_name_change(&args.from)?;
                self.check_name_change(&args.to)?
            }
            Args::LINK(args) => {
                self.check_object(args.file.0)?;
                self.check_name_change(&args.link)?
            }
            Args::READDIR(args) => self.check_handle(args.dir.0)?,
            Args::READDIRPLUS(args) => {
                self.check_handle(args.dir.0)?;
                ReplyIdentifierKinds::Filehandles
            }
            Args::FSSTAT(args) => self.check_handle(args.fsroot.0)?,
            Args::FSINFO(args) => self.check_handle(args.fsroot.0)?,
            Args::PATHCONF(args) => self.check_handle(args.object.0)?,
            Args::COMMIT(args) => self.check_handle(args.file.0)?,
        };
        Ok((gives, cursor))
    }

    fn check_handle(&self, handle: &[u8]) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
        self.check_object(handle).map(|_| ReplyIdentifierKinds::Nothing)
    }

    /// Checks a name that is removed, or added to an existing object; neither is allowed in the export.
    fn check_name_change(&self, at: &Diropargs3<'_>) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
        self.check_object(at.dir.0)?;
        self.check_creation(at, ReplyIdentifierKinds::Nothing)
    }

    /// Checks the arguments of an NFSACL procedure.
    pub(super) fn nfsacl3<'a>(
        &self,
        procedure: u32,
        mut cursor: Cursor<'a>,
    ) -> CallContainmentCheckResult<'a> {
        use nfsacl::v3::Args;
        let arguments = Args::decode(nfsacl::v3::Procedure(procedure), &mut cursor, &mut NullFieldObserver);
        let handle = match arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::NULL(_) => return Ok((ReplyIdentifierKinds::Nothing, cursor)),
            Args::GETACL(args) => args.fh,
            Args::SETACL(args) => args.fh,
            Args::GETXATTRDIR(args) => args.fh,
        };
        Ok((self.check_handle(handle.0)?, cursor))
    }

    /// Checks the arguments of an NLM procedure. RFC 1813 section 6.
    pub(super) fn nlm4<'a>(&self, procedure: u32, mut cursor: Cursor<'a>) -> CallContainmentCheckResult<'a> {
        use nlm::v4::Args;
        if !is_limited_to_files(Program::NLM, 4, procedure) {
            return Err(ContainmentViolation::Program);
        }
        let arguments = Args::decode(nlm::v4::Procedure(procedure), &mut cursor, &mut NullFieldObserver);
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
        Ok((self.check_handle(handle.0)?, cursor))
    }

    /// Checks the arguments of a MOUNT procedure. RFC 1813 section 5.
    pub(super) fn mount<'a>(
        &self,
        version: u32,
        procedure: u32,
        mut cursor: Cursor<'a>,
    ) -> CallContainmentCheckResult<'a> {
        use mount::v3::Args;
        match (version, procedure) {
            // DUMP and EXPORT are the same in all versions.
            (1..=3, 2 | 5) => return Ok((ReplyIdentifierKinds::Nothing, cursor)),
            (3, 1 | 3) => {}
            _ => return Err(ContainmentViolation::Program),
        }
        let arguments = Args::decode(mount::v3::Procedure(procedure), &mut cursor, &mut NullFieldObserver);
        let (path, gives) = match arguments.map_err(|_| ContainmentViolation::Unreadable)? {
            Args::MNT(args) => (args.dirpath.0, ReplyIdentifierKinds::Filehandles),
            Args::UMNT(args) => (args.dirpath.0, ReplyIdentifierKinds::Nothing),
            Args::NULL(_) | Args::DUMP(_) | Args::UMNTALL(_) | Args::EXPORT(_) => {
                return Err(ContainmentViolation::Program);
            }
        };
        // The server resolves symbolic links in a path.
        match self.mounts.iter().any(|mount| **mount == *path) {
            true => Ok((gives, cursor)),
            false => Err(ContainmentViolation::Upward),
        }
    }

    /// Records the filehandle in a MOUNT Reply.
    pub(super) fn record_mount_reply(&mut self, procedure: u32, mut reply: Cursor<'_>) {
        let procedure = mount::v3::Procedure(procedure);
        if let Ok(mount::v3::Results::MNT(StatusUnion::Ok(ok))) =
            mount::v3::Results::decode(procedure, &mut reply, &mut NullFieldObserver)
        {
            self.issued_identifiers.handle(ok.fhandle.0, FilehandleContainmentZone::TreeRoot);
        }
    }

    /// Records the filehandles in an NFSv3 Reply.
    pub(super) fn record_nfs3_reply(&mut self, procedure: u32, mut sent: Cursor<'_>, mut reply: Cursor<'_>) {
        let procedure = v3::Procedure(procedure);
        let Ok(asked) = Args::decode(procedure, &mut sent, &mut NullFieldObserver) else { return };
        let Ok(answered) = Results::decode(procedure, &mut reply, &mut NullFieldObserver) else { return };
        match (&asked, &answered) {
            (Args::LOOKUP(args), Results::LOOKUP(StatusUnion::Ok(ok))) => {
                let of = self.zone_of_handle(args.what.dir.0);
                if let Ok(standing) = of.and_then(|of| self.zone_of_lookup(of, args.what.name.0)) {
                    self.issued_identifiers.handle(ok.object.0, standing);
                }
            }
            (Args::CREATE(args), Results::CREATE(outcome)) => {
                self.record_created_handle(&args.r#where, outcome)
            }
            (Args::MKDIR(args), Results::MKDIR(outcome)) => {
                self.record_created_handle(&args.r#where, outcome)
            }
            (Args::SYMLINK(args), Results::SYMLINK(outcome)) => {
                self.record_created_handle(&args.r#where, outcome)
            }
            (Args::MKNOD(args), Results::MKNOD(outcome)) => {
                self.record_created_handle(&args.r#where, outcome)
            }
            (Args::READDIRPLUS(args), Results::READDIRPLUS(StatusUnion::Ok(ok))) => {
                let Ok(directory) = self.zone_of_handle(args.dir.0) else { return };
                for entry in ok.reply.entries.iter() {
                    let standing = self.child(directory, entry.name.0);
                    if let (Some(handle), Ok(standing)) = (&entry.name_handle, standing) {
                        self.issued_identifiers.handle(handle.0, standing);
                    }
                }
            }
            _ => {}
        }
    }

    fn record_created_handle<F>(
        &mut self,
        at: &Diropargs3<'_>,
        outcome: &StatusUnion<Nfsstat3, Create3Resok<'_>, F>,
    ) {
        let handle = match outcome {
            StatusUnion::Ok(Create3Resok { obj: Some(handle), .. }) => handle.0,
            _ => return,
        };
        if let Ok(standing) = self.entry(at) {
            self.issued_identifiers.handle(handle, standing);
        }
    }
}
