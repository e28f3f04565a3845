//! A listener for the used fields of one decoder; it adds their values to a [`FieldExtractor`].

use std::ops::Range;

use nfsrdma_dissectors::field::registry::FieldRegistry;
use nfsrdma_dissectors::field::{self, FieldDefinition, FieldKind, FieldObserver};
use nfsrdma_dissectors::net::Sll2;

use super::{FieldExtractor, FilterSlotSetId, is_header_length};
use crate::filter::catalog::FilterFieldSource;
use crate::filter::derived_fields::{FieldAliasValuePart, GeneratedField};
use crate::filter::value::{FilterFieldSlotNumber, FilterValue};
use crate::names::transaction_paths;

/// Number of bytes of the UDP header before its length, and after it.
const AROUND_UDP_LENGTH: (usize, usize) = (4, 2);

/// Ether type of ARP, and its length for IPv4 over Ethernet in bytes.
const ARP: (u64, usize) = (0x0806, 28);

pub(in crate::filter) struct FieldExtractionObserver<'g, 'b> {
    extractor: &'g mut FieldExtractor,
    bytes: &'b [u8],
    base: usize,
    depth: usize,
    /// The fields to extract; `None` for all.
    only: Option<&'static [&'static str]>,
    /// Length of the header entered last, if it has a length field.
    header: Option<usize>,
}

impl FieldExtractor {
    /// Creates a listener for decoders of `bytes`, which start at position `base`.
    pub(in crate::filter) fn listen<'g, 'b>(
        &'g mut self,
        bytes: &'b [u8],
        base: usize,
    ) -> FieldExtractionObserver<'g, 'b> {
        self.open.clear();
        self.searched_starts.clear();
        FieldExtractionObserver { extractor: self, bytes, base, depth: 0, only: None, header: None }
    }

    /// Creates a listener for these fields alone; returns `None` if the filter uses none of them.
    pub(in crate::filter) fn listen_for(
        &mut self,
        names: &'static [&'static str],
    ) -> Option<FieldExtractionObserver<'_, 'static>> {
        let is_named = self.fields.iter().any(|field| names.contains(&field.name));
        self.open.clear();
        is_named.then_some(FieldExtractionObserver {
            extractor: self,
            bytes: &[],
            base: 0,
            depth: 0,
            only: Some(names),
            header: None,
        })
    }
}

impl FieldExtractionObserver<'_, '_> {
    #[inline(always)]
    fn has_slot_for(&self, set: FilterSlotSetId) -> bool {
        set != FilterSlotSetId::EMPTY && (self.only.is_none() || self.has_listed_slot(set))
    }

    #[inline(never)]
    fn has_listed_slot(&self, set: FilterSlotSetId) -> bool {
        (0..).map_while(|at| self.slot(set, at)).any(|slot| self.extracts_slot(slot))
    }

    fn extracts_slot(&self, slot: FilterFieldSlotNumber) -> bool {
        let name = || self.extractor.fields.get(slot).map_or("", |field| field.name);
        self.only.is_none_or(|names| names.contains(&name()))
    }

    fn slot(&self, set: FilterSlotSetId, at: usize) -> Option<FilterFieldSlotNumber> {
        self.extractor.sets.get(set.0 as usize)?.get(at).copied()
    }

    /// Starts the protocols and adds the protocol names of a field at byte `at`. Returns its other slots in the vector
    /// of [`FieldExtractor::slot_buffer`].
    fn begin(
        &mut self,
        field: &'static FieldDefinition,
        set: FilterSlotSetId,
        at: usize,
    ) -> Vec<FilterFieldSlotNumber> {
        let mut slots = std::mem::take(&mut self.extractor.slot_buffer);
        slots.clear();
        let mut index = 0;
        while let Some(slot) = self.slot(set, index) {
            index += 1;
            let traits = self.extractor.traits(slot);
            if !self.extracts_slot(slot) {
                continue;
            }
            if traits.is_searched {
                // Nested protocols are several values; a protocol without a header starts once.
                let is_begun = |(searched, _): &(FilterFieldSlotNumber, usize)| *searched == slot;
                if !traits.has_no_header
                    || self.extractor.is_current_protocol(slot) && !self.extractor.searched_starts.iter().any(is_begun)
                {
                    self.extractor.searched_starts.push((slot, at));
                }
            } else if self.extractor.names == Some(slot) {
                self.extractor.name_protocol(field);
            } else if traits.has_no_header {
                if self.extractor.is_current_protocol(slot) && !self.extractor.values.has(slot) {
                    self.push_bytes(slot, at..usize::MAX);
                }
            } else {
                slots.push(slot);
            }
        }
        slots
    }

