// Models of the clients' own: which run's are shown.
const own = (() => {
  const $ = (id) => document.getElementById(id);
  let runs = [];
  let draw = null;
  let chosen = 0;

  // The run of a name and a seed; of another seed where that name has no such run.
  function choose({ name = runs[chosen].name, seed = runs[chosen].seed }, press) {
    const at = runs.findIndex((one) => one.name === name && one.seed === seed);
    chosen = at >= 0 ? at : runs.findIndex((one) => one.name === name);
    press("ownname", runs[chosen].name);
    press("ownseed", runs[chosen].seed);
    return redraw();
  }

  async function redraw() {
    if (!runs.length) return;
    const one = runs[chosen];
    for (const [id, text] of Object.entries(one.titles)) $(`${id}-title`).textContent = text;
    $("own-note").textContent = one.note;
    $("own").parentElement.querySelector(".how").textContent = one.how;
    for (const dot of document.querySelectorAll(".dot.own")) {
      dot.style.borderColor = `var(--a${one.place})`;
      if (dot.style.background) dot.style.background = `var(--a${one.place})`;
    }
    const key = $("own-shared"); // there is none where clients are many
    if (key) key.closest("li").hidden = !one.shared;
    for (const id of ["own", "own-rounds"]) await draw(id, one[id]);
  }

  function start(found, first, drawing) {
    [runs, chosen, draw] = [found, first, drawing];
  }

  return { start, choose, redraw };
})();
