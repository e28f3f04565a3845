//! The end of a message: what follows arguments and results, and what holds that nothing else does.

use crate::field::Observer;
use crate::flow::transaction::RpcMessageKind;
use crate::nfs::Procedure;
use crate::rpc::gss::{self, Control, GssPayload};
use crate::xdr::{Cursor, XdrError};

use super::CallHeaderSummary;

/// Reads what protects the arguments or results, and holds that the message ends with it.
///
/// # Errors
/// Where it could not be read, or bytes follow it.
pub(super) fn protection<'a, O: Observer<'a>>(
    payload: GssPayload,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), XdrError> {
    match payload {
        GssPayload::Integrity => {
            gss::IntegrityChecksum::read(cursor, observer)?;
            cursor.end()
        }
        // Plain arguments and results have a cursor of their own, which tells where they end.
        GssPayload::Plain => Ok(()),
        GssPayload::Privacy | GssPayload::Control(_) => cursor.end(),
    }
}

/// Reads a control message of RPCSEC_GSS in the place of arguments or results, and holds that the message ends with it. The
/// cursor has passed encrypted ones already.
///
/// # Errors
/// Where it could not be read, or bytes follow it.
pub(super) fn control<'a, O: Observer<'a>>(
    payload: GssPayload,
    which: RpcMessageKind,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), XdrError> {
    match (payload, which) {
        // Nothing describes what such a message carries.
        (GssPayload::Control(Control::Unknown), _) => return Ok(()),
        (GssPayload::Control(control), RpcMessageKind::Call) => control.arguments(cursor, observer)?,
        (GssPayload::Control(control), RpcMessageKind::Reply) => control.results(cursor, observer)?,
        (GssPayload::Plain | GssPayload::Integrity | GssPayload::Privacy, _) => {}
    }
    cursor.end()
}

/// The arguments or results of a procedure that is not described, where the cursor stands. In a version that is described they
/// are an error, if there are any; of another nothing is known.
///
/// # Errors
/// [`XdrError::Unknown`].
pub(super) fn not_described(call: CallHeaderSummary, body: &Cursor<'_>) -> Result<(), XdrError> {
    if body.remaining() > 0 && Procedure::describes(call.program, call.version) {
        return Err(XdrError::Unknown { at: body.at(), what: "procedure", number: call.procedure });
    }
    Ok(())
}
