//! Encodings of the nodes of one graph, and of its pairs: where a node stands, without features.
//!
//! | function | gives | of |
//! |---|---|---|
//! | [`random_walk`] | probabilities to be back after 1, 2, … steps | arcs as given |
//! | [`relative_walk`] | probabilities to get from u to v in 0, 1, … steps | arcs as given |
//! | [`LaplacianEncoding`] | lowest frequencies of the graph and their vectors | undirected graph |
//! | [`arc_degrees`], [`degrees`] | degrees, clipped | arcs as given; undirected graph |
//! | [`Node2Vec`] | vectors learned from random walks | undirected graph |
//!
//! Numbers are computed in `f64` by plain sums, products, quotients and square roots in a fixed order:
//! the same bytes on every machine and for any number of threads. Learned vectors are in `f32`, and exponentials those of the
//! machine. What is quadratic in the nodes, or learned, asks a [`MemoryLimit`](crate::MemoryLimit) first.
//!
//! ```
//! use hdse::encoding::{Laplacian, LaplacianEncoding, SelfLoops, Walk, random_walk};
//! use hdse::{Graph, MemoryLimit};
//! // A triangle with a tail, arcs in both directions.
//! let sources = [0, 1, 1, 2, 2, 0, 2, 3];
//! let targets = [1, 0, 2, 1, 0, 2, 3, 2];
//! let walk = Walk::new(4, &sources, &targets, SelfLoops::Keep)?;
//! let returns = random_walk(&walk, 2, MemoryLimit::default())?;
//! assert_eq!(returns[..2], [0.0, 5.0 / 12.0]); // node 0 after one step, and two: ½ · ½ + ½ · ⅓
//! assert_eq!(returns[7], 1.0 / 3.0); // node 3: from the tail to 2, back one time in three
//!
//! let (graph, _) = Graph::from_pairs(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?;
//! let lowest = LaplacianEncoding::new(&graph, Laplacian::Combinatorial, 3, 1, MemoryLimit::default())?;
//! assert!((lowest.values[0] - 1.0).abs() < 1e-12);
//! assert!(lowest.vectors[3 * 3] > 0.8); // node 3 stands apart in the first of three columns
//! # Ok::<(), hdse::Error>(())
//! ```

mod degree;
mod laplacian;
mod node2vec;
mod random_walk;
mod relative_walk;
mod walk;

pub use crate::spectrum::Laplacian;
pub use degree::{arc_degrees, degrees};
pub use laplacian::LaplacianEncoding;
pub use node2vec::{Embedded, Node2Vec};
pub use random_walk::random_walk;
pub use relative_walk::relative_walk;
pub use walk::{SelfLoops, Walk};
