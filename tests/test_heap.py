"""The search among objects that nobody knows."""

import weakref

from support.heap import instances


class Kept:
    pass


def test_what_has_gone_behind_a_proxy_is_passed_over():
    kept, gone = Kept(), Kept()
    proxies = [weakref.proxy(kept), weakref.proxy(gone)]
    del gone
    assert list(instances(Kept, [*proxies, kept, 5])) == [kept]
