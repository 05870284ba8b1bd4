"""Messages that know which options they name, so that the command line can spell them its own way.

>>> option = Option("missing", "marginalize")
>>> message = Message(f"Row 3 has no age. Pass {option} to integrate it out.", option)
>>> print(message)
Row 3 has no age. Pass missing='marginalize' to integrate it out.
>>> message.spelled(lambda option: f"--{option.name} {option.value}")
'Row 3 has no age. Pass --missing marginalize to integrate it out.'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True)
class Option:
    """An option as a message names it."""

    name: str
    """As Python has it."""
    value: Any = None
    """What was given, or what is advised; None if the message names the option alone."""
    text: str = ""
    """How the message puts it, if not as `name=value`."""

    def __str__(self) -> str:
        return self.text or (self.name if self.value is None else f"{self.name}={self.value!r}")


class Message(str):
    """Text in which some options are named."""

    options: tuple[Option, ...]

    def __new__(cls, text: str, *options: Option) -> Message:
        """The text, and the options that it names."""
        message = super().__new__(cls, text)
        message.options = options
        return message

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """The text with each option as `spell` has it."""
        text = str(self)
        for option in self.options:
            text = text.replace(str(option), spell(option))
        return text


Error = TypeVar("Error", bound=Exception)


def about(where: str, error: Error) -> Error:
    """The same error with what it is about before its message, unless that names it already."""
    message = error.args[0] if error.args else ""
    if where in message:
        return error
    return type(error)(Message(f"{where}: {message}", *getattr(message, "options", ())))


def some_of(names: Sequence[Any], most: int = 8) -> str:
    """The first of them.

    >>> some_of(["a", "b", "c"], 2)
    'a, b, ...'
    """
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


DROP = Option("drop", text="drop the column")
"""The advice to leave a column out of a table."""
VALID = Option("valid", text="valid=...")
"""The advice to give validation rows."""


def as_categorical(column: str) -> Option:
    """The advice to learn a column as categories."""
    return Option("kinds", {column: "categorical"})
