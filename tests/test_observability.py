"""docs/observability/: the alert rules and the dashboard, with a Prometheus that scrapes brokers of ours."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from broker.console.metrics import COUNTER, DURATION, METRICS
from client.admin.admin import Admin
from client.admin.quotas import DEFAULT, QuotaEntity
from client.consumer.consumer import Consumer
from client.producer.producer import Producer
from ottla import testing
from ottla.testing.blocking import Blocking
from ottla.testing.cluster_thread import ClusterThread
from support.broker import ROOT
from support.checkout import checkout_only
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.programs import need_prometheus, need_promtool
from support.prometheus import Prometheus, running_prometheus

pytestmark = checkout_only
DOCS = ROOT / "docs"
FOLDER = DOCS / "observability"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = [
    rule for group in YAML(typ="safe").load(FOLDER / "alerts.yml")["groups"] for rule in group["rules"]
]  # fmt: skip
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    f"{panel['title']}, {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
VARIABLES = {"job": "ottla", "instance": ".*", "topic": ".*", "group": ".*", "__rate_interval": "1m"}
LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


def exposed_names() -> set[str]:
    """Every name that /metrics has."""
    names = {metric.name + ("_total" if metric.kind == COUNTER else "") for metric in METRICS}
    process = ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds")
    return names | {DURATION + part for part in ("_bucket", "_sum", "_count")} | {f"process_{one}" for one in process}


def substituted(expression: str) -> str:
    """An expression with the values of the dashboard's variables."""
    for name, value in VARIABLES.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, expression
    return expression


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(
        [need_promtool(), *map(str, arguments)], cwd=FOLDER, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


# -- the files ---------------------------------------------------------------------------------------------------------


def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_the_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", "alerts_test.yml")


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = [
        one for test in YAML(typ="safe").load(FOLDER / "alerts_test.yml")["tests"] for one in test["alert_rule_test"]
    ]
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names))
    assert {one["alertname"] for one in tests if one["exp_alerts"]} == set(names)
    assert {one["alertname"] for one in tests if not one["exp_alerts"]} == set(names)


def test_every_alert_names_a_chapter_that_says_what_to_do() -> None:
    for rule in ALERTS:
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor in anchors(DOCS / page), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize("text", [*EXPRESSIONS.values(), *(rule["expr"] for rule in ALERTS)])
def test_every_metric_exists(text: str) -> None:
    assert set(re.findall(r"\b(?:ottla|process)_\w+", text)) <= exposed_names()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for cell in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(target["datasource"]["uid"] == "${datasource}" for panel in PANELS for target in panel["targets"])
    assert all(panel["description"] for panel in PANELS)


# -- with a Prometheus -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    need_prometheus()  # before brokers are started
    settings = {"ottla.console.listener": "127.0.0.1:0", "default.replication.factor": "2"}
    with testing.cluster(2, settings) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(cluster: ClusterThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The configuration of the documents, but for the targets, and for intervals that suit a test."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(FOLDER / "alerts.yml", folder)
    config = YAML(typ="safe").load(FOLDER / "prometheus.yml")
    config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
    consoles = [member.broker.console for member in cluster.brokers.values() if member.broker is not None]
    targets = [f"127.0.0.1:{console.port}" for console in consoles if console is not None]
    assert len(targets) == 2
    config["scrape_configs"][0]["static_configs"][0]["targets"] = targets
    YAML(typ="safe").dump(config, folder / "prometheus.yml")
    with running_prometheus(need_prometheus(), folder / "prometheus.yml", folder) as running:
        yield running


@pytest.fixture(scope="module")
def work(cluster: ClusterThread) -> Iterator[Callable[[], None]]:
    """A function that writes in transactions, reads and commits, with a quota that is exceeded."""

    async def opened(client: Any) -> Any:
        await client.start()
        return Blocking(client, cluster.call)

    servers = cluster.bootstrap_servers
    admin = cluster.call(opened, Admin(bootstrap_servers=servers))
    admin.create_topic("orders", 2, replication_factor=2)
    assert set(admin.alter_client_quotas({QuotaEntity(client_id=DEFAULT): {"producer_byte_rate": 1e6}}).values()) == {
        None
    }
    producer = cluster.call(opened, Producer(bootstrap_servers=servers, transactional_id="payments"))
    consumer = cluster.call(
        opened, Consumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    )

    def step() -> None:
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send("orders", b"desk", partition=partition)
        producer.commit_transaction()
        consumer.fetch(timeout_ms=100)
        consumer.commit()

    yield step
    for client in (consumer, producer, admin):
        client.close()


def test_every_panel_of_the_dashboard_has_data(prometheus: Prometheus, work: Callable[[], None]) -> None:
    missing = {name: substituted(expression) for name, expression in EXPRESSIONS.items()}

    def without_data() -> list[str]:
        work()
        for name in list(missing):
            if any(map(math.isfinite, prometheus.values(missing[name]))):
                del missing[name]
        return list(missing)

    until_blocking(lambda: without_data() == [], "every expression has data", 2 * DEADLINE_S)


def test_the_variables_of_the_dashboard_have_values(prometheus: Prometheus, work: Callable[[], None]) -> None:
    work()
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            matched = LABEL_VALUES.fullmatch(variable["definition"])
            assert matched is not None
            selector, label = substituted(matched[1]), matched[2]
            until_blocking(
                lambda label=label, selector=selector: prometheus.get(f"label/{label}/values", **{"match[]": selector}),
                f"{variable['name']} has values",
            )


def test_prometheus_evaluates_every_alert_rule(prometheus: Prometheus) -> None:
    def evaluated() -> bool:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        assert sorted(rule["name"] for rule in rules) == sorted(rule["alert"] for rule in ALERTS)
        assert not [rule["lastError"] for rule in rules if rule["health"] == "err"]
        return all(rule["health"] == "ok" for rule in rules)

    until_blocking(evaluated, "every rule was evaluated")


def test_an_alert_about_a_broker_that_is_killed_becomes_pending(prometheus: Prometheus, cluster: ClusterThread) -> None:
    """Its `for` of a minute is tested by promtool."""

    def pending() -> set[str]:
        return {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}

    until_blocking(lambda: len(prometheus.values("ottla_build_info")) == 2, "Prometheus has scraped both brokers")
    cluster.kill_broker(2)
    try:
        until_blocking(lambda: pending() >= {"OttlaBrokerDown"}, "Prometheus notices the death")
    finally:
        cluster.restore()
