//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// A file written under a temporary name beside its place and renamed into it by
/// [`AtomicFile::commit`]. Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicFile {
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl AtomicFile {
    /// Opens the temporary file.
    ///
    /// # Errors
    /// If `path` exists and `replace` is false, or the folder can't be written to.
    pub fn create(path: &Path, replace: bool) -> Result<AtomicFile> {
        let name = path
            .file_name()
            .filter(|name| *name != "-")
            .ok_or_else(|| Error::config(format!("`{}` does not name a file", path.display())))?;
        // A link is followed, so that what it points to is written and the link stays.
        let path = match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                path.canonicalize().map_err(|e| Error::io("cannot follow the link", path, e))?
            }
            _ => path.to_path_buf(),
        };
        match path.metadata() {
            Ok(found) if found.is_dir() => {
                return Err(Error::config(format!(
                    "{} is a directory; name a file",
                    path.display()
                )));
            }
            Ok(found) if !found.is_file() => {
                return Err(Error::config(format!("{} is not a regular file", path.display())));
            }
            Ok(_) if !replace => {
                return Err(Error::config(format!(
                    "{} exists; choose another name, or replace it with `--force`",
                    path.display()
                )));
            }
            _ => {}
        }
        let temporary =
            path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        // Left by a killed process that had the same number.
        let _ = fs::remove_file(&temporary);
        let file = File::create_new(&temporary)
            .map_err(|e| Error::io("cannot create", &path, explain_missing_folder(&path, e)))?;
        open_files().push(temporary.clone());
        Ok(AtomicFile { file: Some(file), temporary, path })
    }

    /// Removes every file that is being written. For a process about to end.
    pub fn discard_all() {
        for temporary in open_files().drain(..) {
            let _ = fs::remove_file(temporary);
        }
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to disk and moves it into place.
    pub fn commit(mut self) -> Result<()> {
        let problem = |e| Error::io("cannot write", &self.path, e);
        if let Some(file) = self.file.take() {
            file.sync_all().map_err(problem)?;
        }
        fs::rename(&self.temporary, &self.path).map_err(problem)?;
        // The rename itself must survive a crash too; a folder that can't be synced is no error.
        if let Some(folder) = self.path.parent().and_then(|p| File::open(p).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

/// Temporary names of all files being written.
fn open_files() -> MutexGuard<'static, Vec<PathBuf>> {
    static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn explain_missing_folder(path: &Path, error: io::Error) -> String {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.exists() => {
            format!("folder {} does not exist; create it first", folder.display())
        }
        _ => error.to_string(),
    }
}

impl AtomicFile {
    fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("file is closed"))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file()?.seek(to)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit the temporary name is gone already.
        let _ = fs::remove_file(&self.temporary);
        open_files().retain(|path| *path != self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut file = AtomicFile::create(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        let mut file = AtomicFile::create(&path, false).unwrap();
        file.write_all(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        assert!(AtomicFile::create(&path, false).unwrap_err().is_config());
        AtomicFile::create(&path, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            let mut file = AtomicFile::create(&link, true).unwrap();
            file.write_all(b"through").unwrap();
            file.commit().unwrap();
            assert!(link.symlink_metadata().unwrap().is_symlink());
            assert_eq!(fs::read(&path).unwrap(), b"through");
            assert!(AtomicFile::create(Path::new("/dev/null"), true).unwrap_err().is_config());
        }
        assert!(AtomicFile::create(Path::new("-"), true).is_err());
        let nowhere = AtomicFile::create(&folder.path().join("x/y"), false).unwrap_err();
        assert!(nowhere.to_string().contains("does not exist; create it first"), "{nowhere}");
    }
}
