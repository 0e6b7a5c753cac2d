"""The files of the pages."""

import re
from pathlib import Path

import pytest

from build_backend.assets import is_asset, minified
from console.pages import PAGES, STATIC
from ottla import testing
from support.rest import rest_api


@pytest.fixture(scope="module")
def broker():
    with testing.broker() as running:
        yield running


async def test_the_document_is_at_every_page_and_files_are_revalidated(broker):
    async with rest_api(broker.bootstrap_servers) as rest:
        for path in ["/", *(f"/{page}" for page in PAGES), "/topics/a/messages"]:
            answer = await rest.ask("GET", path)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        script = await rest.ask("GET", "/static/core/dom.js")
        assert (script.status, script.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        again = await rest.ask("GET", "/static/core/dom.js", headers={"If-None-Match": script.headers["Etag"]})
        assert again.status == 304


async def test_the_document_names_what_is_there(broker):
    """A file that is asked for early and is not there would only make the page late."""
    async with rest_api(broker.bootstrap_servers) as rest:
        async with rest.http.get(rest.full("/")) as document:
            named = set(re.findall(r'(?:href|src)="(/(?:static|api/v1)/.+?)"', await document.text()))
            named |= set(re.findall(r"<(.+?)>", document.headers["Link"]))
        assert {"/static/styles.css", "/static/pages/overview.js", "/api/v1/overview"} <= named
        assert {path: (await rest.ask("GET", path)).status for path in named} == dict.fromkeys(named, 200)
        assert "Link" not in (await rest.ask("GET", "/topics")).headers


async def test_files_are_compressed_for_who_accepts_it(broker):
    async with rest_api(broker.bootstrap_servers) as rest:
        url = rest.full("/static/styles.css")
        async with rest.http.get(url, headers={"Accept-Encoding": "identity"}) as plain:
            text = await plain.text()
            assert "Content-Encoding" not in plain.headers
        async with rest.http.get(url, headers={"Accept-Encoding": "br, gzip"}) as small:
            assert await small.text() == text
            assert small.headers["Content-Encoding"] == "gzip"
            assert int(small.headers["Content-Length"]) < len(text) / 2


@pytest.mark.parametrize(
    "path", ["/static/none.js", "/static/core", "/static/../pages.py", "/static/%2e%2e/pages.py", "/other"]
)
async def test_nothing_else_is_served(broker, path):
    async with rest_api(broker.bootstrap_servers) as rest:
        assert (await rest.ask("GET", path)).status == 404


async def test_a_browser_gets_the_document_for_a_path_without_a_page(broker):
    async with rest_api(broker.bootstrap_servers) as rest:
        answer = await rest.ask("GET", "/other", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_a_class_of_a_page_is_in_no_other_stylesheet():
    """All stylesheets are loaded at once: a name that two pages use would mix them up."""
    texts = {path.name: path.read_text() for path in STATIC.rglob("*.css")}
    own = {
        path.name: set(re.findall(r"^\.([a-z-]+)(?= \{)", path.read_text(), re.M))
        for path in STATIC.glob("pages/*.css")
    }
    shared = {
        f"{name}: .{one} is in {other}"
        for name, classes in own.items()
        for one in classes
        for other, text in texts.items()
        if other != name and re.search(rf"\.{one}(?![\w-])", text)
    }
    assert shared == set()


def test_scripts_and_styles_of_the_wheel_stay_small():
    pytest.importorskip("minify", reason="tdewolff-minify is there on Linux only")
    files = [path for path in STATIC.rglob("*") if is_asset(path.name)]
    assert sum(len(minified(path.read_bytes(), path.name)) for path in files) <= 200_000


def test_scripts_import_what_is_there():
    """A script that imports a file or a name that is not there shows nothing; not every one is loaded in every test."""
    texts = {path: path.read_text() for path in STATIC.rglob("*.js")}

    def exported(path: Path) -> set[str]:
        passed_on = re.findall(r'^export \* from "(.+)";$', texts[path], re.M)
        own = re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", texts[path], re.M)
        return {*own, *(name for target in passed_on for name in exported((path.parent / target).resolve()))}

    for path, text in texts.items():
        for names, target in re.findall(r'^import \{ (.+) \} from "(.+)";$', text, re.M):
            missing = set(names.split(", ")) - exported((path.parent / target).resolve())
            assert not missing, f"{path.name} imports {missing} from {target}"
        for target in re.findall(r'import\("(.+?)"\)', text):
            assert (path.parent / target).resolve() in texts, f"{path.name} imports {target}"
