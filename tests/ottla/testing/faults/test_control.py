"""The control API, `ottla faults` and docs/testing-faults.md: every verb by each of the three."""

import json
import re
import shlex
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ottla import testing
from ottla.app import run_app
from ottla.command_line.failure import CommandError
from ottla.testing.faults import docs
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.options import from_json, to_json, to_words
from ottla.testing.faults.verbs import VERBS
from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.doc_scripts import dead_links
from support.faulty_cluster import SeenProducer, create_topic, isr_of, whole
from support.polling import until_blocking

PAGE = ROOT / "docs" / "testing-faults.md"
BEFORE = {"start": ("stop", 2), "resume": ("pause", 3), "truncate": ("kill", 3)}
"""What must have happened before the example of a verb."""
DAMAGED = {"corrupt": "payments", "truncate": "refunds"}
"""The topics whose logs are damaged; each has one replica."""


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        create_topic(running, "orders", [1, 2, 3])
        create_topic(running, "payments", [1])
        create_topic(running, "refunds", [3])
        until_blocking(lambda: whole(running), "the cluster is whole")
        running.call(running.brokers[1].broker.services.coordination.group_log.ensure_exists)  # while nothing is wrong
        yield running


@pytest.fixture(scope="module")
def url(cluster):
    return cluster.serve_control()


@pytest.fixture(autouse=True)
def healed(cluster, request):
    yield
    cluster.faults.heal_all()
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def prepare(cluster, verb):
    """Let there be what the example of a verb needs."""
    if verb in DAMAGED:
        assert SeenProducer(cluster.bootstrap_servers).deliver(DAMAGED[verb], b"one")[0] is None
    if verb in ("move_leader", "move_coordinator"):
        until_blocking(lambda: isr_of(cluster, "orders") == {1, 2, 3}, "all replicas are in sync")
        until_blocking(lambda: isr_of(cluster, "__consumer_offsets") == {1, 2, 3}, "the offsets are in sync")


@pytest.fixture
def command(url, monkeypatch, capsys):
    """Run `ottla faults …` and return what it prints."""
    monkeypatch.setenv("OTTLA_CONTROL_URL", url)

    def run(*words):
        capsys.readouterr()
        run_app(["faults", *words])
        return capsys.readouterr()

    return run


def ask(url, method, path, body=None, **headers):
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


# -- HTTP --------------------------------------------------------------------------------------------------------------


def test_inject_list_and_heal(url):
    status, told = ask(url, "POST", "/faults", {"verb": "answer", "api": "Fetch", "close": True, "for_s": 3600})
    assert (status, told["verb"], told["is_lasting"]) == (201, "answer", True)
    assert told["options"] == {"api": "Fetch", "close": True, "for_s": 3600}
    status, found = ask(url, "GET", "/faults")
    assert (status, [one["id"] for one in found["faults"]]) == (200, [told["id"]])
    assert ask(url, "DELETE", f"/faults/{told['id']}") == (200, {"healed": [told["id"]]})
    status, error = ask(url, "DELETE", f"/faults/{told['id']}")
    assert (status, error["error"]) == (
        404,
        f"no fault in effect has the id {told['id']}: it is over, or never existed",
    )
    ids = [ask(url, "POST", "/faults", {"verb": "delay", "delay_s": 0.01})[1]["id"] for _ in range(2)]
    assert ask(url, "DELETE", "/faults") == (200, {"healed": ids})


