// The rows of a log, independent of the page: lines and dividers, the position of each row, search,
// and terminal colours. Does not touch the DOM.

export const KEPT = 150_000; // lines that a page keeps: the newest of a longer log
const BLOCK = 256;

// A row is a line, or a note between lines: which attempt starts, how many lines were not kept.

export class Rows {
  constructor(kept = KEPT) {
    this.kept = kept;
    this.all = [];
    this.sizes = []; // screen rows of each row
    this.blocks = []; // their sum for each block of rows
    this.lines = 0;
    this.dropped = 0; // lines that were dropped because the page keeps no more
    this.printed = new Map(); // the number of the last line of each attempt
    this.attempt = 0;
    this.number = 0;
    this.measure = () => 1;
  }

  add(attempt, number, at, stream, text) {
    if (attempt < this.attempt || (attempt === this.attempt && number <= this.number)) return;
    if (attempt !== this.attempt) {
      if (this.attempt || attempt > 1) this.#push({ text: `attempt ${attempt}` });
    } else if (number > this.number + 1) {
      this.#push({ text: notKept(number - this.number - 1) });
    }
    this.attempt = attempt;
    this.number = number;
    this.printed.set(attempt, number);
    this.#push({ number, at, stream, text, plain: plainText(text) });
    this.lines += 1;
    if (this.lines > this.kept * 1.1) this.#drop();
  }

  #push(row) {
    const size = this.measure(row), place = this.all.length;
    this.all.push(row);
    this.sizes.push(size);
    if (place % BLOCK === 0) this.blocks.push(0);
    this.blocks[this.blocks.length - 1] += size;
  }

  #drop() {
    const many = Math.floor(this.all.length - this.kept);
    const gone = this.all.splice(0, many).filter((row) => row.number).length;
    this.lines -= gone;
    this.dropped += gone;
    this.forgotten = (this.forgotten ?? 0) + many;
    this.resize();
  }

  resize() {
    this.sizes = this.all.map((row) => this.measure(row));
    this.blocks = [];
    this.sizes.forEach((size, place) => {
      if (place % BLOCK === 0) this.blocks.push(0);
      this.blocks[this.blocks.length - 1] += size;
    });
  }

  // Corrects the size of a row after it was drawn.
  correct(place, size) {
    const by = size - this.sizes[place];
    this.sizes[place] = size;
    this.blocks[Math.floor(place / BLOCK)] += by;
    return by;
  }

  get height() { return this.blocks.reduce((sum, size) => sum + size, 0); }

  // The row at an offset of screen rows from the top, and where it starts.
  at(offset) {
    let top = 0, block = 0;
    while (block < this.blocks.length - 1 && top + this.blocks[block] <= offset) top += this.blocks[block++];
    let place = block * BLOCK;
    while (place < this.all.length - 1 && top + this.sizes[place] <= offset) top += this.sizes[place++];
    return [place, top];
  }

  top(place) {
    const block = Math.floor(place / BLOCK);
    let top = 0;
    for (let before = 0; before < block; before++) top += this.blocks[before];
    for (let row = block * BLOCK; row < place; row++) top += this.sizes[row];
    return top;
  }

  get summary() {
    const printed = [...this.printed.values()].reduce((sum, number) => sum + number, 0);
    if (this.lines < printed) return `${this.lines.toLocaleString("en")} of ${printed.toLocaleString("en")} lines kept`;
    return this.lines === 1 ? "1 line" : `${this.lines.toLocaleString("en")} lines`;
  }
}

function notKept(count) {
  return `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"} not kept: the log was too long`;
}

// Finds rows that contain a text, ignoring case. Each row is searched only once.

export class Search {
  constructor(rows) {
    this.rows = rows;
    this.start("");
  }

  start(words) {
    this.words = words.toLowerCase();
    this.found = [];
    this.looked = 0;
    this.forgotten = this.rows.forgotten ?? 0;
    this.current = -1;
    this.look();
  }

