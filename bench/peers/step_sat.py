"""SAT with HDSE, k-subgraphs and PNA, for step_torch.py.

`released` has the disjoint union of all surroundings as a graph for `PNAConv`. In the other forms

* linear maps that follow each other are one: see `Pna`;
* rows are sorted by their number of arcs, so that sums and maxima are of dense blocks;
* in the form `distinct`, of rows that cannot differ, one is computed: see `hops_of`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import PNAConv, global_add_pool, global_mean_pool
from torch_geometric.utils import degree, to_dense_batch

import step_parts
from step_parts import Distances, Dropout, Types, attend, dense_pairs, head, starts_of

# What the model can be.
KNOWN = {
    "backbone": ["sat"],
    "bias": ["mlp"],
    "combine": ["concat"],
    "unreachable": ["clip"],
    "identical_layers": [False],
    "head": [{"plain": maps} for maps in (1, 2, 3)],
    "pool": ["sum", "mean"],
}
AGGREGATORS = ["mean", "sum", "max"]


# ---- surroundings of nodes


class Surroundings:
    """Rows of all k-subgraphs of a graph, and arcs between them."""

    def __init__(self, graph: dict[str, Any], hops: int) -> None:
        size, (source, target) = int(graph["size"]), graph["arcs"]
        arriving = np.eye(size, dtype=np.int64)
        arriving[target, source] = 1
        reach = np.linalg.matrix_power(arriving, hops) > 0
        self.centre, self.node = np.nonzero(reach)
        row = np.cumsum(reach).reshape(size, size) - 1
        centre, self.arc = np.nonzero(reach[:, source] & reach[:, target])
        self.source, self.target = row[centre, source[self.arc]], row[centre, target[self.arc]]


class Around(Data):
    """A graph with its surroundings, as the released code keeps them."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key == "around_index":
            return len(self.around_node)
        if key in ("around_node", "around_centre"):
            return self.num_nodes
        return super().__inc__(key, value, *args, **kwargs)


class Collate(step_parts.Collate):
    def __init__(self, dump: step_parts.Dump, form: str) -> None:
        self.distinct = form in ("distinct", "compiled")
        self.hops = dump.config["model"]["extractor"]["subgraph"]
        super().__init__(dump, form)

    def keep(self, graph: dict[str, Any], distances: np.ndarray, codes: np.ndarray) -> Any:
        kept = super().keep(graph, distances, codes)
        if self.released:
            return kept
        return *kept, hops_of(graph, self.hops, self.distinct)

    def data(self, graph: dict[str, Any]) -> Data:
        data = super().data(graph)
        if not self.released:
            return data
        found = Surroundings(graph, self.hops)
        return Around(
            **data.to_dict(),
            around_node=torch.from_numpy(found.node),
            around_centre=torch.from_numpy(found.centre),
            around_index=torch.from_numpy(np.stack([found.source, found.target])),
            around_attr=data.edge_attr[torch.from_numpy(found.arc)],
        )

    def __call__(self, number: int) -> dict[str, Any]:
        batch = super().__call__(number)
        graphs = self.batches[number % len(self.batches)]
        if not self.released:
            batch["hops"] = merge([hops for *_, hops in graphs], self.model["edge"]["types"])
        return batch

    def listed(self, batch: Any) -> dict[str, Any]:
        names = ("around_node", "around_centre", "around_index", "around_attr")
        return super().listed(batch) | {name: batch[name] for name in names}


def hops_of(graph: dict[str, Any], hops: int, distinct: bool) -> list[dict[str, Tensor]]:
    """Of every hop, for its rows, lists of rows of the hop before it, at first of nodes.

    `own` is the row itself, `source` those that it gets messages from, `degree` many, over arcs of
    a `type`. Last, the rows that each node adds up.
    """
    found = Surroundings(graph, hops)
    order = np.argsort(found.target, kind="stable")
    source, target = found.source[order], found.target[order]
    rows, kind = len(found.node), graph["edge_attr"][found.arc[order], 0]
    ends = np.searchsorted(target, np.arange(rows + 1))
    before, lists = found.node, []
    for hop in range(hops):
        after = first = np.arange(rows)
        some: Any = slice(None)
        if distinct:
            # Rows are equal if they and what they get are.
            spans = zip(before, ends, ends[1:], strict=False)
            keys = [(own, *before[source[a:b]], *kind[a:b]) for own, a, b in spans]
            known: dict[Any, int] = {}
            after = np.array([known.setdefault(key, len(known)) for key in keys])
            first = np.unique(after, return_index=True)[1]
            some = np.isin(target, first)
        elif hop > 1:
            lists.append(lists[-1])
            continue
        found_lists = {
            "own": before[first],
            "source": before[source[some]],
            "type": kind[some],
            "degree": np.diff(ends)[first],
        }
        lists.append({name: torch.from_numpy(part) for name, part in found_lists.items()})
        before = after
    sizes = np.bincount(found.centre, minlength=int(graph["size"]))
    return [*lists, {"source": torch.from_numpy(before), "degree": torch.from_numpy(sizes)}]


