//! A reference server in memory: NFSv3 with MOUNT and NLM, and NFSv4.0 to 4.2, as far as replay needs a server.
//!
//! It is for tests: it has no clock, and answers the same Calls in the same way each time. Its only permissions are
//! mode bits, which ACCESS and SETATTR respect. Its state is limited; unsupported operations are refused as the RFCs
//! require (`NFS3ERR_NOTSUPP`, `NFS4ERR_NOTSUPP`).

mod auxiliary_programs;
mod directory_escape_recording;
pub mod fault_injection;
mod file_tree;
mod v3;
mod v4;

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::auth::{self, AuthNoneVerifier, AuthNoneVerifierBody};
use nfsrdma_dissectors::rpc::{
    self, AcceptStat, AcceptedReply, Credential, MismatchInfo, ProgMismatchInfo, Program, RejectedReply,
    ReplyData, RpcMsg, RpcMsgBody, Verifier,
};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, ReducedDataItem, Xdr, XdrError, roundup};

use fault_injection::MockFaultInjector;

pub use file_tree::{MockFileTree, MockNfsError};

/// The server: one file tree, and the state of its NFSv4 clients.
#[derive(Clone, Debug, Default)]
pub struct MockServer {
    /// The files.
    pub tree: MockFileTree,
    /// Number of executions of each NFSv4 operation, by operation number. Replies from the reply cache do not count.
    pub operation_counts: BTreeMap<u32, u64>,
    /// `true` if it keeps no record of its clients across a restart, so that nothing can be reclaimed: RFC 8881 section
    /// 8.4.3.
    pub loses_clients_on_restart: bool,
    /// `true` if it requires OPEN_CONFIRM of each unknown NFSv4.0 open-owner, as Linux does. RFC 7530 section 16.18.
    pub confirms_owners: bool,
    /// `true` if `cinfo` of an OPEN that names no directory (CLAIM_FH, CLAIM_PREVIOUS) is 0, as with Linux.
    pub omits_cinfo_without_directory: bool,
    /// Delegations that it grants from NFSv4.1 on.
    pub delegations: MockDelegationPolicy,
    /// Maximum length in bytes of a Call and of a Reply in a session; `None` for the length that a READ or WRITE
    /// requires.
    pub session_bytes: Option<u32>,
    /// Maximum number of operations in a COMPOUND of a session, if limited.
    pub operations: Option<u32>,
    /// Number of NFSv4 directory listings whose first entry has delayed attributes. RFC 8881 section 5.8.1.12.
    pub delayed_entries: u32,
    /// Number of READs, WRITEs and COMPOUNDs that exceeded the announced limits.
    pub exceeded: u64,
    /// Port of MOUNT and NLM, as the port mapper reports it; 0 if they are not available.
    pub port: u16,
    /// The fault injector, if any.
    pub fault_injector: Option<MockFaultInjector>,
    /// `true` if a connection must be bound to a session before SEQUENCE, as with SP4_MACH_CRED. RFC 8881 section
    /// 2.10.3.1.
    pub requires_bound_connections: bool,
    /// Number of the connection of the current Call.
    pub connection: u64,
    /// Connections, with the sessions to which they are bound.
    bound_connections: BTreeSet<(u64, [u8; 16])>,
    /// The user of the current Call.
    caller: MockCallerIdentity,
    state: v4::MockNfs4State,
    /// Locks of NLM clients.
    locks: Vec<auxiliary_programs::MockNlmLock>,
}

/// Delegations that a server grants. It recalls none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MockDelegationPolicy {
    /// None.
    #[default]
    Never,
    /// One with each OPEN that does not refuse it, also to reclaim an open (as Linux 7.2 does), and with each
    /// GET_DIR_DELEGATION.
    UnlessRefused,
    /// One with each OPEN, whatever that asks for, and with each GET_DIR_DELEGATION.
    Always,
}

/// A user with AUTH_SYS credentials.
#[derive(Clone, Debug, Default)]
struct MockCallerIdentity {
    uid: u32,
    gid: u32,
    gids: Vec<u32>,
}

