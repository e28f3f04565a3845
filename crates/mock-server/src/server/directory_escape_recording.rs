//! A server without confinement to directories: names are paths, and any filehandle resolves to an object. It records
//! accesses of Calls outside the directory of a replay, so that a test can check that there are none.

use std::cell::RefCell;
use std::collections::HashSet;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{Args, CompoundCall};
use nfsrdma_dissectors::nfs::{Procedure, mount, nlm};
use nfsrdma_dissectors::rpc::{self, Program, universal_address};
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_replay::trace::TraceSlotValueKind;
use nfsrdma_replay::trace::live_reply_binding::field_value;
use nfsrdma_replay::trace::run_dependent_field_visitor::{LocatedSubstitutableField, SubstitutableFieldVisitor};

use super::filehandle::MockFileId;

/// The objects and values outside the directory of a replay, and the recorded accesses to them.
#[derive(Clone, Debug, Default)]
pub(super) struct MockDirectoryEscapeRecorder {
    objects: HashSet<MockFileId>,
    /// Filehandles, stateids, clientids, sessions and client owners that do not belong to the replay.
    values: HashSet<Vec<u8>>,
    accesses: RefCell<Vec<String>>,
}

impl MockDirectoryEscapeRecorder {
    /// Creates a recorder of accesses to these objects, and of uses of these values.
    pub(super) fn new(objects: HashSet<MockFileId>, values: HashSet<Vec<u8>>) -> Self {
        Self { objects, values, accesses: RefCell::default() }
    }

    /// Returns the recorded accesses.
    pub(super) fn accesses(&self) -> Vec<String> {
        self.accesses.borrow().clone()
    }

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
        let identifies_object = |field: &&LocatedSubstitutableField| {
            let kinds = [
                TraceSlotValueKind::FILEHANDLE,
                TraceSlotValueKind::STATEID,
                TraceSlotValueKind::CLIENTID,
                TraceSlotValueKind::SESSION,
                TraceSlotValueKind::CLIENT_OWNER,
            ];
            kinds.contains(&field.value_kind)
        };
        for field in visitor.slot_fields.iter().filter(identifies_object) {
            let value = field_value(message, field).unwrap_or_default();
            if self.values.contains(value) {
                self.record_access(format!("{:?} {value:x?}", field.value_kind));
            }
        }
        match (call.prog, call.proc) {
            (Program::MOUNT, procedure) if procedure == mount::v3::ProcedureNumber::UMNTALL.0 => {
                self.record_access("UMNTALL".into());
            }
            (Program::NLM, procedure) if procedure == nlm::v4::ProcedureNumber::FREE_ALL.0 => {
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
