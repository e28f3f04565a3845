//! Gathers the values of the fields that a filter names, from decoders and from what is known of frames and messages.

use std::ops::Range;

use nfsrdma_dissectors::field::registry::{Layer, Registry};
use nfsrdma_dissectors::field::{self, Field, Kind, Observer};

use super::catalog::{Catalog, Origin};
use super::compile::Named;
use super::facts::{Fact, Part};
use super::remembered::Remembered;
use super::value::{Slot, Value, Values};
use crate::analysis::names::hash;

/// A set of slots; a filter names at most 64 fields.
type Slots = u64;

/// What must be done to see the fields that a filter names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// Facts of the frame.
    pub(super) frame: bool,
    /// The headers of the frame are told.
    pub(super) headers: bool,
    /// Management datagrams are told.
    pub(super) management: bool,
    /// The headers of iWARP are told, which stand in a stream of TCP.
    pub(super) iwarp: bool,
    /// The RPC-over-RDMA header is told.
    pub(super) rpcrdma: bool,
    /// The RPC header is told.
    pub(super) rpc: bool,
    /// The arguments or results are told.
    pub(super) procedure: bool,
    /// A protocol that has no header is asked for.
    pub(super) bare_protocols: bool,
    /// Facts of a message.
    pub(super) message: bool,
    /// Facts of a Transaction.
    pub(super) transaction: bool,
    /// Those of them for which its messages are read.
    pub(super) outcome: bool,
}

impl Wants {
    /// Whether a frame has something to give by itself.
    pub(super) fn of_frame(self) -> bool {
        self.frame || self.headers || self.management
    }

    /// Whether a message has.
    pub(super) fn of_message(self) -> bool {
        self.rpcrdma || self.rpc || self.procedure || self.message
    }

    fn add(&mut self, origin: &Origin) {
        match origin {
            Origin::Structure(layers) | Origin::Protocol(layers) => {
                self.bare_protocols |= matches!(origin, Origin::Protocol(_));
                for layer in layers {
                    match layer {
                        Layer::Frame => self.headers = true,
                        Layer::Management => (self.headers, self.management) = (true, true),
                        Layer::Iwarp => (self.headers, self.iwarp) = (true, true),
                        Layer::PrivateData => {
                            (self.headers, self.management, self.iwarp) = (true, true, true);
                        }
                        Layer::RpcRdma => self.rpcrdma = true,
                        Layer::Rpc => self.rpc = true,
                        Layer::Procedure => self.procedure = true,
                    }
                }
            }
            Origin::Fact(Fact::Protocols) => {
                self.frame = true;
                (self.headers, self.iwarp, self.bare_protocols) = (true, true, true);
                (self.rpcrdma, self.rpc, self.procedure) = (true, true, true);
            }
            Origin::Fact(fact) if Fact::FRAME.contains(fact) || Fact::PAYLOAD.contains(fact) => {
                self.frame = true
            }
            Origin::Fact(fact) if Fact::MESSAGE.contains(fact) => self.message = true,
            Origin::Fact(fact) => {
                self.transaction = true;
                self.outcome |= Fact::OUTCOME.contains(fact);
            }
            Origin::Alias(alias) => {
                for of in alias.of {
                    if let Some(entry) = Catalog::shared().get(of) {
                        self.add(&entry.origin);
                    }
                }
            }
        }
    }
}

/// Gathers values.
#[derive(Clone, Debug)]
pub(super) struct Gatherer {
    fields: Vec<Named>,
    pub(super) wants: Wants,
    pub(super) values: Values,
    /// The slots of each field.
    remembered: Remembered<Slots>,
    /// Whether structures hold a named field, by the function that describes them.
    structures: Remembered<bool>,
    /// Slots whose values are those of other fields, in part.
    parts: Slots,
    /// Slots of protocols without a header, which are there once however many fields they have.
    headless: Slots,
    /// Slots whose values are looked at.
    looked_at: Slots,
    /// Slots of protocols with a header, in which a search goes on behind it.
    whole: Slots,
    /// The slot of `frame.protocols`.
    names: Option<Slot>,
    protocols: String,
    /// The protocol of the message that is listened to; its structures may have fields of others.
    pub(super) program: Option<&'static str>,
    open: Vec<(usize, Slots, usize)>,
}

