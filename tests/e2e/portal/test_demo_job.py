"""The demo's job through the portal alone: submitted as a file, watched in its log while it trains, and stopped.

A screen reader finds each control by role and name on the way, and hears what changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect, settled
from tests.e2e.server import ROOT, Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
JOB_FILE = ROOT / "examples" / "04-distributed-training.yaml"
EPOCH = "losses = []"
"""How each epoch of its parameter server begins."""

PASTE = """(editor, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  editor.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def real(tmp_path: Path, built: None) -> Iterator[Server]:
    """Return a platform that runs tasks as processes of this machine."""
    pytest.importorskip("sklearn", reason="scikit-learn, with which the demo's job trains")
    found = Server.start(tmp_path / "real")
    yield found
    found.stop_jobs()
    found.end()


def test_the_demos_job_is_submitted_watched_and_stopped(real: Server, browser: Any) -> None:
    visitor = Visitor(browser, real.url)
    visitor.log_in()
    page = visitor.page
    settled(page, "/submit")
    editor = page.get_by_role("textbox", name="Job file")
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    # Far more epochs than the test waits for, so that it is stopped while it trains; slow ones, which need little.
    text = JOB_FILE.read_text("utf-8").replace("epochs: 60", "epochs: 100000")
    assert text.count(EPOCH) == 1
    editor.evaluate(PASTE, text.replace(EPOCH, f"{EPOCH}; time.sleep(0.2)"))
    expect(page.get_by_label("Name", exact=True)).to_have_value("distributed-training")
    expect(page.get_by_role("status").filter(has_text="The server accepts this file")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="distributed-training", level=1).wait_for()
    page.get_by_role("tab", name="Logs").click()
    log = page.get_by_role("log", name="Log")
    # An epoch takes milliseconds and the page follows the newest lines: which ones it shows depends on the machine.
    expect(log).to_contain_text(re.compile(r"epoch=\d+/100000 loss="))
    page.get_by_role("combobox", name="Task").select_option(label="worker-0")
    expect(page.get_by_role("log", name="Log")).to_contain_text(re.compile(r"epoch=\d+ loss="))
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop distributed-training?")
    expect(dialog.get_by_role("button", name="Copy as command")).to_have_attribute(
        "title", "pai job stop admin~distributed-training"
    )
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    expect(page.get_by_text("Stopped", exact=True).first).to_be_visible()
    visitor.close()
    assert visitor.complaints == []
