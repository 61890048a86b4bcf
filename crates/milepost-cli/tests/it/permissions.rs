//! A store without read permission: it is not reported as missing, and the denied path is named.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::TestEnvironment;

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns a function that builds commands to run as an unprivileged user: the current user, or `nobody` if
/// the test runs as root. Returns `None` if the test cannot switch to `nobody`.
pub(crate) fn bound_user(env: &TestEnvironment) -> Option<impl Fn(&[&str]) -> Command> {
    let root = env.path("").metadata().unwrap().uid() == 0;
    // Copy the binary and open the test's folder, because other users may have no access to either folder.
    let binary = env.path("milepost");
    std::fs::copy(env!("CARGO_BIN_EXE_milepost"), &binary).unwrap();
    set_mode(&env.path(""), 0o755);
    let start = move |env: &TestEnvironment| match root {
        true => {
            let mut command = env.program("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
            command
        }
        false => env.program(&binary.to_string_lossy()),
    };
    let works = start(env).arg("--version").output().is_ok_and(|done| done.status.success());
    if !works {
        #[allow(clippy::print_stderr, reason = "a skipped test reports it")]
        {
            eprintln!("skipped: the test runs as root and setpriv cannot switch to another user");
        }
        return None;
    }
    let prepared = start(env);
    let (program, given) = (prepared.get_program().to_owned(), prepared.get_args().map(ToOwned::to_owned));
    let given: Vec<_> = given.collect();
    let (folder, home) = (env.project(), env.path("home"));
    Some(move |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(&given).args(args).current_dir(&folder).env_clear().env("HOME", &home);
        command
    })
}

#[test]
fn an_unreadable_store_is_not_reported_as_missing() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "one"]);
    env.save(&["--run", "r", "--summary", "one", "--store", "files:f"]);
    let Some(bound) = bound_user(&env) else { return };
    let folder = env.project().join(".milepost");
    let files = env.project().join("f");
    let database = folder.join("milepost.db");
    for (denied, denied_mode, usual_mode, store) in [
        (&folder, 0o000, 0o755, None),
        (&folder, 0o000, 0o755, Some(".milepost/milepost.db")),
        (&database, 0o000, 0o644, Some(".milepost/milepost.db")),
        (&files, 0o000, 0o755, Some("files:f")),
    ] {
        set_mode(&folder, 0o755);
        set_mode(denied, denied_mode);
        for verb in ["list", "show", "status", "verify", "doctor"] {
            let mut args = vec![verb, "--json"];
            args.extend(store.iter().flat_map(|store| ["--store", store]));
            // If the test has switched from root to `nobody`, the store belongs to another user.
            let done = bound(&args).env("MILEPOST_TRUST", env.project()).output().unwrap();
            let said = String::from_utf8(done.stderr).unwrap();
            let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
            assert_eq!(last["reason_code"], "store_unreadable", "{args:?}: {said}");
            assert_eq!((done.status.code(), &last["exit"]), (Some(1), &1.into()), "{args:?}: {said}");
            let message = last["message"].as_str().unwrap();
            let expected = format!("permission denied on {}", denied.display());
            assert!(message.contains(&expected), "{args:?}: {said}");
            assert!(last["hint"].as_str().unwrap().contains(&*denied.to_string_lossy()), "{said}");
        }
        set_mode(denied, usual_mode);
    }
}
