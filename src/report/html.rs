//! A report as one web page: no scripts, nothing loaded from elsewhere, readable in light and dark, on paper and on a telephone.

use std::fmt::Write as _;

use super::chart::{Axes, COLOURS, Curve, svg};
use super::table::html;
use super::{Line, Report, Section};
use crate::train::directory::EpochLine;

const STYLE: &str = include_str!("style.css");

impl Report {
    /// The page.
    pub fn to_html(&self) -> String {
        let title = html(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width\">\n\
             <meta name=color-scheme content=\"light dark\">\n<link rel=icon href=\"data:,\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        for line in &self.lead {
            let _ = writeln!(text, "<p>{}</p>", from_markdown(line));
        }
        for section in &self.sections {
            if self.sections.len() > 1 {
                let _ = writeln!(text, "<h2>{}</h2>", html(&section.set));
            }
            text += &section.to_html();
        }
        text + "</body>\n</html>\n"
    }
}

impl Section {
    fn to_html(&self) -> String {
        let mut text = String::new();
        let warnings = self.warnings();
        if !warnings.is_empty() {
            text += "<aside>\n";
            for warning in warnings {
                let _ = writeln!(text, "<p>{}</p>", html(&warning));
            }
            text += "</aside>\n";
        }
        let _ = writeln!(text, "<div class=wide tabindex=0>\n{}</div>", self.table().to_html());
        let metric = format!(
            "val {}{}",
            self.metric.name(),
            if self.metric.is_percent() { " in %" } else { "" }
        );
        text += &self.figure(&metric, |line| line.val_metric.map(|value| value * self.scale()));
        text += &self.figure("train loss", |line| Some(line.train_loss));
        let seeds = self.seeds();
        if seeds.head.len() > 2 {
            let _ = writeln!(
                text,
                "<details>\n<summary>Seed by seed</summary>\n<p>Test results, best epoch by validation in brackets.</p>\n\
                 <div class=wide tabindex=0>\n{}</div>\n</details>",
                seeds.to_html()
            );
        }
        text += "<footer>\n<ul>\n";
        for remark in self.remarks() {
            let _ = writeln!(text, "<li>{}</li>", html(&remark));
        }
        text + "</ul>\n</footer>\n"
    }

    /// Curves of all lines, wide and narrow, with a legend.
    fn figure(&self, label: &str, of: impl Fn(&EpochLine) -> Option<f64>) -> String {
        let curve = |line: &Line| {
            let seed = |lines: &Vec<EpochLine>| {
                lines
                    .iter()
                    .filter_map(|line| Some((line.epoch as f64, of(line)?)))
                    .collect::<Vec<_>>()
            };
            let seeds: Vec<_> =
                line.record.seeds.iter().map(|record| seed(&record.lines)).collect();
            Curve::over_seeds(&line.name, &seeds)
        };
        let curves: Vec<Curve> = self.lines.iter().map(curve).collect();
        if curves.iter().all(|curve| curve.points.len() < 2) {
            return String::new();
        }
        let entry = |(number, curve): (usize, &Curve)| {
            let dash = if number < COLOURS { "" } else { " d" };
            format!(
                "<span><svg viewBox=\"0 0 24 8\" aria-hidden=true><path class=\"l c{}{dash}\" d=\"M0 4H24\"/></svg>{}</span>",
                number % COLOURS,
                html(&curve.name)
            )
        };
        let legend: Vec<String> = curves.iter().enumerate().map(entry).collect();
        let axes = Axes { x: "epoch", y: label, range: None };
        format!(
            "<figure>\n<div class=broad>{}</div>\n<div class=slim>{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
            svg(&curves, axes, 720.0, 320.0),
            svg(&curves, axes, 360.0, 260.0),
            legend.join(" ")
        )
    }
}

/// The little Markdown that leads have: `code` and links, of which the words are kept.
fn from_markdown(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            1 => out += &format!("<code>{}</code>", html(part)),
            _ => out += &html(&without_links(part)),
        }
    }
    out
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((words, tail)) = after.split_once("](") else { break };
        let Some((_, tail)) = tail.split_once(')') else { break };
        out += before;
        out += words;
        rest = tail;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_lose_their_links() {
        let text = from_markdown("By `a <b>` from [configs/x.toml](../../configs/x.toml) & more.");
        assert_eq!(text, "By <code>a &lt;b&gt;</code> from configs/x.toml &amp; more.");
        assert_eq!(from_markdown("[no link"), "[no link");
    }
}
