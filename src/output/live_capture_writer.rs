//! Writer of a live capture: one file or a sequence of files.
//!
//! Rotation, limits and names of the files are those of tshark (`-b`): `NAME_00001_TIME.EXT`, with the time in UTC.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use nfsrdma_capture_file::{
    CaptureFileInterface, CapturePacketCounters, InterfaceId, InterfaceStatistics, PcapngWriter,
};
use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};
use nfsrdma_output_file::{CompletedOutputFile, OutputError, OutputFile, ProtectedInputFiles, WRITE_BUFFER_BYTES};

use super::pcapng_export::APPLICATION;
use super::units::FileNameTimestamp;

/// Conditions at which a file ends and the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFileRotation {
    /// File size in bytes.
    pub bytes: Option<NonZeroU64>,
    /// Age of the file in seconds.
    pub seconds: Option<NonZeroU64>,
    /// Interval in seconds: a file ends at each multiple of it since 1970.
    pub interval: Option<NonZeroU64>,
    /// Number of packets.
    pub packets: Option<NonZeroU64>,
    /// Maximum number of files; the oldest is removed when there are more.
    pub files: Option<NonZeroU64>,
}

impl CaptureFileRotation {
    /// Returns `true` if any condition ends a file.
    pub fn has_condition(&self) -> bool {
        self.bytes.or(self.seconds).or(self.interval).or(self.packets).is_some()
    }
}

/// Destination of a capture.
#[derive(Clone, Debug)]
pub enum CaptureFileDestination {
    /// One file; `-` is standard output.
    File(PathBuf),
    /// Sequence of files, named after this path.
    Files(PathBuf, CaptureFileRotation),
}

/// Maximum number of bytes of a block besides those of its packet: header, padding, and length at the end.
const BLOCK_OVERHEAD_BYTES: u64 = 40;

struct OpenCaptureOutputFile {
    to: PcapngWriter<OutputFile>,
    /// The interfaces, in the order of the recording's.
    interfaces: Vec<InterfaceId>,
    packets: u64,
    start: Timestamp,
    /// Length of the file when it was flushed last.
    flushed_bytes: u64,
}

/// Writer of a capture. A file appears under its name as soon as it has its header, and grows by whole blocks: it can
/// be read while it is written, and no older file is removed before a new one exists.
pub struct LiveCaptureFileWriter {
    target: CaptureFileDestination,
    /// The interfaces, each with its capture filter.
    interfaces: Vec<(CaptureFileInterface, Option<String>)>,
    open: Option<OpenCaptureOutputFile>,
    /// Number of files begun.
    files: u64,
    /// Path of the last file.
    path: Option<PathBuf>,
    /// Closed files that still exist.
    written: VecDeque<CompletedOutputFile>,
    packets: u64,
    /// Those of them that are in files: the others are in a buffer.
    flushed_packets: u64,
    bytes: u64,
    /// Counters of each interface at the end of the last file.
    last_counters: Vec<CapturePacketCounters>,
}

impl LiveCaptureFileWriter {
    /// Creates a recording of the frames of interfaces, each with its capture filter. A single file is created at once,
    /// to reserve its name.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created or written.
    pub fn new(
        target: CaptureFileDestination,
        interfaces: Vec<(CaptureFileInterface, Option<String>)>,
    ) -> Result<Self, OutputError> {
        let mut writer = Self {
            target,
            interfaces,
            open: None,
            files: 0,
            path: None,
            written: VecDeque::new(),
            packets: 0,
            flushed_packets: 0,
            bytes: 0,
            last_counters: Vec::new(),
        };
        if matches!(writer.target, CaptureFileDestination::File(_)) {
            writer.begin_file(None)?;
        }
        Ok(writer)
    }

    /// Returns the number of files begun.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of packets that were not written because writing failed.
    pub fn lost_packets(&self) -> u64 {
        self.packets - self.flushed_packets
    }

