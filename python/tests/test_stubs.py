"""Editors read the stubs, and not the native module: both say the same."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import millstream
from millstream import _millstream as native


def test_the_stubs_say_what_the_module_says() -> None:
    stubs = ast.parse((Path(millstream.__file__).parent / "_millstream.pyi").read_text())
    found = 0
    for node in stubs.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            owner = getattr(native, node.name)
            assert ast.get_docstring(node) == inspect.getdoc(owner), node.name
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                    said = inspect.getdoc(getattr(owner, member.name))
                    assert said and ast.get_docstring(member) == said, f"{node.name}.{member.name}"
                    found += 1
    assert found > 40
