//! What servers and clients name, and the numbers that a trace gives it.

use nfsrdma_dissectors::address::Address;
use rustc_hash::FxHashMap;

use crate::replay::trace::{Holds, Variable};

/// One server of a capture, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server(u32);

/// Numbers by name.
type Numbers = FxHashMap<Box<[u8]>, Variable>;

/// Gives one number to each name on a server.
#[derive(Debug, Default)]
pub(super) struct Variables {
    servers: FxHashMap<Address, u32>,
    /// By server, kind and name.
    numbers: FxHashMap<(Server, Holds), Numbers>,
    count: u32,
}

impl Variables {
    /// The server with this address.
    pub(super) fn server(&mut self, address: Address) -> Server {
        let next = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        Server(*self.servers.entry(address).or_insert(next))
    }

    /// The variable that has this name on a server.
    pub(super) fn of(&mut self, server: Server, holds: Holds, name: &[u8]) -> Variable {
        let numbers = self.numbers.entry((server, holds)).or_default();
        if let Some(known) = numbers.get(name) {
            return *known;
        }
        let new = Variable(self.count);
        self.count = self.count.saturating_add(1);
        numbers.insert(name.into(), new);
        new
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.count.into()
    }
}
