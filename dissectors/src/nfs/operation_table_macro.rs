//! Tables of procedures and operations: number, name, arguments, results and section of the specification.

/// Describes a table of operations. Generates an enum of the operations, a type for the number in a message, which
/// may be that of no operation, and one enum each for the arguments and the results. The variants have the RFC's names.
///
/// ```text
/// operations! { "nfs";
///     /// The procedures of NFSv3. RFC 1813 section 3.
///     Procedure, ProcedureNumber, Args<'a>, Results:
///     0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 3.3.0";
///     1 GETATTR(GetattrArgs<'a>) -> GetattrRes, "Get file attributes. RFC 1813 section 3.3.1";
/// }
/// ```
/// `Results<>` is for results that borrow nothing from the message.
#[macro_export]
macro_rules! operations {
    ($group:literal;
        $(#[doc = $doc:literal])+
        $operation:ident, $number:ident, $args:ident<$lt:lifetime>, $results:ident:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        $crate::operations!(@numbers $group, [$($doc)+] $operation, $number, $($code $name, $about;)*);
        $crate::operations!(@bodies $operation, $args $lt [$lt] [], "The arguments, by operation.",
            $($name($arg), $about;)*);
        $crate::operations!(@bodies $operation, $results $lt [$lt] [], "The results, by operation.",
            $($name($result), $about;)*);
    };

    ($group:literal;
        $(#[doc = $doc:literal])+
        $operation:ident, $number:ident, $args:ident<$lt:lifetime>, $results:ident<>:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        $crate::operations!(@numbers $group, [$($doc)+] $operation, $number, $($code $name, $about;)*);
        $crate::operations!(@bodies $operation, $args $lt [$lt] [], "The arguments, by operation.",
            $($name($arg), $about;)*);
        $crate::operations!(@bodies $operation, $results $lt [] [$lt], "The results, by operation.",
            $($name($result), $about;)*);
    };

    (@numbers $group:literal, [$($doc:literal)+] $operation:ident, $number:ident,
     $($code:literal $name:ident, $about:literal;)*) => {
        $crate::xdr! { $group;
            /// Number in a message, which may be that of no operation.
            enum $number { $(#[doc = $about] $name = $code),* }
        }

        impl $number {
            /// The numbers of the table with their names.
            pub const NAMES: &'static [$crate::field::FlagName] = &[$(($code, stringify!($name))),*];

            /// Returns the operation, if the number is in the table.
            #[inline]
            pub const fn known(self) -> Option<$operation> {
                match self.0 {
                    $($code => Some($operation::$name),)*
                    _ => None,
                }
            }
        }

        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        pub enum $operation {
            $(#[doc = $about] $name = $code,)*
        }

        impl $operation {
            /// All operations, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the operation with this name in the RFC.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|operation| operation.name() == name)
            }

            /// Returns the number in a message.
            #[inline]
            pub const fn number(self) -> $number {
                $number(self as u32)
            }

            /// Returns the name in the RFC.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the operation as a group of fields.
            #[inline]
            pub const fn field(self) -> &'static $crate::field::FieldDefinition {
                match self {
                    $(Self::$name => const { &$crate::field::FieldDefinition::group(
                        concat!($group, ".", stringify!($name)), stringify!($name), $about) },)*
                }
            }
        }

        impl std::fmt::Display for $operation {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };

    // The lifetime of the message occurs twice: in the first place if the bodies borrow the message, otherwise in the
    // second, where only decoding needs it.
    (@bodies $operation:ident, $bodies:ident $message:lifetime [$($lt:lifetime)?] [$($free:lifetime)?], $doc:literal,
     $($name:ident($body:ty), $about:literal;)*) => {
        #[doc = $doc]
        #[derive(Clone, Debug, PartialEq)]
        // Boxing would make decoding allocate.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, clippy::large_enum_variant)]
        pub enum $bodies $(<$lt>)? {
            $(#[doc = $about] $name($body),)*
        }

        impl<$($lt)?> $bodies $(<$lt>)? {
            /// Returns the operation.
            #[inline]
            pub const fn operation(&self) -> $operation {
                match self {
                    $(Self::$name(_) => $operation::$name,)*
                }
            }

            /// Decodes the body of an operation, whose number precedes the cursor.
            ///
            /// # Errors
            /// Returns an error of the body's type.
            #[inline]
            pub fn decode<$($free,)? O: $crate::field::FieldObserver<$message>>(
                operation: $operation,
                cursor: &mut $crate::xdr::Cursor<$message>,
                observer: &mut O,
            ) -> Result<Self, $crate::xdr::XdrError> {
                match O::ignores_all() {
                    true => Self::decode_silently(operation, cursor),
                    false => Self::decode_with(operation, cursor, observer),
                }
            }

            /// Decodes without an observer. Compiled once, in this crate.
            fn decode_silently $(<$free>)? (
                operation: $operation,
                cursor: &mut $crate::xdr::Cursor<$message>,
            ) -> Result<Self, $crate::xdr::XdrError> {
                Self::decode_with(operation, cursor, &mut $crate::field::NullFieldObserver)
            }

            #[inline]
            fn decode_with<$($free,)? O: $crate::field::FieldObserver<$message>>(
                operation: $operation,
                cursor: &mut $crate::xdr::Cursor<$message>,
                observer: &mut O,
            ) -> Result<Self, $crate::xdr::XdrError> {
                let field = operation.field();
                let this = match operation {
                    $($operation::$name => {
                        <$body as $crate::xdr::Xdr>::decode(cursor, field, observer).map(Self::$name)
                    })*
                };
                if Self::is_ddp_eligible(operation) {
                    cursor.end_eligible();
                }
                this
            }

            /// Returns `true` if the body of an operation can contain a DDP-eligible item in any form (RFC 8267
            /// sections 4 and 6.1). Such results are paired with the Write chunks in order.
            pub const fn is_ddp_eligible(operation: $operation) -> bool {
                match operation {
                    $($operation::$name => <$body as $crate::xdr::Xdr>::IS_DDP_ELIGIBLE,)*
                }
            }

            /// Adds all operations and the fields of their bodies to a registry.
            pub fn describe(registry: &mut $crate::field::registry::FieldRegistry) {
                $(<$body as $crate::xdr::Xdr>::describe_field(registry, $operation::$name.field(), "");)*
            }

            /// Appends the body without the operation number.
            pub fn encode(&self, encoder: &mut $crate::xdr::Encoder) {
                match self {
                    $(Self::$name(body) => $crate::xdr::Xdr::encode(body, encoder),)*
                }
                if Self::is_ddp_eligible(self.operation()) {
                    encoder.end_eligible();
                }
            }
        }
    };
}
