//! The store: encoded sets that were computed before, found again by what determines them.
//!
//! An entry's key is the blake3 of the graphs themselves, the coarsener with all parameters and its
//! version, levels, clips, seed and layout. So another encoder, another seed or a new version of an
//! algorithm never invalidates or reuses an entry of the first. An entry is two files, written to
//! temporary names and renamed: `KEY.safetensors`, then `KEY.json` with its length and hash, without
//! which the first does not count. Reading verifies the hash; a damaged entry is computed again. One
//! process at a time works on a key (a lock on `KEY.lock`); others wait and find the result.
//!
//! The store lies in `HDSE_HOME`, else in the cache folder of the platform.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AtomicFile;
use super::encoded::Metadata;
use crate::coarsen;
use crate::{Error, Result};

/// A folder of encoded sets.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What `KEY.json` says about `KEY.safetensors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// blake3 of the graphs.
    pub content: String,
    /// The parameters, and the file that the graphs first came from.
    pub metadata: Metadata,
    /// Length of the file.
    pub bytes: u64,
    /// blake3 of the file.
    pub blake3: String,
    /// blake3 of the fields above, so that damage to this file is noticed too.
    check: String,
}

impl Manifest {
    fn new(content: &str, metadata: Metadata, bytes: u64, blake3: String) -> Manifest {
        let content = content.to_string();
        let mut manifest = Manifest { content, metadata, bytes, blake3, check: String::new() };
        manifest.check = manifest.digest();
        manifest
    }

    fn digest(&self) -> String {
        let metadata = self.metadata.to_json();
        let text = format!("{} {metadata} {} {}", self.content, self.bytes, self.blake3);
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data always serialise") + "\n"
    }

    /// Reads a manifest; its text must be exactly what is written for its content.
    fn read(path: &Path) -> Result<Manifest> {
        let text = fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
        if manifest.check != manifest.digest() || manifest.to_json() != text {
            return Err(Error::data(format!("{} is damaged", path.display())));
        }
        Ok(manifest)
    }
}

/// An entry that stays as it is while this is held.
#[derive(Debug)]
pub struct Held {
    /// The encoded set.
    pub path: PathBuf,
    /// Whether it was there before.
    pub found: bool,
    _lock: File,
}

/// The state of one entry.
#[derive(Debug)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// What it holds, or what is wrong with it.
    pub content: Result<Manifest>,
}

/// The folder of this user for what was computed: `HDSE_HOME`, else in the platform's cache folder.
///
/// # Errors
/// If neither is known.
pub fn user_folder() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let home = || variable("HOME").map(PathBuf::from);
    let folder = variable("HDSE_HOME").map(PathBuf::from).or_else(|| {
        let cache = if cfg!(target_os = "macos") {
            home().map(|h| h.join("Library/Caches"))
        } else if cfg!(windows) {
            variable("LOCALAPPDATA").map(PathBuf::from)
        } else {
            variable("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| home().map(|h| h.join(".cache")))
        };
        cache.map(|c| c.join("hdse"))
    });
    folder.ok_or_else(|| Error::config("no place for the store: set HDSE_HOME to a folder"))
}

/// Where this user's vectors of node2vec are, beside encoded sets.
///
/// # Errors
/// As [`user_folder`].
pub fn vectors_folder() -> Result<PathBuf> {
    Ok(user_folder()?.join("node2vec"))
}