impl Gatherer {
    pub(super) fn new(fields: Vec<Named>) -> Self {
        let mut wants = Wants::default();
        let (mut parts, mut headless, mut looked_at, mut whole) = (0, 0, 0, 0);
        let mut names = None;
        for (slot, field) in fields.iter().enumerate() {
            wants.add(&field.origin);
            let bit = 1 << slot;
            match &field.origin {
                Origin::Alias(alias) if alias.part != Part::All => parts |= bit,
                Origin::Protocol(_) => headless |= bit,
                Origin::Structure(_) if !field.name.contains('.') => whole |= bit,
                Origin::Fact(Fact::Protocols) => names = Some(slot),
                _ => {}
            }
            looked_at |= if field.has_value { bit } else { 0 };
        }
        Self {
            wants,
            values: Values::new(fields.len()),
            fields,
            remembered: Remembered::default(),
            structures: Remembered::default(),
            parts,
            headless,
            looked_at,
            whole,
            names,
            protocols: String::new(),
            program: None,
            open: Vec::new(),
        }
    }

    /// Forgets what was gathered.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.protocols.clear();
        self.program = None;
    }

    /// Listens to decoders of `bytes`, whose first has position `base`.
    pub(super) fn listen<'g, 'b>(&'g mut self, bytes: &'b [u8], base: usize) -> Listener<'g, 'b> {
        self.open.clear();
        Listener { to: self, bytes, base, depth: 0, only: Slots::MAX }
    }

    /// Listens for these fields alone; `None` where the filter names none of them.
    pub(super) fn listen_for(&mut self, names: &[&str]) -> Option<Listener<'_, 'static>> {
        let is_named = |field: &Named| names.contains(&field.name);
        let slots = self.fields.iter().enumerate().filter(|(_, field)| is_named(field));
        let only = slots.fold(0, |only, (slot, _)| only | 1 << slot);
        self.open.clear();
        (only != 0).then_some(Listener { to: self, bytes: &[], base: 0, depth: 0, only })
    }

    /// Adds a fact where the filter names it; it is worked out only then.
    pub(super) fn fact<'v>(&mut self, fact: Fact, value: impl FnOnce() -> Option<Value<'v>>) {
        if let Some(slot) = self.slot_of(fact)
            && let Some(value) = value()
        {
            self.values.push(slot, value);
        }
    }

    /// Whether the names of protocols are asked for.
    pub(super) fn names_protocols(&self) -> bool {
        self.names.is_some()
    }

    /// The slot of a fact that the filter names.
    pub(super) fn slot_of(&self, fact: Fact) -> Option<Slot> {
        self.fields.iter().position(|field| field.origin == Origin::Fact(fact))
    }

    /// A protocol without a header is there, even if none of its fields is.
    pub(super) fn protocol(&mut self, name: &str) {
        let is_it = |field: &Named| field.name == name && matches!(field.origin, Origin::Protocol(_));
        if let Some(slot) = self.fields.iter().position(is_it)
            && !self.values.has(slot)
        {
            self.values.push(slot, Value::Unknown);
        }
    }

    /// Adds the names of the protocols that were heard of.
    pub(super) fn finish_protocols(&mut self) {
        if let Some(slot) = self.names
            && !self.protocols.is_empty()
        {
            let protocols = std::mem::take(&mut self.protocols);
            self.values.push(slot, Value::Text(protocols.as_bytes()));
            self.protocols = protocols;
        }
    }

    /// The slots that a field belongs to.
    #[inline(always)]
    fn slots(&mut self, field: &'static Field) -> Slots {
        let address = std::ptr::from_ref(field).addr();
        match self.remembered.get(address) {
            Some(slots) => slots,
            None => self.look_up(field, address),
        }
    }

    #[cold]
    fn look_up(&mut self, field: &'static Field, address: usize) -> Slots {
        let mut slots = 0;
        for (slot, named) in self.fields.iter().enumerate() {
            let is_it = match &named.origin {
                Origin::Structure(_) => named.name == field.name,
                Origin::Protocol(_) => {
                    field.name.split_once('.').is_some_and(|(protocol, _)| protocol == named.name)
                }
                Origin::Alias(alias) => alias.of.contains(&field.name),
                Origin::Fact(Fact::Protocols) => {
                    let layer = field.name.split('.').next().and_then(|name| Catalog::shared().get(name));
                    match layer.map(|layer| &layer.origin) {
                        Some(Origin::Protocol(_)) => true,
                        _ => !field.name.contains('.') && field.kind == Kind::Group,
                    }
                }
                Origin::Fact(_) => false,
            };
            slots |= if is_it { 1 << slot } else { 0 };
        }
        self.remembered.put(address, slots);
        slots
    }

    /// Whether a structure holds a named field.
    #[inline(always)]
    fn is_inside(&mut self, describe: fn(&mut Registry)) -> bool {
        let address = describe as usize;
        match self.structures.get(address) {
            Some(is_inside) => is_inside,
            None => self.look_inside(describe, address),
        }
    }

    #[cold]
    fn look_inside(&mut self, describe: fn(&mut Registry), address: usize) -> bool {
        let mut registry = Registry::default();
        describe(&mut registry);
        let places = registry.fields().flat_map(|(_, places)| places);
        let is_inside = places.into_iter().any(|place| self.slots(place.field) != 0);
        self.structures.put(address, is_inside);
        is_inside
    }

    /// Whether a protocol without a header may be what is listened to.
    fn is_here(&self, slot: Slot) -> bool {
        let name = self.fields.get(slot).map(|field| field.name);
        self.program.is_none_or(|program| name == Some(program))
    }

    fn name_protocol(&mut self, field: &'static Field) {
        let (name, is_header) = match field.name.split_once('.') {
            Some((name, _)) => (name, false),
            None => (field.name, true),
        };
        let is_of_other = self.program.is_some_and(|program| program != name);
        if !is_header && (is_of_other || self.protocols.rsplit(':').next() == Some(name)) {
            return;
        }
        if !self.protocols.is_empty() {
            self.protocols.push(':');
        }
        self.protocols.push_str(name);
        if name == "eth" {
            self.protocols.push_str(":ethertype");
        }
    }
}

