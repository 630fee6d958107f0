
// ------------------------------------------------------------ small things

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined && text !== null) node.textContent = text;
  return node;
}

const find = (name) => document.getElementById(name);
const known = (value) => value !== null && value !== undefined;
const number = (value) => (known(value) ? Number(value.toPrecision(3)).toString() : "–");
const signed = (value) => (value > 0 ? "+" : "") + number(value).replace("-", "−");
const at = (column, place) => (Array.isArray(column) ? column[place] : (column ?? null));
const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");

// Blue for more, orange for less: told apart by every kind of colour vision, on light and on dark.
function tint(value, most) {
  if (!value) return "";
  const strength = Math.min(1, Math.abs(value) / most);
  return `rgba(var(${value > 0 ? "--good" : "--bad"}), ${(0.1 + 0.5 * strength).toFixed(3)})`;
}

// Puts items into a place a portion at a time, the next one when its end comes into view. `upTo(n)` hurries.
function lazily(place, items, draw, portion) {
  let done = 0;
  const button = make("button", "more");
  button.type = "button";
  const more = (least) => {
    const end = Math.min(items.length, Math.max(done + portion, least || 0));
    button.before(...items.slice(done, end).map((item, index) => draw(item, done + index)));
    done = end;
    button.textContent = `${items.length - done} more`;
    if (done === items.length) {
      watch.disconnect();
      button.remove();
    }
  };
  const watch = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && more(), { rootMargin: "400px" });
  place.replaceChildren(button);
  button.addEventListener("click", () => more());
  more();
  if (done < items.length) watch.observe(button);
  return { upTo: (count) => count > done && more(count), drawn: () => done };
}

// ------------------------------------------------------------ what is looked at

const source = find("rollouts");
const recorded = source ? JSON.parse(source.textContent) : { steps: [] };
const units = recorded.units || { samples: "samples", reward: "reward", decision: "token" };
const view = {
  steps: recorded.steps,
  step: 0, group: 0, sample: 0, turn: null, colour: "advantage",
  filter: { words: "", agent: "", low: null, high: null, outcome: "" },
};
const now = () => view.steps[view.step];
const group = () => now().groups[view.group];
// Where every scenario has one sample, as where values are learnt, groups are not spoken of.
const alone = (step) => step.groups.every((one) => one.samples.length === 1);

function largest(step) {
  if (!step.most) {
    step.most = 0;
    for (const one of step.groups)
      for (const sample of one.samples)
        for (const credit of sample.credit || [])
          for (const value of [].concat(credit ?? [])) step.most = Math.max(step.most, Math.abs(value || 0));
    step.most ||= 1;
  }
  return step.most;
}

// ------------------------------------------------------------ filters

const OUTCOMES = {
  failed: (sample) => sample.flags.includes("failed"),
  limit: (sample) => sample.flags.includes("limit reached") || sample.flags.includes("truncated"),
  learnt: (sample) => sample.kept && sample.advantage !== null && sample.advantage !== undefined,
  out: (sample) => !sample.kept,
};

function fits(sample, one) {
  const { words, agent, low, high, outcome } = view.filter;
  const text = (one.scenario + "\n" + (one.prompt || "")).toLowerCase();
  if (words && !words.toLowerCase().split(/\s+/).every((word) => text.includes(word))) return false;
  if (agent && !sample.agents.includes(now().agents.indexOf(agent))) return false;
  if (low !== null && !(known(sample.reward) && sample.reward >= low)) return false;
  if (high !== null && !(known(sample.reward) && sample.reward <= high)) return false;
  return !outcome || OUTCOMES[outcome](sample);
}

const fitting = (one) => one.samples.map((sample, index) => index).filter((index) => fits(one.samples[index], one));

// Those whose conversations this page holds.
const told = (one) => fitting(one).filter((index) => one.samples[index].path);

function readFilters() {
  const limit = (name) => (find(name).value === "" ? null : Number(find(name).value));
  view.filter = {
    words: find("scenario").value.trim(), agent: find("agent").value,
    low: limit("low"), high: limit("high"), outcome: find("outcome").value,
  };
}

// ------------------------------------------------------------ the groups of a step

