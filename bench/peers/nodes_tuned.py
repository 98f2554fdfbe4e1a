"""GOAT + HDSE in PyTorch: the forms `tuned` and `least` (see nodes_torch.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from nodes_model import Graph, Layer, Lean, csr
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv
from torch_run import keep

# Scores that are computed at a time: what stays in the cache, and keeps two threads busy.
SCORES = 2**20


class Sparse:
    """A sparse constant, and its transpose for the derivative."""

    def __init__(self, matrix: scipy.sparse.csr_array, dtype: torch.dtype) -> None:
        self.forward, self.backward = csr(matrix, dtype), csr(matrix.T.tocsr(), dtype)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return Product.apply(dense, self)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return matrix.forward @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.backward @ gradient.contiguous(), None


class Tuned(Lean):
    def prepare(self, graph: Graph, dtype: torch.dtype) -> None:
        super().prepare(graph, dtype)
        places = (np.ones(graph.nodes), (graph.cluster.numpy(), np.arange(graph.nodes)))
        members = scipy.sparse.csr_array(places, (graph.clusters, graph.nodes))
        weights = scipy.sparse.diags_array(1 / graph.sizes.numpy().clip(1))
        self.means = Sparse((weights @ members).tocsr(), dtype)
        rows = max(SCORES // (self.heads * graph.clusters), 1)
        pieces = [slice(at, at + rows) for at in range(0, graph.nodes, rows)]
        self.pieces = [
            (piece, graph.cluster[piece], csr(members[:, piece], dtype)) for piece in pieces
        ]
        self.features = Sparse(graph.x, dtype) if graph.sparse else None
        self.convolution = Sparse(graph.convolution(), dtype)
        if self.features:
            del self.x

    def mapped(self, map: nn.Linear) -> Tensor:
        if self.features is None:
            return map(self.x)
        mapped = self.features @ map.weight.t().contiguous()
        return mapped if map.bias is None else mapped + map.bias

    def join(self, norm: nn.BatchNorm1d, z: Tensor) -> Tensor:
        scale = 1 / (1 - self.p) if self.training else 1.0
        moments, affine = (norm.running_mean, norm.running_var), (norm.weight, norm.bias)
        z = F.batch_norm(z, *moments, *(part * scale for part in affine), self.training)
        return self.thinned(z)

    def thinned(self, z: Tensor) -> Tensor:
        """ReLU and dropout without its factor; ReLU is last, so that it can be in place."""
        return (z * keep(z.shape, self.p) if self.training and self.p else z).relu_()

    def join_convolve(self, z: Tensor, matrix: Sparse, layer: GCNConv) -> Tensor:
        """ReLU, dropout and a convolution; the smaller side of it is mapped."""
        weight = layer.lin.weight / (1 - self.p) if self.training else layer.lin.weight
        z, (rows, columns) = self.thinned(z), matrix.forward.shape
        if rows < columns:
            return F.linear(matrix @ z, weight, layer.bias)
        return matrix @ F.linear(z, weight) + layer.bias

    def attend(self, layer: Layer, z: Tensor) -> Tensor:
        means = self.means @ z
        query, key, value = (
            states.view(len(states), self.heads, -1).transpose(0, 1)
            for states in (layer.q(layer.proj(z)), layer.k(means), layer.v(means))
        )
        table = self.table(layer)
        mixed = self.mix(query * query.shape[2] ** -0.5, key, value, table)
        return mixed.transpose(0, 1).flatten(1)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, table: Tensor) -> Tensor:
        scale = 1 / (1 - self.attention_p) if self.training else 1.0
        return Attention.apply(query, key, value * scale, table, self)

    def local(self) -> Tensor:
        z = self.convolution @ self.mapped(self.gcn[0].lin) + self.gcn[0].bias
        for layer in self.gcn[1:]:
            z = self.join_convolve(z, self.convolution, layer)
        return z


class Attention(torch.autograd.Function):
    """softmax(q kᵀ + rows of a table) v, piece by piece; dropout has no factor."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, table: Tensor, model: Tuned
    ) -> Tensor:
        mixed = query.new_empty(*query.shape[:2], value.shape[2])
        ctx.model, ctx.kept = model, []
        for rows, cluster, _ in model.pieces:
            scores = table.index_select(1, cluster)
            scores.baddbmm_(query[:, rows], key.transpose(1, 2))
            # A group of scores for each head, where all heads are in one product.
            weights = scores.unflatten(2, (-1, model.clusters)).softmax(3).flatten(2)
            mask = None
            if model.training:
                mask = keep(weights.shape, model.attention_p) if model.attention_p else None
                ctx.kept.append((weights, mask))
            mixed[:, rows] = torch.bmm(weights if mask is None else weights * mask, value)
        ctx.save_for_backward(query, key, value, table)
        return mixed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, table = ctx.saved_tensors
        by_query, by_key, by_value = map(torch.zeros_like, (query, key, value))
        by_table = torch.zeros(table.shape, dtype=table.dtype)
        for (rows, _, members), (weights, mask) in zip(ctx.model.pieces, ctx.kept, strict=True):
            given = gradient[:, rows]
            dropped = weights if mask is None else weights * mask
            by_value.baddbmm_(dropped.transpose(1, 2), given)
            by_weights = torch.bmm(given, value.transpose(1, 2))
            by_weights = by_weights if mask is None else by_weights.mul_(mask)
            groups = (part.unflatten(2, (-1, ctx.model.clusters)) for part in (by_weights, weights))
            scores = torch.ops.aten._softmax_backward_data(*groups, 3, weights.dtype).flatten(2)
            by_query[:, rows] = torch.bmm(scores, key)
            by_key.baddbmm_(scores.transpose(1, 2), query[:, rows])
            for head, of_head in zip(by_table, scores, strict=True):
                head += members @ of_head
        return by_query, by_key, by_value, by_table, None


