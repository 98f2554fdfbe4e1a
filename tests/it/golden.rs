//! Numbers computed by other software, tensor by tensor.
//!
//! Walks tests/golden, or `HDSE_GOLDEN`, and checks every fixture of a kind that is implemented
//! against its sidecar; other kinds are named as not covered (quality.rs reads those about partitions).
//! Run alone with `cargo test --release --test it golden -- --nocapture`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::golden;
use hdse::distance::{Codes, Distances, HighLevel, MaxDistance};
use hdse::{Graph, Hierarchy, MemoryLimit, Partition};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// A check of all tensors of one fixture; gives the number compared.
type Check = fn(&Fixture) -> usize;

/// The kinds that are implemented.
const KINDS: &[(u64, &str, Check)] = &[(8, "distances", distances)];

struct Fixture<'a> {
    name: String,
    config: Value,
    tensors: SafeTensors<'a>,
}

impl Fixture<'_> {
    fn ints(&self, name: &str) -> Vec<i64> {
        let tensor =
            self.tensors.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name));
        assert_eq!(tensor.dtype(), Dtype::I64, "{}: {name}", self.name);
        let words = tensor.data().as_chunks::<8>().0;
        words.iter().map(|&word| i64::from_le_bytes(word)).collect()
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let tensor =
            self.tensors.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name));
        assert_eq!(tensor.dtype(), Dtype::U8, "{}: {name}", self.name);
        tensor.data()
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }
}

#[test]
fn golden_fixtures_agree() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut not_covered = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(golden())
        .unwrap_or_else(|e| panic!("{}: {e}", golden().display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let sidecar: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let kind = sidecar["kind"].as_u64();
        let Some((_, kind, check)) = KINDS.iter().find(|(k, ..)| Some(*k) == kind) else {
            not_covered.push(name);
            continue;
        };
        let bytes = std::fs::read(path.with_extension("safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let compared = check(&Fixture { name, config: sidecar["config"].clone(), tensors });
        let (fixtures, total) = counts.entry(kind).or_default();
        *fixtures += 1;
        *total += compared;
    }
    for (kind, (fixtures, tensors)) in &counts {
        println!("{kind}: {fixtures} fixtures, {tensors} tensors compared");
    }
    if !not_covered.is_empty() {
        println!("not covered: {}", not_covered.join(", "));
    }
    let total: usize = counts.values().map(|(_, tensors)| tensors).sum();
    assert!(total > 0, "no fixture of an implemented kind in {}", golden().display());
}

/// Hop distances and quotient distances of given partitions: exact.
fn distances(fixture: &Fixture) -> usize {
    let mut compared = 0;
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
            compared += 1;
        }
    }
    compared
}
