//! Identifies the process that owns a run and determines whether it is alive. Takes a pid or a recorded
//! owner; returns an owner, described so that pid reuse is detected, or its liveness. Asks only the platform
//! module, and reads lock files.

pub mod lock;

use std::time::Duration;

use crate::model::Owner;
use crate::platform::{self, ProcessInfo};

/// Whether an owner is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The process is running.
    Alive,
    /// The process has ended or is a zombie, or its pid belongs to another process now.
    Dead,
    /// The process is not visible from here, and its heartbeat is recent or was never recorded.
    Unknown,
    /// The process is not visible from here, and its heartbeat is old.
    PresumedDead,
}

impl Liveness {
    /// The value in JSON output: true, false, or null for unknown.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Self::Alive => Some(true),
            Self::Dead | Self::PresumedDead => Some(false),
            Self::Unknown => None,
        }
    }
}

/// Describes a process as an owner. Returns `None` if the process does not exist.
pub fn describe(pid: u32) -> Option<Owner> {
    platform::process(pid).map(|process| describe_owner(pid, process))
}

fn describe_owner(pid: u32, process: ProcessInfo) -> Owner {
    Owner {
        pid,
        start_ticks: process.start,
        boot_id: platform::boot_id().map(str::to_owned),
        pid_namespace: platform::pid_namespace(),
        machine_id: platform::machine_id(),
        name: Some(process.name),
    }
}

/// Determines whether a recorded owner is alive. `silence` is the time since its last heartbeat, if it is known;
/// `interval` is the expected time between heartbeats.
pub fn liveness(owner: &Owner, silence: Option<Duration>, interval: Option<Duration>) -> Liveness {
    let same = |a: &Option<String>, b: Option<&str>| a.as_deref().is_some() && a.as_deref() == b;
    let same_machine = same(&owner.machine_id, platform::machine_id().as_deref());
    let same_boot = same(&owner.boot_id, platform::boot_id());
    let is_visible = if platform::IS_START_ABSOLUTE {
        // A process from inside a container or a subsystem of this machine has a boot id, and pids of its own.
        same_machine && owner.boot_id.is_none() && owner.start_ticks.is_some()
    } else {
        same_boot && same(&owner.pid_namespace, platform::pid_namespace().as_deref())
    };
    if is_visible {
        match platform::process(owner.pid) {
            None => return Liveness::Dead,
            Some(process) if process.has_ended => return Liveness::Dead,
            Some(ProcessInfo { start: Some(start), .. }) => {
                let is_other = owner.start_ticks.is_some_and(|recorded| recorded != start);
                return if is_other { Liveness::Dead } else { Liveness::Alive };
            }
            // The process may be another one with the same pid.
            Some(ProcessInfo { start: None, .. }) => {}
        }
    }
    if same_machine && owner.boot_id.is_some() && platform::boot_id().is_some() && !same_boot {
        return Liveness::Dead;
    }
    let patience = interval.map_or(Duration::ZERO, |i| i * 3).max(Duration::from_secs(300));
    match silence {
        Some(silence) if silence > patience => Liveness::PresumedDead,
        _ => Liveness::Unknown,
    }
}

/// Whether a recorded owner is the current process.
pub fn is_this_process(owner: &Owner) -> bool {
    // The name is ignored, because a process may change it.
    let same = |this: Owner| Owner { name: owner.name.clone(), ..this } == *owner;
    owner.pid == std::process::id() && describe(owner.pid).is_some_and(same)
}

/// The pid of the process that started this one; `None` if that process has ended.
pub fn parent() -> Option<u32> {
    Some(platform::parent_pid()).filter(|pid| *pid > 0)
}

/// The pids of this process's ancestors, nearest first.
pub fn ancestors() -> Vec<u32> {
    ancestor_processes().map(|(pid, _)| pid).collect()
}

/// The nearest ancestor of this process whose name is not in `names`.
pub fn nearest_ancestor_not_named(names: &[&str]) -> Option<Owner> {
    ancestor_processes().find_map(|(pid, process)| {
        let process = process.filter(|process| !names.contains(&program_name(&process.name)))?;
        Some(describe_owner(pid, process))
    })
}

