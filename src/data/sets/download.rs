//! One file over HTTP, going on where an earlier attempt stopped.
//!
//! Beside the file, `NAME.json` says where its bytes came from and how the server tells versions apart (`ETag`,
//! else `Last-Modified`). With these, an interrupted download asks for the rest only if the file is still the
//! same (`If-Range`, RFC 9110 section 13.1.5); a server that can't do this sends all of it again. A thread talks
//! to the network, so that Ctrl-C is heard however slow that is.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::install::Listener;
use super::manifest::Pinned;
use super::names::file_name;
use crate::Error;

/// Attempts without progress before a source is given up.
const ATTEMPTS: u32 = 5;

/// The wait after the first failure; it doubles with every further one.
const WAIT: Duration = Duration::from_millis(250);

/// The longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// What a file should be.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub bytes: u64,
    pub sha256: String,
}

/// Why there is no file.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source does not have it, or not now, or it is not what was expected: another source may do.
    Source { error: Error, missing: bool },
    /// No source would help: interrupted, disk full.
    Here(Error),
}

/// Why an attempt failed.
enum Trouble {
    /// It may work next time; the server may say when.
    Passing(String, Option<Duration>),
    Final(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Final(failure)
    }
}

/// Where the bytes of a partial file came from.
#[derive(Serialize, Deserialize)]
struct Origin {
    url: String,
    /// `ETag` or `Last-Modified`.
    version: Option<String>,
    total: Option<u64>,
}

impl Origin {
    fn path(of: &Path) -> PathBuf {
        of.with_file_name(format!("{}.json", file_name(of)))
    }

    fn read(of: &Path) -> Option<Origin> {
        serde_json::from_slice(&fs::read(Origin::path(of)).ok()?).ok()
    }

    fn write(&self, of: &Path) -> Result<(), Failure> {
        let path = Origin::path(of);
        let text = serde_json::to_vec(self).expect("plain data always serialise");
        fs::write(&path, text).map_err(|e| here("cannot write", &path, e))
    }
}

fn here(action: &str, path: &Path, cause: std::io::Error) -> Failure {
    Failure::Here(Error::io(action, path, cause))
}

fn of_source(url: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::Source { error: Error::io("cannot fetch", url, cause), missing: false }
}

fn interrupted(to: &Path) -> Failure {
    let folder = to.parent().unwrap_or(to).display();
    Failure::Here(Error::interrupted_but(format!(
        "interrupted; what has come is kept in {folder}, and the same command goes on from there"
    )))
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |data| data.len())
}

/// Forgets a partial file.
pub(super) fn discard(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(Origin::path(path));
}

/// Fetches `url` to `to`, or the rest of it, and says what it is.
pub(super) fn download(
    url: &str,
    to: &Path,
    expected: Option<&Expected>,
    listener: &dyn Listener,
) -> Result<Pinned, Failure> {
    let mut has_old_bytes = length(to) > 0;
    loop {
        complete(url, to, expected, listener)?;
        let mut file = Pinned::of(to).map_err(Failure::Here)?;
        match expected {
            Some(expected) if file.sha256 != expected.sha256 => {
                discard(to);
                // Those of an earlier run may be of a file that was replaced since.
                if !std::mem::take(&mut has_old_bytes) {
                    let cause = format!("SHA-256 is {}, not {}", file.sha256, expected.sha256);
                    return Err(of_source(url, cause));
                }
            }
            _ => {
                file.url = Some(url.to_string());
                return Ok(file);
            }
        }
    }
}

