"""You have molecules: distances of all of them in one call, and the motifs they fall into.

    pip install hdse[mol]
    python molecules.py

For a file of graphs instead of SMILES, `hdse.read("zinc/train.parquet")` goes where the list of molecules is.
"""

import time

from rdkit import Chem

import hdse

SMILES = {
    "biphenyl": "c1ccccc1-c1ccccc1",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
}

if __name__ == "__main__":
    molecules = [Chem.MolFromSmiles(smiles) for smiles in SMILES.values()]
    encodings = hdse.encode_many(molecules, coarsener="newman", levels=1)

    for (name, smiles), molecule, encoding in zip(SMILES.items(), molecules, encodings):
        print(f"{name}: {smiles}")
        for cluster in range(encoding.hierarchy.num_clusters[1]):
            atoms = [i for i in range(encoding.num_nodes) if encoding.clusters[i, 0] == cluster]
            print(f"  motif {cluster}: {Chem.MolFragmentToSmiles(molecule, atoms)}")
        # To look at it: Chem.Draw.MolToImage(molecule, highlightAtoms=atoms)

    # A model needs the distinct rows of distances only, and one small number per pair of atoms.
    print(f"{len(encodings.codes)} pairs of atoms, {len(encodings.codebook)} distinct rows of distances")

    many = [(encodings[i % 4].graph, None) for i in range(10_000)]
    start = time.perf_counter()
    hdse.encode_many([graph for graph, _ in many])
    print(f"10,000 molecules in {time.perf_counter() - start:.2f} s")