function groupRow(index, top) {
  const one = now().groups[index];
  const row = make("tr", (one.shown ? "open" : "") + (index === view.group ? " chosen" : ""));
  row.dataset.group = index;
  row.append(make("td", "", one.number + 1));
  const prompt = make("td");
  const short = make("div", "prompt", one.prompt || one.scenario);
  short.title = one.scenario + (one.prompt ? "\n" + one.prompt : "");
  prompt.append(short);
  row.append(prompt);
  const rewards = make("div", "rewards");
  for (const place of fitting(one)) {
    const sample = one.samples[place];
    const failed = sample.flags.includes("failed");
    const chip = make("span", failed ? "failed" : sample.kept ? "" : "out", failed ? "✗" : number(sample.reward));
    chip.dataset.sample = place;
    if (sample.reward && top && !failed) chip.style.background = tint(sample.reward, top);
    chip.title = `sample ${place + 1}: ` + (known(sample.advantage) ? "advantage " + signed(sample.advantage) : "no advantage") +
      (sample.flags.length ? " · " + sample.flags.join(", ") : "");
    rewards.append(chip);
  }
  const cell = make("td");
  cell.append(rewards);
  row.append(cell);
  row.append(make("td", "num", number(one.mean)));
  row.append(make("td", "num", number(one.std)));
  const advantages = one.samples.map((sample) => sample.advantage).filter(known);
  const ends = [...new Set([Math.min(...advantages), Math.max(...advantages)].map(signed))];
  row.append(make("td", "num", advantages.length ? ends.join(" … ") : "–"));
  row.append(make("td", one.signal ? "" : "soft", one.why));
  if (one.shown) {
    row.tabIndex = index === view.group ? 0 : -1;
    row.setAttribute("aria-selected", String(index === view.group));
  }
  return row;
}

let listed = { indices: [], table: null };

function drawGroups() {
  const step = now();
  const indices = step.groups.map((_, index) => index).filter((index) => fitting(step.groups[index]).length);
  const rewards = step.groups.flatMap((one) => one.samples.map((sample) => Math.abs(sample.reward || 0)));
  const top = rewards.reduce((most, value) => Math.max(most, value), 0);
  const body = document.querySelector(".groups tbody");
  body.replaceChildren();
  document.querySelector(".groups").classList.toggle("alone", alone(step));
  find("of-group").textContent = alone(step) ? "episode" : "group";
  find("of-rewards").textContent = alone(step) ? units.reward : units.reward + "s of its samples";
  listed = { indices, table: portions(body, indices, (index) => groupRow(index, top), 48) };
  const episodes = step.groups.reduce((sum, one) => sum + one.samples.length, 0);
  const matching = indices.reduce((sum, index) => sum + fitting(step.groups[index]).length, 0);
  const failed = step.groups.reduce((sum, one) => sum + one.samples.filter(OUTCOMES.failed).length, 0);
  find("step-facts").textContent =
    (alone(step) ? plural(episodes, "episode") : `${step.groups.length} groups`) +
    `, ${step.groups.filter((one) => one.signal).length} with signal` +
    (alone(step) ? "" : ", " + plural(episodes, "episode")) + (failed ? `, ${failed} failed` : "") +
    (matching < episodes ? ` · ${matching} match the filters` : "") +
    (step.groups.every((one) => one.shown) ? "" : ` · conversations of ${step.groups.filter((one) => one.shown).length} groups, the rest in the files alone`) +
    (step.hidden ? ` · ${step.hidden} more groups are in the files alone` : "");
}

// Rows of a table a portion at a time: a row at the end stands for the rest.
function portions(body, items, draw, portion) {
  let done = 0;
  const last = make("tr");
  const more = (least) => {
    const end = Math.min(items.length, Math.max(done + portion, least || 0));
    last.before(...items.slice(done, end).map(draw));
    done = end;
    if (done === items.length) last.remove();
  };
  const cell = make("td");
  cell.colSpan = 7;
  const button = make("button", "more", "more groups");
  button.type = "button";
  button.addEventListener("click", () => more());
  cell.append(button);
  last.append(cell);
  body.append(last);
  more();
  new IntersectionObserver((seen, watch) => {
    if (done === items.length) watch.disconnect();
    else if (seen.some((one) => one.isIntersecting)) more();
  }).observe(last);
  return { upTo: (count) => count > done && more(count) };
}

function markGroup() {
  for (const row of document.querySelectorAll(".groups tbody tr[data-group]")) {
    const chosen = Number(row.dataset.group) === view.group;
    row.classList.toggle("chosen", chosen);
    if (row.hasAttribute("aria-selected")) {
      row.tabIndex = chosen ? 0 : -1;
      row.setAttribute("aria-selected", String(chosen));
    }
    for (const chip of row.querySelectorAll("[data-sample]"))
      chip.classList.toggle("here", chosen && Number(chip.dataset.sample) === view.sample);
  }
}

// ------------------------------------------------------------ what was said

