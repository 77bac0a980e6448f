"use strict";
const EVERY_MS = 1000, PATIENCE_MS = 5000, SHOWN_S = 120, RATE_S = 5;
const by = (id) => document.getElementById(id);
const root = document.documentElement;
const history = [];
// Headers of each question, such as an access token.
const asking = {};
let held = false, last = null;

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
function number(value) {
  return value == null ? "-" : value.toLocaleString("en", { maximumSignificantDigits: 4 });
}
function count(value) {
  return value.toLocaleString("en");
}
function time(s) {
  if (s == null) return "-";
  if (s === 0) return "0 s";
  if (s < 1e-3) return (s * 1e6).toFixed(0) + " us";
  if (s < 1) return Number((s * 1e3).toPrecision(3)) + " ms";
  if (s < 120) return Number(s.toPrecision(3)) + " s";
  return (s / 60).toFixed(1) + " min";
}
// A quantity and its interval, shown to the second figure of the interval's half width, as [value, interval, of another].
function quantity(unit, value, interval, other) {
  const [scale, name] = unit !== "s" ? [1, unit === "1/s" ? " /s" : unit && " " + unit]
    : Math.abs(value) < 1e-3 ? [1e-6, " us"] : Math.abs(value) < 1 ? [1e-3, " ms"] : [1, " s"];
  const half = interval && (interval[1] - interval[0]) / 2 / scale;
  const places = half > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(half)))) : null;
  const digits = places === null ? { maximumSignificantDigits: 3 }
    : { minimumFractionDigits: places, maximumFractionDigits: places };
  const shown = (of) => of == null ? "-" : (of / scale).toLocaleString("en", digits);
  const whole = (of) => of == null ? "-" : shown(of) + name;
  return [whole(value), interval ? `${shown(interval[0])} to ${whole(interval[1])}` : "-", whole(other)];
}
function between(pair) {
  if (!pair) return "-";
  return pair[1] == null ? "over " + time(pair[0]) : time(pair[0]) + " to " + time(pair[1]);
}
function bars(counts, colour) {
  const most = Math.max(1, ...counts);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${counts.length * 6} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  counts.forEach((value, index) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = value === 0 ? 0.5 : Math.max(1.5, (20 * value) / most);
    for (const [key, to] of Object.entries({ x: index * 6, y: 20 - height, width: 5, height })) {
      bar.setAttribute(key, to);
    }
    bar.setAttribute("fill", `var(--${colour})`);
    svg.append(bar);
  });
  return svg;
}
// Columns are [title, share of the width, kind]; a cell is a text or a node. Rows and cells stay
// where they are, so that focus, selection and scrolling survive an update.
function table(id, columns, rows, none) {
  const table = by(id);
  if (!table.tHead) {
    const whole = columns.reduce((sum, column) => sum + column[1], 0);
    const group = table.appendChild(document.createElement("colgroup"));
    const head = table.createTHead().insertRow();
    for (const [title, share, kind] of columns) {
      group.appendChild(document.createElement("col")).style.width = (100 * share) / whole + "%";
      const cell = head.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = title;
      if (kind) cell.className = kind;
    }
    table.createTBody();
  }
  const body = table.tBodies[0];
  const empty = rows.length === 0;
  if (body.classList.contains("none") !== empty) {
    body.replaceChildren();
    body.classList.toggle("none", empty);
  }
  if (empty) {
    if (body.rows.length === 0) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = columns.length;
      cell.textContent = none;
    }
    return;
  }
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, at) => {
    const row = body.rows[at] ?? body.insertRow();
    cells.forEach((value, column) => {
      let cell = row.cells[column];
      if (!cell) {
        cell = row.insertCell();
        if (columns[column][2]) cell.className = columns[column][2];
        cell.dataset.head = columns[column][0];
      }
      if (value instanceof Node) {
        cell.replaceChildren(value);
      } else {
        put(cell, value);
        if (cell.title !== value) cell.title = value;
      }
    });
  });
}
// What the gate's model has learned; its sentences are read whole.
function model(rows) {
  table("model",
    [["Of", 3], ["What", 2.5, "long"], ["Value", 2, "number"], ["95 % interval", 3], ["Happened", 1.8, "number"],
      ["Basis", 4, "long"]],
    rows.map((m) => {
      const [value, interval, happened] = quantity(m.unit, m.value, m.interval, m.happened);
      return [m.of, m.what, value, interval, happened, m.basis];
    }),
    "No model is fitted yet.");
}
// The end of an axis: the next of 1, 2, 5, 10, 20, ...
function end(value) {
  if (!(value > 1)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-9));
}
function tick(value) {
  return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
}
function chart(id, points, unit) {
  const top = end(Math.max(0, ...points.map((point) => Math.max(point[1], point[2]))));
  const now = points.length ? points[points.length - 1][0] : 0;
  const figure = by(id);
  ["first", "second"].forEach((name, at) => {
    const place = (point) => `${(SHOWN_S - (now - point[0])).toFixed(2)},${(100 - (100 * point[at + 1]) / top).toFixed(2)}`;
    figure.querySelector(`.${name}`).setAttribute("points", points.map(place).join(" "));
  });
  figure.querySelectorAll(".upright li").forEach((node, at) => put(node, tick(top * (1 - at / 2)) + unit));
}
// The rate between a moment and the last one before it that is some seconds ago.
function rate(at, of) {
  const here = history[at];
  let then = null;
  for (let before = at - 1; before >= 0; before -= 1) {
    then = history[before];
    if (here.at - then.at >= RATE_S - 0.2) break;
  }
  if (!then || here.at - then.at < 0.5) return null;
  return Math.max(0, here[of] - then[of]) / (here.at - then.at);
}
// One moment of the gate: what is busy and waits, and what was done and turned away since its start.
function moment(now, { busy, waiting, done, gone }) {
  const last = history[history.length - 1];
  // A gate that was started again counts from 0.
  if (last && (now.at_unix_s < last.at || now.uptime_s < last.uptime || done < last.done)) history.length = 0;
  if (!last || now.at_unix_s > last.at || history.length === 0) {
    history.push({ at: now.at_unix_s, uptime: now.uptime_s, busy, waiting, done, gone });
  }
  while (history.length > 2 && now.at_unix_s - history[0].at > SHOWN_S + RATE_S) history.shift();
  const shown = history.map((point, at) => ({ ...point, index: at })).filter((point) => now.at_unix_s - point.at <= SHOWN_S);
  chart("chart-slots", shown.map((point) => [point.at, point.busy, point.waiting]), "");
  const rates = shown.map((point) => [point.at, rate(point.index, "done"), rate(point.index, "gone")]);
  chart("chart-rate", rates.filter((point) => point[1] !== null), " /s");
  const done_now = rate(history.length - 1, "done");
  put(by("rate"), done_now === null ? "-" : number(done_now) + " /s");
}
function sum(list, of) {
  return list.reduce((total, one) => total + of(one), 0);
}
// Said aloud when it changes, so it must not change at every update.
function state(name, text) {
  root.dataset.state = name;
  put(by("state"), text);
}
async function update() {
  try {
    const reply = await fetch("state.json", { cache: "no-store", headers: asking, signal: AbortSignal.timeout(PATIENCE_MS) });
    if ((reply.status === 401 || reply.status === 403) && typeof locked === "function") {
      state("locked", locked(reply.status));
      return;
    }
    if (!reply.ok) throw new Error(`it answers ${reply.status}`);
    const now = await reply.json();
    show(now);
    last = new Date(now.at_unix_s * 1000).toLocaleTimeString("en", { hour12: false });
    const phase = { active: "lets jobs in", paused: "is paused: no job starts", draining: "drains: no job comes in" };
    state("live", `${now.version} ${now.says ?? phase[now.phase]}`);
  } catch (error) {
    state("lost", last ? `No answer since ${last}, trying again` : "No answer yet, trying again");
  }
}
async function forever() {
  for (;;) {
    if (!held && !document.hidden) await update();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}
by("hold").addEventListener("click", () => {
  held = !held;
  put(by("hold"), held ? "Go on updating" : "Stop updates");
});