/// Asks until all bytes are there.
fn complete(
    url: &str,
    to: &Path,
    expected: Option<&Expected>,
    listener: &dyn Listener,
) -> Result<(), Failure> {
    let (mut failures, mut furthest) = (0, length(to));
    while let Err(trouble) = attempt(url, to, expected, listener) {
        let (cause, asked) = match trouble {
            Trouble::Final(failure) => return Err(failure),
            Trouble::Passing(cause, asked) => (cause, asked),
        };
        if length(to) > furthest {
            (failures, furthest) = (0, length(to));
        }
        failures += 1;
        if failures == ATTEMPTS {
            return Err(of_source(url, format!("{cause}, {ATTEMPTS} times")));
        }
        let wait = asked.unwrap_or(WAIT * 2_u32.pow(failures - 1)).min(LONGEST_WAIT);
        listener.note(&format!("{}: {cause}; trying again", file_name(to)));
        pause(wait, to, listener)?;
    }
    Ok(())
}

/// Waits, unless the work is to stop.
fn pause(wait: Duration, to: &Path, listener: &dyn Listener) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < wait {
        if listener.stopped() {
            return Err(interrupted(to));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn attempt(
    url: &str,
    to: &Path,
    expected: Option<&Expected>,
    listener: &dyn Listener,
) -> Result<(), Trouble> {
    let mut have = length(to);
    let origin = Origin::read(to).filter(|origin| origin.url == url && have > 0);
    let (version, total) = origin.map_or((None, None), |origin| (origin.version, origin.total));
    if have > 0 && total == Some(have) {
        return Ok(());
    }
    let answers = ask(url.to_string(), version.map(|version| (have, version)));
    let head = match next(&answers, to, listener)? {
        Answer::Head(head) => head,
        _ => return Err(Trouble::Passing("no answer".into(), None)),
    };
    match head.status {
        206 if head.range.is_some_and(|(start, _)| start == have) => {}
        200 => have = 0,
        206 | 416 => {
            discard(to);
            return Err(Trouble::Passing("the server has another file now".into(), None));
        }
        408 | 429 | 500..=599 => {
            return Err(Trouble::Passing(format!("HTTP status {}", head.status), head.retry_after));
        }
        status => {
            let error = Error::io("cannot fetch", url, format!("HTTP status {status}"));
            return Err(Failure::Source { error, missing: matches!(status, 404 | 410) }.into());
        }
    }
    let total = head.range.map_or(head.length, |(_, total)| total);
    if let (Some(expected), Some(total)) = (expected, total)
        && expected.bytes != total
    {
        discard(to);
        let cause = format!("{total} bytes long, not {}", expected.bytes);
        return Err(of_source(url, cause).into());
    }
    let failed = |e| here("cannot write", to, e);
    if have == 0 {
        discard(to);
    }
    let mut origin = Origin { url: url.to_string(), version: head.version, total };
    origin.write(to)?;
    let mut file = OpenOptions::new().create(true).append(true).open(to).map_err(failed)?;
    listener.file(&file_name(to), have, total);
    while let Answer::Bytes(bytes) = next(&answers, to, listener)? {
        file.write_all(&bytes).map_err(failed)?;
        listener.advance(bytes.len() as u64);
    }
    file.sync_all().map_err(failed)?;
    let done = length(to);
    match total {
        Some(total) if done != total => Err(Trouble::Passing(
            format!("the connection broke after {done} of {total} bytes"),
            None,
        )),
        Some(_) => Ok(()),
        // Its end tells how long it is.
        None => {
            origin.total = Some(done);
            Ok(origin.write(to)?)
        }
    }
}

/// What the thread that talks to the network has to say.
enum Answer {
    Head(Head),
    Bytes(Vec<u8>),
    End,
}

type Answers = Receiver<Result<Answer, Trouble>>;

/// What a server says before it sends a file.
struct Head {
    status: u16,
    /// Length of what is sent.
    length: Option<u64>,
    /// First byte of what is sent, and length of the whole file.
    range: Option<(u64, Option<u64>)>,
    /// What tells versions of the file apart.
    version: Option<String>,
    retry_after: Option<Duration>,
}

impl Head {
    fn new(status: u16, header: impl Fn(&str) -> Option<String>) -> Head {
        let number = |name| header(name).and_then(|text| text.trim().parse::<u64>().ok());
        // Weak tags do not promise equal bytes.
        let tag = header("etag").filter(|tag| tag.starts_with('"'));
        Head {
            status,
            length: number("content-length"),
            range: header("content-range").and_then(|text| parse_range(&text)),
            version: tag.or_else(|| header("last-modified")),
            retry_after: number("retry-after").map(Duration::from_secs),
        }
    }
}

/// `bytes 100-199/1000` → (100, 1000).
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}

/// Starts to fetch `url` in a thread: all of it, or from a byte on if it is still of a version.
fn ask(url: String, from: Option<(u64, String)>) -> Answers {
    // So few that memory stays small, so many that writing need not wait.
    let (sender, receiver) = sync_channel(16);
    std::thread::spawn(move || {
        if let Err(trouble) = talk(&url, from, &sender) {
            let _ = sender.send(Err(trouble));
        }
    });
    receiver
}

/// Sends all answers, or stops once nobody listens.
fn talk(
    url: &str,
    from: Option<(u64, String)>,
    sender: &SyncSender<Result<Answer, Trouble>>,
) -> Result<(), Trouble> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        // What is asked for over TLS must come over TLS, after redirects too.
        .https_only(url.starts_with("https://"))
        .user_agent(concat!("hdse/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(SILENCE))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .build()
        .new_agent();
    let mut request = agent.get(url);
    if let Some((start, version)) = from {
        request = request.header("Range", format!("bytes={start}-")).header("If-Range", version);
    }
    let response = request.call().map_err(|error| explain(url, &error))?;
    let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
    let head = Head::new(response.status().as_u16(), header);
    if sender.send(Ok(Answer::Head(head))).is_err() {
        return Ok(());
    }
    let mut body = response.into_body().into_reader();
    loop {
        let mut bytes = vec![0; 1 << 16];
        let read = body.read(&mut bytes).map_err(|e| Trouble::Passing(e.to_string(), None))?;
        bytes.truncate(read);
        let answer = if read == 0 { Answer::End } else { Answer::Bytes(bytes) };
        if sender.send(Ok(answer)).is_err() || read == 0 {
            return Ok(());
        }
    }
}

/// Whether a failed request may work another time.
fn explain(url: &str, error: &ureq::Error) -> Trouble {
    use ureq::Error as E;
    match error {
        // A certificate that does not fit, or no TLS at all.
        E::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
            of_source(url, error).into()
        }
        E::Io(_) | E::Timeout(_) | E::ConnectionFailed | E::Protocol(_) => {
            Trouble::Passing(error.to_string(), None)
        }
        _ => of_source(url, error).into(),
    }
}

/// The next answer of the thread.
fn next(answers: &Answers, to: &Path, listener: &dyn Listener) -> Result<Answer, Trouble> {
    loop {
        if listener.stopped() {
            return Err(interrupted(to).into());
        }
        match answers.recv_timeout(Duration::from_millis(50)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Trouble::Passing("the connection broke".into(), None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_what_is_sent() {
        let head = |headers: &[(&str, &str)]| {
            Head::new(206, |name| {
                headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            })
        };
        let full = head(&[
            ("content-length", "100"),
            ("content-range", "bytes 900-999/1000"),
            ("etag", "\"abc\""),
            ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("retry-after", "7"),
        ]);
        assert_eq!((full.length, full.range), (Some(100), Some((900, Some(1000)))));
        assert_eq!(full.version.as_deref(), Some("\"abc\""));
        assert_eq!(full.retry_after, Some(Duration::from_secs(7)));
        let weak = head(&[("etag", "W/\"abc\""), ("last-modified", "then")]);
        assert_eq!(weak.version.as_deref(), Some("then"));
        assert_eq!(head(&[("etag", "W/\"abc\"")]).version, None);
        for (text, expected) in [
            ("bytes 5-9/*", Some((5, None))),
            ("bytes */1000", None),
            ("bytes x-9/10", None),
            ("lines 5-9/10", None),
            ("", None),
        ] {
            assert_eq!(parse_range(text), expected, "{text}");
        }
    }
}
