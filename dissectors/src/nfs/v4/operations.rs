//! Operations and callback operations: arguments and results by number.

use std::fmt;

use super::callback::*;
use super::copy::*;
use super::io::*;
use super::layout::*;
use super::locking::*;
use super::namespace_and_attributes::*;
use super::open::*;
use super::operation_numbers::{CbOperation, CbOperationNumber, Operation, OperationNumber};
use super::operation_table::{callback_operation_table, operation_table};
use super::session::*;
use super::status::Nfsstat4;
use super::xattr::*;
use crate::field::{FieldDefinition, FieldKind, FieldObserver};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::{Cursor, Encoder, Void, Xdr, XdrError};

/// Class of an operation that is not in the table.
const CLASS_OF_UNKNOWN: u8 = 2;

/// Union of most results: a status, and the result on success.
type Nfs4Res<T = Void> = StatusUnion<Nfsstat4, T>;

/// One operation of a COMPOUND: its arguments in a Call, or its results in a Reply.
pub trait OperationBody<'a>: Sized + Clone {
    /// Type of the operation number.
    type OperationNumber: Copy + Default + fmt::Debug + fmt::Display + PartialEq + Xdr<'a>;
    /// Field of the operation number.
    const OPCODE: &'static FieldDefinition;
    /// `true` if the body begins with a status.
    const HAS_STATUS: bool;

    /// Returns the number of the operation.
    fn number(&self) -> Self::OperationNumber;

    /// Returns the operation as a group of fields, if it is known.
    fn field(number: Self::OperationNumber) -> Option<&'static FieldDefinition>;

    /// Returns the class of the operation; see [`Operation::class`].
    fn class(number: Self::OperationNumber) -> u8;

    /// Decodes the body after the number.
    ///
    /// # Errors
    /// Returns [`XdrError::Unknown`] for an unknown number, or an error of the body's type.
    fn decode<O: FieldObserver<'a>>(
        number: Self::OperationNumber,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<Self, XdrError>;

    /// Appends the body after the number.
    fn encode(&self, encoder: &mut Encoder);
}

/// Defines the bodies of a table of operations, the status of its results, and their encoding in a COMPOUND.
macro_rules! bodies {
    (
        $opcode:literal;
        $(#[doc = $doc:literal])+
        $operation:ident, $number:ident, $args:ident<$lt:lifetime>, $results:ident:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        crate::operations!(@bodies $operation, $args $lt [$lt] [], "The arguments, by operation.",
            $($name($arg), $about;)*);
        crate::operations!(@bodies $operation, $results $lt [$lt] [], "The results, by operation.",
            $($name($result), $about;)*);

        impl<$lt> $results<$lt> {
            /// Returns the status of the operation.
            pub fn status(&self) -> Nfsstat4 {
                match self {
                    $(Self::$name(result) => result.status(),)*
                }
            }
        }

        bodies!(@body $opcode, $operation, $number, $args, false);
        bodies!(@body $opcode, $operation, $number, $results, true);
    };
    (@body $opcode:literal, $operation:ident, $number:ident, $bodies:ident, $has_status:literal) => {
        impl<'a> OperationBody<'a> for $bodies<'a> {
            type OperationNumber = $number;
            const OPCODE: &'static FieldDefinition = &FieldDefinition {
                name: $opcode,
                label: "op",
                kind: FieldKind::Enum,
                doc: "Number of the operation. RFC 8881 section 16.2.1.",
            };
            const HAS_STATUS: bool = $has_status;

            #[inline]
            fn number(&self) -> $number {
                self.operation().number()
            }

            #[inline]
            fn field(number: $number) -> Option<&'static FieldDefinition> {
                number.known().map(|operation| operation.field())
            }

            #[inline]
            fn class(number: $number) -> u8 {
                number.known().map_or(CLASS_OF_UNKNOWN, |operation| operation.class())
            }

            #[inline]
            fn decode<O: FieldObserver<'a>>(
                number: $number,
                cursor: &mut Cursor<'a>,
                observer: &mut O,
            ) -> Result<Self, XdrError> {
                let unknown = || XdrError::Unknown { at: cursor.at(), what: stringify!($operation), number: number.0 };
                let operation = number.known().ok_or_else(unknown)?;
                Self::decode(operation, cursor, observer)
            }

            fn encode(&self, encoder: &mut Encoder) {
                self.encode(encoder);
            }
        }
    };
}
operation_table!(bodies);
callback_operation_table!(bodies);
