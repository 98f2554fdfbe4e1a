//! Every key of a configuration, in words: what `hdse config explain` prints.
//!
//! A test holds the list against the structures that read configurations, so that neither has a key which the other
//! lacks.

/// What is known of a key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path, such as `model.dim`.
    pub name: &'static str,
    /// What it may hold.
    pub values: &'static str,
    /// What it holds unless told; nothing if it must be given.
    pub default: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
}

const fn key(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { name, values, default: Some(default), help }
}

const fn needed(name: &'static str, values: &'static str, help: &'static str) -> Key {
    Key { name, values, default: None, help }
}

/// All keys, section by section.
pub const KEYS: &[Key] = &[
    needed("data.set", "a name of `hdse data list`, or one of your own", "the graphs"),
    key("data.path", "a folder", "NAME in the folder of all sets", "where its files are"),
    key(
        "data.graphs",
        "a number, 1 or more",
        "all",
        "take the first so many graphs of every part only; tables say so",
    ),
    key(
        "data.task",
        r#"{ level = "graph" | "node", target = { regression = N } | { classes = N } | { labels = N } }"#,
        "that of the set",
        "what is to be predicted; for a set of your own, with `data.path`",
    ),
    key(
        "data.nodes",
        r#"{ edges = "FILE", targets = "FILE", features = "FILE", splits = ["FILE", …], directed = false }"#,
        "the files of the set",
        "one graph of your own with targets on its nodes: its files, in `data.path`",
    ),
    key(
        "data.split",
        "the name of a split, such as public, random-0, or random-{seed}",
        "that of the paper",
        "which nodes of one graph are for training, validation and test; {seed} is the seed of the run, modulo the \
         number of such splits that come with the set",
    ),
    key(
        "data.directed",
        "true, false",
        "as the set says",
        "whether messages between nodes of one graph pass in the direction of its arcs only",
    ),
    key(
        "data.normalise",
        "true, false",
        "false",
        "whether the features of a node of one graph are divided by their sum",
    ),
    key(
        "data.unknown_class",
        "a class, from 0",
        "they are left out",
        "what nodes of unknown class count as; 0 for citeseer is what PyTorch Geometric has",
    ),
    key(
        "hierarchy.coarsener",
        "a name of `hdse list coarseners`, with options as in \"louvain:resolution=2\"",
        "newman",
        "how graphs are coarsened",
    ),
    needed("model.backbone", "a name of `hdse list backbones`", "the network"),
    needed("model.dim", "1 to 65536", "numbers per node and arc"),
    needed("model.heads", "a divisor of `dim`", "heads of attention"),
    needed("model.layers", "1 to 4096", "layers"),
    key(
        "model.feed_forward",
        "1 to 64",
        "2",
        "width of the feed-forward network, in multiples of `dim`",
    ),
    key("model.dropout", "0 to 1", "0", "dropout on node and arc states"),
    key("model.attention_dropout", "0 to 1", "0", "dropout on attention weights"),
    key(
        "model.bias",
        "mlp, linear, none, scalar, slope",
        "mlp",
        "form of the distance bias; `none` is the plain backbone, `scalar` and `slope` are for clusters (goat)",
    ),
    key("model.combine", "concat, sum", "concat", "how the levels of the bias are put together"),
    key(
        "model.levels",
        "0 to 63",
        "1",
        "levels above the graph that the bias uses; 0 for hop distances alone",
    ),
    key(
        "model.max_distance",
        "1 to 254, or a list with one for each level",
        "30",
        "where distances are clipped",
    ),
    key(
        "model.unreachable",
        "clip, own",
        "clip",
        "whether unreachable pairs count as the largest distance or have a row of their own",
    ),
    key("model.bias_dim", "1 to 65536", "`dim`", "width of the bias's tables"),
    needed(
        "model.node",
        "{ types = N }, { atoms = [N, …] }, { linear = N }, { leading = { columns = N, of = M } }",
        "node features: one of N types, columns of types, N real numbers, or the first N of M",
    ),
    key(
        "model.edge",
        "none, dummy, { types = N }, { bonds = [N, …] }, { linear = N }",
        "none",
        "arc features; `dummy` is one learned vector for all arcs",
    ),
    key(
        "model.encoding",
        "none, { rwse = { steps, dim, self_loops } }, { rrwp = { steps } }, { lappe = { frequencies, dim, laplacian, skip, random_signs } }, \
         { signnet = { frequencies, dim, laplacian, skip, hidden = 64, width = 4, layers = 8, post_layers = 3, combine = \"concat\" | \"sum\" } }, \
         { eslappe = { frequencies, laplacian, skip } }, { degree = { max, dim } }, \
         { node2vec = { dim = 128, walk_length = 80, context = 20, walks = 10, negatives = 1, epochs = 5, rate = 0.01, batch = 64 } }",
        "none",
        "positional encoding: random walks, those between all nodes (grit), eigenvectors, the same whatever their signs, eigenvectors in the edge gate, degrees, \
         vectors learned from walks on one large graph (goat with sampled neighbours)",
    ),
    key(
        "model.local",
        "none, gcn, sage, gat, gine, gatedgcn, { pna = { towers, aggregators } }, { sampled = [N, …] }",
        "none",
        "message passing beside the attention; `sampled` is attention over sampled neighbours, N of each node in every step (goat)",
    ),
    key(
        "model.branch",
        r#"{ layers = 2, dim, norm = "none" | "batch" | "layer", stem = false, mix = "sum" | "average" | "concat", weight, initial = false }"#,
        "two layers without norms, added",
        "the branch of message passing of node models, of the kind that `local` says",
    ),
    key(
        "model.clusters",
        r#"{ projection = "coarsening" | "codebook" | "linformer", level = 1, count, size_prior = true, pooling = "mean" | "sqrt", input = "network" | "features", feed_forward = true, extra_map = true, nodes }"#,
        "means of the clusters of level 1",
        "attention from nodes to clusters, for goat and sgformer; `count` where clusters are learned or have moving averages (`local.sampled`), `nodes` for linformer",
    ),
    key(
        "model.extractor",
        "{ subtree = K }, { subgraph = K }",
        "none",
        "how sat makes queries and keys: K layers of `local` in the graph, or in the surroundings of K hops of every node",
    ),
    key("model.edge_dim", "a number", "that of `dim`", "numbers per arc in the extractor of sat"),
    key(
        "model.degree_scale",
        "true, false",
        "that of the backbone",
        "whether GT divides attention output by √(1 + degree)",
    ),
    key(
        "model.identical_layers",
        "true, false",
        "false",
        "whether all layers start from the same weights",
    ),
    needed(
        "model.pool",
        "none, sum, mean, max",
        "how node states become a graph state; `none` to predict of nodes",
    ),
    needed(
        "model.head",
        "san, { graphgym = N }, { plain = N }",
        "the network that predicts; N linear maps",
    ),
    needed("model.outputs", "1 to 65536", "numbers per prediction"),
    needed("train.epochs", "1 or more", "passes over what is learned from"),
    key(
        "train.batch_size",
        "1 or more",
        "all nodes of one graph",
        "graphs per step, which must be given, or nodes of one graph: a random part of it, or so many training nodes where neighbours are sampled",
    ),
    key(
        "train.eval_batch_size",
        "1 or more",
        "all nodes of one graph",
        "nodes of one graph that are evaluated together, where memory does not hold all",
    ),
    key("train.eval_every", "1 or more", "1", "epochs from one validation to the next"),
    needed(
        "train.loss",
        "l1, cross-entropy, weighted-cross-entropy, binary-cross-entropy, weighted-binary-cross-entropy",
        "what is made small",
    ),
    needed(
        "train.metric",
        "mae, accuracy, class-average-sbm, class-average-present, mean-ap, mean-auc",
        "what is reported, and chooses the best epoch",
    ),
    key("train.clip_norm", "more than 0", "no limit", "the longest the gradient may be"),
    key(
        "train.up_to_swap",
        "true, false",
        "false",
        "loss and metric up to a swap of two exchangeable classes within each graph",
    ),
    key(
        "train.fused",
        "true, false",
        "true",
        "all layers as one operation on the CPU, where there is one; otherwise operation by operation",
    ),
    needed(
        "train.optimizer",
        r#"{ name = "adamw" | "adam", betas, epsilon, weight_decay }, { name = "sgd", momentum, weight_decay, nesterov }"#,
        "how parameters follow gradients",
    ),
    needed(
        "train.schedule",
        r#"{ name = "constant", rate }, { name = "cosine" | "inverse-square-root" | "linear", rate, warmup }; linear also end"#,
        "the learning rate; warm-up in epochs for cosine, in steps for the others",
    ),
    key(
        "train.shortened_from",
        "1 or more",
        "nothing",
        "the epochs of the recipe that this one shortens; written by `--epochs`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Names that are expected where `section` has an unknown key.
    fn expected(section: &str) -> Vec<String> {
        let text = format!("{section}.zzzzzzzzzzzzzzzzzzzzzzzz = 1");
        let error = toml::from_str::<Config>(&text).unwrap_err().to_string();
        let (_, names) = error.split_once("expected").expect("a list of names");
        let names = names.split('`').skip(1).step_by(2);
        names.map(|name| format!("{section}.{name}")).collect()
    }

    #[test]
    fn every_key_is_explained_and_every_explained_key_exists() {
        let sections = ["data", "hierarchy", "model", "train"];
        let mut real: Vec<String> = sections.into_iter().flat_map(expected).collect();
        let mut told: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        real.sort_unstable();
        told.sort_unstable();
        assert_eq!(real, told);
    }

    #[test]
    fn keys_that_must_be_given_are_those_without_a_default() {
        let text = include_str!("../../configs/gps-zinc.toml");
        let whole: toml::Table = toml::from_str(text).unwrap();
        for key in KEYS {
            let (section, name) = key.name.split_once('.').unwrap();
            let mut table = whole.clone();
            let section = table.get_mut(section).unwrap().as_table_mut().unwrap();
            section.remove(name);
            let read = Config::parse(&toml::to_string(&table).unwrap(), "a.toml", &[]);
            assert_eq!(read.is_ok(), key.default.is_some(), "{}", key.name);
        }
    }

    #[test]
    fn words_of_choices_are_read() {
        let config = |change: String| {
            let text = include_str!("../../configs/gps-zinc.toml");
            Config::parse(text, "a.toml", &[change])
        };
        for name in ["bias", "combine", "unreachable", "edge", "pool", "loss", "metric", "local"] {
            let key = KEYS.iter().find(|key| key.name.ends_with(&format!(".{name}"))).unwrap();
            let words = key.values.split(", ").filter(|word| !word.contains(['{', '}', '=', '…']));
            for word in words.filter(|word| *word != "aggregators") {
                let read = config(format!("{}={word}", key.name));
                assert!(read.is_ok(), "{} {word}: {:#}", key.name, read.unwrap_err());
            }
        }
    }
}
