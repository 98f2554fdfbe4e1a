//! Putting files of a set where they are found: from other folders, or from the network (`fetch`).
//!
//! New files gather in a folder beside the place (`zinc.part`, `zinc.import`). Once all are there, the set is
//! loaded from it; if that works, their hashes are written down and the files moved. So the folder of a set
//! holds whole files that load, or what it held before. One process at a time works on a set.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::names::{self, Files, Name, file_name};
use super::{Dataset, Entry, LABEL, LoadOptions, Manifest, Pinned, Splits};
use crate::data::store::remove;
use crate::monitor::{self, Monitor};
use crate::{Error, MemoryLimit, Result};

/// Who is told what happens to files.
pub trait Listener: Monitor {
    /// A file begins to be written; `done` of its `total` bytes, if known, are there already.
    fn file(&self, name: &str, done: u64, total: Option<u64>) {
        let _ = (name, done, total);
    }

    /// Something went other than expected, and goes on.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

impl Listener for () {}

/// A set that is in its place.
#[derive(Debug)]
pub struct Installed {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether it was there before.
    pub found: bool,
    /// What its files are.
    pub files: Vec<Pinned>,
    /// The set, loaded from there.
    pub splits: Splits,
}

/// What to import, and how.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Files of the three splits, or folders with them.
    pub paths: Vec<PathBuf>,
    /// The folder of all sets.
    pub home: PathBuf,
    /// Link the files instead of copying them.
    pub link: bool,
    /// Replace other files of the set, and take what changed.
    pub force: bool,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

/// Puts files into the folder of a set, if they load.
///
/// # Errors
/// If they are not all there, don't load, are not what a manifest beside them says, or if other files are in
/// the place and are not to be replaced.
pub fn import(set: &dyn Dataset, options: &Import, listener: &dyn Listener) -> Result<Installed> {
    let entry = set.entry();
    let work = || {
        refuse_generated(entry)?;
        let sources = Sources::find(&options.paths)?;
        let site = Site::open(entry, &options.home, "import", listener)?;
        site.clear()?;
        let files = sources.gather(&site.staging, options, listener);
        let installed = files.and_then(|files| {
            if let Some(found) = site.holds(&files)? {
                return site.keep(set, found, options.limit);
            }
            if !options.force {
                site.refuse_others()?;
            }
            site.finish(set, files, options.limit)
        });
        site.clear()?;
        installed
    };
    work().map_err(|error| of_set(error, entry))
}

/// Files to import.
struct Sources {
    files: Files,
    /// Labels beside them, and manifests.
    folders: Vec<PathBuf>,
}

impl Sources {
    fn find(paths: &[PathBuf]) -> Result<Sources> {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for path in paths {
            let place = path.display();
            if path.is_dir() {
                files.extend(names::in_folder(path)?);
                folders.push(path.clone());
            } else if !path.exists() {
                return Err(Error::config(format!("there is no {place}")));
            } else if Name::of(path).is_none() {
                return Err(Error::config(format!(
                    "{place}: its name does not say which split it is; call it train, val or test, ending in \
                     .parquet, .jsonl or .jsonl.gz, or train-00000-of-00002.parquet and so on"
                )));
            } else {
                files.push(path.clone());
                folders.extend(path.parent().map(Path::to_path_buf));
            }
        }
        folders.dedup();
        let place = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        Ok(Sources { files: names::group(files, &place.join(", "))?, folders })
    }

