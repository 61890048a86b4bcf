//! Tests of capture limits, the store's own files, process memory and symbolic links.

use std::process::{Command, Stdio};

use super::*;

fn paths(names: &[&str]) -> Vec<PathText> {
    names.iter().map(|name| PathText::Text((*name).into())).collect()
}

#[test]
fn a_path_is_told_from_the_projects_root() {
    for (root, path, told) in
        [("/a/b", "/a/b/c/d", "c/d"), ("/a/b", "/a/x", "../x"), ("/a/b", "/", "../.."), ("/", "/x", "x")]
    {
        assert_eq!(relative_path(Path::new(root), Path::new(path)), Path::new(told), "{root} {path}");
    }
}

#[test]
fn the_stores_own_files_are_no_work() {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::fs::canonicalize(dir.path()).unwrap();
    let own = StorePaths::of(Some(&StoreUrl::sqlite(root.join("m.db"))));
    for (name, holds) in [
        ("m.db", true),
        ("m.db-wal", true),
        ("m.db-owners/r.lock", true),
        ("m.db-blobs/ab/x", true),
        ("m.dbx", false),
        ("sub/m.db", false),
        ("a.rs", false),
        (".milepost/outbox/x.json", true),
    ] {
        assert_eq!(own.contains(&root.join(name)), holds, "{name}");
    }
    let own = StorePaths::of(Some(&StoreUrl::files(root.join("kept"))));
    assert!(own.contains(&root.join("kept/r/latest.json")) && !own.contains(&root.join("keptness")));
    assert!(!StorePaths::of(None).contains(&root.join("m.db")));
}

#[test]
fn what_does_not_fit_is_said() {
    let mut capture = WorkspaceCapture::default();
    capture.git.modified = paths(&["a", "b"]);
    capture.git.untracked = paths(&["c", "d"]);
    capture.watched.files = paths(&["w"]);
    capture.watched.sizes.insert("w".into(), 1);
    let room = |paths, bytes| {
        capture.to_workspace(
            &[PathText::Text("before".into())],
            None,
            &CaptureLimits { paths, bytes, ..CaptureLimits::default() },
        )
    };
    let whole = room(100, 1000);
    assert_eq!(whole.files_modified, paths(&["a", "b", "before", "c", "d"]));
    assert!(whole.skipped.is_empty() && whole.memory.is_none());
    let few = room(2, 1000);
    assert_eq!((few.files_modified, few.skipped.len()), (paths(&["a", "b"]), 1));
    let small = room(100, 12);
    let git = small.git.unwrap();
    assert_eq!((git.modified.len(), git.untracked.len(), small.files_modified.len()), (2, 1, 0));
    assert!(small.watched.unwrap().sizes.is_empty());
    assert_eq!(small.skipped.len(), 3, "{:?}", small.skipped);
}

#[test]
fn a_peak_is_never_forgotten() {
    let mut capture = WorkspaceCapture {
        memory: Some(MemoryUsage { rss: Some(5), ..MemoryUsage::default() }),
        ..WorkspaceCapture::default()
    };
    let peak = |capture: &WorkspaceCapture, before| {
        capture.to_workspace(&[], before, &CaptureLimits::default()).memory.unwrap().peak_rss
    };
    assert_eq!(peak(&capture, Some(9)), Some(9));
    capture.memory = None;
    assert_eq!(peak(&capture, Some(9)), Some(9));
}

