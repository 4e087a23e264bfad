"use strict";
// Draws the charts at the size that they have on the screen: closer, on logarithmic axes, of fewer runs, and with the
// values under the pointer, as is asked for. Whatever comes from files is only ever set as text.
const { runs, charts } = JSON.parse(document.getElementById("data").textContent);
const MARGIN = { left: 56, right: 14, above: 22, below: 34 };
const LEAST_DRAG = 8;
const DOT = 3;
const view = { hidden: new Set(), logSteps: false, logValues: false, part: null };
const drawn = [];

const curvesOf = (chart) => chart.curves.filter((curve) => !view.hidden.has(curve.run));

// Round numbers between two, and how they are written.
function ticks(low, high, most, log) {
  if (log && high / low >= 10) {
    const powers = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power++) powers.push(10 ** power);
    const factors = powers.length < 3 ? [1, 2, 5] : [1];
    const all = [powers[0] / 10, ...powers].flatMap((power) => factors.map((factor) => power * factor));
    return all.filter((value) => value >= low * 0.999 && value <= high * 1.001).map((value) => [value, short(value)]);
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * (1 - 1e-9)) ?? 10 * power;
  const decimals = -Math.floor(Math.log10(step) + 1e-9);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) {
    const value = at * step;
    found.push([value, decimals > 4 && value !== 0 ? value.toExponential(1) : value.toFixed(Math.min(Math.max(decimals, 0), 4))]);
  }
  return found;
}

function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 1e-4 || size >= 1e15) return value.toExponential(2).replace(/\.?0+e/, "e").replace("+", "");
  return String(Number(value.toPrecision(4)));
}

function dot(kind, run, x, y) {
  return `<circle class="dot${kind}" style="--h:${runs[run].hue}" r="${DOT}" cx="${x}" cy="${y}"/>`;
}

// Where values lie between two places, and back.
function scale(low, high, from, to, log) {
  const bent = log ? Math.log : (value) => value;
  const unbent = log ? Math.exp : (value) => value;
  const [first, last] = [bent(low), bent(high)];
  const place = (value) => from + ((bent(value) - first) / (last - first)) * (to - from);
  place.invert = (at) => unbent(first + ((at - from) / (to - from)) * (last - first));
  return place;
}

function stepsOf(chart) {
  if (view.part) return view.part;
  let [low, high] = [Infinity, -Infinity];
  for (const { points } of curvesOf(chart)) {
    low = Math.min(low, points[0][0]);
    high = Math.max(high, points.at(-1)[0]);
  }
  return low < high ? [low, high] : [low, low + 1];
}

