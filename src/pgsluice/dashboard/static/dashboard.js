// What a page does beyond reading: refresh, keyboard, copying, colours. Every page works without it.
"use strict";

const root = document.documentElement;
const main = () => document.getElementById("content");
const button = (name) => document.querySelector(`[data-act="${name}"]`);

// Refresh: the server says when, and the page is read again and merged, so that focus, selection and scrolling stay.
const live = { source: null, isPaused: false, isReading: false, alarm: 0 };
const states = {
  live: "The page refreshes by itself; press to pause",
  paused: "Press to refresh again",
  waiting: "Rows are selected: the page refreshes when none is",
  "not reachable": "The dashboard does not answer; trying again",
};

function showLive(given) {
  const shown = button("live");
  const state = given === "live" && chosen().length ? "waiting" : given;
  Object.assign(shown, { textContent: state, title: states[state], hidden: !root.dataset.live });
}

// True while a refresh would be in the viewer's way.
function isBusy() {
  const isTyping = document.activeElement?.matches("main input:not([type=checkbox]), main textarea, main select");
  return isTyping || chosen().length || document.querySelector("dialog[open]") || !getSelection().isCollapsed;
}

async function refresh() {
  if (live.isReading || isBusy()) return;
  live.isReading = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const read = new DOMParser().parseFromString(await response.text(), "text/html");
    const content = read.getElementById("content");
    if (!content) throw new Error(`status ${response.status}`);
    if (!live.source || isBusy()) return; // meanwhile
    const callbacks = {
      beforeAttributeUpdated: (name) => name !== "open", // what the viewer has opened stays open
      beforeNodeMorphed: (node) => !node.classList?.contains("copied"),
    };
    Idiomorph.morph(main(), content.innerHTML, { morphStyle: "innerHTML", callbacks });
    document.querySelector("footer").innerHTML = read.querySelector("footer").innerHTML;
    document.title = read.title;
    mark();
    count();
    showLive("live");
  } catch {
    if (live.source) showLive("not reachable");
  } finally {
    live.isReading = false;
  }
}

function connect() {
  const isWanted = root.dataset.live && !live.isPaused && !document.hidden;
  if (isWanted && !live.source) {
    live.source = new EventSource(root.dataset.live);
    live.source.addEventListener("refresh", refresh);
    live.source.addEventListener("open", reached);
    live.source.addEventListener("error", lost);
    showLive("live");
  } else if (!isWanted) disconnect();
  if (live.isPaused) showLive("paused");
}

function disconnect() {
  live.source?.close();
  live.source = null;
  clearTimeout(live.alarm);
  live.alarm = 0;
}

function reached() {
  const wasLost = button("live").textContent === "not reachable";
  clearTimeout(live.alarm);
  live.alarm = 0;
  if (wasLost) refresh();
}

// The server ends each stream after a while, and the browser opens the next: only one that does not open is lost.
function lost() {
  live.alarm ||= setTimeout(() => showLive("not reachable"), 3000);
  if (live.source?.readyState !== EventSource.CLOSED) return;
  live.source = null; // refused, as by a proxy while the dashboard is down: the browser does not try again
  setTimeout(connect, 3000);
}

document.addEventListener("visibilitychange", () => {
  connect();
  if (live.source) refresh();
});
addEventListener("pagehide", disconnect);
addEventListener("pageshow", () => {
  count(); // a page that the browser shows again has its ticks
  connect();
});

// Rows: j and k move, Enter opens the first link.
let row = -1;
const rows = () => [...document.querySelectorAll("main tbody tr")];
function mark() {
  rows().forEach((each, number) => each.classList.toggle("current", number === row));
}
function move(step) {
  const all = rows();
  if (!all.length) return;
  row = Math.min(Math.max(row + step, 0), all.length - 1);
  mark();
  all[row].scrollIntoView({ block: "nearest" });
}

// Rows that are selected for an action: how many, all of the page, and no button for none.
const ticks = () => [...document.querySelectorAll("[form=bulk]")];
const chosen = () => ticks().filter((each) => each.checked);
function count() {
  const form = document.getElementById("bulk");
  if (!form) return;
  const [number, most] = [chosen().length, ticks().length];
  const all = form.querySelector("[data-bulk=all]");
  all.parentElement.hidden = false;
  Object.assign(all, { checked: number === most, indeterminate: number > 0 && number < most });
  for (const each of form.querySelectorAll("button")) each.disabled = !number;
  form.querySelector("output").textContent = number ? `${number} selected` : "";
}
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-bulk=all]")) for (const each of ticks()) each.checked = event.target.checked;
  else if (!event.target.matches("[form=bulk]")) return;
  count();
  if (live.source) showLive("live");
});

const pages = { o: "", q: "queues", l: "logs", s: "schedules", w: "workers", p: "pipelines", d: "doctor", a: "audit" };
let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const help = document.getElementById("help");
  if (isGoing) {
    isGoing = false;
    const link = document.querySelector(`#menu li:nth-child(${Object.keys(pages).indexOf(event.key) + 1}) a`);
    if (event.key in pages && link) location.href = link.href;
    return;
  }
  if (event.key === "g") isGoing = true;
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "Enter" && row >= 0 && document.activeElement === document.body) rows()[row]?.querySelector("a")?.click();
  else if (event.key === "?") help.open ? help.close() : help.showModal();
  else if (event.key === "/") {
    const search = document.querySelector("main [type=search], main form[method=get] input") ?? document.querySelector(".find input");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select?.();
    }
  }
});

// Copying: also where the clipboard needs a secure context that this page has not.
async function copy(element) {
  const text = element.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  element.classList.add("copied");
  setTimeout(() => element.classList.remove("copied"), 1200);
}
document.addEventListener("click", (event) => {
  const copied = event.target.closest("[data-copy]");
  if (copied) copy(copied);
  const act = event.target.closest("[data-act]")?.dataset.act;
  if (act === "theme") {
    const isDark = (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("pgsluice-theme", root.dataset.theme);
  } else if (act === "help") document.getElementById("help").showModal();
  else if (act === "live") {
    live.isPaused = !live.isPaused;
    connect();
  }
});

for (const name of ["theme", "help"]) button(name).hidden = false;
count();
connect();
