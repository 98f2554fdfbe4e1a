"""GraphGPS with HDSE, for step_torch.py, in its forms."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GINEConv, global_add_pool, global_mean_pool
from torch_geometric.utils import to_dense_batch

from step_parts import Columns, Distances, Dropout, Types, attend, dense_pairs, head
from step_parts import Collate as Collate

# What the model can be.
KNOWN = {
    "backbone": ["gps"],
    "local": ["gine", "gatedgcn"],
    "bias": ["mlp"],
    "combine": ["concat"],
    "unreachable": ["clip"],
    "head": ["san", {"graphgym": 1}],
    "pool": ["sum", "mean"],
}


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


class Gine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.nn = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor, arcs: Tensor, e: Tensor) -> Tensor:
        messages = (x.index_select(0, arcs[0]) + e).relu()
        return self.nn(x.index_add(0, arcs[1], messages))


class GatedGcn(nn.Module):
    def __init__(self, width: int, dropout: nn.Dropout) -> None:
        super().__init__()
        self.A, self.B, self.C, self.D, self.E = (nn.Linear(width, width) for _ in range(5))
        self.bn_node, self.bn_edge = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.dropout = dropout

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
        self.dropout = (nn.Dropout if released else Dropout)(model["dropout"])
        if self.gated:
            self.local = GatedGcn(width, self.dropout)
        elif released:
            self.local = GINEConv(Gine(width).nn)
        else:
            self.local = Gine(width)
        self.attn = nn.MultiheadAttention(
            width, self.heads, model["attention_dropout"], batch_first=True
        )
        self.norm_local, self.norm_attn, self.norm_ff = (nn.BatchNorm1d(width) for _ in range(3))
        self.ff1, self.ff2 = nn.Linear(width, inner * width), nn.Linear(inner * width, width)
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
        packed = F.linear(x, self.attn.in_proj_weight, self.attn.in_proj_bias)
        return self.attn.out_proj(attend(packed, batch, self.hdse_map(rows), self.attn.dropout))


class Model(nn.Module):
    # GINEConv's constant 0.
    own = ("local.eps",)

    def __init__(self, model: dict[str, Any], form: str, book: Tensor) -> None:
        super().__init__()
        width, outputs = model["dim"], model["outputs"]
        self.released = form == "released"
        self.encoder, self.hdse = Encoder(model), Distances(model)
        self.layers = nn.ModuleList(Layer(model, self.released) for _ in range(model["layers"]))
        hidden = [width // 2, width // 4] if model["head"] == "san" else []
        self.head = head([width, *hidden, outputs])
        self.pool = {"sum": global_add_pool, "mean": global_mean_pool}[model["pool"]]
        self.register_buffer("book", book, persistent=False)

    def forward(self, batch: dict[str, Any]) -> Tensor:
        x, e = self.encoder(batch["x"], batch["edge_attr"], batch["pe"])
        pairs = dense_pairs(self.hdse, batch) if self.released else self.hdse(self.book)
        for layer in self.layers:
            x, e = layer(x, e, batch, pairs)
        return self.head(self.pool(x, batch["graph"], batch["graphs"]))
