//! A frame as a capture holds it: the unit in which everything enters.

use std::fmt;

/// Number of a frame, from 1, over all input in merged order; tshark's `frame.number` for one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(pub u64);

impl fmt::Display for FrameNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a frame was seen: nanoseconds since 1970-01-01 00:00:00 UTC, negative before it.
///
/// An `i64` reaches the year 2262; the 32-bit seconds of a pcap file end in 2106.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Nanoseconds from `earlier` to `self`; `None` when the clock went back between them.
    pub fn since(self, earlier: Timestamp) -> Option<u64> {
        self.0.checked_sub(earlier.0).and_then(|ns| u64::try_from(ns).ok())
    }

    /// Nanoseconds between two times, whichever was first: what waits until some time has passed does not wait for ever where
    /// the clock went back.
    pub fn apart(self, other: Timestamp) -> u64 {
        self.0.abs_diff(other.0)
    }
}

/// `seconds.nanoseconds`, nine digits after the point.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

/// What the first byte of a frame belongs to: a LINKTYPE_ value of the capture file
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback; the address family in the byte order of the machine that captured.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// Raw IP, as some systems number it in their files.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP, as OpenBSD numbers it in its files.
    pub const RAW_OPENBSD: Self = Self(14);
    /// Raw IPv4 or IPv6.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback; the address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: Self = Self(113);
    /// Endace Extensible Record Format, here with Ethernet or InfiniBand inside.
    pub const ERF: Self = Self(197);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// InfiniBand, from the Local Route Header on.
    pub const INFINIBAND: Self = Self(247);
    /// Linux "cooked" capture, second form (`-i any` of today).
    pub const LINUX_SLL2: Self = Self(276);

    /// Whether [`net::decode`](crate::net::decode) reads what follows.
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
    /// Position in the input.
    pub number: FrameNumber,
    /// When it was seen.
    pub time: Timestamp,
    /// What its first byte belongs to.
    pub link: LinkType,
    /// The bytes that were captured; at most `length` of them.
    pub bytes: &'a [u8],
    /// Length on the wire; larger than `bytes.len()` where a snap length cut the frame.
    pub length: u32,
}

/// What is left of a frame below some header: the bytes that were captured, how long it is on the wire, and
/// where it begins.
///
/// The length comes from the headers above it and not from the capture, so that counting by lengths stays right
/// where a snap length cut the frame, and trailing padding of the link layer is no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedSlice<'a> {
    /// The bytes that were captured; at most `length` of them.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub length: usize,
    /// Position of the first byte in the frame, or in the reassembled message.
    pub at: usize,
}

impl<'a> CapturedSlice<'a> {
    /// The first `length` bytes of `bytes`, which begin at position `at`.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], length: usize, at: usize) -> Self {
        Self { bytes: bytes.get(..length).unwrap_or(bytes), length, at }
    }

    /// The same beginning with the length that a header tells; longer than before only where the capture cut it.
    #[inline(always)]
    pub fn sized(self, length: usize) -> Self {
        Self::new(self.bytes, length, self.at)
    }

    /// What follows the first `count` bytes.
    #[inline(always)]
    pub fn after(self, count: usize) -> Self {
        Self {
            bytes: self.bytes.get(count..).unwrap_or_default(),
            length: self.length.saturating_sub(count),
            at: self.at.saturating_add(count),
        }
    }

    /// Whether the capture has less than what was on the wire.
    #[inline(always)]
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.length
    }

    /// Where the captured bytes stand.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.bytes.len()
    }
}

impl<'a> Frame<'a> {
    /// The whole frame.
    #[inline(always)]
    pub fn part(&self) -> CapturedSlice<'a> {
        CapturedSlice::new(self.bytes, (self.length as usize).max(self.bytes.len()), 0)
    }
}
