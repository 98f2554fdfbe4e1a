//! From features to the first states of nodes and arcs.

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Spectrum, Structure};
use super::config::{EdgeInput, Encoding, ModelConfig, NodeInput};
use super::layers::{BatchNorm, Embedding, Linear};
use super::ops::rows::{Groups, sum};
use super::parameters::{Init, Scope};
use super::pass::{Pass, matrix};
use super::sign_net::{SignNet, Sizes};
use crate::data::{Matrix, Values};
use crate::{Error, Result};

/// Features of nodes or arcs → states.
#[derive(Clone, Debug)]
pub enum FeatureEncoder {
    /// One embedding.
    Types(Embedding),
    /// Embeddings of several columns, added up.
    Columns(Vec<Embedding>),
    /// A linear map of the first columns.
    Linear {
        /// The map.
        map: Linear,
        /// Columns read.
        columns: usize,
        /// Columns there are.
        of: usize,
    },
    /// The same state for all.
    Dummy(Embedding),
}

impl FeatureEncoder {
    /// Node features to `width` numbers: `node_emb`, `atom_emb.N` or `node_lin`. The linear map has a
    /// bias if so told.
    pub fn nodes(scope: &mut Scope, input: &NodeInput, width: usize, bias: bool) -> Self {
        match input {
            NodeInput::Types(count) => {
                Self::Types(Embedding::new(scope.at("node_emb"), *count, width, Init::Normal(1.0)))
            }
            NodeInput::Atoms(counts) => Self::columns(scope.at("atom_emb"), counts, width),
            NodeInput::Linear(columns) | NodeInput::Leading { columns, .. } => {
                let (scope, columns) = (scope.at("node_lin"), *columns);
                let map = match bias {
                    true => Linear::new(scope, columns, width),
                    false => Linear::unbiased(scope, columns, width, Init::fan_in(columns)),
                };
                let of = if let NodeInput::Leading { of, .. } = input { *of } else { columns };
                Self::Linear { map, columns, of }
            }
        }
    }

    /// Arc features to `width` numbers: `edge_emb`, `bond_emb.N` or `edge_lin`; none for none.
    pub fn arcs(scope: &mut Scope, input: &EdgeInput, width: usize) -> Option<Self> {
        let mut embedding =
            |count| Embedding::new(scope.at("edge_emb"), count, width, Init::Normal(1.0));
        Some(match input {
            EdgeInput::None => return None,
            EdgeInput::Dummy => Self::Dummy(embedding(1)),
            EdgeInput::Types(count) => Self::Types(embedding(*count)),
            EdgeInput::Bonds(counts) => Self::columns(scope.at("bond_emb"), counts, width),
            &EdgeInput::Linear(columns) => {
                let map = Linear::new(scope.at("edge_lin"), columns, width);
                Self::Linear { map, columns, of: columns }
            }
        })
    }

    fn columns(mut scope: Scope, counts: &[usize], width: usize) -> Self {
        let embedding = |(column, &count): (usize, &usize)| {
            Embedding::new(scope.at(column), count, width, Init::xavier_uniform(count, width))
        };
        Self::Columns(counts.iter().enumerate().map(embedding).collect())
    }

    /// `[rows, width]`, for so many rows of `features`; `what` they are is said in errors.
    pub fn forward(
        &self,
        pass: &Pass,
        features: Option<&Matrix>,
        rows: usize,
        what: &str,
    ) -> Result<Tensor<2>> {
        if let Self::Dummy(embedding) = self {
            return Ok(embedding.forward(pass, vec![0; rows]));
        }
        let width = match self {
            Self::Columns(embeddings) => embeddings.len(),
            Self::Linear { of, .. } => *of,
            _ => 1,
        };
        let features = columns(features, rows, width, what)?;
        match self {
            Self::Linear { map, columns, .. } => {
                let values = features.values.to_floats();
                let read = matrix(values, [rows, width], pass.device()).narrow(1, 0, *columns);
                Ok(map.forward(pass, read))
            }
            Self::Types(embedding) => {
                Ok(embedding.forward(pass, types(features, 0, embedding.count(), what)?))
            }
            Self::Columns(embeddings) => {
                let mut total: Option<Tensor<2>> = None;
                for (column, embedding) in embeddings.iter().enumerate() {
                    let ids = types(features, column, embedding.count(), what)?;
                    let states = embedding.forward(pass, ids);
                    total = Some(match total {
                        Some(total) => total + states,
                        None => states,
                    });
                }
                total.ok_or_else(|| Error::config(format!("no column of {what} is declared")))
            }
            Self::Dummy(_) => unreachable!("returned above"),
        }
    }
}

