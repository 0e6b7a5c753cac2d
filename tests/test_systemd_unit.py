"""docs/deploy/ottla.service: systemd accepts it, and it fits what the broker does."""

import re
import subprocess
import sys

from support.broker import ROOT
from support.programs import need_systemd_analyze

UNIT = ROOT / "docs" / "deploy" / "ottla.service"
TEXT = UNIT.read_text()


def values(name):
    return re.findall(rf"^{name}=(.*)$", TEXT, flags=re.MULTILINE)


def verified(path):
    command = [need_systemd_analyze(), "verify", "--man=no", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_systemd_accepts_the_unit(tmp_path):
    here = TEXT.replace("/opt/ottla/bin/ottla", sys.executable)  # verify looks whether the program exists
    good, bad = tmp_path / "good.service", tmp_path / "bad.service"
    good.write_text(here)
    bad.write_text(here.replace("Type=notify", "Type=notices"))
    assert "good.service" not in verified(good)
    assert "notices" in verified(bad)


def test_the_service_waits_for_ready_and_for_a_clean_stop():
    assert values("Type") == ["notify"]
    assert values("TimeoutStartSec") == ["infinity"]  # a recovery must not be killed
    assert int(values("TimeoutStopSec")[0]) > 100  # controlled shutdown tries for about 100 s without a controller
    assert values("ExecStart") == ["/opt/ottla/bin/ottla broker /etc/ottla/server.properties"]
