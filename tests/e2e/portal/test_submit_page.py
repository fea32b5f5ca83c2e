"""The page that submits a job: form and file in step, its code, what the cluster has for it, and secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from openpai.client.code import code_of
from openpai.client.sending import list_code
from tests.e2e.portal.browsing import BOTH, ELSEWHERE, WITHIN_MS, Visitor, expect
from tests.e2e.server import PASSWORD, Server, until

pytestmark = pytest.mark.slow
SHARES_SERVER = True
SECRET: Final = "hunter2-correct-horse"


def _file(page: Any) -> Any:
    return page.get_by_label("Job file")


@pytest.mark.full
def test_the_wizard_writes_a_distributed_job_and_says_whether_it_would_start(visitor: Visitor, server: Server) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_text("It would start now.").wait_for()
    page.get_by_label("Virtual cluster").select_option("vision")
    page.locator("label", has_text="Distributed").click()
    page.get_by_label("GPUs of a task").fill("4")
    page.get_by_label("Nodes").fill("2")
    page.get_by_label("Program and its arguments").fill("train.py --epochs 3")
    expect(_file(page)).to_contain_text("torchrun --nnodes=$PAI_TASK_ROLE_TASK_COUNT_worker --nproc-per-node=4")
    expect(_file(page)).to_contain_text("train.py --epochs 3")
    expect(_file(page)).to_contain_text("rendezvous: 1")
    page.get_by_label("Framework").select_option("accelerate")
    expect(_file(page)).to_contain_text("accelerate launch")
    page.get_by_label("Git repository").fill("https://git.example.com/code.git")
    page.get_by_label("TensorBoard").check()
    page.get_by_label("JupyterLab").check()
    page.get_by_text("The server accepts this file for virtual cluster vision.").wait_for()
    page.get_by_text("It would start now.").wait_for()
    assert visitor.examine() == []
    answer = server.submit("in-the-way", "sleep 1000", role=_gpus(8), defaults={"virtualCluster": "vision"})
    assert answer.is_success, answer.text
    page.get_by_text("It would wait").wait_for()
    page.get_by_text("virtual cluster vision").first.wait_for()
    server.http.put("/jobs/admin~in-the-way/executionType", json={"value": "STOP"})
    until(lambda: server.state("in-the-way") == "STOPPED", "it is stopped")
    # Another file is checked at once, the same one every ten seconds.
    page.get_by_label("Nodes").fill("1")
    page.get_by_text("It would start now.").wait_for()


def _gpus(number: int) -> dict[str, Any]:
    return {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": number}}


def test_what_is_typed_in_the_file_is_in_the_form(visitor: Visitor) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    _file(page).get_by_text("name: hello").click()
    page.keyboard.press("End")
    page.keyboard.type("-typed")
    expect(page.get_by_label("Name", exact=True)).to_have_value("hello-typed")
    page.get_by_label("Git repository").fill("https://git.example.com/code.git")
    expect(_file(page)).to_contain_text("repo_uri: https://git.example.com/code.git")
    page.get_by_label("Git repository").fill("")
    expect(_file(page)).not_to_contain_text("repo_uri")


@pytest.mark.full
def test_the_editor_completes_keys_values_and_names_by_keyboard(browser: Any, server: Server) -> None:
    visitor = Visitor(browser, server.url, themes=BOTH)
    visitor.log_in()
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_text("The server accepts this file").wait_for()
    options = page.get_by_role("listbox", name="Completions").get_by_role("option")

    def choose(typed: str, name: str) -> None:
        page.keyboard.type(typed)
        option = options.filter(has_text=re.compile(f"^{re.escape(name)}"))
        option.first.wait_for()
        expect(options.and_(page.locator("[aria-selected=true]"))).to_have_text(re.compile(f"^{re.escape(name)}"))
        # The editor takes no key for a list that has just come, so that a letter too many chooses nothing from it.
        page.wait_for_function("until => Date.now() > until", arg=page.evaluate("Date.now() + 76"))
        page.keyboard.press("Enter")

    _file(page).click()
    page.keyboard.press("ControlOrMeta+End")
    choose("ex", "extras")
    choose("hived", "hivedScheduler")
    choose("jobP", "jobPriorityClass")
    choose("pr", "prod")
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    page.keyboard.type("parameters:\n  rate: 1\n")
    expect(_file(page)).to_contain_text("jobPriorityClass: prod")
    _file(page).get_by_text("virtualCluster: default").click()
    page.keyboard.press("End")
    for _ in "default":
        page.keyboard.press("Backspace")
    choose("vi", "vision")
    _file(page).get_by_text("name: hello").click()
    page.keyboard.press("End")
    page.keyboard.type("\nj")
    options.filter(has_text="jobRetryCount").wait_for()
    assert visitor.examine() == []
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+Space")
    options.filter(has_text="contributor").first.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(_file(page)).not_to_be_focused()
    page.get_by_text("The server accepts this file for virtual cluster vision.").wait_for()
    visitor.close()
    assert visitor.complaints == []


def test_a_refusal_is_tied_to_its_field_and_takes_the_focus(visitor: Visitor) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    name = page.get_by_label("Name", exact=True)
    name.fill("not a name!")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(name).to_have_attribute("aria-invalid", "true", timeout=WITHIN_MS)
    expect(name).to_be_focused()
    shown_text = name.get_attribute("aria-describedby") or ""
    assert page.locator(f"[id='{shown_text.split()[-1]}']").inner_text().strip()
    name.fill("a-name")
    expect(name).not_to_have_attribute("aria-invalid", "true", timeout=WITHIN_MS)


def test_a_secret_is_never_shown_again(visitor: Visitor, server: Server) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("with-a-secret")
    page.get_by_label("New secret").fill("token")
    page.get_by_label("Its value").fill(SECRET)
    page.get_by_role("button", name="Add the secret").click()
    page.get_by_role("button", name="Remove the secret token").wait_for()
    assert page.get_by_label("Its value").input_value() == ""
    page.get_by_label("Commands").fill("test -n <% $secrets.token %>\nsleep 1000")
    page.get_by_text("The server accepts this file").wait_for()
    # A file with secrets is kept nowhere.
    assert SECRET not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="with-a-secret", level=1).wait_for()
    page.goto("/jobs/admin~with-a-secret?tab=config")
    expect(page.locator("pre[aria-label=Configuration]")).to_contain_text("******")
    assert SECRET not in page.content()
    page.goto("/submit?clone=admin~with-a-secret")
    expect(_file(page)).to_contain_text(re.compile("with-a-secret-[0-9a-f]+"), timeout=WITHIN_MS)
    page.get_by_text("The server accepts this file").wait_for()
    assert SECRET not in page.content() + _file(page).inner_text()
    until(lambda: server.state("with-a-secret") == "RUNNING", "it runs")
    server.http.put("/jobs/admin~with-a-secret/executionType", json={"value": "STOP"})


@pytest.mark.full
def test_a_draft_outlives_its_tab_without_its_secrets(browser: Any, server: Server) -> None:
    visitor = Visitor(browser, server.url, themes=BOTH)
    visitor.log_in()
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("begun")
    page.get_by_label("New secret").fill("token")
    page.get_by_label("Its value").fill(SECRET)
    page.get_by_role("button", name="Add the secret").click()
    page.get_by_role("button", name="Remove the secret token").wait_for()
    page.get_by_role("button", name="One GPU").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("train")
    page.close()
    visitor.page = page = visitor.context.new_page()
    visitor.open("/submit", "Submit a job")
    assert SECRET not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    page.get_by_text("1 draft", exact=True).click()
    assert visitor.examine() == []
    page.get_by_role("button", name="Open the draft begun").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("begun")
    # The server asks for the value that was not kept.
    page.locator("main [role=alert]").get_by_text("is masked").first.wait_for()
    page.get_by_label("Name", exact=True).fill("begun-again")
    page.get_by_role("button", name="Hello", exact=True).click()
    page.get_by_text("1 draft", exact=True).click()
    page.get_by_role("button", name="Remove the draft begun-again").click()
    expect(page.get_by_text("1 draft", exact=True)).to_have_count(0)
    visitor.close()
    assert visitor.complaints == []


def _project(root: Path) -> Path:
    """Return a directory of code with rules, a program, a secret, and what no job needs."""
    for name, text in {
        "train.py": "print(1)\n" * 5_000, "src/run.sh": "#!/bin/sh\n", "empty": "", ".env": "TOKEN=1", "best.pt": "1",
        ".gitignore": "*.pt\n/data/\n", "src/.paiignore": "!best.pt\n!.aws/\n", "src/best.pt": "2", "data/big": "4",
        "src/.aws/config": "3", "node_modules/a/b.js": "5", ".ssh/config": "6", "venv/pyvenv.cfg": "", "venv/a.py": "7",
    }.items():  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "src/run.sh").chmod(0o755)
    return root


@pytest.mark.full
def test_code_goes_along_as_the_command_sends_it_also_over_plain_http(
    browser: Any, server: Server, tmp_path: Path
) -> None:
    visitor = Visitor(browser, server.url.replace("127.0.0.1", ELSEWHERE), themes=BOTH)
    page, sent = visitor.page, []

    def fail_once(route: Any) -> None:
        sent.append(route.request.url)
        route.fulfill(status=400, body="a proxy") if len(sent) == 1 else route.continue_()

    page.goto("/submit")
    assert not page.evaluate("isSecureContext")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("heading", name="Submit a job", level=1).wait_for()
    page.get_by_label("Name", exact=True).fill("with-code")
    page.route(
        "**/api/v2/code/*", lambda route: fail_once(route) if route.request.method == "PUT" else route.continue_()
    )
    page.get_by_label("Directory of the code").set_input_files(_project(tmp_path / "project"))
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("7 new contents were sent").wait_for()
    page.get_by_text("those of secrets: .env, .ssh/. ").wait_for()
    listed = list_code(code_of(tmp_path / "project"))
    expect(_file(page)).to_contain_text(f"code: {listed.digest}")
    assert visitor.examine() == []
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="with-code", level=1).wait_for()
    assert listed.digest in server.http.get("/jobs/admin~with-code/config").text
    page.goto("/submit")
    page.get_by_label("Directory of the code").set_input_files(tmp_path / "project")
    page.get_by_text("The server had all of it.").wait_for()
    page.get_by_role("button", name="Without code").click()
    expect(_file(page)).not_to_contain_text("code:")
    visitor.close()
    assert visitor.complaints == []


def test_a_job_is_not_submitted_twice_after_a_lost_answer(visitor: Visitor, server: Server) -> None:
    def lose(route: Any) -> None:
        if route.request.method == "POST":
            keys.append(route.request.headers["idempotency-key"])
            answer = route.fetch()
            return route.abort() if len(keys) == 1 else route.fulfill(response=answer)
        return route.continue_()

    keys: list[str] = []
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("only-once")
    page.get_by_text("The server accepts this file").wait_for()
    page.route(re.compile(r"/api/v2/jobs$"), lose)
    page.get_by_role("button", name="Submit", exact=True).click()
    until(lambda: server.http.get("/jobs/admin~only-once").is_success, "it is submitted")
    page.locator("main [role=alert]").first.wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="only-once").wait_for()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    visitor.complaints.clear()
