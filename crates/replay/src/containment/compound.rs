//! Checks of COMPOUND operations, with the current and the saved filehandle. RFC 8881 section 16.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, Attributes, Bitmap4, Clientid4, CopyRes, Createhow4, Createtype4, Fattr4,
    FlexFilesLayoutreturn4, GetDirDelegation4ResNonFatal, LayoutgetRes, Layoutreturn4, LayoutreturnByLayoutType,
    Layoutupdate4, LockRes, Locker4, Netaddr4, NfsFtype4, Nfsstat4, OpenClaim4, OpenDelegation4, Openflag4, Results,
    SecinfoStyle4, SetclientidRes, Stateid4, WriteResponse4,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion};
use nfsrdma_dissectors::rpc::universal_address;
use nfsrdma_dissectors::xdr::{Cursor, StructuredOpaque};

use super::issued_identifiers::{ContainmentCheckedIdentifierKind, FilehandleLocationInExport};
use super::{Containment, ContainmentViolation, ReplyIdentifierKinds, check_plain_name};
use crate::trace::run_dependent_field_visitor::SubstitutableFieldVisitor;
use crate::trace::step::TraceSlotValueKind;

/// The object of the current or saved filehandle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompoundFilehandleContainment {
    /// A directory above the export, after lookup of this number of components of its path.
    ExportPath(usize),
    /// An object in a known zone.
    Zone(FilehandleLocationInExport),
}

#[derive(Clone, Copy, Debug, Default)]
struct CompoundRunDirectoryCheck {
    current: Option<CompoundFilehandleContainment>,
    saved: Option<CompoundFilehandleContainment>,
    reply_identifiers: ReplyIdentifierKinds,
}

impl CompoundRunDirectoryCheck {
    /// Checks that the current filehandle is not outside the run's directory. Without one the server refuses the
    /// operation.
    fn check_current(&self) -> Result<(), ContainmentViolation> {
        match self.current {
            None
            | Some(CompoundFilehandleContainment::Zone(
                FilehandleLocationInExport::ServerRunDirectory
                | FilehandleLocationInExport::TreeRoot
                | FilehandleLocationInExport::InTree
                | FilehandleLocationInExport::BelowTreeRoot,
            )) => Ok(()),
            Some(
                CompoundFilehandleContainment::ExportPath(_)
                | CompoundFilehandleContainment::Zone(FilehandleLocationInExport::Export),
            ) => Err(ContainmentViolation::Upward),
        }
    }

    fn check_current_and_saved(&self) -> Result<(), ContainmentViolation> {
        self.check_current()?;
        Self { current: self.saved, ..*self }.check_current()
    }
}

