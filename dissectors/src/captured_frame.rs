//! Captured frames, the unit of input.

use std::fmt;

/// Number of a frame, from 1, over all input files in merged order; tshark's `frame.number` for one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(pub u64);

impl fmt::Display for FrameNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Capture time of a frame: nanoseconds since 1970-01-01 00:00:00 UTC, negative before it.
///
/// An `i64` reaches the year 2262; the 32-bit seconds of a pcap file end in 2106.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the nanoseconds from `earlier` to `self`, or `None` if the clock went back between them.
    pub fn nanoseconds_since(self, earlier: Timestamp) -> Option<u64> {
        self.0.checked_sub(earlier.0).and_then(|ns| u64::try_from(ns).ok())
    }

    /// Returns the absolute difference in nanoseconds. Timeouts use it so that they expire even if the clock goes back.
    pub fn abs_diff_ns(self, other: Timestamp) -> u64 {
        self.0.abs_diff(other.0)
    }
}

/// Displays `seconds.nanoseconds`, with nine digits after the point.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

/// Link layer of a frame: the LINKTYPE_ value of the capture file (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback; address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// Raw IP, with the number that some BSD systems write.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP, with the number that OpenBSD writes.
    pub const RAW_OPENBSD: Self = Self(14);
    /// Raw IPv4 or IPv6.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback; address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// Endace Extensible Record Format, with Ethernet or InfiniBand inside.
    pub const ERF: Self = Self(197);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// InfiniBand, starting with the Local Route Header.
    pub const INFINIBAND: Self = Self(247);
    /// Linux "cooked" capture, version 2 (current `-i any`).
    pub const LINUX_SLL2: Self = Self(276);

    /// Returns `true` if [`net::decode`](crate::net::decode) decodes this link type.
    #[inline]
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::RAW_BSD
                | Self::RAW_OPENBSD
                | Self::RAW
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::ERF
                | Self::IPV4
                | Self::IPV6
                | Self::INFINIBAND
                | Self::LINUX_SLL2
        )
    }
}

/// A captured frame, borrowed from the reader's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Position in the merged input.
    pub number: FrameNumber,
    /// Capture time.
    pub time: Timestamp,
    /// Link layer of the first byte.
    pub link: LinkType,
    /// Captured bytes, at most `length`.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes; larger than `bytes.len()` if a snap length truncated the frame.
    pub length: u32,
}

/// Captured bytes with their length on the wire and their position.
///
/// The length comes from the headers above, not from the capture. It is therefore correct for frames truncated by a
/// snap length, and excludes trailing padding of the link layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedSlice<'a> {
    /// Captured bytes, at most `length`.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub length: usize,
    /// Position of the first byte in the frame or in the reassembled message.
    pub at: usize,
}

impl<'a> CapturedSlice<'a> {
    /// Returns a slice of at most `length` of `bytes`, the first of which is at position `at`.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], length: usize, at: usize) -> Self {
        Self { bytes: bytes.get(..length).unwrap_or(bytes), length, at }
    }

    /// Returns the same start with a length from a header. It exceeds the old length only if the capture is truncated.
    #[inline(always)]
    pub fn with_length(self, length: usize) -> Self {
        Self::new(self.bytes, length, self.at)
    }

    /// Returns the rest after the first `count` bytes.
    #[inline(always)]
    pub fn skip_bytes(self, count: usize) -> Self {
        Self {
            bytes: self.bytes.get(count..).unwrap_or_default(),
            length: self.length.saturating_sub(count),
            at: self.at.saturating_add(count),
        }
    }

    /// Returns `true` if fewer bytes were captured than were on the wire.
    #[inline(always)]
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.length
    }

    /// Returns the positions of the captured bytes.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.bytes.len()
    }
}

impl<'a> Frame<'a> {
    /// Returns the complete frame as a slice at position 0.
    #[inline(always)]
    pub fn as_slice(&self) -> CapturedSlice<'a> {
        CapturedSlice::new(self.bytes, (self.length as usize).max(self.bytes.len()), 0)
    }
}
