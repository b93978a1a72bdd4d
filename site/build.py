"""Build the site into build/site: `make site`. No lesson is run; all that a page needs lies beside it."""

import json
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import nbformat
from sphinx.cmd.build import main as sphinx

from live.export import PAIR, TEXTS, export
from pages import field_guide, lessons, links, lookup, meaning, start
from pages.texts import filled
from transformer_course.lessons import LESSONS, ROOT

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
SOURCE, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
# What runs the model in a browser.
RUNTIME = (
    "onnxruntime-web/dist/ort.wasm.min.mjs",
    "onnxruntime-web/dist/ort-wasm-simd-threaded.mjs",
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
    "@huggingface/tokenizers/dist/tokenizers.min.mjs",
)


def main() -> int:
    """Write the pages, lay beside them what they need, and let Sphinx make HTML of them."""
    for folder in (SOURCE, SITE, ROOT / "build" / "doctrees"):
        shutil.rmtree(folder, ignore_errors=True)
    write_assets(SOURCE / "_static")
    write_pages(SOURCE)
    shutil.copytree(ROOT / "notebooks", SITE / "notebooks", ignore=shutil.ignore_patterns(".*"))
    kept = ["-d", str(ROOT / "build" / "doctrees")]  # what Sphinx remembers is no part of the site
    return sphinx(["-c", str(HERE), "-b", "html", "-W", "--keep-going", "-q", *kept, str(SOURCE), str(SITE)])


def write_assets(folder: Path) -> None:
    """Copy what the pages load: styles, scripts, the typesetter of formulas, a picture; and all licences."""
    shutil.copytree(HERE / "style", folder)
    shutil.copy(start.PICTURE, folder)
    fonts = Path("output", "chtml", "fonts")
    shutil.copytree(MODULES / "mathjax" / "es5" / fonts, folder / "mathjax" / fonts)
    shutil.copy(MODULES / "mathjax" / "es5" / "tex-chtml.js", folder / "mathjax")
    shutil.copy(MODULES / "minisearch" / "dist" / "es" / "index.js", folder / "minisearch.js")
    (folder / "licences").mkdir()
    for name, text in licences().items():
        shutil.copy(text, folder / "licences" / f"{name}.txt")


def licences() -> dict[str, Path]:
    """Return the texts under which others let us hand on their work, and our own."""
    found = {"transformer-lab": ROOT / "LICENSE", "apache-2.0": MODULES / "mathjax" / "LICENSE"}
    for package in ("sphinx-book-theme", "pydata-sphinx-theme"):
        found[package] = _file(package, "licenses/LICENSE")
    found["minisearch"] = MODULES / "minisearch" / "LICENSE.txt"
    found["onnxruntime"] = _file("onnxruntime", "onnxruntime/LICENSE")
    found["onnxruntime-third-parties"] = _file("onnxruntime", "ThirdPartyNotices.txt")
    return found


def _file(package: str, ending: str) -> Path:
    installed = distribution(package)
    return Path(next(file.locate() for file in installed.files if str(file).endswith(ending)))


def write_pages(folder: Path) -> None:
    """Write the source of every page; the lessons' pictures go into `_static/figures`."""
    pictures = folder / "_static" / "figures"
    pictures.mkdir(parents=True)
    (folder / "lessons").mkdir()
    for number in range(len(LESSONS)):
        nbformat.write(lessons.page(number, pictures), folder / f"{links.lesson(number)}.ipynb")
    pages = {
        "index.md": start.index(),
        "start.md": start.how_to_run(course(SITE)),
        "live.md": live_page(folder / "_static" / "live"),
        "diagnostics.md": filled("diagnostics.md"),
        "glossary.md": lookup.glossary(),
        "notation.md": lookup.notation(),
        "licences.md": filled("licences.md"),
    }
    for name, text in (pages | field_guide.pages() | lookup.reference()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    searched = folder / "_static" / field_guide.SEARCHED
    searched.with_suffix(".i8").write_bytes(
        meaning.vectors(json.loads(searched.read_text("utf-8"))["entries"])
    )


def course(folder: Path) -> Path:
    """Write all that is committed as one file, to be taken along, and return it."""
    if not (ROOT / ".git").exists():
        raise SystemExit("The site carries the course along as it is committed: build it in a clone.")
    file = folder / "transformer-lab.zip"
    folder.mkdir(exist_ok=True)
    command = ["git", "archive", "--prefix", "transformer-lab/", "--output", str(file), "HEAD"]
    subprocess.run(command, cwd=ROOT, check=True)
    return file


def live_page(folder: Path) -> str:
    """Export the encoder, lay beside it what runs it, and return the page around it."""
    measured = export(folder)
    for file in [*(HERE / "live").glob("*.[jc]s*"), *(MODULES / name for name in RUNTIME)]:
        shutil.copy(file, folder)
    whole = f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.0f}"
    return filled(
        "live.md",
        live=(HERE / "live" / "live.html").read_text("utf-8").replace("$whole", whole),
        whole=whole,
        megabytes=f"{measured['bytes'] / 1e6:.1f}",
        difference=f"{measured['difference']:.4f}".removeprefix("0"),
        texts=len(TEXTS) + len(PAIR),
    )


if __name__ == "__main__":
    sys.exit(main())
