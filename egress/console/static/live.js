// What the pages gain with scripts: they can follow the log, and a time is chosen by dragging over a chart. Everything that is shown
// is made on the server; what is fetched here is this page once more.

const interval = 3000; // milliseconds between two looks
let timer = 0;

const place = document.getElementById("live");
const relative = !/\buntil:/.test(document.querySelector("#q")?.value ?? "") && document.querySelector("#q");
if (place && relative) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Live";
  button.title = "Look at the log again every few seconds";
  button.addEventListener("click", () => follow(location.hash !== "#live"));
  place.append(button);
  place.hidden = false;
  follow(location.hash === "#live");

  function follow(on) {
    history.replaceState(null, "", location.pathname + location.search + (on ? "#live" : ""));
    button.setAttribute("aria-pressed", String(on));
    clearTimeout(timer);
    if (on) timer = setTimeout(refresh, interval);
  }

  async function refresh() {
    const main = document.querySelector("main");
    const busy = document.hidden || main.contains(document.activeElement) && document.activeElement !== main ||
      main.querySelector("details[open], .drag") || String(getSelection());
    if (!busy) {
      try {
        const response = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.querySelector("main");
        if (fresh && location.hash === "#live") {
          main.replaceWith(document.adoptNode(fresh));
          document.querySelector("footer").replaceWith(document.adoptNode(page.querySelector("footer")));
          drags();
        }
        button.title = "Look at the log again every few seconds";
      } catch {
        button.title = "The server does not answer; it is tried again";
      }
    }
    if (location.hash === "#live") timer = setTimeout(refresh, interval);
  }
}

// drags lets a time be chosen in each chart.
function drags() {
  for (const svg of document.querySelectorAll("svg[data-between]")) {
    let from = null, rect = null, moved = false;
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = at(event);
      moved = false;
    });
    svg.addEventListener("dragstart", (event) => event.preventDefault());
    svg.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = at(event);
      if (!moved && Math.abs(to - from) < 0.005) return;
      if (!rect) {
        moved = true;
        svg.setPointerCapture(event.pointerId);
        rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        rect.setAttribute("class", "drag");
        rect.setAttribute("y", 0);
        rect.setAttribute("height", 90);
        svg.append(rect);
      }
      rect.setAttribute("x", 720 * Math.min(from, to));
      rect.setAttribute("width", 720 * Math.abs(to - from));
    });
    const end = (event) => {
      if (from !== null && moved && event.type === "pointerup") {
        const since = Number(svg.dataset.since), span = Number(svg.dataset.until) - since;
        const [a, b] = [from, at(event)].sort((x, y) => x - y).map((x) => new Date(since + x * span).toISOString());
        location.assign(svg.dataset.between.replace("since%3ASINCE+until%3AUNTIL", `since%3A${encodeURIComponent(a)}+until%3A${encodeURIComponent(b)}`)); // both: a filter may have either word
      }
      rect?.remove();
      from = rect = null;
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("click", (event) => { if (moved) event.preventDefault(); }, true);
  }
}
drags();
