//! Curves for TensorBoard: scalars as they come, in its event files.
//!
//! An event file is a sequence of records, each framed so that a reader finds damage (TFRecord of TensorFlow,
//! Abadi et al., OSDI 2016):
//!
//! ```text
//! length   u64, little-endian
//! check    u32, masked CRC-32C of the eight bytes of the length
//! data     `length` bytes: one `Event`
//! check    u32, masked CRC-32C of the data
//! ```
//!
//! CRC-32C is the cyclic redundancy check of Castagnoli, Bräuer & Herrmann (IEEE Transactions on
//! Communications, 1993). Masked means turned right by 15 bits, plus 0xA282EAD8: a check over bytes that hold
//! checks would be a weak one. Events are protocol buffers, of which these fields are used:
//!
//! | message | fields, by number |
//! |---|---|
//! | `Event` | 1 `wall_time` (double), 2 `step` (int64), and one of 3 `file_version` (string), 5 `summary`, 7 `session_log` |
//! | `Summary` | 1 `value`, any number of times |
//! | `Value` | 1 `tag` (string), 2 `simple_value` (float) |
//! | `SessionLog` | 1 `status`, where 1 is the start of a session |
//!
//! Files are called `events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER`. TensorBoard reads those of a folder in
//! the order of their names, as one run; what exists is never touched. So whoever resumes a run makes a new
//! writer in the same folder, and says with [`EventWriter::restart`] from which step on the old points no longer
//! count. A record is one write to the file, without a buffer: what was written survives if the process is killed.
//!
//! The clock is never read. With the same arguments in the same process, a file has the same bytes.
//!
//! ```
//! use hdse::train::EventWriter;
//! # let folder = std::env::temp_dir().join(format!("hdse-events-{}", std::process::id()));
//! let mut events = EventWriter::create(&folder, 1_700_000_000, Some("node7"))?;
//! for step in 0..3 {
//!     events.scalar(1_700_000_000.5 + step as f64, step, "train/loss", 1.0 / (1.0 + step as f32))?;
//! }
//! let name = events.path().file_name().unwrap().to_string_lossy().into_owned();
//! assert!(name.starts_with("events.out.tfevents.1700000000.node7."));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), hdse::Error>(())
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// How names of event files begin; TensorBoard takes any file with `tfevents` in its name.
const PREFIX: &str = "events.out.tfevents.";

/// Digits of the seconds in a name. With always as many, names sort as times do.
const SECONDS_DIGITS: usize = 10;

/// Writes one event file.
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    path: PathBuf,
    len: u64, // bytes of whole records
}

impl EventWriter {
    /// Starts a new event file in `folder`, which is made if it does not exist.
    ///
    /// `seconds` is the time since 1970; if the folder has an event file of that second or a later one, the name
    /// gets the next second after it, so that the new file is read last. `host` is a part of the name only:
    /// that of this machine unless given, with `-` for characters that do not belong into names.
    ///
    /// # Errors
    /// If the folder can't be made, read or written to.
    pub fn create(folder: &Path, seconds: u64, host: Option<&str>) -> Result<EventWriter> {
        fs::create_dir_all(folder).map_err(|e| Error::io("cannot make the folder", folder, e))?;
        let found = times_of_files(folder)?;
        let time = found.iter().max().map_or(seconds, |latest| seconds.max(latest + 1));
        let host = host.map_or_else(host_name, str::to_string);
        let name = format!(
            "{PREFIX}{time:0SECONDS_DIGITS$}.{}.{}.{}",
            name_part(&host),
            std::process::id(),
            found.len()
        );
        let path = folder.join(name);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| Error::io("cannot create", &path, e))?;
        let mut writer = EventWriter { file, path, len: 0 };
        writer.write(&event(seconds as f64, 0, |event| bytes_field(event, 3, b"brain.Event:2")))?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a point to the curve `tag`. A slash in a tag makes a group: `train/loss`. Values may be infinite or NaN,
    /// which TensorBoard marks.
    ///
    /// # Errors
    /// If the tag is empty, the time is not finite, the step is 2⁶³ or more, or the file can't be written.
    pub fn scalar(&mut self, wall_time: f64, step: u64, tag: &str, value: f32) -> Result<()> {
        if tag.is_empty() {
            return Err(Error::config(
                "a curve of TensorBoard has no tag; name it, as `train/loss`",
            ));
        }
        check_place(wall_time, step)?;
        let mut point = Vec::new();
        bytes_field(&mut point, 1, tag.as_bytes());
        float_field(&mut point, 2, value);
        let mut summary = Vec::new();
        bytes_field(&mut summary, 1, &point);
        self.write(&event(wall_time, step, |event| bytes_field(event, 5, &summary)))
    }

