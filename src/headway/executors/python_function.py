"""Functions of named arrays, as the Python back end runs them.

    def crop(page, ink, parameters): return {"line": [page[a:b] for a, b in boxes_of(ink)]}

An argument is an input, of whatever datatype and shape comes; a `list` among the results is a list
of items, each an array of its own, and so is an argument that a list is wired to. An argument
called `parameters` is handed the parameters of the request. A class is made into an object once,
with the options as keyword arguments, and the object is then called: for what should be read or
computed beforehand.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from headway.errors import ExecutorError, LoadError
from headway.executors.items import PARAMETERS, count_name, is_of_list, item_name, name_of
from headway.executors.model import ParameterValue
from headway.executors.tensors import Array

__all__ = ["FunctionModel", "is_function"]

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_function(found: Any) -> bool:
    """Whether what a path names is called with arrays, rather than made and asked to `infer`."""
    if not inspect.isclass(found):
        return callable(found)
    return not hasattr(found, "infer") and any("__call__" in vars(each) for each in found.__mro__)


class FunctionModel:
    """A function behind the interface of a model's class.

    Args:
        found: the function, or a class whose objects are called.
        name: as the path names it, for errors.
        options: keyword arguments of the function, or of the class.
        arguments: names that it will be called with; empty where nobody knows yet.

    Raises:
        LoadError: it cannot be called so.
    """

    can_batch = False

    def __init__(
        self,
        found: Any,
        name: str,
        options: Mapping[str, ParameterValue],
        arguments: tuple[str, ...],
    ) -> None:
        if not inspect.isclass(found):
            _check_options(name, options, arguments)
        function = _callable_of(found, name, options)
        named = inspect.signature(function).parameters
        self._takes_parameters = PARAMETERS in named
        self._function = function
        self.free_inputs = arguments or tuple(
            each
            for each, parameter in named.items()
            if parameter.kind in _NAMED and each not in options and each != PARAMETERS
        )
        self.batch_parameters = None if self._takes_parameters else ()
        _check_arguments(function, name, arguments, takes_parameters=self._takes_parameters)

    def infer(
        self, batch: dict[str, Array], parameters: dict[str, ParameterValue]
    ) -> dict[str, Array]:
        """Call it with arrays and lists, and lay out what it returns."""
        arguments: dict[str, object] = gathered(batch)
        if self._takes_parameters:
            arguments[PARAMETERS] = parameters
        given = self._function(**arguments)
        if not isinstance(given, Mapping):
            raise ExecutorError(
                f"the function returned a `{type(given).__name__}`,"
                " not a mapping of names to arrays"
            )
        return spread(given)


def gathered(arrays: Mapping[str, Array]) -> dict[str, object]:
    """Items of lists put together again, in their order.

    Raises:
        ExecutorError: a list lacks an item.
    """
    arguments: dict[str, object] = {}
    for name, array in arrays.items():
        if not is_of_list(name):
            arguments[name] = array
        elif name.endswith("[]"):
            listed = name_of(name)
            try:
                arguments[listed] = [arrays[item_name(listed, i)] for i in range(int(array[0]))]
            except KeyError as error:
                raise ExecutorError(f"the list `{listed}` lacks its item {error}") from error
    return arguments


def spread(given: Mapping[Any, Any]) -> dict[str, Array]:
    """Lists taken apart, each with its number of items."""
    arrays: dict[str, Array] = {}
    for key, value in given.items():
        name = str(key)
        if is_of_list(name):
            raise ExecutorError(f"`{name}` cannot be an output's name: `]` ends the names of items")
        if not isinstance(value, list):
            arrays[name] = np.asarray(value)
            continue
        arrays[count_name(name)] = np.asarray([len(value)], np.int64)
        for index, item in enumerate(value):
            arrays[item_name(name, index)] = np.asarray(item)
    return arrays


def _callable_of(
    found: Any, name: str, options: Mapping[str, ParameterValue]
) -> Callable[..., Any]:
    if inspect.isclass(found):
        made: Any = found(**options)
        return _plain(made, type(made).__call__, name)
    return _plain(partial(found, **options), found, name)


def _plain(function: Callable[..., Any], called: Any, name: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(called):
        raise LoadError(f"`{name}` is async; slots run plain functions, several at once")
    return function


def _check_options(
    name: str, options: Mapping[str, ParameterValue], inputs: tuple[str, ...]
) -> None:
    """An input would take the place of an option without a word."""
    for input_name in inputs:
        if input_name in options:
            raise LoadError(
                f"`{input_name}` is an option of `{name}` and an input as well",
                hint="leave one of them out, or name them differently",
            )


def _check_arguments(
    function: Callable[..., Any], name: str, arguments: tuple[str, ...], *, takes_parameters: bool
) -> None:
    """See before the first request that it can be called as it will be."""
    if not arguments:
        return
    given = dict.fromkeys(arguments)
    if takes_parameters:
        given[PARAMETERS] = None
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        raise LoadError(
            f"`{name}` cannot be called with the inputs {', '.join(f'`{a}`' for a in arguments)}: "
            f"{error}",
            hint="name the inputs of the step as the function names its arguments",
        ) from error
