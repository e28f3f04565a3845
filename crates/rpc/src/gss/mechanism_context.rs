//! The interface of a security mechanism.

use std::fmt;

/// One side of a security context: RFC 2743.
pub trait GssMechanismContext: fmt::Debug {
    /// Processes the token of the other side, which is empty on the first call.
    ///
    /// # Errors
    /// Returns an error if there are no credentials, or the other side fails authentication.
    fn step(&mut self, token: &[u8]) -> Result<GssInitStep, GssMechanismError>;

    /// Appends the checksum of a message.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    fn sign(&mut self, message: &[u8], checksum: &mut Vec<u8>) -> Result<(), GssMechanismError>;

    /// Returns `true` if the other side made this checksum of this message.
    fn verify(&mut self, message: &[u8], checksum: &[u8]) -> bool;
}

/// A turn of this side in a context setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GssInitStep {
    /// The token for the other side; may be empty.
    pub token: Vec<u8>,
    /// `true` if the context is established on this side.
    pub is_done: bool,
}

/// An error message of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GssMechanismError(pub String);
