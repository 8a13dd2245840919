"""What the section `generators` and others say of each other.

Knows the whole configuration, as `checks` does, which asks here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.config.problem import Keys, Problem
from headway.config.words import choice_hint

if TYPE_CHECKING:
    from headway.config.schema import Config

__all__ = ["generator_problems"]


def generator_problems(config: "Config") -> Iterator[Problem]:
    """Everything about generators that cannot be meant."""
    taken = {model.name: f"models.{index}" for index, model in enumerate(config.models)}
    for index, one in enumerate(config.generators):
        where: Keys = ("generators", index)
        if one.name in taken:
            message = f"`{one.name}` is the name of {taken[one.name]} already"
            yield Problem((*where, "name"), one.name, message, "give each its own name")
        taken.setdefault(one.name, f"generators.{index}")
        named: list[tuple[Keys, str]] = [(("tiers", tier), tier) for tier in one.tiers]
        if one.tier is not None:
            named.append((("tier",), one.tier))
        for keys, tier in named:
            if tier not in config.tiers:
                hint = choice_hint(tier, config.tiers)
                yield Problem((*where, *keys), tier, f"there is no tier `{tier}`", hint)
        if one.step_tokens_max < one.sequences_max:
            message = f"`{one.step_tokens_max}` tokens are fewer than sequences_max"
            hint = "a step has a token for each answer in it"
            yield Problem((*where, "step_tokens_max"), one.step_tokens_max, message, hint)
