//! Calls of Python code that may last until the interpreter ends.
//!
//! When the main thread has ended the interpreter, CPython before 3.14 ends other threads where they ask for it: it
//! unwinds their stacks, and Rust aborts the process where such an unwinding comes out of its frames. PyO3 lets threads
//! of ours wait for ever instead, as later versions of CPython do, but not those inside of Python code that we call.
//! These do so here.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::lock::hold;

/// Does not let an unwinding pass that is no panic.
struct UnwindBarrier;

impl Drop for UnwindBarrier {
    fn drop(&mut self) {
        while !std::thread::panicking() {
            std::thread::park();
        }
    }
}

/// Runs `call`, which calls Python code; if the interpreter ends meanwhile, it does not return. What `call` owns may be
/// dropped without the interpreter then: it borrows Python objects where that is possible.
pub fn with_unwind_barrier<T>(call: impl FnOnce() -> T) -> T {
    let stay = UnwindBarrier;
    let done = call();
    std::mem::forget(stay);
    done
}

/// Calls of objects that may be Python code. What is given is a tuple before, which outlives the call.
pub trait CallPy<'py> {
    /// Like `call1`.
    fn call_py<A>(&self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>;

    /// Like `call_method1`.
    fn call_py_method<A>(
        &self,
        name: impl IntoPyObject<'py, Target = PyString>,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>;
}

impl<'py, T> CallPy<'py> for Bound<'py, T> {
    fn call_py<A>(&self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    {
        let arguments = arguments.into_pyobject(self.py()).map_err(Into::into)?;
        with_unwind_barrier(|| self.as_any().call1(&arguments))
    }

    fn call_py_method<A>(
        &self,
        name: impl IntoPyObject<'py, Target = PyString>,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    {
        let method = with_unwind_barrier(|| self.as_any().getattr(name))?;
        method.call_py(arguments)
    }
}

/// Calls a function of the package.
pub fn call_function<'py, A, E>(
    py: Python<'py>,
    module: &str,
    function: &str,
    arguments: A,
) -> Result<Bound<'py, PyAny>, E>
where
    E: From<PyErr>,
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
{
    Ok(py.import(module)?.getattr(function)?.call_py(arguments)?)
}

/// Like [`Python::attach`], for work that may call Python code, in code that other libraries may call back.
#[expect(clippy::disallowed_methods, reason = "the thread holds the lock")]
pub fn attach<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    hold(|| Python::attach(|py| with_unwind_barrier(|| work(py))))
}

/// Like [`arrowwood::guard`], for work that may call Python code.
pub fn guard<T, E: From<arrowwood::mapping::Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // Restores the reserve of memory, if a call before has spent it.
    arrowwood::mapping::ReserveAllocator::fill();
    with_unwind_barrier(|| arrowwood::guard(work))
}
