//! A report as text, Markdown, LaTeX, CSV and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::statistics::{Test, moments};
use super::table::{Cell, Table, csv, latex, markdown, plain};
use super::{Line, Report, Section};
use crate::experiments::published;
use crate::text::thousands;

impl Section {
    /// One line for each run.
    pub fn table(&self) -> Table {
        let baseline = self.baseline.map(|place| self.lines[place].name.as_str());
        let against = baseline.map_or(String::new(), |name| format!("p vs {name}"));
        let head = [
            "",
            "paper",
            "test",
            "− paper",
            "p vs paper",
            &against,
            "val",
            "seeds",
            "parameters",
            "s / epoch",
            "memory",
            "changes",
            "run",
        ];
        let table = Table {
            head: head.map(String::from).to_vec(),
            rows: self.lines.iter().map(|line| self.row(line)).collect(),
        };
        table.without_empty()
    }

    fn row(&self, line: &Line) -> Vec<Cell> {
        let digits = self.digits;
        let outcomes: Vec<_> = line.record.outcomes().collect();
        let val: Vec<f64> =
            outcomes.iter().map(|outcome| outcome.val_metric * self.scale()).collect();
        let number = |text: Option<String>| Cell::Number(text.unwrap_or_else(|| "–".into()));
        let p = |test: Option<Test>| number(test.map(|test| p_value(test.p)));
        let parameters = outcomes.first().map(|outcome| thousands(outcome.parameters as u64));
        let hash = line.record.hash().map(|hash| hash[..12].to_string());
        vec![
            Cell::Text(line.name.clone()),
            number(line.published.map(published::Cell::text)),
            number(in_short(&self.tests(line), digits)),
            number(self.difference(line).map(|difference| signed(difference, digits))),
            p(self.against_paper(line)),
            p(self.against_baseline(line)),
            number(in_short(&val, digits)),
            Cell::Number(outcomes.len().to_string()),
            number(parameters),
            number(line.seconds_per_epoch().map(seconds)),
            number(line.peak_bytes().map(bytes)),
            Cell::Code(line.changes.clone()),
            Cell::Code(hash.into_iter().collect()),
        ]
    }

    /// The test result of every seed.
    pub fn seeds(&self) -> Table {
        let mut seeds: Vec<u64> = self
            .lines
            .iter()
            .flat_map(|line| line.record.outcomes().map(|outcome| outcome.seed))
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        let head =
            [String::new()].into_iter().chain(seeds.iter().map(|seed| format!("seed {seed}")));
        let row = |line: &Line| {
            let cell = |&seed: &u64| {
                let outcome = line.record.outcomes().find(|outcome| outcome.seed == seed);
                let text = outcome.map(|outcome| {
                    format!(
                        "{:.*} ({})",
                        self.digits,
                        outcome.test_metric * self.scale(),
                        outcome.best_epoch
                    )
                });
                Cell::Number(text.unwrap_or_else(|| "–".into()))
            };
            [Cell::Text(line.name.clone())].into_iter().chain(seeds.iter().map(cell)).collect()
        };
        Table { head: head.collect(), rows: self.lines.iter().map(row).collect() }
    }

    /// What numbers mean and what must be known to read them.
    pub fn remarks(&self) -> Vec<String> {
        let metric = self.metric;
        let better = if metric.larger_is_better() { "more" } else { "less" };
        let percent = if metric.is_percent() { " in %" } else { "" };
        let mut remarks = vec![format!(
            "{}{percent}: {}; {better} is better. Test at the best epoch by validation, mean ± sample standard deviation over seeds.",
            metric.name(),
            metric.definition()
        )];
        if self.lines.iter().any(|line| self.against_baseline(line).is_some()) {
            let name = self.baseline.map_or("", |place| &self.lines[place].name);
            remarks.push(format!(
                "p vs {name}: one-tailed paired t-test over seeds, of being better than {name}."
            ));
        }
        if self.lines.iter().any(|line| self.against_paper(line).is_some()) {
            remarks.push(
                "p vs paper: one-tailed Welch test of being better than the published mean.".into(),
            );
        }
        if self.lines.iter().any(|line| line.seconds_per_epoch().is_some()) {
            remarks.push(
                "s / epoch: processor time of the thread that trained, evaluation included and stacking of batches left out, or time where several threads \
                 trained; memory: the most of the process, which may have trained several runs at once."
                    .into(),
            );
        }
        remarks.extend(self.notes.iter().cloned());
        let data = self.lines.first().map_or(String::new(), |line| line.record.data.hash.clone());
        remarks.push(format!(
            "blake3 of the data {}; a run is named by the hash of data and configuration.",
            data.get(..12).unwrap_or(&data)
        ));
        remarks
    }
}

