//! The state machine of an NFSv4 client: which request it needs next, and what it does about each result. RFC 7530
//! section 9, RFC 8881 sections 2.4, 2.10 and 8.4.
//!
//! Events are results of operations and statuses of failed ones; actions are requests and waits. It knows neither
//! socket nor clock.

use std::time::Duration;

use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, CbClient4, ChannelAttrs4, Clientid4, Netaddr4, NfsClientId4, Nfsstat4, Operation, ReclaimComplete4Args,
    Results, Setclientid4Args, SetclientidConfirm, SetclientidRes, UniversalAddress, Verifier4,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Opaque, Text};

use super::backoff::Backoff;
use super::operations::{channel, create_session, exchange_id, sequence};
use super::remedy::{Remedy, advances_seqid, remedy};
use crate::seed::file_server_client::SessionLimits;

/// Maximum number of times that the client, its session or its owner is replaced.
const MAX_RECOVERIES: u32 = 16;

/// The client state at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientidAndSessionState {
    /// NFSv4.0.
    Client {
        /// The clientid.
        clientid: u64,
    },
    /// NFSv4.1 and later.
    Session {
        /// The clientid.
        clientid: u64,
        /// Next csa_sequence of the clientid.
        create_sequence: u32,
        /// The session ID.
        id: [u8; 16],
        /// sa_sequenceid of the last call on slot 0.
        sequence: u32,
        /// Number of slots granted.
        slots: u32,
        /// Limits of a call.
        limits: SessionLimits,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unregistered,
    /// SETCLIENTID was answered, not SETCLIENTID_CONFIRM.
    Unconfirmed(Clientid4, Verifier4),
    /// Client ID without a session, with its next csa_sequence.
    Registered(Clientid4, u32),
    Established(ClientidAndSessionState),
}

/// A request that a client needs before it can send operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    ExchangeId,
    CreateSession(Clientid4, u32),
    Setclientid,
    SetclientidConfirm(Clientid4, Verifier4),
    ReclaimComplete,
}

impl Request {
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::ExchangeId => Operation::EXCHANGE_ID,
            Self::CreateSession(..) => Operation::CREATE_SESSION,
            Self::Setclientid => Operation::SETCLIENTID,
            Self::SetclientidConfirm(..) => Operation::SETCLIENTID_CONFIRM,
            Self::ReclaimComplete => Operation::RECLAIM_COMPLETE,
        }
    }
}

/// Consequence of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing: the failure does no harm.
    Done,
    /// After this time the operation is sent again, preceded by the requests that the client needs.
    Retry(Duration),
    /// The operation has failed.
    Failed,
    /// The server still asks for a delay at the limit, after this number of seconds.
    Busy(u64),
}

/// The open-owner of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenOwner {
    /// Number of owners before it. Opens of an earlier owner are lost.
    pub(crate) number: u32,
    /// The clientid in NFSv4.0; 0 in a session.
    pub(crate) clientid: Clientid4,
    /// Next seqid in NFSv4.0; 0 in a session.
    pub(crate) seqid: u32,
}

/// A client of one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Name, as sent to the server; `None` if it has no state there, which NFSv4.0 permits.
    name: Option<String>,
    /// Minor version in use.
    minor: u32,
    /// Minor versions to try if the server has another.
    other_minors: Vec<u32>,
    /// Changes if the client has to restart under its name.
    verifier: [u8; 8],
    channels: [ChannelAttrs4<'static>; 2],
    state: State,
    /// `true` once the server has registered it, so that the minor version is settled.
    was_registered: bool,
    /// `true` if it tells the server that it reclaims nothing.
    completes_reclaim: bool,
    must_complete_reclaim: bool,
    recoveries: u32,
    backoff: Backoff,
    owner_number: u32,
    seqid: u32,
}

