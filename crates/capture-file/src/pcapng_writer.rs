//! Writer of capture files in the pcapng format (draft-ietf-opsawg-pcapng): one section, in big-endian byte order.

use std::io::{self, Write};

use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};

use super::live_capture_counters::CapturePacketCounters;
use super::pcapng::{
    CaptureFileInterface, ENHANCED_PACKET, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS, ISB_FILTERACCEPT, ISB_IFDROP, ISB_OSDROP, ISB_USRDELIV, OPT_COMMENT, SECTION_HEADER,
};

/// Option codes that only a writer needs, sections 4.1, 4.2 and 4.6.
const SHB_USERAPPL: u16 = 4;
const IF_FILTER: u16 = 11;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;

/// Maximum number of bytes of an option, whose length field has 16 bits.
const MAX_OPTION_BYTES: usize = u16::MAX as usize;

/// An interface with an Interface Description Block, and the number of the file that it comes from.
#[derive(Clone, Debug)]
struct WrittenInterfaceDescription {
    file: usize,
    interface: CaptureFileInterface,
}

impl WrittenInterfaceDescription {
    fn matches(&self, file: usize, interface: &CaptureFileInterface) -> bool {
        let described = &self.interface;
        self.file == file
            && described.link == interface.link
            && described.snap_length == interface.snap_length
            && described.digits() == interface.digits()
            && described.clock_offset() == interface.clock_offset()
            && described.name == interface.name
    }
}

/// Number of an interface in the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// Writer of a capture file.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    to: W,
    interfaces: Vec<WrittenInterfaceDescription>,
    /// Index of the interface of the last request.
    last_interface: usize,
    block: Vec<u8>,
    /// Capture filter of all interfaces.
    filter: Option<String>,
    /// Bytes written so far.
    length: u64,
}

