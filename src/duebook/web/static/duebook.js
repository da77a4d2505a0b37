// Optional behaviour of the pages, each of which works without it: refreshes after changes, filters
// as you type, follows logs, copies, and handles a few keys.

import { helpForms } from "./forms.js";
import { keepLog, openLogs } from "./log.js";
import { openPalette } from "./palette.js";

const page = () => document.getElementById("page");
const LOOK_AGAIN_EVERY = 2000;

// -- the viewer's zone: the server formats all times, once it knows the zone

function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || document.cookie.split("; ").some((c) => c.startsWith("duebook_zone="))) return false;
  document.cookie = `duebook_zone=${zone}; path=/; max-age=31536000; samesite=strict`;
  return document.cookie.includes("duebook_zone=");
}

// -- distances: "in 12 s" counts down

// A wrong clock in the browser does not matter: the response contains the server's time.

const RIGHT_ENOUGH = 10_000;
let skew = 0;

function compareClocks(answer) {
  const ahead = Date.parse(answer.getElementById("main").dataset.served) - Date.now();
  skew = Math.abs(ahead) > RIGHT_ENOUGH ? ahead : 0;
}

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function distance(seconds) {
  let rest = Math.abs(Math.round(seconds));
  if (rest === 0) return "now";
  const parts = [];
  for (const [name, size] of UNITS) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number) parts.push(`${number} ${name}`);
    else if (parts.length) break;
  }
  const text = parts.slice(0, 2).join(" ");
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function tick() {
  const now = Date.now() + skew;
  for (const element of document.querySelectorAll("[data-at]")) {
    const text = distance((Date.parse(element.dataset.at) - now) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

// -- refreshing: the page is fetched again, and its contents are replaced

let number = "0", waiting = false, fetching = false;

function busy() {
  const active = document.activeElement; // a log survives a refresh, with its fields
  const typing = active && page().contains(active) && active.matches("input, textarea, select") && !active.closest("[data-log]");
  const chosen = page().querySelector("input[type=checkbox]:checked:not([data-log-set])");
  const asking = page().querySelector("form[method=post]:not([data-aside]) :is(input:not([type=hidden]), textarea:not([hidden]))");
  return paused || held || typing || chosen || asking || document.hidden || String(getSelection()).length > 0;
}

// A page that changes a lot can be paused to read it; it catches up when it is resumed.

let paused = false;

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pause]");
  if (!button) return;
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Resume updates" : "Pause updates";
  if (!paused && waiting) lookAgain();
});

// Replacing the page between press and release would lose the click.

let held = false;

function watchPresses() {
  const release = () => setTimeout(() => { held = false; if (waiting) lookAgain(); });
  addEventListener("pointerdown", () => { held = true; }, true);
  for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, release, true);
}

async function lookAgain() {
  waiting = true;
  if (fetching || busy()) return;
  fetching = true;
  waiting = false;
  try {
    const answer = await fetch(location.href, { headers: { "Duebook-Live": number, Accept: "text/html" } });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok || answer.redirected) return;
    exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* the stream reports when the server is back */ }
  finally { setTimeout(() => { fetching = false; if (waiting) lookAgain(); }, LOOK_AGAIN_EVERY); }
}

function exchange(fresh) {
  const next = fresh.getElementById("page");
  if (!next || busy()) { waiting = true; return; }
  const active = document.activeElement, focused = page().contains(active) ? identity(active) : null;
  const secret = page().querySelector("[data-once]");
  const sidled = [...page().querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  keepLog(page(), next);
  if (secret) next.querySelector(".title").after(secret);
  page().replaceWith(document.adoptNode(next));
  sidled.forEach((left, place) => { const box = page().querySelectorAll(".scroll")[place]; if (left && box) box.scrollLeft = left; });
  document.title = fresh.title;
  compareClocks(fresh);
  ready();
  if (focused && active.isConnected) active.focus({ preventScroll: true });
  else if (focused) focusAgain(focused);
}

// Identifies an element before and after a refresh: a link or button in a section and a row.

const FOCUSABLE = "a, button, summary, [tabindex]";

function identity(element) {
  const row = element.closest("tr, li")?.querySelector("a.row-link, a.id"), section = element.closest("section");
  const own = ["id", "href", "name", "value", "aria-label", "data-copy"].map((name) => element.getAttribute(name));
  return JSON.stringify([section?.id, row?.getAttribute("href"), element.tagName, element.form?.action, ...own]);
}

function focusAgain(wanted) {
  const found = [...page().querySelectorAll(FOCUSABLE)].find((element) => identity(element) === wanted);
  (found ?? document.getElementById("main")).focus({ preventScroll: true });
}

// A lost connection is reported at the top, because the page is no longer up to date.

function gone(is) {
  document.getElementById("gone")?.remove();
  if (!is) return;
  const told = made("p", "Connection lost. This page shows what was known before, and is updated as soon as the server answers.", "alert bad");
  told.id = "gone";
  told.setAttribute("role", "alert");
  document.getElementById("main").prepend(told);
}

function live() {
  const address = document.body.dataset.live, state = document.getElementById("live-state");
  if (!address) return;
  let stream, shown = document.body.dataset.change;
  const listen = () => {
    stream?.close();
    stream = new EventSource(address);
    stream.addEventListener("changed", (event) => {
      number = event.data;
      if (number !== shown) lookAgain();
      shown = number;
    });
    stream.addEventListener("open", () => {
      state.textContent = "Live";
      document.querySelector("[data-pause]").hidden = false;
      gone(false);
    });
    stream.addEventListener("over", () => { stream.close(); location.reload(); });
    stream.addEventListener("error", () => {
      state.textContent = "Connection lost; reconnecting";
      gone(true);
      shown = "";
      if (stream.readyState === EventSource.CLOSED) setTimeout(again, LOOK_AGAIN_EVERY);
    });
  };
  const again = () => { listen(); lookAgain(); }; // browsers do not reconnect after an error response
  listen();
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => { if (event.persisted) again(); });
  document.addEventListener("visibilitychange", () => { if (waiting) lookAgain(); });
}

