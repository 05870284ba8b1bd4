"""Continuous integration goes on where Chromium can't be installed, and says why."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "install-chromium"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="bash")


def install(folder: Path, **commands: str) -> str:
    """What the script says where only these commands, and a few of the system's, are to be found."""
    for name in ("bash", "env", "timeout"):
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"there is no {name}")
        (folder / name).symlink_to(path)
    for name, line in commands.items():
        file = folder / name.replace("_", "-")
        file.write_text(f"#!{shutil.which('sh')}\n{line}\n")
        file.chmod(0o755)
    command = [str(folder / "bash"), str(SCRIPT)]
    done = subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_browser_that_is_there_is_used(tmp_path: Path) -> None:
    assert "Browser tests use" in install(tmp_path, google_chrome="exit 0")


def test_root_is_needed(tmp_path: Path) -> None:
    assert "installing it needs root, so browser tests will skip" in install(tmp_path, id="echo 1000", apt_get="exit 0")


def test_a_package_manager_is_needed(tmp_path: Path) -> None:
    assert "no apt-get, dnf or apk" in install(tmp_path, id="echo 0")


def test_an_installation_that_fails_is_no_error(tmp_path: Path) -> None:
    said = install(tmp_path, id="echo 0", apt_get='echo "asked to $*"; exit 100')
    assert "asked to -qq install -y --no-install-recommends chromium" in said
    assert "couldn't be installed" in said


def test_passwordless_sudo_is_enough(tmp_path: Path) -> None:
    said = install(tmp_path, id="echo 1000", sudo='shift; [ "$1" = true ] || exec "$@"', dnf='echo "asked to $*"')
    assert "asked to -q -y install chromium" in said