/// Refuses features that a model of this configuration cannot read.
pub(super) fn check(batch: &Batch, config: &ModelConfig) -> Result<()> {
    let all =
        |features: &Option<Matrix>, rows: usize, width: usize, counts: &[usize], what: &str| {
            let features = columns(features.as_ref(), rows, width, what)?;
            let mut counts = counts.iter().enumerate();
            counts.try_for_each(|(column, &count)| types(features, column, count, what).map(|_| ()))
        };
    let (width, counts): (usize, &[usize]) = match &config.node {
        NodeInput::Types(count) => (1, std::slice::from_ref(count)),
        NodeInput::Atoms(counts) => (counts.len(), counts),
        NodeInput::Linear(width) | NodeInput::Leading { of: width, .. } => (*width, &[]),
    };
    all(&batch.node_features, batch.num_nodes(), width, counts, "node features")?;
    let (width, counts): (usize, &[usize]) = match &config.edge {
        EdgeInput::None | EdgeInput::Dummy => return Ok(()),
        EdgeInput::Types(count) => (1, std::slice::from_ref(count)),
        EdgeInput::Bonds(counts) => (counts.len(), counts),
        EdgeInput::Linear(width) => (*width, &[]),
    };
    all(&batch.edge_features, batch.edges.sources.len(), width, counts, "edge features")
}

/// Features of so many columns, or an error.
fn columns<'a>(
    features: Option<&'a Matrix>,
    rows: usize,
    width: usize,
    what: &str,
) -> Result<&'a Matrix> {
    const KEYS: &str = "`model.node` and `model.edge` say what it reads";
    let features = features.ok_or_else(|| {
        Error::data(format!("the model reads {what}, but the graphs have none; {KEYS}"))
    })?;
    if rows > 0 && features.width != width {
        return Err(Error::data(format!(
            "the model reads {width} column(s) of {what}, but the graphs have {}; {KEYS}",
            features.width
        )));
    }
    Ok(features)
}

/// A column of types, checked.
fn types(features: &Matrix, column: usize, count: usize, what: &str) -> Result<Vec<u32>> {
    let Values::Int(values) = &features.values else {
        return Err(Error::data(format!(
            "the model reads {what} as types, but they are real numbers; use whole numbers, or a \
             linear encoder"
        )));
    };
    let column_values = values.iter().skip(column).step_by(features.width.max(1));
    column_values
        .enumerate()
        .map(|(row, &value)| {
            u32::try_from(value).ok().filter(|&id| (id as usize) < count).ok_or_else(|| {
                Error::data(format!(
                    "column {column} of {what} is {value} in row {row}, but the model has types 0 \
                     to {}; declare more in `model.node` or `model.edge`",
                    count as i64 - 1
                ))
            })
        })
        .collect()
}

/// A positional encoding → columns of the node state, positions, or nothing.
#[derive(Clone, Debug)]
pub enum PositionEncoder {
    /// No encoding.
    None,
    /// Return probabilities through BatchNorm and a linear map: `pe_norm`, `pe_lin`.
    RandomWalk(BatchNorm, Linear, usize),
    /// The same through a linear map alone: `pe_lin`.
    PlainRandomWalk(Linear, usize),
    /// For every frequency, eigenvector entry and eigenvalue through a network `pe_lin1`, `pe_lin2`; the
    /// results added up. Random signs in training, if so told.
    DeepSet(Linear, Linear, usize, bool),
    /// Eigenvector entries through a linear map `pe_lin`; random signs in training, if so told.
    Eigenvectors(Linear, usize, bool),
    /// Eigenvector entries through networks that do not depend on signs: `pe_phi`, `pe_rho`.
    SignNet(SignNet, usize),
    /// An embedding of the degree: `degree_emb`.
    Degree(Embedding),
}