    /// Says that a run was resumed: points of earlier files at `step` or after it no longer count.
    ///
    /// # Errors
    /// If the time is not finite, the step is 2⁶³ or more, or the file can't be written.
    pub fn restart(&mut self, wall_time: f64, step: u64) -> Result<()> {
        check_place(wall_time, step)?;
        let mut log = Vec::new();
        number_field(&mut log, 1, 1);
        self.write(&event(wall_time, step, |event| bytes_field(event, 7, &log)))
    }

    fn write(&mut self, event: &[u8]) -> Result<()> {
        let record = framed(event);
        if let Err(error) = self.file.write_all(&record) {
            // A record cut short would hide all that follow it.
            let _ = self.file.set_len(self.len);
            return Err(Error::io("cannot write", &self.path, error));
        }
        self.len += record.len() as u64;
        Ok(())
    }
}

/// The seconds in the names of all event files of a folder.
fn times_of_files(folder: &Path) -> Result<Vec<u64>> {
    let problem = |e| Error::io("cannot list", folder, e);
    let mut times = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let name = entry.map_err(problem)?.file_name();
        times.extend(time_of_file(&name.to_string_lossy()));
    }
    Ok(times)
}

/// `events.out.tfevents.1700000000.node7.12.0` → 1700000000.
fn time_of_file(name: &str) -> Option<u64> {
    let (digits, _) = name.strip_prefix(PREFIX)?.split_once('.')?;
    digits.parse().ok().filter(|_| digits.len() == SECONDS_DIGITS)
}

/// The name of this machine, or `localhost` where it can't be read.
fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_string())
}

