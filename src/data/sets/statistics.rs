//! Counts and averages of a set, and what they say about its being the official one.
//!
//! Files carry no certificate. What can be compared is the number of graphs in every split and the average
//! numbers of nodes and arcs; a set that agrees in these is taken for the official one. A complete set
//! generated anew after the same recipe may agree as well, within its sampling error, so families that know
//! a better sign look for it (see `superpixels`).

use serde::Serialize;

use super::Entry;
use crate::data::Sample;

/// Averages of official files agree to this part: published ones are rounded.
const TOLERANCE: f64 = 1e-3;

/// A sample of the official graphs may differ by this part before it is worth saying.
const SAMPLING: f64 = 1e-2;

/// Counts and averages of a set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Graphs for training, validation and test.
    pub graphs: [usize; 3],
    /// Nodes per graph, over all splits.
    pub mean_nodes: f64,
    /// Arcs per graph as files list them, over all splits: an edge in both directions counts twice.
    pub mean_arcs: f64,
}

impl Statistics {
    /// Counts everything.
    pub fn of<T: AsRef<[Sample]>>(parts: &[T; 3]) -> Statistics {
        let all = || parts.iter().flat_map(|part| part.as_ref());
        let mean = |sum: usize| sum as f64 / all().count().max(1) as f64;
        Statistics {
            graphs: parts.each_ref().map(|part| part.as_ref().len()),
            mean_nodes: mean(all().map(|sample| sample.graph.num_nodes()).sum()),
            mean_arcs: mean(all().map(|sample| sample.edges.sources.len()).sum()),
        }
    }
}

/// How a set differs from the official one of `entry`, if it does: what it is as the caller knows (such as
/// "regenerated"), whether it has fewer graphs, or other ones.
pub(super) fn label(entry: &Entry, found: &Statistics, origin: Option<&str>) -> Option<String> {
    let official = &entry.published;
    let mut parts: Vec<String> = origin.map(String::from).into_iter().collect();
    let same_counts = found.graphs == official.graphs;
    if !same_counts {
        let fewer = found.graphs.iter().zip(official.graphs).all(|(&here, there)| here <= there);
        let counts = format!("{} of {} graphs", listed(found.graphs), listed(official.graphs));
        parts.push(match fewer {
            true => format!("subset ({counts})"),
            false => format!("other splits ({counts})"),
        });
    }
    let tolerance = if same_counts && origin.is_none() { TOLERANCE } else { SAMPLING };
    for (what, here, there) in [
        ("nodes", found.mean_nodes, official.mean_nodes),
        ("arcs", found.mean_arcs, official.mean_arcs),
    ] {
        if (here - there).abs() > tolerance * there {
            parts.push(format!("{here:.2} {what} per graph instead of {there:.2}"));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `[1000, 200, 200]` → "1000 / 200 / 200".
fn listed(graphs: [usize; 3]) -> String {
    graphs.map(|count| count.to_string()).join(" / ")
}

#[cfg(test)]
mod tests {
    use super::super::{Dataset as _, molecules::ZINC};
    use super::*;

    #[test]
    fn labels_say_what_differs() {
        let entry = ZINC.entry();
        let official = entry.published;
        let of = |change: fn(&mut Statistics), regenerated: bool| {
            let mut found = official;
            change(&mut found);
            label(entry, &found, regenerated.then_some("regenerated")).unwrap_or_default()
        };
        assert_eq!(of(|_| {}, false), "");
        assert_eq!(of(|s| s.mean_nodes += 0.005, false), "");
        assert_eq!(of(|_| {}, true), "regenerated");
        let subset = "subset (500 / 1000 / 1000 of 10000 / 1000 / 1000 graphs)";
        assert_eq!(of(|s| s.graphs[0] = 500, false), subset);
        assert_eq!(of(|s| s.graphs[0] = 500, true), format!("regenerated, {subset}"));
        let more = of(|s| s.graphs[2] = 5000, false);
        assert!(more.starts_with("other splits (10000 / 1000 / 5000 of"), "{more}");
        let other = of(|s| s.mean_nodes += 0.1, false);
        assert_eq!(other, "23.26 nodes per graph instead of 23.16");
    }
}
