//! Nodes of one graph, by GOAT: the paper's model and what it is measured against.
//!
//! | row | what it is |
//! |---|---|
//! | `gcn` | message passing alone |
//! | `sgformer` | linear attention of all nodes beside message passing, whose share is 0.8 as its authors have it |
//! | `goat` | clusters by the nearest state of a codebook: GOAT as it was, and the paper's "w/o coarsening" |
//! | `no-coarsening` | clusters by a learned matrix |
//! | `no-hdse` | clusters by coarsening, without distances |
//! | `random` | as many clusters at random, of equal sizes as those of METIS are, with their distances |
//! | `hdse` | clusters by coarsening, with distances |

use super::published::find;
use super::{Experiment, Row};

const SEEDS: u64 = 10;

const PAPER: &str = "The paper's split: 20 nodes of every class, one draw for all seeds.";
const PUBLIC: &str = "The public split of Planetoid, not the paper's.";
const RANDOM: &str = "Another draw of 20 nodes of every class for each seed, not the paper's.";
const GIVEN: &str = "Split number s of the ten that come with the set for seed s.";
const ALIKE: &str = "All rows are trained here with the settings of GOAT + HDSE; published rows of other models are with settings of their own. \
                     The paper's \"w/o coarsening\" is GOAT's own projection.";

