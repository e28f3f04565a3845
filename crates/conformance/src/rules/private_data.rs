//! Private data, remote invalidation, ports and dialects: RFC 8797, RFC 8267 section 6.3.

use nfsrdma_dissectors::rpcrdma::{PrivateDataVersionFlags, SidePrivateData};
use nfsrdma_flow::{NFS_RDMA_PORT, SetUpFrame};

use super::prelude::*;

/// Version of the private data. RFC 8797 section 4.
const PRIVATE_DATA_VERSION: u8 = 1;

/// Declaration of one side in the set-up of its connection.
struct PrivateDataDeclaration {
    side: EndpointRole,
    data: SidePrivateData,
    format: Option<PrivateDataVersionFlags>,
    frame: Option<SetUpFrame>,
}

/// Returns the declarations of both sides: once per connection, with its first Transaction.
fn declarations(transaction: &ConformanceTransaction<'_>) -> Option<[PrivateDataDeclaration; 2]> {
    let set_up = transaction.set_up().filter(|_| transaction.connection.first_frame.is_none())?;
    Some([
        PrivateDataDeclaration {
            side: EndpointRole::Client,
            data: set_up.client,
            format: set_up.client_format,
            frame: set_up.client_frame,
        },
        PrivateDataDeclaration {
            side: EndpointRole::Server,
            data: set_up.server,
            format: set_up.server_format,
            frame: set_up.server_frame,
        },
    ])
}

