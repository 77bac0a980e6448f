// Draws the figures of this page from the data element, with Observable Plot. A figure that has
// been drawn closes its table of numbers; one that cannot be drawn leaves its table open and counts
// as an error. At the end the root element says how many were drawn and how wide the page is.
"use strict";
(() => {
  const HUES = 8;
  const LINE_DASHES = [null, "18 3", "12 3 3 3", "12 3 3 3 3 3"];
  const DASHED_DASHES = ["7 5", "2 4", "9 4 2 4", "4 2"];
  const SLOPE_DASHES = ["1 4", "1 2 1 6"];
  const SHAPES = [
    ["circle", true],
    ["square", false],
    ["triangle", true],
    ["diamond", false],
    ["square", true],
    ["circle", false],
    ["diamond", true],
    ["triangle", false],
  ];
  const PATTERNS = {
    service: ["solid", "dots", "pale", "rows"],
    wait: ["rising", "falling", "cross", "columns"],
  };
  const PAPER_WIDTH = 680; // What fits an A4 or Letter page at 96 px an inch.
  const WIDTH_MIN = 120; // No figure fits in less [px].
  const FONT = 13;
  const LETTER = 7.8; // Mean width of a letter in px, a little too wide to be safe.
  const ROW = 17; // Height of a line of labels above a frame.
  const HALO = { stroke: "var(--paper)", strokeWidth: 4 };

  const hue = (index) => `var(--hue-${index % HUES})`;
  const heading = (axis) => (axis.unit ? `${axis.label} [${axis.unit}]` : axis.label);
  const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
  const widthOf = (text) => text.length * LETTER;

  function number(value) {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e15 || size < 1e-4) return d3.format(".3~e")(value);
    return d3.format(size >= 1e4 ? ".4~s" : ".4~r")(value);
  }

  // How each kind of axis places its values on a straight line, names them, and where its ticks
  // are. Plot itself only ever sees the straight line.
  const SCALES = {
    linear: {
      place: (value) => value,
      text: number,
      domain: ([low, high], pad) => {
        const [from, to] = [Math.min(0, low), Math.max(0, high)];
        if (from === to) return [0, 1];
        const room = (to - from) * pad;
        return [from < 0 ? from - room : 0, to > 0 ? to + room : 0];
      },
      ticks: ([low, high], count) => d3.ticks(low, high, count),
    },
    log: {
      place: Math.log10,
      text: number,
      domain: ([low, high], pad) => {
        const room = Math.max(high - low, 0.3) * pad;
        return [low - room, high + room];
      },
      ticks: ([low, high], count) => {
        const decades = high - low;
        const within = (tick) => Math.log10(tick) >= low && Math.log10(tick) <= high;
        if (decades < 0.8) return d3.ticks(10 ** low, 10 ** high, count).filter(within);
        const steps = decades * 3 <= count * 1.3 ? [1, 2, 5] : [1];
        const every = steps.length > 1 ? 1 : Math.ceil(decades / count);
        return d3
          .range(Math.floor(low), high + 1)
          .filter((power) => power % every === 0)
          .flatMap((power) => steps.map((step) => Number(`${step}e${power}`)))
          .filter(within);
      },
    },
    // Quantiles by their nines: 0.9 at 1, 0.99 at 2.
    nines: {
      place: (quantile) => -Math.log10(1 - quantile),
      text: (quantile) => `p${+(quantile * 100).toFixed(12)}`,
      domain: ([, high], pad) => [0, Math.max(high, 1) * (1 + pad)],
      ticks: ([, high], count) => {
        const nines = d3.range(1, high + 1e-9).map((nine) => Number(`0.${"9".repeat(nine)}`));
        const every = Math.ceil(nines.length / count);
        return [0, 0.5, ...nines.filter((_, index) => index % every === 0)];
      },
    },
  };

  // The n-th series of a kind gets the n-th dash or shape: colour is never the only difference.
  function styled(series, x, y) {
    const seen = {};
    return series.map((one, index) => {
      const [kind, raw] = Object.entries(one.mark)[0];
      const nth = (seen[kind] = (seen[kind] ?? -1) + 1);
      const dashes = kind === "dashed" ? DASHED_DASHES : LINE_DASHES;
      const points = raw.map((point) => placed(kind, point, one.name, x, y));
      return {
        name: one.name,
        kind,
        points,
        colour: hue(one.hue ?? index),
        dash: dashes[nth % dashes.length],
        shape: SHAPES[nth % SHAPES.length],
      };
    });
  }

  // A point where it stands on straight axes, and in words.
  function placed(kind, point, name, x, y) {
    const [at, value, ends] =
      kind === "dots"
        ? [point.x, point.y, point.interval]
        : kind === "band"
          ? [point[0], null, [point[1], point[2]]]
          : [point[0], point[1], undefined];
    const [lower, upper] = (ends ?? [value, value]).map(y.place);
    const interval = ends ? `[${number(ends[0])}, ${number(ends[1])}]` : "";
    const words = [value === null ? "" : number(value), interval].filter(Boolean).join(" ");
    return {
      x: x.place(at),
      y: value === null ? (lower + upper) / 2 : y.place(value),
      lower,
      upper,
      bar: ends !== undefined,
      tip: `${name}\n${withUnit(x.text(at), x.unit)}: ${withUnit(words, y.unit)}`,
    };
  }

  // Lines of a hatch inside a box, as the path of an SVG. They are real lines, not a pattern to
  // fill with: a printed page turns such a fill into megabytes.
  function hatch(name, { x1, x2, y1, y2 }) {
    const line = (...ends) =>
      `M${ends.slice(0, 2).map(d3.format(".1f"))}L${ends.slice(2).map(d3.format(".1f"))}`;
    const multiples = (from, to, step) => d3.range(Math.ceil(from / step) * step, to, step);
    const slanted = (sign) => {
      const offsets = sign > 0 ? [y1 - x2, y2 - x1] : [y1 + x1, y2 + x2];
      return multiples(...offsets, 9).map((offset) => {
        const ends = [(y1 - offset) * sign, (y2 - offset) * sign];
        const [from, to] = [Math.max(x1, d3.min(ends)), Math.min(x2, d3.max(ends))];
        return line(from, sign * from + offset, to, sign * to + offset);
      });
    };
    const kinds = {
      falling: () => slanted(1),
      rising: () => slanted(-1),
      cross: () => [...slanted(1), ...slanted(-1)],
      columns: () => multiples(x1 + 2, x2, 5).map((x) => line(x, y1, x, y2)),
      rows: () => d3.range(y1 + 3, y2, 5).map((y) => line(x1, y, x2, y)),
      dots: () =>
        d3
          .range(y1 + 4, y2 - 1, 5)
          .flatMap((y, row) =>
            d3.range(x1 + 2 + 3 * (row % 2), x2 - 2, 6).map((x) => line(x, y, x + 2, y)),
          ),
    };
    return (kinds[name]?.() ?? []).join("").replaceAll("\u2212", "-");
  }

  // Boxes with hatches, which stay apart in black and white, as a mark of Plot.
  const boxes = (list) => () => {
    const group = d3.create("svg:g");
    for (const { box, pattern, colour, outline, title } of list) {
      const { x1, x2, y1, y2 } = box;
      const one = group.append("g");
      one
        .append("rect")
        .attr("x", x1)
        .attr("y", y1)
        .attr("width", x2 - x1)
        .attr("height", y2 - y1)
        .attr("fill", colour)
        .attr("fill-opacity", { solid: 1, pale: 0.35, dots: 0.2 }[pattern] ?? 0.12)
        .attr("stroke", outline ?? colour);
      one
        .append("path")
        .attr("d", hatch(pattern, box))
        .attr("stroke", colour)
        .attr("stroke-width", pattern === "dots" ? 2 : 1.2)
        .attr("fill", "none");
      if (title) one.append("title").text(title);
    }
    return group.node();
  };

  // The legend: each entry is a piece of the very line, shape or area that it names.
  function legend(host, entries) {
    host.replaceChildren(
      ...entries.map((entry) => {
        const svg = d3.create("svg").attr("width", 38).attr("height", 14);
        const line = (y) =>
          svg
            .append("path")
            .attr("d", `M1,${y}H37`)
            .attr("stroke", entry.colour)
            .attr("fill", "none");
        if (entry.pattern) {
          svg.append(boxes([{ ...entry, box: { x1: 1, x2: 37, y1: 1, y2: 13 } }]));
        } else if (entry.kind === "band") {
          svg
            .append("rect")
            .attr("x", 1)
            .attr("y", 2)
            .attr("width", 36)
            .attr("height", 10)
            .attr("fill", entry.colour)
            .attr("fill-opacity", 0.16);
          line(2).attr("stroke-width", 0.8);
          line(12).attr("stroke-width", 0.8);
        } else if (entry.kind === "dots") {
          if (entry.points.some((point) => point.bar)) {
            svg
              .append("path")
              .attr("d", "M19,0V14M16,0.5H22M16,13.5H22")
              .attr("stroke", entry.colour);
          }
          const [shape, filled] = entry.shape;
          svg
            .append("path")
            .attr("transform", "translate(19,7)")
            .attr("d", d3.symbol(symbolOf(shape), 42)())
            .attr("stroke", entry.colour)
            .attr("stroke-width", 1.6)
            .attr("fill", filled ? entry.colour : "var(--paper)");
        } else {
          line(7)
            .attr("stroke-width", 2.2)
            .attr("stroke-dasharray", entry.dash)
            .attr("stroke-linecap", entry.kind === "slope" ? "round" : "butt");
        }
        const item = document.createElement("span");
        item.append(svg.node(), entry.name);
        return item;
      }),
    );
  }

  const symbolOf = (shape) =>
    ({
      circle: d3.symbolCircle,
      square: d3.symbolSquare,
      triangle: d3.symbolTriangle,
      diamond: d3.symbolDiamond,
    })[shape];

  function seriesMarks(one) {
    const { kind, points, colour: stroke, dash, shape } = one;
    if (kind === "band") {
      const edge = { x: "x", stroke, strokeWidth: 0.8, clip: true };
      return [
        Plot.areaY(points, {
          x: "x",
          y1: "lower",
          y2: "upper",
          fill: stroke,
          fillOpacity: 0.16,
          clip: true,
        }),
        Plot.line(points, { ...edge, y: "lower" }),
        Plot.line(points, { ...edge, y: "upper" }),
      ];
    }
    if (kind === "dots") {
      const barred = points.filter((point) => point.bar);
      const bar = { x: "x", y1: "lower", y2: "upper", stroke, strokeWidth: 1.3, marker: "tick" };
      const [symbol, filled] = shape;
      const fill = filled ? stroke : "var(--paper)";
      return [
        Plot.link(barred, bar),
        Plot.dot(points, {
          x: "x",
          y: "y",
          r: 4,
          symbol: symbolOf(symbol),
          stroke,
          strokeWidth: 1.6,
          fill,
        }),
      ];
    }
    const style = { stroke, strokeWidth: 2.2, strokeLinecap: "butt", clip: true };
    if (dash) style.strokeDasharray = dash;
    // A line through one point would be nothing.
    if (points.length === 1) return [Plot.dot(points, { x: "x", y: "y", r: 2.5, fill: stroke })];
    return [Plot.line(points, { x: "x", y: "y", ...style })];
  }

  // Vertical references and the calibrated range: each has its label in a row of its own above the
  // frame, on the side where it fits; the rows are so ordered that the fewest labels are crossed.
  function uprights(list, scaleX, frame) {
    const labels = list.map((one) => {
      const [place, width] = [scaleX(one.x), widthOf(one.name) + 5];
      const right = frame.right - place >= width || place - frame.left < width;
      const start = right ? place : place - width;
      // Where neither side has room, it is moved into the frame.
      const from = Math.max(frame.left, Math.min(start, frame.right - width));
      return { ...one, place, right, from, to: from + width };
    });
    const crossed = (order) =>
      d3.sum(order, (lower, row) =>
        d3.sum(order.slice(row + 1), (higher) =>
          higher.place > lower.from && higher.place < lower.to ? 1 : 0,
        ),
      );
    const ordered = labels.length > 5 ? labels : (d3.least(permutations(labels), crossed) ?? []);
    const rules = ordered.map(({ x, dotted }, row) =>
      Plot.ruleX([null], {
        x,
        stroke: "var(--ink)",
        strokeWidth: 1.2,
        insetTop: -(ROW * row + 14),
        strokeDasharray: dotted ? "3 3" : "none",
      }),
    );
    const texts = ordered.map(({ name, x, right, place, from, to }, row) =>
      Plot.text([name], {
        x,
        frameAnchor: "top",
        text: [name],
        textAnchor: right ? "start" : "end",
        lineAnchor: "bottom",
        fill: "var(--ink)",
        dx: right ? from - place + 5 : to - place - 5,
        dy: -(ROW * row + 3),
        ...HALO,
      }),
    );
    return [...rules, ...texts];
  }

  const permutations = (list) =>
    list.length === 0
      ? [[]]
      : list.flatMap((one, index) =>
          permutations(list.toSpliced(index, 1)).map((rest) => [one, ...rest]),
        );

  // Horizontal references: each label stands above or hangs below its line, at the left, in the
  // middle or at the right: wherever it hides the least of the data and of the other labels.
  function levels(list, scaleX, scaleY, frame, lines) {
    const taken = lines.flatMap((points) =>
      d3.pairs(points).flatMap(([a, b]) => {
        const [from, to] = [a, b].map((point) => [scaleX(point.x), scaleY(point.y)]);
        const steps = Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) / 4);
        return d3
          .range(steps)
          .map((step) => [0, 1].map((i) => from[i] + ((to[i] - from[i]) * step) / steps));
      }),
    );
    const middle = (frame.left + frame.right) / 2;
    const rules = list.map(({ y }) =>
      Plot.ruleY([null], {
        y,
        stroke: "var(--ink)",
        strokeWidth: 1.2,
        strokeDasharray: "8 3 1 3",
      }),
    );
    const texts = list.map(({ name, y }) => {
      const width = widthOf(name) + 6;
      const starts = { left: frame.left, right: frame.right - width, middle: middle - width / 2 };
      const choices = Object.entries(starts).flatMap(([side, start]) =>
        [-11, 11].map((offset) => {
          const height = scaleY(y) + offset;
          const inside = ([x, at]) =>
            x >= start && x <= start + width && Math.abs(at - height) < 12;
          const others = list.filter((one) => one.y !== y && inside([start, scaleY(one.y)])).length;
          return {
            side,
            start,
            width,
            height,
            offset,
            cost: taken.filter(inside).length + 20 * others,
          };
        }),
      );
      const { side, start, height, offset } = d3.least(choices, (choice) => choice.cost);
      taken.push(...d3.range(start, start + width, 4).map((x) => [x, height]));
      return Plot.text([name], {
        y,
        frameAnchor: side,
        text: [name],
        textAnchor: { left: "start", right: "end", middle: "middle" }[side],
        lineAnchor: offset < 0 ? "bottom" : "top",
        dx: { left: 6, right: -6, middle: 0 }[side],
        dy: Math.sign(offset) * 4,
        fill: "var(--ink)",
        ...HALO,
      });
    });
    return [...rules, ...texts];
  }

  // The line y = intercept + slope x, which is bent where an axis is not linear.
  function slopeSeries(references, x, y, [low, high]) {
    const slopes = references.filter(({ at }) => at.slope);
    return slopes.map(
      (
        {
          name,
          at: {
            slope: { intercept, slope },
          },
        },
        index,
      ) => {
        const raw = (place) => (x.scale === "log" ? 10 ** place : place);
        const points = d3
          .range(0, 1.0001, 1 / 100)
          .map((t) => low + (high - low) * t)
          .map((place) => ({ x: place, y: y.place(intercept + slope * raw(place)) }))
          .filter((point) => Number.isFinite(point.y));
        return {
          name,
          kind: "slope",
          points,
          colour: "var(--ink)",
          dash: SLOPE_DASHES[index % SLOPE_DASHES.length],
        };
      },
    );
  }

  const axisOf = (axis) => ({ ...axis, ...SCALES[axis.scale] });

  // One quantity against another: curves, quantiles and residuals are all drawn here.
  function chart(width, spec, live) {
    const [x, y] = [axisOf(spec.x), axisOf(spec.y)];
    const references = [...(spec.references ?? []), ...(live?.references ?? [])];
    const series = styled([...spec.series, ...(live?.series ?? [])], x, y);
    const points = series.flatMap((one) => one.points);
    const verticals = references
      .filter(({ at }) => at.x !== undefined)
      .map(({ name, at }) => ({ name, x: x.place(at.x) }));
    const calibrated = spec.calibrated_to ?? null;
    if (calibrated !== null) {
      verticals.push({ name: "calibrated up to here", x: x.place(calibrated), dotted: true });
    }
    const horizontals = references
      .filter(({ at }) => at.y !== undefined)
      .map(({ name, at }) => ({ name, y: y.place(at.y) }));
    const accepted = spec.tolerance ? [-spec.tolerance, spec.tolerance] : [];

    const xDomain = x.domain(
      d3.extent([...points, ...verticals], (one) => one.x),
      0.03,
    );
    const yDomain = y.domain(
      d3.extent([
        ...points.flatMap((point) => [point.lower, point.upper]),
        ...horizontals.map((one) => one.y),
        ...accepted,
      ]),
      0.08,
    );
    const slopes = slopeSeries(references, x, y, xDomain);

    const rows = ROW * verticals.length;
    const height = Math.round(Math.max(230, Math.min(380, width * 0.34))) + rows;
    const yTicks = y.ticks(yDomain, 6);
    const frame = {
      left: 16 + d3.max(yTicks, (tick) => widthOf(number(tick))),
      right: width - 18,
      top: 30 + rows,
      bottom: height - 46,
    };
    const scaleX = d3.scaleLinear().domain(xDomain).range([frame.left, frame.right]);
    const xTicks = apart(x.ticks(xDomain, Math.max(3, (frame.right - frame.left) / 72)), x, scaleX);
    const scaleY = d3.scaleLinear().domain(yDomain).range([frame.bottom, frame.top]);
    const marks = [
      ...grounds(scaleX, scaleY, calibrated === null ? null : x.place(calibrated), accepted),
      ...axes(x, y, xTicks, yTicks, frame, yDomain),
      ...slopes.map((one) =>
        Plot.line(one.points, {
          x: "x",
          y: "y",
          stroke: one.colour,
          strokeWidth: 2,
          strokeDasharray: one.dash,
          strokeLinecap: "round",
          clip: true,
        }),
      ),
      ...d3
        .sort(series, (one) => ["band", "line", "dashed", "dots"].indexOf(one.kind))
        .flatMap(seriesMarks),
      ...uprights(verticals, scaleX, frame),
      ...levels(
        horizontals,
        scaleX,
        scaleY,
        frame,
        [...series, ...slopes].map((one) => one.points),
      ),
      Plot.tip(
        points,
        Plot.pointer({
          x: "x",
          y: "y",
          title: "tip",
          fontSize: FONT,
          stroke: "var(--rule)",
          textPadding: 9,
        }),
      ),
    ];
    const scales = {
      x: { type: "linear", domain: xDomain },
      y: { type: "linear", domain: yDomain },
    };
    return { key: [...series, ...slopes], svg: plot(width, height, frame, { ...scales, marks }) };
  }

  // The ticks whose names do not touch the name before them.
  function apart(list, axis, scale) {
    let end = -Infinity;
    return list.filter((tick) => {
      const [middle, half] = [scale(axis.place(tick)), widthOf(axis.text(tick)) / 2];
      if (middle - half < end) return false;
      end = middle + half + 8;
      return true;
    });
  }

  // What lies behind the data: the range without calibration, the accepted residuals.
  function grounds(scaleX, scaleY, calibrated, accepted) {
    const [[x1, x2], [y1, y2]] = [scaleX.domain(), scaleY.domain()];
    const marks = [];
    if (calibrated !== null && calibrated < x2) {
      const box = {
        x1: scaleX(Math.max(calibrated, x1)),
        x2: scaleX(x2),
        y1: scaleY(y2),
        y2: scaleY(y1),
      };
      marks.push(boxes([{ box, pattern: "falling", colour: "var(--grid)", outline: "none" }]));
    }
    if (accepted.length > 0) {
      const [low, high] = accepted;
      marks.push(
        Plot.rect([null], { x1, x2, y1: low, y2: high, fill: "var(--hue-7)", fillOpacity: 0.1 }),
        Plot.ruleY(accepted, { stroke: "var(--soft)", strokeDasharray: "4 3" }),
      );
    }
    return marks;
  }

  function axes(x, y, xTicks, yTicks, frame, yDomain) {
    const names = (axis, list) => new Map(list.map((tick) => [axis.place(tick), axis.text(tick)]));
    const [xNames, yNames] = [names(x, xTicks), names(y, yTicks)];
    const [xPlaces, yPlaces] = [[...xNames.keys()], [...yNames.keys()]];
    return [
      Plot.gridY(yPlaces, { stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.axisY(yPlaces, {
        tickFormat: (tick) => yNames.get(tick),
        label: null,
        tickSize: 0,
        tickPadding: 8,
      }),
      Plot.axisX(xPlaces, {
        tickFormat: (tick) => xNames.get(tick),
        label: heading(x),
        labelAnchor: "center",
        labelArrow: "none",
        labelOffset: 40,
        tickSize: 5,
      }),
      Plot.ruleY([y.scale === "log" ? yDomain[0] : 0], { stroke: "var(--ink)", strokeWidth: 1 }),
      Plot.text([heading(y)], {
        frameAnchor: "top-left",
        text: [heading(y)],
        textAnchor: "start",
        lineAnchor: "top",
        dx: -frame.left,
        dy: -frame.top + 2,
        fill: "var(--ink)",
      }),
    ];
  }

  function plot(width, height, frame, options) {
    return Plot.plot({
      width,
      height,
      marginLeft: frame.left,
      marginRight: width - frame.right,
      marginTop: frame.top,
      marginBottom: height - frame.bottom,
      style: {
        fontFamily: "inherit",
        fontSize: `${FONT}px`,
        color: "var(--ink)",
        background: "none",
        overflow: "visible",
      },
      ...options,
    });
  }

  // Rows of bars, each below its own line of text: long names need no margin, on a phone either.
  function bars(width, rows, maximum, right, axis) {
    const twoLines = rows.some((row) => widthOf(row.name) + widthOf(row.note) + 24 > width);
    const textHeight = twoLines && rows.some((row) => row.note) ? 40 : 22;
    const pitch = textHeight + 34;
    const frame = { left: 1, right: width - right, top: 4, bottom: 4 + pitch * rows.length - 8 };
    rows.forEach((row, index) =>
      Object.assign(row, { top: 4 + pitch * index, bar: 4 + pitch * index + textHeight }),
    );
    const scale = d3.scaleLinear().domain([0, maximum]).range([frame.left, frame.right]);
    const label = { fill: "var(--ink)", lineAnchor: "top" };
    const [zero, ...ticks] = d3.ticks(0, maximum, Math.max(2, width / 130));
    const marks = [
      Plot.axisX([zero], { tickFormat: axis.format, label: null, textAnchor: "start" }),
      Plot.axisX(ticks, {
        tickFormat: axis.format,
        label: axis.label,
        labelAnchor: "center",
        labelArrow: "none",
        labelOffset: 38,
      }),
      Plot.text(rows, {
        x: 0,
        y: (row) => row.top + 4,
        text: "name",
        textAnchor: "start",
        fontWeight: 600,
        ...label,
      }),
      Plot.text(
        rows.filter((row) => row.note),
        {
          x: twoLines ? 0 : maximum,
          y: (row) => row.top + (twoLines ? 21 : 4),
          text: "note",
          textAnchor: twoLines ? "start" : "end",
          dx: twoLines ? 0 : right,
          ...label,
          fill: "var(--soft)",
        },
      ),
    ];
    const finish = (more) =>
      plot(width, frame.bottom + 46, frame, {
        x: { type: "linear", domain: [0, maximum] },
        y: { type: "identity", axis: null },
        marks: [...marks, ...more],
      });
    return { scale, finish };
  }

  const BAR = 18;
  const STACK_APART = 20; // Rows of a stack this many times apart share no axis of time.

  function strip(width, { rows: given }) {
    const kinds = {
      hard: { pattern: "solid", colour: hue(0) },
      soft: { pattern: "rising", colour: hue(1) },
    };
    const rows = given.map((row) => ({ ...row, name: `${row.name} (${row.kind})` }));
    const { scale, finish } = bars(width, rows, 1, 64, {
      format: (share) => `${number(share * 100)} %`,
      label: "Utilisation",
    });
    const busy = rows
      .filter((row) => row.utilisation > 0)
      .map((row) => ({
        ...kinds[row.kind],
        box: { x1: scale(0), x2: scale(row.utilisation), y1: row.bar, y2: row.bar + BAR },
        title: `${row.name}: ${number(row.utilisation * 100)} %${row.note ? `\n${row.note}` : ""}`,
      }));
    const frame = { x1: 0, x2: 1, y1: "bar", y2: (row) => row.bar + BAR };
    const svg = finish([
      Plot.rect(rows, { ...frame, fill: "var(--wash)", stroke: "var(--rule)" }),
      boxes(busy),
      Plot.text(rows, {
        x: 1,
        y: (row) => row.bar + BAR / 2,
        dx: 64,
        textAnchor: "end",
        fontWeight: 600,
        fill: "var(--ink)",
        text: (row) => `${d3.format(".1f")(row.utilisation * 100)} %`,
      }),
    ]);
    const present = new Set(given.map((row) => row.kind));
    const names = { hard: "hard: CPU, disk, network", soft: "soft: somebody configured it" };
    const key = Object.keys(kinds)
      .filter((kind) => present.has(kind))
      .map((kind) => ({ ...kinds[kind], name: names[kind] }));
    return { key, svg };
  }

  function stack(width, { unit, parts, rows: given }) {
    const seen = { service: 0, wait: 0 };
    const styles = parts.map(({ name, role }, index) => {
      const names = PATTERNS[role];
      return {
        pattern: names[seen[role]++ % names.length],
        colour: hue(index),
        name: `${name} (${role})`,
      };
    });
    const rows = given.map(({ name, values }) => {
      const total = d3.sum(values);
      return { name, values, total, note: `${withUnit(number(total), unit)} in all` };
    });
    const totals = rows.map((row) => row.total).filter((total) => total > 0);
    // On one axis of time the shorter of them could not be read: each bar is a whole then.
    const shares = totals.length > 1 && d3.max(totals) > STACK_APART * d3.min(totals);
    const maximum = shares ? 1 : d3.max(totals) || 1;
    const { scale, finish } = bars(width, rows, maximum, 18, {
      format: shares ? (share) => `${number(share * 100)} %` : number,
      label: shares ? "Share of each row's time" : heading({ label: "Time", unit }),
    });
    const pieces = rows
      .flatMap((row) => {
        let from = 0;
        return row.values.map((value, index) => {
          const length = shares && row.total > 0 ? value / row.total : value;
          const piece = { value, from, to: from + length, bar: row.bar, index, row: row.name };
          from += length;
          return piece;
        });
      })
      .filter((piece) => piece.value > 0);
    const wide = pieces.filter(
      (piece) => scale(piece.to) - scale(piece.from) > widthOf(number(piece.value)) + 12,
    );
    const svg = finish([
      boxes(
        pieces.map((piece) => ({
          ...styles[piece.index],
          box: { x1: scale(piece.from), x2: scale(piece.to), y1: piece.bar, y2: piece.bar + BAR },
          title: [piece.row, styles[piece.index].name, withUnit(number(piece.value), unit)].join(
            "\n",
          ),
        })),
      ),
      Plot.text(wide, {
        x: (piece) => (piece.from + piece.to) / 2,
        y: (piece) => piece.bar + BAR / 2,
        text: (piece) => number(piece.value),
        fill: "var(--ink)",
        ...HALO,
      }),
    ]);
    return { key: styles, svg };
  }

  const PERCENT = { label: "Residual", unit: "%", scale: "linear" };
  const QUANTILE = { label: "Percentile", unit: "", scale: "nines" };
  const KINDS = {
    curves: chart,
    quantiles: (width, spec) => chart(width, { ...spec, x: QUANTILE }),
    residuals: (width, spec) => chart(width, { ...spec, y: PERCENT }),
    strip,
    stack,
  };

  const figures = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const main = document.querySelector("main");
  let first = true;

  // Puts the picture of a plot and its legend into their places.
  function show(width, plot, live, key, picture) {
    const { key: entries, svg } = KINDS[plot.kind](width, plot, live);
    svg.setAttribute("aria-hidden", "true");
    legend(key, entries);
    picture.replaceChildren(svg);
  }

  // What the sliders add to a figure of this kind.
  let answers = {};
  // Draws what the sliders show beside the figures.
  let beside = () => {};

  function drawFigure(width, figure, index) {
    const host = document.getElementById(`figure-${index + 1}`);
    const [key, picture] = [host.querySelector(".key"), host.querySelector(".plot")];
    const numbers = host.querySelector("details");
    try {
      show(width, figure.plot, answers[figure.live], key, picture);
      if (first) numbers.open = false;
      return 1;
    } catch (error) {
      key.replaceChildren();
      picture.replaceChildren();
      numbers.open = true;
      reportError(error);
      return 0;
    }
  }

  function draw(width) {
    const drawn = d3.sum(figures, (figure, index) => drawFigure(width, figure, index));
    beside(width);
    first = false;
    root.dataset.figures = String(drawn);
    root.dataset.scrollWidth = String(root.scrollWidth);
    root.dataset.clientWidth = String(root.clientWidth);
    // The numbers of figures are opened by who wants them, and may be scrolled.
    const scrolled = d3.selectAll("main .scroll").filter(function () {
      return this.scrollWidth > this.clientWidth + 1 && !this.closest("details");
    });
    root.dataset.scrolled = String(scrolled.size());
  }

  let width = 0;
  function fit() {
    // While it is being laid out, or hidden, a page has no width; it is drawn when it has one.
    if (main.clientWidth === width || main.clientWidth < WIDTH_MIN) return;
    width = main.clientWidth;
    draw(width);
  }
  fit();
  // In the next frame: a drawing changes the height, which may bring or take a scroll bar, and with
  // it the width, and a page that answers a change of size with another is at fault.
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(main);
  addEventListener("beforeprint", () => draw(PAPER_WIDTH));
  addEventListener("afterprint", () => draw(width));

  // What the sliders use of this page.
  globalThis.page = {
    figures,
    number,
    show,
    // Draws the live figures again with these additions, by kind, and calls `also` now and
    // whenever the page is drawn.
    enliven(additions, also) {
      [answers, beside] = [additions, also];
      if (width === 0) return;
      figures.forEach((figure, index) => {
        if (figure.live) drawFigure(width, figure, index);
      });
      also(width);
    },
  };
})();
