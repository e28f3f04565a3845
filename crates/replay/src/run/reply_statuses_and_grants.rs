//! Outcome of a Reply, as far as the run's state depends on it.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, ChannelAttrs4, CreateSessionFlags, ExchangeIdFlags, Nfsstat4, Operation, Results,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_nfs_model::v4::statuses;

use crate::nfs4::remedy::{blames_client, can_have};
use crate::seed::file_server_client::SessionLimits;

/// Maximum number of operations of a COMPOUND that are read.
const MAX_OPERATIONS: usize = 256;

/// NFS4ERR_DELAY, and NFS3ERR_JUKEBOX. RFC 8881 section 15.1.1.3, RFC 1813 section 2.6.
const DELAY: u32 = 10_008;
/// NFS4ERR_GRACE. RFC 8881 section 15.1.9.2.
const GRACE: u32 = 10_013;
/// NLM4_DENIED_GRACE_PERIOD, the equivalent for NFSv3 locks. RFC 1813 section 6.1.4.
const NLM_GRACE: u32 = 4;
/// NFS4ERR_RETRY_UNCACHED_REP. RFC 8881 section 15.1.10.3.
const RETRY_UNCACHED_REP: u32 = 10_068;

/// Results of an operation that cannot be decoded.
const UNDECODABLE_RESULTS: &str = "results of a COMPOUND that cannot be decoded (RFC 8881 section 16.2.2)";
/// A COMPOUND is executed up to the first error.
const RESULTS_AFTER_ERROR: &str = "results after the error that ends a COMPOUND (RFC 8881 section 16.2.3)";
/// The status of a COMPOUND is that of its last operation.
const OTHER_COMPOUND_STATUS: &str =
    "a COMPOUND whose status is not that of its last operation (RFC 8881 section 16.2.3)";

/// Each executed operation has one result.
const OTHER_OPERATIONS: &str = "results of a COMPOUND that are not those of its operations (RFC 8881 section 16.2.3)";

/// Fore channel attributes granted to a session. RFC 8881 section 18.36.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantedForeChannel {
    /// Number of slots: ca_maxrequests.
    pub(super) slots: u32,
    pub(super) limits: SessionLimits,
}

