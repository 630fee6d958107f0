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

// ------------------------------------------------------------ rollouts

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined && text !== null) node.textContent = text;
  return node;
}

const number = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(3)).toString());
const signed = (value) => (value > 0 ? "+" : "") + number(value).replace("-", "−");

const source = document.getElementById("rollouts");
const view = { steps: source ? JSON.parse(source.textContent).steps : [], step: 0, group: 0, colour: "advantage" };

function largest(step) {
  let most = 0;
  for (const group of step.groups)
    for (const sample of group.samples)
      for (const turn of sample.turns || [])
        for (const value of [].concat(turn.advantage ?? [])) most = Math.max(most, Math.abs(value || 0));
  return most || 1;
}

// Blue for more, orange for less: told apart by every kind of colour vision, on light and on dark.
function tint(value, most) {
  if (!value) return "";
  const strength = Math.min(1, Math.abs(value) / most);
  return `rgba(var(${value > 0 ? "--good" : "--bad"}), ${(0.1 + 0.5 * strength).toFixed(3)})`;
}

function token(text, advantage, logp, weight, most) {
  const node = make("span", "token" + (weight === 0 ? " off" : ""), text);
  const colour = view.colour === "advantage" ? tint(advantage, most) : tint(logp === null ? 0 : logp, 3);
  if (colour) node.style.background = colour;
  const parts = [];
  if (advantage !== null && advantage !== undefined) parts.push("advantage " + signed(advantage));
  if (logp !== null && logp !== undefined) parts.push("probability " + number(Math.exp(logp)));
  if (weight === 0) parts.push("not learnt from");
  node.title = parts.join(", ");
  return node;
}

const at = (column, place) => (Array.isArray(column) ? column[place] : (column ?? null));

function bubble(turn, most, agents) {
  const node = make("div", "bubble agent");
  const place = agents.indexOf(turn.agent);
  node.style.setProperty("--agent", `var(--c${(place < 0 ? 0 : place) % 6})`);
  const name = turn.role && turn.role !== turn.agent ? turn.agent + " as " + turn.role : turn.agent;
  node.append(make("div", "who", name + " · " + turn.length + (turn.actions ? " actions" : " tokens") +
    (turn.finish && turn.finish !== "stop" ? " · ended by " + turn.finish : "")));
  const said = make("div", "said");
  if (turn.tokens)
    turn.tokens.forEach((text, i) =>
      said.append(token(text, at(turn.advantage, i), at(turn.logp, i), at(turn.weight ?? 1, i), most)));
  else if (turn.actions) said.append(make("span", "mono", turn.actions));
  else said.append(token(turn.text || "(nothing)", Array.isArray(turn.advantage) ? null : turn.advantage, null, 1, most));
  node.append(said);
  return node;
}

function episode(sample, index, most, agents) {
  const card = make("article", "card episode");
  const head = make("header");
  head.append(make("b", "", "reward " + number(sample.reward)));
  head.append(make("span", "", "sample " + (index + 1)));
  if (sample.advantage !== null) head.append(make("span", "", "advantage " + signed(sample.advantage)));
  for (const [name, value] of Object.entries(sample.scores || {}))
    if (typeof value === "number" && (name !== "reward" || Object.keys(sample.scores).length > 1))
      head.append(make("span", "", name + " " + number(value)));
  for (const flag of sample.flags) head.append(make("span", "flag", flag));
  card.append(head);
  for (const turn of sample.turns) {
    for (const message of turn.prompt) {
      const node = make("div", "bubble");
      node.append(make("div", "who", message.role));
      node.append(make("div", "said", message.content));
      card.append(node);
    }
    card.append(bubble(turn, most, agents));
  }
  for (const [name, words] of Object.entries(sample.feedback || {})) card.append(make("div", "small soft", name + ": " + words));
  if (sample.failure) card.append(make("div", "flag", "failed: " + sample.failure));
  return card;
}