impl MockCallerIdentity {
    /// Takes the identity from a credential; that of nobody if it is not AUTH_SYS.
    fn set_from(&mut self, credential: &Credential<'_>) {
        self.gids.clear();
        match credential {
            Credential::Sys(auth::FlavorSpecificAuthBody::Known(sys)) => {
                (self.uid, self.gid) = (sys.uid, sys.gid);
                self.gids.extend(sys.gids.iter());
            }
            _ => (self.uid, self.gid) = (NOBODY, NOBODY),
        }
    }

    fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.gids.contains(&group)
    }
}

/// The uid and gid of callers without AUTH_SYS credentials.
const NOBODY: u32 = 65_534;

/// A reply: a message, and the DDP-eligible results that it omits.
#[derive(Debug, Default)]
pub struct MockReply {
    message: Vec<u8>,
    splices: Vec<ReducedDataItem>,
    /// The contents of DDP-eligible results, in order, including empty ones.
    pub data: Vec<Vec<u8>>,
}

impl MockReply {
    /// Returns the index of the Write chunk that matches a result (RFC 8267 section 6.4.1); `None` if there is no such
    /// result.
    pub fn ordinal(&self, result: usize) -> Option<usize> {
        self.splices.get(result).map(|splice| splice.ordinal)
    }

    /// Writes the message to `to`, with the results whose bits are set in `inline`, and their XDR padding, in their
    /// places.
    pub fn splice(&self, inline: u64, to: &mut Vec<u8>) {
        to.clear();
        let (mut rest, mut end) = (&self.message[..], 0);
        for (index, (splice, data)) in self.splices.iter().zip(&self.data).enumerate() {
            let (head, tail) = rest.split_at(splice.position.saturating_sub(end).min(rest.len()));
            to.extend_from_slice(head);
            let length = splice.length as usize;
            if inline >> index.min(63) & 1 == 1 {
                to.extend_from_slice(data);
                to.extend_from_slice([0; 3].get(..roundup(length)).unwrap_or_default());
            }
            end = splice.position + length + roundup(length);
            rest = tail;
        }
        to.extend_from_slice(rest);
    }

    /// Replaces the reply by one that RPC accepts, but that fails with `stat`.
    fn refuse(&mut self, stat: AcceptStat) {
        let xid = self.message.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
        self.data.clear();
        let mut encoder = Encoder::reusing(std::mem::take(&mut self.message));
        accepted(rpc::Xid(xid), ReplyData::Failed(stat)).encode(&mut encoder);
        (self.message, self.splices) = encoder.finish();
    }

    /// Returns the complete message, as on TCP.
    pub fn complete_message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        self.splice(u64::MAX, &mut message);
        message
    }
}

struct MockReplyBuffers<'a> {
    encoder: &'a mut Encoder,
    data: &'a mut Vec<Vec<u8>>,
}

impl MockServer {
    /// Returns the filehandle of the root, as in MOUNT and PUTROOTFH.
    pub fn root(&self) -> [u8; 16] {
        v3::handle(MockFileTree::ROOT)
    }

    /// Returns `true` if files and directories equal those of another server, except for times.
    pub fn has_same_files(&self, other: &Self) -> bool {
        !self.tree.is_changed_since(&other.tree)
    }

    /// Restarts: files stay, and NFSv4 client state is lost, but may be reclaimed until the grace period ends. RFC 8881
    /// section 8.4.2.
    pub fn restart(&mut self) {
        self.state.restart(!self.loses_clients_on_restart);
    }

    /// Drops the sessions of NFSv4.1, but keeps the state of their clients.
    pub fn forget_sessions(&mut self) {
        self.state.sessions.clear();
    }

    /// Forgets which connections are bound to sessions.
    pub fn forget_bindings(&mut self) {
        self.bound_connections.clear();
    }

    /// Returns the number of opens of NFSv4 clients.
    pub fn opens(&self) -> usize {
        self.state.opens.len()
    }