impl PositionEncoder {
    /// An encoding that takes columns of the node state, or is apart from it (`eslappe`). Also gives
    /// how many columns it takes.
    pub fn columns(
        scope: &mut Scope,
        encoding: &Encoding,
        width: usize,
    ) -> Result<(PositionEncoder, usize)> {
        let own = |dim: &Option<usize>| {
            let missing = || Error::config("`encoding` needs `dim`, its columns of the node state");
            let dim = dim.ok_or_else(missing)?;
            if dim == 0 || dim >= width {
                return Err(Error::config(format!(
                    "`encoding` takes {dim} of {width} columns; it must leave some to the features"
                )));
            }
            Ok(dim)
        };
        Ok(match encoding {
            Encoding::None => (Self::None, 0),
            Encoding::Rwse { steps, dim, .. } => {
                let dim = own(dim)?;
                let norm = BatchNorm::new(scope.at("pe_norm"), *steps);
                let map = Linear::new(scope.at("pe_lin"), *steps, dim);
                (Self::RandomWalk(norm, map, *steps), dim)
            }
            Encoding::Rrwp { .. } => return Err(not_of_nodes()),
            Encoding::Node2Vec(_) => return Err(of_one_graph()),
            Encoding::LapPe { frequencies, dim, random_signs, .. } => {
                let dim = own(dim)?;
                let first = Linear::new(scope.at("pe_lin1"), 2, 2 * dim);
                let second = Linear::new(scope.at("pe_lin2"), 2 * dim, dim);
                (Self::DeepSet(first, second, *frequencies, *random_signs), dim)
            }
            Encoding::SignNet { dim, .. } => {
                let dim = own(dim)?;
                (Self::sign_net(scope, encoding, dim), dim)
            }
            Encoding::EsLapPe { frequencies, .. } => {
                let map = Linear::new(scope.at("pe_lin"), *frequencies, width);
                (Self::Eigenvectors(map, *frequencies, false), 0)
            }
            Encoding::Degree { max, dim } => {
                let dim = own(dim)?;
                (Self::degree(scope, *max, dim), dim)
            }
        })
    }

    /// An encoding that is added to the node state.
    pub fn added(scope: &mut Scope, encoding: &Encoding, width: usize) -> Result<PositionEncoder> {
        if let Encoding::Rwse { dim: Some(_), .. }
        | Encoding::LapPe { dim: Some(_), .. }
        | Encoding::SignNet { dim: Some(_), .. }
        | Encoding::Degree { dim: Some(_), .. } = encoding
        {
            return Err(Error::config(
                "this backbone adds `encoding` to all columns of the node state; leave out its `dim`",
            ));
        }
        Ok(match encoding {
            Encoding::None => Self::None,
            Encoding::Rwse { steps, .. } => {
                Self::PlainRandomWalk(Linear::new(scope.at("pe_lin"), *steps, width), *steps)
            }
            Encoding::Rrwp { .. } => return Err(not_of_nodes()),
            Encoding::Node2Vec(_) => return Err(of_one_graph()),
            Encoding::LapPe { frequencies, random_signs, .. } => {
                let map = Linear::new(scope.at("pe_lin"), *frequencies, width);
                Self::Eigenvectors(map, *frequencies, *random_signs)
            }
            Encoding::SignNet { .. } => Self::sign_net(scope, encoding, width),
            Encoding::EsLapPe { .. } => {
                return Err(Error::config(
                    "`encoding.eslappe` feeds the edge gate of GatedGCN, which this backbone has not",
                ));
            }
            Encoding::Degree { max, .. } => Self::degree(scope, *max, width),
        })
    }

    fn sign_net(scope: &mut Scope, encoding: &Encoding, outputs: usize) -> PositionEncoder {
        let Encoding::SignNet { frequencies, hidden, width, layers, post_layers, combine, .. } =
            *encoding
        else {
            return Self::None;
        };
        let sizes = Sizes { frequencies, hidden, width, layers, post_layers, outputs };
        Self::SignNet(SignNet::new(scope, sizes, combine), frequencies)
    }

