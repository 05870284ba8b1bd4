"""A progress bar with the time left, on the terminal only."""

from __future__ import annotations

from types import TracebackType

from flatpc.learning.run.history import Row


class Bar:
    """`with Bar(epochs, shown) as bar: bar(row)`; shows nothing unless it is wanted and there is a terminal."""

    def __init__(self, epochs: int, done: int, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
            console=console, disable=not shown or not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=epochs, completed=done)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, row: Row) -> None:
        """Show an epoch."""
        text = f"train {row['train_nll']:.4f}"
        if row["valid_nll"] == row["valid_nll"]:
            text += f"  valid {row['valid_nll']:.4f}  overfitting {row['overfitting']:.1f}%"
        self._progress.update(self._task, completed=row["epoch"], description=text)

    def within(self, epoch: int, rows: int, of: int) -> None:
        """Show how far an epoch is."""
        if not self._progress.disable:
            self._progress.update(self._task, completed=epoch + rows / of, description=f"{rows:,} of {of:,} rows")

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._progress.disable:
            self._progress.console.print(text, highlight=False)
