"""The Python of the READMEs and of the guide's page for PyTorch runs as it stands there."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "python/README.md", "docs/guide/pytorch.md"]
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    page: str
    line: int
    words: tuple[str, ...]
    code: str

    def compiled(self) -> ast.Module:
        """Its syntax, with the line numbers of the page."""
        return ast.parse("\n" * (self.line - 1) + self.code, f"{self.page}:{self.line}")

    def missing(self) -> list[str]:
        """The packages that it imports and that are not installed."""
        names: set[str] = set()
        for node in ast.walk(self.compiled()):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
        if "millstream.torch" in names:
            names.add("torch")
        return sorted(name for name in {name.split(".")[0] for name in names} if importlib.util.find_spec(name) is None)


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(page, line, tuple(match[1].split()), match[2]))
    return found


def python(block: Block) -> bool:
    return block.words[:1] == ("python",)


BLOCKS = [block for page in PAGES for block in blocks(page) if python(block)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_it_runs(block: Block, tmp_path: Path) -> None:
    assert block.words in (("python",), ("python", "no-run")), f"{block.page}:{block.line}: {block.words}"
    block.compiled()
    if block.words == ("python", "no-run"):
        return
    missing = block.missing()
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    # Each runs alone, beside the corpus that its page makes and the configs that it names.
    for other in blocks(block.page):
        if other.words == ("sh",):
            subprocess.run(["bash", "-euc", other.code], cwd=tmp_path, check=True, timeout=300)
        if other.words[:1] == ("toml",) and other.words[1:] and other.words[1].startswith("file="):
            (tmp_path / other.words[1].removeprefix("file=")).write_text(other.code)
    program = tmp_path / "block.py"
    # Line numbers in a traceback are those of the page.
    program.write_text("\n" * (block.line - 1) + block.code)
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{block.page}:{block.line}\n{done.stdout}{done.stderr}"


def test_the_pages_have_blocks() -> None:
    for page in PAGES:
        assert any(python(block) for block in blocks(page)), page
