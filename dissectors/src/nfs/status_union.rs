//! Union of most NFS results: a status, then the result if the status is OK.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, NullFieldObserver};
use crate::xdr::{Cursor, Encoder, Void, Xdr, XdrError};

/// A status that discriminates a union.
pub trait StatusUnionDiscriminant: for<'a> Xdr<'a> + Copy + PartialEq {
    /// Value on success, which the result follows.
    const OK: Self;
    /// The status as a field.
    const FIELD: &'static FieldDefinition;

    /// Returns number, name and success.
    fn status(self) -> ProcedureStatus;
}

/// Outcome of a procedure in its own protocol: `nfsstat3`, `mountstat3`, `nlm4_stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcedureStatus {
    /// Status number.
    pub number: u32,
    /// Name in the specification, if it has one.
    pub name: Option<&'static str>,
    /// `true` on success, which is not 0 in every protocol.
    pub is_ok: bool,
}

impl ProcedureStatus {
    /// Decodes a status.
    ///
    /// # Errors
    /// Returns an error if the message ends before the status.
    pub fn read<S: StatusUnionDiscriminant>(cursor: &mut Cursor<'_>) -> Result<Self, XdrError> {
        S::decode(cursor, S::FIELD, &mut NullFieldObserver).map(S::status)
    }
}

/// `union switch (status) { case OK: T; default: E; }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusUnion<S, T, E = Void> {
    /// Success, with the result.
    Ok(T),
    /// Failure, with the status.
    Fail(S, E),
}

impl<S: StatusUnionDiscriminant, T, E> StatusUnion<S, T, E> {
    /// Returns the status.
    pub fn status(&self) -> S {
        match self {
            Self::Ok(_) => S::OK,
            Self::Fail(status, _) => *status,
        }
    }

    /// Returns the result, on success.
    pub fn ok(&self) -> Option<&T> {
        match self {
            Self::Ok(result) => Some(result),
            Self::Fail(..) => None,
        }
    }
}

impl<'a, S: StatusUnionDiscriminant, T: Xdr<'a>, E: Xdr<'a>> Xdr<'a> for StatusUnion<S, T, E> {
    const KIND: FieldKind = FieldKind::Group;
    const IS_DDP_ELIGIBLE: bool = T::IS_DDP_ELIGIBLE || E::IS_DDP_ELIGIBLE;

    fn describe(registry: &mut FieldRegistry) {
        S::describe_field(registry, S::FIELD, "");
        T::describe(registry);
        E::describe(registry);
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let status = S::decode(cursor, S::FIELD, observer)?;
        if status == S::OK {
            T::decode(cursor, field, observer).map(Self::Ok)
        } else {
            E::decode(cursor, field, observer).map(|content| Self::Fail(status, content))
        }
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.status().encode(encoder);
        match self {
            Self::Ok(result) => result.encode(encoder),
            Self::Fail(_, content) => content.encode(encoder),
        }
    }
}
