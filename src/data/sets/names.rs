//! What files of a set are called.
//!
//! A split is one file, `train.parquet`, or several, `train-00000-of-00002.parquet` and so on, as public
//! collections cut them; theirs carry a hash behind it, and call `val` also `valid` or `validation`. All
//! of these are read; what is fetched or imported gets the first form.

use std::fs;
use std::path::{Path, PathBuf};

use super::SPLITS;
use crate::{Error, Result};

/// What the files of a split may end in.
pub(super) const ENDINGS: [&str; 3] = ["parquet", "jsonl", "jsonl.gz"];

/// What a name says. In the order of which files of a split are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// Which split, as in [`SPLITS`].
    split: usize,
    /// Which of how many files.
    part: (usize, usize),
    /// Which of [`ENDINGS`].
    ending: usize,
}

impl Name {
    /// What `name` says, if it is that of a split.
    pub(super) fn parse(name: &str) -> Option<Name> {
        let (stem, ending) = (ENDINGS.iter().enumerate())
            .find_map(|(i, e)| Some((name.strip_suffix(e)?.strip_suffix('.')?, i)))?;
        let mut words = stem.split('-');
        let split = match words.next()? {
            "train" => 0,
            "val" | "valid" | "validation" => 1,
            "test" => 2,
            _ => return None,
        };
        let Some(part) = words.next() else { return Some(Name { split, part: (0, 1), ending }) };
        let number = |text: &str| {
            let digits = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<usize>().ok().filter(|_| digits)
        };
        let part = number(part)?;
        words.next().filter(|&word| word == "of")?;
        let count = number(words.next()?)?;
        let hash = words.next().is_none_or(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()));
        (part < count && hash && words.next().is_none()).then_some(Name {
            split,
            part: (part, count),
            ending,
        })
    }

    /// What the file of a path is.
    pub(super) fn of(path: &Path) -> Option<Name> {
        Name::parse(path.file_name()?.to_str()?)
    }

    /// The name in the form that is written.
    pub(super) fn plain(self) -> String {
        let (split, ending) = (SPLITS[self.split], ENDINGS[self.ending]);
        match self.part {
            (_, 1) => format!("{split}.{ending}"),
            (part, count) => format!("{split}-{part:05}-of-{count:05}.{ending}"),
        }
    }
}

/// Files of the three splits, each in order.
pub(super) type Files = [Vec<PathBuf>; 3];

/// The files in a folder that belong to splits, in no order.
pub(super) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io("cannot read", folder, e))?;
    let is_split = |path: &PathBuf| Name::of(path).is_some() && path.is_file();
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_split).collect())
}

/// Sorts files into splits, and makes sure that none is missing or there twice. `place` is where they
/// were found.
pub(super) fn group(files: Vec<PathBuf>, place: &str) -> Result<Files> {
    let mut named: Vec<(Name, PathBuf)> =
        files.into_iter().filter_map(|path| Some((Name::of(&path)?, path))).collect();
    named.sort();
    let mut splits = Files::default();
    for (split, files) in splits.iter_mut().enumerate() {
        let of_split: Vec<&(Name, PathBuf)> =
            named.iter().filter(|(name, _)| name.split == split).collect();
        let Some((first, _)) = of_split.first() else {
            return Err(Error::config(format!("no {} file in {place}", SPLITS[split])));
        };
        let count = first.part.1;
        for part in 0..count {
            let expected = Name { part: (part, count), ..*first };
            match of_split.get(part) {
                Some((name, path)) if *name == expected => files.push(path.clone()),
                _ => {
                    return Err(Error::config(format!("no {} in {place}", expected.plain())));
                }
            }
            // The next one must be of the next part.
            if let (Some((_, one)), Some((next, other))) =
                (of_split.get(part), of_split.get(part + 1))
                && (next.part.0 <= part || part + 1 == count)
            {
                return Err(Error::config(format!(
                    "{} and {} are both there; keep one",
                    one.display(),
                    file_name(other)
                )));
            }
        }
    }
    Ok(splits)
}

/// The last part of a path.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_public_collections_become_plain() {
        for (name, plain) in [
            ("train.parquet", "train.parquet"),
            ("valid.jsonl", "val.jsonl"),
            ("validation.jsonl.gz", "val.jsonl.gz"),
            ("test-00000-of-00001.parquet", "test.parquet"),
            ("validation-00000-of-00001-02aa90c76bb53982.parquet", "val.parquet"),
            ("train-1-of-3.parquet", "train-00001-of-00003.parquet"),
            ("train-00001-of-00003-36b922402e91bbb7.parquet", "train-00001-of-00003.parquet"),
        ] {
            let parsed = Name::parse(name).unwrap();
            assert_eq!(parsed.plain(), plain);
            assert_eq!(Name::parse(plain), Some(parsed), "{name}");
        }
        for name in [
            "train",
            "train.csv",
            "trainparquet",
            "training.parquet",
            "../train.parquet",
            "train-.parquet",
            "train-3-of-3.parquet",
            "train-00000.parquet",
            "train-+1-of-2.parquet",
            "train-0-of-1-x.parquet",
            "train-0-of-1-ab-c.parquet",
            "train-0000000-of-0000001.parquet",
            "label.txt",
            "",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }

    #[test]
    fn splits_are_whole_and_in_order() {
        let sorted = |names: &[&str]| {
            group(names.iter().map(PathBuf::from).collect(), "here").map(|files| {
                files.map(|files| files.iter().map(|f| file_name(f)).collect::<Vec<_>>().join(" "))
            })
        };
        let files =
            ["test.jsonl", "train-1-of-2.parquet", "train-0-of-2.parquet", "val.parquet", "x"];
        let expected = ["train-0-of-2.parquet train-1-of-2.parquet", "val.parquet", "test.jsonl"];
        assert_eq!(sorted(&files).unwrap(), expected);
        for (change, expected) in [
            (("val.parquet", "y"), "no val file in here"),
            (("train-0-of-2.parquet", "y"), "no train-00000-of-00002.parquet in here"),
            (("train-1-of-2.parquet", "y"), "no train-00001-of-00002.parquet in here"),
            (
                ("train-1-of-2.parquet", "train-1-of-2.jsonl"),
                "no train-00001-of-00002.parquet in here",
            ),
            (("x", "train.jsonl"), "are both there; keep one"),
            (("x", "valid.parquet"), "val.parquet and valid.parquet are both there; keep one"),
            (("x", "test.parquet"), "test.parquet and test.jsonl are both there; keep one"),
            (("x", "train-0-of-2.jsonl"), "are both there; keep one"),
            (("x", "train-1-of-2-ab.parquet"), "are both there; keep one"),
        ] {
            let files = files.map(|name| if name == change.0 { change.1 } else { name });
            let error = sorted(&files).unwrap_err().to_string();
            assert!(error.contains(expected), "{change:?}: {error}");
        }
    }
}
