//! Format versions of sealed documents. Documents in an older format are upgraded in memory when they are
//! read; the stored bytes are never rewritten.

use crate::model::RawObject;

/// The format version that this program writes.
pub const FORMAT_VERSION: u64 = 1;

/// `STEPS[n]` upgrades the members of format n+1 to format n+2.
const STEPS: [fn(RawObject) -> RawObject; FORMAT_VERSION as usize - 1] = [];

/// Upgrades the members of an older format to the current one.
pub(super) fn upgrade(from: u64, fields: RawObject) -> RawObject {
    upgrade_by(&STEPS, from, fields)
}

fn upgrade_by(steps: &[fn(RawObject) -> RawObject], from: u64, fields: RawObject) -> RawObject {
    let done = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    steps.iter().skip(done).fold(fields, |fields, step| step(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RawJson;

    #[test]
    fn each_step_runs_once_and_only_for_older_formats() {
        let steps: [fn(RawObject) -> RawObject; 2] = [
            |mut f| {
                f.set("two", RawJson::parse("true").unwrap());
                f
            },
            |mut f| {
                f.set("three", RawJson::parse("true").unwrap());
                f
            },
        ];
        let names = |from| {
            let fields = upgrade_by(&steps, from, RawObject::default());
            fields.iter().map(|(k, _)| k.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["two", "three"]);
        assert_eq!(names(2), ["three"]);
        assert!(names(3).is_empty());
    }
}
