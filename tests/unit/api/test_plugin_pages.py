"""The pages of other servers that administrators name: which can be in a frame, and which are refused."""

from __future__ import annotations

import pytest

from openpai.api.plugin_pages import PluginPage, read_plugin_pages
from openpai.protocol.errors import BadConfiguration

PAGES = {
    "Wiki=https://wiki.example.org/": [("wiki", "https://wiki.example.org/", "https://wiki.example.org")],
    "GPUs 24 h = http://Grafana:3000/d/x?from=a,b&user={user} , 文档=HTTPS://docs.example.org:8443/?l={language}": [
        ("gpus-24-h", "http://Grafana:3000/d/x?from=a,b&user={user}", "http://grafana:3000"),
        ("文档", "HTTPS://docs.example.org:8443/?l={language}", "https://docs.example.org:8443"),
    ],
    "A=http://10.0.0.1": [("a", "http://10.0.0.1", "http://10.0.0.1")],
}
REFUSED = {
    "https://wiki.example.org": "is not a title and an address",
    "Wiki": "is not a title and an address",
    "=https://wiki.example.org": "is not a title and an address",
    "Wiki=javascript:alert(1)": "a browser does not open",
    "Wiki=//wiki.example.org": "a browser does not open",
    "Wiki=https://a.org/; script-src *": "a browser does not open",
    "Wiki=https://a.org https://b.org": "a browser does not open",
    "Wiki=https://*/": "no name of a host",
    "Wiki=https://*.example.org/": "no name of a host",
    "Wiki=https://{user}.example.org/": "no name of a host",
    "Wiki=http://[::1]:80/": "no name of a host",
    "Wiki=https:///path": "no name of a host",
    "Wiki=https://a.org:99999/": "cannot be read",
    "Wiki=https://ann:hush@a.org/": "a user or a password",
    "Wiki=https://a.org/{token}": "has {token} in its address; use one of {user}, {theme}, {language}",
    "Wiki=https://a.org, wiki!=https://b.org": "several pages of the address /pages/wiki",
    "!=https://a.org": "no letter and no digit",
    "A\x1bB=https://a.org": "no title for a menu",
    f"{'x' * 41}=https://a.org": "no title for a menu",
    ",".join(f"p{number}=https://a.org" for number in range(21)): "has 21 pages; give 20 at most",
}


@pytest.mark.parametrize("text", PAGES)
def test_each_page_has_a_word_for_its_address_and_the_origin_of_its_frame(text: str) -> None:
    found = read_plugin_pages(text)
    assert [(page.name, page.address, page.origin) for page in found] == PAGES[text]
    assert all(isinstance(page, PluginPage) and page.title.strip() == page.title for page in found)


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_a_frame_of_its_own_origin_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration) as error:
        read_plugin_pages(text)
    assert REFUSED[text] in error.value.sentence
