"""The application: how a command ends, well or badly.

| exit code | when |
|---|---|
| 0 | all is well |
| 1 | a mistake that the user can correct: one or two lines say what and how |
| 2 | wrong usage: an unknown option, a missing argument, a value that an option doesn't take |
| 70 | a bug in flatpc: a traceback, and where to report it |
| 130 | Ctrl-C |
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from flatpc._messages import Message, Option
from flatpc._printable import printable
from flatpc.errors import FlatpcError

OK, MISTAKE, USAGE, BUG, INTERRUPTED = 0, 1, 2, 70, 130

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}
"""What may be wrong with a standard output: no room, or nobody who reads it."""


class Commands(TyperGroup):
    """All commands; a mistake in one of them becomes a message and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run what the command line says, and exit."""
        options["standalone_mode"] = False
        try:
            code = super().main(*arguments, **options)
            sys.stdout.flush()
        except OSError as problem:
            if problem.filename is None and problem.errno not in UNWRITABLE:
                _report_a_bug()
            if problem.filename is None:
                _give_up_output()
            if problem.errno != errno.EPIPE:
                say(f"Error: {problem.filename or 'standard output'}: {problem.strerror}.")
            sys.exit(MISTAKE)
        except Exception as problem:
            _say_usage(problem)
            _report_a_bug()
        sys.exit(code if isinstance(code, int) else OK)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; neither Ctrl-C nor a mistake of the user ends it with a traceback."""
        try:
            return super().invoke(ctx)
        except FlatpcError as mistake:
            asked = self.commands.get(ctx.invoked_subcommand)
            offered = {name for parameter in asked.params for name in parameter.opts} if asked else set()
            say(f"Error: {spelled(mistake.args[0] if mistake.args else '', offered)}")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            say("Stopped. Files are written in one step, so none is half-written.")
            raise typer.Exit(INTERRUPTED) from None


OPTIONS = {"kinds": "--kind", "n_latents": "--latents", "n_steps": "--steps", "random_state": "--seed"}
"""Options that Python has another name for; `time_budget` is `--time-budget`, and so on."""


def spelled(message: str, offered: Collection[str]) -> str:
    """A message of the library, in which the options that a command offers are spelled as on the command line.

    >>> option = Option("kinds", {"zip": "categorical"})
    >>> spelled(Message(f"Say {option} if it is a variable.", option), {"--kind"})
    'Say --kind zip=categorical if it is a variable.'
    """

    def spell(option: Option) -> str:
        name = OPTIONS.get(option.name, f"--{option.name.replace('_', '-')}")
        if name not in offered:
            return str(option)
        if option.name == "drop":
            return f"leave it out with {name}"
        if isinstance(option.value, dict):
            return " ".join(f"{name} {key}={value}" for key, value in option.value.items())
        if option.value is None:
            return name
        value = option.value.replace("_", "-") if option.name == "structure" else option.value
        return f"{name} {value}"

    return message.spelled(spell) if isinstance(message, Message) else message


def say(text: str) -> None:
    """A line for the user, on standard error."""
    typer.echo(printable(text), err=True)


def _give_up_output() -> None:
    """What is left unwritten would be tried again at the end, and fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_usage(problem: Exception) -> None:
    """Two lines, if the problem is one of usage; typer tells those by a method that others lack."""
    if hasattr(problem, "format_message"):
        context = getattr(problem, "ctx", None)
        # Some versions of typer put the sort of error before the message.
        say(f"Error: {problem.format_message().replace('Value error, ', '')}")
        say(f"See {context.command_path if context else 'flatpc'} --help.")
        sys.exit(getattr(problem, "exit_code", USAGE))


def _report_a_bug() -> None:
    traceback.print_exc()
    say("This is a bug in flatpc, not a mistake of yours. Please report it with the lines above and the command you typed.")
    sys.exit(BUG)


def examples(*lines: str) -> str:
    """What stands below a command's help."""
    return "\n\n".join(["Examples:", *lines])


def paragraphs(command: Callable[..., None]) -> str:
    """A command's docstring with one line for each paragraph: the terminal says where lines end."""
    text = inspect.cleandoc(command.__doc__ or "")
    return "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))
