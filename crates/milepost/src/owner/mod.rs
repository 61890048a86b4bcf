//! Identifies the process that owns a run and determines whether it is alive. Takes a pid or a recorded
//! owner; returns an owner, described so that pid reuse is detected, or its liveness. Reads only `/proc`,
//! the machine id and lock files.

pub mod lock;

use std::time::Duration;

use crate::clock;
use crate::fs::proc;
use crate::model::Owner;

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
    let stat = read_stat(pid);
    if cfg!(target_os = "linux") && stat.is_none() {
        return None;
    }
    Some(describe_owner(pid, stat))
}

fn describe_owner(pid: u32, stat: Option<Stat>) -> Owner {
    Owner {
        pid,
        start_ticks: stat.as_ref().map(|s| s.start_ticks),
        boot_id: clock::boot_id().map(str::to_owned),
        pid_namespace: pid_namespace(),
        machine_id: machine_id(),
        name: stat.map(|s| s.name),
    }
}

/// Determines whether a recorded owner is alive. `silence` is the time since its last heartbeat, if it is known;
/// `interval` is the expected time between heartbeats.
pub fn liveness(owner: &Owner, silence: Option<Duration>, interval: Option<Duration>) -> Liveness {
    let same = |a: &Option<String>, b: Option<&str>| a.as_deref().is_some() && a.as_deref() == b;
    let same_machine = same(&owner.machine_id, machine_id().as_deref());
    let same_boot = same(&owner.boot_id, clock::boot_id());
    if same_boot && same(&owner.pid_namespace, pid_namespace().as_deref()) {
        return match read_stat(owner.pid) {
            Some(stat) if stat.state == 'Z' || stat.state == 'X' => Liveness::Dead,
            Some(stat) if owner.start_ticks.is_some_and(|ticks| ticks != stat.start_ticks) => Liveness::Dead,
            Some(_) => Liveness::Alive,
            None => Liveness::Dead,
        };
    }
    if same_machine && owner.boot_id.is_some() && clock::boot_id().is_some() && !same_boot {
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

/// The pids of this process's ancestors, nearest first.
pub fn ancestors() -> Vec<u32> {
    ancestor_stats().map(|(pid, _)| pid).collect()
}

/// The nearest ancestor of this process whose name is not in `names`.
pub fn nearest_ancestor_not_named(names: &[&str]) -> Option<Owner> {
    let other = |stat: &Stat| !names.contains(&stat.name.as_str());
    let (pid, stat) = ancestor_stats().find(|(_, stat)| stat.as_ref().is_some_and(other))?;
    Some(describe_owner(pid, stat))
}

/// The name of the nearest ancestor of this process that is one of these programs, started
/// directly or through an interpreter.
pub fn ancestor_named(programs: &[&str]) -> Option<String> {
    let is_one = |name: &str| programs.contains(&name.rsplit('/').next().unwrap_or_default());
    ancestor_stats().find_map(|(pid, stat)| {
        let name = stat.map(|stat| stat.name).filter(|name| is_one(name));
        let line = || proc::read_file(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Check the program and, for an interpreter, its script.
        let program = |line: &str| -> Option<String> {
            let arguments = line.split('\0').filter(|text| !text.starts_with('-')).take(2);
            arguments.into_iter().find(|argument| is_one(argument)).map(str::to_owned)
        };
        name.or_else(|| program(&line()))
    })
}

/// This process's ancestors, nearest first, each read on demand. The last one may be unreadable.
fn ancestor_stats() -> impl Iterator<Item = (u32, Option<Stat>)> {
    let mut next = Some(parent());
    let mut seen = Vec::new();
    std::iter::from_fn(move || {
        // A pid may be reused in the meantime, so none is read twice.
        let pid = next.take().filter(|pid| *pid > 0 && !seen.contains(pid))?;
        seen.push(pid);
        let stat = read_stat(pid);
        next = stat.as_ref().map(|stat| stat.parent);
        Some((pid, stat))
    })
}

fn parent() -> u32 {
    #[cfg(unix)]
    return std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    return 0;
}

struct Stat {
    name: String,
    state: char,
    parent: u32,
    start_ticks: u64,
}

fn read_stat(pid: u32) -> Option<Stat> {
    proc::read_file(&format!("/proc/{pid}/stat")).and_then(|text| parse_stat(&text))
}

/// Parses `/proc/PID/stat`. The name may contain any character, so fields are counted from the last `)`.
fn parse_stat(text: &str) -> Option<Stat> {
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let rest: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
    Some(Stat {
        name: text.get(open + 1..close)?.to_owned(),
        state: rest.first()?.chars().next()?,
        parent: rest.get(1)?.parse().ok()?,
        start_ticks: rest.get(19)?.parse().ok()?,
    })
}

fn pid_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// The name of this machine, for people.
pub fn host_name() -> Option<String> {
    #[cfg(unix)]
    {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        (!name.is_empty()).then_some(name)
    }
    #[cfg(not(unix))]
    None
}

/// A stable identifier of this machine.
pub(crate) fn machine_id() -> Option<String> {
    let read = |path| proc::read_file(path).map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
    read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/hostname"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_read_from_the_last_one() {
        let text = "42 (a) b (c)) S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.state, stat.parent, stat.start_ticks),
            ("a) b (c)", 'S', 7, 987_654)
        );
    }

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
        assert!(read_stat(child.id()).is_some(), "it is a zombie until it is waited for");
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
