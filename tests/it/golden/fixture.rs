//! One fixture: a sidecar, its tensors, and the record of which were compared.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// A sidecar and its tensors.
pub struct Fixture {
    pub name: String,
    pub kind: u64,
    pub config: Value,
    pub sidecar: Value,
    /// The file of tensors.
    pub path: PathBuf,
    bytes: Vec<u8>,
    compared: RefCell<BTreeSet<String>>,
}

impl Fixture {
    /// The fixture whose sidecar is at `path`; none if the file describes no kind of fixture.
    pub fn open(path: &Path) -> Option<Fixture> {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let sidecar: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let kind = sidecar["kind"].as_u64()?;
        let path = path.with_extension("safetensors");
        // Those about partitions share files of graphs.
        let bytes = match std::fs::read(&path) {
            Err(_) if kind == 9 => return None,
            bytes => bytes.unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        };
        let config = sidecar["config"].clone();
        Some(Fixture { name, kind, config, sidecar, path, bytes, compared: RefCell::default() })
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap()
    }

    /// Names of all tensors, ascending.
    pub fn names(&self) -> BTreeSet<String> {
        self.tensors().names().into_iter().map(String::from).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.raw(name, None).0
    }

    /// The type of a tensor, as safetensors writes it.
    pub fn dtype(&self, name: &str) -> String {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name));
        format!("{:?}", tensor.dtype())
    }

    fn raw(&self, name: &str, dtype: Option<Dtype>) -> (Vec<usize>, &[u8]) {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name));
        assert!(dtype.is_none_or(|d| d == tensor.dtype()), "{}: {name}", self.name);
        // The view borrows from `bytes`; only its header is local.
        let start = tensor.data().as_ptr() as usize - self.bytes.as_ptr() as usize;
        (tensor.shape().to_vec(), &self.bytes[start..start + tensor.data().len()])
    }

    pub fn ints(&self, name: &str) -> Vec<i64> {
        let words = self.raw(name, Some(Dtype::I64)).1.as_chunks::<8>().0;
        words.iter().map(|&word| i64::from_le_bytes(word)).collect()
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        self.raw(name, Some(Dtype::U8)).1
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let words = self.raw(name, Some(Dtype::F32)).1.as_chunks::<4>().0;
        words.iter().map(|&word| f32::from_le_bytes(word)).collect()
    }

    pub fn doubles(&self, name: &str) -> Vec<f64> {
        let words = self.raw(name, Some(Dtype::F64)).1.as_chunks::<8>().0;
        words.iter().map(|&word| f64::from_le_bytes(word)).collect()
    }

    /// A number of the sidecar, by path: `number("tolerance.largest_gradient")`.
    pub fn number(&self, path: &str) -> Option<f64> {
        path.split('.').try_fold(&self.sidecar, |value, key| value.get(key))?.as_f64()
    }

    /// Marks a tensor as compared.
    pub fn mark(&self, name: &str) {
        assert!(self.has(name), "{}: no tensor {name}", self.name);
        self.compared.borrow_mut().insert(name.to_string());
    }

    /// Compares numbers with a tensor of `f32` or `f64`, largest absolute difference.
    pub fn close(&self, name: &str, found: impl IntoIterator<Item = f64>, limit: f64) {
        let expected = match self.tensors().tensor(name).map(|t| t.dtype()) {
            Ok(Dtype::F64) => self.doubles(name),
            _ => self.floats(name).into_iter().map(f64::from).collect(),
        };
        let found: Vec<f64> = found.into_iter().collect();
        assert_eq!(found.len(), expected.len(), "{}: size of {name}", self.name);
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            let difference = (a - b).abs();
            assert!(
                difference <= limit,
                "{}: {name}[{i}] is {a}, expected {b}: off by {difference:e}, limit {limit:e}",
                self.name
            );
        }
        self.mark(name);
    }

    /// Compares an output: largest difference over largest number, within the sidecar's limit.
    pub fn output(&self, name: &str, found: &[f32]) {
        let limits = "tolerance.suggested_limit_for_float32_code";
        let eval = self.number(&format!("{limits}.eval_outputs"));
        let limit = self.number(&format!("{limits}.outputs")).expect("a limit for outputs");
        let limit = if name.starts_with("out.eval.") { eval.unwrap_or(limit) } else { limit };
        let expected = self.floats(name);
        let (difference, largest) = self.difference(name, found, &expected);
        let found = difference / largest.max(1e-30);
        assert!(
            difference == 0.0 || found <= limit,
            "{}: {name} is off by {found:e}, limit {limit:e}",
            self.name
        );
        self.mark(name);
    }

    /// Compares the gradient `grad.NAME`: largest difference over largest number, plus a thousandth of
    /// the largest gradient of all. Those that are zero in exact arithmetic need only be tiny.
    pub fn gradient(&self, name: &str, found: &[f32]) {
        let largest = self.number("tolerance.largest_gradient").unwrap_or(0.0);
        let limit = self
            .number("tolerance.suggested_limit_for_float32_code.gradients")
            .expect("a limit for gradients");
        let zeros = &self.sidecar["tolerance"]["gradients_that_are_zero_in_exact_arithmetic"];
        let zero = zeros.as_array().is_some_and(|zeros| zeros.iter().any(|zero| zero == name));
        let name = format!("grad.{name}");
        let expected = self.floats(&name);
        let (difference, scale) = self.difference(&name, found, &expected);
        if zero {
            let size = found.iter().fold(0.0, |size: f32, x| size.max(x.abs()));
            let limit = 1e-5 * largest;
            assert!(f64::from(size) <= limit, "{}: {name} is {size:e}, not 0", self.name);
        } else {
            let found = difference / (scale + 1e-3 * largest).max(1e-30);
            assert!(
                difference == 0.0 || found <= limit,
                "{}: {name} is off by {found:e}, limit {limit:e}",
                self.name
            );
        }
        self.mark(&name);
    }

    /// Largest difference, and largest number expected.
    fn difference(&self, name: &str, found: &[f32], expected: &[f32]) -> (f64, f64) {
        assert_eq!(found.len(), expected.len(), "{}: size of {name}", self.name);
        let all = || found.iter().chain(expected);
        assert!(all().all(|x| x.is_finite()), "{}: {name} is not finite", self.name);
        let pairs = found.iter().zip(expected);
        let differences = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs());
        let sizes = expected.iter().map(|&x| f64::from(x).abs());
        (differences.fold(0.0, f64::max), sizes.fold(0.0, f64::max))
    }

    /// A whole number of the configuration.
    pub fn size(&self, key: &str) -> usize {
        let value = self.config[key].as_u64();
        value.unwrap_or_else(|| panic!("{}: no number `{key}`", self.name)) as usize
    }

    /// Checks that every result was compared; gives how many there are.
    pub fn finish(&self) -> usize {
        let compared = self.compared.borrow();
        let left: Vec<String> = self
            .names()
            .into_iter()
            .filter(|name| name.starts_with("out.") || name.starts_with("grad."))
            .filter(|name| !compared.contains(name))
            .collect();
        assert!(left.is_empty(), "{}: not compared: {}", self.name, left.join(", "));
        assert!(!compared.is_empty(), "{}: nothing to compare", self.name);
        compared.len()
    }
}
