//! Pickles of numbers, read without running anything.
//!
//! A pickle is a program for a small stack machine, and may call any function of Python. The files of
//! Planetoid are pickles of Python 2 (protocol 2) that hold numpy arrays, scipy matrices in compressed rows,
//! or a dictionary of lists. This reader knows the opcodes and the six globals that these need, and what it
//! makes of them is data: "calling" `numpy.core.multiarray._reconstruct` notes an array without content.
//! Every other opcode or global is refused with its name and place.
//!
//! Values lie in one list and refer to each other by number, so that sharing and cycles cost nothing; the bytes
//! of arrays and strings stay where they are in the file. A value takes at least a byte of the file, and their
//! number is held against the memory limit. Text is compared as bytes, which for the names that occur is the
//! same in latin-1, as Python 2 writes it, and in UTF-8.

mod machine;
#[cfg(test)]
pub(super) mod tests;

use std::collections::HashSet;

use self::machine::Machine;
use super::Sparse;
use crate::data::numpy::Array;
use crate::data::{Edges, Values};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// A pickle that was read.
pub(super) struct Pickle<'a> {
    heap: Vec<Item<'a>>,
    root: Id,
}

/// A value's place in the list of all.
type Id = usize;

enum Item<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float,
    Bytes(&'a [u8]),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Dtype(Number),
    /// Nothing until its state is set.
    Array(Option<Stored<'a>>),
    /// The dictionary that is its state.
    Csr(Option<Id>),
}

impl Item<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Item::None => "None",
            Item::Bool(_) => "a truth value",
            Item::Int(_) => "a whole number",
            Item::Float => "a real number",
            Item::Bytes(_) => "a string",
            Item::Tuple(_) => "a tuple",
            Item::List(_) => "a list",
            Item::Dict(_) => "a dictionary",
            Item::Global(_) => "a name",
            Item::Dtype(_) => "a type of numbers",
            Item::Array(_) => "an array",
            Item::Csr(_) => "a sparse matrix",
        }
    }
}

/// An array as the file holds it.
struct Stored<'a> {
    shape: Vec<usize>,
    number: Number,
    by_columns: bool,
    data: &'a [u8],
}

/// What may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Global {
    Reconstruct,
    NdArray,
    Dtype,
    CsrMatrix,
    DefaultDict,
    List,
}

/// Types of numbers in arrays, all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    I1,
    I2,
    I4,
    I8,
    U1,
    U2,
    U4,
    F4,
    F8,
}

