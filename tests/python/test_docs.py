"""The pages of the docs: what they say is run, what they print is compared, and the site is built from them."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import arrowwood as aw
from waits import PATIENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("**/*.md"))
README = "../README.md"
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.M | re.S)


def blocks(page):
    """Language, text and line of each block of code."""
    text = (ROOT / "docs" / page).read_text()
    return [(found[2], found[3], text.count("\n", 0, found.start()) + 2) for found in FENCE.finditer(text)]


def agrees(printed, expected):
    """Returns whether a text was printed; spaces may differ, and … stands for anything on its line."""
    pattern = re.escape(" ".join(expected.split())).replace("…", ".*?")
    return re.fullmatch(pattern, " ".join(printed.split()))


def environment(folder):
    """Returns an environment with the command: the installed one, or else the one built from the sources."""
    installed = Path(sys.executable).parent
    if (installed / "arrowwood").exists():
        return {**os.environ, "PATH": f"{installed}:{os.environ['PATH']}"}
    script = folder / "arrowwood"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m arrowwood._cli "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run_console(text, env):
    """Runs the lines behind `$`; what stands below one has to be what it prints."""
    for command in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, _, expected = command.partition("\n")
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(["bash", "-c", line], env=env, text=True, timeout=PATIENCE, **both)
        assert done.returncode == 0, (line, done.stdout)
        assert not expected.strip() or agrees(done.stdout, expected), (line, done.stdout)


@pytest.mark.parametrize(
    "page", [page for page in [README, *PAGES] if {"python", "console"} & {kind for kind, *_ in blocks(page)}]
)
def test_page(page, tmp_path, monkeypatch, capsys):
    """Blocks of a page run one after the other; ```text behind ```python is what that prints, and ```sh is not run."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    env = environment(tmp_path / "bin")
    monkeypatch.chdir(tmp_path / "work")
    # A module, so that definitions on a page can be pickled.
    module = types.ModuleType("page_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    printed = None
    for kind, text, line in blocks(page):
        if kind == "python":
            # The block's lines have the numbers that they have on the page.
            exec(compile("\n" * (line - 1) + text, ROOT / "docs" / page, "exec"), vars(module))
            printed = capsys.readouterr().out
        elif kind == "console":
            run_console(text, env)
        elif kind == "text" and printed is not None:
            assert agrees(printed, text), f"{page}:{line}: {printed}"
            printed = None


def check_that_nothing_is_fetched(site):
    """Pages show all they have where there is no network: pictures, styles and scripts are files of the site."""
    pages, pictures = list(site.glob("**/*.html")), 0
    for page in pages:
        html = page.read_text()
        loaded = re.findall(
            r"<(?:img|script|iframe|source|video|object)\b[^>]*?\b(?:src|srcset|data)=[\"']?([^\"' >]+)", html
        )
        linked = re.findall(r"<link\b[^>]*>", html)
        loaded += [re.search(r"href=[\"']?([^\"' >]+)", link)[1] for link in linked if "canonical" not in link]
        away = [path for path in loaded if re.match(r"(https?:)?//", path)]
        assert away == [], (page, away)
        # A script of the theme makes pictures of these, and fetches what it needs for that.
        assert "mermaid" not in html, page
        for path in loaded:
            if path.endswith(".svg") and not path.startswith("data:"):
                picture = (page.parent / path).read_text()
                assert not re.search(r"(?:href|src)=[\"']?(?:https?:)?//|@import|url\((?!#)", picture), path
                assert "prefers-color-scheme: dark" in picture, path
                pictures += 1
    assert len(pages) >= len(PAGES) and pictures >= 5


def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site/reference/index.html").read_text()
    assert "metadata is read, no value is touched" in reference and "arrowwood.Dataset.refresh" in reference
    assert ":class:" not in reference and ":meth:" not in reference
    check_that_nothing_is_fetched(tmp_path / "site")
    identifiers = set(re.findall(r'id="arrowwood\.(?:_errors\.)?(\w+)"', reference))
    assert set(aw.__all__) - identifiers == {"__version__"}, "names that docs/reference.md leaves out"


def test_every_page_is_in_the_navigation():
    assert {page for page in PAGES if f": {page}\n" not in (ROOT / "mkdocs.yml").read_text()} == set()


def test_the_comparison_says_what_was_measured():
    """Figures of docs/compare.md are copies, and must equal the pages that the benchmarks write."""
    opening, _, growing = (ROOT / "docs/compare.md").read_text().partition("## Growing tables")
    measured = (ROOT / "docs/rivals.md").read_text()
    figures = re.findall(r"(?<=\| )(?:×[\d.,]+|[\d.]+ [mµn]?s)(?= \|)", opening)
    assert len(figures) > 40 and [figure for figure in figures if f"{figure} " not in measured] == []
    reached = re.findall(r"^\| .* \| ([^|]*\d[^|]*) \|$", growing, re.M)
    benchmarks = (ROOT / "docs/benchmarks.md").read_text().replace("**", "")
    assert len(reached) == 10 and [figure for figure in reached if figure not in benchmarks] == []


def test_the_readme_says_what_was_measured():
    """Figures of the README are copies, too, and its plot shows the figures of docs/rivals.md."""
    readme = (ROOT / "README.md").read_text()
    pages = [(ROOT / "docs" / page).read_text() for page in ("rivals.md", "performance.md")]
    rows = re.findall(r"^\| [^|]+((?:\| [^|]*\d [mµn]?s[^|]*)+\|.*)$", readme, re.M)
    figures = [figure for row in rows for figure in re.findall(r"[\d.,]+ [mµn]?s\b", row)]
    assert len(rows) == 10 and len(figures) > 30
    assert [figure for figure in figures if not any(f" {figure} " in re.sub("[~*]", "", page) for page in pages)] == []
    benchmarks = (ROOT / "docs/benchmarks.md").read_text()
    assert all(
        figure in benchmarks and figure in readme
        for figure in ("4.2–7.0 M/s", "1.1–2.2 µs", "0.79–0.94 ×", "0.82–1.08 ×")
    )


def test_fastest_figures_of_the_readme_are_bold():
    """Checks that each row has the results that are faster than Arrowwood in **bold**."""
    units = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
    for line in re.findall(r"^\| .*\d [mµn]?s .*\|$", (ROOT / "README.md").read_text(), re.M):
        cells = re.findall(r"(\*\*)?([\d.]+) ([mµn]?s)(?:\*\*)? \|", line)
        times = [float(number) * units[unit] for _, number, unit in cells]
        assert len(times) >= 3 and [bool(bold) for bold, *_ in cells] == [time < times[0] for time in times], line


def test_the_plot_of_the_readme_shows_what_was_measured(tmp_path):
    sys.path.insert(0, str(ROOT / "bench/rivals"))
    import opening

    opening.draw(tmp_path / "opening.svg")
    assert (tmp_path / "opening.svg").read_text() == (ROOT / "docs/plots/opening.svg").read_text()


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_paths_that_a_page_names_are_there(page):
    """Checks links, and files and folders in `code`, of the pages next to the README."""
    text = (ROOT / page).read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    names = re.findall(r"`((?:src|cli|python|capi|tests|docs|examples|bench|model|fuzz)/[\w./-]+)`", text)
    assert [path for path in [*links, *names] if path and not (ROOT / path).exists()] == []


def test_the_first_test_is_one():
    """The test that CONTRIBUTING.md shows is one of those that run."""
    shown = re.findall(r"```rust\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert len(shown) == 1 and shown[0] in (ROOT / "tests/data/compute.rs").read_text()


def test_commands_that_are_named_are_there():
    """`make TARGET` in pages, workflows and scripts names a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):(?!=)", makefile, re.M))
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/workflows/*.yml"), ROOT / ".ci/run"]
    commands = r"(?:`|\$ |^ *|run: |step |\()make ((?:--\S+ |\w+=\S+ )*[\w-]+)"
    named = {(path.name, made) for path in texts for made in re.findall(commands, path.read_text(), re.M)}
    assert len(named) > 25 and {(page, made) for page, made in named if made.split()[-1] not in targets} == set()
