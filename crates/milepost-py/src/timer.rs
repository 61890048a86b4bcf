//! Timers that call Python: a provider of the state, and a callback for errors. Their thread must never use an
//! interpreter that is shutting down, so callbacks end before it does.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use milepost::SaveTimer;
use milepost::internal::trigger::{Timer, TimerError};
use pyo3::prelude::*;

use crate::error::{OrRaise as _, exception};
use crate::gate;
use crate::handle::Handle;
use crate::json::{encode_state, raw};
use crate::run::LastState;

/// Whether the interpreter is shutting down.
static IS_SHUT: AtomicBool = AtomicBool::new(false);
/// The number of callbacks that run, and the process that they run in.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Maximum time that the end of the program waits for a callback.
const PATIENCE: Duration = Duration::from_secs(2);

/// Calls Python from a thread of this module. Returns `None` if the interpreter is shutting down.
fn call<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }
    }
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let _running = Running;
    if IS_SHUT.load(Ordering::SeqCst) { None } else { Python::try_attach(work) }
}

/// Lets no callback begin any more, and waits for a short time until those that run have ended. Python calls this before
/// the interpreter shuts down.
#[pyfunction]
pub(crate) fn stop_callbacks(py: Python<'_>) {
    IS_SHUT.store(true, Ordering::SeqCst);
    py.detach(|| {
        let start = Instant::now();
        // In a process that a fork created, no callback of the parent runs.
        while RUNNING.load(Ordering::SeqCst) > 0
            && PROCESS.load(Ordering::SeqCst) == std::process::id()
            && start.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

/// The options of a timer.
#[derive(FromPyObject)]
pub(crate) struct TimerOptions {
    #[pyo3(item)]
    pub(crate) interval: f64,
    #[pyo3(item)]
    provider: Option<Py<PyAny>>,
    #[pyo3(item)]
    on_error: Option<Py<PyAny>>,
}

/// A running timer.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct TimerHandle {
    timer: Handle<Arc<Timer>>,
}

impl TimerHandle {
    pub(crate) fn start(
        mut timer: SaveTimer,
        interval: Duration,
        options: TimerOptions,
        state: LastState,
    ) -> PyResult<Self> {
        // The exception of the provider, as the cause of the error that the callback gets.
        let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
        if let Some(provider) = options.provider {
            let raised = raised.clone();
            timer = timer.provider(move || {
                let given = call(|py| {
                    let value = provider.bind(py).call0().and_then(|value| encode_state(&value));
                    value.and_then(|text| raw(&text)).map_err(|error| {
                        let text = describe(py, &error);
                        *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        text
                    })
                });
                let value = given.unwrap_or_else(|| Err("the interpreter is shutting down".to_owned()))?;
                *state.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.get().to_owned());
                Ok::<_, String>(value)
            });
        }
        if let Some(callback) = options.on_error {
            timer = timer.on_error(move |error| {
                // Without an interpreter, the event in the store is the only report.
                let _ = call(|py| {
                    let exception = exception(error);
                    exception.set_cause(py, raised.lock().unwrap_or_else(PoisonError::into_inner).take());
                    let callback = callback.bind(py);
                    if let Err(error) = callback.call1((exception.value(py),)) {
                        error.write_unraisable(py, Some(callback));
                    }
                });
            });
        }
        let tick = move || {
            let _entered = gate::enter();
            timer.tick();
        };
        let started = Timer::every(interval, tick).map_err(|error: TimerError| milepost::Error::from(error));
        Ok(Self { timer: Handle::new("the timer", Arc::new(started.or_raise()?)) })
    }
}

/// The class and the message of an exception.
fn describe(py: Python<'_>, error: &PyErr) -> String {
    let class = error.get_type(py);
    let name = class.name().map(|name| name.to_string()).unwrap_or_default();
    format!("{name}: {}", error.value(py))
}

#[pymethods]
impl TimerHandle {
    /// Stops the timer and waits for a tick in progress.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if self.timer.is_forked() || self.timer.is_closed() {
            return Ok(());
        }
        let timer = self.timer.get()?;
        py.detach(|| timer.stop());
        self.cancel();
        Ok(())
    }

    /// Stops the timer without waiting.
    fn cancel(&self) {
        if !self.timer.is_forked() {
            drop(self.timer.try_take());
        }
    }

    #[getter]
    fn is_running(&self) -> bool {
        !self.timer.is_forked() && !self.timer.is_closed()
    }
}
