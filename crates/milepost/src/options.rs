//! `options!` declares structs of options and queries: callers start from the default and set what they need, method by
//! method, so that options can be added later without breaking them. `setters!` declares such methods where they do not
//! have the names and types of the fields.

/// Declares a struct and, for each field, a method of the same name that sets the field and returns the struct. The
/// method takes anything that converts into the field's type; for a field marked `[number]` exactly its type, so that
/// the type of a literal is known. Only Milepost's own crates set fields marked `[internal]`.
macro_rules! options {
    (
        $(#[$struct_meta:meta])*
        pub struct $name:ident $(<$lifetime:lifetime>)? {
            $($(#[$meta:meta])* $vis:vis $field:ident: $type:ty $([$kind:ident])?,)*
        }
    ) => {
        $(#[$struct_meta])*
        #[must_use]
        #[non_exhaustive]
        pub struct $name $(<$lifetime>)? {
            $($(#[$meta])* $vis $field: $type,)*
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            $(options! { @setter $(#[$meta])* $field: $type $([$kind])? })*
        }
    };
    (@setter $(#[$meta:meta])* $field:ident: $type:ty [number]) => {
        $(#[$meta])*
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    };
    (@setter $(#[$meta:meta])* $field:ident: $type:ty) => {
        $(#[$meta])*
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $field.into();
            self
        }
    };
    (@setter $(#[$meta:meta])* $field:ident: $type:ty [internal]) => {
        $(#[$meta])*
        #[cfg_attr(feature = "internal", visibility::make(pub))]
        pub(crate) fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $field.into();
            self
        }
    };
}

/// Declares methods that set a field, or a part of one, and return the struct: `name(value: Type) => field = expression;`.
macro_rules! setters {
    (
        impl $struct:ident {
            $($(#[$meta:meta])* $vis:vis fn $name:ident($value:ident: $type:ty) => $($field:ident).+ = $set:expr;)*
        }
    ) => {
        impl $struct {
            $(
                $(#[$meta])*
                $vis fn $name(mut self, $value: $type) -> Self {
                    self.$($field).+ = $set;
                    self
                }
            )*
        }
    };
}
