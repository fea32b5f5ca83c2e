"""The portal in a real browser: how soon a page is there and shows what changed, and how it bears a million jobs.

`python -m bench.portal` starts a platform on a database of 1,000,000 jobs, which `bench.filling` writes, and one with a
log of 10 GB. Figures are what a user of Chromium on this machine sees: first paint and the moment from which a page
answers (a new browser each time, nothing cached), the sizes of what is loaded, from a change at the server to its
pixels, the same in the tab in front of 19 others on several pages, with the connections they need, and in 20 windows, a
jump to the oldest job, and a jump to any line of the log.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from bench.filling import fill
from bench.logs import ended, write
from bench.server import PASSWORD, Server, answer, job, percentile, platform

BUILT: Final = Path(__file__).resolve().parents[1] / "src" / "openpai" / "portal"
TABS: Final = 20
ESTABLISHED: Final = "01"
SAMPLES: Final = 25
"""Seconds in which connections are counted: servers close those that are idle for 5 s."""
OPTIONS: Final = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
WINDOW: Final = {"width": 1280, "height": 800}
BEHIND: Final = ("/", "/jobs", "/queue", "/cluster", "/jobs/admin~behind")
"""The pages of the tabs behind the one in front."""
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
SEEN: Final = """
([selector, text]) => new Promise(done => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].some(one => one.textContent.includes(text));
    if (found) requestAnimationFrame(() => done(Date.now()));
    return found;
  };
  if (look()) return;
  const watch = new MutationObserver(() => { if (look()) watch.disconnect(); });
  watch.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
})
"""


def sizes() -> dict[str, float]:
    """Return what the first page loads, and the largest page of the others, in KB as gzip sends them."""
    kb = {path.name: len(gzip.compress(path.read_bytes(), 9)) / 1000 for path in BUILT.glob("assets/*.js")}
    first = (BUILT / "index.html").read_text()
    initial = set(re.findall(r"assets/([\w.-]+\.js)", first))
    styles = re.findall(r"assets/([\w.-]+\.css)", first)
    others = {name: size for name, size in kb.items() if name not in initial}
    return {
        "initial_script_kb": round(sum(kb[name] for name in initial), 1),
        "css_kb": round(
            sum(len(gzip.compress((BUILT / "assets" / name).read_bytes(), 9)) for name in styles) / 1000, 1
        ),
        "largest_chunk_kb": round(max(others.values()), 1),
    }


JUMP: Final = """
share => new Promise(done => {
  const table = document.querySelector("[role=table][aria-rowcount]");
  const last = Number(table.getAttribute("aria-rowcount"));
  const began = performance.now();
  table.scrollTop = share * table.scrollHeight;
  const look = () => {
    const rows = [...table.querySelectorAll("[role=row][aria-rowindex]")];
    const wanted = rows.find(row => Number(row.getAttribute("aria-rowindex")) === (share ? last : 2));
    if (wanted?.querySelector("a")) requestAnimationFrame(() => done(performance.now() - began));
    else requestAnimationFrame(look);
  };
  look();
})
"""
LINE: Final = """
step => new Promise(done => {
  const input = document.querySelector("input[type=range]");
  const text = () => document.querySelector("[role=log] [data-at]")?.textContent;
  const before = text();
  const began = performance.now();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, String(step));
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const look = () => {
    const found = text();
    if (found && found !== before) requestAnimationFrame(() => done(performance.now() - began));
    else requestAnimationFrame(look);
  };
  look();
})
"""


async def logged_in(browser: Browser, server: Server) -> BrowserContext:
    """Return a browser with nothing cached and a login."""
    context = await browser.new_context(viewport=WINDOW, reduced_motion="reduce")  # type: ignore[arg-type]
    await log_in(context, server)
    return context


async def log_in(context: BrowserContext, server: Server) -> None:
    """Log in as the portal does, without its page."""
    context.set_default_timeout(120_000)
    login = {"username": "admin", "password": PASSWORD}
    found = await context.request.post(f"{server.url}/api/v2/authn/browser/login", data=login)
    key = (await found.json())["pageKey"]
    await context.add_init_script(f"localStorage['pai-page-key'] ??= {key!r}")


async def opening(browser: Browser, server: Server, times: int) -> dict[str, float]:
    """Return the median of first paint, and of the moment when the list is there and answers to a key."""
    paints, answers = [], []
    for _ in range(times):
        context = await logged_in(browser, server)
        page = await context.new_page()
        await page.goto(f"{server.url}/jobs", wait_until="commit")
        await page.get_by_role("row").get_by_role("link").nth(2).wait_for()
        answers.append(await page.evaluate("performance.now()"))
        paints.append(await page.evaluate(PAINT))
        await context.close()
    return {"first_paint_ms": round(percentile(paints, 0.5)), "interactive_ms": round(percentile(answers, 0.5))}


async def changing(pages: list[Page], server: Server, times: int, name: str) -> list[float]:
    """Return from the moment of each stop until each of the pages shows it, in milliseconds."""
    took_ms: list[float] = []
    for number in range(times):
        # Servers close connections that are idle while the pages load.
        connection = await server.connect()
        full = f"{name}-{server.pid}-{number}"
        await connection.ask("POST", "/api/v2/jobs", job(full, "sleep 1h"))
        for page in pages:
            await followed(page, f"{server.url}/jobs/admin~{full}")
            await page.locator("h1 [data-state=RUNNING]").wait_for()
        connection.close()
        seen = [asyncio.create_task(page.evaluate(SEEN, ["h1", "Stopped"])) for page in pages]
        await asyncio.sleep(random.Random(number).uniform(0.3, 0.6))
        place = f"/api/v2/jobs/admin~{full}"
        connection = await server.connect()
        await connection.ask("PUT", f"{place}/executionType", b'{"value":"STOP"}', "application/json")
        connection.close()
        found = [await each for each in seen]
        detail = await server.get(place)
        took_ms += [at_ms - detail["jobStatus"]["completedTime"] for at_ms in found]
    return took_ms


async def followed(page: Page, address: str) -> None:
    """Open an address, and wait until its page is there and follows the changes."""
    await page.goto(address)
    await page.locator("html[data-live=true]").wait_for(state="attached")
    await page.locator("main h1").first.wait_for()


async def in_front(server: Server, times: int) -> dict[str, float]:
    """Return how late the tab in front of a window sees a change, and the streams of all its tabs."""
    connection = await server.connect()
    await connection.ask("POST", "/api/v2/jobs", job("behind", "sleep 1h"))
    connection.close()
    async with window() as context:
        await log_in(context, server)
        pages = [await context.new_page() for _ in range(TABS)]
        for page, path in zip(pages[1:], cycle(BEHIND), strict=False):
            await page.bring_to_front()
            await followed(page, server.url + path)
        await pages[0].bring_to_front()
        took_ms = await changing(pages[:1], server, times, "tabs")
        states = [await page.evaluate("document.visibilityState") for page in pages]
        if states != ["visible"] + ["hidden"] * (TABS - 1):
            raise RuntimeError(f"one tab must be in front of the others: {states}")
        return {"tabs_change_p95_ms": round(percentile(took_ms, 0.95)), "tabs_streams": await streams(server)}


async def listing(page: Page, url: str, times: int) -> float:
    """Return the 95th percentile of jumps of the scroll bar to the oldest job and to the newest one."""
    await page.goto(f"{url}/jobs?sort=submissionTime,DESC")
    await page.locator("[role=table] [role=row] a").first.wait_for()
    took_ms: list[float] = []
    for _ in range(times):
        for share in (1, 0):
            took_ms.append(await page.evaluate(JUMP, share))
            await asyncio.sleep(0.1)
    return percentile(took_ms, 0.95)


async def reading(page: Page, url: str, times: int) -> dict[str, float]:
    """Return the 95th percentile of jumps to any line of a log, and the memory of the tab afterwards."""
    await page.goto(f"{url}/jobs/admin~large?tab=logs")
    await page.get_by_label("Position in the log").wait_for()
    took_ms = [await page.evaluate(LINE, step) for step in random.Random(1).sample(range(5, 995), times)]
    memory = await page.evaluate("performance.memory.usedJSHeapSize")
    return {"line_p95_ms": round(percentile(took_ms, 0.95)), "log_tab_mb": round(memory / 1e6, 1)}


async def streams(server: Server) -> int:
    """Return how many connections the browser always keeps open: those that follow the changes.

    Others come and go, as pages ask for what has no changes to follow.
    """
    port = f":{int(server.url.rpartition(':')[2]):04X}"
    counts: list[int] = []
    for _ in range(SAMPLES):
        await asyncio.sleep(1)
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        counts.append(sum(1 for row in rows if row[1].endswith(port) and row[3] == ESTABLISHED))
    return min(counts)


@asynccontextmanager
async def filled(options: argparse.Namespace) -> AsyncIterator[Server]:
    """Start a platform on a database of as many jobs; one that is kept is filled only once."""
    root = Path(options.keep or tempfile.mkdtemp(prefix="pai-bench-portal-"))
    database = root / "data" / "openpai.db"
    try:
        if not database.exists():
            database.parent.mkdir(parents=True)
            await asyncio.to_thread(fill, f"sqlite:///{database}", options.jobs)
        async with platform("--backend", "simulated", keep=root) as server:
            yield server
    finally:
        if not options.keep:
            shutil.rmtree(root, ignore_errors=True)


async def lists(options: argparse.Namespace) -> dict[str, float]:
    """Measure how soon the list of all jobs is there, and jumps in it."""
    async with browser() as shown, filled(options) as server:
        figures = await opening(shown, server, options.times)
        context = await logged_in(shown, server)
        figures["jump_p95_ms"] = round(await listing(await context.new_page(), server.url, options.times))
    return figures


async def changes(options: argparse.Namespace) -> dict[str, float]:
    """Measure when a change is seen in one tab, in the tab in front of others, and in windows."""
    figures: dict[str, float] = {}
    async with browser() as shown, filled(options) as server:
        context = await logged_in(shown, server)
        page = await context.new_page()
        took_ms = await changing([page], server, options.times, "one")
        figures["change_p50_ms"] = round(percentile(took_ms, 0.5))
        figures["change_p95_ms"] = round(percentile(took_ms, 0.95))
        await page.close()
        figures |= await in_front(server, options.times)
        # A context without a window shows every page.
        pages = [await context.new_page() for _ in range(TABS)]
        took_ms = await changing(pages, server, max(options.times // 10, 1), "windows")
        figures["windows_change_p95_ms"] = round(percentile(took_ms, 0.95))
    return figures


async def log(options: argparse.Namespace) -> dict[str, float]:
    """Measure jumps in a large log."""
    async with browser() as shown, platform("--backend", "simulated", "--log-max-mb", "0") as server:
        large = await ended(server, "large")
        (server.data_dir / "logs" / large).mkdir(parents=True, exist_ok=True)
        write(server.data_dir / "logs" / large, int(options.gb * 1e9))
        return await reading(await (await logged_in(shown, server)).new_page(), server.url, options.times)


PARTS: Final = {"lists": lists, "changes": changes, "log": log}


async def measure(options: argparse.Namespace) -> None:
    """Measure, and print the figures."""
    figures: dict[str, float] = dict(sizes())
    for part in options.part or PARTS:
        figures |= await PARTS[part](options)
    answer(jobs=options.jobs, gb=options.gb, tabs=TABS, **figures)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Start Chromium, and end it."""
    async with async_playwright() as driver:
        found = await driver.chromium.launch(executable_path=chromium(), args=OPTIONS)
        yield found
        await found.close()


