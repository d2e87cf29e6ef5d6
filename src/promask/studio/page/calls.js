"use strict";
// What all scripts use: the elements of the page, what the server told, and calls to it.
const at = (id) => document.getElementById(id);
const known = JSON.parse(at("known").textContent);
const token = new URLSearchParams(location.search).get("token");

function address(path, query = {}) {
  return `${path}?${new URLSearchParams({ ...query, token })}`;
}

// The answer of the server; if it refuses, an error with its one sentence.
async function call(method, path, body) {
  const headers = { "X-Promask-Token": token };
  if (body && !(body instanceof Blob)) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, { method, headers, body });
  } catch {
    throw new Error("The studio does not answer: is promask studio still running?");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.error || `The studio answered with status ${answer.status}.`);
  return content;
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// What a tab remembers when it is loaded again; the studio knows nobody's jobs but by their ids.
function remember(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(value));
  } catch { /* not kept */ }
}

function remembered(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}
