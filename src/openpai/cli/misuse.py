"""What is wrong with a value on the command line, in plain words instead of those of the library that found it."""

from __future__ import annotations

from openpai.protocol.rejections import complaint


def describe(error: Exception) -> str:
    """Return in a sentence what value of which option is wrong; empty where that is not what is wrong."""
    faults = getattr(error.__cause__, "errors", None)
    param = getattr(error, "param", None)
    if faults is None or param is None:
        return ""
    (fault, *_) = faults()
    name = next((one for one in param.opts if one.startswith("--")), param.name.upper())
    what = complaint(fault).rstrip(".")
    # Such an error names the value itself.
    return f"{name}: {what}" if fault["type"] == "value_error" else f"{name} {what}, not {str(fault['input'])[:80]!r}"
