//! Everything that a frame has, by the names of fields: its headers, and the messages that it completes.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, Kind, Observer, Value};
use nfsrdma_dissectors::flow::{Flow, Meaning, observe_segment};
use nfsrdma_dissectors::frame::Frame;
use nfsrdma_dissectors::infiniband::cm;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::net::{self, Carried};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use rustc_hash::FxHashMap;

use crate::filter::Plain;
use crate::filter::catalog::Type;

use super::fields;

/// The values of every field of a frame, in the order in which the fields come first.
#[derive(Debug, Default)]
pub(super) struct WholeFrame {
    members: Vec<(&'static str, Vec<String>)>,
    places: FxHashMap<&'static str, usize>,
}

impl WholeFrame {
    /// Takes the place of the frame before.
    pub(super) fn take(&mut self, frame: &Frame<'_>, flow: &Flow) {
        self.members.clear();
        self.places.clear();
        let datagram = net::decode(frame, self);
        match &datagram.carried {
            Carried::Infiniband(packet) => {
                if let Some(mad) = Mad::of(packet, self)
                    && let Some(message) = cm::Message::decode(&mad, self)
                    && let Some(private) = message.private()
                {
                    PrivateData::find(private.bytes, private.at, self);
                }
            }
            Carried::Tcp(segment) if flow.is_iwarp() => observe_segment(segment.payload, self),
            _ => {}
        }
        for meaning in flow.meanings() {
            if let Meaning::Message { key, which } | Meaning::MessageAgain { key, which } = *meaning
                && let Some(transaction) = flow.transaction(key)
            {
                transaction.read(|reading| {
                    // What was told before an error stands.
                    let _ = reading.observe(which, self);
                });
            }
        }
    }

    /// Each field with its values.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        self.members.iter().map(|(name, values)| (*name, values.as_slice()))
    }

    fn add(&mut self, field: &'static Field, value: Plain<'_>) {
        if field.name.is_empty() {
            return;
        }
        let place = *self.places.entry(field.name).or_insert_with(|| {
            self.members.push((field.name, Vec::new()));
            self.members.len() - 1
        });
        if let Some((_, values)) = self.members.get_mut(place) {
            values.push(fields::text((field.name, Type::of(field.name, field.kind)), value));
        }
    }
}

impl<'a> Observer<'a> for WholeFrame {
    fn enter(&mut self, _: &'static Field, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn time(&mut self, field: &'static Field, nanoseconds: i128) {
        let is_moment = field.kind == Kind::Time;
        self.add(field, if is_moment { Plain::Time(nanoseconds) } else { Plain::Duration(nanoseconds) });
    }

    fn value(&mut self, field: &'static Field, _: Range<usize>, value: Value<'a>) {
        let plain = match &value {
            Value::Unsigned(number) | Value::Enum(number, _) | Value::Flags(number, _) => {
                Plain::Number(i128::from(*number))
            }
            Value::Signed(number) => Plain::Number(i128::from(*number)),
            Value::Bool(value) => Plain::Bool(*value),
            Value::Bytes(bytes) => Plain::Bytes(bytes),
            Value::Text(text) => Plain::Text(text),
            Value::Ipv4(address) => Plain::Ipv4(*address),
            Value::Ipv6(address) => Plain::Ipv6(*address),
            Value::Ethernet(address) => Plain::Bytes(address),
            Value::Chunk(_, Some(bytes)) if field.kind == Kind::Text => Plain::Text(bytes),
            Value::Chunk(_, Some(bytes)) => Plain::Bytes(bytes),
            Value::Chunk(_, None) => Plain::Unknown,
        };
        self.add(field, plain);
    }
}
