"use strict";

// Lines that come from each other are marked together: a line names those that it comes from in data-from.
for (const panes of document.querySelectorAll("[data-panes]")) {
  const lines = [...panes.querySelectorAll("li")];
  const made = new Map();  // the lines that come from a line, by its id
  const sources = (line) => (line.dataset.from || "").split(" ").filter(Boolean);
  for (const line of lines)
    for (const id of sources(line)) made.set(id, [...(made.get(id) || []), line]);

  const follow = (line, next, found = new Set()) => {
    for (const other of next(line)) if (!found.has(other)) { found.add(other); follow(other, next, found); }
    return found;
  };
  let held = false;
  const show = (line) => {
    for (const old of panes.querySelectorAll(".linked, .current")) old.classList.remove("linked", "current");
    if (!line) return;
    const above = follow(line, (each) => sources(each).map((id) => document.getElementById(id)).filter(Boolean));
    const below = follow(line, (each) => made.get(each.id) || []);
    for (const each of [line, ...above, ...below]) each.classList.add("linked");
    line.classList.add("current");
  };
  const hold = (line) => {
    held = true;
    show(line);
    for (const list of panes.querySelectorAll(".code")) {
      const first = list.querySelector(".linked");
      if (first && !list.contains(line)) list.scrollTop = first.offsetTop - list.offsetTop - list.clientHeight / 3;
    }
  };
  const release = () => { held = false; show(null); };

  for (const list of panes.querySelectorAll(".code")) {
    list.addEventListener("mouseover", (event) => { if (!held) show(event.target.closest("li")); });
    list.addEventListener("mouseleave", () => { if (!held) show(null); });
    list.addEventListener("click", (event) => {
      const line = event.target.closest("li");
      if (!line || event.target.closest("a")) return;
      if (held && line.classList.contains("current")) release(); else hold(line);
    });
    list.addEventListener("keydown", (event) => {
      const current = list.querySelector(".current");
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (step) {
        const line = current ? current[step] : list.firstElementChild;
        if (line) { held = false; show(line); line.scrollIntoView({ block: "nearest" }); }
      } else if (event.key === "Enter" && current) hold(current);
      else if (event.key === "Escape") release();
      else return;
      event.preventDefault();
    });
  }
}

// A click on the head of a column sorts by it: numbers as numbers, what is empty last.
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text);
  return text === "" ? null : Number.isNaN(number) ? text : number;
};
const compare = (a, b) => {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
};
for (const table of document.querySelectorAll(".sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        return down && a !== null && b !== null ? compare(b, a) : compare(a, b);
      });
      table.tBodies[0].append(...rows);
    });
  });
}

// Each picture becomes one to explore, once Plotly has been unpacked; without scripts, or in an old browser, it stays.
const unpack = async (element) => {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
};
const draw = async (figure) => {
  const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
  const style = getComputedStyle(document.body);
  const line = { gridcolor: style.getPropertyValue("--line"), zerolinecolor: style.getPropertyValue("--line") };
  for (const axis of ["xaxis", "yaxis"]) layout[axis] = { ...line, ...layout[axis] };
  const page = { paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: { color: style.color },
                 margin: { t: 10, r: 10 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" } };
  const picture = figure.querySelector(".picture");
  picture.replaceChildren();
  await Plotly.newPlot(picture, data, { ...page, ...layout }, { responsive: true, displaylogo: false });
};
const drawAll = async () => {
  await unpack(document.getElementById("plotly"));
  for (const figure of document.querySelectorAll(".plot")) await draw(figure);
};
if ("DecompressionStream" in window) {
  addEventListener("load", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
