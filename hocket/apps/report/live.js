
// ------------------------------------------------------------ a run that goes on: the server sends what is new

const KEPT = 60; // Steps whose rollouts the page holds at most: the first one and the latest.
const held = { rollouts: view.steps.length > 0, waiting: new Map() };

// A part of the page anew; what was unfolded stays so. One that is pointed at or has the focus waits.
function renew(id, html) {
  const place = find(id);
  if (place.querySelector("svg.chart:hover") || place.contains(document.activeElement)) return held.waiting.set(id, html);
  held.waiting.delete(id);
  const open = new Set([...place.querySelectorAll("details[open] > summary")].map((one) => one.textContent.replace(/\(\d+\)/, "")));
  place.innerHTML = html; // The server's own template, in which texts of others are escaped.
  for (const summary of place.querySelectorAll("details > summary"))
    if (open.has(summary.textContent.replace(/\(\d+\)/, ""))) summary.parentElement.open = true;
  place.querySelectorAll("svg.chart").forEach(follow);
  place.querySelectorAll("figure .save").forEach(offerFiles);
}
setInterval(() => held.waiting.forEach((html, id) => renew(id, html)), 1000);

function addStep({ step, pictures }) {
  recorded.pictures = { ...recorded.pictures, ...pictures };
  const place = view.steps.findIndex((one) => one.step >= step.step);
  if (place >= 0) { // A resumed run does steps again.
    view.steps.splice(place, view.steps.length, step);
    view.step = Math.min(view.step, place);
  } else view.steps.push(step);
  if (view.steps.length > KEPT) {
    view.steps.splice(1, 1);
    if (view.step > 0) view.step -= 1;
  }
  find("recorded").hidden = false;
  if (!held.rollouts) {
    held.rollouts = true;
    begin();
  } else listSteps();
  if (find("follow").checked) goStep(view.steps.length - 1);
}

// Who looks at something stays there.
for (const kind of ["click", "change", "keydown"])
  find("recorded").addEventListener(kind, (event) => { if (event.isTrusted && event.key !== "Tab" && !event.target.closest("label")) find("follow").checked = false; });
find("follow").addEventListener("change", () => { if (find("follow").checked && held.rollouts) goStep(view.steps.length - 1); });

function showState(text, live) {
  find("live-state").textContent = text;
  find("live-state").classList.toggle("on", live);
}

const latest = view.steps.length ? view.steps[view.steps.length - 1].step : 0;
const events = new EventSource("events?after=" + latest);
events.addEventListener("parts", (event) => Object.entries(JSON.parse(event.data)).forEach(([id, html]) => renew(id, html)));
events.addEventListener("step", (event) => addStep(JSON.parse(event.data)));
events.addEventListener("state", (event) => {
  const state = JSON.parse(event.data);
  showState(state.words, state.training);
  document.title = state.title;
  if (state.over) events.close();
});
events.addEventListener("error", () => showState("no connection to hocket report --live", false));