function token(text, advantage, logp, weight, forced, most) {
  const node = make("span", "token" + (forced ? " forced" : weight === 0 ? " off" : ""), text);
  const colour = view.colour === "advantage" ? tint(advantage, most) : tint(logp === null ? 0 : logp, 3);
  if (colour) node.style.backgroundColor = colour;
  const parts = [];
  if (known(advantage)) parts.push("advantage " + signed(advantage));
  if (known(logp)) parts.push("probability " + number(Math.exp(logp)));
  if (forced) parts.push("imposed");
  else if (weight === 0) parts.push("not learnt from");
  node.title = parts.join(", ");
  return node;
}

const TOKENS = 2500;

function decided(turn, credit, weight, most) {
  const said = make("div", "said");
  if (turn.tokens) {
    const draw = (from, to) => turn.tokens.slice(from, to).map((text, k) => token(text, at(credit, from + k),
      at(turn.logp, from + k), at(weight ?? 1, from + k), at(turn.forced ?? 0, from + k), most));
    said.append(...draw(0, TOKENS));
    if (turn.tokens.length > TOKENS) {
      const rest = make("button", "more", `${turn.tokens.length - TOKENS} more ${units.decision}s`);
      rest.addEventListener("click", () => rest.replaceWith(...draw(TOKENS)));
      said.append(rest);
    }
  } else if (turn.actions) said.append(make("span", "mono", turn.actions));
  else said.append(token(turn.text || "(nothing)", Array.isArray(credit) ? null : credit, null, 1, 0, most));
  return said;
}

function callOf(call) {
  return call.name
    ? make("div", "call", `→ ${call.name}(${call.arguments})`)
    : make("div", "call bad", "a tool call that cannot be read: " + call.arguments);
}

function bubble(one, place, sample, step, most) {
  const turn = one.turns[sample.path[place]];
  const tags = turn.tags || [];
  const node = make("div", "bubble agent" + (tags.some((tag) => tag.endsWith("not learnt from")) ? " outside" : ""));
  const who = make("div", "who");
  who.append(make("b", "", turn.role && turn.role !== turn.agent ? turn.agent + " as " + turn.role : turn.agent));
  const shared = one.samples.filter((other) => (other.path || []).indexOf(sample.path[place]) >= (other.lead || 0)).length;
  const facts = [plural(turn.length, turn.actions ? "action" : "token")];
  if (place < (sample.lead || 0)) facts.push("what came before");
  if (turn.finish && turn.finish !== "stop") facts.push("ended by " + turn.finish);
  if (shared > 1) facts.push(`shared by ${shared} samples`);
  const alike = treeOf(one).get(nodeOf(one, sample.path[place])).samples.length;
  if (alike > Math.max(1, shared) && place >= (sample.lead || 0)) facts.push(`same in ${alike} samples`);
  if (turn.state) facts.push("state " + (turn.state.length > 40 ? turn.state.slice(0, 39) + "…" : turn.state));
  who.append(" · " + facts.join(" · "));
  for (const tag of tags) who.append(" ", make("span", "flag", tag));
  node.append(who, decided(turn, sample.credit[place], sample.weight && sample.weight[place], most));
  for (const call of turn.calls || []) node.append(callOf(call));
  return node;
}

// The beginning of a long text; all of it where little would be left out.
function begun(text) {
  const lines = text.split("\n");
  const cut = lines.length > 16 ? lines.slice(0, 12).join("\n") : text;
  return cut.length > 1100 ? cut.slice(0, 900) : cut;
}

// What was said or shown before is folded up; so is the rest of a long text.
function observation(message, one, agent) {
  const node = make("div", "bubble" + (message.role === "tool" ? " tool" : ""));
  const speaker = known(message.said) ? one.turns[message.said] : null;
  const first = message.seen ? one.turns[message.seen[0]] : null;
  const text = speaker ? spoken(speaker) : first ? first.messages[message.seen[1]].content : message.content;
  const role = message.role === "tool" ? "tool result" : message.role;
  const who = role + (message.name ? " " + message.name : "") + (speaker ? " · said by " + speaker.agent : "");
  const again = first && first.agent === agent;
  if ((speaker || again) && (text.length > 80 || text.includes("\n"))) {
    const details = make("details");
    details.append(make("summary", "", `${who}${again ? " · as before" : ""}: ${text.replace(/\s+/g, " ").slice(0, 120)}`));
    details.append(make("div", "said", text));
    node.append(details);
  } else {
    node.append(make("div", "who", who));
    const beginning = begun(text);
    const said = make("div", "said", beginning.length < text.length ? beginning + " …" : text);
    node.append(said);
    if (beginning.length < text.length) {
      const button = make("button", "more", `all ${text.length.toLocaleString("en")} characters`);
      button.addEventListener("click", () => { said.textContent = text; button.remove(); });
      node.append(button);
    }
  }
  const pictured = speaker ? null : first ? first.messages[message.seen[1]] : message;
  for (const name of (pictured && pictured.pictures) || []) {
    const source = (recorded.pictures || {})[name];
    const sounds = (source || "").startsWith("data:audio/");
    const picture = make(sounds ? "audio" : "img", sounds ? "sound" : "picture");
    if (sounds) picture.controls = true;
    else picture.alt = "picture " + name + (source ? "" : " (in the run's folder media)");
    if (source) picture.src = source;
    node.append(picture);
  }
  for (const call of message.calls || []) node.append(callOf(call));
  return node;
}

