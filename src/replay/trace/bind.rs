//! What a live Reply gives to the variables of a step.

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::xdr::{Cursor, Error};
use rustc_hash::FxHashMap;

use super::hear::{Ear, Mark};
use super::{Asked, Slot, Step};

impl Asked {
    /// The procedure, if it is described.
    pub fn described(&self) -> Option<Procedure> {
        Procedure::of(Program(self.program), self.version, self.procedure)
    }
}

/// The value at a mark, without length and fill. `message` begins where positions count from.
pub fn value<'m>(message: &'m [u8], mark: &Mark) -> Option<&'m [u8]> {
    let bytes = message.get(mark.range.clone())?;
    if !mark.is_counted {
        return Some(bytes);
    }
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(..u32::from_be_bytes(*count) as usize)
}

/// Hears a live Reply of a step: `message` is the RPC message, whose DDP-eligible results the cursor knows. What
/// protects results must have been taken off.
///
/// # Errors
/// Where the message could not be read further; what was heard before stands.
pub fn hear<'m>(asked: &Asked, mut cursor: Cursor<'m>) -> (Ear<'m>, Result<(), Error>) {
    let mut ear = Ear::new(true);
    let heard = rpc::Message::decode(&mut cursor, &mut Unobserved).and_then(|message| {
        let is_done = message.reply().is_some_and(|reply| reply.status().is_success());
        match asked.described().filter(|_| is_done) {
            Some(procedure) => procedure.results(&mut cursor, &mut ear),
            None => Ok(()),
        }
    });
    (ear, heard)
}

/// Tells `take` each slot of the Reply that a step had, with the value that stands in the same place of a live one; `None`
/// where that has none. Counts are told, too. Of a step whose Reply was not captured nothing is told.
pub fn bind(step: &Step<'_>, ear: &Ear<'_>, message: &[u8], mut take: impl FnMut(&Slot, Option<&[u8]>)) {
    let known = |mark: &Mark| (mark.place, mark.operation, mark.holds);
    // A listing has thousands; other Replies have a few, and in the same order mostly.
    let is_long = ear.marks.len() > 32;
    let by_place: FxHashMap<_, _> = match is_long {
        true => ear.marks.iter().map(|mark| (known(mark), mark)).collect(),
        false => FxHashMap::default(),
    };
    for slot in step.reply.slots.iter() {
        let key = (slot.place, slot.operation, slot.holds);
        let mark = match is_long {
            true => by_place.get(&key).copied(),
            false => ear.marks.iter().find(|mark| known(mark) == key),
        };
        take(&slot, mark.and_then(|mark| value(message, mark)));
    }
}