    fn degree(scope: &mut Scope, max: usize, width: usize) -> PositionEncoder {
        Self::Degree(Embedding::new(scope.at("degree_emb"), max + 1, width, Init::Normal(1.0)))
    }

    /// `[nodes, columns]`; none without encoding.
    pub fn forward(
        &self,
        pass: &Pass,
        batch: &Batch,
        structure: &Structure,
    ) -> Result<Option<Tensor<2>>> {
        let nodes = batch.num_nodes();
        Ok(Some(match self {
            Self::None => return Ok(None),
            Self::RandomWalk(norm, map, steps) => {
                let walks = random_walk(pass, batch, *steps)?;
                map.forward(pass, norm.forward(pass, walks))
            }
            Self::PlainRandomWalk(map, steps) => {
                map.forward(pass, random_walk(pass, batch, *steps)?)
            }
            Self::Eigenvectors(map, frequencies, random_signs) => {
                let vectors = vectors(pass, spectrum(batch, *frequencies)?, *random_signs);
                map.forward(pass, matrix(vectors, [nodes, *frequencies], pass.device()))
            }
            Self::DeepSet(first, second, frequencies, random_signs) => {
                let spectrum = spectrum(batch, *frequencies)?;
                let vectors = vectors(pass, spectrum, *random_signs);
                // One row for each frequency that a node has: [v, λ].
                let graphs = structure.by_graph.of_row();
                let mut rows = Vec::new();
                let mut node_of_row = Vec::new();
                for (node, &graph) in graphs.iter().enumerate() {
                    let graph = graph as usize;
                    for frequency in 0..spectrum.counts[graph] {
                        rows.push(vectors[node * frequencies + frequency]);
                        rows.push(spectrum.values[graph * frequencies + frequency]);
                        node_of_row.push(node as u32);
                    }
                }
                let rows = matrix(rows, [node_of_row.len(), 2], pass.device());
                let hidden = activation::relu(first.forward(pass, rows));
                let hidden = activation::relu(second.forward(pass, hidden));
                sum(pass, &Groups::new(node_of_row, nodes), hidden)
            }
            Self::SignNet(network, frequencies) => {
                network.forward(pass, structure, spectrum(batch, *frequencies)?)?
            }
            Self::Degree(embedding) => {
                let largest = embedding.count() - 1;
                let degrees = structure.by_target.sizes().map(|size| size.min(largest) as u32);
                embedding.forward(pass, degrees.collect())
            }
        }))
    }
}

fn not_of_nodes() -> Error {
    Error::config(
        "`encoding.rrwp` is of pairs of nodes, which only the backbone grit reads; take `rwse`",
    )
}

fn of_one_graph() -> Error {
    Error::config("`encoding.node2vec` is of one large graph, which this backbone does not read")
}

fn random_walk(pass: &Pass, batch: &Batch, steps: usize) -> Result<Tensor<2>> {
    let found = batch.random_walk.as_ref().map(|walks| (walks.width, &walks.values));
    match found {
        Some((width, Values::Float(values))) if width == steps => {
            Ok(matrix(values.clone(), [batch.num_nodes(), steps], pass.device()))
        }
        _ => Err(Error::data(format!(
            "the model reads random walks of {steps} steps, but the batch has {}",
            found.map_or("none".into(), |(width, _)| format!("{width}"))
        ))),
    }
}

fn spectrum(batch: &Batch, frequencies: usize) -> Result<&Spectrum> {
    let found = batch.spectrum.as_ref();
    found.filter(|spectrum| spectrum.frequencies == frequencies).ok_or_else(|| {
        Error::data(format!(
            "the model reads {frequencies} Laplacian eigenvectors, but the batch has {}",
            found.map_or(0, |spectrum| spectrum.frequencies)
        ))
    })
}

/// Eigenvectors; in training with random signs, if so told.
fn vectors(pass: &Pass, spectrum: &Spectrum, random_signs: bool) -> Vec<f32> {
    let mut vectors = spectrum.vectors.clone();
    if let Some(signs) = pass.signs(spectrum.frequencies).filter(|_| random_signs) {
        for (entry, sign) in vectors.iter_mut().zip(signs.iter().cycle()) {
            *entry *= sign;
        }
    }
    vectors
}
