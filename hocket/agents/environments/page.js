// What one may act on in a page, in words, and acting on it: clicks, texts, and choices from a list.
(() => {
  const aside = new Set(["reward-display", "sync-task-cover", "click-canvas", "query"]);
  const shapes = new Set(["rect", "circle", "ellipse", "polygon", "path", "line", "text"]);
  const whole = new Set(["button", "a", "input", "textarea"]);
  const silent = new Set(["script", "style", "br", "hr", "canvas", "noscript"]);
  const plain = (text) => (text || "").replace(/\s+/g, " ").trim();
  const own = (element) =>
    plain([...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(" "));
  const tag = (element) => element.tagName.toLowerCase();
  // A picture that a style puts there may not be loaded yet; it counts as seen all the same.
  const pictured = (element) => getComputedStyle(element).content.startsWith("url");
  const visible = (element) => {
    if (!element.checkVisibility({ visibilityProperty: true })) return false;
    const box = element.getBoundingClientRect();
    return (box.width > 0 && box.height > 0) || [element, ...element.querySelectorAll("*")].some(pictured);
  };
  const heard = (element) =>
    !!element.onclick || Object.keys(element).some((name) => name.startsWith("__onclick")) ||
    !!(window.jQuery && jQuery._data && (jQuery._data(element, "events") || {}).click);

  const walk = (element, found) => {
    const name = tag(element);
    if (aside.has(element.id) || silent.has(name)) return;
    if (name === "select") return void found.push(...element.options);
    if (!visible(element)) return;
    if (whole.has(name) || shapes.has(name)) return void found.push(element);
    const before = found.length;
    const text = own(element);
    const at = found.length;
    for (const child of element.children) walk(child, found);
    const empty = found.length === before;
    if (text || (empty && (heard(element) || element.className))) found.splice(at, 0, element);
  };

  const words = (element) => {
    const name = tag(element);
    if (name === "option") return `option ${plain(element.text)}${element.selected ? " (chosen)" : ""}`;
    if (name === "input" && ["checkbox", "radio"].includes(element.type))
      return `${element.type}${element.checked ? " (on)" : ""}`;
    if (name === "input" && !["button", "submit"].includes(element.type))
      return `${element.type} field "${element.value}"`;
    if (name === "input") return `button ${element.value}`;
    if (name === "textarea") return `text field "${element.value}"`;
    if (shapes.has(name)) return plain(`${name} ${element.getAttribute("fill") || ""} ${own(element)}`);
    const text = whole.has(name) ? plain(element.textContent) : own(element);
    const said = text || plain(String(element.className)) || element.id;
    return `${{ a: "link", button: "button" }[name] || "text"} ${said}`;
  };

  const list = () => {
    const found = [];
    for (const child of document.body.children) walk(child, found);
    return found;
  };

  const fire = (element, kinds, make) =>
    kinds.forEach((kind) => element.dispatchEvent(new make(kind, { bubbles: true, cancelable: true })));

  const click = (element) => {
    if (tag(element) === "option") {
      const menu = element.closest("select");
      element.selected = menu.multiple ? !element.selected : true;
      return fire(menu, ["input", "change"], Event);
    }
    fire(element, ["mouseover", "mousedown"], MouseEvent);
    if (element.focus) element.focus();
    fire(element, ["mouseup"], MouseEvent);
    if (element.click) element.click();
    else fire(element, ["click"], MouseEvent);
  };

  const type = (element, text) => {
    element.focus();
    const owner = element.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(owner.prototype, "value").set.call(element, text);
    fire(element, ["keydown", "keypress"], KeyboardEvent);
    fire(element, ["input"], Event);
    fire(element, ["keyup"], KeyboardEvent);
    fire(element, ["change"], Event);
  };

  const asked = () => {
    const found = core.getUtterance();
    return plain(typeof found === "string" ? found : found.utterance);
  };

  // What was told last: a move is about that, whatever the page has done since.
  let shown = [];

  const told = () => ({
    asked: asked(),
    elements: (shown = list()).map((element) => [
      words(element),
      (tag(element) === "input" && !["checkbox", "radio", "button", "submit"].includes(element.type)) ||
        tag(element) === "textarea",
    ]),
    over: WOB_DONE_GLOBAL,
    reward: WOB_RAW_REWARD_GLOBAL,
  });
  // A move lasts a second of the page's own clock, and what it made appear is there when it is told.
  const pause = () => new Promise((then) => pageClock.later(then, 0));
  const settled = async () => {
    await pause();
    pageClock.advance(1000);
    await pause();
    await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
    return told();
  };

  window.hocket = {
    begin(seed) {
      if (window.jQuery) jQuery.fx.off = true;
      pageClock.reset();
      core.EPISODE_MAX_TIME = 2e9;
      Math.seedrandom(seed);
      core.startEpisodeReal();
      return settled();
    },
    act(place, text) {
      const element = shown[place];
      if (text === null) click(element);
      else type(element, text);
      return settled();
    },
  };
})();
