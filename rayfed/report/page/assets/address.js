// The reader's view in the page's address, after the #: a link opens what its sender saw. Only what
// differs from the first view is written: x, y, scale, smooth, lines, target (with a number in further cases), case, hide (an algorithm each), only (the setting that is
// singled out) and the run whose clients are shown as its algorithm and seed; and what panels add by their state().
const address = (() => {
  const SCALES = { log: true, linear: false };
  const found = (table, key) => (table && Object.hasOwn(table, key) ? key : null);

  // The targets that a column has before the reader moves them, of each case or the only one.
  const opening = (data, y) => {
    const found = data.panels.convergence?.parts.map(({ curves }) => curves.columns[y]?.target ?? null);
    return found ?? data.view.targets.map(() => null);
  };
  const key = (part) => (part ? `target-${part}` : "target");

  const given = () => new URLSearchParams(location.hash.slice(1));

  function read(data, given) {
    const { clocks, columns } = data.panels.convergence?.parts[0].curves ?? {};
    const y = found(columns, given.get("y")) ?? data.view.y;
    const moved = (target, part) => {
      const value = Number.parseFloat(given.get(key(part)));
      return Number.isFinite(value) ? value : target;
    };
    const hidden = new Set(given.getAll("hide"));
    const only = given.get("only");
    const weight = Number(given.get("smooth") ?? 0);
    const run = data.runs.findIndex(({ name, seed }) => name === given.get("run") && String(seed) === given.get("seed"));
    return {
      x: found(clocks, given.get("x")) ?? data.view.x,
      y,
      log: SCALES[given.get("scale")] ?? data.view.log,
      smooth: weight >= 0 && weight < 1 ? weight : 0,
      seeds: given.get("lines") === "seeds",
      targets: opening(data, y).map(moved),
      case: Math.max(0, data.cases.indexOf(given.get("case"))),
      run: run < 0 ? data.view.run : run,
      only: data.names.some(({ name }) => name === only) ? only : null,
      hidden: new Set(data.names.filter(({ family }) => hidden.has(family)).map(({ name }) => name)),
    };
  }

  function text(data, view, states) {
    const { x, y, log, smooth, seeds, targets, run, hidden, only } = view;
    const made = new URLSearchParams();
    if (x !== data.view.x) made.set("x", x);
    if (y !== data.view.y) made.set("y", y);
    if (log !== data.view.log) made.set("scale", log ? "log" : "linear");
    if (smooth) made.set("smooth", smooth);
    if (seeds) made.set("lines", "seeds");
    const first = opening(data, y);
    targets.forEach((target, part) => target !== first[part] && made.set(key(part), target));
    if (view.case) made.set("case", data.cases[view.case]);
    const families = data.names.filter(({ name }) => hidden.has(name)).map(({ family }) => family);
    for (const family of new Set(families)) made.append("hide", family);
    if (only !== null) made.set("only", only);
    if (run !== data.view.run) {
      made.set("run", data.runs[run].name);
      made.set("seed", data.runs[run].seed);
    }
    for (const [key, value] of states.flatMap(Object.entries)) made.set(key, value);
    return made.toString();
  }

  // Nothing is added to the browser's history: the button "back" leaves the page.
  function write(data, view, states) {
    const hash = text(data, view, states);
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  return { given, read, write };
})();
