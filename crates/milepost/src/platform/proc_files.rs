//! Linux: reads short files that the kernel provides, such as those under `/proc`. Uses a single read for each: these
//! files report no size in advance, and every system call counts in a command that runs for a millisecond.

use std::collections::HashSet;
use std::io::Read as _;
use std::sync::OnceLock;

use super::{ProcessInfo, ResidentMemory, add_memory};

/// Maximum number of bytes to read.
const READ_LIMIT: usize = 2048;

/// The start of a file; `None` if it cannot be read.
fn read_file(path: &str) -> Option<String> {
    let mut bytes = [0; READ_LIMIT];
    let read = std::fs::File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// Describes a process; `None` if it does not exist.
pub(crate) fn process(pid: u32) -> Option<ProcessInfo> {
    read_file(&format!("/proc/{pid}/stat")).and_then(|text| parse_stat(&text))
}

/// Parses `/proc/PID/stat`. The name may contain any character, so fields are counted from the last `)`.
fn parse_stat(text: &str) -> Option<ProcessInfo> {
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let rest: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
    Some(ProcessInfo {
        name: text.get(open + 1..close)?.to_owned(),
        has_ended: matches!(*rest.first()?, "Z" | "X"),
        parent: rest.get(1)?.parse().ok()?,
        start: Some(rest.get(19)?.parse().ok()?),
    })
}

/// The program and arguments of a process; empty if they cannot be read.
pub(crate) fn command_line(pid: u32) -> Vec<String> {
    let line = read_file(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split_terminator('\0').map(str::to_owned).collect()
}

/// The pid of the parent of this process.
pub(crate) fn parent_pid() -> u32 {
    std::os::unix::process::parent_id()
}

/// The memory of a process. A process that has ended has none.
pub(crate) fn resident_memory(pid: u32) -> Option<ResidentMemory> {
    // `read_file` returns only the beginning of the file, which contains the required lines.
    let status = read_file(&format!("/proc/{pid}/status"))?;
    let value = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
    };
    let rss = value("VmRSS:")?;
    Some(ResidentMemory { rss, peak: value("VmHWM:").unwrap_or(rss) })
}

/// The memory of a process and its descendants, except this process.
pub(crate) fn memory_of_tree(root: u32, with_root: bool) -> Option<ResidentMemory> {
    let (mut waiting, mut seen) = (vec![root], HashSet::from([std::process::id()]));
    let mut all = Vec::new();
    while let Some(pid) = waiting.pop() {
        let is_root = pid == root;
        if !seen.insert(pid) && !is_root {
            continue;
        }
        all.extend(resident_memory(pid).filter(|_| with_root || !is_root));
        waiting.extend(children(pid));
    }
    add_memory(all.into_iter())
}

/// The children of a process, started by any of its threads.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The id of the current boot; `None` if the system does not provide one.
pub(crate) fn boot_id() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = read_file("/proc/sys/kernel/random/boot_id")?;
        Some(text.trim().to_owned())
    })
    .as_deref()
}

/// Milliseconds since boot.
pub(crate) fn uptime_ms() -> Option<u64> {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(since_boot.tv_sec).ok()?, u64::try_from(since_boot.tv_nsec).ok()?);
    Some(seconds * 1000 + nanos / 1_000_000)
}

/// The namespace that the pids of this process belong to.
pub(crate) fn pid_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// A stable identifier of this machine.
pub(crate) fn machine_id() -> Option<String> {
    let read = |path| read_file(path).map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
    read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/hostname"))
}

/// The name of this machine, for people.
pub(crate) fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_read_from_the_last_one() {
        let text = "42 (a) b (c)) S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.has_ended, stat.parent, stat.start),
            ("a) b (c)", false, 7, Some(987_654))
        );
        assert!(parse_stat(&text.replace(") S", ") Z")).unwrap().has_ended);
    }
}