impl GrantedForeChannel {
    pub(super) fn of(channel: &ChannelAttrs4<'_>) -> Self {
        Self {
            slots: channel.ca_maxrequests,
            limits: SessionLimits {
                request_bytes: channel.ca_maxrequestsize,
                response_bytes: channel.ca_maxresponsesize,
                operations: channel.ca_maxoperations,
            },
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyStatusesAndSessionGrants {
    /// Status of each executed operation of a COMPOUND, or of the one procedure.
    pub(super) statuses: Vec<u32>,
    pub(super) fore_channel: Option<GrantedForeChannel>,
    /// `true` if CREATE_SESSION made its connection the backchannel of the session. RFC 8881 section 18.36.3.
    pub(super) has_backchannel: bool,
    /// `true` if EXCHANGE_ID returned a confirmed client ID. RFC 8881 section 18.35.3.
    pub(super) has_confirmed_client: bool,
    /// Session ID, slot and sequence ID in the result of SEQUENCE.
    pub(super) sequence: Option<([u8; 16], u32, u32)>,
    /// Stateid of the first LOCK, without its seqid.
    pub(super) lock_stateid_other: Option<[u8; 12]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompoundResultStructure {
    operations: Vec<Operation>,
    /// Status of the last one, or of the COMPOUND if none was executed.
    last_status: u32,
    /// Rule that the results break by themselves, whatever they were requested for.
    violation: Option<&'static str>,
}

impl CompoundResultStructure {
    /// Returns the rule that the results break by themselves, or as results of the operations that were sent.
    pub(super) fn violation(&self, sent: &[Operation]) -> Option<&'static str> {
        let executed = &self.operations;
        let is_result = |(sent, executed): (&Operation, &Operation)| {
            // PUTROOTFH was sent as PUTFH, and an unknown operation has its own result: RFC 8881 section 18.57.
            sent == executed
                || *executed == Operation::ILLEGAL
                || matches!(*sent, Operation::PUTROOTFH | Operation::PUTPUBFH) && *executed == Operation::PUTFH
        };
        let is_complete = executed.len() == sent.len() || self.last_status != 0;
        let is_other = executed.len() > sent.len() || !sent.iter().zip(executed).all(is_result) || !is_complete;
        self.violation.or_else(|| (sent.len() < MAX_OPERATIONS && is_other).then_some(OTHER_OPERATIONS))
    }
}

impl ReplyStatusesAndSessionGrants {
    /// Decodes an RPC message. The outcome is empty if it cannot be decoded or RPC reports an error.
    pub(super) fn of(procedure: Option<Procedure>, cursor: Cursor<'_>) -> Self {
        Self::with_structure(procedure, cursor).0
    }

    /// Decodes a Reply as [`of`](Self::of). Returns the structure of the results, too, if they are of a COMPOUND.
    pub(super) fn with_structure(
        procedure: Option<Procedure>,
        mut cursor: Cursor<'_>,
    ) -> (Self, Option<CompoundResultStructure>) {
        let mut outcome = Self::default();
        let Ok(message) = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver) else {
            return (outcome, None);
        };
        if !message.reply().is_some_and(|reply| reply.status().is_success()) {
            return (outcome, None);
        }
        let Some(Procedure::Compound) = procedure else {
            let status = procedure.and_then(|procedure| procedure.status(cursor).ok().flatten());
            outcome.statuses.extend(status.map(|status| match (procedure, status.number) {
                (Some(Procedure::Nlm1(_) | Procedure::Nlm3(_) | Procedure::Nlm4(_)), NLM_GRACE) => GRACE,
                (_, status) => status,
            }));
            return (outcome, None);
        };
        let mut structure = CompoundResultStructure::default();
        let Ok(reply) = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver) else {
            structure.violation = Some(UNDECODABLE_RESULTS);
            return (outcome, Some(structure));
        };
        for results in reply.operations().take(MAX_OPERATIONS) {
            let Ok(results) = results else {
                structure.violation.get_or_insert(UNDECODABLE_RESULTS);
                break;
            };
            if outcome.statuses.last().is_some_and(|status| *status != 0) {
                structure.violation.get_or_insert(RESULTS_AFTER_ERROR);
            }
            outcome.statuses.push(results.status().0);
            structure.operations.push(results.operation());
            match &results {
                Results::CREATE_SESSION(StatusUnion::Ok(granted)) => {
                    outcome.fore_channel = Some(GrantedForeChannel::of(&granted.csr_fore_chan_attrs));
                    let flag = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
                    outcome.has_backchannel = granted.csr_flags.contains(flag);
                }
                Results::EXCHANGE_ID(StatusUnion::Ok(ok)) => {
                    let confirmed = ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R;
                    outcome.has_confirmed_client = ok.eir_flags.contains(confirmed);
                }
                Results::LOCK(v4::LockRes::Ok(ok)) => {
                    outcome.lock_stateid_other.get_or_insert(ok.lock_stateid.other);
                }
                Results::SEQUENCE(StatusUnion::Ok(ok)) => {
                    outcome.sequence = Some((ok.sr_sessionid, ok.sr_slotid, ok.sr_sequenceid));
                }
                _ => {}
            }
        }
        structure.last_status = outcome.statuses.last().copied().unwrap_or(reply.head.status.0);
        let is_whole = reply.count() as usize <= MAX_OPERATIONS;
        if is_whole && structure.last_status != reply.head.status.0 {
            structure.violation.get_or_insert(OTHER_COMPOUND_STATUS);
        }
        (outcome, Some(structure))
    }

    pub(super) fn last_status(&self) -> Option<u32> {
        self.statuses.last().copied()
    }

    pub(super) fn is_delayed(&self) -> bool {
        matches!(self.statuses.last(), Some(&(DELAY | GRACE)))
    }

    pub(super) fn is_success(&self) -> bool {
        self.statuses.last() == Some(&0)
    }

    /// Returns `true` if the last status refuses an operation because a name or a lock exists or does not.
    pub(super) fn is_refused(&self) -> bool {
        // NFSv3 has the same numbers. RFC 1813 section 2.6, RFC 8881 section 15.1.
        self.statuses.last().is_some_and(|status| {
            matches!(
                Nfsstat4(*status),
                Nfsstat4::NFS4ERR_NOENT
                    | Nfsstat4::NFS4ERR_EXIST
                    | Nfsstat4::NFS4ERR_NOTEMPTY
                    | Nfsstat4::NFS4ERR_DENIED
                    | Nfsstat4::NFS4ERR_SHARE_DENIED
            )
        })
    }

    /// Returns `true` if the slot's sequence ID was used, now or before. RFC 8881 section 2.10.6.1.
    pub(super) fn is_sequenced(&self) -> bool {
        matches!(self.statuses.first(), Some(&(0 | RETRY_UNCACHED_REP)))
    }

    /// Returns `true` if SEQUENCE or the next operation reports a Call executed before and not cached.
    pub(super) fn is_uncached(&self) -> bool {
        self.statuses.iter().take(2).any(|status| *status == RETRY_UNCACHED_REP)
    }

    /// Returns `true` if the first operation failed because the connection is not bound to the session. RFC 8881
    /// section 15.1.11.6.
    pub(super) fn is_connection_unbound(&self) -> bool {
        self.statuses.first() == Some(&Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION.0)
    }

    /// Returns the last status if state is unknown. RFC 8881 section 8.4.2, RFC 7530 sections 9.6.2 and 9.6.3.
    pub(super) fn forgotten_state_status(&self) -> Option<u32> {
        self.statuses.last().copied().filter(|status| {
            matches!(
                Nfsstat4(*status),
                Nfsstat4::NFS4ERR_STALE_CLIENTID
                    | Nfsstat4::NFS4ERR_STALE_STATEID
                    | Nfsstat4::NFS4ERR_EXPIRED
                    | Nfsstat4::NFS4ERR_BADSESSION
                    | Nfsstat4::NFS4ERR_DEADSESSION
            )
        })
    }

    /// Returns the status with which the server says that this program broke the protocol, of these operations in
    /// this minor version, and what says that its operation cannot have it, if it cannot.
    pub(super) fn client_error(
        &self,
        minor: u32,
        operations: &[Operation],
    ) -> Option<(&'static str, Option<ImpossibleStatus>)> {
        let at = self.statuses.iter().position(|status| blames_client(Nfsstat4(*status)))?;
        let status = Nfsstat4(*self.statuses.get(at)?);
        let operation = operations.get(at).copied();
        let impossible = (!can_have(minor, operation, status))
            .then(|| ImpossibleStatus { operation, section: statuses::section(minor, operation) });
        Some((status.name()?, impossible))
    }
}

/// That an operation cannot have its status.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImpossibleStatus {
    /// `None` for a COMPOUND without results.
    pub(super) operation: Option<Operation>,
    /// Section that lists the statuses of the operation.
    pub(super) section: &'static str,
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::{nlm, v3};