def merge(graphs: list[list[dict[str, Tensor]]], types: int) -> list[dict[str, Any]]:
    """Lists of a batch; rows are in the order of their degrees."""
    place, sizes = None, [len(graph[-1]["degree"]) for graph in graphs]
    merged: list[dict[str, Any]] = []
    for number, hops in enumerate(zip(*graphs, strict=True)):
        if number and hops[0] is graphs[0][number - 1]:
            merged.append(merged[-1])
            continue
        starts = torch.tensor([0, *sizes]).cumsum(0).tolist()

        def rows(name: str, hops=hops, starts=starts, place=place) -> Tensor:
            shifted = [hop[name] + start for hop, start in zip(hops, starts, strict=False)]
            return torch.cat(shifted) if place is None else place[torch.cat(shifted)]

        degrees = torch.cat([hop["degree"] for hop in hops])
        if "own" not in hops[0]:
            merged.append(
                {
                    "source": lists(rows("source"), sum(sizes)),
                    "starts": starts_of(degrees),
                    "of": torch.arange(len(degrees)).repeat_interleave(degrees),
                }
            )
            continue
        order = degrees.argsort(stable=True)
        arcs = degrees.repeat_interleave(degrees).argsort(stable=True)
        kinds = torch.cat([hop["type"] for hop in hops])[arcs]
        own = rows("own")[order]
        same = len(own) == sum(sizes)  # then they are in order
        merged.append(
            {
                "own": None if same else lists(own, sum(sizes)),
                "source": lists(rows("source")[arcs], sum(sizes)),
                "type": F.one_hot(kinds, types).float(),
                "blocks": blocks(torch.bincount(degrees).tolist()),
                "rows": len(degrees),
            }
        )
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        sizes = [len(hop["degree"]) for hop in hops]
    return merged


def blocks(counts: list[int]) -> list[tuple[int, slice, slice]]:
    """Of every degree, its rows and their arcs, with so many rows of each degree."""
    found, row, arc = [], 0, 0
    for degree, count in enumerate(counts):
        rows, arcs = slice(row, row + count), slice(arc, arc + count * degree)
        row, arc = rows.stop, arcs.stop
        if count:
            found.append((degree, rows, arcs))
    return found


def lists(rows: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows to look up, and for each of so many rows the places where it is looked up."""
    return rows, rows.argsort(stable=True), starts_of(torch.bincount(rows, minlength=count))


# ---- the model


class Hop(torch.autograd.Function):
    """relu([x, sum, largest] W + b) of all rows, W by their degrees, and messages x S + t.

    Derivatives of lookups are sums by lists: `index_add` goes row by row.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sender: Tensor, types: Tensor, maps: Tensor, bias: Tensor, hop: Any
    ) -> Tensor:
        width, looked_up = x.shape[1], hop["source"][0]
        messages = torch.mm(x, sender).index_select(0, looked_up)
        messages = torch.addmm(messages, hop["type"].to(x.dtype), types)
        all = x.new_empty(hop["rows"], 3 * width)
        all[:, :width] = x if hop["own"] is None else x.index_select(0, hop["own"][0])
        y, hits = x.new_empty(len(all), width), torch.empty_like(messages, dtype=torch.bool)
        for degree, rows, arcs in hop["blocks"]:
            if degree == 0:
                all[rows, width:] = 0
            else:
                block = messages[arcs].view(-1, degree, width)
                torch.sum(block, 1, out=all[rows, width : 2 * width])
                torch.amax(block, 1, out=all[rows, 2 * width :])
                hit = hits[arcs].view(-1, degree, width)
                torch.eq(block, all[rows, None, 2 * width :], out=hit)
                only_first(hit)
            torch.addmm(bias, all[rows], maps[degree], out=y[rows])
        ctx.save_for_backward(x, sender, maps, all, hits, y.relu_())
        ctx.hop = hop
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, sender, maps, all, hits, y = ctx.saved_tensors
        hop, width = ctx.hop, x.shape[1]
        gradient = torch.ops.aten.threshold_backward(gradient, y, 0)
        by_all, by_maps = torch.empty_like(all), torch.zeros_like(maps)
        by_messages = x.new_empty(hits.shape)
        for degree, rows, arcs in hop["blocks"]:
            torch.mm(all[rows].t(), gradient[rows], out=by_maps[degree])
            torch.mm(gradient[rows], maps[degree].t(), out=by_all[rows])
            if degree:
                by_sum, by_largest = by_all[rows, width:].split(width, 1)
                hit, block = (part[arcs].view(-1, degree, width) for part in (hits, by_messages))
                torch.where(hit, (by_sum + by_largest)[:, None], by_sum[:, None], out=block)
        by_types = hop["type"].to(x.dtype).t() @ by_messages
        _, places, starts = hop["source"]
        by_sent = F.embedding_bag(places, by_messages, starts, mode="sum")
        by_x = by_all[:, :width]
        if hop["own"] is not None:
            _, places, starts = hop["own"]
            by_x = F.embedding_bag(places, by_x.contiguous(), starts, mode="sum")
        by_x = torch.addmm(by_x, by_sent, sender.t())
        return by_x, x.t() @ by_sent, by_types, by_maps, gradient.sum(0), None


