//! The pcapng format (draft-ietf-opsawg-pcapng).

use std::borrow::Cow;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};

use super::buffer::{CaptureFileReadBuffer, CaptureRecord};
use super::byte_order::ByteOrder;
use super::error::SourceErrorKind;
use super::timestamp_resolution::InterfaceClock;

/// First bytes of a file: the Section Header Block type, which is the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Block types, section 11.1.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// Option codes, sections 3.5, 4.2 and 4.6.
const OPT_END: u16 = 0;
pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_TSRESOL: u16 = 9;
pub(super) const IF_TSOFFSET: u16 = 14;
const ISB_IFRECV: u16 = 4;
pub(super) const ISB_IFDROP: u16 = 5;
pub(super) const ISB_FILTERACCEPT: u16 = 6;
pub(super) const ISB_OSDROP: u16 = 7;
pub(super) const ISB_USRDELIV: u16 = 8;

/// Bytes around the body of a block: type and length before it, length after it.
const BLOCK_OVERHEAD_BYTES: usize = 12;
/// Bytes before the data of an Enhanced Packet Block and of a Packet Block.
const PACKET_HEADER_BYTES: usize = 28;
/// Maximum number of interfaces per section, and of bytes stored of a name. They limit the memory of interfaces.
const MAX_INTERFACES: usize = 1 << 16;
const MAX_NAME_BYTES: usize = 256;

/// A capture interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFileInterface {
    /// Name, of at most 256 bytes; empty if the file has none, as in every pcap file.
    pub name: String,
    /// Link type of its frames.
    pub link: LinkType,
    /// Snap length in bytes; 0 for no limit.
    pub snap_length: u32,
    /// Number of packets received, as the capturing program last counted them (isb_ifrecv, else isb_filteraccept).
    pub received: Option<u64>,
    /// Number of packets dropped, as the capturing program last counted them: in the interface (isb_ifdrop), in the
    /// operating system (isb_osdrop), and those delivered to the program but not written (isb_filteraccept,
    /// isb_usrdeliv).
    pub dropped: Option<u64>,
    clock: InterfaceClock,
}

impl CaptureFileInterface {
    /// Returns the number of decimal digits of its timestamps, at most 9.
    pub fn digits(&self) -> u8 {
        self.clock.digits()
    }

    /// Returns the epoch of its clock, in seconds since 1970-01-01 00:00:00 UTC.
    pub fn clock_offset(&self) -> i64 {
        self.clock.offset()
    }

    /// Replaces the clock by one with ticks of `tick` nanoseconds.
    pub(super) fn with_tick(self, tick: u64) -> Self {
        Self { clock: InterfaceClock::from_nanoseconds(tick), ..self }
    }

    /// Returns an interface without a name, counters or a described clock.
    pub(super) fn unnamed(link: LinkType, snap_length: u32) -> Self {
        Self { name: String::new(), link, snap_length, received: None, dropped: None, clock: InterfaceClock::default() }
    }
}

/// A pcapng file from its first Section Header Block on.
#[derive(Default)]
pub(super) struct PcapngFileReader {
    order: ByteOrder,
    section_count: u64,
    /// Interfaces of the current section.
    pub(super) interfaces: Vec<CaptureFileInterface>,
    dropped_in_earlier_sections: Option<u64>,
    last_time: Timestamp,
    /// Index of the last packet's interface, counted from 0 in its section.
    last_interface: usize,
    options: Range<usize>,
}

impl PcapngFileReader {
    /// Reads the first Section Header Block.
    pub(super) fn open(buffer: &mut CaptureFileReadBuffer) -> Result<Self, SourceErrorKind> {
        let mut this = Self::default();
        this.read_section(buffer).map_err(|error| match error {
            SourceErrorKind::Truncated { available_bytes, required_bytes } => {
                SourceErrorKind::TruncatedHeader { available_bytes, required_bytes }
            }
            other => other,
        })?;
        Ok(this)
    }

