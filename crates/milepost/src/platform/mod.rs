//! What the operating system knows: processes, their memory, the boot, and this machine. Takes a pid; returns facts, or
//! nothing where the system does not tell. One file per source of these facts: `/proc` on Linux, the crate `sysinfo`
//! elsewhere. Must not decide anything: whether an owner is alive is decided in `crate::owner`.

#[cfg(target_os = "linux")]
mod proc_files;
#[cfg(not(target_os = "linux"))]
mod sysinfo;

#[cfg(target_os = "linux")]
pub(crate) use self::proc_files::{
    boot_id, command_line, host_name, machine_id, memory_of_tree, parent_pid, pid_namespace, process,
    resident_memory, uptime_ms,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use self::sysinfo::{
    boot_id, command_line, host_name, machine_id, memory_of_tree, parent_pid, pid_namespace, process,
    resident_memory, uptime_ms,
};

/// Whether the start of a process is a wall time, which no later boot repeats, instead of a time since boot.
pub(crate) const IS_START_ABSOLUTE: bool = cfg!(not(target_os = "linux"));

/// A process that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessInfo {
    /// The name of its program.
    pub name: String,
    /// The pid of its parent; 0 if it has none, or if that parent has ended.
    pub parent: u32,
    /// When it started: clock ticks since boot on Linux, seconds since 1970 elsewhere. `None` if the system does not
    /// tell, such as for some processes of other users.
    pub start: Option<u64>,
    /// Whether it has ended, and only its entry in the process table remains.
    pub has_ended: bool,
}

/// Current resident bytes, and a lower bound of the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    pub rss: u64,
    pub peak: u64,
}

/// Adds the memory of processes. The peak is at least as large as any single process's peak, and as the sum.
fn add_memory(all: impl Iterator<Item = ResidentMemory>) -> Option<ResidentMemory> {
    let sum = |a: ResidentMemory, b: ResidentMemory| ResidentMemory {
        rss: a.rss + b.rss,
        peak: a.peak.max(b.peak),
    };
    all.reduce(sum).map(|used| ResidentMemory { peak: used.peak.max(used.rss), ..used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_parent_a_start_and_memory() {
        let pid = std::process::id();
        let this = process(pid).unwrap();
        assert!(!this.has_ended && !this.name.is_empty() && this.start.is_some(), "{this:?}");
        assert_eq!(this, process(pid).unwrap());
        assert_eq!(this.parent, parent_pid());
        assert!(process(this.parent).is_some());
        assert!(command_line(pid)[0].contains("milepost"), "{:?}", command_line(pid));
        let used = resident_memory(pid).unwrap();
        assert!(used.rss > 0 && used.peak >= used.rss, "{used:?}");
        assert!(machine_id().is_some());
    }

    #[test]
    fn a_process_that_does_not_exist_is_nothing() {
        let pid = 4_000_000_000;
        assert_eq!((process(pid), resident_memory(pid), memory_of_tree(pid, true)), (None, None, None));
        assert!(command_line(pid).is_empty());
    }

    #[test]
    fn the_memory_of_a_tree_is_a_sum_with_at_least_the_largest_peak() {
        let memory = |rss, peak| ResidentMemory { rss, peak };
        assert_eq!(add_memory([].into_iter()), None);
        assert_eq!(add_memory([memory(1, 9), memory(2, 3)].into_iter()), Some(memory(3, 9)));
        assert_eq!(add_memory([memory(4, 5), memory(4, 4)].into_iter()), Some(memory(8, 8)));
    }
}
