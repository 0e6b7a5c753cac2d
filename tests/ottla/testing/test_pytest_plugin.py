"""The pytest plugin, in runs of pytest within this process and in a few processes of their own."""

import importlib.metadata
import re
import subprocess
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path

import psutil
import pytest

from ottla.testing import cluster_thread
from support.checkout import checkout_only
from support.counts import count
from support.zookeeper import new_chroot, shared_zookeeper

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
IS_INSTALLED = any(point.name == "ottla" for point in importlib.metadata.entry_points(group="pytest11"))
PLUGIN = (*("-p", "ottla" if IS_INSTALLED else "ottla.testing.pytest_plugin"), *("-p", "no:cacheprovider"))
"""An environment that was made before the plugin existed does not know its entry point."""
LOOPS = ("-o", "asyncio_default_fixture_loop_scope=function")
IMPORTED = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
"""For a run of pytest within this process, which has imported Ottla's modules already."""


@pytest.fixture
def run(pytester):
    """Run pytest with a test file in this process."""

    def run_file(source, *arguments, passed=0, failed=0, errors=0):
        pytester.makepyfile(source)
        result = pytester.runpytest_inprocess(*PLUGIN, *LOOPS, *IMPORTED, *arguments)
        result.assert_outcomes(passed=passed, failed=failed, errors=errors)
        return result

    return run_file


def test_a_test_file_of_ten_lines(run):
    run(
        """
        from confluent_kafka import Consumer, Producer

        def test_a_message_arrives(ottla_broker, ottla_topic, ottla_group):
            producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
            producer.produce(ottla_topic, b"one")
            producer.flush()
            consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, "group.id": ottla_group,
                                 "auto.offset.reset": "earliest"})
            consumer.subscribe([ottla_topic])
            assert consumer.poll(60).value() == b"one"
            consumer.close()
        """,
        passed=1,
    )
    assert not {"ottla-broker", "ottla-cluster"} & {thread.name for thread in threading.enumerate()}


def test_pytest_does_not_rewrite_modules():
    """To compile the rewritten ones would take longer than a test with a broker does."""
    assert type(cluster_thread.__spec__.loader) is SourceFileLoader


def test_clients_block_also_in_a_coroutine(run):
    run(
        """
        import pytest

        def check(producer, consumer, admin, topic):
            assert producer.send(topic, b"one").offset == 0
            producer.send(topic, b"two", key=b"k")
            assert [next(iter(consumer)).value for _ in range(2)] == [b"one", b"two"]
            consumer.commit()
            assert consumer.subscription() == [topic]
            assert topic in admin.list_topics()
            assert type(admin.client).__name__ == "Admin"

        def test_blocking(ottla_producer, ottla_consumer, ottla_admin, ottla_topic):
            check(ottla_producer, ottla_consumer, ottla_admin, ottla_topic)

        @pytest.mark.asyncio
        async def test_asyncio(ottla_producer, ottla_consumer, ottla_admin, ottla_topic):
            check(ottla_producer, ottla_consumer, ottla_admin, ottla_topic)

        def test_a_consumer_without_a_topic(ottla_consumer):
            assert ottla_consumer.subscription() == []

        @pytest.fixture
        def ottla_client_options(ottla_client_options, request):
            more = {"transactional_id": "t"} if request.node.name == "test_transaction" else {}
            return ottla_client_options | more

        def test_transaction(ottla_producer, ottla_topic):
            with ottla_producer.transaction():
                ottla_producer.send(ottla_topic, b"one")
            with pytest.raises(ZeroDivisionError), ottla_producer.transaction():
                1 / 0
        """,
        passed=4,
    )


