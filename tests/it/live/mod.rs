//! Live capture between two network namespaces: a real capture is sent at one end of a link, and the program captures
//! at the other. This requires root, `ip` and veth interfaces; elsewhere the tests report that they are skipped.

mod drop_counts;
mod file_equality;
mod hung_calls;
mod privileges;
mod recording;
pub(crate) mod veth_link;
