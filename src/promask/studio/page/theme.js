// Light or dark: as the system has it, until somebody presses the button; and the tabs above the result.
(() => {
  try {
    const kept = localStorage.getItem("promask-theme");
    if (kept) document.documentElement.dataset.theme = kept;
  } catch { /* not kept */ }
  at("theme").addEventListener("click", () => {
    const other = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    try { localStorage.setItem("promask-theme", other); } catch { /* not kept */ }
    document.dispatchEvent(new Event("theme"));
  });
})();

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return document.documentElement.dataset.theme || dark;
}

const TABS = ["data", "mask", "report"];

function show(name) {
  for (const each of TABS) {
    const chosen = each === name;
    at(`tab-${each}`).setAttribute("aria-selected", String(chosen));
    at(`tab-${each}`).tabIndex = chosen ? 0 : -1;
    at(`panel-${each}`).hidden = !chosen;
  }
}

const shown = () => TABS.find((name) => !at(`panel-${name}`).hidden);

for (const name of TABS) at(`tab-${name}`).addEventListener("click", () => show(name));
document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const open = TABS.filter((name) => !at(`tab-${name}`).disabled);
  const next = open[(open.indexOf(shown()) + by + open.length) % open.length];
  show(next);
  at(`tab-${next}`).focus();
});
