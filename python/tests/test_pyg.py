"""The transform of PyTorch Geometric, through its loaders, batches and data sets. `make test-torch`."""

import multiprocessing
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed: make test-torch")

from conftest import random_edges  # noqa: E402
from torch_geometric.data import (  # noqa: E402
    Batch,
    Data,
    HeteroData,
    InMemoryDataset,
    OnDiskDataset,
)
from torch_geometric.loader import DataLoader  # noqa: E402
from torch_geometric.transforms import AddRandomWalkPE, Compose, ToUndirected  # noqa: E402

import hdse  # noqa: E402
import hdse.pyg  # noqa: E402
from hdse.pyg import AddHDSE, dense  # noqa: E402


def graph(seed, nodes):
    edges = torch.from_numpy(random_edges(seed, nodes, nodes))
    edges = torch.unique(edges, dim=1)
    return Data(x=torch.randn(nodes, 3), edge_index=edges, y=torch.tensor([float(seed)]))


GRAPHS = [graph(i, n) for i, n in enumerate([1, 2, 9, 30, 17, 5, 64, 70])]


def expected(data, **options):
    return hdse.encode(data.edge_index, data.num_nodes, **options)


def test_attributes_are_those_of_encode():
    for data in GRAPHS:
        keys = set(data.keys())
        out = AddHDSE(levels=2)(data)
        assert set(data.keys()) == keys and out is not data
        n = data.num_nodes
        assert out.hdse.dtype == torch.uint8 and out.hdse.shape == (n * n, 3)
        assert out.hdse_cluster.dtype == torch.int64 and out.hdse_cluster.shape == (n, 2)
        encoding = expected(data, levels=2)
        assert (out.hdse.numpy().reshape(n, n, 3) == encoding.distances).all()
        assert (out.hdse_cluster.numpy() == encoding.clusters).all()
        assert out.x is data.x


def test_forward_does_not_mutate_either():
    data = GRAPHS[3]
    AddHDSE().forward(data)
    assert "hdse" not in data


def test_tensors_are_graphs():
    data = GRAPHS[4]
    assert hdse.encode(data) == expected(data) == hdse.encode(data.edge_index, torch.tensor(17))
    assert hdse.encode_many(GRAPHS)[4] == expected(data)


def same(a, b):
    assert a.keys() == b.keys()
    for key in a.keys():
        assert torch.equal(a[key], b[key]), key


def test_batches_give_the_graphs_back():
    graphs = [AddHDSE(levels=2)(data) for data in GRAPHS]
    for batch in [Batch.from_data_list(graphs), pickle.loads(pickle.dumps(Batch.from_data_list(graphs)))]:
        for before, after in zip(graphs, batch.to_data_list()):
            same(before, after)
        distances, mask = dense(batch)
        assert distances.shape == (8, 70, 70, 3) and distances.dtype == torch.uint8
        assert mask.sum(1).tolist() == [g.num_nodes for g in graphs]
        for i, data in enumerate(graphs):
            n = data.num_nodes
            assert (distances[i, :n, :n] == data.hdse.view(n, n, 3)).all()
            assert (distances[i, n:] == 255).all() and (distances[i, :, n:] == 255).all()
    single, mask = dense(graphs[3], fill=0)
    assert single.shape == (1, 30, 30, 3) and mask.all()


@pytest.mark.parametrize("workers, method", [(0, None), (2, "fork"), (2, "spawn")])
def test_loaders(workers, method):
    graphs = [AddHDSE()(data) for data in GRAPHS]
    hdse.encode_many([(g.edge_index, g.num_nodes) for g in GRAPHS], threads=2)
    dataset = Lazy(GRAPHS)
    loader = DataLoader(dataset, batch_size=3, num_workers=workers, multiprocessing_context=method)
    found = [data for batch in loader for data in batch.to_data_list()]
    assert len(found) == 8
    for before, after in zip(graphs, found):
        same(before, after)


class Lazy(torch.utils.data.Dataset):
    """Transforms in the worker."""

    def __init__(self, graphs):
        self.graphs, self.transform = graphs, AddHDSE()

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.transform(self.graphs[i])


class InMemory(InMemoryDataset):
    def __init__(self, root, **options):
        super().__init__(root, **options)
        self.load(self.processed_paths[0])

    processed_file_names = "data.pt"

    def process(self):
        self.save([self.pre_transform(data) for data in GRAPHS], self.processed_paths[0])


def test_in_memory_data_sets_notice_changed_parameters(tmp_path):
    dataset = InMemory(tmp_path, pre_transform=AddHDSE(levels=2))
    for before, after in zip(GRAPHS, dataset):
        same(AddHDSE(levels=2)(before), after)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        InMemory(tmp_path, pre_transform=AddHDSE("newman:ties=canonical", levels=2))
    for other in [AddHDSE(levels=1), AddHDSE("louvain", levels=2), AddHDSE(levels=2, max_distance=9)]:
        with pytest.warns(UserWarning, match="pre_transform"):
            InMemory(tmp_path, pre_transform=other)


class OnDisk(OnDiskDataset):
    def __init__(self, root, transform=None):
        super().__init__(root, transform)

    def process(self):
        self.extend([AddHDSE()(data) for data in GRAPHS])


def test_on_disk_data_sets(tmp_path):
    dataset = OnDisk(tmp_path, transform=AddHDSE("louvain", attr="other"))
    for i, data in enumerate(GRAPHS):
        out = AddHDSE("louvain", attr="other")(AddHDSE()(data))
        same(out, dataset[i])
    dataset.close()


