//! Measures memory. In: a process, or the root of a tree of processes. Out: resident memory now and at its peak, as /proc
//! reports it; nothing where there is no /proc.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::fs::proc;
use crate::model::MemoryUsage;

/// Whose memory counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Process {
    /// Nobody's.
    #[default]
    None,
    /// The owner of the run that the capture is for: the engine finds it in the run's record.
    Owner,
    /// This process: the host of the library. What it knows of its heap can be given along.
    Host {
        /// Heap in use, where the host knows it.
        heap_used: Option<u64>,
    },
    /// A process and all that it has started, but for this process.
    Tree {
        /// The root.
        pid: u32,
        /// Whether the root itself counts, or only what it has started.
        with_root: bool,
    },
    /// A watched tree, with the most it ever used; it may have ended.
    Watched(Arc<PeakWatch>),
}

/// Memory as it is now.
pub(super) fn measure(process: &Process) -> Option<MemoryUsage> {
    let memory = |rss: Option<u64>, peak: Option<u64>| {
        (rss.is_some() || peak.is_some()).then(|| MemoryUsage {
            rss,
            peak_rss: peak.max(rss),
            ..MemoryUsage::default()
        })
    };
    match process {
        Process::None | Process::Owner => None,
        Process::Host { heap_used } => {
            let used = resident_memory(std::process::id())?;
            Some(MemoryUsage { heap_used: *heap_used, ..memory(Some(used.rss), Some(used.peak))? })
        }
        Process::Tree { pid, with_root } => {
            let used = resident_memory_of_tree(*pid, *with_root)?;
            memory(Some(used.rss), Some(used.peak))
        }
        Process::Watched(watch) => {
            let now = watch.sample();
            memory(now, Some(watch.peak()).filter(|peak| *peak > 0))
        }
    }
}

/// Resident bytes now, and the most that is known for sure.
#[derive(Debug, Clone, Copy, Default)]
struct ResidentMemory {
    rss: u64,
    peak: u64,
}

fn resident_memory(pid: u32) -> Option<ResidentMemory> {
    // What is asked for stands in its first half.
    let status = proc::read_file(&format!("/proc/{pid}/status"))?;
    let value = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
    };
    // A process that has ended and was not waited for has no memory.
    let rss = value("VmRSS:")?;
    Some(ResidentMemory { rss, peak: value("VmHWM:").unwrap_or(rss) })
}

/// Of all processes of a tree; the peak is at least that of the largest one.
fn resident_memory_of_tree(root: u32, with_root: bool) -> Option<ResidentMemory> {
    let (mut waiting, mut seen) = (vec![root], HashSet::from([std::process::id()]));
    let mut total: Option<ResidentMemory> = None;
    while let Some(pid) = waiting.pop() {
        let is_root = pid == root;
        if !seen.insert(pid) && !is_root {
            continue;
        }
        if let Some(used) = resident_memory(pid).filter(|_| with_root || !is_root) {
            let total = total.get_or_insert_default();
            total.rss += used.rss;
            total.peak = total.peak.max(used.peak);
        }
        waiting.extend(children(pid));
    }
    total.map(|used| ResidentMemory { peak: used.peak.max(used.rss), ..used })
}

/// The processes that a process has started, by any of its threads.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Watches how much a tree of processes uses, often at first and ever more seldom, so that a short command is seen at all
/// and a long one costs nothing.
#[derive(Debug)]
pub struct PeakWatch {
    pid: u32,
    peak: AtomicU64,
    ended: Mutex<bool>,
    changed: Condvar,
}

const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(5);

impl PeakWatch {
    /// Watches a process and all that it starts, until told to end.
    pub fn start(pid: u32) -> Arc<Self> {
        let watch = Arc::new(Self {
            pid,
            peak: AtomicU64::new(0),
            ended: Mutex::new(false),
            changed: Condvar::new(),
        });
        let inside = watch.clone();
        let thread = std::thread::Builder::new().name("milepost-memory".into()).stack_size(256 << 10);
        // Without a thread there is still what captures see.
        let _ = thread.spawn(move || inside.sample_until_stopped());
        watch
    }

    fn sample_until_stopped(&self) {
        let mut pause = FIRST_INTERVAL;
        let mut ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
        while !*ended {
            // A process that has only just begun has no memory of its own yet.
            ended = self.changed.wait_timeout(ended, pause).unwrap_or_else(|e| e.into_inner()).0;
            if !*ended {
                drop(ended);
                self.sample();
                ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
            }
            pause = (pause * 2).min(MAX_INTERVAL);
        }
    }

    /// Looks now; `None` where nothing of it runs.
    fn sample(&self) -> Option<u64> {
        let used = resident_memory_of_tree(self.pid, true)?;
        self.peak.fetch_max(used.peak, Ordering::Relaxed);
        Some(used.rss)
    }

    /// The most that was seen; 0 for nothing.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Ends the watch; what it saw stays.
    pub fn stop(&self) {
        *self.ended.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.changed.notify_all();
    }
}

impl PartialEq for PeakWatch {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl Eq for PeakWatch {}
