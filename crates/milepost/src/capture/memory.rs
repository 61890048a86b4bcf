//! Measures memory. Takes a process or the root of a process tree, and returns its current and peak resident
//! memory, as far as the platform tells.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::model::MemoryUsage;
use crate::platform::{memory_of_tree, resident_memory};

/// The processes whose memory is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Process {
    /// No process.
    #[default]
    None,
    /// The owner of the captured run. The engine finds it in the run's record.
    Owner,
    /// This process, which hosts the library. It can add its heap usage.
    Host {
        /// Heap in use, if the host knows it.
        heap_used: Option<u64>,
    },
    /// A process and all its descendants, except this process.
    Tree {
        /// The root process.
        pid: u32,
        /// Whether the root itself is included, or only its descendants.
        with_root: bool,
    },
    /// A watched process tree with its peak. The tree may have ended.
    Watched(Arc<PeakWatch>),
}

/// Measures the current memory.
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
            let used = memory_of_tree(*pid, *with_root)?;
            memory(Some(used.rss), Some(used.peak))
        }
        Process::Watched(watch) => {
            let now = watch.sample();
            memory(now, Some(watch.peak()).filter(|peak| *peak > 0))
        }
    }
}

/// Samples the memory of a process tree: often at first, to measure short commands, then less and less often,
/// to keep the cost for long ones low.
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
    /// Watches a process and its descendants until [`stop`](Self::stop) is called.
    pub fn start(pid: u32) -> Arc<Self> {
        let watch = Arc::new(Self {
            pid,
            peak: AtomicU64::new(0),
            ended: Mutex::new(false),
            changed: Condvar::new(),
        });
        let inside = watch.clone();
        let thread = std::thread::Builder::new().name("milepost-memory".into()).stack_size(256 << 10);
        // Without the thread, captures still take samples.
        let _ = thread.spawn(move || inside.sample_until_stopped());
        watch
    }

    fn sample_until_stopped(&self) {
        let mut pause = FIRST_INTERVAL;
        let mut ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
        while !*ended {
            // Wait before the first sample: a process that has just started has no memory of its own yet.
            ended = self.changed.wait_timeout(ended, pause).unwrap_or_else(|e| e.into_inner()).0;
            if !*ended {
                drop(ended);
                self.sample();
                ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
            }
            pause = (pause * 2).min(MAX_INTERVAL);
        }
    }

    /// Takes a sample; `None` if no process of the tree is running.
    fn sample(&self) -> Option<u64> {
        let used = memory_of_tree(self.pid, true)?;
        self.peak.fetch_max(used.peak, Ordering::Relaxed);
        Some(used.rss)
    }

    /// The highest sample; 0 if there is none.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Stops watching. The peak remains available.
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