#[test]
fn memory_of_a_tree_counts_all_of_it() {
    // A shell and its children: together they use more memory than the children alone.
    let mut child =
        Command::new("sh").args(["-c", "sleep 30 & sleep 30; :"]).stderr(Stdio::null()).spawn().unwrap();
    let tree = Process::Tree { pid: child.id(), with_root: true };
    let below = Process::Tree { pid: child.id(), with_root: false };
    let watch = PeakWatch::start(child.id());
    let start = Instant::now();
    let rss = |process: &Process| memory::measure(process).and_then(|memory| memory.rss).unwrap_or_default();
    while rss(&below) == 0 || rss(&below) >= rss(&tree) || watch.peak() == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} {} {}", rss(&below), rss(&tree), watch.peak());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Kill the shell's children, so that the shell exits and no process remains.
    for pid in std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()))
        .unwrap()
        .split_whitespace()
    {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    child.wait().unwrap();
    watch.stop();
    assert_eq!(memory::measure(&tree), None);
    let after = memory::measure(&Process::Watched(watch)).unwrap();
    assert_eq!(after.rss, None);
    assert!(after.peak_rss.unwrap() > 0);
    assert_eq!(memory::measure(&Process::None), None);
}

#[test]
fn time_that_is_up_leaves_the_rest_unlisted() {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::fs::canonicalize(dir.path()).unwrap();
    std::fs::create_dir(root.join(DEFAULT_WATCHED_FOLDER)).unwrap();
    std::fs::File::create(root.join(DEFAULT_WATCHED_FOLDER).join("a")).unwrap();
    let folders = watched_folders::watched_folders(&root, &CaptureOptions::at(&root));
    let (watched, _) = watched_folders::list_files(
        &root,
        &folders,
        &StorePaths::of(None),
        &CaptureLimits::default(),
        Instant::now(),
    );
    assert!(watched.files.is_empty() && watched.error.unwrap().contains("too long"));
    let one = CaptureLimits { paths: 0, ..CaptureLimits::default() };
    let (watched, skipped) =
        watched_folders::list_files(&root, &folders, &StorePaths::of(None), &one, Instant::now() + one.time);
    assert!(watched.files.is_empty() && skipped == ["watched: 1 more files not listed"]);
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_of_the_project_are_not_followed() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let base = crate::fs::canonicalize(dir.path()).unwrap();
    let root = base.join("project");
    for folder in ["project/docs", "project/own", "outside/deep"] {
        std::fs::create_dir_all(base.join(folder)).unwrap();
    }
    for file in ["project/own/mine", "outside/secret", "outside/deep/er"] {
        std::fs::File::create(base.join(file)).unwrap();
    }
    symlink("../outside", root.join(DEFAULT_WATCHED_FOLDER)).unwrap();
    symlink("../../outside", root.join("docs/folder")).unwrap();
    symlink("../../outside/secret", root.join("docs/file")).unwrap();
    symlink("../own", root.join("docs/own")).unwrap();
    symlink("deep/er", base.join("outside/inner")).unwrap();
    symlink("../project/own/mine", base.join("outside/back")).unwrap();
    let listed = |watch: &[&Path]| {
        let scope = CaptureOptions {
            watch: watch.iter().map(|path| path.to_path_buf()).collect(),
            ..CaptureOptions::at(&root)
        };
        let folders = watched_folders::watched_folders(&root, &scope);
        let bounds = CaptureLimits::default();
        let (watched, skipped) = watched_folders::list_files(
            &root,
            &folders,
            &StorePaths::of(None),
            &bounds,
            Instant::now() + bounds.time,
        );
        (watched.files, skipped)
    };
    let out = |name: &str| format!("watched: {name}: points outside the project");
    let (files, skipped) = listed(&[Path::new("docs"), Path::new(DEFAULT_WATCHED_FOLDER)]);
    assert_eq!(files, paths(&["docs/own/mine"]));
    assert_eq!(skipped, [out(".aiwg"), out("docs/file"), out("docs/folder")]);
    // A folder that is configured with a path outside the project is listed, with its own symbolic links.
    for asked in [Path::new("../outside"), &base.join("outside")] {
        let (files, _) = listed(&[asked]);
        let expected = ["back", "deep/er", "inner", "secret"].map(|name| format!("../outside/{name}"));
        assert_eq!(files, paths(&expected.each_ref().map(String::as_str)));
    }
}
