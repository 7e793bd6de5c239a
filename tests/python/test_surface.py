"""The table *One word in every language* of ARCHITECTURE.md: each name is there, and no word that was given up."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = "## One word in every language"


def section():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return text.split(SECTION)[1].split("\n## ")[0]


def rows():
    """The names in each cell, by the concept and the language."""
    lines = [line for line in section().splitlines() if line.startswith("|")]
    languages = [re.sub(r" \(.*", "", cell).strip() for cell in lines[0].strip("|").split("|")[1:]]
    for line in lines[2:]:
        concept, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(languages), line
        for language, cell in zip(languages, cells, strict=True):
            for name in re.findall(r"`([^`]+)`", cell):
                yield pytest.param(language, name, id=f"{language}: {concept}: {name}")


def sources(*globs):
    files = [file for pattern in globs for file in sorted(ROOT.glob(pattern))]
    assert files, globs
    return "\n".join(file.read_text() for file in files)


SOURCES = {
    "Rust": ("src/**/*.rs", "crates/datafusion/src/**/*.rs"),
    "Python": ("python/arrowwood/_arrowwood.pyi", "python/arrowwood/_errors.py"),
    "C": ("capi/include/arrowwood.h",),
    "Java": ("jvm/java/src/main/java/**/*.java",),
    "Clojure": ("jvm/clojure/src/main/clojure/arrowwood/core.clj",),
    "HTTP": ("serve/src/*.rs",),
    "command": ("cli/src/lib.rs",),
}

# Patterns of declarations in each language.
DECLARES = {
    "Rust": r"\bpub (?:fn|struct|enum|trait) {}\b|\bpub use .*\b{}\b",
    "Python": r"(?m)^\s*(?:def|class) {}\b|^{} = ",
    "C": r"\barrowwood_{}\b",
    "Java": r"\bpublic [\w<>\[\], .]*\b{}\(|\b(?:class|interface|record|enum) {}\b|^    (?:[\w<>]+ )+{}\(",
    "Clojure": r"\(defn {}(?=[\s\n])",
    "HTTP": r"\"{}\"|\b{}\b",
    "command": r"\b{}\b",
}


@pytest.mark.parametrize("language, name", list(rows()))
def test_each_name_is_declared(language, name):
    if language == "HTTP":
        # A route or the name of a parameter; `T` stands for the name of a table.
        name = name.removeprefix("/").removesuffix("/T").split("/")[-1]
    if language == "command":
        name = name.capitalize()
    declares = DECLARES[language].replace("{}", re.escape(name))
    assert re.search(declares, sources(*SOURCES[language])), f"{language} declares no {name}"


def test_words_that_were_given_up_are_nowhere():
    words = re.findall(r"`(\w+)`", section().split("Given up:")[1])
    assert len(words) >= 5
    folders = ["src", "serve/src", "cli/src", "capi", "python", "jvm", "view/src", "docs"]
    endings = {".rs", ".py", ".pyi", ".h", ".java", ".clj", ".ts", ".md"}
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in endings or {"node_modules", "target"} & set(file.parts) or file.name == "_hints.py":
                continue
            found = set(words) & set(re.findall(r"\w+", file.read_text()))
            assert not found, f"{file.relative_to(ROOT)} has {found}"
