"""`ottla console` as a person starts and stops it."""

import os
import signal

import aiohttp
import pytest

from ottla import testing
from security.password_hash import ScryptHash
from support.console import basic
from support.deadlines import DEADLINE_S
from support.rest import Rest
from support.running_console import RunningConsole
from support.running_registry import listens


@pytest.fixture(scope="module")
def broker():
    with testing.broker() as running:
        yield running


async def test_it_serves_the_rest_api_until_a_signal(broker):
    with RunningConsole("console", "--listen", "127.0.0.1:0", "-b", broker.bootstrap_servers) as running:
        url = running.value("url").rstrip("/")
        async with aiohttp.ClientSession() as http:
            (cluster,) = (await Rest(http, url, "").get("/v3/clusters"))["data"]
            rest = Rest(http, url, cluster["cluster_id"])
            assert (await rest.ask("POST", "topics", {"topic_name": "orders"})).status == 201
            made = await rest.ask("POST", "topics/orders/records", {"value": {"type": "STRING", "data": "a"}})
            assert (made.status, made.body["offset"]) == (200, 0)
            assert (await rest.ask("DELETE", "topics/orders")).status == 204
            foreign = {"Host": "attacker.example"}
            assert (await rest.ask("GET", "topics", headers=foreign)).status == 403
            origin = {"Origin": "http://attacker.example"}
            refused = await rest.ask("POST", "topics", {"topic_name": "x"}, headers=origin)
            assert (refused.status, refused.body["error_code"]) == (403, 403)
            async with http.get(url + "/readyz") as response:
                assert response.status == 200
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        os.killpg(running.process.pid, signal.SIGTERM)
        assert running.process.wait(DEADLINE_S) == 0
        assert not listens(url.removeprefix("http://"))


async def test_logins_on_the_network(broker, tmp_path):
    users = tmp_path / "users"
    users.write_text(f"alice:{ScryptHash.of_password('secret', log2_n=10, r=1, p=1)}\n")
    logins = ("-s", "ottla.console.authentication=password-file", "-s", f"ottla.console.password.file={users}")
    with RunningConsole("console", "--listen", "0.0.0.0:0", "-b", broker.bootstrap_servers, *logins) as running:
        url = running.value("url").rstrip("/")
        async with aiohttp.ClientSession() as http:
            rest = Rest(http, url, "")
            answer = await rest.ask("GET", "/v3/clusters")
            assert (answer.status, answer.body["error_code"]) == (401, 401)
            right = {"Authorization": basic("alice", "secret")}
            assert len((await rest.get("/v3/clusters", headers=right))["data"]) == 1
            async with http.get(url + "/healthz") as response:
                assert response.status == 200


async def test_everybody_may_only_read_if_reading_is_open(broker):
    opened = ("-s", "ottla.console.open=read")
    with RunningConsole("console", "--listen", "0.0.0.0:0", "-b", broker.bootstrap_servers, *opened) as running:
        async with aiohttp.ClientSession() as http:
            rest = Rest(http, running.value("url").rstrip("/"), "")
            (cluster,) = (await rest.get("/v3/clusters"))["data"]
            rest.cluster_id = cluster["cluster_id"]
            answer = await rest.ask("POST", "topics", {"topic_name": "x"})
            assert (answer.status, answer.body["error_code"]) == (403, 40301)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "0.0.0.0:0"), "everybody who reaches this address could read the console"),
        (("--listen", "nothing"), "--listen"),
        (("--set", "num.partitions=3"), "only settings ottla.console.…"),
        (("--set", "ottla.console.nothing=3"), "ottla.console.nothing"),
        (("--set", "ottla.console.authentication=scram"), "scram works only in a broker"),
        (("--set", "ottla.console.password.file=/x"), "has no effect"),
        (("--set", "ottla.console.mode=off"), "there would be nothing to serve"),
    ],
)
def test_what_is_refused(ottla, arguments, message):
    assert message in ottla("console", *arguments, code=1).err
