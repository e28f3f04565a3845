//! The containment of a run: the only check that every Call passes before it is sent.
//!
//! A trace is hostile input, and so is a Reply. [`Containment::check_call`] decodes the finished Call, after
//! substitution and as the server will, and is the only constructor of [`ContainmentCheckedCall`] that takes a message.
//! [`ContainmentCheckedTransport`] and [`ContainmentCheckedRpcClient`] send nothing else. The other constructor,
//! [`ContainmentCheckedCall::control`], takes a [`GssControlCall`], which only a security context of the run can
//! create. A Call passes if it can be decoded to its end, and
//!
//! - the server has issued each filehandle, stateid, clientid, session and device in it to this run;
//! - each name is a plain component, and no operation leads above the trees of the run;
//! - it names no other server, no other client, and no path except those that were created for MOUNT.
//!
//! [`Containment::record_reply`] collects the issued identifiers from Replies and their Calls, not from the slots of
//! the trace, which may point anywhere.
//!
//! - [`compound`]: COMPOUND of NFSv4; [`procedures`]: NFSv3 and the auxiliary programs;
//! - [`issued_identifiers`]: identifiers that the server has issued.

mod compound;
mod issued_identifiers;
mod procedures;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::gss::{GssIntegrityChecksum, GssProc, IntegrityBody, RpcGssService};
use nfsrdma_dissectors::rpc::{self, Program, Verifier, Xid};
use nfsrdma_dissectors::xdr::{self, ChunkedDataItem, Cursor, Encoder};
use nfsrdma_rpc::gss::GssControlCall;
use nfsrdma_rpc::synchronous_client::{OutgoingCallCheck, RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::{
    CallTag, ConnectTarget, NegotiatedTransportParams, OutgoingRpcCall, RpcClientConnectionId, RpcClientTransport,
    RpcClientTransportError, RpcClientTransportEvent, SubmitError, SubmittedCallForm, TransportCredits,
};

use super::seed::SeededTree;
use super::trace::step::TraceStep;
use crate::root_credential;
use issued_identifiers::{ContainmentCheckedIdentifierKind, PermittedServerIdentifiers};

pub use issued_identifiers::FilehandleLocationInExport;

coded_reasons! {
    /// The reason that a Call is not sent.
    ContainmentViolation;
    /// The Call cannot be decoded to its end.
    Unreadable => "unreadable-call", "the call cannot be decoded to its end";
    /// The program or procedure affects more than the files of a run.
    Program => "other-procedure", "the procedure affects more than the files of the run";
    /// A step up from a possible root of a tree, PUTROOTFH, or a MOUNT path that was not created for the run.
    Upward => "outside-export", "it may leave the directory of the run";
    /// A filehandle that the server has not issued.
    Filehandle => "foreign-filehandle", "the filehandle was not returned to this run";
    /// A name that is not a plain component.
    Name => "unsafe-name",
        "a name is empty, has '/' or NUL, is \".\" or \"..\", or has such a component between backslashes";
    /// A stateid, clientid, session or device that the server has not issued.
    State => "foreign-state", "the stateid, clientid, session or device was not returned to this run";
    /// The name of a client that does not belong to the run.
    Client => "foreign-client", "the client does not belong to this run";
    /// Another server, or an address at which the run does not listen.
    Server => "other-server", "it names another server, or an address on which this run does not listen";
    /// Layout data, which names devices and filehandles of other servers.
    Layout => "layout-content", "it carries layout data, which this program does not check";
}

impl fmt::Display for ContainmentViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.text())
    }
}

impl std::error::Error for ContainmentViolation {}

/// The kinds of identifiers in the Reply of a Call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplyIdentifierKinds {
    /// None: the Reply need not be decoded.
    #[default]
    Nothing,
    /// Filehandles.
    Filehandles,
    /// Stateids, clientids, sessions or devices.
    State,
}

