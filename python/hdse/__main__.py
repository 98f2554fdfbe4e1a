"""`python -m hdse` and the `hdse` script: the native command."""

import sys

from ._hdse import _main


def main() -> int:
    """Runs the command with the arguments of this process, and gives its exit code."""
    return _main(["hdse", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
