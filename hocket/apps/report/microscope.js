"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
let by = "advantages";

function make(tag, kind, text) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
}

function shown(value) {
  return Math.abs(value) >= 1e-3 || value === 0 ? value.toFixed(4) : value.toExponential(2);
}

function token(row, under, place, most) {
  // A negative gradient raises the log-prob, so its negation is what credit is comparable with.
  const strength = by === "gradient" ? -under.gradient[place] : under.advantages[place];
  const node = make("span", "token" + (under.weight[place] === 0 ? " off" : ""), row.pieces[place]);
  if (most > 0 && under.weight[place] !== 0)
    node.style.background = `rgba(var(--${strength >= 0 ? "good" : "bad"}), ${(0.75 * Math.abs(strength) / most).toFixed(3)})`;
  node.dataset.tip = `${JSON.stringify(row.pieces[place])}  log-prob ${row.logp[place].toFixed(3)}\n` +
    `credit ${shown(under.advantages[place])}  weight ${shown(under.weight[place])}  gradient ${shown(under.gradient[place])}`;
  return node;
}

function lane(row, recipe, under) {
  const box = make("div", "lane");
  box.append(make("h3", "", recipe.name));
  if (!under) {
    box.append(make("p", "soft small", recipe.error));
    return box;
  }
  const said = make("div", "said mono" + (row.apart ? " apart" : ""));
  row.pieces.forEach((_, place) => said.append(token(row, under, place, recipe.most[by])));
  box.append(said);
  return box;
}

// Rows without signal, which come last, are folded up unless there are no others.
function draw() {
  const all = document.getElementById("trajectories");
  const open = document.querySelector("#trajectories details")?.open || false;
  const taught = new Set(data.rows.filter((row) => row.signal).map((row) => row.group));
  const silent = data.rows.filter((row) => taught.size && !taught.has(row.group));
  const rest = make("details");
  rest.open = open;
  rest.append(make("summary", "", `Without signal (${silent.length})`));
  all.replaceChildren();
  for (const row of data.rows) {
    const card = make("section", "card trajectory");
    const head = make("header");
    head.append(make("b", "", row.id), make("span", "", row.group), make("span", "", row.scores));
    const lanes = make("div", "lanes");
    data.recipes.forEach((recipe, i) => lanes.append(lane(row, recipe, row.under[i])));
    const scroll = make("div", "scroll");
    scroll.append(lanes);
    card.append(head, scroll);
    (silent.includes(row) ? rest : all).append(card);
  }
  if (silent.length) all.append(rest);
}

for (const button of document.querySelectorAll("button[data-by]"))
  button.addEventListener("click", () => {
    by = button.dataset.by;
    document.querySelectorAll("button[data-by]").forEach((one) => one.setAttribute("aria-pressed", one === button));
    draw();
  });
document.addEventListener("pointermove", (event) => {
  const text = event.target.dataset ? event.target.dataset.tip : undefined;
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.style.whiteSpace = "pre-line";
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 275) + "px";
  tip.style.top = event.clientY + 16 + "px";
});
draw();
