//! The union that nearly every NFS result is: a status, then the result if the status says OK.

use std::ops::Range;

use crate::field::registry::Registry;
use crate::field::{Field, FieldKind, FieldValue, Observer};
use crate::xdr::{Cursor, Encoder, Void, Xdr, XdrError};

/// A status whose value decides what follows it.
pub trait ResultStatus: for<'a> Xdr<'a> + Copy + PartialEq {
    /// The value that says that the result follows.
    const OK: Self;
    /// The status as a field of its own.
    const FIELD: &'static Field;
}

/// How a procedure went, in the words of its own protocol: `nfsstat3`, `mountstat3`, `nlm4_stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcedureStatus {
    /// The number.
    pub number: u32,
    /// Its name, if the specification has one.
    pub name: Option<&'static str>,
    /// Whether it says that the procedure was done. Not every protocol has 0 for that.
    pub is_ok: bool,
}

impl ProcedureStatus {
    /// Reads a status.
    ///
    /// # Errors
    /// Where the message ends before it.
    pub fn read<S: ResultStatus>(cursor: &mut Cursor<'_>) -> Result<Self, XdrError> {
        let mut heard = StatusCollector::default();
        let status = S::decode(cursor, S::FIELD, &mut heard)?;
        Ok(Self { number: heard.number, name: heard.name, is_ok: status == S::OK })
    }
}

/// Listens to an enumeration: its number, and the name that its specification gives it.
#[derive(Default)]
struct StatusCollector {
    number: u32,
    name: Option<&'static str>,
}

impl<'a> Observer<'a> for StatusCollector {
    fn enter(&mut self, _: &'static Field, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, _: &'static Field, _: Range<usize>, value: FieldValue<'a>) {
        if let FieldValue::Enum(number, name) = value {
            (self.number, self.name) = (number as u32, name);
        }
    }
}

/// `union switch (status) { case OK: T; default: E; }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusUnion<S, T, E = Void> {
    /// It was done; here is the result.
    Ok(T),
    /// It was not done, and why.
    Fail(S, E),
}

impl<S: ResultStatus, T, E> StatusUnion<S, T, E> {
    /// The status.
    pub fn status(&self) -> S {
        match self {
            Self::Ok(_) => S::OK,
            Self::Fail(status, _) => *status,
        }
    }

    /// The result, if there is one.
    pub fn ok(&self) -> Option<&T> {
        match self {
            Self::Ok(result) => Some(result),
            Self::Fail(..) => None,
        }
    }
}

impl<'a, S: ResultStatus, T: Xdr<'a>, E: Xdr<'a>> Xdr<'a> for StatusUnion<S, T, E> {
    const KIND: FieldKind = FieldKind::Group;
    const IS_DDP_ELIGIBLE: bool = T::IS_DDP_ELIGIBLE || E::IS_DDP_ELIGIBLE;

    fn describe(registry: &mut Registry) {
        registry.xdr::<S>(S::FIELD, "");
        T::describe(registry);
        E::describe(registry);
    }

    #[inline]
    fn decode<O: Observer<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static Field,
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
