//! The transports from outside: the same calls against the server inside the program and against nfs-ganesha over TCP.

mod client;
mod ganesha;
mod killed;
mod loopback;
mod over_tcp;
mod parts;
pub(crate) mod program;
mod recordings;
mod replays;
