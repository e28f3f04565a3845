//! The transports from outside: the same calls against the server inside the program and against nfs-ganesha over TCP.

mod callbacks;
mod client;
mod contained;
mod copies;
mod escapes;
mod final_check;
mod ganesha;
mod judged;
mod killed;
mod liars;
mod limits;
mod loopback;
mod made;
mod outsiders;
mod over_tcp;
mod paces;
mod parts;
pub(crate) mod program;
mod proxied;
mod proxy;
mod realm;
mod recordings;
mod recoveries;
mod replays;
mod servers;
mod signed;
mod violations;
