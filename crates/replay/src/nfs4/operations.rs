//! Operations that set up and use a session of NFSv4.1 or later, and the results of a COMPOUND.

use nfsrdma_dissectors::nfs::v4::{
    Args, CallbackSecParms4, ChannelAttrs4, ClientOwner4, Clientid4, CompoundReply, CreateSession4Args,
    CreateSessionFlags, ExchangeId4Args, ExchangeIdFlags, Nfsstat4, Operation, Results, Sequence4Args, Sessionid4,
    StateProtect4A,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Opaque, XdrArray, XdrError};

/// Returns EXCHANGE_ID for a client owner. RFC 8881 section 18.35.
pub(crate) fn exchange_id(owner: &str, verifier: [u8; 8]) -> Args<'_> {
    Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: verifier, co_ownerid: Opaque(owner.as_bytes()) },
        eia_flags: ExchangeIdFlags(0),
        eia_state_protect: StateProtect4A::None,
        eia_client_impl_id: XdrArray::default(),
    }))
}

/// Returns CREATE_SESSION with the attributes of its fore channel and its backchannel. RFC 8881 section 18.36.
pub(crate) fn create_session(
    csa_clientid: Clientid4,
    csa_sequence: u32,
    [csa_fore_chan_attrs, csa_back_chan_attrs]: [ChannelAttrs4<'static>; 2],
) -> Args<'static> {
    Args::CREATE_SESSION(Box::new(CreateSession4Args {
        csa_clientid,
        csa_sequence,
        csa_flags: CreateSessionFlags(0),
        csa_fore_chan_attrs,
        csa_back_chan_attrs,
        csa_cb_program: Program::NFS_CB.0,
        csa_sec_parms: XdrArray::from(&[CallbackSecParms4::None][..]),
    }))
}

/// Returns channel attributes for messages of `bytes`, of which Replies of `cached_bytes` are cached.
pub(crate) fn channel(bytes: u32, cached_bytes: u32, operations: u32, slots: u32) -> ChannelAttrs4<'static> {
    ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: bytes,
        ca_maxresponsesize: bytes,
        ca_maxresponsesize_cached: cached_bytes,
        ca_maxoperations: operations,
        ca_maxrequests: slots,
        ca_rdma_ird: XdrArray::default(),
    }
}

/// Returns SEQUENCE for the first slot of a session. RFC 8881 section 18.46.
pub(crate) fn sequence(session: Sessionid4, sequence: u32, is_cached: bool) -> Args<'static> {
    Args::SEQUENCE(Sequence4Args {
        sa_sessionid: session,
        sa_sequenceid: sequence,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: is_cached,
    })
}

/// The reason that a COMPOUND has no value.
#[derive(Debug)]
pub(crate) enum CompoundFailure {
    /// The first failed operation and its status; no operation if only the COMPOUND failed.
    Status(Option<Operation>, Nfsstat4),
    /// The results are not those of the operations that were sent, in their order.
    OtherOperations,
}

/// Reads the results of a COMPOUND. Returns the last value that `read` extracts from them.
pub(crate) fn read_results<T>(
    sent: &[Args<'_>],
    reply: &CompoundReply<'_>,
    read: &mut impl FnMut(&Results<'_>) -> Option<T>,
) -> Result<Result<Option<T>, CompoundFailure>, XdrError> {
    let mut value = None;
    let mut operations = sent.iter();
    for results in reply.operations() {
        let results = results.map_err(|stop| stop.error)?;
        // RFC 8881 section 16.2.3: the operation number of an unknown operation is replaced.
        let is_sent = |operation: &Args<'_>| [operation.operation(), Operation::ILLEGAL].contains(&results.operation());
        if !operations.next().is_some_and(is_sent) {
            return Ok(Err(CompoundFailure::OtherOperations));
        }
        if results.status() != Nfsstat4::NFS4_OK {
            return Ok(Err(CompoundFailure::Status(Some(results.operation()), results.status())));
        }
        value = read(&results).or(value);
    }
    Ok(match reply.head.status {
        Nfsstat4::NFS4_OK if operations.next().is_some() => Err(CompoundFailure::OtherOperations),
        Nfsstat4::NFS4_OK => Ok(value),
        status => Err(CompoundFailure::Status(None, status)),
    })
}
