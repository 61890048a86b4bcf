//! Tests of the seal: golden file, flipped bits, truncation and format versions.

use proptest::prelude::*;

use super::*;
use crate::model::{Draft, JsonPath, RawJson, RawObject};

pub(crate) fn body(state: Option<&str>) -> Body {
    let (run, id) = ("r".parse().unwrap(), "cp_20261115T100000000Z_0123456789ab".parse().unwrap());
    Body {
        brief: Some("## Problem\r\nx\n".into()),
        elapsed_ms: 5,
        metadata: Some(RawJson::parse("{\"b\": 1, \"a\": 1.0}").unwrap()),
        state: state.map(|text| RawJson::parse(text).unwrap()),
        task_summary: Some("tä\u{0}sk".into()),
        extra: RawObject::parse("{\"zeta\":9007199254740993,\"Alpha\":-0.0}", &JsonPath::Root).unwrap(),
        ..Body::new(&run, &id, "2026-11-15T10:00:00Z".parse().unwrap()).unwrap()
    }
}

fn sealed(state: Option<&str>) -> Sealed {
    let unsealed = Unsealed::new(body(state), state.is_some()).unwrap();
    seal(unsealed, &Slot::issue(7, 70)).unwrap()
}

#[test]
fn golden() {
    // Format 1 as first released. Never regenerate this file: a difference is a format change.
    let golden = include_bytes!("golden-v1.json");
    let sealed = sealed(Some("{\"n\":12345678901234567890, \"e\":\"\\u00E9\\u00e9\",\"z\":-0.0,\"f\":1.0}"));
    assert_eq!(String::from_utf8_lossy(sealed.bytes()), String::from_utf8_lossy(golden));
    let verified = verify(golden.to_vec()).unwrap();
    assert_eq!(verified.body().unwrap().sequence, 7);
    verified.matches(sealed.header()).unwrap();
}

#[test]
fn written_keys_are_sorted_and_the_seal_is_last() {
    let sealed = sealed(None);
    let fields: RawObject = serde_json::from_slice(sealed.bytes()).unwrap();
    let mut names: Vec<_> = fields.iter().map(|(k, _)| k.to_owned()).collect();
    assert_eq!(names.pop().unwrap(), "integrity");
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    strict::check(sealed.bytes()).unwrap();
}

#[test]
fn newer_formats_are_refused_by_name() {
    let text = String::from_utf8(sealed(None).bytes().to_vec()).unwrap();
    let newer = text.replace("\"format_version\":1}}", "\"format_version\":2}}");
    assert_eq!(verify(newer.into_bytes()).unwrap_err(), SealError::Newer { found: 2 });
}

#[test]
fn every_flipped_bit_is_found() {
    let sealed = sealed(Some("[1,2,3]"));
    for at in 0..sealed.bytes().len() {
        for bit in 0..8 {
            let mut bytes = sealed.bytes().to_vec();
            bytes[at] ^= 1 << bit;
            assert!(verify(bytes).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn reserved_members_are_refused() {
    for name in crate::model::reserved_fields() {
        let fields = RawObject::parse(&format!("{{\"{name}\":1}}"), &JsonPath::Root).unwrap();
        assert_eq!(Draft::from_object(fields).unwrap_err().path, format!("/{name}"));
    }
}

proptest! {
    #[test]
    fn state_comes_back_exactly(text in "[a-z\\\\\"é\u{1F600} ]{0,40}", n in any::<i128>(), spaces in " {0,3}") {
        let state = format!("{{{spaces}\"k\":{}{spaces},\"n\":{n}{spaces}}}", serde_json::to_string(&text).unwrap());
        let verified = verify(sealed(Some(&state)).bytes().to_vec()).unwrap();
        let back = verified.body().unwrap().state.unwrap();
        prop_assert_eq!(back.get(), state);
    }

    #[test]
    fn truncation_is_found(cut in 0usize..400) {
        let sealed = sealed(Some("{}"));
        let cut = cut.min(sealed.bytes().len() - 1);
        prop_assert!(verify(sealed.bytes()[..cut].to_vec()).is_err());
    }
}
