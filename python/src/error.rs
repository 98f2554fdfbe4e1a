//! Errors of the library as Python's: the class tells the kind, the text is the command's.

use hdse::Error;
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::{PyErr, PyResult};

/// The exception of a library error, with the whole chain of what and where.
pub fn raise(error: &Error) -> PyErr {
    let text = format!("{error:#}");
    match error {
        e if e.is_config() || e.is_data() => PyValueError::new_err(text),
        e if e.is_io() => PyOSError::new_err(text),
        e if e.is_memory() => PyMemoryError::new_err(text),
        e if e.is_interrupted() => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// The result of the library as one of Python.
pub fn check<T>(result: hdse::Result<T>) -> PyResult<T> {
    result.map_err(|e| raise(&e))
}

/// A wrong argument.
pub fn wrong(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
