// Sliders for the report's scenario: each position is answered by the module, first by formula, then
// by simulations that grow until they are as long as those of `sekisho ask`. The page never waits:
// the module runs in a worker, and the latest position wins. The root element says how far it is:
// data-sliders is "working", "done" or "failed".
"use strict";
(() => {
  const BUDGETS = [20_000, 200_000]; // Requests of the first simulations, for a quick look.
  const SWEEP_BUDGET = 60_000; // Requests of a simulation that is a point of a line.
  const ON_PAGE_MAX = 200_000; // Without a worker, a longer simulation would freeze the page.
  const PATIENCE = 120; // How long an outdated request may go on before its worker goes [ms].
  const LIMIT = 30_000; // A request that takes longer is given up [ms].
  const LOADS = 25; // Loads of the formula's line; these of them are simulated too.
  const SIMULATED = [0, 1, 2, 4, 7, 11, 15, 20, 25];
  const BEYOND = 1.25; // How far beyond the reader's load the lines go at the least.
  const HUE = 6;
  const INSET = 38; // What the padding and the border of the sliders' box take of the page [px].

  const host = document.getElementById("sliders");
  const model = document.getElementById("model");
  const { dataset } = document.documentElement;
  const { number } = page;
  const sleep = (time) => new Promise((wake) => setTimeout(wake, time));

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // Text whose parts between two backticks are code.
  const inline = (text) =>
    text.split("`").map((part, index) => (index % 2 === 1 ? element("code", {}, part) : part));

  const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

  // A worker that answers, or the page itself. One request at a time.
  function engine(compiled) {
    const source = `"use strict";${answerer};let answer;onmessage=async({data})=>{
      if (data.module) answer = answerer(data.module);
      else postMessage({ id: data.id, reply: await answer(data.request) });};`;
    let [worker, onPage, pending, last] = [null, null, null, 0];
    const settle = (reply) => {
      const { resolve } = pending;
      pending = null;
      resolve(reply);
    };
    const dismiss = (reply) => {
      worker?.terminate();
      worker = null;
      if (pending) settle(reply);
    };
    const hire = () => {
      if (worker || onPage) return;
      try {
        const place = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        worker = new Worker(place);
        URL.revokeObjectURL(place);
        worker.postMessage({ module: compiled });
        worker.onmessage = ({ data }) => {
          if (pending?.id === data.id) settle(data.reply);
        };
        worker.onerror = (event) => {
          event.preventDefault();
          onPage = answerer(compiled);
          dismiss(JSON.stringify({ error: `no worker: ${event.message}` }));
        };
      } catch {
        onPage = answerer(compiled);
      }
    };
    // The reply, or null if it is no longer wanted.
    const send = async (request, wanted) => {
      if (pending) {
        await Promise.race([pending.done, sleep(PATIENCE)]);
        if (!wanted()) return null;
        if (pending) dismiss(null);
      }
      hire();
      if (onPage) {
        await sleep(0);
        return wanted() ? onPage(request) : null;
      }
      const one = { id: ++last };
      one.done = new Promise((resolve) => {
        one.resolve = resolve;
      });
      pending = one;
      worker.postMessage({ id: one.id, request });
      setTimeout(() => {
        if (pending === one) dismiss(JSON.stringify({ error: `no answer within ${LIMIT / 1000} s` }));
      }, LIMIT);
      return one.done;
    };
    hire();
    return { send, isOnPage: () => onPage !== null };
  }

  async function compile() {
    const text = document.getElementById("module").textContent;
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
  }

  const NAMES = {
    clients: () => ["Clients", ""],
    rate: () => ["Arrivals", "1/s"],
    slots: (of) => [`Slots of ${of}`, ""],
    servers: (of) => [`Servers of ${of}`, ""],
    demand: (of) => [`Demand at ${of}, times`, ""],
    discipline: (of) => [`Who is next at ${of}`, ""],
    router: (of) => [`Where to behind ${of}`, ""],
  };

  // A policy by its name; one with parameters has them behind it.
  function policy(value) {
    if (typeof value === "string") return value;
    const [[name, table]] = Object.entries(value);
    const words = Object.entries(table).map(([key, one]) => `${key} ${JSON.stringify(one)}`);
    return words.length > 0 ? `${name} (${words.join(", ").replaceAll('"', "")})` : name;
  }

  // One control as an element; `turned` is called when the reader moves it.
  function knob(control, index, turned) {
    const [values] = Object.values(control.stops);
    const [name, unit] = NAMES[control.turns](control.of);
    const id = `slider-${index}`;
    const shown = (at) => [number(values[at]), unit].join(" ").trim();
    const label = element("label", { for: id }, name);
    const one = { control, values, at: control.own };
    if ("numbers" in control.stops) {
      const output = element("output", { for: id });
      const input = element("input", { id, type: "range", min: 0, max: values.length - 1, step: 1 });
      one.show = () => {
        input.value = one.at;
        input.setAttribute("aria-valuetext", shown(one.at));
        output.value = shown(one.at);
        output.classList.toggle("turned", one.at !== control.own);
      };
      input.addEventListener("input", () => {
        one.at = Number(input.value);
        one.show();
        turned();
      });
      one.element = element("div", { class: "knob" }, label, output, input);
    } else {
      const options = values.map((value) => element("option", {}, policy(value)));
      const select = element("select", { id }, ...options);
      one.show = () => {
        select.selectedIndex = one.at;
        select.classList.toggle("turned", one.at !== control.own);
      };
      select.addEventListener("change", () => {
        one.at = select.selectedIndex;
        turned();
      });
      one.element = element("div", { class: "knob" }, label, select);
    }
    one.show();
    return one;
  }

  // What differs from the scenario, as the module reads it.
  function settingOf(knobs) {
    const setting = {};
    for (const { control, values, at } of knobs) {
      if (at === control.own) continue;
      if (control.of) (setting[control.turns] ??= {})[control.of] = values[at];
      else setting[control.turns] = values[at];
    }
    return setting;
  }

  const quantile = (q) => (numbers) => numbers.quantiles.find(([at]) => at === q)?.[1];
  const ROWS = [
    ["throughput", "Throughput", "1/s", 1, (numbers) => numbers.throughput],
    ["response", "Mean response", "ms", 1000, (numbers) => numbers.response],
    ["wait", "Mean wait for a slot", "ms", 1000, (numbers) => numbers.wait],
    ["p50", "Response p50", "ms", 1000, quantile(0.5)],
    ["p90", "Response p90", "ms", 1000, quantile(0.9)],
    ["p99", "Response p99", "ms", 1000, quantile(0.99)],
  ];

  // The two witnesses side by side. Each number's full value stands in data-value.
  function readouts() {
    const head = ["", "formula", "simulation", "apart"].map((text, index) =>
      element("th", { scope: "col", ...(index > 0 && { class: "numeric" }) }, text),
    );
    const lines = ROWS.map(([key, name, unit]) => {
      const cells = ["formula", "simulation", "apart"].map((of) =>
        element("td", { class: "numeric", id: `${of}-${key}` }, "\u2013"),
      );
      const title = element("th", { scope: "row" }, `${name} `);
      title.append(element("span", { class: "unit" }, `[${unit}]`));
      return element("tr", {}, title, ...cells);
    });
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...lines),
    );
    const put = (id, value, ...texts) => {
      const cell = table.querySelector(`#${id}`);
      cell.replaceChildren(...texts);
      if (value === undefined) delete cell.dataset.value;
      else cell.dataset.value = String(value);
    };
    const witness = (of, numbers) => {
      for (const [key, , , factor, pick] of ROWS) {
        const value = (numbers && pick(numbers)) ?? undefined;
        const half = value?.half_width;
        const interval = element("span", { class: "interval" });
        // What is narrower than a nanosecond of a second is the rounding of a sum.
        const width = half > 1e-9 * value?.mean ? half * factor : 0;
        if (half !== undefined) interval.append(`\u00b1 ${d3.format(".2~g")(width)}`);
        const texts = value ? [number(value.mean * factor), " ", interval] : ["\u2013"];
        put(`${of}-${key}`, value?.mean, ...texts);
      }
    };
    // `before` is what the simulation said of the last position; it stays until there is an answer.
    const show = (byFormula, simulated, before) => {
      table.classList.toggle("old", !simulated && Boolean(before));
      witness("formula", byFormula);
      witness("simulation", simulated ?? before);
      for (const [key, , , , pick] of ROWS) {
        const [a, b] = [byFormula, simulated].map((numbers) => numbers && pick(numbers)?.mean);
        const share = a > 0 && b > 0 ? a / b - 1 : undefined;
        const text = share === undefined ? "\u2013" : `${d3.format("+.1f")(share * 100)} %`;
        put(`apart-${key}`, share, text);
      }
    };
    return { table, show };
  }

  // The sliders' part of the figures, of the strip and of the table, from what is known so far.
  function pictures(gates) {
    const key = element("div", { class: "key", "aria-hidden": "true" });
    const picture = element("div", { class: "plot", role: "img" });
    let additions = {};
    let rows = [];
    const strip = (width) => {
      if (rows.length === 0) return;
      page.show(width - INSET, { kind: "strip", rows }, undefined, key, picture);
    };
    const show = (found) => {
      const numbers = found.simulation ?? found.formula ?? found.before;
      // Hidden, not gone: what stands below does not move.
      picture.style.visibility = numbers ? "visible" : "hidden";
      if (numbers) {
        rows = numbers.utilisation
          .map(([name, share]) => {
            const soft = gates.includes(name);
            const wait = soft && gates.length === 1 ? numbers.wait : null;
            return {
              name,
              kind: soft ? "soft" : "hard",
              utilisation: Math.min(Math.max(share, 0), 1),
              note: wait ? `mean wait ${number(wait.mean * 1000)} ms` : "",
            };
          })
          .sort((a, b) => b.utilisation - a.utilisation);
        const words = rows.map((row) => `${row.name} ${number(row.utilisation * 100)} %`);
        picture.setAttribute("aria-label", `Utilisation: ${words.join(", ")}.`);
      }
      const live = (of, factor) => {
        const here = found.simulation?.[of];
        const half = (here?.half_width ?? 0) * factor;
        const dot = here && {
          x: found.x,
          y: here.mean * factor,
          interval: [here.mean * factor - half, here.mean * factor + half],
        };
        const swept = [...found.swept, ...(here ? [{ x: found.x, [of]: here.mean }] : [])];
        const points = (list) => list.map((point) => [point.x, point[of] * factor]);
        return {
          series: [
            { name: "sliders, formula", hue: HUE, mark: { line: points(found.curve) } },
            {
              name: "sliders, simulated",
              hue: HUE,
              mark: { dashed: points(swept.sort((a, b) => a.x - b.x)) },
            },
            { name: "sliders, at this load", hue: HUE, mark: { dots: dot ? [dot] : [] } },
          ],
          references: [{ name: "your load", at: { x: found.x } }],
        };
      };
      additions = { throughput: live("throughput", 1), response: live("response", 1000) };
      page.enliven(additions, strip);
    };
    return { show, elements: [key, picture] };
  }

  // The largest load that a live figure shows.
  function widest() {
    const live = page.figures.filter((figure) => figure.live);
    const marks = live.flatMap(({ plot }) => plot.series.map((one) => one.mark));
    return d3.max(marks.flatMap((mark) => Object.values(mark)[0].map((p) => p.x ?? p[0]))) ?? 0;
  }

  async function start() {
    const { send, isOnPage } = engine(await compile());
    const request = (fields) => `{"scenario":${model.textContent},${JSON.stringify(fields).slice(1)}`;
    const seed = model.dataset.seed;
    const withSeed = (text) => `${text.slice(0, -1)},"seed":${seed}}`;
    let generation = 0;
    // What the module replies; null if it is no longer wanted.
    const ask = async (mine, text) => {
      const reply = await send(text, () => mine === generation);
      if (reply === null || mine !== generation) return null;
      const { ok, error } = JSON.parse(reply);
      if (error !== undefined) throw new Error(error);
      return ok;
    };

    const about = await ask(0, request({ ask: "controls" }));
    const table = readouts();
    const drawn = pictures(about.gates);
    const status = element("p", { class: "note", role: "status", id: "sliders-status" });
    const notes = element("div", { class: "notes" });
    const file = element("pre", { tabindex: "0", id: "sliders-file" });
    const numbersOfLoad = (knob) => ["clients", "rate"].includes(knob.control.turns);
    const found = { x: 0, formula: null, simulation: null, before: null, curve: [], swept: [] };

    const say = (text) => {
      status.replaceChildren(...inline(text));
    };
    const show = () => {
      table.show(found.formula, found.simulation, found.before);
      drawn.show(found);
    };

    // Answers a position step by step, as long as it is the latest.
    async function answer(mine) {
      const setting = settingOf(knobs);
      const load = knobs.find(numbersOfLoad);
      const turns = load?.control.turns;
      found.before = found.simulation ?? found.before;
      found.simulation = null;
      const formula = await ask(mine, withSeed(request({ ask: "formula", setting })));
      if (!formula) return false;
      const x = load ? load.values[load.at] : 0;
      Object.assign(found, { x, formula: formula.formula, swept: [] });
      file.textContent = formula.toml;
      const beyond = formula.beyond.map((text) => `Beyond the calibration: ${text}.`);
      const which = formula.formula ? `Formula: ${formula.note}.` : sentence(formula.note);
      notes.replaceChildren(
        ...[which, ...beyond].map((text) => element("p", { class: "note" }, ...inline(text))),
      );
      const most = Math.max(BEYOND * found.x, widest());
      const steps = d3.range(1, LOADS + 1).map((step) => (most * step) / LOADS);
      const loads =
        turns === "clients" ? [...new Set([1, ...steps.map((x) => Math.max(1, Math.round(x)))])] : steps;
      const curve = load ? await ask(mine, request({ ask: "curve", setting, loads })) : [];
      if (!curve) return false;
      found.curve = curve;
      show();
      const simulate = (more, budget) => {
        const fields = { ask: "simulate", setting: { ...setting, ...more }, completions_max: budget };
        return ask(mine, withSeed(request(fields)));
      };
      const whole = isOnPage() ? ON_PAGE_MAX : about.completions_max;
      for (const budget of [...BUDGETS.filter((one) => one < whole), whole]) {
        say(`Simulating, at most ${d3.format(",")(budget)} requests.`);
        const simulation = await simulate({}, budget);
        if (!simulation) return false;
        found.simulation = simulation;
        show();
      }
      const done =
        (isOnPage()
          ? "Simulated on the page's own thread, for want of a worker, and shorter than by `sekisho ask`"
          : "Formula and simulation are those of `sekisho ask`") +
        `: seed ${seed}, intervals of 95 %.`;
      // Where a formula knows the shape but has no number, nothing is simulated: it would not settle.
      const known = new Set(curve.map((point) => point.x));
      const swept = (load ? loads : []).filter(
        (x, index) => SIMULATED.includes(index) && x !== found.x && (known.size === 0 || known.has(x)),
      );
      for (const x of swept) {
        say("Simulating the line of the figures.");
        let at;
        try {
          at = await simulate({ [turns]: x }, SWEEP_BUDGET);
        } catch {
          // Too much load for this scenario: the line ends before it.
          break;
        }
        if (!at) return false;
        found.swept.push({ x, throughput: at.throughput.mean, response: at.response.mean });
        show();
      }
      say(done);
      return true;
    }

    async function turned() {
      generation += 1;
      const mine = generation;
      dataset.sliders = "working";
      reset.disabled = knobs.every((one) => one.at === one.control.own);
      try {
        if (await answer(mine)) dataset.sliders = "done";
      } catch (error) {
        if (mine !== generation) return;
        Object.assign(found, { simulation: null, before: null });
        show();
        say(`No answer: ${error.message}.`);
        dataset.sliders = "failed";
      }
    }

    const knobs = about.controls.map((control, index) => knob(control, index, turned));
    const reset = element("button", { type: "button" }, "Back to the scenario");
    reset.addEventListener("click", () => {
      for (const one of knobs) {
        one.at = one.control.own;
        one.show();
      }
      turned();
      knobs[0]?.element.querySelector("input, select").focus();
    });
    const copy = element("button", { type: "button", id: "sliders-copy" }, "Copy as scenario.toml");
    const copied = element("span", { role: "status" });
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(file.textContent);
        copied.textContent = "Copied.";
      } catch {
        text.open = true;
        getSelection().selectAllChildren(file);
        copied.textContent = "Selected below: press Ctrl+C.";
      }
      await sleep(4000);
      copied.textContent = "";
    });
    const text = element("details", {}, element("summary", {}, "scenario.toml"), file);
    host.replaceChildren(
      element("h3", {}, "What if? Turn the scenario"),
      element("div", { class: "knobs" }, ...knobs.map((one) => one.element)),
      element("p", { class: "buttons" }, copy, reset, copied),
      element("div", { class: "scroll" }, table.table),
      status,
      ...drawn.elements,
      notes,
      text,
      element("p", { class: "note" }, `Answered inside this page by sekisho ${about.version}.`),
    );
    await turned();
  }

  dataset.sliders = "working";
  start().catch((error) => {
    dataset.sliders = "failed";
    host.replaceChildren(
      element("p", { class: "note" }, `The sliders cannot work in this browser: ${error.message}`),
    );
  });
})();