/// A Call that passed the check.
#[derive(Clone, Copy, Debug)]
pub struct ContainmentCheckedCall<'c> {
    call: OutgoingRpcCall<'c>,
    reply_identifiers: ReplyIdentifierKinds,
}

impl<'c> ContainmentCheckedCall<'c> {
    /// Wraps a Call that sets up or destroys an RPCSEC_GSS context. It needs no check: a context of the run creates a
    /// [`GssControlCall`], which contains no bytes of a trace.
    pub fn control(control: &'c GssControlCall, tag: CallTag) -> Self {
        Self { call: control.transport_call(tag), reply_identifiers: ReplyIdentifierKinds::Nothing }
    }

    /// Returns the Call.
    pub fn call(&self) -> &OutgoingRpcCall<'c> {
        &self.call
    }

    /// Returns the kinds of identifiers that its Reply may contain.
    pub fn reply_identifiers(&self) -> ReplyIdentifierKinds {
        self.reply_identifiers
    }
}

/// The identifiers, names and paths of one run, and the check of its Calls against them.
#[derive(Clone, Debug, Default)]
pub struct Containment {
    issued_identifiers: PermittedServerIdentifiers,
    /// Components of the export path, which NFSv4 seeding looks up from PUTROOTFH. `None` if PUTROOTFH is not allowed.
    export_path: Option<Vec<Box<[u8]>>>,
    /// Name of the run's directory in the export.
    run_directory: Box<[u8]>,
    /// `true` if that directory may be removed.
    allows_run_directory_removal: bool,
    /// Names of the clients of this program.
    clients: Vec<Box<[u8]>>,
    /// Suffix of the names of the other clients of the run.
    client_name_suffix: Option<Box<[u8]>>,
    /// Paths that may be mounted.
    mounts: Vec<Box<[u8]>>,
    /// Addresses at which the run listens for Calls from the server.
    callbacks: Vec<SocketAddr>,
    /// `true` for a plan: any identifier, client and callback address of the capture is accepted as one of the run.
    is_of_plan: bool,
}