    /// Returns the number of delegations that NFSv4 clients hold.
    pub fn delegation_count(&self) -> usize {
        self.state.delegations.len()
    }

    /// Returns the verifier of WRITE and COMMIT, which changes with each restart. RFC 8881 section 18.32.4.
    fn write_verifier(&self) -> [u8; 8] {
        let mut verifier = *b"loopback";
        let [.., last] = &mut verifier;
        *last ^= self.state.boots;
        verifier
    }

    /// Executes a Call. A message that is no Call, or cannot be decoded, gets an answer too.
    pub fn call(&mut self, mut cursor: Cursor<'_>, reply: &mut MockReply) {
        reply.data.clear();
        let mut encoder = Encoder::reusing(std::mem::take(&mut reply.message));
        let call_bytes = cursor.rest();
        let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver);
        let call = message.as_ref().ok().and_then(|message| message.call().map(|call| (message.xid, call)));
        match call {
            Some((xid, call)) if call.rpcvers == rpc::VERSION => {
                if let Some(outside) = &self.tree.outside {
                    outside.check_call(call_bytes, call, cursor);
                }
                accepted(xid, ReplyData::Success).encode(&mut encoder);
                let mut buffers = MockReplyBuffers { encoder: &mut encoder, data: &mut reply.data };
                if let Err(refusal) = self.dispatch(call, &mut cursor, &mut buffers) {
                    reply.data.clear();
                    encoder = Encoder::reusing(encoder.finish().0);
                    accepted(xid, refusal).encode(&mut encoder);
                }
            }
            Some((xid, _)) => {
                let versions = MismatchInfo { low: rpc::VERSION, high: rpc::VERSION };
                let reply = rpc::ReplyBody::Denied(RejectedReply::RpcMismatch(versions));
                RpcMsg { xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
            }
            None => {
                let xid = message.map_or(rpc::Xid(0), |message| message.xid);
                accepted(xid, ReplyData::Failed(AcceptStat::GARBAGE_ARGS)).encode(&mut encoder);
            }
        }
        (reply.message, reply.splices) = encoder.finish();
    }

    fn dispatch(
        &mut self,
        call: &rpc::CallBody<'_>,
        cursor: &mut Cursor<'_>,
        buffers: &mut MockReplyBuffers<'_>,
    ) -> Result<(), ReplyData> {
        self.caller.set_from(&call.cred);
        let is_known = Procedure::from_numbers(call.prog, call.vers, call.proc).is_some();
        let result = match (call.prog, call.vers) {
            (Program::NFS, 3 | 4) | (Program::PORTMAP, 2) | (Program::MOUNT, 3) | (Program::NLM, 4)
                if !is_known =>
            {
                Err(AcceptStat::PROC_UNAVAIL)
            }
            (Program::NFS, 3) => v3::call(self, call.proc, cursor, buffers),
            (Program::NFS, 4) => v4::call(self, call.proc, cursor, buffers),
            (Program::PORTMAP, 2) => auxiliary_programs::port_mapper(self, call.proc, cursor, buffers),
            (Program::MOUNT, 3) => auxiliary_programs::mount(self, call.proc, cursor, buffers),
            (Program::NLM, 4) => auxiliary_programs::nlm(self, call.proc, cursor, buffers),
            (Program::NFS, _) => {
                return Err(ReplyData::ProgMismatch(ProgMismatchInfo { low: 3, high: 4 }));
            }
            _ => Err(AcceptStat::PROG_UNAVAIL),
        };
        result.map_err(ReplyData::Failed)
    }
}

/// Returns the answer to a Call whose arguments cannot be decoded.
fn unreadable(_: XdrError) -> AcceptStat {
    AcceptStat::GARBAGE_ARGS
}

fn accepted(xid: rpc::Xid, reply_data: ReplyData) -> RpcMsg<'static> {
    let verf = Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() });
    RpcMsg { xid, body: RpcMsgBody::Reply(rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data })) }
}
