"""What steps hand to each other: tensors, and lists of tensors, by where they come from.

Knows names on both sides of a wire, and bytes. Copies none of them: an output is its request's own
buffer, and goes on as it is. A value is forgotten once the last step that takes it has ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headway.core import Datatype, Tensor
from headway.errors import ExecutorError
from headway.executors import TensorSpec, count_name, item_name
from headway.runtime.pipeline_plan import Source, StepPlan

__all__ = ["Listed", "Value", "Values", "checked", "outputs_of"]

_COUNT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of tensors, as a function gives it or a step that runs once an item."""

    items: tuple[Tensor, ...]


Value = Tensor | Listed


class Values:
    """What has been computed of one call and is still needed.

    Invariants: ``held_bytes`` is the size of all that is kept.
    """

    __slots__ = ("_left", "_values", "held_bytes")

    def __init__(self, uses: Mapping[Source, int]) -> None:
        self._left = dict(uses)
        self._values: dict[Source, Value] = {}
        self.held_bytes = 0

    def put(self, source: Source, value: Value) -> None:
        """Keep a value for those that take it."""
        if self._left.get(source):
            self._values[source] = value
            self.held_bytes += _size_bytes(value)

    def __getitem__(self, source: Source) -> Value:
        return self._values[source]

    def used(self, sources: Sequence[Source]) -> None:
        """Somebody has taken these; what nobody else takes is forgotten."""
        for source in sources:
            self._left[source] -= 1
            if not self._left[source]:
                self.held_bytes -= _size_bytes(self._values.pop(source))

    def clear(self) -> None:
        """Nobody takes anything any more."""
        self._values.clear()
        self.held_bytes = 0

    def requests_of(self, step: StepPlan) -> list[list[Tensor]]:
        """The inputs of each request that a step makes: of one, or of one an item.

        Raises:
            ExecutorError: a list stands where an array must, or the other way round, or lists
                differ in length.
        """
        given = {name: self._values[source] for name, source in step.inputs.items()}
        if step.each is None:
            return [[t for name, value in given.items() for t in _passed(step, name, value)]]
        items = self._values[step.each]
        if not isinstance(items, Listed):
            raise ExecutorError(
                f"`each` is `{step.each.step}.{step.each.name}`, which is an array and no list",
                hint="return a `list` of arrays from the function that gives it",
            )
        count = len(items.items)
        for name, value in given.items():
            if isinstance(value, Listed) and len(value.items) != count:
                raise ExecutorError(
                    f"input `{name}` is a list of `{len(value.items)}` items, `each` has `{count}`"
                )
        return [
            [
                _renamed(name, value.items[index] if isinstance(value, Listed) else value)
                for name, value in given.items()
            ]
            for index in range(count)
        ]


def outputs_of(
    step: StepPlan, wanted: Sequence[str], replies: Sequence[Sequence[Tensor]]
) -> dict[str, Value]:
    """What a step gave, by name.

    Raises:
        ExecutorError: it did not give what is wanted of it, or a list of lists.
    """
    found = [_named(outputs, wanted) for outputs in replies]
    if step.each is None:
        return found[0]
    lists: dict[str, Value] = {}
    for name in wanted:
        items = [each[name] for each in found]
        tensors = tuple(item for item in items if isinstance(item, Tensor))
        if len(tensors) < len(items):
            raise ExecutorError(f"output `{name}` is a list for each item, and lists do not nest")
        lists[name] = Listed(tensors)
    return lists


def checked(spec: TensorSpec, value: Value) -> Tensor:
    """An output of the pipeline, which is what clients were told it is.

    Raises:
        ExecutorError: it is not.
    """
    if isinstance(value, Listed):
        raise ExecutorError(
            f"output `{spec.name}` is a list of `{len(value.items)}` items",
            hint="have a function make one array of it",
        )
    fits = len(value.shape) == len(spec.shape) and all(
        want in (-1, have) for want, have in zip(spec.shape, value.shape, strict=True)
    )
    if value.datatype is not spec.datatype or not fits:
        raise ExecutorError(
            f"output `{spec.name}` is {value.datatype}{list(value.shape)}, "
            f"declared is {spec.datatype}{list(spec.shape)}"
        )
    return _renamed(spec.name, value)


def _named(outputs: Sequence[Tensor], wanted: Sequence[str]) -> dict[str, Value]:
    by_name = {tensor.name: tensor for tensor in outputs}
    values: dict[str, Value] = {}
    for name in wanted:
        count = by_name.get(count_name(name))
        if count is not None:
            length = int.from_bytes(count.data, "little")
            values[name] = Listed(tuple(by_name[item_name(name, i)] for i in range(length)))
        elif name in by_name:
            values[name] = by_name[name]
        else:
            given = ", ".join(f"`{each}`" for each in by_name) or "nothing"
            raise ExecutorError(f"it gave no output `{name}`", hint=f"it gave {given}")
    return values


def _passed(step: StepPlan, name: str, value: Value) -> list[Tensor]:
    """An input as it travels: a list item by item, with their number."""
    if isinstance(value, Tensor):
        return [_renamed(name, value)]
    if not step.is_function:
        raise ExecutorError(
            f"input `{name}` is a list of `{len(value.items)}` items, and models take arrays",
            hint="run the step once an item with `each`, or let a function make one array of them",
        )
    count = len(value.items).to_bytes(_COUNT_BYTES, "little")
    return [
        Tensor(count_name(name), Datatype.INT64, (1,), count),
        *(_renamed(item_name(name, index), item) for index, item in enumerate(value.items)),
    ]


def _renamed(name: str, tensor: Tensor) -> Tensor:
    return Tensor(name, tensor.datatype, tensor.shape, tensor.data)


def _size_bytes(value: Value) -> int:
    if isinstance(value, Tensor):
        return value.size_bytes
    return sum([item.size_bytes for item in value.items])
