//! A table, and how it is written in every format.

use std::fmt::Write as _;

/// Rows of cells under headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What columns are called.
    pub head: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words, set flush left.
    Text(String),
    /// A number with what belongs to it, set flush right.
    Number(String),
    /// Words of a program.
    Code(Vec<String>),
}

impl Cell {
    /// The bare text.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) | Cell::Number(text) => text.clone(),
            Cell::Code(words) => words.join(" "),
        }
    }
}

impl Table {
    /// Leaves out columns that say nothing in any row, the first aside.
    pub fn without_empty(self) -> Table {
        let says = |column: usize| {
            let mut cells = self.rows.iter().map(|row| row[column].text());
            column == 0 || cells.any(|text| !text.is_empty() && text != "–")
        };
        let kept: Vec<usize> = (0..self.head.len()).filter(|&column| says(column)).collect();
        let pick = |row: &Vec<Cell>| kept.iter().map(|&column| row[column].clone()).collect();
        Table {
            head: kept.iter().map(|&column| self.head[column].clone()).collect(),
            rows: self.rows.iter().map(pick).collect(),
        }
    }

    fn is_flush_right(&self, column: usize) -> bool {
        column > 0 && self.rows.iter().all(|row| matches!(row[column], Cell::Number(_)))
    }

    /// For a terminal: columns that line up, without code.
    pub fn to_text(&self) -> String {
        let is_code =
            |column: usize| self.rows.iter().any(|row| matches!(row[column], Cell::Code(_)));
        let columns: Vec<usize> = (0..self.head.len()).filter(|&column| !is_code(column)).collect();
        let mut lines =
            vec![columns.iter().map(|&column| self.head[column].clone()).collect::<Vec<_>>()];
        lines.extend(
            self.rows
                .iter()
                .map(|row| columns.iter().map(|&column| plain(&row[column].text())).collect()),
        );
        let width =
            |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for line in &lines {
            let cells = line.iter().enumerate().map(|(place, cell)| {
                match self.is_flush_right(columns[place]) {
                    true => format!("{cell:>width$}", width = width(place)),
                    false => format!("{cell:<width$}", width = width(place)),
                }
            });
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        text
    }

    /// For a page of Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.iter().map(|head| markdown(head)).collect());
        let rule = |column| if self.is_flush_right(column) { "---:" } else { "---" };
        text += &format!("|{}|\n", (0..self.head.len()).map(rule).collect::<Vec<_>>().join("|"));
        for row in &self.rows {
            let cell = |cell: &Cell| match cell {
                Cell::Code(words) => {
                    words.iter().map(|word| code(word)).collect::<Vec<_>>().join(" ")
                }
                cell => markdown(&cell.text()),
            };
            text += &line(row.iter().map(cell).collect());
        }
        text
    }

    /// For a paper: a `tabular` with the rules of `booktabs`, without code.
    pub fn to_latex(&self) -> String {
        let is_code =
            |column: usize| self.rows.iter().any(|row| matches!(row[column], Cell::Code(_)));
        let columns: Vec<usize> = (0..self.head.len()).filter(|&column| !is_code(column)).collect();
        let kinds =
            columns.iter().map(|&column| if self.is_flush_right(column) { 'r' } else { 'l' });
        let line = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let mut text =
            format!("\\begin{{tabular}}{{{}}}\n  \\toprule\n", kinds.collect::<String>());
        text += &line(columns.iter().map(|&column| latex(&self.head[column])).collect());
        text += "  \\midrule\n";
        for row in &self.rows {
            text += &line(columns.iter().map(|&column| latex(&row[column].text())).collect());
        }
        text + "  \\bottomrule\n\\end{tabular}\n"
    }

    /// For a web page.
    pub fn to_html(&self) -> String {
        let class = |column| if self.is_flush_right(column) { " class=n" } else { "" };
        let mut text = String::from("<table>\n<thead><tr>");
        for (column, head) in self.head.iter().enumerate() {
            let _ = write!(text, "<th scope=col{}>{}</th>", class(column), html(head));
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            text += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let inside = match cell {
                    Cell::Code(words) => {
                        let word = |word: &String| format!("<code>{}</code>", html(word));
                        words.iter().map(word).collect::<Vec<_>>().join(" ")
                    }
                    cell => html(&cell.text()),
                };
                let _ = match column {
                    0 => write!(text, "<th scope=row>{inside}</th>"),
                    _ => write!(text, "<td{}>{inside}</td>", class(column)),
                };
            }
            text += "</tr>\n";
        }
        text + "</tbody>\n</table>\n"
    }
}

/// Text without what would move the cursor or end a line.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Text as HTML, also inside attributes in quotes.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // What no document may hold.
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Text as Markdown, on one line and inside a table, with HTML in it made harmless.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' => escaped.extend(['\\', letter]),
            '<' => escaped += "&lt;",
            '&' => escaped += "&amp;",
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A word of a program as Markdown, whatever it holds.
fn code(word: &str) -> String {
    let word = plain(word);
    if word.contains('`') || word.contains('|') {
        return format!(
            "<code>{}</code>",
            html(&word).replace('|', "&#124;").replace('`', "&#96;")
        );
    }
    format!("`{word}`")
}

/// Text as LaTeX.
pub fn latex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', letter]),
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '\\' => escaped += "\\textbackslash{}",
            '±' => escaped += "$\\pm$",
            '−' => escaped += "$-$",
            '–' => escaped += "--",
            '<' => escaped += "$<$",
            '>' => escaped += "$>$",
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A field of CSV. One that a spreadsheet would take for a formula gets an apostrophe before it.
pub fn csv(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let guarded = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') if !is_number => format!("'{text}"),
        _ => text.to_string(),
    };
    match guarded.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", guarded.replace('"', "\"\"")),
        false => guarded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let number = |text: &str| Cell::Number(text.into());
        Table {
            head: ["", "test", "p", "changes"].map(String::from).to_vec(),
            rows: vec![
                vec![
                    Cell::Text("a|<b>\n".into()),
                    number("1 ± 2"),
                    number("–"),
                    Cell::Code(vec!["x=`|".into()]),
                ],
                vec![
                    Cell::Text("50 % _of_ it".into()),
                    number("10"),
                    number(""),
                    Cell::Code(vec![]),
                ],
            ],
        }
    }

    #[test]
    fn every_format_escapes_what_it_must() {
        let table = table().without_empty();
        assert_eq!(table.head, ["", "test", "changes"]);
        let lines = [
            "|  | test | changes |",
            "|---|---:|---|",
            "| a\\|&lt;b>  | 1 ± 2 | <code>x=&#96;&#124;</code> |",
            "| 50 % \\_of\\_ it | 10 |  |",
        ];
        assert_eq!(table.to_markdown().lines().collect::<Vec<_>>(), lines);
        let lines = ["               test", "a|<b>         1 ± 2", "50 % _of_ it     10"];
        assert_eq!(table.to_text().lines().collect::<Vec<_>>(), lines);
        assert!(table.to_latex().contains("  50 \\% \\_of\\_ it & 10 \\\\\n"));
        assert!(table.to_latex().starts_with("\\begin{tabular}{lr}\n"));
        let html = table.to_html();
        assert!(html.contains("<th scope=row>a|&lt;b&gt; </th><td class=n>1 ± 2</td>"), "{html}");
        assert_eq!(csv("=1+1"), "'=1+1");
        assert_eq!([csv("-1.5"), csv("a,\"b\"")], ["-1.5", "\"a,\"\"b\"\"\""]);
    }
}
