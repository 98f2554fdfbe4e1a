//! `x[i]` and `x[i:j]` of objects that are sequences.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};
use pyo3::{IntoPyObject, IntoPyObjectExt};

/// The item that `key` asks for among `length`, or the list of them; `make` makes one.
pub fn item<'py, T: IntoPyObject<'py>>(
    key: &Bound<'py, PyAny>,
    length: usize,
    make: impl Fn(usize) -> T,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, length) = (key.py(), length as isize);
    if let Ok(slice) = key.cast::<PySlice>() {
        let range = slice.indices(length)?;
        let indices = (0..range.slicelength as isize).map(|k| range.start + k * range.step);
        let items: Vec<T> = indices.map(|i| make(i as usize)).collect();
        return Ok(PyList::new(py, items)?.into_any());
    }
    let index: isize = key.extract()?;
    let i = if index < 0 { index + length } else { index };
    if !(0..length).contains(&i) {
        return Err(PyIndexError::new_err(format!("graph {index} of {length}")));
    }
    make(i as usize).into_bound_py_any(py)
}
