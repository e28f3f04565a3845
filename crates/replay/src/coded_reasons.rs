//! The macro that describes reasons in output.

/// Defines reasons, each with a stable code and a text for display.
macro_rules! coded_reasons {
    ($(#[doc = $about:literal])+ $name:ident; $($(#[doc = $doc:literal])+ $reason:ident => $code:literal, $text:literal;)*) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $reason,)*
        }

        impl $name {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$reason),*];

            /// Returns the stable name in output.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$reason => $code,)* }
            }

            /// Returns the description for display.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$reason => $text,)* }
            }
        }
    };
}
