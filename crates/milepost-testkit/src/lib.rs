//! Conformance suite and fault stores for implementers of milepost's `Store` trait.
