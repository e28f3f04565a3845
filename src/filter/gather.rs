//! Gathers the values of the fields that a filter names, from decoders and from what is known of frames and messages.

mod listener;

use nfsrdma_dissectors::field::registry::Registry;
use nfsrdma_dissectors::field::{Field, Kind};

use super::catalog::{Catalog, Origin, TOGETHER};
use super::compile::Named;
use super::facts::{Fact, Part};
use super::remembered::Remembered;
use super::value::{Slot, Value, Values};
use super::wants::Wants;

/// A set of slots; a filter names at most 64 fields.
type Slots = u64;

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
    /// Slots of protocols in which something is searched, so that they end with what they carry.
    searched: Slots,
    /// Slots whose values lie behind a field that is described.
    followed: Slots,
    /// Of those that are searched, where they begin in what is listened to.
    begun: Vec<(Slot, usize)>,
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
        let (mut parts, mut headless, mut looked_at, mut searched, mut followed) = (0, 0, 0, 0, 0);
        let mut names = None;
        for (slot, field) in fields.iter().enumerate() {
            wants.add(&field.origin);
            let bit = 1 << slot;
            match &field.origin {
                Origin::Alias(alias) if alias.part != Part::Whole => parts |= bit,
                Origin::Bit(_) => parts |= bit,
                Origin::Protocol(_) => headless |= bit,
                Origin::Fact(Fact::Protocols) => names = Some(slot),
                Origin::Fact(Fact::UdpPayload | Fact::Arp) => followed |= bit,
                Origin::Structure(_) if matches!(field.name, "ip" | "tcp") => followed |= bit,
                _ => {}
            }
            looked_at |= if field.has_value { bit } else { 0 };
            searched |= if field.is_search { bit } else { 0 };
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
            searched,
            followed,
            begun: Vec::new(),
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

    /// Whether the procedure of a version of a program is named.
    pub(super) fn has_procedures(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.origin, Origin::Procedure(_)))
    }

    /// Adds the procedure of a Call to the field of its program and version.
    pub(super) fn procedure(&mut self, program: Option<u64>, version: Option<u64>, procedure: u64) {
        for (slot, field) in self.fields.iter().enumerate() {
            if let Origin::Procedure(of) = field.origin
                && of.is_of(program, version)
            {
                self.values.push(slot, Value::Number(procedure.into()));
            }
        }
    }

    /// A protocol without a header is there, even if none of its fields is.
    pub(super) fn protocol(&mut self, name: &str) {
        let is_it = |field: &Named| {
            field.name == name && !field.is_search && matches!(field.origin, Origin::Protocol(_))
        };
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
                Origin::Structure(_) => named.name == field.name || is_header_length(named, field),
                Origin::Protocol(_) => field.name.split_once('.').is_some_and(|(protocol, _)| {
                    let (name, together, ..) = TOGETHER;
                    protocol == named.name || named.name == name && together.contains(&protocol)
                }),
                Origin::Alias(alias) => alias.of.contains(&field.name),
                Origin::Bit(of) => of.of.contains(&field.name),
                Origin::Fact(Fact::Protocols) => {
                    let layer = field.name.split('.').next().and_then(|name| Catalog::shared().get(name));
                    match layer.map(|layer| &layer.origin) {
                        Some(Origin::Protocol(_)) => true,
                        _ => !field.name.contains('.') && field.kind == Kind::Group,
                    }
                }
                // It lies behind the header that ends after the checksum.
                Origin::Fact(Fact::UdpPayload) => field.name == UDP_LENGTH,
                Origin::Fact(Fact::Arp) => ETHER_TYPES.contains(&field.name),
                Origin::Fact(_) | Origin::Procedure(_) => false,
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

/// The field that says where a datagram of UDP ends.
const UDP_LENGTH: &str = "udp.length";

/// The fields that say what follows a header of the link layer.
const ETHER_TYPES: [&str; 3] = ["eth.type", "vlan.etype", "sll.etype"];

/// Whether a field says how long the header of a protocol is, which has options behind what is described.
fn is_header_length(protocol: &Named, field: &Field) -> bool {
    !protocol.is_search
        && protocol.has_value
        && field.name.strip_suffix(".hdr_len").is_some_and(|name| name == protocol.name)
}
