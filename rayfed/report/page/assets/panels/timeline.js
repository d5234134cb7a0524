// The timeline of the chosen run; here the reader chooses a span of it, and a client.
page.add("timeline", (payload) => {
  const $ = (selector) => document.querySelector(selector);
  const { data, view } = page;
  let whole = false;

  function draw() {
    const { title, figure } = payload.runs[view.run];
    const shown = structuredClone(figure);
    const meta = shown.layout.meta ?? {};
    if (whole && meta.whole) shown.layout.xaxis.range = [0, meta.whole];
    $("#span").hidden = !(meta.first && meta.first < meta.last);
    page.say("timeline-title", title);
    page.say("timeline-note", meta.note);
    $(".statuses .away + span").textContent = meta.blank;
    $(".statuses .computing").style.background = page.colour(data.runs[view.run].name);
    const row = payload.histories[view.run].clients.client.indexOf(clientHistory.current());
    if (row >= 0 && meta.first) shown.layout.shapes = [...(shown.layout.shapes ?? []), frame(row, meta.frame)];
    return figures.draw("timeline", shown);
  }

  // A frame around the row of the client with a history.
  const frame = (row, line) => ({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: row - 0.48, y1: row + 0.48, line });

  const plain = page.plain("timeline", payload);

  function listen() {
    plain.listen();
    const field = $("#client-number");
    field.addEventListener("change", () => {
      const client = clientHistory.numbered(field.value.trim());
      Number.isNaN(client) ? clientHistory.clear() : clientHistory.show(client);
    });
  }

  const choices = {
    span: (value) => {
      whole = value === "whole";
      return draw();
    },
  };

  function changed(what) {
    if (what === "run") clientHistory.clear();
    return what === "run" || what === "client" ? draw() : undefined;
  }

  return { draw, listen, choices, changed };
});