def test_topics_by_mark_and_parameter(run):
    result = run(
        """
        import pytest

        pytestmark = pytest.mark.ottla_topic(configs={"retention.ms": 1000})
        names = set()

        def partitions(admin, topic):
            names.add(topic)
            return len(admin.describe_topics([topic])[topic].partitions)

        def test_default(ottla_topic, ottla_admin):
            assert partitions(ottla_admin, ottla_topic) == 1
            assert ottla_admin.describe_topic_configs([ottla_topic])[ottla_topic]["retention.ms"].value == "1000"
            assert ottla_topic.startswith("test_default-")

        @pytest.mark.ottla_topic(partitions=3)
        def test_mark(ottla_topic, ottla_admin):
            assert partitions(ottla_admin, ottla_topic) == 3

        @pytest.mark.parametrize("ottla_topic", [2, {"partitions": 4}], indirect=True, ids=["two", "four"])
        def test_parameter(ottla_topic, ottla_admin, request):
            wanted = {"two": 2, "four": 4}[request.node.callspec.id]
            assert partitions(ottla_admin, ottla_topic) == wanted

        def test_every_topic_is_new(ottla_topic):
            assert len(names) == 4 and ottla_topic not in names

        def test_a_test_may_delete_it(ottla_topic, ottla_admin):
            ottla_admin.delete_topic(ottla_topic)

        @pytest.mark.ottla_topic(partition=3)
        def test_mistake(ottla_topic):
            pass
        """,
        passed=6,
        errors=1,
    )
    result.stdout.fnmatch_lines(["*ottla_topic: there is no argument partition, only partitions, replication_factor*"])


def test_clusters_are_shared_restored_and_reset(run):
    run(
        """
        import pytest

        seen = []

        def test_one(ottla_cluster, ottla_topic, ottla_admin):
            seen.append(ottla_cluster)
            assert len(ottla_cluster.brokers) == 2
            assert len(ottla_admin.describe_cluster().brokers) == 2
            ottla_cluster.create_topic("left")
            ottla_cluster.kill_broker(2)

        def test_restored(ottla_cluster, ottla_admin):
            assert ottla_cluster is seen[0]
            assert ottla_cluster.brokers[2].broker is not None
            assert "left" in ottla_admin.list_topics()

        @pytest.mark.ottla_cluster(isolation="cluster")
        def test_reset(ottla_cluster, ottla_admin):
            assert ottla_cluster is seen[0]
            assert ottla_admin.list_topics() == []

        @pytest.mark.ottla_cluster(brokers=1, settings={"num.partitions": 5})
        def test_another(ottla_topic, ottla_admin):
            assert len(ottla_admin.describe_topics([ottla_topic])[ottla_topic].partitions) == 5

        @pytest.mark.parametrize("ottla_cluster", [2, {"brokers": 1, "settings": {"num.partitions": 5}}], indirect=True)
        def test_parameter(ottla_cluster, ottla_servers):
            assert len(ottla_servers._clusters) == 2
        """,
        "--ottla-brokers=2",
        passed=6,
    )


def test_options_of_the_ini_file_and_the_command_line(run, pytester):
    pytester.makeini("[pytest]\nottla_settings =\n    num.partitions=2\n    log.retention.hours=5\n")
    source = """
        def test_settings(ottla_broker):
            assert dict(ottla_broker.member.settings)["num.partitions"] == "3"
            assert dict(ottla_broker.member.settings)["log.retention.hours"] == "5"
        """
    run(source, "--ottla-setting=num.partitions=3", passed=1)
    for mistake, message in (
        ("--ottla-setting=num.partitions", "must be NAME=VALUE"),
        ("--ottla-brokers=0", "must be a number, 1 or more"),
        ("--ottla-isolation=none", "must be one of topics, cluster"),
        ("--ottla-log-level=loud", "is no level of a log"),
    ):
        result = run(source, mistake, errors=1)
        result.stdout.fnmatch_lines([f"*{mistake.split('=')[0]} *{message}*"])


