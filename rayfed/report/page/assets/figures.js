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
      for (const [key, axis] of Object.entries(layout)) {
        if (key.startsWith("yaxis") && axis.automargin) axis.title = { ...axis.title, text: "" }; // names need the room
      }
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

  // Draws a figure, or empties its place where there is none.
  function drawOrClear(id, figure) {
    if (!figure) Plotly.purge(id);
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
    Plotly.downloadImage(place, { format, filename: `${data.file}-${id}`, scale: 2, ...size });
  }

  function start(shared) {
    data = shared;
    // Plotly is large: the text and the table are painted before it is even parsed.
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }

  // Calls `redraw` whenever colours or widths change.
  function listen(redraw) {
    for (const query of [night, narrow]) query.addEventListener("change", redraw);
    window.addEventListener("beforeprint", () => ((printing = true), redraw()));
    window.addEventListener("afterprint", () => ((printing = false), redraw()));
    document.querySelectorAll("button[data-save]").forEach((button) =>
      button.addEventListener("click", () => save(button.dataset.save, button.dataset.format)),
    );
  }

  return { start, listen, draw, drawOrClear, without, keyed, narrow };
})();
