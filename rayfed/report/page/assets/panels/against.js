// Two columns against each other: lines and style come from rayfed/report/panels/against.py.
page.add("against", (payload) => {
  const { view } = page;
  const all = page.parts()[0].curves;
  const held = () => page.ofCase(payload);
  const first = (payload.cases?.find(Boolean) ?? payload).first;
  const chosen = { ...first };

  // The means of both columns at the rounds that have both.
  function path(name, worth) {
    const { means } = held();
    const [rounds, xs, ys] = ["round", chosen.x, chosen.y].map((column) => means[name][column] ?? []);
    const kept = [...rounds.keys()].filter((i) => (xs[i] ?? null) !== null && (ys[i] ?? null) !== null);
    return { rounds: kept.map((i) => rounds[i]), x: kept.map((i) => xs[i] / worth), y: kept.map((i) => ys[i]) };
  }

  function draw() {
    if (!held()) return Promise.resolve();
    const made = structuredClone(held().figure);
    const clock = all.clocks[chosen.x];
    const names = [...new Set(made.data.map((trace) => trace.meta.name))];
    const paths = new Map(names.map((name) => [name, path(name, clock?.worth ?? 1)]));
    for (const trace of made.data) {
      const { name, part } = trace.meta;
      const { rounds, x, y } = paths.get(name);
      trace.visible = !view.hidden.has(name);
      Object.assign(trace, part === "end" ? { x: x.slice(-1), y: y.slice(-1) } : { x, y, customdata: rounds });
    }
    const shown = names.filter((name) => !view.hidden.has(name)).map((name) => paths.get(name));
    const { xaxis, yaxis } = made.layout;
    const label = clock?.title ?? all.columns[chosen.x].label;
    curves.scale(xaxis, label, shown.map(({ x }) => x), Boolean(clock) || chosen.x.includes("accuracy"));
    curves.scale(yaxis, all.columns[chosen.y].label, shown.map(({ y }) => y), chosen.y.includes("accuracy"));
    page.press("against-x", chosen.x);
    page.press("against-y", chosen.y);
    return figures.draw("against", made);
  }

  function choose(axis, column) {
    chosen[axis] = column;
    page.keep();
    return draw();
  }

  const choices = { "against-x": (x) => choose("x", x), "against-y": (y) => choose("y", y) };

  // Its part of the page's address.
  const state = () => Object.fromEntries(["x", "y"].filter((k) => chosen[k] !== first[k]).map((k) => [`against-${k}`, chosen[k]]));

  function restore(given) {
    const [x, y] = [given.get("against-x"), given.get("against-y")];
    const known = (table, key) => key !== null && Object.hasOwn(table, key);
    chosen.x = known(all.clocks, x) || known(all.columns, x) ? x : first.x;
    chosen.y = known(all.columns, y) ? y : first.y;
  }

  return { draw, choices, state, restore, changed: (what) => (what === "hidden" || what === "case" ? draw() : undefined) };
});
