//! Runs the conformance suite on every store, both plain and wrapped so that each decision callback is called
//! more than once.

mod sqlite {
    use crate::stores::sqlite;
    milepost_testkit::conformance!(sqlite);
}

mod sqlite_asked_again {
    use crate::stores::sqlite_asked_again;
    milepost_testkit::conformance!(sqlite_asked_again);
}

mod files {
    use crate::stores::files;
    milepost_testkit::conformance!(files);
}

mod files_asked_again {
    use crate::stores::files_asked_again;
    milepost_testkit::conformance!(files_asked_again);
}

/// A single store can serve the whole suite, as a shared server has to.
#[test]
fn sqlite_serves_all_in_one_store() {
    milepost_testkit::conformance::all(&*crate::stores::sqlite());
}

/// A single store can serve the whole suite, as a shared server has to.
#[test]
fn files_serve_all_in_one_store() {
    milepost_testkit::conformance::all(&*crate::stores::files());
}
