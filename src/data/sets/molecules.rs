//! Molecules: atoms and bonds, every bond listed in both directions.
//!
//! | set | graphs | of an atom | of a bond | target |
//! |---|---|---|---|---|
//! | `zinc` | 12,000 | type, one of 28 | type, 1 to 3 | penalised log P |
//! | `peptides-func` | 15,535 | nine OGB atom features | three OGB bond features | ten functions, yes or no |
//! | `peptides-struct` | 15,535 | the same | the same | eleven properties of the 3-d shape |
//!
//! ZINC is the subset of 12,000 molecules of Dwivedi et al., "Benchmarking Graph Neural Networks", JMLR 2023.
//! The peptides are those of Dwivedi et al., "Long Range Graph Benchmark", NeurIPS 2022; targets of
//! `peptides-struct` are expected standardised, as its publishers give them.

use super::{Columns, Entry, FromFiles, Level, Statistics, Target, Task};

/// Types that a column of OGB's features tells apart, as the models embed them.
const ATOMS: Columns = Columns::Types(&[119, 4, 12, 12, 10, 6, 6, 2, 2]);
const BONDS: Columns = Columns::Types(&[5, 6, 2]);

const LRGB: &str = "Dwivedi et al., Long Range Graph Benchmark, NeurIPS 2022";

pub(super) const ZINC: FromFiles = FromFiles {
    entry: Entry {
        name: "zinc",
        folders: &["zinc"],
        summary: "molecules of 9 to 37 atoms: penalised log P",
        task: Task { level: Level::Graph, target: Target::Regression(1) },
        metric: "mae",
        nodes: Columns::Types(&[28]),
        arcs: Columns::Types(&[4]),
        published: Statistics {
            graphs: [10_000, 1_000, 1_000],
            mean_nodes: 23.16,
            mean_arcs: 49.83,
        },
        licence: "none stated (ZINC database)",
        citation: "Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023",
        source: "https://github.com/graphdeeplearning/benchmarking-gnns",
        generated: false,
    },
    origin: |_| None,
};

pub(super) const PEPTIDES_FUNC: FromFiles = FromFiles {
    entry: Entry {
        name: "peptides-func",
        folders: &["peptides-func"],
        summary: "peptides of 8 to 444 atoms: ten functions",
        task: Task { level: Level::Graph, target: Target::Labels(10) },
        metric: "mean-ap",
        nodes: ATOMS,
        arcs: BONDS,
        published: PEPTIDES,
        licence: "CC BY-NC 4.0",
        citation: LRGB,
        source: "https://github.com/vijaydwivedi75/lrgb",
        generated: false,
    },
    origin: |_| None,
};

pub(super) const PEPTIDES_STRUCT: FromFiles = FromFiles {
    entry: Entry {
        name: "peptides-struct",
        folders: &["peptides-struct"],
        summary: "the same peptides: eleven properties of their shape, standardised",
        task: Task { level: Level::Graph, target: Target::Regression(11) },
        metric: "mae",
        ..PEPTIDES_FUNC.entry
    },
    origin: |_| None,
};

const PEPTIDES: Statistics =
    Statistics { graphs: [10_873, 2_331, 2_331], mean_nodes: 150.94, mean_arcs: 307.30 };
