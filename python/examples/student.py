"""You read the paper: what the distances are on one graph, then a row of its tables beside ours.

    python student.py        # five seeds, a minute or two
    python student.py 1      # one seed
"""

import subprocess
import sys

import hdse

PICTURE = """
    0---1           5---6
     \\ /             \\ /
      2----3-----4----7
"""

if __name__ == "__main__":
    edges = [[0, 0, 1, 2, 3, 4, 5, 5, 6], [1, 2, 2, 3, 4, 7, 6, 7, 7]]
    print(PICTURE)
    encoding = hdse.encode(edges, num_nodes=8, coarsener="newman", levels=2)
    for level, count in enumerate(encoding.hierarchy.num_clusters):
        print(f"level {level}: {count} clusters; 0 and 6 are {encoding.distances[0, 6, level]} apart")
    print("clusters of the nodes at level 1:", encoding.clusters[:, 0].tolist())
    print("distances between these clusters:", encoding.table(1).tolist())

    print("\naccuracy of a graph transformer that looks for communities, the paper's and ours:\n", flush=True)
    seeds = sys.argv[1] if len(sys.argv) > 1 else "5"
    command = [sys.executable, "-m", "hdse", "reproduce", "community-small", "--seeds", seeds]
    sys.exit(subprocess.run(command).returncode)
