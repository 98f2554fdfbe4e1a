//! Encodings of nodes and pairs: random walks, and eigenvectors up to what leaves them open.

use super::Fixture;
use hdse::encoding::{Laplacian, LaplacianEncoding, SelfLoops, Walk, random_walk, relative_walk};
use hdse::{Graph, MemoryLimit};

/// Largest difference of an eigenvalue found in double precision, as the sidecars have it.
const VALUE: f64 = 1e-6;
/// Largest difference of an entry of a projector.
const PROJECTOR: f64 = 1e-4;
/// Eigenvalues this far apart belong to different groups.
const GAP: f64 = 1e-8;

/// Whether there is a result that this file knows.
pub fn knows(fixture: &Fixture) -> bool {
    let known = [".rwse", ".rrwp", ".comb.eigvals", ".sym.eigvals"];
    fixture.names().iter().any(|name| known.iter().any(|end| name.ends_with(end)))
}

/// One graph of a fixture.
struct Case<'a> {
    fixture: &'a Fixture,
    id: &'a str,
    num_nodes: usize,
    sources: Vec<u32>,
    targets: Vec<u32>,
}

pub fn check(fixture: &Fixture) {
    let names = fixture.names();
    let ids = names.iter().filter_map(|name| name.strip_prefix("in.")?.strip_suffix(".edge_index"));
    for id in ids {
        let ends = fixture.ints(&format!("in.{id}.edge_index"));
        let (sources, targets) = ends.split_at(ends.len() / 2);
        let ids = |ends: &[i64]| ends.iter().map(|&u| u32::try_from(u).unwrap()).collect();
        let case = Case {
            fixture,
            id,
            num_nodes: fixture.ints(&format!("in.{id}.num_nodes"))[0] as usize,
            sources: ids(sources),
            targets: ids(targets),
        };
        case.check_walks();
        for (name, laplacian) in
            [("comb", Laplacian::Combinatorial), ("sym", Laplacian::Normalised)]
        {
            if fixture.has(&case.result(&format!("{name}.eigvals"))) {
                case.check_laplacian(name, laplacian);
            }
        }
        let prefix = case.result("pyg_lappe");
        names
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .for_each(|name| case.check_skipped(name));
    }
}

