"""GOAT + HDSE in PyTorch: its inputs, and the forms `released` and `lean` (see nodes_torch.py)."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

import torch_run


class Graph:
    """Everything that is not learned."""

    def __init__(self, arrays: torch_run.Arrays, prefix: str = "") -> None:
        def tensor(name: str) -> Tensor:
            numbers = arrays[prefix + name]
            # PyTorch indexes by these only.
            kind = np.int64 if numbers.dtype == np.uint32 else numbers.dtype
            return torch.from_numpy(numbers.astype(kind))

        self.arcs, self.cluster, self.distances = map(tensor, ("edge_index", "cluster", "dist.1"))
        self.y, self.train = tensor("y"), tensor("train_idx")
        self.nodes, self.clusters = len(self.cluster), len(self.distances)
        self.sizes = torch.bincount(self.cluster, minlength=self.clusters)
        self.sparse = f"{prefix}features.offsets" in arrays
        if self.sparse:
            names = ("values", "columns", "offsets")
            parts = [tensor(f"features.{name}").numpy() for name in names]
            width = arrays["param.fc_in1.weight"].shape[1]
            self.x = scipy.sparse.csr_array(tuple(parts), (self.nodes, width))
        else:
            self.x = tensor("features" if f"{prefix}features" in arrays else "x")

    def dense(self) -> Tensor:
        return torch.from_numpy(self.x.toarray()) if self.sparse else self.x

    def convolution(self) -> scipy.sparse.csr_array:
        """The matrix of a graph convolution: arcs and loops, divided by the roots of degrees."""
        sources, targets = self.arcs.numpy()
        ones = np.ones(len(sources))
        arcs = scipy.sparse.csr_array((ones, (targets, sources)), (self.nodes, self.nodes))
        arcs = arcs + scipy.sparse.eye_array(self.nodes)
        root = scipy.sparse.diags_array(arcs.sum(1) ** -0.5)
        return (root @ arcs @ root).tocsr()


def csr(matrix: scipy.sparse.csr_array, dtype: torch.dtype) -> Tensor:
    matrix.sort_indices()
    # MKL has 32-bit indices; others would be converted in every product.
    places = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data).to(dtype)
    return torch.sparse_csr_tensor(*places, values, matrix.shape)


class Distances(nn.Module):
    """relu(A E[d]) of distances, in any shape: the bias of all layers and heads starts here."""

    def __init__(self, shapes: dict[str, torch.Size]) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({"1": nn.Embedding(*shapes["hdse.tables.1.weight"])})
        self.proj = nn.Linear(*shapes["hdse.proj.weight"][::-1])

    def forward(self, distances: Tensor) -> Tensor:
        return self.proj(self.tables["1"](distances)).relu()


class Layer(nn.Module):
    def __init__(self, shapes: dict[str, torch.Size], number: int) -> None:
        super().__init__()
        place = f"layers.{number}."
        for name in ("proj", "q", "k", "v", "ff1", "ff2", "dist_lin", "hdse_map"):
            if shape := shapes.get(f"{place}{name}.weight"):
                setattr(self, name, nn.Linear(*shape[::-1]))
        if shape := shapes.get(f"{place}dist_emb.weight"):
            self.dist_emb = nn.Embedding(*shape)
        self.norm1, self.norm2 = (nn.BatchNorm1d(self.q.out_features) for _ in range(2))


class Released(nn.Module):
    def __init__(
        self,
        graph: Graph,
        parameters: dict[str, Tensor],
        heads: int,
        dropout: tuple[float, float] = (0.0, 0.0),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        shapes = {name: value.shape for name, value in parameters.items()}
        self.heads, (self.p, self.attention_p) = heads, dropout
        self.fc_in1, self.fc_in2, self.out = (
            nn.Linear(*shapes[f"{name}.weight"][::-1]) for name in ("fc_in1", "fc_in2", "out")
        )
        width = self.fc_in2.out_features
        self.norm_in = nn.BatchNorm1d(width)
        if "hdse.proj.weight" in shapes:
            self.hdse = Distances(shapes)
        count = sum(name.endswith(".ff1.weight") for name in shapes)
        self.layers = nn.ModuleList(Layer(shapes, number) for number in range(count))
        maps = (shapes[f"gcn.{n}.lin.weight"] for n in range(9) if f"gcn.{n}.bias" in shapes)
        self.gcn = nn.ModuleList(GCNConv(*shape[::-1], cached=True) for shape in maps)
        torch_run.load(self, parameters)
        self.to(dtype)
        self.prepare(graph, dtype)

    def prepare(self, graph: Graph, dtype: torch.dtype) -> None:
        self.x, self.arcs = graph.dense().to(dtype), graph.arcs
        self.cluster, self.clusters = graph.cluster, graph.clusters
        self.y, self.train_rows = graph.y, graph.train
        self.distances = graph.distances[graph.cluster].to(dtype)  # [nodes, clusters]

    def forward(self) -> Tensor:
        """Predictions for all nodes."""
        z = self.fc_in2(self.join(self.norm_in, self.mapped(self.fc_in1)))
        for layer in self.layers:
            z = self.join(layer.norm1, layer.ff1(self.attend(layer, z)))
            z = self.join(layer.norm2, layer.ff2(z))
        return self.out(z + self.local() if self.gcn else z)

    def mapped(self, map: nn.Linear) -> Tensor:
        """Features through a map."""
        return map(self.x)

    def join(self, norm: nn.BatchNorm1d, z: Tensor) -> Tensor:
        return F.dropout(norm(z).relu(), self.p, self.training)

    def attend(self, layer: Layer, z: Tensor) -> Tensor:
        members = F.one_hot(self.cluster, self.clusters).to(z.dtype)
        sizes = members.sum(0)
        means = (members.t() @ z) / sizes.clamp(min=1)[:, None]
        query = layer.q(layer.proj(z)).view(len(z), self.heads, -1)
        key, value = (map(means).view(self.clusters, self.heads, -1) for map in (layer.k, layer.v))
        scores = torch.einsum("nhw,chw->nch", query, key) / query.shape[2] ** 0.5
        scores = scores + sizes.log()[:, None] + self.bias(layer, self.distances.long())
        weights = F.dropout(scores.softmax(1), self.attention_p, self.training)
        return torch.einsum("nch,chw->nhw", weights, value).flatten(1)

    def bias(self, layer: Layer, distances: Tensor) -> Tensor:
        """Of distances in any shape; the last axis is the head, or 1 if heads share it."""
        if hasattr(self, "hdse"):
            return layer.hdse_map(self.hdse(distances))
        return layer.dist_lin(layer.dist_emb(distances))

    def local(self) -> Tensor:
        z = self.x
        for number, layer in enumerate(self.gcn):
            if number > 0:
                z = F.dropout(z.relu(), self.p, self.training)
            z = self.convolve(layer, z)
        return z

    def convolve(self, layer: GCNConv, z: Tensor) -> Tensor:
        return layer(z, self.arcs)

    def loss(self) -> Tensor:
        return F.nll_loss(self().log_softmax(1)[self.train_rows], self.y[self.train_rows])


class Lean(Released):
    def prepare(self, graph: Graph, dtype: torch.dtype) -> None:
        super().prepare(graph, dtype)
        self.distances, codes = graph.distances.unique(return_inverse=True)
        self.distances, self.codes = self.distances.long(), codes  # [clusters, clusters]
        self.sizes = graph.sizes.to(dtype)
        self.log_sizes = self.sizes.log()
        self.matrix = csr(graph.convolution(), dtype)

    def attend(self, layer: Layer, z: Tensor) -> Tensor:
        sums = z.new_zeros(self.clusters, z.shape[1]).index_add(0, self.cluster, z)
        means = sums / self.sizes.clamp(min=1)[:, None]
        query, key, value = (
            states.view(len(states), self.heads, -1).transpose(0, 1)
            for states in (layer.q(layer.proj(z)), layer.k(means), layer.v(means))
        )
        rows = self.table(layer).index_select(1, self.cluster)  # [heads, nodes, clusters]
        scores = torch.baddbmm(rows, query, key.transpose(1, 2), alpha=query.shape[2] ** -0.5)
        weights = F.dropout(scores.softmax(2), self.attention_p, self.training)
        return torch.bmm(weights, value).transpose(0, 1).flatten(1)

    def table(self, layer: Layer) -> Tensor:
        """What is added to scores, by head and pair of clusters."""
        bias = self.bias(layer, self.distances)[self.codes]  # [clusters, clusters, heads or 1]
        return (bias.permute(2, 0, 1) + self.log_sizes).expand(self.heads, -1, -1)

    def convolve(self, layer: GCNConv, z: Tensor) -> Tensor:
        return self.matrix @ layer.lin(z) + layer.bias

    def loss(self) -> Tensor:
        return F.cross_entropy(self()[self.train_rows], self.y[self.train_rows])
