#!/usr/bin/env python3
"""Prints the licences of all libraries that a package is linked with, for those who get it compiled.

    scripts/third_party.py millstream-cli x86_64-unknown-linux-gnu

The texts are those in the libraries' own sources, which cargo has unpacked. Equal ones are printed once. Some libraries
bring none: they are listed with their authors, and must be offered under MIT or Apache-2.0, whose texts stand here anyway.
It needs nothing but Python and cargo.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# How far below a library's directory the texts of the C sources in it are.
DEPTH = 2
TEXT = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
CODE = {".c", ".h", ".hbs", ".html", ".json", ".py", ".rs", ".sh", ".toml", ".yml"}
# What is under the GPL is not compiled (the programs of xz), or offered under another licence too (zstd).
UNUSED = "GNU "
# Libraries without a text, and others of the same repository that have it.
SIBLINGS = {"alloc-stdlib": "alloc-no-stdlib"}


def cargo(*arguments: str) -> str:
    done = subprocess.run(["cargo", *arguments, "--locked"], check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout


def linked(package: str, target: str) -> list[dict]:
    """The libraries that become part of the package, as `cargo metadata` describes them."""
    tree = ["tree", "--package", package, "--target", target, "--edges", "normal,no-proc-macro", "--prefix", "none"]
    names = {tuple(line.split()[:2]) for line in cargo(*tree).splitlines() if line}
    described = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))["packages"]
    libraries = [one for one in described if one["source"] and (one["name"], f"v{one['version']}") in names]
    return sorted(libraries, key=lambda one: (one["name"], one["version"]))


def texts(library: dict) -> list[str]:
    """The licences in a library's sources."""
    root = Path(library["manifest_path"]).parent
    files = (path for depth in range(DEPTH) for path in sorted(root.glob("*/" * depth + "*")))
    found = [path for path in files if TEXT.match(path.name) and path.suffix not in CODE and path.is_file()]
    found = [path.read_text(encoding="utf-8", errors="replace").strip() for path in found]
    return [text for text in found if text and not text.startswith(UNUSED)]


def named(library: dict) -> str:
    return f"{library['name']} {library['version']} ({library['license'] or 'its own licence'})"


def main() -> None:
    package, target = sys.argv[1:]
    sys.stdout.reconfigure(encoding="utf-8")
    libraries = linked(package, target)
    by_name = {library["name"]: library for library in libraries}
    originals, holders, without = {}, defaultdict(list), []
    for library in libraries:
        sibling = by_name.get(SIBLINGS.get(library["name"]))
        found = texts(library) or (texts(sibling) if sibling else [])
        for text in found:
            words = " ".join(text.split())
            originals.setdefault(words, text)
            if named(library) not in holders[words]:
                holders[words].append(named(library))
        if not found:
            if not re.search(r"\b(MIT|Apache-2\.0)\b", library["license"] or ""):
                sys.exit(f"third_party.py: {named(library)} brings no text of its licence; name a sibling that does")
            without.append(f"{named(library)}, by {', '.join(library['authors']) or library['repository']}")
    print(f"The libraries that {package} is linked with, and their licences.")
    for words, names in holders.items():
        print("\n" + "=" * 80, *names, "-" * 80, originals[words], sep="\n")
    print("\n" + "=" * 80)
    print("These bring no text. They are offered under MIT or Apache-2.0, whose texts stand above.")
    print(*without, sep="\n")


if __name__ == "__main__":
    main()