    /// Returns the bytes of the current file.
    pub fn length(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.to.length())
    }

    /// Returns the bytes of all files, without those in a buffer.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.open.as_ref().map_or(0, |open| open.flushed_bytes)
    }

    /// Writes a frame of the interface `on`, into a new file if the current one is over. `counters` are those of each
    /// interface, this frame included.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created or written.
    pub fn frame(
        &mut self,
        on: usize,
        frame: &Frame<'_>,
        counters: impl Fn() -> Vec<CapturePacketCounters>,
    ) -> Result<(), OutputError> {
        if self.must_rotate(frame.time) {
            let mut counters = without_pending(counters());
            // This frame belongs to the next file.
            if let Some(counters) = counters.get_mut(on) {
                for count in [&mut counters.received, &mut counters.captured, &mut counters.decoded] {
                    *count = count.saturating_sub(1);
                }
            }
            self.end_file(frame.time, counters)?;
        }
        if self.open.is_none() {
            self.begin_file(Some(frame.time))?;
        }
        // A flush in the middle of a block would leave the number of packets in the file unknown.
        let required_bytes = BLOCK_OVERHEAD_BYTES + frame.bytes.len() as u64;
        let buffered_bytes = self.open.as_ref().map_or(0, |open| open.to.length() - open.flushed_bytes);
        if buffered_bytes + required_bytes > WRITE_BUFFER_BYTES as u64 {
            self.flush()?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.packets == 0 {
            open.start = open.start.min(frame.time);
        }
        open.packets += 1;
        self.packets += 1;
        let Some(interface_id) = open.interfaces.get(on) else { return Ok(()) };
        let result = open.to.frame(*interface_id, frame, std::iter::empty());
        self.with_path(result)
    }

    /// Flushes the current file if no frame arrives, and ends it if its time is over.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn idle(
        &mut self,
        now: Timestamp,
        counters: impl Fn() -> Vec<CapturePacketCounters>,
    ) -> Result<(), OutputError> {
        if self.must_rotate(now) {
            self.end_file(now, without_pending(counters()))?;
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        let result = self.open.as_mut().map_or(Ok(()), |open| open.to.flush());
        self.with_path(result)?;
        self.flushed_packets = self.packets;
        if let Some(open) = &mut self.open {
            open.flushed_bytes = open.to.length();
        }
        Ok(())
    }

    /// Ends the current file and the capture.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created or written.
    pub fn finish(&mut self, now: Timestamp, counters: Vec<CapturePacketCounters>) -> Result<(), OutputError> {
        // A capture without packets is a file, too.
        if self.files == 0 {
            self.begin_file(Some(now))?;
        }
        self.end(now, without_pending(counters))?.map_or(Ok(()), OutputFile::commit)?;
        self.flushed_packets = self.packets;
        Ok(())
    }

    /// Returns `true` if `files` files are complete at `now`, so that a frame would begin another one.
    pub fn needs_file_after(&self, files: u64, now: Timestamp) -> bool {
        self.files >= files && (self.open.is_none() || self.must_rotate(now))
    }

    fn must_rotate(&self, now: Timestamp) -> bool {
        let (CaptureFileDestination::Files(_, rotation), Some(open)) = (&self.target, &self.open) else {
            return false;
        };
        let age = now.nanoseconds_since(open.start).unwrap_or(0) / 1_000_000_000;
        let second = |time: Timestamp| time.0.div_euclid(1_000_000_000);
        let round = |time: Timestamp, interval: NonZeroU64| {
            second(time).div_euclid(i64::try_from(interval.get()).unwrap_or(i64::MAX))
        };
        rotation.bytes.is_some_and(|max| open.to.length() >= max.get())
            || rotation.seconds.is_some_and(|max| age >= max.get())
            || rotation.packets.is_some_and(|max| open.packets >= max.get())
            || rotation.interval.is_some_and(|interval| round(now, interval) > round(open.start, interval))
    }

    fn begin_file(&mut self, now: Option<Timestamp>) -> Result<(), OutputError> {
        self.files += 1;
        let path = match &self.target {
            CaptureFileDestination::File(name) => name.clone(),
            CaptureFileDestination::Files(name, rotation) => {
                let max_files =
                    rotation.files.map_or(usize::MAX, |max| usize::try_from(max.get()).unwrap_or(usize::MAX));
                // The new file counts as one of them.
                while self.written.len() >= max_files
                    && let Some(oldest) = self.written.pop_front()
                {
                    oldest.remove();
                }
                numbered_path(name, self.files, now.unwrap_or_default())
            }
        };
        let to = OutputFile::create(&path, &ProtectedInputFiles::default())?.refuse_terminal()?;
        self.path = Some(path);
        let header = self.header(to);
        let (mut to, interfaces) = self.with_path(header)?;
        to.output().publish()?;
        let start = now.unwrap_or(Timestamp(i64::MAX));
        let flushed_bytes = to.length();
        self.open = Some(OpenCaptureOutputFile { to, interfaces, packets: 0, start, flushed_bytes });
        Ok(())
    }

    fn header(&self, to: OutputFile) -> io::Result<(PcapngWriter<OutputFile>, Vec<InterfaceId>)> {
        let mut to = PcapngWriter::new(to, APPLICATION)?;
        let mut ids = Vec::new();
        for (at, (interface, filter)) in self.interfaces.iter().enumerate() {
            to = to.with_filter(filter.as_deref());
            ids.push(to.interface(at, interface)?);
        }
        Ok((to, ids))
    }

    /// Ends one of several files, without waiting for the disk: packets arrive meanwhile.
    fn end_file(&mut self, now: Timestamp, counters: Vec<CapturePacketCounters>) -> Result<(), OutputError> {
        if let Some(file) = self.end(now, counters)? {
            let result = file.end_published();
            let written = self.with_path(result)?;
            self.written.push_back(written);
            self.flushed_packets = self.packets;
        }
        Ok(())
    }

    fn end(&mut self, now: Timestamp, counters: Vec<CapturePacketCounters>) -> Result<Option<OutputFile>, OutputError> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        self.bytes += open.to.length();
        let start = open.start.min(now);
        for (at, (interface_id, counters)) in open.interfaces.iter().zip(&counters).enumerate() {
            let counters = counters.since(&self.last_counters.get(at).copied().unwrap_or_default());
            let result = open.to.statistics(*interface_id, &InterfaceStatistics { start, end: now, counters });
            self.with_path(result)?;
        }
        self.last_counters = counters;
        Ok(Some(open.to.into_output()))
    }

    /// Adds the path of the current file to a write error.
    fn with_path<T>(&self, result: io::Result<T>) -> Result<T, OutputError> {
        result.map_err(|error| OutputError::write_error(self.path.as_deref().unwrap_or(Path::new("-")), error))
    }
}

