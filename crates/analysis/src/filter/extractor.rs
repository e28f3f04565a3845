//! Extraction of the field values that a filter uses, from decoders, frames and messages.

mod listener;

use nfsrdma_dissectors::field::registry::FieldRegistry;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::net::Ethernet;

use super::cache_by_description_address::CacheKeyedByDescriptionAddress;
use super::catalog::{COMBINED_PROTOCOL, FilterFieldCatalog, FilterFieldSource};
use super::derived_fields::{FieldAliasValuePart, GeneratedField};
use super::referenced_filter_field::ReferencedFilterField;
use super::required_layers::RequiredLayers;
use super::value::{FilterFieldSlotNumber, FilterValue, FilterValues};

/// Index of a set of slots in a [`FieldExtractor`]. The first set is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FilterSlotSetId(u32);

impl FilterSlotSetId {
    const EMPTY: Self = Self(0);
}

#[derive(Clone, Copy, Debug, Default)]
struct FilterFieldSlotTraits {
    /// `true` if its values are parts of the values of other fields.
    is_part: bool,
    /// `true` for a protocol without a header, which is present once however many fields it has.
    has_no_header: bool,
    /// `true` if its values are used; otherwise presence is enough.
    uses_value: bool,
    /// `true` if the protocol is searched, so that it includes its payload.
    is_searched: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FieldExtractor {
    fields: Vec<ReferencedFilterField>,
    pub(super) layers: RequiredLayers,
    pub(super) values: FilterValues,
    traits: Vec<FilterFieldSlotTraits>,
    /// The slots of each field.
    slot_cache: CacheKeyedByDescriptionAddress<FilterSlotSetId>,
    /// Sets of slots, at most one for each field seen.
    sets: Vec<Box<[FilterFieldSlotNumber]>>,
    /// `true` for structures with a used field, by the function that describes them.
    structures: CacheKeyedByDescriptionAddress<bool>,
    /// Start offsets of searched protocols.
    searched_starts: Vec<(FilterFieldSlotNumber, usize)>,
    /// The slot of `frame.protocols`.
    pub(super) names: Option<FilterFieldSlotNumber>,
    protocols: String,
    /// The protocol of the current message; its structures may have fields of others.
    pub(super) program: Option<&'static str>,
    /// Open groups: depth, number of `open_slots` of the enclosing groups, and start offset.
    open: Vec<(usize, usize, usize)>,
    open_slots: Vec<FilterFieldSlotNumber>,
    /// Buffer that a listener borrows for the slots of one field.
    slot_buffer: Vec<FilterFieldSlotNumber>,
}

impl FieldExtractor {
    pub(super) fn new(fields: Vec<ReferencedFilterField>) -> Self {
        let mut layers = RequiredLayers::default();
        fields.iter().for_each(|field| layers.add(&field.origin));
        let traits = |field: &ReferencedFilterField| FilterFieldSlotTraits {
            is_part: match &field.origin {
                FilterFieldSource::Alias(alias) => alias.part != FieldAliasValuePart::Whole,
                origin => matches!(origin, FilterFieldSource::Bit(_)),
            },
            has_no_header: matches!(field.origin, FilterFieldSource::Protocol(_)),
            uses_value: field.has_value,
            is_searched: field.is_search,
        };
        let names = FilterFieldSource::Generated(GeneratedField::Protocols);
        Self {
            layers,
            values: FilterValues::new(fields.len()),
            traits: fields.iter().map(traits).collect(),
            names: fields.iter().position(|field| field.origin == names),
            fields,
            sets: vec![Box::default()],
            ..Self::default()
        }
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.protocols.clear();
        self.program = None;
    }

    /// Adds a generated field if the filter uses it; the value is computed only then.
    pub(super) fn add_generated<'v>(
        &mut self,
        generated: GeneratedField,
        value: impl FnOnce() -> Option<FilterValue<&'v [u8]>>,
    ) {
        if let Some(slot) = self.slot_of(generated)
            && let Some(value) = value()
        {
            self.values.push(slot, value);
        }
    }

    pub(super) fn slot_of(&self, generated: GeneratedField) -> Option<FilterFieldSlotNumber> {
        self.fields.iter().position(|field| field.origin == FilterFieldSource::Generated(generated))
    }

