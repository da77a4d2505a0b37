// Shows a log: loads all of it, follows new lines, and draws only the visible rows, at most once
// per frame. Without it, the page has a part of the log, and links to the other parts.

import { KEPT, Rows, Search, marked, stretches } from "./log_rows.js";

const SETTINGS = "duebook-log";
const BESIDE = 10; // rows that are drawn above and below the visible ones
const STREAMS = ["stdout", "stderr", "duebook"];
const opened = new WeakMap();

export function openLogs(root, ended) {
  for (const section of root.querySelectorAll("[data-log]")) {
    if (!opened.has(section)) opened.set(section, new Log(section, ended));
    opened.get(section).resume();
  }
}

// A refreshed page keeps its log, with its search text and settings.
export function keepLog(page, next) {
  const log = page.querySelector("[data-log]"), fresh = next.querySelector("[data-log]");
  if (!log || !fresh || log.dataset.log !== fresh.dataset.log) return;
  log.dataset.stream = fresh.dataset.stream;
  const box = log.querySelector(".log"), scrolled = box.scrollTop;
  fresh.replaceWith(log);
  queueMicrotask(() => { box.scrollTop = scrolled; });
}

class Log {
  constructor(section, ended) {
    this.section = section;
    this.box = section.querySelector(".log");
    this.ended = ended;
    this.rows = new Rows();
    this.search = new Search(this.rows);
    this.pending = [];
    this.last = "";
    this.set = { follow: true, wrap: true, times: false, numbers: true, ...settings() };
    this.set.follow = "atEnd" in section.dataset;
    this.clock = new Intl.DateTimeFormat("en-GB", { timeZone: section.dataset.zone, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
    this.#listen();
    this.loading = this.#load();
  }

  // -- existing lines, then new ones

  async #load() {
    if (this.set.follow) this.box.scrollTop = this.box.scrollHeight; // of what the server rendered
    try {
      for (let more = true; more;) {
        const address = new URL(this.section.dataset.lines, location.href);
        if (this.last) address.searchParams.set("after", this.last);
        const answer = await fetch(address, { headers: { Accept: "application/json" } });
        if (!answer.ok) return;
        const form = await answer.json();
        for (const line of form.lines) this.rows.add(...line);
        ({ last: this.last, more } = form);
        if (!this.space && (!this.set.follow || !more)) {
          this.#take();
          this.#draw(); // at once, so that no empty log flashes
        } else if (more) this.#tell(`loading: ${this.rows.summary}`);
        this.draw();
      }
      this.#found(this.search.words || this.field.value);
    } catch { /* the lines that the server rendered stay */ }
  }

  async resume() {
    await this.loading;
    if (!this.section.dataset.stream || this.stream || !this.space) return;
    const address = new URL(this.section.dataset.stream, location.href);
    if (this.last) address.searchParams.set("cursor", this.last);
    const stream = this.stream = new EventSource(address);
    stream.addEventListener("line", (event) => {
      this.last = event.lastEventId;
      this.pending.push([event.lastEventId, event.data]);
      if (this.pending.length > 2 * KEPT) this.pending.splice(0, KEPT);
      this.draw();
    });
    const end = () => {
      stream.close();
      delete this.stream;
      this.section.dataset.stream = "";
      this.ended();
    };
    stream.addEventListener("end", end);
    stream.addEventListener("problem", end);
    addEventListener("pagehide", () => stream.close(), { once: true });
  }

  #arrive() {
    const arrived = this.pending;
    this.pending = [];
    for (const [place, data] of arrived) {
      const line = JSON.parse(data), [attempt, number] = place.split(".");
      this.rows.add(Number(attempt), Number(number), Date.parse(line.at), line.stream, line.text);
    }
    this.search.look();
  }

  // -- the visible part