    /// Returns the number of sections begun and of interfaces described in the current one. If both are unchanged,
    /// packets are interpreted in the same way.
    pub(super) fn interface_state(&self) -> (u64, usize) {
        (self.section_count, self.interfaces.len())
    }

    pub(super) fn last_interface(&self) -> Option<&CaptureFileInterface> {
        self.interfaces.get(self.last_interface)
    }

    /// Returns the sum of the drop counters of all interfaces and sections so far; `None` if there were none.
    pub(super) fn dropped(&self) -> Option<u64> {
        self.interfaces
            .iter()
            .filter_map(|interface| interface.dropped)
            .fold(self.dropped_in_earlier_sections, add_count)
    }

    /// Returns the comments on the last packet, section 3.5.
    pub(super) fn comments<'a>(
        &self,
        buffer: &'a CaptureFileReadBuffer,
    ) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        PcapngBlockOptions { order: self.order, rest: buffer.get(self.options.clone()) }
            .filter(|(code, _)| *code == OPT_COMMENT)
            .map(|(_, value)| String::from_utf8_lossy(value))
    }

    /// Reads blocks up to the next packet. Returns `false` at the end.
    #[inline]
    pub(super) fn next(
        &mut self,
        buffer: &mut CaptureFileReadBuffer,
        record: &mut CaptureRecord,
    ) -> Result<bool, SourceErrorKind> {
        loop {
            if !buffer.fill(8)? {
                return buffer.end_within(BLOCK_OVERHEAD_BYTES);
            }
            let Some([kind, length]) = self.order.decode_words(buffer.buffered()) else { return Ok(false) };
            if kind == ENHANCED_PACKET || kind == PACKET {
                self.read_packet(buffer, record, kind, length)?;
                return Ok(true);
            }
            match kind {
                SECTION_HEADER => self.read_section(buffer)?,
                SIMPLE_PACKET => {
                    self.read_simple_packet(buffer, record, length)?;
                    return Ok(true);
                }
                INTERFACE_DESCRIPTION => self.read_interface(buffer, length)?,
                INTERFACE_STATISTICS => self.read_statistics(buffer, length)?,
                // Name resolution, secrets, journals, custom blocks and unknown types.
                _ => skip_block(buffer, kind, length)?,
            }
        }
    }

    /// Enhanced Packet Block, section 4.3; obsolete Packet Block, appendix A.
    #[inline]
    fn read_packet(
        &mut self,
        buffer: &mut CaptureFileReadBuffer,
        record: &mut CaptureRecord,
        kind: u32,
        length: u32,
    ) -> Result<(), SourceErrorKind> {
        let (length, [_, _, id, high, low, captured, on_wire]) =
            fill_block(buffer, self.order, kind, length, PACKET_HEADER_BYTES + 4)?;
        let id = if kind == PACKET { u32::from(self.order.split_halves(id).0) } else { id };
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(SourceErrorKind::UnknownInterface(id));
        };
        if captured as usize > length - PACKET_HEADER_BYTES - 4 {
            return Err(SourceErrorKind::Block(kind, "is too short for the packet that it claims to hold"));
        }
        record.time = interface.clock.time(u64::from(high) << 32 | u64::from(low));
        record.link = interface.link;
        record.length = on_wire.max(captured);
        let block = buffer.take(length);
        let data = block.start + PACKET_HEADER_BYTES;
        // Cannot overflow: the sum is within the block, which is within the buffer. Rounding up adds at most 3.
        let end = data + captured as usize;
        self.options = end.next_multiple_of(4).min(block.end - 4)..block.end - 4;
        self.last_time = record.time;
        self.last_interface = id as usize;
        record.bytes = data..end;
        Ok(())
    }

    /// Simple Packet Block, section 4.4: a packet of the first interface, without a time. It gets the time of the
    /// packet before it in the file, so that the clock does not go back, or 1970 if there is none.
    fn read_simple_packet(
        &mut self,
        buffer: &mut CaptureFileReadBuffer,
        record: &mut CaptureRecord,
        length: u32,
    ) -> Result<(), SourceErrorKind> {
        const BEFORE: usize = 12;
        let (length, [_, _, on_wire]) = fill_block(buffer, self.order, SIMPLE_PACKET, length, BEFORE + 4)?;
        let Some(interface) = self.interfaces.first() else {
            return Err(SourceErrorKind::UnknownInterface(0));
        };
        let limit = if interface.snap_length == 0 { u32::MAX } else { interface.snap_length };
        let captured = (on_wire.min(limit) as usize).min(length - BEFORE - 4);
        record.link = interface.link;
        let data = buffer.take(length).start + BEFORE;
        self.options = 0..0;
        self.last_interface = 0;
        record.time = self.last_time;
        record.length = on_wire;
        record.bytes = data..data + captured;
        Ok(())
    }

    /// Section Header Block, section 4.1. Its byte order must be known before its length.
    fn read_section(&mut self, buffer: &mut CaptureFileReadBuffer) -> Result<(), SourceErrorKind> {
        const LEAST: usize = 28;
        if !buffer.fill(BLOCK_OVERHEAD_BYTES)? {
            return Err(buffer.truncated(LEAST));
        }
        let order = match buffer.buffered().get(8..12) {
            Some([0x4d, 0x3c, 0x2b, 0x1a]) => ByteOrder::Little,
            Some([0x1a, 0x2b, 0x3c, 0x4d]) => ByteOrder::Big,
            _ => return Err(SourceErrorKind::Block(SECTION_HEADER, "has no byte-order magic")),
        };
        let Some([_, length]) = order.decode_words(buffer.buffered()) else {
            return Err(too_short_error(SECTION_HEADER));
        };
        let (length, [_, _, _, version]) = fill_block(buffer, order, SECTION_HEADER, length, LEAST)?;
        let (major, minor) = order.split_halves(version);
        if major != 1 {
            return Err(SourceErrorKind::Version("pcapng", major, minor));
        }
        buffer.take(length);
        self.section_count += 1;
        self.dropped_in_earlier_sections = self.dropped();
        self.interfaces.clear();
        self.order = order;
        Ok(())
    }

    /// Interface Description Block, section 4.2.
    fn read_interface(&mut self, buffer: &mut CaptureFileReadBuffer, length: u32) -> Result<(), SourceErrorKind> {
        const KIND: u32 = INTERFACE_DESCRIPTION;
        let order = self.order;
        let (length, [_, _, link, snap_length]) = fill_block(buffer, order, KIND, length, 20)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(SourceErrorKind::Block(KIND, "is one interface too many: a section may have 65536"));
        }
        let mut interface = CaptureFileInterface::unnamed(LinkType(u32::from(order.split_halves(link).0)), snap_length);
        let rest = buffer.buffered().get(16..length - 4).unwrap_or_default();
        for (code, value) in (PcapngBlockOptions { order, rest }) {
            match (code, value) {
                (IF_NAME, name) => {
                    let prefix = name.get(..MAX_NAME_BYTES).unwrap_or(name);
                    interface.name = String::from_utf8_lossy(prefix).trim_end_matches('\0').to_owned();
                }
                (IF_TSRESOL, [resolution, ..]) => interface.clock.set_resolution(*resolution),
                (IF_TSOFFSET, value) => {
                    if let Some(seconds) = value.first_chunk() {
                        interface.clock.set_offset(order.u64(*seconds).cast_signed());
                    }
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        buffer.take(length);
        Ok(())
    }

    /// Interface Statistics Block, section 4.6. The counters are cumulative, so the last block of an interface counts.
    fn read_statistics(&mut self, buffer: &mut CaptureFileReadBuffer, length: u32) -> Result<(), SourceErrorKind> {
        let order = self.order;
        let (length, [_, _, id]) = fill_block(buffer, order, INTERFACE_STATISTICS, length, 24)?;
        if let Some(interface) = self.interfaces.get_mut(id as usize) {
            let rest = buffer.buffered().get(20..length - 4).unwrap_or_default();
            let (mut received, mut dropped) = (None, None);
            let (mut accepted, mut delivered, mut dropped_by_system) = (None, None, 0);
            for (code, value) in (PcapngBlockOptions { order, rest }) {
                let Some(count) = value.first_chunk().map(|count| order.u64(*count)) else { continue };
                match code {
                    ISB_IFRECV => received = Some(count),
                    ISB_IFDROP => dropped = add_count(dropped, count),
                    ISB_OSDROP => (dropped, dropped_by_system) = (add_count(dropped, count), count),
                    ISB_FILTERACCEPT => accepted = Some(count),
                    ISB_USRDELIV => delivered = Some(count),
                    _ => {}
                }
            }
            // Counters grow: the last block that has one counts.
            interface.received = received.or(accepted).or(interface.received);
            // Packets delivered to the capturing program, but not written to the file.
            if let Some((accepted, delivered)) = accepted.zip(delivered) {
                dropped = add_count(dropped, accepted.saturating_sub(dropped_by_system).saturating_sub(delivered));
            }
            interface.dropped = dropped.or(interface.dropped);
        }
        buffer.take(length);
        Ok(())
    }
}

fn add_count(sum: Option<u64>, count: u64) -> Option<u64> {
    Some(sum.unwrap_or(0).saturating_add(count))
}

fn too_short_error(kind: u32) -> SourceErrorKind {
    SourceErrorKind::Block(kind, "is shorter than its fixed part")
}

/// Checks a block's length, section 3.1, and returns it in bytes.
fn check_length(kind: u32, length: u32, min_bytes: usize) -> Result<usize, SourceErrorKind> {
    match length as usize {
        bytes if bytes < min_bytes => Err(too_short_error(kind)),
        bytes if bytes.is_multiple_of(4) => Ok(bytes),
        _ => Err(SourceErrorKind::Block(kind, "has a length that is not a multiple of 4")),
    }
}

/// Checks a block's length, section 3.1, and buffers the whole block. Returns the length and the first words.
///
/// The length repeated after the body serves to read backwards. It is not checked, because some programs write it
/// wrong.
#[inline]
fn fill_block<const N: usize>(
    buffer: &mut CaptureFileReadBuffer,
    order: ByteOrder,
    kind: u32,
    length: u32,
    min_bytes: usize,
) -> Result<(usize, [u32; N]), SourceErrorKind> {
    let length = check_length(kind, length, min_bytes)?;
    buffer.require(length)?;
    let words = order.decode_words(buffer.buffered()).ok_or_else(|| too_short_error(kind))?;
    Ok((length, words))
}

/// Skips a block of any length without buffering it.
fn skip_block(buffer: &mut CaptureFileReadBuffer, kind: u32, length: u32) -> Result<(), SourceErrorKind> {
    check_length(kind, length, BLOCK_OVERHEAD_BYTES)?;
    match buffer.skip(u64::from(length))? {
        skipped if skipped < u64::from(length) => {
            Err(SourceErrorKind::Truncated { available_bytes: skipped, required_bytes: u64::from(length) })
        }
        _ => Ok(()),
    }
}

/// The options of a block, section 3.5: code and value. Malformed data ends them.
struct PcapngBlockOptions<'a> {
    order: ByteOrder,
    rest: &'a [u8],
}

impl<'a> Iterator for PcapngBlockOptions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[c0, c1, l0, l1], rest) = self.rest.split_first_chunk::<4>()?;
        let code = self.order.u16([c0, c1]);
        let length = usize::from(self.order.u16([l0, l1]));
        let value = rest.get(..length)?;
        if code == OPT_END {
            return None;
        }
        self.rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}

#[cfg(test)]
mod tests;
