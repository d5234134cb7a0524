// The sweep, of the column that is chosen to be shown.
page.add("sweep", (payload) => {
  async function draw() {
    const made = payload[page.view.y];
    if (!made) return;
    await Promise.all(made.figures.map((figure, i) => figures.draw(`sweep-${i}`, figure)));
  }

  return { draw, changed: (what) => (what === "view" ? draw() : undefined) };
});