impl Report {
    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            if self.sections.len() > 1 {
                let _ = writeln!(text, "{}", plain(&section.set));
            }
            let _ = writeln!(text, "{}", section.table().to_text());
            section.remarks().iter().for_each(|remark| text += &format!("{}\n", plain(remark)));
            section
                .warnings()
                .iter()
                .for_each(|warning| text += &format!("Warning: {}\n", plain(warning)));
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    /// For the documentation.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n", markdown(&self.title));
        self.lead.iter().for_each(|line| text += &format!("{line}\n\n"));
        for section in &self.sections {
            if self.sections.len() > 1 {
                let _ = write!(text, "## {}\n\n", markdown(&section.set));
            }
            let _ = writeln!(text, "{}", section.table().to_markdown());
            section
                .remarks()
                .iter()
                .for_each(|remark| text += &format!("* {}\n", markdown(remark)));
            section
                .warnings()
                .iter()
                .for_each(|warning| text += &format!("* **{}**\n", markdown(warning)));
            let seeds = section.seeds();
            if seeds.head.len() > 2 {
                let _ = write!(
                    text,
                    "\nTest results seed by seed, best epoch by validation in brackets:\n\n"
                );
                text += &seeds.to_markdown();
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    /// For a paper: a table for each section, with what must be known as comments.
    pub fn to_latex(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            let caption = format!("{}: {}", section.set, section.metric.definition());
            let notes = section.remarks().into_iter().chain(section.warnings());
            notes.for_each(|note| text += &format!("% {}\n", plain(&note)));
            let _ = write!(
                text,
                "\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n{}\\end{{table}}\n\n",
                latex(&caption),
                section.table().to_latex()
            );
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    /// One line for each run, numbers in full.
    pub fn to_csv(&self) -> String {
        let rows: Vec<Value> = self.sections.iter().flat_map(Section::values).collect();
        let keys: Vec<&str> = COLUMNS.to_vec();
        let mut text = format!("{}\n", keys.join(","));
        for row in &rows {
            let field = |key: &&str| match &row[*key] {
                Value::Null => String::new(),
                Value::String(text) => csv(text),
                Value::Array(words) => {
                    csv(&words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
                }
                other => other.to_string(),
            };
            text += &format!("{}\n", keys.iter().map(field).collect::<Vec<_>>().join(","));
        }
        text
    }

    /// Everything, results of single seeds included.
    pub fn to_json(&self) -> Value {
        let section = |section: &Section| {
            json!({
                "set": section.set,
                "metric": section.metric.name(),
                "baseline": section.baseline.map(|place| &section.lines[place].name),
                "rows": section.values(),
                "remarks": section.remarks(),
                "warnings": section.warnings(),
            })
        };
        json!({ "title": self.title, "sections": self.sections.iter().map(section).collect::<Vec<_>>() })
    }
}

/// Columns of a CSV file.
const COLUMNS: [&str; 20] = [
    "set",
    "name",
    "metric",
    "seeds",
    "mean",
    "deviation",
    "val_mean",
    "val_deviation",
    "published_mean",
    "published_deviation",
    "difference",
    "p_published",
    "p_baseline",
    "parameters",
    "epochs",
    "seconds_per_epoch",
    "peak_bytes",
    "changes",
    "label",
    "run",
];

impl Section {
    /// What is known of every run, in units of the table.
    fn values(&self) -> Vec<Value> {
        let value = |line: &Line| {
            let outcomes: Vec<_> = line.record.outcomes().collect();
            let tests = self.tests(line);
            let val: Vec<f64> =
                outcomes.iter().map(|outcome| outcome.val_metric * self.scale()).collect();
            let mean = |values: &[f64]| (!values.is_empty()).then(|| moments(values).0);
            let deviation = |values: &[f64]| moments(values).1;
            let published = line.published.and_then(published::Cell::numbers);
            json!({
                "set": self.set,
                "name": line.name,
                "metric": self.metric.name(),
                "seeds": outcomes.len(),
                "mean": mean(&tests),
                "deviation": deviation(&tests),
                "val_mean": mean(&val),
                "val_deviation": deviation(&val),
                "published_mean": published.map(|(mean, _)| mean),
                "published_deviation": published.and_then(|(_, deviation)| deviation),
                "difference": self.difference(line),
                "p_published": self.against_paper(line).map(|test| test.p),
                "p_baseline": self.against_baseline(line).map(|test| test.p),
                "parameters": outcomes.first().map(|outcome| outcome.parameters),
                "epochs": line.record.config.train.epochs,
                "seconds_per_epoch": line.seconds_per_epoch(),
                "peak_bytes": line.peak_bytes(),
                "changes": line.changes,
                "label": line.record.data.label,
                "run": line.record.hash().ok(),
                "outcomes": outcomes,
            })
        };
        self.lines.iter().map(value).collect()
    }
}

/// "0.062 ± 0.003"; nothing for no values.
pub(super) fn in_short(values: &[f64], digits: usize) -> Option<String> {
    let (mean, deviation) = moments(values);
    let deviation = deviation.map_or(String::new(), |deviation| format!(" ± {deviation:.digits$}"));
    (!values.is_empty()).then(|| format!("{mean:.digits$}{deviation}"))
}

fn signed(difference: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", difference.abs());
    match text.parse::<f64>() {
        Ok(0.0) => text,
        _ if difference < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".into() } else { format!("{p:.3}") }
}

/// Three digits that count.
pub(crate) fn seconds(seconds: f64) -> String {
    let digits = if seconds >= 100.0 {
        0
    } else if seconds >= 10.0 {
        1
    } else if seconds >= 1.0 {
        2
    } else {
        3
    };
    format!("{seconds:.digits$}")
}

pub(crate) fn bytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        mebi if mebi < 1024.0 => format!("{mebi:.0} MiB"),
        mebi => format!("{:.1} GiB", mebi / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_tables_have_them() {
        assert_eq!(in_short(&[0.0615, 0.0625], 3).unwrap(), "0.062 ± 0.001");
        assert_eq!(in_short(&[1.0], 1).unwrap(), "1.0");
        assert_eq!(in_short(&[], 1), None);
        assert_eq!(
            [signed(-0.0124, 3), signed(0.2, 1), signed(-0.0001, 3)],
            ["−0.012", "+0.2", "0.000"]
        );
        assert_eq!([p_value(0.0004), p_value(0.0437)], ["< 0.001", "0.044"]);
        assert_eq!(
            [seconds(0.04321), seconds(4.321), seconds(43.21), seconds(432.1)],
            ["0.043", "4.32", "43.2", "432"]
        );
        assert_eq!([bytes(52 << 20), bytes(3 << 30)], ["52 MiB", "3.0 GiB"]);
    }
}
