//! NLM, the Network Lock Manager, which locks files of NFSv2 (versions 1 and 3) and of NFSv3 (version 4).

mod types;
pub mod v1;
pub mod v3;
pub mod v4;

pub use types::*;

use crate::field::NullFieldObserver;
use crate::nfs::{ProcedureStatus, StatusUnionDiscriminant};
use crate::xdr::{Cursor, Xdr, XdrError};

/// Decodes the status of results, which follows the cookie. XNFS section 10.
fn read_status_after_cookie<S: StatusUnionDiscriminant>(
    mut results: Cursor<'_>,
) -> Result<Option<ProcedureStatus>, XdrError> {
    Netobj::decode(&mut results, S::FIELD, &mut NullFieldObserver)?;
    ProcedureStatus::read::<S>(&mut results).map(Some)
}

#[cfg(test)]
pub(super) mod tests;
