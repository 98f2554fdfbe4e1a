//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
        if path.is_dir() {
            return Err(Error::config(format!("{} is a directory; name a file", path.display())));
        }
        if !replace && path.exists() {
            return Err(Error::config(format!(
                "{} exists; choose another name, or replace it with `--force`",
                path.display()
            )));
        }
        let name = path
            .file_name()
            .ok_or_else(|| Error::config(format!("`{}` does not name a file", path.display())))?;
        let temporary =
            path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        let file = File::create(&temporary)
            .map_err(|e| Error::io("cannot create", path, explain_missing_folder(path, e)))?;
        Ok(AtomicFile { file: Some(file), temporary, path: path.to_path_buf() })
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
        let nowhere = AtomicFile::create(&folder.path().join("x/y"), false).unwrap_err();
        assert!(nowhere.to_string().contains("does not exist; create it first"), "{nowhere}");
    }
}
