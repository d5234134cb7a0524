// Texts of the page's elements, which a page in one file holds as gzip in base64.
const packed = (() => {
  async function text(id) {
    const { type, textContent } = document.getElementById(id);
    if (type !== "application/gzip") return textContent;
    const bytes = Uint8Array.from(atob(textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  return { text };
})();
