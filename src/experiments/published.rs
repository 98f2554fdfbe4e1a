//! Numbers of the paper: every cell of its tables, in one file.
//!
//! `published.csv` has a line for each cell: the number of the table and what it is about, set, model, what is measured, and the number as
//! it is printed, with its standard deviation and the runs it is of. Tables are counted as LaTeX counts them.
//! Two times of ZINC that only the text has stand with table 6.
//!
//! Luo et al., "Enhancing Graph Transformers with Hierarchical Distance Structural Encoding", NeurIPS 2024.

use std::sync::LazyLock;

/// The paper, in short.
pub const PAPER: &str = "Luo et al., NeurIPS 2024";

/// A cell of a table, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number of the table.
    pub table: u32,
    /// What the table is about.
    pub about: &'static str,
    /// The set.
    pub set: &'static str,
    /// The model, empty for statistics of sets.
    pub model: &'static str,
    /// What is measured, with its unit.
    pub quantity: &'static str,
    /// The number.
    pub mean: &'static str,
    /// Its standard deviation, if there is one.
    pub deviation: Option<&'static str>,
    /// How many runs it is of, if it is of several.
    pub runs: Option<u32>,
}

static CELLS: LazyLock<Vec<Cell>> = LazyLock::new(|| {
    let cell = |line: &'static str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().unwrap_or("");
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        Cell {
            table: next().parse().unwrap_or(0),
            about: next(),
            set: next(),
            model: next(),
            quantity: next(),
            mean: next(),
            deviation: some(next()),
            runs: next().parse().ok(),
        }
    };
    include_str!("published.csv").lines().skip(1).map(cell).collect()
});

/// Every cell, table by table.
pub fn all() -> &'static [Cell] {
    &CELLS
}

/// The cell of a table for a set and a model.
///
/// ```
/// let cell = hdse::experiments::published::find(2, "zinc", "GraphGPS + HDSE").unwrap();
/// assert_eq!((cell.mean, cell.deviation, cell.runs), ("0.062", Some("0.003"), Some(5)));
/// ```
pub fn find(table: u32, set: &str, model: &str) -> Option<&'static Cell> {
    all().iter().find(|cell| cell.table == table && cell.set == set && cell.model == model)
}

impl Cell {
    /// Mean and standard deviation as numbers.
    pub fn numbers(&self) -> Option<(f64, Option<f64>)> {
        let deviation = self.deviation.map(str::parse).transpose().ok()?;
        Some((self.mean.parse().ok()?, deviation))
    }

    /// "0.062 ± 0.003".
    pub fn text(&self) -> String {
        self.deviation.map_or(self.mean.into(), |deviation| format!("{} ± {deviation}", self.mean))
    }

    /// Digits after the point.
    pub fn digits(&self) -> usize {
        self.mean.split_once('.').map_or(0, |(_, digits)| digits.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_cell_of_its_own() {
        assert!(all().len() > 400);
        for (number, cell) in all().iter().enumerate() {
            assert!((2..=20).contains(&cell.table), "{cell:?}");
            assert!(cell.numbers().is_some() || cell.mean.starts_with("> "), "{cell:?}");
            assert_eq!(cell.deviation.is_some(), cell.runs.is_some(), "{cell:?}");
            let key = |cell: &Cell| (cell.table, cell.set, cell.model, cell.quantity);
            assert!(!all()[..number].iter().any(|other| key(other) == key(cell)), "{cell:?}");
            let first = all().iter().find(|other| other.table == cell.table).unwrap();
            assert_eq!(first.about, cell.about, "{cell:?}");
        }
        let text: String =
            include_str!("published.csv").lines().map(|line| format!("{line}\n")).collect();
        assert!(text.lines().all(|line| line.split(',').count() == 8));
    }
}
