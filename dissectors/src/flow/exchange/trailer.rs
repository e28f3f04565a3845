//! Trailers of FPDUs that TCP sends again behind data of RDMA Writes and Read responses.

use crate::flow::Meaning;
use crate::flow::ledger::Key;
use crate::flow::step::Deed;
use crate::rdma::Owner;

use super::Desk;

/// Notes that a frame belongs to the chunk whose data the trailer ends: no byte of it moves again.
#[cold]
pub(super) fn again(desk: &mut Desk<'_>, owner: Owner) -> Meaning {
    let Some((key, at)) = Key::noted(owner).filter(|(key, _)| desk.ledger.get(*key).is_some()) else {
        return Meaning::Nothing;
    };
    if desk.limits.note_steps {
        desk.ledger.note(key, Deed::Moved { kind: at.kind(), chunk: at.chunk() }, *desk.sight);
    }
    Meaning::Data { key, kind: at.kind(), chunk: at.chunk() }
}
