//! Loaded lines of the packet list: frames in another order than that of the capture, or selected by a filter.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use crate::output::settings::TimeFormat;
use crate::tui::frame_scan::{FrameLine, FrameScan, TuiFrameScanResult};

/// Interval at which new frames are sorted in.
const RESORT_INTERVAL: Duration = Duration::from_secs(1);

/// Columns by which the packet list can be sorted, in display order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) enum FrameColumn {
    /// Frame number: the order of the capture.
    #[default]
    Number,
    Time,
    Source,
    Destination,
    Protocol,
    Bytes,
    Info,
}

impl FrameColumn {
    pub(in crate::tui) const ALL: [Self; 7] =
        [Self::Number, Self::Time, Self::Source, Self::Destination, Self::Protocol, Self::Bytes, Self::Info];

    /// Returns the beginning of the column's name in the header. The destination is DEST on a narrow screen.
    pub(in crate::tui) const fn name(self) -> &'static str {
        match self {
            Self::Number => "FRAME",
            Self::Time => "TIME",
            Self::Source => "SOURCE",
            Self::Destination => "DEST",
            Self::Protocol => "PROTO",
            Self::Bytes => "BYTES",
            Self::Info => "INFO",
        }
    }

    /// Returns `true` if the column is right-aligned.
    pub(in crate::tui) const fn is_at_right(self) -> bool {
        matches!(self, Self::Number | Self::Time | Self::Source | Self::Bytes)
    }

    /// Returns `true` if the largest values come first by default.
    const fn descends(self) -> bool {
        matches!(self, Self::Bytes)
    }

    fn compare(self, a: &FrameLine, b: &FrameLine) -> Ordering {
        match self {
            Self::Number => a.number.cmp(&b.number),
            Self::Time => a.cells.time.cmp(&b.cells.time),
            Self::Source => a.cells.source.cmp(&b.cells.source),
            Self::Destination => a.cells.destination.cmp(&b.cells.destination),
            Self::Protocol => a.cells.protocol.cmp(&b.cells.protocol),
            Self::Bytes => a.cells.length_bytes.cmp(&b.cells.length_bytes),
            Self::Info => a.cells.info.cmp(&b.cells.info),
        }
    }
}

/// Sort order of the packet list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct PacketListSortOrder {
    pub(in crate::tui) by: FrameColumn,
    pub(in crate::tui) is_descending: bool,
}

impl PacketListSortOrder {
    /// Sorts by a column in its default direction.
    pub(in crate::tui) fn by_column(by: FrameColumn) -> Self {
        Self { by, is_descending: by.descends() }
    }

    /// Sorts by the column `step` positions from the current one.
    pub(in crate::tui) fn neighbor(self, step: isize) -> Self {
        let at = FrameColumn::ALL.iter().position(|column| *column == self.by).unwrap_or(0) as isize;
        let at = (at + step).rem_euclid(FrameColumn::ALL.len() as isize);
        Self::by_column(usize::try_from(at).ok().and_then(|at| FrameColumn::ALL.get(at)).copied().unwrap_or_default())
    }

    /// Returns `true` if this is the order of the capture, in which frames are read in pages.
    pub(in crate::tui) fn is_capture_order(self) -> bool {
        self == Self::default()
    }
}

/// Loaded frames with their lines: those that a filter selects, or all frames for sorting.
#[derive(Debug)]
pub(in crate::tui) struct FilteredSortedFrameList {
    /// Settings of the scan. A change requires another scan.
    pub(in crate::tui) settings: FrameListScanSettings,
    pub(in crate::tui) header: String,
    /// Lines in capture order.
    lines: Vec<FrameLine>,
    sort: PacketListSortOrder,
    /// Indexes into `lines` in display order; empty in the order of the capture.
    order: Vec<u32>,
    /// Display position of each line.
    positions: Vec<u32>,
    sorted_at: Option<Instant>,
    /// Size of the lines in bytes.
    bytes: usize,
    scan: Option<FrameScan>,
    /// `true` if lines are missing because of the memory limit.
    pub(in crate::tui) is_truncated: bool,
}

/// Settings by which frames were selected and formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct FrameListScanSettings {
    pub(in crate::tui) filter: Option<String>,
    pub(in crate::tui) width: usize,
    pub(in crate::tui) left: usize,
    pub(in crate::tui) time: TimeFormat,
}

impl FilteredSortedFrameList {
    /// Returns an empty list, which the scan fills.
    pub(in crate::tui) fn new(made_for: FrameListScanSettings, sort: PacketListSortOrder, scan: FrameScan) -> Self {
        Self {
            settings: made_for,
            header: String::new(),
            lines: Vec::new(),
            sort,
            order: Vec::new(),
            positions: Vec::new(),
            sorted_at: None,
            bytes: 0,
            scan: Some(scan),
            is_truncated: false,
        }
    }

