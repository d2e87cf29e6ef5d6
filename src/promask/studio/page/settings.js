// The settings: what will be asked for, checked by the server at every change.
const LEAST = 2, MOST = 32;
const wanted = (name) => document.querySelector(`input[name=${name}]:checked`).value;

// Fields that are left empty stay as they are on the command line.
function wish() {
  const result = { ...(source.upload ? { upload: source.upload } : { data: source.data }), ...source.reading };
  if (ownMask.upload) result.mask = ownMask.upload;
  result.acceleration = at("acceleration").valueAsNumber;
  if (pattern.chosen && !(source.description && wanted("pattern") === source.description.pattern)) result.pattern = wanted("pattern");
  result.loss = wanted("loss");
  result.recon = at("recon").value;
  const axis = at("axis").value;
  if (result.pattern === "1d" && axis !== "") result.axis = axis.startsWith("k") ? axis : Number(axis);
  for (const name of ["coils", "centre", "steps", "seed"]) {
    if (at(name).value !== "") result[name] = at(name).valueAsNumber;
  }
  for (const name of ["acs_shape", "shutter"]) {
    if (at(name).value !== "") result[name] = at(name).value;
  }
  return result;
}

// Until somebody chooses, the pattern is the one that the data suggest: lines, if their readout is known.
const pattern = { chosen: false };

// Lines may undersample any direction but the readout; usually the last one.
function followData() {
  const about = source.description;
  if (about) {
    if (!pattern.chosen) document.querySelector(`input[name=pattern][value="${about.pattern}"]`).checked = true;
    const before = at("axis").value;
    const encoded = [...about.shape.keys()].filter((axis) => about.directions[axis] !== about.readout).reverse();
    at("axis").replaceChildren(...encoded.map((axis, place) => {
      const name = about.directions[axis] || `axis ${axis}`;
      const run = about.shape.length === 2 ? `: lines run ${axis ? "down" : "across"}` : "";
      return new Option(`${name}${run}`, place ? about.directions[axis] || axis : "");
    }));
    at("axis").value = before;
    if (at("axis").selectedIndex < 0) at("axis").selectedIndex = 0;
  }
  at("axis-row").hidden = wanted("pattern") !== "1d";
}

const checking = { timer: 0, turn: 0 };

function checkSoon() {
  at("axis-row").hidden = wanted("pattern") !== "1d";
  clearTimeout(checking.timer);
  checking.timer = setTimeout(check, 80);
}

async function check() {
  const turn = ++checking.turn;
  if (!(source.upload || source.data) || at("data-error").textContent) {
    at("budget").textContent = at("settings-error").textContent = "";
    showCommand("");
    mayLearn();
    return;
  }
  let found = { command: "", budget: null }, problem = "";
  try {
    found = await call("POST", "/api/check", wish());
  } catch (error) {
    problem = error.message;
  }
  if (turn !== checking.turn) return;
  at("settings-error").textContent = problem;
  showCommand(found.command);
  const noun = wanted("pattern") === "1d" ? "line" : "location";
  at("budget").textContent = found.budget ? `${found.budget.acquired} of ${count(found.budget.units, noun)} are acquired.` : "";
  mayLearn();
}

// An option and its value stay on one line, and so does the beginning of a second command.
function showCommand(text) {
  const pieces = text.split(/ (?=--|&&)/).map((piece) => Object.assign(document.createElement("span"), { textContent: piece }));
  at("command").replaceChildren(...pieces.flatMap((piece, n) => (n ? [" ", piece] : [piece])));
}

function mayLearn() {
  at("learn").disabled = !source.description || ownMask.sending || at("settings-error").textContent !== "" || job.running;
}

const toSlider = (value) => Math.log(value / LEAST) / Math.log(MOST / LEAST);
const fromSlider = (place) => LEAST * (MOST / LEAST) ** place;
const rounded = (value) => (value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

at("acceleration-slider").addEventListener("input", () => {
  at("acceleration").value = rounded(fromSlider(at("acceleration-slider").valueAsNumber));
  checkSoon();
});
at("acceleration").addEventListener("input", () => {
  at("acceleration-slider").value = toSlider(at("acceleration").valueAsNumber || LEAST);
});
at("settings").addEventListener("input", checkSoon);
document.addEventListener("source", () => { followData(); check(); });
for (const button of document.querySelectorAll("input[name=pattern]")) {
  button.addEventListener("change", () => { pattern.chosen = true; });
}
at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(at("command").textContent);
    at("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(at("command"));
    at("copy").textContent = "Ctrl-C";
  }
  setTimeout(() => { at("copy").textContent = "Copy"; }, 1500);
});
