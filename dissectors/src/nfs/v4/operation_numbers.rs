//! Numbers of operations and callback operations: name, minor version and class.

use super::bitmap::names;
use super::operation_table::{callback_operation_table, operation_table};

/// Defines the numbers of a table of operations.
macro_rules! numbers {
    (
        $opcode:literal;
        $(#[doc = $doc:literal])+
        $operation:ident, $number:ident, $args:ident<$lt:lifetime>, $results:ident:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        crate::operations!(@numbers "nfs", [$($doc)+] $operation, $number, $($code $name, $about;)*);
    };
}
operation_table!(numbers);
callback_operation_table!(numbers);

impl Operation {
    /// Returns the first minor version with this operation.
    pub const fn first_minor_version(self) -> u32 {
        match self.number().0 {
            ..40 | 10044 => 0,
            40..59 => 1,
            59.. => 2,
        }
    }

    /// Returns the class of the operation; higher classes are less characteristic of a COMPOUND. A COMPOUND is named
    /// after its first operation of the lowest class.
    #[inline]
    pub fn class(self) -> u8 {
        match self {
            Self::DELEGRETURN | Self::CLOSE => 1,
            Self::COMMIT | Self::LAYOUTRETURN => 3,
            Self::LOOKUP | Self::LOOKUPP => 4,
            Self::ACCESS => 5,
            Self::GETATTR | Self::VERIFY | Self::NVERIFY => 6,
            Self::GETFH => 7,
            Self::PUTFH | Self::PUTROOTFH | Self::PUTPUBFH | Self::SAVEFH | Self::RESTOREFH => 8,
            Self::SEQUENCE => 9,
            _ => 2,
        }
    }
}

impl CbOperation {
    /// Returns the first minor version with this operation.
    pub const fn first_minor_version(self) -> u32 {
        match self.number().0 {
            ..5 | 10044 => 0,
            5..15 => 1,
            15.. => 2,
        }
    }

    /// Returns the class of the operation, like [`Operation::class`].
    #[inline]
    pub fn class(self) -> u8 {
        if self == Self::CB_SEQUENCE { 9 } else { 2 }
    }
}

/// The operations as bits of a bitmap. RFC 8881 section 18.35.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationBitNames {}

names!(OperationBitNames, OperationNumber::NAMES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_is_missing() {
        let numbers: Vec<_> = Operation::ALL.iter().map(|operation| operation.number().0).collect();
        assert_eq!(numbers, (3..=75).chain([10044]).collect::<Vec<_>>());
        let numbers: Vec<_> = CbOperation::ALL.iter().map(|operation| operation.number().0).collect();
        assert_eq!(numbers, (3..=15).chain([10044]).collect::<Vec<_>>());
    }

    #[test]
    fn every_operation_belongs_to_a_minor_version() {
        assert_eq!(Operation::RELEASE_LOCKOWNER.first_minor_version(), 0);
        assert_eq!(Operation::SEQUENCE.first_minor_version(), 1);
        assert_eq!(Operation::GETXATTR.first_minor_version(), 2);
        assert_eq!(CbOperation::CB_OFFLOAD.first_minor_version(), 2);
        assert_eq!((OperationNumber(76).known(), OperationNumber(69).known()), (None, Some(Operation::SEEK)));
    }
}
