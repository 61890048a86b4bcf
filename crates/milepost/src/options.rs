//! Macros for builder-style structs. `options!` declares a struct of options or a query with one setter per
//! field. Callers start from the default and chain setters, so a new option does not break them. `setters!`
//! declares setters whose name or type differs from the field.

/// Declares a struct and, for each field, a method of the same name that sets the field and returns the
/// struct. The method accepts any value that converts into the field's type. For a field marked `[number]` it
/// accepts exactly the field's type, so that the compiler can infer the type of a literal. The setter of a
/// field marked `[internal]` is public only with the feature `internal`.
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

/// Declares methods that set a field, or part of a field, and return the struct. One line per method:
/// `fn name(value: Type) => field = expression;`.
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
