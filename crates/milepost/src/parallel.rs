//! Applies a function to many items with several threads. Takes items and returns the results in the same order.
//! Does not use threads for a small number of items.

use std::sync::OnceLock;
use std::thread;

/// Maximum number of threads.
const MAX_THREADS: usize = 4;
/// Fewer items are processed by the current thread alone: starting a thread takes as long as reading some files.
const MIN_ITEMS: usize = 32;

/// Calls `f` for each item. The current thread does its share, and all of the work if no thread can be started.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let one_by_one = |part: &[T]| part.iter().map(&f).collect::<Vec<R>>();
    if items.len() < MIN_ITEMS || thread_count() < 2 {
        return one_by_one(items);
    }
    let (own, others) = items.split_at(items.len().div_ceil(thread_count()));
    thread::scope(|scope| {
        let parts = others.chunks(own.len());
        let workers: Vec<_> = parts
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, move || one_by_one(part)).ok()))
            .collect();
        let mut results = one_by_one(own);
        for (part, worker) in workers {
            match worker.map(thread::ScopedJoinHandle::join) {
                Some(Ok(done)) => results.extend(done),
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => results.extend(one_by_one(part)),
            }
        }
        results
    })
}

/// Finding this number out reads several files, so it is done once.
fn thread_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        for count in [0, 1, 2, MIN_ITEMS - 1, MIN_ITEMS, MIN_ITEMS + 1, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|n| n * 2).collect();
            assert_eq!(map(&items, |n| n * 2), doubled, "{count}");
        }
    }

    #[test]
    #[should_panic(expected = "item 99")]
    fn a_panic_reaches_the_caller() {
        let items: Vec<usize> = (0..100).collect();
        map(&items, |n| assert_ne!(*n, 99, "item 99"));
    }
}
