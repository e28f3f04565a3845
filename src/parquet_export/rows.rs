//! Rows of the tables of Transactions, of the segments of their chunks, and of connections.

use std::borrow::Cow;
use std::marker::PhantomData;

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_dissectors::address::VirtualNetwork;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, Endpoint, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::RpcSummary;

use super::connection_tally::ExportedConnectionTraffic;
use super::table_schema::{TimestampMicros, table};
use crate::output::json::line;

table! {
    /// One row per transaction: an RPC with its call, its reply and the RDMA transfers between them.
    TransactionRow<'r> "transactions" {
        /// Number of the transaction in its capture, from 1, in the order in which transactions close.
        index: u64,
        /// Number of the connection in its capture, from 1.
        connection: u64,
        /// `rocev2`, `rocev1`, `infiniband`, `iwarp`, `tcp` or `udp`.
        transport: Cow<'r, str>,
        /// Address of the side that opened the connection.
        client: Option<Cow<'r, str>>,
        /// Its TCP or UDP port, or its QP number.
        client_port: Option<u64>,
        /// Address of the other side.
        server: Option<Cow<'r, str>>,
        /// Its TCP or UDP port, or its QP number.
        server_port: Option<u64>,
        /// Identifiers of the VLANs of the connection, outermost first, separated by commas; null without VLAN.
        vlan_ids: Option<Cow<'r, str>>,
        /// VNI of VXLAN, or VSID of NVGRE, of its virtual network; null without one.
        vni: Option<u64>,
        /// `forward`: the call comes from the client; `reverse`: from the server (RFC 8167).
        direction: Cow<'r, str>,
        /// Transaction identifier of the RPC, as `0x` and 8 digits.
        xid: Cow<'r, str>,
        /// Number of the RPC program.
        program: Option<u64>,
        /// Name of the RPC program.
        program_name: Option<Cow<'r, str>>,
        /// Version of the program.
        version: Option<u64>,
        /// Minor version of NFSv4.
        minor_version: Option<u64>,
        /// RFC name of the procedure.
        procedure: Option<Cow<'r, str>>,
        /// The procedure, or the main operation of a COMPOUND.
        operation: Option<Cow<'r, str>>,
        /// Status of the procedure: `NFS4_OK`, `NFS3ERR_NOENT`.
        status: Option<Cow<'r, str>>,
        /// Status of the RPC: `SUCCESS`, or the error.
        rpc_status: Option<Cow<'r, str>>,
        /// First frame of the call, in microseconds; null without a call.
        call_time: Option<TimestampMicros>,
        /// First frame of the call, in nanoseconds since 1970-01-01 00:00:00 UTC.
        call_time_ns: Option<Timestamp>,
        /// Last frame of the copy of the call that the server accepted, in nanoseconds.
        call_end_time_ns: Option<Timestamp>,
        /// Evidence for that copy: `acknowledged`, or `assumed` for the first complete copy that was not refused, if no
        /// captured acknowledgement identifies it.
        call_delivered: Option<Cow<'r, str>>,
        /// Number of the first frame of the call.
        call_frame: Option<u64>,
        /// Number of times the call was sent, by RPC or by the transport.
        call_copies: Option<u64>,
        /// Number of times RPC retransmitted it.
        call_resent: Option<u64>,
        /// `rdma_proc` of the call: `RDMA_MSG`, `RDMA_NOMSG`.
        call_rdma_proc: Option<Cow<'r, str>>,
        /// Credits that the call requests.
        call_credits: Option<u64>,
        /// Inline bytes of the call.
        call_length: Option<u64>,
        /// Bytes of the call, including chunks.
        call_rpc_length: Option<u64>,
        /// First frame of the reply, in microseconds; null without a reply.
        reply_time: Option<TimestampMicros>,
        /// First frame of the reply, in nanoseconds since 1970-01-01 00:00:00 UTC.
        reply_time_ns: Option<Timestamp>,
        /// Last frame of the copy of the reply that the client accepted, in nanoseconds.
        reply_end_time_ns: Option<Timestamp>,
        /// Evidence for that copy: `acknowledged`, or `assumed` for the first complete copy that was not refused, if no
        /// captured acknowledgement identifies it.
        reply_delivered: Option<Cow<'r, str>>,
        /// Number of the first frame of the reply.
        reply_frame: Option<u64>,
        /// Number of times the reply was sent, by RPC or by the transport.
        reply_copies: Option<u64>,
        /// Number of times RPC retransmitted it.
        reply_resent: Option<u64>,
        /// `rdma_proc` of the reply: `RDMA_MSG`, `RDMA_NOMSG`, `RDMA_ERROR`.
        reply_rdma_proc: Option<Cow<'r, str>>,
        /// Credits that the reply grants.
        reply_credits: Option<u64>,
        /// Inline bytes of the reply.
        reply_length: Option<u64>,
        /// Bytes of the reply, including chunks.
        reply_rpc_length: Option<u64>,
        /// Nanoseconds from the first frame of the call to the last of the reply.
        latency_ns: Option<u64>,
        /// Of these: first to last frame of the call.
        phase_call_ns: Option<u64>,
        /// First RDMA Read request to last Read response.
        phase_data_in_ns: Option<u64>,
        /// Time in no other phase: the server and the network.
        phase_server_ns: Option<u64>,
        /// First to last RDMA Write.
        phase_data_out_ns: Option<u64>,
        /// First to last frame of the reply.
        phase_reply_ns: Option<u64>,
        /// Time waiting for packets that were lost or refused, and retransmitted.
        phase_recovery_ns: Option<u64>,
        /// Evidence that `phase_server_ns` may include such time, before the capture point: `nak`, `ack_timeout` or
        /// `unknown_ack_timeout`.
        possible_recovery: Option<Cow<'r, str>>,
        /// Number of Read chunks of the call.
        read_chunks: u64,
        /// Bytes that they offer.
        read_offered: u64,
        /// Bytes of them that were seen to move.
        read_moved: u64,
        /// Number of Write chunks of the call.
        write_chunks: u64,
        /// Bytes that they offer.
        write_offered: u64,
        /// Bytes of them that were seen to move.
        write_moved: u64,
        /// Bytes that the Reply chunk offers; null without one.
        reply_chunk_offered: Option<u64>,
        /// Bytes of it that were seen to move.
        reply_chunk_moved: Option<u64>,
        /// True if the call, the reply and all bytes of chunks are in the capture, the reply was not refused, and it has the
        /// results of the call.
        complete: bool,
        /// Codes of missing parts, separated by spaces; null if nothing is missing.
        missing: Option<Cow<'r, str>>,
        /// True if an RDMA_DONE closed it.
        done: bool,
        /// The `index` of the transaction that it retries on another connection.
        retry_of: Option<u64>,
        /// Path of its file, as far as its names were seen before: `…/log.1` if the directory is unknown, the hash of
        /// the filehandle if no name is known; null without a file.
        path: Option<Cow<'r, str>>,
        /// The other path of RENAME, LINK, COPY and CLONE.
        new_path: Option<Cow<'r, str>>,
    }
}

