// Named views: addresses of this dashboard, which the browser keeps.
(() => {
  const KEY = "rayfed-views";
  const place = document.getElementById("views");
  const read = () => {
    try {
      return Object.entries(JSON.parse(localStorage.getItem(KEY) ?? "{}"));
    } catch {
      return []; // another program of this address has written it
    }
  };
  const write = (views) => localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(views)));

  function made(tag, text, attributes = {}) {
    const element = Object.assign(document.createElement(tag), { textContent: text });
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  function entry([name, address]) {
    const { origin, pathname, search, hash } = new URL(address, location.origin);
    const line = document.createElement("li");
    if (origin !== location.origin) return line;
    const href = `${pathname}${search}${hash}`;
    const link = made("a", name, { href });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      history.pushState(null, "", href);
      location.reload(); // another fragment alone would load nothing
    });
    const remove = made("button", "×", { type: "button", "aria-label": `remove view ${name}` });
    remove.addEventListener("click", () => show(read().filter(([other]) => other !== name)));
    line.append(link, remove);
    return line;
  }

  function show(views) {
    write(views);
    place.querySelector("ul").replaceChildren(...views.map(entry));
  }

  place.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = event.target.elements.name;
    const name = field.value.trim();
    if (!name) return;
    const address = `${location.pathname}${location.search}${location.hash}`;
    show([...read().filter(([other]) => other !== name), [name, address]]);
    field.value = "";
  });
  show(read());
})();
