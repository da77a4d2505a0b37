"""Renders stored results as docs/benchmarks.md, with a chart for each group of figures."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import results
from bench.environments import PEERS
from bench.listing import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IMAGES", "PAGE", "page", "render"]

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "benchmarks.md"
IMAGES: Final = DOCS / "images" / "benchmarks"
OURS: Final = ("Duebook", "PostgreSQL", "SQLite")
"""Prefixes of the names of our own figures, whose bars are dark."""

INTRODUCTION: Final = """\
# Benchmarks

`make bench` measures Duebook beside its peers on one machine, in one run, on one PostgreSQL with
durable settings. It installs each peer into an environment of its own, runs every benchmark, and
writes `bench/results` and this page. `make bench QUICK=1` tries everything in a few minutes with
tiny sizes; its figures mean little and are not kept. `make bench ONLY="speeds due"` runs some.

Each figure is the median of its rounds; the spread is the lowest and the highest. Rounds of
different programs alternate, because the speed of a machine changes within a run. Compare figures
of one run only: ratios travel between machines, absolute numbers do not.
[How fast, and what limits it](explanation/speed.md) explains what the figures mean and why some
goals are missed."""
NOTHING: Final = "\nNo results are recorded in this version. Run `make bench`."


def render(folder: Path) -> int:
    """Write the page and its charts."""
    text, charts = page(folder)
    PAGE.write_text(text, "utf-8")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for old in IMAGES.glob("*.svg"):
        if old.name not in charts:
            old.unlink()
    for name, drawn in charts.items():
        (IMAGES / name).write_text(drawn, "utf-8")
    print(f"wrote docs/{PAGE.name} and {len(charts)} charts")
    return 0


def page(folder: Path) -> tuple[str, dict[str, str]]:
    """The text of the page, and the charts by file name."""
    stored = {result["benchmark"]: result for result in results.read_all(folder)}
    charts: dict[str, str] = {}
    lines = [INTRODUCTION]
    if not stored:
        lines.append(NOTHING)
    for benchmark in BENCHMARKS:
        if result := stored.get(benchmark.words):
            lines += ["", f"## {benchmark.title}", "", *section(result, charts)]
    return "\n".join(lines) + "\n", charts


def section(result: dict[str, Any], charts: dict[str, str]) -> Iterator[str]:
    yield origin(result)
    yield ""
    titles = dict.fromkeys(figure["chart"] for figure in result["figures"] if "chart" in figure)
    for title in titles:
        drawn = [figure for figure in result["figures"] if figure.get("chart") == title]
        name = f"{results.slug(result['benchmark'])}-{results.slug(title)}.svg"
        charts[name] = chart(title, drawn)
        yield f"![{title}](images/benchmarks/{name})"
        yield ""
    yield "| | median | spread | goal |"
    yield "|---|---|---|---|"
    for figure in result["figures"]:
        yield row(figure)
    for left in result["left_out"]:
        yield ""
        yield f"{left['left_out']} is left out: {left['why']}."


def origin(result: dict[str, Any]) -> str:
    """The machine and versions that it was measured on."""
    machine, versions = result["machine"], result["versions"]
    memory = f", {machine['memory_gb']} GB of memory" if "memory_gb" in machine else ""
    cores = f"{machine['cores']} cores"
    named = " ".join(figure["name"] for figure in result["figures"])
    peers = ", ".join(
        f"{PEERS[name].package.rstrip('34')} {versions[name]}"
        for name in PEERS
        if name in versions and name in named and "," not in name
    )
    beside = f" Beside {peers}." if peers else ""
    quick = (
        " **Tried with tiny sizes; the figures mean little.**" if result["size"] != "full" else ""
    )
    return (
        f"Measured on {result['date']} at commit `{result['commit']}` with PostgreSQL"
        f" {versions['postgresql']} and Python {versions['python']} on {cores}{memory}."
        f"{beside}{quick}"
    )


def row(figure: dict[str, Any]) -> str:
    unit = figure["unit"]
    value = number(figure["value"]) + (f" {unit}" if unit else "")
    spread = f"{number(figure['low'])} to {number(figure['high'])}" if figure["rounds"] > 1 else ""
    goal = ""
    if "goal" in figure:
        goal = f"{figure['goal']} {'holds' if figure['holds'] else '**missed**'}"
    return f"| {figure['name']} | {value} | {spread} | {goal} |"


def number(figure: float) -> str:
    if abs(figure) >= 1_000:
        return f"{figure:,.0f}"
    return f"{figure:.4g}"


WIDTH: Final = 760
LABEL: Final = 300
BAR: Final = 22
STYLE: Final = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.bar { fill: #9db4c8 } .ours { fill: #1f6feb } .spread { stroke: #57606a; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3 } .bar { fill: #4a5b6b } .ours { fill: #4493f8 } .spread { stroke: #9198a1 }
}"""


def chart(title: str, figures: list[dict[str, Any]]) -> str:
    """Bars with their spread, as SVG."""
    most = max(figure["high"] for figure in figures) or 1
    height = 34 + len(figures) * (BAR + 8)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="16">{escape(title)}</text>',
    ]
    for place, figure in enumerate(figures):
        lines += bar(figure, 30 + place * (BAR + 8), (WIDTH - LABEL - 90) / most)
    return "\n".join([*lines, "</svg>", ""])


def bar(figure: dict[str, Any], top: int, scale: float) -> Iterator[str]:
    low, value, high = (figure[key] * scale for key in ("low", "value", "high"))
    kind = "ours" if figure["name"].startswith(OURS) else "bar"
    middle, end = top + BAR / 2, LABEL + max(value, high) + 6
    text = number(figure["value"]) + (f" {figure['unit']}" if figure["unit"] else "")
    line = f'x1="{LABEL + low:.1f}" x2="{LABEL + high:.1f}" y1="{middle:g}" y2="{middle:g}"'
    name = escape(figure["name"].partition(": ")[0])
    yield f'<text x="{LABEL - 8}" y="{middle + 4.5:g}" text-anchor="end">{name}</text>'
    yield f'<rect class="{kind}" x="{LABEL}" y="{top}" width="{value:.1f}" height="{BAR}"/>'
    yield f'<line class="spread" {line}/>'
    yield f'<text x="{end:.1f}" y="{middle + 4.5:g}">{text}</text>'
