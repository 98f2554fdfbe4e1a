//! Data sets: the laws that all generated ones keep, and real ones where they are at hand.

use hdse::data::sets::{self, Columns, Dataset, Entry, Level, LoadOptions, Splits, Target};
use hdse::data::{ReadOptions, Sample, Shard, Values, read};
use hdse::rng::Seed;

fn load(set: &dyn Dataset, seed: u64) -> Splits {
    let graphs = Some([12, 3, 4]);
    set.load(&LoadOptions { seed: Seed(seed), graphs, ..LoadOptions::default() }).unwrap()
}

/// Features and targets are what the entry says.
fn check(entry: &Entry, sample: &Sample) {
    let (name, nodes) = (entry.name, sample.graph.num_nodes());
    let arcs = sample.edges.sources.len();
    for (columns, matrix, rows) in
        [(entry.nodes, &sample.node_feat, nodes), (entry.arcs, &sample.edge_attr, arcs)]
    {
        let width = columns.width();
        assert_eq!(matrix.as_ref().map_or(0, |m| m.width), width, "{name}");
        assert_eq!(matrix.as_ref().map_or(0, |m| m.values.len()), rows * width, "{name}");
        let values = matrix.as_ref().map(|m| &m.values);
        match columns {
            Columns::None => assert!(matrix.is_none(), "{name}"),
            Columns::Reals(_) => {
                let Some(Values::Float(values)) = values else { panic!("{name}: not real") };
                assert!(values.iter().all(|x| x.is_finite()), "{name}");
            }
            Columns::Types(counts) => {
                let Some(Values::Int(values)) = values else { panic!("{name}: not whole") };
                let fits = |(i, &x): (usize, &i64)| (0..counts[i % width] as i64).contains(&x);
                assert!(values.iter().enumerate().all(fits), "{name}");
            }
            Columns::OneHot(_) => {
                let Some(Values::Int(values)) = values else { panic!("{name}: not whole") };
                assert!(values.chunks(width).all(|row| row.iter().sum::<i64>() == 1), "{name}");
            }
        }
    }
    let rows = if entry.task.level == Level::Node { nodes } else { 1 };
    let targets = sample.y.as_ref().unwrap();
    assert_eq!(targets.len(), rows * entry.task.target.width(), "{name}");
    match (entry.task.target, targets) {
        (Target::Classes(count), Values::Int(classes)) => {
            assert!(classes.iter().all(|class| (0..count as i64).contains(class)), "{name}");
        }
        (Target::Labels(_), Values::Float(labels)) => {
            assert!(labels.iter().all(|&x| x == 0.0 || x == 1.0 || x.is_nan()), "{name}");
        }
        (Target::Regression(_), Values::Float(targets)) => {
            assert!(targets.iter().all(|x| x.is_finite()), "{name}");
        }
        _ => panic!("{name}: targets of the wrong kind"),
    }
}

#[test]
fn generated_sets_hold_what_they_say() {
    for set in sets::generated() {
        let (entry, splits) = (set.entry(), load(set, 0));
        assert_eq!(splits.statistics().graphs, [12, 3, 4], "{}", entry.name);
        assert_eq!(splits.task, entry.task, "{}", entry.name);
        assert!(splits.label.as_ref().unwrap().starts_with("regenerated, subset"));
        for sample in splits.parts().into_iter().flatten() {
            check(entry, sample);
            assert_eq!(sample.repairs, Default::default(), "{}", entry.name);
            assert_eq!(sample.edges.sources.len(), 2 * sample.graph.num_edges(), "{}", entry.name);
        }
    }
}

#[test]
fn generated_sets_depend_on_the_seed_and_nothing_else() {
    for set in sets::generated() {
        let name = set.entry().name;
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| load(set, 0))
        };
        let (one, four) = (with_threads(1), with_threads(4));
        assert_eq!(one.hash, four.hash, "{name}");
        for (a, b) in one.parts().into_iter().flatten().zip(four.parts().into_iter().flatten()) {
            assert_eq!((&a.edges, &a.node_feat, &a.y), (&b.edges, &b.node_feat, &b.y), "{name}");
        }
        assert_ne!(one.hash, load(set, 1).hash, "{name}");
        // No graph stands in two splits.
        let features: Vec<String> =
            one.parts().into_iter().flatten().map(|s| format!("{:?}", s.node_feat)).collect();
        let distinct: std::collections::BTreeSet<&String> = features.iter().collect();
        assert_eq!(distinct.len(), features.len(), "{name}");
    }
}

