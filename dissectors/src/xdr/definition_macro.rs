//! The macro that describes XDR structures.

/// Describes XDR structures in the notation of the RFCs. The literal before the first item is the prefix of the filter
/// names of its fields (`"nfs"` gives `nfs.offset`); `=> "name"` after a field sets another name. The content of a
/// union's arm is a field, too, with the name of the arm or the name after `as`. Observers learn of numbers that an
/// `enum` does not have; an `open_enum` names some numbers of a registry, or of a type that is no enumeration. A point
/// in time or a length of time is
/// a `time` or a `duration` in `seconds` and `nseconds`, or a `checked_time`, whose function `nanoseconds` returns
/// `None` for invalid values.
///
/// ```
/// use nfsrdma_dissectors::xdr;
/// use nfsrdma_dissectors::xdr::{Opaque, Void};
/// xdr! { "example";
///     /// stable_how. RFC 1813 section 3.3.7.
///     enum StableHow { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 }
///
///     /// Rights. RFC 1813 section 3.3.4.
///     flags Access { ACCESS3_READ = 0x1, ACCESS3_LOOKUP = 0x2 }
///
///     /// A structure with opaque data.
///     struct Arguments<'a> { file: Opaque<'a, 64> => "example.fh", offset: u64, stable: StableHow }
///
///     /// A discriminated union; `default` keeps the discriminant, before the content of its arm if it has one.
///     union StatusUnion<'a> switch (how: StableHow) {
///         FILE_SYNC => Done(Arguments<'a>) as arguments => "example.args",
///         UNSTABLE => Later,
///         default => Other,
///     }
/// }
/// assert_eq!(Arguments::FIELDS.file.name, "example.fh");
/// assert_eq!(StatusUnion::FIELDS.Done.label, "arguments");
/// assert_eq!(StableHow::FILE_SYNC.name(), Some("FILE_SYNC"));
/// ```
#[macro_export]
macro_rules! xdr {
    ($group:literal; $(
        $(#[doc = $doc:literal])+
        $form:ident $name:ident $(<$lt:lifetime>)? $(switch ($tag:ident : $tag_type:ty $(=> $tag_filter:literal)?))? { $($body:tt)* }
    )*) => {
        $($crate::xdr!(@$form [$($doc)+] $group $name [$($lt)?] [$($tag: $tag_type $(=> $tag_filter)?)?] { $($body)* });)*
    };

    (@struct $doc:tt $group:literal $name:ident $lt:tt [] $fields:tt) => {
        $crate::xdr!(@structure $doc $group $name $lt Group [] $fields);
    };
    (@time $doc:tt $group:literal $name:ident $lt:tt [] $fields:tt) => {
        $crate::xdr!(@structure $doc $group $name $lt Time [nanoseconds] $fields);
        $crate::xdr!(@nanoseconds $name "Returns the time since 1970-01-01 00:00:00 UTC in nanoseconds.");
    };
    (@duration $doc:tt $group:literal $name:ident $lt:tt [] $fields:tt) => {
        $crate::xdr!(@structure $doc $group $name $lt Duration [nanoseconds] $fields);
        $crate::xdr!(@nanoseconds $name "Returns the length of time in nanoseconds.");
    };
    (@checked_time $doc:tt $group:literal $name:ident $lt:tt [] $fields:tt) => {
        $crate::xdr!(@structure $doc $group $name $lt Time [nanoseconds] $fields);
    };
    (@nanoseconds $name:ident $method_doc:literal) => {
        impl $name {
            #[doc = $method_doc]
            pub fn nanoseconds(&self) -> i128 {
                i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nseconds)
            }
        }
    };

    (@structure [$($doc:literal)+] $group:literal $name:ident [$($lt:lifetime)?] $kind:ident [$($time:ident)?] {
        $($(#[doc = $field_doc:literal])* $field:ident : $type:ty $(=> $filter:literal)?),* $(,)?
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name $(<$lt>)? {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        const _: () = {
            /// The fields of the structure.
            #[allow(missing_docs)]
            pub struct XdrFieldDefinitionsByName {
                $(pub $field: &'static $crate::field::FieldDefinition,)*
            }

            impl<$($lt)?> $name $(<$lt>)? {
                const DOC: &'static str = concat!($($doc, "\n"),+);

                /// The fields by name.
                pub const FIELDS: &'static XdrFieldDefinitionsByName = &XdrFieldDefinitionsByName {
                    $($field: &$crate::xdr!(
                        @field $group $field [$($filter)?] $type,
                        $crate::field::doc(concat!("", $($field_doc),*), Self::DOC)
                    ),)*
                };
            }
        };

        $crate::xdr!(@implement [$($lt)?] $name, $crate::field::FieldKind::$kind,
            |cursor, field, observer| {
                observer.enter(field, cursor.position());
                $(let $field = $crate::xdr::Xdr::decode(cursor, Self::FIELDS.$field, observer)?;)*
                observer.leave(cursor.position());
                let this = Self { $($field),* };
                $(if let Some(nanoseconds) = Option::<i128>::from(this.$time()) {
                    observer.time(field, nanoseconds);
                })?
                Ok(this)
            },
            |this, encoder| {
                $($crate::xdr::Xdr::encode(&this.$field, encoder);)*
            },
            [], $crate::xdr::sum(&[$(<$type as $crate::xdr::Xdr>::LENGTH),*]),
            $crate::xdr::any(&[$(<$type as $crate::xdr::Xdr>::IS_DDP_ELIGIBLE),*]), |registry| {
                $(<$type as $crate::xdr::Xdr>::describe_field(registry, Self::FIELDS.$field, Self::DOC);)*
            }
        );
    };

    (@enum $doc:tt $group:literal $name:ident [] [] $values:tt) => {
        $crate::xdr!(@enumeration $doc $name |this| this.name().is_none(), $values);
    };
    (@open_enum $doc:tt $group:literal $name:ident [] [] $values:tt) => {
        $crate::xdr!(@enumeration $doc $name |this| false, $values);
    };
    (@enumeration $doc:tt $name:ident |$this:ident| $is_undefined:expr, {
        $($(#[doc = $value_doc:literal])* $value:ident = $number:literal),* $(,)?
    }) => {
        $crate::xdr!(@number $doc $name Enum
            |$this| $crate::field::FieldValue::Enum(u64::from($this.0), $this.name()), $is_undefined,
            $($(#[doc = $value_doc])* $value = $number,)*);

        impl $name {
            /// Returns the name of the value in the specification, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($value)),)*
                    _ => None,
                }
            }
        }

        /// Displays the name, or the number if it has none.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => self.0.fmt(f),
                }
            }
        }
    };

    (@flags $doc:tt $group:literal $name:ident [] [] {
        $($(#[doc = $value_doc:literal])* $value:ident = $number:literal),* $(,)?
    }) => {
        $crate::xdr!(@number $doc $name Flags
            |this| $crate::field::FieldValue::Flags(u64::from(this.0), Self::NAMES), false,
            $($(#[doc = $value_doc])* $value = $number,)*);

        impl $name {
            /// Names of the bits in the specification.
            pub const NAMES: &'static [$crate::field::FlagName] = &[$(($number, stringify!($value))),*];

            /// Returns `true` if all bits of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }
    };

    (@number [$($doc:literal)+] $name:ident $kind:ident |$this:ident| $field_value:expr, $is_undefined:expr,
     $($(#[doc = $value_doc:literal])* $value:ident = $number:literal,)*) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        #[allow(missing_docs, non_upper_case_globals)]
        impl $name {
            $($(#[doc = $value_doc])* pub const $value: Self = Self($number);)*
        }

        $crate::xdr!(@implement [] $name, $crate::field::FieldKind::$kind,
            |cursor, field, observer| {
                let at = cursor.position();
                let $this = Self(cursor.word()?);
                if O::is_enabled() {
                    observer.value(field, at..cursor.position(), $field_value);
                }
                if O::checks_values() && $is_undefined {
                    observer.undefined(field, stringify!($name), $this.0);
                }
                Ok($this)
            },
            |this, encoder| {
                encoder.word(this.0);
            },
            [$(($number, stringify!($value))),*], Some(4), false, |registry| {}
        );
    };

    // Separates the arms of a union into those with a value and the default, which keeps the discriminant.
    (@union [$($doc:literal)+] $group:literal $name:ident [$($lt:lifetime)?] $tag:tt {
        $($(#[doc = $arm_doc:literal])* $value:ident => $arm:ident $(($type:ty) $(as $label:ident)? $(=> $filter:literal)?)?),*
        $(,)?
    }) => {
        $crate::xdr!(@arms [$($doc)+] $group $name [$($lt)?] $tag []
            $($(#[doc = $arm_doc])* $value => $arm [$($type, [$($label)? $arm] [$($filter)?])?],)*);
    };
    (@arms $doc:tt $group:literal $name:ident $lt:tt $tag:tt [$($known:tt)*]
     $(#[doc = $arm_doc:literal])* default => $arm:ident $content:tt,) => {
        $crate::xdr!(@union_of $doc $group $name $lt $tag [$($known)*] [$(#[doc = $arm_doc])* $arm $content]);
    };
    (@arms $doc:tt $group:literal $name:ident $lt:tt $tag:tt [$($known:tt)*]) => {
        $crate::xdr!(@union_of $doc $group $name $lt $tag [$($known)*] []);
    };
    (@arms $doc:tt $group:literal $name:ident $lt:tt $tag:tt [$($known:tt)*]
     $(#[doc = $arm_doc:literal])* $value:ident => $arm:ident $content:tt, $($rest:tt)*) => {
        $crate::xdr!(@arms $doc $group $name $lt $tag
            [$($known)* $(#[doc = $arm_doc])* $value => $arm $content,] $($rest)*);
    };

    (@union_of [$($doc:literal)+] $group:literal $name:ident [$($lt:lifetime)?]
     [$tag:ident : $tag_type:ty $(=> $tag_filter:literal)?]
     [$($(#[doc = $arm_doc:literal])* $value:ident => $arm:ident [$($type:ty, $label:tt $filter:tt)?],)*]
     [$($(#[doc = $default_doc:literal])* $default:ident [$($default_type:ty, $default_label:tt $default_filter:tt)?])?]
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        // Boxing would make decoding allocate.
        #[allow(missing_docs, clippy::large_enum_variant)]
        pub enum $name $(<$lt>)? {
            $($(#[doc = $arm_doc])* $arm $(($type))?,)*
            $($(#[doc = $default_doc])* $default($tag_type $(, $default_type)?),)?
        }

        const _: () = {
            /// The fields of the union.
            #[allow(missing_docs, non_snake_case)]
            pub struct XdrFieldDefinitionsByName {
                $($(pub $arm: $crate::xdr!(@reference $type),)?)*
                $($(pub $default: $crate::xdr!(@reference $default_type),)?)?
            }

            impl<$($lt)?> $name $(<$lt>)? {
                /// Field of the discriminant.
                pub const TAG: &'static $crate::field::FieldDefinition =
                    &$crate::xdr!(@field $group $tag [$($tag_filter)?] $tag_type, concat!($($doc, "\n"),+));

                /// The contents of the arms, by arm.
                pub const FIELDS: &'static XdrFieldDefinitionsByName = &XdrFieldDefinitionsByName {
                    $($($arm: &$crate::xdr!(@content $group $label $filter $type),)?)*
                    $($($default: &$crate::xdr!(@content $group $default_label $default_filter $default_type),)?)?
                };

                /// Returns the discriminant of this arm.
                pub fn tag(&self) -> $tag_type {
                    match self {
                        $(Self::$arm { .. } => <$tag_type>::$value,)*
                        $(Self::$default(tag, ..) => *tag,)?
                    }
                }
            }
        };

        $crate::xdr!(@implement [$($lt)?] $name, $crate::field::FieldKind::Group,
            |cursor, field, observer| {
                observer.enter(field, cursor.position());
                let at = cursor.at();
                let tag = <$tag_type as $crate::xdr::Xdr>::decode(cursor, Self::TAG, observer)?;
                #[allow(unreachable_patterns)]
                let this = match tag {
                    $(<$tag_type>::$value => Self::$arm $((<$type as $crate::xdr::Xdr>::decode(cursor, Self::FIELDS.$arm, observer)?))?,)*
                    $(tag => Self::$default(tag $(, <$default_type as $crate::xdr::Xdr>::decode(cursor, Self::FIELDS.$default, observer)?)?),)?
                    tag => return Err($crate::xdr::XdrError::Invalid { at, what: stringify!($tag_type), value: tag.0 }),
                };
                observer.leave(cursor.position());
                Ok(this)
            },
            |this, encoder| {
                $crate::xdr::Xdr::encode(&this.tag(), encoder);
                match this {
                    $($crate::xdr!(@pattern content, Self::$arm $($type)?) => {
                        $(<$type as $crate::xdr::Xdr>::encode(content, encoder);)?
                    })*
                    $($crate::xdr!(@default_pattern content, Self::$default $($default_type)?) => {
                        $(<$default_type as $crate::xdr::Xdr>::encode(content, encoder);)?
                    })?
                }
            },
            [], None,
            $crate::xdr::any(&[
                $($(<$type as $crate::xdr::Xdr>::IS_DDP_ELIGIBLE,)?)*
                $($(<$default_type as $crate::xdr::Xdr>::IS_DDP_ELIGIBLE)?)?
            ]), |registry| {
                const DOC: &str = concat!($($doc, "\n"),+);
                <$tag_type as $crate::xdr::Xdr>::describe_field(registry, Self::TAG, DOC);
                $($(<$type as $crate::xdr::Xdr>::describe_field(registry, Self::FIELDS.$arm, DOC);)?)*
                $($(<$default_type as $crate::xdr::Xdr>::describe_field(registry, Self::FIELDS.$default, DOC);)?)?
            }
        );
    };

    (@reference $type:ty) => { &'static $crate::field::FieldDefinition };
    (@content $group:literal [$label:ident $($arm:ident)?] [$($filter:literal)?] $type:ty) => {
        $crate::xdr!(@field $group $label [$($filter)?] $type, "")
    };
    (@pattern $content:ident, Self::$arm:ident) => { Self::$arm };
    (@pattern $content:ident, Self::$arm:ident $type:ty) => { Self::$arm($content) };
    (@default_pattern $content:ident, Self::$arm:ident) => { Self::$arm(_) };
    (@default_pattern $content:ident, Self::$arm:ident $type:ty) => { Self::$arm(_, $content) };

    (@field $group:literal $field:ident [] $type:ty, $doc:expr) => {
        $crate::xdr!(@field $group $field [concat!($group, ".", stringify!($field))] $type, $doc)
    };
    (@field $group:literal $field:ident [$filter:expr] $type:ty, $doc:expr) => {
        $crate::field::FieldDefinition {
            name: $filter,
            label: $crate::field::label(stringify!($field)),
            kind: <$type as $crate::xdr::Xdr>::KIND,
            doc: $doc,
        }
    };

    (@implement [] $name:ident, $($functions:tt)*) => {
        impl<'a> $crate::xdr::Xdr<'a> for $name {
            $crate::xdr!(@functions 'a, $($functions)*);
        }
    };
    (@implement [$lt:lifetime] $name:ident, $($functions:tt)*) => {
        impl<$lt> $crate::xdr::Xdr<$lt> for $name<$lt> {
            $crate::xdr!(@functions $lt, $($functions)*);
        }
    };
    (@functions $lt:lifetime, $kind:expr,
     |$cursor:ident, $field:ident, $observer:ident| $decode:block, |$this:ident, $encoder:ident| $encode:block,
     $names:tt, $length:expr, $is_eligible:expr, |$registry:ident| $describe:block) => {
        const KIND: $crate::field::FieldKind = $kind;
        const NAMES: &'static [$crate::field::FlagName] = &$names;
        const LENGTH: Option<usize> = $length;
        const IS_DDP_ELIGIBLE: bool = $is_eligible;

        #[allow(unused_variables)]
        fn describe($registry: &mut $crate::field::registry::FieldRegistry) {
            if $registry.mark_visited::<Self>() $describe
        }

        #[inline]
        #[allow(unused_variables)]
        fn decode<O: $crate::field::FieldObserver<$lt>>(
            $cursor: &mut $crate::xdr::Cursor<$lt>,
            $field: &'static $crate::field::FieldDefinition,
            $observer: &mut O,
        ) -> Result<Self, $crate::xdr::XdrError> {
            let is_structure = const {
                use $crate::field::FieldKind;
                matches!($kind, FieldKind::Group | FieldKind::Time | FieldKind::Duration)
            };
            if O::is_enabled()
                && is_structure
                && !$observer.is_interested_in($field, <Self as $crate::xdr::Xdr>::describe)
            {
                return <Self as $crate::xdr::Xdr>::decode($cursor, $field, &mut $crate::field::NullFieldObserver);
            }
            $decode
        }

        #[allow(unused_variables)]
        fn encode(&self, $encoder: &mut $crate::xdr::Encoder) {
            let $this = self;
            $encode
        }
    };
}
