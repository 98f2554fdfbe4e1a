//! A coarsener by name, or a Python function `(edge_index, num_nodes) -> cluster ids`.

use std::sync::{Arc, Mutex, PoisonError};

use hdse::coarsen::{self, Coarsener, Context};
use hdse::{Error, Graph, Partition, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::owned;
use crate::error::raise;
use crate::graph::arcs;

/// What a function raised, and for which graph.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<(u64, PyErr)>>>);

impl Raised {
    /// Keeps the error of the first graph, whatever thread came first.
    fn keep(&self, graph: u64, error: PyErr) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(first, _)| graph < *first) {
            *kept = Some((graph, error));
        }
    }

    /// The error of the function if there was one, else `error`.
    pub fn or(&self, error: PyErr) -> PyErr {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(error, |(_, raised)| raised)
    }
}

/// The coarsener that `given` names or is.
pub fn parse(given: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Box<dyn Coarsener>> {
    if let Ok(spec) = given.extract::<&str>() {
        return coarsen::parse(spec).map_err(|e| raise(&e));
    }
    if !given.is_callable() {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a coarsener is a name such as \"newman\" or a function (edge_index, num_nodes) -> \
             cluster ids, not {kind}"
        )));
    }
    let name = describe(given)?;
    Ok(Box::new(Function { call: given.clone().unbind(), name, raised: raised.clone() }))
}

/// How results name a function: `python:module.name`.
fn describe(function: &Bound<'_, PyAny>) -> PyResult<String> {
    let part = |key| function.getattr(key).ok().and_then(|x| x.extract::<String>().ok());
    let name = part("__qualname__").or_else(|| part("__name__"));
    let name = match name {
        Some(name) => name,
        None => function.get_type().qualname()?.to_string(),
    };
    let module = part("__module__").map_or(String::new(), |module| module + ".");
    Ok(format!("python:{module}{name}"))
}

struct Function {
    call: Py<PyAny>,
    name: String,
    raised: Raised,
}

impl Coarsener for Function {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        Python::attach(|py| self.ask(py, graph)).map_err(|error| {
            let place = format!("graph {}, level {}", context.graph, context.level);
            // Notes came with Python 3.11; without, the error is as clear as it was raised.
            Python::attach(|py| {
                let _ = error.value(py).call_method1("add_note", (format!("in {place}"),));
            });
            self.raised.keep(context.graph, error);
            Error::data(format!("{} failed", self.name))
        })
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Function {
    fn ask(&self, py: Python<'_>, graph: &Graph) -> PyResult<Partition> {
        let (n, edge_index) = (graph.num_nodes(), arcs(graph));
        let edge_index = owned(py, edge_index, [2, graph.targets().len()]);
        let ids = self.call.call1(py, (edge_index, n))?;
        let convert = py.import("hdse._convert")?.getattr("ids")?;
        let ids: numpy::PyReadonlyArray1<'_, i64> =
            convert.call1((ids, n, &self.name))?.extract()?;
        Ok(Partition::from_labels(&ids.as_array().to_vec()))
    }
}
