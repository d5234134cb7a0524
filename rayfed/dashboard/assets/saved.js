// Named views: addresses of this dashboard, which the browser keeps.
(() => {
  const KEY = "rayfed-views";
  const place = document.getElementById("views");
  const isAddress = (text) => typeof text === "string" && /^\/(?!\/)/.test(text);
  const read = () => {
    try {
      return Object.entries(JSON.parse(localStorage.getItem(KEY))).filter(([, text]) => isAddress(text));
    } catch {
      return []; // none, or the browser keeps nothing
    }
  };

  function made(tag, text, attributes = {}) {
    const element = Object.assign(document.createElement(tag), { textContent: text });
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  function entry([name, href]) {
    const line = document.createElement("li");
    const link = made("a", name, { href });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      history.pushState(null, "", href);
      location.reload(); // another fragment alone would load nothing
    });
    const remove = made("button", "×", { type: "button", "aria-label": `remove view ${name}` });
    remove.addEventListener("click", () => write(read().filter(([other]) => other !== name)));
    line.append(link, remove);
    return line;
  }

  const show = (views) => place.querySelector("ul").replaceChildren(...views.map(entry));

  function write(views) {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(views)));
    show(views);
  }

  place.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = event.target.elements.name;
    const name = field.value.trim();
    if (!name) return;
    const address = `${location.pathname}${location.search}${location.hash}`;
    write([...read().filter(([other]) => other !== name), [name, address]]);
    field.value = "";
  });
  show(read());
})();
