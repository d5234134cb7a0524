// The answer in a sentence, of the column and the clock that the reader has chosen.
page.add("headline", (payload) => {
  const { view } = page;

  function draw() {
    const said = payload.answers[view.y] ?? {};
    const [part] = page.parts();
    const moved = part && view.target !== part.curves.columns[view.y]?.target;
    const text = said.all ?? (moved ? undefined : said[view.x]);
    if (text) page.say("answer", text);
    else if (part && view.y in payload.answers) page.say("answer", curves.reading(part.curves, part.names, view));
    page.say("answer-target", moved ? "" : payload.targets[view.y]);
  }

  return { draw, changed: (what) => (what === "view" ? draw() : undefined) };
});