impl Containment {
    /// Creates the containment for seeding: the directory with this name in the export at the path that the user named,
    /// and everything below it.
    pub fn for_seeding(export: &str, directory: &str) -> Self {
        let components = export.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().into());
        Self { export_path: Some(components.collect()), run_directory: directory.as_bytes().into(), ..Self::default() }
    }

    /// Creates the containment for the removal of the directory of a run with its contents.
    pub fn for_removal(export: &str, directory: &str) -> Self {
        Self { allows_run_directory_removal: true, ..Self::for_seeding(export, directory) }
    }

    /// Creates the containment for the steps of a run, its prologue and its final check. The names of its clients end
    /// with `suffix`.
    pub fn for_run(seeded: &SeededTree, suffix: &str) -> Self {
        let mut containment = Self { client_name_suffix: Some(suffix.as_bytes().into()), ..Self::default() };
        for mount in &seeded.mounts {
            containment.mounts.push([seeded.path.as_bytes(), mount].concat().into());
        }
        for (variable, handle) in &seeded.handles {
            let is_below = seeded.handles_below_root.contains(variable);
            let zone = match is_below {
                true => FilehandleLocationInExport::BelowTreeRoot,
                false => FilehandleLocationInExport::InTree,
            };
            containment.issued_identifiers.handle(handle, zone);
        }
        // MOUNT resolves paths from the root of the tree, so steps must not be able to replace a component by a link
        // there.
        if seeded.mounts.iter().all(Vec::is_empty) {
            containment.issued_identifiers.handle(&seeded.root, FilehandleLocationInExport::TreeRoot);
        }
        containment
    }

    /// Creates the containment for a plan, which knows no live identifiers.
    pub fn for_plan() -> Self {
        Self { client_name_suffix: Some(Box::default()), is_of_plan: true, ..Self::default() }
    }

    /// Returns the reason that the call of a step will be refused whatever identifiers the live server returns.
    pub(crate) fn planned_violation(&self, step: &TraceStep<'_>) -> Option<ContainmentViolation> {
        let numbers = (Program(step.procedure.program), step.procedure.version, step.procedure.number);
        let items = step.call.items();
        let violation = self.arguments(numbers, step.call.body_cursor().with_chunks(&items)).err()?;
        let is_certain = matches!(
            violation,
            ContainmentViolation::Name
                | ContainmentViolation::Upward
                | ContainmentViolation::Server
                | ContainmentViolation::Layout
        );
        is_certain.then_some(violation)
    }

    /// Records the filehandle that MOUNT returned for the export.
    pub fn set_export_handle(&mut self, export: &[u8]) {
        self.issued_identifiers.handle(export, FilehandleLocationInExport::Export);
    }

    /// Allows this program to act as the client with this name.
    pub fn add_client_name(&mut self, client: &str) {
        self.clients.push(client.as_bytes().into());
    }

    /// Records an address at which the run listens for Calls from the server.
    pub fn add_callback_address(&mut self, address: SocketAddr) {
        if !self.callbacks.contains(&address) {
            self.callbacks.push(address);
        }
    }

    /// Returns the number of issued identifiers that were dropped since the last call. Calls that use them are refused.
    pub fn take_dropped_count(&mut self) -> u64 {
        std::mem::take(&mut self.issued_identifiers.dropped_entries)
    }

    /// Checks a finished Call against the identifiers recorded so far by [`record_reply`](Self::record_reply).
    ///
    /// # Errors
    /// Returns the reason that the Call must not be sent.
    pub fn check_call<'c>(
        &self,
        call: OutgoingRpcCall<'c>,
    ) -> Result<ContainmentCheckedCall<'c>, ContainmentViolation> {
        let mut items = [ChunkedDataItem::default(); OutgoingRpcCall::MAX_PAYLOADS];
        let items = items.get_mut(..call.payloads.len()).ok_or(ContainmentViolation::Unreadable)?;
        // A payload whose length differs from that in the message would shift the bytes after it.
        let mut payload_bytes = 0;
        for (item, payload) in items.iter_mut().zip(call.payloads) {
            let length = u32::try_from(payload.length()).map_err(|_| ContainmentViolation::Unreadable)?;
            let at = (payload.position as usize).checked_sub(payload_bytes).ok_or(ContainmentViolation::Unreadable)?;
            let length_word = at.checked_sub(4).and_then(|at| call.message.get(at..)?.first_chunk::<4>());
            if length_word.map(|word| u32::from_be_bytes(*word)) != Some(length) {
                return Err(ContainmentViolation::Unreadable);
            }
            payload_bytes += payload.padded();
            *item = ChunkedDataItem { position: Some(payload.position), length, bytes: None };
        }
        let reply_identifiers = self.message(Cursor::new(call.message).with_chunks(items))?;
        Ok(ContainmentCheckedCall { call, reply_identifiers })
    }

    fn message(&self, mut cursor: Cursor<'_>) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
        let unreadable = |_| ContainmentViolation::Unreadable;
        let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).map_err(unreadable)?;
        let call =
            message.call().filter(|call| call.rpcvers == rpc::VERSION).ok_or(ContainmentViolation::Unreadable)?;
        let procedure = (call.prog, call.vers, call.proc);
        let (reply_identifiers, end) = match call.cred.gss() {
            Some(gss) if gss.gss_proc != GssProc::RPCSEC_GSS_DATA => {
                return Err(ContainmentViolation::Program);
            }
            Some(gss) if gss.service == RpcGssService::rpc_gss_svc_integrity => {
                let protected = IntegrityBody::open(&mut cursor, &mut NullFieldObserver).map_err(unreadable)?;
                let (reply_identifiers, end) = self.arguments(procedure, protected.body)?;
                GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver).map_err(unreadable)?;
                if !end.is_at_end() {
                    return Err(ContainmentViolation::Unreadable);
                }
                (reply_identifiers, cursor)
            }
            Some(gss) if gss.service != RpcGssService::rpc_gss_svc_none => {
                return Err(ContainmentViolation::Unreadable);
            }
            _ => self.arguments(procedure, cursor)?,
        };
        if end.is_at_end() { Ok(reply_identifiers) } else { Err(ContainmentViolation::Unreadable) }
    }

    /// Checks the arguments of a procedure. Returns a cursor at their end.
    fn arguments<'a>(
        &self,
        (program, version, procedure): (Program, u32, u32),
        cursor: Cursor<'a>,
    ) -> Result<(ReplyIdentifierKinds, Cursor<'a>), ContainmentViolation> {
        match (program, version, procedure) {
            (Program::NFS | Program::NFSACL | Program::NLM | Program::MOUNT | Program::PORTMAP, _, 0) => {
                Ok((ReplyIdentifierKinds::Nothing, cursor))
            }
            (Program::NFS, 4, 1) => self.compound(cursor),
            (Program::NFS, 3, _) => self.check_nfs3(procedure, cursor),
            (Program::NFSACL, 3, _) => self.check_nfsacl3(procedure, cursor),
            (Program::MOUNT, _, _) => self.check_mount(version, procedure, cursor),
            (Program::NLM, 4, _) => self.check_nlm4(procedure, cursor),
            (Program::PORTMAP, _, _) => Self::check_portmap(version, procedure, cursor),
            _ => Err(ContainmentViolation::Program),
        }
    }

    /// Records the identifiers in the Reply of a Call. The cursor is at the beginning of the Reply message.
    pub fn record_reply(&mut self, call: &OutgoingRpcCall<'_>, reply: Cursor<'_>) {
        let items: Vec<ChunkedDataItem<'_>> = call
            .payloads
            .iter()
            .map(|payload| ChunkedDataItem {
                position: Some(payload.position),
                length: payload.length() as u32,
                bytes: None,
            })
            .collect();
        self.record_decoded_reply(Cursor::new(call.message).with_chunks(&items), reply);
    }

    /// As [`record_reply`](Self::record_reply), with a cursor at the beginning of the unsigned Call.
    pub fn record_decoded_reply(&mut self, mut sent: Cursor<'_>, mut reply: Cursor<'_>) {
        let call_message = rpc::RpcMsg::decode(&mut sent, &mut NullFieldObserver);
        let reply_message = rpc::RpcMsg::decode(&mut reply, &mut NullFieldObserver);
        let (Ok(call_message), Ok(reply_message)) = (call_message, reply_message) else { return };
        let is_done = reply_message.reply().is_some_and(|reply| reply.status().is_success());
        let Some(call) = call_message.call().filter(|_| is_done) else { return };
        match (call.prog, call.vers, call.proc) {
            (Program::NFS, 4, 1) => self.record_compound_reply(sent, reply),
            (Program::NFS, 3, _) => self.record_nfs3_reply(call.proc, sent, reply),
            (Program::MOUNT, 3, _) => self.record_mount_reply(call.proc, reply),
            _ => {}
        }
    }

    fn zone_of_handle(&self, handle: &[u8]) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        let assumed = self.is_of_plan.then_some(FilehandleLocationInExport::BelowTreeRoot);
        self.issued_identifiers.zone_of_handle(handle).or(assumed).ok_or(ContainmentViolation::Filehandle)
    }

    /// Returns the zone of a filehandle that is used without a lookup: it must not be the export.
    fn check_object(&self, handle: &[u8]) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        match self.zone_of_handle(handle)? {
            FilehandleLocationInExport::Export => Err(ContainmentViolation::Upward),
            zone => Ok(zone),
        }
    }

    /// Returns the zone of a name that is looked up, including "..".
    fn zone_of_lookup(
        &self,
        directory: FilehandleLocationInExport,
        name: &[u8],
    ) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        match name {
            b".." if directory == FilehandleLocationInExport::BelowTreeRoot => Ok(FilehandleLocationInExport::InTree),
            b".." => Err(ContainmentViolation::Upward),
            _ => self.child(directory, name),
        }
    }

    /// Returns the zone of a plain name in a directory.
    fn child(
        &self,
        directory: FilehandleLocationInExport,
        name: &[u8],
    ) -> Result<FilehandleLocationInExport, ContainmentViolation> {
        check_plain_name(name)?;
        match directory {
            FilehandleLocationInExport::Export if *name == *self.run_directory => {
                Ok(FilehandleLocationInExport::ServerRunDirectory)
            }
            FilehandleLocationInExport::Export => Err(ContainmentViolation::Upward),
            FilehandleLocationInExport::ServerRunDirectory => Ok(FilehandleLocationInExport::TreeRoot),
            FilehandleLocationInExport::TreeRoot
            | FilehandleLocationInExport::InTree
            | FilehandleLocationInExport::BelowTreeRoot => Ok(FilehandleLocationInExport::BelowTreeRoot),
        }
    }

    /// Returns `true` if the name in the export is that of the run's directory, which may be removed.
    fn is_removable_run_directory(&self, directory: FilehandleLocationInExport, name: &[u8]) -> bool {
        self.allows_run_directory_removal
            && directory == FilehandleLocationInExport::Export
            && !name.is_empty()
            && *name == *self.run_directory
    }

    /// Returns an error unless the run has a client with this name.
    fn check_client_name(&self, name: &[u8]) -> Result<(), ContainmentViolation> {
        let is_own = self.clients.iter().any(|client| **client == *name)
            || self.client_name_suffix.as_ref().is_some_and(|suffix| name.ends_with(suffix));
        if is_own { Ok(()) } else { Err(ContainmentViolation::Client) }
    }

    fn check_issued(&self, kind: ContainmentCheckedIdentifierKind, value: &[u8]) -> Result<(), ContainmentViolation> {
        if self.is_of_plan || self.issued_identifiers.has(kind, value) {
            Ok(())
        } else {
            Err(ContainmentViolation::State)
        }
    }
}