impl Containment {
    /// Checks the arguments of COMPOUND. Returns a cursor at their end.
    pub(super) fn compound<'a>(
        &self,
        mut cursor: Cursor<'a>,
    ) -> Result<(ReplyIdentifierKinds, Cursor<'a>), ContainmentViolation> {
        let call = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver)
            .map_err(|_| ContainmentViolation::Unreadable)?;
        let mut state = CompoundRunDirectoryCheck::default();
        let mut operations = call.operations();
        for operation in operations.by_ref() {
            self.operation(&mut state, &operation.map_err(|_| ContainmentViolation::Unreadable)?)?;
        }
        Ok((state.reply_identifiers, operations.cursor().ok_or(ContainmentViolation::Unreadable)?))
    }

    /// Checks an operation, and updates the current and the saved filehandle.
    fn operation(
        &self,
        state: &mut CompoundRunDirectoryCheck,
        operation: &Args<'_>,
    ) -> Result<(), ContainmentViolation> {
        state.reply_identifiers = state.reply_identifiers.max(reply_identifiers(operation));
        match operation {
            // Filehandles.
            Args::PUTFH(args) => {
                let zone = self.zone_of_handle(args.object.0)?;
                state.current = Some(CompoundFilehandleContainment::Zone(zone));
            }
            Args::PUTROOTFH(_) if self.export_path.is_some() => {
                state.current = Some(CompoundFilehandleContainment::ExportPath(0))
            }
            // The run sends PUTFH of its own root.
            Args::PUTROOTFH(_) | Args::PUTPUBFH(_) if self.is_of_plan => {
                state.current = Some(CompoundFilehandleContainment::Zone(FilehandleLocationInExport::TreeRoot));
            }
            Args::PUTROOTFH(_) | Args::PUTPUBFH(_) => return Err(ContainmentViolation::Upward),
            Args::GETFH(_) => {}
            Args::SAVEFH(_) => state.saved = state.current,
            Args::RESTOREFH(_) => state.current = state.saved,
            Args::LOOKUP(args) => state.current = self.lookup(state.current, args.objname.0)?,
            Args::LOOKUPP(_) => state.current = self.lookup(state.current, b"..")?,
            Args::OPENATTR(_) => {
                state.check_current()?;
                state.current =
                    state.current.map(|_| CompoundFilehandleContainment::Zone(FilehandleLocationInExport::InTree));
            }
            Args::SECINFO(args) => {
                state.check_current()?;
                check_plain_name(args.name.0)?;
            }
            Args::SECINFO_NO_NAME(args) if args.style == SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH => {
                state.check_current()?
            }
            Args::SECINFO_NO_NAME(_) => drop(self.lookup(state.current, b"..")?),

            // Names.
            Args::CREATE(args) => {
                self.attributes(&args.createattrs)?;
                let is_directory = matches!(args.objtype, Createtype4::Other(NfsFtype4::NF4DIR));
                match state.current {
                    Some(CompoundFilehandleContainment::Zone(FilehandleLocationInExport::Export)) if !is_directory => {
                        return Err(ContainmentViolation::Upward);
                    }
                    Some(CompoundFilehandleContainment::ExportPath(_)) => {
                        return Err(ContainmentViolation::Upward);
                    }
                    _ => state.current = self.resolve_child(state.current, args.objname.0)?,
                }
            }
            Args::REMOVE(args) => {
                check_plain_name(args.target.0)?;
                match state.current {
                    Some(CompoundFilehandleContainment::Zone(zone))
                        if self.is_removable_run_directory(zone, args.target.0) => {}
                    _ => state.check_current()?,
                }
            }
            Args::RENAME(args) => {
                state.check_current_and_saved()?;
                check_plain_name(args.oldname.0)?;
                check_plain_name(args.newname.0)?;
            }
            Args::LINK(args) => {
                state.check_current_and_saved()?;
                check_plain_name(args.newname.0)?;
            }
            Args::OPEN(args) => {
                state.check_current()?;
                self.clientid_or_none(args.owner.clientid)?;
                match &args.openhow {
                    Openflag4::Create(Createhow4::Unchecked(given) | Createhow4::Guarded(given)) => {
                        self.attributes(given)?;
                    }
                    Openflag4::Create(Createhow4::Exclusive41(exclusive)) => self.attributes(&exclusive.cva_attrs)?,
                    Openflag4::Create(Createhow4::Exclusive(_)) | Openflag4::NoCreate(_) => {}
                }
                match &args.claim {
                    OpenClaim4::Null(name) | OpenClaim4::DelegatePrev(name) => {
                        state.current = self.resolve_child(state.current, name.0)?;
                    }
                    OpenClaim4::DelegateCur(claim) => {
                        self.stateid(&claim.delegate_stateid)?;
                        state.current = self.resolve_child(state.current, claim.file.0)?;
                    }
                    OpenClaim4::DelegCurFh(stateid) => self.stateid(stateid)?,
                    OpenClaim4::Previous(_) | OpenClaim4::Fh | OpenClaim4::DelegPrevFh => {}
                }
            }

            // Operations with only the current filehandle.
            Args::ACCESS(_)
            | Args::COMMIT(_)
            | Args::READLINK(_)
            | Args::GETXATTR(_)
            | Args::SETXATTR(_)
            | Args::LISTXATTRS(_)
            | Args::REMOVEXATTR(_)
            | Args::READDIR(_)
            | Args::WANT_DELEGATION(_)
            | Args::GET_DIR_DELEGATION(_)
            | Args::GETDEVICELIST(_) => state.check_current()?,
            Args::GETATTR(_) => match state.current {
                Some(CompoundFilehandleContainment::Zone(FilehandleLocationInExport::Export)) => {}
                _ => state.check_current()?,
            },
            Args::NVERIFY(args) | Args::VERIFY(args) => {
                state.check_current()?;
                self.attributes(&args.obj_attributes)?;
            }

            // Stateids.
            Args::SETATTR(args) => {
                state.check_current()?;
                self.attributes(&args.obj_attributes)?;
                self.stateid(&args.stateid)?;
            }
            Args::READ(args) => self.check_stateid_use(state, &args.stateid)?,
            Args::WRITE(args) => self.check_stateid_use(state, &args.stateid)?,
            Args::READ_PLUS(args) => self.check_stateid_use(state, &args.rpa_stateid)?,
            Args::SEEK(args) => self.check_stateid_use(state, &args.sa_stateid)?,
            Args::ALLOCATE(args) => self.check_stateid_use(state, &args.aa_stateid)?,
            Args::DEALLOCATE(args) => self.check_stateid_use(state, &args.da_stateid)?,
            Args::IO_ADVISE(args) => self.check_stateid_use(state, &args.iaa_stateid)?,
            Args::WRITE_SAME(args) => self.check_stateid_use(state, &args.wsa_stateid)?,
            Args::CLOSE(args) => self.check_stateid_use(state, &args.open_stateid)?,
            Args::OPEN_CONFIRM(args) => self.check_stateid_use(state, &args.open_stateid)?,
            Args::OPEN_DOWNGRADE(args) => self.check_stateid_use(state, &args.open_stateid)?,
            Args::DELEGRETURN(args) => self.check_stateid_use(state, &args.deleg_stateid)?,
            Args::LOCKU(args) => self.check_stateid_use(state, &args.lock_stateid)?,
            Args::LOCK(args) => {
                state.check_current()?;
                match &args.locker {
                    Locker4::New(new_owner) => {
                        self.stateid(&new_owner.open_stateid)?;
                        self.clientid_or_none(new_owner.lock_owner.clientid)?;
                    }
                    Locker4::Existing(existing) => self.stateid(&existing.lock_stateid)?,
                }
            }
            Args::LOCKT(args) => {
                state.check_current()?;
                self.clientid_or_none(args.owner.clientid)?;
            }
            Args::RELEASE_LOCKOWNER(args) => self.clientid(args.lock_owner.clientid)?,
            Args::FREE_STATEID(args) => self.stateid(&args.fsa_stateid)?,
            Args::TEST_STATEID(args) => {
                for stateid in args.ts_stateids.iter() {
                    self.stateid(&stateid)?;
                }
            }
            Args::OFFLOAD_CANCEL(args) => self.check_stateid_use(state, &args.oca_stateid)?,
            Args::OFFLOAD_STATUS(args) => self.check_stateid_use(state, &args.osa_stateid)?,
            Args::CLONE(args) => {
                state.check_current_and_saved()?;
                self.stateid(&args.cl_src_stateid)?;
                self.stateid(&args.cl_dst_stateid)?;
            }
            Args::COPY(args) => {
                if !args.ca_source_server.is_empty() {
                    return Err(ContainmentViolation::Server);
                }
                state.check_current_and_saved()?;
                self.stateid(&args.ca_src_stateid)?;
                self.stateid(&args.ca_dst_stateid)?;
            }
            // It allows another server to read a file.
            Args::COPY_NOTIFY(_) => return Err(ContainmentViolation::Server),

            // Clients and sessions.
            Args::SEQUENCE(args) => self.check_issued(ContainmentCheckedIdentifierKind::Session, &args.sa_sessionid)?,
            Args::BIND_CONN_TO_SESSION(args) => {
                self.check_issued(ContainmentCheckedIdentifierKind::Session, &args.bctsa_sessid)?
            }
            Args::DESTROY_SESSION(args) => {
                self.check_issued(ContainmentCheckedIdentifierKind::Session, &args.dsa_sessionid)?
            }
            Args::EXCHANGE_ID(args) => self.check_client_name(args.eia_clientowner.co_ownerid.0)?,
            Args::SETCLIENTID(args) => {
                self.check_client_name(args.client.id.0)?;
                self.callback(&args.callback.cb_location)?;
            }
            Args::SETCLIENTID_CONFIRM(args) => self.clientid(args.clientid)?,
            Args::CREATE_SESSION(args) => self.clientid(args.csa_clientid)?,
            Args::DESTROY_CLIENTID(args) => self.clientid(args.dca_clientid)?,
            Args::RENEW(args) => self.clientid(args.clientid)?,
            Args::DELEGPURGE(args) => self.clientid_or_none(args.clientid)?,
            // These apply to the client of the session.
            Args::BACKCHANNEL_CTL(_) | Args::RECLAIM_COMPLETE(_) | Args::SET_SSV(_) => {}

            // Layouts.
            Args::LAYOUTGET(args) => self.check_stateid_use(state, &args.loga_stateid)?,
            Args::GETDEVICEINFO(args) => {
                self.check_issued(ContainmentCheckedIdentifierKind::Device, &args.gdia_device_id)?
            }
            Args::LAYOUTCOMMIT(args) => {
                self.check_stateid_use(state, &args.loca_stateid)?;
                self.layout_update(&args.loca_layoutupdate)?;
            }
            Args::LAYOUTRETURN(args) => {
                state.check_current()?;
                self.layout_return(&args.lora_by_type)?;
            }
            Args::LAYOUTERROR(args) => {
                self.check_stateid_use(state, &args.lea_stateid)?;
                for error in args.lea_errors.iter() {
                    self.check_issued(ContainmentCheckedIdentifierKind::Device, &error.de_deviceid)?;
                }
            }
            Args::LAYOUTSTATS(args) => {
                self.check_stateid_use(state, &args.lsa_stateid)?;
                self.check_issued(ContainmentCheckedIdentifierKind::Device, &args.lsa_deviceid)?;
                self.layout_update(&args.lsa_layoutupdate)?;
            }
            Args::ILLEGAL(_) => return Err(ContainmentViolation::Unreadable),
        }
        Ok(())
    }

    /// Returns the object of a name that is looked up, including ".." and the components of the export path.
    fn lookup(
        &self,
        from: Option<CompoundFilehandleContainment>,
        name: &[u8],
    ) -> Result<Option<CompoundFilehandleContainment>, ContainmentViolation> {
        Ok(match from {
            None => {
                if name != b".." {
                    check_plain_name(name)?;
                }
                None
            }
            Some(CompoundFilehandleContainment::Zone(zone)) => {
                Some(CompoundFilehandleContainment::Zone(self.zone_of_lookup(zone, name)?))
            }
            Some(CompoundFilehandleContainment::ExportPath(at)) => {
                let component = self.export_path.as_ref().and_then(|path| path.get(at));
                match component.is_some_and(|next| **next == *name) {
                    true => check_plain_name(name).map(|()| Some(CompoundFilehandleContainment::ExportPath(at + 1)))?,
                    // The export path is complete: the name is looked up in the export.
                    false => Some(CompoundFilehandleContainment::Zone(self.child(self.zone_at_path_end(at)?, name)?)),
                }
            }
        })
    }

    /// Returns the export if all components of its path were looked up, otherwise an error.
    fn zone_at_path_end(&self, at: usize) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        match self.export_path.as_ref().is_some_and(|path| path.len() == at) {
            true => Ok(FilehandleLocationInExport::Export),
            false => Err(ContainmentViolation::Upward),
        }
    }

    /// Returns the object of a plain name in the current directory.
    fn resolve_child(
        &self,
        from: Option<CompoundFilehandleContainment>,
        name: &[u8],
    ) -> Result<Option<CompoundFilehandleContainment>, ContainmentViolation> {
        match from {
            Some(CompoundFilehandleContainment::Zone(zone)) => {
                Ok(Some(CompoundFilehandleContainment::Zone(self.child(zone, name)?)))
            }
            Some(CompoundFilehandleContainment::ExportPath(_)) => Err(ContainmentViolation::Upward),
            None => check_plain_name(name).map(|()| None),
        }
    }

    /// Checks a stateid that is used with the current filehandle.
    fn check_stateid_use(
        &self,
        state: &CompoundRunDirectoryCheck,
        stateid: &Stateid4,
    ) -> Result<(), ContainmentViolation> {
        state.check_current()?;
        self.stateid(stateid)
    }

    /// Checks that a stateid was issued by the server or is a special one. RFC 8881 section 8.2.3.
    fn stateid(&self, stateid: &Stateid4) -> Result<(), ContainmentViolation> {
        match stateid.other {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            | [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Ok(()),
            other => self.check_issued(ContainmentCheckedIdentifierKind::Stateid, &other),
        }
    }

    fn clientid(&self, clientid: Clientid4) -> Result<(), ContainmentViolation> {
        self.check_issued(ContainmentCheckedIdentifierKind::Clientid, &clientid.to_be_bytes())
    }

    /// In NFSv4.1 and later the session identifies the client, and the clientid should be 0. RFC 8881 section 18.16.3.
    fn clientid_or_none(&self, clientid: Clientid4) -> Result<(), ContainmentViolation> {
        if clientid == 0 { Ok(()) } else { self.clientid(clientid) }
    }

    /// Checks the callback address of an NFSv4.0 client: an address of the run, or none. RFC 7530 section 16.33.
    fn callback(&self, netaddr: &Netaddr4<'_>) -> Result<(), ContainmentViolation> {
        let text = netaddr.na_r_addr.0.0;
        let is_own = match universal_address::parse(text) {
            Some(address) => address.ip().is_unspecified() && address.port() == 0 || self.callbacks.contains(&address),
            None => text.is_empty(),
        };
        if is_own || self.is_of_plan { Ok(()) } else { Err(ContainmentViolation::Server) }
    }

    /// Checks attributes that are set or compared: none may name another object or another server.
    fn attributes(&self, attributes: &Fattr4<'_>) -> Result<(), ContainmentViolation> {
        let mut items = attributes.items();
        for item in items.by_ref() {
            match item.map_err(|_| ContainmentViolation::Unreadable)? {
                Attribute::FILEHANDLE(handle) => drop(self.check_object(handle.0)?),
                Attribute::FS_LOCATIONS(_) | Attribute::FS_LOCATIONS_INFO(_) => {
                    return Err(ContainmentViolation::Server);
                }
                Attribute::LAYOUT_HINT(_) => return Err(ContainmentViolation::Layout),
                _ => {}
            }
        }
        if items.rest().is_empty() { Ok(()) } else { Err(ContainmentViolation::Unreadable) }
    }

    fn layout_update(&self, update: &Layoutupdate4<'_>) -> Result<(), ContainmentViolation> {
        match update {
            Layoutupdate4::Other(_, body) if body.0.is_empty() => Ok(()),
            Layoutupdate4::FlexFiles(StructuredOpaque::Unread(body)) if body.0.is_empty() => Ok(()),
            _ => Err(ContainmentViolation::Layout),
        }
    }

    fn layout_return(&self, by_type: &LayoutreturnByLayoutType<'_>) -> Result<(), ContainmentViolation> {
        match by_type {
            LayoutreturnByLayoutType::Other(_, layout) => match &layout.lora_layoutreturn {
                Layoutreturn4::File(file) if file.lrf_body.0.is_empty() => self.stateid(&file.lrf_stateid),
                Layoutreturn4::File(_) => Err(ContainmentViolation::Layout),
                Layoutreturn4::Other(_) => Ok(()),
            },
            LayoutreturnByLayoutType::FlexFiles(layout) => match &layout.lora_layoutreturn {
                FlexFilesLayoutreturn4::File(file) => {
                    let is_empty = match &file.lrf_body {
                        StructuredOpaque::Known(body) => {
                            body.fflr_ioerr_report.is_empty() && body.fflr_iostats_report.is_empty()
                        }
                        StructuredOpaque::Unread(body) => body.0.is_empty(),
                    };
                    self.stateid(&file.lrf_stateid)?;
                    if is_empty { Ok(()) } else { Err(ContainmentViolation::Layout) }
                }
                FlexFilesLayoutreturn4::Other(_) => Ok(()),
            },
            LayoutreturnByLayoutType::Objects(_) => Err(ContainmentViolation::Layout),
        }
    }

    pub(super) fn record_compound_reply(&mut self, mut sent: Cursor<'_>, mut reply: Cursor<'_>) {
        let results = reply;
        let Ok(call) = v4::CompoundCall::decode(&mut sent, &mut NullFieldObserver) else { return };
        let Ok(reply) = v4::CompoundReply::decode(&mut reply, &mut NullFieldObserver) else { return };
        let mut state = CompoundRunDirectoryCheck::default();
        let pairs = call.operations().map_while(Result::ok).zip(reply.operations().map_while(Result::ok));
        for (args, result) in pairs {
            let is_done = result.status() == Nfsstat4::NFS4_OK;
            if !is_done || self.operation(&mut state, &args).is_err() {
                return;
            }
            if matches!(args, Args::LAYOUTGET(_) | Args::GETDEVICELIST(_)) {
                self.record_devices(results);
            }
            self.record_results(&state, &result);
        }
    }

    fn record_results(&mut self, state: &CompoundRunDirectoryCheck, result: &Results<'_>) {
        let current = match state.current {
            Some(CompoundFilehandleContainment::Zone(zone)) => Some(zone),
            Some(CompoundFilehandleContainment::ExportPath(at)) => self.zone_at_path_end(at).ok(),
            None => None,
        };
        let issued = &mut self.issued_identifiers;
        let mut stateid = |stateid: &Stateid4| issued.add(ContainmentCheckedIdentifierKind::Stateid, &stateid.other);
        match result {
            Results::GETFH(StatusUnion::Ok(ok)) => {
                if let Some(zone) = current {
                    issued.handle(ok.object.0, zone);
                }
            }
            Results::GETATTR(StatusUnion::Ok(ok)) => {
                if let (Some(zone), Some(handle)) = (current, filehandle_attribute(&ok.obj_attributes)) {
                    issued.handle(handle, zone);
                }
            }
            Results::READDIR(StatusUnion::Ok(ok)) => {
                let Some(directory) = current else { return };
                for entry in ok.reply.entries.iter() {
                    if let (Ok(zone), Some(handle)) =
                        (self.child(directory, entry.name.0), filehandle_attribute(&entry.attrs))
                    {
                        self.issued_identifiers.handle(handle, zone);
                    }
                }
            }
            Results::OPEN(StatusUnion::Ok(ok)) => {
                stateid(&ok.stateid);
                delegation_stateid(&ok.delegation).into_iter().for_each(stateid);
            }
            Results::WANT_DELEGATION(StatusUnion::Ok(ok)) => {
                delegation_stateid(&ok.wdr_resok4).into_iter().for_each(stateid);
            }
            Results::GET_DIR_DELEGATION(StatusUnion::Ok(delegated)) => {
                if let GetDirDelegation4ResNonFatal::Ok(ok) = &**delegated {
                    stateid(&ok.gddr_stateid);
                }
            }
            Results::OPEN_CONFIRM(StatusUnion::Ok(ok)) => stateid(&ok.open_stateid),
            Results::OPEN_DOWNGRADE(StatusUnion::Ok(ok)) => stateid(&ok.open_stateid),
            Results::LOCKU(StatusUnion::Ok(ok)) => stateid(&ok.lock_stateid),
            Results::LOCK(LockRes::Ok(ok)) => stateid(&ok.lock_stateid),
            Results::COPY(CopyRes::Ok(ok)) => async_stateid(&ok.cr_response).iter().for_each(stateid),
            Results::WRITE_SAME(StatusUnion::Ok(ok)) => async_stateid(ok).iter().for_each(stateid),
            Results::LAYOUTGET(LayoutgetRes::Ok(ok)) => stateid(&ok.logr_stateid),
            Results::EXCHANGE_ID(StatusUnion::Ok(ok)) => {
                issued.add(ContainmentCheckedIdentifierKind::Clientid, &ok.eir_clientid.to_be_bytes());
            }
            Results::SETCLIENTID(SetclientidRes::Ok(ok)) => {
                issued.add(ContainmentCheckedIdentifierKind::Clientid, &ok.clientid.to_be_bytes());
            }
            Results::CREATE_SESSION(StatusUnion::Ok(ok)) => {
                issued.add(ContainmentCheckedIdentifierKind::Session, &ok.csr_sessionid)
            }
            _ => {}
        }
    }

    /// Records the device IDs anywhere in the results of a COMPOUND: their place depends on the layout type.
    fn record_devices(&mut self, mut results: Cursor<'_>) {
        let mut visitor = SubstitutableFieldVisitor::new(true);
        let message = Cursor::new(results.rest());
        results = message;
        // Fields before a decoding error remain valid.
        let _ = Procedure::Compound.results(&mut results, &mut visitor);
        self.issued_identifiers.dropped_entries += visitor.dropped_fields;
        for field in visitor.slot_fields.iter().filter(|field| field.value_kind == TraceSlotValueKind::DEVICE) {
            if let Some(device) = message.rest().get(field.range.clone()) {
                self.issued_identifiers.add(ContainmentCheckedIdentifierKind::Device, device);
            }
        }
    }
}