@asynccontextmanager
async def window() -> AsyncIterator[BrowserContext]:
    """Start a Chromium whose tabs are those of one window: only the one in front is visible, and drawn.

    Pages that Playwright starts by itself are all visible.
    """
    async with async_playwright() as driver:
        with tempfile.TemporaryDirectory(prefix="pai-bench-window-", ignore_cleanup_errors=True) as profile:
            options = ["--headless", "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
            size = f"--window-size={WINDOW['width']},{WINDOW['height']}"
            process = await asyncio.create_subprocess_exec(
                chromium(), *OPTIONS, *options, size, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                found = await driver.chromium.connect_over_cdp(await address(Path(profile), process), no_defaults=True)
                yield found.contexts[0]
                await found.close()
            finally:
                process.terminate()
                await process.wait()


async def address(profile: Path, process: asyncio.subprocess.Process) -> str:
    """Return where a browser with this profile is driven, once it says so."""
    port = profile / "DevToolsActivePort"
    while not port.exists() or not port.read_text().strip():
        if process.returncode is not None:
            raise RuntimeError(f"Chromium did not start: {process.returncode}")
        await asyncio.sleep(0.05)
    return f"http://127.0.0.1:{port.read_text().split()[0]}"


def chromium() -> str:
    """Return the path of Chromium."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("this needs Chromium: apt install chromium")
    return path


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; all unless given")
    parser.add_argument("--keep", help="a directory in which the database is filled once, and used again")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