/// Returns `true` if a name may be sent.
pub(crate) fn is_plain_name(name: &[u8]) -> bool {
    check_plain_name(name).is_ok()
}

/// Returns an error unless a name is one component that leads no way up, also where `\` separates components.
fn check_plain_name(name: &[u8]) -> Result<(), ContainmentViolation> {
    let is_dots = |component: &[u8]| matches!(component, b"." | b"..");
    // Windows servers take `\` as a separator.
    let has_dots = name.contains(&b'\\') && name.split(|byte| *byte == b'\\').any(is_dots);
    let has_separator = name.iter().any(|byte| matches!(byte, b'/' | 0));
    match name.is_empty() || is_dots(name) || has_dots || has_separator {
        true => Err(ContainmentViolation::Name),
        false => Ok(()),
    }
}

/// A transport that sends only Calls that passed the check. Methods named as those of [`RpcClientTransport`] return the
/// same errors.
pub struct ContainmentCheckedTransport<'t> {
    transport: &'t mut dyn RpcClientTransport,
}

impl<'t> ContainmentCheckedTransport<'t> {
    /// Creates a contained transport on top of `transport`.
    pub fn new(transport: &'t mut dyn RpcClientTransport) -> Self {
        Self { transport }
    }

    /// Sends a Call. See [`RpcClientTransport::submit`].
    pub fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &ContainmentCheckedCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        self.transport.submit(connection, &call.call)
    }

    /// See [`RpcClientTransport::connect`].
    pub fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        self.transport.connect(target)
    }

    /// See [`RpcClientTransport::params`].
    pub fn terms(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams> {
        self.transport.params(connection)
    }

    /// See [`RpcClientTransport::credits`].
    pub fn credits(&self, connection: RpcClientConnectionId) -> Option<TransportCredits> {
        self.transport.credits(connection)
    }

    /// Answers a Call of the server. See [`RpcClientTransport::answer`].
    pub fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        self.transport.answer(connection, xid, message)
    }

    /// See [`RpcClientTransport::flush`].
    pub fn flush(&mut self) {
        self.transport.flush();
    }

    /// See [`RpcClientTransport::poll`].
    pub fn poll(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError> {
        self.transport.poll(deadline)
    }

    /// See [`RpcClientTransport::disconnect`].
    pub fn disconnect(&mut self, connection: RpcClientConnectionId) {
        self.transport.disconnect(connection);
    }

    /// Sends an RPCSEC_GSS control message while nothing else is in flight. `results` also gets the verifier of the
    /// Reply.
    ///
    /// # Errors
    /// Returns an error if there are no results within the timeout.
    pub fn control<T>(
        &mut self,
        connection: RpcClientConnectionId,
        control: &GssControlCall,
        timeout: Duration,
        results: impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        RpcClient::new(&mut *self.transport, connection, root_credential(), control.xid(), timeout)
            // All Calls of the run on this connection are earlier ones.
            .with_earlier_xids(u32::MAX)
            .control(control, results)
    }

    /// Returns a synchronous client with root's credential, whose Calls are checked, and which reconnects after
    /// connection loss. Its Calls fail from `deadline` on.
    pub fn rpc_client<'l>(
        &'l mut self,
        connection: RpcClientConnectionId,
        xid: Xid,
        containment: &'l mut Containment,
        target: &ConnectTarget,
        deadline: Instant,
    ) -> ContainmentCheckedRpcClient<'l> {
        let timeout = target.options.timeout;
        let client = RpcClient::new(&mut *self.transport, connection, root_credential(), xid, timeout);
        ContainmentCheckedRpcClient::new(client.with_reconnect(target).with_deadline(deadline), containment)
    }
}

