// Models of the clients' own, of the run that is chosen here.
page.add("personal", ({ runs, first }) => {
  let chosen = first;

  function choose(name, seed) {
    chosen = page.find(runs, name, seed);
    page.press("personal-name", runs[chosen].name);
    page.press("personal-seed", runs[chosen].seed);
    return draw();
  }

  async function draw() {
    const one = runs[chosen];
    page.say("personal-note", one.note);
    page.say("personal-how", one.how);
    for (const dot of document.querySelectorAll(".dot.personal")) {
      dot.style.borderColor = `var(--a${one.place})`;
      if (dot.style.background) dot.style.background = `var(--a${one.place})`;
    }
    const key = document.getElementById("personal-shared"); // there is none where clients are many
    if (key) key.closest("li").hidden = !one.shared;
    for (const id of ["personal", "personal-rounds"]) await figures.draw(id, one[id]);
  }

  const choices = {
    "personal-name": (name) => choose(name, runs[chosen].seed),
    "personal-seed": (seed) => choose(runs[chosen].name, Number(seed)),
  };

  return { draw, choices };
});