// -- filter as you type: rows on the page immediately, the whole list a moment later

function filter(input) {
  const wanted = input.value.trim().toLowerCase().replace(/\*$/, "");
  for (const row of page().querySelectorAll("tr[data-text]")) {
    row.hidden = !row.dataset.text.toLowerCase().includes(wanted);
  }
}

let typed, searches = 0;
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-filter]")) return;
  filter(event.target);
  clearTimeout(typed);
  typed = setTimeout(() => search(event.target), 350);
});

async function search(input) {
  const form = input.form, address = new URL(form.action, location.href);
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  address.search = new URLSearchParams(fields);
  const mine = ++searches;
  if (address.href === location.href) return;
  const answer = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || answer.status === 401 || answer.status >= 500) return; // the rows found on this page stay
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("page");
  if (mine !== searches) return; // a response to an older text
  const own = form, others = (root) => [...root.children].filter((e) => !e.matches("h1, .title, .filters"));
  if (!fresh || !page().contains(own)) return;
  others(page()).forEach((element) => element.remove());
  others(fresh).forEach((element) => page().append(document.adoptNode(element)));
  history.replaceState(null, "", address);
  ready();
}

// -- a form is sent once, however often its button is pressed; after going back, once more

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

// -- copy

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
  catch { button.textContent = "Copy failed"; }
});

// -- keys

// All keys, which `?` lists and the handler uses: these, each data-key on the page, and `g` before
// each data-key in the menu.

const KEYS = [
  { key: "/", words: "search", act: (event) => press(page().querySelector("input[type=search], .filters input"), event) },
  { key: "j", words: "next row", act: (event) => step(1, event) },
  { key: "k", words: "previous row", act: (event) => step(-1, event) },
  { key: "Escape", words: "leave a field", inFields: true, act: (event) => event.target.blur() },
  { key: "?", words: "show these keys", act: (event) => help(event) },
  { key: "f", words: "find (also Ctrl+K)", act: (event) => openPalette(event) },
];

function allKeys() {
  const found = (root, before) => [...document.querySelectorAll(`${root} [data-key]`)].map((element) =>
    ({ before, key: element.dataset.key, words: element.textContent.replace("…", "").trim(), act: (event) => press(element, event) }));
  return [...found("#page", ""), ...KEYS.map((one) => ({ before: "", ...one })), ...found(".top", "g")];
}

// Keys can be turned off, for voice control or against slips; this browser remembers the choice.

const keysOff = () => { try { return localStorage.getItem("duebook-keys") === "off"; } catch { return false; } };

function keysSwitch() {
  const label = made("label"), box = made("input");
  box.type = "checkbox";
  box.checked = !keysOff();
  box.addEventListener("change", () => { try { localStorage.setItem("duebook-keys", box.checked ? "on" : "off"); } catch { /* not stored */ } });
  label.append(box, "Use these keys");
  return label;
}

let pressed = "";
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { openPalette(event); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift") return;
  const inField = event.target.matches("input, textarea, select");
  const before = pressed === "g" ? "g" : "";
  pressed = inField ? "" : event.key;
  const meant = (one) => one.key === event.key && one.before === before && (one.inFields || (!inField && !keysOff()));
  allKeys().find(meant)?.act(event);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-help]")) help(event);
  if (event.target.closest("[data-find]") && !event.ctrlKey && !event.metaKey) openPalette(event);
});

function press(element, event) {
  if (!element) return;
  event.preventDefault();
  pressed = "";
  if (element.matches("input")) { element.focus(); element.select(); } else element.click();
}

function step(by, event) {
  const links = [...page().querySelectorAll("tbody tr:not([hidden]) a.row-link, tbody tr:not([hidden]) a.id")];
  if (!links.length) return;
  event.preventDefault();
  const place = links.indexOf(document.activeElement);
  links[Math.min(Math.max(place + by, 0), links.length - 1)].focus();
}

function help(event) {
  event.preventDefault();
  const dialog = document.querySelector("dialog:not(.palette)") ?? document.body.appendChild(made("dialog"));
  if (dialog.open) return;
  dialog.setAttribute("aria-label", "Keys");
  const list = made("dl", "", "facts");
  for (const { before, key, words } of allKeys()) {
    const term = made("dt");
    if (before) term.append(made("kbd", before), " ");
    term.append(made("kbd", key === "Escape" ? "Esc" : key));
    list.append(term, made("dd", words));
  }
  const close = made("form");
  close.method = "dialog";
  close.append(made("button", "Close"));
  dialog.replaceChildren(made("h2", "Keys"), list, keysSwitch(), close);
  dialog.showModal();
}

function made(name, text = "", className = "") {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// -- start

function ready() {
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-help][hidden]")) button.hidden = false;
  openLogs(document, lookAgain);
  tick();
}

// The browser's time zones, for the field in the footer.

document.getElementById("zone")?.addEventListener("focus", (event) => {
  if (event.target.list) return;
  const list = made("datalist");
  list.id = "zones";
  list.append(...Intl.supportedValuesOf("timeZone").map((name) => { const one = made("option"); one.value = name; return one; }));
  event.target.after(list);
  event.target.setAttribute("list", "zones");
});

if (tellZone()) { document.getElementById("zone")?.setAttribute("value", Intl.DateTimeFormat().resolvedOptions().timeZone); lookAgain(); }
compareClocks(document);
ready();
helpForms();
watchPresses();
live();
setInterval(tick, 1000);