  look() {
    if (!this.words) return;
    const gone = (this.rows.forgotten ?? 0) - this.forgotten;
    if (gone) {
      const before = this.found.length;
      this.found = this.found.map((place) => place - gone).filter((place) => place >= 0);
      this.current = Math.max(this.current - (before - this.found.length), -1);
      this.looked -= gone;
      this.forgotten += gone;
    }
    const all = this.rows.all;
    for (let place = Math.max(this.looked, 0); place < all.length; place++) {
      if (all[place].number && all[place].plain.toLowerCase().includes(this.words)) this.found.push(place);
    }
    this.looked = all.length;
  }

  // The next or the previous match from a row; wraps around.
  step(by, from) {
    if (!this.found.length) return -1;
    if (this.current < 0) {
      const next = this.found.findIndex((place) => place >= from);
      this.current = by > 0 ? (next < 0 ? 0 : next) : (next <= 0 ? this.found.length - 1 : next - 1);
    } else this.current = (this.current + by + this.found.length) % this.found.length;
    return this.found[this.current];
  }

  get summary() {
    if (!this.words) return "";
    if (!this.found.length) return "no matches";
    const all = this.found.length.toLocaleString("en");
    return this.current < 0 ? `${all} found` : `${(this.current + 1).toLocaleString("en")} of ${all}`;
  }
}

// Terminal colours as in ansi.py: parts with classes; other escapes are dropped.

const ESCAPE = /\x1b\[([0-9;:?]*)[ -/]*([@-~])|\x1b[\]P^_X][\s\S]*?(?:\x1b\\|\x07|$)|\x1b[ -/]*[0-~]?|\x9b[0-9;:?]*[@-~]?/g;
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const SIMPLE = /^[\t\n\x20-\x7e]*$/;

export function plainText(text) {
  return SIMPLE.test(text) ? text : text.replace(ESCAPE, "").replace(HIDDEN, "");
}

export function stretches(text) {
  if (SIMPLE.test(text)) return [{ text, classes: [] }];
  const parts = [];
  let classes = [], place = 0;
  const add = (part) => {
    const clean = part.replace(HIDDEN, "");
    if (clean) parts.push({ text: clean, classes });
  };
  for (const found of text.matchAll(ESCAPE)) {
    add(text.slice(place, found.index));
    place = found.index + found[0].length;
    if (found[2] === "m") classes = after(classes, found[1]);
  }
  add(text.slice(place));
  return parts;
}

function after(classes, codes) {
  let kept = [...classes];
  for (const code of (codes || "0").split(";")) {
    const number = /^[0-9]{1,3}$/.test(code) ? Number(code) : -1;
    if (number === 0) kept = [];
    else if (number === 1) kept.push("ansi-bold");
    else if ((number >= 30 && number <= 37) || (number >= 90 && number <= 97)) {
      kept = [...kept.filter((name) => name === "ansi-bold"), `ansi-${COLOURS[number % 10]}`];
    } else if (number === 39) kept = kept.filter((name) => name === "ansi-bold");
    else if (number === 38 || number === 48) break;
  }
  return [...new Set(kept)];
}

// The same parts, split at the start and end of each match.

export function marked(parts, words) {
  if (!words) return parts;
  const text = parts.map((part) => part.text).join("").toLowerCase(), cuts = [];
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) cuts.push([at, at + words.length]);
  if (!cuts.length) return parts;
  const found = [];
  let start = 0;
  for (const { text: whole, classes } of parts) {
    let place = 0;
    for (const [from, to] of cuts) {
      const a = Math.max(from - start, place), b = Math.min(to - start, whole.length);
      if (b <= a) continue;
      if (a > place) found.push({ text: whole.slice(place, a), classes });
      found.push({ text: whole.slice(a, b), classes, mark: true });
      place = b;
    }
    if (place < whole.length) found.push({ text: whole.slice(place), classes });
    start += whole.length;
  }
  return found;
}