fn without_pending(counters: Vec<CapturePacketCounters>) -> Vec<CapturePacketCounters> {
    counters.iter().map(CapturePacketCounters::without_pending).collect()
}

/// Returns the path of a file of a sequence: `NAME_00001_20260101120000.EXT`.
fn numbered_path(name: &Path, number: u64, time: Timestamp) -> PathBuf {
    let owned = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_os_string();
    let mut file = owned(name.file_stem());
    file.push(format!("_{number:05}_{}", FileNameTimestamp(time)));
    if let Some(extension) = name.extension() {
        file.push(".");
        file.push(extension);
    }
    name.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use nfsrdma_dissectors::captured_frame::{FrameNumber, LinkType};

    use nfsrdma_capture_file::CaptureFrameSource;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nfsrdma-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Returns the file names, and the seconds of the frames in each.
        fn files(&self) -> Vec<(String, Vec<i64>)> {
            let mut paths: Vec<_> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            let read = |path: PathBuf| {
                let mut source = CaptureFrameSource::open([&path]).unwrap();
                let mut times = Vec::new();
                while let Some(frame) = source.next().unwrap() {
                    times.push(frame.time.0 / SECOND);
                }
                // Nothing was lost, and nothing counted twice.
                assert_eq!(source.dropped(), Some(0), "{path:?}");
                // It holds file data, whatever the umask.
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600, "{path:?}");
                let received = source.interfaces().next().unwrap().1.received;
                assert_eq!(received, Some(times.len() as u64), "{path:?}");
                (path.file_name().unwrap().to_str().unwrap().to_owned(), times)
            };
            paths.into_iter().map(read).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn interface() -> CaptureFileInterface {
        let file = b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c\
\0\0\0\x01\0\0\0\x14\0\x01\0\0\0\x04\0\0\0\0\0\x14";
        let mut source = CaptureFrameSource::from_reader("test", io::Cursor::new(file.to_vec()));
        source.next().unwrap();
        let (_, interface) = source.interfaces().next().unwrap();
        interface.clone()
    }

    /// Records frames at these seconds.
    fn record(folder: &Folder, rotation: Option<CaptureFileRotation>, seconds: &[i64]) {
        let name = folder.0.join("x.pcapng");
        let place = rotation.map_or(CaptureFileDestination::File(name.clone()), |rotation| {
            CaptureFileDestination::Files(name, rotation)
        });
        let mut recording = LiveCaptureFileWriter::new(place, vec![(interface(), None)]).unwrap();
        let count = |count: u64| CapturePacketCounters {
            received: count,
            captured: count,
            decoded: count,
            ..CapturePacketCounters::default()
        };
        for (number, second) in (1..).zip(seconds) {
            let frame = Frame {
                number: FrameNumber(number),
                time: Timestamp(second * SECOND),
                link: LinkType::ETHERNET,
                bytes: &[0; 1000],
                length: 1000,
            };
            recording.frame(0, &frame, || vec![count(number)]).unwrap();
        }
        let end = Timestamp(seconds.last().unwrap_or(&7) * SECOND);
        recording.finish(end, vec![count(seconds.len() as u64)]).unwrap();
        assert_eq!(recording.packets(), seconds.len() as u64);
    }

    fn some(count: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(count)
    }

    fn rotated(name: &str, rotation: CaptureFileRotation, seconds: &[i64]) -> Vec<Vec<i64>> {
        let folder = Folder::new(name);
        record(&folder, Some(rotation), seconds);
        folder.files().into_iter().map(|(_, times)| times).collect()
    }

    #[test]
    fn a_single_file_has_the_given_name_even_without_packets() {
        let folder = Folder::new("one");
        record(&folder, None, &[1, 2, 3]);
        assert_eq!(folder.files(), [("x.pcapng".to_owned(), vec![1, 2, 3])]);
        record(&folder, None, &[]);
        assert_eq!(folder.files(), [("x.pcapng".to_owned(), vec![])]);
    }

    #[test]
    fn several_have_a_number_and_the_time_when_they_began() {
        let folder = Folder::new("several");
        record(
            &folder,
            Some(CaptureFileRotation { packets: some(2), ..CaptureFileRotation::default() }),
            &[0, 1, 86_400],
        );
        let names: Vec<_> = folder.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["x_00001_19700101000000.pcapng", "x_00002_19700102000000.pcapng"]);
    }

    #[test]
    fn a_file_ends_when_it_is_full_or_old_or_at_a_round_time() {
        let rotation = CaptureFileRotation { bytes: some(2000), ..CaptureFileRotation::default() };
        assert_eq!(rotated("bytes", rotation, &[1, 2, 3, 4, 5]), [vec![1, 2], vec![3, 4], vec![5]]);
        let rotation = CaptureFileRotation { seconds: some(10), ..CaptureFileRotation::default() };
        assert_eq!(rotated("seconds", rotation, &[1, 5, 10, 11, 12, 40]), [vec![1, 5, 10], vec![11, 12], vec![40]]);
        let rotation = CaptureFileRotation { interval: some(10), ..CaptureFileRotation::default() };
        assert_eq!(
            rotated("interval", rotation, &[1, 5, 10, 11, 29, 30]),
            [vec![1, 5], vec![10, 11], vec![29], vec![30]]
        );
    }

    #[test]
    fn the_oldest_file_is_removed_beyond_the_limit() {
        let rotation = CaptureFileRotation { packets: some(1), files: some(2), ..CaptureFileRotation::default() };
        assert_eq!(rotated("ring", rotation, &[1, 2, 3, 4]), [[3], [4]]);
    }
}