    /// Returns `true` while the scan is running.
    pub(in crate::tui) fn is_scanning(&self) -> bool {
        self.scan.is_some()
    }

    /// Returns `true` once everything up to this frame is loaded, so that the nearest loaded frame is final.
    pub(in crate::tui) fn is_complete_to(&self, frame: u64) -> bool {
        let last_ordered = self.order.len().checked_sub(1).and_then(|last| self.lines.get(last));
        self.scan.is_none() || last_ordered.is_some_and(|line| line.number.0 >= frame)
    }

    /// Returns the number of displayed lines: if sorted, those sorted in so far.
    pub(in crate::tui) fn len(&self) -> usize {
        if self.sort.is_capture_order() { self.lines.len() } else { self.order.len() }
    }

    /// Returns the displayed lines from a position on.
    pub(in crate::tui) fn lines_from(&self, position: usize) -> impl Iterator<Item = &FrameLine> {
        (position..self.len()).filter_map(|position| self.get(position))
    }

    /// Returns the line at a display position, counted from 0.
    pub(in crate::tui) fn get(&self, position: usize) -> Option<&FrameLine> {
        match self.sort.is_capture_order() {
            true => self.lines.get(position),
            false => self.lines.get(*self.order.get(position)? as usize),
        }
    }

    /// Returns the display position of a frame, or of the nearest later one.
    pub(in crate::tui) fn position_of(&self, frame: u64) -> usize {
        let line = self.lines.partition_point(|line| line.number.0 < frame);
        let line = line.min(self.lines.len().saturating_sub(1));
        let position = self.positions.get(line).map_or(line, |place| *place as usize);
        position.min(self.len().saturating_sub(1))
    }

    /// Changes the sort order.
    pub(in crate::tui) fn sort(&mut self, sort: PacketListSortOrder) {
        self.sort = sort;
        self.sort_lines();
    }

    fn sort_lines(&mut self) {
        self.sorted_at = Some(Instant::now());
        (self.order, self.positions) = (Vec::new(), Vec::new());
        if self.sort.is_capture_order() {
            return;
        }
        let PacketListSortOrder { by, is_descending } = self.sort;
        let mut order: Vec<u32> = (0..self.lines.len() as u32).collect();
        order.sort_by(|a, b| match (self.lines.get(*a as usize), self.lines.get(*b as usize)) {
            (Some(a), Some(b)) if is_descending => by.compare(b, a),
            (Some(a), Some(b)) => by.compare(a, b),
            _ => Ordering::Equal,
        });
        let mut positions = vec![0; order.len()];
        for (position, line) in order.iter().enumerate() {
            if let Some(slot) = positions.get_mut(*line as usize) {
                *slot = position as u32;
            }
        }
        (self.order, self.positions) = (order, positions);
    }

    /// Adds the results of the scan, and stops it above `limit_bytes`. Returns `true` if there were any.
    pub(in crate::tui) fn take_results(&mut self, limit_bytes: usize) -> bool {
        let Some(scan) = &self.scan else { return false };
        let (results, is_over) = scan.take();
        let is_new = !results.is_empty() || is_over;
        let old_length = self.lines.len();
        for result in results {
            match result {
                TuiFrameScanResult::Header(header) => self.header = header,
                TuiFrameScanResult::Line(line) => {
                    let text = line.text.len() + line.cells.info.len() + line.cells.protocol.len();
                    self.bytes += text + size_of::<FrameLine>() + 2 * size_of::<u32>();
                    self.lines.push(line);
                }
                TuiFrameScanResult::Text(_) => {}
            }
        }
        self.is_truncated = self.bytes > limit_bytes || self.lines.len() >= u32::MAX as usize;
        if is_over || self.is_truncated {
            self.scan = None;
        }
        // Sorting is slow: while frames arrive it is repeated at intervals, and at the end.
        let is_due = self.scan.is_none() || self.sorted_at.is_none_or(|at| at.elapsed() > RESORT_INTERVAL);
        if is_due && (self.lines.len() > old_length || self.lines.len() > self.order.len()) {
            self.sort_lines();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sort_column_cycles_through_all_columns() {
        let mut sort = PacketListSortOrder::default();
        let mut seen = Vec::new();
        for _ in 0..FrameColumn::ALL.len() {
            seen.push(sort.by);
            sort = sort.neighbor(1);
        }
        assert_eq!(seen, FrameColumn::ALL);
        assert_eq!(sort, PacketListSortOrder::default());
        assert_eq!(sort.neighbor(-1).by, FrameColumn::Info);
        assert!(PacketListSortOrder::by_column(FrameColumn::Bytes).is_descending);
    }
}
