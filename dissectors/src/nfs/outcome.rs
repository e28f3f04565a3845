//! The union that nearly every NFS result is: a status, then the result if the status says OK.

use crate::field::registry::Registry;
use crate::field::{Field, Kind, Observer};
use crate::xdr::{Cursor, Encoder, Error, Void, Xdr};

/// A status whose value decides what follows it.
pub trait Status: for<'a> Xdr<'a> + Copy + PartialEq {
    /// The value that says that the result follows.
    const OK: Self;
    /// The status as a field of its own.
    const FIELD: &'static Field;
}

/// `union switch (status) { case OK: T; default: E; }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<S, T, E = Void> {
    /// It was done; here is the result.
    Ok(T),
    /// It was not done, and why.
    Fail(S, E),
}

impl<S: Status, T, E> Outcome<S, T, E> {
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

impl<'a, S: Status, T: Xdr<'a>, E: Xdr<'a>> Xdr<'a> for Outcome<S, T, E> {
    const KIND: Kind = Kind::Group;

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
    ) -> Result<Self, Error> {
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