#[derive(Default)]
struct ParquetRowMessageValues<'r> {
    time: Option<Timestamp>,
    end_time: Option<Timestamp>,
    frame: Option<u64>,
    delivered: Option<Cow<'r, str>>,
    copies: Option<u64>,
    resent: Option<u64>,
    proc: Option<Cow<'r, str>>,
    credits: Option<u64>,
    length: Option<u64>,
    rpc_length: Option<u64>,
}

impl ParquetRowMessageValues<'_> {
    fn of(transaction: &Transaction, kind: RpcMessageKind) -> Self {
        let Some(record) = transaction.message(kind) else { return Self::default() };
        let CapturedMessage {
            time,
            end_time,
            delivery_evidence: delivered,
            copies,
            retransmissions: resent,
            rpcrdma,
            ..
        } = record;
        Self {
            time: Some(*time),
            end_time: Some(*end_time),
            frame: record.frames.first().map(|frame| frame.0),
            delivered: Some(delivered.to_string().into()),
            copies: Some((*copies).into()),
            resent: Some((*resent).into()),
            proc: rpcrdma.map(|header| header.message_type.to_string().into()),
            credits: rpcrdma.and_then(|header| header.credit_word()).map(u64::from),
            length: line::inline_length(record).map(|length| length as u64),
            rpc_length: transaction.rpc_length(kind),
        }
    }
}

fn address<'r>(endpoint: &Endpoint) -> Option<Cow<'r, str>> {
    line::address(endpoint.address).map(|text| text.0.to_string().into())
}

fn vlan_ids<'r>(network: VirtualNetwork) -> Option<Cow<'r, str>> {
    let ids: Vec<String> = network.vlan_ids().map(|id| id.to_string()).collect();
    (!ids.is_empty()).then(|| ids.join(",").into())
}