/// An RPC client whose Calls all pass the containment check of a run.
pub struct ContainmentCheckedRpcClient<'t>(RpcClient<'t, ReplayContainmentCallCheck<'t>>);

/// The containment of a run as a filter.
struct ReplayContainmentCallCheck<'t>(&'t mut Containment);

impl OutgoingCallCheck for ReplayContainmentCallCheck<'_> {
    type Refusal = ContainmentViolation;

    fn check_call(&self, call: &OutgoingRpcCall<'_>) -> Result<(), ContainmentViolation> {
        self.0.check_call(*call).map(|_| ())
    }

    fn record_reply(&mut self, call: &OutgoingRpcCall<'_>, reply: Cursor<'_>) {
        self.0.record_reply(call, reply);
    }
}

impl<'t> ContainmentCheckedRpcClient<'t> {
    /// Makes a client check each Call against a containment, and record the identifiers in each Reply.
    pub fn new(client: RpcClient<'t>, containment: &'t mut Containment) -> Self {
        Self(client.with_filter(ReplayContainmentCallCheck(containment)))
    }

    /// As [`RpcClient::was_resent`].
    pub fn was_resent(&self) -> bool {
        self.0.was_resent
    }

    /// As [`RpcClient::call`], but returns [`RpcCallError::Filtered`] if the check refuses the Call.
    pub fn call<T>(
        &mut self,
        procedure: &SynchronousProcedureCall<'_>,
        arguments: impl FnOnce(&mut Encoder),
        results: impl FnOnce(&mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.call(procedure, arguments, results)
    }

    /// As [`RpcClient::compound`], but returns [`RpcCallError::Filtered`] if the check refuses the Call.
    pub fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[v4::Args<'_>],
        procedure: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&v4::CompoundReply<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.compound(minor, operations, procedure, results)
    }

    /// Closes the current connection, which may not be the initial one.
    pub fn disconnect(&mut self) {
        let connection = self.0.connection;
        self.0.transport().disconnect(connection);
    }

    /// Allows this program to act as the client with this name.
    pub fn add_client_identity(&mut self, client: &str) {
        self.0.filter_mut().0.add_client_name(client);
    }
}
