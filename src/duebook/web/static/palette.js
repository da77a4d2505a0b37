// The palette finds schedules, runs, flows, views and pages; its list is that of the page Find.

const QUIET = 150;
let dialog, typed = 0, asked = 0;

export function openPalette(event) {
  const link = document.querySelector("[data-find]");
  if (!link) return;
  event.preventDefault();
  dialog ??= build(link.href);
  if (dialog.open) return;
  dialog.showModal();
  dialog.querySelector("input").select();
  look(link.href);
}

function build(address) {
  const made = document.body.appendChild(document.createElement("dialog"));
  made.className = "palette";
  made.setAttribute("aria-label", "Find");
  const input = document.createElement("input"), list = document.createElement("ul");
  input.type = "search";
  input.placeholder = "Schedule, run, flow or page";
  input.setAttribute("aria-label", "Schedule, run, flow or page");
  input.autocomplete = "off";
  list.className = "plain-list found";
  made.append(input, list);
  input.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(() => look(address), QUIET); });
  made.addEventListener("keydown", choose);
  made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
  return made;
}

async function look(address) {
  const there = new URL(address, location.href), mine = ++asked;
  there.searchParams.set("text", dialog.querySelector("input").value.trim());
  const answer = await fetch(there, { headers: { Accept: "text/html" } }).catch(() => null);
  if (mine !== asked || !answer?.ok) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("found");
  if (mine !== asked || !found) return;
  dialog.querySelector("ul").replaceChildren(...document.adoptNode(found).children);
  dialog.querySelector("ul a")?.classList.add("chosen");
}

// Arrow keys select, Enter opens; the field keeps the focus, so that typing continues.

function choose(event) {
  const links = [...dialog.querySelectorAll("ul a")], place = links.findIndex((link) => link.matches(".chosen"));
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) {
    event.preventDefault();
    const next = links[Math.min(Math.max(place + by, 0), links.length - 1)];
    links[place]?.classList.remove("chosen");
    next?.classList.add("chosen");
    next?.scrollIntoView({ block: "nearest" });
  }
  if (event.key === "Enter" && event.target.matches("input")) {
    event.preventDefault();
    links[Math.max(place, 0)]?.click();
  }
}
