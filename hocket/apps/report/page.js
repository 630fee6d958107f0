"use strict";

// ------------------------------------------------------------ curves: values under the pointer

const tip = document.getElementById("tip");
const FRAME = { width: 380, left: 46, right: 10, top: 10, bottom: 166 };

function shown(value, share) {
  return share ? (value * 100).toFixed(1) + " %" : Number(value.toPrecision(4)).toString();
}

function follow(svg) {
  const data = JSON.parse(svg.dataset.chart);
  const cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cross.setAttribute("class", "cross");
  cross.setAttribute("y1", FRAME.top);
  cross.setAttribute("y2", FRAME.bottom);
  cross.style.display = "none";
  svg.append(cross);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * FRAME.width;
    const part = (at - FRAME.left) / (FRAME.width - FRAME.left - FRAME.right);
    const x = data.left + Math.min(1, Math.max(0, part)) * (data.right - data.left);
    const near = data.lines.map((line) => [
      line.name,
      line.points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best)),
    ]);
    const step = near[0][1][0];
    const place = FRAME.left + ((step - data.left) / (data.right - data.left)) * (FRAME.width - FRAME.left - FRAME.right);
    cross.setAttribute("x1", place);
    cross.setAttribute("x2", place);
    cross.style.display = "";
    tip.textContent = data.across + " " + step + near.map(([name, point]) => "  ·  " + name + " " + shown(point[1], data.share)).join("");
    tip.style.display = "block";
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = left + "px";
    tip.style.top = event.clientY + 16 + "px";
  });
  svg.addEventListener("pointerleave", () => {
    cross.style.display = "none";
    tip.style.display = "none";
  });
}

document.querySelectorAll("svg.chart").forEach(follow);
