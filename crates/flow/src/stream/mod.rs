//! TCP streams: segments in any order become bytes in order, with the frames that carried them.
//!
//! Readers of [`stream_bytes`] get the content of each direction in order, without overlap and with every gap reported.
//! A segment that was truncated by a snap length or never captured has fewer bytes than its length; so loss, snap
//! lengths and captures that begin in mid-stream are one case.

pub(super) mod direction;
pub(super) mod stream_bytes;
pub(super) mod tcp_receiver_loss_reports;