/// Content of an Interface Statistics Block, section 4.6.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceStatistics {
    /// Time when capturing on the interface began.
    pub start: Timestamp,
    /// Time when capturing ended.
    pub end: Timestamp,
    /// Counters between the two.
    pub counters: CapturePacketCounters,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a file without packets. `application` is the name and version of the program that writes it
    /// (shb_userappl).
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn new(to: W, application: &str) -> io::Result<Self> {
        let mut this =
            Self { to, interfaces: Vec::new(), last_interface: 0, block: Vec::new(), filter: None, length: 0 };
        this.begin(SECTION_HEADER);
        // The byte-order magic, version 1.0, and an unspecified section length.
        this.words(&[0x1a2b_3c4d, 1 << 16, u32::MAX, u32::MAX]);
        this.option(SHB_USERAPPL, application.as_bytes());
        this.end()?;
        Ok(this)
    }

    /// Sets the capture filter of all interfaces.
    pub fn with_filter(self, filter: Option<&str>) -> Self {
        Self { filter: filter.map(str::to_owned), ..self }
    }

    /// Returns the number of bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the id of an interface of file number `file`, and writes its description block at the first request.
    /// Link type, snap length, name and clock are those of the source; timestamps of a clock without a decimal
    /// resolution are written in nanoseconds.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn interface(&mut self, file: usize, interface: &CaptureFileInterface) -> io::Result<InterfaceId> {
        let is_same = |at: usize| self.interfaces.get(at).is_some_and(|existing| existing.matches(file, interface));
        let index = if is_same(self.last_interface) {
            Some(self.last_interface)
        } else {
            (0..self.interfaces.len()).find(|at| is_same(*at))
        };
        self.last_interface = match index {
            Some(at) => at,
            None => self.describe(file, interface)?,
        };
        Ok(InterfaceId(self.last_interface as u32))
    }

    #[cold]
    fn describe(&mut self, file: usize, interface: &CaptureFileInterface) -> io::Result<usize> {
        self.begin(INTERFACE_DESCRIPTION);
        self.words(&[interface.link.0 << 16, interface.snap_length]);
        if !interface.name.is_empty() {
            self.option(IF_NAME, interface.name.as_bytes());
        }
        self.option(IF_TSRESOL, &[interface.digits()]);
        if let Some(filter) = self.filter.take() {
            // Code 0: a filter in the syntax of pcap-filter(7).
            self.option(IF_FILTER, &[&[0], filter.as_bytes()].concat());
            self.filter = Some(filter);
        }
        if interface.clock_offset() != 0 {
            self.option(IF_TSOFFSET, &interface.clock_offset().to_be_bytes());
        }
        self.end()?;
        self.interfaces.push(WrittenInterfaceDescription { file, interface: interface.clone() });
        Ok(self.interfaces.len() - 1)
    }

    /// Writes a frame of an interface with comments.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn frame<'c>(
        &mut self,
        id: InterfaceId,
        frame: &Frame<'_>,
        comments: impl Iterator<Item = &'c str>,
    ) -> io::Result<()> {
        let [high, low] = self.ticks(id, frame.time);
        self.begin(ENHANCED_PACKET);
        let length = frame.bytes.len() as u32;
        self.words(&[id.0, high, low, length, frame.length.max(length)]);
        self.padded(frame.bytes);
        comments.for_each(|comment| self.option(OPT_COMMENT, comment.as_bytes()));
        self.end()
    }

    /// Writes the counters of an interface. A comment has the number of packets that the program itself dropped, the
    /// difference between what the kernel delivered and what was decoded.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn statistics(&mut self, id: InterfaceId, statistics: &InterfaceStatistics) -> io::Result<()> {
        let InterfaceStatistics { start, end, counters } = *statistics;
        let [start, end] = [start, end].map(|time| self.ticks(id, time));
        self.begin(INTERFACE_STATISTICS);
        self.words(&[id.0, end[0], end[1]]);
        for (code, time) in [(ISB_STARTTIME, start), (ISB_ENDTIME, end)] {
            self.option(code, &time.map(u32::to_be_bytes).concat());
        }
        for (code, count) in [
            (ISB_IFDROP, counters.dropped_by_interface),
            (ISB_FILTERACCEPT, counters.received),
            (ISB_OSDROP, counters.dropped_by_kernel),
            (ISB_USRDELIV, counters.decoded),
        ] {
            self.option(code, &count.to_be_bytes());
        }
        if counters.dropped_by_program > 0 {
            let comment = format!("{} packets were dropped by the capturing program", counters.dropped_by_program);
            self.option(OPT_COMMENT, comment.as_bytes());
        }
        self.end()
    }

    /// Converts a time to ticks of the clock of an interface: the upper and the lower 32 bits.
    fn ticks(&self, id: InterfaceId, time: Timestamp) -> [u32; 2] {
        let interface = self.interfaces.get(id.0 as usize).map(|entry| &entry.interface);
        let (digits, offset) = interface.map_or((9, 0), |interface| (interface.digits(), interface.clock_offset()));
        let elapsed_ns = i128::from(time.0) - i128::from(offset) * 1_000_000_000;
        let tick = 10_i128.pow(9_u32.saturating_sub(digits.into()));
        // Times before the offset of the clock cannot be represented.
        let ticks = u64::try_from(elapsed_ns.div_euclid(tick)).unwrap_or(0);
        [(ticks >> 32) as u32, ticks as u32]
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Returns the output.
    pub fn output(&mut self) -> &mut W {
        &mut self.to
    }

    /// Ends the file and returns the output.
    pub fn into_output(self) -> W {
        self.to
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        // The block length is filled in at the end.
        self.words(&[kind, 0]);
    }

    fn words(&mut self, words: &[u32]) {
        self.block.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Appends an option, section 3.5. A block ends with its options, so that opt_endofopt may be omitted.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..MAX_OPTION_BYTES).unwrap_or(value);
        self.words(&[u32::from(code) << 16 | value.len() as u32]);
        self.padded(value);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = (self.block.len() as u32 + 4).to_be_bytes();
        if let Some(length_field) = self.block.get_mut(4..8) {
            length_field.copy_from_slice(&length);
        }
        self.block.extend(length);
        self.length += self.block.len() as u64;
        self.to.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use nfsrdma_dissectors::captured_frame::{FrameNumber, LinkType};

    use crate::frame_source::CaptureFrameSource;

    use super::*;

    /// Returns a pcapng file of one frame: an interface of this resolution and offset, and a time in its ticks.
    fn file(resolution: u8, offset: i64, ticks: u64) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_be_bytes();
            [&kind.to_be_bytes()[..], &length, body, &length].concat()
        };
        let option =
            |code: u16, value: &[u8]| [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat();
        let interface = [
            &[0, 247, 0, 0, 0, 0, 0, 96][..],
            &option(IF_NAME, b"mlx5"),
            &option(IF_TSRESOL, &[resolution]),
            &[0; 3],
            &option(IF_TSOFFSET, &offset.to_be_bytes()),
        ];
        let packet = [
            &[0; 4][..],
            &ticks.to_be_bytes(),
            &[0, 0, 0, 3, 0, 0, 0, 60],
            &[1, 2, 3, 0],
            &option(OPT_COMMENT, b"seen"),
        ];
        let section = [0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        [
            block(SECTION_HEADER, &section),
            block(INTERFACE_DESCRIPTION, &interface.concat()),
            block(ENHANCED_PACKET, &packet.concat()),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> CaptureFrameSource {
        let mut source = CaptureFrameSource::from_reader("test", Cursor::new(bytes.to_vec()));
        source.next().unwrap().unwrap();
        source
    }

    /// Copies the frame of a file as read, with an added comment.
    fn copied(bytes: &[u8]) -> Vec<u8> {
        let source = read(bytes);
        let mut copy = Vec::new();
        let mut writer = PcapngWriter::new(&mut copy, "test").unwrap();
        let (file, interface) = source.interface().unwrap();
        let id = writer.interface(file, interface).unwrap();
        let comments: Vec<_> = source.comments().collect();
        let all = comments.iter().map(AsRef::as_ref).chain(["and written"]);
        writer.frame(id, &source.frame().unwrap(), all).unwrap();
        copy
    }

    #[test]
    fn a_frame_keeps_its_interface_its_time_and_its_comments() {
        for (resolution, offset, ticks) in [(6, 0, 1_795_230_439_055_820), (9, -7, 7_000_000_001), (0, 1 << 40, 3)] {
            let bytes = file(resolution, offset, ticks);
            let copy = copied(&bytes);
            let (one, other) = (read(&bytes), read(&copy));
            let (a, b) = (one.frame().unwrap(), other.frame().unwrap());
            assert_eq!((a.time, a.link, a.length, a.bytes), (b.time, b.link, b.length, b.bytes));
            assert_eq!((b.link, b.length, b.bytes), (LinkType::INFINIBAND, 60, &[1, 2, 3][..]));
            assert_eq!(one.interface(), other.interface());
            assert_eq!(other.interface().unwrap().1.digits(), resolution);
            assert_eq!(other.comments().collect::<Vec<_>>(), ["seen", "and written"]);
        }
    }

    #[test]
    fn times_of_a_binary_clock_become_nanoseconds() {
        let copy = copied(&file(0x80 | 10, 0, 1536));
        let source = read(&copy);
        assert_eq!(source.frame().unwrap().time, Timestamp(1_500_000_000));
        assert_eq!(source.interface().unwrap().1.digits(), 9);
    }

    #[test]
    fn an_interface_is_described_once() {
        let source = read(&file(9, 0, 1));
        let (_, interface) = source.interface().unwrap();
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        let id = |writer: &mut PcapngWriter<Vec<u8>>, file| writer.interface(file, interface).unwrap().0;
        // Equal interfaces of different files are distinct.
        let ids: Vec<u32> = [0, 1, 0, 1, 1].into_iter().map(|file| id(&mut writer, file)).collect();
        assert_eq!(ids, [0, 1, 0, 1, 1]);
    }

    #[test]
    fn a_file_without_frames_is_a_capture() {
        let mut bytes = Vec::new();
        PcapngWriter::new(&mut bytes, "test").unwrap();
        let mut source = CaptureFrameSource::from_reader("test", Cursor::new(bytes));
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn drops_of_every_cause_are_in_the_statistics() {
        let mut bytes = Vec::new();
        let mut writer = PcapngWriter::new(&mut bytes, "test").unwrap().with_filter(Some("udp port 4791"));
        let source = read(&file(9, 0, 1));
        let id = writer.interface(0, source.interface().unwrap().1).unwrap();
        let counters = CapturePacketCounters {
            received: 100,
            dropped_by_kernel: 7,
            dropped_by_interface: 5,
            captured: 93,
            dropped_by_program: 3,
            decoded: 90,
        };
        let [start, end] = [Timestamp(1), Timestamp(2_000_000_000)];
        writer.statistics(id, &InterfaceStatistics { start, end, counters }).unwrap();
        assert_eq!(writer.length(), bytes.len() as u64);
        let mut source = CaptureFrameSource::from_reader("test", Cursor::new(bytes));
        assert!(source.next().unwrap().is_none());
        assert_eq!(source.dropped(), Some(7 + 5 + 3));
        assert_eq!(source.interfaces().next().unwrap().1.received, Some(100));
    }

    #[test]
    fn comments_longer_than_an_option_are_cut() {
        let mut bytes = Vec::new();
        let mut writer = PcapngWriter::new(&mut bytes, "test").unwrap();
        let source = read(&file(9, 0, 1));
        let id = writer.interface(0, source.interface().unwrap().1).unwrap();
        let frame =
            Frame { number: FrameNumber(1), time: Timestamp(1), link: LinkType::INFINIBAND, bytes: b"abcd", length: 4 };
        writer.frame(id, &frame, ["x".repeat(70_000).as_str(), "y"].into_iter()).unwrap();
        let copy = read(&bytes);
        let lengths: Vec<usize> = copy.comments().map(|comment| comment.len()).collect();
        assert_eq!(lengths, [65_535, 1]);
    }
}