#[test]
fn generated_sets_are_inputs_too() {
    for set in sets::generated() {
        let name = set.entry().name;
        let splits = set.load(&LoadOptions::default()).unwrap();
        let (hash, samples) = (splits.hash.clone(), splits.into_samples());
        let shard = Some(Shard { index: 1, count: 2 });
        let half = read(name, &ReadOptions { shard, ..ReadOptions::default() }).unwrap();
        assert_eq!((half.hash, half.total), (hash, samples.len()), "{name}");
        assert_eq!(half.samples[0].edges, samples[half.first].edges, "{name}");
    }
}

#[cfg(feature = "parquet")]
mod real {
    use super::*;
    use crate::support::find;

    fn load(name: &str) -> Option<Splits> {
        let set = sets::by_name(name).unwrap();
        let found = set.entry().folders.iter().find_map(|folder| find(folder))?;
        let options = LoadOptions { path: Some(found.into()), ..LoadOptions::default() };
        let splits = set.load(&options).unwrap();
        for sample in splits.parts().into_iter().flatten() {
            check(set.entry(), sample);
        }
        Some(splits)
    }

    /// A set that is not complete says so.
    #[test]
    fn every_set_at_hand_loads_and_is_labelled() {
        for set in sets::ALL.iter().filter(|set| !set.entry().generated) {
            let entry = set.entry();
            let Some(splits) = load(entry.name) else { continue };
            println!("{}: {:?}", entry.name, splits.label);
            let complete = splits.statistics().graphs == entry.published.graphs;
            let label = splits.label.unwrap_or_default();
            assert_eq!(label.contains("subset"), !complete, "{}: {label}", entry.name);
        }
    }

    #[test]
    fn zinc_is_the_official_one() {
        let Some(splits) = load("zinc") else { return };
        assert_eq!(splits.label, None);
        let Some(Values::Float(first)) = &splits.train[0].y else { panic!("no target") };
        assert_eq!(format!("{:.5}", first[0]), "0.83504");
    }

    #[test]
    fn peptides_have_their_positives() {
        let Some(splits) = load("peptides-func") else { return };
        assert_eq!(splits.label, None);
        let mut positives = [0; 10];
        for sample in splits.parts().into_iter().flatten() {
            for (sum, label) in positives.iter_mut().zip(sample.y.as_ref().unwrap().to_floats()) {
                *sum += label as usize;
            }
        }
        assert_eq!(positives, [1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044]);
    }

    /// Probability of an edge between nodes of equal and of different class, in files and generated.
    #[test]
    fn generated_block_models_are_like_those_in_files() {
        for name in ["pattern", "cluster"] {
            let Some(files) = load(name) else { continue };
            let generated = sets::by_name(&format!("{name}-gen")).unwrap();
            let generated = generated.load(&LoadOptions::default()).unwrap();
            let shares = |splits: &Splits| {
                let (mut edges, mut pairs) = ([0.0; 2], [0.0; 2]);
                for sample in &splits.train {
                    let Some(Values::Int(y)) = &sample.y else { panic!("no classes") };
                    let mut sizes = [0.0f64; 6];
                    y.iter().for_each(|&class| sizes[class as usize] += 1.0);
                    let pairs_of = |n: f64| n * (n - 1.0) / 2.0;
                    let same: f64 = sizes.map(pairs_of).iter().sum();
                    pairs[0] += same;
                    pairs[1] += pairs_of(y.len() as f64) - same;
                    for (u, v, _) in sample.graph.edges() {
                        edges[usize::from(y[u as usize] != y[v as usize])] += 1.0;
                    }
                }
                [edges[0] / pairs[0], edges[1] / pairs[1]]
            };
            let (here, there) = (shares(&generated), shares(&files));
            println!("{name}: {here:?}, {there:?}");
            for (a, b) in here.iter().zip(there) {
                assert!((a - b).abs() < 0.01, "{name}: {here:?}, {there:?}");
            }
        }
    }
}
