// The terminal's library writes style elements and style attributes, which the Content Security Policy refuses. While a
// terminal is open, both become what scripts may set: a constructed style sheet, and the properties of an element.

/** Lets style elements and the style attributes of spans be written by scripts, until the returned function is called. */
export function allowScriptedStyles(): () => void {
  const sheets = new Set<CSSStyleSheet>();
  const drop = (sheet: CSSStyleSheet) => {
    sheets.delete(sheet);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
  };
  const styleElement = (): HTMLElement => {
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const element = Document.prototype.createElement.call(document, "template");
    let text = "";
    const content = {
      get: () => text,
      set: (value: string) => {
        text = value;
        sheet.replaceSync(value);
      },
    };
    Object.defineProperties(element, { textContent: content, innerText: content, sheet: { get: () => sheet } });
    element.remove = () => {
      drop(sheet);
      HTMLElement.prototype.remove.call(element);
    };
    return element;
  };
  document.createElement = ((name: string, options?: ElementCreationOptions) =>
    name === "style" ? styleElement() : Document.prototype.createElement.call(document, name, options)) as typeof document.createElement;
  HTMLSpanElement.prototype.setAttribute = function (this: HTMLSpanElement, name: string, value: string) {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
  return () => {
    Reflect.deleteProperty(document, "createElement");
    Reflect.deleteProperty(HTMLSpanElement.prototype, "setAttribute");
    sheets.forEach(drop);
  };
}
