//! Predictions as a table, and the files it is written to.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::data::AtomicFile;
use crate::{Error, Result};

/// Predictions, a row each.
pub(super) struct Table {
    /// Of how many graphs, or nodes of one graph.
    pub items: usize,
    /// Whether rows belong to graphs, the first column, and numbers to lists.
    pub is_nested: bool,
    /// Columns with their names.
    pub columns: Vec<(String, Column)>,
}

/// A column.
pub(super) enum Column {
    Whole(Vec<u32>),
    Real(Vec<f32>),
    Word(Vec<&'static str>),
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Whole(values) => values.len(),
            Column::Real(values) => values.len(),
            Column::Word(words) => words.len(),
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            Column::Whole(values) => values[row].to_string(),
            Column::Real(values) => values[row].to_string(),
            Column::Word(words) => words[row].to_string(),
        }
    }

    fn json(&self, row: usize) -> Value {
        match self {
            Column::Whole(values) => json!(values[row]),
            Column::Real(values) => json!(values[row]),
            Column::Word(words) => json!(words[row]),
        }
    }
}

/// Columns `output_0`, `output_1`, … of rows of `outputs` numbers.
pub(super) fn outputs(
    numbers: &[f32],
    outputs: usize,
) -> impl Iterator<Item = (String, Column)> + '_ {
    (0..outputs).map(move |i| {
        let column = numbers.iter().skip(i).step_by(outputs).copied().collect();
        (format!("output_{i}"), Column::Real(column))
    })
}

/// How to write a file of that name.
pub(super) fn writer(path: &Path) -> Result<fn(Table, AtomicFile) -> Result<()>> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        None | Some("jsonl") => Ok(|table, file| write_text(&json_lines(&table), file)),
        Some("csv") => Ok(|table, file| write_text(&csv(&table), file)),
        #[cfg(feature = "parquet")]
        Some("parquet") => Ok(parquet),
        Some(other) => {
            let ends = if cfg!(feature = "parquet") { ", .csv or .parquet" } else { " or .csv" };
            Err(Error::config(format!(
                "`{}`: predictions are not written as .{other}; end it in .jsonl{ends}",
                path.display()
            )))
        }
    }
}

fn write_text(text: &str, mut file: AtomicFile) -> Result<()> {
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", file.path(), e))?;
    file.commit()
}

/// A line for every graph, with one row of numbers, or as many as it has nodes; or a line for every row.
fn json_lines(table: &Table) -> String {
    let mut text = String::new();
    let columns = &table.columns[..];
    let [(_, Column::Whole(graphs)), rest @ ..] = columns else { return text };
    if !table.is_nested {
        for row in 0..graphs.len() {
            let fields = columns.iter().map(|(name, column)| (name.clone(), column.json(row)));
            let _ = writeln!(text, "{}", Value::Object(fields.collect::<Map<_, _>>()));
        }
        return text;
    }
    let numbers = rest.iter().filter(|(_, column)| matches!(column, Column::Real(_)));
    let numbers: Vec<&Column> = numbers.map(|(_, column)| column).collect();
    let mut rows = 0..graphs.len();
    for graph in graphs.chunk_by(|a, b| a == b) {
        let numbers = |row| numbers.iter().map(|column| column.json(row)).collect::<Value>();
        let predictions: Vec<Value> = rows.by_ref().take(graph.len()).map(numbers).collect();
        let line = match rest.len() > numbers_of(rest) {
            true => json!({ "graph": graph[0], "predictions": predictions }),
            false => json!({ "graph": graph[0], "prediction": predictions[0] }),
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

/// How many columns hold real numbers.
fn numbers_of(columns: &[(String, Column)]) -> usize {
    columns.iter().filter(|(_, column)| matches!(column, Column::Real(_))).count()
}

fn csv(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for row in 0..table.columns.first().map_or(0, |(_, column)| column.len()) {
        let cells: Vec<String> = table.columns.iter().map(|(_, column)| column.text(row)).collect();
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

#[cfg(feature = "parquet")]
fn parquet(table: Table, file: AtomicFile) -> Result<()> {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, StringArray, UInt32Array};
    let array = |column: Column| -> ArrayRef {
        match column {
            Column::Whole(values) => Arc::new(UInt32Array::from(values)),
            Column::Real(values) => Arc::new(Float32Array::from(values)),
            Column::Word(words) => Arc::new(StringArray::from(words)),
        }
    };
    let columns = table.columns.into_iter().map(|(name, column)| (name, array(column))).collect();
    crate::data::write_table(columns, file)
}
