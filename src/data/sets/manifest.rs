//! `hdse-data.json` beside the files of a set: what they were when they were fetched or imported.
//!
//! Nobody publishes checksums of these sets. So the bytes that came first are taken for right, if they
//! load, and pinned: whoever meets other bytes later says so. On loading, blake3 is compared, which
//! reading computes anyway; SHA-256 is for people and other tools. A folder with this file is also all that a
//! mirror needs.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::names::{Name, file_name};
use crate::data::AtomicFile;
use crate::{Error, Result};

/// What files of a set were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The files, in the order of splits.
    pub files: Vec<Pinned>,
}

/// What a file was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Its name in the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// blake3 in hexadecimal.
    pub blake3: String,
    /// Where it came from, if it was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Pinned {
    /// Reads a file.
    pub fn of(path: &Path) -> Result<Pinned> {
        let problem = |e| Error::io("cannot read", path, e);
        let mut file = File::open(path).map_err(problem)?;
        let (mut sha256, mut blake3) = (Sha256::new(), blake3::Hasher::new());
        let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            match file.read(&mut buffer).map_err(problem)? {
                0 => break,
                read => {
                    bytes += read as u64;
                    sha256.update(&buffer[..read]);
                    blake3.update(&buffer[..read]);
                }
            }
        }
        let sha256 = sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let blake3 = blake3.finalize().to_hex().to_string();
        Ok(Pinned { name: file_name(path), bytes, sha256, blake3, url: None })
    }
}

impl Manifest {
    /// Its name.
    pub const NAME: &'static str = "hdse-data.json";

    /// What a folder says of its files; nothing if it doesn't.
    ///
    /// # Errors
    /// If its manifest is not one.
    pub fn of_folder(folder: &Path) -> Result<Manifest> {
        let path = folder.join(Manifest::NAME);
        match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(e) => Err(Error::io("cannot read", &path, e)),
            Ok(bytes) => Manifest::parse(&bytes).map_err(|e| e.context(path.display().to_string())),
        }
    }

    /// Reads one, and makes sure that it names files of a set only.
    pub fn parse(bytes: &[u8]) -> Result<Manifest> {
        let manifest: Manifest = serde_json::from_slice(bytes)
            .map_err(|e| Error::data(format!("it does not say what files are: {e}")))?;
        let wrong = |file: &&Pinned| Name::parse(&file.name).is_none() && file.name != super::LABEL;
        match manifest.files.iter().find(wrong) {
            Some(file) => Err(Error::data(format!("`{}` is no file of a set", file.name))),
            None => Ok(manifest),
        }
    }

    /// Writes it into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(Manifest::NAME);
        let mut file = AtomicFile::create(&path, true)?;
        let text = serde_json::to_string_pretty(self).expect("plain data always serialise") + "\n";
        file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", &path, e))?;
        file.commit()
    }

    /// What a file was.
    pub fn get(&self, name: &str) -> Option<&Pinned> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Makes sure that files, given with their blake3, are those of set `set` that were pinned.
    pub(super) fn check(&self, set: &str, hashes: &[(String, String)]) -> Result<()> {
        let changed: Vec<&str> = hashes
            .iter()
            .filter(|(name, blake3)| self.get(name).is_some_and(|file| file.blake3 != *blake3))
            .map(|(name, _)| name.as_str())
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        Err(Error::data(format!(
            "{} changed since it was fetched or imported ({} says what it was); get it again with \
             `hdse data fetch {set} --force`, or take it as it is with `hdse data import {set} FOLDER --force`",
            changed.join(" and "),
            Manifest::NAME
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_pinned_and_changes_noticed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::of_folder(folder.path()).unwrap(), Manifest::default());
        let path = folder.path().join("val.jsonl");
        std::fs::write(&path, "abc").unwrap();
        let pinned = Pinned::of(&path).unwrap();
        // The test vector of FIPS 180-2.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((pinned.bytes, pinned.sha256.as_str()), (3, sha256));
        assert_eq!(pinned.blake3, blake3::hash(b"abc").to_hex().as_str());
        let manifest = Manifest { files: vec![pinned.clone()] };
        manifest.write(folder.path()).unwrap();
        assert_eq!(Manifest::of_folder(folder.path()).unwrap(), manifest);
        let with = |hash: &str| manifest.check("zinc", &[("val.jsonl".into(), hash.into())]);
        with(&pinned.blake3).unwrap();
        let error = with("other").unwrap_err();
        assert!(error.is_data() && error.to_string().starts_with("val.jsonl changed"), "{error}");
        manifest.check("zinc", &[("test.jsonl".into(), "any".into())]).unwrap();
    }

    #[test]
    fn only_files_of_sets_are_named() {
        let parse = |name: &str| {
            let file = serde_json::json!({"name": name, "bytes": 1, "sha256": "", "blake3": ""});
            Manifest::parse(serde_json::json!({"files": [file]}).to_string().as_bytes())
        };
        parse("train.parquet").unwrap();
        parse("label.txt").unwrap();
        for name in ["../train.parquet", "/etc/passwd", "x", "", "hdse-data.json"] {
            assert!(parse(name).unwrap_err().is_data(), "{name}");
        }
        assert!(Manifest::parse(b"<html>").unwrap_err().is_data());
    }
}
