//! Hop distances and quotient distances of given partitions: exact.

use super::Fixture;
use hdse::distance::{Codes, Distances, HighLevel, MaxDistance};
use hdse::{Graph, Hierarchy, MemoryLimit, Partition};

pub fn check(fixture: &Fixture) {
    let graphs = fixture.config["graphs"].as_object().expect("graphs in the config");
    assert!(!graphs.is_empty(), "{}: no graph", fixture.name);
    for id in graphs.keys() {
        let num_nodes = fixture.ints(&format!("in.{id}.num_nodes"))[0] as usize;
        let edges = fixture.ints(&format!("in.{id}.edges"));
        let (sources, targets) = edges.split_at(edges.len() / 2);
        let pairs: Vec<(u32, u32)> =
            sources.iter().zip(targets).map(|(&u, &v)| (u as u32, v as u32)).collect();
        let (graph, _) = Graph::from_pairs(num_nodes, &pairs).unwrap();
        let partitions: Vec<Partition> = (1..)
            .map(|k| format!("in.{id}.part{k}"))
            .take_while(|name| fixture.has(name))
            .map(|name| fixture.ints(&name).iter().map(|&c| c as u32).collect())
            .map(|ids| Partition::new(ids).unwrap())
            .collect();
        let levels = partitions.len();
        let hierarchy = Hierarchy::from_partitions(&graph, partitions).unwrap();
        let clip = MaxDistance::new(&[254]).unwrap();
        let found = Distances::new(&graph, &hierarchy, &clip, MemoryLimit::NONE).unwrap();
        let lifted = found.lifted();
        let codes = Codes::new(&found);
        for level in 0..=levels {
            let name = match level {
                0 => format!("out.{id}.spd"),
                k => format!("out.{id}.ghd{k}"),
            };
            let expected = fixture.bytes(&name);
            assert_eq!(expected.len(), num_nodes * num_nodes, "{}: {name}", fixture.name);
            for (pair, &d) in expected.iter().enumerate() {
                let (u, v) = ((pair / num_nodes) as u32, (pair % num_nodes) as u32);
                let place = format!("{}: {name}[{u}, {v}]", fixture.name);
                assert_eq!(lifted[pair * (levels + 1) + level], d, "{place}");
                assert_eq!(found.get(level, u, v), d, "{place} read alone");
                assert_eq!(codes.codebook().row(codes.get(pair))[level], d, "{place} by code");
            }
            for c in 0..=level {
                let high = HighLevel::new(&graph, &hierarchy, c, &clip, MemoryLimit::NONE).unwrap();
                for (pair, &d) in expected.iter().enumerate() {
                    let (u, v) = ((pair / num_nodes) as u32, (pair % num_nodes) as u32);
                    let cluster = hierarchy.ancestor(c, v);
                    assert_eq!(high.get(level, u, cluster), d, "{}: {name} from {c}", fixture.name);
                }
            }
            fixture.mark(&name);
        }
    }
}
