//! Tables of procedures and operations: number, name, arguments, results and section of the specification.

/// Describes a table of operations. Generates a type for the number with named constants, an enum of the operations for
/// exhaustive matches, and one enum each for the arguments and the results. The variants have the RFC's names.
///
/// ```text
/// operations! { "nfs";
///     /// The procedures of NFSv3. RFC 1813 section 3.
///     Procedure, KnownProcedure, Args<'a>, Results:
///     0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 3.3.0";
///     1 GETATTR(GetattrArgs<'a>) -> GetattrRes, "Get file attributes. RFC 1813 section 3.3.1";
/// }
/// ```
/// `Results<>` is for results that borrow nothing from the message.
#[macro_export]
macro_rules! operations {
    ($group:literal;
        $(#[doc = $doc:literal])+
        $number:ident, $known:ident, $args:ident<$lt:lifetime>, $results:ident:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        $crate::operations!(@numbers $group, [$($doc)+] $number, $known, $($code $name, $about;)*);
        $crate::operations!(@bodies $number, $args $lt [$lt] [], "The arguments, by operation.",
            $($name($arg), $about;)*);
        $crate::operations!(@bodies $number, $results $lt [$lt] [], "The results, by operation.",
            $($name($result), $about;)*);
    };

    ($group:literal;
        $(#[doc = $doc:literal])+
        $number:ident, $known:ident, $args:ident<$lt:lifetime>, $results:ident<>:
        $($code:literal $name:ident ($arg:ty) -> $result:ty, $about:literal;)*
    ) => {
        $crate::operations!(@numbers $group, [$($doc)+] $number, $known, $($code $name, $about;)*);
        $crate::operations!(@bodies $number, $args $lt [$lt] [], "The arguments, by operation.",
            $($name($arg), $about;)*);
        $crate::operations!(@bodies $number, $results $lt [] [$lt], "The results, by operation.",
            $($name($result), $about;)*);
    };

    (@numbers $group:literal, [$($doc:literal)+] $number:ident, $known:ident,
     $($code:literal $name:ident, $about:literal;)*) => {
        $crate::xdr! { $group;
            $(#[doc = $doc])+
            enum $number { $(#[doc = $about] $name = $code),* }
        }

        impl $number {
            /// All numbers of the table, in table order.
            pub const ALL: &'static [Self] = &[$(Self($code)),*];

            /// The numbers of the table with their names.
            pub const NAMES: &'static [$crate::field::FlagName] = &[$(($code, stringify!($name))),*];

            /// Returns the number of the operation with this name in the RFC.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|number| number.name() == Some(name))
            }

            /// Returns the operation, if the number is in the table.
            pub const fn known(self) -> Option<$known> {
                match self.0 {
                    $($code => Some($known::$name),)*
                    _ => None,
                }
            }

            /// Returns the operation as a group of fields, if the number is in the table.
            pub const fn field(self) -> Option<&'static $crate::field::FieldDefinition> {
                match self.0 {
                    $($code => Some(const { &$crate::field::FieldDefinition::group(
                        concat!($group, ".", stringify!($name)), stringify!($name), $about) }),)*
                    _ => None,
                }
            }
        }

        /// The operations of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        pub enum $known {
            $(#[doc = $about] $name,)*
        }
    };

    // The lifetime of the message occurs twice: in the first place if the bodies borrow the message, otherwise in the
    // second, where only decoding needs it.
    (@bodies $number:ident, $bodies:ident $message:lifetime [$($lt:lifetime)?] [$($free:lifetime)?], $doc:literal,
     $($name:ident($body:ty), $about:literal;)*) => {
        #[doc = $doc]
        #[derive(Clone, Debug, PartialEq)]
        // Boxing would make decoding allocate.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, clippy::large_enum_variant)]
        pub enum $bodies $(<$lt>)? {
            $(#[doc = $about] $name($body),)*
        }

        impl<$($lt)?> $bodies $(<$lt>)? {
            /// Returns the number of the operation.
            pub fn number(&self) -> $number {
                match self {
                    $(Self::$name(_) => $number::$name,)*
                }
            }

            /// Decodes the body of operation `number`, which precedes the cursor.
            ///
            /// # Errors
            /// Returns [`XdrError::Unknown`](crate::xdr::XdrError::Unknown) for a number that is not in the table, or
            /// an error of the body's type.
            #[inline]
            pub fn decode<$($free,)? O: $crate::field::FieldObserver<$message>>(
                number: $number,
                cursor: &mut $crate::xdr::Cursor<$message>,
                observer: &mut O,
            ) -> Result<Self, $crate::xdr::XdrError> {
                match O::ignores_all() {
                    true => Self::decode_silently(number, cursor),
                    false => Self::decode_with(number, cursor, observer),
                }
            }

            /// Decodes without an observer. Compiled once, in this crate.
            fn decode_silently $(<$free>)? (
                number: $number,
                cursor: &mut $crate::xdr::Cursor<$message>,
            ) -> Result<Self, $crate::xdr::XdrError> {
                Self::decode_with(number, cursor, &mut $crate::field::NullFieldObserver)
            }

            #[inline]
            fn decode_with<$($free,)? O: $crate::field::FieldObserver<$message>>(
                number: $number,
                cursor: &mut $crate::xdr::Cursor<$message>,
                observer: &mut O,
            ) -> Result<Self, $crate::xdr::XdrError> {
                let unknown = $crate::xdr::XdrError::Unknown {
                    at: cursor.at(),
                    what: stringify!($number),
                    number: number.0,
                };
                let field = number.field().ok_or(unknown)?;
                let this = match number {
                    $($number::$name => <$body as $crate::xdr::Xdr>::decode(cursor, field, observer).map(Self::$name),)*
                    _ => Err(unknown),
                };
                if Self::is_ddp_eligible(number) {
                    cursor.end_eligible();
                }
                this
            }

            /// Returns `true` if the body of operation `number` can contain a DDP-eligible item in any form (RFC 8267
            /// sections 4 and 6.1). Such results are paired with the Write chunks in order.
            pub const fn is_ddp_eligible(number: $number) -> bool {
                match number {
                    $($number::$name => <$body as $crate::xdr::Xdr>::IS_DDP_ELIGIBLE,)*
                    _ => false,
                }
            }

            /// Adds all operations and the fields of their bodies to a registry.
            pub fn describe(registry: &mut $crate::field::registry::FieldRegistry) {
                $(if let Some(field) = $number::$name.field() {
                    <$body as $crate::xdr::Xdr>::describe_field(registry, field, "");
                })*
            }

            /// Appends the body without the operation number.
            pub fn encode(&self, encoder: &mut $crate::xdr::Encoder) {
                match self {
                    $(Self::$name(body) => $crate::xdr::Xdr::encode(body, encoder),)*
                }
                if Self::is_ddp_eligible(self.number()) {
                    encoder.end_eligible();
                }
            }
        }
    };
}