// What a turn says, without the tokens that end it.
function spoken(turn) {
  if (!turn.tokens) return turn.text || turn.actions || "";
  const whole = turn.tokens.join("");
  return whole.slice(0, whole.length - (turn.closing || 0));
}

// ------------------------------------------------------------ one episode

function paid(rewards) {
  const names = Object.keys(rewards);
  return names.map((name) => (names.length > 1 || name !== "reward" ? name + " " : "") + signed(rewards[name]));
}

function beside(sample, place, so_far, agents) {
  const node = make("div", "beside");
  node.append(make("div", "", "turn " + (place + 1)));
  for (const text of paid((sample.rewards && sample.rewards[place]) || {}))
    node.append(make("span", "paid" + (text.endsWith(" 0") || text === "0" ? " nil" : ""), text), " ");
  if (agents > 1 && known(so_far)) node.append(make("div", "", "so far " + signed(so_far)));
  return node;
}

function head(one, index) {
  const sample = one.samples[index];
  const node = make("header");
  node.append(make("b", "", units.reward + " " + number(sample.reward)));
  if (one.samples.length > 1) node.append(make("span", "", "sample " + (index + 1)));
  if (known(sample.advantage)) node.append(make("span", "", "advantage " + signed(sample.advantage)));
  const scores = Object.entries(sample.scores || {}).filter(([, value]) => typeof value === "number");
  for (const [name, value] of scores) if (name !== "reward" || scores.length > 1) node.append(make("span", "", name + " " + number(value)));
  for (const flag of sample.flags) node.append(make("span", "flag", flag));
  return node;
}

// What an episode came to, below its turns.
function foot(sample) {
  const found = [];
  if (sample.failure) found.push(make("div", "ended", "Failed: " + sample.failure));
  const { limit, ...info } = sample.info || {};
  if (limit) found.push(make("div", "ended", "Stopped: " + limit));
  for (const [name, words] of Object.entries(sample.feedback || {})) if (words !== sample.failure) found.push(make("div", "small soft", name + ": " + words));
  const facts = Object.entries(info);
  if (facts.length) {
    const line = make("div", "facts-line");
    facts.forEach(([name, value], k) => line.append(k ? " · " : "", make("b", "", name), " " + (typeof value === "string" ? value : JSON.stringify(value))));
    found.push(line);
  }
  return found;
}

function laneHead(one, sample, agent, step) {
  const node = make("div", "lane-head");
  node.style.setProperty("--agent", colourOf(agent, step));
  const turns = sample.path.filter((turn) => one.turns[turn].agent === agent).length;
  const earned = (sample.earned || {})[agent];
  node.append(make("b", "", agent), make("div", "", plural(turns, "turn") + (earned ? " · " + paid(earned).join(", ") : "")));
  return node;
}

const colourOf = (agent, step) => `var(--c${Math.max(0, step.agents.indexOf(agent)) % 6})`;

function lanes(one, index, step) {
  const sample = one.samples[index];
  const most = largest(step);
  const agents = [...new Set([...step.agents.filter((agent) => sample.path.some((turn) => one.turns[turn].agent === agent)), ...Object.keys(sample.earned || {})])];
  const box = make("div", "lanes" + (agents.length < 2 ? " alone" : ""));
  box.style.setProperty("--lanes", Math.max(1, agents.length));
  if (!sample.rewards && agents.length < 2) box.style.setProperty("--gutter", "64px");
  const inner = make("div", "inner" + (agents.length > 1 ? " many" : ""));
  if (agents.length > 1) {
    const heads = make("div", "lane-heads");
    heads.append(...agents.map((agent) => laneHead(one, sample, agent, step)), make("span"));
    inner.append(heads);
  }
  const sums = {};
  const so_far = sample.path.map((turn, place) => {
    const agent = one.turns[turn].agent;
    const values = Object.values((sample.rewards && sample.rewards[place]) || {});
    if (values.length) sums[agent] = (sums[agent] || 0) + values.reduce((sum, value) => sum + value, 0);
    return values.length ? sums[agent] : null;
  });
  const turns = make("div");
  const drawn = lazily(turns, sample.path, (turn, place) => {
    const row = make("section", "turn");
    const { agent, messages, anew } = one.turns[turn];
    row.dataset.place = place;
    row.style.setProperty("--column", agents.indexOf(agent) + 1);
    row.style.setProperty("--agent", colourOf(agent, step));
    row.setAttribute("aria-label", `turn ${place + 1}, ${agent}`);
    const cell = make("div", "cell");
    if (anew) cell.append(make("div", "small soft", "↺ another history begins here"));
    cell.append(...messages.map((message) => observation(message, one, agent)), bubble(one, place, sample, step, most));
    row.append(cell, beside(sample, place, so_far[place], agents.length));
    return row;
  }, 40);
  inner.append(turns);
  box.append(inner);
  return { box, drawn };
}

