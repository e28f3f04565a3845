//! Registration of a client at an NFSv4 server. RFC 7530 section 9.1.1, RFC 8881 section 2.4.

use nfsrdma_dissectors::nfs::v4::{
    Args, CbClient4, Clientid4, ExchangeIdFlags, Netaddr4, NfsClientId4, Operation, Results,
    Setclientid4Args, SetclientidConfirm, UniversalAddress,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Opaque, Text};

use super::{Nfs4ClientState, run};
use crate::containment::ContainmentCheckedRpcClient;
use crate::nfs4_session_operations::{channel, create_session, exchange_id};
use crate::seed::file_server_client::{FileServerResult, SessionLimits};

/// The verifier of the client, which does not restart.
const VERIFIER: [u8; 8] = [7; 8];

/// Registers a client, and from NFSv4.1 on creates a session. `known` has the client ID and the next csa_sequence of a
/// client that was registered under this name before.
pub(super) fn register(
    line: &mut ContainmentCheckedRpcClient<'_>,
    minor: u32,
    name: &str,
    known: Option<(Clientid4, u32)>,
) -> FileServerResult<Nfs4ClientState> {
    if minor == 0 { set_clientid(line, name) } else { open_session(line, minor, name, known) }
}

fn set_clientid(line: &mut ContainmentCheckedRpcClient<'_>, name: &str) -> FileServerResult<Nfs4ClientState> {
    let set = Args::SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier: VERIFIER, id: Opaque(name.as_bytes()) },
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

fn open_session(
    line: &mut ContainmentCheckedRpcClient<'_>,
    minor: u32,
    name: &str,
    known: Option<(Clientid4, u32)>,
) -> FileServerResult<Nfs4ClientState> {
    let exchange = exchange_id(name, VERIFIER);
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
    let channels = [channel(2 << 20, 4096, 64, 16), channel(4096, 4096, 64, 16)];
    let create = create_session(clientid, sequence, channels);
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