def only_first(hit: Tensor) -> None:
    """Leaves the first of several equal messages."""
    found = hit[:, 0].clone() if hit.shape[1] > 1 else None
    for place in range(1, hit.shape[1]):
        hit[:, place] &= ~found
        found |= hit[:, place]


class Gather(torch.autograd.Function):
    """Sums of rows by lists."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, last: dict[str, Any]) -> Tensor:
        ctx.last = last
        return F.embedding_bag(last["source"][0], x, last["starts"], mode="sum")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _, places, starts = ctx.last["source"]
        return F.embedding_bag(ctx.last["of"][places], gradient, starts, mode="sum"), None


class Pna(nn.Module):
    """Principal neighbourhood aggregation in towers, then ReLU.

    With p = P x_i, messages are p + m_j, where m_j = S x_j + t of the type of the arc. For degree
    d, their mean is p + sum / d, their sum d p + sum, their largest p + largest, with sums and
    maxima of m. Of x, these three, tower maps and the last map, all linear, one map for each d is
    made.
    """

    def __init__(self, width: int, edge_width: int, towers: int) -> None:
        super().__init__()
        self.towers, own = towers, width // towers
        self.edge_encoder = nn.Linear(edge_width, own)
        self.pre_nns = nn.ModuleList(nn.Sequential(nn.Linear(3 * own, own)) for _ in range(towers))
        self.post_nns = nn.ModuleList(nn.Sequential(nn.Linear(4 * own, own)) for _ in range(towers))
        self.lin = nn.Linear(width, width)

    def forward(self, x: Tensor, hop: dict[str, Any], types: Tensor) -> Tensor:
        pre = torch.stack([tower[0].weight.t() for tower in self.pre_nns])
        of_own, of_source, of_arc = pre.chunk(3, 1)  # [towers, own, own] each
        bias = torch.stack([tower[0].bias for tower in self.pre_nns])[:, None]
        of_types = torch.baddbmm(bias, self.edge_encoder(types).expand(self.towers, -1, -1), of_arc)
        of_types = of_types.transpose(0, 1).flatten(1)  # [types, width]
        last = self.lin.weight.t().unflatten(0, (self.towers, -1))  # [towers, own, width]
        post = torch.stack([tower[0].weight.t() for tower in self.post_nns])
        parts = (post @ last).unflatten(1, (4, -1)).transpose(0, 1)  # [4, towers, own, width]
        state, mean, sum, largest = parts
        degrees = torch.arange(hop["blocks"][-1][0] + 1, dtype=x.dtype)[:, None, None]
        some = degrees.clamp(max=1)
        of_state = (of_own @ (mean + largest)).flatten(0, 1) * some
        of_state = of_state + (of_own @ sum).flatten(0, 1) * degrees + state.flatten(0, 1)
        of_sum = mean.flatten(0, 1) / degrees.clamp(min=1) + sum.flatten(0, 1)
        of_largest = largest.flatten(0, 1).expand_as(of_sum)
        maps = torch.cat([of_state, of_sum, of_largest], 1)  # [degrees, 3 width, width]
        bias = torch.cat([tower[0].bias for tower in self.post_nns])
        bias = torch.addmv(self.lin.bias, self.lin.weight, bias)
        return Hop.apply(x, torch.block_diag(*of_source), of_types, maps, bias, hop)


class Extractor(nn.Module):
    """Structure-aware states."""

    def __init__(self, model: dict[str, Any], form: str) -> None:
        super().__init__()
        self.released = form == "released"
        width, towers = model["dim"], model["local"]["pna"]["towers"]
        if model["local"]["pna"]["aggregators"] != AGGREGATORS:
            sys.exit(f"no peer has other aggregators than {AGGREGATORS}")

        def layer() -> nn.Module:
            if not self.released:
                return Pna(width, model["edge_dim"], towers)
            return PNAConv(
                width,
                width,
                AGGREGATORS,
                ["identity"],
                torch.ones(1, dtype=torch.int64),  # degrees, which no scaler asks for
                edge_dim=model["edge_dim"],
                towers=towers,
                divide_input=True,
            )

        self.gnn = nn.ModuleList(layer() for _ in range(model["extractor"]["subgraph"]))
        self.bn, self.out_proj = nn.BatchNorm1d(2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, e: Tensor, batch: dict[str, Any]) -> Tensor:
        around = self.around_released if self.released else self.around
        return self.out_proj(self.bn(torch.cat([x, around(x, e, batch)], 1)))

    def around_released(self, x: Tensor, e: Tensor, batch: dict[str, Any]) -> Tensor:
        h = x[batch["around_node"]]
        for layer in self.gnn:
            h = layer(h, batch["around_index"], e).relu()
        return global_add_pool(h, batch["around_centre"], len(x))

    def around(self, x: Tensor, e: Tensor, batch: dict[str, Any]) -> Tensor:
        *hops, last = batch["hops"]
        h = x
        for layer, hop in zip(self.gnn, hops, strict=True):
            h = layer(h, hop, e)
        return Gather.apply(h, last)


class Layer(nn.Module):
    def __init__(self, model: dict[str, Any], form: str) -> None:
        super().__init__()
        width, self.heads, inner = model["dim"], model["heads"], model["feed_forward"]
        self.released, self.attention_dropout = form == "released", model["attention_dropout"]
        self.extractor = Extractor(model, form)
        self.to_qk, self.to_v = (nn.Linear(width, n * width, bias=False) for n in (2, 1))
        self.out_proj = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.ff1, self.ff2 = nn.Linear(width, inner * width), nn.Linear(inner * width, width)
        self.dropout = (nn.Dropout if self.released else Dropout)(model["dropout"])
        self.hdse_map = nn.Linear(model.get("bias_dim") or width, self.heads)

    def forward(self, x: Tensor, e: Tensor, batch: dict[str, Any], pairs: Tensor) -> Tensor:
        key, query = self.to_qk(self.extractor(x, e, batch)).chunk(2, 1)
        packed = torch.cat([query, key, self.to_v(x)], 1)
        if self.released:
            mixed = self.attend_released(packed, batch, pairs)
        else:
            mixed = attend(packed, batch, self.hdse_map(pairs), self.attention_dropout)
        x = self.norm1(x + self.dropout(self.out_proj(mixed) * batch["scale"]))
        return self.norm2(x + self.dropout(self.ff2(self.dropout(self.ff1(x).relu()))))

    def attend_released(self, packed: Tensor, batch: dict[str, Any], pairs: Tensor) -> Tensor:
        dense, there = to_dense_batch(packed, batch["graph"])
        parts = dense.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)  # [graphs, heads, longest, own]
        scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
        scores = scores + self.hdse_map(pairs).permute(0, 3, 1, 2)
        scores = scores.masked_fill(~there[:, None, None], -torch.inf)
        weights = F.dropout(scores.softmax(-1), self.attention_dropout)
        return (weights @ value).transpose(1, 2).flatten(2)[there]


class Model(nn.Module):
    # Of PNAConv, for scalers.
    own = ("avg_deg_lin", "avg_deg_log")

    def __init__(self, model: dict[str, Any], form: str, book: Tensor) -> None:
        super().__init__()
        width = model["dim"]
        self.released = form == "released"
        self.node_emb = Types(model["node"]["types"], width)
        self.edge_emb = Types(model["edge"]["types"], model["edge_dim"])
        self.pe_lin = nn.Linear(model["encoding"]["rwse"]["steps"], width)
        self.hdse = Distances(model)
        self.layers = nn.ModuleList(Layer(model, form) for _ in range(model["layers"]))
        self.head = head([width] * model["head"]["plain"] + [model["outputs"]])
        self.pool = {"sum": global_add_pool, "mean": global_mean_pool}[model["pool"]]
        self.register_buffer("book", book, persistent=False)

    def forward(self, batch: dict[str, Any]) -> Tensor:
        x = self.node_emb(batch["x"]) + self.pe_lin(batch["pe"])
        degrees = degree(batch["arcs"][0], len(x), x.dtype)
        batch = batch | {"scale": (1 + degrees).rsqrt()[:, None]}
        if self.released:
            e, pairs = self.edge_emb(batch["around_attr"]), dense_pairs(self.hdse, batch)
        else:
            e, pairs = self.edge_emb.weight, self.hdse(self.book)
        for layer in self.layers:
            x = layer(x, e, batch, pairs)
        return self.head(self.pool(x, batch["graph"], batch["graphs"]))
