"""GRIT with HDSE, for step_torch.py.

`released` is written after the released GRIT: all pairs of nodes are edges, weights and sums by
PyG's `softmax` and `scatter`; the bias, of which no code was released, is of every pair. In the
other forms pairs are sorted by their first node, so that sums are of rows in a row, those of second
nodes of rows in lists; the bias is looked up; numbers of a head are spread over its columns, and
added up over these, by products with 0 and 1; both middle parts have their derivatives written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.utils import coalesce, degree, scatter, softmax

import step_parts
from step_parts import Distances, Dropout, Types, head
from torch_run import keep

# What the model can be.
KNOWN = {
    "backbone": ["grit"],
    "bias": ["mlp"],
    "combine": ["concat"],
    "unreachable": ["clip"],
    "identical_layers": [False],
    "head": ["san"],
    "pool": ["sum", "mean"],
}
CLAMP = 5.0


# ---- batches


class Collate(step_parts.Collate):
    """Walks are kept, as the released code keeps them."""

    def data(self, graph: dict[str, Any]) -> Data:
        data, size = super().data(graph), int(graph["size"])
        walks = walks_of(graph, self.model["encoding"]["rrwp"]["steps"])
        data.walks = walks
        data.pe = walks.view(size, size, -1).diagonal().t().contiguous()
        return data

    def listed(self, batch: Batch) -> dict[str, Any]:
        return super().listed(batch) | {"walks": batch.walks}

    def squares(self, batch: Batch, codes: list[Tensor]) -> dict[str, Any]:
        """Not padded: pairs graph by graph, first node by first node."""
        sizes = [len(own) for own in codes]
        counts = batch.ptr.diff()
        of_node = counts.repeat_interleave(counts)
        starts = of_node.cumsum(0) - of_node  # of every first node among pairs
        query = torch.arange(len(of_node)).repeat_interleave(of_node)
        key = torch.cat(
            [
                torch.arange(first, first + size).repeat(size)
                for first, size in zip(batch.ptr.tolist(), sizes, strict=False)
            ]
        )
        codes = torch.cat([own.view(-1) for own in codes])
        source, target = batch.edge_index
        return {
            "query": query,
            "key": key,
            "starts": starts,
            # Pairs in the order of their second nodes, and of their codes.
            "by_key": key.argsort(stable=True),
            "codes": codes,
            "by_code": codes.argsort(stable=True),
            "code_starts": step_parts.starts_of(torch.bincount(codes, minlength=len(self.book))),
            "arc_pairs": starts[target] + source - batch.ptr[batch.batch[source]],
            # Places of pairs in rows that are padded, for softmax.
            "place": query * max(sizes) + torch.arange(len(query)) - starts[query],
            "longest": max(sizes),
            "walks": batch.walks,
        }


def walks_of(graph: dict[str, Any], powers: int) -> Tensor:
    """(I, M, M², …) of all pairs, with M = D⁻¹ A: [pairs, powers]."""
    size, (source, target) = int(graph["size"]), graph["arcs"]
    one = np.zeros((size, size))
    np.add.at(one, (source, target), 1.0)
    one /= np.maximum(one.sum(1, keepdims=True), 1.0)
    all = [np.eye(size)]
    while len(all) < powers:
        all.append(all[-1] @ one)
    return torch.from_numpy(np.stack(all, 2).reshape(size * size, powers).astype(np.float32))


# ---- the model


class Seen(torch.autograd.Function):
    """relu(√s⁺ − √s⁻ + term) with s = (query + key) ∘ factor, of all pairs."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, factor: Tensor, term: Tensor, batch: Any
    ) -> Tensor:
        sum = query.index_select(0, batch["query"])
        sum += key.index_select(0, batch["key"])
        product = sum * factor
        root = product.abs().sqrt_()
        seen = torch.copysign(root, product).add_(term).relu_()
        ctx.save_for_backward(sum, factor, root, seen)
        ctx.batch = batch
        return seen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sum, factor, root, seen = ctx.saved_tensors
        batch = ctx.batch
        by_term = torch.ops.aten.threshold_backward(gradient, seen, 0)
        # Half of it, divided by the root; where that is 0, nothing is 0 in |s| either.
        by_product = (by_term * 0.5).div_(root).masked_fill_(root == 0, 0)
        by_sum = by_product * factor
        by_query = F.embedding_bag(every(by_sum), by_sum, batch["starts"], mode="sum")
        by_key = F.embedding_bag(batch["by_key"], by_sum, batch["starts"], mode="sum")
        return by_query, by_key, by_product.mul_(sum), by_term, None


