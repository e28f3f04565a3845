//! The end of a message: what follows arguments and results, and what holds that nothing else does.

use crate::field::Observer;
use crate::flow::transaction::Which;
use crate::nfs::Procedure;
use crate::rpc::gss::{self, Control, Payload};
use crate::xdr::{Cursor, Error};

use super::CallHead;

/// Reads what protects the arguments or results, and holds that the message ends with it.
///
/// # Errors
/// Where it could not be read, or bytes follow it.
pub(super) fn protection<'a, O: Observer<'a>>(
    payload: Payload,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), Error> {
    match payload {
        Payload::Integrity => {
            gss::Checksum::read(cursor, observer)?;
            cursor.end()
        }
        // Plain arguments and results have a cursor of their own, which tells where they end.
        Payload::Plain => Ok(()),
        Payload::Privacy | Payload::Control(_) => cursor.end(),
    }
}

/// Reads a control message of RPCSEC_GSS in the place of arguments or results, and holds that the message ends with it. The
/// cursor has passed encrypted ones already.
///
/// # Errors
/// Where it could not be read, or bytes follow it.
pub(super) fn control<'a, O: Observer<'a>>(
    payload: Payload,
    which: Which,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), Error> {
    match (payload, which) {
        // Nothing describes what such a message carries.
        (Payload::Control(Control::Unknown), _) => return Ok(()),
        (Payload::Control(control), Which::Call) => control.arguments(cursor, observer)?,
        (Payload::Control(control), Which::Reply) => control.results(cursor, observer)?,
        (Payload::Plain | Payload::Integrity | Payload::Privacy, _) => {}
    }
    cursor.end()
}

/// The arguments or results of a procedure that is not described, where the cursor stands. In a version that is described they
/// are an error, if there are any; of another nothing is known.
///
/// # Errors
/// [`Error::Unknown`].
pub(super) fn not_described(call: CallHead, body: &Cursor<'_>) -> Result<(), Error> {
    if body.remaining() > 0 && Procedure::describes(call.program, call.version) {
        return Err(Error::Unknown { at: body.at(), what: "procedure", number: call.procedure });
    }
    Ok(())
}
