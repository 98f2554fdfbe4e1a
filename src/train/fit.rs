//! Whether a model, its loss and its metric fit what is to be predicted.
//!
//! | target | `model.outputs` | losses | metrics |
//! |---|---|---|---|
//! | k numbers | k | `l1` | `mae` |
//! | one of k classes | k | `cross-entropy`, `weighted-cross-entropy` | `accuracy`, averages over classes |
//! | k labels | k | `binary-cross-entropy` | `mean-ap`, `mean-auc` |
//! | one of 2 classes, or a label | 1 | `binary-cross-entropy`, `weighted-binary-cross-entropy` | all but `mae` |
//!
//! Loss and metric check sizes themselves; here is said which key is wrong, before any work is done.

use super::{Loss, Metric};
use crate::config::Config;
use crate::data::sets::{Level, Target, Task};
use crate::nn::config::{ClusterConfig, EdgeInput, Encoding, NodeInput, Pool, Projection};
use crate::{Error, MemoryLimit, Result};

const CLASS_METRICS: &[Metric] =
    &[Metric::Accuracy, Metric::ClassAverageSbm, Metric::ClassAveragePresent];
const TASK_METRICS: &[Metric] = &[Metric::MeanAp, Metric::MeanAuc];

/// Refuses a configuration that does not fit a set of graphs, or a model far beyond memory.
pub fn graphs(config: &Config, task: Task, limit: MemoryLimit) -> Result<()> {
    let of_nodes = match config.train.eval_batch_size {
        Some(_) => Some("train.eval_batch_size".to_string()),
        None => config.data.node_key().map(|key| format!("data.{key}")),
    };
    if let Some(key) = of_nodes {
        return Err(Error::config(format!(
            "key `{key}` is about the nodes of one graph, but the set has many graphs; leave it out"
        )));
    }
    if config.model.backbone == "goat" || config.model.clusters.projection.is_some() {
        return Err(Error::config(
            "attention to clusters (`goat`, `model.clusters`) is over all nodes of one large graph, but the set has many \
             graphs; take `gps`, `gt`, `sat`, `grit`, or `sgformer` without clusters",
        ));
    }
    config.train.graphs_per_step()?;
    check(config, task, limit)
}

/// Refuses a configuration that does not fit one graph of so many nodes with `width` features each, or a model far beyond
/// memory.
pub fn nodes(
    config: &Config,
    task: Task,
    [nodes, width]: [usize; 2],
    limit: MemoryLimit,
) -> Result<()> {
    check(config, task, limit)?;
    let model = &config.model;
    let ClusterConfig { projection, count, nodes: said, .. } = model.clusters;
    if projection == Some(Projection::Linformer) {
        if let Some(said) = said.filter(|said| *said != nodes) {
            return Err(Error::config(format!(
                "key `model.clusters.nodes` is {said}, but the graph has {nodes} nodes; set it to that"
            )));
        }
        limit.check(
            model.layers as u128 * count.unwrap_or(1) as u128 * nodes as u128 * 16,
            "training a matrix of clusters × nodes",
            "take fewer clusters, another `clusters.projection`, or raise `--max-memory`",
        )?;
    }
    samples(config, [nodes, width], limit)?;
    let encoding = matches!(model.encoding, Encoding::None | Encoding::Node2Vec(_));
    let wrong = [
        ("train.up_to_swap", config.train.up_to_swap),
        ("model.encoding", !encoding),
        ("model.edge", model.edge != EdgeInput::None),
        ("data.task", config.data.task.is_some()),
    ];
    if let Some((key, _)) = wrong.iter().find(|(_, is_wrong)| *is_wrong) {
        return Err(Error::config(format!(
            "key `{key}` is for sets of many graphs, but this is one graph; leave it out"
        )));
    }
    if model.node != NodeInput::Linear(width) {
        return Err(Error::config(format!(
            "key `model.node` does not fit: nodes have {width} real numbers; write {{ linear = {width} }}"
        )));
    }
    Ok(())
}

/// Refuses walks, or a batch of sampled neighbours, beyond memory.
fn samples(config: &Config, [nodes, width]: [usize; 2], limit: MemoryLimit) -> Result<()> {
    let model = &config.model;
    if let Some(walks) = model.encoding.node2vec() {
        limit.check(
            walks.bytes(nodes),
            &format!("node2vec of {nodes} nodes"),
            "take a smaller `dim` or `batch` in `model.encoding.node2vec`, or raise `--max-memory`",
        )?;
    }
    let Some(sizes) = model.local.sampled() else { return Ok(()) };
    let around = sizes.iter().fold(1, |all: u128, &size| all.saturating_mul(1 + size as u128));
    let around = around.min(nodes as u128);
    let sizes = [config.train.batch_size, config.train.eval_batch_size];
    let targets = sizes[0].unwrap_or(nodes).max(sizes[1].unwrap_or(0)).min(nodes) as u128;
    let pairs = targets.saturating_mul(around);
    let rows = pairs.min(nodes as u128);
    let (dim, heads) = (model.dim as u128, model.heads as u128);
    // Of a pair its ends, hop and order, and weights of heads with derivatives; of a row its features and four states; of a
    // target what both branches make, with derivatives.
    let bytes = pairs.saturating_mul(32 + 12 * heads)
        + 4 * rows.saturating_mul(width as u128 + 4 * dim)
        + 4 * targets.saturating_mul(16 * heads * dim);
    limit.check(
        bytes,
        &format!("a batch of {targets} nodes with up to {around} sampled around each"),
        "take a smaller `train.batch_size` or smaller numbers in `model.local.sampled`, or raise `--max-memory`",
    )
}

