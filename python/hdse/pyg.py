"""For PyTorch Geometric: distances as a transform, and batches of them as dense tensors.

>>> from hdse.pyg import AddHDSE, dense
>>> dataset = ZINC(root, pre_transform=AddHDSE(coarsener="newman", levels=1))
>>> for batch in DataLoader(dataset, batch_size=32):
...     distances, mask = dense(batch)  # [B, Nmax, Nmax, K + 1], [B, Nmax]
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, Union

try:
    import torch
    from torch import Tensor
    from torch_geometric.data import Batch, Data, HeteroData
    from torch_geometric.data.datapipes import functional_transform
    from torch_geometric.transforms import BaseTransform
except ImportError as error:
    raise ImportError(f"hdse.pyg needs torch_geometric, the extra `pyg` of hdse: {error}") from error

from ._hdse import Encoding, Graph, UNREACHABLE, __version__, _settings, encode

__all__ = ["AddHDSE", "dense"]


@functional_transform("add_hdse")
class AddHDSE(BaseTransform):  # type: ignore[misc]
    """Adds hierarchical distances to a graph:

    - `data.hdse`, uint8 [N * N, K + 1]: row u * N + v holds the distances of u and v at levels 0 to K, 255
      where there is no path;
    - `data.hdse_cluster`, int64 [N, K]: the cluster of every node at levels 1 to K.

    Both collate by PyG's own rules. Transforms that change nodes or edges belong before this one.

    Args:
        coarsener: a name with parameters such as "louvain:resolution=0.5" (`hdse.coarseners()` lists
            them), or a function `(edge_index, num_nodes) -> cluster ids` on numpy arrays.
        levels: number of levels K above the graph.
        max_distance: where distances are clipped, one number or one per level, at most 254.
        seed: seed of the coarsener; it draws alike for all graphs.
        weights: name of the attribute with edge weights, for coarseners that use them.
        directed: what to do if arcs have no reverse: "refuse", or "as-undirected" to take them both ways.
        hetero: what to do with `HeteroData`: "refuse", or "as-homogeneous" to take all types together, in the
            order of `data.node_types`; clusters then go to each node type.
        attr: name of the attribute; clusters have `_cluster` appended.
    """

    def __init__(
        self,
        coarsener: Union[str, Callable[..., Any]] = "newman",
        levels: int = 1,
        max_distance: Union[int, str, Sequence[int]] = 30,
        seed: int = 0,
        *,
        weights: Optional[str] = None,
        directed: Literal["refuse", "as-undirected"] = "refuse",
        hetero: Literal["refuse", "as-homogeneous"] = "refuse",
        attr: str = "hdse",
    ) -> None:
        if directed not in ("refuse", "as-undirected"):
            raise ValueError(f"directed={directed!r}: take 'refuse' or 'as-undirected'")
        if hetero not in ("refuse", "as-homogeneous"):
            raise ValueError(f"hetero={hetero!r}: take 'refuse' or 'as-homogeneous'")
        for word in ("index", "batch", "face", "adj"):
            if word in attr:
                raise ValueError(f"attr={attr!r}: PyG treats names with `{word}` in a way of its own")
        self.described, self.clips = _settings(coarsener, levels, max_distance)
        self.coarsener = coarsener
        self.levels = levels
        self.max_distance = max_distance
        self.seed = seed
        self.weights = weights
        self.directed = directed
        self.hetero = hetero
        self.attr = attr

    def __call__(self, data: Any) -> Any:
        return self.forward(data)

    def forward(self, data: Any) -> Any:
        """A shallow copy of `data` with the attributes added."""
        if isinstance(data, Batch):
            raise ValueError("this is a batch; transform its graphs one by one, before they are batched")
        if isinstance(data, HeteroData):
            return self._forward_hetero(data)
        if data.edge_index is None:
            raise ValueError("data has no `edge_index`; ToSparseTensor belongs after AddHDSE")
        if data.num_nodes is None:
            raise ValueError("data does not say how many nodes it has; set `data.num_nodes`")
        weights = None if self.weights is None else data[self.weights]
        encoding = self._encode(data.edge_index, data.num_nodes, weights)
        device = data.edge_index.device
        data = copy.copy(data)
        data[self.attr] = self._distances(encoding).to(device)
        data[f"{self.attr}_cluster"] = self._clusters(encoding).to(device)
        return data

    def _forward_hetero(self, data: HeteroData) -> HeteroData:
        if self.hetero == "refuse":
            raise ValueError(
                "HeteroData has nodes and edges of several kinds; take one kind, or all together with "
                "AddHDSE(hetero='as-homogeneous')"
            )
        starts, nodes = {}, 0
        for kind in data.node_types:
            if data[kind].num_nodes is None:
                raise ValueError(f"`{kind}` does not say how many nodes it has; set its `num_nodes`")
            starts[kind] = nodes
            nodes += data[kind].num_nodes
        edges, weights = [torch.empty(2, 0, dtype=torch.long)], []
        for source, relation, target in data.edge_types:
            store = data[source, relation, target]
            start = torch.tensor([[starts[source]], [starts[target]]])
            edges.append(store.edge_index.cpu() + start)
            if self.weights is not None:
                weights.append(store[self.weights].cpu())
        encoding = self._encode(torch.cat(edges, 1), nodes, torch.cat(weights) if weights else None)
        data = copy.copy(data)
        data[self.attr] = self._distances(encoding)
        clusters = self._clusters(encoding)
        for kind, start in starts.items():
            data[kind][f"{self.attr}_cluster"] = clusters[start : start + data[kind].num_nodes]
        return data

    def _encode(self, edge_index: Tensor, num_nodes: int, weights: Optional[Tensor]) -> Encoding:
        edges = edge_index.detach().cpu().numpy()
        graph = Graph(edges, num_nodes, weights=weights)
        one_way = graph.repairs["one_way"]
        if one_way and self.directed == "refuse":
            raise ValueError(
                f"{one_way} of {graph.num_edges} edges go one way only: a directed graph. Take them both "
                "ways with AddHDSE(directed='as-undirected'), or apply ToUndirected before"
            )
        return encode(graph, None, self.coarsener, self.levels, self.max_distance, self.seed)

    def _distances(self, encoding: Encoding) -> Tensor:
        return torch.from_numpy(encoding.lift().reshape(-1, self.levels + 1))

    def _clusters(self, encoding: Encoding) -> Tensor:
        return torch.from_numpy(encoding.clusters.astype("int64"))

    def __repr__(self) -> str:
        """Every parameter and the version, so that PyG notices when a processed set is out of date."""
        clip = self.clips[0] if len(set(self.clips)) == 1 else self.clips
        return (
            f"{type(self).__name__}(coarsener={self.described!r}, levels={self.levels}, "
            f"max_distance={clip}, seed={self.seed}, weights={self.weights!r}, "
            f"directed={self.directed!r}, hetero={self.hetero!r}, attr={self.attr!r}, "
            f"version={__version__!r})"
        )


def dense(
    batch: Any, attr: str = "hdse", *, fill: int = UNREACHABLE, check: bool = True
) -> tuple[Tensor, Tensor]:
    """The distances of a batch as one tensor uint8 [B, Nmax, Nmax, K + 1], and a mask bool [B, Nmax] of the
    nodes that are there; pairs beyond a graph's nodes hold `fill`.

    A graph that is not batched counts as a batch of one. Distances that no longer belong to their graph,
    for instance after `subgraph()`, are refused; `check=False` compares sizes only.
    """
    if attr not in batch:
        raise ValueError(f"no `{attr}` here; apply AddHDSE to the graphs first")
    values = batch[attr]
    sizes = _sizes(batch).to(values.device)
    if values.dim() != 2 or (_rows(batch, attr, values) != sizes.cpu() ** 2).any():
        raise ValueError(_stale(attr, f"has {values.size(0)} rows for {sizes.tolist()} nodes"))
    most = int(sizes.max()) if sizes.numel() else 0
    place = torch.arange(most, device=values.device)
    mask = place < sizes[:, None]  # [B, Nmax]
    pairs = mask[:, :, None] & mask[:, None, :]  # [B, Nmax, Nmax]
    result = values.new_full((*pairs.shape, values.size(1)), fill)
    result[pairs] = values  # graph by graph and row by row, as the pairs are listed
    if check and isinstance(batch, Data) and batch.edge_index is not None:
        _check_edges(batch, attr, result[..., 0], sizes, pairs)
    return result, mask


def _sizes(batch: Any) -> Tensor:
    """Nodes of every graph, of all kinds together: int64 [B]."""
    kinds = [batch[kind] for kind in batch.node_types] if isinstance(batch, HeteroData) else [batch]
    if isinstance(batch, Batch):
        # Counted, since subgraph() leaves `ptr` as it was.
        counts = [torch.bincount(kind.batch.cpu(), minlength=batch.num_graphs) for kind in kinds]
        return torch.stack(counts).sum(0)
    return torch.tensor([sum(kind.num_nodes for kind in kinds)])


def _rows(batch: Any, attr: str, values: Tensor) -> Tensor:
    """Rows of every graph in `values`: int64 [B]."""
    slices = getattr(batch, "_slice_dict", {}).get(attr)
    return torch.tensor([values.size(0)]) if slices is None else slices.diff().cpu()


def _check_edges(batch: Any, attr: str, hops: Tensor, sizes: Tensor, pairs: Tensor) -> None:
    """Two nodes are one hop apart exactly if an edge joins them."""
    graph = torch.repeat_interleave(torch.arange(sizes.numel(), device=sizes.device), sizes)
    first = torch.cumsum(sizes, 0) - sizes
    edges = batch.edge_index.to(hops.device)
    edges = edges[:, edges[0] != edges[1]]
    graph = graph[edges[0]]
    source, target = edges - first[graph]
    joined = torch.zeros_like(pairs)
    joined[graph, source, target] = True
    joined[graph, target, source] = True
    near = pairs & (hops == 1)
    # Where distances are clipped at 1, far pairs look like neighbours.
    clipped = not bool(((hops > 1) & (hops < UNREACHABLE) & pairs).any())
    if (joined & ~near).any() or (not clipped and (near & ~joined).any()):
        raise ValueError(_stale(attr, "does not fit the edges"))


def _stale(attr: str, how: str) -> str:
    return (
        f"`{attr}` {how}: the graph was changed after AddHDSE, for instance by subgraph(); apply AddHDSE "
        "again, after all that changes nodes or edges"
    )
