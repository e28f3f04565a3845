//! Numbers of operations and callback operations: name, minor version and class.

use super::bitmap::names;
use super::operation_table::{callback_operation_table, operation_table};

/// Defines the numbers of a table of operations.
macro_rules! numbers {
    (
        $opcode:literal;
        $(#[doc = $doc:literal])+
        $number:ident, $known:ident, $args:ident<$lt:lifetime>, $results:ident:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        crate::operations!(@numbers "nfs", [$($doc)+] $number, $known, $($code $name, $about;)*);
    };
}
operation_table!(numbers);
callback_operation_table!(numbers);

impl Operation {
    /// Returns the first minor version with this operation.
    pub fn first_minor_version(self) -> Option<u32> {
        match self.0 {
            3..=39 | 10044 => Some(0),
            40..=58 => Some(1),
            59..=75 => Some(2),
            _ => None,
        }
    }

    /// Returns the class of the operation; higher classes are less characteristic of a COMPOUND. A COMPOUND is named
    /// after its first operation of the lowest class.
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
    pub fn first_minor_version(self) -> Option<u32> {
        match self.0 {
            3 | 4 | 10044 => Some(0),
            5..=14 => Some(1),
            15 => Some(2),
            _ => None,
        }
    }

    /// Returns the class of the operation, like [`Operation::class`].
    pub fn class(self) -> u8 {
        if self == Self::CB_SEQUENCE { 9 } else { 2 }
    }
}

/// The operations as bits of a bitmap. RFC 8881 section 18.35.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationBitNames {}

names!(OperationBitNames, Operation::NAMES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_is_missing() {
        let mut numbers: Vec<_> = (3..=75).map(Operation).collect();
        numbers.push(Operation(10044));
        assert_eq!(Operation::ALL, numbers);
        let mut numbers: Vec<_> = (3..=15).map(CbOperation).collect();
        numbers.push(CbOperation(10044));
        assert_eq!(CbOperation::ALL, numbers);
    }

    #[test]
    fn every_operation_belongs_to_a_minor_version() {
        assert!(Operation::ALL.iter().all(|operation| operation.first_minor_version().is_some()));
        assert!(CbOperation::ALL.iter().all(|operation| operation.first_minor_version().is_some()));
        assert_eq!(Operation(76).first_minor_version(), None);
        assert_eq!((Operation(76).known(), Operation::SEEK.known()), (None, Some(KnownOperation::SEEK)));
        assert_eq!(Operation::SEQUENCE.first_minor_version(), Some(1));
        assert_eq!(Operation::GETXATTR.first_minor_version(), Some(2));
    }
}