/// Listens to one decoder.
pub(super) struct Listener<'g, 'b> {
    to: &'g mut Gatherer,
    bytes: &'b [u8],
    base: usize,
    depth: usize,
    only: Slots,
}

impl Listener<'_, '_> {
    /// What a field begins that stands at byte `at`: the names of its protocols, and its protocols themselves.
    fn begin(&mut self, field: &'static Field, mut slots: Slots, at: usize) -> Slots {
        if let Some(names) = self.to.names
            && slots & 1 << names != 0
        {
            slots &= !(1 << names);
            self.to.name_protocol(field);
        }
        let mut headless = slots & self.to.headless;
        while headless != 0 {
            let slot = headless.trailing_zeros() as Slot;
            headless &= headless - 1;
            if self.to.is_here(slot) && !self.to.values.has(slot) {
                self.push_bytes(slot, at..usize::MAX);
            }
        }
        slots & !self.to.headless
    }

    fn push_bytes(&mut self, slot: Slot, range: Range<usize>) {
        if self.to.looked_at & 1 << slot == 0 {
            self.to.values.push(slot, Value::Unknown);
            return;
        }
        let at = |position: usize| position.saturating_sub(self.base).min(self.bytes.len());
        let (start, end) = (at(range.start), at(range.end));
        let value = match self.to.whole & 1 << slot {
            0 => Value::Bytes(self.bytes.get(start..end).unwrap_or_default()),
            _ => {
                // The payload of TCP and RPC is theirs, too.
                let is_all =
                    self.to.fields.get(slot).is_some_and(|field| matches!(field.name, "tcp" | "rpc"));
                let bytes = self.bytes.get(start..).unwrap_or_default();
                Value::Protocol(bytes, if is_all { bytes.len() } else { end.saturating_sub(start) })
            }
        };
        self.to.values.push(slot, value);
    }
}

impl<'a> Observer<'a> for Listener<'_, '_> {
    #[inline(always)]
    fn wants(&mut self, field: &'static Field, describe: fn(&mut Registry)) -> bool {
        self.to.is_inside(describe) || self.to.slots(field) & self.only != 0
    }

    #[inline(always)]
    fn wants_header(&mut self, _: &'static Field, describe: fn(&mut Registry)) -> bool {
        self.to.is_inside(describe)
    }

    #[inline(always)]
    fn enter(&mut self, field: &'static Field, at: usize) {
        self.depth += 1;
        let slots = self.to.slots(field) & self.only;
        if slots != 0 {
            self.open(field, slots, at);
        }
    }

