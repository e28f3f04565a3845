//! A message taken apart: its bytes without file data, its slots, and the file data.

use std::io::{self, Write};

use clap::ValueEnum;
use nfsrdma_dissectors::flow::reading::Reading;
use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::xdr::{List, Opaque, roundup};
use twox_hash::XxHash3_128;

use super::listen::Listener;
use super::variables::{Server, Variables};
use crate::replay::trace::file::Writer;
use crate::replay::trace::{Message, Payload, Slot};

/// What becomes of the file data of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// It is kept; equal data once
    #[default]
    Data,
    /// Its hash is kept; a run sends other data in its place
    Hash,
}

/// File data: its place in the head, and its bytes in `data`, where they are known.
#[derive(Clone, Debug)]
struct Part {
    payload: Payload,
    bytes: Option<std::ops::Range<usize>>,
}

/// A message taken apart. One is used for all messages, so that its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Parts {
    head: Vec<u8>,
    body: u32,
    slots: Vec<Slot>,
    parts: Vec<Part>,
    payloads: Vec<Payload>,
    data: Vec<u8>,
    /// Slots at the positions of the decoder.
    heard: Vec<(usize, Slot)>,
}

impl Parts {
    fn clear(&mut self) {
        self.head.clear();
        self.body = 0;
        self.slots.clear();
        self.parts.clear();
        self.payloads.clear();
        self.data.clear();
        self.heard.clear();
    }

    /// Takes a message apart. Of one that was not captured nothing is left.
    pub(super) fn read(
        &mut self,
        reading: &Reading<'_>,
        which: Which,
        server: Server,
        variables: &mut Variables,
    ) {
        self.clear();
        let Some((bytes, base)) = reading.rpc_bytes(which) else { return };
        let mut listener = Listener::new(server, variables, &mut self.heard);
        // What was heard before a message could not be read further stands; the rest is bytes.
        let _ = reading.observe_rpc(which, &mut listener);
        let (payloads, body) = (listener.payloads, listener.body);
        let at = |position: usize| position.saturating_sub(base).min(bytes.len());
        // Content that stands in the message is taken out of it: what follows comes nearer by so much.
        let mut removed = Vec::with_capacity(payloads.len());
        let mut from = 0;
        for heard in &payloads {
            let content = at(heard.at);
            if heard.is_inline {
                let end = content + heard.length as usize + roundup(heard.length as usize);
                self.head.extend_from_slice(bytes.get(from..content).unwrap_or_default());
                from = end.min(bytes.len());
                removed.push((content, from - content));
            }
        }
        self.head.extend_from_slice(bytes.get(from..).unwrap_or_default());
        let in_head = |position: usize| {
            let position = at(position);
            let before = removed.iter().filter(|(at, _)| *at < position).map(|(_, length)| length);
            position.saturating_sub(before.sum()) as u32
        };
        self.body = body.map_or(self.head.len() as u32, in_head);
        self.slots.extend(self.heard.iter().map(|(at, slot)| Slot { at: in_head(*at), ..slot.clone() }));
        for heard in &payloads {
            let start = self.data.len();
            let bytes = heard.bytes.map(|bytes| {
                self.data.extend_from_slice(bytes);
                start..self.data.len()
            });
            let hash = heard.bytes.map_or([0; 16], |bytes| XxHash3_128::oneshot(bytes).to_be_bytes());
            let payload =
                Payload { at: in_head(heard.at), length: heard.length, hash, data: Payload::NOWHERE };
            self.parts.push(Part { payload, bytes });
        }
    }

    /// Puts the file data where the trace keeps it.
    pub(super) fn keep(&mut self, keep: Keep, to: &mut Writer<impl Write>) -> io::Result<()> {
        for part in &self.parts {
            let mut payload = part.payload.clone();
            let bytes = part.bytes.clone().and_then(|range| self.data.get(range));
            if let (Keep::Data, Some(bytes)) = (keep, bytes) {
                payload.data = to.data(u128::from_be_bytes(payload.hash), bytes)?;
            }
            self.payloads.push(payload);
        }
        Ok(())
    }

    /// Bytes of file data in the message and beside it.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.payload.length)).sum()
    }

    /// Bytes of file data that were not captured.
    pub(super) fn unknown_bytes(&self) -> u64 {
        let unknown = self.parts.iter().filter(|part| part.bytes.is_none());
        unknown.map(|part| u64::from(part.payload.length)).sum()
    }

    /// The message, as a trace has it.
    pub(super) fn message(&self) -> Message<'_> {
        Message {
            head: Opaque(&self.head),
            body: self.body,
            slots: List::from(&self.slots[..]),
            payloads: List::from(&self.payloads[..]),
        }
    }
}