class Attend(torch.autograd.Function):
    """Values of nodes, and what pairs see, weighed and added up: [nodes, 2 width]."""

    @staticmethod
    def forward(
        ctx: Any, seen: Tensor, score: Tensor, table: Tensor, value: Tensor, p: float, batch: Any
    ) -> Tensor:
        heads = table.shape[1]
        columns = torch.eye(heads, dtype=seen.dtype).repeat_interleave(seen.shape[1] // heads, 1)
        raw = F.linear(seen, columns * score)
        scores = raw.clamp(-CLAMP, CLAMP).add_(table.index_select(0, batch["codes"]))
        padded = scores.new_full((len(value) * batch["longest"], heads), -torch.inf)
        padded.index_copy_(0, batch["place"], scores)
        padded = padded.view(len(value), -1, heads).softmax(1).view(-1, heads)
        weights = padded.index_select(0, batch["place"])
        mask = keep(weights.shape, p).to(seen.dtype).div_(1 - p) if p else None
        wide = (weights * mask if p else weights) @ columns
        values = value.index_select(0, batch["key"])
        ids = every(seen)
        of_nodes = F.embedding_bag(ids, wide * values, batch["starts"], mode="sum")
        of_pairs = F.embedding_bag(ids, wide * seen, batch["starts"], mode="sum")
        ctx.save_for_backward(seen, columns, raw, weights, mask, wide, values, score)
        ctx.batch, ctx.codes = batch, len(table)
        return torch.cat([of_nodes, of_pairs], 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        seen, columns, raw, weights, mask, wide, values, score = ctx.saved_tensors
        batch, width = ctx.batch, seen.shape[1]
        of_nodes, of_pairs = gradient.split(width, 1)
        of_nodes = of_nodes.index_select(0, batch["query"])
        of_pairs = of_pairs.index_select(0, batch["query"])
        by_weights = F.linear((values * of_nodes).add_(seen * of_pairs), columns)
        by_weights = by_weights if mask is None else by_weights.mul_(mask)
        weighed = by_weights.mul_(weights)
        total = F.embedding_bag(every(weighed), weighed, batch["starts"], mode="sum")
        by_scores = weighed.addcmul_(weights, total.index_select(0, batch["query"]), value=-1)
        by_table = F.embedding_bag(batch["by_code"], by_scores, batch["code_starts"], mode="sum")
        by_raw = by_scores.masked_fill_(raw.abs() > CLAMP, 0) @ columns
        by_score = (by_raw * seen).sum(0)
        by_seen = of_pairs.mul_(wide).add_(by_raw.mul_(score))
        by_value = F.embedding_bag(
            batch["by_key"], of_nodes.mul_(wide), batch["starts"], mode="sum"
        )
        return by_seen, by_score, by_table[: ctx.codes], by_value, None, None


def every(rows: Tensor) -> Tensor:
    return torch.arange(len(rows))


class Layer(nn.Module):
    def __init__(self, model: dict[str, Any], released: bool) -> None:
        super().__init__()
        dim, self.heads, inner = model["dim"], model["heads"], model["feed_forward"]
        self.released, self.width, self.p = released, dim // self.heads, model["attention_dropout"]
        self.Q, self.E = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.K, self.V = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.Aw = nn.Parameter(torch.empty(self.width, self.heads, 1))
        self.Ve = nn.Parameter(torch.empty(self.width, self.heads, self.width))
        self.deg_coef = nn.Parameter(torch.empty(1, dim, 2))
        self.O_h, self.O_e = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm1_h, self.norm1_e, self.norm2_h = (nn.BatchNorm1d(dim) for _ in range(3))
        self.ff1, self.ff2 = nn.Linear(dim, inner * dim), nn.Linear(inner * dim, dim)
        self.hdse_map = nn.Linear(model.get("bias_dim") or dim, self.heads)
        self.dropout = (nn.Dropout if released else Dropout)(model["dropout"])

    def forward(
        self, x: Tensor, e: Tensor, batch: dict[str, Any], pairs: Tensor, last: bool
    ) -> tuple[Tensor, Tensor]:
        attend = self.attend_released if self.released else self.attend
        attended, seen = attend(x, e, batch, pairs)
        attended = self.dropout(attended)
        if self.released:
            both = torch.stack([attended, attended * batch["degree"]], 2)
            attended = (both * self.deg_coef).sum(2)
        else:
            one, other = self.deg_coef.unbind(2)
            attended = attended * torch.addcmul(one, batch["degree"], other)
        x = self.norm1_h(x + self.O_h(attended))
        if self.released or not last:
            e = self.norm1_e(e + self.O_e(self.dropout(seen)))
        hidden = self.dropout(self.ff1(x).relu())
        return self.norm2_h(x + self.ff2(hidden)), e

    def attend_released(
        self, x: Tensor, e: Tensor, batch: dict[str, Any], pairs: Tensor
    ) -> tuple[Tensor, Tensor]:
        query, key = batch["pair_index"]
        asked, found, value = (
            map(x).view(-1, self.heads, self.width) for map in (self.Q, self.K, self.V)
        )
        made = self.E(e).view(-1, self.heads, 2 * self.width)
        factor, term = made[:, :, : self.width], made[:, :, self.width :]
        score = (asked[query] + found[key]) * factor
        score = torch.sqrt(torch.relu(score)) - torch.sqrt(torch.relu(-score))
        seen = torch.relu(score + term)
        score = torch.einsum("ehd,dhc->ehc", seen, self.Aw).clamp(-CLAMP, CLAMP)
        score = score + self.hdse_map(pairs)[:, :, None]
        weights = F.dropout(softmax(score, query, num_nodes=len(x)), self.p)
        attended = scatter(value[key] * weights, query, 0, len(x), "sum")
        of_pairs = scatter(seen * weights, query, 0, len(x), "sum")
        attended = attended + torch.einsum("nhd,dhc->nhc", of_pairs, self.Ve)
        return attended.flatten(1), seen.flatten(1)

    def attend(
        self, x: Tensor, e: Tensor, batch: dict[str, Any], pairs: Tensor
    ) -> tuple[Tensor, Tensor]:
        weight = self.E.weight.unflatten(0, (self.heads, 2, self.width))
        bias = self.E.bias.unflatten(0, (self.heads, 2, self.width))
        factor, term = (
            F.linear(e, weight[:, part].flatten(0, 1), bias[:, part].flatten()) for part in (0, 1)
        )
        seen = Seen.apply(self.Q(x), self.K(x), factor, term, batch)
        score = self.Aw.squeeze(2).t().flatten()
        table = self.hdse_map(pairs)
        both = Attend.apply(seen, score, table, self.V(x), self.p, batch)
        attended, of_pairs = both.split(x.shape[1], 1)
        of_pairs = of_pairs.unflatten(1, (self.heads, -1)).transpose(0, 1)
        of_pairs = torch.bmm(of_pairs, self.Ve.transpose(0, 1)).transpose(0, 1).flatten(1)
        return attended + of_pairs, seen


class Model(nn.Module):
    own = ()

    def __init__(self, model: dict[str, Any], form: str, book: Tensor) -> None:
        super().__init__()
        width, powers = model["dim"], model["encoding"]["rrwp"]["steps"]
        self.released = form == "released"
        self.node_emb = Types(model["node"]["types"], width)
        self.edge_emb = Types(model["edge"]["types"], width)
        self.rrwp_node, self.rrwp_pair = (nn.Linear(powers, width, bias=False) for _ in range(2))
        self.hdse = Distances(model)
        self.layers = nn.ModuleList(Layer(model, self.released) for _ in range(model["layers"]))
        self.head = head([width, width // 2, width // 4, model["outputs"]])
        self.pool = {"sum": global_add_pool, "mean": global_mean_pool}[model["pool"]]
        self.register_buffer("book", book, persistent=False)

    def forward(self, batch: dict[str, Any]) -> Tensor:
        x = self.node_emb(batch["x"]) + self.rrwp_node(batch["pe"])
        e, arcs = self.rrwp_pair(batch["walks"]), self.edge_emb(batch["edge_attr"])
        if self.released:
            indices = torch.cat([batch["pair_index"], batch["arcs"].flip(0)], 1)
            _, e = coalesce(indices, torch.cat([e, arcs]), len(x), reduce="sum")
            pairs = self.hdse(batch["distances"])
        else:
            e, pairs = e.index_add(0, batch["arc_pairs"], arcs), self.hdse(self.book)
        degrees = degree(batch["arcs"][1], len(x), x.dtype)
        batch = batch | {"degree": degrees.log1p()[:, None]}
        for layer in self.layers:
            x, e = layer(x, e, batch, pairs, last=layer is self.layers[-1])
        return self.head(self.pool(x, batch["graph"], batch["graphs"]))