    #[inline]
    fn leave(&mut self, at: usize) {
        if self.to.open.last().is_some_and(|(depth, ..)| *depth == self.depth) {
            self.close(at);
        }
        self.depth = self.depth.saturating_sub(1);
    }

    #[inline]
    fn time(&mut self, field: &'static Field, nanoseconds: i128) {
        let value =
            if field.kind == Kind::Time { Value::Time(nanoseconds) } else { Value::Duration(nanoseconds) };
        let mut slots = self.to.slots(field) & self.only & !(self.to.headless | self.to.parts);
        if let Some(names) = self.to.names {
            slots &= !(1 << names);
        }
        while slots != 0 {
            let slot = slots.trailing_zeros() as Slot;
            slots &= slots - 1;
            let is_looked_at = self.to.looked_at & 1 << slot != 0;
            self.to.values.push(slot, if is_looked_at { value } else { Value::Unknown });
        }
    }

    /// Most fields are not named, and cost no more than to find that out.
    #[inline(always)]
    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: field::Value<'a>) {
        let slots = self.to.slots(field) & self.only;
        if slots != 0 {
            self.found(field, slots, bytes.start, value);
        }
    }
}

impl Listener<'_, '_> {
    /// The decoder is done: what an error left open ends with the bytes.
    pub(super) fn finish(mut self) {
        while !self.to.open.is_empty() {
            self.close(usize::MAX);
        }
    }

    /// A group begins that is named.
    #[inline(never)]
    fn open(&mut self, field: &'static Field, slots: Slots, at: usize) {
        let mut slots = self.begin(field, slots, at);
        if matches!(field.kind, Kind::Time | Kind::Duration) {
            // Its value is told when its parts were.
            slots = 0;
        }
        self.to.open.push((self.depth, slots, at));
        let mut bare = slots & !self.to.looked_at;
        while bare != 0 {
            let slot = bare.trailing_zeros() as Slot;
            bare &= bare - 1;
            self.to.values.push(slot, Value::Unknown);
        }
    }

    /// A value was read that is named.
    #[inline(never)]
    fn found(&mut self, field: &'static Field, slots: Slots, at: usize, value: field::Value<'_>) {
        let slots = self.begin(field, slots, at);
        self.add(field, slots, value);
    }

    /// The group that was entered last ends.
    fn close(&mut self, end: usize) {
        let Some((_, slots, at)) = self.to.open.pop() else { return };
        let mut slots = slots & self.to.looked_at;
        while slots != 0 {
            let slot = slots.trailing_zeros() as Slot;
            slots &= slots - 1;
            self.push_bytes(slot, at..end);
        }
    }

    fn add(&mut self, field: &'static Field, mut slots: Slots, value: field::Value<'_>) {
        let value = match &value {
            field::Value::Unsigned(number)
            | field::Value::Enum(number, _)
            | field::Value::Flags(number, _) => Value::Number(i128::from(*number)),
            field::Value::Signed(number) => Value::Number(i128::from(*number)),
            field::Value::Bool(value) => Value::Bool(*value),
            field::Value::Bytes(bytes) => Value::Bytes(bytes),
            field::Value::Text(bytes) => Value::Text(bytes),
            field::Value::Ipv4(address) => Value::Ipv4(address.to_bits(), 32),
            field::Value::Ipv6(address) => Value::Ipv6(address.to_bits(), 128),
            field::Value::Ethernet(address) => Value::Bytes(address),
            field::Value::Chunk(_, Some(bytes)) if field.kind == Kind::Text => Value::Text(bytes),
            field::Value::Chunk(_, Some(bytes)) => Value::Bytes(bytes),
            field::Value::Chunk(_, None) => Value::Unknown,
        };
        while slots != 0 {
            let slot = slots.trailing_zeros() as Slot;
            slots &= slots - 1;
            let value = match value {
                value if self.to.parts & 1 << slot != 0 => self.part(slot, value),
                value if self.to.looked_at & 1 << slot != 0 => value,
                _ => Value::Unknown,
            };
            self.to.values.push(slot, value);
        }
    }