/// Judges the format of the private data of each side that sent some.
fn format_verdict(
    transaction: &ConformanceTransaction<'_>,
    field: &'static str,
    fault: impl Fn(PrivateDataVersionFlags) -> Option<String>,
) -> Option<RuleVerdict> {
    let sides = declarations(transaction)?;
    sides.iter().find(|declared| declared.format.is_some())?;
    let violation = sides.iter().find_map(|declared| Some((declared, fault(declared.format?)?)));
    Some(match violation {
        None => RuleVerdict::Kept,
        Some((PrivateDataDeclaration { side, frame, .. }, text)) => {
            RuleVerdict::broken(text).by(*side).in_set_up(*frame).at_field(field)
        }
    })
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/inval-not-announced",
        section: "RFC 8797 section 4.1",
        requirement: "A Responder uses Send With Invalidate only if both sides set the R bit in their private data.",
        explanation: "A Requester that did not set R may not expect that its memory is invalidated: it invalidates the \
            memory again, or still uses it. The Linux NFS server does not set R itself, and invalidates memory of clients \
            that set it. A server that does the same has findings of severity known, whatever its implementation; not_known \
            of --config makes them errors. Example: the private data of the client has R clear, and a reply of READ comes as \
            Send With Invalidate: \"invalidated, but the client did not set R\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::Invalidation],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Message(|message| {
            let handle = message.record.invalidated_handle.filter(|_| !message.is_call())?;
            let set_up = message.transaction.set_up()?;
            let announced = |side: SidePrivateData| side.effective().map(|data| data.remote_invalidation);
            let (Some(client), Some(server)) = (announced(set_up.client), announced(set_up.server)) else {
                return Some(RuleVerdict::Unknown);
            };
            let values = [0, handle.0.into(), client.into(), server.into()];
            Some(RuleVerdict::measured(client && server, values, |aggregate| {
                let [_, handle, client, server] = aggregate.worst;
                let missing = match (client, server) {
                    (0, 0) => "neither side set R",
                    (0, _) => "the client did not set R",
                    _ => "the server did not set R",
                };
                let handle = Handle(u32::try_from(handle).unwrap_or(u32::MAX));
                format!("handle {handle} invalidated, but {missing}")
            }))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/inval-foreign",
        section: "RFC 8797 section 4.1",
        requirement: "A Send With Invalidate invalidates a handle of the call with the XID that the reply carries.",
        explanation: "The memory of another call may still be in use: that call then fails with a Remote Access Error. Or \
            the Requester waits for an invalidation that does not come. Example: two READs are in flight, and the reply of \
            the second invalidates the Write chunk of the first: \"is not of this call\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::Invalidation],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Transaction(|transaction| {
            let handle = transaction.reply()?.invalidated_handle?;
            // An earlier copy of the Call may have offered other memory.
            if transaction.call()?.copies > 1 {
                return Some(RuleVerdict::Unknown);
            }
            let mut segments = transaction.offered_chunks().flat_map(|chunk| &chunk.segments);
            let is_own = segments.any(|segment| segment.handle == handle);
            Some(RuleVerdict::from_condition(is_own, || format!("handle {handle} is not of this call")))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/inval-on-call",
        section: "RFC 8797 section 4.1",
        requirement: "Only replies use Send With Invalidate.",
        explanation: "The receiver of a call offers no memory for it, so that the invalidated handle belongs to something \
            else. Example: a client sends GETATTR as Send With Invalidate: \"a call invalidates handle 0x77770000\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::MessageKind],
        suspects: &[RequiredMessageProperty::Invalidation],
        check: RuleCheck::Message(|message| {
            message.is_call().then_some(())?;
            let handle = message.record.invalidated_handle;
            let fault = handle.map(|handle| format!("a call invalidates handle {handle}"));
            Some(RuleVerdict::from_fault(fault))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/private-reserved",
        severity: Severity::Warning,
        section: "RFC 8797 section 4",
        requirement: "The reserved bits of the private data are zero.",
        explanation: "Receivers ignore the bits today; a later format may give them a meaning, which this sender would \
            announce. The RFC says MUST; a warning, because no receiver is affected. Example: R is set, and the highest bit, \
            too: \"flags 0x81\".",
        subjects: &[RequiredMessageProperty::FirstOfConnection],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Transaction(|transaction| {
            format_verdict(
                transaction,
                field_names::RPCORDMA_PRIVATE_DATA_FLAGS,
                |PrivateDataVersionFlags { version, flags }| {
                    let is_set =
                        version == PRIVATE_DATA_VERSION && flags & PrivateDataVersionFlags::RESERVED_FLAGS != 0;
                    is_set.then(|| format!("flags 0x{flags:02x}"))
                },
            )
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/private-version",
        severity: Severity::Info,
        section: "RFC 8797 sections 4 and 5.1",
        requirement: "Observation: the private data has another version than 1, the only one that is defined.",
        explanation: "A receiver that does not know the version acts as if there were no private data: inline thresholds of \
            1,024 bytes, and no remote invalidation. Example: a client sends a format that RFC 8797 does not have: \"version \
            2\".",
        subjects: &[RequiredMessageProperty::FirstOfConnection],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Transaction(|transaction| {
            format_verdict(
                transaction,
                field_names::RPCORDMA_PRIVATE_DATA_VERSION,
                |PrivateDataVersionFlags { version, .. }| {
                    (version != PRIVATE_DATA_VERSION).then(|| format!("version {version}"))
                },
            )
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/private-none",
        severity: Severity::Info,
        section: "RFC 8797 section 5.1",
        requirement: "Observation: a side connects without private data, as it may.",
        explanation: "Without it, inline thresholds are 1,024 bytes in both directions and there is no remote invalidation. \
            Most calls and replies of NFSv4 then need chunks, each with an RDMA operation. Example: a client connects with \
            an REQ whose private data does not begin with 0xf6ab0e18: \"no private data of RPC-over-RDMA: inline thresholds of 1024 bytes\".",
        subjects: &[RequiredMessageProperty::FirstOfConnection],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Transaction(|transaction| {
            let sides = declarations(transaction)?;
            if sides.iter().all(|declared| declared.data == SidePrivateData::Cut) {
                return Some(RuleVerdict::Unknown);
            }
            let undeclared =
                sides.iter().find(|declared| declared.data == SidePrivateData::Absent && declared.format.is_none());
            Some(match undeclared {
                None => RuleVerdict::Kept,
                Some(PrivateDataDeclaration { side, frame, .. }) => {
                    RuleVerdict::broken("no private data of RPC-over-RDMA: inline thresholds of 1024 bytes".to_owned())
                        .by(*side)
                        .in_set_up(*frame)
                }
            })
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/thresholds-shrank",
        severity: Severity::Warning,
        section: "RFC 8797 section 4",
        requirement: "Inline thresholds do not shrink on the new connection of a client that sends a call again.",
        explanation: "The thresholds may change on a reconnection. A client that encodes a call once, and sends it again as \
            it is, may exceed a smaller threshold, and the connection ends again. The length of the call is not judged here: \
            see rpcrdma/send-too-long for Sends that exceed the threshold. Look at the configuration of the server that took \
            over, or at the device that the client connects through. Example: a client reconnects to a server that receives \
            2,048 bytes where the one before received 4,096: \"thresholds 4096 and 2048 bytes, 4096 and 4096 on the \
            connection before\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::RepeatedCall],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Message(|message| {
            let view = message.transaction;
            message.version1().filter(|_| message.is_call() && view.transaction.retry_of.is_some())?;
            let (before_to_server, before_to_client) = view.connection.previous_thresholds?;
            let Some((to_server, to_client)) = view.set_up()?.inline_thresholds() else {
                return Some(RuleVerdict::Unknown);
            };
            let is_kept = to_server >= before_to_server && to_client >= before_to_client;
            Some(RuleVerdict::from_condition(is_kept, || {
                format!(
                    "thresholds {to_server} and {to_client}, {before_to_server} and {before_to_client} on the \
                     connection before",
                    to_client = CountWithNoun(to_client, "byte")
                )
            }))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/port",
        severity: Severity::Warning,
        section: "RFC 8267 section 6.3",
        requirement: "A server of NFS version 4 offers NFS over RDMA at port 20049.",
        explanation: "Clients connect to this port without asking rpcbind. Each mount must name another one; port 2049 is \
            that of NFS over TCP. The RFC says MUST; a warning, because a site may choose its ports. Example: an NFSv4 \
            client mounts with port=2049: \"port 2049\".",
        subjects: &[RequiredMessageProperty::FirstOfNfs4],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Transaction(|transaction| {
            // Once per connection: with its first Call of NFS version 4.
            if !transaction.is_nfs4() || transaction.connection.has_nfs4 {
                return None;
            }
            // A service ID outside the port space of TCP has none.
            let set_up = transaction.set_up()?;
            let port = set_up.service.port()?;
            let verdict = RuleVerdict::from_condition(port == NFS_RDMA_PORT, || format!("port {port}"));
            // The client names the port in its request.
            Some(verdict.by(EndpointRole::Server).in_set_up(set_up.client_frame))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "dialect/rfc5666",
        severity: Severity::Info,
        section: "RFC 5666 sections 3.5 and 4.1, RFC 8166 sections 4.3.1 and 4.6",
        requirement: "Observation: a Requester fetches the Read chunks of a reply and confirms with RDMA_DONE, as in RFC 5666.",
        explanation: "RFC 8166 removed these Read-Read transfers: peers that follow it do not understand them. On a \
            connection that uses them, rules that forbid them are off: rpcrdma/reply-read-list, rpcrdma/wrong-side, \
            rpcrdma/handle-unknown, rpcrdma/msgp and rpcrdma/done. Example: a reply of READ has a Read chunk, the client \
            reads 1,024 bytes from the server: \"1 Read chunk in a reply, fetched by the requester, confirmed with \
            RDMA_DONE\".",
        subjects: &[RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| !message.is_call())?;
            let view = message.transaction;
            let is_read_read = !view.transaction.reply_read_chunks.is_empty() && view.is_rfc5666();
            Some(RuleVerdict::from_condition(!is_read_read, || {
                let chunks = view.transaction.reply_read_chunks.len();
                let end = if view.transaction.is_done { ", confirmed with RDMA_DONE" } else { "" };
                format!(
                    "{chunks} in a reply, fetched by the requester{end}",
                    chunks = CountWithNoun(chunks, "Read chunk")
                )
            }))
        }),
        ..Rule::PER_CONNECTION
    },
];
