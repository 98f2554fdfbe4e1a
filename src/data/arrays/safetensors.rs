//! safetensors: eight bytes of header length, a JSON header, then the arrays end to end.
//!
//! The header is written here rather than by the `safetensors` crate, which wants every array in
//! memory and orders metadata at random; an encoded set is streamed and must be the same bytes each
//! time. The metadata is one key, `hdse`.

use std::fs::File;
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write as _};

use serde_json::{Map, Value, json};

use super::{ArrayReader, ArraySpec, ArrayWriter, Dtype};
use crate::data::AtomicFile;
use crate::{Error, Result};

const METADATA: &str = "__metadata__";

fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "U8",
        Dtype::U32 => "U32",
        Dtype::U64 => "U64",
        Dtype::F32 => "F32",
    }
}

pub(super) struct Writer {
    file: BufWriter<AtomicFile>,
    /// First byte of every array within the file.
    starts: Vec<u64>,
}

impl Writer {
    pub(super) fn new(file: AtomicFile, specs: Vec<ArraySpec>, metadata: &str) -> Result<Writer> {
        // Widest numbers first keeps every array aligned.
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(specs[i].dtype.size()));
        let mut starts = vec![0; specs.len()];
        let mut end = 0u64;
        let mut entries = vec![format!("\"{METADATA}\":{}", json!({ "hdse": metadata }))];
        for i in order {
            let spec = &specs[i];
            let bytes = spec.bytes().and_then(|bytes| end.checked_add(bytes));
            let next =
                bytes.ok_or_else(|| Error::data(format!("array `{}` is too large", spec.name)))?;
            entries.push(format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{end},{next}]}}",
                json!(spec.name),
                type_name(spec.dtype),
                json!(spec.shape),
            ));
            starts[i] = end;
            end = next;
        }
        let mut header = format!("{{{}}}", entries.join(","));
        while header.len() % 8 != 0 {
            header.push(' ');
        }
        let base = 8 + header.len() as u64;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let written = file
            .write_all(&(header.len() as u64).to_le_bytes())
            .and_then(|()| file.write_all(header.as_bytes()));
        written.map_err(|e| Error::io("cannot write", file.get_ref().path(), e))?;
        Ok(Writer { file, starts: starts.into_iter().map(|s| base + s).collect() })
    }

    fn problem(&self, e: std::io::Error) -> Error {
        Error::io("cannot write", self.file.get_ref().path(), e)
    }
}

impl ArrayWriter for Writer {
    fn begin(&mut self, index: usize) -> Result<()> {
        let start = SeekFrom::Start(self.starts[index]);
        self.file.seek(start).map(|_| ()).map_err(|e| self.problem(e))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.problem(e))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.file.flush().map_err(|e| self.problem(e))?;
        let file = self.file.into_inner().map_err(|e| Error::io("cannot write", "", e.error()))?;
        file.commit()
    }
}

pub(super) struct Reader {
    file: File,
    metadata: String,
    specs: Vec<ArraySpec>,
    starts: Vec<u64>,
    others: Vec<(String, String)>,
}

impl Reader {
    pub(super) fn open(mut file: File) -> Result<Reader> {
        let broken = |why: &str| Error::data(format!("not a safetensors file: {why}"));
        let length = file.metadata().map_err(|e| broken(&e.to_string()))?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| broken("it is too short"))?;
        let size = u64::from_le_bytes(size);
        if size > length.saturating_sub(8) {
            return Err(broken("its header is longer than the file"));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header).map_err(|_| broken("its header is cut off"))?;
        let header: Map<String, Value> =
            serde_json::from_slice(&header).map_err(|e| broken(&e.to_string()))?;
        let metadata = header.get(METADATA).and_then(|m| m["hdse"].as_str()).unwrap_or("").into();
        let (mut specs, mut starts, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (name, entry) in header.iter().filter(|(name, _)| *name != METADATA) {
            let dtype = match entry["dtype"].as_str() {
                Some("U8") => Dtype::U8,
                Some("U32") => Dtype::U32,
                Some("U64") => Dtype::U64,
                Some("F32") => Dtype::F32,
                other => {
                    others.push((name.clone(), other.unwrap_or("of no type").to_string()));
                    continue;
                }
            };
            let numbers = |key: &str| -> Option<Vec<u64>> {
                entry[key].as_array()?.iter().map(Value::as_u64).collect()
            };
            let (Some(shape), Some([start, end])) = (
                numbers("shape"),
                numbers("data_offsets").as_deref().and_then(|o| o.as_array()).copied(),
            ) else {
                return Err(broken(&format!("entry `{name}` lacks shape or offsets")));
            };
            let spec = ArraySpec {
                name: name.clone(),
                dtype,
                shape: shape.into_iter().map(|x| x as usize).collect(),
            };
            let end_in_file = end.checked_add(8 + size).filter(|&e| e <= length);
            if end_in_file.is_none() || spec.bytes() != end.checked_sub(start) {
                return Err(broken(&format!("the size of `{name}` does not fit the file")));
            }
            specs.push(spec);
            starts.push(8 + size + start);
        }
        Ok(Reader { file, metadata, specs, starts, others })
    }
}

impl ArrayReader for Reader {
    fn metadata(&self) -> &str {
        &self.metadata
    }

    fn specs(&self) -> &[ArraySpec] {
        &self.specs
    }

    fn others(&self) -> &[(String, String)] {
        &self.others
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let index = self.specs.iter().position(|s| s.name == name);
        let index = index.ok_or_else(|| Error::data(format!("no array `{name}`")))?;
        let bytes = self.specs[index].bytes().unwrap_or(0);
        let mut out = vec![0; bytes as usize];
        let read = self
            .file
            .seek(SeekFrom::Start(self.starts[index]))
            .and_then(|_| self.file.read_exact(&mut out));
        read.map_err(|e| Error::data(format!("array `{name}` can't be read: {e}")))?;
        Ok(out)
    }
}
