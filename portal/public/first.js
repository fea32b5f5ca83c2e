// Runs before everything else of the page.

// Sets the colours before the first paint, so that a dark screen never flashes white.
(function () {
  var chosen = null;
  try { chosen = localStorage.getItem("pai-color-scheme"); } catch (error) { chosen = null; }
  var dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();

// Loads the page again if its program or its styles did not arrive, which would leave it empty for ever. For instance, a
// browser ends what it is loading when the computer joins another network.
(function () {
  var isMissing = false;
  function later() { setTimeout(again, 1000); }
  // A reload without an answer would replace the page by one of the browser's own, which does not try again.
  function again() { fetch("/first.js", { cache: "no-store" }).then(function () { location.reload(); }, later); }
  addEventListener("error", function (event) {
    var of = event.target;
    if (isMissing || !(of instanceof HTMLScriptElement || (of instanceof HTMLLinkElement && of.rel === "stylesheet"))) return;
    // Extensions of browsers put scripts of their own into pages, which need none of them.
    if (new URL(of.src || of.href, location.href).origin !== location.origin) return;
    isMissing = true;
    later();
  }, true);
})();
