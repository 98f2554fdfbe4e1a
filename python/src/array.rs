//! numpy arrays over memory of the library, without a copy.

use numpy::ndarray::{ArrayView, Dimension, IntoDimension};
use numpy::{Element, PyArray};
use pyo3::prelude::*;

/// A read-only array over `slice`, which lies in `owner`.
///
/// `owner` must be a frozen object that never moves or changes the memory: all classes of this crate
/// fill their cells once.
pub fn view<'py, T: Element, S: IntoDimension>(
    slice: &[T],
    shape: S,
    owner: &Bound<'py, impl Sized>,
) -> Bound<'py, PyAny>
where
    S::Dim: Dimension,
{
    let array = ArrayView::from_shape(shape.into_dimension(), slice).expect("a shape that fits");
    // SAFETY: the array keeps `owner` alive, and with it the memory, which nobody writes to.
    let array = unsafe { PyArray::borrow_from_array(&array, owner.as_any().clone()) };
    // By numpy's own method: the crate's bookkeeping of borrows would fail while another thread reads the same memory.
    array.call_method1("setflags", (false,)).expect("every array has flags");
    array.into_any()
}

/// An array of its own, writable, that takes over `values`.
pub fn owned<'py, T: Element, S: IntoDimension>(
    py: Python<'py>,
    values: Vec<T>,
    shape: S,
) -> Bound<'py, PyAny>
where
    S::Dim: Dimension,
{
    let array = numpy::ndarray::Array::from_shape_vec(shape.into_dimension(), values);
    PyArray::from_owned_array(py, array.expect("a shape that fits")).into_any()
}