fn port(endpoint: &Endpoint) -> Option<u64> {
    endpoint.port.map(u64::from)
}

impl<'r> TransactionRow<'r> {
    pub(super) fn of(transaction: &'r Transaction, summary: &RpcSummary, paths: OperationPaths<'r>) -> Self {
        let Transaction { connection, read_chunks, write_chunks, reply_chunk, .. } = transaction;
        let (call, reply) = (
            ParquetRowMessageValues::of(transaction, RpcMessageKind::Call),
            ParquetRowMessageValues::of(transaction, RpcMessageKind::Reply),
        );
        let phases = transaction.phases();
        let missing: Vec<String> = summary.missing(transaction).iter().map(ToString::to_string).collect();
        let sum = |chunks: &[Chunk], size: fn(&Chunk) -> u64| chunks.iter().map(size).sum();
        Self {
            index: transaction.index,
            connection: connection.number,
            transport: connection.transport.to_string().into(),
            client: address(&connection.client),
            client_port: port(&connection.client),
            server: address(&connection.server),
            server_port: port(&connection.server),
            vlan_ids: vlan_ids(connection.tenant),
            vni: connection.tenant.network_identifier().map(u64::from),
            direction: match transaction.direction {
                CallDirection::Forward => "forward".into(),
                CallDirection::Reverse => "reverse".into(),
            },
            xid: format!("{:#010x}", transaction.xid.0).into(),
            program: summary.program.map(|program| program.0.into()),
            program_name: summary.program_name().map(Cow::from),
            version: summary.version.map(u64::from),
            minor_version: summary.minor_version.map(u64::from),
            procedure: line::procedure(summary),
            operation: summary.operation.map(line::name_or_number),
            status: line::status(summary),
            rpc_status: summary.rpc_status.and_then(line::rpc_status).map(Cow::from),
            call_time: call.time.map(TimestampMicros),
            call_time_ns: call.time,
            call_end_time_ns: call.end_time,
            call_delivered: call.delivered,
            call_frame: call.frame,
            call_copies: call.copies,
            call_resent: call.resent,
            call_rdma_proc: call.proc,
            call_credits: call.credits,
            call_length: call.length,
            call_rpc_length: call.rpc_length,
            reply_time: reply.time.map(TimestampMicros),
            reply_time_ns: reply.time,
            reply_end_time_ns: reply.end_time,
            reply_delivered: reply.delivered,
            reply_frame: reply.frame,
            reply_copies: reply.copies,
            reply_resent: reply.resent,
            reply_rdma_proc: reply.proc,
            reply_credits: reply.credits,
            reply_length: reply.length,
            reply_rpc_length: reply.rpc_length,
            latency_ns: transaction.latency_ns(),
            phase_call_ns: phases.map(|phases| phases.call_ns),
            phase_data_in_ns: phases.map(|phases| phases.data_in_ns),
            phase_server_ns: phases.map(|phases| phases.server_ns),
            phase_data_out_ns: phases.map(|phases| phases.data_out_ns),
            phase_reply_ns: phases.map(|phases| phases.reply_ns),
            phase_recovery_ns: phases.map(|phases| phases.recovery_ns),
            possible_recovery: transaction.possible_recovery().map(|evidence| evidence.key().into()),
            read_chunks: read_chunks.len() as u64,
            read_offered: sum(read_chunks, Chunk::offered_bytes),
            read_moved: sum(read_chunks, Chunk::moved_bytes),
            write_chunks: write_chunks.len() as u64,
            write_offered: sum(write_chunks, Chunk::offered_bytes),
            write_moved: sum(write_chunks, Chunk::moved_bytes),
            reply_chunk_offered: reply_chunk.as_ref().map(Chunk::offered_bytes),
            reply_chunk_moved: reply_chunk.as_ref().map(Chunk::moved_bytes),
            complete: missing.is_empty(),
            missing: (!missing.is_empty()).then(|| missing.join(" ").into()),
            done: transaction.is_done,
            retry_of: transaction.retry_of,
            path: paths.path.map(String::from_utf8_lossy),
            new_path: paths.new_path.map(String::from_utf8_lossy),
            of: PhantomData,
        }
    }
}

