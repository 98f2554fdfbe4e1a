"""You have a model in PyTorch Geometric: one transform, one bias, one row of an ablation.

    pip install hdse[pyg]
    python graph_ml.py

The nodes of a community share a hidden sign, and each node shows it in much noise. A transformer that knows
who belongs together can average the noise away. The same small model is trained without a bias, with hop
distances (levels=0) and with hierarchical ones (levels=1).
"""

import networkx as nx
import torch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_networkx, to_dense_batch

from hdse.pyg import AddHDSE, dense

EPOCHS, WIDTH, HEADS, CLIP = 8, 16, 4, 8


def graphs(count):
    """Four communities of ten nodes, a sign for each."""
    torch.manual_seed(0)
    for seed in range(count):
        data = from_networkx(nx.random_partition_graph([10] * 4, 0.5, 0.04, seed=seed))
        sign = torch.randint(2, (4,)).repeat_interleave(10)
        yield type(data)(
            edge_index=data.edge_index,
            x=(2.0 * sign - 1 + 2 * torch.randn(40))[:, None],
            y=sign,
        )


class Bias(torch.nn.Module):
    """A number per head for every pair: one table per level, summed."""

    def __init__(self, levels):
        super().__init__()
        # The last row stands for unreachable and for padding.
        tables = (torch.nn.Embedding(CLIP + 2, HEADS) for _ in range(levels + 1))
        self.tables = torch.nn.ModuleList(tables)

    def forward(self, distances):  # [B, N, N, K + 1]
        distances = distances.long().clamp(max=CLIP + 1)
        bias = sum(table(distances[..., k]) for k, table in enumerate(self.tables))
        return bias.permute(0, 3, 1, 2)  # [B, heads, N, N]


class Transformer(torch.nn.Module):
    """One layer of attention, and the bias if there is one."""

    def __init__(self, levels):
        super().__init__()
        self.bias = None if levels is None else Bias(levels)
        self.inside = torch.nn.Linear(1, WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.outside = torch.nn.Linear(WIDTH, 2)

    def forward(self, batch):
        x, mask = to_dense_batch(self.inside(batch.x), batch.batch)  # [B, N, width]
        bias = torch.zeros(len(x), HEADS, x.size(1), x.size(1))
        if self.bias is not None:
            bias = self.bias(dense(batch)[0])
        bias = bias.masked_fill(~mask[:, None, None, :], float("-inf"))
        heads = [t.unflatten(2, (HEADS, -1)).transpose(1, 2) for t in self.attention(x).chunk(3, 2)]
        seen = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias)
        return self.outside(x + seen.transpose(1, 2).flatten(2))[mask]  # [nodes, 2]


def accuracy(levels):
    transform = AddHDSE(coarsener="newman", levels=levels or 0, max_distance=CLIP)
    everything = [transform(data) for data in graphs(90)]
    model = Transformer(levels)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(EPOCHS):
        for batch in DataLoader(everything[:60], batch_size=8, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
    with torch.no_grad():
        batch = next(iter(DataLoader(everything[60:], batch_size=40)))
        return float((model(batch).argmax(1) == batch.y).float().mean())


if __name__ == "__main__":
    print("accuracy on graphs not seen")
    for name, levels in [("no bias", None), ("+ hop distances", 0), ("+ HDSE", 1)]:
        print(f"{name:16}{accuracy(levels):.2f}")
