//! Decoding and re-encoding of messages: verifies the typed structures against the bytes of real peers.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::rpc::gss::{self, GssControlMessageKind, GssPayload};
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, Dialect};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, ReducedDataItem, Xdr, XdrError};

use super::call_header::CallBodyDecodeParameters;
use crate::transaction::CapturedMessage;

/// A message as it was sent, and as it re-encodes after decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalAndReencodedMessage<'a> {
    /// The RPC-over-RDMA header; empty on other transports.
    pub header: OriginalAndReencodedBytes<'a>,
    /// The RPC message: the inline part, or the content of the chunk that holds all of it.
    pub message: OriginalAndReencodedBytes<'a>,
    /// Data items transferred in chunks. In a Call their positions are those of its Read chunks.
    pub splices: Vec<ReducedDataItem>,
}

/// Bytes as they were sent, and as they re-encode after decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalAndReencodedBytes<'a> {
    /// Bytes as they were sent.
    pub sent: &'a [u8],
    /// Bytes as they re-encode.
    pub encoded: Vec<u8>,
}

impl OriginalAndReencodedBytes<'_> {
    /// Returns `true` if both are equal.
    pub fn is_same(&self) -> bool {
        self.sent == self.encoded
    }
}

/// Decodes a message, whose RPC message is at the cursor, and encodes it again, as
/// [`TransactionMessages::reencode`](super::TransactionMessages::reencode). `call` is the header of the Call.
pub(super) fn reencode<'a>(
    kind: RpcMessageKind,
    record: &'a CapturedMessage,
    cursor: Cursor<'a>,
    call: Option<CallBodyDecodeParameters>,
) -> Option<Result<OriginalAndReencodedMessage<'a>, XdrError>> {
    let is_whole =
        record.bytes.len() >= record.length && record.gaps.is_empty() && cursor.rest().len() == cursor.remaining();
    if !is_whole {
        return None;
    }
    let dialect = record.rpcrdma.map_or(Dialect::Rfc8166, |words| words.dialect);
    if record.is_rdma_error() {
        let message = OriginalAndReencodedBytes { sent: &[], encoded: Vec::new() };
        return Some(reencode_header(dialect, &record.bytes).map(|header| OriginalAndReencodedMessage {
            header,
            message,
            splices: Vec::new(),
        }));
    }
    let procedure = call?.described_procedure()?;
    let payload = call?.payload;
    if payload == GssPayload::Control(GssControlMessageKind::Unknown) {
        return None;
    }
    // Nothing may follow the header of a message that is transferred in a chunk.
    let end = if record.is_nomsg() { record.bytes.len() } else { record.rpc_offset.unwrap_or(record.bytes.len()) };
    let header = record.bytes.get(..end).unwrap_or_default();
    Some(reencode_header(dialect, header).and_then(|header| {
        let mut encoder = Encoder::new().with_padding(record.padding(), end);
        reencode_message(kind, procedure, payload, cursor, &mut encoder)?;
        let (encoded, splices) = encoder.finish();
        Ok(OriginalAndReencodedMessage {
            header,
            message: OriginalAndReencodedBytes { sent: cursor.rest(), encoded },
            splices,
        })
    }))
}

fn reencode_header(dialect: Dialect, sent: &[u8]) -> Result<OriginalAndReencodedBytes<'_>, XdrError> {
    let mut encoder = Encoder::new();
    if !sent.is_empty() {
        AnyDialectHeader::decode(dialect, &mut Cursor::new(sent), &mut NullFieldObserver)?.encode(&mut encoder);
    }
    Ok(OriginalAndReencodedBytes { sent, encoded: encoder.finish().0 })
}

fn reencode_message(
    kind: RpcMessageKind,
    procedure: Procedure,
    payload: GssPayload,
    mut cursor: Cursor<'_>,
    encoder: &mut Encoder,
) -> Result<(), XdrError> {
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver)?;
    message.encode(encoder);
    if message.reply().is_some_and(|reply| !reply.status().is_success()) {
        return Ok(());
    }
    match payload {
        GssPayload::Plain => procedure.reencode(kind, &mut cursor, encoder)?,
        GssPayload::Integrity => {
            let mut protected = gss::IntegrityBody::open(&mut cursor, &mut NullFieldObserver)?;
            let mut result = Ok(());
            encoder.append_nested(|encoder| {
                encoder.word(protected.seq_num);
                result = procedure.reencode(kind, &mut protected.body, encoder);
            });
            result?;
            gss::GssIntegrityChecksum::read(&mut cursor, &mut NullFieldObserver)?.encode(encoder);
        }
        GssPayload::Privacy => gss::RpcGssPrivData::read(&mut cursor, &mut NullFieldObserver)?.encode(encoder),
        GssPayload::Control(control) => control.reencode(kind, &mut cursor, encoder)?,
    }
    Ok(())
}
