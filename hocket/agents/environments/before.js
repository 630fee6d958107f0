// Runs before any script of a page: a clock that only moves when told to, and nobody who could be asked anything.
(() => {
  window.alert = window.print = () => {};
  window.confirm = () => true;
  window.prompt = () => null;
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (kind !== "beforeunload") listen.call(this, kind, ...rest);
  };

  const RealDate = Date;
  const later = window.setTimeout.bind(window);
  const beginning = 1.6e12;
  let now = beginning;
  let last = 0;
  let running = false;
  const due = new Map();

  const add = (work, delay, every, rest) => {
    // Set by another one it takes time, or a page that sets one after the other would never end a move.
    due.set(++last, { at: now + Math.max(running ? 1 : 0, Number(delay) || 0), work, every, rest });
    return last;
  };
  const drop = (id) => void due.delete(id);
  const run = ({ work, rest }) => {
    try {
      typeof work === "string" ? (0, eval)(work) : work(...rest);
    } catch (error) {
      console.error(error);
    }
  };

  window.setTimeout = (work, delay, ...rest) => add(work, delay, null, rest);
  window.setInterval = (work, delay, ...rest) => add(work, delay, Math.max(4, Number(delay) || 0), rest);
  window.requestAnimationFrame = (work) => add(() => work(now - beginning), 16, null, []);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = drop;
  performance.now = () => now - beginning;
  window.Date = function (...given) {
    if (!new.target) return new RealDate(now).toString();
    return given.length ? new RealDate(...given) : new RealDate(now);
  };
  Object.assign(window.Date, { now: () => now, parse: RealDate.parse, UTC: RealDate.UTC, prototype: RealDate.prototype });

  window.pageClock = {
    later,
    // Forgets what is due, and begins again.
    reset() {
      due.clear();
      now = beginning;
      last = 0;
    },
    // Does all that falls due within so many milliseconds, in its order.
    advance(span) {
      const until = now + span;
      running = true;
      for (;;) {
        const next = [...due].filter(([, one]) => one.at <= until).sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
        if (!next) break;
        const [id, one] = next;
        now = Math.max(now, one.at);
        if (one.every === null) due.delete(id);
        else one.at = now + one.every;
        run(one);
      }
      running = false;
      now = until;
    },
  };
})();
