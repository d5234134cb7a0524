// Follows the studies: what has changed is fetched and put in place, and what the reader did stays.
const live = (() => {
  const { view } = document.body.dataset;
  const mine = () => JSON.parse(document.body.dataset.studies ?? "null");
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  let busy = false;
  let again = false;

  // Puts new text in the place of the old: drawn figures move over, and so do folds, scrolls and focus.
  function replace(html) {
    const main = document.querySelector("main");
    const made = document.createElement("main");
    made.innerHTML = html;
    const open = new Set($$("details[open] > summary", main).map((one) => one.textContent));
    for (const one of $$("details > summary", made)) if (open.has(one.textContent)) one.parentElement.open = true;
    for (const place of $$(".plot", made)) {
      const drawn = main.querySelector(`#${CSS.escape(place.id)}.js-plotly-plot`);
      if (drawn) place.replaceWith(drawn);
    }
    const scrolls = $$(".scroll", main).map((one) => [one.scrollLeft, one.scrollTop]);
    const focus = focused(main);
    const top = window.scrollY;
    main.replaceWith(made);
    $$(".scroll", made).forEach((one, k) => scrolls[k] && one.scrollTo(...scrolls[k]));
    window.scrollTo(window.scrollX, top);
    focus(made);
  }

  // What finds the element that has the focus in other text of the same shape.
  function focused(main) {
    const at = document.activeElement;
    if (!main.contains(at)) return () => {};
    const key = at.id ? `#${CSS.escape(at.id)}` : at.tagName.toLowerCase();
    const place = $$(key, main).indexOf(at);
    const range = at.selectionStart == null ? null : [at.selectionStart, at.selectionEnd];
    return (made) => {
      const found = $$(key, made)[place];
      found?.focus({ preventScroll: true });
      if (found && range && found.type !== "number") found.setSelectionRange?.(...range);
    };
  }

  async function refresh() {
    if (busy) return void (again = true);
    busy = true;
    const answer = await fetch(`/${view}.json${location.search}`).catch(() => null);
    if (answer?.ok) {
      const { main, data, colours, title } = await answer.json();
      replace(main);
      if (title) document.title = title;
      if (colours) document.getElementById("colours").textContent = colours;
      if (data) await page.renew(data);
      overview.start();
    } else if (answer) say((await answer.json()).error);
    busy = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  const say = (text) => (document.getElementById("news").textContent = text);

  function listen() {
    const source = new EventSource("/events");
    source.addEventListener("open", () => say(""));
    source.addEventListener("error", () => say("The server does not answer; what is shown is what was last read"));
    source.addEventListener("message", ({ data }) => {
      const studies = mine();
      if (!studies || JSON.parse(data).some((key) => studies.includes(key))) refresh();
    });
  }

  // ---- the overview: filter, order and ticks -------------------------------------------------

  const overview = (() => {
    let filter = "";
    let order = null; // [column, 1 or -1]
    const ticked = new Set(new URLSearchParams(location.hash.slice(1)).getAll("run"));
    let seen = null; // statuses when the reader looked away

    const table = () => document.getElementById("runs");
    const rows = () => $$("tbody tr", table());
    const statuses = () => new Map(rows().map((row) => [row.dataset.run, row.dataset.status]));

    function sort() {
      if (!order) return;
      const [column, sign] = order;
      const key = (row) => row.cells[column].dataset.key;
      const number = (text) => (text === "" ? Infinity : Number(text));
      const numeric = rows().every((row) => !Number.isNaN(number(key(row))));
      const compare = numeric
        ? (a, b) => sign * (number(key(a)) - number(key(b)))
        : (a, b) => sign * key(a).localeCompare(key(b));
      table().tBodies[0].append(...rows().sort(compare));
      $$("thead th", table()).forEach((head, k) => {
        if (k === column) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      });
    }

    function show() {
      const words = filter.toLowerCase().split(/\s+/).filter((word) => word);
      let shown = 0;
      for (const row of rows()) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      document.getElementById("shown").textContent = words.length ? `${shown} of ${rows().length} runs` : "";
    }

    function tick() {
      for (const row of rows()) row.querySelector("input").checked = ticked.has(row.dataset.run);
      const open = document.getElementById("open");
      const query = new URLSearchParams([...ticked].map((run) => ["run", run]));
      open.hidden = !ticked.size;
      open.href = `/compare?${query}`;
      open.textContent = ticked.size === 1 ? "Open 1 run" : `Compare ${ticked.size} runs`;
      history.replaceState(null, "", ticked.size ? `#${query}` : location.pathname);
    }

    function start() {
      if (!table()) return;
      const field = document.getElementById("filter");
      field.value = filter;
      field.addEventListener("input", () => ((filter = field.value), show()));
      $$("thead button", table()).forEach((button, k) =>
        button.addEventListener("click", () => {
          order = [k + 1, order?.[0] === k + 1 ? -order[1] : 1];
          sort();
        }),
      );
      table().tBodies[0].addEventListener("change", ({ target }) => {
        const { run } = target.closest("tr").dataset;
        target.checked ? ticked.add(run) : ticked.delete(run);
        tick();
      });
      $$("button[data-do]").forEach((button) => button.addEventListener("click", () => steer(button)));
      sort();
      show();
      tick();
    }

    // Asks the server to stop, resume or extend a study; rows that change come by themselves.
    async function steer(button) {
      const cell = button.closest("[data-study]");
      const given = { study: cell.dataset.study };
      if (button.dataset.do === "extend") {
        given.rounds = cell.querySelector("[data-rounds]").value;
        given.seeds = cell.querySelector("[data-seeds]").value;
      }
      button.disabled = true;
      const body = JSON.stringify(given);
      const headers = { "Content-Type": "application/json" };
      const answer = await fetch(`/control/${button.dataset.do}`, { method: "POST", headers, body });
      const { told, error } = await answer.json().catch(() => ({ error: "the server refused it" }));
      button.disabled = false;
      say(told ?? error);
    }

    // What has come about since the reader looked away, in words.
    function news() {
      const now = statuses();
      const found = {};
      for (const [run, status] of now) {
        if (seen.get(run) !== status) found[status] = (found[status] ?? 0) + 1;
      }
      const verbs = { finished: "finished", failed: "failed", interrupted: "stopped", running: "began" };
      const parts = Object.entries(found).filter(([status]) => verbs[status]);
      if (parts.length) say(`Since you looked away: ${parts.map(([status, n]) => `${n} ${n === 1 ? "run" : "runs"} ${verbs[status]}`).join(", ")}`);
    }

    document.addEventListener("visibilitychange", () => {
      if (!table()) return;
      if (document.hidden) seen = statuses();
      else if (seen) news();
    });

    return { start };
  })();

  // The page that is saved opens with the reader's choices.
  document.querySelector("[data-save-view]")?.addEventListener("click", ({ currentTarget }) => {
    const address = new URL(currentTarget.href);
    address.searchParams.set("at", location.hash.slice(1));
    currentTarget.href = address;
  });

  overview.start();
  listen();
  return { refresh };
})();