    fn push_bytes(&mut self, slot: FilterFieldSlotNumber, range: Range<usize>) {
        if !self.extractor.traits(slot).uses_value {
            self.extractor.values.push(slot, FilterValue::Unknown);
            return;
        }
        let at = |position: usize| position.saturating_sub(self.base).min(self.bytes.len());
        let bytes = self.bytes.get(at(range.start)..at(range.end)).unwrap_or_default();
        self.extractor.values.push(slot, FilterValue::Bytes(bytes));
    }
}

impl<'a> FieldObserver<'a> for FieldExtractionObserver<'_, '_> {
    #[inline(always)]
    fn is_interested_in(&mut self, field: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.extractor.is_inside(describe) || {
            let set = self.extractor.slots(field);
            self.has_slot_for(set)
        }
    }

    #[inline(always)]
    fn is_interested_in_header(&mut self, _: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.extractor.is_inside(describe)
    }

    #[inline(always)]
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.depth += 1;
        let set = self.extractor.slots(field);
        if self.has_slot_for(set) {
            self.open(field, set, at);
        }
    }

    #[inline]
    fn leave(&mut self, at: usize) {
        if self.extractor.open.last().is_some_and(|(depth, ..)| *depth == self.depth) {
            self.close(at);
        }
        self.depth = self.depth.saturating_sub(1);
    }

    #[inline]
    fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
        let value = if field.kind == FieldKind::Time {
            FilterValue::Time(nanoseconds)
        } else {
            FilterValue::Duration(nanoseconds)
        };
        let set = self.extractor.slots(field);
        let mut index = 0;
        while let Some(slot) = self.slot(set, index) {
            index += 1;
            let traits = self.extractor.traits(slot);
            if self.extracts_slot(slot)
                && !traits.has_no_header
                && !traits.is_part
                && self.extractor.names != Some(slot)
            {
                self.extractor.values.push(slot, if traits.uses_value { value } else { FilterValue::Unknown });
            }
        }
    }

    /// Most fields are not used, and cost only this check.
    #[inline(always)]
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: field::FieldValue<'a>) {
        let set = self.extractor.slots(field);
        if self.has_slot_for(set) {
            self.add_used_value(field, set, &bytes, value);
        }
    }
}

impl FieldExtractionObserver<'_, '_> {
    /// Finishes decoding: groups left open by an error end with the bytes.
    pub(in crate::filter) fn finish(self) {
        self.finish_at(usize::MAX);
    }

    /// Finishes decoding of data that ends before byte `end`, which link padding may follow.
    pub(in crate::filter) fn finish_at(mut self, end: usize) {
        while !self.extractor.open.is_empty() {
            self.close(usize::MAX);
        }
        while let Some((slot, at)) = self.extractor.searched_starts.pop() {
            // The outermost protocol is the whole frame.
            let end = if at == 0 { usize::MAX } else { end };
            self.push_bytes(slot, at..end);
        }
    }

    /// Uses the length or ether type of the bytes that follow. Returns `true` if the slot is not the field's own.
    fn use_following_bytes(
        &mut self,
        field: &'static FieldDefinition,
        slot: FilterFieldSlotNumber,
        bytes: &Range<usize>,
        number: u64,
    ) -> bool {
        let Some(referenced) = self.extractor.fields.get(slot) else { return false };
        let length = usize::try_from(number).unwrap_or(usize::MAX);
        if referenced.origin == FilterFieldSource::Generated(GeneratedField::UdpPayload) {
            let (before, after) = AROUND_UDP_LENGTH;
            let start = bytes.end + after;
            // A jumbogram has no length, and ends with the frame.
            let end = if length == 0 { usize::MAX } else { (bytes.start - before).saturating_add(length) };
            if start < end {
                self.push_bytes(slot, start..end);
            }
        } else if referenced.origin == FilterFieldSource::Generated(GeneratedField::Arp) {
            if number == ARP.0 {
                // It is the first field of the SLL2 header, and the last of all others.
                let start = if bytes.start == 0 { Sll2::LENGTH } else { bytes.end };
                self.push_bytes(slot, start..start + ARP.1);
            }
        } else if is_header_length(referenced, field) {
            self.header = Some(length);
        } else {
            return false;
        }
        true
    }

    #[inline(never)]
    fn open(&mut self, field: &'static FieldDefinition, set: FilterSlotSetId, at: usize) {
        let slots = self.begin(field, set, at);
        self.extractor.open.push((self.depth, self.extractor.open_slots.len(), at));
        // The value of a time follows its parts.
        if !matches!(field.kind, FieldKind::Time | FieldKind::Duration) {
            for slot in &slots {
                match self.extractor.traits(*slot) {
                    traits if traits.is_part => {}
                    traits if traits.uses_value => self.extractor.open_slots.push(*slot),
                    _ => self.extractor.values.push(*slot, FilterValue::Unknown),
                }
            }
        }
        self.extractor.slot_buffer = slots;
    }