    use super::*;

    #[test]
    fn rfc1813_section_6_1_4_a_grace_period_of_nlm_is_waited_out() {
        // Header of an accepted Reply, a cookie of four bytes, and the status.
        let reply = |status| [9, 1, 0, 0, 0, 0, 4, 7, status].map(u32::to_be_bytes).concat();
        let lock = Some(Procedure::Nlm4(nlm::v4::Procedure::LOCK));
        assert!(ReplyStatusesAndSessionGrants::of(lock, Cursor::new(&reply(4))).is_delayed());
        assert!(!ReplyStatusesAndSessionGrants::of(lock, Cursor::new(&reply(1))).is_delayed());
        // The same number is another status in NFSv3.
        let results = [9, 1, 0, 0, 0, 0, 4].map(u32::to_be_bytes).concat();
        let getattr = Some(Procedure::V3(v3::Procedure::GETATTR));
        assert!(!ReplyStatusesAndSessionGrants::of(getattr, Cursor::new(&results)).is_delayed());
    }

    /// Returns the structure of a COMPOUND with this status and results of operations without a body.
    fn compound(status: u32, results: &[(Operation, u32)]) -> CompoundResultStructure {
        let head = [9, 1, 0, 0, 0, 0, status, 0, results.len() as u32];
        let results = results.iter().flat_map(|(operation, status)| [operation.number().0, *status]);
        let reply: Vec<u8> = head.into_iter().chain(results).flat_map(u32::to_be_bytes).collect();
        let compound = Some(Procedure::Compound);
        ReplyStatusesAndSessionGrants::with_structure(compound, Cursor::new(&reply)).1.unwrap()
    }