/// A set as its experiments have it: name, summary, clusters, nodes, table.
struct Set(&'static str, &'static str, &'static str, usize, u32);

const CORA: Set = Set("cora", "fields of papers (Cora)", "32", 2_708, 12);
const CITESEER: Set = Set("citeseer", "fields of papers (CiteSeer)", "200", 3_327, 12);
const PUBMED: Set = Set("pubmed", "kinds of diabetes in papers (PubMed)", "64", 19_717, 12);
const ACTOR: Set = Set("actor", "kinds of actors (Actor)", "200", 7_600, 5);
const SQUIRREL: Set = Set("squirrel", "readers of articles (Squirrel)", "128", 2_223, 5);
const CHAMELEON: Set = Set("chameleon", "readers of articles (Chameleon)", "32", 890, 5);
const PROTEINS: Set =
    Set("ogbn-proteins", "functions of proteins (ogbn-proteins)", "1024", 132_534, 5);
const ARXIV: Set = Set("ogbn-arxiv", "subjects of papers (ogbn-arxiv)", "1024", 169_343, 5);
const ARXIV_YEAR: Set = Set("arxiv-year", "years of papers (arxiv-year)", "2048", 169_343, 5);
const PRODUCTS: Set =
    Set("ogbn-products", "kinds of products (ogbn-products)", "1024/32", 2_449_029, 5);
const PAPERS: Set =
    Set("ogbn-papers100m", "subjects of papers (ogbn-papers100M)", "1024", 111_059_956, 5);

pub(super) fn all() -> Vec<Experiment> {
    let mut all = Vec::new();
    for set in [CORA, CITESEER, PUBMED] {
        all.push(experiment(&set, PAPER));
        all.push(with_split(&set, "public", "public split", "public", PUBLIC));
        all.push(with_split(&set, "random", "a split for every seed", "random-{seed}", RANDOM));
    }
    all.extend([ACTOR, SQUIRREL, CHAMELEON].map(|set| experiment(&set, GIVEN)));
    all.extend([PROTEINS, ARXIV, ARXIV_YEAR, PRODUCTS, PAPERS].map(|set| experiment(&set, "")));
    all.extend([SQUIRREL, ARXIV_YEAR, ARXIV].map(|set| levels(&set)));
    all.extend([CORA, CITESEER, PUBMED].map(|set| ansgt(&set)));
    all.extend([CORA, CITESEER, PUBMED, ACTOR, SQUIRREL, CHAMELEON].map(|set| variants(&set)));
    all
}

/// Seven rows.
fn experiment(set: &Set, remark: &str) -> Experiment {
    let Set(name, summary, clusters, nodes, table) = *set;
    let file = if name == "ogbn-papers100m" { "ogbn-papers100M" } else { name };
    let count = clusters.split('/').next().unwrap_or(clusters);
    let of = |model: &str| find(table, name, model);
    let ablation = |what: &str| find(7, name, &format!("GOAT + HDSE ({what})"));
    let (codebook, linformer) = (
        format!("model.clusters={{projection='codebook',count={count}}}"),
        format!("model.clusters={{projection='linformer',count={count},nodes={nodes}}}"),
    );
    let sgformer = [
        "model.backbone=sgformer",
        "model.heads=1",
        "model.layers=1",
        "model.branch={layers=2,weight=0.8}",
    ];
    let (gcn, backbone) = match name {
        // The local branch alone, as deep as it is there.
        "ogbn-proteins" | "ogbn-products" => ("GraphSAGE", "model.backbone=sage"),
        _ => ("GCN", "model.backbone=gcn"),
    };
    Experiment {
        name: format!("{name}-goat"),
        summary: format!("{summary}, by GOAT"),
        rows: vec![
            Row::new("gcn", gcn, &[backbone]).published(of(gcn)),
            Row::new("sgformer", "SGFormer", &sgformer).published(of("SGFormer")),
            Row::new("goat", "GOAT", &[&codebook]).published(of("GOAT")),
            Row::new("no-coarsening", "GOAT, Linformer projection", &[&linformer]),
            Row::new("no-hdse", "GOAT + clusters", &["model.bias=none"])
                .published(ablation("w/o HDSE")),
            Row::new("random", "GOAT + random partition", &[])
                .set(format!("hierarchy.coarsener=random:clusters={clusters}")),
            Row::new("hdse", "GOAT + HDSE", &[]).published(of("GOAT + HDSE")),
        ],
        table,
        seeds: SEEDS,
        remark: format!("{remark} {ALIKE}").trim().into(),
        ..Experiment::of(&format!("goat-{file}"))
    }
}

/// The same on another split, for which nothing was published.
fn with_split(set: &Set, id: &str, words: &str, split: &str, remark: &str) -> Experiment {
    let mut all = experiment(set, remark);
    all.name = format!("{}-{id}", all.name);
    all.summary = format!("{}, {words}", all.summary);
    all.changes = vec![format!("data.split={split}")];
    all.rows.iter_mut().for_each(|row| row.published = None);
    all
}

/// What the paper leaves open, one thing at a time; which is best is for validation to say.
fn variants(set: &Set) -> Experiment {
    let Set(name, summary, clusters, _, table) = *set;
    let count: usize = clusters.parse().unwrap_or(1);
    Experiment {
        name: format!("{name}-variants-goat"),
        summary: format!("{summary}: other hierarchies, biases and settings, by GOAT"),
        rows: vec![
            Row::new("hdse", "GOAT + HDSE", &[]).published(find(table, name, "GOAT + HDSE")),
            Row::new("k2", "two levels", &["model.levels=2"])
                .set(format!("hierarchy.coarsener=metis:clusters={count}/{}", count / 8)),
            Row::new("louvain", "clusters by louvain", &["hierarchy.coarsener=louvain"]),
            Row::new("linear", "linear bias", &["model.bias=linear"]),
            Row::new("sqrt", "clusters as sums over roots of sizes", &["model.clusters={pooling='sqrt'}"]),
            Row::new("average", "branches averaged as predictions", &["model.branch={layers=2,mix='average'}"]),
            Row::new("slow", "a tenth of the learning rate", &["train.schedule.rate=1e-3"]),
        ],
        table,
        seeds: SEEDS,
        remark: "One change at a time, settled before any was run. The row of the best validation is what settings chosen by validation give; \
                 that row's test is the one to quote."
            .into(),
        ..Experiment::of(&format!("goat-{name}"))
    }
}

/// Attention to sampled nodes, whose backbone is still to come.
fn ansgt(set: &Set) -> Experiment {
    let Set(name, summary, ..) = *set;
    let row = |id: &str, model: &str, changes: &[&str]| {
        Row::new(id, model, changes).published(find(19, name, model))
    };
    Experiment {
        name: format!("{name}-ansgt"),
        summary: format!("{summary}, by ANS-GT"),
        rows: vec![row("off", "ANS-GT", &["model.bias=none"]), row("hdse", "ANS-GT + HDSE", &[])],
        table: 19,
        seeds: 3,
        ..Experiment::of(&format!("ansgt-{name}"))
    }
}

/// One level and two.
fn levels(set: &Set) -> Experiment {
    let Set(name, summary, clusters, ..) = *set;
    let of = |k: u32| find(14, name, &format!("GOAT + HDSE (K = {k})"));
    let count: usize = clusters.parse().unwrap_or(1);
    Experiment {
        name: format!("{name}-levels-goat"),
        summary: format!("{summary}: one level or two, by GOAT"),
        rows: vec![
            Row::new("no-hdse", "GOAT + clusters", &["model.bias=none"]),
            Row::new("k1", "GOAT + HDSE, K = 1", &[]).published(of(1)),
            Row::new("k2", "GOAT + HDSE, K = 2", &["model.levels=2"])
                .set(format!("hierarchy.coarsener=metis:clusters={count}/{}", count / 8))
                .published(of(2)),
        ],
        table: 14,
        seeds: SEEDS,
        remark: "The number of clusters at level 2 is not published; an eighth of those at level 1 is ours.".into(),
        ..Experiment::of(&format!("goat-{name}"))
    }
}