    /// What a field has that stands for a part of another.
    fn part<'v>(&self, slot: Slot, value: Value<'v>) -> Value<'v> {
        let Some(Origin::Alias(alias)) = self.to.fields.get(slot).map(|field| &field.origin) else {
            return value;
        };
        match (alias.part, value) {
            (Part::Bits(shift, mask), Value::Number(number)) => {
                Value::Number(number >> shift & i128::from(mask))
            }
            (Part::Bit(bit), Value::Number(number)) => Value::Bool(number & i128::from(bit) != 0),
            (Part::Hash, Value::Bytes(bytes)) => Value::Number(hash(bytes).into()),
            (Part::Length, Value::Bytes(bytes)) => Value::Number(bytes.len() as i128),
            (_, value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType, Timestamp};
    use nfsrdma_dissectors::net;

    use super::*;
    use crate::filter::Filter;

    /// An Ethernet frame with an ACK of a reliable connection, of the capture rxe-v42.
    fn frame(bytes: &[u8]) -> Frame<'_> {
        Frame {
            number: FrameNumber(1),
            time: Timestamp(0),
            link: LinkType::ETHERNET,
            bytes,
            length: bytes.len() as u32,
        }
    }

    fn gathered(filter: &str) -> Gatherer {
        let mut bytes = vec![0x52, 0x54, 0, 9, 0, 1, 0x52, 0x54, 0, 9, 0, 2, 8, 0];
        bytes.extend([0x45, 0x02, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
        bytes.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        let mut gatherer = Gatherer::new(Filter::parse(filter).unwrap().fields);
        let mut listener = gatherer.listen(&bytes, 0);
        net::decode(&frame(&bytes), &mut listener);
        listener.finish();
        gatherer.finish_protocols();
        gatherer
    }

    fn values(filter: &str) -> Vec<String> {
        let gatherer = gathered(filter);
        gatherer.values.of(0).map(|value| format!("{value:?}")).collect()
    }

    #[test]
    fn a_field_is_gathered_by_its_name() {
        assert_eq!(values("udp.srcport == 1"), ["Number(7)"]);
        assert_eq!(values("tcp.srcport == 1"), [""; 0]);
    }

    #[test]
    fn an_alias_has_the_values_of_its_fields() {
        assert_eq!(values("udp.port == 1"), ["Number(7)", "Number(9)"]);
        assert_eq!(values("ip.dsfield.ecn == 1"), ["Number(2)"]);
        assert_eq!(values("ip.dsfield.dscp == 1"), ["Number(0)"]);
    }

    #[test]
    fn a_protocol_is_the_bytes_of_its_header_and_what_follows_for_those_who_search() {
        let is_selected =
            |filter: &str| Filter::parse(filter).unwrap().program.holds(&gathered(filter).values);
        assert!(is_selected("eth contains 00:07:00:09") && is_selected("ip matches \"\\x00\\x07\""));
        assert!(
            is_selected("len(eth) == 14") && is_selected("eth[12:] == 08:00") && !is_selected("eth[14:1]")
        );
        let udp = [0, 7, 0, 9, 0, 8, 0, 0];
        assert_eq!(values("udp contains 00"), [format!("Protocol({udp:?}, 8)")]);
        assert_eq!(values("udp"), ["Unknown"]);
    }

    #[test]
    fn protocols_are_named_from_outside_to_inside() {
        assert_eq!(values("frame.protocols == \"\""), [format!("Text({:?})", b"eth:ethertype:ip:udp")]);
    }

    #[test]
    fn only_what_holds_a_named_field_is_wanted() {
        let wants = |filter: &str| Gatherer::new(Filter::parse(filter).unwrap().fields).wants;
        assert_eq!(wants("infiniband.bth.opcode == 4"), Wants { headers: true, ..Wants::default() });
        assert_eq!(wants("rpcordma.xid"), Wants { rpcrdma: true, ..Wants::default() });
        assert_eq!(wants("rpc.xid"), Wants { rpc: true, ..Wants::default() });
        assert_eq!(wants("nfs.status == 0"), Wants { procedure: true, ..Wants::default() });
        assert_eq!(wants("frame.len > 5"), Wants { frame: true, ..Wants::default() });
        assert_eq!(wants("nfsrdma.latency > 5"), Wants { transaction: true, ..Wants::default() });
        assert_eq!(wants("rpc.time > 5"), Wants { message: true, ..Wants::default() });
        let management = wants("infiniband.cm.req");
        assert_eq!(management, Wants { headers: true, management: true, ..Wants::default() });
    }
}
