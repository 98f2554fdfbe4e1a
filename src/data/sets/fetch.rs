//! Sets over the network: from mirrors, else from where they are published.
//!
//! A mirror is the folder of a user's sets, served over HTTP: `MIRROR/zinc/train.parquet` and so on. If it also
//! serves `MIRROR/zinc/hdse-data.json`, this names the files and their checksums; else there must be
//! `train.parquet`, `val.parquet` and `test.parquet`. Mirrors are asked in order, then the source in
//! [`sources`]; what one can't give, the next is asked for. Files gather beside the place of the set and are
//! kept there if the work is interrupted; `download` goes on with them.

use std::path::PathBuf;

use super::download::{Expected, Failure, download};
use super::install::{self, Installed, Listener, Site};
use super::names::{self, Name, file_name};
use super::{Dataset, Entry, LABEL, Manifest, Pinned, SPLITS, folder, sources};
use crate::data::store::remove;
use crate::{Error, MemoryLimit, Result};

/// How to fetch a set.
#[derive(Clone, Debug, Default)]
pub struct Fetch {
    /// The folder of all sets.
    pub home: PathBuf,
    /// Addresses to ask first, without the name of the set.
    pub mirrors: Vec<String>,
    /// Fetch also what is there.
    pub force: bool,
    /// Leave the network alone: an error says what would be fetched.
    pub offline: bool,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

impl Fetch {
    /// As a user's command fetches: mirrors are those of `HDSE_MIRROR`, separated by commas, and
    /// `HDSE_OFFLINE=1` leaves the network alone.
    ///
    /// # Errors
    /// If a mirror is no address.
    pub fn of_user(home: PathBuf) -> Result<Fetch> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let offline = !matches!(variable("HDSE_OFFLINE").as_str(), "" | "0");
        let mirrors = parse_mirrors(&variable("HDSE_MIRROR"))?;
        Ok(Fetch { home, mirrors, offline, ..Fetch::default() })
    }
}

/// `https://a.org/sets, http://b.org` → both, without a slash at the end.
fn parse_mirrors(text: &str) -> Result<Vec<String>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.starts_with("https://") || part.starts_with("http://") {
            true => Ok(part.trim_end_matches('/').to_string()),
            false => Err(Error::config(format!(
                "HDSE_MIRROR: `{part}` is no address; write https://HOST/FOLDER, several separated by commas"
            ))),
        })
        .collect()
}

/// The addresses that fetching a set would ask, in order.
pub fn planned(entry: &Entry, options: &Fetch) -> Vec<String> {
    let of_mirror = |base: &String| format!("{base}/{}/{}", entry.name, Manifest::NAME);
    let mut urls: Vec<String> = options.mirrors.iter().map(of_mirror).collect();
    let source = sources::of(entry.name);
    urls.extend(source.into_iter().flat_map(|source| source.urls).map(|url| url.to_string()));
    urls
}

/// Fetches a set into its folder, unless it is there, and loads it.
///
/// # Errors
/// If no source has it, it does not load, or the work is interrupted; what has come is kept in this case.
pub fn fetch(set: &dyn Dataset, options: &Fetch, listener: &dyn Listener) -> Result<Installed> {
    let entry = set.entry();
    let work = || {
        install::refuse_generated(entry)?;
        let folder = install::place(entry, &options.home);
        let there = || -> Result<Option<Installed>> {
            if options.force || folder::files_in(&folder).is_err() {
                return Ok(None);
            }
            let splits = install::load(set, &folder, options.limit)?;
            let files = Manifest::of_folder(&folder)?.files;
            Ok(Some(Installed { folder: folder.clone(), found: true, files, splits }))
        };
        if let Some(installed) = there()? {
            return Ok(installed);
        }
        if options.offline || planned(entry, options).is_empty() {
            return Err(unreachable_set(entry, options));
        }
        let site = Site::open(entry, &options.home, "part", listener)?;
        // Another process may have fetched it meanwhile.
        if let Some(installed) = there()? {
            return Ok(installed);
        }
        if !options.force {
            site.refuse_others()?;
        }
        let files = from_any(entry, options, &site, listener)?;
        let installed = site.finish(set, files, options.limit);
        if !matches!(&installed, Err(error) if !error.is_data()) {
            // Done with, or of no use.
            site.clear()?;
        }
        installed
    };
    work().map_err(|error| install::of_set(error, entry))
}

/// Why a set can't be fetched, and what to do.
fn unreachable_set(entry: &Entry, options: &Fetch) -> Error {
    let import = format!("`hdse data import {} FILES`", entry.name);
    let urls = planned(entry, options);
    let source = sources::of(entry.name);
    match source {
        _ if !urls.is_empty() => Error::io(
            "it is not in",
            &options.home,
            format!(
                "offline, so nothing is fetched; it would be from\n  {}\nor take it over by hand with {import}",
                urls.join("\n  ")
            ),
        ),
        Some(source) => Error::config(format!(
            "nobody publishes it in a form that can be read: {}; see {}, convert it to the columns of docs/formats.md \
             and put it in place with {import}, or name a mirror in HDSE_MIRROR",
            source.remark, source.page
        )),
        None => Error::config(format!("no source is known; put it in place with {import}")),
    }
}

