"""The training step of `hdse bench step` in PyTorch, from a file of `--dump`: one run.

Three forms of one model, equal in result. `released` does what the released GraphGPS + HDSE does:
pairs of nodes are a list like edges, spread over padded squares; distances of every padded pair go
through tables and maps; layers pad anew and use PyTorch's and PyG's layers. `table` is what one
would write for speed: the bias of every distinct tuple of distances once, looked up by pairs,
projections before padding, indices computed once for a batch, the fused optimiser. `compiled` is
that through torch.compile.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import numpy as np
import torch
import torch._inductor.config
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, global_add_pool, global_mean_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

import torch_run

FORMS = ("released", "table", "compiled")
# What the model below can be.
KNOWN = {
    "backbone": ["gps"],
    "local": ["gine", "gatedgcn"],
    "bias": ["mlp"],
    "combine": ["concat"],
    "unreachable": ["clip"],
    "head": ["san", {"graphgym": 1}],
    "pool": ["sum", "mean"],
}


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
    """Graphs as they are kept in memory, and how a batch is made of some."""

    def __init__(self, dump: Dump, released: bool) -> None:
        self.released = released
        clip = np.array(dump.config["model"]["max_distance"])  # one number, or one for each level
        graphs = dump.batches()
        tuples = [np.minimum(graph["distances"], clip) for batch in graphs for graph in batch]
        # Distinct tuples of all graphs: what a data set would keep beside it.
        book, codes = np.unique(np.concatenate(tuples), axis=0, return_inverse=True)
        self.book = torch.from_numpy(book.astype(np.int64))
        ends = np.cumsum([len(part) for part in tuples])
        parts = iter(zip(tuples, np.split(codes.reshape(-1), ends[:-1]), strict=True))
        self.batches = [[self.data(graph, *next(parts)) for graph in batch] for batch in graphs]

    def data(self, graph: dict[str, Any], distances: np.ndarray, codes: np.ndarray) -> Any:
        size = int(graph["size"])
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
        if self.released:
            ids = torch.arange(size)
            data.pair_index = torch.stack([ids.repeat_interleave(size), ids.repeat(size)])
            data.distances = torch.from_numpy(distances.astype(np.int64))
            return data
        return data, torch.from_numpy(codes.astype(np.int64).reshape(size, size))

    def __call__(self, number: int) -> dict[str, Tensor | int]:
        graphs = self.batches[number % len(self.batches)]
        if self.released:
            batch = Batch.from_data_list(graphs)
            return {**parts(batch), "pair_index": batch.pair_index, "distances": batch.distances}
        batch = Batch.from_data_list([data for data, _ in graphs])
        sizes = batch.ptr.diff()
        longest = int(sizes.max())
        # Keys beyond a graph's end have a code of their own; what queries there find is not read.
        codes = torch.zeros(len(graphs), longest, longest, dtype=torch.int64)
        for row, (_, own) in zip(codes, graphs, strict=True):
            row[: len(own), : len(own)] = own
            row[: len(own), len(own) :] = len(self.book)
        inside = torch.arange(batch.num_nodes) - batch.ptr[batch.batch]
        place = batch.batch * longest + inside
        return {**parts(batch), "codes": codes, "place": place}


def parts(batch: Batch) -> dict[str, Any]:
    return {
        "x": batch.x,
        "arcs": batch.edge_index,
        "edge_attr": batch.edge_attr,
        "pe": batch.pe,
        "y": batch.y,
        "graph": batch.batch,
        "graphs": batch.num_graphs,
    }


# ---- the model


class Columns(nn.ModuleList):
    """Embeddings of several columns, added up."""

    def __init__(self, counts: list[int], width: int) -> None:
        super().__init__(nn.Embedding(count, width) for count in counts)

    def forward(self, x: Tensor) -> Tensor:
        return sum(table(x[:, column]) for column, table in enumerate(self))


class Types(nn.Embedding):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, 0])


class Encoder(nn.Module):
    """States of nodes and arcs at the start."""

    def __init__(self, model: dict[str, Any]) -> None:
        super().__init__()
        (self.kind, encoding), width = next(iter(model["encoding"].items())), model["dim"]
        own = encoding["dim"]
        if self.kind == "rwse":
            self.pe_norm = nn.BatchNorm1d(encoding["steps"])
            self.pe_lin = nn.Linear(encoding["steps"], own)
        elif self.kind == "lappe":
            self.pe_lin1, self.pe_lin2 = nn.Linear(2, 2 * own), nn.Linear(2 * own, own)
            self.random_signs = encoding["random_signs"]
        else:
            sys.exit(f"no peer has the encoding {self.kind}")
        if "types" in model["node"]:
            self.node_emb = Types(model["node"]["types"], width - own)
            self.edge_emb = Types(model["edge"]["types"], width)
        else:
            self.atom_emb = Columns(model["node"]["atoms"], width - own)
            self.bond_emb = Columns(model["edge"]["bonds"], width)

    def forward(self, x: Tensor, edge_attr: Tensor, pe: Tensor) -> tuple[Tensor, Tensor]:
        if self.kind == "rwse":
            pe = self.pe_lin(self.pe_norm(pe))
        else:
            missing = pe.isnan()
            pe = pe.masked_fill(missing, 0.0)
            if self.random_signs:
                signs = torch.randint(2, pe.shape[1:2]) * 2 - 1
                pe = torch.stack([pe[:, :, 0] * signs, pe[:, :, 1]], dim=2)
            hidden = self.pe_lin2(self.pe_lin1(pe).relu()).relu()  # [nodes, frequencies, own]
            pe = hidden.masked_fill(missing[:, :, :1], 0.0).sum(1)
        nodes = self.node_emb if hasattr(self, "node_emb") else self.atom_emb
        arcs = self.edge_emb if hasattr(self, "edge_emb") else self.bond_emb
        return torch.cat([nodes(x), pe], 1), arcs(edge_attr)


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


class Gine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.nn = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor, arcs: Tensor, e: Tensor) -> Tensor:
        messages = (x.index_select(0, arcs[0]) + e).relu()
        return self.nn(x.index_add(0, arcs[1], messages))


class GatedGcn(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.A, self.B, self.C, self.D, self.E = (nn.Linear(width, width) for _ in range(5))
        self.bn_node, self.bn_edge = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, arcs: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        source, target = arcs
        gates = self.D(x).index_select(0, target) + self.E(x).index_select(0, source) + self.C(e)
        weights = gates.sigmoid()
        messages = weights * self.B(x).index_select(0, source)
        total = torch.zeros_like(x).index_add(0, target, messages)
        weight = torch.zeros_like(x).index_add(0, target, weights)
        update = self.bn_node(self.A(x) + total / (weight + 1e-6)).relu()
        return x + self.dropout(update), e + self.dropout(self.bn_edge(gates).relu())


class Layer(nn.Module):
    def __init__(self, model: dict[str, Any], released: bool) -> None:
        super().__init__()
        width, self.heads, inner = model["dim"], model["heads"], model["feed_forward"]
        self.gated, self.released = model["local"] == "gatedgcn", released
        if self.gated:
            self.local = GatedGcn(width, model["dropout"])
        elif released:
            self.local = GINEConv(Gine(width).nn)
        else:
            self.local = Gine(width)
        self.attn = nn.MultiheadAttention(
            width, self.heads, model["attention_dropout"], batch_first=True
        )
        self.norm_local, self.norm_attn, self.norm_ff = (nn.BatchNorm1d(width) for _ in range(3))
        self.ff1, self.ff2 = nn.Linear(width, inner * width), nn.Linear(inner * width, width)
        self.dropout = nn.Dropout(model["dropout"])
        self.hdse_map = nn.Linear(model.get("bias_dim") or width, self.heads)

    def forward(
        self, x: Tensor, e: Tensor, batch: dict[str, Any], pairs: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.gated:
            received, e = self.local(x, batch["arcs"], e)
        else:
            received = x + self.dropout(self.local(x, batch["arcs"], e))
        attend = self.attend_released if self.released else self.attend
        attended = x + self.dropout(attend(x, batch, pairs))
        y = self.norm_local(received) + self.norm_attn(attended)
        hidden = self.dropout(self.ff1(y).relu())
        return self.norm_ff(y + self.dropout(self.ff2(hidden))), e

    def attend_released(self, x: Tensor, batch: dict[str, Any], pairs: Tensor) -> Tensor:
        dense, there = to_dense_batch(x, batch["graph"])
        graphs, longest, _ = dense.shape
        bias = self.hdse_map(pairs).permute(0, 3, 1, 2)  # [graphs, heads, longest, longest]
        bias = bias.reshape(graphs * self.heads, longest, longest)
        absent = torch.zeros_like(there, dtype=x.dtype).masked_fill(~there, -torch.inf)
        mixed, _ = self.attn(
            dense, dense, dense, key_padding_mask=absent, attn_mask=bias, need_weights=False
        )
        return mixed[there]

    def attend(self, x: Tensor, batch: dict[str, Any], rows: Tensor) -> Tensor:
        codes, place = batch["codes"], batch["place"]
        graphs, longest, _ = codes.shape
        packed = F.linear(x, self.attn.in_proj_weight, self.attn.in_proj_bias)
        dense = packed.new_zeros(graphs * longest, packed.shape[1]).index_copy(0, place, packed)
        dense = dense.view(graphs, longest, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = dense.reshape(3, graphs * self.heads, longest, -1).unbind(0)
        table = self.hdse_map(rows)
        table = torch.cat([table, table.new_full((1, self.heads), -torch.inf)]).t()
        # By far the fastest of the ways to look up and, in the derivative, to add up.
        table = table.expand(graphs, -1, -1)  # [graphs, heads, codes + 1]
        every = codes.view(graphs, 1, -1).expand(-1, self.heads, -1)
        bias = table.gather(2, every).view(graphs * self.heads, longest, longest)
        # Some 8 % faster on ZINC than scaled_dot_product_attention, which on processors has no
        # kernel of its own for dropout, or for a mask with a derivative.
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=query.shape[2] ** -0.5)
        weights = F.dropout(scores.softmax(-1), self.attn.dropout, self.training)
        mixed = torch.bmm(weights, value).view(graphs, self.heads, longest, -1)
        mixed = mixed.transpose(1, 2).reshape(graphs * longest, -1).index_select(0, place)
        return self.attn.out_proj(mixed)


class Gps(nn.Module):
    def __init__(self, model: dict[str, Any], released: bool, book: Tensor) -> None:
        super().__init__()
        width, outputs = model["dim"], model["outputs"]
        self.released = released
        self.encoder, self.hdse = Encoder(model), Distances(model)
        self.layers = nn.ModuleList(Layer(model, released) for _ in range(model["layers"]))
        widths = [width, width // 2, width // 4] if model["head"] == "san" else [width]
        maps: list[nn.Module] = []
        for inputs, following in zip(widths, [*widths[1:], outputs], strict=True):
            maps += [nn.Linear(inputs, following), nn.ReLU()]
        self.head = nn.Sequential(*maps[:-1])
        self.pool = {"sum": global_add_pool, "mean": global_mean_pool}[model["pool"]]
        self.register_buffer("book", book, persistent=False)

    def forward(self, batch: dict[str, Any]) -> Tensor:
        x, e = self.encoder(batch["x"], batch["edge_attr"], batch["pe"])
        if self.released:
            levels = batch["distances"].unbind(1)
            dense = [to_dense_adj(batch["pair_index"], batch["graph"], d) for d in levels]
            pairs = self.hdse(torch.stack(dense, -1))  # [graphs, longest, longest, width]
        else:
            pairs = self.hdse(self.book)  # [tuples, width]
        for layer in self.layers:
            x, e = layer(x, e, batch, pairs)
        return self.head(self.pool(x, batch["graph"], batch["graphs"]))


def load(dump: Dump, released: bool, book: Tensor) -> Gps:
    peer = Gps(dump.config["model"], released, book)
    torch_run.load(peer, dump.group("param."), own=("local.eps",))  # GINEConv's constant 0
    return peer.train()


# ---- one run


def first_rate(config: dict[str, Any]) -> float:
    """The learning rate of the first epoch, in which all batches of the file are."""
    schedule = config["schedule"]
    if schedule["name"] != "cosine":
        sys.exit(f"no peer has the schedule {schedule['name']}")
    return schedule["rate"] * (1e-6 if schedule["warmup"] else 1.0)


def run(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    dump = Dump(options.dump)
    dump.require(KNOWN)
    settings = dump.config["train"]
    released = options.form == "released"
    collate = Collate(dump, released)
    model = load(dump, released, collate.book).to(options.dtype)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=first_rate(settings),
        betas=settings["optimizer"]["betas"],
        eps=settings["optimizer"]["epsilon"],
        weight_decay=settings["optimizer"]["weight_decay"],
        **({} if released else {"fused": True}),
    )
    loss_of = {"l1": F.l1_loss, "binary-cross-entropy": F.binary_cross_entropy_with_logits}
    loss_of = loss_of[settings["loss"]]
    forward = model
    if options.form == "compiled":
        # Faster here than the random numbers that compiled code makes itself.
        torch._inductor.config.fallback_random = True
        forward = torch.compile(model, dynamic=True)

    def step(number: int) -> float:
        batch = collate(number)
        batch |= {name: batch[name].to(options.dtype) for name in ("pe", "y")}
        optimizer.zero_grad()
        loss = loss_of(forward(batch), batch["y"])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        optimizer.step()
        return loss.item()

    return torch_run.timed(step, options.warmup, options.steps)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(run(torch_run.parser(__doc__, FORMS).parse_args())))
