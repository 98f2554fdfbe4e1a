"""What the models of step_torch.py share: the file of `--dump`, batches, embeddings, distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj

import torch_run
from torch_run import keep


# ---- the file


class Dump(torch_run.Arrays):
    """Batches, beside parameters and configuration."""

    def batches(self) -> list[list[dict[str, np.ndarray]]]:
        """Graphs of every batch."""
        count = 1 + max(int(n.split(".")[1]) for n in self.header if n.startswith("batch."))
        return [self.graphs(f"batch.{number}") for number in range(count)]

    def graphs(self, batch: str) -> list[dict[str, np.ndarray]]:
        sizes = self[f"{batch}.sizes"].astype(np.int64)
        nodes = np.concatenate([[0], np.cumsum(sizes)])
        pairs = np.concatenate([[0], np.cumsum(sizes**2)])
        arcs = np.stack([self[f"{batch}.sources"], self[f"{batch}.targets"]]).astype(np.int64)
        of_node = np.repeat(np.arange(len(sizes)), sizes)
        ends = np.searchsorted(of_node[arcs[0]], np.arange(len(sizes) + 1))  # of graphs among arcs
        outputs = self[f"{batch}.y"].reshape(len(sizes), -1).astype(np.float32)
        found = []
        for graph, size in enumerate(sizes):
            rows = slice(nodes[graph], nodes[graph + 1])
            of_graph = slice(ends[graph], ends[graph + 1])
            parts = {
                "size": size,
                "arcs": arcs[:, of_graph] - nodes[graph],
                "x": self[f"{batch}.node_features"][rows].astype(np.int64),
                "edge_attr": self[f"{batch}.edge_features"][of_graph].astype(np.int64),
                "y": outputs[graph],
            }
            if (walks := self.get(f"{batch}.random_walk")) is not None:
                parts["walks"] = walks[rows]
            if (vectors := self.get(f"{batch}.spectrum.vectors")) is not None:
                parts["vectors"] = vectors[rows]
                parts["values"] = self[f"{batch}.spectrum.values"][graph]
                parts["count"] = self[f"{batch}.spectrum.counts"][graph]
            if (codes := self.get(f"{batch}.codes")) is not None:
                codes = codes[pairs[graph] : pairs[graph + 1]]
                parts["distances"] = self[f"{batch}.codebook"][codes]  # [size², levels + 1]
            found.append(parts)
        return found


# ---- from graphs to a batch


class Collate:
    """Graphs as they are kept in memory, for a form of a model, and how a batch is made of some."""

    def __init__(self, dump: Dump, form: str) -> None:
        self.released = form == "released"
        self.model = dump.config["model"]
        clip = np.array(self.model["max_distance"])  # one number, or one for each level
        graphs = dump.batches()
        tuples = [np.minimum(graph["distances"], clip) for batch in graphs for graph in batch]
        # Distinct tuples of all graphs: what a data set would keep beside it.
        book, codes = np.unique(np.concatenate(tuples), axis=0, return_inverse=True)
        self.book = torch.from_numpy(book.astype(np.int64))
        ends = np.cumsum([len(part) for part in tuples])
        parts = iter(zip(tuples, np.split(codes.reshape(-1), ends[:-1]), strict=True))
        self.batches = [[self.keep(graph, *next(parts)) for graph in batch] for batch in graphs]

    def keep(self, graph: dict[str, Any], distances: np.ndarray, codes: np.ndarray) -> Any:
        """What is kept of a graph: PyG's object, beside it the codes of all pairs."""
        size = int(graph["size"])
        data = self.data(graph)
        if self.released:
            ids = torch.arange(size)
            data.pair_index = torch.stack([ids.repeat_interleave(size), ids.repeat(size)])
            data.distances = torch.from_numpy(distances.astype(np.int64))
            return data
        return data, torch.from_numpy(codes.astype(np.int64).reshape(size, size))

    def data(self, graph: dict[str, Any]) -> Data:
        """What is PyG's."""
        data = Data(
            x=torch.from_numpy(graph["x"]),
            edge_index=torch.from_numpy(graph["arcs"].copy()),
            edge_attr=torch.from_numpy(graph["edge_attr"]),
            y=torch.from_numpy(graph["y"].copy())[None],
        )
        if "walks" in graph:
            data.pe = torch.from_numpy(graph["walks"].copy())
        if "vectors" in graph:
            values = np.broadcast_to(graph["values"], graph["vectors"].shape)
            pe = np.stack([graph["vectors"], values], axis=2)
            pe[:, graph["count"] :] = np.nan  # what a small graph does not have
            data.pe = torch.from_numpy(pe)
        return data

    def __call__(self, number: int) -> dict[str, Tensor | int]:
        graphs = self.batches[number % len(self.batches)]
        if self.released:
            batch = Batch.from_data_list(graphs)
            return parts(batch) | self.listed(batch)
        batch = Batch.from_data_list([data for data, *_ in graphs])
        return parts(batch) | self.squares(batch, [codes for _, codes, *_ in graphs])

    def listed(self, batch: Batch) -> dict[str, Any]:
        """What the form `released` reads besides."""
        return {"pair_index": batch.pair_index, "distances": batch.distances}

    def squares(self, batch: Batch, codes: list[Tensor]) -> dict[str, Tensor]:
        """Codes in padded squares, and the places of nodes in padded rows."""
        longest = int(batch.ptr.diff().max())
        # Keys beyond a graph's end have a code of their own; what queries there find is not read.
        padded = torch.zeros(len(codes), longest, longest, dtype=torch.int64)
        for row, own in zip(padded, codes, strict=True):
            row[: len(own), : len(own)] = own
            row[: len(own), len(own) :] = len(self.book)
        inside = torch.arange(batch.num_nodes) - batch.ptr[batch.batch]
        return {"codes": padded, "place": batch.batch * longest + inside}


