//! The end of a message: the fields after arguments or results, and the check that nothing follows them.

use nfsrdma_dissectors::field::FieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::rpc::gss::{self, GssControlMessageKind, GssPayload};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use super::call_header::CallBodyDecodeParameters;

/// Decodes the protection of the arguments or results, and checks that the message ends there.
///
/// # Errors
/// Returns an error if it cannot be decoded, or if bytes follow it.
pub(super) fn read_protection<'a, O: FieldObserver<'a>>(
    payload: GssPayload,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), XdrError> {
    match payload {
        GssPayload::Integrity => {
            gss::GssIntegrityChecksum::read(cursor, observer)?;
            cursor.expect_end()
        }
        // Plain arguments and results have a cursor of their own, which checks their end.
        GssPayload::Plain => Ok(()),
        GssPayload::Privacy | GssPayload::Control(_) => cursor.expect_end(),
    }
}

/// Decodes an RPCSEC_GSS control message in place of arguments or results, and checks that the message ends
/// there. The cursor is already past encrypted ones.
///
/// # Errors
/// Returns an error if it cannot be decoded, or if bytes follow it.
pub(super) fn read_control_message<'a, O: FieldObserver<'a>>(
    payload: GssPayload,
    kind: RpcMessageKind,
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<(), XdrError> {
    match payload {
        // The content of such a message is not specified.
        GssPayload::Control(GssControlMessageKind::Unknown) => return Ok(()),
        GssPayload::Control(control) => control.decode(kind, cursor, observer)?,
        GssPayload::Plain | GssPayload::Integrity | GssPayload::Privacy => {}
    }
    cursor.expect_end()
}

/// Checks the arguments or results of a procedure that is not described. In a described version any bytes
/// are an error; in other versions they are accepted.
///
/// # Errors
/// Returns [`XdrError::Unknown`] if bytes follow in a described version.
pub(super) fn check_undescribed_body(call: CallBodyDecodeParameters, body: &Cursor<'_>) -> Result<(), XdrError> {
    if body.remaining() > 0 && Procedure::is_known(call.program, call.version) {
        return Err(XdrError::Unknown { at: body.at(), what: "procedure", number: call.procedure });
    }
    Ok(())
}
