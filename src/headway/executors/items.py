"""Lists of arrays on a wire that knows arrays only: `x[0]`, `x[1]`, ..., and how many as `x[]`.

The count travels too, so that a list without items is not taken for one that nobody sent. Knows
names. Never numpy: the runtime takes lists apart and puts them together in the parent process.
"""

from typing import Final

__all__ = ["PARAMETERS", "count_name", "is_of_list", "item_name", "name_of"]

PARAMETERS: Final = "parameters"
"""The argument of a function that is no input: it is handed the parameters of the request."""


def item_name(name: str, index: int) -> str:
    """Of one item of a list."""
    return f"{name}[{index}]"


def count_name(name: str) -> str:
    """Of the number of items, one INT64."""
    return f"{name}[]"


def is_of_list(tensor_name: str) -> bool:
    """Whether a tensor is an item of a list, or the number of items."""
    return tensor_name.endswith("]")


def name_of(tensor_name: str) -> str:
    """What a function calls it: the list that a tensor is of, or the tensor itself."""
    return tensor_name.partition("[")[0] if is_of_list(tensor_name) else tensor_name
