// The field that finds callers, keys and rules by the beginning of what the page calls them, with completion: a combobox with a list.
import { $, call, make, link, set } from "./page.js";

let hits = [], at = -1, turn = 0, timer = 0;

const href = (h) => {
  if (h.kind === "key") return link("caller", { id: h.id });
  const i = h.text.indexOf("/");
  return link("rule", { ns: h.ns || h.text.slice(0, i), name: h.name || h.text.slice(i + 1) });
};

function close() {
  $("hits").hidden = true;
  $("q").setAttribute("aria-expanded", "false");
  $("q").removeAttribute("aria-activedescendant");
  at = -1;
}

function choose(i) {
  at = i;
  [...$("hits").children].forEach((e, n) => e.setAttribute("aria-selected", n === i));
  if (i >= 0) { $("q").setAttribute("aria-activedescendant", "hit-" + i); $("hits").children[i].scrollIntoView({ block: "nearest" }); } else $("q").removeAttribute("aria-activedescendant");
}

function go(h) {
  close();
  $("q").value = "";
  location.hash = href(h);
}

async function find() {
  const text = $("q").value, mine = ++turn;
  if (!text) { hits = []; close(); return; }
  let found;
  try { found = await call("search", { q: text }); } catch (problem) { found = { hits: [], whole: true, problem: problem.message }; }
  if (mine !== turn) return; // somebody has typed on
  hits = found.hits;
  at = -1;
  const none = found.problem || (found.whole ? "Nothing begins with that. A key is forgotten when its limit is full again." : "Nothing found in the time for a search: type more of it.");
  $("hits").replaceChildren(...(hits.length ? hits.map((h, i) => make("li", { role: "option", id: "hit-" + i, "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); go(h); } },
    make("span", { class: "key" }, h.text), make("small", {}, h.kind === "rule" ? "rule · " + h.note : h.note))) : [make("li", { class: "hint", role: "option", "aria-disabled": "true" }, none)]));
  $("hits").hidden = false;
  $("q").setAttribute("aria-expanded", "true");
  set("search-said", hits.length ? hits.length + " found" : none);
}

$("q").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, 120); });
$("q").addEventListener("focus", () => { if ($("q").value) find(); });
$("q").addEventListener("blur", close);
$("q").addEventListener("keydown", (e) => {
  if (e.key === "ArrowDown" && hits.length) choose((at + 1) % hits.length);
  else if (e.key === "ArrowUp" && hits.length) choose((at + hits.length - 1) % hits.length);
  else if (e.key === "Escape") { turn++; close(); return; }
  else return;
  e.preventDefault();
});
$("search").addEventListener("submit", async (e) => {
  e.preventDefault();
  clearTimeout(timer);
  if (at < 0) await find();
  if (hits.length) go(hits[Math.max(0, at)]);
});