table! {
    /// One row per segment of a chunk: a range of memory that a message offers.
    SegmentRow<'r> "segments" {
        /// The `index` of its transaction.
        transaction: u64,
        /// Kind of its chunk: `read`, `write` or `reply`; `reply_read`: a Read chunk of the reply (RFC 5666).
        kind: Cow<'r, str>,
        /// Index of the chunk among those of this kind, from 0.
        chunk: u64,
        /// Index of the segment in the chunk, from 0.
        segment: u64,
        /// Position of a Read chunk.
        position: Option<u64>,
        /// Handle of the memory (R_key), as `0x` and 8 digits.
        handle: Cow<'r, str>,
        /// Start of the range, as `0x` and 16 digits.
        offset: Cow<'r, str>,
        /// Bytes offered.
        length: u64,
        /// Write and Reply chunks: bytes written according to the reply.
        returned: Option<u64>,
        /// Bytes that were seen to move.
        moved: u64,
        /// Number of the first frame that moved bytes.
        first_frame: Option<u64>,
        /// Number of the last frame that moved bytes.
        last_frame: Option<u64>,
    }
}

impl SegmentRow<'_> {
    /// Returns the segments of all chunks.
    pub(super) fn of(transaction: &Transaction) -> impl Iterator<Item = SegmentRow<'_>> {
        let kinds = [
            ("read", transaction.read_chunks.as_slice()),
            ("write", &transaction.write_chunks),
            ("reply", transaction.reply_chunk.as_slice()),
            ("reply_read", &transaction.reply_read_chunks),
        ];
        let chunks = kinds
            .into_iter()
            .flat_map(|(kind, chunks)| (0_u64..).zip(chunks).map(move |(number, chunk)| (kind, number, chunk)));
        chunks.flat_map(move |(kind, number, chunk)| {
            let is_read = matches!(kind, "read" | "reply_read");
            (0_u64..).zip(&chunk.segments).map(move |(at, segment)| SegmentRow {
                transaction: transaction.index,
                kind: kind.into(),
                chunk: number,
                segment: at,
                position: is_read.then(|| chunk.position.unwrap_or(0).into()),
                handle: format!("{:#010x}", segment.handle.0).into(),
                offset: format!("{:#018x}", segment.offset).into(),
                length: segment.length.into(),
                returned: segment.returned_length.filter(|_| !is_read).map(u64::from),
                moved: segment.moved_coverage.total_bytes(),
                first_frame: segment.frames.map(|(first, _)| first.0),
                last_frame: segment.frames.map(|(_, last)| last.0),
                of: PhantomData,
            })
        })
    }
}

table! {
    /// One row per connection, with the sums of its transactions. A connection that is idle while tens of thousands of
    /// others appear may have two rows, to be added up.
    ConnectionRow<'r> "connections" {
        /// Number of the connection in its capture, from 1, in the order of the first RPC message on each.
        connection: u64,
        /// `rocev2`, `rocev1`, `infiniband`, `iwarp`, `tcp` or `udp`.
        transport: Cow<'r, str>,
        /// Address of the side that opened it.
        client: Option<Cow<'r, str>>,
        /// Its TCP or UDP port, or its QP number.
        client_port: Option<u64>,
        /// Address of the other side.
        server: Option<Cow<'r, str>>,
        /// Its TCP or UDP port, or its QP number.
        server_port: Option<u64>,
        /// Identifiers of the VLANs of the connection, outermost first, separated by commas; null without VLAN.
        vlan_ids: Option<Cow<'r, str>>,
        /// VNI of VXLAN, or VSID of NVGRE, of its virtual network; null without one.
        vni: Option<u64>,
        /// Number of transactions.
        transactions: u64,
        /// Number of incomplete transactions.
        incomplete: u64,
        /// Bytes of RPC messages, including chunks.
        bytes: u64,
        /// Time of the earliest message, in nanoseconds since 1970-01-01 00:00:00 UTC.
        first_time_ns: Option<Timestamp>,
        /// Latest end of a message, in nanoseconds.
        last_time_ns: Option<Timestamp>,
    }
}

impl ConnectionRow<'_> {
    pub(super) fn of(tally: &ExportedConnectionTraffic) -> Self {
        Self {
            connection: tally.name.number,
            transport: tally.name.transport.to_string().into(),
            client: address(&tally.name.client),
            client_port: port(&tally.name.client),
            server: address(&tally.name.server),
            server_port: port(&tally.name.server),
            vlan_ids: vlan_ids(tally.name.tenant),
            vni: tally.name.tenant.network_identifier().map(u64::from),
            transactions: tally.transactions,
            incomplete: tally.incomplete,
            bytes: tally.bytes,
            first_time_ns: tally.times.map(|(first, _)| first),
            last_time_ns: tally.times.map(|(_, last)| last),
            of: PhantomData,
        }
    }
}
