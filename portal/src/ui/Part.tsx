// A part of a page whose code is loaded when it is shown. Where that fails, as after an upgrade of the server, which has
// other files then, the rest of the page stays with what was typed there.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { Component, Suspense, type ReactNode } from "react";
import { Note } from "./Loaded";

export class Part extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error)
      return (
        <Note icon="warn" tone="bad" title={i18n.t("This part of the page could not be loaded")}
          actions={<Button variant="default" onClick={() => location.reload()}>{i18n.t("Reload the page")}</Button>}>
          {i18n.t("The server may have a newer version of the portal. Copy what you typed, then reload the page.")}
        </Note>
      );
    const waiting = <div role="status" aria-busy="true">{i18n.t("Loading")}</div>;
    return <Suspense fallback={waiting}>{this.props.children}</Suspense>;
  }
}
