"""Which stores may replace those in use: the rules that listeners and the connections between brokers share."""

import pytest

from security.tls.contexts import client_tls, server_tls
from security.tls.errors import TlsConfigError
from security.tls.settings import TlsSettings
from security.tls.stores_in_use import ReplacementRules, StoresInUse
from support.certificates import LOCAL, authority, other_authority, server_certificate

SUBJECT = "CN=broker,O=Ottla,C=DE"
LOADERS = {"listener": lambda settings: server_tls(settings, "none"), "connections": client_tls}


@pytest.fixture
def files(tmp_path):
    server_certificate().write(tmp_path / "server.pem")
    authority().write(tmp_path / "ca.pem")
    return tmp_path


def settings(folder, trust="ca.pem", **others):
    trusted = {"truststore_type": "PEM", "truststore_location": str(folder / trust)} if trust else {}
    return TlsSettings(keystore_type="PEM", keystore_location=str(folder / "server.pem"), **trusted, **others)


def exchange(folder, issued, name="server.pem"):
    """Replace a file, as tools that renew certificates do."""
    issued.write(folder / "new.pem")
    (folder / "new.pem").replace(folder / name)


@pytest.mark.parametrize("load", LOADERS.values(), ids=list(LOADERS))
def test_a_new_certificate_of_the_same_names_is_used(files, load):
    stores = StoresInUse(settings(files), load, ReplacementRules())
    first = stores.context
    assert stores.wanted() == stores.used
    exchange(files, authority().issue(SUBJECT, sans=(*LOCAL, "another.example")))
    wanted = stores.wanted()
    assert wanted != stores.used
    stores.use(wanted, stores.successor(wanted))
    assert stores.context is not first
    assert stores.used == wanted


@pytest.mark.parametrize("load", LOADERS.values(), ids=list(LOADERS))
def test_another_subject_or_fewer_names_are_refused_unless_the_rules_allow_them(files, load):
    strict = StoresInUse(settings(files), load, ReplacementRules())
    subject = StoresInUse(settings(files), load, ReplacementRules(may_change_subject=True))
    names = StoresInUse(settings(files), load, ReplacementRules(may_lose_names=True))
    exchange(files, authority().issue("CN=other", sans=LOCAL))
    for refusing in (strict, names):
        with pytest.raises(TlsConfigError, match="the subject must stay CN=broker"):
            refusing.successor(refusing.wanted())
    subject.successor(subject.wanted())
    exchange(files, authority().issue(SUBJECT))
    for refusing in (strict, subject):
        with pytest.raises(TlsConfigError, match="must keep its alternative names"):
            refusing.successor(refusing.wanted())
    names.successor(names.wanted())


def test_a_store_neither_comes_nor_goes(files):
    stores = StoresInUse(settings(files), client_tls, ReplacementRules())
    for other in (settings(files, trust=None), TlsSettings()):
        with pytest.raises(TlsConfigError, match="nor lose it"):
            stores.successor(stores.wanted(other))


def test_stores_between_brokers_must_trust_themselves(files):
    other_authority().write(files / "other-ca.pem")
    stranger = settings(files, trust="other-ca.pem")
    alone = StoresInUse(settings(files), client_tls, ReplacementRules())
    alone.successor(alone.wanted(stranger))
    shared = StoresInUse(settings(files), client_tls, ReplacementRules(self_client_auth="required"))
    with pytest.raises(TlsConfigError, match="the trust store must accept the certificate of the key store"):
        shared.successor(shared.wanted(stranger))


def test_other_settings_wait_for_a_restart(files):
    stores = StoresInUse(settings(files), client_tls, ReplacementRules())
    assert stores.wanted(settings(files, enabled_protocols=("TLSv1.2",))) == stores.used


def test_refused_stores_are_known_until_they_change(files):
    stores = StoresInUse(settings(files), client_tls, ReplacementRules())
    (files / "server.pem").unlink()
    wanted = stores.wanted()
    stores.refuse(wanted)
    assert stores.wanted() == stores.refused
    assert stores.wanted() != stores.used
    server_certificate().write(files / "server.pem")
    assert stores.wanted() != stores.refused