    /// Copies or links all files into a folder.
    fn gather(&self, to: &Path, options: &Import, listener: &dyn Listener) -> Result<Vec<Pinned>> {
        let mut all: Vec<(PathBuf, String)> = Vec::new();
        for file in self.files.iter().flatten() {
            let name = Name::of(file).map_or_else(|| file_name(file), Name::plain);
            all.push((file.clone(), name));
        }
        let label =
            self.folders.iter().map(|folder| folder.join(LABEL)).find(|path| path.is_file());
        all.extend(label.map(|path| (path, LABEL.to_string())));
        let mut pinned = Vec::new();
        for (from, name) in all {
            let to = to.join(&name);
            if options.link {
                link(&from, &to)?
            } else {
                copy(&from, &to, listener)?
            }
            let mut file = Pinned::of(&to)?;
            let beside = from.parent().map(Manifest::of_folder).transpose()?;
            if let Some(before) = beside.as_ref().and_then(|manifest| manifest.get(&name)) {
                if before.sha256 == file.sha256 {
                    file.url.clone_from(&before.url);
                } else {
                    let what = format!(
                        "{} is not what {} beside it says (SHA-256 {} instead of {})",
                        from.display(),
                        Manifest::NAME,
                        file.sha256,
                        before.sha256
                    );
                    if !options.force {
                        return Err(Error::data(format!(
                            "{what}; copy it again, or take it as it is with `--force`"
                        )));
                    }
                    listener.note(&what);
                }
            }
            pinned.push(file);
        }
        Ok(pinned)
    }
}

/// Copies a file, syncs it to disk.
fn copy(from: &Path, to: &Path, listener: &dyn Listener) -> Result<()> {
    let problem = |e| Error::io("cannot read", from, e);
    let mut source = File::open(from).map_err(problem)?;
    listener.file(&file_name(to), 0, source.metadata().ok().map(|data| data.len()));
    let failed = |e| Error::io("cannot write", to, e);
    let mut target = File::create_new(to).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        monitor::check(listener)?;
        let read = source.read(&mut buffer).map_err(problem)?;
        if read == 0 {
            return target.sync_all().map_err(failed);
        }
        target.write_all(&buffer[..read]).map_err(failed)?;
        listener.advance(read as u64);
    }
}

/// A hard link, or a symbolic one where there can't be one, as to another disk.
fn link(from: &Path, to: &Path) -> Result<()> {
    let problem = |e| Error::io("cannot link", from, e);
    let from = from.canonicalize().map_err(problem)?;
    #[cfg(unix)]
    let made = fs::hard_link(&from, to).or_else(|_| std::os::unix::fs::symlink(&from, to));
    #[cfg(not(unix))]
    let made = fs::hard_link(&from, to);
    made.map_err(problem)
}

/// The folder of a set, and the one beside it where new files gather.
pub(super) struct Site {
    pub(super) folder: PathBuf,
    pub(super) staging: PathBuf,
    _lock: File,
}

