//! The node sets of the list, with counts as published.

use super::registry::{Entry, Layout, Statistics};
use crate::data::sets::Target;

const PLANETOID: Entry = Entry {
    name: "",
    folders: &[],
    files: "",
    summary: "",
    metric: "accuracy",
    protocol: "paper",
    published: Statistics {
        nodes: 0,
        arcs: 0,
        edges: None,
        features: 0,
        target: Target::Classes(0),
        split: None,
    },
    licence: "MIT",
    citation: "Yang et al., Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
    source: "https://github.com/kimiyoung/planetoid",
    layout: Layout::Planetoid,
};

pub(super) const CORA: Entry = Entry {
    name: "cora",
    folders: &["planetoid", "cora", "Cora/raw"],
    files: "ind.cora.{x,y,tx,ty,allx,ally,graph,test.index}",
    summary: "papers on machine learning that cite each other: their field",
    published: Statistics {
        nodes: 2708,
        arcs: 10_858,
        edges: Some(5278),
        features: 1433,
        target: Target::Classes(7),
        split: Some([140, 500, 1000]),
    },
    ..PLANETOID
};

pub(super) const CITESEER: Entry = Entry {
    name: "citeseer",
    folders: &["planetoid", "citeseer", "CiteSeer/raw"],
    files: "ind.citeseer.{x,y,tx,ty,allx,ally,graph,test.index}",
    summary: "papers on computing that cite each other: their field",
    published: Statistics {
        nodes: 3327,
        arcs: 9464,
        edges: Some(4552),
        features: 3703,
        target: Target::Classes(6),
        split: Some([120, 500, 1000]),
    },
    ..PLANETOID
};

pub(super) const PUBMED: Entry = Entry {
    name: "pubmed",
    folders: &["planetoid", "pubmed", "PubMed/raw"],
    files: "ind.pubmed.{x,y,tx,ty,allx,ally,graph,test.index}",
    summary: "papers on diabetes that cite each other: its kind",
    published: Statistics {
        nodes: 19_717,
        arcs: 88_676,
        edges: Some(44_324),
        features: 500,
        target: Target::Classes(3),
        split: Some([60, 500, 1000]),
    },
    ..PLANETOID
};

const HETEROPHILOUS: Entry = Entry {
    folders: &["heterophilous"],
    protocol: "0 to 9",
    citation: "Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily, ICLR 2023",
    source: "https://github.com/yandex-research/heterophilous-graphs",
    ..PLANETOID
};

pub(super) const ACTOR: Entry = Entry {
    name: "actor",
    files: "actor.npz",
    summary: "actors named on the same page: what kind of page is theirs",
    published: Statistics {
        nodes: 7600,
        arcs: 26_659,
        edges: Some(26_659),
        features: 932,
        target: Target::Classes(5),
        split: Some([3648, 2432, 1520]),
    },
    layout: Layout::Npz("actor.npz"),
    ..HETEROPHILOUS
};

pub(super) const SQUIRREL: Entry = Entry {
    name: "squirrel",
    files: "squirrel_filtered.npz",
    summary: "articles on squirrels that link to each other, none twice: how often they are read",
    published: Statistics {
        nodes: 2223,
        arcs: 46_998,
        edges: Some(46_998),
        features: 2089,
        target: Target::Classes(5),
        split: Some([1053, 718, 452]),
    },
    layout: Layout::Npz("squirrel_filtered.npz"),
    ..HETEROPHILOUS
};

pub(super) const CHAMELEON: Entry = Entry {
    name: "chameleon",
    files: "chameleon_filtered.npz",
    summary: "articles on chameleons that link to each other, none twice: how often they are read",
    published: Statistics {
        nodes: 890,
        arcs: 8854,
        edges: Some(8854),
        features: 2325,
        target: Target::Classes(5),
        split: Some([409, 287, 194]),
    },
    layout: Layout::Npz("chameleon_filtered.npz"),
    ..HETEROPHILOUS
};

const OGB: Entry = Entry {
    files: "raw/ and split/ of the unpacked archive",
    protocol: "time",
    licence: "ODC-BY",
    citation: "Hu et al., Open Graph Benchmark, NeurIPS 2020",
    source: "https://ogb.stanford.edu/docs/nodeprop/",
    layout: Layout::Ogb { directed: true },
    ..PLANETOID
};

pub(super) const ARXIV: Entry = Entry {
    name: "ogbn-arxiv",
    folders: &["ogbn-arxiv", "ogbn_arxiv"],
    summary: "papers on computing that cite each other: their subject",
    published: Statistics {
        nodes: 169_343,
        arcs: 1_166_243,
        edges: None,
        features: 128,
        target: Target::Classes(40),
        split: Some([90_941, 29_799, 48_603]),
    },
    ..OGB
};

pub(super) const PRODUCTS: Entry = Entry {
    name: "ogbn-products",
    folders: &["ogbn-products", "ogbn_products"],
    summary: "products that are bought together: their category",
    protocol: "sales_ranking",
    published: Statistics {
        nodes: 2_449_029,
        arcs: 61_859_140,
        edges: None,
        features: 100,
        target: Target::Classes(47),
        split: Some([196_615, 39_323, 2_213_091]),
    },
    licence: "Amazon licence",
    layout: Layout::Ogb { directed: false },
    ..OGB
};

pub(super) const PROTEINS: Entry = Entry {
    name: "ogbn-proteins",
    folders: &["ogbn-proteins", "ogbn_proteins"],
    summary: "proteins of eight species and how they are related, in eight ways: their functions",
    metric: "mean-auc",
    protocol: "species",
    published: Statistics {
        nodes: 132_534,
        arcs: 39_561_252,
        edges: None,
        features: 0,
        target: Target::Labels(112),
        split: Some([86_619, 21_236, 24_679]),
    },
    licence: "CC-0",
    layout: Layout::Ogb { directed: false },
    ..OGB
};

pub(super) const PAPERS100M: Entry = Entry {
    name: "ogbn-papers100m",
    folders: &["ogbn-papers100m", "ogbn_papers100M", "papers100M-bin"],
    summary: "a hundred million papers that cite each other: the subject of those on arXiv",
    published: Statistics {
        nodes: 111_059_956,
        arcs: 1_615_685_872,
        edges: None,
        features: 128,
        target: Target::Classes(172),
        split: Some([1_207_179, 125_265, 214_338]),
    },
    ..OGB
};

pub(super) const ARXIV_YEAR: Entry = Entry {
    name: "arxiv-year",
    summary: "as ogbn-arxiv: when a paper appeared, in five classes",
    protocol: "half-SEED",
    published: Statistics { target: Target::Classes(5), split: None, ..ARXIV.published },
    citation: "Lim et al., Large Scale Learning on Non-Homophilous Graphs, NeurIPS 2021",
    layout: Layout::Years,
    ..ARXIV
};
