"""What a release is made from: one version, a changelog, and how to cite it."""

import re
from pathlib import Path

import pytest

import flatpc

PROJECT = Path(__file__).parent.parent


def test_version_is_written_once() -> None:
    """`docs/releasing.md` says where."""
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", flatpc.__version__)
    pyproject = (PROJECT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in pyproject
    assert '[tool.hatch.version]\npath = "src/flatpc/__init__.py"' in pyproject
    assert not re.search(r"(?m)^(version|date-released):", (PROJECT / "CITATION.cff").read_text())


def test_changelog_begins_with_what_is_unreleased_or_this_version() -> None:
    first = re.findall(r"^## \[(.+?)\]", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert first == ("Unreleased" if flatpc.__version__.endswith(".dev0") else flatpc.__version__)


def test_citation_has_what_the_format_requires() -> None:
    """Keys that version 1.2.0 of the Citation File Format requires of the work and of each reference."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which pre-commit brings")
    told = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert told["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(told)
    assert told["license"] == "MIT"
    for reference in told["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all({"given-names", "family-names"} == set(author) for author in reference["authors"])
