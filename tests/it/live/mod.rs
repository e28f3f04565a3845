//! Live capture, between two network namespaces: a real capture is sent at one end of a wire, and the program looks at the
//! other. This needs root, `ip` and interfaces of type veth; elsewhere the tests say that they are skipped.

mod counting;
mod recording;
mod rights;
mod same;
pub(crate) mod wire;