impl Store {
    /// The store in `folder`, which is made when something is put in.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// The store of this user: in `HDSE_HOME`, else in the platform's cache folder.
    ///
    /// # Errors
    /// If neither is known.
    pub fn of_user() -> Result<Store> {
        Ok(Store::new(user_folder()?.join("encoded")))
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry for graphs of hash `content` and `metadata`, computed by `compute` unless it is there
    /// and intact.
    ///
    /// # Errors
    /// Those of `compute`, and if the folder can't be written to.
    pub fn get_or_compute(
        &self,
        content: &str,
        metadata: &Metadata,
        warn: impl Fn(&str),
        compute: impl FnOnce(AtomicFile) -> Result<()>,
    ) -> Result<Held> {
        fs::create_dir_all(&self.folder)
            .map_err(|e| Error::io("cannot create the store", &self.folder, e))?;
        let key = key(content, metadata);
        let lock_path = self.file(&key, "lock");
        let problem = |e| Error::io("cannot lock", &lock_path, e);
        let lock = File::create(&lock_path).map_err(problem)?;
        lock.lock().map_err(problem)?;
        let path = self.file(&key, "safetensors");
        if self.file(&key, "json").exists() {
            match self.verify(&key) {
                Ok(_) => return Ok(Held { path, found: true, _lock: lock }),
                Err(error) => warn(&format!("{error:#}; computing it again")),
            }
        }
        // The manifest goes first, so that a new file never stands beside an old manifest.
        let manifest_path = self.file(&key, "json");
        let _ = fs::remove_file(&manifest_path);
        compute(AtomicFile::create(&path, true)?)?;
        let (bytes, blake3) = hash_file(&path)?;
        let manifest = Manifest::new(content, metadata.clone(), bytes, blake3);
        let mut file = AtomicFile::create(&manifest_path, true)?;
        file.write_all(manifest.to_json().as_bytes())
            .map_err(|e| Error::io("cannot write", &manifest_path, e))?;
        file.commit()?;
        Ok(Held { path, found: false, _lock: lock })
    }

    /// Every entry, read and compared with its hash if `thorough`.
    pub fn entries(&self, thorough: bool) -> Result<Vec<Entry>> {
        let entry = |key: String| {
            let content = match thorough {
                true => self.verify(&key),
                false => Manifest::read(&self.file(&key, "json")),
            };
            Entry { key, content }
        };
        Ok(self.names("json")?.into_iter().map(entry).collect())
    }

    /// Files that belong to no entry: left by processes that were killed.
    pub fn leftovers(&self) -> Result<Vec<PathBuf>> {
        let keys = self.names("json")?;
        let left = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let key = name.trim_start_matches('.').split('.').next().unwrap_or_default();
            // Locks stay: removing one that a process waits for would let two in. What a running
            // process writes is not left over.
            let belongs = !name.starts_with('.') && keys.iter().any(|k| k == key);
            !name.ends_with(".lock") && !belongs && self.is_free(key)
        };
        Ok(self.files()?.into_iter().filter(left).collect())
    }

    /// Removes an entry, unless a process works on it; true if it is gone.
    pub fn remove(&self, key: &str) -> Result<bool> {
        let Some(_lock) = self.try_lock(key) else { return Ok(false) };
        // The manifest goes first: without it the rest does not count.
        for extension in ["json", "safetensors"] {
            remove(&self.file(key, extension))?;
        }
        Ok(true)
    }

    /// Whether no process works on `key`.
    fn is_free(&self, key: &str) -> bool {
        !self.file(key, "lock").exists() || self.try_lock(key).is_some()
    }

    fn try_lock(&self, key: &str) -> Option<File> {
        let file = File::create(self.file(key, "lock")).ok()?;
        file.try_lock().ok().map(|()| file)
    }

    fn verify(&self, key: &str) -> Result<Manifest> {
        let manifest = Manifest::read(&self.file(key, "json"))?;
        let path = self.file(key, "safetensors");
        if hash_file(&path)? != (manifest.bytes, manifest.blake3.clone()) {
            return Err(Error::data(format!("{} is damaged", path.display())));
        }
        if self::key(&manifest.content, &manifest.metadata) != key {
            return Err(Error::data(format!(
                "entry {key} holds other parameters than its name says"
            )));
        }
        Ok(manifest)
    }

    fn file(&self, key: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{key}.{extension}"))
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("cannot read the store", &self.folder, e)),
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        files.sort();
        Ok(files)
    }

    /// Keys that have a file with `extension`.
    fn names(&self, extension: &str) -> Result<Vec<String>> {
        let named = |path: &PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let key = name.strip_suffix(&format!(".{extension}"))?.to_string();
            (!key.starts_with('.')).then_some(key)
        };
        Ok(self.files()?.iter().filter_map(named).collect())
    }
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove", path, e))
        }
        _ => Ok(()),
    }
}

