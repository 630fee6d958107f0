"use strict";

// ------------------------------------------------------------ curves: values under the pointer or by the arrow keys

const tip = document.getElementById("tip");
const SVG = "http://www.w3.org/2000/svg";
const FRAME = { width: 380, left: 46, right: 10, top: 10, bottom: 166 };

function shown(value, share) {
  return share ? (value * 100).toFixed(1) + " %" : Number(value.toPrecision(4)).toString();
}

// The steps at which some line has a value.
function stepsOf(chart) {
  return [...new Set(chart.lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
}

function nearest(items, x, key) {
  return items.reduce((best, item) => (Math.abs(key(item) - x) < Math.abs(key(best) - x) ? item : best));
}

// What each line has at a step, or at its own step nearest to it.
function valuesAt(chart, step) {
  return chart.lines.map((line) => {
    const point = nearest(line.points, step, (one) => one[0]);
    const ends = (line.band || []).find((one) => one[0] === point[0]);
    return line.name + " " + shown(point[1], chart.share) +
      (ends ? ` (${shown(ends[1], chart.share)} to ${shown(ends[2], chart.share)})` : "") +
      (point[0] === step ? "" : ` at ${point[0]}`);
  });
}

function follow(svg) {
  const chart = JSON.parse(svg.dataset.chart);
  const steps = stepsOf(chart);
  const cross = document.createElementNS(SVG, "line");
  cross.setAttribute("class", "cross");
  cross.setAttribute("y1", FRAME.top);
  cross.setAttribute("y2", FRAME.bottom);
  cross.style.display = "none";
  svg.append(cross);
  const inner = FRAME.width - FRAME.left - FRAME.right;
  let place = null;

  function show(index, left, top) {
    place = index;
    const x = FRAME.left + ((steps[index] - chart.left) / (chart.right - chart.left)) * inner;
    cross.setAttribute("x1", x);
    cross.setAttribute("x2", x);
    cross.style.display = "";
    tip.textContent = [chart.across + " " + steps[index], ...valuesAt(chart, steps[index])].join("\n");
    tip.style.display = "block";
    const box = svg.getBoundingClientRect();
    const across = left ?? box.left + (x / FRAME.width) * box.width;
    tip.style.left = Math.max(8, Math.min(across + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(8, Math.min((top ?? box.top) + 16, window.innerHeight - tip.offsetHeight - 8)) + "px";
  }
  function hide() {
    cross.style.display = "none";
    tip.style.display = "none";
    place = null;
  }
  function under(event) {
    const box = svg.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * FRAME.width - FRAME.left) / inner;
    const x = chart.left + Math.min(1, Math.max(0, part)) * (chart.right - chart.left);
    show(steps.indexOf(nearest(steps, x, (one) => one)), event.clientX, event.clientY);
  }
  function key(event) {
    const last = steps.length - 1;
    const next = { ArrowLeft: (place ?? last + 1) - 1, ArrowRight: (place ?? -1) + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") hide();
    else if (next !== undefined) {
      event.preventDefault();
      show(Math.min(last, Math.max(0, next)));
    }
  }
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerdown", under);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("keydown", key);
  svg.addEventListener("blur", hide);
}

// ------------------------------------------------------------ a chart as a file

// The chart as a table: a row per step, a column per line and for each end of its interval.
function tableOf(chart) {
  const columns = chart.lines.flatMap((line) => {
    const column = (name, points, place) => ({ name, at: new Map(points.map((point) => [point[0], point[place]])) });
    const band = line.band || [];
    return [column(line.name, line.points, 1),
      ...(band.length ? [column(line.name + " low", band, 1), column(line.name + " high", band, 2)] : [])];
  });
  return [[chart.across, ...columns.map((one) => one.name)],
    ...stepsOf(chart).map((step) => [step, ...columns.map((one) => one.at.get(step) ?? "")])];
}

// Names are texts of others: quoted, and never a formula of the program that opens the file.
function csv(table) {
  const cell = (value) => (typeof value === "number" ? String(value)
    : '"' + value.replace(/^[=+\-@\t]/, "'$&").replaceAll('"', '""') + '"');
  return table.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity",
  "font-family", "font-size"];

// The drawing with its title, legend and present colours, as a file of its own.
function standalone(svg, title, names) {
  const copy = svg.cloneNode(true);
  const styled = [...svg.querySelectorAll("*")].map((one) => getComputedStyle(one));
  [...copy.querySelectorAll("*")].forEach((one, index) => {
    for (const name of STYLES) one.setAttribute(name, styled[index].getPropertyValue(name));
    if (one.classList.contains("cross")) one.remove();
    one.removeAttribute("class");
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const head = 24 + (names.length > 1 ? 16 : 0);
  const page = getComputedStyle(document.body);
  const put = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };
  const font = { "font-family": page.fontFamily, fill: page.color };
  const heading = [put("rect", { x: 0, y: -head, width, height: height + head, fill: page.backgroundColor }),
    put("text", { ...font, x: 8, y: 16 - head, "font-size": 13, "font-weight": 600 }, title)];
  if (names.length > 1) {
    const legend = put("text", { ...font, x: 8, y: 33 - head, "font-size": 11 });
    names.forEach(([name, colour]) => legend.append(put("tspan", { fill: colour }, "— " + name + "   ")));
    heading.push(legend);
  }
  copy.prepend(...heading);
  for (const name of ["class", "data-chart", "data-table", "tabindex", "style"]) copy.removeAttribute(name);
  copy.setAttribute("aria-label", title);
  copy.setAttribute("viewBox", `0 ${-head} ${width} ${height + head}`);
  copy.setAttribute("width", 2 * width);
  copy.setAttribute("height", 2 * (height + head));
  return new XMLSerializer().serializeToString(copy);
}

function save(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function offerFiles(bar) {
  const figure = bar.closest("figure");
  const svg = figure.querySelector("svg");
  const title = bar.dataset.title;
  const name = `${document.title} ${title}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80);
  bar.hidden = false;
  bar.addEventListener("click", (event) => {
    if (event.target.dataset.save === "svg") {
      const names = [...figure.querySelectorAll(".legend span")].map((one) =>
        [one.textContent, getComputedStyle(one.querySelector("i")).backgroundColor]);
      save(standalone(svg, title, names), "image/svg+xml", name + ".svg");
    } else if (event.target.dataset.save === "csv") {
      const table = svg.dataset.table ? JSON.parse(svg.dataset.table) : tableOf(JSON.parse(svg.dataset.chart));
      save(csv(table), "text/csv", name + ".csv");
    }
  });
}

document.querySelectorAll("svg.chart").forEach(follow);
document.querySelectorAll("figure .save").forEach(offerFiles);
