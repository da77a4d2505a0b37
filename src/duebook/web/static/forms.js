// Help in the forms of schedules while a user types: the next due times, and examples and names
// for the chosen kind. Without script, the preview shows the same.

const ASKED = ["trigger", "trigger_kind", "tz", "start_at", "end_at", "max_runs", "jitter", "exclude", "calendar"];
const QUIET = 300;

export function helpForms() {
  for (const select of document.querySelectorAll("select[data-kinds]")) {
    select.addEventListener("change", () => fit(select));
  }
  for (const place of document.querySelectorAll("[data-next]")) watch(place);
}

// Each kind has its own example, and its own names to choose from.

function fit(select) {
  const field = document.getElementById(select.dataset.kinds), option = select.selectedOptions[0];
  field.placeholder = option.dataset.example;
  if (field.name === "target" && field.matches("input")) field.setAttribute("list", `known-${option.value}`);
}

function watch(place) {
  const form = place.closest("form");
  let waiting = 0, asked = 0;
  const look = async () => {
    const fields = new FormData(form), address = new URL(place.dataset.next, location.href);
    for (const name of ASKED) if (fields.get(name)) address.searchParams.set(name, fields.get(name));
    if (!fields.get("trigger")?.trim()) { place.hidden = true; return; }
    const mine = ++asked;
    const answer = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
    if (mine !== asked || !answer?.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("next");
    if (mine !== asked || !found) return;
    found.querySelector("h2")?.remove();
    place.replaceChildren(...document.adoptNode(found).childNodes);
    place.hidden = false;
  };
  form.addEventListener("input", (event) => {
    if (!ASKED.includes(event.target.name)) return;
    clearTimeout(waiting);
    waiting = setTimeout(look, QUIET);
  });
  look();
}