/// What an entry is found by: half of a blake3 over everything that determines it.
fn key(content: &str, metadata: &Metadata) -> String {
    let name = metadata.coarsener.split(':').next().unwrap_or_default();
    let version = coarsen::ALL.iter().find(|e| e.name == name).map_or(0, |e| e.version);
    // The file that the graphs came from does not matter, only the graphs.
    let metadata = Metadata { input_blake3: String::new(), ..metadata.clone() };
    let text = format!("{version} {content} {}", metadata.to_json());
    blake3::hash(text.as_bytes()).to_hex()[..32].to_string()
}

fn hash_file(path: &Path) -> Result<(u64, String)> {
    let problem = |e| Error::io("cannot read", path, e);
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(path).map_err(problem)?;
    let bytes = std::io::copy(&mut file, &mut hasher).map_err(problem)?;
    Ok((bytes, hasher.finalize().to_hex().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(seed: u64) -> Metadata {
        Metadata {
            schema: 1,
            hdse: "0.0.0".into(),
            kind: "graph-set".into(),
            coarsener: "newman:ties=canonical".into(),
            levels: 1,
            max_distance: vec![30, 30],
            seed,
            graphs: 1,
            input_blake3: "abc".into(),
            high_level: None,
            shard: None,
        }
    }

    fn put(store: &Store, seed: u64) -> (PathBuf, bool) {
        let compute = |mut file: AtomicFile| {
            file.write_all(&seed.to_le_bytes()).unwrap();
            file.commit()
        };
        let held = store.get_or_compute("graphs", &metadata(seed), |_| {}, compute).unwrap();
        (held.path, held.found)
    }

    #[test]
    fn entries_are_found_again_and_apart() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        assert!(!put(&store, 1).1);
        assert!(!put(&store, 2).1);
        assert!(put(&store, 1).1);
        assert_eq!(fs::read(put(&store, 2).0).unwrap(), 2u64.to_le_bytes());
        assert_eq!(store.entries(true).unwrap().len(), 2);
        assert!(store.leftovers().unwrap().is_empty());
        let failed =
            store.get_or_compute("graphs", &metadata(3), |_| {}, |_| Err(Error::interrupted()));
        assert!(failed.unwrap_err().is_interrupted());
        assert_eq!(store.entries(true).unwrap().len(), 2);
    }

    #[test]
    fn any_flipped_bit_is_noticed_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let (path, _) = put(&store, 7);
        for file in [path.clone(), path.with_extension("json")] {
            let good = fs::read(&file).unwrap();
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                fs::write(&file, &bad).unwrap();
                let entries = store.entries(true).unwrap();
                assert!(entries[0].content.is_err(), "{} bit {bit}", file.display());
            }
            assert!(!put(&store, 7).1, "computed again");
            assert!(put(&store, 7).1);
            assert_eq!(fs::read(&file).unwrap(), good);
        }
    }

    #[test]
    fn what_a_process_works_on_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let compute = |mut file: AtomicFile| {
            assert!(store.leftovers().unwrap().is_empty());
            file.write_all(b"data").unwrap();
            file.commit()
        };
        let held = store.get_or_compute("graphs", &metadata(1), |_| {}, compute).unwrap();
        let key = store.entries(true).unwrap()[0].key.clone();
        assert!(!store.remove(&key).unwrap());
        assert!(held.path.exists());
        drop(held);
        assert!(store.remove(&key).unwrap());
        assert!(store.entries(true).unwrap().is_empty());
        // Other graphs with the same parameters are another entry.
        let file = |mut file: AtomicFile| {
            file.write_all(b"data").unwrap();
            file.commit()
        };
        assert!(!store.get_or_compute("a", &metadata(1), |_| {}, file).unwrap().found);
        assert!(!store.get_or_compute("b", &metadata(1), |_| {}, file).unwrap().found);
    }

    #[test]
    fn leftovers_are_told_from_entries() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        put(&store, 1);
        fs::write(folder.path().join(".x.safetensors.1.tmp"), "half").unwrap();
        fs::write(folder.path().join("x.safetensors"), "no manifest").unwrap();
        assert_eq!(store.leftovers().unwrap().len(), 2);
        assert_eq!(store.entries(true).unwrap().len(), 1);
    }
}