/// The name of the nearest ancestor of this process that is one of these programs, started
/// directly or through an interpreter.
pub fn ancestor_named(programs: &[&str]) -> Option<String> {
    let is_one = |name: &str| programs.contains(&program_name(name));
    ancestor_processes().find_map(|(pid, process)| {
        let name = process.map(|process| process.name).filter(|name| is_one(name));
        // Check the program and, for an interpreter, its script.
        let argument = || {
            let line = platform::command_line(pid);
            line.into_iter().filter(|word| !word.starts_with('-')).take(2).find(|word| is_one(word))
        };
        name.or_else(argument)
    })
}

/// The name of a program from its path. Windows ignores case here, and its programs have an extension.
fn program_name(path: &str) -> &str {
    let separators: &[char] = if cfg!(windows) { &['/', '\\'] } else { &['/'] };
    let name = path.rsplit(separators).next().unwrap_or_default();
    if !cfg!(windows) {
        return name;
    }
    match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)) => {
            stem
        }
        _ => name,
    }
}

/// The extensions of programs and scripts on Windows.
const EXTENSIONS: [&str; 5] = ["exe", "cmd", "bat", "com", "ps1"];

/// This process's ancestors, nearest first, each read on demand. The last one may be unreadable.
fn ancestor_processes() -> impl Iterator<Item = (u32, Option<ProcessInfo>)> {
    let mut next = Some(platform::parent_pid());
    let mut seen = Vec::new();
    std::iter::from_fn(move || {
        // A pid may be reused in the meantime, so none is read twice.
        let pid = next.take().filter(|pid| *pid > 0 && !seen.contains(pid))?;
        seen.push(pid);
        let process = platform::process(pid);
        next = process.as_ref().map(|process| process.parent);
        Some((pid, process))
    })
}

/// The name of this machine, for people.
pub fn host_name() -> Option<String> {
    platform::host_name()
}

/// A stable identifier of this machine.
pub(crate) fn machine_id() -> Option<String> {
    platform::machine_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_a_recycled_pid_is_not() {
        let mut owner = describe(std::process::id()).unwrap();
        assert_eq!(liveness(&owner, None, None), Liveness::Alive);
        owner.start_ticks = owner.start_ticks.map(|t| t + 1);
        assert_eq!(liveness(&owner, None, None), Liveness::Dead);
    }

    #[test]
    fn a_killed_child_that_nobody_reaped_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let owner = describe(child.id()).unwrap();
        assert_eq!(liveness(&owner, None, None), Liveness::Alive);
        child.kill().unwrap();
        while liveness(&owner, None, None) == Liveness::Alive {
            std::thread::yield_now();
        }
        assert!(platform::process(child.id()).is_some(), "it is a zombie until it is waited for");
        assert_eq!(liveness(&owner, None, None), Liveness::Dead);
        child.wait().unwrap();
        assert_eq!(liveness(&owner, None, None), Liveness::Dead);
    }

    #[test]
    fn another_boot_of_this_machine_is_dead_and_another_machine_unknown() {
        let here = describe(std::process::id()).unwrap();
        let mut other_boot = here.clone();
        other_boot.boot_id = Some("another".into());
        assert_eq!(liveness(&other_boot, None, None), Liveness::Dead);
        let mut elsewhere = other_boot;
        elsewhere.machine_id = Some("another".into());
        assert_eq!(liveness(&elsewhere, None, None), Liveness::Unknown);
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        let interval = Some(Duration::from_secs(120));
        assert_eq!(liveness(&elsewhere, minutes(5), interval), Liveness::Unknown);
        assert_eq!(liveness(&elsewhere, minutes(7), interval), Liveness::PresumedDead);
    }

    #[test]
    fn another_pid_namespace_of_this_boot_is_unknown() {
        let mut owner = describe(std::process::id()).unwrap();
        owner.pid_namespace = Some("pid:[1]".into());
        assert_eq!(liveness(&owner, None, None), Liveness::Unknown);
    }
}
