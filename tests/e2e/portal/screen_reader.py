"""What a screen reader would say of the portal: of what has the focus, and of live regions that change.

Names, roles, states and descriptions are those that Chromium computes and gives to screen readers. Live regions follow
ARIA: a region is announced when its content changes, but not for what it held as it appeared, unless it is an alert.
"""

from __future__ import annotations

from typing import Any, Final

from tests.e2e.portal.browsing import WITHIN_MS

_LISTEN: Final = """
(() => {
  window.heard = [];
  const said = new Map();
  const implied = { status: "polite", log: "polite", alert: "assertive" };
  const politeness = region => region.getAttribute("aria-live") ?? implied[region.getAttribute("role")];
  const waiting = new Map();
  const text = node => (node instanceof Element ? node.innerText ?? "" : node.textContent ?? "").trim();
  const say = () => {
    for (const [region, added] of waiting) {
      if (!region.isConnected || politeness(region) === "off" || region.closest("[aria-busy=true]")) continue;
      const atomic = region.getAttribute("aria-atomic") ?? String(region.matches("[role=status],[role=alert]"));
      const isWhole = atomic === "true";
      const found = isWhole ? text(region) : [...added].filter(node => node.isConnected).map(text).join("\\n").trim();
      if (found && !(isWhole && said.get(region) === found)) window.heard.push(found.replaceAll(/\\s+/g, " "));
      said.set(region, found);
    }
    waiting.clear();
  };
  const fresh = new WeakSet();
  const observer = new MutationObserver(changes => {
    const appeared = changes.flatMap(change => [...change.addedNodes]).filter(node => node instanceof Element);
    for (const node of appeared)
      for (const region of [node, ...node.querySelectorAll("[aria-live],[role=status],[role=log]")]) {
        if (!region.matches("[aria-live],[role=status],[role=log]")) continue;
        fresh.add(region);
        said.set(region, text(region));
      }
    for (const change of changes) {
      const start = change.target instanceof Element ? change.target : change.target.parentElement;
      const nodes = change.type === "childList" ? [...change.addedNodes] : [change.target];
      for (const node of nodes.filter(node => node instanceof Element))
        for (const alert of [node, ...node.querySelectorAll("[role=alert]")])
          if (alert.matches("[role=alert]")) waiting.set(alert, new Set());
      const region = start?.closest("[aria-live],[role=status],[role=log],[role=alert]");
      if (!region || fresh.has(region)) continue;
      waiting.set(region, new Set([...(waiting.get(region) ?? []), ...nodes]));
    }
    for (const node of appeared)
      for (const region of [node, ...node.querySelectorAll("*")]) fresh.delete(region);
    if (waiting.size) requestAnimationFrame(say);
  });
  observer.observe(document, { subtree: true, childList: true, characterData: true });
})()
"""
_FOCUSED: Final = """
(() => {
  let found = document.activeElement;
  while (found?.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  const option = found?.getAttribute("aria-activedescendant");
  return (option && document.getElementById(option)) || found;
})()
"""
_STATES: Final = ("checked", "expanded", "selected", "invalid", "disabled", "pressed", "hasPopup")
_QUIET: Final = (False, "false", "")


class ScreenReader:
    """Somebody who uses the portal with the keyboard and hears it; made before the first page is opened."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.add_init_script(_LISTEN)
        self._protocol = page.context.new_cdp_session(page)
        self._protocol.send("Accessibility.enable")

    def focused(self) -> str:
        """Return what is said of what has the focus: name, role, states, value and description."""
        found = self._protocol.send("Runtime.evaluate", {"expression": _FOCUSED})["result"]["objectId"]
        tree = self._protocol.send("Accessibility.getPartialAXTree", {"objectId": found, "fetchRelatives": False})
        node = tree["nodes"][0]
        states = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
        words = [node.get("name", {}).get("value", ""), node.get("role", {}).get("value", "")]
        words += [
            name if states[name] in (True, "true") else f"{name} {states[name]}"
            for name in _STATES
            if states.get(name, "") not in _QUIET or (name == "checked" and name in states)
        ]
        words += [str(node[part]["value"]) for part in ("value", "description") if node.get(part, {}).get("value")]
        return ", ".join(" ".join(str(word).split()) for word in words)

    def press(self, *keys: str) -> str:
        """Press keys, and return what is said of what has the focus then."""
        for key in keys:
            self.page.keyboard.press(key)
        return self.focused()

    def tab_to(self, wanted: str, *, back: bool = False) -> str:
        """Press Tab until something is spoken that begins like this; every stop on the way must have a name."""
        passed: list[str] = []
        for _ in range(60):
            spoken = self.press("Shift+Tab" if back else "Tab")
            if spoken.startswith(wanted):
                return spoken
            assert not spoken.startswith(", "), f"no name: {spoken} after {passed[-1:]}"
            passed.append(spoken)
        raise AssertionError(f"no {wanted!r} among {passed}")

    def type(self, text: str) -> None:
        """Type over what the field holds."""
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    def hear(self, text: str) -> str:
        """Wait until something with this text is announced; return it, and forget what was announced before."""
        found = "text => window.heard.some(one => one.includes(text))"
        try:
            self.page.wait_for_function(found, arg=text, timeout=WITHIN_MS)
        except Exception as error:
            raise AssertionError(f"never heard {text!r}, but {self.page.evaluate('window.heard')}") from error
        announced = self.page.evaluate(
            "text => window.heard.splice(0, window.heard.findIndex(one => one.includes(text)) + 1).at(-1)", text
        )
        return str(announced)

    def heard(self) -> list[str]:
        """Return what was announced since, and forget it."""
        return list(self.page.evaluate("window.heard.splice(0)"))