    /// Returns `true` if the filter uses the procedure field of a program version.
    pub(super) fn has_procedures(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.origin, FilterFieldSource::Procedure(_)))
    }

    /// Adds the procedure of a Call to the field of its program and version.
    pub(super) fn procedure(&mut self, program: Option<u64>, version: Option<u64>, procedure: u64) {
        for (slot, field) in self.fields.iter().enumerate() {
            if let FilterFieldSource::Procedure(procedure_field) = field.origin
                && procedure_field.matches_program(program, version)
            {
                self.values.push(slot, FilterValue::Number(procedure.into()));
            }
        }
    }

    /// Marks a protocol without a header as present, even without any of its fields.
    pub(super) fn protocol(&mut self, name: &str) {
        let is_protocol = |field: &ReferencedFilterField| {
            field.name == name && !field.is_search && matches!(field.origin, FilterFieldSource::Protocol(_))
        };
        if let Some(slot) = self.fields.iter().position(is_protocol)
            && !self.values.has(slot)
        {
            self.values.push(slot, FilterValue::Unknown);
        }
    }

    pub(super) fn finish_protocols(&mut self) {
        if let Some(slot) = self.names
            && !self.protocols.is_empty()
        {
            let protocols = std::mem::take(&mut self.protocols);
            self.values.push(slot, FilterValue::Text(protocols.as_bytes()));
            self.protocols = protocols;
        }
    }

    #[inline(always)]
    fn slots(&mut self, field: &'static FieldDefinition) -> FilterSlotSetId {
        let address = std::ptr::from_ref(field).addr();
        match self.slot_cache.get(address) {
            Some(slots) => slots,
            None => self.find_slots(field, address),
        }
    }

    #[cold]
    fn find_slots(&mut self, field: &'static FieldDefinition, address: usize) -> FilterSlotSetId {
        let needs_field = |referenced: &ReferencedFilterField| match &referenced.origin {
            FilterFieldSource::Structure(_) => referenced.name == field.name || is_header_length(referenced, field),
            FilterFieldSource::Protocol(_) => field.name.split_once('.').is_some_and(|(protocol, _)| {
                let (name, members, ..) = COMBINED_PROTOCOL;
                protocol == referenced.name || referenced.name == name && members.contains(&protocol)
            }),
            FilterFieldSource::Alias(alias) => alias.of.contains(&field.name),
            FilterFieldSource::Bit(bit) => bit.of.contains(&field.name),
            FilterFieldSource::Generated(GeneratedField::Protocols) => {
                let layer = field.name.split('.').next().and_then(|name| FilterFieldCatalog::shared().get(name));
                match layer.map(|layer| &layer.origin) {
                    Some(FilterFieldSource::Protocol(_)) => true,
                    _ => !field.name.contains('.') && field.kind == FieldKind::Group,
                }
            }
            // The payload follows the header, which ends after the checksum.
            FilterFieldSource::Generated(GeneratedField::UdpPayload) => field.name == UDP_LENGTH,
            FilterFieldSource::Generated(GeneratedField::Arp) => ETHER_TYPES.contains(&field.name),
            FilterFieldSource::Generated(_) | FilterFieldSource::Procedure(_) => false,
        };
        let matching = self.fields.iter().enumerate().filter(|(_, referenced)| needs_field(referenced));
        let slots: Box<[FilterFieldSlotNumber]> = matching.map(|(slot, _)| slot).collect();
        let set = match u32::try_from(self.sets.len()) {
            Ok(index) if !slots.is_empty() => {
                self.sets.push(slots);
                FilterSlotSetId(index)
            }
            _ => FilterSlotSetId::EMPTY,
        };
        self.slot_cache.insert(address, set);
        set
    }

    fn traits(&self, slot: FilterFieldSlotNumber) -> FilterFieldSlotTraits {
        self.traits.get(slot).copied().unwrap_or_default()
    }

    /// Returns `true` if a structure has a used field.
    #[inline(always)]
    fn is_inside(&mut self, describe: fn(&mut FieldRegistry)) -> bool {
        let address = describe as usize;
        match self.structures.get(address) {
            Some(is_inside) => is_inside,
            None => self.find_used_field(describe, address),
        }
    }

    #[cold]
    fn find_used_field(&mut self, describe: fn(&mut FieldRegistry), address: usize) -> bool {
        let mut registry = FieldRegistry::default();
        describe(&mut registry);
        let fields = registry.fields().flat_map(|(_, fields)| fields);
        let is_inside = fields.into_iter().any(|field| self.slots(field.field) != FilterSlotSetId::EMPTY);
        self.structures.insert(address, is_inside);
        is_inside
    }

    /// Returns `true` if the current message may be of a protocol without a header.
    fn is_current_protocol(&self, slot: FilterFieldSlotNumber) -> bool {
        let name = self.fields.get(slot).map(|field| field.name);
        self.program.is_none_or(|program| name == Some(program))
    }

    fn name_protocol(&mut self, field: &'static FieldDefinition) {
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
        if name == Ethernet::GROUP.name {
            self.protocols.push_str(":ethertype");
        }
    }
}

const UDP_LENGTH: &str = field_names::UDP_LENGTH;

/// The fields with the type of the payload of a link-layer header.
const ETHER_TYPES: [&str; 3] = [field_names::ETH_TYPE, field_names::VLAN_ETYPE, field_names::SLL_ETYPE];

/// Returns `true` if a field is the header length of a used protocol, which has options after the described fields.
fn is_header_length(protocol: &ReferencedFilterField, field: &FieldDefinition) -> bool {
    !protocol.is_search
        && protocol.has_value
        && [field_names::IP_HDR_LEN, field_names::TCP_HDR_LEN].contains(&field.name)
        && field_names::protocol(field.name) == protocol.name
}
