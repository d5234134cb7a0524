// The page: the shared view, and each panel by its name.
//
// A script of a panel calls page.add(name, make). make(payload) returns an object with draw(), and
// where needed choices {kind: (value) => ...} of its buttons, listen(), and changed(what), which is
// called when something shared has changed: "view" (axes, target), "run" (the chosen run),
// "hidden" (algorithms that are not drawn), "case" (the chosen case) or "client" (the client with a history).
// Its part of the page's address is state(), an object of texts, which restore(given) reads from
// URLSearchParams. Panels without a script are `plain`.
const page = (() => {
  const data = {};
  const view = {
    targets: [], // of each case, or the only one
    hidden: new Set(),
    get target() { return this.targets[0]; },
    set target(value) { this.targets[0] = value; },
  };
  const makers = new Map();
  const panels = new Map();

  const add = (name, make) => makers.set(name, make);
  const panel = (name) => panels.get(name);
  const $$ = (selector) => [...document.querySelectorAll(selector)];

  function say(id, text) {
    const place = document.getElementById(id);
    if (place) place.textContent = text ?? "";
  }

  // The payload of the chosen case, if it has one for each case.
  const ofCase = (payload) => (payload?.cases ? payload.cases[view.case] : payload);

  // The data of the convergence figure, for each case or the whole.
  const parts = () => data.panels.convergence?.parts ?? [];

  // Writes the view into the address.
  const keep = () => address.write(data, view, [...panels.values()].map((one) => one.state?.() ?? {}));

  // Whether the server has to make what the reader has chosen; a page in one file has all.
  const lacks = () => Boolean(data.made) && (!data.made.columns.includes(view.y) || data.made.case !== view.case);

  // What a server has to make of this view, as pairs of its query.
  const asked = () => !data.made ? [] : [
    ["y", view.y],
    ...(data.cases.length ? [["case", data.cases[view.case]]] : []),
    ...$$("details[data-more][open]").map((fold) => ["open", fold.dataset.more]),
  ];

  function changed(what) {
    keep();
    if (lacks()) return live.refresh(true);
    return Promise.all([...panels.values()].map((one) => one.changed?.(what)));
  }

  // ---- panels without a script: one figure, or one of the chosen run ------------------------

  function plain(name, payload) {
    const part = () => payload?.runs?.[view.run] ?? ofCase(payload) ?? {};
    const shown = () => part().columns?.[view.y] ?? part();
    const follows = payload?.runs ? "run" : payload?.keyed ? "hidden" : null;

    function draw() {
      if (!payload) return Promise.resolve();
      const { title, figure } = shown();
      say(`${name}-title`, title);
      say(`${name}-note`, figure?.layout.meta?.note);
      return figures.drawOrClear(name, payload.keyed ? figures.without(figure, view.hidden) : figure);
    }

    function listen() {
      if (!payload?.clickable) return;
      document.getElementById(name).addEventListener("keydown", clientHistory.go);
      figures.on(name, "plotly_click", ({ points }) => {
        const part = points[0].data.meta?.part;
        if (part !== "rounds" && part !== "density") clientHistory.show(clientHistory.numbered(String(points[0].customdata[0])));
      });
    }

    const moves = (what) =>
      what === follows || (what === "case" && payload?.cases) || (what === "view" && part().columns);
    return { draw, listen, changed: (what) => (moves(what) ? draw() : undefined) };
  }

  // ---- the run that figures show ------------------------------------------------------------

  function choose(name, seed) {
    view.run = find(data.runs, name, seed);
    press("name", data.runs[view.run].name);
    press("seed", data.runs[view.run].seed);
    return changed("run");
  }

  const chosen = {
    case: (name) => ((view.case = data.cases.indexOf(name)), changed("case")),
    name: (name) => choose(name, data.runs[view.run].seed),
    seed: (seed) => choose(data.runs[view.run].name, Number(seed)),
  };

  // ---- buttons ------------------------------------------------------------------------------

  function press(kind, value) {
    $$(`select[data-${kind}]`).forEach((list) => (list.value = String(value)));
    $$(`button[data-${kind}]`).forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset[named(kind)] === String(value)));
    });
  }

  // data-personal-name is dataset.personalName.
  const named = (kind) => kind.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

  function listenChoices(choices) {
    for (const [kind, choose] of Object.entries(choices)) {
      $$(`button[data-${kind}]`).forEach((button) =>
        button.addEventListener("click", () => {
          press(kind, button.dataset[named(kind)]);
          choose(button.dataset[named(kind)]);
        }),
      );
      $$(`select[data-${kind}]`).forEach((list) => list.addEventListener("change", () => choose(list.value)));
    }
  }

  function pressHidden() {
    $$("button[data-hide]").forEach((button) => {
      button.setAttribute("aria-pressed", String(!isHidden(button.dataset.hide)));
    });
  }

  // An entry of a key is an algorithm, where many settings were swept with all of them.
  const members = (family) => data.names.filter((one) => one.family === family).map(({ name }) => name);
  const isHidden = (family) => members(family).every((name) => view.hidden.has(name));

  function toggle(family) {
    const hide = !isHidden(family);
    for (const name of members(family)) hide ? view.hidden.add(name) : view.hidden.delete(name);
    pressHidden();
    return changed("hidden");
  }

  // Reads the view from the address and presses its buttons.
  function restore() {
    const given = address.given();
    Object.assign(view, address.read(data, given));
    for (const one of panels.values()) one.restore?.(given);
    press("x", view.x);
    press("y", view.y);
    press("smooth", view.smooth);
    press("lines", view.seeds ? "seeds" : "mean");
    press("case", data.cases[view.case]);
    press("name", data.runs[view.run]?.name);
    press("seed", data.runs[view.run]?.seed);
    pressHidden();
  }

  // The place of a name and a seed among runs; of another seed where that name has no such run.
  function find(runs, name, seed) {
    const at = runs.findIndex((one) => one.name === name && one.seed === seed);
    return at >= 0 ? at : Math.max(0, runs.findIndex((one) => one.name === name));
  }

  // The colour of an algorithm as the style sheet has it.
  const colour = (name) => `var(--a${data.names.findIndex((one) => one.name === name)})`;

  // ---- start --------------------------------------------------------------------------------

  async function drawAll() {
    if (lacks()) return void live.refresh(true); // which draws it
    document.body.classList.toggle("keyed", figures.keyed());
    for (const one of panels.values()) await one.draw?.();
  }

  function make() {
    panels.clear();
    for (const [name, payload] of Object.entries(data.panels)) {
      panels.set(name, (makers.get(name) ?? ((held) => plain(name, held)))(payload));
    }
    restore();
  }

  function listen() {
    for (const one of panels.values()) {
      one.listen?.();
      listenChoices(one.choices ?? {});
    }
    listenChoices(chosen);
    $$("button[data-hide]").forEach((button) =>
      button.addEventListener("click", () => toggle(button.dataset.hide)),
    );
    $$("button[data-copy]").forEach((button) => button.addEventListener("click", () => tables.copy(button)));
    figures.listenSaves();
  }

  let begun = null; // rows that come meanwhile wait for it
  const start = () => (begun = begin());

  async function begin() {
    Object.assign(data, JSON.parse(await packed.text("data")));
    Object.assign(view, data.view);
    if (data.opening && !location.hash) history.replaceState(null, "", `#${data.opening}`);
    make();
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 0)));
    await figures.start(data);
    figures.listen(drawAll);
    window.addEventListener("hashchange", () => (restore(), drawAll()));
    document.addEventListener("toggle", ({ target: fold }) => fold.open && "waiting" in fold.dataset && live.refresh(true), true);
    await show();
  }

  async function show() {
    const waits = lacks();
    await drawAll();
    if (waits) return; // until the answer is drawn
    listen();
    document.body.dataset.ready = "true";
  }

  // Draws other results in place of the shown ones; the reader's choices are in the address.
  async function renew(fresh) {
    await begun;
    Object.assign(data, fresh);
    make();
    figures.forget();
    await show();
    const client = clientHistory.current();
    if (client !== null && data.panels.timeline) await clientHistory.show(client);
  }

  return { start, renew, add, panel, plain, say, press, find, colour, changed, keep, ofCase, parts, asked, view, data };
})();