/// Where files may come from.
enum Source<'a> {
    Mirror(&'a str),
    Public(&'static sources::Source),
}

/// A file to fetch.
struct Wanted {
    name: String,
    url: String,
    expected: Option<Expected>,
}

/// All files of a set from the first source that has them.
fn from_any(
    entry: &Entry,
    options: &Fetch,
    site: &Site,
    listener: &dyn Listener,
) -> Result<Vec<Pinned>> {
    let mirrors = options.mirrors.iter().map(|base| Source::Mirror(base));
    let public = sources::of(entry.name).filter(|source| !source.urls.is_empty());
    let mut sources = mirrors.chain(public.map(Source::Public)).peekable();
    let mut causes = Vec::new();
    while let Some(source) = sources.next() {
        match from_one(entry, options, &source, site, listener) {
            Ok(files) => return Ok(files),
            Err(Failure::Here(error)) => return Err(error),
            Err(Failure::Source { error, .. }) => {
                if sources.peek().is_some() {
                    listener.note(&format!("{error:#}; trying the next source"));
                }
                causes.push(format!("{error:#}"));
            }
        }
    }
    Err(Error::io(
        "cannot fetch it into",
        &site.folder,
        format!(
            "{}; try again later, or put it in place by hand with `hdse data import {} FILES`",
            causes.join("; "),
            entry.name
        ),
    ))
}

fn from_one(
    entry: &Entry,
    options: &Fetch,
    source: &Source,
    site: &Site,
    listener: &dyn Listener,
) -> Result<Vec<Pinned>, Failure> {
    let before = Manifest::of_folder(&site.folder).map_err(Failure::Here)?;
    let mut files = Vec::new();
    for Wanted { name, url, expected } in wanted(entry, source, site, listener)? {
        let pinned = before.get(&name);
        // What was here once must come again, unless it is to be replaced.
        let expected = expected.or_else(|| pinned.filter(|_| !options.force).map(Expected::from));
        let file = download(&url, &site.staging.join(&name), expected.as_ref(), listener)?;
        if let Some(pinned) = pinned.filter(|pinned| pinned.sha256 != file.sha256) {
            listener.note(&format!(
                "{name} is another file than before: SHA-256 {} instead of {}",
                file.sha256, pinned.sha256
            ));
        }
        files.push(file);
    }
    // What is left of other sources.
    let mut stray = names::in_folder(&site.staging).map_err(Failure::Here)?;
    stray.push(site.staging.join(LABEL));
    for path in stray.iter().filter(|path| !files.iter().any(|file| file.name == file_name(path))) {
        remove(path).map_err(Failure::Here)?;
    }
    Ok(files)
}

impl From<&Pinned> for Expected {
    fn from(file: &Pinned) -> Expected {
        Expected { bytes: file.bytes, sha256: file.sha256.clone() }
    }
}

/// The files that a source has.
fn wanted(
    entry: &Entry,
    source: &Source,
    site: &Site,
    listener: &dyn Listener,
) -> Result<Vec<Wanted>, Failure> {
    let base = match source {
        Source::Public(source) => {
            let wanted =
                |(name, url): (String, &str)| Wanted { name, url: url.into(), expected: None };
            return Ok(source.files().map(wanted).collect());
        }
        Source::Mirror(base) => format!("{base}/{}", entry.name),
    };
    let url = format!("{base}/{}", Manifest::NAME);
    let to = site.staging.join(Manifest::NAME);
    match download(&url, &to, None, listener) {
        Err(Failure::Source { missing: true, .. }) => {
            let plain = |split: &str| {
                let name = format!("{split}.parquet");
                Wanted { url: format!("{base}/{name}"), name, expected: None }
            };
            Ok(SPLITS.map(plain).into())
        }
        Err(failure) => Err(failure),
        Ok(_) => {
            let manifest = Manifest::of_folder(&site.staging);
            super::download::discard(&to);
            let manifest = manifest
                .map_err(|error| Failure::Source { error: error.context(url), missing: false })?;
            let wanted = |file: &Pinned| Wanted {
                url: format!("{base}/{}", file.name),
                expected: Some(Expected::from(file)),
                name: Name::parse(&file.name).map_or_else(|| file.name.clone(), Name::plain),
            };
            Ok(manifest.files.iter().map(wanted).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_name;
    use super::*;

    #[test]
    fn mirrors_are_addresses() {
        assert_eq!(parse_mirrors("").unwrap(), [] as [&str; 0]);
        let mirrors = parse_mirrors("https://a.org/sets/, http://b.org:80,").unwrap();
        assert_eq!(mirrors, ["https://a.org/sets", "http://b.org:80"]);
        let error = parse_mirrors("a.org").unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("`a.org` is no address"),
            "{error}"
        );
    }

    #[test]
    fn plans_name_mirrors_first() {
        let mirrors = vec!["https://a.org".to_string()];
        let options = Fetch { mirrors, ..Fetch::default() };
        let of = |name: &str, options: &Fetch| planned(by_name(name).unwrap().entry(), options);
        assert_eq!(of("zinc", &options), ["https://a.org/zinc/hdse-data.json"]);
        assert_eq!(of("zinc", &Fetch::default()), [] as [&str; 0]);
        let mnist = of("mnist", &options);
        assert_eq!(mnist.len(), 5);
        assert!(
            mnist[1].contains("graphs-datasets/MNIST") && mnist[4].contains("/test-"),
            "{mnist:?}"
        );
    }

    #[test]
    fn sets_without_files_in_reach_are_explained() {
        let home = tempfile::tempdir().unwrap();
        let fetch = |name: &str, offline: bool| {
            let options = Fetch { home: home.path().into(), offline, ..Fetch::default() };
            format!("{:#}", fetch(by_name(name).unwrap(), &options, &()).unwrap_err())
        };
        assert!(fetch("cluster-gen", false).contains("it is generated and needs no files"));
        let zinc = fetch("zinc", false);
        assert!(
            zinc.contains("nobody publishes it") && zinc.contains("data import zinc"),
            "{zinc}"
        );
        let mnist = fetch("mnist", true);
        assert!(mnist.contains("offline") && mnist.contains("/MNIST/resolve/"), "{mnist}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