def parts(batch: Batch) -> dict[str, Any]:
    found = {
        "x": batch.x,
        "arcs": batch.edge_index,
        "edge_attr": batch.edge_attr,
        "y": batch.y,
        "graph": batch.batch,
        "graphs": batch.num_graphs,
    }
    return found | ({"pe": batch.pe} if "pe" in batch else {})


def starts_of(counts: Tensor) -> Tensor:
    """Where lists of so many rows start."""
    return counts.cumsum(0) - counts


# ---- layers


class Columns(nn.ModuleList):
    """Embeddings of several columns, added up."""

    def __init__(self, counts: list[int], width: int) -> None:
        super().__init__(nn.Embedding(count, width) for count in counts)

    def forward(self, x: Tensor) -> Tensor:
        return sum(table(x[:, column]) for column, table in enumerate(self))


class Types(nn.Embedding):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, 0])


class Distances(nn.Module):
    """relu(A [E_0[d⁰]; …]) of tuples of distances, in any shape."""

    def __init__(self, model: dict[str, Any]) -> None:
        super().__init__()
        levels, width = model["levels"] + 1, model.get("bias_dim") or model["dim"]
        clips = np.broadcast_to(model["max_distance"], levels)
        self.tables = nn.ModuleList(nn.Embedding(int(clip) + 1, width) for clip in clips)
        self.proj = nn.Linear(levels * width, width)

    def forward(self, tuples: Tensor) -> Tensor:
        rows = [table(tuples[..., level]) for level, table in enumerate(self.tables)]
        return self.proj(torch.cat(rows, -1)).relu()


class Dropout(nn.Dropout):
    """The same, faster."""

    def forward(self, x: Tensor) -> Tensor:
        return x * keep(x.shape, self.p) / (1 - self.p) if self.p else x


def dense_pairs(hdse: Distances, batch: dict[str, Any]) -> Tensor:
    """What distances mean, for every padded pair: [graphs, longest, longest, width]."""
    levels = batch["distances"].unbind(1)
    dense = [to_dense_adj(batch["pair_index"], batch["graph"], level) for level in levels]
    return hdse(torch.stack(dense, -1))


def attend(packed: Tensor, batch: dict[str, Any], table: Tensor, dropout: float) -> Tensor:
    """Attention inside every graph; query, key and value are side by side, the bias is by code."""
    codes, place = batch["codes"], batch["place"]
    (graphs, longest, _), heads = codes.shape, table.shape[1]
    dense = packed.new_zeros(graphs * longest, packed.shape[1]).index_copy(0, place, packed)
    dense = dense.view(graphs, longest, 3, heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = dense.reshape(3, graphs * heads, longest, -1).unbind(0)
    table = torch.cat([table, table.new_full((1, heads), -torch.inf)]).t()
    # By far the fastest of the ways to look up and, in the derivative, to add up.
    table = table.expand(graphs, -1, -1)  # [graphs, heads, codes + 1]
    every = codes.view(graphs, 1, -1).expand(-1, heads, -1)
    bias = table.gather(2, every).view(graphs * heads, longest, longest)
    # Some 8 % faster on ZINC than scaled_dot_product_attention, which on processors has no
    # kernel of its own for dropout, or for a mask with a derivative.
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=query.shape[2] ** -0.5)
    weights = scores.softmax(-1)
    if dropout:
        weights, value = weights * keep(weights.shape, dropout), value / (1 - dropout)
    mixed = torch.bmm(weights, value).view(graphs, heads, longest, -1)
    return mixed.transpose(1, 2).reshape(graphs * longest, -1).index_select(0, place)


def head(widths: list[int]) -> nn.Sequential:
    """Maps with ReLU between them."""
    maps: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        maps += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*maps[:-1])
