"""What stands between people and tokens: how a conversation is written for a model.

A model that was taught conversations expects each message in a form of its own, with special tokens
around it. The text of a message is never read for special tokens: whoever writes one into a message
gets its letters, not its meaning.

Knows text. Refuses to know numbers of tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from headway.errors import InvalidRequestError

__all__ = ["ChatForm", "Message", "Piece", "chat_form_of"]


class Piece(NamedTuple):
    """A part of a prompt."""

    text: str
    is_special: bool
    """Whether names of special tokens in it mean those tokens."""


class Message(Struct, frozen=True):
    """Somebody's turn in a conversation."""

    role: str
    content: str


class ChatForm(Struct, frozen=True, kw_only=True):
    """How messages are written, `{role}` being replaced."""

    before: str
    after: str
    opening: str
    """Before the answer."""
    system: str | None = None
    """What a conversation begins with that has no system message of its own."""
    roles: tuple[str, ...] = ("system", "user", "assistant", "tool")

    def pieces(self, messages: Sequence[Message]) -> list[Piece]:
        """A conversation as a prompt that ends where the answer begins.

        Raises:
            InvalidRequestError: no messages, or a role that the model was not taught.
        """
        if not messages:
            raise InvalidRequestError("a conversation needs a message")
        if self.system is not None and messages[0].role != "system":
            messages = [Message("system", self.system), *messages]
        pieces: list[Piece] = []
        for message in messages:
            if message.role not in self.roles:
                raise InvalidRequestError(
                    f"the model knows no role `{message.role[:100]}`",
                    hint=f"it knows {', '.join(self.roles)}",
                )
            pieces.append(Piece(self.before.replace("{role}", message.role), True))
            pieces.append(Piece(message.content, False))
            pieces.append(Piece(self.after, True))
        pieces.append(Piece(self.opening, True))
        return pieces


def chat_form_of(template: str) -> ChatForm | None:
    """The form that a published template comes to, of those known here; None for any other."""
    if "<|im_start|>" not in template:
        return None
    system: str | None = None
    marker = "<|im_start|>system\\n"
    if marker in template and "loop.first" in template:
        system = template.partition(marker)[2].partition("<|im_end|>")[0]
    return ChatForm(
        before="<|im_start|>{role}\n",
        after="<|im_end|>\n",
        opening="<|im_start|>assistant\n",
        system=system,
    )
