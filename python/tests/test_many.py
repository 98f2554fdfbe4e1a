"""`encode_many` and `read`: ragged in, ragged out, equal to one at a time and to the command."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import data, random_edges

import hdse

SIZES = [0, 1, 7, 30, 64, 65, 3]
GRAPHS = [random_edges(i, n, n) for i, n in enumerate(SIZES)]


@pytest.mark.parametrize("coarsener", ["newman", "louvain", "random", "newman:ties=random"])
def test_equal_to_one_at_a_time(coarsener):
    many = hdse.encode_many(GRAPHS, SIZES, coarsener=coarsener, levels=2, seed=5)
    assert len(many) == 7 and many.num_nodes.tolist() == SIZES
    for i, (edges, n) in enumerate(zip(GRAPHS, SIZES)):
        one = hdse.encode(edges, n, coarsener=coarsener, levels=2, seed=5, number=i)
        assert many[i] == one
        assert (many[i].distances == one.distances).all()
        assert (many[i].codebook[many[i].codes] == one.distances).all()
        assert many[i].hierarchy == one.hierarchy
        pairs = slice(many.pair_offsets[i], many.pair_offsets[i + 1])
        assert (many.distances[pairs].reshape(n, n, 3) == one.distances).all()
        nodes = slice(many.node_offsets[i], many.node_offsets[i + 1])
        assert (many.clusters[nodes] == one.clusters).all()
    assert (many.codebook[many.codes] == many.distances).all()


def test_forms_of_input_agree():
    many = hdse.encode_many(GRAPHS, SIZES)
    offsets = np.cumsum([0] + [g.shape[1] for g in GRAPHS])
    ragged = np.concatenate(GRAPHS, 1)
    assert hdse.encode_many(ragged, SIZES, offsets=offsets) == many
    assert hdse.encode_many(list(zip(GRAPHS, SIZES))) == many
    assert hdse.encode_many(zip(GRAPHS, SIZES)) == many
    assert hdse.encode_many([hdse.Graph(g, n) for g, n in zip(GRAPHS, SIZES)]) == many
    assert hdse.encode_many(GRAPHS, SIZES, partition=many.clusters) == many
    assert hdse.encode_many([]).distances.shape == (0, 2)
    weights = [np.ones(g.shape[1]) for g in GRAPHS]
    weighted = hdse.encode_many(GRAPHS, SIZES, weights=weights)
    flat = hdse.encode_many(ragged, SIZES, offsets=offsets, weights=np.concatenate(weights))
    assert weighted == flat != many


def test_threads_do_not_matter():
    set_ = hdse.read("community-small")
    for coarsener in ["newman", "louvain", "leiden", "random"]:
        results = [hdse.encode_many(set_, coarsener=coarsener, threads=t) for t in (1, 2, 5, None)]
        assert all(r == results[0] for r in results)
        assert all((r.distances == results[0].distances).all() for r in results)


def test_it_is_a_sequence():
    many = hdse.encode_many(GRAPHS, SIZES)
    assert many[-1] == many[6] and many[2:5] == [many[2], many[3], many[4]]
    assert [e.num_nodes for e in many] == SIZES
    assert np.shares_memory(many[3].distances, many.distances)
    with pytest.raises(IndexError, match="graph 7 of 7"):
        many[7]
    other = pickle.loads(pickle.dumps(many))
    assert other == many and (other.distances == many.distances).all()
    assert many != hdse.encode_many(GRAPHS[:-1], SIZES[:-1])
    assert repr(many) == (
        "Encodings(graphs=7, nodes=170, pairs=9280, levels=1, max_distance=30, "
        "coarsener='newman:ties=canonical')"
    )


@pytest.mark.parametrize(
    "graphs, sizes, options, text",
    [
        (GRAPHS, SIZES[:-1], {}, "`num_nodes` has 6 numbers"),
        (GRAPHS, SIZES + [1], {}, "more than 7 numbers"),
        ([GRAPHS[3], [[0], [9]]], [30, 2], {}, r"graph 1: pair 0 \(0, 9\)"),
        ([GRAPHS[3], "x"], [30, 2], {}, "graph 1: 'x' is no graph"),
        (GRAPHS[3], [30], {"offsets": [0, 7]}, "must rise from 0 to the 60 columns"),
        (GRAPHS[3], [30], {"offsets": [0]}, "need one more"),
        (GRAPHS[3], None, {"offsets": [0, 60]}, "`offsets` needs `num_nodes`"),
        (GRAPHS[3], [10], {"offsets": [0, 60]}, "graph 0: pair"),
        (hdse.read("community-small"), [3], {}, "has its nodes and weights already"),
        (GRAPHS[:4], SIZES[:4], {"weights": [[], [1, 1], [-1] * 14, [-2] * 60]}, "graph 2: pair 0"),
    ],
)
def test_mistakes_name_the_graph(graphs, sizes, options, text):
    with pytest.raises((ValueError, TypeError), match=text):
        hdse.encode_many(graphs, sizes, **options)


def test_memory_is_refused_before_work():
    with pytest.raises(MemoryError, match="graph 1: distances of all pairs of 5000000 nodes"):
        hdse.encode_many([([[], []], 3), ([[], []], 5_000_000)])
    with pytest.raises(MemoryError, match="distances of all pairs of 100 graphs needs"):
        hdse.encode_many([([[], []], 100)] * 100, max_memory="1M")


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "hdse", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("coarsener", ["newman", "louvain", "leiden", "random:like=louvain"])
def test_equal_to_the_command(tmp_path, coarsener):
    path = tmp_path / "out.npz"
    options = ["-c", coarsener, "-k", 2, "-l", "5/3", "--seed", 7, "-q"]
    command("encode", "community-small", "-o", path, *options)
    written = np.load(path)
    ours = hdse.encode_many(
        hdse.read("community-small"), coarsener=coarsener, levels=2, max_distance="5/3", seed=7
    )
    for name in ["distances", "clusters", "num_nodes", "node_offsets", "pair_offsets"]:
        array = getattr(ours, name)
        assert array.shape == written[name].shape and (array == written[name]).all(), name
    assert ours.distances.tobytes() == written["distances"].tobytes()
    assert ours.clusters.tobytes() == written["clusters"].tobytes()


def test_shards_draw_as_the_whole(tmp_path):
    whole = hdse.encode_many(hdse.read("community-small"), coarsener="random")
    for shard in ["1/3", (1, 3)]:
        part = hdse.read("community-small", shard=shard)
        assert (part.first, part.total, len(part)) == (33, 100, 33)
        assert list(hdse.encode_many(part, coarsener="random")) == whole[33:66]
    again = hdse.encode_many(list(part), coarsener="random", first=33)
    assert list(again) == whole[33:66]


def test_real_molecules_equal_the_command(tmp_path):
    source = data("zinc", "val.parquet")
    path = tmp_path / "out.npz"
    command("encode", source, "-o", path, "-q")
    written = np.load(path)
    ours = hdse.encode_many(hdse.read(source))
    assert len(ours) == 1000
    assert ours.distances.tobytes() == written["distances"].tobytes()
    assert ours.clusters.tobytes() == written["clusters"].tobytes()


def test_read_gives_what_the_file_has(tmp_path):
    path = tmp_path / "set.jsonl"
    rows = [
        {"num_nodes": 3, "edge_index": [[0, 1, 1], [1, 0, 2]], "node_feat": [[1], [2], [3]],
         "edge_attr": [[1], [1], [2]], "y": [0.5]},
        {"num_nodes": 2, "edge_index": [[], []], "node_feat": [[4], [5]], "edge_attr": [], "y": [1.5]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = hdse.read(path)
    assert len(read) == 2 and read.num_nodes.tolist() == [3, 2]
    first = read[0]
    assert first.edge_index.tolist() == [[0, 1, 1], [1, 0, 2]] and first.edge_index.dtype == np.int64
    assert first.node_feat.tolist() == [[1], [2], [3]] and first.edge_attr.tolist() == [[1], [1], [2]]
    assert first.y.tolist() == [0.5] and first.pos is None
    assert first.graph.num_edges == 2 and read.repairs["one_way"] == 1
    assert hdse.encode(first) == hdse.encode(first.edge_index, 3)
    for value in [first, read]:
        assert pickle.loads(pickle.dumps(value)) == value
    assert read != hdse.read("community-small") and read[0] != read[1]
    assert repr(first) == (
        "Sample(num_nodes=3, edge_index=[2, 3], edge_attr=[3, 1], node_feat=[3, 1], y=[1])"
    )
    bare = hdse.read(path, features=False, format="jsonl")[0]
    assert bare.node_feat is None and bare.graph == first.graph
    with pytest.raises(ValueError, match="format"):
        hdse.read(path, format="jsno")
    (tmp_path / "bad.jsonl").write_text('{"num_nodes": 2, "edge_index": [[0], [9]]}\n')
    with pytest.raises(ValueError, match="bad.jsonl"):
        hdse.read(tmp_path / "bad.jsonl")
