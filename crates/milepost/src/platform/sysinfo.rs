//! macOS, Windows and others: asks the crate `sysinfo`. There is no id of the boot and no time since boot here: both
//! platforms derive them from the wall clock, which can be changed.

use std::collections::HashSet;
use std::sync::OnceLock;

use ::sysinfo::{Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use super::{ProcessInfo, ResidentMemory, add_memory};

/// The system did not answer.
struct NoAnswer;

/// Reads facts about one process; `None` if it does not exist.
fn read<T>(
    pid: u32,
    kind: ProcessRefreshKind,
    facts: impl FnOnce(&Process) -> T,
) -> Result<Option<T>, NoAnswer> {
    let mut system = System::new().map_err(|_| NoAnswer)?;
    let (pid, this) = (Pid::from_u32(pid), Pid::from_u32(std::process::id()));
    let both = [this, pid];
    // A pid that is listed twice would be removed again.
    let wanted = if pid == this { &both[..1] } else { &both[..] };
    system.refresh_processes_specifics(ProcessesToUpdate::Some(wanted), true, kind);
    // Errors are not reported. This process certainly exists.
    system.process(this).ok_or(NoAnswer)?;
    Ok(system.process(pid).map(facts))
}

/// Describes a process; `None` if it does not exist.
pub(crate) fn process(pid: u32) -> Option<ProcessInfo> {
    let kind = ProcessRefreshKind::nothing;
    let Ok(found) = read(pid, kind(), describe) else {
        return Some(hidden_process());
    };
    let Some(found) = found else {
        return is_hidden(pid).then(hidden_process);
    };
    // Windows never gives a child of an ended process another parent, and reuses the pid of that process.
    let is_older = |parent: &Process| start(parent) <= found.start;
    let has_parent = !cfg!(windows)
        || found.start.is_some() && matches!(read(found.parent, kind(), is_older), Ok(Some(true)));
    Some(ProcessInfo { parent: if has_parent { found.parent } else { 0 }, ..found })
}

/// A process that may exist, and of which nothing is known.
fn hidden_process() -> ProcessInfo {
    ProcessInfo { name: String::new(), parent: 0, start: None, has_ended: false }
}

/// Whether a process that is not listed exists nevertheless. The sandbox of an agent on macOS hides other processes, but it
/// answers a signal to one of them with "not permitted".
fn is_hidden(pid: u32) -> bool {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, test_kill_process};
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM))
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        false
    }
}

fn describe(process: &Process) -> ProcessInfo {
    ProcessInfo {
        name: process.name().to_string_lossy().into_owned(),
        parent: process.parent().map_or(0, Pid::as_u32),
        start: start(process),
        has_ended: has_ended(process),
    }
}

/// When a process started, in seconds since 1970. A start that the system did not tell is 0 or far in the future.
fn start(process: &Process) -> Option<u64> {
    const YEAR_2200: u64 = 7_258_118_400;
    Some(process.start_time()).filter(|start| (1..YEAR_2200).contains(start))
}

/// Whether only an entry in the process table is left of a process.
fn has_ended(process: &Process) -> bool {
    // On Windows, that entry stays while another process holds a handle on the process. Handles of a process that can be
    // opened, so that its start is known, can be counted unless it has ended.
    matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
        || cfg!(windows) && start(process).is_some() && process.open_files().is_none()
}

/// The program and arguments of a process; empty if they cannot be read.
pub(crate) fn command_line(pid: u32) -> Vec<String> {
    let kind = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    let words =
        |process: &Process| process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    read(pid, kind, words).ok().flatten().unwrap_or_default()
}

/// The pid of the parent of this process; 0 if it has ended.
pub(crate) fn parent_pid() -> u32 {
    #[cfg(unix)]
    return std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    return process(std::process::id()).map_or(0, |this| this.parent);
}

/// The memory of a process. These platforms report no peak.
pub(crate) fn resident_memory(pid: u32) -> Option<ResidentMemory> {
    read(pid, ProcessRefreshKind::nothing().with_memory(), memory).ok().flatten()?
}

fn memory(process: &Process) -> Option<ResidentMemory> {
    let rss = process.memory();
    (rss > 0).then_some(ResidentMemory { rss, peak: rss })
}

/// The memory of a process and its descendants, except this process.
pub(crate) fn memory_of_tree(root: u32, with_root: bool) -> Option<ResidentMemory> {
    let mut system = System::new().ok()?;
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    let (mut waiting, mut seen) = (vec![Pid::from_u32(root)], HashSet::from([std::process::id()]));
    let mut all = Vec::new();
    while let Some(pid) = waiting.pop() {
        let is_root = pid.as_u32() == root;
        if !seen.insert(pid.as_u32()) && !is_root {
            continue;
        }
        let Some(process) = system.process(pid) else { continue };
        all.extend(memory(process).filter(|_| with_root || !is_root));
        // A child that is older than its parent belongs to an ended process whose pid was reused.
        let is_child = |child: &&Process| child.parent() == Some(pid) && start(child) >= start(process);
        waiting.extend(system.processes().values().filter(is_child).map(Process::pid));
    }
    add_memory(all.into_iter())
}

pub(crate) fn boot_id() -> Option<&'static str> {
    None
}

pub(crate) fn uptime_ms() -> Option<u64> {
    None
}

/// These platforms have one space of pids.
pub(crate) fn pid_namespace() -> Option<String> {
    None
}

/// A stable identifier of this machine: the one that Windows generated when it was installed, or that of the hardware.
pub(crate) fn machine_id() -> Option<String> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    MACHINE.get_or_init(|| read_machine_id().or_else(host_name)).clone()
}

#[cfg(windows)]
fn read_machine_id() -> Option<String> {
    let key = windows_registry::LOCAL_MACHINE.open(r"SOFTWARE\Microsoft\Cryptography").ok()?;
    key.get_string("MachineGuid").ok().filter(|id| !id.is_empty())
}

#[cfg(not(windows))]
fn read_machine_id() -> Option<String> {
    ::sysinfo::Product::uuid().ok().filter(|id| !id.is_empty())
}

/// The name of this machine, for people.
pub(crate) fn host_name() -> Option<String> {
    System::host_name().ok().filter(|name| !name.is_empty())
}