function card(one, index, step) {
  const sample = one.samples[index];
  const node = make("article", "card episode");
  node.dataset.sample = index;
  node.append(head(one, index));
  sample.path.forEach((turn, place) => {
    const { agent, messages } = one.turns[turn];
    node.style.setProperty("--agent", colourOf(agent, step));
    node.append(...messages.map((message) => observation(message, one, agent)), bubble(one, place, sample, step, largest(step)));
  });
  node.append(...foot(sample));
  return node;
}

function conversation(one, index, step) {
  const node = make("article", "card episode");
  node.dataset.sample = index;
  const top = head(one, index);
  const steps = make("span", "together");
  for (const [sign, name, by] of [["←", "earlier sample", -1], ["→", "later sample", 1]]) {
    const button = make("button", "", sign);
    button.setAttribute("aria-label", name);
    button.dataset.by = by;
    button.addEventListener("click", () => {
      move(by);
      document.querySelector(`.episode [data-by="${by}"]`).focus();
    });
    steps.append(button);
  }
  top.prepend(steps);
  const { box, drawn } = lanes(one, index, step);
  node.append(top, box, ...foot(one.samples[index]));
  return { node, drawn };
}

// ------------------------------------------------------------ the tree

// The turn that stands in the tree for all that several samples said alike.
const nodeOf = (one, turn) => (turn < 0 ? -1 : one.turns[turn].same ?? turn);

