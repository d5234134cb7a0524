// Figures in the reader's colours and at the reader's width.
const figures = (() => {
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 640px)");
  let printing = false;
  let data = null;

  const dark = () => night.matches && !printing;

  function themed(value) {
    if (typeof value === "string") return dark() ? (data.dark[value] ?? value) : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item)]));
  }

  // Whether the key above a figure names the lines, not labels at their ends.
  const keyed = () => narrow.matches || !data.labelled;

  function fitted(figure, width) {
    const layout = figure.layout;
    layout.showlegend = false;
    if (layout.annotations?.length || layout.margin.r > 100) {
      if (keyed()) Object.assign(layout, { annotations: [], margin: { ...layout.margin, r: 16 } });
      layout.margin.b = 52;
    }
    if (narrow.matches) {
      layout.margin = { ...layout.margin, l: 52 };
      layout.dragmode = false; // a finger on a figure scrolls the page
      for (const [key, axis] of Object.entries(layout)) {
        if (key.startsWith("yaxis") && axis.automargin) axis.title = { ...axis.title, text: "" }; // names need the room
      }
      if (layout.yaxis.scaleanchor) square(figure, width);
    }
    return figure;
  }

  // Axes of one scale are no higher than they are wide; a scale of colours beside them stands above.
  function square({ data: traces, layout }, width) {
    const scales = traces.map((trace) => trace.marker?.colorbar).filter((bar) => bar && bar.orientation !== "h");
    for (const trace of traces) trace.cliponaxis = false; // dots at the edge are not cut
    for (const bar of scales) {
      Object.assign(bar, { orientation: "h", len: 1, x: 0.5, xanchor: "center", y: 1, yanchor: "bottom" });
      bar.title = { ...bar.title, side: "top" };
    }
    const bare = layout.yaxis.showticklabels === false;
    Object.assign(layout.margin, { l: bare ? 16 : 52, t: scales.length ? 72 : 12 });
    const { l, r, t, b } = layout.margin;
    layout.height = Math.min(layout.height, width - l - r + t + b);
  }

  const folded = new Map(); // figures in closed folds, drawn when these are opened
  const listeners = new Map(); // of figures, attached when these are first drawn

  function draw(id, figure, edits = {}) {
    const place = document.getElementById(id);
    folded.delete(id);
    if (!place || !figure) return Promise.resolve();
    if (place.closest("details:not([open])")) {
      folded.set(id, () => draw(id, figure, edits));
      return Promise.resolve();
    }
    const { data: traces, layout } = themed(fitted(structuredClone(figure), place.clientWidth));
    place.style.minHeight = `${layout.height}px`;
    const config = { displayModeBar: false, responsive: true, doubleClick: "reset", edits };
    const first = !place.on;
    const drawn = Plotly.react(place, traces, { ...zoomed(place, layout), autosize: true }, config);
    if (first) for (const [kind, act] of listeners.get(id) ?? []) place.on(kind, act);
    return drawn;
  }

  function on(id, kind, act) {
    listeners.set(id, [...(listeners.get(id) ?? []), [kind, act]]);
    document.getElementById(id).on?.(kind, act);
  }

  // Of a page that is live the reader's zoom stays while rows come, until other axes are chosen.
  const opened = new Map(); // the axes and their ranges that figures were drawn with
  function zoomed(place, layout) {
    if (!data.live) return layout;
    const axes = Object.keys(layout).filter((key) => /^[xy]axis/.test(key));
    const kind = axes.map((key) => [layout[key].title?.text, layout[key].type]).join();
    const before = opened.get(place.id);
    opened.set(place.id, { kind, ranges: Object.fromEntries(axes.map((key) => [key, String(layout[key].range)])) });
    if (before?.kind !== kind) return layout;
    for (const key of axes) {
      const range = place.layout?.[key]?.range;
      if (range && layout[key].range && String(range) !== before.ranges[key]) layout[key].range = range;
    }
    return layout;
  }

  // Draws a figure, or empties its place where there is none.
  function drawOrClear(id, figure) {
    if (!figure) {
      folded.delete(id);
      Plotly.purge(id);
    }
    return draw(id, figure);
  }

  // A copy of a figure without the lines of some algorithms.
  function without(figure, hidden) {
    const copy = structuredClone(figure);
    for (const trace of copy.data) trace.visible = !hidden.has(trace.meta.name);
    const labels = copy.layout.annotations ?? [];
    copy.layout.annotations = labels.filter((label) => !hidden.has(label.name));
    return copy;
  }

  function save(id, format) {
    const place = document.getElementById(id);
    const size = { width: place.clientWidth, height: place.clientHeight };
    if (format === "pdf") return printed(place, size);
    return Plotly.downloadImage(place, { format, filename: `${data.file}-${id}`, scale: 2, ...size });
  }

  // A browser makes PDF files by printing: the figure alone, on a sheet of its size, in vectors.
  async function printed(place, { width, height }) {
    const image = await Plotly.toImage(place, { format: "svg", width, height });
    const svg = decodeURIComponent(image.slice(image.indexOf(",") + 1));
    document.getElementById("sheet")?.remove();
    const sheet = document.createElement("iframe");
    sheet.id = "sheet";
    sheet.srcdoc = `<!doctype html><title>${data.file}-${place.id}</title>
<style>@page { size: ${width}px ${height}px; margin: 0 } body { margin: 0 } svg { display: block }</style>${svg}`;
    sheet.addEventListener("load", () => sheet.contentWindow.print());
    document.body.append(sheet);
  }

  // Plotly is large: the text and the table are painted before it is even parsed.
  async function start(shared) {
    data = shared;
    const { src } = document.getElementById("plotly").dataset;
    const script = document.createElement("script");
    const loaded = new Promise((done) => script.addEventListener("load", done));
    if (src) script.src = src;
    else script.textContent = await packed.text("plotly");
    document.head.append(script);
    if (src) await loaded;
  }

  // Removes the listeners of figures that stay while their panels are made anew.
  function forget() {
    listeners.clear();
    for (const place of document.querySelectorAll(".js-plotly-plot")) {
      for (const kind of ["plotly_click", "plotly_relayout"]) place.removeAllListeners(kind);
    }
  }

  // Calls `redraw` whenever colours or widths change.
  function listen(redraw) {
    for (const query of [night, narrow]) query.addEventListener("change", redraw);
    let opened = []; // folds that printing has opened
    const print = (on) => {
      printing = on;
      if (on) opened = [...document.querySelectorAll("details:not([open])")];
      for (const fold of opened) fold.open = on;
      redraw();
    };
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    const unfold = () => [...folded.values()].forEach((drawing) => drawing());
    document.addEventListener("toggle", unfold, true); // this event does not bubble
  }

  function listenSaves() {
    document.querySelectorAll("button[data-save]").forEach((button) =>
      button.addEventListener("click", () => save(button.dataset.save, button.dataset.format)),
    );
  }

  return { start, forget, listen, listenSaves, on, draw, drawOrClear, without, keyed, narrow };
})();
