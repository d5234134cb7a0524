// Tables as text: Markdown, CSV, or LaTeX with the booktabs package.
const tables = (() => {
  const SIGNS = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "±": "$\\pm$",
    "∞": "$\\infty$",
    "|": "\\textbar{}",
    "[": "{[}", // after the end of a row it would be an option of that
    "*": "{*}", // and so would this
  };

  const formats = {
    markdown({ titles, cells }) {
      const safe = (text) => text.replace(/[\\|*_`<>]/g, "\\$&").replace(/\s+/g, " ");
      const line = (texts) => `| ${texts.join(" | ")} |\n`;
      const rule = titles.map((_, place) => (place ? "---:" : "---"));
      const shown = ({ text, best }) => (best ? `**${safe(text)}**` : safe(text));
      return [titles.map(safe), rule, ...cells.map((row) => row.map(shown))].map(line).join("");
    },
    csv({ titles, cells }) {
      const safe = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      const texts = [titles, ...cells.map((row) => row.map(({ text }) => text))];
      return texts.map((row) => `${row.map(safe).join(",")}\n`).join("");
    },
    latex({ titles, cells }) {
      const safe = (text) => text.replace(/[\\~^<>±∞|[*&%$#_{}]/g, (sign) => SIGNS[sign] ?? `\\${sign}`);
      const shown = ({ text, best }) => (best ? `\\textbf{${safe(text)}}` : safe(text));
      const line = (texts) => `${texts.join(" & ")} \\\\`;
      return [
        `\\begin{tabular}{l${"r".repeat(titles.length - 1)}}`,
        "\\toprule",
        line(titles.map(safe)),
        "\\midrule",
        ...cells.map((row) => line(row.map(shown))),
        "\\bottomrule",
        "\\end{tabular}",
        "",
      ].join("\n");
    },
  };

  // A table as it stands, in a format. A row of a case is copied with the case in its name.
  function text(id, format) {
    const table = document.getElementById(id);
    const titles = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const cell = (one) => ({ text: one.dataset.copied ?? one.textContent.trim(), best: one.matches(".best") });
    const cells = [...table.querySelectorAll("tbody tr:not(.case)")].map((row) => [...row.cells].map(cell));
    return formats[format]({ titles, cells });
  }

  async function copy(button) {
    const copied = text(button.dataset.table, button.dataset.copy);
    try {
      await navigator.clipboard.writeText(copied);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = copied;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const status = button.parentElement.querySelector(".copied");
    status.textContent = `Copied as ${button.textContent}.`;
    setTimeout(() => (status.textContent = ""), 2500);
  }

  return { text, copy };
})();
