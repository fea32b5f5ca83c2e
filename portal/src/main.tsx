// Starts the portal.
import "@mantine/core/styles.css";
import "./app/theme.css";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { activate, preferred } from "./app/language";

void activate(preferred()).then(() => {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App />);
});