impl Site {
    /// Locks the place of a set and makes the folder for new files.
    pub(super) fn open(
        entry: &Entry,
        home: &Path,
        suffix: &str,
        listener: &dyn Listener,
    ) -> Result<Site> {
        let create = |folder: &Path| {
            let hint = "name a folder that can be written to in HDSE_DATA";
            fs::create_dir_all(folder)
                .map_err(|e| Error::io("cannot create", folder, format!("{e}; {hint}")))
        };
        create(home)?;
        let folder = place(entry, home);
        let name = file_name(&folder);
        let lock_path = folder.with_file_name(format!(".{name}.lock"));
        let problem = |e| Error::io("cannot lock", &lock_path, e);
        let lock = File::create(&lock_path).map_err(problem)?;
        // Where a file system has no locks, it goes without.
        let taken = || matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock));
        if taken() {
            listener.note("another process works on this set; waiting for it");
            while taken() {
                monitor::check(listener)?;
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        let staging = folder.with_file_name(format!("{name}.{suffix}"));
        create(&staging)?;
        Ok(Site { folder, staging, _lock: lock })
    }

    /// Files of splits that are in the place.
    pub(super) fn present(&self) -> Result<Vec<PathBuf>> {
        if self.folder.is_dir() { names::in_folder(&self.folder) } else { Ok(Vec::new()) }
    }

    /// What files in the place are, if they are all `files` and nothing else.
    fn holds(&self, files: &[Pinned]) -> Result<Option<Vec<Pinned>>> {
        let splits = files.iter().filter(|file| file.name != LABEL);
        if self.present()?.len() != splits.count() {
            return Ok(None);
        }
        let before = Manifest::of_folder(&self.folder)?;
        let mut found = files.to_vec();
        for file in &mut found {
            let path = self.folder.join(&file.name);
            if !path.is_file() || Pinned::of(&path)?.sha256 != file.sha256 {
                return Ok(None);
            }
            let known = before.get(&file.name).filter(|known| known.sha256 == file.sha256);
            file.url = file.url.take().or_else(|| known?.url.clone());
        }
        Ok(Some(found))
    }

    /// An error if there are files that new ones would replace.
    pub(super) fn refuse_others(&self) -> Result<()> {
        let Some(path) = self.present()?.into_iter().min() else { return Ok(()) };
        Err(Error::config(format!(
            "{} is in the way: other files of this set are there; `--force` replaces them",
            path.display()
        )))
    }

    /// Loads what is in the place and pins it.
    fn keep(&self, set: &dyn Dataset, files: Vec<Pinned>, limit: MemoryLimit) -> Result<Installed> {
        Manifest { files: files.clone() }.write(&self.folder)?;
        let splits = load(set, &self.folder, limit)?;
        Ok(Installed { folder: self.folder.clone(), found: true, files, splits })
    }

    /// Loads the set from its new files, and moves these into their place.
    pub(super) fn finish(
        &self,
        set: &dyn Dataset,
        files: Vec<Pinned>,
        limit: MemoryLimit,
    ) -> Result<Installed> {
        let splits = load(set, &self.staging, limit)?;
        let problem = |path: &Path, e| Error::io("cannot write", path, e);
        fs::create_dir_all(&self.folder).map_err(|e| problem(&self.folder, e))?;
        // Old files go before new ones come: a crash leaves a set that lacks files, never a mixture.
        let old = self.present()?;
        for path in [self.folder.join(Manifest::NAME), self.folder.join(LABEL)].iter().chain(&old) {
            remove(path)?;
        }
        for file in &files {
            let to = self.folder.join(&file.name);
            fs::rename(self.staging.join(&file.name), &to).map_err(|e| problem(&to, e))?;
        }
        Manifest { files: files.clone() }.write(&self.folder)?;
        Ok(Installed { folder: self.folder.clone(), found: false, files, splits })
    }

    /// Removes what has gathered.
    pub(super) fn clear(&self) -> Result<()> {
        let problem = |e| Error::io("cannot empty", &self.staging, e);
        let entries = fs::read_dir(&self.staging).map_err(problem)?;
        for entry in entries.flatten() {
            remove(&entry.path())?;
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Only if it is empty.
        let _ = fs::remove_dir(&self.staging);
    }
}

/// Where a set lies or would lie. A link is followed, so that files move within one disk.
pub(super) fn place(entry: &Entry, home: &Path) -> PathBuf {
    let usual = entry.folders.first().copied().unwrap_or(entry.name);
    let mut candidates = entry.folders.iter().map(|name| home.join(name));
    match candidates.find(|folder| folder.is_dir()) {
        Some(link) if link.is_symlink() => link.canonicalize().unwrap_or(link),
        Some(folder) => folder,
        None => home.join(usual),
    }
}

pub(super) fn load(set: &dyn Dataset, folder: &Path, limit: MemoryLimit) -> Result<Splits> {
    let path = Some(folder.to_path_buf());
    set.load(&LoadOptions { path, limit, ..LoadOptions::default() })
}

/// Says which set an error is about, as loading does itself.
pub(super) fn of_set(error: Error, entry: &Entry) -> Error {
    let name = format!("set `{}`", entry.name);
    if error.to_string() == name { error } else { error.context(name) }
}

pub(super) fn refuse_generated(entry: &Entry) -> Result<()> {
    if entry.generated {
        return Err(Error::config("it is generated and needs no files"));
    }
    Ok(())
}
