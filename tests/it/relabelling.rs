//! What stays as it is when the same graph is written down differently.

use crate::support::{by_first_node, graph, partition};
use hdse::coarsen;
use hdse::rng::Seed;
use proptest::prelude::*;

/// Nodes, then pairs.
fn pairs() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (2..30u32).prop_flat_map(|n| (Just(n as usize), proptest::collection::vec((0..n, 0..n), 0..60)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Nodes without edges have no say in modularity and lie on no path.
    #[test]
    fn isolated_nodes_leave_newman_clusters_alone((n, pairs) in pairs()) {
        let before = partition("newman", &graph(n, &pairs), 0);
        // Between all the others, in the same order.
        let apart: Vec<(u32, u32)> = pairs.iter().map(|&(u, v)| (2 * u + 1, 2 * v + 1)).collect();
        let after = partition("newman", &graph(2 * n + 1, &apart), 0);
        let kept: Vec<u32> = (0..n).map(|u| after.cluster_of()[2 * u + 1]).collect();
        prop_assert_eq!(by_first_node(before.cluster_of()), by_first_node(&kept));
        let sizes = after.sizes();
        prop_assert!((0..=n).all(|u| sizes[after.cluster_of()[2 * u] as usize] == 1));
    }

    /// A graph is the same graph whichever way its pairs are listed, and however often.
    #[test]
    fn order_direction_and_repetition_of_pairs_do_not_matter(
        (n, pairs) in pairs(),
        seed in any::<u64>(),
    ) {
        let mut stream = Seed(seed).stream("test", 0, 0);
        let mut again: Vec<(u32, u32)> = Vec::new();
        for &(u, v) in &pairs {
            for _ in 0..=stream.below(3) {
                again.push(if stream.below(2) == 0 { (u, v) } else { (v, u) });
            }
        }
        stream.shuffle(&mut again);
        for entry in coarsen::ALL {
            let [once, often] = [&pairs, &again].map(|p| partition(entry.name, &graph(n, p), seed));
            prop_assert_eq!(once, often, "{}", entry.name);
        }
    }
}

#[cfg(feature = "parquet")]
mod zinc {
    use crate::support::{self, by_first_node, find};
    use hdse::coarsen::{self, Context};
    use hdse::data::{ReadOptions, Shard, read};
    use hdse::rng::Seed;
    use hdse::{Graph, Partition};

    const TABLE_HEAD: &str = "\
## Sensitivity to node order

The same graph with its nodes numbered differently should get the same hierarchy. This table says how
often it does not: the share of the first 500 training graphs of ZINC, in percent, for which a random
renumbering of the nodes changes the partition, the number of clusters, or the modularity (by more than
1e-9). Default parameters, seed 0, one level. The first column counts mirror images too: a graph with
symmetries can have several partitions that are equally good and that only the numbering tells apart.

| name | partition changes | number of clusters changes | modularity changes |
| --- | ---: | ---: | ---: |
";

    /// The graph with node u renamed to `to[u]`, weights and all.
    fn relabel(graph: &Graph, to: &[u32]) -> Graph {
        let pairs: Vec<(u32, u32)> =
            graph.edges().map(|(u, v, _)| (to[u as usize], to[v as usize])).collect();
        if graph.is_weighted() {
            let weights: Vec<f32> = graph.edges().map(|(_, _, w)| w).collect();
            return Graph::from_weighted_pairs(graph.num_nodes(), &pairs, &weights).unwrap().0;
        }
        support::graph(graph.num_nodes(), &pairs)
    }

    /// How often another numbering of the nodes changes the outcome, per coarsener; the table is
    /// docs/relabelling.md.
    #[test]
    fn relabelling_changes_as_little_as_documented() {
        let Some(path) = find("zinc/train.parquet") else { return };
        let shard = Some(Shard { index: 0, count: 20 });
        let set = read(&path, &ReadOptions { shard, features: false, ..ReadOptions::default() });
        let samples = set.unwrap().samples;
        let graphs: Vec<&Graph> = samples.iter().map(|s| &*s.graph).collect();
        assert_eq!(graphs.len(), 500);

        let mut table = String::from(TABLE_HEAD);
        for entry in coarsen::ALL {
            let coarsener = coarsen::parse(entry.name).unwrap();
            let (mut partitions, mut counts, mut modularities, mut inexact) = (0, 0, 0, 0);
            for (index, &graph) in graphs.iter().enumerate() {
                let mut to: Vec<u32> = (0..graph.num_nodes() as u32).collect();
                Seed(0).stream("relabel", index as u64, 0).shuffle(&mut to);
                let context = Context { graph: index as u64, ..Context::default() };
                let before = coarsener.coarsen(graph, &context).unwrap();
                let renamed = coarsener.coarsen(&relabel(graph, &to), &context).unwrap();
                let back: Vec<u32> = to.iter().map(|&u| renamed.cluster_of()[u as usize]).collect();
                let after = Partition::new(back).unwrap();
                let modularity = |p: &Partition| p.quality(graph).modularity;
                let count = before.num_clusters() != after.num_clusters();
                let quality = (modularity(&before) - modularity(&after)).abs() > 1e-9;
                let same = by_first_node(before.cluster_of()) == by_first_node(after.cluster_of());
                partitions += usize::from(!same);
                counts += usize::from(count);
                modularities += usize::from(quality);
                inexact += usize::from(count || quality);
            }
            let percent =
                |count: usize| format!("{:.1}", 100.0 * count as f64 / graphs.len() as f64);
            table += &format!(
                "| `{}` | {} | {} | {} |\n",
                entry.name,
                percent(partitions),
                percent(counts),
                percent(modularities)
            );
            if entry.name == "newman" {
                assert!(100 * inexact <= graphs.len(), "newman: {inexact} of {}", graphs.len());
            }
        }
        println!("{table}");
        let file = crate::support::checkout().join("docs/relabelling.md");
        if std::env::var_os("HDSE_UPDATE_DOCS").is_some() {
            std::fs::write(&file, &table).unwrap();
        }
        let documented = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            documented, table,
            "renew docs/relabelling.md: HDSE_UPDATE_DOCS=1 cargo test --test it relabelling"
        );
    }
}