    #[inline(never)]
    fn add_used_value(
        &mut self,
        field: &'static FieldDefinition,
        set: FilterSlotSetId,
        bytes: &Range<usize>,
        value: field::FieldValue<'_>,
    ) {
        let mut slots = self.begin(field, set, bytes.start);
        if let field::FieldValue::Unsigned(number) | field::FieldValue::Enum(number, _) = value {
            slots.retain(|slot| !self.use_following_bytes(field, *slot, bytes, number));
        }
        self.add(field, &slots, bytes, value);
        self.extractor.slot_buffer = slots;
    }

    fn close(&mut self, end: usize) {
        let Some((_, outer, at)) = self.extractor.open.pop() else { return };
        let end = self.header.take().map_or(end, |length| end.max(at.saturating_add(length)));
        let mut index = outer;
        while let Some(slot) = self.extractor.open_slots.get(index).copied() {
            index += 1;
            self.push_bytes(slot, at..end);
        }
        self.extractor.open_slots.truncate(outer);
    }

    fn add(
        &mut self,
        field: &'static FieldDefinition,
        slots: &[FilterFieldSlotNumber],
        bytes: &Range<usize>,
        value: field::FieldValue<'_>,
    ) {
        let value = FilterValue::from_field(field.kind, &value);
        for slot in slots.iter().copied() {
            let traits = self.extractor.traits(slot);
            let value = match value {
                FilterValue::Number(number) if traits.is_part && self.is_unset_request(slot, field, number) => {
                    continue;
                }
                _ if !traits.uses_value => FilterValue::Unknown,
                value if traits.is_part => self.part(slot, value, bytes),
                value => value,
            };
            self.extractor.values.push(slot, value);
        }
    }

    /// Returns `true` for an unset bit that has no meaning in its mask.
    fn is_unset_request(&self, slot: FilterFieldSlotNumber, field: &'static FieldDefinition, number: i128) -> bool {
        match self.extractor.fields.get(slot).map(|field| &field.origin) {
            Some(FilterFieldSource::Bit(bit)) => {
                number & i128::from(bit.mask) == 0 && bit.requests.contains(&field.name)
            }
            _ => false,
        }
    }

    /// Returns the part of a value, located at `bytes`, that a field has.
    fn part(
        &self,
        slot: FilterFieldSlotNumber,
        value: FilterValue<&[u8]>,
        bytes: &Range<usize>,
    ) -> FilterValue<&'static [u8]> {
        let part = match self.extractor.fields.get(slot).map(|field| &field.origin) {
            Some(FilterFieldSource::Alias(alias)) => alias.part,
            Some(FilterFieldSource::Bit(bit)) => {
                return match value {
                    FilterValue::Number(number) => FilterValue::Bool(number & i128::from(bit.mask) != 0),
                    _ => FilterValue::Unknown,
                };
            }
            _ => FieldAliasValuePart::Whole,
        };
        FilterValue::Number(match (part, value) {
            (FieldAliasValuePart::Bits(shift, mask), FilterValue::Number(number)) => number >> shift & i128::from(mask),
            (FieldAliasValuePart::Length, FilterValue::Bytes(bytes)) => bytes.len() as i128,
            (FieldAliasValuePart::Crc32, FilterValue::Bytes(bytes)) => transaction_paths::hash(bytes).into(),
            (FieldAliasValuePart::Crc16From(before), FilterValue::Bytes(_)) => {
                let start = bytes.start.saturating_sub(self.base + before);
                let end = bytes.end.saturating_sub(self.base);
                crc16(self.bytes.get(start..end).unwrap_or_default()).into()
            }
            _ => return FilterValue::Unknown,
        })
    }
}

