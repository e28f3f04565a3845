//! Writes a message with the values of a run in its slots.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, roundup};

use super::step::{SubstitutableMessageSlot, TraceMessage, TracePayload};

/// A source of the values of a run. Only values with a length prefix may change their length.
pub trait MessageSlotValueSource {
    /// Returns the value of a slot, without length and padding; `None` to keep the captured one.
    fn value(&mut self, slot: &SubstitutableMessageSlot, captured: &[u8]) -> Option<&[u8]>;
}

/// Keeps the captured values.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapturedMessageValueSource;

impl MessageSlotValueSource for CapturedMessageValueSource {
    fn value(&mut self, _: &SubstitutableMessageSlot, _: &[u8]) -> Option<&[u8]> {
        None
    }
}

/// The RPC header to write before the arguments.
#[derive(Clone, Copy, Debug)]
pub enum ReplayedRpcHeader<'h> {
    /// The captured header.
    Captured,
    /// The captured header with another XID.
    Xid(Xid),
    /// Another header, from the XID to the verifier. The RPCSEC_GSS protection of the arguments is left out.
    New(&'h [u8]),
}

/// A payload of the message with its new position.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePayloadInMessage {
    /// Byte offset of the content in the whole message: the Position of its Read chunk (RFC 8166 section 3.4.5).
    pub position: u32,
    /// The payload as the trace has it.
    pub payload: TracePayload,
}

impl TracePayloadInMessage {
    /// Converts payloads to chunk items for the decoder of the message, without their contents.
    pub fn items(placed: &[Self]) -> Vec<ChunkedDataItem<'static>> {
        let item = |placed: &Self| ChunkedDataItem {
            position: Some(placed.position),
            length: placed.payload.length,
            bytes: None,
        };
        placed.iter().map(item).collect()
    }
}

/// The error for a slot outside its message, or for a value whose length differs though it has no length prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSubstitutionSlotError {
    /// Start of the slot in the head, in bytes.
    pub at: u32,
}

/// Returns the value of a slot of the head, without length and padding.
pub fn captured_value<'h>(head: &'h [u8], slot: &SubstitutableMessageSlot) -> Option<&'h [u8]> {
    let (at, length) = (slot.at as usize, slot.length as usize);
    value_in_field(head.get(at..at.checked_add(length)?)?, slot.is_counted)
}

/// Returns the value in the bytes of a field; if it `is_counted`, without its length and its padding.
pub(crate) fn value_in_field(bytes: &[u8], is_counted: bool) -> Option<&[u8]> {
    if !is_counted {
        return Some(bytes);
    }
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(..u32::from_be_bytes(*count) as usize)
}

/// Clears `out` and `placed`, then writes the message to `out` and the positions of its payloads to `placed`.
///
/// # Errors
/// Returns an error if a slot is invalid; the output is then unusable.
pub fn emit(
    message: &TraceMessage<'_>,
    header: ReplayedRpcHeader<'_>,
    values: &mut impl MessageSlotValueSource,
    out: &mut Vec<u8>,
    placed: &mut Vec<TracePayloadInMessage>,
) -> Result<(), InvalidSubstitutionSlotError> {
    out.clear();
    placed.clear();
    let (head, mut from) = match header {
        ReplayedRpcHeader::New(bytes) => {
            out.extend_from_slice(bytes);
            let end = message.head.0.get(..message.end as usize);
            (end.unwrap_or(message.head.0), message.body as usize)
        }
        ReplayedRpcHeader::Captured | ReplayedRpcHeader::Xid(_) => (message.head.0, 0),
    };
    let mut payloads = message.payloads.iter().filter(|payload| !payload.is_inside).peekable();
    let mut payload_bytes = 0;
    let mut place_payloads = |end: usize, from: usize, out: &Vec<u8>| {
        while let Some(payload) = payloads.next_if(|payload| (payload.at as usize) <= end) {
            let position = out.len() + (payload.at as usize).saturating_sub(from) + payload_bytes;
            payload_bytes += payload.length as usize + roundup(payload.length as usize);
            placed.push(TracePayloadInMessage { position: u32::try_from(position).unwrap_or(u32::MAX), payload });
        }
    };
    for slot in message.slots.iter() {
        let error = InvalidSubstitutionSlotError { at: slot.at };
        let at = slot.at as usize;
        place_payloads(at, from, out);
        out.extend_from_slice(head.get(from..at).ok_or(error)?);
        let captured = captured_value(head, &slot).ok_or(error)?;
        from = at + slot.length as usize;
        match values.value(&slot, captured) {
            None => out.extend_from_slice(head.get(at..from).ok_or(error)?),
            Some(value) if slot.is_counted => {
                let length = u32::try_from(value.len()).map_err(|_| error)?;
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(value);
                out.extend_from_slice([0; 3].get(..roundup(value.len())).unwrap_or_default());
            }
            Some(value) if value.len() == slot.length as usize => out.extend_from_slice(value),
            Some(_) => return Err(error),
        }
    }
    place_payloads(head.len(), from, out);
    out.extend_from_slice(head.get(from..).unwrap_or_default());
    if let (ReplayedRpcHeader::Xid(Xid(xid)), Some(bytes)) = (header, out.get_mut(..4)) {
        bytes.copy_from_slice(&xid.to_be_bytes());
    }
    Ok(())
}