  #take() {
    this.box.replaceChildren();
    this.box.hidden = false;
    this.space = this.box.appendChild(document.createElement("div"));
    this.space.className = "log-space";
    this.window = this.space.appendChild(document.createElement("div"));
    this.window.className = "log-window";
    for (const element of this.section.querySelectorAll("[data-plain]")) element.hidden = true;
    if (!this.rows.lines) return;
    this.section.querySelector(".none")?.remove();
    this.#fit();
  }

  // Measures the size of a letter and a row, and so how many rows each line needs.
  #fit() {
    const probe = document.createElement("span"), inner = probe.appendChild(document.createElement("span"));
    probe.className = "line stdout";
    inner.textContent = "0".repeat(100);
    this.box.className = `log ${["wrap", "times", "numbers"].filter((name) => this.set[name]).join(" ")}`;
    this.window.append(probe);
    const wide = probe.getBoundingClientRect();
    const style = getComputedStyle(probe);
    this.row = parseFloat(style.lineHeight) || wide.height;
    const ruler = document.createElement("span");
    ruler.textContent = "0";
    probe.replaceChildren(ruler);
    const letter = ruler.getBoundingClientRect().width || 8;
    const room = this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const columns = Math.max(Math.floor(room / letter), 10);
    probe.remove();
    this.rows.measure = this.set.wrap ? (row) => Math.max(Math.ceil((row.plain ?? row.text).length / columns), 1) : () => 1;
    this.rows.resize();
  }

  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.#draw(); });
  }

  #draw() {
    this.#arrive();
    if (!this.space) return;
    if (!this.row) { this.#take(); if (!this.row) return; }
    const height = this.rows.height * this.row;
    this.space.style.height = `${height}px`;
    if (this.set.follow) this.box.scrollTop = height;
    const seen = this.box.clientHeight / this.row;
    const [first] = this.rows.at(Math.max(this.box.scrollTop / this.row - BESIDE, 0));
    const [final] = this.rows.at(this.box.scrollTop / this.row + seen + BESIDE);
    const top = this.rows.top(first);
    const rows = this.rows.all.slice(first, final + 1);
    const elements = rows.map((_, place) => this.#element(first + place));
    this.#put(elements);
    for (const row of this.shown ?? []) if (!rows.includes(row)) { delete row.element; delete row.look; }
    this.shown = rows;
    this.window.style.transform = `translateY(${top * this.row}px)`;
    if (this.set.wrap) this.#correct(first, elements);
    this.#tell(this.rows.summary);
    this.said.textContent = this.search.summary;
  }

  // Rows that are already shown stay, to preserve the selection.
  #put(elements) {
    const wanted = new Set(elements);
    for (const shown of [...this.window.children]) if (!wanted.has(shown)) shown.remove();
    let next = this.window.firstChild;
    for (const element of elements) {
      if (element === next) next = next.nextSibling;
      else this.window.insertBefore(element, next);
    }
  }

  // Wide letters make lines longer than their number of letters suggests.
  #correct(first, elements) {
    let by = 0;
    const taken = elements.map((element) => Math.max(Math.round(element.offsetHeight / this.row), 1));
    taken.forEach((size, place) => { if (size !== this.rows.sizes[first + place]) by += this.rows.correct(first + place, size); });
    if (by) this.draw();
  }

  #element(place) {
    const row = this.rows.all[place], current = this.search.found[this.search.current] === place;
    const look = `${this.set.times} ${current} ${this.search.words}`;
    if (row.look !== look) Object.assign(row, { look, element: this.#drawn(row, current) });
    return row.element;
  }

  #drawn(row, current) {
    const element = document.createElement("span");
    if (!row.number) {
      element.className = "between";
      element.append(row.text, "\n");
      return element;
    }
    element.className = `line ${STREAMS.includes(row.stream) ? row.stream : ""}`;
    element.dataset.n = row.number;
    if (this.set.times) element.dataset.t = this.clock.format(row.at);
    for (const part of marked(stretches(row.text), this.search.words)) element.append(painted(part, current));
    element.append("\n");
    return element;
  }

  #tell(text) {
    const told = this.section.querySelector("[data-log-summary]");
    if (told && told.textContent !== text) told.textContent = text;
    else if (!told && text) {
      const made = document.createElement("span");
      made.className = "hint";
      made.dataset.logSummary = "";
      made.textContent = text;
      this.section.querySelector("h2").after(made);
    }
  }

  // -- user input

  #listen() {
    const { section } = this;
    this.field = section.querySelector("[data-find]");
    this.said = section.querySelector("[data-found]");
    section.querySelector("[data-log-tools]").hidden = false;
    for (const box of section.querySelectorAll("[data-log-set]")) {
      box.checked = this.set[box.dataset.logSet];
      box.addEventListener("change", () => this.#choose(box.dataset.logSet, box.checked));
    }
    section.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); this.#step(1); });
    this.field.addEventListener("input", () => this.#found(this.field.value));
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.#step(event.shiftKey ? -1 : 1);
    });
    for (const button of section.querySelectorAll("[data-log-do]")) {
      button.addEventListener("click", () => this.#step(button.dataset.logDo === "next" ? 1 : -1));
    }
    this.box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => { if (this.space && this.rows.lines) { this.#fit(); this.draw(); } }).observe(this.box);
  }

  #choose(name, value) {
    this.set[name] = value;
    if (name !== "follow") keepSettings(this.set);
    const [top] = this.rows.at(this.box.scrollTop / (this.row || 1));
    if (this.space && this.rows.lines) this.#fit();
    if (name !== "follow" && !this.set.follow && this.row) this.box.scrollTop = this.rows.top(top) * this.row;
    this.draw();
  }

  #scrolled() {
    if (!this.space) return;
    const low = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 2 * (this.row || 20);
    const up = this.box.scrollTop < (this.before ?? 0) - 1;
    this.before = this.box.scrollTop;
    if (up && !low && this.set.follow) this.#follow(false);
    else if (low && !up && !this.set.follow && this.section.dataset.stream) this.#follow(true);
    this.draw();
  }

  #follow(value) {
    this.set.follow = value;
    this.section.querySelector("[data-log-set=follow]").checked = value;
  }

  #found(words) {
    if (words !== undefined && words.trim().toLowerCase() !== this.search.words) this.search.start(words.trim());
    this.search.look();
    if (this.search.words && this.search.current < 0 && this.search.found.length && this.space) this.#step(1);
    else this.draw();
  }

  #step(by) {
    const [from] = this.rows.at(this.box.scrollTop / (this.row || 1));
    const place = this.search.step(by, from);
    if (place < 0 || !this.row) { this.draw(); return; }
    this.#follow(false);
    this.space.style.height = `${this.rows.height * this.row}px`; // else it cannot scroll that far yet
    this.box.scrollTop = Math.max((this.rows.top(place) - 3) * this.row, 0);
    this.before = this.box.scrollTop;
    this.draw();
  }
}

function painted({ text, classes, mark }, current) {
  if (!mark && !classes.length) return text;
  const element = document.createElement(mark ? "mark" : "span");
  element.textContent = text;
  element.className = [...classes, ...(mark && current ? ["current"] : [])].join(" ");
  return element;
}

// Settings also apply to the next log, if the browser can store them.

function settings() {
  try { return JSON.parse(localStorage.getItem(SETTINGS)) ?? {}; } catch { return {}; }
}

function keepSettings({ wrap, times, numbers }) {
  try { localStorage.setItem(SETTINGS, JSON.stringify({ wrap, times, numbers })); } catch { /* not stored */ }
}