// What each sample got for a turn: the mean over its tokens.
function meanOf(credit) {
  const values = [].concat(credit ?? []).filter(known);
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

// Of each node: what hangs below it, the samples that pass through it, what they got there, the ways they go on in,
// and those that end there.
function treeOf(one) {
  if (one.tree) return one.tree;
  const nodes = new Map();
  for (const turn of [-1, ...one.turns.keys()]) {
    if (nodeOf(one, turn) !== turn) continue;
    nodes.set(turn, { below: [], samples: [], credit: [], ways: new Set(), ends: [] });
    if (turn >= 0) nodes.get(nodeOf(one, one.turns[turn].up)).below.push(turn);
  }
  one.samples.forEach((sample, index) => {
    if (!sample.path) return;
    const path = sample.path.map((turn) => nodeOf(one, turn));
    const next = new Map([[-1, []]]);
    path.forEach((turn, place) => {
      if (!next.has(turn)) next.set(turn, []);
      const credit = meanOf(sample.credit[place]);
      if (known(credit)) nodes.get(turn).credit.push(credit);
    });
    for (const turn of next.keys()) {
      nodes.get(turn).samples.push(index);
      if (turn >= 0) next.get(nodeOf(one, one.turns[turn].up))?.push(turn);
    }
    for (const [turn, after] of next) if (after.length) nodes.get(turn).ways.add(after.join());
    nodes.get(path.length ? path[path.length - 1] : -1).ends.push(index);
  });
  return (one.tree = nodes);
}

// Rows top to bottom: a chain stays at its depth, the branches of a fork go one deeper.
function treeRows(one) {
  const nodes = treeOf(one);
  const rows = [];
  const waiting = [{ turn: -1, depth: 0, fork: false }];
  while (waiting.length) {
    const row = waiting.pop();
    const node = nodes.get(row.turn);
    rows.push({ ...row, ...node });
    const fork = node.below.length > 1;
    for (const turn of [...node.below].reverse()) waiting.push({ turn, depth: row.depth + (fork ? 1 : 0), fork });
  }
  return rows;
}

// A colour; where samples differ, a band for each of their values, as wide as they are many.
function swatch(credit, most) {
  const node = make("span", "square");
  const colours = [...credit].sort((a, b) => a - b).map((value) => tint(value, most) || "transparent");
  if (new Set(colours).size < 2) node.style.background = colours[0] || "";
  else {
    const bands = colours.flatMap((colour, k) => [[colour, k], [colour, k + 1]])
      .map(([colour, k]) => `${colour} ${(100 * k / colours.length).toFixed(1)}%`);
    node.classList.add("split");
    node.style.background = `linear-gradient(90deg, ${bands.join(", ")})`;
  }
  return node;
}

// What several samples got, in words.
function gotten(credit) {
  if (!credit.length) return "";
  const [low, high] = [Math.min(...credit), Math.max(...credit)];
  const mean = credit.reduce((sum, value) => sum + value, 0) / credit.length;
  return ", mean advantage " + signed(mean) + (number(low) !== number(high) ? ` (${signed(low)} … ${signed(high)})` : "");
}

function treeRow(one, row, index, step) {
  const node = make("div", "node" + (row.fork ? " fork" : ""));
  node.setAttribute("role", "treeitem");
  node.setAttribute("aria-level", row.depth + 1);
  node.dataset.turn = row.turn;
  node.tabIndex = -1;
  for (let depth = 1; depth <= Math.min(row.depth, 24); depth++) node.append(make("span", "guide" + (row.fork && depth === row.depth ? " fork" : "")));
  const through = row.samples.length > 1 ? `${row.samples.length} samples` : `sample ${row.samples[0] + 1}`;
  if (row.turn < 0) {
    node.append(make("span", "dot"), make("span", "words", one.prompt || one.scenario));
    node.title = through;
  } else {
    const turn = one.turns[row.turn];
    node.style.setProperty("--agent", colourOf(turn.agent, step));
    const words = make("span", "words", (turn.anew ? "↺ " : "") + (step.agents.length > 1 ? turn.agent + ": " : "") +
      (turn.brief || turn.actions || "(nothing)"));
    node.append(make("span", "dot"), swatch(row.credit, largest(step)), words);
    node.title = turn.agent + ", " + through + gotten(row.credit) + (turn.anew ? ", its history begins anew" : "");
  }
  const counts = [row.samples.length > 1 ? "×" + row.samples.length : "", row.ways.size > 1 ? row.ways.size + " ways" : ""];
  if (counts.some(Boolean)) node.append(make("span", "count", counts.filter(Boolean).join(" · ")));
  const ends = make("span", "ends");
  for (const place of row.ends) {
    const sample = one.samples[place];
    const failed = sample.flags.includes("failed");
    const end = make("span", "end" + (failed ? " failed" : ""), failed ? "✗" : number(sample.reward));
    end.title = `sample ${place + 1}` + (failed ? " failed" : "");
    end.dataset.sample = place;
    ends.append(end);
  }
  if (row.ends.length) node.append(ends);
  return node;
}

function drawTree(one, step) {
  const tree = document.querySelector(".tree");
  const rows = treeRows(one);
  one.rows = rows;
  one.treeDrawn = lazily(tree, rows, (row, index) => treeRow(one, row, index, step), 150);
}

function markTree(one) {
  const path = new Set((one.samples[view.sample]?.path || []).map((turn) => nodeOf(one, turn)));
  const here = view.turn !== null ? nodeOf(one, one.samples[view.sample].path[view.turn]) : -1;
  for (const node of document.querySelectorAll(".tree .node")) {
    const turn = Number(node.dataset.turn);
    node.classList.toggle("path", path.has(turn));
    node.classList.toggle("at", turn === here);
    node.setAttribute("aria-selected", String(path.has(turn)));
    node.tabIndex = turn === here ? 0 : -1;
    for (const end of node.querySelectorAll(".end")) end.classList.toggle("here", Number(end.dataset.sample) === view.sample);
  }
}

// Opens a sample that goes through a node of the tree, the one that is open if it does.
function openTurn(turn, sample) {
  const one = group();
  const placeIn = (index) => one.samples[index].path.findIndex((other) => nodeOf(one, other) === turn);
  const through = (index) => turn < 0 || placeIn(index) >= 0;
  const candidates = [sample, view.sample, ...one.samples.keys()].filter((index) => known(index) && one.samples[index].path);
  const chosen = candidates.find(through);
  if (chosen === undefined) return;
  view.turn = turn < 0 ? null : placeIn(chosen);
  if (chosen !== view.sample) openSample(chosen, view.turn);
  else showTurn();
}

// ------------------------------------------------------------ drawing, and going from one to the next

let opened = null;

function drawGroup() {
  const step = now();
  const one = group();
  const reading = document.querySelector(".reading");
  const place = document.querySelector(".episodes");
  const held = one && one.shown;
  // Many turns are read one episode at a time, beside the tree of all of them.
  const wide = held && (one.turns.length > one.samples.length || one.samples.some((sample) => (sample.path || []).length > 1));
  reading.classList.toggle("wide", Boolean(wide));
  document.querySelector(".tree").hidden = !wide;
  const missing = held ? one.samples.filter((sample) => !sample.path).length : 0;
  find("group-title").textContent = held
    ? (alone(step) ? "Episode " : "Group ") + (one.number + 1) + (one.answer ? ` · right answer: ${one.answer}` : "") + (missing ? ` · ${missing} more in the files alone` : "")
    : "";
  opened = null;
  if (!held) place.replaceChildren();
  else if (wide) {
    drawTree(one, step);
    openSample(view.sample, view.turn);
  } else {
    drawCards(0);
    remember();
  }
  markGroup();
  legend();
}

function openSample(index, turn) {
  const one = group();
  if (!one.samples[index]?.path) return;
  Object.assign(view, { sample: index, turn: turn ?? null });
  const { node, drawn } = conversation(one, index, now());
  opened = { drawn };
  document.querySelector(".episodes").replaceChildren(node);
  showTurn();
  markGroup();
}

function showTurn() {
  const one = group();
  markTree(one);
  document.querySelectorAll(".turn.here").forEach((row) => row.classList.remove("here"));
  if (view.turn !== null) {
    opened.drawn.upTo(view.turn + 1);
    const row = document.querySelector(`.turn[data-place="${view.turn}"]`);
    row?.classList.add("here");
    row?.scrollIntoView({ block: "nearest" });
  }
  remember();
}

// The samples of a group as cards, from one on and round again.
function drawCards(first) {
  const one = group();
  const indices = [...told(one).slice(first), ...told(one).slice(0, first)];
  opened = { cards: lazily(document.querySelector(".episodes"), indices, (index) => card(one, index, now()), 12), indices };
}

function markCard() {
  // One far below is not waited for: the cards begin with it.
  if (opened.indices.indexOf(view.sample) >= opened.cards.drawn()) drawCards(told(group()).indexOf(view.sample));
  for (const node of document.querySelectorAll(".episodes .episode")) {
    const here = Number(node.dataset.sample) === view.sample;
    node.classList.toggle("here", here);
    if (here) node.scrollIntoView({ block: "nearest" });
  }
  remember();
}

function legend() {
  const coloured = now().groups.some((one) => (one.turns || []).some((turn) => !turn.actions));
  for (const part of document.querySelectorAll(".colours")) part.hidden = !coloured;
  const most = largest(now());
  const scale = document.querySelector(".scale");
  const ends = view.colour === "advantage" ? ["−" + number(most), "+" + number(most)] : ["unlikely", "certain"];
  scale.children[0].textContent = ends[0];
  scale.children[2].textContent = ends[1];
  scale.children[1].style.background = view.colour === "advantage"
    ? "linear-gradient(90deg, rgba(var(--bad), .6), rgba(var(--bad), .1) 49%, transparent 50%, rgba(var(--good), .1) 51%, rgba(var(--good), .6))"
    : "linear-gradient(90deg, rgba(var(--bad), .6), rgba(var(--bad), .1), transparent)";
}

// The place in the address, so that it can be shared and found again.
function remember() {
  const parts = { step: now().step, group: group().number + 1, sample: view.sample + 1 };
  if (view.turn !== null) parts.turn = view.turn + 1;
  if (view.colour !== "advantage") parts.colour = view.colour;
  history.replaceState(null, "", "#" + new URLSearchParams(parts));
}

function chooseGroup(index, sample) {
  const one = now().groups[index];
  Object.assign(view, { group: index, sample: sample ?? told(one)[0] ?? 0, turn: null });
  drawGroup();
}

// The next sample that fits the filters, in this group.
function move(by) {
  const places = told(group());
  const next = places[(places.indexOf(view.sample) + by + places.length) % Math.max(1, places.length)];
  if (next !== undefined) openSample(next, null);
}

function goStep(index) {
  view.step = Math.min(view.steps.length - 1, Math.max(0, index));
  find("step").value = view.step;
  refilter();
}

// The first group that fits the filters, one that taught something before others.
function refilter() {
  drawGroups();
  const groups = now().groups;
  const shown = listed.indices.filter((index) => groups[index].shown);
  const best = shown.find((index) => groups[index].signal) ?? shown[0];
  if (best === undefined) {
    view.group = -1;
    drawNothing();
  } else chooseGroup(best);
}

function drawNothing() {
  document.querySelector(".reading").classList.remove("wide");
  document.querySelector(".tree").hidden = true;
  document.querySelector(".episodes").replaceChildren();
  find("group-title").textContent = listed.indices.length ? "" : "No episode of this step matches the filters.";
  legend();
}

function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const ask = (name) => (asked.has(name) ? Number(asked.get(name)) : null);
  if (asked.get("colour") === "probability") setColour("probability");
  const step = view.steps.findIndex((one) => one.step === ask("step"));
  goStep(step >= 0 ? step : view.steps.length - 1);
  const index = now().groups.findIndex((one) => one.shown && one.number + 1 === ask("group"));
  if (step < 0 || index < 0) return;
  listed.table.upTo(listed.indices.indexOf(index) + 1);
  const sample = (ask("sample") || 1) - 1;
  const path = now().groups[index].samples[sample]?.path;
  if (!path) return chooseGroup(index);
  Object.assign(view, { group: index, sample, turn: path[ask("turn") - 1] === undefined ? null : ask("turn") - 1 });
  drawGroup();
}

