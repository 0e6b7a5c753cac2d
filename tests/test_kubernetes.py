"""docs/deploy/kubernetes.yaml: it fits Kubernetes' schema, and its parts fit each other, the image and the broker.

The schema is that of Kubernetes' API, without descriptions and without kinds that the file does not have.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from broker.settings.config import BrokerConfig
from ottla.cli import main
from support.broker import ROOT
from support.checkout import checkout_only

pytestmark = checkout_only
FILE = ROOT / "docs" / "deploy" / "kubernetes.yaml"
SCHEMA = ROOT / "tests" / "support" / "kubernetes-1.34.json"


@cache
def resources() -> dict[tuple[str, str], Any]:
    """The resources of the file by kind and name."""
    found = list(YAML(typ="safe").load_all(FILE))
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


@cache
def validator() -> Draft7Validator:
    return Draft7Validator(json.loads(SCHEMA.read_text()))


def container_of(name: str) -> Any:
    (found,) = resources()["StatefulSet", name]["spec"]["template"]["spec"]["containers"]
    return found


def test_every_resource_fits_the_schema() -> None:
    for one in resources().values():
        validator().validate(one)


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("spec", "template", "spec", "containers", 0), "readynessProbe", {}),
        (("spec", "template", "spec", "containers", 0, "ports", 0), "containerPort", "kafka"),
        (("spec",), "replicas", "three"),
        ((), "apiVersion", "apps/v2"),
        ((), "kind", None),
    ],
)
def test_the_schema_finds_mistakes(path: tuple[str | int, ...], key: str, value: object) -> None:
    one = json.loads(json.dumps(resources()["StatefulSet", "ottla"]))
    part = one
    for step in path:
        part = part[step]
    part[key] = value
    assert not validator().is_valid(one)


@pytest.mark.parametrize("name", ["ottla", "ottla-registry"])
def test_selectors_labels_ports_and_volumes_fit_each_other(name: str) -> None:
    spec = resources()["StatefulSet", name]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert ("Service", spec["serviceName"]) in resources()
    ports = {port["name"] for port in container_of(name)["ports"]}
    for (kind, _), one in resources().items():
        if kind == "Service" and one["spec"]["selector"] == labels:
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= ports
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        for target in container_of(name).get(probe, {}).values():
            assert not isinstance(target, dict) or target["port"] in ports
    volumes = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    volumes |= {one["name"] for one in spec["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container_of(name)["volumeMounts"]} == volumes


@pytest.mark.parametrize("name", ["ottla", "ottla-registry"])
def test_pods_have_no_privileges(name: str) -> None:
    """The rules of the restricted Pod Security Standard, and the user of the image."""
    pod = resources()["StatefulSet", name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 1000
    own = container_of(name)["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert re.findall(r"^USER (.*)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[-1] == "1000:1000"


def environment_of(ordinal: int) -> dict[str, str]:
    """The variables of a broker's pod, as Kubernetes makes them."""
    fields = {
        "metadata.name": f"ottla-{ordinal}",
        "metadata.namespace": "kafka",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
    }
    found: dict[str, str] = {}
    for one in container_of("ottla")["env"]:
        value = fields[one["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in one else one["value"]
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
    return found


def test_the_settings_of_each_broker(tmp_path: Path) -> None:
    (lines,) = re.findall(r"printf '%s\\n' \\\n +(.*) > ", (ROOT / "Dockerfile").read_text())
    file = tmp_path / "server.properties"
    file.write_text("\n".join(lines.split()))
    for ordinal in range(resources()["StatefulSet", "ottla"]["spec"]["replicas"]):
        config = BrokerConfig.load(file, environment=environment_of(ordinal))
        assert config.warnings == []
        assert config.broker_id == ordinal
        (advertised,) = config.advertised_listeners
        assert advertised.host == f"ottla-{ordinal}.ottla.kafka.svc.cluster.local"
        ports = {port["name"]: port["containerPort"] for port in container_of("ottla")["ports"]}
        assert (advertised.port, config.listeners[0].port) == (ports["kafka"], ports["kafka"])
        assert config.ottla_console_listener is not None
        assert config.ottla_console_listener.port == ports["console"]
        (registry,) = resources()["Service", "ottla-registry"]["spec"]["ports"]
        assert config.zookeeper_connect == f"ottla-registry:{registry['port']}"
        mounts = [Path(mount["mountPath"]) for mount in container_of("ottla")["volumeMounts"]]
        assert config.log_dirs[0].parent in mounts  # not the mount itself: it may have a folder lost+found
        assert config.offsets_topic_replication_factor == 3


def test_the_probes_and_the_end_of_a_pod() -> None:
    container = container_of("ottla")
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"  # not /readyz: see docs/operations.md
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 3600  # a recovery must not be killed
    grace_s = resources()["StatefulSet", "ottla"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > 100  # controlled shutdown tries for about 100 s without a controller


def test_the_command_of_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = container_of("ottla-registry")["args"]
    assert main([*arguments, "--help"]) in (0, None)
    assert "ottla registry" in capsys.readouterr().out
    (port,) = container_of("ottla-registry")["ports"]
    assert arguments[arguments.index("--port") + 1] == str(port["containerPort"])
