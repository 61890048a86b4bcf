//! Checkpoint documents and drafts: strict JSON is JSON, a draft and a sealed document survive a round trip, and a
//! document that was changed is never accepted.

use milepost::internal::model::{Draft, JsonPath, RawObject};
use milepost::internal::seal::{self, Unsealed, strict};
use milepost::model::Body;
use milepost::store::Slot;

pub(super) fn run(data: &[u8]) {
    verify_document(data);
    let Ok(text) = strict::check(data) else { return };
    serde_json::from_slice::<serde_json::Value>(data).expect("strict JSON is JSON");
    let Ok(mut fields) = RawObject::parse(text, &JsonPath::Root) else { return };
    if let Ok(draft) = Draft::from_object(fields.clone()) {
        // Unknown members are sorted when they are written.
        let write = |draft: &Draft| draft.to_object().expect("a draft can be written");
        let again = Draft::from_object(write(&draft)).expect("a written draft can be read");
        assert_eq!(write(&again), write(&draft), "a draft changes when it is written and read");
    }
    // The seal is no member of a body.
    fields.take("integrity");
    if let Ok(body) = Body::from_object(fields) {
        seal_body(body);
    }
}

/// Seals a body, and checks that the document contains it.
fn seal_body(body: Body) {
    let state_given = body.state.is_some();
    let unsealed = Unsealed::new(body, state_given).expect("a body can be sealed");
    let sealed = seal::seal(unsealed, &Slot::issue(7, 70)).expect("a body can be sealed");
    let verified = seal::verify(sealed.bytes().to_vec()).expect("a sealed document can be verified");
    verified.matches(sealed.header()).expect("a header describes its document");
    let again = verified.body().expect("a sealed document can be read");
    assert_eq!(again.sequence, 7);
    let unsealed = Unsealed::new(again, state_given).expect("a body that was read can be sealed");
    let resealed = seal::seal(unsealed, &Slot::issue(7, 70)).expect("a body that was read can be sealed");
    let is_same = resealed.bytes() == sealed.bytes();
    assert!(is_same, "a document changes when it is read and sealed again");
    refuse_changes(sealed.bytes());
}

fn verify_document(data: &[u8]) {
    let Ok(verified) = seal::verify(data.to_vec()) else { return };
    refuse_changes(data);
    if verified.body().is_err() {
        return;
    }
    let sealed = verified.into_sealed(&Slot::issue(7, 70)).expect("a document with a body has a header");
    assert!(sealed.bytes() == data, "a stored document is rewritten");
    let again = seal::verify(sealed.bytes().to_vec()).expect("the same document can be verified again");
    again.matches(sealed.header()).expect("a header describes its document");
}

/// Changes some bytes of a sealed document. None of the changes may be accepted.
fn refuse_changes(document: &[u8]) {
    let step = (document.len() / 16).max(1);
    let tail = document.len().saturating_sub(8)..document.len();
    for at in (0..document.len()).step_by(step).chain(tail) {
        let mut changed = document.to_vec();
        changed[at] ^= 1;
        assert!(seal::verify(changed).is_err(), "the document was accepted with byte {at} changed");
        let mut shorter = document.to_vec();
        shorter.remove(at);
        assert!(shorter == document || seal::verify(shorter).is_err(), "accepted without byte {at}");
    }
}