impl Client {
    /// Creates a client with this name that uses the first of `minors` that the server has.
    pub(crate) fn new(name: &str, verifier: [u8; 8], minors: &[u32]) -> Self {
        let (first, others) = minors.split_first().map_or((0, &[][..]), |(first, others)| (*first, others));
        Self {
            name: Some(name.to_owned()),
            minor: first,
            other_minors: others.iter().rev().copied().collect(),
            verifier,
            channels: [channel(2 << 20, 4096, 64, 16), channel(4096, 4096, 64, 16)],
            state: State::Unregistered,
            was_registered: false,
            completes_reclaim: true,
            must_complete_reclaim: true,
            recoveries: 0,
            backoff: Backoff::default(),
            owner_number: 0,
            seqid: 1,
        }
    }

    /// Creates a client of NFSv4.0 without state at the server. It cannot open files.
    pub(crate) fn stateless() -> Self {
        Self { name: None, ..Self::new("", [0; 8], &[0]) }
    }

    /// Requests a session with these channel attributes, and sends no RECLAIM_COMPLETE: it opens no files.
    pub(crate) fn with_channels(self, channels: [ChannelAttrs4<'static>; 2]) -> Self {
        Self { channels, ..self }.without_completion()
    }

    /// Sends no RECLAIM_COMPLETE, without which it cannot open files. RFC 8881 section 18.51.3.
    pub(crate) fn without_completion(self) -> Self {
        Self { completes_reclaim: false, must_complete_reclaim: false, ..self }
    }

    pub(crate) fn minor(&self) -> u32 {
        self.minor
    }

    /// Returns the state at the server, if it is established.
    pub(crate) fn established(&self) -> Option<ClientidAndSessionState> {
        match self.state {
            State::Established(state) => Some(state),
            _ => None,
        }
    }

    /// Returns the client ID, if the server has assigned one.
    pub(crate) fn clientid(&self) -> Option<Clientid4> {
        match self.state {
            State::Unregistered => None,
            State::Unconfirmed(clientid, _) | State::Registered(clientid, _) => Some(clientid),
            State::Established(
                ClientidAndSessionState::Client { clientid } | ClientidAndSessionState::Session { clientid, .. },
            ) => Some(clientid),
        }
    }

    /// Returns the request that must be answered first, or `None` if operations can be sent.
    pub(crate) fn next_request(&self) -> Option<Request> {
        self.name.as_ref()?;
        match self.state {
            State::Unregistered if self.minor == 0 => Some(Request::Setclientid),
            State::Unregistered => Some(Request::ExchangeId),
            State::Unconfirmed(clientid, verifier) => Some(Request::SetclientidConfirm(clientid, verifier)),
            State::Registered(clientid, sequence) => Some(Request::CreateSession(clientid, sequence)),
            State::Established(ClientidAndSessionState::Session { .. }) => {
                self.must_complete_reclaim.then_some(Request::ReclaimComplete)
            }
            State::Established(ClientidAndSessionState::Client { .. }) => None,
        }
    }

    /// Returns the operation of a request.
    pub(crate) fn arguments(&self, request: Request) -> Args<'_> {
        let name = self.name.as_deref().unwrap_or_default();
        match request {
            Request::ExchangeId => exchange_id(name, self.verifier),
            Request::CreateSession(clientid, sequence) => create_session(clientid, sequence, self.channels.clone()),
            Request::Setclientid => Args::SETCLIENTID(Setclientid4Args {
                client: NfsClientId4 { verifier: self.verifier, id: Opaque(name.as_bytes()) },
                callback: CbClient4 {
                    cb_program: Program::NFS_CB.0,
                    cb_location: Netaddr4 {
                        na_r_netid: Text(b"tcp"),
                        na_r_addr: UniversalAddress(Text(b"0.0.0.0.0.0")),
                    },
                },
                callback_ident: 1,
            }),
            Request::SetclientidConfirm(clientid, setclientid_confirm) => {
                Args::SETCLIENTID_CONFIRM(SetclientidConfirm { clientid, setclientid_confirm })
            }
            Request::ReclaimComplete => Args::RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false }),
        }
    }

    /// Returns the SEQUENCE that precedes operations in a session, whose reply is cached if `is_cached`.
    pub(crate) fn sequence(&self, is_cached: bool) -> Option<Args<'static>> {
        match self.established()? {
            ClientidAndSessionState::Session { id, sequence: last, .. } => {
                Some(sequence(id, last.wrapping_add(1), is_cached))
            }
            ClientidAndSessionState::Client { .. } => None,
        }
    }

    pub(crate) fn open_owner(&self) -> OpenOwner {
        let (clientid, seqid) = match self.established() {
            Some(ClientidAndSessionState::Client { clientid }) => (clientid, self.seqid),
            _ => (0, 0),
        };
        OpenOwner { number: self.owner_number, clientid, seqid }
    }

    /// Processes the result of an operation that succeeded.
    pub(crate) fn record(&mut self, results: &Results<'_>) {
        match results {
            Results::SEQUENCE(_) => self.count_sequence(),
            Results::EXCHANGE_ID(StatusUnion::Ok(ok)) => {
                self.state = State::Registered(ok.eir_clientid, ok.eir_sequenceid);
                self.was_registered = true;
            }
            Results::CREATE_SESSION(StatusUnion::Ok(ok)) => {
                let State::Registered(clientid, create_sequence) = self.state else { return };
                let channel = &ok.csr_fore_chan_attrs;
                self.state = State::Established(ClientidAndSessionState::Session {
                    clientid,
                    create_sequence: create_sequence.wrapping_add(1),
                    id: ok.csr_sessionid,
                    sequence: 0,
                    slots: channel.ca_maxrequests,
                    limits: SessionLimits {
                        request_bytes: channel.ca_maxrequestsize,
                        response_bytes: channel.ca_maxresponsesize,
                        operations: channel.ca_maxoperations,
                    },
                });
            }
            Results::SETCLIENTID(SetclientidRes::Ok(ok)) => {
                self.state = State::Unconfirmed(ok.clientid, ok.setclientid_confirm);
                self.was_registered = true;
            }
            Results::SETCLIENTID_CONFIRM(StatusUnion::Ok(_)) => {
                let State::Unconfirmed(clientid, _) = self.state else { return };
                self.state = State::Established(ClientidAndSessionState::Client { clientid });
            }
            Results::RECLAIM_COMPLETE(StatusUnion::Ok(_)) => self.must_complete_reclaim = false,
            Results::OPEN(_) | Results::OPEN_CONFIRM(_) | Results::CLOSE(_) => self.seqid = self.seqid.wrapping_add(1),
            _ => {}
        }
    }

    /// Ends the waits for a COMPOUND that succeeded.
    pub(crate) fn end_waits(&mut self) {
        self.backoff = Backoff::default();
    }

    /// Counts a sequence ID that the server has used, or may have.
    pub(crate) fn count_sequence(&mut self) {
        if let State::Established(ClientidAndSessionState::Session { sequence, .. }) = &mut self.state {
            *sequence = sequence.wrapping_add(1);
        }
    }

    /// Processes the status of a failed operation, `None` if the COMPOUND failed without one.
    pub(crate) fn react(&mut self, operation: Option<Operation>, status: Nfsstat4) -> Reaction {
        let has_seqid = matches!(operation, Some(Operation::OPEN | Operation::OPEN_CONFIRM | Operation::CLOSE));
        if has_seqid && advances_seqid(status) {
            self.seqid = self.seqid.wrapping_add(1);
        }
        let remedy = remedy(self.minor, operation, status);
        match remedy {
            Remedy::Nothing => return Reaction::Failed,
            Remedy::Ignore => {
                self.must_complete_reclaim = false;
                return Reaction::Done;
            }
            Remedy::Wait => {
                return match self.backoff.next_wait() {
                    Some(wait) => Reaction::Retry(wait),
                    None => Reaction::Busy(self.backoff.waited_seconds()),
                };
            }
            Remedy::LowerMinorVersion => {
                return match self.other_minors.pop().filter(|_| !self.was_registered) {
                    Some(minor) => {
                        self.minor = minor;
                        Reaction::Retry(Duration::ZERO)
                    }
                    None => Reaction::Failed,
                };
            }
            Remedy::NewOwner if !has_seqid => return Reaction::Failed,
            Remedy::Resend | Remedy::NewSession | Remedy::NewClient | Remedy::NewOwner => {}
        }
        if self.recoveries == MAX_RECOVERIES {
            return Reaction::Failed;
        }
        self.recoveries += 1;
        match (remedy, self.state) {
            // The slot has this sequence ID: RFC 8881 section 2.10.6.1.3.
            (Remedy::Resend, _) if operation == Some(Operation::SEQUENCE) => self.count_sequence(),
            (
                Remedy::NewSession,
                State::Established(ClientidAndSessionState::Session { clientid, create_sequence, .. }),
            ) => self.state = State::Registered(clientid, create_sequence),
            (Remedy::NewClient, _) => {
                // With another verifier the server begins with new state, whatever it still has: RFC 7530 section
                // 9.1.1, RFC 8881 section 18.35.4.
                self.verifier = u64::from_be_bytes(self.verifier).wrapping_add(1).to_be_bytes();
                self.state = State::Unregistered;
                self.must_complete_reclaim = self.completes_reclaim;
                self.replace_owner();
            }
            (Remedy::NewOwner, _) => self.replace_owner(),
            _ => {}
        }
        Reaction::Retry(Duration::ZERO)
    }

    fn replace_owner(&mut self) {
        (self.owner_number, self.seqid) = (self.owner_number + 1, 1);
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{
        CreateSession4Resok, CreateSessionFlags, ExchangeId4Resok, ExchangeIdFlags, ServerOwner4, StateProtect4R,
    };
    use nfsrdma_dissectors::xdr::{Void, XdrArray};

    use super::*;

    const NOW: Reaction = Reaction::Retry(Duration::ZERO);

    fn exchange_result(clientid: Clientid4) -> Results<'static> {
        Results::EXCHANGE_ID(StatusUnion::Ok(Box::new(ExchangeId4Resok {
            eir_clientid: clientid,
            eir_sequenceid: 1,
            eir_flags: ExchangeIdFlags(0),
            eir_state_protect: StateProtect4R::None,
            eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: Opaque(b"") },
            eir_server_scope: Opaque(b""),
            eir_server_impl_id: XdrArray::default(),
        })))
    }

    fn session_result(id: u8) -> Results<'static> {
        Results::CREATE_SESSION(StatusUnion::Ok(Box::new(CreateSession4Resok {
            csr_sessionid: [id; 16],
            csr_sequence: 1,
            csr_flags: CreateSessionFlags(0),
            csr_fore_chan_attrs: channel(4096, 4096, 8, 4),
            csr_back_chan_attrs: channel(4096, 4096, 8, 4),
        })))
    }

    /// Returns a client of NFSv4.1 whose session is established.
    fn established() -> Client {
        let mut client = Client::new("test", [7; 8], &[1]);
        assert_eq!(client.next_request(), Some(Request::ExchangeId));
        client.record(&exchange_result(5));
        assert_eq!(client.next_request(), Some(Request::CreateSession(5, 1)));
        client.record(&session_result(1));
        assert_eq!(client.next_request(), Some(Request::ReclaimComplete));
        client.record(&Results::RECLAIM_COMPLETE(StatusUnion::Ok(Void)));
        assert_eq!(client.next_request(), None);
        client
    }

    #[test]
    fn delay_keeps_minor_version() {
        let mut client = Client::new("test", [7; 8], &[2, 1, 0]);
        let reaction = client.react(Some(Operation::EXCHANGE_ID), Nfsstat4::NFS4ERR_DELAY);
        assert_eq!((reaction, client.minor()), (Reaction::Retry(Duration::from_millis(100)), 2));
        assert_eq!(client.react(Some(Operation::EXCHANGE_ID), Nfsstat4::NFS4ERR_SERVERFAULT), Reaction::Failed);
        assert_eq!(client.minor(), 2);
    }

    #[test]
    fn only_version_mismatch_lowers_minor_version() {
        let mut client = Client::new("test", [7; 8], &[2, 1]);
        assert_eq!((client.react(None, Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH), client.minor()), (NOW, 1));
        assert_eq!(client.react(None, Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH), Reaction::Failed);
        let mut settled = Client::new("test", [7; 8], &[2, 1]);
        settled.record(&exchange_result(5));
        assert_eq!(settled.react(None, Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH), Reaction::Failed);
    }

    #[test]
    fn endless_delay_is_busy() {
        let mut client = established();
        let reactions = || client.react(Some(Operation::LOOKUP), Nfsstat4::NFS4ERR_GRACE);
        let last = std::iter::repeat_with(reactions).take(65).last();
        assert_eq!(last, Some(Reaction::Busy(121)));
    }

    #[test]
    fn lost_session_is_created_again() {
        let mut client = established();
        assert_eq!(client.react(Some(Operation::SEQUENCE), Nfsstat4::NFS4ERR_BADSESSION), NOW);
        assert_eq!(client.next_request(), Some(Request::CreateSession(5, 2)));
        assert_eq!(client.react(Some(Operation::CREATE_SESSION), Nfsstat4::NFS4ERR_STALE_CLIENTID), NOW);
        assert_eq!(client.next_request(), Some(Request::ExchangeId));
        client.record(&exchange_result(6));
        client.record(&session_result(2));
        // The server has lost the client, so that it has a grace period to end.
        assert_eq!(client.next_request(), Some(Request::ReclaimComplete));
    }

    /// RFC 8881 section 2.10.6.1.3: the slot has advanced, although SEQUENCE fails.
    #[test]
    fn uncached_reply_advances_slot() {
        let mut client = established();
        assert_eq!(client.react(Some(Operation::SEQUENCE), Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP), NOW);
        let Some(ClientidAndSessionState::Session { sequence, .. }) = client.established() else { panic!() };
        assert_eq!(sequence, 1);
    }

    #[test]
    fn server_that_forgets_for_ever_fails() {
        let mut client = established();
        let reactions = || client.react(Some(Operation::SEQUENCE), Nfsstat4::NFS4ERR_BADSESSION);
        let reactions: Vec<_> = std::iter::repeat_with(reactions).take(17).collect();
        assert_eq!((reactions.get(15), reactions.get(16)), (Some(&NOW), Some(&Reaction::Failed)));
    }

    /// RFC 7530 section 9.1.7: GRACE advances the seqid; after BAD_SEQID only a new owner is certain.
    #[test]
    fn rfc7530_section_9_1_7_open_owner_follows_statuses() {
        let mut client = Client::new("test", [7; 8], &[0]);
        client.record(&Results::SETCLIENTID(SetclientidRes::Ok(SetclientidConfirm {
            clientid: 9,
            setclientid_confirm: [1; 8],
        })));
        client.record(&Results::SETCLIENTID_CONFIRM(StatusUnion::Ok(Void)));
        let owner = |client: &Client| (client.open_owner().number, client.open_owner().seqid);
        assert_eq!((owner(&client), client.open_owner().clientid), ((0, 1), 9));
        client.react(Some(Operation::OPEN), Nfsstat4::NFS4ERR_GRACE);
        assert_eq!(owner(&client), (0, 2));
        client.react(Some(Operation::OPEN), Nfsstat4::NFS4ERR_RESOURCE);
        assert_eq!(owner(&client), (0, 2));
        client.react(Some(Operation::OPEN), Nfsstat4::NFS4ERR_BAD_SEQID);
        assert_eq!(owner(&client), (1, 1));
    }
}