fn name_part(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Refuses what TensorBoard would not show, or shows elsewhere.
fn check_place(wall_time: f64, step: u64) -> Result<()> {
    if !wall_time.is_finite() {
        return Err(Error::config(format!(
            "{wall_time} is no time of an event; give seconds since 1970"
        )));
    }
    if i64::try_from(step).is_err() {
        return Err(Error::config(format!(
            "step {step} is too large for TensorBoard, which counts to 2⁶³ - 1"
        )));
    }
    Ok(())
}

/// A record around `data`.
fn framed(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(len);
    record.extend(masked(crc32c(&len)).to_le_bytes());
    record.extend(data);
    record.extend(masked(crc32c(data)).to_le_bytes());
    record
}

fn masked(check: u32) -> u32 {
    check.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// CRC-32C, a byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |check, &byte| REMAINDERS[usize::from(check as u8 ^ byte)] ^ (check >> 8))
}

/// What every byte leaves after division by the Castagnoli polynomial, lowest bit first.
const REMAINDERS: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = if remainder & 1 == 1 { 0x82F6_3B78 } else { 0 };
            remainder = (remainder >> 1) ^ carry;
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// An `Event` with time, step and what `fill` adds.
fn event(wall_time: f64, step: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut event = Vec::new();
    key(&mut event, 1, FIXED_64);
    event.extend(wall_time.to_le_bytes());
    number_field(&mut event, 2, step);
    fill(&mut event);
    event
}

// How the value of a field of a protocol buffer is laid out.
const VARIABLE: u64 = 0;
const FIXED_64: u64 = 1;
const WITH_LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

fn key(message: &mut Vec<u8>, field: u64, layout: u64) {
    variable(message, field << 3 | layout);
}

fn number_field(message: &mut Vec<u8>, field: u64, number: u64) {
    key(message, field, VARIABLE);
    variable(message, number);
}

fn float_field(message: &mut Vec<u8>, field: u64, number: f32) {
    key(message, field, FIXED_32);
    message.extend(number.to_le_bytes());
}

fn bytes_field(message: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    key(message, field, WITH_LENGTH);
    variable(message, bytes.len() as u64);
    message.extend(bytes);
}

/// Seven bits per byte, lowest first; the eighth says that more follow.
fn variable(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a field holds, as its layout tells.
    #[derive(Clone, Debug, PartialEq)]
    enum Field {
        Number(u64),
        Double(f64),
        Float(u32), // bits, so that NaN equals itself
        Bytes(Vec<u8>),
    }

    fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
        let (head, tail) = bytes.split_first_chunk::<N>().unwrap();
        *bytes = tail;
        *head
    }

    fn take_variable(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let [byte] = take(bytes);
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn fields(mut message: &[u8]) -> Vec<(u64, Field)> {
        let mut found = Vec::new();
        while !message.is_empty() {
            let key = take_variable(&mut message);
            let field = match key & 7 {
                VARIABLE => Field::Number(take_variable(&mut message)),
                FIXED_64 => Field::Double(f64::from_le_bytes(take(&mut message))),
                FIXED_32 => Field::Float(u32::from_le_bytes(take(&mut message))),
                WITH_LENGTH => {
                    let len = take_variable(&mut message) as usize;
                    let (bytes, rest) = message.split_at(len);
                    message = rest;
                    Field::Bytes(bytes.to_vec())
                }
                other => panic!("layout {other}"),
            };
            found.push((key >> 3, field));
        }
        found
    }

    /// The remainder by long division, bit by bit.
    fn slow_crc32c(bytes: &[u8]) -> u32 {
        let mut check = !0u32;
        for byte in bytes {
            for bit in 0..8 {
                let odd = (check ^ u32::from(byte >> bit)) & 1 == 1;
                check = if odd { (check >> 1) ^ 0x82F6_3B78 } else { check >> 1 };
            }
        }
        !check
    }

    /// The events of a file, all checks checked.
    fn read(path: &Path) -> Vec<Vec<(u64, Field)>> {
        let bytes = fs::read(path).unwrap();
        let mut rest = &bytes[..];
        let mut events = Vec::new();
        let check = |bytes: &[u8]| slow_crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8);
        while !rest.is_empty() {
            let len: [u8; 8] = take(&mut rest);
            assert_eq!(u32::from_le_bytes(take(&mut rest)), check(&len));
            let (data, tail) = rest.split_at(u64::from_le_bytes(len) as usize);
            rest = tail;
            assert_eq!(u32::from_le_bytes(take(&mut rest)), check(data));
            events.push(fields(data));
        }
        events
    }

    fn start(time: f64) -> Vec<(u64, Field)> {
        vec![
            (1, Field::Double(time)),
            (2, Field::Number(0)),
            (3, Field::Bytes(b"brain.Event:2".to_vec())),
        ]
    }

    /// Time, step, tag and bits of the value.
    fn point(event: &[(u64, Field)]) -> (f64, u64, String, u32) {
        let [(1, Field::Double(time)), (2, Field::Number(step)), (5, Field::Bytes(summary))] =
            event
        else {
            panic!("{event:?}")
        };
        let [(1, Field::Bytes(value))] = &fields(summary)[..] else { panic!("{summary:?}") };
        let [(1, Field::Bytes(tag)), (2, Field::Float(bits))] = &fields(value)[..] else {
            panic!("{value:?}")
        };
        (*time, *step, String::from_utf8(tag.clone()).unwrap(), *bits)
    }

    #[test]
    fn checks_have_their_standard_values() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
        // From RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    proptest! {
        #[test]
        fn points_come_back(
            points in proptest::collection::vec(
                (0.0..4e9f64, 0..=i64::MAX as u64, "[a-zä/ ]{1,200}", any::<u32>()), 0..20
            )
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut events = EventWriter::create(folder.path(), 12, Some("h")).unwrap();
            for (time, step, tag, bits) in &points {
                events.scalar(*time, *step, tag, f32::from_bits(*bits)).unwrap();
            }
            let found = read(events.path());
            prop_assert_eq!(&found[0], &start(12.0));
            let found: Vec<_> = found[1..].iter().map(|event| point(event)).collect();
            prop_assert_eq!(found, points);
        }

        #[test]
        fn checks_are_those_of_long_division(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(crc32c(&bytes), slow_crc32c(&bytes));
        }
    }

    #[test]
    fn what_is_written_is_there_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventWriter::create(folder.path(), 12, None).unwrap();
        for step in 0..5 {
            assert_eq!(read(events.path()).len() as u64, 1 + step);
            events.scalar(1.5, step, "a", 0.5).unwrap();
            assert_eq!(fs::metadata(events.path()).unwrap().len(), events.len);
        }
    }

    #[test]
    fn resuming_adds_a_file_that_is_read_last() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        // The same second again, a later one, and a clock that was set back.
        for (i, seconds) in [100, 100, 2_000_000_000, 50].into_iter().enumerate() {
            let mut events = EventWriter::create(&folder, seconds, Some("h")).unwrap();
            events.restart(seconds as f64, 7).unwrap();
            events.scalar(seconds as f64, 7, "a", i as f32).unwrap();
            let found = read(events.path());
            assert_eq!(found[0], start(seconds as f64));
            assert_eq!(found[1][2], (7, Field::Bytes(vec![8, 1])));
            assert_eq!(point(&found[2]).3, (i as f32).to_bits());
            files.push((events.path().to_path_buf(), fs::read(events.path()).unwrap()));
        }
        assert!(files.is_sorted_by(|a, b| a.0 < b.0), "{files:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        for (path, bytes) in files {
            assert_eq!(fs::read(path).unwrap(), bytes);
        }
    }

    #[test]
    fn names_have_their_form() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("events.out.tfevents.99999999999999999999.h.1.0"), "")
            .unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let events = EventWriter::create(folder.path(), 1_700_000_000, Some("a/../b c")).unwrap();
        let name = events.path().file_name().unwrap().to_str().unwrap();
        let process = std::process::id();
        assert_eq!(name, format!("events.out.tfevents.1700000000.a-..-b-c.{process}.0"));
        assert_eq!(events.path().parent(), Some(folder.path()));
        assert_eq!(time_of_file(name), Some(1_700_000_000));
        assert!(!host_name().is_empty());
    }

    #[test]
    fn wrong_points_are_refused_and_write_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventWriter::create(folder.path(), 12, Some("h")).unwrap();
        for (time, step, tag, expected) in [
            (1.0, 0, "", "name it"),
            (f64::NAN, 0, "a", "is no time"),
            (f64::INFINITY, 0, "a", "is no time"),
            (1.0, 1 << 63, "a", "too large"),
        ] {
            let error = events.scalar(time, step, tag, 0.0).unwrap_err();
            assert!(error.is_config() && error.to_string().contains(expected), "{error}");
        }
        assert!(events.restart(f64::NAN, 0).is_err() && events.restart(0.0, u64::MAX).is_err());
        assert_eq!(read(events.path()).len(), 1);

        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = EventWriter::create(&file, 12, None).unwrap_err();
        assert!(error.is_io() && error.to_string().contains("cannot make the folder"), "{error}");
    }
}
