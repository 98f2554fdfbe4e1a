//! Named arrays in a file: safetensors for tensors, npz for numpy.
//!
//! An [`ArrayWriter`] is told names, types and shapes first, then takes the bytes of the arrays one
//! after another, so that an array larger than memory can be streamed. Writing is deterministic:
//! the same arrays give the same bytes. [`open`] reads either kind back, and trusts no size that it
//! has not compared with the length of the file.

mod npz;
mod safetensors;

use std::path::Path;

use super::AtomicFile;
use crate::{Error, Result};

/// Type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// One byte.
    U8,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
    /// Four bytes, real.
    F32,
}

impl Dtype {
    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Dtype::U8 => 1,
            Dtype::U32 | Dtype::F32 => 4,
            Dtype::U64 => 8,
        }
    }
}

/// Name, type and shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// The name it is found by.
    pub name: String,
    /// Type of its numbers.
    pub dtype: Dtype,
    /// Length of every axis, row-major.
    pub shape: Vec<usize>,
}

impl ArraySpec {
    /// A spec of these parts.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[usize]) -> ArraySpec {
        ArraySpec { name: name.into(), dtype, shape: shape.to_vec() }
    }

    /// Bytes of the whole array, unless that overflows.
    fn bytes(&self) -> Option<u64> {
        let mut bytes = self.dtype.size() as u64;
        for &axis in &self.shape {
            bytes = bytes.checked_mul(axis as u64)?;
        }
        Some(bytes)
    }
}

/// Writes arrays to a file that appears only when it is finished.
pub trait ArrayWriter {
    /// Starts the array `index` of those declared; every array is written exactly once.
    fn begin(&mut self, index: usize) -> Result<()>;
    /// Appends bytes (little-endian, row-major) to the array that was begun.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Completes the file and moves it into place.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Opens `file` for writing the arrays of `specs`, with one text of metadata, in `format`
/// (`safetensors` or `npz`).
pub fn create(
    format: &str,
    file: AtomicFile,
    specs: Vec<ArraySpec>,
    metadata: &str,
) -> Result<Box<dyn ArrayWriter + Send>> {
    match format {
        "safetensors" => Ok(Box::new(safetensors::Writer::new(file, specs, metadata)?)),
        "npz" => Ok(Box::new(npz::Writer::new(file, specs, metadata)?)),
        other => Err(Error::config(format!(
            "format `{other}` does not hold arrays; use safetensors or npz"
        ))),
    }
}

/// Arrays of an existing file.
pub trait ArrayReader {
    /// The text of metadata; empty if there is none.
    fn metadata(&self) -> &str;
    /// Every array in the file, of the types that [`Dtype`] has.
    fn specs(&self) -> &[ArraySpec];
    /// Names and types of all others.
    fn others(&self) -> &[(String, String)] {
        &[]
    }
    /// The bytes of one array.
    fn read(&mut self, name: &str) -> Result<Vec<u8>>;
}

/// Opens a safetensors or npz file, told apart by its first bytes.
pub fn open(path: &Path) -> Result<Box<dyn ArrayReader>> {
    use std::io::{Read as _, Seek as _};
    let problem = |e| Error::io("cannot read", path, e);
    let mut file = std::fs::File::open(path).map_err(problem)?;
    let mut magic = [0; 2];
    let short = file.read_exact(&mut magic).is_err();
    file.rewind().map_err(problem)?;
    let opened: Result<Box<dyn ArrayReader>> = match &magic {
        _ if short => Err(Error::data("the file is too short to hold arrays")),
        b"PK" => npz::Reader::open(file).map(|r| Box::new(r) as _),
        _ => safetensors::Reader::open(file).map(|r| Box::new(r) as _),
    };
    opened.map_err(|e| e.context(path.display().to_string()))
}

/// The spec of `name` with the type and number of axes expected, or what is wrong with it.
pub fn expect<'a>(
    reader: &'a dyn ArrayReader,
    name: &str,
    dtype: Dtype,
    axes: usize,
) -> Result<&'a ArraySpec> {
    let spec = reader
        .specs()
        .iter()
        .find(|s| s.name == name)
        .ok_or_else(|| Error::data(format!("no array `{name}` in it")))?;
    if spec.dtype != dtype || spec.shape.len() != axes {
        return Err(Error::data(format!(
            "array `{name}` is {:?} {:?}; expected {dtype:?} with {axes} axes",
            spec.dtype, spec.shape
        )));
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<ArraySpec> {
        vec![
            ArraySpec::new("wide", Dtype::U64, &[2]),
            ArraySpec::new("none", Dtype::U32, &[0, 3]),
            ArraySpec::new("bytes", Dtype::U8, &[5, 1]),
        ]
    }

    fn write(format: &str, path: &Path) {
        let file = AtomicFile::create(path, true).unwrap();
        let mut writer = create(format, file, specs(), "{\"a\":\"\\\"b\"}").unwrap();
        writer.begin(2).unwrap();
        writer.write(&[1, 2, 3]).unwrap();
        writer.write(&[4, 5]).unwrap();
        writer.begin(0).unwrap();
        writer.write(bytemuck::cast_slice(&[7u64, 8])).unwrap();
        writer.begin(1).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn arrays_come_back() {
        let folder = tempfile::tempdir().unwrap();
        for format in ["safetensors", "npz"] {
            let path = folder.path().join(format);
            write(format, &path);
            let once = std::fs::read(&path).unwrap();
            write(format, &path);
            assert_eq!(once, std::fs::read(&path).unwrap(), "{format} is deterministic");
            let mut reader = open(&path).unwrap();
            assert_eq!(reader.metadata(), "{\"a\":\"\\\"b\"}");
            let mut found = reader.specs().to_vec();
            found.sort_by_key(|s| s.dtype.size());
            let mut expected = specs();
            expected.sort_by_key(|s| s.dtype.size());
            assert_eq!(found, expected);
            assert_eq!(reader.read("bytes").unwrap(), [1, 2, 3, 4, 5]);
            assert!(reader.read("none").unwrap().is_empty());
            assert_eq!(reader.read("wide").unwrap(), bytemuck::cast_slice::<u64, u8>(&[7, 8]));
            assert!(reader.read("absent").is_err());
        }
    }

    #[test]
    fn broken_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        for format in ["safetensors", "npz"] {
            let path = folder.path().join(format);
            write(format, &path);
            let good = std::fs::read(&path).unwrap();
            for cut in 0..good.len() {
                std::fs::write(&path, &good[..cut]).unwrap();
                let broken = open(&path).and_then(|mut r| r.read("bytes"));
                assert!(broken.is_err(), "{format} cut at {cut}");
            }
            for at in 0..good.len() {
                for flip in [1u8, 0x80] {
                    let mut bad = good.clone();
                    bad[at] ^= flip;
                    std::fs::write(&path, &bad).unwrap();
                    // No panic and no wild allocation; a flipped payload bit may go unnoticed.
                    if let Ok(mut reader) = open(&path) {
                        for name in ["bytes", "none", "wide"] {
                            let _ = reader.read(name);
                        }
                    }
                }
            }
        }
    }
}
