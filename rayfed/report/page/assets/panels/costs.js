// The table of results: its order, its folds and the costs at the reader's targets.
page.add("costs", ({ critical }) => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const { data, view } = page;
  const rows = () => $$("#results tbody tr:not(.case)");
  const heads = () => $$("#results thead th");

  // ---- sorting --------------------------------------------------------------------------------

  function sort(head) {
    const sign = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
    const value = (row) => Number.parseFloat(row.cells[head.cellIndex].dataset.value);
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    };
    for (const body of $$("#results tbody")) body.append(...$$("tr:not(.case)", body).sort(order));
  }

  function press(head) {
    const next = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    heads().forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    sort(head);
    page.keep();
  }

  // The column that rows are sorted by, with "-" where they descend.
  const key = (head) => head.dataset.clock ?? $("button", head).textContent;

  function state() {
    const head = $("#results th[aria-sort]");
    return head ? { sort: `${head.getAttribute("aria-sort") === "descending" ? "-" : ""}${key(head)}` } : {};
  }

  function restore(given) {
    const [, descends, name] = (given.get("sort") ?? "").match(/^(-?)(.*)$/);
    for (const head of heads()) {
      if (key(head) === name) head.setAttribute("aria-sort", descends ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  // ---- the target -----------------------------------------------------------------------------

  const TEXTS = {
    round: units.count,
    kept: units.count, // rounds, too
    updates: units.count,
    time_s: units.duration,
    bytes_up: units.size,
    energy_j: units.energy,
  };
  let opening = null; // what the page came with, at full precision

  function remember() {
    const cells = $$("#results [data-clock], #results td, #results .case th").map((cell) => [
      cell,
      cell.matches("thead th") ? $("button", cell).textContent : null,
      cell.innerHTML,
      cell.dataset.value,
      cell.className,
    ]);
    opening = () => {
      for (const [cell, title, inside, value, name] of cells) {
        if (title !== null) $("button", cell).textContent = title;
        else Object.assign(Object.assign(cell, { innerHTML: inside, className: name }).dataset, value && { value });
      }
    };
  }

  // Means over seeds of the clocks at the first row as good as the target, as rayfed/report/tables.py.
  function cost(about, part, clock) {
    const { curves } = page.parts()[part];
    const target = view.targets[part];
    const runs = target === null ? [] : curves.runs.filter((run) => run.name === about.name);
    const { better } = curves.columns[view.y];
    const kept = clock === "kept";
    const find = kept ? series.keeping : series.crossing;
    const at = runs.map((run) => find(run, kept ? "round" : clock, view.y, target, better));
    const reached = at.filter((place) => place !== null);
    const every = reached.length > 0 && reached.length === runs.length;
    const middle = reached.length ? series.mean(reached) : Infinity;
    const value = every ? middle : NaN;
    // A baseline that exchanges nothing has no cost to compare, nor models of clients' own.
    const none = (about.baseline && value === 0) || (about.own && !view.y.startsWith("personal_"));
    if (none) return { value: NaN, texts: ["-"] };
    const text = TEXTS[clock];
    const seeds = new Map(runs.map(({ seed }, k) => [seed, at[k]]));
    const exact = every ? value * share(runs.map((run) => series.within(run, view.y, target, better))) : 0;
    const spread = () => ` ± ${text(series.deviation(reached, value))}`;
    const found = { value, middle, seeds, exact, reached: reached.length };
    if (every && reached.length > 1 && !kept) return { ...found, texts: [text(value), spread()] };
    const partly = (kept || clock === "round") && !every && runs.length > 1;
    const counted = ` (${reached.length} of ${runs.length} seeds)`;
    return { ...found, texts: partly ? [text(value), counted] : [text(value)] };
  }

  // The distance of two evaluated rows as a share of the rounds to the target.
  const share = (at) => Math.max(...at.map(({ within }) => within)) / series.mean(at.map(({ round }) => round));

  // A part of a cell's text, which is not broken; the next one may stand on the next line.
  function piece(text) {
    const made = document.createElement("span");
    made.textContent = text.trim();
    return text.startsWith(" ") ? [" ", made] : [made];
  }

  // Whether a cost is better than another one, seed by seed: by Student's t, or by the sign test
  // where a seed did not reach the target.
  function isBetter(one, other, exact, limit) {
    const never = (value) => value ?? Infinity;
    const pairs = [...one.seeds].filter(([seed]) => other.seeds.has(seed));
    const leads = pairs.map(([seed, value]) => {
      const [mine, its] = [never(value), never(other.seeds.get(seed))];
      return mine === its ? 0 : its - mine;
    });
    const least = exact / Math.sqrt(6);
    const reached = pairs.every(([seed, value]) => value !== null && other.seeds.get(seed) !== null);
    if (!reached) {
      const wins = leads.filter((lead) => lead > least).length;
      const losses = leads.filter((lead) => lead < -least).length;
      return wins > losses && signTest(wins, losses) <= limit.p;
    }
    const middle = series.mean(leads);
    const error = Math.max(series.deviation(leads, middle), least) / Math.sqrt(leads.length);
    return middle / error > limit.t;
  }

  // The two-sided p-value of so many positive and fewer negative leads, as rayfed/report/verdicts.py.
  function signTest(wins, losses) {
    let [term, sum] = [1, 1];
    for (let k = 1; k <= losses; k += 1) {
      term *= (wins + losses - k + 1) / k;
      sum += term;
    }
    return Math.min(1, 2 ** (1 - wins - losses) * sum);
  }

  // The cost that is better than all others, and reads so, as rayfed/report/verdicts.py has it: of
  // the tests at least k pass the limit of the k-th smallest p-value in Holm's correction.
  function winner(costs, limits) {
    const known = costs.filter(({ seeds }) => seeds);
    const missed = ({ reached, seeds }) => (reached ? 1 - reached / seeds.size : 1);
    const [first, ...others] = known.sort((a, b) => missed(a) - missed(b) || a.middle - b.middle || 0);
    if (!limits || !others.length || !first.reached) return null;
    const exact = Math.max(...known.map((cost) => cost.exact));
    const alike = others.some((other) => other.texts.join("") === first.texts.join(""));
    const passed = (limit) => others.filter((other) => isBetter(first, other, exact, limit)).length;
    return !alike && others.every((_, k) => passed(limits[k]) > k) ? first : null;
  }

  const fill = (head) => page.parts().forEach((_, part) => fillPart(head, part));

  function fillPart(head, part) {
    const { names, curves } = page.parts()[part];
    const about = (row) => names.find(({ name }) => name === row.dataset.row);
    const mine = rows().filter((row) => row.dataset.part === String(part));
    const found = mine.map((row) => [row, cost(about(row), part, head.dataset.clock)]);
    const unfinished = (row, { value }) => about(row).unfinished && Number.isNaN(value);
    const out = (row, cost) => about(row).baseline || about(row).failed || unfinished(row, cost);
    const rivals = found.filter(([row, cost]) => !out(row, cost));
    const free = data.unlike || found.some(([, { value }]) => value === 0);
    const best = winner(rivals.map(([, cost]) => cost), free ? null : critical[part]);
    for (const [row, cost] of found) {
      const { value, texts } = cost;
      const cell = row.cells[head.cellIndex];
      cell.replaceChildren(...texts.flatMap(piece));
      cell.dataset.value = value;
      cell.className = [cost === best ? "best" : "", texts.length > 1 ? "spread" : ""].join(" ").trim();
    }
    if (head.dataset.clock !== "round") return;
    const { title } = curves.columns[view.y];
    if (!data.cases.length) $("button", head).textContent = `rounds to ${title} ${units.target(view.target)}`;
    const goal = view.targets[part] === null ? "" : `, target: ${title} ${units.target(view.targets[part])}`;
    const heading = $(`#results tbody:nth-of-type(${part + 1}) tr.case th`);
    if (heading) heading.textContent = `${data.cases[part]}${goal}`;
  }

  function follow() {
    retarget();
    const sorted = $("#results th[aria-sort]");
    if (sorted) sort(sorted);
  }

  // A column without a target leaves the table where it was.
  function retarget() {
    if (view.targets.every((target) => target === null)) return;
    if (!opening) remember();
    const first = view.targets.every((target, part) => target === data.view.targets[part]);
    if (view.y === data.view.y && first) opening();
    else $$("#results th[data-clock]").forEach(fill);
  }

  heads().forEach((head) => $("button", head).addEventListener("click", () => press(head)));

  return { draw: follow, state, restore, changed: (what) => (what === "view" ? follow() : undefined), text: (format) => tables.text("results", format) };
});
