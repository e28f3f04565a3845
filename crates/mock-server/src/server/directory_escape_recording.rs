//! A server without confinement to directories: names are paths, and any filehandle resolves to an object. It records
//! accesses of Calls outside the directory of a replay, so that a test can check that there are none.

use std::cell::RefCell;
use std::collections::HashSet;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{Args, CompoundCall};
use nfsrdma_dissectors::nfs::{Procedure, mount, nlm};
use nfsrdma_dissectors::rpc::{self, Program, universal_address};
use nfsrdma_dissectors::xdr::Cursor;

use super::file_tree::{MockFileId, MockFileTree};
use super::{MockNfsError, MockServer};
use nfsrdma_replay::trace::TraceSlotValueKind;
use nfsrdma_replay::trace::live_reply_binding::field_value;
use nfsrdma_replay::trace::run_dependent_field_visitor::{SubstitutableField, SubstitutableFieldVisitor};

/// The objects and values outside the directory of a replay, and the recorded accesses to them.
#[derive(Clone, Debug, Default)]
pub(super) struct MockDirectoryEscapeRecorder {
    objects: HashSet<MockFileId>,
    /// Filehandles, stateids, clientids, sessions and client owners that do not belong to the replay.
    values: HashSet<Vec<u8>>,
    accesses: RefCell<Vec<String>>,
}

impl MockDirectoryEscapeRecorder {
    /// Records an access to an object, if it is outside.
    pub(super) fn record_object(&self, id: MockFileId) {
        if self.objects.contains(&id) {
            self.record_access(format!("object {id}"));
        }
    }

    fn record_access(&self, description: String) {
        self.accesses.borrow_mut().push(description);
    }

    /// Searches a Call for foreign values, with the decoders that mark identifiers, and for operations that affect
    /// other clients regardless of values.
    pub(super) fn check_call(&self, message: &[u8], call: &rpc::CallBody<'_>, arguments: Cursor<'_>) {
        let mut visitor = SubstitutableFieldVisitor::new(false);
        if let Some(procedure) = Procedure::from_numbers(call.prog, call.vers, call.proc) {
            // Operations before one that cannot be decoded are executed.
            let _ = procedure.arguments(&mut arguments.clone(), &mut visitor);
        }
        // Cookies and times may match by chance.
        let identifies_object = |field: &&SubstitutableField| {
            let kinds = [
                TraceSlotValueKind::FILEHANDLE,
                TraceSlotValueKind::STATEID,
                TraceSlotValueKind::CLIENTID,
                TraceSlotValueKind::SESSION,
                TraceSlotValueKind::CLIENT_OWNER,
            ];
            kinds.contains(&field.holds)
        };
        for field in visitor.slot_fields.iter().filter(identifies_object) {
            let value = field_value(message, field).unwrap_or_default();
            if self.values.contains(value) {
                self.record_access(format!("{:?} {value:x?}", field.holds));
            }
        }
        match (call.prog, call.proc) {
            (Program::MOUNT, procedure) if procedure == mount::v3::Procedure::UMNTALL.0 => {
                self.record_access("UMNTALL".into());
            }
            (Program::NLM, procedure) if procedure == nlm::v4::Procedure::FREE_ALL.0 => {
                self.record_access("FREE_ALL".into());
            }
            (Program::NSM, _) => self.record_access("NSM".into()),
            (Program::NFS, 1) if call.vers == 4 => self.check_server_addresses(arguments),
            _ => {}
        }
    }

    fn check_server_addresses(&self, mut arguments: Cursor<'_>) {
        let Ok(compound) = CompoundCall::decode(&mut arguments, &mut NullFieldObserver) else { return };
        for operation in compound.operations().map_while(Result::ok) {
            match operation {
                Args::COPY(args) if !args.ca_source_server.is_empty() => self.record_access("COPY".into()),
                Args::COPY_NOTIFY(_) => self.record_access("COPY_NOTIFY".into()),
                Args::SETCLIENTID(args) => {
                    let address = universal_address::parse(args.callback.cb_location.na_r_addr.0.0);
                    if address.is_some_and(|address| address.port() != 0) {
                        self.record_access("a callback address".into());
                    }
                }
                _ => {}
            }
        }
    }
}

impl MockServer {
    /// Makes names paths, including absolute ones and those with `..`, makes unknown filehandles represent the root,
    /// and records accesses outside the directory with this name in the root, and uses of `values`.
    ///
    /// # Errors
    /// Returns an error if there is no such directory.
    pub fn disable_confinement(
        &mut self,
        directory: &[u8],
        values: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), MockNfsError> {
        let home = self.tree.lookup(MockFileTree::ROOT, directory)?;
        let objects = self.tree.objects_outside(home);
        let values = values.into_iter().collect();
        self.tree.outside =
            Some(MockDirectoryEscapeRecorder { objects, values, accesses: RefCell::default() });
        Ok(())
    }

    /// Returns the recorded accesses outside the directory.
    pub fn outside_accesses(&self) -> Vec<String> {
        self.tree.outside.as_ref().map(|outside| outside.accesses.borrow().clone()).unwrap_or_default()
    }
}

impl MockFileTree {
    /// Returns the object of a filehandle. Without confinement, an unknown filehandle is the root.
    pub(super) fn object(&self, handle: &[u8]) -> Result<MockFileId, MockNfsError> {
        let id = handle.strip_prefix(b"loopback").and_then(|rest| rest.try_into().ok());
        let id = id.map(u64::from_be_bytes);
        match &self.outside {
            None => id.ok_or(MockNfsError::BADHANDLE),
            Some(outside) => {
                let id = id.unwrap_or(Self::ROOT);
                outside.record_object(id);
                Ok(id)
            }
        }
    }

    /// Resolves a name to its directory and last component. Names with several components are resolved only without
    /// confinement.
    pub(super) fn resolve<'n>(
        &self,
        directory: MockFileId,
        name: &'n [u8],
    ) -> Result<(MockFileId, &'n [u8]), MockNfsError> {
        let Some(outside) = &self.outside else { return Ok((directory, name)) };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut at = if name.first() == Some(&b'/') { Self::ROOT } else { directory };
        let mut names = name.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let last = names.next_back().unwrap_or(b".");
        outside.record_object(at);
        for name in names {
            at = self.step(at, name)?;
            outside.record_object(at);
        }
        if let Ok(id) = self.step(at, last) {
            outside.record_object(id);
        }
        Ok((at, last))
    }

    fn step(&self, directory: MockFileId, name: &[u8]) -> Result<MockFileId, MockNfsError> {
        let names = self.directory(directory)?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(self.node(directory)?.parent),
            _ => names.get(name).ok_or(MockNfsError::NOENT),
        }
    }
}
