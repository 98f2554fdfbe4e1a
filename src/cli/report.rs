//! `hdse report`: what runs came to, as a table or a page.

use std::path::PathBuf;

use clap::ValueEnum;

use super::output::Output;
use crate::report::Report;
use crate::train::directory::write_text;
use crate::{Error, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// Folders of runs, as `hdse train` and `hdse reproduce` make them, or folders of such folders, or a file of results
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// How to write it; as the name of the output ends, or as text
    #[arg(long, short, value_enum)]
    format: Option<Format>,
    /// The run that others are tested against, seed by seed
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Where to write it; standard output by default
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for a terminal
    Text,
    /// One web page with curves, that needs nothing else
    Html,
    /// A page of Markdown
    Md,
    /// A line for each run, numbers in full
    Csv,
    /// A table for a paper
    Latex,
    /// Everything, single seeds included
    Json,
}

impl Format {
    fn of_file(path: &std::path::Path) -> Option<Format> {
        Some(match path.extension()?.to_str()? {
            "html" | "htm" => Format::Html,
            "md" => Format::Md,
            "csv" => Format::Csv,
            "tex" => Format::Latex,
            "json" => Format::Json,
            "txt" => Format::Text,
            _ => return None,
        })
    }
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let Options { runs, format, baseline, output: file } = options;
    let named = file.as_deref().and_then(Format::of_file);
    let format = match (format, output.json) {
        (Some(format), false) => *format,
        (None | Some(Format::Json), true) => Format::Json,
        (Some(_), true) => {
            return Err(Error::config(
                "`--json` and `--format` ask for different things; give one",
            ));
        }
        (None, false) => named.unwrap_or(Format::Text),
    };
    let report = Report::read(runs, baseline.as_deref())?;
    let text = match format {
        Format::Text => report.to_text(),
        Format::Html => report.to_html(),
        Format::Md => report.to_markdown(),
        Format::Csv => report.to_csv(),
        Format::Latex => report.to_latex(),
        Format::Json => format!("{:#}\n", report.to_json()),
    };
    if format != Format::Text {
        let warnings = report.sections.iter().flat_map(crate::report::Section::warnings);
        warnings.for_each(|warning| output.note(&warning));
    }
    match file {
        // Asked for by name, so --quiet does not silence it.
        None => output.print(&text),
        Some(file) => {
            write_text(file, &text)?;
            output.note(&format!("{} is written", file.display()));
            Ok(())
        }
    }
}
