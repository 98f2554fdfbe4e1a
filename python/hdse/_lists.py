"""What there is to choose from, as the native list has it."""

from typing import NamedTuple

from ._hdse import _coarseners


class Parameter(NamedTuple):
    """A parameter of a coarsener."""

    name: str
    default: str
    help: str


class Coarsener(NamedTuple):
    """An algorithm that groups the nodes of a graph."""

    name: str
    summary: str
    citation: str
    complexity: str
    parameters: tuple[Parameter, ...]


def coarseners() -> list[Coarsener]:
    """All coarseners, in the order of the documentation."""
    return [
        Coarsener(name, summary, citation, complexity, tuple(Parameter(*p) for p in parameters))
        for name, summary, citation, complexity, parameters in _coarseners()
    ]
