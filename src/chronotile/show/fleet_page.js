// Sorts a table by the column whose head is chosen; once more, the other way round.
const value = (row, at) => {
  const cell = row.children[at];
  return cell.dataset.key === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.key);
};
for (const head of document.querySelectorAll("th")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const at = head.cellIndex;
    const wasUp = head.getAttribute("aria-sort") === "ascending";
    const isNumber = body.rows[0]?.children[at].dataset.key !== undefined;
    const wasDown = head.getAttribute("aria-sort") === "descending";
    const up = isNumber ? wasDown : !wasUp;
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].sort((a, b) => {
      const [one, two] = [value(a, at), value(b, at)];
      return (one < two ? -1 : one > two ? 1 : 0) * (up ? 1 : -1);
    });
    body.append(...rows);
  });
}
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("#arrays tbody tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
});
document.body.dataset.ready = "yes";
