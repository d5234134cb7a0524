// The table of results: sorted, copied, and kept at the target that the reader has set.
page.add("costs", () => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const { data, view } = page;
  const curveData = () => data.panels.convergence.curves;
  const rows = () => $$("#results tbody tr");
  const heads = () => $$("#results th");

  // ---- sorting --------------------------------------------------------------------------------

  function sort(head) {
    const sign = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
    const value = (row) => Number.parseFloat(row.cells[head.cellIndex].dataset.value);
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    };
    $("#results tbody").append(...rows().sort(order));
  }

  function press(head) {
    const next = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    heads().forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    sort(head);
  }

  // ---- the target -----------------------------------------------------------------------------

  const TEXTS = {
    round: units.count,
    kept: units.count, // rounds, too
    updates: units.count,
    time_s: units.duration,
    bytes_up: units.size,
  };
  let opening = null; // what the page came with, at full precision

  function remember() {
    const cells = $$("#results [data-clock], #results td").map((cell) => [
      cell,
      cell.matches("th") ? $("button", cell).textContent : null,
      cell.innerHTML,
      cell.dataset.value,
      cell.className,
    ]);
    opening = () => {
      for (const [cell, title, inside, value, name] of cells) {
        if (title !== null) $("button", cell).textContent = title;
        else Object.assign(cell, { innerHTML: inside, className: name }).dataset.value = value;
      }
    };
  }

  // Means over seeds of the clocks at the first row as good as the target, as rayfed/report/tables.py.
  function cost(about, clock) {
    const runs = curveData().runs.filter((run) => run.name === about.name);
    const { better } = curveData().columns[view.y];
    const kept = clock === "kept";
    const find = kept ? series.keeping : series.crossing;
    const at = runs.map((run) => find(run, kept ? "round" : clock, view.y, view.target, better));
    const reached = at.filter((place) => place !== null);
    const every = reached.length > 0 && reached.length === runs.length;
    const value = every ? series.mean(reached) : NaN;
    // A baseline that exchanges nothing has no cost to compare, nor models of clients' own.
    const none = (about.baseline && value === 0) || (about.own && !view.y.startsWith("personal_"));
    if (none) return { value: NaN, spread: 0, texts: ["-"] };
    const text = TEXTS[clock];
    const spread = every ? series.deviation(reached, value) : 0;
    if (every && reached.length > 1 && !kept) return { value, spread, texts: [text(value), ` ± ${text(spread)}`] };
    const partly = (kept || clock === "round") && !every && runs.length > 1;
    const seeds = ` (${reached.length} of ${runs.length} seeds)`;
    return { value, spread, texts: partly ? [text(value), seeds] : [text(value)] };
  }

  // A part of a cell's text, which is not broken; the next one may stand on the next line.
  function part(text) {
    const made = document.createElement("span");
    made.textContent = text.trim();
    return text.startsWith(" ") ? [" ", made] : [made];
  }

  // The cost that is less than all others by more than noise, as rayfed/report/tables.py has it.
  function winner(costs, free) {
    const known = costs.filter(({ value }) => !Number.isNaN(value));
    if (free || costs.length < 2 || !known.length) return null;
    const first = known.reduce((one, other) => (other.value < one.value ? other : one));
    const clear = (other) => other === first || other.value - first.value > other.spread + first.spread;
    return known.every(clear) ? first : null;
  }

  function fill(head) {
    const about = (row) => data.names.find(({ name }) => name === row.dataset.row);
    const found = rows().map((row) => [row, cost(about(row), head.dataset.clock)]);
    const rivals = found.filter(([row]) => !about(row).baseline);
    const free = data.unlike || found.some(([, { value }]) => value === 0);
    const best = winner(rivals.map(([, cost]) => cost), free);
    for (const [row, cost] of found) {
      const { value, texts } = cost;
      const cell = row.cells[head.cellIndex];
      cell.replaceChildren(...texts.flatMap(part));
      cell.dataset.value = value;
      cell.className = [cost === best ? "best" : "", texts.length > 1 ? "spread" : ""].join(" ").trim();
    }
    if (head.dataset.clock !== "round") return;
    const goal = `${curveData().columns[view.y].title} ${units.target(view.target)}`;
    $("button", head).textContent = `rounds to ${goal}`;
  }

  // A column without a target leaves the table where it was.
  function follow() {
    if (view.target === null) return;
    if (!opening) remember();
    if (view.y === data.view.y && view.target === data.view.target) opening();
    else $$("#results th[data-clock]").forEach(fill);
    const sorted = $("#results th[aria-sort]");
    if (sorted) sort(sorted);
  }

  // ---- copies ---------------------------------------------------------------------------------

  const SIGNS = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "±": "$\\pm$",
    "∞": "$\\infty$",
  };

  const formats = {
    markdown({ titles, cells }) {
      const safe = (text) => text.replace(/[\\|*_`<>]/g, "\\$&").replace(/\s+/g, " ");
      const line = (texts) => `| ${texts.join(" | ")} |\n`;
      const rule = titles.map((_, place) => (place ? "---:" : "---"));
      const shown = ({ text, best }) => (best ? `**${safe(text)}**` : safe(text));
      return [titles.map(safe), rule, ...cells.map((row) => row.map(shown))].map(line).join("");
    },
    csv({ titles, cells }) {
      const safe = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      const texts = [titles, ...cells.map((row) => row.map(({ text }) => text))];
      return texts.map((row) => `${row.map(safe).join(",")}\n`).join("");
    },
    latex({ titles, cells }) {
      const safe = (text) => text.replace(/[\\~^<>±∞&%$#_{}]/g, (sign) => SIGNS[sign] ?? `\\${sign}`);
      const shown = ({ text, best }) => (best ? `\\textbf{${safe(text)}}` : safe(text));
      const line = (texts) => `${texts.join(" & ")} \\\\`;
      return [
        `\\begin{tabular}{l${"r".repeat(titles.length - 1)}}`,
        "\\toprule",
        line(titles.map(safe)),
        "\\midrule",
        ...cells.map((row) => line(row.map(shown))),
        "\\bottomrule",
        "\\end{tabular}",
        "",
      ].join("\n");
    },
  };

  // The table as it stands, in a format: Markdown, CSV, or LaTeX with the booktabs package.
  function text(format) {
    const titles = heads().map((head) => $("button", head).textContent);
    const cells = rows().map((row) =>
      [...row.cells].map((cell) => ({ text: cell.textContent, best: cell.matches(".best") })),
    );
    return formats[format]({ titles, cells });
  }

  async function copy(button) {
    const copied = text(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(copied);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = copied;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const status = $("#copied");
    status.textContent = `Copied as ${button.textContent}.`;
    setTimeout(() => (status.textContent = ""), 2500);
  }

  heads().forEach((head) => $("button", head).addEventListener("click", () => press(head)));
  $$("button[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));

  return { draw: follow, changed: (what) => (what === "view" ? follow() : undefined), text };
});
