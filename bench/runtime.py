"""What the runtime adds to a task: the wrapper and the script around a command, against the bare command.

`python -m bench.runtime` runs `true` under the wrapper and by itself, in turns, so that a busy machine disturbs both
alike. The figure is the median of the differences of neighbours. The bar: 15 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from openpai.runtime.script import user_script, wrapper

TIMES = 100


def took_ms(command: list[str]) -> float:
    """Return how long a command runs, as the leader of a process group of its own."""
    began = time.perf_counter()
    subprocess.run(command, check=False, process_group=0, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.perf_counter() - began) * 1000


def wrapped(root: Path, number: int, script: Path) -> list[str]:
    """Return the command of a task attempt with directories of its own."""
    places = [root / str(number) / name for name in ("task", "logs", "work")]
    for place in places:
        place.mkdir(parents=True)
    (places[0] / "user.sh").write_text(user_script("true"))
    return ["sh", str(script), *map(str, places), "30"]


def main() -> None:
    """Measure, and print the figures as one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES)
    times = parser.parse_args().times
    bare, both = [], []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        script = root / "wrapper.sh"
        script.write_text(wrapper())
        for number in range(times):
            command = wrapped(root, number, script)
            bare.append(took_ms(["sh", "-c", "true"]))
            both.append(took_ms(command))
            if not (root / str(number) / "task" / "exit").read_text().startswith("code 0"):
                raise RuntimeError("a task did not end well")
    added = [more - less for more, less in zip(both, bare, strict=True)]
    figures = {"bare_ms": statistics.median(bare), "wrapped_ms": statistics.median(both)}
    figures["overhead_ms"] = statistics.median(added)
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
