// Mantine without style elements of its own, which the Content Security Policy refuses: its variables are in theme.css.
import { createTheme, type MantineColorSchemeManager } from "@mantine/core";

const KEPT = "pai-color-scheme";

export const theme = createTheme({
  primaryColor: "indigo",
  // White text on the sixth shade has a contrast of 4.4.
  primaryShade: 7,
  defaultRadius: "md",
  fontFamily: "var(--mantine-font-family)",
  respectReducedMotion: true,
  components: {
    // These would lock scrolling with a style element.
    Modal: { defaultProps: { lockScroll: false, radius: "lg", transitionProps: { duration: 120 } } },
    Drawer: { defaultProps: { lockScroll: false, transitionProps: { duration: 120 } } },
    Tooltip: { defaultProps: { openDelay: 250 } },
  },
});

export const colorSchemes: MantineColorSchemeManager = {
  get: (otherwise) => {
    const kept = localStorage.getItem(KEPT);
    return kept === "light" || kept === "dark" || kept === "auto" ? kept : otherwise;
  },
  set: (value) => localStorage.setItem(KEPT, value),
  subscribe: () => undefined,
  unsubscribe: () => undefined,
  clear: () => localStorage.removeItem(KEPT),
};
