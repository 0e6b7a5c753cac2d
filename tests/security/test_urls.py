"""The rules of URLs in settings, and that no error shows a password in one."""

import pytest

from security.urls import broken_rule, shown

BEGINNINGS = ("file:", "https://", "http://")


@pytest.mark.parametrize(
    "url",
    ["https://login.example/", "HTTP://login:8080", "http://[::1]:80/keys?set=1", "file:/etc/keys", "file:///a@b"],
)
def test_valid(url):
    assert broken_rule(url, *BEGINNINGS) is None


@pytest.mark.parametrize(
    ("url", "rule", "is_shown"),
    [
        ("ftp://login/", "must begin with file: or https:// or http://", True),
        ("https:login", "must begin with", True),
        ("https://", "must contain a host", True),
        ("https://:443/", "must contain a host", True),
        ("https://login/\n", "must not contain spaces", True),
        ("https://login:99999/", "is not a URL", False),
        ("https://me:hunter2/", "is not a URL", False),
        ("https://me:hunter2@[::1/", "is not a URL", False),
        ("https://me:hunter2@login/", "must not contain a user or a password", False),
        ("https://@login/", "must not contain a user or a password", False),
        ("ftp:me:hunter2@login/", "must begin with", False),
    ],
)
def test_not_valid(url, rule, is_shown):
    assert (broken_rule(url, *BEGINNINGS) or "").startswith(rule)
    assert shown(url) == (url if is_shown else "[hidden]")