impl Number {
    fn by_name(name: &[u8]) -> Option<Number> {
        Some(match name {
            b"i1" => Number::I1,
            b"i2" => Number::I2,
            b"i4" => Number::I4,
            b"i8" => Number::I8,
            b"b1" | b"u1" => Number::U1,
            b"u2" => Number::U2,
            b"u4" => Number::U4,
            b"f4" => Number::F4,
            b"f8" => Number::F8,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Number::I1 | Number::U1 => 1,
            Number::I2 | Number::U2 => 2,
            Number::I4 | Number::U4 | Number::F4 => 4,
            Number::I8 | Number::F8 => 8,
        }
    }

    fn decode(self, data: &[u8]) -> Values {
        macro_rules! ints {
            ($type:ty, $size:literal) => {{
                let (numbers, _) = data.as_chunks::<$size>();
                Values::Int(numbers.iter().map(|&x| <$type>::from_le_bytes(x) as i64).collect())
            }};
        }
        match self {
            Number::I1 => ints!(i8, 1),
            Number::I2 => ints!(i16, 2),
            Number::I4 => ints!(i32, 4),
            Number::I8 => ints!(i64, 8),
            Number::U1 => ints!(u8, 1),
            Number::U2 => ints!(u16, 2),
            Number::U4 => ints!(u32, 4),
            Number::F4 => {
                let (numbers, _) = data.as_chunks::<4>();
                Values::Float(numbers.iter().map(|&x| f32::from_le_bytes(x)).collect())
            }
            Number::F8 => {
                let (numbers, _) = data.as_chunks::<8>();
                Values::Float(numbers.iter().map(|&x| f64::from_le_bytes(x) as f32).collect())
            }
        }
    }
}

impl<'a> Pickle<'a> {
    /// Reads a pickle whole.
    ///
    /// # Errors
    /// If it holds anything but the values named above, is cut off, or needs more than `limit`.
    pub(super) fn read(bytes: &'a [u8], limit: MemoryLimit) -> Result<Pickle<'a>> {
        Machine::new(bytes, limit).run()
    }

    /// The array that the file holds.
    pub(super) fn array(&self, limit: MemoryLimit) -> Result<Array> {
        self.array_at(self.root, limit)
    }

    fn array_at(&self, id: Id, limit: MemoryLimit) -> Result<Array> {
        let Item::Array(Some(stored)) = &self.heap[id] else {
            return Err(self.other(id, "an array"));
        };
        let count = stored.data.len() / stored.number.size();
        limit.check(count as u128 * 8, "the array", "raise `--max-memory`")?;
        let array =
            Array { shape: stored.shape.clone(), values: stored.number.decode(stored.data) };
        Ok(if stored.by_columns { array.by_rows() } else { array })
    }

    /// The matrix that the file holds.
    pub(super) fn sparse(&self, limit: MemoryLimit) -> Result<Sparse> {
        let Item::Csr(Some(state)) = self.heap[self.root] else {
            return Err(self.other(self.root, "a sparse matrix in compressed rows"));
        };
        let field = |name: &str| {
            self.field(state, name.as_bytes())
                .ok_or_else(|| Error::data(format!("a sparse matrix without `{name}`")))
        };
        let shape = self.field(state, b"_shape").map_or_else(|| field("shape"), Ok)?;
        let [rows, columns] = self.sizes(shape)?[..] else {
            return Err(Error::data("a sparse matrix whose shape is not two numbers"));
        };
        let ints = |name: &str| self.array_at(field(name)?, limit)?.ints(name);
        let offsets = ints("indptr")?;
        if offsets.len() != rows.saturating_add(1) {
            return Err(Error::data(format!(
                "a sparse matrix of {rows} rows with {} row offsets",
                offsets.len()
            )));
        }
        let values = self.array_at(field("data")?, limit)?.values.to_floats();
        let offsets: Option<Vec<u64>> = offsets.iter().map(|&x| u64::try_from(x).ok()).collect();
        let indices = ints("indices")?;
        let indices: Option<Vec<u32>> = indices.iter().map(|&x| u32::try_from(x).ok()).collect();
        match offsets.zip(indices) {
            Some((offsets, indices)) => Sparse::new(columns, offsets, indices, values),
            None => Err(Error::data("a sparse matrix with a negative or huge index")),
        }
    }

    /// The arcs of a dictionary from nodes to lists of their neighbours, in its order.
    pub(super) fn neighbour_lists(&self, nodes: usize, limit: MemoryLimit) -> Result<Edges> {
        let Item::Dict(pairs) = &self.heap[self.root] else {
            return Err(self.other(self.root, "a dictionary from nodes to neighbours"));
        };
        let node = |id: Id| match self.heap[id] {
            Item::Int(node) if (0..nodes as i64).contains(&node) => Ok(node as u32),
            Item::Int(node) => {
                Err(Error::data(format!("node {node} is out of range for {nodes} nodes")))
            }
            _ => Err(self.other(id, "a node id")),
        };
        let lists: Vec<(u32, &[Id])> = (pairs.iter())
            .map(|&(key, value)| match &self.heap[value] {
                Item::List(list) => Ok((node(key)?, &list[..])),
                _ => Err(self.other(value, "a list of neighbours")),
            })
            .collect::<Result<_>>()?;
        let mut seen = HashSet::new();
        if let Some((twice, _)) = lists.iter().find(|(node, _)| !seen.insert(*node)) {
            return Err(Error::data(format!("the neighbours of node {twice} are listed twice")));
        }
        // Lists may be shared, so that their lengths together can be more than the file is long.
        let count: u128 = lists.iter().map(|(_, list)| list.len() as u128).sum();
        limit.check(count * 8, "the neighbours of all nodes", "raise `--max-memory`")?;
        let mut edges = Edges::default();
        for (source, list) in lists {
            for &target in list {
                let target = node(target).context(|| format!("neighbours of node {source}"))?;
                edges.sources.push(source);
                edges.targets.push(target);
            }
        }
        Ok(edges)
    }

    fn field(&self, dict: Id, name: &[u8]) -> Option<Id> {
        let Item::Dict(pairs) = &self.heap[dict] else { return None };
        // The last one counts, as in Python.
        let named =
            |&&(key, _): &&(Id, Id)| matches!(&self.heap[key], Item::Bytes(b) if *b == name);
        pairs.iter().rfind(named).map(|&(_, value)| value)
    }

    fn sizes(&self, id: Id) -> Result<Vec<usize>> {
        sizes(&self.heap, id)
    }

    fn other(&self, id: Id, wanted: &str) -> Error {
        Error::data(format!("it holds {} where {wanted} should be", self.heap[id].kind()))
    }
}

/// The whole numbers of a tuple.
fn sizes(heap: &[Item<'_>], id: Id) -> Result<Vec<usize>> {
    let size = |&id: &Id| match heap[id] {
        Item::Int(size) => usize::try_from(size).ok(),
        _ => None,
    };
    match &heap[id] {
        Item::Tuple(items) => items.iter().map(size).collect::<Option<_>>(),
        _ => None,
    }
    .ok_or_else(|| Error::data("a shape that is not a tuple of sizes"))
}
