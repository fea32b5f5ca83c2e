// Starts the portal.
import "@mantine/core/styles.css";
import "./app/theme.css";
import { createRoot } from "react-dom/client";
import { part } from "./api/parts";
import { App } from "./app/App";
import { activate, preferred } from "./app/language";

// A browser that remembers what did not arrive needs a new page, as `first.js` loads one for what the page names itself.
void part(() => activate(preferred())).then(() => {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App />);
}, () => location.reload());
