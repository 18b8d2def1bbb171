"use strict";

// Everything that comes from the log is put into the page by textContent.
const form = document.getElementById("filter");
const $ = (id) => document.getElementById(id);
const interval = 2000; // milliseconds between two looks at the log
let timer = 0;
let running = null; // the AbortController of the request that is on its way

function parameters() {
  const p = new URLSearchParams();
  for (const name of ["since", "verdict", "host", "from"]) {
    const value = form.elements[name].value.trim();
    if (value) p.set(name, value);
  }
  return p;
}

async function load(path, params, signal) {
  const response = await fetch(path + "?" + params, { signal });
  if (!response.ok) throw new Error((await response.text()).trim() || response.statusText);
  return response.json();
}

async function refresh() {
  clearTimeout(timer);
  if (running) running.abort();
  const mine = running = new AbortController();
  try {
    const params = parameters();
    const summary = await load("api/summary", params, mine.signal);
    params.set("limit", "200");
    const records = await load("api/records", params, mine.signal);
    showSummary(summary);
    showRecords(records.reverse());
    $("error").hidden = true;
  } catch (error) {
    if (error.name === "AbortError") return;
    $("error").textContent = error.message;
    $("error").hidden = false;
  }
  if (running === mine && form.elements.live.checked && !document.hidden) timer = setTimeout(refresh, interval);
}

function cell(row, text, kind) {
  const td = row.insertCell();
  td.textContent = text;
  if (kind) td.className = kind;
  return td;
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function showSummary(s) {
  $("allowed").textContent = sum(s.allowed).toLocaleString();
  $("denied").textContent = sum(s.denied).toLocaleString();
  $("lost").hidden = s.lost === 0;
  $("lost").firstElementChild.textContent = s.lost.toLocaleString();
  showChart(s.allowed, s.denied);
  const body = document.createElement("tbody");
  for (const { host, count } of s.topDenied) {
    const row = body.insertRow();
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = host;
    button.addEventListener("click", () => { form.elements.host.value = host; refresh(); });
    row.insertCell().append(button);
    cell(row, count.toLocaleString());
  }
  $("top").tBodies[0].replaceWith(body);
}

// showChart stacks denied on allowed, one bar per slice of the time.
function showChart(allowed, denied) {
  const width = 600 / allowed.length, height = 88;
  const most = Math.max(1, ...allowed.map((n, i) => n + denied[i]));
  const bars = [];
  const bar = (kind, i, from, count) => {
    if (!count) return;
    const r = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const h = Math.max(1, count / most * height);
    r.setAttribute("class", kind);
    r.setAttribute("x", i * width);
    r.setAttribute("y", 90 - from / most * height - h);
    r.setAttribute("width", width * 0.85);
    r.setAttribute("height", h);
    bars.push(r);
  };
  allowed.forEach((n, i) => { bar("allowed", i, 0, n); bar("denied", i, n, denied[i]); });
  $("chart").replaceChildren(...bars);
}

function workload(w) {
  return w.namespace || w.name || w.serviceAccount ? (w.namespace || "") + "/" + (w.name || w.serviceAccount || "")
    : w.principal || "";
}

function showRecords(records) {
  const body = document.createElement("tbody");
  for (const r of records) {
    const row = body.insertRow();
    cell(row, new Date(r.time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }));
    if (r.class === "gap") {
      cell(row, "gap", "denied");
      cell(row, r.count + " records of " + r.proxy + " lost: " + (r.reason || "")).colSpan = 8;
      continue;
    }
    cell(row, r.verdict || "", r.verdict === "denied" ? "denied" : "allowed");
    cell(row, r.path || "");
    cell(row, workload(r.workload)).title = r.workload.principal || "";
    cell(row, r.host || "");
    cell(row, r.port || "");
    cell(row, r.destination || "");
    cell(row, r.method ? r.method + (r.status ? " " + r.status : "") : r.protocol || "");
    const by = r.decidedBy;
    cell(row, [by.kind, [by.namespace, by.name].filter(Boolean).join("/"), by.rule].filter(Boolean).join(" "));
    cell(row, r.reason || "");
  }
  $("records").tBodies[0].replaceWith(body);
  $("empty").hidden = records.length > 0;
}

let typing = 0;
form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(refresh, 250); });
form.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && form.elements.live.checked) refresh(); });
refresh();
