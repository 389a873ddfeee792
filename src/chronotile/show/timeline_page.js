const element = (id) => document.getElementById(id);
const model = JSON.parse(element("model").textContent);
const { axis, rows } = model;
const [slider, svg, tip] = ["slider", "chart", "tip"].map(element);
const all = (selector) => [...svg.querySelectorAll(selector)];
const [timed, fragments, links, lines] = ["[data-x]:not(.tick)", ".fragment", ".link", ".row"].map(all);
const LISTED = 200;
const THUMB = 16;
let place = 0;
let shown = model.ends.slice();
let [left, wide, tall] = [axis.left, 1, model.height];

const item = (text, data, note) => {
  const li = document.createElement("li");
  li.textContent = text;
  Object.assign(li.dataset, data);
  if (data.name) li.title = data.name; else li.className = "none";
  if (note) {
    const small = document.createElement("div");
    small.className = "note";
    small.textContent = note;
    li.append(small);
  }
  return li;
};

const fill = (id, items, none, make) => {
  const nodes = items.slice(0, LISTED).map(make);
  if (items.length > LISTED) nodes.push(item(`and ${(items.length - LISTED).toLocaleString("en")} more`, {}));
  if (!items.length) nodes.push(item(none, {}));
  element(id).replaceChildren(...nodes);
};

const words = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const pixel = (ms) => left + (ms - shown[0]) / (shown[1] - shown[0]) * wide;
// Far outside of the picture a browser's numbers are not exact, and nobody looks.
const near = (ms) => Math.min(Math.max(pixel(ms), -9999), 19999);

// The ticks of the axis, as `axes.py` makes them for a picture that stands alone.
const [SECOND, MINUTE, DAY] = [1000, 60000, 86400000];
const clock = (ms) => new Date(axis.local ? ms - new Date(ms).getTimezoneOffset() * MINUTE : ms).toISOString();
const calendarTicks = (low, high, wanted) => {
  const shift = axis.local ? -new Date(low).getTimezoneOffset() * MINUTE : 0;
  const step = axis.steps.find((one) => one >= wanted);
  const found = [];
  if (step) {
    const part = step >= DAY ? [0, 10] : [11, step >= MINUTE ? 16 : step >= SECOND ? 19 : 23];
    for (let ms = Math.ceil((low + shift) / step) * step - shift; ms <= high; ms += step) {
      found.push([ms, clock(ms).slice(...part), step >= DAY ? "" : clock(ms).slice(0, 10)]);
    }
    return found;
  }
  const months = axis.months.find((by) => by * 31 * DAY >= wanted) ?? axis.months.at(-1);
  const start = new Date(low + shift);
  let month = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months;
  for (let ms = 0; ms <= high; month += months) {
    ms = Date.UTC(Math.floor(month / 12), month % 12, 1) - shift;
    if (ms >= low && ms <= high) found.push([ms, clock(ms).slice(0, months >= 12 ? 4 : 7), ""]);
  }
  return found;
};
const numberTicks = (low, high, wanted) => {
  const scale = 10 ** Math.max(Math.floor(Math.log10(wanted)), 0);
  const step = [1, 2, 5, 10].map((by) => by * scale).find((one) => one >= wanted);
  const found = [];
  for (let number = Math.ceil(low / step) * step; number <= high; number += step) {
    found.push([number, number.toLocaleString("en"), ""]);
  }
  return found;
};
const ticks = () => {
  const span = shown[1] - shown[0];
  const wanted = span / Math.max(wide / axis.room, span > MINUTE ? 3 : 1);
  let before = "";
  const found = (axis.calendar ? calendarTicks : numberTicks)(...shown, wanted);
  const title = element("axis").lastElementChild;
  element("axis").replaceChildren(...found.map(([ms, text, day]) => {
    const tick = document.createElementNS(svg.namespaceURI, "g");
    tick.setAttribute("class", "tick");
    tick.setAttribute("transform", `translate(${pixel(ms)} ${model.bottom})`);
    tick.innerHTML = `<path d="M0 0V5"/><text y="18">${text}</text><text y="31">${day === before ? "" : day}</text>`;
    before = day;
    return tick;
  }), title);
};

// Many fragments share rows: those that the picture shows, in as few as there is room for.
const arrange = () => {
  const step = rows.step;
  const row = new Map();
  const names = [];
  if (rows.share) {
    const inside = [...model.bars.keys()].filter((at) => model.bars[at].t2 >= shown[0] && model.bars[at].t1 <= shown[1]);
    const share = Math.max(Math.ceil(inside.length / rows.most), 1);
    inside.forEach((at, number) => row.set(at, Math.floor(number / share)));
    for (let at = 0; at < inside.length; at += share) {
      const some = inside.slice(at, at + share);
      names.push(some.length === 1 ? model.bars[some[0]].short : words(some.length, "fragment"));
    }
    fragments.forEach((node, at) => {
      node.style.display = row.has(at) ? "" : "none";
      if (row.has(at)) node.setAttribute("transform", `translate(0 ${(row.get(at) + 0.5) * step})`);
    });
    lines.forEach((line, at) => {
      line.lastElementChild.dataset.text = names[at] ?? "";
      line.style.display = at < names.length ? "" : "none";
    });
  } else {
    model.bars.forEach((_, at) => row.set(at, at));
  }
  model.links.forEach(([time, old, made], at) => {
    const apart = row.has(old) && row.has(made) && row.get(old) !== row.get(made);
    links[at].style.display = apart ? "" : "none";
    if (apart) links[at].setAttribute("d", `M${near(time)} ${(row.get(old) + 0.5) * step}V${(row.get(made) + 0.5) * step}`);
  });
};

