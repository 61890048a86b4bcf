//! Configuration files: any text is read or refused with a message that names the problem. The input is the project's
//! file and the user's.

use milepost_cli::internal::load_settings;

use crate::scratch;

pub(super) fn run(data: &[u8]) {
    let folder = scratch::folder();
    let file = |name: &str| folder.path().join(name);
    assert!(scratch::write(&file("milepost.toml"), data));
    assert!(scratch::write(&file("user.toml"), data));
    let before = scratch::read_files(folder.path());
    for user_file in [None, Some(file("user.toml"))] {
        match load_settings(folder.path(), user_file) {
            Ok(settings) => assert!(settings.iter().all(|(key, _)| !key.is_empty())),
            Err(message) => assert!(!message.is_empty()),
        }
    }
    assert_eq!(scratch::read_files(folder.path()), before, "loading settings changed a file");
}