def test_composes():
    one_way = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    transform = Compose([ToUndirected(), AddRandomWalkPE(3), AddHDSE()])
    out = transform(one_way)
    assert out.hdse.shape == (16, 2) and out.random_walk_pe.shape == (4, 3)
    assert "AddHDSE(coarsener='newman:ties=canonical'" in repr(transform)


def test_directed_graphs_are_refused_unless_told():
    one_way = Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=3)
    with pytest.raises(ValueError, match="1 of 2 edges go one way only"):
        AddHDSE()(one_way)
    out = AddHDSE(directed="as-undirected")(one_way)
    assert torch.equal(out.hdse, AddHDSE()(ToUndirected()(one_way)).hdse)
    assert torch.equal(out.edge_index, one_way.edge_index)


def hetero():
    data = HeteroData()
    data["atom"].num_nodes = 3
    data["ring"].num_nodes = 2
    edges = torch.tensor([[0, 1, 2], [0, 0, 1]])
    data["atom", "in", "ring"].edge_index = edges
    data["ring", "of", "atom"].edge_index = edges.flip(0)
    return data


def test_hetero_graphs_are_refused_unless_told():
    data = hetero()
    with pytest.raises(ValueError, match="hetero='as-homogeneous'"):
        AddHDSE()(data)
    out = AddHDSE(hetero="as-homogeneous")(data)
    encoding = hdse.encode([[0, 1, 2], [3, 3, 4]], 5)
    assert (out.hdse.numpy().reshape(5, 5, 2) == encoding.distances).all()
    assert (out["atom"].hdse_cluster.numpy() == encoding.clusters[:3]).all()
    assert (out["ring"].hdse_cluster.numpy() == encoding.clusters[3:]).all()
    assert "hdse" not in data
    batch = Batch.from_data_list([out, out])
    assert dense(batch)[0].shape == (2, 5, 5, 2)
    assert torch.equal(batch.to_data_list()[1].hdse, out.hdse)


def test_stale_distances_are_noticed():
    data = AddHDSE()(GRAPHS[6])
    for changed in [data.subgraph(torch.arange(10)), data.edge_subgraph(torch.arange(40))]:
        with pytest.raises(ValueError, match=r"changed after AddHDSE, for instance by subgraph\(\)"):
            dense(changed)
    batch = Batch.from_data_list([data, AddHDSE()(GRAPHS[3]), data.subgraph(torch.arange(10))])
    with pytest.raises(ValueError, match="apply AddHDSE again"):
        dense(batch)
    batch = Batch.from_data_list([data, AddHDSE()(GRAPHS[3])])
    with pytest.raises(ValueError, match="apply AddHDSE again"):
        dense(batch.subgraph(torch.arange(70)))
    rewired = data.clone()
    rewired.edge_index = torch.cat([data.edge_index, torch.tensor([[0, 60], [60, 0]])], 1)
    if data.hdse[60, 0] != 1:
        with pytest.raises(ValueError, match="does not fit the edges"):
            dense(rewired)
        dense(rewired, check=False)
    # Distances clipped at 1 make far pairs look like neighbours; that alone is no change.
    dense(AddHDSE(max_distance=1)(GRAPHS[6]))


def test_weights_and_functions():
    data = GRAPHS[4].clone()
    data.edge_weight = torch.ones(data.edge_index.size(1))
    assert torch.equal(AddHDSE("louvain", weights="edge_weight")(data).hdse, AddHDSE("louvain")(data).hdse)
    out = AddHDSE(halves)(data)
    assert out.hdse_cluster[:, 0].tolist() == [i // 2 for i in range(17)]
    assert "coarsener='python:test_pyg.halves'" in repr(AddHDSE(halves))
    assert pickle.loads(pickle.dumps(AddHDSE(halves)))(data).hdse.equal(out.hdse)


def halves(edge_index, num_nodes):
    return np.arange(num_nodes) // 2


def test_repr_lists_every_parameter_and_the_version():
    assert repr(AddHDSE("louvain", 2, [30, 10], 7, weights="w", directed="as-undirected", attr="d")) == (
        "AddHDSE(coarsener='louvain:resolution=1', levels=2, max_distance=[30, 10, 10], seed=7, "
        "weights='w', directed='as-undirected', hetero='refuse', attr='d', "
        f"version='{hdse.__version__}')"
    )


@pytest.mark.parametrize(
    "options, text",
    [
        ({"coarsener": "luvain"}, "did you mean `louvain`"),
        ({"levels": 99}, "between 0 and 64"),
        ({"max_distance": 0}, "between 1 and 254"),
        ({"directed": "yes"}, "take 'refuse' or 'as-undirected'"),
        ({"hetero": "yes"}, "take 'refuse' or 'as-homogeneous'"),
        ({"attr": "my_index"}, "PyG treats names with `index`"),
    ],
)
def test_wrong_parameters_are_refused_when_the_transform_is_made(options, text):
    with pytest.raises(ValueError, match=text):
        AddHDSE(**options)


def test_wrong_data_are_explained():
    with pytest.raises(ValueError, match="no `edge_index`"):
        AddHDSE()(Data(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match="before they are batched"):
        AddHDSE()(Batch.from_data_list(GRAPHS))
    with pytest.raises(ValueError, match="apply AddHDSE to the graphs first"):
        dense(Batch.from_data_list(GRAPHS))


def test_forked_workers_do_not_wait_for_threads_of_the_parent():
    big = graph(0, 2000)
    hdse.encode(big, coarsener="louvain", threads=2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        result = pool.apply_async(transform, (big,)).get(timeout=120)
    assert result == transform(big)


def transform(data):
    torch.set_num_threads(1)  # as the workers of a DataLoader do: torch's own threads do not survive a fork
    return AddHDSE("louvain")(data).hdse.numpy().tobytes()