def test_the_report_of_a_wrong_setting_is_its_message(run):
    result = run(
        """
        import pytest

        @pytest.mark.ottla_cluster(settings={"num.partitions": "x"})
        def test_setting(ottla_cluster): pass

        @pytest.mark.ottla_cluster(setting={"num.partitions": "3"})
        def test_argument(ottla_cluster): pass

        @pytest.mark.ottla_cluster(brokers=0)
        def test_none(ottla_cluster): pass

        @pytest.mark.ottla_cluster(brokers="two")
        def test_word(ottla_cluster): pass

        @pytest.mark.ottla_cluster(isolation="none")
        def test_isolation(ottla_cluster): pass

        @pytest.mark.ottla_topic(configs={"retention.ms": "soon"})
        def test_topic(ottla_topic): pass
        """,
        errors=6,
    )
    result.stdout.fnmatch_lines(
        [
            "ottla_cluster: num.partitions=x: must be a whole number of 32 bits",
            "ottla_cluster: there is no argument setting, only brokers, settings, isolation",
            "ottla_cluster: a cluster needs at least one broker, not 0",
            "ottla_cluster: brokers='two' must be a number",
            "ottla_cluster: isolation='none' must be one of topics, cluster",
            "ottla_topic: *INVALID_CONFIG: retention.ms=soon: must be a whole number of 64 bits",
        ]
    )
    assert ".py:" not in result.stdout.str().replace("test_the_report_of_a_wrong_setting_is_its_message.py::", "")
    result = run("def test_broker(ottla_broker): pass", "--ottla-setting=num.partition=3", errors=1)
    result.stdout.fnmatch_lines(["ottla_broker: num.partition=3: no setting has this name*"])


def test_faults_are_healed_after_the_test(run):
    run(
        """
        import pytest

        @pytest.mark.ottla_cluster(brokers=2)
        def test_faults(ottla_faults, ottla_cluster, ottla_admin):
            ottla_faults.answer("Metadata", error="UNKNOWN_SERVER_ERROR")
            ottla_faults.kill(2)
            ottla_faults.pause(1)

        @pytest.mark.ottla_cluster(brokers=2)
        def test_healed(ottla_faults, ottla_cluster, ottla_admin):
            assert ottla_faults.active() == []
            while len(ottla_admin.describe_cluster().brokers) < 2:
                pass

        def test_of_the_broker(ottla_faults, ottla_broker):
            assert ottla_faults is ottla_broker.faults

        def test_kills_the_broker(ottla_broker):
            ottla_broker.kill_broker(0)

        def test_the_broker_runs_again(ottla_broker):
            assert ottla_broker.member.broker is not None
        """,
        passed=5,
    )


def test_brokers_of_another_release(run):
    source = """
        def test_versions(ottla_broker, ottla_admin):
            served = {api.name: api.highest for api in ottla_admin.describe_api_versions()[0]}
            assert served["Produce"] == 9
        """
    run(source, "--ottla-version=2.8", passed=1)
    result = run(source, "--ottla-version=1.7", errors=1)
    result.stdout.fnmatch_lines(["*1.7*"])


def test_isolation_for_all_tests(run):
    run(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_empty(ottla_server, ottla_admin, number):
            assert ottla_admin.list_topics() == []
            ottla_server.create_topic("left")
        """,
        "--ottla-isolation=cluster",
        passed=2,
    )


def test_clusters_on_a_zookeeper_are_apart_and_begin_empty(run, pytester):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    pytester.makeini(f"[pytest]\nottla_settings =\n    zookeeper.connect={connect}\nottla_isolation = cluster\n")
    run(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_empty(ottla_server, ottla_admin, number):
            assert ottla_admin.list_topics() == []
            ottla_server.create_topic("left")

        @pytest.mark.ottla_cluster(brokers=1)
        def test_cluster(ottla_cluster, ottla_admin):
            assert ottla_admin.list_topics() == []
        """,
        "--ottla-keep-data=kept",
        passed=3,
    )


