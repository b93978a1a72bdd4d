"""Build the site into build/site: `make site`. No lesson is run, and a page needs nothing from elsewhere."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import nbformat
from docutils.nodes import make_id
from sphinx.cmd.build import main as sphinx

from live.code_lines import with_code
from live.export import PAIR, TEXTS, export, write_json
from pages import field_guide, lessons, links, lookup, meaning, start
from pages.texts import filled
from transformer_course.exercises import find
from transformer_course.lessons import LESSONS, ROOT, notebook
from transformer_lab.pretrained_encoder import TOKENIZER_FILE

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
SOURCE, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
# What runs the model in a browser.
RUNTIME = (
    "onnxruntime-web/dist/ort.wasm.bundle.min.mjs",
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
    "@huggingface/tokenizers/dist/tokenizers.min.mjs",
)
# Half of MiniSearch's file is comments; its licence is in a file of its own.
COMMENT = re.compile(r"^ *(/\*\*.*?\*/|//[^\n]*)\n", re.DOTALL | re.MULTILINE)
# Rules of the theme's style: an icon's number, and where the fonts are.
ICONS = re.compile(r'(\.fa-[\w-]+,?)+\{--fa:"[^"]*"\}|@font-face\{[^}]*/fontawesome/[^}]*\}')


def main() -> int:
    """Write the pages and the files that they need, and let Sphinx turn them into HTML."""
    for folder in (SOURCE, SITE, ROOT / "build" / "doctrees"):
        shutil.rmtree(folder, ignore_errors=True)
    write_assets(SOURCE / "_static")
    write_pages(SOURCE)
    write_lessons(SITE / "notebooks")
    kept = ["-d", str(ROOT / "build" / "doctrees")]  # what Sphinx remembers is no part of the site
    status = sphinx(
        ["-c", str(HERE), "-b", "html", "-W", "--keep-going", "-q", *kept, str(SOURCE), str(SITE)]
    )
    if not status:
        drop_icons(SITE / "_static")
    return status


def drop_icons(folder: Path) -> None:
    """Take the theme's two thousand icons out of the site: course.css draws the ten that pages show."""
    shutil.rmtree(folder / "vendor" / "fontawesome")
    for script in (folder / "scripts").glob("fontawesome.js*"):
        script.unlink()
    style = folder / "styles" / "pydata-sphinx-theme.css"
    style.write_text(ICONS.sub("", style.read_text("utf-8")), "utf-8")


def write_assets(folder: Path) -> None:
    """Copy what the pages load: styles, scripts, the typesetter of formulas, a picture; and all licences."""
    shutil.copytree(HERE / "style", folder)
    shutil.copy(start.PICTURE, folder)
    fonts = Path("output", "chtml", "fonts")
    shutil.copytree(MODULES / "mathjax" / "es5" / fonts, folder / "mathjax" / fonts)
    shutil.copy(MODULES / "mathjax" / "es5" / "tex-chtml.js", folder / "mathjax")
    code = (MODULES / "minisearch" / "dist" / "es" / "index.js").read_text("utf-8")
    (folder / "minisearch.js").write_text(COMMENT.sub("", code), "utf-8")
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
        "check_your_encoder.md": filled("check_your_encoder.md"),
        "glossary.md": lookup.glossary(),
        "notation.md": lookup.notation(),
        "licences.md": filled("licences.md"),
    }
    guide = field_guide.pages()
    for name, text in (pages | guide | lookup.reference()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    searched = f"_static/{field_guide.SEARCHED}"
    vectors = meaning.vectors(json.loads(guide[searched])["entries"])
    (folder / searched).with_suffix(".i8").write_bytes(vectors)


def write_lessons(folder: Path) -> None:
    """Write the lessons to be taken along one by one: nothing run yet, and they say where the course is."""
    folder.mkdir(parents=True)
    for number in range(len(LESSONS)):
        nbformat.write(lessons.alone(number), folder / notebook(number).name)


def course(folder: Path) -> Path:
    """Write all that is committed as one file, to be taken along, and return it."""
    if not (ROOT / ".git").exists():
        raise SystemExit("The site carries the course along as it is committed: build it in a clone.")
    file = folder / links.COURSE
    folder.mkdir(exist_ok=True)
    command = ["git", "archive", "--prefix", "transformer-lab/", "--output", str(file), "HEAD"]
    subprocess.run(command, cwd=ROOT, check=True)
    return file


def live_page(folder: Path) -> str:
    """Export the encoder and the files that run it, and return the page around it."""
    measured = export(folder)
    for file in [
        *(HERE / "live").glob("*.js"),
        HERE / "live" / "live.css",
        *(MODULES / name for name in RUNTIME),
    ]:
        shutil.copy(file, folder)
    steps = (HERE / "live" / "steps.js").read_text("utf-8")
    (folder / "steps.js").write_text(with_code(steps), "utf-8")
    loaded = [folder / Path(name).name for name in ("encoder.onnx", TOKENIZER_FILE, *RUNTIME)]
    files = {file.name: file.stat().st_size for file in loaded}
    digest = hashlib.sha256()
    for file in loaded:
        digest.update(file.read_bytes())
    whole = round(sum(files.values()) / 1e6)
    facts = {
        "files": files,
        "whole": whole,
        "version": f"encoder-{digest.hexdigest()[:12]}",
        "exercises": exercises(),
    }
    write_json(folder / "about.json", measured | facts)
    return filled(
        "live.md",
        live=(HERE / "live" / "live.html").read_text("utf-8").replace("$whole", str(whole)),
        whole=str(whole),
        megabytes=f"{files['encoder.onnx'] / 1e6:.1f}",
        stored=f"{measured['stored'] / 1e3:.0f}",
        difference=f"{measured['difference']:.4f}",
        texts=len(TEXTS) + len(PAIR),
    )


def exercises() -> dict[str, str]:
    """Return the address of each exercise that the walk names."""
    named = re.findall(r'exercise: "(\d\d\.\d+)"', (HERE / "live" / "steps.js").read_text("utf-8"))
    pages = {id: links.lesson(int(id[:2])) for id in named}
    return {id: f"{pages[id]}.html#{make_id(f'{id} {find(id).title}')}" for id in named}


if __name__ == "__main__":
    sys.exit(main())