function valuesOf(chart, [first, last], log) {
  let [low, high] = [Infinity, -Infinity];
  for (const { points } of curvesOf(chart)) {
    for (const [step, y] of points) {
      const value = y / chart.one;
      if (step < first || step > last || (log && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return [log ? 1 : 0, log ? 10 : 1];
  if (log) return low < high ? [low / 1.05, high * 1.05] : [low / 2, high * 2];
  if (chart.zero) low = Math.min(low, 0);
  const room = high - low ? (high - low) * 0.04 : Math.abs(high) * 0.1 || 1;
  return [chart.zero ? low : low - room, high + room];
}

function draw(number) {
  const chart = charts[number];
  const svg = document.querySelector(`svg[data-chart="${number}"]`);
  const width = svg.clientWidth;
  const height = number === 0 ? 340 : 240;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawn[number] = null;
  if (!curvesOf(chart).length) {
    svg.innerHTML = "";
    return;
  }
  const steps = stepsOf(chart);
  if (view.logSteps) steps[0] = Math.max(steps[0], 1);
  const values = valuesOf(chart, steps, view.logValues);
  const bottom = height - MARGIN.below;
  const end = width - MARGIN.right;
  const x = scale(...steps, MARGIN.left, end, view.logSteps);
  const y = scale(...values, bottom, MARGIN.above, view.logValues);
  const parts = [`<clipPath id="clip${number}"><rect x="${MARGIN.left - 2}" y="${MARGIN.above - 2}" width="${end - MARGIN.left + 4}" height="${bottom - MARGIN.above + 4}"/></clipPath>`];
  for (const [value, name] of ticks(...values, (bottom - MARGIN.above) / 40, view.logValues)) {
    parts.push(`<path class="grid" d="M${MARGIN.left} ${y(value).toFixed(1)}H${end}"/>`);
    parts.push(`<text class="left" x="${MARGIN.left - 6}" y="${(y(value) + 4).toFixed(1)}">${name}</text>`);
  }
  for (const [value, name] of ticks(...steps, (end - MARGIN.left) / 70, view.logSteps)) {
    if (name.includes(".")) continue;
    parts.push(`<path class="grid" d="M${x(value).toFixed(1)} ${bottom}v4"/>`);
    parts.push(`<text class="below" x="${x(value).toFixed(1)}" y="${bottom + 17}">${name}</text>`);
  }
  parts.push(`<text class="unit" x="4" y="12">${chart.unit}</text><text class="steps" x="${end}" y="${height - 3}">step</text>`);
  const path = (points, run, kind) => {
    const shown = points.filter(([step, value]) => (!view.logSteps || step > 0) && (!view.logValues || value > 0));
    const places = shown.map(([step, value]) => [x(step).toFixed(1), y(value / chart.one).toFixed(1)]);
    if (places.length === 1) {
      parts.push(dot(kind, run, ...places[0]));
    } else if (places.length) {
      parts.push(`<path class="run${kind}" style="--h:${runs[run].hue}" d="M${places.map((place) => place.join(" ")).join("L")}"/>`);
    }
  };
  parts.push(`<g clip-path="url(#clip${number})">`);
  for (const { run, dashed, points, smooth } of curvesOf(chart)) {
    const kind = dashed ? " dashed" : "";
    path(points, run, smooth.length ? `${kind} faint` : kind);
    path(smooth, run, `${kind} smooth`);
  }
  parts.push('</g><g class="over"></g>');
  svg.innerHTML = parts.join("");
  drawn[number] = { svg, x, y, bottom, end };
}

// The point that is nearest to a step.
function nearest(points, step) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < step) low = middle;
    else high = middle;
  }
  return Math.abs(points[low][0] - step) <= Math.abs(points[high][0] - step) ? points[low] : points[high];
}

function point(number, at) {
  const { svg, x, y, bottom, end } = drawn[number];
  const chart = charts[number];
  const step = x.invert(Math.min(Math.max(at, MARGIN.left), end));
  const tip = svg.parentElement.querySelector(".tip") ?? document.createElement("div");
  tip.className = "tip";
  tip.replaceChildren();
  const found = curvesOf(chart).map((curve) => ({ ...curve, at: nearest(curve.points, step) }));
  const closest = nearest(found.map(({ at }) => at).sort((one, other) => one[0] - other[0]), step)[0];
  const over = [`<path class="cross" d="M${x(closest).toFixed(1)} ${MARGIN.above}V${bottom}"/>`];
  tip.append(`step ${closest}`);
  for (const { run, label, at } of found) {
    over.push(dot("", run, x(at[0]).toFixed(1), y(at[1] / chart.one).toFixed(1)));
    const row = document.createElement("div");
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.setProperty("--h", runs[run].hue);
    const names = [runs.length > 1 ? runs[run].name : "", label].filter(Boolean).join(", ");
    const where = at[0] === closest ? "" : ` at step ${at[0]}`;
    row.append(swatch, `${names}${names ? ": " : ""}${short(at[1] / chart.one)} ${chart.unit}${where}`);
    tip.append(row);
  }
  svg.querySelector(".over").innerHTML = over.join("");
  svg.parentElement.append(tip);
  const [card, picture] = [svg.parentElement.getBoundingClientRect(), svg.getBoundingClientRect()];
  const left = picture.left - card.left + x(closest);
  const fits = left + 14 + tip.offsetWidth < card.width;
  tip.style.left = `${fits ? left + 14 : Math.max(0, left - 14 - tip.offsetWidth)}px`;
  tip.style.top = `${picture.top - card.top + MARGIN.above}px`;
}

function leave(number) {
  const { svg } = drawn[number];
  svg.querySelector(".over").innerHTML = "";
  svg.parentElement.querySelector(".tip")?.remove();
}

function redraw() {
  charts.forEach((_, number) => draw(number));
  document.getElementById("reset").hidden = !view.part;
}

function show(part) {
  view.part = part;
  redraw();
}

function listen(number) {
  const svg = document.querySelector(`svg[data-chart="${number}"]`);
  const place = (event) => event.clientX - svg.getBoundingClientRect().left;
  let began = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !drawn[number]) return;
    began = place(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drawn[number]) return;
    const at = place(event);
    if (began === null || Math.abs(at - began) < LEAST_DRAG) return point(number, at);
    leave(number);
    const [from, to] = [Math.min(began, at), Math.max(began, at)];
    svg.querySelector(".over").innerHTML = `<rect class="part" x="${from}" width="${to - from}" y="${MARGIN.above}" height="${drawn[number].bottom - MARGIN.above}"/>`;
  });
  svg.addEventListener("pointerup", (event) => {
    const [from, to] = [began ?? 0, place(event)].sort((one, other) => one - other);
    const isDrag = began !== null && to - from >= LEAST_DRAG;
    began = null;
    if (!isDrag || !drawn[number]) return;
    const { x } = drawn[number];
    const part = [x.invert(Math.max(from, MARGIN.left)), x.invert(Math.min(to, drawn[number].end))];
    leave(number);
    if (part[1] - part[0] >= 1) show(part);
    else redraw();
  });
  svg.addEventListener("pointercancel", () => { began = null; });
  svg.addEventListener("pointerleave", () => { if (began === null && drawn[number]) leave(number); });
  svg.addEventListener("dblclick", () => show(null));
}

const checked = (id, change) => document.getElementById(id).addEventListener("change", (event) => change(event.target.checked));
checked("smooth", (on) => document.body.classList.toggle("rough", !on));
checked("log-steps", (on) => { view.logSteps = on; redraw(); });
checked("log-values", (on) => { view.logValues = on; redraw(); });
document.getElementById("reset").addEventListener("click", () => show(null));
for (const box of document.querySelectorAll("[data-run]")) {
  box.addEventListener("change", () => {
    view.hidden[box.checked ? "delete" : "add"](Number(box.dataset.run));
    redraw();
  });
}
charts.forEach((_, number) => listen(number));
addEventListener("resize", redraw);
redraw();
