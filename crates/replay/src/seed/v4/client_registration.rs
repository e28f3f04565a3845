//! Registration of a client at an NFSv4 server. RFC 7530 section 9.1.1, RFC 8881 section 2.4.

use nfsrdma_dissectors::nfs::v4::{
    Args, CallbackSecParms4, CbClient4, ChannelAttrs4, ClientOwner4, Clientid4, CreateSession4Args,
    CreateSessionFlags, ExchangeId4Args, ExchangeIdFlags, Netaddr4, NfsClientId4, Operation, Results,
    Setclientid4Args, SetclientidConfirm, StateProtect4A, UniversalAddress,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{List, Opaque, Text};

use super::{Nfs4ClientState, run};
use crate::containment::ContainmentCheckedRpcClient;
use crate::seed::file_server_client::{FileServerClientError, SessionLimits};

pub(super) fn set_clientid(
    line: &mut ContainmentCheckedRpcClient<'_>,
    name: &str,
) -> Result<Nfs4ClientState, FileServerClientError> {
    let set = Args::SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier: [7; 8], id: Opaque(name.as_bytes()) },
        callback: CbClient4 {
            cb_program: Program::NFS_CB.0,
            cb_location: Netaddr4 {
                na_r_netid: Text(b"tcp"),
                na_r_addr: UniversalAddress(Text(b"0.0.0.0.0.0")),
            },
        },
        callback_ident: 1,
    });
    let (clientid, verifier) = run(line, 0, &Operation::SETCLIENTID, &[set], &[], |results| match results {
        Results::SETCLIENTID(outcome) => outcome.ok().map(|ok| (ok.clientid, ok.setclientid_confirm)),
        _ => None,
    })?;
    let confirm = SetclientidConfirm { clientid, setclientid_confirm: verifier };
    let confirm = Args::SETCLIENTID_CONFIRM(confirm);
    run(line, 0, &Operation::SETCLIENTID_CONFIRM, &[confirm], &[], |_| Some(()))?;
    Ok(Nfs4ClientState::Client { clientid, seqid: 0 })
}

/// Registers a client and creates a session. `known` has the client ID and the next csa_sequence of a client that was
/// registered under this name before.
pub(super) fn create_session(
    line: &mut ContainmentCheckedRpcClient<'_>,
    minor: u32,
    name: &str,
    known: Option<(Clientid4, u32)>,
) -> Result<Nfs4ClientState, FileServerClientError> {
    let exchange = Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [7; 8], co_ownerid: Opaque(name.as_bytes()) },
        eia_flags: ExchangeIdFlags(0),
        eia_state_protect: StateProtect4A::None,
        eia_client_impl_id: List::default(),
    }));
    let (clientid, sequence) =
        run(line, minor, &Operation::EXCHANGE_ID, &[exchange], &[], |results| match results {
            Results::EXCHANGE_ID(outcome) => outcome.ok().map(|ok| {
                // RFC 8881 section 18.35.3: eir_sequenceid of a confirmed client is ignored.
                let is_confirmed = ok.eir_flags.contains(ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R);
                let known = known.filter(|(clientid, _)| is_confirmed && *clientid == ok.eir_clientid);
                known.unwrap_or((ok.eir_clientid, ok.eir_sequenceid))
            }),
            _ => None,
        })?;
    let attributes = |size| ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: size,
        ca_maxresponsesize: size,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 64,
        ca_maxrequests: 16,
        ca_rdma_ird: List::default(),
    };
    let create = Args::CREATE_SESSION(Box::new(CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: CreateSessionFlags(0),
        csa_fore_chan_attrs: attributes(2 << 20),
        csa_back_chan_attrs: attributes(4096),
        csa_cb_program: Program::NFS_CB.0,
        csa_sec_parms: List::from(&[CallbackSecParms4::None][..]),
    }));
    run(line, minor, &Operation::CREATE_SESSION, &[create], &[], |results| match results {
        Results::CREATE_SESSION(outcome) => outcome.ok().map(|ok| {
            let channel = &ok.csr_fore_chan_attrs;
            let limits = SessionLimits {
                request_bytes: channel.ca_maxrequestsize,
                response_bytes: channel.ca_maxresponsesize,
                operations: channel.ca_maxoperations,
            };
            let (id, slots) = (ok.csr_sessionid, channel.ca_maxrequests);
            let create_sequence = sequence.wrapping_add(1);
            Nfs4ClientState::Session { clientid, create_sequence, id, sequence: 0, slots, limits }
        }),
        _ => None,
    })
}
