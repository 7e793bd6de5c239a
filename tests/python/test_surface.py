"""Tests the table *One word in every language* of ARCHITECTURE.md against the APIs that it describes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = "## One word in every language"

# The files that declare the public names of each language.
SOURCES = {
    "Rust": ("crates/arrowwood/src/**/*.rs", "crates/datafusion/src/**/*.rs", "crates/query/src/**/*.rs"),
    "Python": ("bindings/python/arrowwood/_arrowwood.pyi", "bindings/python/arrowwood/_errors.py"),
    "C": ("bindings/c/include/arrowwood.h",),
    "Java": ("bindings/jvm/java/src/main/java/**/*.java",),
    "Clojure": ("bindings/jvm/clojure/src/main/clojure/arrowwood/core.clj",),
    "HTTP": ("crates/serve/src/**/*.rs",),
    "command": ("crates/cli/src/lib.rs",),
}

# Patterns of declarations. `{}` stands for the declared name.
DECLARATIONS = {
    "Rust": r"\bpub (?:fn|struct|enum|trait) {}\b|\bpub use .*\b{}\b",
    "Python": r"(?m)^\s*(?:def|class) {}\b|^{} = ",
    "C": r"\barrowwood_{}\b",
    "Java": r"\bpublic [\w<>\[\], .]*\b{}\(|\b(?:class|interface|record|enum) {}\b|^    (?:[\w<>]+ )+{}\(",
    "Clojure": r"\(defn {}(?=[\s\n])",
    "HTTP": r"\"{}\"|\b{}\b",
    "command": r"\b{}\b",
}

# Folders and file types that must not contain words that were given up.
SEARCHED_FOLDERS = ["crates/arrowwood/src", "crates/serve/src", "crates/cli/src", "bindings", "web/src", "docs"]
SEARCHED_SUFFIXES = {".rs", ".py", ".pyi", ".h", ".java", ".clj", ".ts", ".md"}
SKIPPED_FOLDERS = {"node_modules", "target"}


def read_section() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return text.split(SECTION)[1].split("\n## ")[0]


def split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def table_entries() -> Iterator:
    """Yields a parameter set with the language and the name for each name in the table."""
    header, _, *lines = [line for line in read_section().splitlines() if line.startswith("|")]
    languages = [re.sub(r" \(.*", "", cell).strip() for cell in split_cells(header)[1:]]
    for line in lines:
        concept, *cells = split_cells(line)
        assert len(cells) == len(languages), line
        for language, cell in zip(languages, cells, strict=True):
            for name in re.findall(r"`([^`]+)`", cell):
                yield pytest.param(language, name, id=f"{language}: {concept}: {name}")


def read_sources(language: str) -> str:
    files = [file for pattern in SOURCES[language] for file in sorted(ROOT.glob(pattern))]
    assert files, SOURCES[language]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("language, name", list(table_entries()))
def test_each_name_is_declared(language, name):
    if language == "HTTP":
        # The name is a parameter, or a route such as `/v1/tables/T`, where `T` stands for the name of a table.
        name = name.removeprefix("/").removesuffix("/T").split("/")[-1]
    if language == "command":
        # Subcommands are variants of an enum.
        name = name.capitalize()
    declaration = DECLARATIONS[language].replace("{}", re.escape(name))
    assert re.search(declaration, read_sources(language)), f"{language} declares no {name}"


def is_searched(file: Path) -> bool:
    # Hints name words of other libraries, for people who look for them.
    if file.name == "_hints.py":
        return False
    return file.suffix in SEARCHED_SUFFIXES and not SKIPPED_FOLDERS & set(file.parts)


def test_abandoned_words_are_not_used():
    abandoned = set(re.findall(r"`(\w+)`", read_section().split("Given up:")[1]))
    assert len(abandoned) >= 5
    for folder in SEARCHED_FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if is_searched(file):
                used = abandoned & set(re.findall(r"\w+", file.read_text()))
                assert not used, f"{file.relative_to(ROOT)} has {used}"