    #[test]
    fn rfc8881_section_16_2_3_a_compound_has_a_result_for_each_operation_up_to_the_first_error() {
        use Operation as Op;
        let sent = [Op::PUTROOTFH, Op::SAVEFH, Op::RESTOREFH];
        let violation = |status, results: &[(Operation, u32)]| compound(status, results).violation(&sent);
        let all = [(Op::PUTFH, 0), (Op::SAVEFH, 0), (Op::RESTOREFH, 0)];
        assert_eq!(violation(0, &all), None);
        assert_eq!(violation(10, &[(Op::PUTFH, 0), (Op::SAVEFH, 10)]), None);
        assert_eq!(violation(10_044, &[(Op::PUTFH, 0), (Op::ILLEGAL, 10_044)]), None);
        assert_eq!(violation(10_021, &[]), None, "another minor version");
        assert_eq!(violation(0, &[]), Some(OTHER_OPERATIONS));
        assert_eq!(violation(0, &all[..2]), Some(OTHER_OPERATIONS));
        assert_eq!(violation(0, &[(Op::PUTFH, 0), (Op::RESTOREFH, 0), (Op::SAVEFH, 0)]), Some(OTHER_OPERATIONS));
        assert_eq!(violation(0, &[&all[..], &all[1..2]].concat()), Some(OTHER_OPERATIONS));
        assert_eq!(violation(0, &[(Op::PUTFH, 0), (Op::SAVEFH, 10)]), Some(OTHER_COMPOUND_STATUS));
        assert_eq!(violation(0, &[(Op::PUTFH, 10), (Op::SAVEFH, 0)]), Some(RESULTS_AFTER_ERROR));
        assert_eq!(violation(0, &[(Op::PUTFH, 0), (Op::GETFH, 0)]), Some(UNDECODABLE_RESULTS));
    }

    #[test]
    fn rfc8881_section_18_35_2_exchange_id_reports_a_confirmed_client() {
        // Header of an accepted Reply, COMPOUND of one operation, EXCHANGE_ID: status, client ID, sequence, flags, no
        // state protection, server owner and scope, and no implementation ID.
        let reply = |flags: u32| {
            let header = [9, 1, 0, 0, 0, 0];
            let results = [0, 0, 1, 42, 0, 0, 7, 1, flags, 0, 0, 0, 0, 0, 0];
            [&header[..], &results].concat().into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>()
        };
        let is_confirmed = |flags| {
            let outcome = ReplyStatusesAndSessionGrants::of(Some(Procedure::Compound), Cursor::new(&reply(flags)));
            assert_eq!(outcome.statuses, [0]);
            outcome.has_confirmed_client
        };
        assert!(is_confirmed(0x8001_0000));
        assert!(!is_confirmed(0x0001_0000));
    }
}
