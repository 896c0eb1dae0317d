// The page: its views and their addresses, who is signed in, and a question to the server every second.
import { $, call, set, link, page, span, clock, trouble } from "./page.js";
import * as overview from "./overview.js";
import * as rules from "./rules.js";
import * as rule from "./rule.js";
import * as caller from "./caller.js";
import * as trial from "./try.js";
import * as groups from "./groups.js";
import "./search.js";

const keep = 300; // seconds
const keepMinutes = 1440;
const views = Object.fromEntries([overview, rules, rule, caller, trial, groups].map((v) => [v.name, v]));
let view = null;
let timer = 0, turn = 0; // turn counts how often Pause was pressed
let rulesAt = -Infinity, rulesOver = null; // when the counters of rules were asked for, and over what time

// route shows the view that the address names.
function route() {
  const [, path, query] = /^#\/([a-z]*)\??(.*)$/s.exec(location.hash) || ["", "", ""];
  const next = views[path || "overview"] || overview;
  const params = Object.fromEntries(new URLSearchParams(query));
  if (view && view !== next && view.close) view.close();
  const moved = view && view !== next;
  view = next;
  for (const v of Object.values(views)) $(v.name).hidden = v !== view;
  for (const a of $("nav").querySelectorAll("a")) {
    const here = a.getAttribute("href") === link(view.menu || view.name);
    if (here) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  document.title = (view.title || "") + " – limitdb";
  view.open(params);
  if (moved) { scrollTo(0, 0); $("main").focus(); }
}

function showSignIn(on) {
  $("signin").hidden = !on;
  for (const id of ["nav", "search", "pause"]) $(id).hidden = on;
  if (on) {
    for (const v of Object.values(views)) $(v.name).hidden = true;
    view = null;
    $("account").hidden = true;
    $("nodes-pill").hidden = true;
    set("status", "signed out");
    $("status").className = "pill";
    set("uptime", "");
  } else if (!view) route();
}

$("signin").addEventListener("submit", async (e) => {
  e.preventDefault();
  set("signin-error", "");
  try {
    await call("signin", { user: $("user").value, password: $("password").value });
    $("password").value = "";
    forget();
    await refresh();
    $("main").focus();
  } catch (problem) { set("signin-error", problem.message); $("password").select(); }
});

$("account").addEventListener("click", async () => {
  try { await call("signout", {}); } catch (problem) { trouble(problem.message); }
  forget();
  page.last = null;
  refresh();
});

document.addEventListener("limitdb-refresh", () => { rulesAt = -Infinity; refresh(); });

$("pause").addEventListener("click", () => {
  page.paused = !page.paused;
  turn++;
  $("pause").setAttribute("aria-pressed", page.paused);
  set("pause", page.paused ? "Go on" : "Pause");
  if (page.paused) { clearTimeout(timer); head(page.last); } else refresh();
});

$("skip").addEventListener("click", (e) => { e.preventDefault(); $("main").focus(); });

$("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText($("command").textContent); set("copy", "Copied"); } catch { getSelection().selectAllChildren($("command")); set("copy", "Press Ctrl+C"); }
  setTimeout(() => set("copy", "Copy"), 2000);
});

// head shows what is in the head of the page.
function head(s) {
  const nodes = s.cluster.nodes, answer = nodes.filter((n) => n.answers).length;
  set("version", s.version);
  set("status", page.paused ? "paused at " + clock(s.now) : s.not_ready || "ready");
  $("status").className = "pill " + (page.paused ? "" : s.not_ready ? "bad" : "good");
  $("nodes-pill").hidden = !nodes.length;
  $("groups-link").hidden = !s.cluster.groups.length;
  set("nodes-pill", `${answer} of ${nodes.length} nodes`);
  $("nodes-pill").className = "pill " + (answer === nodes.length ? "good" : answer > nodes.length / 2 ? "" : "bad");
  set("uptime", (s.cluster.on ? s.cluster.id + (s.cluster.leads ? " leads, " : s.figures.node ? ` follows ${s.figures.node}, whose figures these are, ` : " follows, ") : "") + "up " + span(s.uptime_s * 1000));
  $("account").hidden = !s.password;
}

// forget drops the figures that the charts show.
function forget() { page.samples = []; page.minutes = []; page.noMinutes = ""; }

// lastOf returns the time of the last of some figures, 0 if there are none.
const lastOf = (samples) => (samples.length ? samples[samples.length - 1].at : 0);

// joined returns the last of some figures and of those that are newer: two answers may have the same.
const joined = (samples, more, most) => samples.concat(more.filter((p) => p.at > lastOf(samples))).slice(-most);

// minutesDue reports whether charts show minutes and another has ended, by the clock of the node that decides.
const minutesDue = () => page.charts !== "5m" && (!page.minutes.length || page.last.figures.time >= lastOf(page.minutes) + 60e3);

function show(s) {
  page.last = s;
  page.ahead = s.now - Date.now();
  page.samples = joined(page.samples, s.figures.samples, keep);
  if (s.minutes) {
    page.minutes = joined(page.minutes, s.minutes.samples, keepMinutes);
    page.noMinutes = s.minutes.problem;
  }
  showSignIn(false);
  head(s);
  if (view && view.show) view.show(s);
}

async function refresh() {
  clearTimeout(timer);
  const asked = turn;
  try {
    const over = page.over, counted = performance.now();
    const wanted = over !== rulesOver || counted - rulesAt > 1900 + 2 * page.moreRules; // 50 000 rules are much to ask for
    const s = await call(`state?since=${lastOf(page.samples)}` + (minutesDue() ? `&minutes=${lastOf(page.minutes)}` : "") + (wanted ? `&over=${over}` : ""));
    if (asked !== turn) return; // somebody has paused meanwhile
    if (wanted) { rulesAt = counted; rulesOver = over; page.rules = s.rules; page.moreRules = s.more_rules; }
    show(s);
    trouble("");
  } catch (problem) {
    if (problem.status === 401) { showSignIn(true); trouble(""); } else {
      set("status", problem.status ? "refused" : "no answer");
      $("status").className = "pill bad";
      $("account").hidden = !problem.status; // so that another user can sign in
      trouble((problem.status ? "" : "The server does not answer: ") + problem.message);
    }
  }
  clearTimeout(timer);
  if ($("signin").hidden && !page.paused) timer = setTimeout(refresh, document.hidden ? 5000 : 1000);
}

addEventListener("hashchange", () => { if ($("signin").hidden) route(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && $("signin").hidden && !page.paused) refresh(); });
refresh();
