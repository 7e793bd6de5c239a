"""Tests the documentation: its code runs, its output and figures are right, its links work, and the site builds."""

import json
import os
import re
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

import arrowwood as aw
from waits import PATIENCE

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "bench/rivals"))
import performance_page  # noqa: E402
from format_questions import format_questions  # noqa: E402

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md"))
README = "../README.md"
CODE_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.M | re.S)

DURATION = r"[\d.]+ [mµn]?s"
NANOSECONDS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass
class CodeBlock:
    language: str
    text: str
    # The number of its first line on the page.
    line: int


def read_blocks(page):
    """Returns the code blocks of a page."""
    text = (DOCS / page).read_text()
    blocks = []
    for match in CODE_BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        blocks.append(CodeBlock(language=match[2], text=match[3], line=line))
    return blocks


def has_code_to_run(page):
    return any(block.language in ("python", "console") for block in read_blocks(page))


def matches_output(actual, expected):
    """Returns whether an output is the expected one; white space may differ, and … matches the rest of a line."""
    pattern = re.escape(" ".join(expected.split())).replace("…", ".*?")
    return re.fullmatch(pattern, " ".join(actual.split())) is not None


def environment_with_command(folder):
    """Returns an environment whose PATH has the command: the installed one, or a script in `folder` that runs it."""
    bin_folder = Path(sys.executable).parent
    if not (bin_folder / "arrowwood").exists():
        bin_folder = folder
        script = folder / "arrowwood"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m arrowwood._cli "$@"\n')
        script.chmod(0o755)
    return {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}