function setColour(name) {
  view.colour = name;
  document.querySelectorAll("[data-colour]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.colour === name)));
}

// ------------------------------------------------------------ keys and pointers

function neighbour(node, key, selector) {
  const all = [...node.parentElement.querySelectorAll(":scope > " + selector)];
  const place = all.indexOf(node);
  const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: all.length - 1 }[key];
  return next === undefined ? null : all[Math.min(all.length - 1, Math.max(0, next))];
}

function onGroups(event) {
  const row = event.target.closest("tr.open");
  if (!row) return;
  const chip = event.target.closest("[data-sample]");
  const index = Number(row.dataset.group);
  if (event.type === "click") {
    if (chip && !now().groups[index].samples[chip.dataset.sample].path) return;
    chooseGroup(index, chip ? Number(chip.dataset.sample) : undefined);
    if (chip && opened?.cards) markCard();
    return;
  }
  if (event.key === "Enter" || event.key === " ") chooseGroup(index);
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    if (document.querySelector(".reading.wide")) move(event.key === "ArrowRight" ? 1 : -1);
  } else {
    const next = neighbour(row, event.key, "tr.open");
    if (!next) return;
    chooseGroup(Number(next.dataset.group));
    next.focus();
  }
  event.preventDefault();
}

function onTree(event) {
  const node = event.target.closest(".node");
  if (!node) return;
  const turn = Number(node.dataset.turn);
  const end = event.target.closest(".end");
  if (event.type === "click") return openTurn(turn, end ? Number(end.dataset.sample) : undefined);
  const one = group();
  const place = (wanted) => document.querySelector(`.tree .node[data-turn="${wanted}"]`);
  let next = neighbour(node, event.key, ".node");
  if (event.key === "ArrowLeft" && turn >= 0) next = place(nodeOf(one, one.turns[turn].up));
  if (event.key === "ArrowRight") next = place(treeOf(one).get(turn).below[0]);
  if (event.key === "Enter" || event.key === " ") {
    const ends = one.rows.find((row) => row.turn === turn).ends;
    openTurn(turn, ends[0]);
    next = place(turn);
  }
  if (!next) return;
  event.preventDefault();
  next.tabIndex = 0;
  next.focus();
}