const draw = () => {
  for (const node of timed) {
    const from = near(Number(node.dataset.x));
    if (node.dataset.x2 === undefined) {
      node.setAttribute("transform", `translate(${from} ${node.dataset.y})`);
      continue;
    }
    const least = Number(node.dataset.least);
    const width = near(Number(node.dataset.x2)) - from;
    node.setAttribute("x", width < least ? from + (width - least) / 2 : from);
    node.setAttribute("width", Math.max(width, least));
  }
  for (const node of all(".stretch")) {
    const [first, last] = model.ends.map(pixel);
    node.setAttribute("transform", `translate(${first} 0) scale(${last - first} 1)`);
  }
  arrange();
  for (const label of all(".label")) {
    const room = Math.floor((left - 16) / 6.2);
    const text = label.dataset.text;
    label.textContent = text.length <= room ? text : `…${text.slice(1 - room)}`;
    label.setAttribute("x", left - 11);
  }
  ticks();
};

// The picture is as wide as the page, pixel by pixel; the slider lies exactly above its axis.
const fit = () => {
  const width = element("plot").clientWidth;
  left = Math.min(axis.left, Math.max(96, width * 0.3));
  wide = width - left - axis.right;
  svg.setAttribute("viewBox", `0 0 ${width} ${svg.viewBox.baseVal.height}`);
  for (const node of all(".grid")) { node.setAttribute("x1", left); node.setAttribute("x2", left + wide); }
  for (const node of all(".frame, #inside rect")) {
    const edge = node.matches(".frame") ? 0 : 8;
    node.setAttribute("x", left - edge);
    node.setAttribute("width", wide + 2 * edge);
  }
  for (const node of all(".peak")) node.setAttribute("x", left + 6);
  slider.style.marginLeft = `${left - THUMB / 2}px`;
  slider.style.width = `${wide + THUMB}px`;
  draw();
};

// The heading, and the knob: a moment that lies outside of the picture has none.
const head = () => {
  const { x, text } = model.moments[place];
  const side = x < shown[0] ? "before" : x > shown[1] ? "after" : "";
  [slider.min, slider.max] = shown;
  slider.value = x;
  slider.classList.toggle("away", side !== "");
  slider.setAttribute("aria-valuetext", text);
  element("moment").textContent =
    (place === 0 ? "Before the first commit" : `Opened at ${text}`) + (side && `, ${side} what the picture shows`);
};

// The picture from one place on the axis to another; at an end of the axis it keeps its width.
const look = (low, high) => {
  const [first, last] = model.ends;
  const width = Math.min(high - low, last - first);
  shown = low < first ? [first, first + width] : high > last ? [last - width, last] : [low, high];
  head();
  draw();
};

const list = () => {
  const at = place;
  const seen = model.bars.filter((bar) => bar.first >= 0 && bar.first <= at && at <= bar.last);
  const force = model.marks.filter((mark) => mark.first <= at);
  const wanted = element("search").value.trim();
  const listed = force.filter((mark) => `${mark.name} ${mark.text}`.toLowerCase().includes(wanted.toLowerCase()));
  const sums = model.counts ? model.counts[at] : {
    fragments: seen.length,
    deletes: force.filter((mark) => mark.kind === "delete").length,
    updates: force.filter((mark) => mark.kind === "update").length,
  };
  element("sums").textContent =
    `${words(sums.fragments, "fragment")} of ${model.fragments.toLocaleString("en")} visible, ` +
    `${words(sums.deletes, "delete")} and ${words(sums.updates, "update")} in force` +
    (at === model.now ? " — as an open now sees it" : "");
  fill("fragments", seen, "No fragment is visible at this moment.", (bar) =>
    item(`${bar.short}, written ${bar.when}${bar.holds ? `: ${bar.holds}` : ""}`, { name: bar.name }));
  const none = force.length ? `No match for “${wanted}” among ${words(force.length, "commit")} in force.`
    : "Nothing is in force at this moment.";
  fill("commits", listed, none, (mark) =>
    item(`${mark.time}: ${mark.text}`, { name: mark.name, kind: mark.kind }, mark.note));
};