class Least(Tuned):
    """Heads stand side by side in one product where that takes fewer operations."""

    def prepare(self, graph: Graph, dtype: torch.dtype) -> None:
        super().prepare(graph, dtype)
        self.there = (graph.sizes > 0).to(dtype)[:, None]
        width = self.fc_in2.out_features
        self.folds = self.heads * graph.clusters <= width + graph.clusters
        # Rows that the loss sees, from the last convolution down to the first.
        rows, matrix, self.steps = graph.train.numpy(), graph.convolution(), []
        for _ in self.gcn[1:]:
            part = matrix[rows]
            below = np.unique(part.indices)
            self.steps.insert(0, Sparse(part[:, below].tocsr(), dtype))
            rows = below
        if self.gcn:
            averaged = matrix[rows] @ (graph.x if graph.sparse else graph.x.numpy())
            self.averaged = (
                Sparse(averaged.tocsr(), dtype)
                if graph.sparse
                else torch.from_numpy(averaged).to(dtype)
            )

    def states(self) -> Tensor:
        """Of all nodes, after the last layer of attention."""
        z, before = self.join(self.norm_in, self.mapped(self.fc_in1)), self.fc_in2
        for layer in self.layers:
            z = self.join(layer.norm1, self.attend_folded(layer, z, before))
            z, before = self.join(layer.norm2, layer.ff2(z)), None
        return z

    def attend_folded(self, layer: Layer, z: Tensor, before: nn.Linear | None) -> Tensor:
        """Attention and `ff1`; states are `z` through the map `before`, if there is one."""
        means = self.means @ z
        weight = layer.q.weight @ layer.proj.weight
        shift = layer.q.weight @ layer.proj.bias + layer.q.bias
        if before is not None:
            means = before(means) * self.there
            weight, shift = weight @ before.weight, weight @ before.bias + shift
        split = (self.heads, -1)
        scale = (len(weight) // self.heads) ** -0.5
        key, value = (map(means).unflatten(1, split).transpose(0, 1) for map in (layer.k, layer.v))
        key = key * scale
        table = self.table(layer)
        if not self.folds:
            query = F.linear(z, weight, shift).unflatten(1, split).transpose(0, 1)
            mixed = self.mix(query, key, value, table)
            return layer.ff1(mixed.transpose(0, 1).flatten(1))
        table = table + (key @ shift.view(*split, 1)).mT  # of every key, for all queries
        key = (key @ weight.unflatten(0, split)).flatten(0, 1)[None]
        value = (value @ layer.ff1.weight.unflatten(1, split).permute(1, 2, 0)).flatten(0, 1)[None]
        table = table.transpose(0, 1).flatten(1)[None]
        return self.mix(z[None], key, value, table)[0] + layer.ff1.bias

    def forward(self) -> Tensor:
        z = self.states()
        return self.out(z + self.local() if self.gcn else z)

    def loss(self) -> Tensor:
        z = self.states()[self.train_rows]
        if self.gcn:
            first = self.gcn[0]
            if isinstance(self.averaged, Sparse):
                near = self.averaged @ first.lin.weight.t().contiguous() + first.bias
            else:
                near = F.linear(self.averaged, first.lin.weight, first.bias)
            for layer, step in zip(self.gcn[1:], self.steps, strict=True):
                near = self.join_convolve(near, step, layer)
            z = z + near
        return F.cross_entropy(self.out(z), self.y[self.train_rows])