// ------------------------------------------------------------ the first step, and later ones of a run that goes on

function listSteps() {
  find("step").replaceChildren(...view.steps.map((step, index) => new Option("step " + step.step, index)));
  find("step").value = view.step;
  const agents = [...new Set(view.steps.flatMap((step) => step.agents))];
  const chosen = find("agent").value;
  find("agent").replaceChildren(find("agent").options[0], ...agents.map((agent) => new Option(agent, agent)));
  find("agent").value = agents.includes(chosen) ? chosen : "";
  find("agent").hidden = agents.length < 2;
}

function begin() {
  const select = find("step");
  listSteps();
  select.addEventListener("change", () => goStep(Number(select.value)));
  find("earlier").addEventListener("click", () => goStep(view.step - 1));
  find("later").addEventListener("click", () => goStep(view.step + 1));
  let pause;
  const changed = () => {
    clearTimeout(pause);
    pause = setTimeout(() => { readFilters(); refilter(); }, 120);
  };
  for (const name of ["scenario", "agent", "low", "high", "outcome"]) find(name).addEventListener("input", changed);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("filters").addEventListener("reset", () => setTimeout(() => {
    select.value = view.step;
    readFilters();
    refilter();
  }));
  const table = document.querySelector(".groups tbody");
  table.addEventListener("click", onGroups);
  table.addEventListener("keydown", onGroups);
  const tree = document.querySelector(".tree");
  tree.addEventListener("click", onTree);
  tree.addEventListener("keydown", onTree);
  document.querySelectorAll("[data-colour]").forEach((button) =>
    button.addEventListener("click", () => {
      setColour(button.dataset.colour);
      if (view.group >= 0) drawGroup();
    }));
  fromAddress();
}

if (view.steps.length) begin();