def run_console(text, env):
    """Runs the commands after `$`, and compares their output with the lines below them, if there are any."""
    for block in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = block.partition("\n")
        process = subprocess.run(
            ["bash", "-c", command],
            env=env,
            text=True,
            timeout=PATIENCE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.returncode == 0, (command, process.stdout)
        assert not expected.strip() or matches_output(process.stdout, expected), (command, process.stdout)


@pytest.mark.parametrize("page", [page for page in [README, *PAGES] if has_code_to_run(page)])
def test_code_of_page_runs(page, tmp_path, monkeypatch, capsys):
    """Runs the blocks of a page in order.

    A ```text block after a ```python block is its expected output. Blocks of ```sh are not run.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    env = environment_with_command(tmp_path / "bin")
    monkeypatch.chdir(tmp_path / "work")
    # Code runs in a module, so that definitions of a page can be pickled.
    module = types.ModuleType("page_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    output = None
    for block in read_blocks(page):
        if block.language == "python":
            # Empty lines give tracebacks the line numbers of the page.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, DOCS / page, "exec"), vars(module))
            output = capsys.readouterr().out
        elif block.language == "console":
            run_console(block.text, env)
        elif block.language == "text" and output is not None:
            assert matches_output(output, block.text), f"{page}:{block.line}: {output}"
            output = None


def find_resources(html):
    """Returns the addresses that a browser loads to show a page."""
    elements = r"<(?:img|script|iframe|source|video|object)\b[^>]*?\b(?:src|srcset|data)=[\"']?([^\"' >]+)"
    links = [link for link in re.findall(r"<link\b[^>]*>", html) if "canonical" not in link]
    return re.findall(elements, html) + [re.search(r"href=[\"']?([^\"' >]+)", link)[1] for link in links]


def assert_self_contained_picture(path):
    picture = path.read_text()
    assert not re.search(r"(?:href|src)=[\"']?(?:https?:)?//|@import|url\((?!#)", picture), path
    assert "prefers-color-scheme: dark" in picture, path


def assert_self_contained(site):
    """Asserts that pages can be shown without a network: pictures, styles and scripts are files of the site."""
    pages, picture_count = list(site.glob("**/*.html")), 0
    for page in pages:
        html = page.read_text()
        resources = find_resources(html)
        external = [address for address in resources if re.match(r"(https?:)?//", address)]
        assert external == [], (page, external)
        # The theme loads a script from the network to draw mermaid diagrams.
        assert "mermaid" not in html, page
        for address in resources:
            if address.endswith(".svg") and not address.startswith("data:"):
                assert_self_contained_picture(page.parent / address)
                picture_count += 1
    assert len(pages) >= len(PAGES) and picture_count >= 5


def test_site_builds_without_warnings(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert process.returncode == 0, process.stdout + process.stderr
    reference = (site / "reference/index.html").read_text()
    assert "metadata is read, no value is touched" in reference and "arrowwood.Dataset.refresh" in reference
    # Roles of Sphinx would be shown as they are.
    assert ":class:" not in reference and ":meth:" not in reference
    assert_self_contained(site)
    identifiers = set(re.findall(r'id="arrowwood\.(?:_errors\.)?(\w+)"', reference))
    assert set(aw.__all__) - identifiers == {"__version__"}, "names that docs/reference.md leaves out"


def test_navigation_has_every_page_once():
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in PAGES if navigation.count(f": {page}\n") != 1] == []


# Benchmarks write their results to bench/results. Figures on pages are copies.


def read_results(*names):
    """Returns the text of the last results, without signs for rough and for bold figures."""
    paths = [performance_page.last_results() / f"{name}.md" for name in names]
    paths = paths or sorted(performance_page.last_results().glob("*.md"))
    return re.sub("[~*]", "", "\n".join(path.read_text() for path in paths))


def remove_tables(page):
    """Returns the text of a page without the tables that are made from results."""
    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end of \1 -->", "", page.read_text(), flags=re.S)


def test_tables_and_plots_of_the_performance_page_are_current(tmp_path):
    shutil.copy(DOCS / "performance.md", tmp_path)
    performance_page.write(performance_page.last_results(), tmp_path)
    assert (tmp_path / "performance.md").read_text() == (DOCS / "performance.md").read_text()
    plots = {path.name: path.read_text() for path in (DOCS / "plots").iterdir()}
    assert {path.name: path.read_text() for path in (tmp_path / "plots").iterdir()} == plots
    pages = "".join((DOCS / page).read_text() for page in [README, *PAGES])
    assert [name for name in plots if f"plots/{name})" not in pages] == []


def test_results_of_questions_are_those_of_their_times():
    results = performance_page.last_results()
    report = json.loads((results / "questions.json").read_text())
    assert format_questions(report) in (results / "questions.md").read_text()


def test_performance_page_has_every_loss():
    """Checks that each question that another library answers faster than Arrowwood is in the tables."""
    page, results = performance_page, performance_page.last_results()
    for file, contenders in page.read_opening(results).items():
        names = [name for ways in page.LIBRARIES.values() for name in ways if name in contenders]
        lost = {measure for name in names for measure, cell in contenders[name].items() if cell.startswith("**")}
        assert lost <= set(page.OPENED.get(file, ("", []))[1]), file
    asked = [section.split("\n") for section in (results / "questions.md").read_text().split("\n\n")]
    lost = {line.split(" | ")[0].strip("| ") for lines in asked for line in lines if "**×" in line}
    texts = page.read_tables(results / "text.md").values()
    lost |= {row[0] for (_, _, *rows) in texts for row in rows if row[4].startswith("**")}
    assert len(lost) == 7 and lost <= page.ASKED.keys()


def is_measured(figure, results):
    """Returns whether results have a figure, or its number without a unit, which can be in the head of the table."""
    number = re.search(r"\d[\d.,]*", figure)[0]
    return (
        re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,])|[|(: ]{re.escape(number)}(?: ?[|()]|;)", results)
        is not None
    )


def test_figures_in_the_text_of_the_performance_page_are_measured():
    text = remove_tables(DOCS / "performance.md").partition("## Repeat it")[0]
    figures = re.findall(rf"×\d[\d.,]*\d|\d\.\d+ ×|\b1/[\d.,]*\d|{DURATION}|[\d.]+ %|[\d.]+ [kM]i?B\b", text)
    assert len(figures) > 80
    results = read_results()
    assert [figure for figure in figures if not is_measured(figure, results)] == []


def test_figures_of_the_readme_are_measured():
    readme = (ROOT / "README.md").read_text()
    # The table has one run on one machine.
    measured = read_results("opening")
    rows = re.findall(r"^\| [^|]+((?:\| [^|]*\d [mµn]?s[^|]*)+\|.*)$", readme, re.M)
    figures = [figure for row in rows for figure in re.findall(r"[\d.,]+ [mµn]?s\b", row)]
    assert len(rows) == 7 and len(figures) == 28
    assert [figure for figure in figures if f" {figure} " not in measured] == []
    growing = read_results("growing")
    for figure in ("4.2–7.0 M/s", "1.1–2.2 µs", "0.79–0.94 ×", "0.82–1.08 ×"):
        assert figure in growing and figure in readme, figure


def test_fastest_figures_of_the_readme_are_bold():
    """Checks that each row has the results that are faster than Arrowwood in **bold**."""
    for line in re.findall(r"^\| .*\d [mµn]?s .*\|$", (ROOT / "README.md").read_text(), re.M):
        cells = re.findall(r"(\*\*)?([\d.]+) ([mµn]?s)(?:\*\*)? \|", line)
        assert len(cells) >= 3, line
        is_bold = [bool(stars) for stars, _, _ in cells]
        times = [float(number) * NANOSECONDS[unit] for _, number, unit in cells]
        assert is_bold == [time < times[0] for time in times], line


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_paths_on_page_exist(page):
    """Checks links, and files and folders in `code`, of the pages next to the README."""
    text = (ROOT / page).read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    names = re.findall(r"`((?:src|cli|python|capi|tests|docs|examples|bench|model|fuzz)/[\w./-]+)`", text)
    assert [path for path in [*links, *names] if path and not (ROOT / path).exists()] == []


def test_example_test_of_the_contributing_page_is_run():
    examples = re.findall(r"```rust\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert len(examples) == 1
    assert examples[0] in (ROOT / "crates/arrowwood/tests/data/compute.rs").read_text()


def test_folders_of_dependabot_have_dependencies():
    manifests = {
        "cargo": "Cargo.lock",
        "pip": "pyproject.toml",
        "npm": "package.json",
        "maven": "pom.xml",
        "gomod": "go.mod",
    }
    text = (ROOT / ".github/dependabot.yml").read_text()
    entries = re.findall(r"package-ecosystem: (\w+)\n +directories: \[(.*)\]", text)
    assert {ecosystem for ecosystem, _ in entries} == manifests.keys()
    for ecosystem, folders in entries:
        missing = [folder for folder in folders.split(", ") if not (ROOT / folder[1:] / manifests[ecosystem]).exists()]
        assert missing == [], ecosystem


def test_make_targets_on_pages_and_in_scripts_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):(?!=)", makefile, re.M))
    # Targets that have one recipe.
    for names in re.findall(r"^\$\((\w+)\): [\w-]+%:", makefile, re.M):
        targets |= set(re.search(rf"^{names} := (.*)$", makefile, re.M)[1].split())
    paths = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob(".github/workflows/*.yml"), ROOT / ".ci/run"]
    # The target follows options and variables.
    command = r"(?:`|\$ |^ *|run: |step |\()make ((?:--\S+ |\w+=\S+ )*[\w-]+)"
    uses = {(path.name, use) for path in paths for use in re.findall(command, path.read_text(), re.M)}
    assert len(uses) > 25
    assert [(page, use) for page, use in sorted(uses) if use.split()[-1] not in targets] == []