/// Computes the CRC-16 of HDLC. ITU-T X.25 section 2.2.7.4.
fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x8408;
    !bytes.iter().fold(u16::MAX, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
    use nfsrdma_dissectors::net;

    use super::*;
    use crate::filter::Filter;

    /// Returns an Ethernet frame with an ACK of a reliable connection, from the capture rxe-v42.
    fn frame(bytes: &[u8]) -> Frame<'_> {
        Frame {
            number: FrameNumber(1),
            time: Timestamp(0),
            link: LinkType::ETHERNET,
            bytes,
            length: bytes.len() as u32,
        }
    }

    fn gathered(filter: &str) -> FieldExtractor {
        let mut bytes = vec![0x52, 0x54, 0, 9, 0, 1, 0x52, 0x54, 0, 9, 0, 2, 8, 0];
        bytes.extend([0x45, 0x02, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
        bytes.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        let mut gatherer = FieldExtractor::new(Filter::parse(filter).unwrap().fields);
        let mut listener = gatherer.listen(&bytes, 0);
        net::decode(&frame(&bytes), &mut listener);
        listener.finish();
        gatherer.finish_protocols();
        gatherer
    }

    fn values(filter: &str) -> Vec<String> {
        let gatherer = gathered(filter);
        gatherer.values.values_of(0).map(|value| format!("{value:?}")).collect()
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
    fn a_protocol_is_its_header_but_searches_include_the_payload() {
        let is_selected = |filter: &str| Filter::parse(filter).unwrap().program.is_true(&gathered(filter).values);
        assert!(is_selected("eth contains 00:07:00:09") && is_selected("ip matches \"\\x00\\x07\""));
        assert!(is_selected("len(eth) == 14") && is_selected("eth[12:] == 08:00") && !is_selected("eth[14:1]"));
        let udp = [0, 7, 0, 9, 0, 8, 0, 0];
        assert_eq!(values("udp contains 00"), [format!("Bytes({udp:?})")]);
        assert_eq!(values("udp"), ["Unknown"]);
    }

    #[test]
    fn a_search_looks_into_all_that_a_protocol_carries() {
        let bytes = |range: Range<usize>| {
            let mut all = vec![0x52, 0x54, 0, 9, 0, 1, 0x52, 0x54, 0, 9, 0, 2, 8, 0];
            all.extend([0x45, 0x02, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
            all.extend([0, 7, 0, 9, 0, 8, 0, 0]);
            [format!("Bytes({:?})", &all[range])]
        };
        assert_eq!(values("eth contains 00"), bytes(0..42));
        assert_eq!(values("ip contains 00"), bytes(14..42));
        assert_eq!(values("ip matches \"0\""), bytes(14..42));
        assert_eq!(values("ip[:] contains 00"), bytes(14..34));
        assert_eq!(values("len(ip) > 5"), bytes(14..34));
    }

    /// Returns a UDP datagram in an Ethernet frame, with two bytes and padding.
    fn padded() -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
        bytes.extend([0, 7, 0, 9, 0, 10, 0, 0, b'h', b'i']);
        bytes.resize(60, 0);
        bytes
    }

    #[test]
    fn padding_of_the_link_layer_is_no_payload() {
        let bytes = padded();
        for (filter, expected) in
            [("udp.payload == 68", &b"hi"[..]), ("udp contains 00", &bytes[34..44]), ("eth contains 00", &bytes)]
        {
            let mut gatherer = FieldExtractor::new(Filter::parse(filter).unwrap().fields);
            let mut listener = gatherer.listen(&bytes, 0);
            let datagram = net::decode(&frame(&bytes), &mut listener);
            listener.finish_at(datagram.payload.end_offset().unwrap());
            assert_eq!(gatherer.values.values_of(0).collect::<Vec<_>>(), [FilterValue::Bytes(expected)], "{filter}");
        }
    }

    #[test]
    fn the_options_of_tcp_belong_to_its_header() {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 45, 0, 0, 0, 0, 64, 6, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
        bytes.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, b'x']);
        let mut gatherer = FieldExtractor::new(Filter::parse("tcp[20:2] == 01:01 and tcp contains 78").unwrap().fields);
        let mut listener = gatherer.listen(&bytes, 0);
        net::decode(&frame(&bytes), &mut listener);
        listener.finish();
        assert_eq!(gatherer.values.values_of(0).collect::<Vec<_>>(), [FilterValue::Bytes(&bytes[34..58])]);
        assert_eq!(gatherer.values.values_of(1).collect::<Vec<_>>(), [FilterValue::Bytes(&bytes[34..59])]);
    }

    #[test]
    fn address_resolution_follows_its_ether_type() {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 6]);
        bytes.extend(1..=46);
        let mut gatherer = FieldExtractor::new(Filter::parse("arp[0] == 1").unwrap().fields);
        let mut listener = gatherer.listen(&bytes, 0);
        net::decode(&frame(&bytes), &mut listener);
        listener.finish();
        assert_eq!(gatherer.values.values_of(0).collect::<Vec<_>>(), [FilterValue::Bytes(&bytes[14..42])]);
    }

    #[test]
    fn the_check_value_of_the_crc_of_hdlc() {
        assert_eq!(crc16(b"123456789"), 0x906e);
    }

    #[test]
    fn protocols_are_named_from_outside_to_inside() {
        assert_eq!(values("frame.protocols == \"\""), [format!("Text({:?})", b"eth:ethertype:ip:udp")]);
    }
}