impl Case<'_> {
    fn result(&self, name: &str) -> String {
        format!("out.{}.{name}", self.id)
    }

    fn graph(&self) -> Graph {
        let pairs: Vec<(u32, u32)> =
            self.sources.iter().copied().zip(self.targets.iter().copied()).collect();
        Graph::from_pairs(self.num_nodes, &pairs).unwrap().0
    }

    fn check_walks(&self) {
        let (fixture, n) = (self.fixture, self.num_nodes);
        let walk = Walk::new(n, &self.sources, &self.targets, SelfLoops::Keep).unwrap();
        let length = |shape: &[usize]| {
            let length = shape[shape.len() - 1];
            let stated = fixture.number("config.steps");
            assert!(stated.is_none_or(|s| s == length as f64), "{}: {stated:?}", fixture.name);
            length
        };
        let limit = || absolute_limit(fixture);
        let name = self.result("rwse");
        if fixture.has(&name) {
            let shape = fixture.shape(&name);
            let found = random_walk(&walk, length(&shape), MemoryLimit::NONE).unwrap();
            assert_eq!(shape, [n, length(&shape)], "{}: {name}", fixture.name);
            fixture.close(&name, found.into_iter().map(f64::from), limit());
        }
        let name = self.result("rrwp");
        if fixture.has(&name) {
            let shape = fixture.shape(&name);
            let found = relative_walk(&walk, length(&shape), MemoryLimit::NONE).unwrap();
            assert_eq!(shape, [n, n, length(&shape)], "{}: {name}", fixture.name);
            fixture.close(&name, found.into_iter().map(f64::from), limit());
        }
    }

    /// Matrix, values, groups of equal values, and the projector of every group.
    fn check_laplacian(&self, name: &str, laplacian: Laplacian) {
        let (fixture, n, graph) = (self.fixture, self.num_nodes, self.graph());
        let name = |part: &str| self.result(&format!("{name}.{part}"));
        let matrix = laplacian.matrix(&graph, MemoryLimit::NONE).unwrap();
        fixture.close(&name("laplacian"), matrix.iter().copied(), VALUE);

        let found = LaplacianEncoding::new(&graph, laplacian, n, 0, MemoryLimit::NONE).unwrap();
        assert_eq!(found.count, n, "{}: {}", fixture.name, self.id);
        fixture.close(&name("eigvals"), found.values.iter().copied(), VALUE);

        let groups = group_starts(&found.values);
        let expected: Vec<usize> =
            fixture.ints(&name("group_ptr")).iter().map(|&start| start as usize).collect();
        assert_eq!(groups, expected, "{}: {}", fixture.name, name("group_ptr"));
        fixture.mark(&name("group_ptr"));

        let vectors = doubles(&found.vectors);
        let expected = doubles(&fixture.floats(&name("eigvecs")));
        assert_eq!(expected.len(), n * n, "{}: {}", fixture.name, name("eigvecs"));
        for group in groups.windows(2) {
            for (u, v) in (0..n).flat_map(|u| (0..n).map(move |v| (u, v))) {
                let entry = |vectors: &[f64]| -> f64 {
                    (group[0]..group[1]).map(|k| vectors[u * n + k] * vectors[v * n + k]).sum()
                };
                let difference = (entry(&vectors) - entry(&expected)).abs();
                let place = format!("{}[{u}, {v}] of group {group:?}", name("eigvecs"));
                assert!(difference <= PROJECTOR, "{}: {place}: {difference:e}", fixture.name);
            }
        }
        // By definition: our vectors and theirs, in the rounding of single precision.
        for vectors in [&vectors, &expected] {
            for (u, k) in (0..n).flat_map(|u| (0..n).map(move |k| (u, k))) {
                let product: f64 = (0..n).map(|v| matrix[u * n + v] * vectors[v * n + k]).sum();
                let residual = (product - found.values[k] * vectors[u * n + k]).abs();
                let scale = found.values[n - 1].max(1.0);
                let place = format!("{}[{u}, {k}]", name("eigvecs"));
                assert!(residual <= VALUE * scale, "{}: {place}: {residual:e}", fixture.name);
            }
        }
        fixture.mark(&name("eigvecs"));
    }

    /// Vectors of the normalised Laplacian without the first, of any sign: each lies in the space of its
    /// group, which for a single eigenvalue means it is ours or its opposite.
    fn check_skipped(&self, name: &str) {
        let (fixture, n, graph) = (self.fixture, self.num_nodes, self.graph());
        let columns = fixture.shape(name)[1];
        let encoding = |columns, skip| {
            let none = MemoryLimit::NONE;
            LaplacianEncoding::new(&graph, Laplacian::Normalised, columns, skip, none).unwrap()
        };
        let (whole, skipped) = (encoding(n, 0), encoding(columns, 1));
        let groups = group_starts(&whole.values);
        let vectors = doubles(&whole.vectors);
        let expected = doubles(&fixture.floats(name));
        let near = |a: f64, b: f64| (a - b).abs() <= PROJECTOR;
        for k in 0..columns {
            let place = format!("{}: {name}, column {k}", fixture.name);
            let theirs: Vec<f64> = (0..n).map(|u| expected[u * columns + k]).collect();
            if k + 1 >= n {
                // Frequencies that do not exist are zeros.
                assert!(k >= skipped.count && theirs.iter().all(|&x| x == 0.0), "{place}");
                continue;
            }
            let group = groups.windows(2).find(|group| group[1] > k + 1).unwrap();
            assert!(near(theirs.iter().map(|x| x * x).sum(), 1.0), "{place}: length");
            let scalar = |j: usize| -> f64 { (0..n).map(|u| theirs[u] * vectors[u * n + j]).sum() };
            let scalars: Vec<f64> = (group[0]..group[1]).map(scalar).collect();
            for u in 0..n {
                let columns = vectors[u * n + group[0]..u * n + group[1]].iter();
                let projected: f64 = columns.zip(&scalars).map(|(x, s)| x * s).sum();
                assert!(near(projected, theirs[u]), "{place}, node {u}");
            }
            if group[1] - group[0] == 1 {
                let ours = |u: usize| f64::from(skipped.vectors[u * columns + k]);
                let same = |sign: f64| (0..n).all(|u| near(sign * ours(u), theirs[u]));
                assert!(same(1.0) || same(-1.0), "{place}: another vector");
            }
        }
        fixture.mark(name);
    }
}

/// The limit that a sidecar states in words: "absolute 2e-6".
fn absolute_limit(fixture: &Fixture) -> f64 {
    let text = fixture.sidecar["tolerance"].to_string();
    let number = text.split("absolute ").nth(1).and_then(|rest| {
        rest.split(|c: char| !c.is_ascii_digit() && !"e.-".contains(c)).next()?.parse().ok()
    });
    number.unwrap_or_else(|| panic!("{}: no limit in {text}", fixture.name))
}

/// Where groups of equal values begin, and the end of the last.
fn group_starts(values: &[f64]) -> Vec<usize> {
    let begins = |&k: &usize| k == 0 || values[k] - values[k - 1] > GAP;
    (0..values.len()).filter(begins).chain([values.len()]).collect()
}

fn doubles(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}
