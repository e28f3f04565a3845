//! The replay's own RPCSEC_GSS security contexts, which sign its Calls and verify the Replies.
//!
//! A [`GssContext`] is set up by NULL Calls (RFC 2203 section 5.2). Then it [seals](GssContext::seal) each Call with
//! the service of the captured one, and [opens](GssContext::open) the Reply, so that the replay engine gets unprotected
//! messages. Signatures come from a [`GssMechanismContext`]; the one for Kerberos is in `kerberos`.

mod context;
mod context_setup;
pub(crate) mod control_call;
#[cfg(feature = "gss")]
#[allow(unsafe_code, reason = "a GSS-API library is called here")]
pub mod kerberos;
mod mechanism_context;

pub use context::{GssContext, GssIntegrityError, GssReplyProtection, GssSealInput, reports_unknown_context};
pub use context_setup::{GssContextSetup, GssContextSetupError, GssSetupStep};
pub use control_call::GssControlCall;
pub use mechanism_context::{GssInitStep, GssMechanismContext, GssMechanismError};

/// Creates the mechanism for contexts with a host.
///
/// # Errors
/// Returns an error if the program or this machine has no support for it.
pub fn mechanism(host: &str) -> Result<Box<dyn GssMechanismContext>, GssMechanismError> {
    #[cfg(feature = "gss")]
    return Ok(Box::new(kerberos::KerberosClientContext::new(host)?));
    #[cfg(not(feature = "gss"))]
    return Err(GssMechanismError(format!("{host}: this program was built without the feature 'gss'")));
}

/// Checks that this machine has a library, and credentials for the server.
///
/// # Errors
/// Returns an error with the missing part.
pub fn probe(host: &str) -> Result<(), GssContextSetupError> {
    mechanism(host)?.step(&[])?;
    Ok(())
}