def test_brokers_verbs_and_requests(cluster, url):
    _, found = ask(url, "GET", "/")
    first = {"id": 1, "state": "running", "bootstrap_servers": cluster.brokers[1].bootstrap_servers}
    assert found["brokers"][0] == first
    assert found["verbs"] == list(VERBS)
    assert SeenProducer(cluster.bootstrap_servers, client_id="billing").deliver("orders", b"one")[0] is None
    _, found = ask(url, "GET", "/requests?api=Produce&client_id=billing&topic=orders&broker=1")
    assert [(one["api"], one["error"], one["topics"]) for one in found["requests"]] == [("Produce", "NONE", ["orders"])]
    assert ask(url, "GET", "/requests?broker=" + "1" * 5000)[0] == 400
    assert ask(url, "GET", "/requests?broker=x") == (400, {"error": "broker=x: must be a whole number"})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "the body is not JSON"),
        ([], 'a fault is a JSON object with "verb"'),
        ({"verb": "explode"}, "verb=explode: unknown; the verbs are answer, cut,"),
        ({"verb": "cut", "clientid": "x"}, "cut has no option clientid; did you mean client_id?"),
        ({"verb": "stop", "colour": 1}, "stop has no option colour; its options are broker, for_s"),
        ({"verb": "kill"}, "kill needs broker"),
        ({"verb": "kill", "broker": "1"}, "broker='1': must be a whole number"),
        ({"verb": "kill", "broker": True}, "broker=True: must be a whole number"),
        ({"verb": "kill", "broker": 9}, "broker=9: the cluster has no broker with this id; it has 1, 2, 3"),
        ({"verb": "blackhole", "direction": "up"}, "direction=up: must be both or to or from"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"verb": "kill", "broker": ' + b"1" * 10_000 + b"}", "the body is not JSON: Exceeds the limit"),
        (b'{"verb": "kill", "broker": ' + b"1" * 30 + b"}", "broker=1111"),
        (b'{"verb": "delay", "delay_s": ' + b"1" * 400 + b"}", "delay_s: the number is too large"),
        (b'{"verb": "delay", "delay_s": 1e999}', "delay_s=inf: must be a finite number"),
        (b'{"verb": "throttle", "bytes_per_s": Infinity}', "bytes_per_s=inf: must be a finite number"),
        (b'{"verb": "skew_clock", "offset_s": NaN}', "offset_s=nan: must be a finite number"),
        ({"verb": "skew_clock", "offset_s": -1e12}, "offset_s=-1e+12: must be at most 1,000,000,000 seconds"),
        ({"verb": "pause", "broker": 1, "for_s": 1e12}, "for_s=1e+12: must be at most"),
        (b'{"verb": "cut", "client_id": "\\ud800"}', "client_id='\\ud800': is no text in Unicode"),
        ({"verb": "corrupt", "topic": "x/../payments", "broker": 1}, "the broker has no replica of x/../payments-0"),
        ({"verb": "corrupt", "topic": "x" * 1000, "broker": 1}, "the broker has no replica of xxx"),
        ({"verb": "answer", "api": "Fetch", "error": "X"}, "error=X: Kafka has no error with this name"),
    ],
)
def test_errors(url, body, text):
    status, told = ask(url, "POST", "/faults", body)
    assert status == 400
    assert told["error"].startswith(text)


def test_a_body_in_another_encoding(url):
    body = b'{"verb": "kill", "broker": 9}'
    assert ask(url, "POST", "/faults", body, **{"Content-Type": "text/plain; charset=none"})[0] == 400


def test_other_paths_and_web_pages_are_refused(url):
    assert ask(url, "GET", "/nothing") == (404, {"error": "GET /nothing: Not Found"})
    assert ask(url, "DELETE", "/faults/x") == (400, {"error": "id=x: must be a whole number"})
    huge = "1" * 5000
    assert ask(url, "DELETE", f"/faults/{huge}") == (400, {"error": f"id={huge[:18]}…: must have at most 18 digits"})
    assert ask(url, "DELETE", f"/faults/{huge[:18]}")[0] == 404
    for headers in ({"Origin": "http://127.0.0.1"}, {"Host": "example.org"}):
        assert ask(url, "GET", "/faults", **headers) == (403, {"error": "web pages cannot use the control API"})


def test_the_port_can_be_chosen_and_is_free_afterwards(url):
    port = int(url.rpartition(":")[2])
    with testing.cluster(1) as other:
        with pytest.raises(OSError, match="in use"):
            other.serve_control(port)
        chosen = other.serve_control()
        assert other.serve_control() == chosen
    with testing.cluster(1) as other:
        assert other.serve_control(int(chosen.rpartition(":")[2])) == chosen