// Chooses a moment; the picture moves just so far that it is in it.
const show = (at) => {
  const { x, ms } = model.moments[at];
  const width = shown[1] - shown[0];
  place = at;
  document.body.dataset.moment = ms;
  list();
  fragments.forEach((node, number) => {
    const { first, last } = model.bars[number];
    node.classList.toggle("seen", first >= 0 && first <= at && at <= last);
  });
  for (const node of all(".mark")) node.classList.toggle("later", Number(node.dataset.came) > at);
  all(".now").forEach((node) => { node.dataset.x = x; });
  look(...(x < shown[0] ? [x, x + width] : x > shown[1] ? [x - width, x] : shown));
};

element("fragments").parentElement.hidden = Boolean(model.counts);
const last = model.moments.length - 1;
const step = (by) => show(Math.min(Math.max(place + by, 0), last));
// The last moment that is not after a place on the axis.
const momentAt = (x) => Math.max(model.moments.findLastIndex((one, at) => at === 0 || one.x <= x), 0);
const middle = () => (shown[0] + shown[1]) / 2;
const chosen = () => (slider.classList.contains("away") ? middle() : model.moments[place].x);
// The place about which one zooms stays where it is: the chosen moment, or the pointer's.
const narrowest = Math.max(20, model.ends[1] * 1e-12);
const around = (about, factor) => [about - (about - shown[0]) * factor, about + (shown[1] - about) * factor];
const zoomBy = (wanted, about = chosen()) =>
  look(...around(about, Math.max(wanted, Math.min(1, narrowest / (shown[1] - shown[0])))));
// Zooms so far that other moments come into the picture, or leave it: there may be years between two.
const zoom = (by) => {
  const count = ([low, high]) => model.moments.filter(({ x }) => low <= x && x <= high).length;
  const width = shown[1] - shown[0];
  const [before, whole] = [count(shown), model.ends[1] - model.ends[0]];
  let factor = by;
  while ((by > 1 || before > 1) && count(around(chosen(), factor)) === before
    && width * factor > narrowest && width * factor < whole) factor *= by;
  zoomBy(factor);
};
const pan = (share) => {
  const by = (shown[1] - shown[0]) * share;
  look(shown[0] + by, shown[1] + by);
};
slider.addEventListener("input", () => show(momentAt(Number(slider.value))));
slider.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -last, End: last }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  step(by);
});
element("plot").addEventListener("keydown", (event) => {
  if (event.target !== element("plot")) return;
  const act = { "+": () => zoom(0.5), "-": () => zoom(2), 0: () => look(...model.ends),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2) }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
const click = (id, act) => element(id).addEventListener("click", act);
click("back", () => step(-1));
click("forth", () => step(1));
click("now", () => show(model.now));
click("closer", () => zoom(0.5));
click("farther", () => zoom(2));
click("whole", () => look(...model.ends));
element("search").addEventListener("input", list);
element("height").hidden = !model.height;
const grow = () => fragments.forEach((node, at) => {
  if (!tall) return;
  const height = 2 + (0.9 * rows.step - 2) * model.bars[at].tall[tall];
  node.lastElementChild.setAttribute("height", height);
  node.lastElementChild.setAttribute("y", -height / 2);
});
for (const radio of document.querySelectorAll("#height input")) {
  radio.checked = radio.value === tall;
  radio.addEventListener("change", () => { tall = radio.value; grow(); });
}
const timeAt = (event) =>
  shown[0] + (event.clientX - svg.getBoundingClientRect().left - left) / wide * (shown[1] - shown[0]);
svg.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoomBy(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
}, { passive: false });
let dragged = null;
let moved = 0;
svg.addEventListener("pointerdown", (event) => { dragged = event.clientX; moved = 0; });
addEventListener("pointermove", (event) => {
  if (dragged === null) return;
  moved += Math.abs(event.clientX - dragged);
  pan((dragged - event.clientX) / wide);
  dragged = event.clientX;
});
addEventListener("pointerup", () => { dragged = null; });
// A click on a fragment or a mark chooses its moment.
svg.addEventListener("click", (event) => {
  const node = event.target.closest(".fragment, .mark");
  if (!node || moved > 4) return;
  show(node.matches(".mark") ? momentAt(Number(node.dataset.x)) : Math.max(model.bars[fragments.indexOf(node)].first, 0));
});
svg.addEventListener("pointermove", (event) => {
  const under = document.elementsFromPoint(event.clientX, event.clientY).map((node) =>
    node.closest("#chart [aria-label]")?.getAttribute("aria-label") ?? (node.matches(".label") ? node.dataset.text : ""));
  const told = [...new Set(under)].filter(Boolean);
  const more = told.length > 3 ? [`and ${told.length - 3} more here: zoom in to tell them apart`] : [];
  tip.hidden = !told.length;
  tip.textContent = [...told.slice(0, 3), ...more].join("\n\n");
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), 0)}px`;
  tip.style.top = `${Math.max(Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8), 0)}px`;
});
svg.addEventListener("pointerleave", () => { tip.hidden = true; });
window.showMoment = show;
grow();
fit();
show(model.now);
addEventListener("resize", fit);
document.body.dataset.ready = "yes";
