//! A server of files that breaks off, is slow, forgets and changes its mind, as asked.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a server does to one request instead of answering it.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Answers with a status, and nothing else.
    Status(u16),
    /// Closes the connection after so many bytes of the body.
    Cut(usize),
    /// Sends so many bytes and then a few more every now and then.
    Slow(usize),
}

/// A request as it came, and the status of the answer.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub range: Option<String>,
    pub if_range: Option<String>,
    pub status: u16,
}

#[derive(Default)]
pub struct State {
    pub files: HashMap<String, Vec<u8>>,
    /// To come, by path.
    pub faults: HashMap<String, VecDeque<Fault>>,
    pub no_ranges: bool,
    pub no_tags: bool,
    pub log: Vec<Request>,
}

pub struct Server {
    pub url: String,
    pub state: Arc<Mutex<State>>,
}

impl Server {
    pub fn new(files: &[(&str, Vec<u8>)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = files.iter().map(|(path, bytes)| (path.to_string(), bytes.clone())).collect();
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), shared.clone());
                // A client that goes away is part of the tests.
                std::thread::spawn(move || {
                    let _ = answer(stream, &state);
                });
            }
        });
        Server { url, state }
    }

    /// A mirror of a folder with sets.
    pub fn mirror(home: &Path) -> Server {
        let mut files = Vec::new();
        for set in
            std::fs::read_dir(home).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir())
        {
            for file in std::fs::read_dir(&set).unwrap().map(|e| e.unwrap().path()) {
                let path = format!("/{}", file.strip_prefix(home).unwrap().display());
                files.push((path, std::fs::read(file).unwrap()));
            }
        }
        let files: Vec<_> =
            files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
        Server::new(&files)
    }

    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    pub fn fault(&self, path: &str, fault: Fault) {
        self.set(|state| state.faults.entry(path.into()).or_default().push_back(fault));
    }

    pub fn log(&self) -> Vec<Request> {
        self.state.lock().unwrap().log.clone()
    }

    /// Requests for files that end like this.
    pub fn asked(&self, end: &str) -> Vec<Request> {
        self.log().into_iter().filter(|request| request.path.ends_with(end)).collect()
    }
}

pub fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", &blake3::hash(bytes).to_hex()[..16])
}

fn answer(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut first = [0];
    if stream.peek(&mut first)? == 0 || first != *b"G" {
        return (&stream).write_all(b"HTTP/1.1 400 X\r\n\r\n");
    }
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let path = lines.next().unwrap()?.split(' ').nth(1).unwrap().to_string();
    let (mut range, mut if_range) = (None, None);
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => range = Some(value.to_string()),
            "if-range" => if_range = Some(value.to_string()),
            _ => {}
        }
    }
    let (head, body, fault) = {
        let mut state = state.lock().unwrap();
        let fault = state.faults.get_mut(&path).and_then(VecDeque::pop_front);
        let file = state.files.get(&path).cloned();
        let wish = range
            .as_deref()
            .and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (status, headers, body) = match (file, fault) {
            (None, _) if path.starts_with("/moved/") => {
                (302, format!("Location: {}\r\n", &path["/moved".len()..]), Vec::new())
            }
            (_, Some(Fault::Status(status))) => {
                (status, "Retry-After: 0\r\n".to_string(), Vec::new())
            }
            (None, _) => (404, String::new(), b"not here".to_vec()),
            (Some(file), _) => {
                let same = if_range.as_ref().is_none_or(|version| *version == tag(&file));
                let mut headers = String::new();
                if !state.no_tags {
                    headers = format!("ETag: {}\r\n", tag(&file));
                }
                match wish {
                    Some(start) if !state.no_ranges && same && start < file.len() => {
                        let (last, total) = (file.len() - 1, file.len());
                        headers += &format!("Content-Range: bytes {start}-{last}/{total}\r\n");
                        (206, headers, file[start..].to_vec())
                    }
                    _ => (200, headers, file),
                }
            }
        };
        state.log.push(Request { path, range, if_range, status });
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
        );
        (head, body, fault)
    };
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    match fault {
        Some(Fault::Cut(bytes)) => stream.write_all(&body[..bytes.min(body.len())])?,
        Some(Fault::Slow(bytes)) => {
            stream.write_all(&body[..bytes])?;
            for piece in body[bytes..].chunks(10) {
                stream.flush()?;
                std::thread::sleep(Duration::from_millis(200));
                stream.write_all(piece)?;
            }
        }
        _ => stream.write_all(&body)?,
    }
    stream.flush()
}