/// Refuses a configuration that does not fit a task, or a model far beyond memory.
fn check(config: &Config, task: Task, limit: MemoryLimit) -> Result<()> {
    let model = &config.model;
    // Each layer has four maps of attention and two of the feed-forward network at least; with every
    // parameter go its gradient and what an optimiser remembers.
    let maps = 4 + 2 * model.feed_forward as u128;
    limit.check(
        model.layers as u128 * (model.dim as u128).pow(2) * maps * 16,
        &format!("training {} layers of `model.dim` {}", model.layers, model.dim),
        "make the model smaller, or raise `--max-memory`",
    )?;
    let wrong = |key: &str, has: &str, needs: &str| {
        Err(Error::config(format!("key `{key}` is {has}, but the set has {task}; take {needs}")))
    };
    let pool = format!("{:?}", model.pool).to_lowercase();
    match (task.level, model.pool) {
        (Level::Node, Pool::None) => {}
        (Level::Graph, Pool::None) => return wrong("model.pool", &pool, "sum, mean or max"),
        (Level::Graph, _) => {}
        (Level::Node, _) => return wrong("model.pool", &pool, "none"),
    }
    let outputs = match task.target {
        Target::Regression(count) | Target::Classes(count) | Target::Labels(count) => count,
    };
    let is_one_of_two =
        model.outputs == 1 && matches!(task.target, Target::Classes(2) | Target::Labels(1));
    if model.outputs != outputs && !is_one_of_two {
        return wrong("model.outputs", &model.outputs.to_string(), &outputs.to_string());
    }
    let binary = Loss::BinaryCrossEntropy;
    let (losses, metrics): (&[Loss], [&[Metric]; 2]) = match task.target {
        _ if is_one_of_two => {
            (&[binary, Loss::WeightedBinaryCrossEntropy], [CLASS_METRICS, TASK_METRICS])
        }
        Target::Regression(_) => (&[Loss::L1], [&[Metric::Mae], &[]]),
        Target::Classes(_) => {
            (&[Loss::CrossEntropy, Loss::WeightedCrossEntropy], [CLASS_METRICS, &[]])
        }
        Target::Labels(_) => (&[binary], [&[], TASK_METRICS]),
    };
    if !losses.contains(&config.train.loss) {
        let names: Vec<&str> = losses.iter().map(|loss| loss.name()).collect();
        return wrong("train.loss", config.train.loss.name(), &names.join(" or "));
    }
    let metrics = metrics.concat();
    if !metrics.contains(&config.train.metric) {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name()).collect();
        return wrong("train.metric", config.train.metric.name(), &names.join(" or "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        data.set = "mine"
        model = { backbone = "gt", dim = 4, heads = 1, layers = 1, node = { types = 2 }, pool = "sum", head = { plain = 1 }, outputs = 1 }
        [train]
        epochs = 1
        batch_size = 2
        loss = "l1"
        metric = "mae"
        optimizer = { name = "sgd" }
        schedule = { name = "constant", rate = 1 }
    "#;

    #[test]
    fn what_does_not_fit_is_named_by_its_key() {
        let found = |target: Target, level: Level, changes: &str| {
            let changes: Vec<String> = changes.split_whitespace().map(String::from).collect();
            let config = Config::parse(CONFIG, "test", &changes).unwrap();
            let error = check(&config, Task { level, target }, MemoryLimit(1 << 30)).err();
            error.map_or(String::new(), |e| e.to_string())
        };
        let (numbers, classes, labels) = (Target::Regression, Target::Classes, Target::Labels);
        for (target, level, changes, words) in [
            (numbers(1), Level::Graph, "", ""),
            (numbers(1), Level::Node, "", "`model.pool` is sum"),
            (numbers(1), Level::Node, "model.pool=none", ""),
            (numbers(1), Level::Graph, "model.pool=none", "take sum, mean or max"),
            (
                numbers(3),
                Level::Graph,
                "",
                "`model.outputs` is 1, but the set has 3 numbers per graph; take 3",
            ),
            (numbers(1), Level::Graph, "train.loss=cross-entropy", "take l1"),
            (numbers(1), Level::Graph, "train.metric=mean-ap", "take mae"),
            (
                labels(2),
                Level::Graph,
                "model.outputs=2 train.loss=binary-cross-entropy train.metric=mean-auc",
                "",
            ),
            (labels(2), Level::Graph, "model.outputs=2", "take binary-cross-entropy"),
            (
                labels(2),
                Level::Graph,
                "model.outputs=2 train.loss=binary-cross-entropy",
                "take mean-ap or mean-auc",
            ),
            (classes(3), Level::Graph, "model.outputs=1", "take 3"),
            (
                classes(2),
                Level::Graph,
                "train.loss=weighted-binary-cross-entropy train.metric=accuracy",
                "",
            ),
            (classes(2), Level::Graph, "train.loss=binary-cross-entropy train.metric=mean-ap", ""),
            (
                classes(2),
                Level::Graph,
                "model.outputs=2 train.loss=weighted-cross-entropy train.metric=class-average-sbm",
                "",
            ),
            (
                classes(2),
                Level::Graph,
                "model.outputs=2 train.loss=cross-entropy",
                "take accuracy or",
            ),
            (numbers(1), Level::Graph, "model.dim=65536 model.layers=9", "make the model smaller"),
        ] {
            let error = found(target, level, changes);
            assert!(
                error.contains(words) && error.is_empty() == words.is_empty(),
                "{changes}: {error}"
            );
        }
    }
}