/// Returns the kinds of identifiers in the results of an operation.
fn reply_identifiers(operation: &Args<'_>) -> ReplyIdentifierKinds {
    match operation {
        Args::GETFH(_) => ReplyIdentifierKinds::Filehandles,
        Args::GETATTR(args) if includes_filehandle(&args.attr_request) => ReplyIdentifierKinds::Filehandles,
        Args::READDIR(args) if includes_filehandle(&args.attr_request) => ReplyIdentifierKinds::Filehandles,
        Args::OPEN(_)
        | Args::OPEN_CONFIRM(_)
        | Args::OPEN_DOWNGRADE(_)
        | Args::LOCK(_)
        // A server that returns another stateid than the one sent violates RFC 8881 section 18.12.3. It is recorded,
        // so that its use in the run reveals the fault.
        | Args::LOCKU(_)
        | Args::WANT_DELEGATION(_)
        | Args::GET_DIR_DELEGATION(_)
        | Args::COPY(_)
        | Args::WRITE_SAME(_)
        | Args::EXCHANGE_ID(_)
        | Args::SETCLIENTID(_)
        | Args::CREATE_SESSION(_)
        | Args::LAYOUTGET(_)
        | Args::GETDEVICELIST(_) => ReplyIdentifierKinds::State,
        _ => ReplyIdentifierKinds::Nothing,
    }
}

fn includes_filehandle(mask: &Bitmap4<'_>) -> bool {
    mask.contains(Attributes::FILEHANDLE)
}

fn filehandle_attribute<'a>(attributes: &Fattr4<'a>) -> Option<&'a [u8]> {
    if !includes_filehandle(&attributes.mask) {
        return None;
    }
    attributes.items().map_while(Result::ok).find_map(|item| match item {
        Attribute::FILEHANDLE(handle) => Some(handle.0),
        _ => None,
    })
}

/// Returns the stateid of a delegation, if one is granted.
fn delegation_stateid<'d>(delegation: &'d OpenDelegation4<'_>) -> Option<&'d Stateid4> {
    match delegation {
        OpenDelegation4::Read(given) | OpenDelegation4::ReadAttrs(given) => Some(&given.stateid),
        OpenDelegation4::Write(given) | OpenDelegation4::WriteAttrs(given) => Some(&given.stateid),
        OpenDelegation4::None | OpenDelegation4::NoneExt(_) => None,
    }
}

/// Returns the stateid of an asynchronous operation that continues after the Reply.
fn async_stateid(response: &WriteResponse4<'_>) -> Option<Stateid4> {
    response.wr_callback_id.iter().next()
}