def test_the_report_of_a_failed_test_has_log_and_requests(run, pytester):
    result = run(
        """
        def test_passes(ottla_producer, ottla_topic):
            ottla_producer.send(ottla_topic, b"one")

        def test_fails(ottla_broker, ottla_producer, ottla_topic, caplog):
            ottla_broker.stop_broker(0)
            ottla_broker.start_broker(0)
            ottla_producer.send(ottla_topic, b"one")
            assert not [one for one in caplog.records if one.name.startswith(("broker", "ottla.broker"))]
            assert False

        def test_of_the_broker(ottla_broker):
            assert False

        def test_without_a_broker():
            assert False
        """,
        "--ottla-keep-data=kept",
        passed=1,
        failed=3,
    )
    result.stdout.fnmatch_lines(
        [
            "*_ test_fails _*",
            "*- ottla: last requests -*",
            "??:??:??.??? Produce v* of test_fails-* from 'ottla-producer' to broker 0: NONE",
            "*- ottla: log of the brokers -*",
            "*broker 0 INFO *",
            "*- ottla: data of the brokers -*",
            f"{pytester.path}/kept/test_fails-*",
            "*_ test_of_the_broker _*",
            "*- ottla: data of the brokers -*",
            f"{pytester.path}/kept/test_of_the_broker-*",
            "*_ test_without_a_broker _*",
        ]
    )
    text = result.stdout.str()
    assert "of test_passes-" not in text
    assert "Captured log" not in text
    assert "ottla: " not in text[text.index("_ test_without_a_broker _") :]
    (kept,) = (pytester.path / "kept").glob("test_fails-*")
    assert (kept / "registry.sqlite").exists()
    assert list(kept.glob("test_fails-*-0"))


@checkout_only
def test_the_examples_of_the_documentation(pytester):
    page = (ROOT / "docs" / "testing-pytest.md").read_text()
    first, second, third = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(test_first=first, test_second=second, test_third=third)
    pytester.runpytest_inprocess(*PLUGIN, *LOOPS).assert_outcomes(passed=6)
    shown = pytester.runpytest_inprocess(*PLUGIN, *LOOPS, "--help").stdout.str()
    assert set(re.findall(r"--ottla-[a-z-]+", shown)) == set(re.findall(r"--ottla-[a-z-]+", page))


def test_nothing_is_imported_or_started_that_no_test_asks_for(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            ours = ("client", "broker", "storage", "registry")
            assert not [name for name in sys.modules if name.removeprefix("ottla.").split(".")[0] in ours]
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1)


def test_help_names_the_options_marks_and_fixtures(pytester):
    result = pytester.runpytest_inprocess(*PLUGIN, *LOOPS, "--help")
    result.stdout.fnmatch_lines(
        ["*--ottla-setting=NAME=VALUE", "*--ottla-keep-data=DIR*", "*ottla_settings (linelist)*"]
    )
    result = pytester.runpytest_inprocess(*PLUGIN, *LOOPS, "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.ottla_cluster(*", "@pytest.mark.ottla_topic(*"])


@pytest.mark.counted
@pytest.mark.timeout(240)
def test_many_tests_with_a_topic_each_on_four_workers_leave_nothing(pytester, tmp_path):
    """No process, port, thread or file: the workers have ended, and each had no more threads than before."""
    tests = count(24, 200)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pytester.makeconftest(
        """
        import threading, os, pytest

        @pytest.fixture(scope="session", autouse=True)
        def nothing_is_left(request):
            def check():
                assert [one.name for one in threading.enumerate() if one.name.startswith("ottla")] == []
            request.addfinalizer(check)
        """
    )
    pytester.makepyfile(
        f"""
        import os, socket, pytest
        from pathlib import Path

        @pytest.mark.parametrize("number", range({tests}))
        def test_topic(ottla_broker, ottla_topic, ottla_producer, number):
            assert ottla_producer.send(ottla_topic, b"one").offset == 0
            Path({str(tmp_path)!r}, f"port-{{os.getpid()}}").write_text(ottla_broker.bootstrap_servers.split(":")[1])
        """
    )
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-n", "4", "-q"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)}
    done = subprocess.run(command, cwd=pytester.path, env=environment, capture_output=True, text=True, check=False)
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr
    ports = [int(path.read_text()) for path in tmp_path.glob("port-*")]
    assert len(ports) == 4
    listening = {one.laddr.port for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    assert not listening & set(ports)
    assert not [path for path in scratch.iterdir() if path.name.startswith("ottla")]
    assert not [
        one.pid for one in psutil.process_iter(["cmdline"]) if str(pytester.path) in " ".join(one.info["cmdline"] or [])
    ]
