// What all parts of the page use: calls of the server, elements, and figures as texts. Texts from the server are only ever set as text.

export const $ = (id) => document.getElementById(id);

// call asks the server. It throws an Error with the server's words and the status.
export async function call(path, body) {
  const options = { headers: { "X-Limitdb": "dashboard" }, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch("api/" + path, options);
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const problem = new Error(data.error || "status " + answer.status);
    problem.status = answer.status;
    throw problem;
  }
  return data;
}

// make returns an element with attributes and children. Children are elements or texts; null and false are left out.
export function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) e[name] = value;
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// set changes a text only if it differs, so that a selection stays.
export const set = (e, text) => { if (typeof e === "string") e = $(e); if (e.textContent !== text) e.textContent = text; };

// fill gives an element other children, and keeps the focus on the one with the same data-focus.
export function fill(e, ...children) {
  const held = document.activeElement && e.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  e.replaceChildren(...children.flat().filter(Boolean));
  if (held !== undefined) { const again = [...e.querySelectorAll("[data-focus]")].find((c) => c.dataset.focus === held); if (again) again.focus(); }
}

// terms returns a list of names and values.
export const terms = (rows) => make("dl", {}, ...rows.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const exact = (n) => whole.format(n);
export const count = (n) => (n < 10000 ? whole.format(Math.round(n)) : compact.format(n));
export const rate = (n) => (n > 0 && n < 10 ? n.toFixed(1) : count(n));
export const plural = (n, noun, nouns) => count(n) + " " + (n === 1 ? noun : nouns || noun + "s");
export const percent = (part, all) => (all ? (100 * part / all).toFixed(1) + " %" : "–");

export function micros(us) {
  if (!us) return "–";
  if (us < 1000) return us.toPrecision(us < 10 ? 2 : 3).replace(/\.0+$/, "") + " µs";
  if (us < 1e6) return (us / 1000).toFixed(1) + " ms";
  return (us / 1e6).toFixed(1) + " s";
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export function span(ms) {
  if (ms < 0) return "never";
  const s = Math.floor(ms / 1000);
  if (ms < 1000) return Math.round(ms) + " ms";
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// page is what the parts share: the last state, the figures by the second and by the minute (and why there are no newer minutes), the time that charts show, the counters of rules, how many ms the server's clock is ahead of the browser's, and the time that rules are counted over.
export const page = { last: null, samples: [], minutes: [], noMinutes: "", charts: "5m", rules: [], moreRules: 0, paused: false, ahead: 0, over: "1h" };

// windows are the times that rules can be counted over. Charts can show those of spans.
export const windows = { "5m": "the last 5 minutes", "1h": "the last hour", "24h": "the last 24 hours", "": "all the time since they began" };

// spans are the times that charts can show, in ms.
export const spans = { "5m": 300e3, "1h": 3600e3, "24h": 86400e3 };

// again asks the server for the state at once.
export const again = () => document.dispatchEvent(new Event("limitdb-refresh"));

export const ago = (ms) => (ms > 0 ? span(Math.max(0, Date.now() + page.ahead - ms)) + " ago" : "never");
export const clock = (ms) => new Date(ms).toTimeString().slice(0, 8);

// link returns the address of a view. It has all that the view shows.
export function link(view, params) {
  const q = new URLSearchParams(params).toString();
  return "#/" + (view === "overview" ? "" : view) + (q ? "?" + q : "");
}

// tryLink returns the address at which a request with these pairs of fields and values is tried.
export const tryLink = (ns, pairs, cost) => link("try", { ns, ...(cost && cost !== "1" ? { cost } : {}), ...Object.fromEntries(pairs.map(([f, v]) => ["f." + f, v])) });

// sure asks whether to go on.
export function sure(title, text, word) {
  set("sure-title", title);
  set("sure-text", text);
  set("sure-yes", word);
  $("sure").returnValue = "no";
  $("sure").showModal();
  return new Promise((done) => { $("sure").onclose = () => done($("sure").returnValue === "yes"); });
}

export function trouble(text) {
  $("trouble").hidden = !text;
  set("trouble", text || "");
}
