#!/bin/sh
# Tests with torch, torch_geometric and, where they install, rdkit and igraph.
# usage: torch.sh PYTHON ENVIRONMENT WHEEL
# The environment takes some 6 GB and is kept; without it the tests are skipped by name.
set -eu
python=$1 environment=$2 wheel=$3
here=$(dirname "$0")

skip() {
    sed -n "s/^def \(test_[a-z0-9_]*\).*/skipped: test_pyg.py \1 ($1)/p" "$here/test_pyg.py"
    echo "skipped: test_examples.py graph_ml, molecules; test_inputs.py igraph, rdkit ($1)"
    exit 0
}

install() {
    mkdir -p "$environment"
    free=$(df -Pk "$environment" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
    [ "$free" -ge 8 ] || skip "torch takes 6 GB and $free GB are free"
    "$python" -m venv "$environment" || skip "no virtual environment could be made"
    echo "installing torch into $environment, once"
    "$environment/bin/pip" install --quiet -r "$here/requirements-torch.txt" ||
        skip "torch could not be installed"
    for extra in rdkit igraph; do
        "$environment/bin/pip" install --quiet "$extra" || echo "$extra could not be installed"
    done
    cp "$here/requirements-torch.txt" "$environment/installed.txt"
}

cmp -s "$here/requirements-torch.txt" "$environment/installed.txt" || install
"$environment/bin/python" -c 'import torch, torch_geometric' || skip "torch could not be imported"
"$environment/bin/pip" install --quiet --no-deps --force-reinstall "$wheel"
"$environment/bin/python" -m pytest "$here/test_pyg.py" "$here/test_inputs.py" "$here/test_examples.py" \
    "$here/test_docs.py"
