//! npz: a zip of npy files, as `numpy.load` reads it. Arrays are stored uncompressed, so that they
//! are written at disk speed; the metadata is the entry `metadata.json`.

use std::fs::File;
use std::io::{Read, Write as _};

use npyz::{DType, NpyHeader, TypeStr};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{ArrayReader, ArraySpec, ArrayWriter, Dtype};
use crate::data::AtomicFile;
use crate::{Error, Result};

const METADATA: &str = "metadata.json";

fn type_string(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "|u1",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::F32 => "<f4",
    }
}

pub(super) struct Writer {
    zip: ZipWriter<AtomicFile>,
    specs: Vec<ArraySpec>,
    path: std::path::PathBuf,
}

impl Writer {
    pub(super) fn new(file: AtomicFile, specs: Vec<ArraySpec>, metadata: &str) -> Result<Writer> {
        let path = file.path().to_path_buf();
        let mut writer = Writer { zip: ZipWriter::new(file), specs, path };
        writer.entry(METADATA)?;
        writer.write(metadata.as_bytes())?;
        Ok(writer)
    }

    fn entry(&mut self, name: &str) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        self.zip.start_file(name, options).map_err(|e| Error::io("cannot write", &self.path, e))
    }
}

impl ArrayWriter for Writer {
    fn begin(&mut self, index: usize) -> Result<()> {
        let spec = &self.specs[index];
        let shape: String = spec.shape.iter().map(|axis| format!("{axis}, ")).collect();
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
            type_string(spec.dtype),
            if spec.shape.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") }
        );
        // Version 1.0: ten bytes of prefix, padded so that the data start at a multiple of 64.
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let name = format!("{}.npy", spec.name);
        self.entry(&name)?;
        self.write(b"\x93NUMPY\x01\x00")?;
        self.write(&(header.len() as u16).to_le_bytes())?;
        self.write(header.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.zip.write_all(bytes).map_err(|e| Error::io("cannot write", &self.path, e))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let file = self.zip.finish().map_err(|e| Error::io("cannot write", &self.path, e))?;
        file.commit()
    }
}

pub(super) struct Reader {
    zip: ZipArchive<File>,
    metadata: String,
    specs: Vec<ArraySpec>,
}

fn broken(why: impl std::fmt::Display) -> Error {
    Error::data(format!("not a readable npz file: {why}"))
}

impl Reader {
    pub(super) fn open(file: File) -> Result<Reader> {
        let mut zip = ZipArchive::new(file).map_err(broken)?;
        let mut metadata = String::new();
        let mut specs = Vec::new();
        for i in 0..zip.len() {
            let mut entry = zip.by_index(i).map_err(broken)?;
            let name = entry.name().map_err(broken)?.into_owned();
            if name == METADATA {
                entry.by_ref().take(1 << 20).read_to_string(&mut metadata).map_err(broken)?;
            } else if let Some(name) = name.strip_suffix(".npy") {
                let length = entry.size();
                let header = read_header(&mut entry)?;
                if let Some(spec) = spec_of(name, &header)
                    && spec.bytes().is_some_and(|bytes| bytes <= length)
                {
                    specs.push(spec);
                }
            }
        }
        Ok(Reader { zip, metadata, specs })
    }
}

fn read_header(entry: &mut impl Read) -> Result<NpyHeader> {
    NpyHeader::from_reader(entry.take(1 << 16)).map_err(broken)
}

fn spec_of(name: &str, header: &NpyHeader) -> Option<ArraySpec> {
    let DType::Plain(plain) = header.dtype() else { return None };
    let parse = |text: &str| text.parse::<TypeStr>().ok();
    let dtype = [Dtype::U8, Dtype::U32, Dtype::U64, Dtype::F32]
        .into_iter()
        .find(|&d| parse(type_string(d)).as_ref() == Some(&plain))?;
    if header.order() != npyz::Order::C {
        return None;
    }
    let shape = header.shape().iter().map(|&axis| axis as usize).collect();
    Some(ArraySpec { name: name.to_string(), dtype, shape })
}

impl ArrayReader for Reader {
    fn metadata(&self) -> &str {
        &self.metadata
    }

    fn specs(&self) -> &[ArraySpec] {
        &self.specs
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let spec = self.specs.iter().find(|s| s.name == name);
        let spec = spec.ok_or_else(|| Error::data(format!("no array `{name}`")))?;
        let bytes = spec.bytes().unwrap_or(0);
        let mut entry = self.zip.by_name(&format!("{name}.npy")).map_err(broken)?;
        read_header(&mut entry)?;
        let mut out = Vec::new();
        entry.by_ref().take(bytes).read_to_end(&mut out).map_err(broken)?;
        if out.len() as u64 != bytes {
            return Err(broken(format!("array `{name}` is cut off")));
        }
        Ok(out)
    }
}