# -- the command, and the documentation --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_by_command_http_and_python(cluster, url, command, name):
    """The examples of the documentation say the same, and do it."""
    verb = VERBS[name]
    values = to_json(name, verb.example)
    assert from_json(VERBS, json.loads(json.dumps(values))) == verb.example

    def by_command():
        said = command(*shlex.split(docs.command_of(verb))[2:])
        assert said.err.startswith(f"{name}: done")
        return int(said.out) if said.out else None

    def by_http():
        status, told = ask(url, "POST", "/faults", values)
        assert status == 201
        return told["id"] if told["is_lasting"] else None

    def by_python():
        names = {"cluster": cluster}
        exec(docs.python_of(verb), names)
        return names["fault"].id if names["fault"].is_lasting else None

    for inject in (by_command, by_http, by_python):
        prepare(cluster, name)
        before = [getattr(cluster.faults, verb)(broker) for verb, broker in [BEFORE[name]]] if name in BEFORE else []
        fault_id = inject()
        if fault_id is not None:
            (listed,) = (one for one in cluster.faults.active() if one["id"] == fault_id)
            assert {"verb": name} | listed["options"] == values
        assert name == "truncate" or all(one.state is None for one in before)
        cluster.faults.heal_all()
        until_blocking(lambda: whole(cluster), "the cluster is whole")


def test_list_and_heal(command):
    assert command("list").out.split() == ["id", "verb", "options", "uses", "left", "left", "s"]
    first = command("answer", "--api", "Fetch", "--close", "--count", "2").out.strip()
    second = command("blackhole", "--client-id", "billing").out.strip()
    rows = [line.split() for line in command("list").out.splitlines()[1:]]
    assert rows == [
        [first, "answer", "api=Fetch", "close=True", "count=2", "0", "2", "-"],
        [second, "blackhole", "client_id=billing", "0", "-", "-"],
    ]
    assert [one["id"] for one in json.loads(command("list", "--json").out)] == [int(first), int(second)]
    assert command("heal", first).err == "1 fault healed\n"
    assert command("heal").err == "1 fault healed\n"
    with pytest.raises(CommandError, match=f"no fault in effect has the id {first}"):
        command("heal", first)


def test_a_command_without_a_control_api(cluster, command, monkeypatch):
    with pytest.raises(CommandError, match="broker=9: the cluster has no broker with this id"):
        command("kill", "--broker", "9")
    with pytest.raises(CommandError, match=r"the control API at http://127.0.0.1:1 does not answer: .*refused"):
        command("list", "--control", "http://127.0.0.1:1")
    with pytest.raises(CommandError, match="does not answer"):
        command("list", "--control", f"http://{cluster.brokers[1].bootstrap_servers}")  # speaks another protocol
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:  # answers 501
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        with pytest.raises(CommandError, match="this is no control API: HTTP 501"):
            command("list", "--control", f"http://127.0.0.1:{other.server_port}")
        thread.join()
    monkeypatch.delenv("OTTLA_CONTROL_URL")
    with pytest.raises(CommandError, match="no control API: give --control URL or set OTTLA_CONTROL_URL"):
        command("list")


def test_the_page_is_up_to_date():
    assert docs.with_sections(PAGE.read_text()) == PAGE.read_text(), f"run python -m {docs.__name__} {PAGE}"
    assert dead_links(PAGE) == []
    with pytest.raises(ValueError, match="must be in the document"):
        docs.with_sections("nothing")


def test_the_other_examples_of_the_page_run(cluster, command):
    text = PAGE.read_text().partition(docs.BEGIN)[0]
    first, *blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert "testing.cluster(3)" in first
    for block in blocks:
        exec(block, {"cluster": cluster})
    for line in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)[0].splitlines():
        command(*line.split()[2:])


def test_words_of_numbers_and_flags():
    example = VERBS["throttle"].description(bytes_per_s=0.5, peers=True)
    assert to_words("throttle", example) == ["throttle", "--bytes-per-s", "0.5", "--peers"]
    with pytest.raises(FaultError):
        from_json(VERBS, {"verb": "throttle", "bytes_per_s": 0})
