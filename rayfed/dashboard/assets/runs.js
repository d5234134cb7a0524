// The overview: filter, order, groups, columns, target and ticks, all in its address.
const overview = (() => {
  const MOST = 50; // runs that are listed at once
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const given = new URLSearchParams(location.hash.slice(1));
  let filter = given.get("show") ?? "";
  let order = given.get("sort") ?? ""; // the text of a heading, with - before it downwards
  let typed = null; // a target that is not sent yet
  const ticked = new Set(given.getAll("run"));
  const folded = new Set(); // titles of groups
  let every = false; // whether more than MOST runs are listed
  const answers = new Map(); // what became of the last request about each study
  const asked = new Set(); // actions that await their answer, each with its study

  const table = () => document.getElementById("runs");
  const rows = (within = table()) => $$("tr[data-run]", within);

  // Every run as the news compare them.
  function standing() {
    const target = table() && document.getElementById("goal").value;
    return (table() ? rows() : []).map((row) => {
      const [name, setting, seed] = [1, 2, 3].map((k) => row.cells[k].textContent);
      const reached = target !== "" && "reached" in row.dataset;
      return { key: row.dataset.run, name: [name, setting, `seed ${seed}`].filter((text) => text).join(" "), status: row.dataset.status, target, reached };
    });
  }

  function sort() {
    const sign = order.startsWith("-") ? -1 : 1;
    const column = $$("thead th", table()).findIndex((head) => head.textContent === order.replace(/^-/, ""));
    if (column < 1) return;
    const key = (row) => row.cells[column].dataset.key;
    const number = (text) => (text === "" ? Infinity : Number(text));
    const numeric = rows().every((row) => !Number.isNaN(number(key(row))));
    const compare = numeric
      ? (a, b) => sign * (number(key(a)) - number(key(b)))
      : (a, b) => sign * key(a).localeCompare(key(b));
    for (const body of table().tBodies) body.append(...rows(body).sort(compare));
    $$("thead th", table()).forEach((head, k) => {
      if (k === column) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }

  function show(renewed) {
    const words = filter.toLowerCase().split(/\s+/).filter((word) => word);
    const found = new Set();
    let listed = 0;
    for (const body of table().tBodies) {
      const title = body.dataset.group;
      let here = 0;
      for (const row of rows(body)) {
        const text = `${row.textContent} ${row.dataset.tags ?? ""}`.toLowerCase();
        const fits = words.every((word) => text.includes(word));
        if (fits) found.add(row.dataset.run);
        here += fits;
        row.hidden = !fits || folded.has(title) || ((listed += 1) > MOST && !every);
      }
      body.hidden = !here;
      body.querySelector(".group button")?.setAttribute("aria-expanded", String(!folded.has(title)));
    }
    const all = document.getElementById("all");
    all.hidden = every || listed <= MOST;
    all.textContent = `List all ${listed} runs`;
    const studies = new Set([...found].map((run) => run.slice(0, run.lastIndexOf("/"))));
    for (const row of $$(".studies [data-key]")) row.hidden = words.length > 0 && !studies.has(row.dataset.key);
    document.getElementById("shown").textContent = words.length ? `${found.size} of ${rows().length} runs` : "";
    scatter.show((run) => found.has(run), renewed);
  }

  function tick() {
    const listed = new Set(rows().map((row) => row.dataset.run));
    for (const run of ticked) if (!listed.has(run)) ticked.delete(run); // of a study that was deleted or archived
    for (const row of rows()) row.querySelector("input").checked = ticked.has(row.dataset.run);
    const open = document.getElementById("open");
    const query = new URLSearchParams([...ticked].map((run) => ["run", run]));
    open.hidden = !ticked.size;
    open.href = `/compare?${query}`;
    open.textContent = ticked.size === 1 ? "Open 1 run" : `Compare ${ticked.size} runs`;
    if (filter) query.set("show", filter);
    if (order) query.set("sort", order);
    const hash = String(query);
    history.replaceState(null, "", `${location.pathname}${location.search}${hash ? `#${hash}` : ""}`);
  }

  function toggle(run) {
    ticked.delete(run) || ticked.add(run);
    tick();
  }

  // Asks the server for another table: it has the values of all runs.
  function ask(change) {
    const query = new URLSearchParams(location.search);
    change(query);
    typed = null;
    history.replaceState(null, "", `?${query}${location.hash}`);
    live.refresh();
  }

  const choose = (field) =>
    ask((query) => {
      const value = field.type === "checkbox" && !field.checked ? "" : field.value.trim();
      value ? query.set(field.dataset.query, value) : query.delete(field.dataset.query);
    });

  function start(renewed) {
    if (!table()) return;
    const field = document.getElementById("filter");
    const narrow = (text) => ((filter = text), show(), tick());
    field.value = filter;
    field.addEventListener("input", () => narrow(field.value));
    const goal = document.getElementById("goal");
    goal.value = typed ?? goal.value;
    goal.addEventListener("input", () => (typed = goal.value));
    const listen = (selector, kind, heard) =>
      $$(selector).forEach((one) => one.addEventListener(kind, () => heard(one)));
    listen("[data-query]", "change", choose);
    listen("#add", "change", ({ value }) => value && ask((query) => query.append("column", value)));
    listen("[data-remove]", "click", ({ dataset }) => ask((query) => query.delete("column", dataset.remove)));
    listen("[data-tag]", "click", ({ dataset }) => narrow((field.value = dataset.tag)));
    listen("[data-do]", "click", steer);
    listen(".group button", "click", (button) => {
      const title = button.closest("tbody").dataset.group;
      folded.delete(title) || folded.add(title);
      show();
    });
    listen("#runs thead button", "click", ({ textContent }) => {
      order = order === textContent ? `-${order}` : textContent;
      sort();
      show();
      tick();
    });
    listen("#all", "click", () => ((every = true), show()));
    listen("#runs input", "change", (box) => toggle(box.closest("tr").dataset.run));
    answers.forEach((told, study) => answer(study, ...told));
    lock();
    sort();
    show(renewed);
    tick();
  }

  // Tells the result of an action below its button, or where that is gone at the end of the cell.
  function answer(study, what, text) {
    answers.set(study, [what, text]);
    const cell = document.querySelector(`[data-study="${CSS.escape(study)}"]`);
    const place = cell?.querySelector("output");
    if (!place) return;
    place.textContent = text;
    $$("[data-do]", cell).find((button) => button.dataset.do === what)?.after(place);
  }

  const action = (button) => `${button.dataset.do} ${button.closest("[data-study]").dataset.study}`;

  // Locks the buttons that await their answer, also where the table is a new one.
  const lock = () => $$("[data-do]").forEach((button) => (button.disabled = asked.has(action(button))));

  // Asks the server to change a study; rows that change come by themselves.
  async function steer(button) {
    const cell = button.closest("[data-study]");
    const { study } = cell.dataset;
    const form = button.closest("fieldset");
    const typed = form ? $$("[name]", form).map((one) => [one.name, one.value]) : [];
    const doing = action(button);
    asked.add(doing);
    lock();
    answer(study, button.dataset.do, "asked; the answer comes here");
    const body = JSON.stringify({ study, ...Object.fromEntries(typed) });
    const headers = { "Content-Type": "application/json" };
    const reply = await fetch(`/control/${button.dataset.do}`, { method: "POST", headers, body }).catch(() => null);
    const { done, error } = (await reply?.json().catch(() => null)) ?? { error: "the server refused it" };
    asked.delete(doing);
    lock();
    if (done && form) for (const one of $$("[name]", form)) one.defaultValue = one.value; // it is sent
    answer(study, button.dataset.do, done ?? error);
    live.say(done ?? error);
    live.refresh();
  }

  return { start, standing, toggle };
})();
