// The atlas's table: a heading sorts by its column, the fields above leave out rows.
"use strict";
(() => {
  const table = document.getElementById("atlas");
  const form = document.getElementById("filters");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  const column = (name) => headings.findIndex((cell) => cell.textContent.trim() === name);

  const compared = (place, sign) => (one, other) => {
    const [left, right] = [one.cells[place], other.cells[place]];
    const [a, b] = [left, right].map((cell) => (cell.dataset.number === undefined ? null : Number(cell.dataset.number)));
    if (a !== null && b !== null) return sign * (a - b);
    if (a !== null || b !== null) return a !== null ? -1 : 1; // What has no number stands last.
    return sign * left.textContent.localeCompare(right.textContent);
  };

  headings.forEach((cell, place) =>
    cell.querySelector("button").addEventListener("click", () => {
      const numbers = rows.some((row) => row.cells[place].dataset.number !== undefined);
      const first = numbers ? "descending" : "ascending";
      const other = numbers ? "ascending" : "descending";
      const order = cell.getAttribute("aria-sort") === first ? other : first;
      headings.forEach((one) => one.setAttribute("aria-sort", "none"));
      cell.setAttribute("aria-sort", order);
      rows.sort(compared(place, order === "ascending" ? 1 : -1)).forEach((row) => body.append(row));
    }),
  );

  const filter = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fixed = ["task", "family"].map((name) => [column(name), form.elements[name].value]);
    const outcome = form.elements.outcome.value;
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const kept =
        words.every((word) => text.includes(word)) &&
        fixed.every(([place, value]) => !value || row.cells[place].textContent.trim() === value) &&
        (!outcome || row.dataset.outcome === outcome);
      row.hidden = !kept;
      count += kept ? 1 : 0;
    }
    document.getElementById("shown").textContent = `${count} of ${rows.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