function groupRow(group, index, top) {
  const row = make("tr", (group.shown ? "open" : "") + (index === view.group ? " chosen" : ""));
  row.append(make("td", "", group.number + 1));
  const prompt = make("td");
  const short = make("div", "prompt", group.prompt || group.scenario);
  short.title = group.prompt || group.scenario;
  prompt.append(short);
  row.append(prompt);
  const rewards = make("div", "rewards");
  group.samples.forEach((sample) => {
    const chip = make("span", sample.kept ? "" : "out", number(sample.reward));
    if (sample.reward && top) chip.style.background = tint(sample.reward, top);
    chip.title = (sample.advantage === null ? "no advantage" : "advantage " + signed(sample.advantage)) +
      (sample.flags.length ? " · " + sample.flags.join(", ") : "");
    rewards.append(chip);
  });
  const cell = make("td");
  cell.append(rewards);
  row.append(cell);
  row.append(make("td", "num", number(group.mean)));
  row.append(make("td", "num", number(group.std)));
  const known = group.samples.map((sample) => sample.advantage).filter((value) => value !== null);
  row.append(make("td", "num", known.length ? signed(Math.min(...known)) + " … " + signed(Math.max(...known)) : "–"));
  row.append(make("td", group.signal ? "" : "soft", group.why));
  if (group.shown) {
    const choose = () => { view.group = index; draw(); };
    row.tabIndex = 0;
    row.addEventListener("click", choose);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
  }
  return row;
}

function draw() {
  const step = view.steps[view.step];
  const table = document.querySelector(".groups tbody");
  const top = Math.max(...step.groups.flatMap((group) => group.samples.map((sample) => Math.abs(sample.reward || 0))));
  table.replaceChildren(...step.groups.map((group, index) => groupRow(group, index, top)));
  const with_signal = step.groups.filter((group) => group.signal).length;
  document.getElementById("step-facts").textContent =
    `${step.groups.length} groups, ${with_signal} with signal` + (step.hidden ? `, ${step.hidden} more not shown` : "");
  const group = step.groups[view.group];
  const place = document.querySelector(".episodes");
  const most = largest(step);
  document.getElementById("group-title").textContent =
    group && group.shown ? `Group ${group.number + 1}` + (group.answer ? ` · right answer: ${group.answer}` : "") : "";
  place.replaceChildren(...(group && group.shown
    ? group.samples.map((sample, index) => [sample, index]).filter(([sample]) => sample.turns)
        .map(([sample, index]) => episode(sample, index, most, step.agents))
    : []));
  const scale = document.querySelector(".scale");
  const ends = view.colour === "advantage" ? ["−" + number(most), "+" + number(most)] : ["unlikely", "certain"];
  scale.children[0].textContent = ends[0];
  scale.children[2].textContent = ends[1];
  scale.children[1].style.background = view.colour === "advantage"
    ? "linear-gradient(90deg, rgba(var(--bad), .6), rgba(var(--bad), .1) 49%, transparent 50%, rgba(var(--good), .1) 51%, rgba(var(--good), .6))"
    : "linear-gradient(90deg, rgba(var(--bad), .6), rgba(var(--bad), .1), transparent)";
}

if (view.steps.length) {
  const select = document.getElementById("step");
  const go = (index) => {
    view.step = Math.min(view.steps.length - 1, Math.max(0, index));
    const groups = view.steps[view.step].groups;
    const telling = groups.findIndex((group) => group.shown && group.signal);
    view.group = Math.max(0, telling >= 0 ? telling : groups.findIndex((group) => group.shown));
    select.value = view.step;
    draw();
  };
  view.steps.forEach((step, index) => select.append(new Option("step " + step.step, index)));
  select.addEventListener("change", () => go(Number(select.value)));
  document.getElementById("earlier").addEventListener("click", () => go(view.step - 1));
  document.getElementById("later").addEventListener("click", () => go(view.step + 1));
  document.querySelectorAll("[data-colour]").forEach((button) =>
    button.addEventListener("click", () => {
      view.colour = button.dataset.colour;
      document.querySelectorAll("[data-colour]").forEach((other) =>
        other.setAttribute("aria-pressed", String(other === button)));
      draw();
    }));
  go(view.steps.length - 1);
}
