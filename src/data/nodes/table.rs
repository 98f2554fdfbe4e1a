//! Numbers as text: rows of equal width, separated by commas, tabs, semicolons or blanks.
//!
//! Whole numbers stay whole if all are. An empty field or `nan` is missing. Pieces of a megabyte are parsed in parallel.

use std::path::Path;

use rayon::prelude::*;

use crate::data::numpy::Array;
use crate::data::{Source, Values};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// The table in a file, plain or gzipped, and the blake3 of the file.
pub(super) fn read(path: &Path, limit: MemoryLimit) -> Result<(Array, String)> {
    let source = Source::load(&path.to_string_lossy(), limit)?;
    let hash = source.hash().to_string();
    // A number takes two bytes of text at least and eight here.
    limit.check(
        source.bytes().len() as u128 * 5,
        &format!("parsing {}", source.name()),
        "raise `--max-memory`",
    )?;
    let array = source.text().and_then(parse).context(|| path.display().to_string())?;
    Ok((array, hash))
}

/// Pieces are cut at the first end of a line behind so many bytes.
const PIECE: usize = 1 << 20;

pub(super) fn parse(text: &str) -> Result<Array> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let first = first.ok_or_else(|| Error::data("no number in it"))?;
    let delimiter = [',', '\t', ';'].into_iter().find(|&d| first.contains(d));
    let width = fields(first, delimiter).count();
    let pieces = pieces(text);
    let parsed: Vec<Result<Values>> =
        pieces.par_iter().map(|&piece| parse_piece(piece, delimiter, width)).collect();
    let mut values = Vec::with_capacity(parsed.len());
    let mut whole = true;
    for (at, piece) in parsed.into_iter().enumerate() {
        let before = || pieces[..at].iter().map(|piece| piece.lines().count()).sum::<usize>();
        let piece = piece.map_err(|error| match at {
            0 => error,
            _ => error.context(format!("behind line {}", before())),
        })?;
        whole &= matches!(piece, Values::Int(_));
        values.push(piece);
    }
    let values = match whole {
        true => {
            let ints = values.into_iter().filter_map(|piece| match piece {
                Values::Int(values) => Some(values),
                Values::Float(_) => None,
            });
            Values::Int(ints.flatten().collect())
        }
        false => Values::Float(values.iter().flat_map(Values::to_floats).collect()),
    };
    Ok(Array { shape: vec![values.len() / width, width], values })
}

fn fields(line: &str, delimiter: Option<char>) -> impl Iterator<Item = &str> {
    let (by, blanks) = match delimiter {
        Some(delimiter) => (Some(line.split(delimiter).map(str::trim)), None),
        None => (None, Some(line.split_whitespace())),
    };
    by.into_iter().flatten().chain(blanks.into_iter().flatten())
}

fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let rest = text.as_bytes().get(PIECE..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == b'\n').map_or(text.len(), |at| PIECE + at + 1);
        let (piece, behind) = text.split_at(end);
        pieces.push(piece);
        text = behind;
    }
    pieces
}

fn parse_piece(text: &str, delimiter: Option<char>, width: usize) -> Result<Values> {
    let mut values = Values::Int(Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut count = 0;
        for field in fields(line, delimiter) {
            count += 1;
            push(&mut values, field).context(|| format!("line {}", number + 1))?;
        }
        if count != width {
            return Err(Error::data(format!(
                "line {}: {count} field(s), but the first has {width}",
                number + 1
            )));
        }
    }
    Ok(values)
}

fn push(values: &mut Values, field: &str) -> Result<()> {
    if let Values::Int(ints) = values {
        if let Ok(int) = field.parse() {
            ints.push(int);
            return Ok(());
        }
        *values = Values::Float(values.to_floats());
    }
    let Values::Float(floats) = values else { return Ok(()) };
    floats.push(match field {
        "" => f32::NAN,
        field => field.parse().map_err(|_| {
            let field: String = field.chars().take(40).collect();
            Error::data(format!("`{field}` is not a number"))
        })?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_layouts() {
        for text in ["1,2\n-3,4\n", "1\t2\r\n-3\t4", "1 2\n\n -3   4 \n", "1;2\n-3;4\n"] {
            let array = parse(text).unwrap();
            assert_eq!(array.shape, [2, 2], "{text}");
            assert_eq!(array.values, Values::Int(vec![1, 2, -3, 4]), "{text}");
        }
        let Values::Float(values) = parse("1,nan\n,0.5\n").unwrap().values else { panic!() };
        assert!(values[1].is_nan() && values[2].is_nan());
        assert_eq!((values[0], values[3]), (1.0, 0.5));
    }

    #[test]
    fn mistakes_have_their_line() {
        let explain = |text: &str| format!("{:#}", parse(text).err().unwrap());
        assert_eq!(explain("1,2\n3\n"), "line 2: 1 field(s), but the first has 2");
        assert_eq!(explain("1\nx\n"), "line 2: `x` is not a number");
        assert_eq!(explain("\n \n"), "no number in it");
    }

    #[test]
    fn pieces_are_put_together() {
        let rows = PIECE / 4;
        let mut text: String = (0..rows).map(|row| format!("{row},1\n")).collect();
        assert!(pieces(&text).len() > 2);
        let array = parse(&text).unwrap();
        let Values::Int(values) = array.values else { panic!() };
        assert!((0..rows).all(|row| values[2 * row] == row as i64 && values[2 * row + 1] == 1));
        text += "0.5,1\n";
        assert_eq!(parse(&text).unwrap().values.to_floats()[2 * rows..], [0.5, 1.0]);
        text += "5\n";
        let error = format!("{:#}", parse(&text).err().unwrap());
        assert!(error.starts_with("behind line ") && error.contains("1 field(s)"), "{error}");
    }
}
