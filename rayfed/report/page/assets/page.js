// The page: figures in the reader's colours, buttons, the table, and what a client did.
const page = (() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const data = read("data");
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 640px)");
  const view = { ...data.view, hidden: new Set() };
  let printing = false;
  let run = data.view.run;
  let wide = false;

  // ---- colours and widths -------------------------------------------------------------------

  const dark = () => night.matches && !printing;

  function themed(value) {
    if (typeof value === "string") return dark() ? (data.dark[value] ?? value) : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item)]));
  }

  const keyed = () => narrow.matches || data.names.length > data.direct;

  function fitted(figure) {
    const layout = figure.layout;
    layout.showlegend = false;
    if (layout.annotations?.length || layout.margin.r > 100) {
      if (keyed()) Object.assign(layout, { annotations: [], margin: { ...layout.margin, r: 16 } });
      layout.margin.b = 52;
    }
    if (narrow.matches) {
      layout.margin = { ...layout.margin, l: 52 };
      layout.dragmode = false; // a finger on a figure scrolls the page
    }
    return figure;
  }

  function draw(id, figure, edits = {}) {
    const place = document.getElementById(id);
    if (!place || !figure) return Promise.resolve();
    const { data: traces, layout } = themed(fitted(structuredClone(figure)));
    place.style.minHeight = `${layout.height}px`;
    const config = { displayModeBar: false, responsive: true, doubleClick: "reset", edits };
    return Plotly.react(place, traces, { ...layout, autosize: true }, config);
  }

  // ---- convergence --------------------------------------------------------------------------

  function drawConvergence() {
    if (!data.convergence) return Promise.resolve();
    const made = convergence.build(data.figures.convergence, data.convergence, data.names, view);
    view.shown = made.view;
    tell();
    showTarget();
    press("scale", made.view.log ? "log" : "linear");
    $$('[data-scale="log"]').forEach((button) => (button.disabled = !made.view.canLog));
    return draw("convergence", made, { shapePosition: true });
  }

  // The answer on top tells of the first view, so only another one needs words of its own.
  function tell() {
    const first = ["x", "y", "target"].every((key) => view[key] === data.view[key]);
    const text = first ? "" : convergence.reading(data.convergence, data.names, view);
    $("#reading").textContent = text;
    table.follow(data, view);
  }

  // Target on the slider's scale of 0 to 1000, from the lower to the upper end of the y axis.
  const toSlider = (value) => {
    const { range, log } = view.shown;
    return ((log ? Math.log10(value) : value) - range[0]) / (range[1] - range[0]) * 1000;
  };
  const fromSlider = (place) => {
    const { range, log } = view.shown;
    const value = range[0] + (place / 1000) * (range[1] - range[0]);
    return Number((log ? 10 ** value : value).toPrecision(3));
  };

  function showTarget() {
    const has = view.target !== null;
    $("#target").hidden = !has;
    if (!has) return;
    $("#target-value").value = units.number(view.target).replaceAll(",", "");
    $("#target-slider").value = toSlider(view.target);
    $("#target-slider").setAttribute("aria-valuetext", units.number(view.target));
  }

  function setTarget(value) {
    if (Number.isFinite(value)) view.target = value;
    return drawConvergence();
  }

  function listenTarget() {
    const slider = $("#target-slider");
    slider.addEventListener("input", () => setTarget(fromSlider(Number(slider.value))));
    const field = $("#target-value");
    field.addEventListener("change", () => setTarget(Number.parseFloat(field.value)));
    document.getElementById("convergence").on("plotly_relayout", (change) => {
      const ends = [change["shapes[0].y0"], change["shapes[0].y1"]];
      if (ends.some((end) => end === undefined)) return;
      setTarget(Number(Math.max(...ends.map(Number)).toPrecision(3)));
    });
  }

  // ---- buttons ------------------------------------------------------------------------------

  function press(kind, value) {
    $$(`[data-${kind}]`).forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset[kind] === String(value)));
    });
  }

  const choices = {
    x: (value) => {
      view.x = value;
      return drawConvergence();
    },
    y: (value) => {
      Object.assign(view, { y: value, log: null, target: data.convergence.columns[value].target });
      drawSweep();
      return drawConvergence();
    },
    scale: (value) => {
      view.log = value === "log";
      return drawConvergence();
    },
    name: (value) => chooseRun(value, data.runs[run]?.seed),
    seed: (value) => chooseRun(data.runs[run]?.name, Number(value)),
    walk: (value) => walk.choose(value),
    ownname: (name) => own.choose({ name }, press),
    ownseed: (seed) => own.choose({ seed: Number(seed) }, press),
    span: (value) => {
      wide = value === "whole";
      return drawTimeline();
    },
  };

  function listenButtons() {
    for (const [kind, choose] of Object.entries(choices)) {
      $$(`button[data-${kind}]`).forEach((button) =>
        button.addEventListener("click", () => {
          press(kind, button.dataset[kind]);
          choose(button.dataset[kind]);
        }),
      );
    }
    $$("button[data-hide]").forEach((button) =>
      button.addEventListener("click", () => toggle(button.dataset.hide)),
    );
    $$("button[data-save]").forEach((button) =>
      button.addEventListener("click", () => save(button.dataset.save, button.dataset.format)),
    );
  }

  function toggle(name) {
    view.hidden.has(name) ? view.hidden.delete(name) : view.hidden.add(name);
    $$("button[data-hide]").forEach((button) => {
      button.setAttribute("aria-pressed", String(!view.hidden.has(button.dataset.hide)));
    });
    drawConvergence();
    drawFairness();
  }

  function save(id, format) {
    const place = document.getElementById(id);
    const size = { width: place.clientWidth, height: place.clientHeight };
    Plotly.downloadImage(place, { format, filename: `${data.file}-${id}`, scale: 2, ...size });
  }

  // ---- one run: timeline, participation -----------------------------------------------------

  function chooseRun(name, seed) {
    const at = data.runs.findIndex((one) => one.name === name && one.seed === seed);
    run = at >= 0 ? at : Math.max(0, data.runs.findIndex((one) => one.name === name));
    press("name", data.runs[run].name);
    press("seed", data.runs[run].seed);
    showClient(null);
    return drawRun();
  }

  function note(id, figure) {
    const place = document.getElementById(`${id}-note`);
    if (place) place.textContent = figure.layout.meta?.note ?? "";
  }

  function drawTimeline() {
    const figure = structuredClone(data.runs[run].timeline);
    const meta = figure.layout.meta ?? {};
    if (wide && meta.whole) figure.layout.xaxis.range = [0, meta.whole];
    $("#span").hidden = !(meta.first && meta.first < meta.last);
    note("timeline", figure);
    $(".statuses .away + span").textContent = meta.blank;
    const place = data.names.findIndex(({ name }) => name === data.runs[run].name);
    $(".statuses .computing").style.background = `var(--a${place})`;
    return draw("timeline", figure);
  }

  async function drawRun() {
    const one = data.runs[run];
    if (!one) return;
    for (const [id, text] of Object.entries(one.titles)) {
      const title = document.getElementById(`${id}-title`);
      if (title) title.textContent = text;
    }
    await drawTimeline();
    for (const id of ["participation", "rounds"]) {
      note(id, one[id]);
      await draw(id, one[id]);
    }
    await drawFit(one.fit);
  }

  function drawFit(figure) {
    const place = document.getElementById("fit");
    if (!place) return Promise.resolve();
    if (!figure) Plotly.purge(place);
    return draw("fit", figure);
  }

  const drawFairness = () => {
    const figure = structuredClone(data.figures.fairness);
    if (!figure) return Promise.resolve();
    for (const trace of figure.data) trace.visible = !view.hidden.has(trace.meta.name);
    const labels = figure.layout.annotations ?? [];
    figure.layout.annotations = labels.filter((label) => !view.hidden.has(label.name));
    return draw("fairness", figure);
  };

  // ---- sweeps -------------------------------------------------------------------------------

  function drawSweep() {
    const made = data.sweep?.[view.y];
    if (!made) return Promise.resolve();
    $("#sweep-title").textContent = made.title;
    return Promise.all(made.figures.map((figure, i) => draw(`sweep-${i}`, figure)));
  }

  const drawMixing = () => draw("mixing", data.mixing?.figure);

  // ---- what one client did ------------------------------------------------------------------

  const STATUSES = { used: "Took part", late: "Came late", dropped: "Went away" };

  function listed(rounds) {
    const shown = rounds.slice(0, 40).join(", ");
    return rounds.length > 40 ? `${shown} and ${rounds.length - 40} more` : shown;
  }

  function history(client) {
    const { events } = data.runs[run];
    const lines = Object.entries(STATUSES).map(([status, words]) => {
      const mine = (_, i) => events.client[i] === client && events.status[i] === status;
      const rounds = [...new Set(events.round.filter(mine))];
      if (!rounds.length) return "";
      return `${words} in ${rounds.length} round${rounds.length > 1 ? "s" : ""}: ${listed(rounds)}.`;
    });
    if (events.until) lines.push(`Told are rounds 1 to ${events.until}.`);
    return lines.filter((line) => line);
  }

  function showClient(client) {
    $$(".history").forEach((place) => place.replaceChildren());
    if (client === null) return;
    $("#client-number").value = client;
    const about = data.runs[run].clients;
    const at = about.client.indexOf(client);
    const facts = [];
    if (at >= 0) {
      const value = (column) => about[column]?.[at] ?? NaN;
      facts.push(`${units.count(value("samples"))} samples`);
      facts.push(`${units.duration(value("speed_s"))} a step`);
      facts.push(`asked ${units.count(value("selected"))} times, used ${units.count(value("used"))} times`);
      for (const column of ["loss", "accuracy"]) {
        if (Number.isFinite(value(column))) facts.push(`${column} ${units.number(value(column))}`);
      }
    }
    const { name, seed } = data.runs[run];
    const head = facts.length ? facts.join(", ") : "this page knows nothing of it";
    const lines = [`Client ${client} with ${name}, seed ${seed}: ${head}.`, ...history(client)];
    for (const place of $$(".history")) {
      for (const line of lines) {
        place.appendChild(document.createElement("p")).textContent = line;
      }
    }
  }

  function listenClients() {
    const field = $("#client-number");
    field?.addEventListener("change", () => {
      const client = Number.parseInt(field.value, 10);
      showClient(Number.isNaN(client) ? null : client);
    });
    for (const id of ["timeline", "participation"]) {
      document.getElementById(id)?.on?.("plotly_click", ({ points }) => {
        const part = points[0].data.meta?.part;
        if (part !== "server" && part !== "density") showClient(points[0].customdata[0]);
      });
    }
  }

  // ---- start --------------------------------------------------------------------------------

  async function drawAll() {
    document.body.classList.toggle("keyed", keyed());
    await drawConvergence();
    await drawSweep();
    await drawMixing();
    await drawRun();
    await walk.redraw();
    await own.redraw();
    await drawFairness();
  }

  // Plotly is large: the text and the table are painted before it is even parsed.
  function loadPlotly() {
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }

  async function start() {
    table.listen();
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 0)));
    loadPlotly();
    walk.start(data.walks, data.walked, draw);
    own.start(data.own, data.view.own, draw);
    await drawAll();
    if (data.convergence) listenTarget();
    listenButtons();
    listenClients();
    walk.listen();
    for (const query of [night, narrow]) query.addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => ((printing = true), drawAll()));
    window.addEventListener("afterprint", () => ((printing = false), drawAll()));
    document.body.dataset.ready = "true";
  }

  return { start, setTarget, view, data };
})();

page.start();
